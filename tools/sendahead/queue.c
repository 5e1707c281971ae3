// SPDX-License-Identifier: GPL-2.0
/*
 * The buffer of a receive, a ring. While btrfs keeps up, its beginning is used again and again and
 * stays in the processor's cache.
 */
#include <sys/mman.h>

#include "queue.h"

#define LEAST 4096			/* with less room it is full */

static void *map(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static u64 whole_chunks(u64 bytes, u64 most)
{
	u64 size = min_u64(bytes / QUEUE_CHUNK * QUEUE_CHUNK, most);

	return size < 2 * QUEUE_CHUNK ? 2 * QUEUE_CHUNK : size;
}

struct queue *queue_init(u64 bytes)
{
	struct queue *queue = map(sizeof(*queue));
	u8 *second;

	if (!queue)
		return NULL;
	queue->size = queue->most = whole_chunks(bytes, QUEUE_MOST);
	queue->memory = map(2 * queue->size);
	if (!queue->memory)
		return NULL;
	/* with an old size of 0, the same memory is mapped once more */
	second = mremap(queue->memory, 0, queue->size, MREMAP_MAYMOVE | MREMAP_FIXED,
			queue->memory + queue->size);
	if (second == MAP_FAILED)
		return NULL;
	return queue;
}

static u8 *memory_of(const struct queue *queue, u64 at)
{
	return queue->memory + (at - queue->base) % queue->size;
}

/* Give back the memory of whole chunks before @position, but keep the first one of the ring. */
static void give_back(struct queue *queue, u64 position)
{
	for (; queue->freed + QUEUE_CHUNK <= position; queue->freed += QUEUE_CHUNK)
		if (queue->freed % queue->size)
			madvise(queue->memory + queue->freed % queue->size, QUEUE_CHUNK, MADV_REMOVE);
}

u8 *queue_room(struct queue *queue, size_t held, size_t *room)
{
	u8 *from = memory_of(queue, queue->end);
	u64 position = queue->end - queue->base;

	/* all was taken: go back to the beginning, unless the held bytes wrap around to it */
	if (queue->begin == queue->end && position >= QUEUE_CHUNK && held <= QUEUE_CHUNK &&
	    position % queue->size + held <= queue->size) {
		queue->base = queue->end;
		atomic_thread_fence(memory_order_seq_cst);
		from = memmove(queue->memory, from, held);
		give_back(queue, position + held + QUEUE_CHUNK - 1);
		position = queue->freed = 0;
	}
	*room = queue->freed + queue->most - min_u64(position, queue->freed + queue->most);
	return *room >= held + LEAST ? from : NULL;
}

void queue_limit(struct queue *queue, u64 bytes)
{
	queue->most = whole_chunks(bytes, queue->size);
}

void queue_add(struct queue *queue, size_t n, u64 boundary)
{
	queue->end += n;
	queue->boundaries[boundary / QUEUE_CHUNK % QUEUE_CHUNKS] = boundary;
	queue->boundary = boundary;
}

const u8 *queue_first(const struct queue *queue, size_t *n)
{
	*n = queue->end - queue->begin;
	return memory_of(queue, queue->begin);
}

void queue_take(struct queue *queue, size_t n)
{
	queue->begin += n;
	if (queue->begin > queue->base + QUEUE_ON_WAY)
		give_back(queue, queue->begin - queue->base - QUEUE_ON_WAY);
}

long queue_look(const struct queue *queue, u64 at, u8 *to, size_t n)
{
	u64 end = queue->end;

	if (at >= end)
		return 0;
	n = min_u64(n, end - at);
	memcpy(to, memory_of(queue, at), n);
	/* the copy is right if the memory was not used again meanwhile, or given back */
	atomic_thread_fence(memory_order_seq_cst);
	return at >= queue->base && at + QUEUE_ON_WAY >= queue->begin ? (long)n : -1;
}

u64 queue_boundary(const struct queue *queue)
{
	u64 at, begin = queue->begin, end = queue->end;

	for (at = begin; at < end; at += QUEUE_CHUNK) {
		u64 boundary = queue->boundaries[at / QUEUE_CHUNK % QUEUE_CHUNKS];

		if (boundary >= begin)
			return boundary;
	}
	return queue->boundary;
}
