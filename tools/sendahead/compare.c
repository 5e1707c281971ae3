// SPDX-License-Identifier: GPL-2.0
/*
 * Measures how long btrfs send and sendahead send take: in turn, each with cold caches, to
 * /dev/null. Nothing is written to the disk.
 */
#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <linux/btrfs.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "child.h"
#include "disk.h"
#include "report.h"
#include "room.h"

enum { PLAIN, OURS, KINDS };

static void drop_caches(void)
{
	int fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);

	sync();
	if (fd < 0 || write(fd, "3", 1) != 1)
		give_up("the caches cannot be dropped: %m");
	close(fd);
}

/* Run a send to /dev/null. Return: how long it took, in nanoseconds. */
static u64 time_of(char **command, int kind)
{
	u64 begun = now_ns();
	int status, null;
	pid_t pid = fork();

	if (pid < 0)
		give_up("no process can be started: %m");
	if (!pid) {
		null = open("/dev/null", O_WRONLY);
		dup2(null, STDOUT_FILENO);
		if (kind == PLAIN)
			child_become(command);
		command[0] = "sendahead";
		execv("/proc/self/exe", command);
		_exit(127);
	}
	if (waitpid(pid, &status, 0) != pid || status)
		give_up("the send has failed");
	return now_ns() - begun;
}

/* Describe the devices of a file system in @text, without characters that JSON escapes. */
static void describe(const char *path, char *text, size_t size)
{
	struct btrfs_ioctl_get_subvol_info_args info;
	struct disk disk = { 0 };
	size_t i, n = 0;

	disk_open(&disk, open_subvolume(path, &info));
	for (i = 0; i < disk.nr_devices && n < size; i++) {
		char file[PATH_MAX + 20], model[64] = "";
		size_t j;

		snprintf(file, sizeof(file), "%s/device/model", disk.devices[i].path ?: "");
		room_scan(file, "%63[^\n]", model);
		for (j = strlen(model); j && isspace(model[j - 1]); j--)
			model[j - 1] = 0;
		for (j = 0; model[j]; j++)
			if (!isalnum(model[j]) && !strchr(" -_.+/", model[j]))
				model[j] = '?';
		n += snprintf(text + n, size - n, "%s%s, %.0f GB", i ? "; " : "",
			      *model ? model : "unknown model",
			      lseek(disk.devices[i].fd, 0, SEEK_END) / 1e9);
	}
	if (n < size)
		snprintf(text + n, size - n, disk.has_heads ? ", rotating" : ", not rotating");
}

static void print_times(const char *name, const u64 *times, u32 samples)
{
	u32 i;

	printf("\"%s\":[", name);
	for (i = 0; i < samples; i++)
		printf("%s%ju", i ? "," : "", times[i]);
	printf("],");
}

int compare(const struct options *options)
{
	static const char *const names[] = { "btrfs send:", "sendahead send:" };
	u32 samples = options->samples, i;
	u64 *times = calloc(KINDS * samples, sizeof(*times));
	char **command = calloc(options->nr_words + 2, sizeof(*command));
	struct utsname kernel;
	char disks[512] = "";
	double means[KINDS] = { 0 };
	int kind;

	if (!times || !command)
		give_up("no memory");
	memcpy(command + 1, options->command, options->nr_words * sizeof(*command));
	command[0] = command[1];
	command[1] = command[2];
	command[2] = "-q";
	uname(&kernel);
	describe(options->subvolumes[0], disks, sizeof(disks));
	fprintf(stderr, "sendahead: %u sends by btrfs and %u by sendahead to /dev/null; all caches of this "
		"machine are dropped before each\n", samples, samples);
	for (i = 0; i < samples; i++) {
		for (kind = PLAIN; kind < KINDS; kind++) {
			drop_caches();
			times[kind * samples + i] = time_of(command, kind);
			means[kind] += times[kind * samples + i] / 1e9 / samples;
		}
	}
	for (kind = PLAIN; kind < KINDS; kind++)
		qsort(times + kind * samples, samples, sizeof(*times), by_number);
	if (options->json) {
		printf("{");
		print_times("btrfs_ns", times, samples);
		print_times("sendahead_ns", times + samples, samples);
		printf("\"ratio\":%.3f,\"kernel\":\"%s\",\"disk\":\"%s\",\"version\":\"" VERSION "\"}\n",
		       means[OURS] / means[PLAIN], kernel.release, disks);
		return 0;
	}
	printf("%s send: sendahead " VERSION " takes %.2f of the time of btrfs, %.1f times as fast\n",
	       options->parent ? "incremental" : "full", means[OURS] / means[PLAIN],
	       means[PLAIN] / means[OURS]);
	for (kind = PLAIN; kind < KINDS; kind++)
		printf("%-15s %.2f s (%u samples, %.2f to %.2f)\n", names[kind], means[kind], samples,
		       times[kind * samples] / 1e9, times[kind * samples + samples - 1] / 1e9);
	printf("Linux %s %s; %s\n", kernel.release, kernel.machine, disks);
	return 0;
}
