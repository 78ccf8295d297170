/* SPDX-License-Identifier: MIT */
#ifndef MT_TESTS_UNWIND_CROSS_CMOCKA_H
#define MT_TESTS_UNWIND_CROSS_CMOCKA_H

/* As much of cmocka as the unwinder's tests use, for machines that are only emulated. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
	const char *name;
	void (*run)(void **state);
	int (*setup)(void **state);
};

#define cmocka_unit_test(f) \
	{ \
#f, f, NULL \
	}
#define cmocka_unit_test_setup(f, s) \
	{ \
#f, f, s \
	}
#define CROSS_FAIL_UNLESS(x, text) \
	do { \
		if (!(x)) { \
			printf("Bail out! %s:%d: %s\n", __FILE__, __LINE__, text); \
			exit(1); \
		} \
	} while (0)
#define assert_true(x) CROSS_FAIL_UNLESS(x, #x)
#define assert_false(x) CROSS_FAIL_UNLESS(!(x), "not " #x)
#define assert_int_equal(a, b) CROSS_FAIL_UNLESS((long)(a) == (long)(b), #a " is not " #b)
#define assert_ptr_equal(a, b) CROSS_FAIL_UNLESS((a) == (b), #a " is not " #b)
#define assert_memory_equal(a, b, n) CROSS_FAIL_UNLESS(!memcmp(a, b, n), #a " is not " #b)
#define cmocka_run_group_tests(tests, setup, teardown) \
	cross_run(tests, sizeof(tests) / sizeof((tests)[0]), setup)

static int cross_run(const struct CMUnitTest *tests, size_t count, int (*setup)(void **))
{
	void *state = NULL;
	setvbuf(stdout, NULL, _IONBF, 0);
	printf("1..%zu\n", count);
	if (setup)
		setup(&state);
	for (size_t i = 0; i < count; i++) {
		if (tests[i].setup)
			tests[i].setup(&state);
		tests[i].run(&state);
		printf("ok %zu - %s\n", i + 1, tests[i].name);
	}
	return 0;
}

#endif
