/* SPDX-License-Identifier: MIT */
/* What the allocator of the process says, read from a copy. */

#include "cli/triage_parts.h"

#include "cli/leak_search.h"
#include "core/cc.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* More takes so long that the readings of the second half would be late. */
enum { SEARCHED_TWICE_MAX_BYTES = 256 << 20 };

static int refuse(enum mt_triage_step *step, char why[MT_TRIAGE_WHY_MAX], const char *text)
{
	*step = MT_TRIAGE_REFUSED;
	snprintf(why, MT_TRIAGE_WHY_MAX, "%s", text);
	return 0;
}

static int refuse_heap(struct mt_triage_facts *f, const char *text)
{
	return refuse(&f->heap.step, f->heap.why, text);
}

/* The allocator alone. 0 or a negative errno value. */
static int read_heap(const struct mt_triage_watch *w, struct mt_triage_facts *f,
		     struct mt_heap *ret)
{
	struct mt_image *im = NULL;
	struct mt_err err = {0};
	int code = mt_image_open_process(w->pid, MT_IMAGE_COPY, &im, &err);

	if (!code)
		code = mt_heap_read(im, ret, &err);
	if (im)
		f->heap.stop_ns += mt_image_facts(im)->stop_ns;
	mt_image_close(im);
	return code;
}

/*
 * A copy may be of a moment in which a thread is changing the heap. Damage is still there in
 * another copy, at the same address.
 */
static int confirm_damage(const struct mt_triage_watch *w, struct mt_triage_facts *f)
{
	mt_auto(mt_heap) struct mt_heap h = {0};
	int code;

	if (!f->heap.damages)
		return 0;
	code = read_heap(w, f, &h);
	if (code)
		return code == -ENOMEM ? code : 0;
	for (size_t i = 0; i < h.damage_count; i++)
		if (h.damages[i].address == f->heap.damage_address)
			return 0;
	f->heap.passing_damages = f->heap.damages;
	f->heap.damages = 0;
	return 0;
}

static void take_heap(struct mt_triage_heap *to, const struct mt_heap *h)
{
	struct mt_heap_arena s = mt_heap_sum(h);

	to->step = MT_TRIAGE_DONE;
	snprintf(to->allocator, sizeof(to->allocator), "%s %s", h->allocator, h->version);
	to->held_bytes = s.held_bytes;
	to->live_bytes = s.live_bytes;
	to->live_blocks = s.live_blocks;
	to->free_bytes = s.free_bytes - s.cached_bytes;
	to->cached_bytes = s.cached_bytes;
	to->top_bytes = s.top_bytes;
	to->damages = h->damages_in_all;
	to->skipped_bytes = h->skipped_bytes;
	if (h->damage_count) {
		to->damage_address = h->damages[0].address;
		snprintf(to->damage, sizeof(to->damage), "%s", h->damages[0].text);
	}
}

static void take_reach(struct mt_triage_reach *to, const struct mt_find *find)
{
	to->step = MT_TRIAGE_DONE;
	to->lost_bytes = find->fold.lost_bytes;
	to->lost_blocks = find->fold.lost_count;
	to->direct_blocks = find->fold.direct_count;
	to->reachable_bytes = find->block_bytes - find->fold.lost_bytes;
	to->reachable_blocks = find->blocks - find->fold.lost_count;
}

/* 0 or a negative errno value with *err. */
static int search(struct mt_leak_search *s, const char *state, struct mt_err *err)
{
	int code = 0;

	s->state = state ? strdup(state) : NULL;
	if (state && !s->state)
		return mt_err_no_memory(err);
	code = mt_leak_search_open(s, err);
	return code ? code : mt_leak_search_run(s, MT_MARK_INTERIOR, /* is_strict */ false, err);
}

static void add_stop(struct mt_triage_facts *f, struct mt_leak_search *s)
{
	if (!s->im)
		return;
	mt_leak_search_let_go(s);
	f->heap.stop_ns += s->facts.stop_ns;
	f->heap.is_copy = s->facts.source == MT_IMAGE_COPY;
}

static void take_heap_before(struct mt_triage_heap *to, const struct mt_heap *h)
{
	struct mt_heap_arena s = mt_heap_sum(h);

	to->has_before = true;
	to->before_held_bytes = s.held_bytes;
	to->before_live_bytes = s.live_bytes;
	to->before_live_blocks = s.live_blocks;
}

static int search_before(const struct mt_triage_watch *w, const char *state,
			 struct mt_triage_facts *f)
{
	mt_auto(mt_leak_search) struct mt_leak_search s = {.pid = w->pid};
	struct mt_err err = {0};
	int code = search(&s, state, &err);

	add_stop(f, &s);
	if (s.find.has_heap)
		take_heap_before(&f->heap, &s.find.heap);
	if (code)
		return code == -ENOMEM ? code : 0; /* the later reading tells why */
	f->reach.has_before = true;
	f->reach.before_lost_bytes = s.find.fold.lost_bytes;
	f->reach.before_lost_blocks = s.find.fold.lost_count;
	f->reach.before_reachable_bytes = s.find.block_bytes - s.find.fold.lost_bytes;
	return 0;
}

static bool is_small(const struct mt_triage_facts *f)
{
	size_t last = f->readings - 1;

	return f->part[MT_TRIAGE_HEAP].bytes[last] + f->part[MT_TRIAGE_ANON].bytes[last] <=
	       SEARCHED_TWICE_MAX_BYTES;
}

int mt_triage_look_before(const struct mt_triage_watch *w, const char *state,
			  struct mt_triage_facts *f)
{
	mt_auto(mt_heap) struct mt_heap h = {0};
	int code;

	if (w->no_stop)
		return 0;
	if (mt_triage_is_heap_growing(f) && is_small(f))
		return search_before(w, state, f);
	code = read_heap(w, f, &h);
	if (!code)
		take_heap_before(&f->heap, &h);
	return code == -ENOMEM ? code : 0;
}

int mt_triage_look_inside(const struct mt_triage_watch *w, const char *state,
			  struct mt_triage_facts *f)
{
	mt_auto(mt_leak_search) struct mt_leak_search s = {.pid = w->pid};
	struct mt_err err = {0};
	int code;

	if (w->no_stop) {
		refuse(&f->reach.step, f->reach.why, "--no-stop");
		return refuse_heap(f, "--no-stop: that takes a copy, and the process stands still "
				      "while it is made");
	}
	code = search(&s, state, &err);
	add_stop(f, &s);
	if (code == -ENOMEM)
		return code;
	if (s.find.has_heap)
		take_heap(&f->heap, &s.find.heap);
	else
		refuse_heap(f, code ? err.text : s.find.why_no_heap.text);
	if (code)
		return refuse(&f->reach.step, f->reach.why, err.text);
	take_reach(&f->reach, &s.find);
	return confirm_damage(w, f);
}
