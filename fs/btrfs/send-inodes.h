/* SPDX-License-Identifier: GPL-2.0 */

#ifndef BTRFS_SEND_INODES_H
#define BTRFS_SEND_INODES_H

#include <linux/types.h>

struct btrfs_inode_item;
struct btrfs_root;
struct btrfs_send_inodes;
struct extent_buffer;

/* What a send asks of an inode item; nothing but missing counts if that is set. */
struct btrfs_send_inode {
	u64 size;
	u64 gen;
	u64 rdev;
	u64 flags;
	u32 uid;
	u32 gid;
	u32 nlink;
	/* A mode_t: the tree checker lets no other bits through. */
	u16 mode;
	bool missing;
};

struct btrfs_send_inodes *btrfs_send_inodes_start(const struct btrfs_root *send_root);
const struct btrfs_send_inode *btrfs_send_inodes_find(struct btrfs_send_inodes *x,
						      const struct btrfs_root *root, u64 ino);
void btrfs_send_inodes_add(struct btrfs_send_inodes *x, const struct btrfs_root *root, u64 ino,
			   const struct extent_buffer *leaf, int slot);
void btrfs_send_inodes_add_missing(struct btrfs_send_inodes *x, const struct btrfs_root *root,
				   u64 ino);
void btrfs_send_inodes_stop(struct btrfs_send_inodes *x);

#endif
