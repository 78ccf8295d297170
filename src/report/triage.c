/* SPDX-License-Identifier: MIT */
/* A line or two for each step, in the order in which one would go by hand. */

#include "report/triage.h"

#include "base/escape.h"
#include "base/units.h"
#include "core/cc.h"
#include "report/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

static const char *const step_words[] = {"not_needed", "done", "refused"};
static const char *const pace_words[] = {"flat", "keeps_growing", "steps", "levelled", "shrinks"};

/* ---- text ---- */

static void add_signed(struct mt_buf *out, int64_t bytes)
{
	char text[MT_UNITS_TEXT_MAX];

	mt_buf_adds(out, mt_units_size_signed(bytes, text));
}

static void add_count(struct mt_buf *out, uint64_t count)
{
	char text[MT_UNITS_TEXT_MAX];

	mt_buf_adds(out, mt_units_count(count, text));
}

static void begin(struct mt_buf *out, const char *number, const char *name)
{
	mt_buf_printf(out, "%s %-11s", number, name);
}

static void add_head(const struct mt_triage_facts *f, struct mt_buf *out)
{
	char text[MT_UNITS_TEXT_MAX];

	mt_buf_printf(out, "process %" PRId32 " (", f->pid);
	mt_escape(out, f->name);
	mt_buf_printf(out, "), watched for %s in %zu reading%s\n",
		      mt_units_time(f->watched_ns, text), f->readings, f->readings == 1 ? "" : "s");
}

/* Parts that changed by what counts, what grew most first. */
static size_t add_parts(const struct mt_triage_facts *f, struct mt_buf *out)
{
	static const char *const paces[] = {"", ", keeps growing", ", in steps",
					    ", stands still since", ""};
	bool is_said[MT_TRIAGE_PARTS] = {false};
	size_t count = 0;

	for (;; count++) {
		enum mt_triage_part best = MT_TRIAGE_PARTS;

		for (int i = 0; i < MT_TRIAGE_PARTS; i++) {
			enum mt_triage_part part = (enum mt_triage_part)i;

			if (!is_said[i] && mt_triage_pace(f, part) != MT_TRIAGE_FLAT &&
			    (best == MT_TRIAGE_PARTS ||
			     mt_triage_growth(f, part) > mt_triage_growth(f, best)))
				best = part;
		}
		if (best == MT_TRIAGE_PARTS)
			return count;
		is_said[best] = true;
		mt_buf_printf(out, "%s%s ", count ? "; " : ": ", mt_triage_part_name(best));
		add_signed(out, mt_triage_growth(f, best));
		mt_buf_adds(out, paces[mt_triage_pace(f, best)]);
	}
}

/* Where most is, when nothing grows. */
static void add_widest(const struct mt_triage_facts *f, struct mt_buf *out)
{
	size_t last = f->readings - 1;
	enum mt_triage_part best = MT_TRIAGE_HEAP;
	char text[MT_UNITS_TEXT_MAX];

	for (int i = 0; i < MT_TRIAGE_BUFFERS; i++)
		if (f->part[i].bytes[last] > f->part[best].bytes[last])
			best = (enum mt_triage_part)i;
	mt_buf_printf(out, ": no part by %s or more; most is in: %s",
		      mt_units_size(mt_triage_least_bytes(f), text), mt_triage_part_name(best));
	mt_buf_printf(out, " (%s)", mt_units_size(f->part[best].bytes[last], text));
}

static void add_growth(const struct mt_triage_facts *f, struct mt_buf *out)
{
	begin(out, "1", "what grows");
	if (!f->readings) {
		mt_buf_adds(out, "not known: there was no reading\n");
		return;
	}
	mt_units_add_size(out, mt_triage_bytes_in_all(f, 0));
	mt_buf_adds(out, " in memory and swap, ");
	add_signed(out, mt_triage_growth_in_all(f));
	if (!add_parts(f, out))
		add_widest(f, out);
	mt_buf_addc(out, '\n');
}

static void add_where(const struct mt_triage_facts *f, struct mt_buf *out)
{
	begin(out, "2", "where");
	if (f->is_refused)
		mt_escape(out, f->why_refused);
	else if (!f->objects)
		mt_buf_adds(out, "no object grew");
	for (size_t i = 0; i < f->objects; i++) {
		const struct mt_triage_object *o = &f->object[i];

		mt_buf_adds(out, i ? ", " : "");
		mt_escape(out, o->name);
		mt_buf_addc(out, ' ');
		add_signed(out, o->growth_bytes);
		if (o->growth_mappings)
			mt_buf_printf(out, " (%+" PRId64 " mapping%s)", o->growth_mappings,
				      o->growth_mappings == 1 || o->growth_mappings == -1 ? ""
											  : "s");
	}
	if (f->widest.growth_bytes) {
		mt_buf_printf(out, "\n%13s%s %" PRIx64 "-%" PRIx64 " ", "",
			      f->widest.is_new ? "largest new mapping"
					       : "the mapping that grew most",
			      f->widest.start, f->widest.end);
		add_signed(out, f->widest.growth_bytes);
	}
	mt_buf_printf(out, "\n%13sthreads %" PRIu64 " -> %" PRIu64, "", f->threads_before,
		      f->threads_now);
	if (f->descriptors == MT_TRIAGE_DONE) {
		mt_buf_printf(out, "; descriptors %" PRIu64 " -> %" PRIu64, f->descriptors_before,
			      f->descriptors_now);
		if (f->buffers_now) {
			mt_buf_printf(out, ", %" PRIu64 " file%s of shared memory with ",
				      f->buffers_now, f->buffers_now == 1 ? "" : "s");
			mt_units_add_size(out, f->part[MT_TRIAGE_BUFFERS].bytes[f->readings - 1]);
		}
	} else if (f->descriptors == MT_TRIAGE_REFUSED) {
		mt_buf_printf(out, "; %s", f->why_no_descriptors);
	}
	if (f->has_java)
		mt_buf_printf(out, "; a Java VM (libjvm.so)%s%s", f->why_no_java[0] ? ": " : "",
			      f->why_no_java);
	mt_buf_addc(out, '\n');
}

/* A step that was not done: why. */
static bool add_undone(enum mt_triage_step step, const char *why, const char *not_needed,
		       struct mt_buf *out)
{
	if (step == MT_TRIAGE_DONE)
		return false;
	if (step == MT_TRIAGE_REFUSED) {
		mt_buf_adds(out, "not done: ");
		mt_escape(out, why);
	} else {
		mt_buf_adds(out, not_needed);
	}
	mt_buf_addc(out, '\n');
	return true;
}

static const char *not_needed(const struct mt_triage_facts *f)
{
	if (f->has_ended)
		return "not done: the process ended";
	if (f->is_refused)
		return "not done: the process may not be looked at";
	return "not asked: the heap neither grows nor is large";
}

static void add_heap(const struct mt_triage_facts *f, struct mt_buf *out)
{
	const struct mt_triage_heap *h = &f->heap;

	begin(out, "3", "allocator");
	if (add_undone(h->step, h->why, not_needed(f), out))
		return;
	mt_escape(out, h->allocator);
	mt_buf_adds(out, " holds ");
	mt_units_add_size(out, h->held_bytes);
	mt_buf_adds(out, " for ");
	mt_units_add_size(out, h->live_bytes);
	mt_buf_adds(out, " live in ");
	add_count(out, h->live_blocks);
	mt_buf_adds(out, h->live_blocks == 1 ? " block; " : " blocks; ");
	mt_units_add_size(out, h->free_bytes);
	mt_buf_adds(out, " free between them, ");
	mt_units_add_size(out, h->cached_bytes);
	mt_buf_adds(out, " in caches, ");
	mt_units_add_size(out, h->top_bytes);
	mt_buf_adds(out, " at the end\n");
	if (!h->has_before)
		return;
	mt_buf_printf(out, "%13sin the last half: held ", "");
	add_signed(out, (int64_t)(h->held_bytes - h->before_held_bytes));
	mt_buf_adds(out, ", live ");
	add_signed(out, (int64_t)(h->live_bytes - h->before_live_bytes));
	mt_buf_printf(out, " (%+" PRId64 " blocks)\n",
		      (int64_t)(h->live_blocks - h->before_live_blocks));
}

static void add_site(const struct mt_triage_site *s, struct mt_buf *out)
{
	mt_buf_printf(out, "%13s%s", "", s->is_estimate ? "about " : "");
	add_signed(out, s->growth_bytes);
	mt_buf_adds(out, "  ");
	mt_escape(out, s->name);
	mt_buf_adds(out, " (");
	if (s->live_bytes < 0) /* of estimates */
		add_signed(out, s->live_bytes);
	else
		mt_units_add_size(out, (uint64_t)s->live_bytes);
	mt_buf_printf(out, " live in %" PRId64 " block%s)\n", s->live_blocks,
		      s->live_blocks == 1 ? "" : "s");
}

static void add_tracker(const struct mt_triage_facts *f, struct mt_buf *out)
{
	const struct mt_triage_tracker *t = &f->tracker;

	begin(out, "4", "whose");
	if (t->step == MT_TRIAGE_NOT_NEEDED && f->is_refused) {
		mt_buf_adds(out, "not known whether it is tracked: it may not be looked at\n");
		return;
	}
	if (t->step == MT_TRIAGE_NOT_NEEDED) {
		mt_buf_adds(out, "not tracked: call stacks are known of programs that were started "
				 "with 'memtrack run'\n");
		return;
	}
	if (add_undone(t->step, t->why, "", out))
		return;
	mt_buf_printf(out, "tracked in mode %s: live ", t->mode);
	add_signed(out, t->live_bytes - t->live_before_bytes);
	if (!t->has_sites)
		mt_buf_adds(out, "; this mode has no call stacks");
	else if (!t->sites)
		mt_buf_adds(out, "; no call site grew");
	mt_buf_addc(out, '\n');
	for (size_t i = 0; i < t->sites; i++)
		add_site(&t->site[i], out);
}

static void add_reach(const struct mt_triage_facts *f, struct mt_buf *out)
{
	const struct mt_triage_reach *r = &f->reach;
	char text[MT_UNITS_TEXT_MAX];

	begin(out, "5", "reachable");
	if (add_undone(r->step, r->why, not_needed(f), out))
		return;
	if (r->lost_blocks) {
		mt_units_add_size(out, r->lost_bytes);
		mt_buf_printf(out, " in %s block%s lost (", mt_units_count(r->lost_blocks, text),
			      r->lost_blocks == 1 ? " is" : "s are");
		mt_buf_printf(out, "%s directly); ", mt_units_count(r->direct_blocks, text));
	} else {
		mt_buf_adds(out, "no block is lost; ");
	}
	mt_units_add_size(out, r->reachable_bytes);
	mt_buf_printf(out, " in %s can be reached\n", mt_units_count(r->reachable_blocks, text));
	if (!r->has_before)
		return;
	mt_buf_printf(out, "%13sin the last half: lost ", "");
	add_signed(out, (int64_t)(r->lost_bytes - r->before_lost_bytes));
	mt_buf_adds(out, ", reachable ");
	add_signed(out, (int64_t)(r->reachable_bytes - r->before_reachable_bytes));
	mt_buf_addc(out, '\n');
}

static void add_stop(const struct mt_triage_facts *f, struct mt_buf *out)
{
	char text[MT_UNITS_TEXT_MAX];

	if (f->heap.stop_ns)
		mt_buf_printf(out, "%13sfor this the process stood still for %s%s\n", "",
			      mt_units_time(f->heap.stop_ns, text),
			      f->heap.is_copy ? "; what was read is a copy" : "");
}

static void add_one_limit(const struct mt_triage_facts *f, const struct mt_triage_limit *l,
			  struct mt_buf *out)
{
	uint64_t ns = mt_triage_reached_ns(f, l);
	char text[MT_UNITS_TEXT_MAX];

	mt_escape(out, l->name);
	mt_buf_adds(out, " ");
	if (l->is_count)
		mt_buf_printf(out, "%" PRIu64 " of %" PRIu64, l->now, l->limit);
	else
		mt_buf_printf(out, "%s of ", mt_units_size(l->now, text));
	if (!l->is_count)
		mt_units_add_size(out, l->limit);
	mt_buf_printf(out, " (%s)", mt_units_percent(l->now, l->limit, text));
	if (ns)
		mt_buf_printf(out, ", at this rate reached in %s", mt_units_time(ns, text));
}

/* Limits that are near, or will be. */
static bool is_worth_telling(const struct mt_triage_facts *f, const struct mt_triage_limit *l)
{
	uint64_t ns = mt_triage_reached_ns(f, l);

	return mt_triage_is_near(l) || (ns && ns < 7ull * 24 * 3600 * 1000000000);
}

static void add_damage(const struct mt_triage_facts *f, struct mt_buf *out)
{
	const struct mt_triage_heap *h = &f->heap;
	bool is_known = h->step == MT_TRIAGE_DONE || f->tracker.step == MT_TRIAGE_DONE;
	size_t told = 0;

	begin(out, "6", "damage");
	if (h->step == MT_TRIAGE_DONE && h->damages) {
		mt_buf_printf(out,
			      "%" PRIu64 " in the allocator's structures, first at 0x%" PRIx64 ": ",
			      h->damages, h->damage_address);
		mt_escape(out, h->damage);
	} else if (f->tracker.errors) {
		mt_buf_printf(out, "%" PRIu64 " memory errors recorded", f->tracker.errors);
	} else {
		mt_buf_adds(out, is_known ? "none seen" : "not looked for: see 3");
	}
	if (h->passing_damages)
		mt_buf_printf(out,
			      " (%" PRIu64 " place%s did not agree in one copy, and did in the "
			      "next: a thread was changing the heap)",
			      h->passing_damages, h->passing_damages == 1 ? "" : "s");
	mt_buf_adds(out, "; limits: ");
	for (size_t i = 0; i < f->limits; i++)
		if (is_worth_telling(f, &f->limit[i])) {
			mt_buf_adds(out, told++ ? ", " : "");
			add_one_limit(f, &f->limit[i], out);
		}
	if (!f->limits)
		mt_buf_adds(out, "none is known");
	else if (!told)
		mt_buf_printf(out, "none of the %zu that are set is near", f->limits);
	if (f->killed_now > f->killed_before)
		mt_buf_printf(out, "; the control group killed %" PRIu64 " for want of memory",
			      f->killed_now - f->killed_before);
	mt_buf_addc(out, '\n');
}

int mt_triage_text(const struct mt_triage_facts *f, struct mt_buf *out)
{
	struct mt_triage_judgement j;

	mt_triage_judge(f, &j);
	add_head(f, out);
	add_growth(f, out);
	add_where(f, out);
	add_heap(f, out);
	add_tracker(f, out);
	add_reach(f, out);
	add_stop(f, out);
	add_damage(f, out);
	mt_buf_adds(out, "\nverdict: ");
	mt_triage_add_sentence(f, &j, out);
	mt_buf_adds(out, "\nnext:    ");
	mt_triage_add_next(f, &j, out);
	mt_buf_addc(out, '\n');
	return out->failed ? -ENOMEM : 0;
}

/* ---- JSON ---- */

static void json_parts(const struct mt_triage_facts *f, struct mt_json *j)
{
	mt_json_open(j, "at_ns", '[');
	for (size_t i = 0; i < f->readings; i++)
		mt_json_u64(j, NULL, f->at_ns[i]);
	mt_json_close(j, ']');
	mt_json_open(j, "parts", '[');
	for (int i = 0; i < MT_TRIAGE_PARTS; i++) {
		const struct mt_triage_amount *a = &f->part[i];

		mt_json_open(j, NULL, '{');
		mt_json_string(j, "part", mt_triage_part_key((enum mt_triage_part)i));
		mt_json_i64(j, "growth_bytes", mt_triage_growth(f, (enum mt_triage_part)i));
		mt_json_string(j, "pace", pace_words[mt_triage_pace(f, (enum mt_triage_part)i)]);
		mt_json_open(j, "bytes", '[');
		for (size_t k = 0; k < f->readings; k++)
			mt_json_u64(j, NULL, a->bytes[k]);
		mt_json_close(j, ']');
		if (i < MT_TRIAGE_BUFFERS) {
			mt_json_u64(j, "mappings_before", a->mappings_before);
			mt_json_u64(j, "mappings", a->mappings_now);
		}
		mt_json_close(j, '}');
	}
	mt_json_close(j, ']');
}

static void json_widest(const struct mt_triage_mapping *m, struct mt_json *j)
{
	char text[24];

	/* as text: numbers of JSON have 53 bits with many readers */
	mt_json_open(j, "mapping", '{');
	snprintf(text, sizeof(text), "%" PRIx64, m->start);
	mt_json_string(j, "start", text);
	snprintf(text, sizeof(text), "%" PRIx64, m->end);
	mt_json_string(j, "end", text);
	mt_json_i64(j, "growth_bytes", m->growth_bytes);
	mt_json_bool(j, "is_new", m->is_new);
	mt_json_close(j, '}');
}

static void json_where(const struct mt_triage_facts *f, struct mt_json *j)
{
	mt_json_open(j, "objects", '[');
	for (size_t i = 0; i < f->objects; i++) {
		const struct mt_triage_object *o = &f->object[i];

		mt_json_open(j, NULL, '{');
		mt_json_string(j, "object", o->name);
		mt_json_string(j, "part", mt_triage_part_key(o->part));
		mt_json_i64(j, "growth_bytes", o->growth_bytes);
		mt_json_i64(j, "growth_mappings", o->growth_mappings);
		mt_json_u64(j, "bytes", o->bytes);
		mt_json_close(j, '}');
	}
	mt_json_close(j, ']');
	if (f->widest.growth_bytes)
		json_widest(&f->widest, j);
	mt_json_u64(j, "threads_before", f->threads_before);
	mt_json_u64(j, "threads", f->threads_now);
	mt_json_open(j, "descriptors", '{');
	mt_json_string(j, "step", step_words[f->descriptors]);
	mt_json_string(j, "why", f->why_no_descriptors);
	mt_json_u64(j, "before", f->descriptors_before);
	mt_json_u64(j, "now", f->descriptors_now);
	mt_json_u64(j, "buffers_before", f->buffers_before);
	mt_json_u64(j, "buffers", f->buffers_now);
	mt_json_string(j, "largest_buffer", f->buffer);
	mt_json_close(j, '}');
	mt_json_bool(j, "has_java_vm", f->has_java);
	mt_json_string(j, "why_no_java_heap", f->why_no_java);
}

static void json_heap(const struct mt_triage_facts *f, struct mt_json *j)
{
	const struct mt_triage_heap *h = &f->heap;

	mt_json_open(j, "allocator", '{');
	mt_json_string(j, "step", step_words[h->step]);
	mt_json_string(j, "why", h->why);
	if (h->step == MT_TRIAGE_DONE) {
		mt_json_string(j, "allocator", h->allocator);
		mt_json_u64(j, "held_bytes", h->held_bytes);
		mt_json_u64(j, "live_bytes", h->live_bytes);
		mt_json_u64(j, "live_blocks", h->live_blocks);
		mt_json_u64(j, "free_bytes", h->free_bytes);
		mt_json_u64(j, "cached_bytes", h->cached_bytes);
		mt_json_u64(j, "top_bytes", h->top_bytes);
		mt_json_u64(j, "damages", h->damages);
		mt_json_u64(j, "passing_damages", h->passing_damages);
		mt_json_string(j, "damage", h->damage);
		mt_json_u64(j, "skipped_bytes", h->skipped_bytes);
	}
	if (h->has_before) {
		mt_json_u64(j, "before_held_bytes", h->before_held_bytes);
		mt_json_u64(j, "before_live_bytes", h->before_live_bytes);
		mt_json_u64(j, "before_live_blocks", h->before_live_blocks);
	}
	mt_json_u64(j, "stop_ns", h->stop_ns);
	mt_json_close(j, '}');
}

static void json_tracker(const struct mt_triage_facts *f, struct mt_json *j)
{
	const struct mt_triage_tracker *t = &f->tracker;

	mt_json_open(j, "tracker", '{');
	if (t->step == MT_TRIAGE_NOT_NEEDED && f->is_refused)
		mt_json_null(j, "is_tracked");
	else
		mt_json_bool(j, "is_tracked", t->step != MT_TRIAGE_NOT_NEEDED);
	mt_json_string(j, "why", t->why);
	mt_json_string(j, "mode", t->mode);
	mt_json_i64(j, "live_before_bytes", t->live_before_bytes);
	mt_json_i64(j, "live_bytes", t->live_bytes);
	mt_json_u64(j, "errors", t->errors);
	mt_json_open(j, "sites", '[');
	for (size_t i = 0; i < t->sites; i++) {
		mt_json_open(j, NULL, '{');
		mt_json_string(j, "site", t->site[i].name);
		mt_json_i64(j, "growth_bytes", t->site[i].growth_bytes);
		mt_json_i64(j, "growth_blocks", t->site[i].growth_blocks);
		mt_json_i64(j, "live_bytes", t->site[i].live_bytes);
		mt_json_i64(j, "live_blocks", t->site[i].live_blocks);
		mt_json_bool(j, "is_estimate", t->site[i].is_estimate);
		mt_json_close(j, '}');
	}
	mt_json_close(j, ']');
	mt_json_close(j, '}');
}

static void json_reach(const struct mt_triage_facts *f, struct mt_json *j)
{
	const struct mt_triage_reach *r = &f->reach;

	mt_json_open(j, "reachability", '{');
	mt_json_string(j, "step", step_words[r->step]);
	mt_json_string(j, "why", r->why);
	if (r->step == MT_TRIAGE_DONE) {
		mt_json_u64(j, "lost_bytes", r->lost_bytes);
		mt_json_u64(j, "lost_blocks", r->lost_blocks);
		mt_json_u64(j, "directly_lost_blocks", r->direct_blocks);
		mt_json_u64(j, "reachable_bytes", r->reachable_bytes);
		mt_json_u64(j, "reachable_blocks", r->reachable_blocks);
	}
	if (r->step == MT_TRIAGE_DONE && r->has_before) {
		mt_json_u64(j, "before_lost_bytes", r->before_lost_bytes);
		mt_json_u64(j, "before_lost_blocks", r->before_lost_blocks);
		mt_json_u64(j, "before_reachable_bytes", r->before_reachable_bytes);
	}
	mt_json_close(j, '}');
}

static void json_limits(const struct mt_triage_facts *f, struct mt_json *j)
{
	mt_json_open(j, "limits", '[');
	for (size_t i = 0; i < f->limits; i++) {
		mt_json_open(j, NULL, '{');
		mt_json_string(j, "limit", f->limit[i].name);
		mt_json_string(j, "unit", f->limit[i].is_count ? "count" : "bytes");
		mt_json_u64(j, "before", f->limit[i].before);
		mt_json_u64(j, "now", f->limit[i].now);
		mt_json_u64(j, "at_most", f->limit[i].limit);
		mt_json_bool(j, "is_near", mt_triage_is_near(&f->limit[i]));
		mt_json_close(j, '}');
	}
	mt_json_close(j, ']');
	mt_json_u64(j, "killed_before", f->killed_before);
	mt_json_u64(j, "killed", f->killed_now);
}

static void json_verdict(const struct mt_triage_facts *f, struct mt_json *j, struct mt_buf *text)
{
	struct mt_triage_judgement judgement;

	mt_triage_judge(f, &judgement);
	mt_json_string(j, "verdict", mt_triage_verdict_key(judgement.verdict));
	if (judgement.part == MT_TRIAGE_PARTS)
		mt_json_null(j, "part");
	else
		mt_json_string(j, "part", mt_triage_part_key(judgement.part));
	mt_json_bool(j, "is_growing", judgement.is_growing);
	mt_triage_add_sentence(f, &judgement, text);
	mt_json_string(j, "sentence", mt_buf_text(text));
	mt_buf_truncate(text, 0);
	mt_triage_add_next(f, &judgement, text);
	mt_json_string(j, "next", mt_buf_text(text));
}

int mt_triage_json(const struct mt_triage_facts *f, struct mt_buf *out)
{
	mt_auto(mt_buf) struct mt_buf text = {0};
	struct mt_json j = {.out = out};

	mt_json_open(&j, NULL, '{');
	mt_json_string(&j, "schema", MT_TRIAGE_SCHEMA);
	mt_json_i64(&j, "pid", f->pid);
	mt_json_string(&j, "name", f->name);
	mt_json_u64(&j, "watched_ns", f->watched_ns);
	json_verdict(f, &j, &text);
	mt_json_bool(&j, "has_ended", f->has_ended);
	mt_json_bool(&j, "is_refused", f->is_refused);
	mt_json_u64(&j, "least_growth_bytes", mt_triage_least_bytes(f));
	mt_json_i64(&j, "growth_bytes", mt_triage_growth_in_all(f));
	json_parts(f, &j);
	json_where(f, &j);
	json_heap(f, &j);
	json_tracker(f, &j);
	json_reach(f, &j);
	json_limits(f, &j);
	mt_json_close(&j, '}');
	mt_buf_addc(out, '\n');
	return out->failed || text.failed ? -ENOMEM : 0;
}
