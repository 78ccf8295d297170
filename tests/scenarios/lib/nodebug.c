/* SPDX-License-Identifier: MIT */
/* Built without debug information. */
#include <stdlib.h>

#include "scenario.h"

void *nodebug_make(size_t size);

void *nodebug_make(size_t size)
{
	void *p = malloc(size);
	KEEP(p);
	return p;
}
