/* SPDX-License-Identifier: MIT */
#ifndef MT_ANALYSIS_WRITER_H
#define MT_ANALYSIS_WRITER_H

/*
 * What bytes that should not have changed look like: a first hint at who wrote them. A guess, made
 * from the first value.
 */

#include "model/profile.h"

enum mt_writer_kind {
	MT_WRITER_UNKNOWN,
	MT_WRITER_ZEROS,
	MT_WRITER_FILL, /* the same byte again and again */
	MT_WRITER_TEXT,
	MT_WRITER_POINTER,
	MT_WRITER_INTEGER, /* of 1, 2, 4 or 8 bytes; wider than a byte: a small one */
	MT_WRITER_DOUBLE,
	MT_WRITER_FLOAT,
};

/* Where a pointer points to. */
enum mt_writer_target {
	MT_TARGET_MODULE, /* `node` is a frame there */
	MT_TARGET_BLOCK,  /* the block of the error */
	MT_TARGET_BEFORE, /* the blocks beside it */
	MT_TARGET_AFTER,
	MT_TARGET_HEAP,  /* somewhere near */
	MT_TARGET_STACK, /* of the first thread */
};

struct mt_writer {
	enum mt_writer_kind kind;
	/*
	 * TEXT: as far as it can be seen, and it may begin inside the block. is_end: only the zero
	 * byte behind it is out of place. Borrowed from the profile, not ended by a zero.
	 */
	const char *text;
	uint32_t text_bytes;
	bool is_end;
	uint64_t bytes;  /* ZEROS, FILL: how many; INTEGER: of the number */
	uint64_t word;   /* POINTER: the value; FILL: the byte */
	int64_t integer; /* INTEGER */
	double real;     /* DOUBLE, FLOAT */
	enum mt_writer_target target;
	uint32_t node;
};

/* UNKNOWN when no bytes changed, or they are not in the window. */
struct mt_writer mt_writer_guess(const struct mt_profile_error *e);

#endif
