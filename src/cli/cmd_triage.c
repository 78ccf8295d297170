/* SPDX-License-Identifier: MIT */
/* memtrack triage: watches a process for a while and says what is wrong with its memory. */

#include "cli/any_process.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/triage.h"

#include "report/triage.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

struct triage_options {
	uint64_t for_ns;
	bool no_stop, no_symbols;
	int is_json;
	const char *output;
};

static const struct triage_options defaults = {.for_ns = 5000000000};

static const struct mt_option options[] = {
	{.name = "for",
	 .argument = "TIME",
	 .kind = MT_OPTION_TIME,
	 .offset = offsetof(struct triage_options, for_ns),
	 .min = 100000000,
	 .least = "100ms",
	 .help = "how long to watch (default 5s): slow growth needs more"},
	{.name = "no-stop",
	 .kind = MT_OPTION_FLAG,
	 .offset = offsetof(struct triage_options, no_stop),
	 .help = "never let the process stand still: the allocator is not asked, and lost blocks "
		 "are not looked for"},
	{.name = "no-symbols",
	 .kind = MT_OPTION_FLAG,
	 .offset = offsetof(struct triage_options, no_symbols),
	 .help = "name call sites by module and offset only"},
	{.name = "json",
	 .kind = MT_OPTION_SET,
	 .offset = offsetof(struct triage_options, is_json),
	 .set_value = 1,
	 .help = "write for programs (docs/triage.md)"},
	{.letter = 'o',
	 .name = "output",
	 .argument = "FILE",
	 .kind = MT_OPTION_TEXT,
	 .offset = offsetof(struct triage_options, output),
	 .help = "write to FILE instead of standard output"},
	{0},
};

static int triage(const struct triage_options *o, const char *operand, struct mt_buf *out,
		  struct mt_err *err)
{
	mt_auto(free) struct mt_triage_facts *facts = calloc(1, sizeof(*facts));
	struct mt_triage_watch w = {
		.for_ns = o->for_ns, .no_stop = o->no_stop, .no_symbols = o->no_symbols};
	int code = mt_any_process(operand, &w.pid, err);

	if (!code)
		code = mt_err_set(err, -EINVAL,
				  "'%s' is no process: it takes a PID or name:PROGRAM", operand);
	if (code < 0)
		return code;
	if (!facts)
		return mt_err_no_memory(err);
	code = mt_triage_gather(&w, facts, err);
	if (code)
		return code;
	return (o->is_json ? mt_triage_json : mt_triage_text)(facts, out) ? mt_err_no_memory(err)
									  : 0;
}

static int run(const void *opaque, const struct mt_operands *operands)
{
	const struct triage_options *o = opaque;
	mt_auto(mt_output) struct mt_output out;
	struct mt_err err = {0};
	int code;

	mt_output_init(&out, o->output);
	code = triage(o, operands->text[0], &out.text, &err);
	return mt_output_end(&out, code, &err);
}

static const char *const examples[] = {
	"memtrack triage 4711",
	"what is wrong with the memory of process 4711, and what to do next",
	"memtrack triage name:server --for=2m",
	"the same over two minutes, for slow growth",
	"memtrack triage 4711 --no-stop --json",
	"only what needs no look inside, for programs",
	NULL,
};

const struct mt_command mt_cmd_triage = {
	.name = "triage",
	.summary = "watch any process for a while and say what is wrong with its memory",
	.operands = "PID|name:PROGRAM",
	.operands_min = 1,
	.operands_max = 1,
	.options = options,
	.options_bytes = sizeof(struct triage_options),
	.defaults = &defaults,
	.description =
		"Walks the usual way to the cause of high or growing memory by itself: which part "
		"of it grows; which mapping, thread or descriptor; what the allocator says (live "
		"or only held); whose call stacks, if the process is tracked; whether blocks are "
		"lost; damage, and limits of the kernel. Each step's evidence is a line or two, "
		"then comes one sentence, and the command to go on with.\n\n"
		"The process need not be tracked, and nothing in it is changed. The allocator is "
		"only asked, and lost blocks are only looked for, when the heap or memory of "
		"unknown use grows, or much of the process is heap: that takes a copy, twice, and "
		"the process stands still while each is made; the output says for how long.\n\n"
		"Growth is what came into memory or swap between the first and the last of five "
		"readings (three of a process that is slow to read). Less than 128 KiB, or a 256th "
		"of the process, counts as none: --for gives slow growth the time to show. A step "
		"that cannot be done says why, and the verdict then says what it does not know.",
	.examples = examples,
	.see_also = "memtrack(1), memtrack-meminfo(1), memtrack-maps(1), memtrack-allocators(1), "
		    "memtrack-leaks(1), memtrack-report(1)",
	.run = run,
};
