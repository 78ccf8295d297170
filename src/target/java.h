/* SPDX-License-Identifier: MIT */
#ifndef MT_TARGET_JAVA_H
#define MT_TARGET_JAVA_H

/*
 * Where a process with a HotSpot Java VM keeps Java objects: the VM describes its own structures
 * for tools (gHotSpotVMStructs), and that is read from outside. One thread at a time.
 */

#include "target/image.h"

/* Whether a mapping of this name is of the VM's library. */
bool mt_java_is_vm(const char *name);

/*
 * The addresses that are reserved for Java objects. 0; -ENOENT: no Java VM is in the process;
 * -EAGAIN: it has not made its heap yet; -ENOTSUP: it does not describe it, or the description does
 * not hold; *err says which. The process is not stopped for it.
 */
int mt_java_heap(struct mt_image *im, uint64_t *ret_start, uint64_t *ret_end, struct mt_err *err);

#endif
