/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the machine says of itself, and how much of it we may have.
 */
#ifndef SENDAHEAD_LIMITS_H
#define SENDAHEAD_LIMITS_H

#include "util.h"

/* As scanf(), of a file of the kernel's. Return: as it, and 0 where there is no such file. */
int limits_scan(const char *path, const char *format, ...) __attribute__((format(scanf, 2, 3)));

/*
 * Bytes of memory that can be had: what is available of the machine's, and at most what
 * the control groups (version 2) of this process may have.
 */
u64 limits_memory(void);

/* Bytes of a window: as many as are asked for, or, if 0, what the memory there is allows. */
u64 limits_window(u64 asked);

/* Bytes in the machine's memory that are not on a disk yet. */
u64 limits_dirty(void);

#endif
