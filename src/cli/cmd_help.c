/* SPDX-License-Identifier: MIT */
/* memtrack help: the overview, a command's options, its man page, shell completion. */

#include "cli/commands.h"

#include <stddef.h>

struct help_options {
	bool man, completion;
};

static const struct help_options defaults;

static const struct mt_option options[] = {
	{.name = "man",
	 .kind = MT_OPTION_FLAG,
	 .offset = offsetof(struct help_options, man),
	 .help = "write the command's man page in roff"},
	{.name = "completion",
	 .kind = MT_OPTION_FLAG,
	 .offset = offsetof(struct help_options, completion),
	 .help = "write completion functions for bash"},
	{0},
};

static int run(const void *opaque, const struct mt_operands *operands)
{
	const struct help_options *o = opaque;
	const struct mt_command *c;

	if (o->completion) {
		mt_help_completion(stdout);
		return MT_EXIT_OK;
	}
	if (!operands->count && o->man) {
		mt_complain("help: --man needs a command; see 'memtrack help --help'");
		return MT_EXIT_USAGE;
	}
	if (!operands->count) {
		mt_help_overview(stdout);
		return MT_EXIT_OK;
	}
	c = mt_command_find(operands->text[0]);
	if (!c) {
		const char *nearest = mt_command_nearest(operands->text[0]);

		mt_complain(nearest ? "unknown command '%s', did you mean '%s'?"
				    : "unknown command '%s'; 'memtrack help' lists them",
			    operands->text[0], nearest);
		return MT_EXIT_USAGE;
	}
	if (o->man)
		mt_help_man(c, stdout);
	else
		mt_help_command(c, stdout);
	return MT_EXIT_OK;
}

const struct mt_command mt_cmd_help = {
	.name = "help",
	.summary = "describe memtrack or one of its commands",
	.operands = "[COMMAND]",
	.operands_max = 1,
	.options = options,
	.options_bytes = sizeof(struct help_options),
	.defaults = &defaults,
	.description = "Lists the commands, or describes one with its options.",
	.see_also = "memtrack(1)",
	.run = run,
};
