// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of the send prefetch, part of send-prefetch.c: trees in memory,
 * on which the window must hold what a naive comparison of all leaves finds.
 */

#include <kunit/test.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/prandom.h>
#include "tests/send-prefetch-test.h"

#define TEST_NODESIZE		SZ_4K
#define TEST_MAX_LEAVES		512
#define TEST_MAX_BLOCKS		4096
#define TEST_MAX_FANOUT		16

/* A leaf as the reference sees it. */
struct test_leaf {
	u64 objectid;
	u64 bytenr;
};

struct test_tree {
	struct btrfs_root *root;
	struct test_leaf leaves[TEST_MAX_LEAVES];
	int nr;
};

struct send_prefetch_test {
	struct btrfs_fs_info *fs_info;
	struct test_tree trees[2];
	struct extent_buffer *blocks[TEST_MAX_BLOCKS];
	int nr_blocks;
	struct rnd_state rnd;
	/* What must be read, in the order of keys. */
	struct test_leaf expected[2 * TEST_MAX_LEAVES];
	int nr_expected;
};

static struct btrfs_key test_key(u64 objectid)
{
	return (struct btrfs_key){ .objectid = objectid, .type = BTRFS_INODE_ITEM_KEY };
}

static struct extent_buffer *test_block(struct kunit *test, int level, u64 objectid)
{
	struct send_prefetch_test *t = test->priv;
	const struct btrfs_key key = test_key(objectid);
	struct btrfs_disk_key disk_key;
	struct extent_buffer *eb;

	KUNIT_ASSERT_LT(test, t->nr_blocks, TEST_MAX_BLOCKS);
	eb = alloc_test_extent_buffer(t->fs_info, (u64)(t->nr_blocks + 1) * TEST_NODESIZE);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, eb);
	t->blocks[t->nr_blocks++] = eb;

	memzero_extent_buffer(eb, 0, TEST_NODESIZE);
	btrfs_set_header_bytenr(eb, eb->start);
	btrfs_set_header_generation(eb, 1);
	btrfs_set_header_owner(eb, BTRFS_FIRST_FREE_OBJECTID);
	btrfs_set_header_level(eb, level);
	if (level == 0) {
		btrfs_set_header_nritems(eb, 1);
		btrfs_cpu_key_to_disk(&disk_key, &key);
		btrfs_set_item_key(eb, &disk_key, 0);
	}
	return eb;
}

static u64 first_objectid(const struct extent_buffer *eb)
{
	struct btrfs_key key;

	if (btrfs_header_level(eb))
		btrfs_node_key_to_cpu(eb, &key, 0);
	else
		btrfs_item_key_to_cpu(eb, &key, 0);
	return key.objectid;
}

static struct extent_buffer *test_node(struct kunit *test, struct extent_buffer **children,
				       int nr)
{
	struct extent_buffer *eb;

	eb = test_block(test, btrfs_header_level(children[0]) + 1, 0);
	for (int slot = 0; slot < nr; slot++) {
		const struct btrfs_key key = test_key(first_objectid(children[slot]));
		struct btrfs_disk_key disk_key;

		btrfs_cpu_key_to_disk(&disk_key, &key);
		btrfs_set_node_key(eb, &disk_key, slot);
		btrfs_set_node_blockptr(eb, slot, children[slot]->start);
		btrfs_set_node_ptr_generation(eb, slot, 1);
	}
	btrfs_set_header_nritems(eb, nr);
	return eb;
}

/* The block of the other tree that is the node of just these children. */
static struct extent_buffer *shared_node(const struct send_prefetch_test *t,
					 struct extent_buffer **children, int nr)
{
	for (int i = 0; i < t->nr_blocks; i++) {
		struct extent_buffer *eb = t->blocks[i];
		int slot;

		if (btrfs_header_level(eb) != btrfs_header_level(children[0]) + 1 ||
		    btrfs_header_nritems(eb) != nr)
			continue;
		for (slot = 0; slot < nr; slot++) {
			if (btrfs_node_blockptr(eb, slot) != children[slot]->start)
				break;
		}
		if (slot == nr)
			return eb;
	}
	return NULL;
}

/*
 * Build a tree over leaves. Nodes get 1 to @fanout children, and one of the
 * other tree with the same children is shared if @share says so. The tree is at
 * least of level @min_level.
 */
static void build_tree(struct kunit *test, int side, struct extent_buffer **blocks, int nr,
		       int fanout, bool share, int min_level)
{
	struct send_prefetch_test *t = test->priv;
	struct test_tree *tree = &t->trees[side];
	struct extent_buffer *root_node;

	tree->nr = nr;
	for (int i = 0; i < nr; i++) {
		tree->leaves[i].objectid = first_objectid(blocks[i]);
		tree->leaves[i].bytenr = blocks[i]->start;
	}
	/* Nodes one below the other, the last one has room for all. */
	for (int level = 1; nr > fanout || level < min_level; level++) {
		int out = 0;

		for (int i = 0; i < nr;) {
			/* Mostly full, so that both trees often cut alike. */
			const int room = fanout - (prandom_u32_state(&t->rnd) % 4 == 0 ? 1 : 0);
			const int len = clamp(nr - i, 1, max(room, 1));
			struct extent_buffer *node = NULL;

			if (share)
				node = shared_node(t, blocks + i, len);
			blocks[out++] = node ?: test_node(test, blocks + i, len);
			i += len;
		}
		nr = out;
	}
	root_node = (nr == 1 && min_level == 0) ? blocks[0] : test_node(test, blocks, nr);
	tree->root->commit_root = root_node;
}

static int cmp_leaf(const void *a, const void *b)
{
	const struct test_leaf *la = a;
	const struct test_leaf *lb = b;

	if (la->objectid != lb->objectid)
		return la->objectid < lb->objectid ? -1 : 1;
	return (la->bytenr > lb->bytenr) - (la->bytenr < lb->bytenr);
}

/* All leaves below a node that are not also in the other tree. */
static void find_expected(struct send_prefetch_test *t)
{
	t->nr_expected = 0;
	for (int side = 0; side < 2; side++) {
		const struct test_tree *tree = &t->trees[side];
		const struct test_tree *other = &t->trees[!side];

		if (!tree->root || btrfs_header_level(tree->root->commit_root) == 0)
			continue;
		for (int i = 0; i < tree->nr; i++) {
			bool shared = false;

			for (int j = 0; other->root && j < other->nr; j++)
				shared |= cmp_leaf(&tree->leaves[i], &other->leaves[j]) == 0;
			if (!shared)
				t->expected[t->nr_expected++] = tree->leaves[i];
		}
	}
	sort(t->expected, t->nr_expected, sizeof(t->expected[0]), cmp_leaf, NULL);
}

/* A ring as small as the window: a block too many would be seen. */
static struct btrfs_send_prefetch *test_start(struct kunit *test, int max_blocks)
{
	struct send_prefetch_test *t = test->priv;
	struct btrfs_send_prefetch *p;

	p = btrfs_send_prefetch_start(t->trees[0].root, t->trees[1].root);
	KUNIT_ASSERT_NOT_NULL(test, p);
	p->min_blocks = max_blocks;
	p->max_blocks = max_blocks;
	p->limit_blocks = max_blocks;
	p->ring_size = roundup_pow_of_two(max_blocks);
	return p;
}

/* Does the prefetch take care of what is read? */
static bool test_advance(struct btrfs_send_prefetch *p, u64 objectid)
{
	const struct btrfs_key key = test_key(objectid);

	return btrfs_send_prefetch_advance(p, &key, true);
}

static s64 counter(const struct send_prefetch_test *t, enum btrfs_send_prefetch_counter nr)
{
	return atomic64_read(&t->fs_info->send_prefetch_stats.counters[nr]);
}

/* Blocks that were asked for, in memory or not. */
static s64 nr_asked(const struct send_prefetch_test *t)
{
	return counter(t, BTRFS_SEND_PREFETCH_READS) + counter(t, BTRFS_SEND_PREFETCH_CACHED);
}

/* As if somebody had submitted the read of this block. */
static void begin_read(struct extent_buffer *eb)
{
	clear_extent_buffer_uptodate(eb);
	set_bit(EXTENT_BUFFER_READING, &eb->bflags);
}

static void end_read(struct extent_buffer *eb, bool uptodate)
{
	if (uptodate)
		set_extent_buffer_uptodate(eb);
	clear_bit(EXTENT_BUFFER_READING, &eb->bflags);
}

/*
 * Walk from expected leaf number @first to before @last as a compare would, and
 * see that each is in the window and in memory when it is needed.
 */
static void test_walk(struct kunit *test, struct btrfs_send_prefetch *p, int first, int last)
{
	struct send_prefetch_test *t = test->priv;

	for (int i = first; i < last; i++) {
		bool found = false;

		KUNIT_ASSERT_TRUE(test, test_advance(p, t->expected[i].objectid));
		KUNIT_ASSERT_LE(test, p->tail - p->head, p->max_blocks);
		for (u32 nr = p->head; nr != p->tail; nr++) {
			const struct prefetch_block *block = block_at(p, nr);

			if (block->ra.level == 0 && block->ra.bytenr == t->expected[i].bytenr)
				found = block->submitted && block->ra.eb &&
					extent_buffer_uptodate(block->ra.eb);
		}
		KUNIT_ASSERT_TRUE_MSG(test, found, "leaf %d of %d, key %llu", i,
				      t->nr_expected, t->expected[i].objectid);
	}
}

/* All leaves that ever were in the window, against those expected. */
static void test_exact(struct kunit *test, int max_blocks)
{
	struct send_prefetch_test *t = test->priv;
	struct btrfs_send_prefetch *p = test_start(test, max_blocks);
	struct btrfs_key key = test_key(0);
	u32 seen = p->tail;
	int nr = 0;

	find_expected(t);
	down_read(&t->fs_info->commit_root_sem);
	btrfs_send_prefetch_restart(p, &key);
	while (btrfs_send_prefetch_advance(p, &key, true)) {
		u64 last = key.objectid;

		for (; seen != p->tail; seen++) {
			const struct btrfs_tree_block_readahead *ra = &block_at(p, seen)->ra;
			struct test_leaf leaf = { ra->first_key.objectid, ra->bytenr };

			KUNIT_EXPECT_GE(test, leaf.objectid, last);
			last = leaf.objectid;
			if (ra->level)
				continue;
			KUNIT_ASSERT_LT(test, nr, t->nr_expected);
			/* Two leaves of one key come in any order. */
			if (cmp_leaf(&leaf, &t->expected[nr]) && nr + 1 < t->nr_expected &&
			    t->expected[nr + 1].objectid == leaf.objectid)
				swap(t->expected[nr], t->expected[nr + 1]);
			KUNIT_ASSERT_EQ(test, cmp_leaf(&leaf, &t->expected[nr]), 0);
			nr++;
		}
		if (p->head == p->tail)
			break;
		/* Just behind the first block of the window. */
		key = block_at(p, p->head)->ra.first_key;
		key.offset++;
	}
	KUNIT_EXPECT_EQ(test, nr, t->nr_expected);
	KUNIT_EXPECT_TRUE(test, at_end(p));
	up_read(&t->fs_info->commit_root_sem);
	btrfs_send_prefetch_stop(p);
}

/* No reference is left over and none is missing. */
static void test_refs(struct kunit *test)
{
	struct send_prefetch_test *t = test->priv;

	for (int i = 0; i < t->nr_blocks; i++)
		KUNIT_ASSERT_EQ(test, refcount_read(&t->blocks[i]->refs), 2);
}

/* An array of blocks that is too large for the stack. */
static struct extent_buffer **test_array(struct kunit *test, int nr)
{
	struct extent_buffer **blocks = kunit_kcalloc(test, nr, sizeof(*blocks), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, blocks);
	return blocks;
}

/* A leaf for each key from @first in steps of @step. */
static int new_leaves(struct kunit *test, struct extent_buffer **leaves, int nr,
		      u64 first, u64 step)
{
	for (int i = 0; i < nr; i++)
		leaves[i] = test_block(test, 0, first + i * step);
	return nr;
}

/* A full send. */
static void without_parent(struct kunit *test)
{
	struct send_prefetch_test *t = test->priv;

	t->trees[1].root = NULL;
}

static void empty_parent_test(struct kunit *test)
{
	struct extent_buffer *leaves[64];

	new_leaves(test, leaves, 64, 256, 10);
	build_tree(test, 0, leaves, 64, 8, false, 0);
	new_leaves(test, leaves, 1, 256, 1);
	build_tree(test, 1, leaves, 1, 8, false, 0);
	test_exact(test, 16);
	test_refs(test);
}

static void empty_both_test(struct kunit *test)
{
	struct extent_buffer *leaves[1];

	for (int side = 0; side < 2; side++) {
		new_leaves(test, leaves, 1, 256, 1);
		build_tree(test, side, leaves, 1, 8, false, 0);
	}
	test_exact(test, 16);
	test_refs(test);
}

static void one_block_test(struct kunit *test)
{
	struct extent_buffer *leaves[2];

	new_leaves(test, leaves, 1, 256, 1);
	build_tree(test, 0, leaves, 1, 8, false, 1);
	without_parent(test);
	test_exact(test, 16);
	test_refs(test);
}

static void full_test(struct kunit *test)
{
	struct extent_buffer **leaves = test_array(test, 300);

	new_leaves(test, leaves, 300, 256, 3);
	build_tree(test, 0, leaves, 300, 7, false, 0);
	without_parent(test);
	test_exact(test, 16);
	test_refs(test);
}

static void all_shared_test(struct kunit *test)
{
	struct extent_buffer *leaves[100];
	struct extent_buffer *copy[100];

	new_leaves(test, leaves, 100, 256, 3);
	memcpy(copy, leaves, sizeof(copy));
	build_tree(test, 0, leaves, 100, 8, false, 0);
	build_tree(test, 1, copy, 100, 8, true, 0);
	test_exact(test, 16);
	KUNIT_EXPECT_EQ(test, ((struct send_prefetch_test *)test->priv)->nr_expected, 0);
	test_refs(test);
}

static void all_different_test(struct kunit *test)
{
	struct extent_buffer *leaves[100];

	for (int side = 0; side < 2; side++) {
		new_leaves(test, leaves, 100, 256 + side, 3);
		build_tree(test, side, leaves, 100, 8, false, 0);
	}
	test_exact(test, 16);
	KUNIT_EXPECT_EQ(test, ((struct send_prefetch_test *)test->priv)->nr_expected, 200);
	test_refs(test);
}

/* The same leaves under trees of different height. */
static void heights_test(struct kunit *test)
{
	struct extent_buffer *leaves[60];
	struct extent_buffer *copy[60];

	new_leaves(test, leaves, 60, 256, 3);
	memcpy(copy, leaves, sizeof(copy));
	copy[20] = test_block(test, 0, 256 + 20 * 3);
	copy[59] = test_block(test, 0, 256 + 59 * 3 + 1);
	build_tree(test, 0, leaves, 60, 16, false, 0);
	build_tree(test, 1, copy, 60, 3, true, 5);
	test_exact(test, 16);
	KUNIT_EXPECT_EQ(test, ((struct send_prefetch_test *)test->priv)->nr_expected, 4);
	test_refs(test);
}

/* The walk finds each block in the window, from any key on. */
static void restart_test(struct kunit *test)
{
	struct send_prefetch_test *t = test->priv;
	struct extent_buffer **leaves = test_array(test, 200);
	struct extent_buffer **copy = test_array(test, 200);
	struct btrfs_send_prefetch *p;

	new_leaves(test, leaves, 200, 256, 3);
	memcpy(copy, leaves, 200 * sizeof(*copy));
	for (int i = 0; i < 200; i += 3)
		copy[i] = test_block(test, 0, 256 + i * 3 + (i % 2));
	build_tree(test, 0, leaves, 200, 8, false, 0);
	build_tree(test, 1, copy, 200, 6, true, 0);
	find_expected(t);

	p = test_start(test, 16);
	down_read(&t->fs_info->commit_root_sem);
	for (int first = 0; first < t->nr_expected; first += 7) {
		const struct btrfs_key key = test_key(t->expected[first].objectid);

		btrfs_send_prefetch_restart(p, &key);
		test_walk(test, p, first, min(first + 20, t->nr_expected));
	}
	up_read(&t->fs_info->commit_root_sem);
	btrfs_send_prefetch_stop(p);
	test_refs(test);
}

/* Enough leaves of one tree, each apart from its neighbour on the disk. */
static void leaves_apart(struct kunit *test, struct extent_buffer **leaves, int nr)
{
	for (int i = 0; i < nr; i++) {
		leaves[i] = test_block(test, 0, 256 + i * 3);
		test_block(test, 0, 1);
	}
}

/* Restart at the first key, window empty. The caller holds the semaphore. */
static void restart_at_first(struct btrfs_send_prefetch *p)
{
	const struct btrfs_key first = test_key(256);

	btrfs_send_prefetch_restart(p, &first);
}

/* A pointer with the same place and another generation is another block. */
static void generation_test(struct kunit *test)
{
	struct send_prefetch_test *t = test->priv;
	struct extent_buffer *leaves[8];
	struct extent_buffer *copy[8];
	struct btrfs_send_prefetch *p;

	new_leaves(test, leaves, 8, 256, 3);
	memcpy(copy, leaves, sizeof(copy));
	build_tree(test, 0, leaves, 8, 8, false, 1);
	build_tree(test, 1, copy, 8, 8, false, 1);
	btrfs_set_node_ptr_generation(t->trees[1].root->commit_root, 5, 2);

	p = test_start(test, 16);
	down_read(&t->fs_info->commit_root_sem);
	restart_at_first(p);
	fill_window(p);
	KUNIT_ASSERT_EQ(test, p->tail - p->head, 2);
	KUNIT_EXPECT_EQ(test, block_at(p, p->head)->ra.bytenr, t->trees[0].leaves[5].bytenr);
	KUNIT_EXPECT_EQ(test, block_at(p, p->head)->ra.generation, 1);
	KUNIT_EXPECT_EQ(test, block_at(p, p->head + 1)->ra.bytenr, t->trees[0].leaves[5].bytenr);
	KUNIT_EXPECT_EQ(test, block_at(p, p->head + 1)->ra.generation, 2);
	up_read(&t->fs_info->commit_root_sem);
	btrfs_send_prefetch_stop(p);
	test_refs(test);
}

/* A block of many windows: always more than half full, and no block too early gone. */
static void larger_than_window_test(struct kunit *test)
{
	struct send_prefetch_test *t = test->priv;
	struct extent_buffer **leaves = test_array(test, 300);
	struct btrfs_send_prefetch *p;

	new_leaves(test, leaves, 300, 256, 3);
	build_tree(test, 0, leaves, 300, 8, false, 0);
	without_parent(test);
	find_expected(t);

	p = test_start(test, 16);
	down_read(&t->fs_info->commit_root_sem);
	restart_at_first(p);
	for (int i = 0; i < t->nr_expected; i++) {
		test_walk(test, p, i, i + 1);
		if (!at_end(p))
			KUNIT_EXPECT_GT(test, p->tail - p->head, p->max_blocks / 2);
	}
	KUNIT_EXPECT_GT(test, p->tail, 4 * p->ring_size);
	KUNIT_EXPECT_GT(test, counter(t, BTRFS_SEND_PREFETCH_FILLS), 300 / 16);
	/* Filled up when half was used, not with every block. */
	KUNIT_EXPECT_LT(test, counter(t, BTRFS_SEND_PREFETCH_FILLS), 300 / 4);
	KUNIT_EXPECT_EQ(test, counter(t, BTRFS_SEND_PREFETCH_LATE), 0);
	up_read(&t->fs_info->commit_root_sem);
	btrfs_send_prefetch_stop(p);
	test_refs(test);
}

/* The walk may be in the middle of a leaf when it starts again: that one is needed. */
static void inside_test(struct kunit *test)
{
	struct send_prefetch_test *t = test->priv;
	struct extent_buffer *leaves[60];
	struct btrfs_send_prefetch *p;

	new_leaves(test, leaves, 60, 256, 3);
	build_tree(test, 0, leaves, 60, 4, false, 0);
	without_parent(test);

	p = test_start(test, 16);
	down_read(&t->fs_info->commit_root_sem);
	for (int i = 0; i < 60; i++) {
		const struct btrfs_key inside = test_key(256 + i * 3 + 1);
		u64 first = 0;

		btrfs_send_prefetch_restart(p, &inside);
		fill_window(p);
		for (u32 nr = p->head; nr != p->tail && !first; nr++) {
			if (block_at(p, nr)->ra.level == 0)
				first = block_at(p, nr)->ra.bytenr;
		}
		KUNIT_EXPECT_EQ(test, first, t->trees[0].leaves[i].bytenr);
	}
	up_read(&t->fs_info->commit_root_sem);
	btrfs_send_prefetch_stop(p);
	test_refs(test);
}

/* A snapshot of the root may free its node while we look at it. */
static void root_replaced_test(struct kunit *test)
{
	struct send_prefetch_test *t = test->priv;
	struct extent_buffer *leaves[60];
	struct extent_buffer *root_node;
	struct btrfs_send_prefetch *p;

	new_leaves(test, leaves, 60, 256, 3);
	build_tree(test, 0, leaves, 60, 8, false, 0);
	without_parent(test);
	find_expected(t);

	p = test_start(test, 8);
	down_read(&t->fs_info->commit_root_sem);
	restart_at_first(p);
	root_node = t->trees[0].root->commit_root;
	KUNIT_EXPECT_EQ(test, refcount_read(&root_node->refs), 2);
	memzero_extent_buffer(root_node, 0, TEST_NODESIZE);
	t->trees[0].root->commit_root = NULL;
	test_walk(test, p, 0, t->nr_expected);
	up_read(&t->fs_info->commit_root_sem);
	btrfs_send_prefetch_stop(p);
	test_refs(test);
}

enum stop_state {
	STOP_ALLOCATED,
	STOP_NO_RING,
	STOP_RESTARTED,
	STOP_FILLING,
	STOP_FILLED,
	STOP_SORTED,
	STOP_IN_FLIGHT,
	STOP_WALKING,
	STOP_ALL_FOUND,
	STOP_ALL_USED,
	STOP_FAILED,
	STOP_AFTER_RELOCATION,
	NR_STOP_STATES,
};

/* Bring the prefetch into a state in which it is stopped then. */
static void enter_state(struct kunit *test, struct btrfs_send_prefetch *p,
			struct extent_buffer **leaves, enum stop_state state)
{
	struct send_prefetch_test *t = test->priv;

	if (state == STOP_ALLOCATED)
		return;
	if (state == STOP_NO_RING) {
		kvfree(p->ring);
		p->ring = NULL;
		return;
	}
	restart_at_first(p);
	switch (state) {
	case STOP_FILLING:
		p->filling = true;
		KUNIT_EXPECT_EQ(test, step(p), 0);
		KUNIT_EXPECT_EQ(test, step(p), 0);
		break;
	case STOP_FILLED:
		fill_window(p);
		break;
	case STOP_SORTED:
		fill_window(p);
		sort_queue(p);
		break;
	case STOP_IN_FLIGHT:
		for (int i = 0; i < 20; i++)
			begin_read(leaves[i]);
		test_advance(p, 256);
		KUNIT_EXPECT_GT(test, p->nr_inflight, 0);
		break;
	case STOP_WALKING:
		test_walk(test, p, 0, 20);
		break;
	case STOP_ALL_FOUND:
		test_walk(test, p, 0, t->nr_expected - 2);
		KUNIT_EXPECT_TRUE(test, at_end(p));
		KUNIT_EXPECT_NE(test, p->head, p->tail);
		break;
	case STOP_ALL_USED:
		test_walk(test, p, 0, t->nr_expected);
		test_advance(p, U64_MAX);
		KUNIT_EXPECT_EQ(test, p->head, p->tail);
		break;
	case STOP_FAILED:
		release_cursor(&p->cursors[0]);
		test_advance(p, 256);
		break;
	case STOP_AFTER_RELOCATION:
		test_walk(test, p, 0, 20);
		t->fs_info->last_reloc_trans++;
		break;
	default:
		break;
	}
}

/* Whenever it is stopped, each block is released, and just once. */
static void stop_test(struct kunit *test)
{
	struct send_prefetch_test *t = test->priv;
	struct extent_buffer *leaves[50];
	struct btrfs_send_prefetch *p;

	leaves_apart(test, leaves, 50);
	/* Building a tree takes the array for its nodes. */
	{
		struct extent_buffer *copy[50];

		memcpy(copy, leaves, sizeof(copy));
		build_tree(test, 0, copy, 50, 8, false, 0);
	}
	without_parent(test);
	find_expected(t);

	btrfs_send_prefetch_stop(NULL);
	KUNIT_EXPECT_FALSE(test, test_advance(NULL, 256));

	p = test_start(test, 16);
	KUNIT_EXPECT_FALSE(test, test_advance(p, 256));
	btrfs_send_prefetch_stop(p);

	for (int state = 0; state < NR_STOP_STATES; state++) {
		s64 unused = counter(t, BTRFS_SEND_PREFETCH_UNUSED);
		u32 left = 0;

		p = test_start(test, 16);
		down_read(&t->fs_info->commit_root_sem);
		enter_state(test, p, leaves, state);
		up_read(&t->fs_info->commit_root_sem);
		for (u32 nr = p->head; nr != p->tail; nr++)
			left += block_at(p, nr)->ra.eb && !block_at(p, nr)->needed;
		btrfs_send_prefetch_stop(p);
		KUNIT_EXPECT_EQ(test, counter(t, BTRFS_SEND_PREFETCH_UNUSED) - unused, left);
		for (int i = 0; i < 50; i++)
			end_read(leaves[i], true);
		test_refs(test);
	}
}

/*
 * Nothing is asked for while a relocation runs, nor after one through what was
 * found before it; a restart releases that and goes through the new roots only.
 */
static void relocation_test(struct kunit *test)
{
	struct send_prefetch_test *t = test->priv;
	struct extent_buffer *leaves[50];
	struct btrfs_send_prefetch *p;
	int nr_old;
	u32 tail;
	s64 asked;

	new_leaves(test, leaves, 50, 256, 3);
	build_tree(test, 0, leaves, 50, 8, false, 0);
	without_parent(test);
	find_expected(t);

	p = test_start(test, 16);
	down_read(&t->fs_info->commit_root_sem);
	restart_at_first(p);

	/* It begins before anything was found. */
	set_bit(BTRFS_FS_RELOC_RUNNING, &t->fs_info->flags);
	KUNIT_EXPECT_FALSE(test, test_advance(p, 256));
	KUNIT_EXPECT_EQ(test, p->tail, p->head);
	KUNIT_EXPECT_EQ(test, nr_asked(t), 0);
	clear_bit(BTRFS_FS_RELOC_RUNNING, &t->fs_info->flags);
	/* It begins when blocks were found and not yet asked for. */
	fill_window(p);
	tail = p->tail;
	asked = nr_asked(t);
	set_bit(BTRFS_FS_RELOC_RUNNING, &t->fs_info->flags);
	KUNIT_EXPECT_FALSE(test, test_advance(p, 256));
	KUNIT_EXPECT_EQ(test, p->tail, tail);
	KUNIT_EXPECT_EQ(test, nr_asked(t), asked);
	clear_bit(BTRFS_FS_RELOC_RUNNING, &t->fs_info->flags);

	/* It has ended, and the commit roots are others. */
	test_walk(test, p, 0, 10);
	asked = nr_asked(t);
	tail = p->tail;
	t->fs_info->last_reloc_trans++;
	for (int i = 10; i < 30; i++)
		KUNIT_EXPECT_FALSE(test, test_advance(p, t->expected[i].objectid));
	KUNIT_EXPECT_EQ(test, p->tail, tail);
	KUNIT_EXPECT_EQ(test, nr_asked(t), asked);

	nr_old = t->nr_blocks;
	new_leaves(test, leaves, 50, 256, 3);
	build_tree(test, 0, leaves, 50, 8, false, 0);
	find_expected(t);
	restart_at_first(p);
	KUNIT_EXPECT_EQ(test, p->tail, p->head);
	test_refs(test);
	for (int i = 0; i < nr_old; i++)
		memzero_extent_buffer(t->blocks[i], 0, TEST_NODESIZE);
	for (int i = 0; i < t->nr_expected; i++) {
		test_walk(test, p, i, i + 1);
		for (u32 nr = p->head; nr != p->tail; nr++)
			KUNIT_ASSERT_GT(test, block_at(p, nr)->ra.bytenr,
					(u64)nr_old * TEST_NODESIZE);
	}
	up_read(&t->fs_info->commit_root_sem);
	btrfs_send_prefetch_stop(p);
	test_refs(test);
}

/* A node that cannot be read ends it, without a word to the walk. */
static void error_test(struct kunit *test)
{
	struct send_prefetch_test *t = test->priv;
	struct extent_buffer *leaves[40];
	struct extent_buffer *node;
	struct btrfs_send_prefetch *p;

	new_leaves(test, leaves, 40, 256, 3);
	build_tree(test, 0, leaves, 40, 10, false, 0);
	without_parent(test);
	find_expected(t);
	node = find_extent_buffer(t->fs_info,
				  btrfs_node_blockptr(t->trees[0].root->commit_root, 2));
	KUNIT_ASSERT_NOT_NULL(test, node);
	free_extent_buffer(node);
	clear_extent_buffer_uptodate(node);
	/* What makes a read fail before it is submitted. */
	set_bit(EXTENT_BUFFER_WRITE_ERR, &node->bflags);

	p = test_start(test, 32);
	down_read(&t->fs_info->commit_root_sem);
	restart_at_first(p);
	test_walk(test, p, 0, 18);
	KUNIT_EXPECT_TRUE(test, at_end(p));
	for (int i = 18; i < 40; i++)
		test_advance(p, t->expected[i].objectid);
	KUNIT_EXPECT_EQ(test, p->head, p->tail);
	up_read(&t->fs_info->commit_root_sem);
	btrfs_send_prefetch_stop(p);
	test_refs(test);
}

/* What the walk needs was there, still on its way, or could not be read. */
static void counters_test(struct kunit *test)
{
	struct send_prefetch_test *t = test->priv;
	struct extent_buffer *leaves[12];
	struct extent_buffer *copy[12];
	struct btrfs_send_prefetch *p;

	leaves_apart(test, leaves, 12);
	memcpy(copy, leaves, sizeof(copy));
	build_tree(test, 0, copy, 12, 12, false, 1);
	without_parent(test);

	begin_read(leaves[3]);
	begin_read(leaves[5]);
	p = test_start(test, 16);
	down_read(&t->fs_info->commit_root_sem);
	restart_at_first(p);
	KUNIT_EXPECT_TRUE(test, test_advance(p, 256));
	KUNIT_EXPECT_EQ(test, counter(t, BTRFS_SEND_PREFETCH_READS), 2);
	KUNIT_EXPECT_EQ(test, counter(t, BTRFS_SEND_PREFETCH_CACHED), 10);
	end_read(leaves[5], false);
	for (int i = 0; i < 8; i++)
		test_advance(p, 256 + i * 3);
	KUNIT_EXPECT_EQ(test, counter(t, BTRFS_SEND_PREFETCH_HITS), 6);
	KUNIT_EXPECT_EQ(test, counter(t, BTRFS_SEND_PREFETCH_LATE), 1);
	KUNIT_EXPECT_EQ(test, counter(t, BTRFS_SEND_PREFETCH_LOST), 1);
	up_read(&t->fs_info->commit_root_sem);
	btrfs_send_prefetch_stop(p);
	KUNIT_EXPECT_EQ(test, counter(t, BTRFS_SEND_PREFETCH_UNUSED), 4);
	KUNIT_EXPECT_EQ(test, counter(t, BTRFS_SEND_PREFETCH_SENDS), 1);
	KUNIT_EXPECT_EQ(test, counter(t, BTRFS_SEND_PREFETCH_RESTARTS), 1);
	end_read(leaves[3], true);
	test_refs(test);
}

/* What a counter shows: never a sign, and after the largest number it begins again. */
static void counter_end_test(struct kunit *test)
{
	struct send_prefetch_test *t = test->priv;
	struct btrfs_fs_devices *fs_devices = t->fs_info->fs_devices;
	struct kobj_attribute *attr = &send_prefetch_counters[BTRFS_SEND_PREFETCH_SENDS];
	struct extent_buffer *leaf;
	char *buf;

	buf = kunit_kmalloc(test, PAGE_SIZE, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, buf);
	leaves_apart(test, &leaf, 1);
	build_tree(test, 0, &leaf, 1, 1, false, 1);
	without_parent(test);
	fs_devices->fs_info = t->fs_info;

	atomic64_set(&t->fs_info->send_prefetch_stats.counters[BTRFS_SEND_PREFETCH_SENDS], S64_MAX);
	btrfs_send_prefetch_stop(test_start(test, 16));
	send_prefetch_show(&fs_devices->fsid_kobj, attr, buf);
	KUNIT_EXPECT_STREQ(test, buf, "9223372036854775808\n");

	atomic64_set(&t->fs_info->send_prefetch_stats.counters[BTRFS_SEND_PREFETCH_SENDS], -1);
	btrfs_send_prefetch_stop(test_start(test, 16));
	send_prefetch_show(&fs_devices->fsid_kobj, attr, buf);
	KUNIT_EXPECT_STREQ(test, buf, "0\n");
	fs_devices->fs_info = NULL;
	test_refs(test);
}

/* A walk that has what it needs does not wait for requests. */
static void depth_test(struct kunit *test)
{
	struct send_prefetch_test *t = test->priv;
	struct extent_buffer *leaves[30];
	struct extent_buffer *copy[30];
	struct btrfs_send_prefetch *p;

	leaves_apart(test, leaves, 30);
	memcpy(copy, leaves, sizeof(copy));
	build_tree(test, 0, copy, 30, 16, false, 0);
	without_parent(test);
	for (int i = 1; i < 30; i++)
		begin_read(leaves[i]);

	p = test_start(test, 64);
	p->depth = 4;
	down_read(&t->fs_info->commit_root_sem);
	restart_at_first(p);
	/* The first node and the first leaf are there. */
	for (int i = 0; i < 3; i++)
		KUNIT_EXPECT_TRUE(test, test_advance(p, 256));
	KUNIT_EXPECT_EQ(test, counter(t, BTRFS_SEND_PREFETCH_READS), 4);
	/* Two are finished, so there is room for as many. */
	end_read(leaves[1], true);
	end_read(leaves[2], true);
	KUNIT_EXPECT_TRUE(test, test_advance(p, 256));
	KUNIT_EXPECT_EQ(test, counter(t, BTRFS_SEND_PREFETCH_READS), 6);
	up_read(&t->fs_info->commit_root_sem);
	btrfs_send_prefetch_stop(p);
	for (int i = 0; i < 30; i++)
		end_read(leaves[i], true);
	test_refs(test);
}

/*
 * A walk that comes to a block in flight is told to wait, for that block or for
 * room; nothing waits here. Cursors that need a node in flight find no more.
 */
static void wait_test(struct kunit *test)
{
	struct send_prefetch_test *t = test->priv;
	struct extent_buffer *leaves[30];
	struct extent_buffer *copy[30];
	struct extent_buffer *node;
	const struct btrfs_key first = test_key(256);
	struct btrfs_send_prefetch *p;

	leaves_apart(test, leaves, 30);
	memcpy(copy, leaves, sizeof(copy));
	build_tree(test, 0, copy, 30, 8, false, 2);
	without_parent(test);
	node = find_extent_buffer(t->fs_info,
				  btrfs_node_blockptr(t->trees[0].root->commit_root, 0));
	KUNIT_ASSERT_NOT_NULL(test, node);
	free_extent_buffer(node);

	p = test_start(test, 64);
	p->depth = 4;
	down_read(&t->fs_info->commit_root_sem);
	restart_at_first(p);

	/* The first node is in flight: nothing is known yet. */
	begin_read(node);
	KUNIT_EXPECT_EQ(test, btrfs_send_prefetch_advance(p, &first, true),
			BTRFS_SEND_PREFETCH_WAIT);
	KUNIT_EXPECT_PTR_EQ(test, p->wait_eb, node);
	KUNIT_EXPECT_EQ(test, p->head, p->tail);
	KUNIT_EXPECT_EQ(test, btrfs_send_prefetch_advance(p, &first, false),
			BTRFS_SEND_PREFETCH_READY);
	end_read(node, true);

	/* All leaves are in flight, and the disk takes four requests. */
	for (int i = 0; i < 30; i++)
		begin_read(leaves[i]);
	KUNIT_EXPECT_EQ(test, btrfs_send_prefetch_advance(p, &first, true),
			BTRFS_SEND_PREFETCH_WAIT);
	KUNIT_EXPECT_EQ(test, p->nr_inflight, 4);
	KUNIT_EXPECT_PTR_EQ(test, p->wait_eb, leaves[2]);
	/* One of them is there, so that there is room for another one. */
	end_read(leaves[2], true);
	KUNIT_EXPECT_EQ(test, btrfs_send_prefetch_advance(p, &first, true),
			BTRFS_SEND_PREFETCH_WAIT);
	KUNIT_EXPECT_EQ(test, p->nr_inflight, 4);
	KUNIT_EXPECT_EQ(test, counter(t, BTRFS_SEND_PREFETCH_READS), 1 + 5);
	/* All but the first: that is what the walk waits for. */
	p->depth = 32;
	for (int i = 1; i < 30; i++)
		end_read(leaves[i], true);
	KUNIT_EXPECT_EQ(test, btrfs_send_prefetch_advance(p, &first, true),
			BTRFS_SEND_PREFETCH_WAIT);
	KUNIT_EXPECT_PTR_EQ(test, p->wait_eb, leaves[0]);
	/* It could not be read: the walk has to see that for itself. */
	end_read(leaves[0], false);
	KUNIT_EXPECT_EQ(test, btrfs_send_prefetch_advance(p, &first, true),
			BTRFS_SEND_PREFETCH_READY);
	up_read(&t->fs_info->commit_root_sem);
	end_read(leaves[0], true);
	btrfs_send_prefetch_stop(p);
	test_refs(test);
}

/* Neighbours are one request, as long as a disk takes it. */
static void join_test(struct kunit *test)
{
	struct send_prefetch_test *t = test->priv;
	struct extent_buffer *leaves[24];
	struct extent_buffer *copy[24];
	const struct btrfs_key first = test_key(256);
	struct btrfs_send_prefetch *p;

	new_leaves(test, leaves, 24, 256, 3);
	memcpy(copy, leaves, sizeof(copy));
	build_tree(test, 0, copy, 24, 24, false, 1);
	without_parent(test);
	for (int i = 0; i < 24; i++)
		begin_read(leaves[i]);

	p = test_start(test, 64);
	p->nr_lanes = 1;
	p->depth = 2;
	p->max_request_bytes = 8 * TEST_NODESIZE;
	down_read(&t->fs_info->commit_root_sem);
	restart_at_first(p);
	KUNIT_EXPECT_EQ(test, btrfs_send_prefetch_advance(p, &first, true),
			BTRFS_SEND_PREFETCH_WAIT);
	KUNIT_EXPECT_EQ(test, p->nr_inflight, 2);
	KUNIT_EXPECT_EQ(test, counter(t, BTRFS_SEND_PREFETCH_READS), 16);
	up_read(&t->fs_info->commit_root_sem);
	btrfs_send_prefetch_stop(p);
	for (int i = 0; i < 24; i++)
		end_read(leaves[i], true);
	test_refs(test);
}

/* Lanes are shared out by requests rather than by blocks. */
static void lane_cost_test(struct kunit *test)
{
	struct send_prefetch_test *t = test->priv;
	struct extent_buffer *leaves[96];
	struct btrfs_send_prefetch *p;

	/* A run of 64 blocks, and 32 apart from each other. */
	new_leaves(test, leaves, 64, 256, 3);
	for (int i = 64; i < 96; i++) {
		test_block(test, 0, 1);
		leaves[i] = test_block(test, 0, 256 + i * 3);
	}
	build_tree(test, 0, leaves, 96, 96, false, 1);
	without_parent(test);

	p = test_start(test, 128);
	p->nr_lanes = 2;
	down_read(&t->fs_info->commit_root_sem);
	restart_at_first(p);
	fill_window(p);
	sort_queue(p);
	KUNIT_ASSERT_EQ(test, p->queue_len, 96);
	/* 8 + 63 for the run and 32 * 8, so 164 each: the run and 12 more. */
	KUNIT_EXPECT_EQ(test, p->lanes[0].end, 64 + 12);
	KUNIT_EXPECT_EQ(test, p->lanes[1].next, 64 + 12);
	KUNIT_EXPECT_EQ(test, p->lanes[1].end, 96);
	up_read(&t->fs_info->commit_root_sem);
	btrfs_send_prefetch_stop(p);
	test_refs(test);
}

static int wait_for_write(void *sem)
{
	down_write(sem);
	up_write(sem);
	return 0;
}

/* A commit that waits for the semaphore gets it: nothing more is looked for. */
static void contended_test(struct kunit *test)
{
	struct send_prefetch_test *t = test->priv;
	struct extent_buffer *leaves[60];
	struct btrfs_send_prefetch *p;
	struct task_struct *task;
	u32 submitted = 0;

	new_leaves(test, leaves, 60, 256, 3);
	build_tree(test, 0, leaves, 60, 8, false, 0);
	without_parent(test);

	p = test_start(test, 64);
	down_read(&t->fs_info->commit_root_sem);
	restart_at_first(p);
	task = kthread_run(wait_for_write, &t->fs_info->commit_root_sem, "send-prefetch-test");
	if (IS_ERR(task)) {
		up_read(&t->fs_info->commit_root_sem);
		btrfs_send_prefetch_stop(p);
		KUNIT_FAIL(test, "no thread");
		return;
	}
	while (!rwsem_is_contended(&t->fs_info->commit_root_sem))
		usleep_range(1000, 2000);

	KUNIT_EXPECT_TRUE(test, test_advance(p, 256));
	KUNIT_EXPECT_LE(test, p->tail - p->head, 2);
	for (u32 nr = p->head; nr != p->tail; nr++)
		submitted += block_at(p, nr)->ra.level == 0 && block_at(p, nr)->submitted;
	KUNIT_EXPECT_LE(test, submitted, 1);
	up_read(&t->fs_info->commit_root_sem);

	/* Once it had its turn, all goes on. */
	down_read(&t->fs_info->commit_root_sem);
	for (int i = 0; i < 100; i++) {
		cond_resched();
		KUNIT_EXPECT_TRUE(test, test_advance(p, 256));
	}
	KUNIT_EXPECT_GT(test, p->tail - p->head, 30);
	up_read(&t->fs_info->commit_root_sem);
	btrfs_send_prefetch_stop(p);
	test_refs(test);
}

/* To be asked for the cpu with the last block found must not hold it back. */
static void contended_end_test(struct kunit *test)
{
	struct send_prefetch_test *t = test->priv;
	struct extent_buffer *leaves[3];
	const struct btrfs_key first = test_key(256);
	struct btrfs_send_prefetch *p;

	for (int nr = 1; nr <= 3; nr++) {
		enum btrfs_send_prefetch_state state = BTRFS_SEND_PREFETCH_WAIT;

		new_leaves(test, leaves, nr, 256, 3);
		build_tree(test, 0, leaves, nr, 8, false, 1);
		without_parent(test);
		p = test_start(test, 16);
		down_read(&t->fs_info->commit_root_sem);
		restart_at_first(p);
		for (int i = 0; i < 10 && state == BTRFS_SEND_PREFETCH_WAIT; i++) {
			set_tsk_need_resched(current);
			state = btrfs_send_prefetch_advance(p, &first, true);
		}
		clear_tsk_need_resched(current);
		KUNIT_EXPECT_EQ(test, state, BTRFS_SEND_PREFETCH_READY);
		up_read(&t->fs_info->commit_root_sem);
		btrfs_send_prefetch_stop(p);
		test_refs(test);
	}
}

/* Who passes blocks while the window is not full yet, and never is, fills no queue with them. */
static void queue_test(struct kunit *test)
{
	struct send_prefetch_test *t = test->priv;
	struct extent_buffer *leaves[200];
	struct btrfs_send_prefetch *p;
	struct task_struct *task;
	u32 most = 0;

	new_leaves(test, leaves, 200, 256, 3);
	build_tree(test, 0, leaves, 200, 16, false, 0);
	without_parent(test);
	find_expected(t);

	p = test_start(test, 16);
	down_read(&t->fs_info->commit_root_sem);
	restart_at_first(p);
	task = kthread_run(wait_for_write, &t->fs_info->commit_root_sem, "send-prefetch-test");
	/* After each step somebody else wants the semaphore. */
	while (!IS_ERR(task) && !rwsem_is_contended(&t->fs_info->commit_root_sem))
		usleep_range(1000, 2000);
	for (int i = 0; i < t->nr_expected; i++) {
		const struct btrfs_key key = test_key(t->expected[i].objectid);

		btrfs_send_prefetch_advance(p, &key, i == 0);
		most = max(most, p->queue_len);
	}
	KUNIT_EXPECT_FALSE(test, IS_ERR(task));
	KUNIT_EXPECT_GT(test, most, 0);
	KUNIT_EXPECT_LE(test, most, 16);
	up_read(&t->fs_info->commit_root_sem);
	btrfs_send_prefetch_stop(p);
	test_refs(test);
}

/* The window grows where the walk had to wait and shrinks where it had not. */
static void resize_test(struct kunit *test)
{
	struct extent_buffer *leaves[8];
	struct btrfs_send_prefetch *p;

	new_leaves(test, leaves, 8, 256, 3);
	build_tree(test, 0, leaves, 8, 8, false, 1);
	without_parent(test);
	p = test_start(test, 64);
	p->min_blocks = 8;

	for (int fills = 1; fills <= 5 * PREFETCH_CALM_FILLS; fills++) {
		resize_window(p);
		KUNIT_EXPECT_EQ(test, p->max_blocks, max(64 >> fills / PREFETCH_CALM_FILLS, 8));
	}
	for (int fills = 1; fills <= 5; fills++) {
		p->nr_late = 1;
		resize_window(p);
		KUNIT_EXPECT_EQ(test, p->max_blocks, min(8 << fills, 64));
		KUNIT_EXPECT_EQ(test, p->nr_late, 0);
	}
	btrfs_send_prefetch_stop(p);
}

/* Each disk of a mirror gets one part of the sweep, in one direction. */
static void lanes_test(struct kunit *test)
{
	struct send_prefetch_test *t = test->priv;
	struct extent_buffer *leaves[60];
	struct btrfs_send_prefetch *p;
	u64 last = 0;
	u32 nr = 0;

	leaves_apart(test, leaves, 60);
	build_tree(test, 0, leaves, 60, 8, false, 0);
	without_parent(test);

	p = test_start(test, 64);
	p->nr_lanes = 2;
	down_read(&t->fs_info->commit_root_sem);
	restart_at_first(p);
	fill_window(p);
	sort_queue(p);
	KUNIT_EXPECT_GT(test, p->queue_len, 30);
	for (u32 i = 0; i < 2; i++) {
		KUNIT_EXPECT_EQ(test, p->lanes[i].next, nr);
		for (; nr < p->lanes[i].end; nr++) {
			KUNIT_EXPECT_GT(test, block_at(p, p->queue[nr])->ra.bytenr, last);
			last = block_at(p, p->queue[nr])->ra.bytenr;
		}
		KUNIT_EXPECT_LE(test, abs((int)nr - (int)(p->queue_len * (i + 1) / 2)), 1);
	}
	KUNIT_EXPECT_EQ(test, nr, p->queue_len);
	up_read(&t->fs_info->commit_root_sem);
	btrfs_send_prefetch_stop(p);
	test_refs(test);
}

/* Blocks leave the queue in one direction, around once. */
static void order_test(struct kunit *test)
{
	struct send_prefetch_test *t = test->priv;
	struct extent_buffer *leaves[100];
	const struct btrfs_key first = test_key(256);
	struct btrfs_send_prefetch *p;
	int turns = 0;

	new_leaves(test, leaves, 100, 256, 3);
	/* Keys in another order than bytenrs. */
	for (int i = 99; i > 0; i--) {
		const int j = prandom_u32_state(&t->rnd) % (i + 1);

		swap(leaves[i]->start, leaves[j]->start);
	}
	for (int i = 0; i < 100; i++) {
		xa_store_irq(&t->fs_info->buffer_tree,
			     leaves[i]->start >> t->fs_info->nodesize_bits, leaves[i], GFP_KERNEL);
		btrfs_set_header_bytenr(leaves[i], leaves[i]->start);
	}
	build_tree(test, 0, leaves, 100, 8, false, 0);
	without_parent(test);

	p = test_start(test, 64);
	p->sweep = 40 * TEST_NODESIZE;
	down_read(&t->fs_info->commit_root_sem);
	btrfs_send_prefetch_restart(p, &first);
	fill_window(p);
	sort_queue(p);
	KUNIT_EXPECT_GT(test, p->queue_len, 30);
	for (u32 i = 1; i < p->queue_len; i++) {
		if (block_at(p, p->queue[i])->ra.bytenr < block_at(p, p->queue[i - 1])->ra.bytenr)
			turns++;
	}
	KUNIT_EXPECT_EQ(test, turns, 1);
	KUNIT_EXPECT_GE(test, block_at(p, p->queue[0])->ra.bytenr, p->sweep);
	up_read(&t->fs_info->commit_root_sem);
	btrfs_send_prefetch_stop(p);
	test_refs(test);
}

static void random_test(struct kunit *test)
{
	struct send_prefetch_test *t = test->priv;
	struct rnd_state *rnd = &t->rnd;
	struct extent_buffer **leaves[2];
	int nr[2];
	u64 key = 256;

	for (int side = 0; side < 2; side++) {
		leaves[side] = kunit_kcalloc(test, TEST_MAX_LEAVES, sizeof(leaves[side][0]),
					     GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, leaves[side]);
		nr[side] = 0;
	}
	/* How many of a hundred leaves are shared. */
	const u32 percent = prandom_u32_state(rnd) % 101;
	const u32 total = 1 + prandom_u32_state(rnd) % (TEST_MAX_LEAVES - 1);

	for (u32 i = 0; i < total; i++) {
		key += 1 + prandom_u32_state(rnd) % 3;
		if (prandom_u32_state(rnd) % 100 < percent) {
			struct extent_buffer *leaf = test_block(test, 0, key);

			leaves[0][nr[0]++] = leaf;
			leaves[1][nr[1]++] = leaf;
			continue;
		}
		/* Only left, only right, or both. */
		const u32 kind = prandom_u32_state(rnd) % 3;

		if (kind != 1)
			leaves[0][nr[0]++] = test_block(test, 0, key);
		if (kind != 0)
			leaves[1][nr[1]++] = test_block(test, 0, key);
	}
	for (int side = 0; side < 2; side++) {
		if (nr[side] == 0)
			leaves[side][nr[side]++] = test_block(test, 0, 256);
		build_tree(test, side, leaves[side], nr[side],
			   4 + prandom_u32_state(rnd) % (TEST_MAX_FANOUT - 4),
			   prandom_u32_state(rnd) % 4, prandom_u32_state(rnd) % 5);
	}
	test_exact(test, 8 + prandom_u32_state(rnd) % 64);
	test_refs(test);

	/* And from somewhere in the middle, as after a relocation. */
	struct btrfs_send_prefetch *p = test_start(test, 32);

	down_read(&t->fs_info->commit_root_sem);
	for (int i = 0; i < 4 && t->nr_expected; i++) {
		const int first = prandom_u32_state(rnd) % t->nr_expected;
		const struct btrfs_key start = test_key(t->expected[first].objectid);

		btrfs_send_prefetch_restart(p, &start);
		test_walk(test, p, first, min(first + 40, t->nr_expected));
	}
	up_read(&t->fs_info->commit_root_sem);
	btrfs_send_prefetch_stop(p);
	test_refs(test);
}

static const int random_seeds[] = {
	1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
	21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40,
};

static void random_seed_desc(const int *seed, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "seed %d", *seed);
}

KUNIT_ARRAY_PARAM(random_seeds, random_seeds, random_seed_desc);

static int send_prefetch_test_init(struct kunit *test)
{
	struct btrfs_fs_info *fs_info;
	struct send_prefetch_test *t;

	t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	fs_info = prefetch_test_fs_info(test, TEST_NODESIZE);
	if (!t || !fs_info)
		return -ENOMEM;
	fs_info->fs_devices = kunit_kzalloc(test, sizeof(*fs_info->fs_devices), GFP_KERNEL);
	if (!fs_info->fs_devices)
		return -ENOMEM;
	INIT_LIST_HEAD(&fs_info->fs_devices->devices);
	mutex_init(&fs_info->fs_devices->device_list_mutex);

	for (int side = 0; side < 2; side++) {
		struct btrfs_root *root = prefetch_test_root(test, fs_info);

		if (!root)
			return -ENOMEM;
		btrfs_set_root_used(&root->root_item, SZ_1G);
		t->trees[side].root = root;
	}
	t->fs_info = fs_info;
	prandom_seed_state(&t->rnd, test->param_value ? *(const int *)test->param_value : 1);
	test->priv = t;
	return 0;
}

static void send_prefetch_test_exit(struct kunit *test)
{
	struct send_prefetch_test *t = test->priv;

	if (!t)
		return;
	for (int i = 0; i < t->nr_blocks; i++)
		free_extent_buffer_stale(t->blocks[i]);
}

static struct kunit_case send_prefetch_test_cases[] = {
	KUNIT_CASE(empty_parent_test),
	KUNIT_CASE(empty_both_test),
	KUNIT_CASE(one_block_test),
	KUNIT_CASE(full_test),
	KUNIT_CASE(all_shared_test),
	KUNIT_CASE(all_different_test),
	KUNIT_CASE(generation_test),
	KUNIT_CASE(heights_test),
	KUNIT_CASE(larger_than_window_test),
	KUNIT_CASE(restart_test),
	KUNIT_CASE(inside_test),
	KUNIT_CASE(root_replaced_test),
	KUNIT_CASE(stop_test),
	KUNIT_CASE(relocation_test),
	KUNIT_CASE(error_test),
	KUNIT_CASE(counters_test),
	KUNIT_CASE(counter_end_test),
	KUNIT_CASE(order_test),
	KUNIT_CASE(depth_test),
	KUNIT_CASE(wait_test),
	KUNIT_CASE(join_test),
	KUNIT_CASE(lanes_test),
	KUNIT_CASE(lane_cost_test),
	KUNIT_CASE(contended_test),
	KUNIT_CASE(contended_end_test),
	KUNIT_CASE(queue_test),
	KUNIT_CASE(resize_test),
	KUNIT_CASE_PARAM(random_test, random_seeds_gen_params),
	{}
};

static struct kunit_suite send_prefetch_test_suite = {
	.name		= "btrfs-send-prefetch",
	.init		= send_prefetch_test_init,
	.exit		= send_prefetch_test_exit,
	.test_cases	= send_prefetch_test_cases,
};

kunit_test_suite(send_prefetch_test_suite);
