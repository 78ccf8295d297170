/* SPDX-License-Identifier: MIT */
#ifndef MT_SYMBOLIZE_SYMBOLIZE_H
#define MT_SYMBOLIZE_SYMBOLIZE_H

/*
 * Source names for a profile's stacks: functions, inlined functions, files and lines, from the ELF
 * and DWARF files of its modules. A module's file counts only if its build-id is the recorded one.
 * Nothing is asked of the network unless files.debuginfod is set, whatever the environment says.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "symbolize/debugfile.h"

struct mt_profile;

struct mt_symbol_frame {
	const char *function;  /* demangled; NULL: not known */
	const char *mangled;   /* as in the file; NULL: the same as function, or not known */
	const char *display;   /* function, or "~name+0x12" for nearest_dynamic; NULL: not known */
	const char *file;      /* NULL: not known */
	uint32_t line, column; /* 0: not known */
	uint64_t offset;       /* from the start of the ELF symbol, if has_offset */
	bool has_offset;
	bool is_inline;       /* inlined into the next frame */
	bool nearest_dynamic; /* a guess: the dynamic symbol before the address, in a stripped
				 module */
};

/* All-zero means: standard places, one thread a processor (at most 8), standard cache, no progress.
 */
struct mt_symbolize_options {
	struct mt_debugfile_options files;
	uint32_t threads;
	bool no_cache;
	const char *cache_dir; /* NULL: $XDG_CACHE_HOME/memtrack or ~/.cache/memtrack */
	/*
	 * Called in the caller's thread a few times a second once the work takes longer than a
	 * second. `done` of `total` modules are ready. Returns false to stop: the result is then
	 * partial.
	 */
	bool (*progress)(void *context, uint32_t done, uint32_t total);
	void *progress_context;
};

struct mt_symbols;

/*
 * Symbolizes all frames of a profile. Missing files, changed files and damaged files are no errors:
 * they give fewer names and a warning. 0, or -ENOMEM, or -EAGAIN (no thread could be started) with
 * *err. The profile must outlive the result. The caller frees with mt_symbols_free().
 */
int mt_symbolize_profile(const struct mt_profile *profile,
			 const struct mt_symbolize_options *options,
			 struct mt_symbols **ret_symbols, struct mt_err *err);

/* NULL is allowed. */
void mt_symbols_free(struct mt_symbols *s);
MT_AUTO_DEFINE(mt_symbols, struct mt_symbols *, mt_symbols_free)

/*
 * The frames of one node of the profile's stack tree, innermost inlined function first; *ret_count
 * 0 (and NULL): nothing is known but the module and the address. Borrowed from s. Any thread.
 */
const struct mt_symbol_frame *mt_symbols_node(const struct mt_symbols *s, uint32_t node,
					      uint32_t *ret_count);

/* Sentences for the user ("'/usr/lib/x.so' has changed since ..."), borrowed from s. */
uint32_t mt_symbols_warnings(const struct mt_symbols *s);
const char *mt_symbols_warning(const struct mt_symbols *s, uint32_t index);

/* True when progress() stopped the work before all of it was done. */
bool mt_symbols_stopped(const struct mt_symbols *s);

#endif
