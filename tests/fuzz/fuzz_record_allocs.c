/* SPDX-License-Identifier: MIT */
/* Any bytes as a record_allocs text; each line that is read is written as it was understood. */
#include <stdlib.h>
#include <string.h>

#include "formats/record_allocs_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static void read_and_write(const char *text)
{
	struct mt_record_allocs_line first, again;
	struct mt_buf out = {0};

	if (mt_record_allocs_parse(text, &first, NULL))
		return;
	mt_record_allocs_put(&out, &first);
	if (!out.failed &&
	    (mt_record_allocs_parse(out.data, &again, NULL) || first.kind != again.kind ||
	     first.pointer != again.pointer || first.size != again.size ||
	     first.end_ns != again.end_ns || first.present_bytes != again.present_bytes))
		abort();
	mt_buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
	struct mt_record_allocs_stats s;
	struct mt_err err = {0};
	char line[256] = {0};

	memcpy(line, data, size_bytes < sizeof(line) ? size_bytes : sizeof(line) - 1);
	line[strcspn(line, "\n")] = 0;
	read_and_write(line);
	mt_record_allocs_is((const char *)data, size_bytes);
	if (mt_record_allocs_read_memory(data, size_bytes, "fuzz", &s, &err)) {
		if (!err.code || !err.text[0])
			abort();
	} else if (s.live_count != s.allocs - s.frees || s.peak_count > s.allocs ||
		   s.live_bytes != s.bytes - s.freed_bytes || s.lost_blocks > s.live_count) {
		abort();
	}
	return 0;
}
