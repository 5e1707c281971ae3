/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Timing model of a disk drive: given the state of the drive and the commands
 * it was sent, which one is served next and when does it finish.
 *
 * There is no clock, no I/O, no lock and no allocation in here: the caller
 * brings the time, serialises the calls and completes the commands. All times
 * are nanoseconds on the caller's clock, all addresses 512-byte sectors.
 */
#ifndef ROTDISK_MODEL_H
#define ROTDISK_MODEL_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdbool.h>
#include <stddef.h>
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;
#endif

#define ROTDISK_MAX_DEPTH	32	/* queued commands */
#define ROTDISK_MAX_ZONES	16	/* groups of tracks of one length */
#define ROTDISK_MAX_POINTS	24	/* rows of a measured seek table */
#define ROTDISK_MAX_SEGMENTS	32	/* read-ahead segments of the buffer */
#define ROTDISK_MAX_DIRTY	128	/* extents waiting in the write cache */
#define ROTDISK_MAX_CHANNELS	64	/* parallel units of a flash drive */
#define ROTDISK_PROFILE_MAX	4096	/* bytes of a profile's text */

/**
 * struct rotdisk_zone - cylinders whose tracks have the same length
 * @cylinders: how many
 * @sectors: sectors of one track
 */
struct rotdisk_zone {
	u32 cylinders;
	u32 sectors;
};

/**
 * struct rotdisk_point - one row of a measured seek table
 * @cylinders: distance
 * @ns: time to seek it, settling included
 */
struct rotdisk_point {
	u32 cylinders;
	u32 ns;
};

/**
 * struct rotdisk_profile - the parameters of a drive
 * @rotational: an actuator over turning platters, otherwise flash
 * @write_cache: the drive acknowledges writes from a volatile cache
 * @queue_depth: commands it accepts at once, 1 to 32
 * @capacity_sectors: its size
 * @overhead_ns: controller time a command takes before anything else happens
 * @interface_rate: bytes a second between the buffer and the host
 * @write_cache_bytes: room for dirty data, 0 without a write-back cache
 *
 * With an actuator:
 * @rpm: revolutions a minute
 * @heads: recording surfaces
 * @head_switch_ns: time to change to another head of the same cylinder
 * @write_settle_ns: time a write's seek or head switch takes longer
 * @seek_base_ns: square-root curve, constant part
 * @seek_sqrt_ns: square-root curve, times the root of the distance
 * @nr_points: rows of the measured seek table, 0 if the curve is used
 * @points: the measured seek table, ascending
 * @nr_zones: number of zones
 * @zones: the zones, outermost first
 * @age_limit_ns: a command older than this is served before all younger ones
 * @segments: read-ahead segments
 * @segment_sectors: size of a segment
 * @readahead_sectors: how far the drive reads on after the last sector asked
 * @destage_idle_ns: idle time before the cache is written back unasked
 *
 * Without:
 * @channels: operations in progress at once
 * @channel_rate: bytes a second of one channel
 * @write_rate: bytes a second of all channels together, for writes
 * @read_latency_ns: time a read takes apart from its transfer
 * @write_latency_ns: time a write takes apart from its transfer
 * @flush_latency_ns: time a flush or the FUA part of a write takes
 * @iops_limit: operations a second the drive accepts, 0 for no limit
 */
struct rotdisk_profile {
	bool rotational;
	bool write_cache;
	u32 queue_depth;
	u64 capacity_sectors;
	u32 overhead_ns;
	u64 interface_rate;
	u64 write_cache_bytes;

	u32 rpm;
	u32 heads;
	u32 head_switch_ns;
	u32 write_settle_ns;
	u32 seek_base_ns;
	u32 seek_sqrt_ns;
	u32 nr_points;
	struct rotdisk_point points[ROTDISK_MAX_POINTS];
	u32 nr_zones;
	struct rotdisk_zone zones[ROTDISK_MAX_ZONES];
	u64 age_limit_ns;
	u32 segments;
	u32 segment_sectors;
	u32 readahead_sectors;
	u64 destage_idle_ns;

	u32 channels;
	u64 channel_rate;
	u64 write_rate;
	u64 read_latency_ns;
	u64 write_latency_ns;
	u64 flush_latency_ns;
	u32 iops_limit;
};

/* A place on the medium, see model.c; private to the model. */
struct rotdisk_place {
	u64 pos;
	u32 cylinder;
	u32 head;
	u32 angle;
};

enum rotdisk_op {
	ROTDISK_READ,
	ROTDISK_WRITE,
	ROTDISK_FLUSH,
};

/**
 * struct rotdisk_cmd - one command
 * @lba: first sector; ignored for a flush
 * @sectors: length; ignored for a flush
 * @op: what to do
 * @fua: a write must be on the medium before it finishes
 * @meta: metadata, for the caller's own accounting only
 * @submit_ns: when the drive got it
 * @finish_ns: when the host gets the answer
 * @seek_ns: part of the service spent on seek or head switch
 * @rotation_ns: part spent waiting for the first sector to come round
 * @transfer_ns: part spent moving data (or, in flash, on the operation)
 * @overhead_ns: part spent in the controller
 * @hit: served by the drive's buffer or cache without moving
 *
 * Up to @meta filled in by the caller, from @submit_ns to @hit by the model.
 * What is left of @finish_ns - @submit_ns is time spent waiting in the queue.
 * The rest is the model's own.
 */
struct rotdisk_cmd {
	u64 lba;
	u32 sectors;
	enum rotdisk_op op;
	bool fua;
	bool meta;

	u64 submit_ns;
	u64 finish_ns;
	u64 seek_ns;
	u64 rotation_ns;
	u64 transfer_ns;
	u64 overhead_ns;
	bool hit;

	/* private: */
	u8 state;
	u64 seq;
	u64 ready_ns;
	struct rotdisk_place place;
	u64 end;
};

/* Derived from struct rotdisk_zone, private to the model. */
struct rotdisk_zone_map {
	u64 lba;		/* first sector */
	u64 pos;		/* its position, see model.c */
	u64 cylinder_ns;	/* position advances this much a cylinder */
	u32 cylinder;		/* first cylinder */
	u32 sectors;		/* sectors of a track */
	u32 cylinder_sectors;	/* sectors of a cylinder */
};

/* What a read-ahead segment holds, as positions; private to the model. */
struct rotdisk_segment {
	u64 start;
	u64 end;
	u64 used;		/* for least recently used */
};

/* An extent of dirty data in the write cache; private to the model. */
struct rotdisk_dirty {
	u64 lba;
	u64 seq;
	u32 sectors;
	struct rotdisk_place place;
	u64 end;
};

/**
 * struct rotdisk_model - the state of a drive; all of it is private
 *
 * Some 10 KiB: embed it or allocate it, never put it on a kernel stack.
 */
struct rotdisk_model {
	/* private: */
	struct rotdisk_profile p;
	bool in_order;			/* serve by submission, for the floor */
	u64 now_ns;
	u64 seq;
	u32 nr_cmds;
	struct rotdisk_cmd *cmds[ROTDISK_MAX_DEPTH];
	u64 controller_ns;		/* controller is busy until then */
	u64 bus_ns;			/* interface is busy until then */

	u32 rev_ns;
	u32 head_skew_ns;
	struct rotdisk_zone_map zones[ROTDISK_MAX_ZONES];
	u64 actuator_ns;		/* actuator is busy until then */
	s32 segment;			/* segment the head reads into, or -1 */
	u64 head_pos;			/* head is at this position ... */
	u64 head_ns;			/* ... at this time, and moves on ... */
	u64 head_limit;			/* ... up to this position */
	struct rotdisk_segment segments[ROTDISK_MAX_SEGMENTS];
	u32 nr_dirty;
	u32 nr_flushes;
	u32 nr_blocked;
	bool destaging;			/* the actuator is writing dirty[0] */
	u64 dirty_bytes;
	u64 idle_ns;			/* last time a command needed it */
	struct rotdisk_dirty dirty[ROTDISK_MAX_DIRTY];

	u64 channel_ns[ROTDISK_MAX_CHANNELS];
	u64 iops_ns;
	u64 written_ns;			/* last write is done by then */
};

/**
 * rotdisk_profile_parse - read the text of a profile
 * @p: filled in
 * @text: lines of key=value; '#' starts a comment, empty lines are ignored
 * @len: bytes of @text, which need not end in a zero byte
 * @err: gets a message of one line if the profile is not valid, else ""
 * @err_len: size of @err
 *
 * Return: 0 or -EINVAL. May be called in any context.
 */
int rotdisk_profile_parse(struct rotdisk_profile *p, const char *text,
			  size_t len, char *err, size_t err_len);

/**
 * rotdisk_model_init - a drive that was just switched on, at time 0
 * @m: the drive
 * @p: a profile rotdisk_profile_parse() accepted; copied. The caller may have
 *     made @capacity_sectors or @queue_depth smaller.
 *
 * Return: 0, or -EINVAL if the profile cannot be right.
 */
int rotdisk_model_init(struct rotdisk_model *m,
		       const struct rotdisk_profile *p);

/**
 * rotdisk_model_submit - hand a command to the drive
 * @m: the drive
 * @cmd: the command; belongs to the model until rotdisk_model_advance()
 *       returns it
 * @now_ns: the time, never less than in an earlier call
 *
 * The caller keeps at most queue_depth commands unfinished, and serialises the
 * calls for one drive. Never sleeps, allocates or fails.
 */
void rotdisk_model_submit(struct rotdisk_model *m, struct rotdisk_cmd *cmd,
			  u64 now_ns);

/**
 * rotdisk_model_next_event - when something happens next
 * @m: the drive
 *
 * Background write-back is such an event too, so a drive may have events
 * without having commands.
 *
 * Return: when to call rotdisk_model_advance() again, at the latest; U64_MAX
 * if nothing is pending. It may lie in the past.
 */
u64 rotdisk_model_next_event(const struct rotdisk_model *m);

/**
 * rotdisk_model_advance - let the drive work until a time
 * @m: the drive
 * @now_ns: the time, never less than in an earlier call
 *
 * To be called until it returns %NULL.
 *
 * Return: the next command that finished at or before @now_ns, in the order
 * of finish_ns, else %NULL.
 */
struct rotdisk_cmd *rotdisk_model_advance(struct rotdisk_model *m, u64 now_ns);

/* Commands are counted by class. */
enum rotdisk_class {
	ROTDISK_READ_META,
	ROTDISK_READ_DATA,
	ROTDISK_WRITE_META,
	ROTDISK_WRITE_DATA,
	ROTDISK_FLUSHES,
	ROTDISK_CLASSES,
};

extern const char * const rotdisk_class_names[ROTDISK_CLASSES];

struct rotdisk_counters {
	u64 requests;
	u64 sectors;
	u64 hits;
	u64 seek_ns;
	u64 rotation_ns;
	u64 transfer_ns;
	u64 wait_ns;
};

/**
 * rotdisk_count - add a finished command to the counters of its class
 * @counters: of each class
 * @cmd: the command, with the times of the model
 */
void rotdisk_count(struct rotdisk_counters counters[ROTDISK_CLASSES],
		   const struct rotdisk_cmd *cmd);

#endif /* ROTDISK_MODEL_H */
