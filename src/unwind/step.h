/* SPDX-License-Identifier: MIT */
#ifndef MT_UNWIND_STEP_H
#define MT_UNWIND_STEP_H

/* One step outward, the careful way: rules in full, signal frames, frame-pointer fallback. */

#include "unwind/capture.h"
#include "unwind/row.h"
#include "unwind/stack.h"

/* Private bits beside enum mt_frame_flags, in struct mt_step and struct mt_frame_words. */
enum mt_step_flags {
	MT_STEP_USED_FP = 1 << 8,  /* the step's result depends on the frame pointer */
	MT_STEP_NO_REUSE = 1 << 9, /* it depends on more than words that can be verified */
	MT_STEP_CHECKED =
		16, /* from this bit up: how many frame records further out were checked */
};

struct mt_step {
	uintptr_t sp, ra, fp; /* of the frame; after the step: of its caller */
	uintptr_t lr;         /* aarch64: the link register if lr_known */
	uintptr_t ra_at;      /* where ra was read; 0: not from the stack */
	uintptr_t raw;        /* the word there (aarch64: perhaps signed) */
	uintptr_t fp_at;      /* where fp was read in this step; 0: unchanged */
	uintptr_t cfa_at;     /* where the new sp was read; 0: computed */
	uint32_t flags; /* of the frame, as the step that reached it left them: mt_frame_flags,
			   mt_step_flags */
	uint32_t lr_known;
	struct mt_stack_range *range; /* of the stack; changes with it */
	struct mt_stack_asked *asked; /* of this capture */
	struct mt_row_cache *rows;    /* where verdicts on code are kept; NULL: nowhere */
};

/* Steps by a rule of an ordinary frame. 0, or an enum mt_stack_end: there is no caller to be found.
 */
int mt_step_rule(struct mt_step *s, const struct mt_rule *rule);

/*
 * Steps out of a frame whose row is special. list: the modules, for FULL rows and the fallback.
 * 0, or an enum mt_stack_end; then flags tells what that verdict depends on.
 */
int mt_step_special(struct mt_step *s, mt_row row, const struct mt_module_list *list);

#endif
