// SPDX-License-Identifier: GPL-2.0
/*
 * The real btrfs send, and its stream, which is only looked at:
 *
 * - written to a regular file, by -f or as standard output, it is btrfs that writes it,
 *   and the file is read as it grows, but for the data;
 * - into anything else it goes through a pipe of ours, copied by no one: tee() makes
 *   what is looked at, splice() hands it on;
 * - to a terminal btrfs refuses to write.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include "child.h"
#include "place.h"

#define PIPE_SIZE (1 << 20)
/* btrfs writes each command by itself: if fewer bytes were there, more are let come for a while. */
#define GATHER 65536
#define GATHER_US 250
#define TAIL_US 5000			/* between two looks at a file that grows */

/* In the environment of btrfs: the files of that name that were run, each as ":file:". */
#define MARK "SENDAHEAD_TRIED"

static const int signals[] = {
	SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGPIPE, 0
};
static volatile sig_atomic_t child, got;	/* a process, a signal: 0: none */
static int child_fd = -1;			/* tells when it has ended */
static struct stream stream;
static u64 stream_bytes;
static u8 buffer[65536];

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

/* Look at the next bytes of the stream. Return: whether that can go on. */
static int look(const u8 *p, size_t n)
{
	stream_bytes += n;
	if (stream_feed(&stream, p, n)) {
		place_tell_over();
		return 0;
	}
	place_tell(&stream.told, stream_bytes);
	return 1;
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
	place_tell_waited(now_ns() - begun);
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

/* Look at what is in the copy. Return: whether that can go on. */
static int look_at(int copy, size_t n)
{
	int going = 1;

	while (n) {
		ssize_t done = read(copy, buffer, min_u64(n, sizeof(buffer)));

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0) {
			place_tell_over();
			return 0;
		}
		going = going && look(buffer, done);
		n -= done;
	}
	return going;
}

/* Hand the stream on. Return: whether all of it arrived. */
static int hand_through(int from, int to)
{
	int copy[2], looking = !pipe2(copy, O_CLOEXEC);
	int size = fcntl(from, F_GETPIPE_SZ);

	if (looking && fcntl(copy[1], F_SETPIPE_SZ, size) < size)
		size = fcntl(copy[1], F_GETPIPE_SZ);
	if (!looking)
		place_tell_over();
	for (;;) {
		ssize_t n = looking ? tee(from, copy[1], size, 0) :
				      read(from, buffer, sizeof(buffer));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && looking) {
			looking = 0;
			place_tell_over();
			continue;
		}
		if (n <= 0)
			return 1;
		if (looking) {
			looking = look_at(copy[0], n);
			if (move(from, to, n))
				return 0;
		} else if (write_all(to, buffer, n)) {
			return 0;
		}
		if (n < GATHER && n < size / 2)
			usleep(GATHER_US);
	}
}

static int has_ended(pid_t pid)
{
	siginfo_t info = { 0 };

	return waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid == pid;
}

/* The file that btrfs has opened for -f, once it has; -1 if it ends without. */
static int opened_file(pid_t pid, const char *name)
{
	do {
		struct stat want, is;
		int fd;

		usleep(TAIL_US);
		if (stat(name, &want) || !S_ISREG(want.st_mode))
			continue;
		for (fd = 3; fd < 64; fd++) {
			char path[64];

			snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
			if (stat(path, &is) || is.st_dev != want.st_dev || is.st_ino != want.st_ino)
				continue;
			/* the link has the modes that it is open for */
			if (!lstat(path, &is) && is.st_mode & S_IWUSR)
				return open(name, O_RDONLY | O_CLOEXEC);
		}
	} while (!has_ended(pid));
	return -1;
}

/* Look at the stream in a file that grows from @at on, until the process is gone. */
static void look_at_file(int fd, off_t at, pid_t pid)
{
	u64 pass = 0;
	int ended;

	do {
		ssize_t n;

		ended = has_ended(pid);
		/* behind data there is a head, and then data again */
		while ((n = pread(fd, buffer, pass ? 4096 : sizeof(buffer), at)) > 0) {
			if (!look(buffer, n))
				return;
			pass = stream_pass(&stream);
			stream_bytes += pass;
			at += n + pass;
		}
		if (!ended)
			usleep(TAIL_US);
	} while (!ended);
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
		signal(SIGCHLD, sigchld);
		sigprocmask(SIG_SETMASK, &mask, NULL);
		child_become(child ? alone : command);
	}
	child_fd = syscall(SYS_pidfd_open, child, 0);
	place_tell_sender(child);
	forward_signals();
	sigprocmask(SIG_SETMASK, &mask, NULL);
}

/* Where the stream goes: nothing to follow, a regular file, or a pipe or the like. */
enum target { NOT_FOLLOWED, INTO_FILE, THROUGH };

/* Is a file, or the one to be made, on NFS, CIFS, FUSE or 9p, where a second open costs? */
static int is_remote(const char *path)
{
	char copy[PATH_MAX];
	struct statfs fs;
	u32 type;

	snprintf(copy, sizeof(copy), "%s", path);
	if (statfs(path, &fs) && statfs(dirname(copy), &fs))
		return 0;
	type = fs.f_type;
	return type == 0x6969 || type == 0xff534d42 || type == 0xfe534d42 || type == 0x65735546 ||
		type == 0x01021997;
}

static enum target target_of(const struct options *options)
{
	const char *path = options->file ? options->file : "/proc/self/fd/1";
	/* what is not there yet becomes a file */
	struct stat is = { .st_mode = options->file ? S_IFREG : 0 };

	stat(path, &is);
	if (S_ISREG(is.st_mode))
		return is_remote(path) ? NOT_FOLLOWED : INTO_FILE;
	/* other devices can refuse what btrfs writes, which is then to say so itself */
	if (!options->file && (S_ISFIFO(is.st_mode) || S_ISSOCK(is.st_mode) ||
			       (S_ISCHR(is.st_mode) && is.st_rdev == makedev(1, 3))))
		return THROUGH;
	return NOT_FOLLOWED;
}

int child_can_follow(const struct options *options)
{
	return target_of(options) != NOT_FOLLOWED;
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

int child_run(const struct options *options, void (*started)(void))
{
	enum target target = target_of(options);
	int fds[2] = { -1, -1 }, file = -1, status, error = 0;
	struct sigaction sigpipe;
	off_t at = 0;

	stream_init(&stream);
	if (target == THROUGH && pipe2(fds, O_CLOEXEC))
		target = NOT_FOLLOWED;
	if (target == THROUGH)
		fcntl(fds[1], F_SETPIPE_SZ, PIPE_SIZE);
	if (target == INTO_FILE && !options->file) {
		file = open("/proc/self/fd/1", O_RDONLY | O_CLOEXEC);
		at = lseek(STDOUT_FILENO, 0, fcntl(STDOUT_FILENO, F_GETFL) & O_APPEND ?
			   SEEK_END : SEEK_CUR);
	}
	sigaction(SIGPIPE, NULL, &sigpipe);
	child_start(options->command, options->command, fds[1], STDOUT_FILENO);
	if (target == THROUGH)
		close(fds[1]);
	started();
	if (target == THROUGH) {
		if (!hand_through(fds[0], STDOUT_FILENO))
			error = errno;
		if (error && error != EPIPE)
			fprintf(stderr, "sendahead: cannot write the stream: %m\n");
		/* where it cannot be written, btrfs finds nobody to write to */
		close(fds[0]);
		close(STDOUT_FILENO);
	} else {
		if (target == INTO_FILE && options->file)
			file = opened_file(child, options->file);
		if (file >= 0 && at >= 0)
			look_at_file(file, at, child);
		else
			place_tell_over();
	}
	status = child_end();
	return error ? end_of_writer(status, error, sigpipe.sa_handler == SIG_IGN) : status;
}
