/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_EXIT_REPORT_H
#define MT_RUNTIME_EXIT_REPORT_H

/*
 * MEMTRACK_MODE=leak_report: prints the live blocks by site to descriptor 2 at exit, with
 * module+offset and the nearest dynamic symbol, then removes the state file. Does nothing in other
 * modes. The one place where the runtime prints what it found, and only when asked.
 */
void mt_exit_report(void);

/* Remembers what descriptor 2 is: at exit it may be a data file of the program's. At start. */
void mt_exit_report_init(void);

#endif
