/* SPDX-License-Identifier: MIT */
/* Any bytes as a recording: indexed, and every event of it merged. */
#include <stdlib.h>

#include "base/buf.h"
#include "formats/mtr_events.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

/* Live bytes and blocks by the steps and by the table at the end are the same. */
static void walk(const struct mt_mtr *m)
{
	struct mt_mtr_events *e = mt_mtr_events_new(m);
	struct mt_mtr_step s;
	uint64_t bytes = 0, blocks = 0, last = 0;
	uint32_t slots = 0;

	while (mt_mtr_events_next(e, &s) == 1) {
		if (s.unit < last)
			abort();
		last = s.unit;
		bytes += s.made.size - s.gone.size;
		blocks += (s.made.cell != 0) - (s.gone.cell != 0);
	}
	const struct mt_mtr_live *live = mt_mtr_events_live(e, &slots);
	for (uint32_t i = 0; i < slots; i++) {
		bytes -= live[i].size;
		blocks -= live[i].cell != 0;
	}
	if ((bytes || blocks) && !mt_mtr_events_losses(e).ambiguous)
		abort();
	mt_mtr_events_free(e);
}

static void add(struct mt_buf *file, uint32_t thread, const uint8_t *codes, size_t len)
{
	struct mt_stream_block head = {
		.magic = MT_STREAM_BLOCK_MAGIC,
		.kind = MT_STREAM_EVENTS,
		.thread = thread,
		.stored_bytes = (uint32_t)len,
		.raw_bytes = (uint32_t)len,
	};

	head.checksum = mt_stream_checksum(&head, codes);
	mt_buf_add(file, &head, sizeof(head));
	mt_buf_add(file, codes, len);
}

/* The bytes as the codes of two threads: past the checksum, which no fuzzer finds. */
static void walk_codes(const uint8_t *data, size_t size_bytes)
{
	mt_auto(mt_buf) struct mt_buf file = {0};
	struct mt_stream_header h = {
		.version_major = MT_STREAM_VERSION_MAJOR,
		.byte_order = MT_STREAM_BYTE_ORDER,
		.header_bytes = sizeof(h),
	};
	size_t first = size_bytes / 2;
	struct mt_mtr m;

	if (size_bytes > MT_STREAM_CODE_BYTES)
		return;
	__builtin_memcpy(h.magic, MT_STREAM_MAGIC, sizeof(h.magic));
	mt_buf_add(&file, &h, sizeof(h));
	add(&file, 1, data, first);
	add(&file, 2, data + first, size_bytes - first);
	if (mt_mtr_open_memory(&m, file.data, file.len, "codes", NULL) || m.blocks != 2)
		abort();
	walk(&m);
	mt_mtr_close(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
	struct mt_mtr m;
	struct mt_err err;

	walk_codes(data, size_bytes);
	if (mt_mtr_open_memory(&m, data, size_bytes, "fuzz", &err)) {
		if (!err.code || !err.text[0])
			abort();
		return 0;
	}
	walk(&m);
	mt_mtr_close(&m);
	return 0;
}
