/* SPDX-License-Identifier: MIT */
/* Requests of a controller, and what becomes of them. */
#include "fixture.h"

#include <stdio.h>
#include <string.h>

#include "core/sys.h"
#include "runtime/index.h"
#include "runtime/lock.h"

#define SITE(n) fixture_address(1, 16 * (n) + 1)

static size_t usable_size(const void *p)
{
	return 64;
}

static int begin_sample(void **state)
{
	mt_original[MT_FAMILY_PLAIN].malloc_usable_size = usable_size;
	return fixture_begin(
		&(struct fixture_config){.mode = MT_MODE_SAMPLE, .interval_bytes = 4096});
}

static int begin(void **state)
{
	int err = fixture_begin(&(struct fixture_config){0});
	mt_original[MT_FAMILY_PLAIN].malloc_usable_size = usable_size;
	return err;
}

/* Whose samples come at the same places each time. */
static struct mt_thread *steady_thread(void)
{
	struct mt_thread *t = fixture_thread();
	t->random = 0x9e3779b97f4a7c15u;
	return t;
}

static void take_in(struct mt_thread *t, uint64_t address, uintptr_t site)
{
	struct mt_caller caller = fixture_caller(site);
	t->depth = 1;
	mt_finish_alloc(t, (void *)address, 50, MT_CALL_MALLOC, &caller, 0);
}

/* What a controller does; the thread takes it over at its next event. control_error. */
static uint32_t ask(struct mt_thread *t, const char *text)
{
	snprintf(mt_storage_base(MT_REGION_REQUEST), MT_REQUEST_BYTES, "%s", text);
	uint32_t word = __atomic_add_fetch(&mt_rt.hdr->control, 2, __ATOMIC_SEQ_CST);
	take_in(t, 0x5000000, SITE(9));
	fixture_free(t, 0x5000000);
	assert_int_equal(mt_rt.hdr->control_done >> 1, word >> 1);
	return mt_rt.hdr->control_error;
}

static const struct mt_state_change *last_change(void)
{
	const struct mt_state_change *all = mt_storage_base(MT_REGION_CHANGES);
	return &all[mt_rt.region[MT_REGION_CHANGES]->used - 1];
}

static void a_request_changes_the_mode(void **state)
{
	struct mt_thread *t = steady_thread();
	take_in(t, 0x10000, SITE(1));
	assert_int_equal(mt_rt.hdr->mode, MT_MODE_FULL);
	assert_int_equal(ask(t, "mode=sample interval=64K"), 0);
	assert_int_equal(mt_rt.hdr->mode, MT_MODE_SAMPLE);
	assert_int_equal(mt_rt.hdr->interval_bytes, 65536);
	assert_int_equal(t->light, 1);
	assert_int_equal(ask(t, "mode=stats"), 0);
	assert_int_equal(mt_rt.hdr->mode, MT_MODE_STATS);
	assert_int_equal(mt_rt.hdr->interval_bytes, 0);
	assert_int_equal(last_change()->what, MT_CHANGE_MODE);
	assert_int_equal(last_change()->before, MT_MODE_SAMPLE);
	assert_int_equal(last_change()->after, MT_MODE_STATS);
	assert_int_equal(ask(t, "mode=full"), 0);
	assert_int_equal(t->light, 0);
	fixture_free(t, 0x10000);
	assert_int_equal(fixture_sum_of(SITE(1)).frees, 1);
	assert_int_equal(mt_rt.hdr->first_mode, MT_MODE_FULL);
}

static const char *const bad[] = {
	"mode=some",
	"interval=0",
	"interval=2T",
	"every=0",
	"mode=stats jump",
	"modules=libc.so",
	"mode=stats depth=3",
	"label=%zz",
	"reset-peak=1",
	"intervals=5:1",
	"intervals=9-5:1K",
	"intervals=custom",
	"intervals=0-1:1,2-3:1,4-5:1,6-7:1,8-9:1",
	"mode",
	"interval=1K mode=",
};

static void what_is_not_understood_is_refused_as_a_whole(void **state)
{
	struct mt_thread *t = steady_thread();
	for (size_t i = 0; i < MT_ARRAY_LEN(bad); i++) {
		if (ask(t, bad[i]) != MT_EINVAL)
			fail_msg("'%s' was not refused", bad[i]);
		assert_int_equal(mt_rt.hdr->mode, MT_MODE_FULL);
		assert_int_equal(last_change()->what, MT_CHANGE_REFUSED);
		assert_string_equal((const char *)mt_storage_base(MT_REGION_STRINGS) +
					    last_change()->after,
				    bad[i]);
	}
	assert_int_equal(ask(t, ""), 0);
}

static void a_text_without_end_is_cut(void **state)
{
	struct mt_thread *t = steady_thread();
	take_in(t, 0x10000, SITE(1));
	memset(mt_storage_base(MT_REGION_REQUEST), 'x', MT_REQUEST_BYTES);
	__atomic_add_fetch(&mt_rt.hdr->control, 2, __ATOMIC_SEQ_CST);
	take_in(t, 0x20000, SITE(1));
	assert_int_equal(mt_rt.hdr->control_error, MT_EINVAL);
}

static void recording_is_switched_off_and_on(void **state)
{
	struct mt_thread *t = steady_thread();
	take_in(t, 0x10000, SITE(1));
	assert_int_equal(ask(t, "off"), 0);
	assert_int_equal(mt_rt.hdr->control & 1, 0);
	take_in(t, 0x20000, SITE(1));
	fixture_free(t, 0x10000);
	assert_int_equal(fixture_sum_of(SITE(1)).allocs, 1);
	assert_int_equal(fixture_sum_of(SITE(1)).frees, 1);
	assert_int_equal(last_change()->what, MT_CHANGE_SWITCH);
	assert_int_equal(ask(t, "on"), 0);
	take_in(t, 0x30000, SITE(1));
	assert_int_equal(fixture_sum_of(SITE(1)).allocs, 2);
	/* by the bit alone, as the program itself does it */
	__atomic_fetch_and(&mt_rt.hdr->control, ~1u, __ATOMIC_SEQ_CST);
	take_in(t, 0x40000, SITE(1));
	assert_int_equal(fixture_sum_of(SITE(1)).allocs, 2);
	assert_int_equal(mt_rt.hdr->notes & MT_NOTE_STATS_GAP, 0);
}

static void counting_that_was_off_leaves_a_note(void **state)
{
	struct mt_thread *t = steady_thread();
	assert_int_equal(ask(t, "mode=stats"), 0);
	assert_int_equal(ask(t, "off"), 0);
	assert_int_equal(mt_rt.hdr->notes & MT_NOTE_STATS_GAP, MT_NOTE_STATS_GAP);
	uint64_t before = t->stats->size_class[7].allocs;
	take_in(t, 0x20000, SITE(1));
	assert_int_equal(t->stats->size_class[7].allocs, before);
}

static void a_label_is_for_threads_without_one(void **state)
{
	struct mt_thread *t = steady_thread();
	const struct mt_state_label *label = mt_storage_base(MT_REGION_LABELS);
	const char *strings = mt_storage_base(MT_REGION_STRINGS);
	assert_int_equal(ask(t, "label=phase%202"), 0);
	take_in(t, 0x10000, SITE(1));
	uint32_t number = mt_rt.sites[mt_rt.region[MT_REGION_SITES]->used - 1].label;
	assert_string_equal(strings + label[number].name_string, "phase 2");
	t->own_label = 1;
	t->tag = 0;
	assert_int_equal(ask(t, "label=other"), 0);
	assert_int_equal(t->tag >> 32, 0);
	t->own_label = 0;
	assert_int_equal(ask(t, "label="), 0);
	assert_int_equal(t->tag >> 32, 0);
}

static void peaks_are_set_back(void **state)
{
	struct mt_thread *t = steady_thread();
	for (uint64_t i = 0; i < 100; i++)
		take_in(t, 0x10000 + i * 64, SITE(1));
	for (uint64_t i = 0; i < 90; i++)
		fixture_free(t, 0x10000 + i * 64);
	assert_true(mt_rt.hdr->peak_bytes >= 5000);
	assert_int_equal(ask(t, "reset-peak"), 0);
	assert_in_range(mt_rt.hdr->peak_bytes, 500, 550);
	assert_int_equal(mt_rt.hdr->peak_resets, 1);
	assert_int_equal(last_change()->what, MT_CHANGE_PEAK_RESET);
	assert_in_range(last_change()->before, 5000, 5050);
	assert_in_range(last_change()->after, 500, 550);
	assert_in_range(fixture_sum_of(SITE(1)).at_peak_bytes, 500, 550);
	for (uint64_t i = 0; i < 50; i++)
		take_in(t, 0x20000 + i * 64, SITE(1));
	assert_in_range(mt_rt.hdr->peak_bytes, 3000, 3050);
}

/* The fixture's modules have no names: see run_modes.py for the filter at work. */
static void a_module_filter_that_names_nothing_leaves_all_out(void **state)
{
	struct mt_thread *t = steady_thread();
	take_in(t, 0x10000, SITE(1));
	assert_int_equal(ask(t, "modules=+libnone*"), 0);
	take_in(t, 0x20000, SITE(1));
	assert_int_equal(fixture_sum_of(SITE(1)).allocs, 1);
	assert_in_range(t->row->filtered_allocs, 1, 2);
	assert_int_equal(ask(t, "modules=-libnone*"), 0);
	take_in(t, 0x30000, SITE(1));
	assert_int_equal(fixture_sum_of(SITE(1)).allocs, 2);
	fixture_free(t, 0x20000);
	assert_int_equal(t->row->unknown_frees, 0);
}

static void a_request_that_names_no_interval_keeps_what_a_rail_made_of_it(void **state)
{
	struct mt_thread *t = steady_thread();
	assert_int_equal(ask(t, "mode=sample interval=4K"), 0);
	mt_rt.options.max_cpu_percent = 1;
	uint64_t now = 1000000;
	for (int i = 0; i < 128; i++, now += 1000) /* half of the time */
		mt_control_rails(t, 500, now);
	assert_int_equal(mt_rt.hdr->interval_bytes, 8192);
	assert_int_equal(last_change()->what, MT_CHANGE_CPU_RAIL);
	assert_int_equal(last_change()->before, 4096);
	assert_int_equal(ask(t, "reset-peak"), 0);
	assert_int_equal(mt_rt.hdr->interval_bytes, 8192);
	assert_int_equal(ask(t, "interval=2K"), 0);
	assert_int_equal(mt_rt.hdr->interval_bytes, 2048);
}

/* Of the tables, as the rail sees it while no page map was made. */
static uint64_t in_use(void)
{
	return mt_rt.hdr->committed_bytes + mt_rt.table_bytes - mt_index_untouched();
}

static void memory_near_its_bound_doubles_the_interval(void **state)
{
	struct mt_thread *t = steady_thread();
	assert_int_equal(ask(t, "mode=sample interval=4K"), 0);
	uint64_t begun = mt_rt.policy.memory_base, room = 4 << 20;
	mt_rt.hdr->max_bytes = begun + room;
	mt_control_rails(t, 0, 1); /* what was there before does not count */
	assert_int_equal(mt_rt.hdr->interval_bytes, 4096);
	take_in(t, 0x10000, SITE(1));
	mt_rt.table_bytes += begun + room / 4 - in_use();
	mt_control_rails(t, 0, 2);
	assert_int_equal(mt_rt.hdr->interval_bytes, 4096);
	mt_rt.table_bytes += 4096;
	mt_control_rails(t, 0, 3);
	assert_int_equal(mt_rt.hdr->interval_bytes, 8192);
	assert_int_equal(last_change()->what, MT_CHANGE_MEMORY_RAIL);
	mt_control_take(t);
	mt_control_rails(t, 0, 4); /* not again before a quarter of what is left is used */
	assert_int_equal(mt_rt.hdr->interval_bytes, 8192);
	mt_rt.table_bytes += room * 3 / 16;
	mt_control_rails(t, 0, 5);
	assert_int_equal(mt_rt.hdr->interval_bytes, 16384);
}

static void intervals_of_sizes_and_heaps_are_doubled_as_well(void **state)
{
	struct mt_thread *t = steady_thread();
	assert_int_equal(ask(t, "mode=sample interval=4K intervals=100-200:1K,custom:512"), 0);
	mt_control_take(t);
	assert_int_equal(t->points[0].of.interval_bytes, 1024);
	mt_rt.hdr->max_bytes = in_use() + (4 << 20);
	mt_rt.table_bytes += 5 << 18;
	mt_control_rails(t, 0, 1);
	mt_control_take(t);
	assert_int_equal(mt_rt.hdr->interval_bytes, 8192);
	assert_int_equal(t->points[0].of.interval_bytes, 2048);
	assert_int_equal(t->points[MT_RANGES_MAX].of.interval_bytes, 1024);
	const struct mt_state_regime *all = mt_storage_base(MT_REGION_REGIMES);
	assert_int_equal(all[t->points[0].regime].interval_bytes, 2048);
	assert_int_equal(ask(t, "interval=2K"), 0);
	mt_control_take(t);
	assert_int_equal(t->points[0].of.interval_bytes, 1024);
}

static void call_stacks_near_their_share_double_the_interval(void **state)
{
	struct mt_thread *t = steady_thread();
	assert_int_equal(ask(t, "mode=sample interval=4K"), 0);
	mt_rt.hdr->max_bytes = mt_storage_stacks() * 4;
	mt_rt.policy.memory_base = 0;
	mt_rt.table_bytes = 0;
	mt_rt.policy.memory_base = in_use(); /* nothing else came */
	mt_control_rails(t, 0, 1);
	assert_int_equal(mt_rt.hdr->interval_bytes, 8192);
}

/* Always recorded, and not large. */
static void take_sample(struct mt_thread *t, uint64_t address)
{
	struct mt_caller caller = fixture_caller(SITE(1));
	t->depth = 1;
	mt_finish_alloc(t, (void *)address, 20000, MT_CALL_MALLOC, &caller, 0);
}

static void page_map_that_is_not_touched_doubles_nothing(void **state)
{
	enum { LEAF_SPAN = 1 << MT_INDEX_LEAF_BITS, LEAVES = 4, LEAF_BYTES = 1 << 20 };
	uint64_t base = 0x100000000;
	struct mt_thread *t = steady_thread();
	assert_int_equal(ask(t, "mode=sample interval=4K"), 0);
	/* the map may have a quarter, which is more than what doubles */
	mt_rt.hdr->max_bytes = in_use() + (LEAVES + 1) * LEAF_BYTES * 4;
	for (uint64_t i = 0; i < LEAVES; i++)
		take_sample(t, base + i * LEAF_SPAN);
	assert_true(mt_rt.table_bytes >= LEAVES * LEAF_BYTES);
	assert_int_equal(mt_rt.hdr->interval_bytes, 4096);
	/* one in each page of the map, which is a third now, until the interval is longer */
	mt_rt.hdr->max_bytes = mt_rt.policy.memory_base + LEAVES * LEAF_BYTES * 3;
	for (uint64_t page = 0; page < LEAVES * LEAF_BYTES / 4096; page++)
		take_sample(t, base + page * (LEAF_SPAN / (LEAF_BYTES / 4096)) + 16);
	assert_true(mt_rt.hdr->interval_bytes > 4096);
	assert_int_equal(last_change()->what, MT_CHANGE_MEMORY_RAIL);
	assert_true(mt_index_untouched() < LEAVES * LEAF_BYTES / 2);
}

static void page_map_of_samples_keeps_to_a_quarter_of_the_bound(void **state)
{
	enum { LEAF_SPAN = 1 << MT_INDEX_LEAF_BITS, LEAF_BYTES = 1 << 20, LEAVES = 64 };
	uint64_t base = 0x100000000;
	struct mt_gone gone;
	struct mt_thread *t = steady_thread();
	assert_int_equal(ask(t, "mode=sample interval=4K"), 0);
	mt_rt.recorded_all = 0;
	mt_rt.hdr->max_bytes = in_use() + 8 * LEAF_BYTES;
	for (uint64_t i = 0; i < LEAVES; i++)
		take_sample(t, base + i * LEAF_SPAN);
	assert_true(mt_rt.map_bytes <= mt_rt.hdr->max_bytes / 4);
	assert_int_equal(t->stats->no_block, 0);
	for (uint64_t i = 0; i < LEAVES; i++) /* the others are in the hash */
		assert_int_equal(mt_record_find((void *)(base + i * LEAF_SPAN), &gone), 1);
}

static void page_map_of_a_full_mode_counts_whole(void **state)
{
	struct mt_thread *t = steady_thread();
	assert_int_equal(ask(t, "mode=sample interval=4K"), 0);
	take_sample(t, 0x100000000);
	assert_int_equal(mt_index_untouched(), 0); /* the fixture began in full mode */
	mt_rt.recorded_all = 0;
	assert_true(mt_index_untouched() >= (1 << 20) - 4096);
}

static void the_log_is_bounded(void **state)
{
	struct mt_thread *t = steady_thread();
	for (int i = 0; i < MT_CHANGES_MAX; i++)
		assert_int_equal(ask(t, i % 2 ? "mode=full" : "mode=stats"), 0);
	assert_true(mt_rt.region[MT_REGION_CHANGES]->refused > 0);
	assert_int_equal(mt_rt.hdr->mode, MT_MODE_FULL);
}

static void more_intervals_than_regimes_are_refused(void **state)
{
	struct mt_thread *t = steady_thread();
	char text[64];
	for (int i = 1; i < MT_REGIMES_MAX; i++) {
		snprintf(text, sizeof(text), "mode=sample interval=%d", 1000 + i);
		assert_int_equal(ask(t, text), 0);
	}
	assert_int_equal(ask(t, "interval=77"), MT_ENOSPC);
	assert_int_equal(mt_rt.hdr->interval_bytes, 1000 + MT_REGIMES_MAX - 1);
	assert_int_equal(ask(t, "interval=1001"), 0);
}

/* As memtrack_control() does it. */
static int ask_own(struct mt_thread *t, const char *text)
{
	t->depth = 1;
	int err = mt_control_ask(t, text);
	t->depth = 0;
	return err;
}

static void the_program_itself_is_obeyed_at_once(void **state)
{
	struct mt_thread *t = steady_thread();
	take_in(t, 0x10000, SITE(1));
	uint32_t word = mt_rt.hdr->control;
	assert_int_equal(ask_own(t, "mode=sample interval=64K off label=a"), 0);
	assert_int_equal(mt_rt.hdr->mode, MT_MODE_SAMPLE);
	assert_int_equal(mt_rt.hdr->interval_bytes, 65536);
	assert_int_equal(mt_rt.hdr->control, word & ~1u);
	assert_int_equal(mt_rt.hdr->control_done, mt_rt.hdr->control);
	assert_int_equal(last_change()->what, MT_CHANGE_SWITCH);
	assert_int_equal(t->light, 1);
	assert_int_equal(mt_control_changed(t), 0);
	assert_int_equal(ask_own(t, "on intervals=100-200:1K every=3"), 0);
	assert_int_equal(mt_rt.hdr->control, word);
	assert_int_equal(mt_rt.hdr->every, 3);
	assert_int_equal(ask_own(t, "mode=full reset-peak modules=-libnone*"), 0);
	assert_int_equal(mt_rt.hdr->peak_resets, 1);
	assert_int_equal(t->light, 0);
}

static void the_program_itself_is_refused_like_others(void **state)
{
	struct mt_thread *t = steady_thread();
	char text[MT_REQUEST_BYTES + 1];
	for (size_t i = 0; i < MT_ARRAY_LEN(bad); i++) {
		if (ask_own(t, bad[i]) != -MT_EINVAL)
			fail_msg("'%s' was not refused", bad[i]);
		assert_int_equal(mt_rt.hdr->mode, MT_MODE_FULL);
		assert_int_equal(last_change()->what, MT_CHANGE_REFUSED);
	}
	memset(text, ' ', sizeof(text));
	text[MT_REQUEST_BYTES] = 0;
	assert_int_equal(ask_own(t, text), -MT_EINVAL);
	text[MT_REQUEST_BYTES - 1] = 0;
	assert_int_equal(ask_own(t, text), 0);
	mt_rt.control_lock = mt_lock_owner();
	assert_int_equal(ask_own(t, "mode=stats"), -MT_EBUSY);
	mt_rt.control_lock = 0;
	assert_int_equal(mt_rt.hdr->mode, MT_MODE_FULL);
}

static void a_request_from_outside_goes_before_the_programs_own(void **state)
{
	struct mt_thread *t = steady_thread();
	take_in(t, 0x10000, SITE(1));
	snprintf(mt_storage_base(MT_REGION_REQUEST), MT_REQUEST_BYTES, "mode=sample every=5");
	uint32_t word = __atomic_add_fetch(&mt_rt.hdr->control, 2, __ATOMIC_SEQ_CST);
	assert_int_equal(ask_own(t, "every=9"), 0);
	assert_int_equal(mt_rt.hdr->control_done, word);
	assert_int_equal(mt_rt.hdr->control_error, 0);
	assert_int_equal(mt_rt.hdr->mode, MT_MODE_SAMPLE);
	assert_int_equal(mt_rt.hdr->every, 9);
}

static void sampling_for_a_while_goes_back_to_what_was_before(void **state)
{
	struct mt_thread *t = steady_thread();
	struct mt_sampling before;
	assert_int_equal(ask_own(t, "mode=sample every=7 intervals=10-20:2K,custom:3K off"), 0);
	assert_int_equal(mt_control_sample(t, 4096, &before), 0);
	assert_int_equal(mt_rt.hdr->interval_bytes, 4096);
	assert_int_equal(mt_rt.hdr->every, 0);
	assert_int_equal(mt_rt.policy.wishes.range_count, 0);
	assert_int_equal(mt_rt.policy.wishes.custom_interval_bytes, 0);
	assert_int_equal(mt_rt.hdr->control & 1, 1);
	assert_int_equal(ask_own(t, "label=meanwhile"), 0);
	assert_int_equal(mt_control_sample_end(t, &before), 0);
	assert_int_equal(mt_rt.hdr->every, 7);
	assert_int_equal(mt_rt.policy.wishes.range_count, 1);
	assert_int_equal(mt_rt.policy.wishes.range[0].interval_bytes, 2048);
	assert_int_equal(mt_rt.policy.wishes.custom_interval_bytes, 3072);
	assert_int_equal(mt_rt.hdr->control & 1, 0);
	assert_string_equal(mt_rt.policy.wishes.label, "meanwhile");
}

static void what_is_asked_for_during_sampling_stays(void **state)
{
	static const char *const words[] = {"mode=stats", "mode=sample interval=1K",
					    "mode=sample every=4", "mode=sample intervals=1-2:1K"};
	for (size_t i = 0; i < MT_ARRAY_LEN(words); i++) {
		struct mt_thread *t = steady_thread();
		struct mt_sampling before;
		assert_int_equal(ask_own(t, "mode=full"), 0);
		assert_int_equal(mt_control_sample(t, 4096, &before), 0);
		assert_int_equal(ask_own(t, words[i]), 0);
		assert_int_equal(mt_control_sample_end(t, &before), 0);
		assert_int_not_equal(mt_rt.hdr->mode, MT_MODE_FULL);
		assert_int_equal(ask_own(t, "mode=full every=1 interval=512K"), 0);
		mt_rt.policy.wishes.every = mt_rt.policy.wishes.range_count = 0;
	}
}

static void refusals_beyond_the_log_keep_no_text(void **state)
{
	struct mt_thread *t = steady_thread();
	for (int i = 0; i < MT_CHANGES_MAX; i++)
		assert_int_equal(ask_own(t, "jump"), -MT_EINVAL);
	uint64_t used = mt_rt.region[MT_REGION_STRINGS]->used;
	assert_int_equal(ask_own(t, "jump"), -MT_EINVAL);
	assert_int_equal(mt_rt.region[MT_REGION_STRINGS]->used, used);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_request_changes_the_mode),
		TEST(what_is_not_understood_is_refused_as_a_whole),
		TEST(a_text_without_end_is_cut),
		TEST(recording_is_switched_off_and_on),
		TEST(counting_that_was_off_leaves_a_note),
		TEST(a_label_is_for_threads_without_one),
		TEST(peaks_are_set_back),
		TEST(a_module_filter_that_names_nothing_leaves_all_out),
		TEST(a_request_that_names_no_interval_keeps_what_a_rail_made_of_it),
		TEST(memory_near_its_bound_doubles_the_interval),
		TEST(page_map_of_samples_keeps_to_a_quarter_of_the_bound),
		TEST(call_stacks_near_their_share_double_the_interval),
		TEST(intervals_of_sizes_and_heaps_are_doubled_as_well),
		TEST(page_map_of_a_full_mode_counts_whole),
		cmocka_unit_test_setup_teardown(page_map_that_is_not_touched_doubles_nothing,
						begin_sample, fixture_teardown),
		TEST(the_log_is_bounded),
		TEST(more_intervals_than_regimes_are_refused),
		TEST(the_program_itself_is_obeyed_at_once),
		TEST(the_program_itself_is_refused_like_others),
		TEST(a_request_from_outside_goes_before_the_programs_own),
		TEST(sampling_for_a_while_goes_back_to_what_was_before),
		TEST(what_is_asked_for_during_sampling_stays),
		TEST(refusals_beyond_the_log_keep_no_text),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
