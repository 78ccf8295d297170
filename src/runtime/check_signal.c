/* SPDX-License-Identifier: MIT */
/*
 * Signals of check mode; see check_signal.h. Android takes these numbers for itself. Here they may
 * be the program's: a handler that was there before ours is called behind it, and one that comes
 * later takes the signal over (where the library is linked in, without our noticing).
 */
#include "runtime/check_signal.h"

#include "core/fmt.h"
#include "core/sys.h"
#include "runtime/action.h"
#include "runtime/check_heap.h"
#include "runtime/check_stats.h"
#include "runtime/check_unreachable.h"
#include "runtime/log.h"
#include "runtime/heap_dump.h"
#include "runtime/record_text.h"

enum what { SWITCH, RECORD, DUMP, UNREACHABLE, STATS, HEAP };

/* What the options have to say for a signal to be ours, and what verbose tells of it. */
static const struct {
	uint32_t flags;
	const char *purpose;
} wishes[MT_CHECK_SIGNALS] = {
	[SWITCH] = {MT_CHECK_BACKTRACE_ON_SIGNAL, "enable backtracing"},
	[RECORD] = {MT_CHECK_RECORD_ALLOCS, "dump the allocation records"},
	[DUMP] = {MT_CHECK_BACKTRACE | MT_CHECK_BACKTRACE_ON_SIGNAL, "dump the backtrace"},
	[UNREACHABLE] = {MT_CHECK_UNREACHABLE_ON_SIGNAL, "check for unreachable memory"},
	[STATS] = {MT_CHECK_STATS_ON_SIGNAL, "log allocator stats"},
	[HEAP] = {MT_CHECK_HEAP_ON_SIGNAL, "check the heap"},
};

uint32_t mt_check_pending;

static uint32_t ours; /* handlers of ours that are in force, a bit each; atomic */

static int base(void)
{
	return (int)mt_rt.options.check_signals;
}

/* --- the handler --------------------------------------------------------------------------- */

static struct mt_action before[MT_CHECK_SIGNALS]; /* the program's, which ours replaced */

static void do_or_note(uint32_t what)
{
	if (what == SWITCH)
		__atomic_fetch_xor(&mt_check.capturing, 1, __ATOMIC_RELAXED);
	else if (what == RECORD)
		mt_record_text_write(0);
	else
		__atomic_fetch_or(&mt_check_pending, 1u << what, __ATOMIC_RELAXED);
}

static void on_signal(int number, void *info, void *context)
{
	uint32_t what = (uint32_t)(number - base());
	if (what >= MT_CHECK_SIGNALS)
		return;
	do_or_note(what);
	if (mt_action_is_function(&before[what]))
		before[what].handler(number, info, context);
}

static void put_up(uint32_t what)
{
	struct mt_action a = {
		.handler = on_signal,
		.flags = MT_ACTION_SIGINFO | MT_ACTION_ON_STACK | MT_ACTION_RESTART,
	};
	mt_action_complete(&a);
	/* first known, then in force: the handler looks at it */
	if (mt_action_set(base() + (int)what, NULL, &before[what]) ||
	    mt_action_set(base() + (int)what, &a, NULL))
		return;
	__atomic_fetch_or(&ours, 1u << what, __ATOMIC_RELAXED);
}

/* --- start --------------------------------------------------------------------------------- */

static int is_wanted(uint32_t what)
{
	return (mt_check.options.flags & wishes[what].flags) != 0;
}

static void say(const char *a, const char *b)
{
	char line[sizeof(mt_check.program) + 128];
	struct mt_fmt f;
	mt_fmt_init(&f, line, sizeof(line));
	mt_fmt_str(&f, mt_check.program);
	mt_fmt_str(&f, ": ");
	mt_fmt_str(&f, a);
	mt_fmt_str(&f, b);
	mt_log(MT_LOG_INFO, line);
}

static void say_how(uint32_t what)
{
	char text[96];
	struct mt_fmt f;
	mt_fmt_init(&f, text, sizeof(text));
	mt_fmt_str(&f, "Run: 'kill -");
	mt_fmt_u64(&f, (uint64_t)base() + what);
	mt_fmt_str(&f, " ");
	mt_fmt_u64(&f, (uint64_t)mt_rt.pid);
	mt_fmt_str(&f, "' to ");
	mt_fmt_str(&f, wishes[what].purpose);
	say(text, ".");
}

void mt_check_signals_begin(void)
{
	static const enum what order[] = {SWITCH, DUMP, RECORD, STATS, UNREACHABLE, HEAP};
	int is_verbose = (mt_check.options.flags & MT_CHECK_VERBOSE) != 0;
	for (uint32_t i = 0; i < MT_ARRAY_LEN(order); i++) {
		if (!base() || !is_wanted(order[i]))
			continue;
		put_up(order[i]);
		if (is_verbose && ours >> order[i] & 1)
			say_how(order[i]);
	}
	if (is_verbose)
		say("malloc debug enabled", "");
}

void mt_check_signals_forget(void)
{
	mt_check_pending = 0;
}

void mt_check_signal_taken(int number)
{
	uint32_t what = (uint32_t)(number - base());
	if (MT_LIKELY(!ours) || what >= MT_CHECK_SIGNALS)
		return;
	if (!mt_rt.sandboxed && mt_sys_getpid() != mt_rt.pid)
		return; /* a child that shares our memory has actions of its own */
	if (!(__atomic_fetch_and(&ours, ~(1u << what), __ATOMIC_RELAXED) >> what & 1))
		return;
	if (mt_check.options.flags & MT_CHECK_VERBOSE)
		say("The program has taken over the signal to ", wishes[what].purpose);
}

/* --- what is due --------------------------------------------------------------------------- */

MT_COLD void mt_check_due_slow(struct mt_thread *t, const struct mt_use *use)
{
	uint32_t due = __atomic_exchange_n(&mt_check_pending, 0, __ATOMIC_RELAXED);
	if (due & 1u << UNREACHABLE)
		mt_check_unreachable();
	if (due & 1u << DUMP)
		mt_heap_dump_on_signal();
	if (due & 1u << STATS)
		mt_check_stats_log();
	if (due & 1u << HEAP)
		mt_check_heap(t, use);
}
