/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_CHECK_MARK_H
#define MT_RUNTIME_CHECK_MARK_H

/*
 * operator new and delete jump on to malloc and free, and leave a mark for them: who was called,
 * with which size or pointer, and where its frame stood. Owner thread.
 */

#include "runtime/check.h"

enum { MT_MARK_REACH = 4096 /* how much deeper malloc's frame may lie */ };

struct mt_check_mark {
	uint64_t value;
	uintptr_t sp;
	enum mt_state_call call; /* 0: none */
};
extern __thread struct mt_check_mark mt_check_mark __attribute__((tls_model("initial-exec")))
MT_HIDDEN;

/*
 * The operator that this call comes from, or the call itself. An aligned operator new may ask for
 * up to one alignment more (slack): *value becomes what its caller asked for.
 */
MT_INLINE enum mt_state_call mt_check_called(enum mt_state_call call, size_t *value, size_t slack,
					     uintptr_t sp)
{
	struct mt_check_mark *m = &mt_check_mark;
	if (MT_LIKELY(!m->call))
		return call;
	enum mt_state_call by = m->call;
	int fits = *value - m->value <= slack && m->sp - sp < MT_MARK_REACH;
	m->call = (enum mt_state_call)0;
	if (!fits)
		return call;
	*value = m->value;
	return by;
}

#endif
