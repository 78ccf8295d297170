/* SPDX-License-Identifier: MIT */
#ifndef MT_CLI_RUN_SNAPSHOTS_H
#define MT_CLI_RUN_SNAPSHOTS_H

/* The part of `memtrack run` that deals with snapshots: its options, and what is said of them. */

#include "cli/command.h"
#include "record/collect.h"
#include "record/snapshot.h"

/* Fills *options (all-zero) from --snapshot-every and --snapshot-on; complains. 0 or MT_EXIT_USAGE.
 */
int mt_run_snapshots_parse(uint64_t every_ns, const struct mt_text_list *on,
			   struct mt_snapshot_options *options);

/* Says what could not be stored, also when quiet: it cannot be had again. NULL: nothing. */
void mt_run_snapshots_tell(const struct mt_snapshots *s);

/* Says where a collected file's series is, if it has one and that is wanted, or why it is not. */
void mt_run_snapshots_tell_file(const struct mt_collect_item *f, bool is_wanted);

#endif
