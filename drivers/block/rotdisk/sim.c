// SPDX-License-Identifier: GPL-2.0
/*
 * Run the timing model of model.c offline: the floor of a set of blocks, the
 * time of a list of commands, and figures to compare a drive by.
 */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

#define SIM_FAILED	1
#define SIM_USAGE	2

#define SIM_NSEC	1000000000ULL

/* The floor and the sequential metrics read this many sectors at once. */
#define SIM_CHUNK	256

/* A line of the input, also of those that were joined. */
#define SIM_MAX_SECTORS	0xffffffffU

/* Commands of a random metric; seeks of the average. */
#define SIM_SAMPLES	20000

/* Bytes of a sequential metric. */
#define SIM_SEQUENTIAL	1000000000

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

struct sim_line {
	u64 lba;
	u32 sectors;
	enum rotdisk_op op;
};

/* What is sent to the drive, command by command. */
struct sim_load {
	bool (*next)(struct sim_load *load, struct rotdisk_cmd *cmd);
	u32 depth;
	bool in_order;		/* served as submitted; depth may exceed the drive's */
	u64 count;		/* commands finished */
	u64 service_ns;		/* sum of their times from submission to finish */

	const struct sim_line *lines;
	size_t nr_lines;
	size_t line;
	u64 lba;
	u64 left;		/* commands, or sectors, still to be sent */
	u32 sectors;
	enum rotdisk_op op;
	bool flush;		/* after each write */
	u64 random;
};

static struct rotdisk_profile profile;
static struct rotdisk_model model;

static void die(int status, const char *fmt, ...)
{
	va_list args;

	fputs("rotdisk-sim: ", stderr);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	exit(status);
}

/* Room for one more element behind the @n there are. */
static void *grow(void *array, size_t n, size_t *room, size_t size)
{
	if (n < *room)
		return array;
	*room = *room ? *room * 2 : 1024;
	array = realloc(array, *room * size);
	if (!array)
		die(SIM_FAILED, "out of memory, give it less input");
	return array;
}

static void read_profile(const char *path)
{
	FILE *file = fopen(path, "r");
	char *text = NULL;
	char err[160];
	size_t len = 0;
	size_t room = 0;
	int c;

	if (!file)
		die(SIM_FAILED, "cannot open %s: %s", path, strerror(errno));
	while ((c = getc(file)) != EOF) {
		text = grow(text, len, &room, 1);
		text[len++] = c;
	}
	if (ferror(file))
		die(SIM_FAILED, "cannot read %s: %s", path, strerror(errno));
	fclose(file);
	if (rotdisk_profile_parse(&profile, text, len, err, sizeof(err)))
		die(SIM_FAILED, "%s: %s", path, err);
	free(text);
}

static bool parse_number(const char *text, u64 most, u64 *value)
{
	char *end;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	*value = strtoull(text, &end, 10);
	return !errno && !*end && *value <= most;
}

static bool parse_op(const char *text, enum rotdisk_op *op)
{
	if (!strcmp(text, "R"))
		*op = ROTDISK_READ;
	else if (!strcmp(text, "W"))
		*op = ROTDISK_WRITE;
	else if (!strcmp(text, "F"))
		*op = ROTDISK_FLUSH;
	else
		return false;
	return true;
}

/* LBA<TAB>SECTORS, and <TAB>OP if there are @columns == 3 */
static bool parse_line(char *text, int columns, struct sim_line *line)
{
	char *field[3] = { text };
	u64 value;
	int i;

	text[strcspn(text, "\n")] = '\0';
	for (i = 1; i < columns; i++) {
		field[i] = strchr(field[i - 1], '\t');
		if (!field[i])
			return false;
		*field[i]++ = '\0';
	}
	line->op = ROTDISK_READ;
	if (columns == 3 && !parse_op(field[2], &line->op))
		return false;
	if (!parse_number(field[0], profile.capacity_sectors, &line->lba) ||
	    !parse_number(field[1], profile.capacity_sectors - line->lba,
			  &value) || value > SIM_MAX_SECTORS)
		return false;
	line->sectors = value;
	return value || line->op == ROTDISK_FLUSH;
}

static struct sim_line *read_lines(int columns, size_t *nr_lines)
{
	struct sim_line *lines = NULL;
	size_t room = 0;
	size_t n = 0;
	char text[80];

	while (fgets(text, sizeof(text), stdin)) {
		lines = grow(lines, n, &room, sizeof(*lines));
		if (!parse_line(text, columns, &lines[n++]))
			die(SIM_FAILED,
			    "standard input, line %zu: expected %s, within the %llu sectors of the drive",
			    n, columns == 3 ? "LBA<tab>SECTORS<tab>R|W|F" :
			    "LBA<tab>SECTORS", profile.capacity_sectors);
	}
	if (ferror(stdin))
		die(SIM_FAILED, "cannot read standard input: %s",
		    strerror(errno));
	*nr_lines = n;
	return lines;
}

/* Run a load on a drive just switched on; the time its last command ends. */
static u64 run(struct sim_load *load)
{
	static struct rotdisk_cmd cmds[ROTDISK_MAX_DEPTH];
	struct rotdisk_profile p = profile;
	struct rotdisk_cmd *idle[ROTDISK_MAX_DEPTH];
	struct rotdisk_cmd *cmd;
	u32 nr_idle = 0;
	u64 event;
	u64 now = 0;

	p.queue_depth = load->depth;
	if (rotdisk_model_init(&model, &p))
		die(SIM_FAILED, "the profile does not make a drive");
	model.in_order = load->in_order;
	memset(cmds, 0, sizeof(cmds));
	while (nr_idle < load->depth) {
		idle[nr_idle] = &cmds[nr_idle];
		nr_idle++;
	}
	for (;;) {
		while (nr_idle && load->next(load, idle[nr_idle - 1]))
			rotdisk_model_submit(&model, idle[--nr_idle], now);
		if (nr_idle == load->depth)
			return now;
		while (!(cmd = rotdisk_model_advance(&model, now))) {
			event = rotdisk_model_next_event(&model);
			if (event <= now)
				die(SIM_FAILED, "the model stands still");
			now = event;
		}
		load->count++;
		load->service_ns += cmd->finish_ns - cmd->submit_ns;
		idle[nr_idle++] = cmd;
	}
}

static bool next_line(struct sim_load *load, struct rotdisk_cmd *cmd)
{
	if (load->line == load->nr_lines)
		return false;
	cmd->lba = load->lines[load->line].lba;
	cmd->sectors = load->lines[load->line].sectors;
	cmd->op = load->lines[load->line].op;
	load->line++;
	return true;
}

/* The lines in chunks; they are sorted and do not overlap. */
static bool next_chunk(struct sim_load *load, struct rotdisk_cmd *cmd)
{
	const struct sim_line *line = &load->lines[load->line];
	u64 rest;

	if (load->line == load->nr_lines)
		return false;
	rest = line->lba + line->sectors - load->lba;
	cmd->lba = load->lba;
	cmd->sectors = rest < SIM_CHUNK ? rest : SIM_CHUNK;
	cmd->op = ROTDISK_READ;
	load->lba += cmd->sectors;
	if (cmd->sectors == rest && ++load->line < load->nr_lines)
		load->lba = line[1].lba;
	return true;
}

static int compare_lines(const void *a, const void *b)
{
	const struct sim_line *x = a;
	const struct sim_line *y = b;

	return x->lba < y->lba ? -1 : x->lba > y->lba;
}

/* Sort, and join what overlaps or touches; returns how many are left. */
static size_t merge_lines(struct sim_line *lines, size_t n)
{
	size_t last = 0;
	size_t i;
	u64 end;

	if (!n)
		return 0;
	qsort(lines, n, sizeof(*lines), compare_lines);
	for (i = 1; i < n; i++) {
		end = lines[last].lba + lines[last].sectors;
		if (lines[i].lba > end ||
		    lines[i].lba + lines[i].sectors - lines[last].lba >
		    SIM_MAX_SECTORS)
			lines[++last] = lines[i];
		else if (lines[i].lba + lines[i].sectors > end)
			lines[last].sectors = lines[i].lba +
					      lines[i].sectors -
					      lines[last].lba;
	}
	return last + 1;
}

static int cmd_floor(void)
{
	struct sim_load load = {
		.next = next_chunk,
		.depth = ROTDISK_MAX_DEPTH,
		.in_order = true,
	};
	struct sim_line *lines = read_lines(2, &load.nr_lines);

	load.nr_lines = merge_lines(lines, load.nr_lines);
	load.lines = lines;
	load.lba = load.nr_lines ? lines[0].lba : 0;
	printf("%llu\n", run(&load));
	free(lines);
	return 0;
}

static int cmd_replay(u32 depth)
{
	struct sim_load load = { .next = next_line, .depth = depth };
	struct sim_line *lines = read_lines(3, &load.nr_lines);

	load.lines = lines;
	printf("%llu\n", run(&load));
	free(lines);
	return 0;
}

/*
 * Calibration
 */

static u64 random_below(u64 *state, u64 below)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state % below;
}

static bool next_random(struct sim_load *load, struct rotdisk_cmd *cmd)
{
	if (!load->left)
		return false;
	load->left--;
	cmd->lba = random_below(&load->random, profile.capacity_sectors /
				load->sectors) * load->sectors;
	cmd->sectors = load->sectors;
	cmd->op = load->op;
	if (load->flush && load->left % 2)
		cmd->op = ROTDISK_FLUSH;
	return true;
}

static bool next_sequential(struct sim_load *load, struct rotdisk_cmd *cmd)
{
	if (!load->left)
		return false;
	load->left--;
	cmd->lba = load->lba;
	cmd->sectors = load->sectors;
	cmd->op = load->op;
	load->lba += load->sectors;
	/* What is written counts when it is on the medium. */
	if (load->op == ROTDISK_WRITE && !load->left)
		cmd->op = ROTDISK_FLUSH;
	return true;
}

enum sim_kind {
	SIM_RANDOM,
	SIM_OUTER,		/* sequential */
	SIM_INNER,
	SIM_SEEK_AVERAGE,
	SIM_SEEK_TRACK,
	SIM_SEEK_FULL,
};

struct sim_metric {
	const char *name;
	enum sim_kind kind;
	enum rotdisk_op op;
	u32 sectors;
	u32 depth;
	bool flush;
};

static const struct sim_metric metrics[] = {
	{ "random_read_4k_qd1", SIM_RANDOM, ROTDISK_READ, 8, 1, false },
	{ "random_read_4k_qd32", SIM_RANDOM, ROTDISK_READ, 8, 32, false },
	{ "random_read_16k_qd1", SIM_RANDOM, ROTDISK_READ, 32, 1, false },
	{ "random_read_16k_qd32", SIM_RANDOM, ROTDISK_READ, 32, 32, false },
	{ "random_write_4k_qd1", SIM_RANDOM, ROTDISK_WRITE, 8, 1, false },
	{ "random_write_4k_qd32", SIM_RANDOM, ROTDISK_WRITE, 8, 32, false },
	{ "random_write_4k_flush", SIM_RANDOM, ROTDISK_WRITE, 8, 1, true },
	{ "sequential_read_outer", SIM_OUTER, ROTDISK_READ, SIM_CHUNK, 1,
	  false },
	{ "sequential_read_outer_qd32", SIM_OUTER, ROTDISK_READ, SIM_CHUNK,
	  32, false },
	{ "sequential_read_inner", SIM_INNER, ROTDISK_READ, SIM_CHUNK, 1,
	  false },
	{ "sequential_write_outer", SIM_OUTER, ROTDISK_WRITE, SIM_CHUNK, 1,
	  false },
	{ "sequential_write_outer_qd32", SIM_OUTER, ROTDISK_WRITE, SIM_CHUNK,
	  32, false },
	{ "average_seek", SIM_SEEK_AVERAGE, ROTDISK_READ, 8, 1, false },
	{ "track_to_track_seek", SIM_SEEK_TRACK, ROTDISK_READ, 8, 1, false },
	{ "full_stroke_seek", SIM_SEEK_FULL, ROTDISK_READ, 8, 1, false },
};

/* Cylinders that hold the capacity. */
static u32 used_cylinders(void)
{
	u64 left = profile.capacity_sectors;
	u32 cylinders = 0;
	u64 size;
	u32 i;

	for (i = 0; i < profile.nr_zones && left; i++) {
		size = (u64)profile.zones[i].sectors * profile.heads;
		if (left <= size * profile.zones[i].cylinders)
			return cylinders + (left + size - 1) / size;
		left -= size * profile.zones[i].cylinders;
		cylinders += profile.zones[i].cylinders;
	}
	return cylinders;
}

static u64 cylinder_lba(u32 cylinder)
{
	u64 lba = 0;
	u32 i;

	for (i = 0; cylinder >= profile.zones[i].cylinders; i++) {
		lba += (u64)profile.zones[i].cylinders *
		       profile.zones[i].sectors * profile.heads;
		cylinder -= profile.zones[i].cylinders;
	}
	return lba + (u64)cylinder * profile.zones[i].sectors * profile.heads;
}

/* Seek time the model reports for a read of @to after one of @from. */
static u64 seek_ns(u32 from, u32 to)
{
	struct rotdisk_cmd cmd = { .sectors = 1 };
	u64 now = 0;
	int i;

	if (rotdisk_model_init(&model, &profile))
		die(SIM_FAILED, "the profile does not make a drive");
	for (i = 0; i < 2; i++) {
		cmd.lba = cylinder_lba(i ? to : from);
		rotdisk_model_submit(&model, &cmd, now);
		while (!rotdisk_model_advance(&model, now))
			now = rotdisk_model_next_event(&model);
	}
	return cmd.seek_ns;
}

static double measure_seek(enum sim_kind kind)
{
	u32 cylinders = used_cylinders();
	u64 random = 1;
	u64 sum = 0;
	u32 from;
	int i;

	if (kind == SIM_SEEK_FULL)
		return seek_ns(0, cylinders - 1);
	if (kind == SIM_SEEK_TRACK)
		return seek_ns(cylinders / 2, cylinders / 2 + 1);
	for (i = 0; i < SIM_SAMPLES; i++) {
		from = random_below(&random, cylinders);
		sum += seek_ns(from, random_below(&random, cylinders));
	}
	return (double)sum / SIM_SAMPLES;
}

/* A load of its own; prints IOPS, MB/s and us a command. */
static void measure(const struct sim_metric *metric)
{
	struct sim_load load = {
		.next = metric->kind == SIM_RANDOM ? next_random :
						     next_sequential,
		.depth = metric->depth < profile.queue_depth ?
			 metric->depth : profile.queue_depth,
		.sectors = metric->sectors,
		.op = metric->op,
		.flush = metric->flush,
		.random = 1,
		.left = metric->kind == SIM_RANDOM ? SIM_SAMPLES :
			SIM_SEQUENTIAL / 512 / SIM_CHUNK,
	};
	double ns, rounds;

	if (metric->kind == SIM_INNER)
		load.lba = profile.capacity_sectors - load.left * load.sectors;
	ns = run(&load);
	rounds = metric->flush ? load.count / 2.0 : load.count;
	printf("%s\t%.4g\t%.4g\t%.4g\n", metric->name, rounds * SIM_NSEC / ns,
	       rounds * load.sectors * 512 * 1e3 / ns, load.service_ns / rounds / 1e3);
}

static int cmd_measure(void)
{
	size_t i;

	puts("metric\tIOPS\tMB/s\tus");
	for (i = 0; i < ARRAY_SIZE(metrics); i++) {
		if (metrics[i].kind < SIM_SEEK_AVERAGE)
			measure(&metrics[i]);
		else if (profile.rotational)
			printf("%s\t-\t-\t%.4g\n", metrics[i].name,
			       measure_seek(metrics[i].kind) / 1e3);
	}
	return 0;
}

static const char usage[] =
	"usage: rotdisk-sim floor PROFILE < LBA<tab>SECTORS lines\n"
	"         ns to read each of these sectors once, in ascending order\n"
	"       rotdisk-sim replay PROFILE [--depth N] < LBA<tab>SECTORS<tab>R|W|F lines\n"
	"         ns to run these commands, N at a time (default 1)\n"
	"       rotdisk-sim measure PROFILE\n"
	"         figures of the drive, as makers and testers publish them\n"
	"       rotdisk-sim check PROFILE\n"
	"         is the profile valid?\n";

static int usage_error(const char *what)
{
	fprintf(stderr, "rotdisk-sim: %s, see rotdisk-sim --help\n", what);
	return SIM_USAGE;
}

static int run_command(int argc, char **argv)
{
	const char *name = argv[1];
	u64 depth = 1;

	if (!strcmp(name, "floor") && argc == 3) {
		read_profile(argv[2]);
		return cmd_floor();
	}
	if (!strcmp(name, "check") && argc == 3) {
		read_profile(argv[2]);
		return 0;
	}
	if (!strcmp(name, "measure") && argc == 3) {
		read_profile(argv[2]);
		return cmd_measure();
	}
	if (!strcmp(name, "replay") &&
	    (argc == 3 || (argc == 5 && !strcmp(argv[3], "--depth")))) {
		if (argc == 5 && (!parse_number(argv[4], ROTDISK_MAX_DEPTH,
						&depth) || !depth))
			return usage_error("--depth must be 1 to 32");
		read_profile(argv[2]);
		if (depth > profile.queue_depth)
			return usage_error("--depth exceeds the queue of the drive");
		return cmd_replay(depth);
	}
	return usage_error("unknown command or wrong number of arguments");
}

int main(int argc, char **argv)
{
	int status;

	if (argc < 2)
		return usage_error("no command");
	if (!strcmp(argv[1], "--help")) {
		fputs(usage, stdout);
		return 0;
	}
	status = run_command(argc, argv);
	if (fflush(stdout) || ferror(stdout))
		die(SIM_FAILED, "cannot write standard output: %s",
		    strerror(errno));
	return status;
}
