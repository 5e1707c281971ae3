// SPDX-License-Identifier: GPL-2.0
/*
 * The leaves that a send reads, from the nodes above them.
 *
 * Each tree is walked in the order of its keys, the two in step. A block that both have
 * begins with the same key in both, so it is the next one of both at the same time.
 */
#include <stdlib.h>

#include "courtesy.h"
#include "threads.h"
#include "walk.h"

void walk_init(struct walk *walk, const struct disk *disk, const struct pointer *root,
	       u32 threads)
{
	memset(walk, 0, sizeof(*walk));
	walk->disk = disk;
	walk->root = *root;
	walk->at_root = 1;
	walk->threads = threads;
	walk->ahead = WALK_AHEAD;
}

static void level_clear(struct level *level)
{
	u32 i;

	for (i = 0; i < level->ahead_nr; i++)
		free(level->ahead[i]);
	free(level->node);
	memset(level, 0, sizeof(*level));
}

void walk_free(struct walk *walk)
{
	int i;

	for (i = 0; i < MAX_LEVEL; i++)
		level_clear(&walk->levels[i]);
	walk->end = 1;
}

static const struct pointer *current(const struct walk *walk)
{
	const struct level *level = &walk->levels[walk->top];

	if (walk->end)
		return NULL;
	return walk->at_root ? &walk->root : &level->node->child[level->slot];
}

/* The first key behind that of the node at this level which is walked through. */
static struct key key_behind(const struct walk *walk, int i)
{
	for (; !walk->at_root && i <= walk->root.level; i++) {
		const struct level *level = &walk->levels[i];

		if (level->slot + 1 < level->node->nr)
			return level->node->child[level->slot + 1].key;
	}
	return key_max;
}

struct key walk_key(const struct walk *walk)
{
	const struct pointer *at = current(walk);

	return at ? at->key : key_max;
}

const struct node *walk_above(const struct walk *walk, int level)
{
	return walk->end || level > walk->root.level ? NULL : walk->levels[level].node;
}

static void next(struct walk *walk)
{
	if (walk->at_root)
		walk->end = 1;
	while (!walk->end && ++walk->levels[walk->top].slot >= walk->levels[walk->top].node->nr) {
		level_clear(&walk->levels[walk->top]);
		if (++walk->top > walk->root.level)
			walk->end = 1;
	}
}

static int is_same(const struct pointer *a, const struct pointer *b)
{
	return a->bytenr == b->bytenr && a->generation == b->generation && a->level == b->level;
}

/* As far as the nodes in memory tell. */
static int other_has(const struct walk *other, const struct pointer *child)
{
	const struct node *node;
	u32 low = 0, high;

	if (!other || other->end || other->at_root || child->level + 1 >= MAX_LEVEL)
		return 0;
	node = other->levels[child->level + 1].node;
	if (!node)
		return 0;
	high = node->nr;
	while (low < high) {
		u32 middle = (low + high) / 2;
		int order = key_cmp(&node->child[middle].key, &child->key);

		if (!order)
			return is_same(&node->child[middle], child);
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return 0;
}

struct sorted {
	u64 order;
	const struct pointer *want;
	struct node **node;
};

struct reading {
	const struct disk *disk;
	struct sorted v[WALK_AHEAD];
};

static int by_order(const void *a, const void *b)
{
	const struct sorted *x = a, *y = b;

	return x->order < y->order ? -1 : x->order > y->order;
}

static void read_one(size_t i, void *arg)
{
	struct reading *reading = arg;

	courtesy_enter(i, 1);
	*reading->v[i].node = disk_node(reading->disk, reading->v[i].want);
	courtesy_leave();
}

/* Read the children of a node from the current one on, in the order of the disk. */
static void read_ahead(struct walk *walk, struct level *level, const struct walk *other)
{
	struct reading reading = { .disk = walk->disk };
	u32 i, n = 0;

	for (i = 0; i < level->ahead_nr; i++)
		free(level->ahead[i]);
	memset(level->ahead, 0, sizeof(level->ahead));
	level->ahead_from = level->slot;
	level->ahead_nr = min_u64(level->node->nr - level->slot, walk->ahead);
	for (i = 0; i < level->ahead_nr; i++) {
		struct sorted *sorted = &reading.v[n];

		sorted->want = &level->node->child[level->slot + i];
		sorted->node = &level->ahead[i];
		if ((!i || !other_has(other, sorted->want)) &&
		    !disk_place(walk->disk, sorted->want->bytenr, &sorted->order))
			n++;
	}
	walk->nodes += n;
	qsort(reading.v, n, sizeof(*reading.v), by_order);
	parallel(walk->threads, n, read_one, &reading);
}

/* Go from the current pointer to the first one in the node that it points to. */
static int descend(struct walk *walk, const struct walk *other)
{
	struct pointer at = *current(walk);
	struct node *node = NULL;

	if (!walk->at_root) {
		struct level *level = &walk->levels[walk->top];

		if (level->slot - level->ahead_from >= level->ahead_nr)
			read_ahead(walk, level, other);
		node = level->ahead[level->slot - level->ahead_from];
		level->ahead[level->slot - level->ahead_from] = NULL;
	}
	if (!node) {
		walk->nodes++;
		node = disk_node(walk->disk, &at);
	}
	if (!node)
		return -1;
	walk->at_root = 0;
	walk->top = at.level;
	walk->levels[at.level].node = node;
	return 0;
}

int walk_next_leaf(struct walk *tree, struct walk *parent, struct leaf *leaf)
{
	for (;;) {
		const struct pointer *a = current(tree), *b = parent ? current(parent) : NULL;
		int order = a && b ? key_cmp(&a->key, &b->key) : 0;
		int ours = a && (!b || order < 0 || (!order && a->level >= b->level));
		struct walk *walk = ours ? tree : parent;
		const struct pointer *at = ours ? a : b;

		if (!at)
			return 0;
		if (a && b && is_same(a, b)) {
			next(tree);
			next(parent);
		} else if (at->level) {
			if (descend(walk, ours ? parent : tree))
				return -1;
		} else {
			leaf->at = *at;
			leaf->end = key_behind(walk, walk->top);
			leaf->parent = !ours;
			next(walk);
			return 1;
		}
	}
}

int walk_seek(struct walk *walk, const struct key *key, struct leaf *leaf)
{
	for (;;) {
		const struct pointer *at = current(walk);
		struct key behind;

		if (!at)
			return 0;
		while (!walk->at_root && walk->top < walk->root.level) {
			behind = key_behind(walk, walk->top + 1);
			if (key_cmp(&behind, key) > 0)
				break;
			level_clear(&walk->levels[walk->top++]);
		}
		at = current(walk);
		behind = key_behind(walk, walk->top);
		if (key_cmp(&behind, key) <= 0 && !walk->at_root) {
			next(walk);
		} else if (at->level) {
			if (descend(walk, NULL))
				return -1;
		} else {
			leaf->at = *at;
			leaf->end = behind;
			leaf->parent = 0;
			return 1;
		}
	}
}
