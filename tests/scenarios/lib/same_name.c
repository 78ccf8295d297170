/* SPDX-License-Identifier: MIT */
/* The other file of same_names.c. */
#include <stdlib.h>

#include "scenario.h"

void other_file(void);

static NOINLINE void helper(void)
{
	KEEP(malloc(71)); /* LEAK:there */
}

void other_file(void)
{
	helper();
	opaque_zero = 0;
}
