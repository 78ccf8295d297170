/* SPDX-License-Identifier: MIT */
#ifndef MT_REPORT_ERROR_LIST_H
#define MT_REPORT_ERROR_LIST_H

/*
 * The errors of all profiles, the same ones together: of one kind, found by one function, with
 * equal call stacks. Private to report.
 */

#include "base/cleanup.h"
#include "base/map.h"
#include "report/internal.h"

/* As in the state file; the report does not know that format. */
enum mt_error_kind {
	MT_ERROR_KIND_OVERFLOW = 1,
	MT_ERROR_KIND_UNDERFLOW,
	MT_ERROR_KIND_USE_AFTER_FREE,
	MT_ERROR_KIND_DOUBLE_FREE,
	MT_ERROR_KIND_INVALID_FREE,
	MT_ERROR_KIND_WILD,
	MT_ERROR_KIND_MISMATCH,
	MT_ERROR_KIND_HEADER,
	MT_ERROR_KINDS
};
enum { MT_ERROR_READS = 1, MT_ERROR_WRITES = 2 };
enum {
	MT_ERROR_IS_LATE = 1,
	MT_ERROR_IS_INHERITED = 2,
	MT_ERROR_IS_FATAL = 4,
	MT_ERROR_IS_BY_LOOK = 8,
};

struct mt_error_group {
	const struct mt_profile *p;           /* of the first */
	const struct mt_profile_error *first; /* borrowed */
	uint64_t count;
	bool is_suppressed;
};

struct mt_error_list {
	struct mt_error_group *group; /* owned, in the order of their first errors */
	size_t capacity;
	uint32_t count;
	struct mt_map number; /* key of a group -> its number */
	/* errors, not groups */
	uint64_t errors, suppressed; /* shown; left out by suppressions */
	uint64_t refused;            /* that the table had no room for */
	uint64_t of_kind[MT_ERROR_KINDS];
	uint64_t reallocs;    /* of the double frees, see mt_error_is_realloc() */
	uint64_t corruptions; /* those that changed memory that was not the writer's */
};

/* 0 or -ENOMEM; *l is to be given to mt_error_list_done() either way. */
int mt_error_list_make(const struct mt_report *r, struct mt_error_list *l);
void mt_error_list_done(struct mt_error_list *l);
MT_AUTO_DEFINE_INPLACE(mt_error_list, struct mt_error_list, mt_error_list_done)

/* The next group that is not suppressed, from *pos = 0 on; NULL at the end. */
const struct mt_error_group *mt_error_list_next(const struct mt_error_list *l, uint32_t *pos);

bool mt_error_is_free(const struct mt_profile_error *e);
/* A freed block was given to realloc: the kind is that of a double free. */
bool mt_error_is_realloc(const struct mt_profile_error *e);
/* It wrote where it had no right to. */
bool mt_error_is_corruption(const struct mt_profile_error *e);
/* The frame at which people look first: the access, or, where only its traces were found, the
 * allocation. 0: not known. */
uint32_t mt_error_place(const struct mt_profile_error *e);

/* "read", "write" or "unknown". */
const char *mt_error_access_key(uint32_t access);

#endif
