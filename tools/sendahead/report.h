/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What was done, as JSON.
 */
#ifndef SENDAHEAD_REPORT_H
#define SENDAHEAD_REPORT_H

#include "options.h"
#include "shared.h"
#include "receive.h"

/* Print it where @options say. */
void report(const struct options *options, struct shared *shared);

/* The same of a receive. */
void report_received(const struct options *options, const struct received *received,
		     struct shared *shared);

/* On a terminal, in one line: @bytes of a stream were handed on by @command in @ns nanoseconds. */
void report_on_terminal(const struct options *options, struct shared *shared, const char *command,
			u64 bytes, u64 ns);

#endif
