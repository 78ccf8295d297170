/* SPDX-License-Identifier: MIT */
/* Slow halves of the page map, and the hash of large blocks (16 shards, each behind a bounded
 * lock). */
#include "runtime/index.h"

#include "core/sys.h"
#include "runtime/arena.h"
#include "runtime/lock.h"
#include "runtime/storage.h"

enum { PAGE_BYTES = 4096 };

void mt_index_set_granule(uint32_t shift)
{
	mt_rt.index_shift = mt_rt.hdr->live_granule_shift = shift;
}

int mt_index_init(uint32_t granule_shift)
{
	mt_rt.map_bytes = mt_rt.map_touched_bytes = 0;
	mt_rt.map_pages = mt_arena_take(mt_rt.arena_bytes / PAGE_BYTES / 8 + sizeof(uint64_t));
	mt_rt.index_top = mt_arena_take(sizeof(void *) << MT_INDEX_TOP_BITS);
	mt_index_set_granule(granule_shift);
	return mt_rt.index_top && mt_rt.map_pages ? 0 : -MT_ENOMEM;
}

void mt_index_touch(const void *place)
{
	size_t page = (size_t)((const char *)place - mt_rt.arena) / PAGE_BYTES;
	uint64_t *word = &mt_rt.map_pages[page / 64], bit = (uint64_t)1 << page % 64;
	if (__atomic_load_n(word, __ATOMIC_RELAXED) & bit)
		return;
	if (!(__atomic_fetch_or(word, bit, __ATOMIC_RELAXED) & bit))
		__atomic_fetch_add(&mt_rt.map_touched_bytes, PAGE_BYTES, __ATOMIC_RELAXED);
}

uint64_t mt_index_untouched(void)
{
	if (__atomic_load_n(&mt_rt.recorded_all, __ATOMIC_RELAXED))
		return 0;
	/* what is touched first: it never passes what was made */
	uint64_t touched = __atomic_load_n(&mt_rt.map_touched_bytes, __ATOMIC_ACQUIRE);
	return __atomic_load_n(&mt_rt.map_bytes, __ATOMIC_RELAXED) - touched;
}

/* The object that *place points to, made when it is not there; a lost race wastes address space
 * only. */
static void *get_or_make(void **place, size_t bytes)
{
	void *have = __atomic_load_n(place, __ATOMIC_ACQUIRE);
	if (have)
		return have;
	void *made = mt_arena_take_table(bytes);
	if (!made)
		return NULL;
	__atomic_fetch_add(&mt_rt.map_bytes, bytes, __ATOMIC_RELAXED);
	if (__atomic_compare_exchange_n(place, &have, made, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return made;
	return have;
}

MT_COLD uint32_t *mt_index_slot_slow(uint64_t address)
{
	if (address >> MT_INDEX_ADDRESS_BITS)
		return NULL;
	void **middle = get_or_make(
		&mt_rt.index_top[address >> (MT_INDEX_LEAF_BITS + MT_INDEX_MIDDLE_BITS)],
		sizeof(void *) << MT_INDEX_MIDDLE_BITS);
	if (!middle)
		return NULL;
	size_t leaf_bytes = sizeof(uint32_t) << (MT_INDEX_LEAF_BITS - mt_rt.index_shift);
	void **in_middle =
		&middle[address >> MT_INDEX_LEAF_BITS & ((1 << MT_INDEX_MIDDLE_BITS) - 1)];
	uint32_t *leaf = get_or_make(in_middle, leaf_bytes);
	mt_index_touch(in_middle);
	return leaf ? &leaf[(address & ((1u << MT_INDEX_LEAF_BITS) - 1)) >> mt_rt.index_shift]
		    : NULL;
}

uint32_t *mt_index_slot_of_sample(uint64_t address)
{
	uint32_t *slot = mt_index_find(address);
	uint64_t most = mt_rt.hdr->max_bytes / 4;
	uint64_t leaf_bytes = sizeof(uint32_t) << (MT_INDEX_LEAF_BITS - mt_rt.index_shift);
	if (MT_LIKELY(slot != NULL) ||
	    (most && __atomic_load_n(&mt_rt.map_bytes, __ATOMIC_RELAXED) + leaf_bytes > most))
		return slot;
	return mt_index_slot_slow(address);
}

enum { SHARDS = 16, FIRST_SLOTS = 256 /* a page */ };

/* Open addressing with linear probing and backward-shift deletion; at most 3/4 full, 7/8 where
 * there is no memory for more. */
struct shard {
	uint32_t lock;
	uint32_t free_head;   /* records given back, linked through their sequence word */
	uint32_t slots, used; /* guarded by lock */
	struct entry {
		uint64_t key;
		uint32_t record;
		uint32_t reserved;
	} * entry;
} __attribute__((aligned(64)));

static struct shard shards[SHARDS];

/* All shards as they were at start: in a forked child, whose arena is gone. */
void mt_large_forget(void)
{
	for (int i = 0; i < SHARDS; i++)
		shards[i] = (struct shard){0};
}

static uint64_t mix(uint64_t key)
{
	key *= 0x9e3779b97f4a7c15u;
	return key ^ key >> 32;
}

static struct shard *shard_of(uint64_t hash)
{
	return &shards[hash >> 20 & (SHARDS - 1)];
}

/* Where the search for a key begins. The number of slots is any. */
static uint32_t home_of(const struct shard *s, uint64_t key)
{
	return (uint32_t)((uint64_t)(uint32_t)(mix(key) >> 32 ^ mix(key) << 7) * s->slots >> 32);
}

static uint32_t next_slot(const struct shard *s, uint32_t i)
{
	return i + 1 == s->slots ? 0 : i + 1;
}

/* From slot a on to slot b. */
static uint32_t distance(const struct shard *s, uint32_t a, uint32_t b)
{
	return b >= a ? b - a : b + s->slots - a;
}

static void place_entry(struct shard *s, uint64_t key, uint32_t record)
{
	uint32_t i = home_of(s, key);
	while (s->entry[i].record)
		i = next_slot(s, i);
	s->entry[i].key = key;
	s->entry[i].record = record;
}

/* Twice as many, a quarter more where memory is bounded: all shards grow at nearly the same time.
 */
static uint32_t more_slots(const struct shard *s)
{
	if (!s->entry)
		return FIRST_SLOTS;
	return mt_rt.hdr->max_bytes ? s->slots + MT_ALIGN_UP(s->slots / 4, FIRST_SLOTS)
				    : s->slots * 2;
}

static int make_room(struct shard *s)
{
	if (s->entry && s->used * 4 < s->slots * 3)
		return 0;
	uint32_t slots = more_slots(s), old_slots = s->slots;
	struct entry *old = s->entry, *made = mt_arena_take_table(slots * sizeof(*made));
	if (!made) /* a little more, at longer searches */
		return old && s->used * 8 < s->slots * 7 ? 0 : -MT_ENOMEM;
	__atomic_store_n(&s->entry, made,
			 __ATOMIC_RELAXED); /* mt_large_remove() peeks without the lock */
	s->slots = slots;
	for (uint32_t i = 0; old && i < old_slots; i++)
		if (old[i].record)
			place_entry(s, old[i].key, old[i].record);
	if (old)
		mt_arena_release_table(old, old_slots * sizeof(*old));
	return 0;
}

static uint32_t take_record(struct shard *s)
{
	uint32_t r = s->free_head;
	if (!r)
		return mt_storage_take(MT_REGION_LARGE, 1);
	s->free_head = mt_rt.large[r].sequence;
	return r;
}

uint32_t mt_large_insert(uint64_t address, uint32_t heap, uint64_t size, uint32_t cell,
			 uint32_t unit, uint32_t sequence)
{
	uint64_t key = mt_index_key(address, heap);
	struct shard *s = shard_of(mix(key));
	if (!mt_lock(&s->lock))
		return 0;
	uint32_t r = make_room(s) ? 0 : take_record(s);
	if (r) {
		struct mt_state_large *l = &mt_rt.large[r];
		l->size = size;
		l->cell = cell;
		l->unit = unit;
		l->sequence = sequence;
		l->heap = heap;
		place_entry(s, key, r);
		s->used++;
		__atomic_store_n(&l->place, address, __ATOMIC_RELEASE);
	}
	mt_unlock(&s->lock);
	return r;
}

static void erase(struct shard *s, uint32_t hole)
{
	for (uint32_t i = hole;;) {
		i = next_slot(s, i);
		if (!s->entry[i].record)
			break;
		if (distance(s, home_of(s, s->entry[i].key), i) >= distance(s, hole, i)) {
			s->entry[hole] = s->entry[i];
			hole = i;
		}
	}
	s->entry[hole] = (struct entry){0};
	s->used--;
}

/* The entry's number in its locked shard. */
static uint32_t find_locked(const struct shard *s, uint64_t key)
{
	uint32_t i = home_of(s, key);
	while (s->entry[i].record && s->entry[i].key != key)
		i = next_slot(s, i);
	return i;
}

int mt_large_find(uint64_t address, uint32_t heap, struct mt_state_large *ret_copy)
{
	uint64_t key = mt_index_key(address, heap);
	struct shard *s = shard_of(mix(key));
	if (!__atomic_load_n(&s->entry, __ATOMIC_RELAXED) || !mt_lock(&s->lock))
		return 0;
	uint32_t r = s->entry[find_locked(s, key)].record;
	if (r)
		*ret_copy = mt_rt.large[r];
	mt_unlock(&s->lock);
	return r != 0;
}

int mt_large_remove(uint64_t address, uint32_t heap, struct mt_state_large *ret_copy)
{
	uint64_t key = mt_index_key(address, heap);
	struct shard *s = shard_of(mix(key));
	if (!__atomic_load_n(&s->entry, __ATOMIC_RELAXED) || !mt_lock(&s->lock))
		return 0;
	uint32_t i = find_locked(s, key), r = s->entry[i].record;
	if (r) {
		*ret_copy = mt_rt.large[r];
		__atomic_store_n(&mt_rt.large[r].place, 0, __ATOMIC_RELEASE);
		mt_rt.large[r].sequence = s->free_head;
		s->free_head = r;
		erase(s, i);
	}
	mt_unlock(&s->lock);
	return r != 0;
}

uint64_t mt_large_count(void)
{
	uint64_t n = 0;
	for (int i = 0; i < SHARDS; i++)
		n += __atomic_load_n(&shards[i].used, __ATOMIC_RELAXED);
	return n;
}
