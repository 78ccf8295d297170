/* SPDX-License-Identifier: MIT */
/* A library whose symbols the tests look up. Built with each kind of hash table. */
#include <stddef.h>

#define SAMPLE __attribute__((visibility("default"), noinline, used))

int SAMPLE sample_plain(int x);
int SAMPLE sample_other(int x);
int sample_hidden(int x);
extern int sample_undefined(int x) __attribute__((weak));
__attribute__((visibility("default"))) int sample_object = 5;
__attribute__((visibility("default"))) __thread int sample_tls = 7;

__attribute__((visibility("hidden"), noinline, used)) int sample_hidden(int x)
{
	return x + 3;
}

int sample_plain(int x)
{
	return sample_undefined ? sample_undefined(x) : sample_hidden(x) + sample_tls;
}

int sample_other(int x)
{
	return x * 2 + sample_object;
}

/* Enough names to make chains and several words of the bloom filter. */
/* clang-format off */
#define ONE(a, b) \
	int SAMPLE sample_many_##a##b(int x); \
	int sample_many_##a##b(int x) \
	{ \
		return x + 1##a##b; \
	}
#define TEN(a) \
	ONE(a, 0) \
	ONE(a, 1) ONE(a, 2) ONE(a, 3) ONE(a, 4) ONE(a, 5) ONE(a, 6) ONE(a, 7) ONE(a, 8) ONE(a, 9)
TEN(0)
TEN(1)
TEN(2) TEN(3) TEN(4) TEN(5) TEN(6) TEN(7) TEN(8) TEN(9)
/* clang-format on */

#ifdef SAMPLE_VERSIONS
	int SAMPLE sample_versioned_old(int x);
int SAMPLE sample_versioned_new(int x);
int SAMPLE sample_only_old_impl(int x);
int sample_versioned_old(int x)
{
	return x + 1;
}
int sample_versioned_new(int x)
{
	return x + 2;
}
int sample_only_old_impl(int x)
{
	return x + 3;
}
__asm__(".symver sample_versioned_old, sample_versioned@SAMPLE_1");
__asm__(".symver sample_versioned_new, sample_versioned@@SAMPLE_2");
__asm__(".symver sample_only_old_impl, sample_only_old@SAMPLE_1");
#endif
