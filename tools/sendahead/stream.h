/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The stream of a send, followed to know how far it is.
 */
#ifndef SENDAHEAD_STREAM_H
#define SENDAHEAD_STREAM_H

#include <limits.h>

#include "util.h"

/* Bytes of the heads: of a stream, of a command. */
#define STREAM_HEAD 17
#define COMMAND_HEAD 10

/* Commands and attributes that somebody here asks for, by the kernel's numbers. */
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
	u8 part[PATH_MAX];	/* of what is collected before it is looked at */
	u32 have, need;
	u64 skip;		/* bytes that do not matter */
	u64 left;		/* of the command, not yet seen */
	u16 command;
	u16 attribute;
	u32 length;		/* of the attribute */
	u64 data;		/* of the command */
	struct told told;
	/* of the subvolume: what one call of the kernel writes */
	int has_header;		/* the head of a stream is before it */
	u8 head[512];		/* how it begins, up to the end of its first command */
	u32 nr_head, all_head;	/* bytes of that: so far, in all */
	u64 since;		/* bytes of it */
	u64 sum;		/* checksum of its commands */
	/* of the last command */
	char path[PATH_MAX];
	u64 offset;		/* behind the data, if it has some */
};

void stream_init(struct stream *stream);

/* The same subvolume is to come from its beginning. */
void stream_init_again(struct stream *again, const struct stream *stream);

/* How the subvolume begins is known, which no other does, nor goes on so. */
static inline int stream_has_begun(const struct stream *stream)
{
	return stream->nr_head == stream->all_head &&
		stream->nr_head > STREAM_HEAD + COMMAND_HEAD;
}

/* Are both in the same place of the same subvolume, with the same commands before? */
int stream_is_same(const struct stream *a, const struct stream *b);

/**
 * stream_feed() - look at the next bytes
 * @stream: the stream
 * @p: the bytes
 * @n: how many
 *
 * Return: how many were looked at: those up to where a subvolume has just begun, or all; 0 if this
 * is no stream that is known here: nothing is followed any more
 */
size_t stream_feed(struct stream *stream, const u8 *p, size_t n);

#endif
