// SPDX-License-Identifier: GPL-2.0
/*
 * What a send would read, and how long that takes: which leaves, the nodes say, or a sample of
 * the nodes; what lies in them, a sample of them. The disk reads the sample as btrfs send does,
 * past the page cache, or all is computed from two numbers.
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
#include "limits.h"
#include "threads.h"
#include "walk.h"

#define NODES 512		/* of both trees, whose leaves are noted */
#define GROUPS 64		/* of neighbours among the nodes, where there are more */
#define RUNS 32			/* of neighbours in the tree, that are looked at */
#define RUN 32			/* leaves of one */
#define PIECE (1 << 20)
#define NEAR (64 << 20)		/* where the head needs a short seek only */
#define AHEAD 8			/* leaves that btrfs send has asked for ahead, or one more */
#define THROWS 4		/* of the dice, */
#define FEW 16384		/* for fewer reads than that */
#define DEVICES 64		/* with a head each; of more some share one */
#define SEGMENTS 16		/* of a drive's buffer, */
#define SEGMENT (2 << 20)	/* and bytes of one */
#define DEEP 32			/* requests that a disk without heads serves at once */
#define TIME 2.0		/* seconds for the sample */
#define STRIDE 7919		/* from one leaf to the next that is looked into, a prime, */
#define OTHER_STRIDE 7907	/* and another, for a multiple of it */
#define SORTED_COST 1.3		/* in the order of a disk with heads, to the floor */
#define DESCENTS 16		/* in a tree, to know how many leaves it has */
#define START 12			/* reads one after another, before anything is read ahead */
/* What the processor does, as so many searches in a tree. */
#define PER_INODE 29
#define PER_ITEM 2.8
#define PER_INLINE 6
#define PER_DIRECTORY 25	/* whose path is not known from of late */
#define PER_EXTENT 20
#define PER_LEAF 28
#define PER_BYTE 1.6e-3		/* of file data */
#define PER_SEND 6000
#define PER_FILE (PER_INODE + 5 * PER_ITEM + PER_INLINE + 0.16 * PER_LEAF)	/* of 2000 bytes */
#define RECENT 256		/* names that btrfs send keeps */
#define OVERLAP 0.8		/* of disk and processor */
#define OVERLAP_AHEAD 0.3	/* where an increment is read ahead */

/* A read of the disk. */
struct get {
	u64 order;		/* as of disk_place() */
	u64 bytes;
	u64 bytenr, generation;	/* of a leaf */
	u8 parent;		/* a leaf of the parent's tree */
	u8 read;		/* how many throws of the dice have read it */
};

struct gets {
	struct get *v;
	size_t n, room;
};

/* A leaf that the send comes to. */
struct visit {
	struct get get;
	double when;		/* the part of the send before it */
	double weight;		/* how many it stands for; 0 for a leaf of the trees */
};

struct range {
	u64 from, to;
};

/* Where a head is, and what it passed over last: the drive has that in its buffer. */
struct head {
	u64 end;		/* 0: it has read nothing */
	struct range passed[SEGMENTS];
	u32 at;			/* the segment that is being filled */
};

/* Reads one after the other. */
struct reading {
	struct head heads[DEVICES];
	u64 chance;
	int throw;		/* of the dice */
	size_t window;		/* reads to choose from, */
	size_t asked;		/* and those that the disk knows of */
};

/* Numbers, and how much each differs from the one before. */
struct spread {
	double n, sum, last, squares;	/* of the differences */
};

struct tree {
	u64 id, since;		/* of its last change: balancing is none */
	u64 leaves, apart;	/* that the send reads; those not behind the one before */
	struct pointer root;
};

/* What the send looks up elsewhere for the sample. */
struct look_up {
	u64 tree;
	struct keys keys;
};

enum { EXTENTS, BLOCKS, CSUMS, NAMES, LOOK_UPS };

struct estimate {
	const struct options *options;
	struct disk disk;
	struct tree trees[2];	/* that is sent, the parent */
	struct walk walks[2];	/* in these trees */
	int heads;
	double window;		/* bytes that are sorted at once */
	double size;		/* of the device */
	double random, near, rate;	/* of the disk: seconds, bytes a second */
	double search;		/* of the processor: seconds */
	u64 nodes, elsewhere;
	double part;		/* of the nodes: those whose leaves are noted */
	struct gets leaves;	/* of both trees, in the order of keys */
	struct get *by_order;	/* the same */
	/* the sample of them */
	u64 sampled, inodes, directories, items, extents, inlines, data_bytes;
	u64 recent[RECENT];	/* directories */
	struct gets data, past;	/* in the order of the sample; past the page cache */
	struct {
		struct visit *v;
		size_t n, room;
	} visits;
	struct look_up look_ups[LOOK_UPS];
	struct spread groups, runs;	/* of their leaves, and of the bytes of a run */
	/* seconds of the send */
	double stock, program, module;
};

/* Another number by chance. */
static u64 draw(u64 *chance)
{
	return *chance = *chance * 6364136223846793005ULL + 1442695040888963407ULL;
}

/* Another part of one by chance. */
static double draw_part(u64 *chance)
{
	return (draw(chance) >> 11) * 0x1p-53;
}

static void take_number(struct spread *spread, double number)
{
	if (spread->n++)
		spread->squares += pow(number - spread->last, 2);
	spread->sum += number;
	spread->last = number;
}

/*
 * How far off their sum may be, as a part of it, of which @part was looked at: twice the standard
 * error of numbers that were taken at equal distances, and of those in any other order rather more.
 */
static double doubt(const struct spread *spread, double part)
{
	if (spread->n < 2)
		return 1;
	return sqrt(2 * (1 - part) * spread->squares / (spread->n - 1) * spread->n) / spread->sum;
}

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
		walk_init(&estimate->walks[i], &estimate->disk, &estimate->trees[i].root, DEEP);
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
	u64 order, behind[2] = { 0 }, noted = estimate->leaves.n;
	struct leaf leaf;
	int i;

	for (i = 0; i <= (parent != NULL); i++) {
		estimate->walks[i].ahead = 1;
		checked(walk_seek(&estimate->walks[i], from, &leaf));
		estimate->walks[i].ahead = min_u64(n, WALK_AHEAD);
	}
	while (checked(walk_next_leaf(estimate->walks, parent, &leaf)) &&
	       key_cmp(&leaf.at.key, &from[n]) < 0) {
		struct tree *tree = &estimate->trees[leaf.parent];
		struct get *get;

		/* the leaf of the other tree may begin before */
		if (key_cmp(&leaf.at.key, from) < 0 ||
		    disk_place(&estimate->disk, leaf.at.bytenr, &order))
			continue;
		tree->leaves++;
		tree->apart += order != behind[leaf.parent];
		behind[leaf.parent] = order + (estimate->disk.nodesize >> 12);
		get = add(&estimate->leaves, order, estimate->disk.nodesize);
		get->bytenr = leaf.at.bytenr;
		get->generation = leaf.at.generation;
		get->parent = leaf.parent;
	}
	take_number(&estimate->groups, estimate->leaves.n - noted);
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
	for (i = 0; i < 2; i++) {
		estimate->trees[i].leaves /= estimate->part;
		estimate->trees[i].apart /= estimate->part;
		walk_free(&estimate->walks[i]);
	}
	free(nodes.v);
}

/*
 * Seconds to get to what lies so far away: where there are heads a short seek, part of the longest
 * one, and @turn of a revolution. To read by chance takes half a revolution and 8/15 of the
 * longest seek.
 */
static double jump(const struct estimate *estimate, double gap, double turn)
{
	if (!estimate->heads)
		return estimate->random;
	return estimate->near * 2 * turn + 15 / 8.0 * fmax(estimate->random - estimate->near, 0) *
		sqrt(fmin(gap / estimate->size, 1));
}

static struct get *copy(const struct gets *gets)
{
	struct get *v = calloc(gets->n + 1, sizeof(*v));

	if (!v)
		give_up("no memory");
	if (gets->n)
		memcpy(v, gets->v, gets->n * sizeof(*v));
	return v;
}

/* The head of the device that a read is on: it begins at the first one there. */
static struct head *head_of(struct reading *reading, const struct get *get)
{
	struct head *head = &reading->heads[order_device(get->order) % DEVICES];

	if (!head->end)
		head->end = head->passed[0].from = head->passed[0].to = order_byte(get->order);
	return head;
}

/*
 * Seconds for a read, none if the drive has it: @part of the gap is between, there are so many
 * reads to choose from.
 */
static double get_time(const struct estimate *estimate, const struct get *get,
		       struct reading *reading, double part, double turn, double among)
{
	const struct head *head = head_of(reading, get);
	u64 at = order_byte(get->order), end = head->end;
	double gap = (at > end ? at - end : end - at) * part;
	double wait = jump(estimate, gap, turn) / among;
	int i;

	for (i = 0; estimate->heads && i < SEGMENTS; i++)
		if (at >= head->passed[i].from && at + get->bytes <= head->passed[i].to)
			return 0;
	if (at >= end)
		wait = fmin(wait, gap / estimate->rate);
	return wait + get->bytes / estimate->rate;
}

/* The head has read @get in @seconds. In less than passing over the gap takes, it has jumped. */
static void move_head(const struct estimate *estimate, struct reading *reading,
		      const struct get *get, double seconds)
{
	struct head *head = head_of(reading, get);
	struct range *passed = &head->passed[head->at];
	u64 at = order_byte(get->order), end = at + get->bytes;

	if (!seconds)
		return;
	if (at < head->end || seconds * estimate->rate < 0.99 * (end - head->end)) {
		head->at = (head->at + 1) % SEGMENTS;
		passed = &head->passed[head->at];
		passed->from = at;
	}
	passed->to = head->end = end;
	if (end - passed->from > SEGMENT)
		passed->from = end - SEGMENT;
}

static int is_due(const struct reading *reading, const struct get *get)
{
	return !get->parent && get->read <= reading->throw;
}

/*
 * Read one of the reads from @i on: the cheapest, or the first if the disk is idle. Of neighbours,
 * which are one request, the first. Return: its seconds.
 */
static double read_next(const struct estimate *estimate, struct reading *reading,
			const struct gets *gets, size_t i)
{
	size_t end = min_u64(i + reading->window, gets->n), next = i, j;
	size_t known = i < reading->asked ? end : i + 1;
	double least = HUGE_VAL, time;
	struct get *v = gets->v;

	for (j = i; j < known; j++) {
		if (!is_due(reading, &v[j]))
			continue;
		time = get_time(estimate, &v[j], reading, 1,
				reading->window == 1 ? 0.5 : draw_part(&reading->chance),
				estimate->heads ? 1 : reading->window);
		if (time < least) {
			least = time;
			next = j;
		}
	}
	for (j = i; least && j < end; j++)
		if (is_due(reading, &v[j]) && v[j].order < v[next].order &&
		    v[j].order + (v[j].bytes >> 12) == v[next].order) {
			next = j;
			j = i - 1;
		}
	reading->asked = i + reading->window;
	v[next].read++;
	move_head(estimate, reading, &v[next], least);
	return least;
}

/*
 * Seconds for reads in the order of the send, so many of them under way; of few, what some throws
 * of the dice say. For a leaf of the parent btrfs send waits each time, where the disk has heads.
 * Once for a list.
 */
static double send_time(const struct estimate *estimate, struct gets *gets, size_t window)
{
	int throw, throws = estimate->heads && gets->n < FEW ? THROWS : 1;
	const struct get *v = gets->v;
	double seconds = 0;
	size_t i;

	for (throw = 0; throw < throws; throw++) {
		struct reading reading = {
			.chance = throw, .throw = throw,
			.window = window == 1 ? 1 : window + throw % 2,
		};

		for (i = 0; i < gets->n; i++) {
			if (v[i].parent)
				seconds += jump(estimate, 1 << 24, 0.5) / (estimate->heads ? 1 : 2) +
					v[i].bytes / estimate->rate;
			while (is_due(&reading, &v[i]))
				seconds += read_next(estimate, &reading, gets, i);
		}
	}
	return seconds / throws;
}

/*
 * In the order of the disk, @window bytes at a time, as the program and the module read, after a
 * short seek. @known is the part of all reads that is in the list. The list is that part of a window,
 * too, or more, if windows are small: gaps are that much smaller. Return: seconds for all reads.
 */
static double sorted_time(const struct estimate *estimate, const struct gets *gets, double known,
			  double window)
{
	double seconds = 0, bytes = 0, part, among = estimate->heads ? (AHEAD + 1) / 2.0 : DEEP;
	struct get *v = copy(gets);
	struct reading reading = { 0 };
	size_t i, from, to;

	for (i = 0; i < gets->n; i++)
		bytes += v[i].bytes;
	part = fmin(fmax(known, bytes / window), 1);
	for (from = 0; from < gets->n; from = to) {
		for (to = from, bytes = 0; to < gets->n && bytes < window; to++)
			bytes += v[to].bytes;
		qsort(v + from, to - from, sizeof(*v), by_number);
		for (i = from; i < to; i++) {
			seconds += get_time(estimate, &v[i], &reading, part, 0.5, among);
			head_of(&reading, &v[i])->end = order_byte(v[i].order) + v[i].bytes;
		}
	}
	free(v);
	if (estimate->heads)
		seconds *= SORTED_COST;
	return gets->n ? estimate->near + seconds / known : 0;
}

/* What the leaves of the sample say. */

static void want_key(struct estimate *estimate, int which, u64 objectid, u8 type, u64 offset)
{
	add_key(&estimate->look_ups[which].keys, objectid, type, offset);
}

static void take_extent(struct estimate *estimate, const struct extent *extent)
{
	const struct options *options = estimate->options;
	int past = options->compressed_data && extent->compressed;
	/* a leaf has the checksums of nearly twice that */
	u64 at, order, step = (u64)estimate->disk.nodesize << 9;

	if (extent->generation <= estimate->trees[1].since)
		return;
	estimate->extents++;
	if (!options->no_data)
		estimate->data_bytes += past ? extent->disk_bytes : extent->length;
	estimate->inlines += !extent->disk;
	if (!extent->disk || !extent->length)
		return;
	want_key(estimate, EXTENTS, extent->disk_extent, BTRFS_EXTENT_ITEM_KEY, 0);
	if (options->no_data)
		return;
	/* with parity it is about there */
	if (disk_place(&estimate->disk, extent->disk, &order))
		order = order_of(order_device(estimate->leaves.v->order), extent->disk);
	for (at = 0; !past && at < extent->disk_bytes; at += step)
		want_key(estimate, CSUMS, BTRFS_EXTENT_CSUM_OBJECTID, BTRFS_EXTENT_CSUM_KEY,
			 extent->disk + at);
	add(past ? &estimate->past : &estimate->data, order,
	    (extent->disk_bytes + 4095) & ~4095ULL);
}

/*
 * The directory of a name is looked up, and the name of what has changed: in both trees, but where
 * the parent's has another leaf, that is read anyway.
 */
static void take_name(struct estimate *estimate, const struct item *item, int changed)
{
	const size_t head = sizeof(struct btrfs_inode_ref);

	want_key(estimate, NAMES, item->key.offset, BTRFS_INODE_ITEM_KEY, 0);
	if (changed && item->len >= head)
		want_key(estimate, NAMES, item->key.offset, BTRFS_DIR_ITEM_KEY,
			 crc32c(~1u, item->data + head, min_u64(item->len - head,
				get_u16(item->data + offsetof(struct btrfs_inode_ref, name_len)))));
}

static void take_directory(struct estimate *estimate, u64 ino)
{
	u64 *recent = &estimate->recent[ino % RECENT];

	estimate->directories += *recent != ino;
	*recent = ino;
}

static void take_leaf(struct estimate *estimate, const struct get *leaf, const u8 *block,
		      struct extents *extents)
{
	u64 since = estimate->trees[1].since, changed = 0;
	struct item item;
	u32 i;

	if (get_u64(block + HEADER_BYTENR) != leaf->bytenr ||
	    get_u64(block + HEADER_GENERATION) != leaf->generation)
		return;
	estimate->sampled++;
	for (i = 0; leaf_item(block, estimate->disk.nodesize, i, &item); i++) {
		estimate->items++;
		extents_take(extents, &item);
		if (item.key.type == BTRFS_INODE_ITEM_KEY && item.len >= 16 &&
		    get_u64(item.data + offsetof(struct btrfs_inode_item, transid)) > since) {
			estimate->inodes++;
			changed = item.key.objectid;
		}
		if (item.key.type == BTRFS_INODE_REF_KEY && changed == item.key.objectid)
			take_directory(estimate, item.key.offset);
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

static void take_run(struct estimate *estimate, struct sample *sample, size_t n)
{
	double bytes = estimate->data_bytes;
	struct extents extents = { 0 };
	size_t i;

	parallel(AHEAD, n, read_leaf, sample);
	for (i = 0; i < n; i++)
		if (!sample->v[i].parent)
			take_leaf(estimate, &sample->v[i],
				  sample->blocks + i * estimate->disk.nodesize, &extents);
	for (i = 0; i < extents.n; i++)
		take_extent(estimate, &extents.v[i]);
	extents_free(&extents);
	bytes = estimate->data_bytes - bytes + n * estimate->disk.nodesize;
	take_number(&estimate->runs, bytes);
}

/* Look into runs of leaves, all over the tree even if there is no time for all of them. */
static void take_sample(struct estimate *estimate)
{
	size_t n = estimate->leaves.n, runs = min_u64(RUNS, (n + RUN - 1) / RUN), i;
	struct sample sample = { .disk = &estimate->disk };
	double end = now() + TIME;

	if (posix_memalign((void **)&sample.blocks, 4096, RUN * estimate->disk.nodesize))
		give_up("no memory");
	for (i = 0; i < runs && now() < end; i++) {
		size_t run = runs == RUNS ? i * 13 % RUNS : i, from = n * run / runs;

		sample.v = estimate->leaves.v + from;
		take_run(estimate, &sample, min_u64(RUN, n * (run + 1) / runs - from));
	}
	free(sample.blocks);
	if (estimate->trees[0].leaves && !estimate->sampled)
		give_up("no leaf of the sample is what it has to be");
}

/* Note a leaf, if it is not read anyway. */
static void add_leaf(struct estimate *estimate, struct gets *found, u64 bytenr)
{
	struct get get = { 0 };

	if (!disk_place(&estimate->disk, bytenr, &get.order) &&
	    !bsearch(&get, estimate->by_order, estimate->leaves.n, sizeof(get), by_number))
		add(found, get.order, estimate->disk.nodesize)->bytenr = bytenr;
}

/*
 * About how many leaves a tree has: what the nodes on some ways down to a leaf would make of it.
 * 0 if they cannot be read.
 */
static double tree_leaves(const struct estimate *estimate, const struct pointer *root)
{
	double all = 0, known = 0, leaves;
	u64 chance = 1;
	int i;

	for (i = 0; i < DESCENTS; i++) {
		struct pointer at = *root;

		for (leaves = 1; at.level;) {
			struct node *node = disk_node(&estimate->disk, &at);

			if (!node)
				break;
			leaves *= node->nr;
			at = node->child[at.level == root->level ? node->nr * i / DESCENTS :
					 (draw(&chance) >> 33) % node->nr];
			free(node);
		}
		if (!at.level) {
			all += leaves;
			known++;
		}
	}
	return known ? all / known : 0;
}

/*
 * In a @part of the draws so many different ones of @all were met, 0 if that is not known. Return:
 * how many are met in all draws.
 */
static double extrapolate(double found, double part, double all)
{
	if (!all)
		return found / part;
	return all > found ? all * (1 - pow(1 - found / all, 1 / part)) : found;
}

/*
 * The leaves that the sample needs, until @end. @part: of all keys those in the sample. @done: is
 * set to which part of these was looked for. Return: how many leaves all that is sent needs.
 */
static double find_leaves(struct estimate *estimate, u64 tree, struct keys *keys, double end,
			  double part, double *done, struct gets *found)
{
	const struct tree *sent = estimate->trees;
	struct leaf leaf = { .end = { 0 } };
	struct pointer root;
	struct walk walk;
	double all, needed;
	size_t i;

	*done = 1;
	if (!keys->n || disk_root(&estimate->disk, tree, &root))
		return 0;
	sort_list(keys, key_cmp);
	walk_init(&walk, &estimate->disk, &root, DEEP);
	walk.ahead = min_u64(WALK_AHEAD, 1 + keys->n / 64);
	for (i = 0; i < keys->n; i++) {
		if (key_cmp(&keys->v[i], &leaf.end) < 0)
			continue;
		if ((i && now() > end) || walk_seek(&walk, &keys->v[i], &leaf) <= 0)
			break;
		if (tree != sent->id || leaf.at.generation <= sent[1].root.generation)
			add_leaf(estimate, found, leaf.at.bytenr);
	}
	walk_free(&walk);
	*done = (double)i / keys->n;
	if (!found->n)
		return 0;
	needed = found->n / *done;
	if (part >= 1)
		return needed;
	all = tree_leaves(estimate, &root);
	/* not those that are read anyway */
	if (all && tree == sent->id)
		all = fmax(all - sent->leaves, 1);
	return extrapolate(needed, part, all);
}

/* Seconds for @n reads within @range bytes: by chance, or one after another. */
static double read_time(const struct estimate *estimate, u64 order, size_t n, u64 range,
			size_t bytes)
{
	double start = now();
	u64 chance = 1;
	void *block;
	size_t i;

	if (posix_memalign(&block, 4096, bytes))
		give_up("no memory");
	for (i = 0; i < n; i++) {
		u64 at = i * (bytes >> 12);

		if (range > n * bytes)
			at = (draw(&chance) >> 24) % (range >> 12);
		if (disk_read(&estimate->disk, order + at, block, bytes))
			give_up("the disk cannot be read: %m");
	}
	free(block);
	return now() - start;
}

/* Seconds for a search: the least of some means, since others may have the processor as well. */
static double search_time(const struct estimate *estimate)
{
	struct pointer root;
	double least = HUGE_VAL, start;
	int i, j;

	for (i = 0; i < 16; i++) {
		start = now();
		for (j = 0; j < 250; j++)
			disk_root(&estimate->disk, estimate->trees[0].id, &root);
		least = fmin(least, (now() - start) / 250);
	}
	return least;
}

/* The numbers of a disk, and that of the processor. */
static void measure(struct estimate *estimate)
{
	const struct options *options = estimate->options;
	u64 first = estimate->leaves.v[0].order, device = order_of(order_device(first), 0);
	u64 size = 0, near;

	estimate->search = options->cpu < 0 ? search_time(estimate) :
		options->cpu * 1e-6 / PER_FILE;
	ioctl(disk_fd(&estimate->disk, first), BLKGETSIZE64, &size);
	estimate->size = size;
	estimate->random = options->disk_random;
	estimate->near = 0.4 * estimate->random;
	estimate->rate = options->disk_rate;
	if (!estimate->rate) {
		/* what follows the first leaf, but not the end of the device */
		near = min_u64(NEAR, size);
		if (order_byte(first) + near > size)
			first = device;
		estimate->random = read_time(estimate, device, 32, size, 4096) / 32;
		estimate->near = read_time(estimate, first, 64, near, 4096) / 64;
		estimate->rate = 16 * PIECE / read_time(estimate, first, 16, 16 * PIECE, PIECE);
	}
	estimate->heads = estimate->random > 1.5e-3;
}

/* Another part of the send. */
static void count(struct estimate *estimate, double stock, double program, double module)
{
	estimate->stock += stock;
	estimate->program += program;
	estimate->module += module;
}

/*
 * Spread leaves over the send, in the order of the list or scattered; only @part of them, of which
 * each stands for so many.
 */
static void visit(struct estimate *estimate, const struct gets *gets, int scattered, double part,
		  double weight)
{
	u64 chance = 1;
	size_t i;

	for (i = 0; i < gets->n; i++)
		if ((size_t)(i * part) < (size_t)((i + 1) * part))
			*append(&estimate->visits) = (struct visit) {
				gets->v[i],
				scattered ? draw_part(&chance) : (i + 0.5) / gets->n,
				weight
			};
}

/*
 * Leaves that are looked up, @all of which the sample found some: names in the order of
 * directories, which is about that of the send, others in none.
 */
static void count_leaves(struct estimate *estimate, const struct gets *found, int names, double all)
{
	double sorted;

	if (!found->n)
		return;
	visit(estimate, found, !names, 1, all / found->n);
	sorted = sorted_time(estimate, found, found->n / all, INFINITY);
	count(estimate, 0, sorted, sorted);
	estimate->elsewhere += all;
}

static int by_when(const void *a, const void *b)
{
	double one = ((const struct visit *)a)->when, two = ((const struct visit *)b)->when;

	return (one > two) - (one < two);
}

/*
 * Seconds for what is looked up, one after the other; between two of them the send comes to as many
 * leaves of the trees as there are for one.
 */
static double look_up_time(struct estimate *estimate)
{
	double seconds = 0, time, known = estimate->visits.n;
	struct reading reading = { 0 };
	size_t i;

	if (!known)
		return 0;
	visit(estimate, &estimate->leaves, 0,
	      fmin(known / estimate->elsewhere / estimate->part, 1), 0);
	sort_list(&estimate->visits, by_when);
	for (i = 0; i < estimate->visits.n; i++) {
		const struct visit *at = &estimate->visits.v[i];

		time = get_time(estimate, &at->get, &reading, 1, 0.5, 1);
		move_head(estimate, &reading, &at->get, time);
		seconds += at->weight * time;
	}
	return seconds;
}

/*
 * The leaves that references to the extents lead to: the send looks there for what it can clone.
 * @leaves tell of the extents of the sample, and are read as long as there is time. Return: the
 * part of all that is known then.
 */
static double take_refs(struct estimate *estimate, double part, const struct gets *leaves)
{
	const struct keys *extents = &estimate->look_ups[EXTENTS].keys;
	struct keys others = { 0 };
	struct gets found = { 0 };
	struct refs refs = { 0 };
	u64 data, blocks;
	size_t stride = leaves->n % STRIDE ? STRIDE : OTHER_STRIDE;
	double end = now() + TIME / 2, known = 0, done;
	struct item item;
	u8 *block;
	size_t i, j;

	if (posix_memalign((void **)&block, 4096, estimate->disk.nodesize))
		give_up("no memory");
	for (i = 0; i < leaves->n && refs.n < REFS_NOTED && now() < end; i++) {
		if (disk_read(&estimate->disk, leaves->v[i * stride % leaves->n].order, block,
			      estimate->disk.nodesize))
			continue;
		for (j = 0; leaf_item(block, estimate->disk.nodesize, j, &item); j++) {
			struct key key = { item.key.objectid, BTRFS_EXTENT_ITEM_KEY, 0 };

			if (bsearch(&key, extents->v, extents->n, sizeof(key), key_cmp))
				extents_refs(&item, estimate->options->parent != NULL, &refs);
		}
	}
	part *= (double)i / leaves->n;
	free(block);
	sort_list(&refs, ref_cmp);
	for (end += TIME / 2, i = 0; i < refs.n && now() < end; i++) {
		const struct ref *ref = &refs.v[i];

		if (!ref->tree) {
			if (!i || ref[-1].parent != ref->parent)
				add_leaf(estimate, &found, ref->parent);
			known++;
			continue;
		}
		*append(&others) = ref->key;
		if (i + 1 < refs.n && ref[1].tree == ref->tree)
			continue;
		find_leaves(estimate, ref->tree, &others, end, 1, &done, &found);
		known += others.n * done;
		others.n = 0;
	}
	if (refs.n)
		part *= known / refs.n;
	free(refs.v);
	free(others.v);
	for (i = 0; i < found.n; i++)
		want_key(estimate, BLOCKS, found.v[i].bytenr, BTRFS_METADATA_ITEM_KEY, 0);
	disk_used(&estimate->disk, &data, &blocks);
	count_leaves(estimate, &found, 0, extrapolate(found.n, part, blocks));
	free(found.v);
	return part;
}

/* The processor's time, part of which passes while the disk reads. */
static void add_processor(struct estimate *estimate, double part)
{
	double overlap = estimate->options->parent ? OVERLAP_AHEAD : OVERLAP, seconds;

	seconds = (PER_INODE * estimate->inodes + PER_ITEM * estimate->items +
		   PER_DIRECTORY * estimate->directories +
		   PER_INLINE * estimate->inlines +
		   PER_EXTENT * (estimate->extents - estimate->inlines) +
		   PER_BYTE * estimate->data_bytes) / part +
		PER_LEAF * (estimate->leaves.n / estimate->part + estimate->elsewhere) + PER_SEND;
	seconds *= estimate->search;
	count(estimate, seconds - OVERLAP * fmin(seconds, estimate->stock),
	      seconds - overlap * fmin(seconds, estimate->program),
	      seconds - overlap * fmin(seconds, estimate->module));
}

/*
 * A list of which @part is known, so many of them asked for ahead. What goes past the page cache
 * the program does not read.
 */
static void count_list(struct estimate *estimate, struct gets *gets, size_t ahead, double part,
		       int past)
{
	double stock = send_time(estimate, gets, ahead) / part;
	double sorted = sorted_time(estimate, gets, part, estimate->window);

	count(estimate, stock, past ? stock : sorted, sorted);
}

static void reckon(struct estimate *estimate)
{
	double part = 1, refs_part = 1, stock, sorted, all, done;
	int which;

	/* both leaves and data are read in halves of it */
	estimate->window = limits_window(estimate->options->window) / 2;

	if (estimate->sampled)
		part = (double)estimate->sampled / estimate->trees[0].leaves;
	count_list(estimate, &estimate->leaves, AHEAD, estimate->part, 0);
	stock = estimate->nodes * jump(estimate, 1 << 30, 0.5);
	sorted = START * estimate->near + stock * 2 / (AHEAD + 1);
	count(estimate, stock, sorted, sorted);
	count_list(estimate, &estimate->data, 1, part, 0);
	count_list(estimate, &estimate->past, 1, part, 1);
	for (which = 0; which < LOOK_UPS; which++) {
		struct look_up *look_up = &estimate->look_ups[which];
		struct gets found = { 0 };

		all = find_leaves(estimate, look_up->tree, &look_up->keys, now() + TIME,
				  which == BLOCKS ? refs_part : part, &done, &found);
		count_leaves(estimate, &found, which == NAMES, all);
		if (which == EXTENTS && found.n)
			refs_part = take_refs(estimate, part * done, &found);
		free(found.v);
	}
	estimate->stock += look_up_time(estimate);
	add_processor(estimate, part);
	estimate->extents /= part;
	estimate->data_bytes /= part;
	estimate->program = fmin(estimate->program, estimate->stock);
	estimate->module = fmin(estimate->module, estimate->stock);
}

/* Numbers go by their names into JSON, or into words. */
static void print(const struct estimate *estimate)
{
	const struct tree *tree = estimate->trees;
	double ratio = estimate->program / estimate->stock, file = estimate->search * PER_FILE;
	double error = estimate->options->disk_rate ? 0.35 : 0.25;

	if (estimate->sampled < tree[0].leaves)
		error += hypot(doubt(&estimate->runs, 0),
			       estimate->part < 1 ? doubt(&estimate->groups, estimate->part) : 0);
	error = fmin(error, 1);
	if (estimate->options->json)
		printf("{\"leaves\":%ju,\"leaves_apart\":%ju,\"parent_leaves\":%ju,"
		       "\"parent_leaves_apart\":%ju,\"leaf_bytes\":%u,\"nodes\":%ju,"
		       "\"other_leaves\":%ju,\"sampled_leaves\":%ju,\"data_bytes\":%ju,"
		       "\"extents\":%ju,\"random_ns\":%.0f,\"bytes_per_second\":%.0f,"
		       "\"file_ns\":%.0f,\"stock_ns\":%.0f,\"program_ns\":%.0f,\"module_ns\":%.0f,"
		       "\"uncertainty\":%.2f}\n", tree[0].leaves, tree[0].apart, tree[1].leaves,
		       tree[1].apart, estimate->disk.nodesize, estimate->nodes, estimate->elsewhere,
		       estimate->sampled, estimate->data_bytes, estimate->extents,
		       estimate->random * 1e9, estimate->rate, file * 1e9, estimate->stock * 1e9,
		       estimate->program * 1e9, estimate->module * 1e9, error);
	else
		printf("leaves: %ju (%.1f MB), of which %ju do not lie behind the one before\n"
		       "of the parent: %ju (%.1f MB), %ju; only looked up: %ju; nodes: %ju\n"
		       "file data: %.1f MB in %ju extents, from %ju leaves that were looked into\n"
		       "disk: %.2f ms a random read, %.0f MB/s; processor: %.0f us a small file\n"
		       "btrfs send: %.1f s; sendahead send: %.1f s (%.2f); with the module: %.1f s "
		       "(%.2f)\ngive or take %.0f %%%s\n", tree[0].leaves,
		       tree[0].leaves * estimate->disk.nodesize / 1e6, tree[0].apart, tree[1].leaves,
		       tree[1].leaves * estimate->disk.nodesize / 1e6, tree[1].apart,
		       estimate->elsewhere, estimate->nodes, estimate->data_bytes / 1e6,
		       estimate->extents, estimate->sampled, estimate->random * 1e3,
		       estimate->rate / 1e6, file * 1e6, estimate->stock, estimate->program, ratio,
		       estimate->module, estimate->module / estimate->stock, error * 100,
		       ratio > 0.8 ? "; there is next to nothing to gain" : "");
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
	struct estimate *estimate = begin(options);
	u64 n = estimate->trees[0].leaves + estimate->trees[1].leaves;

	free(estimate->leaves.v);
	free(estimate);
	return n;
}

int estimate(const struct options *options)
{
	struct estimate *estimate = begin(options);

	if (!estimate->leaves.n)
		give_up("there is nothing to be sent");
	/* the generation of an extent tells whether it is new */
	if (estimate->trees[1].since > estimate->trees[0].since)
		give_up("the parent is younger than what is sent");
	estimate->look_ups[EXTENTS].tree = BTRFS_EXTENT_TREE_OBJECTID;
	estimate->look_ups[BLOCKS].tree = BTRFS_EXTENT_TREE_OBJECTID;
	estimate->look_ups[CSUMS].tree = BTRFS_CSUM_TREE_OBJECTID;
	estimate->look_ups[NAMES].tree = estimate->trees[0].id;
	estimate->by_order = copy(&estimate->leaves);
	qsort(estimate->by_order, estimate->leaves.n, sizeof(*estimate->by_order), by_number);
	take_sample(estimate);
	measure(estimate);
	reckon(estimate);
	print(estimate);
	if (fflush(stdout))
		give_up("what it says cannot be written: %m");
	return 0;
}
