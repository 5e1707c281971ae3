/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Parses the stream of a send, to know how far it is.
 */
#ifndef SENDAHEAD_STREAM_H
#define SENDAHEAD_STREAM_H

#include <limits.h>

#include "util.h"

/* Size in bytes of a stream header and of a command's head. */
#define STREAM_HEAD 17
#define COMMAND_HEAD 10

/* The commands and attributes that are used here, with the kernel's numbers. */
enum {
	C_SUBVOL = 1, C_SNAPSHOT = 2, C_MKFILE = 3, C_MKDIR = 4, C_SYMLINK = 8, C_RENAME = 9,
	C_LINK = 10, C_RMDIR = 12, C_SET_XATTR = 13, C_REMOVE_XATTR = 14, C_WRITE = 15,
	C_CLONE = 16, C_CHMOD = 18, C_END = 21, C_UPDATE_EXTENT = 22, C_FILEATTR = 24,
	C_ENCODED_WRITE = 25,
};

enum {
	A_UUID = 1, A_INO = 3, A_SIZE = 4, A_MODE = 5, A_RDEV = 8, A_XATTR_NAME = 13, A_PATH = 15,
	A_PATH_TO = 16, A_PATH_LINK = 17, A_FILE_OFFSET = 18, A_DATA = 19, A_CLONE_UUID = 20,
	A_CLONE_LEN = 24, A_UNENCODED_FILE_LEN = 27,
};

/* What is known from the stream of its present subvolume. */
struct told {
	u32 begun;		/* number of subvolumes that have begun */
	u16 snapshot;		/* this one is based on another */
	u16 has_extents;	/* some of its file data were not inline in a leaf */
	u8 uuid[16];
	u8 parent_uuid[16];
	u64 data;		/* bytes of file data: written, cloned, or only announced */
	u64 ino;		/* the inode made last, directories not counted */
};

struct stream {
	int state;
	u32 version;
	u8 part[PATH_MAX];	/* bytes collected until @have reaches @need */
	u32 have, need;
	u64 skip;		/* bytes to skip */
	u64 left;		/* bytes of the command that follow */
	u16 command;
	u16 attribute;
	u32 length;		/* of the attribute's value */
	u64 data;		/* bytes of file data in the command */
	struct told told;
	/* the present subvolume: all that one ioctl of the kernel writes */
	int has_header;		/* it begins with a stream header */
	u8 head[512];		/* its beginning, up to the end of its first command */
	u32 nr_head, all_head;	/* bytes of that: so far, and in all */
	u64 since;		/* bytes so far */
	u64 sum;		/* checksum of the heads of its commands */
	/* the last command with a path */
	char path[PATH_MAX];
	u64 offset;		/* where its data end in the file */
};

void stream_init(struct stream *stream);

/* Begin a second parse of the same subvolume, from its beginning. */
void stream_init_again(struct stream *again, const struct stream *stream);

/*
 * Return: whether the beginning of the subvolume is known up to the end of its first command. No
 * other subvolume begins so, and these bytes do not appear later in this one.
 */
static inline int stream_has_begun(const struct stream *stream)
{
	return stream->nr_head == stream->all_head &&
		stream->nr_head > STREAM_HEAD + COMMAND_HEAD;
}

/* Return: whether both are at the same byte of the same subvolume, after the same commands. */
int stream_is_same(const struct stream *a, const struct stream *b);

/**
 * stream_feed() - parse the next bytes
 * @stream: the stream
 * @p: the bytes
 * @n: number of bytes
 *
 * Return: how many were parsed: all, or those up to the end of a subvolume's first command; 0 if
 * they cannot be parsed, as will be all that follow
 */
size_t stream_feed(struct stream *stream, const u8 *p, size_t n);

#endif
