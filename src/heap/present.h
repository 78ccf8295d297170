/* SPDX-License-Identifier: MIT */
#ifndef MT_HEAP_PRESENT_H
#define MT_HEAP_PRESENT_H

/*
 * Which pages of an image's process were ever written: those that were not need not be read, and
 * reading them would make page tables for them. Private to heap.
 */

#include "target/pagemap.h"

struct mt_present {
	struct mt_pagemap map;
};

/* Never fails: what cannot be known counts as written. */
void mt_present_open(struct mt_present *p, const struct mt_image_facts *facts);
void mt_present_close(struct mt_present *p);
MT_AUTO_DEFINE_INPLACE(mt_present, struct mt_present, mt_present_close)

/* The first written page from `address` (the start of one) on, or `end` when none is before. */
uint64_t mt_present_next(struct mt_present *p, uint64_t address, uint64_t end);

#endif
