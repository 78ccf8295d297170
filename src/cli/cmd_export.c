/* SPDX-License-Identifier: MIT */
/* memtrack export: what was recorded, for other programs. */

#include "cli/commands.h"
#include "cli/load.h"
#include "cli/output.h"

#include "core/cc.h"
#include "formats/mtr_activity.h"
#include "formats/mtr_events.h"
#include "formats/record_allocs.h"

#include <errno.h>

struct export_options {
	int format; /* -1: not given */
	uint64_t step_ns;
	const char *output;
};

enum { FORMAT_RECORD_ALLOCS, FORMAT_ACTIVITY }; /* as in --format's choices */

static const struct export_options defaults = {.format = -1};

static const struct mt_option options[] = {
	{.name = "format",
	 .argument = "FORMAT",
	 .kind = MT_OPTION_CHOICE,
	 .offset = offsetof(struct export_options, format),
	 .choices = "record_allocs|activity",
	 .help = "what to write of a recording: record_allocs (every call, as Android's malloc "
		 "debug writes it) or activity (what each thread did when, as CSV)"},
	{.name = "step",
	 .argument = "TIME",
	 .kind = MT_OPTION_TIME,
	 .offset = offsetof(struct export_options, step_ns),
	 .help = "activity: length of a step of time (default: a hundredth of the run)"},
	{.letter = 'o',
	 .name = "output",
	 .argument = "FILE",
	 .kind = MT_OPTION_TEXT,
	 .offset = offsetof(struct export_options, output),
	 .help = "write to FILE instead of standard output"},
	{0},
};

/* What the recording lacks; reads it once more. */
static int tell_losses(struct mt_recorded *rec)
{
	mt_auto(mt_mtr_events) struct mt_mtr_events *e = mt_mtr_events_new(&rec->recording);
	uint32_t before = rec->profile->warning_count;
	struct mt_mtr_losses whole;
	struct mt_mtr_step s;
	int code = e ? 1 : -ENOMEM;

	while (e && (code = mt_mtr_events_next(e, &s)) == 1)
		;
	if (code)
		return code;
	whole = mt_mtr_events_losses(e);
	mt_mtr_warn(&rec->recording, rec->profile, &whole);
	for (uint32_t i = before; i < rec->profile->warning_count; i++)
		mt_complain("%s", rec->profile->warning[i]);
	return 0;
}

static int write_format(struct mt_recorded *rec, const struct export_options *o, struct mt_buf *out)
{
	if (o->format == FORMAT_ACTIVITY)
		return mt_mtr_activity_write(&rec->recording, rec->profile, o->step_ns, out);
	return mt_record_allocs_write(&rec->recording, rec->profile, out);
}

static int run(const void *opaque, const struct mt_operands *operands)
{
	const struct export_options *o = opaque;
	mt_auto(mt_recorded) struct mt_recorded rec = {.recording = {.fd = -1}};
	mt_auto(mt_output) struct mt_output out;
	struct mt_err err = {0};
	int code;

	mt_output_init(&out, o->output);
	if (o->format < 0) {
		mt_complain("export: --format is missing; see 'memtrack export --help'");
		return MT_EXIT_USAGE;
	}
	code = mt_recorded_open(&rec, operands->text[0], &err);
	if (!code && tell_losses(&rec))
		code = mt_err_no_memory(&err);
	if (!code && write_format(&rec, o, &out.text))
		code = mt_err_no_memory(&err);
	if (!code)
		code = mt_output_finish(&out, &err);
	if (code)
		mt_complain("%s", err.text);
	return code ? MT_EXIT_FAILED : MT_EXIT_OK;
}

static const char *const examples[] = {
	"memtrack export memtrack.server.4711.mtr --format=record_allocs -o allocs.txt",
	"for programs that read Android's allocation records",
	NULL,
};

const struct mt_command mt_cmd_export = {
	.name = "export",
	.summary = "write what was recorded in a format of other programs",
	.operands = "FILE",
	.operands_min = 1,
	.operands_max = 1,
	.options = options,
	.options_bytes = sizeof(struct export_options),
	.defaults = &defaults,
	.description =
		"record_allocs: one line a call, as bionic's malloc debug option of that name "
		"writes them and its memory_replay reads: thread id, function, address, what else "
		"the function was given, begin and end in nanoseconds. FILE is a recording (mode "
		"record of memtrack run), NAME.mtr, or its state file NAME.mtk beside it. A "
		"recording has no addresses: those in the text are made up, each is used once, and "
		"aligned as was asked for. Times are since the program's start, in steps of about "
		"a "
		"millisecond, begin and end the same. calloc has its product as one element. Calls "
		"that failed are not recorded; operator new and strdup appear as malloc.\n\n"
		"activity: CSV with a line for each thread and step of time in which it did "
		"something: begin of the step in nanoseconds since the start, thread id and name, "
		"allocations, their bytes, frees, their bytes, and what was live in the process "
		"when the step ended.",
	.examples = examples,
	.see_also = "memtrack(1), memtrack-run(1), memtrack-replay(1), mtr(5)",
	.run = run,
};
