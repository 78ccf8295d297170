/* SPDX-License-Identifier: MIT */
#ifndef MT_SYMBOLIZE_SYMTAB_H
#define MT_SYMBOLIZE_SYMTAB_H

/* The functions of a module's ELF symbol tables (.symtab, MiniDebugInfo, .dynsym), sorted. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mt_symtab_entry {
	uint64_t addr, end; /* end == addr: no size given */
	uint64_t limit;     /* end of the section, addr when there is no section table */
	uint64_t max_end;   /* highest end of this entry and all before it */
	const char *name;   /* libdwfl's; valid while the module is */
	uint8_t rank;       /* lower is the better name of equal addresses */
};

/* All-zero is valid and empty. Read-only after mt_symtab_load(): then any thread. */
struct mt_symtab {
	struct mt_symtab_entry *entry; /* owned */
	size_t count, cap;
	bool only_dynamic; /* the module is stripped: .dynsym is all there is */
};

/* What an address was found to be. */
struct mt_symtab_hit {
	const char *name;
	uint64_t offset;
	bool nearest_dynamic; /* behind the end of that dynamic symbol: a guess */
};

struct Dwfl_Module;

/* Reads the tables; table is empty before. 0 (also when there are none) or -ENOMEM. */
int mt_symtab_load(struct mt_symtab *table, struct Dwfl_Module *module);

/* Frees the content; NULL is allowed. */
void mt_symtab_done(struct mt_symtab *table);

/* The function at an address of the module, as libdwfl counts them. False when there is none. */
bool mt_symtab_find(const struct mt_symtab *table, uint64_t address, struct mt_symtab_hit *ret_hit);

#endif
