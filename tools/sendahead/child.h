/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The real btrfs send, and its stream.
 */
#ifndef SENDAHEAD_CHILD_H
#define SENDAHEAD_CHILD_H

#include <sys/types.h>

#include "options.h"

/* Return: whether another process of this program has started this one as its btrfs. */
int child_is_inside(void);

/*
 * Execute btrfs with the arguments @command: the first btrfs in PATH that is not this program and
 * has not called this program. It keeps the capabilities of this process.
 */
void child_become(char **command) __attribute__((noreturn));

/*
 * btrfs reads the copy (number of the process % number of copies) of a block: processes that are
 * forked get numbers that select this one, if 16 attempts are enough. No copies: any numbers.
 */
extern u32 child_copies, child_copy;

/*
 * Fork a process that gets @signal_at_end when this one ends. Signal handlers of child_start() are
 * reset in it. Return: as fork().
 */
pid_t child_fork(int signal_at_end);

/**
 * child_start() - run btrfs
 * @command: its arguments, ending with NULL
 * @alone: its arguments if it has to run without us
 * @fd: a descriptor that it gets, or -1
 * @as: the number that the descriptor gets there
 *
 * From now on, signals that this process gets are passed on to btrfs. If fork() fails, this process
 * executes btrfs with @alone.
 */
void child_start(char **command, char **alone, int fd, int as);

/* Wait for btrfs to end. Return: its status as of waitpid(). */
int child_end(void);

/* Return: whether this program may write the stream to its output in place of btrfs. */
int child_can_follow(const struct options *options);

/**
 * child_run() - run btrfs send and hand its stream on
 * @options: the command line
 * @started: called when btrfs has been started
 *
 * Tells the process that reads ahead, by struct shared, how far the stream is. Signals that this
 * process gets meanwhile are passed on to btrfs.
 *
 * Return: the status of btrfs as of waitpid(), or one that tells of an error of the output
 */
int child_run(const struct options *options, void (*started)(void));

#endif
