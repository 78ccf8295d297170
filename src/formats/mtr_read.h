/* SPDX-License-Identifier: MIT */
#ifndef MT_FORMATS_MTR_READ_H
#define MT_FORMATS_MTR_READ_H

/*
 * A recording's blocks (docs/formats/mtr.md): found once, read one by one. The file may hold
 * anything; what cannot be used is left out and counted. Memory follows from what the file stores.
 */

#include <stdbool.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "core/cc.h"
#include "wire/stream.h"

enum { MT_MTR_LIVE_BYTES_MAX = 1 << 20 }; /* of one LIVE block; more blocks are written instead */

struct mt_mtr_block {
	uint64_t offset; /* of the payload */
	struct mt_stream_block head;
};

struct mt_mtr {
	int fd;              /* owned; -1: memory */
	const uint8_t *data; /* borrowed; NULL: descriptor */
	uint64_t size_bytes;
	const char *name; /* for messages; borrowed */
	struct mt_stream_header header;
	struct mt_mtr_block *block; /* owned; events by thread, then number; others first */
	size_t blocks, capacity;
	bool has_end, is_limited;
	uint64_t end_lost;      /* of the END block: events that were dropped */
	uint64_t damaged_bytes; /* that belong to no block */
	uint64_t cut_bytes;     /* of a block that the file's end cuts off */
	uint64_t twice;         /* blocks that are in the file a second time */
};

/*
 * Opens and indexes a recording. 0, then mt_mtr_close(); or a negative errno value with *err:
 * -EBADMSG for what is no recording, -EPROTONOSUPPORT for another version or byte order.
 */
int mt_mtr_open(struct mt_mtr *ret_m, const char *path, struct mt_err *err);
int mt_mtr_open_memory(struct mt_mtr *ret_m, const void *data, size_t len, const char *name,
		       struct mt_err *err);
void mt_mtr_close(struct mt_mtr *m);
MT_AUTO_DEFINE_INPLACE(mt_mtr, struct mt_mtr, mt_mtr_close)

/*
 * A block's payload, not compressed: a heap block of head.raw_bytes (at least 1) that the caller
 * frees. 0, -ENOMEM, -EBADMSG when it is damaged, or the errno of a failed read.
 */
int mt_mtr_load(const struct mt_mtr *m, const struct mt_mtr_block *b, uint8_t **ret_payload);

#endif
