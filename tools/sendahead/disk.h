/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The file system that is sent from, and its devices.
 */
#ifndef SENDAHEAD_DISK_H
#define SENDAHEAD_DISK_H

#include "chunks.h"
#include "node.h"

struct device {
	u64 devid;
	int fd;			/* of the block device, past the page cache */
};

struct disk {
	int fd;			/* of any file there */
	u32 nodesize;
	int has_crc;		/* the checksums are CRC-32C */
	u8 fsid[16];		/* in the heads of blocks */
	struct chunks chunks;
	struct device *devices;	/* those that can be read */
	size_t nr_devices;
	int has_heads;		/* at least one of the devices, as the kernel says */
};

/* The number of a place: it sorts by device, and by byte there, in steps of 4 KiB. */
static inline u64 order_of(u64 devid, u64 byte)
{
	return devid << 48 | (byte >> 12 & ((1ULL << 48) - 1));
}

static inline u64 order_device(u64 order)
{
	return order >> 48;
}

static inline u64 order_byte(u64 order)
{
	return order << 16 >> 4;
}

struct btrfs_ioctl_get_subvol_info_args;

/* Gives up where it is none. Return: the directory, to be closed. */
int open_subvolume(const char *path, struct btrfs_ioctl_get_subvol_info_args *info);

/* Gives up where the file system is none that can be read past the kernel. */
void disk_open(struct disk *disk, int fd);

/* Whether a file is of this file system. */
int disk_has(const struct disk *disk, int fd);

/**
 * disk_place() - the order in which the heads of the disks pass blocks
 * @disk: the file system
 * @logical: address of a block
 * @order: set to the number of the place
 *
 * It is that of the first copy whose device can be read, or of the first.
 *
 * Return: 0, or -1 if that is not known
 */
int disk_place(const struct disk *disk, u64 logical, u64 *order);

/* Read, past the page cache, from a place of disk_place(). Return: 0, or -1. */
int disk_read(const struct disk *disk, u64 order, void *block, size_t bytes);

/* The device of such a place, or -1. */
int disk_fd(const struct disk *disk, u64 order);

/**
 * disk_node() - read a node
 * @disk: the file system
 * @want: what is expected there
 *
 * Any of the copies will do. Safe in threads.
 *
 * Return: the node, to be freed, or NULL if no copy is what is expected
 */
struct node *disk_node(const struct disk *disk, const struct pointer *want);

/**
 * disk_open_inode() - open a file by its number, of whatever generation
 * @fd: any file of the file system
 * @tree: the number of its subvolume
 * @ino: its own
 * @flags: as for open()
 *
 * Return: the file, or -1 with errno set
 */
int disk_open_inode(int fd, u64 tree, u64 ino, int flags);

/* How much of the file system is data, and how many blocks are metadata; 0 if unknown. */
void disk_used(const struct disk *disk, u64 *data, u64 *blocks);

/* Set @root to the root node of a tree. Return: 0, or -1 with errno set. */
int disk_root(const struct disk *disk, u64 tree, struct pointer *root);

#endif
