/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A stream that begins once more in its middle: after a signal has ended a write into a full pipe,
 * the kernel starts the call again that sends a subvolume.
 */
#ifndef SENDAHEAD_RESTART_H
#define SENDAHEAD_RESTART_H

#include "stream.h"

struct restart {
	struct stream stream;	/* as it is handed on */
	int lost;		/* it is none that is known here */
	struct stream retold;	/* what comes again */
	u64 left;		/* bytes of it that were handed on before */
	u32 times;		/* the stream has begun again */
};

/**
 * restart_look() - look at the next bytes of a stream
 * @restart: begins with stream_init() of its stream, and zeros
 * @p: the bytes
 * @n: how many
 * @pass: set to how many of them are to be handed on,
 * @drop: and how many behind these are to be left out. What is left is to be given once more,
 *	with more bytes.
 *
 * Return: 0, or -1 if what comes again is not what was handed on before
 */
int restart_look(struct restart *restart, const u8 *p, size_t n, size_t *pass, size_t *drop);

#endif
