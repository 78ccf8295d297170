/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_CHECK_HEAP_H
#define MT_RUNTIME_CHECK_HEAP_H

/*
 * All blocks at once: the guards of those that are live, and the bytes of those that are held back.
 * What is wrong is reported once, and as found by such a look: the call in which it was seen is
 * told, and who wrote is not known. Takes a time
 * that grows with the number of blocks: asked for by check_heap_every or check_heap_on_signal.
 */

#include "runtime/check_report.h"

/*
 * The guards of the live blocks as the program ends: nobody will free them. Stops after
 * MT_CHECK_HEAP_EXIT_NS, and says so in the log. Guard held.
 */
#define MT_CHECK_HEAP_EXIT_NS 2000000000ull
void mt_check_heap_at_exit(struct mt_thread *t);

/* Guard held. */
void mt_check_heap(struct mt_thread *t, const struct mt_use *during);

#endif
