/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a send would read, and how long that takes.
 */
#ifndef SENDAHEAD_ESTIMATE_H
#define SENDAHEAD_ESTIMATE_H

#include "options.h"

/* Print it for the send that @options ask for. Return: the exit status. */
int estimate(const struct options *options);

/* How many leaves of both trees that send reads. */
u64 estimate_leaves(const struct options *options);

#endif
