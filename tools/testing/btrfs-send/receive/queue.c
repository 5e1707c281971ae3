// SPDX-License-Identifier: GPL-2.0
/* What comes out of the buffer of a receive is what went in: pieces of any size, in any order. */
#include <stdio.h>
#include <stdlib.h>

#include "../../../sendahead/queue.h"

#define ALL (4 << 20)			/* bytes through each queue */
#define MOST 65536			/* added or taken at once */

static u8 byte_at(u64 at)
{
	return at * 2654435761u >> 13;
}

static void check(const u8 *p, size_t n, u64 at, const char *where)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (p[i] != byte_at(at + i)) {
			printf("%s: byte %llu is another\n", where, (unsigned long long)(at + i));
			exit(1);
		}
	}
}

static void run(void)
{
	struct queue *queue = queue_init(0);
	size_t held = 0, room, n, i;
	u64 taken = 0;

	while (taken < ALL) {
		u8 *p = queue_room(queue, held, &room);

		if (p) {
			check(p, held, queue->end, "held");
			n = min_u64(rand() % MOST, room - held);
			for (i = 0; i < n; i++)
				p[held + i] = byte_at(queue->end + held + i);
			held += n;
			n = rand() % (held + 1);
			queue_add(queue, n, queue->end + n);
			held -= n;
		}
		do {
			const u8 *first = queue_first(queue, &n);

			n = min_u64(n, rand() % MOST + 1);
			check(first, n, taken, "taken");
			queue_take(queue, n);
			taken += n;
		} while (n && rand() % 4);
	}
}

int main(void)
{
	int seed;

	for (seed = 1; seed <= 60; seed++) {
		srand(seed);
		run();
	}
	printf("all bytes are right\n");
	return 0;
}
