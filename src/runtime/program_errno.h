/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_PROGRAM_ERRNO_H
#define MT_RUNTIME_PROGRAM_ERRNO_H

/* The program's errno, where a call of ours takes the place of one that sets it. */

#include "core/cc.h"

extern int *__errno_location(void) __attribute__((weak));

MT_INLINE int mt_errno_get(void)
{
	return __errno_location ? *__errno_location() : 0;
}

MT_INLINE void mt_errno_set(int value)
{
	if (__errno_location)
		*__errno_location() = value;
}

/* NULL, as a call that fails returns. */
MT_INLINE void *mt_errno_refuse(int value)
{
	mt_errno_set(value);
	return NULL;
}

#endif
