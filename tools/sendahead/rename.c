// SPDX-License-Identifier: GPL-2.0
/*
 * Files made under their name. Nothing in the stream is trusted: whatever is not as send
 * writes it goes as it is.
 */
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "node.h"
#include "rename.h"
#include "stream.h"

/* Of a command that is looked at, at most: two paths, and numbers. */
#define MOST (2 * PATH_MAX + 256)
#define PLAIN_MAX (1 << 19)		/* directories remembered; the others are as unknown */

#define A_MAX (A_CLONE_UUID + 1)	/* larger ones are not looked at */

struct text {
	const u8 *p;
	u32 n;
};

/* A command that was taken apart: its attributes below A_MAX. */
struct command {
	u32 size;		/* with its head */
	u16 number;
	u32 known;		/* attributes, as bits */
	struct text attribute[A_MAX];
};

#define BIT(n) (1U << (n))

/* Take a command apart, as far as @n goes. Return: whether it is whole, and nothing in it twice. */
static int parse(struct command *command, const u8 *p, size_t n)
{
	u32 at = COMMAND_HEAD;

	memset(command, 0, sizeof(*command));
	command->size = COMMAND_HEAD + get_u32(p);
	command->number = get_u16(p + 4);
	while (at + 4 <= n) {
		u32 type = get_u16(p + at), length = get_u16(p + at + 2);

		at += 4;
		if (type >= A_MAX || command->known & BIT(type))
			command->known = 0;
		if (length > n - at || type >= A_MAX || command->attribute[type].p)
			return 0;
		command->known |= BIT(type);
		command->attribute[type] = (struct text) { p + at, length };
		at += length;
	}
	return at == command->size;
}

/* The checksum of a command: with its own place taken for zeros. */
static u32 checksum(const u8 *p, size_t n)
{
	static const u8 zeros[4];

	return crc32c(crc32c(crc32c(0, p, 6), zeros, 4), p + COMMAND_HEAD, n - COMMAND_HEAD);
}

static int is_sound(const struct command *command, const u8 *p)
{
	return get_u32(p + 6) == checksum(p, command->size);
}

static int is_text(const struct text *text, const char *other)
{
	return text->n == strlen(other) && !memcmp(text->p, other, text->n);
}

/* The name that send makes a file under: o257-7-0, inode, generation, and a number. */
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

/* Bytes of a path's directory, without the slash; -1 if it is none that send writes. */
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

static u64 hash(const u8 *p, size_t n)
{
	u64 sum = 0xcbf29ce484222325ULL;

	while (n--)
		sum = (sum ^ *p++) * 0x100000001b3ULL;
	return sum ^ sum >> 29 ? sum ^ sum >> 29 : 1;
}

/* Where a hash is, or would be. */
static u64 *slot(const struct rename *rename, u64 sum)
{
	size_t i = sum & (rename->room_plain - 1);

	while (rename->plain[i] && rename->plain[i] != sum)
		i = (i + 1) & (rename->room_plain - 1);
	return &rename->plain[i];
}

static int is_plain(const struct rename *rename, const u8 *path, size_t n)
{
	return rename->nr_plain && *slot(rename, hash(path, n));
}

static void forget(struct rename *rename)
{
	free(rename->plain);
	rename->plain = NULL;
	rename->nr_plain = rename->room_plain = 0;
}

static void add_plain(struct rename *rename, const struct text *path)
{
	u64 sum = hash(path->p, path->n), *at;

	if (rename->nr_plain == PLAIN_MAX)
		return;
	if (2 * (rename->nr_plain + 1) > rename->room_plain) {
		struct rename larger = { .room_plain = rename->room_plain ? 2 * rename->room_plain : 256 };
		size_t i;

		larger.plain = calloc(larger.room_plain, sizeof(*larger.plain));
		if (!larger.plain)
			return;
		for (i = 0; i < rename->room_plain; i++)
			if (rename->plain[i])
				*slot(&larger, rename->plain[i]) = rename->plain[i];
		free(rename->plain);
		rename->plain = larger.plain;
		rename->room_plain = larger.room_plain;
	}
	at = slot(rename, sum);
	rename->nr_plain += !*at;
	*at = sum;
}

/* What comes behind it may be there because it was not free: each is put in anew. */
static void remove_plain(struct rename *rename, const struct text *path)
{
	size_t i = slot(rename, hash(path->p, path->n)) - rename->plain;

	rename->plain[i] = 0;
	rename->nr_plain--;
	while (rename->plain[i = (i + 1) & (rename->room_plain - 1)]) {
		u64 sum = rename->plain[i];

		rename->plain[i] = 0;
		*slot(rename, sum) = sum;
	}
}

/* A rename that stays one. Below a directory that is not new, all would be wrong. */
static void renamed(struct rename *rename, const struct command *command)
{
	const struct text *from = &command->attribute[A_PATH], *to = &command->attribute[A_PATH_TO];

	if (is_plain(rename, to->p, to->n))
		remove_plain(rename, to);
	if (!is_plain(rename, from->p, from->n))
		return;
	if (!is_passing(from) || directory_of(to) < 0) {
		forget(rename);
		return;
	}
	remove_plain(rename, from);
	add_plain(rename, to);
}

/* Do files that are made in a directory inherit this attribute? */
static int is_inherited(const struct text *name)
{
	return is_text(name, "system.posix_acl_default") ||
		(name->n >= 6 && !memcmp(name->p, "btrfs.", 6));
}

/* What files inherit from a directory is another thing now: from the top, all others had it. */
static void inheritance_changes(struct rename *rename, const struct text *path)
{
	if (!path->n)
		forget(rename);
	else if (is_plain(rename, path->p, path->n))
		remove_plain(rename, path);
}

/* A command of those that say what directories are like. */
static void learn(struct rename *rename, const u8 *p, size_t n)
{
	struct command command;
	int whole = parse(&command, p, n);
	const struct text *path = &command.attribute[A_PATH];

	switch (command.number) {
	case C_SET_XATTR:
	case C_REMOVE_XATTR:
		/* the value may be long */
		if (~command.known & (BIT(A_PATH) | BIT(A_XATTR_NAME)))
			forget(rename);
		else if (is_inherited(&command.attribute[A_XATTR_NAME]))
			inheritance_changes(rename, path);
		break;
	case C_FILEATTR:
		inheritance_changes(rename, path);
		break;
	case C_CHMOD:
		/* setgid: the group is inherited */
		if (!whole || command.attribute[A_MODE].n != 8)
			forget(rename);
		else if (get_u64(command.attribute[A_MODE].p) & S_ISGID)
			inheritance_changes(rename, path);
		break;
	case C_MKDIR:
		if (whole && is_passing(path))
			add_plain(rename, path);
		break;
	case C_RENAME:
		if (whole && command.known == (BIT(A_PATH) | BIT(A_PATH_TO)))
			renamed(rename, &command);
		else
			forget(rename);
		break;
	case C_RMDIR:
		if (!whole)
			forget(rename);
		else if (is_plain(rename, path->p, path->n))
			remove_plain(rename, path);
		break;
	case C_SUBVOL:
	case C_SNAPSHOT:
		forget(rename);
		rename->begun++;
		/* of what, it may say behind what is not looked at */
		rename->snapshot = command.number == C_SNAPSHOT;
		memset(rename->parent, 0, sizeof(rename->parent));
		if (command.attribute[A_CLONE_UUID].n == sizeof(rename->parent))
			memcpy(rename->parent, command.attribute[A_CLONE_UUID].p,
			       sizeof(rename->parent));
		break;
	}
}

/* Can the two be one? */
static int belong_together(const struct rename *rename, const struct command *make,
			   const struct command *move, const u8 *p)
{
	const u32 may = BIT(A_INO) | BIT(A_MODE) | BIT(A_RDEV) | BIT(A_PATH) | BIT(A_PATH_LINK);
	const struct text *path = &make->attribute[A_PATH], *from = &move->attribute[A_PATH];
	const struct text *to = &move->attribute[A_PATH_TO];
	int directory;

	if (rename->unchanged || make->known & ~may || !is_passing(path) ||
	    move->known != (BIT(A_PATH) | BIT(A_PATH_TO)) ||
	    path->n != from->n || memcmp(path->p, from->p, path->n))
		return 0;
	directory = directory_of(to);
	/* at the top of a snapshot the name may be taken */
	if (directory < 0 ||
	    (directory ? !is_plain(rename, to->p, directory) : rename->snapshot) ||
	    (to->n == path->n && !memcmp(to->p, path->p, to->n)))
		return 0;
	return is_sound(make, p) && is_sound(move, p + make->size);
}

/* Make it one command, in the place of the two: that which makes the file, with the other path. */
static u32 join(const struct command *make, const struct text *to, u8 *p)
{
	const struct text *from = &make->attribute[A_PATH];
	u32 at = from->p - p, behind = make->size - at - from->n, size = at + to->n + behind;
	u32 left = htole32(size - COMMAND_HEAD), sum;
	u16 n = htole16(to->n);
	u8 path[PATH_MAX];

	/* it may lie where what is behind it is going to be */
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
 * A command that makes a file is there. Return: bytes that are done, of which *@out stay,
 * or 0 if what follows has to be known.
 */
static size_t made(struct rename *rename, u8 *p, size_t n, int hold, size_t *out)
{
	size_t size = COMMAND_HEAD + get_u32(p), next = COMMAND_HEAD;
	struct command make, move;
	int is_rename = 1;	/* what follows, or it may be one */

	*out = size;
	if (n >= size + COMMAND_HEAD) {
		next += get_u32(p + size);
		is_rename = get_u16(p + size + 4) == C_RENAME && next <= MOST;
	}
	if (is_rename && n < size + next && hold)
		return 0;
	if (is_rename && n >= size + next && parse(&make, p, size) &&
	    parse(&move, p + size, next) && belong_together(rename, &make, &move, p)) {
		if (make.number == C_MKDIR)
			add_plain(rename, &move.attribute[A_PATH_TO]);
		*out = join(&make, &move.attribute[A_PATH_TO], p);
		rename->changed++;
		return size + next;
	}
	learn(rename, p, size);
	return size;
}

/* Bytes of a command that have to be there before it can be looked at. */
static u64 needed(u16 command, u64 size)
{
	if (command == C_SET_XATTR || command == C_REMOVE_XATTR)
		return min_u64(size, COMMAND_HEAD + 4 + PATH_MAX + 4 + 256);
	if (command <= C_RENAME || command == C_RMDIR || command == C_CHMOD ||
	    command == C_FILEATTR)
		return size;
	return COMMAND_HEAD;
}

/* The next bytes. Return: how many are done, of which *@out stay; 0: more has to be there. */
static size_t step(struct rename *rename, u8 *p, size_t n, int hold, size_t *out)
{
	u16 command;
	u64 size, need;

	if (rename->off)
		return *out = n;
	if (!rename->left && !rename->version) {
		if (n < STREAM_HEAD)
			return 0;
		rename->version = get_u32(p + 13);
		rename->off = memcmp(p, "btrfs-stream", 13) || !rename->version ||
			rename->version > 3;
		return *out = STREAM_HEAD;
	}
	if (!rename->left) {
		if (n < COMMAND_HEAD)
			return 0;
		size = COMMAND_HEAD + (u64)get_u32(p);
		command = get_u16(p + 4);
		need = needed(command, size);
		rename->off = need > MOST;
		if (rename->off)
			return *out = n;
		if (n < need)
			return 0;
		if (command >= C_MKFILE && command <= C_SYMLINK)
			return made(rename, p, n, hold, out);
		if (need > COMMAND_HEAD)
			learn(rename, p, need);
		if (command == C_END) {
			rename->ends = !rename->ends;
			if (rename->ends)
				return 0;
			rename->version = 0;
		}
		rename->left = size;
	}
	*out = min_u64(n, rename->left);
	rename->left -= *out;
	return *out;
}

size_t rename_run(struct rename *rename, u8 *p, size_t *n, int hold)
{
	size_t in = 0, out = 0, keep;

	while (in < *n) {
		size_t stay, done = step(rename, p + in, *n - in, hold, &stay);

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

void rename_free(struct rename *rename)
{
	forget(rename);
}
