/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the process that hands the stream through and the one that reads ahead tell
 * each other: memory that both see.
 */
#ifndef SENDAHEAD_SHARED_H
#define SENDAHEAD_SHARED_H

#include <stdatomic.h>
#include <sys/types.h>

#include "stream.h"

#define MAX_THREADS 128

/* Counted by the process that reads ahead. */
struct stats {
	atomic_ullong nodes, leaves, leaves_failed, leaves_passed, windows;
	atomic_ullong paths;	/* looked up for a receive */
	atomic_ullong extents, data_bytes, data_passed_bytes, dropped_bytes, files_failed;
	atomic_ullong planned_bytes, planned_leaves;	/* of the subvolume, up to this window */
	atomic_uint planned_all;			/* which is the last */
	atomic_ullong others;				/* how often they were seen at the disk */
	atomic_uint threads;
	atomic_ullong window_bytes;
	char why[200];		/* it gave up, or nothing */
};

struct shared {
	atomic_uint changes;	/* a futex: something below is new */
	atomic_uint begun;	/* as in struct told */
	atomic_ullong data, ino, stream_bytes;
	atomic_ullong awaited_data, awaited_ino;	/* as for shared_wait(); NONE, 0: nothing */
	atomic_ullong waited;	/* nanoseconds, for whoever takes the stream */
	atomic_uint awaits_news;	/* somebody waits for shared_tell_news() */
	atomic_uint shown;	/* there is progress on the terminal */
	atomic_uint over;	/* the stream has ended, or cannot be followed */
	atomic_int sender;	/* the process that sends */
	atomic_uint alone;	/* there is none: nothing waits for it, or is behind it */
	/* Of the subvolume that has begun last. */
	struct told told;
	struct stats stats;
};

/* Make the memory. Return: it, or NULL. It is also the one of all calls below. */
struct shared *shared_init(void);

/* Tell what the stream says, which has @bytes by now. */
void shared_tell(const struct told *told, u64 bytes);
/* So many nanoseconds passed until the next bytes were taken. */
void shared_tell_waited(u64 ns);
/* Which process sends. */
void shared_tell_sender(pid_t pid);
/* It has ended, or cannot be followed. */
void shared_tell_over(void);

/* More has come, for who may wait for that. */
void shared_tell_news(void);

/*
 * Wait until this number, of which shared_tell_news() tells, is not @seen, or the stream ends; at
 * most so many nanoseconds, 0: for ever.
 */
void shared_wait_news(const atomic_ullong *number, u64 seen, u64 ns);

/* Is it of no use to go on? */
int shared_over(void);

/* Wait so many nanoseconds, or until the stream ends. */
void shared_pause(u64 ns);

/**
 * shared_begun() - what the stream has told of a subvolume
 * @subvolume: its number in the stream, from 1
 * @told: set to that
 *
 * Return: 1, or 0 if the stream is not there now
 */
int shared_begun(u32 subvolume, struct told *told);

/* The same, waiting for it. Return: 0, or -1 if the stream is past it, or over. */
int shared_told(u32 subvolume, struct told *told);

/**
 * shared_wait() - wait for the send
 * @subvolume: the number of the subvolume in the stream, from 1
 * @data: wait until so many bytes of its file data are in the stream,
 * @ino: or this inode has been made, if not 0
 *
 * Return: 0, or -1 if the send is past this subvolume or over
 */
int shared_wait(u32 subvolume, u64 data, u64 ino);

/* Is the send past this place? As above, without waiting. */
int shared_passed(u32 subvolume, u64 data, u64 ino);

#endif
