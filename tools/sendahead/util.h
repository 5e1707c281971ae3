/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Types and helpers for all parts of the program.
 */
#ifndef SENDAHEAD_UTIL_H
#define SENDAHEAD_UTIL_H

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

#define NONE UINT64_MAX

/* get_u16(p) and so on: the little-endian number at @p, which need not be aligned */
#define DEFINE_GET(bits) \
static inline u##bits get_u##bits(const void *p) \
{ \
	u##bits v; \
\
	memcpy(&v, p, sizeof(v)); \
	return le##bits##toh(v); \
}
DEFINE_GET(16)
DEFINE_GET(32)
DEFINE_GET(64)

static inline u64 min_u64(u64 a, u64 b)
{
	return a < b ? a : b;
}

static inline u64 now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ULL + time.tv_nsec;
}

/* A key of a btrfs tree, in the processor's byte order. */
struct key {
	u64 objectid;
	u8 type;
	u64 offset;
};

static const struct key key_max = { UINT64_MAX, UINT8_MAX, UINT64_MAX };

/* Compare two keys, or structs that begin with one; also for qsort() and bsearch(). */
static inline int key_cmp(const void *first, const void *second)
{
	const struct key *a = first, *b = second;

	if (a->objectid != b->objectid)
		return a->objectid < b->objectid ? -1 : 1;
	if (a->type != b->type)
		return a->type < b->type ? -1 : 1;
	if (a->offset != b->offset)
		return a->offset < b->offset ? -1 : 1;
	return 0;
}

/**
 * give_up() - end the process that reads ahead; the send goes on without it
 * @format: the reason, as for printf(): a sentence without its full stop
 */
void give_up(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* Compare structs that begin with a u64, for qsort(). */
int by_number(const void *a, const void *b);

/**
 * more() - make room for one more element of an array
 * @array: the array, or NULL
 * @room: number of elements that have room, updated
 * @count: number of elements in use
 * @size: size of an element in bytes
 *
 * Gives up if there is no memory.
 *
 * Return: the array, perhaps at another address
 */
void *more(void *array, size_t *room, size_t count, size_t size);

/* Return: the address of a new last element of a list, a struct with members v, n and room. */
#define append(list) \
({ \
	__typeof__(list) _list = (list); \
	_list->v = more(_list->v, &_list->room, _list->n, sizeof(*_list->v)); \
	&_list->v[_list->n++]; \
})

/* Sort a list by a function for qsort(). */
#define sort_list(list, order) \
({ \
	__typeof__(list) _list = (list); \
	if (_list->n) \
		qsort(_list->v, _list->n, sizeof(*_list->v), order); \
})

/* Remove the first elements of a list. */
#define drop_first(list, count) \
({ \
	__typeof__(list) _list = (list); \
	size_t _count = (count); \
	_list->n -= _count; \
	if (_count) \
		memmove(_list->v, _list->v + _count, _list->n * sizeof(*_list->v)); \
})

struct keys {
	struct key *v;
	size_t n, room;
};

static inline void add_key(struct keys *keys, u64 objectid, u8 type, u64 offset)
{
	*append(keys) = (struct key) { objectid, type, offset };
}

#endif
