/* SPDX-License-Identifier: MIT */
/*
 * Frames of a series. A body holds only what changed, column by column, since like numbers pack
 * best beside each other.
 */
#include "formats/mts.h"

#include <errno.h>
#include <string.h>
#include <zstd.h>

#include "base/alloc.h"
#include "core/hash.h"

enum { LEVEL = 3, COLUMNS = 5, NUMBER_MAX = 10 };

/* ---- tables ---- */

void mt_mts_table_done(struct mt_mts_table *t)
{
	if (t) {
		free(t->site);
		*t = (struct mt_mts_table){0};
	}
}

int mt_mts_table_grow(struct mt_mts_table *t, uint32_t count)
{
	struct mt_series_site *grown;
	if (count <= t->count)
		return 0;
	if (count > MT_MTS_SITES_MAX)
		return -E2BIG;
	grown = mt_alloc_grow(t->site, &t->capacity, count, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	t->site = grown;
	memset(t->site + t->count, 0, (count - t->count) * sizeof(*t->site));
	t->count = count;
	return 0;
}

int mt_mts_table_copy(struct mt_mts_table *to, const struct mt_mts_table *from)
{
	int r = mt_mts_table_grow(to, from->count);
	if (r)
		return r;
	if (from->count)
		memcpy(to->site, from->site, from->count * sizeof(*to->site));
	to->count = from->count;
	return 0;
}

/* ---- encoding ---- */

static void put(struct mt_buf *b, uint64_t v)
{
	uint8_t bytes[NUMBER_MAX];
	size_t n = 0;
	for (; v >= 0x80; v >>= 7)
		bytes[n++] = (uint8_t)(v | 0x80);
	bytes[n++] = (uint8_t)v;
	mt_buf_add(b, bytes, n);
}

static uint64_t zigzag(uint64_t v)
{
	return v << 1 ^ (0 - (v >> 63));
}

static uint64_t unzigzag(uint64_t v)
{
	return v >> 1 ^ (0 - (v & 1));
}

static struct mt_series_site at(const struct mt_mts_table *t, uint32_t i)
{
	return t && i < t->count ? t->site[i] : (struct mt_series_site){0};
}

static bool is_same(const struct mt_series_site *a, const struct mt_series_site *b)
{
	return a->bytes == b->bytes && a->count == b->count && a->allocs == b->allocs &&
	       a->frees == b->frees;
}

/* The four values' changes, in the order of the columns. */
static void changes(const struct mt_series_site *from, const struct mt_series_site *to,
		    uint64_t ret[COLUMNS - 1])
{
	ret[0] = to->bytes - from->bytes;
	ret[1] = to->allocs - from->allocs;
	ret[2] = to->count - from->count;
	ret[3] = to->frees - from->frees - (ret[1] - ret[2]);
}

/* The columns of the sites that changed. */
static void put_columns(const struct mt_mts_table *before, const struct mt_mts_table *now,
			struct mt_buf *raw)
{
	struct mt_buf column[COLUMNS] = {{0}};
	uint64_t n = 0, change[COLUMNS - 1];
	uint32_t last = 0;
	for (uint32_t i = 1; i < now->count; i++) {
		struct mt_series_site old = at(before, i);
		if (is_same(&old, &now->site[i]))
			continue;
		put(&column[0], i - last);
		changes(&old, &now->site[i], change);
		for (int c = 1; c < COLUMNS; c++)
			put(&column[c], zigzag(change[c - 1]));
		last = i;
		n++;
	}
	put(raw, n);
	for (int c = 0; c < COLUMNS; c++) {
		mt_buf_add(raw, mt_buf_text(&column[c]), column[c].len);
		raw->failed |= column[c].failed;
		mt_buf_done(&column[c]);
	}
}

/* zstd's form of raw behind the fixed part, and zeros up to where the frame may end. */
static int pack(const struct mt_buf *raw, uint32_t new_sites, struct mt_buf *out,
		struct mt_mts_frame *f)
{
	size_t bound = ZSTD_compressBound(raw->len), start = out->len, least, packed;
	if (raw->len > MT_MTS_FRAME_MAX / 2)
		return -EFBIG;
	if (mt_buf_reserve(out, sizeof(*f) + bound + 8))
		return -ENOMEM;
	packed = ZSTD_compress(out->data + start + sizeof(*f), bound, raw->data, raw->len, LEVEL);
	if (ZSTD_isError(packed))
		return -ENOMEM;
	f->body_bytes = (uint32_t)packed;
	f->raw_bytes = (uint32_t)raw->len;
	least = MT_MAX(raw->len / MT_MTS_RATIO_MAX, (size_t)new_sites / MT_MTS_SITES_RATIO) + 1;
	f->frame_bytes = (uint32_t)MT_ALIGN_UP(MT_MAX(sizeof(*f) + packed, least), (size_t)8);
	out->len = start + sizeof(*f) + packed;
	return mt_buf_pad(out, 0, start + f->frame_bytes - out->len);
}

static struct mt_mts_frame fixed_part(const struct mt_series_point *p)
{
	return (struct mt_mts_frame){
		.magic = MT_MTS_FRAME_MAGIC,
		.number = p->number,
		.reason = p->reason,
		.flags = p->is_usable ? MT_MTS_USABLE : 0,
		.time_ns = p->time_ns,
		.wall_ns = p->wall_ns,
		.live_bytes = p->live_bytes,
		.live_count = p->live_count,
		.allocs = p->allocs,
		.frees = p->frees,
		.alloc_bytes = p->alloc_bytes,
		.freed_bytes = p->freed_bytes,
		.rss_bytes = p->rss_bytes,
		.pss_bytes = p->pss_bytes,
		.anon_bytes = p->anon_bytes,
		.swap_bytes = p->swap_bytes,
	};
}

int mt_mts_encode(const struct mt_series_point *point, const struct mt_mts_table *before,
		  const struct mt_mts_table *now, struct mt_buf *out)
{
	struct mt_mts_frame f = fixed_part(point);
	mt_auto(mt_buf) struct mt_buf raw = {0};
	size_t start = out->len;
	uint8_t *frame;
	int r;
	f.flags |= before ? 0 : MT_MTS_KEY;
	f.sites = now->count;
	put_columns(before, now, &raw);
	r = raw.failed ? -ENOMEM : pack(&raw, now->count - (before ? before->count : 0), out, &f);
	if (r) {
		mt_buf_truncate(out, start);
		return r;
	}
	frame = (uint8_t *)out->data + start;
	memcpy(frame, &f, sizeof(f));
	f.hash = mt_hash_bytes(frame + 16, f.frame_bytes - 16, 0);
	memcpy(frame, &f, sizeof(f));
	return 0;
}

/* ---- decoding ---- */

int64_t mt_mts_frame(const uint8_t *data, size_t len, struct mt_mts_frame *ret_frame)
{
	struct mt_mts_frame f;
	if (len < sizeof(f))
		return -EBADMSG;
	memcpy(&f, data, sizeof(f));
	if (f.magic != MT_MTS_FRAME_MAGIC || f.frame_bytes > len || f.frame_bytes < sizeof(f) ||
	    f.frame_bytes % 8 || f.frame_bytes > MT_MTS_FRAME_MAX)
		return -EBADMSG;
	if (f.body_bytes > f.frame_bytes - sizeof(f) || !f.raw_bytes ||
	    f.raw_bytes > (uint64_t)f.frame_bytes * MT_MTS_RATIO_MAX || f.sites > MT_MTS_SITES_MAX)
		return -EBADMSG;
	if (f.hash != mt_hash_bytes(data + 16, f.frame_bytes - 16, 0))
		return -EBADMSG;
	*ret_frame = f;
	return f.frame_bytes;
}

struct mt_series_point mt_mts_point(const struct mt_mts_frame *f)
{
	return (struct mt_series_point){
		.number = f->number,
		.reason = f->reason,
		.is_usable = (f->flags & MT_MTS_USABLE) != 0,
		.time_ns = f->time_ns,
		.wall_ns = f->wall_ns,
		.live_bytes = f->live_bytes,
		.live_count = f->live_count,
		.allocs = f->allocs,
		.frees = f->frees,
		.alloc_bytes = f->alloc_bytes,
		.freed_bytes = f->freed_bytes,
		.rss_bytes = f->rss_bytes,
		.pss_bytes = f->pss_bytes,
		.anon_bytes = f->anon_bytes,
		.swap_bytes = f->swap_bytes,
	};
}

struct cursor {
	const uint8_t *at, *end;
};

/* False: no number there. */
static bool take(struct cursor *c, uint64_t *ret)
{
	uint64_t v = 0;
	for (unsigned shift = 0; c->at < c->end && shift < 64; shift += 7) {
		uint8_t byte = *c->at++;
		v |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80)) {
			*ret = v;
			return true;
		}
	}
	return false;
}

/* Moves past n numbers; false: there are not so many. */
static bool skip(struct cursor *c, uint64_t n)
{
	while (n && c->at < c->end)
		n -= !(*c->at++ & 0x80);
	return !n;
}

static void apply(struct mt_series_site *s, const uint64_t change[COLUMNS - 1])
{
	s->bytes += change[0];
	s->allocs += change[1];
	s->count += change[2];
	s->frees += change[3] + (change[1] - change[2]);
}

static int take_columns(struct cursor *all, uint32_t sites, struct mt_mts_table *table)
{
	struct cursor column[COLUMNS];
	uint64_t n, number = 0, value;
	if (!take(all, &n))
		return -EBADMSG;
	for (int c = 0; c < COLUMNS; c++) {
		column[c] = *all;
		if (!skip(all, n))
			return -EBADMSG;
		column[c].end = all->at;
	}
	if (all->at != all->end)
		return -EBADMSG;
	for (uint64_t i = 0; i < n; i++) {
		uint64_t change[COLUMNS - 1];
		if (!take(&column[0], &value) || !value || value >= sites - number)
			return -EBADMSG;
		number += value;
		for (int c = 1; c < COLUMNS; c++) {
			if (!take(&column[c], &value))
				return -EBADMSG;
			change[c - 1] = unzigzag(value);
		}
		apply(&table->site[number], change);
	}
	return 0;
}

int mt_mts_decode(const struct mt_mts_frame *f, const uint8_t *body, struct mt_mts_table *table)
{
	mt_auto(free) uint8_t *raw = mt_alloc(f->raw_bytes);
	struct cursor all = {raw, raw + f->raw_bytes};
	int r;
	if (!raw)
		return -ENOMEM;
	if (f->flags & MT_MTS_KEY)
		table->count = 0;
	if (f->sites < table->count ||
	    f->sites - table->count > (uint64_t)f->frame_bytes * MT_MTS_SITES_RATIO)
		return -EBADMSG;
	if (ZSTD_decompress(raw, f->raw_bytes, body, f->body_bytes) != f->raw_bytes)
		return -EBADMSG;
	r = mt_mts_table_grow(table, f->sites);
	return r ? r : take_columns(&all, f->sites, table);
}
