// SPDX-License-Identifier: GPL-2.0
/*
 * Timing model of a disk drive, see model.h.
 *
 * One idea carries the mechanics: the *position* of a sector is the time it
 * takes to read from sector 0 of the drive to it in one go, track and cylinder
 * switches included. A switch takes as long as the skew between the tracks, so
 *
 *  - reading from one sector to another without a seek takes the difference of
 *    their positions;
 *  - position modulo revolution is the angle of a sector, and the platter is
 *    at angle (time modulo revolution): a head on the right track sees a
 *    sector whenever both are equal;
 *  - what a head that keeps reading has in its buffer at some time is a
 *    comparison of positions, so reading ahead needs no events.
 *
 * Commands go through the controller one after another, then they are answered
 * from the buffer, or queue for the actuator. Whenever the actuator is free it
 * takes the command that it can position for in the shortest time, unless one
 * has waited longer than the age limit.
 */
#include "model.h"

#ifdef __KERNEL__
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/string.h>
#else
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define U64_MAX			(~0ULL)
#define __printf(a, b)
#define ARRAY_SIZE(a)		(sizeof(a) / sizeof((a)[0]))
#define min_t(type, a, b)	({ type x = (a), y = (b); x < y ? x : y; })
#define max_t(type, a, b)	({ type x = (a), y = (b); x > y ? x : y; })
#define min(a, b)		min_t(typeof(a), a, b)
#define max(a, b)		max_t(typeof(a), a, b)

static u64 div_u64_rem(u64 dividend, u32 divisor, u32 *remainder)
{
	*remainder = dividend % divisor;
	return dividend / divisor;
}

static u64 div_u64(u64 dividend, u32 divisor)
{
	return dividend / divisor;
}

static u64 div64_u64_rem(u64 dividend, u64 divisor, u64 *remainder)
{
	*remainder = dividend % divisor;
	return dividend / divisor;
}

static u64 div64_u64(u64 dividend, u64 divisor)
{
	return dividend / divisor;
}

static u32 int_sqrt64(u64 x)
{
	u64 root = 0;
	u64 bit = 1ULL << 62;

	while (bit > x)
		bit >>= 2;
	for (; bit; bit >>= 2) {
		if (x >= root + bit) {
			x -= root + bit;
			root = (root >> 1) + bit;
		} else {
			root >>= 1;
		}
	}
	return root;
}
#endif

#define ROTDISK_NSEC	1000000000ULL

/* Dirty extents grow by appended writes up to this size, in sectors. */
#define ROTDISK_EXTENT	2048

enum rotdisk_state {
	ROTDISK_DECODING,	/* in the controller until ready_ns */
	ROTDISK_QUEUED,		/* waits for the actuator */
	ROTDISK_BLOCKED,	/* write that waits for room in the cache */
	ROTDISK_FLUSHING,	/* flush that waits for the cache */
	ROTDISK_DONE,		/* finish_ns is known */
};

/* How the actuator gets to a command. */
struct rotdisk_move {
	u64 seek_ns;
	u64 rotation_ns;
	bool stream;		/* the head is reading towards it already */
};

static u32 rotdisk_angle(const struct rotdisk_model *m, u64 ns)
{
	u32 angle;

	div_u64_rem(ns, m->rev_ns, &angle);
	return angle;
}

/* Time @bytes take at @rate bytes a second. */
static u64 rotdisk_rate_ns(u64 bytes, u64 rate)
{
	u64 rest;
	u64 seconds = div64_u64_rem(bytes, rate, &rest);

	return seconds * ROTDISK_NSEC + div64_u64(rest * ROTDISK_NSEC, rate);
}

static u64 rotdisk_bytes(const struct rotdisk_cmd *cmd)
{
	return (u64)cmd->sectors << 9;
}

static u64 rotdisk_bus_ns(const struct rotdisk_model *m,
			  const struct rotdisk_cmd *cmd)
{
	return rotdisk_rate_ns(rotdisk_bytes(cmd), m->p.interface_rate);
}

/*
 * Geometry
 */

static void rotdisk_locate(const struct rotdisk_model *m, u64 lba,
			   struct rotdisk_place *place)
{
	const struct rotdisk_zone_map *zone = &m->zones[m->p.nr_zones - 1];
	u32 sector;
	u64 cylinder;

	while (lba < zone->lba)
		zone--;
	cylinder = div_u64_rem(lba - zone->lba, zone->cylinder_sectors,
			       &sector);
	place->cylinder = zone->cylinder + cylinder;
	place->head = sector / zone->sectors;
	sector %= zone->sectors;
	place->pos = zone->pos + cylinder * zone->cylinder_ns +
		     place->head * ((u64)m->rev_ns + m->head_skew_ns) +
		     div_u64((u64)sector * m->rev_ns, zone->sectors);
	place->angle = rotdisk_angle(m, place->pos);
}

/* Position at which the sector before @lba has passed the head. */
static u64 rotdisk_end_pos(const struct rotdisk_model *m, u64 lba)
{
	const struct rotdisk_zone_map *zone = &m->zones[m->p.nr_zones - 1];
	u32 sector, head;
	u64 cylinder;

	if (!lba)
		return 0;
	lba--;
	while (lba < zone->lba)
		zone--;
	cylinder = div_u64_rem(lba - zone->lba, zone->cylinder_sectors,
			       &sector);
	head = sector / zone->sectors;
	sector = sector % zone->sectors + 1;
	return zone->pos + cylinder * zone->cylinder_ns +
	       head * ((u64)m->rev_ns + m->head_skew_ns) +
	       div_u64((u64)sector * m->rev_ns, zone->sectors);
}

/* The track the head is over when it has read up to position @pos. */
static void rotdisk_track_at(const struct rotdisk_model *m, u64 pos,
			     struct rotdisk_place *place)
{
	const struct rotdisk_zone_map *zone = &m->zones[m->p.nr_zones - 1];
	u64 rest;

	while (pos < zone->pos)
		zone--;
	place->pos = pos;
	place->cylinder = zone->cylinder +
			  div64_u64_rem(pos - zone->pos, zone->cylinder_ns,
					&rest);
	place->head = min_t(u64, m->p.heads - 1,
			    div64_u64(rest, (u64)m->rev_ns + m->head_skew_ns));
	place->angle = rotdisk_angle(m, pos);
}

/*
 * Positioning
 */

static u64 rotdisk_seek_table(const struct rotdisk_profile *p, u32 distance)
{
	const struct rotdisk_point *a = p->points;
	const struct rotdisk_point *last = a + p->nr_points - 1;

	if (distance <= a->cylinders)
		return a->ns;
	if (distance >= last->cylinders)
		return last->ns;
	while (distance >= a[1].cylinders)
		a++;
	return a->ns + div_u64((u64)(a[1].ns - a->ns) *
			       (distance - a->cylinders),
			       a[1].cylinders - a->cylinders);
}

static u64 rotdisk_seek_ns(const struct rotdisk_profile *p, u32 distance)
{
	if (!distance)
		return 0;
	if (p->nr_points)
		return rotdisk_seek_table(p, distance);
	return p->seek_base_ns +
	       int_sqrt64((u64)p->seek_sqrt_ns * p->seek_sqrt_ns * distance);
}

/* Time to get from one track to another, ready to read or write. */
static u64 rotdisk_travel_ns(const struct rotdisk_model *m,
			     const struct rotdisk_place *from,
			     const struct rotdisk_place *to, bool write)
{
	u32 distance = max(from->cylinder, to->cylinder) -
		       min(from->cylinder, to->cylinder);
	u64 ns = rotdisk_seek_ns(&m->p, distance);

	if (from->head != to->head)
		ns = max_t(u64, ns, m->p.head_switch_ns);
	else if (!distance)
		return 0;
	return ns + (write ? m->p.write_settle_ns : 0);
}

/* How far the head has read at time @t. */
static u64 rotdisk_front(const struct rotdisk_model *m, u64 t)
{
	if (t <= m->head_ns)
		return m->head_pos;
	return min(m->head_limit, m->head_pos + (t - m->head_ns));
}

/* Does the head read into a segment at time @t, or go there to do so? */
static bool rotdisk_reading(const struct rotdisk_model *m, u64 t)
{
	return m->segment >= 0 &&
	       (t <= m->head_ns ||
		m->head_pos + (t - m->head_ns) <= m->head_limit);
}

/* How the actuator, over @from at time @t, gets to @to. */
static struct rotdisk_move rotdisk_move(const struct rotdisk_model *m, u64 t,
					const struct rotdisk_place *from,
					const struct rotdisk_place *to,
					enum rotdisk_op op)
{
	struct rotdisk_move move = {};
	u32 angle;
	u64 wait;

	move.seek_ns = rotdisk_travel_ns(m, from, to, op == ROTDISK_WRITE);
	angle = rotdisk_angle(m, t + move.seek_ns);
	move.rotation_ns = to->angle - angle;
	if (to->angle < angle)
		move.rotation_ns = m->rev_ns - (angle - to->angle);

	/* Or it just goes on reading, through a short gap, too. */
	if (op != ROTDISK_READ || !rotdisk_reading(m, t) ||
	    to->pos > m->head_limit ||
	    to->pos < m->segments[m->segment].start)
		return move;
	wait = t < m->head_ns ? m->head_ns - t : 0;
	if (to->pos > from->pos)
		wait += to->pos - from->pos;
	if (wait <= move.seek_ns + move.rotation_ns) {
		move.seek_ns = 0;
		move.rotation_ns = wait;
		move.stream = true;
	}
	return move;
}

/*
 * Read-ahead segments
 */

/* Let the head read on to @lba; the buffer forgets what no longer fits. */
static void rotdisk_read_on(struct rotdisk_model *m, u64 lba)
{
	struct rotdisk_segment *seg = &m->segments[m->segment];
	struct rotdisk_place oldest;

	lba = min(lba, m->p.capacity_sectors);
	m->head_limit = max(m->head_limit, rotdisk_end_pos(m, lba));
	if (lba > m->p.segment_sectors) {
		rotdisk_locate(m, lba - m->p.segment_sectors, &oldest);
		seg->start = max(seg->start, oldest.pos);
	}
}

/* The head leaves what it reads: the segment keeps what it has at time @t. */
static void rotdisk_stop_reading(struct rotdisk_model *m, u64 t)
{
	if (m->segment >= 0)
		m->segments[m->segment].end = rotdisk_front(m, t);
	m->segment = -1;
}

/* The head starts to read at position @pos at time @t. */
static void rotdisk_start_reading(struct rotdisk_model *m, s32 segment,
				  u64 pos, u64 t)
{
	m->segment = segment;
	m->head_pos = pos;
	m->head_ns = t;
	m->head_limit = pos;
}

static s32 rotdisk_oldest_segment(const struct rotdisk_model *m)
{
	s32 oldest = -1;
	u32 i;

	for (i = 0; i < m->p.segments; i++)
		if (oldest < 0 ||
		    m->segments[i].used < m->segments[oldest].used)
			oldest = i;
	return oldest;
}

/* The segment that holds all of @cmd at time @t, or -1. */
static s32 rotdisk_find_segment(const struct rotdisk_model *m,
				const struct rotdisk_cmd *cmd, u64 t)
{
	const struct rotdisk_segment *seg = m->segments;
	u32 i;
	u64 end;

	for (i = 0; i < m->p.segments; i++, seg++) {
		end = i == (u32)m->segment ? rotdisk_front(m, t) : seg->end;
		if (cmd->place.pos >= seg->start && cmd->end <= end)
			return i;
	}
	return -1;
}

static bool rotdisk_actuator_wanted(const struct rotdisk_model *m)
{
	u32 i;

	for (i = 0; i < m->nr_cmds; i++)
		if (m->cmds[i]->state == ROTDISK_QUEUED)
			return true;
	return m->destaging || m->nr_flushes || m->nr_blocked;
}

/* A hit in @segment up to sector @lba: keep the read-ahead in front of it. */
static void rotdisk_keep_ahead(struct rotdisk_model *m, s32 segment, u64 lba,
			       u64 t)
{
	struct rotdisk_place from, to;
	struct rotdisk_move move;

	m->segments[segment].used = ++m->seq;
	if (m->segment == segment && rotdisk_reading(m, t)) {
		rotdisk_read_on(m, lba);
		return;
	}
	if (t < m->actuator_ns || rotdisk_actuator_wanted(m))
		return;
	rotdisk_track_at(m, rotdisk_front(m, t), &from);
	rotdisk_stop_reading(m, t);
	if (m->segments[segment].end >=
	    rotdisk_end_pos(m, min(lba, m->p.capacity_sectors)))
		return;
	rotdisk_track_at(m, m->segments[segment].end, &to);
	move = rotdisk_move(m, t, &from, &to, ROTDISK_READ);
	m->actuator_ns = t + move.seek_ns;
	rotdisk_start_reading(m, segment, to.pos,
			      m->actuator_ns + move.rotation_ns);
	rotdisk_read_on(m, lba);
}

/*
 * Write cache
 */

/* Put the data of a write into the cache, if there is room. */
static bool rotdisk_cache_write(struct rotdisk_model *m,
				const struct rotdisk_cmd *cmd)
{
	struct rotdisk_dirty *dirty;
	u32 i;

	for (i = m->destaging; i < m->nr_dirty; i++) {
		dirty = &m->dirty[i];
		if (cmd->lba >= dirty->lba && cmd->lba + cmd->sectors <=
					      dirty->lba + dirty->sectors)
			return true;
	}
	if (m->dirty_bytes + rotdisk_bytes(cmd) > m->p.write_cache_bytes)
		return false;
	for (i = m->destaging; i < m->nr_dirty; i++) {
		dirty = &m->dirty[i];
		if (cmd->lba == dirty->lba + dirty->sectors &&
		    dirty->sectors + cmd->sectors <= ROTDISK_EXTENT) {
			dirty->sectors += cmd->sectors;
			dirty->end = cmd->end;
			m->dirty_bytes += rotdisk_bytes(cmd);
			return true;
		}
	}
	if (m->nr_dirty == ROTDISK_MAX_DIRTY)
		return false;
	dirty = &m->dirty[m->nr_dirty++];
	*dirty = (struct rotdisk_dirty) {
		.lba = cmd->lba,
		.seq = cmd->seq,
		.sectors = cmd->sectors,
		.place = cmd->place,
		.end = cmd->end,
	};
	m->dirty_bytes += rotdisk_bytes(cmd);
	return true;
}

static bool rotdisk_is_dirty(const struct rotdisk_model *m,
			     const struct rotdisk_cmd *cmd)
{
	const struct rotdisk_dirty *dirty;
	u32 i;

	for (i = 0; i < m->nr_dirty; i++) {
		dirty = &m->dirty[i];
		if (cmd->lba >= dirty->lba && cmd->lba + cmd->sectors <=
					      dirty->lba + dirty->sectors)
			return true;
	}
	return false;
}

/* Has everything that was in the cache before @cmd reached the medium? */
static bool rotdisk_flushed(const struct rotdisk_model *m,
			    const struct rotdisk_cmd *cmd)
{
	u32 i;

	for (i = 0; i < m->nr_dirty; i++)
		if (m->dirty[i].seq < cmd->seq)
			return false;
	return true;
}

/* Must the cache be written back even if commands want the actuator? */
static bool rotdisk_must_destage(const struct rotdisk_model *m)
{
	return m->nr_dirty &&
	       (m->nr_flushes || m->nr_blocked ||
		m->nr_dirty > ROTDISK_MAX_DIRTY / 2 ||
		m->dirty_bytes > m->p.write_cache_bytes / 2);
}

/*
 * Commands
 */

static void rotdisk_done(struct rotdisk_cmd *cmd, u64 finish_ns)
{
	cmd->state = ROTDISK_DONE;
	cmd->finish_ns = finish_ns;
}

/* Move the data of a command between host and buffer, nothing else. */
static void rotdisk_serve_from_buffer(struct rotdisk_model *m,
				      struct rotdisk_cmd *cmd, u64 t)
{
	cmd->hit = true;
	cmd->transfer_ns = rotdisk_bus_ns(m, cmd);
	m->bus_ns = max(m->bus_ns, t) + cmd->transfer_ns;
	rotdisk_done(cmd, m->bus_ns);
}

static void rotdisk_decode_read(struct rotdisk_model *m,
				struct rotdisk_cmd *cmd, u64 t)
{
	s32 segment = rotdisk_find_segment(m, cmd, t);

	if (segment >= 0) {
		rotdisk_serve_from_buffer(m, cmd, t);
		rotdisk_keep_ahead(m, segment, cmd->lba + cmd->sectors +
				   m->p.readahead_sectors, t);
	} else if (rotdisk_is_dirty(m, cmd)) {
		rotdisk_serve_from_buffer(m, cmd, t);
	} else {
		cmd->state = ROTDISK_QUEUED;
	}
}

static void rotdisk_decode_write(struct rotdisk_model *m,
				 struct rotdisk_cmd *cmd, u64 t)
{
	if (cmd->fua || rotdisk_bytes(cmd) > m->p.write_cache_bytes) {
		cmd->state = ROTDISK_QUEUED;
	} else if (!m->nr_blocked && rotdisk_cache_write(m, cmd)) {
		rotdisk_serve_from_buffer(m, cmd, t);
	} else {
		cmd->state = ROTDISK_BLOCKED;
		m->nr_blocked++;
	}
}

/* The controller has understood @cmd at time @t. */
static void rotdisk_decode(struct rotdisk_model *m, struct rotdisk_cmd *cmd,
			   u64 t)
{
	if (cmd->op == ROTDISK_FLUSH) {
		if (rotdisk_flushed(m, cmd)) {
			rotdisk_done(cmd, t);
		} else {
			cmd->state = ROTDISK_FLUSHING;
			m->nr_flushes++;
		}
	} else if (!cmd->sectors) {
		rotdisk_done(cmd, t);
	} else if (cmd->op == ROTDISK_READ) {
		rotdisk_decode_read(m, cmd, t);
	} else {
		rotdisk_decode_write(m, cmd, t);
	}
}

/* The actuator goes to @cmd at time @t. */
static void rotdisk_serve_from_medium(struct rotdisk_model *m,
				      struct rotdisk_cmd *cmd,
				      const struct rotdisk_move *move, u64 t)
{
	u64 begin = t + move->seek_ns + move->rotation_ns;
	u64 from = cmd->place.pos;

	if (move->stream) {
		from = max(from, rotdisk_front(m, t));
	} else {
		rotdisk_stop_reading(m, t);
		rotdisk_start_reading(m, -1, from, begin);
		m->head_limit = cmd->end;
		if (cmd->op == ROTDISK_READ)
			m->segment = rotdisk_oldest_segment(m);
		if (m->segment >= 0)
			m->segments[m->segment].start = from;
	}
	if (m->segment >= 0) {
		m->segments[m->segment].used = ++m->seq;
		rotdisk_read_on(m, cmd->lba + cmd->sectors +
				m->p.readahead_sectors);
	}
	m->actuator_ns = begin + (cmd->end - from);
	m->idle_ns = m->actuator_ns;
	cmd->seek_ns = move->seek_ns;
	cmd->rotation_ns = move->rotation_ns;
	rotdisk_done(cmd, max(m->actuator_ns, begin + rotdisk_bus_ns(m, cmd)));
	cmd->transfer_ns = cmd->finish_ns - begin;
}

/* The actuator goes to write back extent @i at time @t. */
static void rotdisk_destage(struct rotdisk_model *m, u32 i,
			    const struct rotdisk_move *move, u64 t)
{
	struct rotdisk_dirty dirty = m->dirty[i];
	u64 begin = t + move->seek_ns + move->rotation_ns;

	m->dirty[i] = m->dirty[0];
	m->dirty[0] = dirty;
	m->destaging = true;
	rotdisk_stop_reading(m, t);
	rotdisk_start_reading(m, -1, dirty.place.pos, begin);
	m->head_limit = dirty.end;
	m->actuator_ns = begin + (dirty.end - dirty.place.pos);
}

/* The oldest command in @state, or NULL. */
static struct rotdisk_cmd *rotdisk_oldest(const struct rotdisk_model *m,
					  enum rotdisk_state state)
{
	struct rotdisk_cmd *oldest = NULL;
	u32 i;

	for (i = 0; i < m->nr_cmds; i++)
		if (m->cmds[i]->state == state &&
		    (!oldest || m->cmds[i]->seq < oldest->seq))
			oldest = m->cmds[i];
	return oldest;
}

/* An extent is on the medium: there is room, and flushes may be done. */
static void rotdisk_destaged(struct rotdisk_model *m, u64 t)
{
	struct rotdisk_cmd *cmd;

	m->dirty_bytes -= (u64)m->dirty[0].sectors << 9;
	m->dirty[0] = m->dirty[--m->nr_dirty];
	m->destaging = false;
	while ((cmd = rotdisk_oldest(m, ROTDISK_BLOCKED)) &&
	       rotdisk_cache_write(m, cmd)) {
		rotdisk_serve_from_buffer(m, cmd, t);
		m->nr_blocked--;
	}
	while ((cmd = rotdisk_oldest(m, ROTDISK_FLUSHING)) &&
	       rotdisk_flushed(m, cmd)) {
		rotdisk_done(cmd, t);
		m->nr_flushes--;
	}
}

/* Something the actuator could do next. */
struct rotdisk_choice {
	struct rotdisk_cmd *cmd;	/* serve this command, or else ... */
	s32 dirty;			/* ... write back this extent, or -1 */
	bool aged;
	u64 seq;
	struct rotdisk_move move;
};

/* Is @a to be served before @b? */
static bool rotdisk_before(const struct rotdisk_choice *a,
			   const struct rotdisk_choice *b)
{
	u64 cost_a = a->move.seek_ns + a->move.rotation_ns;
	u64 cost_b = b->move.seek_ns + b->move.rotation_ns;

	if (!b->cmd && b->dirty < 0)
		return true;
	if (a->aged != b->aged)
		return a->aged;
	if (a->aged && a->seq != b->seq)
		return a->seq < b->seq;
	if (cost_a != cost_b)
		return cost_a < cost_b;
	return a->seq < b->seq;
}

static void rotdisk_choose_cmd(struct rotdisk_model *m,
			       const struct rotdisk_place *from,
			       struct rotdisk_choice *best, u64 t)
{
	struct rotdisk_choice one = { .dirty = -1 };
	struct rotdisk_cmd *cmd;
	u32 i;

	for (i = 0; i < m->nr_cmds; i++) {
		cmd = m->cmds[i];
		if (cmd->state != ROTDISK_QUEUED)
			continue;
		one.cmd = cmd;
		one.seq = cmd->seq;
		one.aged = m->in_order ||
			   t - cmd->submit_ns > m->p.age_limit_ns;
		one.move = rotdisk_move(m, t, from, &cmd->place, cmd->op);
		if (one.move.stream && cmd->end <= from->pos)
			rotdisk_serve_from_buffer(m, cmd, t);
		else if (rotdisk_before(&one, best))
			*best = one;
	}
}

/* Writing back is as old as the oldest command that waits for it. */
static void rotdisk_choose_dirty(struct rotdisk_model *m,
				 const struct rotdisk_place *from,
				 struct rotdisk_choice *best, u64 t)
{
	struct rotdisk_choice one = { .seq = U64_MAX };
	struct rotdisk_cmd *flush = rotdisk_oldest(m, ROTDISK_FLUSHING);
	struct rotdisk_cmd *wait = rotdisk_oldest(m, ROTDISK_BLOCKED);
	u32 i;

	if (!wait || (flush && flush->seq < wait->seq))
		wait = flush;
	if (wait) {
		one.seq = wait->seq;
		one.aged = t - wait->submit_ns > m->p.age_limit_ns;
	}
	for (i = 0; i < m->nr_dirty; i++) {
		one.dirty = i;
		one.move = rotdisk_move(m, t, from, &m->dirty[i].place,
					ROTDISK_WRITE);
		if (rotdisk_before(&one, best))
			*best = one;
	}
}

/* The free actuator looks for work at time @t. */
static void rotdisk_dispatch(struct rotdisk_model *m, u64 t)
{
	struct rotdisk_choice best = { .dirty = -1 };
	struct rotdisk_place from;

	rotdisk_track_at(m, rotdisk_front(m, t), &from);
	rotdisk_choose_cmd(m, &from, &best, t);
	if (rotdisk_must_destage(m) ||
	    (!best.cmd && t >= m->idle_ns + m->p.destage_idle_ns))
		rotdisk_choose_dirty(m, &from, &best, t);
	if (best.cmd)
		rotdisk_serve_from_medium(m, best.cmd, &best.move, t);
	else if (best.dirty >= 0)
		rotdisk_destage(m, best.dirty, &best.move, t);
}

/* When something happens inside the drive next. */
static u64 rotdisk_next_step(const struct rotdisk_model *m)
{
	u64 next = U64_MAX;
	u64 actuator = max(m->actuator_ns, m->now_ns);
	u32 i;

	for (i = 0; i < m->nr_cmds; i++) {
		if (m->cmds[i]->state == ROTDISK_DECODING)
			next = min(next, m->cmds[i]->ready_ns);
		else if (m->cmds[i]->state == ROTDISK_QUEUED)
			next = min(next, actuator);
	}
	if (m->destaging || rotdisk_must_destage(m))
		next = min(next, actuator);
	else if (m->nr_dirty)
		next = min(next, max(actuator,
				     m->idle_ns + m->p.destage_idle_ns));
	return next;
}

static void rotdisk_step(struct rotdisk_model *m, u64 t)
{
	struct rotdisk_cmd *cmd;

	if (m->destaging && m->actuator_ns <= t)
		rotdisk_destaged(m, t);
	while ((cmd = rotdisk_oldest(m, ROTDISK_DECODING)) &&
	       cmd->ready_ns <= t)
		rotdisk_decode(m, cmd, t);
	if (m->actuator_ns <= t)
		rotdisk_dispatch(m, t);
}

static void rotdisk_run(struct rotdisk_model *m, u64 now_ns)
{
	u64 t;

	while ((t = rotdisk_next_step(m)) <= now_ns) {
		m->now_ns = max(m->now_ns, t);
		rotdisk_step(m, m->now_ns);
	}
	m->now_ns = max(m->now_ns, now_ns);
}

/*
 * Flash: latency, parallel channels and rates; known when it is submitted
 */

static void rotdisk_flash_submit(struct rotdisk_model *m,
				 struct rotdisk_cmd *cmd)
{
	const struct rotdisk_profile *p = &m->p;
	u64 t = cmd->ready_ns;
	u64 latency_ns = p->read_latency_ns;
	u64 *channel = &m->channel_ns[0];
	u64 begin;
	u32 i;

	if (cmd->op == ROTDISK_FLUSH) {
		if (p->write_cache)
			t = max(t, m->written_ns) + p->flush_latency_ns;
		rotdisk_done(cmd, t);
		return;
	}
	if (cmd->op == ROTDISK_WRITE) {
		latency_ns = p->write_latency_ns;
		if (cmd->fua && p->write_cache)
			latency_ns += p->flush_latency_ns;
	}
	if (p->iops_limit) {
		t = max(t, m->iops_ns);
		m->iops_ns = t + div_u64(ROTDISK_NSEC, p->iops_limit);
	}
	for (i = 1; i < p->channels; i++)
		if (m->channel_ns[i] < *channel)
			channel = &m->channel_ns[i];
	begin = max(t, *channel);
	*channel = begin + latency_ns +
		   rotdisk_rate_ns(rotdisk_bytes(cmd), p->channel_rate);
	m->bus_ns = max(m->bus_ns, begin) +
		    rotdisk_rate_ns(rotdisk_bytes(cmd),
				    cmd->op == ROTDISK_WRITE ?
				    p->write_rate : p->interface_rate);
	rotdisk_done(cmd, max(*channel, m->bus_ns));
	cmd->transfer_ns = cmd->finish_ns - begin;
	if (cmd->op == ROTDISK_WRITE)
		m->written_ns = max(m->written_ns, cmd->finish_ns);
}

/*
 * Interface
 */

int rotdisk_model_init(struct rotdisk_model *m,
		       const struct rotdisk_profile *p)
{
	struct rotdisk_zone_map map = {};
	u32 i;

	if (!p->queue_depth || p->queue_depth > ROTDISK_MAX_DEPTH ||
	    !p->interface_rate)
		return -EINVAL;
	memset(m, 0, sizeof(*m));
	m->p = *p;
	m->segment = -1;
	if (!p->rotational)
		return p->channels && p->channels <= ROTDISK_MAX_CHANNELS &&
		       p->channel_rate && p->write_rate ? 0 : -EINVAL;
	if (!p->rpm || !p->heads || !p->nr_zones ||
	    p->nr_zones > ROTDISK_MAX_ZONES ||
	    p->segments > ROTDISK_MAX_SEGMENTS)
		return -EINVAL;
	m->rev_ns = div_u64(60 * ROTDISK_NSEC, p->rpm);
	m->head_skew_ns = p->head_switch_ns + p->write_settle_ns;
	for (i = 0; i < p->nr_zones; i++) {
		map.sectors = p->zones[i].sectors;
		map.cylinder_sectors = map.sectors * p->heads;
		map.cylinder_ns = (u64)p->heads * m->rev_ns +
				  (u64)(p->heads - 1) * m->head_skew_ns +
				  max_t(u64, rotdisk_seek_ns(p, 1),
					p->head_switch_ns) +
				  p->write_settle_ns;
		if (!map.cylinder_sectors)
			return -EINVAL;
		m->zones[i] = map;
		map.lba += (u64)p->zones[i].cylinders * map.cylinder_sectors;
		map.pos += p->zones[i].cylinders * map.cylinder_ns;
		map.cylinder += p->zones[i].cylinders;
	}
	return p->capacity_sectors <= map.lba ? 0 : -EINVAL;
}

void rotdisk_model_submit(struct rotdisk_model *m, struct rotdisk_cmd *cmd,
			  u64 now_ns)
{
	rotdisk_run(m, now_ns);
	cmd->submit_ns = m->now_ns;
	cmd->seek_ns = 0;
	cmd->rotation_ns = 0;
	cmd->transfer_ns = 0;
	cmd->overhead_ns = m->p.overhead_ns;
	cmd->hit = false;
	cmd->seq = ++m->seq;
	cmd->state = ROTDISK_DECODING;
	m->controller_ns = max(m->controller_ns, m->now_ns) +
			   m->p.overhead_ns;
	cmd->ready_ns = m->controller_ns;
	m->idle_ns = max(m->idle_ns, m->now_ns);
	m->cmds[m->nr_cmds++] = cmd;
	if (!m->p.rotational) {
		rotdisk_flash_submit(m, cmd);
	} else if (cmd->op != ROTDISK_FLUSH && cmd->sectors) {
		rotdisk_locate(m, cmd->lba, &cmd->place);
		cmd->end = rotdisk_end_pos(m, cmd->lba + cmd->sectors);
	}
}

u64 rotdisk_model_next_event(const struct rotdisk_model *m)
{
	u64 next = rotdisk_next_step(m);
	u32 i;

	for (i = 0; i < m->nr_cmds; i++)
		if (m->cmds[i]->state == ROTDISK_DONE)
			next = min(next, m->cmds[i]->finish_ns);
	return next;
}

struct rotdisk_cmd *rotdisk_model_advance(struct rotdisk_model *m, u64 now_ns)
{
	struct rotdisk_cmd *cmd;
	s32 first = -1;
	u32 i;

	rotdisk_run(m, now_ns);
	for (i = 0; i < m->nr_cmds; i++) {
		cmd = m->cmds[i];
		if (cmd->state != ROTDISK_DONE || cmd->finish_ns > m->now_ns)
			continue;
		if (first < 0 || cmd->finish_ns < m->cmds[first]->finish_ns ||
		    (cmd->finish_ns == m->cmds[first]->finish_ns &&
		     cmd->seq < m->cmds[first]->seq))
			first = i;
	}
	if (first < 0)
		return NULL;
	cmd = m->cmds[first];
	m->cmds[first] = m->cmds[--m->nr_cmds];
	return cmd;
}

/*
 * Profiles
 */

#define ROTDISK_ACTUATOR	1
#define ROTDISK_FLASH		2
#define ROTDISK_ANY		(ROTDISK_ACTUATOR | ROTDISK_FLASH)

/* A key with one number, which must be given for these kinds of drives. */
struct rotdisk_key {
	const char *name;
	u32 kinds;
	size_t offset;
	size_t size;
	u64 least;
	u64 most;
	u32 unit;		/* what the member of the profile counts */
};

#define AT(member)	offsetof(struct rotdisk_profile, member)

/* The limits keep every sum and product of the model within 64 bits. */
static const struct rotdisk_key rotdisk_keys[] = {
	{ "capacity_bytes", ROTDISK_ANY, AT(capacity_sectors), 8, 1ULL << 20, 1ULL << 50, 512 },
	{ "queue_depth", ROTDISK_ANY, AT(queue_depth), 4, 1, ROTDISK_MAX_DEPTH, 1 },
	{ "overhead_ns", ROTDISK_ANY, AT(overhead_ns), 4, 0, ROTDISK_NSEC, 1 },
	{ "interface_rate", ROTDISK_ANY, AT(interface_rate), 8, 1000000, 16 * ROTDISK_NSEC, 1 },
	{ "write_cache_bytes", ROTDISK_ANY, AT(write_cache_bytes), 8, 0, 1ULL << 40, 1 },
	{ "rpm", ROTDISK_ACTUATOR, AT(rpm), 4, 1000, 60000, 1 },
	{ "heads", ROTDISK_ACTUATOR, AT(heads), 4, 1, 64, 1 },
	{ "head_switch_ns", ROTDISK_ACTUATOR, AT(head_switch_ns), 4, 0, 100000000, 1 },
	{ "write_settle_ns", ROTDISK_ACTUATOR, AT(write_settle_ns), 4, 0, 100000000, 1 },
	{ "age_limit_ns", ROTDISK_ACTUATOR, AT(age_limit_ns), 8, 1, 3600 * ROTDISK_NSEC, 1 },
	{ "segments", ROTDISK_ACTUATOR, AT(segments), 4, 0, ROTDISK_MAX_SEGMENTS, 1 },
	{ "segment_bytes", ROTDISK_ACTUATOR, AT(segment_sectors), 4, 4096, 1U << 30, 512 },
	{ "readahead_bytes", ROTDISK_ACTUATOR, AT(readahead_sectors), 4, 0, 1U << 30, 512 },
	{ "destage_idle_ns", ROTDISK_ACTUATOR, AT(destage_idle_ns), 8, 0, 3600 * ROTDISK_NSEC, 1 },
	{ "channels", ROTDISK_FLASH, AT(channels), 4, 1, ROTDISK_MAX_CHANNELS, 1 },
	{ "channel_rate", ROTDISK_FLASH, AT(channel_rate), 8, 1000000, 16 * ROTDISK_NSEC, 1 },
	{ "write_rate", ROTDISK_FLASH, AT(write_rate), 8, 1000000, 16 * ROTDISK_NSEC, 1 },
	{ "read_latency_ns", ROTDISK_FLASH, AT(read_latency_ns), 8, 0, 10 * ROTDISK_NSEC, 1 },
	{ "write_latency_ns", ROTDISK_FLASH, AT(write_latency_ns), 8, 0, 10 * ROTDISK_NSEC, 1 },
	{ "flush_latency_ns", ROTDISK_FLASH, AT(flush_latency_ns), 8, 0, 10 * ROTDISK_NSEC, 1 },
	{ "iops_limit", ROTDISK_FLASH, AT(iops_limit), 4, 0, 10000000, 1 },
	/* instead of a table of seeks */
	{ "seek_base_ns", ROTDISK_ACTUATOR, AT(seek_base_ns), 4, 0, 100000000, 1 },
	{ "seek_sqrt_ns", ROTDISK_ACTUATOR, AT(seek_sqrt_ns), 4, 0, 1000000, 1 },
};

#define ROTDISK_KEYS		ARRAY_SIZE(rotdisk_keys)

struct rotdisk_parser {
	struct rotdisk_profile *p;
	u32 kind;
	u32 given;		/* bits of rotdisk_keys */
	char *err;
	size_t err_len;
};

static __printf(2, 3) int rotdisk_error(struct rotdisk_parser *parser, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(parser->err, parser->err_len, fmt, args);
	va_end(args);
	return -EINVAL;
}

static int rotdisk_parse_number(struct rotdisk_parser *parser, u32 line,
				const char *name, u64 value)
{
	const struct rotdisk_key *key = rotdisk_keys;
	void *member;

	while (key < rotdisk_keys + ROTDISK_KEYS && strcmp(name, key->name))
		key++;
	if (key == rotdisk_keys + ROTDISK_KEYS)
		return rotdisk_error(parser, "line %u: unknown key '%s'", line, name);
	if (parser->given & 1U << (key - rotdisk_keys))
		return rotdisk_error(parser, "line %u: %s is given twice", line, name);
	if (value < key->least || value > key->most)
		return rotdisk_error(parser, "line %u: %s must be %llu to %llu, not %llu",
				     line, name, key->least, key->most, value);
	if (key->unit > 1 && value % 4096)
		return rotdisk_error(parser, "line %u: %s must be a multiple of 4096, not %llu",
				     line, name, value);
	parser->given |= 1U << (key - rotdisk_keys);
	member = (char *)parser->p + key->offset;
	if (key->size == sizeof(u64))
		*(u64 *)member = div_u64(value, key->unit);
	else
		*(u32 *)member = div_u64(value, key->unit);
	return 0;
}

static int rotdisk_parse_pair(struct rotdisk_parser *parser, u32 line,
			      const char *name, u64 first, u64 second)
{
	struct rotdisk_profile *p = parser->p;
	struct rotdisk_point *point = &p->points[p->nr_points];
	bool zone = !strcmp(name, "zone");

	if (!zone && strcmp(name, "seek_point"))
		return rotdisk_error(parser, "line %u: %s cannot have two numbers", line, name);
	if (!first || !second || first > 16000000 ||
	    second > (zone ? 1000000 : ROTDISK_NSEC))
		return rotdisk_error(parser, "line %u: %s is out of range", line, name);
	if (zone ? p->nr_zones == ROTDISK_MAX_ZONES : p->nr_points == ROTDISK_MAX_POINTS)
		return rotdisk_error(parser, "line %u: one %s too many", line, name);
	if (zone) {
		p->zones[p->nr_zones++] = (struct rotdisk_zone){ first, second };
		return 0;
	}
	if (p->nr_points && (first <= point[-1].cylinders || second < point[-1].ns))
		return rotdisk_error(parser, "line %u: seek points must ascend", line);
	p->points[p->nr_points++] = (struct rotdisk_point){ first, second };
	return 0;
}

/* The line is KEY NUMBER or KEY NUMBER NUMBER: its '=' is a blank by now. */
static int rotdisk_parse_line(struct rotdisk_parser *parser, u32 line, const char *text)
{
	unsigned long long first, second;
	char name[32], word[10];
	int end = 0;
	int n = sscanf(text, "%31s %18llu %n%18llu %n", name, &first, &end, &second, &end);

	if (n <= 0)
		return 0;
	if (!strcmp(name, "kind") && sscanf(text, "%*s %9s", word) == 1) {
		parser->kind = !strcmp(word, "actuator") ? ROTDISK_ACTUATOR :
			       !strcmp(word, "flash") ? ROTDISK_FLASH : 0;
		if (!parser->kind)
			return rotdisk_error(parser,
					     "line %u: kind must be actuator or flash, not '%s'",
					     line, word);
		return 0;
	}
	if (n == 1 || text[end])
		return rotdisk_error(parser, "line %u: expected key = number, not '%s'",
				     line, text);
	if (n == 2)
		return rotdisk_parse_number(parser, line, name, first);
	return rotdisk_parse_pair(parser, line, name, first, second);
}

/* Is there every key the kind of drive needs, and no other? */
static int rotdisk_check(struct rotdisk_parser *parser)
{
	struct rotdisk_profile *p = parser->p;
	u64 sectors = 0;
	u32 needed = 0;
	u32 i;

	if (!parser->kind)
		return rotdisk_error(parser, "missing key 'kind'");
	p->rotational = parser->kind == ROTDISK_ACTUATOR;
	p->write_cache = p->write_cache_bytes;
	for (i = 0; i < ROTDISK_KEYS; i++)
		if (rotdisk_keys[i].kinds & parser->kind)
			needed |= 1U << i;
	if (p->nr_points > 1)
		needed &= ~(3U << (ROTDISK_KEYS - 2));
	for (i = 0; i < ROTDISK_KEYS; i++)
		if ((parser->given ^ needed) & 1U << i)
			return rotdisk_error(parser, "%s '%s'", needed & 1U << i ?
					     "missing key" : "what is given leaves no place for",
					     rotdisk_keys[i].name);
	for (i = 0; i < p->nr_zones; i++)
		sectors += (u64)p->zones[i].cylinders * p->zones[i].sectors * p->heads;
	if (!p->rotational && (p->nr_zones || p->nr_points))
		return rotdisk_error(parser, "a flash drive has no zone and no seek_point");
	if (p->rotational && p->capacity_sectors > sectors)
		return rotdisk_error(parser, "capacity_bytes is %llu, but the zones hold %llu",
				     p->capacity_sectors << 9, sectors << 9);
	if (p->readahead_sectors > p->segment_sectors)
		return rotdisk_error(parser, "readahead_bytes must not exceed segment_bytes");
	return 0;
}

int rotdisk_profile_parse(struct rotdisk_profile *p, const char *text,
			  size_t len, char *err, size_t err_len)
{
	struct rotdisk_parser parser = { .p = p, .err = err, .err_len = err_len };
	size_t i, n = 0;
	char buf[80];
	u32 line = 1;
	bool comment = false;
	int ret;

	memset(p, 0, sizeof(*p));
	if (err_len)
		*err = '\0';
	for (i = 0; i <= len; i++) {
		char c = i < len ? text[i] : '\n';

		if (c == '\n') {
			buf[n] = '\0';
			ret = rotdisk_parse_line(&parser, line++, buf);
			if (ret)
				return ret;
			n = 0;
			comment = false;
			continue;
		}
		comment |= c == '#';
		if (!comment && n == sizeof(buf) - 1)
			return rotdisk_error(&parser, "line %u is too long", line);
		if (!comment)
			buf[n++] = c == '=' ? ' ' : c;
	}
	return rotdisk_check(&parser);
}

const char * const rotdisk_class_names[ROTDISK_CLASSES] = {
	"read_meta", "read_data", "write_meta", "write_data", "flush",
};

void rotdisk_count(struct rotdisk_counters counters[ROTDISK_CLASSES],
		   const struct rotdisk_cmd *cmd)
{
	struct rotdisk_counters *c = &counters[ROTDISK_FLUSHES];
	u64 elapsed = cmd->finish_ns - cmd->submit_ns;
	u64 served = cmd->seek_ns + cmd->rotation_ns + cmd->transfer_ns +
		     cmd->overhead_ns;

	if (cmd->op == ROTDISK_READ)
		c = &counters[cmd->meta ? ROTDISK_READ_META : ROTDISK_READ_DATA];
	else if (cmd->op == ROTDISK_WRITE)
		c = &counters[cmd->meta ? ROTDISK_WRITE_META : ROTDISK_WRITE_DATA];
	c->requests++;
	c->sectors += cmd->sectors;
	c->hits += cmd->hit;
	c->seek_ns += cmd->seek_ns;
	c->rotation_ns += cmd->rotation_ns;
	c->transfer_ns += cmd->transfer_ns;
	c->wait_ns += elapsed > served ? elapsed - served : 0;
}
