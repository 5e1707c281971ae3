/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The process that reads ahead.
 */
#ifndef SENDAHEAD_SEND_AHEAD_H
#define SENDAHEAD_SEND_AHEAD_H

#include "options.h"
#include "shared.h"

/*
 * Read ahead of the send that @options ask for, until it is over. @shared says how far the send
 * is, and takes the counts of what was read.
 */
void send_ahead(const struct options *options, struct shared *shared);

#endif
