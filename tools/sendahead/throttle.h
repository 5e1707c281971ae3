/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Room on the disk for whoever else reads or writes there.
 */
#ifndef SENDAHEAD_THROTTLE_H
#define SENDAHEAD_THROTTLE_H

#include "disk.h"
#include "shared.h"

/**
 * throttle_init() - watch the disks
 * @disk: the file system
 * @shared: says which process sends or receives: what it reads is no one else's
 * @for_receive: it receives: nor is what is written, or read by the kernel's own threads
 *
 * Without accounting in the kernel of what each process reads nothing is ever held back.
 */
void throttle_init(const struct disk *disk, struct shared *shared, int for_receive);

/**
 * throttle_enter() - ask to have something read, and wait if others want the disk
 * @order: where that lies, in terms of all that is asked for now
 * @requests: at most so many of the disk
 */
void throttle_enter(u64 order, u32 requests);

/* It has been read. */
void throttle_leave(void);

/* Bytes that the others of our pipeline have read and written, of any disk; 0: not known. */
int64_t throttle_pipeline(void);

/* Sectors that all but us have read of the disks so far. */
int64_t throttle_reads(void);

/* How many requests to ask for at once at most. */
u32 throttle_most(void);

#endif
