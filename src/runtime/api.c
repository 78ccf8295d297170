/* SPDX-License-Identifier: MIT */
/* The source door: include/memtrack.h. Same tables, same rules as the hooks. */
#include "core/mem.h"
#include "core/sys.h"
#include "runtime/check.h"
#include "runtime/control.h"
#include "runtime/guard.h"
#include "runtime/lock.h"
#include "runtime/look.h"
#include "runtime/lost_blocks.h"
#include "runtime/provider.h"
#include "runtime/record.h"
#include "runtime/sites.h"
#include "runtime/snapshot.h"
#include "runtime/storage.h"

#define MEMTRACK_IMPLEMENTATION
#include <memtrack.h>

static uint64_t source_of(const char *file, int line)
{
	uint32_t at = file ? mt_site_source_file(file) : 0;
	return at ? (uint64_t)at << 32 | (uint32_t)line : 0;
}

/* The same where the guard is not held. */
static uint64_t guarded_source_of(const char *file, int line)
{
	struct mt_thread *t;
	if (mt_enter(&t) != MT_ENTER_TRACK)
		return 0;
	uint64_t source = source_of(file, line);
	mt_leave(t);
	return source;
}

static struct mt_originals *originals(void)
{
	struct mt_originals *o = &mt_original[MT_FAMILY_PLAIN];
	if (!mt_provider.malloc_address) /* not all of them are there yet */
		mt_provider_resolve();
	return o;
}

void *memtrack_malloc(size_t size, const char *file, int line)
{
	struct mt_caller caller = MT_CALLER();
	struct mt_thread *t;
	if (mt_check_is_on())
		return mt_check_malloc(size, MT_CALL_MALLOC, &caller,
				       guarded_source_of(file, line));
	enum mt_enter how = mt_enter(&t);
	void *p = originals()->malloc(size);
	if (how != MT_ENTER_TRACK)
		return mt_record_nested(how, t, p);
	return mt_finish_alloc(t, p, size, MT_CALL_MALLOC, &caller, source_of(file, line));
}

void *memtrack_calloc(size_t n, size_t size, const char *file, int line)
{
	struct mt_caller caller = MT_CALLER();
	struct mt_thread *t;
	if (mt_check_is_on())
		return mt_check_calloc(n, size, &caller, guarded_source_of(file, line));
	enum mt_enter how = mt_enter(&t);
	void *p = originals()->calloc(n, size);
	if (how != MT_ENTER_TRACK)
		return mt_record_nested(how, t, p);
	return mt_finish_alloc(t, p, n * size, MT_CALL_CALLOC, &caller, source_of(file, line));
}

static void *call_realloc(const struct mt_realloc *r)
{
	return originals()->realloc(r->old, r->n);
}

void *memtrack_realloc(void *old, size_t size, const char *file, int line)
{
	struct mt_caller caller = MT_CALLER();
	struct mt_realloc r = {.call = call_realloc, .old = old, .n = size, .size = size};
	struct mt_thread *t;
	if (mt_check_is_on())
		return mt_check_realloc(old, size, &caller, guarded_source_of(file, line));
	enum mt_enter how = mt_enter(&t);
	uint64_t source = how == MT_ENTER_TRACK ? source_of(file, line) : 0;
	return mt_record_realloc(how, t, &r, &caller, source);
}

void memtrack_free(void *p)
{
	struct mt_caller caller = MT_CALLER();
	if (mt_check_is_on()) {
		mt_check_free(p, MT_CALL_FREE, &caller);
		return;
	}
	if (mt_guard_holds(p)) {
		mt_guard_free_call(p);
		return;
	}
	mt_record_free_call(p);
	originals()->free(p);
}

static char *fill_text(char *to, const char *s, size_t len)
{
	if (to) {
		mt_mem_copy(to, s, len);
		to[len] = 0;
	}
	return to;
}

static char *copy_text(const char *s, size_t len, const char *file, int line,
		       const struct mt_caller *caller)
{
	struct mt_thread *t;
	if (mt_check_is_on())
		return fill_text(mt_check_malloc(len + 1, MT_CALL_STRDUP, caller,
						 guarded_source_of(file, line)),
				 s, len);
	enum mt_enter how = mt_enter(&t);
	char *p = fill_text(originals()->malloc(len + 1), s, len);
	if (how != MT_ENTER_TRACK)
		return mt_record_nested(how, t, p);
	return mt_finish_alloc(t, p, len + 1, MT_CALL_STRDUP, caller, source_of(file, line));
}

char *memtrack_strdup(const char *s, const char *file, int line)
{
	struct mt_caller caller = MT_CALLER();
	return copy_text(s, mt_str_len(s), file, line, &caller);
}

char *memtrack_strndup(const char *s, size_t n, const char *file, int line)
{
	struct mt_caller caller = MT_CALLER();
	size_t len = 0;
	while (len < n && s[len])
		len++;
	return copy_text(s, len, file, line, &caller);
}

/* Guard for a call that makes no sense when tracking is off. */
static struct mt_thread *begin(void)
{
	struct mt_thread *t;
	return mt_enter(&t) == MT_ENTER_TRACK ? t : NULL;
}

static const char *string_at(uint32_t offset)
{
	return (const char *)mt_storage_base(MT_REGION_STRINGS) + offset;
}

static uint64_t in_use(enum mt_state_region_kind kind)
{
	const struct mt_state_region *r = mt_rt.region[kind];
	uint64_t used = __atomic_load_n(&r->used, __ATOMIC_RELAXED);
	uint64_t capacity = __atomic_load_n(&r->capacity, __ATOMIC_RELAXED);
	return MT_MIN(used, capacity);
}

static uint32_t find_heap_locked(const char *name)
{
	struct mt_state_heap *heap = mt_storage_base(MT_REGION_HEAPS);
	uint64_t n = in_use(MT_REGION_HEAPS);
	for (uint32_t i = MT_HEAP_FIRST_CUSTOM; i < n; i++)
		if (mt_str_equal(string_at(heap[i].name_string), name))
			return i;
	uint32_t number = n < MT_HEAPS_MAX - 1 ? mt_storage_take(MT_REGION_HEAPS, 1) : 0;
	if (number)
		heap[number].name_string = mt_storage_string(name);
	return number;
}

uint32_t memtrack_heap_register(const char *name)
{
	struct mt_thread *t = name && *name ? begin() : NULL;
	uint32_t heap = 0;
	if (!t)
		return 0;
	if (mt_lock(&mt_rt.names_lock)) {
		heap = find_heap_locked(name);
		mt_unlock(&mt_rt.names_lock);
	}
	if (!heap)
		mt_rt_lost(MT_LOST_HEAP_FULL);
	mt_leave(t);
	return heap;
}

static int is_custom_heap(uint32_t heap)
{
	return heap >= MT_HEAP_FIRST_CUSTOM && heap < in_use(MT_REGION_HEAPS);
}

/* The same for an event, which is counted when it cannot be recorded. */
static struct mt_thread *begin_event(void)
{
	struct mt_thread *t;
	enum mt_enter how = mt_enter(&t);
	if (how == MT_ENTER_NESTED)
		mt_rt_lost(MT_LOST_NESTED);
	return how == MT_ENTER_TRACK ? t : NULL;
}

void memtrack_heap_alloc(uint32_t heap, const void *p, size_t size)
{
	struct mt_caller caller = MT_CALLER();
	struct mt_thread *t = begin_event();
	if (!t)
		return;
	if (is_custom_heap(heap) && mt_recording() && mt_rt.options.heaps >> MT_CLASS_CUSTOM & 1)
		mt_record_custom_alloc(t, heap, p, size, &caller);
	mt_leave(t);
}

void memtrack_heap_free(uint32_t heap, const void *p)
{
	struct mt_thread *t = begin_event();
	if (!t)
		return;
	if (is_custom_heap(heap) && mt_rt.options.heaps >> MT_CLASS_CUSTOM & 1)
		mt_record_custom_free(t, heap, p);
	mt_leave(t);
}

const char *memtrack_label_set(const char *text)
{
	struct mt_thread *t = begin();
	if (!t)
		return NULL;
	const struct mt_state_label *label = mt_storage_base(MT_REGION_LABELS);
	const char *before = t->tag >> 32 ? string_at(label[t->tag >> 32].name_string) : NULL;
	uint64_t number = text && *text ? mt_site_label(text) : 0;
	t->own_label = 1;
	t->tag = (t->tag & UINT32_MAX) | number << 32;
	mt_leave(t);
	return before;
}

void memtrack_disable(void)
{
	struct mt_thread *t = begin();
	if (!t)
		return;
	if (mt_check.state != MT_CHECK_ON)
		__atomic_fetch_and(&mt_rt.hdr->control, ~1u, __ATOMIC_RELAXED);
	mt_leave(t);
}

void memtrack_enable(void)
{
	struct mt_thread *t = begin();
	if (!t)
		return;
	__atomic_fetch_or(&mt_rt.hdr->control, 1u, __ATOMIC_RELAXED);
	mt_leave(t);
}

int memtrack_snapshot(const char *path)
{
	struct mt_thread *t = begin();
	if (!t)
		return -MT_ENOSYS;
	int err = mt_snapshot_write(t, path);
	mt_leave(t);
	return err;
}

int memtrack_control(const char *words)
{
	struct mt_thread *t;
	enum mt_enter how = mt_enter(&t);
	if (how != MT_ENTER_TRACK)
		return how == MT_ENTER_NESTED ? -MT_EBUSY : -MT_ENOSYS;
	int err = words ? mt_control_ask(t, words) : -MT_EINVAL;
	mt_leave(t);
	return err;
}

static void sum_threads(struct memtrack_stats *s)
{
	uint64_t n = in_use(MT_REGION_THREADS);
	for (uint64_t i = 1; i < n; i++) {
		const struct mt_state_thread *row = &mt_rt.threads[i];
		const struct mt_state_totals *m = &row->totals[MT_CLASS_MALLOC];
		s->allocs += mt_counted(&m->allocs);
		s->frees += mt_counted(&m->frees);
		s->bytes += mt_counted(&m->bytes);
		s->freed_bytes += mt_counted(&m->freed_bytes);
		s->reallocs += mt_counted(&row->reallocs);
		s->temporaries += mt_counted(&row->temporaries);
		s->lost_events += mt_counted(&row->nested_allocs) + mt_counted(&row->nested_frees) +
				  mt_counted(&row->unplaced_allocs);
	}
}

/* What the light modes recorded one by one is in STATS as well, and stands for more in the rows. */
static void take_samples_out(struct memtrack_stats *s)
{
	uint64_t n = in_use(MT_REGION_CELLS);
	for (uint64_t i = 1; i < n; i++) {
		const struct mt_state_cell *c = &mt_rt.cells[i];
		const struct mt_state_site *site = &mt_rt.sites[c->site];
		if (!site->regime || site->heap != MT_HEAP_MALLOC)
			continue;
		s->allocs -= mt_counted(&c->allocs);
		s->frees -= mt_counted(&c->frees);
		s->bytes -= mt_counted(&c->bytes);
		s->freed_bytes -= mt_counted(&c->freed_bytes);
	}
}

/* What the light modes count. */
static void add_counted(struct memtrack_stats *s)
{
	const struct mt_state_stats *all = mt_storage_base(MT_REGION_STATS);
	const struct mt_state_region *r = mt_rt.region[MT_REGION_STATS];
	uint64_t n = MT_MIN(in_use(MT_REGION_STATS), r->committed_bytes / r->elem_bytes);
	int64_t peak = __atomic_load_n(&mt_rt.hdr->stats_peak_bytes, __ATOMIC_RELAXED);
	for (uint64_t i = 0; i < n; i++) {
		for (int k = 0; k < MT_SIZE_BUCKETS; k++) {
			const struct mt_state_size_class *c = &all[i].size_class[k];
			s->allocs += mt_counted(&c->allocs);
			s->frees += mt_counted(&c->frees);
			s->bytes += mt_counted(&c->bytes);
			s->freed_bytes += mt_counted(&c->freed_bytes);
		}
		peak = MT_MAX(peak, all[i].peak_bytes);
	}
	if (peak > 0)
		s->peak_bytes = (uint64_t)peak;
}

static int error_of_look(enum mt_state_look result)
{
	static const int errors[] = {
		[MT_LOOK_NONE] = -MT_ENOENT,         [MT_LOOK_MADE] = 0,
		[MT_LOOK_NO_ANSWER] = -MT_ETIMEDOUT, [MT_LOOK_REFUSED] = -MT_EPERM,
		[MT_LOOK_NO_MEMORY] = -MT_ENOMEM,    [MT_LOOK_NO_BLOCKS] = -MT_ENOTSUP,
		[MT_LOOK_FAILED] = -MT_EIO,
	};
	return result < MT_ARRAY_LEN(errors) ? errors[result] : -MT_EIO;
}

static void take_look(struct memtrack_leaks *l)
{
	struct mt_lost_block block[MEMTRACK_LEAKS_LISTED];
	l->lost_count = mt_rt.hdr->look_count;
	l->lost_bytes = mt_rt.hdr->look_bytes;
	l->listed = mt_lost_blocks(block, MEMTRACK_LEAKS_LISTED);
	for (size_t i = 0; i < l->listed; i++) {
		l->leak[i].block = (void *)(uintptr_t)block[i].leak.place;
		l->leak[i].bytes = block[i].leak.size;
		l->leak[i].similar = block[i].leaks - 1;
	}
}

int memtrack_leaks(struct memtrack_leaks *leaks)
{
	struct memtrack_leaks l;
	struct mt_thread *t;
	mt_mem_zero(&l, sizeof(l));
	l.struct_bytes = MT_MIN(leaks->struct_bytes, sizeof(l));
	enum mt_enter how = mt_enter(&t);
	int err = how == MT_ENTER_PASS ? -MT_ENOSYS : how == MT_ENTER_NESTED ? -MT_EBUSY : 0;
	if (!err) {
		err = mt_look_is_table() ? error_of_look(mt_look_now(MT_LOOK_ON_CALL))
					 : -MT_ENOTSUP;
		if (!err)
			take_look(&l);
		mt_leave(t);
	}
	mt_mem_copy(leaks, &l, l.struct_bytes);
	return err;
}

int memtrack_stats_get(struct memtrack_stats *stats)
{
	struct memtrack_stats s = {.struct_bytes = MT_MIN(stats->struct_bytes, sizeof(s))};
	struct mt_thread *t = begin();
	if (t) {
		sum_threads(&s);
		s.peak_bytes = (uint64_t)__atomic_load_n(&mt_rt.hdr->peak_bytes, __ATOMIC_RELAXED);
		if (__atomic_load_n(&mt_rt.counting, __ATOMIC_RELAXED)) {
			take_samples_out(&s);
			add_counted(&s);
		}
		s.live_count = s.allocs - s.frees;
		s.live_bytes = s.bytes - s.freed_bytes;
		for (size_t i = 0; i < MT_ARRAY_LEN(mt_rt.hdr->lost); i++)
			s.lost_events += mt_counted(&mt_rt.hdr->lost[i]);
		mt_leave(t);
	}
	mt_mem_copy(stats, &s, s.struct_bytes);
	return t ? 0 : -MT_ENOSYS;
}
