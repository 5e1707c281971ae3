// SPDX-License-Identifier: GPL-2.0
/*
 * What a send would read, and how long that takes. The nodes of both trees, or a sample of them,
 * name the leaves. A sample of the leaves tells of file data and of what is looked up elsewhere.
 * Two numbers of the disk, measured or given, make that times.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/ioctl.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <linux/fs.h>

#include "estimate.h"
#include "extents.h"
#include "room.h"
#include "threads.h"
#include "walk.h"

#define NODES 512		/* of both trees, whose leaves are noted */
#define GROUPS 64		/* of neighbours among the nodes, where there are more */
#define RUNS 32			/* of neighbours among the leaves, that are looked into */
#define RUN 32			/* leaves of one */
#define PIECE (1 << 20)
#define DEVICES 64		/* with a head each; of more some share one */
#define TIME 2.0		/* seconds for a sample */
#define AHEAD 8			/* leaves that btrfs send has asked for ahead */
#define DEPTH 4			/* requests that the disk chooses from */
#define START 12		/* reads one after the other before anything is read ahead */
#define TURN 0.5		/* a short seek and half a revolution, as a part of a random read */
#define NO_HEADS 1.5e-3		/* a random read in less time: an SSD */
#define THREADS 32

/* A read of the disk. */
struct get {
	u64 order;		/* as of disk_place() */
	u64 bytes;
	struct pointer at;	/* to a leaf */
};

struct gets {
	struct get *v;
	size_t n, room;
};

enum { SENT, PARENT, BOTH };

struct tree {
	u64 id, since;		/* of its last change: balancing is none */
	u64 leaves;		/* that the send reads */
	struct pointer root;
};

struct estimate {
	const struct options *options;
	struct disk disk;
	struct tree trees[2];	/* that is sent, the parent */
	struct walk walks[2];	/* in these trees */
	u64 nodes, apart;
	double part;		/* of the nodes: those whose leaves are noted */
	struct gets leaves[3];	/* of each of the trees, of both, in the order of keys */
	/* the sample of the leaves */
	u64 sampled, extents, data_bytes;
	struct gets data, others;	/* others: that are only looked up */
	struct keys names;
	/* of the disk: seconds, bytes a second, bytes */
	double random, rate, size;
	/* seconds of the send */
	double stock, program;
};

static double now(void)
{
	return now_ns() / 1e9;
}

static struct get *add(struct gets *gets, u64 order, u64 bytes)
{
	struct get *get = append(gets);

	*get = (struct get) { .order = order, .bytes = bytes };
	return get;
}

static void open_tree(struct estimate *estimate, int parent, const char *path)
{
	struct btrfs_ioctl_get_subvol_info_args info;
	int fd = open_subvolume(path, &info);
	struct tree *tree = &estimate->trees[parent];

	if (!parent)
		disk_open(&estimate->disk, fd);
	else if (!disk_has(&estimate->disk, fd))
		give_up("%s is of another file system", path);
	else
		close(fd);
	tree->id = info.treeid;
	tree->since = info.ctransid > info.otransid ? info.ctransid : info.otransid;
	if (disk_root(&estimate->disk, tree->id, &tree->root))
		give_up("the root of %s cannot be found: %m", path);
}

/* Begin to walk both trees, not below a level. Return: the walk in the parent's, or NULL. */
static struct walk *start_walks(struct estimate *estimate, int lowest)
{
	int i, parent = estimate->options->parent != NULL;

	for (i = 0; i <= parent; i++) {
		walk_free(&estimate->walks[i]);
		walk_init(&estimate->walks[i], &estimate->disk, &estimate->trees[i].root, THREADS);
		estimate->walks[i].lowest = lowest;
	}
	return parent ? &estimate->walks[1] : NULL;
}

/* @found is what the walk has returned: it may have failed. */
static int checked(int found)
{
	if (found < 0)
		give_up("a node cannot be read, or is not what it has to be");
	return found;
}

/* Note the leaves below @n nodes, whose keys are @from and those behind it. */
static void note_leaves(struct estimate *estimate, const struct key *from, size_t n)
{
	struct walk *parent = start_walks(estimate, 0);
	u64 order, behind = 0;
	struct leaf leaf;
	int i;

	for (i = 0; i <= (parent != NULL); i++) {
		estimate->walks[i].ahead = 1;
		checked(walk_seek(&estimate->walks[i], from, &leaf));
		estimate->walks[i].ahead = min_u64(n, WALK_AHEAD);
	}
	while (checked(walk_next_leaf(estimate->walks, parent, &leaf)) &&
	       key_cmp(&leaf.at.key, &from[n]) < 0) {
		struct get *get;

		/* the leaf of the other tree may begin before */
		if (key_cmp(&leaf.at.key, from) < 0 ||
		    disk_place(&estimate->disk, leaf.at.bytenr, &order))
			continue;
		estimate->trees[leaf.parent].leaves++;
		estimate->apart += order != behind;
		behind = order + (estimate->disk.nodesize >> 12);
		get = add(&estimate->leaves[leaf.parent], order, estimate->disk.nodesize);
		get->at = leaf.at;
		*append(&estimate->leaves[BOTH]) = *get;
	}
}

/* Count the nodes above leaves, and note the leaves: below some of the nodes, if they are many. */
static void collect(struct estimate *estimate)
{
	struct walk *parent = start_walks(estimate, 1);
	struct keys nodes = { 0 };
	struct leaf leaf;
	size_t i, n, groups, group;

	while (checked(walk_next_leaf(estimate->walks, parent, &leaf))) {
		*append(&nodes) = leaf.at.key;
		estimate->nodes += leaf.at.level;
	}
	n = nodes.n;
	estimate->nodes += estimate->walks[0].nodes + estimate->walks[1].nodes;
	*append(&nodes) = key_max;
	groups = n > NODES ? GROUPS : 1;
	group = min_u64(n, NODES) / groups;
	for (i = 0; i < groups; i++)
		note_leaves(estimate, &nodes.v[((2 * i + 1) * n / groups - group) / 2], group);
	estimate->part = n ? (double)groups * group / n : 1;
	estimate->apart /= estimate->part;
	for (i = 0; i < 2; i++) {
		estimate->trees[i].leaves /= estimate->part;
		walk_free(&estimate->walks[i]);
	}
	free(nodes.v);
}

/*
 * Seconds to read a list of which @part is known: so many bytes at a time in the order of the disk,
 * which chooses from @depth requests. What lies between may be passed over.
 */
static double read_time(const struct estimate *estimate, const struct gets *gets, double window,
			int depth, double part)
{
	u64 ends[DEVICES] = { 0 };
	double seconds = 0, bytes;
	struct get *v = calloc(gets->n + 1, sizeof(*v));
	size_t i, from, to;

	if (!v)
		give_up("no memory");
	if (gets->n)
		memcpy(v, gets->v, gets->n * sizeof(*v));
	for (from = 0; from < gets->n; from = to) {
		for (to = from, bytes = 0; to < gets->n && (to == from || bytes < window * part); to++)
			bytes += v[to].bytes;
		qsort(v + from, to - from, sizeof(*v), by_number);
		for (i = from; i < to; i++) {
			u64 *end = &ends[order_device(v[i].order) % DEVICES];
			u64 at = order_byte(v[i].order);
			/* in a window that is known in part, the others lie between */
			double gap = fabs((double)at - *end) * (to - from > 1 ? part : 1);
			double seek = estimate->random / depth;

			if (estimate->random > NO_HEADS)
				seek = estimate->random * (2 * TURN / (depth + 1) + (1 - TURN) * 15 / 8 *
							   sqrt(fmin(gap / estimate->size, 1)));
			if (*end && at >= *end)
				seek = fmin(seek, gap / estimate->rate);
			seconds += seek + v[i].bytes / estimate->rate;
			*end = at + v[i].bytes;
		}
	}
	free(v);
	return seconds / part;
}

/* What the leaves of the sample say. */

static void take_extent(struct estimate *estimate, const struct extent *extent)
{
	const struct options *options = estimate->options;
	int past = options->compressed_data && extent->compressed;
	u64 order;

	if (extent->generation <= estimate->trees[1].since)
		return;
	estimate->extents++;
	if (!options->no_data)
		estimate->data_bytes += past ? extent->disk_bytes : extent->length;
	if (!extent->disk || !extent->length || options->no_data)
		return;
	/* with parity it is about there */
	if (disk_place(&estimate->disk, extent->disk, &order))
		order = order_of(order_device(estimate->leaves[BOTH].v->order), extent->disk);
	add(&estimate->data, order, (extent->disk_bytes + 4095) & ~4095ULL);
}

/* The directory of a name is looked up, and where the file has changed, the name in it. */
static void take_name(struct estimate *estimate, const struct item *item, int changed)
{
	const size_t head = sizeof(struct btrfs_inode_ref);

	add_key(&estimate->names, item->key.offset, BTRFS_INODE_ITEM_KEY, 0);
	if (changed && item->len >= head)
		add_key(&estimate->names, item->key.offset, BTRFS_DIR_ITEM_KEY,
			crc32c(~1u, item->data + head, min_u64(item->len - head,
			       get_u16(item->data + offsetof(struct btrfs_inode_ref, name_len)))));
}

static void take_leaf(struct estimate *estimate, const struct get *leaf, const u8 *block,
		      struct extents *extents)
{
	u64 since = estimate->trees[1].since, changed = 0;
	struct item item;
	u32 i;

	if (get_u64(block + HEADER_BYTENR) != leaf->at.bytenr ||
	    get_u64(block + HEADER_GENERATION) != leaf->at.generation)
		return;
	estimate->sampled++;
	for (i = 0; leaf_item(block, estimate->disk.nodesize, i, &item); i++) {
		extents_take(extents, &item);
		if (item.key.type == BTRFS_INODE_ITEM_KEY && item.len >= 16 &&
		    get_u64(item.data + offsetof(struct btrfs_inode_item, transid)) > since)
			changed = item.key.objectid;
		if (since && item.key.type == BTRFS_INODE_REF_KEY)
			take_name(estimate, &item, changed == item.key.objectid);
	}
}

struct sample {
	const struct disk *disk;
	const struct get *v;
	u8 *blocks;
};

static void read_leaf(size_t i, void *arg)
{
	struct sample *sample = arg;
	u32 size = sample->disk->nodesize;

	if (disk_read(sample->disk, sample->v[i].order, sample->blocks + i * size, size))
		memset(sample->blocks + i * size, 0, size);
}

/* Look into runs of leaves, all over the tree even if there is no time for all of them. */
static void take_sample(struct estimate *estimate)
{
	size_t n = estimate->leaves[0].n, runs = min_u64(RUNS, (n + RUN - 1) / RUN), i, j;
	struct sample sample = { .disk = &estimate->disk };
	double end = now() + TIME;

	if (posix_memalign((void **)&sample.blocks, 4096, RUN * estimate->disk.nodesize))
		give_up("no memory");
	for (i = 0; i < runs && now() < end; i++) {
		size_t run = runs == RUNS ? i * 13 % RUNS : i, from = n * run / runs;
		size_t leaves = min_u64(RUN, n * (run + 1) / runs - from);
		struct extents extents = { 0 };

		sample.v = estimate->leaves[0].v + from;
		parallel(AHEAD, leaves, read_leaf, &sample);
		for (j = 0; j < leaves; j++)
			take_leaf(estimate, &sample.v[j], sample.blocks + j * estimate->disk.nodesize,
				  &extents);
		for (j = 0; j < extents.n; j++)
			take_extent(estimate, &extents.v[j]);
		extents_free(&extents);
	}
	free(sample.blocks);
	if (n && !estimate->sampled)
		give_up("no leaf of the sample is what it has to be");
}

/* Note the leaves of a tree that have the keys and are not read anyway. */
static void find_leaves(struct estimate *estimate, u64 tree, struct keys *keys)
{
	struct leaf leaf = { .end = { 0 } };
	double end = now() + TIME;
	struct pointer root;
	struct walk walk;
	u64 order;
	size_t i;

	if (!keys->n || disk_root(&estimate->disk, tree, &root))
		return;
	sort_list(keys, key_cmp);
	walk_init(&walk, &estimate->disk, &root, THREADS);
	walk.ahead = min_u64(WALK_AHEAD, 1 + keys->n / 64);
	for (i = 0; i < keys->n && now() < end; i++) {
		if (key_cmp(&keys->v[i], &leaf.end) < 0)
			continue;
		if (walk_seek(&walk, &keys->v[i], &leaf) <= 0)
			break;
		if ((tree != estimate->trees[0].id ||
		     leaf.at.generation <= estimate->trees[1].root.generation) &&
		    !disk_place(&estimate->disk, leaf.at.bytenr, &order))
			add(&estimate->others, order, estimate->disk.nodesize);
	}
	walk_free(&walk);
}

/* Seconds for @n reads all over so many bytes of a device, or one behind the other. */
static double measured(const struct estimate *estimate, u64 order, size_t n, u64 range, size_t bytes)
{
	u64 chance = 1, at;
	double start = now();
	void *block;
	size_t i;

	if (posix_memalign(&block, 4096, bytes))
		give_up("no memory");
	for (i = 0; i < n; i++) {
		chance = chance * 6364136223846793005ULL + 1442695040888963407ULL;
		at = range ? (chance >> 24) % (range >> 12) : i * (bytes >> 12);
		if (disk_read(&estimate->disk, order + at, block, bytes))
			give_up("the disk cannot be read: %m");
	}
	free(block);
	return now() - start;
}

/* The numbers of the disk. */
static void measure(struct estimate *estimate)
{
	const struct options *options = estimate->options;
	u64 first = estimate->leaves[BOTH].v->order, device = order_of(order_device(first), 0), size = 0;

	ioctl(disk_fd(&estimate->disk, first), BLKGETSIZE64, &size);
	estimate->size = size;
	estimate->random = options->disk_random;
	estimate->rate = options->disk_rate;
	if (!estimate->rate) {
		if (order_byte(first) + 16 * PIECE > size)
			first = device;
		estimate->random = measured(estimate, device, 32, size, 4096) / 32;
		estimate->rate = 16 * PIECE / measured(estimate, first, 16, 0, PIECE);
	}
}

static void reckon(struct estimate *estimate)
{
	double window = room_window(estimate->options->window) / 2, known = estimate->part;
	double part = estimate->sampled ? (double)estimate->sampled / estimate->trees[0].leaves : 1;
	double random = estimate->random, others;
	/* for leaves of the parent's tree, which are not read ahead, the others wait */
	int depth = estimate->options->parent ? 2 : DEPTH;
	u64 leaf = estimate->disk.nodesize;

	find_leaves(estimate, estimate->trees[0].id, &estimate->names);
	others = estimate->others.n / part;
	estimate->stock = estimate->nodes * random + others * (TURN * random + leaf / estimate->rate) +
		read_time(estimate, &estimate->leaves[BOTH], AHEAD * leaf, depth, known) +
		read_time(estimate, &estimate->data, 0, 1, part);
	estimate->program = START * TURN * random + estimate->nodes * random / AHEAD +
		read_time(estimate, &estimate->leaves[BOTH], window, DEPTH, known) +
		read_time(estimate, &estimate->data, window, DEPTH, part) +
		read_time(estimate, &estimate->others, INFINITY, DEPTH, part);
	estimate->program = fmin(estimate->program, estimate->stock);
	estimate->extents /= part;
	estimate->data_bytes /= part;
}

/* Print about so many seconds: a factor of 1.5 from the least to the most. */
static void print_range(double seconds)
{
	const char *unit = seconds < 120 ? "seconds" : seconds < 7200 ? "minutes" : "hours";
	double in = seconds / (seconds < 120 ? 1 : seconds < 7200 ? 60 : 3600);

	printf("%.*f to %.*f %s", in < 8, in / 1.25, in < 8, in * 1.2, unit);
}

static void print(const struct estimate *estimate)
{
	const struct tree *tree = estimate->trees;
	u64 leaves = tree[0].leaves + tree[1].leaves;
	double ratio = estimate->program / estimate->stock;

	if (estimate->options->json) {
		printf("{\"leaves\":%ju,\"parent_leaves\":%ju,\"leaves_apart\":%ju,\"leaf_bytes\":%u,"
		       "\"nodes\":%ju,\"other_leaves\":%zu,\"sampled_leaves\":%ju,\"data_bytes\":%ju,"
		       "\"extents\":%ju,\"random_ns\":%.0f,\"bytes_per_second\":%.0f,\"stock_ns\":%.0f,"
		       "\"program_ns\":%.0f}\n", tree[0].leaves, tree[1].leaves, estimate->apart,
		       estimate->disk.nodesize, estimate->nodes, estimate->others.n,
		       estimate->sampled, estimate->data_bytes, estimate->extents,
		       estimate->random * 1e9, estimate->rate, estimate->stock * 1e9,
		       estimate->program * 1e9);
		return;
	}
	printf("btrfs send will take about ");
	print_range(estimate->stock);
	if (ratio > 0.8) {
		printf(": nothing to gain%s\n", estimate->data_bytes > 1e6 * estimate->extents ?
		       ", large files" : "");
	} else {
		printf(", with sendahead ");
		print_range(estimate->program);
		printf("\n");
	}
	printf("metadata: %ju leaves (%.1f MB), %.0f %% of them not behind the one before; %zu others\n"
	       "file data: %.1f MB in %ju extents\n"
	       "disk: %.2f ms a random read, %.0f MB/s\n",
	       leaves, leaves * estimate->disk.nodesize / 1e6, leaves ? 100.0 * estimate->apart / leaves : 0,
	       estimate->others.n, estimate->data_bytes / 1e6, estimate->extents,
	       estimate->random * 1e3, estimate->rate / 1e6);
}

static struct estimate *begin(const struct options *options)
{
	struct estimate *estimate = calloc(1, sizeof(*estimate));

	if (!estimate)
		give_up("no memory");
	estimate->options = options;
	open_tree(estimate, 0, options->subvolumes[0]);
	if (options->parent)
		open_tree(estimate, 1, options->parent);
	collect(estimate);
	return estimate;
}

u64 estimate_leaves(const struct options *options)
{
	const struct tree *trees = begin(options)->trees;

	/* the memory goes with this process */
	return trees[0].leaves + trees[1].leaves;
}

int estimate(const struct options *options)
{
	struct estimate *estimate = begin(options);

	if (!estimate->leaves[BOTH].n)
		give_up("there is nothing to be sent");
	/* the generation of an extent tells whether it is new */
	if (estimate->trees[1].since > estimate->trees[0].since)
		give_up("the parent is younger than what is sent");
	take_sample(estimate);
	measure(estimate);
	reckon(estimate);
	print(estimate);
	if (fflush(stdout))
		give_up("what it says cannot be written: %m");
	return 0;
}
