// SPDX-License-Identifier: GPL-2.0
/*
 * What was done, as JSON: one line.
 */
#include <stdio.h>

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

static void print_line(FILE *file, char *why, const struct number *numbers, size_t n)
{
	size_t i;

	fputs("{\"gave_up\":", file);
	if (why && *why)
		print_string(file, why);
	else
		fputs("null", file);
	for (i = 0; i < n; i++)
		fprintf(file, ",\"%s\":%llu", numbers[i].name, numbers[i].value);
	fputs("}\n", file);
}

static void print(FILE *file, struct place *place)
{
	struct stats *stats = &place->stats;
	const struct number numbers[] = {
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
		{ "sent_bytes", place->data },
		{ "stream_bytes", place->stream_bytes },
	};

	stats->why[sizeof(stats->why) - 1] = 0;
	print_line(file, stats->why, numbers, sizeof(numbers) / sizeof(*numbers));
}

static void print_received(FILE *file, const struct received *received, struct place *place)
{
	static struct stats none;
	struct stats *stats = place ? &place->stats : &none;
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
	};

	stats->why[sizeof(stats->why) - 1] = 0;
	print_line(file, stats->why, numbers, sizeof(numbers) / sizeof(*numbers));
}

/* Where it goes, or NULL after a message. */
static FILE *begin(const struct options *options)
{
	FILE *file = stderr;

	if (options->json_file)
		file = fopen(options->json_file, "we");
	if (!file)
		fprintf(stderr, "sendahead: cannot write %s: %m\n", options->json_file);
	return file;
}

void report(const struct options *options, struct place *place)
{
	FILE *file = begin(options);

	if (file)
		print(file, place);
	if (file && file != stderr)
		fclose(file);
}

void report_received(const struct options *options, const struct received *received,
		     struct place *place)
{
	FILE *file = begin(options);

	if (file)
		print_received(file, received, place);
	if (file && file != stderr)
		fclose(file);
}
