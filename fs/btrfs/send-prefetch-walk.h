/* SPDX-License-Identifier: GPL-2.0 */

#ifndef BTRFS_SEND_PREFETCH_WALK_H
#define BTRFS_SEND_PREFETCH_WALK_H

#include <linux/types.h>

struct btrfs_root;
struct prefetch_walks;

struct prefetch_walks *prefetch_walks_start(struct btrfs_root *root,
					    struct btrfs_root *parent_root, u64 limit,
					    u32 max_refs);
bool prefetch_walks_full(const struct prefetch_walks *w);
void prefetch_walks_add(struct prefetch_walks *w, u64 ino, u64 offset, u64 bytenr, bool doubted);
bool prefetch_walks_due(const struct prefetch_walks *w, u64 ino, u64 offset);
void prefetch_walks_pass(struct prefetch_walks *w, u64 ino, u64 offset);
bool prefetch_walks_empty(const struct prefetch_walks *w);
bool prefetch_walks_is_round(const struct prefetch_walks *w);
void prefetch_walks_drop(struct prefetch_walks *w);
void prefetch_walks_restart(struct prefetch_walks *w);
void prefetch_walks_read(struct prefetch_walks *w, u64 limit);
void prefetch_walks_stop(struct prefetch_walks *w);

#endif
