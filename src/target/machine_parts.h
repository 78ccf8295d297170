/* SPDX-License-Identifier: MIT */
#ifndef MT_TARGET_MACHINE_PARTS_H
#define MT_TARGET_MACHINE_PARTS_H

/* How wholes are made of parts. Private to target. */

#include "target/machine.h"

/* Nothing is added for MT_MEMORY_UNKNOWN. Texts are borrowed. */
void mt_whole_add_part(struct mt_whole *w, const char *key, const char *name, const char *what,
		       uint64_t bytes);
void mt_whole_add_fact(struct mt_whole *w, const char *key, const char *name, const char *what,
		       uint64_t bytes);
/* Computes the rest. */
void mt_whole_finish(struct mt_whole *w);

/* a - b, not below 0; a when one of them is not known. */
uint64_t mt_whole_less(uint64_t a, uint64_t b);

#endif
