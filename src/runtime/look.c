/* SPDX-License-Identifier: MIT */
#include "runtime/look.h"

#include "core/clock.h"
#include "core/sys.h"
#include "runtime/check.h"
#include "runtime/rt.h"

enum { FUTEX_WAIT = 0, MS_NS = 1000000 };
#define PR_SET_PTRACER 0x59616d61

static uint32_t is_asking; /* atomic */
static int done_pid;       /* of the process that asked at its end */

/* The launcher watches for changes of the file's times. 0 or a negative errno value. */
static long ring(void)
{
	return mt_sys4(__NR_utimensat, MT_AT_FDCWD, mt_rt.state_path, NULL, 0);
}

/* Whether somebody is there who would answer; who may read our memory then (Yama). */
static int has_looker(void)
{
	uint32_t pid = mt_rt.options.looker_pid;
	if (!pid || mt_sys2(__NR_kill, pid, 0) == -MT_ESRCH)
		return 0;
	mt_sys2(__NR_prctl, PR_SET_PTRACER, pid);
	return 1;
}

/* 1: the request was served. Handlers may interrupt the wait. */
static int wait_for(uint32_t number, uint64_t wait_ns)
{
	struct mt_state_header *h = mt_rt.hdr;
	uint64_t end = mt_sys_clock_ns(MT_CLOCK_MONOTONIC) + wait_ns;
	for (;;) {
		uint32_t done = __atomic_load_n(&h->look_done, __ATOMIC_ACQUIRE);
		uint64_t now = mt_sys_clock_ns(MT_CLOCK_MONOTONIC);
		if (done == number || now >= end)
			return done == number;
		struct mt_timespec left = {(int64_t)((end - now) / 1000000000),
					   (int64_t)((end - now) % 1000000000)};
		mt_sys4(__NR_futex, &h->look_done, FUTEX_WAIT, done, &left);
	}
}

static enum mt_state_look ask(enum mt_state_look_why why, uint64_t wait_ns)
{
	struct mt_state_header *h = mt_rt.hdr;
	h->look_why = why;
	h->look_result = MT_LOOK_NONE;
	uint32_t number = __atomic_add_fetch(&h->look_asked, 1, __ATOMIC_RELEASE);
	if (ring() || !wait_for(number, wait_ns))
		__atomic_store_n(&h->look_result, MT_LOOK_NO_ANSWER, __ATOMIC_RELEASE);
	return (enum mt_state_look)__atomic_load_n(&h->look_result, __ATOMIC_ACQUIRE);
}

static enum mt_state_look ask_alone(enum mt_state_look_why why, uint64_t wait_ns)
{
	if (mt_rt.phase != MT_RT_ON || mt_rt.sandboxed || !has_looker())
		return MT_LOOK_NONE;
	if (__atomic_exchange_n(&is_asking, 1, __ATOMIC_ACQUIRE))
		return MT_LOOK_FAILED;
	enum mt_state_look result = ask(why, wait_ns);
	__atomic_store_n(&is_asking, 0, __ATOMIC_RELEASE);
	return result;
}

enum mt_state_look mt_look_now(enum mt_state_look_why why)
{
	return ask_alone(why, (uint64_t)MT_LOOK_ANSWER_MS * MS_NS);
}

/* With a record of every block, and blocks that are live: of others it would say nothing. */
static int is_wanted(void)
{
	const struct mt_state_header *h = mt_rt.hdr;
	int is_full =
		h->mode == MT_MODE_FULL || h->mode == MT_MODE_RECORD || h->mode == MT_MODE_CHECK;
	if (mt_rt.region[MT_REGION_LIVE]->used <= 1 && mt_rt.region[MT_REGION_LARGE]->used <= 1)
		return 0;
	if (mt_rt.options.lost == MT_LOST_BLOCKS_NONE || h->first_mode != h->mode || !is_full)
		return 0;
	return mt_rt.options.lost == MT_LOST_BLOCKS_ALL ||
	       (uint32_t)h->ppid == mt_rt.options.launcher_pid;
}

void mt_look_at_exit(void)
{
	if (mt_rt.phase != MT_RT_ON || !mt_rt.options.launcher_pid || !is_wanted())
		return;
	int pid = mt_sys_getpid(); /* another one: a child that shares our memory */
	if (pid != mt_rt.pid || __atomic_exchange_n(&done_pid, pid, __ATOMIC_RELAXED) == pid)
		return;
	ask_alone(MT_LOOK_AT_EXIT, (uint64_t)MT_LOOK_EXIT_MS * MS_NS);
}
