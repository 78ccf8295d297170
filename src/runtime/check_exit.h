/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_CHECK_EXIT_H
#define MT_RUNTIME_CHECK_EXIT_H

/*
 * The end of a program in check mode: freed blocks are checked, live ones listed, what was recorded
 * is written. Once a process; exit status and the work of threads that still run are not touched.
 */

/* Arranges for it, as late as the C library permits. Start-up. */
void mt_check_exit_begin(void);

/* Our destructor runs: it is the last thing where nothing later was to be had. */
void mt_check_exit_destructor(void);

/* Does it. */
void mt_check_exit(void);

#endif
