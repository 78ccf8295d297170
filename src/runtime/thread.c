/* SPDX-License-Identifier: MIT */
/*
 * Thread states live in a table that only grows. A dead owner's state is reused: its free records
 * and memory go on, and once many rows of the state file are used up, its row too.
 */
#include "runtime/thread.h"

#include "core/clock.h"
#include "core/mem.h"
#include "core/sys.h"
#include "runtime/arena.h"
#include "runtime/check.h"
#include "runtime/light.h"
#include "runtime/lock.h"
#include "runtime/record.h"
#include "runtime/sites.h"
#include "runtime/storage.h"
#include "runtime/stream.h"

enum { STATES_MAX = 65536, REUSE_PROBES = 16, FRESH_ROWS = 4096, MEMO_AFTER = 64 };

static struct mt_thread **states; /* guarded by threads_lock */
static uint32_t state_count, reuse_cursor;
static struct mt_state_thread *first_row; /* of the first thread; guarded by threads_lock */
static uint32_t threads_lock;

void mt_threads_forget(void)
{
	states = NULL;
	state_count = reuse_cursor = threads_lock = 0;
}

int mt_threads_are_past(uint32_t generation)
{
	const struct mt_thread *self = mt_thread_self();
	uint32_t n = __atomic_load_n(&state_count, __ATOMIC_ACQUIRE);
	for (uint32_t i = 0; i < n; i++) {
		const struct mt_thread *t = states[i];
		if (t != self && t->depth &&
		    __atomic_load_n(&t->capture.generation, __ATOMIC_RELAXED) <= generation)
			return 0;
	}
	return 1;
}

static int is_dead(const struct mt_thread *t)
{
	return !mt_rt.sandboxed && mt_sys_tgkill(mt_rt.pid, (int)t->tid, 0) == -MT_ESRCH;
}

/* A state whose thread is gone (or that had our own tid), or NULL; looks at a bounded number. */
static struct mt_thread *find_dead_locked(uint32_t tid)
{
	uint32_t probes = MT_MIN(state_count, REUSE_PROBES);
	while (probes--) {
		if (reuse_cursor >= state_count)
			reuse_cursor = 0;
		struct mt_thread *t = states[reuse_cursor++];
		if (t->tid == tid || is_dead(t))
			return t;
	}
	return NULL;
}

static int has_free_capture(void)
{
	return mt_check.state == MT_CHECK_ON && mt_check.options.flags & MT_CHECK_FREE_TRACK;
}

size_t mt_thread_bytes(void)
{
	return has_free_capture() ? sizeof(struct mt_thread)
				  : offsetof(struct mt_thread, free_capture);
}

static struct mt_thread *new_state_locked(void)
{
	if (!states)
		states = mt_arena_take(STATES_MAX * sizeof(*states));
	if (!states || state_count >= STATES_MAX)
		return NULL;
	struct mt_thread *t = mt_arena_take_kept(mt_thread_bytes());
	if (!t)
		t = mt_arena_take(mt_thread_bytes());
	if (t) {
		states[state_count] = t;
		__atomic_store_n(&state_count, state_count + 1, __ATOMIC_RELEASE);
	}
	return t;
}

static void read_name(struct mt_thread *t)
{
	char name[16] = {0};
	if (!mt_rt.sandboxed && mt_sys_prctl(MT_PR_GET_NAME, (unsigned long)name, 0) == 0)
		mt_mem_copy(t->row->name, name, sizeof(name));
}

/* Gives the state a row of its own; the old one stays as the dead thread left it. */
static int give_row(struct mt_thread *t)
{
	uint32_t number = 0;
	if (!t->number || mt_rt.region[MT_REGION_THREADS]->used < FRESH_ROWS)
		number = mt_storage_take(MT_REGION_THREADS, 1);
	if (!number && !t->number)
		return -MT_ENOSPC;
	if (t->number) { /* what the dead thread had not published */
		mt_record_publish_live(t->row);
		if (t->stats)
			mt_light_publish(t->stats);
	}
	if (number) { /* cells belong to a row: the old row's cells and tokens mean nothing here */
		if (t->number)
			t->row->state = 2;
		t->number = number;
		t->row = &mt_rt.threads[number];
		t->cells.used = 0;
		for (uint32_t i = 0; t->cells.entry && i <= t->cells.mask; i++)
			t->cells.entry[i] = (struct mt_cell_entry){0};
		mt_capture_reset(&t->capture);
		mt_mem_zero(&t->capture.counts, sizeof(t->capture.counts));
	} else {
		t->row->reuse_count++;
	}
	return 0;
}

/*
 * While there is one thread it keeps the header's peak by itself and publishes nothing. The second
 * one publishes for it, before it may do so again.
 */
static void count_thread_locked(struct mt_thread *t)
{
	uint32_t before = __atomic_fetch_add(&mt_rt.hdr->threads_seen, 1, __ATOMIC_RELAXED);
	if (before == 0) {
		first_row = t->row;
		__atomic_store_n(&mt_rt.single, 1, __ATOMIC_RELEASE);
	} else if (before == 1) {
		mt_record_publish_live(first_row);
		__atomic_store_n(&mt_rt.single, 0,
				 __ATOMIC_RELEASE); /* pairs with count_live's acquire */
		mt_rt_note(MT_NOTE_PEAK_BOUNDED);
	}
}

static void init_captures(struct mt_thread *t)
{
	mt_capture_init(&t->capture, mt_rt.options.depth);
	if (has_free_capture())
		mt_capture_init(&t->free_capture, mt_check.options.free_frames);
}

MT_COLD struct mt_thread *mt_thread_make(void)
{
	if (mt_rt.sandboxed == MT_SANDBOX_NO_CALLS) { /* its id cannot be asked for */
		mt_rt_lost(MT_LOST_THREAD_FULL);
		return NULL;
	}
	uint32_t tid = (uint32_t)mt_sys_gettid();
	if (!mt_lock(&threads_lock))
		return NULL;
	struct mt_thread *t = find_dead_locked(tid);
	int fresh = !t;
	if (!t)
		t = new_state_locked();
	if (t && give_row(t))
		t = NULL;
	if (t) {
		t->tid = tid;
		count_thread_locked(t);
	}
	mt_unlock(&threads_lock);
	if (!t) {
		mt_rt_lost(MT_LOST_THREAD_FULL);
		return NULL;
	}
	if (fresh)
		init_captures(t);
	mt_stream_new_owner(t, fresh);
	t->depth = 0;
	t->held_count = 0;
	t->going = 0;
	t->tag = 0;
	t->own_label = 0;
	t->stats = NULL; /* of another row */
	t->light = 0;
	t->control = t->light_control = t->control_taken = UINT32_MAX;
	t->interval_bytes = t->every = 0;
	t->family = 0;
	t->peak_resets = mt_rt.policy.peak_resets;
	if (fresh)
		t->stacks_filter = mt_site_filter_count();
	t->until_tick = 1;
	t->free_slow_at = 0;
	t->brisk_left = MT_TICK_BRISK;
	t->pause_units = MT_TICK_QUIET_UNITS;
	t->memo_at = (uint32_t)t->capture.counts.captures + MEMO_AFTER;
	t->row->tid = tid;
	mt_thread_read_clock();
	t->row->start_unit = (uint32_t)__atomic_load_n(&mt_rt.hdr->now_unit, __ATOMIC_RELAXED);
	read_name(t);
	__atomic_store_n(&t->row->state, 1, __ATOMIC_RELEASE);
	mt_thread_set_self(t);
	return t;
}

static void forget_stacks(struct mt_capture *c)
{
	c->generation = 0;
	mt_capture_reset(c);
}

MT_COLD void mt_thread_renew(struct mt_thread *t)
{
	mt_rt_lost(MT_LOST_JUMP);
	mt_lock_abandon(t);
	/* what is in these chains is given up: their ends may not meet */
	t->free_head = t->free_count = 0;
	t->fresh_next = t->fresh_end = 0;
	t->last_pointer = t->going = 0;
	mt_stream_renew(t);
	mt_mem_zero(t->weights, sizeof(t->weights));
	forget_stacks(&t->capture);
	if (has_free_capture())
		forget_stacks(&t->free_capture);
}

void mt_thread_publish_counts(struct mt_thread *t)
{
	const struct mt_capture_counts *c = &t->capture.counts;
	struct mt_state_thread *row = t->row;
	row->captures = c->captures;
	row->memo_hits = mt_capture_memo_hits(&t->capture);
	row->same_as_last = c->same_as_last;
	row->joined = c->joined;
	row->frames_walked = c->frames_walked;
	row->row_misses = c->row_misses;
	for (int i = 0; i < MT_STACK_END_COUNT; i++)
		row->ends[i] = c->ends[i];
	row->fp_steps = c->fp_steps;
}

static void give_memo(struct mt_capture *c)
{
	struct mt_memo *memo = mt_arena_take(mt_memo_bytes());
	if (memo)
		mt_capture_memo_attach(c, memo);
}

/* Never back: between another's reading of the counter and its store may lie any time. */
MT_INLINE uint64_t read_clock(void)
{
	uint64_t unit =
		mt_rt.no_ticks ? 0 : (mt_clock_ticks() - mt_rt.tick_start) >> mt_rt.unit_shift;
	uint64_t seen = __atomic_load_n(&mt_rt.hdr->now_unit, __ATOMIC_RELAXED);
	while (unit > seen)
		if (__atomic_compare_exchange_n(&mt_rt.hdr->now_unit, &seen, unit, 0,
						__ATOMIC_RELAXED, __ATOMIC_RELAXED))
			return unit;
	return seen;
}

MT_NOINLINE void mt_thread_read_clock(void)
{
	read_clock();
}

/* After a pause nothing tells a thread that time has passed: a quiet one reads the clock at each
 * event. */
MT_NOINLINE static void be_quiet(struct mt_thread *t, int paused)
{
	t->brisk_left = paused ? MT_TICK_BRISK : t->brisk_left - 1;
	t->pause_units = t->brisk_left ? MT_TICK_QUIET_UNITS : MT_TICK_BRISK_UNITS;
	t->until_tick = 1;
	t->free_slow_at = 0;
}

/*
 * When the thread reads the clock next: one that has shown many events without a pause does once in
 * MT_TICK_EVENTS. Its frees in a row have no counter but that of the records they give back.
 */
MT_INLINE void set_pace(struct mt_thread *t, uint64_t unit)
{
	int paused = unit - t->tick_unit > t->pause_units;
	t->tick_unit = unit;
	if (MT_UNLIKELY(paused || t->brisk_left)) {
		be_quiet(t, paused);
		return;
	}
	t->until_tick = MT_TICK_EVENTS;
	t->free_slow_at = t->free_count + MT_TICK_EVENTS;
}

MT_NOINLINE void mt_thread_tick(struct mt_thread *t)
{
	set_pace(t, read_clock());
	if (MT_UNLIKELY(!t->capture.memo && t->capture.counts.captures >= t->memo_at)) {
		t->memo_at = UINT32_MAX;
		give_memo(&t->capture);
	}
	if (has_free_capture() && !t->free_capture.memo &&
	    t->free_capture.counts.captures >= MEMO_AFTER)
		give_memo(&t->free_capture);
	mt_thread_publish_counts(t);
}
