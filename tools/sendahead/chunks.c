// SPDX-License-Identifier: GPL-2.0
/*
 * Maps logical addresses of a file system to its devices: SINGLE, DUP, RAID0, RAID1, RAID1C3,
 * RAID1C4, RAID10, and the data stripes of RAID5 and RAID6.
 */
#include <stdlib.h>
#include <linux/btrfs_tree.h>

#include "chunks.h"

/* Size of struct btrfs_chunk without its first stripe. */
#define CHUNK_HEAD offsetof(struct btrfs_chunk, stripe)

#define STRIPED (BTRFS_BLOCK_GROUP_RAID0 | BTRFS_BLOCK_GROUP_RAID10 | \
		 BTRFS_BLOCK_GROUP_RAID5 | BTRFS_BLOCK_GROUP_RAID6)

#define TWO_COPIES (BTRFS_BLOCK_GROUP_DUP | BTRFS_BLOCK_GROUP_RAID1 | BTRFS_BLOCK_GROUP_RAID10)

static u32 parity_of(u64 type)
{
	return type & BTRFS_BLOCK_GROUP_RAID5 ? 1 : type & BTRFS_BLOCK_GROUP_RAID6 ? 2 : 0;
}

/* Return: number of copies of each byte, 0 for an unknown profile. */
static u32 copies_of(u64 type, u32 nr, u32 sub)
{
	u64 profile = type & ~(u64)BTRFS_BLOCK_GROUP_TYPE_MASK;
	u32 copies = profile & BTRFS_BLOCK_GROUP_RAID1C4 ? 4 :
		profile & BTRFS_BLOCK_GROUP_RAID1C3 ? 3 : profile & TWO_COPIES ? 2 : 1;

	if (profile & ~(u64)BTRFS_BLOCK_GROUP_PROFILE_MASK || profile & (profile - 1))
		return 0;
	if (!(profile & STRIPED))
		return nr == copies ? copies : 0;
	return nr > parity_of(type) && nr % copies == 0 && (copies == 1 || sub == copies) ? copies : 0;
}

int chunks_add(struct chunks *chunks, u64 start, const u8 *item, size_t len)
{
	struct btrfs_chunk head;
	struct chunk chunk = { .start = start };
	size_t size;

	if (len < CHUNK_HEAD)
		return -1;
	memcpy(&head, item, CHUNK_HEAD);
	chunk.length = le64toh(head.length);
	chunk.stripe_len = le64toh(head.stripe_len);
	chunk.type = le64toh(head.type);
	chunk.nr = le16toh(head.num_stripes);
	size = chunk.nr * sizeof(*chunk.stripes);
	if (!chunk.nr || len < CHUNK_HEAD + size)
		return -1;
	if (!chunk.length || start + chunk.length < start || chunk.stripe_len < 4096 ||
	    chunk.stripe_len & (chunk.stripe_len - 1))
		return -1;
	if (chunks->n && start < chunks->v[chunks->n - 1].start + chunks->v[chunks->n - 1].length)
		return -1;
	chunk.copies = copies_of(chunk.type, chunk.nr, le16toh(head.sub_stripes));
	chunk.stripes = malloc(size);
	if (!chunk.stripes)
		return -1;
	memcpy(chunk.stripes, item + CHUNK_HEAD, size);
	*append(chunks) = chunk;
	return 0;
}

/* Compare an address to a chunk, for bsearch(). */
static int by_address(const void *address, const void *element)
{
	const struct chunk *chunk = element;
	u64 logical = *(const u64 *)address;

	return logical < chunk->start ? -1 : logical - chunk->start >= chunk->length;
}

/* Return: the chunk of a block, with the number of the stripe and the offset in it; or NULL. */
static const struct chunk *find(const struct chunks *chunks, u64 logical, u32 len, u32 copy,
				u32 *stripe, u64 *offset)
{
	const struct chunk *chunk = NULL;

	if (chunks->n)
		chunk = bsearch(&logical, chunks->v, chunks->n, sizeof(*chunk), by_address);
	if (!chunk || copy >= chunk->copies || len > chunk->length - (logical - chunk->start))
		return NULL;
	*offset = logical - chunk->start;
	*stripe = copy;
	if (chunk->type & STRIPED) {
		u64 number = *offset / chunk->stripe_len, within = *offset % chunk->stripe_len;
		u32 parity = parity_of(chunk->type), columns = (chunk->nr - parity) / chunk->copies;

		if (len > chunk->stripe_len - within)
			return NULL;
		*stripe = number % columns * chunk->copies + copy;
		/* the parity moves by one device with each row of stripes */
		if (parity)
			*stripe = (number / columns + *stripe) % chunk->nr;
		*offset = number / columns * chunk->stripe_len + within;
	}
	return chunk;
}

u32 chunks_map(const struct chunks *chunks, u64 logical, u32 len, u32 copy, u64 *order)
{
	u64 offset, physical;
	u32 stripe;
	const struct chunk *chunk = find(chunks, logical, len, copy, &stripe, &offset);

	physical = chunk ? le64toh(chunk->stripes[stripe].offset) + offset : 0;
	if (!chunk || physical < offset || physical > (u64)INT64_MAX - len)
		return 0;
	*order = order_of(le64toh(chunk->stripes[stripe].devid), physical);
	return chunk->copies;
}

u64 chunks_row(const struct chunks *chunks, u64 logical)
{
	u64 offset;
	u32 stripe;
	const struct chunk *chunk = find(chunks, logical, 1, 0, &stripe, &offset);

	return chunk ? le64toh(chunk->stripes[0].offset) + offset : 0;
}
