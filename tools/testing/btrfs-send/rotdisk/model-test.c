// SPDX-License-Identifier: GPL-2.0
/*
 * Test of the timing model of drivers/block/rotdisk on a virtual clock.
 *
 * model-test exact: scenarios with times worked out by hand.
 * model-test random PROFILE: what must hold for any commands of that drive.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

#define NEVER		(~0ULL)
#define MS		1000000ULL

static const char *scenario = "";
static int failures;
static struct rotdisk_model model;
static struct rotdisk_profile profile;

static void fail(const char *fmt, ...)
{
	va_list args;

	if (++failures > 20)
		return;
	printf("FAIL %s: ", scenario);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	putchar('\n');
}

static void parse(const char *text, size_t len)
{
	char err[100];

	if (rotdisk_profile_parse(&profile, text, len, err, sizeof(err)) ||
	    rotdisk_model_init(&model, &profile)) {
		printf("FAIL %s: profile: %s\n", scenario, err);
		exit(1);
	}
}

/*
 * Exact scenarios
 *
 * A revolution takes 10 ms. A track has 100 sectors of 0.1 ms in the outer
 * zone (cylinders 0 to 99) and 50 of 0.2 ms in the inner one. Seeking N
 * cylinders takes 2 ms + 1 ms * sqrt(N), a head switch 1 ms, a write 0.5 ms
 * more. So the skew is 1.5 ms between heads and 3.5 ms between cylinders, and
 * sector S of head H of cylinder C (outer zone) has position
 * C * 25 ms + H * 11.5 ms + S * 0.1 ms. A sector takes 1 us on the interface,
 * a command 0.1 ms in the controller.
 */
static const char actuator[] =
	"kind=actuator\ncapacity_bytes=15360000\nqueue_depth=32\noverhead_ns=100000\n"
	"interface_rate=512000000\nwrite_cache_bytes=40960\nrpm=6000\nheads=2\n"
	"head_switch_ns=1000000\nwrite_settle_ns=500000\nzone=100 100\nzone=100 50\n"
	"age_limit_ns=200000000\nsegments=2\nsegment_bytes=40960\nreadahead_bytes=20480\n"
	"destage_idle_ns=50000000\n";
static const char curve[] = "seek_base_ns=2000000\nseek_sqrt_ns=1000000\n";
static const char table[] = "seek_point=1 1000000\nseek_point=10 2000000\nseek_point=100 5000000\n";
static const char flash[] =
	"kind=flash\ncapacity_bytes=15360000\nqueue_depth=32\noverhead_ns=10000\n"
	"interface_rate=5120000000\nwrite_rate=512000000\nwrite_cache_bytes=40960\nchannels=2\n"
	"channel_rate=512000000\nread_latency_ns=100000\nwrite_latency_ns=50000\n"
	"flush_latency_ns=400000\niops_limit=";

/*
 * Times in us. A line with a name begins a scenario, with a drive of its own:
 *   OP LBA SECTORS at T        a command is sent; OP is R, W, U (FUA) or F
 *   N = FINISH [SEEK ROTATION TRANSFER]  next is the Nth of these done, from the medium
 *   N hit FINISH               the same, from the buffer or cache
 *   idle T                     with nothing sent it works next at T; never: 0
 *   until T                    time passes
 */
static const char scenarios[] =
	": curve a sector comes round at its angle\n"
	"R 30 1 at 0\n"			"1 = 3100 0 2900 100\n"
	"R 9 1 at 30900\n"		"2 = 41000 0 9900 100\n"
	": curve the drive reads on and serves from its buffer\n"
	"R 30 1 at 0\n"			"1 = 3100\n"
	"R 40 8 at 6000\n"		"2 hit 6108\n"
	/* at 6.3 ms sector 63 passes; the rest comes as it is read */
	"R 60 8 at 6200\n"		"3 = 6800 0 0 500\n"
	/* read-ahead has gone on to sector 108, on the other head */
	"R 10 1 at 20000\n"		"4 = 31100 1000 9900 100\n"
	"R 30 8 at 31100\n"		"5 hit 31208\n"
	"R 100 8 at 40000\n"		"6 hit 40108\n"
	"R 156 1 at 40108\n"		"7 = 47200 0 6000 100\n"
	": curve of two segments the one not used longest is given up\n"
	"R 0 8 at 0\n"			"1 = 10800\n"
	"R 4000 8 at 100000\n"		"2 = 110800\n"
	"R 8 8 at 200000\n"		"3 hit 200108\n"
	"R 8000 8 at 300000\n"		"4 = 310800\n"
	"R 16 8 at 400000\n"		"5 hit 400108\n"
	"R 8008 8 at 500000\n"		"6 hit 500108\n"
	"R 4008 8 at 600000\n"		"7 = 611600\n"
	": curve a segment keeps 80 sectors\n"
	"R 0 8 at 0\n"			"1 = 10800\n"
	"R 8 36 at 100000\n"		"2 hit 100136\n"
	"R 44 36 at 200000\n"		"3 hit 200136\n"
	"R 40 8 at 300000\n"		"4 hit 300108\n"
	"R 32 8 at 400000\n"		"5 = 404000\n"
	": curve a hit lets a stopped read-ahead go on\n"
	"R 0 8 at 0\n"			"1 = 10800\n"
	"R 8 8 at 30000\n"		"2 hit 30108\n"
	"R 48 3 at 35100\n"		"3 hit 35203\n"
	"R 48 8 at 35300\n"		"4 = 35600 0 0 200\n"
	/* it stops at sector 96: a read of 92 to 100 waits for a turn */
	"R 92 8 at 60000\n"		"5 = 70000 0 9100 800\n"
	": curve seek, head and cylinder switch, zones\n"
	"R 0 1 at 0\n"			"1 = 10100\n"
	"R 800 1 at 31100\n"		"2 = 40100 4000 4800 100\n"
	/* ten sectors, a cylinder switch, ten sectors */
	"R 990 20 at 40100\n"		"3 = 56000 1000 9300 5500\n"
	/* 95 cylinders on, into the inner zone: five sectors of 0.2 ms */
	"R 20000 5 at 56000\n"		"4 = 71000 11746.794 2153.206 1000\n"
	"R 0 1 at 99900\n"		"5 = 120100 12000 8000 100\n"
	": table a measured seek table is interpolated\n"
	"R 1000 1 at 0\n"		"1 = 5100 1444.444 3455.556 100\n"
	"R 12000 1 at 100000\n"		"2 = 110100 3500 6400 100\n"
	"R 29990 1 at 200000\n"		"3 = 206700 5000 1400 200\n"
	": curve shortest positioning time first\n"
	"R 90 1 at 0\n" "R 2000 1 at 0\n" "R 50 1 at 0\n" "R 20 1 at 0\n"
	/* only the first is decoded when the actuator chooses */
	"1 = 9100 0 8900 100\n"		"4 = 12100 0 2900 100\n"
	"3 = 15100 0 2900 100\n"	"2 = 30100 5162.277 9737.723 100\n"
	": curve cached writes and flush\n"
	"W 30 8 at 0\n"			"1 hit 108\n"
	"R 32 4 at 200\n"		"2 hit 304\n"
	"W 34 2 at 400\n"		"3 hit 502\n"
	"F 0 0 at 600\n"		"4 = 3800\n"
	"idle 0\n"
	"F 0 0 at 10000\n"		"5 = 10100\n"
	": curve write-back when idle\n"
	"W 30 8 at 0\n"			"1 hit 108\n"
	"idle 50000\n" "until 50000\n" "idle 53800\n" "until 53800\n" "idle 0\n"
	"R 32 4 at 60000\n"		"2 = 63600\n"
	": curve idle since the last read has ended\n"
	"W 30 8 at 0\n"			"1 hit 108\n"
	"R 60 1 at 20000\n"		"2 = 26100\n"
	"idle 76100\n"
	": curve half a cache waits\n"
	"W 30 40 at 0\n"		"1 hit 140\n"		"idle 50000\n"
	": curve more than half does not\n"
	"W 30 41 at 0\n"		"1 hit 141\n"		"idle 7100\n"
	": curve a full cache blocks writes\n"
	"W 0 32 at 0\n" "W 200 32 at 0\n" "W 400 32 at 0\n"
	"1 hit 132\n" "2 hit 232\n"
	/* the second is the nearest: 3.5 ms to cylinder 1, at 5 ms, 3.2 ms to write */
	"3 hit 8232\n"
	": curve appended writes become one extent\n"
	"W 30 1 at 0\n" "1 hit 101\n" "W 31 1 at 101\n" "2 hit 202\n" "W 32 1 at 202\n" "3 hit 303\n"
	"F 0 0 at 303\n"		"4 = 3300\n"
	": curve what is being written is not added to\n"
	"W 30 8 at 0\n"			"1 hit 108\n"
	"F 0 0 at 200\n" "until 1000\n"
	"W 38 8 at 1000\n"		"3 hit 1108\n"		"2 = 3800\n"
	"F 0 0 at 3800\n"		"4 = 14600\n"
	": curve nor is it overwritten in the cache\n"
	"W 30 8 at 0\n"			"1 hit 108\n"
	"F 0 0 at 200\n" "until 1000\n"
	"W 32 4 at 1000\n"		"3 hit 1104\n"		"2 = 3800\n"
	"F 0 0 at 3800\n"		"4 = 13600\n"
	": curve a flush waits for what is appended to later\n"
	"W 30 8 at 0\n"			"1 hit 108\n"
	"W 800 8 at 108\n"		"2 hit 216\n"
	"F 0 0 at 300\n" "W 808 8 at 300\n"
	"4 hit 508\n"			"3 = 11600\n"
	": curve FUA writes go to the medium\n"
	"U 30 1 at 0\n"			"1 = 3100 0 2900 100\n"
	"U 800 1 at 31100\n"		"2 = 40100 4500 4300 100\n"
	": slow a slow interface, 0.2 ms a sector\n"
	"R 30 8 at 0\n"			"1 = 4600 0 2900 1600\n"
	": flash0 flash channels, flush and FUA\n"
	"R 0 8 at 0\n" "R 8000 8 at 0\n" "R 16000 8 at 0\n"
	"1 = 118 0 0 108\n" "2 = 128 0 0 108\n" "3 = 226 0 0 108\n"
	"W 0 8 at 1000\n" "F 0 0 at 1000\n"
	"4 = 1068 0 0 58\n" "5 = 1468\n"
	"U 0 8 at 2000\n"		"6 = 2468 0 0 458\n"
	": flash0 flash write rate\n"
	"W 0 1000 at 0\n" "W 1000 1000 at 0\n" "1 = 1060\n" "2 = 2010\n"
	": flash1000 flash IOPS limit\n"
	"R 0 8 at 0\n" "R 1 8 at 0\n" "R 2 8 at 0\n" "1 = 118\n" "2 = 1118\n" "3 = 2118\n";

/* The next command that finishes, at the very time it does. */
static struct rotdisk_cmd *next_done(u64 *now)
{
	struct rotdisk_cmd *cmd;
	u64 event;

	while (!(cmd = rotdisk_model_advance(&model, *now))) {
		event = rotdisk_model_next_event(&model);
		if (event == NEVER || event <= *now) {
			fail("stuck at %llu", *now);
			exit(1);
		}
		*now = event;
	}
	return cmd;
}

static u64 ns(double us)
{
	return us * 1000 + 0.5;
}

static void drive(const char *name)
{
	char all[1024];

	if (!strncmp(name, "flash", 5))
		snprintf(all, sizeof(all), "%s%s", flash, name + 5);
	else
		snprintf(all, sizeof(all), "%s%s", actuator, *name == 't' ? table : curve);
	parse(all, strlen(all));
	if (!strcmp(name, "slow"))
		model.p.interface_rate = 2560000;
}

static void step(const char *line)
{
	static struct rotdisk_cmd cmds[8];
	static char what[80];
	static u64 now;
	static int sent;
	struct rotdisk_cmd *cmd;
	char op, name[12], how[4];
	double at, seek, rotation, transfer;
	u64 lba;
	u32 sectors;
	int n, got;

	if (sscanf(line, ": %11s %79[^\n]", name, what) == 2) {
		drive(name);
		scenario = what;
		now = sent = 0;
	} else if (sscanf(line, "%c %llu %u at %lf", &op, &lba, &sectors, &at) == 4) {
		cmd = &cmds[sent++];
		*cmd = (struct rotdisk_cmd){ .lba = lba, .sectors = sectors, .fua = op == 'U' };
		cmd->op = op == 'R' ? ROTDISK_READ : op == 'F' ? ROTDISK_FLUSH : ROTDISK_WRITE;
		now = ns(at);
		rotdisk_model_submit(&model, cmd, now);
	} else if (sscanf(line, "idle %lf", &at) == 1) {
		if (rotdisk_model_next_event(&model) != (at ? ns(at) : NEVER))
			fail("works next at %llu, not %.3f us", rotdisk_model_next_event(&model), at);
	} else if (sscanf(line, "until %lf", &at) == 1) {
		now = ns(at);
		if (rotdisk_model_advance(&model, now))
			fail("a command ends before %.3f us", at);
	} else {
		got = sscanf(line, "%d %3s %lf %lf %lf %lf", &n, how, &at, &seek, &rotation,
			     &transfer);
		cmd = next_done(&now);
		if (got < 3 || cmd != &cmds[n - 1] || cmd->hit != (*how == 'h') ||
		    cmd->finish_ns != ns(at) || now != ns(at) ||
		    (got == 6 && (cmd->seek_ns != ns(seek) || cmd->rotation_ns != ns(rotation) ||
				  cmd->transfer_ns != ns(transfer))) ||
		    (cmd->hit && cmd->transfer_ns != cmd->sectors * 1000) ||
		    cmd->overhead_ns != profile.overhead_ns)
			fail("%.*s, not %td %s %llu %llu %llu %llu ns", (int)strcspn(line, "\n"), line,
			     cmd - cmds + 1, cmd->hit ? "hit" : "=", cmd->finish_ns, cmd->seek_ns,
			     cmd->rotation_ns, cmd->transfer_ns);
	}
}

static struct rotdisk_cmd read_of(u64 lba, u32 sectors)
{
	return (struct rotdisk_cmd){ .lba = lba, .sectors = sectors };
}

/* Ten cylinders, one command after the other: nothing is lost at the switches. */
static void test_sequential(void)
{
	struct rotdisk_cmd cmd;
	u64 lba, now = 0;

	scenario = "sequential reading loses nothing";
	drive("curve");
	for (lba = 0; lba < 2000; lba += 8) {
		cmd = read_of(lba, 8);
		rotdisk_model_submit(&model, &cmd, now);
		next_done(&now);
	}
	/* starts at 10 ms, the last sector ends at position 9 * 25 + 11.5 + 10 ms */
	if (now != 256500000)
		fail("ends at %llu", now);
}

/* A far command while others keep the head busy near by; and in order, if asked to. */
static void test_queue(u64 age_limit_ns, bool in_order, u64 least, u64 most)
{
	struct rotdisk_cmd near[4], *cmd, far = read_of(29990, 1);
	u64 now = 0;
	int i;

	scenario = in_order ? "served in order" : "no command starves";
	drive("curve");
	model.p.age_limit_ns = age_limit_ns;
	model.in_order = in_order;
	for (i = 0; i < 4; i++) {
		near[i] = read_of(i * 25, 1);
		rotdisk_model_submit(&model, &near[i], now);
	}
	rotdisk_model_submit(&model, &far, now);
	for (i = 0; i < 500 && (cmd = next_done(&now)) != &far; i++) {
		*cmd = read_of((cmd->lba + 200) % 2000, 1);
		rotdisk_model_submit(&model, cmd, now);
	}
	if (i == 500)
		now = NEVER;
	if (now < least || now > most)
		fail("it ends at %llu, not %llu to %llu", now, least, most);
}

static int run_exact(void)
{
	const char *line;

	for (line = scenarios; *line; line = strchr(line, '\n') + 1)
		step(line);
	test_sequential();
	test_queue(200 * MS, false, 200 * MS, 300 * MS);
	test_queue(1000000 * MS, false, NEVER, NEVER);
	test_queue(1000000 * MS, true, 0, 100 * MS);
	if (!failures)
		puts("ok");
	return failures > 0;
}

/*
 * Random commands
 */

#define COMMANDS	20000

static u64 rng;

static u64 below(u64 n)
{
	rng = rng * 6364136223846793005ULL + 1442695040888963407ULL;
	return (rng >> 20) % n;
}

static struct rotdisk_cmd random_cmd(u64 *lba)
{
	struct rotdisk_cmd cmd = { .sectors = 1 + below(below(2) ? 8 : 2000) };

	if (below(2))
		*lba = below(profile.capacity_sectors - 4000);
	cmd.lba = *lba;
	*lba = (*lba + cmd.sectors + (below(4) ? 0 : below(500))) % (profile.capacity_sectors - 4000);
	cmd.op = below(3) ? ROTDISK_READ : below(20) ? ROTDISK_WRITE : ROTDISK_FLUSH;
	cmd.fua = cmd.op == ROTDISK_WRITE && !below(4);
	return cmd;
}

/* What must hold for a command that is done; what was done before is in the rest. */
static void check_cmd(const struct rotdisk_cmd *cmd, u64 *last_ns, u64 *medium_ns)
{
	u64 work = cmd->seek_ns + cmd->rotation_ns + cmd->transfer_ns;
	u64 bytes = 0;
	u32 i;

	if (cmd->finish_ns < *last_ns)
		fail("finishes at %llu, the one before at %llu", cmd->finish_ns, *last_ns);
	*last_ns = cmd->finish_ns;
	if (cmd->finish_ns < cmd->submit_ns + cmd->overhead_ns + work)
		fail("less than its parts at %llu", cmd->finish_ns);
	if (cmd->op == ROTDISK_WRITE && cmd->hit && (cmd->fua || !profile.write_cache))
		fail("a write of sector %llu is not on the medium", cmd->lba);
	for (i = 0; i < model.nr_dirty; i++) {
		bytes += model.dirty[i].sectors * 512ULL;
		if (cmd->op == ROTDISK_FLUSH && model.dirty[i].seq < cmd->seq)
			fail("flushed, but not sector %llu", model.dirty[i].lba);
	}
	if (bytes != model.dirty_bytes || bytes > profile.write_cache_bytes)
		fail("%llu bytes dirty of %llu", bytes, profile.write_cache_bytes);
	if (cmd->op == ROTDISK_FLUSH || cmd->hit)
		return;
	if (!profile.rotational)
		return;
	if (cmd->finish_ns - work < *medium_ns)
		fail("the actuator does two things at %llu", cmd->finish_ns);
	*medium_ns = cmd->finish_ns;
}

enum asking { IN_TIME, RESTLESS, LATE };

/* One run, asked at its events, at odd times in between, too, or late; a hash of all that was seen. */
static u64 run_one(enum asking asking)
{
	struct rotdisk_cmd cmds[ROTDISK_MAX_DEPTH], *cmd;
	u64 odd = 1, now = 0, next = 0, lba = 0, hash = 0, event;
	u64 last_ns = 0, medium_ns = 0;
	bool inside[ROTDISK_MAX_DEPTH] = {};
	u32 sent = 0, done = 0, i;

	rng = 1;
	rotdisk_model_init(&model, &profile);
	while (done < COMMANDS && !failures) {
		while (sent < COMMANDS && sent - done < profile.queue_depth && next <= now) {
			for (i = 0; inside[i]; i++)
				;
			cmds[i] = random_cmd(&lba);
			inside[i] = true;
			rotdisk_model_submit(&model, &cmds[i], now);
			/* now as fast as it can, now with pauses, in which the cache is written back */
			if (sent++ / 1000 % 2)
				next = now + below(20 * MS);
		}
		event = rotdisk_model_next_event(&model);
		if (sent < COMMANDS && sent - done < profile.queue_depth && next < event)
			event = next;
		if (event == NEVER) {
			fail("%u commands never finish", sent - done);
			break;
		}
		odd = odd * 6364136223846793005ULL + 1442695040888963407ULL;
		if (asking == RESTLESS && event > now + 1)
			event = now + 1 + (odd >> 32) % (event - now);
		else if (asking == LATE)
			event += (odd >> 32) % MS;
		now = event > now ? event : now;
		cmd = rotdisk_model_advance(&model, now);
		if (!cmd)
			continue;
		if ((asking == LATE ? cmd->finish_ns > now : cmd->finish_ns != now) || !inside[cmd - cmds])
			fail("finishes at %llu, returned at %llu", cmd->finish_ns, now);
		check_cmd(cmd, &last_ns, &medium_ns);
		inside[cmd - cmds] = false;
		done++;
		hash = (hash ^ cmd->finish_ns ^ cmd->lba << 20 ^ cmd->rotation_ns << 40) * 0x100000001b3ULL;
	}
	return hash;
}

static int run_random(const char *path)
{
	char text[16384];
	FILE *file = fopen(path, "r");

	scenario = path;
	if (!file)
		return 2;
	parse(text, fread(text, 1, sizeof(text), file));
	/* What is read or written ends with the actuator's work, then. */
	profile.interface_rate = 16000 * MS;
	/* A cache that fills. */
	if (profile.write_cache_bytes)
		profile.write_cache_bytes = 256 << 10;
	if (run_one(IN_TIME) != run_one(RESTLESS) && !failures)
		fail("asking more often makes a difference");
	run_one(LATE);
	if (!failures)
		puts("ok");
	return failures > 0;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 2 && !strcmp(argv[1], "exact"))
		return run_exact();
	if (argc == 3 && !strcmp(argv[1], "random"))
		return run_random(argv[2]);
	fputs("usage: model-test exact | random PROFILE\n", stderr);
	return 2;
}
