// SPDX-License-Identifier: GPL-2.0
/*
 * Reads ahead the file data a send operation is going to read.
 *
 * The leaves of the send root that send-prefetch.c brings in hold the file
 * extent items the walk is going to meet. Those that the send will read are cut
 * into ranges of at most PREFETCH_MAX_RANGE bytes, which form a ring in the
 * order of keys: the order in which the send needs them. Whenever half of it
 * was used it is filled up again; the ranges not submitted yet are sorted by
 * their place on disk and are read into the page cache in one sweep, after the
 * checksum leaves that this needs.
 *
 * A send clones what it can instead of reading it. What is shared within the send
 * root is known if its first use was met not long ago; for everything else counts
 * experience: while most of what passes through the window is not asked for,
 * nothing is read, and the window only goes on to see what is.
 *
 * A range names an inode and a place in it. Where that lies on disk is only
 * used to sort, so a relocation does no harm. What is sent as it is on the disk
 * is not read after one.
 *
 * Everything here runs in the task of the send, without commit_root_sem unless
 * said otherwise: a lookup of checksums takes it.
 */

#include <linux/blkdev.h>
#include <linux/completion.h>
#include <linux/fs.h>
#include <linux/hash.h>
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/sizes.h>
#include <linux/sort.h>
#include <linux/stat.h>
#include "messages.h"
#include "ctree.h"
#include "accessors.h"
#include "btrfs_inode.h"
#include "compression.h"
#include "disk-io.h"
#include "extent_io.h"
#include "fs.h"
#include "volumes.h"
#include "send-prefetch.h"
#include "send-prefetch-data.h"
#include "send-prefetch-walk.h"
#include "send_prefetch_trace.h"

/* The largest range: a larger extent is several of them. */
#define PREFETCH_MAX_RANGE	SZ_1M
/* Ranges at most, however large the window. */
#define PREFETCH_MAX_RANGES	SZ_64K
/* So many there is room for at first. */
#define PREFETCH_MIN_RANGES	64
/* Requests in flight at most. */
#define PREFETCH_MAX_DEPTH	32
/* Checksum leaves submitted while commit_root_sem is held. */
#define PREFETCH_CSUM_BATCH	32
/* What an inode of the window is counted as, it may be held for one page. */
#define PREFETCH_INODE_BYTES	SZ_2K
/* So many more ranges not used than used, and no more are read until that changes. */
#define PREFETCH_MAX_DOUBT	32

/* An inode with ranges in the window, or the one that the walk is at. */
struct prefetch_inode {
	struct list_head list;
	/* NULL if it could not be had. */
	struct inode *inode;
	u64 ino;
	/* Nothing of it was in memory before, so what is there is ours. */
	bool was_empty;
};

/* A compressed extent as it is on the disk. */
struct prefetch_raw {
	struct btrfs_raw_read read;
	u32 nr_pages;
	struct page *pages[];
};

/* A part of a file that the send will read, at the boundaries of pages. */
struct prefetch_range {
	u64 bytenr;
	u64 ino;
	u64 offset;
	/* NULL until the window is sorted, or if there is no memory for it. */
	struct prefetch_inode *inode;
	/* Of a range that is sent as it is on the disk: what was read. */
	struct prefetch_raw *raw;
	/* For these, the last relocation when the place on disk was right. */
	u64 reloc_trans;
	u32 len;
	/* How much there is to read on disk, from bytenr on. */
	u32 disk_len;
	/* Of so many bytes at its end nothing was in memory before it was read. */
	u32 absent;
	/* Its read was submitted, or found not to be possible. */
	bool submitted;
	/* The send has asked for it. */
	bool used;
	/* Its read needs checksums. */
	bool csums;
	/* It is sent as it is on the disk. */
	bool encoded;
	/* Not read, only seen if the send asks for it. */
	bool doubted;
};

struct prefetch_data {
	struct btrfs_root *root;
	struct btrfs_fs_info *fs_info;
	struct prefetch_data_params params;
	/* As params.limit, or less while memory is short. */
	u64 limit;

	/* The window: ranges head to tail - 1, at index & (ring_size - 1). */
	struct prefetch_range *ring;
	u32 ring_size;
	u32 max_ranges;
	u32 head;
	u32 tail;
	/* Ranges from here on have no inode yet. */
	u32 opened;
	/* Bytes of all ranges, and inodes held. */
	u64 bytes;
	u32 nr_inodes;
	/* In ascending order, as the ranges. */
	struct list_head inodes;

	/* Numbers of the ranges to submit, sorted for one sweep. */
	u32 *queue;
	u32 queue_next;
	u32 queue_len;
	u64 sweep;

	/* Requests in flight, oldest first: of each the last range. */
	u32 inflight[PREFETCH_MAX_DEPTH];
	u32 nr_inflight;
	u32 request_bytes;

	/* The inode the next file extent items belong to. */
	u64 ino;
	u64 size;
	bool wanted;
	bool csums;
	/* When the leaf was added whose items are being taken. */
	u64 reloc_trans;
	/* Nothing before this place is looked for any more. */
	u64 next_ino;
	u64 next_offset;
	/* A copy of the leaf whose items did not all fit in, from this slot on. */
	struct extent_buffer *leaf;
	int slot;

	/* Is told what is searched for clones, or NULL. */
	struct prefetch_walks *walks;
	/* The parent root does not have the inode, or has it otherwise. */
	bool created;
	bool changed;

	/* What was taken lately: what is met again is cloned. */
	u64 *taken;
	u32 taken_size;
	u32 max_taken;
	/* From 0 to twice PREFETCH_MAX_DOUBT: more with each range not used. */
	u32 doubt;

	struct btrfs_tree_block_readahead csum_leaves[PREFETCH_CSUM_BATCH];
};

static struct prefetch_range *range_at(const struct prefetch_data *d, u32 nr)
{
	return &d->ring[nr & (d->ring_size - 1)];
}

static bool in_window(const struct prefetch_data *d, u32 nr)
{
	return nr - d->head < d->tail - d->head;
}

static pgoff_t last_index(const struct prefetch_range *range)
{
	return (range->offset + range->len - 1) >> PAGE_SHIFT;
}

/* Is a read of the last page in flight? Reads end in any order. */
static bool range_in_flight(const struct prefetch_range *range)
{
	if (range->encoded)
		return range->raw && !completion_done(&range->raw->read.done);
	return range->submitted && range->inode && range->inode->inode &&
	       btrfs_file_page_reading(range->inode->inode, last_index(range));
}

/* Returns when that is over, or after a fatal signal. */
static void wait_for_range(const struct prefetch_range *range)
{
	if (range->encoded)
		wait_for_completion_killable(&range->raw->read.done);
	else
		btrfs_wait_file_page(range->inode->inode, last_index(range));
}

static u32 range_bytes(const struct prefetch_range *range)
{
	return range->encoded ? range->disk_len : range->len;
}

/* What will be read, from the leaves of the send root */

static u64 window_bytes(const struct prefetch_data *d)
{
	return d->bytes + (u64)d->nr_inodes * PREFETCH_INODE_BYTES;
}

/**
 * prefetch_data_has_room() - is there room for one more range?
 * @d:	returned by prefetch_data_start()
 *
 * Return: true if there is.
 */
bool prefetch_data_has_room(const struct prefetch_data *d)
{
	return d->tail - d->head < d->max_ranges &&
	       (d->head == d->tail || window_bytes(d) < d->limit) &&
	       !(d->walks && prefetch_walks_full(d->walks));
}

/**
 * prefetch_data_hungry() - is it time to add leaves?
 * @d:		returned by prefetch_data_start()
 *
 * Return: true if half of the window or more was used.
 */
bool prefetch_data_hungry(const struct prefetch_data *d)
{
	return d->tail - d->head <= d->max_ranges / 2 && window_bytes(d) <= d->limit / 2;
}

/**
 * prefetch_data_looked() - were all leaves of an inode looked into?
 * @d:		returned by prefetch_data_start()
 * @ino:	inode that the send is at
 *
 * Return: true if they were.
 */
bool prefetch_data_looked(const struct prefetch_data *d, u64 ino)
{
	return ino < d->ino;
}

/**
 * prefetch_data_has() - is something of an inode in the window?
 * @d:		returned by prefetch_data_start()
 * @ino:	inode that the send is at, passed up to there
 *
 * Return: true if there is. If not, and its leaves were looked into, nothing is to be
 * read of it: its content may be in the leaf.
 */
bool prefetch_data_has(const struct prefetch_data *d, u64 ino)
{
	return d->head != d->tail && range_at(d, d->head)->ino == ino;
}

/**
 * prefetch_data_resize() - set the size of the window from now on
 * @d:		returned by prefetch_data_start()
 * @limit:	bytes; cut to that of the parameters
 */
void prefetch_data_resize(struct prefetch_data *d, u64 limit)
{
	d->limit = min(limit, d->params.limit);
}

/* Is there room for one more range? If there is no memory for it, there may be no more. */
static bool make_room(struct prefetch_data *d)
{
	if (d->tail - d->head < d->ring_size)
		return true;
	if (!prefetch_double(&d->ring, d->ring_size, sizeof(*d->ring)) ||
	    !prefetch_double(&d->queue, d->ring_size, sizeof(*d->queue))) {
		d->max_ranges = d->ring_size;
		return false;
	}
	d->ring_size *= 2;
	return true;
}

static void add_data_range(struct prefetch_data *d, u64 start, u64 end, u64 bytenr,
			   u32 disk_len, bool encoded)
{
	struct prefetch_range *range = range_at(d, d->tail);

	*range = (struct prefetch_range) {
		.bytenr = bytenr,
		.ino = d->ino,
		.offset = start,
		.len = end - start,
		.disk_len = disk_len,
		.csums = d->csums,
		.encoded = encoded,
		.doubted = d->doubt >= PREFETCH_MAX_DOUBT,
		.reloc_trans = d->reloc_trans,
	};
	d->bytes += range_bytes(range);
	d->tail++;
}

/*
 * Where to remember that a part of an extent was taken, @value. Another part may
 * be remembered there instead, so the table is only to be filled by a quarter.
 */
static u64 *taken_at(struct prefetch_data *d, u64 bytenr, u64 offset, u64 *value)
{
	if (d->tail > d->taken_size / 4 && d->taken_size < d->max_taken) {
		if (prefetch_double(&d->taken, d->taken_size, sizeof(*d->taken)))
			d->taken_size *= 2;
		else
			d->max_taken = d->taken_size;
	}
	*value = bytenr * GOLDEN_RATIO_64 + offset;
	return &d->taken[hash_64(*value, 32) & (d->taken_size - 1)];
}

static void take_inode_item(struct prefetch_data *d, const struct extent_buffer *leaf,
			    int slot, u64 ino)
{
	struct btrfs_inode_item *item = btrfs_item_ptr(leaf, slot, struct btrfs_inode_item);

	d->ino = ino;
	d->size = btrfs_inode_size(leaf, item);
	/*
	 * The send ignores an inode without links, and so must we: to drop its
	 * inode would be to delete it. It also ignores what is no file of users.
	 */
	d->wanted = S_ISREG(btrfs_inode_mode(leaf, item)) &&
		    btrfs_inode_nlink(leaf, item) > 0 &&
		    ino >= BTRFS_FIRST_FREE_OBJECTID && ino <= BTRFS_LAST_FREE_OBJECTID;
	d->csums = !(btrfs_inode_flags(leaf, item) & BTRFS_INODE_NODATASUM);
	d->created = btrfs_inode_generation(leaf, item) > d->params.old_generation;
	d->changed = btrfs_inode_transid(leaf, item) > d->params.old_generation;
}

/*
 * Add what the send will read of the extent that an item refers to. Returns
 * false if not all of it fits in.
 */
static bool take_extent_item(struct prefetch_data *d, const struct extent_buffer *leaf,
			     int slot, u64 item_offset)
{
	struct btrfs_file_extent_item *item =
		btrfs_item_ptr(leaf, slot, struct btrfs_file_extent_item);
	const u64 size = round_up(d->size, PAGE_SIZE);
	u64 start = item_offset;
	u64 disk_bytenr;
	u64 end;
	u64 *taken;
	u64 value;
	bool compressed;
	bool encoded;
	bool is_new;

	if (btrfs_file_extent_type(leaf, item) != BTRFS_FILE_EXTENT_REG)
		return true;
	disk_bytenr = btrfs_file_extent_disk_bytenr(leaf, item);
	if (disk_bytenr == 0)
		return true;
	is_new = btrfs_file_extent_generation(leaf, item) > d->params.old_generation;
	if (d->walks && d->changed && item_offset < d->size) {
		if (prefetch_walks_full(d->walks))
			return false;
		prefetch_walks_add(d->walks, d->ino, item_offset, disk_bytenr,
				   !is_new && !d->created);
	}
	/* In the parent root as well: the same, or cloned from there. */
	if (!is_new || d->params.walks_only)
		return true;

	end = min(item_offset + btrfs_file_extent_num_bytes(leaf, item), size);
	if (d->next_ino == d->ino)
		start = max(start, d->next_offset);
	if (start >= end)
		return true;
	/* Shared within the root: what the send has met already it clones. */
	taken = taken_at(d, disk_bytenr, btrfs_file_extent_offset(leaf, item), &value);
	if (start == item_offset && *taken == value)
		return true;

	compressed = btrfs_file_extent_compression(leaf, item) != BTRFS_COMPRESS_NONE;
	/* In no sound file system: what comes of that the send sees alone. */
	if (compressed && btrfs_file_extent_disk_num_bytes(leaf, item) > BTRFS_MAX_COMPRESSED)
		return true;
	encoded = compressed && d->params.encoded &&
		  btrfs_file_extent_disk_num_bytes(leaf, item) <= min(end, d->size) - item_offset;

	while (start < end) {
		u64 stop = end;
		u64 bytenr = disk_bytenr;
		u32 disk_len;

		if (!prefetch_data_has_room(d) || !make_room(d))
			return false;
		if (compressed) {
			stop = min(end, start + PREFETCH_MAX_RANGE);
			disk_len = btrfs_file_extent_disk_num_bytes(leaf, item);
		} else {
			stop = min(end, round_down(start, PAGE_SIZE) + PREFETCH_MAX_RANGE);
			bytenr += btrfs_file_extent_offset(leaf, item) + start - item_offset;
			disk_len = stop - start;
		}
		add_data_range(d, round_down(start, PAGE_SIZE), round_up(stop, PAGE_SIZE),
			       bytenr, disk_len, encoded);
		*taken = value;
		start = stop;
		d->next_ino = d->ino;
		d->next_offset = stop;
	}
	return true;
}

/* Returns the first slot that does not fit in, or the number of items. */
static int take_leaf(struct prefetch_data *d, const struct extent_buffer *leaf, int slot)
{
	const int nritems = btrfs_header_nritems(leaf);

	for (; slot < nritems; slot++) {
		struct btrfs_key key;

		btrfs_item_key_to_cpu(leaf, &key, slot);
		if (key.type == BTRFS_INODE_ITEM_KEY)
			take_inode_item(d, leaf, slot, key.objectid);
		else if (key.type == BTRFS_EXTENT_DATA_KEY && key.objectid == d->ino &&
			 d->wanted && key.objectid >= d->next_ino &&
			 !take_extent_item(d, leaf, slot, key.offset))
			break;
	}
	return slot;
}

static void drop_pending(struct prefetch_data *d)
{
	free_extent_buffer(d->leaf);
	d->leaf = NULL;
}

/**
 * prefetch_data_add_leaf() - add what will be read of the extents in a leaf
 * @d:		returned by prefetch_data_start()
 * @leaf:	the next leaf of the send root, in memory
 *
 * What does not fit in is added by prefetch_data_add_pending(), from a copy. A
 * leaf that is still pending has been passed by the walk if the next one is
 * added, and is dropped. To be called with commit_root_sem, which the content
 * of the leaf depends on.
 */
void prefetch_data_add_leaf(struct prefetch_data *d, const struct extent_buffer *leaf)
{
	int slot;

	d->reloc_trans = d->fs_info->last_reloc_trans;
	slot = take_leaf(d, leaf, 0);
	drop_pending(d);
	if (slot < btrfs_header_nritems(leaf)) {
		/* Without a copy the rest is not read ahead. */
		d->leaf = btrfs_clone_extent_buffer(leaf);
		d->slot = slot;
	}
}

/**
 * prefetch_data_add_pending() - go on where the window was full
 * @d:	returned by prefetch_data_start()
 */
void prefetch_data_add_pending(struct prefetch_data *d)
{
	if (!d->leaf)
		return;
	d->slot = take_leaf(d, d->leaf, d->slot);
	if (d->slot >= btrfs_header_nritems(d->leaf))
		drop_pending(d);
}

/**
 * prefetch_data_set_walks() - from now on tell what is searched for clones
 * @d:		returned by prefetch_data_start()
 * @walks:	returned by prefetch_walks_start(), is used up to the end
 *
 * That is, all extents that the parent root does not have, or not in this inode.
 */
void prefetch_data_set_walks(struct prefetch_data *d, struct prefetch_walks *walks)
{
	d->walks = walks;
}

/* Inodes */

/* Ranges are opened in the order of keys, so it can only be the last one. */
static struct prefetch_inode *open_inode(struct prefetch_data *d, u64 ino)
{
	struct prefetch_inode *inode;

	if (!list_empty(&d->inodes)) {
		inode = list_last_entry(&d->inodes, struct prefetch_inode, list);
		if (inode->ino == ino)
			return inode;
	}
	inode = kvzalloc_obj(*inode, GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN);
	if (!inode)
		return NULL;
	inode->ino = ino;
	inode->inode = btrfs_iget_inode(d->root, ino);
	if (IS_ERR(inode->inode))
		inode->inode = NULL;
	else
		inode->was_empty = (inode->inode->i_mapping->nrpages == 0);
	list_add_tail(&inode->list, &d->inodes);
	d->nr_inodes++;
	return inode;
}

static void close_inode(struct prefetch_data *d, struct prefetch_inode *inode)
{
	list_del(&inode->list);
	d->nr_inodes--;
	iput(inode->inode);
	kvfree(inode);
}

/**
 * prefetch_data_was_empty() - was nothing of an inode in memory before us?
 * @d:		returned by prefetch_data_start()
 * @ino:	inode of the send root
 *
 * Return: true if the page cache of the inode was empty when its data began to
 * be read ahead; false if it was not, or nothing is read ahead of it.
 */
bool prefetch_data_was_empty(const struct prefetch_data *d, u64 ino)
{
	const struct prefetch_inode *inode;

	list_for_each_entry(inode, &d->inodes, list) {
		if (inode->ino >= ino)
			return inode->ino == ino && inode->was_empty;
	}
	return false;
}

/* Reading */

/* From the place the last sweep has reached upwards, then around. */
static int cmp_sweep(const void *a, const void *b, const void *priv)
{
	const struct prefetch_data *d = priv;
	const u64 da = range_at(d, *(const u32 *)a)->bytenr - d->sweep;
	const u64 db = range_at(d, *(const u32 *)b)->bytenr - d->sweep;

	return (da > db) - (da < db);
}

/* About how many bytes of data a full leaf holds the checksums of. */
static u64 csum_leaf_bytes(const struct btrfs_fs_info *fs_info)
{
	return (u64)(fs_info->nodesize / btrfs_super_csum_size(fs_info->super_copy)) *
	       fs_info->sectorsize;
}

static u64 node_key_offset(const struct extent_buffer *node, int slot)
{
	struct btrfs_key key;

	btrfs_node_key_to_cpu(node, &key, slot);
	return key.offset;
}

/*
 * Read ahead the checksum leaves of the ranges of the queue from @first on, as
 * far as they are children of one node. Returns the first range that is left.
 */
static u32 read_csum_leaves(struct prefetch_data *d, struct btrfs_path *path, u32 first)
{
	const u64 bytenr = range_at(d, d->queue[first])->bytenr;
	struct btrfs_root *root = btrfs_csum_root(d->fs_info, bytenr);
	int batch = PREFETCH_CSUM_BATCH;
	const struct btrfs_key key = {
		.objectid = BTRFS_EXTENT_CSUM_OBJECTID,
		.type = BTRFS_EXTENT_CSUM_KEY,
		.offset = bytenr,
	};
	const struct extent_buffer *node;
	int nr = 0;
	int last = -1;
	int nritems;
	int slot;
	int ret;
	u32 i;

	if (IS_ERR_OR_NULL(root))
		return d->queue_len;
	path->lowest_level = 1;
	ret = btrfs_search_slot(NULL, root, &key, path, 0, 0);
	node = path->nodes[1];
	/* A tree that is one leaf needs no readahead. */
	if (ret < 0 || !node) {
		btrfs_release_path(path);
		return d->queue_len;
	}
	slot = path->slots[1];
	if (ret > 0 && slot > 0)
		slot--;

	/* Reads that are waited for below, while a commit may wait for the semaphore. */
	if (READ_ONCE(root->node) != root->commit_root)
		batch /= 4;
	nritems = btrfs_header_nritems(node);
	for (i = first; i < d->queue_len && nr < batch; i++) {
		const struct prefetch_range *range = range_at(d, d->queue[i]);

		if (!range->csums)
			continue;
		while (slot + 1 < nritems && node_key_offset(node, slot + 1) <= range->bytenr)
			slot++;
		/* The end of what the last child holds is not known here. */
		if (i > first &&
		    (range->bytenr < node_key_offset(node, slot) ||
		     (slot + 1 == nritems &&
		      range->bytenr >= node_key_offset(node, slot) + csum_leaf_bytes(d->fs_info))))
			break;
		do {
			if (slot != last)
				prefetch_init_readahead(&d->csum_leaves[nr++], node, slot);
			last = slot;
		} while (nr < batch && slot + 1 < nritems &&
			 node_key_offset(node, slot + 1) < range->bytenr + range->disk_len &&
			 ++slot);
	}

	btrfs_release_path(path);
	prefetch_readahead(d->fs_info, d->csum_leaves, nr);
	/*
	 * Who changes a leaf from now on waits for its read. One that was changed before
	 * may be used again after the next commit, which does not.
	 */
	for (int j = 0; j < nr && READ_ONCE(root->node) != root->commit_root; j++) {
		if (d->csum_leaves[j].eb)
			wait_for_extent_buffer_read(d->csum_leaves[j].eb);
	}
	prefetch_release_readahead(d->csum_leaves, nr);
	return i;
}

/*
 * The lookup of checksums waits for their leaf when a read is submitted, so
 * have those leaves read before.
 */
static void read_csums_ahead(struct prefetch_data *d)
{
	struct btrfs_path *path = btrfs_alloc_path();
	u32 i = 0;

	if (!path)
		return;
	/* Its blocks stay in place while the semaphore is held. */
	path->search_commit_root = 1;
	path->skip_locking = 1;
	while (i < d->queue_len && !fatal_signal_pending(current)) {
		if (range_at(d, d->queue[i])->csums) {
			down_read(&d->fs_info->commit_root_sem);
			i = read_csum_leaves(d, path, i);
			up_read(&d->fs_info->commit_root_sem);
			cond_resched();
		} else {
			i++;
		}
	}
	btrfs_free_path(path);
}

/**
 * prefetch_data_sort() - prepare to submit what was added
 * @d:	returned by prefetch_data_start()
 *
 * Gets the inodes of new ranges, sorts all that is not submitted yet, and reads
 * the checksum leaves ahead. May wait for tree blocks that are not in memory.
 */
void prefetch_data_sort(struct prefetch_data *d)
{
	const u32 added = d->tail - d->opened;
	u32 len = 0;

	if (!added)
		return;
	for (u32 i = d->queue_next; i < d->queue_len; i++) {
		if (in_window(d, d->queue[i]))
			d->queue[len++] = d->queue[i];
	}
	d->queue_next = 0;
	d->queue_len = len;
	for (; d->opened != d->tail; d->opened++) {
		struct prefetch_range *range = range_at(d, d->opened);

		if (range->doubted)
			continue;
		range->inode = open_inode(d, range->ino);
		d->queue[d->queue_len++] = d->opened;
	}

	sort_r(d->queue, d->queue_len, sizeof(d->queue[0]), cmp_sweep, NULL, d);
	trace_btrfs_send_prefetch_data(d->fs_info->fs_devices->fsid, btrfs_root_id(d->root),
				       added, d->queue_len, window_bytes(d), d->limit);
	read_csums_ahead(d);
}

static void retire_reads(struct prefetch_data *d)
{
	u32 nr = 0;

	for (u32 i = 0; i < d->nr_inflight; i++) {
		const u32 range = d->inflight[i];

		if (in_window(d, range) && range_in_flight(range_at(d, range)))
			d->inflight[nr++] = range;
	}
	d->nr_inflight = nr;
}

/* Is there room for one more request that does not have to wait? */
static bool may_submit(struct prefetch_data *d, u32 depth)
{
	if (d->nr_inflight >= depth)
		retire_reads(d);
	return d->nr_inflight < depth;
}

/* Will the next range be merged with the one submitted last? */
static bool joins_last(const struct prefetch_data *d)
{
	const struct prefetch_range *range = range_at(d, d->queue[d->queue_next]);

	return d->nr_inflight > 0 && range->bytenr == d->sweep &&
	       d->request_bytes + range->disk_len <= d->params.max_request_bytes;
}

static void free_raw(struct prefetch_raw *raw)
{
	if (!raw)
		return;
	for (u32 i = 0; i < raw->nr_pages; i++) {
		if (raw->pages[i])
			__free_page(raw->pages[i]);
	}
	kvfree(raw);
}

/*
 * Read an extent as it is on the disk. On an error, or if a relocation runs or has run
 * since its leaf was looked at, the send does it itself. A read whose relocation begins
 * while it is in flight can still find other data; prefetch_data_copy_raw() refuses it.
 * The semaphore is held, so nothing below may take it: of checksums, the lookup in the
 * commit root does (btrfs_bio::csum_search_commit_root), which is not asked for here.
 */
static void submit_raw(const struct prefetch_data *d, struct prefetch_range *range)
{
	const gfp_t gfp = GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN;
	const u32 nr_pages = DIV_ROUND_UP(range->disk_len, PAGE_SIZE);
	struct prefetch_raw *raw;
	int ret = -EAGAIN;

	if (test_bit(BTRFS_FS_RELOC_RUNNING, &d->fs_info->flags))
		return;
	raw = kvzalloc(struct_size(raw, pages, nr_pages), gfp);
	if (!raw)
		return;
	raw->nr_pages = nr_pages;
	for (u32 i = 0; i < nr_pages; i++) {
		raw->pages[i] = alloc_page(gfp);
		if (!raw->pages[i]) {
			free_raw(raw);
			return;
		}
	}
	down_read(&d->fs_info->commit_root_sem);
	if (range->reloc_trans == d->fs_info->last_reloc_trans &&
	    !test_bit(BTRFS_FS_RELOC_RUNNING, &d->fs_info->flags))
		ret = btrfs_start_raw_read(range->inode->inode, range->bytenr, range->disk_len,
					   raw->pages, &raw->read);
	up_read(&d->fs_info->commit_root_sem);
	if (ret < 0) {
		free_raw(raw);
		return;
	}
	range->raw = raw;
}

/* How much at the end of a range is not in memory, 0 if something between is. */
static u64 absent_bytes(const struct prefetch_range *range)
{
	struct address_space *mapping = range->inode->inode->i_mapping;
	const u64 end = range->offset + range->len;
	u64 start;

	rcu_read_lock();
	start = (u64)page_cache_next_miss(mapping, range->offset >> PAGE_SHIFT,
					  range->len >> PAGE_SHIFT) << PAGE_SHIFT;
	rcu_read_unlock();
	if (start >= end || filemap_range_has_page(mapping, start, end - 1))
		return 0;
	return end - start;
}

static void submit_range(struct prefetch_data *d, u32 nr, bool join)
{
	struct prefetch_range *range = range_at(d, nr);

	range->submitted = true;
	if (!range->inode || !range->inode->inode)
		return;
	if (range->encoded) {
		submit_raw(d, range);
	} else {
		range->absent = absent_bytes(range);
		btrfs_readahead_file_pages(range->inode->inode, range->offset >> PAGE_SHIFT,
					   range->len >> PAGE_SHIFT);
	}
	d->sweep = range->bytenr + range->disk_len;
	if (!range_in_flight(range))
		return;
	prefetch_count(d->fs_info, BTRFS_SEND_PREFETCH_DATA_READS);
	if (!join) {
		d->nr_inflight++;
		d->request_bytes = 0;
	}
	d->inflight[d->nr_inflight - 1] = nr;
	d->request_bytes += range->disk_len;
}

/*
 * Submit what a disk takes at once. If the send has to wait anyway, top up the
 * disk's queue, otherwise wait for room for several requests, as only
 * neighbours in one plug are merged.
 */
static void submit_queue(struct prefetch_data *d, bool late)
{
	const u32 depth = d->params.depth;
	struct blk_plug plug;

	if (d->queue_next == d->queue_len || !may_submit(d, late ? depth : depth / 2 + 1))
		return;

	blk_start_plug(&plug);
	while (d->queue_next < d->queue_len) {
		const u32 nr = d->queue[d->queue_next];
		const bool join = in_window(d, nr) && joins_last(d);

		if (!join && !may_submit(d, depth))
			break;
		d->queue_next++;
		if (in_window(d, nr))
			submit_range(d, nr, join);
		if (fatal_signal_pending(current))
			break;
	}
	blk_finish_plug(&plug);
}

static void release_head(struct prefetch_data *d)
{
	struct prefetch_range *range = range_at(d, d->head);
	const struct prefetch_inode *inode = range->inode;

	if (!range->used)
		d->doubt = min(d->doubt + 1, 2 * PREFETCH_MAX_DOUBT);
	else if (d->doubt > 0)
		d->doubt--;
	if (range->submitted && !range->used && inode && inode->inode) {
		prefetch_count(d->fs_info, BTRFS_SEND_PREFETCH_DATA_UNUSED);
		/* As if it had not been read. */
		if (range->absent)
			truncate_inode_pages_range(inode->inode->i_mapping,
						   range->offset + range->len - range->absent,
						   range->offset + range->len - 1);
	}
	if (range->raw) {
		wait_for_completion(&range->raw->read.done);
		free_raw(range->raw);
	}
	d->bytes -= range_bytes(range);
	d->head++;
	if (d->opened - d->head > d->tail - d->head)
		d->opened = d->head;
}

/**
 * prefetch_data_pass() - release what the walk has passed
 * @d:		returned by prefetch_data_start()
 * @ino:	inode the walk is at
 * @offset:	place in it, in bytes
 */
void prefetch_data_pass(struct prefetch_data *d, u64 ino, u64 offset)
{
	struct prefetch_inode *inode;
	struct prefetch_inode *next;

	while (d->head != d->tail) {
		const struct prefetch_range *range = range_at(d, d->head);

		if (range->ino > ino ||
		    (range->ino == ino && range->offset + range->len > offset))
			break;
		release_head(d);
	}
	list_for_each_entry_safe(inode, next, &d->inodes, list) {
		if (inode->ino >= ino)
			break;
		close_inode(d, inode);
	}
	if (d->next_ino < ino || (d->next_ino == ino && d->next_offset < offset)) {
		d->next_ino = ino;
		d->next_offset = offset;
	}
}

/**
 * prefetch_data_wait() - go on reading, and wait for what the send reads now
 * @d:		returned by prefetch_data_start()
 * @ino:	inode of the send root
 * @offset:	place in it, in bytes, that prefetch_data_pass() was told
 *
 * Only waits if the read of this place was or will be submitted here: it may be
 * one of the last in the sweep, and the disk must have work all the time.
 *
 * Return: 0, or -EINTR after a fatal signal.
 */
int prefetch_data_wait(struct prefetch_data *d, u64 ino, u64 offset)
{
	struct prefetch_range *range = NULL;
	bool late = false;

	if (d->head != d->tail) {
		range = range_at(d, d->head);
		/* Added since the window was sorted. */
		if (d->opened == d->head)
			prefetch_data_sort(d);
		if (range->ino != ino || range->offset > offset)
			range = NULL;
	}

	while (true) {
		const struct prefetch_range *wait = range;

		submit_queue(d, late);
		if (!range || range->doubted || (range->submitted && !range_in_flight(range)))
			break;
		late = true;
		/*
		 * For a few of the oldest, so that there is something to merge and
		 * the disk still has most of its queue.
		 */
		if (d->queue_next < d->queue_len && !may_submit(d, d->params.depth))
			wait = range_at(d, d->inflight[d->nr_inflight / 8]);
		if (range_in_flight(wait))
			wait_for_range(wait);
		if (fatal_signal_pending(current))
			return -EINTR;
	}
	if (range && !range->used) {
		if (!range->doubted)
			prefetch_count(d->fs_info, late ? BTRFS_SEND_PREFETCH_DATA_LATE :
							  BTRFS_SEND_PREFETCH_DATA_HITS);
		range->used = true;
	}
	return 0;
}

/**
 * prefetch_data_copy_raw() - get what was read of an extent as it is on the disk
 * @d:		returned by prefetch_data_start()
 * @ino:	inode of the send root
 * @offset:	place in it, in bytes, that prefetch_data_wait() was told
 * @bytenr:	of the extent
 * @len:	of the extent, in bytes
 * @pages:	whole pages to copy to
 *
 * To be called with commit_root_sem, which tells if there was a relocation.
 *
 * Return: false if it was not read, or not successfully, or may have been moved.
 */
bool prefetch_data_copy_raw(const struct prefetch_data *d, u64 ino, u64 offset, u64 bytenr,
			    u64 len, struct page **pages)
{
	const struct prefetch_range *range;
	const struct prefetch_raw *raw;

	lockdep_assert_held_read(&d->fs_info->commit_root_sem);

	if (d->head == d->tail)
		return false;
	range = range_at(d, d->head);
	raw = range->raw;
	if (!raw || range->ino != ino || range->offset != offset || range->bytenr != bytenr ||
	    range->disk_len != len || range->reloc_trans != d->fs_info->last_reloc_trans ||
	    !completion_done(&range->raw->read.done) || raw->read.status)
		return false;
	/* What is behind the end in the last page does not matter. */
	for (u32 i = 0; i < raw->nr_pages; i++)
		copy_highpage(pages[i], raw->pages[i]);
	return true;
}

/**
 * prefetch_data_start() - prepare to read ahead file data
 * @root:	the root to send
 * @params:	see there
 *
 * Return: what the other functions take, or NULL if there is no memory for it.
 */
struct prefetch_data *prefetch_data_start(struct btrfs_root *root,
					  const struct prefetch_data_params *params)
{
	const gfp_t gfp = GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN;
	struct prefetch_data *d = kvzalloc_obj(*d, gfp);

	if (!d)
		return NULL;
	d->root = root;
	d->fs_info = root->fs_info;
	d->params = *params;
	d->params.depth = clamp_t(u32, params->depth, 1, PREFETCH_MAX_DEPTH);
	d->limit = params->limit;
	INIT_LIST_HEAD(&d->inodes);
	d->max_ranges = clamp_t(u64, rounddown_pow_of_two(max(params->limit / PAGE_SIZE, 1ULL)),
				4, PREFETCH_MAX_RANGES);
	d->ring_size = min_t(u32, d->max_ranges, PREFETCH_MIN_RANGES);
	d->taken_size = d->ring_size;
	d->max_taken = d->max_ranges;
	d->ring = kvzalloc_objs(*d->ring, d->ring_size, gfp);
	d->queue = kvzalloc_objs(*d->queue, d->ring_size, gfp);
	d->taken = kvzalloc_objs(*d->taken, d->taken_size, gfp);
	if (!d->ring || !d->queue || !d->taken) {
		prefetch_data_stop(d);
		return NULL;
	}
	return d;
}

/**
 * prefetch_data_stop() - end reading ahead file data
 * @d:	returned by prefetch_data_start(), or NULL
 *
 * What the send did not ask for is dropped from the page cache, but for what was
 * there before. Must be called without commit_root_sem, as it
 * waits for reads in flight.
 */
void prefetch_data_stop(struct prefetch_data *d)
{
	struct prefetch_inode *inode;
	struct prefetch_inode *next;

	if (!d)
		return;
	while (d->head != d->tail)
		release_head(d);
	list_for_each_entry_safe(inode, next, &d->inodes, list)
		close_inode(d, inode);
	drop_pending(d);
	kvfree(d->taken);
	kvfree(d->queue);
	kvfree(d->ring);
	kvfree(d);
}

#if IS_ENABLED(CONFIG_BTRFS_SEND_PREFETCH_KUNIT_TEST)
#include "tests/send-prefetch-data-test.c"
#endif
