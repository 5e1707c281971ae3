/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The process that reads ahead of btrfs send.
 */
#ifndef SENDAHEAD_SEND_AHEAD_H
#define SENDAHEAD_SEND_AHEAD_H

#include "extents.h"
#include "options.h"
#include "shared.h"
#include "sweep.h"

/*
 * Read ahead of the send that @options ask for, until it is over. @shared says how far the send
 * is, and takes the counts of what was read.
 */
void send_ahead(const struct options *options, struct shared *shared);

struct leaves {
	struct leaf *v;
	size_t n, room;
};

/* What a send would read, for an estimate. */
struct needs {
	const struct disk *disk;
	struct leaves leaves;		/* of both trees, in the order of keys */
	u64 nodes;			/* number of nodes above the leaves */
	/* set by send_ahead_look_into(): extents in the stream that are not inline, */
	const struct extent *extents;
	size_t nr_extents;
	u64 data_bytes;			/* file data in the stream, inline data included, */
	struct orders others;		/* and positions of the leaves looked up so far */
	struct send_ahead *ahead;
};

/* List all leaves of both trees that a send reads. Gives up if a node cannot be read. */
void send_ahead_list(const struct options *options, struct shared *shared, struct needs *needs);

/* Look into @n leaves from index @from on, and find what the send looks up for them. */
void send_ahead_look_into(struct needs *needs, size_t from, size_t n);

#endif
