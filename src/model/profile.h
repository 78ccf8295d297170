/* SPDX-License-Identifier: MIT */
#ifndef MT_MODEL_PROFILE_H
#define MT_MODEL_PROFILE_H

/*
 * The profile in memory: what one tracked process allocated, as every format is read into it and
 * every analysis computes on it. Nothing here knows a file format or prints. All indexes are
 * checked by the reader that filled it: index 0 means "none" in every table, and element 0 exists
 * and is empty. Bytes and nanoseconds; addresses are the process's own. All memory belongs to the
 * profile's arena.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "core/cc.h"
#include "model/clock.h"
#include "model/estimate.h"

enum mt_profile_frame_kind {
	MT_FRAME_CALL = 0,   /* pc is a return address: look up pc - 1 */
	MT_FRAME_EXACT = 1,  /* pc is an interrupted instruction + 1: look up pc - 1 */
	MT_FRAME_SOURCE = 2, /* file and line given by the source, no pc */
};

/* How a stack ended; same values as in the state file. */
enum mt_profile_stack_end {
	MT_PROFILE_END_UNKNOWN = 0,
	MT_PROFILE_END_COMPLETE = 1,
	MT_PROFILE_END_DEPTH = 2,
	MT_PROFILE_END_NO_INFO = 3,
	MT_PROFILE_END_UNSUPPORTED = 4,
	MT_PROFILE_END_UNREADABLE = 5,
};

enum { MT_PROFILE_MODE_CHECK = 4 }; /* of profile.mode, as in the state file */
enum { MT_PROFILE_WARNINGS_MAX = 100, MT_PROFILE_SIZES = 32, MT_PROFILE_LIVES = 10 };

struct mt_profile_module {
	uint64_t lo, hi, bias;
	const char *path; /* "" unknown; never NULL */
	uint8_t build_id[32];
	uint32_t build_id_bytes;
	bool is_program, is_self, is_vdso, is_provider, is_loader;
	uint64_t loaded_ns, unloaded_ns; /* since start; unloaded 0: still there */
	uint64_t file_dev, file_inode;
	/*
	 * address - bias is an offset in the file, not one of its ELF addresses: all that a memory
	 * map tells. base is then where offset 0 of the file lies; 0: not known.
	 */
	bool by_offset;
	uint64_t base;
};

/* One frame of the stack tree; the tree's roots have depth 0 and no pc. */
struct mt_profile_node {
	uint64_t pc;
	const char *source_file; /* MT_FRAME_SOURCE: file; else NULL */
	uint32_t source_line;
	uint32_t parent;           /* node index; a root is its own parent */
	uint32_t module;           /* module index, 0: in no known module */
	uint16_t depth;            /* frames from here to the root; 0 for a root */
	uint8_t kind : 7;          /* enum mt_profile_frame_kind */
	bool by_frame_pointer : 1; /* found by the frame-pointer fallback */
	uint8_t end; /* enum mt_profile_stack_end of the whole stack (inherited from the root) */
};

/*
 * Counters that site, cell, thread and heap rows share. Of sampled sites and cells they are
 * estimates, rounded, but for temporaries, which are counts of samples.
 */
struct mt_profile_counts {
	uint64_t allocs, frees;
	uint64_t bytes, freed_bytes;
	uint64_t temporaries;
};

struct mt_profile_site {
	uint32_t node;  /* innermost frame */
	uint32_t heap;  /* heap index */
	uint32_t label; /* label index, 0: none */
	uint8_t call; /* enum mt_state_call: malloc, calloc, operator new ...; 0: row not in use */
	uint16_t regime; /* regime index: how its blocks were chosen; not 0: see site_sample */
	uint64_t first_ns;
	struct mt_profile_counts counts; /* sum over cells */
	uint64_t live_count, live_bytes; /* from the block table: blocks that are live now */
	uint64_t peak_bytes;             /* highest live bytes of this site */
	uint64_t peak_bound_bytes;       /* 0: exact; else peak_bytes is off by at most this */
	uint64_t at_peak_bytes;          /* at the time of the process's peak */
	uint64_t at_peak_count;          /* blocks then; of a sampled site: samples */
	uint32_t first_cell, cell_count; /* slice of profile.cell_by_site */
};

struct mt_profile_cell {
	uint32_t site, thread;
	struct mt_profile_counts counts;
	uint64_t live_count, live_bytes; /* blocks allocated by this thread and still live */
	uint32_t hist;        /* row of profile.hist, 0: none; then every allocation is of: */
	uint32_t size_bucket; /* as mt_state_size_bucket; MT_PROFILE_SIZES: sizes are not known */
	uint32_t lifetime[MT_PROFILE_LIVES]; /* frees by age, mt_state_life_bucket */
};

struct mt_profile_thread {
	uint32_t tid;
	char name[17];
	bool ended;
	uint32_t reuse_count;
	uint64_t start_ns;
	struct mt_profile_counts heap[4]; /* enum mt_state_heap_class: malloc, mmap, brk, custom */
	int64_t live_bytes, peak_bytes;
	uint64_t reallocs, realloc_grown, temporaries, unknown_frees, failed_allocs;
	uint64_t captures, memo_hits, same_as_last, joined, frames_walked, row_misses, fp_steps;
	uint64_t ends[8];
	uint64_t unplaced_allocs, unplaced_bytes;   /* counted here, in no site: tables were full */
	uint64_t untracked_allocs, untracked_bytes; /* counted, no live block: table was full */
	uint64_t nested_allocs, nested_frees;       /* made inside the tracker, not recorded */
	uint64_t filtered_allocs,
		filtered_bytes;          /* counted here, in no site: by choice of options */
	uint64_t verified, verify_wrong; /* stacks compared with another unwinder; different */
	uint64_t verify_unsure[3];       /* not compared: as in the state file */
};

/* A block that was live when the profile was read. Small, as there may be many millions. */
struct mt_profile_block {
	uint64_t size : 48, heap : 16; /* heap index */
	uint32_t born;                 /* time: mt_profile_clock_at(&profile.clock, born) */
	uint32_t cell;                 /* its site and thread; 0: not known (tables were full) */
};

/* Whether a block can be reached from where the program can hold a pointer. */
enum mt_profile_mark {
	MT_BLOCK_UNSEEN = 0, /* not known: of another heap, or made after the look */
	MT_BLOCK_HELD = 1,
	MT_BLOCK_LOST = 2, /* no chain of pointers leads to it */
};

/* A look at the process's memory, for that; numbers as in the state file. */
enum mt_profile_look_result {
	MT_PROFILE_LOOK_NONE = 0,
	MT_PROFILE_LOOK_MADE = 1,
	MT_PROFILE_LOOK_NO_ANSWER = 2,
	MT_PROFILE_LOOK_REFUSED = 3,
	MT_PROFILE_LOOK_NO_MEMORY = 4,
	MT_PROFILE_LOOK_NO_BLOCKS = 5,
	MT_PROFILE_LOOK_FAILED = 6,
};
struct mt_profile_look {
	uint32_t result;      /* enum mt_profile_look_result */
	bool is_expected;     /* it was the tracker's work to ask for one */
	bool has_heap;        /* else memory that the allocator keeps free held what it points to */
	bool is_heap_damaged; /* so that the result is not to be relied on */
	uint64_t ns;          /* when, since start */
	uint64_t stop_ns;     /* for which the process stood still */
	uint64_t count, bytes; /* lost blocks */
};

/* Live blocks of one size and cell of which only the number is known. */
struct mt_profile_group {
	uint64_t size, count;
	uint32_t cell;
};

/* What a profile was read from. */
enum mt_profile_source {
	MT_PROFILE_OF_STATE = 0,
	MT_PROFILE_OF_HEAP_DUMP, /* live blocks in groups and their stacks, and nothing else */
};

/*
 * Labels of a heap dump's sites when it tells blocks of an application that was started from
 * Android's zygote (z 1) from others (z 0). Without a block of an application there is no label.
 */
#define MT_PROFILE_ZYGOTE "zygote"
#define MT_PROFILE_APP "app"

/* How blocks were chosen for recording, from some moment on. */
struct mt_profile_regime {
	struct mt_sampling sampling;
	uint64_t first_ns;
};

/* What a site or cell of a regime that is not 0 has beside its counters. */
struct mt_profile_sample {
	uint64_t allocs, frees;   /* samples ever taken, and those of them that were freed */
	struct mt_estimate total; /* of all allocations; those certain are among the samples */
	struct mt_estimate live;  /* of the blocks that are live */
	bool lacks_blocks;        /* some of those samples have no block: they never go */
};

/* Exact counts of one thread in the modes without a record of every block, in usable bytes. */
struct mt_profile_stats {
	int64_t live_bytes, peak_bytes; /* allocated minus freed by the thread */
	uint64_t sampled;               /* blocks to be recorded as well */
	/* of these: without a live block, in no site (tables were full), and left out by options */
	uint64_t no_block, no_site, left_by_size, left_by_module;
	struct mt_profile_counts size[MT_PROFILE_SIZES]; /* by mt_state_size_bucket */
};

/* A live block of 1 MiB or more that is counted in the statistics. */
struct mt_profile_big {
	uint64_t address, usable_bytes;
	uint32_t thread;
	uint64_t born_ns;
};

/* Something that changed how recording went on. */
struct mt_profile_change {
	uint32_t what; /* enum mt_state_change_what */
	uint32_t thread;
	uint64_t ns;
	uint64_t before, after; /* by kind, see the state file's description */
	const char *text;       /* of kinds that have one; else "" */
};

/* Who did something to a block, and when. */
struct mt_profile_actor {
	uint32_t tid;    /* 0: nobody did, or it is not known */
	uint32_t thread; /* thread index, 0: none */
	uint32_t node;   /* innermost frame, 0: not known */
	uint64_t ns;
};

/* The block beside one that was used wrongly; bytes before or behind it are not its own. */
struct mt_profile_neighbour {
	uint64_t start; /* 0: none is near */
	uint64_t bytes;
	uint32_t node; /* who allocated it, 0: not known */
	bool is_freed; /* and held back since */
};

enum { MT_PROFILE_WINDOW = 256 };

/* The bytes around an error of check mode. */
struct mt_profile_damage {
	uint64_t first, last;  /* addresses of the changed bytes, both included; 0: none */
	uint64_t count;        /* of them that are changed */
	uint8_t expected;      /* what each should be */
	uint32_t word_node;    /* a frame of no stack: where in a module the first changed word
				  points to; 0: to none */
	uint64_t window_start; /* address of window[0] */
	uint32_t window_bytes; /* that are known */
	struct mt_profile_neighbour before, after;
	uint8_t window[MT_PROFILE_WINDOW];
};

/* A wrong use of a block that was placed between inaccessible pages, or is checked. */
struct mt_profile_error {
	uint32_t kind;   /* enum mt_state_error_kind */
	uint32_t access; /* enum mt_state_access */
	uint32_t flags;  /* enum mt_state_error_flags */
	uint32_t signal; /* 0: none */
	uint64_t address, block, block_bytes, pc;
	struct mt_profile_actor use, alloc, free; /* free.tid 0: the block was live */
	uint32_t call, alloc_call; /* enum mt_state_call: found the error, made the block; 0: not
				      known */
	uint32_t tag;              /* what stands in place of the header's mark */
	const struct mt_profile_damage *damage; /* NULL: not known */
};

struct mt_profile_heap {
	const char *name; /* "malloc", "mmap", "brk", or a custom heap's name */
	struct mt_profile_counts counts;
	uint64_t live_count, live_bytes;
};

struct mt_profile {
	/*
	 * Not 0: the live numbers of the process and of its sites are those of this snapshot of a
	 * series; there are no blocks, and all else is of the state itself.
	 */
	uint32_t snapshot;
	enum mt_profile_source source;

	/* identity */
	int32_t pid, ppid;
	uint64_t proc_start_ticks;
	uint8_t boot_id[16];
	const char *exe, *cmdline, *output, *options; /* never NULL */
	uint32_t arch, libc, door, mode, depth, version_major, version_minor;
	uint64_t wall_start_ns;        /* CLOCK_REALTIME */
	uint64_t duration_ns;          /* from start to the newest time seen */
	uint64_t time_resolution_ns;   /* of every *_ns above that counts from start */
	struct mt_profile_clock clock; /* of the blocks' times of birth */
	uint32_t end_kind;             /* enum mt_state_end */
	int32_t end_code;
	uint64_t notes;              /* enum mt_state_notes */
	uint64_t lost[16];           /* enum mt_state_lost */
	uint64_t region_refused[32]; /* by enum mt_state_region_kind */
	uint64_t state_bytes;        /* storage used by the tracker's tables */
	uint64_t state_max_bytes;    /* bound on it, 0: none */
	uint32_t threads_seen;       /* threads that ever were tracked */
	uint32_t children_seen;      /* forks seen */
	bool recording;              /* the switch was on when the profile was read */
	bool process_alive;          /* the process was still running then */
	bool times_estimated; /* no clock calibration: *_ns that count from start are rough */

	/*
	 * Process totals of the malloc heap: sums over threads, exact. What was counted in
	 * statistics and sampling mode is among them in usable bytes; that part is in stats_counts.
	 */
	struct mt_profile_counts totals, stats_counts;
	uint64_t reallocs, unknown_frees, failed_allocs;
	uint64_t mismatched_frees;         /* check mode; they are among the errors as well */
	uint64_t live_count, live_bytes;   /* by the counters: allocs - frees */
	uint64_t block_count, block_bytes; /* by the block table, malloc heap, but for samples */
	uint64_t sample_blocks;            /* samples in the block table, malloc heap */
	uint64_t peak_bytes, peak_ns;
	uint64_t peak_bound_bytes; /* 0: exact */
	bool peak_is_estimate;     /* some of what was live then is known from samples only */

	/* tables: [0] is an empty element */
	uint32_t module_count, node_count, site_count, cell_count, thread_count, heap_count,
		label_count;
	struct mt_profile_module *module;
	struct mt_profile_node *node;
	const char **given_name; /* by node: a function's name that the source told; NULL: none */
	struct mt_profile_site *site;
	struct mt_profile_cell *cell;
	uint32_t *cell_by_site; /* cell indexes grouped by site */
	struct mt_profile_thread *thread;
	struct mt_profile_heap *heap; /* from 0 */
	const char **label;           /* label[0] = "" */
	uint64_t blocks;
	struct mt_profile_block *block; /* from 0, in no order */
	uint64_t groups;
	struct mt_profile_group *group; /* from 0, in no order; blocks besides those above */
	uint32_t hist_count;
	uint32_t (*hist)[MT_PROFILE_SIZES]; /* sizes of a cell's allocations; saturating */

	/* other modes than full; all empty or NULL when there was none */
	uint32_t first_mode;     /* enum mt_state_mode at start; 0: as mode */
	uint64_t interval_bytes; /* of the sampling by bytes that is on now; 0: none */
	uint32_t every, peak_resets;
	uint32_t regime_count;
	struct mt_profile_regime *regime;                    /* [0]: everything is recorded */
	struct mt_profile_sample *site_sample, *cell_sample; /* by site, by cell */
	uint64_t *block_key;     /* by block: equal in two readings when it is the same block */
	uint64_t *block_address; /* by block; NULL: not asked for */
	/* all modes */
	struct mt_profile_look look;
	uint8_t *block_mark;            /* by block: enum mt_profile_mark; NULL: no look was made */
	struct mt_profile_stats *stats; /* by thread */
	uint32_t big_count, change_count;
	struct mt_profile_big *big;       /* from 0 */
	struct mt_profile_change *change; /* from 0, in order of time */

	/* wrong uses of guarded or checked blocks, in the order in which they were found */
	uint32_t error_count;
	struct mt_profile_error *error;       /* from 0 */
	uint32_t guard_slots;                 /* of the pool, 0: there is none */
	uint64_t guard_bytes;                 /* memory that the pool may take */
	uint64_t guard_placed, guard_refused; /* samples in it; those that found no slot */

	/* what the reader had to leave out, one sentence each; empty for a healthy file */
	uint32_t warning_count;
	const char **warning;
	uint64_t warnings_dropped; /* more than MT_PROFILE_WARNINGS_MAX: only counted */

	struct mt_arena *arena; /* owns all of the above */
};

struct mt_arena;

/* Frees the profile and all that it points to; NULL is allowed. */
void mt_profile_free(struct mt_profile *p);
MT_AUTO_DEFINE(mt_profile, struct mt_profile *, mt_profile_free)

/* An empty profile with its own arena and element 0 of each table, or NULL (ENOMEM). */
struct mt_profile *mt_profile_new(void) MT_MALLOC(mt_profile_free);

/*
 * Fills node indexes of a stack, innermost first; returns how many (at most max). Ends for every
 * table content.
 */
uint32_t mt_profile_stack(const struct mt_profile *p, uint32_t node, uint32_t *ret_nodes,
			  uint32_t max);

/* Whether both were read of the same program of one process. */
bool mt_profile_is_same_process(const struct mt_profile *a, const struct mt_profile *b);

/* Whether any site's blocks were left to chance. */
bool mt_profile_is_sampled(const struct mt_profile *p);

/* A site's allocations that were recorded one by one: all, or of a sampled one the samples. */
uint64_t mt_profile_recorded(const struct mt_profile *p, uint32_t site);

/* Sums over the samples of a site; of one that is not sampled only its live blocks. */
struct mt_flow mt_profile_flow(const struct mt_profile *p, uint32_t site);

/*
 * Marks sums of a site's samples by the counters (those of a snapshot) where some samples of the
 * site are missing by the end of the profile, or their frees are.
 */
void mt_profile_mark_flow(const struct mt_profile *p, uint32_t site, struct mt_flow *flow);

/* How a block was chosen. Borrowed from the profile. */
const struct mt_sampling *mt_profile_sampling(const struct mt_profile *p,
					      const struct mt_profile_block *b);

/*
 * Adds a site's allocations (of a sampled one: samples) by size to `sizes` and those of unknown
 * size to *missing; together they are all unless a histogram was saturated.
 */
void mt_profile_add_sizes(const struct mt_profile *p, uint32_t site,
			  uint64_t sizes[MT_PROFILE_SIZES], uint64_t *missing);

/* Adds a site's frees (of a sampled one: of samples) by age. */
void mt_profile_add_lives(const struct mt_profile *p, uint32_t site,
			  uint64_t lives[MT_PROFILE_LIVES]);

/*
 * Adds a warning: one sentence, lower case, no full stop. Beyond MT_PROFILE_WARNINGS_MAX, or
 * without memory, it is only counted. For readers that fill a profile.
 */
void mt_profile_warn(struct mt_profile *p, const char *fmt, ...) MT_PRINTF(2, 3);

/*
 * Compares the tables with each other: sums over cells, over threads, and the block table must tell
 * the same of the malloc heap, but for events that were under way when the profile was read (at
 * most in_flight) and for what the tables were too full to hold. Adds a warning for each
 * difference; returns how many it found.
 */
uint32_t mt_profile_check(struct mt_profile *p, uint64_t in_flight);

#endif
