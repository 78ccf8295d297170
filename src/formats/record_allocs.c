/* SPDX-License-Identifier: MIT */
/* Lines of bionic's record_allocs, as of Android 14: TID: what 0xPTR ... START END. */
#include "formats/record_allocs.h"

#include <errno.h>
#include <inttypes.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "formats/mtr_events.h"
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

static void write_made(const struct writer *w, const struct mt_mtr_step *s, uint64_t old)
{
	uint64_t at = w->address[s->slot], size = s->made.size;
	uint32_t call = call_of(w->p, s->made.cell);

	if (s->kind == MT_MTR_STEP_REALLOC || call == MT_CALL_REALLOC)
		mt_buf_printf(w->out, "realloc 0x%" PRIx64 " 0x%" PRIx64 " %" PRIu64, at, old,
			      size);
	else if (call == MT_CALL_CALLOC)
		mt_buf_printf(w->out, "calloc 0x%" PRIx64 " 1 %" PRIu64, at, size);
	else if (s->made.lg_align || call == MT_CALL_ALIGNED)
		mt_buf_printf(w->out, "memalign 0x%" PRIx64 " %" PRIu64 " %" PRIu64, at,
			      (uint64_t)1 << MT_MAX(s->made.lg_align, 4), size);
	else
		mt_buf_printf(w->out, "malloc 0x%" PRIx64 " %" PRIu64, at, size);
}

static int write_step(struct writer *w, const struct mt_mtr_step *s)
{
	uint64_t ns = mt_profile_clock_ns(&w->p->clock, s->unit), old = 0;

	if (s->kind == MT_MTR_STEP_REALLOC)
		old = w->address[s->gone_slot];
	if (s->kind != MT_MTR_STEP_FREE && place(w, s->slot, &s->made))
		return -ENOMEM;
	mt_buf_printf(w->out, "%u: ", tid_of(w->p, s->thread));
	if (s->kind == MT_MTR_STEP_FREE)
		mt_buf_printf(w->out, "free 0x%" PRIx64, w->address[s->slot]);
	else
		write_made(w, s, old);
	mt_buf_printf(w->out, " %" PRIu64 " %" PRIu64 "\n", ns, ns);
	return w->out->failed ? -ENOMEM : 0;
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
			mt_buf_printf(out, "%u: thread_done 0x0\n", p->thread[i].tid);
	free(w.address);
	return r ? r : out->failed ? -ENOMEM : 0;
}
