/* SPDX-License-Identifier: MIT */
/* Where pointers may be: on made lists of mappings, modules and threads. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/alloc.h"
#include "reach/roots.h"

enum {
	R = MT_MAPPING_READ,
	W = MT_MAPPING_WRITE,
	X = MT_MAPPING_EXEC,
	SHARED = MT_MAPPING_SHARED,
	PID = 100,
};

/* Addresses in pages of this scene. */
enum {
	PROGRAM = 0x400000, /* r-x, then rw- data of 0x1000 + 0x234 bytes, then bss */
	DATA = 0x402000,    /* segment [0x402010, 0x404234) */
	DATA_END = 0x405000,
	BRK = 0x500000,
	BRK_END = 0x521000,
	POOL = 0x700000, /* a mapping of the program's own, grown together with an arena */
	POOL_END = 0x800000,
	ARENA = 0x780000,
	TLS_AT = 0x810000, /* of the main thread */
	TLS_END = 0x813000,
	LOADER = 0x900000, /* rw- segment [0x900800, 0x901100) */
	LOADER_END = 0x902000,
	GUARD = 0xa00000,
	THREAD = 0xa01000,
	THREAD_END = 0xb00000,
	SHARED_AT = 0xc00000,
	SHARED_END = 0xc10000,
	STACK = 0xd00000,
	STACK_END = 0xd20000,
};

struct scene {
	struct mt_mapping mapping[20];
	struct mt_image_segment segment[4];
	struct mt_image_module module[4];
	struct mt_image_thread thread[2];
	struct mt_range block[4], heap[4], own[4], in_use[4];
	struct mt_roots_input in;
	struct mt_roots roots;
};

static void map(struct scene *s, uint64_t start, uint64_t end, uint32_t flags, const char *name)
{
	s->mapping[s->in.mappings++] = (struct mt_mapping){
		.start = start, .end = end, .flags = flags, .name = name, .in_image = true};
}

static void scene_init(struct scene *s)
{
	*s = (struct scene){.in = {.arch = MT_IMAGE_X86_64, .pid = PID}};
	map(s, PROGRAM, DATA, R | X, "/bin/program");
	map(s, DATA, 0x404000, R | W, "/bin/program");
	map(s, 0x404000, DATA_END, R | W, "");
	map(s, BRK, BRK_END, R | W, "[heap]");
	map(s, POOL, POOL_END, R | W, "");
	map(s, TLS_AT, TLS_END, R | W, "");
	map(s, LOADER, LOADER_END, R | W, "/lib/ld-linux-x86-64.so.2");
	map(s, GUARD, THREAD, 0, "");
	map(s, THREAD, THREAD_END, R | W, "");
	map(s, SHARED_AT, SHARED_END, R | W | SHARED, "/dev/shm/memtrack.100");
	map(s, STACK, STACK_END, R | W, "[stack]");
	s->segment[0] = (struct mt_image_segment){PROGRAM, DATA, R | X};
	s->segment[1] = (struct mt_image_segment){DATA + 0x10, 0x404234, R | W};
	s->segment[2] = (struct mt_image_segment){LOADER + 0x800, 0x901100, R | W};
	s->module[0] = (struct mt_image_module){.path = "/bin/program",
						.segments = s->segment,
						.segment_count = 2,
						.tls_bytes = 0x100,
						.is_main = true};
	s->module[1] = (struct mt_image_module){.path = "/lib/ld-linux-x86-64.so.2",
						.segments = s->segment + 2,
						.segment_count = 1,
						.is_loader = true};
	s->thread[0] = (struct mt_image_thread){
		.tid = PID, .sp = STACK_END - 0x1000, .thread_pointer = TLS_AT + 0x1800};
	s->thread[1] = (struct mt_image_thread){
		.tid = PID + 1, .sp = THREAD_END - 0x2000, .thread_pointer = THREAD_END - 0x900};
	s->in.mapping = s->mapping;
	s->in.module = s->module;
	s->in.modules = 2;
	s->in.thread = s->thread;
	s->in.threads = 2;
	s->in.block = s->block;
	s->in.heap = s->heap;
	s->in.own = s->own;
	s->in.in_use = s->in_use;
}

static void find(struct scene *s)
{
	mt_roots_done(&s->roots);
	assert_int_equal(mt_roots_find(&s->in, &s->roots), 0);
}

static bool is_root(const struct scene *s, uint64_t address)
{
	return mt_range_find(s->roots.range.item, s->roots.range.count, address) != MT_RANGE_NONE;
}

/* [start, end) is a root, and the bytes beside it are none. */
static void expect_exactly(const struct scene *s, uint64_t start, uint64_t end)
{
	for (uint64_t at = start; at < end; at += 8)
		assert_true(is_root(s, at));
	assert_true(is_root(s, end - 1));
	assert_false(is_root(s, start - 1));
	assert_false(is_root(s, end));
}

static void segments_are_taken_exactly(void **state)
{
	struct scene s;

	scene_init(&s);
	find(&s);
	expect_exactly(&s, DATA + 0x10, 0x404234);
	assert_false(is_root(&s, PROGRAM + 0x100));
	/* glibc's loader allocates early in what is left of its last page */
	expect_exactly(&s, LOADER + 0x800, LOADER_END);
	assert_int_equal(s.roots.bytes[MT_ROOTS_GLOBALS], 0x2224 + 0x1800);
	/* musl gives that to its heap */
	s.module[1].is_libc = true;
	find(&s);
	expect_exactly(&s, LOADER + 0x800, 0x901100);
	mt_roots_done(&s.roots);
}

static void stacks_are_taken_from_the_red_zone_on(void **state)
{
	struct scene s;

	scene_init(&s);
	find(&s);
	expect_exactly(&s, STACK_END - 0x1000 - 128, STACK_END);
	expect_exactly(&s, THREAD_END - 0x2000 - 128, THREAD_END);
	assert_int_equal(s.roots.bytes[MT_ROOTS_STACKS], 0x3000 + 256);
	assert_int_equal(s.roots.strange_stacks, 0);
	s.in.arch = MT_IMAGE_AARCH64;
	find(&s);
	expect_exactly(&s, STACK_END - 0x1000, STACK_END);
	mt_roots_done(&s.roots);
}

static void a_thread_on_another_stack_has_both_as_a_whole(void **state)
{
	struct scene s;

	scene_init(&s);
	s.in.is_strict = true;
	s.thread[0].sp = POOL + 0x5000;
	find(&s);
	assert_int_equal(s.roots.strange_stacks, 1);
	expect_exactly(&s, STACK, STACK_END);
	expect_exactly(&s, POOL, POOL_END);
	/* the same of a thread with a stack of its own */
	s.thread[0].sp = STACK_END - 0x1000;
	s.thread[1].sp = POOL + 0x5000;
	find(&s);
	expect_exactly(&s, THREAD, THREAD_END);
	expect_exactly(&s, POOL, POOL_END);
	mt_roots_done(&s.roots);
}

static void a_stack_without_a_guard_is_taken_as_a_whole(void **state)
{
	struct scene s;

	scene_init(&s);
	s.mapping[7].flags = R | W; /* below it lies something else */
	find(&s);
	assert_true(is_root(&s, THREAD));
	assert_int_equal(s.roots.strange_stacks, 1);
	mt_roots_done(&s.roots);
}

static void threads_on_one_mapping_do_not_hide_each_other(void **state)
{
	struct scene s;

	scene_init(&s);
	/* it runs in the part that the other one does not use */
	s.thread[0].sp = THREAD + 0x3000;
	find(&s);
	expect_exactly(&s, THREAD, THREAD_END);
	mt_roots_done(&s.roots);
}

static void a_thread_that_did_not_stop_has_its_stack_as_a_whole(void **state)
{
	struct scene s;

	scene_init(&s);
	s.thread[0] = (struct mt_image_thread){.tid = PID, .is_missing = true};
	s.thread[1] = (struct mt_image_thread){.tid = PID + 1, .is_missing = true};
	find(&s);
	assert_int_equal(s.roots.missing_threads, 2);
	expect_exactly(&s, STACK, STACK_END);
	expect_exactly(&s, THREAD, THREAD_END);
	assert_int_equal(s.roots.values, 0);
	mt_roots_done(&s.roots);
}

static void other_mappings_are_roots_unless_strict(void **state)
{
	struct scene s;

	scene_init(&s);
	find(&s);
	expect_exactly(&s, POOL, POOL_END);
	assert_true(is_root(&s, BRK));
	assert_int_equal(s.roots.bytes[MT_ROOTS_OTHER],
			 POOL_END - POOL + BRK_END - BRK +
				 (TLS_END - TLS_AT - s.roots.bytes[MT_ROOTS_TLS]));
	s.in.is_strict = true;
	find(&s);
	assert_false(is_root(&s, POOL));
	assert_false(is_root(&s, BRK));
	assert_int_equal(s.roots.bytes[MT_ROOTS_OTHER], 0);
	mt_roots_done(&s.roots);
}

static void code_that_was_made_is_a_root_of_its_own_kind(void **state)
{
	struct scene s;

	scene_init(&s);
	map(&s, 0xe00000, 0xe10000, R | W | X, "");
	map(&s, 0xe20000, 0xe30000, R | X, "[anon:jit]");
	map(&s, 0xe40000, 0xe50000, R | X | SHARED, "/memfd:doublemapper (deleted)");
	s.mapping[s.in.mappings - 1].inode = 7;
	map(&s, 0xe60000, 0xe70000, R | X, "/lib/libother.so");
	s.mapping[s.in.mappings - 1].inode = 8;
	map(&s, 0xe80000, 0xe81000, R | X, "[vdso]");
	s.own[0] = (struct mt_range){0xe28000, 0xe30000};
	s.in.owns = 1;
	find(&s);
	assert_int_equal(s.roots.code.count, 3);
	assert_int_equal(s.roots.code.item[0].start, 0xe00000);
	assert_int_equal(s.roots.code.item[1].end, 0xe28000);
	assert_int_equal(s.roots.code.item[2].start, 0xe40000);
	assert_int_equal(s.roots.bytes[MT_ROOTS_CODE], 0x10000 + 0x8000 + 0x10000);
	assert_false(is_root(&s, 0xe00000)); /* once is enough */
	s.in.is_strict = true;
	find(&s);
	assert_int_equal(s.roots.code.count, 0);
	mt_roots_done(&s.roots);
}

static void the_heap_is_no_root_where_mappings_have_grown_together(void **state)
{
	struct scene s;

	scene_init(&s);
	s.heap[0] = (struct mt_range){BRK, BRK_END};
	s.heap[1] = (struct mt_range){ARENA, POOL_END};
	s.in.heaps = 2;
	s.block[0] = (struct mt_range){BRK + 0x20, BRK + 0x60};
	s.block[1] = (struct mt_range){POOL + 0x100, POOL + 0x200};
	s.in.blocks = 2;
	/* in use, and in no table */
	s.in_use[0] = (struct mt_range){BRK + 0x80, BRK + 0xa0};
	s.in.in_uses = 1;
	find(&s);
	expect_exactly(&s, POOL, POOL + 0x100);
	expect_exactly(&s, POOL + 0x200, ARENA);
	expect_exactly(&s, BRK + 0x80, BRK + 0xa0);
	assert_false(is_root(&s, BRK + 0x20));
	assert_int_equal(s.roots.bytes[MT_ROOTS_HEAP], 0x20);
	mt_roots_done(&s.roots);
}

static void blocks_in_the_slack_of_a_segment_are_no_roots(void **state)
{
	struct scene s;

	scene_init(&s);
	/* musl's small blocks lie behind .bss; one in the segment would be no root either */
	s.block[0] = (struct mt_range){0x404240, 0x4042a4};
	s.in.blocks = 1;
	find(&s);
	expect_exactly(&s, DATA + 0x10, 0x404234);
	assert_false(is_root(&s, 0x404250));
	mt_roots_done(&s.roots);
}

static void what_is_the_trackers_is_no_root(void **state)
{
	struct scene s;

	scene_init(&s);
	s.module[0].path = "/usr/lib/libmemtrack.so.1";
	s.own[0] = (struct mt_range){POOL, POOL + 0x1000};
	s.in.owns = 1;
	find(&s);
	assert_false(is_root(&s, DATA + 0x10));
	assert_false(is_root(&s, POOL));
	assert_true(is_root(&s, POOL + 0x1000));
	mt_roots_done(&s.roots);
}

static void shared_memory_is_a_root_only_when_it_has_no_file(void **state)
{
	struct scene s;

	scene_init(&s);
	find(&s);
	assert_false(is_root(&s, SHARED_AT));
	s.mapping[9].name = "/dev/zero (deleted)";
	find(&s);
	expect_exactly(&s, SHARED_AT, SHARED_END);
	s.mapping[9].flags = R | SHARED;
	find(&s);
	assert_false(is_root(&s, SHARED_AT));
	mt_roots_done(&s.roots);
}

static void what_cannot_be_read_is_no_root(void **state)
{
	struct scene s;

	scene_init(&s);
	s.mapping[4].flags = W;
	s.mapping[10].in_image = false;
	find(&s);
	assert_false(is_root(&s, POOL));
	assert_false(is_root(&s, STACK_END - 8));
	mt_roots_done(&s.roots);
}

static void thread_local_memory_is_a_root_when_strict_too(void **state)
{
	struct scene s;
	uint64_t tp = TLS_AT + 0x1800;

	scene_init(&s);
	s.in.is_strict = true;
	find(&s);
	expect_exactly(&s, tp - 0x1100, tp + 0x1000);
	s.in.arch = MT_IMAGE_AARCH64;
	find(&s);
	expect_exactly(&s, tp - 0x1000, tp + 0x1100);
	mt_roots_done(&s.roots);
}

static void all_registers_are_values(void **state)
{
	struct scene s;
	uint64_t vector = 0x123456789;

	scene_init(&s);
	s.thread[0].registers[0] = 11;
	s.thread[0].registers[1] = 22;
	s.thread[0].register_count = 2;
	memcpy(s.thread[1].vector + 8, &vector, sizeof(vector));
	s.thread[1].vector_bytes = 16;
	find(&s);
	assert_int_equal(s.roots.values, 4);
	assert_int_equal(s.roots.value[0], 11);
	assert_int_equal(s.roots.value[1], 22);
	assert_int_equal(s.roots.value[3], vector);
	mt_roots_done(&s.roots);
}

static void every_allocation_may_fail(void **state)
{
	struct scene s;
	size_t needed;

	scene_init(&s);
	s.in_use[0] = (struct mt_range){BRK, BRK + 8};
	s.in.in_uses = 1;
	mt_alloc_fail_from_for_test(0);
	find(&s);
	needed = mt_alloc_fail_from_for_test(0);
	mt_roots_done(&s.roots);
	for (size_t n = 1; n <= needed; n++) {
		mt_alloc_fail_from_for_test(n);
		assert_true(mt_roots_find(&s.in, &s.roots) < 0);
	}
	mt_alloc_fail_from_for_test(0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(segments_are_taken_exactly),
		cmocka_unit_test(stacks_are_taken_from_the_red_zone_on),
		cmocka_unit_test(a_thread_on_another_stack_has_both_as_a_whole),
		cmocka_unit_test(a_stack_without_a_guard_is_taken_as_a_whole),
		cmocka_unit_test(threads_on_one_mapping_do_not_hide_each_other),
		cmocka_unit_test(a_thread_that_did_not_stop_has_its_stack_as_a_whole),
		cmocka_unit_test(other_mappings_are_roots_unless_strict),
		cmocka_unit_test(code_that_was_made_is_a_root_of_its_own_kind),
		cmocka_unit_test(the_heap_is_no_root_where_mappings_have_grown_together),
		cmocka_unit_test(blocks_in_the_slack_of_a_segment_are_no_roots),
		cmocka_unit_test(what_is_the_trackers_is_no_root),
		cmocka_unit_test(shared_memory_is_a_root_only_when_it_has_no_file),
		cmocka_unit_test(what_cannot_be_read_is_no_root),
		cmocka_unit_test(thread_local_memory_is_a_root_when_strict_too),
		cmocka_unit_test(all_registers_are_values),
		cmocka_unit_test(every_allocation_may_fail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
