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
	enum { SEND = 1, RECEIVE = 2, BOTH = SEND | RECEIVE } of = receives ? RECEIVE : SEND;
	const struct {
		const char *name;
		int of;
		unsigned long long value;
	} numbers[] = {
		{ "buffer_bytes", RECEIVE, stats->buffer_bytes },
		{ "stream_bytes", RECEIVE, shared->stream_bytes },
		{ "renames_saved", RECEIVE, stats->renames_saved },
		{ "disks", SEND, stats->disks },
		{ "threads", SEND, stats->threads },
		{ "window_bytes", SEND, stats->window_bytes },
		{ "windows", BOTH, stats->windows },
		{ "paths", RECEIVE, stats->paths },
		{ "nodes", BOTH, stats->nodes },
		{ "leaves", BOTH, stats->leaves },
		{ "leaves_passed", SEND, stats->leaves_passed },
		{ "leaves_failed", BOTH, stats->leaves_failed },
		{ "others_seen", BOTH, stats->others },
		{ "extents", SEND, stats->extents },
		{ "data_bytes", SEND, stats->data_bytes },
		{ "data_passed_bytes", SEND, stats->data_passed_bytes },
		{ "data_dropped_bytes", SEND, stats->dropped_bytes },
		{ "files_failed", SEND, stats->files_failed },
		{ "planned_bytes", SEND, stats->planned_bytes },
		{ "sent_bytes", SEND, shared->data },
		{ "stream_bytes", SEND, shared->stream_bytes },
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
