/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The real btrfs send, and its stream.
 */
#ifndef SENDAHEAD_CHILD_H
#define SENDAHEAD_CHILD_H

#include <sys/types.h>

#include "options.h"

/**
 * child_start() - run a command
 * @command: its words, ending in NULL
 * @fd: an open file that it gets, or -1
 * @as: in place of this one
 *
 * Signals that this process gets from now on are passed on to it. Ends this process where
 * none can be started.
 */
void child_start(char **command, int fd, int as);

/* Wait for its end. Return: what waitpid() tells of it. */
int child_end(void);

/* Can the stream be followed to where it goes? */
int child_can_follow(const struct options *options);

/**
 * child_run() - run btrfs send and hand its stream through
 * @options: the command line
 * @follow: whether to tell the place what is in the stream
 *
 * Signals that this process gets meanwhile are passed on to it.
 *
 * Return: what waitpid() tells of it
 */
int child_run(const struct options *options, int follow);

#endif
