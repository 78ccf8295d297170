/* SPDX-License-Identifier: MIT */
/* memtrack allocators: what the allocator of any process, or of a core file, holds. */

#include "cli/any_process.h"
#include "cli/commands.h"
#include "cli/find.h"
#include "cli/load.h"
#include "cli/output.h"
#include "cli/report_options.h"
#include "cli/tracked_blocks.h"

#include "base/alloc.h"
#include "formats/mtk_read.h"
#include "heap/heap.h"
#include "report/allocators.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct allocators_options {
	int is_json;
	bool stops, lives, lists;
	bool no_symbols, no_cache, debuginfod, verbose;
	uint64_t top, stack;
	struct mt_text_list symbol_dirs;
	const char *output;
};

static const struct allocators_options defaults = {.top = UINT64_MAX, .stack = UINT64_MAX};
enum { TOP_DEFAULT = 5 };

static const struct mt_option options[] = {
	{.name = "stop",
	 .kind = MT_OPTION_FLAG,
	 .offset = offsetof(struct allocators_options, stops),
	 .help = "let the process stand still while it is read, instead of reading a copy"},
	{.name = "live",
	 .kind = MT_OPTION_FLAG,
	 .offset = offsetof(struct allocators_options, lives),
	 .help = "do not stop it at all: what it changes meanwhile may look like damage"},
	{.name = "json",
	 .kind = MT_OPTION_SET,
	 .offset = offsetof(struct allocators_options, is_json),
	 .set_value = 1,
	 .help = "write for programs (docs/heaps.md)"},
	{.name = "blocks",
	 .kind = MT_OPTION_FLAG,
	 .offset = offsetof(struct allocators_options, lists),
	 .help = "write the live blocks instead, one a line: address and usable bytes"},
	{.name = "top",
	 .argument = "N",
	 .kind = MT_OPTION_NUMBER,
	 .offset = offsetof(struct allocators_options, top),
	 .max = 1000000000,
	 .help = "call sites to list whose blocks keep pages; 0 lists all (default 5)"},
	{.name = "stack",
	 .argument = "N",
	 .kind = MT_OPTION_NUMBER,
	 .offset = offsetof(struct allocators_options, stack),
	 .max = MT_REPORT_STACK_MAX,
	 .help = "frames of each call stack to show (default 16 in text, all in JSON)"},
	MT_SYMBOL_OPTION_ENTRIES(struct allocators_options, ),
	{.letter = 'v',
	 .name = "verbose",
	 .kind = MT_OPTION_FLAG,
	 .offset = offsetof(struct allocators_options, verbose),
	 .help = "list all files whose symbols cannot be used"},
	{.letter = 'o',
	 .name = "output",
	 .argument = "FILE",
	 .kind = MT_OPTION_TEXT,
	 .offset = offsetof(struct allocators_options, output),
	 .help = "write to FILE instead of standard output"},
	{0},
};

static enum mt_image_source source_wanted(const struct allocators_options *o)
{
	if (o->lives)
		return MT_IMAGE_LIVE;
	return o->stops ? MT_IMAGE_STOPPED : MT_IMAGE_COPY;
}

/* What the tracker knows of the blocks. All-zero: the process is not tracked. */
struct tracked {
	struct mt_profile *before;    /* owned */
	struct mt_loaded loaded;      /* one profile, or none */
	struct mt_heap_owner *owners; /* owned; by address */
	size_t owner_count;
	bool is_table;
};

static void tracked_done(struct tracked *t)
{
	mt_profile_free(t->before);
	mt_loaded_done(&t->loaded);
	free(t->owners);
}
MT_AUTO_DEFINE_INPLACE(tracked, struct tracked, tracked_done)

static int take_owners(struct tracked *t, const struct mt_profile *after)
{
	size_t count;
	mt_auto(free) struct mt_known *known = mt_tracked_blocks(t->before, after, &count);

	if (!known)
		return -ENOMEM;
	t->owners = mt_alloc_zero(count, sizeof(*t->owners));
	if (!t->owners)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		t->owners[i] = (struct mt_heap_owner){known[i].address, known[i].stack};
	t->owner_count = count;
	return 0;
}

static int read_after(struct tracked *t, const char *state, struct mt_err *err)
{
	struct mt_profile *after = NULL;
	int code = mt_mtk_read_addresses(state, &after, err);

	if (code)
		return code;
	t->is_table = mt_tracked_is_table(after);
	if (mt_loaded_take(&t->loaded, after) || (t->is_table && take_owners(t, after)))
		return mt_err_no_memory(err);
	return 0;
}

/* The image of a process, between two readings of what the tracker knows of it. */
static int open_process(const struct allocators_options *o, pid_t pid, struct mt_image **ret_image,
			struct tracked *t, struct mt_err *err)
{
	mt_auto(free) char *state = NULL;
	struct mt_err why = {0};
	int code = o->lists || o->lives ? 0 : mt_live_state_of(pid, &state, &why);

	if (!code && state)
		code = mt_mtk_read_addresses(state, &t->before, &why);
	if (code == -ENOMEM)
		return mt_err_no_memory(err);
	if (code)
		mt_complain("call sites are not told: %s", why.text);
	int opened = mt_image_open_process(pid, source_wanted(o), ret_image, err);

	if (opened || code || !state)
		return opened;
	code = read_after(t, state, &why);
	if (code == -ENOMEM)
		return mt_err_no_memory(err);
	if (code)
		mt_complain("call sites are not told: %s", why.text);
	return 0;
}

static int open_image(const struct allocators_options *o, const char *operand,
		      struct mt_image **ret_image, struct tracked *t, struct mt_err *err)
{
	pid_t pid;
	int code = mt_any_process(operand, &pid, err);

	if (code < 0)
		return code;
	return code ? open_process(o, pid, ret_image, t, err)
		    : mt_image_open_core(operand, ret_image, err);
}

static int write_blocks(const struct mt_heap *h, struct mt_buf *out)
{
	for (size_t i = 0; i < h->block_count; i++)
		mt_buf_printf(out, "0x%" PRIx64 " %" PRIu64 "\n", h->blocks[i].address,
			      h->blocks[i].bytes);
	return out->failed ? -ENOMEM : 0;
}

static int name_sites(struct tracked *t, const struct allocators_options *o,
		      struct mt_report *ret_sites, struct mt_err *err)
{
	struct mt_load_symbols symbols = {
		.dirs = &o->symbol_dirs,
		.no_cache = o->no_cache,
		.debuginfod = o->debuginfod,
		.warnings = o->verbose ? MT_LOAD_WARN_ALL : MT_LOAD_WARN_SOME,
	};
	int code = o->no_symbols ? 0 : mt_loaded_symbolize(&t->loaded, &symbols, err);

	*ret_sites = (struct mt_report){
		.profiles = t->loaded.profile,
		.profile_count = 1,
		.stack = o->stack != UINT64_MAX ? (uint32_t)o->stack
			 : o->is_json           ? MT_REPORT_STACK_MAX
						: MT_REPORT_STACK_DEFAULT,
		.color = !o->is_json && !o->output && mt_load_is_color(stdout),
		.names = &t->loaded.names,
	};
	return code;
}

/* The image is not needed for it any more: a process that stood still goes on. */
static int write_report(const struct mt_heap *h, const struct mt_image_facts *facts,
			struct tracked *t, const struct allocators_options *o, struct mt_buf *out,
			struct mt_err *err)
{
	mt_auto(mt_heap_pinned) struct mt_heap_pinned pinned = {0};
	struct mt_report sites;
	struct mt_allocators_report r = {
		.heap = h,
		.facts = facts,
		.pinned = &pinned,
		.is_partly_recorded = t->loaded.count && !t->is_table,
		.top = o->top != UINT64_MAX ? o->top : TOP_DEFAULT,
	};
	int code;

	if (mt_heap_pinned_find(h, facts->page_bytes, t->owners, t->owner_count, &pinned))
		return mt_err_no_memory(err);
	if (t->is_table && pinned.page_bytes) {
		code = name_sites(t, o, &sites, err);
		if (code)
			return code;
		r.sites = &sites;
	}
	code = o->is_json ? mt_allocators_json(&r, out) : mt_allocators_text(&r, out);
	return code ? mt_err_no_memory(err) : 0;
}

static int read_and_write(const struct allocators_options *o, const char *operand,
			  struct mt_buf *out, struct mt_err *err)
{
	mt_auto(tracked) struct tracked t = {0};
	mt_auto(mt_heap) struct mt_heap h = {0};
	struct mt_image *im = NULL;
	int code = open_image(o, operand, &im, &t, err);

	if (!code && err->text[0])
		mt_complain("%s", err->text);
	if (!code)
		code = mt_heap_read(im, &h, err);
	if (!code && o->lists)
		code = write_blocks(&h, out) ? mt_err_no_memory(err) : 0;
	else if (!code)
		code = write_report(&h, mt_image_facts(im), &t, o, out, err);
	mt_image_close(im);
	return code;
}

static int run(const void *opaque, const struct mt_operands *operands)
{
	const struct allocators_options *o = opaque;
	mt_auto(mt_output) struct mt_output out;
	struct mt_err err = {0};
	int code;

	mt_output_init(&out, o->output);
	code = read_and_write(o, operands->text[0], &out.text, &err);
	return mt_output_end(&out, code, &err);
}

static const char *const examples[] = {
	"memtrack allocators 4711",
	"what the allocator of process 4711 holds, and why",
	"memtrack allocators name:nginx",
	"the same of the one process of this name",
	"memtrack allocators core.4711 --json",
	"of a core file, for programs",
	NULL,
};

const struct mt_command mt_cmd_allocators = {
	.name = "allocators",
	.summary = "show what the allocator of any process holds",
	.operands = "PID|name:PROGRAM|CORE",
	.operands_min = 1,
	.operands_max = 1,
	.options = options,
	.options_bytes = sizeof(struct allocators_options),
	.defaults = &defaults,
	.description =
		"Reads the heap of a process, tracked or not, or of a core file, as its "
		"allocator keeps it: what it holds of the system's memory, what of it is live "
		"in how many blocks, and where the rest is. free: between live blocks, to be "
		"given again; cached: the same in caches of threads, for these alone; end: "
		"never given yet, at the end of an arena; of them mapped: live blocks with a "
		"mapping of their own. Blocks count with their usable bytes.\n\n"
		"The process is copied as fork does it, which takes as long, and runs on; "
		"where that cannot be done it is read while it stands still. The output says "
		"which.\n\n"
		"Pages at most half of which is live are counted: they cannot be given back. "
		"Of a process whose every allocation is recorded the call sites are told "
		"whose live blocks keep most of these pages.\n\n"
		"Known are the allocators of glibc 2.27 to 2.41 and of musl since 1.2.1, "
		"jemalloc 5.3.0, mimalloc 2.0.9, gperftools' tcmalloc 2.10 and scudo of "
		"LLVM 14. No debug information is needed: structures are found by what always "
		"holds for them. Another allocator is named, and refused. What does not agree "
		"in a heap is listed with its address, and what could not be read because of it "
		"is counted.",
	.examples = examples,
	.see_also = "memtrack(1), memtrack-maps(1), memtrack-report(1)",
	.run = run,
};
