// SPDX-License-Identifier: GPL-2.0
/*
 * Remembers the extents a full send has met, so that it need not search for clones.
 *
 * Before it sends an extent a send looks for another reference to it that it could
 * clone from, by a walk of the back references: the extent tree, and then the trees
 * of whoever has a reference, other snapshots included. Where nothing but the send
 * root may be cloned from, only references count that the send has passed already.
 * A full send passes all there are, in the order of keys. So if it has not met the
 * extent yet there is no clone, and nothing has to be read to know that.
 *
 * The index says no more than that: whether a walk may find something, and whether
 * it may find more than one place. Of each extent it keeps the range that was
 * referred to, as a file of which parts were overwritten refers to what is left of
 * an extent in several places that have no part in common. Once it is out of memory
 * it is dropped, and all is walked for.
 *
 * Which one of several places a walk takes depends, where walks keep what they have
 * found out in a cache, on the walks before it. So the send then makes up for those
 * it has left out, and where that happens again and again the index is dropped too.
 *
 * Entries lie in batches that stay where they are, in chains from a table of heads
 * that is doubled when there are as many entries. A lookup allocates nothing.
 *
 * Everything here runs in the task of the send, which holds no lock.
 */

#include <linux/hash.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>
#include <linux/sizes.h>
#include "messages.h"
#include "ctree.h"
#include "accessors.h"
#include "fs.h"
#include "send-extents.h"
#include "send-prefetch.h"

/* What an index may take if the parameter does not say: this share of the memory. */
#define EXTENTS_RAM_SHARE	64
/* The most that it can be set to. */
#define EXTENTS_MAX_RAM_SHARE	2
/* Bytes of a batch of entries. */
#define EXTENTS_BATCH_BYTES	SZ_16K
#define EXTENTS_MIN_ORDER	10
#define EXTENTS_MAX_ORDER	30

/* An end that stands for all behind it: larger numbers of sectors do not fit in. */
#define EXTENT_NO_END		U16_MAX

/* In a bytenr, which is one of a sector: more than one item refers to the extent. */
#define EXTENT_AGAIN		1ULL

/* An extent, and which of its sectors are referred to by items met so far. */
struct extent_entry {
	u64 bytenr;
	/* The number of the next one of the chain, 0 at its end. */
	u32 next;
	u16 start;
	u16 end;
};

#define EXTENTS_PER_BATCH	(EXTENTS_BATCH_BYTES / sizeof(struct extent_entry))

struct btrfs_send_extents {
	struct btrfs_fs_info *fs_info;
	u32 sector_shift;

	/* Bytes that may be allocated, and that are. */
	u64 limit;
	u64 bytes;

	/* How often an extent was found in many places, and how often it may be. */
	u32 many;
	u32 max_many;

	/* Entries are numbered from 1 on. */
	u32 nr;
	u32 order;
	u32 *heads;
	struct extent_entry **batches;
};

static bool send_extents = true;
module_param(send_extents, bool, 0644);
MODULE_PARM_DESC(send_extents,
		 "Search clones only for extents a full send has met before (default Y)");

static unsigned long long send_extents_limit;
module_param(send_extents_limit, ullong, 0644);
MODULE_PARM_DESC(send_extents_limit,
		 "Bytes a full send may use to remember extents (default 0: automatic)");

static u64 heads_bytes(u32 order)
{
	return sizeof(u32) << order;
}

/* For as many batches as it takes before there are more heads. */
static u32 max_batches(u32 order)
{
	return DIV_ROUND_UP(1U << order, EXTENTS_PER_BATCH);
}

static struct extent_entry *entry_at(const struct btrfs_send_extents *x, u32 nr)
{
	return &x->batches[(nr - 1) / EXTENTS_PER_BATCH][(nr - 1) % EXTENTS_PER_BATCH];
}

static u32 *head_of(const struct btrfs_send_extents *x, u64 bytenr)
{
	return &x->heads[hash_64(bytenr >> x->sector_shift, x->order)];
}

static struct extent_entry *find_entry(const struct btrfs_send_extents *x, u64 bytenr)
{
	for (u32 nr = *head_of(x, bytenr); nr;) {
		struct extent_entry *entry = entry_at(x, nr);

		if ((entry->bytenr & ~EXTENT_AGAIN) == bytenr)
			return entry;
		nr = entry->next;
	}
	return NULL;
}

static void *alloc_zeroed(struct btrfs_send_extents *x, u64 bytes)
{
	void *ptr;

	if (bytes > x->limit - x->bytes)
		return NULL;
	ptr = kvzalloc(bytes, GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN);
	if (ptr)
		x->bytes += bytes;
	return ptr;
}

static void free_counted(struct btrfs_send_extents *x, void *ptr, u64 bytes)
{
	if (ptr)
		x->bytes -= bytes;
	kvfree(ptr);
}

/* Make a table of heads of this order, and room for as many entries. */
static bool resize(struct btrfs_send_extents *x, u32 order)
{
	const u64 batches_bytes = max_batches(order) * sizeof(*x->batches);
	struct extent_entry **batches = alloc_zeroed(x, batches_bytes);
	u32 *heads = alloc_zeroed(x, heads_bytes(order));

	if (!batches || !heads) {
		free_counted(x, batches, batches_bytes);
		free_counted(x, heads, heads_bytes(order));
		return false;
	}
	if (x->batches) {
		const u64 old_bytes = max_batches(x->order) * sizeof(*x->batches);

		memcpy(batches, x->batches, old_bytes);
		free_counted(x, x->batches, old_bytes);
		free_counted(x, x->heads, heads_bytes(x->order));
	}
	x->batches = batches;
	x->heads = heads;
	x->order = order;

	for (u32 nr = 1; nr <= x->nr; nr++) {
		struct extent_entry *entry = entry_at(x, nr);
		u32 *head = head_of(x, entry->bytenr & ~EXTENT_AGAIN);

		entry->next = *head;
		*head = nr;
		if (nr % EXTENTS_PER_BATCH == 0)
			cond_resched();
	}
	return true;
}

/* An entry for an extent that has none, or NULL if there is no room. */
static struct extent_entry *add_entry(struct btrfs_send_extents *x, u64 bytenr)
{
	struct extent_entry *entry;
	u32 *head;

	if (x->nr >> x->order) {
		if (x->order == EXTENTS_MAX_ORDER || !resize(x, x->order + 1))
			return NULL;
	}
	if (x->nr % EXTENTS_PER_BATCH == 0) {
		struct extent_entry *batch = alloc_zeroed(x, EXTENTS_BATCH_BYTES);

		if (!batch)
			return NULL;
		x->batches[x->nr / EXTENTS_PER_BATCH] = batch;
	}
	entry = entry_at(x, ++x->nr);
	entry->bytenr = bytenr;
	head = head_of(x, bytenr);
	entry->next = *head;
	*head = x->nr;
	return entry;
}

/* The index can not be complete any more, and so is of no use. */
static void drop(struct btrfs_send_extents *x)
{
	if (!x->heads)
		return;
	for (u32 i = 0; i < DIV_ROUND_UP(x->nr, EXTENTS_PER_BATCH); i++)
		kvfree(x->batches[i]);
	kvfree(x->batches);
	kvfree(x->heads);
	x->batches = NULL;
	x->heads = NULL;
	x->nr = 0;
	x->bytes = 0;
}

/* The extent of an item, 0 if it has none. */
static u64 item_extent(const struct extent_buffer *leaf, int slot)
{
	const struct btrfs_file_extent_item *item =
		btrfs_item_ptr(leaf, slot, struct btrfs_file_extent_item);

	if (btrfs_file_extent_type(leaf, item) == BTRFS_FILE_EXTENT_INLINE)
		return 0;
	return btrfs_file_extent_disk_bytenr(leaf, item);
}

/*
 * Which sectors of its extent an item refers to. Where an extent is encoded the
 * search for clones does not look at that, so it is all of them.
 */
static void item_range(const struct btrfs_send_extents *x, const struct extent_buffer *leaf,
		       int slot, u16 *start, u16 *end)
{
	const struct btrfs_file_extent_item *item =
		btrfs_item_ptr(leaf, slot, struct btrfs_file_extent_item);
	const u64 first = btrfs_file_extent_offset(leaf, item) >> x->sector_shift;
	const u64 nr = btrfs_file_extent_num_bytes(leaf, item) >> x->sector_shift;

	*start = 0;
	*end = EXTENT_NO_END;
	if (btrfs_file_extent_compression(leaf, item) ||
	    btrfs_file_extent_encryption(leaf, item) ||
	    btrfs_file_extent_other_encoding(leaf, item) ||
	    first >= EXTENT_NO_END || nr >= EXTENT_NO_END - first)
		return;
	*start = first;
	*end = first + nr;
}

/* From how many places that were added could the item be cloned? */
static enum btrfs_send_extents_places count_places(const struct btrfs_send_extents *x,
						   const struct extent_buffer *leaf, int slot)
{
	const u64 bytenr = item_extent(leaf, slot);
	const struct extent_entry *entry;
	u16 start;
	u16 end;

	if (!x->heads || bytenr == 0)
		return BTRFS_SEND_EXTENTS_MANY;
	entry = find_entry(x, bytenr);
	if (!entry)
		return BTRFS_SEND_EXTENTS_NONE;

	item_range(x, leaf, slot, &start, &end);
	if (end != EXTENT_NO_END && entry->end != EXTENT_NO_END &&
	    (start < entry->start || start >= entry->end))
		return BTRFS_SEND_EXTENTS_NONE;
	return (entry->bytenr & EXTENT_AGAIN) ? BTRFS_SEND_EXTENTS_MANY : BTRFS_SEND_EXTENTS_ONE;
}

/**
 * btrfs_send_extents_find() - from how many places could an extent be cloned?
 * @x:		returned by btrfs_send_extents_start(), or NULL
 * @leaf:	of the send root
 * @slot:	a file extent item of it that refers to an extent, not added yet
 *
 * To be asked if nothing but the send root may be cloned from. Of items that were
 * added, those count that refer to where in its extent this one begins.
 *
 * Return: none; one at most; or that there may be any number. Once that was so too
 * often, or all was forgotten, it is so for all.
 */
enum btrfs_send_extents_places btrfs_send_extents_find(struct btrfs_send_extents *x,
						       const struct extent_buffer *leaf,
						       int slot)
{
	enum btrfs_send_extents_places places;

	if (!x)
		return BTRFS_SEND_EXTENTS_MANY;
	places = count_places(x, leaf, slot);
	if (places == BTRFS_SEND_EXTENTS_NONE) {
		prefetch_count(x->fs_info, BTRFS_SEND_PREFETCH_EXTENTS_NEW);
	} else {
		prefetch_count(x->fs_info, BTRFS_SEND_PREFETCH_EXTENTS_WALKED);
		if (places == BTRFS_SEND_EXTENTS_MANY && ++x->many == x->max_many)
			drop(x);
	}
	return places;
}

/**
 * btrfs_send_extents_search_all() - are all extents searched from now on?
 * @x:	returned by btrfs_send_extents_start(), or NULL
 *
 * Return: true if btrfs_send_extents_find() will always say many.
 */
bool btrfs_send_extents_search_all(const struct btrfs_send_extents *x)
{
	return !x || !x->heads;
}

/**
 * btrfs_send_extents_add() - remember the extent of a file extent item
 * @x:		returned by btrfs_send_extents_start(), or NULL
 * @leaf:	of the send root
 * @slot:	a file extent item of it
 *
 * To be called for each one of the send root, whether it is sent or not, in the
 * order of keys. May allocate with GFP_KERNEL; if there is no memory for it, all
 * is forgotten.
 */
void btrfs_send_extents_add(struct btrfs_send_extents *x, const struct extent_buffer *leaf,
			    int slot)
{
	struct extent_entry *entry;
	u64 bytenr;
	u16 start;
	u16 end;

	if (!x || !x->heads)
		return;
	bytenr = item_extent(leaf, slot);
	if (bytenr == 0)
		return;

	item_range(x, leaf, slot, &start, &end);
	entry = find_entry(x, bytenr);
	if (entry) {
		entry->bytenr |= EXTENT_AGAIN;
		entry->start = min(entry->start, start);
		entry->end = max(entry->end, end);
		return;
	}
	entry = add_entry(x, bytenr);
	if (!entry) {
		drop(x);
		return;
	}
	entry->start = start;
	entry->end = end;
}

/**
 * btrfs_send_extents_start() - begin to remember extents
 * @send_root:	of a full send
 * @max_many:	how often an extent may be found in many places before all is
 *		forgotten; 0 if that does not matter
 *
 * What was remembered is of no use once a relocation was committed, as extents
 * have other places then.
 *
 * Return: what the other functions take, or NULL if that is turned off or there
 * is no memory for it; they accept NULL.
 */
struct btrfs_send_extents *btrfs_send_extents_start(const struct btrfs_root *send_root,
						    u32 max_many)
{
	const u64 ram = prefetch_ram_bytes();
	struct btrfs_send_extents *x;

	if (!READ_ONCE(send_extents))
		return NULL;
	x = kvzalloc_obj(*x, GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN);
	if (!x)
		return NULL;
	x->fs_info = send_root->fs_info;
	x->max_many = max_many;
	x->sector_shift = ilog2(x->fs_info->sectorsize);
	x->limit = min_t(u64, READ_ONCE(send_extents_limit), ram / EXTENTS_MAX_RAM_SHARE);
	if (x->limit == 0)
		x->limit = ram / EXTENTS_RAM_SHARE;
	if (!resize(x, EXTENTS_MIN_ORDER)) {
		kvfree(x);
		return NULL;
	}
	return x;
}

/**
 * btrfs_send_extents_stop() - forget all extents
 * @x:	returned by btrfs_send_extents_start(), or NULL
 */
void btrfs_send_extents_stop(struct btrfs_send_extents *x)
{
	if (!x)
		return;
	drop(x);
	kvfree(x);
}

#if IS_ENABLED(CONFIG_BTRFS_SEND_PREFETCH_KUNIT_TEST)
#include "tests/send-extents-test.c"
#endif
