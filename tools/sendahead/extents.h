/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tells from the items of leaves which file data a send puts into its stream.
 */
#ifndef SENDAHEAD_EXTENTS_H
#define SENDAHEAD_EXTENTS_H

#include "tree-search.h"

/* A file extent item with data. */
struct extent {
	struct key key;		/* the file, and where in it */
	u64 bytes;		/* length in the file */
	u64 length;		/* bytes in the stream: only up to the end of the file */
	u64 disk;		/* logical address of its data, 0: inline */
	u64 disk_bytes;		/* length there */
	u64 disk_extent;	/* address of the whole extent; the file may use a part of it */
	u64 generation;
	u64 start;		/* file offset at which the whole extent would begin */
	u64 refs;		/* backrefs that the send follows and were not looked for; 0: none shared */
	u64 position;		/* bytes of file data before it in the stream */
	u8 compressed;
	u8 same;		/* the parent has it as well, in the same place */
	u8 read;		/* the send reads it from the disk, and does not clone it */
};

struct extents {
	struct extent *v;
	size_t n, room;
	/* the last inode item */
	u64 ino, size;
	int regular;
};

/**
 * extents_take() - take the extent of an item, if it is one with data
 * @extents: the extents of a tree, in the order of its keys
 * @item: the next item of the tree; not trusted
 */
void extents_take(struct extents *extents, const struct item *item);

/* A backref of an extent: a key in a tree. */
struct ref {
	u64 tree;
	struct key key;
};

#define REFS_FOLLOWED 1024	/* with more backrefs the kernel does not look for clones */
#define REFS_NOTED (1 << 20)	/* limit of backrefs in a list */

struct refs {
	struct ref *v;
	size_t n, room;
};

/**
 * extents_refs() - take the backrefs of an extent that the send follows
 * @item: the extent's item; not trusted
 * @all: take also a single backref, as the send does if it has clone sources
 * @refs: gets the backrefs with a key that are inline, unless there are too many for the send
 *
 * Return: number of backrefs if one is shared, and so names a leaf and has no key; otherwise 0
 */
u64 extents_refs(const struct item *item, int all, struct refs *refs);

/* Return: whether @b, an extent of the parent, holds the beginning of @a in the same place. */
int extents_same(const struct extent *a, const struct extent *b);

void extents_free(struct extents *extents);

#endif
