/* SPDX-License-Identifier: MIT */
/* tcmalloc's own names; linked with the library, which serves malloc as well. */
#include "program.h"

void *tc_malloc(size_t size);
void *tc_calloc(size_t n, size_t size);
void *tc_realloc(void *p, size_t size);
void *tc_new(size_t size);
void *tc_newarray(size_t size);
void *tc_valloc(size_t size);
void *tc_memalign(size_t align, size_t size);
void tc_free(void *p);
void tc_cfree(void *p);
void tc_delete(void *p);
void tc_deletearray(void *p);
void tc_delete_sized(void *p, size_t size);
void tc_free_sized(void *p, size_t size);

int main(void)
{
	KEEP(tc_malloc(1777));
	KEEP(tc_calloc(1, 2777));
	KEEP(tc_realloc(tc_malloc(10777), 3777));
	KEEP(tc_new(4777));
	KEEP(tc_newarray(5777));
	KEEP(tc_valloc(6777));
	KEEP(tc_memalign(64, 7777));
	tc_free(tc_new(11777));
	tc_cfree(tc_malloc(12777));
	tc_delete(tc_new(13777));
	tc_deletearray(tc_newarray(14777));
	tc_delete_sized(tc_new(15777), 15777);
	tc_free_sized(tc_malloc(16777), 16777);
	say("process 1777x1 2777x1 3777x1 4777x1 5777x1 6777x1 7777x1\n");
	return 0;
}
