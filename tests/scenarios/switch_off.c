/* SPDX-License-Identifier: MIT */
/*
 * What is allocated while tracking is off is not recorded; what was recorded before stays.
 *
 * leak: before count=1 bytes=10 frames=main
 * leak: after count=1 bytes=30 frames=main
 * valgrind: has no such interface
 */
#include <stdlib.h>

#include "memtrack.h"
#include "scenario.h"

int main(void)
{
	KEEP(malloc(10)); /* LEAK:before */
	memtrack_disable();
	KEEP(malloc(20));
	memtrack_enable();
	KEEP(malloc(30)); /* LEAK:after */
	return 0;
}
