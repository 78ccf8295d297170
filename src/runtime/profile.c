/* SPDX-License-Identifier: MIT */
/*
 * Profiles on request. The calling thread does all the work; while it waits it holds neither the
 * guard nor a lock, so anything may happen to it: then its request runs out, and the next one puts
 * right what it left behind.
 */
#include "runtime/profile.h"

#include "core/fmt.h"
#include "core/mem.h"
#include "core/sys.h"
#include "runtime/control.h"
#include "runtime/lock.h"
#include "runtime/record.h"
#include "runtime/sampler.h"
#include "runtime/snapshot.h"

#define MEMTRACK_IMPLEMENTATION
#include <memtrack.h>

enum {
	TAG_MAX = 64,
	DURATION_MAX_MS = 86400000,
	NAMES_MAX = 10000,
	LATE_MS = 10000,
	FUTEX_WAKE_PRIVATE = 129,
	END_TRIES = 100,
	ACCESS_WRITE_SEARCH = 3,
	DIGITS_MAX = 20
};
static const uint64_t NS_PER_MS = 1000000, NS_PER_S = 1000000000;

/* The request of this process; guarded by profile_lock, unless said otherwise. */
static struct {
	uint32_t number; /* 0: none */
	uint32_t tid;    /* of its thread */
	uint32_t writing, sampling;
	uint32_t canceled; /* futex, atomic */
	uint64_t end_ns;
	struct mt_sampling before;
	char tag[TAG_MAX + 1];
} active;
static uint32_t profile_lock, last_number;
static uint64_t last_start_ns; /* 0: never */

void mt_profile_forget(void)
{
	if (active.sampling)
		mt_control_sample_forget(&active.before);
	mt_mem_zero(&active, sizeof(active));
	profile_lock = 0;
	last_start_ns = 0;
}

static int say(struct memtrack_profile_result *r, int error, int err)
{
	r->error = error;
	r->errno_value = -err;
	if (error)
		r->path[0] = 0;
	return error;
}

static int say_failed(struct memtrack_profile_result *r, int err)
{
	int full = err == -MT_ENOSPC || err == -MT_EDQUOT;
	if (err == -MT_ENOTSUP)
		return say(r, MEMTRACK_PROFILE_UNSUPPORTED, err);
	return say(r, full ? MEMTRACK_PROFILE_NO_SPACE : MEMTRACK_PROFILE_FAILED, err);
}

/* The guard, or NULL after *r says why not. */
static struct mt_thread *enter(struct memtrack_profile_result *r)
{
	struct mt_thread *t;
	enum mt_enter how = mt_enter(&t);
	if (how == MT_ENTER_TRACK)
		return t;
	if (how == MT_ENTER_NESTED)
		say(r, MEMTRACK_PROFILE_FAILED, -MT_EBUSY);
	else
		say(r, MEMTRACK_PROFILE_UNSUPPORTED, -MT_ENOSYS);
	return NULL;
}

static uint64_t now_ns(void)
{
	return mt_sys_clock_ns(MT_CLOCK_MONOTONIC);
}

/* --- what is asked for --------------------------------------------------------------------- */

static int is_tag(const char *s)
{
	size_t n = 0;
	for (; s && s[n] && n <= TAG_MAX; n++) {
		char lower = (char)(s[n] | 0x20);
		if (!(lower >= 'a' && lower <= 'z') && !(s[n] >= '0' && s[n] <= '9') &&
		    s[n] != '-' && s[n] != '_')
			return 0;
	}
	return n >= 1 && n <= TAG_MAX;
}

static int is_valid(const struct memtrack_profile_request *q)
{
	if (!q || q->struct_bytes != sizeof(*q) || !is_tag(q->tag) || !q->directory ||
	    !*q->directory)
		return 0;
	if (q->type == MEMTRACK_PROFILE_SNAPSHOT)
		return !q->duration_ms && !q->interval_bytes;
	return q->type == MEMTRACK_PROFILE_SAMPLE && q->duration_ms >= 1 &&
	       q->duration_ms <= DURATION_MAX_MS && q->interval_bytes <= MT_INTERVAL_MAX;
}

/* The path up to its number. 0, or a negative errno value: nothing can be written there. */
static int begin_path(const struct memtrack_profile_request *q, struct memtrack_profile_result *r)
{
	struct mt_fmt f;
	size_t name = sizeof("/memtrack---.mtk") + TAG_MAX + 2 * DIGITS_MAX;
	if (mt_str_len(q->directory) + name > sizeof(r->path))
		return -MT_ENAMETOOLONG;
	mt_fmt_init(&f, r->path, sizeof(r->path));
	mt_fmt_str(&f, q->directory);
	mt_fmt_str(&f, "/");
	return (int)mt_sys_access(r->path, ACCESS_WRITE_SEARCH);
}

static int write_file(struct mt_thread *t, const struct memtrack_profile_request *q,
		      struct memtrack_profile_result *r, uint32_t number)
{
	int err = -MT_EEXIST;
	for (uint32_t n = number; err == -MT_EEXIST && n - number < NAMES_MAX; n++) {
		struct mt_fmt f;
		mt_fmt_init(&f, r->path, sizeof(r->path));
		mt_fmt_str(&f, q->directory);
		mt_fmt_str(&f, "/memtrack-");
		mt_fmt_str(&f, q->tag);
		mt_fmt_str(&f, "-");
		mt_fmt_u64(&f, (uint64_t)mt_rt.pid);
		mt_fmt_str(&f, "-");
		mt_fmt_u64(&f, n);
		mt_fmt_str(&f, ".mtk");
		err = mt_snapshot_write(t, r->path);
	}
	return err;
}

/* --- its course ---------------------------------------------------------------------------- */

static int end_sampling_locked(struct mt_thread *t)
{
	int err = -MT_EBUSY;
	for (int i = 0; active.sampling && err == -MT_EBUSY && i < END_TRIES; i++)
		err = mt_control_sample_end(t, &active.before);
	return active.sampling ? err : 0;
}

/* The thread has ended, or has left its request by a jump: it writes with the guard held. */
static int is_abandoned_locked(const struct mt_thread *t)
{
	if (!active.number)
		return 0;
	if (!mt_rt.sandboxed && mt_sys_tgkill(mt_rt.pid, (int)active.tid, 0) == -MT_ESRCH)
		return 1;
	return active.writing ? active.tid == t->tid
			      : now_ns() > active.end_ns + LATE_MS * NS_PER_MS;
}

static void clear_abandoned_locked(struct mt_thread *t)
{
	if (!is_abandoned_locked(t))
		return;
	end_sampling_locked(t);
	active.number = active.sampling = 0;
}

static int begin_locked(struct mt_thread *t, const struct memtrack_profile_request *q,
			struct memtrack_profile_result *r)
{
	uint64_t now = now_ns(), rate_ns = mt_rt.options.profile_rate_s * NS_PER_S;
	int sampling = q->type == MEMTRACK_PROFILE_SAMPLE;
	clear_abandoned_locked(t);
	if (active.number)
		return say(r, MEMTRACK_PROFILE_IN_PROGRESS, 0);
	if (last_start_ns && now - last_start_ns < rate_ns)
		return say(r, MEMTRACK_PROFILE_RATE_LIMITED, 0);
	/* known before sampling begins: a child forked in between goes back by it */
	mt_mem_zero(&active.before, sizeof(active.before));
	active.sampling = (uint32_t)sampling;
	int err = sampling ? mt_control_sample(t, q->interval_bytes, &active.before) : 0;
	if (err) {
		active.sampling = 0;
		return say_failed(r, err);
	}
	mt_mem_copy(active.tag, q->tag, mt_str_len(q->tag) + 1);
	active.writing = 0;
	active.canceled = 0;
	active.tid = t->tid;
	active.end_ns = now + q->duration_ms * NS_PER_MS;
	active.number = ++last_number;
	last_start_ns = now;
	return MEMTRACK_PROFILE_NONE;
}

/* The request's number and end, or an error. */
static int begin(const struct memtrack_profile_request *q, struct memtrack_profile_result *r,
		 uint32_t *ret_number, uint64_t *ret_end_ns)
{
	struct mt_thread *t = enter(r);
	if (!t)
		return r->error;
	int error, err = 0;
	if (mt_rt.sandboxed == MT_SANDBOX_NO_CALLS) {
		error = say(r, MEMTRACK_PROFILE_UNSUPPORTED, -MT_ENOSYS);
	} else if (!is_valid(q)) {
		error = say(r, MEMTRACK_PROFILE_INVALID_REQUEST, -MT_EINVAL);
	} else if ((err = begin_path(q, r)) != 0) {
		error = say_failed(r, err);
	} else if (!mt_lock(&profile_lock)) {
		error = say(r, MEMTRACK_PROFILE_FAILED, -MT_EBUSY);
	} else {
		error = begin_locked(t, q, r);
		*ret_number = active.number;
		*ret_end_ns = active.end_ns;
		mt_unlock(&profile_lock);
	}
	mt_leave(t);
	return error;
}

/* Until the time is over or the request is canceled. */
static void wait_for(uint64_t end_ns)
{
	for (;;) {
		uint64_t now = now_ns();
		if (now >= end_ns || __atomic_load_n(&active.canceled, __ATOMIC_ACQUIRE))
			return;
		struct mt_timespec left = {(int64_t)((end_ns - now) / NS_PER_S),
					   (int64_t)((end_ns - now) % NS_PER_S)};
		mt_sys4(__NR_futex, &active.canceled, MT_FUTEX_WAIT_PRIVATE, 0, &left);
	}
}

/* From here on it cannot be canceled. 1: it was, or is another's by now. */
static int is_over(uint32_t number)
{
	if (!mt_lock(&profile_lock))
		return active.number != number || active.canceled;
	int mine = active.number == number;
	int over = !mine || active.canceled;
	if (mine)
		active.writing = 1;
	mt_unlock(&profile_lock);
	return over;
}

/* Goes back to what was before: 0, or a negative errno value. */
static int let_go(struct mt_thread *t, uint32_t number)
{
	int err = -MT_EBUSY;
	for (int i = 0; i < END_TRIES; i++) {
		if (!mt_lock(&profile_lock))
			continue;
		err = 0;
		if (active.number == number) {
			err = end_sampling_locked(t);
			active.number = active.sampling = 0;
		}
		mt_unlock(&profile_lock);
		break;
	}
	return err;
}

static int finish(const struct memtrack_profile_request *q, struct memtrack_profile_result *r,
		  uint32_t number)
{
	struct mt_thread *t = enter(r);
	if (!t)
		return r->error;
	int over = is_over(number);
	int err = over ? 0 : write_file(t, q, r, number);
	int back = let_go(t, number);
	mt_leave(t);
	if (over)
		return say(r, MEMTRACK_PROFILE_CANCELED, 0);
	return err ? say_failed(r, err) : say(r, MEMTRACK_PROFILE_NONE, back);
}

int memtrack_profile(const struct memtrack_profile_request *request,
		     struct memtrack_profile_result *result)
{
	uint32_t number = 0;
	uint64_t end_ns = 0;
	if (!result || result->struct_bytes != sizeof(*result))
		return MEMTRACK_PROFILE_INVALID_REQUEST;
	int error = begin(request, result, &number, &end_ns);
	if (error)
		return error;
	wait_for(end_ns);
	return finish(request, result, number);
}

int memtrack_profile_cancel(const char *tag)
{
	struct mt_thread *t;
	enum mt_enter how = mt_enter(&t);
	if (how != MT_ENTER_TRACK)
		return how == MT_ENTER_NESTED ? -MT_EBUSY : -MT_ENOSYS;
	int err = -MT_EBUSY;
	if (mt_lock(&profile_lock)) {
		int found =
			active.number && !active.writing && (!tag || mt_str_equal(tag, active.tag));
		if (found) {
			__atomic_store_n(&active.canceled, 1, __ATOMIC_RELEASE);
			mt_sys3(__NR_futex, &active.canceled, FUTEX_WAKE_PRIVATE, 1);
			clear_abandoned_locked(t);
		}
		err = found ? 0 : -MT_ENOENT;
		mt_unlock(&profile_lock);
	}
	mt_leave(t);
	return err;
}
