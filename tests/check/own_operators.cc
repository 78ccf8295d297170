// SPDX-License-Identifier: MIT
// A program with some operators of its own (OWN: 1 new, 2 new[], 4 delete, 8 delete[]), which jump on to malloc and
// free and leave no frame; the others are the C++ library's. What goes together is not to be reported.
#include "operators.cc"

#if OWN & 1
void *operator new(std::size_t size)
{
	return std::malloc(size);
}
#endif
#if OWN & 2
void *operator new[](std::size_t size)
{
	return std::malloc(size);
}
#endif
#if OWN & 4
void operator delete(void *p) noexcept
{
	std::free(p);
}
#endif
#if OWN & 8
void operator delete[](void *p) noexcept
{
	std::free(p);
}
#endif
