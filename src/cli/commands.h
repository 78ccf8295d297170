/* SPDX-License-Identifier: MIT */
#ifndef MT_CLI_COMMANDS_H
#define MT_CLI_COMMANDS_H

/* The tables of all commands, one from each cmd_NAME.c. */

#include "cli/command.h"

extern const struct mt_command mt_cmd_run, mt_cmd_report, mt_cmd_diff, mt_cmd_timeline, mt_cmd_ps,
	mt_cmd_ctl, mt_cmd_top, mt_cmd_replay, mt_cmd_export, mt_cmd_view, mt_cmd_maps, mt_cmd_read,
	mt_cmd_meminfo, mt_cmd_allocators, mt_cmd_metrics, mt_cmd_enable, mt_cmd_disable,
	mt_cmd_leaks, mt_cmd_triage, mt_cmd_help;

#endif
