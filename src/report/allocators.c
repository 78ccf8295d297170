/* SPDX-License-Identifier: MIT */
/* Arenas as a table, with the sentence that says where the memory is that nobody uses. */

#include "report/allocators.h"

#include "base/escape.h"
#include "base/units.h"
#include "model/profile.h"
#include "report/grid.h"
#include "report/internal.h"
#include "report/json_report.h"

#include <errno.h>
#include <inttypes.h>

/* Headers, padding and the allocator's own structures: what is left of what is held. */
static uint64_t overhead_of(const struct mt_heap *h, const struct mt_heap_arena *a)
{
	uint64_t known = a->live_bytes + a->free_bytes + a->top_bytes;

	if (h->damages_in_all) /* what was skipped is neither */
		known += h->skipped_bytes;
	return a->held_bytes > known ? a->held_bytes - known : 0;
}

static const char *source_of(const struct mt_image_facts *f)
{
	switch (f->source) {
	case MT_IMAGE_COPY:
		return "a copy of the process at one moment";
	case MT_IMAGE_STOPPED:
		return "the process while it stood still";
	case MT_IMAGE_CORE:
		return "a core file";
	default:
		return "the running process: its memory changed meanwhile";
	}
}

static const char *const source_words[] = {"live", "stopped", "copy", "core"};

/* ---- text ---- */

struct part {
	const char *what;
	uint64_t bytes;
};

/* "86 % is free between live blocks, 10 % ...", the largest part first. */
static void add_parts(const struct mt_heap *h, const struct mt_heap_arena *s, struct mt_buf *out)
{
	struct part part[] = {
		{"free between live blocks", s->free_bytes - s->cached_bytes},
		{"in caches of threads", s->cached_bytes},
		{"at the ends of arenas (never given yet)", s->top_bytes},
		{"headers, padding and the allocator's own", overhead_of(h, s)},
		{"not known (see below)", h->skipped_bytes},
	};
	uint64_t whole = 0;
	bool is_first = true;

	for (size_t i = 0; i < MT_ARRAY_LEN(part); i++)
		whole += part[i].bytes;
	if (!whole)
		return;
	mt_buf_adds(out, ":");
	for (size_t round = 0; round < MT_ARRAY_LEN(part); round++) {
		struct part *most = &part[0];

		for (size_t i = 1; i < MT_ARRAY_LEN(part); i++)
			if (part[i].bytes > most->bytes)
				most = &part[i];
		if (most->bytes * 200 < whole) /* less than a half per cent */
			break;
		mt_buf_printf(out, "%s %.0f %% %s%s", is_first ? "" : ",",
			      100.0 * (double)most->bytes / (double)whole,
			      is_first ? "of the rest " : "", most->what);
		is_first = false;
		most->bytes = 0;
	}
}

static void add_head(const struct mt_heap *h, const struct mt_image_facts *f,
		     const struct mt_heap_arena *s, struct mt_buf *out)
{
	char held[MT_UNITS_TEXT_MAX], live[MT_UNITS_TEXT_MAX], count[MT_UNITS_TEXT_MAX];

	if (f->pid > 0)
		mt_buf_printf(out, "%d ", (int)f->pid);
	mt_escape(out, f->program);
	mt_buf_printf(out, "\nallocator  %s %s\nread from  %s", h->allocator, h->version,
		      source_of(f));
	if (f->stop_ns)
		mt_buf_printf(out, " (it stood still for %s)", mt_units_time(f->stop_ns, held));
	mt_buf_printf(out, "\n\n%s held by %s for %s live in %s block%s",
		      mt_units_size(s->held_bytes, held), h->allocator,
		      mt_units_size(s->live_bytes, live), mt_units_count(s->live_blocks, count),
		      s->live_blocks == 1 ? "" : "s");
	add_parts(h, s, out);
	mt_buf_adds(out, "\n");
	if (s->free_page_bytes)
		mt_buf_printf(out,
			      "whole pages among the free blocks: %s, the rest of them share their "
			      "pages with live blocks\n",
			      mt_units_size(s->free_page_bytes, held));
	mt_buf_adds(out, "\n");
}

static void add_size(struct mt_grid *g, uint64_t bytes)
{
	char text[MT_UNITS_TEXT_MAX];

	mt_grid_add(g, bytes ? mt_units_size(bytes, text) : "-");
}

static void add_row(struct mt_grid *g, const struct mt_heap *h, const struct mt_heap_arena *a,
		    bool is_sum)
{
	char text[MT_UNITS_TEXT_MAX];

	if (is_sum)
		mt_grid_add(g, "all");
	else if (a->is_left_over)
		mt_grid_add(g, "threads ended");
	else if (!a->address)
		mt_grid_addf(g, "%zu", (size_t)(a - h->arenas));
	else
		mt_grid_addf(g, "0x%" PRIx64 "%s", a->address,
			     a == h->arenas && h->arena_count > 1 ? " (main)" : "");
	add_size(g, a->held_bytes);
	add_size(g, a->live_bytes);
	mt_grid_add(g, mt_units_count(a->live_blocks, text));
	add_size(g, a->mapped_bytes);
	add_size(g, a->free_bytes - a->cached_bytes);
	mt_grid_add(g, mt_units_count(a->free_blocks - a->cached_blocks, text));
	add_size(g, a->cached_bytes);
	add_size(g, a->top_bytes);
}

static int add_table(const struct mt_heap *h, const struct mt_heap_arena *s, struct mt_buf *out)
{
	static const char *const heads[] = {"arena", "held",   "live",   "blocks", "of them mapped",
					    "free",  "blocks", "cached", "end"};
	mt_auto(mt_grid) struct mt_grid g = {0};

	mt_grid_init(&g, "lrrrrrrrr");
	for (size_t i = 0; i < MT_ARRAY_LEN(heads); i++)
		mt_grid_add(&g, heads[i]);
	for (size_t i = 0; i < h->arena_count; i++)
		add_row(&g, h, &h->arenas[i], /* is_sum */ false);
	if (h->arena_count > 1)
		add_row(&g, h, s, /* is_sum */ true);
	return mt_grid_write(&g, 2, out);
}

static void add_damage(const struct mt_heap *h, struct mt_buf *out)
{
	char text[MT_UNITS_TEXT_MAX];

	if (!h->damages_in_all && !h->skipped_bytes)
		return;
	mt_buf_printf(out, "\nwhat does not agree: %s place%s",
		      mt_units_count(h->damages_in_all, text), h->damages_in_all == 1 ? "" : "s");
	if (h->skipped_bytes)
		mt_buf_printf(out, "; %s could not be read as blocks",
			      mt_units_size(h->skipped_bytes, text));
	mt_buf_adds(out, "\n");
	for (size_t i = 0; i < h->damage_count; i++)
		mt_buf_printf(out, "  0x%" PRIx64 "  %s\n", h->damages[i].address,
			      h->damages[i].text);
	if (h->damages_in_all > h->damage_count)
		mt_buf_printf(out, "  and %s more\n",
			      mt_units_count(h->damages_in_all - h->damage_count, text));
}

/* How many of the pinners are told; those that no site owns are one of them. */
static size_t told_pinners(const struct mt_allocators_report *r)
{
	size_t count = r->sites ? r->pinned->pinner_count : 0;

	return r->top && r->top < count ? (size_t)r->top : count;
}

static void add_pinner(const struct mt_allocators_report *r, size_t i, struct mt_buf *out)
{
	const struct mt_heap_pinner *p = &r->pinned->pinners[i];
	char pages[MT_UNITS_TEXT_MAX], alone[MT_UNITS_TEXT_MAX], live[MT_UNITS_TEXT_MAX],
		blocks[MT_UNITS_TEXT_MAX];

	mt_buf_printf(out,
		      "\n%zu. %s of such pages, %s of them for this alone: %s in %s block%s%s\n",
		      i + 1, mt_units_size(p->page_bytes, pages),
		      p->alone_bytes ? mt_units_size(p->alone_bytes, alone) : "none",
		      mt_units_size(p->live_bytes, live), mt_units_count(p->live_blocks, blocks),
		      p->live_blocks == 1 ? "" : "s",
		      p->owner ? "" : " of no call site (made before the start, or libc's own)");
	if (p->owner)
		mt_text_stack_at(r->sites, r->sites->profiles[0],
				 r->sites->profiles[0]->site[p->owner].node, out);
}

/* Pages with little on them, and whose that is. */
static void add_pinned(const struct mt_allocators_report *r, struct mt_buf *out)
{
	char pages[MT_UNITS_TEXT_MAX], live[MT_UNITS_TEXT_MAX];
	size_t told = told_pinners(r);

	if (!r->pinned->page_bytes)
		return;
	mt_buf_printf(out, "\npages at most half of which is live: %s, for %s of live blocks%s\n",
		      mt_units_size(r->pinned->page_bytes, pages),
		      mt_units_size(r->pinned->live_bytes, live),
		      told ? "; by call site, a page counts at each that has a block on it:"
		      : r->is_partly_recorded ? " (no call sites: not every block is recorded)"
					      : "");
	for (size_t i = 0; i < told; i++)
		add_pinner(r, i, out);
	if (r->sites && told < r->pinned->pinner_count)
		mt_buf_printf(out, "\nand %s more (--top=0 lists all)\n",
			      mt_units_count(r->pinned->pinner_count - told, pages));
}

int mt_allocators_text(const struct mt_allocators_report *r, struct mt_buf *out)
{
	struct mt_heap_arena s = mt_heap_sum(r->heap);
	int code;

	add_head(r->heap, r->facts, &s, out);
	code = add_table(r->heap, &s, out);
	add_pinned(r, out);
	add_damage(r->heap, out);
	return code || out->failed ? -ENOMEM : 0;
}

/* ---- JSON ---- */

static void add_numbers(struct mt_json *j, const struct mt_heap_arena *a)
{
	mt_json_u64(j, "held_bytes", a->held_bytes);
	mt_json_u64(j, "live_bytes", a->live_bytes);
	mt_json_u64(j, "live_blocks", a->live_blocks);
	mt_json_u64(j, "mapped_bytes", a->mapped_bytes);
	mt_json_u64(j, "mapped_blocks", a->mapped_blocks);
	mt_json_u64(j, "free_bytes", a->free_bytes);
	mt_json_u64(j, "free_blocks", a->free_blocks);
	mt_json_u64(j, "free_page_bytes", a->free_page_bytes);
	mt_json_u64(j, "cached_bytes", a->cached_bytes);
	mt_json_u64(j, "cached_blocks", a->cached_blocks);
	mt_json_u64(j, "top_bytes", a->top_bytes);
	mt_json_u64(j, "own_bytes", a->own_bytes);
	mt_json_u64(j, "own_blocks", a->own_blocks);
}

static void json_pinner(struct mt_json *j, const struct mt_allocators_report *r,
			const struct mt_heap_pinner *p)
{
	const struct mt_profile *profile = r->sites->profiles[0];

	mt_json_open(j, NULL, '{');
	mt_json_u64(j, "page_bytes", p->page_bytes);
	mt_json_u64(j, "alone_bytes", p->alone_bytes);
	mt_json_u64(j, "live_bytes", p->live_bytes);
	mt_json_u64(j, "live_blocks", p->live_blocks);
	if (p->owner) {
		mt_json_string(j, "call", mt_words_call(profile->site[p->owner].call));
		mt_json_open(j, "stack", '[');
		mt_stack_each_at(r->sites, profile, profile->site[p->owner].node, mt_json_frame, j);
		mt_json_close(j, ']');
	}
	mt_json_close(j, '}');
}

static void json_pinned(struct mt_json *j, const struct mt_allocators_report *r)
{
	size_t told = told_pinners(r);

	mt_json_open(j, "pinned", '{');
	mt_json_u64(j, "page_bytes", r->pinned->page_bytes);
	mt_json_u64(j, "live_bytes", r->pinned->live_bytes);
	if (r->sites) {
		mt_json_u64(j, "site_count", r->pinned->pinner_count);
		mt_json_open(j, "sites", '[');
		for (size_t i = 0; i < told; i++)
			json_pinner(j, r, &r->pinned->pinners[i]);
		mt_json_close(j, ']');
	}
	mt_json_close(j, '}');
}

static void json_arenas(struct mt_json *j, const struct mt_heap *h)
{
	mt_json_open(j, "arenas", '[');
	for (size_t i = 0; i < h->arena_count; i++) {
		mt_json_open(j, NULL, '{');
		mt_json_u64(j, "address", h->arenas[i].address);
		add_numbers(j, &h->arenas[i]);
		mt_json_close(j, '}');
	}
	mt_json_close(j, ']');
}

int mt_allocators_json(const struct mt_allocators_report *r, struct mt_buf *out)
{
	const struct mt_heap *h = r->heap;
	const struct mt_image_facts *facts = r->facts;
	struct mt_heap_arena s = mt_heap_sum(h);
	struct mt_json j = {.out = out};

	mt_json_open(&j, NULL, '{');
	mt_json_string(&j, "schema", MT_JSON_SCHEMA_ALLOCATORS);
	mt_json_i64(&j, "pid", facts->pid);
	mt_json_string(&j, "program", facts->program);
	mt_json_string(&j, "source", source_words[facts->source]);
	mt_json_u64(&j, "stop_ns", facts->stop_ns);
	mt_json_string(&j, "allocator", h->allocator);
	mt_json_string(&j, "version", h->version);
	add_numbers(&j, &s);
	mt_json_u64(&j, "skipped_bytes", h->skipped_bytes);
	json_arenas(&j, h);
	json_pinned(&j, r);
	mt_json_u64(&j, "damages", h->damages_in_all);
	mt_json_open(&j, "damage", '[');
	for (size_t i = 0; i < h->damage_count; i++) {
		mt_json_open(&j, NULL, '{');
		mt_json_u64(&j, "address", h->damages[i].address);
		mt_json_string(&j, "text", h->damages[i].text);
		mt_json_close(&j, '}');
	}
	mt_json_close(&j, ']');
	mt_json_close(&j, '}');
	mt_buf_addc(out, '\n');
	return out->failed ? -ENOMEM : 0;
}
