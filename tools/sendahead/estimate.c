// SPDX-License-Identifier: GPL-2.0
/*
 * Estimates how long a send takes. The code that reads ahead of a send lists the leaves that it
 * reads, and looks into a sample of them. Times of the disk, measured or given, give the seconds.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <linux/fs.h>

#include "report.h"
#include "room.h"
#include "send-ahead.h"

#define RUNS 32			/* the sample: so many runs */
#define RUN 32			/* of so many leaves that follow each other */
#define PIECE (1 << 20)
#define DEVICES 64		/* with more devices, some count as one */
#define TIME_NS 4000000000ULL	/* limit for the sample */
#define AHEAD 8			/* leaves that btrfs send itself reads ahead */
#define DEPTH 4			/* number of requests that the disk chooses from */
#define START 12			/* single reads before and between windows, and first batches */
#define NEAR (64 << 20)		/* bytes: a seek within these is short */
#define NEAR_PART 0.4		/* its share of the time of a random read, if not measured */
#define PASSED (48 << 10)	/* bytes that a drive buffers beside each read */
#define NO_HEADS 1.5e-3		/* if a random read takes fewer seconds, it is an SSD */

/* A read of a list. */
struct get {
	u64 order;		/* position, as of disk_place() */
	u64 bytes;
};

struct gets {
	struct get *v;
	size_t n, room;
};

struct estimate {
	const struct options *options;
	const struct disk *disk;
	struct needs needs;
	u64 leaves[2];			/* of the tree that is sent, and of the parent's */
	u64 apart;			/* leaves that are not right behind the one before */
	struct gets all, trees[2];	/* all leaves, and those of each tree, in key order */
	/* the sample of the leaves */
	u64 sampled, extents, data_bytes;
	double part;			/* the sample's share of the leaves */
	struct gets data;		/* file data */
	struct gets early;		/* leaves that are looked up before the walk reads them */
	struct gets others;		/* leaves that are only looked up */
	/* the disk: seconds of a random read and of one close by, bytes a second, bytes */
	double random, near, rate, size;
	/* seconds of both sends */
	double stock, program;
};

static void add(struct gets *gets, u64 order, u64 bytes)
{
	*append(gets) = (struct get) { order, bytes };
}

static void count_leaves(struct estimate *estimate)
{
	const struct leaves *leaves = &estimate->needs.leaves;
	u64 order, behind = 0;
	size_t i;

	for (i = 0; i < leaves->n; i++) {
		estimate->leaves[leaves->v[i].parent]++;
		if (disk_place(estimate->disk, leaves->v[i].at.bytenr, &order))
			continue;
		estimate->apart += order != behind;
		behind = order + (estimate->disk->nodesize >> 12);
		add(&estimate->all, order, estimate->disk->nodesize);
		add(&estimate->trees[leaves->v[i].parent], order, estimate->disk->nodesize);
	}
	if (!estimate->all.n)
		give_up("there is nothing to be sent");
}

/*
 * Return: seconds to read a list. Only @part of the list is in @gets; the rest is assumed to lie
 * between these. Windows of @window bytes are each read in disk order, while the disk chooses from
 * @depth requests. Instead of a seek the head may pass over a gap, which costs @back more seconds.
 * The list stays in this order.
 */
static double read_time(const struct estimate *estimate, const struct gets *gets, double window,
			int depth, double part, double back)
{
	u64 ends[DEVICES] = { 0 };
	double seconds = 0, bytes;
	struct get *v = gets->v;
	size_t i, from, to;

	for (from = 0; from < gets->n; from = to) {
		for (to = from, bytes = 0; to < gets->n && (to == from || bytes < window * part); to++)
			bytes += v[to].bytes;
		qsort(v + from, to - from, sizeof(*v), by_number);
		for (i = from; i < to; i++) {
			u64 *end = &ends[order_device(v[i].order) % DEVICES];
			u64 at = order_byte(v[i].order);
			/* the unknown reads of a window make the gaps smaller */
			double gap = fabs((double)at - *end) * (to - from > 1 ? part : 1);
			double seek = estimate->random / depth;

			if (estimate->random > NO_HEADS)
				seek = estimate->near * 2 / (depth + 1) +
					(estimate->random - estimate->near) * 15 / 8 *
					sqrt(fmin(gap / estimate->size, 1));
			if (*end && at >= *end)
				seek = fmin(seek, gap / estimate->rate + back);
			seconds += seek + v[i].bytes / estimate->rate;
			*end = at + v[i].bytes;
		}
	}
	return seconds / part;
}

static void take_extents(struct estimate *estimate)
{
	const struct options *options = estimate->options;
	const struct needs *needs = &estimate->needs;
	size_t i;

	estimate->data_bytes += needs->data_bytes;
	estimate->extents += needs->nr_extents;
	for (i = 0; i < needs->nr_extents; i++) {
		const struct extent *extent = &needs->extents[i];
		int past = options->compressed_data && extent->compressed;
		u64 order;

		if (past)
			estimate->data_bytes += extent->disk_bytes - extent->length;
		else if (!extent->read)
			estimate->data_bytes -= extent->length;
		if (!past && !extent->read)
			continue;
		/* not known with parity: assume about this position */
		if (disk_place(estimate->disk, extent->disk, &order))
			order = order_of(order_device(estimate->all.v->order), extent->disk);
		add(&estimate->data, order, (extent->disk_bytes + 4095) & ~4095ULL);
	}
	if (options->no_data)
		estimate->data_bytes = 0;
}

/* Divide the leaves that are looked up: those that the walk reads later, and the others. */
static void take_others(struct estimate *estimate)
{
	const struct orders *orders = &estimate->needs.others;
	struct gets leaves = { .v = calloc(estimate->all.n, sizeof(struct get)), .n = estimate->all.n };
	size_t i;

	if (!leaves.v)
		give_up("no memory");
	memcpy(leaves.v, estimate->all.v, leaves.n * sizeof(*leaves.v));
	sort_list(&leaves, by_number);
	for (i = 0; i < orders->n; i++) {
		int anyway = bsearch(&orders->v[i], leaves.v, leaves.n, sizeof(*leaves.v), by_number) != NULL;

		add(anyway ? &estimate->early : &estimate->others, orders->v[i], estimate->disk->nodesize);
	}
	free(leaves.v);
}

/* Look into a sample of runs of leaves. If time is short, fewer runs are spread over the tree. */
static void take_sample(struct estimate *estimate)
{
	size_t n = estimate->needs.leaves.n, runs = min_u64(RUNS, (n + RUN - 1) / RUN), i;
	u64 end = now_ns() + TIME_NS;

	for (i = 0; i < runs && now_ns() < end; i++) {
		size_t run = runs == RUNS ? i * 13 % RUNS : i, from = n * run / runs;
		size_t leaves = min_u64(RUN, n * (run + 1) / runs - from);

		send_ahead_look_into(&estimate->needs, from, leaves);
		take_extents(estimate);
		estimate->sampled += leaves;
	}
	estimate->part = (double)estimate->sampled / n;
	estimate->extents /= estimate->part;
	estimate->data_bytes /= estimate->part;
	take_others(estimate);
}

/* Return: seconds for @n reads, at random within @range bytes, or in sequence if that is 0. */
static double measured(const struct estimate *estimate, u64 order, size_t n, u64 range, size_t bytes)
{
	u64 chance = 1, at, start = now_ns();
	void *block;
	size_t i;

	if (posix_memalign(&block, 4096, bytes))
		give_up("no memory");
	for (i = 0; i < n; i++) {
		chance = chance * 6364136223846793005ULL + 1442695040888963407ULL;
		at = range ? (chance >> 24) % (range >> 12) : i * (bytes >> 12);
		if (disk_read(estimate->disk, order + at, block, bytes))
			give_up("the disk cannot be read: %m");
	}
	free(block);
	return (now_ns() - start) / 1e9;
}

/* Set the numbers of the disk, measured or as given by --disk. */
static void measure(struct estimate *estimate)
{
	const struct options *options = estimate->options;
	u64 first = estimate->all.v->order, device = order_of(order_device(first), 0), size = 0;

	ioctl(disk_fd(estimate->disk, first), BLKGETSIZE64, &size);
	estimate->size = size;
	estimate->random = options->disk_random;
	estimate->near = options->disk_random * NEAR_PART;
	estimate->rate = options->disk_rate;
	if (!estimate->rate) {
		if (order_byte(first) + NEAR > size)
			first = device;
		estimate->random = measured(estimate, device, 32, size, 4096) / 32;
		estimate->near = measured(estimate, first, 32, min_u64(NEAR, size), 4096) / 32;
		estimate->near = fmin(estimate->near, estimate->random);
		estimate->rate = 16 * PIECE / measured(estimate, first, 16, 0, PIECE);
	}
}

/* Return: the share @found of @all, but at least @part. */
static double part_of(double part, double found, double all)
{
	return all ? fmin(fmax(part, found / all), 1) : part;
}

/* Return: the share of @n reads, spread over a part of a disk, that miss the drive's buffer. */
static double missed_part(const struct gets *gets, double n)
{
	u64 least = NONE, most = 0;
	double reads;
	size_t i;

	for (i = 0; i < gets->n; i++) {
		least = min_u64(least, gets->v[i].order);
		most = gets->v[i].order > most ? gets->v[i].order : most;
	}
	if (most <= least)
		return 1;
	reads = order_byte(most - least) / PASSED + 1;
	return reads / n * (1 - exp(-n / reads));
}

static void reckon(struct estimate *estimate)
{
	double window = room_window(estimate->options->window) / 2;
	double nodes = estimate->needs.nodes * estimate->random, back = estimate->near * 2 / 3;
	double part, data_part;
	const struct gets *trees = estimate->trees, *data = &estimate->data;
	const struct gets *early = &estimate->early, *others = &estimate->others;
	u32 leaf = estimate->disk->nodesize;
	u64 used, blocks, found = 0;
	size_t i;

	for (i = 0; i < data->n; i++)
		found += data->v[i].bytes;
	disk_used(estimate->disk, &used, &blocks);
	part = part_of(estimate->part, others->n, blocks);
	data_part = part_of(estimate->part, found, used);
	/* btrfs send reads the parent's leaves and the others one by one, from another position */
	estimate->stock = nodes +
		read_time(estimate, others, 0, 1, part, back) * missed_part(others, others->n / part) +
		(read_time(estimate, &trees[0], AHEAD * leaf, trees[1].n ? DEPTH : AHEAD, 1, 0) +
		 read_time(estimate, &trees[1], 0, 1, 1, back)) *
		fmax(1 - early->n / estimate->part / estimate->all.n, 0) +
		read_time(estimate, early, 0, 1, estimate->part, back) +
		read_time(estimate, data, 0, 1, data_part, 0);
	estimate->program = START * estimate->near + nodes / AHEAD +
		read_time(estimate, others, INFINITY, DEPTH, part, 0) +
		read_time(estimate, &estimate->all, window, DEPTH, 1, 0) +
		read_time(estimate, data, window, DEPTH, data_part, 0);
	estimate->program = fmin(estimate->program, estimate->stock);
}

/* Print a range around @seconds, with a factor of 1.5 from end to end. */
static void print_range(double seconds)
{
	const char *unit = seconds < 120 ? "seconds" : seconds < 7200 ? "minutes" : "hours";
	double in = fmax(seconds, 0.05) / (seconds < 120 ? 1 : seconds < 7200 ? 60 : 3600);

	printf("%.*f to %.*f %s", in < 8, in / 1.25, in < 8, in * 1.2, unit);
}

static void print(const struct estimate *estimate)
{
	u64 leaves = estimate->needs.leaves.n;
	u32 leaf = estimate->disk->nodesize;

	if (estimate->options->json) {
		printf("{\"leaves\":%ju,\"parent_leaves\":%ju,\"leaves_apart\":%ju,\"leaf_bytes\":%u,"
		       "\"nodes\":%ju,\"other_leaves\":%.0f,\"sampled_leaves\":%ju,\"data_bytes\":%ju,"
		       "\"extents\":%ju,\"random_ns\":%.0f,\"bytes_per_second\":%.0f,\"stock_ns\":%.0f,"
		       "\"program_ns\":%.0f}\n", estimate->leaves[0], estimate->leaves[1],
		       estimate->apart, leaf, estimate->needs.nodes, estimate->others.n / estimate->part,
		       estimate->sampled, estimate->data_bytes, estimate->extents,
		       estimate->random * 1e9, estimate->rate, estimate->stock * 1e9,
		       estimate->program * 1e9);
		return;
	}
	printf("btrfs send will take about ");
	print_range(estimate->stock);
	if (estimate->stock < 0.1 || estimate->program > 0.8 * estimate->stock) {
		printf(": nothing to gain%s\n", estimate->data_bytes > 1e6 * (leaves + estimate->extents) ?
		       ", large files" : "");
	} else {
		printf(", with sendahead ");
		print_range(estimate->program);
		printf("\n");
	}
	printf("metadata: %ju leaves (%.1f MB), %.0f %% not right behind the one before, and %.0f to look up\n"
	       "file data: %.1f MB in %ju extents\n"
	       "disk: %.2f ms a random read, %.0f MB/s\n",
	       leaves, leaves * leaf / 1e6, 100.0 * estimate->apart / leaves,
	       estimate->others.n / estimate->part, estimate->data_bytes / 1e6, estimate->extents,
	       estimate->random * 1e3, estimate->rate / 1e6);
}

int estimate(const struct options *options, struct shared *shared)
{
	struct estimate estimate = { .options = options };

	send_ahead_list(options, shared, &estimate.needs);
	estimate.disk = estimate.needs.disk;
	count_leaves(&estimate);
	measure(&estimate);
	take_sample(&estimate);
	reckon(&estimate);
	print(&estimate);
	if (fflush(stdout))
		give_up("what it says cannot be written: %m");
	return 0;
}
