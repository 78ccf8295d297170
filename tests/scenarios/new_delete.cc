/* SPDX-License-Identifier: MIT */
/*
 * The eight forms of operator new leak one block each; the fourteen forms of delete free one each.
 *
 * (libstdc++ jumps from operator new[] on to operator new, so both have that frame.)
 *
 * build: g++ -O0 -g -std=c++17
 * build: g++ -O2 -g -std=c++17
 * build: clang++ -O2 -g -std=c++17 -fsized-deallocation
 * leak: one count=1 bytes=101 frames=main via="operator new" sites=1
 * leak: array count=1 bytes=102 frames=main via="operator new" sites=1
 * leak: nothrow count=1 bytes=103 frames=main via="operator new" sites=1
 * leak: array_nothrow count=1 bytes=104 frames=main via="operator new" sites=1
 * leak: aligned count=1 bytes=128 frames=main via="operator new" sites=1
 * leak: array_aligned count=1 bytes=192 frames=main via="operator new" sites=1
 * leak: aligned_nothrow count=1 bytes=256 frames=main via="operator new" sites=1
 * leak: array_aligned_nothrow count=1 bytes=320 frames=main via="operator new" sites=1
 * site: freed_new allocs=4 frees=4 bytes=120
 * site: freed_array allocs=3 frees=3 bytes=90
 * site: freed_aligned allocs=4 frees=4 bytes=512
 * site: freed_array_aligned allocs=3 frees=3 bytes=384
 * foreign: 1 72704
 */
#include <new>

#include "scenario.h"

static const std::align_val_t line{64};

int main()
{
	KEEP(::operator new(101)); /* LEAK:one */
	KEEP(::operator new[](102)); /* LEAK:array */
	KEEP(::operator new(103, std::nothrow)); /* LEAK:nothrow */
	KEEP(::operator new[](104, std::nothrow)); /* LEAK:array_nothrow */
	KEEP(::operator new(128, line)); /* LEAK:aligned */
	KEEP(::operator new[](192, line)); /* LEAK:array_aligned */
	KEEP(::operator new(256, line, std::nothrow)); /* LEAK:aligned_nothrow */
	KEEP(::operator new[](320, line, std::nothrow)); /* LEAK:array_aligned_nothrow */

	void *p[4], *q[3], *a[4], *b[3];
	for (auto &x : p)
		x = ::operator new(30 + opaque_zero); /* AT:freed_new */
	for (auto &x : q)
		x = ::operator new[](30 + opaque_zero); /* AT:freed_array */
	for (auto &x : a)
		x = ::operator new(128 + opaque_zero, line); /* AT:freed_aligned */
	for (auto &x : b)
		x = ::operator new[](128 + opaque_zero, line); /* AT:freed_array_aligned */
	::operator delete(p[0]);
	::operator delete(p[1], 30);
	::operator delete(p[2], std::nothrow);
	::operator delete(p[3]);
	::operator delete[](q[0]);
	::operator delete[](q[1], 30);
	::operator delete[](q[2], std::nothrow);
	::operator delete(a[0], line);
	::operator delete(a[1], 128, line);
	::operator delete(a[2], line, std::nothrow);
	::operator delete(a[3], line);
	::operator delete[](b[0], line);
	::operator delete[](b[1], 128, line);
	::operator delete[](b[2], line, std::nothrow);
	return 0;
}
