/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The process that reads ahead of btrfs receive.
 */
#ifndef SENDAHEAD_RECEIVE_AHEAD_H
#define SENDAHEAD_RECEIVE_AHEAD_H

#include "options.h"
#include "shared.h"
#include "queue.h"

/*
 * Read the blocks that the commands in @queue will need, until the receive is over. @shared takes
 * the counts.
 */
void receive_ahead(const struct options *options, const struct queue *queue, struct shared *shared);

#endif
