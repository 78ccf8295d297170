/* SPDX-License-Identifier: MIT */
/* From plain facts to the verdict, its sentence and the next command. */
#include "analysis/triage.h"
#include "report/triage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MIB = 1 << 20, KIB = 1 << 10 };
#define SECOND_NS 1000000000ull

/* A process of 40 MiB, watched for four seconds, in which nothing happens. */
static struct mt_triage_facts quiet(void)
{
	struct mt_triage_facts f = {
		.pid = 4711,
		.name = "server",
		.command = "./server --port=80",
		.watched_ns = 4 * SECOND_NS,
		.readings = 5,
		.threads_before = 2,
		.threads_now = 2,
		.descriptors = MT_TRIAGE_DONE,
		.descriptors_before = 9,
		.descriptors_now = 9,
	};

	for (size_t i = 0; i < f.readings; i++) {
		f.at_ns[i] = i * SECOND_NS;
		f.part[MT_TRIAGE_HEAP].bytes[i] = 20 * MIB;
		f.part[MT_TRIAGE_ANON].bytes[i] = 10 * MIB;
		f.part[MT_TRIAGE_FILES].bytes[i] = 10 * MIB;
	}
	return f;
}

/* Grows by `step` between two readings. */
static void grow(struct mt_triage_facts *f, enum mt_triage_part part, uint64_t step)
{
	for (size_t i = 0; i < f->readings; i++)
		f->part[part].bytes[i] += i * step;
}

/* The allocator holds and has live so much, and had so in the middle. */
static void ask(struct mt_triage_facts *f, uint64_t held, uint64_t live, uint64_t before_held,
		uint64_t before_live)
{
	f->heap = (struct mt_triage_heap){
		.step = MT_TRIAGE_DONE,
		.allocator = "glibc 2.36",
		.held_bytes = held,
		.live_bytes = live,
		.live_blocks = live / 100,
		.has_before = true,
		.before_held_bytes = before_held,
		.before_live_bytes = before_live,
		.before_live_blocks = before_live / 100,
		.stop_ns = 3000000,
		.is_copy = true,
	};
}

static void reach(struct mt_triage_facts *f, uint64_t lost, uint64_t reachable)
{
	f->reach = (struct mt_triage_reach){
		.step = MT_TRIAGE_DONE,
		.lost_bytes = lost,
		.lost_blocks = lost / 100,
		.direct_blocks = lost / 100,
		.reachable_bytes = reachable,
		.reachable_blocks = reachable / 100,
	};
}

static enum mt_triage_verdict verdict_of(const struct mt_triage_facts *f)
{
	struct mt_triage_judgement j;

	mt_triage_judge(f, &j);
	return j.verdict;
}

#define assert_verdict(f, wanted) \
	assert_string_equal(mt_triage_verdict_key(verdict_of(f)), mt_triage_verdict_key(wanted))

static void assert_text_has(const struct mt_triage_facts *f, const char *part)
{
	mt_auto(mt_buf) struct mt_buf out = {0};

	assert_int_equal(mt_triage_text(f, &out), 0);
	if (!strstr(mt_buf_text(&out), part))
		fail_msg("no '%s' in: %s", part, mt_buf_text(&out));
}

/* The last two lines of the text. */
static void assert_says(const struct mt_triage_facts *f, const char *verdict, const char *next)
{
	mt_auto(mt_buf) struct mt_buf out = {0};
	const char *at;

	assert_int_equal(mt_triage_text(f, &out), 0);
	at = strstr(mt_buf_text(&out), "\nverdict: ");
	assert_non_null(at);
	if (!strstr(at, verdict) || !strstr(at, next))
		fail_msg("no '%s' and '%s' in: %s", verdict, next, at);
}

/* What could be reached and what was lost in the middle of the watch. */
static void reach_before(struct mt_triage_facts *f, uint64_t lost, uint64_t reachable)
{
	f->reach.has_before = true;
	f->reach.before_lost_bytes = lost;
	f->reach.before_lost_blocks = lost / 100;
	f->reach.before_reachable_bytes = reachable;
}

/* ---- pace ---- */

static void growth_is_told_from_chance(void **state)
{
	struct mt_triage_facts f = quiet();

	assert_int_equal(mt_triage_least_bytes(&f), 40 * MIB / 256);
	grow(&f, MT_TRIAGE_HEAP, 39 * KIB); /* 156 KiB in all */
	assert_int_equal(mt_triage_pace(&f, MT_TRIAGE_HEAP), MT_TRIAGE_FLAT);
	grow(&f, MT_TRIAGE_HEAP, 4 * KIB);
	assert_int_equal(mt_triage_pace(&f, MT_TRIAGE_HEAP), MT_TRIAGE_KEEPS);
	assert_int_equal(mt_triage_growth(&f, MT_TRIAGE_HEAP), 172 * KIB);
}

static void pace_tells_steady_growth_steps_and_standing_still(void **state)
{
	static const struct {
		uint64_t mib[5];
		enum mt_triage_pace pace;
	} cases[] = {
		{{0, 2, 4, 6, 8}, MT_TRIAGE_KEEPS},    {{0, 0, 4, 6, 8}, MT_TRIAGE_KEEPS},
		{{0, 8, 8, 8, 8}, MT_TRIAGE_LEVELLED}, {{0, 4, 8, 8, 8}, MT_TRIAGE_LEVELLED},
		{{0, 0, 0, 0, 8}, MT_TRIAGE_STEPS},    {{0, 0, 0, 8, 8}, MT_TRIAGE_STEPS},
		{{8, 6, 4, 2, 0}, MT_TRIAGE_SHRINKS},  {{8, 20, 4, 9, 8}, MT_TRIAGE_FLAT},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct mt_triage_facts f = quiet();

		for (size_t k = 0; k < 5; k++)
			f.part[MT_TRIAGE_SHARED].bytes[k] = cases[i].mib[k] * MIB;
		if (mt_triage_pace(&f, MT_TRIAGE_SHARED) != cases[i].pace)
			fail_msg("case %zu: pace %d", i, (int)mt_triage_pace(&f, MT_TRIAGE_SHARED));
	}
}

static void an_old_leak_is_told_from_what_grows_beside_it(void **state)
{
	struct mt_triage_facts f = quiet();

	grow(&f, MT_TRIAGE_HEAP, 2 * MIB);
	ask(&f, 60 * MIB, 59 * MIB, 56 * MIB, 55 * MIB);
	reach(&f, 30 * MIB, 29 * MIB);
	assert_verdict(&f, MT_VERDICT_LOST); /* for all that is known */
	reach_before(&f, 30 * MIB, 25 * MIB);
	assert_verdict(&f, MT_VERDICT_LIVE);
	assert_says(&f,
		    "30.0 MiB in 314,572 blocks are lost, a leak that does not grow like this "
		    "('memtrack leaks 4711')",
		    "next:    memtrack run --mode=sample");
	assert_text_has(&f, "in the last half: lost 0 B, reachable +4.0 MiB");
	reach_before(&f, 26 * MIB, 29 * MIB);
	assert_verdict(&f, MT_VERDICT_LOST);
	reach_before(&f, 29 * MIB, 26 * MIB); /* a fourth of it is lost */
	assert_verdict(&f, MT_VERDICT_LOST);
	reach_before(&f, 30 * MIB - 100 * KIB, 25 * MIB);
	assert_verdict(&f, MT_VERDICT_LIVE);
	/* all growth was in the first half: nothing to compare */
	reach_before(&f, 30 * MIB, 29 * MIB);
	assert_verdict(&f, MT_VERDICT_LOST);
	/* a small one is not worth a word */
	reach(&f, 500 * KIB, 29 * MIB);
	reach_before(&f, 500 * KIB, 25 * MIB);
	assert_verdict(&f, MT_VERDICT_LIVE);
	{
		struct mt_triage_judgement j;

		mt_triage_judge(&f, &j);
		assert_false(mt_triage_has_old_loss(&f, &j));
	}
}

static void three_readings_tell_no_standing_still(void **state)
{
	struct mt_triage_facts f = quiet();

	f.readings = 3;
	f.part[MT_TRIAGE_SHARED].bytes[1] = f.part[MT_TRIAGE_SHARED].bytes[2] = 8 * MIB;
	assert_int_equal(mt_triage_pace(&f, MT_TRIAGE_SHARED), MT_TRIAGE_KEEPS);
}

/* ---- what is asked for ---- */

static void the_allocator_is_asked_only_when_something_hints_at_it(void **state)
{
	struct mt_triage_facts f = quiet();

	assert_true(mt_triage_wants_heap(&f)); /* 20 of 40 MiB */
	for (size_t i = 0; i < f.readings; i++)
		f.part[MT_TRIAGE_HEAP].bytes[i] = 2 * MIB;
	assert_false(mt_triage_wants_heap(&f));
	grow(&f, MT_TRIAGE_FILES, MIB);
	assert_false(mt_triage_wants_heap(&f));
	grow(&f, MT_TRIAGE_ANON, MIB);
	assert_true(mt_triage_wants_heap(&f));
	f.is_refused = true;
	assert_false(mt_triage_wants_heap(&f));
	f = quiet();
	f.part[MT_TRIAGE_HEAP] = (struct mt_triage_amount){.mappings_now = 1};
	assert_false(mt_triage_wants_heap(&f));
	f.tracker = (struct mt_triage_tracker){.step = MT_TRIAGE_DONE, .live_bytes = MIB};
	assert_true(mt_triage_wants_heap(&f));
}

/* ---- verdicts ---- */

static void nothing_is_steady(void **state)
{
	struct mt_triage_facts f = quiet();

	assert_verdict(&f, MT_VERDICT_STEADY);
	assert_says(&f, "steady: nothing grew by 160 KiB or more in 4.0 s",
		    "memtrack triage 4711 --for=40s");
	ask(&f, 20 * MIB, 19 * MIB, 20 * MIB, 19 * MIB);
	reach(&f, 0, 19 * MIB);
	assert_verdict(&f, MT_VERDICT_STEADY);
	assert_says(&f, "and no block is lost", "--for=40s");
}

static void lost_blocks_are_a_leak_whether_it_grows_or_not(void **state)
{
	struct mt_triage_facts f = quiet();

	grow(&f, MT_TRIAGE_HEAP, MIB);
	ask(&f, 24 * MIB, 23 * MIB, 22 * MIB, 21 * MIB);
	reach(&f, 4 * MIB, 19 * MIB);
	assert_verdict(&f, MT_VERDICT_LOST);
	assert_says(&f, "leak: the native heap grew by 4.0 MiB in 4.0 s, and 4.0 MiB in 41,943",
		    "memtrack leaks 4711");
	f = quiet();
	ask(&f, 20 * MIB, 19 * MIB, 20 * MIB, 19 * MIB);
	reach(&f, 4 * MIB, 15 * MIB);
	assert_verdict(&f, MT_VERDICT_LOST);
	assert_says(&f, "leak: nothing grows now, but 4.0 MiB", "memtrack leaks 4711");
	reach(&f, 100 * KIB, 18 * MIB); /* every program loses some */
	assert_verdict(&f, MT_VERDICT_STEADY);
}

static void growth_of_what_can_be_reached_is_no_leak(void **state)
{
	struct mt_triage_facts f = quiet();

	grow(&f, MT_TRIAGE_HEAP, MIB);
	ask(&f, 24 * MIB, 23 * MIB, 22 * MIB, 21 * MIB);
	reach(&f, 10 * KIB, 23 * MIB);
	assert_verdict(&f, MT_VERDICT_LIVE);
	assert_says(&f, "the program still points to them",
		    "memtrack run --mode=sample -- ./server --port=80");
	f.reach.step = MT_TRIAGE_REFUSED;
	assert_verdict(&f, MT_VERDICT_LIVE_UNKNOWN);
	assert_says(&f, "whether the program still points to them is not known", "");
}

static void a_tracked_process_names_the_call_site(void **state)
{
	struct mt_triage_facts f = quiet();

	grow(&f, MT_TRIAGE_HEAP, MIB);
	ask(&f, 24 * MIB, 23 * MIB, 22 * MIB, 21 * MIB);
	reach(&f, 0, 23 * MIB);
	f.tracker = (struct mt_triage_tracker){
		.step = MT_TRIAGE_DONE,
		.mode = "full",
		.has_sites = true,
		.live_before_bytes = 20 * MIB,
		.live_bytes = 24 * MIB,
		.sites = 1,
	};
	f.tracker.site[0] = (struct mt_triage_site){
		.name = "add_row  table.c:12, malloc",
		.growth_bytes = 4 * MIB,
		.growth_blocks = 4,
		.live_bytes = 8 * MIB,
		.live_blocks = 8,
	};
	assert_verdict(&f, MT_VERDICT_LIVE);
	assert_text_has(&f, "+4.0 MiB  add_row  table.c:12, malloc (8.0 MiB live in 8 blocks)");
	assert_says(&f, "most by 'add_row  table.c:12, malloc' (+4.0 MiB)",
		    "memtrack report 4711 --show=live");
	f.tracker.has_sites = false;
	assert_says(&f, "", "memtrack ctl 4711 on mode=sample");
}

static void live_blocks_grow_inside_a_heap_that_does_not(void **state)
{
	struct mt_triage_facts f = quiet();

	ask(&f, 20 * MIB, 18 * MIB, 20 * MIB, 14 * MIB);
	reach(&f, 0, 18 * MIB);
	assert_verdict(&f, MT_VERDICT_LIVE);
	assert_says(&f, "the mappings do not grow, but live blocks inside the heap do", "");
}

static void what_is_held_and_not_live_is_fragmentation(void **state)
{
	struct mt_triage_facts f = quiet();

	ask(&f, 20 * MIB, 4 * MIB, 20 * MIB, 4 * MIB);
	reach(&f, 0, 4 * MIB);
	assert_verdict(&f, MT_VERDICT_FRAGMENTED);
	assert_says(&f,
		    "fragmentation: nothing grows, but of 20.0 MiB that the allocator holds "
		    "only 4.0 MiB are live blocks",
		    "memtrack allocators 4711");
	grow(&f, MT_TRIAGE_HEAP, 2 * MIB);
	ask(&f, 28 * MIB, 4 * MIB, 24 * MIB, 4 * MIB);
	assert_verdict(&f, MT_VERDICT_FRAGMENTED);
	/* most is free, but what grows is live */
	ask(&f, 28 * MIB, 10 * MIB, 24 * MIB, 6 * MIB);
	assert_verdict(&f, MT_VERDICT_LIVE);
}

static void a_heap_that_cannot_be_asked_is_told_as_such(void **state)
{
	struct mt_triage_facts f = quiet();

	grow(&f, MT_TRIAGE_HEAP, MIB);
	f.heap.step = f.reach.step = MT_TRIAGE_REFUSED;
	snprintf(f.heap.why, sizeof(f.heap.why), "malloc is that of scudo");
	assert_verdict(&f, MT_VERDICT_HEAP);
	assert_says(&f, "with what, the allocator could not be asked", "memtrack run");
	f.tracker = (struct mt_triage_tracker){
		.step = MT_TRIAGE_DONE, .live_before_bytes = MIB, .live_bytes = 5 * MIB};
	assert_verdict(&f, MT_VERDICT_LIVE_UNKNOWN);
}

static void anonymous_memory_is_the_allocators_the_programs_or_of_the_vm(void **state)
{
	struct mt_triage_facts f = quiet();

	grow(&f, MT_TRIAGE_ANON, MIB);
	f.part[MT_TRIAGE_ANON].mappings_now = 40;
	ask(&f, 20 * MIB, 19 * MIB, 20 * MIB, 19 * MIB);
	reach(&f, 0, 19 * MIB);
	assert_verdict(&f, MT_VERDICT_ANON);
	assert_says(&f,
		    "other anonymous memory grew by 4.0 MiB in 4.0 s, with 40 more mappings; it "
		    "is not the allocator's",
		    "memtrack run --mode=sample");
	f.has_java = true;
	assert_verdict(&f, MT_VERDICT_ANON);
	assert_says(&f, "neither the Java heap nor the allocator's", "");
	snprintf(f.why_no_java, sizeof(f.why_no_java), "it has not made its heap yet");
	assert_verdict(&f, MT_VERDICT_ANON_JAVA);
	assert_says(&f, "only the VM can tell", "jcmd 4711 GC.heap_info");
	f.has_java = false;
	f.heap.step = MT_TRIAGE_REFUSED;
	assert_verdict(&f, MT_VERDICT_ANON_UNKNOWN);
	/* jemalloc: its memory has no name, but it says what it holds */
	f.part[MT_TRIAGE_HEAP] = (struct mt_triage_amount){.mappings_now = 0};
	ask(&f, 24 * MIB, 23 * MIB, 22 * MIB, 21 * MIB);
	assert_verdict(&f, MT_VERDICT_LIVE);
}

static void each_other_part_has_its_verdict(void **state)
{
	static const struct {
		enum mt_triage_part part;
		enum mt_triage_verdict verdict;
		const char *says, *next;
	} cases[] = {
		{MT_TRIAGE_JAVA, MT_VERDICT_JAVA, "until the VM collects them", "jcmd 4711"},
		{MT_TRIAGE_STACKS, MT_VERDICT_STACKS, "no thread more", "memtrack maps 4711"},
		{MT_TRIAGE_SHARED, MT_VERDICT_SHARED, "shared memory grew", "memtrack maps 4711"},
		{MT_TRIAGE_FILES, MT_VERDICT_FILES, "mapped files grew", "memtrack maps 4711"},
		{MT_TRIAGE_CODE, MT_VERDICT_CODE, "code made at run time grew", "memtrack maps"},
		{MT_TRIAGE_DEVICES, MT_VERDICT_DEVICES, "mapped devices grew", "memtrack meminfo"},
		{MT_TRIAGE_GPU, MT_VERDICT_DEVICES, "GPU buffers grew", "memtrack meminfo 4711"},
		{MT_TRIAGE_TRACKER, MT_VERDICT_TRACKER, "memtrack itself grew", "memtrack ctl"},
		{MT_TRIAGE_BUFFERS, MT_VERDICT_BUFFERS, "behind open descriptors", "/proc/4711/fd"},
		{MT_TRIAGE_PAGE_TABLES, MT_VERDICT_PAGE_TABLES, "page tables grew", "maps 4711"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct mt_triage_facts f = quiet();

		grow(&f, cases[i].part, MIB);
		assert_verdict(&f, cases[i].verdict);
		assert_says(&f, cases[i].says, cases[i].next);
	}
}

static void memory_files_that_are_mapped_are_buffers_behind_descriptors(void **state)
{
	struct mt_triage_facts f = quiet();

	grow(&f, MT_TRIAGE_SHARED, MIB);
	grow(&f, MT_TRIAGE_BUFFERS, MIB);
	f.buffers_now = 4;
	snprintf(f.buffer, sizeof(f.buffer), "/memfd:frame (deleted)");
	assert_verdict(&f, MT_VERDICT_BUFFERS);
	assert_says(&f, "in 4 more files; the largest is '/memfd:frame (deleted)'", "");
}

static void threads_are_counted(void **state)
{
	struct mt_triage_facts f = quiet();

	grow(&f, MT_TRIAGE_STACKS, MIB);
	f.threads_now = 30;
	assert_verdict(&f, MT_VERDICT_STACKS);
	assert_says(&f, "threads: 28 more than at first (30 now), and their stacks grew by 4.0 MiB",
		    "");
}

static void descriptors_and_addresses_grow_without_memory(void **state)
{
	struct mt_triage_facts f = quiet();

	f.part[MT_TRIAGE_ANON].mappings_now = 100;
	assert_verdict(&f, MT_VERDICT_MAPPINGS);
	f.descriptors_now = 30;
	assert_verdict(&f, MT_VERDICT_DESCRIPTORS);
	assert_says(&f, "21 more are open than at first (30 now)", "ls -l /proc/4711/fd");
}

static void what_filled_and_stays_is_levelled(void **state)
{
	struct mt_triage_facts f = quiet();

	for (size_t i = 1; i < f.readings; i++)
		f.part[MT_TRIAGE_HEAP].bytes[i] += 8 * MIB;
	ask(&f, 28 * MIB, 27 * MIB, 28 * MIB, 27 * MIB);
	reach(&f, 0, 27 * MIB);
	assert_verdict(&f, MT_VERDICT_LEVELLED);
	assert_says(&f, "levelled off: native heap grew by 8.0 MiB at first",
		    "memtrack triage 4711 --for=40s");
}

static void what_goes_on_counts_before_what_stands_still(void **state)
{
	struct mt_triage_facts f = quiet();

	for (size_t i = 1; i < f.readings; i++)
		f.part[MT_TRIAGE_HEAP].bytes[i] += 8 * MIB;
	grow(&f, MT_TRIAGE_STACKS, MIB);
	assert_verdict(&f, MT_VERDICT_STACKS);
}

static void shrinking_is_no_growth(void **state)
{
	struct mt_triage_facts f = quiet();

	f.part[MT_TRIAGE_ANON].bytes[4] = MIB;
	assert_verdict(&f, MT_VERDICT_SHRINKS);
	assert_says(&f, "gave back 9.0 MiB", "");
}

static void damage_comes_before_all_else(void **state)
{
	struct mt_triage_facts f = quiet();

	grow(&f, MT_TRIAGE_HEAP, MIB);
	ask(&f, 24 * MIB, 23 * MIB, 22 * MIB, 21 * MIB);
	reach(&f, 4 * MIB, 19 * MIB);
	f.heap.passing_damages = 1;
	assert_verdict(&f, MT_VERDICT_LOST);
	f.heap.damages = 2;
	assert_verdict(&f, MT_VERDICT_DAMAGED);
	assert_says(&f, "do not agree in 2 places",
		    "memtrack run --mode=check -- ./server --port=80");
	f.heap.damages = 0;
	f.tracker = (struct mt_triage_tracker){.step = MT_TRIAGE_DONE, .errors = 1};
	assert_verdict(&f, MT_VERDICT_DAMAGED);
	assert_says(&f, "1 memory error was recorded", "memtrack report 4711 --show=errors");
}

static void what_cannot_be_known_is_said(void **state)
{
	struct mt_triage_facts f = quiet();

	f.is_refused = true;
	snprintf(f.why_refused, sizeof(f.why_refused), "that takes root");
	assert_verdict(&f, MT_VERDICT_REFUSED);
	assert_says(&f, "no sum of the process grew; more cannot be known: that takes root",
		    "sudo memtrack triage 4711");
	assert_text_has(&f, "not known whether it is tracked");
	assert_text_has(&f, "limits: none is known");
	f.has_ended = true;
	f.readings = 2;
	assert_verdict(&f, MT_VERDICT_ENDED);
	f.command[0] = 0;
	assert_says(&f, "the process ended after 4.0 s",
		    "memtrack run --mode=full -- PROGRAM ARGUMENTS");
}

/* ---- limits ---- */

static void the_nearest_limit_is_in_the_sentence(void **state)
{
	struct mt_triage_facts f = quiet();

	f.limits = 3;
	f.limit[0] = (struct mt_triage_limit){"locked memory", false, 0, 0, 0};
	f.limit[1] = (struct mt_triage_limit){"mappings", true, 100, 200, 65530};
	f.limit[2] = (struct mt_triage_limit){"descriptors", true, 850, 900, 1000};
	assert_false(mt_triage_is_near(&f.limit[0]));
	assert_ptr_equal(mt_triage_nearest(&f), &f.limit[2]);
	assert_int_equal(mt_triage_reached_ns(&f, &f.limit[2]), 8 * SECOND_NS);
	assert_int_equal(mt_triage_reached_ns(&f, &f.limit[0]), 0);
	assert_says(&f, "; 90.0 % of the limit on descriptors are used", "");
}

/* ---- JSON ---- */

static void no_fact_can_break_the_json(void **state)
{
	struct mt_triage_facts f = quiet();
	mt_auto(mt_buf) struct mt_buf out = {0};

	snprintf(f.name, sizeof(f.name), "a\"b\\c\n\x80");
	snprintf(f.buffer, sizeof(f.buffer), "%s", f.name);
	assert_int_equal(mt_triage_json(&f, &out), 0);
	assert_non_null(strstr(mt_buf_text(&out), "\"schema\": \"" MT_TRIAGE_SCHEMA "\""));
	assert_non_null(strstr(mt_buf_text(&out), "\"verdict\": \"steady\""));
	assert_null(strchr(mt_buf_text(&out), '\x80'));
	f = (struct mt_triage_facts){.has_ended = true}; /* not even one reading */
	assert_int_equal(mt_triage_json(&f, &out), 0);
	assert_int_equal(mt_triage_text(&f, &out), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(growth_is_told_from_chance),
		cmocka_unit_test(pace_tells_steady_growth_steps_and_standing_still),
		cmocka_unit_test(three_readings_tell_no_standing_still),
		cmocka_unit_test(an_old_leak_is_told_from_what_grows_beside_it),
		cmocka_unit_test(the_allocator_is_asked_only_when_something_hints_at_it),
		cmocka_unit_test(nothing_is_steady),
		cmocka_unit_test(lost_blocks_are_a_leak_whether_it_grows_or_not),
		cmocka_unit_test(growth_of_what_can_be_reached_is_no_leak),
		cmocka_unit_test(a_tracked_process_names_the_call_site),
		cmocka_unit_test(live_blocks_grow_inside_a_heap_that_does_not),
		cmocka_unit_test(what_is_held_and_not_live_is_fragmentation),
		cmocka_unit_test(a_heap_that_cannot_be_asked_is_told_as_such),
		cmocka_unit_test(anonymous_memory_is_the_allocators_the_programs_or_of_the_vm),
		cmocka_unit_test(each_other_part_has_its_verdict),
		cmocka_unit_test(memory_files_that_are_mapped_are_buffers_behind_descriptors),
		cmocka_unit_test(threads_are_counted),
		cmocka_unit_test(descriptors_and_addresses_grow_without_memory),
		cmocka_unit_test(what_filled_and_stays_is_levelled),
		cmocka_unit_test(what_goes_on_counts_before_what_stands_still),
		cmocka_unit_test(shrinking_is_no_growth),
		cmocka_unit_test(damage_comes_before_all_else),
		cmocka_unit_test(what_cannot_be_known_is_said),
		cmocka_unit_test(the_nearest_limit_is_in_the_sentence),
		cmocka_unit_test(no_fact_can_break_the_json),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
