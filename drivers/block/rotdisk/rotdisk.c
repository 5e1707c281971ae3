// SPDX-License-Identifier: GPL-2.0
/*
 * Block devices in memory with the timing of a real disk.
 *
 * The timing is model.c's. This file gives it a clock, commands and a block
 * device, configfs directories to make disks in, and debugfs files to see what
 * they did. See Documentation/block/rotdisk.rst.
 *
 * Data is copied when a command is submitted: commands in flight have no order
 * among them, so a later moment would not be more right, and here memory can
 * be allocated. The command then finishes when the model says so.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/configfs.h>
#include <linux/debugfs.h>
#include <linux/hrtimer.h>
#include <linux/idr.h>
#include <linux/io.h>
#include <linux/kmemleak.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/uaccess.h>
#include <linux/xarray.h>

#include "model.h"

/* The contents are kept, saved and loaded in units of this. */
#define ROTDISK_PAGE_SIZE	4096
static_assert(PAGE_SIZE == ROTDISK_PAGE_SIZE);
/* Every page has an address. */
static_assert(!IS_ENABLED(CONFIG_HIGHMEM));

/* Scatter list and command size of an AHCI port: they bound a request. */
#define ROTDISK_MAX_SEGMENTS_HW	168
#define ROTDISK_MAX_SECTORS_HW	65535

static unsigned int trace_limit = 2U << 20;
module_param(trace_limit, uint, 0644);
MODULE_PARM_DESC(trace_limit,
		 "commands a trace holds, of 56 bytes each, before it drops more (default 2097152)");

static char *store;
module_param(store, charp, 0444);
MODULE_PARM_DESC(store,
		 "name of the memory reserved with reserve_mem= that keeps contents and traces (default: none, they share the memory of all)");

struct rotdisk_config {
	struct rotdisk_profile profile;
	char text[];
};

struct rotdisk_request {
	struct rotdisk_cmd cmd;
	struct list_head finished;
};

struct rotdisk_record {
	u64 submit_ns;
	u64 finish_ns;
	u64 lba;
	u64 seek_ns;
	u64 rotation_ns;
	u64 transfer_ns;
	u32 sectors;
	u8 op;
	bool meta;
	bool hit;
};

#define ROTDISK_CHUNK	(ROTDISK_PAGE_SIZE / sizeof(struct rotdisk_record))
static_assert(ROTDISK_CHUNK >= ROTDISK_MAX_DEPTH);

/* A line of the contents file. */
struct rotdisk_content {
	__le64 index;
	u8 data[ROTDISK_PAGE_SIZE];
} __packed;

/**
 * struct rotdisk - a disk
 * @item: its configfs directory
 * @debugfs: its debugfs directory
 * @mutex: serialises configuration, power and loading of contents
 * @config: the profile as it was written, %NULL before; under @mutex
 * @capacity_bytes: 0 for the profile's; under @mutex
 * @error: why the last write to an attribute failed; under @mutex
 * @claimed: nobody may open the block device; changed under @mutex and, with
 *	power, under rotdisk_open_mutex()
 * @disk: the block device, %NULL without power; changed under @mutex
 * @bdev: the whole of it, set while there is power
 * @index: number of the block device
 * @tag_set: its tags
 * @pages: contents, by page index; entries go only while @claimed
 * @lock: protects what follows, and the model
 * @timing: commands take time
 * @tracing: commands are traced
 * @timer: calls the model when it has something to do
 * @timer_ns: time @timer is set for, U64_MAX if it is not
 * @counters: by class
 * @records: records in the trace
 * @dropped: commands for which there was no record
 * @room: records there is memory for; grows under @trace_mutex and @lock
 * @trace_mutex: serialises the change of @chunks, and readers of the trace
 * @chunks: memory of the trace, pages of ROTDISK_CHUNK records
 * @profile: the profile in force, set while there is no power
 * @model: the timing
 */
struct rotdisk {
	struct config_item item;
	struct dentry *debugfs;
	struct mutex mutex;		/* configuration */
	struct rotdisk_config *config;
	u64 capacity_bytes;
	char error[160];
	bool claimed;
	struct gendisk *disk;
	struct block_device *bdev;
	int index;
	struct blk_mq_tag_set tag_set;
	struct xarray pages;

	spinlock_t lock;		/* everything below */
	bool timing;
	bool tracing;
	struct hrtimer timer;
	u64 timer_ns;
	struct rotdisk_counters counters[ROTDISK_CLASSES];
	u32 records;
	u64 dropped;
	u32 room;
	struct mutex trace_mutex;	/* chunks */
	struct xarray chunks;
	struct rotdisk_profile profile;
	struct rotdisk_model model;
};

static DEFINE_IDA(rotdisk_indexes);
static struct dentry *rotdisk_debugfs;

static struct rotdisk *to_rotdisk(struct config_item *item)
{
	return container_of(item, struct rotdisk, item);
}

/*
 * What differs between the kernels this is built for, 5.10 to 7.2. Nothing else
 * in this file asks for it; see also Kbuild.
 */

/* A command may take seconds, and in virtual time they pass in an instant. */
#ifdef ROTDISK_HAVE_TIMEOUT_RESERVED
static enum blk_eh_timer_return rotdisk_timeout(struct request *rq, bool reserved)
#else
static enum blk_eh_timer_return rotdisk_timeout(struct request *rq)
#endif
{
	return BLK_EH_RESET_TIMER;
}

#ifdef BLK_OPEN_READ
static int rotdisk_open(struct gendisk *disk, blk_mode_t mode)
{
	struct rotdisk *d = disk->private_data;
#else
static int rotdisk_open(struct block_device *bdev, fmode_t mode)
{
	struct rotdisk *d = bdev->bd_disk->private_data;
#endif

	return d->claimed ? -EBUSY : 0;
}

#ifdef BLK_FEAT_ROTATIONAL
static struct gendisk *rotdisk_alloc_disk(struct rotdisk *d)
{
	struct queue_limits lim = {
		.logical_block_size = SECTOR_SIZE,
		.physical_block_size = ROTDISK_PAGE_SIZE,
		.max_hw_sectors = ROTDISK_MAX_SECTORS_HW,
		.max_segments = ROTDISK_MAX_SEGMENTS_HW,
	};

	if (d->profile.rotational)
		lim.features |= BLK_FEAT_ROTATIONAL;
	if (d->profile.write_cache)
		lim.features |= BLK_FEAT_WRITE_CACHE | BLK_FEAT_FUA;
	return blk_mq_alloc_disk(&d->tag_set, &lim, d);
}
#else
static struct gendisk *rotdisk_alloc_disk(struct rotdisk *d)
{
#ifdef ROTDISK_HAVE_ALLOC_DISK
	struct gendisk *disk = blk_mq_alloc_disk(&d->tag_set, d);

	if (IS_ERR(disk))
		return disk;
#else
	struct request_queue *queue;
	struct gendisk *disk;

	queue = blk_mq_init_queue_data(&d->tag_set, d);
	if (IS_ERR(queue))
		return ERR_CAST(queue);
	disk = alloc_disk(0);
	if (!disk) {
		blk_cleanup_queue(queue);
		return ERR_PTR(-ENOMEM);
	}
	disk->flags |= GENHD_FL_EXT_DEVT;
	disk->queue = queue;
#endif
	blk_queue_logical_block_size(disk->queue, SECTOR_SIZE);
	blk_queue_physical_block_size(disk->queue, ROTDISK_PAGE_SIZE);
	blk_queue_max_hw_sectors(disk->queue, ROTDISK_MAX_SECTORS_HW);
	blk_queue_max_segments(disk->queue, ROTDISK_MAX_SEGMENTS_HW);
	blk_queue_write_cache(disk->queue, d->profile.write_cache,
			      d->profile.write_cache);
	if (!d->profile.rotational)
		blk_queue_flag_set(QUEUE_FLAG_NONROT, disk->queue);
	return disk;
}
#endif

#ifdef ROTDISK_HAVE_ALLOC_DISK
static int rotdisk_publish(struct rotdisk *d)
{
	d->bdev = d->disk->part0;
	return add_disk(d->disk);
}

static void rotdisk_withdraw(struct rotdisk *d)
{
	del_gendisk(d->disk);
}

static struct mutex *rotdisk_open_mutex(struct rotdisk *d)
{
	return &d->disk->open_mutex;
}

static unsigned int rotdisk_openers(struct rotdisk *d)
{
	return disk_openers(d->disk);
}
#else
static int rotdisk_publish(struct rotdisk *d)
{
	add_disk(d->disk);
	d->bdev = bdget_disk(d->disk, 0);
	if (d->bdev)
		return 0;
	del_gendisk(d->disk);
	blk_cleanup_queue(d->disk->queue);
	return -ENOMEM;
}

static void rotdisk_withdraw(struct rotdisk *d)
{
	del_gendisk(d->disk);
	blk_cleanup_queue(d->disk->queue);
	bdput(d->bdev);
}

static struct mutex *rotdisk_open_mutex(struct rotdisk *d)
{
	return &d->bdev->bd_mutex;
}

static unsigned int rotdisk_openers(struct rotdisk *d)
{
	return d->bdev->bd_openers;
}
#endif

static void rotdisk_init_timer(struct rotdisk *d,
			       enum hrtimer_restart (*function)(struct hrtimer *))
{
#ifdef ROTDISK_HAVE_HRTIMER_SETUP
	hrtimer_setup(&d->timer, function, CLOCK_MONOTONIC,
		      HRTIMER_MODE_ABS_SOFT);
#else
	hrtimer_init(&d->timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	d->timer.function = function;
#endif
}

#ifdef ROTDISK_HAVE_SHOULD_MERGE
#define ROTDISK_MQ_FLAGS	(BLK_MQ_F_BLOCKING | BLK_MQ_F_SHOULD_MERGE)
#else
#define ROTDISK_MQ_FLAGS	BLK_MQ_F_BLOCKING
#endif

#ifdef ROTDISK_HAVE_RESERVE_MEM
static bool rotdisk_find_store(phys_addr_t *start, phys_addr_t *size)
{
	return reserve_mem_find_by_name(store, start, size);
}
#else
static bool rotdisk_find_store(phys_addr_t *start, phys_addr_t *size)
{
	return false;
}
#endif

/* Memory of contents and traces */

/**
 * struct rotdisk_store - reserved memory, taken page by page
 * @lock: protects what follows
 * @unused: its first page never used
 * @end: behind its last page, %NULL if no memory is reserved
 * @freed: pages given back, each begins with a pointer to the next
 */
static struct rotdisk_store {
	spinlock_t lock;		/* everything below */
	void *unused;
	void *end;
	void *freed;
} rotdisk_store = {
	.lock = __SPIN_LOCK_UNLOCKED(rotdisk_store.lock),
};

static void *rotdisk_alloc_page(gfp_t gfp)
{
	struct rotdisk_store *s = &rotdisk_store;
	void *page;

	if (!s->end)
		return (void *)get_zeroed_page(gfp);

	spin_lock(&s->lock);
	page = s->freed;
	if (page) {
		s->freed = *(void **)page;
	} else if (s->unused < s->end) {
		page = s->unused;
		s->unused += ROTDISK_PAGE_SIZE;
	}
	spin_unlock(&s->lock);
	if (page)
		clear_page(page);
	return page;
}

static void rotdisk_free_page(void *page)
{
	struct rotdisk_store *s = &rotdisk_store;

	if (!s->end) {
		free_page((unsigned long)page);
		return;
	}
	spin_lock(&s->lock);
	*(void **)page = s->freed;
	s->freed = page;
	spin_unlock(&s->lock);
}

/* Contents */

static void *rotdisk_get_page(struct rotdisk *d, pgoff_t index, gfp_t gfp)
{
	void *page = xa_load(&d->pages, index);
	void *old;

	if (page)
		return page;
	page = rotdisk_alloc_page(gfp);
	if (!page)
		return NULL;
	old = xa_cmpxchg(&d->pages, index, NULL, page, gfp);
	if (!old)
		return page;
	rotdisk_free_page(page);
	return xa_is_err(old) ? NULL : old;
}

static void rotdisk_free_pages(struct xarray *pages)
{
	unsigned long index;
	void *page;

	xa_for_each(pages, index, page) {
		rotdisk_free_page(page);
		cond_resched();
	}
	xa_destroy(pages);
}

static blk_status_t rotdisk_copy(struct rotdisk *d, struct request *rq)
{
	/*
	 * The page stays allocated, so there is no pool to fall back on. Fail
	 * the write rather than wait for memory that this write may be meant
	 * to make free.
	 */
	gfp_t gfp = GFP_NOIO | __GFP_RETRY_MAYFAIL | __GFP_NOWARN;
	bool write = op_is_write(req_op(rq));
	u64 pos = blk_rq_pos(rq) << SECTOR_SHIFT;
	struct req_iterator iter;
	struct bio_vec bv;

	rq_for_each_segment(bv, rq, iter) {
		char *buf = page_address(bv.bv_page) + bv.bv_offset;
		unsigned int done, n;

		for (done = 0; done < bv.bv_len; done += n, pos += n) {
			pgoff_t index = pos / ROTDISK_PAGE_SIZE;
			unsigned int offset = pos % ROTDISK_PAGE_SIZE;
			char *page;

			n = min_t(unsigned int, bv.bv_len - done,
				  ROTDISK_PAGE_SIZE - offset);
			if (write) {
				page = rotdisk_get_page(d, index, gfp);
				if (!page)
					break;
				memcpy(page + offset, buf + done, n);
				continue;
			}
			page = xa_load(&d->pages, index);
			if (page)
				memcpy(buf + done, page + offset, n);
			else
				memset(buf + done, 0, n);
		}
		if (done < bv.bv_len) {
			pr_err_ratelimited("%s: no memory left for what is written\n",
					   d->disk->disk_name);
			return BLK_STS_NOSPC;
		}
		if (!write)
			flush_dcache_page(bv.bv_page);
	}
	return BLK_STS_OK;
}

/* Counters and trace */

/*
 * Makes sure that every command in flight will find a record, so that no
 * memory is needed when it finishes.
 */
static void rotdisk_reserve_trace(struct rotdisk *d)
{
	if (READ_ONCE(d->room) - READ_ONCE(d->records) >= ROTDISK_MAX_DEPTH)
		return;

	mutex_lock(&d->trace_mutex);
	while (d->room - READ_ONCE(d->records) < ROTDISK_MAX_DEPTH &&
	       d->room < READ_ONCE(trace_limit)) {
		void *page = rotdisk_alloc_page(GFP_NOIO | __GFP_NORETRY |
						__GFP_NOWARN);

		if (!page)
			break;
		if (xa_err(xa_store(&d->chunks, d->room / ROTDISK_CHUNK, page,
				    GFP_NOIO | __GFP_NOWARN))) {
			rotdisk_free_page(page);
			break;
		}
		spin_lock_bh(&d->lock);
		WRITE_ONCE(d->room, d->room + ROTDISK_CHUNK);
		spin_unlock_bh(&d->lock);
	}
	mutex_unlock(&d->trace_mutex);
}

static struct rotdisk_record *rotdisk_get_record(struct rotdisk *d, u32 n)
{
	struct rotdisk_record *chunk = xa_load(&d->chunks, n / ROTDISK_CHUNK);

	return chunk + n % ROTDISK_CHUNK;
}

static void rotdisk_trace(struct rotdisk *d, const struct rotdisk_cmd *cmd)
{
	lockdep_assert_held(&d->lock);

	if (d->records == d->room || d->records >= READ_ONCE(trace_limit)) {
		d->dropped++;
		return;
	}
	*rotdisk_get_record(d, d->records) = (struct rotdisk_record) {
		.submit_ns = cmd->submit_ns,
		.finish_ns = cmd->finish_ns,
		.lba = cmd->lba,
		.seek_ns = cmd->seek_ns,
		.rotation_ns = cmd->rotation_ns,
		.transfer_ns = cmd->transfer_ns,
		.sectors = cmd->sectors,
		.op = cmd->op,
		.meta = cmd->meta,
		.hit = cmd->hit,
	};
	WRITE_ONCE(d->records, d->records + 1);
}

static void rotdisk_account(struct rotdisk *d, const struct rotdisk_cmd *cmd)
{
	lockdep_assert_held(&d->lock);

	rotdisk_count(d->counters, cmd);
	if (d->tracing)
		rotdisk_trace(d, cmd);
}

/* Commands */

static void rotdisk_set_timer(struct rotdisk *d)
{
	u64 next = rotdisk_model_next_event(&d->model);

	lockdep_assert_held(&d->lock);

	if (next >= d->timer_ns)
		return;
	d->timer_ns = next;
	hrtimer_start(&d->timer, ns_to_ktime(next), HRTIMER_MODE_ABS_SOFT);
}

static enum hrtimer_restart rotdisk_timer(struct hrtimer *timer)
{
	struct rotdisk *d = container_of(timer, struct rotdisk, timer);
	struct rotdisk_request *req, *next;
	struct rotdisk_cmd *cmd;
	LIST_HEAD(finished);
	u64 now;

	spin_lock_bh(&d->lock);
	d->timer_ns = U64_MAX;
	now = ktime_get_ns();
	while ((cmd = rotdisk_model_advance(&d->model, now))) {
		rotdisk_account(d, cmd);
		req = container_of(cmd, struct rotdisk_request, cmd);
		list_add_tail(&req->finished, &finished);
	}
	rotdisk_set_timer(d);
	spin_unlock_bh(&d->lock);

	list_for_each_entry_safe(req, next, &finished, finished)
		blk_mq_end_request(blk_mq_rq_from_pdu(req), BLK_STS_OK);
	return HRTIMER_NORESTART;
}

/* Returns true if the command is finished already. */
static bool rotdisk_submit(struct rotdisk *d, struct rotdisk_cmd *cmd)
{
	bool timing;
	u64 now;

	spin_lock_bh(&d->lock);
	now = ktime_get_ns();
	timing = d->timing;
	if (timing) {
		rotdisk_model_submit(&d->model, cmd, now);
		rotdisk_set_timer(d);
	} else {
		cmd->submit_ns = now;
		cmd->finish_ns = now;
		rotdisk_account(d, cmd);
	}
	spin_unlock_bh(&d->lock);
	return !timing;
}

static blk_status_t rotdisk_queue_rq(struct blk_mq_hw_ctx *hctx,
				     const struct blk_mq_queue_data *bd)
{
	struct request *rq = bd->rq;
	struct rotdisk *d = hctx->queue->queuedata;
	struct rotdisk_request *req = blk_mq_rq_to_pdu(rq);
	blk_status_t status = BLK_STS_OK;

	memset(req, 0, sizeof(*req));
	req->cmd.meta = rq->cmd_flags & REQ_META;
	req->cmd.fua = rq->cmd_flags & REQ_FUA;

	blk_mq_start_request(rq);
	switch (req_op(rq)) {
	case REQ_OP_FLUSH:
		req->cmd.op = ROTDISK_FLUSH;
		break;
	case REQ_OP_READ:
	case REQ_OP_WRITE:
		req->cmd.op = req_op(rq) == REQ_OP_READ ?
			      ROTDISK_READ : ROTDISK_WRITE;
		req->cmd.lba = blk_rq_pos(rq);
		req->cmd.sectors = blk_rq_sectors(rq);
		status = rotdisk_copy(d, rq);
		break;
	default:
		status = BLK_STS_NOTSUPP;
	}
	if (status)
		return status;

	if (READ_ONCE(d->tracing))
		rotdisk_reserve_trace(d);
	if (rotdisk_submit(d, &req->cmd))
		blk_mq_end_request(rq, BLK_STS_OK);
	return BLK_STS_OK;
}

static const struct blk_mq_ops rotdisk_mq_ops = {
	.queue_rq = rotdisk_queue_rq,
	.timeout = rotdisk_timeout,
};

static const struct block_device_operations rotdisk_fops = {
	.owner = THIS_MODULE,
	.open = rotdisk_open,
};

/* Power */

static __printf(3, 4) int rotdisk_fail(struct rotdisk *d, int err,
				       const char *fmt, ...)
{
	va_list args;

	lockdep_assert_held(&d->mutex);

	va_start(args, fmt);
	vscnprintf(d->error, sizeof(d->error), fmt, args);
	va_end(args);
	pr_err("%s: %s\n", config_item_name(&d->item), d->error);
	return err;
}

/* Keeps others from opening the block device, if nobody has it open. */
static int rotdisk_claim(struct rotdisk *d)
{
	lockdep_assert_held(&d->mutex);

	if (d->claimed)
		return rotdisk_fail(d, -EBUSY, "contents are being loaded, wait for it to end");
	if (!d->disk) {
		d->claimed = true;
		return 0;
	}
	mutex_lock(rotdisk_open_mutex(d));
	d->claimed = !rotdisk_openers(d);
	mutex_unlock(rotdisk_open_mutex(d));
	if (!d->claimed)
		return rotdisk_fail(d, -EBUSY, "%s is in use, unmount or close it first",
				    d->disk->disk_name);
	return 0;
}

static void rotdisk_unclaim(struct rotdisk *d)
{
	lockdep_assert_held(&d->mutex);

	if (d->disk)
		mutex_lock(rotdisk_open_mutex(d));
	d->claimed = false;
	if (d->disk)
		mutex_unlock(rotdisk_open_mutex(d));
}

/* The size in force, 0 without a profile. */
static u64 rotdisk_capacity_pages(struct rotdisk *d)
{
	u64 bytes = d->capacity_bytes;

	if (!d->config)
		return 0;
	if (!bytes)
		bytes = d->config->profile.capacity_sectors << SECTOR_SHIFT;
	return bytes / ROTDISK_PAGE_SIZE;
}

static int rotdisk_init_model(struct rotdisk *d)
{
	struct rotdisk_profile *p = &d->profile;
	u64 profile_bytes;
	unsigned long end;

	if (!d->config)
		return rotdisk_fail(d, -EINVAL, "no profile, write one first");
	*p = d->config->profile;
	profile_bytes = p->capacity_sectors << SECTOR_SHIFT;
	if (d->capacity_bytes > profile_bytes)
		return rotdisk_fail(d, -EINVAL,
				    "capacity_bytes must be at most the profile's %llu, not %llu",
				    profile_bytes, d->capacity_bytes);
	end = rotdisk_capacity_pages(d);
	if (xa_find(&d->pages, &end, ULONG_MAX, XA_PRESENT))
		return rotdisk_fail(d, -EINVAL, "contents reach byte %llu, beyond the capacity",
				    (u64)end * ROTDISK_PAGE_SIZE);
	p->capacity_sectors = rotdisk_capacity_pages(d) *
			      (ROTDISK_PAGE_SIZE / SECTOR_SIZE);
	if (rotdisk_model_init(&d->model, p))
		return rotdisk_fail(d, -EINVAL, "no drive can have this profile with %llu sectors",
				    p->capacity_sectors);
	return 0;
}

static int rotdisk_add_disk(struct rotdisk *d)
{
	struct gendisk *disk;
	int err;

	d->index = ida_alloc(&rotdisk_indexes, GFP_KERNEL);
	if (d->index < 0)
		return d->index;

	d->tag_set = (struct blk_mq_tag_set) {
		.ops = &rotdisk_mq_ops,
		.nr_hw_queues = 1,
		.queue_depth = d->profile.queue_depth,
		.numa_node = NUMA_NO_NODE,
		.cmd_size = sizeof(struct rotdisk_request),
		.flags = ROTDISK_MQ_FLAGS,
	};
	err = blk_mq_alloc_tag_set(&d->tag_set);
	if (err)
		goto free_index;
	disk = rotdisk_alloc_disk(d);
	if (IS_ERR(disk)) {
		err = PTR_ERR(disk);
		goto free_tags;
	}
	snprintf(disk->disk_name, DISK_NAME_LEN, "rotdisk%d", d->index);
	disk->fops = &rotdisk_fops;
	disk->private_data = d;
	set_capacity(disk, d->profile.capacity_sectors);
	d->disk = disk;
	d->timer_ns = U64_MAX;
	err = rotdisk_publish(d);
	if (!err)
		return 0;

	d->disk = NULL;
	put_disk(disk);
free_tags:
	blk_mq_free_tag_set(&d->tag_set);
free_index:
	ida_free(&rotdisk_indexes, d->index);
	return err;
}

static int rotdisk_power_on(struct rotdisk *d)
{
	int err;

	lockdep_assert_held(&d->mutex);

	if (d->claimed)
		return rotdisk_fail(d, -EBUSY, "contents are being loaded, wait for it to end");
	err = rotdisk_init_model(d);
	if (err)
		return err;
	err = rotdisk_add_disk(d);
	if (err)
		return rotdisk_fail(d, err, "no block device: error %d", err);
	/* Not earlier: the first tick after boot may switch them on. */
	if (d->timing && hrtimer_resolution > NSEC_PER_USEC)
		pr_warn("%s: no high resolution timers, times are %u ns coarse\n",
			config_item_name(&d->item), hrtimer_resolution);
	return 0;
}

/* Safe with the block device open: its users get I/O errors from now on. */
static void rotdisk_power_off(struct rotdisk *d)
{
	struct gendisk *disk = d->disk;

	lockdep_assert_held(&d->mutex);

	rotdisk_withdraw(d);
	hrtimer_cancel(&d->timer);
	d->disk = NULL;
	put_disk(disk);
	blk_mq_free_tag_set(&d->tag_set);
	ida_free(&rotdisk_indexes, d->index);
}

/* configfs attributes */

static ssize_t rotdisk_set_attr(struct config_item *item, const char *page,
				size_t len,
				int (*set)(struct rotdisk *d, const char *page,
					   size_t len))
{
	struct rotdisk *d = to_rotdisk(item);
	int err;

	mutex_lock(&d->mutex);
	d->error[0] = '\0';
	err = set(d, page, len);
	mutex_unlock(&d->mutex);
	return err ?: len;
}

/* An attribute that rotdisk_set_NAME() sets, with the mutex held. */
#define ROTDISK_ATTR(_name)						\
static ssize_t rotdisk_##_name##_store(struct config_item *item,	\
				       const char *page, size_t len)	\
{									\
	return rotdisk_set_attr(item, page, len, rotdisk_set_##_name);	\
}									\
CONFIGFS_ATTR(rotdisk_, _name)

static ssize_t rotdisk_profile_show(struct config_item *item, char *page)
{
	struct rotdisk *d = to_rotdisk(item);
	ssize_t len = 0;

	mutex_lock(&d->mutex);
	if (d->config)
		len = sysfs_emit(page, "%s", d->config->text);
	mutex_unlock(&d->mutex);
	return len;
}

static int rotdisk_set_profile(struct rotdisk *d, const char *page, size_t len)
{
	struct rotdisk_config *config;
	char err[sizeof(d->error)];

	lockdep_assert_held(&d->mutex);

	if (d->disk)
		return rotdisk_fail(d, -EBUSY, "power is on, write 0 to it first");
	/* configfs cuts a longer write at this length */
	if (len >= ROTDISK_PROFILE_MAX - 1)
		return rotdisk_fail(d, -EINVAL,
				    "profile must be shorter than %d bytes, strip its comments",
				    ROTDISK_PROFILE_MAX - 1);
	config = kzalloc(struct_size(config, text, len + 1), GFP_KERNEL);
	if (!config)
		return -ENOMEM;
	memcpy(config->text, page, len);
	if (rotdisk_profile_parse(&config->profile, page, len, err,
				  sizeof(err))) {
		kfree(config);
		return rotdisk_fail(d, -EINVAL, "%s", err);
	}
	kfree(d->config);
	d->config = config;
	return 0;
}
ROTDISK_ATTR(profile);

static ssize_t rotdisk_capacity_bytes_show(struct config_item *item,
					   char *page)
{
	return sysfs_emit(page, "%llu\n", to_rotdisk(item)->capacity_bytes);
}

static int rotdisk_set_capacity_bytes(struct rotdisk *d, const char *page,
				      size_t len)
{
	u64 bytes;

	lockdep_assert_held(&d->mutex);

	if (d->disk)
		return rotdisk_fail(d, -EBUSY, "power is on, write 0 to it first");
	if (kstrtou64(page, 0, &bytes) || bytes % ROTDISK_PAGE_SIZE)
		return rotdisk_fail(d, -EINVAL, "capacity_bytes must be a multiple of %d",
				    ROTDISK_PAGE_SIZE);
	d->capacity_bytes = bytes;
	return 0;
}
ROTDISK_ATTR(capacity_bytes);

static int rotdisk_parse_bool(struct rotdisk *d, const char *name,
			      const char *page, bool *on)
{
	unsigned int value;

	if (kstrtouint(page, 10, &value) || value > 1)
		return rotdisk_fail(d, -EINVAL, "%s must be 0 or 1", name);
	*on = value;
	return 0;
}

static ssize_t rotdisk_power_show(struct config_item *item, char *page)
{
	return sysfs_emit(page, "%d\n", !!READ_ONCE(to_rotdisk(item)->disk));
}

static int rotdisk_set_power(struct rotdisk *d, const char *page, size_t len)
{
	bool on;
	int err;

	err = rotdisk_parse_bool(d, "power", page, &on);
	if (err || on == !!d->disk)
		return err;
	if (on)
		return rotdisk_power_on(d);
	err = rotdisk_claim(d);
	if (err)
		return err;
	rotdisk_power_off(d);
	rotdisk_unclaim(d);
	return 0;
}
ROTDISK_ATTR(power);

static ssize_t rotdisk_timing_show(struct config_item *item, char *page)
{
	return sysfs_emit(page, "%d\n", READ_ONCE(to_rotdisk(item)->timing));
}

static int rotdisk_set_timing(struct rotdisk *d, const char *page, size_t len)
{
	bool on;
	int err;

	err = rotdisk_parse_bool(d, "timing", page, &on);
	if (err)
		return err;
	/* What the model has it finishes in its own time. */
	spin_lock_bh(&d->lock);
	WRITE_ONCE(d->timing, on);
	spin_unlock_bh(&d->lock);
	return 0;
}
ROTDISK_ATTR(timing);

static ssize_t rotdisk_trace_show(struct config_item *item, char *page)
{
	return sysfs_emit(page, "%d\n", READ_ONCE(to_rotdisk(item)->tracing));
}

static int rotdisk_set_trace(struct rotdisk *d, const char *page, size_t len)
{
	bool on;
	int err;

	err = rotdisk_parse_bool(d, "trace", page, &on);
	if (err)
		return err;
	if (on)
		rotdisk_reserve_trace(d);
	spin_lock_bh(&d->lock);
	WRITE_ONCE(d->tracing, on);
	spin_unlock_bh(&d->lock);
	return 0;
}
ROTDISK_ATTR(trace);

static ssize_t rotdisk_device_show(struct config_item *item, char *page)
{
	struct rotdisk *d = to_rotdisk(item);
	ssize_t len = 0;

	mutex_lock(&d->mutex);
	if (d->disk)
		len = sysfs_emit(page, "%s\n", d->disk->disk_name);
	mutex_unlock(&d->mutex);
	return len;
}
CONFIGFS_ATTR_RO(rotdisk_, device);

static ssize_t rotdisk_error_show(struct config_item *item, char *page)
{
	struct rotdisk *d = to_rotdisk(item);
	ssize_t len = 0;

	mutex_lock(&d->mutex);
	if (d->error[0])
		len = sysfs_emit(page, "%s\n", d->error);
	mutex_unlock(&d->mutex);
	return len;
}
CONFIGFS_ATTR_RO(rotdisk_, error);

static struct configfs_attribute *rotdisk_attrs[] = {
	&rotdisk_attr_profile,
	&rotdisk_attr_capacity_bytes,
	&rotdisk_attr_power,
	&rotdisk_attr_timing,
	&rotdisk_attr_trace,
	&rotdisk_attr_device,
	&rotdisk_attr_error,
	NULL,
};

/* debugfs: counters */

static int rotdisk_counters_show(struct seq_file *m, void *v)
{
	struct rotdisk_counters counters[ROTDISK_CLASSES];
	struct rotdisk *d = m->private;
	int i;

	spin_lock_bh(&d->lock);
	memcpy(counters, d->counters, sizeof(counters));
	spin_unlock_bh(&d->lock);

	seq_puts(m, "class\trequests\tsectors\thits\tseek_ns\trotation_ns\ttransfer_ns\twait_ns\n");
	for (i = 0; i < ROTDISK_CLASSES; i++) {
		const struct rotdisk_counters *c = &counters[i];

		seq_printf(m, "%s\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\n",
			   rotdisk_class_names[i], c->requests, c->sectors,
			   c->hits, c->seek_ns, c->rotation_ns, c->transfer_ns,
			   c->wait_ns);
	}
	return 0;
}

static int rotdisk_counters_open(struct inode *inode, struct file *file)
{
	return single_open(file, rotdisk_counters_show, inode->i_private);
}

static ssize_t rotdisk_counters_write(struct file *file,
				      const char __user *buf, size_t len,
				      loff_t *pos)
{
	struct rotdisk *d = ((struct seq_file *)file->private_data)->private;

	spin_lock_bh(&d->lock);
	memset(d->counters, 0, sizeof(d->counters));
	spin_unlock_bh(&d->lock);
	return len;
}

static const struct file_operations rotdisk_counters_fops = {
	.owner = THIS_MODULE,
	.open = rotdisk_counters_open,
	.read = seq_read,
	.write = rotdisk_counters_write,
	.llseek = seq_lseek,
	.release = single_release,
};

/* debugfs: trace */

static void *rotdisk_trace_at(struct rotdisk *d, loff_t pos)
{
	if (!pos)
		return SEQ_START_TOKEN;
	if (pos > READ_ONCE(d->records))
		return NULL;
	return rotdisk_get_record(d, pos - 1);
}

static void *rotdisk_trace_start(struct seq_file *m, loff_t *pos)
{
	struct rotdisk *d = m->private;

	mutex_lock(&d->trace_mutex);
	return rotdisk_trace_at(d, *pos);
}

static void *rotdisk_trace_next(struct seq_file *m, void *v, loff_t *pos)
{
	return rotdisk_trace_at(m->private, ++*pos);
}

static void rotdisk_trace_stop(struct seq_file *m, void *v)
{
	struct rotdisk *d = m->private;

	mutex_unlock(&d->trace_mutex);
}

static int rotdisk_trace_show_record(struct seq_file *m, void *v)
{
	const struct rotdisk_record *r = v;

	if (v == SEQ_START_TOKEN) {
		seq_puts(m, "submit_ns\tfinish_ns\tlba\tsectors\top\tmeta\thit\tseek_ns\trotation_ns\ttransfer_ns\n");
		return 0;
	}
	seq_printf(m, "%llu\t%llu\t%llu\t%u\t%c\t%d\t%d\t%llu\t%llu\t%llu\n",
		   r->submit_ns, r->finish_ns, r->lba, r->sectors,
		   "RWF"[r->op], r->meta, r->hit, r->seek_ns, r->rotation_ns,
		   r->transfer_ns);
	return 0;
}

static const struct seq_operations rotdisk_trace_seq_ops = {
	.start = rotdisk_trace_start,
	.next = rotdisk_trace_next,
	.stop = rotdisk_trace_stop,
	.show = rotdisk_trace_show_record,
};

static int rotdisk_trace_open(struct inode *inode, struct file *file)
{
	int err = seq_open(file, &rotdisk_trace_seq_ops);

	if (!err)
		((struct seq_file *)file->private_data)->private =
			inode->i_private;
	return err;
}

/* The first chunk stays: commands in flight may need it. */
static void rotdisk_clear_trace(struct rotdisk *d)
{
	unsigned long index;
	void *page;

	mutex_lock(&d->trace_mutex);
	spin_lock_bh(&d->lock);
	WRITE_ONCE(d->records, 0);
	WRITE_ONCE(d->room, min_t(u32, d->room, ROTDISK_CHUNK));
	d->dropped = 0;
	spin_unlock_bh(&d->lock);
	xa_for_each_start(&d->chunks, index, page, 1) {
		xa_erase(&d->chunks, index);
		rotdisk_free_page(page);
	}
	mutex_unlock(&d->trace_mutex);
}

static ssize_t rotdisk_trace_write(struct file *file, const char __user *buf,
				   size_t len, loff_t *pos)
{
	rotdisk_clear_trace(((struct seq_file *)file->private_data)->private);
	return len;
}

static const struct file_operations rotdisk_trace_fops = {
	.owner = THIS_MODULE,
	.open = rotdisk_trace_open,
	.read = seq_read,
	.write = rotdisk_trace_write,
	.llseek = seq_lseek,
	.release = seq_release,
};

static int rotdisk_trace_dropped_show(struct seq_file *m, void *v)
{
	struct rotdisk *d = m->private;
	u64 dropped;

	spin_lock_bh(&d->lock);
	dropped = d->dropped;
	spin_unlock_bh(&d->lock);
	seq_printf(m, "%llu\n", dropped);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(rotdisk_trace_dropped);

/* debugfs: contents */

/* The page from @pos on that is not all zeroes; it is at @pos then. */
static void *rotdisk_contents_at(struct rotdisk *d, loff_t *pos)
{
	unsigned long index = *pos;
	void *page;

	for (page = xa_find(&d->pages, &index, ULONG_MAX, XA_PRESENT);
	     page && !memchr_inv(page, 0, ROTDISK_PAGE_SIZE);
	     page = xa_find_after(&d->pages, &index, ULONG_MAX, XA_PRESENT))
		cond_resched();
	*pos = index;
	return page;
}

static void *rotdisk_contents_start(struct seq_file *m, loff_t *pos)
{
	struct rotdisk *d = m->private;

	mutex_lock(&d->mutex);
	return rotdisk_contents_at(d, pos);
}

static void *rotdisk_contents_next(struct seq_file *m, void *v, loff_t *pos)
{
	++*pos;
	return rotdisk_contents_at(m->private, pos);
}

static void rotdisk_contents_stop(struct seq_file *m, void *v)
{
	struct rotdisk *d = m->private;

	mutex_unlock(&d->mutex);
}

static int rotdisk_contents_show(struct seq_file *m, void *page)
{
	__le64 index = cpu_to_le64(m->index);

	seq_write(m, &index, sizeof(index));
	seq_write(m, page, ROTDISK_PAGE_SIZE);
	return 0;
}

static const struct seq_operations rotdisk_contents_seq_ops = {
	.start = rotdisk_contents_start,
	.next = rotdisk_contents_next,
	.stop = rotdisk_contents_stop,
	.show = rotdisk_contents_show,
};

/* Opened to be written, the disk is empty, and nobody may use it until the file is closed. */
static int rotdisk_contents_open(struct inode *inode, struct file *file)
{
	struct rotdisk *d = inode->i_private;
	struct seq_file *m;
	int err;

	if (!(file->f_mode & FMODE_WRITE)) {
		err = seq_open(file, &rotdisk_contents_seq_ops);
		if (err)
			return err;
		m = file->private_data;
		m->private = d;
		/* so many at a time */
		m->size = 64 * sizeof(struct rotdisk_content);
		m->buf = kvmalloc(m->size, GFP_KERNEL);
		return m->buf ? 0 : seq_release(inode, file) ?: -ENOMEM;
	}
	mutex_lock(&d->mutex);
	d->error[0] = '\0';
	err = d->config ? rotdisk_claim(d) :
	      rotdisk_fail(d, -EINVAL, "no profile, write one first");
	if (!err) {
		rotdisk_free_pages(&d->pages);
		config_item_get(&d->item);
	}
	mutex_unlock(&d->mutex);
	return err;
}

static int rotdisk_contents_release(struct inode *inode, struct file *file)
{
	struct rotdisk *d = inode->i_private;

	if (!(file->f_mode & FMODE_WRITE))
		return seq_release(inode, file);
	mutex_lock(&d->mutex);
	rotdisk_unclaim(d);
	mutex_unlock(&d->mutex);
	config_item_put(&d->item);
	return 0;
}

/* Whole records only. */
static ssize_t rotdisk_contents_write(struct file *file,
				      const char __user *buf, size_t len,
				      loff_t *pos)
{
	struct rotdisk *d = file_inode(file)->i_private;
	struct rotdisk_content __user *record = (void __user *)buf;
	size_t done;
	int err = 0;

	mutex_lock(&d->mutex);
	for (done = 0; done < len && !err; done += sizeof(*record), record++) {
		void *page = NULL;
		__le64 index;

		if (len - done < sizeof(*record))
			err = rotdisk_fail(d, -EINVAL, "contents: cut off in a record of %zu bytes",
					   sizeof(*record));
		else if (copy_from_user(&index, &record->index, sizeof(index)))
			err = -EFAULT;
		else if (le64_to_cpu(index) >= rotdisk_capacity_pages(d))
			err = rotdisk_fail(d, -EINVAL,
					   "contents: page %llu is beyond the disk's %llu pages",
					   le64_to_cpu(index), rotdisk_capacity_pages(d));
		else
			page = rotdisk_get_page(d, le64_to_cpu(index),
						GFP_KERNEL | __GFP_RETRY_MAYFAIL);
		if (!err && !page)
			err = rotdisk_fail(d, -ENOMEM, "contents: no memory for page %llu",
					   le64_to_cpu(index));
		if (page && copy_from_user(page, record->data, ROTDISK_PAGE_SIZE))
			err = -EFAULT;
	}
	mutex_unlock(&d->mutex);
	return err ?: len;
}

static const struct file_operations rotdisk_contents_fops = {
	.owner = THIS_MODULE,
	.open = rotdisk_contents_open,
	.read = seq_read,
	.write = rotdisk_contents_write,
	.release = rotdisk_contents_release,
};

/* configfs directories */

static void rotdisk_release(struct config_item *item)
{
	struct rotdisk *d = to_rotdisk(item);

	rotdisk_free_pages(&d->pages);
	rotdisk_free_pages(&d->chunks);
	kfree(d->config);
	kvfree(d);
}

static struct configfs_item_operations rotdisk_item_ops = {
	.release = rotdisk_release,
};

static const struct config_item_type rotdisk_type = {
	.ct_owner = THIS_MODULE,
	.ct_item_ops = &rotdisk_item_ops,
	.ct_attrs = rotdisk_attrs,
};

static struct config_item *rotdisk_make_item(struct config_group *group,
					     const char *name)
{
	struct rotdisk *d = kvzalloc(sizeof(*d), GFP_KERNEL);

	if (!d)
		return ERR_PTR(-ENOMEM);
	mutex_init(&d->mutex);
	mutex_init(&d->trace_mutex);
	spin_lock_init(&d->lock);
	xa_init(&d->pages);
	xa_init(&d->chunks);
	rotdisk_init_timer(d, rotdisk_timer);
	d->timing = true;
	config_item_init_type_name(&d->item, name, &rotdisk_type);

	d->debugfs = debugfs_create_dir(name, rotdisk_debugfs);
	debugfs_create_file("counters", 0600, d->debugfs, d,
			    &rotdisk_counters_fops);
	debugfs_create_file("trace", 0600, d->debugfs, d, &rotdisk_trace_fops);
	debugfs_create_file("trace_dropped", 0400, d->debugfs, d,
			    &rotdisk_trace_dropped_fops);
	debugfs_create_file("contents", 0600, d->debugfs, d,
			    &rotdisk_contents_fops);
	return &d->item;
}

/* A directory can always be removed, so the disk may be open: pull it out. */
static void rotdisk_drop_item(struct config_group *group,
			      struct config_item *item)
{
	struct rotdisk *d = to_rotdisk(item);

	debugfs_remove(d->debugfs);
	mutex_lock(&d->mutex);
	if (d->disk)
		rotdisk_power_off(d);
	mutex_unlock(&d->mutex);
	config_item_put(item);
}

static struct configfs_group_operations rotdisk_group_ops = {
	.make_item = rotdisk_make_item,
	.drop_item = rotdisk_drop_item,
};

static const struct config_item_type rotdisk_group_type = {
	.ct_owner = THIS_MODULE,
	.ct_group_ops = &rotdisk_group_ops,
};

static struct configfs_subsystem rotdisk_subsystem = {
	.su_group = {
		.cg_item = {
			.ci_namebuf = "rotdisk",
			.ci_type = &rotdisk_group_type,
		},
	},
};

/* To run without what was asked for would measure another machine. */
static int __init rotdisk_init_store(void)
{
	phys_addr_t start, size;

	if (!store || !*store)
		return 0;
	if (!rotdisk_find_store(&start, &size)) {
		pr_err("no memory is reserved as '%s', boot with reserve_mem=SIZE:4096:%s\n",
		       store, store);
		return -ENOENT;
	}
	/* It points to nothing outside of itself; to look through it touches all of it. */
	kmemleak_ignore_phys(start);
	rotdisk_store.unused = phys_to_virt(ALIGN(start, ROTDISK_PAGE_SIZE));
	rotdisk_store.end = phys_to_virt(ALIGN_DOWN(start + size, ROTDISK_PAGE_SIZE));
	return 0;
}

static int __init rotdisk_init(void)
{
	int err = rotdisk_init_store();

	if (err)
		return err;
	rotdisk_debugfs = debugfs_create_dir("rotdisk", NULL);
	config_group_init(&rotdisk_subsystem.su_group);
	mutex_init(&rotdisk_subsystem.su_mutex);
	err = configfs_register_subsystem(&rotdisk_subsystem);
	if (err)
		debugfs_remove(rotdisk_debugfs);
	return err;
}

static void __exit rotdisk_exit(void)
{
	configfs_unregister_subsystem(&rotdisk_subsystem);
	debugfs_remove(rotdisk_debugfs);
}

module_init(rotdisk_init);
module_exit(rotdisk_exit);

MODULE_DESCRIPTION("Block devices in memory with the timing of a real disk");
MODULE_LICENSE("GPL");
