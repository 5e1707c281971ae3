/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How much the machine lets us have.
 */
#ifndef SENDAHEAD_LIMITS_H
#define SENDAHEAD_LIMITS_H

#include "util.h"

/*
 * Bytes of memory that can be had: what is available of the machine's, and at most what
 * the control groups (version 2) of this process may have.
 */
u64 limits_memory(void);

/* Bytes in the machine's memory that are not on a disk yet. */
u64 limits_dirty(void);

#endif
