// SPDX-License-Identifier: GPL-2.0
/*
 * Leaves time of the disk to other processes. The disk and the elevator take the requests near the
 * head first: while ours keep coming those of others wait, with mq-deadline for half a second. So
 * beside others ours go in batches: the next when one is read, and what others asked for by then.
 */
#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "throttle.h"
#include "room.h"

#define MS 1000000ULL
#define BATCH 24			/* requests */
#define WAIT (50 * MS)			/* limit of the time for requests of others */
#define FIRST (60 * MS)			/* at the beginning others count as present so long */
#define HOLD (1500 * MS)		/* once seen, they do so long; then it looks again */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;
static const struct disk *disk;
static struct shared *shared;
static u32 threads, admitted, full;	/* that read; requests of this batch; the next is not of it */
static u64 looked, present;		/* last look at others; they count as present until then */
static int64_t others = INT64_MAX;	/* sectors that others had read by then, at most */
static int64_t at_first;		/* the same of any disks, at the beginning */

/* Return: a number in a file of a process, whose number @file has up to twice; 0: not known. */
static long long number_of(pid_t pid, const char *file, const char *format)
{
	long long number = 0;
	char path[60];

	snprintf(path, sizeof(path), file, pid, pid);
	room_scan(path, format, &number);
	return number;
}

/* Return: sectors that a process has read. */
static int64_t read_by(pid_t pid)
{
	return number_of(pid, "/proc/%d/io", "%*s%*s%*s%*s%*s%*s%*s%*s read_bytes: %lld") / 512;
}

/* Return: what processes have read that are neither btrfs, in its session, nor of our pipeline. */
static int64_t read_by_others(void)
{
	glob_t processes = { 0 };
	int64_t sum = 0;
	size_t i;

	glob("/proc/[0-9]*", GLOB_NOSORT, NULL, &processes);
	for (i = 0; i < processes.gl_pathc; i++) {
		pid_t pid = atoi(processes.gl_pathv[i] + strlen("/proc/"));
		/* a btrfs of the other end may lead a session, but its parent is of our pipeline */
		pid_t parent = number_of(getsid(pid), "/proc/%d/stat", "%*d (btrfs) %*c %lld") ? : -1;

		if (getsid(pid) != shared->sender && getpgid(pid) != getpgrp() &&
		    getpgid(parent) != getpgrp())
			sum += read_by(pid);
	}
	globfree(&processes);
	return sum;
}

/*
 * Return: sectors that the disks have read for others, less what btrfs, or a child that sends for it,
 * has under way. Set @waiting to the read requests under way, but for one that btrfs waits for.
 */
static int64_t count(int *waiting)
{
	pid_t btrfs = shared->alone ? 0 : shared->sender;
	pid_t child = number_of(btrfs, "/proc/%d/task/%d/children", "%lld");
	int64_t sectors = disk_reads(disk, waiting);

	sectors -= read_by(getpid()) + read_by(btrfs) + read_by(child);
	/* its parent's number, if it waits for a disk */
	*waiting -= number_of(child ? child : btrfs, "/proc/%d/stat", "%*d (%*[^)]) D %lld") > 0;
	return sectors;
}

int64_t throttle_reads(void)
{
	return disk ? count(&(int) { 0 }) : 0;
}

void throttle_init(const struct disk *of, struct shared *with)
{
	if (access("/proc/self/io", R_OK) || number_of(0, "/proc/self/stat", "%lld") != getpid())
		return;
	disk = of;
	shared = with;
	at_first = read_by_others();
	present = now_ns() + FIRST;
}

/* No request of ours is under way: have others read? While they are present, let theirs be done. */
static void look(void)
{
	u64 now = now_ns(), end = now + (now < present ? WAIT : 0);
	int64_t sectors;
	int waiting;

	while (sectors = count(&waiting), waiting > 0 && now_ns() < end && !shared_over())
		usleep(500);
	looked = now_ns();
	if (sectors > others ||
	    (looked >= present && at_first < INT64_MAX && read_by_others() > at_first)) {
		present = looked + HOLD;
		others = at_first = INT64_MAX;
		shared->stats.others++;
	}
	if (looked >= present)
		at_first = INT64_MAX;
	/* what btrfs has under way adds to the sectors later: a node for each request, as a rule */
	if (others == INT64_MAX)
		others = sectors + (waiting + 1) * disk->nodesize / 512;
}

/* Is the batch complete? While others are not seen, it is after a long time. */
static int is_full(u32 requests)
{
	return now_ns() < present ? admitted + requests > BATCH :
		looked < present || now_ns() - looked >= HOLD;
}

void throttle_enter(u32 requests)
{
	pthread_mutex_lock(&lock);
	while (disk && (full |= is_full(requests)) && threads)
		pthread_cond_wait(&change, &lock);
	if (full) {
		look();
		full = admitted = 0;
	}
	threads++;
	admitted += requests;
	pthread_mutex_unlock(&lock);
}

void throttle_leave(void)
{
	pthread_mutex_lock(&lock);
	if (!--threads)
		pthread_cond_broadcast(&change);
	pthread_mutex_unlock(&lock);
}
