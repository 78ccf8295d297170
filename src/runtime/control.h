/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_CONTROL_H
#define MT_RUNTIME_CONTROL_H

/*
 * How the process records, and its change while it runs. A controller outside writes a request into
 * the state file and changes header.control (docs/formats/mtk.md, Control). Every event compares
 * that word with the one its thread knows; the first thread that finds it changed applies the
 * request to mt_rt.policy, and each thread takes the policy over for itself.
 */

#include "runtime/rt.h"

/* Sets the policy from the options, or in a forked child from the parent's last wishes. 0 or a
 * negative errno value. */
int mt_control_begin(void);

/* In a forked child: what the policy refers to is gone. */
void mt_control_forget(void);

/* The thread takes over the present policy; a new request is applied first. Guard held. */
void mt_control_take(struct mt_thread *t);

/* The thread's row of STATS: 0, or a negative errno value. Guard held. */
int mt_control_give_stats(struct mt_thread *t);

/*
 * The program's own request, in the words of a controller's, applied at once. 0, or a negative
 * errno value and nothing is changed: -EINVAL, -ENOSPC, -EBUSY (a lock could not be had). Guard
 * held.
 */
int mt_control_ask(struct mt_thread *t, const char *text);

/* What sampling for a while takes the place of. */
struct mt_sampling {
	uint32_t mode, every, range_count, on;
	uint64_t interval_bytes, custom_interval_bytes;
	uint64_t meanwhile; /* the interval in its place */
};

/*
 * Samples at this interval (0: the one asked for last), recording switched on, until
 * mt_control_sample_end() goes back to *before, which is written first, unless somebody has asked
 * for something else in between. 0, or a negative errno value and nothing is changed. Guard held.
 */
int mt_control_sample(struct mt_thread *t, uint64_t interval_bytes, struct mt_sampling *before);
int mt_control_sample_end(struct mt_thread *t, const struct mt_sampling *before);

/* In a forked child, before it begins: nobody there will end it. */
void mt_control_sample_forget(const struct mt_sampling *before);

/* Now and then, guard held: begins to sample once the process is large enough for it. */
void mt_control_watch(struct mt_thread *t);

/* A block was sampled, which took so many ticks until `now`: keeps to the bounds on processor time
 * and memory. Guard held. */
void mt_control_rails(struct mt_thread *t, uint64_t ticks, uint64_t now);

/* 1 while the policy or the control word are not those that the thread has taken over. */
MT_INLINE int mt_control_changed(const struct mt_thread *t)
{
	return __atomic_load_n(&mt_rt.hdr->control, __ATOMIC_RELAXED) != t->control_taken ||
	       __atomic_load_n(&mt_rt.policy.count, __ATOMIC_RELAXED) != t->policy_taken;
}

#endif
