/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tells which disk reads what, if the file system is on several.
 */
#ifndef SENDAHEAD_HEADS_H
#define SENDAHEAD_HEADS_H

#include "disk.h"

/* A list of items to be read, and the disks that can read them. */
struct heads {
	const struct disk *disk;
	struct option *v;		/* sorted by disk, then by position there */
	size_t n, room;
	u8 *reader;			/* for each item: the disk that shall read it, or TAKEN */
	size_t nr_items, items_room;
	size_t left;			/* number of items not taken */
	struct head {
		size_t begin, end, at;	/* indices of its options in @v, and of the next one */
		u32 under_way;
	} head[MAX_HEADS];
	u32 under_way;
	u32 depth;			/* limit of requests of each disk */
};

/* Return: an empty list for a file system. */
struct heads heads_of(const struct disk *disk);

/* Add an item at a logical address. Gives up if there is no memory. */
void heads_add(struct heads *heads, u64 logical);

/**
 * heads_begin() - begin to read, after all items were added
 * @heads: the list
 * @depth: limit of requests of each disk at the same time
 *
 * Return: number of disks; with one, the items shall be read in the order they were added
 */
u32 heads_begin(struct heads *heads, u32 depth);

/**
 * heads_take() - take the item that this thread shall read next; a lock is held
 * @heads: the list
 * @item: set to the number of the item, from 0 in the order they were added
 * @head: set to the disk, for heads_leave()
 *
 * Return: whether there is one for this thread now
 */
int heads_take(struct heads *heads, size_t *item, u32 *head);

/* Tell that the item is in memory, and whether the disk has read it now. A lock is held. */
void heads_leave(struct heads *heads, u32 head, int read);

/* Return: whether some disk could read more now, perhaps asked by another thread. */
int heads_idle(struct heads *heads);

void heads_free(struct heads *heads);

#endif
