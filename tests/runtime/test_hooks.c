/* SPDX-License-Identifier: MIT */
/* The hooks over an allocator that does what the test says. */
#include "fixture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/names.h"
#include "runtime/provider.h"

void *MT_HOOK(malloc)(size_t size);
void *MT_HOOK(calloc)(size_t n, size_t each);
void *MT_HOOK(realloc)(void *old, size_t size);
void *MT_HOOK(reallocarray)(void *old, size_t n, size_t each);
void MT_HOOK(free)(void *p);
int MT_HOOK(posix_memalign)(void **out, size_t align, size_t size);
void *MT_HOOK(memalign)(size_t align, size_t size);

/* What the allocator behind the hooks answers, and what it was asked. */
static struct {
	void *answer;
	size_t size;
	int calls;
	int nests;           /* calloc asks our malloc for its block, as musl's does */
	int seen_while_gone; /* realloc: was the old block out of the tables during the call? */
} fake;

static int is_known(void *p)
{
	struct mt_gone gone = {0};
	if (!mt_record_take(mt_thread_self(), p, &gone))
		return 0;
	mt_record_restore(mt_thread_self(), p, &gone);
	return 1;
}

static void *fake_malloc(size_t size)
{
	fake.calls++;
	fake.size = size;
	return fake.answer;
}

static void fake_free(void *p)
{
	fake.calls++;
	if (is_known(p))
		fake.calls += 100; /* recorded too late: another thread may have got the address */
}

static void *fake_calloc(size_t n, size_t each)
{
	fake.calls++;
	return fake.nests ? MT_HOOK(malloc)(n * each) : fake.answer;
}

static void *fake_realloc(void *old, size_t size)
{
	fake.calls++;
	fake.size = size;
	fake.seen_while_gone = old && !is_known(old);
	return fake.answer;
}

static void *fake_reallocarray(void *old, size_t n, size_t each)
{
	size_t size;
	return mt_mul_size(n, each, &size) ? NULL : fake_realloc(old, size);
}

static int fake_posix_memalign(void **out, size_t align, size_t size)
{
	if (!fake.answer)
		return ENOMEM;
	*out = fake.answer;
	return 0;
}

static int setup(void **state)
{
	memset(&fake, 0, sizeof(fake));
	mt_original[MT_FAMILY_PLAIN] = (struct mt_originals){.malloc = fake_malloc,
							     .free = fake_free,
							     .calloc = fake_calloc,
							     .realloc = fake_realloc,
							     .reallocarray = fake_reallocarray,
							     .posix_memalign = fake_posix_memalign};
	return fixture_setup(state);
}

static void *give(uint64_t address)
{
	return fake.answer = (void *)address;
}

static const struct mt_state_totals *totals(void)
{
	return &fixture_thread()->row->totals[MT_CLASS_MALLOC];
}

static void expect_live(uint64_t count, uint64_t bytes)
{
	uint64_t have_count, have_bytes;
	fixture_count_live(&have_count, &have_bytes);
	assert_int_equal(have_count, count);
	assert_int_equal(have_bytes, bytes);
	assert_int_equal(fixture_live_bytes(fixture_thread()), bytes);
	assert_int_equal(fixture_thread()->depth, 0);
}

static void blocks_are_recorded_with_the_size_that_was_asked_for(void **state)
{
	give(0x10000);
	assert_ptr_equal(MT_HOOK(malloc)(24), fake.answer);
	give(0x20000);
	assert_ptr_equal(MT_HOOK(calloc)(7, 11), fake.answer);
	expect_live(2, 101);
	assert_int_equal(totals()->allocs, 2);
}

static void a_free_is_recorded_before_the_real_one(void **state)
{
	void *p = give(0x10000);
	MT_HOOK(malloc)(24);
	fake.calls = 0;
	MT_HOOK(free)(p);
	assert_int_equal(fake.calls, 1);
	expect_live(0, 0);
}

static void freeing_null_asks_the_allocator_and_counts_nothing(void **state)
{
	give(0x10000);
	MT_HOOK(malloc)(1);
	MT_HOOK(free)(NULL);
	assert_int_equal(totals()->frees, 0);
	assert_int_equal(fixture_thread()->row->unknown_frees, 0);
}

static void a_failed_allocation_counts_as_failed_only(void **state)
{
	void *p = NULL;
	assert_null(MT_HOOK(malloc)(24));
	assert_null(MT_HOOK(calloc)(SIZE_MAX, 2));
	assert_int_equal(MT_HOOK(posix_memalign)(&p, 64, 100), ENOMEM);
	assert_int_equal(fixture_thread()->row->failed_allocs, 3);
	expect_live(0, 0);
}

static void a_failed_realloc_keeps_the_block(void **state)
{
	void *p = give(0x10000);
	MT_HOOK(malloc)(24);
	give(0);
	assert_null(MT_HOOK(realloc)(p, SIZE_MAX / 2));
	assert_true(fake.seen_while_gone);
	expect_live(1, 24);
	assert_int_equal(totals()->frees, 0);
	assert_int_equal(totals()->allocs, 1);
	assert_int_equal(fixture_thread()->row->failed_allocs, 1);
	assert_null(MT_HOOK(reallocarray)(p, SIZE_MAX, 2));
	expect_live(1, 24);
	MT_HOOK(free)(p);
	expect_live(0, 0);
}

static void a_failed_realloc_of_a_large_block_keeps_it(void **state)
{
	void *p = give(0x7f0000000000u);
	MT_HOOK(malloc)(1 << 20);
	give(0);
	assert_null(MT_HOOK(realloc)(p, SIZE_MAX / 2));
	expect_live(1, 1 << 20);
}

static void a_realloc_is_a_free_and_an_allocation(void **state)
{
	void *p = give(0x10000);
	MT_HOOK(malloc)(24);
	p = give(0x20000);
	assert_ptr_equal(MT_HOOK(realloc)((void *)0x10000, 48), p);
	expect_live(1, 48);
	assert_ptr_equal(MT_HOOK(realloc)(p, 40), p); /* in place */
	expect_live(1, 40);
	assert_ptr_equal(MT_HOOK(realloc)(p, 50000), p); /* to the other table and back */
	expect_live(1, 50000);
	assert_ptr_equal(MT_HOOK(realloc)(p, 4), p);
	expect_live(1, 4);
	const struct mt_state_thread *row = fixture_thread()->row;
	assert_int_equal(row->reallocs, 4);
	assert_int_equal(row->realloc_grown, 2);
	assert_int_equal(totals()->allocs, 5);
	assert_int_equal(totals()->frees, 4);
	assert_int_equal(row->temporaries, 0);
}

static void a_realloc_of_null_is_an_allocation_and_one_to_nothing_a_free(void **state)
{
	void *p = give(0x10000);
	MT_HOOK(realloc)(NULL, 24);
	assert_int_equal(fixture_thread()->row->reallocs, 0);
	expect_live(1, 24);
	give(0);
	assert_null(MT_HOOK(realloc)(p, 0));
	expect_live(0, 0);
	assert_int_equal(fixture_thread()->row->failed_allocs, 0);
	assert_int_equal(totals()->frees, 1);
}

static void a_realloc_of_an_unknown_block_is_recorded_from_now_on(void **state)
{
	give(0x20000);
	MT_HOOK(realloc)((void *)0x999000, 48);
	expect_live(1, 48);
	assert_int_equal(fixture_thread()->row->unknown_frees, 1);
}

static void an_allocator_that_calls_itself_through_us_is_counted_once(void **state)
{
	fake.nests = 1;
	give(0x10000);
	assert_ptr_equal(MT_HOOK(calloc)(2, 12), fake.answer);
	expect_live(1, 24);
	assert_int_equal(totals()->allocs, 1);
	assert_int_equal(fixture_thread()->row->nested_allocs, 0);
}

static void a_nested_allocation_that_stays_is_counted_as_not_recorded(void **state)
{
	struct mt_thread *t = fixture_thread();
	give(0x10000);
	t->depth = (uintptr_t)-1;
	assert_ptr_equal(MT_HOOK(malloc)(24), fake.answer);
	mt_leave(t);
	assert_int_equal(t->row->nested_allocs, 1);
	assert_int_equal(totals()->allocs, 0);
}

static void errno_is_left_alone(void **state)
{
	void *p = give(0x10000);
	errno = 77;
	MT_HOOK(malloc)(24);
	MT_HOOK(free)(p);
	assert_int_equal(errno, 77);
}

static void nothing_is_recorded_while_the_switch_is_off(void **state)
{
	void *p = give(0x10000);
	MT_HOOK(malloc)(24);
	mt_rt.hdr->control = 0;
	give(0x20000);
	MT_HOOK(malloc)(48);
	expect_live(1, 24);
	MT_HOOK(free)(p); /* frees are recorded all the same */
	expect_live(0, 0);
}

static void an_original_that_is_missing_means_no_memory(void **state)
{
	errno = 0;
	assert_null(MT_HOOK(memalign)(64, 100));
	assert_int_equal(errno, ENOMEM);
	expect_live(0, 0);
}

#define WITH_FAKE(test) cmocka_unit_test_setup_teardown(test, setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_FAKE(blocks_are_recorded_with_the_size_that_was_asked_for),
		WITH_FAKE(a_free_is_recorded_before_the_real_one),
		WITH_FAKE(freeing_null_asks_the_allocator_and_counts_nothing),
		WITH_FAKE(a_failed_allocation_counts_as_failed_only),
		WITH_FAKE(a_failed_realloc_keeps_the_block),
		WITH_FAKE(a_failed_realloc_of_a_large_block_keeps_it),
		WITH_FAKE(a_realloc_is_a_free_and_an_allocation),
		WITH_FAKE(a_realloc_of_null_is_an_allocation_and_one_to_nothing_a_free),
		WITH_FAKE(a_realloc_of_an_unknown_block_is_recorded_from_now_on),
		WITH_FAKE(an_allocator_that_calls_itself_through_us_is_counted_once),
		WITH_FAKE(a_nested_allocation_that_stays_is_counted_as_not_recorded),
		WITH_FAKE(errno_is_left_alone),
		WITH_FAKE(nothing_is_recorded_while_the_switch_is_off),
		WITH_FAKE(an_original_that_is_missing_means_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
