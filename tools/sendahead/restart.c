// SPDX-License-Identifier: GPL-2.0
/*
 * Recognizes a stream that begins again in its middle. The first command of a stream holds the
 * UUID and the generation of the subvolume, so file data cannot contain it by chance. The subvolume
 * is read-only, so the kernel writes the same bytes again. They are compared by the checksums of
 * their commands, and dropped up to where the stream had been.
 */
#include "restart.h"

/* Return: how many bytes at the end may be the beginning of the subvolume's first command. */
static size_t tail(const struct stream *stream, const u8 *p, size_t n)
{
	size_t at = n < stream->nr_head ? 0 : n - stream->nr_head + 1;

	while (at < n && memcmp(p + at, stream->head, n - at))
		at++;
	/* in front of them may be stream headers of attempts that wrote nothing more */
	while (stream->has_header && at < n && at >= STREAM_HEAD && n - at < 4096 &&
	       !memcmp(p + at - STREAM_HEAD, stream->head, STREAM_HEAD))
		at -= STREAM_HEAD;
	return n - at;
}

/* Return: whether the bytes are a valid part of a stream. */
static int feed_all(struct stream *stream, const u8 *p, size_t n)
{
	size_t at, done = 1;

	for (at = 0; at < n && done; at += done)
		done = stream_feed(stream, p + at, n - at);
	return done > 0;
}

int restart_look(struct restart *restart, const u8 *p, size_t n, size_t *pass, size_t *drop)
{
	struct stream *stream = &restart->stream;
	const u8 *head = NULL;

	*pass = *drop = 0;
	if (!restart->lost && stream_has_begun(stream)) {
		head = memmem(p, n, stream->head, stream->nr_head);
		n -= head ? 0 : tail(stream, p, n);
	}
	if (head) {
		/* a partial command in front of it will be written again as well */
		*drop = head - p + stream->nr_head;
		restart->times++;
		restart->left = stream->since - stream->nr_head;
		stream_init_again(&restart->retold, stream);
		feed_all(&restart->retold, head, stream->nr_head);
	} else if (restart->left) {
		*drop = min_u64(n, restart->left);
		restart->left -= *drop;
		if (!feed_all(&restart->retold, p, *drop))
			return -1;
	} else {
		if (!restart->lost)
			*pass = stream_feed(stream, p, n);
		restart->lost = !*pass && n;
		if (restart->lost)
			*pass = n;
		return 0;
	}
	return restart->left || stream_is_same(stream, &restart->retold) ? 0 : -1;
}
