/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the KUnit tests of the send prefetch share: a file system, roots and a leaf
 * that are only in memory. Each test is part of another source file, so all is inline.
 */

#ifndef BTRFS_SEND_PREFETCH_TEST_H
#define BTRFS_SEND_PREFETCH_TEST_H

#include <kunit/test.h>
#include <linux/log2.h>
#include <linux/sizes.h>
#include "../ctree.h"
#include "../accessors.h"
#include "../disk-io.h"
#include "../extent_io.h"
#include "../fs.h"

struct prefetch_test_leaf {
	struct btrfs_fs_info *fs_info;
	struct extent_buffer *eb;
	/* Where the data of the last item begins. */
	u32 end;
};

/* Returns NULL if there is no memory; freed with the test. */
static inline struct btrfs_fs_info *prefetch_test_fs_info(struct kunit *test, u32 nodesize)
{
	struct btrfs_fs_info *fs_info = kunit_kzalloc(test, sizeof(*fs_info), GFP_KERNEL);

	if (!fs_info)
		return NULL;
	btrfs_init_fs_info(fs_info);
	fs_info->nodesize = nodesize;
	fs_info->nodesize_bits = ilog2(nodesize);
	fs_info->sectorsize = SZ_4K;
	fs_info->sectorsize_bits = ilog2(SZ_4K);
	set_bit(BTRFS_FS_STATE_DUMMY_FS_INFO, &fs_info->fs_state);
	return fs_info;
}

/* Returns NULL if there is no memory; freed with the test. */
static inline struct btrfs_root *prefetch_test_root(struct kunit *test,
						    struct btrfs_fs_info *fs_info)
{
	struct btrfs_root *root = kunit_kzalloc(test, sizeof(*root), GFP_KERNEL);

	if (root)
		root->fs_info = fs_info;
	return root;
}

static inline void prefetch_test_empty_leaf(struct prefetch_test_leaf *leaf)
{
	memzero_extent_buffer(leaf->eb, 0, leaf->fs_info->nodesize);
	btrfs_set_header_bytenr(leaf->eb, leaf->eb->start);
	leaf->end = BTRFS_LEAF_DATA_SIZE(leaf->fs_info);
}

/* Returns 0 or -ENOMEM; to be freed in any case. */
static inline int prefetch_test_alloc_leaf(struct prefetch_test_leaf *leaf,
					   struct btrfs_fs_info *fs_info)
{
	struct extent_buffer *eb = alloc_test_extent_buffer(fs_info, fs_info->nodesize);

	if (IS_ERR_OR_NULL(eb))
		return -ENOMEM;
	leaf->fs_info = fs_info;
	leaf->eb = eb;
	prefetch_test_empty_leaf(leaf);
	return 0;
}

static inline void prefetch_test_free_leaf(struct prefetch_test_leaf *leaf)
{
	if (leaf->eb)
		free_extent_buffer_stale(leaf->eb);
}

/* Add an item without content at the end. Returns its slot. */
static inline int prefetch_test_add_item(struct prefetch_test_leaf *leaf, u64 objectid, u8 type,
					 u64 offset, u32 size)
{
	const int slot = btrfs_header_nritems(leaf->eb);
	const struct btrfs_key key = { .objectid = objectid, .type = type, .offset = offset };
	struct btrfs_disk_key disk_key;

	btrfs_set_header_nritems(leaf->eb, slot + 1);
	btrfs_cpu_key_to_disk(&disk_key, &key);
	btrfs_set_item_key(leaf->eb, &disk_key, slot);
	leaf->end -= size;
	btrfs_set_item_offset(leaf->eb, slot, leaf->end);
	btrfs_set_item_size(leaf->eb, slot, size);
	return slot;
}

#endif
