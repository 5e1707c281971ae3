/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The file system that is sent from, and its devices.
 */
#ifndef SENDAHEAD_DISK_H
#define SENDAHEAD_DISK_H

#include <stdatomic.h>

#include "chunks.h"
#include "node.h"

#define MAX_COPIES 4

struct device {
	u64 devid;
	u32 head;		/* number of its disk, below nr_heads */
	char *path;		/* of that disk in sysfs */
	int fd;			/* the block device, opened with O_DIRECT */
	atomic_ullong requests, ms;	/* since boot, large ones count more; how long it was busy */
	u64 requests_before, ms_before;	/* of them, those that no longer count */
	u64 sectors, sectors_before;	/* read since boot; by the time of disk_open() */
};

struct disk {
	int fd;			/* any file of the file system */
	u32 nodesize;
	int has_crc;		/* the checksums are CRC-32C */
	u8 fsid[16];		/* UUID in the headers of blocks */
	struct chunks chunks;
	struct device *devices;	/* the readable ones */
	size_t nr_devices;
	u32 nr_heads;		/* number of disks */
	int by_thread;		/* the thread's number selects the copy that btrfs reads */
	int has_heads;		/* one of the devices is rotational */
};

struct btrfs_ioctl_get_subvol_info_args;

/* Open a subvolume, or give up. Return: a descriptor, to be closed. */
int open_subvolume(const char *path, struct btrfs_ioctl_get_subvol_info_args *info);

/* Open the devices of a file system, or give up. */
void disk_open(struct disk *disk, int fd);

/* Return: whether a file belongs to this file system. */
int disk_has(const struct disk *disk, int fd);

/**
 * disk_place() - find the position of a block, for sorting
 * @disk: the file system
 * @logical: logical address of the block
 * @order: set to the position, as of order_of()
 *
 * It is the position of the first copy whose device is readable, or else of the first copy.
 *
 * Return: 0, or -1 if the address cannot be mapped
 */
int disk_place(const struct disk *disk, u64 logical, u64 *order);

/* Return: a number to sort blocks by: @order, their position, but with several disks in turn. */
u64 disk_in_turn(const struct disk *disk, u64 logical, u64 order);

/*
 * Return: number of copies of a block that are on different disks, if the number of a thread selects
 * the one that btrfs reads; otherwise 1. Sees what the disks have done by now, for disk_only_copy().
 */
u32 disk_copies(const struct disk *disk, u64 logical);

/**
 * disk_fast_copy() - find the copy of the metadata that is on the disks that read faster
 * @disk: the file system
 * @copy: set to its number; the disks are compared by the statistics of the kernel
 *
 * Return: number of copies that a process can select from by its number, 0 or 1: none
 */
u32 disk_fast_copy(const struct disk *disk, u32 *copy);

/*
 * Return: the only copy of a block that is to be read, as another one is on a slow disk, or -1. Slow is
 * one that takes more than twice as long for a request as the fastest; or, with @any, longer. The times
 * are those since boot in the first minute of a send, and then those of each minute.
 */
int disk_only_copy(const struct disk *disk, u64 logical, int any);

/* Return: sectors that all disks have read. Set @under_way to the read requests that they have. */
int64_t disk_reads(const struct disk *disk, int *under_way);

/* Read from the position @order, past the page cache. Return: 0, or -1. */
int disk_read(const struct disk *disk, u64 order, void *block, size_t bytes);

/* Return: the descriptor of the device at the position @order, or -1. */
int disk_fd(const struct disk *disk, u64 order);

/**
 * disk_node() - read a node
 * @disk: the file system
 * @want: the pointer to it
 *
 * Tries all copies. May be called by several threads.
 *
 * Return: the node, to be freed, or NULL if no copy is readable and valid
 */
struct node *disk_node(const struct disk *disk, const struct pointer *want);

/**
 * disk_open_inode() - open a file by its inode number
 * @fd: any file of the file system
 * @tree: number of its subvolume
 * @ino: its inode number
 * @flags: as for open()
 *
 * Return: the file, or -1 with errno set
 */
int disk_open_inode(int fd, u64 tree, u64 ino, int flags);

/*
 * Open what @found, a descriptor with O_PATH or -1, refers to, if it is a regular file: to open a
 * device may have effects. @found is closed. Return: a descriptor, or -1.
 */
int open_regular(int found, int flags);

/* Set @data to the bytes of file data, @blocks to the metadata blocks in use; 0 if not known. */
void disk_used(const struct disk *disk, u64 *data, u64 *blocks);

/* Set @root to the root node of a tree. Return: 0, or -1 with errno set. */
int disk_root(const struct disk *disk, u64 tree, struct pointer *root);

#endif
