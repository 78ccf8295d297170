/* SPDX-License-Identifier: MIT */
/* Samples, statistics and changes, from the file to the profile. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "formats/fixture.h"
#include "formats/mtk_write.h"

static void assert_near(double value, double expected)
{
	if (!(fabs(value - expected) <= 1e-4 * fabs(expected) + 1e-6))
		fail_msg("%.15g is not near %.15g", value, expected);
}

/* The site of this node and regime. */
static uint32_t site_of(const struct mt_profile *p, uint64_t pc, uint32_t regime)
{
	for (uint32_t i = 1; i < p->site_count; i++)
		if (p->node[p->site[i].node].pc == pc && p->site[i].regime == regime)
			return i;
	fail_msg("no such site");
	return 0;
}

static void a_file_of_version_1_0_has_no_other_mode(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	mtk_builder_header(b)->version_minor = 0;
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	assert_no_warnings(p);
	assert_int_equal(p->regime_count, 1);
	assert_null(p->site_sample);
	assert_null(p->stats);
	assert_null(p->block_key);
	assert_int_equal(p->big_count, 0);
	assert_int_equal(p->change_count, 0);
	assert_int_equal(p->stats_counts.allocs, 0);
}

static void sites_of_a_sample_have_estimates(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sampled();
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	struct mt_sampling s = {MT_SAMPLING_POISSON, 4096, 0};
	struct mt_estimate total = {0}, live = {0};
	uint32_t load = site_of(p, 0x402000, 1);
	const struct mt_profile_sample *of = &p->site_sample[load];

	for (uint64_t i = 0; i < 60; i++) {
		mt_estimate_add(&total, &s, 64 + 8 * (i % 3));
		if (i >= 20)
			mt_estimate_add(&live, &s, 64 + 8 * (i % 3));
	}
	assert_no_warnings(p);
	assert_int_equal(of->allocs, 60);
	assert_int_equal(of->frees, 20);
	assert_int_equal(of->total.samples, 60);
	assert_int_equal(of->live.samples, 40);
	assert_near(of->total.bytes, total.bytes);
	assert_near(of->total.count, total.count);
	assert_near(of->total.bytes_variance, total.bytes_variance);
	assert_near(of->total.count_variance, total.count_variance);
	assert_true(of->total.seen_bytes == total.seen_bytes);
	assert_near(of->live.bytes, live.bytes);
	assert_near(of->live.bytes_variance, live.bytes_variance);
	assert_near(mt_estimate_bytes(&of->total).low, mt_estimate_bytes(&total).low);
	assert_near(mt_estimate_bytes(&of->live).high, mt_estimate_bytes(&live).high);
	assert_int_equal(p->site[load].counts.allocs, llround(total.count));
	assert_near((double)p->site[load].counts.bytes, total.bytes);
	assert_int_equal(p->site[load].counts.frees, llround(total.count - live.count));
	assert_int_equal(p->site[load].live_count, llround(live.count));
	assert_near((double)p->site[load].live_bytes, live.bytes);
	assert_near((double)p->site[load].at_peak_bytes, total.bytes);
	assert_int_equal(p->site[load].at_peak_count, 60); /* samples */
	assert_int_equal(sizes_of(p, load, 7), 60);
	assert_int_equal(sizes_missing(p, load), 0);
	assert_int_equal(lives_of(p, load, 7), 20);
}

static void regimes_keep_their_intervals(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sampled();
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	uint32_t work = site_of(p, 0x404000, 2);
	const struct mt_estimate *live = &p->site_sample[work].live;

	assert_int_equal(p->regime_count, 3);
	assert_int_equal(p->regime[1].sampling.kind, MT_SAMPLING_POISSON);
	assert_int_equal(p->regime[1].sampling.interval_bytes, 4096);
	assert_int_equal(p->regime[2].sampling.interval_bytes, 8192);
	assert_int_equal(p->regime[2].first_ns, 5000000000u);
	assert_int_equal(p->interval_bytes, 8192);
	assert_int_equal(p->first_mode, MT_MODE_FULL);
	assert_int_equal(live->samples, 0);
	assert_int_equal(live->certain, 1); /* 2 MiB are always recorded */
	assert_true(mt_estimate_bytes(live).low == 2 << 20);
	assert_true(mt_estimate_bytes(live).high == (2 << 20) + 3 * 8192);
	assert_int_equal(p->site_sample[work].frees, 3);
}

static void blocks_recorded_in_full_stay_exact(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sampled();
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	const struct mt_profile_site *s = &p->site[site_of(p, 0x402000, 0)];

	assert_int_equal(s->counts.allocs, 5);
	assert_int_equal(s->live_count, 4);
	assert_int_equal(s->live_bytes, 800);
	assert_true(mt_estimate_is_exact(&p->site_sample[s - p->site].live));
	assert_int_equal(p->block_count, 4);
	assert_int_equal(p->block_bytes, 800);
	assert_int_equal(p->sample_blocks, 40 + 4 + 3 + 1);
}

static void totals_are_those_of_both_ways_of_counting(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sampled();
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	uint64_t allocs = 60 + 60 + 4 + 6 + 1, frees = 20 + 3;

	assert_int_equal(p->stats_counts.allocs, allocs);
	assert_int_equal(p->stats_counts.frees, frees);
	assert_int_equal(p->totals.allocs, allocs + 5);
	assert_int_equal(p->totals.frees, frees + 1);
	assert_int_equal(p->live_count, allocs - frees + 4);
	assert_int_equal(p->live_bytes, p->stats_counts.bytes - p->stats_counts.freed_bytes + 800);
	assert_int_equal(p->heap[0].counts.allocs, p->totals.allocs);
	assert_int_equal(p->heap[0].live_count, p->live_count);
	assert_int_equal(p->heap[0].live_bytes, p->live_bytes);
	assert_int_equal(p->thread[1].heap[0].allocs + p->thread[2].heap[0].allocs,
			 p->totals.allocs);
	assert_int_equal(p->thread[1].live_bytes + p->thread[2].live_bytes, p->live_bytes);
	assert_true(p->peak_is_estimate); /* a part was sampled then */
	assert_in_range(p->peak_bytes, p->live_bytes, p->live_bytes + (1 << 20));
}

static void statistics_are_read(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_counted();
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	uint64_t first = 100 * 24 + 16 * (12 * 28 + 0 + 1 + 2 + 3);

	assert_no_warnings(p);
	assert_int_equal(p->mode, MT_MODE_STATS);
	assert_int_equal(p->totals.allocs, 203);
	assert_int_equal(p->totals.frees, 51);
	assert_int_equal(p->totals.bytes, first + 100 * 1032 + (8 << 20));
	assert_int_equal(p->live_bytes, first + 50 * 1032 + (5 << 20));
	assert_memory_equal(&p->totals, &p->stats_counts, sizeof(p->totals));
	assert_int_equal(p->stats[2].size[11].allocs, 100);
	assert_int_equal(p->stats[1].size[11].frees, 50);
	assert_int_equal(p->stats[1].size[23].bytes, 4 << 20);
	assert_int_equal(p->stats[2].live_bytes, 100 * 1032 + (4 << 20));
	assert_int_equal(p->thread[2].live_bytes, p->stats[2].live_bytes);
	assert_int_equal(p->thread[2].peak_bytes, 100 * 1032 + (4 << 20));
	assert_int_equal(p->thread[2].reallocs, 80);
	assert_int_equal(p->thread[2].realloc_grown, 50);
	assert_in_range(p->peak_bytes, p->live_bytes, p->live_bytes + (3 << 20));
	assert_false(p->peak_is_estimate);
	assert_int_equal(p->peak_ns, 99 * 36 * 1000000ull);
	assert_int_equal(p->site_count, 1);
	assert_int_equal(p->blocks, 0);
}

static void two_ways_of_counting_bound_the_peak(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_new();
	uint32_t site = mtk_builder_site(b, 1, MT_CALL_MALLOC);
	mtk_builder_alloc(b, 1, site, 0x1000, 1000);
	mtk_builder_dealloc(b, 1, 0x1000);
	mtk_builder_header(b)->mode = MT_MODE_STATS;
	mtk_builder_count_alloc(b, 1, 0x2000, 640);
	mtk_builder_count_free(b, 1, 0x2000, 640);
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	assert_no_warnings(p);
	assert_int_equal(p->peak_bytes, 1000);
	assert_int_equal(p->peak_bound_bytes, 640);
	assert_false(p->peak_is_estimate);
	assert_int_equal(p->totals.bytes, 1640);
	assert_int_equal(p->live_bytes, 0);
}

static void a_thread_alone_has_an_exact_peak(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_new();
	mtk_builder_header(b)->mode = MT_MODE_STATS;
	mtk_builder_publish_in_steps(b, 1000);
	mtk_builder_count_alloc(b, 1, 0x1000, 64);
	mtk_builder_count_alloc(b, 1, 0x2000, 80);
	mtk_builder_count_free(b, 1, 0x1000, 64);
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	assert_int_equal(p->peak_bytes, 144);
	assert_int_equal(p->peak_bound_bytes, 0);
	assert_int_equal(p->live_bytes, 80);
}

static void big_blocks_are_listed(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_counted();
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	uint64_t sum = 0;

	assert_int_equal(p->big_count, 2);
	for (uint32_t i = 0; i < 2; i++) {
		bool first = p->big[i].address == 0x7f0059e00000;

		sum += p->big[i].usable_bytes;
		assert_int_equal(p->big[i].thread, first ? 1 : 2);
		assert_int_equal(p->big[i].born_ns, 99 * 36 * 1000000ull);
	}
	assert_int_equal(sum, 5 << 20);
}

static void changes_are_read_in_order(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sampled();
	mtk_builder_change(b, MT_CHANGE_LABEL, 0, mtk_builder_string(b, "night"));
	mtk_builder_change(b, MT_CHANGE_MODULES, 0, 0);
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);

	assert_no_warnings(p);
	assert_int_equal(p->change_count, 4);
	assert_int_equal(p->change[0].what, MT_CHANGE_MODE);
	assert_int_equal(p->change[0].before, MT_MODE_FULL);
	assert_int_equal(p->change[0].after, MT_MODE_SAMPLE);
	assert_int_equal(p->change[0].ns, 1000000000u);
	assert_string_equal(p->change[0].text, "");
	assert_int_equal(p->change[1].what, MT_CHANGE_MEMORY_RAIL);
	assert_int_equal(p->change[1].after, 8192);
	assert_string_equal(p->change[2].text, "night");
	assert_string_equal(p->change[3].text, "");
}

static void a_block_has_the_same_key_in_two_readings(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sampled();
	mt_auto(mt_profile) struct mt_profile *before = read_builder(b);
	mtk_builder_dealloc(b, 1, 0x100000 + 0x1000 * 40);
	mt_auto(mt_profile) struct mt_profile *after = read_builder(b);
	uint64_t same = 0;

	assert_int_equal(after->blocks, before->blocks - 1);
	for (uint64_t i = 0; i < before->blocks; i++)
		for (uint64_t k = 0; k < after->blocks; k++)
			same += before->block_key[i] == after->block_key[k];
	assert_int_equal(same, after->blocks);
}

static void samples_that_do_not_agree_are_warned_of(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sampled();
	struct mt_state_stats *s = mtk_builder_at(b, MT_REGION_STATS, 1);
	mtk_builder_header(b)->end_kind = MT_END_SIGNALED; /* six events may be under way */
	s->sampled -= 7;
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	assert_int_equal(p->warning_count, 1);
	assert_string_equal(p->warning[0], "the sites hold 71 samples, the threads counted 64");
	for (uint32_t i = 30; i < 37; i++)
		((struct mt_state_live *)mtk_builder_at(b, MT_REGION_LIVE, i))->place = 0;
	mt_auto(mt_profile) struct mt_profile *q = read_builder(b);
	assert_int_equal(q->warning_count, 2);
	assert_non_null(strstr(q->warning[0], "live samples, by the counters it is 48"));
}

/* Of a child that summed up its parent's rows while the parent went on. */
static void sums_below_zero_are_nothing(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sampled();
	struct mt_state_stats *s = mtk_builder_at(b, MT_REGION_STATS, 1);
	s->size_class[11].allocs -= 1000000;
	s->size_class[11].bytes -= (uint64_t)1 << 40;
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	assert_int_equal(p->live_count, 0);
	assert_int_equal(p->live_bytes, 0);
	assert_int_equal(p->heap[MT_HEAP_MALLOC].live_count, 4); /* recorded in full */
	assert_int_equal(p->heap[MT_HEAP_MALLOC].live_bytes, 800);
}

/* One warning, which holds `part`. */
static void expect_damage(struct mtk_builder *b, const char *part)
{
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	bool found = false;

	for (uint32_t i = 0; i < p->warning_count; i++)
		found |= strstr(p->warning[i], part) != NULL;
	if (!found)
		fail_msg("no warning of '%s'", part);
	for (uint32_t i = 0; i < p->site_count; i++)
		assert_true(p->site[i].regime < p->regime_count);
	for (uint32_t i = 0; i < p->big_count; i++)
		assert_true(p->big[i].thread < p->thread_count);
}

static void damage_is_named_and_bounded(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sampled();
	struct mt_state_site *site = mtk_builder_at(b, MT_REGION_SITES, 2);
	struct mt_state_regime *regime = mtk_builder_at(b, MT_REGION_REGIMES, 2);
	struct mt_state_change *change = mtk_builder_at(b, MT_REGION_CHANGES, 1);
	uint32_t was = site->regime;

	site->regime = 77;
	expect_damage(b, "ways of sampling");
	site->regime = was;
	regime->kind = 9;
	expect_damage(b, "ways of sampling");
	regime->kind = MT_REGIME_BYTES;
	regime->interval_bytes = 0;
	expect_damage(b, "ways of sampling");
	regime->interval_bytes = 8192;
	change->what = MT_CHANGE_LABEL;
	change->after = UINT32_MAX;
	expect_damage(b, "names or paths");
	change->what = 0;
	mt_auto(mtk_builder) struct mtk_builder *counted = mtk_builder_counted();
	for (uint32_t i = 0; i < mtk_builder_count(counted, MT_REGION_BIG); i++)
		((struct mt_state_big *)mtk_builder_at(counted, MT_REGION_BIG, i))->thread = 99;
	expect_damage(counted, "counters of a thread");
}

static void estimates_that_are_cut_off_are_named(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sampled();
	struct mt_profile *p = NULL;
	size_t len;
	mt_auto(free) uint8_t *data = mtk_builder_bytes(b, &len);
	struct mt_state_header *h = (struct mt_state_header *)data;

	for (uint32_t i = 0; i < MT_STATE_REGIONS_MAX; i++)
		if (h->region[i].kind == MT_REGION_SAMPLED)
			h->region[i].used = 2;
	assert_int_equal(mt_mtk_read_memory(data, len, "test", &p, NULL), 0);
	assert_string_equal(p->warning[0],
			    "5 sampled counters whose estimates are not in the file");
	mt_profile_free(p);
}

static void compaction_keeps_samples_and_statistics(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sampled();
	mt_auto(mt_profile) struct mt_profile *before = read_builder(b), *after = NULL;
	char from[512];
	struct mt_err err;

	snprintf(from, sizeof(from), "%s", temp_path("modes.mtk"));
	assert_int_equal(mtk_builder_write_sparse(b, from, 8192), 0);
	assert_int_equal(mt_mtk_compact(from, from, NULL, &err), 0);
	if (mt_mtk_read(from, &after, &err))
		fail_msg("%s", err.text);
	unlink(from);
	assert_no_warnings(after);
	assert_same_sites(before, after);
	assert_same_threads(before, after);
	assert_same_blocks(before, after);
	assert_int_equal(before->regime_count, after->regime_count);
	for (uint32_t i = 0; i < before->site_count; i++)
		assert_memory_equal(&before->site_sample[i], &after->site_sample[i],
				    sizeof(before->site_sample[i]));
	assert_memory_equal(before->block_key, after->block_key,
			    before->blocks * sizeof(*before->block_key));
	assert_memory_equal(before->stats, after->stats,
			    before->thread_count * sizeof(*before->stats));
	assert_int_equal(before->change_count, after->change_count);
	assert_int_equal(before->big_count, after->big_count);
	assert_int_equal(before->big[0].address, after->big[0].address);
	mt_profile_free(after);
	after = NULL;
}

static void every_failed_allocation_is_reported(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sampled();
	size_t len;
	mt_auto(free) uint8_t *data = mtk_builder_bytes(b, &len);
	int r = -ENOMEM;

	for (size_t nth = 1; r == -ENOMEM; nth++) {
		struct mt_profile *p = NULL;

		mt_alloc_fail_from_for_test(nth);
		r = mt_mtk_read_memory(data, len, "test", &p, NULL);
		mt_alloc_fail_from_for_test(0);
		mt_profile_free(p);
		assert_true(nth < 200);
	}
	assert_int_equal(r, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_of_version_1_0_has_no_other_mode),
		cmocka_unit_test(sites_of_a_sample_have_estimates),
		cmocka_unit_test(regimes_keep_their_intervals),
		cmocka_unit_test(blocks_recorded_in_full_stay_exact),
		cmocka_unit_test(totals_are_those_of_both_ways_of_counting),
		cmocka_unit_test(statistics_are_read),
		cmocka_unit_test(two_ways_of_counting_bound_the_peak),
		cmocka_unit_test(a_thread_alone_has_an_exact_peak),
		cmocka_unit_test(big_blocks_are_listed),
		cmocka_unit_test(changes_are_read_in_order),
		cmocka_unit_test(a_block_has_the_same_key_in_two_readings),
		cmocka_unit_test(samples_that_do_not_agree_are_warned_of),
		cmocka_unit_test(sums_below_zero_are_nothing),
		cmocka_unit_test(damage_is_named_and_bounded),
		cmocka_unit_test(estimates_that_are_cut_off_are_named),
		cmocka_unit_test(compaction_keeps_samples_and_statistics),
		cmocka_unit_test(every_failed_allocation_is_reported),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
