/* SPDX-License-Identifier: MIT */
/* memtrack report: everything that a state file recorded. */

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/report_options.h"

#include "core/cc.h"

struct report_options {
	struct mt_report_options common;
	const char *at;
	int lost;
};

enum { LOST_AUTO, LOST_NO };

static const struct report_options defaults = {.common = MT_REPORT_OPTIONS_DEFAULT};

static const struct mt_option options[] = {
	MT_REPORT_OPTION_ENTRIES(struct report_options, common),
	{.name = "at",
	 .argument = "WHEN",
	 .kind = MT_OPTION_TEXT,
	 .offset = offsetof(struct report_options, at),
	 .help = "everything as it was then, from a recording (mode record of memtrack run): a "
		 "time since the program's start, as 90s or 1m30s, peak (when most bytes were "
		 "live) or end"},
	{.name = "lost",
	 .argument = "WHETHER",
	 .kind = MT_OPTION_CHOICE,
	 .offset = offsetof(struct report_options, lost),
	 .choices = "auto|no",
	 .help = "auto (default): with --show=leaks and --show=live, a running process is looked "
		 "at, as by memtrack leaks, to tell blocks that are lost from those it can still "
		 "reach; no: it is left alone"},
	{.name = "error-exitcode",
	 .argument = "N",
	 .kind = MT_OPTION_NUMBER,
	 .offset = offsetof(struct report_options, common.error_exitcode),
	 .max = 255,
	 .help = "exit with N when a memory error or a leak of at least --leak-threshold bytes is "
		 "listed"},
	{0},
};

static int run(const void *opaque, const struct mt_operands *operands)
{
	const struct report_options *all = opaque;
	const struct mt_report_options *o = &all->common;
	struct mt_mtr_when when;
	mt_auto(mt_loaded) struct mt_loaded loaded = {0};
	mt_auto(mt_output) struct mt_output out;
	struct mt_suppress_context suppress = {0};
	struct mt_report_leaks leaks = {0};
	uint64_t errors = 0;
	struct mt_report r;
	struct mt_err err = {0};
	int code;

	mt_output_init(&out, o->output);
	mt_load_catch_interrupt();
	if (all->at && mt_load_parse_when(all->at, &when, &err)) {
		mt_complain("report: %s", err.text);
		return MT_EXIT_USAGE;
	}
	loaded.when = all->at ? &when : NULL;
	loaded.looks = all->lost == LOST_AUTO && !all->at &&
		       (o->show == MT_SHOW_LEAKS || o->show == MT_SHOW_LIVE);
	code = mt_loaded_add_operands(&loaded, operands, &err);
	if (!code && o->show == MT_SHOW_TIMELINE)
		code = mt_loaded_add_series(&loaded, &err);
	if (!code)
		code = mt_report_options_apply(o, &loaded, &suppress, &r, &err);
	if (!code)
		code = mt_report_write(&r, (enum mt_report_format)o->format, &out.text, &err);
	if (!code)
		code = mt_output_finish(&out, &err);
	if (!code && o->error_exitcode) {
		mt_report_count_leaks(&r, &leaks);
		errors = mt_report_count_errors(&r);
	}
	mt_suppressions_free(suppress.suppressions);
	if (code) {
		mt_complain("%s", err.text);
		return MT_EXIT_FAILED;
	}
	if (o->error_exitcode && (leaks.wide_sites || errors))
		return (int)o->error_exitcode;
	return MT_EXIT_OK;
}

static const char *const examples[] = {
	"memtrack report memtrack.server.4711.mtk",
	"what was live at the end, widest call sites first",
	"memtrack report 4711 --min-age=10m",
	"the same of a running process, blocks older than ten minutes",
	"memtrack report a.mtk --show=total --by=function --top=50",
	"functions that allocate most",
	"memtrack report a.mtk --json -o report.json",
	"for other programs",
	"memtrack report a.mtr --at=peak --show=live",
	"what was live when most was, exact, from a recording",
	NULL,
};

const struct mt_command mt_cmd_report = {
	.name = "report",
	.summary = "show what a state file or a running process has recorded",
	.operands = "FILE|PID|name:PROGRAM...",
	.operands_min = 1,
	.operands_max = -1,
	.options = options,
	.options_bytes = sizeof(struct report_options),
	.defaults = &defaults,
	.description =
		"Shows what was recorded of one process, or of several together, as text for "
		"people, or as "
		"JSON, CSV or key=value lines for programs. A PID or name:PROGRAM means the live "
		"state of that "
		"process: it is read while the process runs and costs the process nothing. "
		"PROGRAM is the last part of the executable's path, or of the name by which it was "
		"started.\n\n"
		"The first lines say what makes a number inexact, if anything; then comes a "
		"verdict in one "
		"line, the totals, and the rows, each with its call stack. A frame that begins "
		"with '~', as in ~name+0x1f, lies somewhere behind the exported function of that "
		"name: the file has no symbols for what is between. All numbers are of the "
		"malloc "
		"family; mappings, the program break and custom heaps follow with sums of their "
		"own. Ctrl-C "
		"during long work gives a partial report.\n\n"
		"Of a sampled run, what call sites hold is estimated from the samples: each figure "
		"has its 95 % interval in brackets, the range that holds the truth in 95 of 100 "
		"runs; 'less than' is three sampling intervals where no sample is left. Totals, "
		"threads and size classes are counted exactly in sampling and statistics mode, in "
		"usable bytes: what the allocator gave. Statistics mode records no call stacks: "
		"its report is totals, --show=sizes, --show=threads and --show=large, the list of "
		"live blocks of 1 MiB or more. Rates an hour are shown for threads that are there "
		"for a minute at least.\n\n"
		"Of a run in check mode, or with guarded samples, memory errors come first: a leak "
		"report says how many there are, and when memory was overwritten that it is "
		"unreliable, and where. --show=errors has each with the call stacks of the failing "
		"call, of the allocation and of the free, the changed bytes and what they look "
		"like (a text, a pointer and where to, a number), a window of memory, and the "
		"blocks beside. Errors of one kind with the same call stacks are shown once, with "
		"their count. Suppressions leave errors out, too, and those are counted.\n\n"
		"A recording (mode record of memtrack run; NAME.mtr beside NAME.mtk) may be named "
		"in place of its state file. With --at the report is as if it had been made at "
		"that moment "
		"of the run, which must not lie behind its end; "
		"peaks are those up to there, exact also with threads, to the coarse "
		"time's unit of about a millisecond (a thread that allocates much reads the "
		"clock once in 16 events: the first 15 after a pause may seem to lie before it). "
		"Mappings, the program break and custom heaps "
		"are not in a recording and are left out then, but for --at=end.",
	.examples = examples,
	.see_also = "memtrack(1), memtrack-run(1), memtrack-diff(1), memtrack-timeline(1), mtk(5), "
		    "mtr(5)",
	.run = run,
};
