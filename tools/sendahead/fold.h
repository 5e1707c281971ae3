/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Folds two commands of a stream into one. Send makes a file under a temporary name ("mkfile
 * o257-7-0") and renames it with the next command. The one command makes it under its final name.
 */
#ifndef SENDAHEAD_FOLD_H
#define SENDAHEAD_FOLD_H

#include "stream.h"

/* Fewer bytes than these are held back until more of the stream is there. */
#define FOLD_HELD 20480

struct fold {
	int unchanged;		/* set by the caller: fold nothing */
	int in_stream;		/* a command follows, not a stream header */
	int lost;		/* the stream cannot be parsed: nothing more is changed */
	u64 left;		/* bytes of the command still to be passed on unchanged */
	int within;		/* a subvolume has begun and not ended */
	int at_end;		/* stopped in front of the command that ends it */
	void *fresh;		/* paths of fresh directories, a tree of tsearch() */
	size_t nr_fresh;
	int is_new;		/* the subvolume began empty: its top directory is fresh */
	u8 *taken;		/* bits of paths and names that may exist, by their hashes */
	size_t nr_taken;
	char last[PATH_MAX];	/* the present path of the file that was made last */
	u32 nr_last;
	u16 last_made;		/* the command that made it */
	u64 changed;		/* commands saved so far */
	u32 begun;		/* number of subvolumes that have begun */
	u8 first[FIRST_MOST];	/* the command that began the last one */
};

/**
 * fold_run() - fold the commands in the next bytes of a stream
 * @fold: zeros at first
 * @p: the bytes, beginning with those held back by the last call; changed in place
 * @n: number of bytes, updated: it can only become smaller
 * @hold: whether to hold a command back until the next one is there
 *
 * A file that is made under its final name inherits from its directory a default access list and
 * the properties of btrfs; one that is renamed to it does not. And a rename replaces an existing
 * file. So commands are folded only where the directory is fresh and the name is not taken. A
 * directory is fresh if it is the top directory of a new subvolume, or if the stream has made it in
 * a fresh directory and given it nothing to inherit. When something is renamed or removed that may
 * be a directory, all fresh directories are forgotten.
 *
 * Stops in front of the command that ends a subvolume, with @at_end set; the next call goes on.
 *
 * Return: how many of the @n bytes to pass on; the others are held back
 */
size_t fold_run(struct fold *fold, u8 *p, size_t *n, int hold);

void fold_free(struct fold *fold);

#endif
