/* SPDX-License-Identifier: MIT */
/*
 * operator new and delete, all 22 forms. Where they are not the allocator's own (libstdc++ over
 * malloc), the hook jumps on: the malloc and free inside are recorded, with operator new in the
 * stack, and an exception passes no frame of ours. Where the allocator's module defines them
 * (jemalloc, tcmalloc, mimalloc) nothing comes back through malloc, so the block is recorded here;
 * the guard is not held during the call, because the call may throw.
 */
#include "runtime/names.h"
#include "runtime/provider.h"
#include "runtime/record.h"

#ifndef MT_BUILD_WRAP /* in a static program operator new calls the wrapped malloc */

typedef struct {
	char unused;
} nothrow_ref; /* std::nothrow_t const & is a pointer */

MT_COLD static void *find_cxx(int form)
{
	mt_provider_search_again();
	return __atomic_load_n(&mt_cxx_original[form], __ATOMIC_ACQUIRE);
}

MT_INLINE void *original_of(int form)
{
	void *f = mt_cxx_original[form];
	return MT_LIKELY(f != NULL) ? f : find_cxx(form);
}

/*
 * params and args as the form has them; the tail call leaves no frame. A program that looks for a
 * form of delete by name finds ours although nobody else has it: any other form serves.
 */
#define DEFINE_NEW(form, name, array, params, args) \
	MT_HOOK_ATTR void *MT_HOOK(name) params; \
	MT_HOOK_ATTR void *MT_HOOK(name) params \
	{ \
		void *(*original)params = (void *(*)params)original_of(form); \
		if (MT_LIKELY(!mt_cxx_own[form])) \
			return original args; \
		struct mt_caller caller = MT_CALLER(); \
		mt_record_watch(); \
		return mt_record_unseen(original args, size, \
					array ? MT_CALL_NEW_ARRAY : MT_CALL_NEW, &caller); \
	}

#define DEFINE_DELETE(form, name, params, args) \
	MT_HOOK_ATTR void MT_HOOK(name) params; \
	MT_HOOK_ATTR void MT_HOOK(name) params \
	{ \
		void(*original) params = (void(*) params)original_of(form); \
		if (MT_UNLIKELY(!original)) { \
			_ZdlPv(p); \
			return; \
		} \
		if (MT_LIKELY(!mt_cxx_own[form])) { \
			original args; \
			return; \
		} \
		struct mt_thread *t = mt_record_delete_begin(p); \
		original args; \
		mt_record_delete_end(t); \
	}

MT_HOOK_ATTR void MT_HOOK(_ZdlPv)(void *p);

DEFINE_NEW(0, _Znwm, 0, (size_t size), (size))
DEFINE_NEW(1, _Znam, 1, (size_t size), (size))
DEFINE_NEW(2, _ZnwmRKSt9nothrow_t, 0, (size_t size, const nothrow_ref *n), (size, n))
DEFINE_NEW(3, _ZnamRKSt9nothrow_t, 1, (size_t size, const nothrow_ref *n), (size, n))
DEFINE_NEW(4, _ZnwmSt11align_val_t, 0, (size_t size, size_t align), (size, align))
DEFINE_NEW(5, _ZnamSt11align_val_t, 1, (size_t size, size_t align), (size, align))
DEFINE_NEW(6, _ZnwmSt11align_val_tRKSt9nothrow_t, 0,
	   (size_t size, size_t align, const nothrow_ref *n), (size, align, n))
DEFINE_NEW(7, _ZnamSt11align_val_tRKSt9nothrow_t, 1,
	   (size_t size, size_t align, const nothrow_ref *n), (size, align, n))
DEFINE_DELETE(8, _ZdlPv, (void *p), (p))
DEFINE_DELETE(9, _ZdaPv, (void *p), (p))
DEFINE_DELETE(10, _ZdlPvm, (void *p, size_t size), (p, size))
DEFINE_DELETE(11, _ZdaPvm, (void *p, size_t size), (p, size))
DEFINE_DELETE(12, _ZdlPvRKSt9nothrow_t, (void *p, const nothrow_ref *n), (p, n))
DEFINE_DELETE(13, _ZdaPvRKSt9nothrow_t, (void *p, const nothrow_ref *n), (p, n))
DEFINE_DELETE(14, _ZdlPvSt11align_val_t, (void *p, size_t align), (p, align))
DEFINE_DELETE(15, _ZdaPvSt11align_val_t, (void *p, size_t align), (p, align))
DEFINE_DELETE(16, _ZdlPvmSt11align_val_t, (void *p, size_t size, size_t align), (p, size, align))
DEFINE_DELETE(17, _ZdaPvmSt11align_val_t, (void *p, size_t size, size_t align), (p, size, align))
DEFINE_DELETE(18, _ZdlPvSt11align_val_tRKSt9nothrow_t,
	      (void *p, size_t align, const nothrow_ref *n), (p, align, n))
DEFINE_DELETE(19, _ZdaPvSt11align_val_tRKSt9nothrow_t,
	      (void *p, size_t align, const nothrow_ref *n), (p, align, n))
DEFINE_DELETE(20, _ZdlPvmRKSt9nothrow_t, (void *p, size_t size, const nothrow_ref *n), (p, size, n))
DEFINE_DELETE(21, _ZdaPvmRKSt9nothrow_t, (void *p, size_t size, const nothrow_ref *n), (p, size, n))
#endif
