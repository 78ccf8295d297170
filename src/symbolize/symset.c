/* SPDX-License-Identifier: MIT */
/* Addresses and their frames; see symset.h. Frames of an entry lie side by side. */
#include "symbolize/symset.h"

#include "base/alloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void mt_symset_done(struct mt_symset *s)
{
	if (!s)
		return;
	mt_strings_done(&s->strings);
	free(s->entry);
	free(s->frame);
	*s = (struct mt_symset){0};
}

int mt_symset_add_entry(struct mt_symset *s, uint64_t vaddr)
{
	struct mt_symset_entry *entry =
		mt_alloc_grow(s->entry, &s->entry_cap, s->entries + 1, sizeof(*entry));
	if (!entry)
		return -ENOMEM;
	s->entry = entry;
	entry[s->entries++] =
		(struct mt_symset_entry){.vaddr = vaddr, .first = (uint32_t)s->frames};
	return 0;
}

int mt_symset_add_frame(struct mt_symset *s, const struct mt_symset_frame *frame)
{
	struct mt_symset_frame *frames =
		mt_alloc_grow(s->frame, &s->frame_cap, s->frames + 1, sizeof(*frames));
	if (!frames)
		return -ENOMEM;
	s->frame = frames;
	frames[s->frames++] = *frame;
	s->entry[s->entries - 1].count++;
	return 0;
}

int mt_symset_string(struct mt_symset *s, const char *text, uint32_t *ret_number)
{
	if (!text || !*text) {
		*ret_number = 0;
		return 0;
	}
	return mt_strings_intern(&s->strings, text, strlen(text), ret_number);
}

static int compare_entries(const void *a, const void *b)
{
	const struct mt_symset_entry *x = a, *y = b;
	return (x->vaddr > y->vaddr) - (x->vaddr < y->vaddr);
}

void mt_symset_sort(struct mt_symset *s)
{
	if (s->entries)
		qsort(s->entry, s->entries, sizeof(*s->entry), compare_entries);
}

const struct mt_symset_entry *mt_symset_find(const struct mt_symset *s, uint64_t vaddr)
{
	size_t low = 0, high = s->entries;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (s->entry[mid].vaddr == vaddr)
			return &s->entry[mid];
		if (s->entry[mid].vaddr < vaddr)
			low = mid + 1;
		else
			high = mid;
	}
	return NULL;
}

static int copy_entry(struct mt_symset *to, const struct mt_symset *from,
		      const struct mt_symset_entry *entry)
{
	int r = mt_symset_add_entry(to, entry->vaddr);
	for (uint32_t i = 0; i < entry->count && !r; i++) {
		struct mt_symset_frame f = from->frame[entry->first + i];
		r = mt_symset_string(to, mt_strings_get(&from->strings, f.function), &f.function);
		if (!r)
			r = mt_symset_string(to, mt_strings_get(&from->strings, f.mangled),
					     &f.mangled);
		if (!r)
			r = mt_symset_string(to, mt_strings_get(&from->strings, f.file), &f.file);
		if (!r)
			r = mt_symset_add_frame(to, &f);
	}
	return r;
}

int mt_symset_merge(struct mt_symset *to, const struct mt_symset *from)
{
	const size_t sorted = to->entries;
	int r = 0;
	for (size_t i = 0; i < from->entries && !r; i++) {
		const struct mt_symset view = {.entry = to->entry, .entries = sorted};
		if (!mt_symset_find(&view, from->entry[i].vaddr))
			r = copy_entry(to, from, &from->entry[i]);
	}
	mt_symset_sort(to);
	return r;
}
