/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Begins writeback of received files while the stream still arrives.
 */
#ifndef SENDAHEAD_WRITEBACK_H
#define SENDAHEAD_WRITEBACK_H

#include "queue.h"

/**
 * look_up_beneath() - look up a path of a stream, which is not to be trusted
 * @directory: the directory that the path is relative to
 * @path: the path; symbolic links, mounts and ways out of the directory are refused
 *
 * Return: a descriptor with O_PATH, or -1 with errno set; before Linux 5.6 always -1
 */
int look_up_beneath(int directory, const char *path);

/* Note that the command at offset @at of the stream writes @bytes to a file. */
void writeback_add(const char *path, u64 at, u64 bytes);

/* Note that the file written last is complete; @at: the offset behind its last command. */
void writeback_end(u64 at);

/**
 * writeback_run() - begin writeback of complete files, if they are large enough for a good run
 * @fd: the directory that the paths are relative to
 * @queue: tells how much of the stream btrfs has read
 * @reads: returns how many sectors other processes have read of the file system's disks so far
 *
 * Nothing is written while others read these disks.
 *
 * Return: whether files are left
 */
int writeback_run(int fd, const struct queue *queue, int64_t (*reads)(void));

#endif
