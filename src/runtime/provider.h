/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_PROVIDER_H
#define MT_RUNTIME_PROVIDER_H

/*
 * The functions behind our hooks: for each name the definition that the call would have reached
 * without us. Found by walking the modules' symbol tables in search order behind our own module, so
 * nothing allocates, no loader lock is taken, and no bootstrap arena is needed.
 */

#include "runtime/rt.h"

struct mt_originals {
	void *(*malloc)(size_t);
	void (*free)(void *);
	void *(*calloc)(size_t, size_t);
	void *(*realloc)(void *, size_t);
	void *(*reallocarray)(void *, size_t, size_t);
	int (*posix_memalign)(void **, size_t, size_t);
	void *(*memalign)(size_t, size_t);
	void *(*aligned_alloc)(size_t, size_t);
	void *(*valloc)(size_t);
	void *(*pvalloc)(size_t);
	void (*cfree)(void *);
	void (*free_sized)(void *, size_t);
	void (*free_aligned_sized)(void *, size_t, size_t);
	size_t (*malloc_usable_size)(const void *);
	size_t (*nallocx)(size_t, int); /* what malloc_usable_size will say of a block */
};

/* One family of malloc names: plain, je_, mi_, tc_. */
enum mt_family { MT_FAMILY_PLAIN, MT_FAMILY_JE, MT_FAMILY_MI, MT_FAMILY_TC, MT_FAMILY_COUNT };

/* operator new and delete in the order of cxx_names in provider.c. */
enum {
	MT_CXX_NEW_FIRST = 0,
	MT_CXX_NEW_COUNT = 8,
	MT_CXX_DELETE_FIRST = 8,
	MT_CXX_COUNT = 22,
};

struct dl_phdr_info; /* <link.h> */
typedef int mt_phdr_callback(struct dl_phdr_info *, size_t, void *);

struct mt_system_originals {
	void *(*mmap)(void *, size_t, int, int, int, int64_t);
	void *(*mmap64)(void *, size_t, int, int, int, int64_t);
	int (*munmap)(void *, size_t);
	void *(*mremap)(void *, size_t, size_t, int, ...);
	int (*brk)(void *);
	void *(*sbrk)(intptr_t);
	int (*fork)(void);
	int (*fork_plain)(void); /* _Fork */
	int (*execve)(const char *, char *const *, char *const *);
	int (*execvpe)(const char *, char *const *, char *const *);
	int (*fexecve)(int, char *const *, char *const *);
	int (*execveat)(int, const char *, char *const *, char *const *, int);
	int (*posix_spawn)(int *, const char *, const void *, const void *, char *const *,
			   char *const *);
	int (*posix_spawnp)(int *, const char *, const void *, const void *, char *const *,
			    char *const *);
	int (*mlockall)(int);
	int (*setrlimit)(int, const void *);
	int (*prlimit)(int, int, const void *, void *);
	int (*prctl)(int, ...);
	void *syscall;
	int (*pthread_setname_np)(uintptr_t, const char *);
	void *(*dlopen)(const char *, int);
	void *(*dlmopen)(long, const char *, int);
	int (*dlclose)(void *);
	int (*dl_iterate_phdr)(mt_phdr_callback *, void *);
};

extern struct mt_originals mt_original[MT_FAMILY_COUNT] MT_HIDDEN;
extern struct mt_system_originals mt_system MT_HIDDEN;
/* As data pointers: the types differ per name. */
extern void *mt_cxx_original[MT_CXX_COUNT] MT_HIDDEN;
/* 1: the allocator's own module defines it, so it does not come back to us through malloc/free. */
extern uint8_t mt_cxx_own[MT_CXX_COUNT] MT_HIDDEN;

/* Fills all tables. Idempotent, any thread; 0 or -ENOENT (no malloc anywhere). */
int mt_provider_resolve(void);

/* Once more, after a library came: fills only what is missing. Same result. */
int mt_provider_search_again(void);

/*
 * Fills one of our tables' places that is NULL, if anybody has that function; starts the tracker
 * first when nothing has done so. In a process that is left alone this one name is looked up, else
 * all that is missing.
 */
void mt_provider_need(void **slot);

#define MT_PROVIDER_HAS(slot) \
	(MT_LIKELY((slot) != NULL) || (mt_provider_need((void **)&(slot)), (slot) != NULL))

/* The first definition of any name behind us in search order, or NULL. Slow: keep the result. */
void *mt_provider_find(const char *name);

/* Fills doors and has_hidden of mt_provider. Start-up of check mode. */
void mt_provider_find_doors(void);

/* What the resolution found: for the header and the module rows. */
struct mt_provider_info {
	uint32_t granule_shift; /* log2 of the least spacing of blocks */
	uint32_t libc;          /* enum mt_state_libc */
	uintptr_t malloc_address;
	/* in check mode, a bit for each enum mt_family: its calls reach the plain family's
	 * allocator */
	uint32_t doors;
	uint32_t has_hidden; /* that one may give blocks by functions that are no hooks of ours */
	uint32_t program_exports_malloc; /* its own malloc is reached before ours */
	uint32_t is_second;     /* another copy of this library stands before us: it tracks */
	uint32_t has_asan;      /* AddressSanitizer is in the process */
	uint32_t has_sanitizer; /* it, or another one with an allocator of its own */
	uint32_t asan_follows;  /* AddressSanitizer's library stands directly behind us */
};
extern struct mt_provider_info mt_provider MT_HIDDEN;

#endif
