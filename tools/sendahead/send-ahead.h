/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The process that reads ahead.
 */
#ifndef SENDAHEAD_SEND_AHEAD_H
#define SENDAHEAD_SEND_AHEAD_H

#include "options.h"
#include "shared.h"

/*
 * Read ahead of the send that @options ask for, until it is over. What it needs it
 * gets from the send's place, what it does it counts there.
 */
void ahead(const struct options *options, struct place *place);

#endif
