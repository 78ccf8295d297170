/* SPDX-License-Identifier: MIT */
/*
 * Two rounds: from the roots along pointers to starts alone; what pointers into blocks point to is
 * put aside meanwhile. The second round begins with what was put aside and is still not reached.
 * Each block enters each list once, so that the lists need no more room than there are blocks.
 */

#include "reach/mark.h"

#include "base/alloc.h"
#include "core/cc.h"
#include "core/sys.h"
#include "reach/scan.h"

enum { STARTS, ASIDE }; /* lists */

void mt_mark_done(struct mt_mark *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->pieces; i++) {
		free(m->piece[i].edge);
		free(m->piece[i].end);
	}
	free(m->piece);
	free(m->state);
	free(m->work[STARTS]);
	free(m->work[ASIDE]);
	*m = (struct mt_mark){0};
}

/* ---- edges ---- */

static void enter_piece(struct mt_mark_cursor *c)
{
	const struct mt_mark_piece *p = &c->mark->piece[c->piece];
	uint32_t i = c->block - p->first;

	c->at = i ? p->end[i - 1] : 0;
	c->end = p->end[i];
}

void mt_mark_edges(const struct mt_mark *m, uint32_t block, struct mt_mark_cursor *ret_cursor)
{
	size_t low = 0, high = m->pieces;

	/* the first piece that holds any of the block */
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (m->piece[middle].first + m->piece[middle].ranges - 1 < block)
			low = middle + 1;
		else
			high = middle;
	}
	*ret_cursor = (struct mt_mark_cursor){.mark = m, .block = block, .piece = low};
	if (low < m->pieces)
		enter_piece(ret_cursor);
}

bool mt_mark_next(struct mt_mark_cursor *c, uint32_t *ret_block, bool *ret_inside)
{
	uint32_t edge;

	while (c->at == c->end) {
		if (c->piece + 1 >= c->mark->pieces ||
		    c->mark->piece[c->piece + 1].first != c->block)
			return false;
		c->piece++;
		enter_piece(c);
	}
	edge = c->mark->piece[c->piece].edge[c->at++];
	*ret_block = edge & ~MT_SCAN_INSIDE;
	*ret_inside = edge & MT_SCAN_INSIDE;
	return true;
}

/* ---- marking ---- */

struct rounds {
	struct mt_mark *m;
	size_t count[2];
};

static void reach(struct rounds *r, uint32_t block, bool is_inside)
{
	uint8_t *state = &r->m->state[block];
	int list = is_inside ? ASIDE : STARTS;

	if (*state >= (is_inside ? MT_MARK_INSIDE : MT_MARK_REACHED))
		return;
	*state = is_inside ? MT_MARK_INSIDE : MT_MARK_REACHED;
	r->m->work[list][r->count[list]++] = block;
}

static void follow_starts(struct rounds *r)
{
	struct mt_mark_cursor c;
	uint32_t target;
	bool is_inside;

	while (r->count[STARTS]) {
		mt_mark_edges(r->m, r->m->work[STARTS][--r->count[STARTS]], &c);
		while (mt_mark_next(&c, &target, &is_inside))
			reach(r, target, is_inside);
	}
}

/* The list is not emptied from its end: each block has one place in it. */
static void follow_the_rest(struct rounds *r)
{
	struct mt_mark_cursor c;
	uint32_t target;
	bool is_inside;

	for (size_t i = 0; i < r->count[ASIDE]; i++) {
		uint32_t block = r->m->work[ASIDE][i];

		if (r->m->state[block] != MT_MARK_INSIDE)
			continue; /* a better way was found */
		mt_mark_edges(r->m, block, &c);
		while (mt_mark_next(&c, &target, &is_inside))
			reach(r, target, /* is_inside */ true);
	}
}

void mt_mark_hold(struct mt_mark *m, const uint32_t *held, size_t count)
{
	struct rounds r = {.m = m};

	for (size_t i = 0; i < count; i++)
		reach(&r, held[i], /* is_inside */ false);
	follow_starts(&r);
	follow_the_rest(&r);
}

/* From words outside of blocks. */
static void begin(struct rounds *r, const struct mt_scan *s)
{
	const struct mt_mark_input *in = s->in;

	for (size_t i = 0; i < s->pieces && !s->piece[i].is_blocks; i++)
		for (size_t k = 0; k < s->piece[i].edges; k++)
			reach(r, s->piece[i].edge[k] & ~MT_SCAN_INSIDE,
			      s->piece[i].edge[k] & MT_SCAN_INSIDE);
	for (size_t i = 0; i < in->values; i++) {
		uint32_t edge = mt_scan_word(&s->map, in->value[i], in->flags);

		if (edge != MT_BLOCKMAP_NONE)
			reach(r, edge & ~MT_SCAN_INSIDE, edge & MT_SCAN_INSIDE);
	}
	for (size_t i = 0; i < in->held_count; i++)
		reach(r, in->held[i], /* is_inside */ false);
}

/* Takes the pieces of blocks over, and sums all up. */
static int take(struct mt_mark *m, struct mt_scan *s)
{
	size_t roots = 0;

	for (size_t i = 0; i < s->pieces; i++) {
		struct mt_mark_piece *p = &s->piece[i];

		roots += !p->is_blocks;
		*(p->is_blocks ? &m->block_bytes : &m->root_bytes) += p->scanned_bytes;
		m->skipped_bytes += p->skipped_bytes;
		m->pointers += p->is_blocks ? p->edges : 0;
	}
	m->pieces = s->pieces - roots;
	m->piece = mt_alloc_zero(m->pieces, sizeof(*m->piece));
	m->state = mt_alloc_zero(m->blocks, sizeof(*m->state));
	m->work[STARTS] = mt_alloc_zero(m->blocks, sizeof(**m->work));
	m->work[ASIDE] = mt_alloc_zero(m->blocks, sizeof(**m->work));
	if (!m->piece || !m->state || !m->work[STARTS] || !m->work[ASIDE]) {
		m->pieces = 0;
		return -1;
	}
	for (size_t i = 0; i < m->pieces; i++) {
		m->piece[i] = s->piece[roots + i];
		s->piece[roots + i] = (struct mt_mark_piece){.is_blocks = true};
	}
	return 0;
}

int mt_mark_run(const struct mt_mark_input *in, struct mt_mark *ret_mark, struct mt_err *err)
{
	mt_auto(mt_scan) struct mt_scan s = {0};
	mt_auto(mt_mark) struct mt_mark m = {.blocks = in->blocks};
	struct rounds r = {.m = &m};
	uint64_t start = mt_sys_clock_ns(MT_CLOCK_MONOTONIC), scanned;
	int code = mt_scan_run(&s, in, err);

	if (code)
		return code;
	scanned = mt_sys_clock_ns(MT_CLOCK_MONOTONIC);
	if (take(&m, &s))
		return mt_err_no_memory(err);
	begin(&r, &s);
	follow_starts(&r);
	follow_the_rest(&r);
	m.scan_ns = scanned - start;
	m.mark_ns = mt_sys_clock_ns(MT_CLOCK_MONOTONIC) - scanned;
	*ret_mark = m;
	m = (struct mt_mark){0};
	return 0;
}
