// SPDX-License-Identifier: GPL-2.0
/*
 * The process that reads ahead: leaves in windows, each in the order of the disk, and
 * what they say of file data after that.
 */
#include <stdlib.h>
#include <unistd.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>

#include "send-ahead.h"
#include "throttle.h"
#include "data.h"
#include "room.h"
#include "sweep.h"
#include "walk.h"

#define LEAST_LEAVES 64			/* of a window; at most half of what may be in memory */
/* A window of leaves ends where it tells of more data than so many windows of that. */
#define DATA_WINDOWS 4

#define THREADS 32			/* a disk with heads takes its pick of so many */
#define SUBVOLUMES 1024			/* that references are followed into, at most */
#define LEVELS_UP 64			/* of directories that are looked up */
#define SEEN 65536			/* a power of two */

struct root {
	int fd;
	u64 id;
	struct pointer node;
	u8 uuid[16], received_uuid[16];
};

struct leaves {
	struct leaf *v;
	size_t n, room;
};

struct send_ahead {
	const struct options *options;
	struct shared *shared;
	struct disk disk;
	struct items items;		/* for all searches here */
	u32 subvolume;			/* number in the stream, from 1 */
	struct root root, parent;
	int has_parent;
	struct walk tree, parent_tree;
	struct leaves leaves;		/* of the window, in the order of keys */
	struct leaves pending;		/* of the parent: not all that lies in them is known */
	struct sweep sweep;		/* leaves to be read */
	struct keys keys;		/* of items that the send looks up */
	struct keys names;		/* of directory items that it looks up */
	struct keys blocks;		/* of items of blocks that references lead to */
	struct refs refs;
	struct extents extents, parent_extents;
	struct extents queue;		/* of the window, not inline, in the stream */
	u64 position;			/* data in the stream before what comes next */
	struct data data;
	/* the most recent ones */
	u64 seen[SEEN];			/* extents: what comes again is cloned */
	u64 warm[SEEN];			/* leaves */
	u64 directories[SEEN];
	u64 followed[SEEN];		/* extents whose references are noted */
};

#define CSUMS_STEP (1 << 20)		/* a leaf has the checksums of more than that */

static void open_root(struct root *root, const char *path)
{
	struct btrfs_ioctl_get_subvol_info_args info;

	memset(root, 0, sizeof(*root));
	root->fd = open_subvolume(path, &info);
	root->id = info.treeid;
	memcpy(root->uuid, info.uuid, sizeof(root->uuid));
	memcpy(root->received_uuid, info.received_uuid, sizeof(root->received_uuid));
}

static int has_uuid(const struct root *root, const u8 *uuid)
{
	return !memcmp(root->uuid, uuid, 16) || !memcmp(root->received_uuid, uuid, 16);
}

/* Which of the snapshots given the stream is based on. */
static void find_parent(struct send_ahead *ahead, const u8 *uuid)
{
	const struct options *options = ahead->options;
	size_t i;

	for (i = 0; i < options->nr_clones + ahead->subvolume; i++) {
		const char *path = options->parent;

		if (i > options->nr_clones)
			path = options->subvolumes[i - 1 - options->nr_clones];
		else if (i)
			path = options->clones[i - 1];
		if (!path)
			continue;
		open_root(&ahead->parent, path);
		if (has_uuid(&ahead->parent, uuid))
			return;
		close(ahead->parent.fd);
	}
	give_up("the parent that the stream names is not known");
}

/* Of the subvolume and what it is compared with; waits for the stream where that is not known. */
static void open_roots(struct send_ahead *ahead)
{
	const struct options *options = ahead->options;
	struct told told;

	open_root(&ahead->root, options->subvolumes[ahead->subvolume - 1]);
	ahead->has_parent = 0;
	if (ahead->subvolume > 1 || (options->nr_clones && !options->parent)) {
		if (shared_told(ahead->subvolume, &told) || !told.snapshot)
			return;
		find_parent(ahead, told.parent_uuid);
	} else if (options->parent) {
		open_root(&ahead->parent, options->parent);
	} else {
		return;
	}
	ahead->has_parent = 1;
}

static void begin_walk(struct send_ahead *ahead, struct root *root, struct walk *walk)
{
	if (disk_root(&ahead->disk, root->id, &root->node))
		give_up("the root of tree %llu cannot be found: %m", (unsigned long long)root->id);
	walk_init(walk, &ahead->disk, &root->node, ahead->sweep.threads);
}

static void check_node(struct send_ahead *ahead, const struct root *root)
{
	struct pointer now;

	if (disk_root(&ahead->disk, root->id, &now) || !is_same(&now, &root->node))
		give_up("tree %llu was moved, by a balance it seems",
			(unsigned long long)root->id);
}

/* Is what was begun before the stream told of it the right thing? */
static void check_stream(struct send_ahead *ahead)
{
	struct told told;

	if (!shared_begun(ahead->subvolume, &told))
		return;
	if (!has_uuid(&ahead->root, told.uuid) || told.snapshot != ahead->has_parent ||
	    (told.snapshot && !has_uuid(&ahead->parent, told.parent_uuid)))
		give_up("the stream is of another subvolume, or based on another");
}

/* Note a number. Return: whether it is new, or was noted long ago. */
static int is_new(u64 *seen, u64 number)
{
	u64 *slot = &seen[(number ^ number >> 12) * 0x9e3779b97f4a7c15ULL >> 48];
	int known = *slot == number;

	*slot = number;
	return !known;
}

static void want(struct send_ahead *ahead, u64 tree, const struct leaf *leaf, u64 ino)
{
	if (is_new(ahead->warm, leaf->at.bytenr))
		sweep_want(&ahead->sweep, tree, leaf, ino);
}

static void sweep_window(struct send_ahead *ahead)
{
	size_t i;

	for (i = 0; i < ahead->leaves.n; i++) {
		const struct leaf *leaf = &ahead->leaves.v[i];

		want(ahead, leaf->parent ? ahead->parent.id : ahead->root.id, leaf,
		     leaf->end.objectid == UINT64_MAX ? 0 : leaf->end.objectid + 1);
	}
	sweep_run(&ahead->sweep);
}

/* Whoever follows a reference to a leaf looks up the leaf's own references, and so on. */
static void add_path(struct send_ahead *ahead, const struct walk *walk, const struct leaf *leaf)
{
	int level;

	add_key(&ahead->blocks, leaf->at.bytenr, BTRFS_METADATA_ITEM_KEY, 0);
	for (level = 1; level <= walk->root.level; level++)
		add_key(&ahead->blocks, walk->levels[level].node->at.bytenr,
			BTRFS_METADATA_ITEM_KEY, level);
}

/*
 * The leaves of a tree that the keys belong to, and with @paths what tells who else has
 * these. The tree may be written meanwhile: what cannot be found then is left to the send.
 */
static void want_leaves(struct send_ahead *ahead, u64 tree, struct keys *keys, int paths)
{
	struct leaf leaf = { .end = { 0 } };
	struct pointer root;
	struct walk walk;
	size_t i;

	if (keys->n && !disk_root(&ahead->disk, tree, &root)) {
		sort_list(keys, key_cmp);
		walk_init(&walk, &ahead->disk, &root, ahead->sweep.threads);
		walk.ahead = min_u64(WALK_AHEAD, 1 + keys->n / 64);
		for (i = 0; i < keys->n && !shared_over(); i++) {
			if (key_cmp(&keys->v[i], &leaf.end) < 0)
				continue;
			if (walk_seek(&walk, &keys->v[i], &leaf) <= 0)
				break;
			want(ahead, tree, &leaf, 0);
			if (paths)
				add_path(ahead, &walk, &leaf);
		}
		ahead->shared->stats.nodes += walk.nodes;
		walk_free(&walk);
	}
	keys->n = 0;
}

/* The key just before @key. */
static struct key key_before(struct key key)
{
	if (!key.offset-- && !key.type--)
		key.objectid--;
	return key;
}

/* Of an inode, in directories: the send looks for others of that name there. */
static void take_names(struct send_ahead *ahead, const struct item *item)
{
	u32 at, length;

	if (item->key.type != BTRFS_INODE_REF_KEY)
		return;
	for (at = 0; at + 10 <= item->len; at += 10 + length) {
		length = get_u16(item->data + at + 8);
		if (length > item->len - at - 10)
			break;
		add_key(&ahead->names, item->key.offset, BTRFS_DIR_ITEM_KEY,
			crc32c(~1u, item->data + at + 10, length));
	}
}

static void take_items(struct send_ahead *ahead, const struct search *search,
		       struct extents *extents)
{
	struct item item;

	if (search_run(ahead->disk.fd, search, &ahead->items))
		return;
	while (items_next(&ahead->items, &item)) {
		extents_take(extents, &item);
		if (ahead->has_parent && extents == &ahead->extents)
			take_names(ahead, &item);
	}
}

/* Names and directories that an incremental send looks up, up to the top, in rounds. */
static void look_up(struct send_ahead *ahead)
{
	struct keys *names = &ahead->names;
	int round;

	for (round = 0; round < LEVELS_UP && names->n && !shared_over(); round++) {
		size_t i, n = 0;

		for (i = 0; i < names->n; i++) {
			*append(&ahead->keys) = names->v[i];
			if (is_new(ahead->directories, names->v[i].objectid))
				names->v[n++] = names->v[i];
		}
		for (i = 0; i < n; i++)
			add_key(&ahead->keys, names->v[i].objectid, BTRFS_INODE_ITEM_KEY, 0);
		want_leaves(ahead, ahead->root.id, &ahead->keys, 0);
		for (i = 0; i < n; i++)
			add_key(&ahead->keys, names->v[i].objectid, BTRFS_INODE_ITEM_KEY, 0);
		want_leaves(ahead, ahead->parent.id, &ahead->keys, 0);
		sweep_run(&ahead->sweep);
		names->n = 0;
		for (i = 0; i < n; i++) {
			struct key key = { names->v[i].objectid, BTRFS_INODE_REF_KEY, 0 };
			struct item item;

			if (key.objectid != BTRFS_FIRST_FREE_OBJECTID &&
			    search_first(ahead->disk.fd, ahead->root.id, key, &ahead->items, &item))
				take_names(ahead, &item);
		}
	}
	names->n = 0;
}

/*
 * What the leaves say. Each is in memory; that no other is read, a search is told by the
 * generation: leaves behind it that are older are not looked into.
 */
static void parse(struct send_ahead *ahead)
{
	size_t i;

	for (i = 0; i < ahead->leaves.n && !shared_over(); i++) {
		const struct leaf *leaf = &ahead->leaves.v[i];
		struct search search = {
			.tree = ahead->root.id,
			.min = leaf->at.key,
			.max = key_before(leaf->end),
			.min_transid = leaf->at.generation,
			.nr = UINT32_MAX,
		};

		if (leaf->parent)
			*append(&ahead->pending) = *leaf;
		else
			take_items(ahead, &search, &ahead->extents);
	}
}

/*
 * What the leaves of the parent say of the first @n extents. The next leaf may be one
 * that both trees have: the search ends with the last extent that may lie in this one.
 */
static void parse_parent(struct send_ahead *ahead, size_t n, const struct key *end)
{
	const struct extent *v = ahead->extents.v;
	size_t i, a = 0, b, done = 0;

	ahead->parent_extents.n = 0;
	for (i = 0; i < ahead->pending.n; i++) {
		const struct leaf *leaf = &ahead->pending.v[i];
		struct search search = {
			.tree = ahead->parent.id,
			.min_transid = leaf->at.generation,
			.nr = UINT32_MAX,
		};

		if (key_cmp(&leaf->end, end) <= 0)
			done = i + 1;
		while (a < n && key_cmp(&v[a].key, &leaf->at.key) < 0)
			a++;
		for (b = a; b < n && key_cmp(&v[b].key, &leaf->end) < 0; b++)
			search.max = v[b].key;
		if (a == b)
			continue;
		search.min = (struct key) { v[a].key.objectid, BTRFS_EXTENT_DATA_KEY, 0 };
		if (key_cmp(&search.min, &leaf->at.key) < 0)
			search.min = leaf->at.key;
		take_items(ahead, &search, &ahead->parent_extents);
	}
	drop_first(&ahead->pending, done);
}

/* Is its data read by the send, past the metadata? */
static int is_read(struct send_ahead *ahead, const struct extent *extent)
{
	const struct options *options = ahead->options;

	return !options->no_data &&
		!(extent->compressed && options->compressed_data) &&
		is_new(ahead->seen, extent->disk) &&
		/* what the parent's time has made, the parent has: it is cloned */
		!(ahead->has_parent && extent->generation <= ahead->parent.node.generation);
}

/* Queue the extents of which all is known: those before the leaves to come. */
static void settle(struct send_ahead *ahead)
{
	struct key end = walk_key(&ahead->tree), other = walk_key(&ahead->parent_tree);
	size_t i, n = 0, at = 0;

	if (key_cmp(&other, &end) < 0)
		end = other;
	while (n < ahead->extents.n && key_cmp(&ahead->extents.v[n].key, &end) < 0)
		n++;
	parse_parent(ahead, n, &end);
	ahead->queue.n = 0;
	for (i = 0; i < n; i++) {
		struct extent *extent = &ahead->extents.v[i];

		if (!extents_changed(extent, &ahead->parent_extents, &at))
			continue;
		extent->position = ahead->position;
		ahead->position += extent->length;
		if (!extent->length || !extent->disk)
			continue;
		extent->read = is_read(ahead, extent);
		*append(&ahead->queue) = *extent;
	}
	drop_first(&ahead->extents, n);
}

/* The checksums of the data that is read. */
static void want_csums(struct send_ahead *ahead, size_t from, size_t to)
{
	size_t i;

	for (i = from; i < to; i++) {
		const struct extent *extent = &ahead->queue.v[i];
		u64 at;

		for (at = 0; extent->read && at < extent->disk_bytes; at += CSUMS_STEP)
			add_key(&ahead->keys, BTRFS_EXTENT_CSUM_OBJECTID, BTRFS_EXTENT_CSUM_KEY,
				extent->disk + at);
	}
	want_leaves(ahead, BTRFS_CSUM_TREE_OBJECTID, &ahead->keys, 0);
}

/* The references to extents that the send follows, as its limits are. */
static void find_refs(struct send_ahead *ahead, size_t from, size_t to)
{
	int all = ahead->has_parent || ahead->options->nr_clones;
	size_t i;

	ahead->refs.n = 0;
	for (i = from; i < to && ahead->refs.n < REFS_NOTED && !shared_over(); i++) {
		struct key key = { ahead->queue.v[i].disk_extent, BTRFS_EXTENT_ITEM_KEY, 0 };
		struct item item;

		if (is_new(ahead->followed, key.objectid) &&
		    search_first(ahead->disk.fd, BTRFS_EXTENT_TREE_OBJECTID, key, &ahead->items,
				 &item))
			extents_refs(&item, all, &ahead->refs);
	}
}

/*
 * The leaves with these addresses, wherever a subvolume has them: other snapshots have
 * the same files under the same numbers, so only from @key on up to @end.
 */
static void want_shared(struct send_ahead *ahead, u64 tree, size_t n, struct key key,
			const struct key *end)
{
	struct pointer root;
	struct leaf leaf;
	struct walk walk;

	if (disk_root(&ahead->disk, tree, &root))
		return;
	walk_init(&walk, &ahead->disk, &root, ahead->sweep.threads);
	walk.ahead = min_u64(WALK_AHEAD, 1 + ahead->leaves.n / 64);
	while (!shared_over() && key_cmp(&key, end) < 0 && walk_seek(&walk, &key, &leaf) > 0) {
		struct ref ref = { .parent = leaf.at.bytenr };

		if (bsearch(&ref, ahead->refs.v, n, sizeof(ref), ref_cmp)) {
			want(ahead, tree, &leaf, 0);
			add_path(ahead, &walk, &leaf);
		}
		key = leaf.end;
	}
	ahead->shared->stats.nodes += walk.nodes;
	walk_free(&walk);
}

static void find_shared(struct send_ahead *ahead, size_t n, size_t from, size_t to)
{
	struct key begin = { ahead->queue.v[from].key.objectid, 0, 0 };
	struct key end = { ahead->queue.v[to - 1].key.objectid, UINT8_MAX, NONE };
	struct search search = {
		.tree = BTRFS_ROOT_TREE_OBJECTID,
		.min = { 0, BTRFS_ROOT_ITEM_KEY, 0 },
		.max = { BTRFS_LAST_FREE_OBJECTID, BTRFS_ROOT_ITEM_KEY, NONE },
		.nr = 1,
	};
	struct item item;
	u32 left = SUBVOLUMES;

	while (left-- && !search_run(ahead->disk.fd, &search, &ahead->items) &&
	       items_next(&ahead->items, &item)) {
		u64 tree = item.key.objectid;

		if (item.key.type == BTRFS_ROOT_ITEM_KEY &&
		    (tree == BTRFS_FS_TREE_OBJECTID || tree >= BTRFS_FIRST_FREE_OBJECTID))
			want_shared(ahead, tree, n, begin, &end);
		/* what comes before the root item may be of the same number */
		search.min.objectid = tree + (item.key.type >= BTRFS_ROOT_ITEM_KEY);
	}
}

/*
 * What the send comes by where it looks for who else has the extents: leaves of other
 * trees, and what the extent tree says of these and of the nodes above.
 */
static void want_refs(struct send_ahead *ahead, size_t from, size_t to)
{
	size_t i, shared = 0;

	find_refs(ahead, from, to);
	sort_list(&ahead->refs, ref_cmp);
	while (shared < ahead->refs.n && !ahead->refs.v[shared].tree)
		shared++;
	if (shared)
		find_shared(ahead, shared, from, to);
	for (i = shared; i < ahead->refs.n; i++) {
		const struct ref *ref = &ahead->refs.v[i];

		*append(&ahead->keys) = ref->key;
		if (i + 1 == ahead->refs.n || ref[1].tree != ref->tree)
			want_leaves(ahead, ref->tree, &ahead->keys, 1);
	}
	want_leaves(ahead, BTRFS_EXTENT_TREE_OBJECTID, &ahead->blocks, 0);
}

/*
 * What the send looks up for the extents from @from up to @to: their items, which say
 * what can be cloned, and all else.
 */
static void sweep_extents(struct send_ahead *ahead, size_t from, size_t to)
{
	size_t i;

	for (i = from; i < to; i++)
		add_key(&ahead->keys, ahead->queue.v[i].disk_extent, BTRFS_EXTENT_ITEM_KEY, 0);
	want_leaves(ahead, BTRFS_EXTENT_TREE_OBJECTID, &ahead->keys, 0);
	sweep_run(&ahead->sweep);
	want_csums(ahead, from, to);
	want_refs(ahead, from, to);
	sweep_run(&ahead->sweep);
}

/* The next window of leaves. Return: whether there are more behind it. */
static int collect(struct send_ahead *ahead, size_t most)
{
	struct walk *parent = ahead->has_parent ? &ahead->parent_tree : NULL;

	ahead->leaves.n = 0;
	while (ahead->leaves.n < most) {
		struct leaf leaf;
		int found = walk_next_leaf(&ahead->tree, parent, &leaf);

		if (found < 0) {
			check_node(ahead, &ahead->root);
			if (parent)
				check_node(ahead, &ahead->parent);
			give_up("a node cannot be read, or is not what it has to be");
		}
		if (!found)
			return 0;
		*append(&ahead->leaves) = leaf;
	}
	return 1;
}

/* Leaves of the next window, where so many have told of so much data. */
static size_t next_size(const struct send_ahead *ahead, u64 size, u64 data)
{
	size_t most = ahead->data.window / 2 / ahead->disk.nodesize;

	if (data / ahead->data.window >= DATA_WINDOWS)
		most = min_u64(most, size * DATA_WINDOWS / (data / ahead->data.window));
	return most < LEAST_LEAVES ? LEAST_LEAVES : most;
}

/* What belongs to the extents of the queue, in parts: one is looked up ahead of the send. */
static void read_extents(struct send_ahead *ahead)
{
	const struct extent *v = ahead->queue.v, *last = v;
	size_t i, end, n = ahead->queue.n;

	for (i = 0; i < n; i = end) {
		u64 bytes = 0;

		for (end = i; end < n && bytes / DATA_WINDOWS < ahead->data.window; end++)
			bytes += v[end].length;
		if (i && shared_wait(ahead->subvolume, last->position, last->key.objectid + 1))
			break;
		last = &v[i];
		sweep_extents(ahead, i, end);
		data_read(&ahead->data, last, end - i);
	}
}

static void set_limits(struct send_ahead *ahead)
{
	const struct options *options = ahead->options;
	struct stats *stats = &ahead->shared->stats;
	u64 window = room_window(options->window);

	ahead->items.size = ahead->disk.nodesize * 4;
	ahead->data.window = window;
	ahead->sweep.threads = options->threads ? options->threads : THREADS;
	ahead->data.threads = options->threads ? options->threads : THREADS;
	stats->window_bytes = window;
	stats->threads = ahead->sweep.threads;
}

static void read_tree(struct send_ahead *ahead)
{
	struct stats *stats = &ahead->shared->stats;
	u64 data = 0, ino = 0, used, blocks;
	int goes_on = 1;
	size_t size;

	disk_used(&ahead->disk, &used, &blocks);
	size = next_size(ahead, blocks, used);
	while (goes_on) {
		u64 from = ahead->position;

		goes_on = collect(ahead, size);
		stats->windows++;
		stats->nodes += ahead->tree.nodes + ahead->parent_tree.nodes;
		ahead->tree.nodes = ahead->parent_tree.nodes = 0;
		/* the window before the last one has been used up where the last begins */
		if (shared_wait(ahead->subvolume, data, ino))
			break;
		data = from;
		ino = ahead->leaves.n ? ahead->leaves.v[0].at.key.objectid : 0;
		if (!ahead->shared->alone && !room_enough())
			give_up("there is too little memory left");
		set_limits(ahead);
		check_stream(ahead);
		check_node(ahead, &ahead->root);
		if (ahead->has_parent)
			check_node(ahead, &ahead->parent);
		sweep_window(ahead);
		parse(ahead);
		look_up(ahead);
		settle(ahead);
		stats->extents += ahead->queue.n;
		stats->planned_leaves += ahead->leaves.n;
		stats->planned_bytes = ahead->position;
		stats->planned_all = !goes_on;
		read_extents(ahead);
		size = next_size(ahead, size, ahead->position - from);
	}
}

static void read_subvolume(struct send_ahead *ahead)
{
	open_roots(ahead);
	if (shared_over())
		return;
	if (!ahead->disk.nodesize) {
		disk_open(&ahead->disk, ahead->root.fd);
		throttle_init(&ahead->disk, ahead->shared, 0);
		set_limits(ahead);
	}
	ahead->disk.fd = ahead->root.fd;
	ahead->position = 0;
	ahead->shared->stats.planned_leaves = 0;
	ahead->sweep.disk = ahead->data.disk = &ahead->disk;
	ahead->sweep.shared = ahead->shared;
	ahead->sweep.subvolume = ahead->subvolume;
	ahead->data.shared = ahead->shared;
	ahead->data.tree = ahead->root.id;
	ahead->data.subvolume = ahead->subvolume;
	begin_walk(ahead, &ahead->root, &ahead->tree);
	if (ahead->has_parent)
		begin_walk(ahead, &ahead->parent, &ahead->parent_tree);
	read_tree(ahead);
	/* what has been read and is not sent yet */
	shared_wait(ahead->subvolume, NONE, 0);
	data_drop(&ahead->data);
	ahead->data.drops.n = 0;
	walk_free(&ahead->tree);
	walk_free(&ahead->parent_tree);
	extents_free(&ahead->extents);
	extents_free(&ahead->parent_extents);
	ahead->pending.n = 0;
	close(ahead->root.fd);
	if (ahead->has_parent)
		close(ahead->parent.fd);
}

void send_ahead(const struct options *options, struct shared *shared)
{
	static struct send_ahead ahead;

	ahead.options = options;
	ahead.shared = shared;
	while (ahead.subvolume < options->nr_subvolumes && !shared_over()) {
		ahead.subvolume++;
		memset(ahead.seen, 0, sizeof(ahead.seen));
		memset(ahead.followed, 0, sizeof(ahead.followed));
		read_subvolume(&ahead);
	}
}
