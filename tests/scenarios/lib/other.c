/* SPDX-License-Identifier: MIT */
/* A second plugin of about the same size as plugin.c, so that it takes the same addresses. */
#include <stdlib.h>

#include "scenario.h"

void plugin_leak(int blocks);

static NOINLINE void other_inner(void)
{
	KEEP(malloc(56)); /* LEAK:other_inner */
}

void plugin_leak(int blocks)
{
	for (int i = 0; i < blocks; i++)
		other_inner(); /* AT:other_leak */
}
