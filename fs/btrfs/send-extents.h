/* SPDX-License-Identifier: GPL-2.0 */

#ifndef BTRFS_SEND_EXTENTS_H
#define BTRFS_SEND_EXTENTS_H

#include <linux/types.h>

struct btrfs_root;
struct btrfs_send_extents;
struct extent_buffer;

struct btrfs_send_extents *btrfs_send_extents_start(const struct btrfs_root *send_root);
bool btrfs_send_extents_is_new(struct btrfs_send_extents *x, const struct extent_buffer *leaf,
			       int slot);
void btrfs_send_extents_add(struct btrfs_send_extents *x, const struct extent_buffer *leaf,
			    int slot);
void btrfs_send_extents_stop(struct btrfs_send_extents *x);

#endif
