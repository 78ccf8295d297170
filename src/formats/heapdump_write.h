/* SPDX-License-Identifier: MIT */
#ifndef MT_FORMATS_HEAPDUMP_WRITE_H
#define MT_FORMATS_HEAPDUMP_WRITE_H

/* Writes what is live in a profile as an Android Native Heap Dump (docs/formats/heapdump.md). */

#include "base/buf.h"
#include "model/profile.h"
#include "model/records.h"

struct mt_heapdump_options {
	uint32_t version; /* 10, 11 or 12: v1.0 to v1.2 */
	/* verbatim text of the process's /proc/PID/maps; NULL: made from the profile's modules */
	const char *maps;
	/*
	 * Adds bt_info lines: the name of the function that holds a frame and the distance from its
	 * begin; NULL: not known. v1.2 only; NULL: no such lines.
	 */
	const char *(*function)(void *context, const struct mt_profile *p, uint32_t node,
				uint64_t *ret_offset);
	void *context;
};

/*
 * Appends the dump (an out.drain keeps that small). `records` are those of p, each stack and size
 * becomes one record. Frames of the tracker itself and frames that have no address (file and line
 * given by the program) are left out; the latter are counted in *ret_unplaced (may be NULL). The
 * same input gives the same bytes. 0 or -ENOMEM.
 */
int mt_heapdump_write(const struct mt_profile *p, const struct mt_records *records,
		      const struct mt_heapdump_options *options, struct mt_buf *out,
		      uint64_t *ret_unplaced);

#endif
