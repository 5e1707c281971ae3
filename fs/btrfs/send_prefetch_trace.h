/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM btrfs_send_prefetch

#if !defined(BTRFS_SEND_PREFETCH_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define BTRFS_SEND_PREFETCH_TRACE_H

#include <linux/tracepoint.h>
#include <linux/uuid.h>

/* The window was filled up: what it holds, and what of it is to be read. */
TRACE_EVENT(btrfs_send_prefetch_fill,
	    TP_PROTO(const u8 *fsid, u64 root, u64 parent, u32 blocks, u32 max_blocks,
		     u32 queued),

	    TP_ARGS(fsid, root, parent, blocks, max_blocks, queued),

	    TP_STRUCT__entry(__array(u8, fsid, UUID_SIZE)
			     __field(u64, root)
			     __field(u64, parent)
			     __field(u32, blocks)
			     __field(u32, max_blocks)
			     __field(u32, queued)
	    ),

	    TP_fast_assign(memcpy(__entry->fsid, fsid, UUID_SIZE);
			   __entry->root = root;
			   __entry->parent = parent;
			   __entry->blocks = blocks;
			   __entry->max_blocks = max_blocks;
			   __entry->queued = queued;
	    ),

	    TP_printk("%pU: root=%llu parent=%llu blocks=%u max_blocks=%u queued=%u",
		      __entry->fsid, __entry->root, __entry->parent,
		      __entry->blocks, __entry->max_blocks, __entry->queued)
);

/* A part of the window was submitted. */
TRACE_EVENT(btrfs_send_prefetch_submit,
	    TP_PROTO(const u8 *fsid, u64 root, u32 submitted, u32 left, u64 bytenr,
		     bool late),

	    TP_ARGS(fsid, root, submitted, left, bytenr, late),

	    TP_STRUCT__entry(__array(u8, fsid, UUID_SIZE)
			     __field(u64, root)
			     __field(u32, submitted)
			     __field(u32, left)
			     __field(u64, bytenr)
			     __field(bool, late)
	    ),

	    TP_fast_assign(memcpy(__entry->fsid, fsid, UUID_SIZE);
			   __entry->root = root;
			   __entry->submitted = submitted;
			   __entry->left = left;
			   __entry->bytenr = bytenr;
			   __entry->late = late;
	    ),

	    TP_printk("%pU: root=%llu submitted=%u left=%u bytenr=%llu late=%d",
		      __entry->fsid, __entry->root, __entry->submitted,
		      __entry->left, __entry->bytenr, __entry->late)
);

DECLARE_EVENT_CLASS(btrfs_send_prefetch_block,
		    TP_PROTO(const u8 *fsid, u64 root, u64 bytenr, u64 generation, u8 level),

		    TP_ARGS(fsid, root, bytenr, generation, level),

		    TP_STRUCT__entry(__array(u8, fsid, UUID_SIZE)
				     __field(u64, root)
				     __field(u64, bytenr)
				     __field(u64, generation)
				     __field(u8, level)
		    ),

		    TP_fast_assign(memcpy(__entry->fsid, fsid, UUID_SIZE);
				   __entry->root = root;
				   __entry->bytenr = bytenr;
				   __entry->generation = generation;
				   __entry->level = level;
		    ),

		    TP_printk("%pU: root=%llu bytenr=%llu generation=%llu level=%u",
			      __entry->fsid, __entry->root, __entry->bytenr,
			      __entry->generation, __entry->level)
);

/* The walk needs a block of the window whose read was not submitted yet. */
DEFINE_EVENT(btrfs_send_prefetch_block, btrfs_send_prefetch_caught_up,
	     TP_PROTO(const u8 *fsid, u64 root, u64 bytenr, u64 generation, u8 level),

	     TP_ARGS(fsid, root, bytenr, generation, level)
);

/* The walk needs a block whose read is in flight. */
DEFINE_EVENT(btrfs_send_prefetch_block, btrfs_send_prefetch_late,
	     TP_PROTO(const u8 *fsid, u64 root, u64 bytenr, u64 generation, u8 level),

	     TP_ARGS(fsid, root, bytenr, generation, level)
);

/* The walk needs a block that could not be read ahead. */
DEFINE_EVENT(btrfs_send_prefetch_block, btrfs_send_prefetch_lost,
	     TP_PROTO(const u8 *fsid, u64 root, u64 bytenr, u64 generation, u8 level),

	     TP_ARGS(fsid, root, bytenr, generation, level)
);

/* A block was read ahead and is dropped before the walk has reached it. */
DEFINE_EVENT(btrfs_send_prefetch_block, btrfs_send_prefetch_unused,
	     TP_PROTO(const u8 *fsid, u64 root, u64 bytenr, u64 generation, u8 level),

	     TP_ARGS(fsid, root, bytenr, generation, level)
);

/* File data was added to its window. */
TRACE_EVENT(btrfs_send_prefetch_data,
	    TP_PROTO(const u8 *fsid, u64 root, u32 added, u32 queued, u64 bytes, u64 limit),

	    TP_ARGS(fsid, root, added, queued, bytes, limit),

	    TP_STRUCT__entry(__array(u8, fsid, UUID_SIZE)
			     __field(u64, root)
			     __field(u32, added)
			     __field(u32, queued)
			     __field(u64, bytes)
			     __field(u64, limit)
	    ),

	    TP_fast_assign(memcpy(__entry->fsid, fsid, UUID_SIZE);
			   __entry->root = root;
			   __entry->added = added;
			   __entry->queued = queued;
			   __entry->bytes = bytes;
			   __entry->limit = limit;
	    ),

	    TP_printk("%pU: root=%llu added=%u queued=%u bytes=%llu limit=%llu",
		      __entry->fsid, __entry->root, __entry->added,
		      __entry->queued, __entry->bytes, __entry->limit)
);

/* The window grows because the walk had to wait, or shrinks. */
TRACE_EVENT(btrfs_send_prefetch_resize,
	    TP_PROTO(const u8 *fsid, u64 root, u32 old_blocks, u32 new_blocks, u32 late),

	    TP_ARGS(fsid, root, old_blocks, new_blocks, late),

	    TP_STRUCT__entry(__array(u8, fsid, UUID_SIZE)
			     __field(u64, root)
			     __field(u32, old_blocks)
			     __field(u32, new_blocks)
			     __field(u32, late)
	    ),

	    TP_fast_assign(memcpy(__entry->fsid, fsid, UUID_SIZE);
			   __entry->root = root;
			   __entry->old_blocks = old_blocks;
			   __entry->new_blocks = new_blocks;
			   __entry->late = late;
	    ),

	    TP_printk("%pU: root=%llu old_blocks=%u new_blocks=%u late=%u",
		      __entry->fsid, __entry->root, __entry->old_blocks,
		      __entry->new_blocks, __entry->late)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE send_prefetch_trace
#include <trace/define_trace.h>
