/* SPDX-License-Identifier: MIT */
/* memtrack maps: the memory of any process, by mapping, by what is mapped, or by category. */

#include "cli/any_process.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/sentences.h"
#include "cli/subject.h"

#include "base/alloc.h"
#include "core/cc.h"
#include "report/maps.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

struct maps_options {
	int by, sort, rules, format;
	uint64_t top;
	bool all, raw;
	const char *since, *output;
};

/* --by: as enum mt_account_by, and another word for its last one. */
enum { BY_CATEGORY = MT_ACCOUNT_KIND + 1 };
enum { SORT_DEFAULT = -1, TOP_ONE = 25, TOP_ALL = 5, TOP_MAX = 1000000000 };

static const struct maps_options defaults = {.sort = SORT_DEFAULT, .top = UINT64_MAX};

static const struct mt_option options[] = {
	{.name = "by",
	 .argument = "WHAT",
	 .kind = MT_OPTION_CHOICE,
	 .offset = offsetof(struct maps_options, by),
	 .choices = "object|mapping|kind|category",
	 .help = "what a row is: object (all mappings of a file, or of a use; the default), "
		 "mapping, or kind, also called category"},
	{.name = "sort",
	 .argument = "COLUMN",
	 .kind = MT_OPTION_CHOICE,
	 .offset = offsetof(struct maps_options, sort),
	 .choices = "rss|pss|uss|private_dirty|shared|anon|file|swap|huge|size|count|dumped|"
		    "address|name",
	 .help = "rss, pss, uss, private_dirty, shared, anon, file, swap, huge, size, count or "
		 "dumped: largest first, or with --since what grew most; address or name: upwards "
		 "(default rss; address with --by=mapping)"},
	{.name = "top",
	 .argument = "N",
	 .kind = MT_OPTION_NUMBER,
	 .offset = offsetof(struct maps_options, top),
	 .max = TOP_MAX,
	 .help = "rows to show, the others are summed in one; 0 shows all (default 25, with --all "
		 "5 of each process, all in machine formats)"},
	{.name = "since",
	 .argument = "FILE",
	 .kind = MT_OPTION_TEXT,
	 .offset = offsetof(struct maps_options, since),
	 .help = "show what changed since FILE was written, by --raw or as a copy of "
		 "/proc/PID/smaps"},
	{.name = "all",
	 .kind = MT_OPTION_FLAG,
	 .offset = offsetof(struct maps_options, all),
	 .help = "all processes of this machine, a table for each"},
	{.name = "rules",
	 .argument = "OF",
	 .kind = MT_OPTION_CHOICE,
	 .offset = offsetof(struct maps_options, rules),
	 .choices = "auto|linux|android",
	 .help = "whose categories: linux, android, or auto (the default): Android's if the text "
		 "is from there"},
	{.name = "raw",
	 .kind = MT_OPTION_FLAG,
	 .offset = offsetof(struct maps_options, raw),
	 .help = "write the text of /proc/PID/smaps as it is, for --since or another machine"},
	{.name = "json",
	 .kind = MT_OPTION_SET,
	 .offset = offsetof(struct maps_options, format),
	 .set_value = MT_MAPS_JSON,
	 .help = "write JSON (docs/meminfo.md)"},
	{.name = "csv",
	 .kind = MT_OPTION_SET,
	 .offset = offsetof(struct maps_options, format),
	 .set_value = MT_MAPS_CSV,
	 .help = "write the rows as CSV with a header line"},
	{.letter = 'o',
	 .name = "output",
	 .argument = "FILE",
	 .kind = MT_OPTION_TEXT,
	 .offset = offsetof(struct maps_options, output),
	 .help = "write to FILE instead of standard output"},
	{0},
};

/* ---- the command ---- */

static enum mt_account_by by_of(const struct maps_options *o)
{
	return o->by == BY_CATEGORY ? MT_ACCOUNT_KIND : (enum mt_account_by)o->by;
}

/* By what the widest row is found: what both sides tell. */
static enum mt_account_column widest_known(const struct maps_options *o, const struct mt_subject *u)
{
	static const enum mt_account_column wished[] = {MT_ACCOUNT_RSS, MT_ACCOUNT_DUMPED};

	for (size_t i = 0; i < MT_ARRAY_LEN(wished); i++)
		if (mt_account_has(&u->account.total, wished[i]) &&
		    (!o->since || mt_account_has(&u->account.old_total, wished[i])))
			return wished[i];
	return MT_ACCOUNT_SIZE;
}

static void fill_view(const struct maps_options *o, struct mt_subject *u,
		      const struct mt_sentences *w, struct mt_maps_view *v)
{
	enum mt_account_column sort = (enum mt_account_column)o->sort;
	size_t top = (size_t)MT_MIN(o->top, (uint64_t)TOP_MAX);

	if (o->sort == SORT_DEFAULT)
		sort = by_of(o) == MT_ACCOUNT_MAPPING && !o->since ? MT_ACCOUNT_ADDRESS
								   : widest_known(o, u);
	if (o->top == UINT64_MAX)
		top = o->format != MT_MAPS_TEXT || by_of(o) == MT_ACCOUNT_KIND ? 0
		      : o->all                                                 ? TOP_ALL
		      : by_of(o) == MT_ACCOUNT_MAPPING                         ? 0
									       : TOP_ONE;
	mt_account_sort(&u->account, sort);
	*v = (struct mt_maps_view){
		.pid = u->pid,
		.name = u->name,
		.old_name = o->since,
		.s = &u->s,
		.a = &u->account,
		.sort = sort,
		.top = top,
		.warning = (const char *const *)w->text,
		.warnings = w->count,
	};
}

static int make_rows(struct mt_subject *u, struct mt_subject *old, const struct maps_options *o,
		     struct mt_err *err)
{
	const struct mt_subject_rows how = {.by = by_of(o), .rules = (enum mt_vma_rules)o->rules};
	int code = o->since ? mt_subject_open_file(old, o->since, err) : 0;

	if (!code && o->since && old->s.kind == MT_SMAPS_ROLLUP)
		code = mt_err_set(err, -EINVAL,
				  "'%s' has sums of a process only: nothing to compare mappings "
				  "with",
				  o->since);
	return code ? code : mt_subject_make_rows(u, o->since ? old : NULL, &how, err);
}

static int show_one(const struct maps_options *o, const char *operand, struct mt_buf *out,
		    struct mt_err *err)
{
	mt_auto(mt_subject) struct mt_subject u = {0}, old = {0};
	mt_auto(mt_sentences) struct mt_sentences w = {0};
	struct mt_maps_view v;
	pid_t pid = 0;
	int code = mt_any_process(operand, &pid, err);

	if (code >= 0)
		code = code ? mt_subject_open_process(&u, pid, err)
			    : mt_subject_open_file(&u, operand, err);
	if (!code)
		code = mt_subject_find_heap(&u, err);
	if (!code)
		code = make_rows(&u, &old, o, err);
	if (code)
		return code;
	mt_sentences_add_subject(&w, &u);
	if (o->since) {
		w.prefix = o->since;
		mt_sentences_add_subject(&w, &old);
	}
	fill_view(o, &u, &w, &v);
	return mt_maps_write(&v, (enum mt_maps_format)o->format, out) ? mt_err_no_memory(err) : 0;
}

/* 0; -ESRCH, -EACCES: not shown; others with *err. */
static int show_each(const struct maps_options *o, pid_t pid, struct mt_json *j, struct mt_buf *out,
		     struct mt_err *err)
{
	mt_auto(mt_subject) struct mt_subject u = {0};
	mt_auto(mt_sentences) struct mt_sentences w = {0};
	struct mt_maps_view v;
	int code = mt_subject_open_process(&u, pid, err);

	if (!code)
		code = make_rows(&u, NULL, o, err);
	if (code)
		return code;
	mt_sentences_add_subject(&w, &u);
	fill_view(o, &u, &w, &v);
	return mt_maps_each(&v, (enum mt_maps_format)o->format, j, out) ? mt_err_no_memory(err) : 0;
}

static int show_all(const struct maps_options *o, struct mt_buf *out, struct mt_err *err)
{
	mt_auto(free) pid_t *list = mt_any_process_list();
	struct mt_json j = {0};
	size_t processes = 0, refused = 0;

	if (!list)
		return mt_err_no_memory(err);
	mt_maps_head((enum mt_maps_format)o->format, &j, out);
	for (const pid_t *pid = list; *pid; pid++) {
		int code = show_each(o, *pid, &j, out, err);

		if (code && code != -ESRCH && code != -EACCES)
			return code;
		processes += !code;
		refused += code == -EACCES;
	}
	mt_err_clear(err);
	mt_maps_tail((enum mt_maps_format)o->format, processes, refused, &j, out);
	if (refused && o->format == MT_MAPS_CSV)
		mt_complain("%zu processes may not be looked at: that takes root", refused);
	return out->failed ? mt_err_no_memory(err) : 0;
}

static int write_raw(const char *operand, struct mt_buf *out, struct mt_err *err)
{
	mt_auto(free) char *text = NULL;
	size_t len;
	pid_t pid;
	int code = mt_any_process(operand, &pid, err);

	if (!code)
		code = mt_err_set(err, -EINVAL, "--raw is for processes: '%s' is a file already",
				  operand);
	if (code > 0)
		code = mt_smaps_text(pid, MT_SMAPS_FULL, &text, &len, err);
	if (!code && mt_buf_add(out, text, len))
		code = mt_err_no_memory(err);
	return code;
}

static const char *misuse(const struct maps_options *o, const struct mt_operands *operands)
{
	if (o->all && operands->count)
		return "--all takes no operand";
	if (!o->all && !operands->count)
		return "missing operand (PID|FILE), or --all";
	if (o->all && (o->since || o->raw))
		return "--all goes with neither --since nor --raw";
	if (o->raw && (o->since || o->format))
		return "--raw goes with neither --since, --json nor --csv";
	return NULL;
}

static int run(const void *opaque, const struct mt_operands *operands)
{
	const struct maps_options *o = opaque;
	mt_auto(mt_output) struct mt_output out;
	struct mt_err err = {0};
	const char *wrong = misuse(o, operands);
	int code;

	mt_output_init(&out, o->output);
	if (wrong) {
		mt_complain("maps: %s; see 'memtrack maps --help'", wrong);
		return MT_EXIT_USAGE;
	}
	if (o->raw)
		code = write_raw(operands->text[0], &out.text, &err);
	else if (o->all)
		code = show_all(o, &out.text, &err);
	else
		code = show_one(o, operands->text[0], &out.text, &err);
	return mt_output_end(&out, code, &err);
}

static const char *const examples[] = {
	"memtrack maps 4711",
	"what the process 4711 has in memory, widest first",
	"memtrack maps name:redis-server --by=kind",
	"categories: heap, stacks, code, shared memory, ...",
	"memtrack maps 4711 --raw -o before; sleep 600; memtrack maps 4711 --since=before",
	"what grew in ten minutes",
	"memtrack maps saved.smaps --by=mapping --sort=swap",
	"mappings of a text that was saved on another machine or an Android device",
	"memtrack maps --all --json",
	"all processes, for programs",
	NULL,
};

const struct mt_command mt_cmd_maps = {
	.name = "maps",
	.summary = "show what any process has mapped and how much memory it takes",
	.operands = "PID|name:PROGRAM|FILE",
	.operands_min = 0,
	.operands_max = 1,
	.options = options,
	.options_bytes = sizeof(struct maps_options),
	.defaults = &defaults,
	.description =
		"Shows the mappings of a process, tracked or not, from /proc/PID/smaps, with the "
		"kernel's figures: size of addresses; rss, what is in memory; pss, the same with "
		"shared pages divided by their users; uss, what no other process has; private "
		"dirty pages; anonymous and file pages; swap; huge pages. Rows add up to the "
		"total.\n\n"
		"An object is a file, or what unnamed memory is used for: [heap], the arenas and "
		"large blocks of glibc's malloc, what jemalloc, mimalloc and musl have taken, the "
		"heap of a Java VM, stacks of threads, zero variables of a library ([bss]), [anon] "
		"for the rest. Column # is the number of its mappings. Where the process may be "
		"read, its own structures tell these; in a saved text the shape of the list does. "
		"A mapping counts as a whole.\n\n"
		"FILE is a text of /proc/PID/smaps, maps or smaps_rollup, from any machine, or a "
		"core file: of that there are addresses, and how much of each the file holds "
		"(dumped); what was in memory it does not tell. What in a text cannot be "
		"understood is told. With --since rows show what changed; objects "
		"and categories are compared by name, mappings by name and address.\n\n"
		"The process is neither stopped nor changed; figures of a busy one are of slightly "
		"different moments. To look at processes of others takes root.",
	.examples = examples,
	.see_also = "memtrack(1), memtrack-meminfo(1), memtrack-report(1), proc(5)",
	.run = run,
};
