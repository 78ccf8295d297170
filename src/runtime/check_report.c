/* SPDX-License-Identifier: MIT */
/* Reports of check mode; see check_report.h. The texts are bionic's where it has them. */
#include "runtime/check_report.h"

#include "core/fmt.h"
#include "elf/loader.h"
#include "runtime/backtrace.h"
#include "runtime/errors.h"
#include "runtime/fast.h"
#include "runtime/frames.h"
#include "runtime/log.h"
#include "runtime/storage.h"

enum {
	BYTES_SHOWN = 256, /* changed bytes that get a line of their own */
	NEAR = 4096,       /* how far a neighbour may be */
	DEPTH_OF_ERRORS = MT_DEPTH_MAX,
};

static const char divider[] = "*** *** *** *** *** *** *** *** *** *** *** *** *** *** *** ***";

const char *mt_call_name(enum mt_state_call call)
{
	static const char *const name[] = {
		[MT_CALL_MALLOC] = "malloc",
		[MT_CALL_CALLOC] = "calloc",
		[MT_CALL_REALLOC] = "realloc",
		[MT_CALL_ALIGNED] = "memalign",
		[MT_CALL_NEW] = "operator new",
		[MT_CALL_NEW_ARRAY] = "operator new[]",
		[MT_CALL_STRDUP] = "strdup",
		[MT_CALL_FREE] = "free",
		[MT_CALL_DELETE] = "operator delete",
		[MT_CALL_DELETE_ARRAY] = "operator delete[]",
		[MT_CALL_USABLE_SIZE] = "malloc_usable_size",
	};
	return call < MT_ARRAY_LEN(name) && name[call] ? name[call] : "?";
}

/* bionic knows free, whatever the C++ name was. */
static const char *plain_name(enum mt_state_call call)
{
	return call == MT_CALL_DELETE || call == MT_CALL_DELETE_ARRAY ? "free" : mt_call_name(call);
}

static void say(const char *text)
{
	mt_log(MT_LOG_ERROR, text);
}

static void put_pointer(struct mt_fmt *f, uint64_t p)
{
	mt_fmt_str(f, "+++ ALLOCATION 0x");
	mt_fmt_hex(f, p, 1);
}

/* --- stacks -------------------------------------------------------------------------------- */

/* The failing call's stack, as deep as can be. */
static uint32_t failing_stack(struct mt_thread *t, const struct mt_use *use)
{
	if (!use->caller)
		return 0;
	uint32_t depth = mt_capture_set_depth(&t->capture, DEPTH_OF_ERRORS);
	uint32_t node = mt_stack_node(&t->capture, use->caller);
	mt_capture_set_depth(&t->capture, depth);
	return node;
}

static void say_stack(const char *title, uint32_t node, uint32_t frames)
{
	say(title);
	mt_backtrace_log(node, frames);
}

static void say_failure(const struct mt_use *use, uint32_t node)
{
	if (use && !use->caller)
		return;
	say_stack("Backtrace at time of failure:", node, DEPTH_OF_ERRORS);
}

/* What bionic's README promises and its code does not do. */
static void say_allocation(const struct mt_state_actor *alloc)
{
	if (alloc->node)
		say_stack("Backtrace at time of allocation:", alloc->node, DEPTH_OF_ERRORS);
}

static int has_free_stack(const struct mt_held *b)
{
	return mt_check.options.free_frames && b->free.node && b->pid == mt_rt.pid;
}

/* --- the state file ------------------------------------------------------------------------ */

static int is_fatal(void)
{
	return (mt_check.options.flags & MT_CHECK_ABORT_ON_ERROR) != 0;
}

static void finish(struct mt_thread *t, struct mt_state_error *e, const struct mt_state_damage *d)
{
	if (is_fatal()) {
		e->flags |= MT_ERROR_FATAL;
		t->dying = 1;
	}
	mt_error_write(e, d);
}

static void fill_known(struct mt_state_error *e, const struct mt_known *known)
{
	if (!known)
		return;
	e->block = (uint64_t)known->p;
	e->block_bytes = known->size;
	e->alloc = known->alloc;
	e->alloc_call = known->alloc_call;
}

static void fill_held(struct mt_state_error *e, const struct mt_held *b)
{
	e->block = b->p;
	e->block_bytes = b->size;
	e->alloc_call = b->alloc_call;
	e->free = mt_actor_here(&b->free, b->pid);
	if (b->pid == mt_rt.pid) {
		e->alloc = mt_cell_actor(b->alloc_cell);
		e->alloc_call = mt_cell_call(b->alloc_cell, b->alloc_call);
	} else {
		e->flags |= MT_ERROR_INHERITED;
	}
}

struct mt_state_actor mt_cell_actor(uint32_t cell)
{
	struct mt_state_actor a = {.tid = 0};
	if (!cell)
		return a;
	const struct mt_state_cell *c = &mt_rt.cells[cell];
	a.tid = mt_rt.threads[c->thread].tid;
	a.thread = c->thread;
	a.node = mt_rt.sites[c->site].node;
	return a;
}

uint32_t mt_cell_call(uint32_t cell, uint32_t known)
{
	if (!cell || (known && known != MT_CALL_MALLOC))
		return known;
	return mt_rt.sites[mt_rt.cells[cell].site].call;
}

/* The record of the live block that begins in the granule of an address, 0: none. */
static uint32_t record_at(uint64_t at)
{
	const uint32_t *slot = mt_index_find(at);
	return slot ? __atomic_load_n(slot, __ATOMIC_RELAXED) & ~MT_SLOT_SAMPLED : 0;
}

static int fill_live(struct mt_state_error *e, uint64_t place, uint64_t size, uint32_t cell)
{
	e->block = place;
	e->block_bytes = size;
	e->alloc = mt_cell_actor(cell);
	e->alloc_call = mt_cell_call(cell, 0);
	return 1;
}

static int fill_around_small(struct mt_state_error *e, uint64_t p)
{
	uint64_t granule = (uint64_t)1 << mt_rt.index_shift;
	for (uint64_t at = p; p - at < MT_LARGE_BYTES; at -= granule) {
		uint32_t r = record_at(at);
		const struct mt_state_live *l = &mt_rt.live[r];
		uint64_t place = r ? l->place : 0;
		if (place && place <= p)
			return p - place < l->size && fill_live(e, place, l->size, l->cell);
	}
	return 0;
}

/* These are in no order: all are looked at. */
static int fill_around_large(struct mt_state_error *e, uint64_t p)
{
	uint64_t count = mt_storage_in_use(MT_REGION_LARGE);
	for (uint64_t i = 1; i < count; i++) {
		const struct mt_state_large *l = &mt_rt.large[i];
		uint64_t place = __atomic_load_n(&l->place, __ATOMIC_ACQUIRE), size = l->size;
		if (place && l->heap == MT_HEAP_MALLOC && p - place < size)
			return fill_live(e, place, size, l->cell);
	}
	return 0;
}

/* The live block in which an address lies. */
static int fill_around(struct mt_state_error *e, uint64_t p)
{
	return fill_around_small(e, p) || fill_around_large(e, p);
}

static struct mt_state_neighbour neighbour_at(uint32_t r, uint64_t place)
{
	const struct mt_state_live *l = &mt_rt.live[r];
	return (struct mt_state_neighbour){place, l->size, mt_cell_actor(l->cell).node, 0};
}

/* The live or held block nearest to an address, looking in steps of a granule. */
static struct mt_state_neighbour look(uint64_t from, int64_t step)
{
	struct mt_held b;
	for (uint64_t at = from; at - from + NEAR < 2 * NEAR; at += (uint64_t)step) {
		uint32_t r = record_at(at);
		uint64_t place = r ? mt_rt.live[r].place : 0;
		if (place && (step > 0 ? place >= from : place <= from))
			return neighbour_at(r, place);
	}
	uint64_t beside = from + (uint64_t)(step > 0 ? NEAR / 16 : -NEAR / 16);
	if (mt_quarantine_find_inside(beside, &b))
		return (struct mt_state_neighbour){
			b.p, b.size, b.pid == mt_rt.pid ? mt_cell_actor(b.alloc_cell).node : 0, 1};
	return (struct mt_state_neighbour){0};
}

static void find_neighbours(struct mt_state_damage *d, uint64_t block, uint64_t bytes)
{
	int64_t granule = (int64_t)1 << mt_rt.index_shift;
	d->before = look(block - 1 - mt_layout.before, -granule);
	d->after = look(block + MT_MAX(bytes, (uint64_t)1) + mt_layout.rear, granule);
}

/* The bytes around the first that are changed, or before the pointer. */
static void take_window(struct mt_state_damage *d, uint64_t around)
{
	uint64_t start = (around & ~(uint64_t)15) - sizeof(d->window) / 4;
	uint64_t end = start + sizeof(d->window);
	/* what lies behind a page's end may not be there */
	for (; start < end; start = (start & ~(uint64_t)4095) + 4096) {
		uint64_t len = end - start;
		if (!mt_loader_read((const void *)start, d->window, len)) {
			d->window_start = start;
			d->window_bytes = (uint32_t)len;
			return;
		}
		uint64_t in_page = MT_MIN(len, 4096 - (start & 4095));
		if (in_page < len && !mt_loader_read((const void *)start, d->window, in_page)) {
			d->window_start = start;
			d->window_bytes = (uint32_t)in_page;
			return;
		}
	}
}

static void fill_damage(struct mt_state_damage *d, uint64_t block, uint64_t bytes,
			const struct mt_changed *c, uint8_t expected)
{
	uint64_t around = block;
	mt_mem_zero(d, sizeof(*d));
	if (c && c->count) {
		d->first = block + (uint64_t)c->first;
		d->last = block + (uint64_t)c->last;
		d->count = c->count;
		d->expected = expected;
		around = d->first;
	}
	take_window(d, around);
	find_neighbours(d, block, bytes);
}

/* --- lines --------------------------------------------------------------------------------- */

/* "  allocation[56] = 0x91 (expected 0xef)", one for each changed byte. */
static void say_changed(const void *p, const struct mt_changed *c, uint8_t expected)
{
	char line[128];
	struct mt_fmt f;
	uint64_t shown = 0;
	for (int64_t i = c->first; i <= c->last; i++) {
		uint8_t byte = ((const uint8_t *)p)[i];
		if (byte == expected)
			continue;
		mt_fmt_init(&f, line, sizeof(line));
		if (shown++ == BYTES_SHOWN) {
			mt_fmt_str(&f, "  ... and ");
			mt_fmt_u64(&f, c->count - BYTES_SHOWN);
			mt_fmt_str(&f, " more changed bytes up to allocation[");
			mt_fmt_i64(&f, c->last);
			mt_fmt_str(&f, "]");
			say(line);
			return;
		}
		mt_fmt_str(&f, "  allocation[");
		mt_fmt_i64(&f, i);
		mt_fmt_str(&f, "] = 0x");
		mt_fmt_hex(&f, byte, 2);
		mt_fmt_str(&f, " (expected 0x");
		mt_fmt_hex(&f, expected, 2);
		mt_fmt_str(&f, ")");
		say(line);
	}
}

static void say_bad_pointer(const struct mt_use *use, const void *p, enum mt_bad_pointer what,
			    uint32_t tag)
{
	char line[160];
	struct mt_fmt f;
	mt_fmt_init(&f, line, sizeof(line));
	put_pointer(&f, (uint64_t)p);
	if (what == MT_BAD_FREED)
		mt_fmt_str(&f, " USED AFTER FREE");
	else if (what == MT_BAD_TAG)
		mt_fmt_str(&f, " HAS INVALID TAG ");
	else if (what == MT_BAD_HEADER)
		mt_fmt_str(&f, " HAS A CORRUPTED HEADER");
	else
		mt_fmt_str(&f, " UNKNOWN POINTER");
	if (what == MT_BAD_TAG)
		mt_fmt_hex(&f, tag, 1);
	mt_fmt_str(&f, " (");
	mt_fmt_str(&f, plain_name(use->call));
	mt_fmt_str(&f, ")");
	say(line);
}

/* --- reports ------------------------------------------------------------------------------- */

/* What stands in front of an address that is no block's is no header. */
static enum mt_state_error_kind kind_of(enum mt_bad_pointer what, int was_freed, int is_known)
{
	if (was_freed || what == MT_BAD_FREED)
		return MT_ERROR_DOUBLE_FREE;
	return is_known ? MT_ERROR_HEADER : MT_ERROR_INVALID_FREE;
}

void mt_report_bad_pointer(struct mt_thread *t, const struct mt_use *use, const void *p,
			   enum mt_bad_pointer what, uint32_t tag, const struct mt_known *known)
{
	struct mt_held b;
	struct mt_state_damage d;
	int freed = !known && mt_quarantine_find((uint64_t)p, &b);
	uint32_t node = failing_stack(t, use);
	struct mt_state_error e = {
		.kind = kind_of(what, freed, known != NULL),
		.address = (uint64_t)p,
		.use = mt_actor(t, node),
		.call = use->call,
		.tag = tag,
	};
	say(divider);
	say_bad_pointer(use, p, what, tag);
	if (known) {
		fill_known(&e, known);
		say_allocation(&known->alloc);
	} else if (freed) {
		fill_held(&e, &b);
		if (has_free_stack(&b))
			say_stack("Backtrace of original free:", b.free.node,
				  mt_check.options.free_frames);
	} else if (!fill_around(&e, (uint64_t)p) && mt_quarantine_find_inside((uint64_t)p, &b)) {
		fill_held(&e, &b);
	}
	say_failure(use, node);
	say(divider);
	fill_damage(&d, e.block ? e.block : (uint64_t)p, e.block_bytes, NULL, 0);
	if (e.kind == MT_ERROR_INVALID_FREE)
		take_window(&d, (uint64_t)p);
	finish(t, &e, &d);
}

static void report_guard(struct mt_thread *t, const struct mt_use *use,
			 const struct mt_known *known, int is_front, const struct mt_changed *c)
{
	char line[160];
	struct mt_fmt f;
	struct mt_state_damage d;
	uint8_t expected = is_front ? MT_BYTE_FRONT : MT_BYTE_REAR;
	uint32_t node = failing_stack(t, use);
	struct mt_state_error e = {
		.kind = is_front ? MT_ERROR_UNDERFLOW : MT_ERROR_OVERFLOW,
		.access = MT_ACCESS_WRITE,
		.flags = MT_ERROR_FOUND_LATE | (use->is_look ? MT_ERROR_BY_LOOK : 0),
		.address = (uint64_t)known->p + (uint64_t)c->first,
		.use = mt_actor(t, node),
		.call = use->call,
	};
	mt_fmt_init(&f, line, sizeof(line));
	put_pointer(&f, (uint64_t)known->p);
	mt_fmt_str(&f, " SIZE ");
	mt_fmt_u64(&f, known->size);
	mt_fmt_str(&f, is_front ? " HAS A CORRUPTED FRONT GUARD" : " HAS A CORRUPTED REAR GUARD");
	say(divider);
	say(line);
	say_changed(known->p, c, expected);
	say_allocation(&known->alloc);
	say_failure(use, node);
	say(divider);
	fill_known(&e, known);
	fill_damage(&d, (uint64_t)known->p, known->size, c, expected);
	finish(t, &e, &d);
}

void mt_report_guard(struct mt_thread *t, const struct mt_use *use, const struct mt_known *known,
		     int is_front)
{
	uint32_t told = is_front ? MT_HEADER_FRONT_TOLD : MT_HEADER_REAR_TOLD;
	struct mt_header *h = mt_header_of(known->p);
	struct mt_changed c =
		is_front ? mt_block_front(known->p) : mt_block_rear(known->p, known->size);
	if (!c.count || h->flags & told)
		return;
	report_guard(t, use, known, is_front, &c);
	mt_header_mark(h, known->p, told); /* the block may stay: after a realloc, say */
}

/* Modules that define operator new, besides ours. */
static int defines_new(const struct mt_module *m)
{
	const struct mt_state_module *all = mt_storage_base(MT_REGION_MODULES);
	return !(m->number && all[m->number].flags & MT_MODULE_SELF) &&
	       mt_module_symbol(m, "_Znwm");
}

/* The program's own operators are the ones that everybody calls, and ours are not asked. */
static int program_defines(const char *one, const char *array)
{
	const struct mt_module_list *list = __atomic_load_n(&mt_unwind.modules, __ATOMIC_ACQUIRE);
	const struct mt_state_module *all = mt_storage_base(MT_REGION_MODULES);
	for (uint32_t i = 0; list && i < list->count; i++) {
		const struct mt_module *m = &list->m[i];
		if (m->number && all[m->number].flags & MT_MODULE_PROGRAM)
			return mt_module_symbol(m, one) || mt_module_symbol(m, array);
	}
	return 0;
}

/* The innermost frame is one of these functions. */
static int begins_in(uint32_t node, const char *one, const char *array)
{
	const struct mt_state_node *inner;
	if (!node || !mt_frame_chain(node, &inner, 1))
		return 0;
	const char *function = mt_frame_find(inner, NULL).function;
	return function && (mt_str_starts(function, one) || mt_str_starts(function, array));
}

int mt_report_may_be_delete(struct mt_thread *t, const struct mt_use *use)
{
	return program_defines("_ZdlPv", "_ZdaPv") ||
	       begins_in(failing_stack(t, use), "_Zdl", "_Zda");
}

int mt_report_may_be_new(const struct mt_known *known)
{
	const struct mt_module_list *list = __atomic_load_n(&mt_unwind.modules, __ATOMIC_ACQUIRE);
	int count = 0;
	if (program_defines("_Znwm", "_Znam"))
		return 1;
	if (known->alloc.node)
		return begins_in(known->alloc.node, "_Znw", "_Zna");
	for (uint32_t i = 0; list && i < list->count; i++)
		count += defines_new(&list->m[i]);
	return count > 1;
}

void mt_report_mismatch(struct mt_thread *t, const struct mt_use *use, const struct mt_known *known)
{
	char line[200];
	struct mt_fmt f;
	uint32_t node = failing_stack(t, use);
	struct mt_state_error e = {
		.kind = MT_ERROR_MISMATCH,
		.address = (uint64_t)known->p,
		.use = mt_actor(t, node),
		.call = use->call,
	};
	mt_fmt_init(&f, line, sizeof(line));
	put_pointer(&f, (uint64_t)known->p);
	mt_fmt_str(&f, " SIZE ");
	mt_fmt_u64(&f, known->size);
	mt_fmt_str(&f, " MADE BY ");
	mt_fmt_str(&f, mt_call_name((enum mt_state_call)known->alloc_call));
	mt_fmt_str(&f, " IS GIVEN TO ");
	mt_fmt_str(&f, mt_call_name(use->call));
	say(divider);
	say(line);
	say_allocation(&known->alloc);
	say_failure(use, node);
	say(divider);
	fill_known(&e, known);
	mt_count(&t->row->mismatched_frees, 1);
	finish(t, &e, NULL);
}

static void say_held(const struct mt_held *b, const char *what)
{
	char line[160];
	struct mt_fmt f;
	mt_fmt_init(&f, line, sizeof(line));
	put_pointer(&f, b->p);
	mt_fmt_str(&f, what);
	say(line);
}

/* What the block's stacks tell; nobody knows who wrote to it. */
static struct mt_state_error late_error(struct mt_thread *t, const struct mt_held *b,
					enum mt_state_error_kind kind)
{
	struct mt_state_error e = {
		.kind = kind,
		.access = MT_ACCESS_WRITE,
		.flags = MT_ERROR_FOUND_LATE,
		.address = b->p,
		.use = mt_actor(t, 0),
	};
	fill_held(&e, b);
	return e;
}

void mt_report_use_after_free(struct mt_thread *t, const struct mt_held *b,
			      const struct mt_changed *c)
{
	struct mt_state_damage d;
	struct mt_state_error e = late_error(t, b, MT_ERROR_USE_AFTER_FREE);
	e.address = b->p + (uint64_t)c->first;
	say(divider);
	say_held(b, " USED AFTER FREE");
	say_changed((const void *)b->p, c, MT_BYTE_FREE);
	say_allocation(&e.alloc);
	if (has_free_stack(b))
		say_stack("Backtrace at time of free:", b->free.node, mt_check.options.free_frames);
	say(divider);
	fill_damage(&d, b->p, b->size, c, MT_BYTE_FREE);
	finish(t, &e, &d);
}

void mt_report_freed_tag(struct mt_thread *t, const struct mt_held *b, uint32_t tag)
{
	char what[64];
	struct mt_fmt f;
	struct mt_state_damage d;
	struct mt_state_error e = late_error(t, b, MT_ERROR_HEADER);
	e.tag = tag;
	mt_fmt_init(&f, what, sizeof(what));
	mt_fmt_str(&f, " HAS CORRUPTED HEADER TAG 0x");
	mt_fmt_hex(&f, tag, 1);
	mt_fmt_str(&f, " AFTER FREE");
	say(divider);
	say_held(b, what);
	if (has_free_stack(b))
		say_stack("Backtrace at time of free:", b->free.node, mt_check.options.free_frames);
	say(divider);
	fill_damage(&d, b->p - mt_layout.before, 1, NULL, 0);
	finish(t, &e, &d);
}

static const char *page_words(uint32_t kind)
{
	static const char *const words[] = {
		[MT_ERROR_OVERFLOW] = " OVERFLOW",
		[MT_ERROR_UNDERFLOW] = " UNDERFLOW",
		[MT_ERROR_USE_AFTER_FREE] = " USED AFTER FREE",
		[MT_ERROR_DOUBLE_FREE] = " USED AFTER FREE",
		[MT_ERROR_INVALID_FREE] = " UNKNOWN POINTER",
		[MT_ERROR_WILD] = " WILD ACCESS",
	};
	return kind < MT_ARRAY_LEN(words) && words[kind] ? words[kind] : " ERROR";
}

static const char *access_words(const struct mt_state_error *e)
{
	if (e->flags & MT_ERROR_FOUND_LATE)
		return " (bytes beside the block were changed)";
	return e->access == MT_ACCESS_WRITE  ? " (write)"
	       : e->access == MT_ACCESS_READ ? " (read)"
					     : "";
}

void mt_report_page(const struct mt_state_error *e)
{
	char line[200];
	struct mt_fmt f;
	mt_fmt_init(&f, line, sizeof(line));
	put_pointer(&f, e->block ? e->block : e->address);
	mt_fmt_str(&f, " SIZE ");
	mt_fmt_u64(&f, e->block_bytes);
	mt_fmt_str(&f, page_words(e->kind));
	mt_fmt_str(&f, access_words(e));
	mt_fmt_str(&f, " at allocation[");
	mt_fmt_i64(&f, (int64_t)(e->address - e->block));
	mt_fmt_str(&f, "]");
	say(divider);
	say(line);
	say_allocation(&e->alloc);
	if (e->free.node)
		say_stack("Backtrace at time of free:", e->free.node, DEPTH_OF_ERRORS);
	say_failure(NULL, e->use.node);
	say(divider);
}
