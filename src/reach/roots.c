/* SPDX-License-Identifier: MIT */
/*
 * Each kind is a set of addresses: what belongs to it, cut to what can be read, without what must
 * not be scanned and without what an earlier kind has. Mappings of the kernel's list may have
 * grown together, so that all is decided by address.
 */

#include "reach/roots.h"

#include "base/alloc.h"
#include "base/search.h"
#include "core/cc.h"

#include <errno.h>
#include <string.h>

enum {
	PAGE_BYTES = 4096,
	RED_ZONE_BYTES = 128,    /* x86-64: a function may use that below its stack pointer */
	DESCRIPTOR_BYTES = 4096, /* of a thread, beside its thread pointer: 2.3 KiB in glibc */
	TLS_SURPLUS_BYTES = 4096 /* glibc keeps that free for modules that come later */
};

struct finder {
	const struct mt_roots_input *in;
	struct mt_roots *roots;
	struct mt_ranges never; /* blocks, heap, own */
	struct mt_ranges taken; /* by kinds before */
	struct mt_ranges unreadable;
	struct mt_ranges dead; /* parts of stacks that are not in use */
	struct mt_ranges module_pages;
};

static void finder_done(struct finder *f)
{
	mt_ranges_done(&f->never);
	mt_ranges_done(&f->taken);
	mt_ranges_done(&f->unreadable);
	mt_ranges_done(&f->dead);
	mt_ranges_done(&f->module_pages);
}
MT_AUTO_DEFINE_INPLACE(finder, struct finder, finder_done)

void mt_roots_done(struct mt_roots *r)
{
	if (!r)
		return;
	mt_ranges_done(&r->range);
	mt_ranges_done(&r->code);
	free(r->value);
	*r = (struct mt_roots){0};
}

static int add_all(struct mt_ranges *to, const struct mt_range *item, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (mt_ranges_add(to, item[i].start, item[i].end))
			return -ENOMEM;
	return 0;
}

/* Blocks that do not lie in the heap, which is left out as a whole: there may be very many. */
static int add_blocks_outside(struct mt_ranges *to, const struct mt_roots_input *in)
{
	size_t h = 0;

	for (size_t i = 0; i < in->blocks; i++) {
		const struct mt_range *b = &in->block[i];

		while (h < in->heaps && in->heap[h].end <= b->start)
			h++;
		if (h < in->heaps && in->heap[h].start <= b->start && b->end <= in->heap[h].end)
			continue;
		if (mt_ranges_add(to, b->start, b->end))
			return -ENOMEM;
	}
	return 0;
}

/* Takes over what is new in a set, for one kind. The set is empty then. */
static int commit(struct finder *f, enum mt_roots_kind kind, struct mt_ranges *set,
		  const struct mt_ranges *never)
{
	struct mt_ranges *to = kind == MT_ROOTS_CODE ? &f->roots->code : &f->roots->range;
	int code = 0;

	mt_ranges_tidy(set);
	if (mt_ranges_subtract(set, f->unreadable.item, f->unreadable.count) ||
	    mt_ranges_subtract(set, never->item, never->count) ||
	    mt_ranges_subtract(set, f->taken.item, f->taken.count) ||
	    add_all(&f->taken, set->item, set->count))
		code = -ENOMEM;
	f->roots->missing_bytes += mt_ranges_bytes(set);
	if (mt_ranges_subtract(set, f->in->missing, f->in->missings) ||
	    add_all(to, set->item, set->count))
		code = -ENOMEM;
	f->roots->missing_bytes -= mt_ranges_bytes(set);
	f->roots->bytes[kind] += mt_ranges_bytes(set);
	mt_ranges_tidy(&f->taken);
	mt_ranges_done(set);
	return code;
}

static bool is_readable(const struct mt_mapping *m)
{
	return m->flags & MT_MAPPING_READ && m->in_image;
}

static int find_unreadable(struct finder *f)
{
	uint64_t at = 0;

	for (size_t i = 0; i < f->in->mappings; i++) {
		const struct mt_mapping *m = &f->in->mapping[i];

		if (!is_readable(m))
			continue;
		if (mt_ranges_add(&f->unreadable, at, m->start))
			return -ENOMEM;
		at = m->end;
	}
	return mt_ranges_add(&f->unreadable, at, UINT64_MAX);
}

static const struct mt_mapping *mapping_of(const struct finder *f, uint64_t address)
{
	size_t low = MT_SEARCH_UP_TO(f->in->mapping, f->in->mappings, end, address);

	if (low == f->in->mappings || f->in->mapping[low].start > address)
		return NULL;
	return &f->in->mapping[low];
}

/* ---- modules ---- */

static bool is_tracker(const struct mt_image_module *m)
{
	const char *slash = strrchr(m->path, '/');

	return !strncmp(slash ? slash + 1 : m->path, "libmemtrack.so", 14);
}

/*
 * Exactly the segments: musl gives what is left of their last page to its heap. glibc's loader, on
 * the other hand, has its own early allocations there.
 */
static int find_globals(struct finder *f)
{
	struct mt_ranges set = {0};
	int code = 0;

	for (size_t i = 0; i < f->in->modules && !code; i++) {
		const struct mt_image_module *m = &f->in->module[i];

		for (uint32_t k = 0; k < m->segment_count && !code; k++) {
			const struct mt_image_segment *s = &m->segments[k];
			uint64_t page = MT_ALIGN_DOWN(s->start, (uint64_t)PAGE_BYTES);
			uint64_t end = MT_ALIGN_UP(s->end, (uint64_t)PAGE_BYTES);

			if (!(s->flags & MT_MAPPING_WRITE))
				continue;
			code = mt_ranges_add(&f->module_pages, page, end);
			if (is_tracker(m))
				code = code ? code : mt_ranges_add(&f->never, page, end);
			else if (!code)
				code = mt_ranges_add(&set, s->start,
						     m->is_loader && !m->is_libc ? end : s->end);
		}
	}
	mt_ranges_tidy(&f->module_pages);
	mt_ranges_tidy(&f->never);
	if (!code)
		code = commit(f, MT_ROOTS_GLOBALS, &set, &f->never);
	mt_ranges_done(&set);
	return code;
}

/* ---- stacks ---- */

static bool is_main_stack(const struct mt_mapping *m)
{
	return !strncmp(m->name, "[stack", 6);
}

/* A page below it that nobody may touch: the stack that a thread was made with. */
static bool has_guard(const struct finder *f, const struct mt_mapping *m)
{
	const struct mt_mapping *below = m > f->in->mapping ? m - 1 : NULL;
	const uint32_t any = MT_MAPPING_READ | MT_MAPPING_WRITE | MT_MAPPING_EXEC;

	return below && below->end == m->start && !(below->flags & any);
}

/* Whether the thread runs on the stack that it was given, in a mapping where all else is unused. */
static bool is_own_stack(const struct finder *f, const struct mt_image_thread *t,
			 const struct mt_mapping *m)
{
	if (is_main_stack(m))
		return true;
	return t->thread_pointer >= t->sp && t->thread_pointer < m->end && has_guard(f, m);
}

static int add_whole(struct mt_ranges *set, const struct mt_mapping *m)
{
	return m && m->flags & MT_MAPPING_WRITE ? mt_ranges_add(set, m->start, m->end) : 0;
}

static int add_main_stacks(const struct finder *f, struct mt_ranges *set)
{
	for (size_t i = 0; i < f->in->mappings; i++)
		if (is_main_stack(&f->in->mapping[i]) && add_whole(set, &f->in->mapping[i]))
			return -ENOMEM;
	return 0;
}

/*
 * A thread that runs elsewhere (a signal's stack, a coroutine) has left its own stack at a place
 * that is not known: both are scanned whole.
 */
static int add_stack(struct finder *f, const struct mt_image_thread *t, struct mt_ranges *set)
{
	const struct mt_mapping *m = mapping_of(f, t->sp);
	uint64_t zone = f->in->arch == MT_IMAGE_X86_64 ? RED_ZONE_BYTES : 0, low;

	if (!t->is_missing && m && is_own_stack(f, t, m)) {
		low = t->sp - m->start < zone ? m->start : t->sp - zone;
		return mt_ranges_add(set, low, m->end) ? -ENOMEM
						       : mt_ranges_add(&f->dead, m->start, low);
	}
	if (t->is_missing)
		f->roots->missing_threads++;
	else
		f->roots->strange_stacks++;
	if (t->is_missing || t->tid == f->in->pid)
		if (add_main_stacks(f, set))
			return -ENOMEM;
	if (add_whole(set, m))
		return -ENOMEM;
	return t->thread_pointer && t->tid != f->in->pid
		       ? add_whole(set, mapping_of(f, t->thread_pointer))
		       : 0;
}

static int find_stacks(struct finder *f)
{
	struct mt_ranges set = {0};
	int code = 0;

	for (size_t i = 0; i < f->in->threads && !code; i++)
		code = add_stack(f, &f->in->thread[i], &set);
	if (!f->in->threads)
		code = add_main_stacks(f, &set);
	mt_ranges_tidy(&f->dead);
	mt_ranges_tidy(&set);
	/* what is unused of one is in use by another when they share a mapping */
	if (!code)
		code = mt_ranges_subtract(&f->dead, set.item, set.count);
	if (!code)
		code = commit(f, MT_ROOTS_STACKS, &set, &f->never);
	mt_ranges_done(&set);
	return code;
}

/* ---- thread-local memory ---- */

static uint64_t tls_bytes(const struct mt_roots_input *in)
{
	uint64_t bytes = TLS_SURPLUS_BYTES;

	for (size_t i = 0; i < in->modules; i++)
		if (in->module[i].tls_bytes < (uint64_t)1 << 32)
			bytes += in->module[i].tls_bytes + in->module[i].tls_align % PAGE_BYTES;
	return bytes;
}

/* Variables lie below the thread pointer on x86-64 and above it on aarch64, descriptors opposite.
 */
static int find_tls(struct finder *f)
{
	uint64_t variables = tls_bytes(f->in);
	bool is_below = f->in->arch == MT_IMAGE_X86_64;
	struct mt_ranges set = {0};
	int code = 0;

	for (size_t i = 0; i < f->in->threads && !code; i++) {
		uint64_t tp = f->in->thread[i].thread_pointer;
		const struct mt_mapping *m = tp ? mapping_of(f, tp) : NULL;
		uint64_t below = is_below ? variables : DESCRIPTOR_BYTES;
		uint64_t above = is_below ? DESCRIPTOR_BYTES : variables;

		if (m && m->flags & MT_MAPPING_WRITE)
			code = mt_ranges_add(&set, tp - m->start < below ? m->start : tp - below,
					     m->end - tp < above ? m->end : tp + above);
	}
	if (!code)
		code = commit(f, MT_ROOTS_TLS, &set, &f->never);
	mt_ranges_done(&set);
	return code;
}

/* ---- the rest ---- */

static int find_in_use(struct finder *f)
{
	const struct mt_ranges none = {0};
	struct mt_ranges set = {0};
	int code = add_all(&set, f->in->in_use, f->in->in_uses);

	/* they lie in the heap, so that this is no reason to leave them out */
	if (!code)
		code = mt_ranges_subtract(&set, f->in->block, f->in->blocks);
	if (!code)
		code = mt_ranges_subtract(&set, f->in->own, f->in->owns);
	if (!code)
		code = commit(f, MT_ROOTS_HEAP, &set, &none);
	mt_ranges_done(&set);
	return code;
}

bool mt_roots_is_shared_memory(const struct mt_mapping *m)
{
	static const char *const shared[] = {"/dev/zero", "/memfd:", "/SYSV"};

	for (size_t i = 0; m->flags & MT_MAPPING_SHARED && i < MT_ARRAY_LEN(shared); i++)
		if (!strncmp(m->name, shared[i], strlen(shared[i])))
			return true;
	return false;
}

/* Memory that only this process, or it and its children, can have written to. */
static bool is_memory(const struct mt_mapping *m)
{
	if (!(m->flags & MT_MAPPING_WRITE) || !strcmp(m->name, "[vvar]"))
		return false;
	if (m->flags & MT_MAPPING_SHARED)
		return mt_roots_is_shared_memory(m);
	return strncmp(m->name, "/dev/", 5) != 0 || !strncmp(m->name, "/dev/zero", 9);
}

/*
 * Compilers at run time write addresses into the instructions, wherever these come to lie. The
 * memory need not be writable any more.
 */
static bool is_made_code(const struct mt_mapping *m)
{
	if (!(m->flags & MT_MAPPING_EXEC))
		return false;
	return m->inode ? mt_roots_is_shared_memory(m)
			: !*m->name || !strncmp(m->name, "[anon:", 6);
}

static int find_code(struct finder *f)
{
	struct mt_ranges set = {0};
	int code = 0;

	for (size_t i = 0; i < f->in->mappings && !code; i++)
		if (is_made_code(&f->in->mapping[i]))
			code = mt_ranges_add(&set, f->in->mapping[i].start, f->in->mapping[i].end);
	if (!code)
		code = mt_ranges_subtract(&set, f->module_pages.item, f->module_pages.count);
	if (!code)
		code = commit(f, MT_ROOTS_CODE, &set, &f->never);
	mt_ranges_done(&set);
	return code;
}

static int find_others(struct finder *f)
{
	struct mt_ranges set = {0}, never = {0};
	int code = 0;

	for (size_t i = 0; i < f->in->mappings && !code; i++)
		if (is_memory(&f->in->mapping[i]))
			code = mt_ranges_add(&set, f->in->mapping[i].start, f->in->mapping[i].end);
	if (!code)
		code = add_all(&never, f->never.item, f->never.count);
	if (!code)
		code = add_all(&never, f->module_pages.item, f->module_pages.count);
	if (!code)
		code = add_all(&never, f->dead.item, f->dead.count);
	mt_ranges_tidy(&never);
	if (!code)
		code = commit(f, MT_ROOTS_OTHER, &set, &never);
	mt_ranges_done(&set);
	mt_ranges_done(&never);
	return code;
}

static int find_registers(struct finder *f)
{
	size_t most = 0, n = 0;

	for (size_t i = 0; i < f->in->threads; i++)
		most += f->in->thread[i].register_count + f->in->thread[i].vector_bytes / 8;
	f->roots->value = mt_alloc_zero(most, sizeof(*f->roots->value));
	if (!f->roots->value)
		return -ENOMEM;
	for (size_t i = 0; i < f->in->threads; i++) {
		const struct mt_image_thread *t = &f->in->thread[i];
		uint32_t words = t->vector_bytes / 8;

		if (t->is_missing)
			continue;
		memcpy(f->roots->value + n, t->registers, t->register_count * sizeof(uint64_t));
		n += t->register_count;
		memcpy(f->roots->value + n, t->vector, words * sizeof(uint64_t));
		n += words;
	}
	f->roots->values = n;
	return 0;
}

int mt_roots_find(const struct mt_roots_input *in, struct mt_roots *ret_roots)
{
	mt_auto(mt_roots) struct mt_roots roots = {0};
	mt_auto(finder) struct finder f = {.in = in, .roots = &roots};

	if (add_blocks_outside(&f.never, in) || add_all(&f.never, in->heap, in->heaps) ||
	    add_all(&f.never, in->own, in->owns) || find_unreadable(&f))
		return -ENOMEM;
	mt_ranges_tidy(&f.never);
	if (find_globals(&f) || find_stacks(&f) || find_tls(&f) || find_in_use(&f) ||
	    (!in->is_strict && (find_code(&f) || find_others(&f))) || find_registers(&f))
		return -ENOMEM;
	mt_ranges_tidy(&roots.range);
	mt_ranges_tidy(&roots.code);
	*ret_roots = roots;
	roots = (struct mt_roots){0};
	return 0;
}
