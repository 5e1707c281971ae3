/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Measures how long btrfs send and sendahead send take.
 */
#ifndef SENDAHEAD_COMPARE_H
#define SENDAHEAD_COMPARE_H

#include "options.h"

/* Measure the send that @options describe and print the result. Return: the exit status. */
int compare(const struct options *options);

#endif
