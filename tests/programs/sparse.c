/* SPDX-License-Identifier: MIT */
/* A block of 3 GiB of which two pages are used; it may not cost more than half a GiB. */
#include "program.h"

#include <sys/resource.h>

int main(void)
{
	size_t size = (size_t)3 << 30;
	struct rusage usage;
	char *p = malloc(size);
	if (!p) {
		say("fine\n"); /* no room here */
		return 0;
	}
	p[size - 1] = 1;
	KEEP(p);
	free(p);
	getrusage(RUSAGE_SELF, &usage);
	say("%s\n", usage.ru_maxrss < (640 << 10) ? "fine" : "it became memory");
	return 0;
}
