/* SPDX-License-Identifier: MIT */
#ifndef MT_CLI_RUN_CHECK_H
#define MT_CLI_RUN_CHECK_H

/* The part of `memtrack run` that deals with check mode. */

/*
 * Which options check mode gets. asked: of --check, NULL: not given; else those of the environment
 * count where the mode (the word of --mode, or "full") permits. *ret_options: borrowed, NULL: no
 * check mode. Complains of what the program's tracker would not take. 0 or MT_EXIT_USAGE.
 */
int mt_run_check_choose(const char *asked, const char *mode, const char **ret_options);

#endif
