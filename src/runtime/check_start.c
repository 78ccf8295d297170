/* SPDX-License-Identifier: MIT */
/* How check mode begins; see check.h. */
#include "core/mem.h"
#include "runtime/check_block.h"
#include "runtime/errors.h"
#include "runtime/index.h"
#include "runtime/quarantine.h"

enum { PAGE_SLOTS = 1024 };

struct mt_check mt_check;

/*
 * What nobody has bounded: bytes that one fill writes, and that the quarantine holds. A large block
 * that was hardly touched must not become memory.
 */
enum { FILL_MOST = 256 << 20, HELD_MOST = 256 << 20 };

static void bound_options(struct mt_check_options *o)
{
	if (o->fill_on_alloc == UINT64_MAX)
		o->fill_on_alloc = FILL_MOST;
	if (o->fill_on_free == UINT64_MAX)
		o->fill_on_free = FILL_MOST;
	if (!o->free_track_bytes)
		o->free_track_bytes = HELD_MOST;
}

int mt_check_begin(const struct mt_check_options *o, const char *program)
{
	size_t n = 0;
	mt_mem_copy(&mt_check.options, o, sizeof(*o));
	bound_options(&mt_check.options);
	while (program[n] && n + 1 < sizeof(mt_check.program)) {
		mt_check.program[n] = program[n];
		n++;
	}
	mt_layout_begin(o);
	mt_check.limited =
		o->only_min || o->only_max != UINT64_MAX || o->only_modules[0] || o->only_sites[0];
	int err = o->flags & MT_CHECK_FREE_TRACK
			  ? mt_quarantine_begin(o->free_track, mt_check.options.free_track_bytes)
			  : 0;
	if (err)
		return err;
	mt_index_set_granule(mt_layout_granule());
	mt_errors_begin();
	mt_provider_find_doors();
	if (o->flags & MT_CHECK_GUARD_PAGE)
		mt_rt.options.guard_slots = PAGE_SLOTS;
	mt_rt.options.guard_fatal = (o->flags & MT_CHECK_ABORT_ON_ERROR) != 0;
	mt_check.capturing = (o->flags & MT_CHECK_BACKTRACE) != 0;
	__atomic_store_n(&mt_check.state, MT_CHECK_ON, __ATOMIC_RELEASE);
	return 0;
}

void mt_check_is_not_wanted(void)
{
	__atomic_store_n(&mt_check.state, MT_CHECK_OFF, __ATOMIC_RELEASE);
}

MT_COLD int mt_check_find_out(void)
{
	struct mt_thread *t;
	if (mt_enter(&t) == MT_ENTER_TRACK)
		mt_leave(t);
	return mt_check.state == MT_CHECK_ON;
}
