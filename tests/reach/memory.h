/* SPDX-License-Identifier: MIT */
#ifndef TESTS_REACH_MEMORY_H
#define TESTS_REACH_MEMORY_H

/* A stretch of memory at made-up addresses, with holes that cannot be read. */

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "reach/mark.h"

enum { MEMORY_PAGE = 4096, MEMORY_PAGES = 64, MEMORY_BYTES = MEMORY_PAGE * MEMORY_PAGES };
#define MEMORY_BASE 0x7f1234560000u

struct memory {
	uint8_t data[MEMORY_BYTES]; /* from MEMORY_BASE on */
	bool is_hole[MEMORY_PAGES];
	size_t longest_read;
};

static inline size_t memory_read(void *context, uint64_t address, void *to, size_t bytes)
{
	struct memory *m = context;
	size_t got = 0;

	/* several threads may read */
	size_t longest = __atomic_load_n(&m->longest_read, __ATOMIC_RELAXED);

	while (bytes > longest && !__atomic_compare_exchange_n(&m->longest_read, &longest, bytes, 0,
							       __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		continue;
	while (got < bytes) {
		uint64_t at = address + got - MEMORY_BASE;

		if (at >= MEMORY_BYTES || m->is_hole[at / MEMORY_PAGE])
			break;
		((uint8_t *)to)[got++] = m->data[at];
	}
	return got;
}

static inline void memory_put(struct memory *m, uint64_t address, uint64_t word)
{
	memcpy(&m->data[address - MEMORY_BASE], &word, sizeof(word));
}

static inline uint64_t memory_get(const struct memory *m, uint64_t address)
{
	uint64_t word;

	memcpy(&word, &m->data[address - MEMORY_BASE], sizeof(word));
	return word;
}

/* The same numbers everywhere. */
static inline uint64_t memory_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 17;
}

#endif
