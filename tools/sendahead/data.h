/* SPDX-License-Identifier: GPL-2.0 */
/*
 * File data read into the page cache ahead of the send, and dropped behind it.
 */
#ifndef SENDAHEAD_DATA_H
#define SENDAHEAD_DATA_H

#include "disk.h"
#include "extents.h"
#include "shared.h"

struct piece;

struct data {
	const struct disk *disk;
	struct shared *shared;	/* where it is counted */
	u32 subvolume;		/* its number in the stream */
	u64 tree;
	u64 window;		/* bytes ahead of the send */
	u64 batches;		/* begun */
	struct {
		u64 time, waited;
		int64_t pipeline;	/* bytes of others in it */
	} before;		/* the first */
	u32 threads;
	struct {
		struct piece *v;
		size_t n, room;
	} drops;		/* read, and to be dropped, in the order of the stream */
};

/**
 * data_read() - read extents as the send comes near
 * @data: of the subvolume
 * @v: the extents, in the order of the stream
 * @n: how many
 *
 * Returns when all of it has been read, which is at most the window ahead of the send.
 */
void data_read(struct data *data, const struct extent *v, size_t n);

/* Drop what the send has passed, all of it once it is over. */
void data_drop(struct data *data);

#endif
