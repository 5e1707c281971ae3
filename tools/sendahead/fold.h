/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Files made under their name: of "make o257-7-0" and, as the next command, "rename
 * o257-7-0 to where it belongs" becomes one command.
 */
#ifndef SENDAHEAD_FOLD_H
#define SENDAHEAD_FOLD_H

#include <limits.h>

#include "util.h"

/* Bytes that may be held back until more of the stream is there, less than this. */
#define FOLD_HELD 20480

/* What comes next. */
enum fold_state {
	FOLD_AT_HEAD,		/* the head of a stream */
	FOLD_AT_COMMAND,	/* a command */
	FOLD_WITHIN,		/* bytes of a command that go as they are */
	FOLD_UNKNOWN,		/* what is not understood: all of it goes as it is */
};

struct fold {
	int unchanged;		/* nothing is to be changed */
	enum fold_state state;
	u64 left;		/* bytes of a command that go as they are */
	int within;		/* a subvolume has begun, and not ended */
	int at_end;		/* the next command ends it, and waits */
	int is_last_command;	/* of a stream: its head comes next */
	void *fresh;		/* directories, by their paths, as tsearch() has them */
	size_t nr_fresh;
	int is_new;		/* of what is at the top everything is known */
	u8 *taken;		/* names, as bits */
	size_t nr_taken;
	char last[PATH_MAX];	/* what was made last, where it is now */
	u32 nr_last;
	u16 last_made;		/* by this command */
	u64 changed;		/* commands saved */
	u32 begun;		/* subvolumes */
	char name[256];		/* of the last one */
	int snapshot;		/* the last one is based on that with this UUID, zeros: not known */
	u8 parent[16];
};

/**
 * fold_run() - change what can be, in the next bytes of a stream
 * @fold: begins as zeros
 * @p: the bytes, those held back the last time first; changed in place
 * @n: how many, updated: there can only become fewer
 * @hold: whether to wait for the command that may follow
 *
 * A file made under its final name inherits from the directory there what one renamed to
 * it does not: an access list, properties of btrfs. And a rename replaces what has the name.
 * So it is only done at the top of a new subvolume, or in a directory that the stream has made
 * there or in another such one, and given none of these; and for a name that is not taken. Such
 * a directory stays what it is until something is renamed or removed that may be a directory: all
 * of them are forgotten then.
 *
 * In front of the command that ends a subvolume it stops, with @at_end; called again, it goes on.
 *
 * Return: bytes of them that are to be passed on, the others are held back
 */
size_t fold_run(struct fold *fold, u8 *p, size_t *n, int hold);

void fold_free(struct fold *fold);

#endif
