/* SPDX-License-Identifier: MIT */
/* Calls of check mode that are not tracked; see check_untracked.h. */
#include "runtime/check_untracked.h"

#include "elf/loader.h"
#include "runtime/foreign.h"
#include "runtime/guard.h"

#define REAL (&mt_original[MT_FAMILY_PLAIN])

void *mt_check_let_pass(enum mt_enter how, struct mt_thread *t, void *p)
{
	if (how == MT_ENTER_NESTED)
		mt_foreign_add(p);
	return mt_record_nested(how, t, p);
}

int mt_check_reads_header(const void *p, struct mt_header *ret_header)
{
	return mt_layout.has_header &&
	       !mt_loader_read(mt_header_of(p), ret_header, sizeof(*ret_header)) &&
	       mt_header_is_good(ret_header, p);
}

MT_COLD void mt_check_free_untracked(enum mt_enter how, struct mt_thread *t, void *p)
{
	struct mt_header h;
	if (mt_guard_holds(p)) {
		mt_guard_free(how, t, p, &(struct mt_caller){0, 0, 0});
		return;
	}
	void *original = p;
	int foreign = mt_foreign_remove(p);
	if (!foreign && mt_check_reads_header(p, &h)) {
		mt_header_of(p)->tag = MT_TAG_FREED;
		original = mt_header_original(&h, p);
	}
	if (!foreign && how == MT_ENTER_NESTED)
		mt_record_free_nested(t, p);
	REAL->free(original);
}

MT_COLD void *mt_check_realloc_untracked(enum mt_enter how, struct mt_thread *t, void *old,
					 size_t size)
{
	struct mt_header h = {.usable = mt_guard_size(old)};
	if (!mt_guard_holds(old) && (mt_foreign_remove(old) || !mt_check_reads_header(old, &h))) {
		if (how == MT_ENTER_NESTED)
			mt_record_free_nested(t, old);
		return mt_check_let_pass(how, t, REAL->realloc(old, size));
	}
	void *p = size ? REAL->malloc(size) : NULL;
	if (size && !p)
		return NULL;
	if (p)
		mt_mem_copy_block(p, old, MT_MIN(h.usable, (uint64_t)size));
	mt_check_free_untracked(how, t, old);
	return mt_check_let_pass(how, t, p);
}

MT_COLD size_t mt_check_usable_untracked(const void *p)
{
	struct mt_header h;
	if (mt_guard_holds(p))
		return mt_guard_size(p);
	if (mt_check_reads_header(p, &h))
		return h.usable;
	return REAL->malloc_usable_size ? REAL->malloc_usable_size(p) : 0;
}
