/* SPDX-License-Identifier: MIT */
#ifndef MT_FORMATS_MTK_GUARD_H
#define MT_FORMATS_MTK_GUARD_H

/*
 * Reading of what guarded and checked blocks found: ERRORS and DAMAGE. Private to the reader of
 * state files.
 */

#include "formats/mtk_fill.h"

/* After the nodes and threads. 0 or -ENOMEM. */
int mt_mtk_fill_errors(struct mt_mtk_reader *rd);

#endif
