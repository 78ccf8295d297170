/* SPDX-License-Identifier: MIT */
/* Readable names, and the bounds on hostile ones. */
#include "symbolize/demangle.h"

#include "base/alloc.h"
#include "base/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>

static void assert_name(const char *mangled, const char *expected)
{
	mt_auto(free) char *name = mt_demangle(mangled, MT_DEMANGLE_ANY_STACK);
	if (!expected)
		assert_null(name);
	else if (!name)
		fail_msg("%s is not demangled", mangled);
	else
		assert_string_equal(name, expected);
}

static void cplusplus_names_are_readable(void **state)
{
	assert_name("_Znwm", "operator new(unsigned long)");
	assert_name("_ZN2ns5Table4growEi", "ns::Table::grow(int)");
	assert_name("_ZNSt6vectorIiSaIiEE9push_backEOi",
		    "std::vector<int, std::allocator<int> >::push_back(int&&)");
	assert_name("_ZZ4mainENKUlvE_clEv", "main::{lambda()#1}::operator()() const");
	assert_name("_ZTv0_n24_NSoD0Ev",
		    "virtual thunk to std::basic_ostream<char, std::char_traits<char> "
		    ">::~basic_ostream()");
	assert_name("_Z3foov.part.0", "foo() [clone .part.0]");
}

static void rust_names_are_readable_and_lose_their_hash(void **state)
{
	assert_name("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad");
	assert_name("_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$"
		    "3bar17h930b740aa94f1d3aE",
		    "<Test + 'static as foo::Bar<Test>>::bar");
	assert_name("_ZN9backtrace3foo17hbb467fcdaea5d79bE.llvm.A5310EB9", "backtrace::foo");
	assert_name("_RNvC6_123foo3bar", "123foo::bar");
	assert_name("_RNvCskwGfYPst2Cb_3foo16example_function", "foo::example_function");
	assert_name("_RINvNtC3std3mem8align_ofjE", "std::mem::align_of::<usize>");
}

static void other_names_are_left_alone(void **state)
{
	static const char *const names[] = {
		"",      "main",  "_",    "_Z",     "__libc_start_main", "_R",   "Z3foov", "_ZN",
		"_Z3fo", "_RNvC", "_ZN5", "_start", "__Zebra",           "_Zzzz"};
	for (size_t i = 0; i < MT_ARRAY_LEN(names); i++)
		assert_name(names[i], NULL);
}

/* Each parameter type holds the one before twice (S0_, S1_ ...), so the text doubles each time. */
static char *doubling_name(int levels)
{
	struct mt_buf b = {0};
	mt_buf_adds(&b, "_Z1f1AIiE");
	for (int i = 0; i < levels; i++) {
		char digit = (char)(i < 10 ? '0' + i : 'A' + i - 10);
		mt_buf_printf(&b, "S_IS%c_S%c_E", digit, digit);
	}
	return mt_buf_steal(&b, NULL);
}

static void exploding_name_is_cut(void **state)
{
	mt_auto(free) char *mangled = doubling_name(30);
	mt_auto(free) char *name = mt_demangle(mangled, MT_DEMANGLE_ANY_STACK);
	assert_true(strlen(mangled) < 1024);
	assert_non_null(name);
	assert_true(strlen(name) > MT_DEMANGLE_OUTPUT_MAX - 100);
	assert_true(strlen(name) < MT_DEMANGLE_OUTPUT_MAX);
	assert_string_equal(name + strlen(name) - 3, "...");
	assert_memory_equal(name, "f(A<int>, A<A<int>, A<int> >, A<A<A<int>", 40);
}

static void *demangle_deep(void *arg)
{
	return mt_demangle(arg, MT_DEMANGLE_DEEP_STACK);
}

static char *in_large_thread(char *mangled)
{
	pthread_attr_t attr;
	pthread_t thread;
	void *name;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, MT_DEMANGLE_STACK_BYTES + (1 << 20));
	assert_int_equal(pthread_create(&thread, &attr, demangle_deep, mangled), 0);
	pthread_join(thread, &name);
	pthread_attr_destroy(&attr);
	return name;
}

static void long_name_needs_the_deep_stack(void **state)
{
	struct mt_buf b = {0};
	mt_buf_adds(&b, "_ZN");
	for (int i = 0; i < 300; i++)
		mt_buf_adds(&b, "5space");
	mt_buf_adds(&b, "1fEv");
	mt_auto(free) char *mangled = mt_buf_steal(&b, NULL);
	assert_name(mangled, NULL);
	mt_auto(free) char *name = in_large_thread(mangled);
	assert_non_null(name);
	assert_int_equal(strlen(name), 300 * 7 + 3);
	assert_memory_equal(name, "space::space::", 14);
}

/* The deepest nesting for its length of each kind of recursion. */
static void deep_nesting_stays_within_the_stack(void **state)
{
	static const char *const parts[] = {"P", "N1a", "I",   "F",  "1AI", "DpT_", "cv", "K",
					    "X", "RI",  "NtC", "TT", "B_",  "Dv1_", "sz", "Z1fvE"};
	static const char *const starts[] = {"_Z1f", "_RIC0", "_RINvC1a1b"};
	for (size_t s = 0; s < MT_ARRAY_LEN(starts); s++) {
		for (size_t i = 0; i < MT_ARRAY_LEN(parts); i++) {
			struct mt_buf b = {0};
			mt_buf_adds(&b, starts[s]);
			while (b.len + strlen(parts[i]) < MT_DEMANGLE_INPUT_MAX)
				mt_buf_adds(&b, parts[i]);
			mt_auto(free) char *mangled = mt_buf_steal(&b, NULL);
			mt_auto(free) char *name = in_large_thread(mangled);
			if (name)
				assert_true(strlen(name) < MT_DEMANGLE_OUTPUT_MAX);
			mangled[1000] = '\0';
			mt_auto(free) char *shallow = mt_demangle(mangled, MT_DEMANGLE_ANY_STACK);
			if (shallow)
				assert_true(strlen(shallow) < MT_DEMANGLE_OUTPUT_MAX);
		}
	}
}

static void name_above_the_bound_is_left_alone(void **state)
{
	char *mangled = malloc(MT_DEMANGLE_INPUT_MAX + 100);
	memset(mangled, 'P', MT_DEMANGLE_INPUT_MAX + 100);
	memcpy(mangled, "_Z1f", 4);
	memcpy(mangled + MT_DEMANGLE_INPUT_MAX + 98, "i", 2);
	assert_null(in_large_thread(mangled));
	free(mangled);
}

static void failed_allocation_gives_no_name(void **state)
{
	for (size_t n = 1; n <= 2; n++) {
		mt_alloc_fail_from_for_test(n);
		char *name = mt_demangle("_Znwm", MT_DEMANGLE_ANY_STACK);
		mt_alloc_fail_from_for_test(0);
		assert_null(name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cplusplus_names_are_readable),
		cmocka_unit_test(rust_names_are_readable_and_lose_their_hash),
		cmocka_unit_test(other_names_are_left_alone),
		cmocka_unit_test(exploding_name_is_cut),
		cmocka_unit_test(long_name_needs_the_deep_stack),
		cmocka_unit_test(deep_nesting_stays_within_the_stack),
		cmocka_unit_test(name_above_the_bound_is_left_alone),
		cmocka_unit_test(failed_allocation_gives_no_name),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
