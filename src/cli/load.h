/* SPDX-License-Identifier: MIT */
#ifndef MT_CLI_LOAD_H
#define MT_CLI_LOAD_H

/* Profiles with their symbols and suppressions, as the commands use them. */

#include "analysis/names.h"
#include "analysis/suppress.h"
#include "base/err.h"
#include "cli/command.h"
#include "formats/mtr_profile.h"
#include "model/profile.h"
#include "report/report.h"
#include "symbolize/symbolize.h"

struct mt_loaded {
	const struct mt_profile **profile; /* owned, with the profiles */
	struct mt_symbols **symbols;       /* owned; NULL entries: none */
	char **path;                       /* owned; NULL entries: it was not read from a file */
	struct mt_series **series; /* owned; by mt_loaded_add_series(); NULL entries: none */
	size_t count, profile_capacity, symbols_capacity, path_capacity;
	struct mt_names names; /* refers to this object: do not move it */
	/* profiles as they were then, from the recordings beside their state files; NULL: as the
	 * state files tell */
	const struct mt_mtr_when *when;
	/* of running processes it is found out which blocks they can still reach: mt_look() */
	bool looks;
	/* what is no state file is read as a heap dump, a pipe too, whatever it begins with */
	bool prefers_dumps;
};

/* NULL and all-zero objects are allowed. */
void mt_loaded_done(struct mt_loaded *l);
MT_AUTO_DEFINE_INPLACE(mt_loaded, struct mt_loaded, mt_loaded_done)

/*
 * "peak", "end" or a time since the program's start, for mt_loaded.when. 0 or -EINVAL with *err.
 */
int mt_load_parse_when(const char *text, struct mt_mtr_when *ret_when, struct mt_err *err);

/* A recording with its state file. */
struct mt_recorded {
	struct mt_mtr recording;
	struct mt_profile *profile;
	char *path; /* of the recording */
};
void mt_recorded_done(struct mt_recorded *r);
MT_AUTO_DEFINE_INPLACE(mt_recorded, struct mt_recorded, mt_recorded_done)

/*
 * Opens the recording at path, or that of the state file at path. 0 or a negative errno value with
 * *err; *r (all-zero but for recording.fd -1) is to be given to mt_recorded_done() either way.
 */
int mt_recorded_open(struct mt_recorded *r, const char *path, struct mt_err *err);

/* Reads one more state file, that of a recording, or a heap dump. 0 or a negative errno value with
 * *err. */
int mt_loaded_add(struct mt_loaded *l, const char *path, struct mt_err *err);

/* Takes over a profile that was read elsewhere; on failure it is freed. 0 or -ENOMEM. */
int mt_loaded_take(struct mt_loaded *l, struct mt_profile *p);

/* Takes over the symbols of a profile, the at-th. */
void mt_loaded_set_symbols(struct mt_loaded *l, size_t at, struct mt_symbols *symbols);

enum mt_load_warnings { MT_LOAD_WARN_SOME = 0, MT_LOAD_WARN_ALL, MT_LOAD_WARN_NONE };
enum { MT_LOAD_WARNINGS_SHOWN = 3 };

/* Where names come from. */
struct mt_load_symbols {
	const struct mt_text_list *dirs; /* asked first */
	bool no_cache, debuginfod;
	enum mt_load_warnings warnings;
};

/*
 * As above for all that a command was given, in order: each a path, a PID or name:PROGRAM; see
 * mt_find_file().
 */
int mt_loaded_add_operands(struct mt_loaded *l, const struct mt_operands *operands,
			   struct mt_err *err);

/*
 * As above; OPERAND@WHICH means the state as it was at a snapshot of the series beside the file
 * (see mt_mts_find()), unless a file has that name.
 */
int mt_loaded_add_sides(struct mt_loaded *l, const struct mt_operands *operands,
			struct mt_err *err);

/*
 * Reads the series of snapshots beside each loaded file, where there is one: l->series. 0 or a
 * negative errno value with *err, also when a series is of another process.
 */
int mt_loaded_add_series(struct mt_loaded *l, struct mt_err *err);

/* How lines of values may be drawn on this stream: on a terminal, in its character set. */
enum mt_spark mt_load_spark(FILE *out);

/*
 * Symbolizes all profiles; shows progress on a terminal, stops at Ctrl-C (then some names are
 * missing). Warnings about symbol files go to stderr, each once: the first
 * MT_LOAD_WARNINGS_SHOWN and how many more there are, or as o->warnings says. 0 or a negative errno
 * value with *err.
 */
int mt_loaded_symbolize(struct mt_loaded *l, const struct mt_load_symbols *o, struct mt_err *err);

/*
 * The suppressions of files in `files`, and unless `no_defaults` those for memory that libc and
 * libstdc++ never free. NULL with *err. Caller frees with mt_suppressions_free().
 */
struct mt_suppressions *mt_load_suppressions(const struct mt_text_list *files, bool no_defaults,
					     struct mt_err *err);

/* What mt_report.is_suppressed and is_error_suppressed call, with mt_report.suppress_context. */
struct mt_suppress_context {
	struct mt_suppressions *suppressions;
	const struct mt_names *names;
};
bool mt_load_is_suppressed(void *context, const struct mt_profile *p, uint32_t site);
bool mt_load_is_error_suppressed(void *context, const struct mt_profile *p,
				 const struct mt_profile_error *e);

/* Becomes not 0 at Ctrl-C, once mt_load_catch_interrupt() was called. */
const volatile int *mt_load_stop(void);
void mt_load_catch_interrupt(void);

/* Whether text for this stream may have colours: a terminal, and NO_COLOR is not set. */
bool mt_load_is_color(FILE *out);

#endif
