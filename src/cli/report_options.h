/* SPDX-License-Identifier: MIT */
#ifndef MT_CLI_REPORT_OPTIONS_H
#define MT_CLI_REPORT_OPTIONS_H

/* Options that `report` and `diff` share, as one table part. */

#include "cli/command.h"
#include "cli/load.h"
#include "report/report.h"

struct mt_report_options {
	int show, by, sort, format;
	uint64_t top;   /* UINT64_MAX: not given */
	uint64_t stack; /* UINT64_MAX: not given */
	uint64_t min_age_ns, leak_threshold_bytes, error_exitcode;
	struct mt_text_list symbol_dirs, suppressions;
	bool no_symbols, no_cache, debuginfod, no_builtin_suppressions, verbose;
	const char *output, *modules;
};

#define MT_REPORT_OPTIONS_DEFAULT \
	{ \
		.top = UINT64_MAX, .stack = UINT64_MAX, \
		.leak_threshold_bytes = MT_REPORT_THRESHOLD_DEFAULT, \
	}

/*
 * Where symbols come from, for every command that reads them. S is the struct of the options, P
 * what stands before the members' names in it: nothing, or a member and a dot.
 */
#define MT_SYMBOL_OPTION_ENTRIES(S, P) \
	{.name = "symbols", \
	 .argument = "DIR", \
	 .kind = MT_OPTION_LIST, \
	 .offset = offsetof(S, P symbol_dirs), \
	 .help = "look for programs, libraries and debug files here first; may be given again"}, \
		{.name = "no-symbols", \
		 .kind = MT_OPTION_FLAG, \
		 .offset = offsetof(S, P no_symbols), \
		 .help = "show module+offset only"}, \
		{.name = "no-cache", \
		 .kind = MT_OPTION_FLAG, \
		 .offset = offsetof(S, P no_cache), \
		 .help = "neither use nor write the cache of symbols"}, \
	{ \
		.name = "debuginfod", .kind = MT_OPTION_FLAG, .offset = offsetof(S, P debuginfod), \
		.help = "ask the servers in $DEBUGINFOD_URLS for missing debug files (default: " \
			"never)" \
	}

/* The entries of the option table; S is the struct, M its member of type struct mt_report_options.
 */
#define MT_REPORT_OPTION_ENTRIES(S, M) \
	{.name = "show", \
	 .argument = "WHAT", \
	 .kind = MT_OPTION_CHOICE, \
	 .offset = offsetof(S, M.show), \
	 .choices = "leaks|live|peak|total|temporary|large|sizes|lifetimes|threads|modules|heaps|" \
		    "coverage|errors|timeline", \
	 .help = "what to list: leaks (default; live blocks), live, peak (what was live at the " \
		 "peak), " \
		 "total (everything ever allocated), temporary, large (1 MiB or more), sizes, " \
		 "lifetimes, " \
		 "threads, modules, heaps, coverage, errors or timeline (memtrack diff: leaks " \
		 "to large, or modules; timeline: of snapshots; errors: what check " \
		 "mode or guarded samples found)"}, \
		{.name = "by", \
		 .argument = "KEY", \
		 .kind = MT_OPTION_CHOICE, \
		 .offset = offsetof(S, M.by), \
		 .choices = "site|function|module|thread|size|heap|label", \
		 .help = "group by call site (default), function, module, thread, size, heap " \
			 "or label"}, \
		{.name = "sort", \
		 .argument = "KEY", \
		 .kind = MT_OPTION_CHOICE, \
		 .offset = offsetof(S, M.sort), \
		 .choices = "bytes|count|growth|age", \
		 .help = "widest first by bytes (default), count, growth (bytes allocated in " \
			 "the second half of the " \
			 "run and still live) or age of the oldest block"}, \
		{.name = "top", \
		 .argument = "N", \
		 .kind = MT_OPTION_NUMBER, \
		 .offset = offsetof(S, M.top), \
		 .min = 0, \
		 .max = 1000000000, \
		 .help = "rows to show; 0 shows all (default 20 in text, all in machine " \
			 "formats)"}, \
		{.name = "min-age", \
		 .argument = "TIME", \
		 .kind = MT_OPTION_TIME, \
		 .offset = offsetof(S, M.min_age_ns), \
		 .help = "count only live blocks at least this old"}, \
		{.name = "modules", \
		 .argument = "LIST", \
		 .kind = MT_OPTION_TEXT, \
		 .offset = offsetof(S, M.modules), \
		 .help = "only call sites in these modules: names or globs separated by commas; " \
			 "-GLOB leaves modules out"}, \
		{.name = "leak-threshold", \
		 .argument = "SIZE", \
		 .kind = MT_OPTION_SIZE, \
		 .offset = offsetof(S, M.leak_threshold_bytes), \
		 .help = "leaks: sum smaller sites in one line (default 4096)"}, \
		{.name = "stack", \
		 .argument = "N", \
		 .kind = MT_OPTION_NUMBER, \
		 .offset = offsetof(S, M.stack), \
		 .min = 0, \
		 .max = MT_REPORT_STACK_MAX, \
		 .help = "frames of each call stack to show (default 16 in text, all in " \
			 "machine formats)"}, \
		MT_SYMBOL_OPTION_ENTRIES(S, M.), \
		{.name = "suppressions", \
		 .argument = "FILE", \
		 .kind = MT_OPTION_LIST, \
		 .offset = offsetof(S, M.suppressions), \
		 .help = "leave out leaks that match, in LeakSanitizer's or Valgrind's format; " \
			 "may be given again"}, \
		{.name = "no-builtin-suppressions", \
		 .kind = MT_OPTION_FLAG, \
		 .offset = offsetof(S, M.no_builtin_suppressions), \
		 .help = "list also memory that libc and libstdc++ keep until the end by design"}, \
		{.name = "json", \
		 .kind = MT_OPTION_SET, \
		 .offset = offsetof(S, M.format), \
		 .set_value = MT_REPORT_JSON, \
		 .help = "write JSON"}, \
		{.name = "csv", \
		 .kind = MT_OPTION_SET, \
		 .offset = offsetof(S, M.format), \
		 .set_value = MT_REPORT_CSV, \
		 .help = "write CSV with a header line"}, \
		{.name = "kv", \
		 .kind = MT_OPTION_SET, \
		 .offset = offsetof(S, M.format), \
		 .set_value = MT_REPORT_KV, \
		 .help = "write key=value lines"}, \
		{.name = "stat-output", \
		 .kind = MT_OPTION_SET, \
		 .offset = offsetof(S, M.format), \
		 .set_value = MT_REPORT_JSON, \
		 .is_synonym = true, \
		 .help = "the same as --json"}, \
		{.name = "by-thread", \
		 .kind = MT_OPTION_SET, \
		 .offset = offsetof(S, M.by), \
		 .set_value = MT_BY_THREAD, \
		 .is_synonym = true, \
		 .help = "the same as --by=thread"}, \
		{.letter = 'v', \
		 .name = "verbose", \
		 .kind = MT_OPTION_FLAG, \
		 .offset = offsetof(S, M.verbose), \
		 .help = "list all files whose symbols cannot be used"}, \
	{ \
		.letter = 'o', .name = "output", .argument = "FILE", .kind = MT_OPTION_TEXT, \
		.offset = offsetof(S, M.output), \
		.help = "write to FILE instead of standard output" \
	}

/*
 * The report that the options ask for over `loaded`, whose symbols are read here unless they are
 * not wanted. suppress (all-zero) is filled; release its suppressions with mt_suppressions_free().
 * 0 or a negative errno value with *err.
 */
int mt_report_options_apply(const struct mt_report_options *o, struct mt_loaded *loaded,
			    struct mt_suppress_context *suppress, struct mt_report *ret_report,
			    struct mt_err *err);

#endif
