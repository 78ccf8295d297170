/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_EXEC_H
#define MT_RUNTIME_EXEC_H

/* Keeps the tracker's variables for programs that this process starts. Once, at start. */
void mt_exec_remember(char **envp);

#endif
