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
 * Read what the commands in @queue are going to need, until the receive is over. What it
 * does it counts in @shared.
 */
void receive_ahead(const struct options *options, const struct queue *queue, struct shared *shared);

#endif
