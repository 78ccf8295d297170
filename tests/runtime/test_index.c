/* SPDX-License-Identifier: MIT */
/* The block tables against a plain map: every address and size that an allocator may hand out. */
#include "fixture.h"

#include <stdlib.h>
#include <string.h>

#include "core/sys.h"

enum { PLACES = 3000, STEPS = 60000 };

/* The plain map: an array of possible places, each free or holding a size. */
struct place {
	uint64_t address;
	uint64_t size; /* 0: free; sizes are stored + 1 */
};
static struct place place[PLACES];

/* Addresses as allocators give them: dense small ones, page-aligned large ones, some above 2^48. */
static void make_places(uint32_t spacing)
{
	for (int i = 0; i < PLACES; i++) {
		uint64_t base = i % 3 == 0   ? 0x7f1200000000u
				: i % 3 == 1 ? 0x561200000000u
					     : 0x1000000u;
		place[i].address = base + (uint64_t)i * spacing;
		if (i % 50 == 7)
			place[i].address = 0x7ffff0000000u - (uint64_t)i * 65536;
		if (i % 50 == 8)
			place[i].address =
				0x00ff000000000000u + (uint64_t)i * 64; /* 57-bit or tagged */
		if (i % 50 == 9)
			place[i].address =
				0xb400007f00000000u + (uint64_t)i * 64; /* top-byte tag */
		place[i].size = 0;
	}
}

static uint64_t random_size(uint64_t r)
{
	static const uint64_t edges[] = {
		0, 1, MT_LARGE_BYTES - 1, MT_LARGE_BYTES, MT_LARGE_BYTES + 1, 1ull << 33};
	return r % 8 == 0 ? edges[r / 8 % MT_ARRAY_LEN(edges)] : r / 8 % 70000;
}

/* Each place's record, looked up through the tables, is what the map says. */
static void check_all(void)
{
	uint64_t count = 0, bytes = 0, have_count, have_bytes;
	for (int i = 0; i < PLACES; i++)
		if (place[i].size) {
			count++;
			bytes += place[i].size - 1;
		}
	fixture_count_live(&have_count, &have_bytes);
	assert_int_equal(have_count, count);
	assert_true(have_bytes == bytes);
}

static void random_blocks(uint32_t shift, uint32_t spacing)
{
	uint64_t seed = 88172645463325252u + shift * 7919 + spacing;
	assert_int_equal(fixture_begin(&(struct fixture_config){.granule_shift = shift}), 0);
	struct mt_thread *t = fixture_thread();
	make_places(spacing);
	for (int step = 0; step < STEPS; step++) {
		uint64_t r = fixture_random(&seed);
		struct place *p = &place[r % PLACES];
		struct mt_gone gone = {0};
		if (p->size) {
			assert_int_equal(mt_record_take(t, (void *)p->address, &gone), 1);
			assert_true(gone.size == p->size - 1);
			if (r >> 20 & 1) { /* as a failed realloc does */
				mt_record_restore(t, (void *)p->address, &gone);
				continue;
			}
			mt_record_gone(t, &gone, 0);
			p->size = 0;
			assert_int_equal(mt_record_take(t, (void *)p->address, &gone), 0);
		} else {
			uint64_t size = random_size(r >> 24);
			struct mt_caller caller =
				fixture_caller(fixture_address(1, (uint32_t)(r >> 10 & 0xff) + 1));
			mt_record_alloc(t, (void *)p->address, size, MT_CALL_MALLOC, &caller, 0);
			p->size = size + 1;
		}
		if (step % 10000 == 0)
			check_all();
	}
	check_all();
	for (int i = 0; i < PLACES; i++)
		if (place[i].size) {
			fixture_free(t, place[i].address);
			place[i].size = 0;
		}
	check_all();
	assert_int_equal(t->row->totals[MT_CLASS_MALLOC].allocs,
			 t->row->totals[MT_CLASS_MALLOC].frees);
	assert_true(fixture_live_bytes(t) == 0);
	assert_int_equal(mt_rt.hdr->lost[MT_LOST_LIVE_FULL], 0);
	assert_int_equal(mt_rt.hdr->lost[MT_LOST_UNSEEN_FREE], 0);
	fixture_end();
}

static void every_granule_gives_back_what_was_put_in(void **state)
{
	for (uint32_t shift = 3; shift <= 5; shift++)
		random_blocks(shift, 1u << shift);
}

static void blocks_closer_than_a_granule_are_still_told_apart(void **state)
{
	random_blocks(5, 8);
	random_blocks(4, 8);
}

static void a_block_is_found_by_its_start_only(void **state)
{
	struct mt_thread *t = fixture_thread();
	struct mt_caller caller = fixture_caller(fixture_address(1, 1));
	struct mt_gone gone;
	mt_record_alloc(t, (void *)0x700000, 100, MT_CALL_MALLOC, &caller, 0);
	assert_int_equal(mt_record_take(t, (void *)0x700008, &gone), 0);
	assert_int_equal(mt_record_take(t, (void *)0x700010, &gone), 0);
	assert_int_equal(mt_record_take(t, (void *)0x6ffff0, &gone), 0);
	assert_int_equal(mt_record_take(t, (void *)0x700000, &gone), 1);
}

static void the_first_and_the_last_address_are_kept(void **state)
{
	static const uint64_t at[] = {16, (1ull << 48) - 16, 1ull << 48, UINT64_MAX - 15};
	struct mt_thread *t = fixture_thread();
	struct mt_caller caller = fixture_caller(fixture_address(1, 1));
	struct mt_gone gone;
	for (size_t i = 0; i < MT_ARRAY_LEN(at); i++)
		mt_record_alloc(t, (void *)at[i], 10 + i, MT_CALL_MALLOC, &caller, 0);
	for (size_t i = 0; i < MT_ARRAY_LEN(at); i++) {
		assert_int_equal(mt_record_take(t, (void *)at[i], &gone), 1);
		assert_int_equal(gone.size, 10 + i);
	}
}

/* --- the hash of large blocks ---------------------------------------------------------------- */

enum { KEYS = 40000 };

static void the_hash_grows_and_forgets_nothing(void **state)
{
	struct mt_state_large l;
	for (uint64_t i = 0; i < KEYS; i++)
		assert_int_not_equal(mt_large_insert(0x7f0000000000u + i * 4096, 0, i + 40000, 0, 0,
						     (uint32_t)i),
				     0);
	assert_int_equal(mt_large_count(), KEYS);
	for (uint64_t i = 0; i < KEYS; i++) {
		assert_int_equal(mt_large_remove(0x7f0000000000u + i * 4096, 0, &l), 1);
		assert_true(l.size == i + 40000 && l.sequence == i);
	}
	assert_int_equal(mt_large_count(), 0);
}

/* Removal moves entries backward; every entry behind the hole must stay reachable. */
static void removals_in_any_order_leave_the_others_reachable(void **state)
{
	static uint8_t live[KEYS / 8];
	struct mt_state_large l;
	uint64_t seed = 12345;
	memset(live, 0, sizeof(live));
	for (int step = 0; step < 200000; step++) {
		uint64_t k = fixture_random(&seed) % MT_ARRAY_LEN(live);
		uint64_t address = 0x10000u + k * 4096;
		assert_int_equal(mt_large_remove(address, 0, &l), live[k] != 0);
		if (live[k])
			assert_int_equal(l.size, k);
		live[k] = !live[k];
		if (live[k])
			assert_int_not_equal(mt_large_insert(address, 0, k, 0, 0, 0), 0);
	}
	uint64_t count = 0;
	for (size_t k = 0; k < MT_ARRAY_LEN(live); k++)
		count += live[k];
	assert_int_equal(mt_large_count(), count);
}

static void one_address_may_be_live_in_two_heaps(void **state)
{
	struct mt_state_large l;
	assert_int_not_equal(mt_large_insert(0x5000, 0, 1, 0, 0, 0), 0);
	assert_int_not_equal(mt_large_insert(0x5000, 3, 2, 0, 0, 0), 0);
	assert_int_equal(mt_large_remove(0x5000, 4, &l), 0);
	assert_int_equal(mt_large_remove(0x5000, 3, &l), 1);
	assert_int_equal(l.size, 2);
	assert_int_equal(mt_large_remove(0x5000, 0, &l), 1);
	assert_int_equal(l.size, 1);
}

static void records_of_removed_blocks_are_used_again(void **state)
{
	struct mt_state_large l;
	for (uint64_t i = 0; i < 100000; i++) {
		assert_int_not_equal(mt_large_insert(0x5000 + i % 7 * 4096, 0, i, 0, 0, 0), 0);
		assert_int_equal(mt_large_remove(0x5000 + i % 7 * 4096, 0, &l), 1);
	}
	assert_true(mt_rt.region[MT_REGION_LARGE]->used < 40);
}

#define WITH_TABLES(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_granule_gives_back_what_was_put_in),
		cmocka_unit_test(blocks_closer_than_a_granule_are_still_told_apart),
		WITH_TABLES(a_block_is_found_by_its_start_only),
		WITH_TABLES(the_first_and_the_last_address_are_kept),
		WITH_TABLES(the_hash_grows_and_forgets_nothing),
		WITH_TABLES(removals_in_any_order_leave_the_others_reachable),
		WITH_TABLES(one_address_may_be_live_in_two_heaps),
		WITH_TABLES(records_of_removed_blocks_are_used_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
