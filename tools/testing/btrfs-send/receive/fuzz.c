// SPDX-License-Identifier: GPL-2.0
/*
 * A target for libFuzzer: whatever is in the stream, what btrfs receive gets is that stream,
 * but for files that are made and then renamed, which are one command; however it comes in
 * parts. The first byte says how large these are, and whether the checksums are set right.
 */
#include <stdio.h>
#include <stdlib.h>

#include "../../../sendahead/node.h"
#include "../../../sendahead/fold.h"

#define HEAD 10

void give_up(const char *format, ...)
{
	fputs(format, stderr);
	abort();
}

static u32 sum_of(const u8 *p, size_t n)
{
	u8 *copy = malloc(n);
	u32 sum;

	memcpy(copy, p, n);
	memset(copy + 6, 0, 4);
	sum = crc32c(0, copy, n);
	free(copy);
	return sum;
}

/* Bytes of the command there, or 0 if it is not whole. */
static size_t whole(const u8 *p, size_t n)
{
	return n < HEAD || get_u32(p) > n - HEAD ? 0 : HEAD + get_u32(p);
}

/* Otherwise next to no command would be one. */
static void set_sums(u8 *p, size_t n)
{
	while (n > 17) {
		size_t size;

		p += 17;
		n -= 17;
		do {
			u32 sum;

			size = whole(p, n);
			if (!size)
				return;
			/* one that is there is wrong by chance, and stays */
			sum = htole32(sum_of(p, size));
			if (!get_u32(p + 6))
				memcpy(p + 6, &sum, 4);
			p += size;
			n -= size;
		} while (get_u16(p - size + 4) != 21);
	}
}

/* The value of an attribute, that of the last one. Return: its length, or -1. */
static int value(const u8 *p, size_t size, u16 type, const u8 **found)
{
	size_t at = HEAD;
	int length = -1;

	while (at + 4 <= size && get_u16(p + at + 2) <= size - at - 4) {
		if (get_u16(p + at) == type) {
			length = get_u16(p + at + 2);
			*found = p + at + 4;
		}
		at += 4 + get_u16(p + at + 2);
	}
	return length;
}

static int same_value(const u8 *p, size_t p_size, u16 p_type, const u8 *q, size_t q_size, u16 q_type)
{
	const u8 *a, *b;
	int n = value(p, p_size, p_type, &a);

	return n >= 0 && n == value(q, q_size, q_type, &b) && !memcmp(a, b, n);
}

/* Does the command in @out stand for the two of @in? Return: the bytes of these. */
static size_t is_both(const u8 *in, size_t n, const u8 *out, size_t size)
{
	size_t one = whole(in, n), two = one ? whole(in + one, n - one) : 0;
	u16 number = get_u16(out + 4);

	if (!two || number < 3 || number > 8 || get_u16(in + 4) != number ||
	    get_u16(in + one + 4) != 9 || get_u32(out + 6) != sum_of(out, size) ||
	    get_u32(in + 6) != sum_of(in, one) || get_u32(in + one + 6) != sum_of(in + one, two) ||
	    !same_value(in, one, 15, in + one, two, 15) ||
	    !same_value(out, size, 15, in + one, two, 16))
		return 0;
	if (number == 8 && !same_value(in, one, 17, out, size, 17) && value(out, size, 17, &out) >= 0)
		return 0;
	return one + two;
}

/* Of the last run: how often it stopped at an end, and whether it knew all of the stream. */
static u64 stops;
static int all_known;

/* Both in step, command by command. */
static void compare(const u8 *in, size_t n, const u8 *out, size_t left, u64 changed)
{
	size_t head = 17;
	u64 ends = 0;
	int within = 0, begins;

	while (n || left) {
		size_t size = whole(out, left), both = 0, same;
		u16 command;

		if (!head && size)
			both = is_both(in, n, out, size);
		if (both && (size > n || memcmp(in, out, size))) {
			in += both;
			n -= both;
			out += size;
			left -= size;
			changed--;
			continue;
		}
		same = head ? min_u64(head, n) : whole(in, n) ? whole(in, n) : n;
		if (!same || same > left || memcmp(in, out, same))
			abort();
		command = !head && same >= HEAD ? get_u16(in + 4) : 0;
		head = command == 21 ? 17 : 0;
		begins = (command == 1 || command == 2) && whole(in, n);
		ends += within && (begins || command == 21);
		within = begins || (within && command != 21);
		in += same;
		n -= same;
		out += same;
		left -= same;
	}
	if (changed || (all_known && ends != stops))
		abort();
}

/* In parts of up to so many bytes; with @hold none is let go before its time. */
static u8 *run(const u8 *data, size_t n, size_t part, int hold, size_t *left, u64 *changed)
{
	struct fold fold = { 0 };
	u8 *out = malloc(n ? n : 1);
	size_t in = 0, done = 0, held = 0;

	stops = 0;
	while (in < n) {
		size_t more = min_u64(part, n - in), pass;
		u8 *copy = malloc(held + more), *from;
		u16 command;

		/* in memory that ends where they do */
		memcpy(copy, out + done, held);
		memcpy(copy + held, data + in, more);
		in += more;
		held += more;
		for (from = copy; ; from += pass) {
			pass = fold_run(&fold, from, &held, hold || in % 3);
			memcpy(out + done, from, held);
			if (pass > held)
				abort();
			done += pass;
			held -= pass;
			if (!fold.at_end)
				break;
			/* there it stops, and goes on */
			stops++;
			command = get_u16(from + pass + 4);
			if (held < HEAD || (command != 21 && command > 2))
				abort();
		}
		free(copy);
		if (held >= FOLD_HELD)
			abort();
	}
	*left = done + held;
	*changed = fold.changed;
	all_known = !fold.lost;
	fold_free(&fold);
	return out;
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	size_t parts[] = { size, 1, 7, 100, 4096 }, left, other_left;
	u64 changed, other_changed;
	u8 *in, *out, *other;
	size_t n;

	if (!size)
		return 0;
	n = size - 1;
	in = malloc(n ? n : 1);
	memcpy(in, data + 1, n);
	if (data[0] & 128)
		set_sums(in, n);
	out = run(in, n, size, 1, &left, &changed);
	compare(in, n, out, left, changed);
	other = run(in, n, parts[data[0] % 5], 1, &other_left, &other_changed);
	if (left != other_left || memcmp(out, other, left))
		abort();
	free(other);
	other = run(in, n, parts[data[0] % 5], 0, &other_left, &other_changed);
	compare(in, n, other, other_left, other_changed);
	free(other);
	free(out);
	free(in);
	return 0;
}
