/* SPDX-License-Identifier: MIT */
#ifndef MT_BASE_ARENA_H
#define MT_BASE_ARENA_H

/*
 * Memory that is freed as a whole. Not thread-safe. Blocks are aligned to 16 bytes and stay where
 * they are until the arena is freed; there is no way to free one block.
 */

#include <stdarg.h>

#include "base/cleanup.h"
#include "core/cc.h"

struct mt_arena;

/* Frees the arena and every block in it; NULL is allowed. */
void mt_arena_free(struct mt_arena *a);

/* A new arena, or NULL (no memory). Takes no block before the first allocation. */
struct mt_arena *mt_arena_new(void) MT_MALLOC(mt_arena_free);

MT_AUTO_DEFINE(mt_arena, struct mt_arena *, mt_arena_free)

/* size bytes, not zeroed (0 gives a valid pointer), or NULL. */
void *mt_arena_alloc(struct mt_arena *a, size_t size) __attribute__((warn_unused_result));

/* size zeroed bytes or NULL. Large blocks are fresh pages: not touched until used. */
void *mt_arena_zalloc(struct mt_arena *a, size_t size) __attribute__((warn_unused_result));

/* count zeroed elements of elem_bytes, or NULL; also when the product overflows. */
void *mt_arena_array(struct mt_arena *a, size_t count, size_t elem_bytes)
	__attribute__((warn_unused_result));

/* Copies of strings, NUL added, or NULL. */
char *mt_arena_strdup(struct mt_arena *a, const char *s) __attribute__((warn_unused_result));
char *mt_arena_strndup(struct mt_arena *a, const char *s, size_t len)
	__attribute__((warn_unused_result));

/* Formatted text or NULL. */
char *mt_arena_printf(struct mt_arena *a, const char *fmt, ...) MT_PRINTF(2, 3)
	__attribute__((warn_unused_result));
char *mt_arena_vprintf(struct mt_arena *a, const char *fmt, va_list ap) MT_PRINTF(2, 0)
	__attribute__((warn_unused_result));

/*
 * Hands a block from the malloc family over to the arena, which frees it with the rest. 0 or
 * -ENOMEM (then the caller still owns it). Its size does not count in mt_arena_bytes().
 */
int mt_arena_adopt(struct mt_arena *a, void *block);

/* Bytes asked of the heap so far, the arena's own included. */
size_t mt_arena_bytes(const struct mt_arena *a);

#endif
