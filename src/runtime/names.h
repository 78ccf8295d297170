/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_NAMES_H
#define MT_RUNTIME_NAMES_H

/*
 * The name under which a hook is reached. Preload: the function's own name, exported. Link time:
 * the linker's --wrap name, so that a static program's calls come here.
 */

#include "core/cc.h"

#ifdef MT_BUILD_WRAP
#define MT_HOOK(name) __wrap_##name
#define MT_HOOK_ATTR __attribute__((used))
#else
#define MT_HOOK(name) name
#define MT_HOOK_ATTR MT_PUBLIC
#endif

#endif
