/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How much memory and how many processes this program may use.
 */
#ifndef SENDAHEAD_ROOM_H
#define SENDAHEAD_ROOM_H

#include "util.h"

/* fscanf() from a file under /proc or /sys. Return: as fscanf(), or 0 if there is no such file. */
int room_scan(const char *path, const char *format, ...) __attribute__((format(scanf, 2, 3)));

/* So many processes and threads are left to btrfs and to others in the control group. */
#define ROOM_BTRFS 4

/*
 * Return: bytes of memory that are free to use: those available in the machine, limited by what is
 * left in the control groups of this process; 0 while other processes wait for memory.
 */
u64 room_memory(void);

/* Return: whether that is enough for the process that reads ahead. */
int room_enough(void);

/* Return: how many processes and threads the control groups of this process still allow. */
u64 room_processes(void);

/* Return: how many of the wanted threads may run, this one included. */
u32 room_threads(u32 wanted);

/* Return: bytes of a window: those asked for, or, if 0, a share of the free memory. */
u64 room_window(u64 asked);

#endif
