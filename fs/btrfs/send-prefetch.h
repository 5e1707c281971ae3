/* SPDX-License-Identifier: GPL-2.0 */

#ifndef BTRFS_SEND_PREFETCH_H
#define BTRFS_SEND_PREFETCH_H

#include <linux/atomic.h>
#include <linux/sysfs.h>
#include <linux/types.h>

struct btrfs_key;
struct btrfs_root;
struct btrfs_send_prefetch;

/*
 * Totals of a mounted filesystem, in blocks unless said otherwise, shown in
 * /sys/fs/btrfs/<UUID>/send_prefetch/.
 */
struct btrfs_send_prefetch_stats {
	/* Sends that read ahead, and (re)starts of it. */
	atomic64_t sends;
	atomic64_t restarts;
	/* Times the window was filled up. */
	atomic64_t fills;
	/* Reads started, and blocks that were in memory already. */
	atomic64_t reads;
	atomic64_t cached;
	/* Needed by the walk: there, or not yet, or not any more. */
	atomic64_t hits;
	atomic64_t late;
	atomic64_t lost;
	/* Read and dropped without being needed. */
	atomic64_t unused;
};

extern const struct attribute_group btrfs_send_prefetch_attr_group;

struct btrfs_send_prefetch *btrfs_send_prefetch_start(struct btrfs_root *send_root,
						      struct btrfs_root *parent_root);
void btrfs_send_prefetch_restart(struct btrfs_send_prefetch *p,
				 const struct btrfs_key *key);
bool btrfs_send_prefetch_advance(struct btrfs_send_prefetch *p,
				 const struct btrfs_key *key, bool now);
void btrfs_send_prefetch_stop(struct btrfs_send_prefetch *p);

#endif
