/* SPDX-License-Identifier: MIT */
/* Text for Prometheus: both formats, escaping, and what does not fit in a number of theirs. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/alloc.h"
#include "report/metrics.h"

static struct mt_watch_site sites[3] = {
	[2] = {.counts = {.allocs = 9, .frees = 4, .bytes = 900, .freed_bytes = 400}, .call = 1},
};

static struct mt_watch watch = {
	.pid = 77,
	.wall_start_ns = 1700000000042000000u,
	.mode = 3,
	.is_recording = true,
	.interval_bytes = 524288,
	.counts = {.allocs = 10, .frees = 12, .bytes = UINT64_MAX, .freed_bytes = 5},
	.live_bytes = -7,
	.live_blocks = -2,
	.lost = {[4] = 5},
	.errors = {[0] = 1, [3] = 4},
	.site_count = 3,
	.site = sites,
};

static void write_metrics(enum mt_metrics_format format, struct mt_buf *out)
{
	const struct mt_metrics_site site = {.number = 2,
					     .function = "f(\"\\\")",
					     .place = "a.c:3",
					     .caller = "",
					     .call = "malloc",
					     .callstack_hash = 0xabc};
	const struct mt_metrics_process process = {
		.watch = &watch, .program = "a\"b\n", .site = &site, .site_count = 1};
	const struct mt_metrics m = {.process = &process,
				     .count = 1,
				     .unreadable = 2,
				     .reading_ns = 1234567890,
				     .version = "1"};

	assert_int_equal(mt_metrics_write(&m, format, out), 0);
}

static void assert_has(const struct mt_buf *text, const char *part)
{
	if (!strstr(mt_buf_text(text), part))
		fail_msg("'%s' is not in:\n%s", part, mt_buf_text(text));
}

static void memory_errors_are_counted_by_kind(void **state)
{
	mt_auto(mt_buf) struct mt_buf out = {0};

	write_metrics(MT_METRICS_PROMETHEUS, &out);
	assert_has(&out, "# TYPE memtrack_memory_errors_total counter\n");
	assert_has(&out, "\nmemtrack_memory_errors_total{pid=\"77\",program=\"a\\\"b\\\\n\","
			 "kind=\"use-after-free\"} 4\n");
	assert_has(&out, ",kind=\"overflow\"} 0\n");
	assert_has(&out, ",kind=\"header\"} 0\n");
	assert_has(&out, ",kind=\"not-kept\"} 1\n");
}

static void openmetrics_names_families_without_total(void **state)
{
	mt_auto(mt_buf) struct mt_buf out = {0};

	write_metrics(MT_METRICS_OPENMETRICS, &out);
	assert_has(&out, "# TYPE memtrack_allocated_bytes counter\n"
			 "# UNIT memtrack_allocated_bytes bytes\n"
			 "# HELP memtrack_allocated_bytes Bytes of these allocations.\n"
			 "memtrack_allocated_bytes_total{pid=\"77\",program=\"a\\\"b\\\\n\"} "
			 "18446744073709551615\n");
	assert_has(&out, "\nmemtrack_reading_duration_seconds 1.234567\n");
	assert_has(&out, "program=\"a\\\"b\\\\n\"} 1700000000.042\n");
	assert_has(&out, ",mode=\"sample\"} 1\n");
	assert_has(&out, ",reason=\"storage\"} 5\n");
	assert_has(&out, ",site=\"2\",callstack_hash=\"0x0000000000000abc\",call=\"malloc\","
			 "function=\"f(\\\"\\\\\\\")\",place=\"a.c:3\",caller=\"\"} 500\n");
	assert_string_equal(mt_buf_text(&out) + out.len - 7, "\n# EOF\n");
}

static void the_older_format_names_samples(void **state)
{
	mt_auto(mt_buf) struct mt_buf out = {0};

	write_metrics(MT_METRICS_PROMETHEUS, &out);
	assert_has(&out, "# TYPE memtrack_allocated_bytes_total counter\n"
			 "# HELP memtrack_allocated_bytes_total ");
	assert_null(strstr(mt_buf_text(&out), "# UNIT"));
}

/* A thread's free may be counted before the allocation that another made. */
static void what_is_live_is_never_negative(void **state)
{
	mt_auto(mt_buf) struct mt_buf out = {0};

	write_metrics(MT_METRICS_OPENMETRICS, &out);
	assert_has(&out, "\nmemtrack_live_bytes{pid=\"77\",program=\"a\\\"b\\\\n\"} 0\n");
	assert_has(&out, "\nmemtrack_live_blocks{pid=\"77\",program=\"a\\\"b\\\\n\"} 0\n");
}

static void labels_are_escaped(void **state)
{
	mt_auto(mt_buf) struct mt_buf out = {0};

	mt_metrics_escape(&out, "plain \"q\" \\ \xc3\xa9 \n\xff\x1b");
	assert_string_equal(mt_buf_text(&out), "plain \\\"q\\\" \\\\ \xc3\xa9 \\\\n\\\\xff\\\\x1b");
}

static void no_memory_is_an_error(void **state)
{
	mt_auto(mt_buf) struct mt_buf out = {0};
	const struct mt_metrics m = {.version = "1"};
	int code;

	mt_alloc_fail_from_for_test(1);
	code = mt_metrics_write(&m, MT_METRICS_OPENMETRICS, &out);
	mt_alloc_fail_from_for_test(0);
	assert_true(code < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(openmetrics_names_families_without_total),
		cmocka_unit_test(memory_errors_are_counted_by_kind),
		cmocka_unit_test(the_older_format_names_samples),
		cmocka_unit_test(what_is_live_is_never_negative),
		cmocka_unit_test(labels_are_escaped),
		cmocka_unit_test(no_memory_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
