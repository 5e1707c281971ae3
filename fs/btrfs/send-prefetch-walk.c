// SPDX-License-Identifier: GPL-2.0
/*
 * Reads ahead what the searches for clones of many extents are going to read.
 *
 * To find what an extent can be cloned from, a send walks its back references: from
 * its item in the extent tree to the leaf of each file that refers to it, in whatever
 * root, and from there by the items of tree blocks up to all the roots that have the
 * leaf. It does so for one extent after the other, and waits for each of these blocks.
 * Which extents come next the leaves of the send root tell, so that it can be done for
 * many of them at once: first their items are read, in the order of addresses, then the
 * leaves that these refer to, whatever root they are of, then the items of these leaves.
 *
 * As for the walk that means the commit roots. Their blocks stay what they are while
 * commit_root_sem is held, but may be used again after the next commit, which does not
 * wait for reads: so all reads have ended before the semaphore is dropped, which is done
 * as soon as somebody waits for it. The walk has it until all of an extent is read.
 *
 * To find out that all of that is in memory costs nearly as much as the searches. So once
 * it was, it is found out for a few extents of each round only.
 *
 * Everything here runs in the task of the send.
 */

#include <linux/mm.h>
#include <linux/rwsem.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sizes.h>
#include <linux/sort.h>
#include "messages.h"
#include "ctree.h"
#include "accessors.h"
#include "disk-io.h"
#include "extent_io.h"
#include "fs.h"
#include "send-prefetch.h"
#include "send-prefetch-walk.h"

/* Blocks of one round, at the most and at the least. */
#define PREFETCH_MAX_WALK_BLOCKS	SZ_4K
#define PREFETCH_MIN_WALK_BLOCKS	64
/* Extents that wait for their round, at the most and at the least. */
#define PREFETCH_MAX_WALKS		SZ_64K
#define PREFETCH_MIN_WALKS		SZ_1K
/* Blocks submitted at once, while as many are in flight. */
#define PREFETCH_WALK_BATCH		16
/* Roots of one round. */
#define PREFETCH_WALK_ROOTS		64

/* An extent that is going to be searched, and the item for which it is. */
struct prefetch_walk {
	u64 ino;
	u64 offset;
	u64 bytenr;
	/* If the parent root has the same item it is not searched. */
	bool doubted;
};

/* An extent of the round. */
struct prefetch_extent {
	u64 bytenr;
	/* The how manieth it was. */
	u32 index;
	/* References that the walk will follow. */
	u32 refs;
};

/* A reference to an extent of the round: by a key of a root, or by a leaf's bytenr. */
struct prefetch_ref {
	/* 0 if it is a leaf's. */
	u64 root_id;
	struct btrfs_key key;
};

struct prefetch_walks {
	struct btrfs_fs_info *fs_info;
	struct btrfs_root *parent_root;
	/* Extents with more references are not searched. */
	u32 max_refs;

	/* In the order of the send: those from first on, up to end, were not read for. */
	struct prefetch_walk *walks;
	/* There is room for so many of them, and there may be so many. */
	u32 walks_size;
	u32 max_walks;
	bool no_memory;
	u32 first;
	u32 end;
	/* Up to this item all was read for. */
	u64 ino;
	u64 offset;

	/* There is room for so many of each of these, and may be. A round takes so many. */
	u32 size;
	u32 max_size;
	u32 round;
	/* Blocks of the round that were not in memory. */
	u32 nr_read;
	/* There were none of the round before. */
	bool quiet;
	struct prefetch_extent *extents;
	struct prefetch_ref *refs;
	struct btrfs_tree_block_readahead *blocks;
	/* So many of the walks were gone through for them. */
	u32 nr_taken;
	u32 nr_extents;
	u32 nr_refs;
	u32 nr_blocks;
	/* The block added last. */
	u64 last_bytenr;

	struct btrfs_path *path;
	/* Those in flight. */
	struct btrfs_tree_block_readahead batches[2][PREFETCH_WALK_BATCH];
	u32 nr_batch[2];
	struct btrfs_root *roots[PREFETCH_WALK_ROOTS];
};

/* What will be searched */

/**
 * prefetch_walks_full() - is there no room for another extent?
 * @w:	returned by prefetch_walks_start()
 *
 * Return: true if there is none.
 */
bool prefetch_walks_full(const struct prefetch_walks *w)
{
	return w->walks && w->end - w->first >= w->max_walks;
}

/* Most sends need none of this. Returns false if there is no memory for it. */
static bool alloc_arrays(struct prefetch_walks *w)
{
	const gfp_t gfp = GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN;
	unsigned int nofs;

	if (w->walks || w->no_memory)
		return w->walks;
	/* A commit may wait for the caller. */
	nofs = memalloc_nofs_save();
	w->extents = kvzalloc_objs(*w->extents, w->size, gfp);
	w->refs = kvzalloc_objs(*w->refs, w->size, gfp);
	w->blocks = kvzalloc_objs(*w->blocks, w->size, gfp);
	if (w->extents && w->refs && w->blocks)
		w->walks = kvzalloc_objs(*w->walks, w->walks_size, gfp);
	memalloc_nofs_restore(nofs);
	w->no_memory = !w->walks;
	return w->walks;
}

/**
 * prefetch_walks_add() - add an extent that is going to be searched
 * @w:		returned by prefetch_walks_start()
 * @ino:	inode of the item that the search is for
 * @offset:	of the item; together with @ino it is never smaller than before
 * @bytenr:	of the extent
 * @doubted:	it is not if the parent root has the same item. If there are many
 *		extents already this one is not added.
 *
 * May be called with commit_root_sem. Without room or memory for it nothing is added.
 */
void prefetch_walks_add(struct prefetch_walks *w, u64 ino, u64 offset, u64 bytenr, bool doubted)
{
	struct prefetch_walk *last = NULL;

	if (!alloc_arrays(w) || (doubted && w->end - w->first >= w->max_walks / 2))
		return;
	if (w->end > w->first)
		last = &w->walks[w->end - 1];
	/* It is told again, or the next part of the same. */
	if (last && last->bytenr == bytenr && last->doubted == doubted &&
	    !(doubted && (last->ino != ino || last->offset != offset))) {
		last->ino = ino;
		last->offset = offset;
		return;
	}
	if (w->end - w->first == w->walks_size && w->walks_size < w->max_walks) {
		if (prefetch_double(&w->walks, w->walks_size, sizeof(*w->walks)))
			w->walks_size *= 2;
		else
			w->max_walks = w->walks_size;
	}
	if (prefetch_walks_full(w))
		return;
	if (w->end == w->walks_size) {
		w->end -= w->first;
		memmove(w->walks, w->walks + w->first, w->end * sizeof(w->walks[0]));
		w->first = 0;
	}
	w->walks[w->end++] = (struct prefetch_walk) {
		.ino = ino,
		.offset = offset,
		.bytenr = bytenr,
		.doubted = doubted,
	};
}

/**
 * prefetch_walks_due() - is it time for prefetch_walks_read()?
 * @w:		returned by prefetch_walks_start()
 * @ino:	inode of the item that the next search is for
 * @offset:	of the item
 *
 * Return: true if it was not read for that search, nor for those after it, and can be.
 */
bool prefetch_walks_due(const struct prefetch_walks *w, u64 ino, u64 offset)
{
	return !w->no_memory && (ino > w->ino || (ino == w->ino && offset > w->offset));
}

/**
 * prefetch_walks_pass() - forget the extents before an item
 * @w:		returned by prefetch_walks_start()
 * @ino:	inode of the item that the next search is for
 * @offset:	of the item
 */
void prefetch_walks_pass(struct prefetch_walks *w, u64 ino, u64 offset)
{
	while (w->first < w->end && (w->walks[w->first].ino < ino ||
				     (w->walks[w->first].ino == ino &&
				      w->walks[w->first].offset < offset)))
		w->first++;
}

/**
 * prefetch_walks_empty() - is no extent left?
 * @w:	returned by prefetch_walks_start()
 *
 * Return: true if there is none.
 */
bool prefetch_walks_empty(const struct prefetch_walks *w)
{
	return w->first == w->end;
}

/**
 * prefetch_walks_is_round() - are there as many extents as are read for at once?
 * @w:	returned by prefetch_walks_start()
 *
 * Return: true if there are, or if there is no room for another one.
 */
bool prefetch_walks_is_round(const struct prefetch_walks *w)
{
	return w->no_memory || prefetch_walks_full(w) || w->end - w->first >= w->round;
}

/**
 * prefetch_walks_drop() - forget all extents
 * @w:	returned by prefetch_walks_start()
 */
void prefetch_walks_drop(struct prefetch_walks *w)
{
	w->first = 0;
	w->end = 0;
}

/**
 * prefetch_walks_restart() - begin again, at any item
 * @w:	returned by prefetch_walks_start()
 */
void prefetch_walks_restart(struct prefetch_walks *w)
{
	prefetch_walks_drop(w);
	w->ino = 0;
	w->offset = 0;
}

/* Reading */

static void add_block(struct prefetch_walks *w, const struct extent_buffer *node, int slot)
{
	const u64 bytenr = btrfs_node_blockptr(node, slot);

	if (bytenr == w->last_bytenr || w->nr_blocks == w->size)
		return;
	w->last_bytenr = bytenr;
	prefetch_init_readahead(&w->blocks[w->nr_blocks++], node, slot);
}

static void drop_blocks(struct prefetch_walks *w)
{
	w->nr_blocks = 0;
	w->last_bytenr = 0;
}

static void sort_blocks(struct prefetch_walks *w)
{
	u32 nr = 0;

	sort(w->blocks, w->nr_blocks, sizeof(w->blocks[0]), prefetch_cmp_readahead, NULL);
	for (u32 i = 0; i < w->nr_blocks; i++) {
		if (nr == 0 || w->blocks[i].bytenr != w->blocks[nr - 1].bytenr)
			w->blocks[nr++] = w->blocks[i];
	}
	w->nr_blocks = nr;
}

/* Submit blocks that are not in memory, from @first on. Returns the first one left. */
static u32 submit_batch(struct prefetch_walks *w, int batch, u32 first)
{
	struct btrfs_tree_block_readahead *blocks = w->batches[batch];
	u32 nr = 0;

	for (; first < w->nr_blocks && nr < PREFETCH_WALK_BATCH; first++) {
		if (prefetch_in_memory(w->fs_info, w->blocks[first].bytenr))
			continue;
		blocks[nr++] = w->blocks[first];
		w->nr_read++;
		prefetch_count(w->fs_info, BTRFS_SEND_PREFETCH_WALKS);
	}
	prefetch_readahead(w->fs_info, blocks, nr);
	w->nr_batch[batch] = nr;
	return first;
}

/* Returns when none of these is being read any more. */
static void wait_batch(struct prefetch_walks *w, int batch)
{
	struct btrfs_tree_block_readahead *blocks = w->batches[batch];
	const u32 nr = w->nr_batch[batch];

	for (u32 i = 0; i < nr; i++) {
		if (blocks[i].eb)
			wait_for_extent_buffer_read(blocks[i].eb);
	}
	prefetch_release_readahead(blocks, nr);
	w->nr_batch[batch] = 0;
}

/* Is what is known of the commit roots still so? The caller holds commit_root_sem then. */
static bool lock_again(struct prefetch_walks *w, const struct extent_buffer *commit_root)
{
	down_read(&w->fs_info->commit_root_sem);
	return w->fs_info->tree_root->commit_root == commit_root;
}

/*
 * Is it time to go no further? Whoever asks holds commit_root_sem, and may be about to
 * wait for a block on the way to others. What is left is not read ahead.
 */
static bool must_stop(const struct prefetch_walks *w)
{
	return fatal_signal_pending(current) || rwsem_is_contended(&w->fs_info->commit_root_sem);
}

/*
 * Read all blocks, in the order of the disk. The caller holds commit_root_sem, which is
 * dropped in between if others wait for it. Returns false if there was a commit then.
 */
static bool read_blocks(struct prefetch_walks *w)
{
	struct extent_buffer *commit_root = extent_buffer_get(w->fs_info->tree_root->commit_root);
	bool same = true;
	int batch = 0;
	u32 i = 0;

	sort_blocks(w);
	while (same && i < w->nr_blocks && !fatal_signal_pending(current)) {
		i = submit_batch(w, batch, i);
		batch = !batch;
		wait_batch(w, batch);
		if (rwsem_is_contended(&w->fs_info->commit_root_sem)) {
			wait_batch(w, !batch);
			up_read(&w->fs_info->commit_root_sem);
			cond_resched();
			same = lock_again(w, commit_root);
		}
	}
	wait_batch(w, !batch);
	free_extent_buffer(commit_root);
	return same;
}

/* The first key behind all that is below the node of level 1. False if there is none. */
static bool node_end(const struct btrfs_path *path, struct btrfs_key *key)
{
	for (int level = 2; level < BTRFS_MAX_LEVEL && path->nodes[level]; level++) {
		if (path->slots[level] + 1 < btrfs_header_nritems(path->nodes[level])) {
			btrfs_node_key_to_cpu(path->nodes[level], key, path->slots[level] + 1);
			return true;
		}
	}
	return false;
}

/*
 * Let the path be at the child of level 0 where a key belongs, in a commit root. Keys
 * come in ascending order: mostly the node is the same. Returns false if there is none.
 */
static bool find_leaf(struct prefetch_walks *w, struct btrfs_root *root,
		      const struct btrfs_key *key)
{
	struct btrfs_path *path = w->path;
	struct btrfs_key end;
	int ret;

	if (path->nodes[1] && (!node_end(path, &end) || btrfs_comp_cpu_keys(key, &end) < 0)) {
		ret = btrfs_bin_search(path->nodes[1], path->slots[1], key, &path->slots[1]);
	} else {
		btrfs_release_path(path);
		path->lowest_level = 1;
		ret = btrfs_search_slot(NULL, root, key, path, 0, 0);
	}
	/* A tree that is one leaf needs no readahead. */
	if (ret < 0 || !path->nodes[1])
		return false;
	if (ret > 0 && path->slots[1] > 0)
		path->slots[1]--;
	return true;
}

/* Before all items that belong to a bytenr in the extent tree, but its own. */
static struct btrfs_key item_key(u64 bytenr)
{
	return (struct btrfs_key) {
		.objectid = bytenr,
		.type = BTRFS_METADATA_ITEM_KEY,
		.offset = (u64)-1,
	};
}

/* Add the leaves of the extent tree that have the items of a bytenr. */
static void add_item_blocks(struct prefetch_walks *w, struct btrfs_root *root, u64 bytenr)
{
	const struct btrfs_key key = item_key(bytenr);
	const struct extent_buffer *node;

	if (!find_leaf(w, root, &key))
		return;
	node = w->path->nodes[1];
	add_block(w, node, w->path->slots[1]);
	for (int slot = w->path->slots[1] + 1; slot < btrfs_header_nritems(node); slot++) {
		struct btrfs_key next;

		btrfs_node_key_to_cpu(node, &next, slot);
		if (next.objectid != bytenr)
			break;
		add_block(w, node, slot);
	}
}

/* Add those of all extents of the round. */
static void add_items(struct prefetch_walks *w)
{
	struct btrfs_root *last = NULL;

	for (u32 i = 0; i < w->nr_extents && !must_stop(w); i++) {
		struct btrfs_root *root = btrfs_extent_root(w->fs_info, w->extents[i].bytenr);

		if (root != last)
			btrfs_release_path(w->path);
		last = root;
		if (!IS_ERR_OR_NULL(root))
			add_item_blocks(w, root, w->extents[i].bytenr);
		cond_resched();
	}
	btrfs_release_path(w->path);
}

/* Where it is in a leaf, in which it is: the item of an extent. NULL if there is none. */
static struct btrfs_extent_item *find_item(struct prefetch_walks *w, u64 bytenr)
{
	struct btrfs_path *path = w->path;
	struct btrfs_root *root = btrfs_extent_root(w->fs_info, bytenr);
	const struct btrfs_key key = item_key(bytenr);
	struct btrfs_key found;
	int ret = -ENOENT;

	if (IS_ERR_OR_NULL(root))
		return NULL;
	/* Ascending, so it is behind the last one, and often in the same leaf. */
	if (path->nodes[0])
		ret = btrfs_bin_search(path->nodes[0], 0, &key, &path->slots[0]);
	if (ret < 0 || path->slots[0] == btrfs_header_nritems(path->nodes[0])) {
		btrfs_release_path(path);
		path->lowest_level = 0;
		ret = btrfs_search_slot(NULL, root, &key, path, 0, 0);
	}
	if (ret < 0 || path->slots[0] == 0)
		return NULL;
	path->slots[0]--;
	btrfs_item_key_to_cpu(path->nodes[0], &found, path->slots[0]);
	if (found.objectid != bytenr || found.type != BTRFS_EXTENT_ITEM_KEY ||
	    btrfs_item_size(path->nodes[0], path->slots[0]) < sizeof(struct btrfs_extent_item))
		return NULL;
	return btrfs_item_ptr(path->nodes[0], path->slots[0], struct btrfs_extent_item);
}

static int cmp_extents(const void *a, const void *b)
{
	const struct prefetch_extent *ea = a;
	const struct prefetch_extent *eb = b;

	if (ea->bytenr != eb->bytenr)
		return ea->bytenr < eb->bytenr ? -1 : 1;
	return (ea->index > eb->index) - (ea->index < eb->index);
}

static int cmp_index(const void *a, const void *b)
{
	const struct prefetch_extent *ea = a;
	const struct prefetch_extent *eb = b;

	return (ea->index > eb->index) - (ea->index < eb->index);
}

/*
 * Does the parent root refer to the same extent, at the same place? Keys ascend, so it
 * is mostly in the leaf found last.
 */
static bool in_parent(struct prefetch_walks *w, const struct prefetch_walk *walk)
{
	struct btrfs_path *path = w->path;
	const struct btrfs_key key = {
		.objectid = walk->ino,
		.type = BTRFS_EXTENT_DATA_KEY,
		.offset = walk->offset,
	};
	const struct btrfs_file_extent_item *item;
	int ret = 1;

	if (path->nodes[0])
		ret = btrfs_bin_search(path->nodes[0], path->slots[0], &key, &path->slots[0]);
	if (!path->nodes[0] || path->slots[0] == btrfs_header_nritems(path->nodes[0])) {
		btrfs_release_path(path);
		path->lowest_level = 0;
		ret = btrfs_search_slot(NULL, w->parent_root, &key, path, 0, 0);
	}
	if (ret != 0)
		return false;
	item = btrfs_item_ptr(path->nodes[0], path->slots[0], struct btrfs_file_extent_item);
	return btrfs_file_extent_type(path->nodes[0], item) != BTRFS_FILE_EXTENT_INLINE &&
	       btrfs_file_extent_disk_bytenr(path->nodes[0], item) == walk->bytenr;
}

/* Have room for so many extents or references, and for the blocks that each leads to. */
static void enlarge_arrays(struct prefetch_walks *w, u32 nr)
{
	while (w->size < min(16 * nr, w->max_size) &&
	       prefetch_double(&w->extents, w->size, sizeof(*w->extents)) &&
	       prefetch_double(&w->refs, w->size, sizeof(*w->refs)) &&
	       prefetch_double(&w->blocks, w->size, sizeof(*w->blocks)))
		w->size *= 2;
}

/* Take the extents of a round from those that wait. */
static void take_extents(struct prefetch_walks *w)
{
	u32 i;

	enlarge_arrays(w, min(w->end - w->first, w->round));
	w->nr_extents = 0;
	for (i = 0; i < w->end - w->first && w->nr_extents < min(w->round, w->size); i++) {
		const struct prefetch_walk *walk = &w->walks[w->first + i];

		if (i > 0 && must_stop(w))
			break;
		cond_resched();
		if (walk->doubted && in_parent(w, walk))
			continue;
		w->extents[w->nr_extents++] = (struct prefetch_extent) {
			.bytenr = walk->bytenr,
			.index = i,
		};
	}
	w->nr_taken = i;
	btrfs_release_path(w->path);
	sort(w->extents, w->nr_extents, sizeof(w->extents[0]), cmp_extents, NULL);
}

/* How many references the walk will follow. The items were read. */
static void count_refs(struct prefetch_walks *w)
{
	u32 sum = 0;

	for (u32 i = 0; i < w->nr_extents && !must_stop(w); i++) {
		struct prefetch_extent *extent = &w->extents[i];
		struct btrfs_extent_item *item;
		const struct extent_buffer *leaf;
		u64 refs;

		/* What comes again will be in memory. */
		if (i > 0 && extent->bytenr == w->extents[i - 1].bytenr)
			continue;
		item = find_item(w, extent->bytenr);
		if (!item)
			continue;
		leaf = w->path->nodes[0];
		if (!(btrfs_extent_flags(leaf, item) & BTRFS_EXTENT_FLAG_DATA))
			continue;
		refs = btrfs_extent_refs(leaf, item);
		/* The only one is the one that is sent. */
		if (refs > 1 && refs <= w->max_refs)
			extent->refs = refs;
		sum += extent->refs;
		cond_resched();
	}
	btrfs_release_path(w->path);
	enlarge_arrays(w, min(sum, w->round));
}

/* Nothing is read any more for this many of the extents that wait. */
static void pass_extents(struct prefetch_walks *w, u32 nr)
{
	if (nr == 0)
		return;
	w->first += nr;
	w->ino = w->walks[w->first - 1].ino;
	w->offset = w->walks[w->first - 1].offset;
}

/* Leave to the next round what has too many references together with those before. */
static void cut_round(struct prefetch_walks *w)
{
	u32 refs = 0;
	u32 nr;

	sort(w->extents, w->nr_extents, sizeof(w->extents[0]), cmp_index, NULL);
	for (nr = 0; nr < w->nr_extents; nr++) {
		refs += w->extents[nr].refs;
		if (nr > 0 && refs > min(w->round, w->size))
			break;
	}
	if (nr < w->nr_extents)
		w->nr_taken = w->extents[nr].index;
	w->nr_extents = nr;
	pass_extents(w, w->nr_taken);
	sort(w->extents, w->nr_extents, sizeof(w->extents[0]), cmp_extents, NULL);
}

static void add_ref(struct prefetch_walks *w, u64 root_id, u64 objectid, u64 offset)
{
	if (w->nr_refs == w->size)
		return;
	w->refs[w->nr_refs++] = (struct prefetch_ref) {
		.root_id = root_id,
		.key = {
			.objectid = objectid,
			.type = BTRFS_EXTENT_DATA_KEY,
			.offset = offset,
		},
	};
}

static void add_data_ref(struct prefetch_walks *w, const struct extent_buffer *leaf,
			 const struct btrfs_extent_data_ref *ref)
{
	u64 offset = btrfs_extent_data_ref_offset(leaf, ref);

	/* As for the walk: of an item whose extent begins before the file. */
	if (offset >= LLONG_MAX)
		offset = 0;
	add_ref(w, btrfs_extent_data_ref_root(leaf, ref),
		btrfs_extent_data_ref_objectid(leaf, ref), offset);
}

/* Add the references in an extent's item. */
static void add_inline_refs(struct prefetch_walks *w, const struct extent_buffer *leaf,
			    int slot, struct btrfs_extent_item *item)
{
	const unsigned long end = (unsigned long)item + btrfs_item_size(leaf, slot);
	unsigned long ptr = (unsigned long)(item + 1);

	while (ptr + sizeof(struct btrfs_extent_inline_ref) <= end) {
		struct btrfs_extent_inline_ref *ref = (struct btrfs_extent_inline_ref *)ptr;
		const int type = btrfs_extent_inline_ref_type(leaf, ref);

		if (type == BTRFS_EXTENT_DATA_REF_KEY)
			add_data_ref(w, leaf, (struct btrfs_extent_data_ref *)(&ref->offset));
		else if (type == BTRFS_SHARED_DATA_REF_KEY)
			add_ref(w, 0, btrfs_extent_inline_ref_offset(leaf, ref), 0);
		else if (type != BTRFS_EXTENT_OWNER_REF_KEY)
			return;
		ptr += btrfs_extent_inline_ref_size(type);
	}
}

/* Add those in items of their own, which follow that. */
static void add_keyed_refs(struct prefetch_walks *w, u64 bytenr)
{
	struct btrfs_root *root = btrfs_extent_root(w->fs_info, bytenr);
	struct btrfs_path *path = w->path;

	while (w->nr_refs < w->size && btrfs_next_item(root, path) == 0) {
		const struct extent_buffer *leaf = path->nodes[0];
		struct btrfs_key key;

		btrfs_item_key_to_cpu(leaf, &key, path->slots[0]);
		if (key.objectid != bytenr)
			break;
		if (key.type == BTRFS_EXTENT_DATA_REF_KEY)
			add_data_ref(w, leaf, btrfs_item_ptr(leaf, path->slots[0],
							     struct btrfs_extent_data_ref));
		else if (key.type == BTRFS_SHARED_DATA_REF_KEY)
			add_ref(w, 0, key.offset, 0);
	}
}

static int cmp_refs(const void *a, const void *b)
{
	const struct prefetch_ref *ra = a;
	const struct prefetch_ref *rb = b;

	if (ra->root_id != rb->root_id)
		return ra->root_id < rb->root_id ? -1 : 1;
	return btrfs_comp_cpu_keys(&ra->key, &rb->key);
}

static void add_refs(struct prefetch_walks *w)
{
	w->nr_refs = 0;
	for (u32 i = 0; i < w->nr_extents && !must_stop(w); i++) {
		struct btrfs_extent_item *item;

		if (w->extents[i].refs == 0)
			continue;
		item = find_item(w, w->extents[i].bytenr);
		if (!item)
			continue;
		add_inline_refs(w, w->path->nodes[0], w->path->slots[0], item);
		add_keyed_refs(w, w->extents[i].bytenr);
		cond_resched();
	}
	btrfs_release_path(w->path);
	sort(w->refs, w->nr_refs, sizeof(w->refs[0]), cmp_refs, NULL);
}

/* The leaves of the references, whose roots are at hand. */
static void add_leaves(struct prefetch_walks *w)
{
	u32 nr_roots = 0;

	drop_blocks(w);
	for (u32 i = 0; i < w->nr_refs && !must_stop(w); i++) {
		const struct prefetch_ref *ref = &w->refs[i];

		if (ref->root_id == 0) {
			if (w->nr_blocks < w->size)
				w->blocks[w->nr_blocks++] = (struct btrfs_tree_block_readahead) {
					.bytenr = ref->key.objectid,
				};
			continue;
		}
		if (i == 0 || ref->root_id != w->refs[i - 1].root_id) {
			btrfs_release_path(w->path);
			w->last_bytenr = 0;
			if (++nr_roots > PREFETCH_WALK_ROOTS)
				break;
		}
		if (w->roots[nr_roots - 1] &&
		    find_leaf(w, w->roots[nr_roots - 1], &ref->key))
			add_block(w, w->path->nodes[1], w->path->slots[1]);
		cond_resched();
	}
	btrfs_release_path(w->path);
}

/* Of all references. To get a root may mean to lock the tree of roots. */
static void get_roots(struct prefetch_walks *w)
{
	u32 nr_roots = 0;

	memset(w->roots, 0, sizeof(w->roots));
	for (u32 i = 0; i < w->nr_refs && nr_roots < PREFETCH_WALK_ROOTS; i++) {
		const u64 root_id = w->refs[i].root_id;
		struct btrfs_root *root;

		if (root_id == 0 || (i > 0 && root_id == w->refs[i - 1].root_id))
			continue;
		root = btrfs_get_fs_root(w->fs_info, root_id, true);
		w->roots[nr_roots++] = IS_ERR(root) ? NULL : root;
	}
}

static void put_roots(struct prefetch_walks *w)
{
	for (u32 i = 0; i < PREFETCH_WALK_ROOTS; i++)
		btrfs_put_root(w->roots[i]);
}

/* The items of these leaves, by which the walk finds all roots that have them. */
static void add_leaf_items(struct prefetch_walks *w)
{
	w->nr_extents = w->nr_blocks;
	for (u32 i = 0; i < w->nr_blocks; i++)
		w->extents[i].bytenr = w->blocks[i].bytenr;
	drop_blocks(w);
	add_items(w);
}

/* Blocks of a round for so many bytes. */
static u32 round_blocks(const struct prefetch_walks *w, u64 limit)
{
	return clamp_t(u64, div_u64(limit, w->fs_info->nodesize), PREFETCH_MIN_WALK_BLOCKS,
		       w->max_size);
}

/* After a commit it ends. The next one begins there again, on what there is then. */
static void read_round(struct prefetch_walks *w)
{
	struct extent_buffer *commit_root;

	w->nr_read = 0;
	if (prefetch_walks_empty(w))
		return;
	down_read(&w->fs_info->commit_root_sem);
	take_extents(w);
	drop_blocks(w);
	add_items(w);
	if (!read_blocks(w)) {
		up_read(&w->fs_info->commit_root_sem);
		return;
	}
	count_refs(w);
	cut_round(w);
	add_refs(w);
	commit_root = extent_buffer_get(w->fs_info->tree_root->commit_root);
	up_read(&w->fs_info->commit_root_sem);

	if (w->nr_refs > 0) {
		get_roots(w);
		if (lock_again(w, commit_root)) {
			add_leaves(w);
			if (read_blocks(w)) {
				add_leaf_items(w);
				read_blocks(w);
			}
		}
		up_read(&w->fs_info->commit_root_sem);
		put_roots(w);
	}
	free_extent_buffer(commit_root);
}

/**
 * prefetch_walks_read() - read ahead what the next searches will read
 * @w:		returned by prefetch_walks_start()
 * @limit:	bytes of tree blocks to read at most, but for a few
 *
 * Of as many extents that were added as there is room for, which are forgotten. Where
 * all was in memory for those before, only the first few of them are tried: if it is so
 * for these as well, nothing is done for the others. Waits for all that is read. To be
 * called without commit_root_sem.
 */
void prefetch_walks_read(struct prefetch_walks *w, u64 limit)
{
	const u32 round = round_blocks(w, limit);

	lockdep_assert_not_held(&w->fs_info->commit_root_sem);

	if (prefetch_walks_empty(w))
		return;
	if (w->quiet) {
		w->round = PREFETCH_MIN_WALK_BLOCKS;
		read_round(w);
		w->quiet = w->nr_read == 0;
	}
	w->round = round;
	if (w->quiet) {
		pass_extents(w, min(round, w->end - w->first));
	} else {
		read_round(w);
		w->quiet = w->nr_read == 0;
	}
}

/**
 * prefetch_walks_start() - prepare to read ahead for searches
 * @root:	the root to send
 * @parent_root: the parent root, or NULL
 * @limit:	bytes of tree blocks that may ever be read at once
 * @max_refs:	extents with more references than this are not searched
 *
 * Return: what the other functions take, or NULL if there is no memory for it.
 */
struct prefetch_walks *prefetch_walks_start(struct btrfs_root *root,
					    struct btrfs_root *parent_root, u64 limit,
					    u32 max_refs)
{
	struct btrfs_fs_info *fs_info = root->fs_info;
	struct prefetch_walks *w = kvzalloc_obj(*w, GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN);

	if (!w)
		return NULL;
	w->fs_info = fs_info;
	w->parent_root = parent_root;
	w->max_refs = max_refs;
	w->max_size = PREFETCH_MAX_WALK_BLOCKS;
	w->max_size = round_blocks(w, limit);
	w->size = PREFETCH_MIN_WALK_BLOCKS;
	w->round = w->max_size;
	w->max_walks = clamp_t(u64, limit / PAGE_SIZE, PREFETCH_MIN_WALKS, PREFETCH_MAX_WALKS);
	w->walks_size = PREFETCH_MIN_WALKS;
	w->path = btrfs_alloc_path();
	if (!w->path) {
		kvfree(w);
		return NULL;
	}
	w->path->search_commit_root = 1;
	w->path->skip_locking = 1;
	return w;
}

/**
 * prefetch_walks_stop() - free what prefetch_walks_start() returned
 * @w:	that, or NULL
 */
void prefetch_walks_stop(struct prefetch_walks *w)
{
	if (!w)
		return;
	btrfs_free_path(w->path);
	kvfree(w->blocks);
	kvfree(w->refs);
	kvfree(w->extents);
	kvfree(w->walks);
	kvfree(w);
}

#if IS_ENABLED(CONFIG_BTRFS_SEND_PREFETCH_KUNIT_TEST)
#include "tests/send-prefetch-walk-test.c"
#endif
