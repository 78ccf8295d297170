/* SPDX-License-Identifier: MIT */
#include "runtime/look.h"

#include "core/clock.h"
#include "core/sys.h"
#include "runtime/look_tool.h"
#include "runtime/provider.h"
#include "runtime/rt.h"

enum { FUTEX_WAIT = 0, MS_NS = 1000000, LOOK_MS = 50, PR_SET_PTRACER_ANY = -1 };
#define PR_SET_PTRACER 0x59616d61

static uint32_t is_asking; /* atomic */
static int done_pid;       /* of the process that asked at its end */

/* The launcher watches for changes of the file's times. 0 or a negative errno value. */
static long ring(void)
{
	return mt_sys4(__NR_utimensat, MT_AT_FDCWD, mt_rt.state_path, NULL, 0);
}

/*
 * Who may read our memory, where Yama lets only ancestors do so: a program that has named another
 * process itself (a crash reporter does) must do so again.
 */
static void permit(long pid)
{
	char scope = 0;
	long fd = mt_sys_open("/proc/sys/kernel/yama/ptrace_scope", MT_O_RDONLY | MT_O_CLOEXEC, 0);
	if (fd < 0)
		return;
	long n = mt_sys_read((int)fd, &scope, 1);
	mt_sys_close((int)fd);
	if (n == 1 && scope == '1')
		mt_sys2(__NR_prctl, PR_SET_PTRACER, pid);
}

static int has_looker(void)
{
	uint32_t pid = mt_rt.options.looker_pid;
	return pid && mt_sys2(__NR_kill, pid, 0) != -MT_ESRCH;
}

/*
 * 1: the request was served. Handlers may interrupt the wait. tool: a process of ours that serves
 * it, 0: there is none.
 */
static int wait_for(uint32_t number, uint64_t wait_ns, long tool)
{
	struct mt_state_header *h = mt_rt.hdr;
	uint64_t end = mt_sys_clock_ns(MT_CLOCK_MONOTONIC) + wait_ns;
	for (int is_over = 0;; is_over = tool && mt_look_tool_is_over(tool)) {
		uint32_t done = __atomic_load_n(&h->look_done, __ATOMIC_ACQUIRE);
		uint64_t now = mt_sys_clock_ns(MT_CLOCK_MONOTONIC);
		if (done == number || now >= end || is_over)
			return done == number;
		uint64_t ns = tool ? MT_MIN(end - now, (uint64_t)LOOK_MS * MS_NS) : end - now;
		struct mt_timespec left = {(int64_t)(ns / 1000000000), (int64_t)(ns % 1000000000)};
		mt_sys4(__NR_futex, &h->look_done, FUTEX_WAIT, done, &left);
	}
}

static uint32_t begin_request(enum mt_state_look_why why)
{
	struct mt_state_header *h = mt_rt.hdr;
	h->look_why = why;
	h->look_result = MT_LOOK_NONE;
	return __atomic_add_fetch(&h->look_asked, 1, __ATOMIC_RELEASE);
}

static enum mt_state_look result(int is_served)
{
	struct mt_state_header *h = mt_rt.hdr;
	if (!is_served)
		__atomic_store_n(&h->look_result, MT_LOOK_NO_ANSWER, __ATOMIC_RELEASE);
	return (enum mt_state_look)__atomic_load_n(&h->look_result, __ATOMIC_ACQUIRE);
}

static enum mt_state_look ask_looker(enum mt_state_look_why why, uint64_t wait_ns)
{
	permit(mt_rt.options.looker_pid);
	uint32_t number = begin_request(why);
	return result(!ring() && wait_for(number, wait_ns, 0));
}

static enum mt_state_look ask_tool(enum mt_state_look_why why, uint64_t wait_ns)
{
	permit(PR_SET_PTRACER_ANY); /* its number is known only when it runs */
	uint32_t number = begin_request(why);
	long tool = mt_look_tool_start();
	if (mt_sys_is_error(tool)) {
		permit(0);
		return tool == -MT_ENOENT ? MT_LOOK_NONE : MT_LOOK_FAILED;
	}
	int is_served = wait_for(number, wait_ns, tool);
	permit(0);
	return result(is_served);
}

static int take_turn(void)
{
	return mt_rt.phase == MT_RT_ON && !mt_rt.sandboxed &&
	       !__atomic_exchange_n(&is_asking, 1, __ATOMIC_ACQUIRE);
}

static void end_turn(void)
{
	__atomic_store_n(&is_asking, 0, __ATOMIC_RELEASE);
}

enum mt_state_look mt_look_now(enum mt_state_look_why why)
{
	uint64_t wait_ns = (uint64_t)MT_LOOK_ANSWER_MS * MS_NS;
	if (!take_turn())
		return MT_LOOK_FAILED;
	enum mt_state_look found = has_looker() ? ask_looker(why, wait_ns) : ask_tool(why, wait_ns);
	end_turn();
	return found;
}

int mt_look_is_table(void)
{
	const struct mt_state_header *h = mt_rt.hdr;
	return h->first_mode == h->mode &&
	       (h->mode == MT_MODE_FULL || h->mode == MT_MODE_RECORD || h->mode == MT_MODE_CHECK);
}

/* Nothing is to be found where nothing is live. A sanitizer has a search of its own. */
static int is_wanted(void)
{
	const struct mt_state_header *h = mt_rt.hdr;
	if (mt_provider.has_sanitizer)
		return 0;
	if (mt_rt.options.lost == MT_LOST_BLOCKS_NONE || !mt_look_is_table())
		return 0;
	if (mt_rt.region[MT_REGION_LIVE]->used <= 1 && mt_rt.region[MT_REGION_LARGE]->used <= 1)
		return 0;
	return mt_rt.options.lost == MT_LOST_BLOCKS_ALL ||
	       (uint32_t)h->ppid == mt_rt.options.launcher_pid;
}

void mt_look_at_exit(void)
{
	if (mt_rt.phase != MT_RT_ON || !is_wanted())
		return;
	int pid = mt_sys_getpid(); /* another one: a child that shares our memory */
	if (pid != mt_rt.pid || __atomic_exchange_n(&done_pid, pid, __ATOMIC_RELAXED) == pid)
		return;
	if (!has_looker() || !take_turn())
		return;
	ask_looker(MT_LOOK_AT_EXIT, (uint64_t)MT_LOOK_EXIT_MS * MS_NS);
	end_turn();
}
