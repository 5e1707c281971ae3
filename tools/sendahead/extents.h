/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The file data that a send puts into its stream, from the items of leaves.
 */
#ifndef SENDAHEAD_EXTENTS_H
#define SENDAHEAD_EXTENTS_H

#include "tree-search.h"

/* A file extent item with data. */
struct extent {
	struct key key;		/* the file, and where in it */
	u64 bytes;		/* of the file */
	u64 length;		/* of it in the stream: up to the end of the file */
	u64 disk;		/* logical address of what the file refers to, 0: inline */
	u64 disk_bytes;		/* on the disk */
	u64 disk_extent;	/* address of the extent, of which that may be a part */
	u64 start;		/* of the extent, in the file's terms: offset - that in it */
	u64 generation;
	u64 sum;		/* of the whole item */
	u64 position;		/* bytes of data before it in the stream */
	u8 compressed;
	u8 read;		/* by the send, not cloned */
};

struct extents {
	struct extent *v;
	size_t n, room;
	/* the last inode item */
	u64 ino, size;
	int regular;
};

/**
 * extents_take() - note an item
 * @extents: those of a tree, in the order of its keys
 * @item: the next item of the tree; not trusted
 */
void extents_take(struct extents *extents, const struct item *item);

/* A reference to an extent: from an item of a tree, or from the leaf at an address. */
struct ref {
	u64 tree;		/* 0: @parent counts */
	u64 parent;
	struct key key;
};

#define REFS_FOLLOWED 1024	/* to an extent, by the kernel at most */
#define REFS_NOTED (1 << 20)	/* at once */

struct refs {
	struct ref *v;
	size_t n, room;
};

/* For qsort() and bsearch(): those from a leaf by its address, others by their tree. */
int ref_cmp(const void *a, const void *b);

/**
 * extents_refs() - references to an extent that the send follows
 * @item: the extent's item; not trusted
 * @all: whether it follows the only one as well, since there is something to clone from
 * @refs: gets those that lie in the item itself, unless they are too many for the send
 */
void extents_refs(const struct item *item, int all, struct refs *refs);

void extents_free(struct extents *extents);

/**
 * extents_changed() - whether the parent has an extent's data at the same place
 * @extent: of the tree that is sent
 * @parent: the extents of the parent
 * @at: where to begin there, updated: for extents in ascending order
 *
 * Return: 1 if not, and the data is in the stream
 */
int extents_changed(const struct extent *extent, const struct extents *parent, size_t *at);

#endif
