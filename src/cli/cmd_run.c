/* SPDX-License-Identifier: MIT */
/*
 * memtrack run: checks, starts and waits for a program under the tracker, collects the state files
 * of its process tree and reports. What can be refused is refused before the program starts; after
 * it started the exit status is the program's, unless that is 0 and something could not be written.
 */

#include "cli/commands.h"
#include "cli/load.h"
#include "cli/output.h"
#include "cli/report_options.h"
#include "cli/run_check.h"
#include "cli/run_files.h"
#include "cli/run_looks.h"
#include "cli/run_modes.h"
#include "cli/run_snapshots.h"
#include "cli/run_verify.h"

#include "base/units.h"
#include "core/cc.h"
#include "core/sys.h"
#include "record/collect.h"
#include "record/companion.h"
#include "record/control.h"
#include "record/launch.h"
#include "record/pattern.h"
#include "record/preflight.h"
#include "record/recording.h"
#include "record/snapshot.h"
#include "record/statedir.h"
#include "record/verify.h"
#include "report/report.h"
#include "wire/check_options.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* as in --mode's choices */
enum run_mode { MODE_FULL, MODE_SAMPLE, MODE_STATS, MODE_RECORD, MODE_CHECK };
static const char *const lost_words[] = {"main", "all", "none"};
enum { LOST_MAIN, LOST_ALL, LOST_NONE };
static const char *const mode_words[] = {"full", "sample", "stats", "record", "check"};
enum { RECORD_BUFFERS_MOST = 1 << 30 };
enum { INTERVAL_DEFAULT = 512 << 10, DEPTH_DEFAULT = 64 };
enum report_kind { REPORT_LEAKS, REPORT_SUMMARY, REPORT_PEAK, REPORT_ERRORS, REPORT_NONE };

struct run_options {
	int mode, follow, lost, report, format, record_keep, guard_side, on_error;
	uint64_t interval, every, max_cpu, min_anon, guard_slots, profile_rate;
	uint64_t depth, verify, min_size, max_size, max_overhead, leak_threshold_bytes,
		error_exitcode, snapshot_every_ns;
	uint64_t top, stack;
	uint64_t record_limit, record_buffers;
	const char *intervals, *heaps, *modules, *output, *report_file, *on_full, *check;
	struct mt_text_list symbol_dirs, suppressions, snapshot_on;
	bool no_symbols, no_cache, debuginfod, no_builtin_suppressions, quiet, verbose;
};

static const struct run_options defaults = {
	.profile_rate = 60,
	.max_size = UINT64_MAX,
	.leak_threshold_bytes = MT_REPORT_THRESHOLD_DEFAULT,
	.top = MT_REPORT_TOP_DEFAULT,
	.stack = MT_REPORT_STACK_DEFAULT,
	.heaps = "all",
	.output = MT_PATTERN_DEFAULT,
	.on_full = "drop",
};

#define AT(member) offsetof(struct run_options, member)

static const struct mt_option options[] = {
	{.letter = 'o',
	 .name = "output",
	 .argument = "PATTERN",
	 .kind = MT_OPTION_TEXT,
	 .offset = AT(output),
	 .help = "where state files go: %e program, %p pid, %h host, %t time (default "
		 "memtrack.%e.%p.mtk); a name that exists gets -2, -3 and so on"},
	{.name = "mode",
	 .argument = "MODE",
	 .kind = MT_OPTION_CHOICE,
	 .offset = AT(mode),
	 .choices = "full|sample|stats|record|check",
	 .help = "what is recorded: full (default: every allocation and its call stack), sample "
		 "(some allocations with their stacks, for estimates; all are counted), stats (all "
		 "are counted, no stacks), record (full, and every event in order in a recording "
		 "beside the state file), check (full, and memory errors are looked for)"},
	{.name = "check",
	 .argument = "OPTIONS",
	 .if_bare = MT_CHECK_USUAL,
	 .kind = MT_OPTION_TEXT,
	 .offset = AT(check),
	 .help = "check mode with these options, separated by blanks, as Android's malloc debug "
		 "has them: see memtrack-check(7) (default: " MT_CHECK_USUAL ")"},
	{.name = "interval",
	 .argument = "SIZE",
	 .kind = MT_OPTION_SIZE,
	 .offset = AT(interval),
	 .min = 1,
	 .least = "1 (a sample of everything)",
	 .max = (uint64_t)1 << 40,
	 .help = "sample mode: bytes allocated between two samples on average (default 512K); 1 "
		 "samples everything"},
	{.name = "intervals",
	 .argument = "LIST",
	 .kind = MT_OPTION_TEXT,
	 .offset = AT(intervals),
	 .help = "sample mode: other intervals for some blocks, separated by commas: "
		 "FROM-TO:SIZE for "
		 "blocks of FROM to TO bytes, custom:SIZE for custom heaps (as 0-64:8M,1M-:1); "
		 "at most "
		 "4 ranges, which may not overlap. Mappings are recorded always"},
	{.name = "every",
	 .argument = "N",
	 .kind = MT_OPTION_NUMBER,
	 .offset = AT(every),
	 .min = 1,
	 .max = 65536,
	 .help = "sample mode: sample one of every N allocations instead, whatever its size; "
		 "sites with many small blocks get most samples, those with few large ones may "
		 "get none"},
	{.name = "max-cpu",
	 .argument = "PERCENT",
	 .kind = MT_OPTION_NUMBER,
	 .offset = AT(max_cpu),
	 .min = 1,
	 .max = 100,
	 .help = "sample mode: double the interval whenever samples take more of a thread's time"},
	{.name = "min-anon",
	 .argument = "SIZE",
	 .kind = MT_OPTION_SIZE,
	 .offset = AT(min_anon),
	 .help = "sample mode: only count until the process has this much anonymous memory"},
	{.name = "guard-sampled",
	 .argument = "SLOTS",
	 .if_bare = "64",
	 .kind = MT_OPTION_NUMBER,
	 .offset = AT(guard_slots),
	 .min = 1,
	 .max = 1024,
	 .help = "sample mode: place samples of up to 4 KiB between inaccessible pages, in a "
		 "pool of 64 (or SLOTS) slots, so that an overflow, an underflow or a use after "
		 "free of them is found at the access and reported with its call stacks"},
	{.name = "guard-side",
	 .argument = "SIDE",
	 .kind = MT_OPTION_CHOICE,
	 .offset = AT(guard_side),
	 .choices = "either|end|start",
	 .help = "where such a sample lies in its page: end (overflows are found at once), start "
		 "(underflows), or either (default; the end for seven of eight)"},
	{.name = "on-error",
	 .argument = "WHAT",
	 .kind = MT_OPTION_CHOICE,
	 .offset = AT(on_error),
	 .choices = "continue|die",
	 .help = "after such an error: continue (default; the access is let through), or die of "
		 "the signal that it raises (the program's own handler for it runs)"},
	{.name = "modules",
	 .argument = "LIST",
	 .kind = MT_OPTION_TEXT,
	 .offset = AT(modules),
	 .help = "record only what some modules allocate, the rest is counted: +GLOB and -GLOB, "
		 "separated by commas (as +libfoo*,-libfoo_test*); the innermost caller outside "
		 "the C and C++ libraries decides"},
	{.name = "record-limit",
	 .argument = "SIZE",
	 .kind = MT_OPTION_SIZE,
	 .offset = AT(record_limit),
	 .help = "record: bound on the size of each recording, in bytes of its files (default: no "
		 "bound)"},
	{.name = "record-keep",
	 .argument = "WHICH",
	 .kind = MT_OPTION_CHOICE,
	 .offset = AT(record_keep),
	 .choices = "first|last",
	 .help = "record: at the limit keep the first events (default), or the last: older ones "
		 "give way, from one to two thirds of the limit stay, and what is live then is "
		 "listed if there is room"},
	{.name = "record-buffers",
	 .argument = "SIZE",
	 .kind = MT_OPTION_SIZE,
	 .offset = AT(record_buffers),
	 .min = 256 << 10,
	 .least = "256K",
	 .help = "record: memory for events that are not written yet, 256K to 1G (default 64M)"},
	{.name = "on-full",
	 .argument = "WHAT",
	 .kind = MT_OPTION_TEXT,
	 .offset = AT(on_full),
	 .help = "record: when that memory is full: drop (default; events are missing, the report "
		 "says how many) or wait[:TIME] (the program waits, at most that long, default "
		 "100ms)"},
	{.name = "depth",
	 .argument = "N",
	 .kind = MT_OPTION_NUMBER,
	 .offset = AT(depth),
	 .min = 1,
	 .max = 256,
	 .help = "frames kept of each call stack, 1 to 256 (default 64)"},
	{.name = "verify",
	 .argument = "N",
	 .kind = MT_OPTION_NUMBER,
	 .offset = AT(verify),
	 .min = 1,
	 .max = UINT32_MAX,
	 .help = "compare every Nth call stack with what another unwinder, libdw, finds from "
		 "outside; slow"},
	{.name = "follow",
	 .argument = "WHICH",
	 .kind = MT_OPTION_CHOICE,
	 .offset = AT(follow),
	 .choices = "all|none",
	 .help = "child processes: all (default) or none"},
	{.name = "lost",
	 .argument = "WHICH",
	 .kind = MT_OPTION_CHOICE,
	 .offset = AT(lost),
	 .choices = "main|all|none",
	 .help = "look at the memory of processes that end, to tell blocks that are lost from "
		 "those they could still reach: main (default; PROGRAM itself), all (its "
		 "children, too) or none"},
	{.name = "heaps",
	 .argument = "LIST",
	 .kind = MT_OPTION_TEXT,
	 .offset = AT(heaps),
	 .help = "heaps to record, separated by commas: malloc, mmap, brk, custom (default all)"},
	{.name = "min-size",
	 .argument = "SIZE",
	 .kind = MT_OPTION_SIZE,
	 .offset = AT(min_size),
	 .help = "count smaller blocks, but do not record them one by one"},
	{.name = "max-size",
	 .argument = "SIZE",
	 .kind = MT_OPTION_SIZE,
	 .offset = AT(max_size),
	 .help = "count larger blocks, but do not record them one by one"},
	{.name = "max-overhead",
	 .argument = "SIZE",
	 .kind = MT_OPTION_SIZE,
	 .offset = AT(max_overhead),
	 .min = 1 << 20,
	 .least = "1M",
	 .help = "memory the tracker's tables may take in each process, at least 1M (default: no "
		 "bound)"},
	{.name = "profile-rate",
	 .argument = "SECONDS",
	 .kind = MT_OPTION_NUMBER,
	 .offset = AT(profile_rate),
	 .min = 0,
	 .max = 86400,
	 .help = "least time between two profiles that the program asks for through memtrack.h "
		 "(default 60; 0: none)"},
	{.name = "snapshot-every",
	 .argument = "TIME",
	 .kind = MT_OPTION_TIME,
	 .offset = AT(snapshot_every_ns),
	 .help = "take a snapshot of each process that often, at most every 10ms, for "
		 "memtrack timeline"},
	{.name = "snapshot-on",
	 .argument = "WHEN",
	 .kind = MT_OPTION_LIST,
	 .offset = AT(snapshot_on),
	 .help = "take a snapshot when this happens; may be given again: rss>SIZE, pss>SIZE, "
		 "growth>SIZE/TIME (live bytes) or signal (SIGUSR2 sent to memtrack); a limit that "
		 "is passed, or growth that lasts, is one snapshot until it has ended"},
	{.name = "report",
	 .argument = "WHAT",
	 .kind = MT_OPTION_CHOICE,
	 .offset = AT(report),
	 .choices = "leaks|summary|peak|errors|none",
	 .help = "report at the end: leaks (default), summary (totals only), peak (what was live "
		 "when most was), errors (memory errors with all their stacks and bytes) or none"},
	{.name = "dump-at-max",
	 .kind = MT_OPTION_SET,
	 .offset = AT(report),
	 .set_value = REPORT_PEAK,
	 .help = "report what was live when most was: --report=peak"},
	{.name = "report-file",
	 .argument = "FILE",
	 .kind = MT_OPTION_TEXT,
	 .offset = AT(report_file),
	 .help = "write the report to FILE instead of standard error, also with -q"},
	{.name = "json",
	 .kind = MT_OPTION_SET,
	 .offset = AT(format),
	 .set_value = MT_REPORT_JSON,
	 .help = "write the report as JSON"},
	{.name = "csv",
	 .kind = MT_OPTION_SET,
	 .offset = AT(format),
	 .set_value = MT_REPORT_CSV,
	 .help = "write the report as CSV"},
	{.name = "kv",
	 .kind = MT_OPTION_SET,
	 .offset = AT(format),
	 .set_value = MT_REPORT_KV,
	 .help = "write the report as key=value lines"},
	{.name = "stat-output",
	 .kind = MT_OPTION_SET,
	 .offset = AT(format),
	 .set_value = MT_REPORT_JSON,
	 .is_synonym = true,
	 .help = "the same as --json"},
	{.name = "top",
	 .argument = "N",
	 .kind = MT_OPTION_NUMBER,
	 .offset = AT(top),
	 .max = 1000000000,
	 .help = "rows of the report; 0 shows all (default 20)"},
	{.name = "stack",
	 .argument = "N",
	 .kind = MT_OPTION_NUMBER,
	 .offset = AT(stack),
	 .max = MT_REPORT_STACK_MAX,
	 .help = "frames of each call stack in the report (default 16)"},
	{.name = "leak-threshold",
	 .argument = "SIZE",
	 .kind = MT_OPTION_SIZE,
	 .offset = AT(leak_threshold_bytes),
	 .help = "sum smaller leaks in one line (default 4096)"},
	{.name = "suppressions",
	 .argument = "FILE",
	 .kind = MT_OPTION_LIST,
	 .offset = AT(suppressions),
	 .help = "leave out leaks that match, in LeakSanitizer's or Valgrind's format; may be "
		 "given again"},
	{.name = "no-builtin-suppressions",
	 .kind = MT_OPTION_FLAG,
	 .offset = AT(no_builtin_suppressions),
	 .help = "list also memory that libc and libstdc++ keep until the end by design"},
	{.name = "error-exitcode",
	 .argument = "N",
	 .kind = MT_OPTION_NUMBER,
	 .offset = AT(error_exitcode),
	 .max = 255,
	 .help = "exit with N when a memory error is found, however the program ends, or, unless "
		 "a signal ends it, a leak of at least --leak-threshold bytes (default: as the "
		 "program); sample mode finds leaks by chance, stats mode finds neither"},
	MT_SYMBOL_OPTION_ENTRIES(struct run_options, ),
	{.letter = 'q',
	 .name = "quiet",
	 .kind = MT_OPTION_FLAG,
	 .offset = AT(quiet),
	 .help = "no report (but --report-file's) and no notices, only errors"},
	{.letter = 'v',
	 .name = "verbose",
	 .kind = MT_OPTION_FLAG,
	 .offset = AT(verbose),
	 .help = "say what is done"},
	{0},
};

/*
 * What a run spends at most on what others left behind, so that its own start stays short whatever
 * lies around: a step takes about 0.1 ms, a file of this size a few.
 */
enum { OTHERS_STEPS = 16, OTHERS_FILE_BYTES = 4 << 20, OTHERS_NS = 5000000 };

/* Everything that lives from the checks to the report. */
struct run {
	const struct run_options *o;
	const char *check;              /* options of check mode; borrowed, NULL: not that mode */
	char *path, *pattern, *library; /* owned */
	struct mt_statedir dir;
	struct mt_collect_launcher launcher; /* ourselves */
	struct mt_buf words;                 /* MEMTRACK_OPTIONS */
	struct mt_launch_end end;
	struct mt_verifier *verifier;                      /* NULL: nothing is verified */
	struct mt_companion_task task[MT_COMPANION_TASKS]; /* done while the program runs */
	size_t task_count;
	struct mt_snapshot_options snapshot_options;
	struct mt_snapshots *snapshots; /* owned; NULL: none are taken */
	struct mt_recording_task recording;
	struct mt_companion *companion; /* NULL: it could not be started */
	struct mt_looker *looker;       /* NULL: nobody may ask for looks */
	struct mt_run_files files;
	struct mt_collection abandoned;       /* states of others */
	bool is_all_collected;                /* of the others' */
	bool has_failed;                      /* a state or the report could not be written */
	struct mt_suppressions *suppressions; /* owned */
};

static void run_done(struct run *r)
{
	free(r->path);
	free(r->pattern);
	free(r->library);
	mt_statedir_done(&r->dir);
	mt_buf_done(&r->words);
	mt_collection_done(&r->files.all);
	mt_collection_done(&r->abandoned);
	mt_suppressions_free(r->suppressions);
	mt_snapshots_free(r->snapshots);
}

/* ---- before ---- */

static void collect_others(struct run *r)
{
	struct mt_collect_budget budget = {
		.steps = OTHERS_STEPS,
		.file_bytes = OTHERS_FILE_BYTES,
		.end_ns = mt_sys_clock_ns(MT_CLOCK_MONOTONIC) + OTHERS_NS,
	};

	if (mt_sys_getrandom(&budget.first, sizeof(budget.first)) != sizeof(budget.first))
		budget.first = (size_t)budget.end_ns;
	r->is_all_collected = mt_collect_abandoned(&budget, &r->abandoned);
}

/* drop, wait, wait:TIME: as the runtime's word takes it. 0 or an exit status. */
static int make_on_full(struct run *r)
{
	const char *text = r->o->on_full;
	uint64_t ns;

	if (!strcmp(text, "drop") || !strcmp(text, "wait")) {
		mt_buf_printf(&r->words, "on-full=%s", text);
		return 0;
	}
	if (strncmp(text, "wait:", 5) || mt_units_parse_time(text + 5, &ns)) {
		mt_complain(
			"run: '--on-full=%s' is neither drop nor wait[:TIME]; see 'memtrack run "
			"--help'",
			text);
		return MT_EXIT_USAGE;
	}
	mt_buf_printf(&r->words, "on-full=wait:%" PRIu64 "ms", MT_MAX(ns / 1000000, 1));
	return 0;
}

/* The words of recording mode. 0 or an exit status. */
static int make_record_words(struct run *r)
{
	const struct run_options *o = r->o;
	int status;

	if (o->mode != MODE_RECORD)
		return 0;
	if (o->record_buffers > RECORD_BUFFERS_MOST) {
		mt_complain("run: '--record-buffers' is 1G at most");
		return MT_EXIT_USAGE;
	}
	status = make_on_full(r);
	if (o->record_limit)
		mt_buf_printf(&r->words, " record-limit=%" PRIu64, o->record_limit);
	if (o->record_keep)
		mt_buf_adds(&r->words, " record-keep=last");
	if (o->record_buffers)
		mt_buf_printf(&r->words, " record-buffers=%" PRIu64, o->record_buffers);
	return status;
}

static int add_checked_word(struct run *r, const char *name, const char *value)
{
	mt_auto(mt_buf) struct mt_buf word = {0};
	struct mt_err err = {0};

	if (!value)
		return 0;
	mt_buf_printf(&word, "%s=%s", name, value);
	if (!mt_control_add_word(&r->words, mt_buf_text(&word), &err))
		return 0;
	mt_complain("run: %s; see 'memtrack run --help'", err.text);
	return MT_EXIT_USAGE;
}

/* What a list says must be told before the program starts. 0 or an exit status. */
static int make_lists(struct run *r)
{
	int status = add_checked_word(r, "modules", r->o->modules);

	return status ? status : add_checked_word(r, "intervals", r->o->intervals);
}

static int check_pairs(const struct run_options *o)
{
	const char *why = NULL;

	if (o->every && (o->interval || o->intervals))
		why = "--every takes the place of --interval and --intervals: give one of them";
	else if (o->report == REPORT_NONE && o->report_file)
		why = "--report=none leaves nothing to write to --report-file";
	else if (o->error_exitcode && o->mode == MODE_STATS)
		why = "--error-exitcode needs a mode that finds leaks or memory errors, "
		      "--mode=stats does not";
	if (!why)
		return 0;
	mt_complain("run: %s; see 'memtrack run --help'", why);
	return MT_EXIT_USAGE;
}

/* No option is ignored in silence. 0 or an exit status. */
static int check_modes(const struct run *r)
{
	const struct run_options *o = r->o;
	const char *mode = r->check ? "check" : mode_words[o->mode];
	const struct mt_run_use uses[] = {
		{"interval", o->interval != 0, "sample", NULL},
		{"intervals", o->intervals != NULL, "sample", NULL},
		{"every", o->every != 0, "sample", NULL},
		{"max-cpu", o->max_cpu != 0, "sample", "stats"},
		{"min-anon", o->min_anon != 0, "sample", "stats"},
		{"guard-sampled", o->guard_slots != 0, "sample", NULL},
		{"guard-side", o->guard_side != 0, "sample", NULL},
		{"on-error", o->on_error != 0, "sample", NULL},
		{"record-limit", o->record_limit != 0, "record", NULL},
		{"record-keep", o->record_keep != 0, "record", NULL},
		{"record-buffers", o->record_buffers != 0, "record", NULL},
		{"on-full", strcmp(o->on_full, defaults.on_full) != 0, "record", NULL},
		{"depth", o->depth != 0, NULL, "stats"},
		{"modules", o->modules != NULL, NULL, "stats"},
	};

	return mt_run_modes_check(uses, MT_ARRAY_LEN(uses), mode, o->quiet);
}

static int make_words(struct run *r)
{
	static const char *const guard_sides[] = {"either", "end", "start"};
	const struct run_options *o = r->o;

	mt_buf_printf(&r->words, "%sdepth=%" PRIu64 " follow=%s", r->words.len ? " " : "",
		      o->depth ? o->depth : DEPTH_DEFAULT, o->follow ? "none" : "all");
	if (o->mode != MODE_FULL || r->check)
		mt_buf_printf(&r->words, " mode=%s", mode_words[r->check ? MODE_CHECK : o->mode]);
	if (o->lost != LOST_NONE && o->mode != MODE_SAMPLE && o->mode != MODE_STATS)
		mt_buf_printf(&r->words, " lost=%s", lost_words[o->lost]);
	if (o->mode == MODE_SAMPLE && o->every)
		mt_buf_printf(&r->words, " every=%" PRIu64, o->every);
	else if (o->mode == MODE_SAMPLE)
		mt_buf_printf(&r->words, " interval=%" PRIu64,
			      o->interval ? o->interval : INTERVAL_DEFAULT);
	if (o->max_cpu)
		mt_buf_printf(&r->words, " max-cpu=%" PRIu64, o->max_cpu);
	if (o->min_anon)
		mt_buf_printf(&r->words, " min-anon=%" PRIu64, o->min_anon);
	if (o->guard_slots)
		mt_buf_printf(&r->words, " guard-sampled=%" PRIu64 " guard-side=%s on-error=%s",
			      o->guard_slots, guard_sides[o->guard_side],
			      o->on_error ? "die" : "continue");
	if (o->profile_rate != 60)
		mt_buf_printf(&r->words, " profile-rate=%" PRIu64, o->profile_rate);
	if (o->verify)
		mt_buf_printf(&r->words, " verify=%" PRIu64, o->verify);
	if (strcmp(o->heaps, "all"))
		mt_buf_printf(&r->words, " heaps=%s", o->heaps);
	if (o->min_size)
		mt_buf_printf(&r->words, " min-size=%" PRIu64, o->min_size);
	if (o->max_size != UINT64_MAX)
		mt_buf_printf(&r->words, " max-size=%" PRIu64, o->max_size);
	if (o->max_overhead)
		mt_buf_printf(&r->words, " max-overhead=%" PRIu64, o->max_overhead);
	/* for children that outlive us; the words of the contract cannot hold a blank */
	if (!strpbrk(r->pattern, " \t\n"))
		mt_buf_printf(&r->words, " output=%s", r->pattern);
	return r->words.failed ? -ENOMEM : 0;
}

static int find_library(struct run *r, struct mt_err *err)
{
	r->library = mt_launch_find_library(MT_LIBDIR, err);
	if (!r->library)
		return err->code;
	if (strpbrk(r->library, " :"))
		return mt_err_set(err, -EINVAL,
				  "cannot preload '%s': a path with blanks or colons cannot be "
				  "given to the loader",
				  r->library);
	return 0;
}

static int check_report_file(const struct run_options *o, struct mt_err *err)
{
	return o->report_file && strcmp(o->report_file, "-") ? mt_output_check(o->report_file, err)
							     : 0;
}

/* Before the program starts: a mistake in a file must not cost the run. */
static int read_suppressions(struct run *r, struct mt_err *err)
{
	r->suppressions =
		mt_load_suppressions(&r->o->suppressions, r->o->no_builtin_suppressions, err);
	return r->suppressions ? 0 : err->code;
}

/* Everything that can be refused; returns the exit status, 0: go on. */
static int prepare(struct run *r, const struct mt_operands *operands)
{
	struct mt_err err = {0};
	enum mt_preflight_why why;
	int code = mt_run_check_heaps(r->o->heaps);

	if (!code)
		code = mt_run_check_choose(r->o->check, mode_words[r->o->mode], &r->check);
	if (!code)
		code = check_pairs(r->o);
	if (!code)
		code = check_modes(r);
	if (!code)
		code = mt_run_snapshots_parse(r->o->snapshot_every_ns, &r->o->snapshot_on,
					      &r->snapshot_options);
	if (!code)
		code = make_lists(r);
	if (!code)
		code = make_record_words(r);
	if (code)
		return code;
	if (mt_pattern_check(r->o->output, &err)) {
		mt_complain("run: %s; see 'memtrack run --help'", err.text);
		return MT_EXIT_USAGE;
	}
	why = mt_preflight(operands->text[0], getenv("PATH"), &r->path, &err);
	if (why) {
		mt_complain("%s", err.text);
		return mt_preflight_exit_status(why);
	}
	r->pattern = mt_pattern_absolute(r->o->output, &err);
	code = r->pattern ? mt_pattern_check_writable(r->pattern, &err) : err.code;
	if (!code)
		code = check_report_file(r->o, &err);
	if (!code)
		code = read_suppressions(r, &err);
	if (!code)
		code = find_library(r, &err);
	if (!code && make_words(r))
		code = mt_err_no_memory(&err);
	if (!code)
		code = mt_statedir_create(r->pattern, &r->dir, &err);
	if (code)
		mt_complain("%s", err.text);
	return code ? MT_EXIT_FAILED : 0;
}

static void tell_plan(const struct run *r)
{
	if (!r->o->verbose)
		return;
	mt_complain("running '%s' with '%s'", r->path, r->library);
	mt_complain("options: %s", mt_buf_text(&r->words));
	if (r->check)
		mt_complain("check mode: %s", r->check);
	if (r->dir.avoided)
		mt_complain("/dev/shm is not used: %s", r->dir.avoided);
	mt_complain("state files are made in '%s'", r->dir.path);
}

/* ---- after ---- */

static void tell_files(struct run *r)
{
	bool has_report = r->o->report != REPORT_NONE;

	if (!mt_run_files_tell(&r->files.all, r->o->quiet,
			       (has_report && !r->o->quiet) || r->o->verbose))
		r->has_failed = true;
	mt_run_snapshots_tell(r->snapshots);
	if (!r->files.all.count && (!r->o->quiet || r->o->report_file))
		mt_run_files_tell_nothing();
}

/* A file is for those who read it, quiet or not. */
static bool wants_report(const struct run_options *o)
{
	return o->report != REPORT_NONE && (!o->quiet || o->report_file);
}

static int load_files(const struct run *r, struct mt_loaded *loaded)
{
	const struct mt_collection *all = &r->files.all;

	for (size_t i = 0; i < all->count; i++) {
		struct mt_err err = {0};

		if (all->item[i].kind != MT_RUNNING &&
		    mt_loaded_add(loaded, all->item[i].path, &err))
			mt_complain("%s", err.text);
	}
	return loaded->count ? 0 : -ENODATA;
}

static int write_report(const struct run *r, const struct mt_report *report, struct mt_err *err)
{
	mt_auto(mt_output) struct mt_output out;
	int code;

	mt_output_init(&out, r->o->report_file);
	if (!r->o->report_file)
		out.text.drain = NULL; /* standard error: in one piece */
	code = mt_report_write(report, (enum mt_report_format)r->o->format, &out.text, err);
	if (code)
		return code;
	if (r->o->report_file)
		return mt_output_finish(&out, err);
	fwrite(mt_buf_text(&out.text), 1, out.text.len, stderr);
	return 0;
}

/*
 * Reports on the loaded profiles; returns whether --error-exitcode counts. What is live when a
 * signal ends the program is no leak; an error is one whatever it led to.
 */
static bool report(struct run *r, struct mt_loaded *loaded, struct mt_err *err)
{
	const struct run_options *o = r->o;
	bool is_text = o->format == MT_REPORT_TEXT;
	struct mt_suppress_context suppress = {r->suppressions, &loaded->names};
	struct mt_load_symbols symbols = {
		.dirs = &o->symbol_dirs,
		.no_cache = o->no_cache,
		.debuginfod = o->debuginfod,
		.warnings = o->verbose ? MT_LOAD_WARN_ALL
			    : o->quiet ? MT_LOAD_WARN_NONE
				       : MT_LOAD_WARN_SOME,
	};
	static const enum mt_show shows[] = {[REPORT_LEAKS] = MT_SHOW_LEAKS,
					     [REPORT_SUMMARY] = MT_SHOW_SUMMARY,
					     [REPORT_PEAK] = MT_SHOW_PEAK,
					     [REPORT_ERRORS] = MT_SHOW_ERRORS,
					     [REPORT_NONE] = MT_SHOW_LEAKS};
	struct mt_report_leaks leaks = {0};
	struct mt_report report = {
		.profiles = loaded->profile,
		.profile_count = (uint32_t)loaded->count,
		.show = shows[o->report],
		.top = (uint32_t)o->top,
		.stack = (uint32_t)o->stack,
		.leak_threshold_bytes = o->leak_threshold_bytes,
		.color = is_text && !o->report_file && mt_load_is_color(stderr),
		.names = &loaded->names,
		.is_suppressed = mt_load_is_suppressed,
		.is_error_suppressed = mt_load_is_error_suppressed,
		.suppress_context = &suppress,
		.stop = mt_load_stop(),
	};

	if (!o->no_symbols && mt_loaded_symbolize(loaded, &symbols, err))
		mt_complain("%s", err->text);
	mt_err_clear(err);
	if (wants_report(o) && write_report(r, &report, err))
		r->has_failed = true;
	if (o->error_exitcode && WIFEXITED(r->end.status))
		mt_report_count_leaks(&report, &leaks);
	return o->error_exitcode && (leaks.wide_sites || mt_report_count_errors(&report));
}

static bool finish(struct run *r)
{
	mt_auto(mt_loaded) struct mt_loaded loaded = {0};
	struct mt_collect_end end = {r->end.pid, r->end.status};
	struct mt_err err = {0};
	bool is_found = false;

	mt_load_catch_interrupt();
	if (mt_collect_dir(r->dir.path, r->pattern, &end, &r->files.all, &err))
		mt_complain("%s", err.text);
	mt_err_clear(&err);
	if (mt_collect_strays(&r->launcher, r->pattern, &end, &r->files.all, &err))
		mt_complain("%s", err.text);
	mt_collection_sort(&r->files.all);
	mt_statedir_remove(&r->dir);
	mt_err_clear(&err);
	if ((wants_report(r->o) || r->o->error_exitcode) && !load_files(r, &loaded))
		is_found = report(r, &loaded, &err);
	if (err.code)
		mt_complain("%s", err.text);
	tell_files(r);
	if ((r->o->report != REPORT_NONE && !r->o->quiet) || r->o->verbose)
		mt_run_files_tell_others(&r->abandoned, r->is_all_collected, r->o->verbose);
	return is_found;
}

static void ring(void *context)
{
	struct run *r = context;

	mt_companion_ring(r->companion);
}

static int add_snapshots(struct run *r)
{
	if (!mt_snapshot_is_wanted(&r->snapshot_options))
		return 0;
	r->snapshots = mt_snapshots_new(&r->snapshot_options);
	if (!r->snapshots)
		return -ENOMEM;
	r->task[r->task_count++] = mt_snapshots_task(r->snapshots);
	return 0;
}

static void add_recording(struct run *r)
{
	if (r->o->mode != MODE_RECORD)
		return;
	r->recording =
		(struct mt_recording_task){r->pattern, r->o->record_limit, r->o->record_keep != 0};
	r->task[r->task_count++] = (struct mt_companion_task){
		.period_ns = MT_RECORDING_PERIOD_MS * 1000000ull,
		.visit = mt_recording_visit,
		.context = &r->recording,
	};
}

static void start_companion(struct run *r)
{
	struct mt_companion_run c = {
		.dir = r->dir.path,
		.launcher = r->launcher.pid,
		.since_ns = r->launcher.since_ns,
		.task = r->task,
		.take = mt_run_files_take,
		.take_context = &r->files,
	};
	struct mt_err err = {0};

	r->files.pattern = r->pattern;
	if (add_snapshots(r))
		mt_complain("cannot allocate memory");
	add_recording(r);
	c.task_count = r->task_count;
	if (mt_companion_start(&c, &r->companion, &err))
		mt_complain("%s", err.text);
}

/* Before there are threads. Without it the report says that lost blocks are not known. */
static void start_looker(struct run *r)
{
	struct mt_err err = {0};

	if (r->o->mode == MODE_SAMPLE || r->o->mode == MODE_STATS)
		return;
	if (mt_looker_start(r->dir.path, mt_run_look, &r->looker, &err))
		mt_complain("%s", err.text);
	else
		mt_buf_printf(&r->words, " looker=%d", (int)mt_looker_pid(r->looker));
}

static int launch(struct run *r, const struct mt_operands *operands)
{
	struct mt_launch l = {
		.path = r->path,
		.argv = operands->text,
		.library = r->library,
		.state_dir = r->dir.path,
		.check = r->check,
		.on_usr2 = r->snapshot_options.on_signal ? ring : NULL,
		.usr2_context = r,
		.on_start = mt_run_files_started,
		.start_context = &r->files,
	};
	struct mt_err err = {0};
	int code;

	r->launcher = (struct mt_collect_launcher){
		.pid = getpid(),
		.since_ns = mt_sys_clock_ns(MT_CLOCK_MONOTONIC),
	};
	start_looker(r);
	l.options = mt_buf_text(&r->words);
	if (r->o->verify && mt_verifier_start(r->dir.path, &r->verifier, &err)) {
		mt_complain("%s", err.text);
		mt_err_clear(&err);
	}
	start_companion(r);
	code = mt_launch_run(&l, &r->end, &err);
	mt_looker_stop(r->looker);
	mt_companion_stop(r->companion);
	if (r->o->verify)
		mt_run_verify_tell(r->verifier, r->o->verbose);

	if (!code)
		return 0;
	mt_complain("%s", err.text);
	mt_statedir_remove(&r->dir);
	return code == -ENOENT ? 127 : code == -ENOMEM || code == -EAGAIN ? MT_EXIT_FAILED : 126;
}

static int run(const void *opaque, const struct mt_operands *operands)
{
	struct run r = {.o = opaque, .dir = {.lock_fd = -1}};
	bool is_found = false;
	int status;

	collect_others(&r);
	status = prepare(&r, operands);
	if (!status) {
		tell_plan(&r);
		status = launch(&r, operands);
		if (!status) {
			int end = r.end.status;

			is_found = finish(&r);
			run_done(&r);
			if (is_found)
				return (int)((const struct run_options *)opaque)->error_exitcode;
			if (r.has_failed && WIFEXITED(end) && !WEXITSTATUS(end))
				return MT_EXIT_FAILED;
			fflush(stdout);
			mt_launch_end_like(end);
		}
	}
	run_done(&r);
	return status;
}

static const char *const examples[] = {
	"memtrack run ./server --port 80",
	"track the server and its children, list its leaks at the end",
	"memtrack run -q -o /tmp/%e.%p.mtk -- make test",
	"keep state files, print nothing",
	"memtrack run --error-exitcode=99 --suppressions=leaks.supp ./unit_tests",
	"for continuous integration",
	"memtrack run --check='backtrace guard free_track leak_track' ./program",
	"look for overflows, uses after free, wrong frees",
	NULL,
};

const struct mt_command mt_cmd_run = {
	.name = "run",
	.summary = "run a program under the tracker and report its leaks",
	.operands = "[--] PROGRAM [ARGUMENT...]",
	.operands_min = 1,
	.operands_max = -1,
	.stops_at_operand = true,
	.options = options,
	.options_bytes = sizeof(struct run_options),
	.defaults = &defaults,
	.description =
		"Runs PROGRAM with libmemtrack.so preloaded, records each allocation and its call "
		"stack, and "
		"reports what was still allocated at the end. Programs need not be rebuilt; debug "
		"information "
		"gives file names and lines. Child processes are tracked too; one report covers "
		"them all.\n\n"
		"What is recorded lies in shared memory while the program runs, so that nothing "
		"is lost when "
		"it is killed, and 'memtrack report PID' can look at it at any time. When a "
		"process ends it is written to a state file of its own, and the memory is "
		"free again; the state of PROGRAM itself comes last. Where the pattern has no %p, "
		"PROGRAM's states get the plain name and those of its children numbers, in the "
		"order in which they end.\n\n"
		"Snapshots (--snapshot-every, --snapshot-on) are taken of every process of the "
		"tree by memtrack itself, from the shared state: one when a process is first seen, "
		"one when it has ended, and what was asked for in between. They lie beside the "
		"state file, for 'memtrack timeline' and 'memtrack diff FILE@WHICH'. Rules are "
		"looked at once a second, for PSS every ten seconds; each fires again only after "
		"the value was well below. With --snapshot-on=signal, SIGUSR2 sent to memtrack "
		"takes a "
		"snapshot and is not passed on; send it to the program to reach the program.\n\n"
		"States of earlier programs that nobody collected are moved to where they should "
		"go, a few at each run and none of more than 4 MiB (that is said), so that the "
		"start stays short; 'memtrack ps' moves all at once.\n\n"
		"Statically linked programs (unless libmemtrack-wrap.a is linked into them), "
		"programs that change privileges, programs of another architecture "
		"and programs built with a sanitizer cannot be tracked this way and are refused. "
		"SIGINT and "
		"SIGQUIT from the terminal reach the program alone; other signals sent to "
		"memtrack are passed "
		"on to it.",
	.exit_status =
		"As the program: the same status, or the same signal. N of --error-exitcode when "
		"a memory error was found, also when a signal ended the program, or when leaks "
		"were found and none did. 1 when the program ended with 0, but a state or the "
		"report could not be written: the sentence on standard error says what, why, and "
		"where the state is kept.\n\n"
		"If the program could not be run: 127 when there is no such program, 126 when it "
		"cannot be "
		"executed, 1 when it cannot be tracked or the output cannot be written, 2 for a "
		"wrong command "
		"line.",
	.examples = examples,
	.see_also = "memtrack(1), memtrack-report(1), memtrack-check(7), memtrack-environment(7), "
		    "mtk(5), mtr(5)",
	.run = run,
};
