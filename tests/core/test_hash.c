/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/hash.h"

/* The mix is the published "xmx" construction: each step can be undone, so no two inputs collide.
 */
static uint64_t undo_mix(uint64_t x)
{
	const uint64_t inverse = 0xcfee444d8b59a89bu; /* of 0xd6e8feb86659fd93, modulo 2^64 */
	x ^= x >> 32;
	x *= inverse;
	x ^= x >> 32;
	x *= inverse;
	x ^= x >> 32;
	return x;
}

static void the_mix_can_be_undone(void **state)
{
	uint64_t x = 1;
	assert_true(0xcfee444d8b59a89bu * 0xd6e8feb86659fd93u == 1);
	for (int i = 0; i < 10000; i++) {
		assert_true(undo_mix(mt_hash_u64(x)) == x);
		x = x * 6364136223846793005u + 1442695040888963407u;
	}
}

/* Values that readers of saved profiles may hold on to. */
static void hashes_are_the_same_in_every_build(void **state)
{
	assert_true(mt_hash_u64(0) == 0);
	uint64_t one = mt_hash_bytes("a", 1, 0);
	assert_true(one == mt_hash_u64(mt_hash_u64(1) ^ 'a'));
	uint64_t nine = mt_hash_bytes("abcdefghi", 9, 5);
	uint64_t word;
	memcpy(&word, "abcdefgh", 8);
	assert_true(nine == mt_hash_u64(mt_hash_u64(mt_hash_u64(14) ^ word) ^ 'i'));
}

static void length_and_seed_take_part(void **state)
{
	static const char zeros[32];
	for (size_t a = 0; a < 32; a++)
		for (size_t b = 0; b < a; b++)
			assert_true(mt_hash_bytes(zeros, a, 0) != mt_hash_bytes(zeros, b, 0));
	assert_true(mt_hash_bytes("x", 1, 1) != mt_hash_bytes("x", 1, 2));
}

static void every_byte_takes_part(void **state)
{
	unsigned char data[40] = {0};
	uint64_t before = mt_hash_bytes(data, sizeof(data), 9);
	for (size_t i = 0; i < sizeof(data); i++) {
		data[i] = 1;
		assert_true(mt_hash_bytes(data, sizeof(data), 9) != before);
		data[i] = 0;
	}
}

static void a_stack_hash_depends_on_order_module_and_offset(void **state)
{
	uint64_t a = mt_callstack_step(MT_CALLSTACK_SEED, 1, 2), b = mt_callstack_step(a, 3, 4);
	assert_true(b != mt_callstack_step(mt_callstack_step(MT_CALLSTACK_SEED, 3, 4), 1, 2));
	assert_true(b != mt_callstack_step(a, 3, 5));
	assert_true(b != mt_callstack_step(a, 4, 4));
	assert_true(b == mt_callstack_step(a, 3, 4));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_mix_can_be_undone),
		cmocka_unit_test(hashes_are_the_same_in_every_build),
		cmocka_unit_test(length_and_seed_take_part),
		cmocka_unit_test(every_byte_takes_part),
		cmocka_unit_test(a_stack_hash_depends_on_order_module_and_offset),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
