/* SPDX-License-Identifier: MIT */
/* memtrack meminfo: the memory of a process by category; of all processes, a group, the machine. */

#include "cli/any_process.h"
#include "cli/commands.h"
#include "cli/meminfo_watch.h"
#include "cli/output.h"
#include "cli/sentences.h"
#include "cli/subject.h"

#include "base/alloc.h"
#include "base/file.h"
#include "core/cc.h"
#include "report/meminfo.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

struct meminfo_options {
	int rules, format, sort;
	bool all, system;
	uint64_t watch_ns, readings, top;
	const char *cgroup, *since, *output;
};

enum { TOP_DEFAULT = 40, TOP_MAX = 1000000000, FILE_MAX_BYTES = 1 << 30 };
#define WATCH_LEAST_NS 10000000ull

static const struct meminfo_options defaults = {.top = UINT64_MAX, .sort = MT_ACCOUNT_PSS};

static const struct mt_option options[] = {
	{.name = "all",
	 .kind = MT_OPTION_FLAG,
	 .offset = offsetof(struct meminfo_options, all),
	 .help = "a table of all processes: Vss, Rss, Pss, Uss, swap"},
	{.name = "cgroup",
	 .argument = "PATH",
	 .kind = MT_OPTION_TEXT,
	 .offset = offsetof(struct meminfo_options, cgroup),
	 .help = "a control group and its processes; PATH is a folder, or a path as in "
		 "/proc/PID/cgroup"},
	{.name = "system",
	 .kind = MT_OPTION_FLAG,
	 .offset = offsetof(struct meminfo_options, system),
	 .help = "the whole machine: /proc/meminfo as parts that add up"},
	{.name = "since",
	 .argument = "FILE",
	 .kind = MT_OPTION_TEXT,
	 .offset = offsetof(struct meminfo_options, since),
	 .help = "show what changed since FILE was written, by 'memtrack maps PID --raw' or as a "
		 "copy of /proc/PID/smaps or smaps_rollup"},
	{.name = "watch",
	 .argument = "TIME",
	 .kind = MT_OPTION_TIME,
	 .offset = offsetof(struct meminfo_options, watch_ns),
	 .help = "read the sums of a process every TIME (10ms or more), a line each, until it ends "
		 "or Ctrl-C"},
	{.letter = 'n',
	 .name = "readings",
	 .argument = "N",
	 .kind = MT_OPTION_NUMBER,
	 .offset = offsetof(struct meminfo_options, readings),
	 .min = 1,
	 .max = TOP_MAX,
	 .help = "with --watch: end after N readings"},
	{.name = "sort",
	 .argument = "COLUMN",
	 .kind = MT_OPTION_CHOICE,
	 .offset = offsetof(struct meminfo_options, sort),
	 .choices = "rss|pss|uss|private_dirty|shared|anon|file|swap|huge|size",
	 .help = "order of processes, largest first: by rss, pss (default), uss, private_dirty, "
		 "shared, anon, file, swap, huge or size"},
	{.name = "top",
	 .argument = "N",
	 .kind = MT_OPTION_NUMBER,
	 .offset = offsetof(struct meminfo_options, top),
	 .max = TOP_MAX,
	 .help = "processes to show, the others are summed in one row; 0 shows all (default 40 in "
		 "text, all in machine formats)"},
	{.name = "rules",
	 .argument = "OF",
	 .kind = MT_OPTION_CHOICE,
	 .offset = offsetof(struct meminfo_options, rules),
	 .choices = "auto|linux|android",
	 .help = "whose categories: linux, android, or auto (the default): Android's if the text "
		 "is from there"},
	{.name = "json",
	 .kind = MT_OPTION_SET,
	 .offset = offsetof(struct meminfo_options, format),
	 .set_value = MT_MAPS_JSON,
	 .help = "write JSON (docs/meminfo.md); with --watch an object a line"},
	{.name = "csv",
	 .kind = MT_OPTION_SET,
	 .offset = offsetof(struct meminfo_options, format),
	 .set_value = MT_MAPS_CSV,
	 .help = "write CSV with a header line"},
	{.letter = 'o',
	 .name = "output",
	 .argument = "FILE",
	 .kind = MT_OPTION_TEXT,
	 .offset = offsetof(struct meminfo_options, output),
	 .help = "write to FILE instead of standard output"},
	{0},
};

/* ---- one process ---- */

/* Rows are in the order of categories, as Android's. */
static int compare_kinds(const void *a, const void *b)
{
	const struct mt_account_row *x = a, *y = b;

	return (int)x->label.kind - (int)y->label.kind;
}

/* What has figures of memory, of now or of before. */
static int check_kind(const struct mt_subject *u, struct mt_err *err)
{
	if (u->s.kind != MT_SMAPS_MAPS && !u->core)
		return 0;
	return mt_err_set(
		err, -EINVAL,
		"'%s' is a %s: it tells addresses, not how much memory is used; 'memtrack "
		"maps' shows it",
		u->name, u->core ? "core file" : "maps text");
}

/* Categories of the subject, compared with those of `old`, unless that is NULL. */
static int make_rows(const struct meminfo_options *o, struct mt_subject *u, struct mt_subject *old,
		     struct mt_meminfo_view *v, struct mt_err *err)
{
	const struct mt_subject_rows how = {.by = MT_ACCOUNT_KIND,
					    .rules = (enum mt_vma_rules)o->rules};
	int code = mt_subject_make_rows(u, old, &how, err);

	if (code)
		return code;
	qsort(u->account.row, u->account.count, sizeof(*u->account.row), compare_kinds);
	v->a = &u->account;
	v->app = &u->app;
	v->old_app = old ? &old->app : NULL;
	return 0;
}

/* Fills the rest of the view from mappings, or from sums, and writes it. */
static int show_subject(const struct meminfo_options *o, struct mt_subject *u,
			struct mt_meminfo_view *v, struct mt_buf *out, struct mt_err *err)
{
	mt_auto(mt_subject) struct mt_subject old = {0};
	mt_auto(mt_sentences) struct mt_sentences w = {0};
	struct mt_smaps_sum total, old_total;
	bool has_rows = u->s.kind == MT_SMAPS_FULL;
	int code = check_kind(u, err);

	if (!code && o->since) {
		code = mt_subject_open_file(&old, o->since, err);
		if (!code)
			code = check_kind(&old, err);
		has_rows &= old.s.kind == MT_SMAPS_FULL;
	}
	if (!code && has_rows)
		code = make_rows(o, u, o->since ? &old : NULL, v, err);
	if (code)
		return code;
	mt_sentences_add_subject(&w, u);
	mt_smaps_total(&u->s, &total);
	v->total = &total;
	if (o->since) {
		if (!has_rows)
			mt_sentences_add(&w, "sums alone are compared: one side has no mappings");
		w.prefix = o->since;
		mt_sentences_add_subject(&w, &old);
		mt_smaps_total(&old.s, &old_total);
		v->old_name = o->since;
		v->old_total = &old_total;
	}
	v->warning = (const char *const *)w.text;
	v->warnings = w.count;
	return mt_meminfo_process(v, (enum mt_maps_format)o->format, out) ? mt_err_no_memory(err)
									  : 0;
}

/* What everybody may know of a process that may not be looked at. */
static int show_status(const struct meminfo_options *o, struct mt_meminfo_view *v,
		       struct mt_buf *out, struct mt_err *err)
{
	static const char *const why[] = {
		"the mappings of this process may not be looked at (that takes its user, or "
		"root): these are the sums that everybody may read"};
	struct mt_smaps_sum total;

	mt_usage_of_status(v->status, &total);
	v->total = &total;
	v->warning = why;
	v->warnings = MT_ARRAY_LEN(why);
	mt_err_clear(err);
	return mt_meminfo_process(v, (enum mt_maps_format)o->format, out) ? mt_err_no_memory(err)
									  : 0;
}

static int show_process(const struct meminfo_options *o, pid_t pid, struct mt_buf *out,
			struct mt_err *err)
{
	mt_auto(mt_subject) struct mt_subject u = {.pid = pid};
	mt_auto(mt_gpu) struct mt_gpu gpu = {.count = 0};
	struct mt_meminfo_view v = {.pid = pid, .name = u.name};
	struct mt_status status;
	int code = mt_subject_open_process(&u, pid, err);

	if (code && code != -EACCES)
		return code;
	if (!mt_status_read(pid, &status))
		v.status = &status;
	if (code && o->since)
		return code;
	if (code)
		return v.status ? show_status(o, &v, out, err) : code;
	code = mt_gpu_read(pid, &gpu);
	if (code == -ENOMEM)
		return mt_err_no_memory(err);
	if (!code)
		v.gpu = &gpu;
	code = mt_subject_find_heap(&u, err);
	return code ? code : show_subject(o, &u, &v, out, err);
}

/* ---- a file ---- */

static int show_machine_text(const struct meminfo_options *o, const char *path, const char *text,
			     struct mt_buf *out, struct mt_err *err)
{
	struct mt_whole w;
	int code = mt_machine_parse(text, path, &w, err);

	if (!code && o->since)
		return mt_err_set(err, -EINVAL,
				  "--since compares processes: '%s' is a text of /proc/meminfo",
				  path);
	if (!code && mt_meminfo_machine(&w, path, (enum mt_maps_format)o->format, out))
		code = mt_err_no_memory(err);
	return code;
}

static int show_file(const struct meminfo_options *o, const char *path, struct mt_buf *out,
		     struct mt_err *err)
{
	mt_auto(mt_subject) struct mt_subject u = {0};
	struct mt_meminfo_view v = {.name = path};
	char *text;
	size_t len;
	int code;

	snprintf(u.name, sizeof(u.name), "%s", path);
	if (mt_subject_is_core(path)) {
		code = mt_subject_open_file(&u, path, err);
		if (!code)
			code = mt_subject_find_heap(&u, err);
		return code ? code : show_subject(o, &u, &v, out, err);
	}
	code = mt_file_read(path, FILE_MAX_BYTES, &text, &len, err);
	if (code)
		return code;
	if (strstr(text, "MemTotal:") && !mt_smaps_is_text(text, len)) {
		code = show_machine_text(o, path, text, out, err);
		free(text);
		return code;
	}
	code = mt_smaps_parse(text, len, path, &u.s, err);
	return code ? code : show_subject(o, &u, &v, out, err);
}

/* ---- many processes ---- */

struct usages {
	struct mt_usage *item; /* owned */
	size_t count, capacity;
};

static void usages_done(struct usages *u)
{
	free(u->item);
}
MT_AUTO_DEFINE_INPLACE(usages, struct usages, usages_done)

static int compare_usages(const void *a, const void *b, void *context)
{
	const struct mt_usage *x = a, *y = b;
	const enum mt_account_column *by = context;
	uint64_t vx = mt_account_value(&x->sum, *by), vy = mt_account_value(&y->sum, *by);

	if (vx != vy)
		return vx > vy ? -1 : 1;
	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

/* Figures of the processes in a list that ends with 0; those that are gone are left out. */
static int gather(const struct meminfo_options *o, const pid_t *list, struct usages *u,
		  struct mt_err *err)
{
	enum mt_account_column by = (enum mt_account_column)o->sort;

	for (; list && *list; list++) {
		struct mt_usage *grown =
			mt_alloc_grow(u->item, &u->capacity, u->count + 1, sizeof(*grown));
		int code;

		if (!grown)
			return mt_err_no_memory(err);
		u->item = grown;
		code = mt_usage_read(*list, &u->item[u->count]);
		if (code == -ENOMEM)
			return mt_err_no_memory(err);
		u->count += !code;
	}
	if (u->count)
		qsort_r(u->item, u->count, sizeof(*u->item), compare_usages, &by);
	return 0;
}

static size_t top_of(const struct meminfo_options *o)
{
	if (o->top != UINT64_MAX)
		return (size_t)o->top;
	return o->format == MT_MAPS_TEXT ? TOP_DEFAULT : 0;
}

static int show_all(const struct meminfo_options *o, struct mt_buf *out, struct mt_err *err)
{
	mt_auto(free) pid_t *list = mt_any_process_list();
	mt_auto(usages) struct usages u = {0};
	struct mt_whole w;
	int code = list ? gather(o, list, &u, err) : mt_err_no_memory(err);
	bool has_machine;

	if (code)
		return code;
	has_machine = !mt_machine_read(&w, NULL);
	return mt_meminfo_list(u.item, u.count, has_machine ? &w : NULL, top_of(o),
			       (enum mt_maps_format)o->format, out)
		       ? mt_err_no_memory(err)
		       : 0;
}

static int show_cgroup(const struct meminfo_options *o, struct mt_buf *out, struct mt_err *err)
{
	mt_auto(mt_cgroup) struct mt_cgroup g = {.version = 0};
	mt_auto(usages) struct usages u = {0};
	int code = mt_cgroup_read(o->cgroup, &g, err);

	if (!code)
		code = gather(o, g.pid, &u, err);
	if (!code &&
	    mt_meminfo_cgroup(&g, u.item, u.count, top_of(o), (enum mt_maps_format)o->format, out))
		code = mt_err_no_memory(err);
	return code;
}

static int show_system(const struct meminfo_options *o, struct mt_buf *out, struct mt_err *err)
{
	struct mt_whole w;
	int code = mt_machine_read(&w, err);

	if (!code && mt_meminfo_machine(&w, "/proc/meminfo", (enum mt_maps_format)o->format, out))
		code = mt_err_no_memory(err);
	return code;
}

/* ---- the command ---- */

static int show_operand(const struct meminfo_options *o, const char *operand, struct mt_buf *out,
			struct mt_err *err)
{
	struct mt_meminfo_watch w = {
		.every_ns = o->watch_ns,
		.readings = o->readings,
		.format = (enum mt_maps_format)o->format,
	};
	int code = mt_any_process(operand, &w.pid, err);

	if (code < 0)
		return code;
	if (!o->watch_ns)
		return code ? show_process(o, w.pid, out, err) : show_file(o, operand, out, err);
	if (!code)
		return mt_err_set(err, -EINVAL, "--watch is for processes: '%s' is a file",
				  operand);
	return mt_meminfo_watch(&w, err);
}

static const char *misuse(const struct meminfo_options *o, const struct mt_operands *operands)
{
	int subjects = o->all + o->system + (o->cgroup != NULL) + operands->count;

	if (!subjects)
		return "missing operand (PID|FILE), or --all, --cgroup or --system";
	if (subjects > 1)
		return "an operand, --all, --cgroup and --system exclude each other";
	if (o->since && (!operands->count || o->watch_ns))
		return "--since is for one process or FILE, and goes not with --watch";
	if (o->watch_ns && !operands->count)
		return "--watch is for one process";
	if (o->watch_ns && o->watch_ns < WATCH_LEAST_NS)
		return "--watch needs 10ms or more";
	if (o->watch_ns && o->output)
		return "--watch writes to standard output";
	if (o->readings && !o->watch_ns)
		return "--readings is for --watch";
	return NULL;
}

static int run(const void *opaque, const struct mt_operands *operands)
{
	const struct meminfo_options *o = opaque;
	mt_auto(mt_output) struct mt_output out;
	struct mt_err err = {0};
	const char *wrong = misuse(o, operands);
	int code;

	mt_output_init(&out, o->output);
	if (wrong) {
		mt_complain("meminfo: %s; see 'memtrack meminfo --help'", wrong);
		return MT_EXIT_USAGE;
	}
	if (o->all)
		code = show_all(o, &out.text, &err);
	else if (o->cgroup)
		code = show_cgroup(o, &out.text, &err);
	else if (o->system)
		code = show_system(o, &out.text, &err);
	else
		code = show_operand(o, operands->text[0], &out.text, &err);
	if (!code && o->watch_ns) /* has written all itself */
		return MT_EXIT_OK;
	return mt_output_end(&out, code, &err);
}

static const char *const examples[] = {
	"memtrack meminfo 4711",
	"categories, a summary, threads, page tables and GPU buffers of a process",
	"memtrack maps 4711 --raw -o before; sleep 600; memtrack meminfo 4711 --since=before",
	"which categories grew in ten minutes",
	"memtrack meminfo 4711 --watch=1s",
	"its sums every second, with a line drawn of Pss",
	"memtrack meminfo --all",
	"all processes, those with the largest Pss first",
	"memtrack meminfo --cgroup=/system.slice/nginx.service",
	"what a service takes, and which of its processes",
	"memtrack meminfo --system",
	"where the memory of the machine is",
	"adb shell cat /proc/4711/smaps > smaps; memtrack meminfo smaps",
	"a process of an Android device, in Android's categories",
	NULL,
};

const struct mt_command mt_cmd_meminfo = {
	.name = "meminfo",
	.summary = "show what the memory of any process, group or machine is for",
	.operands = "PID|name:PROGRAM|FILE",
	.operands_min = 0,
	.operands_max = 1,
	.options = options,
	.options_bytes = sizeof(struct meminfo_options),
	.defaults = &defaults,
	.description =
		"Shows the memory of a process, tracked or not, by category, as Android's dumpsys "
		"meminfo does, adapted to Linux: each mapping is in one category, so that rows add "
		"up. The TOTAL of Pss has SwapPss in it, as Android's has. The App Summary then "
		"shows private memory by use; Private Other is all private memory but that, System "
		"the rest of the total Pss: the process's share of what others use too.\n\n"
		"Then threads, page tables, swap, and where drivers tell them, buffers of GPUs "
		"(drm memory of open devices, dma-bufs), which are in no mapping's figures.\n\n"
		"FILE is a text of /proc/PID/smaps or smaps_rollup, or of /proc/meminfo, from any "
		"machine; it is known by its content. --since shows each figure with its change "
		"(+/-); of smaps_rollup there are sums alone.\n\n"
		"--all lists all processes as procrank does; kernel threads have no memory of "
		"their own and are left out. --cgroup knows versions 1 and 2. --system and "
		"--cgroup show parts that add up, and what the kernel names nowhere as (rest).\n\n"
		"--watch reads smaps_rollup, for which the kernel walks the page tables: about 10 "
		"ms for each GiB in memory, as often as half a per cent of a processor allows; of "
		"a large process the readings between have no Pss and Uss. To look at processes of "
		"others takes root.",
	.examples = examples,
	.see_also = "memtrack(1), memtrack-maps(1), memtrack-top(1), proc(5)",
	.run = run,
};
