/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_LOOK_TOOL_H
#define MT_RUNTIME_LOOK_TOOL_H

/*
 * The command memtrack, started by the process that asks for a look where no launcher serves it.
 * The program does not notice: no child that its wait() could give, no SIGCHLD, none of its
 * descriptors.
 */

/*
 * Starts it for our state file. Its process id, or a negative errno value: -ENOENT: not found;
 * -ENOTSUP: whose parent is gone becomes our child here.
 */
long mt_look_tool_start(void);

/* Whether it is no more. It ends by itself, with or without an answer, before long. */
int mt_look_tool_is_over(long pid);

#endif
