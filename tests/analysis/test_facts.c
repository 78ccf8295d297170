/* SPDX-License-Identifier: MIT */
/* Blocks weighed, and tables and comparisons of sampled profiles. */
#include "analysis/facts.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "support/profile_fixture.h"

enum { T = 4096, MIB = 1 << 20 };

/* Site 3 (10 blocks of 500) becomes a sampled one; its blocks get keys from `first` on. */
static struct mt_profile *sampled(uint64_t first)
{
	struct mt_profile *p = fixture_profile(&(struct fixture_options){.build_id = 1});
	struct mt_profile_sample *s;

	p->regime = mt_arena_array(p->arena, 2, sizeof(*p->regime));
	p->site_sample = mt_arena_array(p->arena, p->site_count, sizeof(*s));
	p->cell_sample = mt_arena_array(p->arena, p->cell_count, sizeof(*s));
	p->block_key = mt_arena_array(p->arena, (size_t)p->blocks, sizeof(*p->block_key));
	assert_true(p->regime && p->site_sample && p->cell_sample && p->block_key);
	p->regime_count = 2;
	p->regime[1].sampling = (struct mt_sampling){MT_SAMPLING_POISSON, T, 0};
	p->site[3].regime = 1;
	for (uint64_t i = 0; i < p->blocks; i++) {
		bool is_moved = p->block[i].cell == 3;

		p->block_key[i] = i + 1000 + (is_moved ? first : 0);
	}
	for (int i = 0; i < 10; i++)
		mt_estimate_add(&p->site_sample[3].total, &p->regime[1].sampling, 500);
	p->site_sample[3].allocs = 10;
	p->cell_sample[3] = p->site_sample[3];
	p->site[3].counts.allocs = (uint64_t)llround(p->site_sample[3].total.count);
	p->site[3].counts.bytes = (uint64_t)llround(p->site_sample[3].total.bytes);
	return p;
}

static struct mt_estimate ten_of_500(void)
{
	struct mt_sampling how = {MT_SAMPLING_POISSON, T, 0};
	struct mt_estimate e = {0};

	for (int i = 0; i < 10; i++)
		mt_estimate_add(&e, &how, 500);
	return e;
}

static struct mt_table *build(const struct mt_profile *p, const struct mt_profile *other,
			      enum mt_measure measure, enum mt_by by)
{
	struct mt_query q = {.measure = measure,
			     .by = by,
			     .names = &fixture_names,
			     .other = &other,
			     .other_count = other != NULL};
	struct mt_table *t = NULL;

	if (!other)
		q.other = NULL;
	assert_int_equal(mt_table_build(&p, 1, &q, &t), 0);
	return t;
}

static const struct mt_row *row_of(const struct mt_table *t, uint32_t site)
{
	for (uint32_t i = 0; i < t->row_count; i++)
		if (t->row[i].site == site)
			return &t->row[i];
	fail_msg("no row of site %u", site);
	return NULL;
}

static void sampled_blocks_count_by_their_weight(void **state)
{
	mt_auto(mt_profile) struct mt_profile *p = sampled(0);
	struct mt_table *t = build(p, NULL, MT_MEASURE_LIVE, MT_BY_SITE);
	const struct mt_row *row = row_of(t, 3);
	struct mt_estimate e = ten_of_500();

	assert_true(t->has_samples);
	assert_int_equal(row->bytes, llround(e.bytes));
	assert_int_equal(row->count, llround(e.count));
	assert_int_equal(row->estimate->samples, 10);
	assert_true(fabs(row->estimate->bytes_variance / e.bytes_variance - 1) < 1e-9);
	assert_true(mt_estimate_bytes(row->estimate).high > e.bytes);
	/* a site recorded in full stays exact beside it */
	assert_int_equal(row_of(t, 1)->bytes, 4 * MIB);
	assert_true(mt_estimate_is_exact(row_of(t, 1)->estimate));
	assert_true(fabs(t->estimate.bytes - (4 * MIB + 100 + e.bytes)) < 1e-6);
	mt_table_free(t);
}

static void a_row_of_both_kinds_is_the_sum(void **state)
{
	mt_auto(mt_profile) struct mt_profile *p = sampled(0);
	/* parse is the function of sites 2 (100 bytes) and 3 */
	struct mt_table *t = build(p, NULL, MT_MEASURE_LIVE, MT_BY_FUNCTION);
	const struct mt_row *row = row_of(t, 3);
	struct mt_estimate e = ten_of_500();

	assert_int_equal(row->bytes, 100 + llround(e.bytes));
	assert_int_equal(row->estimate->certain, 1);
	assert_true(fabs(row->estimate->bytes - (e.bytes + 100)) < 1e-6);
	mt_table_free(t);
}

static void all_allocations_have_estimates_too(void **state)
{
	mt_auto(mt_profile) struct mt_profile *p = sampled(0);
	struct mt_table *t = build(p, NULL, MT_MEASURE_TOTAL, MT_BY_SITE);

	assert_int_equal(row_of(t, 3)->estimate->samples, 10);
	assert_int_equal(row_of(t, 3)->recorded, 10);
	assert_true(row_of(t, 3)->allocs > 80); /* estimated */
	assert_int_equal(row_of(t, 2)->recorded, 3);
	mt_table_free(t);
	t = build(p, NULL, MT_MEASURE_TOTAL, MT_BY_THREAD);
	assert_int_equal(t->row[1].estimate->samples, 10);
	mt_table_free(t);
}

static void at_the_peak_the_variance_is_bounded(void **state)
{
	mt_auto(mt_profile) struct mt_profile *p = sampled(0);
	struct mt_estimate e;

	p->site[3].at_peak_bytes = 10 * T;
	p->site[3].at_peak_count = 10;
	e = mt_facts_site(p, 3, MT_MEASURE_PEAK);
	assert_true(e.bytes_variance == 10.0 * T * T);
	p->site[3].at_peak_bytes = 1000 * T; /* large blocks: at most T^2 each */
	e = mt_facts_site(p, 3, MT_MEASURE_PEAK);
	assert_true(e.bytes_variance == 10.0 * T * T);
	assert_true(mt_estimate_is_exact(&(struct mt_estimate){0}));
	e = mt_facts_site(p, 1, MT_MEASURE_PEAK);
	assert_true(mt_estimate_is_exact(&e));
}

static struct mt_diff *compare(const struct mt_profile *old, const struct mt_profile *now,
			       enum mt_measure measure, struct mt_table *t[2])
{
	struct mt_diff *d = NULL;

	t[0] = build(old, now, measure, MT_BY_SITE);
	t[1] = build(now, old, measure, MT_BY_SITE);
	assert_int_equal(mt_diff_build(t[0], t[1], &d), 0);
	return d;
}

static const struct mt_diff_row *diff_row_of(const struct mt_diff *d, uint32_t site)
{
	for (uint32_t i = 0; i < d->row_count; i++)
		if (d->row[i].new_row && d->row[i].new_row->site == site)
			return &d->row[i];
	fail_msg("no row of site %u", site);
	return NULL;
}

static void same_blocks_do_not_blur_a_comparison(void **state)
{
	mt_auto(mt_profile) struct mt_profile *old = sampled(0), *now = sampled(0);
	struct mt_table *t[2];
	struct mt_diff *d = compare(old, now, MT_MEASURE_LIVE, t);
	const struct mt_diff_row *row = diff_row_of(d, 3);

	assert_int_equal(row->bytes, 0);
	assert_true(row->is_estimate);
	assert_true(row->bytes_interval.high == 3 * T); /* only what no sample told */
	assert_true(row->bytes_interval.low == -3 * T);
	assert_false(diff_row_of(d, 1)->is_estimate);
	mt_diff_free(d);
	mt_table_free(t[0]);
	mt_table_free(t[1]);
}

static void other_blocks_of_equal_size_do(void **state)
{
	mt_auto(mt_profile) struct mt_profile *old = sampled(0), *now = sampled(500);
	struct mt_table *t[2];
	struct mt_diff *d = compare(old, now, MT_MEASURE_LIVE, t);
	struct mt_estimate e = ten_of_500();
	struct mt_interval i = mt_estimate_growth_bytes(&e, &e);

	assert_int_equal(diff_row_of(d, 3)->bytes, 0);
	assert_true(fabs(diff_row_of(d, 3)->bytes_interval.high - i.high) < 1e-6);
	assert_true(i.high > 6 * T);
	mt_diff_free(d);
	mt_table_free(t[0]);
	mt_table_free(t[1]);
}

static void another_process_has_no_block_in_common(void **state)
{
	mt_auto(mt_profile) struct mt_profile *old = sampled(0), *now = sampled(0);
	struct mt_table *t[2];
	struct mt_diff *d;

	now->pid++;
	d = compare(old, now, MT_MEASURE_LIVE, t);
	assert_false(t[1]->is_same_process);
	assert_true(diff_row_of(d, 3)->bytes_interval.high > 6 * T);
	mt_diff_free(d);
	mt_table_free(t[0]);
	mt_table_free(t[1]);
}

static void what_was_allocated_since_is_a_sample_of_its_own(void **state)
{
	mt_auto(mt_profile) struct mt_profile *old = sampled(0), *now = sampled(0);
	struct mt_estimate more = ten_of_500();
	struct mt_interval i = mt_estimate_bytes(&more);
	struct mt_table *t[2];
	struct mt_diff *d;

	mt_estimate_merge(&now->site_sample[3].total, &more);
	now->site[3].counts.bytes *= 2;
	d = compare(old, now, MT_MEASURE_TOTAL, t);
	assert_true(fabs(diff_row_of(d, 3)->bytes_interval.low - i.low) < 1e-3);
	assert_true(fabs(diff_row_of(d, 3)->bytes_interval.high - i.high) < 1e-3);
	mt_diff_free(d);
	mt_table_free(t[0]);
	mt_table_free(t[1]);
}

static void keys_are_found(void **state)
{
	const uint64_t keys[] = {1, 5, 9};

	assert_true(mt_facts_has_key(keys, 3, 5));
	assert_false(mt_facts_has_key(keys, 3, 6));
	assert_false(mt_facts_has_key(NULL, 0, 5));
	assert_int_equal(mt_facts_round(-1), 0);
	assert_int_equal(mt_facts_round(2.5), 3);
	assert_true(mt_facts_round(1e30) == UINT64_MAX);
	assert_int_equal(mt_facts_round(NAN), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sampled_blocks_count_by_their_weight),
		cmocka_unit_test(a_row_of_both_kinds_is_the_sum),
		cmocka_unit_test(all_allocations_have_estimates_too),
		cmocka_unit_test(at_the_peak_the_variance_is_bounded),
		cmocka_unit_test(same_blocks_do_not_blur_a_comparison),
		cmocka_unit_test(other_blocks_of_equal_size_do),
		cmocka_unit_test(another_process_has_no_block_in_common),
		cmocka_unit_test(what_was_allocated_since_is_a_sample_of_its_own),
		cmocka_unit_test(keys_are_found),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
