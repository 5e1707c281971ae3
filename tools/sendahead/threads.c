// SPDX-License-Identifier: GPL-2.0
/*
 * The same for many things, by several threads. Each of them waits for the disk most
 * of the time, so their number is that of the requests under way.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "place.h"
#include "threads.h"

struct job {
	void (*each)(size_t i, void *arg);
	void *arg;
	size_t n;
	atomic_size_t next;
};

static void *work(void *arg)
{
	struct job *job = arg;
	size_t i;

	while ((i = atomic_fetch_add(&job->next, 1)) < job->n && !place_over())
		job->each(i, job->arg);
	return NULL;
}

void parallel(u32 threads, size_t n, void (*each)(size_t i, void *arg), void *arg)
{
	struct job job = { .each = each, .arg = arg, .n = n };
	pthread_t thread[MAX_THREADS];
	u32 i, started = 0;

	threads = min_u64(min_u64(threads, n), MAX_THREADS);
	for (i = 1; i < threads; i++)
		if (!pthread_create(&thread[started], NULL, work, &job))
			started++;
	work(&job);
	for (i = 0; i < started; i++)
		pthread_join(thread[i], NULL);
}
