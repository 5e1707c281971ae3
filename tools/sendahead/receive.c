// SPDX-License-Identifier: GPL-2.0
/*
 * Runs the real btrfs receive and passes it its stream through a buffer, so that whoever writes the
 * stream need not wait while btrfs is busy. In the buffer, a command that makes a file and the
 * next one, which renames it, are folded into one (fold.c).
 *
 * Before the end command of a subvolume is handed on, what was received is synced. btrfs receive
 * sets the received UUID without a look at whether the data reached the disk. And its two commits
 * at the end are cheaper after a sync: data written later would change the trees once more.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <linux/btrfs.h>

#include "child.h"
#include "room.h"
#include "shared.h"
#include "receive.h"
#include "fold.h"
#include "stream.h"

#define PIPE_SIZE (1 << 20)		/* of the one that is read */
#define STEP 65536			/* bytes of one read() */
#define TELL_NS 1000000			/* the reader is woken after so much time, or enough bytes */
#define BUFFER (256ULL << 20)		/* default limit */
#define BUFFER_SHARE 4			/* the buffer gets 1/4 of the free memory */
#define PATIENCE_NS 100000000		/* how long a command is held to be folded */
#define LOOK_NS 100000			/* first pause while btrfs reads the rest; */
#define LOOKS 1000			/* they become up to so many times as long */
#define MEMORY_NS 100000000		/* the free memory is looked at so often */

/*
 * SELinux and Smack label a new file by the directory it is made in: a file must be made where
 * btrfs makes it, so nothing is folded. Return: whether one of them may be active.
 */
static int labels_files(void)
{
	FILE *file = fopen("/proc/filesystems", "re");	/* visible in containers too */
	char name[64];
	int found = 0;

	while (file && fscanf(file, "%63s", name) == 1)
		found |= !strcmp(name, "selinuxfs") || !strcmp(name, "smackfs");
	if (file)
		fclose(file);
	return found;
}

struct queue *receive_buffer(const struct options *options)
{
	/* with -e, what follows the stream in standard input belongs to another reader */
	if (options->direct || !options->directory || (options->to_end && !options->file))
		return NULL;
	return queue_init(options->buffer ? options->buffer : BUFFER);
}

/* Open the stream. Return: a descriptor, or -1: btrfs shall print the error. */
static int open_stream(const struct options *options)
{
	struct stat stat;
	int fd = STDIN_FILENO;

	if (options->file)
		fd = open(options->file, O_RDONLY | O_CLOEXEC);
	return fd < 0 || fstat(fd, &stat) || S_ISDIR(stat.st_mode) ||
		(fcntl(fd, F_GETFL) & O_ACCMODE) == O_WRONLY ? -1 : fd;
}

struct pump {
	struct queue *queue;
	struct fold fold;
	int in, out;
	size_t held;		/* bytes that were read but not yet added to the queue */
	int waited;		/* PATIENCE_NS have passed: do not wait for the next command */
	int error;		/* errno of a failed read(), or 0 */
	const char *target;
	int directory;		/* the target, opened, or -1: nothing is synced */
	u64 end;		/* where in the stream the next end command begins, or NONE */
	u8 first[FIRST_MOST];	/* the command that began what it ends */
	u32 looks;		/* how often btrfs was found busy since then */
	int failed;		/* the sync failed */
	u64 told, told_ns;	/* where and when the reader was woken */
	u64 sized;		/* when the buffer was last resized, or 0: its size is fixed */
};

/* Resize the buffer: it may use a share of the memory that is free now, its own included. */
static void size_buffer(struct pump *pump)
{
	struct queue *queue = pump->queue;

	if (!pump->sized)
		return;
	queue_limit(queue, (room_memory() + queue->end - queue->begin) / BUFFER_SHARE);
	pump->sized = now_ns();
}

static void add(struct pump *pump, size_t n)
{
	struct queue *queue = pump->queue;
	const struct fold *fold = &pump->fold;

	if (queue->begun != fold->begun) {
		queue->begun = 0;
		memcpy(queue->command, fold->first, sizeof(queue->command));
		queue->begun = fold->begun;
	}
	queue_add(queue, n, queue->end + n + fold->left);
	queue->lost = fold->lost;
	pump->held -= n;
	/* not by each command; what comes last the reader finds by itself, after PAUSE_NS */
	if (queue->end - pump->told >= QUEUE_ON_WAY / 4 || now_ns() - pump->told_ns >= TELL_NS) {
		pump->told = queue->end;
		pump->told_ns = now_ns();
		shared_tell_change();
	}
}

/*
 * Fold what was read and add it to the queue, up to a second end command. What may be folded with
 * the next command stays held.
 */
static void sort_out(struct pump *pump, u8 *p, int hold)
{
	struct fold *fold = &pump->fold;
	size_t done;

	do {
		if (fold->at_end && pump->end != NONE)
			return;
		if (fold->at_end && pump->directory >= 0) {
			pump->end = pump->queue->end;
			pump->looks = 0;
			memcpy(pump->first, fold->first, sizeof(pump->first));
		}
		done = fold_run(fold, p, &pump->held, hold);
		add(pump, done);
		p += done;
	} while (fold->at_end);
	if (pump->in < 0)
		add(pump, pump->held);
}

/* Read from the stream. */
static void take_in(struct pump *pump, u8 *p, size_t room)
{
	ssize_t n = read(pump->in, p + pump->held, min_u64(room - pump->held, STEP));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n < 0)
		pump->error = errno;
	if (n <= 0)
		pump->in = -1;
	else
		pump->held += n;
	pump->waited = 0;
	sort_out(pump, p, pump->in >= 0);
}

/* Try again to add what is held. */
static void look_again(struct pump *pump, int hold)
{
	size_t room;
	u8 *p = queue_room(pump->queue, pump->held, &room);

	if (p)
		sort_out(pump, p, hold);
}

/* Has btrfs been given all before the end command, and at most the first byte of that? */
static int is_at_end(const struct pump *pump)
{
	return pump->end != NONE && pump->queue->begin - pump->end <= 1;
}

/* Has btrfs read all that it was given? */
static int is_taken(struct pump *pump)
{
	int left;

	if (ioctl(pump->out, FIONREAD, &left) || !left)
		return 1;
	pump->looks++;
	return 0;
}

/* Sync the target. Return: whether all that was received is on the disk. */
static int write_received(struct pump *pump)
{
	struct command first;
	const struct text *name = &first.attribute[A_PATH];

	/* first a commit: syncfs() alone would write the trees, and then once more */
	ioctl(pump->directory, BTRFS_IOC_SYNC);
	if (!syncfs(pump->directory))
		return 1;
	fprintf(stderr, "sendahead: cannot write to %s: %m: ", pump->target);
	command_parse(&first, pump->first, sizeof(pump->first), 1);
	fprintf(stderr, "delete %.*s there, parts of it may be lost\n", (int)name->n, name->p);
	pump->failed = 1;
	return 0;
}

/*
 * Write to btrfs what it can take. The end command of a subvolume is given in two parts: its first
 * byte once btrfs has read all before it. When btrfs has read that byte as well, it has executed
 * all commands before. Then the target is synced, and btrfs gets the rest; if the sync fails,
 * nothing more. Return: whether to go on.
 */
static int hand_on(struct pump *pump)
{
	struct queue *queue = pump->queue;
	const u8 *p;
	size_t n;
	ssize_t done;

	while (p = queue_first(queue, &n), n) {
		if (is_at_end(pump)) {
			if (!is_taken(pump))
				break;
			pump->looks = 0;
			if (queue->begin == pump->end)
				n = 1;
			else if (write_received(pump))
				pump->end = NONE;
			else
				return 0;
		}
		if (queue->begin < pump->end)
			n = min_u64(n, pump->end - queue->begin);
		done = write(pump->out, p, min_u64(n, QUEUE_ON_WAY));
		/* the control group is short of memory for the moment */
		if (done < 0 && errno == ENOMEM)
			usleep(LOOK_NS / 1000 * LOOKS);
		if (done < 0)
			return errno != EPIPE;
		queue_take(queue, done);
	}
	return 1;
}

/* Move the stream from the input to btrfs until one of them ends. */
static void pump_all(struct pump *pump)
{
	struct queue *queue = pump->queue;

	while (pump->in >= 0 || queue->begin != queue->end || pump->held) {
		struct pollfd fds[2] = { { .fd = -1, .events = POLLIN }, { .fd = pump->out } };
		int n, waits, ends = is_at_end(pump);
		struct timespec wait = { .tv_nsec = !ends ? PATIENCE_NS :
					 LOOK_NS * (pump->looks < LOOKS ? pump->looks : LOOKS) };
		u8 *p = NULL;
		size_t room;

		/* with two end commands waiting, nothing more is read */
		if (pump->in >= 0 && !pump->fold.at_end &&
		    (p = queue_room(queue, pump->held, &room)))
			fds[0].fd = pump->in;
		if (queue->begin != queue->end && !ends)
			fds[1].events = POLLOUT;
		waits = ends || (p && pump->held && !pump->waited);
		n = ppoll(fds, 2, waits ? &wait : NULL, NULL);
		if (n < 0 && errno != EINTR) {
			pump->error = errno;
			return;
		}
		if (!n || (pump->sized && now_ns() - pump->sized > MEMORY_NS))
			size_buffer(pump);
		/* nothing has arrived for PATIENCE_NS */
		if (!n && !ends) {
			pump->waited = 1;
			look_again(pump, 0);
		}
		if (n <= 0 && !ends)
			continue;
		if (fds[1].revents & (POLLERR | POLLHUP | POLLNVAL))
			return;
		if (fds[0].revents)
			take_in(pump, p, room);
		if (!hand_on(pump))
			return;
		if (pump->fold.at_end && pump->end == NONE)
			look_again(pump, pump->in >= 0);
	}
}

int receive_run(const struct options *options, struct queue *queue, struct shared *shared,
		void (*started)(void))
{
	struct pump pump = { .queue = queue, .directory = -1, .end = NONE };
	int fds[2], in = open_stream(options), status;

	if (in < 0 || pipe2(fds, O_CLOEXEC))
		return -1;
	fcntl(in, F_SETPIPE_SZ, PIPE_SIZE);
	/* its size differs with large pages */
	fcntl(fds[1], F_SETPIPE_SZ, QUEUE_ON_WAY);
	fcntl(fds[1], F_SETFL, O_NONBLOCK);
	child_start(options->piped, options->command, fds[0], STDIN_FILENO);
	close(fds[0]);
	started();
	pump.sized = options->buffer ? 0 : now_ns();
	size_buffer(&pump);
	shared->stats.buffer_bytes = queue->most;
	pump.target = options->directory;
	if (!options->no_sync)
		pump.directory = open(options->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* with -vv btrfs prints each command: it must see all of them */
	pump.fold.unchanged = options->unchanged || options->verbose > 1 || labels_files();
	pump.in = in;
	pump.out = fds[1];
	pump_all(&pump);
	/* the writer of the stream gets SIGPIPE, as without us */
	close(in);
	if (pump.error)
		fprintf(stderr, "sendahead: cannot read the stream: %s\n", strerror(pump.error));
	close(fds[1]);
	shared->stream_bytes = queue->end;
	shared->stats.renames_saved = pump.fold.changed;
	fold_free(&pump.fold);
	status = child_end();
	return (pump.error || pump.failed) && !status ? 1 << 8 : status;
}
