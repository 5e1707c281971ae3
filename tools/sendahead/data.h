/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reads file data into the page cache ahead of the send, and drops them behind it.
 */
#ifndef SENDAHEAD_DATA_H
#define SENDAHEAD_DATA_H

#include "disk.h"
#include "extents.h"
#include "shared.h"

struct piece;

struct data {
	const struct disk *disk;
	struct shared *shared;	/* takes the counts */
	u32 subvolume;		/* number of the subvolume in the stream */
	u64 tree;
	u64 window;		/* limit of bytes ahead of the send */
	u32 threads;
	struct {
		struct piece *v;
		size_t n, room;
	} drops;		/* pieces to be dropped, in the order of the stream */
};

/**
 * data_read() - read extents as the send comes near
 * @data: the state for the subvolume
 * @v: the extents, in the order of the stream
 * @n: number of extents
 *
 * Returns when all is read. Reading stays at most the window ahead of the send.
 */
void data_read(struct data *data, const struct extent *v, size_t n);

/* Drop the data that the send has passed, or all once it is over. */
void data_drop(struct data *data);

#endif
