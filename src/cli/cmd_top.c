/* SPDX-License-Identifier: MIT */
/* memtrack top: watches tracked processes, full-screen or as text. */

#include "cli/commands.h"

#include "base/cleanup.h"
#include "cli/load.h"
#include "cli/top.h"
#include "cli/top_keys.h"
#include "cli/top_screen.h"
#include "core/cc.h"
#include "core/sys.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

struct top_options {
	bool batch, no_symbols;
	uint64_t iterations, delay_ns, rows;
	int view, sort;
};

enum { SORT_DEFAULT = -1, ITERATIONS_MAX = 1000000000 };

static const struct top_options defaults = {
	.delay_ns = 1000000000, .rows = UINT64_MAX, .view = MT_TOP_VIEWS, .sort = SORT_DEFAULT};

static const struct mt_option options[] = {
	{.letter = 'b',
	 .name = "batch",
	 .kind = MT_OPTION_FLAG,
	 .offset = offsetof(struct top_options, batch),
	 .help = "print plain text instead: no terminal is needed"},
	{.letter = 'n',
	 .name = "iterations",
	 .argument = "N",
	 .kind = MT_OPTION_NUMBER,
	 .offset = offsetof(struct top_options, iterations),
	 .min = 1,
	 .max = ITERATIONS_MAX,
	 .help = "end after N pages (default: --batch 1, else when a key says so)"},
	{.letter = 'd',
	 .name = "delay",
	 .argument = "TIME",
	 .kind = MT_OPTION_TIME,
	 .offset = offsetof(struct top_options, delay_ns),
	 .min = 1000000,
	 .least = "1ms",
	 .help = "time between two readings (default 1s)"},
	{.name = "view",
	 .argument = "WHAT",
	 .kind = MT_OPTION_CHOICE,
	 .offset = offsetof(struct top_options, view),
	 .choices = "processes|sites|threads|sizes|timeline",
	 .help = "what to begin with: processes, or of one process that is named: sites, threads, "
		 "sizes, timeline"},
	{.name = "sort",
	 .argument = "BY",
	 .kind = MT_OPTION_CHOICE,
	 .offset = offsetof(struct top_options, sort),
	 .choices = "live|growth|rate|blocks|lost|name",
	 .help = "order of the rows: live bytes, growth since the start, allocations per second, "
		 "live blocks, events lost, or name"},
	{.name = "rows",
	 .argument = "N",
	 .kind = MT_OPTION_NUMBER,
	 .offset = offsetof(struct top_options, rows),
	 .max = ITERATIONS_MAX,
	 .help = "with --batch: rows of a page (default: all)"},
	{.name = "no-symbols",
	 .kind = MT_OPTION_FLAG,
	 .offset = offsetof(struct top_options, no_symbols),
	 .help = "name call sites by module and offset only"},
	{0},
};

/* ---- what to begin with ---- */

enum { UNSORTED = -2 };

/* The column of --sort in a view: -1 the text, UNSORTED when it has none of that kind. */
static int sort_column(enum mt_top_view view, int sort)
{
	static const signed char column[][MT_TOP_VIEWS] = {
		/* processes, sites, threads, sizes, time line */
		{2, 0, 1, 3, UNSORTED},               /* live */
		{3, 1, UNSORTED, UNSORTED, UNSORTED}, /* growth */
		{4, 3, 3, 1, UNSORTED},               /* rate */
		{UNSORTED, 2, UNSORTED, 2, UNSORTED}, /* blocks */
		{6, UNSORTED, UNSORTED, UNSORTED, UNSORTED},
		{-1, -1, -1, -1, UNSORTED},
	};

	return column[sort][view];
}

static int usage(const char *text)
{
	mt_complain("top: %s; see 'memtrack top --help'", text);
	return -EINVAL;
}

/* Opens the only process that the operands name. */
static int open_only(struct mt_top *t, const struct mt_operands *operands)
{
	if (t->row_count == 1)
		return mt_top_open(t, (int32_t)t->row[0].key);
	mt_complain("'%s' names %zu tracked processes; name one by its pid", operands->text[0],
		    t->row_count);
	return -EINVAL;
}

static int check_found(const struct mt_top *t, const struct mt_operands *operands)
{
	if (t->row_count || !operands->count)
		return 0;
	mt_complain("no tracked process is running for '%s'; 'memtrack ps' lists those that are",
		    operands->text[0]);
	return -ESRCH;
}

/* 0; MT_EXIT_FAILED or MT_EXIT_USAGE after a sentence. */
static int begin(struct mt_top *t, const struct top_options *o, const struct mt_operands *operands)
{
	enum mt_top_view view = o->view != MT_TOP_VIEWS             ? (enum mt_top_view)o->view
				: !o->batch && operands->count == 1 ? MT_TOP_SITES
								    : MT_TOP_PROCESSES;

	t->only = operands;
	if (view != MT_TOP_PROCESSES && operands->count != 1)
		return usage("--view needs one process that it is of"), MT_EXIT_USAGE;
	if (o->sort != SORT_DEFAULT && sort_column(view, o->sort) == UNSORTED)
		return usage("this view cannot be sorted by what --sort says"), MT_EXIT_USAGE;
	if (mt_top_update(t, MT_TOP_FIND))
		return mt_complain("cannot allocate memory"), MT_EXIT_FAILED;
	if (check_found(t, operands))
		return MT_EXIT_FAILED;
	if (view != MT_TOP_PROCESSES && open_only(t, operands))
		return MT_EXIT_FAILED;
	t->view = view;
	if (o->sort != SORT_DEFAULT)
		t->sort[view] = sort_column(view, o->sort);
	return 0;
}

/* ---- text ---- */

static int name_rows(struct mt_top *t, struct mt_site_names *names, const struct top_options *o)
{
	enum { NAMED_MAX = 100000 };
	size_t rows = MT_MIN(MT_MIN(t->row_count, (size_t)o->rows), (size_t)NAMED_MAX);
	mt_auto(free) uint32_t *site = calloc(rows + 1, sizeof(*site));
	struct mt_site_naming how = {
		.site = site, .no_symbols = o->no_symbols, .stop = mt_load_stop()};

	if (!site)
		return -ENOMEM;
	how.count = mt_top_wanted_sites(t, site, (uint32_t)rows);
	if (how.count && mt_site_names_add(names, t->open.path, &how) == -ENOMEM)
		return -ENOMEM;
	t->names = names;
	return mt_top_arrange(t);
}

static int print_pages(struct mt_top *t, const struct top_options *o)
{
	struct timespec pause = {(time_t)(o->delay_ns / 1000000000u),
				 (long)(o->delay_ns % 1000000000u)};
	uint64_t pages = o->iterations ? o->iterations : 1;
	mt_auto(mt_site_names) struct mt_site_names names = {0};
	int code = 0;

	for (uint64_t i = 0; i < pages && !code && !*mt_load_stop(); i++) {
		mt_auto(mt_buf) struct mt_buf text = {0};

		if (nanosleep(&pause, NULL))
			break;
		code = mt_top_update(t, MT_TOP_READ);
		if (!code)
			code = name_rows(t, &names, o);
		if (!code)
			code = mt_top_print(t, (size_t)o->rows, &text);
		if (i)
			putchar('\n');
		fputs(mt_buf_text(&text), stdout);
		if (fflush(stdout))
			break;
	}
	t->names = NULL;
	if (code)
		mt_complain("cannot allocate memory");
	return code ? MT_EXIT_FAILED : MT_EXIT_OK;
}

/* ---- full-screen ---- */

static void block_signals(sigset_t *ret_set)
{
	static const int wanted[] = {SIGINT,  SIGTERM,  SIGHUP,  SIGQUIT,
				     SIGTSTP, SIGWINCH, SIGCONT, SIGCHLD};

	sigemptyset(ret_set);
	for (size_t i = 0; i < MT_ARRAY_LEN(wanted); i++)
		sigaddset(ret_set, wanted[i]);
	sigprocmask(SIG_BLOCK, ret_set, NULL);
}

/* Does to us what the signal does by default; comes back after SIGTSTP and SIGCONT. */
static void take_signal(int sig)
{
	struct sigaction sa = {.sa_handler = SIG_DFL};
	sigset_t one;

	sigemptyset(&one);
	sigaddset(&one, sig);
	sigaction(sig, &sa, NULL);
	raise(sig);
	sigprocmask(SIG_UNBLOCK, &one, NULL);
	sigprocmask(SIG_BLOCK, &one, NULL);
}

/* Reads what came; the number of a signal that ends us, or 0. */
static int handle_signals(int fd, struct mt_top_ui *ui)
{
	struct signalfd_siginfo info;
	int end = 0;

	while (read(fd, &info, sizeof(info)) == sizeof(info))
		switch (info.ssi_signo) {
		case SIGTSTP:
			mt_top_screen_suspend();
			take_signal(SIGTSTP);
			mt_top_screen_resume();
			break;
		case SIGCONT: /* somebody else may have used the terminal meanwhile */
			mt_top_screen_resume();
			break;
		case SIGWINCH:
			mt_top_screen_resize();
			break;
		case SIGCHLD:
			mt_top_ui_reap(ui);
			break;
		default:
			end = (int)info.ssi_signo;
		}
	return end;
}

static int ms_until(uint64_t ns)
{
	uint64_t now = mt_sys_clock_ns(MT_CLOCK_MONOTONIC);

	return ns <= now ? 0 : (int)MT_MIN((ns - now) / 1000000 + 1, (uint64_t)60000);
}

/* Until a key or a signal ends it: 0, a signal's number, or a negative errno value. */
static int loop(struct mt_top_ui *ui, int signals, const struct top_options *o)
{
	struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
			       {.fd = signals, .events = POLLIN},
			       {.fd = mt_top_ui_fd(ui), .events = POLLIN}};
	uint64_t next_ns = 0, pages = 0;
	int end, code;

	for (;;) {
		if (!ms_until(next_ns)) {
			next_ns = mt_sys_clock_ns(MT_CLOCK_MONOTONIC) + o->delay_ns;
			code = mt_top_ui_update(ui);
			if (code)
				return code;
			if (o->iterations && pages++ == o->iterations)
				return 0;
		}
		mt_top_ui_paint(ui);
		if (poll(fds, MT_ARRAY_LEN(fds), ms_until(next_ns)) < 0 && errno != EINTR)
			return -errno;
		end = fds[1].revents ? handle_signals(signals, ui) : 0;
		if (end)
			return end;
		if (fds[2].revents)
			mt_top_ui_named(ui);
		if (fds[0].revents & POLLIN && mt_top_ui_keys(ui))
			return 0;
		if (fds[0].revents & (POLLHUP | POLLERR | POLLNVAL))
			return SIGHUP;
	}
}

static int watch(struct mt_top *t, const struct top_options *o)
{
	mt_auto(mt_top_ui) struct mt_top_ui *ui = NULL;
	mt_auto(close) int signals = -1;
	struct mt_err err = {0};
	sigset_t set;
	int end;

	block_signals(&set);
	signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	ui = mt_top_ui_new(t, o->no_symbols);
	if (signals < 0 || !ui) {
		mt_complain("cannot start: no memory, descriptor or thread is left");
		return MT_EXIT_FAILED;
	}
	if (mt_top_screen_start(&err)) {
		mt_complain("%s", err.text);
		return MT_EXIT_FAILED;
	}
	t->is_ascii = !mt_top_screen_is_utf8();
	end = loop(ui, signals, o);
	mt_top_screen_stop();
	if (end < 0)
		mt_complain("%s", mt_err_text_of(end));
	if (end > 0) {
		mt_top_ui_free(ui);
		ui = NULL;
		take_signal(end);
	}
	return end ? MT_EXIT_FAILED : MT_EXIT_OK;
}

static int run(const void *opaque, const struct mt_operands *operands)
{
	const struct top_options *o = opaque;
	mt_auto(mt_top) struct mt_top t;
	int status;

	mt_top_init(&t);
	status = begin(&t, o, operands);
	if (status)
		return status;
	if (!o->batch)
		return watch(&t, o);
	mt_load_catch_interrupt();
	return print_pages(&t, o);
}

static const char *const examples[] = {
	"memtrack top",
	"watch all tracked processes; Enter shows the call sites of one",
	"memtrack top 4711",
	"begin with the call sites of one process",
	"memtrack top --batch -n 10 -d 5s 4711 --view=sites --rows=5 --sort=growth",
	"five sites that grow most, ten times",
	NULL,
};

const struct mt_command mt_cmd_top = {
	.name = "top",
	.summary = "watch tracked processes, full-screen",
	.operands = "[PID|name:PROGRAM...]",
	.operands_max = -1,
	.options = options,
	.options_bytes = sizeof(struct top_options),
	.defaults = &defaults,
	.description =
		"Shows the tracked processes with their live bytes, how these grew since the "
		"start of top, allocations and events per second, and events lost. Enter shows "
		"the call sites of one process, and from there its threads, its block sizes and a "
		"time line of its live bytes. The key ? lists all keys. The state files are read; "
		"that costs the processes nothing.\n\n"
		"Names of call sites come from debug files and appear when they are found; the "
		"screen does not wait for them. Of block sizes only allocations are known, unless "
		"the process is in statistics or sampling mode.\n\n"
		"With --batch it prints pages of plain text. Rates are over the time between two "
		"readings, so the first page comes after one --delay.",
	.examples = examples,
	.see_also = "memtrack(1), memtrack-ps(1), memtrack-metrics(1), memtrack-report(1)",
	.run = run,
};
