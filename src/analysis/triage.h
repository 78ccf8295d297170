/* SPDX-License-Identifier: MIT */
#ifndef MT_ANALYSIS_TRIAGE_H
#define MT_ANALYSIS_TRIAGE_H

/*
 * What is wrong with the memory of a process: facts that were gathered over a while, and the one
 * verdict that follows from them. Plain data; nothing here looks at a process. Thread-safe.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where memory can be. Each mapping is in one of those before PART_BUFFERS. */
enum mt_triage_part {
	MT_TRIAGE_HEAP,        /* of the allocator, as far as its mappings can be told */
	MT_TRIAGE_JAVA,        /* objects of a Java VM */
	MT_TRIAGE_ANON,        /* anonymous memory of no known use */
	MT_TRIAGE_STACKS,      /* of threads */
	MT_TRIAGE_SHARED,      /* shared memory that is mapped */
	MT_TRIAGE_FILES,       /* mapped files, programs and libraries */
	MT_TRIAGE_CODE,        /* code that was made at run time */
	MT_TRIAGE_DEVICES,     /* memory of devices that is mapped */
	MT_TRIAGE_TRACKER,     /* memtrack's own */
	MT_TRIAGE_BUFFERS,     /* shared memory behind descriptors; mapped or not */
	MT_TRIAGE_GPU,         /* of graphics drivers and dma-bufs, behind descriptors */
	MT_TRIAGE_PAGE_TABLES, /* of the kernel, for the process's addresses */
	MT_TRIAGE_PARTS
};

enum { MT_TRIAGE_READINGS_MAX = 5, MT_TRIAGE_NAME_MAX = 160, MT_TRIAGE_WHY_MAX = 1024 };
enum { MT_TRIAGE_OBJECTS_MAX = 3, MT_TRIAGE_SITES_MAX = 3, MT_TRIAGE_LIMITS_MAX = 8 };

struct mt_triage_amount {
	uint64_t bytes[MT_TRIAGE_READINGS_MAX]; /* in memory and in swap, at each reading */
	uint64_t mappings_before, mappings_now; /* of the parts that are mappings */
};

/* A file, or a use of memory, that grew. */
struct mt_triage_object {
	char name[MT_TRIAGE_NAME_MAX];
	enum mt_triage_part part;
	int64_t growth_bytes, growth_mappings;
	uint64_t bytes; /* now */
};

/* A mapping that grew, or came. */
struct mt_triage_mapping {
	uint64_t start, end;
	int64_t growth_bytes;
	bool is_new;
};

/* Whether a step was done. */
enum mt_triage_step {
	MT_TRIAGE_NOT_NEEDED, /* nothing hints at it */
	MT_TRIAGE_DONE,
	MT_TRIAGE_REFUSED /* `why` says why it could not be done */
};

struct mt_triage_heap {
	enum mt_triage_step step;
	char why[MT_TRIAGE_WHY_MAX];
	char allocator[64]; /* with its version */
	uint64_t held_bytes, live_bytes, live_blocks, free_bytes, cached_bytes, top_bytes;
	/* the same at an earlier moment of the watch */
	bool has_before;
	uint64_t before_held_bytes, before_live_bytes, before_live_blocks;
	/* damages: seen in two copies; passing_damages: in one of them only */
	uint64_t damages, passing_damages, damage_address, skipped_bytes;
	char damage[MT_TRIAGE_NAME_MAX]; /* the first */
	uint64_t stop_ns;                /* that the process stood still, for this and for reach */
	bool is_copy;                    /* a copy was read, not the process while it stood still */
};

struct mt_triage_reach {
	enum mt_triage_step step;
	char why[MT_TRIAGE_WHY_MAX];
	uint64_t lost_bytes, lost_blocks, direct_blocks;
	uint64_t reachable_bytes, reachable_blocks;
	/* the same at the earlier moment of heap.before */
	bool has_before;
	uint64_t before_lost_bytes, before_lost_blocks, before_reachable_bytes;
};

struct mt_triage_site {
	char name[MT_TRIAGE_NAME_MAX];
	int64_t growth_bytes, growth_blocks;
	int64_t live_bytes, live_blocks;
	bool is_estimate;
};

struct mt_triage_tracker {
	enum mt_triage_step step; /* not needed: the process is not tracked */
	char why[MT_TRIAGE_WHY_MAX];
	char mode[16];
	bool has_sites; /* the mode has call stacks */
	int64_t live_before_bytes, live_bytes;
	uint64_t errors;                                 /* memory errors since the start */
	struct mt_triage_site site[MT_TRIAGE_SITES_MAX]; /* that grew most */
	size_t sites;
};

struct mt_triage_limit {
	char name[MT_TRIAGE_NAME_MAX];
	bool is_count; /* else bytes */
	uint64_t before, now, limit;
};

struct mt_triage_facts {
	int32_t pid;
	char name[MT_TRIAGE_NAME_MAX];
	char command[MT_TRIAGE_WHY_MAX]; /* to start it again, for a shell; "": not known */
	uint64_t watched_ns;
	bool has_ended; /* meanwhile */
	/* its mappings may not be looked at: ANON, FILES and SHARED are all that everybody may read
	 */
	bool is_refused;
	char why_refused[MT_TRIAGE_WHY_MAX];
	size_t readings;
	uint64_t at_ns[MT_TRIAGE_READINGS_MAX]; /* since the first */
	struct mt_triage_amount part[MT_TRIAGE_PARTS];
	struct mt_triage_object object[MT_TRIAGE_OBJECTS_MAX]; /* that grew most */
	size_t objects;
	struct mt_triage_mapping widest; /* the one mapping that grew most; all zero: none did */
	uint64_t address_bytes;          /* of addresses, at the last reading */
	uint64_t threads_before, threads_now;
	enum mt_triage_step descriptors;
	char why_no_descriptors[MT_TRIAGE_WHY_MAX];
	uint64_t descriptors_before, descriptors_now, buffers_before, buffers_now;
	char buffer[MT_TRIAGE_NAME_MAX]; /* the largest one */
	bool has_java;
	char why_no_java[MT_TRIAGE_WHY_MAX]; /* "": the Java heap is known */
	struct mt_triage_heap heap;
	struct mt_triage_reach reach;
	struct mt_triage_tracker tracker;
	struct mt_triage_limit limit[MT_TRIAGE_LIMITS_MAX];
	size_t limits;
	uint64_t killed_before, killed_now; /* for want of memory, in its control group */
};

/* ---- pieces ---- */

/* "heap", "java", ...: for machine formats. */
const char *mt_triage_part_key(enum mt_triage_part part);

int64_t mt_triage_growth(const struct mt_triage_facts *f, enum mt_triage_part part);
/* Of all mappings. */
int64_t mt_triage_growth_in_all(const struct mt_triage_facts *f);
uint64_t mt_triage_bytes_in_all(const struct mt_triage_facts *f, size_t reading);

/* How many mappings there are now, or were at first. */
uint64_t mt_triage_mappings(const struct mt_triage_facts *f, bool is_before);

/* What counts as growth: less may be chance. */
uint64_t mt_triage_least_bytes(const struct mt_triage_facts *f);

enum mt_triage_pace {
	MT_TRIAGE_FLAT,
	MT_TRIAGE_KEEPS,    /* grows in most of the time */
	MT_TRIAGE_STEPS,    /* grew at some moments, perhaps goes on */
	MT_TRIAGE_LEVELLED, /* grew, and stands still since */
	MT_TRIAGE_SHRINKS
};
enum mt_triage_pace mt_triage_pace(const struct mt_triage_facts *f, enum mt_triage_part part);

/*
 * With what is known so far: whether the allocator should be asked, because the heap, memory of
 * unknown use or what is live in it grows, or because much of the process is in it. Asking stops
 * the process for a moment.
 */
bool mt_triage_wants_heap(const struct mt_triage_facts *f);
/* One of these grows. */
bool mt_triage_is_heap_growing(const struct mt_triage_facts *f);

/* What share of a limit is used before it is told: it is near. */
bool mt_triage_is_near(const struct mt_triage_limit *l);
/* The limit that is nearest, if one is near; else NULL. */
const struct mt_triage_limit *mt_triage_nearest(const struct mt_triage_facts *f);
/* When a limit is reached if it goes on like this; 0: it does not grow. */
uint64_t mt_triage_reached_ns(const struct mt_triage_facts *f, const struct mt_triage_limit *l);

/* ---- the verdict ---- */

enum mt_triage_verdict {
	MT_VERDICT_ENDED,        /* the process ended: nothing can be said */
	MT_VERDICT_REFUSED,      /* it may not be looked at */
	MT_VERDICT_DAMAGED,      /* the heap is damaged, or memory errors were found */
	MT_VERDICT_LOST,         /* blocks are lost: a leak in the strict sense */
	MT_VERDICT_LIVE,         /* the heap grows with live blocks that can be reached */
	MT_VERDICT_LIVE_UNKNOWN, /* the same, and whether they can be reached is not known */
	MT_VERDICT_FRAGMENTED,   /* the allocator holds far more than what is live */
	MT_VERDICT_HEAP,         /* the heap grows; the allocator could not be asked */
	MT_VERDICT_JAVA,         /* objects of the Java VM */
	MT_VERDICT_ANON,         /* mappings that the program makes itself */
	MT_VERDICT_ANON_UNKNOWN, /* anonymous memory: of an allocator that cannot be asked, or not
				  */
	MT_VERDICT_ANON_JAVA,    /* the same, in a process with a Java VM that could not be asked */
	MT_VERDICT_STACKS,       /* threads */
	MT_VERDICT_SHARED,       /* mapped shared memory */
	MT_VERDICT_BUFFERS,      /* shared memory behind descriptors */
	MT_VERDICT_FILES,        /* mapped files */
	MT_VERDICT_CODE,
	MT_VERDICT_DEVICES,
	MT_VERDICT_TRACKER,
	MT_VERDICT_PAGE_TABLES,
	MT_VERDICT_DESCRIPTORS, /* no memory grows, but open descriptors do */
	MT_VERDICT_MAPPINGS,    /* no memory grows, but mappings do */
	MT_VERDICT_LEVELLED,    /* grew, and stands still since */
	MT_VERDICT_SHRINKS,
	MT_VERDICT_STEADY,
	MT_VERDICTS
};

struct mt_triage_judgement {
	enum mt_triage_verdict verdict;
	enum mt_triage_part part; /* that it is about; MT_TRIAGE_PARTS: none */
	enum mt_triage_pace pace; /* of that part */
	int64_t growth_bytes;     /* of that part */
	bool is_growing;          /* LOST, FRAGMENTED: it grows, too */
};

void mt_triage_judge(const struct mt_triage_facts *f, struct mt_triage_judgement *ret);

/* Whether much is lost beside what the verdict is about: an old leak. */
bool mt_triage_has_old_loss(const struct mt_triage_facts *f, const struct mt_triage_judgement *j);

/* "lost", "live", ...: for machine formats. */
const char *mt_triage_verdict_key(enum mt_triage_verdict verdict);

#endif
