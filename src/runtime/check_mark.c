/* SPDX-License-Identifier: MIT */
/* Operators that go on to malloc and free; see check_mark.h. */
#include "runtime/check_mark.h"

__thread struct mt_check_mark mt_check_mark;

void mt_check_expect(enum mt_state_call call, uint64_t value, uintptr_t sp)
{
	struct mt_check_mark *m = &mt_check_mark;
	/* new[] calls new: the outer one counts */
	if (m->call && m->value == value && m->sp - sp < MT_MARK_REACH)
		return;
	m->value = value;
	m->sp = sp;
	m->call = call;
}
