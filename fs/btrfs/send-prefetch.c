// SPDX-License-Identifier: GPL-2.0
/*
 * Reads ahead the tree blocks a send operation is going to read.
 *
 * A send walks the commit root of its send root, and an incremental one that of
 * the parent root beside it, in key order. A child pointer that stands in both
 * trees with the same key, block number and generation is shared and skipped,
 * every other child of either tree is read. So a second pair of cursors that
 * follows the same rule on nodes only, with level 1 in the role of level 0,
 * knows exactly what will be read without reading a single leaf.
 *
 * The blocks these cursors meet form the window: a ring in key order, which is
 * the order in which the walk needs them. Whenever half of the window was used
 * it is filled up again, and the reads not yet submitted are sorted by bytenr
 * and submitted in one direction, like a lift. Each block of the window is
 * pinned until the walk has passed its key.
 *
 * What an incremental send looks up outside of that, send-prefetch-lookup.c finds
 * in the leaves of the window once these are in memory. It is added to the window
 * and read in the next sweep, and the walk waits for it before it enters the leaf.
 *
 * Everything here runs in the task of the send, under commit_root_sem, and with
 * no transaction of a relocation committed since the last (re)start: that is
 * what makes the block number and generation of a pointer belong together.
 */

#include <linux/blkdev.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
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
#include "locking.h"
#include "block-group.h"
#include "volumes.h"
#include "space-info.h"
#include "send-prefetch.h"
#include "send-prefetch-data.h"
#include "send-prefetch-lookup.h"
#include "send-prefetch-walk.h"

#define CREATE_TRACE_POINTS
#include "send_prefetch_trace.h"

/* Requests in flight to one disk: more would only wait in its queue. */
#define PREFETCH_DEPTH			32
/* As many as there are copies of a block, each on a disk of its own. */
#define PREFETCH_MAX_LANES		4
/* Blocks that a lane submits before it is the turn of the next one. */
#define PREFETCH_TURN			16
/* What a request costs a disk, in blocks that could be read instead. */
#define PREFETCH_REQUEST_COST		8
/* Nodes of level 1 and above read ahead at once, for the cursors' own sake. */
#define PREFETCH_MIN_NODES		4
#define PREFETCH_MAX_NODES		64
/* An automatic window shrinks to this share of its largest size ... */
#define PREFETCH_MIN_SHARE		16
/* ... by half each time it was filled so often and the walk did not wait. */
#define PREFETCH_CALM_FILLS		4

/* What of a window is kept for lookups. */
#define PREFETCH_LOOKUP_SHARE		4

/* The smallest window: a batch of blocks of the largest nodesize. */
#define PREFETCH_MIN_WINDOW		(2 * BTRFS_MAX_METADATA_BLOCKSIZE)
/* The largest one that can be asked for, as a share of the memory. */
#define PREFETCH_MAX_RAM_SHARE		2

/**
 * prefetch_ram_bytes() - the size of the memory
 *
 * Return: bytes, 0 while the kernel command line is parsed.
 */
u64 prefetch_ram_bytes(void)
{
	return (u64)totalram_pages() << PAGE_SHIFT;
}

/**
 * prefetch_double() - make a table twice as large
 * @table:	address of the pointer to it
 * @nr:		entries it has; number i lies, before and after, at i modulo the size
 * @size:	of an entry, in bytes
 *
 * May be called with commit_root_sem.
 *
 * Return: false if there is no memory for it.
 */
bool prefetch_double(void *table, u32 nr, size_t size)
{
	/* A commit may wait for the caller. */
	const unsigned int nofs = memalloc_nofs_save();
	void *copy = kvmalloc_array(nr, 2 * size, GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN);

	memalloc_nofs_restore(nofs);
	if (!copy)
		return false;
	memcpy(copy, *(void **)table, nr * size);
	memcpy(copy + nr * size, *(void **)table, nr * size);
	kvfree(*(void **)table);
	*(void **)table = copy;
	return true;
}

static unsigned long long send_prefetch_window;

static int send_prefetch_window_set(const char *val, const struct kernel_param *kp)
{
	const u64 max = prefetch_ram_bytes() / PREFETCH_MAX_RAM_SHARE;
	unsigned long long window;
	int ret;

	ret = kstrtoull(val, 0, &window);
	if (ret < 0) {
		btrfs_err(NULL, "send_prefetch_window must be a number of bytes, not '%.*s'",
			  (int)strcspn(val, "\n"), val);
		return ret;
	}
	if (window && (window < PREFETCH_MIN_WINDOW || (max && window > max))) {
		btrfs_err(NULL, "send_prefetch_window must be 0 (automatic) or from %u (two of the largest nodes) to %llu (half of the memory) bytes, not %llu",
			  PREFETCH_MIN_WINDOW, max ?: U64_MAX, window);
		return -EINVAL;
	}
	WRITE_ONCE(send_prefetch_window, window);
	return 0;
}

static const struct kernel_param_ops send_prefetch_window_ops = {
	.set = send_prefetch_window_set,
	.get = param_get_ullong,
};

module_param_cb(send_prefetch_window, &send_prefetch_window_ops,
		&send_prefetch_window, 0644);
MODULE_PARM_DESC(send_prefetch_window,
		 "Bytes of tree blocks and file data a send reads ahead and keeps in memory (default 0: automatic)");

static bool send_prefetch_data = true;
module_param(send_prefetch_data, bool, 0644);
MODULE_PARM_DESC(send_prefetch_data, "Read ahead file data as well (default Y)");

/* One block of the window, numbered by its place in the order of keys. */
struct prefetch_block {
	struct btrfs_tree_block_readahead ra;
	/* Where the walk needs it, or has it needed last if that is looked up. */
	struct btrfs_key key;
	/* Its read was submitted, or found not to be necessary. */
	bool submitted;
	/* It was counted as one that the walk needs. */
	bool needed;
	/* Of the send root, not of the parent root. */
	bool left;
	/* Not read by the compare itself. */
	bool lookup;
};

/* What is done for lookups, of one round of leaves after the other. */
enum prefetch_lookup_state {
	/* What the last round has found was or is being read. */
	PREFETCH_LOOKUPS_READ,
	/* Leaves are searched for what they look up. */
	PREFETCH_LOOKUPS_COLLECT,
	/* That is followed down the trees. */
	PREFETCH_LOOKUPS_FOLLOW,
};

/* A part of the queue that is submitted in one sweep, see init_lanes(). */
struct prefetch_lane {
	u32 next;
	u32 end;
};

/* Looks ahead in one of the two trees, down to level 1. */
struct prefetch_cursor {
	struct btrfs_root *root;
	/* The node of the root level is a clone, as that of the walk itself. */
	struct extent_buffer *nodes[BTRFS_MAX_LEVEL];
	int slots[BTRFS_MAX_LEVEL];
	/* Slot up to which the children of a node were read ahead. */
	int ahead[BTRFS_MAX_LEVEL];
	struct btrfs_key key;
	/* Nothing below this key is needed. */
	struct btrfs_key start;
	int level;
	int root_level;
	/* There is nothing (more) to see in this tree. */
	bool end;
};

struct btrfs_send_prefetch {
	struct btrfs_fs_info *fs_info;
	struct prefetch_cursor cursors[2];
	u64 last_reloc_trans;
	/* Between a successful restart and the end or the first error. */
	bool running;

	/* The window: blocks head to tail - 1, at index & (ring_size - 1). */
	struct prefetch_block *ring;
	u32 ring_size;
	u32 head;
	u32 tail;
	bool filling;

	/* What it and the window of file data may hold together, in bytes. */
	u64 window;
	bool fixed;
	/* Its size now and the bounds of that, and what was seen of it lately. */
	u32 max_blocks;
	u32 min_blocks;
	u32 limit_blocks;
	u32 nr_late;
	u32 calm_fills;

	/* Numbers of the blocks to submit, each lane sorted for one sweep. */
	u32 *queue;
	struct prefetch_lane lanes[PREFETCH_MAX_LANES];
	u32 nr_lanes;
	u32 lane;
	/* Blocks the lane has submitted in its turn. */
	u32 turn;
	/* Each lane reads a copy of its own. */
	bool mirrors;
	/* Behind the lanes: numbers not sorted in yet. */
	u32 queue_len;
	bool queue_sorted;
	u64 sweep;

	/*
	 * Requests submitted, oldest first, some may be finished: of each the
	 * number of its last block. Neighbours are one request.
	 */
	u32 inflight[PREFETCH_DEPTH * PREFETCH_MAX_LANES];
	u32 nr_inflight;
	u32 depth;
	/* The block submitted last, and the bytes of its request. */
	u32 last;
	u32 request_bytes;
	/* To what size neighbours are merged. */
	u32 max_request_bytes;

	/* What btrfs_send_prefetch_wait() waits for, with a reference. */
	struct extent_buffer *wait_eb;

	u32 max_nodes;
	struct btrfs_tree_block_readahead nodes[PREFETCH_MAX_NODES];

	/* What leaves look up, or NULL. */
	struct prefetch_lookups *lookups;
	enum prefetch_lookup_state lookup_state;
	/* The first block not searched for it, and the first whose is not read. */
	u32 collected;
	u32 looked_up;

	/* The window of file data, or NULL. */
	struct prefetch_data *data;
	/* The first block that was not looked into for file data. */
	u32 searched;
	/* What searches for clones will read, or NULL; from extents found as for data. */
	struct prefetch_walks *walks;
	bool data_walks;
};

static struct prefetch_block *block_at(const struct btrfs_send_prefetch *p, u32 nr)
{
	return &p->ring[nr & (p->ring_size - 1)];
}

static bool in_window(const struct btrfs_send_prefetch *p, u32 nr)
{
	return nr - p->head < p->tail - p->head;
}

/**
 * prefetch_count() - count one more
 * @fs_info:	in whose statistics
 * @counter:	of what
 *
 * Context: Any.
 */
void prefetch_count(struct btrfs_fs_info *fs_info, enum btrfs_send_prefetch_counter counter)
{
	atomic64_inc(&fs_info->send_prefetch_stats.counters[counter]);
}

static u64 send_root_id(const struct btrfs_send_prefetch *p)
{
	return btrfs_root_id(p->cursors[0].root);
}

static u64 parent_root_id(const struct btrfs_send_prefetch *p)
{
	return p->cursors[1].root ? btrfs_root_id(p->cursors[1].root) : 0;
}

static bool block_in_flight(const struct prefetch_block *block)
{
	return block->ra.eb && extent_buffer_reading(block->ra.eb);
}

/*
 * Somebody waits for the semaphore, the cpu or our end: leave as soon as
 * possible, the walk drops the semaphore and comes back.
 */
static bool must_leave(const struct btrfs_send_prefetch *p)
{
	return rwsem_is_contended(&p->fs_info->commit_root_sem) ||
	       need_resched() || fatal_signal_pending(current);
}

/* May blocks be read through the commit roots now? */
static bool may_read(const struct btrfs_send_prefetch *p)
{
	lockdep_assert_held_read(&p->fs_info->commit_root_sem);

	/*
	 * While a relocation runs, blocks of our roots may have been freed in
	 * the running transaction and be reused as soon as it is committed.
	 * btrfs_init_new_buffer() does not wait for reads in flight.
	 */
	return p->fs_info->last_reloc_trans == p->last_reloc_trans &&
	       !test_bit(BTRFS_FS_RELOC_RUNNING, &p->fs_info->flags);
}

/**
 * prefetch_in_memory() - need a tree block not be read?
 * @fs_info:	it is of
 * @bytenr:	of the block
 *
 * Return: true if it is in memory, or being read.
 */
bool prefetch_in_memory(struct btrfs_fs_info *fs_info, u64 bytenr)
{
	struct extent_buffer *eb = find_extent_buffer(fs_info, bytenr);
	const bool found = eb && (extent_buffer_uptodate(eb) || extent_buffer_reading(eb));

	free_extent_buffer(eb);
	return found;
}

/**
 * prefetch_init_readahead() - describe a child of a node to read it ahead
 * @ra:		is set, without eb and mirror
 * @node:	the node, in memory and not changing
 * @slot:	of the child
 */
void prefetch_init_readahead(struct btrfs_tree_block_readahead *ra,
			     const struct extent_buffer *node, int slot)
{
	ra->bytenr = btrfs_node_blockptr(node, slot);
	ra->generation = btrfs_node_ptr_generation(node, slot);
	ra->owner_root = btrfs_header_owner(node);
	ra->level = btrfs_header_level(node) - 1;
	btrfs_node_key_to_cpu(node, &ra->first_key, slot);
	ra->eb = NULL;
}

/**
 * prefetch_cmp_readahead() - compare two tree blocks by their bytenr
 * @a:	described by prefetch_init_readahead()
 * @b:	as well
 *
 * Return: as sort() needs it.
 */
int prefetch_cmp_readahead(const void *a, const void *b)
{
	const struct btrfs_tree_block_readahead *ra = a;
	const struct btrfs_tree_block_readahead *rb = b;

	return (ra->bytenr > rb->bytenr) - (ra->bytenr < rb->bytenr);
}

/**
 * prefetch_readahead() - read ahead tree blocks, in the order of the disk
 * @fs_info:	they are of
 * @blocks:	described by prefetch_init_readahead(); are sorted by bytenr
 * @nr:		of them
 *
 * To be followed by prefetch_release_readahead().
 */
void prefetch_readahead(struct btrfs_fs_info *fs_info,
			struct btrfs_tree_block_readahead *blocks, u32 nr)
{
	sort(blocks, nr, sizeof(blocks[0]), prefetch_cmp_readahead, NULL);
	btrfs_readahead_tree_blocks(fs_info, blocks, nr);
}

/**
 * prefetch_release_readahead() - drop the references to tree blocks read ahead
 * @blocks:	that prefetch_readahead() was told
 * @nr:		of them
 */
void prefetch_release_readahead(struct btrfs_tree_block_readahead *blocks, u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		free_extent_buffer(blocks[i].eb);
}

/* Cursors */

static void release_cursor(struct prefetch_cursor *cur)
{
	for (int level = 0; level < BTRFS_MAX_LEVEL; level++) {
		free_extent_buffer(cur->nodes[level]);
		cur->nodes[level] = NULL;
	}
	cur->end = true;
}

/* Go to the next child pointer, up the tree where a node has no more. */
static void cursor_next(struct prefetch_cursor *cur)
{
	cur->slots[cur->level]++;
	while (cur->slots[cur->level] >= btrfs_header_nritems(cur->nodes[cur->level])) {
		if (cur->level == cur->root_level) {
			cur->end = true;
			return;
		}
		free_extent_buffer(cur->nodes[cur->level]);
		cur->nodes[cur->level] = NULL;
		cur->level++;
		cur->slots[cur->level]++;
	}
	btrfs_node_key_to_cpu(cur->nodes[cur->level], &cur->key, cur->slots[cur->level]);
}

/* Stand at the first child of the cursor's new node that may be needed. */
static int enter_node(struct prefetch_cursor *cur)
{
	struct extent_buffer *eb = cur->nodes[cur->level];
	int slot;
	int ret;

	ret = btrfs_bin_search(eb, 0, &cur->start, &slot);
	if (ret < 0)
		return ret;
	if (ret && slot > 0)
		slot--;
	cur->slots[cur->level] = slot;
	cur->ahead[cur->level] = slot;
	btrfs_node_key_to_cpu(eb, &cur->key, slot);
	return 0;
}

/* What btrfs_send_prefetch_wait() waits for; takes over the reference. */
static void set_wait_eb(struct btrfs_send_prefetch *p, struct extent_buffer *eb)
{
	free_extent_buffer(p->wait_eb);
	p->wait_eb = eb;
}

/*
 * Enter the node the cursor points to. Returns -EAGAIN if its read is still in
 * flight, which is then what there is to wait for.
 */
static int cursor_down(struct btrfs_send_prefetch *p, struct prefetch_cursor *cur)
{
	struct extent_buffer *parent = cur->nodes[cur->level];
	const int slot = cur->slots[cur->level];
	struct extent_buffer *eb;

	ASSERT(cur->level > 1);
	eb = find_extent_buffer(p->fs_info, btrfs_node_blockptr(parent, slot));
	if (eb && extent_buffer_reading(eb)) {
		set_wait_eb(p, eb);
		return -EAGAIN;
	}
	free_extent_buffer(eb);

	eb = btrfs_read_node_slot(parent, slot);
	if (IS_ERR(eb))
		return PTR_ERR(eb);
	cur->level--;
	cur->nodes[cur->level] = eb;
	return enter_node(cur);
}

static bool same_child(const struct extent_buffer *left, int left_slot,
		       const struct extent_buffer *right, int right_slot)
{
	return btrfs_node_blockptr(left, left_slot) ==
	       btrfs_node_blockptr(right, right_slot) &&
	       btrfs_node_ptr_generation(left, left_slot) ==
	       btrfs_node_ptr_generation(right, right_slot);
}

/* Begin at the root, with what may hold @start. */
static int start_cursor(struct prefetch_cursor *cur, const struct btrfs_key *start)
{
	const struct extent_buffer *root_node = cur->root->commit_root;

	cur->start = *start;
	cur->root_level = btrfs_header_level(root_node);
	/* A root that is a leaf is in memory and has no blocks below. */
	if (cur->root_level == 0)
		return 0;

	/* Snapshotting the root may free the node, see btrfs_compare_trees(). */
	cur->level = cur->root_level;
	cur->nodes[cur->level] = btrfs_clone_extent_buffer(root_node);
	if (!cur->nodes[cur->level])
		return -ENOMEM;
	cur->end = false;
	return enter_node(cur);
}

static void count_read(struct btrfs_send_prefetch *p, const struct extent_buffer *eb)
{
	if (!eb)
		return;
	if (extent_buffer_reading(eb))
		prefetch_count(p->fs_info, BTRFS_SEND_PREFETCH_READS);
	else
		prefetch_count(p->fs_info, BTRFS_SEND_PREFETCH_CACHED);
}

/*
 * Before a cursor enters a node of level 1 or above: read ahead that node and
 * the next ones not shared, of both trees, so that one wait brings many.
 */
static void read_nodes_ahead(struct btrfs_send_prefetch *p, int level)
{
	const struct extent_buffer *nodes[2];
	int slots[2];
	int nritems[2];
	int nr = 0;

	for (int i = 0; i < 2; i++) {
		const struct prefetch_cursor *cur = &p->cursors[i];

		nodes[i] = (!cur->end && level <= cur->root_level) ? cur->nodes[level] : NULL;
		nritems[i] = nodes[i] ? btrfs_header_nritems(nodes[i]) : 0;
		/* A cursor that is below this level has read its node there. */
		slots[i] = nodes[i] ? cur->slots[level] + (cur->level < level) : 0;
	}

	while (nr < p->max_nodes) {
		struct btrfs_key keys[2];
		int cmp;

		if (slots[0] >= nritems[0] && slots[1] >= nritems[1])
			break;
		for (int i = 0; i < 2; i++) {
			if (slots[i] < nritems[i])
				btrfs_node_key_to_cpu(nodes[i], &keys[i], slots[i]);
		}
		if (slots[0] >= nritems[0])
			cmp = 1;
		else if (slots[1] >= nritems[1])
			cmp = -1;
		else
			cmp = btrfs_comp_cpu_keys(&keys[0], &keys[1]);

		if (cmp == 0 && same_child(nodes[0], slots[0], nodes[1], slots[1])) {
			slots[0]++;
			slots[1]++;
			continue;
		}
		for (int i = 0; i < 2; i++) {
			struct prefetch_cursor *cur = &p->cursors[i];

			if ((i == 0 && cmp > 0) || (i == 1 && cmp < 0))
				continue;
			if (slots[i] >= cur->ahead[level] && nr < PREFETCH_MAX_NODES) {
				prefetch_init_readahead(&p->nodes[nr++], nodes[i], slots[i]);
				cur->ahead[level] = slots[i] + 1;
			}
			slots[i]++;
		}
	}

	prefetch_readahead(p->fs_info, p->nodes, nr);
	for (int i = 0; i < nr; i++)
		count_read(p, p->nodes[i].eb);
	prefetch_release_readahead(p->nodes, nr);
}

/* Put a child of the cursor's node at a level at the end of the window. */
static void add_block(struct btrfs_send_prefetch *p, const struct prefetch_cursor *cur,
		      int level)
{
	struct prefetch_block *block = block_at(p, p->tail);
	struct extent_buffer *eb = cur->nodes[level - 1];

	prefetch_init_readahead(&block->ra, cur->nodes[level], cur->slots[level]);
	block->key = block->ra.first_key;
	block->submitted = !!eb;
	block->needed = false;
	block->left = (cur == &p->cursors[0]);
	block->lookup = false;
	if (eb) {
		block->ra.eb = extent_buffer_get(eb);
	} else {
		p->queue[p->queue_len++] = p->tail;
		p->queue_sorted = false;
	}
	p->tail++;
}

/* Put a leaf that is looked up there, until the walk has passed all before it. */
static void add_lookup(struct btrfs_send_prefetch *p,
		       const struct btrfs_tree_block_readahead *ra)
{
	struct prefetch_block *block = block_at(p, p->tail);

	*block = (struct prefetch_block) {
		.ra = *ra,
		/* Only used while the block before it is in the window. */
		.key = block_at(p, p->tail - 1)->key,
		/* Not by the compare. */
		.needed = true,
		.lookup = true,
	};
	p->queue[p->queue_len++] = p->tail;
	p->queue_sorted = false;
	p->tail++;
	prefetch_count(p->fs_info, BTRFS_SEND_PREFETCH_LOOKUPS);
}

/*
 * One cursor reads what it points to: a leaf goes into the window and is read
 * later, a node is entered, and goes into the window so that it stays in memory
 * for the walk.
 */
static int cursor_read(struct btrfs_send_prefetch *p, struct prefetch_cursor *cur)
{
	const int level = cur->level;
	int ret;

	if (level == 1) {
		add_block(p, cur, level);
		cursor_next(cur);
		return 0;
	}

	if (cur->slots[level] >= cur->ahead[level])
		read_nodes_ahead(p, level);
	ret = cursor_down(p, cur);
	if (ret < 0)
		return ret;
	add_block(p, cur, level);
	return 0;
}

/*
 * One step of the walk that btrfs_compare_trees() does, on nodes. Adds at most
 * two blocks to the window, and they do not go back in the order of keys. If
 * it returns -EAGAIN, what is left of it is done by the next step.
 */
static int step(struct btrfs_send_prefetch *p)
{
	struct prefetch_cursor *left = &p->cursors[0];
	struct prefetch_cursor *right = &p->cursors[1];
	int cmp;
	int ret;

	if (right->end)
		return cursor_read(p, left);
	if (left->end)
		return cursor_read(p, right);

	cmp = btrfs_comp_cpu_keys(&left->key, &right->key);
	if (left->level < right->level)
		return cursor_read(p, cmp < 0 ? left : right);
	if (left->level > right->level)
		return cursor_read(p, cmp > 0 ? right : left);

	if (cmp == 0 && same_child(left->nodes[left->level], left->slots[left->level],
				   right->nodes[right->level], right->slots[right->level])) {
		cursor_next(left);
		cursor_next(right);
		return 0;
	}
	if (cmp <= 0) {
		ret = cursor_read(p, left);
		if (ret < 0)
			return ret;
	}
	if (cmp >= 0) {
		ret = cursor_read(p, right);
		if (ret < 0)
			return ret;
	}
	return 0;
}

/* The window */

static bool at_end(const struct btrfs_send_prefetch *p)
{
	return p->cursors[0].end && p->cursors[1].end;
}

/*
 * Forget what was submitted, or is not needed any more. What is not sorted yet is
 * in no lane.
 */
static void compact_queue(struct btrfs_send_prefetch *p)
{
	u32 len = 0;

	for (u32 nr = 0; !p->queue_sorted && nr < p->queue_len; nr++) {
		if (in_window(p, p->queue[nr]))
			p->queue[len++] = p->queue[nr];
	}
	for (u32 i = 0; i < p->nr_lanes; i++) {
		struct prefetch_lane *lane = &p->lanes[i];

		for (u32 nr = lane->next; nr < lane->end; nr++) {
			if (in_window(p, p->queue[nr]))
				p->queue[len++] = p->queue[nr];
		}
		lane->next = 0;
		lane->end = 0;
	}
	p->queue_len = len;
	p->queue_sorted = false;
}

/* The part of the memory that a window may take at most now. */
static u64 available_bytes(void)
{
	return ((u64)max(si_mem_available(), 0L) << PAGE_SHIFT) / 4;
}

/*
 * Before the window is filled up: more of it where the walk had to wait, as the
 * larger it is the shorter are the ways of the disk, and less where it did not
 * have to wait for a while. Never more than a part of the memory that can be
 * had without swapping.
 */
static void resize_window(struct btrfs_send_prefetch *p)
{
	/* In large steps, the memory available changes all the time. */
	const u32 blocks = rounddown_pow_of_two(clamp_t(u64,
				div_u64(available_bytes(), p->fs_info->nodesize), 4, U32_MAX));
	u32 new = p->max_blocks;

	if (p->nr_late) {
		new = min(2 * new, p->limit_blocks);
		p->calm_fills = 0;
	} else if (++p->calm_fills >= PREFETCH_CALM_FILLS) {
		new = max(new / 2, p->min_blocks);
		p->calm_fills = 0;
	}
	new = min(new, blocks);
	if (new != p->max_blocks)
		trace_btrfs_send_prefetch_resize(p->fs_info->fs_devices->fsid,
						 send_root_id(p), p->max_blocks,
						 new, p->nr_late);
	p->max_blocks = new;
	p->nr_late = 0;
}

/* Fill the window up once half of it was used. */
static void fill_window(struct btrfs_send_prefetch *p)
{
	u32 max_blocks;

	if (at_end(p))
		return;
	if (!p->filling) {
		if (p->tail - p->head > p->max_blocks / 2)
			return;
		resize_window(p);
		compact_queue(p);
		p->filling = true;
		prefetch_count(p->fs_info, BTRFS_SEND_PREFETCH_FILLS);
	} else if (p->queue_sorted) {
		compact_queue(p);
	}

	max_blocks = p->max_blocks;
	if (p->lookups)
		max_blocks -= max_blocks / PREFETCH_LOOKUP_SHARE;
	/* A step adds at most two blocks. */
	while (!at_end(p) && p->tail - p->head + 2 <= max_blocks) {
		int ret;

		/* What the walk has passed meanwhile is still there. */
		if (p->queue_len + 2 > p->ring_size)
			compact_queue(p);
		ret = step(p);
		if (ret == -EAGAIN)
			return;
		/* The walk will meet the same error, and report it. */
		if (ret < 0) {
			release_cursor(&p->cursors[0]);
			release_cursor(&p->cursors[1]);
			break;
		}
		/* At the end there is nothing to come back for. */
		if (!at_end(p) && must_leave(p))
			return;
	}
	p->filling = false;
	trace_btrfs_send_prefetch_fill(p->fs_info->fs_devices->fsid, send_root_id(p),
				       parent_root_id(p), p->tail - p->head,
				       p->max_blocks, p->queue_len);
}

/* From the place the last sweep has reached upwards, then around. */
static int cmp_sweep(const void *a, const void *b, const void *priv)
{
	const struct btrfs_send_prefetch *p = priv;
	const u64 da = block_at(p, *(const u32 *)a)->ra.bytenr - p->sweep;
	const u64 db = block_at(p, *(const u32 *)b)->ra.bytenr - p->sweep;

	return (da > db) - (da < db);
}

/* The cost of a block of the sorted queue; with a neighbour it is one request. */
static u64 block_cost(const struct btrfs_send_prefetch *p, u32 i)
{
	if (i > 0 && block_at(p, p->queue[i])->ra.bytenr ==
		     block_at(p, p->queue[i - 1])->ra.bytenr + p->fs_info->nodesize)
		return 1;
	return PREFETCH_REQUEST_COST;
}

/* Sort the queue and share it out so that all lanes come to their end together. */
static void sort_queue(struct btrfs_send_prefetch *p)
{
	u64 total = 0;
	u64 cost = 0;
	u32 next = 0;

	sort_r(p->queue, p->queue_len, sizeof(p->queue[0]), cmp_sweep, NULL, p);
	for (u32 i = 0; i < p->queue_len; i++)
		total += block_cost(p, i);
	for (u32 i = 0; i < p->nr_lanes; i++) {
		p->lanes[i].next = next;
		while (next < p->queue_len && cost * p->nr_lanes < total * (i + 1))
			cost += block_cost(p, next++);
		p->lanes[i].end = next;
	}
	p->lane = 0;
	p->turn = 0;
	p->queue_sorted = true;
}

static void end_turn(struct btrfs_send_prefetch *p)
{
	p->lane = (p->lane + 1) % p->nr_lanes;
	p->turn = 0;
}

/* The lane to submit from, in turn, or NULL if all are empty. */
static struct prefetch_lane *next_lane(struct btrfs_send_prefetch *p)
{
	for (u32 i = 0; i < p->nr_lanes; i++) {
		struct prefetch_lane *lane = &p->lanes[p->lane];

		if (lane->next < lane->end)
			return lane;
		end_turn(p);
	}
	return NULL;
}

static void retire_reads(struct btrfs_send_prefetch *p)
{
	u32 nr = 0;

	for (u32 i = 0; i < p->nr_inflight; i++) {
		const u32 block = p->inflight[i];

		if (in_window(p, block) && block_in_flight(block_at(p, block)))
			p->inflight[nr++] = block;
	}
	p->nr_inflight = nr;
}

/* Was all of the window read? */
static bool window_ready(struct btrfs_send_prefetch *p)
{
	if (p->filling || next_lane(p))
		return false;
	retire_reads(p);
	return p->nr_inflight == 0;
}

/* Is what the walk reads next in memory, as far as we can tell? */
static bool head_ready(const struct btrfs_send_prefetch *p)
{
	const struct prefetch_block *first;

	if (p->head == p->tail)
		return at_end(p);
	first = block_at(p, p->head);
	for (u32 nr = p->head; nr != p->tail; nr++) {
		const struct prefetch_block *block = block_at(p, nr);

		/* The walk enters blocks with the same key one after the other. */
		if (btrfs_comp_cpu_keys(&block->key, &first->key))
			break;
		if (!block->submitted || block_in_flight(block))
			return false;
	}
	return true;
}

/* Count the blocks the walk needs now. */
static void need_head(struct btrfs_send_prefetch *p)
{
	const u8 *fsid = p->fs_info->fs_devices->fsid;

	for (u32 nr = p->head; nr != p->tail; nr++) {
		struct prefetch_block *block = block_at(p, nr);
		const struct btrfs_tree_block_readahead *ra = &block->ra;

		if (btrfs_comp_cpu_keys(&block->key, &block_at(p, p->head)->key))
			break;
		if (block->needed)
			continue;
		block->needed = true;
		if (!block->submitted || block_in_flight(block)) {
			p->nr_late++;
			prefetch_count(p->fs_info, BTRFS_SEND_PREFETCH_LATE);
			if (block->submitted)
				trace_btrfs_send_prefetch_late(fsid, ra->owner_root,
							       ra->bytenr, ra->generation,
							       ra->level);
			else
				trace_btrfs_send_prefetch_caught_up(fsid, ra->owner_root,
								    ra->bytenr,
								    ra->generation,
								    ra->level);
		} else if (!ra->eb || !extent_buffer_uptodate(ra->eb)) {
			prefetch_count(p->fs_info, BTRFS_SEND_PREFETCH_LOST);
			trace_btrfs_send_prefetch_lost(fsid, ra->owner_root, ra->bytenr,
						       ra->generation, ra->level);
		} else {
			prefetch_count(p->fs_info, BTRFS_SEND_PREFETCH_HITS);
		}
	}
}

/* Is there room for one more request that does not have to wait? */
static bool has_room(struct btrfs_send_prefetch *p, u32 depth)
{
	if (p->nr_inflight >= depth)
		retire_reads(p);
	return p->nr_inflight < depth;
}

/* Will the next block of the lane be merged with the one submitted last? */
static bool joins_last(const struct btrfs_send_prefetch *p, const struct prefetch_lane *lane)
{
	const struct btrfs_tree_block_readahead *ra;

	if (lane->next >= lane->end || p->nr_inflight == 0 ||
	    p->inflight[p->nr_inflight - 1] != p->last)
		return false;
	ra = &block_at(p, p->queue[lane->next])->ra;
	return ra->bytenr == p->sweep + p->fs_info->nodesize &&
	       p->request_bytes + p->fs_info->nodesize <= p->max_request_bytes;
}

static void submit_block(struct btrfs_send_prefetch *p, u32 nr, u8 mirror_num, bool join)
{
	struct prefetch_block *block = block_at(p, nr);

	block->ra.mirror_num = mirror_num;
	btrfs_readahead_tree_blocks(p->fs_info, &block->ra, 1);
	block->submitted = true;
	count_read(p, block->ra.eb);
	if (!block_in_flight(block))
		return;

	if (!join) {
		ASSERT(p->nr_inflight < ARRAY_SIZE(p->inflight));
		p->nr_inflight++;
		p->request_bytes = 0;
	}
	p->inflight[p->nr_inflight - 1] = nr;
	p->request_bytes += p->fs_info->nodesize;
	p->last = nr;
	p->sweep = block->ra.bytenr;
}

/*
 * Submit of the queue what a disk takes at once. If the walk has to wait anyway,
 * top up the disk's queue, otherwise wait for room for several requests, as
 * only neighbours in one plug are merged.
 */
static void submit_queue(struct btrfs_send_prefetch *p, bool late)
{
	struct prefetch_lane *lane;
	struct blk_plug plug;
	u32 submitted = 0;

	if (!p->queue_sorted)
		sort_queue(p);
	if (!next_lane(p) || !has_room(p, late ? p->depth : p->depth / 2 + 1))
		return;

	blk_start_plug(&plug);
	while ((lane = next_lane(p))) {
		const u32 nr = p->queue[lane->next];
		const bool join = joins_last(p, lane);

		if (!join && !has_room(p, p->depth))
			break;
		lane->next++;
		if (in_window(p, nr)) {
			submit_block(p, nr, p->mirrors ? p->lane + 1 : 0, join);
			submitted++;
		}
		if (++p->turn >= PREFETCH_TURN && !joins_last(p, lane))
			end_turn(p);
		if (must_leave(p))
			break;
	}
	blk_finish_plug(&plug);

	if (submitted && trace_btrfs_send_prefetch_submit_enabled()) {
		u32 left = 0;

		for (u32 i = 0; i < p->nr_lanes; i++)
			left += p->lanes[i].end - p->lanes[i].next;
		trace_btrfs_send_prefetch_submit(p->fs_info->fs_devices->fsid,
						 send_root_id(p), submitted, left,
						 p->sweep, late);
	}
}

/*
 * Choose what to wait for if the walk cannot go on: room for more requests, as
 * long as there are any to submit, so that the disk always has work.
 */
static void choose_wait(struct btrfs_send_prefetch *p)
{
	struct extent_buffer *eb = NULL;

	/* The node that the cursors or the lookups need to go on, if any. */
	if (p->filling || p->wait_eb)
		return;
	if (next_lane(p)) {
		/* With room left, only the semaphore or the cpu was asked for. */
		if (!has_room(p, p->depth))
			eb = block_at(p, p->inflight[p->nr_inflight / 2])->ra.eb;
	} else {
		for (u32 nr = p->head; nr != p->tail && !eb; nr++) {
			if (block_in_flight(block_at(p, nr)))
				eb = block_at(p, nr)->ra.eb;
		}
	}
	set_wait_eb(p, eb ? extent_buffer_get(eb) : NULL);
}

/*
 * Look for file data in a block, unless it is a node or of the parent root, or
 * could not be read.
 */
static void search_block(struct btrfs_send_prefetch *p, const struct prefetch_block *block)
{
	const struct extent_buffer *eb = block->ra.eb;

	if (block->left && block->ra.level == 0 && eb && extent_buffer_uptodate(eb) &&
	    btrfs_header_level(eb) == 0)
		prefetch_data_add_leaf(p->data, eb);
}

/* Look for file data as far as leaves are in memory, and the data fits in. */
static void search_blocks(struct btrfs_send_prefetch *p)
{
	prefetch_data_add_pending(p->data);
	while (p->searched != p->tail && prefetch_data_has_room(p->data)) {
		const struct prefetch_block *block = block_at(p, p->searched);

		if (!block->submitted || block_in_flight(block))
			break;
		search_block(p, block);
		p->searched++;
	}
}

/* Search a block for what is looked up. Returns false if there is no room for it. */
static bool collect_lookups(struct btrfs_send_prefetch *p, const struct prefetch_block *block)
{
	const struct extent_buffer *eb = block->ra.eb;

	if (block->lookup || block->ra.level > 0 || !eb || !extent_buffer_uptodate(eb) ||
	    btrfs_header_level(eb) > 0)
		return true;
	return prefetch_lookups_add_leaf(p->lookups, eb);
}

/* Add what is looked up to the window. Returns true if that is all. */
static bool follow_lookups(struct btrfs_send_prefetch *p)
{
	struct extent_buffer *roots[2];
	struct extent_buffer *wait_eb = NULL;
	struct btrfs_tree_block_readahead ra;

	for (int i = 0; i < 2; i++) {
		const struct prefetch_cursor *cur = &p->cursors[i];

		roots[i] = cur->nodes[cur->root_level];
	}
	compact_queue(p);
	while (p->tail - p->head < p->max_blocks) {
		const int ret = prefetch_lookups_next(p->lookups, roots, &ra, &wait_eb);

		if (ret == 0)
			return true;
		if (ret > 0)
			add_lookup(p, &ra);
		if (wait_eb) {
			set_wait_eb(p, wait_eb);
			break;
		}
		if (must_leave(p))
			break;
	}
	return false;
}

/*
 * Once all of the window is in memory: have read what its leaves look up, which
 * may take several rounds.
 */
static void find_lookups(struct btrfs_send_prefetch *p)
{
	if (!p->lookups || !window_ready(p))
		return;

	switch (p->lookup_state) {
	case PREFETCH_LOOKUPS_READ:
		p->looked_up = p->collected;
		if (p->collected == p->tail)
			return;
		p->lookup_state = PREFETCH_LOOKUPS_COLLECT;
		fallthrough;
	case PREFETCH_LOOKUPS_COLLECT:
		while (p->collected != p->tail &&
		       collect_lookups(p, block_at(p, p->collected))) {
			p->collected++;
			if (must_leave(p))
				return;
		}
		prefetch_lookups_sort(p->lookups);
		p->lookup_state = PREFETCH_LOOKUPS_FOLLOW;
		fallthrough;
	case PREFETCH_LOOKUPS_FOLLOW:
		if (follow_lookups(p))
			p->lookup_state = PREFETCH_LOOKUPS_READ;
	}
}

/* Is there what the walk looks up for what it reads next, as far as there is room? */
static bool lookups_ready(const struct btrfs_send_prefetch *p)
{
	if (!p->lookups || p->head == p->tail || (s32)(p->looked_up - p->head) > 0)
		return true;
	return p->lookup_state == PREFETCH_LOOKUPS_FOLLOW && p->tail - p->head >= p->max_blocks;
}

/* May the walk go on, as far as we can tell? */
static bool is_ready(const struct btrfs_send_prefetch *p)
{
	return head_ready(p) && lookups_ready(p);
}

static void drop_lookups(struct btrfs_send_prefetch *p)
{
	p->collected = p->head;
	p->looked_up = p->head;
	p->lookup_state = PREFETCH_LOOKUPS_READ;
	if (p->lookups)
		prefetch_lookups_reset(p->lookups);
}

static void release_head(struct btrfs_send_prefetch *p)
{
	struct prefetch_block *block = block_at(p, p->head);

	free_extent_buffer(block->ra.eb);
	block->ra.eb = NULL;
	if (p->collected == p->head)
		p->collected++;
	if (p->looked_up == p->head)
		p->looked_up++;
	p->head++;
}

/* Unpin what the walk has passed. Returns true if there was something. */
static bool use_blocks(struct btrfs_send_prefetch *p, const struct btrfs_key *key)
{
	const u32 head = p->head;

	while (p->head != p->tail) {
		const struct prefetch_block *block = block_at(p, p->head);

		if (btrfs_comp_cpu_keys(&block->key, key) >= 0)
			break;
		if (!block->needed)
			need_head(p);
		if (p->searched == p->head) {
			/* It is not pinned any more after this. */
			if (p->data)
				search_block(p, block);
			p->searched++;
		}
		release_head(p);
	}
	return p->head != head;
}

static void drop_all(struct btrfs_send_prefetch *p)
{
	while (p->head != p->tail) {
		const struct prefetch_block *block = block_at(p, p->head);
		const struct btrfs_tree_block_readahead *ra = &block->ra;

		if (!block->needed && ra->eb) {
			prefetch_count(p->fs_info, BTRFS_SEND_PREFETCH_UNUSED);
			trace_btrfs_send_prefetch_unused(p->fs_info->fs_devices->fsid,
							 ra->owner_root, ra->bytenr,
							 ra->generation, ra->level);
		}
		release_head(p);
	}
	p->searched = p->head;
	drop_lookups(p);
	compact_queue(p);
	set_wait_eb(p, NULL);
	p->nr_inflight = 0;
	p->filling = false;
	for (int i = 0; i < 2; i++)
		release_cursor(&p->cursors[i]);
	p->running = false;
}

/*
 * Requests a disk takes without making us wait for a tag, and their largest
 * size; a stripe over several disks can only take more.
 */
static void init_depth(struct btrfs_send_prefetch *p)
{
	struct btrfs_fs_devices *fs_devices = p->fs_info->fs_devices;
	struct btrfs_device *device;
	u32 depth = PREFETCH_DEPTH;
	u32 sectors = SZ_4M >> SECTOR_SHIFT;

	mutex_lock(&fs_devices->device_list_mutex);
	list_for_each_entry(device, &fs_devices->devices, dev_list) {
		if (!device->bdev)
			continue;
		depth = min_t(u32, depth, bdev_get_queue(device->bdev)->nr_requests);
		sectors = min(sectors, queue_max_sectors(bdev_get_queue(device->bdev)));
	}
	mutex_unlock(&fs_devices->device_list_mutex);

	p->depth = max(depth, 1U) * (p->mirrors ? p->nr_lanes : 1);
	p->max_request_bytes = sectors << SECTOR_SHIFT;
}

/*
 * How many sweeps over the window go on at once. One is best for one disk with
 * seeks. Copies of the blocks that lie on disks of their own can each read a
 * part of the window; without that the mirror is chosen by process id. Without
 * seeks the order does not matter, but it does that runs of blocks, limited by
 * the bandwidth, and scattered ones, limited by the requests the disk takes a
 * second, are in flight at the same time, and they lie in different places.
 */
static void init_lanes(struct btrfs_send_prefetch *p)
{
	const struct btrfs_fs_info *fs_info = p->fs_info;
	const u64 profile = fs_info->avail_metadata_alloc_bits & BTRFS_BLOCK_GROUP_PROFILE_MASK;

	p->nr_lanes = 1;
	if (!fs_info->fs_devices->rotating) {
		p->nr_lanes = PREFETCH_MAX_LANES;
		return;
	}
	if (fs_info->fs_devices->missing_devices)
		return;
	switch (profile) {
	case BTRFS_BLOCK_GROUP_RAID1:
	case BTRFS_BLOCK_GROUP_RAID10:
		p->nr_lanes = 2;
		break;
	case BTRFS_BLOCK_GROUP_RAID1C3:
		p->nr_lanes = 3;
		break;
	case BTRFS_BLOCK_GROUP_RAID1C4:
		p->nr_lanes = 4;
		break;
	}
	p->mirrors = p->nr_lanes > 1;
}

/* Bytes of all blocks of both trees. */
static u64 tree_bytes(const struct btrfs_send_prefetch *p)
{
	u64 used = 0;

	for (int i = 0; i < 2; i++) {
		if (p->cursors[i].root)
			used += btrfs_root_used(&p->cursors[i].root->root_item);
	}
	return used;
}

static void limit_blocks(struct btrfs_send_prefetch *p, u64 bytes)
{
	p->limit_blocks = max_t(u64, div_u64(bytes, p->fs_info->nodesize), 4);
	p->min_blocks = p->fixed ? p->limit_blocks :
				   max(p->limit_blocks / PREFETCH_MIN_SHARE, 4U);
	p->max_blocks = p->limit_blocks;
}

/*
 * Set the size of the window: what the parameter says, or what suits the disk.
 * A disk with seeks gains from any more blocks that can be sorted, another one
 * only needs enough of them in flight.
 */
static void init_window(struct btrfs_send_prefetch *p)
{
	const struct btrfs_fs_info *fs_info = p->fs_info;
	const u64 ram = prefetch_ram_bytes();
	const u64 max = ram / PREFETCH_MAX_RAM_SHARE;
	u64 window = READ_ONCE(send_prefetch_window);

	/* Only the kernel command line can ask for more. */
	if (window > max) {
		btrfs_warn_rl(fs_info,
			      "send_prefetch_window of %llu is cut to %llu bytes, half of the memory",
			      window, max);
		window = max;
	}
	p->fixed = window > 0;
	if (!window)
		window = fs_info->fs_devices->rotating ? min_t(u64, ram / 32, SZ_256M) :
							 min_t(u64, ram / 64, SZ_64M);
	p->window = window;
	/* A window larger than the trees would be wasted. */
	limit_blocks(p, min(window, tree_bytes(p)));
	p->max_nodes = clamp_t(u32, 4 * p->limit_blocks / BTRFS_NODEPTRS_PER_BLOCK(fs_info),
			       PREFETCH_MIN_NODES, PREFETCH_MAX_NODES);
	p->ring_size = roundup_pow_of_two(p->limit_blocks);
}

/**
 * btrfs_send_prefetch_start() - prepare to read ahead for a send operation
 * @send_root:		the root to send
 * @parent_root:	the parent root of an incremental send, or NULL
 *
 * Must be called without commit_root_sem, as it allocates memory. Nothing is
 * read before btrfs_send_prefetch_restart().
 *
 * Return: what the other functions take, or NULL if there is no memory for it:
 * they do nothing then, and the send reads each block when it needs it.
 */
struct btrfs_send_prefetch *btrfs_send_prefetch_start(struct btrfs_root *send_root,
						      struct btrfs_root *parent_root)
{
	struct btrfs_fs_info *fs_info = send_root->fs_info;
	struct btrfs_send_prefetch *p;

	lockdep_assert_not_held(&fs_info->commit_root_sem);

	p = kvzalloc_obj(*p, GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN);
	if (!p)
		return NULL;
	p->fs_info = fs_info;
	p->cursors[0].root = send_root;
	p->cursors[1].root = parent_root;
	init_lanes(p);
	init_depth(p);
	init_window(p);
	p->ring = kvzalloc_objs(*p->ring, p->ring_size,
				GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN);
	p->queue = kvzalloc_objs(*p->queue, p->ring_size,
				 GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN);
	if (!p->ring || !p->queue) {
		btrfs_send_prefetch_stop(p);
		return NULL;
	}
	prefetch_count(p->fs_info, BTRFS_SEND_PREFETCH_SENDS);
	return p;
}

/*
 * What is not newer than this is the same in the parent root: its last change. Its
 * node may be newer than that, after a relocation or if it was snapshotted.
 */
static u64 parent_generation(const struct btrfs_send_prefetch *p)
{
	const struct btrfs_root *parent_root = p->cursors[1].root;
	const u64 ctransid = btrfs_root_ctransid(&parent_root->root_item);
	u64 generation;

	down_read(&p->fs_info->commit_root_sem);
	generation = btrfs_header_generation(parent_root->commit_root);
	up_read(&p->fs_info->commit_root_sem);
	return ctransid ? min(generation, ctransid) : generation;
}

/**
 * btrfs_send_prefetch_lookups() - also read ahead what is looked up
 * @p:	returned by btrfs_send_prefetch_start() just now, or NULL
 *
 * Of an incremental send: the leaves of both roots which it reads for the
 * directories and names of what it compares. A part of the window is for these. If
 * there is no memory for it only what is compared is read ahead.
 */
void btrfs_send_prefetch_lookups(struct btrfs_send_prefetch *p)
{
	if (p && p->cursors[1].root)
		p->lookups = prefetch_lookups_start(p->fs_info, parent_generation(p));
}

/* Of the file system. */
static u64 data_bytes(const struct btrfs_fs_info *fs_info)
{
	const struct btrfs_space_info *data_info = fs_info->data_sinfo;

	return data_info ? READ_ONCE(data_info->bytes_used) : 0;
}

/**
 * btrfs_send_prefetch_file_data() - also read ahead file data
 * @p:		returned by btrfs_send_prefetch_start() just now, or NULL
 * @encoded:	compressed extents are sent as they are
 *
 * A part of the window is for file data then: what the trees can not fill, and
 * as much of the rest as is the share of data in all, up to half. If there is
 * no memory for it only tree blocks are read ahead.
 */
void btrfs_send_prefetch_file_data(struct btrfs_send_prefetch *p, bool encoded)
{
	struct prefetch_data_params params = { .encoded = encoded };
	u64 trees;
	u64 data;

	if (!p || !READ_ONCE(send_prefetch_data))
		return;

	data = data_bytes(p->fs_info);
	trees = tree_bytes(p);
	if (data == 0)
		return;
	/* In units that can be multiplied. */
	data = max(data >> 20, 1ULL);
	trees = max(trees >> 20, 1ULL);
	params.limit = min(div64_u64(p->window * data, data + trees), p->window / 2);
	limit_blocks(p, min(p->window - params.limit,
			    (u64)p->limit_blocks * p->fs_info->nodesize));
	params.limit = p->window - min(p->window, (u64)p->limit_blocks * p->fs_info->nodesize);

	/* What is not newer than the parent root is there, or can be cloned from there. */
	if (p->cursors[1].root)
		params.old_generation = parent_generation(p);
	params.depth = p->depth;
	params.max_request_bytes = p->max_request_bytes;
	p->data = prefetch_data_start(p->cursors[0].root, &params);
}

/**
 * btrfs_send_prefetch_restart() - begin, or begin again, at a key
 * @p:		returned by btrfs_send_prefetch_start(), or NULL
 * @key:	where the walk is, no block below it is needed
 *
 * To be called when a send starts and when a relocation has exchanged the
 * commit roots. Everything read ahead before is dropped, the pointers to it are
 * stale. The caller holds commit_root_sem and does not come back to us with
 * another fs_info->last_reloc_trans without a restart.
 */
void btrfs_send_prefetch_restart(struct btrfs_send_prefetch *p,
				 const struct btrfs_key *key)
{
	if (!p)
		return;

	lockdep_assert_held_read(&p->fs_info->commit_root_sem);

	drop_all(p);
	p->last_reloc_trans = p->fs_info->last_reloc_trans;
	for (int i = 0; i < 2; i++) {
		if (p->cursors[i].root && start_cursor(&p->cursors[i], key) < 0) {
			drop_all(p);
			return;
		}
	}
	/* There is nothing to read of a tree that is one leaf, but of its files. */
	if (p->data && btrfs_header_level(p->cursors[0].root->commit_root) == 0)
		prefetch_data_add_leaf(p->data, p->cursors[0].root->commit_root);
	prefetch_count(p->fs_info, BTRFS_SEND_PREFETCH_RESTARTS);
	p->running = true;
}

/**
 * btrfs_send_prefetch_advance() - release what the walk has passed, refill
 * @p:		returned by btrfs_send_prefetch_start(), or NULL
 * @key:	the smaller one of the keys of the walk's cursors; no block with a
 *		smaller key is read any more
 * @now:	the next block is going to be read right after this
 *
 * The caller holds commit_root_sem, and no read is waited for. If that is what
 * the walk would have to do, BTRFS_SEND_PREFETCH_WAIT is returned: drop the
 * semaphore, call btrfs_send_prefetch_wait(), take it again and come back with
 * the same key, unless there was a relocation.
 *
 * Return: what the walk may do, see enum btrfs_send_prefetch_state.
 */
enum btrfs_send_prefetch_state btrfs_send_prefetch_advance(struct btrfs_send_prefetch *p,
							   const struct btrfs_key *key,
							   bool now)
{
	if (!p || !p->running)
		return BTRFS_SEND_PREFETCH_IDLE;
	if (!use_blocks(p, key) && !now)
		return BTRFS_SEND_PREFETCH_READY;
	if (!may_read(p))
		return BTRFS_SEND_PREFETCH_IDLE;

	set_wait_eb(p, NULL);
	if (now)
		need_head(p);
	fill_window(p);
	/* What is still to be found would need a sweep of its own. */
	if (!p->filling)
		submit_queue(p, now && !is_ready(p));
	find_lookups(p);
	if (!now || is_ready(p))
		return BTRFS_SEND_PREFETCH_READY;
	choose_wait(p);
	return BTRFS_SEND_PREFETCH_WAIT;
}

/**
 * btrfs_send_prefetch_wait() - wait until it is worth advancing again
 * @p:	which has returned BTRFS_SEND_PREFETCH_WAIT there
 *
 * Must be called without commit_root_sem.
 *
 * Return: 0, or -EINTR after a fatal signal: then the walk should end, as it
 * would wait for its next block in the queue of what was read ahead.
 */
int btrfs_send_prefetch_wait(struct btrfs_send_prefetch *p)
{
	lockdep_assert_not_held(&p->fs_info->commit_root_sem);

	if (p->wait_eb)
		wait_on_extent_buffer_reading(p->wait_eb);
	return fatal_signal_pending(current) ? -EINTR : 0;
}

/*
 * Add file data to its window, of leaves in the order of keys, until it is full
 * or all leaves of the window of blocks were looked into. If that is needed @now and
 * has to wait for a leaf, it reads all that is left of the blocks: the disk is to do
 * one thing after the other, as each sweep goes over a large part of it.
 */
static int search_data(struct btrfs_send_prefetch *p, bool now)
{
	struct btrfs_fs_info *fs_info = p->fs_info;
	bool wait;
	int ret;

	do {
		wait = false;
		down_read(&fs_info->commit_root_sem);
		if (p->running && may_read(p)) {
			if (now) {
				set_wait_eb(p, NULL);
				fill_window(p);
				if (!p->filling)
					submit_queue(p, true);
			}
			search_blocks(p);
			wait = now && (p->filling || p->searched != p->tail) &&
			       prefetch_data_has_room(p->data);
			if (wait) {
				/* As late as what the walk waits for. */
				p->nr_late++;
				choose_wait(p);
			}
		}
		up_read(&fs_info->commit_root_sem);
		ret = wait ? btrfs_send_prefetch_wait(p) : 0;
		cond_resched();
	} while (wait && ret == 0);
	return ret;
}

/* Fill up the window of file data, @now or as far as leaves were read. */
static int refill_data(struct btrfs_send_prefetch *p, bool now)
{
	int ret;

	if (!now && (p->searched == p->tail || !window_ready(p)))
		return 0;
	prefetch_data_resize(p->data, available_bytes());
	ret = search_data(p, now);
	if (ret == 0)
		prefetch_data_sort(p->data);
	return ret;
}

/**
 * btrfs_send_prefetch_data() - the send reads file data now
 * @p:		returned by btrfs_send_prefetch_start(), or NULL
 * @ino:	inode of the send root, never smaller than in the call before
 * @offset:	place in it, in bytes, never smaller than before for this inode
 *
 * Reads ahead what comes after that, and waits for what is read of this place,
 * if anything. To be called before the send looks for the data in the page cache
 * of the inode, without commit_root_sem.
 *
 * Return: 0, or -EINTR after a fatal signal.
 */
int btrfs_send_prefetch_data(struct btrfs_send_prefetch *p, u64 ino, u64 offset)
{
	if (!p || !p->data)
		return 0;

	lockdep_assert_not_held(&p->fs_info->commit_root_sem);

	prefetch_data_pass(p->data, ino, offset);
	if (prefetch_data_hungry(p->data)) {
		const bool now = !prefetch_data_looked(p->data, ino) ||
				 prefetch_data_has(p->data, ino);
		const int ret = refill_data(p, now);

		if (ret < 0)
			return ret;
	}
	return prefetch_data_wait(p->data, ino, offset);
}

/* What may be read at once for searches: what is there is not kept. */
static u64 walk_bytes(const struct btrfs_send_prefetch *p)
{
	return min(p->window, available_bytes()) / 2;
}

static bool start_walks(struct btrfs_send_prefetch *p, u32 max_refs)
{
	/* Without data there is nothing to search. */
	if (p && !p->walks && data_bytes(p->fs_info) > 0)
		p->walks = prefetch_walks_start(p->cursors[0].root, p->cursors[1].root,
						p->window / 2, max_refs);
	return p && p->walks;
}

/**
 * btrfs_send_prefetch_walks() - also read ahead what searches for clones read
 * @p:		returned by btrfs_send_prefetch_start(), or NULL
 * @max_refs:	extents with more references than this are not searched
 *
 * From now on btrfs_send_prefetch_walk() is called before each search. May be called
 * again. Does nothing if there is no memory for it.
 */
void btrfs_send_prefetch_walks(struct btrfs_send_prefetch *p, u32 max_refs)
{
	if (!start_walks(p, max_refs) || p->data_walks)
		return;
	p->data_walks = true;
	if (!p->data) {
		const struct prefetch_data_params params = {
			.old_generation = p->cursors[1].root ? parent_generation(p) : 0,
			.walks_only = true,
		};

		p->data = prefetch_data_start(p->cursors[0].root, &params);
	}
	if (p->data)
		prefetch_data_set_walks(p->data, p->walks);
}

/**
 * btrfs_send_prefetch_walk() - an extent is going to be searched
 * @p:		returned by btrfs_send_prefetch_start(), or NULL
 * @ino:	inode of the send root, never smaller than in the call before, of this
 *		function or btrfs_send_prefetch_data()
 * @offset:	of the extent's item, never smaller than before for this inode
 *
 * Reads ahead for this search and those after it, if that was not done yet. To be
 * called without commit_root_sem.
 *
 * Return: 0, or -EINTR after a fatal signal.
 */
int btrfs_send_prefetch_walk(struct btrfs_send_prefetch *p, u64 ino, u64 offset)
{
	int ret;

	if (!p || !p->data_walks || !p->data || !prefetch_walks_due(p->walks, ino, offset))
		return 0;

	prefetch_data_pass(p->data, ino, offset);
	prefetch_walks_pass(p->walks, ino, offset);
	if (prefetch_walks_empty(p->walks) && prefetch_data_looked(p->data, ino))
		return 0;
	ret = refill_data(p, true);
	if (ret == 0)
		prefetch_walks_read(p->walks, walk_bytes(p));
	return ret;
}

/**
 * btrfs_send_prefetch_rewalk() - extents are going to be searched that were passed
 * @p:		returned by btrfs_send_prefetch_start(), or NULL
 * @max_refs:	extents with more references than this are not searched
 *
 * Before btrfs_send_prefetch_walks() was called. The caller finds these extents.
 */
void btrfs_send_prefetch_rewalk(struct btrfs_send_prefetch *p, u32 max_refs)
{
	if (start_walks(p, max_refs))
		prefetch_walks_restart(p->walks);
}

/**
 * btrfs_send_prefetch_rewalk_due() - is it time to add extents?
 * @p:		returned by btrfs_send_prefetch_start(), or NULL
 * @ino:	inode of the send root whose extent is going to be searched
 * @offset:	of its item
 *
 * Return: true if it was not read ahead for that, nor for what comes after it.
 */
bool btrfs_send_prefetch_rewalk_due(const struct btrfs_send_prefetch *p, u64 ino, u64 offset)
{
	return p && p->walks && prefetch_walks_due(p->walks, ino, offset);
}

/**
 * btrfs_send_prefetch_rewalk_add() - add an extent that is going to be searched
 * @p:		for which it is due
 * @ino:	as there, and never smaller than in the call before
 * @offset:	as there
 * @bytenr:	of the extent
 *
 * Return: true if there is room for another one.
 */
bool btrfs_send_prefetch_rewalk_add(struct btrfs_send_prefetch *p, u64 ino, u64 offset,
				    u64 bytenr)
{
	prefetch_walks_add(p->walks, ino, offset, bytenr, false);
	return !prefetch_walks_is_round(p->walks);
}

/**
 * btrfs_send_prefetch_rewalk_read() - read ahead for the extents that were added
 * @p:		for which it is due
 *
 * For the first of them, as many as there is room for. The rest is forgotten. To be
 * called without commit_root_sem.
 */
void btrfs_send_prefetch_rewalk_read(struct btrfs_send_prefetch *p)
{
	prefetch_walks_read(p->walks, walk_bytes(p));
	prefetch_walks_drop(p->walks);
}

/**
 * btrfs_send_prefetch_encoded() - get a compressed extent as it is on the disk
 * @p:		returned by btrfs_send_prefetch_start(), or NULL
 * @ino:	inode of the send root
 * @offset:	of its item, that btrfs_send_prefetch_data() was told just now
 * @bytenr:	of the extent
 * @len:	of the extent, in bytes
 * @pages:	to copy it to
 *
 * Return: true, or false if the send has to read it itself.
 */
bool btrfs_send_prefetch_encoded(const struct btrfs_send_prefetch *p, u64 ino, u64 offset,
				 u64 bytenr, u64 len, struct page **pages)
{
	bool copied;

	if (!p || !p->data)
		return false;

	down_read(&p->fs_info->commit_root_sem);
	copied = prefetch_data_copy_raw(p->data, ino, offset, bytenr, len, pages);
	up_read(&p->fs_info->commit_root_sem);
	return copied;
}

/**
 * btrfs_send_prefetch_was_empty() - was nothing of an inode in memory before us?
 * @p:		returned by btrfs_send_prefetch_start(), or NULL
 * @ino:	inode of the send root
 *
 * Return: true if pages of this inode were read ahead, and there were none in
 * its page cache when that began.
 */
bool btrfs_send_prefetch_was_empty(const struct btrfs_send_prefetch *p, u64 ino)
{
	return p && p->data && prefetch_data_was_empty(p->data, ino);
}

/**
 * btrfs_send_prefetch_stop() - end reading ahead
 * @p:	returned by btrfs_send_prefetch_start(), or NULL
 *
 * Reads of tree blocks in flight are not waited for. Must be called without
 * commit_root_sem if file data was read ahead.
 */
void btrfs_send_prefetch_stop(struct btrfs_send_prefetch *p)
{
	if (!p)
		return;
	if (p->ring && p->queue)
		drop_all(p);
	prefetch_data_stop(p->data);
	prefetch_lookups_stop(p->lookups);
	prefetch_walks_stop(p->walks);
	kvfree(p->queue);
	kvfree(p->ring);
	kvfree(p);
}

static ssize_t send_prefetch_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf);

/* In the order of enum btrfs_send_prefetch_counter. */
static struct kobj_attribute send_prefetch_counters[] = {
	__ATTR(sends, 0444, send_prefetch_show, NULL),
	__ATTR(restarts, 0444, send_prefetch_show, NULL),
	__ATTR(fills, 0444, send_prefetch_show, NULL),
	__ATTR(reads, 0444, send_prefetch_show, NULL),
	__ATTR(cached, 0444, send_prefetch_show, NULL),
	__ATTR(hits, 0444, send_prefetch_show, NULL),
	__ATTR(late, 0444, send_prefetch_show, NULL),
	__ATTR(lost, 0444, send_prefetch_show, NULL),
	__ATTR(unused, 0444, send_prefetch_show, NULL),
	__ATTR(lookups, 0444, send_prefetch_show, NULL),
	__ATTR(data_reads, 0444, send_prefetch_show, NULL),
	__ATTR(data_hits, 0444, send_prefetch_show, NULL),
	__ATTR(data_late, 0444, send_prefetch_show, NULL),
	__ATTR(data_unused, 0444, send_prefetch_show, NULL),
	__ATTR(extents_new, 0444, send_prefetch_show, NULL),
	__ATTR(extents_walked, 0444, send_prefetch_show, NULL),
	__ATTR(clones_known, 0444, send_prefetch_show, NULL),
	__ATTR(walks, 0444, send_prefetch_show, NULL),
};

static_assert(ARRAY_SIZE(send_prefetch_counters) == BTRFS_NR_SEND_PREFETCH_COUNTERS);

static ssize_t send_prefetch_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	const struct btrfs_fs_devices *fs_devices =
		container_of(kobj, struct btrfs_fs_devices, fsid_kobj);
	const struct btrfs_fs_info *fs_info = fs_devices->fs_info;
	const int nr = attr - send_prefetch_counters;

	return sysfs_emit(buf, "%llu\n",
			  (u64)atomic64_read(&fs_info->send_prefetch_stats.counters[nr]));
}

static struct attribute *send_prefetch_attrs[] = {
	&send_prefetch_counters[BTRFS_SEND_PREFETCH_SENDS].attr,
	&send_prefetch_counters[BTRFS_SEND_PREFETCH_RESTARTS].attr,
	&send_prefetch_counters[BTRFS_SEND_PREFETCH_FILLS].attr,
	&send_prefetch_counters[BTRFS_SEND_PREFETCH_READS].attr,
	&send_prefetch_counters[BTRFS_SEND_PREFETCH_CACHED].attr,
	&send_prefetch_counters[BTRFS_SEND_PREFETCH_HITS].attr,
	&send_prefetch_counters[BTRFS_SEND_PREFETCH_LATE].attr,
	&send_prefetch_counters[BTRFS_SEND_PREFETCH_LOST].attr,
	&send_prefetch_counters[BTRFS_SEND_PREFETCH_UNUSED].attr,
	&send_prefetch_counters[BTRFS_SEND_PREFETCH_LOOKUPS].attr,
	&send_prefetch_counters[BTRFS_SEND_PREFETCH_DATA_READS].attr,
	&send_prefetch_counters[BTRFS_SEND_PREFETCH_DATA_HITS].attr,
	&send_prefetch_counters[BTRFS_SEND_PREFETCH_DATA_LATE].attr,
	&send_prefetch_counters[BTRFS_SEND_PREFETCH_DATA_UNUSED].attr,
	&send_prefetch_counters[BTRFS_SEND_PREFETCH_EXTENTS_NEW].attr,
	&send_prefetch_counters[BTRFS_SEND_PREFETCH_EXTENTS_WALKED].attr,
	&send_prefetch_counters[BTRFS_SEND_PREFETCH_CLONES_KNOWN].attr,
	&send_prefetch_counters[BTRFS_SEND_PREFETCH_WALKS].attr,
	NULL
};

const struct attribute_group btrfs_send_prefetch_attr_group = {
	.name	= "send_prefetch",
	.attrs	= send_prefetch_attrs,
};

#if IS_ENABLED(CONFIG_BTRFS_SEND_PREFETCH_KUNIT_TEST)
#include "tests/send-prefetch-test.c"
#endif
