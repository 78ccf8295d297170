/* SPDX-License-Identifier: MIT */
#ifndef MT_CLI_LEAK_SEARCH_H
#define MT_CLI_LEAK_SEARCH_H

/* A search for lost blocks of a process or a core file: image, what the tracker knows, result. */

#include "cli/load.h"
#include "reach/find.h"
#include "report/leaks.h"
#include "target/copy_cost.h"

struct mt_leak_search {
	pid_t pid;        /* 0: a core file */
	const char *core; /* its path; borrowed */
	char *state;      /* owned: path of the state file, NULL: the process is not tracked */
	void (*on_image)(void *context); /* called when the image is made; NULL: nothing is */
	void *context;
	bool wants_cost; /* of the copy: measured and counted, in `cost` */
	bool is_quiet; /* nothing is allocated or freed meanwhile: it has one thread, which waits */
	struct mt_image *im;
	struct mt_image_facts facts; /* when all was read; stop_ns: of all looks together */
	uint64_t earlier_stop_ns;    /* of the looks before, see mt_leak_search_again() */
	struct mt_copy_cost cost;
	struct mt_err note;     /* with a text: why no copy could be made, or what a core lacks */
	struct mt_known *known; /* owned */
	size_t knowns;
	bool is_table;              /* `known` has all blocks */
	struct mt_loaded loaded;    /* the profile, if there is one */
	struct mt_profile *tracked; /* it; NULL: none */
	struct mt_find find;
};

void mt_leak_search_done(struct mt_leak_search *s); /* NULL is fine */
MT_AUTO_DEFINE_INPLACE(mt_leak_search, struct mt_leak_search, mt_leak_search_done)

/*
 * Makes the image, between two readings of the state: a process stands still while its copy is
 * made. 0 or a negative errno value with *err.
 */
int mt_leak_search_open(struct mt_leak_search *s, struct mt_err *err);

/* Fills s->find; flags: enum mt_mark_flags. 0 or a negative errno value with *err. */
int mt_leak_search_run(struct mt_leak_search *s, uint32_t flags, bool is_strict,
		       struct mt_err *err);

/*
 * Whether another look is worth it: in the copy of a process that runs, what seems to be damage of
 * the heap may be a thread in the middle of a change.
 */
bool mt_leak_search_is_doubtful(const struct mt_leak_search *s);

/* Forgets what was found, and is as before mt_leak_search_open(). */
void mt_leak_search_again(struct mt_leak_search *s);

/*
 * Tells the profile what the search found of each of its blocks, and in profile.look when and how.
 * For a search with is_table, after mt_leak_search_let_go(). 0 or -ENOMEM.
 */
int mt_leak_search_mark(struct mt_leak_search *s);

/*
 * Of a sampled process: estimates of what is lost of each call site, from the recorded blocks among
 * the lost ones; which are recorded is chance, and does not hang on what becomes of them. Most
 * bytes first; the caller frees. *ret_count 0 for any other. 0 or -ENOMEM.
 */
int mt_leak_search_sites(const struct mt_leak_search *s, struct mt_leaks_site **ret_sites,
			 size_t *ret_count);

/* The profile, which is the caller's then. */
struct mt_profile *mt_leak_search_take(struct mt_leak_search *s);

/* Gives the image up, with s->facts as they are now: a process that stood still goes on. */
void mt_leak_search_let_go(struct mt_leak_search *s);

#endif
