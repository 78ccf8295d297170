/* SPDX-License-Identifier: MIT */
/*
 * The tree in pre-order. Text has the columns of Android's native_heapdump_viewer, JSON a flat list
 * of nodes with their depth, which readers can take in as a stream however deep it is.
 */
#include "report/view.h"

#include <errno.h>
#include <inttypes.h>

#include "base/escape.h"
#include "base/units.h"
#include "core/cc.h"
#include "report/json.h"

const char *mt_view_library(const struct mt_view *v, const struct mt_tree_node *n)
{
	if (!n->library)
		return "???";
	return v->full_paths ? n->library : mt_names_base(n->library);
}

const char *mt_view_function(const struct mt_tree_node *n)
{
	return n->function ? n->function : "???";
}

void mt_view_location(const struct mt_tree_node *n, struct mt_buf *out)
{
	mt_buf_adds(out, n->file ? n->file : "???");
	if (n->file && n->line)
		mt_buf_printf(out, ":%" PRIu32, n->line);
	if (n->is_inlined)
		mt_buf_adds(out, " [inlined]");
}

/* ---- text ---- */

double mt_view_percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

int64_t mt_view_growth(uint64_t now, uint64_t before)
{
	uint64_t most = INT64_MAX;

	return now >= before ? (int64_t)MT_MIN(now - before, most)
			     : -(int64_t)MT_MIN(before - now, most);
}

static void add_numbers(const struct mt_view *v, const struct mt_tree_node *n,
			const struct mt_tree_sum *root, const struct mt_tree_sum *parent,
			struct mt_buf *out)
{
	const struct mt_tree_sum *now = &n->sum[MT_TREE_NEW], *old = &n->sum[MT_TREE_OLD];

	if (v->tree->has_old)
		mt_buf_printf(out, "%+10" PRId64 " %10" PRIu64 " %10" PRIu64 " %+8" PRId64 " ",
			      mt_view_growth(now->bytes, old->bytes), old->bytes, now->bytes,
			      mt_view_growth(now->count, old->count));
	else
		mt_buf_printf(out, "%9" PRIu64 " %6.2f%% %6.2f%% %8" PRIu64 " ", now->bytes,
			      mt_view_percent(now->bytes, root->bytes),
			      mt_view_percent(now->bytes, parent->bytes), now->count);
	mt_buf_pad(out, ' ', 2 * (size_t)n->depth);
}

static void add_frame(const struct mt_view *v, const struct mt_tree_node *n, struct mt_buf *out)
{
	mt_auto(mt_buf) struct mt_buf place = {0};

	if (n->address)
		mt_buf_printf(out, "%" PRIx64 " ", n->address);
	else
		mt_buf_adds(out, "- ");
	mt_escape(out, mt_view_library(v, n));
	mt_buf_addc(out, ' ');
	mt_escape(out, mt_view_function(n));
	mt_buf_addc(out, ' ');
	mt_view_location(n, &place);
	mt_escape(out, mt_buf_text(&place));
	out->failed |= place.failed;
}

static void add_label(const struct mt_view *v, const struct mt_tree_node *n, struct mt_buf *out)
{
	char size[MT_UNITS_TEXT_MAX];

	switch (n->kind) {
	case MT_TREE_ROOT:
		mt_buf_adds(out, *n->root ? n->root : "TOTAL");
		break;
	case MT_TREE_LIBRARY_ROW:
		mt_escape(out, mt_view_library(v, n));
		break;
	case MT_TREE_SIZE_ROW:
		mt_buf_printf(out, "blocks of %s B", mt_units_count(n->size, size));
		break;
	case MT_TREE_NO_STACK:
		mt_buf_adds(out, "(no call stack)");
		break;
	default:
		add_frame(v, n, out);
	}
	mt_buf_addc(out, '\n');
}

struct walk {
	const struct mt_view *v;
	struct mt_buf *out;
	struct mt_json json;
	const struct mt_tree_node *root;
};

static void write_row(void *context, const struct mt_tree_node *n)
{
	struct walk *w = context;
	const struct mt_tree *t = w->v->tree;
	const struct mt_tree_sum *parent =
		n->depth ? &t->node[n->parent].sum[MT_TREE_NEW] : &t->sum[MT_TREE_NEW];

	add_numbers(w->v, n, &w->root->sum[MT_TREE_NEW], parent, w->out);
	add_label(w->v, n, w->out);
}

void mt_view_walk(const struct mt_tree *t, uint32_t root,
		  void (*enter)(void *context, const struct mt_tree_node *n),
		  void (*leave)(void *context, const struct mt_tree_node *n), void *context)
{
	uint32_t at = root, next = 0; /* next: rank of the child of `at` that comes next */

	enter(context, &t->node[root]);
	for (;;) {
		const struct mt_tree_node *n = &t->node[at];

		if (next < n->count) {
			at = t->order[n->first + next];
			next = 0;
			enter(context, &t->node[at]);
			continue;
		}
		if (leave)
			leave(context, n);
		if (at == root)
			return;
		next = n->rank + 1;
		at = n->parent;
	}
}

static void write_text(const struct mt_view *v, struct mt_buf *out)
{
	struct walk w = {.v = v, .out = out};

	if (v->tree->has_old)
		mt_buf_printf(out, "%10s %10s %10s %8s    %s %s %s %s\n", "GROWTH", "OLD", "NEW",
			      "COUNT", "ADDR", "LIBRARY", "FUNCTION", "LOCATION");
	else
		mt_buf_printf(out, "%9s %6s %6s %8s    %s %s %s %s\n", "BYTES", "%TOTAL", "%PARENT",
			      "COUNT", "ADDR", "LIBRARY", "FUNCTION", "LOCATION");
	for (uint32_t i = 0; i < v->tree->roots; i++) {
		if (i)
			mt_buf_addc(out, '\n');
		w.root = &v->tree->node[i];
		mt_view_walk(v->tree, i, write_row, NULL, &w);
	}
}

/* ---- JSON ---- */

static void add_sums(struct walk *w, const struct mt_tree_sum *sum)
{
	mt_json_u64(&w->json, "bytes", sum[MT_TREE_NEW].bytes);
	mt_json_u64(&w->json, "count", sum[MT_TREE_NEW].count);
	if (!w->v->tree->has_old)
		return;
	mt_json_u64(&w->json, "old_bytes", sum[MT_TREE_OLD].bytes);
	mt_json_u64(&w->json, "old_count", sum[MT_TREE_OLD].count);
}

static void add_text(struct mt_json *j, const char *name, const char *text)
{
	if (text)
		mt_json_string(j, name, text);
}

static void add_address(struct mt_json *j, uint64_t address)
{
	char text[32];

	snprintf(text, sizeof(text), "0x%" PRIx64, address);
	if (address)
		mt_json_string(j, "address", text);
}

static void write_node(void *context, const struct mt_tree_node *n)
{
	static const char *const kinds[] = {
		[MT_TREE_ROOT] = "root",           [MT_TREE_FRAME] = "frame",
		[MT_TREE_LIBRARY_ROW] = "library", [MT_TREE_SIZE_ROW] = "size",
		[MT_TREE_NO_STACK] = "no_stack",
	};

	struct walk *w = context;

	mt_json_open(&w->json, NULL, '{');
	mt_json_u64(&w->json, "depth", n->depth);
	mt_json_string(&w->json, "kind", kinds[n->kind]);
	add_sums(w, n->sum);
	add_text(&w->json, "name", n->kind == MT_TREE_ROOT && *n->root ? n->root : NULL);
	if (n->kind == MT_TREE_SIZE_ROW)
		mt_json_u64(&w->json, "size", n->size);
	add_address(&w->json, n->address);
	add_text(&w->json, "library", n->library);
	add_text(&w->json, "function", n->function);
	add_text(&w->json, "file", n->file);
	if (n->file && n->line)
		mt_json_u64(&w->json, "line", n->line);
	if (n->is_inlined)
		mt_json_bool(&w->json, "inlined", true);
	mt_json_close(&w->json, '}');
}

static void write_json(const struct mt_view *v, struct mt_buf *out)
{
	struct walk w = {.v = v, .out = out, .json = {.out = out}};

	mt_json_open(&w.json, NULL, '{');
	mt_json_u64(&w.json, "version", 1);
	mt_json_string(&w.json, "file", v->name);
	add_text(&w.json, "old_file", v->old_name);
	mt_json_string(&w.json, "by", v->by);
	mt_json_bool(&w.json, "reverse", v->reverse);
	mt_json_bool(&w.json, "estimate", v->tree->is_estimate);
	mt_json_open(&w.json, "warnings", '[');
	for (uint32_t i = 0; i < v->warnings; i++)
		mt_json_string(&w.json, NULL, v->warning[i]);
	mt_json_close(&w.json, ']');
	add_sums(&w, v->tree->sum);
	mt_json_open(&w.json, "nodes", '[');
	for (uint32_t i = 0; i < v->tree->roots; i++)
		mt_view_walk(v->tree, i, write_node, NULL, &w);
	mt_json_close(&w.json, ']');
	mt_json_close(&w.json, '}');
	mt_buf_addc(out, '\n');
}

int mt_view_write(const struct mt_view *v, enum mt_view_format format, struct mt_buf *out)
{
	if (format == MT_VIEW_HTML)
		mt_view_html(v, out);
	else if (format == MT_VIEW_JSON)
		write_json(v, out);
	else
		write_text(v, out);
	return out->failed ? -ENOMEM : 0;
}
