/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Parses streams of sends: to know how far one is, and to recognize one that begins again in its
 * middle. When a signal interrupts send's write into a full pipe, the kernel restarts the whole
 * ioctl, which sends the subvolume from its beginning.
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
	A_CLONE_LEN = 24, A_UNENCODED_FILE_LEN = 27, A_NUMBER
};

/* More of a command is not parsed: two paths and some numbers. */
#define COMMAND_MOST (2 * PATH_MAX + 256)

/* So many bytes are kept of a command that begins a subvolume; it is shorter. */
#define FIRST_MOST 512

struct text {
	const u8 *p;
	u32 n;
};

/* A parsed command. */
struct command {
	u64 size;		/* including its head */
	u16 number;
	u32 known;		/* bits of the attributes that it has */
	struct text attribute[A_NUMBER];
};

#define BIT(n) (1U << (n))

/**
 * command_parse() - parse a command
 * @command: filled
 * @p: its bytes
 * @n: number of bytes, at least COMMAND_HEAD; more than the command has are left
 * @version: of the stream
 *
 * Of data that are not there as a whole only the length is set.
 *
 * Return: whether it is complete, with each attribute once
 */
int command_parse(struct command *command, const u8 *p, size_t n, u32 version);

/* Return: the version of a stream that begins with these STREAM_HEAD bytes, or 0: not known. */
u32 stream_version(const u8 *p);

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
	u32 version;
	int in_stream;		/* behind a stream header */
	int lost;		/* it cannot be parsed */
	u16 command;		/* the last one */
	u64 skip;		/* bytes of it, or of the stream header, that follow */
	struct told told;
	/* the present subvolume: all that one ioctl of the kernel writes */
	u8 head[512];		/* the stream header, if it begins with one, and its first command */
	u32 nr_header, nr_head;	/* bytes of the header; of both, 0 before the first command */
	u64 since;		/* bytes so far */
	u64 sum;		/* checksum of the heads of its commands */
	/* the last command with a path */
	char path[PATH_MAX];
	u64 offset;		/* where its data end in the file */
};

/**
 * stream_feed() - parse the next bytes
 * @stream: zeros at first
 * @p: the bytes
 * @n: number of bytes
 *
 * Return: how many were parsed; the others are to be passed again, with more bytes. It stops behind
 * a subvolume's first and last command, and, with @lost set, where the bytes cannot be parsed.
 */
size_t stream_feed(struct stream *stream, const u8 *p, size_t n);

struct restart {
	struct stream stream;	/* what was handed on */
	struct stream retold;	/* what is written again */
	u64 left;		/* bytes still to be written again */
	u32 times;		/* how often the stream has begun again */
};

/**
 * restart_look() - look at the next bytes of a stream
 * @restart: zeros at first
 * @p: the bytes
 * @n: number of bytes
 * @pass: set to how many of them to hand on: all, if the stream is lost
 * @drop: set to how many after these to drop. The caller passes the rest again, with more bytes.
 *
 * Return: 0, or -1 if the stream that begins again differs from what was handed on
 */
int restart_look(struct restart *restart, const u8 *p, size_t n, size_t *pass, size_t *drop);

#endif
