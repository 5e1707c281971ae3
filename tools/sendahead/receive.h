/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The real btrfs receive, and its stream.
 */
#ifndef SENDAHEAD_RECEIVE_H
#define SENDAHEAD_RECEIVE_H

#include "options.h"
#include "queue.h"

#define RECEIVE_ON_WAY 65536		/* bytes that btrfs has been given and has not taken, at most */

/* What was done. */
struct received {
	u64 stream_bytes;
	u64 buffer_bytes;
	u64 renames_saved;
};

/* A buffer as large as is asked for or as memory allows, or NULL: btrfs runs alone. */
struct queue *receive_buffer(const struct options *options);

/**
 * receive_run() - run btrfs receive and give it its stream
 * @options: the command line
 * @queue: keeps what it has not taken yet
 * @received: set to what was done
 * @started: called once btrfs is there
 *
 * Return: what waitpid() tells of it, or -1: btrfs is to run alone
 */
int receive_run(const struct options *options, struct queue *queue, struct received *received,
		void (*started)(void));

#endif
