// SPDX-License-Identifier: GPL-2.0
/*
 * The file system that is sent from, and its devices. Chunks and roots are asked of the kernel,
 * nodes are read from the devices.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <linux/fs.h>

#include "disk.h"
#include "room.h"
#include "tree-search.h"

#define FEW 16				/* requests, too few to tell how fast a disk is */
#define COUNT_NS 60000000000ULL		/* those since boot count so long, then those in such a time */
#define INIT_PIDS "pid:[4026531836]"	/* the initial namespace */

static void read_chunks(struct disk *disk)
{
	struct search search = {
		.tree = BTRFS_CHUNK_TREE_OBJECTID, .nr = UINT32_MAX,
		.min = { BTRFS_FIRST_CHUNK_TREE_OBJECTID, BTRFS_CHUNK_ITEM_KEY, 0 },
		.max = { BTRFS_FIRST_CHUNK_TREE_OBJECTID, BTRFS_CHUNK_ITEM_KEY, UINT64_MAX },
	};
	struct items items = { .size = 65536 };
	struct item item;
	u64 next;

	do {
		next = search.min.offset;
		if (search_run(disk->fd, &search, &items))
			give_up("the chunk tree cannot be searched: %m");
		while (items_next(&items, &item)) {
			if (chunks_add(&disk->chunks, item.key.offset, item.data, item.len))
				give_up("a chunk item makes no sense");
			search.min.offset = item.key.offset + 1;
		}
	} while (search.min.offset > next);
	items_free(&items);
}

/*
 * Does the number of a thread select the copy that btrfs reads? Not with another read_policy, nor in
 * a PID namespace, where gettid() is not the number that the kernel uses.
 */
static int is_by_thread(const u8 *uuid)
{
	char path[80] = "/sys/fs/btrfs/", policy[100] = "[pid]", space[40] = INIT_PIDS;
	size_t n = strlen(path);
	int i;

	for (i = 0; i < 16; i++)
		n += sprintf(path + n, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			     uuid[i]);
	strcpy(path + n, "/read_policy");
	room_scan(path, "%99[^\n]", policy);
	n = readlink("/proc/self/ns/pid", space, sizeof(space) - 1);
	return strstr(policy, "[pid]") && !strncmp(space, INIT_PIDS, strlen(INIT_PIDS));
}

/*
 * Return: the path in sysfs of the disk that a block device is on, found through partitions, loop
 * devices and devices on a single other one, such as dm-crypt. A device on several others, such as
 * md, counts as a disk.
 */
static char *disk_below(dev_t dev)
{
	char path[PATH_MAX + 300], *real = NULL;
	int depth;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u", major(dev), minor(dev));
	for (depth = 0; depth < 8; depth++) {
		char file[PATH_MAX] = "";
		struct stat stat_of;
		glob_t slaves;
		int single;

		free(real);
		real = realpath(path, NULL);
		if (!real)
			break;
		snprintf(path, sizeof(path), "%s/partition", real);
		if (!access(path, F_OK))
			*strrchr(real, '/') = 0;
		snprintf(path, sizeof(path), "%s/slaves/*", real);
		single = !glob(path, 0, NULL, &slaves) && slaves.gl_pathc == 1;
		if (single)
			snprintf(path, sizeof(path), "%s", slaves.gl_pathv[0]);
		globfree(&slaves);
		if (single)
			continue;
		snprintf(path, sizeof(path), "%s/loop/backing_file", real);
		room_scan(path, "%4095[^\n]", file);
		if (!*file || stat(file, &stat_of))
			break;
		dev = S_ISBLK(stat_of.st_mode) ? stat_of.st_rdev : stat_of.st_dev;
		if (!major(dev))
			break;
		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u", major(dev), minor(dev));
	}
	return real;
}

/* Set the number of a device's disk: the same for all devices on it. */
static void find_head(struct disk *disk, struct device *device, dev_t dev)
{
	size_t i;

	device->path = disk_below(dev);
	device->head = disk->nr_heads;
	for (i = 0; i < disk->nr_devices; i++)
		if (device->path && disk->devices[i].path &&
		    !strcmp(disk->devices[i].path, device->path))
			device->head = disk->devices[i].head;
	disk->nr_heads += device->head == disk->nr_heads;
}

static void open_devices(struct disk *disk, const struct btrfs_ioctl_fs_info_args *info)
{
	u64 devid;

	disk->devices = calloc(info->num_devices, sizeof(*disk->devices));
	if (!disk->devices)
		give_up("no memory for %llu devices", (unsigned long long)info->num_devices);
	for (devid = 0; devid <= info->max_id && disk->nr_devices < info->num_devices; devid++) {
		struct btrfs_ioctl_dev_info_args args = { .devid = devid };
		unsigned short rotates;
		struct stat stat;
		int fd;

		if (ioctl(disk->fd, BTRFS_IOC_DEV_INFO, &args))
			continue;
		args.path[sizeof(args.path) - 1] = 0;
		fd = open((char *)args.path, O_RDONLY | O_DIRECT | O_CLOEXEC | O_NONBLOCK);
		if (fd < 0)
			continue;
		if (fstat(fd, &stat) || !S_ISBLK(stat.st_mode)) {
			close(fd);
			continue;
		}
		disk->devices[disk->nr_devices] = (struct device) { .devid = devid, .fd = fd };
		find_head(disk, &disk->devices[disk->nr_devices], stat.st_rdev);
		disk->nr_devices++;
		disk->has_heads |= ioctl(fd, BLKROTATIONAL, &rotates) || rotates;
	}
	if (!disk->nr_devices)
		give_up("no device of the file system can be opened: %m");
}

int open_subvolume(const char *path, struct btrfs_ioctl_get_subvol_info_args *info)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	memset(info, 0, sizeof(*info));
	if (fd < 0 || ioctl(fd, BTRFS_IOC_GET_SUBVOL_INFO, info) < 0)
		give_up("%s is no subvolume that can be read: %m", path);
	return fd;
}

#define FLAGS (BTRFS_FS_INFO_FLAG_CSUM_INFO | BTRFS_FS_INFO_FLAG_METADATA_UUID)

static struct btrfs_ioctl_fs_info_args info_of(int fd)
{
	struct btrfs_ioctl_fs_info_args info = { .flags = FLAGS };

	if (ioctl(fd, BTRFS_IOC_FS_INFO, &info))
		give_up("it is no btrfs: %m");
	return info;
}

int disk_has(const struct disk *disk, int fd)
{
	/* a copy of the file system can have the same metadata_uuid */
	return !memcmp(info_of(fd).fsid, info_of(disk->fd).fsid, BTRFS_FSID_SIZE);
}

void disk_open(struct disk *disk, int fd)
{
	struct btrfs_ioctl_fs_info_args info = info_of(fd);
	const struct chunk *chunk;

	memset(disk, 0, sizeof(*disk));
	disk->fd = fd;
	if ((info.flags & FLAGS) != FLAGS)
		give_up("the kernel does not tell the type of the checksums");
	if (info.nodesize < 4096 || info.nodesize > 65536 || info.nodesize & (info.nodesize - 1))
		give_up("blocks of %u bytes are not known", info.nodesize);
	if (info.num_devices > 1024 || info.max_id > UINT16_MAX)
		give_up("there are too many devices");
	disk->nodesize = info.nodesize;
	disk->has_crc = info.csum_type == BTRFS_CSUM_TYPE_CRC32;
	memcpy(disk->fsid, info.metadata_uuid, sizeof(disk->fsid));
	read_chunks(disk);
	for (chunk = disk->chunks.v; chunk < disk->chunks.v + disk->chunks.n; chunk++)
		if (chunk->type & BTRFS_BLOCK_GROUP_METADATA && !chunk->copies)
			give_up("the profile of the metadata is not known");
	open_devices(disk, &info);
	disk->by_thread = is_by_thread(info.fsid);
	disk_reads(disk, &(int) { 0 });
}

static const struct device *device_of(const struct disk *disk, u64 order)
{
	size_t i;

	for (i = 0; i < disk->nr_devices; i++)
		if (disk->devices[i].devid == order_device(order))
			return &disk->devices[i];
	return NULL;
}

int disk_fd(const struct disk *disk, u64 order)
{
	const struct device *device = device_of(disk, order);

	return device ? device->fd : -1;
}

int64_t disk_reads(const struct disk *disk, int *under_way)
{
	int64_t sectors = 0;
	size_t i, heads = 0;

	*under_way = 0;
	for (i = 0; i < disk->nr_devices; i++) {
		unsigned long long reads = 0, done = 0, writes = 0, ms = 0;
		struct device *device = &disk->devices[i];
		char path[PATH_MAX + 10];
		int n = 0;

		snprintf(path, sizeof(path), "%s/stat", device->path ? : "");
		room_scan(path, "%llu %*u %llu %*u %llu %*u %*u %*u %*u %llu", &reads, &done, &writes, &ms);
		/* 256 KiB take about as long as a request */
		device->requests = reads + writes + done / 512;
		device->ms = ms;
		device->sectors_before = device->sectors ? device->sectors_before : done;
		device->sectors = done;
		/* two devices may be on the same disk */
		if (device->head != heads)
			continue;
		heads++;
		snprintf(path, sizeof(path), "%s/inflight", device->path ? : "");
		room_scan(path, "%d", &n);
		sectors += done;
		*under_way += n;
	}
	return sectors;
}

int disk_only_copy(const struct disk *disk, u64 logical, int any)
{
	u32 copies = disk->nr_heads > 1 && disk->by_thread, only = 0, i;
	u64 least = NONE, most = 0, order, us;
	int64_t n;

	for (i = 0; i < copies; i++) {
		const struct device *device;

		copies = chunks_map(&disk->chunks, logical, 1, i, &order);
		device = copies ? device_of(disk, order) : NULL;
		n = device ? device->requests - device->requests_before : 0;
		if (n < FEW)
			return -1;
		us = (u64)(u32)(device->ms - device->ms_before) * 1000 / n;
		only = us < least ? i : only;
		least = min_u64(least, us);
		most = us > most ? us : most;
	}
	/* the kernel's clock may be too coarse for less than a millisecond */
	return (any ? most > least : most > 2 * least && most > 1000) ? (int)only : -1;
}

u32 disk_fast_copy(const struct disk *disk, u32 *copy)
{
	const struct chunk *chunk;
	u64 bytes[MAX_COPIES] = { 0 };
	u32 copies = *copy = 0;

	for (chunk = disk->chunks.v; chunk < disk->chunks.v + disk->chunks.n; chunk++) {
		int only = disk_only_copy(disk, chunk->start, 1);

		if (only < 0 || !(chunk->type & BTRFS_BLOCK_GROUP_METADATA))
			continue;
		bytes[only] += chunk->length;
		copies = bytes[only] < bytes[*copy] ? copies : chunk->copies;
		*copy = bytes[only] < bytes[*copy] ? *copy : (u32)only;
	}
	return copies;
}

int disk_place(const struct disk *disk, u64 logical, u64 *order)
{
	u32 copy, copies = chunks_map(&disk->chunks, logical, 1, 0, order);
	u64 other;

	for (copy = 1; copy < copies && disk_fd(disk, *order) < 0; copy++)
		if (chunks_map(&disk->chunks, logical, 1, copy, &other) && disk_fd(disk, other) >= 0)
			*order = other;
	return copies ? 0 : -1;
}

u64 disk_in_turn(const struct disk *disk, u64 logical, u64 order)
{
	return disk->nr_heads > 1 ? chunks_row(&disk->chunks, logical) : order;
}

u32 disk_copies(const struct disk *disk, u64 logical)
{
	static u64 counted;
	u64 first, last;
	u32 copies = chunks_map(&disk->chunks, logical, 1, 0, &first);
	const struct device *a, *b;
	size_t i;

	if (disk->nr_heads < 2 || !disk->by_thread ||
	    !chunks_map(&disk->chunks, logical, 1, copies - 1, &last))
		return 1;
	disk_reads(disk, &(int) { 0 });
	for (i = 0; i < disk->nr_devices && counted && now_ns() - counted > COUNT_NS; i++) {
		disk->devices[i].requests_before = disk->devices[i].requests;
		disk->devices[i].ms_before = disk->devices[i].ms;
	}
	counted = i || !counted ? now_ns() : counted;
	a = device_of(disk, first);
	b = device_of(disk, last);
	return a && b && a->head != b->head ? copies : 1;
}

/* A cache of nodes: each window needs those of the extent tree and of other trees again. */
#define KEPT 512
static struct node *kept[KEPT];
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;

static struct node *copy_of(const struct node *node)
{
	size_t size = sizeof(*node) + node->nr * sizeof(*node->child);
	struct node *copy = malloc(size);

	return copy ? memcpy(copy, node, size) : NULL;
}

static struct node **place_of(const struct pointer *at)
{
	return &kept[(at->bytenr >> 12) * 0x9e3779b97f4a7c15ULL >> 55];
}

static struct node *find_kept(const struct pointer *want)
{
	struct node **at = place_of(want), *node = NULL;

	pthread_mutex_lock(&kept_lock);
	if (*at && is_same(&(*at)->at, want))
		node = copy_of(*at);
	pthread_mutex_unlock(&kept_lock);
	return node;
}

static void keep(const struct node *node)
{
	struct node **at = place_of(&node->at);

	pthread_mutex_lock(&kept_lock);
	free(*at);
	*at = copy_of(node);
	pthread_mutex_unlock(&kept_lock);
}

int disk_read(const struct disk *disk, u64 order, void *block, size_t bytes)
{
	return pread(disk_fd(disk, order), block, bytes, order_byte(order)) == (ssize_t)bytes ? 0 : -1;
}

struct node *disk_node(const struct disk *disk, const struct pointer *want)
{
	struct node *node = find_kept(want);
	u32 i, copies, first;
	void *block;
	u64 order;
	int only;

	if (node || posix_memalign(&block, 4096, disk->nodesize))
		return node;
	only = disk_only_copy(disk, want->bytenr, 0);
	first = disk->nr_heads < 2 ? 0 : only < 0 ? gettid() : only;
	copies = chunks_map(&disk->chunks, want->bytenr, disk->nodesize, 0, &order);
	for (i = 0; i < copies && !node; i++) {
		/* begin with the copy that btrfs would read for this thread */
		chunks_map(&disk->chunks, want->bytenr, disk->nodesize, (first + i) % copies, &order);
		if (!disk_read(disk, order, block, disk->nodesize))
			node = node_parse(block, disk->nodesize, disk->fsid, disk->has_crc, want);
	}
	free(block);
	if (node)
		keep(node);
	return node;
}

int open_regular(int found, int flags)
{
	char path[32];
	struct stat is;
	int fd = -1;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", found);
	if (found >= 0 && !fstat(found, &is) && S_ISREG(is.st_mode))
		fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags);
	close(found);
	return fd;
}

/* The handle is FILEID_BTRFS_WITHOUT_PARENT: inode, tree, generation. */
int disk_open_inode(int fd, u64 tree, u64 ino, int flags)
{
	union {
		struct file_handle head;
		u8 bytes[sizeof(struct file_handle) + 20];
	} handle = { .head = { .handle_bytes = 20, .handle_type = 0x4d } };
	struct key key = { ino, BTRFS_INODE_ITEM_KEY, 0 };
	struct items items = { .size = 512 };
	struct item item;
	int opened;

	memcpy(handle.head.f_handle, &ino, 8);
	memcpy(handle.head.f_handle + 8, &tree, 8);
	opened = open_by_handle_at(fd, &handle.head, flags);
	/* newer kernels than 6.1 take 0 for any generation */
	if (opened < 0 && errno == ESTALE && search_first(fd, tree, key, &items, &item)) {
		memcpy(handle.head.f_handle + 16, item.data, 4);
		opened = open_by_handle_at(fd, &handle.head, flags);
	}
	items_free(&items);
	return opened;
}

void disk_used(const struct disk *disk, u64 *data, u64 *blocks)
{
	union {
		struct btrfs_ioctl_space_args args;
		u8 bytes[sizeof(struct btrfs_ioctl_space_args) +
			 16 * sizeof(struct btrfs_ioctl_space_info)];
	} all = { .args = { .space_slots = 16 } };
	u64 i;

	*data = *blocks = 0;
	if (ioctl(disk->fd, BTRFS_IOC_SPACE_INFO, &all.args))
		return;
	for (i = 0; i < min_u64(all.args.total_spaces, 16); i++) {
		const struct btrfs_ioctl_space_info *space = &all.args.spaces[i];

		if (space->flags & BTRFS_BLOCK_GROUP_DATA)
			*data += space->used_bytes;
		if (space->flags & BTRFS_BLOCK_GROUP_METADATA)
			*blocks += space->used_bytes / disk->nodesize;
	}
}

int disk_root(const struct disk *disk, u64 tree, struct pointer *root)
{
	struct key key = { tree, BTRFS_ROOT_ITEM_KEY, 0 };
	struct items items = { .size = 4096 };
	struct item item;
	int ret = -1;

	errno = ENOENT;
	if (search_first(disk->fd, BTRFS_ROOT_TREE_OBJECTID, key, &items, &item) &&
	    item.len > offsetof(struct btrfs_root_item, level)) {
		memset(root, 0, sizeof(*root));
		root->generation = get_u64(item.data +
					   offsetof(struct btrfs_root_item, generation));
		root->bytenr = get_u64(item.data + offsetof(struct btrfs_root_item, bytenr));
		root->level = item.data[offsetof(struct btrfs_root_item, level)];
		ret = root->level < MAX_LEVEL ? 0 : -1;
	}
	items_free(&items);
	return ret;
}
