/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_RT_H
#define MT_RUNTIME_RT_H

/*
 * The runtime's one process-wide object and its per-thread objects. All-zero means "off".
 * Everything private to the process lies in one reserved arena, so that a forked child can drop it
 * with one system call; everything that a reader may see lies in the state file's mapping.
 */

#include "core/cc.h"
#include "elf/modules.h"
#include "runtime/options.h"
#include "runtime/sampler.h"
#include "unwind/capture.h"
#include "wire/state.h"

enum mt_rt_phase {
	MT_RT_COLD = 0,     /* nothing done yet */
	MT_RT_STARTING = 1, /* somebody is at it: others pass through */
	MT_RT_ON = 2,
	MT_RT_FORKED = 4, /* a forked child that has not recorded anything yet */
	MT_RT_OFF =
		3, /* for good in this process (mode off, bad option, no storage, nested fork) */
};

/* What the program's own restrictions leave us. */
enum mt_sandbox {
	MT_SANDBOX_NONE = 0,
	MT_SANDBOX_MALLOC_CALLS =
		1,               /* only calls that malloc makes as well: mmap, madvise, futex */
	MT_SANDBOX_NO_CALLS = 2, /* a filter is there: none at all */
};

enum {
	MT_REGIONS = MT_REGION_UNREACHED + 1,
	MT_CHUNK_RECORDS = 128,
	MT_DEFERRED_MAX = 64,
	MT_PEAK_STEP = 65536,
	/* The clock is read once in so many events by a thread that is brisk: so many came one by
	 * one with less than QUIET_UNITS between them. It stays so while EVENTS take less than
	 * BRISK_UNITS. */
	MT_TICK_EVENTS = 16,
	MT_TICK_BRISK = 32,
	MT_TICK_QUIET_UNITS = 2,
	MT_TICK_BRISK_UNITS = 32,
	MT_SHARE_ABOVE = 1024,
	MT_HELD_MAX = 4,
	MT_NESTED_MAX = 8,
};

/* mt_rt.chunk_sizes: 0 not so, else how many blocks have shown it, up to MT_CHUNKS_TRUSTED. */
enum { MT_CHUNKS_TRUSTED = 16 };

enum mt_inherited_state {
	MT_INHERITED_NONE = 0,
	MT_INHERITED_READY = 1, /* summed up before a fork */
	MT_INHERITED_DUE = 2,   /* a child: the first row of STATS begins with it */
};

/* The regime's bits in a tag, see mt_site_tag(). */
#define MT_TAG_REGIME ((uint64_t)0xffff0000)

/* mt_thread.settle: the number of deferred frees, and a bit above it. */
enum { MT_SETTLE_COUNT = 0xffff, MT_SETTLE_NESTED = 0x10000 };

/* A free that arrived while its own thread was inside the tracker: settled when the outer call
 * ends. */
struct mt_deferred {
	uint64_t size;
	uint32_t cell, unit, sequence, record; /* record 0: large, nothing to give back */
	volatile uint32_t full;                /* set last, cleared when counted */
};

/*
 * Capture hash -> cell and site key -> cell of one thread; open addressing, power of two, at most
 * 3/4 full.
 */
struct mt_cell_map {
	struct mt_cell_entry {
		uint64_t hash;
		uint32_t cell;
		uint32_t generation; /* of the module list for which the stack was verified */
	} * entry;
	uint32_t mask, used;
};

/* The thread's place in the event stream: see stream.h. */
struct mt_stream {
	uint32_t used;     /* bytes of codes in the open buffer */
	uint32_t end;      /* from here on, or when the next event is not ordinary (0): slow way */
	uint32_t sequence; /* of the last allocation that is in the stream */
	uint32_t unit;     /* last time in the buffer */
	struct mt_stream_buffer *buffer; /* NULL: none is open */
	uint32_t before;    /* said of the next allocation: log2 of its alignment + 1, and a bit */
	uint32_t number;    /* of the row's next buffer */
	uint32_t row;       /* for which the number counts */
	uint32_t retry;     /* events until a free buffer is looked for again */
	uint64_t lost;      /* events since the last buffer */
	uint32_t highest;   /* cell in the stream */
	uint32_t far_freed; /* sequence of the last block that was freed by a far code */
};

/* cell << 32 | size: see mt_stream_hash(). Apart, so that threads which do not record never touch
 * it. */
struct mt_stream_slots {
	uint64_t near[128];
	uint64_t far[1024];
};
#define MT_STREAM_BEFORE_REALLOC 0x80000000u

/* Sample points of blocks that have an interval of their own. */
struct mt_points {
	struct mt_interval_of of;
	uint64_t always; /* sizes from here on are always recorded */
	int64_t left;    /* bytes until the next point */
	uint32_t regime;
};

/* What a block of this size stands for in the regime (NULL: nothing is remembered). */
struct mt_weight_memo {
	const struct mt_state_regime *regime;
	uint64_t size;
	struct mt_weight weight;
};
enum { MT_WEIGHTS_KEPT = 64 };

/* What malloc and free do where neither of the two quick ways is the thread's. */
enum mt_other_way {
	MT_WAY_SLOW = 0, /* recording mode, or any that has to be found out */
	MT_WAY_ASK = 1,  /* a light mode; the allocator is asked for usable sizes */
	MT_WAY_CHECK = 2,
	MT_WAY_CHECK_BARE = 3,    /* check mode without guards, and options that go together */
	MT_WAY_CHECK_GUARDED = 4, /* with guards of the usual size */
	/* the same with fills or free_track */
	MT_WAY_CHECK_WATCHED = 5,
	MT_WAY_CHECK_GUARDED_WATCHED = 6,
	MT_WAYS = 7,
};

/* Per thread; owner thread only, unless said otherwise. Found by mt_thread_self(). */
struct mt_thread {
	volatile uintptr_t depth; /* inside the tracker: stack pointer of the hook; else 0 */
	uint32_t number;          /* row in the THREADS region */
	volatile uint32_t settle; /* what mt_leave() has to do: deferred frees, MT_SETTLE_NESTED */
	struct mt_state_thread *row;
	uint64_t last_pointer;          /* last block that was recorded */
	uint64_t going;                 /* block whose free the present call counts */
	uint32_t free_head, free_count; /* live records given back by this thread */
	uint32_t fresh_next, fresh_end; /* records of the chunk not handed out yet */
	uint32_t until_tick;            /* events until the clock is read */
	uint32_t free_slow_at;          /* free_count from which on a free is no ordinary one */
	uint32_t control; /* full modes, switched on: the control word; else one that never comes */
	uint64_t tag;     /* of new allocations: label number << 32, regime << 16 */
	uint32_t own_label; /* the thread has set its label itself */
	/* how this thread records: taken over from mt_rt.policy, see control.h */
	uint32_t light_control; /* light modes, switched on: as control; with what follows in a line
				 */
	int64_t sample_left;    /* bytes until the next sample point */
	uint64_t sample_all;    /* sizes from here on are not counted on the ordinary path */
	struct mt_state_stats *stats; /* the thread's row of STATS, NULL: none yet */
	int64_t watch;                /* live bytes above are a new peak, or a step */
	int64_t step_low, step_high;  /* live bytes of stats outside are to be published */
	uint32_t control_taken;       /* the control word that these settings belong to */
	uint32_t policy_taken;        /* mt_rt.policy.count likewise */
	uint32_t streaming;           /* 1: recording mode: events go into the stream as well */
	uint32_t light;               /* 1: blocks are counted, few are recorded: see light.h */
	uint32_t other_way;           /* enum mt_other_way */
	uint32_t family;              /* enum mt_family of the present call, for usable sizes */
	uint64_t sample_always;       /* sizes from here on are always recorded */
	uint64_t interval_bytes;      /* of sample_left; 0: none */
	uint32_t every, every_left;   /* one of each N allocations is recorded; 0: not so */
	uint32_t every_rest;          /* allocations of this N behind it */
	uint64_t random;              /* state of the generator of sample distances */
	/* of ranges of sizes, and behind them of custom heaps */
	struct mt_points points[MT_RANGES_MAX + 1];
	uint32_t range_count;
	uint64_t rail_start, rail_ticks; /* present window of the bound on processor time */
	uint32_t rail_samples;
	uint32_t brisk_left;  /* events without a pause until the clock is read less often */
	uint64_t tick_unit;   /* when it was read last */
	uint64_t pause_units; /* so long since then is a pause */
	uint32_t peak_resets; /* requests to set the peak back that were followed */
	uint32_t tid;
	uint32_t rereads;       /* how often the module list is still to be read: see modules.c */
	uint32_t reread_from;   /* generation of the list when the change was announced */
	uint32_t stacks_filter; /* mt_site_filter_count() that the remembered stacks belong to */
	uint32_t excluded;      /* 1: the last stack's blocks are left out by the module filter */
	uint32_t memo_at;       /* captures after which the memo is worth its memory */
	uint32_t verify_in;     /* captures until the next one is verified */
	uint32_t heap_check_in, page_in; /* check mode: calls until the next one */
	uint32_t dying;                  /* check mode: the program ends when the guard is let go */
	uint32_t fork_inside; /* 1: a fork is under way that a handler makes inside a hook */
	uint32_t exec_bytes;  /* of exec_buffer */
	uint32_t text_tid;    /* the owner whose end record_text.c will notice, 0: none */
	volatile uint32_t held_count;
	/* blocks that calls inside the present one got: it may return one; with MT_SETTLE_NESTED */
	uint64_t nested[MT_NESTED_MAX];
	uint32_t *held[MT_HELD_MAX]; /* locks that are taken or about to be: see lock.h */
	void *exec_buffer;           /* copy of the environment for a program to start */
	struct mt_cell_map cells;
	struct mt_deferred deferred[MT_DEFERRED_MAX];
	struct mt_cell_entry small_map[16];
	struct mt_stream stream;
	struct mt_capture capture;
	struct mt_stream_slots stream_slots;
	struct mt_weight_memo weights[MT_WEIGHTS_KEPT]; /* what sizes like these stand for */
	/* of frees, in check mode with free_track; not there else: see mt_thread_bytes() */
	struct mt_capture free_capture;
};
/* What a malloc and a free of a light mode need of their thread, but for depth. */
_Static_assert(offsetof(struct mt_thread, light_control) / 64 ==
		       offsetof(struct mt_thread, step_low) / 64,
	       "one cache line");

/* Who called a hooked function: state of the caller right after the call returns. */
struct mt_caller {
	uintptr_t sp, ra, fp;
};

/* The caller of the function in which this is expanded. */
#define MT_CALLER() \
	((struct mt_caller){(uintptr_t)__builtin_dwarf_cfa(), \
			    (uintptr_t)__builtin_return_address(0), \
			    *(uintptr_t *)__builtin_frame_address(0)})

/* How new blocks are recorded, process-wide; changed under control_lock. */
struct mt_policy {
	struct mt_wishes wishes; /* what was asked for last */
	uint32_t count;          /* rises with each change */
	uint32_t mode;           /* enum mt_state_mode in force: not yet sampling, say */
	uint32_t regime;         /* of new blocks of the malloc heap in sampling mode */
	uint32_t more_regimes[MT_RANGES_MAX + 1]; /* of ranges, and behind them custom heaps */
	uint32_t label;                           /* of threads that set none themselves, 0: none */
	uint64_t interval_bytes;                  /* in force: rails double it; 0: not by bytes */
	/* the module filter in force; the one before stays readable for who is at it */
	char modules[2][MT_WISH_TEXT];
	uint32_t modules_text;
	uint32_t peak_resets;
	uint32_t memory_level; /* doublings because of memory */
	uint64_t memory_base;  /* in use of the tables when sampling began */
	uint64_t looked_unit;  /* time of the last look at the process's memory */
};

struct mt_rt {
	/* read by every event; written at start only */
	struct mt_state_header *hdr;
	struct mt_state_live *live;
	struct mt_state_cell *cells;
	struct mt_state_hist *hists;
	struct mt_state_site *sites;
	struct mt_state_node *nodes;
	struct mt_state_large *large;
	struct mt_state_thread *threads;
	void **index_top; /* see runtime/index.h */
	/* a block of size s is plain (fast.h) if s - plain_from < plain_span: see
	 * mt_record_set_plain()
	 */
	uint64_t plain_from, plain_span;
	uint8_t *filter;      /* light modes: which addresses may be recorded, see light.h */
	uint32_t chunk_sizes; /* usable sizes are in glibc's chunk headers: MT_CHUNKS_TRUSTED */
	uintptr_t guard_base, guard_bytes; /* the pool of guarded samples, see guard.h; 0: none */
	uint32_t no_sizes;                 /* 1: the allocator may not be asked for usable sizes */
	uint32_t tells_sizes;              /* 1: it was asked, and has told one */
	uint32_t small_in_large;           /* 1: the hash of large blocks has, or had, small ones */
	uint32_t counting;    /* 1: blocks that no table knows were, or may have been, counted in
				 STATS */
	uint32_t index_shift; /* granule = 2^index_shift bytes: the least spacing of blocks */
	uint32_t has_new;     /* 1: a site of operator new was made, here or in a parent */
	uint32_t single;      /* 1 while one thread has been seen: peaks are exact */
	uint32_t compare_pid; /* 1: fork is noticed by getpid, mt_rt_wipe[0] stays 0 */
	uint32_t sandboxed;   /* enum mt_sandbox */
	uint32_t no_ticks;    /* 1: the program made reading the time-stamp counter a fault */
	uint32_t streaming;   /* 1: the event stream was begun */
	int pid;
	uint64_t tick_start;
	uint32_t unit_shift;

	volatile uint32_t phase;       /* enum mt_rt_phase, atomic */
	uint64_t before_start;         /* events that came while the tracker started, atomic */
	volatile uint32_t no_storage;  /* the kernel gave none: stop asking */
	volatile uint32_t limited;     /* bit KIND: max-overhead permits no more of this region */
	volatile uint64_t table_bytes; /* private tables that grow with what is recorded */
	uint64_t map_bytes;            /* of these: the page map; most of it is never touched */
	uint64_t map_touched_bytes;    /* pages of it that a sample was entered in, see index.h */
	uint64_t *map_pages;           /* a bit for each page of the arena: it is one of them */
	uint32_t recorded_all;         /* 1: blocks were entered without a look at pages */
	struct mt_options options;
	char state_dir[256];
	char state_path[320];
	size_t file_bytes;
	uint64_t region_align;              /* of the regions in the file */
	struct mt_state_header *parent_hdr; /* forked child without a file yet: its parent's */
	struct mt_state_region *region[MT_REGIONS]; /* by enum mt_state_region_kind */

	/* private arena */
	char *arena;
	size_t arena_bytes;
	volatile size_t arena_used;

	/* modules; guarded by modules_lock, list published through mt_unwind.modules */
	uint64_t modules_count; /* mt_unwind.change_count before the published list was read */
	uint32_t modules_lock;
	uint32_t lock_timeouts; /* atomic: waits that ran out; after a few nobody waits any more */
	uint32_t names_lock;    /* heaps by name */
	uint32_t search_lock;   /* search for originals */
	uint64_t seed;          /* of the threads' generators */
	/* live blocks that STATS counted when the process was forked, by size class */
	struct mt_inherited {
		uint64_t count, bytes;
	} inherited[MT_SIZE_BUCKETS];
	uint32_t inherited_state; /* enum mt_inherited_state */
	uint32_t control_lock;    /* policy, control_word */
	uint32_t control_word;    /* header.control as it was taken over last */
	struct mt_policy policy;
	uint64_t notifier_patched; /* 1: the loader bumps mt_unwind.change_count by itself */
};

extern struct mt_rt mt_rt MT_HIDDEN;

/* 1 in the process that started the tracker, 0 in a forked child (the kernel wipes the page). */
extern volatile uint64_t mt_rt_wipe[] MT_HIDDEN;

/*
 * Starts the tracker if it has not been started; called by every hook that finds no thread state.
 * After it mt_rt.phase is ON or OFF, or STARTING when another thread (or an outer call) is at it.
 */
void mt_rt_start(void);

/* The same with signals blocked, and only when nothing has begun it. */
void mt_rt_start_early(void);

/* First thing in a forked child (and at the first hook after a raw clone): drop the parent's state.
 */
void mt_rt_child(void);

/* Turns tracking off for good in this process. */
void mt_rt_stop(void);

/* Counts one lost event. Any thread. */
MT_INLINE void mt_rt_lost(enum mt_state_lost what)
{
	if (mt_rt.hdr)
		__atomic_fetch_add(&mt_rt.hdr->lost[what], 1, __ATOMIC_RELAXED);
}

MT_INLINE void mt_rt_note(uint64_t bits)
{
	if (mt_rt.hdr)
		__atomic_fetch_or(&mt_rt.hdr->notes, bits, __ATOMIC_RELAXED);
}

#endif
