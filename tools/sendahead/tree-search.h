/* SPDX-License-Identifier: GPL-2.0 */
/*
 * BTRFS_IOC_TREE_SEARCH_V2: returns items of the trees, and reads their blocks into the kernel's
 * cache.
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
	u64 min_transid;	/* older subtrees are not read */
	u32 nr;			/* limit of items */
};

/* The items that a search has found. The caller sets only @size. */
struct items {
	size_t size;		/* of the buffer */
	void *args;		/* argument and buffer of the ioctl; made by the first search */
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
 * Gives up if there is no memory.
 *
 * Return: 0, or -1 with errno set; EOVERFLOW if the first item is larger than the buffer
 */
int search_run(int fd, const struct search *search, struct items *items);

/**
 * search_first() - find the first item with an objectid and type
 * @fd: any file of the file system
 * @tree: the tree
 * @key: the smallest key that it can have
 * @items: takes it
 * @item: set to it
 *
 * Return: whether there is one
 */
int search_first(int fd, u64 tree, struct key key, struct items *items, struct item *item);

/* Set @item to the next one. Return: whether there is one. */
int items_next(struct items *items, struct item *item);

#endif
