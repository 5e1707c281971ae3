// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of what send-inodes.c, which they are part of, remembers of inode
 * items in memory. Nothing is read.
 */

#include "tests/send-prefetch-test.h"

#define TEST_NODESIZE		SZ_16K
#define TEST_INO		BTRFS_FIRST_FREE_OBJECTID

struct send_inodes_test {
	struct btrfs_root *send_root;
	struct btrfs_root *parent_root;
	struct prefetch_test_leaf leaf;
	struct btrfs_send_inodes *x;
};

/* Remember an inode of this generation, by an item that is the only one of the leaf. */
static void add(struct kunit *test, const struct btrfs_root *root, u64 ino, u64 gen)
{
	struct send_inodes_test *t = test->priv;
	struct btrfs_inode_item *item;

	item = btrfs_item_ptr(t->leaf.eb, 0, struct btrfs_inode_item);
	btrfs_set_inode_generation(t->leaf.eb, item, gen);
	btrfs_send_inodes_add(t->x, root, ino, t->leaf.eb, 0);
}

/* The generation that is known of an inode; 0: that it is missing, -1: nothing. */
static s64 known_gen(struct kunit *test, const struct btrfs_root *root, u64 ino)
{
	struct send_inodes_test *t = test->priv;
	const struct btrfs_send_inode *inode = btrfs_send_inodes_find(t->x, root, ino);

	if (!inode)
		return -1;
	return inode->missing ? 0 : inode->gen;
}

/* An inode is known in the root in which it was looked up, until another has its place. */
static void roots_test(struct kunit *test)
{
	struct send_inodes_test *t = test->priv;

	KUNIT_EXPECT_EQ(test, known_gen(test, t->send_root, TEST_INO), -1);
	add(test, t->send_root, TEST_INO, 7);
	KUNIT_EXPECT_EQ(test, known_gen(test, t->send_root, TEST_INO), 7);
	KUNIT_EXPECT_EQ(test, known_gen(test, t->parent_root, TEST_INO), -1);
	KUNIT_EXPECT_EQ(test, known_gen(test, t->send_root, TEST_INO + 1), -1);
	btrfs_send_inodes_add_missing(t->x, t->parent_root, TEST_INO);
	KUNIT_EXPECT_EQ(test, known_gen(test, t->parent_root, TEST_INO), 0);
	KUNIT_EXPECT_EQ(test, known_gen(test, t->send_root, TEST_INO), 7);
}

/* All that a send asks for. */
static void fields_test(struct kunit *test)
{
	struct send_inodes_test *t = test->priv;
	struct extent_buffer *leaf = t->leaf.eb;
	struct btrfs_inode_item *item = btrfs_item_ptr(leaf, 0, struct btrfs_inode_item);
	const struct btrfs_send_inode *inode;

	btrfs_set_inode_size(leaf, item, 1);
	btrfs_set_inode_mode(leaf, item, S_IFDIR | 0755);
	btrfs_set_inode_uid(leaf, item, 3);
	btrfs_set_inode_gid(leaf, item, 4);
	btrfs_set_inode_rdev(leaf, item, 5);
	btrfs_set_inode_flags(leaf, item, (6ULL << 32) | 7);
	btrfs_set_inode_nlink(leaf, item, 8);
	add(test, t->send_root, TEST_INO, 9);
	/* It is a copy. */
	memzero_extent_buffer(leaf, 0, TEST_NODESIZE);
	inode = btrfs_send_inodes_find(t->x, t->send_root, TEST_INO);
	KUNIT_ASSERT_NOT_NULL(test, inode);
	KUNIT_EXPECT_EQ(test, inode->size, 1);
	KUNIT_EXPECT_EQ(test, inode->mode, S_IFDIR | 0755);
	KUNIT_EXPECT_EQ(test, inode->uid, 3);
	KUNIT_EXPECT_EQ(test, inode->gid, 4);
	KUNIT_EXPECT_EQ(test, inode->rdev, 5);
	KUNIT_EXPECT_EQ(test, inode->flags, (6ULL << 32) | 7);
	KUNIT_EXPECT_EQ(test, inode->nlink, 8);
	KUNIT_EXPECT_EQ(test, inode->gen, 9);
	KUNIT_EXPECT_FALSE(test, inode->missing);
}

/* More than there is room for: nothing wrong is known, and the last ones are. */
static void many_test(struct kunit *test)
{
	struct send_inodes_test *t = test->priv;
	const u64 nr = 4ULL << t->x->max_order;
	u32 known = 0;

	for (u64 i = 0; i < nr; i++) {
		add(test, t->send_root, TEST_INO + i, 1 + 2 * i);
		add(test, t->parent_root, TEST_INO + i, 2 + 2 * i);
		KUNIT_EXPECT_EQ(test, known_gen(test, t->parent_root, TEST_INO + i), 2 + 2 * i);
	}
	for (u64 i = 0; i < nr; i++) {
		const s64 send = known_gen(test, t->send_root, TEST_INO + i);
		const s64 parent = known_gen(test, t->parent_root, TEST_INO + i);

		KUNIT_EXPECT_TRUE(test, send == -1 || send == 1 + 2 * i);
		KUNIT_EXPECT_TRUE(test, parent == -1 || parent == 2 + 2 * i);
		known += (send != -1) + (parent != -1);
	}
	KUNIT_EXPECT_EQ(test, t->x->order, t->x->max_order);
	/* Each place is taken, but for a few by chance. */
	KUNIT_EXPECT_GT(test, known, (7U << t->x->order) / 8);
	KUNIT_EXPECT_LE(test, known, 1U << t->x->order);
}

/* Add so many inodes, and count those that are known then. */
static u32 add_and_count(struct kunit *test, u32 nr)
{
	struct send_inodes_test *t = test->priv;
	u32 known = 0;

	for (u32 i = 0; i < nr; i++)
		add(test, t->send_root, TEST_INO + i, 1 + i);
	for (u32 i = 0; i < nr; i++) {
		const s64 gen = known_gen(test, t->send_root, TEST_INO + i);

		KUNIT_EXPECT_TRUE(test, gen == -1 || gen == 1 + i);
		known += gen != -1;
	}
	return known;
}

/* The table is small for few inodes, and what it knew is known when it has grown. */
static void growth_test(struct kunit *test)
{
	struct send_inodes_test *t = test->priv;
	const u32 few = 1U << (INODES_MIN_ORDER - INODES_FILL);

	if (t->x->max_order < INODES_MIN_ORDER + 2 * INODES_GROWTH)
		kunit_skip(test, "the memory is too small for a table that grows twice");
	KUNIT_EXPECT_EQ(test, add_and_count(test, few), few);
	KUNIT_EXPECT_EQ(test, t->x->order, INODES_MIN_ORDER);
	btrfs_send_inodes_add_missing(t->x, t->parent_root, TEST_INO);
	KUNIT_EXPECT_EQ(test, t->x->order, INODES_MIN_ORDER + INODES_GROWTH);
	KUNIT_EXPECT_EQ(test, known_gen(test, t->parent_root, TEST_INO), 0);
	KUNIT_EXPECT_EQ(test, known_gen(test, t->send_root, TEST_INO + few - 1), few);
	KUNIT_EXPECT_EQ(test, add_and_count(test, 4 * few), 4 * few);
	KUNIT_EXPECT_EQ(test, t->x->order, INODES_MIN_ORDER + 2 * INODES_GROWTH);
}

/* Where it may not grow it forgets, as it does at its largest. */
static void no_growth_test(struct kunit *test)
{
	struct send_inodes_test *t = test->priv;
	const u32 places = 1U << INODES_MIN_ORDER;

	t->x->max_order = INODES_MIN_ORDER;
	KUNIT_EXPECT_LE(test, add_and_count(test, 4 * places), places);
	KUNIT_EXPECT_EQ(test, t->x->order, INODES_MIN_ORDER);
}

/* Where nothing is remembered nothing is known. */
static void none_test(struct kunit *test)
{
	struct send_inodes_test *t = test->priv;
	struct btrfs_send_inodes *x = t->x;

	t->x = NULL;
	add(test, t->send_root, TEST_INO, 7);
	btrfs_send_inodes_add_missing(NULL, t->send_root, TEST_INO);
	KUNIT_EXPECT_EQ(test, known_gen(test, t->send_root, TEST_INO), -1);
	btrfs_send_inodes_stop(NULL);
	t->x = x;
	KUNIT_EXPECT_EQ(test, known_gen(test, t->send_root, TEST_INO), -1);
}

static int send_inodes_test_init(struct kunit *test)
{
	struct send_inodes_test *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	struct btrfs_fs_info *fs_info = prefetch_test_fs_info(test, TEST_NODESIZE);

	if (!t || !fs_info)
		return -ENOMEM;
	t->send_root = prefetch_test_root(test, fs_info);
	t->parent_root = prefetch_test_root(test, fs_info);
	if (!t->send_root || !t->parent_root)
		return -ENOMEM;
	t->send_root->root_key.objectid = TEST_INO + 1;
	t->parent_root->root_key.objectid = TEST_INO;
	t->x = btrfs_send_inodes_start(t->send_root);
	if (!t->x)
		return -ENOMEM;
	test->priv = t;
	if (prefetch_test_alloc_leaf(&t->leaf, fs_info))
		return -ENOMEM;
	prefetch_test_add_item(&t->leaf, TEST_INO, BTRFS_INODE_ITEM_KEY, 0,
			       sizeof(struct btrfs_inode_item));
	return 0;
}

static void send_inodes_test_exit(struct kunit *test)
{
	struct send_inodes_test *t = test->priv;

	if (!t)
		return;
	btrfs_send_inodes_stop(t->x);
	prefetch_test_free_leaf(&t->leaf);
}

static struct kunit_case send_inodes_test_cases[] = {
	KUNIT_CASE(roots_test),
	KUNIT_CASE(fields_test),
	KUNIT_CASE(many_test),
	KUNIT_CASE(growth_test),
	KUNIT_CASE(no_growth_test),
	KUNIT_CASE(none_test),
	{}
};

static struct kunit_suite send_inodes_test_suite = {
	.name		= "btrfs-send-inodes",
	.init		= send_inodes_test_init,
	.exit		= send_inodes_test_exit,
	.test_cases	= send_inodes_test_cases,
};

kunit_test_suite(send_inodes_test_suite);
