// SPDX-License-Identifier: GPL-2.0
/*
 * A file in memory with the timing of a real disk, to be put under a loop
 * device: the front end of model.c for any kernel, in real time.
 *
 * Beside it lie three by which tools/rotdisk/rotdisk controls it, see
 * Documentation/block/rotdisk.rst.
 */
#define _GNU_SOURCE
#define FUSE_USE_VERSION 312
#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "model.h"

#define NSEC		1000000000ULL
#define THREADS		4
#define SPIN_NS		40000	/* an alarm may come so much late */

enum { DISK = FUSE_ROOT_ID + 1, COUNTERS, TIMING, TRACE, INODES };

static const char * const names[] = { "disk", "counters", "timing", "trace" };

struct command {
	struct rotdisk_cmd cmd;		/* the first member */
	struct command *next;
	fuse_req_t req;
	char data[];			/* what was read */
};

/* As in the driver; a loop device does not tell what is metadata. */
static int image;			/* what the disk holds */
static u64 bytes;			/* its size */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;	/* all below */
static pthread_cond_t wake;
static struct rotdisk_profile profile;
static struct rotdisk_model model;
static bool timing = true, tracing;
static u64 alarm_ns;			/* the timer sleeps until then; 0: it does not */
static u32 in_flight;
static struct command *waiting, **waiting_end = &waiting;
static struct rotdisk_counters counters[ROTDISK_CLASSES];
static FILE *trace;

static u64 now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NSEC + now.tv_nsec;
}

static void account(const struct rotdisk_cmd *cmd)
{
	rotdisk_count(counters, cmd);
	if (tracing)
		fprintf(trace, "%llu\t%llu\t%llu\t%u\t%c\t0\t%d\t%llu\t%llu\t%llu\n",
			cmd->submit_ns, cmd->finish_ns, cmd->lba, cmd->sectors, "RWF"[cmd->op],
			cmd->hit, cmd->seek_ns, cmd->rotation_ns, cmd->transfer_ns);
}

static void answer(struct command *c)
{
	if (c->cmd.op == ROTDISK_READ)
		fuse_reply_buf(c->req, c->data, c->cmd.sectors * 512);
	else if (c->cmd.op == ROTDISK_WRITE)
		fuse_reply_write(c->req, c->cmd.sectors * 512);
	else
		fuse_reply_err(c->req, 0);
	free(c);
}

/* Hand the drive what waits, as far as its queue has room. */
static void feed(u64 now)
{
	while (waiting && in_flight < profile.queue_depth) {
		in_flight++;
		rotdisk_model_submit(&model, &waiting->cmd, now);
		waiting = waiting->next;
	}
	if (!waiting)
		waiting_end = &waiting;
}

static void submit(struct command *c)
{
	pthread_mutex_lock(&lock);
	if (timing) {
		*waiting_end = c;
		waiting_end = &c->next;
		feed(now_ns());
		if (rotdisk_model_next_event(&model) < alarm_ns)
			pthread_cond_signal(&wake);
		c = NULL;
	} else {
		c->cmd.submit_ns = now_ns();
		c->cmd.finish_ns = c->cmd.submit_ns;
		account(&c->cmd);
	}
	pthread_mutex_unlock(&lock);
	if (c)
		answer(c);
}

/* Data is copied when a command comes, as in the driver. */
static void start(fuse_req_t req, enum rotdisk_op op, const char *from, size_t size, off_t at)
{
	struct command *c = calloc(1, sizeof(*c) + (op == ROTDISK_READ ? size : 0));
	ssize_t done = size;

	if (c && op == ROTDISK_READ)
		done = pread(image, c->data, size, at);
	else if (c && op == ROTDISK_WRITE)
		done = pwrite(image, from, size, at);
	if (!c || done < 0 || done % 512) {
		fuse_reply_err(req, !c || done < 0 ? errno : EINVAL);
		free(c);
		return;
	}
	c->req = req;
	c->cmd.lba = at / 512;
	c->cmd.sectors = done / 512;
	c->cmd.op = op;
	submit(c);
}

/* Until then, or an earlier event is signalled; the last moment is waited for awake. */
static void wait_until(u64 when)
{
	struct timespec at = { (when - SPIN_NS) / NSEC, (when - SPIN_NS) % NSEC };

	if (when > now_ns() + SPIN_NS) {
		alarm_ns = when;
		pthread_cond_timedwait(&wake, &lock, &at);
		alarm_ns = 0;
		return;
	}
	pthread_mutex_unlock(&lock);
	while (now_ns() < when)
		;
	pthread_mutex_lock(&lock);
}

/* The drive's clock. */
static void *timer(void *unused)
{
	struct command *done, *next, **end;
	struct rotdisk_cmd *cmd;
	u64 now;

	pthread_mutex_lock(&lock);
	for (;;) {
		now = now_ns();
		end = &done;
		while ((cmd = rotdisk_model_advance(&model, now))) {
			account(cmd);
			in_flight--;
			*end = (struct command *)cmd;
			end = &(*end)->next;
		}
		*end = NULL;
		feed(now);
		if (!done) {
			wait_until(rotdisk_model_next_event(&model));
			continue;
		}
		pthread_mutex_unlock(&lock);
		for (; done; done = next) {
			next = done->next;
			answer(done);
		}
		pthread_mutex_lock(&lock);
	}
	return unused;
}

static struct stat attributes(fuse_ino_t ino)
{
	return (struct stat) { .st_ino = ino, .st_nlink = 1, .st_size = ino == DISK ? bytes : 0,
			       .st_mode = ino == FUSE_ROOT_ID ? S_IFDIR | 0700 : S_IFREG | 0600 };
}

static void fs_init(void *unused, struct fuse_conn_info *conn)
{
	conn->want |= conn->capable & FUSE_CAP_ASYNC_DIO;
	conn->max_background = 128;
}

static void fs_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param e = { .ino = DISK, .attr_timeout = 3600, .entry_timeout = 3600 };

	while (e.ino < INODES && strcmp(name, names[e.ino - DISK]))
		e.ino++;
	e.attr = attributes(e.ino);
	if (e.ino < INODES)
		fuse_reply_entry(req, &e);
	else
		fuse_reply_err(req, ENOENT);
}

static void fs_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct stat st = attributes(ino);

	fuse_reply_attr(req, &st, 3600);
}

static void fs_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	fi->direct_io = 1;
	fuse_reply_open(req, fi);
}

static void fs_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t at,
		    struct fuse_file_info *fi)
{
	const struct rotdisk_counters *c = counters;
	char text[2048];
	size_t n = 0;

	if (ino == DISK) {
		start(req, ROTDISK_READ, NULL, size, at);
		return;
	}
	pthread_mutex_lock(&lock);
	for (; ino == COUNTERS && !at && c < counters + ROTDISK_CLASSES; c++)
		n += snprintf(text + n, sizeof(text) - n,
			      "%s\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\n",
			      rotdisk_class_names[c - counters], c->requests, c->sectors, c->hits,
			      c->seek_ns, c->rotation_ns, c->transfer_ns, c->wait_ns);
	pthread_mutex_unlock(&lock);
	fuse_reply_buf(req, text, n);
}

/* 0 and 1 are off and on; 2 empties the trace. Each of them brings it to its file. */
static void fs_write(fuse_req_t req, fuse_ino_t ino, const char *from, size_t size, off_t at,
		     struct fuse_file_info *fi)
{
	bool failed;

	if (ino == DISK) {
		start(req, ROTDISK_WRITE, from, size, at);
		return;
	}
	pthread_mutex_lock(&lock);
	if (ino == COUNTERS)
		memset(counters, 0, sizeof(counters));
	else if (ino == TIMING)
		timing = *from == '1';
	else if (*from < '2')
		tracing = *from == '1';
	failed = fflush(trace) || ferror(trace);
	if (ino == TRACE && *from == '2') {
		clearerr(trace);
		failed = ftruncate(fileno(trace), 0);
	}
	pthread_mutex_unlock(&lock);
	if (failed && ino == TRACE)
		fuse_reply_err(req, ENOSPC);
	else
		fuse_reply_write(req, size);
}

static void fs_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	start(req, ROTDISK_FLUSH, NULL, 0, 0);
}

static const struct fuse_lowlevel_ops operations = {
	.init = fs_init, .lookup = fs_lookup, .getattr = fs_getattr, .open = fs_open,
	.read = fs_read, .write = fs_write, .fsync = fs_fsync,
};

static int serve(const char *folder)
{
	struct fuse_args args = { .argc = 1, .argv = (char *[]) { "rotdisk", NULL } };
	struct fuse_session *fuse = fuse_session_new(&args, &operations, sizeof(operations), NULL);
	struct fuse_loop_config *config = fuse_loop_cfg_create();
	struct sched_param first = { .sched_priority = 1 };
	pthread_condattr_t monotonic;
	pthread_t thread;

	fuse_loop_cfg_set_max_threads(config, THREADS);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&wake, &monotonic);
	/* A real drive waits for no processor of the machine, and not until memory is free. */
	prctl(PR_SET_TIMERSLACK, 1UL);
	prctl(PR_SET_IO_FLUSHER, 1UL, 0UL, 0UL, 0UL);
	sched_setscheduler(0, SCHED_FIFO, &first);
	if (!fuse || fuse_session_mount(fuse, folder) || pthread_create(&thread, NULL, timer, NULL))
		return 1;
	fuse_session_loop_mt(fuse, config);
	fuse_session_unmount(fuse);
	return 0;
}

int main(int argc, char **argv)
{
	char text[ROTDISK_PROFILE_MAX], err[160];
	size_t len = fread(text, 1, sizeof(text), stdin);
	u64 most;

	/* The lock of tools/rotdisk/rotdisk-fuse.sh: from here on SENDAHEAD_DISK tells of us. */
	close_range(3, ~0U, 0);
	if (argc != 4 || rotdisk_profile_parse(&profile, text, len, err, sizeof(err))) {
		fputs(argc == 4 ? err : "usage: rotdisk-fuse BYTES TRACE FOLDER < PROFILE", stderr);
		return 2;
	}
	most = profile.capacity_sectors * 512;
	bytes = strtoull(argv[1], NULL, 10) ?: most;
	profile.capacity_sectors = bytes / 512;
	if (bytes % 4096 || bytes > most || rotdisk_model_init(&model, &profile)) {
		fprintf(stderr, "the capacity is a multiple of 4096 up to %llu, not %llu\n",
			most, bytes);
		return 2;
	}
	image = memfd_create("rotdisk", MFD_CLOEXEC);
	trace = fopen(argv[2], "ae");
	if (image < 0 || ftruncate(image, bytes) || !trace) {
		perror("rotdisk-fuse");
		return 1;
	}
	return serve(argv[3]);
}
