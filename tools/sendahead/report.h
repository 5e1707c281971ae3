/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the user is told: how far a send is, what was done, and what estimate and compare find.
 */
#ifndef SENDAHEAD_REPORT_H
#define SENDAHEAD_REPORT_H

#include "options.h"
#include "shared.h"

/* Show the progress on standard error until this process is killed. */
void progress(const struct options *options, struct shared *shared) __attribute__((noreturn));

/* Print a line of JSON about a send or a receive to standard error or to the file of --json. */
void report(const struct options *options, struct shared *shared, int receives);

/* On a terminal, print one line: @command has handed its stream on in @ns nanoseconds. */
void report_on_terminal(const struct options *options, struct shared *shared, const char *command,
			u64 ns);

/* Print how long the send that @options describe will take. Return: the exit status. */
int estimate(const struct options *options, struct shared *shared);

/* Measure the send that @options describe and print the result. Return: the exit status. */
int compare(const struct options *options);

#endif
