/* SPDX-License-Identifier: MIT */
#ifndef MT_ANALYSIS_SUPPRESS_H
#define MT_ANALYSIS_SUPPRESS_H

/*
 * Suppressions: which leaks and memory errors a report leaves out. One reader takes both common
 * notations, also mixed in one file:
 *
 *	leak:PATTERN     as LeakSanitizer: matches when the function, source file or module of any
 *	                 frame has PATTERN in it; '*' is any text, '^' first and '$' last are
 *	                 anchors
 *	error:PATTERN    the same for memory errors of every kind, in any of their stacks; the name
 *	                 of a kind (mt_words_error_key(): "double-free:PATTERN") for one kind alone
 *	{ ... }          as Valgrind: an entry of kind Memcheck:Leak, Memcheck:Addr1 to Addr32 or
 *	                 Memcheck:Free with the lines fun:, obj:, src: and "..."; other tools' and
 *	                 other kinds of entries are skipped and counted
 *
 * Lines that are empty or begin with '#' are comments. Not thread-safe.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"

struct mt_names;
struct mt_profile;
struct mt_profile_error;
struct mt_suppressions;

/* One frame to match; NULL: not known. */
struct mt_suppress_frame {
	const char *function; /* readable name */
	const char *mangled;  /* as in the symbol table; NULL: the same */
	const char *file;     /* source file */
	const char *module;   /* path of the program or library */
	uint32_t line;
	bool is_inlined; /* into the next frame */
};

/* One suppression, for the report. Strings belong to the suppressions. */
struct mt_suppress_rule {
	const char *text; /* "leak:PATTERN" or the name of the Valgrind entry */
	const char *file; /* where it was read */
	uint32_t line;
	uint64_t sites, count, bytes; /* what mt_suppressions_add_hit() was told */
};

/* Frees all; NULL is allowed. */
void mt_suppressions_free(struct mt_suppressions *s);
/* An empty set or NULL (no memory). */
struct mt_suppressions *mt_suppressions_new(void) MT_MALLOC(mt_suppressions_free);
MT_AUTO_DEFINE(mt_suppressions, struct mt_suppressions *, mt_suppressions_free)

/*
 * Adds the rules of a text (len bytes, any content); `name` is for messages. 0; -EBADMSG with the
 * place as 'name:line' in *err: no rule of the text is kept; -ENOMEM.
 */
int mt_suppressions_read(struct mt_suppressions *s, const char *name, const char *text, size_t len,
			 struct mt_err *err);

/* As above from a file of at most 16 MiB; also the errno of a failed call. */
int mt_suppressions_read_file(struct mt_suppressions *s, const char *path, struct mt_err *err);

/*
 * The first rule for leaks that matches a stack: its index + 1, or 0. Frames go from the allocation
 * function outward ("malloc" first: Valgrind's entries begin with it), inlined ones included; an
 * entry may match with or without the inlined ones.
 */
uint32_t mt_suppressions_match(const struct mt_suppressions *s,
			       const struct mt_suppress_frame *frame, size_t count);

/*
 * As above for a site of a profile, with the names that `names` gives (NULL: modules only). Writes
 * the answer to *ret_rule; 0 or -ENOMEM.
 */
int mt_suppressions_match_site(const struct mt_suppressions *s, const struct mt_profile *p,
			       uint32_t site, const struct mt_names *names, uint32_t *ret_rule);

/*
 * The same for a memory error. Entries are compared with the stack of the call that failed, the
 * function first, or of the free where nobody knows who wrote later; lines with all stacks.
 */
int mt_suppressions_match_error(const struct mt_suppressions *s, const struct mt_profile *p,
				const struct mt_profile_error *e, const struct mt_names *names,
				uint32_t *ret_rule);

/* Counts one site with `count` blocks of `bytes` bytes for a rule (index + 1, as from a match). */
void mt_suppressions_add_hit(struct mt_suppressions *s, uint32_t rule, uint64_t count,
			     uint64_t bytes);

/* Rules in the order of reading; index < count. Borrowed from s. */
uint32_t mt_suppressions_count(const struct mt_suppressions *s);
const struct mt_suppress_rule *mt_suppressions_rule(const struct mt_suppressions *s,
						    uint32_t index);

/* Valgrind entries that were read but are of other kinds. */
uint32_t mt_suppressions_skipped(const struct mt_suppressions *s);

#endif
