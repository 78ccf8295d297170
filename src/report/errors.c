/* SPDX-License-Identifier: MIT */
/*
 * Memory errors for people. An error has up to three call stacks: the access (or the wrong free, or
 * the call that found traces), the allocation of the block, and its free.
 */
#include "report/errors.h"

#include "base/units.h"
#include "model/profile.h"
#include "report/error_bytes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char realloc_words[] = "realloc after free";
enum { FIRST_SHOWN = 3, PLACES_SHOWN = 3 };

bool mt_errors_is_check(const struct mt_report *r)
{
	for (uint32_t i = 0; i < r->profile_count; i++)
		if (r->profiles[i]->mode == MT_PROFILE_MODE_CHECK)
			return true;
	return false;
}

bool mt_errors_were_looked_for(const struct mt_report *r)
{
	for (uint32_t i = 0; i < r->profile_count; i++)
		if (r->profiles[i]->guard_slots || r->profiles[i]->error_count)
			return true;
	return mt_errors_is_check(r);
}

uint64_t mt_report_count_errors(const struct mt_report *r)
{
	mt_auto(mt_error_list) struct mt_error_list l;
	uint64_t count = 0;

	if (!mt_error_list_make(r, &l))
		return l.errors + l.refused;
	for (uint32_t i = 0; i < r->profile_count; i++)
		count += r->profiles[i]->error_count;
	return count;
}

static const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

/* ---- one error ---- */

/* Where the address lies, seen from the block. */
static void add_place(const struct mt_profile_error *e, struct mt_buf *out)
{
	uint64_t end = e->block + e->block_bytes;
	uint64_t off;

	if (!e->block) {
		mt_buf_adds(out, "where no block is");
		return;
	}
	if (e->address < e->block) {
		off = e->block - e->address;
		mt_buf_printf(out, "%" PRIu64 " byte%s before", off, plural(off));
	} else if (e->address == end && e->block_bytes) {
		mt_buf_adds(out, "directly behind");
	} else if (e->address > end && e->block_bytes) {
		off = e->address - end;
		mt_buf_printf(out, "%" PRIu64 " byte%s behind", off, plural(off));
	} else if (e->address == e->block) {
		mt_buf_adds(out, "at the start of");
	} else {
		off = e->address - e->block;
		mt_buf_printf(out, "%" PRIu64 " byte%s from the start of", off, plural(off));
	}
	mt_buf_printf(out, " a block of %" PRIu64 " byte%s", e->block_bytes,
		      plural(e->block_bytes));
}

static void add_mismatch(const struct mt_profile_error *e, struct mt_buf *out)
{
	mt_buf_printf(out, "a block of %" PRIu64 " byte%s from %s is given to %s", e->block_bytes,
		      plural(e->block_bytes), mt_words_call(e->alloc_call), mt_words_call(e->call));
}

/* The mark in a header that is not ours any more. */
static void add_header(const struct mt_profile_error *e, struct mt_buf *out)
{
	if (e->block)
		mt_buf_printf(out, "that of a block of %" PRIu64 " byte%s", e->block_bytes,
			      plural(e->block_bytes));
	else
		mt_buf_adds(out, "in front of an address");
	if (!e->tag)
		return;
	mt_buf_printf(out, ", 0x%" PRIx32 " in place of its mark", e->tag);
	for (unsigned i = 0; i < sizeof(e->tag); i++) {
		unsigned char c = (unsigned char)(e->tag >> 8 * i);

		if (c < ' ' || c >= 0x7f)
			return;
	}
	mt_buf_printf(out, " (the text \"%.4s\")", (const char *)&e->tag);
}

/* What was done there; the comma keeps distances from reading as lengths. */
static const char *access_words(const struct mt_profile_error *e)
{
	if (e->access == MT_ERROR_WRITES && e->flags & MT_ERROR_IS_LATE)
		return "overwritten ";
	return e->access == MT_ERROR_WRITES  ? "write, "
	       : e->access == MT_ERROR_READS ? "read, "
					     : "";
}

static void add_what(const struct mt_profile_error *e, struct mt_buf *out)
{
	mt_buf_printf(out,
		      "%s: ", mt_error_is_realloc(e) ? realloc_words : mt_words_error(e->kind));
	if (e->kind == MT_ERROR_KIND_MISMATCH) {
		add_mismatch(e, out);
	} else if (e->kind == MT_ERROR_KIND_HEADER) {
		add_header(e, out);
	} else if (mt_error_is_free(e)) {
		mt_buf_printf(out, "%s of an address ", e->call ? mt_words_call(e->call) : "free");
		add_place(e, out);
	} else {
		mt_buf_adds(out, access_words(e));
		add_place(e, out);
	}
}

static void add_actor(const struct mt_report *r, const struct mt_profile *p, const char *what,
		      const struct mt_profile_actor *a, struct mt_buf *out)
{
	char time[MT_UNITS_TEXT_MAX];

	mt_buf_printf(out, "   %s by thread %" PRIu32, what, a->tid);
	if (p->thread[a->thread].name[0])
		mt_text_line(out, " (", p->thread[a->thread].name, ")");
	if (a->thread)
		mt_buf_printf(out, ", %s after the start", mt_units_time(a->ns, time));
	mt_buf_addc(out, '\n');
	if (a->node)
		mt_text_stack_at(r, p, a->node, out);
	else if (r->stack)
		mt_buf_adds(out, "    (call stack not known)\n");
}

/* What `use` did. */
static void use_words(const struct mt_profile_error *e, char *text, size_t len)
{
	if (e->flags & MT_ERROR_IS_BY_LOOK)
		snprintf(text, len, "found by a look at the whole heap, in a call of %s",
			 mt_words_call(e->call));
	else if (e->call && e->flags & MT_ERROR_IS_LATE)
		snprintf(text, len, "found in %s", mt_words_call(e->call));
	else if (e->flags & MT_ERROR_IS_LATE)
		snprintf(text, len, "found when it was %s,",
			 e->free.tid ? "looked at later" : "freed");
	else if (e->call)
		snprintf(text, len, "given to %s", mt_words_call(e->call));
	else if (mt_error_is_free(e))
		snprintf(text, len, "given to free");
	else
		snprintf(text, len, "%s",
			 e->access == MT_ERROR_READS    ? "read"
			 : e->access == MT_ERROR_WRITES ? "written"
							: "accessed");
}

/* Nobody was at work when a freed block was found changed: only who looked. */
static bool has_use(const struct mt_profile_error *e)
{
	return e->use.node || !(e->flags & MT_ERROR_IS_LATE) || !e->free.tid;
}

static void add_actors(const struct mt_report *r, const struct mt_error_group *g,
		       struct mt_buf *out)
{
	const struct mt_profile_error *e = g->first;
	char words[96], time[MT_UNITS_TEXT_MAX];

	use_words(e, words, sizeof(words));
	if (e->flags & MT_ERROR_IS_BY_LOOK && !e->call)
		mt_buf_printf(out,
			      "   found by a look at the whole heap when the program ended, %s "
			      "after the start\n",
			      mt_units_time(e->use.ns, time));
	else if (has_use(e))
		add_actor(r, g->p, words, &e->use, out);
	else
		mt_buf_printf(out,
			      "   found in the freed block %s after the start; who wrote is not "
			      "known\n",
			      mt_units_time(e->use.ns, time));
	if (e->flags & MT_ERROR_IS_BY_LOOK)
		mt_buf_adds(out, "   the block is live; who wrote is not known\n");
	if (e->alloc.tid) {
		snprintf(words, sizeof(words), "allocated%s%s%s", e->alloc_call ? " with " : "",
			 e->alloc_call ? mt_words_call(e->alloc_call) : "",
			 e->flags & MT_ERROR_IS_INHERITED ? " in the parent process" : "");
		add_actor(r, g->p, words, &e->alloc, out);
	}
	if (e->free.tid)
		add_actor(r, g->p, mt_error_is_free(e) ? "freed before" : "freed", &e->free, out);
}

static void add_group(const struct mt_report *r, const struct mt_error_group *g, uint64_t rank,
		      struct mt_buf *out)
{
	const struct mt_profile_error *e = g->first;

	mt_buf_printf(out, "\n%" PRIu64 ". %s", rank, mt_text_strong(r));
	add_what(e, out);
	mt_buf_printf(out, "%s%s\n", mt_text_end(r),
		      e->flags & MT_ERROR_IS_FATAL ? "; the program was not let go on" : "");
	if (g->count > 1)
		mt_buf_printf(out, "   %" PRIu64 " times with the same call stacks; the first:\n",
			      g->count);
	if (r->profile_count > 1)
		mt_buf_printf(out, "   in process %" PRId32 "\n", g->p->pid);
	mt_buf_printf(out, "   address 0x%" PRIx64, e->address);
	if (e->block)
		mt_buf_printf(out, ", block at 0x%" PRIx64, e->block);
	mt_buf_addc(out, '\n');
	add_actors(r, g, out);
	mt_error_bytes_text(r, g, out);
}

/* ---- all ---- */

static void add_count(uint64_t count, const char *words, bool *has_one, struct mt_buf *out)
{
	if (!count)
		return;
	mt_buf_printf(out, "%s%" PRIu64 " %s", *has_one ? ", " : ": ", count, words);
	*has_one = true;
}

static void add_head(const struct mt_report *r, const struct mt_error_list *l, struct mt_buf *out)
{
	bool has_one = false;

	mt_buf_printf(out, "%s%" PRIu64 " memory error%s", mt_text_strong(r), l->errors,
		      plural(l->errors));
	for (uint32_t i = 1; i < MT_ERROR_KINDS; i++) {
		uint64_t reallocs = i == MT_ERROR_KIND_DOUBLE_FREE ? l->reallocs : 0;

		add_count(l->of_kind[i] - reallocs, mt_words_error(i), &has_one, out);
		add_count(reallocs, realloc_words, &has_one, out);
	}
	mt_buf_printf(out, "%s\n", mt_text_end(r));
	if (l->refused)
		mt_buf_printf(out, "  and %" PRIu64 " more that the table had no room for\n",
			      l->refused);
	if (l->suppressed)
		mt_buf_printf(out, "  suppressed and not shown: %" PRIu64 " error%s\n",
			      l->suppressed, plural(l->suppressed));
}

static void add_groups(const struct mt_report *r, const struct mt_error_list *l, struct mt_buf *out)
{
	const struct mt_error_group *g;
	uint64_t rank = 0, hidden = 0;

	for (uint32_t pos = 0; (g = mt_error_list_next(l, &pos));) {
		if (++rank <= r->top || !r->top)
			add_group(r, g, rank, out);
		else
			hidden += g->count;
	}
	if (hidden)
		mt_buf_printf(out, "\n%" PRIu64 " more error%s (--top=0 shows all)\n", hidden,
			      plural(hidden));
}

int mt_errors_text(const struct mt_report *r, struct mt_buf *out)
{
	mt_auto(mt_error_list) struct mt_error_list l;

	if (mt_error_list_make(r, &l))
		return -ENOMEM;
	add_head(r, &l, out);
	mt_errors_text_pool(r, out);
	add_groups(r, &l, out);
	return 0;
}

/* ---- in front of leaks ---- */

void mt_errors_unreliable(const struct mt_report *r, const struct mt_error_list *l,
			  struct mt_buf *out)
{
	const struct mt_error_group *g;
	uint64_t named = 0, shown = 0;
	mt_auto(mt_buf) struct mt_buf text = {0}; /* out may have been handed on */

	if (!l->corruptions)
		return;
	mt_buf_printf(&text, "leak report unreliable: %" PRIu64 " corruption error%s",
		      l->corruptions, plural(l->corruptions));
	for (uint32_t pos = 0; (g = mt_error_list_next(l, &pos)) && shown < PLACES_SHOWN;) {
		mt_auto(mt_buf) struct mt_buf place = {0};

		if (!mt_error_is_corruption(g->first) || !mt_error_place(g->first))
			continue;
		named += g->count;
		mt_error_frame(r, g->p, mt_error_place(g->first), &place);
		if (strstr(mt_buf_text(&text), mt_buf_text(&place)))
			continue;
		mt_buf_adds(&text, shown++ ? ", " : " at ");
		mt_buf_adds(&text, mt_buf_text(&place));
	}
	if (named && named < l->corruptions)
		mt_buf_printf(&text, ", and %" PRIu64 " more", l->corruptions - named);
	mt_buf_adds(out, mt_buf_text(&text));
	out->failed |= text.failed;
}

/* One line a group. */
static void add_lines(const struct mt_report *r, const struct mt_error_list *l, struct mt_buf *out)
{
	const struct mt_error_group *g;
	uint64_t rank = 0;

	for (uint32_t pos = 0; (g = mt_error_list_next(l, &pos)) && rank < FIRST_SHOWN;) {
		mt_buf_printf(out, "  %" PRIu64 ". ", ++rank);
		add_what(g->first, out);
		if (mt_error_place(g->first)) {
			mt_buf_adds(out, ", ");
			mt_error_frame(r, g->p, mt_error_place(g->first), out);
		}
		if (g->count > 1)
			mt_buf_printf(out, ", %" PRIu64 " times", g->count);
		mt_buf_addc(out, '\n');
	}
	mt_buf_adds(out, "  call stacks and bytes: 'memtrack report --show=errors' of this file\n");
}

int mt_errors_text_first(const struct mt_report *r, struct mt_buf *out)
{
	mt_auto(mt_error_list) struct mt_error_list l;

	if (mt_error_list_make(r, &l))
		return -ENOMEM;
	if (!l.errors && !l.suppressed && !l.refused)
		return 0;
	add_head(r, &l, out);
	if (l.corruptions) {
		mt_buf_adds(out, mt_text_warn(r));
		mt_errors_unreliable(r, &l, out);
		mt_buf_printf(out, "%s\n", mt_text_end(r));
	}
	if (r->show == MT_SHOW_SUMMARY || !l.errors)
		return 0;
	if (mt_errors_is_check(r))
		add_lines(r, &l, out);
	else
		add_groups(r, &l, out);
	mt_buf_addc(out, '\n');
	return 0;
}

/* ---- the pool of guarded samples ---- */

struct pool {
	uint64_t slots, bytes, placed, refused;
};

static struct pool sum_pools(const struct mt_report *r)
{
	struct pool sum = {0};

	for (uint32_t i = 0; i < r->profile_count; i++) {
		sum.slots += r->profiles[i]->guard_slots;
		sum.bytes += r->profiles[i]->guard_bytes;
		sum.placed += r->profiles[i]->guard_placed;
		sum.refused += r->profiles[i]->guard_refused;
	}
	return sum;
}

void mt_errors_text_pool(const struct mt_report *r, struct mt_buf *out)
{
	struct pool sum = sum_pools(r);
	char text[MT_UNITS_TEXT_MAX];

	if (!sum.slots)
		return;
	mt_buf_printf(out, "  guarded    %s %s%s", mt_units_count(sum.placed, text),
		      mt_errors_is_check(r) ? "block" : "sample", plural(sum.placed));
	mt_buf_printf(out, ", in a pool of %s slots", mt_units_count(sum.slots, text));
	mt_buf_printf(out, " that takes %s at most", mt_units_size(sum.bytes, text));
	if (sum.refused)
		mt_buf_printf(out, "; %s more found no free slot",
			      mt_units_count(sum.refused, text));
	mt_buf_addc(out, '\n');
}

static void json_counts(const struct mt_error_list *l, struct mt_json *j)
{
	mt_json_u64(j, "errors", l->errors);
	mt_json_u64(j, "errors_suppressed", l->suppressed);
	mt_json_u64(j, "errors_not_kept", l->refused);
}

int mt_errors_json_pool(const struct mt_report *r, struct mt_json *j)
{
	mt_auto(mt_error_list) struct mt_error_list l;
	struct pool sum = sum_pools(r);

	if (mt_error_list_make(r, &l))
		return -ENOMEM;
	if (sum.slots) {
		mt_json_open(j, "guard", '{');
		mt_json_u64(j, "slots", sum.slots);
		mt_json_u64(j, "bytes_at_most", sum.bytes);
		mt_json_u64(j, "placed", sum.placed);
		mt_json_u64(j, "refused", sum.refused);
		json_counts(&l, j);
		mt_json_close(j, '}');
	}
	if (mt_errors_is_check(r)) {
		mt_auto(mt_buf) struct mt_buf text = {0};

		mt_errors_unreliable(r, &l, &text);
		mt_json_open(j, "check", '{');
		json_counts(&l, j);
		mt_json_u64(j, "corruptions", l.corruptions);
		if (text.len)
			mt_json_string(j, "leaks_unreliable", mt_buf_text(&text));
		mt_json_close(j, '}');
		j->out->failed |= text.failed;
	}
	return 0;
}
