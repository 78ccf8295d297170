/* SPDX-License-Identifier: MIT */
#ifndef MT_FORMATS_MTR_EVENTS_H
#define MT_FORMATS_MTR_EVENTS_H

/*
 * A recording's events as one sequence, threads merged by time and cause, with the set of blocks
 * that are live at each point. The same file gives the same sequence every time.
 */

#include "formats/mtr_decode.h"
#include "formats/mtr_read.h"

/* A block that is live; slots are used again, lowest numbers first used. cell 0: slot not in use.
 */
struct mt_mtr_live {
	uint64_t size, born; /* born: time units since start */
	uint32_t cell, thread, sequence;
	uint8_t lg_align;
	bool is_listed; /* by a LIVE block: it is older than the recording */
};

enum mt_mtr_step_kind {
	MT_MTR_STEP_ALLOC,
	MT_MTR_STEP_FREE,
	MT_MTR_STEP_REALLOC, /* `gone` became `slot` */
	MT_MTR_STEP_LISTED,  /* at the begin: live since before the recording */
};

struct mt_mtr_step {
	enum mt_mtr_step_kind kind;
	uint32_t thread;    /* row of the acting thread */
	uint64_t unit;      /* time units since start; never falls */
	uint32_t slot;      /* ALLOC, REALLOC, LISTED: the new block; FREE: the one that went */
	uint32_t gone_slot; /* REALLOC: where the old one was; may be the same */
	struct mt_mtr_live made; /* the new block */
	struct mt_mtr_live gone; /* the block that went */
};

/* What is missing, as far as was read. */
struct mt_mtr_losses {
	uint64_t buffers;        /* missing in between: gaps in their numbers */
	uint64_t damaged;        /* blocks that could not be decoded (to their end) */
	uint64_t unknown_frees;  /* of blocks that are not in the recording */
	uint64_t ambiguous;      /* blocks with the name of another live one */
	uint64_t dropped_events; /* that their thread had no buffer for */
	uint64_t listed;         /* older blocks */
	uint64_t allocs, frees;  /* that were given out; a realloc is one of each */
};

struct mt_mtr_events;
void mt_mtr_events_free(struct mt_mtr_events *e);
MT_AUTO_DEFINE(mt_mtr_events, struct mt_mtr_events *, mt_mtr_events_free)

/* From the begin. m is borrowed and must stay open. NULL: no memory. */
struct mt_mtr_events *mt_mtr_events_new(const struct mt_mtr *m) MT_MALLOC(mt_mtr_events_free);

/* 1 and *ret_step; 0: the end; -ENOMEM. What is damaged is left out and counted. */
int mt_mtr_events_next(struct mt_mtr_events *e, struct mt_mtr_step *ret_step);

/* The blocks that are live now, by slot; valid until the next step. */
const struct mt_mtr_live *mt_mtr_events_live(const struct mt_mtr_events *e, uint32_t *ret_slots);

struct mt_mtr_losses mt_mtr_events_losses(const struct mt_mtr_events *e);

#endif
