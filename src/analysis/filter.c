/* SPDX-License-Identifier: MIT */
/* Module patterns. */

#include "analysis/filter.h"

#include "analysis/callstack.h"
#include "model/profile.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

enum { PATTERN_MAX = 4096 };

static bool is_match(const char *pattern, size_t len, const char *path)
{
	char glob[PATTERN_MAX];

	if (len >= sizeof(glob))
		return false;
	snprintf(glob, sizeof(glob), "%.*s", (int)len, pattern);
	return !fnmatch(glob, strchr(glob, '/') ? path : mt_names_base(path), 0);
}

bool mt_filter_module(const struct mt_profile *p, uint32_t site, const char *patterns)
{
	uint32_t top, module;
	const char *path;
	bool passes;

	if (!patterns || !*patterns)
		return true;
	top = mt_callstack_top(p, p->site[site].node);
	module = top ? p->node[top].module : 0;
	path = module < p->module_count ? p->module[module].path : "";
	passes = *patterns == '-';
	while (*patterns) {
		bool takes = *patterns != '-';
		size_t len;

		patterns += *patterns == '-' || *patterns == '+';
		len = strcspn(patterns, ",");
		if (is_match(patterns, len, path))
			passes = takes;
		patterns += len + (patterns[len] == ',');
	}
	return passes;
}
