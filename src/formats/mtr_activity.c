/* SPDX-License-Identifier: MIT */
/* Events in steps of time. */
#include "formats/mtr_activity.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "formats/mtr_events.h"

enum { STEPS = 100 };

struct sums {
	uint64_t allocs, bytes, frees, freed_bytes;
};

struct steps {
	const struct mt_profile *p;
	struct mt_buf *out;
	uint64_t step_ns, begin_ns;
	uint64_t live;     /* bytes in the process */
	struct sums *sums; /* owned; by thread */
};

/* A name as a CSV field: in quotes, which are doubled. */
static void add_name(struct mt_buf *out, const char *name)
{
	mt_buf_addc(out, '"');
	for (const char *c = name; *c; c++) {
		if (*c == '"')
			mt_buf_addc(out, '"');
		mt_buf_addc(out, (unsigned char)*c < ' ' ? '?' : *c);
	}
	mt_buf_addc(out, '"');
}

static void end_step(struct steps *s)
{
	for (uint32_t i = 1; i < s->p->thread_count; i++) {
		const struct sums *t = &s->sums[i];

		if (!t->allocs && !t->frees)
			continue;
		mt_buf_printf(s->out, "%" PRIu64 ",%" PRIu32 ",", s->begin_ns, s->p->thread[i].tid);
		add_name(s->out, s->p->thread[i].name);
		mt_buf_printf(s->out,
			      ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n",
			      t->allocs, t->bytes, t->frees, t->freed_bytes, s->live);
	}
	memset(s->sums, 0, s->p->thread_count * sizeof(*s->sums));
}

static void count(struct steps *s, const struct mt_mtr_step *step)
{
	struct sums *t = &s->sums[step->thread < s->p->thread_count ? step->thread : 0];

	s->live += step->made.size - step->gone.size;
	if (step->kind == MT_MTR_STEP_LISTED)
		return;
	t->allocs += step->made.cell != 0;
	t->bytes += step->made.size;
	t->frees += step->gone.cell != 0;
	t->freed_bytes += step->gone.size;
}

int mt_mtr_activity_write(const struct mt_mtr *m, struct mt_profile *p, uint64_t step_ns,
			  struct mt_buf *out)
{
	mt_auto(mt_mtr_events) struct mt_mtr_events *e = mt_mtr_events_new(m);
	struct steps s = {.p = p, .out = out, .step_ns = step_ns};
	struct mt_mtr_step step;
	int r = 0;

	if (!s.step_ns)
		s.step_ns = MT_MAX(p->duration_ns / STEPS, 1);
	s.sums = mt_alloc_zero((size_t)p->thread_count + 1, sizeof(*s.sums));
	if (!e || !s.sums)
		r = -ENOMEM;
	mt_buf_adds(out, "begin_ns,tid,thread,allocs,bytes,frees,freed_bytes,process_live_bytes\n");
	while (!r && (r = mt_mtr_events_next(e, &step)) == 1) {
		uint64_t ns = mt_profile_clock_ns(&p->clock, step.unit);

		if (ns - s.begin_ns >= s.step_ns && step.kind != MT_MTR_STEP_LISTED) {
			end_step(&s);
			s.begin_ns = ns - ns % s.step_ns;
		}
		count(&s, &step);
		r = 0;
	}
	if (!r)
		end_step(&s);
	free(s.sums);
	return r ? r : out->failed ? -ENOMEM : 0;
}
