/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_FOREIGN_H
#define MT_RUNTIME_FOREIGN_H

/*
 * Blocks that check mode let pass as the allocator gave them: made while the tracker started, or by
 * a call inside another one. They have no header and are in no table, and their free is no error.
 * A fixed set of addresses without a lock. Any moment, any thread.
 */

#include "core/cc.h"

void mt_foreign_add(const void *p);

enum { MT_FOREIGN_SLOTS = 4096 };

/* How many are kept of each hash: nearly every question ends here. atomic */
extern uint16_t mt_foreign_homes[MT_FOREIGN_SLOTS] MT_HIDDEN;

MT_INLINE uint32_t mt_foreign_home(const void *p)
{
	return (uint32_t)((uintptr_t)p >> 4) * 0x9e3779b1u >> 20;
}

/* 1: it was one, and is none any more. */
int mt_foreign_remove_slow(const void *p);

MT_INLINE int mt_foreign_remove(const void *p)
{
	uint16_t *home = &mt_foreign_homes[mt_foreign_home(p)];
	return MT_UNLIKELY(MT_PEEK(home) != 0) && mt_foreign_remove_slow(p);
}

/* 1: some could not be kept, so that an unknown block may be one. */
int mt_foreign_is_full(void);

#endif
