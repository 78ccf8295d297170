/* SPDX-License-Identifier: MIT */
/*
 * Demangling with bounds. libiberty's callback interface is used because it allocates nothing: when
 * the output passes the bound, longjmp leaves the demangler in the middle and nothing leaks. (A
 * name of a few hundred bytes can expand to gigabytes by nested substitutions.)
 */
#include "symbolize/demangle.h"

#include "base/alloc.h"

#include <libiberty/demangle.h>

#include <setjmp.h>
#include <stdbool.h>
#include <string.h>

enum {
	SHALLOW_INPUT_MAX = 1024, /* what libiberty's own recursion limit accepts */
	/* Calls of the callback; many are for one byte. Bounds the time, too. */
	OUTPUT_STEPS_MAX = 4 * MT_DEMANGLE_OUTPUT_MAX,
};

struct output {
	jmp_buf full;
	char *text;
	size_t len, capacity, steps;
	bool no_memory;
};

static bool output_reserve(struct output *o, size_t more)
{
	if (o->len + more + 1 <= o->capacity)
		return true;
	size_t capacity = o->capacity ? o->capacity : 128;
	while (capacity < o->len + more + 1)
		capacity *= 2;
	char *text = mt_alloc_resize(o->text, capacity);
	if (!text) {
		o->no_memory = true;
		return false;
	}
	o->text = text;
	o->capacity = capacity;
	return true;
}

static void output_append(const char *text, size_t len, void *opaque)
{
	struct output *o = opaque;
	size_t room = MT_DEMANGLE_OUTPUT_MAX - 4 - o->len;
	size_t take = MT_MIN(len, room);
	if (!output_reserve(o, take + 4))
		longjmp(o->full, 1);
	if (take) /* an empty piece may come as NULL */
		memcpy(o->text + o->len, text, take);
	o->len += take;
	if (take < len || ++o->steps > OUTPUT_STEPS_MAX) {
		memcpy(o->text + o->len, "...", 3);
		o->len += 3;
		longjmp(o->full, 1);
	}
}

/* Legacy Rust names look like C++ ones: Rust is asked first, it knows its own by the hash. */
static int run(const char *mangled, int options, struct output *o)
{
	if (setjmp(o->full))
		return !o->no_memory;
	if (rust_demangle_callback(mangled, options, output_append, o))
		return 1;
	o->len = 0;
	o->steps = 0;
	return cplus_demangle_v3_callback(mangled, options, output_append, o);
}

static bool looks_mangled(const char *name)
{
	while (*name == '_' && name[1] == '_')
		name++; /* Mach-O style and "___Z" block names have more underscores */
	return name[0] == '_' && (name[1] == 'Z' || name[1] == 'R');
}

char *mt_demangle(const char *mangled, enum mt_demangle_stack stack)
{
	int options = DMGL_PARAMS | DMGL_ANSI;
	if (!looks_mangled(mangled))
		return NULL;
	size_t len = strnlen(mangled, MT_DEMANGLE_INPUT_MAX + 1);
	if (len > (stack == MT_DEMANGLE_DEEP_STACK ? MT_DEMANGLE_INPUT_MAX : SHALLOW_INPUT_MAX))
		return NULL;
	if (len > SHALLOW_INPUT_MAX)
		options |= DMGL_NO_RECURSE_LIMIT;
	struct output *o = mt_alloc_zero(1, sizeof(*o));
	if (!o)
		return NULL;
	char *text = NULL;
	if (run(mangled, options, o) && o->len) {
		o->text[o->len] = '\0';
		text = o->text;
	} else {
		free(o->text);
	}
	free(o);
	return text;
}
