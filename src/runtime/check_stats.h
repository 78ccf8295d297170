/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_CHECK_STATS_H
#define MT_RUNTIME_CHECK_STATS_H

/*
 * Logs what the allocator says about itself: glibc, jemalloc, mimalloc and tcmalloc are asked, each
 * by the function it has for that. Guard held, so that their own calls are not followed.
 */
void mt_check_stats_log(void);

#endif
