/* SPDX-License-Identifier: MIT */
/* Files of the symbol cache: any bytes are refused or give a set that is encoded to the same bytes.
 */
#include "symbolize/symcache.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

enum { HEADER = MT_SYMCACHE_HEADER_BYTES, HASH_AT = 40 };

/* Makes the hash right, so that the checks behind it are reached. */
static void repair_hash(uint8_t *data, size_t size_bytes, uint64_t identity)
{
	uint64_t hash = mt_hash_bytes(data + HEADER, size_bytes - HEADER, identity);
	for (int i = 0; i < 8; i++)
		data[HASH_AT + i] = (uint8_t)(hash >> (8 * i));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
	static const uint64_t identity = 0x1122334455667788;
	struct mt_symset set = {0};
	struct mt_buf again = {0};
	uint8_t *copy = malloc(size_bytes + 1);
	if (!copy)
		abort();
	memcpy(copy, data, size_bytes);
	if (size_bytes >= HEADER)
		repair_hash(copy, size_bytes, identity);
	if (!mt_symcache_decode(copy, size_bytes, identity, &set)) {
		for (size_t i = 0; i < set.entries; i++)
			if (mt_symset_find(&set, set.entry[i].vaddr) != &set.entry[i])
				abort();
		if (mt_symcache_encode(&set, identity, &again))
			abort();
	}
	mt_buf_done(&again);
	mt_symset_done(&set);
	free(copy);
	return 0;
}
