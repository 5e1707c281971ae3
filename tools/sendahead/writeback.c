// SPDX-License-Identifier: GPL-2.0
/*
 * Begins writeback of received files while the stream still arrives. By itself the kernel begins
 * when a tenth of the memory is dirty, or after half a minute. Most increments are smaller, so the
 * disk would be idle until the sync at the end. Whole files are written, in the order of the
 * stream, so their extents are allocated as a sync would allocate them.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <linux/openat2.h>

#include "disk.h"
#include "room.h"
#include "shared.h"
#include "receive.h"

#define RUN (16 << 20)			/* begin when complete files have so many bytes */
#define PART (64 << 20)			/* larger files are written in such parts */
#define LEAST 4096			/* smaller files are left out: they may be inline */

struct file {
	char *path;
	u64 at;				/* complete when btrfs has read so far; NONE: open */
	u64 bytes;
};

struct files {
	struct file *v;
	size_t n, room;
	int fd;
};

static struct files files;		/* the last one may be open */
static size_t received;			/* the first so many are complete, */
static u64 received_bytes;		/* with so many bytes */
static int64_t read_before = INT64_MIN;	/* what others had read the last time; may be negative */
static atomic_int busy;			/* a thread is at work */

void writeback_end(u64 at)
{
	struct file *last = files.n ? &files.v[files.n - 1] : NULL;

	if (!last || last->at != NONE)
		return;
	last->at = at + QUEUE_ON_WAY;
	if (last->bytes < LEAST)
		free(files.v[--files.n].path);
}

void writeback_add(const char *path, u64 at, u64 bytes)
{
	struct file *last = files.n ? &files.v[files.n - 1] : NULL;
	char *copy;

	if (!last || last->at != NONE || strcmp(last->path, path) || last->bytes >= PART) {
		writeback_end(at);
		copy = strdup(path);
		if (!copy)
			return;
		*append(&files) = (struct file) { .path = copy, .at = NONE };
	}
	files.v[files.n - 1].bytes += bytes;
}

int look_up_beneath(int directory, const char *path)
{
	struct open_how how = {
		.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV,
	};

	return syscall(__NR_openat2, directory, path, &how, sizeof(how));
}

int open_beneath(int directory, const char *path)
{
	return open_regular(look_up_beneath(directory, path), 0);
}

static void *begin_all(void *arg)
{
	struct files *some = arg;
	size_t i;

	for (i = 0; i < some->n; i++) {
		int fd = shared_over() ? -1 : open_beneath(some->fd, some->v[i].path);

		if (fd >= 0)
			sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
		close(fd);
		free(some->v[i].path);
	}
	free(some->v);
	free(some);
	atomic_store(&busy, 0);
	return NULL;
}

int writeback_run(int fd, const struct queue *queue, int64_t (*reads)(void))
{
	struct files *some;
	pthread_t thread;
	int64_t read_now;

	if (read_before == INT64_MIN)
		read_before = reads();
	for (; received < files.n && files.v[received].at < queue->begin; received++)
		received_bytes += files.v[received].bytes;
	if (received_bytes < RUN || atomic_load(&busy))
		return files.n > 0;
	some = calloc(1, sizeof(*some));
	read_now = reads();
	if (!some)
		return 0;
	while (some->n < received)
		*append(some) = files.v[some->n];
	some->fd = fd;
	/* others, such as a send, read the disk, or no thread is left: leave all to the sync */
	if (read_now - read_before > (int64_t)(received_bytes / 1024) || room_threads(2) < 2)
		some->fd = -1;
	drop_first(&files, received);
	read_before = read_now;
	received = received_bytes = 0;
	atomic_store(&busy, 1);
	if (some->fd < 0 || pthread_create(&thread, NULL, begin_all, some))
		begin_all(some);
	else
		pthread_detach(thread);
	return files.n > 0;
}
