// SPDX-License-Identifier: GPL-2.0
/*
 * Test of tools/sendahead/walk.c: two trees of three levels made by chance, with nodes that
 * both have and others that begin with the same key. What is found is compared with a
 * comparison of all their leaves.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../../sendahead/throttle.h"
#include "../../../sendahead/threads.h"
#include "../../../sendahead/walk.h"

#define NODES 300
#define LEAVES 16			/* of a node of the parent, at most */
#define TREES 50

struct branch {
	struct pointer at;		/* the node */
	struct pointer leaf[2 * LEAVES];
	u32 nr, reads;
};

struct tree {
	struct pointer root;
	struct branch branch[NODES];
	u32 reads;
};

static struct tree sent, parent;
static const struct disk disk;
static u64 rng;
static int together;			/* nodes are read, several at once */
static u64 last;			/* of them */
static u32 alone, groups;

void give_up(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	exit(1);
}

static u64 below(u64 n)
{
	rng = rng * 6364136223846793005ULL + 1442695040888963407ULL;
	return (rng >> 33) % n;
}

/* A block anywhere on the disk, where no other is. */
static struct pointer block(u64 objectid, u64 generation, u8 level)
{
	static u64 number;

	return (struct pointer) {
		.key = { objectid, 1, 0 },
		.bytenr = (below(1 << 20) << 20 | ++number) << 12,
		.generation = generation,
		.level = level,
	};
}

/* A node of the tree that is sent: that of the parent, or one that has some of its leaves. */
static void change(struct branch *new, const struct branch *old)
{
	u32 i;

	*new = *old;
	if (below(2))
		return;
	new->at = block(old->at.key.objectid, 2, 1);
	new->nr = 0;
	for (i = 0; i < old->nr; i++) {
		/* the first one stays, changed or not: the node begins with it */
		if (i && !below(8))
			continue;
		new->leaf[new->nr++] = below(2) ? old->leaf[i] : block(old->leaf[i].key.objectid, 2, 0);
		if (!below(8))
			new->leaf[new->nr++] = block(old->leaf[i].key.objectid + 5, 2, 0);
	}
}

static void make_trees(void)
{
	u32 n, i;

	parent.root = block(256, 1, 2);
	sent.root = block(256, 2, 2);
	parent.reads = sent.reads = 0;
	for (n = 0; n < NODES; n++) {
		struct branch *branch = &parent.branch[n];

		branch->at = block(256 + n * 1000, 1, 1);
		branch->nr = 1 + below(LEAVES);
		branch->reads = 0;
		for (i = 0; i < branch->nr; i++)
			branch->leaf[i] = block(256 + n * 1000 + i * 10, 1, 0);
		change(&sent.branch[n], branch);
	}
}

static struct node *node_of(const struct pointer *at, u32 nr)
{
	struct node *node = malloc(sizeof(*node) + nr * sizeof(*node->child));

	node->at = *at;
	node->nr = nr;
	return node;
}

static struct node *read_of(struct tree *tree, const struct pointer *want)
{
	struct node *node;
	u32 n;

	if (is_same(&tree->root, want)) {
		tree->reads++;
		node = node_of(want, NODES);
		for (n = 0; n < NODES; n++)
			node->child[n] = tree->branch[n].at;
		return node;
	}
	for (n = 0; n < NODES; n++) {
		struct branch *branch = &tree->branch[n];

		if (!is_same(&branch->at, want))
			continue;
		branch->reads++;
		node = node_of(want, branch->nr);
		memcpy(node->child, branch->leaf, branch->nr * sizeof(*branch->leaf));
		return node;
	}
	return NULL;
}

/* What walk.c needs of the other parts. */
struct node *disk_node(const struct disk *disk, const struct pointer *want)
{
	struct node *node = read_of(&sent, want);

	(void)disk;
	alone += !together;
	if (together && want->bytenr < last)
		give_up("nodes are not read in the order of the disk");
	last = want->bytenr;
	return node ? node : read_of(&parent, want);
}

int disk_place(const struct disk *of, u64 logical, u64 *order)
{
	(void)of;
	*order = logical;
	return 0;
}

void throttle_enter(u32 requests)
{
	(void)requests;
}

void throttle_leave(void)
{
}

u64 disk_in_turn(const struct disk *of, u64 logical, u64 order)
{
	(void)of;
	(void)logical;
	return order;
}

int parallel(u32 threads, size_t n, void (*each)(size_t i, void *arg), void *arg,
	     struct sampling *sampling, const struct disk *of, const u64 *block, size_t stride)
{
	size_t i;

	(void)threads;
	(void)of;
	(void)block;
	(void)stride;
	(void)sampling;
	together = 1;
	last = 0;
	groups++;
	for (i = 0; i < n; i++)
		each(i, arg);
	together = 0;
	return 1;
}

/* The first key behind a leaf. */
static struct key end_of(const struct tree *tree, u32 n, u32 i)
{
	if (i + 1 < tree->branch[n].nr)
		return tree->branch[n].leaf[i + 1].key;
	return n + 1 < NODES ? tree->branch[n + 1].at.key : key_max;
}

static int has(const struct branch *branch, const struct pointer *leaf)
{
	u32 i;

	for (i = 0; i < branch->nr; i++)
		if (is_same(&branch->leaf[i], leaf))
			return 1;
	return 0;
}

static void expect(struct walk *tree, struct walk *other, const struct pointer *at,
		   struct key end, int of_parent)
{
	struct leaf leaf;

	if (walk_next_leaf(tree, other, &leaf) != 1)
		give_up("the leaf of %llu is missing", (unsigned long long)at->key.objectid);
	if (!is_same(&leaf.at, at) || key_cmp(&leaf.end, &end) || leaf.parent != of_parent)
		give_up("%llu in the place of the leaf of %llu",
			(unsigned long long)leaf.at.key.objectid,
			(unsigned long long)at->key.objectid);
}

/* Those that only one tree has, by their keys, and of the same key that which is sent first. */
static void compare(void)
{
	struct walk tree, other;
	struct leaf leaf;
	u32 n, i, j, read = 0;

	alone = groups = 0;
	walk_init(&tree, &disk, &sent.root, 4);
	walk_init(&other, &disk, &parent.root, 4);
	for (n = 0; n < NODES; n++) {
		const struct branch *a = &sent.branch[n], *b = &parent.branch[n];

		for (i = j = 0; i < a->nr || j < b->nr;) {
			if (j == b->nr || (i < a->nr && key_cmp(&a->leaf[i].key, &b->leaf[j].key) <= 0)) {
				if (!has(b, &a->leaf[i]))
					expect(&tree, &other, &a->leaf[i], end_of(&sent, n, i), 0);
				i++;
			} else {
				if (!has(a, &b->leaf[j]))
					expect(&tree, &other, &b->leaf[j], end_of(&parent, n, j), 1);
				j++;
			}
		}
	}
	if (walk_next_leaf(&tree, &other, &leaf))
		give_up("a leaf too many");
	for (n = 0; n < NODES; n++) {
		const struct branch *a = &sent.branch[n], *b = &parent.branch[n];
		int both = is_same(&a->at, &b->at);

		if (a->reads != !both || b->reads != !both)
			give_up("a node that %s was read %u and %u times", both ? "both trees have" :
				"has changed", a->reads, b->reads);
		read += a->reads + b->reads;
	}
	if (tree.nodes + other.nodes != read + 2 || sent.reads != 1 || parent.reads != 1)
		give_up("%u nodes were read", read);
	if (alone != 2)
		give_up("besides the roots %d nodes were read alone", (int)alone - 2);
	if (groups > 2 * ((NODES + WALK_AHEAD - 1) / WALK_AHEAD + 1))
		give_up("nodes were read in %u groups", groups);
	walk_free(&tree);
	walk_free(&other);
}

/* To keys that ascend. */
static void seek(void)
{
	struct key key = { 256, 1, 0 };
	struct walk walk;
	struct leaf leaf = { .end = { 0 } };

	walk_init(&walk, &disk, &sent.root, 4);
	for (; key.objectid < 256 + NODES * 1000; key.objectid += below(3000)) {
		if (key_cmp(&key, &leaf.end) < 0)
			continue;
		walk.from = key;
		if (walk_next_leaf(&walk, NULL, &leaf) != 1 || key_cmp(&leaf.at.key, &key) > 0 ||
		    key_cmp(&leaf.end, &key) <= 0)
			give_up("the leaf of %llu is not found", (unsigned long long)key.objectid);
	}
	walk_free(&walk);
}

/* Crafted trees: a node that stands in the place of another, too, or reaches into the next one's. */
static void crafted(int reaches)
{
	struct branch *branch = &sent.branch[NODES / 2];
	struct walk walk;
	struct leaf leaf;
	int ret;

	make_trees();
	if (reaches)
		branch->leaf[branch->nr++] = block(branch[1].at.key.objectid, 2, 0);
	else
		branch[1].at = (struct pointer) {
			branch[1].at.key, branch->at.bytenr, branch->at.generation, 1
		};
	walk_init(&walk, &disk, &sent.root, 4);
	do
		ret = walk_next_leaf(&walk, NULL, &leaf);
	while (ret > 0);
	if (!ret)
		give_up("a node that %s is taken", reaches ? "reaches too far" : "is in two places");
	walk_free(&walk);
}

int main(void)
{
	int i;

	for (i = 0; i < TREES; i++) {
		rng = i;
		make_trees();
		compare();
		seek();
	}
	crafted(0);
	crafted(1);
	printf("%d pairs of trees\n", TREES);
	return 0;
}
