/* SPDX-License-Identifier: GPL-2.0 */

#ifndef BTRFS_SEND_EXTENTS_H
#define BTRFS_SEND_EXTENTS_H

#include <linux/types.h>

struct btrfs_root;
struct btrfs_send_extents;
struct extent_buffer;

/* From how many places of those met so far an extent could be cloned. */
enum btrfs_send_extents_places {
	BTRFS_SEND_EXTENTS_NONE,
	/* One at most. */
	BTRFS_SEND_EXTENTS_ONE,
	/* Any number, or it is not known. */
	BTRFS_SEND_EXTENTS_MANY,
};

struct btrfs_send_extents *btrfs_send_extents_start(const struct btrfs_root *send_root,
						    u32 max_many);
enum btrfs_send_extents_places btrfs_send_extents_find(struct btrfs_send_extents *x,
						       const struct extent_buffer *leaf,
						       int slot);
bool btrfs_send_extents_search_all(const struct btrfs_send_extents *x);
void btrfs_send_extents_add(struct btrfs_send_extents *x, const struct extent_buffer *leaf,
			    int slot);
void btrfs_send_extents_stop(struct btrfs_send_extents *x);

#endif
