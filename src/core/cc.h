/* SPDX-License-Identifier: MIT */
#ifndef MT_CORE_CC_H
#define MT_CORE_CC_H

/* Compiler words. Works with gcc and clang, hosted and freestanding. */

#include <stddef.h>
#include <stdint.h>

#define MT_LIKELY(x) __builtin_expect(!!(x), 1)
#define MT_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define MT_INLINE static inline __attribute__((always_inline))
#define MT_COLD __attribute__((cold, noinline))
/*
 * A relaxed load of a word that others write, for one comparison with a constant: compilers make
 * two instructions of the atomic one.
 */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define MT_PEEK(p) __atomic_load_n(p, __ATOMIC_RELAXED)
#else
#define MT_PEEK(p) (*(p))
#endif
#define MT_NOINLINE __attribute__((noinline))
#define MT_UNUSED __attribute__((unused))
#define MT_HIDDEN __attribute__((visibility("hidden")))
#define MT_PUBLIC __attribute__((visibility("default")))
#define MT_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define MT_FALLTHROUGH __attribute__((fallthrough))

/* Caller owns the result and gives it back with `release`: lets gcc -fanalyzer follow it. */
#if defined(__GNUC__) && !defined(__clang__)
#define MT_MALLOC(release) __attribute__((malloc, malloc(release, 1), warn_unused_result))
#else
#define MT_MALLOC(release) __attribute__((malloc, warn_unused_result))
#endif

#define MT_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define MT_ALIGN_UP(x, a) (((x) + ((a)-1)) & ~((__typeof__(x))(a)-1))
#define MT_ALIGN_DOWN(x, a) ((x) & ~((__typeof__(x))(a)-1))
#define MT_MIN(a, b) ((a) < (b) ? (a) : (b))
#define MT_MAX(a, b) ((a) > (b) ? (a) : (b))

/* Orders plain stores for a signal handler of the same thread; no machine instruction. */
#define MT_SIGNAL_FENCE() __atomic_signal_fence(__ATOMIC_SEQ_CST)

/* Adds to a counter that one thread writes and any thread may read; no locked instruction. */
MT_INLINE void mt_count(uint64_t *counter, uint64_t by)
{
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
	/* one instruction: a signal handler of the same thread cannot come in between */
	__asm__("addq %1, %0" : "+m"(*counter) : "er"(by) : "cc");
#else
	__atomic_store_n(counter, *counter + by, __ATOMIC_RELAXED);
#endif
}

/* The same where the new value is needed. */
MT_INLINE uint64_t mt_count_to(uint64_t *counter, uint64_t by)
{
	uint64_t value = *counter + by;
	__atomic_store_n(counter, value, __ATOMIC_RELAXED);
	return value;
}

/* Reads such a counter. */
MT_INLINE uint64_t mt_counted(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

/* false and *ret_product set, or true when a * b does not fit (nothing set). */
MT_INLINE int mt_mul_size(size_t a, size_t b, size_t *ret_product)
{
	return __builtin_mul_overflow(a, b, ret_product);
}

#endif
