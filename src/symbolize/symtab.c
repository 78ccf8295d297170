/* SPDX-License-Identifier: MIT */
/*
 * ELF symbols. A symbol answers for [addr, addr + size). One without a size (assembler) answers up
 * to the next symbol or the end of its section. In a module that has nothing but dynamic symbols,
 * code behind the end of one gets the nearest name, marked as a guess.
 */
#include "symbolize/symtab.h"

#include "base/alloc.h"
#include "base/search.h"
#include "core/cc.h"

#include <elfutils/libdwfl.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void mt_symtab_done(struct mt_symtab *table)
{
	if (!table)
		return;
	free(table->entry);
	*table = (struct mt_symtab){0};
}

static bool has_symtab(Elf *elf)
{
	for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
		GElf_Shdr mem, *sh = gelf_getshdr(scn, &mem);
		if (sh && sh->sh_type == SHT_SYMTAB)
			return true;
	}
	return false;
}

static bool is_function(const GElf_Sym *sym, GElf_Word shndx, const char *name)
{
	int type = GELF_ST_TYPE(sym->st_info);
	if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE)
		return false;
	if (shndx == SHN_UNDEF || shndx == SHN_ABS || shndx == SHN_COMMON)
		return false;
	return name && *name && *name != '$'; /* "$x", "$d": ARM mapping symbols */
}

static uint8_t rank_of(const GElf_Sym *sym, const char *name)
{
	int bind = GELF_ST_BIND(sym->st_info), type = GELF_ST_TYPE(sym->st_info);
	uint8_t rank = type == STT_NOTYPE ? 16 : 0;
	rank += bind == STB_LOCAL ? 8 : bind == STB_WEAK ? 4 : 0;
	return rank + (name[0] == '_' && name[1] == '_') + (name[0] == '_');
}

static uint64_t section_limit(Elf *elf, GElf_Word shndx, uint64_t bias, uint64_t fallback)
{
	GElf_Shdr mem, *sh = gelf_getshdr(elf_getscn(elf, shndx), &mem);
	uint64_t end;
	if (!sh || !(sh->sh_flags & SHF_EXECINSTR))
		return fallback;
	if (__builtin_add_overflow(sh->sh_addr + bias, sh->sh_size, &end) || end < fallback)
		return fallback;
	return end;
}

static int compare(const void *a, const void *b)
{
	const struct mt_symtab_entry *x = a, *y = b;
	if (x->addr != y->addr)
		return x->addr > y->addr ? 1 : -1;
	if (x->rank != y->rank)
		return x->rank > y->rank ? 1 : -1;
	return strcmp(x->name, y->name);
}

static void finish(struct mt_symtab *table)
{
	uint64_t max_end = 0;
	if (table->count)
		qsort(table->entry, table->count, sizeof(*table->entry), compare);
	for (size_t i = 0; i < table->count; i++) {
		max_end = MT_MAX(max_end, table->entry[i].end);
		table->entry[i].max_end = max_end;
	}
}

static int add(struct mt_symtab *table, const struct mt_symtab_entry *e)
{
	struct mt_symtab_entry *entry =
		mt_alloc_grow(table->entry, &table->cap, table->count + 1, sizeof(*entry));
	if (!entry)
		return -ENOMEM;
	table->entry = entry;
	entry[table->count++] = *e;
	return 0;
}

int mt_symtab_load(struct mt_symtab *table, Dwfl_Module *module)
{
	int count = dwfl_module_getsymtab(module);
	Elf *last = NULL;
	bool any_static = false, last_static = false;
	for (int i = 1; i < count; i++) {
		GElf_Sym sym;
		GElf_Addr addr;
		GElf_Word shndx;
		Elf *elf;
		Dwarf_Addr bias;
		const char *name =
			dwfl_module_getsym_info(module, i, &sym, &addr, &shndx, &elf, &bias);
		if (!name)
			continue;
		if (elf != last) {
			last = elf;
			last_static = elf && has_symtab(elf);
		}
		any_static |= last_static;
		if (!elf || !is_function(&sym, shndx, name))
			continue;
		struct mt_symtab_entry e = {
			.addr = addr, .end = addr, .name = name, .rank = rank_of(&sym, name)};
		if (__builtin_add_overflow(addr, sym.st_size, &e.end))
			e.end = addr;
		e.limit = section_limit(elf, shndx, bias, addr);
		if (add(table, &e))
			return -ENOMEM;
	}
	table->only_dynamic = !any_static;
	finish(table);
	return 0;
}

/* The best named of the entries that begin where entry i does and are like it in having a size. */
static const struct mt_symtab_entry *best_alias(const struct mt_symtab *table, size_t i,
						uint64_t address)
{
	const struct mt_symtab_entry *best = &table->entry[i];
	while (i-- > 0 && table->entry[i].addr == best->addr)
		if (table->entry[i].end > address || best->end == best->addr)
			best = &table->entry[i];
	return best;
}

/* The innermost sized symbol that holds the address, or NULL. `i` is the last that begins before
 * it. */
static const struct mt_symtab_entry *containing(const struct mt_symtab *table, size_t i,
						uint64_t address)
{
	for (;; i--) {
		const struct mt_symtab_entry *e = &table->entry[i];
		if (e->end > address)
			return best_alias(table, i, address);
		if (e->max_end <= address || !i)
			return NULL;
	}
}

bool mt_symtab_find(const struct mt_symtab *table, uint64_t address, struct mt_symtab_hit *ret_hit)
{
	size_t low = MT_SEARCH_UP_TO(table->entry, table->count, addr, address);

	if (!low)
		return false;
	const struct mt_symtab_entry *e = containing(table, low - 1, address);
	bool guess = false;
	if (!e) {
		const struct mt_symtab_entry *last = &table->entry[low - 1];
		bool sized = last->end != last->addr;
		if (address >= last->limit || (sized && !table->only_dynamic))
			return false;
		guess = table->only_dynamic;
		e = best_alias(table, low - 1, address);
	}
	*ret_hit = (struct mt_symtab_hit){
		.name = e->name, .offset = address - e->addr, .nearest_dynamic = guess};
	return true;
}
