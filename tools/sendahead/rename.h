/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Files made under their name: of "make o257-7-0" and, as the next command, "rename
 * o257-7-0 to where it belongs" becomes one command.
 */
#ifndef SENDAHEAD_RENAME_H
#define SENDAHEAD_RENAME_H

#include "util.h"

/* Bytes that may be held back until more of the stream is there, less than this. */
#define RENAME_HELD 20480

struct rename {
	int unchanged;		/* nothing is to be changed */
	int off;		/* the rest of the stream is not known: it goes as it is */
	u32 version;		/* of the stream, 0: its head comes next */
	int ends;		/* the command that ends a stream comes next */
	u64 left;		/* bytes of a command that go as they are */
	u64 *plain;		/* directories, as hashes of their paths; 0: free */
	size_t nr_plain, room_plain;
	u64 changed;		/* commands saved */
	u32 begun;		/* subvolumes */
	int snapshot;		/* the last one is based on that with this UUID, zeros: not known */
	u8 parent[16];
};

/**
 * rename_run() - change what can be, in the next bytes of a stream
 * @rename: begins as zeros
 * @p: the bytes, those held back the last time first; changed in place
 * @n: how many, updated: there can only become fewer
 * @hold: whether to wait for the command that may follow
 *
 * A file made under its final name inherits from the directory there what one renamed to
 * it does not: an access list, properties of btrfs. So it is only done where the directory
 * is the top, where all are made, or was made by the stream, and given none of these.
 *
 * In front of the end of a stream it stops, with @rename->ends; called again, it goes on.
 *
 * Return: bytes of them that are to be passed on, the others are held back
 */
size_t rename_run(struct rename *rename, u8 *p, size_t *n, int hold);

void rename_free(struct rename *rename);

#endif
