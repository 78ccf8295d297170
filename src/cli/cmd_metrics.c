/* SPDX-License-Identifier: MIT */
/* memtrack metrics: the tracked processes for Prometheus, over HTTP or as a text file. */

#include "cli/commands.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "cli/load.h"
#include "cli/output.h"
#include "cli/watched.h"
#include "core/cc.h"
#include "core/sys.h"
#include "formats/mtk_watch.h"
#include "report/metrics.h"
#include "server/http.h"
#include "wire/state.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#define DEFAULT_LISTEN "127.0.0.1:9468"
#define TEXTFILE_MODE 0644

enum {
	NAMES_NS = 4000000000u, /* a scrape waits for symbols no longer: Prometheus gives it 10 s */
	REUSE_FACTOR =
		5, /* a text is given again for so many times the time that it took to make */
	SITES_MAX = 100,
};

struct metrics_options {
	const char *listen, *textfile;
	uint64_t every_ns, top;
	bool no_symbols;
};

static const struct metrics_options defaults = {.top = 10};

static const struct mt_option options[] = {
	{.name = "listen",
	 .argument = "ADDRESS:PORT",
	 .kind = MT_OPTION_TEXT,
	 .offset = offsetof(struct metrics_options, listen),
	 .help = "serve http://ADDRESS:PORT/metrics (default " DEFAULT_LISTEN
		 "; without address: loopback; port 0: any that is free)"},
	{.name = "textfile",
	 .argument = "FILE",
	 .kind = MT_OPTION_TEXT,
	 .offset = offsetof(struct metrics_options, textfile),
	 .help = "write FILE instead, complete or not at all, for node_exporter's textfile "
		 "collector; '-': standard output"},
	{.name = "every",
	 .argument = "TIME",
	 .kind = MT_OPTION_TIME,
	 .offset = offsetof(struct metrics_options, every_ns),
	 .min = 1000000,
	 .least = "1ms",
	 .help = "write FILE again and again at this distance, until a signal comes (default: "
		 "once)"},
	{.name = "top",
	 .argument = "N",
	 .kind = MT_OPTION_NUMBER,
	 .offset = offsetof(struct metrics_options, top),
	 .max = SITES_MAX,
	 .help = "call sites with most live bytes that each process shows by name (default 10)"},
	{.name = "no-symbols",
	 .kind = MT_OPTION_FLAG,
	 .offset = offsetof(struct metrics_options, no_symbols),
	 .help = "name call sites by module and offset only"},
	{0},
};

/* What stays from one reading to the next. */
struct exporter {
	const struct metrics_options *o;
	struct mt_watched_list list;
	struct mt_buf last[2]; /* by enum mt_metrics_format */
	uint64_t last_ns[2], last_took_ns[2];
};

static void exporter_done(struct exporter *e)
{
	mt_watched_list_done(&e->list);
	mt_buf_done(&e->last[0]);
	mt_buf_done(&e->last[1]);
}
MT_AUTO_DEFINE_INPLACE(exporter, struct exporter, exporter_done)

/* ---- the widest sites ---- */

static int64_t live_of(const struct mt_watch *w, uint32_t site)
{
	return mt_watch_live_bytes(&w->site[site].counts);
}

/* Blocks that the program asked for: mappings and the break are where the allocator has them from.
 */
static bool is_shown(const struct mt_watch_site *s)
{
	return s->call && (s->heap == MT_HEAP_MALLOC || s->heap >= MT_HEAP_FIRST_CUSTOM) &&
	       mt_watch_live_bytes(&s->counts) > 0;
}

/* Numbers of the `top` widest sites, widest first, into ret; how many. */
static uint32_t find_widest(const struct mt_watch *w, uint32_t *ret, uint32_t top)
{
	uint32_t count = 0;

	for (uint32_t i = 1; i < w->site_count; i++) {
		uint32_t at = count;

		if (!is_shown(&w->site[i]) || !top)
			continue;
		while (at && live_of(w, ret[at - 1]) < live_of(w, i))
			at--;
		if (at == top)
			continue;
		count += count < top;
		memmove(&ret[at + 1], &ret[at], (count - at - 1) * sizeof(*ret));
		ret[at] = i;
	}
	return count;
}

/* Fills to[] with what is known of the sites; those without a name wait for the next reading. */
static uint32_t name_sites(const struct exporter *e, struct mt_watched *w,
			   struct mt_metrics_site *to)
{
	uint32_t widest[SITES_MAX], count = find_widest(&w->now, widest, (uint32_t)e->o->top);
	struct mt_site_naming how = {.site = widest,
				     .count = count,
				     .no_symbols = e->o->no_symbols,
				     .limit_ns = NAMES_NS};
	uint32_t named = 0;

	(void)!mt_site_names_add(&w->names, w->path, &how); /* the process may be gone */
	for (uint32_t i = 0; i < count; i++) {
		const struct mt_site_name *n = mt_site_names_get(&w->names, widest[i]);

		if (n)
			to[named++] = (struct mt_metrics_site){
				.number = n->site,
				.function = n->function,
				.place = n->place,
				.caller = n->caller,
				.call = n->call,
				.callstack_hash = n->callstack_hash,
			};
	}
	return named;
}

/* ---- the text ---- */

static int write_all(struct exporter *e, uint64_t start_ns, enum mt_metrics_format format,
		     struct mt_buf *out)
{
	size_t top = (size_t)e->o->top, count = e->list.count;
	mt_auto(free) struct mt_metrics_process *p = mt_alloc_zero(count + 1, sizeof(*p));
	mt_auto(free) struct mt_metrics_site *s = mt_alloc_zero(count * top + 1, sizeof(*s));
	struct mt_metrics m = {.process = p, .version = MT_VERSION};

	if (!p || !s)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		struct mt_watched *w = &e->list.item[i];

		p[i] = (struct mt_metrics_process){
			.watch = &w->now, .program = w->program, .site = s + i * top};
		p[i].site_count = name_sites(e, w, s + i * top);
	}
	m.count = count;
	m.left_out = e->list.left_out;
	m.unreadable = e->list.unreadable;
	m.reading_ns = mt_sys_clock_ns(MT_CLOCK_MONOTONIC) - start_ns;
	return mt_metrics_write(&m, format, out);
}

static int read_and_write(struct exporter *e, enum mt_metrics_format format, struct mt_buf *out)
{
	uint64_t start_ns = mt_sys_clock_ns(MT_CLOCK_MONOTONIC);
	int code = mt_watched_list_find(&e->list, e->o->top ? MT_MTK_WATCH_SITES : 0);

	return code ? code : write_all(e, start_ns, format, out);
}

/* ---- over HTTP ---- */

/* Who names the older format and not the newer gets it; Prometheus names both. */
static enum mt_metrics_format format_for(const char *accept)
{
	return strstr(accept, "text/plain") && !strstr(accept, "application/openmetrics-text")
		       ? MT_METRICS_PROMETHEUS
		       : MT_METRICS_OPENMETRICS;
}

/* Whoever asks without pause must not keep a processor busy. */
static bool is_fresh(const struct exporter *e, enum mt_metrics_format format)
{
	uint64_t age_ns = mt_sys_clock_ns(MT_CLOCK_MONOTONIC) - e->last_ns[format];

	return e->last[format].len && age_ns < REUSE_FACTOR * e->last_took_ns[format];
}

static int make_document(void *context, const char *accept, struct mt_buf *body,
			 const char **ret_content_type)
{
	enum mt_metrics_format format = format_for(accept);
	struct exporter *e = context;
	uint64_t start_ns = mt_sys_clock_ns(MT_CLOCK_MONOTONIC);
	int code = 0;

	if (!is_fresh(e, format)) {
		mt_buf_truncate(&e->last[format], 0);
		code = read_and_write(e, format, &e->last[format]);
		e->last_ns[format] = mt_sys_clock_ns(MT_CLOCK_MONOTONIC);
		e->last_took_ns[format] = e->last_ns[format] - start_ns;
	}
	*ret_content_type = mt_metrics_content_type(format);
	if (!code)
		code = mt_buf_add(body, mt_buf_text(&e->last[format]), e->last[format].len);
	return code;
}

static void ending_signals(sigset_t *ret_set)
{
	sigemptyset(ret_set);
	sigaddset(ret_set, SIGINT);
	sigaddset(ret_set, SIGTERM);
	sigaddset(ret_set, SIGHUP);
}

static int serve(struct exporter *e)
{
	struct mt_http_options http = {.listen = e->o->listen ? e->o->listen : DEFAULT_LISTEN,
				       .path = "/metrics",
				       .document = make_document,
				       .context = e};
	mt_auto(mt_http) struct mt_http *server = NULL;
	struct mt_err err = {0};
	sigset_t set;
	int sig;

	ending_signals(&set);
	sigprocmask(SIG_BLOCK, &set, NULL); /* the server's thread inherits it */
	signal(SIGPIPE, SIG_IGN);
	if (mt_http_start(&http, &server, &err)) {
		mt_complain("%s", err.text);
		return MT_EXIT_FAILED;
	}
	printf("serving %s\n", mt_http_url(server));
	fflush(stdout);
	while (sigwait(&set, &sig))
		;
	return MT_EXIT_OK;
}

/* ---- as a file ---- */

static int write_file(struct exporter *e)
{
	mt_auto(mt_output) struct mt_output out;
	struct mt_err err = {0};
	int code;

	mt_output_init(&out, e->o->textfile);
	code = read_and_write(e, MT_METRICS_PROMETHEUS, &out.text);
	return mt_output_end(&out, code ? mt_err_no_memory(&err) : 0, &err);
}

/* A file that cannot be written now may be writable later: told each time, and tried again. */
static int write_file_again_and_again(struct exporter *e)
{
	struct timespec pause = {(time_t)(e->o->every_ns / 1000000000u),
				 (long)(e->o->every_ns % 1000000000u)};
	sigset_t set;

	ending_signals(&set);
	sigprocmask(SIG_BLOCK, &set, NULL);
	do
		write_file(e);
	while (sigtimedwait(&set, NULL, &pause) < 0);
	return MT_EXIT_OK;
}

static int run(const void *opaque, const struct mt_operands *operands)
{
	const struct metrics_options *o = opaque;
	mt_auto(exporter) struct exporter e = {.o = o};

	if (o->listen && o->textfile) {
		mt_complain("metrics: --listen and --textfile exclude each other; see 'memtrack "
			    "metrics --help'");
		return MT_EXIT_USAGE;
	}
	if (o->every_ns && !o->textfile) {
		mt_complain("metrics: --every needs --textfile; see 'memtrack metrics --help'");
		return MT_EXIT_USAGE;
	}
	if (!o->textfile)
		return serve(&e);
	return o->every_ns ? write_file_again_and_again(&e) : write_file(&e);
}

static const char *const examples[] = {
	"memtrack metrics",
	"serve http://" DEFAULT_LISTEN "/metrics until a signal comes",
	"memtrack metrics --textfile=/var/lib/prometheus/node-exporter/memtrack.prom --every=15s",
	"the same through node_exporter's textfile collector",
	"memtrack metrics --textfile=- --top=3",
	"look at it",
	NULL,
};

const struct mt_command mt_cmd_metrics = {
	.name = "metrics",
	.summary = "serve numbers of all tracked processes to Prometheus",
	.operands = "",
	.operands_max = 0,
	.options = options,
	.options_bytes = sizeof(struct metrics_options),
	.defaults = &defaults,
	.description =
		"Shows the tracked processes that you may look at as metrics: live bytes and "
		"blocks, allocations and frees, the peak, events lost by reason, mode and "
		"sampling interval, the tracker's own memory, and the call sites that hold most. "
		"Each collection reads the state files anew and costs the processes nothing.\n\n"
		"By HTTP it answers GET and HEAD of /metrics, in OpenMetrics 1.0, or in "
		"Prometheus' older text format for those who ask for text/plain only. Everybody "
		"who can connect sees names of programs and functions: that is why it listens at "
		"the loopback address unless told otherwise. A file is in the older format, which "
		"is the one that node_exporter reads.\n\n"
		"docs/metrics.md lists the metrics, with a configuration for Prometheus and "
		"queries for Grafana.",
	.exit_status = "0: success, also when a signal ended it.\n\n1: the address or the file "
		       "cannot be used; one sentence on standard error says why.\n\n2: the command "
		       "line was not understood.",
	.examples = examples,
	.see_also = "memtrack(1), memtrack-ps(1), memtrack-top(1)",
	.run = run,
};
