/* SPDX-License-Identifier: MIT */
#include "support/mtr_builder.h"

#include <string.h>

void mtr_begin(struct mt_buf *file)
{
	struct mt_stream_header h = {
		.version_major = MT_STREAM_VERSION_MAJOR,
		.version_minor = MT_STREAM_VERSION_MINOR,
		.byte_order = MT_STREAM_BYTE_ORDER,
		.header_bytes = sizeof(h),
		.pid = 4242,
		.proc_start = 1000,
		.wall_start_ns = 1700000000000000000u,
	};

	memcpy(h.magic, MT_STREAM_MAGIC, sizeof(h.magic));
	mt_buf_truncate(file, 0);
	mt_buf_add(file, &h, sizeof(h));
}

void mtr_block(struct mt_buf *file, struct mt_stream_block head, const void *payload, size_t len)
{
	head.magic = MT_STREAM_BLOCK_MAGIC;
	head.stored_bytes = head.raw_bytes = (uint32_t)len;
	head.checksum = mt_stream_checksum(&head, payload);
	mt_buf_add(file, &head, sizeof(head));
	mt_buf_add(file, payload, len);
}
