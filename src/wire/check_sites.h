/* SPDX-License-Identifier: MIT */
#ifndef MT_WIRE_CHECK_SITES_H
#define MT_WIRE_CHECK_SITES_H

/*
 * A list of call sites, for options of check mode: entries separated by commas, each as reports
 * print them.
 *
 *   MODULE+0xOFFSET      a frame; MODULE is the last part of a path, or a whole path, with * and ?
 *   16 digits, or 0x...  a callstack_hash
 */

#include "core/cc.h"

struct mt_check_site {
	const char *module; /* not NUL-terminated; NULL: `value` is a callstack_hash */
	size_t module_len;
	uint64_t value;
};

/*
 * Reads the entry at *at, which is below end, and moves *at behind it and its comma. 1, or 0: it is
 * none, or a comma ends the list.
 */
int mt_check_site_next(const char **at, const char *end, struct mt_check_site *ret_site);

/* 1: the text is such a list, and not empty. */
int mt_check_sites_are_good(const char *at, const char *end);

#endif
