/* SPDX-License-Identifier: MIT */
#ifndef MT_ANALYSIS_TABLE_H
#define MT_ANALYSIS_TABLE_H

/*
 * Tables over one or several profiles (the processes of one run): allocations grouped by site,
 * function, module, thread, size, heap or label, with sizes and counts of one measure in front.
 * Pure functions: same profiles and query, same table. Nothing here prints.
 */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/names.h"
#include "model/estimate.h"

struct mt_arena;
struct mt_profile;

enum mt_by {
	MT_BY_SITE,
	MT_BY_FUNCTION,
	MT_BY_MODULE,
	MT_BY_THREAD,
	MT_BY_SIZE,
	MT_BY_HEAP,
	MT_BY_LABEL,
};

enum mt_measure {
	MT_MEASURE_LIVE,      /* blocks that were live when the profile was read */
	MT_MEASURE_PEAK,      /* what was live when the process was at its peak */
	MT_MEASURE_TOTAL,     /* all allocations ever made */
	MT_MEASURE_TEMPORARY, /* freed before the same thread allocated again; bytes are not known
			       */
	MT_MEASURE_LARGE,     /* live blocks of at least MT_LARGE_BLOCK_BYTES */
};

enum mt_sort { MT_SORT_BYTES, MT_SORT_COUNT, MT_SORT_GROWTH, MT_SORT_AGE };

enum { MT_LARGE_BLOCK_BYTES = 1 << 20, MT_HIST_BUCKETS = 32, MT_LIFE_HIST_BUCKETS = 10 };
enum { MT_HEAP_ANY = UINT32_MAX };

struct mt_query {
	enum mt_measure measure;
	enum mt_by by;
	enum mt_sort sort;
	uint32_t heap;       /* heap index: 0 is malloc; MT_HEAP_ANY: all */
	uint64_t min_age_ns; /* live blocks younger than this do not count; 0: all count */
	const char *modules; /* patterns as in mt_filter_module(); NULL: all sites */
	bool match_names; /* sites are told apart by function names: for two builds of a program */
	const struct mt_names *names; /* NULL: none */
	/* true: leave this site out and count it as suppressed; NULL: none is left out */
	bool (*is_suppressed)(void *context, const struct mt_profile *p, uint32_t site);
	void *suppress_context;
	/* the other side of a comparison: rows tell then which blocks it lacks; NULL: none */
	const struct mt_profile *const *other;
	uint32_t other_count;
	const volatile int
		*stop; /* becomes not 0: end early, the table is marked partial; NULL: never */
};

/*
 * Counts and bytes of sampled profiles are estimates, rounded; temporaries and at_peak_count are
 * samples.
 */
struct mt_row {
	uint64_t key;      /* what tells rows apart; bucket for sizes, else a hash */
	uint64_t hash;     /* sites: callstack_hash; else 0 */
	const char *label; /* function, module, thread ...; NULL for sites. Owned by the table */
	uint64_t count, bytes; /* of the table's measure */
	/* how sure these two are, NULL: exact; and of the blocks that the other side lacks, NULL:
	 * there is no other side. Owned by the table */
	struct mt_estimate *estimate, *only;
	uint64_t recorded; /* allocations that were recorded one by one; by size not known */
	/* the heaviest of the row's sites, in profiles[profile]; site 0: none */
	uint32_t profile, site, node;
	uint64_t example_bytes; /* what that site brought */
	uint32_t site_count;    /* sites that came together here */
	bool is_unplaced;       /* allocations whose site is not known (tables were full) */
	/* all measures, sums over the row's sites (process peaks of several processes are added) */
	uint64_t allocs, frees, alloc_bytes, freed_bytes, temporaries;
	uint64_t live_count, live_bytes, large_count, large_bytes;
	uint64_t peak_bytes, peak_bound_bytes, at_peak_count, at_peak_bytes;
	uint64_t oldest_age_ns, newest_age_ns; /* of live blocks; both 0: none */
	/* live blocks that a look found lost, and that it found can be reached; of the rest nobody
	 * knows */
	uint64_t lost_count, lost_bytes, held_count, held_bytes;
	uint64_t recent_bytes; /* live bytes allocated in the second half of the run */
	bool is_growing;       /* every quarter of a run of at least a second left its share */
};

struct mt_table {
	struct mt_query query;
	struct mt_row *row; /* sorted: widest first */
	uint32_t row_count;
	uint64_t count, bytes;             /* sums over rows, of the table's measure */
	bool has_samples;                  /* rows have estimates */
	bool is_same_process;              /* as the other side's */
	struct mt_estimate estimate, only; /* sums over rows */
	bool has_look;                     /* of some profile */
	uint64_t lost_count, lost_bytes, held_count, held_bytes; /* sums over rows */
	uint64_t suppressed_sites, suppressed_count, suppressed_bytes;
	bool is_partial;        /* stopped early */
	struct mt_arena *arena; /* owns the labels */
};

/*
 * The table of `count` profiles. Rows without anything of the measure are left out. *ret_table is
 * freed with mt_table_free(); the profiles and what the query points to are borrowed and must
 * outlive it. 0, -ENOMEM, or -EINVAL when the measure is not known for that grouping (peak or
 * temporary by size or thread).
 */
int mt_table_build(const struct mt_profile *const *profiles, uint32_t count,
		   const struct mt_query *query, struct mt_table **ret_table);
/* NULL is allowed. */
void mt_table_free(struct mt_table *table);

/* Rows of the table whose bytes are below threshold: how many, and their sums. Sorted tables only
 * need it. */
struct mt_small_rows {
	uint32_t rows;
	uint64_t count, bytes;
};
struct mt_small_rows mt_table_below(const struct mt_table *table, uint64_t threshold_bytes);

/* One row of a comparison; old or new is 0 where the row did not exist. */
struct mt_diff_row {
	const struct mt_row *old_row, *new_row; /* NULL: not there; borrowed from the tables */
	int64_t count, bytes;                   /* new - old */
	bool is_estimate;
	struct mt_interval bytes_interval, count_interval; /* when it is one */
};

struct mt_diff {
	struct mt_diff_row *row; /* sorted by |bytes|, growth before shrinkage */
	uint32_t row_count;
	int64_t count, bytes;   /* sums over rows */
	uint32_t grown, shrunk; /* rows with more and with fewer bytes */
	bool is_estimate;
	struct mt_interval bytes_interval, count_interval; /* of the sums, when they are one */
};

/* Compares two tables of the same query, each with the other as its other side. 0 or -ENOMEM. Both
 * tables must outlive the result. */
int mt_diff_build(const struct mt_table *old_table, const struct mt_table *new_table,
		  struct mt_diff **ret_diff);
/* NULL is allowed. */
void mt_diff_free(struct mt_diff *diff);

/* Whether the two runs' main programs have the same build-id or, without one, the same path. */
bool mt_diff_same_build(const struct mt_profile *a, const struct mt_profile *b);

/* Numbers over all profiles together. Malloc heap unless said otherwise. */
struct mt_totals {
	uint64_t allocs, frees, alloc_bytes, freed_bytes, temporaries;
	uint64_t reallocs, unknown_frees, failed_allocs, mismatched_frees;
	uint64_t live_count, live_bytes;   /* by the counters */
	uint64_t block_count, block_bytes; /* by the block tables */
	uint64_t peak_bytes,
		peak_bound_bytes; /* added over processes: an upper bound for several */
	uint64_t lost[16];
	uint64_t duration_ns; /* of the longest */
	uint64_t size_hist[MT_HIST_BUCKETS], size_hist_missing;
	uint64_t life_hist[MT_LIFE_HIST_BUCKETS];
	uint64_t life_unit_ns; /* 0: profiles disagree or do not say */
	uint64_t captures, memo_hits, frames_walked, fp_steps, row_misses;
	uint64_t verified, verify_wrong; /* stacks compared with another unwinder (verify=N) */
	uint64_t verify_unsure[3];       /* nobody answered; unreadable from outside; it gave up */
	uint64_t unplaced_allocs, unplaced_bytes, untracked_allocs, untracked_bytes;
	uint64_t usable_allocs; /* of allocs: counted in usable bytes, not in those asked for */
	uint64_t samples;       /* allocations that were recorded by chance */
	/* samples besides: without a live block or a site (tables were full), or left out */
	uint64_t no_block, no_site, left_by_size, left_by_module;
	/* of the live blocks, by looks at `looked` of the processes */
	uint32_t looked;
	uint64_t lost_count, lost_bytes, held_count, held_bytes;
	bool is_sampled; /* sites have estimates */
	bool is_peak_estimate;
	bool is_exact; /* nothing lost, refused, unplaced or untracked, no warning */
};
void mt_totals_sum(const struct mt_profile *const *profiles, uint32_t count,
		   struct mt_totals *ret_totals);

#endif
