/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The leaves that a send reads, from the nodes above them.
 */
#ifndef SENDAHEAD_WALK_H
#define SENDAHEAD_WALK_H

#include "disk.h"

/* Nodes that are read at once, and of each level of a tree kept at most. */
#define WALK_AHEAD 128

struct level {
	struct node *node;
	u32 slot;
	struct node *ahead[WALK_AHEAD];	/* of the children, from slot ahead_from on */
	u32 ahead_from, ahead_nr;
};

/* A place in a tree: a pointer whose block has not been looked at. */
struct walk {
	const struct disk *disk;
	struct pointer root;
	int top;			/* level of the lowest node read */
	int lowest;			/* level of what is found: 0, or nodes instead of leaves */
	/* above the root one whose only child it is, and one that is never read: the end */
	struct level levels[MAX_LEVEL + 2];
	u32 threads;
	u32 ahead;			/* nodes read at once */
	u64 nodes;			/* read so far */
};

/* A leaf to be read. */
struct leaf {
	struct pointer at;
	struct key end;		/* the next leaf's first key, key_max for the last */
	u8 parent;		/* of the parent's tree, not of that which is sent */
};

/* Begin at the root; gives up without memory. */
void walk_init(struct walk *walk, const struct disk *disk, const struct pointer *root,
	       u32 threads);
void walk_free(struct walk *walk);

/**
 * walk_next_leaf() - the next leaf that the send reads, in the order of keys
 * @tree: place in the tree that is sent
 * @parent: place in that of the parent, or NULL: then all leaves are read
 * @leaf: set to the leaf
 *
 * A block that both trees have, at the same address and of the same generation, is left
 * out with everything below it. Memory does not depend on the size of the trees.
 *
 * Return: 1, 0 at the end, -1 if a node is not what it has to be
 */
int walk_next_leaf(struct walk *tree, struct walk *parent, struct leaf *leaf);

/* The smallest key that leaves not yet returned can have. */
struct key walk_key(const struct walk *walk);

/**
 * walk_seek() - go on to the leaf that a key belongs to
 * @walk: place in the tree, only moved forward
 * @key: the key
 * @leaf: set to the leaf, which stays the next one
 *
 * Return: 1, 0 if there is none, -1 if a node is not what it has to be
 */
int walk_seek(struct walk *walk, const struct key *key, struct leaf *leaf);

#endif
