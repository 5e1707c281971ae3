/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Maps logical addresses of a file system to its devices.
 */
#ifndef SENDAHEAD_CHUNKS_H
#define SENDAHEAD_CHUNKS_H

#include "util.h"

/* A number to sort by position: device, then byte on the device in steps of 4 KiB. */
static inline u64 order_of(u64 devid, u64 byte)
{
	return devid << 48 | (byte >> 12 & ((1ULL << 48) - 1));
}

static inline u64 order_device(u64 order)
{
	return order >> 48;
}

static inline u64 order_byte(u64 order)
{
	return order << 16 >> 4;
}

struct chunk {
	u64 start;
	u64 length;
	u64 type;
	u64 stripe_len;
	u32 nr;			/* number of stripes */
	u32 copies;		/* number of copies of each byte, 0: unknown profile */
	struct btrfs_stripe *stripes;	/* in the format of the disk */
};

/* All chunks, sorted by start. */
struct chunks {
	struct chunk *v;
	size_t n, room;
};

/**
 * chunks_add() - add a chunk item
 * @chunks: gets the chunk
 * @start: logical address of the chunk; calls are made in ascending order
 * @item: the item
 * @len: its size in bytes
 *
 * Return: 0, or -1 if the item is invalid
 */
int chunks_add(struct chunks *chunks, u64 start, const u8 *item, size_t len);

/**
 * chunks_map() - find a block on a device
 * @chunks: all chunks
 * @logical: logical address of the block
 * @len: its size in bytes; it must not cross a stripe
 * @copy: which copy, from 0
 * @order: set to its position, as of order_of()
 *
 * Return: number of copies, or 0 if the block cannot be mapped
 */
u32 chunks_map(const struct chunks *chunks, u64 logical, u32 len, u32 copy, u64 *order);

/*
 * Return: a number to sort by that ascends on each device, and of stripes is about the same on all: so
 * all disks have something to read. 0: not known.
 */
u64 chunks_row(const struct chunks *chunks, u64 logical);

#endif
