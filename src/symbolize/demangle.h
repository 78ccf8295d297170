/* SPDX-License-Identifier: MIT */
#ifndef MT_SYMBOLIZE_DEMANGLE_H
#define MT_SYMBOLIZE_DEMANGLE_H

/*
 * Symbol names for people: Itanium C++ and Rust (legacy and v0) names, through libiberty. Names
 * come from files that may be hostile: length, recursion and the size of the result are bounded.
 */

#include <stdlib.h>

#include "core/cc.h"

enum {
	MT_DEMANGLE_INPUT_MAX = 16384, /* bytes; a longer name is left as it is */
	MT_DEMANGLE_OUTPUT_MAX =
		65536, /* bytes with the NUL; a longer result is cut, ends with "..." */
	/* Stack that MT_DEMANGLE_DEEP_STACK promises. */
	MT_DEMANGLE_STACK_BYTES = 64 << 20,
};

enum mt_demangle_stack {
	MT_DEMANGLE_ANY_STACK = 0,  /* names above 1024 bytes are left as they are */
	MT_DEMANGLE_DEEP_STACK = 1, /* the calling thread has MT_DEMANGLE_STACK_BYTES of stack */
};

/*
 * The readable form of a mangled name, without Rust's hash; clone suffixes of the compiler are kept
 * in the form libiberty gives them. NULL when the name is not mangled, not valid, too long, or
 * memory ran out: the caller then shows the name itself. Any thread. The caller frees with free().
 */
char *mt_demangle(const char *mangled, enum mt_demangle_stack stack) MT_MALLOC(free);

#endif
