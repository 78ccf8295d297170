/* SPDX-License-Identifier: MIT */
#ifndef MT_TARGET_IMAGE_APART_H
#define MT_TARGET_IMAGE_APART_H

/* Memory of a process that its copy lacks: MADV_DONTFORK, MADV_WIPEONFORK. */

#include "target/image_internal.h"

/* Bytes of a mapping that lie in the image, not in the copy. */
struct mt_image_apart {
	uint64_t start, end;
	const uint8_t *data; /* owned by the arena */
};

/*
 * The image is of a copy, with its mappings. Mappings that the copy lacks are added, and these and
 * the wiped ones are read from the process: of this moment, not of the copy's. What is too much, or
 * cannot be read, is in facts.apart_bytes. 0 or -ENOMEM.
 */
int mt_image_take_apart(struct mt_image *im);

/*
 * The part that holds an address, or NULL; then *ret_next is where the next one begins, UINT64_MAX
 * without one.
 */
const struct mt_image_apart *mt_image_apart_of(const struct mt_image *im, uint64_t address,
					       uint64_t *ret_next);

#endif
