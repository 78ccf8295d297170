/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_LAST_H
#define MT_RUNTIME_LAST_H

/*
 * The last moment of a program that ends by exit() or by returning from main(): behind its own exit
 * handlers and destructors. Not reached by _exit() or by a signal.
 */

/* While the tracker starts, before any library is initialized. */
void mt_last_begin(void);

/* From our own destructor. */
void mt_last_destructor(void);

#endif
