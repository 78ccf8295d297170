/* SPDX-License-Identifier: MIT */
/* Statistics and sampling: what is counted, what is recorded, and what it stands for. */
#include "fixture.h"

#include <math.h>
#include <string.h>

#include "core/sys.h"
#include "runtime/light.h"
#include "runtime/sampler.h"

#define SITE(n) fixture_address(1, 16 * (n) + 1)
enum { BLOCKS = 1 << 16, SPACING = 64 };
static const uint64_t BASE = 0x100000000;

/* An allocator that rounds up to 16 bytes; blocks have numbers. */
static size_t size_of[BLOCKS];

static size_t usable_size(const void *p)
{
	return (size_of[((uint64_t)p - BASE) / SPACING] + 15) & ~(size_t)15;
}

static void *address_of(uint64_t number)
{
	return (void *)(BASE + number * SPACING);
}

static int begin(const struct fixture_config *config)
{
	mt_original[MT_FAMILY_PLAIN].malloc_usable_size = usable_size;
	return fixture_begin(config);
}

static int begin_stats(void **state)
{
	return begin(&(struct fixture_config){.mode = MT_MODE_STATS});
}

static int begin_sample(void **state)
{
	return begin(&(struct fixture_config){.mode = MT_MODE_SAMPLE, .interval_bytes = 4096});
}

/* As the hook of malloc does. */
static void take_in(struct mt_thread *t, uint64_t number, size_t size, uintptr_t site)
{
	struct mt_caller caller = fixture_caller(site);
	void *p = address_of(number);
	size_of[number] = size;
	enum mt_light counted =
		mt_light_is_small(t, size) ? mt_light_alloc(t, size, usable_size(p)) : MT_LIGHT_NO;
	if (counted == MT_LIGHT_STEP)
		mt_light_step(t);
	if (counted != MT_LIGHT_NO)
		return;
	t->depth = 1;
	mt_finish_alloc(t, p, size, MT_CALL_MALLOC, &caller, 0);
}

static void let_go(struct mt_thread *t, uint64_t number)
{
	void *p = address_of(number);
	enum mt_light counted = mt_light_free(t, p, usable_size(p));
	if (counted == MT_LIGHT_STEP)
		mt_light_step(t);
	if (counted == MT_LIGHT_NO)
		fixture_free(t, (uint64_t)p);
}

static struct mt_state_size_class sum_of(const struct mt_state_stats *s)
{
	struct mt_state_size_class sum = {0};
	for (int i = 0; i < MT_SIZE_BUCKETS; i++) {
		sum.allocs += s->size_class[i].allocs;
		sum.frees += s->size_class[i].frees;
		sum.bytes += s->size_class[i].bytes;
		sum.freed_bytes += s->size_class[i].freed_bytes;
	}
	return sum;
}

static void each_size_class_is_counted_exactly(void **state)
{
	struct mt_thread *t = fixture_thread();
	for (uint64_t i = 0; i < 1000; i++)
		take_in(t, i, i, SITE(1));
	for (uint64_t i = 0; i < 500; i++)
		let_go(t, i);
	const struct mt_state_stats *s = t->stats;
	for (uint32_t bucket = 0; bucket < MT_SIZE_BUCKETS; bucket++) {
		uint64_t allocs = 0, frees = 0, bytes = 0;
		for (uint64_t i = 0; i < 1000; i++)
			if (mt_state_size_bucket(usable_size(address_of(i))) == bucket) {
				allocs++;
				bytes += usable_size(address_of(i));
				frees += i < 500;
			}
		assert_int_equal(s->size_class[bucket].allocs, allocs);
		assert_int_equal(s->size_class[bucket].frees, frees);
		assert_int_equal(s->size_class[bucket].bytes, bytes);
	}
	struct mt_state_size_class sum = sum_of(s);
	assert_int_equal(s->live_bytes, (int64_t)(sum.bytes - sum.freed_bytes));
	assert_int_equal(s->peak_bytes, (int64_t)sum.bytes);
	/* no stack, no site, no record */
	assert_int_equal(mt_rt.region[MT_REGION_SITES]->used, 1);
	assert_int_equal(t->capture.counts.captures, 0);
}

static void statistics_take_no_memory_that_grows(void **state)
{
	struct mt_thread *t = fixture_thread();
	take_in(t, 0, 100, SITE(1));
	uint64_t before = mt_rt.hdr->committed_bytes;
	for (uint64_t i = 1; i < BLOCKS; i++)
		take_in(t, i, i % 5000, SITE(i % 100));
	assert_int_equal(mt_rt.hdr->committed_bytes, before);
	assert_int_equal(mt_rt.table_bytes, 0);
}

static void the_process_hears_of_it_in_steps(void **state)
{
	struct mt_thread *t = fixture_thread();
	int64_t live = 0;
	for (uint64_t i = 0; i < 1000; i++) {
		take_in(t, i, 1024, SITE(1));
		live += 1024;
		assert_true(live - mt_rt.hdr->stats_live_published < MT_PEAK_STEP);
	}
	for (uint64_t i = 0; i < 1000; i++) {
		let_go(t, i);
		live -= 1024;
		assert_true(mt_rt.hdr->stats_live_published - live < MT_PEAK_STEP);
	}
	assert_true(1000 * 1024 - mt_rt.hdr->stats_peak_bytes < MT_PEAK_STEP);
	assert_int_equal(t->stats->peak_bytes, 1000 * 1024);
}

static uint64_t big_blocks(void)
{
	const struct mt_state_big *big = mt_storage_base(MT_REGION_BIG);
	uint64_t n = 0;
	for (uint64_t i = 0; i < mt_rt.region[MT_REGION_BIG]->used; i++)
		n += big[i].place != 0;
	return n;
}

static void blocks_of_a_mebibyte_are_listed(void **state)
{
	struct mt_thread *t = fixture_thread();
	take_in(t, 1, MT_BIG_BYTES - 16, SITE(1));
	assert_int_equal(big_blocks(), 0);
	take_in(t, 2, MT_BIG_BYTES, SITE(1));
	take_in(t, 3, 50u << 20, SITE(1));
	assert_int_equal(big_blocks(), 2);
	let_go(t, 2);
	let_go(t, 1);
	assert_int_equal(big_blocks(), 1);
	let_go(t, 3);
	assert_int_equal(big_blocks(), 0);
	assert_int_equal(t->stats->live_bytes, 0);
}

static void a_big_block_that_finds_no_place_is_counted_as_not_listed(void **state)
{
	struct mt_thread *t = fixture_thread();
	/* neighbours of one page have the same slots */
	for (uint64_t i = 0; i < MT_BIG_WAYS + 5; i++)
		take_in(t, i, MT_BIG_BYTES, SITE(1));
	assert_int_equal(big_blocks(), MT_BIG_WAYS);
	assert_int_equal(mt_rt.region[MT_REGION_BIG]->refused, 5);
	assert_int_equal(sum_of(t->stats).allocs, MT_BIG_WAYS + 5);
}

/* --- sampling -------------------------------------------------------------------------------- */

static struct mt_state_sampled *sampled_of(uint32_t cell)
{
	return &((struct mt_state_sampled *)mt_storage_base(MT_REGION_SAMPLED))[cell];
}

static void samples_estimate_what_was_allocated(void **state)
{
	struct mt_thread *t = fixture_thread();
	uint64_t bytes = 0, seed = 7;
	for (uint64_t i = 0; i < BLOCKS; i++) {
		size_t size = 1 + fixture_random(&seed) % 1000;
		take_in(t, i, size, SITE(1));
		bytes += size;
	}
	assert_int_equal(mt_rt.region[MT_REGION_CELLS]->used, 2);
	const struct mt_state_cell *c = &mt_rt.cells[1];
	const struct mt_state_sampled *s = sampled_of(1);
	double sd = sqrt((double)s->bytes_variance[0]);
	assert_true(fabs((double)c->bytes - (double)bytes) < 4 * sd);
	assert_true(sd < 0.02 * (double)bytes);
	double count_sd = sqrt((double)s->count_variance[0]);
	assert_true(fabs((double)s->count_q16[0] / 65536 - BLOCKS) < 4 * count_sd);
	assert_int_equal(c->allocs, t->stats->sampled);
	assert_int_equal(c->allocs, t->row->totals[MT_CLASS_MALLOC].allocs);
	assert_int_equal(c->bytes, t->row->totals[MT_CLASS_MALLOC].bytes);
	assert_int_equal(sum_of(t->stats).allocs, BLOCKS);
	assert_int_equal(c->peak_bytes, c->bytes);
}

static void what_was_sampled_is_found_again_when_it_is_freed(void **state)
{
	struct mt_thread *t = fixture_thread();
	uint64_t count, live_bytes;
	for (uint64_t i = 0; i < BLOCKS; i++)
		take_in(t, i, 1 + i % 3000, SITE(1));
	fixture_count_live(&count, &live_bytes);
	assert_int_equal(count, t->stats->sampled);
	assert_int_equal(live_bytes, sampled_of(1)->sample_bytes);
	assert_int_equal(sampled_of(1)->freed_bytes_variance[0], 0);
	for (uint64_t i = 0; i < BLOCKS; i++)
		let_go(t, i);
	fixture_count_live(&count, &live_bytes);
	assert_int_equal(count, 0);
	const struct mt_state_cell *c = &mt_rt.cells[1];
	assert_int_equal(c->frees, c->allocs);
	assert_int_equal(c->freed_bytes, c->bytes);
	const struct mt_state_sampled *s = sampled_of(1);
	assert_true(s->bytes_variance[0] && s->count_variance[0]);
	assert_memory_equal(s->freed_bytes_variance, s->bytes_variance, 16);
	assert_memory_equal(s->freed_count_variance, s->count_variance, 16);
	assert_int_equal(t->stats->live_bytes, 0);
	for (int i = 0; i < 1 << MT_FILTER_BITS; i++)
		assert_int_equal(mt_rt.filter[i], 0);
}

static void large_blocks_are_always_recorded_and_move_no_point(void **state)
{
	struct mt_thread *t = fixture_thread();
	int64_t left = t->sample_left;
	uint64_t from = mt_sample_always_from(4096);
	for (uint64_t i = 0; i < 100; i++)
		take_in(t, i, from + i * 1000, SITE(1));
	assert_int_equal(t->sample_left, left);
	assert_int_equal(mt_rt.cells[1].allocs, 100);
	assert_int_equal(mt_rt.cells[1].bytes, sampled_of(1)->sample_bytes);
	assert_int_equal(sampled_of(1)->bytes_variance[0], 0);
}

/* Two call sites in turns, and of ten places the same ones over and over: all are in the sample. */
static void one_of_each_n_is_recorded_wherever_it_is(void **state)
{
	struct mt_thread *t = fixture_thread();
	fixture_wish(MT_MODE_SAMPLE, 4096, 10);
	mt_control_take(t);
	for (uint64_t i = 0; i < 20000; i++)
		take_in(t, i, 24, SITE(i % 10 < 5 ? 1 : 2));
	uint64_t first = mt_rt.cells[1].allocs, second = mt_rt.cells[2].allocs;
	assert_int_equal(first + second, 2000); /* exactly one of each ten */
	assert_in_range(first, 1000 - 5 * 23, 1000 + 5 * 23);
}

static void every_nth_allocation_is_recorded(void **state)
{
	struct mt_thread *t = fixture_thread();
	fixture_wish(MT_MODE_SAMPLE, 4096, 10);
	mt_control_take(t);
	for (uint64_t i = 0; i < 1000; i++)
		take_in(t, i, 24, SITE(1));
	assert_int_equal(mt_rt.cells[1].allocs, 100);
	assert_int_equal(mt_rt.cells[1].bytes, 24000);
	assert_int_equal(mt_rt.hdr->every, 10);
	assert_int_equal(mt_rt.hdr->interval_bytes, 0);
}

static void interval_one_records_everything_as_it_is(void **state)
{
	struct mt_thread *t = fixture_thread();
	uint64_t bytes = 0;
	fixture_wish(MT_MODE_SAMPLE, 1, 0);
	mt_control_take(t);
	for (uint64_t i = 0; i < 1000; i++) {
		take_in(t, i, i, SITE(1));
		bytes += i;
	}
	assert_int_equal(mt_rt.cells[1].allocs, 1000);
	assert_int_equal(mt_rt.cells[1].bytes, bytes);
}

static void another_interval_is_another_site(void **state)
{
	struct mt_thread *t = fixture_thread();
	take_in(t, 1, 100000, SITE(1));
	fixture_wish(MT_MODE_SAMPLE, 8192, 0);
	mt_control_take(t);
	take_in(t, 2, 100000, SITE(1));
	fixture_wish(MT_MODE_SAMPLE, 4096, 0);
	mt_control_take(t);
	take_in(t, 3, 100000, SITE(1));
	const struct mt_state_regime *regime = mt_storage_base(MT_REGION_REGIMES);
	assert_int_equal(fixture_sum_of(SITE(1)).sites, 2);
	assert_int_equal(mt_rt.region[MT_REGION_REGIMES]->used, 3);
	assert_int_equal(regime[mt_rt.sites[1].regime].interval_bytes, 4096);
	assert_int_equal(regime[mt_rt.sites[2].regime].interval_bytes, 8192);
	assert_int_equal(mt_rt.cells[1].allocs, 2);
}

static void a_range_of_sizes_has_its_own_interval(void **state)
{
	struct mt_thread *t = fixture_thread();
	const struct mt_state_regime *regime = mt_storage_base(MT_REGION_REGIMES);
	uint64_t small = 0, medium = 0;
	fixture_ask("mode=sample interval=1M intervals=0-63:1,1000-1999:8K");
	mt_control_take(t);
	for (uint64_t i = 0; i < 3000; i++) {
		size_t size = i % 3 ? 1500 : 30;
		take_in(t, i, size, SITE(size));
		small += size == 30 ? size : 0;
		medium += size == 1500 ? size : 0;
	}
	for (uint32_t s = 1; s < mt_rt.region[MT_REGION_SITES]->used; s++)
		assert_true(regime[mt_rt.sites[s].regime].interval_bytes != 1 << 20);
	assert_int_equal(fixture_sum_of(SITE(30)).bytes, small);
	/* 366 samples of 3 MB */
	assert_true(fabs((double)fixture_sum_of(SITE(1500)).bytes / (double)medium - 1) < 0.25);
	assert_in_range(fixture_sum_of(SITE(1500)).allocs, 250, 500);
	assert_int_equal(sum_of(t->stats).allocs, 3000);
	for (uint64_t i = 0; i < 3000; i++)
		let_go(t, i);
	assert_int_equal(fixture_sum_of(SITE(1500)).freed_bytes, fixture_sum_of(SITE(1500)).bytes);
	assert_int_equal(fixture_sum_of(SITE(30)).freed_bytes, small);
}

static void custom_heaps_are_sampled_as_asked(void **state)
{
	struct mt_thread *t = fixture_thread();
	struct mt_caller caller = fixture_caller(SITE(5));
	uint32_t heap = mt_storage_take(MT_REGION_HEAPS, 1);
	fixture_ask("mode=sample interval=1M intervals=custom:2K");
	mt_control_take(t);
	for (uint64_t i = 0; i < 10000; i++)
		mt_record_custom_alloc(t, heap, address_of(i), 100, &caller);
	struct fixture_sum sum = fixture_sum_of(SITE(5));
	assert_in_range(sum.allocs, 350, 650); /* 488 expected */
	assert_in_range(sum.bytes, 800000, 1200000);
	for (uint64_t i = 0; i < 10000; i++)
		mt_record_custom_free(t, heap, address_of(i));
	sum = fixture_sum_of(SITE(5));
	assert_int_equal(sum.frees, sum.allocs);
	assert_int_equal(sum.freed_bytes, sum.bytes);
	assert_int_equal(mt_large_count(), 0);
	assert_int_equal(t->row->unknown_frees, 0);
	assert_int_equal(t->row->totals[MT_CLASS_CUSTOM].bytes, sum.bytes);
}

static void statistics_of_custom_heaps_are_exact_without_stacks(void **state)
{
	struct mt_thread *t = fixture_thread();
	struct mt_caller caller = fixture_caller(SITE(5));
	uint32_t heap = mt_storage_take(MT_REGION_HEAPS, 1);
	for (uint64_t i = 0; i < 100; i++)
		mt_record_custom_alloc(t, heap, address_of(i), 100, &caller);
	for (uint64_t i = 0; i < 40; i++)
		mt_record_custom_free(t, heap, address_of(i));
	const struct mt_state_totals *sum = &t->row->totals[MT_CLASS_CUSTOM];
	assert_int_equal(sum->allocs, 100);
	assert_int_equal(sum->bytes - sum->freed_bytes, 6000);
	assert_int_equal(mt_rt.region[MT_REGION_SITES]->used, 1);
}

/* --- from one mode to another ---------------------------------------------------------------- */

static void a_block_is_found_whatever_the_mode_is_when_it_goes(void **state)
{
	static const uint32_t modes[] = {MT_MODE_FULL, MT_MODE_STATS, MT_MODE_SAMPLE};
	struct mt_thread *t = fixture_thread();
	uint64_t seed = 3, count, live_bytes, allocs = 0, frees = 0;
	static uint8_t live[4096];
	memset(live, 0, sizeof(live));
	for (uint64_t i = 0; i < 200000; i++) {
		uint64_t number = fixture_random(&seed) % sizeof(live);
		if (i % 1000 == 0) {
			fixture_wish(modes[fixture_random(&seed) % 3], 512, 0);
			mt_control_take(t);
		}
		if (live[number]) {
			if (t->light)
				let_go(t, number);
			else
				fixture_free(t, (uint64_t)address_of(number));
			frees++;
		} else if (t->light) {
			take_in(t, number, 1 + fixture_random(&seed) % 40000, SITE(number % 7));
			allocs++;
		} else {
			struct mt_caller caller = fixture_caller(SITE(number % 7));
			size_of[number] = 1 + fixture_random(&seed) % 40000;
			mt_record_alloc(t, address_of(number), size_of[number], MT_CALL_MALLOC,
					&caller, 0);
			allocs++;
		}
		live[number] = !live[number];
	}
	for (uint64_t i = 0; i < sizeof(live); i++)
		if (live[i]) {
			fixture_free(t, (uint64_t)address_of(i));
			frees++;
		}
	fixture_count_live(&count, &live_bytes);
	assert_int_equal(count, 0);
	assert_int_equal(t->stats->live_bytes, 0);
	assert_int_equal(t->row->unknown_frees, 0);
	/* a sample is counted in both */
	struct mt_state_size_class sum = sum_of(t->stats);
	const struct mt_state_totals *full = &t->row->totals[MT_CLASS_MALLOC];
	assert_int_equal(sum.allocs + full->allocs - t->stats->sampled, allocs);
	assert_int_equal(sum.frees + full->frees - t->stats->sampled, frees);
	assert_int_equal(full->bytes, full->freed_bytes);
}

/* --- jumps ----------------------------------------------------------------------------------- */

/* As if a handler had jumped away between the key of a remembered weight and the weight. */
static void a_weight_that_was_left_half_written_is_not_used(void **state)
{
	enum { BYTES = 1 << 20 };
	struct mt_thread *t = fixture_thread();
	const struct mt_state_totals *sum = &t->row->totals[MT_CLASS_MALLOC];
	take_in(t, 1, BYTES, SITE(1));
	uint64_t first = sum->bytes;
	assert_true(first >= BYTES);
	for (int i = 0; i < MT_WEIGHTS_KEPT; i++)
		t->weights[i].weight = (struct mt_weight){0};
	mt_thread_renew(t);
	take_in(t, 2, BYTES, SITE(1));
	assert_int_equal(sum->bytes, 2 * first);
}

/* --- allocators that tell sizes late --------------------------------------------------------- */

static int tells;

static size_t late_usable_size(const void *p)
{
	return tells ? usable_size(p) : 0;
}

static size_t rounded_size(size_t size, int flags)
{
	return (size + 15) & ~(size_t)15;
}

static int begin_late(void **state)
{
	tells = 0;
	mt_original[MT_FAMILY_PLAIN].malloc_usable_size = late_usable_size;
	return fixture_begin(&(struct fixture_config){.mode = MT_MODE_STATS});
}

static int end_late(void **state)
{
	mt_original[MT_FAMILY_PLAIN].nallocx = NULL;
	return fixture_teardown(state);
}

static void take_late(struct mt_thread *t, uint64_t number, size_t size, enum mt_state_call call)
{
	struct mt_caller caller = fixture_caller(SITE(1));
	size_of[number] = size;
	t->depth = 1;
	mt_finish_alloc(t, address_of(number), size, call, &caller, 0);
}

/* As asking_free() does where the thread may ask. */
static void let_go_late(struct mt_thread *t, uint64_t number)
{
	void *p = address_of(number);
	enum mt_light counted =
		t->other_way == MT_WAY_ASK ? mt_light_free(t, p, late_usable_size(p)) : MT_LIGHT_NO;
	if (counted == MT_LIGHT_NO)
		fixture_free(t, (uint64_t)p);
}

/* Blocks 1 to 3 when sizes are not told yet, 4 when they are; 1 goes before, all others after. */
static void live_while_sizes_become_known(struct mt_thread *t, enum mt_state_call call)
{
	for (uint64_t i = 1; i <= 3; i++)
		take_late(t, i, 100 * i, call);
	let_go_late(t, 1);
	assert_int_equal(t->other_way, MT_WAY_SLOW);
	tells = 1;
	take_late(t, 4, 400, call);
	take_late(t, 5, 500, call);
	assert_int_equal(t->other_way, MT_WAY_ASK);
}

static void blocks_that_the_allocator_cannot_size_yet_count_as_it_rounds(void **state)
{
	struct mt_thread *t = fixture_thread();
	mt_original[MT_FAMILY_PLAIN].nallocx = rounded_size;
	live_while_sizes_become_known(t, MT_CALL_MALLOC);
	struct mt_state_size_class sum = sum_of(t->stats);
	assert_int_equal(sum.allocs, 5);
	assert_int_equal(sum.bytes, 112 + 208 + 304 + 400 + 512);
	assert_int_equal(sum.frees, 1);
	assert_int_equal(sum.freed_bytes, 112);
	for (uint64_t i = 2; i <= 5; i++)
		let_go_late(t, i);
	sum = sum_of(t->stats);
	assert_int_equal(sum.frees, 5);
	assert_int_equal(sum.freed_bytes, sum.bytes);
	assert_int_equal(t->stats->live_bytes, 0);
	assert_int_equal(t->stats->size_class[0].allocs, 0);
	assert_int_equal(mt_rt.hdr->lost[MT_LOST_BEFORE_START], 0);
}

/* Nobody says how much an aligned block has. */
static void blocks_that_nobody_can_size_are_missed_with_their_frees(void **state)
{
	struct mt_thread *t = fixture_thread();
	mt_original[MT_FAMILY_PLAIN].nallocx = rounded_size;
	live_while_sizes_become_known(t, MT_CALL_ALIGNED);
	struct mt_state_size_class sum = sum_of(t->stats);
	assert_int_equal(sum.allocs, 2);
	assert_int_equal(sum.bytes, 400 + 512);
	for (uint64_t i = 2; i <= 5; i++)
		let_go_late(t, i);
	sum = sum_of(t->stats);
	assert_int_equal(sum.frees, 2);
	assert_int_equal(t->stats->live_bytes, 0);
	assert_int_equal(mt_rt.hdr->lost[MT_LOST_BEFORE_START], 3);
}

/* Address space for too many: those that find no place are missed, and their early frees, too. */
static void early_blocks_that_find_no_place_are_missed(void **state)
{
	enum { MANY = 4000 };
	struct mt_thread *t = fixture_thread();
	mt_original[MT_FAMILY_PLAIN].nallocx = rounded_size;
	for (uint64_t i = 0; i < MANY; i++)
		take_late(t, i, 64, MT_CALL_MALLOC);
	uint64_t missed = mt_rt.hdr->lost[MT_LOST_BEFORE_START];
	assert_in_range(missed, 1, MANY - 256);
	assert_int_equal(sum_of(t->stats).allocs, MANY - missed);
	for (uint64_t i = 0; i < MANY; i++)
		let_go_late(t, i);
	assert_int_equal(sum_of(t->stats).frees, MANY - missed);
	assert_int_equal(t->stats->live_bytes, 0);
}

/* Where it may not be asked blocks count with 0 bytes, as a note says. */
static void an_allocator_that_may_not_be_asked_misses_nothing(void **state)
{
	struct mt_thread *t = fixture_thread();
	mt_rt.no_sizes = 1;
	take_late(t, 1, 100, MT_CALL_MALLOC);
	let_go_late(t, 1);
	assert_int_equal(t->stats->size_class[0].allocs, 1);
	assert_int_equal(t->stats->size_class[0].frees, 1);
	assert_int_equal(mt_rt.hdr->lost[MT_LOST_BEFORE_START], 0);
}

#define LATE(name) cmocka_unit_test_setup_teardown(name, begin_late, end_late)
#define TEST(name, mode) cmocka_unit_test_setup_teardown(name, begin_##mode, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(each_size_class_is_counted_exactly, stats),
		TEST(statistics_take_no_memory_that_grows, stats),
		TEST(the_process_hears_of_it_in_steps, stats),
		TEST(blocks_of_a_mebibyte_are_listed, stats),
		TEST(a_big_block_that_finds_no_place_is_counted_as_not_listed, stats),
		TEST(samples_estimate_what_was_allocated, sample),
		TEST(what_was_sampled_is_found_again_when_it_is_freed, sample),
		TEST(large_blocks_are_always_recorded_and_move_no_point, sample),
		TEST(every_nth_allocation_is_recorded, sample),
		TEST(one_of_each_n_is_recorded_wherever_it_is, sample),
		TEST(interval_one_records_everything_as_it_is, sample),
		TEST(another_interval_is_another_site, sample),
		TEST(a_range_of_sizes_has_its_own_interval, sample),
		TEST(custom_heaps_are_sampled_as_asked, sample),
		TEST(statistics_of_custom_heaps_are_exact_without_stacks, stats),
		TEST(a_block_is_found_whatever_the_mode_is_when_it_goes, sample),
		TEST(a_weight_that_was_left_half_written_is_not_used, sample),
		LATE(blocks_that_the_allocator_cannot_size_yet_count_as_it_rounds),
		LATE(blocks_that_nobody_can_size_are_missed_with_their_frees),
		LATE(early_blocks_that_find_no_place_are_missed),
		LATE(an_allocator_that_may_not_be_asked_misses_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
