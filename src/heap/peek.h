/* SPDX-License-Identifier: MIT */
#ifndef MT_HEAP_PEEK_H
#define MT_HEAP_PEEK_H

/* Small reads of an image, many of them near each other: through a cache. One thread at a time. */

#include "base/cleanup.h"
#include "target/image.h"

struct mt_peek_line;
struct mt_peek {
	struct mt_image *im;       /* borrowed */
	struct mt_peek_line *line; /* owned */
};

/* 0 or -ENOMEM. */
int mt_peek_init(struct mt_peek *p, struct mt_image *im);
void mt_peek_done(struct mt_peek *p);
MT_AUTO_DEFINE_INPLACE(mt_peek, struct mt_peek, mt_peek_done)

/* Copies bytes from an address: 0, or -EFAULT when not all can be read (then *to is undefined). */
int mt_peek(struct mt_peek *p, uint64_t address, void *to, size_t bytes);

/* A word; 0 or -EFAULT. */
static inline int mt_peek_u64(struct mt_peek *p, uint64_t address, uint64_t *ret_word)
{
	return mt_peek(p, address, ret_word, sizeof(*ret_word));
}

#endif
