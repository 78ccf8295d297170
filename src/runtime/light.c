/* SPDX-License-Identifier: MIT */
/* Counting and choosing of blocks in the light modes; see light.h. */
#include "runtime/light.h"

#include "core/mem.h"
#include "core/sys.h"
#include "runtime/arena.h"
#include "runtime/control.h"
#include "runtime/guard.h"
#include "runtime/sampler.h"
#include "runtime/sites.h"
#include "runtime/storage.h"

void mt_light_publish(struct mt_state_stats *s)
{
	struct mt_state_header *h = mt_rt.hdr;
	int64_t now_live = s->live_bytes, change = now_live - s->published;
	s->published = now_live;
	int64_t live = __atomic_add_fetch(&h->stats_live_published, change, __ATOMIC_RELAXED);
	if (mt_raise(&h->stats_peak_bytes, live))
		__atomic_store_n(&h->stats_peak_unit, mt_now(), __ATOMIC_RELAXED);
}

static void publish_own(struct mt_thread *t)
{
	mt_light_publish(t->stats);
	mt_light_set_step(t);
}

/* The guard keeps a handler that comes meanwhile from publishing the same step. */
MT_COLD void mt_light_step(struct mt_thread *t)
{
	t->depth = (uintptr_t)__builtin_dwarf_cfa();
	MT_SIGNAL_FENCE();
	mt_thread_tick(t);
	publish_own(t);
	mt_control_watch(t);
	mt_leave(t);
}

/* --- early blocks -------------------------------------------------------------------------- */

/*
 * Blocks of which the allocator could not say how large they are when they came: tcmalloc answers 0
 * until its constructor has run, and others run before that. What was counted for them is kept
 * here, so that their frees, before and after that moment, count the same.
 */
enum { EARLY_SLOTS = 1024, EARLY_WAYS = 16, SPREAD = (1 << MT_FILTER_BITS) / EARLY_SLOTS };
static struct early {
	uint64_t place;  /* the block's address, 0: free, 1: being filled; atomic */
	uint64_t usable; /* what STATS counted for it, 0: nothing, it was missed */
} early[EARLY_SLOTS];
static uint32_t early_met; /* 1: there have been some */

static struct early *early_slot(uint64_t address, uint32_t way)
{
	return &early[(mt_filter_slot(address) / SPREAD + way) % EARLY_SLOTS];
}

/* 0 or -ENOSPC. */
static int keep_early(uint64_t address, uint64_t usable)
{
	__atomic_store_n(&early_met, 1, __ATOMIC_RELAXED);
	for (uint32_t way = 0; way < EARLY_WAYS; way++) {
		struct early *e = early_slot(address, way);
		uint64_t nobody = 0;
		if (!__atomic_compare_exchange_n(&e->place, &nobody, 1, 0, __ATOMIC_ACQUIRE,
						 __ATOMIC_RELAXED))
			continue;
		e->usable = usable;
		__atomic_store_n(&e->place, address, __ATOMIC_RELEASE);
		mt_filter_add(address);
		return 0;
	}
	return -MT_ENOSPC;
}

/* 1 and what keep_early() was told, or 0: it is none. */
static int take_early(uint64_t address, uint64_t *ret_usable)
{
	for (uint32_t way = 0; way < EARLY_WAYS; way++) {
		struct early *e = early_slot(address, way);
		if (__atomic_load_n(&e->place, __ATOMIC_ACQUIRE) != address)
			continue;
		*ret_usable = e->usable;
		__atomic_store_n(&e->place, 0, __ATOMIC_RELEASE);
		mt_filter_remove(address);
		return 1;
	}
	return 0;
}

/*
 * What the allocator would say of a new block if it could: what it rounds the size up to. 0, and
 * counted as missed: that is not known either, or there is no place to keep it.
 */
MT_COLD static uint64_t early_usable(const struct mt_thread *t, const void *p, size_t size,
				     enum mt_state_call call)
{
	size_t (*rounded)(size_t, int) = mt_original[t->family].nallocx;
	uint64_t usable = rounded && call != MT_CALL_ALIGNED ? rounded(size + !size, 0) : 0;
	if (keep_early((uint64_t)p, usable))
		usable = 0;
	if (!usable)
		mt_rt_lost(MT_LOST_BEFORE_START);
	return usable;
}

int mt_light_going(const struct mt_thread *t, const void *p, uint64_t *ret_usable)
{
	uint64_t usable =
		mt_guard_holds(p) ? mt_guard_usable(p) : mt_usable((enum mt_family)t->family, p);
	uint32_t met = __atomic_load_n(&early_met, __ATOMIC_RELAXED);
	*ret_usable = usable;
	if (MT_LIKELY(!met))
		return 1;
	if (take_early((uint64_t)p, ret_usable))
		return *ret_usable != 0;
	return usable != 0 || mt_rt.no_sizes;
}

/* --- the filter ---------------------------------------------------------------------------- */

int mt_filter_make(int all)
{
	enum { BYTES = 1 << MT_FILTER_BITS };
	uint8_t *filter = mt_rt.filter;
	if (!filter)
		filter = mt_arena_take(BYTES);
	if (!filter)
		return -MT_ENOMEM;
	for (int i = 0; all && i < BYTES; i++)
		__atomic_store_n(&filter[i], MT_FILTER_FULL, __ATOMIC_RELAXED);
	for (int i = 0; i < EARLY_SLOTS; i++) /* a forked child inherits them */
		if (early[i].place > 1)
			filter[mt_filter_slot(early[i].place)] = MT_FILTER_FULL;
	__atomic_store_n(&mt_rt.filter, filter, __ATOMIC_RELEASE);
	return 0;
}

static void filter_change(uint64_t address, int by)
{
	uint8_t *place = &mt_rt.filter[mt_filter_slot(address)];
	uint8_t count = __atomic_load_n(place, __ATOMIC_RELAXED), next;
	do {
		if (count == MT_FILTER_FULL || (by < 0 && !count))
			return;
		next = (uint8_t)(count + by);
	} while (!__atomic_compare_exchange_n(place, &count, next, 0, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
}

void mt_filter_add(uint64_t address)
{
	if (mt_rt.filter)
		filter_change(address, 1);
}

void mt_filter_remove(uint64_t address)
{
	if (mt_rt.filter)
		filter_change(address, -1);
}

/* --- big blocks ---------------------------------------------------------------------------- */

static struct mt_state_big *big_slot(uint64_t address, uint32_t way)
{
	struct mt_state_big *big = mt_storage_base(MT_REGION_BIG);
	return &big[(mt_state_big_slot(address) + way) & (MT_BIG_SLOTS - 1)];
}

static void list_big(const struct mt_thread *t, uint64_t address, uint64_t usable)
{
	struct mt_state_region *r = mt_rt.region[MT_REGION_BIG];
	if (mt_storage_cover(MT_REGION_BIG, MT_BIG_SLOTS - 1))
		goto refused;
	for (uint32_t way = 0; way < MT_BIG_WAYS; way++) {
		struct mt_state_big *b = big_slot(address, way);
		uint64_t nobody = 0;
		/* taken under a place that no block has, so that a reader waits for the rest */
		if (__atomic_load_n(&b->place, __ATOMIC_RELAXED) ||
		    !__atomic_compare_exchange_n(&b->place, &nobody, 1, 0, __ATOMIC_ACQUIRE,
						 __ATOMIC_RELAXED))
			continue;
		b->usable_bytes = usable;
		b->thread = t->number;
		b->unit = mt_now();
		__atomic_store_n(&b->place, address, __ATOMIC_RELEASE);
		return;
	}
refused:
	__atomic_fetch_add(&r->refused, 1, __ATOMIC_RELAXED);
}

static void unlist_big(uint64_t address)
{
	if (!mt_rt.region[MT_REGION_BIG]->used)
		return;
	for (uint32_t way = 0; way < MT_BIG_WAYS; way++) {
		struct mt_state_big *b = big_slot(address, way);
		if (__atomic_load_n(&b->place, __ATOMIC_RELAXED) == address) {
			__atomic_store_n(&b->place, 0, __ATOMIC_RELEASE);
			return;
		}
	}
}

/* --- blocks -------------------------------------------------------------------------------- */

/*
 * What the allocator says; on the way the chunk header is compared with it. Once enough blocks have
 * agreed the ordinary path believes it; one that does not ends that for good.
 */
static uint64_t checked_usable(const struct mt_thread *t, const void *p)
{
	uint64_t usable = mt_usable((enum mt_family)t->family, p);
	if (MT_UNLIKELY(usable && !__atomic_load_n(&mt_rt.tells_sizes, __ATOMIC_RELAXED))) {
		__atomic_store_n(&mt_rt.tells_sizes, 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&mt_rt.policy.count, 1, __ATOMIC_RELEASE); /* other ways */
	}
	uint32_t agreed = __atomic_load_n(&mt_rt.chunk_sizes, __ATOMIC_RELAXED), now;
	if (t->family != MT_FAMILY_PLAIN || !agreed)
		return usable;
	int agrees = mt_chunk_usable(mt_chunk_word(p)) == usable;
	now = !agrees ? 0 : MT_MIN(agreed + 1, (uint32_t)MT_CHUNKS_TRUSTED);
	if (now == agreed)
		return usable;
	__atomic_store_n(&mt_rt.chunk_sizes, now, __ATOMIC_RELAXED);
	if (!now || now == MT_CHUNKS_TRUSTED) /* threads take other ways */
		__atomic_fetch_add(&mt_rt.policy.count, 1, __ATOMIC_RELEASE);
	return usable;
}

/* The block covers a point, or is one that is always recorded: its regime. 0: neither. */
static uint32_t sampled_by(struct mt_points *points, struct mt_thread *t, size_t size)
{
	if (size >= points->always)
		return points->regime;
	points->left -= (int64_t)(size + !size);
	if (points->left > 0)
		return 0;
	points->left = mt_sample_distance(points->of.interval_bytes, mt_random_next(&t->random));
	return points->regime;
}

static struct mt_points *points_of(struct mt_thread *t, size_t size)
{
	for (uint32_t i = 0; i < t->range_count; i++)
		if (size >= t->points[i].of.from && size <= t->points[i].of.to)
			return &t->points[i];
	return NULL;
}

/*
 * One of each N in a row, at a random place among them: with a fixed distance a program that
 * allocates in turns would show one of its sites only.
 */
void mt_light_next_of_every(struct mt_thread *t)
{
	uint32_t place = 1 + (uint32_t)(mt_random_next(&t->random) % t->every);
	t->every_left = t->every_rest + place;
	t->every_rest = t->every - place;
}

/* The regime in which a block of the malloc heap is recorded, 0: it is not. */
static uint32_t sampled(struct mt_thread *t, size_t size)
{
	uint32_t regime = mt_site_tag_regime(t->tag);
	if (!regime)
		return 0;
	if (t->every) {
		if (--t->every_left)
			return 0;
		mt_light_next_of_every(t);
		return regime;
	}
	struct mt_points *points = points_of(t, size);
	if (points)
		return sampled_by(points, t, size);
	if (size >= t->sample_always)
		return regime;
	t->sample_left -= (int64_t)(size + !size);
	if (t->sample_left > 0 || !t->interval_bytes)
		return 0;
	t->sample_left = mt_sample_distance(t->interval_bytes, mt_random_next(&t->random));
	return regime;
}

uint32_t mt_light_take_custom(struct mt_thread *t, size_t size)
{
	struct mt_points *points = &t->points[MT_RANGES_MAX];
	return points->regime ? sampled_by(points, t, size) : 0;
}

/* The allocator has a function that tells sizes, and yet tells none. */
static int is_early(const struct mt_thread *t, size_t size, uint64_t usable)
{
	const struct mt_originals *by = &mt_original[t->family];
	return !usable && by->malloc_usable_size && !mt_rt.no_sizes &&
	       (size || by->nallocx); /* musl's blocks of 0 bytes have none */
}

uint32_t mt_light_take(struct mt_thread *t, const void *p, size_t size, enum mt_state_call call)
{
	uint64_t usable = checked_usable(t, p);
	if (!t->stats) {
		mt_rt_lost(MT_LOST_THREAD_FULL);
		return 0;
	}
	if (MT_UNLIKELY(is_early(t, size, usable))) {
		usable = early_usable(t, p, size, call);
		if (!usable)
			return 0;
	}
	if (usable >= MT_BIG_BYTES) {
		mt_thread_tick(t);
		list_big(t, (uint64_t)p, usable);
	}
	if (mt_light_count_alloc(t, mt_light_any_class(t, usable), usable)) {
		mt_thread_tick(t);
		publish_own(t);
		mt_control_watch(t);
	}
	uint32_t regime = sampled(t, size);
	mt_light_add(&t->stats->sampled, regime != 0);
	return regime;
}

void mt_light_gone(struct mt_thread *t, const void *p, uint64_t usable)
{
	if (!mt_recording())
		return;
	if (!t->stats && mt_control_give_stats(t)) {
		mt_rt_lost(MT_LOST_THREAD_FULL);
		return;
	}
	if (usable >= MT_BIG_BYTES)
		unlist_big((uint64_t)p);
	if (mt_light_count_free(t, mt_light_any_class(t, usable), usable))
		publish_own(t);
}

uint32_t mt_light_moment(const struct mt_thread *t)
{
	/* each allocation takes from one of these, or is sampled and counted as such */
	uint64_t left = (uint64_t)t->sample_left + t->every_left;
	for (uint32_t i = 0; i < t->range_count; i++)
		left += (uint64_t)t->points[i].left;
	left += t->stats->sampled * 0x9e3779b97f4a7c15u;
	return (uint32_t)(left ^ left >> 32);
}

/* --- forks --------------------------------------------------------------------------------- */

void mt_light_sum_up(void)
{
	const struct mt_state_region *r = mt_rt.region[MT_REGION_STATS];
	const struct mt_state_stats *all = mt_storage_base(MT_REGION_STATS);
	mt_rt.inherited_state = MT_INHERITED_NONE;
	if (!mt_rt.counting)
		return;
	mt_mem_zero(mt_rt.inherited, sizeof(mt_rt.inherited));
	uint64_t n = MT_MIN(r->used, r->committed_bytes / r->elem_bytes);
	for (uint64_t i = 0; i < n; i++)
		for (int k = 0; k < MT_SIZE_BUCKETS; k++) {
			const struct mt_state_size_class *c = &all[i].size_class[k];
			mt_rt.inherited[k].count += c->allocs - c->frees;
			mt_rt.inherited[k].bytes += c->bytes - c->freed_bytes;
		}
	/* threads go on meanwhile: a class may have lost more than it had */
	for (int k = 0; k < MT_SIZE_BUCKETS; k++) {
		struct mt_inherited *sum = &mt_rt.inherited[k];
		sum->count = (int64_t)sum->count < 0 ? 0 : sum->count;
		sum->bytes = (int64_t)sum->bytes < 0 ? 0 : sum->bytes;
	}
	mt_rt.inherited_state = MT_INHERITED_READY;
}

void mt_light_inherit(struct mt_thread *t)
{
	struct mt_state_stats *s = t->stats;
	if (!s || mt_rt.inherited_state != MT_INHERITED_DUE)
		return;
	mt_rt.inherited_state = MT_INHERITED_NONE;
	for (int k = 0; k < MT_SIZE_BUCKETS; k++) {
		s->size_class[k].allocs += mt_rt.inherited[k].count;
		s->size_class[k].bytes += mt_rt.inherited[k].bytes;
		s->live_bytes += (int64_t)mt_rt.inherited[k].bytes;
	}
	if (s->live_bytes > s->peak_bytes)
		s->peak_bytes = s->live_bytes;
	publish_own(t);
}
