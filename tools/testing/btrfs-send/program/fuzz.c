// SPDX-License-Identifier: GPL-2.0
/*
 * A target for libFuzzer: whatever comes from the disk or in the stream, the program
 * reads no memory that is not its own. The first byte says which part gets the rest.
 */
#include <stdio.h>
#include <stdlib.h>

#include "../../../sendahead/chunks.h"
#include "../../../sendahead/extents.h"
#include "../../../sendahead/node.h"
#include "../../../sendahead/stream.h"

#define NODE_SIZE 4096

void give_up(const char *format, ...)
{
	fputs(format, stderr);
	abort();
}

/* The checksum is set right and the head as it has to be, or nothing would be looked at. */
static void fuzz_node(const u8 *data, size_t size)
{
	u8 block[NODE_SIZE] = { 0 }, fsid[16] = { 0 };
	struct pointer want = { .generation = 1000, .level = 1 };
	struct node *node;
	u64 sum = 0;
	u32 crc, i;

	memcpy(block + 96, data, size < NODE_SIZE - 96 ? size : NODE_SIZE - 96);
	if (size)
		want.level = block[100];
	block[80] = want.generation & 255;
	block[81] = want.generation >> 8;
	crc = htole32(~crc32c(~0u, block + 32, NODE_SIZE - 32));
	memcpy(block, &crc, 4);
	node = node_parse(block, NODE_SIZE, fsid, 1, &want);
	if (!node)
		return;
	for (i = 0; i < node->nr; i++) {
		if (node->child[i].level != want.level - 1 ||
		    (i && key_cmp(&node->child[i - 1].key, &node->child[i].key) >= 0))
			abort();
		sum += node->child[i].bytenr;
	}
	if (sum % 4096)
		abort();
	free(node);
}

static void fuzz_chunks(const u8 *data, size_t size)
{
	struct chunks chunks = { 0 };
	u64 start = 0, order, logical;
	u32 copy;

	while (size > 3) {
		size_t len = data[0], part = len < size - 3 ? len : size - 3;
		u8 *item = malloc(part ? part : 1);

		memcpy(item, data + 3, part);
		start += get_u16(data + 1) << 12;
		chunks_add(&chunks, start, item, part);
		free(item);
		data += 3 + part;
		size -= 3 + part;
	}
	for (logical = 0; logical < start + 65536; logical += start / 64 + 4096)
		for (copy = 0; copy < 5; copy++)
			if (chunks_map(&chunks, logical, 4096, copy, &order) && copy >= 4)
				abort();
	while (chunks.n--)
		free(chunks.v[chunks.n].stripes);
	free(chunks.v);
}

/* All at once, and byte by byte. */
static void fuzz_stream(const u8 *data, size_t size)
{
	static struct stream whole, parts;
	size_t at = 0, i, done;

	memset(&whole, 0, sizeof(whole));
	memset(&parts, 0, sizeof(parts));
	for (i = 1; i <= size; i++)
		while ((done = stream_feed(&parts, data + at, i - at)))
			at += done;
	for (i = 0; (done = stream_feed(&whole, data + i, size - i)); i += done)
		;
	if (i != at || i > size || memcmp(&whole, &parts, sizeof(whole)))
		abort();
}

/* Items as a search tells of them. */
static void fuzz_items(const u8 *data, size_t size)
{
	u8 *copy = malloc(size ? size : 1);
	struct items items = { .left = UINT32_MAX, .at = copy, .end = copy + size };
	struct extents extents = { 0 };
	struct refs refs = { 0 };
	struct item item;
	size_t i;

	memcpy(copy, data, size);
	while (items_next(&items, &item)) {
		extents_take(&extents, &item);
		refs.n = 0;
		extents_refs(&item, 1, &refs);
		if (refs.n > item.len / 13)
			abort();
	}
	for (i = 0; i < extents.n; i++)
		if (extents.v[i].length > extents.v[i].bytes)
			abort();
	free(copy);
	drop_first(&extents, extents.n / 2);
	extents_free(&extents);
	free(refs.v);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	static void (*const parts[])(const u8 *data, size_t size) = {
		fuzz_node, fuzz_chunks, fuzz_stream, fuzz_items,
	};

	if (size)
		parts[data[0] % 4](data + 1, size - 1);
	return 0;
}
