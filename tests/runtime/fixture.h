/* SPDX-License-Identifier: MIT */
#ifndef MT_TESTS_RUNTIME_FIXTURE_H
#define MT_TESTS_RUNTIME_FIXTURE_H

/*
 * The runtime's tables without a process around them: the fixture takes the place of process.c,
 * provider.c and the unwinder. Stacks are what a test says they are (struct mt_caller.ra names
 * one), and the allocator behind the hooks is the test's.
 */

/* cmocka wants these before itself */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/control.h"
#include "runtime/index.h"
#include "runtime/mapping.h"
#include "runtime/provider.h"
#include "runtime/record.h"
#include "runtime/rt.h"
#include "runtime/sites.h"
#include "runtime/storage.h"
#include "runtime/thread.h"

struct fixture_config {
	uint32_t granule_shift; /* 0: 4 */
	uint64_t max_bytes;
	uint32_t mode; /* 0: full */
	uint64_t interval_bytes;
	const char *directory; /* for the state file; NULL: a fresh one in /tmp or /dev/shm */
};

/* Fresh tables. 0 or a negative errno value. */
int fixture_begin(const struct fixture_config *config);

/* cmocka set-up and tear-down for the tests that need nothing special. */
int fixture_setup(void **state);
int fixture_teardown(void **state);
void fixture_end(void);

/* A request as a controller writes it; threads take it over with mt_control_take(). */
void fixture_ask(const char *text);

/* One for a mode. */
void fixture_wish(uint32_t mode, uint64_t interval_bytes, uint32_t every);

/* State of the calling thread, made on first use; the guard is not taken. */
struct mt_thread *fixture_thread(void);

/* As the hook of free() does. */
void fixture_free(struct mt_thread *t, uint64_t address);

/* The thread's balance of the malloc heap. */
int64_t fixture_live_bytes(const struct mt_thread *t);

/* A caller whose stack has three frames, the innermost being ra. */
struct mt_caller fixture_caller(uintptr_t ra);

/* Modules of the fixture: bases at 1 << 20 apart. Replaces the one at `slot` by another (new
 * number). */
void fixture_replace_module(uint32_t slot);
enum { FIXTURE_MODULES = 4 };
uintptr_t fixture_address(uint32_t slot, uint32_t offset);

/* xorshift */
uint64_t fixture_random(uint64_t *seed);

/* Cells of a site summed over threads; site: by its innermost pc. */
struct fixture_sum {
	uint64_t allocs, bytes, frees, freed_bytes, temporaries, sites, cells;
	int64_t at_peak_bytes, at_peak_count;
};
struct fixture_sum fixture_sum_of(uintptr_t ra);

/* Blocks of the malloc heap in the LIVE and LARGE regions, counted as a reader does. */
void fixture_count_live(uint64_t *ret_count, uint64_t *ret_bytes);

#endif
