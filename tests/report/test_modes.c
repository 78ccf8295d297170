/* SPDX-License-Identifier: MIT */
/*
 * Reports over sampled runs and over runs that were only counted, read from state files made in
 * memory and compared with golden/NAME.exact, as in test_report.c.
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
#include "base/file.h"
#include "core/cc.h"
#include "formats/mtk_read.h"
#include "report/report.h"
#include "support/mtk_builder.h"

typedef struct mtk_builder *make_fn(void);

/* Every 100th allocation of two sites: one with small blocks, one with a few large ones. */
static struct mtk_builder *make_every(void)
{
	struct mtk_builder *b = mtk_builder_new();
	uint32_t regime = mtk_builder_regime(b, MT_REGIME_EVERY, 0, 100);

	mtk_builder_header(b)->mode = mtk_builder_header(b)->first_mode = MT_MODE_SAMPLE;
	mtk_builder_header(b)->every = 100;
	for (uint32_t k = 0; k < 2; k++) {
		uint32_t site =
			mtk_builder_site(b, mtk_builder_node(b, 0x1000 + k, 1, 0), MT_CALL_MALLOC);

		((struct mt_state_site *)mtk_builder_at(b, MT_REGION_SITES, site))->regime = regime;
		for (uint32_t i = 0; i < (k ? 2u : 50u); i++)
			mtk_builder_alloc(b, 1, site, 0x100000 * (k + 1) + 0x1000 * i,
					  k ? 20000 : 32);
	}
	return b;
}

/* A sample of which nothing is live any more. */
static struct mtk_builder *make_none_live(void)
{
	struct mtk_builder *b = mtk_builder_new();
	uint32_t regime = mtk_builder_regime(b, MT_REGIME_BYTES, 65536, 0);
	uint32_t site = mtk_builder_site(b, mtk_builder_node(b, 0x1000, 1, 0), MT_CALL_MALLOC);

	mtk_builder_header(b)->mode = mtk_builder_header(b)->first_mode = MT_MODE_SAMPLE;
	((struct mt_state_site *)mtk_builder_at(b, MT_REGION_SITES, site))->regime = regime;
	mtk_builder_alloc(b, 1, site, 0x10000, 100);
	mtk_builder_dealloc(b, 1, 0x10000);
	return b;
}

/* So little was allocated that no sample was taken. */
static struct mtk_builder *make_no_sample(void)
{
	struct mtk_builder *b = mtk_builder_new();

	mtk_builder_header(b)->mode = mtk_builder_header(b)->first_mode = MT_MODE_SAMPLE;
	mtk_builder_regime(b, MT_REGIME_BYTES, 65536, 0);
	mtk_builder_count_alloc(b, 1, 0x10000, 1000);
	return b;
}

/* Counted at first, sampled then. */
static struct mtk_builder *make_counted_then_sampled(void)
{
	struct mtk_builder *b = mtk_builder_new();
	uint32_t site = mtk_builder_site(b, mtk_builder_node(b, 0x1000, 1, 0), MT_CALL_MALLOC);

	mtk_builder_header(b)->first_mode = MT_MODE_STATS;
	mtk_builder_header(b)->mode = MT_MODE_SAMPLE;
	mtk_builder_count_alloc(b, 1, 0x10000, 760000);
	mtk_builder_change(b, MT_CHANGE_MODE, MT_MODE_STATS, MT_MODE_SAMPLE);
	((struct mt_state_site *)mtk_builder_at(b, MT_REGION_SITES, site))->regime =
		mtk_builder_regime(b, MT_REGIME_BYTES, 65536, 0);
	for (uint32_t i = 0; i < 3; i++)
		mtk_builder_alloc(b, 1, site, 0x100000 + 0x1000 * i, 700);
	return b;
}

/* The later state of the sampled run: one site lost half of its samples, another came. */
static struct mtk_builder *make_later(void)
{
	struct mtk_builder *b = mtk_builder_sampled();
	uint32_t node = mtk_builder_node(b, 0x405000, 17, 1);
	uint32_t site = mtk_builder_site(b, node, MT_CALL_MALLOC);

	((struct mt_state_site *)mtk_builder_at(b, MT_REGION_SITES, site))->regime = 2;
	mtk_builder_header(b)->now_unit = 9900;
	for (uint32_t i = 20; i < 40; i++)
		mtk_builder_dealloc(b, 1, 0x100000 + 0x1000 * i);
	for (uint32_t i = 0; i < 40; i++)
		mtk_builder_alloc(b, 2, site, 0x400000 + 0x1000 * i, 500);
	return b;
}

static struct mt_state_stats *stats_of(struct mtk_builder *b, uint32_t thread)
{
	return mtk_builder_at(b, MT_REGION_STATS, thread);
}

/* Three samples of a site found no room in the block table, two none for their call stacks. */
static struct mtk_builder *make_no_room(void)
{
	enum { LOAD = 2 };
	struct mtk_builder *b = mtk_builder_sampled();

	for (uint32_t i = 0; i < 3; i++) {
		mtk_builder_alloc(b, 1, LOAD, 0x500000 + 0x1000 * i, 72);
		((struct mt_state_live *)mtk_builder_at(b, MT_REGION_LIVE,
							mtk_builder_count(b, MT_REGION_LIVE) - 1))
			->place = 0;
	}
	stats_of(b, 1)->no_block = 3;
	return b;
}

static struct mtk_builder *make_no_site(void)
{
	struct mtk_builder *b = make_no_room();

	stats_of(b, 2)->no_site = 2000;
	stats_of(b, 2)->sampled += 2000;
	mtk_builder_header(b)->lost[MT_LOST_SITE_FULL] = 2000;
	return b;
}

/* Only counted at first, and two filters that left samples out. */
static struct mtk_builder *make_filtered(void)
{
	struct mtk_builder *b = mtk_builder_sampled();

	mtk_builder_header(b)->first_mode = MT_MODE_SAMPLE;
	mtk_builder_header(b)->options_string =
		mtk_builder_string(b, "depth=64 interval=4096 modules=+work*,-libm* min-size=16 "
				      "min-anon=1048576 max-size=65536");
	stats_of(b, 1)->left_by_size = 1234;
	stats_of(b, 2)->left_by_module = 1;
	return b;
}

/* Never sampled, as the process was small. */
static struct mtk_builder *make_small(void)
{
	struct mtk_builder *b = mtk_builder_new();

	mtk_builder_header(b)->first_mode = MT_MODE_SAMPLE;
	mtk_builder_header(b)->mode = MT_MODE_STATS;
	mtk_builder_header(b)->options_string = mtk_builder_string(b, "min-anon=1048576");
	mtk_builder_count_alloc(b, 1, 0x10000, 1000);
	return b;
}

/* The tracker rounds its sums down: less was allocated than the live blocks stand for. */
static struct mtk_builder *make_rounded(void)
{
	struct mtk_builder *b = make_every();

	for (uint32_t cell = 1; cell < mtk_builder_count(b, MT_REGION_CELLS); cell++)
		((struct mt_state_cell *)mtk_builder_at(b, MT_REGION_CELLS, cell))->bytes -= 3;
	return b;
}

/* As many samples of the second interval as of none. */
static struct mtk_builder *make_unused_interval(void)
{
	struct mtk_builder *b = make_none_live();

	mtk_builder_regime(b, MT_REGIME_BYTES, 131072, 0);
	mtk_builder_change(b, MT_CHANGE_EVERY, 0, 1000);
	mtk_builder_change(b, MT_CHANGE_EVERY, 1000, 0);
	return b;
}

/* A few events inside of others, of jemalloc. */
static struct mtk_builder *make_own_allocator(void)
{
	struct mtk_builder *b = make_no_sample();
	uint32_t module = mtk_builder_module(b, 0x700000, 0x710000, "/usr/lib/libjemalloc.so.2");

	((struct mt_state_module *)mtk_builder_at(b, MT_REGION_MODULES, module))->flags |=
		MT_MODULE_PROVIDER;
	((struct mt_state_thread *)mtk_builder_at(b, MT_REGION_THREADS, 1))->nested_allocs = 8;
	return b;
}

struct golden {
	const char *name;
	make_fn *make;
	enum mt_show show;
	enum mt_by by;
	enum mt_report_format format;
	uint32_t stack;
};

static const struct golden goldens[] = {
	{"sampled-leaks", mtk_builder_sampled, .stack = 4},
	{"sampled-live-by-function", mtk_builder_sampled, .show = MT_SHOW_LIVE,
	 .by = MT_BY_FUNCTION},
	{"sampled-live-by-thread", mtk_builder_sampled, .show = MT_SHOW_LIVE, .by = MT_BY_THREAD},
	{"sampled-live-by-size", mtk_builder_sampled, .show = MT_SHOW_LIVE, .by = MT_BY_SIZE},
	{"sampled-peak", mtk_builder_sampled, .show = MT_SHOW_PEAK},
	{"sampled-total", mtk_builder_sampled, .show = MT_SHOW_TOTAL},
	{"sampled-large", mtk_builder_sampled, .show = MT_SHOW_LARGE},
	{"sampled-sizes", mtk_builder_sampled, .show = MT_SHOW_SIZES},
	{"sampled-lifetimes", mtk_builder_sampled, .show = MT_SHOW_LIFETIMES},
	{"sampled-threads", mtk_builder_sampled, .show = MT_SHOW_THREADS},
	{"sampled-summary", mtk_builder_sampled, .show = MT_SHOW_SUMMARY},
	{"sampled-coverage", mtk_builder_sampled, .show = MT_SHOW_COVERAGE},
	{"sampled-every", make_every, .stack = 1},
	{"sampled-none-live", make_none_live, .show = MT_SHOW_LEAKS},
	{"sampled-no-sample", make_no_sample, .show = MT_SHOW_LEAKS},
	{"counted-then-sampled", make_counted_then_sampled, .show = MT_SHOW_LEAKS},
	{"sampled-no-room", make_no_room, .show = MT_SHOW_LEAKS},
	{"sampled-no-room-peak", make_no_room, .show = MT_SHOW_PEAK},
	{"sampled-no-room-by-size", make_no_room, .show = MT_SHOW_LIVE, .by = MT_BY_SIZE},
	{"sampled-no-room.json", make_no_room, .format = MT_REPORT_JSON},
	{"sampled-no-room.csv", make_no_room, .format = MT_REPORT_CSV},
	{"sampled-no-room.kv", make_no_room, .format = MT_REPORT_KV},
	{"sampled-no-site", make_no_site, .show = MT_SHOW_TOTAL},
	{"sampled-filtered", make_filtered, .show = MT_SHOW_SUMMARY},
	{"sampled-filtered.json", make_filtered, .show = MT_SHOW_SUMMARY, .format = MT_REPORT_JSON},
	{"sampled-small", make_small, .show = MT_SHOW_SUMMARY},
	{"sampled-small.json", make_small, .show = MT_SHOW_SUMMARY, .format = MT_REPORT_JSON},
	{"sampled-rounded.csv", make_rounded, .format = MT_REPORT_CSV},
	{"sampled-unused-interval", make_unused_interval, .show = MT_SHOW_SUMMARY},
	{"sampled-own-allocator", make_own_allocator, .show = MT_SHOW_SUMMARY},
	{"sampled-leaks.json", mtk_builder_sampled, .format = MT_REPORT_JSON, .stack = 1},
	{"sampled-leaks.csv", mtk_builder_sampled, .format = MT_REPORT_CSV, .stack = 1},
	{"sampled-leaks.kv", mtk_builder_sampled, .format = MT_REPORT_KV, .stack = 1},
	{"counted-leaks", mtk_builder_counted, .show = MT_SHOW_LEAKS},
	{"counted-sizes", mtk_builder_counted, .show = MT_SHOW_SIZES},
	{"counted-threads", mtk_builder_counted, .show = MT_SHOW_THREADS},
	{"counted-large", mtk_builder_counted, .show = MT_SHOW_LARGE},
	{"counted-heaps", mtk_builder_counted, .show = MT_SHOW_HEAPS},
	{"counted-summary", mtk_builder_counted, .show = MT_SHOW_SUMMARY},
	{"counted-leaks.json", mtk_builder_counted, .format = MT_REPORT_JSON},
	{"counted-large.csv", mtk_builder_counted, .show = MT_SHOW_LARGE, .format = MT_REPORT_CSV},
	{"counted-threads.csv", mtk_builder_counted, .show = MT_SHOW_THREADS,
	 .format = MT_REPORT_CSV},
	{"counted-leaks.kv", mtk_builder_counted, .format = MT_REPORT_KV},
	{"checked-errors", mtk_builder_checked, .show = MT_SHOW_ERRORS, .stack = 2},
	{"checked-errors.json", mtk_builder_checked, .show = MT_SHOW_ERRORS,
	 .format = MT_REPORT_JSON, .stack = 2},
	{"checked-errors.kv", mtk_builder_checked, .show = MT_SHOW_ERRORS, .format = MT_REPORT_KV,
	 .stack = 2},
	{"checked-errors.csv", mtk_builder_checked, .show = MT_SHOW_ERRORS, .format = MT_REPORT_CSV,
	 .stack = 2},
	{"checked-leaks", mtk_builder_checked, .show = MT_SHOW_LEAKS, .stack = 1},
	{"checked-leaks.kv", mtk_builder_checked, .show = MT_SHOW_LEAKS, .format = MT_REPORT_KV},
	{"checked-leaks.json", mtk_builder_checked, .show = MT_SHOW_LEAKS,
	 .format = MT_REPORT_JSON},
	{"checked-summary", mtk_builder_checked, .show = MT_SHOW_SUMMARY},
	{"guarded-errors", mtk_builder_guarded, .show = MT_SHOW_ERRORS, .stack = 2},
};

static const struct golden diffs[] = {
	{"sampled-diff", make_later, .stack = 2},
	{"sampled-diff-total", make_later, .show = MT_SHOW_TOTAL, .stack = 1},
	{"sampled-diff.json", make_later, .format = MT_REPORT_JSON, .stack = 1},
	{"sampled-diff.csv", make_later, .format = MT_REPORT_CSV, .stack = 1},
	{"sampled-diff-no-room", make_no_room, .stack = 1},
	{"sampled-diff.kv", make_later, .format = MT_REPORT_KV},
};

static struct mt_profile *read_made(make_fn *make)
{
	mt_auto(mtk_builder) struct mtk_builder *b = make();
	struct mt_profile *p = NULL;
	struct mt_err err;
	size_t len;
	mt_auto(free) uint8_t *data = mtk_builder_bytes(b, &len);

	if (mt_mtk_read_memory(data, len, "test", &p, &err))
		fail_msg("%s", err.text);
	return p;
}

static struct mt_report make_report(const struct golden *g, const struct mt_profile *const *list)
{
	return (struct mt_report){
		.profiles = list,
		.profile_count = 1,
		.show = g->show,
		.by = g->by,
		.stack = g->stack,
		.leak_threshold_bytes = MT_REPORT_THRESHOLD_DEFAULT,
	};
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
	assert_int_equal(mt_file_read(path, 1 << 20, &want, &len, NULL), 0);
	if (len != out->len || memcmp(want, out->data, len))
		fail_msg("%s differs; it is now:\n%s", name, out->data);
}

static void reports_of_samples_and_counts_are_as_recorded(void **state)
{
	for (size_t i = 0; i < MT_ARRAY_LEN(goldens); i++) {
		const struct golden *g = &goldens[i];
		mt_auto(mt_profile) struct mt_profile *p = read_made(g->make);
		const struct mt_profile *list[1] = {p};
		struct mt_report r = make_report(g, list);
		mt_auto(mt_buf) struct mt_buf out = {0};
		struct mt_err err = {0};

		if (mt_report_write(&r, g->format, &out, &err))
			fail_msg("%s: %s", g->name, err.text);
		compare(g->name, &out);
	}
}

static void comparisons_of_samples_are_as_recorded(void **state)
{
	mt_auto(mt_profile) struct mt_profile *before = read_made(mtk_builder_sampled);
	const struct mt_profile *old[1] = {before};

	for (size_t i = 0; i < MT_ARRAY_LEN(diffs); i++) {
		const struct golden *g = &diffs[i];
		mt_auto(mt_profile) struct mt_profile *p = read_made(g->make);
		const struct mt_profile *list[1] = {p};
		struct mt_report r = make_report(g, list);
		mt_auto(mt_buf) struct mt_buf out = {0};
		struct mt_err err = {0};

		if (mt_report_write_diff(&r, old, 1, g->format, &out, &err))
			fail_msg("%s: %s", g->name, err.text);
		compare(g->name, &out);
	}
}

static bool is_hidden(void *context, const struct mt_profile *p, const struct mt_profile_error *e)
{
	return e->kind == *(const uint32_t *)context;
}

/* Errors of one kind left out. */
static char *report_without(uint32_t kind, enum mt_show show, uint64_t *ret_count)
{
	mt_auto(mt_profile) struct mt_profile *p = read_made(mtk_builder_checked);
	const struct mt_profile *list[1] = {p};
	struct golden g = {.show = show};
	struct mt_report r = make_report(&g, list);
	struct mt_buf out = {0};
	struct mt_err err = {0};

	r.is_error_suppressed = is_hidden;
	r.suppress_context = &kind;
	assert_int_equal(mt_report_write(&r, MT_REPORT_TEXT, &out, &err), 0);
	*ret_count = mt_report_count_errors(&r);
	return out.data;
}

static void suppressed_errors_are_counted_aloud_and_nowhere_else(void **state)
{
	uint64_t count;
	mt_auto(free) char *text = report_without(MT_ERROR_OVERFLOW, MT_SHOW_ERRORS, &count);

	assert_int_equal(count, 3);
	assert_non_null(strstr(text, "3 memory errors: 1 use after free, 1 mismatched free, "));
	assert_non_null(strstr(text, "suppressed and not shown: 2 errors"));
	assert_null(strstr(text, "overflow"));
}

static void suppressed_corruption_leaves_the_leak_report_reliable(void **state)
{
	uint64_t count;
	mt_auto(free) char *text = report_without(MT_ERROR_OVERFLOW, MT_SHOW_LEAKS, &count);

	assert_non_null(strstr(text, "leak report unreliable: 2 corruption errors at "));
	free(text);
	text = report_without(MT_ERROR_MISMATCH, MT_SHOW_LEAKS, &count);
	assert_int_equal(count, 4);
	assert_non_null(strstr(text, "leak report unreliable: 4 corruption errors at "));
}

static void errors_without_room_count_too(void **state)
{
	mt_auto(mt_profile) struct mt_profile *p = read_made(mtk_builder_checked);
	const struct mt_profile *list[1] = {p};
	struct golden g = {.show = MT_SHOW_ERRORS};
	struct mt_report r = make_report(&g, list);
	p->region_refused[MT_REGION_ERRORS] = 17;
	mt_auto(mt_buf) struct mt_buf out = {0};
	struct mt_err err = {0};

	assert_int_equal(mt_report_write(&r, MT_REPORT_TEXT, &out, &err), 0);
	assert_non_null(strstr(out.data, "and 17 more that the table had no room for"));
	assert_int_equal(mt_report_count_errors(&r), 22);
}

static void sizes_of_all_allocations_of_a_sample_are_refused(void **state)
{
	mt_auto(mt_profile) struct mt_profile *p = read_made(mtk_builder_sampled);
	const struct mt_profile *list[1] = {p};
	struct golden g = {.show = MT_SHOW_TOTAL, .by = MT_BY_SIZE};
	struct mt_report r = make_report(&g, list);
	mt_auto(mt_buf) struct mt_buf out = {0};
	struct mt_err err = {0};

	assert_int_equal(mt_report_write(&r, MT_REPORT_TEXT, &out, &err), -EINVAL);
	assert_string_equal(err.text, "--show=total is not known by size for a sampled run; "
				      "--show=sizes has the exact size classes");
}

static void a_table_of_call_sites_that_are_not_known_is_refused_as_csv(void **state)
{
	mt_auto(mt_profile) struct mt_profile *p = read_made(mtk_builder_counted);
	const struct mt_profile *list[1] = {p};
	struct golden g = {.show = MT_SHOW_LEAKS};
	struct mt_report r = make_report(&g, list);
	mt_auto(mt_buf) struct mt_buf out = {0};
	struct mt_err err = {0};

	assert_int_equal(mt_report_write(&r, MT_REPORT_CSV, &out, &err), -EINVAL);
	assert_non_null(strstr(err.text, "records no call stacks"));
}

static void states_without_call_sites_are_not_compared(void **state)
{
	mt_auto(mt_profile) struct mt_profile *counted = read_made(mtk_builder_counted);
	mt_auto(mt_profile) struct mt_profile *sampled = read_made(mtk_builder_sampled);
	const struct mt_profile *one[1] = {counted}, *other[1] = {sampled};
	struct golden g = {.show = MT_SHOW_LEAKS};
	struct mt_report r = make_report(&g, other);
	mt_auto(mt_buf) struct mt_buf out = {0};
	struct mt_err err = {0};

	assert_int_equal(mt_report_write_diff(&r, one, 1, MT_REPORT_TEXT, &out, &err), -EINVAL);
	assert_non_null(strstr(err.text, "the old state is of statistics mode"));
	r = make_report(&g, one);
	assert_int_equal(mt_report_write_diff(&r, other, 1, MT_REPORT_JSON, &out, &err), -EINVAL);
	assert_non_null(strstr(err.text, "the new state is of statistics mode"));
	assert_int_equal(out.len, 0);
}

static void every_failed_allocation_is_reported(void **state)
{
	static const enum mt_report_format formats[] = {MT_REPORT_TEXT, MT_REPORT_JSON,
							MT_REPORT_CSV, MT_REPORT_KV};
	static make_fn *const makes[] = {mtk_builder_sampled, mtk_builder_counted};

	for (size_t i = 0; i < 2 * MT_ARRAY_LEN(formats); i++) {
		mt_auto(mt_profile) struct mt_profile *p = read_made(makes[i % 2]);
		const struct mt_profile *list[1] = {p};
		struct golden g = {.show = MT_SHOW_LEAKS, .stack = 16};
		struct mt_report r = make_report(&g, list);
		int code = -ENOMEM;

		if (i % 2 && formats[i / 2] == MT_REPORT_CSV)
			continue; /* refused */
		for (size_t nth = 1; code == -ENOMEM; nth++) {
			mt_auto(mt_buf) struct mt_buf out = {0};

			mt_alloc_fail_from_for_test(nth);
			code = mt_report_write(&r, formats[i / 2], &out, NULL);
			mt_alloc_fail_from_for_test(0);
			assert_true(nth < 1000);
		}
		assert_int_equal(code, 0);
	}
}

static void every_failed_allocation_of_errors_is_reported(void **state)
{
	static const enum mt_show shows[] = {MT_SHOW_ERRORS, MT_SHOW_LEAKS};
	mt_auto(mt_profile) struct mt_profile *p = read_made(mtk_builder_checked);
	const struct mt_profile *list[1] = {p};

	for (size_t i = 0; i < 2 * 4; i++) {
		struct golden g = {.show = shows[i % 2], .stack = 16};
		struct mt_report r = make_report(&g, list);
		int code = -ENOMEM;
		size_t nth = 0;

		while (code == -ENOMEM) {
			mt_auto(mt_buf) struct mt_buf out = {0};

			mt_alloc_fail_from_for_test(++nth);
			code = mt_report_write(&r, (enum mt_report_format)(i / 2), &out, NULL);
			mt_alloc_fail_from_for_test(0);
			assert_true(nth < 1000);
		}
		assert_int_equal(code, 0);
		assert_true(nth > 3);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reports_of_samples_and_counts_are_as_recorded),
		cmocka_unit_test(comparisons_of_samples_are_as_recorded),
		cmocka_unit_test(suppressed_errors_are_counted_aloud_and_nowhere_else),
		cmocka_unit_test(suppressed_corruption_leaves_the_leak_report_reliable),
		cmocka_unit_test(errors_without_room_count_too),
		cmocka_unit_test(sizes_of_all_allocations_of_a_sample_are_refused),
		cmocka_unit_test(a_table_of_call_sites_that_are_not_known_is_refused_as_csv),
		cmocka_unit_test(states_without_call_sites_are_not_compared),
		cmocka_unit_test(every_failed_allocation_is_reported),
		cmocka_unit_test(every_failed_allocation_of_errors_is_reported),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
