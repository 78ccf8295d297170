/* SPDX-License-Identifier: MIT */
#ifndef MT_WIRE_STATE_H
#define MT_WIRE_STATE_H

/*
 * The state file, format version 1: what the tracker knows, shared between the hooked process
 * (which writes) and every reader. docs/formats/mtk.md is the specification; sizes and offsets are
 * asserted below. Little-endian, fixed width. All-zero is valid and means "nothing recorded".
 *
 * A file is one header of MT_STATE_HEADER_BYTES, then regions: arrays of fixed-size elements at the
 * offsets that the header's region table names. While it is being written it is sparse and large; a
 * finished file may be compacted (same format, other offsets).
 */

#include "core/cc.h"

#define MT_STATE_MAGIC "MEMTRACK" /* 8 bytes, no NUL in the file */
enum {
	MT_STATE_VERSION_MAJOR = 1,
	MT_STATE_VERSION_MINOR = 4,
	MT_STATE_LOOKS = 4,          /* minor version from which on processes ask for looks */
	MT_STATE_FREED_VARIANCE = 3, /* minor version from which on samples have it */
	MT_STATE_BYTE_ORDER = 0x01020304,
	MT_STATE_HEADER_BYTES = 4096,
	MT_STATE_REGIONS_MAX = 24,
};

enum mt_state_arch { MT_ARCH_X86_64 = 1, MT_ARCH_AARCH64 = 2 };
enum mt_state_libc { MT_LIBC_UNKNOWN = 0, MT_LIBC_GLIBC = 1, MT_LIBC_MUSL = 2, MT_LIBC_STATIC = 3 };
enum mt_state_door { MT_DOOR_PRELOAD = 1, MT_DOOR_ATTACH = 2, MT_DOOR_WRAP = 3 };
/* What is recorded of new blocks; may change while the process runs. */
enum mt_state_mode {
	MT_MODE_OFF = 0,
	MT_MODE_FULL = 1,   /* each, with its stack */
	MT_MODE_STATS = 2,  /* counters by size class and thread only */
	MT_MODE_SAMPLE = 3, /* counters as in stats, and some blocks with their stacks */
	MT_MODE_CHECK = 4,  /* each, with or without its stack, and blocks are checked */
	MT_MODE_RECORD = 5, /* full, and every event in order in a stream */
};

/* How the process ended; written by the launcher (or a later memtrack), RUNNING until then. */
enum mt_state_end {
	MT_END_RUNNING = 0,
	MT_END_EXITED = 1,   /* end_code = exit status */
	MT_END_SIGNALED = 2, /* end_code = signal number */
	MT_END_EXEC = 3,     /* became another program */
	MT_END_UNKNOWN = 4,  /* gone, nobody saw how */
	MT_END_SNAPSHOT = 5, /* this file is a copy that the running program made */
};

enum mt_state_region_kind {
	MT_REGION_STRINGS =
		1, /* bytes; NUL-terminated strings named by byte offset; offset 0 = "" */
	MT_REGION_MODULES = 2, /* struct mt_state_module; element 0 unused */
	MT_REGION_THREADS = 3, /* struct mt_state_thread; element 0 unused */
	MT_REGION_NODES = 4,   /* struct mt_state_node; elements 0..15 are roots, see below */
	MT_REGION_SITES = 5,   /* struct mt_state_site; element 0 unused */
	MT_REGION_CELLS = 6,   /* struct mt_state_cell; element 0 unused */
	MT_REGION_HISTS = 7,   /* struct mt_state_hist; element 0 unused */
	MT_REGION_LIVE = 8,    /* struct mt_state_live; element 0 unused */
	MT_REGION_LARGE = 9,   /* struct mt_state_large; element 0 unused */
	MT_REGION_HEAPS = 10,  /* struct mt_state_heap; index = heap number */
	MT_REGION_LABELS = 11, /* struct mt_state_label; element 0 unused */
	MT_REGION_STATS = 12,  /* struct mt_state_stats; index = thread number */
	MT_REGION_BIG = 13, /* struct mt_state_big; a slot is one of a few that its address has */
	MT_REGION_REGIMES = 14,   /* struct mt_state_regime; element 0: everything is recorded */
	MT_REGION_SAMPLED = 15,   /* struct mt_state_sampled; index = cell number */
	MT_REGION_CHANGES = 16,   /* struct mt_state_change; element 0 unused, in order of time */
	MT_REGION_REQUEST = 17,   /* bytes: text of the last control request */
	MT_REGION_STREAM = 18,    /* buffers of recording mode */
	MT_REGION_ERRORS = 19,    /* struct mt_state_error; element 0 unused, in order of time */
	MT_REGION_DAMAGE = 20,    /* struct mt_state_damage; element 0 unused */
	MT_REGION_UNREACHED = 21, /* struct mt_state_unreached; element 0 unused */
};

struct mt_state_region {
	uint32_t kind;       /* enum mt_state_region_kind; 0 ends the table */
	uint32_t elem_bytes; /* size of one element */
	uint64_t offset; /* of element 0 in the file, multiple of 4096; of 64 in a compacted file */
	uint64_t capacity; /* elements that may ever exist */
	uint64_t used; /* elements handed out, atomic, only rises; may pass capacity (then: full) */
	uint64_t committed_bytes; /* storage given by the kernel so far; guarded by grow_lock */
	uint64_t refused; /* elements asked for but not given (full, no memory, limit), atomic */
};

/* Why something was not recorded. Index of mt_state_header.lost. Never renumber. */
enum mt_state_lost {
	MT_LOST_NESTED = 0, /* allocation made while the tracker was at work in the same thread */
	MT_LOST_LIVE_FULL = 1, /* block table full: counted in totals, not in live blocks */
	MT_LOST_SITE_FULL = 2, /* stack, site or cell table full: counted in totals only */
	MT_LOST_THREAD_FULL =
		3, /* more threads than the table holds: event of a thread without a row */
	MT_LOST_STORAGE = 4, /* the kernel gave no storage (full /dev/shm, RLIMIT_FSIZE, cgroup) */
	MT_LOST_MAPPING_FULL = 5, /* mapping table full */
	MT_LOST_CHILD = 6,        /* child process that could not be followed */
	MT_LOST_LOCK = 7,         /* bounded wait for a lock ran out */
	MT_LOST_MODULE_FULL = 8,  /* module table full */
	MT_LOST_BEFORE_START = 9, /* allocations before the tracker was ready, or (light modes) the
				     allocator could tell sizes */
	MT_LOST_HIST_FULL = 10,   /* size histogram not kept for a cell */
	MT_LOST_UNSEEN_FREE = 11, /* freed out of our sight: the address was handed out again */
	MT_LOST_JUMP =
		12, /* the program jumped out of the tracker: this event may be half recorded */
	MT_LOST_LABEL_FULL = 13,  /* label table full: a label was set in vain */
	MT_LOST_STRING_FULL = 14, /* string table full: a name is missing */
	MT_LOST_HEAP_FULL = 15,   /* heap table full: a heap was registered in vain */
};

/* Bits of mt_state_header.notes: things a report must say. Never renumber. */
enum mt_state_notes {
	MT_NOTE_STORAGE_ENDED = 1 << 0, /* recording of new blocks stopped: no storage */
	MT_NOTE_PROVIDER_IN_PROGRAM =
		1 << 1, /* the program exports its own malloc: its calls are unseen */
	MT_NOTE_NO_WIPEONFORK = 1 << 2, /* fork is noticed by getpid comparison */
	MT_NOTE_NO_NOTIFIER = 1 << 3,   /* module changes seen only through dlopen/dlclose */
	MT_NOTE_PEAK_BOUNDED =
		1 << 4, /* more than one thread: peaks have the bound peak_bound_bytes */
	MT_NOTE_REDUCED_BY_LIMIT = 1 << 5, /* RLIMIT_AS or RLIMIT_FSIZE made the tables smaller */
	MT_NOTE_FORK_CHILD =
		1 << 6, /* started by fork: blocks inherited from the parent are unknown */
	MT_NOTE_LIMIT_REACHED = 1 << 7, /* max_bytes is used up: some tables do not grow any more */
	MT_NOTE_STATS_GAP =
		1 << 8, /* counting was off for a time: live numbers of STATS lack what passed */
	MT_NOTE_NO_GUARD = 1 << 9, /* guarded samples were asked for and there is no pool */
	MT_NOTE_NO_SIZES =
		1 << 10, /* the allocator may not be asked for usable sizes: those of STATS are 0 */
};

struct mt_state_header {
	uint8_t magic[8];       /*   0 */
	uint16_t version_major; /*   8 */
	uint16_t version_minor; /*  10 */
	uint32_t byte_order;    /*  12 MT_STATE_BYTE_ORDER as the writer stores it */
	uint32_t header_bytes;  /*  16 */
	uint32_t page_bytes;    /*  20 */
	uint8_t pointer_bytes;  /*  24 */
	uint8_t arch;           /*  25 */
	uint8_t libc;           /*  26 */
	uint8_t door;           /*  27 */
	uint32_t mode;          /*  28 enum mt_state_mode, as it is now */
	uint32_t control;       /*  32 bit 0: recording is on; the rest counts requests; changed by
				   anybody, atomic: see docs, Control */
	int32_t pid;            /*  36 */
	int32_t ppid;           /*  40 */
	uint32_t depth;         /*  44 frames kept */
	uint8_t boot_id[16];    /*  48 from /proc/sys/kernel/random/boot_id, zeros: unknown */
	uint64_t proc_start;    /*  64 field 22 of /proc/PID/stat, 0: unknown; with pid: identity */
	uint64_t wall_start_ns; /*  72 CLOCK_REALTIME at start */
	uint64_t mono_start_ns; /*  80 CLOCK_MONOTONIC at start, paired with tick_start */
	uint64_t tick_start;    /*  88 time-stamp counter */
	uint64_t mono_mark_ns; /*  96 a later pair: tick rate = (tick_mark - tick_start) / (mono...)
				*/
	uint64_t tick_mark;    /* 104 */
	uint32_t unit_shift;   /* 112 one time unit = 2^unit_shift ticks */
	uint32_t live_granule_shift; /*116 of the writer's index; informative */
	uint32_t end_kind;           /* 120 enum mt_state_end */
	int32_t end_code;            /* 124 */
	uint64_t notes;              /* 128 enum mt_state_notes, atomic or */
	uint64_t max_bytes;          /* 136 bound on storage and private tables, 0: none */
	uint64_t committed_bytes;    /* 144 sum over regions, atomic */
	uint32_t exe_string;         /* 152 strings offset: executable's path */
	uint32_t cmdline_string; /* 156 strings offset: arguments joined by blanks, shell-quoted no
				  */
	uint32_t output_string; /* 160 strings offset: where the finished file shall go, 0: stays */
	uint32_t options_string;   /* 164 strings offset: options as understood */
	uint32_t grow_lock;        /* 168 0 free, else taken */
	uint32_t exec_pending;     /* 172 1 while an exec call is under way */
	uint64_t now_unit;         /* 176 coarse time, units since tick_start; atomic, rises only */
	uint32_t threads_seen;     /* 184 atomic: threads that ever got a row */
	uint32_t children_seen;    /* 188 atomic: forks seen */
	uint64_t peak_bound_bytes; /* 192 step in which threads publish, see docs */
	/* process-wide live bytes of the malloc heap; exact while threads_seen == 1 */
	int64_t live_published; /* 200 atomic */
	int64_t peak_bytes;     /* 208 atomic max */
	uint64_t peak_unit;     /* 216 time of the peak */
	uint32_t peak_epoch;    /* 224 rises with each new peak, see cells */
	uint32_t launcher_pid;  /* 228 0: none */
	uint64_t lost[16];      /* 232 enum mt_state_lost, atomic */
	/* Control: see docs */
	uint32_t control_done;   /* 360 the control word that the tracker took over last */
	uint32_t control_error;  /* 364 what became of that request: 0, or an errno value */
	uint32_t request_owner;  /* 368 pid of the controller that holds REQUEST, 0: free; atomic */
	uint32_t first_mode;     /* 372 enum mt_state_mode at start */
	uint64_t interval_bytes; /* 376 mean sampling interval of the malloc heap now, 0: not
				    sampling by bytes */
	uint32_t every;          /* 384 every Nth allocation is recorded, 0: not so */
	uint32_t peak_resets;    /* 388 times that the peaks were set back on request */
	/* the malloc heap in usable bytes, while counted in STATS; as live_published and so on */
	int64_t stats_live_published; /* 392 atomic */
	int64_t stats_peak_bytes;     /* 400 atomic max */
	uint64_t stats_peak_unit;     /* 408 */
	/* guarded samples, or blocks of check mode */
	uint32_t guard_slots;      /* 416 of the pool, 0: no pool */
	uint32_t guard_page_bytes; /* 420 of each page of it */
	uint64_t guard_placed;     /* 424 samples that were placed there, atomic */
	uint64_t guard_refused; /* 432 samples that would have fitted, but no slot was free, atomic
				 */
	uint64_t guard_bytes;   /* 440 of all slots; 0: a page each */
	/* private memory of the tracker; 0: not said */
	uint64_t arena_address; /* 448 */
	uint64_t arena_bytes;   /* 456 may become less */
	/* A look for blocks that nothing can reach: see docs, Looks */
	uint32_t look_asked;   /* 464 number of the request, 0: none */
	uint32_t look_done;    /* 468 the request that was served last; the asker waits here */
	uint32_t look_why;     /* 472 enum mt_state_look_why: of the request */
	uint32_t look_result;  /* 476 enum mt_state_look: of the last look that came to an end */
	uint32_t look_flags;   /* 480 enum mt_state_look_flags */
	uint32_t look_unit;    /* 484 time of the look */
	uint64_t look_stop_ns; /* 488 for which the process stood still */
	uint64_t look_count;   /* 496 lost blocks */
	uint64_t look_bytes;   /* 504 */
	struct mt_state_region region[MT_STATE_REGIONS_MAX]; /* 512 */
	uint8_t tail[4096 - 512 - 48 * MT_STATE_REGIONS_MAX];
};

/* A mapped ELF module. A reload at the same address is another row. 128 bytes. */
struct mt_state_module {
	uint64_t lo, hi; /* PT_LOAD range at run time */
	uint64_t bias;   /* run-time address - ELF virtual address */
	uint32_t path_string;
	uint32_t flags;         /* enum mt_state_module_flags */
	uint32_t loaded_unit;   /* time unit when first seen */
	uint32_t unloaded_unit; /* time unit when seen gone, 0: still there */
	uint32_t generation;
	uint32_t build_id_bytes; /* 0: none */
	uint8_t build_id[32];
	uint64_t file_dev, file_inode; /* 0: unknown */
	uint8_t reserved[32];
};
enum mt_state_module_flags {
	MT_MODULE_PROGRAM = 1,
	MT_MODULE_SELF = 2, /* memtrack's own runtime */
	MT_MODULE_VDSO = 4,
	MT_MODULE_PROVIDER = 8, /* defines the malloc that calls reach */
	MT_MODULE_LOADER = 16,
};

/* Event counts of one heap class in one thread; owner thread writes. 32 bytes. */
struct mt_state_totals {
	uint64_t allocs, frees;
	uint64_t bytes, freed_bytes;
};
/* Index of mt_state_thread.totals. Custom heaps (number >= 3) share one class. */
enum mt_state_heap_class {
	MT_CLASS_MALLOC = 0,
	MT_CLASS_MMAP = 1,
	MT_CLASS_BRK = 2,
	MT_CLASS_CUSTOM = 3
};

/*
 * One thread. Counters are exact: the owner thread alone writes them. Its live bytes are the malloc
 * heap's bytes - freed_bytes: negative in a thread that frees what others allocated. 512 bytes.
 */
struct mt_state_thread {
	uint32_t tid;
	uint32_t state; /* 0 unused, 1 in use, 2 seen ended */
	uint32_t start_unit;
	uint32_t reuse_count; /* threads that had this row before (table was full) */
	uint8_t name[16];
	uint8_t reserved0[32];
	struct mt_state_totals totals[4]; /*  64 enum mt_state_heap_class */
	uint64_t reserved1;               /* 192 */
	int64_t peak_bytes;               /* 200 highest bytes - freed_bytes of the malloc heap */
	int64_t published;                /* 208 part of bytes - freed_bytes that is in
					     header.live_published */
	uint64_t reallocs;      /* 216 successful realloc of a block (also 1 alloc + 1 free) */
	uint64_t temporaries;   /* 224 freed here before the next allocation here */
	uint64_t unknown_frees; /* 232 free of an address that is not in the table */
	uint64_t failed_allocs; /* 240 the allocator returned NULL */
	uint64_t reserved2;     /* 248 */
	/* from struct mt_capture_counts */
	uint64_t captures, memo_hits, same_as_last, joined, frames_walked, row_misses; /* 256 */
	uint64_t ends[8];          /* 304 enum mt_stack_end */
	uint64_t fp_steps;         /* 368 */
	uint64_t unplaced_allocs;  /* 376 counted in totals but without a cell (tables full) */
	uint64_t unplaced_bytes;   /* 384 */
	uint64_t untracked_allocs; /* 392 in totals and cell but without a live block (block table
				      full) */
	uint64_t untracked_bytes;  /* 400 */
	uint64_t realloc_grown;    /* 408 reallocs that asked for more than before */
	uint64_t mismatched_frees; /* 416 check mode: by a function that does not go with the
				      allocation */
	uint64_t nested_allocs;    /* 424 made while the tracker was at work here, not recorded */
	uint64_t nested_frees;     /* 432 likewise, whose counters were lost; the block is gone */
	uint64_t verified;         /* 440 stacks compared with an unwinder outside (verify=N) */
	uint64_t verify_wrong;     /* 448 of these: different */
	uint64_t filtered_allocs;  /* 456 outside --min-size/--max-size or heap not chosen: totals
				      only */
	uint64_t filtered_bytes;   /* 464 */
	uint64_t verify_unsure[3]; /* 472 stacks that could not be compared, by reason: see docs */
	uint8_t reserved3[16];
};

/*
 * Stack tree. A stack is named by its innermost node; parent links lead outward to a root. Nodes
 * 0..15 are roots: node N says how the stack ended (enum mt_stack_end), their pc is 0. 16 bytes.
 */
struct mt_state_node {
	uint64_t pc;     /* return address; meaning by kind */
	uint32_t parent; /* node */
	uint32_t meta;   /* bits 0..19 module number (0: none), bits 20..23 enum mt_state_node_kind,
			    bits 24..31 enum mt_frame_flags */
};
enum { MT_NODE_ROOTS = 16 };
enum mt_state_node_kind {
	MT_NODE_RETURN = 0, /* pc = return address: the call is at pc - 1 */
	MT_NODE_EXACT = 1,  /* pc = interrupted instruction + 1: the instruction is at pc - 1 */
	MT_NODE_SOURCE = 2, /* pc = strings offset of the file << 32 | line: given by the source */
};

/* What was called. Takes part in a site's identity. Never renumber. */
enum mt_state_call {
	MT_CALL_MALLOC = 1,
	MT_CALL_CALLOC = 2,
	MT_CALL_REALLOC = 3,
	MT_CALL_ALIGNED = 4,
	MT_CALL_NEW = 5,
	MT_CALL_NEW_ARRAY = 6,
	MT_CALL_MMAP = 7,
	MT_CALL_MREMAP = 8,
	MT_CALL_SBRK = 9,
	MT_CALL_CUSTOM = 10,
	MT_CALL_STRDUP = 11,
	/* of errors only */
	MT_CALL_FREE = 12,
	MT_CALL_DELETE = 13,
	MT_CALL_DELETE_ARRAY = 14,
	MT_CALL_USABLE_SIZE = 15,
};

/* Stack + function + heap + label. 64 bytes. */
struct mt_state_site {
	uint32_t node;  /* innermost frame */
	uint16_t heap;  /* heap number */
	uint8_t call;   /* enum mt_state_call */
	uint8_t shared; /* 1: more than one thread has a cell, peaks are bounded; atomic */
	uint32_t label;
	uint32_t first_unit;
	uint64_t hash;          /* writer's key; differs between runs */
	int64_t live_published; /* atomic, in steps */
	int64_t peak_published; /* atomic max */
	uint32_t cell_count;    /* atomic */
	uint32_t regime;        /* of its blocks */
	uint32_t filter; /* writer's: number of the module filter it was looked at with << 1, and
			    bit 0: that leaves its blocks out */
	uint8_t reserved[12];
};

/* Counters of one site in one thread; the thread alone writes. 128 bytes, 64-byte aligned. */
struct mt_state_cell {
	uint32_t site;
	uint16_t thread;
	uint8_t size_bucket; /* the only bucket so far (see mt_state_size_bucket) while hist == 0 */
	uint8_t size_known;  /* enum mt_state_size_known */
	uint64_t allocs;     /*   8 */
	uint64_t bytes;      /*  16 */
	uint64_t frees;      /*  24 of this site's blocks, by this thread */
	uint64_t freed_bytes; /*  32 */
	int64_t peak_bytes; /*  40 highest (bytes - freed_bytes); exact if the site has one cell */
	int64_t at_peak_bytes;  /*  48 bytes - freed_bytes when epoch at_peak_epoch ended */
	uint32_t at_peak_epoch; /*  56 if == header.peak_epoch: the two at_peak fields are the state
				   at the process's peak; else the present state is (nothing changed
				   since) */
	uint32_t hist;          /*  60 element of HISTS, 0: none */
	int64_t at_peak_count;  /*  64 allocs - frees then */
	uint64_t temporaries;   /*  72 */
	int64_t published;      /*  80 live bytes that are in the site's live_published */
	uint32_t lifetime[10];  /*  88 frees by age, saturating: see mt_state_life_bucket */
};
enum { MT_LIFE_BUCKETS = 10, MT_SIZE_BUCKETS = 32 };
enum mt_state_size_known {
	MT_SIZE_NONE = 0,    /* no allocation yet */
	MT_SIZE_ONE = 1,     /* all in size_bucket */
	MT_SIZE_REFUSED = 2, /* a histogram was refused: sizes are not known */
	MT_SIZE_HIST = 3,    /* in element hist of HISTS */
};

/* Sizes of a cell's allocations, saturating. 128 bytes. */
struct mt_state_hist {
	uint32_t count[MT_SIZE_BUCKETS];
};

/*
 * A live block below MT_LARGE_BYTES at an address below 2^48. Live while place != 0; the other
 * words are written before place and stay until after it is cleared. 24 bytes.
 */
struct mt_state_live {
	uint64_t place; /* address; 0: free slot */
	uint32_t size;
	uint32_t cell; /* site and allocating thread; 0: tables were full */
	uint32_t unit; /* time */
	/* which allocation of its thread it was, low word (of a sample: a number that changes with
	 * each); in a free slot the writer's free list */
	uint32_t sequence;
};

/* A large block, a block of a custom heap, or a mapping (heap by its cell's site). 40 bytes. */
struct mt_state_large {
	uint64_t place; /* address; 0: free slot */
	uint64_t size;
	uint32_t cell;
	uint32_t unit;
	uint32_t sequence;
	uint32_t heap;
	uint64_t reserved;
};
enum { MT_LARGE_BYTES = 32768 };

/* Events by size class in one thread, in usable bytes; owner thread writes. 32 bytes. */
struct mt_state_size_class {
	uint64_t allocs, frees;
	uint64_t bytes, freed_bytes;
};

/*
 * Statistics of the malloc heap in one thread, exact, in usable bytes: what the allocator gave, not
 * what was asked for, since that is known at both ends. The thread alone writes. 1088 bytes.
 */
struct mt_state_stats {
	int64_t live_bytes; /* allocated here minus freed here; may be negative */
	int64_t peak_bytes; /* its highest */
	int64_t published;  /* the part that is in header.stats_live_published */
	uint64_t sampled;   /* samples: blocks to be recorded one by one */
	/* of these, since tables were full: */
	uint64_t no_block; /* counted at their site, but without a live block */
	uint64_t no_site;  /* not recorded: no place for the stack, site or cell */
	/* of these, since options leave them out: */
	uint64_t left_by_size;   /* outside min-size and max-size, or heap not chosen */
	uint64_t left_by_module; /* of a module that the filter does not want */
	struct mt_state_size_class size_class[32]; /* by mt_state_size_bucket(usable bytes) */
};

/* A live block of MT_BIG_BYTES usable bytes or more, listed in the modes without stacks. 32 bytes.
 */
struct mt_state_big {
	uint64_t place; /* address; 0: free slot; atomic */
	uint64_t usable_bytes;
	uint32_t thread; /* which allocated it */
	uint32_t unit;
	uint64_t reserved;
};
/* A block is in one of MT_BIG_WAYS slots from mt_state_big_slot() on. */
enum { MT_BIG_BYTES = 1 << 20, MT_BIG_SLOTS = 4096, MT_BIG_WAYS = 16 };

/* How blocks are chosen for recording. 64 bytes. */
struct mt_state_regime {
	uint32_t kind;           /* enum mt_state_regime_kind */
	uint32_t every;          /* MT_REGIME_EVERY: N */
	uint64_t interval_bytes; /* MT_REGIME_BYTES: mean distance of sampled bytes */
	uint32_t first_unit;     /* time of its first use */
	uint32_t reserved0;
	uint8_t reserved[40];
};
enum mt_state_regime_kind {
	MT_REGIME_ALL = 0,
	MT_REGIME_BYTES = 1, /* Poisson process over allocated bytes */
	MT_REGIME_EVERY = 2, /* every Nth allocation of a thread */
};
enum { MT_REGIMES_MAX = 1024 };

/*
 * What a cell of a regime that is not MT_REGIME_ALL has beside its counters. In such a cell
 * allocs, frees, temporaries, lifetime and sizes count samples; bytes, freed_bytes, peak_bytes,
 * at_peak_bytes and published are estimates: sums of each sample's size / probability. The thread
 * alone writes. 128 bytes.
 */
struct mt_state_sampled {
	uint64_t sample_bytes, freed_sample_bytes; /* sizes of the samples themselves */
	/* estimated numbers of blocks, sums of 1 / probability, in 1/65536; low and high word */
	uint64_t count_q16[2], freed_count_q16[2];
	/* unbiased variance of bytes ever allocated: sum of (1 - p) (size / p)^2; low, high word */
	uint64_t bytes_variance[2];
	/* the same of the number of blocks: sum of (1 - p) / p^2 */
	uint64_t count_variance[2];
	uint32_t bytes_rest_q16, freed_bytes_rest_q16; /* fractions that bytes do not hold yet */
	/* both variances, of what was freed; from minor version MT_STATE_FREED_VARIANCE on */
	uint64_t freed_bytes_variance[2], freed_count_variance[2];
	uint8_t reserved[8];
};

/* Something that changed how recording goes on. 32 bytes. */
struct mt_state_change {
	uint32_t what;          /* enum mt_state_change_what; set last; 0: not used */
	uint32_t unit;          /* time */
	uint64_t before, after; /* meaning by kind */
	uint32_t thread;        /* which took it over */
	uint32_t reserved;
};
enum mt_state_change_what {
	MT_CHANGE_MODE = 1,        /* enum mt_state_mode */
	MT_CHANGE_INTERVAL = 2,    /* bytes; by request */
	MT_CHANGE_EVERY = 3,       /* N; by request */
	MT_CHANGE_SWITCH = 4,      /* recording: 0 off, 1 on */
	MT_CHANGE_MODULES = 5,     /* after: strings offset of the filter, 0: none */
	MT_CHANGE_LABEL = 6,       /* after: strings offset of the text, 0: none */
	MT_CHANGE_PEAK_RESET = 7,  /* before: peak then */
	MT_CHANGE_REFUSED = 8,     /* a request that was not understood; after: strings offset */
	MT_CHANGE_MEMORY_RAIL = 9, /* interval before and after: the tracker's memory came near its
				      bound */
	MT_CHANGE_CPU_RAIL = 10,   /* interval before and after: samples took too much time */
};
enum { MT_CHANGES_MAX = 4096, MT_REQUEST_BYTES = 4096 };

/* Who did something to a guarded block, and when. 16 bytes. */
struct mt_state_actor {
	uint32_t tid;    /* 0: nobody did, or it is not known */
	uint32_t thread; /* row of THREADS, 0: none */
	uint32_t unit;   /* time */
	uint32_t node;   /* innermost frame, 0: not known */
};

/* A wrong use of a block that was placed between inaccessible pages. 128 bytes. */
struct mt_state_error {
	uint32_t kind;               /*   0 enum mt_state_error_kind; set last; 0: not used */
	uint32_t access;             /*   4 enum mt_state_access */
	uint32_t flags;              /*   8 enum mt_state_error_flags */
	uint32_t signal;             /*  12 that the access raised, 0: none */
	uint64_t address;            /*  16 accessed, or given to free */
	uint64_t block;              /*  24 start of the block it belongs to, 0: none is near */
	uint64_t block_bytes;        /*  32 asked for */
	uint64_t pc;                 /*  40 of the instruction, 0: none */
	struct mt_state_actor use;   /*  48 the access, or the wrong free */
	struct mt_state_actor alloc; /*  64 */
	struct mt_state_actor free;  /*  80 tid 0: the block was live */
	/* check mode */
	uint32_t call;       /*  96 enum mt_state_call that found it, 0: not known */
	uint32_t alloc_call; /* 100 enum mt_state_call that made the block, 0: not known */
	uint32_t damage;     /* 104 element of DAMAGE, 0: none */
	uint32_t tag;        /* 108 what stands in place of the header's tag */
	uint8_t reserved[16];
};
/* Never renumber. */
enum mt_state_error_kind {
	MT_ERROR_OVERFLOW = 1,  /* behind the end of a block */
	MT_ERROR_UNDERFLOW = 2, /* before its start */
	MT_ERROR_USE_AFTER_FREE = 3,
	MT_ERROR_DOUBLE_FREE = 4,
	MT_ERROR_INVALID_FREE = 5, /* free or realloc of an address that is not a block's start */
	MT_ERROR_WILD = 6,         /* access to a part of the pool that holds no block */
	MT_ERROR_MISMATCH = 7,     /* freed by a function that does not go with `alloc_call` */
	MT_ERROR_HEADER = 8,       /* the block's header was overwritten */
};
enum mt_state_access { MT_ACCESS_UNKNOWN = 0, MT_ACCESS_READ = 1, MT_ACCESS_WRITE = 2 };
enum mt_state_error_flags {
	MT_ERROR_FOUND_LATE = 1, /* bytes beside the block were changed: seen when it was freed, so
				    use tells that */
	MT_ERROR_INHERITED = 2,  /* the block was allocated before this process was forked */
	MT_ERROR_FATAL = 4,      /* the program was not let go on */
	MT_ERROR_BY_LOOK = 8,    /* found by a look at the whole heap: use only tells when */
};
enum { MT_ERRORS_MAX = 1024 };

/* The bytes around an error of check mode, and the blocks beside it. 512 bytes. */
struct mt_state_neighbour {
	uint64_t start, bytes; /* 0: none is near */
	uint32_t node;         /* who allocated it, 0: not known */
	uint32_t is_freed;     /* 1: it is held back after its free */
};
struct mt_state_damage {
	uint64_t first, last;  /*   0 addresses of the changed bytes, both included; 0: none */
	uint64_t count;        /*  16 how many are changed */
	uint32_t expected;     /*  24 what each should be */
	uint32_t window_bytes; /*  28 of window, in use */
	uint64_t window_start; /*  32 address of window[0] */
	struct mt_state_neighbour before, after; /* 40 */
	uint8_t window[256];                     /*  88 */
	uint8_t reserved[168];                   /* 344 */
};

/* A block of LIVE or LARGE that a look found lost, named by address and time of birth. 16 bytes. */
struct mt_state_unreached {
	uint64_t place;
	uint32_t unit;
	/* not 0: no other lost block points to it, or it stands for a cycle; of those with the same
	 * call stack the largest, and this many blocks are */
	uint32_t leaks;
};
enum { MT_UNREACHED_MAX = 4 << 20 };

/* Why the process asked for a look. */
enum mt_state_look_why {
	MT_LOOK_AT_EXIT = 1, /* it ends when the look has a copy of its memory, or gives up */
	MT_LOOK_ON_SIGNAL = 2,
	MT_LOOK_ON_CALL = 3,
};
/* Never renumber. */
enum mt_state_look {
	MT_LOOK_NONE = 0,      /* nobody looked */
	MT_LOOK_MADE = 1,      /* UNREACHED has what was lost */
	MT_LOOK_NO_ANSWER = 2, /* nobody served the request in time */
	MT_LOOK_REFUSED = 3,   /* the process's memory may not be read */
	MT_LOOK_NO_MEMORY = 4, /* for the look, or for its result */
	MT_LOOK_NO_BLOCKS = 5, /* not every block is recorded, so that none can be called lost */
	MT_LOOK_FAILED = 6,    /* for another reason */
};
enum mt_state_look_flags {
	MT_LOOK_NO_HEAP = 1,      /* the allocator is not known: what it keeps free held blocks */
	MT_LOOK_HEAP_DAMAGED = 2, /* so that the result is not to be relied on */
};

struct mt_state_heap {
	uint32_t name_string;
	uint32_t flags;
};
enum mt_state_heap_number {
	MT_HEAP_MALLOC = 0,
	MT_HEAP_MMAP = 1,
	MT_HEAP_BRK = 2,
	MT_HEAP_FIRST_CUSTOM = 3
};
enum { MT_HEAPS_MAX = 256 };

struct mt_state_label {
	uint32_t name_string;
	uint32_t reserved;
};

/* Bucket 0: 0 bytes; bucket n: sizes in [2^(n-1), 2^n); the last takes the rest. */
MT_INLINE uint32_t mt_state_size_bucket(uint64_t size)
{
	uint32_t b = size ? 64 - (uint32_t)__builtin_clzll(size) : 0;
	return b < MT_SIZE_BUCKETS ? b : MT_SIZE_BUCKETS - 1;
}

/* First of the slots where a big block may stand; the others follow, around the end. */
MT_INLINE uint32_t mt_state_big_slot(uint64_t address)
{
	return (uint32_t)((address >> 12) * 0x9e3779b97f4a7c15u >> 52) & (MT_BIG_SLOTS - 1);
}

/* Age in time units: bucket 0: less than one unit; bucket n: [4^(n-1), 4^n); the last takes the
 * rest. */
MT_INLINE uint32_t mt_state_life_bucket(uint32_t units)
{
	uint32_t b = units ? (33 - (uint32_t)__builtin_clz(units)) / 2 : 0;
	return b < MT_LIFE_BUCKETS ? b : MT_LIFE_BUCKETS - 1;
}

#define MT_STATE_SIZE(type, size) _Static_assert(sizeof(struct type) == (size), #type)
#define MT_STATE_AT(type, field, at) \
	_Static_assert(offsetof(struct type, field) == (at), #type "." #field)
MT_STATE_SIZE(mt_state_region, 48);
MT_STATE_SIZE(mt_state_header, MT_STATE_HEADER_BYTES);
MT_STATE_AT(mt_state_header, boot_id, 48);
MT_STATE_AT(mt_state_header, notes, 128);
MT_STATE_AT(mt_state_header, now_unit, 176);
MT_STATE_AT(mt_state_header, live_published, 200);
MT_STATE_AT(mt_state_header, lost, 232);
MT_STATE_AT(mt_state_header, look_asked, 464);
MT_STATE_AT(mt_state_header, look_bytes, 504);
MT_STATE_AT(mt_state_header, region, 512);
MT_STATE_SIZE(mt_state_module, 128);
MT_STATE_SIZE(mt_state_totals, 32);
MT_STATE_SIZE(mt_state_thread, 512);
MT_STATE_AT(mt_state_thread, totals, 64);
MT_STATE_AT(mt_state_thread, peak_bytes, 200);
MT_STATE_AT(mt_state_thread, captures, 256);
MT_STATE_AT(mt_state_thread, fp_steps, 368);
MT_STATE_AT(mt_state_thread, verify_unsure, 472);
MT_STATE_SIZE(mt_state_node, 16);
MT_STATE_SIZE(mt_state_site, 64);
MT_STATE_SIZE(mt_state_cell, 128);
MT_STATE_AT(mt_state_cell, lifetime, 88);
MT_STATE_SIZE(mt_state_hist, 128);
MT_STATE_SIZE(mt_state_live, 24);
MT_STATE_SIZE(mt_state_large, 40);
MT_STATE_AT(mt_state_header, control_done, 360);
MT_STATE_AT(mt_state_header, stats_live_published, 392);
MT_STATE_SIZE(mt_state_size_class, 32);
MT_STATE_SIZE(mt_state_stats, 1088);
MT_STATE_SIZE(mt_state_unreached, 16);
MT_STATE_SIZE(mt_state_big, 32);
MT_STATE_SIZE(mt_state_regime, 64);
MT_STATE_SIZE(mt_state_sampled, 128);
MT_STATE_AT(mt_state_sampled, bytes_rest_q16, 80);
MT_STATE_AT(mt_state_sampled, freed_bytes_variance, 88);
MT_STATE_SIZE(mt_state_change, 32);
MT_STATE_AT(mt_state_header, guard_placed, 424);
MT_STATE_AT(mt_state_header, arena_address, 448);
MT_STATE_SIZE(mt_state_actor, 16);
MT_STATE_SIZE(mt_state_error, 128);
MT_STATE_AT(mt_state_error, use, 48);
MT_STATE_AT(mt_state_error, call, 96);
MT_STATE_SIZE(mt_state_damage, 512);
MT_STATE_AT(mt_state_damage, window, 88);
MT_STATE_SIZE(mt_state_heap, 8);
MT_STATE_SIZE(mt_state_label, 8);

#endif
