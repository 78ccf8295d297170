/* SPDX-License-Identifier: MIT */
#ifndef MT_PROGRAMS_TRACKER_CODE_H
#define MT_PROGRAMS_TRACKER_CODE_H

/* Where the tracker's instructions lie, for handlers that act only when they interrupt it. */

#include <fcntl.h>
#include <stdint.h>

#include "program.h"

static uintptr_t code_from, code_to; /* 0: not tracked */

static void look_at_mapping(const char *line)
{
	unsigned long from, to;
	char rights[8];
	if (strstr(line, "libmemtrack.so") &&
	    sscanf(line, "%lx-%lx %7s", &from, &to, rights) == 3 && rights[2] == 'x') {
		code_from = from;
		code_to = to;
	}
}

static void find_tracker_code(void)
{
	static char text[65536];
	size_t have = 0;
	int fd = open("/proc/self/maps", O_RDONLY);
	for (ssize_t n; (n = read(fd, text + have, sizeof(text) - 1 - have)) > 0;)
		have += (size_t)n;
	close(fd);
	for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
		*end = 0;
		look_at_mapping(line);
	}
}

#endif
