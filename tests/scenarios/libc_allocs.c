/* SPDX-License-Identifier: MIT */
/*
 * Blocks that libc allocates for its caller are found at the caller's line.
 *
 * build: gcc -O0 -g
 * build: gcc -O2 -g
 * leak: dup count=1 bytes=12 frames=main
 * leak: ndup count=1 bytes=6 frames=main
 * leak: print count=1 frames=main
 * leak: line count=1 bytes=120 frames=main
 * leak: path count=1 frames=main
 * leak: cwd count=1 frames=main
 * leak: stream count=1 frames=main
 * leak: directory count=1 bytes=32816 frames=main
 * leak: wide count=1 bytes=20 frames=main
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "scenario.h"

int main(int argc, char **argv)
{
	KEEP(strdup(argc ? "hello world" : argv[0]));  /* LEAK:dup */
	KEEP(strndup("hello world", 5 + opaque_zero)); /* LEAK:ndup */
	KEEP(wcsdup(L"wide"));                         /* LEAK:wide */
	char *text = NULL;
	if (asprintf(&text, "%d and %s", 42, "more") < 0) /* LEAK:print */
		return 1;
	KEEP(text);
	char source[] = "first line\nsecond\n";
	FILE *f = fmemopen(source, sizeof(source) - 1, "r");
	char *line = NULL;
	size_t size = 0;
	if (!f || getline(&line, &size, f) != 11) /* LEAK:line */
		return 2;
	KEEP(line);
	fclose(f);
	KEEP(realpath("/usr/../usr", NULL)); /* LEAK:path */
	KEEP(getcwd(NULL, 0));               /* LEAK:cwd */
	KEEP(fopen("/dev/null", "r"));       /* LEAK:stream */
	KEEP(opendir("/"));                  /* LEAK:directory */
	return 0;
}
