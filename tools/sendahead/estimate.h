/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Estimates how long a send takes.
 */
#ifndef SENDAHEAD_ESTIMATE_H
#define SENDAHEAD_ESTIMATE_H

#include "options.h"
#include "shared.h"

/* Print the estimate for the send that @options describe. Return: the exit status. */
int estimate(const struct options *options, struct shared *shared);

#endif
