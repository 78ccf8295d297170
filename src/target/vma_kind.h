/* SPDX-License-Identifier: MIT */
#ifndef MT_TARGET_VMA_KIND_H
#define MT_TARGET_VMA_KIND_H

/*
 * What a mapping is for: one category each, by ordered rules (docs/meminfo.md), so that the
 * categories are disjoint and their sums are the process's. Rules for desktop Linux, and Android's
 * own for Android's texts.
 */

#include "target/java.h"
#include "target/smaps.h"

/* In the order of rows. */
enum mt_vma_kind {
	MT_VMA_NATIVE_HEAP,
	MT_VMA_DALVIK_HEAP, /* of any Java VM */
	MT_VMA_DALVIK_OTHER,
	MT_VMA_STACK,
	MT_VMA_CURSOR,
	MT_VMA_SHARED, /* Ashmem; elsewhere shared memory */
	MT_VMA_GFX,
	MT_VMA_OTHER_DEV,
	MT_VMA_PROGRAM,
	MT_VMA_SO,
	MT_VMA_JIT,
	MT_VMA_JAR,
	MT_VMA_APK,
	MT_VMA_TTF,
	MT_VMA_DEX,
	MT_VMA_OAT,
	MT_VMA_ART,
	MT_VMA_OTHER_MMAP,
	MT_VMA_KERNEL,
	MT_VMA_OVERHEAD, /* of memtrack itself */
	MT_VMA_UNKNOWN,
	MT_VMA_KINDS
};

/* Rows of the summary. */
enum mt_vma_group {
	MT_VMA_GROUP_JAVA,
	MT_VMA_GROUP_NATIVE,
	MT_VMA_GROUP_CODE,
	MT_VMA_GROUP_STACK,
	MT_VMA_GROUP_GRAPHICS,
	MT_VMA_GROUP_OTHER,
	MT_VMA_GROUPS
};

enum mt_vma_rules { MT_VMA_AUTO, MT_VMA_LINUX, MT_VMA_ANDROID };

struct mt_vma_label {
	enum mt_vma_kind kind;
	enum mt_vma_group group;
	const char *what; /* more precisely, "" when there is nothing to say; static */
};

struct mt_vma_range {
	uint64_t start, end;
};

/* What is known beside the text. All zero: nothing. */
struct mt_vma_facts {
	enum mt_vma_rules rules;
	const char *program; /* path of the executable, NULL: to be found in the text */
	const uint64_t *sp;  /* stack pointers of threads */
	size_t sp_count;
	uint64_t java_start, java_end; /* of Java objects; equal: not known */
	/* What an allocator has taken that the rules do not know: sorted, disjoint; borrowed. */
	const struct mt_vma_range *heap;
	size_t heaps;
	const char *heap_what; /* the allocator's name, static */
	/* Copies bytes of the process, and returns how many; NULL: cannot be read. */
	size_t (*read)(void *context, uint64_t address, void *to, size_t bytes);
	void *context;
};

/* The rules in force for a text. */
enum mt_vma_rules mt_vma_rules_of(const struct mt_smaps *s, enum mt_vma_rules wanted);

/* One label for each mapping of s, in its order. The caller frees them with free(). 0/-ENOMEM. */
int mt_vma_classify(const struct mt_smaps *s, const struct mt_vma_facts *f,
		    struct mt_vma_label **ret_labels);

/* "Native Heap", ".so mmap". */
const char *mt_vma_kind_name(enum mt_vma_kind kind, enum mt_vma_rules rules);

/* Facts of a running process. */
struct mt_vma_process {
	struct mt_vma_facts facts; /* points into this object: do not move it */
	pid_t pid;
	char program[4096];
	uint64_t *sp;                              /* owned */
	size_t sp_count, threads, threads_running; /* running: their stack pointer is not known */
	struct mt_java java;                       /* mt_vma_process_find_java() */
};

/* What cannot be found out is left out. */
void mt_vma_process_init(struct mt_vma_process *p, pid_t pid);
/* The Java heap, where its mappings have a Java VM. 0 or -ENOMEM. */
int mt_vma_process_find_java(struct mt_vma_process *p, const struct mt_smaps *s);
void mt_vma_process_done(struct mt_vma_process *p);
MT_AUTO_DEFINE_INPLACE(mt_vma_process, struct mt_vma_process, mt_vma_process_done)

/* The stack pointer in a text of /proc/PID/task/TID/syscall. 0; -ENODATA: it is not there. */
int mt_vma_parse_syscall(const char *text, uint64_t *ret_sp);

/* ---- private to target ---- */

/* The length of a name without a trailing " (deleted)". */
size_t mt_vma_name_len(const char *name);

/* Android's table. prev may be NULL. */
struct mt_vma_label mt_vma_android(const struct mt_mapping *m, const struct mt_mapping *prev,
				   enum mt_vma_kind prev_kind);

#endif
