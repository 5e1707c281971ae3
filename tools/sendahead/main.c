// SPDX-License-Identifier: GPL-2.0
/*
 * sendahead - btrfs send and receive, while another process reads what they will need.
 *
 * There are three processes: this one, which hands the stream on and ends with the status of btrfs;
 * btrfs; and the reader, which reads ahead. The reader may fail or be killed at any time.
 */
#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "send-ahead.h"
#include "child.h"
#include "room.h"
#include "receive.h"
#include "report.h"

/* From linux/ioprio.h, which Debian 11 does not have. */
#define IOPRIO_PROCESS 1
#define IOPRIO_IDLE (3 << 13)

#define KILL_NS 1000000000ULL		/* the reader is killed if it has not ended by then, */
#define LEFT_NS 100000000ULL		/* and no longer waited for after so much more */

static struct shared *shared;
static struct options options;
static struct queue *queue;	/* of a receive */
static pid_t reader = -1, shower = -1;
static int showing;		/* this is the process that shows the progress */

static void tell(const char *why)
{
	if (why != shared->stats.why)
		snprintf(shared->stats.why, sizeof(shared->stats.why), "%s", why);
	if (options.verbose && !options.quiet)
		fprintf(stderr, "sendahead: nothing is read ahead: %s\n", why);
}

void give_up(const char *format, ...)
{
	va_list args;

	if (showing)
		_exit(0);
	va_start(args, format);
	vsnprintf(shared->stats.why, sizeof(shared->stats.why), format, args);
	va_end(args);
	if (shared->alone) {
		fprintf(stderr, "sendahead: %s\n", shared->stats.why);
		_exit(1);
	}
	tell(shared->stats.why);
	_exit(0);
}

/* May this process search the trees of a file system? */
static int may_search(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2] = { 0 };

	return !syscall(SYS_capget, &head, caps) && caps[0].effective >> CAP_SYS_ADMIN & 1;
}

/* If memory runs out, the kernel shall kill this process and not the send. */
static void be_first_to_go(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	dprintf(fd, "1000");
	close(fd);
}

/*
 * Let all others use the disk and the processor first. This includes btrfs: in the idle class
 * alone, reading ahead would wait for each read of a send, its own or another one.
 */
static void be_nice(void)
{
	setpriority(PRIO_PROCESS, 0, 19);
	syscall(SYS_ioprio_set, IOPRIO_PROCESS, 0, IOPRIO_IDLE);
}

/* Fork a process with this name, which is killed when this one ends. Return: as fork(). */
static pid_t begin(const char *name)
{
	pid_t pid = child_fork(SIGKILL);
	int null, fd;

	if (pid)
		return pid;
	prctl(PR_SET_NAME, name);
	/* close the stream: its reader must see the end as soon as btrfs has ended */
	null = open("/dev/null", O_RDWR);
	if (null < 0)
		_exit(0);
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	/* all other ends of pipes as well, where the call is not to be had one by one */
	for (fd = STDERR_FILENO + 1; syscall(__NR_close_range, fd, ~0U, 0) && fd < 1024; fd++)
		close(fd);
	be_first_to_go();
	return 0;
}

static void start_reader(void)
{
	if (options.no_ahead)
		return;
	if (!may_search())
		tell("this needs the capability CAP_SYS_ADMIN");
	else if (!room_enough())
		tell("there is too little memory left");
	else if (room_processes() <= ROOM_BTRFS || (reader = begin("sendahead-read")) < 0)
		tell("there are too few processes left");
	if (reader)
		return;
	if (queue)
		receive_ahead(&options, queue, shared);
	else
		send_ahead(&options, shared);
	_exit(0);
}

static void start_progress(void)
{
	const char *term = getenv("TERM");

	if (reader > 0 && !options.quiet && isatty(STDERR_FILENO) && term &&
	    strcmp(term, "dumb") && room_processes() > ROOM_BTRFS)
		shower = begin("sendahead-show");
	if (shower)
		return;
	showing = 1;
	progress(&options, shared);
}

static void start_both(void)
{
	start_reader();
	start_progress();
}

/* Wait for a process to end, and kill it after so many nanoseconds. Return: its status. */
static int end(pid_t pid, u64 patience)
{
	u64 begun = now_ns(), waited;
	int status = 0;

	/* a process that hangs in a read of the disk cannot be killed: do not wait for it */
	while (!waitpid(pid, &status, WNOHANG) &&
	       (waited = now_ns() - begun) < patience + LEFT_NS) {
		if (waited >= patience)
			kill(pid, SIGKILL);
		usleep(100);
	}
	return status;
}

static void end_progress(void)
{
	if (shower > 0)
		end(shower, 0);
	if (shared->shown)
		fputs("\r\033[K", stderr);
}

/* It drops the file data that it has read, which takes little time, and ends. */
static void end_reader(void)
{
	char *why = shared->stats.why;
	int status = 0;

	shared_tell_over();
	if (reader > 0)
		status = end(reader, KILL_NS);
	if (WIFSIGNALED(status) && !*why)
		snprintf(why, sizeof(shared->stats.why), "ended by signal %d", WTERMSIG(status));
}

/* End with the status of btrfs: return an exit status, or die by the same signal. */
static int end_as(int status)
{
	struct rlimit none = { 0 };

	if (!WIFSIGNALED(status))
		return WEXITSTATUS(status);
	setrlimit(RLIMIT_CORE, &none);
	signal(WTERMSIG(status), SIG_DFL);
	raise(WTERMSIG(status));
	return 128 + WTERMSIG(status);
}

/* Return: why btrfs has to run alone, or NULL. */
static const char *why_alone(int receives)
{
	struct stat own, children;

	if (child_is_inside())
		return "the program that has called btrfs does";
	/* our first child would be init of that namespace, and its end would kill the others */
	if (!stat("/proc/self/ns/pid", &own) &&
	    (stat("/proc/self/ns/pid_for_children", &children) || own.st_ino != children.st_ino))
		return "processes are started in another namespace";
	if (room_processes() < ROOM_BTRFS)
		return "there are too few processes left";
	/* a receive gains from the buffer as well */
	if (receives)
		return NULL;
	if (!may_search())
		return "this needs the capability CAP_SYS_ADMIN";
	if (!options.nr_subvolumes)
		return "there is no subvolume";
	if (!child_can_follow(&options))
		return "the stream cannot be followed to where it goes";
	return NULL;
}

/*
 * Make btrfs, and the reader, read the copies on the faster disks. Those are looked up by a process
 * of its own, as it may give up; without reading the file at @path.
 */
static void select_copy(const char *path)
{
	pid_t pid = may_search() ? child_fork(SIGKILL) : -1;
	struct disk disk;
	u32 copies, copy;
	int status;

	if (!pid) {
		showing = 1;
		disk_open(&disk, open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
		copies = disk_fast_copy(&disk, &copy);
		_exit(copies * MAX_COPIES + copy);
	}
	if (pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status)) {
		child_copies = WEXITSTATUS(status) / MAX_COPIES;
		child_copy = WEXITSTATUS(status) % MAX_COPIES;
	}
}

/* Send or receive. Return: the exit status. */
static int run(const char *command, int receives)
{
	const char *why = why_alone(receives);
	u64 begun = now_ns();
	int status = -1;

	if (why)
		tell(why);
	else if (receives)
		queue = receive_buffer(&options);
	/* the directory above: to open the subvolume may read from the disk */
	if (queue ? !options.no_ahead : !why && !receives)
		select_copy(queue ? options.directory : dirname(strdup(options.subvolumes[0])));
	if (queue)
		status = receive_run(&options, queue, shared, start_reader);
	else if (!why && !receives)
		status = child_run(&options, start_both);
	end_progress();
	end_reader();
	if (options.json)
		report(&options, shared, receives);
	if (status < 0)
		child_become(options.command);
	report_on_terminal(&options, shared, command, now_ns() - begun);
	return end_as(status);
}

/* The commands that read ahead of no send: estimate, compare and warm. */
static int alone(const char *command)
{
	shared->alone = 1;
	if (!may_search())
		give_up("this needs the capability CAP_SYS_ADMIN");
	if (!strcmp(command, "estimate"))
		return estimate(&options, shared);
	if (!strcmp(command, "compare"))
		return compare(&options);
	send_ahead(&options, shared);
	if (options.json)
		report(&options, shared, 0);
	return 0;
}

static int usage(void)
{
	return fputs("Usage: sendahead send [OPTION]... [OPTION OF BTRFS SEND]... SUBVOLUME...\n"
	      "  or:  sendahead receive [OPTION]... [OPTION OF BTRFS RECEIVE]... DIRECTORY\n"
	      "  or:  sendahead estimate [OPTION]... [-p PARENT] SUBVOLUME\n"
	      "  or:  sendahead compare --drop-caches [OPTION]... [-p PARENT] SUBVOLUME\n"
	      "  or:  sendahead warm [OPTION]... [-p PARENT] SUBVOLUME...\n"
	      "\n"
	      "  send      run btrfs send, and read ahead what it will need, in disk order\n"
	      "  receive   run btrfs receive behind a buffer, and read ahead what it will need\n"
	      "  estimate  print how long a send will take, without and with sendahead\n"
	      "  compare   time sends to /dev/null, without and with sendahead\n"
	      "  warm      only read into memory what a send will need\n"
	      "\n"
	      "send and receive, also when called as btrfs-send and btrfs-receive, take the options of\n"
	      "btrfs as well; estimate, compare and warm take -p, --no-data and --compressed-data.\n"
	      "\n"
	      "Options:\n"
	      "  --window=SIZE   limit of the metadata, and of the file data, that is read ahead of the\n"
	      "                  send: bytes, or with K, M or G, from 1M up (default: an eighth of the\n"
	      "                  available memory, from 1M to 1G)\n"
	      "  --threads=N     requests at the same time, 1 to 128 (default: 32)\n"
	      "  --nice          let others use the disk and the processor first: btrfs and reading\n"
	      "                  ahead run with nice 19 in the idle class\n"
	      "  --json[=FILE]   send, receive, warm: print counts as a line of JSON at the end, to\n"
	      "                  standard error or to FILE; estimate, compare: JSON on standard output\n"
	      "  -q, --quiet     print nothing on a terminal; passed on to btrfs\n"
	      "  -v              also print why nothing is read ahead; passed on to btrfs\n"
	      "  --help          print this; send --help is that of btrfs\n"
	      "  --version       print the version\n"
	      "\n"
	      "Options of receive:\n"
	      "  --buffer=SIZE   size of the buffer, from 1M to 1G (default: a quarter of the available\n"
	      "                  memory, 256M at most)\n"
	      "  --unchanged     pass all commands on unchanged: make each file under its temporary name\n"
	      "                  and rename it\n"
	      "  --no-ahead      only buffer, read nothing ahead\n"
	      "  --no-sync       do not sync before the end of a subvolume\n"
	      "\n"
	      "Options of estimate:\n"
	      "  --disk=MS,MB_S  time of a random read and rate of the disk, such as 12.5,150, instead\n"
	      "                  of measuring them\n"
	      "\n"
	      "Options of compare:\n"
	      "  --drop-caches   allow it to drop all caches of the machine before each send\n"
	      "  --samples=N     number of sends of each kind, 1 to 128 (default: 2)\n"
	      "\n"
	      "Exit status:\n"
	      "  of send and receive: that of btrfs, 2 wrong options of ours, 127 no btrfs found;\n"
	      "  of the others: 0 done, 1 failed, 2 wrong options.\n", stdout) < 0;
}

/* Return: how many of btrfs' options -q and -v stand before its command. */
static int global_options(int argc, char **argv)
{
	int n = 1;

	while (n < argc && (!strcmp(argv[n], "--quiet") || !strcmp(argv[n], "--verbose") ||
			    (argv[n][0] == '-' && argv[n][1] &&
			     !argv[n][1 + strspn(argv[n] + 1, "qv")])))
		n++;
	return n - 1;
}

/* Called as btrfs-subvolume-list or the like, as by btrbk: execute btrfs subvolume list. */
static void become_btrfs(char *name, int argc, char **argv)
{
	char **command = calloc(strlen(name) + argc + 1, sizeof(*command));
	int n = 0;

	if (!command)
		child_become(argv);
	while ((command[n] = strsep(&name, "-")))
		n++;
	memcpy(command + n, argv + 1, argc * sizeof(*argv));
	child_become(command);
}

/* No file that is opened here shall become standard input, output or error, if one is closed. */
static void fill_standard(void)
{
	int fd;

	/* with O_PATH it is neither read nor written, and btrfs does not get it */
	while ((fd = open("/", O_PATH | O_CLOEXEC)) >= 0 && fd <= STDERR_FILENO)
		;
	close(fd);
}

int main(int argc, char **argv)
{
	char *command = argc ? basename(argv[0]) : "";
	int as_btrfs = !strcmp(command, "btrfs");

	fill_standard();
	if (!strcmp(command, "btrfs-send") || !strcmp(command, "btrfs-receive")) {
		command += strlen("btrfs-");
	} else if (!strncmp(command, "btrfs-", strlen("btrfs-"))) {
		become_btrfs(command, argc, argv);
	} else {
		options.nr_globals = as_btrfs ? global_options(argc, argv) : 0;
		options.globals = argv + 1;
		argc -= options.nr_globals + 1;
		argv += options.nr_globals + 1;
		command = argc > 0 ? *argv : "";
	}
	if (as_btrfs && strcmp(command, "send") && strcmp(command, "receive"))
		child_become(options.globals - 1);
	if (!strcmp(command, "-h") || !strcmp(command, "--help") || !strcmp(command, "help"))
		return usage();
	if (!strcmp(command, "--version"))
		return puts("sendahead " VERSION) < 0;
	if (strcmp(command, "send") && strcmp(command, "receive") && strcmp(command, "estimate") &&
	    strcmp(command, "compare") && strcmp(command, "warm")) {
		fprintf(stderr, "sendahead: there is no command '%.40s', see sendahead --help\n", command);
		return 2;
	}
	options_parse(&options, command, argc, argv);
	shared = shared_init();
	if (!shared) {
		fprintf(stderr, "sendahead: no memory\n");
		return 1;
	}
	if (options.nice)
		be_nice();
	if (!strcmp(command, "send") || !strcmp(command, "receive"))
		return run(command, *command == 'r');
	return alone(command);
}
