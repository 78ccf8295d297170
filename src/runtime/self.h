/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_SELF_H
#define MT_RUNTIME_SELF_H

/*
 * Which thread is this: the one thing that differs between doors. The preload and link-time doors
 * have one initial-exec word of thread-local storage. An image that is put into a running process
 * can have none and must look the thread pointer up; nothing else in the runtime uses thread-local
 * storage.
 */

#include "runtime/rt.h"

/* The door's word for "this thread": the preload and link-time doors use initial-exec TLS. */
extern __thread struct mt_thread *mt_self __attribute__((tls_model("initial-exec"))) MT_HIDDEN;

/*
 * What the hooks of malloc and free look at first: the same, but NULL while the thread records in a
 * light mode, or its events as well. So no way of theirs pays for another.
 */
extern __thread struct mt_thread *mt_self_full __attribute__((tls_model("initial-exec"))) MT_HIDDEN;

MT_INLINE struct mt_thread *mt_thread_self(void)
{
	return mt_self;
}

/* The same, read from memory once more: a signal handler may have changed it. */
MT_INLINE struct mt_thread *mt_thread_self_again(void)
{
	return *(struct mt_thread *volatile *)&mt_self;
}

MT_INLINE struct mt_thread *mt_thread_self_full(void)
{
	return mt_self_full;
}

/* Likewise while the thread counts on the ordinary path of a light mode, NULL else. */
extern __thread struct mt_thread *mt_self_light __attribute__((tls_model("initial-exec")))
MT_HIDDEN;

MT_INLINE struct mt_thread *mt_thread_self_light(void)
{
	return mt_self_light;
}

/* t: the calling thread's own; at most one of the two. */
MT_INLINE void mt_thread_set_ways(struct mt_thread *t, int full, int light)
{
	mt_self_full = full ? t : NULL;
	mt_self_light = light ? t : NULL;
}

MT_INLINE void mt_thread_set_self(struct mt_thread *t)
{
	mt_self = t;
	mt_self_full = NULL; /* until its settings say so */
	mt_self_light = NULL;
}

#endif
