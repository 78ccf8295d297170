/* SPDX-License-Identifier: MIT */
#ifndef MT_TESTS_FORMATS_FIXTURE_H
#define MT_TESTS_FORMATS_FIXTURE_H

/* What the tests of state files share. All of it fails the running test on error. */

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "core/clock.h"
#include "formats/mtk_read.h"
#include "support/mtk_builder.h"

/* The profile of what the builder holds. */
MT_UNUSED static struct mt_profile *read_builder(struct mtk_builder *b)
{
	struct mt_profile *p = NULL;
	struct mt_err err;
	size_t len;
	mt_auto(free) uint8_t *data = mtk_builder_bytes(b, &len);
	if (mt_mtk_read_memory(data, len, "test", &p, &err))
		fail_msg("%s", err.text);
	return p;
}

/* The error that reading these bytes gives. */
MT_UNUSED static struct mt_err read_error(const void *data, size_t len)
{
	struct mt_profile *p = NULL;
	struct mt_err err = {0};
	int r = mt_mtk_read_memory(data, len, "x.mtk", &p, &err);
	assert_int_not_equal(r, 0);
	assert_int_equal(r, err.code);
	assert_null(p);
	return err;
}

/* A path for this test in the test's temporary folder; static storage. */
MT_UNUSED static const char *temp_path(const char *name)
{
	static char path[512];
	const char *dir = getenv("TMPDIR");
	snprintf(path, sizeof(path), "%s/mt-test-%d-%s", dir ? dir : "/tmp", (int)getpid(), name);
	return path;
}

MT_UNUSED static void assert_no_warnings(const struct mt_profile *p)
{
	if (p->warning_count)
		fail_msg("warning: %s", p->warning[0]);
}

/* Makes the header that of a process of this machine that runs now: our own. */
MT_UNUSED static void make_ours(struct mt_state_header *h)
{
	mt_auto(free) char *text = NULL;
	size_t len;
	unsigned digits = 0;
	assert_int_equal(mt_file_read("/proc/sys/kernel/random/boot_id", 100, &text, &len, NULL),
			 0);
	for (char *s = text; *s && digits < 32; s++) {
		char two[2] = {*s, 0};
		if (*s == '-')
			continue;
		h->boot_id[digits / 2] =
			(uint8_t)(h->boot_id[digits / 2] << 4 | strtoul(two, NULL, 16));
		digits++;
	}
	h->arch = MT_ARCH_X86_64;
#if defined(__aarch64__)
	h->arch = MT_ARCH_AARCH64;
#endif
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	h->tick_start = mt_clock_ticks();
	h->mono_start_ns = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
	h->tick_mark = 0;
	h->end_kind = MT_END_RUNNING;
	h->pid = getpid();
	h->proc_start = 0;
	h->now_unit = 0;
}

/* Time of birth, site and thread of a block. */
MT_UNUSED static uint64_t born_ns(const struct mt_profile *p, uint64_t block)
{
	struct mt_profile_clock clock = p->clock;
	return mt_profile_clock_at(&clock, p->block[block].born);
}

MT_UNUSED static const struct mt_profile_cell *cell_of(const struct mt_profile *p, uint64_t block)
{
	return &p->cell[p->block[block].cell];
}

/* Allocations of a site in one bucket of sizes, frees in one of ages, and those of unknown size. */
MT_UNUSED static uint64_t sizes_of(const struct mt_profile *p, uint32_t site, uint32_t bucket)
{
	uint64_t sizes[MT_PROFILE_SIZES] = {0}, missing = 0;
	mt_profile_add_sizes(p, site, sizes, &missing);
	return sizes[bucket];
}

MT_UNUSED static uint64_t sizes_missing(const struct mt_profile *p, uint32_t site)
{
	uint64_t sizes[MT_PROFILE_SIZES] = {0}, missing = 0;
	mt_profile_add_sizes(p, site, sizes, &missing);
	return missing;
}

MT_UNUSED static uint64_t lives_of(const struct mt_profile *p, uint32_t site, uint32_t bucket)
{
	uint64_t lives[MT_PROFILE_LIVES] = {0};
	mt_profile_add_lives(p, site, lives);
	return lives[bucket];
}

/* Field by field: structs have padding. */
MT_UNUSED static void assert_same_blocks(const struct mt_profile *a, const struct mt_profile *b)
{
	assert_int_equal(a->blocks, b->blocks);
	for (uint64_t i = 0; i < a->blocks; i++) {
		const struct mt_profile_block *x = &a->block[i], *y = &b->block[i];
		assert_int_equal(x->size, y->size);
		assert_int_equal(x->born, y->born);
		assert_int_equal(x->cell, y->cell);
		assert_int_equal(x->heap, y->heap);
	}
}

MT_UNUSED static void assert_same_threads(const struct mt_profile *a, const struct mt_profile *b)
{
	assert_int_equal(a->thread_count, b->thread_count);
	for (uint32_t i = 0; i < a->thread_count; i++) {
		const struct mt_profile_thread *x = &a->thread[i], *y = &b->thread[i];
		assert_int_equal(x->tid, y->tid);
		assert_string_equal(x->name, y->name);
		assert_memory_equal(x->heap, y->heap, sizeof(x->heap));
		assert_int_equal(x->live_bytes, y->live_bytes);
		assert_int_equal(x->peak_bytes, y->peak_bytes);
	}
}

MT_UNUSED static void assert_same_sites(const struct mt_profile *a, const struct mt_profile *b)
{
	assert_int_equal(a->site_count, b->site_count);
	for (uint32_t i = 0; i < a->site_count; i++) {
		const struct mt_profile_site *x = &a->site[i], *y = &b->site[i];
		assert_int_equal(x->node, y->node);
		assert_int_equal(x->heap, y->heap);
		assert_int_equal(x->call, y->call);
		assert_memory_equal(&x->counts, &y->counts, sizeof(x->counts));
		assert_int_equal(x->live_bytes, y->live_bytes);
		assert_int_equal(x->peak_bytes, y->peak_bytes);
		assert_int_equal(x->at_peak_bytes, y->at_peak_bytes);
		for (uint32_t k = 0; k < MT_PROFILE_SIZES; k++)
			assert_int_equal(sizes_of(a, i, k), sizes_of(b, i, k));
		for (uint32_t k = 0; k < MT_PROFILE_LIVES; k++)
			assert_int_equal(lives_of(a, i, k), lives_of(b, i, k));
		assert_int_equal(x->cell_count, y->cell_count);
	}
}

#endif
