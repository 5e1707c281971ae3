// SPDX-License-Identifier: GPL-2.0
/*
 * Parses the stream of a send, versions 1 to 3. Only the heads of commands and attributes and a few
 * values are looked at; the rest is skipped.
 */
#include "stream.h"

#define INLINE_MOST 4096		/* bytes of data; those in an extent are sent in larger pieces */

enum { STREAM_HEADER, COMMAND, ATTRIBUTE, LENGTH, VALUE };

static void expect(struct stream *stream, int state, u32 need)
{
	stream->state = state;
	stream->need = need;
	stream->have = 0;
}

/* The stream of a subvolume begins here, or, if @part, with so many collected bytes. */
static void begins(struct stream *stream, u32 part)
{
	stream->has_header = !part;
	stream->since = stream->nr_head = part;
	memcpy(stream->head, stream->part, part);
	stream->all_head = STREAM_HEAD + COMMAND_HEAD;
	stream->sum = 0;
}

void stream_init(struct stream *stream)
{
	memset(stream, 0, sizeof(*stream));
	begins(stream, 0);
	expect(stream, STREAM_HEADER, STREAM_HEAD);
}

void stream_init_again(struct stream *again, const struct stream *stream)
{
	stream_init(again);
	again->version = stream->version;
	if (!stream->has_header)
		expect(again, COMMAND, COMMAND_HEAD);
}

int stream_is_same(const struct stream *a, const struct stream *b)
{
	return a->sum == b->sum && a->since == b->since && a->state == b->state &&
		a->have == b->have && !memcmp(a->part, b->part, a->have) && a->skip == b->skip;
}

static void command_begins(struct stream *stream)
{
	struct told *told = &stream->told;
	int starts = stream->command == C_SUBVOL || stream->command == C_SNAPSHOT;

	stream->data = stream->offset = 0;
	if (starts && stream->nr_head != STREAM_HEAD + COMMAND_HEAD)
		begins(stream, COMMAND_HEAD);
	if (starts)
		stream->all_head = min_u64(stream->nr_head + (u64)stream->left,
					   sizeof(stream->head));
	/* each head holds a checksum of its command, so this is a checksum of all bytes */
	stream->sum = (stream->sum ^ get_u64(stream->part) ^ get_u16(stream->part + 8)) *
		0x9e3779b97f4a7c15;
	stream->sum ^= stream->sum >> 32;
	if (starts)
		*told = (struct told){ .begun = told->begun,
				       .snapshot = stream->command == C_SNAPSHOT };
}

static void command_ends(struct stream *stream)
{
	stream->told.data += stream->data;
	stream->told.has_extents |= stream->data > INLINE_MOST;
	stream->offset += stream->data;
	if (stream->command == C_SUBVOL || stream->command == C_SNAPSHOT)
		stream->told.begun++;
	expect(stream, COMMAND, COMMAND_HEAD);
	if (stream->command == C_END) {
		expect(stream, STREAM_HEADER, STREAM_HEAD);
		begins(stream, 0);
	}
}

static void next_attribute(struct stream *stream)
{
	if (stream->left)
		expect(stream, ATTRIBUTE, 2);
	else
		command_ends(stream);
}

/* Is the value of this attribute needed? */
static int is_wanted(const struct stream *stream)
{
	u16 command = stream->command;

	switch (stream->attribute) {
	case A_PATH:
	case A_PATH_TO:
		return stream->length && stream->length < sizeof(stream->path);
	case A_FILE_OFFSET:
		return stream->length == 8;
	case A_UUID:
	case A_CLONE_UUID:
		return stream->length == 16 && (command == C_SUBVOL || command == C_SNAPSHOT);
	case A_INO:
		return stream->length == 8 && command >= C_MKFILE && command <= C_SYMLINK &&
			command != C_MKDIR;
	case A_SIZE:
		return stream->length == 8 && command == C_UPDATE_EXTENT;
	case A_CLONE_LEN:
		return stream->length == 8 && command == C_CLONE;
	case A_UNENCODED_FILE_LEN:
		return stream->length == 8 && command == C_ENCODED_WRITE;
	}
	return 0;
}

static void take_value(struct stream *stream)
{
	struct told *told = &stream->told;

	switch (stream->attribute) {
	case A_PATH:
	case A_PATH_TO:
		memcpy(stream->path, stream->part, stream->length);
		stream->path[stream->length] = 0;
		break;
	case A_FILE_OFFSET:
		stream->offset = get_u64(stream->part);
		break;
	case A_UUID:
		memcpy(told->uuid, stream->part, sizeof(told->uuid));
		break;
	case A_CLONE_UUID:
		memcpy(told->parent_uuid, stream->part, sizeof(told->parent_uuid));
		break;
	case A_INO:
		told->ino = get_u64(stream->part);
		break;
	default:
		stream->data = get_u64(stream->part);
	}
}

/* The head of an attribute, with the length of its value, was parsed. */
static int attribute_begins(struct stream *stream)
{
	if (stream->length > stream->left)
		return -1;
	stream->left -= stream->length;
	if (stream->attribute == A_DATA && stream->command == C_WRITE)
		stream->data = stream->length;
	if (is_wanted(stream)) {
		expect(stream, VALUE, stream->length);
	} else {
		stream->skip = stream->length;
		next_attribute(stream);
	}
	return 0;
}

/* All needed bytes were collected: parse them. Return: 0, or -1 if they make no sense. */
static int step(struct stream *stream)
{
	switch (stream->state) {
	case STREAM_HEADER:
		stream->version = get_u32(stream->part + 13);
		if (memcmp(stream->part, "btrfs-stream", 13) || !stream->version ||
		    stream->version > 3)
			return -1;
		expect(stream, COMMAND, COMMAND_HEAD);
		return 0;
	case COMMAND:
		stream->left = get_u32(stream->part);
		stream->command = get_u16(stream->part + 4);
		command_begins(stream);
		next_attribute(stream);
		return 0;
	case ATTRIBUTE:
		if (stream->left < 2)
			return -1;
		stream->left -= 2;
		stream->attribute = get_u16(stream->part);
		if (stream->version > 1 && stream->attribute == A_DATA) {
			/* the last attribute has no length: it takes the rest of the command */
			stream->length = stream->left;
			return attribute_begins(stream);
		}
		expect(stream, LENGTH, 2);
		return 0;
	case LENGTH:
		if (stream->left < 2)
			return -1;
		stream->left -= 2;
		stream->length = get_u16(stream->part);
		return attribute_begins(stream);
	case VALUE:
		take_value(stream);
		next_attribute(stream);
		return 0;
	}
	return -1;
}

/* Count parsed bytes. Return: whether they complete the beginning of a subvolume. */
static int done(struct stream *stream, const u8 *p, size_t n)
{
	size_t part = min_u64(n, stream->all_head - stream->nr_head);

	memcpy(stream->head + stream->nr_head, p, part);
	stream->nr_head += part;
	stream->since += n;
	return part && stream_has_begun(stream);
}

size_t stream_feed(struct stream *stream, const u8 *p, size_t n)
{
	size_t at = 0;

	while (at < n) {
		size_t skip = min_u64(n - at, stream->skip);
		size_t part = min_u64(n - at - skip, stream->need - stream->have);

		stream->skip -= skip;
		memcpy(stream->part + stream->have, p + at + skip, part);
		stream->have += part;
		at += skip + part;
		if (done(stream, p + at - skip - part, skip + part))
			n = at;
		/* after an error the state stays as it is, so the next call fails as well */
		if (stream->have == stream->need && step(stream))
			return 0;
	}
	return n;
}
