/* SPDX-License-Identifier: MIT */
#ifndef MT_ELF_MODULES_H
#define MT_ELF_MODULES_H

/*
 * The modules (program, libraries, vdso) of the process we run in, found without libc: from the
 * loader's link map, read with a call that cannot fault. A list is immutable; a refresh publishes a
 * new one and old ones stay mapped (a reader in a signal handler may still hold one).
 */

#include <elf.h>

#include "core/cc.h"

enum { MT_BUILD_ID_MAX = 32, MT_MODULE_PATH_MAX = 4096 };

struct mt_module {
	uintptr_t lo, hi;           /* all PT_LOAD segments: [lo, hi) */
	uintptr_t bias;             /* run-time address minus ELF virtual address */
	uintptr_t text_lo, text_hi; /* executable and readable segments: [text_lo, text_hi) */
	const Elf64_Phdr *phdr;
	const Elf64_Dyn *dynamic;    /* NULL: static program */
	const uint8_t *eh_frame_hdr; /* PT_GNU_EH_FRAME in memory, NULL: none */
	size_t eh_frame_hdr_bytes;
	const char *name; /* the loader's l_name: valid while the module is loaded; "" for the
			     program */
	uint32_t phnum;
	uint32_t number;      /* free for the list's user: memtrack's module number, 0 at first */
	uint32_t generation;  /* of the list in which it first stood */
	uint64_t fingerprint; /* of name, headers and unwind table: tells libraries without build-id
				 apart */
	uint8_t build_id_bytes;
	uint8_t build_id[MT_BUILD_ID_MAX];
};

struct mt_module_list {
	uint32_t count;
	uint32_t generation;  /* rises with each list; 0 only in the empty list */
	uint64_t map_bytes;   /* of this object */
	struct mt_module m[]; /* sorted by lo, disjoint */
};

/* The module whose [lo, hi) holds address, or NULL. Async-signal-safe. */
MT_INLINE const struct mt_module *mt_module_list_find(const struct mt_module_list *list,
						      uintptr_t address)
{
	uint32_t a = 0, b = list->count;
	while (a < b) {
		uint32_t mid = (a + b) / 2;
		if (list->m[mid].lo <= address)
			a = mid + 1;
		else
			b = mid;
	}
	if (!a || address >= list->m[a - 1].hi)
		return NULL;
	return &list->m[a - 1];
}

/*
 * Fills *ret_module (lo, hi, eh_frame_hdr, dynamic, build-id) from program headers in memory.
 * 0, or -EINVAL when there is no PT_LOAD. Reads only the headers and PT_NOTE segments.
 */
int mt_module_from_phdr(const Elf64_Phdr *phdr, uint32_t phnum, uintptr_t bias,
			struct mt_module *ret_module);

/* Copies len bytes of a module's memory: 0 or a negative errno value. */
typedef int mt_module_reader(const void *from, void *to, size_t len);

/*
 * The same for a module that another thread may unmap meanwhile: all of its memory is read through
 * `read`. -EFAULT when that fails.
 */
int mt_module_from_phdr_by(mt_module_reader *read, const Elf64_Phdr *phdr, uint32_t phnum,
			   uintptr_t bias, struct mt_module *ret_module);

/* The pieces of a module's dynamic section that symbol lookup needs. */
struct mt_module_symbols {
	const Elf64_Sym *sym;
	const char *str;
	size_t str_bytes;
	const uint32_t *gnu_hash;
	const uint32_t *sysv_hash;
	const uint16_t *versym;
	uintptr_t bias;
	int usable; /* 0: the module has no symbols */
};

/* Fills *ret_symbols, valid while the module is loaded; returns its `usable`. */
int mt_module_symbols(const struct mt_module *m, struct mt_module_symbols *ret_symbols);

/* For many lookups: as mt_module_symbol(), with the name's hash. */
uint32_t mt_module_name_hash(const char *name);
uintptr_t mt_module_find(const struct mt_module_symbols *symbols, const char *name,
			 uint32_t name_hash);

/*
 * The definition of a function in a module's dynamic symbol table (DT_GNU_HASH or DT_HASH): its
 * run-time address, or 0. Hidden (non-default) versions, IFUNCs and undefined entries do not count.
 */
uintptr_t mt_module_symbol(const struct mt_module *m, const char *name);

/*
 * The dynamic symbol of the function that holds address, the innermost where they overlap: its name
 * (in the module's memory, valid while it is loaded) and the distance from its start. NULL: none
 * does.
 */
const char *mt_module_nearest_symbol(const struct mt_module *m, uintptr_t address,
				     uintptr_t *ret_offset);

/*
 * The same for a module that another thread may unmap meanwhile: what is read is read through
 * `read`, and so must be the name. NULL also when that fails.
 */
const char *mt_module_nearest_symbol_by(mt_module_reader *read, const struct mt_module *m,
					uintptr_t address, uintptr_t *ret_offset);

#endif
