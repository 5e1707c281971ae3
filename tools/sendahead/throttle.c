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
 * Others are seen between two batches, if the disks have transferred more sectors than we and the
 * send have asked for. At the beginning others are assumed to be there, and for a second longer if
 * any process has read or written any disk meanwhile. While no others are seen, the disk is kept as
 * busy as possible, but for a look now and then.
 */
#include <dirent.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "throttle.h"
#include "room.h"

#define MS 1000000ULL
#define BATCH (54 * MS)			/* time of the disk for one batch */
#define ADMIT (BATCH / 6)		/* requests that come later go into the next batch */
#define START 16			/* requests of the first batch, */
#define LEAST 4				/* and the fewest of any */
#define LOOK_ALONE (1500 * MS)		/* between two looks while no others are seen */
#define HOLD (1000 * MS)		/* others count as present so long after seen */
#define FIRST (80 * MS)			/* the same after the first look */
#define AHEAD 256			/* sectors that the send may have under way */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;
static const struct disk *disk;
static struct shared *shared;
static int receives;
static int asked;			/* others count as present: batches are made */
static int pausing;			/* no request is admitted for the moment */
static u32 under_way, admitted;		/* requests of this batch */
static u32 size = START;		/* limit of requests of a batch */
static int full;			/* a request did not fit into this batch */
static u64 begun;			/* when the batch began */
static u64 looked;			/* when others were last looked for, 0: never */
static u64 present;			/* others count as present until then */
static int64_t others;			/* sectors of others so far */
static int64_t by_others;		/* the same on all disks, at the first look */
static int begins;			/* the time after the first look is not over */
static pid_t child;			/* a child of btrfs that sends for it, or 0 */

/* Return: the sectors that a process has read, or read and written; below 0: not known. */
static int64_t used_by(pid_t pid, int written)
{
	long long r = -512, w = 0;
	char path[40];

	snprintf(path, sizeof(path), "/proc/%d/io", (int)pid);
	room_scan(path, "rchar: %*s wchar: %*s syscr: %*s syscw: %*s read_bytes: %lld "
		  "write_bytes: %lld", &r, &w);
	return (r + (written ? w : 0)) / 512;
}

/* The counts of all disks together. */
struct done {
	int64_t requests, read, written, under_way;
};

static struct done count(void)
{
	struct done done = { 0 };
	size_t i, k;

	for (i = 0; i < disk->nr_devices; i++) {
		long long r[2] = { 0 }, w[2] = { 0 }, n = 0;
		char path[PATH_MAX];

		/* two devices may be on the same disk */
		for (k = 0; disk->devices[k].head != disk->devices[i].head; k++)
			;
		snprintf(path, sizeof(path), "%s/stat", disk->devices[i].path ? : "");
		if (k == i)
			room_scan(path, "%lld %*s %lld %*s %lld %*s %lld %*s %lld", &r[0], &r[1],
				  &w[0], &w[1], &n);
		done.requests += r[0] + w[0];
		done.read += r[1];
		done.written += w[1];
		done.under_way += n;
	}
	return done;
}

/* Return: what processes other than us and our pipeline have used of all disks. Finds @child. */
static int64_t scan(void)
{
	pid_t sender = atomic_load(&shared->sender), pid;
	struct dirent *entry;
	DIR *proc = opendir("/proc");
	int64_t sum = 0, sectors;

	while (proc && !shared_over() && (entry = readdir(proc))) {
		pid = atoi(entry->d_name);
		if (pid <= 0 || pid == sender)
			continue;
		sectors = used_by(pid, !receives);
		if (sender && getsid(pid) == sender)
			child = pid;
		/* the shell has started this group with us, as the other end of the pipe */
		else if (sectors > 0 && getpgid(pid) != getpgrp())
			sum += sectors;
	}
	if (proc)
		closedir(proc);
	return sum;
}

/* Return: sectors of a count that are neither ours nor of the send; 0: not known. */
static int64_t of_others(int64_t sectors)
{
	int64_t ours = used_by(getpid(), 0), sent = shared->alone ? 0 : used_by(shared->sender, 0);
	int64_t by_child = child ? used_by(child, 0) : 0;

	return ours < 0 || sent < 0 ? 0 : sectors - ours - sent - (by_child > 0 ? by_child : 0);
}

int64_t throttle_reads(void)
{
	return disk ? of_others(count().read) : 0;
}

void throttle_init(const struct disk *of, struct shared *with, int for_receive)
{
	if (used_by(getpid(), 0) < 0)
		return;
	disk = of;
	shared = with;
	receives = for_receive;
	asked = 1;
}

/*
 * No request of ours is under way. Wait until the disks have completed as many requests as are under
 * way now, of others or of the send, and, but for the first time, until at most one is left, which
 * may be the send's. Set @least and @most to bounds of the sectors of others: what the send has under
 * way, about a block for each request, was subtracted, but the disks count it only when it is
 * complete.
 */
static void give_way(int64_t *least, int64_t *most)
{
	struct done before = count(), done = before;
	u64 end = now_ns() + (begins ? BATCH / 2 : 2 * BATCH);
	int64_t now;

	*least = INT64_MIN;
	*most = INT64_MAX;
	for (;;) {
		now = of_others(done.read + (receives ? 0 : done.written));
		*least = now > *least ? now : *least;
		now += done.under_way * disk->nodesize / 512;
		*most = now < *most ? now : *most;
		if ((done.requests >= before.requests + before.under_way &&
		     (done.under_way < 2 || !looked)) ||
		    !done.under_way || now_ns() > end || shared_over())
			return;
		usleep(500);
		done = count();
	}
}

/*
 * Have others used the disks? Then the lower bound rises over the bounds so far. But so it does by
 * what the send has had under way at these, so another process must have used a disk, too. The rise
 * is enough if it is more than that. Just after the first look, the process is.
 */
static void look(void)
{
	int64_t least, most, by = 0;
	int first = !looked, over;
	pid_t known = child;

	give_way(&least, &most);
	looked = now_ns();
	over = begins && looked >= present;
	if (first || over || least > others) {
		by = scan();
		/* what a new child has read so far is not that of others: begin anew */
		first |= child != known;
	}
	if (first) {
		present = looked + FIRST;
		others = most;
		by_others = by;
		begins = 1;
	} else if (over || !begins) {
		int seen = by > by_others || least > others + AHEAD;

		begins = 0;
		if (seen)
			present = looked + HOLD;
		if (seen && least > others)
			shared->stats.others++;
		if (by)
			by_others = by;
		if (least > others)
			others = least;
	}
	asked = looked < present;
}

void throttle_begin(void)
{
	pthread_mutex_lock(&lock);
	size = LEAST;
	pthread_mutex_unlock(&lock);
}

void throttle_enter(u32 requests)
{
	pthread_mutex_lock(&lock);
	while (pausing || (asked && under_way &&
			   (admitted + requests > size || now_ns() - begun >= ADMIT))) {
		full = 1;
		pthread_cond_wait(&change, &lock);
	}
	if (!under_way++) {
		begun = now_ns();
		admitted = full = 0;
	}
	admitted += requests;
	pthread_mutex_unlock(&lock);
}

/* No request of ours is under way. A full batch tells how many requests fit into its time. */
static void end_batch(void)
{
	u64 took = now_ns() - begun;

	if (asked && full && took)
		size = admitted * min_u64(BATCH * 100 / took, 200) / 100;
	if (size < LEAST)
		size = LEAST;
	/* if the batch took no time, nobody has waited for it */
	if (pausing || (asked && (took >= 2 * MS || !looked))) {
		pausing = 1;
		pthread_mutex_unlock(&lock);
		look();
		pthread_mutex_lock(&lock);
	}
	pausing = 0;
	pthread_cond_broadcast(&change);
}

void throttle_leave(void)
{
	pthread_mutex_lock(&lock);
	if (!--under_way)
		end_batch();
	else if (looked && now_ns() - looked >= LOOK_ALONE)
		pausing = 1;
	pthread_mutex_unlock(&lock);
}
