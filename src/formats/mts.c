/* SPDX-License-Identifier: MIT */
/*
 * Frames of a series. A body holds only what changed, column by column, since like numbers pack
 * best beside each other.
 */
#include "formats/mts.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <zstd.h>

#include "base/alloc.h"
#include "core/hash.h"

enum {
	LEVEL = 3,
	BASE = 4,     /* values of a site */
	SAMPLED = 11, /* more of one with samples */
	VALUES = BASE + SAMPLED,
	COLUMNS = VALUES + 1, /* its number is the first */
	NUMBER_MAX = 10,
	UNIT_BITS = 7, /* of what one sample brings */
	UNIT_MAX = 127,
	UNITS_BITS = 52, /* of a variance in units */
};

/* ---- tables ---- */

void mt_mts_table_done(struct mt_mts_table *t)
{
	if (t) {
		free(t->site);
		free(t->sampled);
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

static int grow_sampled(struct mt_mts_table *t, uint32_t count)
{
	struct mt_series_sampled *grown;
	if (count <= t->sampled_count)
		return 0;
	grown = mt_alloc_grow(t->sampled, &t->sampled_capacity, count, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	t->sampled = grown;
	memset(t->sampled + t->sampled_count, 0, (count - t->sampled_count) * sizeof(*t->sampled));
	t->sampled_count = count;
	return 0;
}

int mt_mts_table_grow_sampled(struct mt_mts_table *t)
{
	return grow_sampled(t, t->count);
}

struct mt_series_sampled mt_mts_table_sampled(const struct mt_mts_table *t, uint32_t site)
{
	return t && site < t->sampled_count ? t->sampled[site] : (struct mt_series_sampled){0};
}

int mt_mts_table_copy(struct mt_mts_table *to, const struct mt_mts_table *from)
{
	int r = mt_mts_table_grow(to, from->count);
	if (!r)
		r = grow_sampled(to, from->sampled_count);
	if (r)
		return r;
	if (from->count)
		memcpy(to->site, from->site, from->count * sizeof(*to->site));
	if (from->sampled_count)
		memcpy(to->sampled, from->sampled, from->sampled_count * sizeof(*to->sampled));
	to->count = from->count;
	to->sampled_count = from->sampled_count;
	to->knows_samples = from->knows_samples;
	return 0;
}

/* ---- units of variances ---- */

/* `all` is the variance of what was ever sampled. */
static uint8_t choose_unit(double all, uint64_t samples, uint8_t before, double all_before)
{
	int unit;
	if (!(all > 0))
		return before;
	if (all_before > 0 && all < ldexp(1, before + UNITS_BITS))
		return before;
	unit = MT_MAX(ilogb(all / (double)MT_MAX(samples, 1u)) - UNIT_BITS,
		      ilogb(all) + 1 - UNITS_BITS);
	return (uint8_t)MT_MIN(MT_MAX(unit, 0), (int)UNIT_MAX);
}

void mt_mts_table_choose_units(struct mt_mts_table *t, const struct mt_mts_table *before)
{
	for (uint32_t i = 1; i < t->sampled_count; i++) {
		struct mt_series_sampled *s = &t->sampled[i], b = mt_mts_table_sampled(before, i);
		uint64_t samples = s->live.samples + s->freed.samples;
		s->bytes_unit =
			choose_unit(s->live.bytes_variance + s->freed.bytes_variance, samples,
				    b.bytes_unit, b.live.bytes_variance + b.freed.bytes_variance);
		s->count_unit =
			choose_unit(s->live.count_variance + s->freed.count_variance, samples,
				    b.count_unit, b.live.count_variance + b.freed.count_variance);
	}
}

static uint64_t to_units(double v, unsigned unit)
{
	double units = ldexp(v, -(int)unit) + 0.5;
	return !(units >= 1) ? 0 : units < 0x1p62 ? (uint64_t)units : (uint64_t)1 << 62;
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

/* The values that stand in the columns of samples. */
static void sampled_values(const struct mt_series_sampled *s, uint64_t ret[SAMPLED])
{
	ret[0] = s->live.samples;
	ret[1] = s->freed.samples;
	ret[2] = s->live.seen_bytes;
	ret[3] = s->freed.seen_bytes;
	ret[4] = s->freed_bytes;
	ret[5] = s->bytes_unit;
	ret[6] = to_units(s->live.bytes_variance, s->bytes_unit);
	ret[7] = to_units(s->freed.bytes_variance, s->bytes_unit);
	ret[8] = s->count_unit;
	ret[9] = to_units(s->live.count_variance, s->count_unit);
	ret[10] = to_units(s->freed.count_variance, s->count_unit);
}

/* The other way round; false: no such values are written. */
static bool take_sampled_values(const uint64_t v[SAMPLED], struct mt_series_sampled *s)
{
	if (v[5] > UNIT_MAX || v[8] > UNIT_MAX)
		return false;
	*s = (struct mt_series_sampled){
		.live = {v[0], v[2], ldexp((double)v[6], (int)v[5]),
			 ldexp((double)v[9], (int)v[8])},
		.freed = {v[1], v[3], ldexp((double)v[7], (int)v[5]),
			  ldexp((double)v[10], (int)v[8])},
		.freed_bytes = v[4],
		.bytes_unit = (uint8_t)v[5],
		.count_unit = (uint8_t)v[8],
	};
	return true;
}

/* Changes of what the site has of samples; false: there is none. */
static bool find_sampled_changes(const struct mt_mts_table *before, const struct mt_mts_table *now,
				 uint32_t i, uint64_t ret[SAMPLED])
{
	struct mt_series_sampled from = mt_mts_table_sampled(before, i);
	struct mt_series_sampled to = mt_mts_table_sampled(now, i);
	uint64_t old[SAMPLED], value[SAMPLED], any = 0;
	sampled_values(&from, old);
	sampled_values(&to, value);
	for (int c = 0; c < SAMPLED; c++) {
		ret[c] = value[c] - old[c];
		any |= ret[c];
	}
	return any;
}

/* The first `values` changes of the site, in the order of the columns; false: there is none. */
static bool find_changes(const struct mt_mts_table *before, const struct mt_mts_table *now,
			 uint32_t i, int values, uint64_t ret[VALUES])
{
	struct mt_series_site from = at(before, i), to = now->site[i];
	bool is_changed = !is_same(&from, &to);
	ret[0] = to.bytes - from.bytes;
	ret[1] = to.allocs - from.allocs;
	ret[2] = to.count - from.count;
	ret[3] = to.frees - from.frees - (ret[1] - ret[2]);
	if (values > BASE && find_sampled_changes(before, now, i, ret + BASE))
		is_changed = true;
	return is_changed;
}

/* The columns of the sites that changed, values + 1 of them. */
static void put_columns(const struct mt_mts_table *before, const struct mt_mts_table *now,
			int values, struct mt_buf *raw)
{
	struct mt_buf column[COLUMNS] = {{0}};
	uint64_t n = 0, change[VALUES];
	uint32_t last = 0;
	for (uint32_t i = 1; i < now->count; i++) {
		if (!find_changes(before, now, i, values, change))
			continue;
		put(&column[0], i - last);
		for (int c = 0; c < values; c++)
			put(&column[c + 1], zigzag(change[c]));
		last = i;
		n++;
	}
	put(raw, n);
	for (int c = 0; c <= values; c++) {
		mt_buf_add(raw, mt_buf_text(&column[c]), column[c].len);
		raw->failed |= column[c].failed;
		mt_buf_done(&column[c]);
	}
}

/* Whether the body needs columns for samples. */
static bool has_sampled_changes(const struct mt_mts_table *before, const struct mt_mts_table *now)
{
	uint32_t count = MT_MAX(now->sampled_count, before ? before->sampled_count : 0);
	uint64_t change[SAMPLED];
	for (uint32_t i = 1; now->knows_samples && i < MT_MIN(count, now->count); i++)
		if (find_sampled_changes(before, now, i, change))
			return true;
	return false;
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
		.flags =
			(p->is_usable ? MT_MTS_USABLE : 0u) | (p->is_counted ? MT_MTS_COUNTED : 0u),
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
	bool has_sampled = has_sampled_changes(before, now);
	mt_auto(mt_buf) struct mt_buf raw = {0};
	size_t start = out->len;
	uint8_t *frame;
	int r;
	f.flags |= before ? 0 : MT_MTS_KEY;
	f.flags |= now->knows_samples ? MT_MTS_SAMPLES : 0;
	f.sites = now->count;
	f.flags |= has_sampled ? MT_MTS_COLUMNS : 0;
	put_columns(before, now, has_sampled ? VALUES : BASE, &raw);
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
		.is_counted = (f->flags & MT_MTS_COUNTED) != 0,
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

static void apply(struct mt_series_site *s, const uint64_t change[BASE])
{
	s->bytes += change[0];
	s->allocs += change[1];
	s->count += change[2];
	s->frees += change[3] + (change[1] - change[2]);
}

static bool apply_sampled(struct mt_series_sampled *s, const uint64_t change[SAMPLED])
{
	uint64_t value[SAMPLED];
	sampled_values(s, value);
	for (int c = 0; c < SAMPLED; c++)
		value[c] += change[c];
	return take_sampled_values(value, s);
}

/* Where the columns lie, each of n numbers. */
static int find_columns(struct cursor *all, int columns, uint64_t *ret_n, struct cursor *column)
{
	if (!take(all, ret_n))
		return -EBADMSG;
	for (int c = 0; c < columns; c++) {
		column[c] = *all;
		if (!skip(all, *ret_n))
			return -EBADMSG;
		column[c].end = all->at;
	}
	return all->at == all->end ? 0 : -EBADMSG;
}

static int take_columns(struct cursor *all, uint32_t sites, bool has_sampled,
			struct mt_mts_table *table)
{
	int values = has_sampled ? VALUES : BASE;
	struct cursor column[COLUMNS];
	uint64_t n, number = 0, value;
	int r = find_columns(all, values + 1, &n, column);
	for (uint64_t i = 0; !r && i < n; i++) {
		uint64_t change[VALUES];
		if (!take(&column[0], &value) || !value || value >= sites - number)
			return -EBADMSG;
		number += value;
		for (int c = 0; c < values; c++) {
			if (!take(&column[c + 1], &value))
				return -EBADMSG;
			change[c] = unzigzag(value);
		}
		apply(&table->site[number], change);
		if (has_sampled && !apply_sampled(&table->sampled[number], change + BASE))
			return -EBADMSG;
	}
	return r;
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
	if (f->flags & MT_MTS_KEY || !(f->flags & MT_MTS_SAMPLES))
		table->sampled_count = 0;
	table->knows_samples = (f->flags & MT_MTS_SAMPLES) != 0;
	if (f->sites < table->count ||
	    f->sites - table->count > (uint64_t)f->frame_bytes * MT_MTS_SITES_RATIO)
		return -EBADMSG;
	if (ZSTD_decompress(raw, f->raw_bytes, body, f->body_bytes) != f->raw_bytes)
		return -EBADMSG;
	r = mt_mts_table_grow(table, f->sites);
	if (!r && f->flags & MT_MTS_COLUMNS)
		r = mt_mts_table_grow_sampled(table);
	return r ? r : take_columns(&all, f->sites, f->flags & MT_MTS_COLUMNS, table);
}
