/* SPDX-License-Identifier: MIT */
/*
 * Link-time door. With -Wl,--wrap=malloc the linker sends every call of malloc to __wrap_malloc (in
 * hooks.c) and resolves __real_malloc to the allocator. The four basic functions must be wrapped
 * together; the others may be.
 */
#include "runtime/wrap.h"

#ifdef MT_BUILD_WRAP
void *__real_malloc(size_t size);
void __real_free(void *p);
void *__real_calloc(size_t n, size_t each);
void *__real_realloc(void *p, size_t size);
void *__real_reallocarray(void *p, size_t n, size_t each) __attribute__((weak));
int __real_posix_memalign(void **out, size_t align, size_t size) __attribute__((weak));
void *__real_memalign(size_t align, size_t size) __attribute__((weak));
void *__real_aligned_alloc(size_t align, size_t size) __attribute__((weak));
void *__real_valloc(size_t size) __attribute__((weak));
void *__real_pvalloc(size_t size) __attribute__((weak));
size_t malloc_usable_size(void *p) __attribute__((weak));

/* A program's references to memtrack.h are weak: they take nothing out of an archive. This one
 * does.
 */
int memtrack_control(const char *words);
__attribute__((used)) static int (*const interface)(const char *words) = memtrack_control;

void mt_wrap_originals(struct mt_originals *ret_originals)
{
	*ret_originals = (struct mt_originals){
		.malloc = __real_malloc,
		.free = __real_free,
		.calloc = __real_calloc,
		.realloc = __real_realloc,
		.reallocarray = __real_reallocarray,
		.posix_memalign = __real_posix_memalign,
		.memalign = __real_memalign,
		.aligned_alloc = __real_aligned_alloc,
		.valloc = __real_valloc,
		.pvalloc = __real_pvalloc,
		.malloc_usable_size = (size_t(*)(const void *))malloc_usable_size,
	};
}
#endif
