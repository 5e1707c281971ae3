/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Nodes of btrfs trees as they lie on the disk.
 */
#ifndef SENDAHEAD_NODE_H
#define SENDAHEAD_NODE_H

#include "tree-search.h"

/* Of struct btrfs_header, which old headers do not have. */
#define HEADER_FSID 32
#define HEADER_BYTENR 48
#define HEADER_GENERATION 80
#define HEADER_NR 96
#define HEADER_LEVEL 100
#define HEADER_SIZE 101

/* Levels that a tree can have. */
#define MAX_LEVEL 8

/* A pointer to a block of a tree: what the block must be. */
struct pointer {
	struct key key;
	u64 bytenr;
	u64 generation;
	u8 level;
};

static inline int is_same(const struct pointer *a, const struct pointer *b)
{
	return a->bytenr == b->bytenr && a->generation == b->generation && a->level == b->level;
}

struct node {
	struct pointer at;
	u32 nr;
	struct pointer child[];
};

/**
 * node_parse() - the pointers of a node
 * @block: the node as it was read
 * @size: bytes of it
 * @fsid: of the file system's metadata
 * @has_crc: the checksum is CRC-32C
 * @want: what the pointer to it says; the key is not looked at
 *
 * Checksums of another kind are not looked at: the head says which node it is, of which
 * generation, and if it is damaged behind that, what is read ahead is of no use. Keys ascend, children lie on multiples of 4 KiB and are
 * not younger than the node.
 *
 * Return: the node, to be freed, or NULL if it is not what was wanted
 */
struct node *node_parse(const u8 *block, u32 size, const u8 *fsid, int has_crc,
			const struct pointer *want);

/* Item @i of a leaf of @size bytes as it was read. Return: whether there is one. */
int leaf_item(const u8 *block, u32 size, u32 i, struct item *item);

/* The checksum of @len bytes at @data, going on from @crc. */
u32 crc32c(u32 crc, const void *data, size_t len);

#endif
