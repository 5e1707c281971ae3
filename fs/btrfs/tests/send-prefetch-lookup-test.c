// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of what send-prefetch-lookup.c, which they are part of, finds in
 * leaves in memory. Nothing is read.
 */

#include <kunit/test.h>
#include "tests/send-prefetch-test.h"

#define TEST_NODESIZE		SZ_16K
#define TEST_INO		BTRFS_FIRST_FREE_OBJECTID
#define TEST_OLD		10

struct prefetch_lookup_test {
	struct prefetch_test_leaf leaf;
	struct prefetch_lookups *l;
};

/* Returns where its content is. */
static unsigned long add_item(struct kunit *test, u64 ino, u8 type, u64 offset, u32 size)
{
	struct prefetch_lookup_test *t = test->priv;
	const int slot = prefetch_test_add_item(&t->leaf, ino, type, offset, size);

	return btrfs_item_ptr_offset(t->leaf.eb, slot);
}

static void add_inode(struct kunit *test, u64 ino, u64 transid)
{
	struct prefetch_lookup_test *t = test->priv;
	const unsigned long ptr = add_item(test, ino, BTRFS_INODE_ITEM_KEY, 0,
					   sizeof(struct btrfs_inode_item));

	btrfs_set_inode_transid(t->leaf.eb, (struct btrfs_inode_item *)ptr, transid);
}

/* An item with the names "a", "b" and so on, @nr of them. */
static void add_ref(struct kunit *test, u64 ino, u64 dir, int nr)
{
	struct prefetch_lookup_test *t = test->priv;
	const u32 size = sizeof(struct btrfs_inode_ref) + 1;
	unsigned long ptr = add_item(test, ino, BTRFS_INODE_REF_KEY, dir, nr * size);

	for (int i = 0; i < nr; i++, ptr += size) {
		const char name = 'a' + i;

		btrfs_set_inode_ref_name_len(t->leaf.eb, (struct btrfs_inode_ref *)ptr, 1);
		write_extent_buffer(t->leaf.eb, &name, ptr + sizeof(struct btrfs_inode_ref), 1);
	}
}

/* An item with the name "x" in two directories, whose hashes are the same. */
static void add_extref(struct kunit *test, u64 ino, u64 dir)
{
	struct prefetch_lookup_test *t = test->priv;
	const u32 size = sizeof(struct btrfs_inode_extref) + 1;
	unsigned long ptr = add_item(test, ino, BTRFS_INODE_EXTREF_KEY, 1234, 2 * size);

	for (int i = 0; i < 2; i++, ptr += size) {
		struct btrfs_inode_extref *ref = (struct btrfs_inode_extref *)ptr;

		btrfs_set_inode_extref_parent(t->leaf.eb, ref, dir + i);
		btrfs_set_inode_extref_name_len(t->leaf.eb, ref, 1);
		write_extent_buffer(t->leaf.eb, "x", (unsigned long)&ref->name, 1);
	}
}

static void expect_key(struct kunit *test, u32 nr, u64 objectid, u8 type, u64 offset)
{
	const struct prefetch_lookups *l = ((struct prefetch_lookup_test *)test->priv)->l;

	KUNIT_ASSERT_LT(test, nr, l->nr_keys);
	KUNIT_EXPECT_EQ(test, l->keys[nr].objectid, objectid);
	KUNIT_EXPECT_EQ(test, l->keys[nr].type, type);
	KUNIT_EXPECT_EQ(test, l->keys[nr].offset, offset);
}

static void add_leaf(struct kunit *test)
{
	struct prefetch_lookup_test *t = test->priv;

	KUNIT_EXPECT_TRUE(test, prefetch_lookups_add_leaf(t->l, t->leaf.eb));
	prefetch_lookups_sort(t->l);
}

/* Of an inode that did not change only the directories. */
static void unchanged_test(struct kunit *test)
{
	struct prefetch_lookup_test *t = test->priv;

	add_inode(test, TEST_INO + 7, TEST_OLD);
	add_ref(test, TEST_INO + 7, TEST_INO + 2, 3);
	add_ref(test, TEST_INO + 7, TEST_INO + 5, 1);
	add_inode(test, TEST_INO + 8, TEST_OLD - 1);
	add_ref(test, TEST_INO + 8, TEST_INO + 2, 1);
	add_leaf(test);
	KUNIT_EXPECT_EQ(test, t->l->nr_keys, 2);
	expect_key(test, 0, TEST_INO + 2, BTRFS_INODE_ITEM_KEY, 0);
	expect_key(test, 1, TEST_INO + 5, BTRFS_INODE_ITEM_KEY, 0);
}

/* Of one that did, and of no other, also the entries. */
static void changed_test(struct kunit *test)
{
	struct prefetch_lookup_test *t = test->priv;
	const u64 a = btrfs_name_hash("a", 1);
	const u64 b = btrfs_name_hash("b", 1);

	add_inode(test, TEST_INO + 7, TEST_OLD + 1);
	add_ref(test, TEST_INO + 7, TEST_INO + 2, 2);
	/* Its inode item is not in this leaf, it may be in any. */
	add_ref(test, TEST_INO + 8, TEST_INO + 3, 1);
	add_leaf(test);
	KUNIT_EXPECT_EQ(test, t->l->nr_keys, 4);
	expect_key(test, 0, TEST_INO + 2, BTRFS_INODE_ITEM_KEY, 0);
	expect_key(test, 1, TEST_INO + 2, BTRFS_DIR_ITEM_KEY, min(a, b));
	expect_key(test, 2, TEST_INO + 2, BTRFS_DIR_ITEM_KEY, max(a, b));
	expect_key(test, 3, TEST_INO + 3, BTRFS_INODE_ITEM_KEY, 0);
}

/* The items of an inode go on in the next leaf. */
static void next_leaf_test(struct kunit *test)
{
	struct prefetch_lookup_test *t = test->priv;

	add_inode(test, TEST_INO + 7, TEST_OLD + 1);
	add_leaf(test);
	KUNIT_EXPECT_EQ(test, t->l->nr_keys, 0);
	prefetch_test_empty_leaf(&t->leaf);
	add_ref(test, TEST_INO + 7, TEST_INO + 2, 1);
	add_leaf(test);
	KUNIT_EXPECT_EQ(test, t->l->nr_keys, 2);
	expect_key(test, 1, TEST_INO + 2, BTRFS_DIR_ITEM_KEY, btrfs_name_hash("a", 1));
	prefetch_lookups_reset(t->l);
	KUNIT_EXPECT_EQ(test, t->l->nr_keys, 0);
}

/* Names that an item of the other kind holds. */
static void extref_test(struct kunit *test)
{
	struct prefetch_lookup_test *t = test->priv;
	const u64 x = btrfs_name_hash("x", 1);

	add_inode(test, TEST_INO + 7, TEST_OLD + 1);
	add_extref(test, TEST_INO + 7, TEST_INO + 2);
	add_leaf(test);
	KUNIT_EXPECT_EQ(test, t->l->nr_keys, 4);
	expect_key(test, 0, TEST_INO + 2, BTRFS_INODE_ITEM_KEY, 0);
	expect_key(test, 1, TEST_INO + 2, BTRFS_DIR_ITEM_KEY, x);
	expect_key(test, 2, TEST_INO + 3, BTRFS_INODE_ITEM_KEY, 0);
	expect_key(test, 3, TEST_INO + 3, BTRFS_DIR_ITEM_KEY, x);
}

/* A length on the disk that goes beyond the item is not believed. */
static void damaged_test(struct kunit *test)
{
	struct prefetch_lookup_test *t = test->priv;
	unsigned long ptr;

	add_inode(test, TEST_INO + 7, TEST_OLD + 1);
	ptr = add_item(test, TEST_INO + 7, BTRFS_INODE_REF_KEY, TEST_INO + 2,
		       sizeof(struct btrfs_inode_ref) + 1);
	btrfs_set_inode_ref_name_len(t->leaf.eb, (struct btrfs_inode_ref *)ptr, U16_MAX);
	ptr = add_item(test, TEST_INO + 7, BTRFS_INODE_EXTREF_KEY, 1,
		       sizeof(struct btrfs_inode_extref) + 1);
	btrfs_set_inode_extref_name_len(t->leaf.eb, (struct btrfs_inode_extref *)ptr, 2);
	add_leaf(test);
	KUNIT_EXPECT_EQ(test, t->l->nr_keys, 0);
}

/* A leaf for which there is no room is left for the next round. */
static void full_test(struct kunit *test)
{
	struct prefetch_lookup_test *t = test->priv;
	u64 dir = TEST_INO;
	u32 leaves = 0;

	do {
		prefetch_test_empty_leaf(&t->leaf);
		add_inode(test, TEST_INO, TEST_OLD);
		for (int i = 0; i < 200; i++)
			add_ref(test, TEST_INO, dir++, 1);
		leaves++;
	} while (prefetch_lookups_add_leaf(t->l, t->leaf.eb));
	KUNIT_EXPECT_EQ(test, t->l->nr_keys, 200 * (leaves - 1));
	KUNIT_EXPECT_GT(test, t->l->nr_keys + 200, PREFETCH_MAX_KEYS - PREFETCH_LEAF_KEYS);
	prefetch_lookups_reset(t->l);
	add_leaf(test);
	KUNIT_EXPECT_EQ(test, t->l->nr_keys, 200);
	expect_key(test, 199, dir - 1, BTRFS_INODE_ITEM_KEY, 0);
}

/* A node with one child. */
static struct extent_buffer *test_node(struct kunit *test, u64 bytenr, int level, u64 child)
{
	struct prefetch_lookup_test *t = test->priv;
	struct extent_buffer *eb = alloc_test_extent_buffer(t->leaf.fs_info, bytenr);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, eb);
	memzero_extent_buffer(eb, 0, TEST_NODESIZE);
	btrfs_set_header_bytenr(eb, bytenr);
	btrfs_set_header_generation(eb, 1);
	btrfs_set_header_level(eb, level);
	btrfs_set_header_nritems(eb, 1);
	btrfs_set_node_blockptr(eb, 0, child);
	btrfs_set_node_ptr_generation(eb, 0, 1);
	return eb;
}

/* A pointer is followed only to a node of the next level. */
static void level_test(struct kunit *test)
{
	struct prefetch_lookup_test *t = test->priv;
	const struct btrfs_key key = { .objectid = TEST_INO, .type = BTRFS_INODE_ITEM_KEY };
	struct extent_buffer *root = test_node(test, SZ_1M, 3, SZ_2M);
	struct extent_buffer *middle = test_node(test, SZ_2M, 2, SZ_4M);
	struct extent_buffer *parent = test_node(test, SZ_4M, 1, SZ_8M);
	struct extent_buffer *wait_eb = NULL;
	struct extent_buffer *found;
	int slot;

	for (int level = 0; level < 5; level++) {
		btrfs_set_header_level(middle, level);
		found = find_parent(t->l, root, &key, 0, &slot, &wait_eb);
		KUNIT_EXPECT_PTR_EQ(test, found, level == 2 ? parent : NULL);
		free_extent_buffer(found);
		KUNIT_EXPECT_NULL(test, wait_eb);
	}
	free_extent_buffer_stale(parent);
	free_extent_buffer_stale(middle);
	free_extent_buffer_stale(root);
}

static int prefetch_lookup_test_init(struct kunit *test)
{
	struct prefetch_lookup_test *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	struct btrfs_fs_info *fs_info = prefetch_test_fs_info(test, TEST_NODESIZE);

	if (!t || !fs_info)
		return -ENOMEM;
	t->l = prefetch_lookups_start(fs_info, TEST_OLD);
	if (!t->l)
		return -ENOMEM;
	test->priv = t;
	return prefetch_test_alloc_leaf(&t->leaf, fs_info);
}

static void prefetch_lookup_test_exit(struct kunit *test)
{
	struct prefetch_lookup_test *t = test->priv;

	if (!t)
		return;
	prefetch_lookups_stop(t->l);
	prefetch_test_free_leaf(&t->leaf);
}

static struct kunit_case prefetch_lookup_test_cases[] = {
	KUNIT_CASE(unchanged_test),
	KUNIT_CASE(changed_test),
	KUNIT_CASE(next_leaf_test),
	KUNIT_CASE(extref_test),
	KUNIT_CASE(damaged_test),
	KUNIT_CASE(full_test),
	KUNIT_CASE(level_test),
	{}
};

static struct kunit_suite prefetch_lookup_test_suite = {
	.name		= "btrfs-send-prefetch-lookup",
	.init		= prefetch_lookup_test_init,
	.exit		= prefetch_lookup_test_exit,
	.test_cases	= prefetch_lookup_test_cases,
};

kunit_test_suite(prefetch_lookup_test_suite);
