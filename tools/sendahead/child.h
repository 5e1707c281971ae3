/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The real btrfs send, and its stream.
 */
#ifndef SENDAHEAD_CHILD_H
#define SENDAHEAD_CHILD_H

#include <sys/types.h>

#include "options.h"

/* Was this process started by another one of this program, in the place of btrfs? */
int child_is_inside(void);

/*
 * Become btrfs, with the words of @command: the first one in PATH that is not this program and
 * has not led back to it. It gets the capabilities of this process.
 */
void child_become(char **command) __attribute__((noreturn));

/*
 * Begin another process, which gets a signal when this one ends, and none that this one passes
 * on. Return: as fork().
 */
pid_t child_fork(int signal_at_end);

/**
 * child_start() - run btrfs
 * @command: its words, ending in NULL
 * @alone: those with which it needs nobody else
 * @fd: an open file that it gets, or -1
 * @as: in place of this one
 *
 * Signals that this process gets from now on are passed on to it. Where no process can be
 * started, this one becomes btrfs.
 */
void child_start(char **command, char **alone, int fd, int as);

/* Wait for its end. Return: what waitpid() tells of it. */
int child_end(void);

/* Can the stream be followed to where it goes? */
int child_can_follow(const struct options *options);

/**
 * child_run() - run btrfs send and hand its stream through
 * @options: the command line
 * @started: called once btrfs is there
 *
 * Tells the process that reads ahead, by struct shared, what is in the stream. Signals that this
 * process gets meanwhile are passed on to btrfs.
 *
 * Return: what waitpid() tells of it
 */
int child_run(const struct options *options, void (*started)(void));

#endif
