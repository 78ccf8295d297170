/* SPDX-License-Identifier: MIT */
/*
 * Reports over a profile made in memory, compared byte by byte with golden/NAME.exact. `make
 * golden` (MT_GOLDEN_UPDATE=1) rewrites the files; the difference is then read in review.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/file.h"
#include "core/cc.h"
#include "model/profile.h"
#include "model/series.h"
#include "report/report.h"
#include "support/profile_fixture.h"

struct golden {
	const char *name;
	enum mt_show show;
	enum mt_by by;
	enum mt_report_format format;
	uint32_t top, stack;
	bool color, without_names, two_processes, damaged, suppressing;
	uint32_t points; /* of a series of snapshots; 0: none */
	enum mt_spark spark;
};

static const struct golden goldens[] = {
	{.name = "leaks", .show = MT_SHOW_LEAKS, .stack = 16},
	{.name = "leaks-color", .show = MT_SHOW_LEAKS, .stack = 16, .color = true},
	{.name = "leaks-no-symbols", .show = MT_SHOW_LEAKS, .stack = 1, .without_names = true},
	{.name = "leaks-damaged", .show = MT_SHOW_LEAKS, .damaged = true},
	{.name = "leaks-suppressed", .show = MT_SHOW_LEAKS, .stack = 16, .suppressing = true},
	{.name = "leaks-two-processes", .show = MT_SHOW_LEAKS, .two_processes = true},
	{.name = "live", .show = MT_SHOW_LIVE, .stack = 16, .top = 1},
	{.name = "peak", .show = MT_SHOW_PEAK, .stack = 2},
	{.name = "total-by-function", .show = MT_SHOW_TOTAL, .by = MT_BY_FUNCTION},
	{.name = "total-by-size", .show = MT_SHOW_TOTAL, .by = MT_BY_SIZE},
	{.name = "live-by-thread", .show = MT_SHOW_LIVE, .by = MT_BY_THREAD, .stack = 16},
	{.name = "live-by-heap", .show = MT_SHOW_LIVE, .by = MT_BY_HEAP},
	{.name = "total-by-label", .show = MT_SHOW_TOTAL, .by = MT_BY_LABEL},
	{.name = "temporary", .show = MT_SHOW_TEMPORARY, .stack = 16},
	{.name = "large", .show = MT_SHOW_LARGE, .stack = 16},
	{.name = "sizes", .show = MT_SHOW_SIZES},
	{.name = "lifetimes", .show = MT_SHOW_LIFETIMES},
	{.name = "threads", .show = MT_SHOW_THREADS},
	{.name = "modules", .show = MT_SHOW_MODULES},
	{.name = "heaps", .show = MT_SHOW_HEAPS},
	{.name = "coverage", .show = MT_SHOW_COVERAGE},
	{.name = "summary", .show = MT_SHOW_SUMMARY, .two_processes = true},
	{.name = "leaks.json", .show = MT_SHOW_LEAKS, .format = MT_REPORT_JSON, .stack = 256},
	{.name = "total.json", .show = MT_SHOW_TOTAL, .format = MT_REPORT_JSON, .damaged = true},
	{.name = "sizes.json", .show = MT_SHOW_SIZES, .format = MT_REPORT_JSON},
	{.name = "lifetimes.json", .show = MT_SHOW_LIFETIMES, .format = MT_REPORT_JSON},
	{.name = "threads.json", .show = MT_SHOW_THREADS, .format = MT_REPORT_JSON},
	{.name = "coverage.json", .show = MT_SHOW_COVERAGE, .format = MT_REPORT_JSON},
	{.name = "by-function.json",
	 .show = MT_SHOW_LIVE,
	 .by = MT_BY_FUNCTION,
	 .format = MT_REPORT_JSON},
	{.name = "leaks.csv", .show = MT_SHOW_LEAKS, .format = MT_REPORT_CSV, .stack = 256},
	{.name = "sizes.csv", .show = MT_SHOW_SIZES, .format = MT_REPORT_CSV},
	{.name = "lifetimes.csv", .show = MT_SHOW_LIFETIMES, .format = MT_REPORT_CSV},
	{.name = "threads.csv", .show = MT_SHOW_THREADS, .format = MT_REPORT_CSV},
	{.name = "heaps.csv", .show = MT_SHOW_HEAPS, .format = MT_REPORT_CSV},
	{.name = "leaks.kv", .show = MT_SHOW_LEAKS, .format = MT_REPORT_KV, .stack = 256},
	{.name = "timeline", .show = MT_SHOW_TIMELINE, .stack = 2, .points = 40},
	{.name = "timeline-few", .show = MT_SHOW_TIMELINE, .points = 3},
	{.name = "timeline-damaged",
	 .show = MT_SHOW_TIMELINE,
	 .points = 40,
	 .top = 1,
	 .damaged = true},
	{.name = "timeline-terminal",
	 .show = MT_SHOW_TIMELINE,
	 .stack = 1,
	 .points = 40,
	 .color = true,
	 .spark = MT_SPARK_UTF8},
	{.name = "timeline-ascii",
	 .show = MT_SHOW_TIMELINE,
	 .points = 40,
	 .spark = MT_SPARK_ASCII,
	 .two_processes = true},
	{.name = "timeline.json",
	 .show = MT_SHOW_TIMELINE,
	 .format = MT_REPORT_JSON,
	 .stack = 1,
	 .points = 14},
	{.name = "timeline.csv", .show = MT_SHOW_TIMELINE, .format = MT_REPORT_CSV, .points = 14},
	{.name = "summary.kv", .show = MT_SHOW_SUMMARY, .format = MT_REPORT_KV, .damaged = true},
};

static const struct golden diffs[] = {
	{.name = "diff", .stack = 16},
	{.name = "diff-by-function", .by = MT_BY_FUNCTION},
	{.name = "diff.json", .format = MT_REPORT_JSON, .stack = 256},
	{.name = "diff.csv", .format = MT_REPORT_CSV, .stack = 256},
	{.name = "diff.kv", .format = MT_REPORT_KV},
	{.name = "diff-rebuilt", .stack = 16, .damaged = true},
};

static bool is_suppressed(void *context, const struct mt_profile *p, uint32_t site)
{
	return site == 3;
}

static struct mt_report make_report(const struct golden *g, const struct mt_profile *const *list)
{
	return (struct mt_report){
		.profiles = list,
		.profile_count = g->two_processes ? 2 : 1,
		.show = g->show,
		.by = g->by,
		.top = g->top,
		.stack = g->stack,
		.leak_threshold_bytes = MT_REPORT_THRESHOLD_DEFAULT,
		.color = g->color,
		.names = g->without_names ? NULL : &fixture_names,
		.is_suppressed = g->suppressing ? is_suppressed : NULL,
	};
}

/*
 * Snapshots a minute apart: site 1 leaks 16 KiB each time and frees every fourth block, site 2
 * fills up to 320 KiB in 20 minutes, site 3 has 10 KiB every other time.
 */
static struct mt_series *make_series(uint32_t points, bool damaged)
{
	struct mt_arena *arena = mt_arena_new();
	struct mt_series *s = arena ? mt_arena_zalloc(arena, sizeof(*s)) : NULL;

	assert_non_null(s);
	*s = (struct mt_series){.arena = arena,
				.point_count = points,
				.judged_count = points,
				.site_count = 6,
				.column_count = points,
				.lost = damaged ? 3 : 0,
				.thinned = damaged ? 1234 : 0,
				.damaged_bytes = damaged ? 77 : 0};
	s->point = mt_arena_array(arena, points, sizeof(*s->point));
	s->column = mt_arena_array(arena, points, sizeof(*s->column));
	s->first = mt_arena_array(arena, 6, sizeof(*s->first));
	s->last = mt_arena_array(arena, 6, sizeof(*s->last));
	s->bytes = mt_arena_array(arena, (size_t)6 * points, sizeof(*s->bytes));
	for (uint32_t i = 0; i < points; i++) {
		uint64_t now[4] = {0, 16384 * (i + 1), 16384 * MT_MIN(i, 20u), i % 2 * 10240};
		bool is_last = i == points - 1;

		s->column[i] = i;
		for (int k = 1; k < 4; k++) {
			uint64_t allocs = k == 1 ? 4 * (i + 1) : k == 2 ? MT_MIN(i, 20u) : i + 1;
			struct mt_series_site site = {now[k], now[k] / 1024, allocs,
						      k == 1   ? i + 1
						      : k == 2 ? 0
							       : allocs};

			s->bytes[(size_t)k * points + i] = now[k];
			if (!i)
				s->first[k] = site;
			if (is_last)
				s->last[k] = site;
		}
		s->point[i] = (struct mt_series_point){
			.number = i + 1,
			.reason = !i        ? MT_SERIES_FIRST
				  : is_last ? MT_SERIES_LAST
				  : i == 7  ? MT_SERIES_ASKED
					    : MT_SERIES_INTERVAL,
			.time_ns = i * 60000000000ull,
			.wall_ns = 1700000000000000000ull + i * 60000000000ull,
			.live_bytes = now[1] + now[2] + now[3],
			.live_count = i + 3,
			.allocs = 100 + i,
			.frees = 97,
			.alloc_bytes = now[1] + 1000000,
			.freed_bytes = 1000000,
			.rss_bytes = is_last ? MT_SERIES_UNKNOWN : 4000000 + now[1],
			.pss_bytes = i % 10 ? MT_SERIES_UNKNOWN : 3000000,
			.anon_bytes = is_last ? MT_SERIES_UNKNOWN : 2000000,
			.swap_bytes = is_last ? MT_SERIES_UNKNOWN : 0,
		};
	}
	return s;
}

static void damage(struct mt_profile *p)
{
	p->lost[1] = 1234567;
	p->lost[6] = 1;
	p->notes = 1 << 0 | 1 << 2 | 1 << 6;
	p->thread[1].unplaced_allocs = 12;
	p->thread[1].untracked_allocs = 7;
	p->end_kind = 2;
	p->end_code = 9;
	p->peak_bound_bytes = 65536;
	mt_profile_warn(p, "the file is cut at byte 4096");
}

static void compare(const char *name, const struct mt_buf *out)
{
	mt_auto(free) char *path = NULL;
	mt_auto(free) char *want = NULL;
	size_t len;

	assert_true(asprintf(&path, "%s/%s.exact", GOLDEN_DIR, name) > 0);
	if (getenv("MT_GOLDEN_UPDATE")) {
		assert_int_equal(mt_file_write_atomic(path, out->data, out->len, 0644, NULL), 0);
		return;
	}
	if (mt_file_read(path, 1 << 20, &want, &len, NULL))
		fail_msg("cannot read '%s'; make it with `make golden`", path);
	if (len != out->len || memcmp(want, out->data, len))
		fail_msg("'%s' differs; the report is now:\n%s", path, mt_buf_text(out));
}

static void reports_are_as_recorded(void **state)
{
	for (size_t i = 0; i < MT_ARRAY_LEN(goldens); i++) {
		const struct golden *g = &goldens[i];
		struct mt_profile *a = fixture_profile(&(struct fixture_options){.build_id = 7});
		struct mt_profile *b = fixture_profile(
			&(struct fixture_options){.build_id = 7, .pid = 200, .slide = 0x30000});
		const struct mt_profile *list[2] = {a, b};
		struct mt_series *series = g->points ? make_series(g->points, g->damaged) : NULL;
		const struct mt_series *both[2] = {series, series};
		struct mt_report r = make_report(g, list);
		mt_auto(mt_buf) struct mt_buf out = {0};
		struct mt_err err = {0};

		r.series = both;
		r.spark = g->spark;
		if (g->damaged)
			damage(a);
		if (mt_report_write(&r, g->format, &out, &err))
			fail_msg("%s: %s", g->name, err.text);
		compare(g->name, &out);
		mt_series_free(series);
		mt_profile_free(a);
		mt_profile_free(b);
	}
}

static void differences_are_as_recorded(void **state)
{
	for (size_t i = 0; i < MT_ARRAY_LEN(diffs); i++) {
		const struct golden *g = &diffs[i];
		struct mt_profile *a = fixture_profile(&(struct fixture_options){.build_id = 7});
		struct mt_profile *b = fixture_profile(&(struct fixture_options){
			.build_id = g->damaged ? 8 : 7, .extra_bytes = 30, .slide = 0x30000});
		const struct mt_profile *before[1] = {a}, *now[1] = {b};
		struct mt_report r = make_report(g, now);
		mt_auto(mt_buf) struct mt_buf out = {0};
		struct mt_err err = {0};

		if (mt_report_write_diff(&r, before, 1, g->format, &out, &err))
			fail_msg("%s: %s", g->name, err.text);
		compare(g->name, &out);
		mt_profile_free(a);
		mt_profile_free(b);
	}
}

static void expect_refusal(enum mt_show show, enum mt_by by, enum mt_report_format format,
			   const char *sentence)
{
	struct mt_profile *p = fixture_profile(&(struct fixture_options){0});
	const struct mt_profile *list[1] = {p};
	struct golden g = {.show = show, .by = by};
	struct mt_report r = make_report(&g, list);
	mt_auto(mt_buf) struct mt_buf out = {0};
	struct mt_err err = {0};

	assert_int_equal(mt_report_write(&r, format, &out, &err), -EINVAL);
	assert_string_equal(err.text, sentence);
	mt_profile_free(p);
}

static void what_was_not_recorded_is_refused_with_a_sentence(void **state)
{
	expect_refusal(
		MT_SHOW_TIMELINE, MT_BY_SITE, MT_REPORT_TEXT,
		"no snapshots were taken: 'memtrack run --snapshot-every=TIME' takes them while a "
		"program runs");
	expect_refusal(MT_SHOW_ERRORS, MT_BY_SITE, MT_REPORT_JSON,
		       "no memory errors were looked for: 'memtrack run --check=OPTIONS' does, and "
		       "'memtrack run --mode=sample --guard-sampled' by chance");
	expect_refusal(MT_SHOW_PEAK, MT_BY_THREAD, MT_REPORT_TEXT,
		       "--show=peak is not known by thread; use another --by");
	expect_refusal(MT_SHOW_COVERAGE, MT_BY_SITE, MT_REPORT_CSV,
		       "--show=coverage has no CSV form; use --json");
	expect_refusal(MT_SHOW_PEAK, MT_BY_SITE, MT_REPORT_KV,
		       "--show=peak has no key=value form; use --json or --csv");
	expect_refusal(MT_SHOW_COVERAGE, MT_BY_SITE, MT_REPORT_KV,
		       "--show=coverage has no key=value form; use --json");
}

static void leaks_are_counted_for_the_exit_code(void **state)
{
	struct mt_profile *p = fixture_profile(&(struct fixture_options){0});
	const struct mt_profile *list[1] = {p};
	struct golden g = {.show = MT_SHOW_PEAK, .suppressing = true};
	struct mt_report r = make_report(&g, list);
	struct mt_report_leaks leaks;

	assert_int_equal(mt_report_count_leaks(&r, &leaks), 0);
	assert_int_equal(leaks.sites, 2);
	assert_int_equal(leaks.wide_sites, 1);
	assert_int_equal(leaks.count, 5);
	assert_int_equal(leaks.bytes, 4 * 1048576 + 100);
	mt_profile_free(p);
}

static void strange_names_stay_valid_json(void **state)
{
	struct mt_profile *p = fixture_profile(&(struct fixture_options){0});
	const struct mt_profile *list[1] = {p};
	struct golden g = {.show = MT_SHOW_LEAKS};
	struct mt_report r = make_report(&g, list);
	mt_auto(mt_buf) struct mt_buf out = {0};

	p->cmdline = "a\"b\\c\n\x01\xff\xc3\xa9\xed\xa0\x80";
	assert_int_equal(mt_report_write(&r, MT_REPORT_JSON, &out, NULL), 0);
	assert_non_null(strstr(out.data, "\"cmdline\": \"a\\\"b\\\\c\\u000a\\u0001\\ufffd\xc3\xa9"
					 "\\ufffd\\ufffd\\ufffd\""));
	mt_profile_free(p);
}

static void every_failed_allocation_is_reported(void **state)
{
	static const enum mt_report_format formats[] = {MT_REPORT_TEXT, MT_REPORT_JSON,
							MT_REPORT_CSV, MT_REPORT_KV};

	for (size_t i = 0; i < MT_ARRAY_LEN(formats); i++) {
		struct mt_profile *p = fixture_profile(&(struct fixture_options){0});
		const struct mt_profile *list[1] = {p};
		struct golden g = {.show = MT_SHOW_LEAKS, .stack = 16};
		struct mt_report r = make_report(&g, list);
		int code = -ENOMEM;

		for (size_t nth = 1; code == -ENOMEM; nth++) {
			mt_auto(mt_buf) struct mt_buf out = {0};

			mt_alloc_fail_from_for_test(nth);
			code = mt_report_write(&r, formats[i], &out, NULL);
			mt_alloc_fail_from_for_test(0);
			assert_true(nth < 500);
		}
		assert_int_equal(code, 0);
		mt_profile_free(p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reports_are_as_recorded),
		cmocka_unit_test(differences_are_as_recorded),
		cmocka_unit_test(what_was_not_recorded_is_refused_with_a_sentence),
		cmocka_unit_test(leaks_are_counted_for_the_exit_code),
		cmocka_unit_test(strange_names_stay_valid_json),
		cmocka_unit_test(every_failed_allocation_is_reported),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
