// SPDX-License-Identifier: GPL-2.0
/*
 * The command line: that of btrfs send or receive, with a few options of ours, which btrfs does not
 * get.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "options.h"
#include "shared.h"

enum { WINDOW = 256, THREADS, JSON, DISK, SAMPLES, BUFFER, DIRECT, OTHER };

/* Print that an option takes another kind of value, and end. */
static void wrong(const char *option, const char *value, const char *what)
{
	fprintf(stderr, "sendahead: %s takes %s, not '%s'\n", option, what, value);
	exit(2);
}

/* Bytes, with K, M or G; at least 1 MiB. */
static u64 take_size(const char *option, const char *value)
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
		wrong(option, value, "a size from 1M up, such as 256M");
	return number;
}

/* A number from 1 to 128. */
static u32 take_number(const char *option, const char *value)
{
	char *end;
	unsigned long number = strtoul(value, &end, 10);

	if (*value < '0' || *value > '9' || *end || !number || number > MAX_THREADS)
		wrong(option, value, "a number from 1 to 128");
	return number;
}

static void take_disk(struct options *options, const char *value)
{
	double random, rate;
	char end;

	if (sscanf(value, "%lf,%lf%c", &random, &rate, &end) != 2 || !(random > 0 && random < 1e4) ||
	    !(rate > 0 && rate < 1e6))
		wrong("--disk", value, "milliseconds and MB/s, such as 12.5,150");
	options->disk_random = random / 1e3;
	options->disk_rate = rate * 1e6;
}

static void take(struct options *options, int option, char *value)
{
	switch (option) {
	case WINDOW:
		options->window = take_size("--window", value);
		break;
	case THREADS:
		options->threads = take_number("--threads", value);
		break;
	case DISK:
		take_disk(options, value);
		break;
	case SAMPLES:
		options->samples = take_number("--samples", value);
		break;
	case JSON:
		options->json = 1;
		options->json_file = value;
		break;
	case BUFFER:
		options->buffer = take_size("--buffer", value);
		break;
	case 'v':
		options->verbose++;
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
	case 'e':
		options->to_end = 1;
		break;
	case 'E':
		/* btrfs counts failed commands: folding would change their number */
		options->unchanged |= strcmp(value, "1") != 0;
		break;
	case DIRECT:
	case '?':
		options->direct = 1;
		break;
	case 1:
		options->subvolumes[options->nr_subvolumes++] = value;
		break;
	}
}

/*
 * Set @words[0] to the options in a word such as -vf that precede its -f. Return: the number of
 * words set: 0 if there are none.
 */
static int without_file(const char *word, char **words)
{
	size_t n = strcspn(word, "f");

	if (n < 2)
		return 0;
	*words = strndup(word, n);
	return *words != NULL;
}

/* Print why the options are wrong, and end. */
static void refuse(const char *command, const char *why)
{
	fprintf(stderr, "sendahead: %s %s\n", command, why);
	exit(2);
}

void options_parse(struct options *options, const char *command, int argc, char **argv)
{
	const struct option send_options[] = {
		/* not of send */
		{ "disk", required_argument, NULL, DISK },
		{ "samples", required_argument, NULL, SAMPLES },
		{ "drop-caches", no_argument, &options->drop_caches, 1 },
		/* ours */
		{ "window", required_argument, NULL, WINDOW },
		{ "threads", required_argument, NULL, THREADS },
		{ "nice", no_argument, &options->nice, 1 },
		{ "json", optional_argument, NULL, JSON },
		/* those of btrfs send */
		{ "no-data", no_argument, &options->no_data, 1 },
		{ "compressed-data", no_argument, &options->compressed_data, 1 },
		{ "proto", required_argument, NULL, OTHER },
		{ "verbose", no_argument, NULL, 'v' },
		{ "quiet", no_argument, NULL, 'q' },
		{ "help", no_argument, NULL, OTHER },
		{ }
	}, receive_options[] = {
		/* ours */
		{ "buffer", required_argument, NULL, BUFFER },
		{ "unchanged", no_argument, &options->unchanged, 1 },
		{ "no-ahead", no_argument, &options->no_ahead, 1 },
		{ "no-sync", no_argument, &options->no_sync, 1 },
		{ "nice", no_argument, &options->nice, 1 },
		{ "json", optional_argument, NULL, JSON },
		/* those of btrfs receive */
		{ "max-errors", required_argument, NULL, 'E' },
		{ "chroot", no_argument, NULL, OTHER },
		{ "dump", no_argument, NULL, DIRECT },
		{ "quiet", no_argument, NULL, 'q' },
		{ "verbose", no_argument, NULL, 'v' },
		{ "force-decompress", no_argument, NULL, OTHER },
		{ "help", no_argument, NULL, DIRECT },
		{ }
	};
	int send = !strcmp(command, "send"), receive = !strcmp(command, "receive");
	int alone = !send && !receive;	/* btrfs does not see the options */
	const struct option *all = receive ? receive_options : send_options + 3 * send;
	int ours = receive ? 6 : 7 - 3 * send;	/* the first so many are */
	int option, index, n = 1, piped, from = 1, room = argc + options->nr_globals + 2;

	options->samples = 2;
	options->command = calloc(4 * room, sizeof(char *));
	if (!options->command)
		refuse(command, "has no memory");
	options->piped = options->command + room;
	options->subvolumes = options->piped + room;
	options->clones = options->subvolumes + room;
	options->command[0] = options->piped[0] = "btrfs";
	for (; n <= options->nr_globals; n++) {
		char *word = options->globals[n - 1];

		options->command[n] = options->piped[n] = word;
		options->quiet |= strchr(word, 'q') != NULL;
		for (; *word; word++)
			options->verbose += *word == 'v';
	}
	options->command[n] = options->piped[n] = receive ? "receive" : "send";
	piped = ++n;
	opterr = alone;
	/* '-': getopt_long() returns other words as well, in their order */
	while (index = ours,
	       (option = getopt_long(argc, argv, receive ? "-Cevqf:m:E:" : "-vec:f:i:p:q", all,
				     &index)) != -1) {
		if (alone && option == '?')
			exit(2);
		take(options, option, optarg);
		if (option == 'f')
			piped += without_file(argv[from], &options->piped[piped]);
		for (; from < optind; from++) {
			if (index < ours)
				continue;
			options->command[n++] = argv[from];
			if (option != 'f')
				options->piped[piped++] = argv[from];
		}
	}
	for (; from < argc; from++)
		options->command[n++] = options->piped[piped++] = argv[from];
	options->nr_words = n;
	while (optind < argc)
		options->subvolumes[options->nr_subvolumes++] = argv[optind++];
	options->directory = options->subvolumes[0];
	if (alone && !options->nr_subvolumes)
		refuse(command, "takes a snapshot, see sendahead --help");
	if (!strcmp(command, "compare") && options->file)
		refuse(command, "sends to /dev/null and writes no file");
	if (!strcmp(command, "compare") && !options->drop_caches)
		refuse(command, "drops the page cache of the whole machine before each send, allow "
		       "that by --drop-caches");
	if (!strcmp(command, "estimate") &&
	    (options->nr_subvolumes > 1 || (options->nr_clones && !options->parent)))
		refuse(command, "takes one snapshot, and its parent by -p");
}
