/* SPDX-License-Identifier: MIT */
/*
 * Each of the 22 forms of operator new and delete once, by its name in the object file: each new's
 * block stays (the aligned ones' sizes may be rounded up), and another one of each form is deleted by each form of delete that fits it.
 */
#include <dlfcn.h>
#include <new>

extern "C" {
#include "program.h"
}

typedef std::size_t sz;
typedef std::align_val_t al;
static const std::nothrow_t &nt = std::nothrow;
static const al aligned = static_cast<al>(64);
static sz next_size = 1777;

static sz size()
{
	next_size += 1000;
	return next_size + opaque_zero;
}

static void kept_blocks()
{
	KEEP(::operator new(size()));
	KEEP(::operator new[](size()));
	KEEP(::operator new(size(), nt));
	KEEP(::operator new[](size(), nt));
	KEEP(::operator new(size(), aligned));
	KEEP(::operator new[](size(), aligned));
	KEEP(::operator new(size(), aligned, nt));
	KEEP(::operator new[](size(), aligned, nt));
}

/* The two that no header declares; not every library has them. */
static void sized_nothrow(const char *name, void *p, sz bytes)
{
	void (*f)(void *, sz, const std::nothrow_t &) =
		reinterpret_cast<void (*)(void *, sz, const std::nothrow_t &)>(
			dlsym(RTLD_NEXT, name));
	if (f)
		f(p, bytes, nt);
	else
		::operator delete(p);
}

static void deleted_blocks()
{
	sz n = 100777;
	for (int i = 0; i < 20; i++) {
		::operator delete(::operator new(n));
		::operator delete[](::operator new[](n));
		::operator delete(::operator new(n), n);
		::operator delete[](::operator new[](n), n);
		::operator delete(::operator new(n, nt), nt);
		::operator delete[](::operator new[](n, nt), nt);
		::operator delete(::operator new(n, aligned), aligned);
		::operator delete[](::operator new[](n, aligned), aligned);
		::operator delete(::operator new(n, aligned), n, aligned);
		::operator delete[](::operator new[](n, aligned), n, aligned);
		::operator delete(::operator new(n, aligned, nt), aligned, nt);
		::operator delete[](::operator new[](n, aligned, nt), aligned, nt);
		sized_nothrow("_ZdlPvmRKSt9nothrow_t", ::operator new(n), n);
		sized_nothrow("_ZdaPvmRKSt9nothrow_t", ::operator new[](n), n);
		::operator delete(nullptr);
		::operator delete[](nullptr, n);
	}
}

static int out_of_memory()
{
	int caught = 0;
	for (int i = 0; i < 4; i++)
		try {
			volatile sz huge = static_cast<sz>(1) << 62;
			KEEP(i % 2 ? ::operator new(huge) : ::operator new[](huge, aligned));
		} catch (const std::bad_alloc &) {
			caught++;
		}
	return caught;
}

int main(int argc, char **)
{
	kept_blocks();
	deleted_blocks();
	if (argc == 1) /* some allocators end the program */
		say("caught %d\n", out_of_memory());
	say("process 2777x1 3777x1 4777x1 5777x1\n");
	return 0;
}
