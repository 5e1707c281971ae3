// SPDX-License-Identifier: GPL-2.0
/*
 * The process that reads ahead of btrfs receive. The subvolume of an incremental stream begins as a
 * snapshot of a parent that was received before, and shares all blocks with it. So the blocks that
 * the next commands will change can be read from the parent.
 *
 * The paths of the commands are looked up in the parent. On a disk with heads, where they touch a
 * good part of its leaves, all leaves are read instead, in disk order. The same is done while the
 * stream pauses, as the disk is idle then. Where a sample of look-ups finds everything in memory,
 * the others are left out.
 *
 * Where a write begins or ends within a block of a file that the parent has, btrfs reads this block
 * first. It is read ahead as well, from the file in the new subvolume.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>

#include "throttle.h"
#include "room.h"
#include "receive.h"
#include "stream.h"
#include "tree-search.h"
#include "sweep.h"
#include "threads.h"

#define THREADS 32			/* so many requests let the disk choose a good order */
#define WINDOW 4096			/* paths looked up, or blocks read, at once */
#define BLOCK 4096
#define FEW 64				/* with fewer paths the leaves are not counted */
#define DENSE 16			/* all leaves are read if one of 16 or more is touched */
#define SHARE 4				/* leaves may use 1/4 of the free memory */
#define LIMIT (1ULL << 30)		/* and so many bytes */
#define PAUSE_NS 10000000		/* between two looks at the stream */
#define PAUSES 2			/* then the stream counts as paused */
#define LEFT 100			/* then btrfs counts as stopped */

/* A range of a file that a command will change. */
struct change {
	char *path;			/* in the subvolume; freed and NULL when its blocks were read */
	u64 begin, end;
};

struct changes {
	struct change *v;
	size_t n, room;
};

struct receive_ahead {
	const struct queue *queue;
	struct shared *shared;
	int fd;				/* of the directory */
	u64 at;				/* offset in the stream: the next command */
	u32 version;			/* of the stream */
	u8 copy[COMMAND_MOST];		/* a copy of the stream from there on */
	struct disk disk;
	size_t most;			/* leaves */
	/* the subvolume that @at is in */
	u32 begun;			/* its number in the stream, from 1 */
	int parent;			/* the top directory of its parent, opened, or -1 */
	u64 tree;			/* the parent's tree */
	u64 leaves;			/* of that tree; 0: not counted, NONE: too many */
	u64 touched;			/* number of paths so far */
	int spaces;			/* want_spaces() was called */
	int meanwhile;			/* leaves are being read while the stream pauses */
	int swept;			/* all leaves were read: paths need no look-up */
	int writes;			/* writeback is begun while the stream arrives */
	char file[2 * PATH_MAX];	/* a file below the directory: subvolume, slash, path */
	size_t name;			/* length of the subvolume's name in it */
	char last[PATH_MAX];		/* the path taken last */
	char *paths[WINDOW + 1];	/* to be looked up; a command has up to two */
	size_t nr_paths;
	struct sampling looked_up;
	struct changes changes;		/* whose first and last blocks are to be read */
	int top;			/* the new subvolume, opened while blocks are read */
	struct sampling blocks_read;
	struct sweep sweep;		/* leaves to be read */
};

static int has_come(void *arg)
{
	const struct receive_ahead *ahead = arg;

	return ahead->queue->end > ahead->at;
}

/*
 * Add the leaves of a tree to those to be read, unless it has more than @most, or we are to stop.
 * Return: how many it has, 0 if not known.
 */
static u64 want_tree(struct receive_ahead *ahead, u64 tree, u64 most)
{
	size_t before = ahead->sweep.n;
	struct pointer root;
	struct walk walk;
	struct leaf leaf;
	u64 n = 0;

	if (disk_root(&ahead->disk, tree, &root))
		return 0;
	walk_init(&walk, &ahead->disk, &root, THREADS);
	walk.ahead = min_u64(WALK_AHEAD, 1 + most / 64);
	/* the tree may change meanwhile: a node that is gone ends the walk */
	while (n <= most && !shared_over() && walk_next_leaf(&walk, NULL, &leaf) > 0) {
		if (ahead->sweep.stop && has_come(ahead)) {
			n = 0;
			break;
		}
		n++;
		sweep_want(&ahead->sweep, tree, &leaf);
	}
	ahead->shared->stats.nodes += walk.nodes;
	walk_free(&walk);
	if (!n || n > most)
		ahead->sweep.n = before;
	return n;
}

/* Open the disks at the first call. Return: whether one has heads. */
static int has_heads(struct receive_ahead *ahead)
{
	if (!ahead->disk.nodesize) {
		disk_open(&ahead->disk, ahead->fd);
		throttle_init(&ahead->disk, ahead->shared);
		ahead->most = min_u64(room_memory() / SHARE, LIMIT) / ahead->disk.nodesize;
	}
	return ahead->disk.has_heads;
}

/* Add the leaves of the parent, unless they are too many or cannot be read. */
static void want_parent(struct receive_ahead *ahead)
{
	ahead->leaves = want_tree(ahead, ahead->tree, ahead->most);
	if (!ahead->sweep.n)
		ahead->leaves = ahead->sweep.stop && has_come(ahead) ? 0 : NONE;
}

/*
 * Add the leaves of the trees that account for space: when btrfs copies a leaf that two snapshots
 * share, it updates the references of all that the leaf points to.
 */
static void want_spaces(struct receive_ahead *ahead)
{
	static const u64 others[] = {
		BTRFS_EXTENT_TREE_OBJECTID, BTRFS_CSUM_TREE_OBJECTID, BTRFS_FREE_SPACE_TREE_OBJECTID,
	};
	size_t i;

	if (ahead->spaces)
		return;
	for (i = 0; i < sizeof(others) / sizeof(*others); i++)
		want_tree(ahead, others[i], min_u64(ahead->leaves, ahead->most - ahead->sweep.n));
	ahead->spaces = 1;
}

/*
 * While the stream pauses and btrfs has taken all of it: read all leaves. Return: whether new bytes
 * have ended that.
 */
static int read_meanwhile(struct receive_ahead *ahead)
{
	if (ahead->parent < 0 || ahead->swept || has_come(ahead) ||
	    ahead->queue->begin != ahead->queue->end || !has_heads(ahead))
		return 0;
	if (ahead->leaves && ahead->leaves != NONE && !ahead->sweep.n)
		want_spaces(ahead);
	ahead->sweep.stop = has_come;
	if (!ahead->leaves)
		want_parent(ahead);
	ahead->meanwhile = ahead->sweep.n > 0;
	sweep_run(&ahead->sweep);
	ahead->sweep.stop = NULL;
	return has_come(ahead);
}

static void look_up(size_t i, void *arg)
{
	struct receive_ahead *ahead = arg;
	int fd;

	if (!ahead->paths[i])
		return;
	throttle_enter(1);
	/* also for a file that does not exist yet: btrfs looks at the same leaf to make it */
	fd = look_up_beneath(ahead->parent, ahead->paths[i]);
	throttle_leave();
	close(fd);
	free(ahead->paths[i]);
	ahead->paths[i] = NULL;
	ahead->shared->stats.paths++;
}

/* Read the block that is changed only up to @at, or from there on. */
static void read_end(struct receive_ahead *ahead, int fd, u64 at)
{
	u8 byte;

	if (at % BLOCK && pread(fd, &byte, 1, at - at % BLOCK) == 1)
		ahead->shared->stats.data_bytes += BLOCK;
}

/* In a file that the parent does not have, no block is read: there is nothing to change. */
static void read_ends(size_t i, void *arg)
{
	struct receive_ahead *ahead = arg;
	struct change *change = &ahead->changes.v[i];
	int fd;

	if (!change->path)
		return;
	throttle_enter(1);
	fd = open_beneath(ahead->top, change->path);
	if (fd >= 0) {
		posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
		read_end(ahead, fd, change->begin);
		if (change->begin / BLOCK != change->end / BLOCK || !(change->begin % BLOCK))
			read_end(ahead, fd, change->end);
	}
	throttle_leave();
	close(fd);
	free(change->path);
	change->path = NULL;
}

static void drop_changes(struct receive_ahead *ahead)
{
	size_t i;

	for (i = 0; i < ahead->changes.n; i++)
		free(ahead->changes.v[i].path);
	ahead->changes.n = 0;
}

/* Read the blocks noted, once btrfs has made the subvolume; keep a window of them until then. */
static void read_blocks(struct receive_ahead *ahead)
{
	if (!ahead->changes.n)
		return;
	ahead->file[ahead->name] = 0;
	ahead->top = look_up_beneath(ahead->fd, ahead->file);
	if (ahead->top >= 0)
		parallel(THREADS, ahead->changes.n, read_ends, ahead, &ahead->blocks_read, NULL, NULL, 0);
	if (ahead->top >= 0 || ahead->changes.n >= WINDOW)
		drop_changes(ahead);
	close(ahead->top);
}

/* Look up all paths of the window, or read all leaves if these are many. */
static void look_up_all(struct receive_ahead *ahead)
{
	int all, many = ahead->touched >= FEW && has_heads(ahead);
	size_t i;

	if (!ahead->nr_paths)
		return;
	if (many && !ahead->leaves)
		want_parent(ahead);
	all = many && ahead->touched >= ahead->leaves / DENSE;
	/* a few paths take little */
	if ((all || ahead->nr_paths >= FEW) && !room_enough())
		give_up("there is too little memory left");
	if (all) {
		want_spaces(ahead);
		sweep_run(&ahead->sweep);
		ahead->swept = 1;
	} else {
		parallel(THREADS, ahead->nr_paths, look_up, ahead, &ahead->looked_up, NULL, NULL, 0);
	}
	ahead->shared->stats.windows++;
	for (i = 0; i < ahead->nr_paths; i++)
		free(ahead->paths[i]);
	ahead->nr_paths = 0;
}

/* Return: the tree of the first subvolume that the UUID tree has for this UUID and type, or 0. */
static u64 tree_of(int fd, const u8 *uuid, u8 type)
{
	struct key key = { get_u64(uuid), type, get_u64(uuid + 8) };
	struct items items = { .size = 4096 };
	struct item item;
	u64 tree = 0;

	if (search_first(fd, BTRFS_UUID_TREE_OBJECTID, key, &items, &item) &&
	    !key_cmp(&item.key, &key) && item.len >= 8)
		tree = get_u64(item.data);
	items_free(&items);
	return tree;
}

/* Find the parent as btrfs receive does: by received UUID, then by UUID. */
static void find_parent(struct receive_ahead *ahead, const u8 *uuid)
{
	ahead->tree = tree_of(ahead->fd, uuid, BTRFS_UUID_KEY_RECEIVED_SUBVOL);
	if (!ahead->tree)
		ahead->tree = tree_of(ahead->fd, uuid, BTRFS_UUID_KEY_SUBVOL);
	if (ahead->tree)
		ahead->parent = disk_open_inode(ahead->fd, ahead->tree, BTRFS_FIRST_FREE_OBJECTID,
						O_RDONLY | O_DIRECTORY | O_NOATIME | O_CLOEXEC);
}

/* Is it a path that can be used? */
static int is_path(const struct text *path)
{
	return path->n && path->n < PATH_MAX && *path->p != '/' && !memchr(path->p, 0, path->n);
}

/* Note a path in a command. */
static void take_path(struct receive_ahead *ahead, const struct text *path)
{
	char *copy;

	/* the commands for one file follow each other: note its path once */
	if (!is_path(path) || (!strncmp(ahead->last, (const char *)path->p, path->n) &&
			       !ahead->last[path->n]))
		return;
	memcpy(ahead->last, path->p, path->n);
	ahead->last[path->n] = 0;
	copy = strdup(ahead->last);
	if (!copy)
		give_up("no memory for paths");
	ahead->paths[ahead->nr_paths++] = copy;
	ahead->touched++;
}

/* The subvolume with number @begun in the stream begins with this command, or NULL: it has ended. */
static void subvolume_begins(struct receive_ahead *ahead, u32 begun, const struct command *first)
{
	const struct text *name, *uuid;

	if (ahead->parent >= 0)
		close(ahead->parent);
	ahead->parent = -1;
	drop_changes(ahead);
	ahead->begun = begun;
	ahead->leaves = ahead->touched = ahead->sweep.n = 0;
	ahead->looked_up = ahead->blocks_read = (struct sampling) { .alone = 1 };
	ahead->spaces = ahead->meanwhile = ahead->swept = 0;
	ahead->last[0] = 0;
	if (!first)
		return;
	name = &first->attribute[A_PATH];
	uuid = &first->attribute[A_CLONE_UUID];
	ahead->name = is_path(name) ? name->n : 0;
	if (ahead->name)
		memcpy(ahead->file, name->p, ahead->name);
	if (first->number == C_SNAPSHOT && uuid->n == 16)
		find_parent(ahead, uuid->p);
}

/* btrfs has read more than this process: go on with the first command that it has not. */
static void overtaken(struct receive_ahead *ahead)
{
	const struct queue *queue = ahead->queue;
	u32 begun = queue->begun;
	u8 first[sizeof(queue->command)];
	struct command command;

	if (queue->lost)
		give_up("the stream cannot be followed");
	ahead->at = queue_boundary(queue);
	memcpy(first, queue->command, sizeof(first));
	if (begun != ahead->begun && begun == queue->begun) {
		command_parse(&command, first, sizeof(first), 1);
		subvolume_begins(ahead, begun, &command);
	}
}

/* Note the file that a command writes to, for writeback. */
static void take_written(struct receive_ahead *ahead, const struct command *command)
{
	const struct text *path = &command->attribute[A_PATH];

	if (!is_path(path) || !ahead->name)
		return;
	ahead->file[ahead->name] = '/';
	memcpy(ahead->file + ahead->name + 1, path->p, path->n);
	ahead->file[ahead->name + 1 + path->n] = 0;
	writeback_add(ahead->file, ahead->at, command->size);
}

/* Note a write, if it changes a block only in part. */
static void take_change(struct receive_ahead *ahead, const struct command *command)
{
	const struct text *path = &command->attribute[A_PATH];
	const struct text *offset = &command->attribute[A_FILE_OFFSET];
	struct change change;

	if (!is_path(path) || !ahead->name || offset->n != 8)
		return;
	change.begin = get_u64(offset->p);
	change.end = change.begin + command->attribute[A_DATA].n;
	if (!(change.begin % BLOCK) && !(change.end % BLOCK))
		return;
	change.path = strndup((const char *)path->p, path->n);
	if (!change.path)
		give_up("no memory for paths");
	*append(&ahead->changes) = change;
}

/* Handle the next command of the stream. Return: 0 if it is not there yet. */
static int next(struct receive_ahead *ahead)
{
	int follows = ahead->parent >= 0 && !ahead->swept;
	struct command command;
	long n = queue_look(ahead->queue, ahead->at, ahead->copy, STREAM_HEAD);

	if (n < 0) {
		overtaken(ahead);
		return 1;
	}
	if (n >= STREAM_HEAD && stream_version(ahead->copy)) {
		ahead->version = stream_version(ahead->copy);
		ahead->at += STREAM_HEAD;
		return 1;
	}
	if (n < COMMAND_HEAD)
		return 0;
	n = queue_look(ahead->queue, ahead->at, ahead->copy,
		       min_u64(COMMAND_HEAD + (u64)get_u32(ahead->copy), COMMAND_MOST));
	/* overtaken meanwhile */
	if (n < COMMAND_HEAD)
		return n < 0;
	command_parse(&command, ahead->copy, n, ahead->version);
	switch (command.number) {
	case C_SUBVOL:
	case C_SNAPSHOT:
		if ((u64)n < command.size && n < FIRST_MOST)
			return 0;
		look_up_all(ahead);
		subvolume_begins(ahead, ahead->begun + 1, &command);
		break;
	case C_END:
		writeback_end(ahead->at);
		look_up_all(ahead);
		read_blocks(ahead);
		subvolume_begins(ahead, ahead->begun, NULL);
		break;
	case C_WRITE:
	case C_ENCODED_WRITE:
		if (ahead->writes)
			take_written(ahead, &command);
		if (ahead->parent >= 0 && command.number == C_WRITE)
			take_change(ahead, &command);
		break;
	}
	if (follows && command.number > C_SNAPSHOT && command.number < C_UPDATE_EXTENT) {
		take_path(ahead, &command.attribute[A_PATH]);
		if (command.number == C_RENAME)
			take_path(ahead, &command.attribute[A_PATH_TO]);
		if (command.number == C_LINK)
			take_path(ahead, &command.attribute[A_PATH_LINK]);
	}
	ahead->at += command.size;
	return 1;
}

void receive_ahead(const struct options *options, const struct queue *queue, struct shared *shared)
{
	static struct receive_ahead ahead = { .parent = -1, .version = 1 };
	u32 pauses = 0, left = 0;
	u64 end = 0, begin = 0;

	ahead.queue = queue;
	ahead.shared = shared;
	ahead.sweep = (struct sweep) { .disk = &ahead.disk, .shared = shared, .threads = THREADS,
				       .arg = &ahead };
	shared->stats.threads = THREADS;
	ahead.fd = open(options->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (ahead.fd < 0)
		give_up("%s cannot be opened: %m", options->directory);
	ahead.writes = !options->no_sync;
	if (ahead.writes)
		has_heads(&ahead);
	while (!shared_over()) {
		u32 changes = shared_changes();
		u64 before = end;
		int there;

		end = queue->end;
		/* if the stream pauses, go on for a while: btrfs still reads, and files complete */
		left = !ahead.writes || !writeback_run(ahead.fd, queue, throttle_reads) ? 0 :
			begin != queue->begin ? LEFT : left - (left && pauses);
		begin = queue->begin;
		there = next(&ahead);
		pauses = there || end != before ? 0 : pauses + 1;
		if (!there || ahead.nr_paths >= WINDOW)
			look_up_all(&ahead);
		if (!there || ahead.changes.n >= WINDOW)
			read_blocks(&ahead);
		/* reading that was begun goes on without a pause */
		if ((pauses > PAUSES || (!there && ahead.meanwhile)) && read_meanwhile(&ahead))
			continue;
		if (!there)
			shared_await(changes, left || pauses <= PAUSES ? PAUSE_NS : 0);
	}
}
