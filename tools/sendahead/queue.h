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

#define QUEUE_MOST (1ULL << 30)		/* bytes of the largest buffer */
#define QUEUE_CHUNK (1 << 18)		/* bytes of the stream, for which one boundary is known */
#define QUEUE_CHUNKS (QUEUE_MOST / QUEUE_CHUNK + 1)
#define QUEUE_ON_WAY 65536		/* most bytes taken for btrfs that it has not read yet */

struct queue {
	u8 *memory;			/* a ring, mapped twice: bytes that wrap around are contiguous */
	u64 size, most;			/* of the ring; limit of the memory that it uses */
	u64 freed;			/* memory was given back up to this position in the ring */
	/* offsets in the stream: at the beginning of the ring; added and not taken: begin to end */
	atomic_ullong base, begin, end;
	/* at which commands begin: the last one in each chunk, and of all */
	atomic_ullong boundaries[QUEUE_CHUNKS], boundary;
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

/* Add @n bytes that were put at the address of queue_room(); a command begins at @boundary. */
void queue_add(struct queue *queue, size_t n, u64 boundary);

/* Limit the memory to so many bytes. */
void queue_limit(struct queue *queue, u64 bytes);

/* Return: the first bytes that were not taken, @n of them. */
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
 * Return: bytes copied, 0 if none is there yet, -1 if btrfs may have read them already
 */
long queue_look(const struct queue *queue, u64 at, u8 *to, size_t n);

/* Return: the offset of a command that was not taken, near the first one. */
u64 queue_boundary(const struct queue *queue);

#endif
