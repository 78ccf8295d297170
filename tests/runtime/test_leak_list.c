/* SPDX-License-Identifier: MIT */
#include "fixture.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/check.h"
#include "runtime/leak_list.h"

enum { MANY = 3000 };

/* As specified: size falls, frames fall, addresses rise. */
static int compare(const void *a, const void *b)
{
	const struct mt_leak *x = a, *y = b;
	if (x->size != y->size)
		return x->size > y->size ? -1 : 1;
	if (x->frames != y->frames)
		return x->frames > y->frames ? -1 : 1;
	return x->place < y->place ? -1 : x->place > y->place;
}

static void any_list_is_sorted(void **state)
{
	static struct mt_leak leak[MANY], wanted[MANY];
	uint64_t seed = 7;
	for (uint64_t count = 0; count < MANY; count += 1 + count / 3) {
		for (uint64_t i = 0; i < count; i++)
			leak[i] = (struct mt_leak){.place = fixture_random(&seed) % (2 * MANY),
						   .size = fixture_random(&seed) % 5,
						   .frames = fixture_random(&seed) % 4,
						   .node = (uint32_t)i};
		memcpy(wanted, leak, sizeof(leak));
		qsort(wanted, count, sizeof(*wanted), compare);
		mt_leak_sort(leak, count);
		for (uint64_t i = 0; i < count; i++)
			assert_int_equal(compare(&leak[i], &wanted[i]), 0);
	}
}

static void add(uint64_t place, uint64_t size, int has_stack)
{
	struct mt_thread *t = fixture_thread();
	struct mt_caller caller = fixture_caller(fixture_address(1, 0x40));
	if (has_stack)
		mt_record_alloc(t, (void *)place, size, MT_CALL_MALLOC, &caller, 0);
	else
		mt_record_without_stack(t, (void *)place, size);
}

static void the_list_holds_what_is_live(void **state)
{
	struct mt_leak_list list;
	mt_check.options.frames = 2;
	add(0x100000, 10, 0);
	add(0x200000, 10, 1);
	add(0x300000, 1 << 20, 0);
	add(0x400000, 20, 1);
	add(0x500000, 30, 0);
	fixture_free(fixture_thread(), 0x500000);
	assert_int_equal(mt_leak_list_make(1, &list), 0);
	assert_int_equal(list.count, 4);
	static const uint64_t places[] = {0x300000, 0x400000, 0x200000, 0x100000};
	static const uint64_t sizes[] = {1 << 20, 20, 10, 10};
	static const uint32_t frames[] = {0, 2, 2, 0}; /* of three, at most two count */
	for (int i = 0; i < 4; i++) {
		assert_int_equal(list.leak[i].place, places[i]);
		assert_int_equal(list.leak[i].size, sizes[i]);
		assert_int_equal(list.leak[i].frames, frames[i]);
		assert_int_equal(!list.leak[i].node, !frames[i]);
	}
	mt_leak_list_done(&list);
	assert_null(list.leak);
}

static void nothing_live_is_an_empty_list(void **state)
{
	struct mt_leak_list list;
	assert_int_equal(mt_leak_list_make(0, &list), 0);
	assert_int_equal(list.count, 0);
	mt_leak_list_done(&list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_list_is_sorted),
		cmocka_unit_test_setup_teardown(the_list_holds_what_is_live, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(nothing_live_is_an_empty_list, fixture_setup,
						fixture_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
