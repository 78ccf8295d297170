/* SPDX-License-Identifier: MIT */
/*
 * What mimalloc, tcmalloc and jemalloc export beyond the malloc family, under their prefixed names.
 * The original runs without the guard (some throw); a block that a hook of the plain family saw on
 * the way is not recorded twice. jemalloc's unprefixed mallocx family is not hooked: programs ask
 * by weak references to those names whether jemalloc is there.
 */
#include "core/sys.h"
#include "runtime/check_untracked.h"
#include "runtime/provider.h"
#include "runtime/record.h"

#ifndef MT_BUILD_WRAP

/* A call that may move a block: it leaves the tables before, and comes back if the call failed. */
struct extra_move {
	struct mt_caller caller;
	struct mt_gone gone;
	int known;
};

static void begin_move(struct extra_move *m, const void *old, struct mt_caller caller)
{
	struct mt_thread *t;
	m->known = 0;
	m->gone = (struct mt_gone){0};
	if (old && mt_enter(&t) == MT_ENTER_TRACK) {
		m->known = mt_record_take(t, old, &m->gone);
		mt_leave(t);
	}
	m->caller = caller;
	mt_record_watch();
}

enum on_failure { KEEPS_OLD, FREES_OLD };

static void *end_move(struct extra_move *m, const void *old, void *p, size_t size,
		      enum on_failure failure)
{
	struct mt_thread *t;
	int kept = !p && size && failure == KEEPS_OLD;
	if (old && (m->known || !kept) && mt_enter(&t) == MT_ENTER_TRACK) {
		if (!m->known)
			mt_record_unknown(t, &m->gone);
		else if (kept)
			mt_record_restore(t, old, &m->gone);
		else
			mt_record_gone(t, &m->gone, p != NULL);
		mt_count(&t->row->reallocs, p != NULL);
		mt_leave(t);
	}
	return mt_record_unseen(p, size, MT_CALL_REALLOC, &m->caller);
}

/* n * each, or SIZE_MAX when it does not fit: the original refuses such a call. */
static size_t product(size_t n, size_t each)
{
	size_t size;
	return mt_mul_size(n, each, &size) ? SIZE_MAX : size;
}

static size_t text_bytes(const char *s, size_t most)
{
	size_t n = 0;
	while (s && n < most && s[n])
		n++;
	return n + 1;
}

/* The original of this very hook, looked up once; absent: NULL (nobody can have linked against it).
 */
#define ORIGINAL(name, type) \
	({ \
		static void *found; \
		void *f = __atomic_load_n(&found, __ATOMIC_RELAXED); \
		if (MT_UNLIKELY(!f)) { \
			f = mt_provider_find(#name); \
			__atomic_store_n(&found, f, __ATOMIC_RELAXED); \
		} \
		(type) f; \
	})

/* By the prefix of the hook's name: whose blocks these are. */
#define FAMILY(name) \
	(#name[0] == 'm' ? MT_FAMILY_MI : #name[0] == 't' ? MT_FAMILY_TC : MT_FAMILY_JE)

static void tell_family(enum mt_family family)
{
	struct mt_thread *t = mt_thread_self();
	if (t)
		t->family = family;
}

/*
 * In check mode with headers: blocks that these give are the allocator's own and in no table, and
 * what they are given may be one of malloc's, which has a header.
 */
static int has_headers(enum mt_family family)
{
	return mt_check_has(family) && mt_layout.has_header;
}

/* By the hook's name: what check mode takes it for. */
static enum mt_state_call freeing_call(const char *name)
{
	return mt_str_starts(name, "tc_deletearray") ? MT_CALL_DELETE_ARRAY
	       : mt_str_starts(name, "tc_delete")    ? MT_CALL_DELETE
						     : MT_CALL_FREE;
}

/* A block of malloc's moves; its new bytes are not zero. NULL: there is no memory. */
static void *move_checked(void *old, size_t size, enum on_failure failure,
			  const struct mt_caller *caller)
{
	void *p = mt_check_realloc(old, size, caller, 0);
	if (!p && size && failure == FREES_OLD)
		mt_check_free(old, MT_CALL_FREE, caller);
	return p;
}

/* two steps: the argument lists below are macros */
#define ALLOC(...) DEFINE_ALLOC(__VA_ARGS__)
#define DEFINE_ALLOC(name, call, params, args, bytes) \
	MT_PUBLIC void *name params; \
	MT_PUBLIC void *name params \
	{ \
		void *(*original)params = ORIGINAL(name, void *(*)params); \
		if (!original) \
			return NULL; \
		if (has_headers(FAMILY(name))) \
			return original args; \
		struct mt_caller caller = MT_CALLER(); \
		mt_record_watch(); \
		void *p = original args; \
		tell_family(FAMILY(name)); \
		p = mt_record_unseen(p, bytes, call, &caller); \
		tell_family(MT_FAMILY_PLAIN); \
		return p; \
	}

#define MOVE(name, failure, params, args, bytes) \
	MT_PUBLIC void *name params; \
	MT_PUBLIC void *name params \
	{ \
		struct extra_move m; \
		struct mt_header header; \
		struct mt_caller caller = MT_CALLER(); \
		void *(*original)params = ORIGINAL(name, void *(*)params); \
		if (!original) \
			return NULL; \
		if (has_headers(FAMILY(name))) \
			return old && mt_check_reads_header(old, &header) \
				       ? move_checked(old, bytes, failure, &caller) \
				       : original args; \
		tell_family(FAMILY(name)); \
		begin_move(&m, old, caller); \
		tell_family(MT_FAMILY_PLAIN); \
		void *p = original args; \
		tell_family(FAMILY(name)); \
		p = end_move(&m, old, p, bytes, failure); \
		tell_family(MT_FAMILY_PLAIN); \
		return p; \
	}

#define FREE(name, params, args) \
	MT_PUBLIC void name params; \
	MT_PUBLIC void name params \
	{ \
		void(*original) params = ORIGINAL(name, void(*) params); \
		if (has_headers(FAMILY(name))) { \
			struct mt_caller caller = MT_CALLER(); \
			mt_check_free(p, freeing_call(#name), &caller); \
			return; \
		} \
		tell_family(FAMILY(name)); \
		struct mt_thread *t = mt_record_delete_begin(p); \
		tell_family(MT_FAMILY_PLAIN); \
		if (original) \
			original args; \
		mt_record_delete_end(t); \
	}

#define ONE (size_t size), (size), size
#define TWO (size_t size, size_t x), (size, x), size
#define THREE (size_t size, size_t x, const void *y), (size, x, y), size
#define PAIR (size_t n, size_t each), (n, each), product(n, each)

ALLOC(mi_zalloc, MT_CALL_CALLOC, ONE)
ALLOC(mi_malloc_small, MT_CALL_MALLOC, ONE)
ALLOC(mi_zalloc_small, MT_CALL_CALLOC, ONE)
ALLOC(mi_new, MT_CALL_NEW, ONE)
ALLOC(mi_new_nothrow, MT_CALL_NEW, ONE)
ALLOC(mi_valloc, MT_CALL_ALIGNED, ONE)
ALLOC(mi_pvalloc, MT_CALL_ALIGNED, ONE)
ALLOC(mi_mallocn, MT_CALL_MALLOC, PAIR)
ALLOC(mi_new_n, MT_CALL_NEW_ARRAY, PAIR)
ALLOC(mi_malloc_aligned, MT_CALL_ALIGNED, TWO)
ALLOC(mi_zalloc_aligned, MT_CALL_ALIGNED, TWO)
ALLOC(mi_new_aligned, MT_CALL_NEW, TWO)
ALLOC(mi_new_aligned_nothrow, MT_CALL_NEW, TWO)
ALLOC(mi_calloc_aligned, MT_CALL_ALIGNED, (size_t n, size_t each, size_t align), (n, each, align),
      product(n, each))
ALLOC(mi_strdup, MT_CALL_STRDUP, (const char *s), (s), text_bytes(s, SIZE_MAX))
ALLOC(mi_strndup, MT_CALL_STRDUP, (const char *s, size_t n), (s, n), text_bytes(s, n))
MOVE(mi_rezalloc, KEEPS_OLD, (void *old, size_t size), (old, size), size)
MOVE(mi_reallocf, FREES_OLD, (void *old, size_t size), (old, size), size)
MOVE(mi_new_realloc, KEEPS_OLD, (void *old, size_t size), (old, size), size)
MOVE(mi_reallocn, KEEPS_OLD, (void *old, size_t n, size_t each), (old, n, each), product(n, each))
MOVE(mi_reallocarray, KEEPS_OLD, (void *old, size_t n, size_t each), (old, n, each),
     product(n, each))
MOVE(mi_recalloc, KEEPS_OLD, (void *old, size_t n, size_t each), (old, n, each), product(n, each))
MOVE(mi_new_reallocn, KEEPS_OLD, (void *old, size_t n, size_t each), (old, n, each),
     product(n, each))
MOVE(mi_realloc_aligned, KEEPS_OLD, (void *old, size_t size, size_t align), (old, size, align),
     size)
MOVE(mi_rezalloc_aligned, KEEPS_OLD, (void *old, size_t size, size_t align), (old, size, align),
     size)
FREE(mi_cfree, (void *p), (p))
FREE(mi_free_size, (void *p, size_t x), (p, x))
FREE(mi_free_aligned, (void *p, size_t x), (p, x))
FREE(mi_free_size_aligned, (void *p, size_t x, size_t y), (p, x, y))

ALLOC(tc_valloc, MT_CALL_ALIGNED, ONE)
ALLOC(tc_pvalloc, MT_CALL_ALIGNED, ONE)
ALLOC(tc_malloc_skip_new_handler, MT_CALL_MALLOC, ONE)
ALLOC(tc_new, MT_CALL_NEW, ONE)
ALLOC(tc_newarray, MT_CALL_NEW_ARRAY, ONE)
ALLOC(tc_new_nothrow, MT_CALL_NEW, TWO)
ALLOC(tc_newarray_nothrow, MT_CALL_NEW_ARRAY, TWO)
ALLOC(tc_new_aligned, MT_CALL_NEW, TWO)
ALLOC(tc_newarray_aligned, MT_CALL_NEW_ARRAY, TWO)
ALLOC(tc_new_aligned_nothrow, MT_CALL_NEW, THREE)
ALLOC(tc_newarray_aligned_nothrow, MT_CALL_NEW_ARRAY, THREE)
FREE(tc_cfree, (void *p), (p))
FREE(tc_delete, (void *p), (p))
FREE(tc_deletearray, (void *p), (p))
FREE(tc_free_sized, (void *p, size_t x), (p, x))
FREE(tc_delete_sized, (void *p, size_t x), (p, x))
FREE(tc_deletearray_sized, (void *p, size_t x), (p, x))
FREE(tc_delete_nothrow, (void *p, const void *x), (p, x))
FREE(tc_deletearray_nothrow, (void *p, const void *x), (p, x))
FREE(tc_delete_aligned, (void *p, size_t x), (p, x))
FREE(tc_deletearray_aligned, (void *p, size_t x), (p, x))
FREE(tc_delete_sized_aligned, (void *p, size_t x, size_t y), (p, x, y))
FREE(tc_deletearray_sized_aligned, (void *p, size_t x, size_t y), (p, x, y))
FREE(tc_delete_aligned_nothrow, (void *p, size_t x, const void *y), (p, x, y))
FREE(tc_deletearray_aligned_nothrow, (void *p, size_t x, const void *y), (p, x, y))

ALLOC(je_valloc, MT_CALL_ALIGNED, ONE)
ALLOC(je_mallocx, MT_CALL_MALLOC, (size_t size, int flags), (size, flags), size)
MOVE(je_rallocx, KEEPS_OLD, (void *old, size_t size, int flags), (old, size, flags), size)
FREE(je_dallocx, (void *p, int flags), (p, flags))
FREE(je_sdallocx, (void *p, size_t x, int flags), (p, x, flags))
#endif
