// SPDX-License-Identifier: GPL-2.0
/*
 * Parses nodes of btrfs trees as they are on the disk. Their content is not trusted.
 */
#include <stdlib.h>
#include <linux/btrfs_tree.h>

#include "node.h"

/* Size of struct btrfs_key_ptr, which old headers do not have. */
#define POINTER_SIZE 33

static u32 crc_table[256];

static __attribute__((constructor)) void crc_fill(void)
{
	u32 i, bit;

	for (i = 0; i < 256; i++) {
		u32 crc = i;

		for (bit = 0; bit < 8; bit++)
			crc = crc & 1 ? crc >> 1 ^ 0x82f63b78 : crc >> 1;
		crc_table[i] = crc;
	}
}

u32 crc32c(u32 crc, const void *data, size_t len)
{
	const u8 *p = data;

	while (len--)
		crc = crc >> 8 ^ crc_table[(crc ^ *p++) & 255];
	return crc;
}

struct node *node_parse(const u8 *block, u32 size, const u8 *fsid, int has_crc,
			const struct pointer *want)
{
	u32 nr, i;
	struct node *node;

	if (size < HEADER_SIZE + POINTER_SIZE || !want->level || want->level >= MAX_LEVEL)
		return NULL;
	nr = get_u32(block + HEADER_NR);
	if (has_crc && get_u32(block) != (u32)~crc32c(~0u, block + HEADER_FSID, size - HEADER_FSID))
		return NULL;
	if (memcmp(block + HEADER_FSID, fsid, BTRFS_FSID_SIZE) ||
	    get_u64(block + HEADER_BYTENR) != want->bytenr ||
	    get_u64(block + HEADER_GENERATION) != want->generation ||
	    block[HEADER_LEVEL] != want->level || !nr || nr > (size - HEADER_SIZE) / POINTER_SIZE)
		return NULL;
	node = malloc(sizeof(*node) + nr * sizeof(*node->child));
	if (!node)
		return NULL;
	node->at = *want;
	node->nr = nr;
	for (i = 0; i < nr; i++) {
		const u8 *p = block + HEADER_SIZE + i * POINTER_SIZE;
		struct pointer *child = &node->child[i];

		child->key.objectid = get_u64(p);
		child->key.type = p[8];
		child->key.offset = get_u64(p + 9);
		child->bytenr = get_u64(p + 17);
		child->generation = get_u64(p + 25);
		child->level = want->level - 1;
		if (child->bytenr % 4096 || child->generation > want->generation ||
		    (i && key_cmp(&child[-1].key, &child->key) >= 0)) {
			free(node);
			return NULL;
		}
	}
	return node;
}
