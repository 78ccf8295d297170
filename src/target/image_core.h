/* SPDX-License-Identifier: MIT */
#ifndef MT_TARGET_IMAGE_CORE_H
#define MT_TARGET_IMAGE_CORE_H

/* The part of an image that a core file has of its own. */

#include <stddef.h>
#include <stdint.h>

struct mt_core;
struct mt_image;

/* NULL is allowed. */
void mt_core_free(struct mt_core *c);

/* How many bytes of the image's mapping of this index the core file itself holds. */
uint64_t mt_core_held_bytes(const struct mt_image *im, size_t mapping);

/*
 * How many bytes of a mapping, from its start on, can be there at all: in the core file, or in the
 * file that was mapped. All of them if the image is of no core file.
 */
uint64_t mt_core_known_bytes(const struct mt_image *im, size_t mapping);

#endif
