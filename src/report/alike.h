/* SPDX-License-Identifier: MIT */
#ifndef MT_REPORT_ALIKE_H
#define MT_REPORT_ALIKE_H

/*
 * Sentences for people, of which dozens of processes may each have one: those that begin with
 * "process PID: " and differ in numbers at most become one line with a count. All others stay as
 * they are, and so does the order. Machine formats have every sentence.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct mt_alike_line {
	char *first; /* owned; as it was added */
	uint64_t more;
	bool has_other_numbers; /* one of those more */
};

/* All-zero: empty. */
struct mt_alike {
	struct mt_alike_line *line; /* owned */
	size_t count, capacity;
	bool failed; /* no memory */
};

void mt_alike_done(struct mt_alike *a);
MT_AUTO_DEFINE_INPLACE(mt_alike, struct mt_alike, mt_alike_done)

/* Adds a copy. opaque: a struct mt_alike. */
void mt_alike_add(void *opaque, const char *sentence);

/* Calls emit with each line, in the order of their first sentences. 0 or -ENOMEM. */
int mt_alike_each(const struct mt_alike *a, void (*emit)(void *context, const char *sentence),
		  void *context);

#endif
