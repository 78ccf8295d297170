/* SPDX-License-Identifier: MIT */
#ifndef MT_TARGET_SMAPS_H
#define MT_TARGET_SMAPS_H

/*
 * What the kernel says of a process's mappings: the texts of /proc/PID/maps, smaps and
 * smaps_rollup, from a running process or saved in a file, perhaps on another machine or device.
 * Any bytes may be in such a file: what cannot be understood is counted and told, never guessed.
 * Thread-safe.
 */

#include "base/buf.h"
#include "base/err.h"
#include "core/cc.h"
#include "target/image.h"

/* Lines of smaps that hold a size, in kB there, in bytes here. */
enum mt_smaps_field {
	MT_SMAPS_RSS,
	MT_SMAPS_PSS,
	MT_SMAPS_PSS_DIRTY,
	MT_SMAPS_PSS_ANON, /* this and the next two in smaps_rollup only */
	MT_SMAPS_PSS_FILE,
	MT_SMAPS_PSS_SHMEM,
	MT_SMAPS_SHARED_CLEAN,
	MT_SMAPS_SHARED_DIRTY,
	MT_SMAPS_PRIVATE_CLEAN,
	MT_SMAPS_PRIVATE_DIRTY,
	MT_SMAPS_REFERENCED,
	MT_SMAPS_ANONYMOUS,
	MT_SMAPS_KSM,
	MT_SMAPS_LAZY_FREE,
	MT_SMAPS_ANON_HUGE,
	MT_SMAPS_SHMEM_HUGE, /* ShmemPmdMapped */
	MT_SMAPS_FILE_HUGE,  /* FilePmdMapped */
	MT_SMAPS_SHARED_HUGETLB,
	MT_SMAPS_PRIVATE_HUGETLB,
	MT_SMAPS_SWAP,
	MT_SMAPS_SWAP_PSS,
	MT_SMAPS_LOCKED,
	MT_SMAPS_LINES,
	/* no line of a text: how much of the mapping a core file holds */
	MT_SMAPS_DUMPED = MT_SMAPS_LINES,
	MT_SMAPS_FIELDS
};

/* The kernel's name of a field: "Rss", "Pss_Dirty"; "Dumped". */
const char *mt_smaps_field_name(enum mt_smaps_field field);

/* Sizes of one mapping, or the sums of several. Sums stop at UINT64_MAX. */
struct mt_smaps_sum {
	uint64_t mappings;
	uint64_t size_bytes; /* of addresses; 0 with mappings: not known, as of a rollup */
	uint64_t bytes[MT_SMAPS_FIELDS];
	uint32_t known; /* bit n: the text has a line for field n, in some mapping */
};

void mt_smaps_sum_add(struct mt_smaps_sum *to, const struct mt_smaps_sum *of);
MT_INLINE bool mt_smaps_has(const struct mt_smaps_sum *s, enum mt_smaps_field field)
{
	return s->known >> field & 1;
}
/* Private_Clean + Private_Dirty: what would be free if the process ended. */
uint64_t mt_smaps_uss(const struct mt_smaps_sum *s);
uint64_t mt_smaps_shared(const struct mt_smaps_sum *s);
/* Rss that is not anonymous: pages of files and of shared memory. */
uint64_t mt_smaps_file(const struct mt_smaps_sum *s);
/* Pages mapped by one large entry: anonymous, of shared memory, of files, hugetlb. */
uint64_t mt_smaps_huge(const struct mt_smaps_sum *s);

struct mt_smaps_mapping {
	struct mt_mapping m; /* name: borrowed from the text, as the kernel wrote it (\012) */
	struct mt_smaps_sum sum;
	const char *vm_flags; /* "rd wr mr mw me ac", "" when not known */
	int thp_eligible;     /* 0, 1; -1: not known */
};

enum mt_smaps_kind {
	MT_SMAPS_MAPS,   /* no sizes but those of addresses */
	MT_SMAPS_FULL,   /* smaps */
	MT_SMAPS_ROLLUP, /* smaps_rollup: sums, as one mapping named [rollup] */
	MT_SMAPS_CORE    /* no text: target/smaps_core.h */
};

/* What in a text could not be taken. All zero: nothing. */
struct mt_smaps_doubts {
	uint64_t bad_lines;      /* neither a mapping nor a field, or a broken one */
	uint64_t first_bad_line; /* from 1 */
	char first_bad_text[48];
	uint64_t unknown_fields;     /* lines of fields that are not known here */
	char first_unknown_name[32]; /* of a field */
	uint64_t repeated_fields;    /* given twice for one mapping: the first one counts */
	uint64_t disordered;         /* mappings that begin before the end of the one above */
	uint64_t incomplete;         /* mappings that lack fields which others have */
	bool is_cut;                 /* the last line has no end */
};

struct mt_smaps {
	enum mt_smaps_kind kind;
	struct mt_smaps_mapping *mapping; /* owned; in the order of the text */
	size_t count, capacity;
	bool is_android; /* names that Android gives */
	struct mt_smaps_doubts doubts;
	char *text; /* owned; NULL: names are borrowed from elsewhere */
};

/*
 * Takes a text, whatever of the three it is. `text`: a heap block with a NUL behind its len bytes;
 * from now on, also after a failure, it is not the caller's. `name` is for messages. 0; -EINVAL
 * when there is no mapping in it; -E2BIG, -ENOMEM; *err says what and which line. The result is
 * freed with mt_smaps_done().
 */
int mt_smaps_parse(char *text, size_t len, const char *name, struct mt_smaps *ret_smaps,
		   struct mt_err *err);
void mt_smaps_done(struct mt_smaps *s);
MT_AUTO_DEFINE_INPLACE(mt_smaps, struct mt_smaps, mt_smaps_done)

/*
 * The text of /proc/PID/maps, smaps or smaps_rollup, in a heap block that the caller frees with
 * free(). -ESRCH: there is no such process, or it has no memory (kernel thread, zombie); -EACCES:
 * its memory may not be looked at; -ENOENT: this kernel has no such file; others with *err.
 */
int mt_smaps_text(pid_t pid, enum mt_smaps_kind kind, char **ret_text, size_t *ret_len,
		  struct mt_err *err);

/* Both of a process; errors of both. */
int mt_smaps_read(pid_t pid, enum mt_smaps_kind kind, struct mt_smaps *ret_smaps,
		  struct mt_err *err);

/* A saved file, also a pipe. */
int mt_smaps_read_file(const char *path, struct mt_smaps *ret_smaps, struct mt_err *err);

/* Whether a text begins like one of the three (or has such a line among its first ones). */
bool mt_smaps_is_text(const char *text, size_t len);

void mt_smaps_total(const struct mt_smaps *s, struct mt_smaps_sum *ret_sum);

/* Calls emit with a sentence for each doubt. */
void mt_smaps_tell_doubts(const struct mt_smaps *s,
			  void (*emit)(void *context, const char *sentence), void *context);

#endif
