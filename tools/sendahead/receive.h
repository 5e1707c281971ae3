/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The real btrfs receive, and its stream.
 */
#ifndef SENDAHEAD_RECEIVE_H
#define SENDAHEAD_RECEIVE_H

#include "options.h"
#include "queue.h"

#define RECEIVE_ON_WAY 65536		/* most bytes given to btrfs and not read by it */

struct received {
	u64 stream_bytes;
	u64 buffer_bytes;
	u64 renames_saved;
};

/* Make the buffer, of the size asked for or the default. Return: it, or NULL: btrfs runs alone. */
struct queue *receive_buffer(const struct options *options);

/**
 * receive_run() - run btrfs receive and pass it its stream
 * @options: the command line
 * @queue: the buffer
 * @received: set to the counts for the report
 * @started: called when btrfs has been started
 *
 * Return: the status of btrfs as of waitpid(), or -1: nothing was done, btrfs is to run alone
 */
int receive_run(const struct options *options, struct queue *queue, struct received *received,
		void (*started)(void));

#endif
