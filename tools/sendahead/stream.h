/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The stream of a send, followed to know how far it is.
 */
#ifndef SENDAHEAD_STREAM_H
#define SENDAHEAD_STREAM_H

#include "util.h"

/* What the stream has told of the subvolume it is at. */
struct told {
	u32 begun;		/* subvolumes that have begun */
	int snapshot;		/* it is based on another */
	u8 uuid[16];
	u8 parent_uuid[16];
	u64 data;		/* bytes of file data: written, cloned, or only told of */
	u64 ino;		/* the last inode made, but for directories */
};

struct stream {
	int state;
	u32 version;
	u8 part[32];		/* of what is collected before it is looked at */
	u32 have, need;
	u64 skip;		/* bytes that do not matter */
	u64 left;		/* of the command, not yet seen */
	u16 command;
	u16 attribute;
	u32 length;		/* of the attribute */
	u64 data;		/* of the command */
	struct told told;
};

void stream_init(struct stream *stream);

/**
 * stream_feed() - look at the next bytes
 * @stream: the stream
 * @p: the bytes
 * @n: how many
 *
 * Return: 0, or -1 if this is no stream that is known here: nothing is followed any more
 */
int stream_feed(struct stream *stream, const u8 *p, size_t n);

/**
 * stream_pass() - skip bytes that do not matter, without looking at them
 * @stream: the stream
 *
 * Return: how many the caller has to leave out
 */
u64 stream_pass(struct stream *stream);

#endif
