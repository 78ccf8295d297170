/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_CHECK_SITES_H
#define MT_RUNTIME_CHECK_SITES_H

/*
 * The lists of call sites and of modules in check mode's options (wire/check_sites.h): does a
 * call's stack belong to one? A frame of a list is looked for in the first 16 frames of the stack,
 * a callstack_hash is that of the whole stack, or of as many frames as the options keep. Decided
 * once for each stack.
 */

#include "runtime/check.h"

enum mt_check_sites {
	MT_SITES_ONLY = 1,    /* only_sites */
	MT_SITES_PAGE = 2,    /* guard_page_sites */
	MT_SITES_MODULES = 4, /* only_modules */
};

/* 1: the caller's stack is one of the list's, whose text is not empty. Guard held. */
int mt_check_sites_have(struct mt_thread *t, enum mt_check_sites list,
			const struct mt_caller *caller);

/* How deep stacks must be for the lists; 0: there are none. */
uint32_t mt_check_sites_depth(const struct mt_check_options *o);

/* In a forked child: stacks have other numbers. */
void mt_check_sites_forget(void);

#endif
