// SPDX-License-Identifier: GPL-2.0
/* How often a receive asks what others have read, while its count of that is negative. */
#include <stdio.h>
#include <stdlib.h>

#include "../../../sendahead/disk.h"
#include "../../../sendahead/receive.h"
#include "../../../sendahead/room.h"
#include "../../../sendahead/shared.h"

static int asked;

void give_up(const char *format, ...)
{
	(void)format;
	abort();
}

int shared_over(void)
{
	return 0;
}

u32 room_threads(u32 wanted)
{
	return wanted;
}

int open_regular(int found, int flags)
{
	(void)flags;
	return found;
}

static int64_t reads(void)
{
	asked++;
	return -1000;
}

int main(void)
{
	static struct queue queue;
	int i;

	for (i = 0; i < 100; i++)
		writeback_run(-1, &queue, reads);
	printf("asked %d times\n", asked);
	return 0;
}
