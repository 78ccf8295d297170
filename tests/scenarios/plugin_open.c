/* SPDX-License-Identifier: MIT */
/*
 * A leak in a library that dlopen loaded and that is still loaded.
 *
 * lib: libplugin.so plugin.c -O2 -g
 * leak: plugin_inner count=9 bytes=432 frames=plugin_inner,plugin_leak@plugin_leak,main@c sites=1
 * foreign: any
 */
#include <dlfcn.h>

#include "scenario.h"

int main(void)
{
	void *plugin = dlopen("./libplugin.so", RTLD_NOW);
	if (!plugin)
		return 1;
	void (*leak)(int) = (void (*)(int))dlsym(plugin, "plugin_leak");
	if (!leak)
		return 2;
	leak(9); /* AT:c */
	return (int)opaque_zero;
}
