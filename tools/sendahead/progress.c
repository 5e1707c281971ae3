// SPDX-License-Identifier: GPL-2.0
/*
 * Shows on a terminal how far the send is. A process of its own estimates the number of leaves. The
 * reader tells how many of them, and how much file data, it has read ahead; the send has passed as
 * large a share of these leaves as of the data.
 */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "send-ahead.h"
#include "room.h"
#include "report.h"

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
		if (seconds > 1 && shared->stream_bytes && !progress_is_in_background() &&
		    !others_show())
			show(shared, share, seconds);
	}
}
