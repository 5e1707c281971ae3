/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reads leaves into the kernel's cache, in the order of the disk.
 */
#ifndef SENDAHEAD_SWEEP_H
#define SENDAHEAD_SWEEP_H

#include "shared.h"
#include "walk.h"

struct orders {
	u64 *v;
	size_t n, room;
};

/* A list of leaves to be read. */
struct sweep {
	const struct disk *disk;
	struct shared *shared;		/* takes the counts */
	u32 threads;
	/* called with @arg: whether to stop, and keep the rest of the list; or NULL */
	int (*stop)(void *arg);
	void *arg;
	struct orders *noted;		/* gets the positions of the leaves, or NULL */
	struct wanted *v;
	size_t n, room;
};

/**
 * sweep_want() - add a leaf to the list
 * @sweep: the list
 * @tree: the tree that has the leaf
 * @leaf: the leaf
 *
 * Gives up if there is no memory.
 */
void sweep_want(struct sweep *sweep, u64 tree, const struct leaf *leaf);

/* Read all leaves of the list, unless a sample of them is in memory. Returns when they are read. */
void sweep_run(struct sweep *sweep);

#endif
