/* SPDX-License-Identifier: MIT */
/* The inverse of src/runtime/stream.c. Invariant: `at` never passes `end`. */
#include "formats/mtr_decode.h"

#include <errno.h>
#include <string.h>

void mt_mtr_decoder_init(struct mt_mtr_decoder *d, const struct mt_stream_block *head,
			 const void *codes, size_t len)
{
	d->at = codes;
	d->end = d->at + len;
	d->thread = head->thread;
	d->last = head->first_sequence;
	d->unit = head->first_unit;
	d->is_realloc = false;
	d->lg_align = 0;
	d->far_freed = head->first_sequence;
	d->highest = head->first_cell;
	memset(d->near, 0, sizeof(d->near));
	memset(d->far, 0, sizeof(d->far));
}

static int take_byte(struct mt_mtr_decoder *d, uint8_t *ret_byte)
{
	if (d->at == d->end)
		return -EBADMSG;
	*ret_byte = *d->at++;
	return 0;
}

static int take_varint(struct mt_mtr_decoder *d, uint64_t *ret_value)
{
	uint64_t v = 0;
	uint8_t byte;

	for (unsigned shift = 0; shift < 70; shift += 7) {
		if (take_byte(d, &byte))
			return -EBADMSG;
		if (shift == 63 && byte > 1)
			return -EBADMSG;
		v |= (uint64_t)(byte & 127) << shift;
		if (!(byte & 128)) {
			*ret_value = v;
			return 0;
		}
	}
	return -EBADMSG;
}

static int take_u32(struct mt_mtr_decoder *d, uint32_t *ret_value)
{
	uint64_t v;

	if (take_varint(d, &v) || v > UINT32_MAX)
		return -EBADMSG;
	*ret_value = (uint32_t)v;
	return 0;
}

static int give_alloc(struct mt_mtr_decoder *d, uint32_t cell, uint64_t size,
		      struct mt_mtr_event *e)
{
	if (!cell)
		return -EBADMSG;
	*e = (struct mt_mtr_event){
		.kind = MT_MTR_ALLOC,
		.thread = d->thread,
		.sequence = ++d->last,
		.unit = d->unit,
		.cell = cell,
		.size = size,
		.is_realloc = d->is_realloc,
		.lg_align = d->lg_align,
	};
	d->is_realloc = false;
	d->lg_align = 0;
	return 1;
}

static int give_free(const struct mt_mtr_decoder *d, uint32_t thread, uint32_t sequence,
		     struct mt_mtr_event *e)
{
	*e = (struct mt_mtr_event){
		.kind = MT_MTR_FREE,
		.thread = thread,
		.sequence = sequence,
		.unit = d->unit,
	};
	return 1;
}

static int decode_alloc(struct mt_mtr_decoder *d, bool enters_cache, struct mt_mtr_event *e)
{
	uint64_t size, key, hash;
	uint32_t cell;

	if (take_u32(d, &cell) || take_varint(d, &size) || (enters_cache && size > UINT32_MAX))
		return -EBADMSG;
	if (!enters_cache)
		return give_alloc(d, cell, size, e);
	cell = cell ? cell : d->highest + 1;
	d->highest = MT_MAX(d->highest, cell);
	key = (uint64_t)cell << 32 | size;
	hash = mt_stream_hash(key);
	d->near[mt_stream_near(hash)] = d->far[mt_stream_far(hash)] = key;
	return give_alloc(d, cell, size, e);
}

/* 1: an event; 0: something before one; or -EBADMSG. */
static int decode_escape(struct mt_mtr_decoder *d, struct mt_mtr_event *e)
{
	uint32_t a, b;
	uint8_t what;

	if (take_byte(d, &what))
		return -EBADMSG;
	switch ((enum mt_stream_escape)what) {
	case MT_ESCAPE_FREE_OTHER:
		return take_u32(d, &a) || take_u32(d, &b) ? -EBADMSG : give_free(d, a, b, e);
	case MT_ESCAPE_SEQUENCE:
		return take_u32(d, &d->last);
	case MT_ESCAPE_TIME:
		if (take_u32(d, &a))
			return -EBADMSG;
		d->unit += a;
		return 0;
	case MT_ESCAPE_REALLOC:
		d->is_realloc = true;
		return 0;
	case MT_ESCAPE_ALIGN:
		if (take_u32(d, &a) || a > 63)
			return -EBADMSG;
		d->lg_align = (uint8_t)a;
		return 0;
	case MT_ESCAPE_LARGE:
		return decode_alloc(d, false, e);
	}
	return -EBADMSG;
}

static int give_known(struct mt_mtr_decoder *d, uint64_t key, struct mt_mtr_event *e)
{
	return give_alloc(d, (uint32_t)(key >> 32), key & UINT32_MAX, e);
}

static int give_own_free(struct mt_mtr_decoder *d, uint32_t back, struct mt_mtr_event *e)
{
	return give_free(d, d->thread, d->last - back, e);
}

static int decode_far(struct mt_mtr_decoder *d, uint8_t code, struct mt_mtr_event *e)
{
	uint8_t low, high;
	uint32_t zigzag;

	if (code == MT_CODE_FREE3) {
		if (take_byte(d, &low) || take_byte(d, &high))
			return -EBADMSG;
		d->far_freed = d->last - (MT_STREAM_MIDDLE + ((uint32_t)high << 8) + low);
	} else {
		if (take_u32(d, &zigzag))
			return -EBADMSG;
		d->far_freed += zigzag >> 1 ^ (0u - (zigzag & 1));
	}
	return give_free(d, d->thread, d->far_freed, e);
}

/* As decode_escape(). */
static int decode_one(struct mt_mtr_decoder *d, struct mt_mtr_event *e)
{
	uint8_t code = *d->at++, low;
	uint64_t key;

	if (code < MT_CODE_FREE)
		return give_known(d, d->near[code], e);
	if (code < MT_CODE_FREE2)
		return give_own_free(d, code - MT_CODE_FREE, e);
	if (code == MT_CODE_ALLOC)
		return decode_alloc(d, true, e);
	if (code == MT_CODE_ESCAPE)
		return decode_escape(d, e);
	if (code >= MT_CODE_FREE3)
		return decode_far(d, code, e);
	if (take_byte(d, &low))
		return -EBADMSG;
	if (code < MT_CODE_KNOWN2)
		return give_own_free(
			d, MT_STREAM_NEAR + ((uint32_t)(code - MT_CODE_FREE2) << 8) + low, e);
	key = d->far[(uint32_t)(code - MT_CODE_KNOWN2) << 8 | low];
	d->near[mt_stream_near(mt_stream_hash(key))] = key;
	return give_known(d, key, e);
}

int mt_mtr_decode(struct mt_mtr_decoder *d, struct mt_mtr_event *ret_event)
{
	int r = 0;

	while (!r && d->at < d->end) {
		const uint8_t *from = d->at;

		r = decode_one(d, ret_event);
		if (r < 0) {
			d->at = from; /* the next call fails in the same way */
			return r;
		}
	}
	return r;
}
