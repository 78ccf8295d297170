/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_ERRORS_H
#define MT_RUNTIME_ERRORS_H

/* Memory errors in the state file: what guarded samples and check mode have in common. */

#include "runtime/record.h"

/* Element 0 of the tables, and room before it is needed. Start-up, and in a forked child. */
void mt_errors_begin(void);

/* The calling thread and its stack, at the present moment; t may be NULL. */
struct mt_state_actor mt_actor(const struct mt_thread *t, uint32_t node);

/* The same, of an event that was recorded just now: the coarse time is right already. */
struct mt_state_actor mt_actor_of_event(const struct mt_thread *t, uint32_t node);

/* What another process's tables called so has no name in ours. */
struct mt_state_actor mt_actor_here(const struct mt_state_actor *a, int pid);

/* The caller's stack as a node; guard held. c: of the calling thread. 0: not known. */
uint32_t mt_stack_node(struct mt_capture *c, const struct mt_caller *caller);

/* Writes it down, if there is room; damage: may be NULL. Any thread. */
void mt_error_write(const struct mt_state_error *e, const struct mt_state_damage *damage);

/* The same for an error at an inaccessible page; check mode tells it in its log as well. */
void mt_error_of_page(const struct mt_state_error *e);

#endif
