/* SPDX-License-Identifier: MIT */
/*
 * Rows are made anew after each reading: numbers in the columns of the view, and one text. The
 * cursor is the key of a row, so it stays with its process or site while the order changes.
 */

#include "cli/top.h"

#include "analysis/names.h"
#include "base/alloc.h"
#include "base/units.h"
#include "core/cc.h"
#include "core/sys.h"
#include "cli/top_internal.h"
#include "formats/mtk_watch.h"
#include "wire/state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FIND_NS 2000000000u /* processes are looked for at this distance, or more if it is dear */
enum { FIND_FACTOR = 20 };

void mt_top_init(struct mt_top *t)
{
	*t = (struct mt_top){0};
	for (int v = 0; v < MT_TOP_VIEWS; v++)
		t->sort[v] = mt_top_views[v].sort;
}

static void forget_open(struct mt_top *t)
{
	mt_watched_done(&t->open);
	free(t->first_site);
	t->first_site = NULL;
	t->first_site_count = 0;
	t->names = t->quick_names = NULL;
}

void mt_top_done(struct mt_top *t)
{
	if (!t)
		return;
	forget_open(t);
	mt_watched_list_done(&t->list);
	free(t->row);
	mt_buf_done(&t->texts);
	*t = (struct mt_top){0};
}

/* ---- reading ---- */

static bool is_wanted(const struct mt_top *t, const struct mt_watched *w)
{
	if (!t->only || !t->only->count)
		return true;
	for (int i = 0; i < t->only->count; i++) {
		const char *text = t->only->text[i];

		if (!strncmp(text, "name:", 5)
			    ? !strcmp(w->program, text + 5) || !strcmp(w->called, text + 5)
			    : w->now.pid == atoi(text))
			return true;
	}
	return false;
}

static unsigned what_to_read(const struct mt_top *t)
{
	static const unsigned what[MT_TOP_VIEWS] = {
		[MT_TOP_SITES] = MT_MTK_WATCH_SITES,
		[MT_TOP_THREADS] = MT_MTK_WATCH_THREADS,
		[MT_TOP_SIZES] = MT_MTK_WATCH_SIZES,
	};

	return what[t->view];
}

/* What the sites held when they were first seen, for their growth. */
static int keep_first_sites(struct mt_top *t)
{
	const struct mt_watch *now = &t->open.now;

	if (t->first_site || !now->site_count)
		return 0;
	t->first_site = mt_alloc_zero(now->site_count, sizeof(*t->first_site));
	if (!t->first_site)
		return -ENOMEM;
	memcpy(t->first_site, now->site, now->site_count * sizeof(*t->first_site));
	t->first_site_count = now->site_count;
	return 0;
}

static int read_open(struct mt_top *t)
{
	if (!t->open.path)
		return 0;
	t->open_what_before = t->open_what;
	t->open_what = what_to_read(t);
	if (mt_watched_read(&t->open, t->open_what) == -ENOMEM)
		return -ENOMEM;
	return keep_first_sites(t);
}

int mt_top_update(struct mt_top *t, enum mt_top_reading reading)
{
	uint64_t start_ns = mt_sys_clock_ns(MT_CLOCK_MONOTONIC);
	uint64_t pause_ns = MT_MAX((uint64_t)FIND_NS, FIND_FACTOR * t->find_took_ns);
	int code = 0;

	if (reading == MT_TOP_FIND || start_ns - t->found_ns >= pause_ns) {
		code = mt_watched_list_find(&t->list, MT_MTK_WATCH_SUMS);
		t->found_ns = mt_sys_clock_ns(MT_CLOCK_MONOTONIC);
		t->find_took_ns = t->found_ns - start_ns;
	} else {
		for (size_t i = 0; i < t->list.count && code != -ENOMEM; i++)
			code = mt_watched_read(&t->list.item[i], MT_MTK_WATCH_SUMS);
		code = code == -ENOMEM ? code : 0; /* others have just ended */
	}
	if (!code)
		code = read_open(t);
	return code ? code : mt_top_arrange(t);
}

static struct mt_watched_history *copy_history(const struct mt_watched_history *from)
{
	struct mt_watched_history *to = mt_alloc_zero(1, sizeof(*to));

	if (to && from)
		*to = *from;
	else if (to)
		to->stride = 1;
	return to;
}

int mt_top_open(struct mt_top *t, int32_t pid)
{
	for (size_t i = 0; i < t->list.count; i++) {
		const struct mt_watched *w = &t->list.item[i];

		if (w->now.pid != pid)
			continue;
		forget_open(t);
		t->open.path = strdup(w->path);
		t->open.program = strdup(w->program);
		t->open.history = copy_history(w->history);
		if (!t->open.path || !t->open.program || !t->open.history) {
			forget_open(t);
			return -ENOMEM;
		}
		t->open_what = t->open_what_before = 0;
		t->view = MT_TOP_SITES;
		for (int v = MT_TOP_SITES; v < MT_TOP_VIEWS; v++)
			t->cursor[v] = t->first_row[v] = 0;
		return read_open(t);
	}
	return -ESRCH;
}

void mt_top_close(struct mt_top *t)
{
	forget_open(t);
	t->view = MT_TOP_PROCESSES;
}

/* ---- rows ---- */

static struct mt_top_row *new_row(struct mt_top *t, uint64_t key)
{
	struct mt_top_row *grown =
		mt_alloc_grow(t->row, &t->row_capacity, t->row_count + 1, sizeof(*grown));

	if (!grown)
		return NULL;
	t->row = grown;
	grown += t->row_count++;
	*grown = (struct mt_top_row){.key = key, .text = t->texts.len};
	return grown;
}

static int add_text(struct mt_top *t, const char *text)
{
	return mt_buf_adds(&t->texts, text) || mt_buf_addc(&t->texts, 0) ? -ENOMEM : 0;
}

/* A rate per second, rounded. */
static int64_t rate(uint64_t before, uint64_t now, uint64_t ns)
{
	return now <= before ? 0 : (int64_t)((long double)(now - before) * 1e9L / MT_MAX(ns, 1u));
}

static uint64_t between(const struct mt_watched *w)
{
	return w->now.read_ns - w->before.read_ns;
}

static int add_process(struct mt_top *t, const struct mt_watched *w)
{
	struct mt_top_row *r = new_row(t, (uint64_t)w->now.pid);
	uint64_t lost = 0;

	if (!r)
		return -ENOMEM;
	for (size_t i = 0; i < MT_WATCH_LOST; i++)
		lost += w->now.lost[i];
	r->value[0] = w->now.pid;
	r->value[1] = w->now.is_recording ? (int64_t)w->now.mode : 0;
	r->value[2] = w->now.live_bytes;
	r->value[3] = w->history ? w->now.live_bytes - w->history->live_bytes[0] : 0;
	r->value[4] = r->value[5] = MT_TOP_UNKNOWN;
	if (w->has_before) {
		r->value[4] = rate(w->before.counts.allocs, w->now.counts.allocs, between(w));
		r->value[5] = rate(w->before.events, w->now.events, between(w));
	}
	r->value[6] = (int64_t)lost;
	return add_text(t, w->program);
}

/* "function file:line < caller", or what is known. */
static int add_site_text(struct mt_top *t, uint32_t site, uint8_t call)
{
	const struct mt_site_name *n = t->names ? mt_site_names_get(t->names, site) : NULL;

	if (!n && t->quick_names)
		n = mt_site_names_get(t->quick_names, site);
	if (!n)
		mt_buf_printf(&t->texts, "%s, site %" PRIu32, mt_words_call(call), site);
	else
		mt_buf_printf(&t->texts, "%s%s%s%s%s", n->function, *n->place ? " " : "", n->place,
			      *n->caller ? " < " : "", n->caller);
	return mt_buf_addc(&t->texts, 0) ? -ENOMEM : 0;
}

static int add_site(struct mt_top *t, uint32_t number)
{
	static const struct mt_watch_counts none;
	const struct mt_watched *w = &t->open;
	const struct mt_watch_site *s = &w->now.site[number];
	const struct mt_watch_counts *first =
		number < t->first_site_count ? &t->first_site[number].counts : &none;
	struct mt_top_row *r = new_row(t, number);

	if (!r)
		return -ENOMEM;
	r->value[0] = mt_watch_live_bytes(&s->counts);
	r->value[1] = r->value[0] - mt_watch_live_bytes(first);
	r->value[2] = mt_watch_live_blocks(&s->counts);
	r->value[3] = MT_TOP_UNKNOWN;
	if (w->has_before && w->before.site_count)
		r->value[3] = rate(
			number < w->before.site_count ? w->before.site[number].counts.allocs : 0,
			s->counts.allocs, between(w));
	r->value[4] = (int64_t)s->counts.bytes;
	return add_site_text(t, number, s->call);
}

static int add_sites(struct mt_top *t)
{
	int code = 0;

	for (uint32_t i = 1; i < t->open.now.site_count && !code; i++)
		if (t->open.now.site[i].call)
			code = add_site(t, i);
	return code;
}

/* The row of the same thread in the last reading: mostly in the same place. */
static const struct mt_watch_thread *thread_before(const struct mt_watched *w, uint32_t at)
{
	if (w->has_before && at < w->before.thread_count &&
	    w->before.thread[at].tid == w->now.thread[at].tid)
		return &w->before.thread[at];
	return NULL;
}

static int add_thread(struct mt_top *t, uint32_t at)
{
	const struct mt_watch_thread *th = &t->open.now.thread[at];
	const struct mt_watch_thread *before = thread_before(&t->open, at);
	struct mt_top_row *r = new_row(t, (uint64_t)at << 32 | th->tid);

	if (!r)
		return -ENOMEM;
	r->value[0] = th->tid;
	r->value[1] = mt_watch_live_bytes(&th->counts);
	r->value[2] = (int64_t)th->counts.allocs;
	r->value[3] = r->value[5] = MT_TOP_UNKNOWN;
	r->value[4] = (int64_t)th->reallocs;
	if (before) {
		uint64_t ns = between(&t->open);

		r->value[3] = rate(before->counts.allocs, th->counts.allocs, ns);
		r->value[5] = rate(before->realloc_grown, th->realloc_grown, ns);
	}
	mt_buf_printf(&t->texts, "%s%s", th->name, th->is_ended ? " (ended)" : "");
	return mt_buf_addc(&t->texts, 0) ? -ENOMEM : 0;
}

static int add_threads(struct mt_top *t)
{
	int code = 0;

	for (uint32_t i = 0; i < t->open.now.thread_count && !code; i++)
		code = add_thread(t, i);
	return code;
}

/* Bucket b holds sizes from 2^(b-1) on. */
static void write_bucket(struct mt_buf *out, uint32_t b)
{
	char low[MT_UNITS_TEXT_MAX], high[MT_UNITS_TEXT_MAX];

	if (b < 2)
		mt_buf_adds(out, b ? "1 B" : "0 B");
	else if (b == MT_SIZE_BUCKETS - 1)
		mt_buf_printf(out, "%s and more", mt_units_size(1ull << (b - 1), low));
	else
		mt_buf_printf(out, "%s to below %s", mt_units_size(1ull << (b - 1), low),
			      mt_units_size(1ull << b, high));
	mt_buf_addc(out, 0);
}

static int add_sizes(struct mt_top *t)
{
	const struct mt_watch *now = &t->open.now, *before = &t->open.before;
	bool has_rates = t->open.has_before && t->open_what == MT_MTK_WATCH_SIZES &&
			 t->open_what_before == MT_MTK_WATCH_SIZES;

	for (uint32_t b = 0; b < MT_WATCH_SIZES; b++) {
		const struct mt_watch_counts *c = &now->sizes[b];
		struct mt_top_row *r;

		if (!c->allocs && !c->frees)
			continue;
		r = new_row(t, b + 1u);
		if (!r)
			return -ENOMEM;
		r->value[0] = (int64_t)c->allocs;
		r->value[1] = has_rates
				      ? rate(before->sizes[b].allocs, c->allocs, between(&t->open))
				      : MT_TOP_UNKNOWN;
		/* frees are counted by size in statistics only */
		r->value[2] = c->bytes ? mt_watch_live_blocks(c) : MT_TOP_UNKNOWN;
		r->value[3] = c->bytes ? mt_watch_live_bytes(c) : MT_TOP_UNKNOWN;
		r->value[4] = b;
		write_bucket(&t->texts, b);
	}
	return t->texts.failed ? -ENOMEM : 0;
}

static int add_processes(struct mt_top *t)
{
	int code = 0;

	for (size_t i = 0; i < t->list.count && !code; i++)
		if (is_wanted(t, &t->list.item[i]) && !t->list.item[i].is_stale)
			code = add_process(t, &t->list.item[i]);
	return code;
}

/* ---- order ---- */

static int compare_rows(const void *a, const void *b, void *context)
{
	const struct mt_top_row *x = a, *y = b;
	const struct mt_top *t = context;
	int column = t->sort[t->view], order;

	if (column < 0)
		order = strcmp(mt_buf_text(&t->texts) + x->text, mt_buf_text(&t->texts) + y->text);
	else /* most first, but numbers that name something */
		order = (x->value[column] < y->value[column]) -
			(x->value[column] > y->value[column]);
	if (column >= 0 && mt_top_views[t->view].column[column].flags & MT_TOP_NAME)
		order = -order;
	if (t->is_reversed[t->view])
		order = -order;
	if (!order)
		order = (x->key > y->key) - (x->key < y->key);
	return order;
}

static void drop_filtered(struct mt_top *t)
{
	size_t kept = 0;

	for (size_t i = 0; i < t->row_count && *t->filter; i++)
		if (strcasestr(mt_top_row_text(t, i), t->filter))
			t->row[kept++] = t->row[i];
	if (*t->filter)
		t->row_count = kept;
}

int mt_top_arrange(struct mt_top *t)
{
	static int (*const add[MT_TOP_VIEWS])(struct mt_top * t) = {
		[MT_TOP_PROCESSES] = add_processes, [MT_TOP_SITES] = add_sites,
		[MT_TOP_THREADS] = add_threads,     [MT_TOP_SIZES] = add_sizes,
		[MT_TOP_TIMELINE] = NULL,
	};
	int code = 0;

	t->row_count = 0;
	mt_buf_truncate(&t->texts, 0);
	if (add[t->view])
		code = add[t->view](t);
	if (code)
		return code;
	drop_filtered(t);
	if (t->row_count)
		qsort_r(t->row, t->row_count, sizeof(*t->row), compare_rows, t);
	return 0;
}

size_t mt_top_cursor(const struct mt_top *t)
{
	for (size_t i = 0; i < t->row_count; i++)
		if (t->row[i].key == t->cursor[t->view])
			return i;
	return t->row_count ? 0 : SIZE_MAX;
}

void mt_top_move(struct mt_top *t, long rows)
{
	size_t at = mt_top_cursor(t);

	if (at == SIZE_MAX)
		return;
	if (rows < 0)
		at -= MT_MIN(at, (size_t)-rows);
	else
		at = MT_MIN(at + (size_t)rows, t->row_count - 1);
	t->cursor[t->view] = t->row[at].key;
}

void mt_top_next_sort(struct mt_top *t, int step)
{
	int columns = (int)mt_top_views[t->view].columns;

	/* the text is column -1 */
	t->sort[t->view] = (t->sort[t->view] + 1 + step + columns + 1) % (columns + 1) - 1;
	t->is_reversed[t->view] = false;
}

uint32_t mt_top_wanted_sites(const struct mt_top *t, uint32_t *ret, uint32_t max)
{
	uint32_t count = 0;

	for (size_t i = 0; t->view == MT_TOP_SITES && i < t->row_count && count < max; i++)
		ret[count++] = (uint32_t)t->row[i].key;
	return count;
}

const char *mt_top_row_text(const struct mt_top *t, size_t row)
{
	return mt_buf_text(&t->texts) + t->row[row].text;
}
