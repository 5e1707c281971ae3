/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The buffer of a receive: the part of the stream that btrfs has not read yet, in memory that two
 * processes share. One process adds and takes bytes, the other (receive-ahead.c) only reads
 * them.
 */
#ifndef SENDAHEAD_QUEUE_H
#define SENDAHEAD_QUEUE_H

#include <stdatomic.h>

#include "stream.h"

#define QUEUE_CHUNK (1 << 18)		/* bytes */
#define QUEUE_CHUNKS 4096
#define QUEUE_BOUNDARIES 8192

/* Bytes of the stream that are contiguous in memory, in one chunk. */
struct piece {
	atomic_ullong at;		/* offset of the first one in the stream */
	atomic_uint chunk, used;
};

struct queue {
	u8 *memory;
	u32 chunks;
	u32 most;			/* limit of chunks with memory */
	u32 peak;			/* most chunks in use since the last queue_limit() */
	u32 nr_free;
	u32 nr_bare;			/* the first so many free chunks have no memory */
	u32 free[QUEUE_CHUNKS];		/* a stack: the chunk freed last is used first */
	atomic_uint first, last;	/* pieces first to last - 1 are in use, modulo chunks */
	struct piece pieces[QUEUE_CHUNKS];
	/*
	 * Offsets in the stream. Added and not taken: begin to end. Bytes from kept on are still
	 * in memory.
	 */
	atomic_ullong kept, begin, end;
	/* offsets at which commands begin, the last ones; nr_boundaries counts all */
	atomic_uint nr_boundaries;
	atomic_ullong boundaries[QUEUE_BOUNDARIES];
	atomic_uint lost;		/* the commands cannot be followed any more */
	/* the last subvolume that has begun */
	atomic_uint begun;		/* its number in the stream, from 1 */
	u8 command[FIRST_MOST];		/* that began it */
};

/* Make a queue for about so many bytes, with memory only for those added. Return: it, or NULL. */
struct queue *queue_init(u64 bytes);

/**
 * queue_room() - find room for more bytes
 * @queue: the queue
 * @held: bytes at the last returned address that were not added; they are kept, and moved if
 *	the address changes
 * @room: set to the size of the room in bytes, @held included
 *
 * Return: the address of the held bytes, or NULL if the queue is full
 */
u8 *queue_room(struct queue *queue, size_t held, size_t *room);

/* Add @n bytes that were put at the address of queue_room(). */
void queue_add(struct queue *queue, size_t n);

/* Return: bytes of memory that the queue uses. */
u64 queue_memory(const struct queue *queue);

/*
 * Limit the memory to so many bytes. Free memory beyond the limit, and beyond the most that was in
 * use since the last call, is given back.
 */
void queue_limit(struct queue *queue, u64 bytes);

/* Return: the first bytes that were not taken; @n is set to how many of them are contiguous. */
const u8 *queue_first(const struct queue *queue, size_t *n);

/* Remove the first @n bytes. */
void queue_take(struct queue *queue, size_t n);

/**
 * queue_look() - copy bytes for the process that only reads; they may have been taken already
 * @queue: the queue
 * @at: offset in the stream
 * @to: where to copy them
 * @n: most bytes to copy
 *
 * Return: bytes copied, 0 if none is there yet, -1 if the memory has been used again
 */
long queue_look(const struct queue *queue, u64 at, u8 *to, size_t n);

/* Return: the offset of the first command that was not taken, of those that are known. */
u64 queue_boundary(const struct queue *queue);

#endif
