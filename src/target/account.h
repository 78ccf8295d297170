/* SPDX-License-Identifier: MIT */
#ifndef MT_TARGET_ACCOUNT_H
#define MT_TARGET_ACCOUNT_H

/*
 * Rows of a process's memory: its mappings one by one, put together by what is mapped, or by
 * category; and what changed between two moments. Not thread-safe.
 */

#include "target/vma_kind.h"

struct mt_arena;

enum mt_account_by { MT_ACCOUNT_OBJECT, MT_ACCOUNT_MAPPING, MT_ACCOUNT_KIND };

/* What rows can be sorted by, and shown as. */
enum mt_account_column {
	MT_ACCOUNT_RSS,
	MT_ACCOUNT_PSS,
	MT_ACCOUNT_USS,
	MT_ACCOUNT_PRIVATE_DIRTY,
	MT_ACCOUNT_SHARED,
	MT_ACCOUNT_ANON,
	MT_ACCOUNT_FILE,
	MT_ACCOUNT_SWAP,
	MT_ACCOUNT_HUGE,
	MT_ACCOUNT_SIZE,
	MT_ACCOUNT_COUNT,
	MT_ACCOUNT_DUMPED, /* in a core file */
	MT_ACCOUNT_VALUES, /* the rest has no value */
	MT_ACCOUNT_ADDRESS = MT_ACCOUNT_VALUES,
	MT_ACCOUNT_NAME
};

struct mt_account_row {
	const char *name; /* of the object or category */
	struct mt_vma_label label;
	uint64_t start, end; /* of the first mapping */
	uint32_t flags;
	struct mt_smaps_sum now, old; /* old: with mt_account_compare() */
	bool was_there, is_there;     /* false: new, gone */
};

struct mt_account {
	enum mt_account_by by;
	enum mt_vma_rules rules;
	bool has_old;
	struct mt_account_row *row; /* owned */
	size_t count;
	struct mt_smaps_sum total, old_total;
	struct mt_arena *arena; /* names */
};

/* labels: of mt_vma_classify(); rules: those in force. 0 or -ENOMEM. */
int mt_account_make(const struct mt_smaps *s, const struct mt_vma_label *labels,
		    enum mt_vma_rules rules, enum mt_account_by by, struct mt_account *ret_account);
void mt_account_done(struct mt_account *a);
MT_AUTO_DEFINE_INPLACE(mt_account, struct mt_account, mt_account_done)

/*
 * Fills a's `old` from an earlier account of the same kind, and adds rows for what is gone. A
 * mapping is the same if it has the same name and begins or ends at the same address. 0/-ENOMEM.
 */
int mt_account_compare(struct mt_account *a, const struct mt_account *old);

/* Largest first, with `old` what grew most first; by address or name upwards. */
void mt_account_sort(struct mt_account *a, enum mt_account_column by);

uint64_t mt_account_value(const struct mt_smaps_sum *s, enum mt_account_column column);
/* Whether the text has what the value is made of. */
bool mt_account_has(const struct mt_smaps_sum *s, enum mt_account_column column);
/* "rss", "private_dirty": as in --sort. */
const char *mt_account_column_name(enum mt_account_column column);

/* The summary of an account by kind, as Android's. */
enum mt_account_summary {
	MT_ACCOUNT_JAVA,
	MT_ACCOUNT_NATIVE,
	MT_ACCOUNT_CODE,
	MT_ACCOUNT_STACK,
	MT_ACCOUNT_GRAPHICS,
	MT_ACCOUNT_PRIVATE_OTHER,
	MT_ACCOUNT_SYSTEM,
	MT_ACCOUNT_SUMMARIES
};

struct mt_account_app {
	int64_t pss_bytes[MT_ACCOUNT_SUMMARIES]; /* private ones, but for SYSTEM: the rest of Pss */
	uint64_t rss_bytes[MT_ACCOUNT_SUMMARIES]; /* PRIVATE_OTHER: none; SYSTEM: all other Rss */
	uint64_t total_pss_bytes;                 /* with SwapPss */
	uint64_t total_rss_bytes, total_swap_bytes;
	bool is_swap_pss; /* total_swap_bytes is SwapPss, else Swap and in no Pss */
};

void mt_account_summary(const struct mt_smaps *s, const struct mt_vma_label *labels,
			struct mt_account_app *ret_app);
const char *mt_account_summary_name(enum mt_account_summary row);

#endif
