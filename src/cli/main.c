/* SPDX-License-Identifier: MIT */
/* memtrack: finds the command and runs it. */

#include "cli/commands.h"

#include "record/replay.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

const struct mt_command *const mt_commands[] = {
	&mt_cmd_run,    &mt_cmd_report,  &mt_cmd_diff,    &mt_cmd_timeline, &mt_cmd_ctl,
	&mt_cmd_ps,     &mt_cmd_top,     &mt_cmd_replay,  &mt_cmd_export,   &mt_cmd_view,
	&mt_cmd_maps,   &mt_cmd_read,    &mt_cmd_meminfo, &mt_cmd_leaks,    &mt_cmd_allocators,
	&mt_cmd_triage, &mt_cmd_metrics, &mt_cmd_enable,  &mt_cmd_disable,  &mt_cmd_help,
	NULL,
};

static int unknown(const char *name)
{
	const char *nearest = mt_command_nearest(name);

	if (name[0] == '-')
		mt_complain("unknown option '%s'; see 'memtrack help'", name);
	else if (nearest)
		mt_complain("unknown command '%s', did you mean '%s'?", name, nearest);
	else
		mt_complain("unknown command '%s'; 'memtrack help' lists them", name);
	return MT_EXIT_USAGE;
}

/* Output that could not be written (full disk) is a failure, also of help. */
static int finish(int status)
{
	if (fflush(stdout) || ferror(stdout)) {
		mt_complain("cannot write to standard output");
		return status ? status : MT_EXIT_FAILED;
	}
	return status;
}

static void do_nothing(int signal)
{
}

/*
 * A file that grows beyond RLIMIT_FSIZE is an error to be told, not the end of us. A handler, since
 * programs that we start do not inherit it.
 */
static void survive_file_limit(void)
{
	struct sigaction sa = {.sa_handler = do_nothing, .sa_flags = SA_RESTART};
	struct sigaction old;

	if (!sigaction(SIGXFSZ, NULL, &old) && old.sa_handler == SIG_DFL)
		sigaction(SIGXFSZ, &sa, NULL);
}

int main(int argc, char **argv)
{
	const struct mt_command *c;

	if (argc == 1 && !strcmp(argv[0], MT_REPLAY_NAME))
		return mt_replay_main();
	survive_file_limit();

	if (argc < 2) {
		mt_help_overview(stderr);
		return MT_EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		puts("memtrack " MT_VERSION);
		return finish(MT_EXIT_OK);
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		mt_help_overview(stdout);
		return finish(MT_EXIT_OK);
	}
	c = mt_command_find(argv[1]);
	if (!c)
		return unknown(argv[1]);
	return finish(mt_command_run(c, argc - 1, argv + 1));
}
