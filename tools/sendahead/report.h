/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reports of what was read and handed on.
 */
#ifndef SENDAHEAD_REPORT_H
#define SENDAHEAD_REPORT_H

#include "options.h"
#include "shared.h"
#include "receive.h"

/* Print a line of JSON about a send to standard error or to the file of --json. */
void report(const struct options *options, struct shared *shared);

/* The same about a receive. */
void report_received(const struct options *options, const struct received *received,
		     struct shared *shared);

/* On a terminal, print one line: @command has handed on @bytes of a stream in @ns nanoseconds. */
void report_on_terminal(const struct options *options, struct shared *shared, const char *command,
			u64 bytes, u64 ns);

#endif
