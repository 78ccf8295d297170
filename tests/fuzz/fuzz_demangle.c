/* SPDX-License-Identifier: MIT */
/* Mangled names: any name gives a bounded text or none. */
#include "symbolize/demangle.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
	char *name = malloc(size_bytes + 1);
	if (!name)
		abort();
	memcpy(name, data, size_bytes);
	name[size_bytes] = '\0';
	char *text = mt_demangle(name, MT_DEMANGLE_ANY_STACK);
	if (text && (!*text || strlen(text) >= MT_DEMANGLE_OUTPUT_MAX))
		abort();
	free(text);
	free(name);
	return 0;
}
