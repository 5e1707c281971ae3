/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the machine says of itself, and how much of it we may have.
 */
#ifndef SENDAHEAD_ROOM_H
#define SENDAHEAD_ROOM_H

#include "util.h"

/* As scanf(), of a file of the kernel's. Return: as it, and 0 where there is no such file. */
int room_scan(const char *path, const char *format, ...) __attribute__((format(scanf, 2, 3)));

/* Processes and threads that are left to btrfs, and to whoever else is in the control group. */
#define ROOM_BTRFS 4

/*
 * Bytes of memory that can be had: what is available in the machine, but not more than what
 * is left in the control groups of this process; 0 while others wait for memory.
 */
u64 room_memory(void);

/* Is that enough for a process that reads ahead? */
int room_enough(void);

/* Processes and threads that can still be started in the control groups of this process. */
u64 room_processes(void);

/* How many threads of those wanted there may be, with this one. */
u32 room_threads(u32 wanted);

/* Bytes of a window: as many as are asked for, or, if 0, what the memory there is allows. */
u64 room_window(u64 asked);

#endif
