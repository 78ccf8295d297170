/* SPDX-License-Identifier: MIT */
/* Time units to nanoseconds. */
#include "fixture.h"

#include "formats/mtk_time.h"

static struct mt_state_header calibrated(uint64_t ticks, uint64_t ns, uint32_t shift)
{
	return (struct mt_state_header){
		.tick_start = 1000,
		.mono_start_ns = 500,
		.tick_mark = 1000 + ticks,
		.mono_mark_ns = 500 + ns,
		.unit_shift = shift,
	};
}

static void pair_gives_the_rate(void **state)
{
	struct mt_mtk_time t;
	struct mt_state_header h = calibrated(3000000000u, 1000000000u, 21); /* 3 GHz */
	mt_mtk_time_init(&t, &h, /* own_machine */ false);
	assert_false(t.estimated);
	assert_int_equal(t.mark_ns, 1000000000u);
	assert_int_equal(mt_profile_clock_ns(&t.clock, 0), 0);
	assert_int_equal(mt_profile_clock_ns(&t.clock, 1), 2097152 / 3);
	assert_int_equal(mt_profile_clock_ns(&t.clock, 3000), 2097152000);
	assert_int_equal(mt_profile_clock_ns(&t.clock, 3000),
			 2097152000); /* once more, remembered */
}

static void values_that_do_not_fit_stay_at_the_end(void **state)
{
	struct mt_mtk_time t;
	struct mt_state_header h = calibrated(1000000, 1000000000u, 40);
	mt_mtk_time_init(&t, &h, false);
	assert_int_equal(mt_profile_clock_ns(&t.clock, UINT64_MAX), UINT64_MAX);
	assert_int_equal(mt_profile_clock_ns(&t.clock, 1ull << 30), UINT64_MAX);
}

static void impossible_pairs_and_shifts_are_not_used(void **state)
{
	struct mt_mtk_time t;
	struct mt_state_header slow = calibrated(10, 1000000000u, 21);
	struct mt_state_header fast = calibrated(1000000000000u, 1000, 21);
	struct mt_state_header shift = calibrated(1000000, 1000000, 200);
	mt_mtk_time_init(&t, &slow, false);
	assert_true(t.estimated && t.damaged);
	mt_mtk_time_init(&t, &fast, false);
	assert_true(t.estimated && t.damaged);
	mt_mtk_time_init(&t, &shift, false);
	assert_true(t.damaged);
	assert_int_equal(t.clock.unit_shift, 21);
}

static void without_pair_a_unit_is_taken_for_a_millisecond(void **state)
{
	struct mt_mtk_time t;
	struct mt_state_header h = {.unit_shift = 14};
	mt_mtk_time_init(&t, &h, false);
	assert_true(t.estimated);
	assert_false(t.damaged);
	assert_int_equal(mt_profile_clock_ns(&t.clock, 7), 7000000);
}

static void low_halves_are_continued_around_the_newest_time(void **state)
{
	struct mt_mtk_time t = {.clock.now_unit = 0x500000010};
	assert_int_equal(mt_profile_clock_expand(&t.clock, 0x10), 0x500000010);
	assert_int_equal(mt_profile_clock_expand(&t.clock, 0x0f), 0x50000000f);
	assert_int_equal(mt_profile_clock_expand(&t.clock, 0xffffffff), 0x4ffffffff);
	assert_int_equal(mt_profile_clock_expand(&t.clock, 0x10 + MT_PROFILE_AHEAD_UNITS),
			 0x500000010 + MT_PROFILE_AHEAD_UNITS);
	assert_int_equal(mt_profile_clock_expand(&t.clock, 0x11 + MT_PROFILE_AHEAD_UNITS),
			 0x400000011 + MT_PROFILE_AHEAD_UNITS);
}

static void time_before_the_start_is_the_start(void **state)
{
	struct mt_mtk_time t = {.clock.now_unit = 100};
	assert_int_equal(mt_profile_clock_expand(&t.clock, 0xf0000000), 0);
	t.clock.now_unit = UINT64_MAX;
	assert_int_equal(mt_profile_clock_expand(&t.clock, 5), UINT64_MAX - UINT32_MAX + 5);
}

static void files_of_another_boot_or_architecture_are_not_ours(void **state)
{
	struct mt_state_header h = {.arch = MT_ARCH_X86_64};
	assert_false(mt_mtk_time_is_own(&h)); /* boot unknown */
	make_ours(&h);
	assert_true(mt_mtk_time_is_own(&h));
	h.boot_id[3] ^= 1;
	assert_false(mt_mtk_time_is_own(&h));
	h.boot_id[3] ^= 1;
	h.arch = 77;
	assert_false(mt_mtk_time_is_own(&h));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pair_gives_the_rate),
		cmocka_unit_test(values_that_do_not_fit_stay_at_the_end),
		cmocka_unit_test(impossible_pairs_and_shifts_are_not_used),
		cmocka_unit_test(without_pair_a_unit_is_taken_for_a_millisecond),
		cmocka_unit_test(low_halves_are_continued_around_the_newest_time),
		cmocka_unit_test(time_before_the_start_is_the_start),
		cmocka_unit_test(files_of_another_boot_or_architecture_are_not_ours),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
