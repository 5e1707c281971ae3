/* SPDX-License-Identifier: GPL-2.0 */

#ifndef BTRFS_SEND_PREFETCH_H
#define BTRFS_SEND_PREFETCH_H

#include <linux/atomic.h>
#include <linux/sysfs.h>
#include <linux/types.h>

struct btrfs_fs_info;
struct btrfs_key;
struct btrfs_root;
struct btrfs_send_prefetch;
struct btrfs_tree_block_readahead;
struct extent_buffer;
struct page;

/* What is counted, and shown in /sys/fs/btrfs/<UUID>/send_prefetch/. */
enum btrfs_send_prefetch_counter {
	/* Sends that read ahead, and (re)starts of it. */
	BTRFS_SEND_PREFETCH_SENDS,
	BTRFS_SEND_PREFETCH_RESTARTS,
	/* Times the window was filled up. */
	BTRFS_SEND_PREFETCH_FILLS,
	/* Blocks whose read was started, or that were in memory already. */
	BTRFS_SEND_PREFETCH_READS,
	BTRFS_SEND_PREFETCH_CACHED,
	/* Blocks the walk needed: there, not there yet, not readable ahead. */
	BTRFS_SEND_PREFETCH_HITS,
	BTRFS_SEND_PREFETCH_LATE,
	BTRFS_SEND_PREFETCH_LOST,
	/* Blocks read and dropped before the walk needed them. */
	BTRFS_SEND_PREFETCH_UNUSED,
	/* Leaves read ahead that are not compared but looked up. */
	BTRFS_SEND_PREFETCH_LOOKUPS,
	/* Ranges of file data whose read was started. */
	BTRFS_SEND_PREFETCH_DATA_READS,
	/* Ranges the send asked for: there, or not there yet. */
	BTRFS_SEND_PREFETCH_DATA_HITS,
	BTRFS_SEND_PREFETCH_DATA_LATE,
	/* Ranges read that it did not ask for. */
	BTRFS_SEND_PREFETCH_DATA_UNUSED,
	/* Extents that no clone was searched for, as only the send has them so far ... */
	BTRFS_SEND_PREFETCH_EXTENTS_NEW,
	/* ... and those a full send has met before, or can not remember. */
	BTRFS_SEND_PREFETCH_EXTENTS_WALKED,
	/* Extents cloned as the search for a clone found them, without a second one. */
	BTRFS_SEND_PREFETCH_CLONES_KNOWN,
	/* Blocks read ahead for searches for clones. */
	BTRFS_SEND_PREFETCH_WALKS,
	BTRFS_NR_SEND_PREFETCH_COUNTERS,
};

struct btrfs_send_prefetch_stats {
	atomic64_t counters[BTRFS_NR_SEND_PREFETCH_COUNTERS];
};

/* What the walk may do after btrfs_send_prefetch_advance(). */
enum btrfs_send_prefetch_state {
	/* Go on, nothing is read ahead now. */
	BTRFS_SEND_PREFETCH_IDLE,
	/* Go on, what is read next is in memory or was tried to be. */
	BTRFS_SEND_PREFETCH_READY,
	/* Wait for a read, but not with commit_root_sem held. */
	BTRFS_SEND_PREFETCH_WAIT,
};

extern const struct attribute_group btrfs_send_prefetch_attr_group;

struct btrfs_send_prefetch *btrfs_send_prefetch_start(struct btrfs_root *send_root,
						      struct btrfs_root *parent_root);
void btrfs_send_prefetch_lookups(struct btrfs_send_prefetch *p);
void btrfs_send_prefetch_file_data(struct btrfs_send_prefetch *p, bool encoded);
void btrfs_send_prefetch_restart(struct btrfs_send_prefetch *p,
				 const struct btrfs_key *key);
enum btrfs_send_prefetch_state btrfs_send_prefetch_advance(struct btrfs_send_prefetch *p,
							   const struct btrfs_key *key,
							   bool now);
int btrfs_send_prefetch_wait(struct btrfs_send_prefetch *p);
int btrfs_send_prefetch_data(struct btrfs_send_prefetch *p, u64 ino, u64 offset);
void btrfs_send_prefetch_walks(struct btrfs_send_prefetch *p, u32 max_refs);
int btrfs_send_prefetch_walk(struct btrfs_send_prefetch *p, u64 ino, u64 offset);
void btrfs_send_prefetch_rewalk(struct btrfs_send_prefetch *p, u32 max_refs);
bool btrfs_send_prefetch_rewalk_due(const struct btrfs_send_prefetch *p, u64 ino, u64 offset);
bool btrfs_send_prefetch_rewalk_add(struct btrfs_send_prefetch *p, u64 ino, u64 offset,
				    u64 bytenr);
void btrfs_send_prefetch_rewalk_read(struct btrfs_send_prefetch *p);
bool btrfs_send_prefetch_encoded(const struct btrfs_send_prefetch *p, u64 ino, u64 offset,
				 u64 bytenr, u64 len, struct page **pages);
bool btrfs_send_prefetch_was_empty(const struct btrfs_send_prefetch *p, u64 ino);
void btrfs_send_prefetch_stop(struct btrfs_send_prefetch *p);

/* For the parts of the prefetcher, and what else a send remembers. */
u64 prefetch_ram_bytes(void);
bool prefetch_double(void *table, u32 nr, size_t size);
void prefetch_count(struct btrfs_fs_info *fs_info, enum btrfs_send_prefetch_counter counter);
bool prefetch_in_memory(struct btrfs_fs_info *fs_info, u64 bytenr);
void prefetch_init_readahead(struct btrfs_tree_block_readahead *ra,
			     const struct extent_buffer *node, int slot);
int prefetch_cmp_readahead(const void *a, const void *b);
void prefetch_readahead(struct btrfs_fs_info *fs_info,
			struct btrfs_tree_block_readahead *blocks, u32 nr);
void prefetch_release_readahead(struct btrfs_tree_block_readahead *blocks, u32 nr);

#endif
