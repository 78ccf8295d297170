/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_RECORD_TEXT_H
#define MT_RUNTIME_RECORD_TEXT_H

/*
 * Check mode's record_allocs: every call of the malloc family in a fixed array, and that array as
 * text in a file when a signal asks for it, or at exit. One line a call, as Android 16 writes it:
 *
 *     TID: malloc 0xPTR SIZE START END
 *     TID: calloc 0xPTR N SIZE START END
 *     TID: memalign 0xPTR ALIGN SIZE START END
 *     TID: realloc 0xNEW 0xOLD SIZE START END [PRESENT]
 *     TID: free 0xPTR START END [PRESENT]
 *     TID: thread_done 0x0 END
 *
 * An entry is taken before the call, so that the order of the file is that in which the calls
 * began; what failed in between leaves a hole, which is not written. No lock: a signal handler that
 * writes the file may have interrupted anybody. What is under way then stays for the next file.
 *
 *     uint32_t token = mt_record_text_begin();
 *     e.start_ns = mt_record_text_now();
 *     e.pointer = original(size);
 *     e.end_ns = mt_record_text_now();
 *     mt_record_text_end(token, &e);
 *
 * All of it async-signal-safe, any thread.
 */

#include "core/sys.h"
#include "wire/check_options.h"

enum mt_record_text_type {
	MT_RECORD_TEXT_MALLOC = 1,
	MT_RECORD_TEXT_CALLOC = 2,
	MT_RECORD_TEXT_MEMALIGN = 3, /* and the other calls for aligned blocks */
	MT_RECORD_TEXT_REALLOC = 4,
	MT_RECORD_TEXT_FREE = 5,
	MT_RECORD_TEXT_THREAD_DONE = 6, /* written by record_text.c itself */
};

enum { MT_PRESENT_UNKNOWN = -1 };

struct mt_record_text {
	enum mt_record_text_type type;
	const void *pointer; /* what the program gets, or gives back; NULL: the call failed */
	const void *old;     /* realloc: the block before, or NULL */
	size_t size;         /* asked for; calloc: of each */
	size_t n;            /* calloc */
	size_t align;        /* memalign */
	/* CLOCK_MONOTONIC around the real allocator's call alone; both 0: not written */
	uint64_t start_ns, end_ns;
	int64_t present; /* free and realloc: mt_present_bytes() before the call, or
			    MT_PRESENT_UNKNOWN */
};

/* 1: the option is on. Read by the functions below only. */
extern uint32_t mt_record_text_is_on MT_HIDDEN;

/*
 * Makes room for o->record_entries entries, if o asks for record_allocs. Start-up. What cannot be
 * had is said in a line of the log, and recording goes without it: fewer entries, no PRESENT.
 */
void mt_record_text_open(const struct mt_check_options *o);

/* Check mode did not come about: the array goes. */
void mt_record_text_close(void);

uint32_t mt_record_text_take(void);
uint64_t mt_record_text_clock(void);
void mt_record_text_fill(uint32_t token, const struct mt_record_text *e);
int64_t mt_record_text_present(const void *p, size_t size);

/* Takes an entry; 0: none, the array is full or the option is off. Each one needs an end. */
MT_INLINE uint32_t mt_record_text_begin(void)
{
	return MT_LIKELY(!mt_record_text_is_on) ? 0 : mt_record_text_take();
}

/* e: what happened, NULL: nothing (a hole). */
MT_INLINE void mt_record_text_end(uint32_t token, const struct mt_record_text *e)
{
	if (MT_UNLIKELY(token))
		mt_record_text_fill(token, e);
}

/* The time for an entry; 0: the option is off. */
MT_INLINE uint64_t mt_record_text_now(void)
{
	return MT_LIKELY(!mt_record_text_is_on) ? 0 : mt_record_text_clock();
}

/* Bytes of [p, p + size) that are in memory; MT_PRESENT_UNKNOWN also when the option is off. */
MT_INLINE int64_t mt_present_bytes(const void *p, size_t size)
{
	return MT_LIKELY(!mt_record_text_is_on) ? MT_PRESENT_UNKNOWN
						: mt_record_text_present(p, size);
}

/*
 * Writes the entries to the file and empties the array: from the signal's handler, or at exit (then
 * FILE.PID, and only with record_allocs_on_exit). They stay when the file cannot be made.
 */
void mt_record_text_write(int at_exit);

/* After how many seconds a call that does not end is given up. */
void mt_record_text_set_patience_for_test(uint32_t seconds);

/* In a forked child: nobody is writing, and calls of the parent's threads never end. */
void mt_record_text_child(void);

#endif
