/* SPDX-License-Identifier: MIT */
/*
 * The same line under three labels is three sites.
 *
 * leak: work count=1 bytes=5 frames=work,main@plain sites=1
 * leak: work count=2 bytes=10 label=loading frames=work,main@loading sites=1
 * leak: work count=1 bytes=5 label=serving frames=work,main@serving sites=1
 * valgrind: has no such interface
 */
#include <stdlib.h>
#include <string.h>

#include "memtrack.h"
#include "scenario.h"

static NOINLINE void work(void)
{
	KEEP(malloc(5)); /* LEAK:work */
}

int main(void)
{
	work(); /* AT:plain */
	const char *before = memtrack_label_set("loading");
	for (size_t i = 0; i < 2 + opaque_zero; i++)
		work(); /* AT:loading */
	const char *loading = memtrack_label_set("serving");
	work(); /* AT:serving */
	memtrack_label_set(before);
	return !loading || strcmp(loading, "loading") != 0;
}
