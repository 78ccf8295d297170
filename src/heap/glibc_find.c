/* SPDX-License-Identifier: MIT */
/*
 * The main arena and the parameters of glibc's malloc, found without symbols: in the writable
 * memory of the library they are the only bytes that satisfy what always holds for them.
 */

#include "heap/glibc.h"

#include "base/alloc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MINOR_FIRST = 27, MINOR_LAST = 41, GOOD_BINS = 100, ARENAS_MAX = 1 << 16 };

static int set_layout(struct glibc_layout *l, unsigned minor)
{
	if (minor < MINOR_FIRST || minor > MINOR_LAST)
		return -ENOTSUP;
	*l = (struct glibc_layout){
		.minor = minor,
		.heap_info_bytes = minor < 35 ? 32 : 48,
		.count_bytes = minor < 30 ? 1 : 2,
		.is_linked_safely = minor >= 32,
		.is_key_cache_address = minor >= 29 && minor < 34,
		.is_key_random = minor >= 34,
		.at_mmaps = minor < 35 ? 40 : 60,
		.at_mmapped_bytes = minor < 35 ? 56 : 80,
		.at_sbrk_base = minor < 35 ? 72 : 96,
		.at_tcache = minor < 35 ? 80 : 104,
		.at_huge_page = minor < 35 ? 0 : 48,
	};
	return 0;
}

/* The one text "2.NN" of what a segment cannot change; 0: there is none, 1: there are several. */
static unsigned bare_version(const uint8_t *data, size_t bytes, unsigned minor)
{
	for (size_t at = 0; at + 6 <= bytes; at++) {
		const uint8_t *c = data + at;
		unsigned found;

		if (c[0] || c[1] != '2' || c[2] != '.' || c[3] < '0' || c[3] > '9' || c[4] < '0' ||
		    c[4] > '9' || c[5])
			continue;
		found = 10u * (c[3] - '0') + (c[4] - '0');
		if (minor && found != minor)
			return 1;
		minor = found;
	}
	return minor;
}

/* A static program has no more of it than this; what is found must prove the version then. */
static int find_bare_version(struct mt_glibc *g, unsigned *ret_minor)
{
	*ret_minor = 0;
	for (uint32_t i = 0; i < g->module->segment_count && *ret_minor != 1; i++) {
		const struct mt_image_segment *s = &g->module->segments[i];
		mt_auto(free) uint8_t *data = NULL;
		size_t bytes;

		if (s->flags & MT_MAPPING_WRITE)
			continue;
		data = mt_heap_segment_bytes(g->b->im, s, &bytes);
		if (!data)
			return -ENOMEM;
		*ret_minor = bare_version(data, bytes, *ret_minor);
	}
	return *ret_minor > 1 ? 0 : -ENOENT;
}

/* The version is told by the text that the library prints when it is run. */
static int find_version(struct mt_glibc *g, struct mt_err *err)
{
	char text[128] = "";
	const char *release;
	unsigned minor = 0;
	int code = mt_heap_find_text(g->b->im, g->module, "GNU C Library (", text, sizeof(text));

	release = strstr(text, "release version 2.");
	if (!code && (!release || sscanf(release, "release version 2.%u", &minor) != 1))
		code = -ENOENT;
	if (code == -ENOENT && g->module->is_main)
		code = find_bare_version(g, &minor);
	if (code == -ENOMEM)
		return mt_err_no_memory(err);
	if (code)
		return mt_err_set(err, -ENOTSUP,
				  "'%s' is glibc, but does not tell its version: the layout of its "
				  "heap is not known",
				  g->module->path);
	snprintf(g->b->h->version, sizeof(g->b->h->version), "2.%u", minor);
	if (set_layout(&g->layout, minor))
		return mt_err_set(
			err, -ENOTSUP,
			"'%s' is glibc 2.%u, the layout of whose heap is not known; known "
			"are 2.%d to 2.%d",
			g->module->path, minor, MINOR_FIRST, MINOR_LAST);
	return 0;
}

/* ---- the main arena ---- */

static uint64_t word_at(const uint8_t *data, size_t at)
{
	uint64_t word;

	memcpy(&word, data + at, sizeof(word));
	return word;
}

/* Where the pseudo-chunk of bin i lies: its links are words 2i and 2i + 1. */
static uint64_t bin_at(uint64_t arena, unsigned i)
{
	return arena + offsetof(struct glibc_state, bins) - GLIBC_HEADER + GLIBC_HEADER * i;
}

static bool is_linked_back(struct mt_glibc *g, uint64_t chunk, uint64_t bin)
{
	uint64_t back;

	return !(chunk & 15) && !mt_peek_u64(&g->b->peek, chunk + 24, &back) && back == bin;
}

/* How many of the bins are what a bin can be: empty, or a ring. */
static unsigned good_bins(struct mt_glibc *g, const uint8_t *data, uint64_t arena)
{
	const size_t bins = offsetof(struct glibc_state, bins);
	unsigned good = 0;

	for (unsigned i = 0; i < GLIBC_BINS; i++) {
		uint64_t first = word_at(data, bins + 16 * i);
		uint64_t last = word_at(data, bins + 16 * i + 8);
		uint64_t bin = bin_at(arena, i);

		if (first == bin && last == bin)
			good++;
		else if (first != bin && last != bin && first && is_linked_back(g, first, bin))
			good++;
		else if (i > 20 && good < i / 2)
			break;
	}
	return good;
}

/* Counters and links that no other bytes are likely to have. */
static bool may_be_arena(struct mt_glibc *g, const uint8_t *data)
{
	struct glibc_state s;

	memcpy(&s, data, sizeof(s));
	return s.next && !(s.next & 7) && s.mutex <= 2 && s.attached <= 1 << 20 &&
	       s.system_bytes <= s.system_bytes_max && s.flags <= 7 &&
	       mt_heap_is_writable(g->b, s.next, sizeof(s));
}

/* An arena that was never used: its one link leads to itself. */
static bool is_untouched(const uint8_t *data, uint64_t address)
{
	struct glibc_state s;

	memcpy(&s, data, sizeof(s));
	return s.next == address && s.attached == 1 && !s.top && !s.system_bytes && !s.bins[0] &&
	       !s.bins[GLIBC_BIN_WORDS - 1];
}

/* Whether the ring of arenas that begins here comes back. */
static bool is_ring(struct mt_glibc *g, uint64_t first)
{
	uint64_t at = first;

	for (unsigned i = 0; i < ARENAS_MAX; i++)
		if (mt_peek_u64(&g->b->peek, at + offsetof(struct glibc_state, next), &at) ||
		    at & 7)
			return false;
		else if (at == first)
			return true;
	return false;
}

static void look_for_arena(struct mt_glibc *g, const struct mt_image_segment *s,
			   const uint8_t *data, size_t bytes, unsigned *best)
{
	for (size_t at = 0; at + sizeof(struct glibc_state) <= bytes; at += 8) {
		uint64_t address = s->start + at;
		unsigned good;

		if (!may_be_arena(g, data + at))
			continue;
		if (is_untouched(data + at, address) && !g->main_arena)
			g->main_arena = address;
		good = good_bins(g, data + at, address);
		if (good < GOOD_BINS)
			continue;
		/* a broken ring is damage, a whole one decides */
		good += is_ring(g, address) ? GLIBC_BINS : 0;
		if (good > *best) {
			*best = good;
			g->main_arena = address;
		}
	}
}

/* ---- parameters ---- */

static bool are_params(const struct mt_glibc *g, const uint8_t *data, struct glibc_params *p)
{
	const struct glibc_layout *l = &g->layout;
	uint64_t cache_bytes = word_at(data, l->at_tcache + 8), huge = 0;
	uint64_t mapped_max = word_at(data, l->at_mmapped_bytes + 8);
	uint32_t count[3]; /* now, limit, most */

	memcpy(count, data + l->at_mmaps, sizeof(count));
	*p = (struct glibc_params){
		.is_known = true,
		.sbrk_base = word_at(data, l->at_sbrk_base),
		.mmaps = count[0],
		.mmapped_bytes = word_at(data, l->at_mmapped_bytes),
		.tcache_bins = word_at(data, l->at_tcache),
		.tcache_count = word_at(data, l->at_tcache + 16),
		.heap_bytes_max = 64 << 20,
	};
	if (l->at_huge_page)
		huge = word_at(data, l->at_huge_page);
	if (huge)
		p->heap_bytes_max = huge * 4;
	if (huge & (huge - 1) || huge > 1ull << 34 || cache_bytes > 1 << 20)
		return false;
	/* the number of bins follows from the largest block that they take */
	cache_bytes = MT_MAX(MT_ALIGN_UP(cache_bytes + 8, 16u), (uint64_t)GLIBC_MIN_CHUNK);
	return p->tcache_bins == (cache_bytes - GLIBC_MIN_CHUNK) / 16 + 1 &&
	       p->tcache_bins <= GLIBC_TCACHE_BINS && p->tcache_count <= UINT16_MAX &&
	       p->mmaps <= count[2] && p->mmapped_bytes <= mapped_max &&
	       !(p->mmapped_bytes & 4095) && !p->mmaps == !p->mmapped_bytes &&
	       word_at(data, 24) <= 1 << 20 && !(p->sbrk_base & 15);
}

/* sbrk_base is part of the proof: it is where the main arena begins. */
static void look_for_params(struct mt_glibc *g, const struct mt_image_segment *s,
			    const uint8_t *data, size_t bytes)
{
	const size_t need = g->layout.at_tcache + 32;
	struct glibc_params p;

	for (size_t at = 0; at + need <= bytes; at += 8) {
		if (!are_params(g, data + at, &p))
			continue;
		p.address = s->start + at;
		if (p.sbrk_base && !mt_heap_is_writable(g->b, p.sbrk_base, 1))
			continue;
		if (!g->params.is_known || (p.sbrk_base && !g->params.sbrk_base))
			g->params = p;
	}
}

int glibc_find(struct mt_glibc *g, struct mt_err *err)
{
	unsigned best = 0;
	int code = find_version(g, err);

	for (uint32_t i = 0; i < g->module->segment_count && !code; i++) {
		const struct mt_image_segment *s = &g->module->segments[i];
		mt_auto(free) uint8_t *data = NULL;
		size_t bytes;

		if (!(s->flags & MT_MAPPING_WRITE))
			continue;
		data = mt_heap_segment_bytes(g->b->im, s, &bytes);
		if (!data)
			return mt_err_no_memory(err);
		look_for_arena(g, s, data, bytes, &best);
		look_for_params(g, s, data, bytes);
	}
	if (!code && !g->main_arena)
		code = mt_err_set(err, -ENOTSUP,
				  "nothing in '%s' is built as the main arena of glibc 2.%u is",
				  g->module->path, g->layout.minor);
	if (!g->params.is_known)
		g->params = (struct glibc_params){.tcache_count = UINT16_MAX,
						  .tcache_bins = GLIBC_TCACHE_BINS,
						  .heap_bytes_max = 64 << 20};
	return code;
}
