// SPDX-License-Identifier: GPL-2.0
/*
 * Reads file data into the page cache ahead of the send, and drops them behind it.
 *
 * One request at a time would lose a revolution of the disk for each extent, so several threads
 * read. Each waits for its own read, which bounds the number of requests under way. Files are
 * opened by inode number, without looking up names.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "throttle.h"
#include "data.h"
#include "threads.h"

#define PIECE (1 << 20)			/* limit of one read */
#define PARTS 3				/* a batch is a third of the data that are left */
#define LEAST_BATCH (24ULL << 20)	/* for each disk */

struct piece {
	u64 position;			/* in the stream */
	u64 order;			/* on the disk */
	u64 logical;
	u64 ino, offset, length;
	u8 ours;			/* nothing of it was in memory before: to be dropped */
};

struct batch {
	struct data *data;
	struct piece *v;
	size_t n, room;
};

static int open_inode(const struct data *data, u64 ino)
{
	return open_regular(disk_open_inode(data->disk->fd, data->tree, ino, O_PATH | O_CLOEXEC),
			    O_NOATIME);
}

/* Return: how many pages of a range of a file are in memory; all, if that is not known. */
static u64 pages_cached(int fd, u64 offset, u64 length)
{
	u64 page = sysconf(_SC_PAGESIZE), start = offset / page * page;
	u64 pages = (offset + length - start + page - 1) / page, i, n = 0;
	u8 seen[PIECE / 4096 + 2];
	void *map;

	map = mmap(NULL, pages * page, PROT_READ, MAP_SHARED, fd, start);
	if (map == MAP_FAILED || mincore(map, pages * page, seen))
		n = pages;
	else
		for (i = 0; i < pages; i++)
			n += seen[i] & 1;
	if (map != MAP_FAILED)
		munmap(map, pages * page);
	return n;
}

static void read_piece(size_t i, void *arg)
{
	struct batch *batch = arg;
	struct data *data = batch->data;
	struct piece *piece = &batch->v[i];
	u64 page = sysconf(_SC_PAGESIZE), end = piece->position + piece->length, cached;
	u32 requests = 1 + piece->length / (256 << 10);	/* 256 KiB take about as long as one */
	char byte;
	int fd;

	if (shared_passed(data->subvolume, end, 0)) {
		data->shared->stats.data_passed_bytes += piece->length;
		return;
	}
	fd = open_inode(data, piece->ino);
	if (fd < 0) {
		data->shared->stats.files_failed++;
		return;
	}
	cached = pages_cached(fd, piece->offset, piece->length);
	if (cached < (piece->length + page - 1) / page) {
		data->shared->stats.data_bytes += piece->length;
		throttle_enter(requests);
		piece->ours = !posix_fadvise(fd, piece->offset, piece->length,
					     POSIX_FADV_WILLNEED) &&
			pread(fd, &byte, 1, piece->offset + piece->length - 1) == 1 && !cached;
		throttle_leave();
	}
	close(fd);
}

/* Compare by position on the disk, then by position in the stream. */
static int by_order(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;

	return x->order < y->order ? -1 : x->order > y->order ? 1 : by_number(a, b);
}

/* Add a piece of an extent, from offset @at in it on. Return: its length. */
static u64 cut(struct batch *batch, const struct extent *extent, u64 at)
{
	u64 length = min_u64(extent->length - at, PIECE), order;
	u64 within = extent->compressed ? 0 : at, logical = extent->disk + within;

	if (!extent->read || disk_place(batch->data->disk, extent->disk, &order))
		return length;
	*append(batch) = (struct piece) {
		.ino = extent->key.objectid,
		.offset = extent->key.offset + at,
		.length = length,
		.position = extent->position + at,
		.order = disk_in_turn(batch->data->disk, logical, order + (within >> 12)),
		.logical = logical,
	};
	return length;
}

static void read_batch(struct batch *batch)
{
	struct data *data = batch->data;
	size_t i;

	sort_list(batch, by_order);
	if (batch->n)
		parallel(data->threads, batch->n, read_piece, batch, NULL, data->disk,
			 &batch->v->logical, sizeof(*batch->v));
	sort_list(batch, by_number);
	for (i = 0; i < batch->n; i++) {
		const struct piece *piece = &batch->v[i];

		if (piece->ours)
			*append(&data->drops) = *piece;
	}
}

/*
 * The size of the next batch. Large batches cost less time of the disk. But whoever takes the
 * stream should have little left to do when the send ends, so batches become smaller towards the
 * end of the known data.
 */
static u64 batch_bytes(const struct data *data, u64 left)
{
	u64 bytes = left / PARTS, least = LEAST_BATCH * data->disk->nr_heads;

	return min_u64(bytes < least ? least : bytes, data->window / 2);
}

void data_read(struct data *data, const struct extent *v, size_t n)
{
	u64 end = n ? v[n - 1].position + v[n - 1].length : 0, at = 0;
	size_t i = 0;

	while (i < n) {
		struct batch batch = { .data = data };
		u64 from = v[i].position + at, to;

		if (!v[i].read) {
			i++;
			at = 0;
			continue;
		}
		to = from + batch_bytes(data, end - from);
		while (i < n && v[i].position + at < to) {
			at += cut(&batch, &v[i], at);
			if (at >= v[i].length) {
				i++;
				at = 0;
			}
		}
		if (shared_wait(data->subvolume, to > data->window ? to - data->window : 0, 0))
			i = n;
		data_drop(data);
		if (i < n || !shared_over())
			read_batch(&batch);
		free(batch.v);
	}
}

void data_drop(struct data *data)
{
	u64 page = sysconf(_SC_PAGESIZE), ino = 0;
	size_t i;
	int fd = -1;

	for (i = 0; i < data->drops.n; i++) {
		const struct piece *drop = &data->drops.v[i];
		u64 end = (drop->offset + drop->length + page - 1) / page * page;

		if (!shared_over() &&
		    !shared_passed(data->subvolume, drop->position + drop->length, 0))
			break;
		if (fd < 0 || drop->ino != ino) {
			close(fd);
			fd = open_inode(data, drop->ino);
			ino = drop->ino;
		}
		if (fd >= 0 &&
		    !posix_fadvise(fd, drop->offset, end - drop->offset, POSIX_FADV_DONTNEED))
			data->shared->stats.dropped_bytes += drop->length;
	}
	close(fd);
	drop_first(&data->drops, i);
}
