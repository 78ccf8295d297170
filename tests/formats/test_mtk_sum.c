/* SPDX-License-Identifier: MIT */
/*
 * The bounds of peaks hold: random events of several threads, published in steps, against the true
 * peaks that are followed beside them.
 */
#include "fixture.h"

#include <string.h>

enum { THREADS = 4, SITES = 3, SLOTS = 600, EVENTS = 4000, STEP = 65536 };

/* What really happened. */
struct truth {
	int64_t live, peak;
	int64_t site_live[SITES], site_peak[SITES];
};

struct world {
	struct mtk_builder *b;
	uint32_t thread[THREADS], site[SITES];
	struct {
		uint64_t address;
		int64_t size;
		uint32_t site;
	} slot[SLOTS];
	struct truth truth;
	uint64_t random, next_address;
};

static uint64_t next_random(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

static void start(struct world *w, uint64_t seed)
{
	memset(w, 0, sizeof(*w));
	w->b = mtk_builder_new();
	w->random = seed;
	w->next_address = 0x100000;
	mtk_builder_publish_in_steps(w->b, STEP);
	w->thread[0] = 1;
	for (uint32_t i = 1; i < THREADS; i++)
		w->thread[i] = mtk_builder_thread(w->b, 100 + i, "t");
	for (uint32_t i = 0; i < SITES; i++)
		w->site[i] = mtk_builder_site(w->b, mtk_builder_node(w->b, 0x1000 + i, 1, 0),
					      MT_CALL_MALLOC);
}

static void follow(struct truth *t, uint32_t site, int64_t change)
{
	t->live += change;
	t->peak = MT_MAX(t->peak, t->live);
	t->site_live[site] += change;
	t->site_peak[site] = MT_MAX(t->site_peak[site], t->site_live[site]);
}

/* A slot is filled or emptied by a random thread. */
static void step(struct world *w, bool only_first_thread)
{
	uint32_t k = (uint32_t)(next_random(&w->random) % SLOTS);
	uint32_t thread = only_first_thread ? 1 : w->thread[next_random(&w->random) % THREADS];
	if (w->slot[k].address) {
		mtk_builder_dealloc(w->b, thread, w->slot[k].address);
		follow(&w->truth, w->slot[k].site, -w->slot[k].size);
		w->slot[k].address = 0;
		return;
	}
	w->slot[k].site = (uint32_t)(next_random(&w->random) % SITES);
	w->slot[k].size = (int64_t)(next_random(&w->random) % 30000);
	w->slot[k].address = w->next_address += 0x10000;
	mtk_builder_alloc(w->b, thread, w->site[w->slot[k].site], w->slot[k].address,
			  (uint64_t)w->slot[k].size);
	follow(&w->truth, w->slot[k].site, w->slot[k].size);
}

static void assert_bound(uint64_t shown, uint64_t bound, int64_t truth)
{
	if (truth < (int64_t)(shown - bound) || truth > (int64_t)(shown + bound))
		fail_msg("true peak %lld, shown %llu within %llu", (long long)truth,
			 (unsigned long long)shown, (unsigned long long)bound);
}

static void assert_bounds(const struct world *w)
{
	mt_auto(mt_profile) struct mt_profile *p = read_builder(w->b);
	assert_no_warnings(p);
	assert_int_equal(p->live_bytes, w->truth.live);
	assert_bound(p->peak_bytes, p->peak_bound_bytes, w->truth.peak);
	/* and they are not just wide */
	assert_true(p->peak_bound_bytes <= THREADS * STEP);
	for (uint32_t i = 0; i < SITES; i++) {
		const struct mt_profile_site *s = &p->site[w->site[i]];
		assert_bound(s->peak_bytes, s->peak_bound_bytes, w->truth.site_peak[i]);
		assert_true(s->peak_bound_bytes <= THREADS * STEP);
	}
}

static void bounds_hold_for_threads_that_share_everything(void **state)
{
	for (uint64_t seed = 1; seed <= 8; seed++) {
		struct world w;
		start(&w, seed * 0x9e3779b97f4a7c15u);
		for (unsigned i = 0; i < EVENTS; i++)
			step(&w, false);
		assert_bounds(&w);
		mtk_builder_free(w.b);
	}
}

static void bounds_hold_when_all_is_freed_at_the_end(void **state)
{
	struct world w;
	start(&w, 42);
	for (unsigned i = 0; i < EVENTS; i++)
		step(&w, false);
	for (uint32_t k = 0; k < SLOTS; k++) {
		if (!w.slot[k].address)
			continue;
		mtk_builder_dealloc(w.b, w.thread[k % THREADS], w.slot[k].address);
		follow(&w.truth, w.slot[k].site, -w.slot[k].size);
	}
	assert_int_equal(w.truth.live, 0);
	assert_bounds(&w);
	mtk_builder_free(w.b);
}

static void single_writer_of_a_site_is_exact_among_many_threads(void **state)
{
	struct world w;
	start(&w, 7);
	for (unsigned i = 0; i < EVENTS; i++)
		step(&w, true);
	mt_auto(mt_profile) struct mt_profile *p = read_builder(w.b);
	for (uint32_t i = 0; i < SITES; i++) {
		assert_int_equal(p->site[w.site[i]].peak_bytes, w.truth.site_peak[i]);
		assert_int_equal(p->site[w.site[i]].peak_bound_bytes, 0);
	}
	assert_bound(p->peak_bytes, p->peak_bound_bytes, w.truth.peak);
	mtk_builder_free(w.b);
}

static void sums_at_the_peak_are_within_the_bound_of_the_peak(void **state)
{
	struct world w;
	start(&w, 99);
	mtk_builder_publish_in_steps(w.b, 0); /* each change: the peak is then exact */
	for (unsigned i = 0; i < EVENTS; i++)
		step(&w, false);
	mt_auto(mt_profile) struct mt_profile *p = read_builder(w.b);
	uint64_t sum = 0;
	for (uint32_t i = 0; i < SITES; i++)
		sum += p->site[w.site[i]].at_peak_bytes;
	assert_int_equal(sum, w.truth.peak);
	assert_int_equal(p->peak_bytes, w.truth.peak);
	mtk_builder_free(w.b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bounds_hold_for_threads_that_share_everything),
		cmocka_unit_test(bounds_hold_when_all_is_freed_at_the_end),
		cmocka_unit_test(single_writer_of_a_site_is_exact_among_many_threads),
		cmocka_unit_test(sums_at_the_peak_are_within_the_bound_of_the_peak),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
