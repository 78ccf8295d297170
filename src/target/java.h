/* SPDX-License-Identifier: MIT */
#ifndef MT_TARGET_JAVA_H
#define MT_TARGET_JAVA_H

/*
 * Where a process with a HotSpot Java VM keeps Java objects: the VM describes its own structures
 * for tools (gHotSpotVMStructs), and that is read from outside. One thread at a time.
 */

#include "target/image.h"

struct mt_smaps;

/* Whether a mapping of this name is of the VM's library. */
bool mt_java_is_vm(const char *name);

/*
 * Whether a mapping of this name is the memory file in which ZGC keeps Java objects. The VM of Java
 * 17 maps it three times: the kernel counts each page in Rss for each time it is mapped, in Pss
 * once.
 */
bool mt_java_is_heap_file(const char *name);
/* How often it is mapped; 0: it is not. */
size_t mt_java_heap_views(const struct mt_smaps *s);

/*
 * The addresses that are reserved for Java objects. 0; -ENOENT: no Java VM is in the process;
 * -EAGAIN: it has not made its heap yet; -ENOTSUP: it does not describe it, or the description does
 * not hold; *err says which. The process is not stopped for it.
 */
int mt_java_heap(struct mt_image *im, uint64_t *ret_start, uint64_t *ret_end, struct mt_err *err);

/* What is known of Java objects in a process. All zero: it has no Java VM. */
struct mt_java {
	bool is_there;       /* a Java VM is */
	uint64_t start, end; /* where objects are; equal: not known, or in a memory file */
	struct mt_err why;   /* code not 0: objects cannot be told from other memory, and why */
};

/* For a process and its mappings: costs next to nothing where no Java VM is. 0 or -ENOMEM. */
int mt_java_find(pid_t pid, const struct mt_smaps *s, struct mt_java *ret_java);
/* The same for an image. */
int mt_java_find_in(struct mt_image *im, const struct mt_smaps *s, struct mt_java *ret_java);

#endif
