/* SPDX-License-Identifier: MIT */
#ifndef MT_BASE_MAP_H
#define MT_BASE_MAP_H

/*
 * Hash tables: u64 -> u64, and strings -> small numbers. All-zero is a valid empty one. Not
 * thread-safe. Hash order must not reach any output: sort what mt_map_next gives.
 */

#include <stdbool.h>

#include "base/cleanup.h"
#include "core/cc.h"
#include "core/hash.h"

struct mt_map_slot;
struct mt_map {
	struct mt_map_slot *slot; /* owned; 2^n of them or none */
	size_t slots, count;
};

/* Frees the table; it is empty and usable again. NULL is allowed. */
void mt_map_done(struct mt_map *m);
MT_AUTO_DEFINE_INPLACE(mt_map, struct mt_map, mt_map_done)

/* Whether key is there; then *ret_value (may be NULL) is set. Any key is allowed, 0 too. */
bool mt_map_get(const struct mt_map *m, uint64_t key, uint64_t *ret_value);

/* Inserts or replaces; 0 or -ENOMEM (then nothing changed). */
int mt_map_set(struct mt_map *m, uint64_t key, uint64_t value);

/*
 * The place of key's value, entered as 0 when it was not there (*ret_created, may be NULL, says
 * so), or NULL (no memory). Valid until the next insertion.
 */
uint64_t *mt_map_at(struct mt_map *m, uint64_t key, bool *ret_created);

/* Walks all entries: start with *pos = 0; false at the end. No insertion meanwhile. */
bool mt_map_next(const struct mt_map *m, size_t *pos, uint64_t *ret_key, uint64_t *ret_value);

/* Interned strings: each distinct string once, numbered from 1 in order of arrival; 0 is "". */
struct mt_arena;
struct mt_strings_slot;
struct mt_strings {
	struct mt_strings_slot *slot; /* owned */
	const char **text;            /* owned; text[number], number >= 1 */
	struct mt_arena *arena;       /* owns the bytes */
	size_t slots, text_cap;
	uint32_t count; /* highest number */
};

/* Frees all; it is empty and usable again. NULL is allowed. */
void mt_strings_done(struct mt_strings *s);
MT_AUTO_DEFINE_INPLACE(mt_strings, struct mt_strings, mt_strings_done)

/* Number of the string of len bytes (no NUL inside), entered if new. 0 or -ENOMEM. */
int mt_strings_intern(struct mt_strings *s, const char *text, size_t len, uint32_t *ret_number);

/* Number of a string, or UINT32_MAX when it is not there. */
uint32_t mt_strings_find(const struct mt_strings *s, const char *text, size_t len);

/* The string of a number; "" for 0 and for unknown numbers. Valid until mt_strings_done(). */
const char *mt_strings_get(const struct mt_strings *s, uint32_t number);

#endif
