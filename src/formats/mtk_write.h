/* SPDX-License-Identifier: MIT */
#ifndef MT_FORMATS_MTK_WRITE_H
#define MT_FORMATS_MTK_WRITE_H

/* Finishing state files: the same format, only what is used, packed. */

#include "base/err.h"
#include "core/cc.h"
#include "wire/state.h"

/* What is known when the process has ended. All-zero: nothing; the file's own words stay. */
struct mt_mtk_finish {
	uint32_t end_kind; /* enum mt_state_end; RUNNING: leave end_kind and end_code as they are */
	int32_t end_code;
	uint64_t mono_mark_ns, tick_mark; /* a late pair of clock readings; tick_mark 0: none */
};

/*
 * Enters how the process ended into its state file where it lies, when that is not known there yet:
 * one that cannot be moved. 0, or a negative errno value.
 */
int mt_mtk_note_end(const char *path, const struct mt_mtk_finish *finish);

/*
 * Writes the compact form of state file `from` to `to` (may be the same path): tables packed, free
 * block slots left out, all else as it was, so both read as the same profile. The new file appears
 * complete or not at all, with mode 0600; `from` is not changed. The same input gives the same
 * bytes. finish may be NULL. 0, or a negative errno value with *err (may be NULL): those of
 * mt_mtk_read() for `from`; -EBADMSG when a table is damaged (such a file is better kept as it is);
 * -ENOENT, -EACCES, -ENOSPC, -EDQUOT, -EFBIG ... for `to`.
 */
int mt_mtk_compact(const char *from, const char *to, const struct mt_mtk_finish *finish,
		   struct mt_err *err);

#endif
