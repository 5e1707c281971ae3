// SPDX-License-Identifier: GPL-2.0
/*
 * Finds the leaves that a send reads, from the nodes above them.
 *
 * Both trees are walked in the order of their keys, in step. A block that both trees share has the
 * same first key in both, so both walks come to it at the same time.
 */
#include <stdlib.h>

#include "throttle.h"
#include "threads.h"
#include "walk.h"

void walk_init(struct walk *walk, const struct disk *disk, const struct pointer *root, u32 threads)
{
	struct node *node = calloc(1, sizeof(*node) + sizeof(*root));

	if (!node)
		give_up("no memory for nodes");
	node->nr = 1;
	node->child[0] = *root;
	*walk = (struct walk) {
		.disk = disk, .root = *root, .top = root->level + 1, .threads = threads,
		.ahead = WALK_AHEAD, .to = key_max,
	};
	walk->levels[walk->top].node = node;
}

static void clear_ahead(struct level *level)
{
	u32 i;

	for (i = 0; i < level->ahead_nr; i++)
		free(level->ahead[i]);
	memset(level->ahead, 0, sizeof(level->ahead));
}

static void level_clear(struct level *level)
{
	clear_ahead(level);
	free(level->node);
	memset(level, 0, sizeof(*level));
}

void walk_free(struct walk *walk)
{
	int i;

	for (i = 0; i < MAX_LEVEL + 2; i++)
		level_clear(&walk->levels[i]);
}

static const struct pointer *current(const struct walk *walk)
{
	const struct level *level = &walk->levels[walk->top];

	return level->node ? &level->node->child[level->slot] : NULL;
}

/* Return: the first key that is behind the subtree of the current pointer. */
static struct key key_behind(const struct walk *walk)
{
	const struct level *level;

	for (level = &walk->levels[walk->top]; level->node; level++)
		if (level->slot + 1 < level->node->nr)
			return level->node->child[level->slot + 1].key;
	return key_max;
}

static void next(struct walk *walk)
{
	struct level *level = &walk->levels[walk->top];

	while (level->node && ++level->slot >= level->node->nr) {
		level_clear(level++);
		walk->top++;
	}
}

/* Does the other tree share this block? Only nodes that are in memory are looked at. */
static int other_has(const struct walk *other, const struct pointer *child)
{
	const struct node *node = other ? other->levels[child->level + 1].node : NULL;
	const struct pointer *found = NULL;

	if (node)
		found = bsearch(child, node->child, node->nr, sizeof(*child), key_cmp);
	return found && is_same(found, child);
}

struct sorted {
	u64 order;
	struct pointer want;
	struct node **node;
};

struct reading {
	const struct disk *disk;
	struct sorted v[WALK_AHEAD];
};

static void read_one(size_t i, void *arg)
{
	struct reading *reading = arg;

	throttle_enter(1);
	*reading->v[i].node = disk_node(reading->disk, &reading->v[i].want);
	throttle_leave();
}

/* Read the children of a node from the current one on, in the order of the disk. */
static void read_ahead(struct walk *walk, struct level *level, const struct walk *other)
{
	struct reading reading = { .disk = walk->disk };
	u32 i, n = 0;

	clear_ahead(level);
	level->ahead_from = level->slot;
	level->ahead_nr = min_u64(level->node->nr - level->slot, walk->ahead);
	for (i = 0; i < level->ahead_nr; i++) {
		struct sorted *sorted = &reading.v[n];

		sorted->want = level->node->child[level->slot + i];
		sorted->node = &level->ahead[i];
		if ((i && (other_has(other, &sorted->want) || key_cmp(&sorted->want, &walk->to) > 0)) ||
		    disk_place(walk->disk, sorted->want.bytenr, &sorted->order))
			continue;
		sorted->order = disk_in_turn(walk->disk, sorted->want.bytenr, sorted->order);
		n++;
	}
	walk->nodes += n;
	qsort(reading.v, n, sizeof(*reading.v), by_number);
	parallel(walk->threads, n, read_one, &reading, NULL, walk->disk, &reading.v->want.bytenr,
		 sizeof(*reading.v));
}

/* Go from the current pointer, to keys before @end, to the first one in its node. Return: 0, or -1. */
static int descend(struct walk *walk, const struct walk *other, const struct key *end)
{
	struct level *level = &walk->levels[walk->top];
	const struct pointer *at = current(walk);
	struct node *node;

	/* nothing to read ahead beside the root */
	if (walk->top <= walk->root.level && level->slot - level->ahead_from >= level->ahead_nr)
		read_ahead(walk, level, other);
	node = level->ahead[level->slot - level->ahead_from];
	level->ahead[level->slot - level->ahead_from] = NULL;
	if (!node) {
		walk->nodes++;
		node = disk_node(walk->disk, at);
	}
	/* check the keys: a damaged pointer to a node above would loop forever */
	if (node && walk->top <= walk->root.level &&
	    (key_cmp(&node->child[0].key, &at->key) ||
	     key_cmp(&node->child[node->nr - 1].key, end) >= 0)) {
		free(node);
		node = NULL;
	}
	if (!node)
		return -1;
	walk->top = at->level;
	walk->levels[at->level].node = node;
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
		struct key end;

		if (!at)
			return 0;
		end = key_behind(walk);
		if (a && b && is_same(a, b)) {
			next(tree);
			next(parent);
		} else if (key_cmp(&end, &walk->from) <= 0) {
			next(walk);
		} else if (at->level) {
			if (descend(walk, ours ? parent : tree, &end))
				return -1;
		} else {
			*leaf = (struct leaf) { .at = *at, .end = end, .parent = !ours };
			next(walk);
			return 1;
		}
	}
}
