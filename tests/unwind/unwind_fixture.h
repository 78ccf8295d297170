/* SPDX-License-Identifier: MIT */
#ifndef MT_TESTS_UNWIND_FIXTURE_H
#define MT_TESTS_UNWIND_FIXTURE_H

/* What the unwinder's tests share: a module list by dl_iterate_phdr, and captures that are checked.
 */

#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "elf/modules.h"
#include "unwind/capture.h"
#include "unwind/row.h"

static void *fixture_zeros(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		abort();
	return p;
}

struct fixture_fill {
	struct mt_module_list *list;
	uint32_t max;
};

static int fixture_add(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct fixture_fill *fill = arg;
	struct mt_module m;
	if (fill->list->count == fill->max ||
	    mt_module_from_phdr(info->dlpi_phdr, info->dlpi_phnum, info->dlpi_addr, &m))
		return 0;
	m.name = info->dlpi_name;
	uint32_t i = fill->list->count++;
	for (; i > 0 && fill->list->m[i - 1].lo > m.lo; i--)
		fill->list->m[i] = fill->list->m[i - 1];
	fill->list->m[i] = m;
	return 0;
}

/* Publishes the modules that are loaded now. Old lists stay, as in the runtime. */
MT_UNUSED static void fixture_modules(void)
{
	static uint32_t generation;
	enum { MAX = 512 };
	struct fixture_fill fill = {NULL, MAX};
	fill.list = fixture_zeros(sizeof(*fill.list) + MAX * sizeof(struct mt_module));
	fill.list->generation = ++generation;
	dl_iterate_phdr(fixture_add, &fill);
	mt_unwind.change_count++;
	__atomic_store_n(&mt_unwind.modules, fill.list, __ATOMIC_RELEASE);
}

MT_UNUSED static struct mt_capture *fixture_capture_new(uint32_t depth)
{
	struct mt_capture *c = fixture_zeros(sizeof(*c));
	mt_capture_init(c, depth);
	mt_capture_memo_attach(c, fixture_zeros(mt_memo_bytes()));
	return c;
}

MT_UNUSED static void fixture_start(void)
{
	mt_unwind.rows = fixture_zeros(mt_row_cache_bytes());
	fixture_modules();
}

/* The entry of a hook: hands the registers at its call to fixture_hooked(sp, ra, fp). */
void fixture_hook(void);
void fixture_hooked(uintptr_t sp, uintptr_t ra, uintptr_t fp);

#endif
