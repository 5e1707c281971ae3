// SPDX-License-Identifier: GPL-2.0
/*
 * Parses streams of sends, versions 1 to 3. Of a command only the head, the heads of its attributes
 * and a few values are looked at; the rest is skipped.
 *
 * A stream that begins again is recognized by its first command, which holds the UUID and the
 * generation of the subvolume, so file data cannot contain it by chance. The subvolume is read-only,
 * so the kernel writes the same bytes again. They are compared by the checksums of their commands,
 * and dropped up to where the stream had been.
 */
#include "stream.h"

#define INLINE_MOST 4096		/* bytes of data; those in an extent are sent in larger pieces */

int command_parse(struct command *command, const u8 *p, size_t n, u32 version)
{
	u64 at = COMMAND_HEAD;

	memset(command, 0, sizeof(*command));
	command->size = COMMAND_HEAD + (u64)get_u32(p);
	command->number = get_u16(p + 4);
	n = min_u64(n, command->size);
	while (at + 2 <= n) {
		u32 type = get_u16(p + at), length;
		/* data are the last attribute, and have no length: they take the rest */
		int rest = version > 1 && type == A_DATA;

		if (!rest && at + 4 > n)
			break;
		length = rest ? command->size - at - 2 : get_u16(p + at + 2);
		at += rest ? 2 : 4;
		if (type >= A_NUMBER || command->known & BIT(type)) {
			command->known = 0;
			return 0;
		}
		if (type == A_DATA)
			command->attribute[type].n = length;
		if (length > n - at)
			return 0;
		command->known |= BIT(type);
		command->attribute[type] = (struct text) { p + at, length };
		at += length;
	}
	return at == command->size;
}

u32 stream_version(const u8 *p)
{
	u32 version = get_u32(p + 13);

	return memcmp(p, "btrfs-stream", 13) || version > 3 ? 0 : version;
}

/* A subvolume begins with this command. */
static void subvolume_begins(struct stream *stream, const struct command *command, const u8 *p)
{
	const struct text *uuid = &command->attribute[A_UUID];
	const struct text *parent = &command->attribute[A_CLONE_UUID];
	size_t n = min_u64(command->size, sizeof(stream->head) - STREAM_HEAD);

	/* not right behind a stream header */
	if (stream->since != stream->nr_header)
		stream->since = stream->nr_header = 0;
	memcpy(stream->head + stream->nr_header, p, n);
	stream->nr_head = stream->nr_header + n;
	stream->sum = 0;
	stream->told = (struct told) { .begun = stream->told.begun + 1,
				       .snapshot = command->number == C_SNAPSHOT };
	if (uuid->n == sizeof(stream->told.uuid))
		memcpy(stream->told.uuid, uuid->p, uuid->n);
	if (parent->n == sizeof(stream->told.parent_uuid))
		memcpy(stream->told.parent_uuid, parent->p, parent->n);
}

/* Return: the number in an attribute, or 0. */
static u64 number_in(const struct command *command, u16 attribute)
{
	const struct text *text = &command->attribute[attribute];

	return text->n == 8 ? get_u64(text->p) : 0;
}

/* Return: bytes of file data that a command writes, clones or only announces. */
static u64 data_of(const struct command *command)
{
	switch (command->number) {
	case C_WRITE:
		return command->attribute[A_DATA].n;
	case C_CLONE:
		return number_in(command, A_CLONE_LEN);
	case C_UPDATE_EXTENT:
		return number_in(command, A_SIZE);
	case C_ENCODED_WRITE:
		return number_in(command, A_UNENCODED_FILE_LEN);
	}
	return 0;
}

static void command_begins(struct stream *stream, const u8 *p, size_t n)
{
	struct told *told = &stream->told;
	struct command command;
	const struct text *path;
	u64 data;

	command_parse(&command, p, min_u64(n, COMMAND_MOST), stream->version);
	if (command.number == C_SUBVOL || command.number == C_SNAPSHOT)
		subvolume_begins(stream, &command, p);
	stream->command = command.number;
	stream->skip = command.size;
	/* each head holds a checksum of its command, so this is a checksum of all bytes */
	stream->sum = (stream->sum ^ get_u64(p) ^ get_u16(p + 8)) * 0x9e3779b97f4a7c15;
	stream->sum ^= stream->sum >> 32;
	data = data_of(&command);
	told->data += data;
	told->has_extents |= data > INLINE_MOST;
	if (command.number >= C_MKFILE && command.number <= C_SYMLINK &&
	    command.number != C_MKDIR && number_in(&command, A_INO))
		told->ino = number_in(&command, A_INO);
	path = &command.attribute[command.number == C_RENAME ? A_PATH_TO : A_PATH];
	if (path->n && path->n < sizeof(stream->path)) {
		memcpy(stream->path, path->p, path->n);
		stream->path[path->n] = 0;
	}
	stream->offset = number_in(&command, A_FILE_OFFSET) + data;
}

/* Is the stream header written again, right behind itself? */
static int is_header_again(const struct stream *stream, const u8 *p, size_t n)
{
	return stream->in_stream && stream->since == stream->nr_header && n >= STREAM_HEAD &&
		!memcmp(p, stream->head, STREAM_HEAD);
}

/* A stream header or a command begins. Return: 0 if more bytes are needed, or the stream is lost. */
static int begins(struct stream *stream, const u8 *p, size_t n)
{
	if (!stream->in_stream) {
		if (n < STREAM_HEAD)
			return 0;
		stream->version = stream_version(p);
		stream->lost = !stream->version;
		stream->skip = stream->nr_header = STREAM_HEAD;
		stream->since = stream->nr_head = 0;
		stream->in_stream = 1;
		stream->command = 0;
		memcpy(stream->head, p, STREAM_HEAD);
		return !stream->lost;
	}
	if (is_header_again(stream, p, n) || n < COMMAND_HEAD ||
	    n < min_u64(COMMAND_HEAD + (u64)get_u32(p), COMMAND_MOST))
		return 0;
	command_begins(stream, p, n);
	return 1;
}

size_t stream_feed(struct stream *stream, const u8 *p, size_t n)
{
	size_t at = 0;

	while (at < n && !stream->lost && (stream->skip || begins(stream, p + at, n - at))) {
		int is_first = stream->since < stream->nr_head;
		size_t part = min_u64(n - at, is_first ? stream->nr_head - stream->since :
				      stream->skip);

		at += part;
		stream->since += part;
		stream->skip -= part;
		/* the kernel writes nothing again once it has written the end */
		if (!stream->skip && stream->command == C_END) {
			stream->in_stream = stream->nr_head = 0;
			break;
		}
		if (is_first)
			break;
	}
	return at;
}

/* Return: whether both are at the same byte of the same subvolume, after the same commands. */
static int is_same(const struct stream *a, const struct stream *b)
{
	return a->sum == b->sum && a->since == b->since && a->skip == b->skip;
}

/* Return: how many bytes at the end may be the beginning of the subvolume's first command. */
static size_t tail(const struct stream *stream, const u8 *p, size_t n)
{
	size_t at = n < stream->nr_head ? 0 : n - stream->nr_head + 1;

	while (at < n && memcmp(p + at, stream->head, n - at))
		at++;
	/* in front of them may be stream headers of attempts that wrote nothing more */
	while (stream->nr_header && at < n && at >= STREAM_HEAD && n - at < 4096 &&
	       !memcmp(p + at - STREAM_HEAD, stream->head, STREAM_HEAD))
		at -= STREAM_HEAD;
	return n - at;
}

int restart_look(struct restart *restart, const u8 *p, size_t n, size_t *pass, size_t *drop)
{
	struct stream *stream = &restart->stream, *retold = &restart->retold;
	const u8 *head = NULL;

	*pass = *drop = 0;
	if (!stream->lost && stream->nr_head) {
		head = memmem(p, n, stream->head, stream->nr_head);
		n -= head ? 0 : tail(stream, p, n);
	}
	if (head && !restart->left) {
		struct stream before = *stream;
		size_t there = stream_feed(&before, p, head - p);

		/* the subvolume has ended in front of it: it is sent twice */
		if (!before.nr_head) {
			*stream = before;
			*pass = there;
			return 0;
		}
	}
	if (head) {
		/* a partial command in front of it will be written again as well */
		*drop = head - p + stream->nr_head;
		restart->times++;
		restart->left = stream->since - stream->nr_head;
		*retold = (struct stream) { .version = stream->version,
					    .in_stream = !stream->nr_header };
		stream_feed(retold, head, stream->nr_head);
	} else if (restart->left) {
		n = min_u64(n, restart->left);
		*drop = stream_feed(retold, p, n);
		if (*drop < n && (retold->lost || n == restart->left))
			return -1;
		restart->left -= *drop;
	} else {
		if (is_header_again(stream, p, n)) {
			*drop = STREAM_HEAD;
			restart->times++;
		} else {
			*pass = stream_feed(stream, p, n);
		}
		if (stream->lost)
			*pass = n;
		return 0;
	}
	return restart->left || is_same(stream, retold) ? 0 : -1;
}
