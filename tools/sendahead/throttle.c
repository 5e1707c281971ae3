// SPDX-License-Identifier: GPL-2.0
/*
 * Room on the disk for whoever else reads or writes there.
 *
 * A disk, and the kernel's elevator before it, take the requests near the head first. As
 * long as new ones of ours keep coming, those of others wait until they expire, half a
 * second with mq-deadline. So while others want the disk ours come in batches of some
 * milliseconds of its work: no request of a batch is made before the one before has been
 * read, and whoever waits by then is the next. A disk of our own is kept as busy as it
 * can be; it is only left to fall idle now and then, to see whether somebody else was
 * there: all that the disks have done, less what we and the send have read. Beside a
 * receive that is all they have read, less what the kernel has for it: what is written
 * is nobody's by name. At the beginning the disk is not taken for our own, and for a
 * second more if anybody has read or written on whichever disk meanwhile.
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
#define BATCH (54 * MS)			/* of the disk's work */
#define ADMIT (BATCH / 6)		/* later on, a batch takes nothing more */
#define LEAST 4				/* requests of one */
#define LOOK (20 * MS)			/* between two looks at what the disks have done */
#define LOOK_ALONE (1500 * MS)		/* at the least, where each costs a pause */
#define FIRST (30 * MS)			/* at the beginning, until others could have been seen */
#define HOLD (1000 * MS)		/* without others, until the disk is ours */
#define DISKS 64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct shared *shared;
static int receives;
static char *stats[DISKS];		/* files of sysfs */
static u32 nr_stats;
static u32 under_way, admitted;		/* of this batch */
static u32 size = LEAST;		/* of a batch, in requests */
static int asked, pausing, full;
static struct waiting {
	u64 order;
	pthread_cond_t next;
} *waiting[MAX_THREADS + 1];
static u32 nr_waiting;
static u64 begun;			/* the batch */
static u64 looked, seen;		/* when, and when others were there last */
static u64 sure;			/* that they are somebody, 0: never */
static int suspected;			/* as there was somebody, perhaps at another disk */
static int64_t others, others_most;	/* sectors that they had, at the least and at most */
/* Sectors that processes have had, of any disk, by who they are. */
static struct by {
	int64_t others, pipeline;
	int64_t kernel;			/* for the receive */
} by;

/* The disk that a partition is of, or those below a device. */
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
	/* two partitions may be of one disk */
	for (i = 0; i < nr_stats && strcmp(stats[i], other); i++)
		;
	if (!below && i == nr_stats && i < DISKS && (stats[i] = strdup(other)))
		nr_stats++;
}

/* Sectors that a process has read, or written as well, by the kernel's account, or -1. */
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

/* What the disks have done, all of them together. */
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

/* A thread of the kernel that does what others have asked for: writes, commits. */
static int is_worker(pid_t pid)
{
	char path[40], name[20] = "";

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	room_scan(path, "%19[^\n]", name);
	return !strncmp(name, "kworker/", 8) || !strcmp(name, "btrfs-transacti") ||
		!strcmp(name, "btrfs-cleaner");
}

/*
 * What all other processes have read and written, of any disk; the pipeline is those that the
 * shell has started with us, as the other end of the pipe.
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
		else if (getpgid(pid) == getpgrp())
			by.pipeline += sectors;
		else
			by.others += sectors;
	}
	if (proc)
		closedir(proc);
	return by;
}

/* Sectors that we and the send have asked for. */
static int count_ours(int64_t *sectors)
{
	int64_t sent = 0;

	if (read_by(getpid(), sectors, 0) ||
	    (!shared->alone && read_by(atomic_load(&shared->sender), &sent, 0)))
		return -1;
	*sectors += sent;
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
 * Wait for as many requests as are under way, until no more than @most are. Return: whether there
 * was time enough for that.
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

/* The first look: others have had no more than there is once the send has what it waits for. */
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
	/* the clock begins with the machine */
	return sure && time - sure <= HOLD / 2;
}

/*
 * Nothing of ours is under way: has somebody else been there? What the send waits for makes
 * the count too small, by more or by less, so if there is more than before some process must
 * have read or written it. Those of our pipeline may have done so on another disk: there must
 * be more than others ever had.
 */
static void look(u64 time)
{
	int64_t sectors = count().sectors, ours;
	/* the beginning */
	int over = asked && !sure && !suspected && time - seen >= HOLD;

	if (count_ours(&ours))
		return;
	sectors -= ours + by.kernel;
	looked = time;
	if (over || (sectors > others && !is_sure(time))) {
		struct by before = by;

		by = count_all();
		sectors -= by.kernel - before.kernel;
		if ((by.others > before.others && sectors > others) ||
		    (by.pipeline > before.pipeline && sectors > others_most))
			sure = time;
		/* those who were at any disk meanwhile may be here */
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

/* Nothing of ours is under way. A batch that was full tells how much the disk gets done. */
static void end_batch(void)
{
	u64 took = now_ns() - begun;

	if (full && took)
		size = admitted * min_u64(BATCH * 100 / took, 200) / 100;
	if (size < LEAST)
		size = LEAST;
	admitted = full = 0;
	/* nobody has waited for what took next to nothing */
	if (asked && (took >= 2 * MS || !looked)) {
		int enough = 1;

		pausing = 1;
		pthread_mutex_unlock(&lock);
		if (looked)
			enough = give_way(1);	/* the send has always one */
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

/* Who waits and is next in the order of the disk, as an index. */
static u32 first(void)
{
	u32 i, least = 0;

	for (i = 1; i < nr_waiting; i++)
		if (waiting[i]->order < waiting[least]->order)
			least = i;
	return least;
}

/* Wake that one, which wakes the next once it has gone: of all but one, all would wait again. */
static void wake_first(void)
{
	if (nr_waiting)
		pthread_cond_signal(&waiting[first()]->next);
}

/* Wait for a batch with room, those first that are next in the order of the disk. */
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
	/* what comes now may take longer each than what was before */
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
