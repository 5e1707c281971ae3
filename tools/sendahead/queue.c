// SPDX-License-Identifier: GPL-2.0
/*
 * The buffer of a receive, in chunks. While btrfs keeps up, the same few chunks are used again and
 * again and stay in the processor's cache.
 */
#include <sys/mman.h>

#include "queue.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define LEAST 4096			/* with less room, a new chunk is begun */

static void *map(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

struct queue *queue_init(u64 bytes)
{
	struct queue *queue = map(sizeof(*queue));
	u32 i;

	if (!queue)
		return NULL;
	queue->chunks = min_u64(bytes / QUEUE_CHUNK, QUEUE_CHUNKS);
	if (queue->chunks < 2)
		queue->chunks = 2;
	queue->most = queue->chunks;
	queue->memory = map((size_t)queue->chunks * QUEUE_CHUNK);
	if (!queue->memory)
		return NULL;
	/* the first piece has chunk 0 */
	queue->last = 1;
	for (i = 1; i < queue->chunks; i++)
		queue->free[queue->nr_free++] = queue->chunks - i;
	queue->nr_bare = queue->nr_free;
	return queue;
}

static struct piece *piece_of(const struct queue *queue, u32 number)
{
	return (struct piece *)&queue->pieces[number % queue->chunks];
}

static u8 *memory_of(const struct queue *queue, const struct piece *piece)
{
	return queue->memory + (size_t)piece->chunk * QUEUE_CHUNK;
}

u8 *queue_room(struct queue *queue, size_t held, size_t *room)
{
	struct piece *piece = piece_of(queue, queue->last - 1);
	u8 *from = memory_of(queue, piece) + piece->used, *to;
	int empty = queue->begin == queue->end;

	*room = QUEUE_CHUNK - piece->used;
	if (*room >= held + LEAST)
		return from;
	if (empty) {
		/* all was taken: begin the last chunk again */
		queue->kept = queue->end;
	} else if (queue->nr_free > queue->nr_bare ||
		   (queue->nr_free && queue->chunks - queue->nr_bare < queue->most)) {
		piece = piece_of(queue, queue->last);
		piece->chunk = queue->free[--queue->nr_free];
		queue->nr_bare = min_u64(queue->nr_bare, queue->nr_free);
		if (queue->peak < queue->chunks - queue->nr_free)
			queue->peak = queue->chunks - queue->nr_free;
		/* allocate all pages at once; before Linux 5.14 each page faults */
		madvise(memory_of(queue, piece), QUEUE_CHUNK, MADV_POPULATE_WRITE);
	} else {
		return NULL;
	}
	piece->used = 0;
	piece->at = queue->end;
	queue->last += !empty;
	to = memory_of(queue, piece);
	memmove(to, from, held);
	*room = QUEUE_CHUNK;
	return to;
}

u64 queue_memory(const struct queue *queue)
{
	return (u64)(queue->chunks - queue->nr_bare) * QUEUE_CHUNK;
}

void queue_limit(struct queue *queue, u64 bytes)
{
	u32 keep;

	queue->most = min_u64(bytes / QUEUE_CHUNK, queue->chunks);
	if (queue->most < 2)
		queue->most = 2;
	keep = min_u64(queue->most, queue->peak);
	while (queue->nr_bare < queue->nr_free && queue->chunks - queue->nr_bare > keep)
		madvise(queue->memory + (size_t)queue->free[queue->nr_bare++] * QUEUE_CHUNK,
			QUEUE_CHUNK, MADV_REMOVE);
	queue->peak = queue->chunks - queue->nr_free;
}

void queue_add(struct queue *queue, size_t n)
{
	piece_of(queue, queue->last - 1)->used += n;
	queue->end += n;
}

const u8 *queue_first(const struct queue *queue, size_t *n)
{
	const struct piece *piece = piece_of(queue, queue->first);
	size_t done = queue->begin - piece->at;

	*n = piece->used - done;
	return memory_of(queue, piece) + done;
}

void queue_take(struct queue *queue, size_t n)
{
	struct piece *piece = piece_of(queue, queue->first);

	queue->begin += n;
	if (queue->first + 1 != queue->last && queue->begin == piece->at + piece->used) {
		queue->kept = queue->begin;
		queue->free[queue->nr_free++] = piece->chunk;
		queue->first++;
	}
}

/* Copy contiguous bytes from offset @at on. Return: how many. */
static size_t look(const struct queue *queue, u64 at, u8 *to, size_t n)
{
	u32 number, last = queue->last;

	for (number = queue->first; number != last; number++) {
		const struct piece *piece = piece_of(queue, number);
		u64 from = piece->at, used = piece->used;

		if (at < from || at >= from + used || used > QUEUE_CHUNK ||
		    piece->chunk >= queue->chunks)
			continue;
		n = min_u64(n, from + used - at);
		memcpy(to, memory_of(queue, piece) + (at - from), n);
		return n;
	}
	return 0;
}

long queue_look(const struct queue *queue, u64 at, u8 *to, size_t n)
{
	size_t found = 0, part;

	if (at >= queue->end)
		return 0;
	while (found < n && (part = look(queue, at + found, to + found, n - found)))
		found += part;
	/* the copy is right if the memory was not used again meanwhile */
	atomic_thread_fence(memory_order_seq_cst);
	return found && queue->kept <= at ? (long)found : -1;
}

u64 queue_boundary(const struct queue *queue)
{
	u32 i, n = queue->nr_boundaries;
	u64 at = queue->end;

	for (i = n > QUEUE_BOUNDARIES / 2 ? n - QUEUE_BOUNDARIES / 2 : 0; i < n; i++) {
		at = queue->boundaries[i % QUEUE_BOUNDARIES];
		if (at >= queue->begin)
			break;
	}
	return at;
}
