/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The command line: that of btrfs send or receive, and a few options of our own.
 */
#ifndef SENDAHEAD_OPTIONS_H
#define SENDAHEAD_OPTIONS_H

#include "util.h"

struct options {
	/* the arguments for btrfs, ending with NULL */
	char **command;
	size_t nr_words;
	char **globals;		/* btrfs' options in front of "send" or "receive" */
	int nr_globals;
	/* of btrfs send */
	char **subvolumes;
	size_t nr_subvolumes;
	const char *parent;
	char **clones;
	size_t nr_clones;
	const char *file;
	int no_data, compressed_data, quiet;
	int verbose;		/* how often -v was given */
	/* of btrfs receive */
	char **piped;		/* the command without -f */
	const char *directory;
	int to_end;		/* -e: stop reading at the end of the stream */
	int direct;		/* btrfs reads or writes its stream itself */
	/* ours */
	u64 window;		/* bytes, 0: automatic */
	u32 threads;		/* 0: automatic */
	double disk_random, disk_rate;	/* of estimate: seconds, bytes a second; 0: measured */
	int nice;
	int json;
	const char *json_file;
	u64 buffer;		/* of receive: bytes, 0: automatic */
	int unchanged;		/* of receive: fold no commands */
	int no_ahead, no_sync;
	u32 samples;		/* of compare */
	int drop_caches;	/* of compare: allowed to */
};

/**
 * options_parse() - parse the command line
 * @options: zeros, but for globals and nr_globals; filled
 * @command: "send", "receive", "estimate", "compare" or "warm"
 * @argc: number of arguments, including the command's own name
 * @argv: the arguments; not copied
 *
 * Prints a message and ends the program if options of ours are wrong. Wrong options of btrfs are
 * left to btrfs.
 */
void options_parse(struct options *options, const char *command, int argc, char **argv);

#endif
