/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_ACTION_H
#define MT_RUNTIME_ACTION_H

/* What a signal does, as the kernel has it: set without the C library, and without its lock. */

#include "core/sys.h"

enum {
	MT_ACTION_SIGINFO = 4,
	MT_ACTION_RESTORER = 0x04000000,
	MT_ACTION_ON_STACK = 0x08000000,
	MT_ACTION_RESTART = 0x10000000,
	MT_ACTION_NO_DEFER = 0x40000000,
	MT_ACTION_ONCE = (int)0x80000000,
	MT_HANDLER_DEFAULT = 0,
	MT_HANDLER_IGNORE = 1,
};

typedef void mt_signal_handler(int number, void *info, void *context);

struct mt_action {
	mt_signal_handler *handler;
	unsigned long flags;
	void (*restorer)(void);
	uint64_t mask;
};

/* Returns from a handler (fault.c). */
void mt_fault_restorer(void) MT_HIDDEN;

/* 1: there is a function to be called. */
MT_INLINE int mt_action_is_function(const struct mt_action *a)
{
	return (uintptr_t)a->handler != MT_HANDLER_DEFAULT &&
	       (uintptr_t)a->handler != MT_HANDLER_IGNORE;
}

/* wanted, ret_before: may be NULL. 0 or a negative errno value. */
MT_INLINE long mt_action_set(int number, const struct mt_action *wanted,
			     struct mt_action *ret_before)
{
	return mt_sys4(__NR_rt_sigaction, number, wanted, ret_before, sizeof(uint64_t));
}

/* Makes the handler's return possible where the kernel has no way of its own. */
MT_INLINE void mt_action_complete(struct mt_action *a)
{
#if defined(__x86_64__)
	a->flags |= MT_ACTION_RESTORER;
	a->restorer = mt_fault_restorer;
#else
	a->restorer = NULL;
#endif
}

#endif
