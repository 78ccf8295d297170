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
   0: no room for more heaps (252), or tracking is off. */
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

/* Stop and go on recording new allocations, for the whole process; in check mode without effect.
   Frees of recorded blocks are recorded always, so the live set stays right. */
MEMTRACK_API void memtrack_disable(void);
MEMTRACK_API void memtrack_enable(void);

/*
 * Changes how the process records, at once and as a whole; the words of `memtrack ctl`, separated
 * by blanks: on, off, mode=full|stats|sample|record, interval=SIZE, intervals=LIST, every=N,
 * modules=LIST, label=TEXT, reset-peak. 0, or a negative errno value and nothing is changed:
 * -EINVAL: a word was not understood; -ENOSPC: a table is full; -EBUSY: the tracker is at work in
 * this thread (a signal handler asks), or a lock could not be had; -ENOSYS: tracking is off.
 */
MEMTRACK_API int memtrack_control(const char *words);

/* Writes the present state to a new file that every memtrack command reads. 0, or a negative errno
   value (-ENOSYS: tracking is off; -EEXIST: the file exists; -EFBIG: RLIMIT_FSIZE is too small).
   The file is sparse, gigabytes long with some 100 KiB on disk: copy it with cp --sparse=always,
   tar -S or zstd. */
MEMTRACK_API int memtrack_snapshot(const char *path);

/* Exact counters of the malloc heap; of what statistics and sampling mode count bytes are usable
   bytes, and temporaries those of samples alone. Fields may be added at the end: struct_bytes says
   how many the caller knows. */
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

/* --- lost blocks -------------------------------------------------------------------------------
 */

enum { MEMTRACK_LEAKS_LISTED = 32 };

/* Blocks that nothing can reach any more. Fields may be added at the end: struct_bytes says how
   many the caller knows. */
struct memtrack_leaks {
	size_t struct_bytes;
	uint64_t lost_count, lost_bytes; /* all of them, also what hangs on other lost blocks */
	size_t listed;                   /* of leak, larger ones first */
	struct {
		void *block;
		size_t bytes;     /* as asked for */
		uint64_t similar; /* others of the same call stack, which are not listed */
	} leak[MEMTRACK_LEAKS_LISTED];
};

/*
 * Looks for lost blocks of the calling process now, as `memtrack leaks` does, and waits for the
 * result, 30 s at most; other threads go on. The search is made by another process: that of
 * `memtrack run`, else the command memtrack, which is started from beside the library. Words in
 * registers and on stacks count as pointers, also of the caller. Where Yama restricts tracing
 * (ptrace_scope 1), PR_SET_PTRACER is used and set back to 0. Fills *leaks (struct_bytes set by
 * the caller): 0, or a negative errno value: -ENOSYS: tracking is off; -ENOTSUP: not every block is
 * recorded (statistics and sampling mode); -EPERM: the process's memory may not be read; -ENOMEM;
 * -ENOENT: there is no command memtrack; -ETIMEDOUT; -EBUSY: another thread asks, or the tracker is
 * at work in this one; -EIO: the search failed. Not async-signal-safe.
 */
MEMTRACK_API int memtrack_leaks(struct memtrack_leaks *leaks);

/* --- live blocks in check mode -----------------------------------------------------------------
 */

/*
 * The live blocks with their stacks, as Android's functions of these names give them; needs check
 * mode with the option backtrace or backtrace_enable_on_signal (docs/check.md).
 *
 * *info: *overall_size bytes of records of *info_size bytes each: the size of a block (size_t), how
 * many such blocks there are (size_t), and *backtrace_size return addresses (uintptr_t), innermost
 * first, zeros behind the last. Larger blocks come first; blocks of equal size and stack are one
 * record. *total_memory: bytes of all of them. Blocks that were made while stacks were switched off
 * are left out. Nothing to tell: all are 0 and NULL. Give *info back with
 * memtrack_free_malloc_leak_info().
 */
MEMTRACK_API void memtrack_malloc_leak_info(uint8_t **info, size_t *overall_size, size_t *info_size,
					    size_t *total_memory, size_t *backtrace_size);
MEMTRACK_API void memtrack_free_malloc_leak_info(uint8_t *info);
/* Writes a heap dump as text, as the dump on a signal is. 1; or 0 and errno is set: ENOTSUP: the
   stacks of blocks are not recorded, which the text then says instead. */
MEMTRACK_API int memtrack_write_malloc_leak_info(int fd);

/* --- profiles on request -----------------------------------------------------------------------
 */

enum memtrack_profile_type {
	MEMTRACK_PROFILE_SAMPLE = 1,  /* sample from now on for a time, then take the state */
	MEMTRACK_PROFILE_SNAPSHOT = 2 /* take the state as it is now */
};

enum memtrack_profile_error {
	MEMTRACK_PROFILE_NONE = 0,
	MEMTRACK_PROFILE_INVALID_REQUEST = 1,
	MEMTRACK_PROFILE_IN_PROGRESS = 2, /* another request of this process is */
	MEMTRACK_PROFILE_RATE_LIMITED = 3,
	MEMTRACK_PROFILE_CANCELED = 4, /* by memtrack_profile_cancel(), or in a child forked by a
					  signal handler */
	MEMTRACK_PROFILE_NO_SPACE = 5, /* disk or quota, or a table of the tracker */
	MEMTRACK_PROFILE_FAILED = 6,   /* errno_value says why */
	/* no runtime, tracking off, a seccomp filter, or sampling wanted in check mode */
	MEMTRACK_PROFILE_UNSUPPORTED = 7
};

struct memtrack_profile_request {
	size_t struct_bytes;  /* sizeof(struct memtrack_profile_request) */
	int type;             /* enum memtrack_profile_type */
	uint64_t duration_ms; /* sample: 1 ms to a day; snapshot: 0 */
	/* sample: mean distance of samples, up to 1 TiB, 0: as configured; snapshot: 0 */
	uint64_t interval_bytes;
	const char *tag;       /* 1 to 64 letters, digits, '-' and '_' */
	const char *directory; /* which exists; the file is sparse, see memtrack_snapshot() */
};

struct memtrack_profile_result {
	size_t struct_bytes; /* sizeof(struct memtrack_profile_result), set by the caller */
	int error;           /* enum memtrack_profile_error */
	int errno_value;     /* of the system, 0: none */
	char path[1024];     /* of the file, DIRECTORY/memtrack-TAG-PID-N.mtk; "" on errors */
};

/*
 * Makes a profile, a file that every memtrack command reads, and returns when it is there: blocks
 * the calling thread for duration_ms, and no other. Recording then goes on as it was before, unless
 * somebody has asked for something else meanwhile. Blocks that were recorded before are in the file
 * as well. *result is filled; returns result->error (INVALID_REQUEST: also a result of another
 * size, which is left alone). One request at a time in a process, and one a minute at most
 * (MEMTRACK_OPTIONS, profile-rate). memtrack_profile.h has the same with a callback.
 */
MEMTRACK_API int memtrack_profile(const struct memtrack_profile_request *request,
				  struct memtrack_profile_result *result);
/* Ends the waiting request with this tag (NULL: any) without a file. 0, or a negative errno value:
   -ENOENT: there is none; -EBUSY: as of memtrack_control; -ENOSYS: tracking is off. */
MEMTRACK_API int memtrack_profile_cancel(const char *tag);

#ifdef __cplusplus
}
#endif

#define MEMTRACK_INLINE static inline __attribute__((always_inline, unused))

/* "IN_PROGRESS" and so on. */
MEMTRACK_INLINE const char *memtrack_profile_error_name(int error)
{
	static const char *const names[] = {"NONE",         "INVALID_REQUEST", "IN_PROGRESS",
					    "RATE_LIMITED", "CANCELED",        "NO_SPACE",
					    "FAILED",       "UNSUPPORTED"};
	return error >= 0 && (size_t)error < sizeof(names) / sizeof(*names) ? names[error] : "?";
}

/* What a program without the runtime is told. */
MEMTRACK_INLINE int memtrack_profile_absent(struct memtrack_profile_result *result)
{
	if (!result || result->struct_bytes != sizeof(*result))
		return MEMTRACK_PROFILE_INVALID_REQUEST;
	result->error = MEMTRACK_PROFILE_UNSUPPORTED;
	result->errno_value = 38; /* ENOSYS */
	result->path[0] = 0;
	return result->error;
}

MEMTRACK_INLINE void memtrack_absent_leak_info(uint8_t **info, size_t *overall_size,
					       size_t *info_size, size_t *total_memory,
					       size_t *backtrace_size)
{
	*info = 0;
	*overall_size = *info_size = *total_memory = *backtrace_size = 0;
}

#if defined(ENABLE_MEMTRACK) && !defined(MEMTRACK_IMPLEMENTATION)

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
#define memtrack_control(words) (memtrack_control ? memtrack_control(words) : -38 /* ENOSYS */)
#define memtrack_snapshot(path) (memtrack_snapshot ? memtrack_snapshot(path) : -38 /* ENOSYS */)
#define memtrack_stats_get(stats) \
	(memtrack_stats_get ? memtrack_stats_get(stats) : -38 /* ENOSYS */)
#define memtrack_leaks(leaks) (memtrack_leaks ? memtrack_leaks(leaks) : -38 /* ENOSYS */)
#define memtrack_malloc_leak_info(info, overall, each, total, frames) \
	(memtrack_malloc_leak_info \
		 ? memtrack_malloc_leak_info((info), (overall), (each), (total), (frames)) \
		 : memtrack_absent_leak_info((info), (overall), (each), (total), (frames)))
#define memtrack_free_malloc_leak_info(info) \
	(memtrack_free_malloc_leak_info ? memtrack_free_malloc_leak_info(info) : (void)0)
#define memtrack_write_malloc_leak_info(fd) \
	(memtrack_write_malloc_leak_info ? memtrack_write_malloc_leak_info(fd) : 0)
#define memtrack_profile(request, result) \
	(memtrack_profile ? memtrack_profile((request), (result)) : memtrack_profile_absent(result))
#define memtrack_profile_cancel(tag) \
	(memtrack_profile_cancel ? memtrack_profile_cancel(tag) : -38 /* ENOSYS */)
#endif

#endif
