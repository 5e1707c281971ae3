// SPDX-License-Identifier: GPL-2.0
/*
 * Helpers for all parts of the program.
 */
#include <stdlib.h>

#include "util.h"

int by_number(const void *a, const void *b)
{
	const u64 *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

void *more(void *array, size_t *room, size_t count, size_t size)
{
	void *larger;

	if (count < *room)
		return array;
	*room = *room ? 2 * *room : 64;
	larger = reallocarray(array, *room, size);
	if (!larger)
		give_up("no memory for %zu times %zu bytes", *room, size);
	return larger;
}
