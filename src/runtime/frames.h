/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_FRAMES_H
#define MT_RUNTIME_FRAMES_H

/*
 * What a recorded frame is, as far as the process itself knows: its module and the dynamic symbol.
 * The one place for it; each text says it in its own way. What lies in modules is read by a call
 * that cannot fault, since another thread may unload one. Any thread, any signal handler.
 */

#include "runtime/rt.h"

struct mt_fmt;

struct mt_frame_place {
	uint64_t pc;          /* in the call, or the interrupted instruction; 0: of the source */
	uint64_t relative;    /* as the module's ELF addresses; pc when there is none */
	const char *module;   /* path, NULL: none is known */
	const char *function; /* nearest dynamic symbol, for mt_frame_put_function(); NULL: none */
	uint64_t offset;      /* of pc in it */
	const char *file;     /* given by the source, which told this and the line; else NULL */
	uint32_t line;
};

/* Remembers symbols that were looked up; zeros are an empty one. */
struct mt_frame_memo {
	struct mt_frame_symbol {
		uint64_t pc;
		uint32_t number; /* of the module, 0: free */
		uint32_t offset;
		const char *function;
	} symbol[4096];
};

/*
 * The address in the call, or of the interrupted instruction, as dumps list it. A line that the
 * source gave has none: 1 then, since 0 ends a list.
 */
uint64_t mt_frame_pc(const struct mt_state_node *node);

/* memo: owner only; NULL: none. */
struct mt_frame_place mt_frame_find(const struct mt_state_node *node, struct mt_frame_memo *memo);

/* Appends the function's name as the module has it, at most 511 bytes. */
void mt_frame_put_function(struct mt_fmt *f, const struct mt_frame_place *place);

/*
 * At most `max` frames of a stack from its innermost node outward, without the tracker's own and
 * those at address 0 (called from nowhere): how many.
 */
uint32_t mt_frame_chain(uint32_t node, const struct mt_state_node **ret_frame, uint32_t max);

/* The callstack_hash (core/hash.h) of frames, innermost first. */
uint64_t mt_frames_hash(const struct mt_state_node *const *frame, uint32_t count);

#endif
