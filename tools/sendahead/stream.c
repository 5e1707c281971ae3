// SPDX-License-Identifier: GPL-2.0
/*
 * The stream of a send, followed to know how far it is: versions 1 to 3. Only heads
 * of commands and attributes and a few numbers are looked at, the rest is skipped.
 */
#include "stream.h"

enum { STREAM_HEADER, COMMAND, ATTRIBUTE, LENGTH, VALUE };

static void expect(struct stream *stream, int state, u32 need)
{
	stream->state = state;
	stream->need = need;
	stream->have = 0;
}

void stream_init(struct stream *stream)
{
	memset(stream, 0, sizeof(*stream));
	expect(stream, STREAM_HEADER, STREAM_HEAD);
}

static void command_begins(struct stream *stream)
{
	struct told *told = &stream->told;

	stream->data = 0;
	if (stream->command == C_SUBVOL || stream->command == C_SNAPSHOT)
		*told = (struct told){ .begun = told->begun,
				       .snapshot = stream->command == C_SNAPSHOT };
}

static void command_ends(struct stream *stream)
{
	stream->told.data += stream->data;
	if (stream->command == C_SUBVOL || stream->command == C_SNAPSHOT)
		stream->told.begun++;
	if (stream->command == C_END)
		expect(stream, STREAM_HEADER, STREAM_HEAD);
	else
		expect(stream, COMMAND, COMMAND_HEAD);
}

static void next_attribute(struct stream *stream)
{
	if (stream->left)
		expect(stream, ATTRIBUTE, 2);
	else
		command_ends(stream);
}

/* Whether the value of the attribute is needed, of which the length tells nothing. */
static int is_wanted(const struct stream *stream)
{
	u16 command = stream->command;

	switch (stream->attribute) {
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

/* The head of an attribute is known, with the length of its value. */
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

/* What was to be collected is there. */
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
			/* the last one: its length is what is left */
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

int stream_feed(struct stream *stream, const u8 *p, size_t n)
{
	while (n) {
		size_t part = min_u64(n, stream->skip);

		stream->skip -= part;
		p += part;
		n -= part;
		if (!n)
			break;
		part = min_u64(n, stream->need - stream->have);
		memcpy(stream->part + stream->have, p, part);
		stream->have += part;
		p += part;
		n -= part;
		/* what is wrong stays as it is, and is found wrong the next time as well */
		if (stream->have == stream->need && step(stream))
			return -1;
	}
	return 0;
}

u64 stream_pass(struct stream *stream)
{
	u64 skip = stream->skip;

	stream->skip = 0;
	return skip;
}
