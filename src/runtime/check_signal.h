/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_CHECK_SIGNAL_H
#define MT_RUNTIME_CHECK_SIGNAL_H

/*
 * What check mode does when it is asked to: by a signal, and at the program's exit.
 *
 *   base + 0 (45)  switch the stacks of allocations     backtrace_enable_on_signal
 *   base + 1 (46)  write the recorded calls             record_allocs
 *   base + 2 (47)  write the live blocks                backtrace, backtrace_enable_on_signal
 *   base + 3 (48)  look for unreachable blocks          check_unreachable_on_signal
 *   base + 4 (49)  log the allocator's figures          log_allocator_stats_on_signal
 *   base + 5 (50)  check all guards and freed blocks    check_heap_on_signal
 *
 * Only what the options name has a handler. The first two are done in it, the others by the next
 * call of the malloc family. base: SIGRTMAX - 19, or check-signals= of MEMTRACK_OPTIONS.
 */

#include "runtime/check_report.h"

enum { MT_CHECK_SIGNALS = 6 };

/* Puts up the handlers and says what verbose asks for. Start-up, when nothing can fail any more. */
void mt_check_signals_begin(void);

/* In a forked child: what its parent was asked for is not its business. */
void mt_check_signals_forget(void);

/* The program sets its own action for a signal: it has it from now on. */
void mt_check_signal_taken(int number);

/* What signals have asked for and nobody has done, a bit each; atomic. */
extern uint32_t mt_check_pending MT_HIDDEN;
void mt_check_due_slow(struct mt_thread *t, const struct mt_use *use);

MT_INLINE int mt_check_is_due(void)
{
	return MT_UNLIKELY(MT_PEEK(&mt_check_pending) != 0);
}

/* First thing in an ordinary call of the malloc family. Guard held. */
MT_INLINE void mt_check_due(struct mt_thread *t, const struct mt_use *use)
{
	if (mt_check_is_due())
		mt_check_due_slow(t, use);
}

#endif
