/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Files are written to the disk while the stream still arrives.
 */
#ifndef SENDAHEAD_WRITEBACK_H
#define SENDAHEAD_WRITEBACK_H

#include "queue.h"

/**
 * look_up_beneath() - look up a path of a stream, which is not to be trusted
 * @directory: where it begins
 * @path: the path; nothing outside is looked at, nor behind a symbolic link or a mount
 *
 * Return: a descriptor with O_PATH, or -1 with errno set, as always before Linux 5.6
 */
int look_up_beneath(int directory, const char *path);

/* So many bytes of a file are written by a command at this place in the stream. */
void writeback_add(const char *path, u64 at, u64 bytes);

/* No more comes of the file that was written last: this is the place behind it. */
void writeback_end(u64 at);

/**
 * writeback_run() - have the disk begin with what is received, where that is enough for a good run
 * @fd: the directory that the paths begin in
 * @queue: what has come, and what is received
 * @reads: sectors that others have read of the disks of that file system so far
 *
 * Where others read these disks, nothing is written.
 *
 * Return: whether files are left
 */
int writeback_run(int fd, const struct queue *queue, int64_t (*reads)(void));

#endif
