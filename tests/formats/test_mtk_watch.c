/* SPDX-License-Identifier: MIT */
/* Cheap readings give the numbers of the full one, from whole, running and damaged files. */
#include "fixture.h"

#include <string.h>

#include "base/alloc.h"
#include "formats/mtk_watch.h"

enum { ALL = MT_MTK_WATCH_THREADS | MT_MTK_WATCH_SITES | MT_MTK_WATCH_SIZES };

static const char *write_builder(struct mtk_builder *b, const char *name)
{
	const char *path = temp_path(name);
	size_t len;
	mt_auto(free) uint8_t *data = mtk_builder_bytes(b, &len);

	assert_int_equal(mt_file_write_atomic(path, data, len, 0600, NULL), 0);
	return path;
}

static struct mt_watch watch_path(const char *path, unsigned what)
{
	struct mt_watch w = {0};
	struct mt_err err = {0};

	if (mt_mtk_watch(path, what, &w, &err))
		fail_msg("%s", err.text);
	return w;
}

static void memory_errors_are_counted_by_kind(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_checked();
	((struct mt_state_error *)mtk_builder_at(b, MT_REGION_ERRORS, 5))->kind = 77;
	const char *path = write_builder(b, "watch-errors.mtk");
	mt_auto(mt_watch) struct mt_watch w = watch_path(path, 0);
	static const uint64_t wanted[MT_WATCH_ERRORS] = {
		[MT_ERROR_OVERFLOW] = 2, [MT_ERROR_USE_AFTER_FREE] = 1, [MT_ERROR_MISMATCH] = 1};

	unlink(path);
	assert_false(w.is_partial);
	assert_int_equal(w.mode, MT_MODE_CHECK);
	assert_memory_equal(w.errors, wanted, sizeof(wanted));
}

static void sums_threads_and_sites_are_those_of_the_profile(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	const char *path = write_builder(b, "watch.mtk");
	mt_auto(mt_watch) struct mt_watch w = watch_path(path, ALL);

	unlink(path);
	assert_false(w.is_partial);
	assert_int_equal(w.pid, p->pid);
	assert_int_equal(w.mode, p->mode);
	assert_false(w.is_running);
	assert_int_equal(w.counts.allocs, p->totals.allocs);
	assert_int_equal(w.counts.frees, p->totals.frees);
	assert_int_equal(w.counts.bytes, p->totals.bytes);
	assert_int_equal(w.live_bytes, p->live_bytes);
	assert_int_equal(w.live_blocks, p->live_count);
	assert_int_equal(w.peak_bytes, p->peak_bytes);
	assert_true(w.events > w.counts.allocs + w.counts.frees); /* the mapping, too */
	assert_int_equal(w.thread_count, p->thread_count - 1);
	for (uint32_t i = 0; i < w.thread_count; i++) {
		assert_int_equal(w.thread[i].tid, p->thread[i + 1].tid);
		assert_string_equal(w.thread[i].name, p->thread[i + 1].name);
		assert_int_equal(w.thread[i].counts.bytes, p->thread[i + 1].heap[0].bytes);
		assert_true(w.thread[i].is_ended);
	}
	assert_int_equal(w.site_count, p->site_count);
	for (uint32_t i = 1; i < w.site_count; i++) {
		assert_int_equal(w.site[i].counts.allocs, p->site[i].counts.allocs);
		assert_int_equal(w.site[i].counts.bytes, p->site[i].counts.bytes);
		assert_int_equal(mt_watch_live_bytes(&w.site[i].counts), p->site[i].live_bytes);
		assert_int_equal(w.site[i].node, p->site[i].node);
		assert_int_equal(w.site[i].call, p->site[i].call);
		assert_int_equal(w.site[i].heap, p->site[i].heap);
		assert_false(w.site[i].is_estimate);
	}
	for (uint32_t k = 0; k < MT_WATCH_SIZES; k++) {
		uint64_t sum = 0;

		for (uint32_t i = 1; i < p->site_count; i++)
			sum += p->site[i].heap ? 0 : sizes_of(p, i, k);
		assert_int_equal(w.sizes[k].allocs, sum);
	}
}

static void only_what_is_asked_for_is_read(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	const char *path = write_builder(b, "watch-sums.mtk");
	mt_auto(mt_watch) struct mt_watch w = watch_path(path, MT_MTK_WATCH_SUMS);

	unlink(path);
	assert_true(w.counts.allocs > 0);
	assert_null(w.thread);
	assert_null(w.site);
	for (uint32_t k = 0; k < MT_WATCH_SIZES; k++)
		assert_int_equal(w.sizes[k].allocs, 0);
}

static void statistics_add_to_what_was_recorded(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	struct mt_state_stats s[3] = {{0}};
	struct mt_state_header *h = mtk_builder_header(b);

	h->mode = MT_MODE_STATS;
	h->interval_bytes = 4096;
	h->stats_peak_bytes = 1 << 30;
	s[1].size_class[5] = (struct mt_state_size_class){100, 40, 3000, 1200};
	s[2].size_class[7] = (struct mt_state_size_class){10, 30, 1000, 3000};
	for (int i = 0; i < 3; i++)
		mtk_builder_add(b, MT_REGION_STATS, &s[i]);
	const char *path = write_builder(b, "watch-stats.mtk");
	mt_auto(mt_watch) struct mt_watch w = watch_path(path, MT_MTK_WATCH_THREADS);
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);

	unlink(path);
	assert_false(w.is_partial);
	assert_int_equal(w.mode, MT_MODE_STATS);
	assert_int_equal(w.interval_bytes, 4096);
	assert_int_equal(w.counts.allocs, 22 + 110);
	assert_int_equal(w.counts.frees, 11 + 70);
	assert_int_equal(w.thread[1].counts.allocs, p->thread[2].heap[0].allocs);
	assert_int_equal(mt_watch_live_bytes(&w.thread[1].counts), p->thread[2].live_bytes - 2000);
	assert_int_equal(w.sizes[5].bytes, 3000);
	assert_int_equal(w.sizes[7].frees, 30);
	assert_int_equal(w.peak_bytes, 1 << 30);
}

static void samples_are_not_counted_twice(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sampled();
	const char *path = write_builder(b, "watch-twice.mtk");
	mt_auto(mt_watch) struct mt_watch w = watch_path(path, MT_MTK_WATCH_THREADS);
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);

	unlink(path);
	assert_int_equal(w.counts.allocs, p->totals.allocs);
	assert_int_equal(w.counts.frees, p->totals.frees);
	assert_int_equal(w.counts.bytes, p->totals.bytes);
	assert_int_equal(w.live_bytes, p->live_bytes);
	assert_int_equal(w.live_blocks, p->live_count);
	assert_int_equal(w.events, p->totals.allocs + p->totals.frees);
	assert_int_equal(w.thread[0].counts.bytes, p->thread[1].heap[0].bytes);
	assert_int_equal(mt_watch_live_bytes(&w.thread[1].counts), p->thread[2].live_bytes);
}

static void a_counted_process_has_the_peak_of_its_statistics(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_counted();
	const char *path = write_builder(b, "watch-peak.mtk");
	mt_auto(mt_watch) struct mt_watch w = watch_path(path, MT_MTK_WATCH_SUMS);

	mtk_builder_header(b)->peak_bytes = 1ll << 40; /* of estimates */
	const char *again = write_builder(b, "watch-peak.mtk");
	mt_auto(mt_watch) struct mt_watch v = watch_path(again, MT_MTK_WATCH_SUMS);
	unlink(path);
	assert_int_equal(v.peak_bytes, w.peak_bytes);
	assert_in_range(w.peak_bytes, w.live_bytes, w.live_bytes + (4 << 20));
}

static void samples_count_by_their_weight(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	uint32_t cells = mtk_builder_count(b, MT_REGION_CELLS);
	struct mt_state_site *site = mtk_builder_at(b, MT_REGION_SITES, 1);

	site->regime = 1;
	for (uint32_t i = 0; i < cells; i++) {
		struct mt_state_sampled s = {.count_q16 = {(100 << 16) + (1 << 15), 1},
					     .freed_count_q16 = {7 << 16}};
		mtk_builder_add(b, MT_REGION_SAMPLED, &s);
	}
	const char *path = write_builder(b, "watch-sampled.mtk");
	mt_auto(mt_watch) struct mt_watch w = watch_path(path, MT_MTK_WATCH_SITES);

	unlink(path);
	assert_true(w.site[1].is_estimate); /* in two threads */
	assert_int_equal(w.site[1].counts.allocs, 2 * ((1ull << 48) + 101));
	assert_int_equal(w.site[1].counts.frees, 14);
	assert_int_equal(w.site[1].counts.bytes, 1007);
	assert_false(w.site[2].is_estimate);
	assert_int_equal(w.site[2].counts.allocs, 10);
	assert_int_equal(w.site[0].counts.allocs, 0);
}

static uint64_t sampled_allocs(struct mtk_builder *b, uint32_t site)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < mtk_builder_count(b, MT_REGION_CELLS); i++) {
		const struct mt_state_cell *c = mtk_builder_at(b, MT_REGION_CELLS, i);

		sum += c->site == site ? c->allocs : 0;
	}
	return sum;
}

/* Sums over threads, each of which frees what others allocated. */
static void sums_of_samples_are_those_of_what_lives_and_what_was_freed(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	uint32_t cells = mtk_builder_count(b, MT_REGION_CELLS);
	struct mt_state_site *site = mtk_builder_at(b, MT_REGION_SITES, 1);
	enum { ALL_OF_SITES = MT_MTK_WATCH_SITES | MT_MTK_WATCH_SAMPLES };

	site->regime = 1;
	mtk_builder_add(b, MT_REGION_REGIMES, &(struct mt_state_regime){0});
	mtk_builder_add(b, MT_REGION_REGIMES,
			&(struct mt_state_regime){.kind = MT_REGIME_BYTES, .interval_bytes = 4096});
	for (uint32_t i = 0; i < cells; i++) {
		struct mt_state_sampled s = {.sample_bytes = 1000,
					     .freed_sample_bytes = 300,
					     .bytes_variance = {500, 1},
					     .freed_bytes_variance = {100, 0},
					     .count_variance = {70, 0},
					     .freed_count_variance = {60, 0}};
		mtk_builder_add(b, MT_REGION_SAMPLED, &s);
	}
	const char *path = write_builder(b, "watch-samples.mtk");
	mt_auto(mt_watch) struct mt_watch w = watch_path(path, ALL_OF_SITES);
	mt_auto(mt_watch) struct mt_watch without = watch_path(path, MT_MTK_WATCH_SITES);

	mtk_builder_header(b)->version_minor = MT_STATE_FREED_VARIANCE - 1;
	path = write_builder(b, "watch-samples.mtk");
	mt_auto(mt_watch) struct mt_watch older = watch_path(path, ALL_OF_SITES);

	unlink(path);
	assert_null(without.sampled);
	assert_true(w.knows_samples);
	const struct mt_series_sampled *s = &w.sampled[1]; /* two cells */
	assert_int_equal(s->live.samples + s->freed.samples, sampled_allocs(b, 1));
	assert_int_equal(s->freed_bytes, w.site[1].counts.freed_bytes);
	assert_int_equal(s->live.seen_bytes, 2 * 700);
	assert_int_equal(s->freed.seen_bytes, 2 * 300);
	assert_true(s->live.bytes_variance == 2 * (0x1p64 + 400));
	assert_true(s->freed.bytes_variance == 200);
	assert_true(s->live.count_variance == 20 && s->freed.count_variance == 120);
	assert_int_equal(w.sampled[2].live.samples, 0);
	assert_false(older.knows_samples);
	assert_null(older.sampled);
}

static void a_running_process_is_seen(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	const char *path = temp_path("watch-live.mtk");
	struct mt_state_thread *t = mtk_builder_at(b, MT_REGION_THREADS, 1);

	make_ours(mtk_builder_header(b));
	t->tid = (uint32_t)getpid();
	assert_int_equal(mtk_builder_write_sparse(b, path, 100000), 0);
	mt_auto(mt_watch) struct mt_watch w = watch_path(path, ALL);
	unlink(path);
	assert_true(w.is_running);
	assert_false(w.is_partial);
	assert_false(w.thread[0].is_ended);
	assert_true(w.thread[1].is_ended); /* no such thread here */
	assert_int_equal(w.counts.allocs, 22);
}

/* Every byte of header and tables may be anything: no crash, and the same answer twice. */
static void damaged_files_are_survived(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	const char *path = temp_path("watch-bad.mtk");
	size_t len;
	mt_auto(free) uint8_t *data = mtk_builder_bytes(b, &len);
	uint64_t x = 88172645463325252u;
	unsigned read = 0;

	for (int round = 0; round < 1500; round++) {
		mt_auto(free) uint8_t *copy = mt_alloc(len);
		struct mt_watch w = {0};
		size_t cut = len;

		memcpy(copy, data, len);
		for (int k = 0; k < 4; k++) {
			x ^= x << 13, x ^= x >> 7, x ^= x << 17;
			size_t at = k % 2 ? x % len : 512 + x % 600; /* often the region table */
			copy[at] = (uint8_t)(x >> 40);
		}
		if (round % 5 == 0)
			cut = x % len;
		assert_int_equal(mt_file_write_atomic(path, copy, cut, 0600, NULL), 0);
		if (!mt_mtk_watch(path, ALL, &w, NULL))
			read++;
		mt_watch_done(&w);
	}
	unlink(path);
	assert_true(read > 100);
}

static void errors_are_named(void **state)
{
	struct mt_watch w = {0};
	struct mt_err err = {0};

	assert_int_equal(mt_mtk_watch("/nonexistent/x.mtk", ALL, &w, &err), -ENOENT);
	assert_string_equal(err.text,
			    "cannot open '/nonexistent/x.mtk': No such file or directory");
}

static void no_memory_is_an_error(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	const char *path = write_builder(b, "watch-memory.mtk");
	int code = -ENOMEM;

	for (size_t nth = 1; code; nth++) {
		struct mt_watch w = {0};
		struct mt_err err = {0};

		mt_alloc_fail_from_for_test(nth);
		code = mt_mtk_watch(path, ALL, &w, &err);
		mt_alloc_fail_from_for_test(0);
		assert_true(code == 0 || code == -ENOMEM);
		assert_true(nth < 100);
		mt_watch_done(&w);
	}
	unlink(path);
}

static void stacks_alone_have_the_same_numbers(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b), *names = NULL;
	const char *path = write_builder(b, "watch-names.mtk");

	assert_int_equal(mt_mtk_read_stacks(path, &names, NULL), 0);
	unlink(path);
	assert_no_warnings(names);
	assert_int_equal(names->site_count, p->site_count);
	assert_int_equal(names->node_count, p->node_count);
	assert_int_equal(names->module_count, p->module_count);
	assert_int_equal(names->blocks, 0);
	for (uint32_t i = 1; i < p->site_count; i++) {
		assert_int_equal(names->site[i].node, p->site[i].node);
		assert_int_equal(names->site[i].call, p->site[i].call);
	}
	for (uint32_t i = 0; i < p->node_count; i++)
		assert_int_equal(names->node[i].pc, p->node[i].pc);
	assert_string_equal(names->exe, p->exe);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_errors_are_counted_by_kind),
		cmocka_unit_test(sums_threads_and_sites_are_those_of_the_profile),
		cmocka_unit_test(only_what_is_asked_for_is_read),
		cmocka_unit_test(statistics_add_to_what_was_recorded),
		cmocka_unit_test(samples_are_not_counted_twice),
		cmocka_unit_test(a_counted_process_has_the_peak_of_its_statistics),
		cmocka_unit_test(samples_count_by_their_weight),
		cmocka_unit_test(sums_of_samples_are_those_of_what_lives_and_what_was_freed),
		cmocka_unit_test(a_running_process_is_seen),
		cmocka_unit_test(damaged_files_are_survived),
		cmocka_unit_test(errors_are_named),
		cmocka_unit_test(no_memory_is_an_error),
		cmocka_unit_test(stacks_alone_have_the_same_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
