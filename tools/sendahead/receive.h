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

/**
 * receive_options() - take the command line apart
 * @options: filled
 * @argc: how many arguments of "receive"
 * @argv: them, the first one the name of the command; kept
 *
 * What is wrong with options of btrfs receive it says itself.
 *
 * Return: 0, or the exit status after a message
 */
int receive_options(struct options *options, int argc, char **argv);

/* A buffer as large as is asked for or as memory allows, or NULL. */
struct queue *receive_buffer(const struct options *options);

/**
 * receive_run() - run btrfs receive and give it its stream
 * @options: the command line
 * @queue: keeps what it has not taken yet
 * @received: set to what was done
 *
 * Return: what waitpid() tells of it
 */
int receive_run(const struct options *options, struct queue *queue, struct received *received);

#endif
