/* SPDX-License-Identifier: MIT */
/*
 * Order: what makes the report unreliable, the verdict in one line, how it was found, the leaks
 * with the most bytes first. Of a cycle the first block stands for all.
 */

#include "report/leaks.h"

#include "base/escape.h"
#include "base/units.h"
#include "core/cc.h"
#include "model/profile.h"
#include "report/basis.h"
#include "report/internal.h"
#include "report/json.h"
#include "report/json_report.h"
#include "report/text_sampled.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

typedef void emit_sentence(void *context, const char *sentence);

static const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

/* ---- what makes it unreliable ---- */

struct sentences {
	struct mt_buf text;
	emit_sentence *emit;
	void *context;
};

static void end_sentence(struct sentences *s)
{
	s->emit(s->context, mt_buf_text(&s->text));
	mt_buf_truncate(&s->text, 0);
}

/* Damage comes first: it may have changed everything else. */
static void tell_damage(const struct mt_leaks_report *r, struct sentences *s)
{
	const struct mt_heap *h = &r->find->heap;
	const struct mt_profile *p = r->sites ? r->sites->profiles[0] : NULL;

	if (h->damages_in_all) {
		mt_buf_printf(&s->text,
			      "leak report unreliable: %" PRIu64
			      " corruption error%s, the first at "
			      "0x%" PRIx64 ": %s",
			      h->damages_in_all, plural(h->damages_in_all), h->damages[0].address,
			      h->damages[0].text);
		end_sentence(s);
	}
	if (h->skipped_bytes) {
		mt_buf_printf(&s->text, "%" PRIu64 " bytes of the heap could not be walked",
			      h->skipped_bytes);
		end_sentence(s);
	}
	if (p && p->error_count) {
		mt_buf_printf(&s->text,
			      "leak report unreliable: %" PRIu32 " memory error%s found ('memtrack "
			      "report --show=errors')",
			      p->error_count, p->error_count == 1 ? " was" : "s were");
		end_sentence(s);
	}
}

static void tell_limits(const struct mt_leaks_report *r, struct sentences *s)
{
	const struct mt_find *f = r->find;

	if (!f->has_heap && r->is_table) {
		mt_buf_printf(
			&s->text,
			"the heap was not walked (%s): its free memory counts as roots, which "
			"may hide leaks; --roots=strict leaves it out",
			f->why_no_heap.text);
		end_sentence(s);
	}
	if (f->roots.missing_threads) {
		mt_buf_printf(&s->text,
			      "%" PRIu32 " thread%s could not be stopped: stacks count as a whole, "
			      "registers are not known",
			      f->roots.missing_threads, plural(f->roots.missing_threads));
		end_sentence(s);
	}
	if (f->mark.skipped_bytes) {
		mt_buf_printf(&s->text, "%" PRIu64 " bytes could not be read",
			      f->mark.skipped_bytes);
		end_sentence(s);
	}
	if (r->facts->apart_bytes) {
		char size[MT_UNITS_TEXT_MAX];

		mt_buf_printf(&s->text,
			      "%s that the process keeps from its children (MADV_DONTFORK, "
			      "MADV_WIPEONFORK) are not in the copy, and were not read: what only "
			      "they point to counts as lost",
			      mt_units_size(r->facts->apart_bytes, size));
		end_sentence(s);
	}
	if (f->left_out_bytes) {
		char size[MT_UNITS_TEXT_MAX];

		mt_buf_printf(&s->text,
			      "%s of mappings of more than 64 GiB were not scanned: what only they "
			      "point to counts as lost",
			      mt_units_size(f->left_out_bytes, size));
		end_sentence(s);
	}
}

static void tell_all(const struct mt_leaks_report *r, emit_sentence *emit, void *context)
{
	struct sentences s = {.emit = emit, .context = context};

	tell_damage(r, &s);
	tell_limits(r, &s);
	mt_buf_done(&s.text);
}

static void add_warning(void *context, const char *sentence)
{
	mt_text_line(context, "warning: ", sentence, "\n");
}

/* ---- verdict ---- */

static uint64_t reachable_count(const struct mt_find *f)
{
	return f->blocks - f->fold.lost_count - f->suppressed_count;
}

static uint64_t reachable_bytes(const struct mt_find *f)
{
	return f->block_bytes - f->fold.lost_bytes - f->suppressed_bytes;
}

static void add_amount(struct mt_buf *out, uint64_t count, uint64_t bytes)
{
	char number[MT_UNITS_TEXT_MAX], size[MT_UNITS_TEXT_MAX];

	mt_buf_printf(out, "%s block%s, %s,", mt_units_count(count, number), plural(count),
		      mt_units_size(bytes, size));
}

static void add_verdict(const struct mt_leaks_report *r, struct mt_buf *out)
{
	const struct mt_find *f = r->find;
	char number[MT_UNITS_TEXT_MAX];

	if (f->fold.lost_count) {
		add_amount(out, f->fold.lost_count, f->fold.lost_bytes);
		mt_buf_printf(out, " %s lost (%s directly); ",
			      f->fold.lost_count == 1 ? "is" : "are",
			      mt_units_count(f->fold.direct_count, number));
	} else {
		mt_buf_adds(out, "no block is lost; ");
	}
	add_amount(out, reachable_count(f), reachable_bytes(f));
	mt_buf_adds(out, " can be reached");
	if (f->inside_count)
		mt_buf_printf(out, ", %s of them only by pointers into blocks",
			      mt_units_count(f->inside_count, number));
	if (f->suppressed_count) {
		mt_buf_adds(out, "; ");
		add_amount(out, f->suppressed_count, f->suppressed_bytes);
		mt_buf_printf(out, " lost, %s suppressed", f->suppressed_count == 1 ? "is" : "are");
	}
	mt_buf_addc(out, '\n');
}

/* ---- how ---- */

static uint64_t scanned_bytes(const struct mt_find *f)
{
	return f->mark.block_bytes + f->mark.root_bytes;
}

static const char *source_word(enum mt_image_source source)
{
	static const char *const words[] = {"live", "stopped", "copy", "core"};

	return words[source];
}

/* A time that is measured on few pages: two digits of it are true. */
static uint64_t about(uint64_t pages, uint64_t ns)
{
	uint64_t sum = pages * ns, unit = 1;

	while (sum / unit >= 100)
		unit *= 10;
	return sum / unit * unit;
}

/* What the copy cost the process after it went on, and may cost it yet. */
static void add_cost(const struct mt_leaks_report *r, struct mt_buf *out)
{
	const struct mt_copy_cost *c = r->cost;
	char text[4][MT_UNITS_TEXT_MAX];
	uint64_t pages, left;

	if (!c || !c->is_known)
		return;
	pages = c->copied_bytes / r->facts->page_bytes;
	left = c->kept_bytes / r->facts->page_bytes;
	mt_buf_printf(out, "copy on write: %s page%s, %s, copied because it wrote to %s",
		      mt_units_count(pages, text[0]), plural(pages),
		      mt_units_size(c->copied_bytes, text[1]), pages == 1 ? "it" : "them");
	if (pages && c->copied_ns)
		mt_buf_printf(out, ", about %s of its time",
			      mt_units_time(about(pages, c->copied_ns), text[2]));
	if (c->kept_ns)
		mt_buf_printf(out, "; the next write to each of %s others costs %s, once",
			      mt_units_count(left, text[2]),
			      mt_units_time(about(1, c->kept_ns), text[3]));
	mt_buf_addc(out, '\n');
}

static void add_how(const struct mt_leaks_report *r, struct mt_buf *out)
{
	const struct mt_find *f = r->find;
	char text[3][MT_UNITS_TEXT_MAX];
	double seconds = (double)MT_MAX(f->mark.scan_ns, 1u) / 1e9;

	mt_text_line(out, "", r->name, ": ");
	if (f->has_heap)
		mt_buf_printf(out, "heap of %s %s, ", f->heap.allocator, f->heap.version);
	mt_buf_adds(out, r->is_table ? "blocks as tracked" : "blocks as its structures tell");
	if (f->unknown_count)
		mt_buf_printf(out, " (%s more in use hold what they point to)",
			      mt_units_count(f->unknown_count, text[0]));
	if (f->stale_count)
		mt_buf_printf(out, " (without %s that the heap knows as free)",
			      mt_units_count(f->stale_count, text[0]));
	mt_buf_addc(out, '\n');
	if (r->facts->source != MT_IMAGE_CORE)
		mt_buf_printf(out, "the process stood still for %s%s; ",
			      mt_units_time(r->facts->stop_ns, text[0]),
			      r->facts->source == MT_IMAGE_COPY ? "" : ", until all was read");
	mt_buf_printf(out, "scanned %s in %s (%s/s)\n", mt_units_size(scanned_bytes(f), text[0]),
		      mt_units_time(f->mark.scan_ns, text[1]),
		      mt_units_size((uint64_t)((double)scanned_bytes(f) / seconds), text[2]));
	add_cost(r, out);
	mt_buf_adds(out, "roots:");
	for (int i = 0; i < MT_ROOTS_KINDS; i++) {
		static const char *const names[] = {"of globals",
						    "of stacks",
						    "of thread-local memory",
						    "of other blocks in use",
						    "of code made at run time",
						    "of other mappings"};

		if (f->roots.bytes[i])
			mt_buf_printf(out, " %s %s,", mt_units_size(f->roots.bytes[i], text[0]),
				      names[i]);
	}
	mt_buf_printf(out, " %zu words of registers%s\n", f->roots.values,
		      r->is_strict ? " (--roots=strict)" : "");
}

/* ---- leaks ---- */

static void add_part(struct mt_buf *out, const char *before, uint64_t bytes, const char *what,
		     uint64_t count, bool is_at_least)
{
	if (count)
		mt_buf_printf(
			out,
			"   %s %s%" PRIu64 " %sunreachable bytes in %" PRIu64 " allocation%s\n",
			before, is_at_least ? "at least " : "", bytes, what, count, plural(count));
}

static size_t read_contents(const struct mt_leaks_report *r, const struct mt_fold_leak *l,
			    uint8_t bytes[MT_LEAKS_CONTENTS_MAX])
{
	size_t wanted = (size_t)MT_MIN(l->bytes, (uint64_t)MT_LEAKS_CONTENTS_MAX);

	return r->read ? r->read(r->context, r->find->block[l->block].start, bytes, wanted) : 0;
}

/* Sixteen bytes a line, as numbers and as characters. */
static void add_contents(const struct mt_leaks_report *r, const struct mt_fold_leak *l,
			 struct mt_buf *out)
{
	enum { LINE = 16 };
	uint8_t bytes[MT_LEAKS_CONTENTS_MAX];
	size_t count = read_contents(r, l, bytes);

	if (!r->read || !l->bytes)
		return;
	if (l->bytes <= MT_LEAKS_CONTENTS_MAX)
		mt_buf_adds(out, "   contents:\n");
	else
		mt_buf_printf(out, "   first %d bytes of contents:\n", MT_LEAKS_CONTENTS_MAX);
	for (size_t at = 0; at < count; at += LINE) {
		mt_buf_printf(out, "   %" PRIx64 ":", r->find->block[l->block].start + at);
		for (size_t i = at; i < at + LINE; i++)
			if (i < count)
				mt_buf_printf(out, " %02x", bytes[i]);
			else
				mt_buf_adds(out, "   ");
		mt_buf_addc(out, ' ');
		for (size_t i = at; i < MT_MIN(at + LINE, count); i++)
			mt_buf_addc(out, bytes[i] >= ' ' && bytes[i] < 0x7f ? (char)bytes[i] : '.');
		mt_buf_addc(out, '\n');
	}
	if (!count)
		mt_buf_adds(out, "   (cannot be read)\n");
}

/* The site of a leak, 0: not known. */
static uint32_t site_of(const struct mt_leaks_report *r, const struct mt_fold_leak *l)
{
	uint64_t site = r->find->stack[l->block];

	return r->sites && site < r->sites->profiles[0]->site_count ? (uint32_t)site : 0;
}

static void add_leak(const struct mt_leaks_report *r, const struct mt_fold_leak *l, uint64_t rank,
		     struct mt_buf *out)
{
	uint32_t site = site_of(r, l);

	mt_buf_printf(out, "\n%" PRIu64 ". %" PRIu64 " bytes unreachable at 0x%" PRIx64, rank,
		      l->bytes, r->find->block[l->block].start);
	if (l->cycle > 1)
		mt_buf_printf(out, ", in a cycle of %" PRIu32 " blocks", l->cycle);
	mt_buf_addc(out, '\n');
	add_part(out, "referencing", l->referenced_bytes, "", l->referenced_count, l->is_at_least);
	add_part(out, "and", l->similar_bytes, "similar ", l->similar_count, false);
	add_part(out, "referencing", l->similar_referenced_bytes, "", l->similar_referenced_count,
		 l->is_at_least);
	add_contents(r, l, out);
	if (site)
		mt_text_stack_at(r->sites, r->sites->profiles[0],
				 r->sites->profiles[0]->site[site].node, out);
}

/* What of each call site is lost, where only a sample of the blocks has one. */
static void add_sites(const struct mt_leaks_report *r, struct mt_buf *out)
{
	char text[MT_UNITS_TEXT_MAX], count[MT_UNITS_TEXT_MAX];
	uint64_t recorded = 0;

	for (size_t i = 0; i < r->lost_sites; i++)
		recorded += r->lost_site[i].lost.samples + r->lost_site[i].lost.certain;
	if (!recorded)
		return;
	mt_buf_printf(out, "\nlost by call site, estimated from %s recorded ones among them:\n",
		      mt_units_count(recorded, count));
	for (size_t i = 0; i < r->lost_sites && (!r->top || i < r->top); i++) {
		const struct mt_estimate *e = &r->lost_site[i].lost;

		mt_buf_printf(out, "\n%zu. %s%s%s", i + 1, mt_text_bound(e),
			      e->samples ? "about " : "", mt_units_size((uint64_t)e->bytes, text));
		mt_text_range(out, e);
		mt_buf_printf(out, ", %s%s block%s from %s recorded\n", e->samples ? "about " : "",
			      mt_units_count((uint64_t)(e->count + 0.5), text),
			      plural((uint64_t)(e->count + 0.5)),
			      mt_units_count(e->samples + e->certain, count));
		mt_text_stack_at(r->sites, r->sites->profiles[0],
				 r->sites->profiles[0]->site[r->lost_site[i].site].node, out);
	}
	if (r->top && r->lost_sites > r->top)
		mt_buf_printf(out, "\n%zu more call sites (--top=0 shows all)\n",
			      r->lost_sites - (size_t)r->top);
	mt_buf_adds(out, "\nthe lost blocks themselves:\n");
}

int mt_leaks_text(const struct mt_leaks_report *r, struct mt_buf *out)
{
	const struct mt_fold *fold = &r->find->fold;
	uint64_t rank = 0, firsts = 0;

	tell_all(r, add_warning, out);
	add_verdict(r, out);
	add_how(r, out);
	add_sites(r, out);
	for (size_t i = 0; i < fold->leaks; i++)
		firsts += fold->leak[i].is_first;
	for (size_t i = 0; i < fold->leaks && (!r->top || rank < r->top); i++)
		if (fold->leak[i].is_first)
			add_leak(r, &fold->leak[i], ++rank, out);
	if (rank < firsts)
		mt_buf_printf(out, "\n%" PRIu64 " more (--top=0 shows all)\n", firsts - rank);
	return out->failed ? -ENOMEM : 0;
}

/* ---- JSON ---- */

static void json_amount(struct mt_json *j, const char *name, uint64_t count, uint64_t bytes)
{
	mt_json_open(j, name, '{');
	mt_json_u64(j, "count", count);
	mt_json_u64(j, "bytes", bytes);
	mt_json_close(j, '}');
}

static void json_contents(struct mt_json *j, const struct mt_leaks_report *r,
			  const struct mt_fold_leak *l)
{
	uint8_t bytes[MT_LEAKS_CONTENTS_MAX];
	size_t count = read_contents(r, l, bytes);
	char text[2 * MT_LEAKS_CONTENTS_MAX + 1] = "";

	for (size_t i = 0; i < count; i++) {
		text[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
		text[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
	}
	if (r->read)
		mt_json_string(j, "contents", text);
}

static void json_leak(struct mt_json *j, const struct mt_leaks_report *r,
		      const struct mt_fold_leak *l)
{
	uint32_t site = site_of(r, l);

	mt_json_open(j, NULL, '{');
	mt_json_u64(j, "address", r->find->block[l->block].start);
	mt_json_u64(j, "bytes", l->bytes);
	mt_json_u64(j, "cycle", l->cycle);
	json_amount(j, "referenced", l->referenced_count, l->referenced_bytes);
	mt_json_bool(j, "referenced_is_at_least", l->is_at_least);
	json_amount(j, "similar", l->similar_count, l->similar_bytes);
	json_amount(j, "similar_referenced", l->similar_referenced_count,
		    l->similar_referenced_bytes);
	json_contents(j, r, l);
	if (site) {
		const struct mt_profile *p = r->sites->profiles[0];

		mt_json_string(j, "call", mt_words_call(p->site[site].call));
		mt_json_open(j, "stack", '[');
		mt_stack_each_at(r->sites, p, p->site[site].node, mt_json_frame, j);
		mt_json_close(j, ']');
	}
	mt_json_close(j, '}');
}

static void json_sites(struct mt_json *j, const struct mt_leaks_report *r)
{
	if (!r->sites || !mt_profile_is_sampled(r->sites->profiles[0]))
		return;
	mt_json_open(j, "lost_sites", '[');
	for (size_t i = 0; i < r->lost_sites; i++) {
		const struct mt_profile *p = r->sites->profiles[0];
		const struct mt_leaks_site *s = &r->lost_site[i];

		mt_json_open(j, NULL, '{');
		mt_json_u64(j, "bytes", (uint64_t)s->lost.bytes);
		mt_json_u64(j, "count", (uint64_t)(s->lost.count + 0.5));
		mt_json_estimate(j, &s->lost);
		mt_json_string(j, "call", mt_words_call(p->site[s->site].call));
		mt_json_open(j, "stack", '[');
		mt_stack_each_at(r->sites, p, p->site[s->site].node, mt_json_frame, j);
		mt_json_close(j, ']');
		mt_json_close(j, '}');
	}
	mt_json_close(j, ']');
}

static void json_warning(void *context, const char *sentence)
{
	mt_json_string(context, NULL, sentence);
}

static void json_roots(struct mt_json *j, const struct mt_find *f)
{
	static const char *const names[] = {"globals", "stacks", "tls", "heap", "code", "other"};

	mt_json_open(j, "roots", '{');
	for (int i = 0; i < MT_ROOTS_KINDS; i++)
		mt_json_u64(j, names[i], f->roots.bytes[i]);
	mt_json_u64(j, "register_words", f->roots.values);
	mt_json_close(j, '}');
}

static void json_cost(struct mt_json *j, const struct mt_copy_cost *c)
{
	if (!c || !c->is_known)
		return;
	mt_json_open(j, "copy_on_write", '{');
	mt_json_u64(j, "copied_bytes", c->copied_bytes);
	mt_json_u64(j, "kept_bytes", c->kept_bytes);
	mt_json_u64(j, "ns_per_copied_page", c->copied_ns);
	mt_json_u64(j, "ns_per_kept_page", c->kept_ns);
	mt_json_close(j, '}');
}

static void json_head(struct mt_json *j, const struct mt_leaks_report *r)
{
	const struct mt_find *f = r->find;

	mt_json_string(j, "schema", "memtrack-leaks-1");
	mt_json_string(j, "name", r->name);
	mt_json_u64(j, "pid", (uint64_t)r->facts->pid);
	mt_json_string(j, "source", source_word(r->facts->source));
	mt_json_u64(j, "stop_ns", r->facts->stop_ns);
	mt_json_string(j, "blocks_from", r->is_table ? "table" : "heap");
	if (f->has_heap) {
		mt_json_string(j, "allocator", f->heap.allocator);
		mt_json_string(j, "allocator_version", f->heap.version);
	}
	mt_json_u64(j, "scanned_bytes", scanned_bytes(f));
	mt_json_u64(j, "scan_ns", f->mark.scan_ns);
	json_cost(j, r->cost);
	json_roots(j, f);
	mt_json_open(j, "warnings", '[');
	tell_all(r, json_warning, j);
	mt_json_close(j, ']');
}

int mt_leaks_json(const struct mt_leaks_report *r, struct mt_buf *out)
{
	const struct mt_find *f = r->find;
	struct mt_json j = {.out = out};
	uint64_t rank = 0;

	mt_json_open(&j, NULL, '{');
	json_head(&j, r);
	json_amount(&j, "lost", f->fold.lost_count, f->fold.lost_bytes);
	json_amount(&j, "directly_lost", f->fold.direct_count, f->fold.direct_bytes);
	json_amount(&j, "reachable", reachable_count(f), reachable_bytes(f));
	json_amount(&j, "reachable_by_interior_pointers_only", f->inside_count, f->inside_bytes);
	json_amount(&j, "suppressed", f->suppressed_count, f->suppressed_bytes);
	mt_json_u64(&j, "blocks_in_no_table", f->unknown_count);
	mt_json_u64(&j, "blocks_free_in_heap", f->stale_count);
	mt_json_u64(&j, "heap_damages", f->heap.damages_in_all);
	json_sites(&j, r);
	mt_json_open(&j, "leaks", '[');
	for (size_t i = 0; i < f->fold.leaks && (!r->top || rank < r->top); i++) {
		if (!f->fold.leak[i].is_first)
			continue;
		json_leak(&j, r, &f->fold.leak[i]);
		rank++;
	}
	mt_json_close(&j, ']');
	mt_json_close(&j, '}');
	mt_buf_addc(out, '\n');
	return out->failed ? -ENOMEM : 0;
}
