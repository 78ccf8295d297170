/* SPDX-License-Identifier: MIT */
/* memtrack allocators: what the allocator of any process, or of a core file, holds. */

#include "cli/any_process.h"
#include "cli/commands.h"
#include "cli/output.h"

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
	const char *output;
};

static const struct allocators_options defaults;

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

static int open_image(const struct allocators_options *o, const char *operand,
		      struct mt_image **ret_image, struct mt_err *err)
{
	pid_t pid;
	int code = mt_any_process(operand, &pid, err);

	if (code < 0)
		return code;
	if (!code)
		return mt_image_open_core(operand, ret_image, err);
	return mt_image_open_process(pid, source_wanted(o), ret_image, err);
}

static int write_blocks(const struct mt_heap *h, struct mt_buf *out)
{
	for (size_t i = 0; i < h->block_count; i++)
		mt_buf_printf(out, "0x%" PRIx64 " %" PRIu64 "\n", h->blocks[i].address,
			      h->blocks[i].bytes);
	return out->failed ? -ENOMEM : 0;
}

static int write_heap(struct mt_image *im, const struct allocators_options *o, struct mt_buf *out,
		      struct mt_err *err)
{
	const struct mt_image_facts *facts = mt_image_facts(im);
	mt_auto(mt_heap) struct mt_heap h = {0};
	int code = mt_heap_read(im, &h, err);

	if (code)
		return code;
	if (o->lists)
		code = write_blocks(&h, out);
	else if (o->is_json)
		code = mt_allocators_json(&h, facts, out);
	else
		code = mt_allocators_text(&h, facts, out);
	return code ? mt_err_no_memory(err) : 0;
}

static int run(const void *opaque, const struct mt_operands *operands)
{
	const struct allocators_options *o = opaque;
	struct mt_image *im = NULL;
	mt_auto(mt_output) struct mt_output out;
	struct mt_err err = {0};
	int code;

	mt_output_init(&out, o->output);
	code = open_image(o, operands->text[0], &im, &err);
	if (!code && err.text[0])
		mt_complain("%s", err.text);
	if (!code)
		code = write_heap(im, o, &out.text, &err);
	mt_image_close(im);
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
		"Reads the heap of a process, tracked or not, or of a core file, as its allocator "
		"keeps it: what it holds of the system's memory, what of it is live in how many "
		"blocks, and where the rest is. free: between live blocks, to be given again; "
		"cached: the same in caches of threads, for these alone; end: never given yet, at "
		"the end of an arena; of them mapped: live blocks with a mapping of their own. "
		"Blocks count with their usable bytes.\n\n"
		"The process is copied as fork does it, which takes as long, and runs on; where "
		"that cannot be done it is read while it stands still. The output says which.\n\n"
		"Known are the allocators of glibc 2.27 to 2.41 and of musl since 1.2.1, "
		"jemalloc 5.3.0, and mimalloc 2.0.9. No debug information is needed: structures "
		"are found by what always holds for them. Another allocator is named, and refused. What does not "
		"agree in a heap is listed with its address, and what could not be read because "
		"of it is counted.",
	.examples = examples,
	.see_also = "memtrack(1), memtrack-maps(1), memtrack-report(1)",
	.run = run,
};
