/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_OPTIONS_H
#define MT_RUNTIME_OPTIONS_H

/*
 * The environment's wishes: MEMTRACK_MODE, MEMTRACK_OPTIONS, MEMTRACK_DIR and the launcher's
 * MEMTRACK_STATE_DIR. Read once, before anything is recorded; environ is never written.
 */

#include "core/cc.h"

enum { MT_PATH_MAX = 1024, MT_WISH_TEXT = 512, MT_RANGES_MAX = 4 };

/* Blocks that have a sampling interval of their own. */
struct mt_interval_of {
	uint64_t from, to; /* sizes, both included */
	uint64_t interval_bytes;
};

/* What may be asked for at start and changed while the process runs. */
struct mt_wishes {
	uint32_t mode;           /* enum mt_state_mode */
	uint32_t every;          /* sampling: every Nth allocation; 0: by bytes */
	uint64_t interval_bytes; /* sampling by bytes: mean distance, 1..1 TiB */
	/* intervals of other sizes of the malloc heap (the first that fits counts), and of blocks
	 * of custom heaps; 0: as all */
	struct mt_interval_of range[MT_RANGES_MAX];
	uint32_t range_count;
	uint64_t custom_interval_bytes;
	char label[128];            /* of threads that set none, "": none */
	char modules[MT_WISH_TEXT]; /* +GLOB and -GLOB, separated by commas; "": all */
	/* of one request only */
	uint32_t switch_to; /* enum mt_switch */
	uint32_t reset_peak;
};
enum mt_switch { MT_SWITCH_KEEP = 0, MT_SWITCH_ON = 1, MT_SWITCH_OFF = 2 };

/* Which end of its page a guarded block lies at. */
enum mt_guard_side { MT_GUARD_SIDE_EITHER = 0, MT_GUARD_SIDE_END = 1, MT_GUARD_SIDE_START = 2 };

/* Whose memory is looked at when it ends, to tell lost blocks from others: see look.h. */
enum mt_lost_blocks {
	MT_LOST_BLOCKS_NONE = 0,
	MT_LOST_BLOCKS_MAIN = 1, /* the launcher's own child */
	MT_LOST_BLOCKS_ALL = 2,
};

struct mt_options {
	struct mt_wishes wishes;
	uint32_t depth;       /* frames kept, 1..256 */
	uint32_t follow;      /* 1: forked and executed children are tracked */
	uint32_t exit_report; /* leak_report: print at exit */
	uint32_t heaps;       /* bit 0 malloc, 1 mmap, 2 brk, 3 custom */
	uint32_t launcher_pid;
	uint32_t lost;        /* enum mt_lost_blocks */
	uint32_t looker_pid;  /* who serves looks; 0: nobody */
	uint32_t in_valgrind; /* 1: track even inside Valgrind (valgrind=track): for instruction
				 counts */
	uint32_t verify;      /* the launcher is asked about every Nth stack, 0: none */
	uint64_t min_size, max_size; /* blocks outside are counted, not recorded one by one */
	uint64_t max_bytes;          /* bound of the tracker's storage, 0: none */
	uint64_t leak_threshold;
	uint64_t max_cpu_percent; /* sampling: of a thread's time, 0: no bound */
	uint64_t min_anon_bytes;  /* sampling begins when the process has so much anonymous memory
				   */
	uint32_t on_full;         /* enum mt_stream_on_full */
	uint64_t wait_ns;         /* MT_ON_FULL_WAIT: at most this long */
	uint32_t record_keep;     /* MT_KEEP_LAST, or 0 */
	uint64_t record_limit;    /* bytes of a recording, 0: none */
	uint64_t record_buffers;  /* bytes of the event stream's buffers */
	uint32_t guard_slots; /* sampling: slots for blocks between inaccessible pages, 0: none */
	uint32_t guard_side;  /* enum mt_guard_side */
	uint32_t profile_rate_s;     /* least time between two requests for a profile, 0: any */
	uint32_t check_signals;      /* the first of check mode's signals, 0: it has none */
	uint32_t guard_fatal;        /* 1: the program does not go on after an error there */
	uint32_t instance_limit;     /* processes tracked at once under the tag, 0: no bound */
	uint32_t instance_tag;       /* in the name of the directory for the state file */
	char output[MT_PATH_MAX];    /* pattern, absolute; "" when the launcher decides */
	char state_dir[MT_PATH_MAX]; /* from the launcher; "" else */
	char text[512];              /* options as understood, for the header */
};

/*
 * 0: *ret_options is complete. -EINVAL: something was not understood; one line that names it was
 * written to error (at most bytes, NUL-terminated).
 */
int mt_options_read(char **envp, struct mt_options *ret_options, char *error, size_t bytes);

/* Where files go when no launcher says so: MEMTRACK_DIR, the working directory, TMPDIR, /tmp. */
void mt_options_directory(char **envp, char *ret_path, size_t bytes);

/*
 * Reads a request made while the process runs into *wishes, which holds the present ones. 0, or
 * -EINVAL: a word was not understood, and what is in *wishes is of no use.
 */
int mt_wishes_read(const char *text, struct mt_wishes *wishes);

#endif
