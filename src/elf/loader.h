/* SPDX-License-Identifier: MIT */
#ifndef MT_ELF_LOADER_H
#define MT_ELF_LOADER_H

/*
 * The loader's view of this process: where it keeps the list of modules, what it was started with.
 * Nothing here calls the loader or takes its lock; the list may change under our hands, so every
 * word of it is read by a system call that reports a bad address instead of faulting.
 */

#include "elf/modules.h"

/* What the kernel put on the stack at exec. Pointers into that stack. */
struct mt_start_block {
	int argc;
	char **argv;
	char **envp;
	const Elf64_auxv_t *auxv;
};

/* 0, or -ENOENT when the block cannot be found (then nothing was written). Start-up only. */
int mt_loader_start_block(struct mt_start_block *ret_block);

/* Value of an auxv entry, or 0. */
uintptr_t mt_loader_auxv(const Elf64_auxv_t *auxv, uint64_t type);

/* 1: the program has more rights than its caller, or nobody says that it has not. */
int mt_loader_is_secure(const Elf64_auxv_t *auxv);

/* Value of NAME in envp, or NULL. */
const char *mt_loader_env(char **envp, const char *name);

/* Remembers auxv and our pid for the calls below. Once, before them. */
void mt_loader_init(const struct mt_start_block *block, int pid);

/*
 * Who we are now (a forked child), and whether calls may be tried that a seccomp filter could
 * punish.
 */
enum mt_loader_care { MT_LOADER_TRY, MT_LOADER_CAREFUL };
void mt_loader_set_process(int pid, enum mt_loader_care care);

/* Copies len bytes that may vanish at any moment, with a system call. 0 or a negative errno value.
 */
int mt_loader_read(const void *from, void *to, size_t len);

/*
 * The same for len bytes from each of `count` addresses, at most MT_LOADER_READ_MAX, into `to`, one
 * after the other. Returns how many were copied, in order, before the first that could not be.
 */
enum { MT_LOADER_READ_MAX = 16 };
uint32_t mt_loader_read_each(const uintptr_t *from, uint32_t count, void *to, size_t len);

/*
 * A new list of all modules: the program, the libraries of every namespace, the vdso. `previous`
 * (may be NULL) supplies `number` and `generation` of modules that are still the same (same range,
 * dynamic section and build-id). The list is mapped memory that is never unmapped. NULL: no memory,
 * or the loader's list was in change and could not be read twice alike (the caller keeps the old
 * list).
 */
struct mt_module_list *mt_loader_read_modules(const struct mt_module_list *previous);

/* Modules in the order in which the loader searches them (first namespace), up to max. */
uint32_t mt_loader_search_order(const struct mt_module_list *list,
				const struct mt_module **ret_order, uint32_t max);

/*
 * The path by which the loader knows the module whose dynamic section is at `dynamic` (of the first
 * namespace), or NULL. The text is the loader's. Start-up only.
 */
const char *mt_loader_name(const void *dynamic);

/*
 * The first definition of a function in the modules behind that one (of the first namespace), as
 * mt_module_symbol() finds it, or 0. By the chain alone, without a list of modules: for single
 * names, and for processes that are left alone.
 */
uintptr_t mt_loader_find_behind(const void *dynamic, const char *name);

/* Address of the function that the loader calls on each change of its list, or 0. */
uintptr_t mt_loader_notifier(void);

/* 1 while the loader says that a change is under way. */
int mt_loader_is_changing(void);

#endif
