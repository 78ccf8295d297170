/* SPDX-License-Identifier: MIT */
/* Suppression files: any bytes are read or refused, and what was read can be matched. */
#include "analysis/suppress.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
	static const struct mt_suppress_frame frame[] = {
		{.function = "malloc"},
		{.function = "inner", .file = "inner.h", .line = 3, .is_inlined = true},
		{.function = "a::b(int)", .mangled = "_ZN1a1bEi", .file = "/x/a.cc", .line = 12},
		{.module = "/usr/lib/libx.so.1"},
		{.function = "main", .module = "/usr/bin/app"},
	};
	enum { FRAMES = sizeof(frame) / sizeof(frame[0]) };
	struct mt_err err = {0};
	struct mt_suppressions *s = mt_suppressions_new();
	if (!s)
		abort();
	int r = mt_suppressions_read(s, "input", (const char *)data, size_bytes, &err);
	if (!r != !err.code || (r && (mt_suppressions_count(s) || !err.text[0])))
		abort();
	uint32_t rule = mt_suppressions_match(s, frame, FRAMES);
	if (rule > mt_suppressions_count(s))
		abort();
	mt_suppressions_free(s);
	return 0;
}
