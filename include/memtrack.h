/* SPDX-License-Identifier: MIT */
#ifndef MEMTRACK_H
#define MEMTRACK_H

/*
 * memtrack's source interface, for C and C++.
 *
 * Every function is a weak symbol: a program that includes this header runs without the runtime,
 * and then each call does nothing (allocations go to malloc). With the runtime present (linked, or
 * put in front by `memtrack run`) they are recorded. All functions may be called from any thread;
 * none throws or changes errno, except as malloc itself does.
 *
 * With ENABLE_MEMTRACK defined before this header is included, malloc, calloc, realloc, free,
 * strdup and strndup become macros that record the file and line of the call, so that reports name
 * them even without debug information. Include the header after the standard headers. The macros
 * replace the names wherever they are called, also as members of C++ classes and behind `std::`.
 *
 *     #define ENABLE_MEMTRACK
 *     #include <memtrack.h>
 *     char *name = malloc(100);         reported as allocated at this line
 *
 *     uint32_t pool = memtrack_heap_register("frames");
 *     memtrack_heap_alloc(pool, frame, frame_bytes);
 *     ...
 *     memtrack_heap_free(pool, frame);
 */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(MEMTRACK_IMPLEMENTATION)
#define MEMTRACK_API __attribute__((visibility("default")))
#else
#define MEMTRACK_API __attribute__((weak))
#endif

/* --- allocation with a source position ---------------------------------------------------------
 */

/* As malloc and its fellows. file: a string that stays valid, normally __FILE__. */
MEMTRACK_API void *memtrack_malloc(size_t size, const char *file, int line);
MEMTRACK_API void *memtrack_calloc(size_t n, size_t size, const char *file, int line);
MEMTRACK_API void *memtrack_realloc(void *p, size_t size, const char *file, int line);
MEMTRACK_API char *memtrack_strdup(const char *s, const char *file, int line);
MEMTRACK_API char *memtrack_strndup(const char *s, size_t n, const char *file, int line);
MEMTRACK_API void memtrack_free(void *p);

/* --- heaps of the program's own ----------------------------------------------------------------
 */

/* Number of a new heap (pool, arena, slab) under this name; the same name gives the same number.
   0: no room for more heaps (255), or tracking is off. */
MEMTRACK_API uint32_t memtrack_heap_register(const char *name);
/* The program's own allocator handed out [p, p + size) of a registered heap. */
MEMTRACK_API void memtrack_heap_alloc(uint32_t heap, const void *p, size_t size);
/* ... and got it back. Call before the memory may be handed out again. */
MEMTRACK_API void memtrack_heap_free(uint32_t heap, const void *p);

/* --- labels ------------------------------------------------------------------------------------
 */

/* Allocations of the calling thread belong to this label until the next call; NULL: none. Returns
   the label before, for restoring it; the text stays valid. At most 65534 different texts. */
MEMTRACK_API const char *memtrack_label_set(const char *text);

/* --- control -----------------------------------------------------------------------------------
 */

/* Stop and go on recording new allocations, for the whole process. Frees of recorded blocks are
   recorded always, so the live set stays right. */
MEMTRACK_API void memtrack_disable(void);
MEMTRACK_API void memtrack_enable(void);

/* Writes the present state to a new file that every memtrack command reads. 0, or a negative errno
   value (-ENOSYS: tracking is off; -EEXIST: the file exists). */
MEMTRACK_API int memtrack_snapshot(const char *path);

/* Exact counters of the malloc heap. Fields may be added at the end: struct_bytes says how many the
   caller knows. */
struct memtrack_stats {
	size_t struct_bytes;
	uint64_t allocs, frees;          /* successful calls; a realloc of a block is one of each */
	uint64_t bytes, freed_bytes;     /* requested bytes */
	uint64_t live_count, live_bytes; /* the differences */
	uint64_t peak_bytes;             /* exact with one thread, else to within 64 KiB a thread */
	uint64_t reallocs, temporaries;
	uint64_t lost_events; /* not recorded one by one; counted here */
};
/* Fills *stats (struct_bytes set by the caller). 0, or -ENOSYS: tracking is off, all is zero. */
MEMTRACK_API int memtrack_stats_get(struct memtrack_stats *stats);

#ifdef __cplusplus
}
#endif

#if defined(ENABLE_MEMTRACK) && !defined(MEMTRACK_IMPLEMENTATION)
#define MEMTRACK_INLINE static inline __attribute__((always_inline, unused))

MEMTRACK_INLINE void *memtrack_at_malloc(size_t size, const char *file, int line)
{
	return memtrack_malloc ? memtrack_malloc(size, file, line) : malloc(size);
}

MEMTRACK_INLINE void *memtrack_at_calloc(size_t n, size_t size, const char *file, int line)
{
	return memtrack_calloc ? memtrack_calloc(n, size, file, line) : calloc(n, size);
}

MEMTRACK_INLINE void *memtrack_at_realloc(void *p, size_t size, const char *file, int line)
{
	return memtrack_realloc ? memtrack_realloc(p, size, file, line) : realloc(p, size);
}

MEMTRACK_INLINE void memtrack_at_free(void *p)
{
	if (memtrack_free)
		memtrack_free(p);
	else
		free(p);
}

MEMTRACK_INLINE char *memtrack_at_strdup(const char *s, const char *file, int line)
{
	size_t bytes = strlen(s) + 1;
	char *copy = (char *)memtrack_at_malloc(bytes, file, line);
	return copy ? (char *)memcpy(copy, s, bytes) : copy;
}

MEMTRACK_INLINE char *memtrack_at_strndup(const char *s, size_t n, const char *file, int line)
{
	size_t bytes = strnlen(s, n);
	char *copy = (char *)memtrack_at_malloc(bytes + 1, file, line);
	if (copy) {
		memcpy(copy, s, bytes);
		copy[bytes] = 0;
	}
	return copy;
}

#undef malloc
#undef calloc
#undef realloc
#undef free
#undef strdup
#undef strndup
#define malloc(size) memtrack_at_malloc((size), __FILE__, __LINE__)
#define calloc(n, size) memtrack_at_calloc((n), (size), __FILE__, __LINE__)
#define realloc(p, size) memtrack_at_realloc((p), (size), __FILE__, __LINE__)
#define free(p) memtrack_at_free(p)
#define strdup(s) memtrack_at_strdup((s), __FILE__, __LINE__)
#define strndup(s, n) memtrack_at_strndup((s), (n), __FILE__, __LINE__)
#endif

/* Without the runtime each call does nothing: a weak function that is not there must not be called.
 */
#if !defined(MEMTRACK_IMPLEMENTATION)
#define memtrack_malloc(size, file, line) \
	(memtrack_malloc ? memtrack_malloc((size), (file), (line)) : (malloc)(size))
#define memtrack_calloc(n, size, file, line) \
	(memtrack_calloc ? memtrack_calloc((n), (size), (file), (line)) : (calloc)((n), (size)))
#define memtrack_realloc(p, size, file, line) \
	(memtrack_realloc ? memtrack_realloc((p), (size), (file), (line)) : (realloc)((p), (size)))
#define memtrack_strdup(s, file, line) \
	(memtrack_strdup ? memtrack_strdup((s), (file), (line)) : (strdup)(s))
#define memtrack_strndup(s, n, file, line) \
	(memtrack_strndup ? memtrack_strndup((s), (n), (file), (line)) : (strndup)((s), (n)))
#define memtrack_free(p) (memtrack_free ? memtrack_free(p) : (free)(p))
#define memtrack_heap_register(name) \
	(memtrack_heap_register ? memtrack_heap_register(name) : (uint32_t)0)
#define memtrack_heap_alloc(heap, p, size) \
	(memtrack_heap_alloc ? memtrack_heap_alloc((heap), (p), (size)) : (void)0)
#define memtrack_heap_free(heap, p) (memtrack_heap_free ? memtrack_heap_free((heap), (p)) : (void)0)
#define memtrack_label_set(text) (memtrack_label_set ? memtrack_label_set(text) : (const char *)0)
#define memtrack_disable() (memtrack_disable ? memtrack_disable() : (void)0)
#define memtrack_enable() (memtrack_enable ? memtrack_enable() : (void)0)
#define memtrack_snapshot(path) (memtrack_snapshot ? memtrack_snapshot(path) : -38 /* ENOSYS */)
#define memtrack_stats_get(stats) \
	(memtrack_stats_get ? memtrack_stats_get(stats) : -38 /* ENOSYS */)
#endif

#endif
