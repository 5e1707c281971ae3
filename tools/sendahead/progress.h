/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shows on a terminal how far the send is.
 */
#ifndef SENDAHEAD_PROGRESS_H
#define SENDAHEAD_PROGRESS_H

#include "options.h"
#include "shared.h"

/* Show the progress on standard error until this process is killed. */
void progress(const struct options *options, struct shared *shared) __attribute__((noreturn));

/* Return: whether this is a background job of the terminal on standard error. */
int progress_is_in_background(void);

#endif
