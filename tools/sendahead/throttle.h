/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Leaves time of the disk to other processes.
 */
#ifndef SENDAHEAD_THROTTLE_H
#define SENDAHEAD_THROTTLE_H

#include "disk.h"
#include "shared.h"

/**
 * throttle_init() - begin to watch the disks of a file system
 * @disk: the file system
 * @shared: tells which process runs btrfs, whose reads are not those of others
 *
 * If what each process reads is not known, as of another PID namespace, nothing is ever held back.
 */
void throttle_init(const struct disk *disk, struct shared *shared);

/**
 * throttle_enter() - announce a read, and wait while others use the disk
 * @requests: limit of the requests that it makes
 */
void throttle_enter(u32 requests);

/* Tell that the read is complete. */
void throttle_leave(void);

/* Return: sectors of these disks that other processes have read so far. */
int64_t throttle_reads(void);

#endif
