// SPDX-License-Identifier: GPL-2.0
/*
 * The command line: that of btrfs send, and a few options of our own, which are taken
 * out of it.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "options.h"
#include "place.h"

enum { WINDOW = 256, THREADS, NICE, JSON, DISK, CPU, NO_DATA, COMPRESSED, OTHER };

static const struct option long_options[] = {
	{ "window", required_argument, NULL, WINDOW },
	{ "threads", required_argument, NULL, THREADS },
	{ "nice", no_argument, NULL, NICE },
	{ "json", optional_argument, NULL, JSON },
	/* of estimate */
	{ "disk", required_argument, NULL, DISK },
	{ "cpu", required_argument, NULL, CPU },
	/* those of btrfs send */
	{ "no-data", no_argument, NULL, NO_DATA },
	{ "compressed-data", no_argument, NULL, COMPRESSED },
	{ "proto", required_argument, NULL, OTHER },
	{ "verbose", no_argument, NULL, 'v' },
	{ "quiet", no_argument, NULL, 'q' },
	{ "help", no_argument, NULL, OTHER },
	{ }
};

static int wrong(const char *option, const char *value, const char *what)
{
	fprintf(stderr, "sendahead: %s takes %s, not '%s'\n", option, what, value);
	return 2;
}

/* Bytes, with K, M or G; at least 1 MiB. */
int options_size(const char *option, const char *value, u64 *size)
{
	static const char units[] = "KMG";
	unsigned long long number;
	const char *unit;
	char *end;

	number = strtoull(value, &end, 10);
	if (*value < '0' || *value > '9' || number > UINT64_MAX >> 31)
		number = 0;
	unit = *end && !end[1] ? strchr(units, *end) : NULL;
	if (unit)
		number <<= 10 * (unit - units + 1);
	else if (*end)
		number = 0;
	if (number < 1 << 20)
		return wrong(option, value, "a size from 1M up, such as 256M");
	*size = number;
	return 0;
}

static int take_threads(struct options *options, const char *value)
{
	unsigned long number;
	char *end;

	number = strtoul(value, &end, 10);
	if (*value < '0' || *value > '9' || *end || !number || number > MAX_THREADS)
		return wrong("--threads", value, "a number from 1 to 128");
	options->threads = number;
	return 0;
}

static int take_disk(struct options *options, const char *value)
{
	double random, rate;
	char end;

	if (sscanf(value, "%lf,%lf%c", &random, &rate, &end) != 2 || !(random > 0 && random < 1e4) ||
	    !(rate > 0 && rate < 1e6))
		return wrong("--disk", value, "milliseconds and MB/s, such as 12.5,150");
	options->disk_random = random / 1e3;
	options->disk_rate = rate * 1e6;
	return 0;
}

static int take_cpu(struct options *options, const char *value)
{
	char end;

	if (sscanf(value, "%lf%c", &options->cpu, &end) != 1 || !(options->cpu >= 0 && options->cpu < 1e6))
		return wrong("--cpu", value, "microseconds for a small file, such as 40");
	return 0;
}

static int take(struct options *options, int option, char *value)
{
	switch (option) {
	case WINDOW:
		return options_size("--window", value, &options->window);
	case THREADS:
		return take_threads(options, value);
	case NICE:
		options->nice = 1;
		break;
	case DISK:
		return take_disk(options, value);
	case CPU:
		return take_cpu(options, value);
	case JSON:
		options->json = 1;
		options->json_file = value;
		break;
	case NO_DATA:
		options->no_data = 1;
		break;
	case COMPRESSED:
		options->compressed_data = 1;
		break;
	case 'v':
		options->verbose = 1;
		break;
	case 'q':
		options->quiet = 1;
		break;
	case 'f':
		options->file = value;
		break;
	case 'p':
		options->parent = value;
		break;
	case 'c':
		options->clones[options->nr_clones++] = value;
		break;
	case 1:
		options->subvolumes[options->nr_subvolumes++] = value;
		break;
	}
	return 0;
}

int options_parse(struct options *options, int argc, char **argv)
{
	int send = strcmp(argv[0], "estimate") && strcmp(argv[0], "warm");
	int option, n = 0, from = 1, status;

	memset(options, 0, sizeof(*options));
	options->cpu = -1;
	options->command = calloc(argc + 2, sizeof(char *));
	options->subvolumes = calloc(argc, sizeof(char *));
	options->clones = calloc(argc, sizeof(char *));
	if (!options->command || !options->subvolumes || !options->clones) {
		fprintf(stderr, "sendahead: no memory\n");
		return 1;
	}
	options->command[n++] = "btrfs";
	options->command[n++] = "send";
	opterr = !send;
	/* '-': in the order they stand in */
	while ((option = getopt_long(argc, argv, "-vec:f:i:p:q", long_options, NULL)) != -1) {
		if (send && (option == DISK || option == CPU))
			option = OTHER;
		if (!send && option == '?')
			return 2;
		status = take(options, option, optarg);
		if (status)
			return status;
		for (; from < optind; from++)
			if (option < WINDOW || option >= NO_DATA)
				options->command[n++] = argv[from];
	}
	while (from < argc)
		options->command[n++] = argv[from++];
	while (optind < argc)
		options->subvolumes[options->nr_subvolumes++] = argv[optind++];
	if (!send && !options->nr_subvolumes) {
		fprintf(stderr, "sendahead: %s takes a snapshot, see sendahead --help\n", argv[0]);
		return 2;
	}
	return 0;
}
