/* SPDX-License-Identifier: MIT */
/* Options of check mode are refused before the program starts, in the tracker's own words. */
#include "cli/run_check.h"

#include "cli/command.h"
#include "wire/check_options.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Only what is wrong; where Android describes its options follows after it. */
static void complain_once(void *context, const char *line)
{
	bool *has_complained = context;

	if (!*has_complained)
		mt_complain("%s; see 'man memtrack-check'", line);
	*has_complained = true;
}

int mt_run_check_choose(const char *asked, const char *mode, const char **ret_options)
{
	const char *inherited = getenv(MT_CHECK_VARIABLE), *text = asked;
	bool is_check = !strcmp(mode, "check"), is_other = !is_check && strcmp(mode, "full") != 0;
	bool has_complained = false;
	const struct mt_check_listener listener = {
		.program = asked ? "run: --check" : "run: " MT_CHECK_VARIABLE,
		.range_text = strerror(ERANGE),
		.say = complain_once,
		.context = &has_complained,
	};
	struct mt_check_options options;

	*ret_options = NULL;
	if (asked && is_other) {
		mt_complain("run: --check is a mode of its own (--mode=check); see 'memtrack run "
			    "--help'");
		return MT_EXIT_USAGE;
	}
	if (!text && inherited && *inherited) {
		text = inherited;
		if (is_other) {
			mt_complain(MT_CHECK_VARIABLE " is not used: another mode was asked for");
			return 0;
		}
	}
	if (!is_check && !text)
		return 0;
	if (!text || !*text)
		text = MT_CHECK_USUAL;
	/* the tracker takes the usual value, as Android does; here it is a slip */
	if (asked && *text && text[strlen(text) - 1] == '=') {
		mt_complain("run: --check: no value after '%s'; see 'man memtrack-check'", text);
		return MT_EXIT_USAGE;
	}
	if (mt_check_options_read(text, &listener, &options))
		return MT_EXIT_USAGE;
	*ret_options = text;
	return 0;
}
