// SPDX-License-Identifier: GPL-2.0
/*
 * Test of the timing model of drivers/block/rotdisk on a virtual clock.
 *
 * model-test exact: scenarios with times worked out by hand.
 * model-test random: what must hold for any drive and any commands.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define NEVER		(~0ULL)
#define US		1000ULL
#define MS		1000000ULL

static const char *scenario = "";
static int failures;

static void fail(const char *fmt, ...)
{
	va_list args;

	failures++;
	if (failures > 20)
		return;
	printf("FAIL %s: ", scenario);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	putchar('\n');
}

static void expect(const char *what, u64 got, u64 want)
{
	if (got != want)
		fail("%s is %llu, not %llu", what, got, want);
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
static const char drive_text[] =
	"kind=actuator\n"
	"capacity_bytes=15360000\n"
	"queue_depth=32\n"
	"overhead_ns=100000\n"
	"interface_rate=512000000\n"
	"write_cache_bytes=40960\n"
	"rpm=6000\n"
	"heads=2\n"
	"head_switch_ns=1000000\n"
	"write_settle_ns=500000\n"
	"zone=100 100\n"
	"zone=100 50\n"
	"age_limit_ns=200000000\n"
	"segments=2\n"
	"segment_bytes=40960\n"
	"readahead_bytes=20480\n"
	"destage_idle_ns=50000000\n";

static const char curve_text[] =
	"seek_base_ns=2000000\n"
	"seek_sqrt_ns=1000000\n";

static const char table_text[] =
	"seek_point=1 1000000\n"
	"seek_point=10 2000000\n"
	"seek_point=100 5000000\n";

static const char flash_text[] =
	"kind=flash\n"
	"capacity_bytes=15360000\n"
	"queue_depth=32\n"
	"overhead_ns=10000\n"
	"interface_rate=5120000000\n"
	"write_rate=512000000\n"
	"write_cache_bytes=40960\n"
	"channels=2\n"
	"channel_rate=512000000\n"
	"read_latency_ns=100000\n"
	"write_latency_ns=50000\n"
	"flush_latency_ns=400000\n";

static struct rotdisk_model model;

static void drive(const char *text, const char *more)
{
	struct rotdisk_profile p;
	char all[1024];
	char err[100];

	snprintf(all, sizeof(all), "%s%s", text, more);
	if (rotdisk_profile_parse(&p, all, strlen(all), err, sizeof(err)) ||
	    rotdisk_model_init(&model, &p)) {
		printf("FAIL %s: profile: %s\n", scenario, err);
		exit(1);
	}
}

static struct rotdisk_cmd make(enum rotdisk_op op, u64 lba, u32 sectors)
{
	struct rotdisk_cmd cmd = { .lba = lba, .sectors = sectors, .op = op };

	return cmd;
}

static void submit(struct rotdisk_cmd *cmd, u64 now)
{
	rotdisk_model_submit(&model, cmd, now);
}

/* The next command that finishes, at the very time it does. */
static struct rotdisk_cmd *next_done(u64 *now)
{
	struct rotdisk_cmd *cmd;
	u64 event;
	int i;

	for (i = 0; i < 100000; i++) {
		cmd = rotdisk_model_advance(&model, *now);
		if (cmd)
			return cmd;
		event = rotdisk_model_next_event(&model);
		if (event == NEVER || event <= *now)
			break;
		*now = event;
	}
	fail("no command finishes after %llu", *now);
	printf("FAIL %s: stuck\n", scenario);
	exit(1);
}

/* Submit a command that is alone in the drive, and wait for it. */
static struct rotdisk_cmd *alone(enum rotdisk_op op, u64 lba, u32 sectors,
				 u64 now)
{
	static struct rotdisk_cmd cmd;

	cmd = make(op, lba, sectors);
	submit(&cmd, now);
	next_done(&now);
	expect("time at completion", cmd.finish_ns, now);
	return &cmd;
}

static void expect_medium(const struct rotdisk_cmd *cmd, u64 finish_ns,
			  u64 seek_ns, u64 rotation_ns, u64 transfer_ns)
{
	expect("hit", cmd->hit, false);
	expect("finish", cmd->finish_ns, finish_ns);
	expect("seek", cmd->seek_ns, seek_ns);
	expect("rotation", cmd->rotation_ns, rotation_ns);
	expect("transfer", cmd->transfer_ns, transfer_ns);
	expect("overhead", cmd->overhead_ns, model.p.overhead_ns);
}

static void expect_hit(const struct rotdisk_cmd *cmd, u64 finish_ns)
{
	expect("hit", cmd->hit, true);
	expect("finish", cmd->finish_ns, finish_ns);
	expect("seek", cmd->seek_ns, 0);
	expect("rotation", cmd->rotation_ns, 0);
	expect("transfer", cmd->transfer_ns, cmd->sectors * US);
}

static void test_rotation(void)
{
	drive(drive_text, curve_text);
	/* Sector 30 comes round at 3 ms. */
	expect_medium(alone(ROTDISK_READ, 30, 1, 0),
		      3100 * US, 0, 2900 * US, 100 * US);
	/* At 31 ms the head is over angle 1 ms: sector 9 has just gone. */
	expect_medium(alone(ROTDISK_READ, 9, 1, 30900 * US),
		      41000 * US, 0, 9900 * US, 100 * US);
}

static void test_buffer(void)
{
	drive(drive_text, curve_text);
	alone(ROTDISK_READ, 30, 1, 0);
	/* Read on since 3.1 ms, sector 48 passed at 4.8 ms. */
	expect_hit(alone(ROTDISK_READ, 40, 8, 6 * MS), 6108 * US);
	/* At 6.3 ms sector 63 passes; the rest comes as it is read. */
	expect_medium(alone(ROTDISK_READ, 60, 8, 6200 * US),
		      6800 * US, 0, 0, 500 * US);
	/* Read-ahead has gone on to sector 108, on the other head. */
	expect_medium(alone(ROTDISK_READ, 10, 1, 20 * MS),
		      31100 * US, 1 * MS, 9900 * US, 100 * US);
	/* What was read before is still there, but not sector 110. */
	expect_hit(alone(ROTDISK_READ, 28 + 2, 8, 31100 * US), 31208 * US);
	expect_hit(alone(ROTDISK_READ, 100, 8, 40 * MS), 40108 * US);
	expect("hit", alone(ROTDISK_READ, 156, 1, 40108 * US)->hit, false);
}

static void test_forget(void)
{
	drive(drive_text, curve_text);
	/* Of two segments the one not used longest is given up. */
	alone(ROTDISK_READ, 0, 8, 0);
	alone(ROTDISK_READ, 4000, 8, 100 * MS);
	expect("first", alone(ROTDISK_READ, 8, 8, 200 * MS)->hit, true);
	alone(ROTDISK_READ, 8000, 8, 300 * MS);
	expect("second", alone(ROTDISK_READ, 16, 8, 400 * MS)->hit, true);
	expect("third", alone(ROTDISK_READ, 8008, 8, 500 * MS)->hit, true);
	expect("fourth", alone(ROTDISK_READ, 4008, 8, 600 * MS)->hit, false);
	/* A segment keeps 80 sectors: 40 ahead, so 40 behind. */
	drive(drive_text, curve_text);
	alone(ROTDISK_READ, 0, 8, 0);
	alone(ROTDISK_READ, 8, 36, 100 * MS);
	expect("ahead", alone(ROTDISK_READ, 44, 36, 200 * MS)->hit, true);
	expect("kept", alone(ROTDISK_READ, 40, 8, 300 * MS)->hit, true);
	expect("forgotten", alone(ROTDISK_READ, 32, 8, 400 * MS)->hit, false);
}

static void test_resume(void)
{
	drive(drive_text, curve_text);
	/* Read-ahead stops at sector 48, at 14.8 ms. */
	alone(ROTDISK_READ, 0, 8, 0);
	/* A hit at 30.1 ms lets it go on when sector 48 comes, at 34.8 ms. */
	expect_hit(alone(ROTDISK_READ, 8, 8, 30 * MS), 30108 * US);
	expect_hit(alone(ROTDISK_READ, 48, 3, 35100 * US), 35203 * US);
	/* At 35.4 ms it is at sector 54. */
	expect_medium(alone(ROTDISK_READ, 48, 8, 35300 * US),
		      35600 * US, 0, 0, 200 * US);
	/* It stops at sector 96. A read of 92 to 100 must wait for a turn. */
	expect_medium(alone(ROTDISK_READ, 92, 8, 60 * MS),
		      70 * MS, 0, 9100 * US, 800 * US);
}

static void test_seek(void)
{
	drive(drive_text, curve_text);
	/* Sector 0 of cylinder 4 has angle 0. */
	expect_medium(alone(ROTDISK_READ, 800, 1, 31100 * US),
		      40100 * US, 4 * MS, 4800 * US, 100 * US);
	/* Ten sectors, a cylinder switch, ten sectors. */
	expect_medium(alone(ROTDISK_READ, 990, 20, 40100 * US),
		      56 * MS, 1 * MS, 9300 * US, 5500 * US);
	/* 95 cylinders on, into the inner zone: five sectors of 0.2 ms. */
	expect_medium(alone(ROTDISK_READ, 20000, 5, 56 * MS),
		      71 * MS, 11746794, 2153206, 1 * MS);
	/* Back by 100. Read-ahead went to sector 45, at 9 ms: cylinder 100. */
	expect_medium(alone(ROTDISK_READ, 0, 1, 99900 * US),
		      120100 * US, 12 * MS, 8 * MS, 100 * US);
}

static void test_table(void)
{
	static const struct {
		u32 cylinder;
		u64 seek_ns;
	} rows[] = {
		{ 1, 1 * MS }, { 5, 1444444 }, { 10, 2 * MS }, { 55, 3500 * US },
		{ 99, 4966666 },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		drive(drive_text, table_text);
		expect("seek", alone(ROTDISK_READ, rows[i].cylinder * 200, 1,
				     0)->seek_ns, rows[i].seek_ns);
	}
	drive(drive_text, table_text);
	expect("beyond", alone(ROTDISK_READ, 29990, 1, 0)->seek_ns, 5 * MS);
}

static void test_sequential(void)
{
	u64 now = 0;
	u64 lba;

	drive(drive_text, curve_text);
	/*
	 * Ten cylinders, one command after the other: nothing is lost at the
	 * switches, nor to the 0.1 ms between the commands. Starts at 10 ms,
	 * the last sector ends at position 9 * 25 + 11.5 + 10 ms.
	 */
	for (lba = 0; lba < 2000; lba += 8)
		now = alone(ROTDISK_READ, lba, 8, now)->finish_ns;
	expect("end", now, 256500 * US);
}

static void test_shortest_first(void)
{
	struct rotdisk_cmd a = make(ROTDISK_READ, 90, 1);
	struct rotdisk_cmd b = make(ROTDISK_READ, 50, 1);
	struct rotdisk_cmd c = make(ROTDISK_READ, 20, 1);
	struct rotdisk_cmd d = make(ROTDISK_READ, 2000, 1);
	u64 now = 0;

	drive(drive_text, curve_text);
	submit(&a, now);
	submit(&d, now);
	submit(&b, now);
	submit(&c, now);
	/* Only a is decoded when the actuator chooses for the first time. */
	expect("first", next_done(&now) == &a, true);
	expect_medium(&a, 9100 * US, 0, 8900 * US, 100 * US);
	/* Then c is 2.9 ms away, b 5.9 ms and d 5.2 ms and more. */
	expect("second", next_done(&now) == &c, true);
	expect_medium(&c, 12100 * US, 0, 2900 * US, 100 * US);
	expect("third", next_done(&now) == &b, true);
	expect_medium(&b, 15100 * US, 0, 2900 * US, 100 * US);
	/* Cylinder 10 is 5.16 ms away: 20.26 ms, sector 0 comes at 30 ms. */
	expect("fourth", next_done(&now) == &d, true);
	expect_medium(&d, 30100 * US, 5162277, 9737723, 100 * US);
}

/* Time a far command waits while others keep the head busy near by. */
static u64 starve(u64 age_limit_ns)
{
	struct rotdisk_cmd near[4];
	struct rotdisk_cmd far = make(ROTDISK_READ, 29990, 1);
	struct rotdisk_cmd *cmd;
	u64 now = 0;
	int i;

	drive(drive_text, curve_text);
	model.p.age_limit_ns = age_limit_ns;
	for (i = 0; i < 4; i++) {
		near[i] = make(ROTDISK_READ, i * 25, 1);
		submit(&near[i], now);
	}
	submit(&far, now);
	for (i = 0; i < 500; i++) {
		cmd = next_done(&now);
		if (cmd == &far)
			return now;
		*cmd = make(ROTDISK_READ, (cmd->lba + 200) % 2000, 1);
		submit(cmd, now);
	}
	return NEVER;
}

static void test_age(void)
{
	u64 wait = starve(200 * MS);

	if (wait < 200 * MS || wait > 300 * MS)
		fail("waits %llu, not 200 to 300 ms", wait);
	if (starve(1000000 * MS) != NEVER)
		fail("does not starve without the limit, so this proves nothing");
}

/* Time 1000 random reads take at @depth. */
static u64 random_reads(u32 depth)
{
	struct rotdisk_cmd cmds[ROTDISK_MAX_DEPTH];
	struct rotdisk_cmd *cmd;
	u64 now = 0;
	u32 random = 1;
	u32 i;

	drive(drive_text, curve_text);
	model.p.age_limit_ns = 1000 * MS;
	for (i = 0; i < 1000 + depth; i++) {
		cmd = i < depth ? &cmds[i] : next_done(&now);
		random = random * 1664525 + 1013904223;
		*cmd = make(ROTDISK_READ, (random >> 8) % 30000, 1);
		submit(cmd, now);
	}
	return now;
}

static void test_depth(void)
{
	u64 one = random_reads(1);
	u64 many = random_reads(32);

	/* 2 + 7.5 ms of mean seek and 5 ms of rotation. */
	if (one < 13000 * MS || one > 16000 * MS)
		fail("1000 random reads take %llu, not 13 to 16 s", one);
	if (many * 2 > one)
		fail("depth 32 takes %llu, depth 1 %llu", many, one);
}

static void test_write_cache(void)
{
	struct rotdisk_cmd flush = make(ROTDISK_FLUSH, 0, 0);
	u64 now;

	drive(drive_text, curve_text);
	expect_hit(alone(ROTDISK_WRITE, 30, 8, 0), 108 * US);
	/* What is in the cache can be read, and overwritten, there. */
	expect_hit(alone(ROTDISK_READ, 32, 4, 200 * US), 304 * US);
	expect_hit(alone(ROTDISK_WRITE, 34, 2, 400 * US), 502 * US);
	/* The flush writes sectors 30 to 38 as they come by. */
	now = 600 * US;
	submit(&flush, now);
	expect("flush", next_done(&now) == &flush, true);
	expect("finish", flush.finish_ns, 3800 * US);
	expect("seek", flush.seek_ns, 0);
	expect("hit", flush.hit, false);
	expect("pending", rotdisk_model_next_event(&model), NEVER);
	/* With nothing in the cache it costs the controller's time. */
	expect("empty", alone(ROTDISK_FLUSH, 0, 0, 10 * MS)->finish_ns,
	       10100 * US);
}

static void test_write_back(void)
{
	drive(drive_text, curve_text);
	alone(ROTDISK_WRITE, 30, 8, 0);
	/* Idle for 50 ms, then the write-back starts; sector 30 is at 3 ms. */
	expect("idle", rotdisk_model_next_event(&model), 50 * MS);
	rotdisk_model_advance(&model, 50 * MS);
	expect("done", rotdisk_model_next_event(&model), 53800 * US);
	rotdisk_model_advance(&model, 53800 * US);
	expect("pending", rotdisk_model_next_event(&model), NEVER);
	/* It is not in the cache any more. */
	expect("hit", alone(ROTDISK_READ, 32, 4, 60 * MS)->hit, false);
	/* A read that ends at 26.1 ms is what it is idle since. */
	drive(drive_text, curve_text);
	alone(ROTDISK_WRITE, 30, 8, 0);
	expect("read", alone(ROTDISK_READ, 60, 1, 20 * MS)->finish_ns,
	       26100 * US);
	expect("later", rotdisk_model_next_event(&model), 76100 * US);
	/* It does not wait where the cache is more than half full. */
	drive(drive_text, curve_text);
	alone(ROTDISK_WRITE, 30, 40, 0);
	expect("half", rotdisk_model_next_event(&model), 50 * MS);
	drive(drive_text, curve_text);
	alone(ROTDISK_WRITE, 30, 41, 0);
	expect("more", rotdisk_model_next_event(&model), 7100 * US);
}

static void test_cache_full(void)
{
	struct rotdisk_cmd a = make(ROTDISK_WRITE, 0, 32);
	struct rotdisk_cmd b = make(ROTDISK_WRITE, 200, 32);
	struct rotdisk_cmd c = make(ROTDISK_WRITE, 400, 32);
	u64 now = 0;

	drive(drive_text, curve_text);
	submit(&a, now);
	submit(&b, now);
	submit(&c, now);
	expect("first", next_done(&now) == &a, true);
	expect_hit(&a, 132 * US);
	expect("second", next_done(&now) == &b, true);
	expect_hit(&b, 232 * US);
	/*
	 * No room for 96 sectors in 80. b is the nearest to write back: 3.5 ms
	 * to cylinder 1, whose sector 0 has angle 5 ms, and 3.2 ms to write.
	 */
	expect("third", next_done(&now) == &c, true);
	expect_hit(&c, 8232 * US);
}

static void test_append(void)
{
	u64 now = 0;
	u64 lba;

	drive(drive_text, curve_text);
	/* Ten writes in a row become one extent: one turn, not ten. */
	for (lba = 30; lba < 40; lba++)
		now = alone(ROTDISK_WRITE, lba, 1, now)->finish_ns;
	expect("now", now, 1010 * US);
	expect("flush", alone(ROTDISK_FLUSH, 0, 0, now)->finish_ns, 4 * MS);
}

/*
 * Sectors 30 to 38 are being written, up to 3.8 ms, when others are. Return:
 * when a flush behind these is done.
 */
static u64 flush_behind(u64 lba, u32 sectors)
{
	struct rotdisk_cmd first = make(ROTDISK_FLUSH, 0, 0);
	struct rotdisk_cmd second = make(ROTDISK_FLUSH, 0, 0);
	u64 now = 200 * US;

	drive(drive_text, curve_text);
	alone(ROTDISK_WRITE, 30, 8, 0);
	submit(&first, now);
	rotdisk_model_advance(&model, 1 * MS);
	expect_hit(alone(ROTDISK_WRITE, lba, sectors, 1 * MS),
		   1100 * US + sectors * US);
	now = 1200 * US;
	submit(&second, now);
	expect("first", next_done(&now) == &first, true);
	expect("finish", first.finish_ns, 3800 * US);
	expect("second", next_done(&now) == &second, true);
	return second.finish_ns;
}

static void test_behind_write_back(void)
{
	/* What follows is written as it comes by, a turn later what is there. */
	expect("appended", flush_behind(38, 8), 4600 * US);
	expect("overwritten", flush_behind(34, 2), 13600 * US);
}

static void test_append_behind_flush(void)
{
	struct rotdisk_cmd flush = make(ROTDISK_FLUSH, 0, 0);
	struct rotdisk_cmd more = make(ROTDISK_WRITE, 808, 8);
	u64 now = 300 * US;

	drive(drive_text, curve_text);
	alone(ROTDISK_WRITE, 30, 8, 0);
	alone(ROTDISK_WRITE, 800, 8, 108 * US);
	submit(&flush, now);
	submit(&more, now);
	expect("more", next_done(&now) == &more, true);
	expect_hit(&more, 508 * US);
	/*
	 * Sectors 30 to 38 are written by 3.8 ms. 4.5 ms to cylinder 4, whose
	 * sector 0 comes at 10 ms: 800 to 808 were there before the flush.
	 */
	expect("flush", next_done(&now) == &flush, true);
	expect("finish", flush.finish_ns, 11600 * US);
}

static void test_fua(void)
{
	struct rotdisk_cmd cmd = make(ROTDISK_WRITE, 30, 1);
	u64 now = 0;

	drive(drive_text, curve_text);
	cmd.fua = true;
	submit(&cmd, now);
	next_done(&now);
	expect_medium(&cmd, 3100 * US, 0, 2900 * US, 100 * US);
	/* A write settles 0.5 ms longer: 4.5 ms to cylinder 4, angle 0. */
	cmd = make(ROTDISK_WRITE, 800, 1);
	cmd.fua = true;
	now = 31100 * US;
	submit(&cmd, now);
	next_done(&now);
	expect_medium(&cmd, 40100 * US, 4500 * US, 4300 * US, 100 * US);
}

static void test_interface(void)
{
	/* A sector takes 0.2 ms on the interface, and 0.1 ms on the medium. */
	drive(drive_text, curve_text);
	model.p.interface_rate = 2560000;
	expect_medium(alone(ROTDISK_READ, 30, 8, 0), 4600 * US, 0, 2900 * US,
		      1600 * US);
}

static void test_in_order(void)
{
	struct rotdisk_cmd cmd[3] = {
		make(ROTDISK_READ, 90, 1),
		make(ROTDISK_READ, 2000, 1),
		make(ROTDISK_READ, 20, 1),
	};
	u64 now = 0;
	int i;

	drive(drive_text, curve_text);
	model.in_order = true;
	for (i = 0; i < 3; i++)
		submit(&cmd[i], now);
	for (i = 0; i < 3; i++)
		expect("order", next_done(&now) == &cmd[i], true);
}

static void test_flash(void)
{
	struct rotdisk_cmd cmd[3];
	struct rotdisk_cmd flush = make(ROTDISK_FLUSH, 0, 0);
	static const u64 finish[] = { 118 * US, 128 * US, 226 * US };
	u64 now = 0;
	int i;

	drive(flash_text, "iops_limit=0\n");
	/* Two channels, 100 us + 8 us each; commands decoded every 10 us. */
	for (i = 0; i < 3; i++) {
		cmd[i] = make(ROTDISK_READ, i * 8000, 8);
		submit(&cmd[i], now);
	}
	for (i = 0; i < 3; i++) {
		expect("order", next_done(&now) == &cmd[i], true);
		expect_medium(&cmd[i], finish[i], 0, 0, 108 * US);
	}
	/* Writes end at 50 us + 8 us; the flush comes after them. */
	now = 1 * MS;
	cmd[0] = make(ROTDISK_WRITE, 0, 8);
	submit(&cmd[0], now);
	submit(&flush, now);
	expect("write", next_done(&now) == &cmd[0], true);
	expect_medium(&cmd[0], 1068 * US, 0, 0, 58 * US);
	expect("flush", next_done(&now) == &flush, true);
	expect("finish", flush.finish_ns, 1468 * US);
	now = 2 * MS;
	cmd[0] = make(ROTDISK_WRITE, 0, 8);
	cmd[0].fua = true;
	submit(&cmd[0], now);
	next_done(&now);
	expect_medium(&cmd[0], 2468 * US, 0, 0, 458 * US);
}

static void test_flash_limits(void)
{
	struct rotdisk_cmd cmd[4];
	u64 now = 0;
	int i;

	/* One command a millisecond. */
	drive(flash_text, "iops_limit=1000\n");
	for (i = 0; i < 4; i++) {
		cmd[i] = make(ROTDISK_READ, i, 8);
		submit(&cmd[i], now);
	}
	for (i = 0; i < 4; i++) {
		next_done(&now);
		expect("finish", cmd[i].finish_ns, i * MS + 118 * US);
	}
	/* Writes share 1 us a sector; 10 us + 2 * 1000 us and no less. */
	drive(flash_text, "iops_limit=0\n");
	now = 0;
	for (i = 0; i < 2; i++) {
		cmd[i] = make(ROTDISK_WRITE, i * 1000, 1000);
		submit(&cmd[i], now);
	}
	for (i = 0; i < 2; i++)
		next_done(&now);
	expect("finish", now, 2010 * US);
}

static const struct {
	const char *name;
	void (*run)(void);
} scenarios[] = {
	{ "a sector comes round at its angle", test_rotation },
	{ "the drive reads on and serves from its buffer", test_buffer },
	{ "the buffer forgets what was not used longest", test_forget },
	{ "a hit lets a stopped read-ahead go on", test_resume },
	{ "seek, head and cylinder switch, zones", test_seek },
	{ "a measured seek table is interpolated", test_table },
	{ "sequential reading loses nothing", test_sequential },
	{ "shortest positioning time first", test_shortest_first },
	{ "no command starves", test_age },
	{ "a deep queue is twice as fast", test_depth },
	{ "cached writes and flush", test_write_cache },
	{ "write-back when idle", test_write_back },
	{ "a full cache blocks writes", test_cache_full },
	{ "appended writes become one extent", test_append },
	{ "what is being written is not added to", test_behind_write_back },
	{ "a flush waits for what is appended to later", test_append_behind_flush },
	{ "FUA writes go to the medium", test_fua },
	{ "a slow interface", test_interface },
	{ "served in order if asked to", test_in_order },
	{ "flash channels, flush and FUA", test_flash },
	{ "flash IOPS limit and write rate", test_flash_limits },
};

static int run_exact(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(scenarios); i++) {
		scenario = scenarios[i].name;
		scenarios[i].run();
	}
	if (!failures)
		printf("ok %zu scenarios\n", ARRAY_SIZE(scenarios));
	return failures > 0;
}

/*
 * Random drives and commands
 */

#define RUNS		300
#define COMMANDS	400

static u64 rng;

static u64 below(u64 n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (rng >> 16) % n;
}

/* A drive, and how its commands come. */
struct setup {
	struct rotdisk_profile p;
	u32 depth;
	u32 writes;		/* of 100 */
	u32 flushes;		/* of 1000 */
	u32 local;		/* of 100, near the one before */
	u32 max_sectors;
	u64 max_gap_ns;		/* between commands; 0: as fast as they can */
};

static void random_actuator(struct rotdisk_profile *p)
{
	u32 i;

	p->rotational = true;
	p->rpm = 4000 + below(12000);
	p->heads = 1 + below(6);
	p->head_switch_ns = below(2 * MS);
	p->write_settle_ns = below(MS);
	p->seek_base_ns = below(3 * MS);
	p->seek_sqrt_ns = below(100 * US);
	if (below(2)) {
		p->nr_points = 2 + below(10);
		for (i = 0; i < p->nr_points; i++) {
			p->points[i].cylinders = 1 + i * (1 + below(3)) * 40;
			p->points[i].ns = 100 * US + below(500 * US);
			if (i) {
				p->points[i].cylinders +=
					p->points[i - 1].cylinders;
				p->points[i].ns += p->points[i - 1].ns;
			}
		}
	}
	p->nr_zones = 1 + below(5);
	for (i = 0; i < p->nr_zones; i++) {
		p->zones[i].cylinders = 1 + below(1000);
		p->zones[i].sectors = 8 + below(3000);
		p->capacity_sectors += (u64)p->zones[i].cylinders *
				       p->zones[i].sectors * p->heads;
	}
	p->age_limit_ns = 1 * MS + below(1000 * MS);
	p->segments = below(5);
	p->segment_sectors = 8 + below(4096);
	p->readahead_sectors = below(p->segment_sectors + 1);
	p->destage_idle_ns = below(20 * MS);
}

static void random_flash(struct rotdisk_profile *p)
{
	p->capacity_sectors = 8000 + below(1000000);
	p->channels = 1 + below(ROTDISK_MAX_CHANNELS);
	p->channel_rate = 10000000 + below(1000000000);
	p->write_rate = 10000000 + below(1000000000);
	p->read_latency_ns = below(1 * MS);
	p->write_latency_ns = below(1 * MS);
	p->flush_latency_ns = below(5 * MS);
	p->iops_limit = below(2) ? 100 + below(10000) : 0;
}

static void random_setup(struct setup *s, u64 seed)
{
	static const u32 depths[] = { 1, 2, 4, 31, 32 };

	memset(s, 0, sizeof(*s));
	rng = 0x9e3779b97f4a7c15ULL * (seed + 1);
	s->depth = depths[below(5)];
	s->p.queue_depth = s->depth;
	s->p.overhead_ns = below(2) ? below(300 * US) : 0;
	s->p.interface_rate = 16000000000ULL;
	if (below(2))
		s->p.write_cache_bytes = 4096 + below(1 << 20);
	s->p.write_cache = s->p.write_cache_bytes > 0;
	if (below(5))
		random_actuator(&s->p);
	else
		random_flash(&s->p);
	s->writes = below(2) ? below(101) : 0;
	s->flushes = below(2) ? below(50) : 0;
	s->local = below(101);
	s->max_sectors = 1 + below(below(2) ? 8 : 2000);
	s->max_gap_ns = below(2) ? below(20 * MS) : 0;
}

/* What a run has seen so far. */
struct watch {
	struct setup s;
	struct rotdisk_cmd cmds[ROTDISK_MAX_DEPTH];
	u64 sent_ns[ROTDISK_MAX_DEPTH];
	bool inside[ROTDISK_MAX_DEPTH];	/* belongs to the model */
	u32 nr_inside;
	u64 finish_ns;			/* of the last one finished */
	u64 medium_ns;			/* the actuator was busy until then */
	u64 longest_ns;			/* longest service of the actuator */
	u64 flash_ns;			/* sum of latencies */
	u64 flash_cmds;
	u64 lba;
	u64 finished;
	u64 hash;
};

static void check_medium(struct watch *w, const struct rotdisk_cmd *cmd)
{
	const struct rotdisk_profile *p = &w->s.p;
	u64 start = cmd->finish_ns - cmd->transfer_ns - cmd->rotation_ns -
		    cmd->seek_ns;

	if (start < w->medium_ns)
		fail("the actuator does two things at %llu", start);
	w->medium_ns = cmd->finish_ns;
	if (cmd->finish_ns - start > w->longest_ns)
		w->longest_ns = cmd->finish_ns - start;
	if (cmd->seek_ns && cmd->rotation_ns >= 60000 * MS / p->rpm)
		fail("rotation of %llu after a seek", cmd->rotation_ns);
	/* Reads only: the bound of the age limit is short. */
	if (!w->s.writes && start - cmd->submit_ns > p->age_limit_ns +
	    (w->s.depth + 1) * (w->longest_ns + p->overhead_ns))
		fail("waited %llu, limit %llu", start - cmd->submit_ns,
		     p->age_limit_ns);
}

static void check_cmd(struct watch *w, const struct rotdisk_cmd *cmd, u64 now)
{
	u64 taken = cmd->finish_ns - cmd->submit_ns;
	u64 bus_ns = (u64)cmd->sectors * 512 * 1000 / 16000;
	u32 i;

	if (cmd->submit_ns != w->sent_ns[cmd - w->cmds])
		fail("submitted at %llu, says %llu", w->sent_ns[cmd - w->cmds],
		     cmd->submit_ns);
	if (cmd->finish_ns > now)
		fail("finishes at %llu, returned at %llu", cmd->finish_ns,
		     now);
	if (cmd->finish_ns < w->finish_ns)
		fail("finishes at %llu, the one before at %llu",
		     cmd->finish_ns, w->finish_ns);
	w->finish_ns = cmd->finish_ns;
	if (cmd->finish_ns < cmd->submit_ns ||
	    taken < cmd->overhead_ns + cmd->seek_ns + cmd->rotation_ns +
		    cmd->transfer_ns)
		fail("%llu is less than its parts", taken);
	if (cmd->overhead_ns != w->s.p.overhead_ns)
		fail("overhead of %llu", cmd->overhead_ns);
	if (cmd->op == ROTDISK_FLUSH) {
		for (i = 0; i < model.nr_dirty; i++)
			if (model.dirty[i].seq < cmd->seq)
				fail("flushed, but not sector %llu",
				     model.dirty[i].lba);
		return;
	}
	if (cmd->transfer_ns < bus_ns && (cmd->hit || !w->s.p.rotational))
		fail("%u sectors in %llu", cmd->sectors, cmd->transfer_ns);
	if (cmd->hit && (cmd->seek_ns || cmd->rotation_ns))
		fail("a hit that moves");
	if (cmd->op == ROTDISK_WRITE && cmd->hit &&
	    (cmd->fua || !w->s.p.write_cache))
		fail("a write of sector %llu is not on the medium", cmd->lba);
	if (cmd->hit && cmd->op == ROTDISK_READ && !w->s.p.segments &&
	    !w->s.writes)
		fail("a hit without a buffer");
	if (w->s.p.rotational) {
		if (!cmd->hit)
			check_medium(w, cmd);
		return;
	}
	w->flash_cmds++;
	w->flash_ns += cmd->op == ROTDISK_READ ? w->s.p.read_latency_ns :
						 w->s.p.write_latency_ns;
	if (w->flash_ns / w->s.p.channels > cmd->finish_ns)
		fail("more than %u channels", w->s.p.channels);
	if (w->s.p.iops_limit && (w->flash_cmds - 1) * 1000 * MS >
	    (cmd->finish_ns + w->flash_cmds) * w->s.p.iops_limit)
		fail("more than %u commands a second", w->s.p.iops_limit);
}

static void check_model(const struct watch *w)
{
	u64 bytes = 0;
	u32 i;

	for (i = 0; i < model.nr_dirty; i++)
		bytes += (u64)model.dirty[i].sectors * 512;
	if (bytes != model.dirty_bytes || bytes > w->s.p.write_cache_bytes)
		fail("%llu bytes dirty, counts %llu of %llu", bytes,
		     model.dirty_bytes, w->s.p.write_cache_bytes);
}

static void send_one(struct watch *w, u64 now)
{
	struct rotdisk_cmd *cmd;
	u32 sectors = 1 + below(w->s.max_sectors);
	u32 i = 0;

	while (w->inside[i])
		i++;
	cmd = &w->cmds[i];
	if (below(100) >= w->s.local)
		w->lba = below(w->s.p.capacity_sectors);
	if (sectors > w->s.p.capacity_sectors - w->lba)
		sectors = w->s.p.capacity_sectors - w->lba;
	*cmd = make(below(100) < w->s.writes ? ROTDISK_WRITE : ROTDISK_READ,
		    w->lba, sectors);
	cmd->fua = cmd->op == ROTDISK_WRITE && !below(4);
	if (below(1000) < w->s.flushes)
		*cmd = make(ROTDISK_FLUSH, 0, 0);
	w->lba = (w->lba + sectors + (below(4) ? 0 : below(500))) %
		 w->s.p.capacity_sectors;
	w->inside[i] = true;
	w->sent_ns[i] = now;
	w->nr_inside++;
	submit(cmd, now);
}

static void take_one(struct watch *w, struct rotdisk_cmd *cmd, u64 now)
{
	u32 i = cmd - w->cmds;

	if (cmd < w->cmds || i >= w->s.depth || !w->inside[i]) {
		fail("returns a command it was not given");
		exit(1);
	}
	check_cmd(w, cmd, now);
	w->inside[i] = false;
	w->nr_inside--;
	w->finished++;
	w->hash = (w->hash ^ cmd->finish_ns ^ cmd->lba << 20 ^
		   cmd->rotation_ns << 40) * 0x100000001b3ULL;
}

/* When the drive is asked. */
enum asking {
	IN_TIME,	/* at its events */
	RESTLESS,	/* at odd times in between, too: makes no difference */
	LATE,		/* some time after its events */
};

/* One run; returns a hash of all that was seen. */
static u64 run_one(u64 seed, enum asking asking)
{
	static struct watch w;
	struct rotdisk_cmd *cmd;
	u64 odd = seed + 1;
	u64 steps = 0;
	u64 now = 0;
	u64 next = 0;		/* when the next command comes */
	u64 sent = 0;
	u64 event;

	memset(&w, 0, sizeof(w));
	random_setup(&w.s, seed);
	if (rotdisk_model_init(&model, &w.s.p)) {
		fail("no drive");
		return 0;
	}
	while (w.finished < COMMANDS) {
		while (w.nr_inside < w.s.depth && sent < COMMANDS &&
		       next <= now) {
			send_one(&w, now);
			sent++;
			if (w.s.max_gap_ns)
				next = now + below(w.s.max_gap_ns);
		}
		check_model(&w);
		event = rotdisk_model_next_event(&model);
		if (w.nr_inside < w.s.depth && sent < COMMANDS && next < event)
			event = next;
		if (event == NEVER) {
			fail("%u commands never finish", w.nr_inside);
			exit(1);
		}
		odd = odd * 6364136223846793005ULL + 1442695040888963407ULL;
		if (asking == RESTLESS && event > now + 1)
			event = now + 1 + (odd >> 32) % (event - now);
		else if (asking == LATE)
			event += (odd >> 32) % MS;
		if (event > now)
			now = event;
		/* One at a time: the next may be sent before it is asked for. */
		cmd = rotdisk_model_advance(&model, now);
		if (cmd) {
			if (cmd->finish_ns != now && asking != LATE)
				fail("finishes at %llu, returned at %llu",
				     cmd->finish_ns, now);
			take_one(&w, cmd, now);
		}
		if (++steps > 1000 * COMMANDS) {
			fail("does not come to an end");
			exit(1);
		}
	}
	if (rotdisk_model_advance(&model, now + 1000 * MS))
		fail("returns a command twice");
	return w.hash;
}

static int run_random(void)
{
	char name[40];
	u64 seed, hash;

	scenario = name;
	for (seed = 0; seed < RUNS && !failures; seed++) {
		snprintf(name, sizeof(name), "run %llu", seed);
		hash = run_one(seed, IN_TIME);
		if (run_one(seed, IN_TIME) != hash)
			fail("the same again is not the same");
		if (run_one(seed, RESTLESS) != hash)
			fail("asking more often makes a difference");
		run_one(seed, LATE);
	}
	if (!failures)
		printf("ok %d drives, %d commands each\n", RUNS, COMMANDS);
	return failures > 0;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 2 && !strcmp(argv[1], "exact"))
		return run_exact();
	if (argc == 2 && !strcmp(argv[1], "random"))
		return run_random();
	fputs("usage: model-test exact|random\n", stderr);
	return 2;
}
