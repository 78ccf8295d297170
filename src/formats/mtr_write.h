/* SPDX-License-Identifier: MIT */
#ifndef MT_FORMATS_MTR_WRITE_H
#define MT_FORMATS_MTR_WRITE_H

/*
 * Appends blocks to a recording (docs/formats/mtr.md). The tracked program may append to the same
 * file, so nothing is written but at its end, a block with one call.
 */

#include "base/cleanup.h"
#include "base/err.h"
#include "wire/state.h"
#include "wire/stream.h"

struct mt_mtr_writer;
void mt_mtr_writer_free(struct mt_mtr_writer *w);
MT_AUTO_DEFINE(mt_mtr_writer, struct mt_mtr_writer *, mt_mtr_writer_free)

/*
 * Opens or makes the recording of the process with this state header; limit_bytes: 0 for none. 0 or
 * a negative errno value with *err.
 */
int mt_mtr_writer_open(const char *path, const struct mt_state_header *state, uint64_t limit_bytes,
		       struct mt_mtr_writer **ret_w, struct mt_err *err);

/*
 * Appends a block: kind, thread and so on from head, raw_bytes of payload, which is compressed. 0;
 * -EDQUOT: events would pass limit_bytes; another negative errno value; then the file is as it was,
 * but for what others appended.
 */
int mt_mtr_append(struct mt_mtr_writer *w, const struct mt_stream_block *head, const void *payload);

/* The same of any block with a limit of its own, 0: none. Room for the END block is left. */
int mt_mtr_append_upto(struct mt_mtr_writer *w, const struct mt_stream_block *head,
		       const void *payload, uint64_t limit_bytes);

/* Takes back what was appended behind that many bytes. 0 or a negative errno value. */
int mt_mtr_writer_truncate(struct mt_mtr_writer *w, uint64_t bytes);

/*
 * Leaves the last blocks of a recording, at most most_bytes of them, and none that lists live
 * blocks: a new list is to follow. Nobody else may write meanwhile. 0 or a negative errno value
 * with *err, and the file is as it was.
 */
int mt_mtr_cut(const char *path, uint64_t most_bytes, struct mt_err *err);

/* Its size now. */
uint64_t mt_mtr_writer_bytes(const struct mt_mtr_writer *w);

#endif
