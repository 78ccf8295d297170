/* SPDX-License-Identifier: MIT */
/* Counters, peaks and records as blocks come and go. */
#include "fixture.h"

#include <pthread.h>
#include <string.h>

#include "core/sys.h"

#define SITE(n) fixture_address(1, 16 * (n) + 1)

static void take_in(struct mt_thread *t, uint64_t address, size_t size, uintptr_t site)
{
	struct mt_caller caller = fixture_caller(site);
	mt_record_alloc(t, (void *)address, size, MT_CALL_MALLOC, &caller, 0);
}

static uint64_t lifetimes(const struct mt_state_cell *c)
{
	uint64_t sum = 0;
	for (int i = 0; i < MT_LIFE_BUCKETS; i++)
		sum += c->lifetime[i];
	return sum;
}

static uint64_t sizes(const struct mt_state_cell *c)
{
	const struct mt_state_hist *hist =
		(const struct mt_state_hist *)mt_storage_base(MT_REGION_HISTS) + c->hist;
	uint64_t sum = 0;
	for (int i = 0; i < MT_SIZE_BUCKETS; i++)
		sum += hist->count[i];
	return sum;
}

/* --- counts ---------------------------------------------------------------------------------- */

static void a_site_is_one_stack_and_one_function(void **state)
{
	struct mt_thread *t = fixture_thread();
	struct mt_caller caller = fixture_caller(SITE(1));
	for (uint64_t i = 0; i < 10; i++)
		take_in(t, 0x10000 + i * 64, 24, SITE(1));
	mt_record_alloc(t, (void *)0x20000, 24, MT_CALL_CALLOC, &caller, 0);
	take_in(t, 0x30000, 5, SITE(2));
	struct fixture_sum one = fixture_sum_of(SITE(1)), two = fixture_sum_of(SITE(2));
	assert_int_equal(one.sites, 2);
	assert_int_equal(one.allocs, 11);
	assert_int_equal(one.bytes, 11 * 24);
	assert_int_equal(two.sites, 1);
	assert_int_equal(two.bytes, 5);
}

static void a_free_of_an_unknown_address_is_counted_and_nothing_else(void **state)
{
	struct mt_thread *t = fixture_thread();
	take_in(t, 0x10000, 24, SITE(1));
	fixture_free(t, 0x10040);
	fixture_free(t, 0x7fff00000000u);
	assert_int_equal(t->row->unknown_frees, 2);
	assert_int_equal(t->row->totals[MT_CLASS_MALLOC].frees, 0);
	assert_int_equal(fixture_live_bytes(t), 24);
}

static void an_address_handed_out_again_replaces_the_block_whose_free_was_not_seen(void **state)
{
	struct mt_thread *t = fixture_thread();
	uint64_t count, bytes;
	static const size_t size[] = {24, 40, 100000, 200000};
	for (size_t i = 0; i < MT_ARRAY_LEN(size); i++) {
		take_in(t, 0x10000, size[i], SITE(1));
		fixture_count_live(&count, &bytes);
		assert_int_equal(count, 1);
		assert_int_equal(bytes, size[i]);
	}
	assert_int_equal(mt_rt.hdr->lost[MT_LOST_UNSEEN_FREE], 3);
	assert_int_equal(fixture_live_bytes(t), 200000);
}

static void filters_count_in_totals_and_keep_the_block_apart(void **state)
{
	struct mt_thread *t = fixture_thread();
	mt_rt.options.min_size = 100;
	mt_rt.options.max_size = 200;
	mt_record_set_plain();
	take_in(t, 0x10000, 99, SITE(1));
	take_in(t, 0x20000, 100, SITE(1));
	take_in(t, 0x30000, 200, SITE(1));
	take_in(t, 0x40000, 201, SITE(1));
	assert_int_equal(t->row->totals[MT_CLASS_MALLOC].allocs, 4);
	assert_int_equal(t->row->filtered_allocs, 2);
	assert_int_equal(t->row->filtered_bytes, 300);
	assert_int_equal(fixture_sum_of(SITE(1)).allocs, 2);
	fixture_free(t, 0x10000);
	fixture_free(t, 0x20000);
	assert_int_equal(t->row->totals[MT_CLASS_MALLOC].frees, 2);
	assert_int_equal(fixture_sum_of(SITE(1)).frees, 1);
	assert_int_equal(t->row->unknown_frees, 0);
}

/* --- sizes and lifetimes --------------------------------------------------------------------- */

static void histograms_sum_to_the_counts(void **state)
{
	struct mt_thread *t = fixture_thread();
	uint64_t seed = 99;
	for (uint64_t i = 0; i < 5000; i++)
		take_in(t, 0x100000 + i * 64, fixture_random(&seed) % 5000, SITE(1 + i % 3));
	for (uint64_t i = 0; i < 5000; i += 2) {
		if (i % 100 == 0)
			mt_rt.hdr->now_unit += i;
		fixture_free(t, 0x100000 + i * 64);
	}
	for (uint64_t i = 1; i < mt_rt.region[MT_REGION_CELLS]->used; i++) {
		const struct mt_state_cell *c = &mt_rt.cells[i];
		assert_int_equal(sizes(c), c->allocs);
		assert_int_equal(lifetimes(c), c->frees);
	}
}

static void one_size_needs_no_histogram(void **state)
{
	struct mt_thread *t = fixture_thread();
	for (uint64_t i = 0; i < 100; i++)
		take_in(t, 0x10000 + i * 64, 33 + i % 31, SITE(1)); /* all in bucket 6 */
	assert_int_equal(mt_rt.cells[1].hist, 0);
	assert_int_equal(mt_rt.cells[1].size_bucket, 6);
	take_in(t, 0x90000, 64, SITE(1));
	const struct mt_state_hist *hist = mt_storage_base(MT_REGION_HISTS);
	assert_int_equal(hist[mt_rt.cells[1].hist].count[6], 100);
	assert_int_equal(hist[mt_rt.cells[1].hist].count[7], 1);
}

/* --- temporaries ----------------------------------------------------------------------------- */

static void a_temporary_is_freed_before_the_next_allocation(void **state)
{
	struct mt_thread *t = fixture_thread();
	take_in(t, 0x10000, 1, SITE(1));
	fixture_free(t, 0x10000); /* temporary */
	take_in(t, 0x10000, 1, SITE(1));
	take_in(t, 0x20000, 1, SITE(2));
	fixture_free(t, 0x10000); /* another came between */
	fixture_free(t, 0x20000); /* nothing came between: temporary */
	assert_int_equal(t->row->temporaries, 2);
	assert_int_equal(fixture_sum_of(SITE(1)).temporaries, 1);
	assert_int_equal(fixture_sum_of(SITE(2)).temporaries, 1);
}

static void a_realloc_makes_no_temporary(void **state)
{
	struct mt_thread *t = fixture_thread();
	struct mt_gone gone;
	take_in(t, 0x10000, 1, SITE(1));
	assert_int_equal(mt_record_take(t, (void *)0x10000, &gone), 1);
	mt_record_gone(t, &gone, /* is_realloc */ 1);
	assert_int_equal(t->row->temporaries, 0);
	assert_int_equal(t->row->totals[MT_CLASS_MALLOC].frees, 1);
}

/* --- nested frees ---------------------------------------------------------------------------- */

static void nested_frees_leave_at_once_and_are_counted_when_the_outer_call_ends(void **state)
{
	struct mt_thread *t = fixture_thread();
	struct mt_gone gone;
	for (uint64_t i = 0; i < MT_DEFERRED_MAX + 3; i++)
		take_in(t, 0x10000 + i * 64, 10, SITE(1));
	t->depth = (uintptr_t)-1;
	for (uint64_t i = 0; i < MT_DEFERRED_MAX + 3; i++) {
		mt_record_free_nested(t, (void *)(0x10000 + i * 64));
		assert_int_equal(mt_record_take(t, (void *)(0x10000 + i * 64), &gone), 0);
	}
	assert_int_equal(t->row->totals[MT_CLASS_MALLOC].frees, 0);
	mt_leave(t);
	assert_int_equal(t->depth, 0);
	assert_int_equal(t->row->totals[MT_CLASS_MALLOC].frees, MT_DEFERRED_MAX);
	assert_int_equal(t->row->nested_frees, 3);
}

/* --- peaks in one thread --------------------------------------------------------------------- */

enum { BLOCKS = 200, SITES = 12, STEPS = 40000 };

/*
 * The oracle: every live block, and a copy of each site's live figures at the moment of the highest
 * total (the first such moment).
 */
struct oracle {
	struct {
		uint32_t size, site, live;
	} block[BLOCKS];
	int64_t bytes[SITES], count[SITES], peak_bytes[SITES], peak_count[SITES],
		peak_of_site[SITES];
	int64_t live, peak;
};

static void oracle_change(struct oracle *o, uint32_t site, int64_t bytes, int64_t count)
{
	o->live += bytes;
	o->bytes[site] += bytes;
	o->count[site] += count;
	if (o->bytes[site] > o->peak_of_site[site])
		o->peak_of_site[site] = o->bytes[site];
	if (o->live > o->peak) {
		o->peak = o->live;
		memcpy(o->peak_bytes, o->bytes, sizeof(o->bytes));
		memcpy(o->peak_count, o->count, sizeof(o->count));
	}
}

static void random_step(struct mt_thread *t, struct oracle *o, uint64_t r)
{
	uint32_t i = (uint32_t)(r % BLOCKS);
	uint64_t address = 0x500000 + i * 0x100000u;
	if (o->block[i].live) {
		fixture_free(t, address);
		oracle_change(o, o->block[i].site, -(int64_t)o->block[i].size, -1);
		o->block[i].live = 0;
		return;
	}
	o->block[i].live = 1;
	o->block[i].site = (uint32_t)(r >> 10) % SITES;
	o->block[i].size = r >> 20 & 15 ? (uint32_t)(r >> 24) % 3000 : (uint32_t)(r >> 24) % 100000;
	take_in(t, address, o->block[i].size, SITE(o->block[i].site));
	oracle_change(o, o->block[i].site, o->block[i].size, 1);
}

static void cells_at_the_peak_equal_an_oracle_over_a_random_trace(void **state)
{
	static struct oracle o;
	struct mt_thread *t = fixture_thread();
	uint64_t seed = 4711;
	memset(&o, 0, sizeof(o));
	for (int step = 0; step < STEPS; step++) {
		random_step(t, &o, fixture_random(&seed));
		assert_int_equal(mt_rt.hdr->peak_bytes, o.peak);
		if (step % 500)
			continue;
		for (uint32_t s = 0; s < SITES; s++) {
			struct fixture_sum sum = fixture_sum_of(SITE(s));
			assert_int_equal(sum.at_peak_bytes, o.peak_bytes[s]);
			assert_int_equal(sum.at_peak_count, o.peak_count[s]);
			assert_int_equal((int64_t)(sum.bytes - sum.freed_bytes), o.bytes[s]);
		}
	}
	for (uint64_t i = 1; i < mt_rt.region[MT_REGION_CELLS]->used; i++) {
		uint64_t pc = mt_rt.nodes[mt_rt.sites[mt_rt.cells[i].site].node].pc;
		assert_int_equal(mt_rt.cells[i].peak_bytes, o.peak_of_site[(pc - SITE(0)) / 16]);
	}
	assert_int_equal(t->row->peak_bytes, o.peak);
}

/* --- peaks of several threads ---------------------------------------------------------------- */

struct hold {
	uint64_t address, blocks, size;
	pthread_barrier_t *barrier;
	struct mt_thread *t;
};

static void *allocate_and_hold(void *argument)
{
	struct hold *h = argument;
	struct mt_thread *t = h->t = fixture_thread();
	for (uint64_t i = 0; i < h->blocks; i++)
		take_in(t, h->address + i * 0x10000, h->size, SITE(1));
	pthread_barrier_wait(h->barrier);
	for (uint64_t i = 0; i < h->blocks; i++)
		fixture_free(t, h->address + i * 0x10000);
	return NULL;
}

static void expect_peak_within(int64_t peak, int64_t threads)
{
	assert_true(mt_rt.hdr->peak_bytes <= peak);
	assert_true(mt_rt.hdr->peak_bytes >= peak - threads * MT_PEAK_STEP);
}

static void the_peak_of_several_threads_is_within_the_bound(void **state)
{
	enum { THREADS = 4 };
	pthread_t thread[THREADS];
	pthread_barrier_t barrier;
	struct hold hold[THREADS];
	pthread_barrier_init(&barrier, NULL, THREADS);
	for (uint64_t i = 0; i < THREADS; i++) {
		hold[i] = (struct hold){0x10000000u * (i + 1), 1000, 1000 + i, &barrier, NULL};
		pthread_create(&thread[i], NULL, allocate_and_hold, &hold[i]);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	expect_peak_within(1000 * (4000 + 6), THREADS);
	assert_true(mt_rt.hdr->notes & MT_NOTE_PEAK_BOUNDED);
	struct fixture_sum sum = fixture_sum_of(SITE(1));
	assert_int_equal(sum.cells, THREADS);
	assert_true(mt_rt.sites[1].shared);
	assert_true(mt_rt.sites[1].peak_published <= 1000 * 4006);
	assert_true(mt_rt.sites[1].peak_published >= 1000 * 4006 - THREADS * MT_PEAK_STEP);
}

/* The first thread holds its blocks and does nothing more: its bytes belong to the peak of the
 * others. */
static void an_idle_first_thread_counts_in_the_peak(void **state)
{
	struct mt_thread *t = fixture_thread();
	pthread_t thread;
	pthread_barrier_t barrier;
	for (uint64_t i = 0; i < 100; i++)
		take_in(t, 0x10000000u + i * 0x10000, 10000, SITE(2));
	pthread_barrier_init(&barrier, NULL, 1);
	struct hold hold = {0x20000000u, 100, 5000, &barrier, NULL};
	pthread_create(&thread, NULL, allocate_and_hold, &hold);
	pthread_join(thread, NULL);
	expect_peak_within(1000000 + 500000, 2);
}

/* --- records between threads ----------------------------------------------------------------- */

enum { QUEUE = 64, PASSED = 1000000 };

static struct {
	_Atomic uint64_t slot[QUEUE];
} queue;

static void *produce(void *unused)
{
	struct mt_thread *t = fixture_thread();
	for (uint64_t i = 0; i < PASSED; i++) {
		_Atomic uint64_t *slot = &queue.slot[i % QUEUE];
		while (*slot)
			mt_sys_sched_yield();
		uint64_t address = 0x10000000u + i % 5000 * 64;
		take_in(t, address, 48, SITE(1));
		*slot = address;
	}
	return NULL;
}

static void blocks_freed_by_another_thread_do_not_use_up_records(void **state)
{
	pthread_t producer;
	pthread_create(&producer, NULL, produce, NULL);
	struct mt_thread *t = fixture_thread();
	for (uint64_t i = 0; i < PASSED; i++) {
		_Atomic uint64_t *slot = &queue.slot[i % QUEUE];
		while (!*slot)
			mt_sys_sched_yield();
		fixture_free(t, *slot);
		*slot = 0;
	}
	pthread_join(producer, NULL);
	uint64_t count, bytes;
	fixture_count_live(&count, &bytes);
	assert_int_equal(count, 0);
	/* a thread keeps up to 1024 free records of its own, a batch on its way has 512 */
	assert_true(mt_rt.region[MT_REGION_LIVE]->used < 3000);
	assert_int_equal(fixture_sum_of(SITE(1)).frees, PASSED);
}

#define WITH_TABLES(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_TABLES(a_site_is_one_stack_and_one_function),
		WITH_TABLES(a_free_of_an_unknown_address_is_counted_and_nothing_else),
		WITH_TABLES(an_address_handed_out_again_replaces_the_block_whose_free_was_not_seen),
		WITH_TABLES(filters_count_in_totals_and_keep_the_block_apart),
		WITH_TABLES(histograms_sum_to_the_counts),
		WITH_TABLES(one_size_needs_no_histogram),
		WITH_TABLES(a_temporary_is_freed_before_the_next_allocation),
		WITH_TABLES(a_realloc_makes_no_temporary),
		WITH_TABLES(nested_frees_leave_at_once_and_are_counted_when_the_outer_call_ends),
		WITH_TABLES(cells_at_the_peak_equal_an_oracle_over_a_random_trace),
		WITH_TABLES(the_peak_of_several_threads_is_within_the_bound),
		WITH_TABLES(an_idle_first_thread_counts_in_the_peak),
		WITH_TABLES(blocks_freed_by_another_thread_do_not_use_up_records),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
