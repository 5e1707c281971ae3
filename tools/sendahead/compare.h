/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How long btrfs send takes, and sendahead send, on this disk.
 */
#ifndef SENDAHEAD_COMPARE_H
#define SENDAHEAD_COMPARE_H

#include "options.h"

/* Time the send that @options ask for, and print that. Return: the exit status. */
int compare(const struct options *options);

#endif
