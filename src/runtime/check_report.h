/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_CHECK_REPORT_H
#define MT_RUNTIME_CHECK_REPORT_H

/*
 * What check mode finds, told twice: in lines as bionic's malloc debug writes them, and in the
 * state file, for memtrack report. With abort_on_error the thread is marked: mt_check_leave() ends
 * the program. All with the guard held.
 */

#include "runtime/check_block.h"
#include "runtime/quarantine.h"

/* The call that is under way. */
struct mt_use {
	enum mt_state_call call;
	const struct mt_caller *caller; /* NULL: there is no call, the program ends */
	int is_look; /* 1: it looks at all blocks, and has nothing to do with any of them */
};

/* A live block, as far as it is known. */
struct mt_known {
	const void *p;
	uint64_t size;
	uint32_t alloc_call; /* 0: not known */
	struct mt_state_actor alloc;
};

enum mt_bad_pointer {
	MT_BAD_UNKNOWN, /* no block of ours */
	MT_BAD_FREED,   /* its header says freed */
	MT_BAD_TAG,     /* its header has another tag */
	MT_BAD_HEADER,  /* the tag is right, the rest is not */
};

/* free, realloc, malloc_usable_size of what is no live block. known: may be NULL. */
void mt_report_bad_pointer(struct mt_thread *t, const struct mt_use *use, const void *p,
			   enum mt_bad_pointer what, uint32_t tag, const struct mt_known *known);

/* If a guard of the block, whose header is good, was changed and that was not told yet: tells it.
 */
void mt_report_guard(struct mt_thread *t, const struct mt_use *use, const struct mt_known *known,
		     int is_front);

/*
 * 1: a block that came from malloc may have been made by an operator new that is not ours: the
 * program's own, or that of a library that calls it without us.
 */
int mt_report_may_be_new(const struct mt_known *known);

/* The same of free and operator delete. */
int mt_report_may_be_delete(struct mt_thread *t, const struct mt_use *use);

/* Freed by a function that does not go with the one that made it. */
void mt_report_mismatch(struct mt_thread *t, const struct mt_use *use,
			const struct mt_known *known);

/* A block that was held back is not as its free left it. */
void mt_report_use_after_free(struct mt_thread *t, const struct mt_held *b,
			      const struct mt_changed *c);
void mt_report_freed_tag(struct mt_thread *t, const struct mt_held *b, uint32_t tag);

/* The lines of an error that an inaccessible page found and the state file already has. */
void mt_report_page(const struct mt_state_error *e);

/* Who allocated in this cell (0: nobody is known). */
struct mt_state_actor mt_cell_actor(uint32_t cell);

/*
 * The function that made a block of this cell: headers call the whole family malloc, cells know
 * better. known: by the header, 0: nothing.
 */
uint32_t mt_cell_call(uint32_t cell, uint32_t known);

/* The name of a function, for messages. */
const char *mt_call_name(enum mt_state_call call);

#endif
