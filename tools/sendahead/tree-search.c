// SPDX-License-Identifier: GPL-2.0
/*
 * BTRFS_IOC_TREE_SEARCH_V2.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <linux/btrfs.h>

#include "tree-search.h"

void items_free(struct items *items)
{
	free(items->args);
	items->args = NULL;
}

int search_run(int fd, const struct search *search, struct items *items)
{
	struct btrfs_ioctl_search_args_v2 *args = items->args;

	if (!args)
		args = items->args = calloc(1, sizeof(*args) + items->size);
	if (!args)
		give_up("no memory for searches");
	args->key = (struct btrfs_ioctl_search_key) {
		.tree_id = search->tree,
		.min_objectid = search->min.objectid,
		.max_objectid = search->max.objectid,
		.min_offset = search->min.offset,
		.max_offset = search->max.offset,
		.min_transid = search->min_transid,
		.max_transid = UINT64_MAX,
		.min_type = search->min.type,
		.max_type = search->max.type,
		.nr_items = search->nr,
	};
	args->buf_size = items->size;
	items->left = 0;
	if (ioctl(fd, BTRFS_IOC_TREE_SEARCH_V2, args))
		return -1;
	items->left = args->key.nr_items;
	items->at = (const u8 *)args->buf;
	items->end = items->at + items->size;
	return 0;
}

int search_first(int fd, u64 tree, struct key key, struct items *items, struct item *item)
{
	struct search search = {
		.tree = tree, .min = key, .nr = 1,
		.max = { key.objectid, key.type, UINT64_MAX },
	};

	return !search_run(fd, &search, items) && items_next(items, item);
}

int items_next(struct items *items, struct item *item)
{
	struct btrfs_ioctl_search_header head;

	if (!items->left || (size_t)(items->end - items->at) < sizeof(head))
		return 0;
	memcpy(&head, items->at, sizeof(head));
	if (head.len > (size_t)(items->end - items->at) - sizeof(head))
		return 0;
	item->key = (struct key) { head.objectid, head.type, head.offset };
	item->data = items->at + sizeof(head);
	item->len = head.len;
	items->at = item->data + head.len;
	items->left--;
	return 1;
}
