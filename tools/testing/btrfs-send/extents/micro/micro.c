// SPDX-License-Identifier: GPL-2.0
/*
 * Times the index of extents, fs/btrfs/send-extents.c as it is, and beside it one
 * with open addressing in a single table, for the same extents.
 *
 * micro EXTENTS [SAMPLES]: a line a table and sample: nanoseconds for each extent
 * entered, looked up and found, and looked up in vain; bytes an extent at the end
 * and at most; allocations.
 */

#include <malloc.h>
#include <stdio.h>
#include <time.h>
#include "kernel.h"
#include "send-extents.c"

u64 micro_allocated, micro_allocations, micro_peak;

void *micro_alloc(u64 bytes)
{
	void *ptr = calloc(1, bytes);

	if (!ptr)
		abort();
	micro_allocated += malloc_usable_size(ptr);
	micro_allocations++;
	micro_peak = max(micro_peak, micro_allocated);
	return ptr;
}

void micro_free(void *ptr)
{
	if (ptr)
		micro_allocated -= malloc_usable_size(ptr);
	free(ptr);
}

/* As send-prefetch.c has them: 64 GiB of memory, and nothing is counted. */
u64 prefetch_ram_bytes(void)
{
	return 1ULL << 36;
}

void prefetch_count(struct btrfs_fs_info *fs_info, enum btrfs_send_prefetch_counter counter)
{
	(void)fs_info;
	(void)counter;
}

/* The rival: entries in one table, doubled when three quarters are in use. */
struct open_entry {
	u64 bytenr;
	u16 start;
	u16 end;
};

struct open_table {
	struct open_entry *entries;
	u32 order;
	u32 nr;
};

static struct open_entry *open_find(const struct open_table *t, u64 bytenr)
{
	u32 i = hash_64(bytenr >> 12, t->order);

	while (t->entries[i].bytenr && t->entries[i].bytenr != bytenr)
		i = (i + 1) & ((1u << t->order) - 1);
	return &t->entries[i];
}

static void open_add(struct open_table *t, u64 bytenr)
{
	struct open_entry *entry;

	if (t->nr >= 3u << (t->order - 2)) {
		struct open_table next = { .order = t->order + 1, .nr = t->nr };

		next.entries = micro_alloc(sizeof(*entry) << next.order);
		for (u32 i = 0; i < 1u << t->order; i++)
			if (t->entries[i].bytenr)
				*open_find(&next, t->entries[i].bytenr) = t->entries[i];
		micro_free(t->entries);
		*t = next;
	}
	entry = open_find(t, bytenr);
	if (!entry->bytenr)
		t->nr++;
	entry->bytenr = bytenr;
	entry->end = 8;
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1e9 + ts.tv_nsec;
}

/* Extents of one to 32 blocks one after the other, met in another order. */
static u64 *make_extents(u32 nr)
{
	u64 *extents = malloc(nr * sizeof(*extents));
	u64 at = 1ull << 30, random = 88172645463325252ull;

	if (!extents)
		abort();
	for (u32 i = 0; i < nr; i++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		extents[i] = at;
		at += (2 + random % 31) << 12;
	}
	/* Files are in pieces: runs of 16 extents lie anywhere. */
	for (u32 i = 0; i + 32 <= nr; i += 16) {
		const u32 other = random % (nr / 16) * 16;

		random = random * 6364136223846793005ull + 1442695040888963407ull;
		for (u32 j = 0; j < 16 && other + j < nr; j++) {
			const u64 extent = extents[i + j];

			extents[i + j] = extents[other + j];
			extents[other + j] = extent;
		}
	}
	return extents;
}

static void print(const char *name, u32 nr, const double *times)
{
	printf("%s: entered %.1f ns, found %.1f ns, not found %.1f ns, %.1f bytes, at most %.1f bytes, %llu allocations\n",
	       name, (times[1] - times[0]) / nr, (times[2] - times[1]) / nr,
	       (times[3] - times[2]) / nr, (double)micro_allocated / nr,
	       (double)micro_peak / nr, (unsigned long long)micro_allocations);
}

static void reset(void)
{
	micro_allocated = 0;
	micro_allocations = 0;
	micro_peak = 0;
}

static void chained(const u64 *extents, u32 nr)
{
	struct btrfs_fs_info fs_info = { .sectorsize = 4096 };
	const struct btrfs_root root = { .fs_info = &fs_info };
	struct extent_buffer leaf = { .item = { .type = BTRFS_FILE_EXTENT_REG, .num_bytes = 4096 } };
	struct btrfs_send_extents *x;
	double times[4];
	u32 new = 0;

	reset();
	times[0] = now();
	x = btrfs_send_extents_start(&root, 0);
	for (u32 i = 0; i < nr; i++) {
		leaf.item.bytenr = extents[i];
		btrfs_send_extents_add(x, &leaf, 0);
	}
	times[1] = now();
	for (u32 i = 0; i < nr; i++) {
		leaf.item.bytenr = extents[i];
		new += btrfs_send_extents_find(x, &leaf, 0) == BTRFS_SEND_EXTENTS_NONE;
	}
	times[2] = now();
	for (u32 i = 0; i < nr; i++) {
		leaf.item.bytenr = extents[i] + 4096;
		new += btrfs_send_extents_find(x, &leaf, 0) == BTRFS_SEND_EXTENTS_NONE;
	}
	times[3] = now();
	if (new != nr)
		abort();
	print("chained", nr, times);
	btrfs_send_extents_stop(x);
}

static void open_addressing(const u64 *extents, u32 nr)
{
	struct open_table t = { .order = 10 };
	double times[4];
	u32 new = 0;

	reset();
	times[0] = now();
	t.entries = micro_alloc(sizeof(*t.entries) << t.order);
	for (u32 i = 0; i < nr; i++)
		open_add(&t, extents[i]);
	times[1] = now();
	for (u32 i = 0; i < nr; i++)
		new += !open_find(&t, extents[i])->bytenr;
	times[2] = now();
	for (u32 i = 0; i < nr; i++)
		new += !open_find(&t, extents[i] + 4096)->bytenr;
	times[3] = now();
	if (new != nr)
		abort();
	print("open", nr, times);
	micro_free(t.entries);
}

int main(int argc, char **argv)
{
	const u32 nr = argc > 1 ? strtoul(argv[1], NULL, 0) : 1000000;
	const int samples = argc > 2 ? atoi(argv[2]) : 3;
	u64 *extents = make_extents(nr);

	for (int i = 0; i < samples; i++) {
		chained(extents, nr);
		open_addressing(extents, nr);
	}
	free(extents);
	return 0;
}
