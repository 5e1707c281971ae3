// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of send-prefetch-walk.c, which they are part of: of the extents that
 * wait, and of the references found in items in memory. Nothing is read.
 */

#include <kunit/test.h>
#include "tests/send-prefetch-test.h"

#define TEST_NODESIZE		SZ_16K
#define TEST_INO		BTRFS_FIRST_FREE_OBJECTID
#define TEST_BYTENR		SZ_1M
#define TEST_MAX_REFS		64

struct prefetch_walk_test {
	struct prefetch_test_leaf leaf;
	struct prefetch_walks *w;
};

static void add(struct kunit *test, u64 ino, u64 offset, u64 bytenr)
{
	prefetch_walks_add(((struct prefetch_walk_test *)test->priv)->w, ino, offset, bytenr,
			   false);
}

static void expect_walks(struct kunit *test, u32 nr)
{
	const struct prefetch_walks *w = ((struct prefetch_walk_test *)test->priv)->w;

	KUNIT_EXPECT_EQ(test, w->end - w->first, nr);
}

/* Parts of an extent one after the other are one search, for the last of them. */
static void parts_test(struct kunit *test)
{
	struct prefetch_walks *w = ((struct prefetch_walk_test *)test->priv)->w;

	add(test, TEST_INO, 0, TEST_BYTENR);
	add(test, TEST_INO, SZ_4K, TEST_BYTENR);
	expect_walks(test, 1);
	add(test, TEST_INO, SZ_8K, 2 * TEST_BYTENR);
	add(test, TEST_INO + 1, 0, TEST_BYTENR);
	expect_walks(test, 3);
	prefetch_walks_pass(w, TEST_INO, SZ_4K);
	expect_walks(test, 3);
	prefetch_walks_pass(w, TEST_INO, SZ_8K);
	expect_walks(test, 2);
	prefetch_walks_pass(w, TEST_INO + 1, 0);
	expect_walks(test, 1);
	prefetch_walks_pass(w, TEST_INO + 1, 1);
	expect_walks(test, 0);
}

/* It is full of those that certainly are searched, and half full of doubted ones. */
static void full_test(struct kunit *test)
{
	struct prefetch_walks *w = ((struct prefetch_walk_test *)test->priv)->w;
	u32 i;

	for (i = 0; i < 2 * w->max_walks; i++)
		prefetch_walks_add(w, TEST_INO, i * SZ_4K, (i + 1) * SZ_4K, true);
	expect_walks(test, w->max_walks / 2);
	KUNIT_EXPECT_FALSE(test, prefetch_walks_full(w));
	KUNIT_EXPECT_TRUE(test, prefetch_walks_is_round(w));
	for (i = 0; !prefetch_walks_full(w); i++)
		add(test, TEST_INO + 1, i * SZ_4K, (i + 1) * SZ_4K);
	KUNIT_EXPECT_EQ(test, i, w->max_walks - w->max_walks / 2);
	/* There is room again, behind the others, once one was passed. */
	prefetch_walks_pass(w, TEST_INO, SZ_4K);
	KUNIT_EXPECT_FALSE(test, prefetch_walks_full(w));
	add(test, TEST_INO + 2, 0, TEST_BYTENR);
	KUNIT_EXPECT_TRUE(test, prefetch_walks_full(w));
	KUNIT_EXPECT_EQ(test, w->walks[w->first].offset, SZ_4K);
	KUNIT_EXPECT_EQ(test, w->walks[w->end - 1].ino, TEST_INO + 2);
	prefetch_walks_restart(w);
	expect_walks(test, 0);
}

/* Where a round is larger than that is, as with large pages, nothing is written behind it. */
static void round_larger_test(struct kunit *test)
{
	struct prefetch_walks *w = ((struct prefetch_walk_test *)test->priv)->w;

	w->max_walks = 8;
	KUNIT_ASSERT_GT(test, w->round, w->max_walks);
	for (u32 i = 0; i < w->max_walks; i++) {
		KUNIT_EXPECT_FALSE(test, prefetch_walks_is_round(w));
		add(test, TEST_INO, i * SZ_4K, (i + 1) * TEST_BYTENR);
	}
	/* Who adds until it is a round comes to an end. */
	KUNIT_EXPECT_TRUE(test, prefetch_walks_is_round(w));
	add(test, TEST_INO + 1, 0, TEST_BYTENR);
	expect_walks(test, w->max_walks);
	/* The next part of the last one needs no room. */
	add(test, TEST_INO + 1, SZ_4K, w->max_walks * TEST_BYTENR);
	expect_walks(test, w->max_walks);
	KUNIT_EXPECT_EQ(test, w->walks[w->end - 1].ino, TEST_INO + 1);
	prefetch_walks_pass(w, TEST_INO, 2 * SZ_4K);
	for (u32 i = 0; i < w->max_walks; i++)
		add(test, TEST_INO + 2, i * SZ_4K, (i + 1) * TEST_BYTENR);
	expect_walks(test, w->max_walks);
}

/* Without memory nothing is due, and nobody goes through the extents for it. */
static void no_memory_test(struct kunit *test)
{
	struct prefetch_walks *w = ((struct prefetch_walk_test *)test->priv)->w;

	KUNIT_EXPECT_TRUE(test, prefetch_walks_due(w, TEST_INO, 0));
	/* As if an allocation had failed. */
	w->no_memory = true;
	add(test, TEST_INO, 0, TEST_BYTENR);
	expect_walks(test, 0);
	KUNIT_EXPECT_FALSE(test, prefetch_walks_due(w, TEST_INO, 0));
	prefetch_walks_restart(w);
	KUNIT_EXPECT_FALSE(test, prefetch_walks_due(w, TEST_INO + 1, SZ_4K));
	KUNIT_EXPECT_TRUE(test, prefetch_walks_is_round(w));
}

/* What few extents take does not depend on how many there might be. */
static void walks_memory_test(struct kunit *test)
{
	struct prefetch_walk_test *t = test->priv;
	struct btrfs_root *root = prefetch_test_root(test, t->leaf.fs_info);
	struct prefetch_walks *w;

	KUNIT_ASSERT_NOT_NULL(test, root);
	/* As large as the memory lets it be. */
	w = prefetch_walks_start(root, NULL, (u64)PREFETCH_MAX_WALKS * PAGE_SIZE, TEST_MAX_REFS);
	KUNIT_ASSERT_NOT_NULL(test, w);
	prefetch_walks_stop(t->w);
	t->w = w;
	KUNIT_ASSERT_EQ(test, w->max_walks, PREFETCH_MAX_WALKS);
	add(test, TEST_INO, 0, TEST_BYTENR);
	KUNIT_EXPECT_LE(test, w->walks_size * sizeof(*w->walks) +
			w->size * (sizeof(*w->extents) + sizeof(*w->refs) + sizeof(*w->blocks)),
			SZ_64K);
	for (u32 i = 1; i < w->max_walks; i++)
		add(test, TEST_INO, i * SZ_4K, (i + 1) * TEST_BYTENR);
	expect_walks(test, w->max_walks);
	for (u32 i = 0; i < w->max_walks; i++)
		KUNIT_ASSERT_EQ(test, w->walks[w->first + i].offset, i * SZ_4K);
}

/* A round ends before the references are too many, and is due again behind that. */
static void round_test(struct kunit *test)
{
	struct prefetch_walks *w = ((struct prefetch_walk_test *)test->priv)->w;

	KUNIT_EXPECT_TRUE(test, prefetch_walks_due(w, TEST_INO, 0));
	for (int i = 0; i < 4; i++)
		add(test, TEST_INO, i * SZ_4K, (10 - i) * TEST_BYTENR);
	take_extents(w);
	KUNIT_EXPECT_EQ(test, w->nr_extents, 4);
	KUNIT_EXPECT_EQ(test, w->extents[0].bytenr, 7 * TEST_BYTENR);
	for (int i = 0; i < 4; i++)
		w->extents[i].refs = w->size / 2;
	cut_round(w);
	KUNIT_EXPECT_EQ(test, w->nr_extents, 2);
	KUNIT_EXPECT_EQ(test, w->extents[0].bytenr, 9 * TEST_BYTENR);
	KUNIT_EXPECT_EQ(test, w->extents[1].bytenr, 10 * TEST_BYTENR);
	expect_walks(test, 2);
	KUNIT_EXPECT_FALSE(test, prefetch_walks_due(w, TEST_INO, SZ_4K));
	KUNIT_EXPECT_TRUE(test, prefetch_walks_due(w, TEST_INO, SZ_8K));
	KUNIT_EXPECT_TRUE(test, prefetch_walks_due(w, TEST_INO + 1, 0));

	/* One that alone has too many does not stay there. */
	take_extents(w);
	for (int i = 0; i < 2; i++)
		w->extents[i].refs = 2 * w->size;
	cut_round(w);
	KUNIT_EXPECT_EQ(test, w->nr_extents, 1);
	expect_walks(test, 1);

	/* One for which nothing is read neither. */
	KUNIT_EXPECT_TRUE(test, prefetch_walks_due(w, TEST_INO, 3 * SZ_4K));
	pass_extents(w, 0);
	expect_walks(test, 1);
	KUNIT_EXPECT_TRUE(test, prefetch_walks_due(w, TEST_INO, 3 * SZ_4K));
	pass_extents(w, 1);
	expect_walks(test, 0);
	KUNIT_EXPECT_FALSE(test, prefetch_walks_due(w, TEST_INO, 3 * SZ_4K));
}

/* The content of the next inline reference of an item. */
static unsigned long next_ref(struct kunit *test, unsigned long *ptr, u8 type)
{
	struct extent_buffer *leaf = ((struct prefetch_walk_test *)test->priv)->leaf.eb;
	const unsigned long ref = *ptr;

	write_extent_buffer(leaf, &type, ref, sizeof(type));
	*ptr += btrfs_extent_inline_ref_size(type);
	return ref + offsetof(struct btrfs_extent_inline_ref, offset);
}

static void set_data_ref(struct kunit *test, unsigned long ptr, u64 root_id, u64 ino, u64 offset)
{
	struct extent_buffer *leaf = ((struct prefetch_walk_test *)test->priv)->leaf.eb;
	struct btrfs_extent_data_ref *ref = (struct btrfs_extent_data_ref *)ptr;

	btrfs_set_extent_data_ref_root(leaf, ref, root_id);
	btrfs_set_extent_data_ref_objectid(leaf, ref, ino);
	btrfs_set_extent_data_ref_offset(leaf, ref, offset);
}

static void expect_ref(struct kunit *test, u32 nr, u64 root_id, u64 objectid, u64 offset)
{
	const struct prefetch_walks *w = ((struct prefetch_walk_test *)test->priv)->w;

	KUNIT_ASSERT_LT(test, nr, w->nr_refs);
	KUNIT_EXPECT_EQ(test, w->refs[nr].root_id, root_id);
	KUNIT_EXPECT_EQ(test, w->refs[nr].key.objectid, objectid);
	KUNIT_EXPECT_EQ(test, w->refs[nr].key.type, BTRFS_EXTENT_DATA_KEY);
	KUNIT_EXPECT_EQ(test, w->refs[nr].key.offset, offset);
}

/* References of all kinds in an extent's item, up to its end or what is none. */
static void refs_test(struct kunit *test)
{
	struct prefetch_walk_test *t = test->priv;
	const u32 size = sizeof(struct btrfs_extent_item) +
			 btrfs_extent_inline_ref_size(BTRFS_EXTENT_OWNER_REF_KEY) +
			 3 * btrfs_extent_inline_ref_size(BTRFS_EXTENT_DATA_REF_KEY) +
			 btrfs_extent_inline_ref_size(BTRFS_SHARED_DATA_REF_KEY);
	const int slot = prefetch_test_add_item(&t->leaf, TEST_BYTENR, BTRFS_EXTENT_ITEM_KEY,
						SZ_4K, size);
	struct btrfs_extent_item *item = btrfs_item_ptr(t->leaf.eb, slot,
							struct btrfs_extent_item);
	unsigned long ptr = (unsigned long)(item + 1);
	const __le64 parent = cpu_to_le64(3 * TEST_BYTENR);
	unsigned long last;

	next_ref(test, &ptr, BTRFS_EXTENT_OWNER_REF_KEY);
	set_data_ref(test, next_ref(test, &ptr, BTRFS_EXTENT_DATA_REF_KEY), 7, TEST_INO, SZ_4K);
	/* Of an item whose extent begins before the file. */
	set_data_ref(test, next_ref(test, &ptr, BTRFS_EXTENT_DATA_REF_KEY), 8, TEST_INO + 1,
		     -(u64)SZ_4K);
	write_extent_buffer(t->leaf.eb, &parent,
			    next_ref(test, &ptr, BTRFS_SHARED_DATA_REF_KEY), sizeof(parent));
	last = ptr;
	set_data_ref(test, next_ref(test, &ptr, BTRFS_EXTENT_DATA_REF_KEY), 9, TEST_INO + 2, 0);

	KUNIT_ASSERT_TRUE(test, alloc_arrays(t->w));
	add_inline_refs(t->w, t->leaf.eb, slot, item);
	KUNIT_EXPECT_EQ(test, t->w->nr_refs, 4);
	expect_ref(test, 0, 7, TEST_INO, SZ_4K);
	expect_ref(test, 1, 8, TEST_INO + 1, 0);
	expect_ref(test, 2, 0, 3 * TEST_BYTENR, 0);
	expect_ref(test, 3, 9, TEST_INO + 2, 0);

	t->w->nr_refs = 0;
	next_ref(test, &last, BTRFS_TREE_BLOCK_REF_KEY);
	add_inline_refs(t->w, t->leaf.eb, slot, item);
	KUNIT_EXPECT_EQ(test, t->w->nr_refs, 3);

	t->w->nr_refs = t->w->size - 1;
	add_inline_refs(t->w, t->leaf.eb, slot, item);
	KUNIT_EXPECT_EQ(test, t->w->nr_refs, t->w->size);
}

/* Each block once, in the order of the disk. */
static void blocks_test(struct kunit *test)
{
	static const u64 bytenrs[] = { 5, 3, 9, 3, 5, 1 };
	struct prefetch_walks *w = ((struct prefetch_walk_test *)test->priv)->w;

	KUNIT_ASSERT_TRUE(test, alloc_arrays(w));
	for (int i = 0; i < ARRAY_SIZE(bytenrs); i++)
		w->blocks[w->nr_blocks++].bytenr = bytenrs[i] * TEST_NODESIZE;
	sort_blocks(w);
	KUNIT_ASSERT_EQ(test, w->nr_blocks, 4);
	KUNIT_EXPECT_EQ(test, w->blocks[0].bytenr, 1 * TEST_NODESIZE);
	KUNIT_EXPECT_EQ(test, w->blocks[1].bytenr, 3 * TEST_NODESIZE);
	KUNIT_EXPECT_EQ(test, w->blocks[2].bytenr, 5 * TEST_NODESIZE);
	KUNIT_EXPECT_EQ(test, w->blocks[3].bytenr, 9 * TEST_NODESIZE);
}

static int prefetch_walk_test_init(struct kunit *test)
{
	struct prefetch_walk_test *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	struct btrfs_fs_info *fs_info = prefetch_test_fs_info(test, TEST_NODESIZE);
	struct btrfs_root *root;

	if (!t || !fs_info)
		return -ENOMEM;
	root = prefetch_test_root(test, fs_info);
	if (!root)
		return -ENOMEM;
	t->w = prefetch_walks_start(root, NULL, SZ_1M, TEST_MAX_REFS);
	if (!t->w)
		return -ENOMEM;
	test->priv = t;
	return prefetch_test_alloc_leaf(&t->leaf, fs_info);
}

static void prefetch_walk_test_exit(struct kunit *test)
{
	struct prefetch_walk_test *t = test->priv;

	if (!t)
		return;
	prefetch_walks_stop(t->w);
	prefetch_test_free_leaf(&t->leaf);
}

static struct kunit_case prefetch_walk_test_cases[] = {
	KUNIT_CASE(parts_test),
	KUNIT_CASE(full_test),
	KUNIT_CASE(round_larger_test),
	KUNIT_CASE(no_memory_test),
	KUNIT_CASE(walks_memory_test),
	KUNIT_CASE(round_test),
	KUNIT_CASE(refs_test),
	KUNIT_CASE(blocks_test),
	{}
};

static struct kunit_suite prefetch_walk_test_suite = {
	.name		= "btrfs-send-prefetch-walk",
	.init		= prefetch_walk_test_init,
	.exit		= prefetch_walk_test_exit,
	.test_cases	= prefetch_walk_test_cases,
};

kunit_test_suite(prefetch_walk_test_suite);
