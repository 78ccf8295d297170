/* SPDX-License-Identifier: MIT */
#ifndef MT_SYMBOLIZE_ZIP_H
#define MT_SYMBOLIZE_ZIP_H

/* What lies where in a zip file: Android maps libraries right out of an application's package. */

#include <stdint.h>

/* A member that is stored as it is, not compressed. */
struct mt_zip_member {
	char *name;      /* owned: free() */
	uint64_t offset; /* of its contents in the file */
	uint64_t bytes;
};

/*
 * The stored member of the file at `path` whose contents cover this offset of it. 0; -ENOENT: there
 * is none; -EBADMSG: it is no zip file, or a damaged one; -ENOMEM; or that of a failed open or
 * read. Any thread.
 */
int mt_zip_find(const char *path, uint64_t offset, struct mt_zip_member *ret_member);

#endif
