/* SPDX-License-Identifier: MIT */
#ifndef MT_CLI_TOP_NAMER_H
#define MT_CLI_TOP_NAMER_H

/*
 * Names for call sites, found by a thread of its own so that the screen never waits for debug
 * files. First come names by module and offset, which need the state file only, then the symbols.
 */

#include "cli/watched.h"

struct mt_top_namer;

/* NULL: no thread or no memory. no_symbols: names by module and offset only. */
struct mt_top_namer *mt_top_namer_new(bool no_symbols);

/* Gives up what is under way and waits for the thread. NULL is allowed. */
void mt_top_namer_free(struct mt_top_namer *n);
MT_AUTO_DEFINE(mt_top_namer, struct mt_top_namer *, mt_top_namer_free)

/*
 * Asks for names of sites of the process with this state file. While an answer is under way, later
 * questions about the same file wait for it; one about another file replaces it.
 */
void mt_top_namer_ask(struct mt_top_namer *n, const char *path, const uint32_t *site,
		      uint32_t count);

/*
 * Takes over names that were found for this file; those for others are dropped. Whether there were
 * any: then the two sets of names have changed.
 */
bool mt_top_namer_take(struct mt_top_namer *n, const char *path, struct mt_site_names *quick,
		       struct mt_site_names *full);

/* Becomes readable when there is something to take. */
int mt_top_namer_fd(const struct mt_top_namer *n);

#endif
