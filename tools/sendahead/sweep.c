// SPDX-License-Identifier: GPL-2.0
/*
 * Reads leaves into the kernel's cache. A search for the first key of a leaf reads this leaf and no
 * other. Many are requested at the same time, so that the disk can choose a good order.
 */
#include <errno.h>
#include <stdlib.h>

#include "throttle.h"
#include "tree-search.h"
#include "sweep.h"
#include "threads.h"

struct wanted {
	u64 order;			/* position on the disk; small: it is not known */
	u64 bytenr;
	u64 tree;			/* 0: the leaf was read */
	struct key key;			/* its first key */
};

static void touch(size_t i, void *arg)
{
	struct sweep *sweep = arg;
	struct stats *stats = &sweep->shared->stats;
	struct wanted *wanted = &sweep->v[i];
	struct search search = {
		.tree = wanted->tree, .min = wanted->key, .max = wanted->key, .nr = 1,
	};
	u64 memory[64];
	struct items items = { .args = memory, .size = 256 };

	if (!wanted->tree || (sweep->stop && sweep->stop(sweep->arg)))
		return;
	throttle_enter(1);
	if (search_run(sweep->disk->fd, &search, &items) && errno != EOVERFLOW)
		stats->leaves_failed++;
	else
		stats->leaves++;
	throttle_leave();
	wanted->tree = 0;
}

void sweep_want(struct sweep *sweep, u64 tree, const struct leaf *leaf)
{
	struct wanted wanted = { .bytenr = leaf->at.bytenr, .tree = tree, .key = leaf->at.key };

	if (!leaf->at.bytenr) {
		/* the kernel finds it: threads look for a key in different trees, in no leaf twice */
		wanted.order = (leaf->at.key.objectid + (leaf->at.key.offset >> 12)) % 65536;
	} else {
		/* the address of a leaf in a new chunk is not known: such leaves come first */
		disk_place(sweep->disk, leaf->at.bytenr, &wanted.order);
		if (sweep->noted)
			*append(sweep->noted) = wanted.order;
		wanted.order = disk_in_turn(sweep->disk, wanted.bytenr, wanted.order);
	}
	*append(sweep) = wanted;
}

void sweep_run(struct sweep *sweep)
{
	/* a new sample each time: these leaves may be of another tree */
	struct sampling sampling = { 0 };
	size_t n = sweep->n, i;
	int reads;

	sort_list(sweep, by_number);
	sweep->n = 0;
	reads = n && parallel(sweep->threads, n, touch, sweep, &sampling, sweep->disk,
			      &sweep->v->bytenr, sizeof(*sweep->v));
	if (!reads && !(sweep->stop && sweep->stop(sweep->arg)))
		return;
	for (i = 0; i < n; i++)
		if (sweep->v[i].tree)
			sweep->v[sweep->n++] = sweep->v[i];
}
