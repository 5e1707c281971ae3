// SPDX-License-Identifier: GPL-2.0
/*
 * Remembers the inodes a send has looked up.
 *
 * For each name it meets a send asks, more than once, whether the directory is in
 * both of its roots, and of which generation it is there: in an incremental send
 * also for names that did not change, if their item lies in a leaf that did. Each
 * question is a search, from the root of the tree down or in a leaf that the send kept.
 * Neither root changes while it is sent, so an answer stays right.
 *
 * Each inode has one place in a table, where it replaces what was there before: no
 * lookup allocates, and all that can happen to what is forgotten is a search. The
 * table begins small, for sends that look up few, and grows with what is added.
 *
 * Everything here runs in the task of the send, and takes no lock.
 */

#include <linux/hash.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include "messages.h"
#include "ctree.h"
#include "accessors.h"
#include "fs.h"
#include "send-inodes.h"
#include "send-prefetch.h"

/* What a table may take: this share of the memory. */
#define INODES_RAM_SHARE	512
#define INODES_MIN_ORDER	8
#define INODES_MAX_ORDER	16
/*
 * It becomes four times as large once so many of its places were taken, 1 of 16: two
 * inodes should rarely have the same one, as a search costs more than many places.
 */
#define INODES_GROWTH		2
#define INODES_FILL		4

struct inode_entry {
	/* NULL if there is none. */
	const struct btrfs_root *root;
	u64 ino;
	struct btrfs_send_inode inode;
} __aligned(64);

static_assert(sizeof(struct inode_entry) == 64);

struct btrfs_send_inodes {
	struct btrfs_fs_info *fs_info;
	/* A power of 2 of entries, and the largest one it may be. */
	u32 order;
	u32 max_order;
	/* How many were added while it may grow. */
	u32 added;
	struct inode_entry *entries;
};

static bool send_inodes = true;
module_param(send_inodes, bool, 0644);
MODULE_PARM_DESC(send_inodes, "Remember inodes that a send has looked up (default Y)");

static struct inode_entry *entry_of(struct btrfs_send_inodes *x, const struct btrfs_root *root,
				    u64 ino)
{
	/* Of two roots an inode is often asked for one after the other. */
	return &x->entries[hash_64(ino ^ (root->root_key.objectid << 32), x->order)];
}

static struct inode_entry *alloc_entries(u32 order)
{
	return kvzalloc_objs(struct inode_entry, 1U << order,
			     GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN);
}

/* Make the table larger, or leave it as it is for good if there is no memory for that. */
static void grow(struct btrfs_send_inodes *x)
{
	struct inode_entry *old = x->entries;
	const u32 old_order = x->order;
	const u32 order = min(old_order + INODES_GROWTH, x->max_order);
	struct inode_entry *entries = alloc_entries(order);

	if (!entries) {
		x->max_order = old_order;
		return;
	}
	x->entries = entries;
	x->order = order;
	for (u32 i = 0; i < 1U << old_order; i++) {
		if (old[i].root)
			*entry_of(x, old[i].root, old[i].ino) = old[i];
	}
	kvfree(old);
}

/* Where to put what is known of an inode. */
static struct inode_entry *place_for(struct btrfs_send_inodes *x, const struct btrfs_root *root,
				     u64 ino)
{
	if (x->order < x->max_order && x->added >> (x->order - INODES_FILL))
		grow(x);
	x->added++;
	return entry_of(x, root, ino);
}

/**
 * btrfs_send_inodes_find() - was an inode looked up before?
 * @x:		returned by btrfs_send_inodes_start(), or NULL
 * @root:	the root it was looked up in, which does not change during the send
 * @ino:	its number
 *
 * Return: what was found, valid until the next one is added; NULL if it is not known.
 */
const struct btrfs_send_inode *btrfs_send_inodes_find(struct btrfs_send_inodes *x,
						      const struct btrfs_root *root, u64 ino)
{
	const struct inode_entry *entry;

	if (!x)
		return NULL;
	entry = entry_of(x, root, ino);
	if (entry->root != root || entry->ino != ino)
		return NULL;
	prefetch_count(x->fs_info, BTRFS_SEND_PREFETCH_INODES_KNOWN);
	return &entry->inode;
}

/**
 * btrfs_send_inodes_add() - remember an inode
 * @x:		returned by btrfs_send_inodes_start(), or NULL
 * @root:	the root it was looked up in
 * @ino:	its number
 * @leaf:	the leaf with its inode item
 * @slot:	the slot of that item
 */
void btrfs_send_inodes_add(struct btrfs_send_inodes *x, const struct btrfs_root *root, u64 ino,
			   const struct extent_buffer *leaf, int slot)
{
	const struct btrfs_inode_item *item = btrfs_item_ptr(leaf, slot, struct btrfs_inode_item);

	if (!x)
		return;
	*place_for(x, root, ino) = (struct inode_entry) {
		.root = root,
		.ino = ino,
		.inode.size = btrfs_inode_size(leaf, item),
		.inode.gen = btrfs_inode_generation(leaf, item),
		.inode.mode = btrfs_inode_mode(leaf, item),
		.inode.uid = btrfs_inode_uid(leaf, item),
		.inode.gid = btrfs_inode_gid(leaf, item),
		.inode.rdev = btrfs_inode_rdev(leaf, item),
		.inode.flags = btrfs_inode_flags(leaf, item),
		.inode.nlink = btrfs_inode_nlink(leaf, item),
	};
}

/**
 * btrfs_send_inodes_add_missing() - remember that there is no such inode
 * @x:		returned by btrfs_send_inodes_start(), or NULL
 * @root:	the root it was looked up in
 * @ino:	its number
 */
void btrfs_send_inodes_add_missing(struct btrfs_send_inodes *x, const struct btrfs_root *root,
				   u64 ino)
{
	if (x)
		*place_for(x, root, ino) = (struct inode_entry) {
			.root = root,
			.ino = ino,
			.inode.missing = true,
		};
}

/**
 * btrfs_send_inodes_start() - begin to remember inodes
 * @send_root:	of the send
 *
 * Return: what the other functions take, or NULL if that is turned off or there
 * is no memory for it; they accept NULL.
 */
struct btrfs_send_inodes *btrfs_send_inodes_start(const struct btrfs_root *send_root)
{
	const u64 entries = prefetch_ram_bytes() / INODES_RAM_SHARE / sizeof(struct inode_entry);
	struct btrfs_send_inodes *x;

	if (!READ_ONCE(send_inodes))
		return NULL;
	x = kvzalloc_obj(*x, GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN);
	if (!x)
		return NULL;
	x->fs_info = send_root->fs_info;
	x->order = INODES_MIN_ORDER;
	x->max_order = clamp_t(u32, ilog2(max_t(u64, entries, 1)), INODES_MIN_ORDER,
			       INODES_MAX_ORDER);
	x->entries = alloc_entries(x->order);
	if (!x->entries) {
		kvfree(x);
		return NULL;
	}
	return x;
}

/**
 * btrfs_send_inodes_stop() - forget all inodes
 * @x:	returned by btrfs_send_inodes_start(), or NULL
 */
void btrfs_send_inodes_stop(struct btrfs_send_inodes *x)
{
	if (!x)
		return;
	kvfree(x->entries);
	kvfree(x);
}

#if IS_ENABLED(CONFIG_BTRFS_SEND_PREFETCH_KUNIT_TEST)
#include "tests/send-inodes-test.c"
#endif
