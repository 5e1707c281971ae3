// SPDX-License-Identifier: GPL-2.0
/*
 * What the user is told: at the end a line of JSON or a sentence on a terminal, and there how far
 * the send is. For this a process of its own estimates the number of leaves. The reader tells how
 * many of them, and how much file data, it has read ahead; the send has passed as large a share of
 * these leaves as of the data.
 */
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "report.h"
#include "room.h"
#include "send-ahead.h"

static void print_string(FILE *file, const char *text)
{
	fputc('"', file);
	for (; *text; text++)
		if ((u8)*text < 32 || *text == '"' || *text == '\\' || (u8)*text > 126)
			fprintf(file, "\\u%04x", (u8)*text);
		else
			fputc(*text, file);
	fputc('"', file);
}

void report(const struct options *options, struct shared *shared, int receives)
{
	struct stats *stats = &shared->stats;
	enum { SEND = 1, RECEIVE = 2, BOTH = SEND | RECEIVE } of = receives ? RECEIVE : SEND;
	const struct {
		const char *name;
		int of;
		unsigned long long value;
	} numbers[] = {
		{ "buffer_bytes", RECEIVE, stats->buffer_bytes },
		{ "renames_saved", RECEIVE, stats->renames_saved },
		{ "disks", SEND, stats->disks },
		{ "threads", SEND, stats->threads },
		{ "window_bytes", SEND, stats->window_bytes },
		{ "windows", BOTH, stats->windows },
		{ "paths", RECEIVE, stats->paths },
		{ "nodes", BOTH, stats->nodes },
		{ "leaves", BOTH, stats->leaves },
		{ "leaves_failed", BOTH, stats->leaves_failed },
		{ "others_seen", BOTH, stats->others },
		{ "extents", SEND, stats->extents },
		{ "data_bytes", BOTH, stats->data_bytes },
		{ "data_passed_bytes", SEND, stats->data_passed_bytes },
		{ "data_dropped_bytes", SEND, stats->dropped_bytes },
		{ "files_failed", SEND, stats->files_failed },
		{ "planned_bytes", SEND, stats->planned_bytes },
		{ "sent_bytes", SEND, shared->data },
		{ "stream_bytes", BOTH, shared->stream_bytes },
	};
	size_t i;
	FILE *file = stderr;

	if (options->json_file)
		file = fopen(options->json_file, "we");
	if (!file) {
		fprintf(stderr, "sendahead: cannot write %s: %m\n", options->json_file);
		return;
	}
	fputs("{\"gave_up\":", file);
	/* the reader may have been killed while it wrote this */
	stats->why[sizeof(stats->why) - 1] = 0;
	if (*stats->why)
		print_string(file, stats->why);
	else
		fputs("null", file);
	for (i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (numbers[i].of & of)
			fprintf(file, ",\"%s\":%llu", numbers[i].name, numbers[i].value);
	for (i = 0; i < stats->disks && i < DISKS && !receives; i++)
		fprintf(file, "%s%llu", i ? "," : ",\"disk_bytes\":[", stats->disk_bytes[i]);
	fputs(i ? "]}\n" : "}\n", file);
	if (file != stderr)
		fclose(file);
}

/* Is this a background job of the terminal on standard error? */
static int is_in_background(void)
{
	pid_t group = tcgetpgrp(STDERR_FILENO);

	return group > 0 && group != getpgrp();
}

void report_on_terminal(const struct options *options, struct shared *shared, const char *command,
			u64 ns)
{
	struct stats *stats = &shared->stats;
	u64 bytes = shared->stream_bytes;

	if (options->quiet || !isatty(STDERR_FILENO) || is_in_background())
		return;
	fprintf(stderr, "sendahead %s: %.1f MB in %.1f s, %.1f MB/s; ", command, bytes / 1e6,
		ns / 1e9, bytes * 1e3 / ns);
	if (stats->data_bytes)
		fprintf(stderr, "%.1f MB of data, ", stats->data_bytes / 1e6);
	if (stats->paths)
		fprintf(stderr, "%llu paths, ", stats->paths);
	fprintf(stderr, "%llu blocks read ahead", stats->nodes + stats->leaves);
	stats->why[sizeof(stats->why) - 1] = 0;
	fprintf(stderr, "%s%s\n", *stats->why ? ": " : "", stats->why);
}

/* Does another program of the pipeline show its progress? The two would overwrite each other. */
static int others_show(void)
{
	glob_t processes = { 0 };
	int found = 0;
	size_t i;

	glob("/proc/[0-9]*/comm", 0, NULL, &processes);
	for (i = 0; i < processes.gl_pathc && !found; i++) {
		const char *path = processes.gl_pathv[i];
		char name[16] = "";

		if (getpgid(atoi(path + strlen("/proc/"))) != getpgrp())
			continue;
		room_scan(path, "%15s", name);
		found = !strcmp(name, "pv") || !strcmp(name, "mbuffer") || !strcmp(name, "bar");
	}
	globfree(&processes);
	return found;
}

static void show(struct shared *shared, double share, u64 seconds)
{
	u64 bytes = shared->stream_bytes;

	fprintf(stderr, "\r%.1f MB, %.1f MB/s", bytes / 1e6, bytes / 1e6 / seconds);
	if (share > 0 && share <= 1)
		fprintf(stderr, ", %.0f %% of the leaves, %.0f s left", share * 100,
			seconds * (1 - share) / share);
	fputs("\033[K", stderr);
	shared->shown = 1;
}

static size_t count_leaves(const struct options *options, struct shared *shared)
{
	struct needs needs = { 0 };

	send_ahead_list(options, shared, &needs);
	free(needs.leaves.v);
	return needs.leaves.n;
}

void progress(const struct options *options, struct shared *shared)
{
	struct stats *stats = &shared->stats;
	double leaves = 0, share = 0;
	u64 seconds;

	for (seconds = 1;; seconds++) {
		u64 planned = stats->planned_leaves, bytes = stats->planned_bytes;

		sleep(1);
		/* not for short sends, and not for several subvolumes, whose end is not known */
		if (seconds == 2 && options->nr_subvolumes == 1)
			leaves = count_leaves(options, shared);
		if (leaves > 0 && (stats->planned_all || planned > leaves))
			leaves = planned;
		/* the estimate may be corrected: never go back */
		if (leaves > 0 && bytes)
			share = fmax(share, planned / leaves *
				     fmin((double)shared->data / bytes, 1));
		if (seconds > 1 && shared->stream_bytes && !is_in_background() && !others_show())
			show(shared, share, seconds);
	}
}
