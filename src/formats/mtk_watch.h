/* SPDX-License-Identifier: MIT */
#ifndef MT_FORMATS_MTK_WATCH_H
#define MT_FORMATS_MTK_WATCH_H

/*
 * Cheap readings of a state file, for those who look again and again: top, metrics, ps, series of
 * snapshots. Costs a pass over the thread table (512 bytes each) and, for sites, one over the
 * counters (128 bytes each); blocks, strings and stacks are not touched. The file may hold
 * anything, as in formats/mtk_read.h.
 */

#include "base/err.h"
#include "core/cc.h"
#include "model/watch.h"

/* What to read beside the sums; bits. */
enum mt_mtk_watch_what {
	MT_MTK_WATCH_SUMS = 0,
	MT_MTK_WATCH_THREADS = 1,
	MT_MTK_WATCH_SITES = 2,
	MT_MTK_WATCH_SIZES = 4,   /* costs a pass over the counters, as sites do */
	MT_MTK_WATCH_SAMPLES = 8, /* of sites, which are to be asked for, too */
};

/*
 * One reading of a file. 0, or a negative errno value with *err (may be NULL) as of mt_mtk_read().
 * The caller frees with mt_watch_done().
 */
int mt_mtk_watch(const char *path, unsigned what, struct mt_watch *ret_watch, struct mt_err *err);

/* As above from a descriptor, which stays open. */
int mt_mtk_watch_fd(int fd, const char *name, unsigned what, struct mt_watch *ret_watch,
		    struct mt_err *err);

#endif
