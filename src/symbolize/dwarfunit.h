/* SPDX-License-Identifier: MIT */
#ifndef MT_SYMBOLIZE_DWARFUNIT_H
#define MT_SYMBOLIZE_DWARFUNIT_H

/*
 * DWARF units: which unit holds an address, and the chain of functions (inlined ones innermost
 * first) around it. libdw's own look-ups need .debug_aranges, which clang does not write, and walk
 * a unit once for each address; here a unit is walked once for all its addresses.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <elfutils/libdw.h>

struct mt_dwarf_range {
	uint64_t start, end, max_end; /* max_end: highest end of this range and all before it */
	uint32_t unit;
};

struct mt_dwarf_index {
	struct mt_dwarf_range *range; /* owned; sorted by start */
	Dwarf_Die *unit;              /* owned; unit DIEs (skeletons for split units) */
	size_t ranges, range_cap, units, unit_cap;
};

/* An address to look up and what was found. */
struct mt_dwarf_target {
	uint64_t address; /* DWARF address */
	Dwarf_Die *chain; /* owned; innermost function first, the real function last */
	size_t chain_len, chain_cap;
};

/* Collects the ranges of all units; *index is zero before. 0 or -ENOMEM. */
int mt_dwarf_index_load(struct mt_dwarf_index *index, Dwarf *dwarf);
void mt_dwarf_index_done(struct mt_dwarf_index *index);

/* The unit that holds an address, or SIZE_MAX. */
size_t mt_dwarf_index_find(const struct mt_dwarf_index *index, uint64_t address);

/*
 * The DIE to look for functions in: the unit's own, or that of its split half; false: the split
 * half is missing.
 */
bool mt_dwarf_unit_die(const Dwarf_Die *unit, Dwarf_Die *ret_die);

/*
 * Fills the chains of targets (sorted by address, chains empty) from one unit. A target in no
 * function keeps an empty chain. 0, -ENOMEM. Damaged DWARF gives fewer chains, not an error.
 */
int mt_dwarf_unit_chains(Dwarf_Die *unit_die, struct mt_dwarf_target *target, size_t count);

#endif
