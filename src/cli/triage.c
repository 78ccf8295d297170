/* SPDX-License-Identifier: MIT */
/*
 * Readings at equal distances: what is mapped, by use, and what is behind descriptors. In the
 * middle and at the end the allocator is asked, if these hint at it.
 */

#include "cli/triage.h"

#include "base/alloc.h"
#include "base/escape.h"
#include "base/file.h"
#include "cli/any_process.h"
#include "cli/heap_ranges.h"
#include "cli/triage_parts.h"
#include "core/cc.h"
#include "core/sys.h"
#include "target/account.h"
#include "target/descriptors.h"
#include "target/gpu.h"
#include "target/memory.h"
#include "target/process.h"
#include "target/status.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <time.h>

enum { COSTLY = 40, COMMAND_MAX = 1 << 20, LEVELS = 2 };
#define SECOND_NS 1000000000ull

static const enum mt_account_by levels[LEVELS] = {MT_ACCOUNT_OBJECT, MT_ACCOUNT_MAPPING};

struct gathering {
	const struct mt_triage_watch *w;
	struct mt_triage_facts *f;
	struct mt_process process; /* its identity */
	uint64_t begin_ns;
	struct mt_account first[LEVELS], last[LEVELS]; /* of these readings */
	struct mt_java java;                           /* as the first reading found it */
	size_t readings;                               /* wanted */
};

static void gathering_done(struct gathering *g)
{
	for (int i = 0; i < LEVELS; i++) {
		mt_account_done(&g->first[i]);
		mt_account_done(&g->last[i]);
	}
}
MT_AUTO_DEFINE_INPLACE(gathering, struct gathering, gathering_done)

static uint64_t now_ns(void)
{
	return mt_sys_clock_ns(MT_CLOCK_MONOTONIC);
}

static void wait_until(uint64_t ns)
{
	struct timespec t = {(time_t)(ns / SECOND_NS), (long)(ns % SECOND_NS)};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

/* ---- one reading ---- */

static enum mt_triage_part part_of(enum mt_vma_kind kind)
{
	switch (kind) {
	case MT_VMA_NATIVE_HEAP:
		return MT_TRIAGE_HEAP;
	case MT_VMA_DALVIK_HEAP:
	case MT_VMA_DALVIK_OTHER:
		return MT_TRIAGE_JAVA;
	case MT_VMA_STACK:
		return MT_TRIAGE_STACKS;
	case MT_VMA_CURSOR:
	case MT_VMA_SHARED:
		return MT_TRIAGE_SHARED;
	case MT_VMA_GFX:
	case MT_VMA_OTHER_DEV:
		return MT_TRIAGE_DEVICES;
	case MT_VMA_JIT:
		return MT_TRIAGE_CODE;
	case MT_VMA_OVERHEAD:
		return MT_TRIAGE_TRACKER;
	case MT_VMA_UNKNOWN:
		return MT_TRIAGE_ANON;
	default:
		return MT_TRIAGE_FILES;
	}
}

/*
 * What is in memory or in swap: growth is not hidden by either. ZGC maps its heap several times,
 * and only Pss has each page once.
 */
static uint64_t bytes_of(const struct mt_smaps_sum *s, enum mt_vma_kind kind)
{
	return s->bytes[kind == MT_VMA_DALVIK_HEAP ? MT_SMAPS_PSS : MT_SMAPS_RSS] +
	       s->bytes[MT_SMAPS_SWAP];
}

static void add_mapping(struct mt_triage_facts *f, size_t at, const struct mt_smaps_mapping *m,
			enum mt_vma_kind kind)
{
	struct mt_triage_amount *a = &f->part[part_of(kind)];

	a->bytes[at] += bytes_of(&m->sum, kind);
	a->mappings_now++;
}

static int take_mappings(struct gathering *g, size_t at, const struct mt_smaps *s,
			 const struct mt_vma_label *labels, enum mt_vma_rules rules)
{
	struct mt_triage_facts *f = g->f;

	for (int i = 0; i < MT_TRIAGE_PARTS; i++)
		f->part[i].mappings_now = 0;
	for (size_t i = 0; i < s->count; i++)
		add_mapping(f, at, &s->mapping[i], labels[i].kind);
	for (int i = 0; !at && i < MT_TRIAGE_PARTS; i++)
		f->part[i].mappings_before = f->part[i].mappings_now;
	for (int i = 0; i < LEVELS; i++) {
		struct mt_account *a = at ? &g->last[i] : &g->first[i];

		mt_account_done(a);
		if (mt_account_make(s, labels, rules, levels[i], a))
			return -ENOMEM;
	}
	return 0;
}

/* Where Java objects are is found once, and holds to the end. */
static int find_java(struct gathering *g, struct mt_vma_process *process, const struct mt_smaps *s)
{
	struct mt_triage_facts *f = g->f;

	if (mt_vma_process_find_java(process, s))
		return -ENOMEM;
	g->java = process->java;
	f->has_java = g->java.is_there;
	if (g->java.why.code)
		snprintf(f->why_no_java, sizeof(f->why_no_java), "%s", g->java.why.text);
	return 0;
}

static int read_mappings(struct gathering *g, size_t at, struct mt_err *err)
{
	mt_auto(mt_vma_process) struct mt_vma_process process = {.pid = g->w->pid};
	mt_auto(mt_smaps) struct mt_smaps s = {0};
	mt_auto(mt_heap_ranges) struct mt_heap_ranges heap = {0};
	mt_auto(free) struct mt_vma_label *labels = NULL;
	enum mt_vma_rules rules;
	int code;

	mt_vma_process_init(&process, g->w->pid);
	code = mt_smaps_read(g->w->pid, MT_SMAPS_FULL, &s, err);
	if (code)
		return code;
	rules = mt_vma_rules_of(&s, MT_VMA_AUTO);
	process.facts.rules = rules;
	if (!at && find_java(g, &process, &s))
		return mt_err_no_memory(err);
	process.facts.java_start = g->java.start;
	process.facts.java_end = g->java.end;
	if (mt_heap_ranges_of_process(g->w->pid, &s, &heap))
		return mt_err_no_memory(err);
	mt_heap_ranges_give(&heap, &process.facts);
	if (mt_vma_classify(&s, &process.facts, &labels))
		return mt_err_no_memory(err);
	return take_mappings(g, at, &s, labels, rules) ? mt_err_no_memory(err) : 0;
}

static uint64_t known(uint64_t bytes)
{
	return bytes == MT_MEMORY_UNKNOWN ? 0 : bytes;
}

/* Of a process that may not be looked at: what everybody may read. */
static void take_sums(struct mt_triage_facts *f, size_t at, const struct mt_status *st)
{
	f->part[MT_TRIAGE_ANON].bytes[at] =
		known(st->bytes[MT_STATUS_RSS_ANON]) + known(st->bytes[MT_STATUS_SWAP]);
	f->part[MT_TRIAGE_FILES].bytes[at] = known(st->bytes[MT_STATUS_RSS_FILE]);
	f->part[MT_TRIAGE_SHARED].bytes[at] = known(st->bytes[MT_STATUS_RSS_SHMEM]);
}

static int read_status(struct gathering *g, size_t at)
{
	struct mt_triage_facts *f = g->f;
	struct mt_status st;
	int code = mt_status_read(g->w->pid, &st);

	if (code)
		return code;
	f->part[MT_TRIAGE_PAGE_TABLES].bytes[at] = known(st.bytes[MT_STATUS_PAGE_TABLES]);
	f->address_bytes = st.bytes[MT_STATUS_VM_SIZE];
	f->threads_now = st.threads;
	if (!at)
		f->threads_before = st.threads;
	if (f->is_refused)
		take_sums(f, at, &st);
	return 0;
}

static int refuse_descriptors(struct mt_triage_facts *f, int code)
{
	if (code == -ENOMEM)
		return code;
	f->descriptors = MT_TRIAGE_REFUSED;
	snprintf(f->why_no_descriptors, sizeof(f->why_no_descriptors),
		 "the descriptors of this process may not be looked at");
	return 0;
}

static int read_descriptors(struct gathering *g, size_t at)
{
	mt_auto(mt_gpu) struct mt_gpu gpu = {.count = 0};
	struct mt_triage_facts *f = g->f;
	struct mt_descriptors d;
	uint64_t *bytes = &f->part[MT_TRIAGE_GPU].bytes[at];
	int code = mt_descriptors_read(g->w->pid, &d);

	if (!code)
		code = mt_gpu_read(g->w->pid, &gpu);
	if (code)
		return refuse_descriptors(f, code);
	f->descriptors = MT_TRIAGE_DONE;
	f->descriptors_now = d.count;
	f->buffers_now = d.buffers;
	snprintf(f->buffer, sizeof(f->buffer), "%s", d.widest);
	f->part[MT_TRIAGE_BUFFERS].bytes[at] = d.buffer_bytes;
	*bytes = gpu.dmabuf_bytes;
	for (size_t i = 0; i < gpu.count; i++)
		*bytes += gpu.row[i].bytes;
	if (!at) {
		f->descriptors_before = d.count;
		f->buffers_before = d.buffers;
	}
	return 0;
}

/* Whether the process is still the one that the first reading was of. */
static bool is_there(const struct gathering *g)
{
	struct mt_process now;

	return !mt_process_read(g->w->pid, &now) && now.start_ticks == g->process.start_ticks &&
	       now.state != 'Z' && now.state != 'X';
}

/* 0; -ESRCH: the process is not there any more. */
static int read_moment(struct gathering *g, size_t at, struct mt_err *err)
{
	struct mt_triage_facts *f = g->f;
	int code = f->is_refused ? 0 : read_mappings(g, at, err);

	if (code == -EACCES && !at) {
		f->is_refused = true;
		snprintf(f->why_refused, sizeof(f->why_refused), "%s", err->text);
		mt_err_clear(err);
		code = 0;
	}
	if (!code)
		code = read_status(g, at);
	if (!code && read_descriptors(g, at))
		code = mt_err_no_memory(err);
	if (code && code != -ENOMEM && !is_there(g))
		code = -ESRCH;
	if (code)
		return code;
	f->at_ns[at] = now_ns() - g->begin_ns;
	f->readings = at + 1;
	return 0;
}

/* ---- over time ---- */

static int watch(struct gathering *g, const char *state, struct mt_err *err)
{
	struct mt_triage_facts *f = g->f;
	uint64_t begin_ns = g->begin_ns, step_ns = g->w->for_ns / (g->readings - 1);

	for (size_t i = 1; i < g->readings; i++) {
		int code;

		wait_until(begin_ns + step_ns * i);
		code = is_there(g) ? read_moment(g, i, err) : -ESRCH;
		if (code == -ESRCH) {
			f->has_ended = true;
			mt_err_clear(err);
			break;
		}
		if (code)
			return code;
		if (i == (g->readings - 1) / 2 && mt_triage_wants_heap(f) &&
		    mt_triage_look_before(g->w, state, f))
			return mt_err_no_memory(err);
		/* a look that took long moves the readings after the next one */
		begin_ns = MT_MAX(begin_ns, now_ns() - MT_MIN(step_ns * (i + 1), now_ns()));
	}
	f->watched_ns = f->has_ended ? now_ns() - g->begin_ns : f->at_ns[f->readings - 1];
	return 0;
}

/* ---- objects ---- */

static int64_t growth_of(const struct mt_account_row *row)
{
	return (int64_t)(bytes_of(&row->now, row->label.kind) -
			 bytes_of(&row->old, row->label.kind));
}

static int compare_growth(const void *a, const void *b)
{
	const struct mt_account_row *x = a, *y = b;
	int64_t gx = growth_of(x), gy = growth_of(y);

	if (gx != gy)
		return gx > gy ? -1 : 1;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return strcmp(x->name, y->name);
}

static void add_object(struct mt_triage_facts *f, const struct mt_account_row *row)
{
	struct mt_triage_object *o = &f->object[f->objects];

	if (growth_of(row) <= 0 || f->objects == MT_TRIAGE_OBJECTS_MAX)
		return;
	*o = (struct mt_triage_object){
		.part = part_of(row->label.kind),
		.growth_bytes = growth_of(row),
		.growth_mappings = (int64_t)(row->now.mappings - row->old.mappings),
		.bytes = bytes_of(&row->now, row->label.kind),
	};
	snprintf(o->name, sizeof(o->name), "%s", row->name);
	f->objects++;
}

/* The mapping that grew most, or came. */
static void take_widest(struct mt_triage_facts *f, const struct mt_account *a)
{
	const struct mt_account_row *row = a->row;

	if (!a->count || growth_of(row) <= 0)
		return;
	f->widest = (struct mt_triage_mapping){
		.start = row->start,
		.end = row->end,
		.growth_bytes = growth_of(row),
		.is_new = !row->was_there,
	};
}

static int compare_readings(struct gathering *g)
{
	if (g->f->readings < 2 || g->f->is_refused)
		return 0;
	for (int i = 0; i < LEVELS; i++) {
		struct mt_account *a = &g->last[i];

		if (mt_account_compare(a, &g->first[i]))
			return -ENOMEM;
		if (a->count)
			qsort(a->row, a->count, sizeof(*a->row), compare_growth);
	}
	for (size_t i = 0; i < g->last[0].count; i++)
		add_object(g->f, &g->last[0].row[i]);
	take_widest(g->f, &g->last[1]);
	return 0;
}

/* ---- the command ---- */

static bool is_plain(const char *word)
{
	for (const char *c = word; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("/._-+=:,@%", *c))
			return false;
	return *word;
}

static void add_word(struct mt_buf *out, const char *word)
{
	if (out->len)
		mt_buf_addc(out, ' ');
	if (is_plain(word)) {
		mt_buf_adds(out, word);
		return;
	}
	mt_buf_addc(out, '\'');
	for (const char *c = word; *c; c++)
		if (*c == '\'')
			mt_buf_adds(out, "'\\''");
		else
			mt_buf_addc(out, *c);
	mt_buf_addc(out, '\'');
}

/* How the process was started, as words of a shell; nothing if that is too long or not plain. */
static void find_command(struct mt_triage_facts *f)
{
	mt_auto(free) char *text = NULL;
	mt_auto(mt_buf) struct mt_buf words = {0}, escaped = {0};
	char path[64];
	size_t len;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)f->pid);
	if (mt_file_read(path, COMMAND_MAX, &text, &len, NULL) || !len)
		return;
	for (size_t at = 0; at < len; at += strlen(text + at) + 1)
		add_word(&words, text + at);
	if (mt_escape(&escaped, mt_buf_text(&words)) || escaped.len >= sizeof(f->command) ||
	    strcmp(mt_buf_text(&escaped), mt_buf_text(&words)) != 0)
		return;
	snprintf(f->command, sizeof(f->command), "%s", mt_buf_text(&words));
}

/* ---- all ---- */

static int gather(struct gathering *g, struct mt_err *err)
{
	const struct mt_triage_watch *w = g->w;
	struct mt_triage_facts *f = g->f;
	mt_auto(mt_triage_tracked) struct mt_triage_tracked *tracked = NULL;
	uint64_t cpu_ns = mt_sys_clock_ns(MT_CLOCK_THREAD_CPU);
	int code = read_moment(g, 0, err);

	/* the kernel walks page tables: of a large process less often */
	cpu_ns = mt_sys_clock_ns(MT_CLOCK_THREAD_CPU) - cpu_ns;
	if (cpu_ns * COSTLY > w->for_ns)
		g->readings = 3;
	if (code == -ESRCH && !err->code)
		code = mt_err_set(err, code, "there is no process %d", (int)w->pid);
	if (!code && mt_triage_tracked_open(w, f, &tracked))
		code = mt_err_no_memory(err);
	if (code)
		return code;
	mt_triage_read_limits(f, /* is_first */ true);
	code = watch(g, mt_triage_tracked_path(tracked), err);
	if (code || f->has_ended)
		return code;
	mt_triage_read_limits(f, /* is_first */ false);
	if (compare_readings(g) || mt_triage_tracked_end(tracked, w, f) ||
	    (mt_triage_wants_heap(f) &&
	     mt_triage_look_inside(w, mt_triage_tracked_path(tracked), f)))
		return mt_err_no_memory(err);
	return 0;
}

int mt_triage_gather(const struct mt_triage_watch *w, struct mt_triage_facts *ret,
		     struct mt_err *err)
{
	mt_auto(gathering) struct gathering g = {
		.w = w, .f = ret, .readings = MT_TRIAGE_READINGS_MAX, .begin_ns = now_ns()};

	*ret = (struct mt_triage_facts){.pid = w->pid};
	if (mt_process_read(w->pid, &g.process))
		return mt_err_set(err, -ESRCH, "there is no process %d", (int)w->pid);
	mt_any_process_name(w->pid, ret->name, sizeof(ret->name));
	find_command(ret);
	return gather(&g, err);
}
