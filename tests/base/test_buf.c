/* SPDX-License-Identifier: MIT */
#include "test_all.h"

#include "base/alloc.h"
#include "base/buf.h"

static void empty_buffer_is_an_empty_text(void **state)
{
	mt_auto(mt_buf) struct mt_buf b = {0};
	assert_string_equal(mt_buf_text(&b), "");
	assert_int_equal(mt_buf_adds(&b, ""), 0);
	assert_string_equal(mt_buf_text(&b), "");
}

static void parts_follow_each_other(void **state)
{
	mt_auto(mt_buf) struct mt_buf b = {0};
	mt_buf_adds(&b, "one");
	mt_buf_addc(&b, ' ');
	mt_buf_add(&b, "two three", 3);
	mt_buf_pad(&b, '.', 4);
	mt_buf_printf(&b, "%05d|%s", 42, "end");
	assert_string_equal(mt_buf_text(&b), "one two....00042|end");
	assert_int_equal(b.len, 20);
	assert_false(b.failed);
}

static void bytes_may_hold_nul(void **state)
{
	mt_auto(mt_buf) struct mt_buf b = {0};
	mt_buf_add(&b, "a\0b", 3);
	assert_int_equal(b.len, 3);
	assert_memory_equal(b.data, "a\0b\0", 4);
}

static void long_texts_grow(void **state)
{
	mt_auto(mt_buf) struct mt_buf b = {0};
	for (int i = 0; i < 20000; i++)
		mt_buf_printf(&b, "%d,", i % 10);
	assert_int_equal(b.len, 40000);
	assert_memory_equal(b.data + 39996, "8,9,", 5);
}

struct drained {
	size_t calls, bytes, longest;
};

static void drain(void *context, const char *data, size_t len)
{
	struct drained *d = context;
	assert_int_equal(data[0],
			 d->bytes % 10 + '0'); /* nothing is missing, nothing comes twice */
	d->calls++;
	d->bytes += len;
	d->longest = MT_MAX(d->longest, len);
}

static void drained_buffer_stays_short_and_loses_nothing(void **state)
{
	struct drained d = {0};
	mt_auto(mt_buf) struct mt_buf b = {.drain = drain, .drain_context = &d};
	for (int i = 0; i < 5000000; i++)
		mt_buf_addc(&b, (char)(i % 10 + '0'));
	assert_int_equal(d.bytes + b.len, 5000000);
	assert_int_equal(d.calls, 4);
	assert_true(d.longest <= MT_BUF_DRAIN_BYTES + 1);
}

static void truncation_cuts_and_never_grows(void **state)
{
	mt_auto(mt_buf) struct mt_buf b = {0};
	mt_buf_adds(&b, "hello");
	mt_buf_truncate(&b, 9);
	assert_string_equal(mt_buf_text(&b), "hello");
	mt_buf_truncate(&b, 2);
	assert_string_equal(mt_buf_text(&b), "he");
	mt_buf_truncate(&b, 0);
	assert_string_equal(mt_buf_text(&b), "");
}

static void stolen_text_belongs_to_the_caller(void **state)
{
	struct mt_buf b = {0};
	size_t len;
	mt_buf_adds(&b, "mine");
	mt_auto(free) char *text = mt_buf_steal(&b, &len);
	assert_string_equal(text, "mine");
	assert_int_equal(len, 4);
	assert_int_equal(b.len, 0);
	mt_auto(free) char *empty = mt_buf_steal(&b, NULL);
	assert_string_equal(empty, "");
}

static void lost_append_is_remembered(void **state)
{
	mt_auto(mt_buf) struct mt_buf b = {0};
	mt_buf_adds(&b, "kept");
	mt_alloc_fail_from_for_test(1);
	assert_int_equal(mt_buf_pad(&b, 'x', 1000), -ENOMEM);
	mt_alloc_fail_from_for_test(0);
	assert_string_equal(mt_buf_text(&b), "kept");
	assert_true(b.failed);
	assert_null(mt_buf_steal(&b, NULL));
	assert_false(b.failed);
}

static void length_that_overflows_is_refused(void **state)
{
	mt_auto(mt_buf) struct mt_buf b = {0};
	mt_buf_adds(&b, "x");
	assert_int_equal(mt_buf_reserve(&b, SIZE_MAX), -ENOMEM);
	assert_int_equal(mt_buf_reserve(&b, SIZE_MAX - 1), -ENOMEM);
	assert_string_equal(mt_buf_text(&b), "x");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(empty_buffer_is_an_empty_text),
		cmocka_unit_test(parts_follow_each_other),
		cmocka_unit_test(bytes_may_hold_nul),
		cmocka_unit_test(long_texts_grow),
		cmocka_unit_test(truncation_cuts_and_never_grows),
		cmocka_unit_test(drained_buffer_stays_short_and_loses_nothing),
		cmocka_unit_test(stolen_text_belongs_to_the_caller),
		cmocka_unit_test(lost_append_is_remembered),
		cmocka_unit_test(length_that_overflows_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
