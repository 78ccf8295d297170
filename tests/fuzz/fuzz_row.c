/* SPDX-License-Identifier: MIT */
/*
 * Unwind tables of a module that lies. Input: 8 bytes pc relative to the tables, 4 bytes size of
 * the search table's segment, then .eh_frame_hdr with .eh_frame behind it, which is the whole
 * module.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "unwind/row.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
	enum { HEAD_BYTES = 12 };
	int64_t pc;
	uint32_t hdr_bytes;

	if (size_bytes <= HEAD_BYTES)
		return 0;
	memcpy(&pc, data, 8);
	memcpy(&hdr_bytes, data + 8, 4);
	size_t bytes = size_bytes - HEAD_BYTES;
	uint8_t *image = malloc(bytes);
	if (!image)
		return 0;
	memcpy(image, data + HEAD_BYTES, bytes);
	Elf64_Phdr load = {.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_memsz = bytes};
	struct mt_module m = {
		.lo = (uintptr_t)image,
		.hi = (uintptr_t)image + bytes,
		.bias = (uintptr_t)image,
		.phdr = &load,
		.phnum = 1,
		.eh_frame_hdr = image,
		.eh_frame_hdr_bytes = hdr_bytes < bytes ? hdr_bytes : bytes,
		.name = "",
	};
	for (int step = 0; step < 64; step += 7) {
		uintptr_t at = (uintptr_t)image + (uintptr_t)pc + (uintptr_t)step;
		struct mt_rule rule;
		mt_row row = mt_row_decode(&m, at);
		int r = mt_row_rule(&m, at, &rule);
		/* The packed row and the rule come from the same bytes. */
		if (!r && row != mt_row_pack(&rule))
			abort();
		if (row >> MT_ROW_BITS)
			abort();
	}
	free(image);
	return 0;
}
