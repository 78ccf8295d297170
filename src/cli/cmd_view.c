/* SPDX-License-Identifier: MIT */
/* memtrack view: native heap dumps, and whatever else tells what is live, as a tree of calls. */

#include "cli/app_symbols.h"
#include "cli/commands.h"
#include "cli/load.h"
#include "cli/output.h"
#include "cli/report_options.h"
#include "cli/view_allocs.h"

#include "analysis/tree.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "core/cc.h"
#include "report/view.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct view_options {
	int format, by;
	bool reverse, verbose, no_symbols, no_cache, debuginfod;
	struct mt_text_list symbol_dirs, app_symbols;
	const char *output;
};

static const struct view_options defaults;

#define BY_CHOICES "callers|callees|function|library|size" /* as enum mt_tree_by */

static const struct mt_option options[] = {
	MT_SYMBOL_OPTION_ENTRIES(struct view_options, ),
	{.name = "app-symbols",
	 .argument = "DIR",
	 .kind = MT_OPTION_LIST,
	 .offset = offsetof(struct view_options, app_symbols),
	 .help = "the same, before --symbols, for the libraries of an application; its packages "
		 "(.apk) are looked for there, too, so that libraries inside of them have names"},
	{.name = "by",
	 .argument = "WHAT",
	 .kind = MT_OPTION_CHOICE,
	 .offset = offsetof(struct view_options, by),
	 .choices = BY_CHOICES,
	 .help = "what the tree is of: callers (from the program's entry inwards, the default), "
		 "callees (from the allocating function outwards), function or library (the same, "
		 "places of one put together), size (of blocks, then as callees)"},
	{.name = "reverse",
	 .kind = MT_OPTION_FLAG,
	 .offset = offsetof(struct view_options, reverse),
	 .help = "the other way round: leaves first for --by=callers"},
	{.name = "html",
	 .kind = MT_OPTION_SET,
	 .offset = offsetof(struct view_options, format),
	 .set_value = MT_VIEW_HTML,
	 .help = "write a page with a tree to fold"},
	{.name = "json",
	 .kind = MT_OPTION_SET,
	 .offset = offsetof(struct view_options, format),
	 .set_value = MT_VIEW_JSON,
	 .help = "write the tree for programs (docs/formats/heapdump.md)"},
	{.letter = 'v',
	 .name = "verbose",
	 .kind = MT_OPTION_FLAG,
	 .offset = offsetof(struct view_options, verbose),
	 .help = "show libraries with their whole path, and list all files without symbols"},
	{.letter = 'o',
	 .name = "output",
	 .argument = "FILE",
	 .kind = MT_OPTION_TEXT,
	 .offset = offsetof(struct view_options, output),
	 .help = "write to FILE instead of standard output"},
	{0},
};

static const char *by_name(int by)
{
	static const char *const names[] = {"callers", "callees", "function", "library", "size"};

	return names[by];
}

static int check_dirs(const struct mt_text_list *dirs, struct mt_err *err)
{
	struct stat st;

	for (uint32_t i = 0; i < dirs->count; i++) {
		if (stat(dirs->text[i], &st))
			return mt_err_set_errno(err, errno, "cannot open the directory '%s'",
						dirs->text[i]);
		if (!S_ISDIR(st.st_mode))
			return mt_err_set(err, -ENOTDIR, "'%s' is not a directory", dirs->text[i]);
	}
	return 0;
}

/* Where symbols are looked for, in order. `product` is for a text that the list refers to. */
static int list_dirs(const struct view_options *o, struct mt_buf *product,
		     struct mt_text_list *ret_dirs, struct mt_err *err)
{
	const char *out = getenv("ANDROID_PRODUCT_OUT");
	int code = check_dirs(&o->app_symbols, err);
	struct stat st;

	if (!code)
		code = check_dirs(&o->symbol_dirs, err);
	if (code)
		return code;
	*ret_dirs = o->app_symbols;
	for (uint32_t i = 0; i < o->symbol_dirs.count; i++) {
		if (ret_dirs->count == MT_ARRAY_LEN(ret_dirs->text))
			return mt_err_set(err, -E2BIG, "too many directories of symbols");
		ret_dirs->text[ret_dirs->count++] = o->symbol_dirs.text[i];
	}
	if (o->symbol_dirs.count || !out || !*out ||
	    ret_dirs->count == MT_ARRAY_LEN(ret_dirs->text))
		return 0;
	if (mt_buf_printf(product, "%s/symbols", out))
		return mt_err_no_memory(err);
	if (!stat(mt_buf_text(product), &st) && S_ISDIR(st.st_mode))
		ret_dirs->text[ret_dirs->count++] = mt_buf_text(product);
	return 0;
}

/* Warnings of all that was read, told or for the page. */
static int take_warnings(const struct mt_loaded *l, const char ***ret_list, uint32_t *ret_count,
			 struct mt_err *err)
{
	uint32_t count = 0;

	for (size_t i = 0; i < l->count; i++)
		count += l->profile[i]->warning_count;
	*ret_list = mt_alloc_zero(count + 1u, sizeof(**ret_list));
	if (!*ret_list)
		return mt_err_no_memory(err);
	*ret_count = 0;
	for (size_t i = 0; i < l->count; i++)
		for (uint32_t k = 0; k < l->profile[i]->warning_count; k++) {
			const char *text = l->profile[i]->warning[k];

			(*ret_list)[(*ret_count)++] = text;
			if (l->count > 1)
				mt_complain("%s: %s", l->path[i], text);
			else
				mt_complain("%s", text);
		}
	return 0;
}

/* What the tree lacks or says inexactly. */
static void tell_gaps(const struct mt_loaded *l, const struct mt_tree *t)
{
	const struct mt_profile *p = l->profile[l->count - 1];

	if (t->is_estimate)
		mt_complain("blocks were sampled: numbers are estimates");
	else if (!p->process_alive && t->sum[MT_TREE_NEW].count < p->live_count)
		mt_complain("%" PRIu64 " of %" PRIu64
			    " live blocks are only counted, and not shown",
			    p->live_count - t->sum[MT_TREE_NEW].count, p->live_count);
}

static int write_view(const struct mt_loaded *l, const struct view_options *o, struct mt_buf *out,
		      struct mt_err *err)
{
	mt_auto(mt_tree) struct mt_tree tree = {0};
	mt_auto(free) const char **warning = NULL;
	size_t now = l->count - 1;
	struct mt_tree_query query = {
		.by = (enum mt_tree_by)o->by, .reverse = o->reverse, .names = &l->names};
	struct mt_view v = {
		.tree = &tree,
		.by = by_name(o->by),
		.reverse = o->reverse,
		.full_paths = o->verbose,
		.name = l->path[now],
		.old_name = now ? l->path[0] : NULL,
	};

	if (take_warnings(l, &warning, &v.warnings, err))
		return err->code;
	v.warning = warning;
	if (mt_tree_make(l->profile[now], now ? l->profile[0] : NULL, &query, &tree))
		return mt_err_no_memory(err);
	tell_gaps(l, &tree);
	return mt_view_write(&v, (enum mt_view_format)o->format, out) ? mt_err_no_memory(err) : 0;
}

/* 1: the one operand is a record_allocs text, which is done; 0; or negative with *err. */
static int view_allocs(const struct view_options *o, const struct mt_operands *operands,
		       struct mt_buf *out, struct mt_err *err)
{
	int r = operands->count != 1
			? 0
			: mt_view_allocs(operands->text[0], o->format == MT_VIEW_JSON, out, err);

	if (r == 1 && o->format == MT_VIEW_HTML)
		return mt_err_set(err, -EINVAL, "'%s' has no stacks: there is no page of it",
				  operands->text[0]);
	return r;
}

static int run(const void *opaque, const struct mt_operands *operands)
{
	const struct view_options *o = opaque;
	mt_auto(mt_loaded) struct mt_loaded loaded = {.prefers_dumps = true};
	mt_auto(mt_buf) struct mt_buf product = {0};
	mt_auto(mt_output) struct mt_output out;
	struct mt_text_list dirs = {.count = 0};
	struct mt_load_symbols symbols = {
		.dirs = &dirs,
		.no_cache = o->no_cache,
		.debuginfod = o->debuginfod,
		.warnings = o->verbose ? MT_LOAD_WARN_ALL : MT_LOAD_WARN_SOME,
	};
	struct mt_err err = {0};
	bool is_allocs;
	int code;

	mt_output_init(&out, o->output);
	mt_load_catch_interrupt();
	code = list_dirs(o, &product, &dirs, &err);
	if (!code)
		code = view_allocs(o, operands, &out.text, &err);
	is_allocs = code == 1;
	if (!code)
		code = mt_loaded_add_sides(&loaded, operands, &err);
	for (size_t i = 0; i < loaded.count && !code; i++)
		if (mt_app_symbols_open_packages((struct mt_profile *)loaded.profile[i], &dirs))
			code = mt_err_no_memory(&err);
	if (!code && !o->no_symbols)
		code = mt_loaded_symbolize(&loaded, &symbols, &err);
	if (!code)
		code = write_view(&loaded, o, &out.text, &err);
	if (!code || is_allocs)
		code = mt_output_finish(&out, &err);
	if (code)
		mt_complain("%s", err.text);
	return code ? MT_EXIT_FAILED : MT_EXIT_OK;
}

static const char *const examples[] = {
	"memtrack view backtrace_heap.4711.txt",
	"the whole tree, from the program's entry inwards",
	"memtrack view heap.txt --symbols=~/unstripped --by=function | less -S",
	"allocating functions and who calls them; symbol files lie flat in one directory",
	"memtrack view before.txt after.txt --by=callees",
	"what grew between two dumps",
	"memtrack view heap.txt --html -o heap.html",
	"a page to look at in a browser, and to send to somebody",
	"memtrack view record_allocs.txt",
	"sums of the calls that malloc debug recorded",
	NULL,
};

const struct mt_command mt_cmd_view = {
	.name = "view",
	.summary = "show a native heap dump as a tree of calls",
	.operands = "[OLD] DUMP",
	.operands_min = 1,
	.operands_max = 2,
	.options = options,
	.options_bytes = sizeof(struct view_options),
	.defaults = &defaults,
	.description =
		"Shows what an Android Native Heap Dump holds, as Android's "
		"native_heapdump_viewer did: BYTES, what part this is of all (%TOTAL) and of "
		"the row above (%PARENT), how many blocks (COUNT), then the place: address, "
		"library, function, file and line. Each row is part of the row above it that "
		"stands further to the left. Rows of a place that is not the same for all of it "
		"have '-' for the address; what is not known is three question marks. Blocks "
		"whose stack is not known have a row of their own. Blocks of Android's zygote "
		"and of the application are told apart when both are there.\n\n"
		"With two dumps rows show what changed: bytes more or less, bytes before and "
		"now, blocks more or less; what did not change is left out. Places are compared "
		"by library and offset in it, so addresses may differ; for two builds of a "
		"program use --by=function.\n\n"
		"Dumps are read in versions 1.0 to 1.2, also without their header, cut, or with "
		"lines that do not belong to them: what was left out is told on standard error. "
		"A dump may be a state file of memtrack, a PID, name:PROGRAM or FILE@WHICH (a "
		"snapshot) as well, or a pipe.\n\n"
		"A file that Android's option record_allocs wrote, or memtrack's check mode or "
		"export --format=record_allocs, has no stacks: of it the sums are shown, calls "
		"by kind with their times, and what was live in the end and at the peak.\n\n"
		"Names are looked for in the directories of --app-symbols and --symbols "
		"(without one in $ANDROID_PRODUCT_OUT/symbols), then in the file of that path "
		"on this machine, then where debug files are usually kept. A directory may "
		"mirror the device's (DIR/system/lib/libc.so), hold files by build-id "
		"(DIR/.build-id), or all of them side by side (DIR/libc.so). Inlined functions "
		"have rows of their own. Names that the dump itself tells (bt_info) are used "
		"where no file does. An option that is not known is an error: nothing is shown.",
	.examples = examples,
	.see_also = "memtrack(1), memtrack-report(1), memtrack-export(1), memtrack-diff(1)",
	.run = run,
};
