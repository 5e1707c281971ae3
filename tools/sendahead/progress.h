/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How far the send is, on a terminal.
 */
#ifndef SENDAHEAD_PROGRESS_H
#define SENDAHEAD_PROGRESS_H

#include "options.h"
#include "shared.h"

/* Show it on standard error, until this process is killed. */
void progress(const struct options *options, struct shared *shared) __attribute__((noreturn));

/* Is this a job in the background of the terminal on standard error? */
int progress_is_in_background(void);

#endif
