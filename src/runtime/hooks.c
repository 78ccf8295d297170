/* SPDX-License-Identifier: MIT */
/*
 * The malloc family under its plain and prefixed names.
 *
 * Order: an allocation is recorded after the real call, a free before it. Nothing here touches
 * errno: the tracker makes raw system calls only.
 *
 * The real allocator runs with the guard held: what it calls back through us (calloc -> malloc in
 * musl) is its own business and passes through.
 */
#include "core/sys.h"
#include "runtime/check.h"
#include "runtime/guard.h"
#include "runtime/light.h"
#include "runtime/names.h"
#include "runtime/program_errno.h"
#include "runtime/provider.h"

/* An original that is not there (yet): look again; prefixed names fall back on the plain family. */
MT_COLD static void find_original(enum mt_family family, void **slot)
{
	void **mine = (void **)&mt_original[family],
	     **plain = (void **)&mt_original[MT_FAMILY_PLAIN];
	mt_provider_need(slot);
	if (*slot || family == MT_FAMILY_PLAIN || mine[0])
		return;
	for (size_t i = 0; i < sizeof(struct mt_originals) / sizeof(void *); i++)
		mine[i] = plain[i];
}

#define ORIGINAL(family, name) \
	({ \
		if (MT_UNLIKELY(!mt_original[family].name)) \
			find_original(family, (void **)&mt_original[family].name); \
		mt_original[family].name; \
	})

MT_COLD static void *no_memory(void)
{
	return mt_errno_refuse(MT_ENOMEM);
}

/*
 * Whose block it is, for its usable size: the plain family's but inside the hooks of another.
 * family is a constant, so the plain hooks have none of this.
 */
MT_INLINE void enter_family(struct mt_thread *t, enum mt_family family)
{
	if (family != MT_FAMILY_PLAIN && t)
		t->family = family;
}

MT_INLINE void leave_family(enum mt_family family)
{
	if (family != MT_FAMILY_PLAIN && mt_thread_self())
		mt_thread_self()->family = MT_FAMILY_PLAIN;
}

/* After mt_enter_quick() found no way. */
MT_NOINLINE static void *malloc_slow(enum mt_family family, size_t size,
				     const struct mt_caller *caller)
{
	struct mt_thread *t;
	/* what sent us here may have been another process's: a handler forked meanwhile */
	if (family == MT_FAMILY_PLAIN && mt_check_is_on())
		return mt_check_malloc(size, MT_CALL_MALLOC, caller, 0);
	enum mt_enter how = mt_enter_slow(&t, caller->sp);
	enter_family(t, family);
	void *p = ORIGINAL(family, malloc)(size);
	if (how != MT_ENTER_TRACK)
		return mt_record_nested(how, t, p);
	return mt_finish_alloc(t, p, size, MT_CALL_MALLOC, caller, 0);
}

MT_COLD static void *settle_and_return(void *p)
{
	mt_settle();
	return p;
}

MT_COLD static void *step_and_return(struct mt_thread *t, void *p)
{
	mt_light_step(t);
	return p;
}

/*
 * What follows is reached as a hook's last step, so that it stands in the hook's own frame: the
 * ordinary path saves no more registers than it needs, and the slow one still knows the caller.
 */

MT_INLINE void *finish_light(void *p, size_t size, enum mt_state_call call,
			     const struct mt_caller *caller)
{
	struct mt_thread *t = mt_enter_quick(caller->sp);
	enum mt_enter how = t ? MT_ENTER_TRACK : mt_enter_slow(&t, caller->sp);
	if (how != MT_ENTER_TRACK)
		return mt_record_nested(how, t, p);
	return mt_finish_alloc(t, p, size, call, caller, 0);
}

/* What malloc, calloc and realloc do in a light mode after their originals. */
MT_NOINLINE static void *light_malloc_slow(void *p, size_t size)
{
	struct mt_caller caller = MT_CALLER();
	return finish_light(p, size, MT_CALL_MALLOC, &caller);
}

MT_NOINLINE static void *light_calloc_slow(void *p, size_t size)
{
	struct mt_caller caller = MT_CALLER();
	return finish_light(p, size, MT_CALL_CALLOC, &caller);
}

MT_NOINLINE static void *light_realloc_slow(void *p, size_t size)
{
	struct mt_caller caller = MT_CALLER();
	return finish_light(p, size, MT_CALL_REALLOC, &caller);
}

/*
 * A malloc of any family. mode: what is known of the thread. Calls of record.c are the last thing
 * done, so the path past them needs no saved registers.
 */
MT_INLINE void *tracked_malloc(enum mt_family family, size_t size, enum mt_fast_mode mode)
{
	uint32_t cell;
	struct mt_thread *t = mt_enter_quick((uintptr_t)__builtin_dwarf_cfa());
	if (MT_UNLIKELY(!t)) {
		struct mt_caller caller = MT_CALLER();
		return malloc_slow(family, size, &caller);
	}
	enter_family(t, family);
	void *p = ORIGINAL(family, malloc)(size);
	uint32_t *slot = mt_fast_slot((uint64_t)p);
	struct mt_caller c = MT_CALLER();
	/* another control word: a request, or recording is off, or this is a light mode */
	uint32_t control = __atomic_load_n(&mt_rt.hdr->control, __ATOMIC_RELAXED);
	if (MT_UNLIKELY(!p || t->settle || control != t->control || !mt_is_plain(size) ||
			!--t->until_tick))
		return mt_record_malloc(t, p, size, c.sp, c.ra, c.fp);
	if (MT_UNLIKELY(!mt_capture_known(&t->capture, c.sp, c.ra, c.fp, t->tag + MT_CALL_MALLOC,
					  &cell)))
		return mt_record_malloc_unknown(t, p, size, c.sp, c.ra, c.fp);
	if (MT_UNLIKELY(!mt_fast_alloc(t, slot, (uint64_t)p, size, cell, mode)))
		return mt_record_malloc_in_cell(t, p, size, cell);
	return mt_leave_quick(t) ? settle_and_return(p) : p;
}

/* In recording mode. Also of a thread that is not tracked yet, and a nested call: both go slow. */
MT_NOINLINE static void *recording_malloc(size_t size)
{
	return tracked_malloc(MT_FAMILY_PLAIN, size, MT_FAST_STREAM);
}

/* After mt_light_alloc(). slow: what else there is to do. */
MT_INLINE void *end_light_alloc(struct mt_thread *t, void *p, size_t size, enum mt_light counted,
				void *(*slow)(void *, size_t))
{
	if (MT_LIKELY(counted == MT_LIGHT_DONE))
		return p;
	return counted == MT_LIGHT_STEP ? step_and_return(t, p) : slow(p, size);
}

/* Counts a block where the word before it is not to be read: the allocator's chunks have no header
 * that we know, or some blocks lie between guard pages. */
MT_NOINLINE static void *asking_malloc(size_t size)
{
	struct mt_thread *t = mt_thread_self();
	void *p = mt_original[MT_FAMILY_PLAIN].malloc(size);
	if (MT_UNLIKELY(!p || !mt_light_is_small(t, size)))
		return light_malloc_slow(p, size);
	uint64_t usable = mt_usable(MT_FAMILY_PLAIN, p);
	enum mt_light counted =
		usable < MT_BIG_BYTES ? mt_light_alloc(t, size, usable) : MT_LIGHT_NO;
	return end_light_alloc(t, p, size, counted, light_malloc_slow);
}

/* A thread that nothing is known of yet. */
MT_NOINLINE static void *first_malloc(size_t size)
{
	return mt_check_is_on() ? mt_check_malloc_hook(size) : recording_malloc(size);
}

/* Where neither of the two quick ways is the thread's: by enum mt_other_way. */
static const struct other_way {
	void *(*malloc)(size_t size);
	void (*free)(void *p);
} other_ways[MT_WAYS];

MT_NOINLINE static void *other_malloc(size_t size)
{
	const struct mt_thread *t = mt_thread_self();
	return MT_UNLIKELY(!t) ? first_malloc(size) : other_ways[t->other_way].malloc(size);
}

/* A block that the original gave, or NULL. */
MT_INLINE void *light_new(struct mt_thread *t, void *p, size_t size, void *(*slow)(void *, size_t))
{
	if (MT_UNLIKELY(!p || !mt_light_is_small(t, size)))
		return slow(p, size);
	uint64_t word = mt_chunk_word(p);
	if (MT_UNLIKELY(word & MT_CHUNK_MAPPED))
		return slow(p, size);
	enum mt_light counted = mt_light_alloc(t, size, mt_chunk_usable(word));
	return end_light_alloc(t, p, size, counted, slow);
}

MT_NOINLINE static void *light_malloc(size_t size)
{
	struct mt_thread *t = mt_thread_self_light();
	if (MT_UNLIKELY(!t))
		return other_malloc(size);
	return light_new(t, mt_original[MT_FAMILY_PLAIN].malloc(size), size, light_malloc_slow);
}

MT_INLINE void *do_malloc(enum mt_family family, size_t size)
{
	return tracked_malloc(family, size, family == MT_FAMILY_PLAIN ? MT_FAST_FULL : MT_FAST_ANY);
}

MT_INLINE void *do_calloc(enum mt_family family, size_t n, size_t each, struct mt_caller caller)
{
	struct mt_thread *t;
	enum mt_enter how = mt_enter(&t);
	enter_family(t, family);
	if (MT_UNLIKELY(how != MT_ENTER_TRACK))
		return mt_record_nested(how, t, ORIGINAL(family, calloc)(n, each));
	void *p = ORIGINAL(family, calloc)(n, each);
	/* a block was given, so the product did not overflow */
	return mt_finish_alloc(t, p, n * each, MT_CALL_CALLOC, &caller, 0);
}

/* A free of an address in the pool of guarded samples; how and t as of mt_enter(). */
MT_NOINLINE static void free_guarded(enum mt_enter how, struct mt_thread *t, void *p)
{
	struct mt_caller caller = MT_CALLER();
	int fatal = mt_guard_free(how, t, p, &caller);
	if (t && how == MT_ENTER_TRACK)
		mt_leave(t);
	if (fatal)
		mt_guard_die();
}

/* t: its guard is held, or NULL: nothing is done yet. */
MT_NOINLINE static void free_slow(enum mt_family family, void *p, struct mt_thread *t, uintptr_t sp)
{
	if (!t && family == MT_FAMILY_PLAIN && mt_check_is_on()) { /* see malloc_slow() */
		struct mt_caller caller = MT_CALLER();
		mt_check_free(p, MT_CALL_FREE, &caller);
		return;
	}
	if (!t)
		t = mt_enter_quick(sp); /* of a light mode */
	enum mt_enter how = t ? MT_ENTER_TRACK : mt_enter_slow(&t, sp);
	enter_family(t, family);
	if (mt_guard_holds(p)) {
		free_guarded(how, t, p);
		return;
	}
	if (p)
		t = mt_record_free_entered(how, t, p);
	if (t && how == MT_ENTER_TRACK)
		mt_leave(t);
	ORIGINAL(family, free)(p);
}

MT_COLD static void step_and_free(struct mt_thread *t, void *p)
{
	mt_light_step(t);
	mt_original[MT_FAMILY_PLAIN].free(p);
}

MT_COLD static void settle_and_free(enum mt_family family, void *p)
{
	mt_settle();
	mt_original[family].free(p);
}

/* t: the calling thread's own, or NULL. */
MT_INLINE void tracked_free(enum mt_family family, void *p, struct mt_thread *t,
			    enum mt_fast_mode mode)
{
	uintptr_t sp = (uintptr_t)__builtin_dwarf_cfa();
	t = mt_enter_as(t, sp);
	if (MT_UNLIKELY(!t || !mt_original[family].free || !mt_fast_free(t, (uint64_t)p, mode)))
		free_slow(family, p, t, sp);
	else if (mt_leave_quick(t))
		settle_and_free(family, p);
	else
		mt_original[family].free(p);
}

/* As recording_malloc(). */
MT_NOINLINE static void recording_free(void *p)
{
	tracked_free(MT_FAMILY_PLAIN, p, mt_thread_self(), MT_FAST_STREAM);
}

MT_NOINLINE static void light_free_slow(void *p)
{
	free_slow(MT_FAMILY_PLAIN, p, NULL, (uintptr_t)__builtin_dwarf_cfa());
}

/* After mt_light_free(). slow: what else there is to do. */
MT_INLINE void end_light_free(struct mt_thread *t, void *p, enum mt_light counted,
			      void (*slow)(void *))
{
	if (MT_LIKELY(counted == MT_LIGHT_DONE))
		mt_original[MT_FAMILY_PLAIN].free(p);
	else if (counted == MT_LIGHT_STEP)
		step_and_free(t, p);
	else
		slow(p);
}

/* After mt_light_free() of a block that may be recorded. */
MT_NOINLINE static void light_free_again(void *p)
{
	struct mt_thread *t = mt_thread_self_light();
	enum mt_light counted = MT_LIGHT_NO;
	if (MT_LIKELY(p && t)) {
		uint64_t word = mt_chunk_word(p), usable = mt_chunk_usable(word);
		if (!(word & MT_CHUNK_MAPPED) && usable < MT_LARGE_BYTES &&
		    mt_light_is_current(t) && mt_light_is_unrecorded(p))
			counted = mt_light_count_gone(t, usable);
	}
	end_light_free(t, p, counted, light_free_slow);
}

/* As asking_malloc(). */
MT_NOINLINE static void asking_free(void *p)
{
	struct mt_thread *t = mt_thread_self();
	end_light_free(t, p, mt_light_free(t, p, mt_usable(MT_FAMILY_PLAIN, p)), light_free_again);
}

/* As first_malloc(). */
MT_NOINLINE static void first_free(void *p)
{
	if (mt_check_is_on())
		mt_check_free_hook(p);
	else if (mt_guard_holds(p))
		light_free_slow(p);
	else
		recording_free(p);
}

MT_NOINLINE static void slow_way_free(void *p)
{
	if (mt_guard_holds(p))
		light_free_slow(p);
	else
		recording_free(p);
}

MT_NOINLINE static void asking_way_free(void *p)
{
	if (mt_guard_holds(p))
		light_free_slow(p);
	else if (p)
		asking_free(p);
}

static const struct other_way other_ways[MT_WAYS] = {
	[MT_WAY_SLOW] = {recording_malloc, slow_way_free},
	[MT_WAY_ASK] = {asking_malloc, asking_way_free},
	[MT_WAY_CHECK] = {mt_check_malloc_hook, mt_check_free_hook},
	[MT_WAY_CHECK_BARE] = {mt_check_bare_malloc_hook, mt_check_bare_free_hook},
	[MT_WAY_CHECK_GUARDED] = {mt_check_guarded_malloc_hook, mt_check_guarded_free_hook},
	[MT_WAY_CHECK_WATCHED] = {mt_check_watched_malloc_hook, mt_check_watched_free_hook},
	[MT_WAY_CHECK_GUARDED_WATCHED] = {mt_check_guarded_watched_malloc_hook,
					  mt_check_guarded_watched_free_hook},
};

MT_NOINLINE static void other_free(void *p)
{
	const struct mt_thread *t = mt_thread_self();
	if (MT_UNLIKELY(!t))
		first_free(p);
	else
		other_ways[t->other_way].free(p);
}

/* As light_malloc(). */
MT_NOINLINE static void light_free(void *p)
{
	struct mt_thread *t = mt_thread_self_light();
	enum mt_light counted = MT_LIGHT_NO;
	if (MT_UNLIKELY(!t)) {
		other_free(p);
		return;
	}
	if (MT_LIKELY(p != NULL)) {
		uint64_t word = mt_chunk_word(p);
		if (MT_LIKELY(!(word & MT_CHUNK_MAPPED)))
			counted = mt_light_free(t, p, mt_chunk_usable(word));
	}
	end_light_free(t, p, counted, light_free_again);
}

MT_INLINE void do_free(enum mt_family family, void *p)
{
	struct mt_thread *t = mt_thread_self_full();
	if (family != MT_FAMILY_PLAIN)
		tracked_free(family, p, t ? t : mt_thread_self(), MT_FAST_ANY);
	else if (MT_UNLIKELY(!t))
		light_free(p);
	else
		tracked_free(family, p, t, MT_FAST_FULL);
}

typedef void *(*realloc_function)(void *, size_t);
typedef void *(*reallocarray_function)(void *, size_t, size_t);

static void *call_realloc(const struct mt_realloc *r)
{
	return ((realloc_function)r->original)(r->old, r->n);
}

static void *call_reallocarray(const struct mt_realloc *r)
{
	return ((reallocarray_function)r->original)(r->old, r->n, r->each);
}

MT_INLINE void *do_realloc(enum mt_family family, const struct mt_realloc *r,
			   const struct mt_caller *caller)
{
	struct mt_thread *t;
	enum mt_enter how = mt_enter(&t);
	enter_family(t, family);
	return mt_record_realloc(how, t, r, caller, 0);
}

enum { PAGE_BYTES = 4096 };

static void *finish_aligned(struct mt_thread *t, void *p, size_t align, size_t size,
			    const struct mt_caller *caller)
{
	if (MT_UNLIKELY(t->streaming) && p)
		mt_stream_before_aligned(t, align);
	return mt_finish_alloc(t, p, size, MT_CALL_ALIGNED, caller, 0);
}

MT_INLINE int do_posix_memalign(enum mt_family family, void **out, size_t align, size_t size,
				struct mt_caller caller)
{
	struct mt_thread *t;
	enum mt_enter how = mt_enter(&t);
	enter_family(t, family);
	if (!ORIGINAL(family, posix_memalign)) {
		if (how == MT_ENTER_TRACK)
			mt_leave(t);
		return MT_ENOMEM;
	}
	int err = mt_original[family].posix_memalign(out, align, size);
	void *p = err ? NULL : *out;
	if (how != MT_ENTER_TRACK)
		mt_record_nested(how, t, p);
	else
		p = finish_aligned(t, p, align, size, &caller);
	if (!err)
		*out = p; /* a sample may have been moved */
	return err;
}

/* memalign and aligned_alloc */
MT_INLINE void *do_aligned(enum mt_family family, void *(*original)(size_t, size_t), size_t align,
			   size_t size, struct mt_caller caller)
{
	struct mt_thread *t;
	enum mt_enter how = mt_enter(&t);
	enter_family(t, family);
	void *p = original ? original(align, size) : no_memory();
	if (how != MT_ENTER_TRACK)
		return mt_record_nested(how, t, p);
	return finish_aligned(t, p, align, size, &caller);
}

/* valloc and pvalloc */
static void *do_page_aligned(void *(*original)(size_t), size_t size, struct mt_caller caller)
{
	struct mt_thread *t;
	enum mt_enter how = mt_enter(&t);
	void *p = original ? original(size) : no_memory();
	if (how != MT_ENTER_TRACK)
		return mt_record_nested(how, t, p);
	return finish_aligned(t, p, PAGE_BYTES, size, &caller);
}

/* As light_malloc(): the other last step of the hook, with all that full mode needs. */
MT_NOINLINE static void *full_malloc(size_t size)
{
	return do_malloc(MT_FAMILY_PLAIN, size);
}

MT_INLINE void *malloc_of(enum mt_family family, size_t size)
{
	if (family != MT_FAMILY_PLAIN) {
		if (MT_UNLIKELY(mt_check_has(family)))
			return mt_check_malloc_hook(size);
		void *p = do_malloc(family, size);
		leave_family(family);
		return p;
	}
	return MT_LIKELY(mt_thread_self_full() != NULL) ? full_malloc(size) : light_malloc(size);
}

MT_NOINLINE static void *full_calloc(size_t n, size_t each)
{
	if (mt_check_is_on())
		return mt_check_calloc_hook(n, each);
	return do_calloc(MT_FAMILY_PLAIN, n, each, MT_CALLER());
}

MT_NOINLINE static void *light_calloc(size_t n, size_t each)
{
	struct mt_thread *t = mt_thread_self_light();
	if (MT_UNLIKELY(!t)) /* not any more: a handler's child, say */
		return full_calloc(n, each);
	void *p = mt_original[MT_FAMILY_PLAIN].calloc(n, each);
	/* where a block was given the product did not overflow */
	return light_new(t, p, n * each, light_calloc_slow);
}

MT_INLINE void *calloc_of(enum mt_family family, size_t n, size_t each)
{
	if (family != MT_FAMILY_PLAIN) {
		struct mt_caller caller = MT_CALLER();
		if (MT_UNLIKELY(mt_check_has(family)))
			return mt_check_calloc(n, each, &caller, 0);
		void *p = do_calloc(family, n, each, caller);
		leave_family(family);
		return p;
	}
	if (mt_thread_self_light() && MT_LIKELY(mt_original[MT_FAMILY_PLAIN].calloc != NULL))
		return light_calloc(n, each);
	return full_calloc(n, each);
}

MT_NOINLINE static void *full_realloc(void *old, size_t size)
{
	struct mt_caller caller = MT_CALLER();
	if (mt_check_is_on())
		return mt_check_realloc(old, size, &caller, 0);
	struct mt_realloc r = {.call = call_realloc,
			       .original = (void *)ORIGINAL(MT_FAMILY_PLAIN, realloc),
			       .old = old,
			       .n = size,
			       .size = size};
	return do_realloc(MT_FAMILY_PLAIN, &r, &caller);
}

/* 1: the block is an ordinary one of a light mode, of so many usable bytes. */
MT_INLINE int is_light_block(const struct mt_thread *t, const void *p, uint64_t *ret_usable)
{
	uint64_t word = mt_chunk_word(p), usable = mt_chunk_usable(word);
	*ret_usable = usable;
	return !(word & MT_CHUNK_MAPPED) && mt_light_may_go(t, p, usable);
}

/* The process, or how it is recorded, became another one during the call. */
MT_NOINLINE static void *light_realloc_late(void *p, size_t size, uint64_t was_usable)
{
	struct mt_caller caller = MT_CALLER();
	struct mt_thread *t = mt_enter_quick(caller.sp);
	enum mt_enter how = t ? MT_ENTER_TRACK : mt_enter_slow(&t, caller.sp);
	if (how == MT_ENTER_NESTED && t->stats)
		mt_light_count_free(t, mt_light_class(t, was_usable), was_usable);
	if (how != MT_ENTER_TRACK)
		return mt_record_nested(how, t, p);
	if (mt_control_changed(t))
		mt_control_take(t);
	mt_light_gone(t, NULL, was_usable);
	mt_count(&t->row->reallocs, 1);
	mt_count(&t->row->realloc_grown, size > was_usable);
	return mt_finish_alloc(t, p, size, MT_CALL_REALLOC, &caller, 0);
}

MT_NOINLINE static void *light_realloc(void *old, size_t size)
{
	struct mt_thread *t = mt_thread_self_light();
	uint64_t usable;
	if (MT_UNLIKELY(!t))
		return full_realloc(old, size);
	if (old && (MT_UNLIKELY(!size) || MT_UNLIKELY(!is_light_block(t, old, &usable))))
		return full_realloc(old, size);
	void *p = mt_original[MT_FAMILY_PLAIN].realloc(old, size);
	if (MT_LIKELY(old && p)) {
		if (MT_UNLIKELY(!mt_light_is_current(t)))
			return light_realloc_late(p, size, usable);
		mt_light_add(&t->row->reallocs, 1);
		mt_light_add(&t->row->realloc_grown, size > usable);
		if (MT_UNLIKELY(mt_light_count_free(t, mt_light_class(t, usable), usable)))
			mt_light_step(t);
	}
	return light_new(t, p, size, light_realloc_slow);
}

MT_INLINE void *realloc_of(enum mt_family family, void *old, size_t size)
{
	if (family != MT_FAMILY_PLAIN) {
		struct mt_caller caller = MT_CALLER();
		if (MT_UNLIKELY(mt_check_has(family)))
			return mt_check_realloc(old, size, &caller, 0);
		struct mt_realloc r = {.call = call_realloc,
				       .original = (void *)ORIGINAL(family, realloc),
				       .old = old,
				       .n = size,
				       .size = size};
		void *p = do_realloc(family, &r, &caller);
		leave_family(family);
		return p;
	}
	if (mt_thread_self_light() && MT_LIKELY(mt_original[MT_FAMILY_PLAIN].realloc != NULL))
		return light_realloc(old, size);
	return full_realloc(old, size);
}

#define IS_CHECKED(family) (family == MT_FAMILY_PLAIN ? mt_check_is_on() : mt_check_has(family))

#define DEFINE_FAMILY(prefix, family) \
	MT_HOOK_ATTR void *MT_HOOK(prefix##malloc)(size_t size); \
	MT_HOOK_ATTR void *MT_HOOK(prefix##malloc)(size_t size) \
	{ \
		return malloc_of(family, size); \
	} \
	MT_HOOK_ATTR void *MT_HOOK(prefix##calloc)(size_t n, size_t each); \
	MT_HOOK_ATTR void *MT_HOOK(prefix##calloc)(size_t n, size_t each) \
	{ \
		return calloc_of(family, n, each); \
	} \
	MT_HOOK_ATTR void MT_HOOK(prefix##free)(void *p); \
	MT_HOOK_ATTR void MT_HOOK(prefix##free)(void *p) \
	{ \
		if (family != MT_FAMILY_PLAIN && mt_check_has(family)) { \
			mt_check_free_hook(p); \
			return; \
		} \
		do_free(family, p); \
		leave_family(family); \
	} \
	MT_HOOK_ATTR void *MT_HOOK(prefix##realloc)(void *old, size_t size); \
	MT_HOOK_ATTR void *MT_HOOK(prefix##realloc)(void *old, size_t size) \
	{ \
		return realloc_of(family, old, size); \
	} \
	MT_HOOK_ATTR int MT_HOOK(prefix##posix_memalign)(void **out, size_t align, size_t size); \
	MT_HOOK_ATTR int MT_HOOK(prefix##posix_memalign)(void **out, size_t align, size_t size) \
	{ \
		struct mt_caller caller = MT_CALLER(); \
		if (IS_CHECKED(family)) \
			return mt_check_posix_memalign(out, align, size, &caller); \
		int err = do_posix_memalign(family, out, align, size, caller); \
		leave_family(family); \
		return err; \
	} \
	MT_HOOK_ATTR void *MT_HOOK(prefix##memalign)(size_t align, size_t size); \
	MT_HOOK_ATTR void *MT_HOOK(prefix##memalign)(size_t align, size_t size) \
	{ \
		struct mt_caller caller = MT_CALLER(); \
		if (IS_CHECKED(family)) \
			return mt_check_memalign(align, size, MT_CALL_ALIGNED, &caller); \
		void *p = do_aligned(family, ORIGINAL(family, memalign), align, size, caller); \
		leave_family(family); \
		return p; \
	} \
	MT_HOOK_ATTR void *MT_HOOK(prefix##aligned_alloc)(size_t align, size_t size); \
	MT_HOOK_ATTR void *MT_HOOK(prefix##aligned_alloc)(size_t align, size_t size) \
	{ \
		struct mt_caller caller = MT_CALLER(); \
		if (IS_CHECKED(family)) \
			return mt_check_aligned_alloc(align, size, &caller); \
		void *p = \
			do_aligned(family, ORIGINAL(family, aligned_alloc), align, size, caller); \
		leave_family(family); \
		return p; \
	}

DEFINE_FAMILY(, MT_FAMILY_PLAIN)

MT_HOOK_ATTR void *MT_HOOK(reallocarray)(void *old, size_t n, size_t each);
MT_HOOK_ATTR void *MT_HOOK(reallocarray)(void *old, size_t n, size_t each)
{
	struct mt_caller caller = MT_CALLER();
	if (mt_check_is_on())
		return mt_check_reallocarray(old, n, each, &caller);
	if (!ORIGINAL(MT_FAMILY_PLAIN, reallocarray))
		return no_memory();
	struct mt_realloc r = {.call = call_reallocarray,
			       .original = (void *)mt_original[MT_FAMILY_PLAIN].reallocarray,
			       .old = old,
			       .n = n,
			       .each = each,
			       .size = 0};
	if (mt_mul_size(n, each, &r.size))
		return call_reallocarray(&r); /* refuses, sets errno */
	return do_realloc(MT_FAMILY_PLAIN, &r, &caller);
}

MT_HOOK_ATTR void *MT_HOOK(valloc)(size_t size);
MT_HOOK_ATTR void *MT_HOOK(valloc)(size_t size)
{
	struct mt_caller caller = MT_CALLER();
	if (mt_check_is_on())
		return mt_check_memalign(PAGE_BYTES, size, MT_CALL_ALIGNED, &caller);
	return do_page_aligned(ORIGINAL(MT_FAMILY_PLAIN, valloc), size, caller);
}

MT_HOOK_ATTR void *MT_HOOK(pvalloc)(size_t size);
MT_HOOK_ATTR void *MT_HOOK(pvalloc)(size_t size)
{
	struct mt_caller caller = MT_CALLER();
	if (mt_check_is_on())
		return mt_check_pvalloc(size, &caller);
	return do_page_aligned(ORIGINAL(MT_FAMILY_PLAIN, pvalloc), size, caller);
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
	if (mt_check_is_on()) {
		mt_check_free_hook(p);
		return;
	}
	if (mt_guard_holds(p)) {
		mt_guard_free_call(p);
		return;
	}
	mt_record_free_call(p);
	if (mt_original[MT_FAMILY_PLAIN].free_sized)
		mt_original[MT_FAMILY_PLAIN].free_sized(p, size);
	else
		ORIGINAL(MT_FAMILY_PLAIN, free)(p);
}

MT_HOOK_ATTR void MT_HOOK(free_aligned_sized)(void *p, size_t align, size_t size);
MT_HOOK_ATTR void MT_HOOK(free_aligned_sized)(void *p, size_t align, size_t size)
{
	if (mt_check_is_on()) {
		mt_check_free_hook(p);
		return;
	}
	if (mt_guard_holds(p)) {
		mt_guard_free_call(p);
		return;
	}
	mt_record_free_call(p);
	if (mt_original[MT_FAMILY_PLAIN].free_aligned_sized)
		mt_original[MT_FAMILY_PLAIN].free_aligned_sized(p, align, size);
	else
		ORIGINAL(MT_FAMILY_PLAIN, free)(p);
}

#ifndef MT_BUILD_WRAP
/* Only for blocks that the allocator does not know as the program does. */
MT_PUBLIC size_t malloc_usable_size(void *p);
MT_PUBLIC size_t malloc_usable_size(void *p)
{
	if (mt_check_is_on())
		return mt_check_usable_size_hook(p);
	if (mt_guard_holds(p))
		return mt_guard_size(p);
	if (!ORIGINAL(MT_FAMILY_PLAIN, malloc_usable_size))
		return 0;
	return mt_original[MT_FAMILY_PLAIN].malloc_usable_size(p);
}

DEFINE_FAMILY(je_, MT_FAMILY_JE)
DEFINE_FAMILY(mi_, MT_FAMILY_MI)
DEFINE_FAMILY(tc_, MT_FAMILY_TC)
#endif
