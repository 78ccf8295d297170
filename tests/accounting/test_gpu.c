/* SPDX-License-Identifier: MIT */
/* Texts of /proc/PID/fdinfo, status and meminfo. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "target/gpu.h"
#include "target/machine.h"
#include "target/memory.h"
#include "target/status.h"

static const char amdgpu[] = "pos:\t0\nflags:\t02100002\nmnt_id:\t25\nino:\t412\n"
			     "drm-driver:\tamdgpu\ndrm-client-id:\t7\ndrm-pdev:\t0000:03:00.0\n"
			     "drm-total-vram:\t900 KiB\ndrm-memory-vram:\t 800 KiB\n"
			     "drm-resident-vram:\t800 KiB\ndrm-memory-gtt:\t3 MiB\n"
			     "drm-engine-gfx:\t123 ns\ndrm-total-cycles-rcs:\t5\n";

static void one_client_counts_once(void **state)
{
	mt_auto(mt_gpu) struct mt_gpu g = {.count = 0};

	assert_int_equal(mt_gpu_add(&g, amdgpu), 0);
	assert_int_equal(mt_gpu_add(&g, amdgpu), 0); /* a duplicated descriptor */
	assert_int_equal(g.count, 2);
	assert_string_equal(g.row[0].driver, "amdgpu");
	assert_string_equal(g.row[0].device, "0000:03:00.0");
	assert_string_equal(g.row[0].region, "vram");
	assert_int_equal(g.row[0].bytes, 800 << 10);
	assert_string_equal(g.row[1].region, "gtt");
	assert_int_equal(g.row[1].bytes, 3 << 20);
	assert_int_equal(mt_gpu_add(&g, "drm-driver:\tamdgpu\ndrm-client-id:\t8\n"
					"drm-pdev:\t0000:03:00.0\ndrm-memory-vram:\t1 KiB\n"),
			 0);
	assert_int_equal(g.count, 2);
	assert_int_equal(g.row[0].bytes, 801 << 10);
}

static void dma_bufs_count_once(void **state)
{
	static const char buffer[] =
		"pos:\t0\nino:\t9\nsize:\t8192\ncount:\t2\nexp_name:\tsystem\n";
	mt_auto(mt_gpu) struct mt_gpu g = {.count = 0};

	assert_int_equal(mt_gpu_add(&g, buffer), 0);
	assert_int_equal(mt_gpu_add(&g, buffer), 0);
	assert_int_equal(mt_gpu_add(&g, "ino:\t10\nsize:\t4096\nexp_name:\tsystem\n"), 0);
	assert_int_equal(g.dmabufs, 2);
	assert_int_equal(g.dmabuf_bytes, 12288);
	assert_int_equal(g.count, 0);
}

static void other_descriptors_tell_nothing(void **state)
{
	static const char broken[] = "drm-driver:\tx\ndrm-memory-vram:\tmany\ndrm-memory-:\t5 KiB\n"
				     "drm-memory-a:\t1 kg\n"
				     "drm-memory-b:\t99999999999999999 GiB\n";
	static const char *const texts[] = {
		"",
		"pos:\t0\nflags:\t02\n",
		"no colon\n:\n::\n",
		"size:\t4096\n",
		"drm-memory-vram:\t5 KiB\n",
		broken,
	};
	mt_auto(mt_gpu) struct mt_gpu g = {.count = 0};

	for (size_t i = 0; i < MT_ARRAY_LEN(texts); i++)
		assert_int_equal(mt_gpu_add(&g, texts[i]), 0);
	assert_int_equal(g.count, 0);
	assert_int_equal(g.dmabufs, 0);
}

static void more_regions_than_fit_are_told(void **state)
{
	mt_auto(mt_gpu) struct mt_gpu g = {.count = 0};
	char text[128];

	for (int i = 0; i < MT_GPU_ROWS_MAX + 1; i++) {
		assert_false(g.is_cut);
		snprintf(text, sizeof(text), "drm-driver:\tx%d\ndrm-memory-v:\t1 KiB\n", i);
		assert_int_equal(mt_gpu_add(&g, text), 0);
	}
	assert_true(g.is_cut);
	assert_int_equal(g.count, MT_GPU_ROWS_MAX);
}

static void our_own_descriptors_can_be_read(void **state)
{
	mt_auto(mt_gpu) struct mt_gpu g = {.count = 0};

	assert_int_equal(mt_gpu_read(getpid(), &g), 0);
	assert_int_equal(mt_gpu_read(4194400, &g), -EACCES);
}

static void a_status_tells_threads_and_page_tables(void **state)
{
	struct mt_status st;
	struct mt_smaps_sum sum;

	mt_status_parse("Name:\tThreads: 7\nVmPeak:\t  40 kB\nVmSize:\t  30 kB\nVmRSS:\t  20 kB\n"
			"RssAnon:\t  12 kB\nVmPTE:\t   4 kB\nVmSwap:\t   8 kB\nThreads:\t3\n",
			&st);
	assert_int_equal(st.threads, 3);
	assert_int_equal(st.bytes[MT_STATUS_PAGE_TABLES], 4096);
	assert_int_equal(st.bytes[MT_STATUS_LOCKED], MT_MEMORY_UNKNOWN);
	mt_usage_of_status(&st, &sum);
	assert_int_equal(sum.size_bytes, 30 << 10);
	assert_int_equal(sum.bytes[MT_SMAPS_RSS], 20 << 10);
	assert_int_equal(sum.bytes[MT_SMAPS_ANONYMOUS], 12 << 10);
	assert_false(mt_smaps_has(&sum, MT_SMAPS_PSS));
	assert_int_equal(mt_status_read(getpid(), &st), 0);
	assert_true(st.threads >= 1 && st.bytes[MT_STATUS_RSS] > 100 << 10);
	assert_int_equal(mt_status_read(4194400, &st), -ESRCH);
}

static void usage_of_processes(void **state)
{
	struct mt_usage u;

	assert_int_equal(mt_usage_read(getpid(), &u), 0);
	assert_false(u.is_partial);
	assert_true(u.sum.bytes[MT_SMAPS_RSS] > 100 << 10);
	assert_non_null(strstr(u.name, "test_accounting_gpu"));
	assert_int_equal(mt_usage_read(4194400, &u), -ESRCH);
}

static void parts_of_a_machine_add_up(void **state)
{
	struct mt_whole w;
	struct mt_err err = {0};
	uint64_t sum = 0;

	assert_int_equal(mt_machine_read(&w, &err), 0);
	for (size_t i = 0; i < w.parts; i++)
		sum += w.part[i].bytes;
	assert_int_equal(sum + (uint64_t)w.rest_bytes, w.bytes);
	assert_true(w.bytes > 16 << 20);
	assert_int_equal(mt_machine_parse("MemFree: 4 kB\n", "x", &w, &err), -EINVAL);
	assert_string_equal(err.text, "'x' is no meminfo text: it has no line 'MemTotal'");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_client_counts_once),
		cmocka_unit_test(dma_bufs_count_once),
		cmocka_unit_test(other_descriptors_tell_nothing),
		cmocka_unit_test(more_regions_than_fit_are_told),
		cmocka_unit_test(our_own_descriptors_can_be_read),
		cmocka_unit_test(a_status_tells_threads_and_page_tables),
		cmocka_unit_test(usage_of_processes),
		cmocka_unit_test(parts_of_a_machine_add_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
