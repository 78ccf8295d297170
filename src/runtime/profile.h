/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_PROFILE_H
#define MT_RUNTIME_PROFILE_H

/* Profiles that the program asks for: include/memtrack.h. */

/* In a forked child: the parent's request is not its own. Before it begins to record. */
void mt_profile_forget(void);

#endif
