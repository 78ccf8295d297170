/* SPDX-License-Identifier: MIT */
/*
 * Chunks in a list, the newest first. Every chunk comes zeroed from the heap and a byte is handed
 * out once, so zeroed blocks cost nothing extra.
 */
#include "base/arena.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

enum { ALIGN = 16, CHUNK_MIN = 16 << 10, CHUNK_MAX = 1 << 20 };

struct chunk {
	struct chunk *next;
	size_t size, used; /* of data */
	_Alignas(ALIGN) unsigned char data[];
};

/* A heap block that belongs to the arena; the entry itself lies in a chunk. */
struct adopted {
	struct adopted *next;
	void *block;
};

struct mt_arena {
	struct chunk *current; /* that small blocks are taken from; NULL at first */
	size_t chunk_bytes;    /* size of the next one */
	size_t bytes;
	struct adopted *adopted;
};

struct mt_arena *mt_arena_new(void)
{
	struct mt_arena *a = mt_alloc_zero(1, sizeof(*a));
	if (!a)
		return NULL;
	a->chunk_bytes = CHUNK_MIN;
	a->bytes = sizeof(*a);
	return a;
}

void mt_arena_free(struct mt_arena *a)
{
	if (!a)
		return;
	for (struct adopted *d = a->adopted; d; d = d->next)
		free(d->block);
	for (struct chunk *c = a->current, *next; c; c = next) {
		next = c->next;
		free(c);
	}
	free(a);
}

static struct chunk *chunk_new(struct mt_arena *a, size_t size)
{
	size_t total;
	if (__builtin_add_overflow(size, sizeof(struct chunk), &total))
		return NULL;
	struct chunk *c = mt_alloc_zero(1, total);
	if (!c)
		return NULL;
	c->size = size;
	a->bytes += total;
	return c;
}

/* A block of its own, put behind the current chunk so that its free rest stays in use. */
static void *alloc_big(struct mt_arena *a, size_t size)
{
	struct chunk *c = chunk_new(a, size);
	if (!c)
		return NULL;
	c->used = size;
	if (a->current) {
		c->next = a->current->next;
		a->current->next = c;
	} else {
		a->current = c;
	}
	return c->data;
}

void *mt_arena_alloc(struct mt_arena *a, size_t size)
{
	if (size > SIZE_MAX - ALIGN)
		return NULL;
	size = MT_ALIGN_UP(size ? size : 1, (size_t)ALIGN);
	struct chunk *c = a->current;
	if (!c || c->size - c->used < size) {
		if (size > a->chunk_bytes / 4)
			return alloc_big(a, size);
		c = chunk_new(a, a->chunk_bytes);
		if (!c)
			return NULL;
		if (a->chunk_bytes < CHUNK_MAX)
			a->chunk_bytes *= 2;
		c->next = a->current;
		a->current = c;
	}
	void *p = c->data + c->used;
	c->used += size;
	return p;
}

void *mt_arena_zalloc(struct mt_arena *a, size_t size)
{
	return mt_arena_alloc(a, size);
}

void *mt_arena_array(struct mt_arena *a, size_t count, size_t elem_bytes)
{
	size_t size;
	if (mt_mul_size(count, elem_bytes, &size))
		return NULL;
	return mt_arena_alloc(a, size);
}

char *mt_arena_strndup(struct mt_arena *a, const char *s, size_t len)
{
	if (len == SIZE_MAX)
		return NULL;
	char *copy = mt_arena_alloc(a, len + 1);
	if (!copy)
		return NULL;
	memcpy(copy, s, len);
	copy[len] = 0;
	return copy;
}

char *mt_arena_strdup(struct mt_arena *a, const char *s)
{
	return mt_arena_strndup(a, s, strlen(s));
}

char *mt_arena_vprintf(struct mt_arena *a, const char *fmt, va_list ap)
{
	va_list again;
	va_copy(again, ap);
	int len = vsnprintf(NULL, 0, fmt, again);
	va_end(again);
	if (len < 0)
		return NULL;
	char *text = mt_arena_alloc(a, (size_t)len + 1);
	if (!text)
		return NULL;
	vsnprintf(text, (size_t)len + 1, fmt, ap);
	return text;
}

char *mt_arena_printf(struct mt_arena *a, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	char *text = mt_arena_vprintf(a, fmt, ap);
	va_end(ap);
	return text;
}

int mt_arena_adopt(struct mt_arena *a, void *block)
{
	struct adopted *d = mt_arena_alloc(a, sizeof(*d));
	if (!d)
		return -ENOMEM;
	*d = (struct adopted){.next = a->adopted, .block = block};
	a->adopted = d;
	return 0;
}

size_t mt_arena_bytes(const struct mt_arena *a)
{
	return a->bytes;
}
