// SPDX-License-Identifier: GPL-2.0
/*
 * Leaves time of the disk to other processes.
 *
 * The disk and the kernel's elevator take the requests near the head first. As long as new ones of
 * ours keep coming, the requests of others wait until they expire, after half a second with
 * mq-deadline. So while others use the disk, our requests go in batches of some milliseconds of
 * its work. The next batch begins when all of the one before has been read, so requests that
 * wait by then come first.
 *
 * While no others use the disk, it is kept as busy as possible. Now and then it is left to fall
 * idle, to see whether others have used it: the sectors that the disks have transferred, less those
 * that we and the send have read. Beside a receive only reads count, less those of the kernel's own
 * threads, as a write cannot be attributed to a process. At the beginning others are assumed to be
 * there, and for a second longer if any process has read or written any disk meanwhile.
 */
#include <dirent.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "throttle.h"
#include "room.h"

#define MS 1000000ULL
#define BATCH (54 * MS)			/* time of the disk for one batch */
#define ADMIT (BATCH / 6)		/* requests that come later go into the next batch */
#define LEAST 4				/* fewest requests of a batch */
#define LOOK (20 * MS)			/* between two looks at the counts of the disks */
#define LOOK_ALONE (1500 * MS)		/* the same while alone, as each costs a pause */
#define HOLD (1000 * MS)		/* others count as present so long after seen */
#define FIRST (30 * MS)			/* the same after the first look */
#define DISKS 64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct shared *shared;
static int receives;
static char *stats[DISKS];		/* files of sysfs */
static u32 nr_stats;
static u32 under_way, admitted;		/* requests of this batch */
static u32 size = LEAST;		/* limit of requests of a batch */
static int asked;			/* others count as present: batches are made */
static int pausing;			/* no request is admitted for the moment */
static int full;			/* a request did not fit into this batch */
static struct waiting {
	u64 order;
	pthread_cond_t next;
} *waiting[MAX_THREADS + 1];
static u32 nr_waiting;
static u64 begun;			/* when the batch began */
static u64 looked;			/* when the counts were last looked at */
static u64 seen;			/* when others were last seen */
static u64 sure;			/* when a process was found for them, 0: never */
static int suspected;			/* a process has used some disk in the first second */
static pid_t child;			/* a child of btrfs that sends for it, or 0 */
static int64_t others, others_most;	/* sectors of others: lower and upper bound */
/* Sectors that processes have read and written on all disks. */
static struct by {
	int64_t others, pipeline;
	int64_t kernel;			/* its threads, beside a receive */
} by;

/* Add the disk of a partition, or the disks below a device. */
static void add_disks(const char *path, int depth)
{
	char real[PATH_MAX], other[PATH_MAX + 300];
	struct dirent *entry;
	int below = 0;
	DIR *slaves;
	u32 i;

	if (!realpath(path, real) || nr_stats == DISKS || depth > 8)
		return;
	snprintf(other, sizeof(other), "%s/partition", real);
	if (!access(other, F_OK))
		*strrchr(real, '/') = 0;
	snprintf(other, sizeof(other), "%s/slaves", real);
	slaves = opendir(other);
	while (slaves && (entry = readdir(slaves))) {
		snprintf(other, sizeof(other), "%s/slaves/%s", real, entry->d_name);
		if (entry->d_name[0] != '.') {
			add_disks(other, depth + 1);
			below = 1;
		}
	}
	if (slaves)
		closedir(slaves);
	snprintf(other, sizeof(other), "%s/stat", real);
	/* two devices may be on the same disk */
	for (i = 0; i < nr_stats && strcmp(stats[i], other); i++)
		;
	if (!below && i == nr_stats && i < DISKS && (stats[i] = strdup(other)))
		nr_stats++;
}

/* Set @sectors to what a process has read, or read and written. Return: 0, or -1. */
static int read_by(pid_t pid, int64_t *sectors, int written)
{
	long long r, w;
	char path[40];

	snprintf(path, sizeof(path), "/proc/%d/io", (int)pid);
	if (room_scan(path, "rchar: %*s wchar: %*s syscr: %*s syscw: %*s read_bytes: %lld "
		      "write_bytes: %lld", &r, &w) != 2)
		return -1;
	*sectors = (r + (written ? w : 0)) / 512;
	return 0;
}

/* The counts of all disks together. */
struct done {
	int64_t requests, sectors, under_way;
};

static struct done count(void)
{
	struct done done = { 0 };
	u32 i;

	for (i = 0; i < nr_stats; i++) {
		long long r[2], w[2], n;

		if (room_scan(stats[i], "%lld %*s %lld %*s %lld %*s %lld %*s %lld", &r[0], &r[1],
			      &w[0], &w[1], &n) != 5)
			continue;
		done.requests += r[0] + w[0];
		done.sectors += r[1] + (receives ? 0 : w[1]);
		done.under_way += n;
	}
	return done;
}

/* Is it a kernel thread that writes or commits for others? */
static int is_worker(pid_t pid)
{
	char path[40], name[20] = "";

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	room_scan(path, "%19[^\n]", name);
	return !strncmp(name, "kworker/", 8) || !strcmp(name, "btrfs-transacti") ||
		!strcmp(name, "btrfs-cleaner");
}

/*
 * Return: what all other processes have read and written on all disks. The pipeline is our process
 * group: the shell has started these with us, as the other end of the pipe.
 */
static struct by count_all(void)
{
	pid_t sender = atomic_load(&shared->sender), pid;
	struct dirent *entry;
	DIR *proc = opendir("/proc");
	struct by by = { 0 };
	int64_t sectors;

	while (proc && !shared_over() && (entry = readdir(proc))) {
		pid = atoi(entry->d_name);
		if (pid <= 0 || pid == getpid() || pid == sender ||
		    read_by(pid, &sectors, !receives))
			continue;
		if (receives && is_worker(pid))
			by.kernel += sectors;
		else if (sender && getsid(pid) == sender)
			child = pid;
		else if (getpgid(pid) == getpgrp())
			by.pipeline += sectors;
		else
			by.others += sectors;
	}
	if (proc)
		closedir(proc);
	return by;
}

/* Set @sectors to what we and the send have read. Return: 0, or -1. */
static int count_ours(int64_t *sectors)
{
	int64_t sent = 0, by_child = 0;

	if (read_by(getpid(), sectors, 0) ||
	    (!shared->alone && read_by(atomic_load(&shared->sender), &sent, 0)))
		return -1;
	if (child)
		read_by(child, &by_child, 0);
	*sectors += sent + by_child;
	return 0;
}

int64_t throttle_reads(void)
{
	int64_t ours;

	return count_ours(&ours) ? 0 : count().sectors - ours;
}

void throttle_init(const struct disk *disk, struct shared *of, int for_receive)
{
	int64_t sectors;
	size_t i;

	if (read_by(getpid(), &sectors, 0))
		return;
	for (i = 0; i < disk->nr_devices; i++) {
		struct stat is;
		char path[60];

		if (fstat(disk->devices[i].fd, &is))
			continue;
		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u", major(is.st_rdev),
			 minor(is.st_rdev));
		add_disks(path, 0);
	}
	shared = of;
	receives = for_receive;
	asked = nr_stats > 0;
	if (asked && !receives)
		by = count_all();
}

/*
 * Wait until the disks have completed as many requests as are under way now, and at most @most are
 * under way. Return: 0 if that took too long.
 */
static int give_way(int64_t most)
{
	struct done before = count(), done = before;
	u64 end = now_ns() + 2 * BATCH;

	while (done.under_way && (done.under_way > most || done.requests < before.requests +
				  before.under_way) && now_ns() < end && !shared_over()) {
		usleep(500);
		done = count();
	}
	return now_ns() < end;
}

/* The first look: find bounds of what others have read so far. */
static void look_first(void)
{
	int64_t before, ours;

	if (count_ours(&before))
		return;
	if (receives)
		by = count_all();
	give_way(INT64_MAX);
	others_most = count().sectors - before - by.kernel;
	if (count_ours(&ours))
		return;
	others = others_most - (ours - before);
	looked = now_ns();
	seen = looked - HOLD + FIRST;
}

static int is_sure(u64 time)
{
	/* the clock may be below HOLD, just after the boot */
	return sure && time - sure <= HOLD / 2;
}

/*
 * While no request of ours is under way: have others used the disks? Requests of the send that are
 * not complete make their count too small, so a rise alone proves nothing: there must also be a
 * process that has read or written. The rest of our pipeline may have used another disk, so for it
 * the count must exceed its upper bound.
 */
static void look(u64 time)
{
	int64_t sectors = count().sectors, ours;
	/* the first second ends */
	int over = asked && !sure && !suspected && time - seen >= HOLD;

	if (count_ours(&ours))
		return;
	sectors -= ours + by.kernel;
	looked = time;
	if (over || (sectors > others && !is_sure(time))) {
		struct by before = by;
		pid_t known = child;

		by = count_all();
		/* what it has read so far is not that of others: begin anew */
		if (child != known) {
			looked = 0;
			asked = 1;
			return;
		}
		sectors -= by.kernel - before.kernel;
		if ((by.others > before.others && sectors > others) ||
		    (by.pipeline > before.pipeline && sectors > others_most))
			sure = time;
		/* a process that has used some disk may use this one */
		if (over && by.others > before.others) {
			suspected = 1;
			seen = time;
		}
	}
	if (sectors > others && is_sure(time)) {
		seen = time;
		shared->stats.others++;
		others_most += sectors - others;
	}
	if (sectors > others)
		others = sectors;
	asked = time - seen < HOLD;
}

/* No request of ours is under way. A full batch tells how many requests fit into its time. */
static void end_batch(void)
{
	u64 took = now_ns() - begun;

	if (full && took)
		size = admitted * min_u64(BATCH * 100 / took, 200) / 100;
	if (size < LEAST)
		size = LEAST;
	admitted = full = 0;
	/* if the batch took no time, nobody has waited for it */
	if (asked && (took >= 2 * MS || !looked)) {
		int enough = 1;

		pausing = 1;
		pthread_mutex_unlock(&lock);
		if (looked)
			enough = give_way(1);	/* one request is the send's */
		else
			look_first();
		pthread_mutex_lock(&lock);
		if (!enough)
			size = (size + LEAST) / 2;
	}
	pausing = 0;
	if (looked && now_ns() - looked >= LOOK)
		look(now_ns());
}

/* Return: index of the waiting thread whose request is first in disk order. */
static u32 first(void)
{
	u32 i, least = 0;

	for (i = 1; i < nr_waiting; i++)
		if (waiting[i]->order < waiting[least]->order)
			least = i;
	return least;
}

/* Wake this thread, which then wakes the next: if all were woken, all but one would wait again. */
static void wake_first(void)
{
	if (nr_waiting)
		pthread_cond_signal(&waiting[first()]->next);
}

/* Wait for room in a batch; waiting threads are served in disk order. */
static void await_room(u64 order, u32 requests)
{
	struct waiting self = { .order = order, .next = PTHREAD_COND_INITIALIZER };
	u32 i;

	waiting[nr_waiting++] = &self;
	for (;;) {
		int has_room = !admitted ||
			(admitted + requests <= size && now_ns() - begun < ADMIT);

		if (!pausing && (!asked || (has_room && waiting[first()]->order >= order)))
			break;
		full |= !has_room;
		pthread_cond_wait(&self.next, &lock);
	}
	for (i = 0; waiting[i] != &self; i++)
		;
	waiting[i] = waiting[--nr_waiting];
	wake_first();
}

void throttle_enter(u64 order, u32 requests)
{
	pthread_mutex_lock(&lock);
	/* a new list begins: its requests may take longer than those before */
	if (!order)
		size = LEAST;
	if (pausing || asked)
		await_room(order, requests);
	if (!under_way++)
		begun = now_ns();
	admitted += requests;
	pthread_mutex_unlock(&lock);
}

void throttle_leave(void)
{
	pthread_mutex_lock(&lock);
	if (!--under_way) {
		end_batch();
		wake_first();
	} else if (nr_stats && now_ns() - looked >= LOOK_ALONE) {
		pausing = 1;
	}
	pthread_mutex_unlock(&lock);
}

int64_t throttle_pipeline(void)
{
	return shared ? count_all().pipeline * 512 : 0;
}

u32 throttle_most(void)
{
	u32 most;

	pthread_mutex_lock(&lock);
	most = asked ? size : UINT32_MAX;
	pthread_mutex_unlock(&lock);
	return most;
}
