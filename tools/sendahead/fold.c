// SPDX-License-Identifier: GPL-2.0
/*
 * Folds commands of a stream. The stream is not trusted: a command that is not exactly as send
 * writes it is passed on unchanged.
 */
#include <limits.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "node.h"
#include "fold.h"
#include "stream.h"

#define FRESH_MAX (1 << 17)		/* most fresh directories remembered */
#ifndef TAKEN_BITS
#define TAKEN_BITS (1U << 25)
#endif

/* The checksum of a command, in which the checksum's own bytes count as zeros. */
static u32 checksum(const u8 *p, size_t n)
{
	static const u8 zeros[4];

	return crc32c(crc32c(crc32c(0, p, 6), zeros, 4), p + COMMAND_HEAD, n - COMMAND_HEAD);
}

static int is_sound(const struct command *command, const u8 *p)
{
	return get_u32(p + 6) == checksum(p, command->size);
}

/* Is it a temporary name of send? o, inode, generation and a number, such as o257-7-0. */
static int is_passing(const struct text *path)
{
	u32 i, digits = 0, dashes = 0;

	if (!path->n || path->n > 64 || path->p[0] != 'o')
		return 0;
	for (i = 1; i < path->n; i++) {
		if (path->p[i] >= '0' && path->p[i] <= '9') {
			digits++;
		} else if (path->p[i] == '-' && digits) {
			digits = 0;
			dashes++;
		} else {
			return 0;
		}
	}
	return digits && dashes == 2;
}

/* Return: length of a path's directory, without the slash; -1 if send never writes such a path. */
static int directory_of(const struct text *path)
{
	u32 i, begin = 0;
	int slash = 0;

	if (!path->n || path->n >= PATH_MAX || memchr(path->p, 0, path->n))
		return -1;
	for (i = 0; i <= path->n; i++) {
		if (i < path->n && path->p[i] != '/')
			continue;
		if (i == begin || (i == begin + 1 && path->p[begin] == '.') ||
		    (i == begin + 2 && path->p[begin] == '.' && path->p[begin + 1] == '.'))
			return -1;
		if (i < path->n)
			slash = i;
		begin = i + 1;
	}
	return slash;
}

static int by_text(const void *a, const void *b)
{
	const struct text *x = a, *y = b;

	return x->n != y->n ? (x->n < y->n ? -1 : 1) : memcmp(x->p, y->p, x->n);
}

/* Is this directory fresh, as described at fold_run()? */
static int is_fresh(const struct fold *fold, struct text path)
{
	return !!tfind(&path, &fold->fresh, by_text);
}

static void forget(struct fold *fold)
{
	tdestroy(fold->fresh, free);
	fold->fresh = NULL;
	fold->nr_fresh = 0;
	fold->is_new = 0;
}

/* A subvolume begins: forget all names. */
static void begin(struct fold *fold)
{
	forget(fold);
	if (fold->nr_taken)
		memset(fold->taken, 0, TAKEN_BITS / 8);
	fold->nr_taken = 0;
}

static void add_fresh(struct fold *fold, struct text path)
{
	struct text *copy;

	if (fold->nr_fresh == FRESH_MAX || is_fresh(fold, path))
		return;
	copy = malloc(sizeof(*copy) + path.n);
	if (!copy)
		return;
	*copy = (struct text) { memcpy(copy + 1, path.p, path.n), path.n };
	if (tsearch(copy, &fold->fresh, by_text))
		fold->nr_fresh++;
	else
		free(copy);
}

static int remove_fresh(struct fold *fold, struct text path)
{
	struct text **found = tfind(&path, &fold->fresh, by_text), *copy;

	if (!found)
		return 0;
	copy = *found;
	tdelete(&path, &fold->fresh, by_text);
	free(copy);
	fold->nr_fresh--;
	return 1;
}

/*
 * Is the directory of this path the top directory, or fresh? Then no part of the path can be a
 * symbolic link.
 */
static int is_certain(const struct fold *fold, const struct text *path)
{
	int directory = directory_of(path);

	return !directory ||
		(directory > 0 && is_fresh(fold, (struct text) { path->p, directory }));
}

/* As is_certain(), and the directory has its final name. */
static int is_settled(const struct fold *fold, const struct text *path)
{
	return is_certain(fold, path) &&
		!is_passing(&(struct text) { path->p, directory_of(path) });
}

/* The number of the bit for a path, or for its last component alone. */
static u32 bit_of(const struct text *path, int whole)
{
	int directory = whole ? 0 : directory_of(path), from = directory > 0 ? directory + 1 : 0;

	return crc32c(0, path->p + from, path->n - from) % TAKEN_BITS;
}

static int is_bit(const struct fold *fold, u32 bit)
{
	return fold->taken && fold->taken[bit / 8] >> bit % 8 & 1;
}

/* May this path exist? Two paths can share a bit: then it may as well. */
static int is_taken(const struct fold *fold, const struct text *path)
{
	return is_bit(fold, bit_of(path, 1)) || is_bit(fold, bit_of(path, 0));
}

/* Note that this path exists. Unless it is settled, all paths that end with its name count. */
static void take(struct fold *fold, const struct text *path)
{
	u32 bit = bit_of(path, is_settled(fold, path));

	if (!fold->taken)
		fold->taken = calloc(TAKEN_BITS / 8, 1);
	if (!fold->taken)
		fold->unchanged = 1;
	if (directory_of(path) < 0)
		forget(fold);
	if (fold->nr_taken == TAKEN_BITS / 4)
		begin(fold);
	if (!fold->taken || is_bit(fold, bit))
		return;
	fold->taken[bit / 8] |= 1 << bit % 8;
	fold->nr_taken++;
}

static int is_last(const struct fold *fold, const struct text *path)
{
	return path->n == fold->nr_last && !memcmp(path->p, fold->last, path->n);
}

static void set_last(struct fold *fold, const struct text *path)
{
	fold->nr_last = path->n < sizeof(fold->last) ? path->n : 0;
	memcpy(fold->last, path->p, fold->nr_last);
}

/*
 * A rename that was not folded. If the old name is temporary, no other fresh path becomes wrong: a
 * directory under a temporary name has no fresh ones below, and one that is replaced is empty.
 */
static void renamed(struct fold *fold, const struct text *from, const struct text *to)
{
	int fresh = is_fresh(fold, *from), last = is_last(fold, from);

	/* any other rename may move a fresh directory, or replace it by one that is not */
	if (!is_passing(from) || (!is_certain(fold, to) &&
				  (!last || (fold->last_made == C_MKDIR && !fresh)))) {
		forget(fold);
		take(fold, to);
		return;
	}
	remove_fresh(fold, *from);
	remove_fresh(fold, *to);
	if (fresh && is_settled(fold, to))
		add_fresh(fold, *to);
	if (last)
		set_last(fold, to);
	take(fold, to);
}

/* Do files that are made in a directory inherit this attribute? */
static int is_inherited(const struct text *name)
{
	static const char acl[] = "system.posix_acl_default";

	return (name->n == sizeof(acl) - 1 && !memcmp(name->p, acl, name->n)) ||
		(name->n >= 6 && !memcmp(name->p, "btrfs.", 6));
}

/* The attributes that files inherit from @path change; it may be a link to any directory. */
static void inheritance_changes(struct fold *fold, const struct text *path)
{
	if (!path->n || (!remove_fresh(fold, *path) &&
			 (!is_last(fold, path) || fold->last_made >= C_SYMLINK)))
		forget(fold);
}

/* A file was made at @path by @command; C_LINK stands for a symbolic link as well. */
static void made_at(struct fold *fold, u16 command, const struct text *path)
{
	fold->last_made = command;
	set_last(fold, path);
	take(fold, path);
	if (command == C_MKDIR && is_settled(fold, path))
		add_fresh(fold, *path);
}

/* Learn from a command that is passed on which names exist and which directories are fresh. */
static void learn(struct fold *fold, const u8 *p, size_t n)
{
	struct command command;
	int whole = command_parse(&command, p, n, 1);
	const struct text *path = &command.attribute[A_PATH];

	switch (command.number) {
	case C_SET_XATTR:
	case C_REMOVE_XATTR:
		/* not whole: the value, which may be long, is not needed */
		if (~command.known & (BIT(A_PATH) | BIT(A_XATTR_NAME)))
			forget(fold);
		else if (is_inherited(&command.attribute[A_XATTR_NAME]))
			inheritance_changes(fold, path);
		return;
	case C_SUBVOL:
	case C_SNAPSHOT:
		begin(fold);
		fold->is_new = command.number == C_SUBVOL;
		fold->begun++;
		memset(fold->first, 0, sizeof(fold->first));
		memcpy(fold->first, p, min_u64(n, sizeof(fold->first)));
		return;
	}
	/* send begins with the owner and mode of the top directory, whose path is empty */
	if (!whole || (!path->n && command.number != C_CHMOD) || command.number == C_RMDIR ||
	    (command.number == C_RENAME && command.known != (BIT(A_PATH) | BIT(A_PATH_TO))) ||
	    (command.number == C_CHMOD && command.attribute[A_MODE].n != 8))
		forget(fold);
	else if (command.number == C_RENAME)
		renamed(fold, path, &command.attribute[A_PATH_TO]);
	else if (command.number <= C_LINK)
		made_at(fold, is_passing(path) ? command.number : C_LINK, path);
	/* setgid: the group is inherited */
	else if (command.number == C_FILEATTR || get_u64(command.attribute[A_MODE].p) & S_ISGID)
		inheritance_changes(fold, path);
}

/* Can the two commands be folded? */
static int belong_together(const struct fold *fold, const struct command *make,
			   const struct command *move, const u8 *p)
{
	const u32 may = BIT(A_INO) | BIT(A_MODE) | BIT(A_RDEV) | BIT(A_PATH) | BIT(A_PATH_LINK);
	const struct text *path = &make->attribute[A_PATH], *from = &move->attribute[A_PATH];
	const struct text *to = &move->attribute[A_PATH_TO];

	if (fold->unchanged || make->known & ~may || !is_passing(path) ||
	    move->known != (BIT(A_PATH) | BIT(A_PATH_TO)) || by_text(path, from) ||
	    !by_text(path, to))
		return 0;
	/* the new name must not exist: mkfile would fail where a rename replaces */
	if (!is_certain(fold, to) || (!directory_of(to) && !fold->is_new) ||
	    is_taken(fold, path) || is_taken(fold, to))
		return 0;
	return is_sound(make, p) && is_sound(move, p + make->size);
}

/* Replace the two commands by the first one with the new path. Return: its size. */
static u32 join(const struct command *make, const struct text *to, u8 *p)
{
	const struct text *from = &make->attribute[A_PATH];
	u32 at = from->p - p, behind = make->size - at - from->n, size = at + to->n + behind;
	u32 left = htole32(size - COMMAND_HEAD), sum;
	u16 n = htole16(to->n);
	u8 path[PATH_MAX];

	/* copied first: the next memmove() may overwrite it */
	memcpy(path, to->p, to->n);
	memmove(p + at + to->n, p + at + from->n, behind);
	memcpy(p + at, path, to->n);
	memcpy(p + at - 2, &n, 2);
	memcpy(p, &left, 4);
	sum = htole32(checksum(p, size));
	memcpy(p + 6, &sum, 4);
	return size;
}

/*
 * Handle a command that makes a file. Return: bytes handled, which have become *@out bytes, or 0 if
 * the next command must be there first.
 */
static size_t made(struct fold *fold, u8 *p, size_t n, int hold, size_t *out)
{
	size_t size = COMMAND_HEAD + get_u32(p), next = COMMAND_HEAD;
	struct command make, move;
	int is_rename = 1;	/* the next command is one, or not there yet */

	*out = size;
	if (n >= size + COMMAND_HEAD) {
		next += get_u32(p + size);
		is_rename = get_u16(p + size + 4) == C_RENAME && next <= COMMAND_MOST;
	}
	if (is_rename && n < size + next && hold)
		return 0;
	if (is_rename && n >= size + next && command_parse(&make, p, size, 1) &&
	    command_parse(&move, p + size, next, 1) && belong_together(fold, &make, &move, p)) {
		made_at(fold, make.number, &move.attribute[A_PATH_TO]);
		*out = join(&make, &move.attribute[A_PATH_TO], p);
		fold->changed++;
		return size + next;
	}
	learn(fold, p, size);
	return size;
}

/* Return: how many bytes of a command must be there before it is handled. */
static u64 needed(u16 command, u64 size)
{
	if (command == C_SET_XATTR || command == C_REMOVE_XATTR)
		return min_u64(size, COMMAND_HEAD + 4 + PATH_MAX + 4 + 256);
	if (command <= C_LINK || command == C_RMDIR || command == C_CHMOD || command == C_FILEATTR)
		return size;
	return COMMAND_HEAD;
}

/* Handle the next command. Return: as step(). */
static size_t at_command(struct fold *fold, u8 *p, size_t n, int hold, size_t *out)
{
	u16 command;
	u64 size, need;
	int begins;

	if (n < COMMAND_HEAD)
		return 0;
	size = COMMAND_HEAD + (u64)get_u32(p);
	command = get_u16(p + 4);
	need = needed(command, size);
	if (need > COMMAND_MOST) {
		fold->lost = 1;
		return *out = n;
	}
	if (n < need)
		return 0;
	if (command >= C_MKFILE && command <= C_SYMLINK)
		return made(fold, p, n, hold, out);
	begins = command == C_SUBVOL || command == C_SNAPSHOT;
	if (fold->within && (begins || command == C_END) && !fold->at_end) {
		fold->at_end = 1;
		return 0;
	}
	fold->at_end = 0;
	fold->within = begins || (fold->within && command != C_END);
	fold->in_stream = command != C_END;
	if (need > COMMAND_HEAD)
		learn(fold, p, need);
	*out = min_u64(n, size);
	fold->left = size - *out;
	return *out;
}

/* Handle the next bytes. Return: how many, which have become *@out bytes; 0: more are needed. */
static size_t step(struct fold *fold, u8 *p, size_t n, int hold, size_t *out)
{
	if (fold->lost)
		return *out = n;
	if (!fold->left && fold->in_stream)
		return at_command(fold, p, n, hold, out);
	if (!fold->left) {
		if (n < STREAM_HEAD)
			return 0;
		fold->lost = !stream_version(p);
		fold->in_stream = 1;
		return *out = STREAM_HEAD;
	}
	*out = min_u64(n, fold->left);
	fold->left -= *out;
	return *out;
}

size_t fold_run(struct fold *fold, u8 *p, size_t *n, int hold)
{
	size_t in = 0, out = 0, keep;

	while (in < *n) {
		size_t stay, done = step(fold, p + in, *n - in, hold, &stay);

		if (!done)
			break;
		if (in != out)
			memmove(p + out, p + in, stay);
		in += done;
		out += stay;
	}
	keep = *n - in;
	if (in != out)
		memmove(p + out, p + in, keep);
	*n = out + keep;
	return out;
}

void fold_free(struct fold *fold)
{
	forget(fold);
	free(fold->taken);
}
