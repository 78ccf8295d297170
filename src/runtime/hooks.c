/* SPDX-License-Identifier: MIT */
/*
 * The malloc family under its plain and prefixed names.
 *
 * Order: an allocation is recorded after the real call, a free before it; realloc takes the old
 * block out before the real call (another thread may get the address at once) and puts it back when
 * the call fails. Nothing here touches errno: the tracker makes raw system calls only.
 *
 * The real allocator runs with the guard held: what it calls back through us (calloc -> malloc in
 * musl) is its own business and passes through.
 */
#include "core/sys.h"
#include "runtime/names.h"
#include "runtime/provider.h"
#include "runtime/record.h"

extern int *__errno_location(void) __attribute__((weak));

/* An original that is not there (yet): look again; prefixed names fall back on the plain family. */
MT_COLD static void find_original(enum mt_family family)
{
	void **mine = (void **)&mt_original[family],
	     **plain = (void **)&mt_original[MT_FAMILY_PLAIN];
	if (!plain[0])
		mt_provider_resolve();
	else
		mt_provider_search_again();
	if (family == MT_FAMILY_PLAIN || mine[0])
		return;
	for (size_t i = 0; i < sizeof(struct mt_originals) / sizeof(void *); i++)
		mine[i] = plain[i];
}

#define ORIGINAL(family, name) \
	({ \
		if (MT_UNLIKELY(!mt_original[family].name)) \
			find_original(family); \
		mt_original[family].name; \
	})

MT_COLD static void *no_memory(void)
{
	if (__errno_location)
		*__errno_location() = MT_ENOMEM;
	return NULL;
}

/* Ends a hook that may have got a block. */
MT_INLINE void *finish(struct mt_thread *t, void *p, size_t size, enum mt_state_call call,
		       const struct mt_caller *caller)
{
	if (MT_LIKELY(p != NULL)) {
		if (MT_UNLIKELY(t->settle))
			mt_record_returned(t, p);
		if (MT_LIKELY(mt_recording()))
			mt_record_alloc(t, p, size, call, caller, 0);
	} else {
		t->row->failed_allocs++;
	}
	mt_leave(t);
	return p;
}

MT_INLINE void *do_malloc(enum mt_family family, size_t size, struct mt_caller caller)
{
	struct mt_thread *t;
	enum mt_enter how = mt_enter(&t);
	if (MT_UNLIKELY(how != MT_ENTER_TRACK))
		return mt_record_nested(how, t, ORIGINAL(family, malloc)(size));
	void *p = ORIGINAL(family, malloc)(size);
	return finish(t, p, size, MT_CALL_MALLOC, &caller);
}

MT_INLINE void *do_calloc(enum mt_family family, size_t n, size_t each, struct mt_caller caller)
{
	struct mt_thread *t;
	enum mt_enter how = mt_enter(&t);
	if (MT_UNLIKELY(how != MT_ENTER_TRACK))
		return mt_record_nested(how, t, ORIGINAL(family, calloc)(n, each));
	void *p = ORIGINAL(family, calloc)(n, each);
	/* a block was given, so the product did not overflow */
	return finish(t, p, n * each, MT_CALL_CALLOC, &caller);
}

MT_INLINE void do_free(enum mt_family family, void *p)
{
	mt_record_free_call(p);
	ORIGINAL(family, free)(p);
}

typedef void *(*realloc_function)(void *, size_t);
typedef void *(*reallocarray_function)(void *, size_t, size_t);

/* `size` is what the call asks for, UINT64_MAX when the product overflowed (the original refuses).
 */
MT_INLINE void *do_realloc(void *old, size_t size, struct mt_caller *caller,
			   void *(*call)(void *args), void *args)
{
	struct mt_thread *t;
	struct mt_gone gone = {0};
	enum mt_enter how = mt_enter(&t);
	if (MT_UNLIKELY(how != MT_ENTER_TRACK)) {
		if (how == MT_ENTER_NESTED && old)
			mt_record_free_nested(t, old);
		void *p = call(args);
		if (how == MT_ENTER_NESTED && !p && size)
			mt_rt_lost(MT_LOST_NESTED); /* the old block lives, unrecorded */
		return mt_record_nested(how, t, p);
	}
	int known = old && mt_record_take(t, old, &gone);
	void *p = call(args);
	if (!p && size && old) { /* failed: the old block is as it was */
		if (known)
			mt_record_restore(t, old, &gone);
		t->row->failed_allocs++;
		mt_leave(t);
		return p;
	}
	if (known)
		mt_record_gone(t, &gone, 1);
	else if (old)
		t->row->unknown_frees++;
	if (!p) {
		mt_leave(t);
		return p;
	}
	if (old) {
		mt_count(&t->row->reallocs, 1);
		t->row->realloc_grown += known && size > gone.size;
	}
	return finish(t, p, size, MT_CALL_REALLOC, caller);
}

struct realloc_args {
	void *original;
	void *old;
	size_t n, each;
};

static void *call_realloc(void *args)
{
	struct realloc_args *a = args;
	return ((realloc_function)a->original)(a->old, a->n);
}

static void *call_reallocarray(void *args)
{
	struct realloc_args *a = args;
	return ((reallocarray_function)a->original)(a->old, a->n, a->each);
}

static int do_posix_memalign(enum mt_family family, void **out, size_t align, size_t size,
			     struct mt_caller caller)
{
	struct mt_thread *t;
	enum mt_enter how = mt_enter(&t);
	if (!ORIGINAL(family, posix_memalign)) {
		if (how == MT_ENTER_TRACK)
			mt_leave(t);
		return MT_ENOMEM;
	}
	int err = mt_original[family].posix_memalign(out, align, size);
	if (how != MT_ENTER_TRACK)
		mt_record_nested(how, t, err ? NULL : *out);
	else
		finish(t, err ? NULL : *out, size, MT_CALL_ALIGNED, &caller);
	return err;
}

/* memalign and aligned_alloc */
static void *do_aligned(void *(*original)(size_t, size_t), size_t align, size_t size,
			struct mt_caller caller)
{
	struct mt_thread *t;
	enum mt_enter how = mt_enter(&t);
	void *p = original ? original(align, size) : no_memory();
	if (how != MT_ENTER_TRACK)
		return mt_record_nested(how, t, p);
	return finish(t, p, size, MT_CALL_ALIGNED, &caller);
}

/* valloc and pvalloc */
static void *do_page_aligned(void *(*original)(size_t), size_t size, struct mt_caller caller)
{
	struct mt_thread *t;
	enum mt_enter how = mt_enter(&t);
	void *p = original ? original(size) : no_memory();
	if (how != MT_ENTER_TRACK)
		return mt_record_nested(how, t, p);
	return finish(t, p, size, MT_CALL_ALIGNED, &caller);
}

#define DEFINE_FAMILY(prefix, family) \
	MT_HOOK_ATTR void *MT_HOOK(prefix##malloc)(size_t size); \
	MT_HOOK_ATTR void *MT_HOOK(prefix##malloc)(size_t size) \
	{ \
		return do_malloc(family, size, MT_CALLER()); \
	} \
	MT_HOOK_ATTR void *MT_HOOK(prefix##calloc)(size_t n, size_t each); \
	MT_HOOK_ATTR void *MT_HOOK(prefix##calloc)(size_t n, size_t each) \
	{ \
		return do_calloc(family, n, each, MT_CALLER()); \
	} \
	MT_HOOK_ATTR void MT_HOOK(prefix##free)(void *p); \
	MT_HOOK_ATTR void MT_HOOK(prefix##free)(void *p) \
	{ \
		do_free(family, p); \
	} \
	MT_HOOK_ATTR void *MT_HOOK(prefix##realloc)(void *old, size_t size); \
	MT_HOOK_ATTR void *MT_HOOK(prefix##realloc)(void *old, size_t size) \
	{ \
		struct mt_caller caller = MT_CALLER(); \
		struct realloc_args a = {(void *)ORIGINAL(family, realloc), old, size, 0}; \
		return do_realloc(old, size, &caller, call_realloc, &a); \
	} \
	MT_HOOK_ATTR int MT_HOOK(prefix##posix_memalign)(void **out, size_t align, size_t size); \
	MT_HOOK_ATTR int MT_HOOK(prefix##posix_memalign)(void **out, size_t align, size_t size) \
	{ \
		return do_posix_memalign(family, out, align, size, MT_CALLER()); \
	} \
	MT_HOOK_ATTR void *MT_HOOK(prefix##memalign)(size_t align, size_t size); \
	MT_HOOK_ATTR void *MT_HOOK(prefix##memalign)(size_t align, size_t size) \
	{ \
		return do_aligned(ORIGINAL(family, memalign), align, size, MT_CALLER()); \
	} \
	MT_HOOK_ATTR void *MT_HOOK(prefix##aligned_alloc)(size_t align, size_t size); \
	MT_HOOK_ATTR void *MT_HOOK(prefix##aligned_alloc)(size_t align, size_t size) \
	{ \
		return do_aligned(ORIGINAL(family, aligned_alloc), align, size, MT_CALLER()); \
	}

DEFINE_FAMILY(, MT_FAMILY_PLAIN)

MT_HOOK_ATTR void *MT_HOOK(reallocarray)(void *old, size_t n, size_t each);
MT_HOOK_ATTR void *MT_HOOK(reallocarray)(void *old, size_t n, size_t each)
{
	struct mt_caller caller = MT_CALLER();
	size_t size;
	if (!ORIGINAL(MT_FAMILY_PLAIN, reallocarray))
		return no_memory();
	struct realloc_args a = {(void *)mt_original[MT_FAMILY_PLAIN].reallocarray, old, n, each};
	if (mt_mul_size(n, each, &size))
		return call_reallocarray(&a); /* refuses, sets errno */
	return do_realloc(old, size, &caller, call_reallocarray, &a);
}

MT_HOOK_ATTR void *MT_HOOK(valloc)(size_t size);
MT_HOOK_ATTR void *MT_HOOK(valloc)(size_t size)
{
	return do_page_aligned(ORIGINAL(MT_FAMILY_PLAIN, valloc), size, MT_CALLER());
}

MT_HOOK_ATTR void *MT_HOOK(pvalloc)(size_t size);
MT_HOOK_ATTR void *MT_HOOK(pvalloc)(size_t size)
{
	return do_page_aligned(ORIGINAL(MT_FAMILY_PLAIN, pvalloc), size, MT_CALLER());
}

/* Older and newer names of free; libcs that lack one get the plain free. */
MT_HOOK_ATTR void MT_HOOK(cfree)(void *p);
MT_HOOK_ATTR void MT_HOOK(cfree)(void *p)
{
	do_free(MT_FAMILY_PLAIN, p);
}

MT_HOOK_ATTR void MT_HOOK(free_sized)(void *p, size_t size);
MT_HOOK_ATTR void MT_HOOK(free_sized)(void *p, size_t size)
{
	mt_record_free_call(p);
	if (mt_original[MT_FAMILY_PLAIN].free_sized)
		mt_original[MT_FAMILY_PLAIN].free_sized(p, size);
	else
		ORIGINAL(MT_FAMILY_PLAIN, free)(p);
}

MT_HOOK_ATTR void MT_HOOK(free_aligned_sized)(void *p, size_t align, size_t size);
MT_HOOK_ATTR void MT_HOOK(free_aligned_sized)(void *p, size_t align, size_t size)
{
	mt_record_free_call(p);
	if (mt_original[MT_FAMILY_PLAIN].free_aligned_sized)
		mt_original[MT_FAMILY_PLAIN].free_aligned_sized(p, align, size);
	else
		ORIGINAL(MT_FAMILY_PLAIN, free)(p);
}

#ifndef MT_BUILD_WRAP
DEFINE_FAMILY(je_, MT_FAMILY_JE)
DEFINE_FAMILY(mi_, MT_FAMILY_MI)
DEFINE_FAMILY(tc_, MT_FAMILY_TC)
#endif
