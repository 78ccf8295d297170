/* SPDX-License-Identifier: MIT */
#ifndef MT_TARGET_IMAGE_CORE_H
#define MT_TARGET_IMAGE_CORE_H

/* The part of an image that a core file has of its own. */

struct mt_core;

/* NULL is allowed. */
void mt_core_free(struct mt_core *c);

#endif
