/* SPDX-License-Identifier: GPL-2.0 */

#ifndef BTRFS_SEND_PREFETCH_DATA_H
#define BTRFS_SEND_PREFETCH_DATA_H

#include <linux/types.h>

struct btrfs_root;
struct extent_buffer;
struct page;
struct prefetch_data;
struct prefetch_walks;

/* What is known when a send starts of the file data it is going to read. */
struct prefetch_data_params {
	/* Bytes of page cache to read ahead at most. */
	u64 limit;
	/* Extents of this generation and older ones are not read. */
	u64 old_generation;
	/* Requests that a disk takes at once, and their largest size in bytes. */
	u32 depth;
	u32 max_request_bytes;
	/* Compressed extents are sent as they are, past the page cache. */
	bool encoded;
	/* Nothing is read: extents are only looked at for prefetch_data_set_walks(). */
	bool walks_only;
};

struct prefetch_data *prefetch_data_start(struct btrfs_root *root,
					  const struct prefetch_data_params *params);
bool prefetch_data_hungry(const struct prefetch_data *d);
bool prefetch_data_looked(const struct prefetch_data *d, u64 ino);
bool prefetch_data_has(const struct prefetch_data *d, u64 ino);
bool prefetch_data_has_room(const struct prefetch_data *d);
void prefetch_data_resize(struct prefetch_data *d, u64 limit);
void prefetch_data_add_leaf(struct prefetch_data *d, const struct extent_buffer *leaf);
void prefetch_data_add_pending(struct prefetch_data *d);
void prefetch_data_pass(struct prefetch_data *d, u64 ino, u64 offset);
void prefetch_data_sort(struct prefetch_data *d);
int prefetch_data_wait(struct prefetch_data *d, u64 ino, u64 offset);
bool prefetch_data_copy_raw(const struct prefetch_data *d, u64 ino, u64 offset, u64 bytenr,
			    u64 len, struct page **pages);
void prefetch_data_set_walks(struct prefetch_data *d, struct prefetch_walks *walks);
bool prefetch_data_was_empty(const struct prefetch_data *d, u64 ino);
void prefetch_data_stop(struct prefetch_data *d);

#endif
