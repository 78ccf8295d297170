/* SPDX-License-Identifier: MIT */
/*
 * One page, without scripts and without anything from elsewhere. A row with children is a <details>
 * element in that of its parent, so that browsers fold the tree by themselves and nest no deeper
 * than calls do. An only child begins unfolded: a long chain opens with one click.
 */
#include "report/view.h"

#include <inttypes.h>

#include "base/escape.h"
#include "base/units.h"
#include "core/cc.h"

struct page {
	const struct mt_view *v;
	struct mt_buf *out;
	const struct mt_tree_node *root;
};

static const char style[] =
	"body{font:13px/1.5 monospace;margin:1em;color:#222;background:#fff}\n"
	"details,p{margin:0 0 0 1.2em;white-space:pre}\n"
	"details>summary{cursor:pointer;margin-left:-1.2em}\n"
	"summary:hover,p:hover{background:#eef}\n"
	"b{font-weight:normal;display:inline-block;text-align:right;width:7em}\n"
	"i{font-style:normal;color:#777}\n"
	".w{color:#a40}\n"
	"@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}"
	"summary:hover,p:hover{background:#334}.w{color:#fa4}}\n";

/* First what could act on the reader's side, then what means something to HTML. */
static void add_text(struct mt_buf *out, const char *text)
{
	mt_auto(mt_buf) struct mt_buf clean = {0};

	mt_escape(&clean, text);
	for (const char *c = mt_buf_text(&clean); *c; c++) {
		switch (*c) {
		case '&':
			mt_buf_adds(out, "&amp;");
			break;
		case '<':
			mt_buf_adds(out, "&lt;");
			break;
		case '>':
			mt_buf_adds(out, "&gt;");
			break;
		case '"':
			mt_buf_adds(out, "&quot;");
			break;
		case '\'':
			mt_buf_adds(out, "&#39;");
			break;
		default:
			mt_buf_addc(out, *c);
		}
	}
	out->failed |= clean.failed;
}

static void add_numbers(const struct page *g, const struct mt_tree_node *n)
{
	const struct mt_tree_sum *now = &n->sum[MT_TREE_NEW], *old = &n->sum[MT_TREE_OLD];
	char bytes[MT_UNITS_TEXT_MAX], count[MT_UNITS_TEXT_MAX];

	if (g->v->tree->has_old)
		mt_buf_printf(g->out, "<b>%s</b><b>%s</b> ",
			      mt_units_count_signed(mt_view_growth(now->bytes, old->bytes), bytes),
			      mt_units_count_signed(mt_view_growth(now->count, old->count), count));
	else
		mt_buf_printf(g->out, "<b>%s</b><b>%.2f%%</b><b>%s</b> ",
			      mt_units_count(now->bytes, bytes),
			      mt_view_percent(now->bytes, g->root->sum[MT_TREE_NEW].bytes),
			      mt_units_count(now->count, count));
}

static void add_frame(const struct page *g, const struct mt_tree_node *n)
{
	mt_auto(mt_buf) struct mt_buf place = {0};

	mt_buf_adds(g->out, "<i>");
	add_text(g->out, mt_view_library(g->v, n));
	mt_buf_adds(g->out, "</i> ");
	add_text(g->out, mt_view_function(n));
	mt_buf_adds(g->out, " <i>");
	mt_view_location(n, &place);
	add_text(g->out, mt_buf_text(&place));
	mt_buf_adds(g->out, "</i>");
	g->out->failed |= place.failed;
}

static void add_label(const struct page *g, const struct mt_tree_node *n)
{
	char size[MT_UNITS_TEXT_MAX];

	add_numbers(g, n);
	switch (n->kind) {
	case MT_TREE_ROOT:
		mt_buf_adds(g->out, *n->root ? n->root : "TOTAL");
		break;
	case MT_TREE_LIBRARY_ROW:
		add_text(g->out, mt_view_library(g->v, n));
		break;
	case MT_TREE_SIZE_ROW:
		mt_buf_printf(g->out, "blocks of %s B", mt_units_count(n->size, size));
		break;
	case MT_TREE_NO_STACK:
		mt_buf_adds(g->out, "(no call stack)");
		break;
	default:
		add_frame(g, n);
	}
}

static bool is_open(const struct page *g, const struct mt_tree_node *n)
{
	return n->kind == MT_TREE_ROOT || g->v->tree->node[n->parent].count == 1;
}

static void enter(void *context, const struct mt_tree_node *n)
{
	const struct page *g = context;

	if (!n->count)
		mt_buf_adds(g->out, "<p>");
	else
		mt_buf_printf(g->out, "<details%s><summary>", is_open(g, n) ? " open" : "");
	add_label(g, n);
	mt_buf_adds(g->out, n->count ? "</summary>\n" : "</p>\n");
}

static void leave(void *context, const struct mt_tree_node *n)
{
	const struct page *g = context;

	if (n->count)
		mt_buf_adds(g->out, "</details>\n");
}

static void add_head(const struct mt_view *v, struct mt_buf *out)
{
	mt_buf_adds(out,
		    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<title>");
	add_text(out, mt_names_base(v->name));
	mt_buf_printf(out, " - Native allocation HTML viewer</title>\n<style>\n%s</style></head>\n",
		      style);
	mt_buf_adds(out, "<body>\n<h1>Native allocation HTML viewer</h1>\n<div>");
	if (v->old_name) {
		add_text(out, v->old_name);
		mt_buf_adds(out, " to ");
	}
	add_text(out, v->name);
	mt_buf_adds(out, "</div>\n");
	for (uint32_t i = 0; i < v->warnings; i++) {
		mt_buf_adds(out, "<div class=\"w\">");
		add_text(out, v->warning[i]);
		mt_buf_adds(out, "</div>\n");
	}
	mt_buf_printf(out,
		      "<div>Click on a line to unfold or fold what is below it. Columns: %s, "
		      "library, function, location.</div>\n",
		      v->tree->has_old ? "growth in bytes, growth in blocks"
				       : "bytes, share, blocks");
}

void mt_view_html(const struct mt_view *v, struct mt_buf *out)
{
	struct page g = {.v = v, .out = out};

	add_head(v, out);
	for (uint32_t i = 0; i < v->tree->roots; i++) {
		g.root = &v->tree->node[i];
		mt_view_walk(v->tree, i, enter, leave, &g);
	}
	mt_buf_adds(out, "</body></html>\n");
}
