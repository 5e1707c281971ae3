/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Parses nodes of btrfs trees as they are on the disk.
 */
#ifndef SENDAHEAD_NODE_H
#define SENDAHEAD_NODE_H

#include "util.h"

/* Offsets in struct btrfs_header, and its size; old headers do not have it. */
#define HEADER_FSID 32
#define HEADER_BYTENR 48
#define HEADER_GENERATION 80
#define HEADER_NR 96
#define HEADER_LEVEL 100
#define HEADER_SIZE 101

/* A tree has at most so many levels. */
#define MAX_LEVEL 8

/* A pointer to a block of a tree. */
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
 * node_parse() - parse a node
 * @block: the node as it was read
 * @size: its size in bytes
 * @fsid: UUID in the headers of the file system's metadata
 * @has_crc: whether its checksums are CRC-32C
 * @want: the pointer to it; the key is not compared
 *
 * Checksums of another kind are not verified: the header tells which node it is and of which
 * generation, and if the pointers are damaged, only the read-ahead is wrong. It is checked that
 * keys ascend, that addresses are multiples of 4 KiB, and that no child is newer than the node.
 *
 * Return: the node, to be freed, or NULL if it is not the wanted one or invalid
 */
struct node *node_parse(const u8 *block, u32 size, const u8 *fsid, int has_crc,
			const struct pointer *want);

/* The checksum of @len bytes at @data, going on from @crc. */
u32 crc32c(u32 crc, const void *data, size_t len);

#endif
