/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The memory that the process which hands the stream on and the reader share.
 */
#ifndef SENDAHEAD_SHARED_H
#define SENDAHEAD_SHARED_H

#include <stdatomic.h>
#include <sys/types.h>

#include "stream.h"

#define MAX_THREADS 128
#define DISKS 16		/* that are told apart in reports */

/* Counts of the reader, for reports. */
struct stats {
	atomic_ullong nodes, leaves, leaves_failed, windows;
	/* of a receive: its buffer, commands that were folded, paths that were looked up */
	atomic_ullong buffer_bytes, renames_saved, paths;
	atomic_ullong extents, data_bytes, data_passed_bytes, dropped_bytes, files_failed;
	/* of the subvolume, up to the end of the present window, */
	atomic_ullong planned_bytes, planned_leaves;
	atomic_uint planned_all;	/* which is the last one */
	atomic_ullong others;	/* how often other processes were seen to use the disk */
	atomic_uint disks;
	atomic_ullong disk_bytes[DISKS];	/* that each has read, for anybody */
	atomic_uint threads;	/* for each disk */
	atomic_ullong window_bytes;
	char why[200];		/* why it gave up, or an empty string */
};

struct shared {
	atomic_uint changes;	/* a futex, incremented when something below changes */
	atomic_uint begun;	/* as in struct told */
	atomic_ullong data, ino, stream_bytes;
	atomic_uint shown;	/* the progress is on the terminal */
	atomic_uint over;	/* the stream has ended, or cannot be followed */
	atomic_int sender;	/* the process that runs btrfs */
	atomic_uint alone;	/* no btrfs runs: nothing waits for its progress */
	/* the subvolume that has begun last */
	struct told told;
	struct stats stats;
};

/* Make the memory that all functions below use. Return: it, or NULL. */
struct shared *shared_init(void);

/* Tell what is known from the stream, and how many bytes it has so far. */
void shared_tell(const struct told *told, u64 bytes);
/* Tell which process runs btrfs. */
void shared_tell_sender(pid_t pid);
/* Tell that the stream has ended, or cannot be followed. */
void shared_tell_over(void);

/* Tell that something else has changed that the reader waits for. */
void shared_tell_change(void);

/* Return: a number that changes with each shared_tell...(). */
u32 shared_changes(void);

/* Wait until that number is not @changes any more; at most @ns nanoseconds, 0: without limit. */
void shared_await(u32 changes, u64 ns);

/* Return: whether the stream has ended or cannot be followed. */
int shared_over(void);

/**
 * shared_begun() - what is known from the stream of its present subvolume
 * @subvolume: number of the subvolume in the stream, from 1
 * @told: set to what is known
 *
 * Return: 1, or 0 if the stream is at another subvolume
 */
int shared_begun(u32 subvolume, struct told *told);

/**
 * shared_wait() - wait for the send
 * @subvolume: the number of the subvolume in the stream, from 1
 * @data: wait until it has begun, and so many bytes of its file data are in the stream,
 * @ino: or this inode has been made, if not 0; if both are 0 nothing is waited for
 *
 * Return: 0, or -1 if the subvolume or the send is over
 */
int shared_wait(u32 subvolume, u64 data, u64 ino);

/* Return: whether the send has come so far; arguments as of shared_wait(). */
int shared_passed(u32 subvolume, u64 data, u64 ino);

#endif
