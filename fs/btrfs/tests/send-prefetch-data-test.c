// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of the file data that send reads ahead, part of send-prefetch-data.c:
 * which ranges it finds in leaves in memory. Nothing is read.
 */

#include <kunit/test.h>
#include "tests/send-prefetch-test.h"

#define TEST_NODESIZE		SZ_16K
#define TEST_BYTENR		((u64)SZ_1G)
#define TEST_INO		BTRFS_FIRST_FREE_OBJECTID

struct prefetch_data_test {
	struct btrfs_root *root;
	struct prefetch_test_leaf leaf;
	struct prefetch_data *d;
	struct prefetch_data_params params;
};

/* A file extent item, as far as it matters. */
struct test_extent {
	u64 bytenr;
	u64 disk_len;
	u64 skipped;
	u64 len;
	u64 generation;
	u8 type;
	u8 compression;
};

static void add_inode(struct kunit *test, u64 ino, u64 size, u32 mode, u32 nlink)
{
	struct prefetch_data_test *t = test->priv;
	const int slot = prefetch_test_add_item(&t->leaf, ino, BTRFS_INODE_ITEM_KEY, 0,
						sizeof(struct btrfs_inode_item));
	struct btrfs_inode_item *item = btrfs_item_ptr(t->leaf.eb, slot, struct btrfs_inode_item);

	btrfs_set_inode_size(t->leaf.eb, item, size);
	btrfs_set_inode_mode(t->leaf.eb, item, mode);
	btrfs_set_inode_nlink(t->leaf.eb, item, nlink);
}

static void add_extent(struct kunit *test, u64 ino, u64 offset, const struct test_extent *extent)
{
	struct prefetch_data_test *t = test->priv;
	const int slot = prefetch_test_add_item(&t->leaf, ino, BTRFS_EXTENT_DATA_KEY, offset,
						sizeof(struct btrfs_file_extent_item));
	struct btrfs_file_extent_item *item =
		btrfs_item_ptr(t->leaf.eb, slot, struct btrfs_file_extent_item);

	btrfs_set_file_extent_type(t->leaf.eb, item, extent->type);
	btrfs_set_file_extent_generation(t->leaf.eb, item, extent->generation);
	btrfs_set_file_extent_compression(t->leaf.eb, item, extent->compression);
	btrfs_set_file_extent_disk_bytenr(t->leaf.eb, item, extent->bytenr);
	btrfs_set_file_extent_disk_num_bytes(t->leaf.eb, item, extent->disk_len ?: extent->len);
	btrfs_set_file_extent_offset(t->leaf.eb, item, extent->skipped);
	btrfs_set_file_extent_num_bytes(t->leaf.eb, item, extent->len);
}

static void regular_extent(struct kunit *test, u64 ino, u64 offset, u64 bytenr, u64 len)
{
	const struct test_extent extent = {
		.type = BTRFS_FILE_EXTENT_REG,
		.bytenr = bytenr,
		.len = len,
		.generation = 10,
	};

	add_extent(test, ino, offset, &extent);
}

static void start(struct kunit *test, u64 limit)
{
	struct prefetch_data_test *t = test->priv;

	t->params.limit = limit;
	t->d = prefetch_data_start(t->root, &t->params);
	KUNIT_ASSERT_NOT_NULL(test, t->d);
}

static void search(struct kunit *test)
{
	struct prefetch_data_test *t = test->priv;

	down_read(&t->root->fs_info->commit_root_sem);
	prefetch_data_add_leaf(t->d, t->leaf.eb);
	up_read(&t->root->fs_info->commit_root_sem);
}

/* The next range of the window is this one; it is passed. */
static void expect_range(struct kunit *test, u64 ino, u64 offset, u32 len, u64 bytenr,
			 u32 disk_len)
{
	struct prefetch_data *d = ((struct prefetch_data_test *)test->priv)->d;
	const struct prefetch_range *range = range_at(d, d->head);

	KUNIT_ASSERT_NE(test, d->head, d->tail);
	KUNIT_EXPECT_EQ(test, range->ino, ino);
	KUNIT_EXPECT_EQ(test, range->offset, offset);
	KUNIT_EXPECT_EQ(test, range->len, len);
	KUNIT_EXPECT_EQ(test, range->bytenr, bytenr);
	KUNIT_EXPECT_EQ(test, range->disk_len, disk_len);
	prefetch_data_pass(d, ino, offset + len);
}

static void expect_end(struct kunit *test)
{
	const struct prefetch_data *d = ((struct prefetch_data_test *)test->priv)->d;

	KUNIT_EXPECT_EQ(test, d->head, d->tail);
	KUNIT_EXPECT_EQ(test, d->bytes, 0);
}

/* Only what is on the disk and will be read. */
static void kinds_test(struct kunit *test)
{
	const struct test_extent hole = {
		.type = BTRFS_FILE_EXTENT_REG,
		.len = SZ_64K,
		.generation = 10,
	};
	const struct test_extent prealloc = {
		.type = BTRFS_FILE_EXTENT_PREALLOC,
		.bytenr = TEST_BYTENR,
		.len = SZ_64K,
		.generation = 10,
	};
	const struct test_extent part = {
		.type = BTRFS_FILE_EXTENT_REG,
		.bytenr = TEST_BYTENR,
		.disk_len = SZ_1M,
		.skipped = SZ_256K,
		.len = SZ_8K,
		.generation = 10,
	};
	const struct test_extent compressed = {
		.type = BTRFS_FILE_EXTENT_REG,
		.bytenr = 2 * TEST_BYTENR,
		.disk_len = SZ_16K,
		.skipped = SZ_32K,
		.len = SZ_64K,
		.generation = 10,
		.compression = BTRFS_COMPRESS_ZSTD,
	};
	const struct test_extent in_line = { .type = BTRFS_FILE_EXTENT_INLINE, .len = 100 };

	add_inode(test, TEST_INO, SZ_1M, S_IFREG, 1);
	add_extent(test, TEST_INO, 0, &hole);
	add_extent(test, TEST_INO, SZ_64K, &prealloc);
	add_extent(test, TEST_INO, SZ_128K, &part);
	add_extent(test, TEST_INO, SZ_256K, &compressed);
	add_inode(test, TEST_INO + 1, 100, S_IFREG, 1);
	add_extent(test, TEST_INO + 1, 0, &in_line);
	start(test, SZ_16M);
	search(test);
	expect_range(test, TEST_INO, SZ_128K, SZ_8K, TEST_BYTENR + SZ_256K, SZ_8K);
	expect_range(test, TEST_INO, SZ_256K, SZ_64K, 2 * TEST_BYTENR, SZ_16K);
	expect_end(test);
}

/* Nothing of what is no file, has no links, or is not known to have any. */
static void inodes_test(struct kunit *test)
{
	struct prefetch_data_test *t = test->priv;

	regular_extent(test, TEST_INO, 0, TEST_BYTENR, SZ_4K);
	add_inode(test, TEST_INO + 1, SZ_4K, S_IFREG, 0);
	regular_extent(test, TEST_INO + 1, 0, 2 * TEST_BYTENR, SZ_4K);
	add_inode(test, TEST_INO + 2, SZ_4K, S_IFLNK, 1);
	regular_extent(test, TEST_INO + 2, 0, 3 * TEST_BYTENR, SZ_4K);
	add_inode(test, TEST_INO + 3, SZ_4K, S_IFREG, 2);
	regular_extent(test, TEST_INO + 4, 0, 4 * TEST_BYTENR, SZ_4K);
	start(test, SZ_16M);
	search(test);
	expect_end(test);
	/* Of the last inode the next leaf has an extent. */
	prefetch_test_empty_leaf(&t->leaf);
	regular_extent(test, TEST_INO + 3, 0, 5 * TEST_BYTENR, SZ_4K);
	search(test);
	expect_range(test, TEST_INO + 3, 0, SZ_4K, 5 * TEST_BYTENR, SZ_4K);
	expect_end(test);
	/* Something of the file system's own. */
	prefetch_test_empty_leaf(&t->leaf);
	add_inode(test, BTRFS_FREE_INO_OBJECTID, SZ_4K, S_IFREG, 1);
	regular_extent(test, BTRFS_FREE_INO_OBJECTID, 0, 6 * TEST_BYTENR, SZ_4K);
	search(test);
	expect_end(test);
}

/* Nothing behind the end of the file, and whole pages up to there. */
static void size_test(struct kunit *test)
{
	add_inode(test, TEST_INO, SZ_64K + 1, S_IFREG, 1);
	regular_extent(test, TEST_INO, 0, TEST_BYTENR, SZ_1M);
	regular_extent(test, TEST_INO, SZ_1M, 2 * TEST_BYTENR, SZ_1M);
	start(test, SZ_16M);
	search(test);
	expect_range(test, TEST_INO, 0, SZ_64K + PAGE_SIZE, TEST_BYTENR, SZ_64K + PAGE_SIZE);
	expect_end(test);
}

/* What is not newer than the last change of the parent is not read. */
static void generation_test(struct kunit *test)
{
	struct prefetch_data_test *t = test->priv;
	struct test_extent extent = {
		.type = BTRFS_FILE_EXTENT_REG,
		.bytenr = TEST_BYTENR,
		.len = SZ_4K,
	};

	t->params.old_generation = 20;
	add_inode(test, TEST_INO, SZ_1M, S_IFREG, 1);
	for (u64 generation = 19; generation < 22; generation++) {
		extent.generation = generation;
		add_extent(test, TEST_INO, generation * SZ_4K, &extent);
	}
	start(test, SZ_16M);
	search(test);
	expect_range(test, TEST_INO, 21 * SZ_4K, SZ_4K, TEST_BYTENR, SZ_4K);
	expect_end(test);
}

/* An extent larger than the window goes through it in ranges. */
static void large_test(struct kunit *test)
{
	struct prefetch_data_test *t = test->priv;
	u32 most = 0;

	add_inode(test, TEST_INO, SZ_128M, S_IFREG, 1);
	regular_extent(test, TEST_INO, 0, TEST_BYTENR, SZ_128M);
	add_inode(test, TEST_INO + 1, SZ_4K, S_IFREG, 1);
	regular_extent(test, TEST_INO + 1, 0, 2 * TEST_BYTENR, SZ_4K);
	start(test, SZ_4M);
	search(test);
	/* Only a copy is looked into from here on. */
	prefetch_test_empty_leaf(&t->leaf);
	for (u32 offset = 0; offset < SZ_128M; offset += SZ_1M) {
		most = max(most, t->d->tail - t->d->head);
		expect_range(test, TEST_INO, offset, SZ_1M, TEST_BYTENR + offset, SZ_1M);
		if (prefetch_data_hungry(t->d))
			prefetch_data_add_pending(t->d);
	}
	KUNIT_EXPECT_EQ(test, most, 4);
	expect_range(test, TEST_INO + 1, 0, SZ_4K, 2 * TEST_BYTENR, SZ_4K);
	expect_end(test);
	KUNIT_EXPECT_NULL(test, t->d->leaf);
}

/* Once its leaf was looked into nothing is expected of a file whose content is there. */
static void inline_test(struct kunit *test)
{
	struct prefetch_data_test *t = test->priv;
	struct test_extent extent = {
		.type = BTRFS_FILE_EXTENT_INLINE,
		.len = SZ_1K,
		.generation = 10,
	};

	for (u64 ino = TEST_INO; ino <= TEST_INO + 2; ino += 2) {
		add_inode(test, ino, SZ_1K, S_IFREG, 1);
		add_extent(test, ino, 0, &extent);
		add_inode(test, ino + 1, SZ_4K, S_IFREG, 1);
		regular_extent(test, ino + 1, 0, TEST_BYTENR * ino, SZ_4K);
	}
	start(test, SZ_16M);
	KUNIT_EXPECT_FALSE(test, prefetch_data_looked(t->d, TEST_INO));
	search(test);
	for (u64 ino = TEST_INO; ino <= TEST_INO + 3; ino++) {
		prefetch_data_pass(t->d, ino, 0);
		/* More of the last one could follow. */
		KUNIT_EXPECT_EQ(test, prefetch_data_looked(t->d, ino), ino < TEST_INO + 3);
		KUNIT_EXPECT_EQ(test, prefetch_data_has(t->d, ino), (ino - TEST_INO) % 2 == 1);
	}
	prefetch_data_pass(t->d, TEST_INO + 4, 0);
	expect_end(test);
	KUNIT_EXPECT_FALSE(test, prefetch_data_has(t->d, TEST_INO + 3));
}

/* A leaf that is added again, and a place the walk has passed, add nothing. */
static void again_test(struct kunit *test)
{
	struct prefetch_data_test *t = test->priv;

	add_inode(test, TEST_INO, SZ_1M, S_IFREG, 1);
	regular_extent(test, TEST_INO, 0, TEST_BYTENR, SZ_64K);
	regular_extent(test, TEST_INO, SZ_64K, 2 * TEST_BYTENR, SZ_64K);
	start(test, SZ_16M);
	prefetch_data_pass(t->d, TEST_INO, SZ_16K);
	search(test);
	search(test);
	expect_range(test, TEST_INO, SZ_16K, SZ_64K - SZ_16K, TEST_BYTENR + SZ_16K,
		     SZ_64K - SZ_16K);
	expect_range(test, TEST_INO, SZ_64K, SZ_64K, 2 * TEST_BYTENR, SZ_64K);
	expect_end(test);
	search(test);
	expect_end(test);
}

/* A compressed extent is sent as it is if that is not more than what is sent of it. */
static void encoded_test(struct kunit *test)
{
	struct prefetch_data_test *t = test->priv;
	struct test_extent extent = {
		.type = BTRFS_FILE_EXTENT_REG,
		.bytenr = TEST_BYTENR,
		.disk_len = SZ_16K,
		.len = SZ_64K,
		.generation = 10,
		.compression = BTRFS_COMPRESS_ZSTD,
	};

	t->params.encoded = true;
	add_inode(test, TEST_INO, SZ_1M, S_IFREG, 1);
	add_extent(test, TEST_INO, 0, &extent);
	extent.bytenr = 2 * TEST_BYTENR;
	extent.len = SZ_8K;
	add_extent(test, TEST_INO, SZ_64K, &extent);
	start(test, SZ_16M);
	search(test);
	KUNIT_EXPECT_TRUE(test, range_at(t->d, t->d->head)->encoded);
	KUNIT_EXPECT_FALSE(test, range_at(t->d, t->d->head + 1)->encoded);
	/* Counted as what is in memory of it. */
	KUNIT_EXPECT_EQ(test, t->d->bytes, SZ_16K + SZ_8K);
	expect_range(test, TEST_INO, 0, SZ_64K, TEST_BYTENR, SZ_16K);
	expect_range(test, TEST_INO, SZ_64K, SZ_8K, 2 * TEST_BYTENR, SZ_16K);
	expect_end(test);
}

/* A compressed extent larger than any can be is not read ahead, whatever its length says. */
static void crafted_test(struct kunit *test)
{
	static const u64 disk_lens[] = {
		BTRFS_MAX_COMPRESSED + SZ_4K, SZ_1G, SZ_4G - SZ_4K, (u64)SZ_4G + SZ_4K, 1ULL << 40,
	};
	struct prefetch_data_test *t = test->priv;
	struct test_extent extent = {
		.type = BTRFS_FILE_EXTENT_REG,
		.len = 1ULL << 40,
		.generation = 10,
		.compression = BTRFS_COMPRESS_ZSTD,
	};

	for (int encoded = 0; encoded < 2; encoded++) {
		t->params.encoded = encoded;
		prefetch_test_empty_leaf(&t->leaf);
		for (int i = 0; i < ARRAY_SIZE(disk_lens); i++) {
			add_inode(test, TEST_INO + i, 1ULL << 41, S_IFREG, 1);
			extent.bytenr = (i + 1) * TEST_BYTENR;
			extent.disk_len = disk_lens[i];
			add_extent(test, TEST_INO + i, 0, &extent);
		}
		start(test, SZ_16M);
		search(test);
		for (u32 nr = t->d->head; nr != t->d->tail; nr++)
			KUNIT_EXPECT_LE(test, range_at(t->d, nr)->disk_len, BTRFS_MAX_COMPRESSED);
		KUNIT_EXPECT_EQ(test, t->d->head, t->d->tail);
		prefetch_data_stop(t->d);
		t->d = NULL;
	}
	/* The largest one is. */
	t->params.encoded = true;
	prefetch_test_empty_leaf(&t->leaf);
	add_inode(test, TEST_INO, SZ_1M, S_IFREG, 1);
	extent.len = SZ_128K;
	extent.disk_len = BTRFS_MAX_COMPRESSED;
	add_extent(test, TEST_INO, 0, &extent);
	start(test, SZ_16M);
	search(test);
	expect_range(test, TEST_INO, 0, SZ_128K, extent.bytenr, BTRFS_MAX_COMPRESSED);
	expect_end(test);
}

/* What few ranges take does not depend on how many there might be; many find room as well. */
static void tables_test(struct kunit *test)
{
	struct prefetch_data_test *t = test->priv;
	u32 nr = 0;
	u64 ino;

	/* Many of its ranges, but not all, as large as the memory lets it be. */
	start(test, SZ_256M);
	KUNIT_EXPECT_LE(test, t->d->ring_size * (sizeof(*t->d->ring) + sizeof(*t->d->queue)) +
			t->d->taken_size * sizeof(*t->d->taken), SZ_64K);
	for (ino = TEST_INO; ino < TEST_INO + 20; ino++) {
		prefetch_test_empty_leaf(&t->leaf);
		add_inode(test, ino, SZ_1M, S_IFREG, 1);
		for (u64 i = 0; i < 100; i++)
			regular_extent(test, ino, i * SZ_8K, ino * TEST_BYTENR + i * SZ_16K, SZ_4K);
		search(test);
	}
	KUNIT_ASSERT_EQ(test, t->d->tail - t->d->head, 2000);
	for (ino = TEST_INO; ino < TEST_INO + 20; ino++) {
		for (u64 i = 0; i < 100; i++, nr++) {
			const struct prefetch_range *range = range_at(t->d, t->d->head + nr);

			KUNIT_ASSERT_EQ(test, range->ino, ino);
			KUNIT_ASSERT_EQ(test, range->offset, i * SZ_8K);
			KUNIT_ASSERT_EQ(test, range->bytenr, ino * TEST_BYTENR + i * SZ_16K);
		}
	}
	/* Nearly all of them are known as taken. */
	nr = 0;
	for (ino = TEST_INO; ino < TEST_INO + 20; ino++) {
		for (u64 i = 0; i < 100; i++) {
			u64 value;

			nr += *taken_at(t->d, ino * TEST_BYTENR + i * SZ_16K, 0, &value) == value;
		}
	}
	KUNIT_EXPECT_GT(test, nr, 1500);
}

/* As if the extent of the first range had been read, full of one byte. */
static struct prefetch_raw *read_raw(struct kunit *test, u8 byte)
{
	struct prefetch_data_test *t = test->priv;
	struct prefetch_raw *raw = kvzalloc(struct_size(raw, pages, 1), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, raw);
	init_completion(&raw->read.done);
	complete_all(&raw->read.done);
	raw->pages[0] = alloc_page(GFP_KERNEL);
	raw->nr_pages = raw->pages[0] ? 1 : 0;
	range_at(t->d, t->d->head)->raw = raw;
	KUNIT_ASSERT_EQ(test, raw->nr_pages, 1);
	memset(page_address(raw->pages[0]), byte, PAGE_SIZE);
	return raw;
}

static bool copy_raw(struct prefetch_data_test *t, u64 ino, u64 offset, u64 bytenr, u64 len,
		     struct page *page)
{
	bool copied;

	down_read(&t->root->fs_info->commit_root_sem);
	copied = prefetch_data_copy_raw(t->d, ino, offset, bytenr, len, &page);
	up_read(&t->root->fs_info->commit_root_sem);
	return copied;
}

/* What was read is given out only where it is what the send would read now. */
static void copy_raw_test(struct kunit *test)
{
	struct prefetch_data_test *t = test->priv;
	const struct test_extent extent = {
		.type = BTRFS_FILE_EXTENT_REG,
		.bytenr = TEST_BYTENR,
		.disk_len = SZ_4K,
		.len = SZ_64K,
		.generation = 10,
		.compression = BTRFS_COMPRESS_ZSTD,
	};
	struct page *page = alloc_page(GFP_KERNEL | __GFP_ZERO);
	struct prefetch_raw *raw;

	KUNIT_ASSERT_NOT_NULL(test, page);
	t->params.encoded = true;
	add_inode(test, TEST_INO, SZ_1M, S_IFREG, 1);
	add_extent(test, TEST_INO, 0, &extent);
	start(test, SZ_16M);
	search(test);
	KUNIT_EXPECT_FALSE(test, copy_raw(t, TEST_INO, 0, TEST_BYTENR, SZ_4K, page));
	raw = read_raw(test, 0x5a);
	KUNIT_EXPECT_FALSE(test, copy_raw(t, TEST_INO + 1, 0, TEST_BYTENR, SZ_4K, page));
	KUNIT_EXPECT_FALSE(test, copy_raw(t, TEST_INO, SZ_4K, TEST_BYTENR, SZ_4K, page));
	KUNIT_EXPECT_FALSE(test, copy_raw(t, TEST_INO, 0, 2 * TEST_BYTENR, SZ_4K, page));
	KUNIT_EXPECT_FALSE(test, copy_raw(t, TEST_INO, 0, TEST_BYTENR, SZ_8K, page));
	raw->read.status = BLK_STS_IOERR;
	KUNIT_EXPECT_FALSE(test, copy_raw(t, TEST_INO, 0, TEST_BYTENR, SZ_4K, page));
	raw->read.status = BLK_STS_OK;
	t->root->fs_info->last_reloc_trans++;
	KUNIT_EXPECT_FALSE(test, copy_raw(t, TEST_INO, 0, TEST_BYTENR, SZ_4K, page));
	t->root->fs_info->last_reloc_trans--;
	KUNIT_EXPECT_NULL(test, memchr_inv(page_address(page), 0, PAGE_SIZE));
	KUNIT_EXPECT_TRUE(test, copy_raw(t, TEST_INO, 0, TEST_BYTENR, SZ_4K, page));
	KUNIT_EXPECT_NULL(test, memchr_inv(page_address(page), 0x5a, PAGE_SIZE));
	__free_page(page);
}

/* What is met a second time in the root is cloned, another part of it is not. */
static void shared_test(struct kunit *test)
{
	struct prefetch_data_test *t = test->priv;
	struct test_extent extent = {
		.type = BTRFS_FILE_EXTENT_REG,
		.bytenr = TEST_BYTENR,
		.disk_len = SZ_4M,
		.len = SZ_2M,
		.generation = 10,
	};

	for (u64 ino = TEST_INO; ino < TEST_INO + 3; ino++) {
		add_inode(test, ino, SZ_4M, S_IFREG, 1);
		add_extent(test, ino, 0, &extent);
	}
	extent.skipped = SZ_2M;
	add_extent(test, TEST_INO + 2, SZ_2M, &extent);
	/* Room for one range: an extent that is taken in parts is not shared. */
	start(test, SZ_1M);
	search(test);
	expect_range(test, TEST_INO, 0, SZ_1M, TEST_BYTENR, SZ_1M);
	prefetch_data_add_pending(t->d);
	expect_range(test, TEST_INO, SZ_1M, SZ_1M, TEST_BYTENR + SZ_1M, SZ_1M);
	prefetch_data_add_pending(t->d);
	expect_range(test, TEST_INO + 2, SZ_2M, SZ_1M, TEST_BYTENR + SZ_2M, SZ_1M);
	prefetch_data_add_pending(t->d);
	expect_range(test, TEST_INO + 2, SZ_2M + SZ_1M, SZ_1M, TEST_BYTENR + SZ_2M + SZ_1M, SZ_1M);
	expect_end(test);
}

/* Add extents to the window, all of which are doubted or not. */
static void expect_doubt(struct kunit *test, u64 ino, u32 nr, bool doubted)
{
	struct prefetch_data_test *t = test->priv;
	struct prefetch_data *d = t->d;

	prefetch_test_empty_leaf(&t->leaf);
	add_inode(test, ino, SZ_1M, S_IFREG, 1);
	for (u64 i = 0; i < nr; i++)
		regular_extent(test, ino, i * SZ_4K, ino * TEST_BYTENR + i * SZ_16K, SZ_4K);
	search(test);
	KUNIT_ASSERT_EQ(test, d->tail - d->head, nr);
	for (u32 i = d->head; i != d->tail; i++)
		KUNIT_EXPECT_EQ(test, range_at(d, i)->doubted, doubted);
}

/* What is never asked for is read no more until it is asked for again. */
static void doubt_test(struct kunit *test)
{
	struct prefetch_data_test *t = test->priv;

	start(test, SZ_16M);
	expect_doubt(test, TEST_INO, PREFETCH_MAX_DOUBT - 1, false);
	prefetch_data_pass(t->d, TEST_INO + 1, 0);
	expect_doubt(test, TEST_INO + 1, 1, false);
	prefetch_data_pass(t->d, TEST_INO + 2, 0);
	/* More than twice as many count no more than that. */
	expect_doubt(test, TEST_INO + 2, 2 * PREFETCH_MAX_DOUBT, true);
	prefetch_data_pass(t->d, TEST_INO + 3, 0);
	expect_doubt(test, TEST_INO + 3, PREFETCH_MAX_DOUBT + 1, true);
	for (u64 i = 0; i < PREFETCH_MAX_DOUBT + 1; i++) {
		prefetch_data_pass(t->d, TEST_INO + 3, i * SZ_4K);
		KUNIT_EXPECT_EQ(test, prefetch_data_wait(t->d, TEST_INO + 3, i * SZ_4K), 0);
	}
	prefetch_data_pass(t->d, TEST_INO + 4, 0);
	expect_doubt(test, TEST_INO + 4, 1, false);
}

static int prefetch_data_test_init(struct kunit *test)
{
	struct prefetch_data_test *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	struct btrfs_fs_info *fs_info = prefetch_test_fs_info(test, TEST_NODESIZE);

	if (!t || !fs_info)
		return -ENOMEM;
	t->root = prefetch_test_root(test, fs_info);
	if (!t->root)
		return -ENOMEM;
	t->params.depth = 32;
	test->priv = t;
	return prefetch_test_alloc_leaf(&t->leaf, fs_info);
}

static void prefetch_data_test_exit(struct kunit *test)
{
	struct prefetch_data_test *t = test->priv;

	if (!t)
		return;
	prefetch_data_stop(t->d);
	prefetch_test_free_leaf(&t->leaf);
}

static struct kunit_case prefetch_data_test_cases[] = {
	KUNIT_CASE(kinds_test),
	KUNIT_CASE(inodes_test),
	KUNIT_CASE(size_test),
	KUNIT_CASE(generation_test),
	KUNIT_CASE(large_test),
	KUNIT_CASE(inline_test),
	KUNIT_CASE(again_test),
	KUNIT_CASE(encoded_test),
	KUNIT_CASE(crafted_test),
	KUNIT_CASE(tables_test),
	KUNIT_CASE(copy_raw_test),
	KUNIT_CASE(shared_test),
	KUNIT_CASE(doubt_test),
	{}
};

static struct kunit_suite prefetch_data_test_suite = {
	.name		= "btrfs-send-prefetch-data",
	.init		= prefetch_data_test_init,
	.exit		= prefetch_data_test_exit,
	.test_cases	= prefetch_data_test_cases,
};

kunit_test_suite(prefetch_data_test_suite);
