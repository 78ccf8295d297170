/* SPDX-License-Identifier: MIT */
/* memtrack diff: growth between two states. */

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/report_options.h"

#include "core/cc.h"

struct diff_options {
	struct mt_report_options common;
};

static const struct diff_options defaults = {.common = MT_REPORT_OPTIONS_DEFAULT};

static const struct mt_option options[] = {
	MT_REPORT_OPTION_ENTRIES(struct diff_options, common),
	{0},
};

static int run(const void *opaque, const struct mt_operands *operands)
{
	const struct mt_report_options *o = &((const struct diff_options *)opaque)->common;
	mt_auto(mt_loaded) struct mt_loaded loaded = {0};
	mt_auto(mt_output) struct mt_output out;
	struct mt_suppress_context suppress = {0};
	struct mt_report r;
	struct mt_err err = {0};
	int code;

	mt_output_init(&out, o->output);
	mt_load_catch_interrupt();
	code = mt_loaded_add_sides(&loaded, operands, &err); /* old, new */
	if (!code)
		code = mt_report_options_apply(o, &loaded, &suppress, &r, &err);
	if (!code) {
		r.profiles = loaded.profile + 1;
		r.profile_count = 1;
		code = mt_report_write_diff(&r, loaded.profile, 1, (enum mt_report_format)o->format,
					    &out.text, &err);
	}
	mt_suppressions_free(suppress.suppressions);
	return mt_output_end(&out, code, &err);
}

static const char *const examples[] = {
	"memtrack diff before.mtk after.mtk",
	"which call sites hold more, and which less",
	"memtrack diff before.mtk 4711 --by=function",
	"a file against a running process",
	"memtrack diff server.mtk@first server.mtk@-1h",
	"from the first snapshot to the one an hour before the last",
	"memtrack diff 4711@120 4711",
	"from snapshot 120 to now",
	NULL,
};

const struct mt_command mt_cmd_diff = {
	.name = "diff",
	.summary = "show what grew between two states",
	.operands = "OLD NEW",
	.operands_min = 2,
	.operands_max = 2,
	.options = options,
	.options_bytes = sizeof(struct diff_options),
	.defaults = &defaults,
	.description =
		"Compares two states: files, or a file and a running process. OLD and NEW are what "
		"memtrack-report takes. Rows are sorted by how much they changed, growth before "
		"shrinkage.\n\n"
		"Call sites of the same build are matched by their callstack_hash, which does not "
		"depend on "
		"addresses. When the programs have different build-ids, sites are matched by "
		"function names.\n\n"
		"Of two sampled states of one process, blocks that are live in both do not count, "
		"so the 95 % interval in brackets is that of what came and went since. Two "
		"different processes have no block in common: there both samples count whole."
		"\n\n"
		"FILE@WHICH is the state as it was at a snapshot ('memtrack run "
		"--snapshot-every=TIME'; 'memtrack timeline' lists them). WHICH is a snapshot's "
		"number, a time since the start (90s, 2h30m), a time before the last snapshot "
		"(-10m), first or last; of a time within the run the nearest is "
		"taken. Of a snapshot the live "
		"blocks of each site are known, not their ages, sizes and threads. Of a sampled "
		"run it has the sums of what each site allocated and freed, with their variances: "
		"blocks that came and went between two snapshots are in both, so the interval is "
		"an upper bound, never more than that of two samples with nothing in common. "
		"Snapshots in statistics mode, which know no call sites, cannot be compared, nor "
		"those of a sampled run that an older memtrack took. A file "
		"whose name holds an @ is taken as it is.",
	.examples = examples,
	.see_also = "memtrack(1), memtrack-report(1), memtrack-timeline(1)",
	.run = run,
};
