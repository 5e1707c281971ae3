/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Calls a function many times, in several threads.
 */
#ifndef SENDAHEAD_THREADS_H
#define SENDAHEAD_THREADS_H

#include "disk.h"

/* Kept from one call of parallel() to the next. */
struct sampling {
	size_t passed;		/* calls, made or left out, since one has read from a disk */
	int reads;		/* one of the last calls has read from a disk: make all */
	int alone;		/* set by the caller: one thread takes the sample */
};

/**
 * parallel() - call a function with each number from 0 to @n - 1, about in this order
 * @threads: limit of threads, at least 1
 * @n: number of calls
 * @each: the function
 * @arg: its second argument
 * @sampling: for a function that only reads something into memory, else NULL: make a sample of the
 *	calls, and all of them once one has read from a disk. @each may be called twice with the same
 *	number; the second call must do nothing.
 * @disk: the file system of the blocks that the calls read, or NULL
 * @block: logical address of what the first call reads; in an array with @stride bytes each
 *
 * Once the send is over, no further calls are made.
 *
 * Return: 0 if no call has read from a disk: all seems to be in memory
 */
int parallel(u32 threads, size_t n, void (*each)(size_t i, void *arg), void *arg,
	     struct sampling *sampling, const struct disk *disk, const u64 *block, size_t stride);

#endif
