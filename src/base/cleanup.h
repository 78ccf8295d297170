/* SPDX-License-Identifier: MIT */
#ifndef MT_BASE_CLEANUP_H
#define MT_BASE_CLEANUP_H

/*
 * Release at the end of the scope:
 *
 *	mt_auto(free) char *text = NULL;
 *	mt_auto(close) int fd = -1;
 *
 * A module that owns a type adds its own name with MT_AUTO_DEFINE behind the release function. The
 * variable must be initialized where it is declared. To give the object away, set it to NULL (-1).
 */

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/cc.h"

#define mt_auto(name) __attribute__((cleanup(mt_auto_##name)))

/* Makes mt_auto(name) call release(variable); `type` is the variable's type. */
#define MT_AUTO_DEFINE(name, type, release) \
	MT_UNUSED static inline void mt_auto_##name(type *var) \
	{ \
		release(*var); \
	}

/* As above for objects that live in the variable itself: calls release(&variable). */
#define MT_AUTO_DEFINE_INPLACE(name, type, release) \
	MT_UNUSED static inline void mt_auto_##name(type *var) \
	{ \
		release(var); \
	}

/* Any pointer from the malloc family. */
MT_UNUSED static inline void mt_auto_free(void *var)
{
	void *p;
	__builtin_memcpy(&p, var, sizeof(p));
	free(p);
}

/* A descriptor; negative: none. */
MT_UNUSED static inline void mt_auto_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

/* A stdio stream or NULL; the result of fclose is lost: writers close by hand first. */
MT_UNUSED static inline void mt_auto_fclose(FILE **f)
{
	if (*f)
		fclose(*f);
}

#endif
