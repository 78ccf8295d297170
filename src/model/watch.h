/* SPDX-License-Identifier: MIT */
#ifndef MT_MODEL_WATCH_H
#define MT_MODEL_WATCH_H

/*
 * What a watcher reads of a process again and again: sums only, no blocks, no stacks. Two readings
 * give rates and growth. Plain data; the arrays belong to the object.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "core/cc.h"
#include "model/series.h"

enum { MT_WATCH_LOST = 16, MT_WATCH_SIZES = 32, MT_WATCH_NAME = 17, MT_WATCH_ERRORS = 9 };

/*
 * Events of the malloc heap since the start. In statistics and sampling mode they are counted by
 * usable size, otherwise by what was asked for; a process that changed its mode has both here.
 */
struct mt_watch_counts {
	uint64_t allocs, frees;
	uint64_t bytes, freed_bytes;
};

struct mt_watch_thread {
	uint32_t tid;
	char name[MT_WATCH_NAME];
	bool is_ended;
	struct mt_watch_counts counts;
	uint64_t reallocs, realloc_grown;
};

/* Sums over the site's counters. In sampling mode estimates, except for sites recorded before. */
struct mt_watch_site {
	struct mt_watch_counts counts;
	uint32_t node; /* of the stack tree */
	uint32_t heap, label;
	uint8_t call; /* enum mt_state_call; 0: not in use */
	bool is_estimate;
};

struct mt_watch {
	/* identity: a process is the same when these three are */
	int32_t pid;
	uint64_t proc_start;
	uint64_t wall_start_ns; /* differs from program to program of one process (exec), too */

	uint64_t read_ns; /* CLOCK_MONOTONIC of this reading */
	uint32_t mode;    /* enum mt_state_mode */
	bool is_recording;
	bool is_running;         /* the process was there */
	uint64_t interval_bytes; /* sampling: mean distance; 0: not by bytes */
	uint32_t every;          /* sampling: every Nth; 0: not so */
	uint32_t end_kind;       /* enum mt_state_end */
	int32_t end_code;

	struct mt_watch_counts counts;
	uint64_t events; /* of all heaps: allocations and frees */
	uint64_t reallocs, realloc_grown, failed_allocs;
	int64_t live_bytes, live_blocks; /* by the counters */
	uint64_t peak_bytes;
	uint64_t lost[MT_WATCH_LOST]; /* by enum mt_state_lost */
	/* memory errors by enum mt_state_error_kind; 0: those that the table had no room for */
	uint64_t errors[MT_WATCH_ERRORS];
	uint64_t tracker_bytes;     /* storage of the tracker's tables */
	uint64_t tracker_max_bytes; /* bound on it, 0: none */
	uint32_t threads_seen;

	/*
	 * By mt_state_size_bucket. Of blocks that were recorded one by one only allocs are known,
	 * and only when sizes were asked for.
	 */
	struct mt_watch_counts sizes[MT_WATCH_SIZES];

	uint32_t thread_count; /* 0 unless asked for */
	struct mt_watch_thread *thread;
	uint32_t site_count; /* 0 unless asked for; [number of the site], [0] is empty */
	struct mt_watch_site *site;
	/*
	 * By site, when samples were asked for; knows_samples: they are known, also where nothing
	 * is sampled and this is NULL. Not of a state that an older memtrack writes.
	 */
	struct mt_series_sampled *sampled;
	bool knows_samples;
	bool is_partial; /* the file was cut or its tables cannot be right: numbers may be low */
};

/* Frees what it owns; it is empty afterwards. NULL is allowed. */
void mt_watch_done(struct mt_watch *w);
MT_AUTO_DEFINE_INPLACE(mt_watch, struct mt_watch, mt_watch_done)

/* Whether two readings are of the same program of the same process. */
bool mt_watch_is_same(const struct mt_watch *a, const struct mt_watch *b);

/* Live bytes or blocks of counts; negative where frees of others are counted. */
static inline int64_t mt_watch_live_bytes(const struct mt_watch_counts *c)
{
	return (int64_t)(c->bytes - c->freed_bytes);
}
static inline int64_t mt_watch_live_blocks(const struct mt_watch_counts *c)
{
	return (int64_t)(c->allocs - c->frees);
}

#endif
