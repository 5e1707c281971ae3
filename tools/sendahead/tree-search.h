/* SPDX-License-Identifier: GPL-2.0 */
/*
 * BTRFS_IOC_TREE_SEARCH_V2: items of the trees, and the blocks they lie in read into
 * the kernel's cache.
 */
#ifndef SENDAHEAD_TREE_SEARCH_H
#define SENDAHEAD_TREE_SEARCH_H

#include "util.h"

struct item {
	struct key key;
	const u8 *data;
	u32 len;
};

struct search {
	u64 tree;
	struct key min, max;
	u64 min_transid;	/* subtrees that are older are not read */
	u32 nr;			/* of items, at most */
};

/* What a search finds: only the size is to be set. */
struct items {
	size_t size;		/* of the buffer */
	void *args;		/* of the call, with its buffer; the first search makes it */
	u32 left;
	const u8 *at, *end;
};

void items_free(struct items *items);

/**
 * search_run() - find items
 * @fd: any file of the file system
 * @search: what to find
 * @items: takes them, for items_next()
 *
 * Gives up without memory.
 *
 * Return: 0, or -1 with errno set; EOVERFLOW where the first item is too large
 */
int search_run(int fd, const struct search *search, struct items *items);

/**
 * search_first() - find the first item of an object that is of one type
 * @fd: any file of the file system
 * @tree: its tree
 * @key: the least key it can have
 * @items: takes it
 * @item: set to it
 *
 * Return: whether there is one
 */
int search_first(int fd, u64 tree, struct key key, struct items *items, struct item *item);

/* Set @item to the next one. Return: whether there is one. */
int items_next(struct items *items, struct item *item);

#endif
