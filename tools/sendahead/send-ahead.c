// SPDX-License-Identifier: GPL-2.0
/*
 * The process that reads ahead of btrfs send. It finds the leaves that the send will read, and
 * reads them in windows, each window in disk order. Then it reads the file data, and the items
 * that the send looks up for them, as told by the items of these leaves.
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

#define LEAST_LEAVES 64			/* smallest window */
/* Windows of leaves are made so small that their data fit into about 4 windows of data. */
#define DATA_WINDOWS 4

#define THREADS 32			/* so many requests let the disk choose a good order */
#define SHARED_KEYS 65536		/* looked for in subvolumes at once, or none */
#define ROOT_GENERATION offsetof(struct btrfs_root_item, generation)
#define SUBVOLUMES 1024			/* subvolumes searched for shared backrefs */
#define OTHER 4				/* times as many keys are few in another subvolume */
#define LEVELS_UP 64			/* limit of parent directories that are looked up */
#define SEEN 65536			/* slots of a table of seen numbers */
#define POLL_NS 10000000		/* pause between two looks at the stream */

struct root {
	int fd;
	struct btrfs_ioctl_get_subvol_info_args info;
	struct pointer node;
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
	struct leaves leaves;		/* the window, in the order of keys */
	struct sweep sweep;		/* leaves to be read */
	struct keys keys;		/* items that the send looks up */
	struct keys names;		/* directory items that it looks up */
	struct refs refs;
	struct orders sharing;		/* indices of extents with shared backrefs */
	struct extents extents;		/* of the window; once queued: sent and not inline */
	struct extents old;		/* of the parent, for one leaf of the window */
	u64 position;			/* bytes of file data in the stream so far */
	struct data data;
	/* tables of recently seen numbers, for is_new() */
	u64 seen[SEEN];			/* extents: a repeated one is cloned */
	u64 warm[SEEN];			/* leaves that were read */
	u64 directories[SEEN];		/* directories that were looked up */
	u64 followed[SEEN];		/* extents whose backrefs were taken */
};

#define CSUMS_STEP (1 << 20)		/* a leaf holds the checksums of more data */

static int has_uuid(const struct root *root, const u8 *uuid)
{
	return !memcmp(root->info.uuid, uuid, 16) || !memcmp(root->info.received_uuid, uuid, 16);
}

/* Find the parent that the stream names among the snapshots of the command line. */
static void find_parent(struct send_ahead *ahead, const u8 *uuid)
{
	const struct options *options = ahead->options;
	size_t i;

	for (i = 0; i < options->nr_clones + ahead->subvolume; i++) {
		const char *path = !i ? options->parent : i <= options->nr_clones ?
			options->clones[i - 1] : options->subvolumes[i - 1 - options->nr_clones];

		if (!path)
			continue;
		ahead->parent.fd = open_subvolume(path, &ahead->parent.info);
		if (has_uuid(&ahead->parent, uuid))
			return;
		close(ahead->parent.fd);
	}
	give_up("the parent that the stream names is not known");
}

/* Open the subvolume and its parent. Where the send chooses the parent, wait for the stream. */
static void open_roots(struct send_ahead *ahead)
{
	const struct options *options = ahead->options;
	struct told told;

	ahead->root.fd = open_subvolume(options->subvolumes[ahead->subvolume - 1], &ahead->root.info);
	ahead->has_parent = 0;
	if (ahead->subvolume > 1 || (options->nr_clones && !options->parent)) {
		while (!shared_begun(ahead->subvolume, &told))
			/* any inode and 0 bytes: until it has begun */
			if (ahead->shared->alone || shared_wait(ahead->subvolume, 0, 1))
				return;
		if (!told.snapshot)
			return;
		find_parent(ahead, told.parent_uuid);
	} else if (options->parent) {
		ahead->parent.fd = open_subvolume(options->parent, &ahead->parent.info);
	} else {
		return;
	}
	ahead->has_parent = 1;
}

static void begin_walk(struct send_ahead *ahead, struct root *root, struct walk *walk)
{
	if (disk_root(&ahead->disk, root->info.treeid, &root->node))
		give_up("the root of tree %llu cannot be found: %m", root->info.treeid);
	walk_init(walk, &ahead->disk, &root->node, ahead->sweep.threads);
}

static void check_node(struct send_ahead *ahead, const struct root *root)
{
	struct pointer now;

	if (disk_root(&ahead->disk, root->info.treeid, &now) || !is_same(&now, &root->node))
		give_up("tree %llu was moved, by a balance it seems", root->info.treeid);
}

/* Once the stream tells which subvolume and parent it is of: are they those that were opened? */
static void check_stream(struct send_ahead *ahead)
{
	struct told told;

	if (!shared_begun(ahead->subvolume, &told))
		return;
	if (!has_uuid(&ahead->root, told.uuid) || told.snapshot != ahead->has_parent ||
	    (told.snapshot && !has_uuid(&ahead->parent, told.parent_uuid)))
		give_up("the stream is of another subvolume, or based on another");
}

/* Put a number into a table. Return: whether it is new, or was replaced by another meanwhile. */
static int is_new(u64 *seen, u64 number)
{
	u64 *slot = &seen[(number ^ number >> 12) * 0x9e3779b97f4a7c15ULL >> 48];
	int known = *slot == number;

	*slot = number;
	return !known;
}

static void want(struct send_ahead *ahead, u64 tree, const struct leaf *leaf)
{
	if (is_new(ahead->warm, leaf->at.bytenr))
		sweep_want(&ahead->sweep, tree, leaf);
}

static void sweep_window(struct send_ahead *ahead)
{
	size_t i;

	for (i = 0; i < ahead->leaves.n; i++) {
		const struct leaf *leaf = &ahead->leaves.v[i];

		want(ahead, leaf->parent ? ahead->parent.info.treeid : ahead->root.info.treeid, leaf);
	}
	sweep_run(&ahead->sweep);
}

/*
 * Add the leaves that hold the keys to those to be read. The tree may change meanwhile: leaves that
 * cannot be found are left to the send. A few are found by the kernel, all at once: nodes that are
 * read here it reads again. Those of another subvolume are read one by one: there, more are few.
 */
static void want_leaves(struct send_ahead *ahead, u64 tree, struct keys *keys)
{
	struct leaf leaf = { .end = { 0 } };
	struct pointer root;
	struct walk walk;
	int other = (tree == BTRFS_FS_TREE_OBJECTID || tree >= BTRFS_FIRST_FREE_OBJECTID) &&
		tree != ahead->root.info.treeid && tree != ahead->parent.info.treeid;
	size_t i, few = ahead->sweep.threads * (other ? OTHER : 1);

	if ((other || !ahead->sweep.noted) && keys->n <= few) {
		for (i = 0; i < keys->n; i++) {
			leaf.at.key = keys->v[i];
			sweep_want(&ahead->sweep, tree, &leaf);
		}
	} else if (keys->n && !disk_root(&ahead->disk, tree, &root)) {
		sort_list(keys, key_cmp);
		walk_init(&walk, &ahead->disk, &root, ahead->sweep.threads);
		walk.ahead = min_u64(WALK_AHEAD, 1 + keys->n / 64);
		walk.to = keys->v[keys->n - 1];
		for (i = 0; i < keys->n && !shared_over(); i++) {
			if (key_cmp(&keys->v[i], &leaf.end) < 0)
				continue;
			walk.from = keys->v[i];
			if (walk_next_leaf(&walk, NULL, &leaf) <= 0)
				break;
			want(ahead, tree, &leaf);
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

/* Add the directory items of an inode's names: the send looks for them in the other tree. */
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

/* Read the names and directories that an incremental send looks up: each round one level up. */
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
		want_leaves(ahead, ahead->root.info.treeid, &ahead->keys);
		for (i = 0; i < n; i++)
			add_key(&ahead->keys, names->v[i].objectid, BTRFS_INODE_ITEM_KEY, 0);
		want_leaves(ahead, ahead->parent.info.treeid, &ahead->keys);
		sweep_run(&ahead->sweep);
		names->n = 0;
		for (i = 0; i < n; i++) {
			struct key key = { names->v[i].objectid, BTRFS_INODE_REF_KEY, 0 };
			struct item item;

			if (key.objectid != BTRFS_FIRST_FREE_OBJECTID &&
			    search_first(ahead->disk.fd, ahead->root.info.treeid, key, &ahead->items, &item))
				take_names(ahead, &item);
		}
	}
	names->n = 0;
}

/* Is this extent as old as the parent? */
static int is_old(const struct send_ahead *ahead, const struct extent *extent)
{
	return ahead->has_parent && extent->generation <= ahead->parent.node.generation;
}

/*
 * Find the extents of a leaf that the parent has as well, of those from index @from on. The search
 * ends at the last one that the parent can have: the leaf behind it may be one that both trees share.
 */
static void compare(struct send_ahead *ahead, const struct leaf *leaf, size_t from)
{
	struct extent *v = ahead->extents.v;
	struct search search = {
		.tree = ahead->parent.info.treeid, .min = leaf->at.key, .nr = UINT32_MAX,
	};
	size_t i, n = ahead->extents.n, at = 0;
	struct item item;

	while (n > from && !is_old(ahead, &v[n - 1]))
		n--;
	if (n == from)
		return;
	search.max = v[n - 1].key;
	/* the last one of the leaf before may reach into this leaf */
	if (ahead->old.n)
		ahead->old.v[0] = ahead->old.v[ahead->old.n - 1];
	ahead->old.n = ahead->old.n > 0;
	if (search_run(ahead->disk.fd, &search, &ahead->items))
		return;
	while (items_next(&ahead->items, &item))
		extents_take(&ahead->old, &item);
	for (i = from; i < n && ahead->old.n; i++) {
		while (at + 1 < ahead->old.n && key_cmp(&ahead->old.v[at + 1], &v[i]) <= 0)
			at++;
		v[i].same = extents_same(&v[i], &ahead->old.v[at]);
	}
}

/*
 * Take the items of the window's leaves, which are in memory. A search may go on to the next leaf:
 * the minimum generation keeps it from reading leaves that both trees share.
 */
static void parse(struct send_ahead *ahead)
{
	struct item item;
	size_t i;

	ahead->extents.n = 0;
	for (i = 0; i < ahead->leaves.n && !shared_over(); i++) {
		const struct leaf *leaf = &ahead->leaves.v[i];
		struct search search = {
			.tree = ahead->root.info.treeid,
			.min = leaf->at.key, .max = key_before(leaf->end),
			.min_transid = leaf->at.generation, .nr = UINT32_MAX,
		};
		size_t from = ahead->extents.n;

		if (leaf->parent || search_run(ahead->disk.fd, &search, &ahead->items))
			continue;
		while (items_next(&ahead->items, &item)) {
			extents_take(&ahead->extents, &item);
			if (ahead->has_parent)
				take_names(ahead, &item);
		}
		compare(ahead, leaf, from);
	}
}

/* Will the send read this extent's data from the disk? */
static int is_read(struct send_ahead *ahead, const struct extent *extent)
{
	const struct options *options = ahead->options;

	return !options->no_data && !(extent->compressed && options->compressed_data) &&
		is_new(ahead->seen, extent->disk) &&
		/* an extent as old as the parent is cloned from the parent */
		!is_old(ahead, extent);
}

/* Keep the extents that are sent and not inline. */
static void queue_extents(struct send_ahead *ahead)
{
	size_t i, n = 0;

	for (i = 0; i < ahead->extents.n; i++) {
		struct extent *extent = &ahead->extents.v[i];

		if (extent->same)
			continue;
		extent->position = ahead->position;
		ahead->position += extent->length;
		if (!extent->length || !extent->disk)
			continue;
		extent->read = is_read(ahead, extent);
		ahead->extents.v[n++] = *extent;
	}
	ahead->extents.n = n;
}

/* Add the leaves with the checksums of the data that are read. */
static void want_csums(struct send_ahead *ahead, size_t from, size_t to)
{
	size_t i;

	for (i = from; i < to; i++) {
		const struct extent *extent = &ahead->extents.v[i];
		u64 at;

		for (at = 0; extent->read && at < extent->disk_bytes; at += CSUMS_STEP)
			add_key(&ahead->keys, BTRFS_EXTENT_CSUM_OBJECTID, BTRFS_EXTENT_CSUM_KEY,
				extent->disk + at);
	}
	want_leaves(ahead, BTRFS_CSUM_TREE_OBJECTID, &ahead->keys);
}

/* Take the backrefs of extents that the send follows, with the send's limits. */
static void find_refs(struct send_ahead *ahead, size_t from, size_t to)
{
	int all = ahead->has_parent || ahead->options->nr_clones;
	size_t i;

	ahead->refs.n = ahead->sharing.n = 0;
	for (i = from; i < to && ahead->refs.n < REFS_NOTED && !shared_over(); i++) {
		struct extent *extent = &ahead->extents.v[i];
		struct key key = { extent->disk_extent, BTRFS_EXTENT_ITEM_KEY, 0 };
		struct item item;

		if (is_new(ahead->followed, key.objectid) &&
		    search_first(ahead->disk.fd, BTRFS_EXTENT_TREE_OBJECTID, key, &ahead->items, &item))
			extent->refs = extents_refs(&item, all, &ahead->refs);
		if (extent->read && extent->refs)
			*append(&ahead->sharing) = i;
	}
}

struct subvolume {
	u64 id, generation;
};

/* Return: how many there are, at most SUBVOLUMES. */
static size_t list_subvolumes(struct send_ahead *ahead, struct subvolume *v)
{
	struct search search = {
		.tree = BTRFS_ROOT_TREE_OBJECTID, .nr = 1,
		.min = { 0, BTRFS_ROOT_ITEM_KEY, 0 },
		.max = { BTRFS_LAST_FREE_OBJECTID, BTRFS_ROOT_ITEM_KEY, NONE },
	};
	struct item item;
	size_t n = 0;

	while (n < SUBVOLUMES && !search_run(ahead->disk.fd, &search, &ahead->items) &&
	       items_next(&ahead->items, &item)) {
		u64 id = item.key.objectid;

		if (item.key.type == BTRFS_ROOT_ITEM_KEY && item.len > ROOT_GENERATION + 8 &&
		    (id == BTRFS_FS_TREE_OBJECTID || id >= BTRFS_FIRST_FREE_OBJECTID))
			v[n++] = (struct subvolume) { id, get_u64(item.data + ROOT_GENERATION) };
		/* the item found may be one in front of the root item of the same tree */
		search.min.objectid = id + (item.key.type >= BTRFS_ROOT_ITEM_KEY);
	}
	return n;
}

/*
 * A shared backref names a leaf, which may be in any subvolume. It is looked for under the key of the
 * extent, as snapshots have the same files under the same inode numbers: in subvolumes that are not
 * older, at most as many as the extent has backrefs, as a later snapshot may not have it.
 */
static void find_shared(struct send_ahead *ahead)
{
	struct subvolume subvolumes[SUBVOLUMES];
	size_t i, j, n = ahead->sharing.n ? list_subvolumes(ahead, subvolumes) : 0;

	if (ahead->sharing.n * n > SHARED_KEYS)
		return;
	for (j = 0; j < n; j++) {
		for (i = 0; i < ahead->sharing.n; i++) {
			struct extent *extent = &ahead->extents.v[ahead->sharing.v[i]];

			if (!extent->refs || extent->generation > subvolumes[j].generation)
				continue;
			*append(&ahead->keys) = extent->key;
			extent->refs--;
		}
		want_leaves(ahead, subvolumes[j].id, &ahead->keys);
	}
}

/*
 * Add the leaves of other trees that the send reads to resolve backrefs. The extent items of these
 * leaves, which it looks up as well, would gain 1 % at most.
 */
static void want_refs(struct send_ahead *ahead, size_t from, size_t to)
{
	size_t i;

	find_refs(ahead, from, to);
	find_shared(ahead);
	sort_list(&ahead->refs, by_number);
	for (i = 0; i < ahead->refs.n; i++) {
		const struct ref *ref = &ahead->refs.v[i];

		*append(&ahead->keys) = ref->key;
		if (i + 1 == ahead->refs.n || ref[1].tree != ref->tree)
			want_leaves(ahead, ref->tree, &ahead->keys);
	}
}

/*
 * Read what the send looks up for the extents from @from to @to - 1: their extent items with the
 * backrefs, then checksums and the blocks of the backrefs.
 */
static void sweep_extents(struct send_ahead *ahead, size_t from, size_t to)
{
	size_t i;

	for (i = from; i < to; i++)
		add_key(&ahead->keys, ahead->extents.v[i].disk_extent, BTRFS_EXTENT_ITEM_KEY, 0);
	want_leaves(ahead, BTRFS_EXTENT_TREE_OBJECTID, &ahead->keys);
	sweep_run(&ahead->sweep);
	want_csums(ahead, from, to);
	want_refs(ahead, from, to);
	sweep_run(&ahead->sweep);
}

/* Collect the next window of leaves. Return: whether there are more after it. */
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

/* Return: leaves of the next window, if @size leaves had extents of @data bytes. */
static size_t next_size(const struct send_ahead *ahead, u64 size, u64 data)
{
	size_t most = ahead->data.window / 2 / ahead->disk.nodesize;

	if (data / ahead->data.window >= DATA_WINDOWS)
		most = min_u64(most, size * DATA_WINDOWS / (data / ahead->data.window));
	return most < LEAST_LEAVES ? LEAST_LEAVES : most;
}

/* Read the data of the queue, and what is looked up for it, one part ahead of the send. */
static void read_extents(struct send_ahead *ahead)
{
	const struct extent *v = ahead->extents.v, *last = v;
	size_t i, end, n = ahead->extents.n;

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
	stats->threads = options->threads ? options->threads : THREADS;
	ahead->data.threads = min_u64((u64)stats->threads * ahead->disk.nr_heads, MAX_THREADS);
	ahead->sweep.threads = ahead->data.threads;
	stats->window_bytes = window;
	stats->disks = ahead->disk.nr_heads;
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
		/* wait until the send is at the last window, and so has used up the one before */
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
		queue_extents(ahead);
		stats->extents += ahead->extents.n;
		stats->planned_leaves += ahead->leaves.n;
		stats->planned_bytes = ahead->position;
		stats->planned_all = !goes_on;
		read_extents(ahead);
		size = next_size(ahead, size, ahead->position - from);
	}
}

static void begin(struct send_ahead *ahead)
{
	ahead->disk.fd = ahead->root.fd;
	ahead->position = 0;
	ahead->sweep.disk = ahead->data.disk = &ahead->disk;
	ahead->sweep.shared = ahead->data.shared = ahead->shared;
	ahead->data.tree = ahead->root.info.treeid;
	ahead->data.subvolume = ahead->subvolume;
	begin_walk(ahead, &ahead->root, &ahead->tree);
	if (ahead->has_parent)
		begin_walk(ahead, &ahead->parent, &ahead->parent_tree);
}

/*
 * Where the kernel reads ahead the blocks of the trees, there is nothing to do in a full send for files
 * that are inline in them: wait for the first one that is not. An incremental send also looks names
 * and directories up.
 */
static void wait_for_extents(struct send_ahead *ahead)
{
	char mode[6] = "";
	struct told told;

	if (ahead->has_parent || ahead->shared->alone ||
	    room_scan("/sys/module/btrfs/parameters/send_readahead", "%5s", mode) != 1 ||
	    strcmp(mode, "exact"))
		return;
	while (!shared_over() && atomic_load(&ahead->shared->begun) <= ahead->subvolume &&
	       !(shared_begun(ahead->subvolume, &told) && told.has_extents))
		shared_await(shared_changes(), POLL_NS);
}

static void read_subvolume(struct send_ahead *ahead)
{
	const struct device *device;

	open_roots(ahead);
	wait_for_extents(ahead);
	if (shared_over())
		return;
	if (!ahead->disk.nodesize) {
		disk_open(&ahead->disk, ahead->root.fd);
		throttle_init(&ahead->disk, ahead->shared);
		set_limits(ahead);
	}
	begin(ahead);
	ahead->shared->stats.planned_leaves = 0;
	read_tree(ahead);
	/* wait for the rest to be sent */
	shared_wait(ahead->subvolume, NONE, 0);
	disk_reads(&ahead->disk, &(int) { 0 });
	for (device = ahead->disk.devices; device < ahead->disk.devices + ahead->disk.nr_devices; device++)
		ahead->shared->stats.disk_bytes[device->head % DISKS] =
			(device->sectors - device->sectors_before) * 512;
	data_drop(&ahead->data);
	ahead->data.drops.n = 0;
	walk_free(&ahead->tree);
	walk_free(&ahead->parent_tree);
	extents_free(&ahead->extents);
	extents_free(&ahead->old);
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

void send_ahead_list(const struct options *options, struct shared *shared, struct needs *needs)
{
	struct send_ahead *ahead = calloc(1, sizeof(*ahead));

	if (!ahead)
		give_up("no memory");
	ahead->options = options;
	ahead->shared = shared;
	ahead->subvolume = 1;
	open_roots(ahead);
	disk_open(&ahead->disk, ahead->root.fd);
	if (ahead->has_parent && !disk_has(&ahead->disk, ahead->parent.fd))
		give_up("%s is of another file system", options->parent);
	set_limits(ahead);
	begin(ahead);
	collect(ahead, SIZE_MAX);
	needs->leaves = ahead->leaves;
	memset(&ahead->leaves, 0, sizeof(ahead->leaves));
	needs->nodes = ahead->tree.nodes + ahead->parent_tree.nodes;
	needs->disk = &ahead->disk;
	needs->ahead = ahead;
}

void send_ahead_look_into(struct needs *needs, size_t from, size_t n)
{
	struct send_ahead *ahead = needs->ahead;

	ahead->leaves.n = 0;
	while (n--)
		*append(&ahead->leaves) = needs->leaves.v[from++];
	ahead->position = 0;
	ahead->sweep.noted = NULL;
	sweep_window(ahead);
	ahead->sweep.noted = &needs->others;
	parse(ahead);
	look_up(ahead);
	queue_extents(ahead);
	if (ahead->extents.n)
		sweep_extents(ahead, 0, ahead->extents.n);
	needs->extents = ahead->extents.v;
	needs->nr_extents = ahead->extents.n;
	needs->data_bytes = ahead->position;
}
