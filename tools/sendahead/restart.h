/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Recognizes a stream that begins again in its middle. When a signal interrupts send's write into a
 * full pipe, the kernel restarts the whole ioctl, which sends the subvolume from its beginning.
 */
#ifndef SENDAHEAD_RESTART_H
#define SENDAHEAD_RESTART_H

#include "stream.h"

struct restart {
	struct stream stream;	/* what was handed on */
	int lost;		/* the stream cannot be parsed: all is handed on */
	struct stream retold;	/* what is written again */
	u64 left;		/* bytes still to be written again */
	u32 times;		/* how often the stream has begun again */
};

/**
 * restart_look() - look at the next bytes of a stream
 * @restart: zeros at first, but for stream_init() of its stream
 * @p: the bytes
 * @n: number of bytes
 * @pass: set to how many of them to hand on
 * @drop: set to how many after these to drop. The caller passes the rest again, with more bytes.
 *
 * Return: 0, or -1 if the stream that begins again differs from what was handed on
 */
int restart_look(struct restart *restart, const u8 *p, size_t n, size_t *pass, size_t *drop);

#endif
