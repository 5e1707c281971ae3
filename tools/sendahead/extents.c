// SPDX-License-Identifier: GPL-2.0
/*
 * Tells from the items of leaves which file data a send puts into its stream.
 */
#include <stdlib.h>
#include <sys/stat.h>
#include <linux/btrfs_tree.h>

#include "extents.h"

/* The largest extent that the kernel makes, by fallocate(). */
#define EXTENT_MAX (256ULL << 20)
#define INLINE_HEAD offsetof(struct btrfs_file_extent_item, disk_bytenr)

static void take_inode(struct extents *extents, const struct item *item)
{
	if (item->len < sizeof(struct btrfs_inode_item))
		return;
	extents->ino = item->key.objectid;
	extents->size = get_u64(item->data + offsetof(struct btrfs_inode_item, size));
	extents->regular = S_ISREG(get_u32(item->data + offsetof(struct btrfs_inode_item, mode)));
}

void extents_take(struct extents *extents, const struct item *item)
{
	struct btrfs_file_extent_item file;
	struct extent extent = { .key = item->key };
	u64 offset = item->key.offset;
	int known = extents->ino == item->key.objectid;

	if (item->key.type == BTRFS_INODE_ITEM_KEY)
		take_inode(extents, item);
	if (item->key.type != BTRFS_EXTENT_DATA_KEY || item->len < INLINE_HEAD ||
	    (known && !extents->regular))
		return;
	memset(&file, 0, sizeof(file));
	memcpy(&file, item->data, item->len < sizeof(file) ? item->len : sizeof(file));
	extent.generation = le64toh(file.generation);
	extent.compressed = file.compression != 0;
	if (file.type == BTRFS_FILE_EXTENT_INLINE) {
		extent.bytes = le64toh(file.ram_bytes);
	} else if (file.type == BTRFS_FILE_EXTENT_REG && item->len >= sizeof(file)) {
		extent.bytes = le64toh(file.num_bytes);
		extent.disk = extent.disk_extent = le64toh(file.disk_bytenr);
		extent.start = offset - le64toh(file.offset);
		extent.disk_bytes = extent.compressed ? le64toh(file.disk_num_bytes) : extent.bytes;
		extent.disk += extent.compressed ? 0 : le64toh(file.offset);
	}
	/* not for holes and preallocated extents, nor with impossible sizes */
	if (!extent.bytes || extent.bytes > EXTENT_MAX || extent.disk_bytes > EXTENT_MAX ||
	    offset > (u64)INT64_MAX - EXTENT_MAX ||
	    (file.type == BTRFS_FILE_EXTENT_REG && !file.disk_bytenr))
		return;
	extent.length = extent.bytes;
	if (known)
		extent.length = extents->size > offset ?
			min_u64(extent.bytes, extents->size - offset) : 0;
	*append(extents) = extent;
}

u64 extents_refs(const struct item *item, int all, struct refs *refs)
{
	u32 at = sizeof(struct btrfs_extent_item), size;
	u64 count, offset, before = refs->n, shared = 0;

	if (item->key.type != BTRFS_EXTENT_ITEM_KEY || item->len < at ||
	    !(get_u64(item->data + offsetof(struct btrfs_extent_item, flags)) &
	      BTRFS_EXTENT_FLAG_DATA))
		return 0;
	count = get_u64(item->data);
	if (count > REFS_FOLLOWED || (count < 2 && !all))
		return 0;
	for (; at < item->len && count; at += size) {
		const u8 *p = item->data + at + 1;

		/* type, reference, and count, where there is one */
		size = p[-1] == BTRFS_EXTENT_DATA_REF_KEY ? 29 :
			p[-1] == BTRFS_SHARED_DATA_REF_KEY ? 13 : 9;
		if (size > item->len - at)
			break;
		count -= size != 9;
		shared += size == 13;
		if (size != 29)
			continue;
		/* negative if the extent begins before the beginning of the file */
		offset = get_u64(p + 16);
		if (offset > INT64_MAX)
			offset = 0;
		*append(refs) = (struct ref) {
			.tree = get_u64(p),
			.key = { get_u64(p + 8), BTRFS_EXTENT_DATA_KEY, offset },
		};
	}
	return shared ? shared + refs->n - before : 0;
}

int extents_same(const struct extent *a, const struct extent *b)
{
	return a->key.objectid == b->key.objectid && a->generation == b->generation &&
		a->disk_extent == b->disk_extent && a->start == b->start &&
		b->key.offset <= a->key.offset && a->key.offset - b->key.offset < b->bytes;
}

void extents_free(struct extents *extents)
{
	free(extents->v);
	memset(extents, 0, sizeof(*extents));
}
