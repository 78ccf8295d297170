/* SPDX-License-Identifier: MIT */
#ifndef MT_WIRE_STREAM_H
#define MT_WIRE_STREAM_H

/*
 * The event stream of recording mode: buffers in the state file's STREAM region while the program
 * runs, blocks of a recording (.mtr) afterwards. docs/formats/mtr.md is the specification.
 * Little-endian, fixed width.
 */

#include "core/cc.h"
#include "core/hash.h"

#define MT_STREAM_MAGIC "MEMTRREC" /* 8 bytes, no NUL in the file */
enum {
	MT_STREAM_VERSION_MAJOR = 1,
	MT_STREAM_VERSION_MINOR = 0,
	MT_STREAM_BYTE_ORDER = 0x01020304,
	MT_STREAM_BLOCK_MAGIC = 0x4252544d, /* "MTRB" */
	MT_STREAM_BUFFER_BYTES = 65536,
	MT_STREAM_HEAD_BYTES = 64,
	MT_STREAM_CODE_BYTES = MT_STREAM_BUFFER_BYTES - MT_STREAM_HEAD_BYTES,
	MT_STREAM_EVENT_MAX = 48, /* no event with all that goes before it is longer */
	MT_STREAM_NEAR_SLOTS = 128,
	MT_STREAM_FAR_SLOTS = 1024,
};

/* First byte of an event. */
enum mt_stream_code {
	MT_CODE_KNOWN = 0,      /* 0..127: allocation whose cell and size are in this near slot */
	MT_CODE_FREE = 128,     /* 128..223: free of the thread's block that far back, 0..95 */
	MT_CODE_FREE2 = 224,    /* 224..247: and one byte: 96..6239 back */
	MT_CODE_KNOWN2 = 248,   /* 248..251: and one byte: allocation of this far slot */
	MT_CODE_FREE3 = 252,    /* and two bytes: 6240..71775 back */
	MT_CODE_FREE_FAR = 253, /* and a signed varint: so much after the last free of this code or
				   of FREE3 */
	MT_CODE_ESCAPE = 254,   /* and enum mt_stream_escape */
	MT_CODE_ALLOC = 255, /* allocation: varint cell (0: the highest so far + 1), varint size */
};
enum {
	MT_STREAM_NEAR = 96,
	MT_STREAM_MIDDLE = MT_STREAM_NEAR + 24 * 256,
	MT_STREAM_FAR = MT_STREAM_MIDDLE + 65536,
};

enum mt_stream_escape {
	MT_ESCAPE_FREE_OTHER = 2, /* varint thread, varint sequence: another thread's block */
	MT_ESCAPE_SEQUENCE = 3,   /* varint: sequence of the last allocation before the next one */
	MT_ESCAPE_TIME = 4,       /* varint: time units since the last one of the buffer */
	MT_ESCAPE_REALLOC = 5,    /* the next allocation is what became of the block freed last */
	MT_ESCAPE_ALIGN = 6,      /* varint: the next allocation is aligned to 2^it */
	MT_ESCAPE_LARGE = 7,      /* varint cell, varint size: does not enter the caches */
};

enum mt_stream_state {
	MT_STREAM_FREE = 0,
	MT_STREAM_OPEN = 1, /* its thread writes it */
	MT_STREAM_FULL = 2, /* waits for the writer */
};

enum mt_stream_kind {
	MT_STREAM_EVENTS = 1, /* codes of one thread */
	MT_STREAM_LIVE = 2,   /* struct mt_stream_live: blocks that were live at this point */
	MT_STREAM_END = 3,    /* no payload: all that was recorded is in the file */
};

enum mt_stream_flags {
	MT_STREAM_ZSTD = 1,     /* the payload is one zstd frame */
	MT_STREAM_SALVAGED = 2, /* the buffer was open when its process ended */
	MT_STREAM_LIMITED = 4,  /* END: the size limit was reached, later events were not kept */
};

/*
 * In front of the codes, in a buffer as in a file's block. While the buffer is open, stored_bytes
 * is what of its codes is complete (atomic; its thread raises it after the bytes).
 */
struct mt_stream_block {
	uint32_t magic;          /*  0 file only */
	uint16_t kind;           /*  4 enum mt_stream_kind */
	uint16_t flags;          /*  6 enum mt_stream_flags */
	uint32_t stored_bytes;   /*  8 of the payload as it lies behind this */
	uint32_t raw_bytes;      /* 12 of the codes, not compressed */
	uint32_t checksum;       /* 16 mt_stream_checksum() */
	uint32_t thread;         /* 20 THREADS row */
	uint32_t tid;            /* 24 */
	uint32_t number;         /* 28 of the row's buffers, from 0 */
	uint32_t first_sequence; /* 32 of the row's last allocation before the buffer */
	uint32_t first_unit;     /* 36 time, low word */
	uint64_t lost_events;    /* 40 of the row since its last buffer; END: of the process */
	uint32_t state;          /* 48 enum mt_stream_state, atomic; means nothing in a file */
	uint32_t first_cell;     /* 52 highest cell of the row before the buffer */
	uint32_t reserved[2];
};

struct mt_stream_buffer {
	struct mt_stream_block head;
	uint8_t code[MT_STREAM_CODE_BYTES];
};

/* What becomes of a full buffer when no free one is left. */
enum mt_stream_on_full {
	MT_ON_FULL_DROP = 0,
	MT_ON_FULL_WAIT = 1,
	MT_ON_FULL_MASK = 255,
	MT_KEEP_LAST = 256, /* a bit beside it: at its limit the recording loses its begin */
};

/* Element 0 of the STREAM region. */
struct mt_stream_control {
	uint32_t writer_pid;  /* process that empties the buffers, 0: none; atomic */
	uint32_t stopped;     /* 1: the writer takes no more (size limit); atomic */
	uint32_t on_full;     /* enum mt_stream_on_full */
	uint32_t self_failed; /* errno of the last block that the program could not write itself */
	uint64_t wait_ns;     /* longest wait for a free buffer */
	uint64_t lost_events; /* of all threads, atomic */
	uint64_t waits, waited_ns; /* atomic */
	uint64_t limit_bytes;      /* of the recording, 0: none */
	uint64_t self_blocks;      /* written by the program itself, atomic */
};

/* Begin of a recording. */
struct mt_stream_header {
	uint8_t magic[8];       /*   0 */
	uint16_t version_major; /*   8 */
	uint16_t version_minor; /*  10 */
	uint32_t byte_order;    /*  12 */
	uint32_t header_bytes;  /*  16 */
	int32_t pid;            /*  20 */
	uint8_t boot_id[16];    /*  24 identity of the process, as in its state file */
	uint64_t proc_start;    /*  40 */
	uint64_t tick_start;    /*  48 */
	uint64_t wall_start_ns; /*  56 */
	uint64_t cut_blocks;    /*  64 blocks that gave way to newer ones (rotation) */
	uint64_t cut_bytes;     /*  72 */
	uint64_t limit_bytes;   /*  80 */
	uint8_t reserved[40];
};

/* Element of a LIVE block. */
struct mt_stream_live {
	uint64_t size;
	uint32_t cell;
	uint32_t sequence;
	uint32_t unit; /* of birth */
	uint32_t thread;
};

/*
 * Where an allocation is remembered; key: cell << 32 | size. The near slot is the hash's upper 7
 * bits, the far one its upper 10.
 */
MT_INLINE uint64_t mt_stream_hash(uint64_t key)
{
	return key * 0x9e3779b97f4a7c15u;
}

MT_INLINE uint32_t mt_stream_near(uint64_t hash)
{
	return (uint32_t)(hash >> 57);
}

/* Its upper bits are those of the near one: others would do as well, these cost one shift. */
MT_INLINE uint32_t mt_stream_far(uint64_t hash)
{
	return (uint32_t)(hash >> 54);
}

/* Of a block as it lies in a file. */
MT_INLINE uint32_t mt_stream_checksum(const struct mt_stream_block *head, const void *payload)
{
	struct mt_stream_block h = *head;
	h.checksum = h.state = 0;
	uint64_t sum = mt_hash_bytes(&h, sizeof(h), MT_STREAM_BLOCK_MAGIC);
	return (uint32_t)mt_hash_bytes(payload, h.stored_bytes, sum);
}

_Static_assert(sizeof(struct mt_stream_block) == MT_STREAM_HEAD_BYTES, "mt_stream_block");
_Static_assert(sizeof(struct mt_stream_buffer) == MT_STREAM_BUFFER_BYTES, "mt_stream_buffer");
_Static_assert(sizeof(struct mt_stream_control) == 64, "mt_stream_control");
_Static_assert(sizeof(struct mt_stream_header) == 128, "mt_stream_header");
_Static_assert(sizeof(struct mt_stream_live) == 24, "mt_stream_live");
_Static_assert(offsetof(struct mt_stream_block, lost_events) == 40, "lost_events");
_Static_assert(offsetof(struct mt_stream_header, limit_bytes) == 80, "limit_bytes");

#endif
