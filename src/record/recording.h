/* SPDX-License-Identifier: MIT */
#ifndef MT_RECORD_RECORDING_H
#define MT_RECORD_RECORDING_H

/*
 * From the buffers in a state file to its recording: while the process runs (a task of the
 * companion) and when it has ended (as its state file is collected). docs/formats/mtr.md.
 */

#include <stdbool.h>

#include "base/err.h"
#include "record/companion.h"
#include "wire/state.h"

/* What recordings of a run have in common. */
struct mt_recording_task {
	const char *pattern;  /* of the state files, absolute; borrowed */
	uint64_t limit_bytes; /* of each recording, 0: none */
	bool keeps_last;      /* at the limit its begin gives way */
};

enum { MT_RECORDING_PERIOD_MS = 10 };

/* The companion's task: empties full buffers. The context is a struct mt_recording_task. */
void mt_recording_visit(void *context, const struct mt_companion_file *file,
			enum mt_companion_why why, void **data);

/*
 * Recording was asked for in a process that runs (mode=record). If it has begun, lists what is live
 * in the recording, unless that has a list. 0 or a negative errno value with *err.
 */
int mt_recording_begun(const char *state, struct mt_err *err);

/* Whether a state file has a recording. */
bool mt_recording_is_there(const struct mt_state_header *h);

/*
 * After the process's end: what its buffers hold goes into the recording, with an END block. state:
 * how the file is reached; shown: its path as it was made; pattern: where it will go, "" when only
 * the file itself says. *ret_path: where the recording lies (heap). 0 or a negative errno value
 * with *err: nothing is lost, the call may be repeated.
 */
int mt_recording_finish(const char *state, const char *shown, const char *pattern, char **ret_path,
			struct mt_err *err);

/* Puts a finished recording in place of `to`. 0 or a negative errno value with *err. */
int mt_recording_move(const char *from, const char *to, struct mt_err *err);

/* NAME.mtr for the state file NAME.mtk. Heap; NULL: no memory. */
char *mt_recording_name(const char *state_path) __attribute__((warn_unused_result));

#endif
