/* SPDX-License-Identifier: MIT */
/*
 * Sums of a record_allocs text. Lines of two threads may lie in another order than the calls took
 * effect: an address is given again before the line of its free. So an address may hold several
 * blocks; the oldest goes first, and who still has two in the end lacks a free.
 */
#include "formats/record_allocs_read.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/map.h"
#include "base/units.h"
#include "formats/text_lines.h"

enum { LINE_BYTES_MAX = 4096 };

struct block {
	uint64_t size;
	uint32_t next; /* younger one at the same address, or of the free list; 0: none */
	uint32_t last; /* of the oldest at an address: the youngest there */
};

struct reader {
	struct mt_record_allocs_stats s;
	struct mt_map at;      /* address -> oldest block, 0: none now */
	struct mt_map threads; /* numbers seen */
	struct block *block;   /* owned; [0] unused */
	size_t blocks, block_cap;
	uint32_t free_block;
	struct mt_text_lines lines;
	struct mt_err *err;
};

static void reader_done(struct reader *rd)
{
	mt_map_done(&rd->at);
	mt_map_done(&rd->threads);
	mt_text_lines_done(&rd->lines);
	free(rd->block);
}
MT_AUTO_DEFINE_INPLACE(reader, struct reader, reader_done)

/* --- blocks -------------------------------------------------------------------------------- */

/* A number for a new block, 0: no memory. */
static uint32_t new_block(struct reader *rd)
{
	uint32_t b = rd->free_block;

	if (b) {
		rd->free_block = rd->block[b].next;
		return b;
	}
	size_t n = MT_MAX(rd->blocks, 1);
	struct block *grown =
		n >= UINT32_MAX ? NULL
				: mt_alloc_grow(rd->block, &rd->block_cap, n + 1, sizeof(*grown));
	if (!grown)
		return 0;
	rd->block = grown;
	rd->blocks = n + 1;
	return (uint32_t)n;
}

static int add_block(struct reader *rd, uint64_t address, uint64_t size)
{
	struct mt_record_allocs_stats *s = &rd->s;
	uint32_t b = new_block(rd);
	uint64_t *oldest = b ? mt_map_at(&rd->at, address, NULL) : NULL;

	if (!oldest)
		return -ENOMEM;
	rd->block[b] = (struct block){size, 0, b};
	if (*oldest) {
		struct block *first = &rd->block[*oldest];

		rd->block[first->last].next = b;
		first->last = b;
	} else {
		*oldest = b;
	}
	s->allocs++;
	s->bytes += size;
	s->live_count++;
	s->live_bytes += size;
	if (s->live_bytes > s->peak_bytes) {
		s->peak_bytes = s->live_bytes;
		s->peak_count = s->live_count;
		s->peak_line = s->lines;
	}
	return 0;
}

/* The block's size, or -1: there is none. */
static int64_t drop_block(struct reader *rd, uint64_t address)
{
	struct mt_record_allocs_stats *s = &rd->s;
	uint64_t b = 0;

	if (!mt_map_get(&rd->at, address, &b) || !b) {
		s->unknown_frees++;
		return -1;
	}
	struct block *gone = &rd->block[b];
	uint64_t size = gone->size;
	*mt_map_at(&rd->at, address, NULL) = gone->next; /* it is there: needs no memory */
	if (gone->next)
		rd->block[gone->next].last = gone->last;
	gone->next = rd->free_block;
	rd->free_block = (uint32_t)b;
	s->frees++;
	s->freed_bytes += size;
	s->live_count--;
	s->live_bytes -= size;
	return (int64_t)size;
}

static void count_lost(struct reader *rd)
{
	size_t pos = 0;
	uint64_t address, b;

	while (mt_map_next(&rd->at, &pos, &address, &b))
		for (; b && rd->block[b].next; b = rd->block[b].next)
			rd->s.lost_blocks++;
}

/* --- lines --------------------------------------------------------------------------------- */

static void count_call(struct mt_record_allocs_stats *s, const struct mt_record_allocs_line *l)
{
	struct mt_record_allocs_calls *c = &s->calls[l->kind];

	c->count++;
	if (!l->end_ns)
		return;
	uint64_t start = l->start_ns ? l->start_ns : l->end_ns;
	if (!s->first_ns || start < s->first_ns)
		s->first_ns = start;
	s->last_ns = MT_MAX(s->last_ns, l->end_ns);
	if (l->kind == MT_RECORD_ALLOCS_THREAD_DONE)
		return;
	uint64_t took = l->end_ns > start ? l->end_ns - start : 0;
	c->timed++;
	c->ns += took;
	c->slowest_ns = MT_MAX(c->slowest_ns, took);
}

static void count_present(struct mt_record_allocs_stats *s, const struct mt_record_allocs_line *l,
			  int64_t size)
{
	if (l->present_bytes < 0 || size < 0)
		return;
	s->present_frees++;
	s->present_bytes += (uint64_t)l->present_bytes;
	s->present_of_bytes += (uint64_t)size;
}

/* What a line gives; a product that overflows was refused. */
static uint64_t given_bytes(const struct mt_record_allocs_line *l)
{
	size_t bytes = l->size;

	if (l->kind == MT_RECORD_ALLOCS_CALLOC && mt_mul_size(l->n, l->size, &bytes))
		return UINT64_MAX;
	return bytes;
}

static int take_line(struct reader *rd, const char *text)
{
	struct mt_record_allocs_stats *s = &rd->s;
	struct mt_record_allocs_line l;
	int r = mt_record_allocs_parse(text, &l, rd->err);

	if (r) {
		if (rd->err)
			rd->err->offset = rd->lines.offset;
		return r;
	}
	s->lines++;
	if (mt_map_set(&rd->threads, (uint64_t)l.tid, 1))
		return -ENOMEM;
	count_call(s, &l);
	if (l.kind == MT_RECORD_ALLOCS_THREAD_DONE)
		return 0;
	bool is_new = l.kind != MT_RECORD_ALLOCS_FREE;
	bool is_realloc_to_0 = l.kind == MT_RECORD_ALLOCS_REALLOC && l.old && !l.size;
	if (is_new && !l.pointer && !is_realloc_to_0) {
		s->calls[l.kind].failed++;
		return 0;
	}
	uint64_t old = is_new ? l.old : l.pointer;
	if (old)
		count_present(s, &l, drop_block(rd, old));
	return is_new && l.pointer ? add_block(rd, l.pointer, given_bytes(&l)) : 0;
}

static int take(void *context, const char *text)
{
	struct reader *rd = context;

	if (text)
		return take_line(rd, text);
	return mt_err_set_at(rd->err, -EBADMSG, rd->lines.offset, "a line is longer than %d bytes",
			     LINE_BYTES_MAX);
}

static void begin(struct reader *rd)
{
	rd->lines.take = take;
	rd->lines.context = rd;
	rd->lines.most_bytes = LINE_BYTES_MAX;
}

static int give(struct reader *rd, const char *name, int r, struct mt_record_allocs_stats *ret)
{
	if (!r)
		r = mt_text_lines_end(&rd->lines);
	if (!r && !rd->s.lines)
		return mt_err_set(rd->err, -EBADMSG, "'%s' has no lines of record_allocs", name);
	if (r == -ENOMEM)
		return mt_err_no_memory(rd->err);
	if (r)
		return r;
	rd->s.threads = rd->threads.count;
	count_lost(rd);
	*ret = rd->s;
	return 0;
}

int mt_record_allocs_read_memory(const void *data, size_t len, const char *name,
				 struct mt_record_allocs_stats *ret_stats, struct mt_err *err)
{
	mt_auto(reader) struct reader rd = {.err = err};

	begin(&rd);
	return give(&rd, name, mt_text_lines_add(&rd.lines, data, len), ret_stats);
}

int mt_record_allocs_read_fd(int fd, const char *name, struct mt_record_allocs_stats *ret_stats,
			     struct mt_err *err)
{
	mt_auto(reader) struct reader rd = {.err = err};
	int number;

	begin(&rd);
	int r = mt_text_lines_read(&rd.lines, fd, &number);
	if (number)
		return mt_err_set_errno(err, number, "cannot read '%s'", name);
	return give(&rd, name, r, ret_stats);
}

bool mt_record_allocs_is(const char *text, size_t len)
{
	char line[LINE_BYTES_MAX + 1];
	struct mt_record_allocs_line l;

	while (len && (*text == '\n' || *text == '\r')) {
		text++;
		len--;
	}
	const char *end = memchr(text, '\n', len);
	size_t part = end ? (size_t)(end - text) : len;
	if (!part || part > LINE_BYTES_MAX)
		return false;
	memcpy(line, text, part);
	line[part] = 0;
	return strlen(line) == part && !mt_record_allocs_parse(line, &l, NULL);
}

/* --- text ---------------------------------------------------------------------------------- */

static void put_count(struct mt_buf *out, const char *what, uint64_t count, uint64_t bytes)
{
	char number[MT_UNITS_TEXT_MAX], size[MT_UNITS_TEXT_MAX];

	mt_buf_printf(out, "%-14s %15s blocks  %10s\n", what, mt_units_count(count, number),
		      mt_units_size(bytes, size));
}

static void put_calls(const struct mt_record_allocs_stats *s, struct mt_buf *out)
{
	char count[MT_UNITS_TEXT_MAX], failed[MT_UNITS_TEXT_MAX], mean[MT_UNITS_TEXT_MAX],
		slowest[MT_UNITS_TEXT_MAX];

	mt_buf_printf(out, "\n%-14s %15s %10s %12s %12s\n", "call", "count", "failed", "mean time",
		      "slowest");
	for (int k = 0; k < MT_RECORD_ALLOCS_KINDS; k++) {
		const struct mt_record_allocs_calls *c = &s->calls[k];

		if (!c->count)
			continue;
		mt_buf_printf(out, "%-14s %15s %10s %12s %12s\n",
			      mt_record_allocs_kind_name((enum mt_record_allocs_kind)k),
			      mt_units_count(c->count, count), mt_units_count(c->failed, failed),
			      c->timed ? mt_units_time(c->ns / c->timed, mean) : "-",
			      c->timed ? mt_units_time(c->slowest_ns, slowest) : "-");
	}
}

void mt_record_allocs_stats_put(const struct mt_record_allocs_stats *s, struct mt_buf *out)
{
	char text[MT_UNITS_TEXT_MAX], percent[MT_UNITS_TEXT_MAX];

	mt_buf_printf(out, "calls %s", mt_units_count(s->lines, text));
	mt_buf_printf(out, "  threads %s", mt_units_count(s->threads, text));
	if (s->last_ns)
		mt_buf_printf(out, "  time %s", mt_units_time(s->last_ns - s->first_ns, text));
	mt_buf_adds(out, "\n\n");
	put_count(out, "allocated", s->allocs, s->bytes);
	put_count(out, "freed", s->frees, s->freed_bytes);
	put_count(out, "live", s->live_count, s->live_bytes);
	put_count(out, "peak", s->peak_count, s->peak_bytes);
	put_calls(s, out);
	if (s->present_frees)
		mt_buf_printf(out, "\nin memory when freed: %s of what was asked for (frees: %s)\n",
			      mt_units_percent(s->present_bytes, s->present_of_bytes, percent),
			      mt_units_count(s->present_frees, text));
	if (s->unknown_frees)
		mt_buf_printf(out, "\nfrees of blocks that no line gave: %s\n",
			      mt_units_count(s->unknown_frees, text));
	if (s->lost_blocks)
		mt_buf_printf(out, "\nblocks whose frees are missing: %s\n",
			      mt_units_count(s->lost_blocks, text));
}
