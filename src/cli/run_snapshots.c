/* SPDX-License-Identifier: MIT */
/* Snapshots of a run, for people. */

#include "cli/run_snapshots.h"

#include <inttypes.h>

int mt_run_snapshots_parse(uint64_t every_ns, const struct mt_text_list *on,
			   struct mt_snapshot_options *options)
{
	struct mt_err err = {0};

	options->every_ns = every_ns;
	if (every_ns && every_ns < MT_SNAPSHOT_EVERY_MIN_NS) {
		mt_complain("run: '--snapshot-every' is too short: 10ms is the least; see "
			    "'memtrack run --help'");
		return MT_EXIT_USAGE;
	}
	for (uint32_t i = 0; i < on->count; i++)
		if (mt_snapshot_parse(on->text[i], options, &err)) {
			mt_complain("run: --snapshot-on: %s; see 'memtrack run --help'", err.text);
			return MT_EXIT_USAGE;
		}
	return 0;
}

void mt_run_snapshots_tell(const struct mt_snapshots *s)
{
	struct mt_snapshots_result r = {0};

	if (s)
		r = mt_snapshots_result(s);
	if (r.lost)
		mt_complain("%" PRIu64 " of %" PRIu64 " snapshots could not be stored: %s", r.lost,
			    r.lost + r.taken, r.why);
}

void mt_run_snapshots_tell_file(const struct mt_collect_item *f, bool is_wanted)
{
	if (f->series_why)
		mt_complain("%s (pid %d): %s", f->program, (int)f->pid, f->series_why);
	else if (f->series && is_wanted)
		mt_complain("wrote '%s'; 'memtrack timeline %s' shows it", f->series, f->path);
}
