/* SPDX-License-Identifier: MIT */
#ifndef MT_FORMATS_MTS_WRITE_H
#define MT_FORMATS_MTS_WRITE_H

/*
 * Appends snapshots to a series (docs/formats/mts.md). Several processes may do so at once: each
 * holds a lock on the file while it writes, and waits for it a bounded time.
 */

#include <sys/types.h>

#include "base/err.h"
#include "formats/mts.h"
#include "wire/state.h"

/* What a writer remembers from one snapshot to the next. All-zero is valid: nothing. */
struct mt_mts_writer {
	uint64_t device, inode, end; /* of the file after our last frame; end 0: nothing */
	uint64_t lost_here;          /* snapshots that failed and are not in a header yet */
	struct mt_mts_table last;    /* of our last frame */
	uint32_t number;             /* of it */
	uint64_t time_ns;
};

/* NULL is allowed. */
void mt_mts_writer_done(struct mt_mts_writer *w);
MT_AUTO_DEFINE_INPLACE(mt_mts_writer, struct mt_mts_writer, mt_mts_writer_done)

/* Where a series lies, and of which process it is. */
struct mt_mts_place {
	int dir_fd;       /* of the directory, or AT_FDCWD */
	const char *name; /* of the file, from there; a symbolic link is refused */
	const char *path; /* for messages */
	const struct mt_state_header *state;
	uint64_t limit_bytes;   /* of a new file; 0: MT_MTS_LIMIT_BYTES */
	uint64_t reserve_bytes; /* room that others need in this file system: it is left to them */
	uid_t owner;            /* of a new file (root may write for others) */
};

/*
 * Appends a point with the sites of `table`; its number is chosen here, and the units in which
 * variances are stored. The file is made when there
 * is none. 0 with *ret_number (may be NULL), or a negative errno value with *err; then the file is
 * as it was, and the snapshot is counted as lost in the file or, until that can be, in the writer.
 * -EBUSY: another process held the lock all the time.
 */
int mt_mts_append(struct mt_mts_writer *w, const struct mt_mts_place *place,
		  struct mt_series_point *point, struct mt_mts_table *table, uint32_t *ret_number,
		  struct mt_err *err);

#endif
