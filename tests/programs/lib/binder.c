/* SPDX-License-Identifier: MIT */
/* Loaded with RTLD_DEEPBIND: its calls reach libc's own malloc and free. */
#include <stdio.h>
#include <stdlib.h>

void *binder_allocate(size_t size);
void binder_free(void *p);
int binder_line(void);

void *binder_allocate(size_t size)
{
	return malloc(size);
}

void binder_free(void *p)
{
	free(p);
}

int binder_line(void)
{
	static char text[] = "a line\nand more\n";
	char *line = NULL;
	size_t size = 0;
	FILE *f = fmemopen(text, sizeof(text) - 1, "r");
	long n = f ? getline(&line, &size, f) : -1;
	free(line);
	if (f)
		fclose(f);
	return (int)n;
}
