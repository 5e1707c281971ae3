/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The same for many things, by several threads.
 */
#ifndef SENDAHEAD_THREADS_H
#define SENDAHEAD_THREADS_H

#include "util.h"

/**
 * parallel() - call a function for 0 to @n - 1, about in this order
 * @threads: how many threads at most, at least 1
 * @n: how often
 * @each: the function
 * @arg: what it is called with
 *
 * Returns when all is done, or, with calls left out, when the send is over.
 */
void parallel(u32 threads, size_t n, void (*each)(size_t i, void *arg), void *arg);

/* What was seen of such calls, from one time to the next. */
struct sampling {
	size_t passed;		/* numbers since one has read a disk */
	int reads;		/* the last time, one has: all are made */
	int alone;		/* set by the caller: one thread takes the sample */
};

/**
 * parallel_unless_cached() - the same for what only reads into memory
 *
 * A sample of the calls is made, and all of them once one has read a disk. @each may be called
 * again with the same number, and has to do nothing then.
 *
 * Return: 0 if none has: what they read is in memory, it seems
 */
int parallel_unless_cached(u32 threads, size_t n, void (*each)(size_t i, void *arg), void *arg,
			   struct sampling *sampling);

#endif
