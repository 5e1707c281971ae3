// SPDX-License-Identifier: GPL-2.0
/*
 * What the machine says of itself, and how much of it we may have.
 */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>

#include "limits.h"

#define LEAST (1ULL << 20)		/* of windows */
#define LIMIT (1ULL << 30)		/* of automatic windows */

int limits_scan(const char *path, const char *format, ...)
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

/* The number in a file, @otherwise where there is none. */
static u64 number_in(const char *path, const char *format, u64 otherwise)
{
	unsigned long long number;

	return limits_scan(path, format, &number) == 1 ? number : otherwise;
}

/* What a control group may have. */
static u64 limit_of(const char *group)
{
	static const char *const files[] = {
		"/sys/fs/cgroup%s/memory.max", "/sys/fs/cgroup%s/memory.high",
		"/sys/fs/cgroup/memory%s/memory.limit_in_bytes",
	};
	char path[PATH_MAX + 60];
	u64 limit = NONE;
	size_t i;

	for (i = 0; i < sizeof(files) / sizeof(*files); i++) {
		snprintf(path, sizeof(path), files[i], group);
		limit = min_u64(limit, number_in(path, "%llu", NONE));
	}
	return limit;
}

u64 limits_memory(void)
{
	FILE *file = fopen("/proc/self/cgroup", "re");
	char line[PATH_MAX];
	u64 limit = number_in("/proc/meminfo", "%*s%*s%*s%*s%*s%*s MemAvailable: %llu",
			      0) << 10;

	while (file && fgets(line, sizeof(line), file)) {
		/* version 2, or 1 */
		char *group = strstr(line, strncmp(line, "0::", 3) ? ":memory:/" : "/"), *slash;

		if (!group)
			continue;
		group += strcspn(group, "/");
		group[strcspn(group, "\n")] = 0;
		/* up to "": a container may see its own group there, under a path of the host */
		do {
			limit = min_u64(limit, limit_of(group));
			slash = strrchr(group, '/');
			if (slash)
				*slash = 0;
		} while (slash);
	}
	if (file)
		fclose(file);
	return limit;
}

u64 limits_window(u64 asked)
{
	u64 bytes = asked ? asked : min_u64(limits_memory() / 8, LIMIT);

	return bytes < LEAST ? LEAST : bytes;
}

u64 limits_dirty(void)
{
	return (number_in("/proc/meminfo", "%*[^D]Dirty: %llu", 0) +
		number_in("/proc/meminfo", "%*[^D]Dirty: %*u kB Writeback: %llu", 0)) << 10;
}
