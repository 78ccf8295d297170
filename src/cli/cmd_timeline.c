/* SPDX-License-Identifier: MIT */
/* memtrack timeline: what snapshots show of a process over time, and which sites grow. */

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/report_options.h"

#include "core/cc.h"

/* What of a report's options makes sense here. */
static const struct mt_report_options defaults = MT_REPORT_OPTIONS_DEFAULT;

#define AT(member) offsetof(struct mt_report_options, member)

static const struct mt_option options[] = {
	{.name = "top",
	 .argument = "N",
	 .kind = MT_OPTION_NUMBER,
	 .offset = AT(top),
	 .max = 1000000000,
	 .help = "sites to show; 0 shows all (default 20 in text, all in machine formats)"},
	{.name = "stack",
	 .argument = "N",
	 .kind = MT_OPTION_NUMBER,
	 .offset = AT(stack),
	 .max = MT_REPORT_STACK_MAX,
	 .help = "frames of each call stack to show (default 16 in text, all in machine formats)"},
	MT_SYMBOL_OPTION_ENTRIES(struct mt_report_options, ),
	{.name = "json",
	 .kind = MT_OPTION_SET,
	 .offset = AT(format),
	 .set_value = MT_REPORT_JSON,
	 .help = "write JSON"},
	{.name = "csv",
	 .kind = MT_OPTION_SET,
	 .offset = AT(format),
	 .set_value = MT_REPORT_CSV,
	 .help = "write the numbers of the process at each snapshot as CSV with a header line"},
	{.letter = 'v',
	 .name = "verbose",
	 .kind = MT_OPTION_FLAG,
	 .offset = AT(verbose),
	 .help = "list all files whose symbols cannot be used"},
	{.letter = 'o',
	 .name = "output",
	 .argument = "FILE",
	 .kind = MT_OPTION_TEXT,
	 .offset = AT(output),
	 .help = "write to FILE instead of standard output"},
	{0},
};

static int run(const void *opaque, const struct mt_operands *operands)
{
	struct mt_report_options o = *(const struct mt_report_options *)opaque;
	mt_auto(mt_loaded) struct mt_loaded loaded = {0};
	mt_auto(mt_output) struct mt_output out;
	struct mt_suppress_context suppress = {0};
	struct mt_report r;
	struct mt_err err = {0};
	int code;

	o.show = MT_SHOW_TIMELINE;
	mt_output_init(&out, o.output);
	mt_load_catch_interrupt();
	code = mt_loaded_add_operands(&loaded, operands, &err);
	if (!code)
		code = mt_loaded_add_series(&loaded, &err);
	if (!code)
		code = mt_report_options_apply(&o, &loaded, &suppress, &r, &err);
	if (!code)
		code = mt_report_write(&r, (enum mt_report_format)o.format, &out.text, &err);
	mt_suppressions_free(suppress.suppressions);
	return mt_output_end(&out, code, &err);
}

static const char *const examples[] = {
	"memtrack run --snapshot-every=1m ./server",
	"take a snapshot a minute",
	"memtrack timeline name:server",
	"what grew so far, while it runs",
	"memtrack timeline memtrack.server.4711.mtk",
	"the same when it has ended",
	"memtrack timeline 4711 --csv -o live.csv",
	"for a spreadsheet",
	NULL,
};

const struct mt_command mt_cmd_timeline = {
	.name = "timeline",
	.summary = "show live bytes over time and which call sites leak",
	.operands = "FILE|PID|name:PROGRAM...",
	.operands_min = 1,
	.operands_max = -1,
	.options = options,
	.options_bytes = sizeof(struct mt_report_options),
	.defaults = &defaults,
	.description =
		"Shows the snapshots that were taken of a process ('memtrack run "
		"--snapshot-every=TIME' or '--snapshot-on=WHEN'): live bytes and RSS over time, "
		"as a line of blocks on a terminal and as a table elsewhere, and the call sites "
		"that grew, leak suspects first. Snapshots lie in a file beside the state file, "
		"with the same name but for its end, .mts; it is read while the process runs, "
		"too.\n\n"
		"Growth is judged by the test of Mann and Kendall, corrected for values that hang "
		"together in time, with the slope of Theil and Sen and its 95 % interval; at "
		"least 12 snapshots are needed. Growth of which hardly anything is given back, at "
		"whatever speed, is judged by the sign test of its steps, which is said: the "
		"interval of its slope may then reach 0. Sites of one call stack "
		"that differ only in their "
		"label, or in how blocks were sampled, are judged together, as the sum of their "
		"live bytes. A site is a suspect when it keeps growing. One "
		"that grew and then stays (a cache that filled), rose in one step, or comes back "
		"to where it was (a sawtooth, a daily cycle) is not. Suspects are ranked by the "
		"speed of their growth, by the share of their new blocks that was never freed, "
		"and by the age of what is live: the reason stands below each.\n\n"
		"'memtrack diff FILE@FROM FILE@TO' compares two of the snapshots.",
	.examples = examples,
	.see_also = "memtrack(1), memtrack-run(1), memtrack-diff(1), memtrack-report(1)",
	.run = run,
};
