// SPDX-License-Identifier: GPL-2.0
/*
 * The real btrfs send, and its stream, which is only looked at:
 *
 * - it goes through a pipe of ours, copied by no one: tee() makes what is looked at,
 *   splice() hands it on, to standard output or the file of -f;
 * - to a terminal btrfs refuses to write, and to other devices it writes itself.
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
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "restart.h"
#include "child.h"
#include "shared.h"

#define PIPE_SIZE (1 << 20)
/* btrfs writes each command by itself: if fewer bytes were there, more are let come for a while. */
#define GATHER 65536
#define GATHER_US 250

/* In the environment of btrfs: the files of that name that were run, each as ":file:". */
#define MARK "SENDAHEAD_TRIED"

static const int signals[] = {
	SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGPIPE, 0
};
static volatile sig_atomic_t child, got;	/* a process, a signal: 0: none */
static int child_fd = -1;			/* tells when it has ended */
static struct restart restart;
static u64 stream_bytes;
static u8 buffer[65536];
/* What became of the stream. */
enum { WRITTEN, NOT_WRITTEN, DIFFERS };

static void forward(int signal, siginfo_t *info, void *context)
{
	int error = errno;

	(void)context;
	/* nobody has sent it: nobody reads what is written */
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

/* Wait until the reader takes more, unless the send was killed, as it would be in write(). */
static int wait_for_reader(int fd)
{
	struct pollfd fds[2] = {
		{ .fd = fd, .events = POLLOUT }, { .fd = child_fd, .events = POLLIN },
	};
	u64 begun = now_ns();

	/* once it has ended, and before Linux 5.3, one has to look */
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
	shared_tell_waited(now_ns() - begun);
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

/* Move so many bytes out of a pipe, past us if that can be. */
static int move(int from, int to, size_t n)
{
	while (n) {
		ssize_t done;

		/* a socket knows of no SPLICE_F_NONBLOCK, but a signal interrupts it */
		if (wait_for_reader(to))
			return -1;
		done = splice(from, NULL, to, NULL, n, SPLICE_F_NONBLOCK);
		if (done < 0 && errno == EINVAL) {
			done = read(from, buffer, min_u64(n, sizeof(buffer)));
			if (done > 0 && write_all(to, buffer, done))
				return -1;
		}
		if (!done || (done < 0 && errno != EAGAIN && errno != EINTR))
			return -1;
		if (done > 0)
			n -= done;
	}
	return 0;
}

/* Take so many bytes out of a pipe that were seen in its copy. */
static void leave_out(int from, size_t n)
{
	static u8 unused[4096];
	ssize_t done;

	while (n && ((done = read(from, unused, min_u64(n, sizeof(unused)))) > 0 ||
		     (done < 0 && errno == EINTR)))
		n -= done > 0 ? done : 0;
}

/* Of the bytes in the buffer, the first @held were taken out of the pipe before. */
static int hand_on(int from, int to, size_t n, size_t *held)
{
	size_t at = 0, pass, drop, part;

	do {
		u32 times = restart.times;

		if (restart_look(&restart, buffer + at, n - at, &pass, &drop))
			return DIFFERS;
		if (restart.times != times)
			fprintf(stderr, "sendahead: the stream begins again: what was sent is left out\n");
		part = min_u64(pass, *held);
		if (write_all(to, buffer + at, part) || move(from, to, pass - part))
			return NOT_WRITTEN;
		*held -= part;
		part = min_u64(drop, *held);
		leave_out(from, drop - part);
		*held -= part;
		at += pass + drop;
		stream_bytes += pass;
	} while (at < n && (pass || drop));
	if (restart.lost)
		shared_tell_over();
	else
		shared_tell(&restart.stream.told, stream_bytes);
	leave_out(from, n - at - *held);
	*held = n - at;
	memmove(buffer, buffer + at, *held);
	return WRITTEN;
}

/* Hand the stream on. */
static int hand_through(int from, int to)
{
	int copy[2], size = fcntl(from, F_GETPIPE_SZ), result;
	size_t held = 0;
	ssize_t n;

	if (pipe2(copy, O_CLOEXEC))
		return NOT_WRITTEN;
	if (fcntl(copy[1], F_SETPIPE_SZ, size) < size)
		size = fcntl(copy[1], F_GETPIPE_SZ);
	while ((n = tee(from, copy[1], size, 0))) {
		int few = n < GATHER && n < size / 2;

		if (n < 0 && errno != EINTR)
			return NOT_WRITTEN;
		while (n > 0) {
			ssize_t part = read(copy[0], buffer + held,
					    min_u64(n, sizeof(buffer) - held));

			if (part < 0 && errno != EINTR)
				return NOT_WRITTEN;
			if (part < 0)
				continue;
			n -= part;
			result = hand_on(from, to, held + part, &held);
			if (result != WRITTEN)
				return result;
		}
		if (few)
			usleep(GATHER_US);
	}
	return write_all(to, buffer, held) ? NOT_WRITTEN : WRITTEN;
}

int child_is_inside(void)
{
	return getenv(MARK) != NULL;
}

/* What a file's capabilities are to us, btrfs would not get: it has none of its own. */
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
	/* with more rights than whoever has called us, it is not for them to say where btrfs is */
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
	fprintf(stderr, "sendahead: cannot run btrfs: %s\n", strerror(error));
	_exit(127);
}

pid_t child_fork(int signal_at_end)
{
	struct sigaction old;
	const int *each;
	int fds[2];
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC))
		return -1;
	pid = fork();
	close(fds[pid ? 0 : 1]);
	if (pid < 0)
		close(fds[1]);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, signal_at_end);
	/* this end of the pipe tells whether the parent lives, whatever its number is here */
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
	/* it ends as it would without this process, if that is killed */
	child = child_fork(SIGTERM);
	if (child <= 0) {
		if (!child && fd >= 0)
			dup2(fd, as);
		/* a stop from the terminal (^Z) is for us: it would make a stream begin again */
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
	struct stat is = { .st_mode = S_IFREG };	/* what is not there yet becomes a file */

	if (stat(options->file ? options->file : "/proc/self/fd/1", &is) && !options->file)
		return 0;
	/* other devices can refuse what btrfs writes, which is then to say so itself */
	return !options->direct && (S_ISREG(is.st_mode) || S_ISFIFO(is.st_mode) ||
		S_ISSOCK(is.st_mode) || (S_ISCHR(is.st_mode) && is.st_rdev == makedev(1, 3)));
}

/* The file of -f, as btrfs opens it, but what was in it stays until the stream is there. */
static int open_file(const char *name)
{
	int fd = open(name, O_WRONLY | O_CLOEXEC);

	return fd < 0 && errno == ENOENT ? open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : fd;
}

int child_end(void)
{
	int status = 1 << 8;
	pid_t pid = child;
	siginfo_t info;

	while (waitid(P_PID, pid, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR)
		;
	/* once it is gone, its number may be another's: no signal is to be passed on */
	child = 0;
	waitpid(pid, &status, 0);
	return status;
}

/* How the send would have ended that had to write itself what could not be written. */
static int end_of_writer(int status, int error, int sigpipe_ignored)
{
	if (WIFSIGNALED(status) ? WTERMSIG(status) != SIGPIPE : WEXITSTATUS(status))
		return status;
	return got ? got : error == EPIPE && !sigpipe_ignored ? SIGPIPE : error << 8;
}

/* Where the stream has ended. */
static void tell_end(void)
{
	const struct stream *stream = &restart.stream;

	if (stream->told.begun && !restart.lost)
		fprintf(stderr, "sendahead: the stream ended at byte %llu of %s\n",
			(unsigned long long)stream->offset, stream->path);
}

int child_run(const struct options *options, void (*started)(void))
{
	int fds[2] = { -1, -1 }, to = STDOUT_FILENO, status, result, error = 0;
	struct sigaction sigpipe;

	stream_init(&restart.stream);
	if (options->file)
		to = open_file(options->file);
	/* what cannot be opened, or is no file, btrfs says itself */
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
	/* where it cannot be written, btrfs finds nobody to write to */
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
	if (WIFEXITED(status) && WEXITSTATUS(status))
		tell_end();
	return status;
}
