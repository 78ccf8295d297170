/* SPDX-License-Identifier: MIT */
/*
 * The walk over a unit's DIEs. Scopes nest in the file as they do in the source, so a target's
 * chain is simply replaced each time a deeper function around it is found. Untrusted input: depth,
 * chain length and the number of DIEs are bounded.
 */
#include "symbolize/dwarfunit.h"

#include "base/alloc.h"
#include "base/search.h"
#include "core/cc.h"

#include <dwarf.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	DEPTH_MAX = 200,          /* nesting of DIEs */
	CHAIN_MAX = 100,          /* functions inlined into each other */
	DIES_MAX = 100 * 1000000, /* of one unit */
	RANGES_MAX = 1000000,     /* of one DIE */
};

/* ---- index of units ---- */

void mt_dwarf_index_done(struct mt_dwarf_index *index)
{
	free(index->range);
	free(index->unit);
	*index = (struct mt_dwarf_index){0};
}

static int add_range(struct mt_dwarf_index *index, uint64_t start, uint64_t end)
{
	struct mt_dwarf_range *range =
		mt_alloc_grow(index->range, &index->range_cap, index->ranges + 1, sizeof(*range));
	if (!range)
		return -ENOMEM;
	index->range = range;
	range[index->ranges++] = (struct mt_dwarf_range){
		.start = start, .end = end, .unit = (uint32_t)index->units - 1};
	return 0;
}

/* Ranges that start at 0 are those of functions that the linker dropped. */
static int add_unit(struct mt_dwarf_index *index, Dwarf_Die *die)
{
	Dwarf_Die *unit =
		mt_alloc_grow(index->unit, &index->unit_cap, index->units + 1, sizeof(*unit));
	if (!unit)
		return -ENOMEM;
	index->unit = unit;
	unit[index->units++] = *die;
	Dwarf_Addr base, start, end;
	ptrdiff_t at = 0;
	for (int i = 0; i < RANGES_MAX && (at = dwarf_ranges(die, at, &base, &start, &end)) > 0;
	     i++)
		if (start && start < end && add_range(index, start, end))
			return -ENOMEM;
	return 0;
}

static int compare_ranges(const void *a, const void *b)
{
	const struct mt_dwarf_range *x = a, *y = b;
	if (x->start != y->start)
		return x->start > y->start ? 1 : -1;
	/* the wider first: the search goes backwards and shall meet the narrower one before */
	return (x->end < y->end) - (x->end > y->end);
}

int mt_dwarf_index_load(struct mt_dwarf_index *index, Dwarf *dwarf)
{
	Dwarf_CU *cu = NULL;
	Dwarf_Die die;
	uint8_t type;
	Dwarf_Half version;
	while (!dwarf_get_units(dwarf, cu, &cu, &version, &type, &die, NULL)) {
		if (type != DW_UT_compile && type != DW_UT_skeleton && type != DW_UT_partial)
			continue;
		if (add_unit(index, &die))
			return -ENOMEM;
	}
	if (index->ranges)
		qsort(index->range, index->ranges, sizeof(*index->range), compare_ranges);
	uint64_t max_end = 0;
	for (size_t i = 0; i < index->ranges; i++) {
		max_end = MT_MAX(max_end, index->range[i].end);
		index->range[i].max_end = max_end;
	}
	return 0;
}

size_t mt_dwarf_index_find(const struct mt_dwarf_index *index, uint64_t address)
{
	size_t low = MT_SEARCH_UP_TO(index->range, index->ranges, start, address);

	while (low-- > 0 && index->range[low].max_end > address)
		if (index->range[low].end > address)
			return index->range[low].unit;
	return SIZE_MAX;
}

bool mt_dwarf_unit_die(const Dwarf_Die *unit, Dwarf_Die *ret_die)
{
	Dwarf_Die skeleton, split;
	uint8_t type;
	*ret_die = *unit;
	memset(&split, 0, sizeof(split));
	if (dwarf_cu_info(unit->cu, NULL, &type, &skeleton, &split, NULL, NULL, NULL))
		return true;
	if (type != DW_UT_skeleton)
		return true;
	if (!split.addr)
		return false;
	*ret_die = split;
	return true;
}

/* ---- chains ---- */

struct scope {
	Dwarf_Die die;
	const struct scope *outer;
	size_t len;
};

struct walk {
	struct mt_dwarf_target *target;
	size_t count;
	bool thorough; /* look also inside functions that hold no target: nested functions */
	long dies;
	int error;
};

static size_t first_at_or_after(const struct walk *w, uint64_t address)
{
	size_t low = MT_SEARCH_BELOW(w->target, w->count, address, address);

	return low;
}

static void set_chain(struct walk *w, struct mt_dwarf_target *t, const struct scope *scope)
{
	Dwarf_Die *chain = mt_alloc_grow(t->chain, &t->chain_cap, scope->len, sizeof(*chain));
	if (!chain) {
		w->error = -ENOMEM;
		return;
	}
	t->chain = chain;
	t->chain_len = 0;
	for (; scope; scope = scope->outer)
		chain[t->chain_len++] = scope->die;
}

/* How many targets lie in the DIE; gives them the chain `scope` unless it is NULL. */
static size_t visit_targets(struct walk *w, Dwarf_Die *die, const struct scope *scope)
{
	Dwarf_Addr base, start, end;
	ptrdiff_t at = 0;
	size_t found = 0;
	for (int i = 0; i < RANGES_MAX && (at = dwarf_ranges(die, at, &base, &start, &end)) > 0;
	     i++) {
		if (!start)
			continue;
		for (size_t t = first_at_or_after(w, start);
		     t < w->count && w->target[t].address < end && !w->error; t++, found++)
			if (scope)
				set_chain(w, &w->target[t], scope);
	}
	return found;
}

static void walk_children(struct walk *w, Dwarf_Die *parent, const struct scope *scope, int depth);

static void walk_function(struct walk *w, Dwarf_Die *die, const struct scope *outer, int depth)
{
	const struct scope scope = {.die = *die, .outer = outer, .len = outer ? outer->len + 1 : 1};
	if (scope.len > CHAIN_MAX)
		return;
	if (visit_targets(w, die, &scope) || w->thorough)
		walk_children(w, die, &scope, depth);
}

static void walk_die(struct walk *w, Dwarf_Die *die, const struct scope *scope, int depth)
{
	switch (dwarf_tag(die)) {
	case DW_TAG_subprogram:
	case DW_TAG_entry_point:
		walk_function(w, die, NULL, depth);
		break;
	case DW_TAG_inlined_subroutine:
		if (scope)
			walk_function(w, die, scope, depth);
		break;
	case DW_TAG_lexical_block:
	case DW_TAG_try_block:
	case DW_TAG_catch_block:
	case DW_TAG_with_stmt:
	case DW_TAG_common_block:
	case DW_TAG_namespace:
	case DW_TAG_module:
	case DW_TAG_class_type:
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
	case DW_TAG_interface_type:
		walk_children(w, die, scope, depth);
		break;
	default:
		break;
	}
}

static void walk_children(struct walk *w, Dwarf_Die *parent, const struct scope *scope, int depth)
{
	Dwarf_Die die;
	if (depth >= DEPTH_MAX || dwarf_child(parent, &die))
		return;
	do {
		if (w->error || ++w->dies > DIES_MAX)
			return;
		walk_die(w, &die, scope, depth + 1);
	} while (!dwarf_siblingof(&die, &die));
}

int mt_dwarf_unit_chains(Dwarf_Die *unit_die, struct mt_dwarf_target *target, size_t count)
{
	struct walk w = {.target = target, .count = count};
	walk_children(&w, unit_die, NULL, 0);
	for (size_t i = 0; i < count && !w.error && !w.thorough; i++) {
		if (target[i].chain_len)
			continue;
		w.thorough = true;
		walk_children(&w, unit_die, NULL, 0);
	}
	return w.error;
}
