// SPDX-License-Identifier: GPL-2.0
/*
 * Test of the index of extents, fs/btrfs/send-extents.c as it is: what it takes for so many
 * extents, also while it grows, and that it finds each of them and no other.
 */

#include <malloc.h>
#include <stdio.h>
#include "kernel.h"
#include "send-extents.c"

#define EXTENTS	1100000
#define BYTES	40

static u64 allocated, peak;

void *test_alloc(u64 bytes)
{
	void *ptr = calloc(1, bytes);

	if (!ptr)
		abort();
	allocated += malloc_usable_size(ptr);
	peak = max(peak, allocated);
	return ptr;
}

void test_free(void *ptr)
{
	if (ptr)
		allocated -= malloc_usable_size(ptr);
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

/* Extents of one to 32 blocks one after the other, met in another order. */
static u64 *make_extents(void)
{
	u64 *extents = malloc(EXTENTS * sizeof(*extents));
	u64 at = 1ull << 30, random = 88172645463325252ull;

	if (!extents)
		abort();
	for (u32 i = 0; i < EXTENTS; i++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		extents[i] = at;
		at += (2 + random % 31) << 12;
	}
	/* Files are in pieces: runs of 16 extents lie anywhere. */
	for (u32 i = 0; i + 32 <= EXTENTS; i += 16) {
		const u32 other = random % (EXTENTS / 16) * 16;

		random = random * 6364136223846793005ull + 1442695040888963407ull;
		for (u32 j = 0; j < 16 && other + j < EXTENTS; j++) {
			const u64 extent = extents[i + j];

			extents[i + j] = extents[other + j];
			extents[other + j] = extent;
		}
	}
	return extents;
}

int main(void)
{
	struct btrfs_fs_info fs_info = { .sectorsize = 4096 };
	const struct btrfs_root root = { .fs_info = &fs_info };
	struct extent_buffer leaf = { .item = { .type = BTRFS_FILE_EXTENT_REG, .num_bytes = 4096 } };
	struct btrfs_send_extents *x = btrfs_send_extents_start(&root, 0);
	u64 *extents = make_extents();
	u32 lost = 0, wrong = 0;

	for (u32 i = 0; i < EXTENTS; i++) {
		leaf.item.bytenr = extents[i];
		btrfs_send_extents_add(x, &leaf, 0);
	}
	for (u32 i = 0; i < EXTENTS; i++) {
		leaf.item.bytenr = extents[i];
		lost += btrfs_send_extents_find(x, &leaf, 0) == BTRFS_SEND_EXTENTS_NONE;
		leaf.item.bytenr = extents[i] + 4096;
		wrong += btrfs_send_extents_find(x, &leaf, 0) != BTRFS_SEND_EXTENTS_NONE;
	}
	fprintf(stderr, "%.1f bytes an extent, at most %.1f\n", (double)allocated / EXTENTS,
		(double)peak / EXTENTS);
	if (lost || wrong)
		printf("%u extents are not found, %u are that are not there\n", lost, wrong);
	else if (!allocated || peak > (u64)BYTES * EXTENTS)
		printf("%llu bytes, at most %llu\n", (unsigned long long)allocated,
		       (unsigned long long)peak);
	else
		puts("fits in");
	btrfs_send_extents_stop(x);
	free(extents);
	return 0;
}
