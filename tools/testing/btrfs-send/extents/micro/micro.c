// SPDX-License-Identifier: GPL-2.0
/*
 * Times the index of extents, fs/btrfs/send-extents.c as it is, and beside it one
 * with open addressing in a single table, for the same extents.
 *
 * micro EXTENTS [SAMPLES]: a line a table and sample: nanoseconds for each extent
 * entered, looked up and found, and looked up in vain; bytes an extent at the end
 * and at most; allocations. Then the medians of both tables beside each other, with
 * the least and the most of all samples and the difference.
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

#define MAX_SAMPLES	100

static const char *const measures[] = {
	"ns, entered", "ns, found", "ns, not found", "bytes", "bytes at most", "allocations",
	"M/s, found", "M/s, not found",
};

#define NR_MEASURES	(sizeof(measures) / sizeof(measures[0]))

/* Of each measure the samples, and how many there are. */
struct results {
	double values[NR_MEASURES][MAX_SAMPLES];
	int nr;
};

/* Note a sample, and print it. */
static void take_sample(struct results *results, const char *name, u32 nr, const double *times)
{
	const double values[NR_MEASURES] = {
		(times[1] - times[0]) / nr, (times[2] - times[1]) / nr,
		(times[3] - times[2]) / nr, (double)micro_allocated / nr,
		(double)micro_peak / nr, micro_allocations,
		nr / (times[2] - times[1]) * 1e3, nr / (times[3] - times[2]) * 1e3,
	};

	for (size_t i = 0; i < NR_MEASURES; i++)
		results->values[i][results->nr] = values[i];
	results->nr++;
	printf("%s: entered %.1f ns, found %.1f ns, not found %.1f ns, %.1f bytes, at most %.1f bytes, %.0f allocations\n",
	       name, values[0], values[1], values[2], values[3], values[4], values[5]);
}

static int compare_doubles(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The median of a measure, printed with the least and the most. */
static double print_median(struct results *results, size_t measure)
{
	double *values = results->values[measure];
	char spread[64];

	qsort(values, results->nr, sizeof(*values), compare_doubles);
	snprintf(spread, sizeof(spread), "(%.1f-%.1f)", values[0], values[results->nr - 1]);
	printf(" %8.1f %-17s", values[results->nr / 2], spread);
	return values[results->nr / 2];
}

static void print_medians(struct results *old, struct results *new)
{
	printf("\n%-14s %-26s %-26s %s\n", "", "    open", "    chained", "   delta");
	for (size_t i = 0; i < NR_MEASURES; i++) {
		double before, after;

		printf("%-14s", measures[i]);
		before = print_median(old, i);
		after = print_median(new, i);
		printf(" %+7.1f %%\n", (after - before) / before * 100);
	}
}

static void reset(void)
{
	micro_allocated = 0;
	micro_allocations = 0;
	micro_peak = 0;
}

static void chained(struct results *results, const u64 *extents, u32 nr)
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
	take_sample(results, "chained", nr, times);
	btrfs_send_extents_stop(x);
}

static void open_addressing(struct results *results, const u64 *extents, u32 nr)
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
	take_sample(results, "open", nr, times);
	micro_free(t.entries);
}

int main(int argc, char **argv)
{
	const u32 nr = argc > 1 ? strtoul(argv[1], NULL, 0) : 1000000;
	const int samples = min(argc > 2 ? atoi(argv[2]) : 3, MAX_SAMPLES);
	static struct results open, chains;
	u64 *extents = make_extents(nr);

	for (int i = 0; i < samples; i++) {
		chained(&chains, extents, nr);
		open_addressing(&open, extents, nr);
	}
	if (samples > 1)
		print_medians(&open, &chains);
	free(extents);
	return 0;
}
