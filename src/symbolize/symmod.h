/* SPDX-License-Identifier: MIT */
#ifndef MT_SYMBOLIZE_SYMMOD_H
#define MT_SYMBOLIZE_SYMMOD_H

/* One module's symbols, read from its files with libdw. One thread at a time uses one object. */

#include "symbolize/debugfile.h"
#include "symbolize/symset.h"

struct mt_symmod;

/*
 * Finds the module's files (opens no DWARF yet). *ret_state says what was wrong with the recorded
 * path; it is set also on failure. 0, -ENOENT (no file describes the module), -ENOMEM. `options`
 * and `key` are borrowed until the close.
 */
int mt_symmod_open(const struct mt_debugfile_options *options, const struct mt_debugfile_key *key,
		   struct mt_symmod **ret_module, enum mt_debugfile_state *ret_state);

/* NULL is allowed. */
void mt_symmod_close(struct mt_symmod *m);

/* The loaded segments of the module's file. Borrowed from m. */
const struct mt_debugfile_segment *mt_symmod_segments(const struct mt_symmod *m,
						      uint32_t *ret_count);

/* Names the files and their state on disk: another value when one of them was replaced. */
uint64_t mt_symmod_identity(const struct mt_symmod *m);

/*
 * Looks up `count` distinct ELF virtual addresses and adds an entry for each to `set`, sorted. An
 * address that nothing is known of gets an entry without frames. `*stop` (atomic, may be NULL) ends
 * the work early: then -ECANCELED and the entries so far. *ret_cacheable is false when something
 * that could appear later was missing (no DWARF, a .dwo file). Needs MT_DEMANGLE_STACK_BYTES of
 * stack. 0, -ECANCELED, -ENOMEM, -EIO (the file cannot be read as ELF after all).
 */
int mt_symmod_resolve(struct mt_symmod *m, const uint64_t *vaddr, size_t count, const int *stop,
		      struct mt_symset *set, bool *ret_cacheable);

#endif
