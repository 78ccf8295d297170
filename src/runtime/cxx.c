/* SPDX-License-Identifier: MIT */
/*
 * operator new and delete, all 22 forms. Where they are not the allocator's own (libstdc++ over
 * malloc), the hook jumps on: the malloc and free inside are recorded, with operator new in the
 * stack, and an exception passes no frame of ours. Where the allocator's module defines them
 * (jemalloc, tcmalloc, mimalloc) nothing comes back through malloc, so the block is recorded here;
 * the guard is not held during the call, because the call may throw.
 */
#include "runtime/check.h"
#include "runtime/names.h"
#include "runtime/provider.h"
#include "runtime/record.h"

#ifndef MT_BUILD_WRAP /* in a static program operator new calls the wrapped malloc */

typedef struct {
	char unused;
} nothrow_ref; /* std::nothrow_t const & is a pointer */

MT_COLD static void *find_cxx(int form)
{
	mt_provider_need(&mt_cxx_original[form]);
	return __atomic_load_n(&mt_cxx_original[form], __ATOMIC_ACQUIRE);
}

MT_INLINE void *original_of(int form)
{
	void *f = mt_cxx_original[form];
	return MT_LIKELY(f != NULL) ? f : find_cxx(form);
}

/* In check mode, where the allocator's module has operators of its own. */
MT_COLD static void *checked_new(size_t size, size_t align, enum mt_state_call call, uintptr_t sp,
				 uintptr_t ra, uintptr_t fp)
{
	struct mt_caller caller = {sp, ra, fp};
	return mt_check_memalign(align, size, call, &caller);
}

MT_COLD static void checked_delete(void *p, enum mt_state_call call, uintptr_t sp, uintptr_t ra,
				   uintptr_t fp)
{
	struct mt_caller caller = {sp, ra, fp};
	mt_check_free(p, call, &caller);
}

/* MT_CALLER() as three arguments: no frame of ours is needed for them */
#define CALLER_WORDS \
	(uintptr_t) __builtin_dwarf_cfa(), (uintptr_t)__builtin_return_address(0), \
		*(uintptr_t *)__builtin_frame_address(0)

/*
 * params and args as the form has them; the tail call leaves no frame. A program that looks for a
 * form of delete by name finds ours although nobody else has it: any other form serves. In check
 * mode malloc and free are told who calls them; where they are not called, the block is made here,
 * and the original is asked only when there is no memory: it knows whether to throw.
 */
#define DEFINE_NEW(form, name, array, alignment, params, args) \
	MT_HOOK_ATTR void *MT_HOOK(name) params; \
	MT_HOOK_ATTR void *MT_HOOK(name) params \
	{ \
		void *(*original)params = (void *(*)params)original_of(form); \
		enum mt_state_call call = array ? MT_CALL_NEW_ARRAY : MT_CALL_NEW; \
		if (MT_LIKELY(!mt_cxx_own[form])) { \
			if (MT_UNLIKELY(mt_check_is_on())) \
				mt_check_expect(call, size + !size, \
						(uintptr_t)__builtin_dwarf_cfa()); \
			return original args; \
		} \
		if (mt_check_is_on()) { \
			void *p = checked_new(size, alignment, call, CALLER_WORDS); \
			return p ? p : original args; \
		} \
		struct mt_caller caller = MT_CALLER(); \
		mt_record_watch(); \
		return mt_record_unseen(original args, size, call, &caller); \
	}

#define DEFINE_DELETE(form, name, array, params, args) \
	MT_HOOK_ATTR void MT_HOOK(name) params; \
	MT_HOOK_ATTR void MT_HOOK(name) params \
	{ \
		void(*original) params = (void(*) params)original_of(form); \
		enum mt_state_call call = array ? MT_CALL_DELETE_ARRAY : MT_CALL_DELETE; \
		if (MT_UNLIKELY(!original)) { \
			_ZdlPv(p); \
			return; \
		} \
		if (MT_LIKELY(!mt_cxx_own[form])) { \
			if (MT_UNLIKELY(mt_check_is_on()) && p) \
				mt_check_expect(call, (uintptr_t)p, \
						(uintptr_t)__builtin_dwarf_cfa()); \
			original args; \
			return; \
		} \
		if (mt_check_is_on()) { \
			checked_delete(p, call, CALLER_WORDS); \
			return; \
		} \
		struct mt_thread *t = mt_record_delete_begin(p); \
		original args; \
		mt_record_delete_end(t); \
	}

MT_HOOK_ATTR void MT_HOOK(_ZdlPv)(void *p);

DEFINE_NEW(0, _Znwm, 0, 0, (size_t size), (size))
DEFINE_NEW(1, _Znam, 1, 0, (size_t size), (size))
DEFINE_NEW(2, _ZnwmRKSt9nothrow_t, 0, 0, (size_t size, const nothrow_ref *n), (size, n))
DEFINE_NEW(3, _ZnamRKSt9nothrow_t, 1, 0, (size_t size, const nothrow_ref *n), (size, n))
DEFINE_NEW(4, _ZnwmSt11align_val_t, 0, align, (size_t size, size_t align), (size, align))
DEFINE_NEW(5, _ZnamSt11align_val_t, 1, align, (size_t size, size_t align), (size, align))
DEFINE_NEW(6, _ZnwmSt11align_val_tRKSt9nothrow_t, 0, align,
	   (size_t size, size_t align, const nothrow_ref *n), (size, align, n))
DEFINE_NEW(7, _ZnamSt11align_val_tRKSt9nothrow_t, 1, align,
	   (size_t size, size_t align, const nothrow_ref *n), (size, align, n))
DEFINE_DELETE(8, _ZdlPv, 0, (void *p), (p))
DEFINE_DELETE(9, _ZdaPv, 1, (void *p), (p))
DEFINE_DELETE(10, _ZdlPvm, 0, (void *p, size_t size), (p, size))
DEFINE_DELETE(11, _ZdaPvm, 1, (void *p, size_t size), (p, size))
DEFINE_DELETE(12, _ZdlPvRKSt9nothrow_t, 0, (void *p, const nothrow_ref *n), (p, n))
DEFINE_DELETE(13, _ZdaPvRKSt9nothrow_t, 1, (void *p, const nothrow_ref *n), (p, n))
DEFINE_DELETE(14, _ZdlPvSt11align_val_t, 0, (void *p, size_t align), (p, align))
DEFINE_DELETE(15, _ZdaPvSt11align_val_t, 1, (void *p, size_t align), (p, align))
DEFINE_DELETE(16, _ZdlPvmSt11align_val_t, 0, (void *p, size_t size, size_t align), (p, size, align))
DEFINE_DELETE(17, _ZdaPvmSt11align_val_t, 1, (void *p, size_t size, size_t align), (p, size, align))
DEFINE_DELETE(18, _ZdlPvSt11align_val_tRKSt9nothrow_t, 0,
	      (void *p, size_t align, const nothrow_ref *n), (p, align, n))
DEFINE_DELETE(19, _ZdaPvSt11align_val_tRKSt9nothrow_t, 1,
	      (void *p, size_t align, const nothrow_ref *n), (p, align, n))
DEFINE_DELETE(20, _ZdlPvmRKSt9nothrow_t, 0, (void *p, size_t size, const nothrow_ref *n),
	      (p, size, n))
DEFINE_DELETE(21, _ZdaPvmRKSt9nothrow_t, 1, (void *p, size_t size, const nothrow_ref *n),
	      (p, size, n))
#endif
