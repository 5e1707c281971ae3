// SPDX-License-Identifier: GPL-2.0
/*
 * The real btrfs receive gets its stream from a buffer, which takes what comes while it is
 * at work, and in which files that are renamed as soon as they are made become one command.
 * Before btrfs is told that a subvolume ends, what is received is written to the disk: btrfs does
 * not look whether that can be done before it says that all is received; and it makes two commits
 * then, and for data that is written later much of the trees is written again.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <linux/btrfs.h>
#include <linux/sockios.h>

#include "child.h"
#include "room.h"
#include "shared.h"
#include "receive.h"
#include "fold.h"
#include "stream.h"

#define PIPE_SIZE (1 << 20)		/* of the one that is read */
#define STEP 65536			/* bytes read at once */
#define BUFFER (256ULL << 20)		/* automatic, at most */
#define BUFFER_SHARE 4			/* of the memory that can be had */
#define PATIENCE_NS 100000000		/* that a command waits for the next one */
#define LOOK_NS 100000			/* between the first two looks at whether all is received, */
#define LOOKS 1000			/* and so many times that between later ones, at most */
#define MEMORY_NS 100000000		/* between two looks at how much memory is left */
/* Where two parts of the kernel give each new file a label by the directory it is made in. */
static int labels_files(void)
{
	FILE *file = fopen("/proc/filesystems", "re");	/* containers do not hide it */
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
	/* what follows the end in standard input is for somebody else */
	if (options->direct || !options->directory || (options->to_end && !options->file))
		return NULL;
	return queue_init(options->buffer ? options->buffer : BUFFER);
}

/* The stream, in place of btrfs. Return: an open file, or -1: let btrfs say what is wrong. */
static int open_stream(const struct options *options)
{
	struct stat stat;
	int fd = STDIN_FILENO;

	if (options->file)
		fd = open(options->file, O_RDONLY | O_CLOEXEC);
	return fd < 0 || fstat(fd, &stat) || S_ISDIR(stat.st_mode) ||
		(fcntl(fd, F_GETFL) & O_ACCMODE) == O_WRONLY ? -1 : fd;
}

/*
 * The way to btrfs. A pipe has room again, and wakes us, for each page that is taken; a socket,
 * where the kernel has such, once three quarters are. Where the kernel asks who may use which
 * file, a pipe is what btrfs is sure to be allowed. Return: how many bytes are to be written
 * at once, or 0.
 */
static size_t open_way(int fds[2])
{
	int half = RECEIVE_ON_WAY / 2;	/* the kernel doubles it */

	if (labels_files() || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
		return pipe2(fds, O_CLOEXEC) ? 0 : RECEIVE_ON_WAY;
	setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &half, sizeof(half));
	/* it has room for one that was taken as a whole, and is to have it before it is empty */
	return RECEIVE_ON_WAY / 8;
}

struct pump {
	struct queue *queue;
	struct fold fold;
	int in, out;
	size_t at_once;		/* bytes written */
	size_t held;		/* bytes read, and not in the queue yet */
	int waited;		/* long enough for more */
	int error;		/* of reading */
	const char *target;
	int directory;		/* that one, or -1: nothing is synced */
	u64 end;		/* of a subvolume in the stream, not handed on yet, or NONE */
	char name[256];		/* of the subvolume */
	u32 looks;		/* at whether it is received */
	int failed;		/* it could not be written */
	u64 sized;		/* when the buffer was, or 0: it is not to be */
};

/* The buffer may have a share of the memory that is left now, with its own. */
static void size_buffer(struct pump *pump)
{
	struct queue *queue = pump->queue;
	u64 left = pump->sized ? room_memory() + queue_memory(queue) : NONE;

	queue_limit(queue, left / BUFFER_SHARE);
	if (pump->sized)
		pump->sized = now_ns();
}

static void add(struct pump *pump, size_t n)
{
	struct queue *queue = pump->queue;
	const struct fold *fold = &pump->fold;

	if (queue->begun != fold->begun) {
		queue->begun = 0;
		queue->snapshot = fold->snapshot;
		memcpy(queue->parent, fold->parent, sizeof(queue->parent));
		memcpy(queue->name, fold->name, sizeof(queue->name));
		queue->begun = fold->begun;
	}
	queue_add(queue, n);
	queue->boundaries[queue->nr_boundaries % QUEUE_BOUNDARIES] = queue->end + fold->left;
	queue->nr_boundaries++;
	queue->lost = fold->state == FOLD_UNKNOWN;
	pump->held -= n;
	shared_tell_news();
}

/* What was read goes into the queue, but for what is to wait for more, or for the end before. */
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
			memcpy(pump->name, fold->name, sizeof(pump->name));
		}
		done = fold_run(fold, p, &pump->held, hold);
		add(pump, done);
		p += done;
	} while (fold->at_end);
	if (pump->in < 0)
		add(pump, pump->held);
}

/* Read what is there, up to the end. */
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

/* What is held back is looked at once more. */
static void look_again(struct pump *pump, int hold)
{
	size_t room;
	u8 *p = queue_room(pump->queue, pump->held, &room);

	if (p)
		sort_out(pump, p, hold);
}

/* Has the receive to get what ends a subvolume now, or all of it but one byte? */
static int is_at_end(const struct pump *pump)
{
	return pump->end != NONE && pump->queue->begin - pump->end <= 1;
}

/* What is on the way is not received yet. */
static int is_taken(struct pump *pump)
{
	int left;

	if ((ioctl(pump->out, SIOCOUTQ, &left) && ioctl(pump->out, FIONREAD, &left)) || !left)
		return 1;
	pump->looks++;
	return 0;
}

/* Return: whether all that is received is on the disk. */
static int write_received(struct pump *pump)
{
	/* without the trees that change once more, which syncfs() writes first */
	ioctl(pump->directory, BTRFS_IOC_SYNC);
	if (!syncfs(pump->directory))
		return 1;
	fprintf(stderr, "sendahead: cannot write to %s: %s: delete %s there, parts of it may be lost\n",
		pump->target, strerror(errno), pump->name);
	pump->failed = 1;
	return 0;
}

/*
 * Of what ends a subvolume, the receive gets the first byte when it has taken all before. It takes
 * that when it has done all before: then that is written, and it gets the others, or none.
 * Return: whether to go on.
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
		done = write(pump->out, p, min_u64(n, pump->at_once));
		/* no memory, as a control group has it, is no end */
		if (done < 0 && (errno == ENOBUFS || errno == ENOMEM))
			usleep(LOOK_NS / 1000 * LOOKS);
		if (done < 0)
			return errno != EPIPE && errno != ECONNRESET;
		queue_take(queue, done);
	}
	return 1;
}

/* From the one to the other, until one of them ends. */
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

		/* behind two ends nothing is read */
		if (pump->in >= 0 && !pump->fold.at_end)
			p = queue_room(queue, pump->held, &room);
		if (p)
			fds[0].fd = pump->in;
		if (queue->begin != queue->end && !ends)
			fds[1].events = POLLOUT;
		/* what has no need of its memory for a while gives it back */
		waits = ends || (p && pump->held && !pump->waited) ||
			queue->nr_free > queue->nr_bare;
		n = ppoll(fds, 2, waits ? &wait : NULL, NULL);
		if (n < 0 && errno != EINTR)
			return;
		if (!n || (pump->sized && now_ns() - pump->sized > MEMORY_NS))
			size_buffer(pump);
		/* nothing has come for a while */
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

int receive_run(const struct options *options, struct queue *queue, struct received *received,
		void (*started)(void))
{
	struct pump pump = { .queue = queue, .directory = -1, .end = NONE };
	int fds[2], in = -1, status;

	if (queue)
		in = open_stream(options);
	if (in >= 0)
		pump.at_once = open_way(fds);
	if (!pump.at_once)
		return -1;
	fcntl(in, F_SETPIPE_SZ, PIPE_SIZE);
	fcntl(fds[1], F_SETFL, O_NONBLOCK);
	child_start(options->piped, options->command, fds[0], STDIN_FILENO);
	close(fds[0]);
	started();
	pump.sized = options->buffer ? 0 : now_ns();
	size_buffer(&pump);
	received->buffer_bytes = (u64)queue->most * QUEUE_CHUNK;
	pump.target = options->directory;
	if (!options->no_sync)
		pump.directory = open(options->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* -v twice: each command is printed */
	pump.fold.unchanged = options->unchanged || options->verbose > 1 || labels_files();
	pump.in = in;
	pump.out = fds[1];
	pump_all(&pump);
	/* who writes the stream finds nobody to read it, as without us */
	close(in);
	if (pump.error)
		fprintf(stderr, "sendahead: cannot read the stream: %s\n", strerror(pump.error));
	close(fds[1]);
	received->stream_bytes = queue->end;
	received->renames_saved = pump.fold.changed;
	fold_free(&pump.fold);
	status = child_end();
	return (pump.error || pump.failed) && !status ? 1 << 8 : status;
}
