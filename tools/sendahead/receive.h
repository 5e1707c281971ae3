/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The real btrfs receive, its stream, and the process that reads ahead of it.
 */
#ifndef SENDAHEAD_RECEIVE_H
#define SENDAHEAD_RECEIVE_H

#include "options.h"
#include "queue.h"
#include "shared.h"

/* Make the buffer, of the size asked for or the default. Return: it, or NULL: btrfs runs alone. */
struct queue *receive_buffer(const struct options *options);

/**
 * receive_run() - run btrfs receive and pass it its stream
 * @options: the command line
 * @queue: the buffer
 * @shared: takes the counts for the report
 * @started: called when btrfs has been started
 *
 * Return: the status of btrfs as of waitpid(), or -1: nothing was done, btrfs is to run alone
 */
int receive_run(const struct options *options, struct queue *queue, struct shared *shared,
		void (*started)(void));

/*
 * Read the blocks that the commands in @queue will need, and begin writeback of received files,
 * until the receive is over. @shared takes the counts.
 */
void receive_ahead(const struct options *options, const struct queue *queue, struct shared *shared);

/**
 * look_up_beneath() - look up a path of a stream, which is not to be trusted
 * @directory: the directory that the path is relative to
 * @path: the path; symbolic links, mounts and ways out of the directory are refused
 *
 * Return: a descriptor with O_PATH, or -1 with errno set; before Linux 5.6 always -1
 */
int look_up_beneath(int directory, const char *path);

/* Open a regular file to read it; arguments as of look_up_beneath(). Return: a descriptor, or -1. */
int open_beneath(int directory, const char *path);

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
