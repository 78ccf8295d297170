/* SPDX-License-Identifier: MIT */
/* mimalloc's own names, each once or more; linked with the library, which serves malloc as well. */
#include "program.h"

void *mi_malloc(size_t size);
void *mi_zalloc(size_t size);
void *mi_calloc(size_t n, size_t size);
void *mi_malloc_aligned(size_t size, size_t align);
void *mi_mallocn(size_t n, size_t size);
void *mi_realloc(void *p, size_t size);
void *mi_rezalloc(void *p, size_t size);
void *mi_reallocn(void *p, size_t n, size_t size);
void *mi_reallocf(void *p, size_t size);
char *mi_strdup(const char *s);
void mi_free(void *p);
void mi_free_size(void *p, size_t size);
void mi_free_aligned(void *p, size_t align);

int main(void)
{
	KEEP(mi_malloc(1777));
	KEEP(mi_zalloc(2777));
	KEEP(mi_calloc(1, 3777));
	KEEP(mi_malloc_aligned(4777, 64));
	KEEP(mi_mallocn(5, 1000));
	KEEP(mi_realloc(mi_malloc(10777), 5777));
	KEEP(mi_rezalloc(mi_zalloc(11777), 6777));
	KEEP(mi_reallocn(mi_malloc(12777), 1, 7777));
	void *kept_block = mi_malloc(8777);
	if (mi_realloc(kept_block, (size_t)-1 / 2))
		fail("an impossible realloc");
	if (mi_reallocf(mi_malloc(13777), (size_t)-1 / 2))
		fail("an impossible reallocf");
	mi_free(mi_malloc(14777));
	mi_free_size(mi_zalloc(15777), 15777);
	mi_free_aligned(mi_malloc_aligned(16777, 128), 128);
	mi_free(mi_strdup("text"));
	say("process 1777x1 2777x1 3777x1 4777x1 5777x1 6777x1 7777x1 8777x1\n");
	return 0;
}
