/* SPDX-License-Identifier: MIT */
/* Open addressing with linear probing, at most 3/4 full, no removal. */
#include "base/map.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"

struct mt_map_slot {
	uint64_t key, value;
	bool used;
};

struct mt_strings_slot {
	uint32_t number; /* 0: free */
	uint32_t hash;
};

enum { SLOTS_MIN = 16 };

void mt_map_done(struct mt_map *m)
{
	if (!m)
		return;
	free(m->slot);
	*m = (struct mt_map){0};
}

/* The slot that holds key, or the free one where it belongs. The table has a free slot. */
static struct mt_map_slot *probe(const struct mt_map *m, uint64_t key)
{
	size_t i = mt_hash_u64(key) & (m->slots - 1);
	while (m->slot[i].used && m->slot[i].key != key)
		i = (i + 1) & (m->slots - 1);
	return &m->slot[i];
}

bool mt_map_get(const struct mt_map *m, uint64_t key, uint64_t *ret_value)
{
	if (!m->count)
		return false;
	const struct mt_map_slot *s = probe(m, key);
	if (s->used && ret_value)
		*ret_value = s->value;
	return s->used;
}

static int map_grow(struct mt_map *m)
{
	struct mt_map bigger = {.slots = m->slots ? m->slots * 2 : SLOTS_MIN, .count = m->count};
	bigger.slot = mt_alloc_zero(bigger.slots, sizeof(*bigger.slot));
	if (!bigger.slot)
		return -ENOMEM;
	for (size_t i = 0; i < m->slots; i++)
		if (m->slot[i].used)
			*probe(&bigger, m->slot[i].key) = m->slot[i];
	free(m->slot);
	*m = bigger;
	return 0;
}

uint64_t *mt_map_at(struct mt_map *m, uint64_t key, bool *ret_created)
{
	if (m->count >= m->slots - m->slots / 4 && map_grow(m))
		return NULL;
	struct mt_map_slot *s = probe(m, key);
	if (ret_created)
		*ret_created = !s->used;
	if (!s->used) {
		*s = (struct mt_map_slot){.key = key, .used = true};
		m->count++;
	}
	return &s->value;
}

int mt_map_set(struct mt_map *m, uint64_t key, uint64_t value)
{
	uint64_t *at = mt_map_at(m, key, NULL);
	if (!at)
		return -ENOMEM;
	*at = value;
	return 0;
}

bool mt_map_next(const struct mt_map *m, size_t *pos, uint64_t *ret_key, uint64_t *ret_value)
{
	for (; *pos < m->slots; (*pos)++) {
		const struct mt_map_slot *s = &m->slot[*pos];
		if (!s->used)
			continue;
		*ret_key = s->key;
		*ret_value = s->value;
		(*pos)++;
		return true;
	}
	return false;
}

void mt_strings_done(struct mt_strings *s)
{
	if (!s)
		return;
	free(s->slot);
	free(s->text);
	mt_arena_free(s->arena);
	*s = (struct mt_strings){0};
}

const char *mt_strings_get(const struct mt_strings *s, uint32_t number)
{
	return number && number <= s->count ? s->text[number] : "";
}

/* The slot of the string, or the free one where it belongs. */
static struct mt_strings_slot *strings_probe(const struct mt_strings *s, const char *text,
					     size_t len, uint32_t hash)
{
	size_t i = hash & (s->slots - 1);
	for (; s->slot[i].number; i = (i + 1) & (s->slots - 1)) {
		const char *have = s->text[s->slot[i].number];
		if (s->slot[i].hash == hash && !strncmp(have, text, len) && !have[len])
			break;
	}
	return &s->slot[i];
}

uint32_t mt_strings_find(const struct mt_strings *s, const char *text, size_t len)
{
	if (!len)
		return 0;
	if (!s->count)
		return UINT32_MAX;
	uint32_t hash = (uint32_t)mt_hash_bytes(text, len, 0);
	uint32_t number = strings_probe(s, text, len, hash)->number;
	return number ? number : UINT32_MAX;
}

static int strings_grow(struct mt_strings *s)
{
	size_t slots = s->slots ? s->slots * 2 : SLOTS_MIN;
	struct mt_strings_slot *slot = mt_alloc_zero(slots, sizeof(*slot));
	if (!slot)
		return -ENOMEM;
	for (size_t i = 0; i < s->slots; i++) {
		if (!s->slot[i].number)
			continue;
		size_t at = s->slot[i].hash & (slots - 1);
		while (slot[at].number)
			at = (at + 1) & (slots - 1);
		slot[at] = s->slot[i];
	}
	free(s->slot);
	s->slot = slot;
	s->slots = slots;
	return 0;
}

/* Room for one more string in every part. */
static int strings_reserve(struct mt_strings *s)
{
	if (s->count >= UINT32_MAX - 1)
		return -ENOMEM;
	if (!s->arena)
		s->arena = mt_arena_new();
	if (!s->arena)
		return -ENOMEM;
	const char **text =
		mt_alloc_grow(s->text, &s->text_cap, (size_t)s->count + 2, sizeof(*text));
	if (!text)
		return -ENOMEM;
	s->text = text;
	if (s->count >= s->slots - s->slots / 4)
		return strings_grow(s);
	return 0;
}

int mt_strings_intern(struct mt_strings *s, const char *text, size_t len, uint32_t *ret_number)
{
	uint32_t found = mt_strings_find(s, text, len);
	if (found != UINT32_MAX) {
		*ret_number = found;
		return 0;
	}
	int r = strings_reserve(s);
	if (r)
		return r;
	const char *copy = mt_arena_strndup(s->arena, text, len);
	if (!copy)
		return -ENOMEM;
	uint32_t hash = (uint32_t)mt_hash_bytes(text, len, 0);
	struct mt_strings_slot *slot = strings_probe(s, text, len, hash);
	s->text[++s->count] = copy;
	*slot = (struct mt_strings_slot){.number = s->count, .hash = hash};
	*ret_number = s->count;
	return 0;
}
