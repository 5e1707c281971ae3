// SPDX-License-Identifier: GPL-2.0
/*
 * Calls a function many times, in several threads. Each thread waits for the disk most of the time,
 * so their number is about the number of requests under way.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/resource.h>

#include "room.h"
#include "shared.h"
#include "threads.h"

#define FIRST 64		/* so many calls are made, */
#define SAMPLE 17		/* then one of 17, a prime: every 2nd, 4th... may be alike */

struct job {
	void (*each)(size_t i, void *arg);
	void *arg;
	size_t n;
	const struct sampling *sampling;	/* or NULL: make all calls */
	atomic_int reads;	/* a call has read from a disk */
	u32 copies;
	u8 *which;		/* copy that each call has to read, or NULL: any */
	pthread_mutex_t lock;	/* of the following */
	struct range {
		size_t first, last;	/* numbers not taken: first to last - 1 */
	} range[MAX_COPIES];	/* for the threads of each copy */
};

/* Return: number of blocks that this thread has read from any disk. */
static long blocks_read(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_inblock;
}

/*
 * Set @i to the next number for this thread. Of mirrored blocks, btrfs reads copy number (thread id
 * % number of copies), so the threads for each copy have a part of the list: each disk moves its
 * head in one direction. When it is done, they take over the second half of the longest part. If
 * a disk is slow, each call is left to the threads of its copy. Return: whether there is one.
 */
static int next(struct job *job, size_t *i)
{
	u32 copy = gettid() % job->copies;
	struct range *own = &job->range[copy], *most = own, *other;
	int found;

	pthread_mutex_lock(&job->lock);
	while (job->which && own->first < own->last && job->which[own->first] != copy)
		own->first++;
	if (!job->which && own->first == own->last) {
		for (other = job->range; other < job->range + job->copies; other++)
			if (other->last - other->first > most->last - most->first)
				most = other;
		own->last = most->last;
		own->first = most->first + (most->last - most->first) / 2;
		most->last = own->first;
	}
	found = own->first < own->last;
	*i = own->first;
	own->first += found;
	pthread_mutex_unlock(&job->lock);
	return found && !shared_over();
}

static void *work(void *arg)
{
	struct job *job = arg;
	const struct sampling *sampling = job->sampling;
	long before = blocks_read();
	size_t i;

	while (next(job, &i)) {
		size_t at = sampling ? sampling->passed + i : 0;

		if (!job->reads && at >= FIRST && at % SAMPLE)
			continue;
		job->each(i, job->arg);
		job->reads |= blocks_read() != before;
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

	for (i = 0; i < job->copies; i++) {
		job->range[i].first = job->which ? 0 : job->n * i / job->copies;
		job->range[i].last = job->which ? job->n : job->n * (i + 1) / job->copies;
	}
	pthread_mutex_init(&job->lock, NULL);
	for (i = 1; i < threads; i++)
		if (!pthread_create(&thread[started], NULL, work, job))
			started++;
	work(job);
	for (i = 0; i < started; i++)
		pthread_join(thread[i], NULL);
}

int parallel(u32 threads, size_t n, void (*each)(size_t i, void *arg), void *arg,
	     struct sampling *sampling, const struct disk *disk, const u64 *block, size_t stride)
{
	/* the first ones of a sweep may have no address: they count as being where the last one is */
	u64 last = disk && n ? *(const u64 *)((const char *)block + (n - 1) * stride) : 0;
	u32 copies = disk && n ? disk_copies(disk, last) : 1;
	struct job job = { .each = each, .arg = arg, .n = n, .copies = copies };
	int all = !sampling || sampling->reads;
	u8 *which;
	size_t i;

	threads = room_threads(min_u64(min_u64(threads, n), MAX_THREADS));
	/* with so many there are some for each copy */
	which = copies > 1 && threads > 2 * copies ? malloc(n) : NULL;
	for (i = 0; which && i < n; i++) {
		u64 logical = *(const u64 *)((const char *)block + i * stride);
		int only = disk_only_copy(disk, logical ? logical : last, 0);

		which[i] = only < 0 ? i * copies / n : only % copies;
		job.which = only < 0 ? job.which : which;
	}
	/* without this file, the kernel does not count what a thread reads */
	job.reads = access("/proc/self/io", F_OK) != 0;
	if (!all && !job.reads) {
		job.sampling = sampling;
		run(sampling->alone ? 1 : threads, &job);
		job.sampling = NULL;
	}
	if (all || job.reads)
		run(threads, &job);
	if (sampling) {
		sampling->reads = job.reads;
		sampling->passed = job.reads ? 0 : sampling->passed + n;
	}
	free(which);
	return job.reads;
}
