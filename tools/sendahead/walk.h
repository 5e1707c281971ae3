/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Finds the leaves that a send reads, from the nodes above them.
 */
#ifndef SENDAHEAD_WALK_H
#define SENDAHEAD_WALK_H

#include "disk.h"

/* Limit of the nodes of a level that are read at once and kept. */
#define WALK_AHEAD 128

struct level {
	struct node *node;
	u32 slot;
	struct node *ahead[WALK_AHEAD];	/* children that were read, from ahead_from on */
	u32 ahead_from, ahead_nr;
};

/* A position in a tree: a pointer to a block that has not been walked. */
struct walk {
	const struct disk *disk;
	struct pointer root;
	int top;			/* level of the lowest node read */
	/* one level above the root, whose only child is the root, and an empty one: the end */
	struct level levels[MAX_LEVEL + 2];
	u32 threads;
	u32 ahead;			/* limit of nodes read at once */
	struct key from, to;		/* leave out what is before; read nothing ahead behind */
	u64 nodes;			/* number of nodes read so far */
};

/* A leaf to be read. */
struct leaf {
	struct pointer at;
	struct key end;		/* the next leaf's first key, key_max for the last */
	u8 parent;		/* it is in the parent's tree */
};

/* Begin a walk at the root. Gives up if there is no memory. */
void walk_init(struct walk *walk, const struct disk *disk, const struct pointer *root, u32 threads);
void walk_free(struct walk *walk);

/**
 * walk_next_leaf() - find the next leaf that the send reads, in the order of keys
 * @tree: position in the tree that is sent
 * @parent: position in the parent's tree, or NULL for a full send, which reads all leaves
 * @leaf: set to the leaf
 *
 * A block that both trees share, with the same address and generation, is left out with all
 * below it. The memory needed does not depend on the size of the trees.
 *
 * Return: 1, 0 at the end, -1 if a node cannot be read or is invalid
 */
int walk_next_leaf(struct walk *tree, struct walk *parent, struct leaf *leaf);

#endif
