/* SPDX-License-Identifier: MIT */
/* Calls of check mode that are others with other arguments; see check.h. */
#include "core/sys.h"
#include "runtime/check.h"
#include "runtime/program_errno.h"

enum { PAGE_BYTES = 4096 };

static int is_pow2(size_t n)
{
	return n && !(n & (n - 1));
}

void *mt_check_aligned_alloc(size_t align, size_t size, const struct mt_caller *caller)
{
	const struct mt_thread *t = mt_thread_self();
	int is_nested = t && t->depth; /* musl's posix_memalign() comes here with any size */
	if (!is_nested && (!is_pow2(align) || size & (align - 1)))
		return mt_errno_refuse(MT_EINVAL);
	return mt_check_memalign(align, size, MT_CALL_ALIGNED, caller);
}

int mt_check_posix_memalign(void **out, size_t align, size_t size, const struct mt_caller *caller)
{
	int before = mt_errno_get();
	if (align < sizeof(void *) || !is_pow2(align))
		return MT_EINVAL;
	*out = mt_check_memalign(align, size, MT_CALL_ALIGNED, caller);
	mt_errno_set(before);
	return *out ? 0 : MT_ENOMEM;
}

void *mt_check_pvalloc(size_t size, const struct mt_caller *caller)
{
	size_t pages;
	if (__builtin_add_overflow(size, (size_t)PAGE_BYTES - 1, &pages))
		return mt_errno_refuse(MT_ENOMEM);
	pages &= ~(size_t)(PAGE_BYTES - 1);
	return mt_check_memalign(PAGE_BYTES, pages ? pages : PAGE_BYTES, MT_CALL_ALIGNED, caller);
}

void *mt_check_reallocarray(void *old, size_t n, size_t each, const struct mt_caller *caller)
{
	size_t size;
	if (mt_mul_size(n, each, &size))
		return mt_errno_refuse(MT_ENOMEM);
	return mt_check_realloc(old, size, caller, 0);
}
