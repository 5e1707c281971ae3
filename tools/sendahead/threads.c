// SPDX-License-Identifier: GPL-2.0
/*
 * Calls a function many times, in several threads. Each thread waits for the disk most of the time,
 * so their number is about the number of requests under way.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>
#include <sys/resource.h>

#include "room.h"
#include "shared.h"
#include "threads.h"

#define FIRST 64		/* so many calls are made, */
#define SAMPLE 16		/* then one of 16, until one of them reads from a disk */

struct job {
	void (*each)(size_t i, void *arg);
	void *arg;
	size_t n;
	atomic_size_t next;
	const struct sampling *sampling;	/* or NULL: make all calls */
	atomic_int reads;	/* a call has read from a disk */
};

/* Return: number of blocks that this thread has read from any disk. */
static long blocks_read(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_inblock;
}

static void *work(void *arg)
{
	struct job *job = arg;
	const struct sampling *sampling = job->sampling;
	long before = blocks_read();
	size_t i;

	while ((i = atomic_fetch_add(&job->next, 1)) < job->n && !shared_over()) {
		size_t at = sampling ? sampling->passed + i : 0;

		if (!job->reads && at >= FIRST && at % SAMPLE)
			continue;
		job->each(i, job->arg);
		if (blocks_read() != before)
			job->reads = 1;
		/* the remaining calls are left to all threads */
		if (sampling && sampling->alone && job->reads)
			break;
	}
	return NULL;
}

static void run(u32 threads, struct job *job)
{
	pthread_t thread[MAX_THREADS];
	u32 i, started = 0;

	threads = room_threads(min_u64(min_u64(threads, job->n), MAX_THREADS));
	for (i = 1; i < threads; i++)
		if (!pthread_create(&thread[started], NULL, work, job))
			started++;
	work(job);
	for (i = 0; i < started; i++)
		pthread_join(thread[i], NULL);
}

void parallel(u32 threads, size_t n, void (*each)(size_t i, void *arg), void *arg)
{
	struct job job = { .each = each, .arg = arg, .n = n };

	run(threads, &job);
}

int parallel_unless_cached(u32 threads, size_t n, void (*each)(size_t i, void *arg), void *arg,
			   struct sampling *sampling)
{
	struct job some = { .each = each, .arg = arg, .n = n, .sampling = sampling };
	struct job all = { .each = each, .arg = arg, .n = n };

	/* without this file, the kernel does not count what a thread reads */
	if (access("/proc/self/io", F_OK))
		some.reads = 1;
	else if (!sampling->reads)
		run(sampling->alone ? 1 : threads, &some);
	if (some.reads || sampling->reads)
		run(threads, &all);
	sampling->reads = some.reads || all.reads;
	sampling->passed = sampling->reads ? 0 : sampling->passed + n;
	return sampling->reads;
}
