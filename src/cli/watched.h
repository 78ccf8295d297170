/* SPDX-License-Identifier: MIT */
#ifndef MT_CLI_WATCHED_H
#define MT_CLI_WATCHED_H

/* The running tracked processes, read again and again: for metrics and top. */

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "base/map.h"
#include "model/watch.h"

/* How a call site is called. Strings are owned and never NULL. */
struct mt_site_name {
	uint32_t site;
	char *function; /* innermost but operator new, or module+0xoffset */
	char *place;    /* "file:line", "" not known */
	char *caller;   /* "" not known */
	const char *call;
	uint64_t callstack_hash;
};

/* Names of some of a process's sites. All-zero is empty. */
struct mt_site_names {
	struct mt_site_name *item; /* owned */
	size_t count, capacity;
	struct mt_map at; /* site -> index in item + 1 */
};

void mt_site_names_done(struct mt_site_names *n);
MT_AUTO_DEFINE_INPLACE(mt_site_names, struct mt_site_names, mt_site_names_done)

/* NULL when it is not known yet. Valid until the next change. */
const struct mt_site_name *mt_site_names_get(const struct mt_site_names *n, uint32_t site);

/*
 * Enters a name, whose strings it takes over: *name is emptied; one of the same site is replaced.
 * On failure they are freed. 0 or -ENOMEM.
 */
int mt_site_names_put(struct mt_site_names *n, struct mt_site_name *name);

struct mt_site_naming {
	const uint32_t *site; /* wanted */
	uint32_t count;
	bool no_symbols;          /* module+0xoffset only: no file but the state is read */
	const volatile int *stop; /* becomes not 0: end early; NULL: never */
	uint64_t limit_ns;        /* end early after this time; 0: none */
};

/*
 * Adds names of sites that have none yet, from the state file and the symbols of its modules. When
 * it ends early the names without symbols are not kept: ask again. 0, or a negative errno value.
 */
int mt_site_names_add(struct mt_site_names *n, const char *path, const struct mt_site_naming *how);

/* Live bytes since the first reading, thinned by half whenever it is full. */
enum { MT_WATCHED_POINTS = 512 };
struct mt_watched_history {
	uint64_t ns[MT_WATCHED_POINTS]; /* of mt_watch.read_ns */
	int64_t live_bytes[MT_WATCHED_POINTS];
	uint32_t count;
	uint32_t stride, skipped; /* every stride-th reading is kept */
};

struct mt_watched {
	char *path, *program, *called;      /* owned; called: as find.h says */
	struct mt_watched_history *history; /* owned; NULL before the first reading */
	struct mt_watch now;                /* of the last reading that succeeded */
	struct mt_watch before;
	bool has_before;
	bool is_stale; /* the last reading did not see it */
	struct mt_site_names names;
};

struct mt_watched_list {
	struct mt_watched *item; /* owned; in order of pid, one of each */
	size_t count, capacity;
	uint64_t left_out;   /* processes beyond the bound */
	uint64_t unreadable; /* state files that could not be read the last time */
};

enum { MT_WATCHED_MAX = 1000 };

/* NULL is allowed. */
void mt_watched_list_done(struct mt_watched_list *l);
MT_AUTO_DEFINE_INPLACE(mt_watched_list, struct mt_watched_list, mt_watched_list_done)

/*
 * Finds the processes anew and reads each (`what`: bits of enum mt_mtk_watch_what); those that are
 * gone leave the list. Of several state files of one process (exec) the newest counts. 0 or
 * -ENOMEM.
 */
int mt_watched_list_find(struct mt_watched_list *l, unsigned what);

/* Frees what it owns. */
void mt_watched_done(struct mt_watched *w);

/* Reads one again. 0, or a negative errno value (then it keeps what it had and is stale). */
int mt_watched_read(struct mt_watched *w, unsigned what);

#endif
