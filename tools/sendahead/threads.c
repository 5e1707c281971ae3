// SPDX-License-Identifier: GPL-2.0
/*
 * Calls a function many times, in several threads. Each thread waits for the disk most of the time,
 * so their number is about the number of requests under way.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>
#include <sys/resource.h>

#include "heads.h"
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
	struct heads *heads;	/* or NULL: in the order of the numbers */
	pthread_mutex_t lock;	/* of the following, and of @heads */
	pthread_cond_t change;
	u32 waiting;
};

/* Return: number of blocks that this thread has read from any disk. */
static long blocks_read(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_inblock;
}

/* What a call was: none, one without a read from a disk, or one with. */
enum call { NONE_YET, CACHED, READ };

/*
 * Set @i to the next number for this thread, and @head to the disk that reads it. @last: the call
 * before, on the old @head. Return: whether there is one.
 */
static int next(struct job *job, size_t *i, u32 *head, enum call last)
{
	int found = 0;

	if (!job->heads) {
		*i = atomic_fetch_add(&job->next, 1);
		return *i < job->n && !shared_over();
	}
	pthread_mutex_lock(&job->lock);
	if (last != NONE_YET)
		heads_leave(job->heads, *head, last == READ);
	while (!shared_over() && job->heads->left && !(found = heads_take(job->heads, i, head))) {
		job->waiting++;
		pthread_cond_wait(&job->change, &job->lock);
		job->waiting--;
	}
	if (job->waiting && (!found || !job->heads->left || heads_idle(job->heads)))
		pthread_cond_broadcast(&job->change);
	pthread_mutex_unlock(&job->lock);
	return found;
}

static void *work(void *arg)
{
	struct job *job = arg;
	const struct sampling *sampling = job->sampling;
	long before = blocks_read(), now;
	enum call last = NONE_YET;
	size_t i;
	u32 head;

	while (next(job, &i, &head, last)) {
		size_t at = sampling ? sampling->passed + i : 0;

		last = CACHED;
		if (!job->reads && at >= FIRST && at % SAMPLE)
			continue;
		job->each(i, job->arg);
		now = blocks_read();
		if (now != before) {
			before = now;
			last = READ;
			job->reads = 1;
		}
		/* the remaining calls are left to all threads */
		if (sampling && sampling->alone && job->reads)
			break;
	}
	return NULL;
}

static void run(u32 threads, struct job *job, struct heads *heads)
{
	pthread_t thread[MAX_THREADS];
	u32 i, started = 0;

	if (heads && heads_begin(heads, threads) > 1) {
		job->heads = heads;
		threads *= heads->disk->nr_heads;
	}
	pthread_mutex_init(&job->lock, NULL);
	pthread_cond_init(&job->change, NULL);
	threads = room_threads(min_u64(min_u64(threads, job->n), MAX_THREADS));
	for (i = 1; i < threads; i++)
		if (!pthread_create(&thread[started], NULL, work, job))
			started++;
	work(job);
	for (i = 0; i < started; i++)
		pthread_join(thread[i], NULL);
}

void parallel(u32 threads, size_t n, void (*each)(size_t i, void *arg), void *arg,
	      struct heads *heads)
{
	struct job job = { .each = each, .arg = arg, .n = n };

	run(threads, &job, heads);
}

int parallel_unless_cached(u32 threads, size_t n, void (*each)(size_t i, void *arg), void *arg,
			   struct sampling *sampling, struct heads *heads)
{
	struct job some = { .each = each, .arg = arg, .n = n, .sampling = sampling };
	struct job all = { .each = each, .arg = arg, .n = n };

	/* without this file, the kernel does not count what a thread reads */
	if (access("/proc/self/io", F_OK))
		some.reads = 1;
	else if (!sampling->reads)
		run(sampling->alone ? 1 : threads, &some, heads);
	if (some.reads || sampling->reads)
		run(threads, &all, heads);
	sampling->reads = some.reads || all.reads;
	sampling->passed = sampling->reads ? 0 : sampling->passed + n;
	return sampling->reads;
}
