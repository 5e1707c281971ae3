/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The command line: that of btrfs send or receive, and a few options of our own.
 */
#ifndef SENDAHEAD_OPTIONS_H
#define SENDAHEAD_OPTIONS_H

#include "util.h"

struct options {
	/* what btrfs is called with, ending in NULL */
	char **command;
	size_t nr_words;
	char **globals;		/* those of its options that stand before "send" or "receive" */
	int nr_globals;
	/* of btrfs send */
	char **subvolumes;
	size_t nr_subvolumes;
	const char *parent;
	char **clones;
	size_t nr_clones;
	const char *file;
	int no_data, compressed_data, quiet;
	int verbose;		/* so many times */
	/* of btrfs receive */
	char **piped;		/* the command without -f */
	const char *directory;
	int to_end;		/* what follows the end of the stream is not read */
	int direct;		/* btrfs alone has to do with its stream */
	/* ours */
	u64 window;		/* bytes, 0: automatic */
	u32 threads;		/* 0: automatic */
	double disk_random, disk_rate;	/* of estimate: seconds, bytes a second; 0: measured */
	int nice;
	int json;
	const char *json_file;
	u64 buffer;		/* of receive: bytes, 0: automatic */
	int unchanged;		/* of receive: no command of the stream is */
	int no_ahead, no_sync;
	u32 samples;		/* of compare */
	int drop_caches;	/* of compare: it may */
};

/**
 * options_parse() - take the command line apart
 * @options: zeros, but for global options; filled
 * @command: "send", "receive", "estimate", "compare" or "warm"
 * @argc: how many arguments it has, with one in front of them
 * @argv: them; kept
 *
 * Ends the program after a message where options of ours are wrong. What is wrong with options
 * of btrfs it says itself.
 */
void options_parse(struct options *options, const char *command, int argc, char **argv);

#endif
