// SPDX-License-Identifier: GPL-2.0
/*
 * Tells which disk reads what, if the file system is on several.
 *
 * btrfs reads a mirrored block from copy number (thread id % number of copies). So a thread can
 * make only certain disks read a block. At first an item belongs to the disk of its first copy.
 * A disk that has nothing left to read takes over items of another disk: the second half, in its
 * own order, of those that it has copies of. So each head moves in one direction through a part of
 * its disk, and a slow disk reads fewer items.
 */
#include <stdlib.h>
#include <unistd.h>

#include "heads.h"

#define TAKEN UINT8_MAX

#define FEW 8				/* reads of a disk, which do not tell how fast it is */

static size_t done[MAX_HEADS], all_done;	/* reads of each disk so far, and of all of them */

/* This disk can read this item if the thread's number % @copies is @copy. */
struct option {
	u64 order;			/* the disk, and the position there */
	u32 item;
	u8 head, copies, copy;
};

struct heads heads_of(const struct disk *disk)
{
	return (struct heads) { .disk = disk };
}

void heads_add(struct heads *heads, u64 logical)
{
	const struct disk *disk = heads->disk;
	struct option option = { .item = heads->nr_items };
	u32 copies = 1, same = 1;
	size_t from = heads->n;

	if (disk->nr_heads < 2)
		return;
	heads->reader = more(heads->reader, &heads->items_room, heads->nr_items, 1);
	for (; option.copy < copies; option.copy++) {
		copies = disk_copy(disk, logical, option.copy, &option.order);
		/* not known, or the copy cannot be selected */
		if (!copies || !disk->by_thread)
			copies = 1;
		option.copies = copies;
		option.head = disk_head(disk, option.order);
		option.order = order_of(option.head, order_byte(option.order));
		*append(heads) = option;
		same &= option.head == heads->v[from].head;
	}
	if (same) {
		heads->v[from].copies = 1;
		heads->n = from + 1;
	}
	heads->nr_items++;
}

u32 heads_begin(struct heads *heads, u32 depth)
{
	size_t i;

	sort_list(heads, by_number);
	memset(heads->head, 0, sizeof(heads->head));
	for (i = 0; i < heads->n; i++) {
		struct head *head = &heads->head[heads->v[i].head];

		if (!head->end)
			head->begin = head->at = i;
		head->end = i + 1;
		if (!heads->v[i].copy)
			heads->reader[heads->v[i].item] = heads->v[i].head;
	}
	heads->left = heads->nr_items;
	heads->under_way = 0;
	heads->depth = depth;
	return heads->disk->nr_heads;
}

static int can_ask(const struct option *option)
{
	return option->copies == 1 || gettid() % option->copies == option->copy;
}

/*
 * Return: whether a disk can take an item now. Near the end, a slow disk takes only few of the
 * items that other disks can read as well: no more than twice its share of all reads so far.
 */
static int has_room(const struct heads *heads, const struct option *option)
{
	const struct head *head = &heads->head[option->head];

	if (option->copies > 1 && head->under_way * (all_done + heads->disk->nr_heads * FEW) >
	    2 * (done[option->head] + FEW) * (heads->left + heads->under_way))
		return 0;
	return head->under_way < heads->depth;
}

/* Return: the next item that belongs to a disk, or NULL. */
static struct option *front(struct heads *heads, u32 number)
{
	struct head *head = &heads->head[number];

	while (head->at < head->end && heads->reader[heads->v[head->at].item] != number)
		head->at++;
	return head->at < head->end ? &heads->v[head->at] : NULL;
}

/* Give a disk half of the items of another disk, of those that this thread can have it read. */
static struct option *take_over(struct heads *heads, u32 number)
{
	struct head *head = &heads->head[number];
	size_t left[MAX_HEADS] = { 0 }, skip;
	size_t i, first = head->end;
	int all_taken = 1;
	u8 most = 0;

	for (i = head->begin; i < head->end; i++) {
		u8 reader = heads->reader[heads->v[i].item];

		all_taken &= reader == TAKEN;
		if (reader != TAKEN && can_ask(&heads->v[i]) && ++left[reader] > left[most])
			most = reader;
	}
	/* do not look through them again */
	if (all_taken)
		head->end = head->begin;
	skip = left[most] / 2;
	for (i = head->begin; left[most] && i < head->end; i++) {
		u8 *reader = &heads->reader[heads->v[i].item];

		if (*reader != most || !can_ask(&heads->v[i]))
			continue;
		if (skip) {
			skip--;
			continue;
		}
		*reader = number;
		first = min_u64(first, i);
	}
	head->at = first;
	return front(heads, number);
}

int heads_take(struct heads *heads, size_t *item, u32 *head)
{
	struct option *found = NULL, *option;
	u32 i;

	for (i = 0; i < heads->disk->nr_heads; i++) {
		if (heads->head[i].under_way >= heads->depth ||
		    (found && heads->head[i].under_way >= heads->head[found->head].under_way))
			continue;
		option = front(heads, i);
		if (!option)
			option = take_over(heads, i);
		if (option && can_ask(option) && has_room(heads, option))
			found = option;
	}
	/* no request is under way, so no other thread would go on: take any item */
	for (i = 0; !found && !heads->under_way && i < heads->n; i++)
		if (heads->reader[heads->v[i].item] != TAKEN && can_ask(&heads->v[i]))
			found = &heads->v[i];
	if (!found)
		return 0;
	heads->left--;
	heads->under_way++;
	heads->head[found->head].under_way++;
	heads->reader[found->item] = TAKEN;
	*item = found->item;
	*head = found->head;
	return 1;
}

void heads_leave(struct heads *heads, u32 head, int read)
{
	heads->under_way--;
	done[head] += read;
	all_done += read;
	heads->head[head].under_way--;
}

int heads_idle(struct heads *heads)
{
	const struct option *option;
	u32 i;

	for (i = 0; i < heads->disk->nr_heads; i++) {
		option = front(heads, i);
		if (option && has_room(heads, option))
			return 1;
	}
	return 0;
}

void heads_free(struct heads *heads)
{
	free(heads->v);
	free(heads->reader);
}
