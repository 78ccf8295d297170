/* SPDX-License-Identifier: MIT */
#ifndef MT_CLI_SUBJECT_H
#define MT_CLI_SUBJECT_H

/*
 * What memtrack maps and meminfo look at: the mappings of a process, of a saved text or of a core
 * file, and the rows made of them.
 */

#include "cli/heap_ranges.h"
#include "target/account.h"

enum { MT_SUBJECT_NAME_MAX = 256 };

/* All zero: nothing. */
struct mt_subject {
	pid_t pid; /* 0: a file */
	char name[MT_SUBJECT_NAME_MAX];
	struct mt_smaps s;
	struct mt_vma_process process; /* of a PID; of a core file only what it says of Java */
	struct mt_heap_ranges heap;    /* mt_subject_find_heap() */
	struct mt_image *core;   /* owned; NULL: no core file. Names in s are borrowed from it */
	struct mt_err core_note; /* its text: what of the core file is missing */
	struct mt_account account;
	struct mt_account_app app; /* its summary */
};

void mt_subject_done(struct mt_subject *u);
MT_AUTO_DEFINE_INPLACE(mt_subject, struct mt_subject, mt_subject_done)

/* Do not move it then. 0 or a negative errno value, as of mt_smaps_read(), with *err. */
int mt_subject_open_process(struct mt_subject *u, pid_t pid, struct mt_err *err);
/* A text of maps, smaps or smaps_rollup, or a core file. */
int mt_subject_open_file(struct mt_subject *u, const char *path, struct mt_err *err);

/*
 * Asks the allocator's structures of a process or core file which mappings are its own; some
 * milliseconds, and nothing for glibc. 0 or -ENOMEM with *err.
 */
int mt_subject_find_heap(struct mt_subject *u, struct mt_err *err);

/* Whether a file begins as a core file does (any ELF file: others are refused with a reason). */
bool mt_subject_is_core(const char *path);

struct mt_subject_rows {
	enum mt_account_by by;
	enum mt_vma_rules rules; /* wanted */
};

/*
 * Makes u's account and, if old is not NULL, old's, with which it compares u's; both are sorted by
 * the same rules. 0 or a negative errno value with *err.
 */
int mt_subject_make_rows(struct mt_subject *u, struct mt_subject *old,
			 const struct mt_subject_rows *how, struct mt_err *err);

#endif
