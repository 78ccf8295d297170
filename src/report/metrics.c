/* SPDX-License-Identifier: MIT */
/*
 * Text for Prometheus. A family's samples stand together, as OpenMetrics demands: each family goes
 * over all processes once. Names of programs and functions may hold anything.
 */

#include "report/metrics.h"

#include "analysis/names.h"
#include "base/escape.h"
#include "core/cc.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum kind { GAUGE, COUNTER };

struct family {
	const char *name; /* without _total */
	enum kind kind;
	const char *unit; /* NULL: none; else the end of the name */
	const char *help;
};

struct writer {
	struct mt_buf *out;
	enum mt_metrics_format format;
	const struct family *family;
};

const char *mt_metrics_content_type(enum mt_metrics_format format)
{
	return format == MT_METRICS_OPENMETRICS
		       ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
		       : "text/plain; version=0.0.4; charset=utf-8";
}

void mt_metrics_escape(struct mt_buf *out, const char *text)
{
	mt_auto(mt_buf) struct mt_buf clean = {0};

	mt_escape(&clean, text);
	out->failed |= clean.failed;
	for (const char *c = mt_buf_text(&clean); *c; c++) {
		if (*c == '\\' || *c == '"')
			mt_buf_addc(out, '\\');
		mt_buf_addc(out, *c);
	}
}

/* In the older format the family of a counter has the name of its samples. */
static const char *family_suffix(const struct writer *w)
{
	return w->family->kind == COUNTER && w->format == MT_METRICS_PROMETHEUS ? "_total" : "";
}

static void begin(struct writer *w, const struct family *f)
{
	w->family = f;
	mt_buf_printf(w->out, "# TYPE %s%s %s\n", f->name, family_suffix(w),
		      f->kind == COUNTER ? "counter" : "gauge");
	if (f->unit && w->format == MT_METRICS_OPENMETRICS)
		mt_buf_printf(w->out, "# UNIT %s %s\n", f->name, f->unit);
	mt_buf_printf(w->out, "# HELP %s%s %s\n", f->name, family_suffix(w), f->help);
}

static void sample_name(const struct writer *w)
{
	mt_buf_printf(w->out, "%s%s", w->family->name, w->family->kind == COUNTER ? "_total" : "");
}

static void label(const struct writer *w, const char *name, const char *value)
{
	mt_buf_printf(w->out, ",%s=\"", name);
	mt_metrics_escape(w->out, value);
	mt_buf_addc(w->out, '"');
}

/* Name and the labels of every process, without the closing brace. */
static void open_sample(const struct writer *w, const struct mt_metrics_process *p)
{
	sample_name(w);
	mt_buf_printf(w->out, "{pid=\"%" PRId32 "\"", p->watch->pid);
	label(w, "program", p->program);
}

static void close_sample(const struct writer *w, uint64_t value)
{
	mt_buf_printf(w->out, "} %" PRIu64 "\n", value);
}

static uint64_t positive(int64_t v)
{
	return v > 0 ? (uint64_t)v : 0;
}

/* ---- processes ---- */

static uint64_t live_bytes(const struct mt_watch *w)
{
	return positive(w->live_bytes);
}

static uint64_t live_blocks(const struct mt_watch *w)
{
	return positive(w->live_blocks);
}

static uint64_t is_recording(const struct mt_watch *w)
{
	return w->is_recording && w->mode;
}

#define FIELD(name, field) \
	static uint64_t name(const struct mt_watch *w) \
	{ \
		return w->field; \
	}
FIELD(peak_bytes, peak_bytes)
FIELD(allocs, counts.allocs)
FIELD(frees, counts.frees)
FIELD(bytes, counts.bytes)
FIELD(freed_bytes, counts.freed_bytes)
FIELD(reallocs, reallocs)
FIELD(realloc_grown, realloc_grown)
FIELD(failed_allocs, failed_allocs)
FIELD(interval_bytes, interval_bytes)
FIELD(every, every)
FIELD(tracker_bytes, tracker_bytes)
FIELD(tracker_max_bytes, tracker_max_bytes)
FIELD(threads_seen, threads_seen)
#undef FIELD

static const struct process_family {
	struct family family;
	uint64_t (*value)(const struct mt_watch *w);
} process_families[] = {
	{{"memtrack_live_bytes", GAUGE, "bytes", "Bytes of the malloc heap that are live."},
	 live_bytes},
	{{"memtrack_live_blocks", GAUGE, NULL, "Blocks of the malloc heap that are live."},
	 live_blocks},
	{{"memtrack_peak_bytes", GAUGE, "bytes", "Highest live bytes so far."}, peak_bytes},
	{{"memtrack_allocations", COUNTER, NULL, "Allocations of the malloc heap."}, allocs},
	{{"memtrack_frees", COUNTER, NULL, "Blocks of the malloc heap that were freed."}, frees},
	{{"memtrack_allocated_bytes", COUNTER, "bytes", "Bytes of these allocations."}, bytes},
	{{"memtrack_freed_bytes", COUNTER, "bytes", "Bytes of these frees."}, freed_bytes},
	{{"memtrack_reallocations", COUNTER, NULL, "Successful calls of realloc for a block."},
	 reallocs},
	{{"memtrack_grown_reallocations", COUNTER, NULL,
	  "Those that asked for more than the block had."},
	 realloc_grown},
	{{"memtrack_failed_allocations", COUNTER, NULL, "Allocations that the allocator refused."},
	 failed_allocs},
	{{"memtrack_threads", COUNTER, NULL, "Threads that were tracked."}, threads_seen},
	{{"memtrack_recording", GAUGE, NULL, "1 while recording is switched on."}, is_recording},
	{{"memtrack_sampling_interval_bytes", GAUGE, "bytes",
	  "Mean distance of sampled bytes; 0: not sampling by bytes."},
	 interval_bytes},
	{{"memtrack_sampling_every", GAUGE, NULL,
	  "Every Nth allocation is recorded; 0: not sampling by count."},
	 every},
	{{"memtrack_tracker_bytes", GAUGE, "bytes", "Memory of the tracker's own tables."},
	 tracker_bytes},
	{{"memtrack_tracker_limit_bytes", GAUGE, "bytes", "Bound on that memory; 0: none was set."},
	 tracker_max_bytes},
};

static void write_processes(struct writer *w, const struct mt_metrics *m)
{
	for (size_t f = 0; f < MT_ARRAY_LEN(process_families); f++) {
		begin(w, &process_families[f].family);
		for (size_t i = 0; i < m->count; i++) {
			open_sample(w, &m->process[i]);
			close_sample(w, process_families[f].value(m->process[i].watch));
		}
	}
}

static void write_start(struct writer *w, const struct mt_metrics *m)
{
	static const struct family f = {"memtrack_process_start_time_seconds", GAUGE, "seconds",
					"When tracking began, since the epoch."};

	begin(w, &f);
	for (size_t i = 0; i < m->count; i++) {
		uint64_t ms = m->process[i].watch->wall_start_ns / 1000000;

		open_sample(w, &m->process[i]);
		mt_buf_printf(w->out, "} %" PRIu64 ".%03u\n", ms / 1000, (unsigned)(ms % 1000));
	}
}

static void write_mode(struct writer *w, const struct mt_metrics *m)
{
	static const struct family f = {"memtrack_mode", GAUGE, NULL,
					"What is recorded now: the label says it, the value is 1."};

	begin(w, &f);
	for (size_t i = 0; i < m->count; i++) {
		open_sample(w, &m->process[i]);
		label(w, "mode", mt_words_mode(m->process[i].watch->mode));
		close_sample(w, 1);
	}
}

static void write_lost(struct writer *w, const struct mt_metrics *m)
{
	static const struct family f = {"memtrack_lost_events", COUNTER, NULL,
					"Events that were not recorded, by reason."};
	static const char *const reason[MT_WATCH_LOST] = {
		"nested", "live_full",  "site_full",   "thread_full",  "storage",   "mapping_full",
		"child",  "lock",       "module_full", "before_start", "hist_full", "unseen_free",
		"jump",   "label_full", "string_full", "heap_full",
	};

	begin(w, &f);
	for (size_t i = 0; i < m->count; i++)
		for (size_t k = 0; k < MT_ARRAY_LEN(reason); k++) {
			open_sample(w, &m->process[i]);
			label(w, "reason", reason[k]);
			close_sample(w, m->process[i].watch->lost[k]);
		}
}

static void write_errors(struct writer *w, const struct mt_metrics *m)
{
	static const struct family f = {"memtrack_memory_errors", COUNTER, NULL,
					"Memory errors found, by kind."};

	begin(w, &f);
	for (size_t i = 0; i < m->count; i++)
		for (uint32_t k = 0; k < MT_WATCH_ERRORS; k++) {
			open_sample(w, &m->process[i]);
			label(w, "kind", k ? mt_words_error_key(k) : "not-kept");
			close_sample(w, m->process[i].watch->errors[k]);
		}
}

/* ---- sites ---- */

static uint64_t site_live_bytes(const struct mt_watch_site *s)
{
	return positive(mt_watch_live_bytes(&s->counts));
}

static uint64_t site_live_blocks(const struct mt_watch_site *s)
{
	return positive(mt_watch_live_blocks(&s->counts));
}

static uint64_t site_allocs(const struct mt_watch_site *s)
{
	return s->counts.allocs;
}

static uint64_t site_bytes(const struct mt_watch_site *s)
{
	return s->counts.bytes;
}

static const struct site_family {
	struct family family;
	uint64_t (*value)(const struct mt_watch_site *s);
} site_families[] = {
	{{"memtrack_site_live_bytes", GAUGE, "bytes",
	  "Live bytes of the call sites that hold most of them."},
	 site_live_bytes},
	{{"memtrack_site_live_blocks", GAUGE, NULL, "Live blocks of these call sites."},
	 site_live_blocks},
	{{"memtrack_site_allocations", COUNTER, NULL, "Allocations of these call sites."},
	 site_allocs},
	{{"memtrack_site_allocated_bytes", COUNTER, "bytes", "Bytes of these allocations."},
	 site_bytes},
};

static void write_site(const struct writer *w, const struct mt_metrics_process *p,
		       const struct mt_metrics_site *s, uint64_t value)
{
	open_sample(w, p);
	mt_buf_printf(w->out, ",site=\"%" PRIu32 "\",callstack_hash=\"0x%016" PRIx64 "\"",
		      s->number, s->callstack_hash);
	label(w, "call", s->call);
	label(w, "function", s->function);
	label(w, "place", s->place);
	label(w, "caller", s->caller);
	close_sample(w, value);
}

static void write_sites(struct writer *w, const struct mt_metrics *m)
{
	for (size_t f = 0; f < MT_ARRAY_LEN(site_families); f++) {
		begin(w, &site_families[f].family);
		for (size_t i = 0; i < m->count; i++) {
			const struct mt_metrics_process *p = &m->process[i];

			for (uint32_t k = 0; k < p->site_count; k++)
				write_site(
					w, p, &p->site[k],
					site_families[f].value(&p->watch->site[p->site[k].number]));
		}
	}
}

/* ---- the whole ---- */

static void write_single(struct writer *w, const struct family *f, uint64_t value)
{
	begin(w, f);
	sample_name(w);
	mt_buf_printf(w->out, " %" PRIu64 "\n", value);
}

static void write_own(struct writer *w, const struct mt_metrics *m)
{
	static const struct family info = {"memtrack_build_info", GAUGE, NULL,
					   "The version of the memtrack that reads."};
	static const struct family processes = {"memtrack_processes", GAUGE, NULL,
						"Tracked processes that run and are shown here."};
	static const struct family left_out = {"memtrack_processes_left_out", GAUGE, NULL,
					       "Tracked processes beyond the bound."};
	static const struct family unreadable = {"memtrack_unreadable_states", GAUGE, NULL,
						 "State files that could not be read this time."};
	static const struct family reading = {"memtrack_reading_duration_seconds", GAUGE, "seconds",
					      "How long this reading took."};

	begin(w, &info);
	mt_buf_adds(w->out, "memtrack_build_info{version=\"");
	mt_metrics_escape(w->out, m->version);
	mt_buf_adds(w->out, "\"} 1\n");
	write_single(w, &processes, m->count);
	write_single(w, &left_out, m->left_out);
	write_single(w, &unreadable, m->unreadable);
	begin(w, &reading);
	mt_buf_printf(w->out, "memtrack_reading_duration_seconds %" PRIu64 ".%06" PRIu64 "\n",
		      m->reading_ns / 1000000000, m->reading_ns / 1000 % 1000000);
}

int mt_metrics_write(const struct mt_metrics *m, enum mt_metrics_format format, struct mt_buf *out)
{
	struct writer w = {.out = out, .format = format};

	write_own(&w, m);
	write_start(&w, m);
	write_mode(&w, m);
	write_processes(&w, m);
	write_lost(&w, m);
	write_errors(&w, m);
	write_sites(&w, m);
	mt_buf_adds(out, "# EOF\n");
	return out->failed ? -ENOMEM : 0;
}
