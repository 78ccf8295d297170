/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_SITES_H
#define MT_RUNTIME_SITES_H

/*
 * From a captured stack to the counters it belongs to: stack tree nodes, sites (stack + function +
 * heap + label), and cells (a site's counters in one thread). Known (stack, tag) pairs never come
 * here: the capture's token is the cell.
 */

#include "runtime/rt.h"

/* Identity beside the stack, packed for mt_capture_stack(): call, heap << 8, regime << 16 (see
 * control.h), label << 32. */
MT_INLINE uint64_t mt_site_tag(uint32_t call, uint32_t heap, uint32_t label)
{
	return (uint64_t)call | (uint64_t)heap << 8 | (uint64_t)label << 32;
}

/* The regime in a tag. */
MT_INLINE uint32_t mt_site_tag_regime(uint64_t tag)
{
	return (uint32_t)(tag & MT_TAG_REGIME) >> 16;
}

/* The identity of a site beside its stack: the tag, and the line of source if the macro door told
 * one. */
MT_INLINE uint64_t mt_site_identity(uint64_t tag, uint64_t source)
{
	return tag ^ source * 0x9e3779b97f4a7c15u;
}

/*
 * The calling thread's cell for the stack that its capture describes; makes node, site and cell
 * when they are new, and remembers the cell as the capture's token. 0: a table is full (counted).
 * source: strings offset << 32 | line to put in front of the stack, or 0.
 */
uint32_t mt_site_cell(struct mt_thread *t, uint64_t tag, uint64_t source);

/* The calling thread's cell for a site whose block it frees; 0: table full. */
uint32_t mt_site_cell_for_free(struct mt_thread *t, uint32_t site);

/* The node of the stack that the capture describes, made when it is new. 0: no room. */
uint32_t mt_site_stack_node(struct mt_capture *c);

/* Counts a size that is not in the cell's only bucket. Owner thread. */
void mt_cell_count_size_slow(struct mt_state_cell *cell, uint32_t bucket);

/*
 * Which modules' allocations are recorded: +GLOB and -GLOB, separated by commas; "": all. A site
 * belongs to the module of its innermost frame outside the C and C++ libraries; the globs are
 * matched with the last part of its path. What '-' names is left out; with any '+', so is what none
 * names. The text stays valid. mt_site_cell() gives 0 for such sites and sets t->excluded.
 */
void mt_site_set_filter(const char *globs);

/* '*' and '?'; a comma ends the pattern, too. */
int mt_site_glob_matches(const char *glob, const char *text);

/*
 * The name of the module that a stack belongs to: of its innermost frame outside the C and C++
 * libraries, which allocate for their callers; "": none is known.
 */
const char *mt_site_stack_owner(uint32_t node);

/* 1: such globs leave out what lies in a module with this name. */
int mt_site_globs_leave_out(const char *globs, const char *name);

/* The last part of a module's path, by its number in MODULES. */
const char *mt_site_module_name(uint32_t number);

/* Rises with each filter. */
uint32_t mt_site_filter_count(void);

/* In a forked child: no site is known. */
void mt_sites_forget(void);

/* Strings offset of a source file's name (a literal: keyed by address and content), 0: no room. */
uint32_t mt_site_source_file(const char *file);

/* Number of a label's text, made when it is new; 0: no room. */
uint32_t mt_site_label(const char *text);

#endif
