// SPDX-License-Identifier: GPL-2.0
/*
 * Runs the real btrfs send. Its stream goes through a pipe of ours: it is parsed and written to
 * standard output or to the file of -f. If the output is a device other than /dev/null, btrfs writes
 * to it itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "child.h"
#include "shared.h"

#define PIPE_SIZE (1 << 20)
/*
 * btrfs writes each command by itself. If fewer bytes than these were there, wait a little so that
 * more of them are handled at once.
 */
#define GATHER 65536
#define GATHER_US 250

#define ATTEMPTS 16		/* to get a process whose number selects the copy */

/* Variable in the environment of btrfs: the files named btrfs that were executed, as ":file:". */
#define MARK "SENDAHEAD_TRIED"

static const int signals[] = {
	SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGPIPE, 0
};
static volatile sig_atomic_t child;	/* the process that runs btrfs, or 0 */
static volatile sig_atomic_t got;	/* the signal that was passed on last, or 0 */
static int child_fd = -1;		/* a pidfd: readable when btrfs has ended */
static struct restart restart;
u32 child_copies, child_copy;
static u64 stream_bytes;
static u8 buffer[1 << 18];
static size_t held;			/* bytes in it */
/* What became of the stream. */
enum { WRITTEN, NOT_WRITTEN, DIFFERS };

static void forward(int signal, siginfo_t *info, void *context)
{
	int error = errno;

	(void)context;
	/* not sent by a process: a write of ours failed, which is handled there */
	if (signal == SIGPIPE && info->si_pid == getpid())
		return;
	got = signal;
	if (child > 0)
		kill(child, signal);
	errno = error;
}

static void forward_signals(void)
{
	struct sigaction action = { .sa_sigaction = forward, .sa_flags = SA_SIGINFO }, old;
	const int *each;

	for (each = signals; *each; each++)
		if (!sigaction(*each, NULL, &old) && old.sa_handler != SIG_IGN)
			sigaction(*each, &action, NULL);
}

/* Wait until the output can be written. Return: 0, or -1 if btrfs was killed meanwhile. */
static int wait_for_reader(int fd)
{
	struct pollfd fds[2] = {
		{ .fd = fd, .events = POLLOUT }, { .fd = child_fd, .events = POLLIN },
	};

	/* poll every 200 ms where the pidfd does not tell: before Linux 5.3, and after the end */
	while (poll(fds, 2, fds[1].fd < 0 ? 200 : -1) <= 0 || !fds[0].revents) {
		siginfo_t info = { 0 };

		waitid(P_PID, child, &info, WEXITED | WNOHANG | WNOWAIT);
		if (info.si_pid)
			fds[1].fd = -1;
		if (info.si_pid && (got || info.si_code != CLD_EXITED)) {
			errno = EPIPE;
			return -1;
		}
	}
	return 0;
}

static int write_all(int fd, const u8 *p, size_t n)
{
	while (n) {
		ssize_t done = wait_for_reader(fd) ? -1 : write(fd, p, n);

		if (done < 0 && errno != EAGAIN && errno != EINTR)
			return -1;
		if (done > 0) {
			p += done;
			n -= done;
		}
	}
	return 0;
}

/*
 * Parse the bytes of the buffer and hand them on, or drop them. Those whose meaning is not clear yet
 * stay.
 */
static int hand_on(int to)
{
	size_t at = 0, pass, drop;

	do {
		u32 times = restart.times;

		if (restart_look(&restart, buffer + at, held - at, &pass, &drop))
			return DIFFERS;
		if (restart.times != times)
			fprintf(stderr, "sendahead: the stream begins again: what was sent is left out\n");
		if (write_all(to, buffer + at, pass))
			return NOT_WRITTEN;
		at += pass + drop;
		stream_bytes += pass;
	} while (pass || drop);
	if (restart.stream.lost)
		shared_tell_over();
	else
		shared_tell(&restart.stream.told, stream_bytes);
	held -= at;
	memmove(buffer, buffer + at, held);
	return WRITTEN;
}

static int hand_through(int from, int to)
{
	ssize_t n;
	int result;

	while ((n = read(from, buffer + held, sizeof(buffer) - held))) {
		if (n < 0 && errno != EINTR)
			return NOT_WRITTEN;
		if (n < 0)
			continue;
		held += n;
		result = hand_on(to);
		if (result != WRITTEN)
			return result;
		if (n < GATHER)
			usleep(GATHER_US);
	}
	/* what was written again only in part is left out */
	return !restart.left && write_all(to, buffer, held) ? NOT_WRITTEN : WRITTEN;
}

int child_is_inside(void)
{
	return getenv(MARK) != NULL;
}

/* Make our capabilities ambient: those of our file would be lost when btrfs is executed. */
static void hand_capabilities_on(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2];
	int i;

	if (syscall(SYS_capget, &head, caps))
		return;
	for (i = 0; i < 2; i++)
		caps[i].inheritable |= caps[i].permitted;
	syscall(SYS_capset, &head, caps);
	for (i = 0; i < 64; i++)
		if (caps[i / 32].permitted >> i % 32 & 1)
			prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, i, 0, 0);
}

void child_become(char **command)
{
	/* setuid or with file capabilities: do not trust the caller's PATH */
	const char *path = getauxval(AT_SECURE) ? NULL : getenv("PATH"), *each;
	const char *tried = getenv(MARK) ? getenv(MARK) : "";
	struct stat self = { 0 }, is;
	int error = ENOENT;

	if (geteuid())
		hand_capabilities_on();
	if (!path)
		path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
	stat("/proc/self/exe", &self);
	for (each = path; each; each = strchr(each, ':') ? strchr(each, ':') + 1 : NULL) {
		int n = strcspn(each, ":");
		char *file, *mark;

		if (asprintf(&file, "%.*s/btrfs", n ? n : 1, n ? each : ".") < 0 ||
		    asprintf(&mark, "%s:%s:", tried, file) < 0)
			break;
		if (stat(file, &is) || strstr(tried, mark + strlen(tried)) ||
		    (is.st_dev == self.st_dev && is.st_ino == self.st_ino))
			continue;
		setenv(MARK, mark, 1);
		execvp(file, command);
		error = errno;
	}
	fprintf(stderr, "sendahead: cannot run btrfs (package btrfs-progs): %s\n", strerror(error));
	_exit(127);
}

pid_t child_fork(int signal_at_end)
{
	struct sigaction old;
	const int *each;
	int fds[2], tries = ATTEMPTS;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC))
		return -1;
	while ((pid = fork()) >= 0 && child_copies && --tries &&
	       (pid ? pid : getpid()) % child_copies != child_copy) {
		if (!pid)
			_exit(0);
		waitpid(pid, NULL, 0);
	}
	close(fds[pid ? 0 : 1]);
	if (pid < 0)
		close(fds[1]);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, signal_at_end);
	/* the parent may have ended before prctl(): then its end of the pipe is closed */
	if (poll(&(struct pollfd) { .fd = fds[0] }, 1, 0))
		_exit(1);
	for (each = signals; *each; each++)
		if (!sigaction(*each, NULL, &old) && old.sa_sigaction == forward)
			signal(*each, SIG_DFL);
	return 0;
}

void child_start(char **command, char **alone, int fd, int as)
{
	sighandler_t sigchld = signal(SIGCHLD, SIG_DFL);
	sigset_t all, mask;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &mask);
	/* if this process is killed, btrfs ends as well */
	child = child_fork(SIGTERM);
	if (child <= 0) {
		if (!child && fd >= 0)
			dup2(fd, as);
		/* ^Z at the terminal shall stop only us: stopping btrfs restarts its stream */
		if (!child && as == STDOUT_FILENO)
			setsid();
		signal(SIGCHLD, sigchld);
		sigprocmask(SIG_SETMASK, &mask, NULL);
		child_become(child ? alone : command);
	}
	child_fd = syscall(SYS_pidfd_open, child, 0);
	shared_tell_sender(child);
	forward_signals();
	sigprocmask(SIG_SETMASK, &mask, NULL);
}

int child_can_follow(const struct options *options)
{
	struct stat is = { .st_mode = S_IFREG };	/* for a file that does not exist yet */
	socklen_t size = sizeof(int);
	int type = 0;

	if (stat(options->file ? options->file : "/proc/self/fd/1", &is) && !options->file)
		return 0;
	/* the size of what is written at once may count in other sockets */
	getsockopt(STDOUT_FILENO, SOL_SOCKET, SO_TYPE, &type, &size);
	/* other devices can fail in a write: btrfs shall see and print that error */
	return !options->direct && (S_ISREG(is.st_mode) || S_ISFIFO(is.st_mode) ||
		(S_ISSOCK(is.st_mode) && type == SOCK_STREAM) ||
		(S_ISCHR(is.st_mode) && is.st_rdev == makedev(1, 3)));
}

/*
 * Open what the stream is written to: the file of -f as btrfs does, but do not truncate it before the
 * stream begins. A pipe is opened anew where that is possible: others that share standard output
 * would not expect it to be non-blocking. Return: a descriptor, or -1.
 */
static int open_output(const char *name)
{
	struct stat is;
	int fd;

	if (!name && (fstat(STDOUT_FILENO, &is) || !S_ISFIFO(is.st_mode)))
		return STDOUT_FILENO;
	fd = open(name ? name : "/proc/self/fd/1", O_WRONLY | (name ? 0 : O_NONBLOCK) | O_CLOEXEC);
	if (fd < 0 && !name)
		return STDOUT_FILENO;
	if (fd < 0 && errno == ENOENT)
		fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

int child_end(void)
{
	int status = 1 << 8;
	pid_t pid = child;
	siginfo_t info;

	while (waitid(P_PID, pid, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR)
		;
	/* after waitpid() the number may belong to another process: pass no signal on to it */
	child = 0;
	waitpid(pid, &status, 0);
	return status;
}

/* Return: the status that btrfs would have, had it made the failed write itself. */
static int end_of_writer(int status, int error, int sigpipe_ignored)
{
	if (WIFSIGNALED(status) ? WTERMSIG(status) != SIGPIPE : WEXITSTATUS(status))
		return status;
	return got ? got : error == EPIPE && !sigpipe_ignored ? SIGPIPE : error << 8;
}

int child_run(const struct options *options, void (*started)(void))
{
	int fds[2] = { -1, -1 }, to = open_output(options->file), status, result, error = 0;
	const struct stream *stream = &restart.stream;
	struct sigaction sigpipe;

	/* btrfs shall print the error */
	if (to < 0 || pipe2(fds, O_CLOEXEC))
		child_become(options->command);
	fcntl(fds[1], F_SETPIPE_SZ, PIPE_SIZE);
	sigaction(SIGPIPE, NULL, &sigpipe);
	child_start(options->piped, options->command, fds[1], STDOUT_FILENO);
	close(fds[1]);
	started();
	while (options->file && poll(&(struct pollfd) { fds[0], POLLIN, 0 }, 1, -1) < 0)
		;
	if (options->file && !ioctl(fds[0], FIONREAD, &status) && status)
		error = ftruncate(to, 0) && errno != EINVAL ? errno : 0;
	result = error ? NOT_WRITTEN : hand_through(fds[0], to);
	if (result == NOT_WRITTEN && !error)
		error = errno;
	if (result == DIFFERS) {
		fprintf(stderr, "sendahead: the stream began again and is another one: what was "
			"sent of it is of no use, send it again\n");
		kill(child, SIGKILL);
	}
	if (error && error != EPIPE)
		fprintf(stderr, "sendahead: cannot write the stream: %m\n");
	/* after an error, btrfs gets SIGPIPE */
	close(fds[0]);
	close(STDOUT_FILENO);
	if (to != STDOUT_FILENO && close(to) && !error) {
		error = errno;
		fprintf(stderr, "sendahead: cannot write the stream: %m\n");
	}
	status = child_end();
	if (error)
		return end_of_writer(status, error, sigpipe.sa_handler == SIG_IGN);
	if (result == DIFFERS)
		return 1 << 8;
	if (WIFEXITED(status) && WEXITSTATUS(status) && stream->told.begun && !stream->lost)
		fprintf(stderr, "sendahead: the stream ended at byte %llu of %s\n",
			(unsigned long long)stream->offset, stream->path);
	return status;
}
