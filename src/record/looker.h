/* SPDX-License-Identifier: MIT */
#ifndef MT_RECORD_LOOKER_H
#define MT_RECORD_LOOKER_H

/*
 * The process that looks at tracked processes when they ask for it (docs/formats/mtk.md, Looks). It
 * is one of its own because a tracer and the waiting parent of the same process must not be
 * threads of one process: each would take the other's events.
 */

#include "base/err.h"
#include "wire/state.h"

#include <sys/types.h>

struct mt_looker;

/*
 * Serves one request: the state file at `path`, whose header, mapped for writing, asks. What is
 * found goes out by mt_looker_let_go(), mt_looker_give() and mt_looker_refuse().
 */
typedef void mt_looker_serve(const char *path, struct mt_state_header *h);

/*
 * Starts it, before the caller has other threads; it watches the state files in `dir`. 0 or a
 * negative errno value with *err.
 */
int mt_looker_start(const char *dir, mt_looker_serve *serve, struct mt_looker **ret_looker,
		    struct mt_err *err);

/* The process that may look, for Yama's sake: tracked processes name it as their tracer. */
pid_t mt_looker_pid(const struct mt_looker *l);

/* Waits until what was asked for is served, and ends it. NULL is allowed. */
void mt_looker_stop(struct mt_looker *l);

/* Serves the request of one state file, here. 0, or -ENODATA: nothing is asked for. */
int mt_looker_answer(const char *path, mt_looker_serve *serve);

/* For the serving function: the asker goes on. */
void mt_looker_let_go(struct mt_state_header *h);

/* Stores a result: `lost` blocks, then what `found` says of the look. 0 or a negative errno value:
 * there was no room, or the file is damaged. */
struct mt_looker_found {
	uint32_t flags; /* enum mt_state_look_flags */
	uint32_t unit;
	uint64_t stop_ns, count, bytes;
};
int mt_looker_give(const char *path, struct mt_state_header *h,
		   const struct mt_state_unreached *lost, uint64_t count,
		   const struct mt_looker_found *found);

/* There is no result. */
void mt_looker_refuse(struct mt_state_header *h, enum mt_state_look why);

#endif
