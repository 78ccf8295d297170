/* SPDX-License-Identifier: MIT */
/* Which pages are there: the same by both ways of the kernel, and as they were touched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "target/pagemap.h"

#define PAGE ((uint64_t)4096)
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

static const enum mt_pagemap_way ways[] = {MT_PAGEMAP_BEST, MT_PAGEMAP_WORDS};

static char *map(uint64_t bytes)
{
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	madvise(p, bytes, MADV_NOHUGEPAGE);
	return p;
}

/* Calls must find exactly the pages of `touched`, of which there are `count`, in order. */
static void check(const char *p, uint64_t bytes, const uint64_t *touched, size_t count)
{
	uint64_t start = (uintptr_t)p, end = start + bytes;

	for (size_t way = 0; way < 2; way++) {
		struct mt_pagemap m;
		uint64_t at = start;

		mt_pagemap_open(&m, getpid(), PAGE, ways[way]);
		for (size_t i = 0; i < count; i++) {
			at = mt_pagemap_next(&m, at, end);
			assert_int_equal(at, start + touched[i] * PAGE);
			at += PAGE;
		}
		assert_int_equal(mt_pagemap_next(&m, at, end), end);
		/* backwards, too: each alone */
		for (size_t i = count; i > 0; i--) {
			at = start + touched[i - 1] * PAGE;
			assert_int_equal(mt_pagemap_next(&m, at, end), at);
			if (i < count && touched[i] == touched[i - 1] + 1)
				continue;
			assert_int_equal(mt_pagemap_next_absent(&m, at, end),
					 at + PAGE < end ? at + PAGE : end);
		}
		mt_pagemap_close(&m);
	}
}

static void pages_are_found_in_much_that_is_reserved(void **state)
{
	char *p = map(40 * GIB);
	static const uint64_t touched[] = {0,
					   1,
					   7,
					   512,
					   GIB / PAGE - 1,
					   GIB / PAGE,
					   5 * GIB / PAGE,
					   39 * GIB / PAGE + 77,
					   40 * GIB / PAGE - 1};
	size_t count = sizeof(touched) / sizeof(*touched);

	check(p, 40 * GIB, touched, 0);
	for (size_t i = 0; i < count; i++)
		p[touched[i] * PAGE] = 1;
	check(p, 40 * GIB, touched, count);
	munmap(p, 40 * GIB);
}

/* More stretches than fit into one answer. */
static void every_other_page_is_found(void **state)
{
	enum { COUNT = 20000 };
	static uint64_t touched[COUNT];
	char *p = map(COUNT * 2 * PAGE);

	for (size_t i = 0; i < COUNT; i++) {
		touched[i] = 2 * i;
		p[touched[i] * PAGE] = 1;
	}
	check(p, COUNT * 2 * PAGE, touched, COUNT);
	munmap(p, COUNT * 2 * PAGE);
}

static void holes_of_dense_memory_are_found(void **state)
{
	char *p = map(64 * MIB);
	uint64_t start = (uintptr_t)p, end = start + 64 * MIB;

	memset(p, 1, 64 * MIB);
	assert_int_equal(madvise(p + 10 * MIB, 3 * PAGE, MADV_DONTNEED), 0);
	assert_int_equal(madvise(p + 50 * MIB, 14 * MIB, MADV_DONTNEED), 0);
	for (size_t way = 0; way < 2; way++) {
		struct mt_pagemap m;

		mt_pagemap_open(&m, getpid(), PAGE, ways[way]);
		assert_int_equal(mt_pagemap_next_absent(&m, start, end), start + 10 * MIB);
		assert_int_equal(mt_pagemap_next(&m, start + 10 * MIB, end),
				 start + 10 * MIB + 3 * PAGE);
		assert_int_equal(mt_pagemap_next_absent(&m, start + 10 * MIB + 3 * PAGE, end),
				 start + 50 * MIB);
		assert_int_equal(mt_pagemap_next(&m, start + 50 * MIB, end), end);
		/* an end before the stretch's */
		assert_int_equal(mt_pagemap_next_absent(&m, start + 20 * MIB, start + 30 * MIB),
				 start + 30 * MIB);
		mt_pagemap_close(&m);
	}
	munmap(p, 64 * MIB);
}

/* All mappings that this process has, of files, devices and stacks. */
static void both_ways_agree_on_all_of_a_process(void **state)
{
	FILE *f = fopen("/proc/self/maps", "r");
	struct mt_pagemap best, words;
	unsigned long start, end;
	size_t lines = 0, pages = 0;
	char line[4400];

	assert_non_null(f);
	mt_pagemap_open(&best, getpid(), PAGE, MT_PAGEMAP_BEST);
	mt_pagemap_open(&words, getpid(), PAGE, MT_PAGEMAP_WORDS);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx", &start, &end) != 2 || strstr(line, "[stack]") ||
		    strstr(line, "[heap]") || end - start > 64 * GIB)
			continue;
		lines++;
		for (uint64_t at = start; at < end; at += PAGE) {
			uint64_t page = mt_pagemap_next(&best, at, end);

			assert_int_equal(page, mt_pagemap_next(&words, at, end));
			pages += page < end;
			at = page;
		}
	}
	assert_true(lines > 10 && pages > 10);
	mt_pagemap_close(&best);
	mt_pagemap_close(&words);
	fclose(f);
}

static void what_cannot_be_known_counts_as_there(void **state)
{
	struct mt_pagemap m;

	mt_pagemap_open(&m, 0, PAGE, MT_PAGEMAP_BEST);
	assert_int_equal(mt_pagemap_next(&m, PAGE, 9 * PAGE), PAGE);
	assert_int_equal(mt_pagemap_next_absent(&m, PAGE, 9 * PAGE), 9 * PAGE);
	mt_pagemap_close(&m);
	mt_pagemap_open(&m, 4194400, PAGE, MT_PAGEMAP_BEST); /* no such process */
	assert_int_equal(mt_pagemap_next(&m, PAGE, 9 * PAGE), PAGE);
	mt_pagemap_close(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pages_are_found_in_much_that_is_reserved),
		cmocka_unit_test(every_other_page_is_found),
		cmocka_unit_test(holes_of_dense_memory_are_found),
		cmocka_unit_test(both_ways_agree_on_all_of_a_process),
		cmocka_unit_test(what_cannot_be_known_counts_as_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
