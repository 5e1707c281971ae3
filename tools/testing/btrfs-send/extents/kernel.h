/* SPDX-License-Identifier: GPL-2.0 */
/*
 * As much of the kernel as fs/btrfs/send-extents.c needs to be compiled as a
 * program, with a file extent item that is a struct in memory.
 */

#ifndef TEST_KERNEL_H
#define TEST_KERNEL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t u64;
typedef uint32_t u32;
typedef uint16_t u16;
typedef uint8_t u8;
typedef struct { u64 counter; } atomic64_t;

#define U16_MAX			UINT16_MAX
#define SZ_16K			0x4000
#define GFP_KERNEL		0
#define __GFP_NORETRY		0
#define __GFP_NOWARN		0
#define READ_ONCE(x)		(x)
#define IS_ENABLED(option)	0
#define DIV_ROUND_UP(n, d)	(((n) + (d) - 1) / (d))
#define min(a, b)		((a) < (b) ? (a) : (b))
#define max(a, b)		((a) > (b) ? (a) : (b))
#define min_t(type, a, b)	min((type)(a), (type)(b))
#define ilog2(n)		(31 - __builtin_clz(n))
#define hash_64(value, bits)	((u32)(((u64)(value) * 0x61C8864680B583EBull) >> (64 - (bits))))
#define module_param(name, type, mode)
#define MODULE_PARM_DESC(name, text)
#define cond_resched()		do { } while (0)

void *test_alloc(u64 bytes);
void test_free(void *ptr);

#define kvzalloc(bytes, gfp)	test_alloc(bytes)
#define kvzalloc_obj(obj, gfp)	test_alloc(sizeof(obj))
#define kvfree(ptr)		test_free(ptr)

struct btrfs_fs_info {
	u32 sectorsize;
};

struct btrfs_root {
	struct btrfs_fs_info *fs_info;
};

struct btrfs_file_extent_item {
	u64 bytenr;
	u64 offset;
	u64 num_bytes;
	u8 type;
	u8 encoding;
};

struct extent_buffer {
	struct btrfs_file_extent_item item;
};

#define BTRFS_FILE_EXTENT_INLINE	0
#define BTRFS_FILE_EXTENT_REG		1

#define btrfs_item_ptr(leaf, slot, type)		((void)(slot), &(leaf)->item)
#define btrfs_file_extent_type(leaf, item)		((item)->type)
#define btrfs_file_extent_disk_bytenr(leaf, item)	((item)->bytenr)
#define btrfs_file_extent_offset(leaf, item)		((item)->offset)
#define btrfs_file_extent_num_bytes(leaf, item)		((item)->num_bytes)
#define btrfs_file_extent_compression(leaf, item)	((item)->encoding)
#define btrfs_file_extent_encryption(leaf, item)	0
#define btrfs_file_extent_other_encoding(leaf, item)	0

#endif
