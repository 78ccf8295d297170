/* SPDX-License-Identifier: MIT */
/* Options that a mode does not know, and heaps that are none, are refused before the start. */
#include "cli/run_modes.h"

#include "cli/command.h"
#include "core/cc.h"

#include <string.h>

static bool is_mode(const char *word, const char *mode)
{
	return word && !strcmp(word, mode);
}

int mt_run_modes_check(const struct mt_run_use *use, size_t count, const char *mode, bool is_quiet)
{
	for (size_t i = 0; i < count; i++) {
		if (!use[i].is_given || is_mode(use[i].mode, mode))
			continue;
		if (is_mode(use[i].later, mode)) {
			if (!is_quiet)
				mt_complain("--%s counts in --mode=%s only once sampling begins, "
					    "by memtrack ctl or a profile that the program asks "
					    "for",
					    use[i].name, mode);
		} else if (use[i].mode) {
			mt_complain("run: --%s belongs to --mode=%s; see 'memtrack run --help'",
				    use[i].name, use[i].mode);
			return MT_EXIT_USAGE;
		}
	}
	return 0;
}

int mt_run_check_heaps(const char *heaps)
{
	static const char *const names[] = {"malloc", "mmap", "brk", "custom"};

	if (!strcmp(heaps, "all"))
		return 0;
	for (const char *at = heaps;; at++) {
		size_t len = strcspn(at, ","), i = 0;

		while (i < MT_ARRAY_LEN(names) &&
		       (strlen(names[i]) != len || strncmp(at, names[i], len)))
			i++;
		if (i == MT_ARRAY_LEN(names)) {
			mt_complain("run: '--heaps=%s' names an unknown heap (known: malloc, mmap, "
				    "brk, custom, "
				    "all); see 'memtrack run --help'",
				    heaps);
			return MT_EXIT_USAGE;
		}
		at += len;
		if (!*at)
			return 0;
	}
}
