/* SPDX-License-Identifier: MIT */
/* Samples, statistics and changes, in words and numbers. */
#include "report/basis.h"

#include "base/alloc.h"
#include "base/escape.h"
#include "base/units.h"
#include "core/cc.h"
#include "model/profile.h"
#include "report/left_out.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHANGES_SHOWN = 8, REGIMES_SHOWN = 32 };
enum { LOST_NESTED = 0 }; /* reason of profile.lost */

/* Numbers of enum mt_state_change_what. */
enum change {
	CHANGE_MODE = 1,
	CHANGE_INTERVAL = 2,
	CHANGE_EVERY = 3,
	CHANGE_SWITCH = 4,
	CHANGE_MODULES = 5,
	CHANGE_LABEL = 6,
	CHANGE_PEAK_RESET = 7,
	CHANGE_REFUSED = 8,
	CHANGE_MEMORY_RAIL = 9,
	CHANGE_CPU_RAIL = 10,
};

/* Numbers of enum mt_state_mode. */
enum mode { MODE_STATS = 2 };

static const char *const change_names[] = {
	[CHANGE_MODE] = "mode",
	[CHANGE_INTERVAL] = "interval",
	[CHANGE_EVERY] = "every",
	[CHANGE_SWITCH] = "switch",
	[CHANGE_MODULES] = "modules",
	[CHANGE_LABEL] = "label",
	[CHANGE_PEAK_RESET] = "peak-reset",
	[CHANGE_REFUSED] = "refused-request",
	[CHANGE_MEMORY_RAIL] = "memory-guard",
	[CHANGE_CPU_RAIL] = "cpu-guard",
};

static bool is_stats(uint64_t mode)
{
	return mode == MODE_STATS;
}

/* Samples of one way of sampling over all profiles. */
struct way {
	struct mt_sampling how;
	uint64_t samples;
};

static bool is_same_way(const struct mt_sampling *a, const struct mt_sampling *b)
{
	return a->kind == b->kind && a->interval_bytes == b->interval_bytes && a->every == b->every;
}

/* Adds a way; beyond the last place all others are one. */
static void add_way(struct way *way, uint32_t *count, const struct mt_sampling *how,
		    uint64_t samples)
{
	uint32_t i = 0;

	while (i < *count && !is_same_way(&way[i].how, how))
		i++;
	if (i == *count && *count < REGIMES_SHOWN)
		way[(*count)++].how = *how;
	if (i < *count)
		way[i].samples += samples;
}

static uint32_t find_ways(const struct mt_report *r, struct way *way)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < r->profile_count; i++) {
		const struct mt_profile *p = r->profiles[i];

		for (uint32_t k = 1; k < p->regime_count; k++)
			if (mt_sampling_is_partial(&p->regime[k].sampling))
				add_way(way, &count, &p->regime[k].sampling, 0);
		for (uint32_t k = 1; p->site_sample && k < p->site_count; k++) {
			const struct mt_sampling *how = &p->regime[p->site[k].regime].sampling;

			if (mt_sampling_is_partial(how))
				add_way(way, &count, how, p->site_sample[k].allocs);
		}
	}
	return count;
}

/* ---- sentences ---- */

struct speaker {
	void (*emit)(void *context, const char *sentence);
	void *context;
	struct mt_buf text;
};

static void say(struct speaker *s)
{
	s->emit(s->context, mt_buf_text(&s->text));
	mt_buf_done(&s->text);
	s->text = (struct mt_buf){0};
}

/* is_one: there is no other */
static void add_way_text(struct mt_buf *out, const struct way *w, bool is_one)
{
	char size[MT_UNITS_TEXT_MAX];

	if (w->how.kind == MT_SAMPLING_POISSON)
		mt_buf_printf(out, " at a mean interval of %s",
			      mt_units_size(w->how.interval_bytes, size));
	else
		mt_buf_printf(out, "%s one of every %s allocations", is_one ? "," : " as",
			      mt_units_count(w->how.every, size));
}

static void say_sampling(struct speaker *s, const struct mt_report *r, const struct mt_totals *t)
{
	struct way way[REGIMES_SHOWN] = {0};
	uint32_t all = find_ways(r, way), count = 0;
	char text[MT_UNITS_TEXT_MAX];
	bool has_every = false;

	for (uint32_t i = 0; i < all; i++)
		has_every |= way[i].how.kind == MT_SAMPLING_EVERY;
	/* without any sample: how they would have been taken at first */
	for (uint32_t i = 0; i < all; i++)
		if (way[i].samples || (!t->samples && !i))
			way[count++] = way[i];

	mt_buf_printf(&s->text, "what call sites hold is estimated from %s sample%s%s",
		      mt_units_count(t->samples, text), t->samples == 1 ? "" : "s",
		      count > 1 ? ": " : "");
	for (uint32_t i = 0; i < count; i++) {
		mt_buf_adds(&s->text, i ? ", " : "");
		if (count > 1)
			mt_buf_adds(&s->text, mt_units_count(way[i].samples, text));
		add_way_text(&s->text, &way[i], count == 1);
	}
	if (!t->no_block && !t->no_site)
		mt_buf_adds(&s->text,
			    "; in brackets: the range that holds the truth in 95 of 100 runs");
	say(s);
	if (!has_every)
		return;
	mt_buf_adds(
		&s->text,
		"one of every N allocations is recorded whatever its size: sites with many small "
		"blocks are over-represented, a few large ones are mostly missed");
	say(s);
}

static void say_usable(struct speaker *s, const struct mt_totals *t)
{
	char part[MT_UNITS_TEXT_MAX], all[MT_UNITS_TEXT_MAX];

	if (t->usable_allocs == t->allocs)
		mt_buf_adds(&s->text, "totals, threads and size classes are exact, in usable "
				      "bytes: what the allocator gave, not what was asked for");
	else
		mt_buf_printf(&s->text,
			      "totals, threads and size classes are exact; %s of %s allocations "
			      "count in them with usable bytes: what the allocator gave",
			      mt_units_count(t->usable_allocs, part),
			      mt_units_count(t->allocs, all));
	say(s);
}

static void add_rail(struct mt_buf *out, const struct mt_profile_change *c)
{
	char before[MT_UNITS_TEXT_MAX], after[MT_UNITS_TEXT_MAX];

	mt_buf_printf(out, "the sampling interval rose from %s to %s, because %s",
		      mt_units_size(c->before, before), mt_units_size(c->after, after),
		      c->what == CHANGE_MEMORY_RAIL
			      ? "the tracker's memory came near its bound"
			      : "samples took more than the processor time they may");
}

static void add_quoted(struct mt_buf *out, const char *what, const char *text)
{
	mt_buf_adds(out, what);
	mt_buf_adds(out, " '");
	mt_buf_adds(out, text);
	mt_buf_adds(out, "'");
}

static void add_every(struct mt_buf *out, const struct mt_profile_change *c)
{
	char before[MT_UNITS_TEXT_MAX], after[MT_UNITS_TEXT_MAX];

	if (c->after)
		mt_buf_printf(out, "sampling was set to one of every %s allocations",
			      mt_units_count(c->after, after));
	else
		mt_buf_adds(out, "sampling was set to go by bytes");
	if (c->before)
		mt_buf_printf(out, ", from one of every %s allocations",
			      mt_units_count(c->before, before));
}

static void add_change(struct mt_buf *out, const struct mt_profile_change *c)
{
	char before[MT_UNITS_TEXT_MAX], after[MT_UNITS_TEXT_MAX];

	switch (c->what) {
	case CHANGE_MODE:
		mt_buf_printf(out, "the mode changed from %s to %s",
			      mt_words_mode((uint32_t)c->before),
			      mt_words_mode((uint32_t)c->after));
		break;
	case CHANGE_INTERVAL:
		mt_buf_printf(out, "the sampling interval was set from %s to %s",
			      mt_units_size(c->before, before), mt_units_size(c->after, after));
		break;
	case CHANGE_EVERY:
		add_every(out, c);
		break;
	case CHANGE_SWITCH:
		mt_buf_printf(out, "recording was switched %s", c->after ? "on" : "off");
		break;
	case CHANGE_MODULES:
		add_quoted(out, "the filter of modules became", c->text);
		break;
	case CHANGE_LABEL:
		add_quoted(out, "the label became", c->text);
		break;
	case CHANGE_PEAK_RESET:
		mt_buf_printf(out, "peaks were set back from %s to %s",
			      mt_units_size(c->before, before), mt_units_size(c->after, after));
		break;
	case CHANGE_REFUSED:
		add_quoted(out, "a request was refused:", c->text);
		break;
	case CHANGE_MEMORY_RAIL:
	case CHANGE_CPU_RAIL:
		add_rail(out, c);
		break;
	default:
		mt_buf_printf(out,
			      "something changed that this version does not know (%" PRIu32 ")",
			      c->what);
	}
}

static bool is_rail(const struct mt_profile_change *c)
{
	return c->what == CHANGE_MEMORY_RAIL || c->what == CHANGE_CPU_RAIL;
}

/* Guard rails first: they changed what the user had asked for. */
static void say_changes(struct speaker *s, const struct mt_report *r, const struct mt_profile *p)
{
	uint32_t shown = 0, hidden = 0;
	char text[MT_UNITS_TEXT_MAX];

	for (int rails = 1; rails >= 0; rails--)
		for (uint32_t i = 0; i < p->change_count; i++) {
			if (is_rail(&p->change[i]) != (rails == 1))
				continue;
			if (shown == CHANGES_SHOWN) {
				hidden++;
				continue;
			}
			shown++;
			if (r->profile_count > 1)
				mt_buf_printf(&s->text, "process %" PRId32 ": ", p->pid);
			mt_buf_printf(&s->text, "after %s ", mt_units_time(p->change[i].ns, text));
			add_change(&s->text, &p->change[i]);
			say(s);
		}
	if (hidden) {
		mt_buf_printf(&s->text, "%" PRIu32 " more %s of the recording (--json lists all)",
			      hidden, hidden == 1 ? "change" : "changes");
		say(s);
	}
}

bool mt_basis_is_counted_only(const struct mt_report *r)
{
	bool has_stats = false;

	for (uint32_t i = 0; i < r->profile_count; i++) {
		const struct mt_profile *p = r->profiles[i];

		if (mt_profile_is_sampled(p))
			return false; /* though maybe no sample was taken */
		has_stats |= p->stats != NULL;
		for (uint32_t k = 1; k < p->site_count; k++)
			if (p->site[k].call && !p->site[k].heap)
				return false;
	}
	return has_stats;
}

static bool is_of_samples(enum mt_show show)
{
	return show == MT_SHOW_TEMPORARY || show == MT_SHOW_LIFETIMES || show == MT_SHOW_PEAK;
}

static uint32_t count_dumps(const struct mt_report *r)
{
	uint32_t dumps = 0;

	for (uint32_t i = 0; i < r->profile_count; i++)
		dumps += r->profiles[i]->source == MT_PROFILE_OF_HEAP_DUMP;
	return dumps;
}

static void say_dumps(struct speaker *s, const struct mt_report *r)
{
	if (!count_dumps(r))
		return;
	mt_buf_adds(&s->text, "a heap dump tells what was live: its peak, its allocations and "
			      "frees, ages and threads are not known");
	say(s);
}

/* malloc is not the C library's. */
static bool has_own_allocator(const struct mt_profile *p)
{
	for (uint32_t i = 1; i < p->module_count; i++) {
		const char *name = mt_names_base(p->module[i].path);

		if (p->module[i].is_provider && strncmp(name, "libc.", 5) &&
		    strncmp(name, "libc-", 5) && strncmp(name, "ld-musl", 7))
			return true;
	}
	return false;
}

uint64_t mt_basis_nested(const struct mt_report *r)
{
	enum { MOST = 16 };
	uint64_t sum = 0;

	for (uint32_t i = 0; i < r->profile_count; i++) {
		const struct mt_profile *p = r->profiles[i];
		uint64_t nested = p->lost[LOST_NESTED];

		for (uint32_t k = 1; k < p->thread_count; k++)
			nested += p->thread[k].nested_allocs + p->thread[k].nested_frees;
		if (nested <= MOST && has_own_allocator(p))
			sum += nested;
	}
	return sum;
}

static void say_nested(struct speaker *s, const struct mt_report *r)
{
	uint64_t nested = mt_basis_nested(r);
	char text[MT_UNITS_TEXT_MAX];

	if (!nested)
		return;
	mt_buf_printf(&s->text,
		      "%s %s inside of others are in no total: an allocator makes a few of them "
		      "when it starts",
		      mt_units_count(nested, text), nested == 1 ? "event" : "events");
	say(s);
}

void mt_basis_sentences(const struct mt_report *r, const struct mt_totals *t,
			void (*emit)(void *context, const char *sentence), void *context)
{
	struct speaker s = {.emit = emit, .context = context};

	say_dumps(&s, r);
	if (t->is_sampled)
		say_sampling(&s, r, t);
	if (t->is_sampled && is_of_samples(r->show)) {
		mt_buf_adds(&s.text, r->show == MT_SHOW_PEAK
					     ? "at the peak, blocks are counted in samples"
					     : "temporaries and lifetimes are counted in samples, "
					       "among which large blocks are over-represented");
		say(&s);
	}
	if (mt_basis_is_counted_only(r)) {
		mt_buf_adds(&s.text, "statistics mode records no call stacks: call sites, "
				     "temporaries and lifetimes are not known");
		say(&s);
	}
	if (t->usable_allocs)
		say_usable(&s, t);
	mt_left_out_sentences(r, emit, context);
	say_nested(&s, r);
	for (uint32_t i = 0; i < r->profile_count; i++)
		say_changes(&s, r, r->profiles[i]);
}

void mt_basis_add_counted_verdict(const struct mt_totals *t, struct mt_buf *out)
{
	char size[MT_UNITS_TEXT_MAX], count[MT_UNITS_TEXT_MAX];

	mt_buf_printf(out, "%s live in %s %s; which call sites hold %s is not known",
		      mt_units_size(t->live_bytes, size), mt_units_count(t->live_count, count),
		      t->live_count == 1 ? "block" : "blocks", t->live_count == 1 ? "it" : "them");
}

/* Whether it was in statistics mode for a time. */
static bool had_stats(const struct mt_profile *p)
{
	bool had = is_stats(p->mode) || is_stats(p->first_mode);

	for (uint32_t i = 0; i < p->change_count; i++)
		had |= p->change[i].what == CHANGE_MODE &&
		       (is_stats(p->change[i].before) || is_stats(p->change[i].after));
	return had && p->stats;
}

uint64_t mt_basis_live(const struct mt_report *r)
{
	uint64_t live = 0;

	for (uint32_t i = 0; i < r->profile_count; i++)
		live += r->profiles[i]->live_bytes;
	return live;
}

bool mt_basis_knows_live(const struct mt_report *r, const struct mt_table *t)
{
	return (r->show == MT_SHOW_LEAKS || r->show == MT_SHOW_LIVE) && !t->query.heap &&
	       !r->min_age_ns && !(r->modules && *r->modules);
}

uint64_t mt_basis_counted_more(const struct mt_report *r, const struct mt_table *t)
{
	uint64_t live = mt_basis_live(r), known = t->bytes + t->suppressed_bytes;
	bool had = false;

	if (!mt_basis_knows_live(r, t))
		return 0;
	for (uint32_t i = 0; i < r->profile_count; i++)
		had |= had_stats(r->profiles[i]);
	if (!had || live <= known)
		return 0;
	if (t->has_samples &&
	    (double)live <= mt_estimate_bytes(&t->estimate).high + (double)t->suppressed_bytes)
		return 0;
	return live - known;
}

/* ---- estimates ---- */

bool mt_is_estimate(const struct mt_estimate *e)
{
	return e && !mt_estimate_is_exact(e);
}

static uint64_t whole(double v)
{
	return !(v > 0) ? 0 : v >= 0x1p64 ? UINT64_MAX : (uint64_t)v;
}

void mt_interval_whole(struct mt_interval i, uint64_t *ret_low, uint64_t *ret_high)
{
	/* a figure that is known to a billionth is not made wider by a whole one */
	*ret_low = whole(ceil(i.low * (1 - 1e-9) - 1e-6));
	*ret_high = whole(floor(i.high * (1 + 1e-9) + 1e-6));
	*ret_high = MT_MAX(*ret_high, *ret_low);
}

void mt_text_interval(struct mt_buf *out, struct mt_interval i, bool is_count)
{
	char a[MT_UNITS_TEXT_MAX], b[MT_UNITS_TEXT_MAX];
	uint64_t low, high;

	mt_interval_whole(i, &low, &high);
	is_count ? mt_units_count(low, a) : mt_units_size(low, a);
	is_count ? mt_units_count(high, b) : mt_units_size(high, b);
	if (high == UINT64_MAX)
		mt_buf_printf(out, "at least %s", a);
	else if (!low)
		mt_buf_printf(out, "less than %s", b);
	else
		mt_buf_printf(out, "%s to %s", a, b);
}

static int64_t whole_signed(double v)
{
	return v >= 0x1p63 ? INT64_MAX : v <= -0x1p63 ? INT64_MIN : (int64_t)v;
}

void mt_text_growth(struct mt_buf *out, struct mt_interval i)
{
	char a[MT_UNITS_TEXT_MAX], b[MT_UNITS_TEXT_MAX];

	mt_buf_printf(out, "%s to %s",
		      isinf(i.low) ? "any" : mt_units_size_signed(whole_signed(i.low), a),
		      isinf(i.high) ? "any" : mt_units_size_signed(whole_signed(i.high), b));
}

/* ---- JSON and CSV ---- */

static void add_end(struct mt_json *j, const char *name, uint64_t value)
{
	if (value == UINT64_MAX)
		mt_json_null(j, name);
	else
		mt_json_u64(j, name, value);
}

void mt_json_estimate(struct mt_json *j, const struct mt_estimate *e)
{
	uint64_t low, high;

	if (!e)
		return;
	mt_json_open(j, "estimate", '{');
	mt_json_u64(j, "samples", e->samples);
	mt_json_u64(j, "certain", e->certain);
	mt_interval_whole(mt_estimate_bytes(e), &low, &high);
	mt_json_u64(j, "bytes_low", low);
	add_end(j, "bytes_high", high);
	mt_interval_whole(mt_estimate_count(e), &low, &high);
	mt_json_u64(j, "count_low", low);
	add_end(j, "count_high", high);
	if (e->is_least)
		mt_json_bool(j, "lower_bound", true);
	if (e->is_most)
		mt_json_bool(j, "upper_bound", true);
	mt_json_close(j, '}');
}

static void add_growth(struct mt_json *j, const char *low_name, const char *high_name,
		       struct mt_interval i)
{
	if (isinf(i.low))
		mt_json_null(j, low_name);
	else
		mt_json_i64(j, low_name, whole_signed(i.low));
	if (isinf(i.high))
		mt_json_null(j, high_name);
	else
		mt_json_i64(j, high_name, whole_signed(i.high));
}

void mt_json_growth(struct mt_json *j, struct mt_interval bytes, struct mt_interval count)
{
	add_growth(j, "bytes_low", "bytes_high", bytes);
	add_growth(j, "count_low", "count_high", count);
}

static void emit_note(void *context, const char *sentence)
{
	mt_json_string(context, NULL, sentence);
}

static void add_ways(struct mt_json *j, const struct mt_report *r, const struct mt_totals *t)
{
	struct way way[REGIMES_SHOWN] = {0};
	uint32_t count = find_ways(r, way);

	mt_json_open(j, "sampling", '{');
	mt_json_u64(j, "samples", t->samples);
	mt_json_open(j, "intervals", '[');
	for (uint32_t i = 0; i < count; i++) {
		mt_json_open(j, NULL, '{');
		if (way[i].how.kind == MT_SAMPLING_POISSON)
			mt_json_u64(j, "interval_bytes", way[i].how.interval_bytes);
		else
			mt_json_u64(j, "every", way[i].how.every);
		mt_json_u64(j, "samples", way[i].samples);
		mt_json_close(j, '}');
	}
	mt_json_close(j, ']');
	mt_json_u64(j, "samples_without_block", t->no_block);
	mt_json_u64(j, "samples_without_site", t->no_site);
	mt_json_bool(j, "lower_bound", t->no_block || t->no_site);
	mt_json_bool(j, "peak_is_estimate", t->is_peak_estimate);
	mt_json_close(j, '}');
}

static void add_change_json(struct mt_json *j, const struct mt_profile *p,
			    const struct mt_profile_change *c)
{
	mt_json_open(j, NULL, '{');
	mt_json_i64(j, "pid", p->pid);
	mt_json_u64(j, "ns", c->ns);
	mt_json_string(j, "what",
		       c->what < MT_ARRAY_LEN(change_names) && change_names[c->what]
			       ? change_names[c->what]
			       : "unknown");
	mt_json_u64(j, "before", c->before);
	mt_json_u64(j, "after", c->after);
	if (*c->text)
		mt_json_string(j, "text", c->text);
	mt_json_close(j, '}');
}

void mt_json_basis(struct mt_json *j, const struct mt_report *r, const struct mt_totals *t)
{
	uint32_t changes = 0;

	for (uint32_t i = 0; i < r->profile_count; i++)
		changes += r->profiles[i]->change_count;
	if (!t->is_sampled && !t->usable_allocs && !changes && !count_dumps(r) &&
	    !mt_basis_nested(r))
		return;
	mt_json_open(j, "notes", '[');
	mt_basis_sentences(r, t, emit_note, j);
	mt_json_close(j, ']');
	mt_json_u64(j, "usable_allocs", t->usable_allocs);
	if (t->is_sampled)
		add_ways(j, r, t);
	mt_left_out_json(j, r);
	mt_json_open(j, "changes", '[');
	for (uint32_t i = 0; i < r->profile_count; i++)
		for (uint32_t k = 0; k < r->profiles[i]->change_count; k++)
			add_change_json(j, r->profiles[i], &r->profiles[i]->change[k]);
	mt_json_close(j, ']');
}

void mt_csv_estimate(struct mt_buf *out, const struct mt_estimate *e)
{
	struct mt_interval i;
	uint64_t low, high;

	if (!e) {
		mt_buf_adds(out, ",,\n");
		return;
	}
	i = mt_estimate_bytes(e);
	mt_interval_whole(i, &low, &high);
	mt_buf_printf(out, "%" PRIu64 ",%" PRIu64 ",", e->samples + e->certain, low);
	if (!isinf(i.high))
		mt_buf_printf(out, "%" PRIu64, high);
	mt_buf_addc(out, '\n');
}

void mt_csv_growth(struct mt_buf *out, const struct mt_diff_row *row)
{
	double low = row->is_estimate ? row->bytes_interval.low : (double)row->bytes;
	double high = row->is_estimate ? row->bytes_interval.high : (double)row->bytes;

	if (!isinf(low))
		mt_buf_printf(out, "%" PRId64, whole_signed(low));
	mt_buf_addc(out, ',');
	if (!isinf(high))
		mt_buf_printf(out, "%" PRId64, whole_signed(high));
	mt_buf_addc(out, '\n');
}

/* ---- big blocks ---- */

static int compare_big(const void *a, const void *b)
{
	const struct mt_big_row *x = a, *y = b;

	if (x->big->usable_bytes != y->big->usable_bytes)
		return x->big->usable_bytes < y->big->usable_bytes ? 1 : -1;
	return x->big->address < y->big->address ? -1 : x->big->address > y->big->address;
}

struct mt_big_row *mt_basis_big(const struct mt_report *r, uint32_t *ret_count, uint64_t *ret_bytes)
{
	struct mt_big_row *rows;
	uint32_t room = 1, count = 0;

	for (uint32_t i = 0; i < r->profile_count; i++)
		room += r->profiles[i]->big_count;
	rows = mt_alloc_zero(room, sizeof(*rows));
	if (!rows)
		return NULL;
	*ret_bytes = 0;
	for (uint32_t i = 0; i < r->profile_count; i++)
		for (uint32_t k = 0; k < r->profiles[i]->big_count; k++) {
			const struct mt_profile *p = r->profiles[i];

			rows[count++] = (struct mt_big_row){p, &p->big[k]};
			*ret_bytes += p->big[k].usable_bytes;
		}
	qsort(rows, count, sizeof(*rows), compare_big);
	*ret_count = count;
	return rows;
}

void mt_json_large(struct mt_json *j, const struct mt_report *r)
{
	uint64_t bytes;
	uint32_t count = 0;
	mt_auto(free) struct mt_big_row *rows = mt_basis_big(r, &count, &bytes);

	if (!rows) {
		j->out->failed = true;
		return;
	}
	mt_json_open(j, "large_blocks", '[');
	for (uint32_t i = 0; i < count && (!r->top || i < r->top); i++) {
		const struct mt_profile *p = rows[i].p;
		const struct mt_profile_big *b = rows[i].big;

		mt_json_open(j, NULL, '{');
		mt_json_i64(j, "pid", p->pid);
		mt_json_u64(j, "tid", p->thread[b->thread].tid);
		mt_json_u64(j, "usable_bytes", b->usable_bytes);
		mt_json_u64(j, "address", b->address);
		mt_json_u64(j, "age_ns", p->duration_ns - MT_MIN(b->born_ns, p->duration_ns));
		mt_json_close(j, '}');
	}
	mt_json_close(j, ']');
}
