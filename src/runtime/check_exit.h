/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_CHECK_EXIT_H
#define MT_RUNTIME_CHECK_EXIT_H

/*
 * The end of a program in check mode: freed blocks are checked, live ones listed, what was recorded
 * is written. Once a process; exit status and the work of threads that still run are not touched.
 */

/* At the program's last moment: last.h. */
void mt_check_exit(void);

#endif
