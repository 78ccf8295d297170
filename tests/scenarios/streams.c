/* SPDX-License-Identifier: MIT */
/*
 * Streams: a memory stream's buffer stays with its caller, a closed stream leaves nothing.
 *
 * leak: buffer count=1 bytes=6 frames=main
 * foreign: 0 0
 */
#include <stdio.h>
#include <stdlib.h>

#include "scenario.h"

int main(void)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);
	if (!f || fputs("hello", f) < 0 || fclose(f)) /* LEAK:buffer */
		return 1;
	KEEP(text);
	f = fopen("/dev/null", "w");
	if (!f || fputs("text", f) < 0 || fclose(f))
		return 2;
	return 0;
}
