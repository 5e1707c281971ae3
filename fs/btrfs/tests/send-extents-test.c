// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of what send-extents.c, which they are part of, remembers of file
 * extent items in memory. Nothing is read.
 */

#include <linux/prandom.h>
#include "tests/send-prefetch-test.h"

#define TEST_NODESIZE		SZ_16K
#define TEST_SECTORSIZE		SZ_4K
#define TEST_MANY		1100000
#define TEST_MAX_MANY		16
/* What an extent may cost at most, in bytes, with all that belongs to it. */
#define TEST_MAX_BYTES		40

struct send_extents_test {
	struct btrfs_root *root;
	struct prefetch_test_leaf leaf;
	struct btrfs_send_extents *x;
};

/* What an item refers to: sectors of the extent with this number. */
struct test_item {
	u32 extent;
	u32 start;
	u32 nr;
	/* Preallocated or inline, otherwise regular. */
	bool prealloc;
	bool in_line;
	u8 compression;
};

/* Make it the only item of the leaf. */
static void set_item(struct kunit *test, const struct test_item *item)
{
	struct extent_buffer *leaf = ((struct send_extents_test *)test->priv)->leaf.eb;
	struct btrfs_file_extent_item *fi =
		btrfs_item_ptr(leaf, 0, struct btrfs_file_extent_item);

	btrfs_set_file_extent_type(leaf, fi, item->in_line ? BTRFS_FILE_EXTENT_INLINE :
						item->prealloc ? BTRFS_FILE_EXTENT_PREALLOC :
						BTRFS_FILE_EXTENT_REG);
	btrfs_set_file_extent_compression(leaf, fi, item->compression);
	btrfs_set_file_extent_disk_bytenr(leaf, fi, (u64)item->extent * TEST_SECTORSIZE);
	btrfs_set_file_extent_offset(leaf, fi, (u64)item->start * TEST_SECTORSIZE);
	btrfs_set_file_extent_num_bytes(leaf, fi, (u64)item->nr * TEST_SECTORSIZE);
}

static enum btrfs_send_extents_places find(struct kunit *test, const struct test_item *item)
{
	struct send_extents_test *t = test->priv;

	set_item(test, item);
	return btrfs_send_extents_find(t->x, t->leaf.eb, 0);
}

static bool is_new(struct kunit *test, const struct test_item *item)
{
	return find(test, item) == BTRFS_SEND_EXTENTS_NONE;
}

static void add(struct kunit *test, const struct test_item *item)
{
	struct send_extents_test *t = test->priv;

	set_item(test, item);
	btrfs_send_extents_add(t->x, t->leaf.eb, 0);
}

static u64 counted(struct kunit *test, enum btrfs_send_prefetch_counter counter)
{
	struct send_extents_test *t = test->priv;

	return atomic64_read(&t->x->fs_info->send_prefetch_stats.counters[counter]);
}

/* An extent is new until it was added, whatever else was. */
static void met_test(struct kunit *test)
{
	const struct test_item one = { .extent = 100, .nr = 8 };
	const struct test_item other = { .extent = 108, .nr = 8 };

	KUNIT_EXPECT_TRUE(test, is_new(test, &one));
	KUNIT_EXPECT_TRUE(test, is_new(test, &one));
	add(test, &one);
	KUNIT_EXPECT_FALSE(test, is_new(test, &one));
	KUNIT_EXPECT_TRUE(test, is_new(test, &other));
	KUNIT_EXPECT_EQ(test, counted(test, BTRFS_SEND_PREFETCH_EXTENTS_NEW), 3);
	KUNIT_EXPECT_EQ(test, counted(test, BTRFS_SEND_PREFETCH_EXTENTS_WALKED), 1);
}

/* What counts is whether the first sector was referred to. */
static void part_test(struct kunit *test)
{
	add(test, &(struct test_item){ .extent = 100, .start = 10, .nr = 5 });
	KUNIT_EXPECT_TRUE(test, is_new(test, &(struct test_item){ 100, 0, 100 }));
	KUNIT_EXPECT_TRUE(test, is_new(test, &(struct test_item){ 100, 9, 100 }));
	KUNIT_EXPECT_FALSE(test, is_new(test, &(struct test_item){ 100, 10, 1 }));
	KUNIT_EXPECT_FALSE(test, is_new(test, &(struct test_item){ 100, 14, 100 }));
	KUNIT_EXPECT_TRUE(test, is_new(test, &(struct test_item){ 100, 15, 1 }));
	/* In between it is not known. */
	add(test, &(struct test_item){ .extent = 100, .start = 20, .nr = 5 });
	KUNIT_EXPECT_FALSE(test, is_new(test, &(struct test_item){ 100, 15, 1 }));
	KUNIT_EXPECT_TRUE(test, is_new(test, &(struct test_item){ 100, 25, 1 }));
	add(test, &(struct test_item){ .extent = 100, .start = 0, .nr = 1 });
	KUNIT_EXPECT_FALSE(test, is_new(test, &(struct test_item){ 100, 0, 1 }));
}

/* One place or many, until it was many too often. */
static void places_test(struct kunit *test)
{
	const struct test_item item = { .extent = 100, .nr = 8 };
	const struct test_item other = { .extent = 200, .nr = 8 };

	add(test, &item);
	KUNIT_EXPECT_EQ(test, find(test, &item), BTRFS_SEND_EXTENTS_ONE);
	add(test, &(struct test_item){ .extent = 100, .start = 8, .nr = 8 });
	KUNIT_EXPECT_EQ(test, find(test, &item), BTRFS_SEND_EXTENTS_MANY);
	KUNIT_EXPECT_EQ(test, find(test, &(struct test_item){ 100, 16, 1 }),
			BTRFS_SEND_EXTENTS_NONE);
	for (int i = 1; i < TEST_MAX_MANY; i++) {
		KUNIT_EXPECT_EQ(test, find(test, &other), BTRFS_SEND_EXTENTS_NONE);
		KUNIT_EXPECT_EQ(test, find(test, &item), BTRFS_SEND_EXTENTS_MANY);
	}
	KUNIT_EXPECT_EQ(test, find(test, &other), BTRFS_SEND_EXTENTS_MANY);
}

/* Of an encoded extent all parts are the same. */
static void encoded_test(struct kunit *test)
{
	struct test_item item = { .extent = 100, .nr = 4, .compression = BTRFS_COMPRESS_ZSTD };

	add(test, &item);
	item.start = 16;
	KUNIT_EXPECT_FALSE(test, is_new(test, &item));
	item.compression = BTRFS_COMPRESS_NONE;
	KUNIT_EXPECT_FALSE(test, is_new(test, &item));

	add(test, &(struct test_item){ .extent = 200, .nr = 4 });
	item = (struct test_item){ 200, 16, 4, .compression = BTRFS_COMPRESS_LZO };
	KUNIT_EXPECT_FALSE(test, is_new(test, &item));
}

/* Parts that do not fit in are taken for all. */
static void large_test(struct kunit *test)
{
	add(test, &(struct test_item){ .extent = 100, .start = 65000, .nr = 534 });
	KUNIT_EXPECT_TRUE(test, is_new(test, &(struct test_item){ 100, 64999, 1 }));
	KUNIT_EXPECT_FALSE(test, is_new(test, &(struct test_item){ 100, 65533, 1 }));
	KUNIT_EXPECT_TRUE(test, is_new(test, &(struct test_item){ 100, 65534, 0 }));
	KUNIT_EXPECT_FALSE(test, is_new(test, &(struct test_item){ 100, 65534, 1 }));
	KUNIT_EXPECT_FALSE(test, is_new(test, &(struct test_item){ 100, 70000, 1 }));
	add(test, &(struct test_item){ .extent = 200, .start = 65000, .nr = 535 });
	KUNIT_EXPECT_FALSE(test, is_new(test, &(struct test_item){ 200, 0, 1 }));
}

/* Inline data and holes are nothing, what is preallocated is something. */
static void kinds_test(struct kunit *test)
{
	struct test_item item = { .extent = 100, .nr = 4, .in_line = true };

	KUNIT_EXPECT_FALSE(test, is_new(test, &item));
	add(test, &item);
	item.in_line = false;
	KUNIT_EXPECT_TRUE(test, is_new(test, &item));
	item.prealloc = true;
	add(test, &item);
	item.prealloc = false;
	KUNIT_EXPECT_FALSE(test, is_new(test, &item));

	item.extent = 0;
	KUNIT_EXPECT_FALSE(test, is_new(test, &item));
	add(test, &item);
	KUNIT_EXPECT_FALSE(test, is_new(test, &item));
	KUNIT_EXPECT_EQ(test, counted(test, BTRFS_SEND_PREFETCH_EXTENTS_NEW), 1);
}

/* Without memory, or where there is no index, nothing is new. */
static void limit_test(struct kunit *test)
{
	struct send_extents_test *t = test->priv;
	struct test_item item = { .nr = 8 };
	struct btrfs_send_extents *x = t->x;

	/* A batch of entries more, but not two. */
	x->limit = x->bytes + EXTENTS_BATCH_BYTES + EXTENTS_BATCH_BYTES / 2;
	for (item.extent = 8; item.extent <= 8 * EXTENTS_PER_BATCH; item.extent += 8)
		add(test, &item);
	KUNIT_EXPECT_TRUE(test, is_new(test, &item));
	KUNIT_EXPECT_LE(test, x->bytes, x->limit);
	add(test, &item);
	KUNIT_EXPECT_FALSE(test, is_new(test, &item));
	item.extent = 8;
	KUNIT_EXPECT_FALSE(test, is_new(test, &item));
	item.extent = 4;
	KUNIT_EXPECT_FALSE(test, is_new(test, &item));
	add(test, &item);
	KUNIT_EXPECT_EQ(test, x->bytes, 0);

	t->x = NULL;
	KUNIT_EXPECT_FALSE(test, is_new(test, &item));
	add(test, &item);
	btrfs_send_extents_stop(NULL);
	t->x = x;
}

/* A million of them: all are found, none else, and they fit in. */
static void many_test(struct kunit *test)
{
	struct send_extents_test *t = test->priv;
	struct test_item item = { .nr = 1 };
	u64 peak = 0;
	u32 wrong = 0;

	t->x->limit = U64_MAX;
	for (u32 i = 0; i < TEST_MANY; i++) {
		item.extent = 16 + 2 * i;
		wrong += !is_new(test, &item);
		add(test, &item);
		/* While the heads are doubled there are those and the new ones. */
		peak = max(peak, t->x->bytes + heads_bytes(t->x->order - 1));
	}
	for (u32 i = 0; i < TEST_MANY; i++) {
		item.extent = 16 + 2 * i;
		wrong += is_new(test, &item);
		item.extent++;
		wrong += !is_new(test, &item);
	}
	KUNIT_EXPECT_EQ(test, wrong, 0);
	KUNIT_EXPECT_EQ(test, t->x->nr, TEST_MANY);
	KUNIT_EXPECT_LE(test, peak, (u64)TEST_MAX_BYTES * TEST_MANY);
	kunit_info(test, "%u extents: %llu bytes, at most %llu\n", TEST_MANY, t->x->bytes, peak);
}

/* By chance, compared with a list of all items. */
static void random_test(struct kunit *test)
{
	const u32 nr_items = 3000;
	struct test_item *items = kunit_kzalloc(test, nr_items * sizeof(*items), GFP_KERNEL);
	struct rnd_state random;
	u32 new = 0;

	KUNIT_ASSERT_NOT_NULL(test, items);
	((struct send_extents_test *)test->priv)->x->max_many = 0;
	prandom_seed_state(&random, 1);
	for (u32 i = 0; i < nr_items; i++) {
		struct test_item *item = &items[i];
		bool shared = false;

		item->extent = 1 + prandom_u32_state(&random) % 2000;
		item->start = prandom_u32_state(&random) % 64;
		item->nr = 1 + prandom_u32_state(&random) % 64;
		item->compression = item->extent % 7 == 0;
		for (u32 j = 0; j < i && !shared; j++)
			shared = items[j].extent == item->extent &&
				 (item->compression ||
				  (item->start >= items[j].start &&
				   item->start < items[j].start + items[j].nr));
		if (is_new(test, item)) {
			KUNIT_EXPECT_FALSE(test, shared);
			new++;
		}
		add(test, item);
	}
	KUNIT_EXPECT_GT(test, new, 1000);
}

static int send_extents_test_init(struct kunit *test)
{
	struct send_extents_test *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	struct btrfs_fs_info *fs_info = prefetch_test_fs_info(test, TEST_NODESIZE);

	if (!t || !fs_info)
		return -ENOMEM;
	t->root = prefetch_test_root(test, fs_info);
	if (!t->root)
		return -ENOMEM;
	t->x = btrfs_send_extents_start(t->root, TEST_MAX_MANY);
	if (!t->x)
		return -ENOMEM;
	test->priv = t;
	if (prefetch_test_alloc_leaf(&t->leaf, fs_info))
		return -ENOMEM;
	prefetch_test_add_item(&t->leaf, BTRFS_FIRST_FREE_OBJECTID, BTRFS_EXTENT_DATA_KEY, 0,
			       sizeof(struct btrfs_file_extent_item));
	return 0;
}

static void send_extents_test_exit(struct kunit *test)
{
	struct send_extents_test *t = test->priv;

	if (!t)
		return;
	btrfs_send_extents_stop(t->x);
	prefetch_test_free_leaf(&t->leaf);
}

static struct kunit_case send_extents_test_cases[] = {
	KUNIT_CASE(met_test),
	KUNIT_CASE(part_test),
	KUNIT_CASE(places_test),
	KUNIT_CASE(encoded_test),
	KUNIT_CASE(large_test),
	KUNIT_CASE(kinds_test),
	KUNIT_CASE(limit_test),
	KUNIT_CASE(many_test),
	KUNIT_CASE(random_test),
	{}
};

static struct kunit_suite send_extents_test_suite = {
	.name		= "btrfs-send-extents",
	.init		= send_extents_test_init,
	.exit		= send_extents_test_exit,
	.test_cases	= send_extents_test_cases,
};

kunit_test_suite(send_extents_test_suite);
