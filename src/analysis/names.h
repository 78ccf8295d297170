/* SPDX-License-Identifier: MIT */
#ifndef MT_ANALYSIS_NAMES_H
#define MT_ANALYSIS_NAMES_H

/*
 * How analysis and report ask for the source names of a frame. The symbolizer is another layer:
 * whoever has one (the command line, a test) fills struct mt_names. Without one, frames are
 * `module+0xoffset`.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mt_profile;

struct mt_name {
	const char *function; /* demangled; NULL: not known */
	const char *mangled;  /* as in the symbol table; NULL: the same, or not known */
	const char *file;     /* NULL: not known */
	uint32_t line;        /* 0: not known */
	bool is_inlined;      /* inlined into the next entry */
};

struct mt_names {
	/*
	 * Fills names of one frame: inlined functions first, the function that holds the code last;
	 * returns how many (0: nothing known, at most max). Strings live as long as `context`.
	 */
	uint32_t (*frames)(void *context, const struct mt_profile *p, uint32_t node,
			   struct mt_name *ret, uint32_t max);
	void *context;
};

enum { MT_NAMES_MAX = 32 };

/*
 * As names->frames, with NULL `names`, source frames (file and line given by the program) and
 * names that the profile's source told (used where `names` has none) handled here; never more than
 * max. Thread safety: that of names->frames.
 */
uint32_t mt_names_frames(const struct mt_names *names, const struct mt_profile *p, uint32_t node,
			 struct mt_name *ret, uint32_t max);

/*
 * Writes `module+0xoffset` (or `0xaddress` outside every module) of a frame into buf,
 * NUL-terminated and cut at len. full_path: the module's path instead of its last part. Returns
 * buf.
 */
char *mt_names_place(const struct mt_profile *p, uint32_t node, bool full_path, char *buf,
		     size_t len);

/*
 * Writes the best one-line name of a frame: the function, else the place. Returns buf.
 */
char *mt_names_function(const struct mt_names *names, const struct mt_profile *p, uint32_t node,
			char *buf, size_t len);

/* The last part of a path; "?" for an empty one. Borrowed from path. */
const char *mt_names_base(const char *path);

/* Words for the numbers that a profile keeps from the state file. Static strings, never NULL. */
const char *mt_words_call(uint32_t call); /* "malloc", "operator new" ... */
const char *mt_words_mode(uint32_t mode); /* "full" ... */
/* Kinds of memory errors: "heap buffer overflow"; "overflow", as machine formats have it. */
const char *mt_words_error(uint32_t kind);
const char *mt_words_error_key(uint32_t kind);
const char *mt_words_stack_end(uint32_t end); /* "complete", "cut at the depth limit" ... */
/* What lost[index] counts, as the object of "N ...". Plural. */
const char *mt_words_lost(uint32_t index);
/* The sentence for one bit (its number) of profile.notes; NULL: not known. */
const char *mt_words_note(uint32_t bit);
/*
 * Whether that sentence is a warning. The others change no number, or are said beside the number
 * that they concern.
 */
bool mt_words_note_is_warning(uint32_t bit);
/* How the process ended, into buf: "exited with status 3", "was killed by signal 9 (SIGKILL)". */
char *mt_words_end(uint32_t end_kind, int32_t end_code, char *buf, size_t len);

#endif
