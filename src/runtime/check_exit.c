/* SPDX-License-Identifier: MIT */
/*
 * Nothing is freed, and the tables stay: other threads, and what libc frees after us, find them.
 */
#include "runtime/check_exit.h"

#include "core/fmt.h"
#include "core/sys.h"
#include "runtime/backtrace.h"
#include "runtime/check.h"
#include "runtime/check_heap.h"
#include "runtime/check_stats.h"
#include "runtime/heap_dump.h"
#include "runtime/leak_list.h"
#include "runtime/log.h"
#include "runtime/quarantine.h"
#include "runtime/record_text.h"

static int done_pid; /* of the process that is through */

static void say_leak(const struct mt_leak *l, uint64_t number, uint64_t of)
{
	char line[sizeof(mt_check.program) + 128];
	struct mt_fmt f;
	mt_fmt_init(&f, line, sizeof(line));
	mt_fmt_str(&f, "+++ ");
	mt_fmt_str(&f, mt_check.program);
	mt_fmt_str(&f, " leaked block of size ");
	mt_fmt_u64(&f, l->size);
	mt_fmt_str(&f, " at 0x");
	mt_fmt_hex(&f, l->place, 1);
	mt_fmt_str(&f, " (leak ");
	mt_fmt_u64(&f, number);
	mt_fmt_str(&f, " of ");
	mt_fmt_u64(&f, of);
	mt_fmt_str(&f, ")");
	mt_log(MT_LOG_ERROR, line);
	if (!l->frames)
		return;
	mt_log(MT_LOG_ERROR, "Backtrace at time of allocation:");
	mt_backtrace_log(l->node, l->frames);
}

static void say_leaks(void)
{
	struct mt_leak_list list;
	if (mt_leak_list_make(/* at_exit */ 1, &list)) {
		mt_log(MT_LOG_ERROR, "No memory for the list of leaks.");
		return;
	}
	for (uint64_t i = 0; i < list.count; i++)
		say_leak(&list.leak[i], i + 1, list.count);
	mt_leak_list_done(&list);
}

static void finish(struct mt_thread *t)
{
	uint32_t flags = mt_check.options.flags;
	mt_check_heap_at_exit(t);
	if (flags & MT_CHECK_FREE_TRACK)
		mt_quarantine_check_all(t);
	if (t->dying) /* a report has said so */
		return;
	if (flags & MT_CHECK_LEAK_TRACK)
		say_leaks();
	if ((flags & MT_CHECK_RECORD_ALLOCS) && (flags & MT_CHECK_RECORD_ON_EXIT))
		mt_record_text_write(/* at_exit */ 1);
	if ((flags & MT_CHECK_BACKTRACE_DUMP_ON_EXIT) &&
	    (flags & (MT_CHECK_BACKTRACE | MT_CHECK_BACKTRACE_ON_SIGNAL)))
		mt_heap_dump_on_exit();
	if (flags & MT_CHECK_STATS_ON_EXIT)
		mt_check_stats_log();
}

void mt_check_exit(void)
{
	struct mt_thread *t;
	if (mt_check.state != MT_CHECK_ON || mt_rt.sandboxed || mt_enter(&t) != MT_ENTER_TRACK)
		return;
	int pid = mt_sys_getpid(); /* another one: a child that shares our memory */
	if (pid == mt_rt.pid && __atomic_exchange_n(&done_pid, pid, __ATOMIC_RELAXED) != pid)
		finish(t);
	mt_check_leave(t);
}
