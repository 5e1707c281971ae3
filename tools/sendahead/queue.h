/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A part of a stream, kept until it is taken: memory that two processes share. One of
 * them puts in and takes out, the other only looks.
 */
#ifndef SENDAHEAD_QUEUE_H
#define SENDAHEAD_QUEUE_H

#include <stdatomic.h>

#include "util.h"

#define QUEUE_CHUNK (1 << 18)		/* bytes */
#define QUEUE_CHUNKS 4096		/* at most */
#define QUEUE_BOUNDARIES 8192

/* Bytes that lie together. */
struct piece {
	atomic_ullong at;		/* the place in the stream */
	atomic_uint chunk, used;
};

struct queue {
	u8 *memory;
	u32 chunks;
	u32 most;			/* chunks that may have memory */
	u32 peak;			/* chunks in use at once, since the last queue_limit() */
	u32 nr_free;
	u32 nr_bare;			/* of these, the first ones: they have no memory */
	u32 free[QUEUE_CHUNKS];		/* the one used last is taken first */
	atomic_uint first, last;	/* of the pieces, counted on and on: there is always one */
	struct piece pieces[QUEUE_CHUNKS];
	/* places in the stream: where the memory is not used again, what is not taken */
	atomic_ullong kept, begin, end;
	/* places where a command begins, the last ones of so many */
	atomic_uint nr_boundaries;
	atomic_ullong boundaries[QUEUE_BOUNDARIES];
	atomic_uint lost;		/* that is not known any more */
	/* of the last subvolume that has begun */
	atomic_uint begun;		/* its number, from 1 */
	atomic_uint snapshot;		/* it is based on that with this UUID */
	u8 parent[16];
	char name[256];
};

/* A queue for about so many bytes, or NULL. Memory is only taken for what is put in. */
struct queue *queue_init(u64 bytes);

/**
 * queue_room() - where more can be put
 * @queue: the queue
 * @held: bytes that lie there and were not added, and stay
 * @room: set to the bytes there is room for, with these
 *
 * Return: the place, perhaps another one, or NULL if it is full
 */
u8 *queue_room(struct queue *queue, size_t held, size_t *room);

/* So many bytes of them are there now. */
void queue_add(struct queue *queue, size_t n);

/* Bytes of memory that it has now. */
u64 queue_memory(const struct queue *queue);

/*
 * Have no more memory than so many bytes from now on, and give back what is free: down to
 * that, and to what was in use at once since the last call.
 */
void queue_limit(struct queue *queue, u64 bytes);

/* The first bytes, of which @n are there together. */
const u8 *queue_first(const struct queue *queue, size_t *n);

/* So many of the first bytes are not needed any more. */
void queue_take(struct queue *queue, size_t n);

/**
 * queue_look() - copy what is kept, taken or not, for the other process
 * @queue: the queue
 * @at: from this place in the stream on
 * @to: where to
 * @n: how many bytes at most
 *
 * Return: bytes copied, 0: there are no more yet, -1: it is not kept any more
 */
long queue_look(const struct queue *queue, u64 at, u8 *to, size_t n);

/* The first place not taken yet where a command begins, of those that are known. */
u64 queue_boundary(const struct queue *queue);

#endif
