/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Leaves read into the kernel's cache, in the order of the disk.
 */
#ifndef SENDAHEAD_SWEEP_H
#define SENDAHEAD_SWEEP_H

#include "shared.h"
#include "walk.h"

/* What is wanted: nothing is done before sweep_run(). */
struct sweep {
	const struct disk *disk;
	struct shared *shared;		/* where they are counted */
	u32 threads;
	u32 subvolume;			/* number in the stream, from 1 */
	/* whether to stop, which what is wanted outlives; or NULL */
	int (*stop)(void *arg);
	void *arg;
	struct wanted *v;
	size_t n, room;
};

/**
 * sweep_want() - note a leaf
 * @sweep: all that is wanted
 * @tree: the tree that it is found in
 * @leaf: the leaf
 * @ino: it is of no use once an inode from this one on is made, or 0
 *
 * Gives up where there is no memory.
 */
void sweep_want(struct sweep *sweep, u64 tree, const struct leaf *leaf, u64 ino);

/*
 * Read all that is wanted, unless a sample of it is in memory, and wait for it: what it was stopped
 * before is wanted still.
 */
void sweep_run(struct sweep *sweep);

#endif
