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

void report(const struct options *options, struct shared *shared, int receives)
{
	struct stats *stats = &shared->stats;
	const struct {
		const char *name;
		unsigned long long value;
	} numbers[] = {
		/* of a receive */
		{ "buffer_bytes", stats->buffer_bytes },
		{ "renames_saved", stats->renames_saved },
		{ "paths", stats->paths },
		/* of both */
		{ "windows", stats->windows },
		{ "nodes", stats->nodes },
		{ "leaves", stats->leaves },
		{ "leaves_failed", stats->leaves_failed },
		{ "others_seen", stats->others },
		{ "stream_bytes", shared->stream_bytes },
		/* of a send */
		{ "disks", stats->disks },
		{ "threads", stats->threads },
		{ "window_bytes", stats->window_bytes },
		{ "leaves_passed", stats->leaves_passed },
		{ "extents", stats->extents },
		{ "data_bytes", stats->data_bytes },
		{ "data_passed_bytes", stats->data_passed_bytes },
		{ "data_dropped_bytes", stats->dropped_bytes },
		{ "files_failed", stats->files_failed },
		{ "planned_bytes", stats->planned_bytes },
		{ "sent_bytes", shared->data },
	};
	size_t i = receives ? 0 : 3, end = receives ? 9 : sizeof(numbers) / sizeof(*numbers);
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
	for (; i < end; i++)
		fprintf(file, ",\"%s\":%llu", numbers[i].name, numbers[i].value);
	fputs("}\n", file);
	if (file != stderr)
		fclose(file);
}

void report_on_terminal(const struct options *options, struct shared *shared, const char *command,
			u64 ns)
{
	struct stats *stats = &shared->stats;
	u64 bytes = shared->stream_bytes;

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
