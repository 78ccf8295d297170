/* SPDX-License-Identifier: MIT */
#ifndef MT_HEAP_DETECT_H
#define MT_HEAP_DETECT_H

/* Which allocator a program's malloc reaches. Private to heap. */

#include "target/image.h"

enum mt_allocator {
	MT_ALLOCATOR_UNKNOWN,
	MT_ALLOCATOR_GLIBC,
	MT_ALLOCATOR_MUSL,
	MT_ALLOCATOR_JEMALLOC,
	MT_ALLOCATOR_MIMALLOC,
	MT_ALLOCATOR_TCMALLOC, /* of gperftools */
	MT_ALLOCATOR_GOOGLE_TCMALLOC,
	MT_ALLOCATOR_SCUDO,
	MT_ALLOCATOR_SANITIZER,
	MT_ALLOCATOR_RPMALLOC,
	MT_ALLOCATOR_SNMALLOC,
};

struct mt_allocator_found {
	enum mt_allocator allocator;
	const char *name;                     /* "jemalloc"; for an unknown one "an allocator" */
	const struct mt_image_module *module; /* that defines malloc; NULL: none does */
};

/* Never fails: what is not recognised is unknown. */
void mt_allocator_find(struct mt_image *im, struct mt_allocator_found *ret_found);

#endif
