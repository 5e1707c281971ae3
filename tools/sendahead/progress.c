// SPDX-License-Identifier: GPL-2.0
/*
 * Shows on a terminal how far the send is. A process of its own estimates the number of leaves, and
 * tells from the amount of file data in the stream how many of them the send has passed.
 */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "send-ahead.h"
#include "room.h"
#include "progress.h"

/* Leaves, and bytes of data in the stream, up to the end of a window of the reader. */
struct mark {
	u64 leaves, bytes;
};

/* Return: how many leaves the send has passed; it is in the window @mark or the one before. */
static double passed(const struct mark *mark, u64 data)
{
	if (data < mark[0].bytes)
		mark--;
	if (data < mark[0].bytes || mark[1].bytes == mark[0].bytes)
		return mark[0].leaves;
	return mark[0].leaves + (double)(min_u64(data, mark[1].bytes) - mark[0].bytes) *
		(mark[1].leaves - mark[0].leaves) / (mark[1].bytes - mark[0].bytes);
}

/* Does another program of the pipeline show its progress? The two would overwrite each other. */
static int others_show(void)
{
	DIR *processes = opendir("/proc");
	struct dirent *entry;
	int found = 0;

	while (processes && !found && (entry = readdir(processes))) {
		char path[300], name[16] = "";
		pid_t pid = atoi(entry->d_name);

		if (pid <= 0 || getpgid(pid) != getpgrp())
			continue;
		snprintf(path, sizeof(path), "/proc/%d/comm", pid);
		room_scan(path, "%15s", name);
		found = !strcmp(name, "pv") || !strcmp(name, "mbuffer") || !strcmp(name, "bar");
	}
	if (processes)
		closedir(processes);
	return found;
}

int progress_is_in_background(void)
{
	pid_t group = tcgetpgrp(STDERR_FILENO);

	return group > 0 && group != getpgrp();
}

static void show(struct shared *shared, const struct mark *mark, double share, int all, u64 seconds)
{
	u64 bytes = shared->stream_bytes, data = shared->data;
	/* once the amount of data is known, it gives a better estimate of the time */
	double done = all && mark[2].bytes ? (double)data / mark[2].bytes : share;

	fprintf(stderr, "\r%.1f MB, %.1f MB/s", bytes / 1e6, bytes / 1e6 / seconds);
	if (share > 0 && share <= 1 && done > 0 && done <= 1)
		fprintf(stderr, ", %.0f %% of the leaves, %.0f s left", share * 100,
			seconds * (1 - done) / done);
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
	struct mark mark[3] = { 0 };
	double leaves = 0, share = 0;
	u64 seconds;

	for (seconds = 1;; seconds++) {
		int all = shared->stats.planned_all;
		struct mark now = { shared->stats.planned_leaves, shared->stats.planned_bytes };

		sleep(1);
		/* not for short sends, and not for several subvolumes, whose end is not known */
		if (seconds == 2 && options->nr_subvolumes == 1)
			leaves = count_leaves(options, shared);
		if (now.leaves != mark[2].leaves) {
			mark[0] = mark[1];
			mark[1] = mark[2];
			mark[2] = now;
		}
		if (leaves > 0 && (all || now.leaves > leaves))
			leaves = now.leaves;
		/* the estimate may be corrected: never go back */
		if (leaves > 0)
			share = fmax(share, passed(mark + 1, shared->data) / leaves);
		if (seconds > 1 && shared->stream_bytes && !progress_is_in_background() &&
		    !others_show())
			show(shared, mark, share, all, seconds);
	}
}
