// SPDX-License-Identifier: GPL-2.0
/*
 * The memory that the processes share. One of them may be killed at any time, so there are no
 * locks in it.
 */
#include <limits.h>
#include <unistd.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "shared.h"

static struct shared *shared;

struct shared *shared_init(void)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return shared == MAP_FAILED ? NULL : shared;
}

void shared_tell_change(void)
{
	atomic_fetch_add(&shared->changes, 1);
	syscall(SYS_futex, &shared->changes, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void shared_tell(const struct told *told, u64 bytes)
{
	if (told->begun != atomic_load(&shared->begun) ||
	    told->has_extents != shared->told.has_extents) {
		atomic_store(&shared->begun, 0);
		atomic_store(&shared->data, 0);
		atomic_store(&shared->ino, 0);
		shared->told = *told;
		atomic_store(&shared->begun, told->begun);
	}
	atomic_store(&shared->data, told->data);
	atomic_store(&shared->ino, told->ino);
	atomic_store(&shared->stream_bytes, bytes);
	shared_tell_change();
}

void shared_tell_sender(pid_t pid)
{
	atomic_store(&shared->sender, pid);
}

void shared_tell_over(void)
{
	atomic_store(&shared->over, 1);
	shared_tell_change();
}

u32 shared_changes(void)
{
	return atomic_load(&shared->changes);
}

void shared_await(u32 changes, u64 ns)
{
	/* the kernel's struct timespec, whatever the size of time_t here */
	long most[2] = { ns / 1000000000, ns % 1000000000 };

	if (!shared_over())
		syscall(SYS_futex, &shared->changes, FUTEX_WAIT, changes, ns ? most : NULL, NULL, 0);
}

int shared_over(void)
{
	return atomic_load(&shared->over);
}

int shared_passed(u32 subvolume, u64 data, u64 ino)
{
	u32 begun = atomic_load(&shared->begun);

	return begun > subvolume ||
		(begun == subvolume &&
		 (atomic_load(&shared->data) >= data || (ino && atomic_load(&shared->ino) >= ino)));
}

int shared_begun(u32 subvolume, struct told *told)
{
	if (atomic_load(&shared->begun) != subvolume)
		return 0;
	*told = shared->told;
	return atomic_load(&shared->begun) == subvolume;
}

int shared_wait(u32 subvolume, u64 data, u64 ino)
{
	for (;;) {
		u32 changes = shared_changes();

		if (shared_over() || atomic_load(&shared->begun) > subvolume)
			return -1;
		if (shared->alone || (!data && !ino) || shared_passed(subvolume, data, ino))
			return 0;
		shared_await(changes, 0);
	}
}
