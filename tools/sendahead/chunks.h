/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where the logical addresses of a file system lie on its devices.
 */
#ifndef SENDAHEAD_CHUNKS_H
#define SENDAHEAD_CHUNKS_H

#include "util.h"

struct chunk {
	u64 start;
	u64 length;
	u64 type;
	u64 stripe_len;
	u32 nr;			/* of stripes */
	u32 copies;		/* of each byte, 0: of a profile that is not known here */
	struct btrfs_stripe *stripes;	/* as on the disk */
};

/* Sorted by start. */
struct chunks {
	struct chunk *v;
	size_t n, room;
};

/**
 * chunks_add() - take a chunk item
 * @chunks: where to
 * @start: its logical address, not below that of the ones before
 * @item: the item
 * @len: bytes of it
 *
 * Return: 0, or -1 if it makes no sense
 */
int chunks_add(struct chunks *chunks, u64 start, const u8 *item, size_t len);

/**
 * chunks_map() - where a block lies
 * @chunks: all chunks
 * @logical: its logical address
 * @len: bytes of it, which must lie together
 * @copy: which copy of it, from 0
 * @devid: set to the device
 * @physical: set to the address there
 *
 * Return: how many copies there are, or 0 if that is not known
 */
u32 chunks_map(const struct chunks *chunks, u64 logical, u32 len, u32 copy, u64 *devid,
	       u64 *physical);

void chunks_free(struct chunks *chunks);

#endif
