/* SPDX-License-Identifier: MIT */
/* What copies cost: measured on ourselves, counted on ourselves as if we were one. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <unistd.h>

#include "target/copy_cost.h"

static void a_copied_page_takes_longer_than_one_that_is_kept(void **state)
{
	struct mt_copy_cost cost = {0};

	/* other programs may take the processor away just then */
	for (int i = 0; i < 50 && cost.copied_ns <= cost.kept_ns; i++)
		mt_copy_cost_measure(&cost);
	assert_true(cost.kept_ns > 0);
	assert_true(cost.copied_ns > cost.kept_ns);
	assert_false(cost.is_known);
}

static void only_copies_are_counted(void **state)
{
	struct mt_copy_cost cost = {0};
	struct mt_image_facts facts = {
		.source = MT_IMAGE_STOPPED, .copy = getpid(), .page_bytes = 4096};

	mt_copy_cost_count(&cost, &facts);
	assert_false(cost.is_known);
	facts.source = MT_IMAGE_COPY;
	mt_copy_cost_count(&cost, &facts);
	assert_true(cost.is_known);
	assert_int_equal(cost.copied_bytes, 0); /* it had no fault */
	facts.faults_since = 3;
	mt_copy_cost_count(&cost, &facts);
	assert_int_equal(cost.copied_bytes, 3 * 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_copied_page_takes_longer_than_one_that_is_kept),
		cmocka_unit_test(only_copies_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
