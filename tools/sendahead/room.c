// SPDX-License-Identifier: GPL-2.0
/*
 * How much memory and how many processes this program may use.
 */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>

#include "room.h"

#define LEAST (1ULL << 20)		/* smallest window */
#define LIMIT (1ULL << 30)		/* largest default window */
#define ENOUGH (32ULL << 20)		/* with less free memory nothing is read ahead */
#define PRESSURE 20			/* percent of the time that a process waits for memory */
#define LOOK_NS 1000000000		/* the limit of threads is looked up so often */

int room_scan(const char *path, const char *format, ...)
{
	FILE *file = fopen(path, "re");
	va_list args;
	int n;

	if (!file)
		return 0;
	va_start(args, format);
	n = vfscanf(file, format, args);
	va_end(args);
	fclose(file);
	return n;
}

/* Return: the number in a file, or @otherwise. */
static u64 number_in(const char *path, const char *format, u64 otherwise)
{
	unsigned long long number;

	return room_scan(path, format, &number) == 1 ? number : otherwise;
}

/* The files of a control group that hold a limit and its present use. */
struct files {
	const char *controller;		/* of version 1; "": version 2 */
	const char *limit, *used;
};

static const struct files memory[] = {
	{ "", "memory.max", "memory.current" },
	{ "", "memory.high", "memory.current" },
	{ "memory", "memory.limit_in_bytes", "memory.usage_in_bytes" },
	{ }
}, processes[] = {
	{ "", "pids.max", "pids.current" },
	{ "pids", "pids.max", "pids.current" },
	{ }
};

/* Return: bytes of a group's memory that the kernel can reclaim. */
static u64 reclaimable(const char *path)
{
	FILE *file = fopen(path, "re");
	unsigned long long number;
	u64 own = 0, all = 0;
	char name[64];

	while (file && fscanf(file, "%63s %llu", name, &number) == 2) {
		if (!strcmp(name, "inactive_file") || !strcmp(name, "active_file") ||
		    !strcmp(name, "slab_reclaimable"))
			own += number;
		/* in version 1 only the totals include the groups below */
		if (!strcmp(name, "total_inactive_file") || !strcmp(name, "total_active_file"))
			all += number;
	}
	if (file)
		fclose(file);
	return own > all ? own : all;
}

/* Did a process wait for memory in a good part of the last ten seconds? */
static int is_short(const char *path)
{
	return number_in(path, "some avg10=%llu", 0) >= PRESSURE;
}

/* Return: how much more a group may use. */
static u64 left_in(const struct files *files, const char *group)
{
	char path[PATH_MAX + 60];
	int n = snprintf(path, sizeof(path), "/sys/fs/cgroup/%s%s/", files->controller, group);
	u64 limit, used, back = 0;

	strcpy(path + n, files->limit);
	limit = number_in(path, "%llu", NONE);
	if (limit == NONE)
		return NONE;
	strcpy(path + n, files->used);
	used = number_in(path, "%llu", 0);
	if (files->limit[0] == 'm') {
		strcpy(path + n, "memory.stat");
		back = reclaimable(path);
		strcpy(path + n, "memory.pressure");
		if (is_short(path))
			return 0;
	}
	used -= min_u64(used, back);
	return limit - min_u64(limit, used);
}

/* Return: how much more this process may use by its control groups and those above them. */
static u64 left(const struct files *files)
{
	FILE *file = fopen("/proc/self/cgroup", "re");
	char line[PATH_MAX];
	u64 left = NONE;

	while (file && fgets(line, sizeof(line), file)) {
		/* "4:memory:/group", in version 2 "0::/group" */
		char *list = strchr(line, ':'), *group = list ? strchr(list + 1, ':') : NULL;
		const struct files *each;

		if (!group)
			continue;
		list++;
		*group++ = 0;
		group[strcspn(group, "\n")] = 0;
		/* up to "": a container may see its own group there, under a path of the host */
		for (;;) {
			for (each = files; each->limit; each++)
				if (*list ? *each->controller && strstr(list, each->controller) :
					    !*each->controller)
					left = min_u64(left, left_in(each, group));
			if (!*group)
				break;
			*(strrchr(group, '/') ?: group) = 0;
		}
	}
	if (file)
		fclose(file);
	return left;
}

u64 room_memory(void)
{
	u64 available = number_in("/proc/meminfo", "%*s%*s%*s%*s%*s%*s MemAvailable: %llu",
				  0) << 10;

	return is_short("/proc/pressure/memory") ? 0 : min_u64(available, left(memory));
}

int room_enough(void)
{
	return room_memory() >= ENOUGH;
}

u64 room_processes(void)
{
	return left(processes);
}

u32 room_threads(u32 wanted)
{
	static u64 looked, most;

	if (wanted > 1 && (!looked || now_ns() - looked > LOOK_NS)) {
		most = room_processes();
		most = 1 + (most > ROOM_BTRFS ? (most - ROOM_BTRFS) / 2 : 0);
		looked = now_ns();
	}
	return wanted > 1 ? min_u64(wanted, most) : wanted;
}

u64 room_window(u64 asked)
{
	u64 bytes = asked ? asked : min_u64(room_memory() / 8, LIMIT);

	return bytes < LEAST ? LEAST : bytes;
}
