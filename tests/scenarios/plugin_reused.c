/* SPDX-License-Identifier: MIT */
/*
 * Two libraries are loaded in turn at the same addresses: each leak names its own library. The
 * program fails if the loader did not reuse the address.
 *
 * lib: libplugin.so plugin.c -O2 -g
 * lib: libother1.so other.c -O2 -g
 * leak: plugin_inner count=20 bytes=960 frames=plugin_inner,plugin_leak@plugin_leak,use@call,main
 * leak: other_inner count=20 bytes=1120 frames=other_inner,plugin_leak@other_leak,use@call,main
 * foreign: any
 * valgrind: does not always reuse the address
 */
#include <dlfcn.h>

#include "scenario.h"

static NOINLINE void *use(const char *path)
{
	void *plugin = dlopen(path, RTLD_NOW);
	if (!plugin)
		return NULL;
	void (*leak)(int) = (void (*)(int))dlsym(plugin, "plugin_leak");
	leak(2); /* AT:call */
	dlclose(plugin);
	return (void *)leak;
}

int main(void)
{
	int same = 0;
	for (int i = 0; i < 10; i++) {
		void *a = use("./libplugin.so");
		void *b = use("./libother1.so");
		same += a && a == b;
	}
	return same ? 0 : 3;
}
