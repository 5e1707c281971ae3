// SPDX-License-Identifier: GPL-2.0
/*
 * Reports of what was read and handed on: a line of JSON, or a sentence on a terminal.
 */
#include <stdio.h>
#include <unistd.h>

#include "report.h"

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

struct number {
	const char *name;
	unsigned long long value;
};

/* Print the reason for giving up and the @numbers, which end with one without a name. */
static void print(const struct options *options, struct stats *stats, const struct number *numbers)
{
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
	for (; numbers->name; numbers++)
		fprintf(file, ",\"%s\":%llu", numbers->name, numbers->value);
	fputs("}\n", file);
	if (file != stderr)
		fclose(file);
}

void report(const struct options *options, struct shared *shared)
{
	struct stats *stats = &shared->stats;
	const struct number numbers[] = {
		{ "disks", stats->disks },
		{ "threads", stats->threads },
		{ "window_bytes", stats->window_bytes },
		{ "windows", stats->windows },
		{ "nodes", stats->nodes },
		{ "leaves", stats->leaves },
		{ "leaves_passed", stats->leaves_passed },
		{ "leaves_failed", stats->leaves_failed },
		{ "others_seen", stats->others },
		{ "extents", stats->extents },
		{ "data_bytes", stats->data_bytes },
		{ "data_passed_bytes", stats->data_passed_bytes },
		{ "data_dropped_bytes", stats->dropped_bytes },
		{ "files_failed", stats->files_failed },
		{ "planned_bytes", stats->planned_bytes },
		{ "sent_bytes", shared->data },
		{ "stream_bytes", shared->stream_bytes },
		{ }
	};

	print(options, stats, numbers);
}

void report_on_terminal(const struct options *options, struct shared *shared, const char *command,
			u64 bytes, u64 ns)
{
	struct stats *stats = &shared->stats;

	if (options->quiet || !isatty(STDERR_FILENO) || progress_is_in_background())
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

void report_received(const struct options *options, const struct received *received,
		     struct shared *shared)
{
	struct stats *stats = &shared->stats;
	const struct number numbers[] = {
		{ "buffer_bytes", received->buffer_bytes },
		{ "stream_bytes", received->stream_bytes },
		{ "renames_saved", received->renames_saved },
		{ "windows", stats->windows },
		{ "paths", stats->paths },
		{ "nodes", stats->nodes },
		{ "leaves", stats->leaves },
		{ "leaves_failed", stats->leaves_failed },
		{ "others_seen", stats->others },
		{ }
	};

	print(options, stats, numbers);
}
