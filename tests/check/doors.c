/* SPDX-License-Identifier: MIT */
/*
 * Blocks of one allocator under several of its names: what malloc gives is freed by mi_free, what
 * mallocx gives by free, and so on. Names that nobody defines are left out. Cases of run_doors.py.
 *
 *   doors LIBRARY    of the allocator
 */
#include "say.h"

#include <dlfcn.h>
#include <errno.h>

typedef void *maker(size_t size);
typedef void *maker_with_flags(size_t size, int flags);
typedef void *changer(void *p, size_t size);
typedef void ender(void *p);

static void *library;

/* The library's own, past the tracker. */
static void *direct(const char *name)
{
	return dlsym(library, name);
}

/* By the loader's order: the tracker's own, where it has one. */
static void *hooked(const char *name)
{
	return direct(name) ? dlsym(RTLD_DEFAULT, name) : NULL;
}

static const char *const makers[] = {"malloc",          "mi_malloc", "mi_zalloc",
				     "mi_malloc_small", "je_malloc", "tc_malloc"};
static const char *const enders[] = {"free",    "mi_free", "mi_cfree",
				     "je_free", "tc_free", "tc_cfree"};
static const char *const changers[] = {"realloc", "mi_realloc", "mi_reallocf", "je_realloc",
				       "tc_realloc"};
enum { MAKERS = 6, ENDERS = 6, CHANGERS = 5, TIMES = 40 };

static size_t bad, done;

static void *make(const char *name, maker *by, size_t size)
{
	void *p = by(size);
	bad += !p;
	memset(p, 5, size);
	done++;
	return p;
}

/* Every maker with every ender, and moved in between. */
static void go_through(maker *by, const char *name)
{
	for (int e = 0; e < ENDERS; e++) {
		ender *end = (ender *)hooked(enders[e]);
		for (size_t size = 1; end && size <= 1000; size *= 10)
			end(make(name, by, size));
		for (int c = 0; end && c < CHANGERS; c++) {
			changer *change = (changer *)hooked(changers[c]);
			if (!change)
				continue;
			byte *p = change(make(name, by, 50), 300);
			bad += wrong(p, 50, 5);
			p = change(p, 20);
			bad += wrong(p, 20, 5);
			end(p);
		}
	}
}

static void *mallocx(size_t size)
{
	return ((maker_with_flags *)hooked("mallocx"))(size, 0);
}

/* More than a small set of addresses has room for. */
static void keep_many(maker *by)
{
	enum { MANY = 6000 };
	static void *kept[MANY];
	for (int i = 0; i < MANY; i++)
		kept[i] = make("", by, 30);
	for (int i = 0; i < MANY; i++)
		free(kept[i]);
}

int main(int argc, char **argv)
{
	library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) : NULL;
	if (!library)
		return 2;
	for (int m = 0; m < MAKERS; m++) {
		maker *by = (maker *)hooked(makers[m]), *past = (maker *)direct(makers[m]);
		if (by)
			go_through(by, makers[m]);
		if (past && m) { /* past the tracker: given to free alone */
			for (int i = 0; i < TIMES; i++)
				free(make(makers[m], past, 1 + (size_t)i * 10));
			keep_many(past);
		}
	}
	if (hooked("mallocx")) {
		for (int i = 0; i < TIMES; i++)
			free(mallocx(1 + (size_t)i * 10));
		keep_many(mallocx);
	}
	say("bad", bad);
	say("done", done);
	return 0;
}
