// SPDX-License-Identifier: GPL-2.0
/*
 * The memory that the two processes share. One of them may be killed at any time, so
 * nothing in it is locked.
 */
#include <limits.h>
#include <unistd.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "shared.h"

static struct place *place;

struct place *place_init(void)
{
	void *memory = mmap(NULL, sizeof(*place), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return NULL;
	place = memory;
	atomic_init(&place->awaited_data, NONE);
	return place;
}

static void wake(void)
{
	atomic_fetch_add(&place->changes, 1);
	syscall(SYS_futex, &place->changes, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void place_tell(const struct told *told, u64 bytes)
{
	int is_news = told->begun != atomic_load(&place->begun);

	if (is_news) {
		atomic_store(&place->begun, 0);
		atomic_store(&place->data, 0);
		atomic_store(&place->ino, 0);
		place->told = *told;
		atomic_store(&place->begun, told->begun);
	}
	atomic_store(&place->data, told->data);
	atomic_store(&place->ino, told->ino);
	atomic_store(&place->stream_bytes, bytes);
	/* each command may be told: who waits is not to be woken by all of them */
	if (is_news || place_passed(told->begun, atomic_load(&place->awaited_data),
				    atomic_load(&place->awaited_ino)))
		wake();
}

void place_tell_waited(u64 ns)
{
	atomic_fetch_add(&place->waited, ns);
}

void place_tell_sender(pid_t pid)
{
	atomic_store(&place->sender, pid);
}

void place_tell_over(void)
{
	atomic_store(&place->over, 1);
	wake();
}

void place_pause(u64 ns)
{
	u32 changes = atomic_load(&place->changes);
	/* the kernel's own type, with whatever time_t here */
	long most[2] = { ns / 1000000000, ns % 1000000000 };

	if (!place_over())
		syscall(SYS_futex, &place->changes, FUTEX_WAIT, changes, most, NULL, 0);
}

void place_tell_news(void)
{
	if (atomic_exchange(&place->awaits_news, 0))
		wake();
}

void place_wait_news(const atomic_ullong *number, u64 seen, u64 ns)
{
	long most[2] = { ns / 1000000000, ns % 1000000000 };	/* as in place_pause() */
	u32 changes;

	atomic_store(&place->awaits_news, 1);
	changes = atomic_load(&place->changes);
	if (!place_over() && atomic_load(number) == seen)
		syscall(SYS_futex, &place->changes, FUTEX_WAIT, changes, ns ? most : NULL,
			NULL, 0);
	atomic_store(&place->awaits_news, 0);
}

int place_over(void)
{
	return atomic_load(&place->over);
}

int place_passed(u32 subvolume, u64 data, u64 ino)
{
	u32 begun = atomic_load(&place->begun);

	return begun > subvolume ||
		(begun == subvolume &&
		 (atomic_load(&place->data) >= data || (ino && atomic_load(&place->ino) >= ino)));
}

int place_begun(u32 subvolume, struct told *told)
{
	if (atomic_load(&place->begun) != subvolume)
		return 0;
	*told = place->told;
	return atomic_load(&place->begun) == subvolume;
}

int place_told(u32 subvolume, struct told *told)
{
	for (;;) {
		u32 changes = atomic_load(&place->changes);

		if (place_begun(subvolume, told))
			return 0;
		if (place_over() || place->alone || atomic_load(&place->begun) > subvolume)
			return -1;
		syscall(SYS_futex, &place->changes, FUTEX_WAIT, changes, NULL, NULL, 0);
	}
}

int place_wait(u32 subvolume, u64 data, u64 ino)
{
	int over;

	atomic_store(&place->awaited_data, data);
	atomic_store(&place->awaited_ino, ino);
	for (;;) {
		u32 changes = atomic_load(&place->changes);

		over = place_over() || atomic_load(&place->begun) > subvolume;
		if (over || place->alone || (!data && !ino) || place_passed(subvolume, data, ino))
			break;
		syscall(SYS_futex, &place->changes, FUTEX_WAIT, changes, NULL, NULL, 0);
	}
	atomic_store(&place->awaited_data, NONE);
	atomic_store(&place->awaited_ino, 0);
	return over ? -1 : 0;
}
