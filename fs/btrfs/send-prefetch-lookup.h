/* SPDX-License-Identifier: GPL-2.0 */

#ifndef BTRFS_SEND_PREFETCH_LOOKUP_H
#define BTRFS_SEND_PREFETCH_LOOKUP_H

#include <linux/types.h>

struct btrfs_fs_info;
struct btrfs_tree_block_readahead;
struct extent_buffer;
struct prefetch_lookups;

struct prefetch_lookups *prefetch_lookups_start(struct btrfs_fs_info *fs_info,
						u64 old_generation);
bool prefetch_lookups_add_leaf(struct prefetch_lookups *l, const struct extent_buffer *leaf);
void prefetch_lookups_sort(struct prefetch_lookups *l);
int prefetch_lookups_next(struct prefetch_lookups *l, struct extent_buffer *roots[2],
			  struct btrfs_tree_block_readahead *ra,
			  struct extent_buffer **wait_eb);
void prefetch_lookups_reset(struct prefetch_lookups *l);
void prefetch_lookups_stop(struct prefetch_lookups *l);

#endif
