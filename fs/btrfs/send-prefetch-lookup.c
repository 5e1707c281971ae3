// SPDX-License-Identifier: GPL-2.0
/*
 * Finds the leaves that an incremental send looks up outside of what differs.
 *
 * For each name of an inode that it compares, changed or not, a send looks up the
 * directory in both roots, and for the names of changed inodes the entry in the
 * directory as well. These leaves lie anywhere and may well be shared, so the
 * compare's rules do not name them. The items of the leaves that are compared do:
 * the keys are taken from there, sorted, and followed down both trees, one level
 * after the other, so that the nodes missing on a level are read together.
 *
 * Everything here runs in the task of the send, under commit_root_sem.
 */

#include <linux/mm.h>
#include <linux/sizes.h>
#include <linux/sort.h>
#include "messages.h"
#include "ctree.h"
#include "accessors.h"
#include "dir-item.h"
#include "disk-io.h"
#include "extent_io.h"
#include "fs.h"
#include "send-prefetch.h"
#include "send-prefetch-lookup.h"

/* Keys of one round, and how many of them a leaf may give. */
#define PREFETCH_MAX_KEYS	SZ_8K
#define PREFETCH_LEAF_KEYS	SZ_1K
/* Keys that are followed without a look at who waits for the semaphore. */
#define PREFETCH_KEYS_AT_ONCE	128
/* Nodes that are read at once. */
#define PREFETCH_NODES		64

struct prefetch_lookups {
	struct btrfs_fs_info *fs_info;
	/* Inodes not changed since then are the same in the parent root. */
	u64 old_generation;

	struct btrfs_key *keys;
	u32 nr_keys;
	/* Twice the next one to follow, plus the tree, down to this level. */
	u32 next;
	int level;
	/* The leaf found last in each tree. */
	u64 last_bytenr[2];

	/* The inode whose items come next in the leaf. */
	u64 ino;
	bool changed;
	u64 last_dir;

	struct btrfs_tree_block_readahead nodes[PREFETCH_NODES];
	char name[BTRFS_NAME_LEN];
};

/* What is looked up, from the leaves that are compared */

static void add_key(struct prefetch_lookups *l, u64 objectid, u8 type, u64 offset)
{
	if (l->nr_keys == PREFETCH_MAX_KEYS)
		return;
	l->keys[l->nr_keys++] = (struct btrfs_key) {
		.objectid = objectid,
		.type = type,
		.offset = offset,
	};
}

static void add_name(struct prefetch_lookups *l, const struct extent_buffer *leaf, u64 dir,
		     unsigned long name, u32 len)
{
	if (dir != l->last_dir)
		add_key(l, dir, BTRFS_INODE_ITEM_KEY, 0);
	l->last_dir = dir;
	if (!l->changed || len > BTRFS_NAME_LEN)
		return;
	read_extent_buffer(leaf, l->name, name, len);
	add_key(l, dir, BTRFS_DIR_ITEM_KEY, btrfs_name_hash(l->name, len));
}

/* Did the inode of an item change since the parent root? */
static bool is_changed(const struct prefetch_lookups *l, const struct extent_buffer *leaf, int slot)
{
	struct btrfs_inode_item *item = btrfs_item_ptr(leaf, slot, struct btrfs_inode_item);

	return btrfs_inode_transid(leaf, item) > l->old_generation;
}

static void take_inode_ref(struct prefetch_lookups *l, const struct extent_buffer *leaf,
			   int slot, u64 dir)
{
	unsigned long ptr = btrfs_item_ptr_offset(leaf, slot);
	const unsigned long end = ptr + btrfs_item_size(leaf, slot);

	while (ptr + sizeof(struct btrfs_inode_ref) <= end) {
		struct btrfs_inode_ref *ref = (struct btrfs_inode_ref *)ptr;
		const u32 len = btrfs_inode_ref_name_len(leaf, ref);

		ptr = (unsigned long)(ref + 1) + len;
		if (ptr <= end)
			add_name(l, leaf, dir, (unsigned long)(ref + 1), len);
	}
}

static void take_inode_extref(struct prefetch_lookups *l, const struct extent_buffer *leaf,
			      int slot)
{
	unsigned long ptr = btrfs_item_ptr_offset(leaf, slot);
	const unsigned long end = ptr + btrfs_item_size(leaf, slot);

	while (ptr + sizeof(struct btrfs_inode_extref) <= end) {
		struct btrfs_inode_extref *ref = (struct btrfs_inode_extref *)ptr;
		const u32 len = btrfs_inode_extref_name_len(leaf, ref);

		ptr = (unsigned long)&ref->name + len;
		if (ptr <= end)
			add_name(l, leaf, btrfs_inode_extref_parent(leaf, ref),
				 (unsigned long)&ref->name, len);
	}
}

/**
 * prefetch_lookups_add_leaf() - add what will be looked up for the items of a leaf
 * @l:		returned by prefetch_lookups_start()
 * @leaf:	of either root, in memory
 *
 * Return: false if there is no room for it before prefetch_lookups_reset().
 */
bool prefetch_lookups_add_leaf(struct prefetch_lookups *l, const struct extent_buffer *leaf)
{
	const int nritems = btrfs_header_nritems(leaf);

	if (l->nr_keys + PREFETCH_LEAF_KEYS > PREFETCH_MAX_KEYS)
		return false;
	for (int slot = 0; slot < nritems; slot++) {
		struct btrfs_key key;

		btrfs_item_key_to_cpu(leaf, &key, slot);
		if (key.objectid != l->ino) {
			l->ino = key.objectid;
			l->changed = false;
		}
		if (key.type == BTRFS_INODE_ITEM_KEY)
			l->changed = is_changed(l, leaf, slot);
		else if (key.type == BTRFS_INODE_REF_KEY)
			take_inode_ref(l, leaf, slot, key.offset);
		else if (key.type == BTRFS_INODE_EXTREF_KEY)
			take_inode_extref(l, leaf, slot);
	}
	return true;
}

/* Where they are */

static int cmp_keys(const void *a, const void *b)
{
	return btrfs_comp_cpu_keys(a, b);
}

/**
 * prefetch_lookups_sort() - prepare to follow the keys that were added
 * @l:	returned by prefetch_lookups_start()
 */
void prefetch_lookups_sort(struct prefetch_lookups *l)
{
	u32 nr = 0;

	sort(l->keys, l->nr_keys, sizeof(l->keys[0]), cmp_keys, NULL);
	for (u32 i = 0; i < l->nr_keys; i++) {
		if (nr == 0 || btrfs_comp_cpu_keys(&l->keys[i], &l->keys[nr - 1]))
			l->keys[nr++] = l->keys[i];
	}
	l->nr_keys = nr;
	l->next = 0;
	l->level = BTRFS_MAX_LEVEL - 1;
	l->last_bytenr[0] = 0;
	l->last_bytenr[1] = 0;
}

/**
 * prefetch_lookups_reset() - forget all keys
 * @l:	returned by prefetch_lookups_start()
 */
void prefetch_lookups_reset(struct prefetch_lookups *l)
{
	l->nr_keys = 0;
	l->last_dir = 0;
}

/*
 * Follow a key down to a child of @level. Returns the parent, with a reference,
 * and its slot; NULL if that is not in memory, or the tree is not so high. If it
 * is being read, *@wait_eb is set to it.
 */
static struct extent_buffer *find_parent(struct prefetch_lookups *l, struct extent_buffer *root,
					 const struct btrfs_key *key, int level, int *slot,
					 struct extent_buffer **wait_eb)
{
	struct extent_buffer *node = extent_buffer_get(root);

	while (true) {
		struct extent_buffer *child;
		u64 generation;
		int ret;

		if (btrfs_header_level(node) <= level)
			break;
		ret = btrfs_bin_search(node, 0, key, slot);
		if (ret < 0)
			break;
		if (ret && *slot > 0)
			(*slot)--;
		if (btrfs_header_level(node) == level + 1)
			return node;

		generation = btrfs_node_ptr_generation(node, *slot);
		child = find_extent_buffer(l->fs_info, btrfs_node_blockptr(node, *slot));
		if (child && extent_buffer_reading(child)) {
			*wait_eb = child;
			break;
		}
		/* Nobody else has compared the level, and a pointer may lead anywhere. */
		if (!child || !extent_buffer_uptodate(child) ||
		    btrfs_header_generation(child) != generation ||
		    btrfs_header_level(child) != btrfs_header_level(node) - 1) {
			free_extent_buffer(child);
			break;
		}
		free_extent_buffer(node);
		node = child;
	}
	free_extent_buffer(node);
	return NULL;
}

static void read_nodes(struct prefetch_lookups *l, u32 nr)
{
	prefetch_readahead(l->fs_info, l->nodes, nr);
	prefetch_release_readahead(l->nodes, nr);
}

/* Go on with the next level or, at the end, none. */
static void next_level(struct prefetch_lookups *l)
{
	l->next = 0;
	if (l->level > 0)
		l->level--;
	else
		prefetch_lookups_reset(l);
}

/* Has one of the trees blocks of this level that are not its root? */
static bool has_level(struct extent_buffer *roots[2], int level)
{
	return (roots[0] && btrfs_header_level(roots[0]) > level) ||
	       (roots[1] && btrfs_header_level(roots[1]) > level);
}

/**
 * prefetch_lookups_next() - find the next leaf that is looked up
 * @l:		returned by prefetch_lookups_start(), sorted
 * @roots:	copies of the root nodes of both trees, or NULL
 * @ra:		set to what to read
 * @wait_eb:	set, with a reference, to what to wait for
 *
 * Reads ahead the nodes that are missing on the way. To be called with
 * commit_root_sem, under the rules of btrfs_send_prefetch_advance().
 *
 * Return: 1 if @ra is set, 0 if there is nothing more; -EAGAIN if a node is being
 * read, or, without @wait_eb, to look if others wait for the semaphore.
 */
int prefetch_lookups_next(struct prefetch_lookups *l, struct extent_buffer *roots[2],
			  struct btrfs_tree_block_readahead *ra,
			  struct extent_buffer **wait_eb)
{
	u32 nr = 0;

	for (int i = 0; i < PREFETCH_KEYS_AT_ONCE && nr < PREFETCH_NODES; i++) {
		struct extent_buffer *parent;
		u64 bytenr;
		int slot;
		int tree;

		while (l->nr_keys > 0 &&
		       (l->next == 2 * l->nr_keys || !has_level(roots, l->level))) {
			read_nodes(l, nr);
			nr = 0;
			next_level(l);
		}
		if (l->nr_keys == 0)
			return 0;

		tree = l->next & 1;
		parent = roots[tree] ? find_parent(l, roots[tree], &l->keys[l->next / 2],
						   l->level, &slot, wait_eb) : NULL;
		if (*wait_eb)
			break;
		l->next++;
		if (!parent)
			continue;
		bytenr = btrfs_node_blockptr(parent, slot);
		/* Neighbours in the order of keys, and both trees, may share it. */
		if (bytenr != l->last_bytenr[0] && bytenr != l->last_bytenr[1] &&
		    !prefetch_in_memory(l->fs_info, bytenr)) {
			l->last_bytenr[tree] = bytenr;
			if (l->level == 0) {
				prefetch_init_readahead(ra, parent, slot);
				free_extent_buffer(parent);
				return 1;
			}
			prefetch_init_readahead(&l->nodes[nr++], parent, slot);
		}
		free_extent_buffer(parent);
	}
	read_nodes(l, nr);
	return -EAGAIN;
}

/**
 * prefetch_lookups_start() - prepare to find lookups
 * @fs_info:		of the trees
 * @old_generation:	inodes that were not changed after it are the same in the
 *			parent root
 *
 * Return: what the other functions take, or NULL if there is no memory for it.
 */
struct prefetch_lookups *prefetch_lookups_start(struct btrfs_fs_info *fs_info,
						u64 old_generation)
{
	const gfp_t gfp = GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN;
	struct prefetch_lookups *l = kvzalloc_obj(*l, gfp);

	if (!l)
		return NULL;
	l->fs_info = fs_info;
	l->old_generation = old_generation;
	l->keys = kvzalloc_objs(*l->keys, PREFETCH_MAX_KEYS, gfp);
	if (!l->keys) {
		kvfree(l);
		return NULL;
	}
	return l;
}

/**
 * prefetch_lookups_stop() - free what prefetch_lookups_start() returned
 * @l:	that, or NULL
 */
void prefetch_lookups_stop(struct prefetch_lookups *l)
{
	if (!l)
		return;
	kvfree(l->keys);
	kvfree(l);
}

#if IS_ENABLED(CONFIG_BTRFS_SEND_PREFETCH_KUNIT_TEST)
#include "tests/send-prefetch-lookup-test.c"
#endif
