/* SPDX-License-Identifier: MIT */
/* Lines of a recording: its events, with made-up addresses. */
#include "formats/record_allocs.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "formats/mtr_events.h"
#include "formats/record_allocs_line.h"
#include "wire/state.h"

#define FIRST_ADDRESS 0x10000000u
enum { ALIGN = 16 };

struct writer {
	struct mt_profile *p;
	struct mt_buf *out;
	uint64_t *address; /* owned; by slot */
	size_t capacity;
	uint64_t next;
};

static uint32_t tid_of(const struct mt_profile *p, uint32_t thread)
{
	return thread < p->thread_count ? p->thread[thread].tid : 0;
}

static uint32_t call_of(const struct mt_profile *p, uint32_t cell)
{
	return cell < p->cell_count ? p->site[p->cell[cell].site].call : 0;
}

/* A new address for the slot. 0 or -ENOMEM. */
static int place(struct writer *w, uint32_t slot, const struct mt_mtr_live *b)
{
	/* alignments that leave no room below 2^48 are not those of a program */
	uint64_t align = 1ull << MT_MIN(MT_MAX(b->lg_align, 4), 30);
	uint64_t *grown = mt_alloc_grow(w->address, &w->capacity, (size_t)slot + 1, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	w->address = grown;
	w->address[slot] = MT_ALIGN_UP(w->next, align);
	w->next = w->address[slot] + MT_ALIGN_UP(MT_MAX(b->size, 1), (uint64_t)ALIGN);
	return 0;
}

static struct mt_record_allocs_line made_line(const struct writer *w, const struct mt_mtr_step *s,
					      uint64_t old)
{
	uint32_t call = call_of(w->p, s->made.cell);
	struct mt_record_allocs_line l = {.kind = MT_RECORD_ALLOCS_MALLOC,
					  .pointer = w->address[s->slot],
					  .size = s->made.size};

	if (s->kind == MT_MTR_STEP_REALLOC || call == MT_CALL_REALLOC) {
		l.kind = MT_RECORD_ALLOCS_REALLOC;
		l.old = old;
	} else if (call == MT_CALL_CALLOC) {
		l.kind = MT_RECORD_ALLOCS_CALLOC;
		l.n = 1;
	} else if (s->made.lg_align || call == MT_CALL_ALIGNED) {
		l.kind = MT_RECORD_ALLOCS_MEMALIGN;
		l.align = (uint64_t)1 << MT_MAX(s->made.lg_align, 4);
	}
	return l;
}

static int write_step(struct writer *w, const struct mt_mtr_step *s)
{
	struct mt_record_allocs_line l = {.kind = MT_RECORD_ALLOCS_FREE};
	uint64_t old = 0;

	if (s->kind == MT_MTR_STEP_REALLOC)
		old = w->address[s->gone_slot];
	if (s->kind != MT_MTR_STEP_FREE && place(w, s->slot, &s->made))
		return -ENOMEM;
	if (s->kind == MT_MTR_STEP_FREE)
		l.pointer = w->address[s->slot];
	else
		l = made_line(w, s, old);
	l.tid = tid_of(w->p, s->thread);
	l.present_bytes = -1;
	l.end_ns = MT_MAX(mt_profile_clock_ns(&w->p->clock, s->unit), 1); /* 0 is not written */
	l.start_ns = l.end_ns;
	mt_record_allocs_put(w->out, &l);
	return w->out->failed ? -ENOMEM : 0;
}

static void write_end(struct mt_buf *out, uint32_t tid)
{
	const struct mt_record_allocs_line l = {.kind = MT_RECORD_ALLOCS_THREAD_DONE, .tid = tid};

	mt_record_allocs_put(out, &l);
}

int mt_record_allocs_write(const struct mt_mtr *m, struct mt_profile *p, struct mt_buf *out)
{
	mt_auto(mt_mtr_events) struct mt_mtr_events *e = mt_mtr_events_new(m);
	struct writer w = {.p = p, .out = out, .next = FIRST_ADDRESS};
	struct mt_mtr_step s;
	int r = e ? 0 : -ENOMEM;

	while (!r && (r = mt_mtr_events_next(e, &s)) == 1)
		r = write_step(&w, &s);
	for (uint32_t i = 1; !r && i < p->thread_count; i++)
		if (p->thread[i].ended)
			write_end(out, p->thread[i].tid);
	free(w.address);
	return r ? r : out->failed ? -ENOMEM : 0;
}
