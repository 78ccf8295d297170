/* SPDX-License-Identifier: MIT */
#ifndef MT_RECORD_WALKER_H
#define MT_RECORD_WALKER_H

/*
 * A second opinion on a call stack of another process: libdw, elfutils' unwinder, reading the
 * process's memory while the thread in question waits. It shares no code with src/unwind. Nothing
 * is stopped, traced or written. One object, one thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "wire/verify.h"

struct mt_walker; /* remembers the modules of the processes it looked at last */

/* Heap; NULL: no memory. */
struct mt_walker *mt_walker_new(void);
/* NULL is allowed. */
void mt_walker_free(struct mt_walker *w);
MT_AUTO_DEFINE(mt_walker, struct mt_walker *, mt_walker_free)

/* A frame as libdw has it. */
struct mt_walker_frame {
	uint64_t pc;     /* return address, or the interrupted instruction */
	bool is_exact;   /* interrupted here, not calling */
	bool has_module; /* false: reached from, or lies in, code that no file describes: a guess */
};
enum { MT_WALKER_OWN = 40, MT_WALKER_FRAMES = MT_VERIFY_FRAMES + MT_WALKER_OWN };

struct mt_walk {
	struct mt_walker_frame frame[MT_WALKER_FRAMES]; /* innermost first, our own hooks first */
	uint32_t count;
	bool is_cut;   /* more frames than there is room for */
	bool gave_up;  /* an error ended it: why */
	char why[128]; /* "" when the stack ended well */
};

/*
 * Unwinds the stack that the slot's registers describe. 0 and *ret_walk, or a negative errno value
 * when the process cannot be read. fresh: forget what is known of the process's modules.
 */
int mt_walker_walk(struct mt_walker *w, const struct mt_verify_slot *slot, bool fresh,
		   struct mt_walk *ret_walk);

/* "module+0xoffset" of an address in the process of the last walk; buf is returned. */
char *mt_walker_place(struct mt_walker *w, const struct mt_verify_slot *slot, uint64_t pc,
		      char *buf, size_t bytes);

#endif
