/* SPDX-License-Identifier: GPL-2.0 */
/*
 * BTRFS_IOC_TREE_SEARCH_V2: items of the trees, and the blocks they lie in read into
 * the kernel's cache.
 */
#ifndef SENDAHEAD_SEARCH_H
#define SENDAHEAD_SEARCH_H

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

struct items {
	void *args;		/* of the call, with its buffer */
	size_t size;		/* of the buffer */
	u32 left;
	const u8 *at, *end;
};

/* A buffer of @size bytes for what searches find; gives up without memory. */
void items_init(struct items *items, size_t size);
void items_free(struct items *items);

/**
 * search_run() - find items
 * @fd: any file of the file system
 * @search: what to find
 * @items: takes them, for items_next()
 *
 * Return: 0, or -1 with errno set; EOVERFLOW where the first item is too large
 */
int search_run(int fd, const struct search *search, struct items *items);

/* Set @item to the next one. Return: whether there is one. */
int items_next(struct items *items, struct item *item);

#endif
