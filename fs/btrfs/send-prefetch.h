/* SPDX-License-Identifier: GPL-2.0 */

#ifndef BTRFS_SEND_PREFETCH_H
#define BTRFS_SEND_PREFETCH_H

#include <linux/types.h>

struct btrfs_key;
struct btrfs_root;
struct btrfs_send_prefetch;

struct btrfs_send_prefetch *btrfs_send_prefetch_start(struct btrfs_root *send_root,
						      struct btrfs_root *parent_root);
void btrfs_send_prefetch_restart(struct btrfs_send_prefetch *p,
				 const struct btrfs_key *key);
bool btrfs_send_prefetch_advance(struct btrfs_send_prefetch *p,
				 const struct btrfs_key *key, bool now);
void btrfs_send_prefetch_stop(struct btrfs_send_prefetch *p);

#endif
