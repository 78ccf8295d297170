/* SPDX-License-Identifier: MIT */
/* Text for figures that are estimates, and for runs that have counts only. */
#include "report/text_sampled.h"

#include "base/units.h"
#include "model/profile.h"
#include "report/basis.h"
#include "report/grid.h"
#include "report/text_show.h"

#include <errno.h>
#include <inttypes.h>

enum { OVERVIEW_ROWS = 10 };

void mt_text_range(struct mt_buf *out, const struct mt_estimate *e)
{
	if (e->is_least || e->is_most) {
		mt_buf_adds(out, e->is_most && !e->is_least ? " (frees of samples are missing)"
							    : " (samples are missing)");
		return;
	}
	mt_buf_adds(out, " (95 %: ");
	mt_text_interval(out, mt_estimate_bytes(e), /* is_count */ false);
	mt_buf_addc(out, ')');
}

const char *mt_text_bound(const struct mt_estimate *e)
{
	return e->is_least == e->is_most ? "" : e->is_least ? "at least " : "at most ";
}

void mt_text_estimated_row(const struct mt_report *r, const struct mt_table *t,
			   const struct mt_row *row, const char *noun, struct mt_buf *out)
{
	const struct mt_estimate *e = row->estimate;
	uint64_t samples = e->samples + e->certain;
	char text[MT_UNITS_TEXT_MAX], count[MT_UNITS_TEXT_MAX];

	mt_buf_adds(out, mt_text_bound(e));
	mt_buf_adds(out, e->samples ? "about " : "");
	mt_buf_printf(out, "%s%s", mt_units_size(row->bytes, text), mt_text_end(r));
	mt_text_range(out, e);
	mt_buf_printf(out, ", %s", mt_units_percent(row->bytes, t->bytes, text));
	if (t->query.measure == MT_MEASURE_PEAK)
		mt_buf_printf(out, ", %s sample%s", mt_units_count(samples, text),
			      samples == 1 ? "" : "s");
	else if (!e->samples)
		mt_buf_printf(out, ", %s %s", mt_units_count(row->count, count), noun);
	else
		mt_buf_printf(out, ", about %s %s from %s recorded",
			      mt_units_count(row->count, count), noun,
			      mt_units_count(samples, text));
}

/* The longest mean interval: what may be live although no sample is. */
static uint64_t longest_interval(const struct mt_report *r)
{
	uint64_t longest = 0;

	for (uint32_t i = 0; i < r->profile_count; i++)
		for (uint32_t k = 1; k < r->profiles[i]->regime_count; k++)
			longest =
				MT_MAX(longest, r->profiles[i]->regime[k].sampling.interval_bytes);
	return longest;
}

void mt_text_no_sample(const struct mt_report *r, bool lacks_samples, struct mt_buf *out)
{
	uint64_t interval = longest_interval(r);
	char size[MT_UNITS_TEXT_MAX];

	mt_buf_adds(out, lacks_samples ? "no live block is among the samples that found room"
				       : "no live block is in the sample");
	if (interval)
		mt_buf_printf(out, "; call sites that hold less than %s are easily missed",
			      mt_units_size(3 * interval, size));
}

int mt_text_large(const struct mt_report *r, uint32_t top, struct mt_buf *out)
{
	uint64_t bytes = 0, refused = 0;
	uint32_t count = 0;
	mt_auto(free) struct mt_big_row *rows = mt_basis_big(r, &count, &bytes);
	mt_auto(mt_grid) struct mt_grid g = {0};
	char text[MT_UNITS_TEXT_MAX];

	if (!rows)
		return -ENOMEM;
	mt_buf_printf(out, "%s%" PRIu32 " live block%s of 1.0 MiB or more%s: ", mt_text_strong(r),
		      count, count == 1 ? "" : "s", mt_text_end(r));
	mt_text_size(out, bytes);
	mt_buf_adds(out, " in usable bytes\n");
	mt_grid_init(&g, "rrrrrl");
	for (const char *const *h =
		     (const char *const[]){"size", "bytes", "age", "pid", "thread", "name", NULL};
	     *h && count; h++)
		mt_grid_add(&g, *h);
	for (uint32_t i = 0; i < count && (!top || i < top); i++) {
		const struct mt_profile *p = rows[i].p;
		const struct mt_profile_thread *th = &p->thread[rows[i].big->thread];
		uint64_t born = MT_MIN(rows[i].big->born_ns, p->duration_ns);

		mt_grid_add(&g, mt_units_size(rows[i].big->usable_bytes, text));
		mt_grid_add(&g, mt_units_count(rows[i].big->usable_bytes, text));
		mt_grid_add(&g, mt_units_time(p->duration_ns - born, text));
		mt_grid_addf(&g, "%" PRId32, p->pid);
		mt_grid_addf(&g, "%" PRIu32, th->tid);
		mt_grid_add(&g, th->name[0] ? th->name : "?");
	}
	if (mt_grid_write(&g, 2, out))
		return -ENOMEM;
	if (top && count > top)
		mt_buf_printf(out, "  %" PRIu32 " more (--show=large --top=0 shows all)\n",
			      count - top);
	for (uint32_t i = 0; i < r->profile_count; i++)
		refused += r->profiles[i]->region_refused[MT_BIG_REGION];
	if (refused)
		mt_buf_printf(out, "  %s large blocks found no room in the list\n",
			      mt_units_count(refused, text));
	return 0;
}

int mt_text_counted(const struct mt_report *r, const struct mt_totals *t, struct mt_buf *out,
		    struct mt_err *err)
{
	struct mt_report part = *r;
	int code;

	part.top = r->top ? MT_MIN(r->top, (uint32_t)OVERVIEW_ROWS) : 0;
	part.show = MT_SHOW_SIZES;
	mt_buf_addc(out, '\n');
	code = mt_text_show(&part, t, out, err);
	if (code)
		return code;
	part.show = MT_SHOW_THREADS;
	mt_buf_addc(out, '\n');
	code = mt_text_show(&part, t, out, err);
	if (code)
		return code;
	mt_buf_addc(out, '\n');
	return mt_text_large(r, part.top, out);
}
