/* SPDX-License-Identifier: MIT */
#ifndef MT_TESTS_SUPPORT_MTR_BUILDER_H
#define MT_TESTS_SUPPORT_MTR_BUILDER_H

/* Recordings made by hand, byte by byte, in memory. */

#include "base/buf.h"
#include "wire/stream.h"

/* A recording without blocks. */
void mtr_begin(struct mt_buf *file);

/* A block that is not compressed; raw_bytes, stored_bytes, magic and checksum are filled in. */
void mtr_block(struct mt_buf *file, struct mt_stream_block head, const void *payload, size_t len);

/* An events block of a thread. */
#define MTR_EVENTS(file, thread_, number_, first_, unit_, ...) \
	do { \
		const uint8_t codes_[] = {__VA_ARGS__}; \
		mtr_block(file, \
			  (struct mt_stream_block){.kind = MT_STREAM_EVENTS, \
						   .thread = (thread_), \
						   .tid = 100 + (thread_), \
						   .number = (number_), \
						   .first_sequence = (first_), \
						   .first_unit = (unit_)}, \
			  codes_, sizeof(codes_)); \
	} while (0)

#endif
