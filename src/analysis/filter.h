/* SPDX-License-Identifier: MIT */
#ifndef MT_ANALYSIS_FILTER_H
#define MT_ANALYSIS_FILTER_H

/* Which sites a table takes, by the module that made the call. */

#include <stdbool.h>
#include <stdint.h>

struct mt_profile;

/*
 * Whether a site passes `patterns`: ±GLOB separated by commas. A glob without a '/' is matched with
 * the last part of the module's path. "+GLOB" or "GLOB" takes matching modules, "-GLOB" leaves them
 * out; the last pattern that matches decides. When none matches, the site passes unless the list
 * begins with one that takes. NULL or "": every site passes.
 */
bool mt_filter_module(const struct mt_profile *p, uint32_t site, const char *patterns);

#endif
