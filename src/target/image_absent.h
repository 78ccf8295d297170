/* SPDX-License-Identifier: MIT */
#ifndef MT_TARGET_IMAGE_ABSENT_H
#define MT_TARGET_IMAGE_ABSENT_H

/*
 * Bytes of pages that a running process has mapped but not touched. To read them out of the process
 * would bring them into its memory: it would be larger because somebody looked. They are what its
 * files hold, or zeros.
 */

#include "target/image.h"

struct mt_image_absent;

/* NULL: it cannot be known which pages there are (or memory is short), and all are read. */
struct mt_image_absent *mt_image_absent_new(pid_t pid);
void mt_image_absent_free(struct mt_image_absent *a);

/*
 * The first part of [address, address + *bytes), if it is in no page that is there: how many bytes
 * were copied. 0: it is to be read out of the process, but not more than *bytes, which may have
 * become fewer.
 */
size_t mt_image_absent_read(struct mt_image_absent *a, const struct mt_image *im, uint64_t address,
			    void *to, size_t *bytes);

#endif
