/* SPDX-License-Identifier: MIT */
/* Memory errors in the state file; see errors.h. */
#include "runtime/errors.h"

#include "core/mem.h"
#include "core/sys.h"
#include "runtime/check_report.h"
#include "runtime/sites.h"
#include "runtime/storage.h"
#include "runtime/thread.h"

enum { STACK_TAG = 0xff /* of the stacks of frees and accesses: no site's */ };

void mt_errors_begin(void)
{
	mt_storage_take(MT_REGION_ERRORS, 1);
	mt_storage_take(MT_REGION_DAMAGE, 1);
}

struct mt_state_actor mt_actor_of_event(const struct mt_thread *t, uint32_t node)
{
	struct mt_state_actor a = {.node = node};
	if (mt_rt.phase == MT_RT_ON)
		a.unit = (uint32_t)__atomic_load_n(&mt_rt.hdr->now_unit, __ATOMIC_RELAXED);
	if (t) {
		a.tid = t->tid;
		a.thread = t->number;
	} else if (mt_rt.sandboxed != MT_SANDBOX_NO_CALLS) {
		a.tid = (uint32_t)mt_sys_gettid();
	}
	return a;
}

struct mt_state_actor mt_actor(const struct mt_thread *t, uint32_t node)
{
	if (mt_rt.phase == MT_RT_ON)
		mt_thread_read_clock();
	return mt_actor_of_event(t, node);
}

struct mt_state_actor mt_actor_here(const struct mt_state_actor *a, int pid)
{
	struct mt_state_actor here = *a;
	if (pid != mt_rt.pid)
		here.thread = here.node = here.unit = 0;
	return here;
}

uint32_t mt_stack_node(struct mt_capture *c, const struct mt_caller *caller)
{
	/* the token that is remembered for such a stack is its node */
	uint32_t node = mt_capture_stack(c, caller->sp, caller->ra, caller->fp, STACK_TAG);
	if (node)
		return node;
	node = mt_site_stack_node(c);
	if (node)
		mt_capture_remember(c, node);
	return node;
}

/* The element's first word is set last: it says that the rest is there. */
static void publish(void *to, const void *from, size_t bytes)
{
	uint32_t first = *(const uint32_t *)from;
	mt_mem_copy((char *)to + sizeof(first), (const char *)from + sizeof(first),
		    bytes - sizeof(first));
	__atomic_store_n((uint32_t *)to, first, __ATOMIC_RELEASE);
}

static uint32_t write_damage(const struct mt_state_damage *damage)
{
	uint32_t n = mt_storage_take(MT_REGION_DAMAGE, 1);
	struct mt_state_damage *all = mt_storage_base(MT_REGION_DAMAGE);
	if (n)
		mt_mem_copy(&all[n], damage, sizeof(*damage));
	return n;
}

void mt_error_write(const struct mt_state_error *e, const struct mt_state_damage *damage)
{
	if (mt_rt.phase != MT_RT_ON || !mt_rt.hdr || !e->use.tid)
		return;
	uint32_t n = mt_storage_take(MT_REGION_ERRORS, 1);
	if (!n)
		return;
	struct mt_state_error copy = *e;
	if (damage)
		copy.damage = write_damage(damage);
	struct mt_state_error *all = mt_storage_base(MT_REGION_ERRORS);
	publish(&all[n], &copy, sizeof(copy));
}

void mt_error_of_page(const struct mt_state_error *e)
{
	mt_error_write(e, NULL);
	if (mt_check.state == MT_CHECK_ON)
		mt_report_page(e);
}
