/* SPDX-License-Identifier: MIT */
/* What all formats share: which table a report needs, call stacks line by line, caveats, heap sums.
 */

#include "report/report.h"

#include "analysis/callstack.h"
#include "analysis/ends.h"
#include "base/alloc.h"
#include "base/units.h"
#include "model/profile.h"
#include "report/basis.h"
#include "report/errors.h"
#include "report/internal.h"
#include "report/timeline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const show_names[] = {
	[MT_SHOW_LEAKS] = "leaks",         [MT_SHOW_LIVE] = "live",
	[MT_SHOW_PEAK] = "peak",           [MT_SHOW_TOTAL] = "total",
	[MT_SHOW_TEMPORARY] = "temporary", [MT_SHOW_LARGE] = "large",
	[MT_SHOW_SIZES] = "sizes",         [MT_SHOW_LIFETIMES] = "lifetimes",
	[MT_SHOW_THREADS] = "threads",     [MT_SHOW_MODULES] = "modules",
	[MT_SHOW_HEAPS] = "heaps",         [MT_SHOW_COVERAGE] = "coverage",
	[MT_SHOW_ERRORS] = "errors",       [MT_SHOW_TIMELINE] = "timeline",
	[MT_SHOW_SUMMARY] = "summary",
};

static const char *const by_names[] = {
	[MT_BY_SITE] = "site",     [MT_BY_FUNCTION] = "function", [MT_BY_MODULE] = "module",
	[MT_BY_THREAD] = "thread", [MT_BY_SIZE] = "size",         [MT_BY_HEAP] = "heap",
	[MT_BY_LABEL] = "label",
};

static const char *const sort_names[] = {
	[MT_SORT_BYTES] = "bytes",
	[MT_SORT_COUNT] = "count",
	[MT_SORT_GROWTH] = "growth",
	[MT_SORT_AGE] = "age",
};

const char *mt_show_name(enum mt_show show)
{
	return (size_t)show < MT_ARRAY_LEN(show_names) ? show_names[show] : NULL;
}

const char *mt_by_name(enum mt_by by)
{
	return (size_t)by < MT_ARRAY_LEN(by_names) ? by_names[by] : NULL;
}

const char *mt_sort_name(enum mt_sort sort)
{
	return (size_t)sort < MT_ARRAY_LEN(sort_names) ? sort_names[sort] : NULL;
}

bool mt_show_is_table(enum mt_show show)
{
	return show <= MT_SHOW_LARGE || show == MT_SHOW_MODULES;
}

enum mt_measure mt_show_measure(enum mt_show show)
{
	switch (show) {
	case MT_SHOW_PEAK:
		return MT_MEASURE_PEAK;
	case MT_SHOW_TOTAL:
		return MT_MEASURE_TOTAL;
	case MT_SHOW_TEMPORARY:
		return MT_MEASURE_TEMPORARY;
	case MT_SHOW_LARGE:
		return MT_MEASURE_LARGE;
	default:
		return MT_MEASURE_LIVE;
	}
}

enum mt_by mt_report_by(const struct mt_report *r)
{
	return r->show == MT_SHOW_MODULES ? MT_BY_MODULE : r->by;
}

/* Whether some profile is a snapshot, and does not know what is asked for. */
static bool is_beyond_snapshot(const struct mt_report *r, const struct mt_query *q)
{
	for (uint32_t i = 0; i < r->profile_count; i++)
		if (r->profiles[i]->snapshot && (q->measure != MT_MEASURE_LIVE || q->min_age_ns ||
						 q->by == MT_BY_THREAD || q->by == MT_BY_SIZE))
			return true;
	return false;
}

int mt_report_table_of(const struct mt_report *r, uint32_t heap, bool match_names,
		       struct mt_table **ret_table, struct mt_err *err)
{
	struct mt_query q = {
		.measure = mt_show_measure(r->show),
		.by = mt_report_by(r),
		.sort = r->sort,
		.heap = heap,
		.min_age_ns = r->min_age_ns,
		.modules = r->modules,
		.match_names = match_names,
		.names = r->names,
		.is_suppressed = r->show == MT_SHOW_LEAKS ? r->is_suppressed : NULL,
		.suppress_context = r->suppress_context,
		.other = r->other,
		.other_count = r->other_count,
		.stop = r->stop,
	};
	int code;

	if (is_beyond_snapshot(r, &q))
		return mt_err_set(err, -EINVAL,
				  "of a snapshot only live blocks by site, function, module, heap "
				  "or label are known, whatever their age");
	code = mt_table_build(r->profiles, r->profile_count, &q, ret_table);
	if (code == -EINVAL && r->show == MT_SHOW_TOTAL)
		return mt_err_set(err, code,
				  "--show=total is not known by size for a sampled run; "
				  "--show=sizes has the exact size classes");
	if (code == -EINVAL)
		return mt_err_set(err, code, "--show=%s is not known by %s; use another --by",
				  mt_show_name(r->show), mt_by_name(q.by));
	return code ? mt_err_no_memory(err) : 0;
}

int mt_report_table(const struct mt_report *r, uint32_t heap, struct mt_table **ret_table,
		    struct mt_err *err)
{
	return mt_report_table_of(r, heap, /* match_names */ false, ret_table, err);
}

int mt_report_count_leaks(const struct mt_report *r, struct mt_report_leaks *ret_leaks)
{
	struct mt_report leaks = *r;
	struct mt_table *table;
	int code;

	leaks.show = MT_SHOW_LEAKS;
	leaks.by = MT_BY_SITE;
	code = mt_report_table(&leaks, 0, &table, NULL);
	if (code)
		return code;
	*ret_leaks = (struct mt_report_leaks){
		.sites = table->row_count,
		.count = table->count,
		.bytes = table->bytes,
		.wide_sites =
			table->row_count - mt_table_below(table, r->leak_threshold_bytes).rows,
	};
	mt_table_free(table);
	return 0;
}

/* A frame of a long list each: without printf. */
static void hex_build_id(const struct mt_profile_module *m, char *to)
{
	for (uint32_t i = 0; i < MT_MIN(m->build_id_bytes, sizeof(m->build_id)); i++) {
		*to++ = "0123456789abcdef"[m->build_id[i] >> 4];
		*to++ = "0123456789abcdef"[m->build_id[i] & 15];
	}
	*to = 0;
}

/* Emits the lines of one frame: functions inlined into it first. */
static void emit_frame(const struct mt_report *r, const struct mt_profile *p, uint32_t node,
		       void (*emit)(void *context, const struct mt_stack_line *line), void *context)
{
	const struct mt_profile_node *n = &p->node[node];
	const struct mt_profile_module *m = &p->module[n->module < p->module_count ? n->module : 0];
	struct mt_name name[MT_NAMES_MAX];
	uint32_t count = mt_names_frames(r->names, p, node, name, MT_NAMES_MAX);
	char place[512], id[2 * sizeof(m->build_id) + 1] = "";
	struct mt_stack_line line = {
		.is_by_frame_pointer = n->by_frame_pointer,
		.place = mt_names_place(p, node, false, place, sizeof(place)),
		.module = n->module ? m->path : "",
		.offset = n->pc - (n->module ? m->bias : 0) - (n->pc != 0),
		.build_id = id,
	};

	if (n->module)
		hex_build_id(m, id);
	for (uint32_t i = 0; i < count; i++) {
		line.function = name[i].function;
		line.file = name[i].file;
		line.line = name[i].line;
		line.is_inlined = name[i].is_inlined;
		emit(context, &line);
	}
	if (!count)
		emit(context, &line);
}

uint32_t mt_stack_each_at(const struct mt_report *r, const struct mt_profile *p, uint32_t node,
			  void (*emit)(void *context, const struct mt_stack_line *line),
			  void *context)
{
	uint32_t depth;

	node = mt_callstack_top(p, node);
	depth = p->node[node].depth;
	for (uint32_t shown = 0; node && p->node[node].depth && depth; shown++, depth--) {
		if (shown == r->stack)
			return depth;
		emit_frame(r, p, node, emit, context);
		node = p->node[node].parent;
	}
	return 0;
}

uint32_t mt_stack_each(const struct mt_report *r, const struct mt_row *row,
		       void (*emit)(void *context, const struct mt_stack_line *line), void *context)
{
	if (!row->site)
		return 0;
	return mt_stack_each_at(r, r->profiles[row->profile], row->node, emit, context);
}

const char *mt_row_tag(const struct mt_report *r, const struct mt_row *row)
{
	const struct mt_profile *p = row->site ? r->profiles[row->profile] : NULL;
	uint32_t label = p ? p->site[row->site].label : 0;

	return label && label < p->label_count ? p->label[label] : "";
}

uint32_t mt_stack_end_of(const struct mt_report *r, const struct mt_row *row)
{
	return row->site ? r->profiles[row->profile]->node[row->node].end : MT_PROFILE_END_UNKNOWN;
}

static struct mt_heap_sum *find_heap(struct mt_heap_sum *sums, uint32_t count, const char *name)
{
	for (uint32_t i = 0; i < count; i++)
		if (!strcmp(sums[i].name, name))
			return &sums[i];
	return NULL;
}

struct mt_heap_sum *mt_report_heaps(const struct mt_report *r, uint32_t *ret_count)
{
	size_t room = 1;
	struct mt_heap_sum *sums;
	uint32_t count = 0;

	for (uint32_t i = 0; i < r->profile_count; i++)
		room += r->profiles[i]->heap_count;
	sums = mt_alloc_zero(room, sizeof(*sums));
	for (uint32_t i = 0; sums && i < r->profile_count; i++) {
		for (uint32_t k = 0; k < r->profiles[i]->heap_count; k++) {
			const struct mt_profile_heap *h = &r->profiles[i]->heap[k];
			struct mt_heap_sum *s = find_heap(sums, count, h->name);

			if (!s) {
				s = &sums[count++];
				s->name = h->name;
				s->heap = k;
			}
			s->allocs += h->counts.allocs;
			s->frees += h->counts.frees;
			s->bytes += h->counts.bytes;
			s->freed_bytes += h->counts.freed_bytes;
			s->live_count += h->live_count;
			s->live_bytes += h->live_bytes;
		}
	}
	*ret_count = count;
	return sums;
}

static void emit_sentence(void (*emit)(void *context, const char *sentence), void *context,
			  const char *fmt, ...) MT_PRINTF(3, 4);

static void emit_sentence(void (*emit)(void *context, const char *sentence), void *context,
			  const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	emit(context, text);
}

static void emit_profile_caveats(const struct mt_report *r, const struct mt_profile *p,
				 void (*emit)(void *context, const char *sentence), void *context)
{
	char who[64] = "";

	if (r->profile_count > 1)
		snprintf(who, sizeof(who), "process %" PRId32 ": ", p->pid);
	for (uint32_t bit = 0; bit < 64; bit++)
		if ((p->notes >> bit & 1) && mt_words_note_is_warning(bit))
			emit_sentence(emit, context, "%s%s", who, mt_words_note(bit));
	for (uint32_t i = 0; i < p->warning_count; i++)
		emit_sentence(emit, context, "%s%s", who, p->warning[i]);
	if (p->warnings_dropped)
		emit_sentence(emit, context, "%s%" PRIu64 " more warnings", who,
			      p->warnings_dropped);
}

enum { STOPPED_PART = 1000 }; /* of all stacks: fewer are not worth a warning */

/* Stacks that stop in code of a file: ours is the gap. Below generated code one must expect it. */
static void emit_stack_caveat(const struct mt_report *r,
			      void (*emit)(void *context, const char *sentence), void *context)
{
	mt_auto(mt_ends) struct mt_ends ends = {0};
	char count[MT_UNITS_TEXT_MAX], all[MT_UNITS_TEXT_MAX];
	uint64_t stopped = 0;

	if (mt_ends_find(r->profiles, r->profile_count, NULL, &ends))
		return;
	for (uint32_t i = 0; i < MT_END_COUNT; i++)
		if (i != MT_PROFILE_END_COMPLETE && i != MT_PROFILE_END_DEPTH &&
		    i != MT_PROFILE_END_UNKNOWN && i != MT_END_GENERATED)
			stopped += ends.allocs[i];
	if (stopped > ends.all / STOPPED_PART)
		emit_sentence(emit, context,
			      "the call stacks of %s of %s allocations stop before the program's "
			      "or thread's entry; --show=coverage tells where",
			      mt_units_count(stopped, count), mt_units_count(ends.all, all));
}

/* Reasons of profile.lost that have a counter of their own too. */
enum { LOST_NESTED = 0, LOST_LIVE_FULL = 1, LOST_SITE_FULL = 2 };

/* Estimates are lower bounds then. */
static void emit_missing_samples(const struct mt_totals *t,
				 void (*emit)(void *context, const char *sentence), void *context)
{
	char count[MT_UNITS_TEXT_MAX];

	if (t->no_block)
		emit_sentence(emit, context,
			      "%s %s found no room in the block table: what their call sites hold "
			      "is a lower bound, what these held at the peak an upper one",
			      mt_units_count(t->no_block, count),
			      t->no_block == 1 ? "sample" : "samples");
	if (t->no_site)
		emit_sentence(emit, context,
			      "%s %s found no room for the call stack: what any call site holds is "
			      "a lower bound",
			      mt_units_count(t->no_site, count),
			      t->no_site == 1 ? "sample" : "samples");
}

void mt_report_caveats(const struct mt_report *r, const struct mt_totals *t,
		       void (*emit)(void *context, const char *sentence), void *context)
{
	char count[MT_UNITS_TEXT_MAX];

	emit_missing_samples(t, emit, context);
	for (uint32_t i = 0; i < MT_ARRAY_LEN(t->lost); i++) {
		uint64_t lost = t->lost[i];

		/* some are said already */
		if (i == LOST_SITE_FULL)
			lost -= MT_MIN(lost, t->no_site);
		if (i == LOST_NESTED)
			lost -= MT_MIN(lost, mt_basis_nested(r));
		if (lost)
			emit_sentence(emit, context, "%s %s", mt_units_count(lost, count),
				      mt_words_lost(i));
	}
	if (t->unplaced_allocs && !t->lost[LOST_SITE_FULL])
		emit_sentence(emit, context,
			      "%s allocations are in the totals but in no site (tables full)",
			      mt_units_count(t->unplaced_allocs, count));
	if (t->untracked_allocs && !t->lost[LOST_LIVE_FULL])
		emit_sentence(emit, context,
			      "%s allocations are in the totals but cannot be told live or freed "
			      "(block table full): what is called live is an upper bound",
			      mt_units_count(t->untracked_allocs, count));
	emit_stack_caveat(r, emit, context);
	for (uint32_t i = 0; i < r->profile_count; i++)
		emit_profile_caveats(r, r->profiles[i], emit, context);
}

void mt_report_notes(const struct mt_report *r, void (*emit)(void *context, const char *sentence),
		     void *context)
{
	uint64_t notes = 0;

	for (uint32_t i = 0; i < r->profile_count; i++)
		notes |= r->profiles[i]->notes;
	for (uint32_t bit = 0; bit < 64; bit++)
		if ((notes >> bit & 1) && mt_words_note(bit))
			emit(context, mt_words_note(bit));
}

static bool any_dump(const struct mt_report *r)
{
	for (uint32_t i = 0; i < r->profile_count; i++)
		if (r->profiles[i]->source == MT_PROFILE_OF_HEAP_DUMP)
			return true;
	return false;
}

static bool is_unknown_to_dumps(enum mt_show show)
{
	return show == MT_SHOW_PEAK || show == MT_SHOW_TOTAL || show == MT_SHOW_TEMPORARY ||
	       show == MT_SHOW_LIFETIMES || show == MT_SHOW_THREADS || show == MT_SHOW_HEAPS ||
	       show == MT_SHOW_COVERAGE;
}

const char *mt_report_missing(const struct mt_report *r)
{
	for (uint32_t i = 0; r->show == MT_SHOW_TIMELINE && i < r->profile_count; i++)
		if (r->series && r->series[i])
			return NULL;
	if (r->show == MT_SHOW_TIMELINE)
		return "no snapshots were taken: 'memtrack run --snapshot-every=TIME' takes them "
		       "while a program runs";
	if (r->show == MT_SHOW_ERRORS && !mt_errors_were_looked_for(r))
		return "no memory errors were looked for: 'memtrack run --check=OPTIONS' does, and "
		       "'memtrack run --mode=sample --guard-sampled' by chance";
	if (is_unknown_to_dumps(r->show) && any_dump(r))
		return "a heap dump tells what was live, and nothing of peaks, totals, times, "
		       "threads or heaps: --show=live, large, sizes or modules";
	return NULL;
}

int mt_report_write(const struct mt_report *r, enum mt_report_format format, struct mt_buf *out,
		    struct mt_err *err)
{
	int code;

	if (r->show == MT_SHOW_TIMELINE)
		return mt_timeline_write(r, format, out, err);
	switch (format) {
	case MT_REPORT_JSON:
		code = mt_report_json(r, out, err);
		break;
	case MT_REPORT_CSV:
		code = mt_report_csv(r, out, err);
		break;
	case MT_REPORT_KV:
		code = mt_report_kv(r, out, err);
		break;
	default:
		code = mt_report_text(r, out, err);
	}
	return code ? code : out->failed ? mt_err_no_memory(err) : 0;
}
