/* SPDX-License-Identifier: MIT */
/* Sums are over the blocks of which a look tells; those that nobody looked at are said as such. */
#include "report/looks.h"

#include "base/units.h"
#include "model/profile.h"

#include <inttypes.h>

static bool is_table_with_look(const struct mt_table *t)
{
	return t->has_look && t->query.measure == MT_MEASURE_LIVE;
}

/* Why nobody knows; NULL: somebody does. */
static const char *why_not(const struct mt_profile *p)
{
	switch (p->look.result) {
	case MT_PROFILE_LOOK_MADE:
		return NULL;
	case MT_PROFILE_LOOK_NO_ANSWER:
		return "its memory could not be copied in the time that a process waits at its end";
	case MT_PROFILE_LOOK_REFUSED:
		return "its memory may not be read";
	case MT_PROFILE_LOOK_NO_MEMORY:
		return "there was no memory for the search";
	case MT_PROFILE_LOOK_NO_BLOCKS:
		return "not every block was recorded";
	case MT_PROFILE_LOOK_FAILED:
		return "the search failed";
	default:
		return p->process_alive ? "nobody looked at its memory"
					: "nobody looked at its memory before it ended ('memtrack "
					  "leaks PID' does while it runs)";
	}
}

static void add_sum(const char *name, uint64_t bytes, uint64_t count, struct mt_buf *out)
{
	char text[MT_UNITS_TEXT_MAX];

	mt_buf_printf(out, "  %-9s  ", name);
	mt_text_size(out, bytes);
	mt_buf_printf(out, " in %s block%s", mt_units_count(count, text), count == 1 ? "" : "s");
}

static bool is_any(const struct mt_report *r, bool (*has)(const struct mt_profile_look *look))
{
	for (uint32_t i = 0; i < r->profile_count; i++)
		if (r->profiles[i]->block_mark && has(&r->profiles[i]->look))
			return true;
	return false;
}

static bool has_damage(const struct mt_profile_look *look)
{
	return look->is_heap_damaged;
}

static bool has_no_heap(const struct mt_profile_look *look)
{
	return !look->has_heap;
}

static void add_unknown(const struct mt_report *r, struct mt_buf *out)
{
	for (uint32_t i = 0; i < r->profile_count; i++) {
		if (!r->profiles[i]->look.is_expected || !why_not(r->profiles[i]))
			continue;
		mt_buf_printf(out, "  lost       not known: %s\n", why_not(r->profiles[i]));
		return;
	}
}

void mt_looks_text_totals(const struct mt_report *r, const struct mt_totals *t, struct mt_buf *out)
{
	char time[MT_UNITS_TEXT_MAX];

	if (!t->looked) {
		add_unknown(r, out);
		return;
	}
	add_sum("lost", t->lost_bytes, t->lost_count, out);
	mt_buf_adds(out, t->lost_count ? ": nothing points to them any more\n" : "\n");
	add_sum("reachable", t->held_bytes, t->held_count, out);
	if (r->profile_count > 1)
		mt_buf_printf(out, "; %" PRIu32 " of %" PRIu32 " processes were looked at",
			      t->looked, r->profile_count);
	else if (r->profiles[0]->process_alive)
		mt_buf_printf(out, "; it stood still for %s",
			      mt_units_time(r->profiles[0]->look.stop_ns, time));
	mt_buf_addc(out, '\n');
	if (is_any(r, has_damage))
		mt_buf_adds(out, "             not to be relied on: the heap is damaged\n");
	else if (is_any(r, has_no_heap))
		mt_buf_adds(out, "             more may be lost: this allocator's free memory "
				 "cannot be told from what is in use\n");
}

void mt_looks_text_verdict(const struct mt_table *t, struct mt_buf *out)
{
	char size[MT_UNITS_TEXT_MAX];

	if (!is_table_with_look(t))
		return;
	if (t->lost_bytes && t->lost_bytes >= t->bytes)
		mt_buf_adds(out, "; all of it is lost");
	else if (t->lost_bytes)
		mt_buf_printf(out, "; %s of it is lost", mt_units_size(t->lost_bytes, size));
	else if (!t->lost_count)
		mt_buf_adds(out, "; none of it is lost");
}

void mt_looks_text_row(const struct mt_table *t, const struct mt_row *row, struct mt_buf *out)
{
	char text[MT_UNITS_TEXT_MAX];

	if (!is_table_with_look(t) || !(row->lost_count + row->held_count))
		return;
	if (row->lost_count >= row->live_count)
		mt_buf_adds(out, row->live_count == 1 ? ", lost" : ", all lost");
	else if (row->lost_count)
		mt_buf_printf(out, ", %s of them lost", mt_units_count(row->lost_count, text));
	else
		mt_buf_adds(out, ", reachable");
}

void mt_looks_json_totals(struct mt_json *j, const struct mt_totals *t)
{
	if (!t->looked)
		return;
	mt_json_u64(j, "lost_count", t->lost_count);
	mt_json_u64(j, "lost_bytes", t->lost_bytes);
	mt_json_u64(j, "reachable_count", t->held_count);
	mt_json_u64(j, "reachable_bytes", t->held_bytes);
}

void mt_looks_json_process(struct mt_json *j, const struct mt_profile *p)
{
	if (!p->look.is_expected && !p->block_mark)
		return;
	mt_json_open(j, "look", '{');
	mt_json_bool(j, "made", p->block_mark != NULL);
	if (p->block_mark) {
		mt_json_u64(j, "at_ns", p->look.ns);
		mt_json_u64(j, "stopped_ns", p->look.stop_ns);
		mt_json_bool(j, "heap_known", p->look.has_heap);
		mt_json_bool(j, "heap_damaged", p->look.is_heap_damaged);
	} else if (why_not(p)) {
		mt_json_string(j, "why_not", why_not(p));
	}
	mt_json_close(j, '}');
}

void mt_looks_json_row(struct mt_json *j, const struct mt_table *t, const struct mt_row *row)
{
	if (!is_table_with_look(t))
		return;
	mt_json_u64(j, "lost_count", row->lost_count);
	mt_json_u64(j, "lost_bytes", row->lost_bytes);
	mt_json_u64(j, "reachable_count", row->held_count);
	mt_json_u64(j, "reachable_bytes", row->held_bytes);
}
