/* SPDX-License-Identifier: MIT */
/* What stands in memory around an error: the changed bytes, a guess at their writer, a window. */
#include "report/error_bytes.h"

#include "analysis/callstack.h"
#include "analysis/writer.h"
#include "base/escape.h"
#include "model/profile.h"
#include "report/json_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
	ROW = 16,
	ROWS_BEFORE = 2, /* of the row where something is to be seen */
	ROWS_MOST = 8,
	TEXT_SHOWN = 60,
};

/* Inside of operator new: nobody asks for that line. */
static bool is_of_operators(const struct mt_profile *p, uint32_t node)
{
	const char *base = mt_names_base(p->module[p->node[node].module].path);

	return !strncmp(base, "libstdc++.so", 12) || !strncmp(base, "libc++.so", 9) ||
	       !strncmp(base, "libc++abi.so", 12);
}

static uint32_t first_frame(const struct mt_profile *p, uint32_t node)
{
	uint32_t top = mt_callstack_top(p, node);
	uint32_t first = top ? top : node, at = first;

	for (uint32_t depth = p->node[at].depth; depth > 1 && is_of_operators(p, at); depth--)
		at = p->node[at].parent;
	return is_of_operators(p, at) ? first : at;
}

void mt_error_frame(const struct mt_report *r, const struct mt_profile *p, uint32_t node,
		    struct mt_buf *out)
{
	struct mt_name name[MT_NAMES_MAX];
	char place[512];
	uint32_t at = first_frame(p, node);
	uint32_t count = mt_names_frames(r->names, p, at, name, MT_NAMES_MAX);

	if (!count) {
		mt_escape(out, mt_names_place(p, at, false, place, sizeof(place)));
		return;
	}
	if (name[0].function)
		mt_escape(out, name[0].function);
	if (!name[0].file)
		return;
	mt_buf_adds(out, name[0].function ? " (" : "");
	mt_escape(out, name[0].file);
	mt_buf_printf(out, ":%" PRIu32 "%s", name[0].line, name[0].function ? ")" : "");
}

/* ---- what it looks like ---- */

/* At most TEXT_SHOWN bytes of a text that no zero ends, without what acts on a terminal. */
static void add_text(const struct mt_writer *w, struct mt_buf *out)
{
	char text[TEXT_SHOWN + 1];
	int shown = (int)MT_MIN(w->text_bytes, (uint32_t)TEXT_SHOWN);

	snprintf(text, sizeof(text), "%.*s", shown, w->text);
	mt_buf_addc(out, '"');
	mt_escape(out, text);
	mt_buf_printf(out, "%s\"", (uint32_t)shown < w->text_bytes ? "..." : "");
}

static void add_pointer(const struct mt_report *r, const struct mt_profile *p,
			const struct mt_writer *w, struct mt_buf *out)
{
	static const char *const words[] = {
		[MT_TARGET_BLOCK] = "this block",
		[MT_TARGET_BEFORE] = "the block before",
		[MT_TARGET_AFTER] = "the block behind",
		[MT_TARGET_HEAP] = "the heap",
		[MT_TARGET_STACK] = "the main thread's stack",
	};
	char place[512];

	mt_buf_printf(out, "a pointer, 0x%" PRIx64 ", to ", w->word);
	if (w->target != MT_TARGET_MODULE) {
		mt_buf_adds(out, words[w->target]);
		return;
	}
	mt_error_frame(r, p, w->node, out);
	mt_names_place(p, w->node, false, place, sizeof(place));
	if (r->names) {
		mt_buf_adds(out, " in ");
		mt_escape(out, place);
	}
}

void mt_error_looks(const struct mt_report *r, const struct mt_error_group *g, struct mt_buf *out)
{
	struct mt_writer w = mt_writer_guess(g->first);

	switch (w.kind) {
	case MT_WRITER_UNKNOWN:
		return;
	case MT_WRITER_ZEROS:
		if (w.bytes == 1)
			mt_buf_adds(out, "a zero byte, as behind the end of a string");
		else
			mt_buf_printf(out, "%" PRIu64 " zeros", w.bytes);
		return;
	case MT_WRITER_FILL:
		mt_buf_printf(out, "a fill of %" PRIu64 " bytes with 0x%02" PRIx64, w.bytes,
			      w.word);
		return;
	case MT_WRITER_TEXT:
		mt_buf_adds(out, w.is_end ? "the zero byte behind the text " : "the text ");
		add_text(&w, out);
		return;
	case MT_WRITER_POINTER:
		add_pointer(r, g->p, &w, out);
		return;
	case MT_WRITER_INTEGER:
		if (w.bytes == 1)
			mt_buf_printf(out, "the byte 0x%02x", (unsigned)w.integer & 0xff);
		else
			mt_buf_printf(out, "the integer %" PRId64 " (%" PRIu64 " bytes)", w.integer,
				      w.bytes);
		return;
	case MT_WRITER_DOUBLE:
	case MT_WRITER_FLOAT:
		mt_buf_printf(out, "the %s %.9g", w.kind == MT_WRITER_FLOAT ? "float" : "double",
			      w.real);
	}
}

/* ---- text ---- */

static bool is_changed(const struct mt_profile_damage *d, uint64_t at)
{
	uint64_t address = d->window_start + at;

	return d->first && at < d->window_bytes && address >= d->first && address <= d->last &&
	       d->window[at] != d->expected;
}

/* "0x7f00  61 62[63 64]65": changed bytes in brackets. */
static void add_row(const struct mt_profile_damage *d, uint64_t row, struct mt_buf *out)
{
	bool was = false;
	uint64_t end = MT_MIN(row + ROW, (uint64_t)d->window_bytes);

	mt_buf_printf(out, "     0x%012" PRIx64 " ", d->window_start + row);
	for (uint64_t at = row; at < row + ROW; at++) {
		bool is = is_changed(d, at) && at < end;

		mt_buf_addc(out, is == was ? ' ' : is ? '[' : ']');
		was = is;
		if (at < end)
			mt_buf_printf(out, "%02x", d->window[at]);
		else
			mt_buf_adds(out, "  ");
	}
	mt_buf_printf(out, "%c ", was ? ']' : ' ');
	for (uint64_t at = row; at < end; at++) {
		uint8_t c = d->window[at];

		mt_buf_addc(out, c >= ' ' && c < 0x7f ? (char)c : '.');
	}
	mt_buf_addc(out, '\n');
}

/* Rows around the first changed byte, or the address. */
static void add_window(const struct mt_profile_error *e, struct mt_buf *out)
{
	const struct mt_profile_damage *d = e->damage;
	uint64_t around = d->first ? d->first : e->address;
	uint64_t last = d->first ? d->last : around + ROW;
	uint64_t row, rows = 0, end;

	if (!d->window_bytes)
		return;
	around = around > d->window_start ? around - d->window_start : 0;
	row = around / ROW > ROWS_BEFORE ? (around / ROW - ROWS_BEFORE) * ROW : 0;
	end = last > d->window_start ? last - d->window_start + ROW : ROW;
	end = MT_MIN(end, (uint64_t)d->window_bytes);
	if (row >= end)
		row = 0;
	mt_buf_printf(out, "   bytes there%s:\n", d->first ? ", changed ones in brackets" : "");
	for (; row < end && rows < ROWS_MOST; row += ROW, rows++)
		add_row(d, row, out);
}

/* Where a changed byte lies, seen from the block. */
static void add_offset(const struct mt_profile_error *e, uint64_t address, struct mt_buf *out)
{
	mt_buf_printf(out, "%" PRId64, (int64_t)(address - e->block));
}

static void add_changed(const struct mt_report *r, const struct mt_error_group *g,
			struct mt_buf *out)
{
	const struct mt_profile_error *e = g->first;
	const struct mt_profile_damage *d = e->damage;
	mt_auto(mt_buf) struct mt_buf looks = {0};

	if (!d->first)
		return;
	mt_buf_printf(out, "   changed %" PRIu64 " byte%s at offset%s ", d->count,
		      d->count == 1 ? "" : "s", d->count == 1 ? "" : "s");
	add_offset(e, d->first, out);
	if (d->last != d->first) {
		mt_buf_adds(out, " to ");
		add_offset(e, d->last, out);
	}
	mt_buf_printf(out, ", where 0x%02x was to be", d->expected);
	mt_error_looks(r, g, &looks);
	if (looks.len)
		mt_buf_printf(out, "; looks like %s", mt_buf_text(&looks));
	mt_buf_addc(out, '\n');
	out->failed |= looks.failed;
}

static void add_neighbour(const struct mt_report *r, const struct mt_error_group *g,
			  const struct mt_profile_neighbour *n, bool is_before, struct mt_buf *out)
{
	const struct mt_profile_error *e = g->first;
	uint64_t from = e->block ? e->block : e->address;
	uint64_t to = from + (e->block ? e->block_bytes : 0);
	uint64_t distance = is_before ? from - (n->start + n->bytes) : n->start - to;

	if (!n->start)
		return;
	mt_buf_printf(out, "   block %s: %" PRIu64 " byte%s, ", is_before ? "before" : "behind",
		      n->bytes, n->bytes == 1 ? "" : "s");
	/* a neighbour that overlaps is the one whose inside was given to free */
	if ((int64_t)distance >= 0)
		mt_buf_printf(out, "%s %" PRIu64 " byte%s %s, ", is_before ? "ends" : "begins",
			      distance, distance == 1 ? "" : "s",
			      !e->block   ? is_before ? "before the address" : "behind the address"
			      : is_before ? "before this one begins"
					  : "behind the end of this one");
	mt_buf_adds(out, n->is_freed ? "freed" : "live");
	if (n->node) {
		mt_buf_adds(out, ", allocated at ");
		mt_error_frame(r, g->p, n->node, out);
	}
	mt_buf_addc(out, '\n');
}

void mt_error_bytes_text(const struct mt_report *r, const struct mt_error_group *g,
			 struct mt_buf *out)
{
	const struct mt_profile_damage *d = g->first->damage;

	if (!d)
		return;
	add_changed(r, g, out);
	add_window(g->first, out);
	add_neighbour(r, g, &d->before, /* is_before */ true, out);
	add_neighbour(r, g, &d->after, /* is_before */ false, out);
}

/* ---- JSON ---- */

static void json_neighbour(const struct mt_report *r, const struct mt_profile *p, const char *name,
			   const struct mt_profile_neighbour *n, struct mt_json *j)
{
	if (!n->start)
		return;
	mt_json_open(j, name, '{');
	mt_json_hash(j, "block", n->start);
	mt_json_u64(j, "block_bytes", n->bytes);
	mt_json_bool(j, "freed", n->is_freed);
	if (r->stack && n->node) {
		mt_json_open(j, "frames", '[');
		mt_stack_each_at(r, p, n->node, mt_json_frame, j);
		mt_json_close(j, ']');
	}
	mt_json_close(j, '}');
}

static const char *looks_key(enum mt_writer_kind kind)
{
	static const char *const keys[] = {
		[MT_WRITER_UNKNOWN] = "unknown", [MT_WRITER_ZEROS] = "zeros",
		[MT_WRITER_FILL] = "fill",       [MT_WRITER_TEXT] = "text",
		[MT_WRITER_POINTER] = "pointer", [MT_WRITER_INTEGER] = "integer",
		[MT_WRITER_DOUBLE] = "double",   [MT_WRITER_FLOAT] = "float",
	};
	return keys[kind];
}

static void json_changed(const struct mt_report *r, const struct mt_error_group *g,
			 struct mt_json *j)
{
	const struct mt_profile_error *e = g->first;
	const struct mt_profile_damage *d = e->damage;
	mt_auto(mt_buf) struct mt_buf looks = {0};

	if (!d->first)
		return;
	mt_json_open(j, "changed", '{');
	mt_json_i64(j, "first_offset", (int64_t)(d->first - e->block));
	mt_json_i64(j, "last_offset", (int64_t)(d->last - e->block));
	mt_json_u64(j, "count", d->count);
	mt_json_u64(j, "expected", d->expected);
	mt_json_close(j, '}');
	mt_error_looks(r, g, &looks);
	mt_json_open(j, "looks_like", '{');
	mt_json_string(j, "kind", looks_key(mt_writer_guess(e).kind));
	if (looks.len)
		mt_json_string(j, "words", mt_buf_text(&looks));
	mt_json_close(j, '}');
	j->out->failed |= looks.failed;
}

void mt_error_bytes_json(const struct mt_report *r, const struct mt_error_group *g,
			 struct mt_json *j)
{
	const struct mt_profile_damage *d = g->first->damage;
	char hex[2 * MT_PROFILE_WINDOW + 1];

	if (!d)
		return;
	json_changed(r, g, j);
	if (d->window_bytes) {
		for (uint32_t i = 0; i < d->window_bytes; i++)
			snprintf(hex + (size_t)2 * i, 3, "%02x", d->window[i]);
		mt_json_open(j, "window", '{');
		mt_json_hash(j, "address", d->window_start);
		mt_json_string(j, "hex", hex);
		mt_json_close(j, '}');
	}
	json_neighbour(r, g->p, "block_before", &d->before, j);
	json_neighbour(r, g->p, "block_behind", &d->after, j);
}
