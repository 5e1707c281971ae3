/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The process that reads ahead.
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

/* What a send needs, where none runs. */
struct needs {
	const struct disk *disk;
	struct leaves leaves;		/* of both trees, in the order of keys */
	u64 nodes;			/* above these */
	/* what leaves were looked into for last: extents in the stream that are not inline */
	const struct extent *extents;
	size_t nr_extents;
	u64 data_bytes;			/* in the stream, also inline */
	struct orders others;		/* where the leaves lie that are looked up, so far */
	struct send_ahead *ahead;
};

/* List all leaves of both trees that a send reads. Gives up where that cannot be told. */
void send_ahead_list(const struct options *options, struct shared *shared, struct needs *needs);

/* Look into leaves from number @from on, and what the send looks up for these. */
void send_ahead_look_into(struct needs *needs, size_t from, size_t n);

#endif
