/* SPDX-License-Identifier: MIT */
#ifndef MT_FORMATS_MTR_DECODE_H
#define MT_FORMATS_MTR_DECODE_H

/*
 * One buffer of events (docs/formats/mtr.md), decoded. The bytes may be anything: decoding ends at
 * the first that means nothing.
 */

#include <stdbool.h>

#include "core/cc.h"
#include "wire/stream.h"

enum mt_mtr_event_kind { MT_MTR_ALLOC = 1, MT_MTR_FREE = 2 };

struct mt_mtr_event {
	enum mt_mtr_event_kind kind;
	uint32_t thread;   /* which allocated the block */
	uint32_t sequence; /* the block: number of that allocation in that thread */
	uint32_t unit;     /* time, low word */
	/* ALLOC */
	uint32_t cell;
	uint64_t size;
	bool is_realloc;  /* of the block that the thread freed last */
	uint8_t lg_align; /* alignment 2^it that was asked for, 0: none */
};

struct mt_mtr_decoder {
	const uint8_t *at, *end; /* borrowed */
	uint32_t thread, last, unit;
	bool is_realloc;
	uint8_t lg_align;
	uint32_t highest, far_freed;
	uint64_t near[MT_STREAM_NEAR_SLOTS], far[MT_STREAM_FAR_SLOTS];
};

/* Codes of a buffer with this head; they stay where they are. */
void mt_mtr_decoder_init(struct mt_mtr_decoder *d, const struct mt_stream_block *head,
			 const void *codes, size_t len);

/* 1 and *ret_event; 0: the end; -EBADMSG: what follows is damaged, and stays so. */
int mt_mtr_decode(struct mt_mtr_decoder *d, struct mt_mtr_event *ret_event);

#endif
