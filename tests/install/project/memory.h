/* SPDX-License-Identifier: MIT */
/* The common header of the project: tracking is compiled in when it is asked for. */
#ifndef APP_MEMORY_H
#define APP_MEMORY_H

#include <stdlib.h>
#ifdef ENABLE_MEMTRACK
#include <memtrack.h>
#endif

#endif
