/* SPDX-License-Identifier: MIT */
/* A plugin that leaks in an exported and in a static function. */
#include <stdlib.h>

#include "scenario.h"

void plugin_leak(int blocks);

static NOINLINE void plugin_inner(void)
{
	KEEP(malloc(48)); /* LEAK:plugin_inner */
}

void plugin_leak(int blocks)
{
	for (int i = 0; i < blocks; i++)
		plugin_inner(); /* AT:plugin_leak */
}
