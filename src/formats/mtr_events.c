/* SPDX-License-Identifier: MIT */
/*
 * Merging. Each row of the state file's threads has a cursor that holds its next event. The cursor
 * of the earliest time goes first (the lower row at the same time); when its event frees a block
 * that another cursor has still to allocate, that one goes first. Invariant: `table` holds exactly
 * the live slots.
 */
#include "formats/mtr_events.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"

/* A clock that threads set in a race is off by few units. */
enum { LATE_UNITS = 16, TABLE_FIRST = 1024 };

struct cursor {
	uint32_t thread;
	size_t block, blocks_end; /* the next to be loaded */
	uint32_t number;          /* expected of it */
	uint8_t *payload;         /* owned; of the present one */
	struct mt_mtr_decoder decoder;
	bool has_event, has_decoder;
	struct mt_mtr_event event; /* the next */
	uint64_t unit;             /* of it, all 64 bits */
	uint32_t passed;           /* sequence of the last allocation given out */
	uint32_t heap_at;
};

struct entry {
	uint64_t key;  /* thread << 32 | sequence */
	uint32_t slot; /* + 1; 0: free */
};

struct mt_mtr_events {
	const struct mt_mtr *m; /* borrowed */
	struct cursor *cursor;  /* owned */
	uint32_t cursors;
	uint32_t *heap; /* owned; cursors with an event, earliest first */
	uint32_t heap_count;
	struct mt_map by_thread; /* thread -> cursor + 1 */
	struct mt_mtr_live *live;
	size_t live_capacity;
	uint32_t slots;
	uint32_t *free_slot; /* owned stack */
	size_t free_capacity;
	uint32_t free_slots;
	struct entry *table; /* open addressing, at most 1/2 full */
	uint32_t mask, used;
	uint64_t now;
	/* LIVE blocks that are given out before everything else */
	size_t list, lists; /* block numbers */
	uint8_t *list_payload;
	size_t list_at, list_count;
	struct mt_mtr_losses losses;
};

/* ---- live blocks by name ---- */

static uint64_t key_of(uint32_t thread, uint32_t sequence)
{
	return (uint64_t)thread << 32 | sequence;
}

static uint32_t home(const struct mt_mtr_events *e, uint64_t key)
{
	return (uint32_t)mt_hash_u64(key) & e->mask;
}

/* The entry's place, or that where it would be. */
static uint32_t find(const struct mt_mtr_events *e, uint64_t key)
{
	uint32_t i = home(e, key);

	while (e->table[i].slot && e->table[i].key != key)
		i = (i + 1) & e->mask;
	return i;
}

static int grow_table(struct mt_mtr_events *e)
{
	uint32_t slots = e->table ? (e->mask + 1) * 2 : TABLE_FIRST, old_mask = e->mask;
	struct entry *old = e->table, *made = mt_alloc_zero(slots, sizeof(*made));

	if (!made)
		return -ENOMEM;
	e->table = made;
	e->mask = slots - 1;
	for (uint32_t i = 0; old && i <= old_mask; i++)
		if (old[i].slot)
			made[find(e, old[i].key)] = old[i];
	free(old);
	return 0;
}

static void erase(struct mt_mtr_events *e, uint32_t hole)
{
	for (uint32_t i = (hole + 1) & e->mask; e->table[i].slot; i = (i + 1) & e->mask)
		if (((i - home(e, e->table[i].key)) & e->mask) >= ((i - hole) & e->mask)) {
			e->table[hole] = e->table[i];
			hole = i;
		}
	e->table[hole] = (struct entry){0};
	e->used--;
}

static int take_slot(struct mt_mtr_events *e, uint32_t *ret_slot)
{
	struct mt_mtr_live *grown;

	if (e->free_slots) {
		*ret_slot = e->free_slot[--e->free_slots];
		return 0;
	}
	grown = mt_alloc_grow(e->live, &e->live_capacity, (size_t)e->slots + 1, sizeof(*grown));
	if (!grown || e->slots == UINT32_MAX - 1)
		return -ENOMEM;
	e->live = grown;
	*ret_slot = e->slots++;
	return 0;
}

static int enter(struct mt_mtr_events *e, const struct mt_mtr_live *b, uint32_t *ret_slot)
{
	uint64_t key = key_of(b->thread, b->sequence);
	int r = !e->table || e->used * 2 > e->mask ? grow_table(e) : 0;

	if (!r)
		r = take_slot(e, ret_slot);
	if (r)
		return r;
	e->live[*ret_slot] = *b;
	e->table[find(e, key)] = (struct entry){key, *ret_slot + 1};
	e->used++;
	return 0;
}

/* Takes a block out. 1, 0: it is not known, -ENOMEM. */
static int leave(struct mt_mtr_events *e, uint32_t thread, uint32_t sequence,
		 struct mt_mtr_live *ret_block, uint32_t *ret_slot)
{
	uint32_t i = e->table ? find(e, key_of(thread, sequence)) : 0, *grown;

	if (!e->table || !e->table[i].slot)
		return 0;
	grown = mt_alloc_grow(e->free_slot, &e->free_capacity, (size_t)e->free_slots + 1,
			      sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	e->free_slot = grown;
	*ret_slot = e->table[i].slot - 1;
	*ret_block = e->live[*ret_slot];
	e->live[*ret_slot] = (struct mt_mtr_live){0};
	e->free_slot[e->free_slots++] = *ret_slot;
	erase(e, i);
	return 1;
}

static bool is_known(const struct mt_mtr_events *e, uint32_t thread, uint32_t sequence)
{
	return e->table && e->table[find(e, key_of(thread, sequence))].slot;
}

/* ---- cursors ---- */

/* The low half of a time, near the last one. */
static uint64_t widen(uint64_t near, uint32_t low)
{
	int32_t step = (int32_t)(low - (uint32_t)near);

	return step < 0 && near < (uint64_t) - (int64_t)step ? 0 : near + (uint64_t)(int64_t)step;
}

/* The next buffer. 1, 0: there is none, -ENOMEM. */
static int load_next(struct mt_mtr_events *e, struct cursor *c)
{
	while (c->block < c->blocks_end) {
		const struct mt_mtr_block *b = &e->m->block[c->block++];
		int r;

		free(c->payload);
		c->payload = NULL;
		e->losses.buffers += b->head.number - c->number;
		e->losses.dropped_events += b->head.lost_events;
		c->number = b->head.number + 1;
		r = mt_mtr_load(e->m, b, &c->payload);
		if (r == -ENOMEM)
			return r;
		if (r) {
			e->losses.damaged++;
			continue;
		}
		mt_mtr_decoder_init(&c->decoder, &b->head, c->payload, b->head.raw_bytes);
		c->has_decoder = true;
		return 1;
	}
	return 0;
}

/* c->event becomes the next one. 0 or -ENOMEM. */
static int advance(struct mt_mtr_events *e, struct cursor *c)
{
	int r;

	c->has_event = false;
	for (;;) {
		r = c->has_decoder ? mt_mtr_decode(&c->decoder, &c->event) : 0;
		if (r == 1) {
			c->has_event = true;
			c->unit = widen(c->unit, c->event.unit);
			return 0;
		}
		e->losses.damaged += r < 0;
		c->has_decoder = false;
		r = load_next(e, c);
		if (r <= 0)
			return r;
	}
}

/* ---- the heap of cursors ---- */

static bool is_earlier(const struct mt_mtr_events *e, uint32_t a, uint32_t b)
{
	const struct cursor *x = &e->cursor[e->heap[a]], *y = &e->cursor[e->heap[b]];

	return x->unit != y->unit ? x->unit < y->unit : x->thread < y->thread;
}

static void swap(struct mt_mtr_events *e, uint32_t a, uint32_t b)
{
	uint32_t was = e->heap[a];

	e->heap[a] = e->heap[b];
	e->heap[b] = was;
	e->cursor[e->heap[a]].heap_at = a;
	e->cursor[e->heap[b]].heap_at = b;
}

static void settle(struct mt_mtr_events *e, uint32_t at)
{
	while (at && is_earlier(e, at, (at - 1) / 2)) {
		swap(e, at, (at - 1) / 2);
		at = (at - 1) / 2;
	}
	for (;;) {
		uint32_t least = at;

		for (uint32_t child = 2 * at + 1; child <= 2 * at + 2; child++)
			if (child < e->heap_count && is_earlier(e, child, least))
				least = child;
		if (least == at)
			return;
		swap(e, at, least);
		at = least;
	}
}

/* After advance(). */
static void place(struct mt_mtr_events *e, struct cursor *c)
{
	uint32_t at = c->heap_at;

	if (c->has_event) {
		settle(e, at);
		return;
	}
	swap(e, at, --e->heap_count);
	if (at < e->heap_count)
		settle(e, at);
}

/* The cursor whose event has to come before c's, or NULL. */
static struct cursor *awaited(struct mt_mtr_events *e, const struct cursor *c)
{
	const struct mt_mtr_event *v = &c->event;
	struct cursor *other;
	uint64_t number;

	if (v->kind != MT_MTR_FREE || v->thread == c->thread ||
	    is_known(e, v->thread, v->sequence) || !mt_map_get(&e->by_thread, v->thread, &number))
		return NULL;
	other = &e->cursor[number - 1];
	if (!other->has_event || (int32_t)(v->sequence - other->passed) <= 0 ||
	    other->unit > c->unit + LATE_UNITS)
		return NULL;
	return other;
}

static struct cursor *choose(struct mt_mtr_events *e)
{
	struct cursor *first = &e->cursor[e->heap[0]], *c = first, *other;

	for (uint32_t i = 0; i <= e->cursors; i++) {
		other = awaited(e, c);
		if (!other)
			return c;
		c = other;
	}
	return first; /* in a circle, which no process can make */
}

/* ---- steps ---- */

/* A block with this name is live already: listed before, or 2^32 allocations older. */
static int drop_namesake(struct mt_mtr_events *e, const struct mt_mtr_event *v, bool *ret_listed)
{
	struct mt_mtr_live old;
	uint32_t slot, i;

	*ret_listed = false;
	if (!is_known(e, v->thread, v->sequence))
		return 0;
	i = e->table[find(e, key_of(v->thread, v->sequence))].slot - 1;
	if (e->live[i].is_listed && e->live[i].cell == v->cell && e->live[i].size == v->size) {
		e->live[i].is_listed = false;
		*ret_listed = true;
		return 0;
	}
	e->losses.ambiguous++;
	return leave(e, v->thread, v->sequence, &old, &slot) < 0 ? -ENOMEM : 0;
}

/* 1: a step; 0: nothing to tell; -ENOMEM. */
static int do_alloc(struct mt_mtr_events *e, struct cursor *c, struct mt_mtr_step *s)
{
	const struct mt_mtr_event *v = &c->event;
	bool was_listed;
	int r = drop_namesake(e, v, &was_listed);

	c->passed = v->sequence;
	if (r || was_listed)
		return r;
	s->made = (struct mt_mtr_live){
		.size = v->size,
		.born = c->unit,
		.cell = v->cell,
		.thread = v->thread,
		.sequence = v->sequence,
		.lg_align = v->lg_align,
	};
	r = enter(e, &s->made, &s->slot);
	e->losses.allocs += !r;
	return r ? r : 1;
}

static int do_free(struct mt_mtr_events *e, const struct cursor *c, struct mt_mtr_step *s)
{
	int r = leave(e, c->event.thread, c->event.sequence, &s->gone, &s->slot);

	e->losses.frees += r == 1;
	e->losses.unknown_frees += r == 0;
	return r;
}

/* The event of c and, when it is the first half of a realloc, the other half. */
static int do_event(struct mt_mtr_events *e, struct cursor *c, struct mt_mtr_step *s)
{
	bool is_free = c->event.kind == MT_MTR_FREE;
	int r, code;

	e->now = MT_MAX(e->now, c->unit);
	*s = (struct mt_mtr_step){
		.kind = is_free ? MT_MTR_STEP_FREE : MT_MTR_STEP_ALLOC,
		.thread = c->thread,
		.unit = e->now,
	};
	r = is_free ? do_free(e, c, s) : do_alloc(e, c, s);
	if (r < 0)
		return r;
	code = advance(e, c);
	if (!code && r == 1 && is_free && c->has_event && c->event.kind == MT_MTR_ALLOC &&
	    c->event.is_realloc) {
		s->kind = MT_MTR_STEP_REALLOC;
		s->gone_slot = s->slot;
		code = do_alloc(e, c, s);
		if (!code) /* its new block was listed */
			s->kind = MT_MTR_STEP_FREE;
		if (code >= 0)
			code = advance(e, c);
	}
	place(e, c);
	return code ? code : r;
}

/* The next element of the LIVE blocks. As do_event(), or 2: there are no more. */
static int do_listed(struct mt_mtr_events *e, struct mt_mtr_step *s)
{
	const struct mt_mtr_block *b;
	struct mt_stream_live l;
	int r;

	while (e->list_at == e->list_count) {
		free(e->list_payload);
		e->list_payload = NULL;
		e->list_at = e->list_count = 0;
		if (e->list == e->lists)
			return 2;
		b = &e->m->block[e->list++];
		r = mt_mtr_load(e->m, b, &e->list_payload);
		if (r == -ENOMEM)
			return r;
		e->losses.damaged += r != 0;
		if (!r)
			e->list_count = b->head.raw_bytes / sizeof(l);
	}
	memcpy(&l, e->list_payload + sizeof(l) * e->list_at++, sizeof(l));
	b = &e->m->block[e->list - 1];
	*s = (struct mt_mtr_step){
		.kind = MT_MTR_STEP_LISTED,
		.thread = b->head.thread,
		.made = {.size = l.size,
			 .born = l.unit,
			 .cell = l.cell,
			 .thread = l.thread,
			 .sequence = l.sequence,
			 .is_listed = true},
	};
	if (!l.cell || is_known(e, s->made.thread, l.sequence))
		return 0;
	r = enter(e, &s->made, &s->slot);
	e->losses.listed += !r;
	return r ? r : 1;
}

int mt_mtr_events_next(struct mt_mtr_events *e, struct mt_mtr_step *ret_step)
{
	int r = 0;

	while (!r && e->lists)
		if ((r = do_listed(e, ret_step)) == 2)
			r = e->lists = 0;
	while (!r && e->heap_count)
		r = do_event(e, choose(e), ret_step);
	return r;
}

/* ---- begin and end ---- */

static int add_cursor(struct mt_mtr_events *e, size_t first, size_t end)
{
	struct cursor *c = &e->cursor[e->cursors];
	const struct mt_stream_block *head = &e->m->block[first].head;

	*c = (struct cursor){
		.thread = head->thread,
		.block = first,
		.blocks_end = end,
		.number = e->m->header.cut_blocks ? head->number : 0,
		.unit = head->first_unit,
		.passed = head->first_sequence,
	};
	e->cursors++;
	if (mt_map_set(&e->by_thread, c->thread, e->cursors) || advance(e, c))
		return -ENOMEM;
	if (c->has_event) {
		c->heap_at = e->heap_count;
		e->heap[e->heap_count++] = e->cursors - 1;
		settle(e, c->heap_at);
	}
	return 0;
}

static int begin(struct mt_mtr_events *e)
{
	const struct mt_mtr *m = e->m;
	size_t i = 0, threads = 0;

	while (e->lists < m->blocks && m->block[e->lists].head.kind == MT_STREAM_LIVE)
		e->lists++;
	for (i = e->lists; i < m->blocks; i++)
		threads += i == e->lists || m->block[i].head.thread != m->block[i - 1].head.thread;
	e->cursor = mt_alloc_zero(threads + 1, sizeof(*e->cursor));
	e->heap = mt_alloc_zero(threads + 1, sizeof(*e->heap));
	if (!e->cursor || !e->heap)
		return -ENOMEM;
	for (i = e->lists; i < m->blocks;) {
		size_t end = i + 1;

		while (end < m->blocks && m->block[end].head.thread == m->block[i].head.thread)
			end++;
		if (add_cursor(e, i, end))
			return -ENOMEM;
		i = end;
	}
	return 0;
}

static void release(struct mt_mtr_events *e)
{
	for (uint32_t i = 0; i < e->cursors; i++)
		free(e->cursor[i].payload);
	free(e->cursor);
	free(e->heap);
	mt_map_done(&e->by_thread);
	free(e->live);
	free(e->free_slot);
	free(e->table);
	free(e->list_payload);
}

struct mt_mtr_events *mt_mtr_events_new(const struct mt_mtr *m)
{
	struct mt_mtr_events *e = mt_alloc_zero(1, sizeof(*e));

	if (!e)
		return NULL;
	e->m = m;
	if (begin(e)) {
		release(e);
		free(e);
		return NULL;
	}
	return e;
}

void mt_mtr_events_free(struct mt_mtr_events *e)
{
	if (!e)
		return;
	release(e);
	free(e);
}

const struct mt_mtr_live *mt_mtr_events_live(const struct mt_mtr_events *e, uint32_t *ret_slots)
{
	*ret_slots = e->slots;
	return e->live;
}

struct mt_mtr_losses mt_mtr_events_losses(const struct mt_mtr_events *e)
{
	return e->losses;
}
