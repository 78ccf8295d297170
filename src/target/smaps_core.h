/* SPDX-License-Identifier: MIT */
#ifndef MT_TARGET_SMAPS_CORE_H
#define MT_TARGET_SMAPS_CORE_H

/* The mappings of a core file: addresses, names of files, and how much of each the file holds. */

#include "target/smaps.h"

/*
 * Of each mapping there is the size and MT_SMAPS_DUMPED; what was in memory a core file does not
 * tell, nor what was shared. Names are borrowed from the image. 0 or -ENOMEM.
 */
int mt_smaps_of_core(struct mt_image *im, struct mt_smaps *ret_smaps);

#endif
