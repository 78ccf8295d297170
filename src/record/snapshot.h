/* SPDX-License-Identifier: MIT */
#ifndef MT_RECORD_SNAPSHOT_H
#define MT_RECORD_SNAPSHOT_H

/*
 * Takes snapshots of tracked processes into the series beside their state files
 * (docs/formats/mts.md). Everything is read from the shared state and from /proc: the process does
 * nothing for it.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "record/companion.h"

enum mt_snapshot_rule_kind {
	MT_SNAPSHOT_RSS,    /* RSS rises above `bytes` */
	MT_SNAPSHOT_PSS,    /* PSS does */
	MT_SNAPSHOT_GROWTH, /* live bytes grow by more than `bytes` within `time_ns` */
};
enum { MT_SNAPSHOT_RULES = 8 };

struct mt_snapshot_options {
	uint64_t every_ns; /* 0: no interval */
	bool on_signal;    /* when the companion is rung */
	struct mt_snapshot_rule {
		enum mt_snapshot_rule_kind kind;
		uint64_t bytes, time_ns;
	} rule[MT_SNAPSHOT_RULES];
	uint32_t rules;
	uint64_t limit_bytes; /* of a series; 0: the format's */
};
#define MT_SNAPSHOT_EVERY_MIN_NS 10000000u

/*
 * Adds what `text` says: "rss>SIZE", "pss>SIZE", "growth>SIZE/TIME" or "signal". 0, or -EINVAL with
 * *err: a sentence that does not name the option.
 */
int mt_snapshot_parse(const char *text, struct mt_snapshot_options *options, struct mt_err *err);

/* Whether anything is asked for. */
bool mt_snapshot_is_wanted(const struct mt_snapshot_options *options);

/*
 * The snapshots of a run, as a task of its companion. The first is taken when a process is first
 * seen and the last when it has ended. options are copied. NULL: no memory. Free it after the
 * companion was stopped; NULL is allowed.
 */
struct mt_snapshots;
struct mt_snapshots *mt_snapshots_new(const struct mt_snapshot_options *options);
void mt_snapshots_free(struct mt_snapshots *s);
struct mt_companion_task mt_snapshots_task(struct mt_snapshots *s);

/* What became of them; after the companion was stopped. why is borrowed: "" when none was lost. */
struct mt_snapshots_result {
	uint64_t taken, lost;
	const char *why; /* the first loss, one sentence */
};
struct mt_snapshots_result mt_snapshots_result(const struct mt_snapshots *s);

/*
 * One snapshot, now, of the running process whose live state file is at `state_path`; from any
 * process that may read it, also while a launcher writes the same series. reason: enum
 * mt_series_reason. 0 with the snapshot's number, or a negative errno value with *err: -ESRCH when
 * the process has ended, those of mt_mts_append() and of reading the state.
 */
int mt_snapshot_take(const char *state_path, uint32_t reason, uint32_t *ret_number,
		     struct mt_err *err);

#endif
