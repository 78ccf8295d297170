/* SPDX-License-Identifier: MIT */
/* memtrack ctl: shows and changes how a process is tracked while it runs. */

#include "cli/commands.h"

#include "analysis/names.h"
#include "base/cleanup.h"
#include "base/escape.h"
#include "base/path.h"
#include "base/units.h"
#include "cli/find.h"
#include "core/cc.h"
#include "formats/mtk_read.h"
#include "formats/mtk_watch.h"
#include "model/profile.h"
#include "model/series.h"
#include "record/control.h"
#include "record/recording.h"
#include "record/snapshot.h"
#include "wire/state.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

enum { CHANGES_SHOWN = 10 };

struct ctl_options {
	uint64_t wait_ns, changes;
};

static const struct ctl_options defaults = {.wait_ns = 2000000000, .changes = CHANGES_SHOWN};

static const struct mt_option options[] = {
	{.name = "wait",
	 .argument = "TIME",
	 .kind = MT_OPTION_TIME,
	 .offset = offsetof(struct ctl_options, wait_ns),
	 .help = "wait at most so long until the program takes a request over (default 2s)"},
	{.name = "changes",
	 .argument = "N",
	 .kind = MT_OPTION_NUMBER,
	 .offset = offsetof(struct ctl_options, changes),
	 .max = UINT32_MAX,
	 .help = "show the last N changes (default 10)"},
	{0},
};

/* ---- settings ---- */

/* What is shown of a process. */
struct settings {
	struct mt_profile *profile; /* owned; without counters */
	struct mt_watch watch;      /* owned */
	struct mt_state_header header;
};

static void settings_done(struct settings *s)
{
	mt_profile_free(s->profile);
	mt_watch_done(&s->watch);
}
MT_AUTO_DEFINE_INPLACE(settings, struct settings, settings_done)

static int read_settings(const char *path, struct settings *s, struct mt_err *err)
{
	int code = mt_mtk_read_header(path, &s->header, err);

	if (!code)
		code = mt_mtk_read_stacks(path, &s->profile, err);
	if (!code)
		code = mt_mtk_watch(path, MT_MTK_WATCH_SUMS, &s->watch, err);
	return code;
}

/* The last change of a kind, or NULL. */
static const struct mt_profile_change *last_change(const struct mt_profile *p, uint32_t what)
{
	for (uint32_t i = p->change_count; i-- > 0;)
		if (p->change[i].what == what)
			return &p->change[i];
	return NULL;
}

/* ", for 3 min 07 s" since the last change, or nothing. */
static void add_since(struct mt_buf *out, const struct mt_profile *p, uint32_t what)
{
	const struct mt_profile_change *c = last_change(p, what);
	char text[MT_UNITS_TEXT_MAX];

	if (c && p->duration_ns >= c->ns)
		mt_buf_printf(out, ", for %s", mt_units_time(p->duration_ns - c->ns, text));
}

/* A text that was given at the start: name=TEXT among the options. */
static void add_start_option(struct mt_buf *out, const struct mt_profile *p, const char *name)
{
	mt_auto(mt_buf) struct mt_buf value = {0};
	const char *at = p->options;
	size_t len = strlen(name);

	while (at && strncmp(at, name, len)) {
		at = strchr(at, ' ');
		at += at != NULL;
	}
	if (!at) {
		mt_buf_adds(out, "-");
		return;
	}
	mt_buf_add(&value, at + len, strcspn(at + len, " "));
	mt_escape(out, mt_buf_text(&value));
}

static void add_text_setting(struct mt_buf *out, const struct mt_profile *p, uint32_t what,
			     const char *name)
{
	const struct mt_profile_change *c = last_change(p, what);

	if (!c)
		add_start_option(out, p, name);
	else if (!*c->text)
		mt_buf_adds(out, "-");
	else
		mt_escape(out, c->text);
	add_since(out, p, what);
	mt_buf_addc(out, '\n');
}

static void add_sampling(struct mt_buf *out, const struct settings *s)
{
	char text[MT_UNITS_TEXT_MAX];

	if (s->watch.interval_bytes)
		mt_buf_printf(out, "%s on average (%" PRIu64 " B)",
			      mt_units_size(s->watch.interval_bytes, text),
			      s->watch.interval_bytes);
	else if (s->watch.every)
		mt_buf_printf(out, "one of every %s allocations",
			      mt_units_count(s->watch.every, text));
	else
		mt_buf_adds(out, "-");
	if (s->watch.interval_bytes)
		add_since(out, s->profile, MT_CHANGE_INTERVAL);
	mt_buf_addc(out, '\n');
}

/* ---- changes ---- */

static void add_size_change(struct mt_buf *out, const struct mt_profile_change *c, const char *what,
			    const char *why)
{
	char before[MT_UNITS_TEXT_MAX], after[MT_UNITS_TEXT_MAX];

	mt_buf_printf(out, "%s %s, before %s%s", what, mt_units_size(c->after, after),
		      mt_units_size(c->before, before), why);
}

static void add_named_text(struct mt_buf *out, const char *name, const char *text, const char *none)
{
	mt_buf_adds(out, *text ? name : none);
	mt_escape(out, text);
}

/* 0: by bytes */
static void add_every_change(struct mt_buf *out, const struct mt_profile_change *c)
{
	char before[MT_UNITS_TEXT_MAX], after[MT_UNITS_TEXT_MAX];

	if (c->after)
		mt_buf_printf(out, "one of every %s allocations", mt_units_count(c->after, after));
	else
		mt_buf_adds(out, "samples by bytes");
	if (c->before)
		mt_buf_printf(out, ", before one of every %s", mt_units_count(c->before, before));
	else
		mt_buf_adds(out, ", before by bytes");
}

static void add_change(struct mt_buf *out, const struct mt_profile_change *c)
{
	switch ((enum mt_state_change_what)c->what) {
	case MT_CHANGE_MODE:
		mt_buf_printf(out, "mode %s, before %s", mt_words_mode((uint32_t)c->after),
			      mt_words_mode((uint32_t)c->before));
		return;
	case MT_CHANGE_INTERVAL:
		add_size_change(out, c, "interval", "");
		return;
	case MT_CHANGE_EVERY:
		add_every_change(out, c);
		return;
	case MT_CHANGE_SWITCH:
		mt_buf_adds(out, c->after & 1 ? "on" : "off");
		return;
	case MT_CHANGE_MODULES:
		add_named_text(out, "modules ", c->text, "modules: all");
		return;
	case MT_CHANGE_LABEL:
		add_named_text(out, "label ", c->text, "no label");
		return;
	case MT_CHANGE_PEAK_RESET:
		add_size_change(out, c, "peak reset to", "");
		return;
	case MT_CHANGE_REFUSED:
		add_named_text(out, "refused: ", c->text, "refused a request");
		return;
	case MT_CHANGE_MEMORY_RAIL:
		add_size_change(out, c, "interval", ": the tracker's memory came near its bound");
		return;
	case MT_CHANGE_CPU_RAIL:
		add_size_change(out, c, "interval", ": samples took too much time");
		return;
	}
	mt_buf_printf(out, "change of kind %" PRIu32, c->what);
}

static void add_changes(struct mt_buf *out, const struct mt_profile *p, uint64_t max)
{
	uint32_t shown = (uint32_t)MT_MIN(max, (uint64_t)p->change_count);
	char text[MT_UNITS_TEXT_MAX];

	if (shown)
		mt_buf_adds(out, "changes, with the time since the start:\n");
	for (uint32_t i = p->change_count - shown; i < p->change_count; i++) {
		mt_buf_printf(out, "  %12s  ", mt_units_time(p->change[i].ns, text));
		add_change(out, &p->change[i]);
		mt_buf_addc(out, '\n');
	}
}

/* ---- showing ---- */

static void add_head(struct mt_buf *out, const char *path, const struct settings *s)
{
	char end[128];

	mt_escape(out, mt_path_base(s->profile->exe));
	mt_buf_printf(out, " (pid %" PRId32 "), ", s->header.pid);
	if (s->watch.is_running)
		mt_buf_adds(out, "running, ");
	else
		mt_buf_printf(
			out, "which %s, ",
			mt_words_end(s->profile->end_kind, s->profile->end_code, end, sizeof(end)));
	mt_escape(out, path);
	mt_buf_addc(out, '\n');
}

static void add_requests(struct mt_buf *out, const struct mt_state_header *h)
{
	bool is_pending = h->control >> 1 != h->control_done >> 1;

	mt_buf_printf(out, "  requests   %" PRIu32 "%s\n", h->control >> 1,
		      is_pending                            ? ", the last one is not taken over yet"
		      : h->control >> 1 && h->control_error ? ", the last one was refused"
							    : "");
}

static int show(const char *path, const struct ctl_options *o, struct mt_err *err)
{
	mt_auto(settings) struct settings s = {0};
	mt_auto(mt_buf) struct mt_buf out = {0};
	int code = read_settings(path, &s, err);

	if (code)
		return code;
	add_head(&out, path, &s);
	mt_buf_printf(&out, "  recording  %s", s.watch.is_recording ? "on" : "off");
	add_since(&out, s.profile, MT_CHANGE_SWITCH);
	mt_buf_printf(&out, "\n  mode       %s", mt_words_mode(s.watch.mode));
	add_since(&out, s.profile, MT_CHANGE_MODE);
	mt_buf_adds(&out, "\n  interval   ");
	add_sampling(&out, &s);
	mt_buf_adds(&out, "  modules    ");
	add_text_setting(&out, s.profile, MT_CHANGE_MODULES, "modules=");
	mt_buf_adds(&out, "  label      ");
	add_text_setting(&out, s.profile, MT_CHANGE_LABEL, "label=");
	add_requests(&out, &s.header);
	add_changes(&out, s.profile, o->changes);
	if (out.failed)
		return mt_err_no_memory(err);
	fputs(mt_buf_text(&out), stdout);
	return 0;
}

/* ---- changing ---- */

static int take_snapshot(const char *path, struct mt_err *err)
{
	uint32_t number;
	int code = mt_snapshot_take(path, MT_SERIES_ASKED, &number, err);

	if (!code)
		printf("snapshot %" PRIu32 "\n", number);
	return code;
}

/* 0 or a negative errno value; *ret_pending: it stands, but nobody has taken it over. */
static int send_request(const char *path, const char *text, const struct ctl_options *o,
			bool *ret_pending, struct mt_err *err)
{
	int code = mt_control_send(path, text, o->wait_ns, err);

	*ret_pending = code == MT_CONTROL_PENDING;
	if (*ret_pending)
		mt_complain("the program has not taken the request over yet: it does so with its "
			    "next allocation or free");
	/* what was live before is known to the recording as well */
	if (code >= 0 && strstr(text, "mode=record"))
		code = mt_recording_begun(path, err);
	return code < 0 ? code : 0;
}

/* The request of the operands behind the first one; whether a snapshot is among them. */
static int read_words(const struct mt_operands *operands, struct mt_buf *text, bool *ret_snapshot,
		      struct mt_err *err)
{
	*ret_snapshot = false;
	for (int i = 1; i < operands->count; i++) {
		int code = 0;

		if (!strcmp(operands->text[i], "snapshot"))
			*ret_snapshot = true;
		else
			code = mt_control_add_word(text, operands->text[i], err);
		if (code)
			return code;
	}
	return 0;
}

static int run(const void *opaque, const struct mt_operands *operands)
{
	const struct ctl_options *o = opaque;
	mt_auto(mt_buf) struct mt_buf text = {0};
	mt_auto(free) char *path = NULL;
	bool snapshot, is_pending = false;
	struct mt_err err = {0};
	int code;

	if (read_words(operands, &text, &snapshot, &err)) {
		mt_complain("ctl: %s; see 'memtrack ctl --help'", err.text);
		return MT_EXIT_USAGE;
	}
	path = mt_find_file(operands->text[0], &err);
	code = path ? 0 : err.code;
	if (!code && operands->count == 1)
		code = show(path, o, &err);
	if (!code && text.len)
		code = send_request(path, mt_buf_text(&text), o, &is_pending, &err);
	if (!code && snapshot)
		code = take_snapshot(path, &err);
	if (code)
		mt_complain("%s", err.text);
	/* who does not wait asks for no more than that it stands */
	return code || (is_pending && o->wait_ns) ? MT_EXIT_FAILED : MT_EXIT_OK;
}

static const char *const examples[] = {
	"memtrack ctl 4711",
	"how process 4711 is tracked now, and what was changed",
	"memtrack ctl 4711 mode=sample interval=64K",
	"sample instead of recording every block",
	"memtrack ctl name:server off",
	"stop recording; 'on' goes on",
	"memtrack ctl 4711 modules=+libfoo*,-libfoo-tls* label='after the upgrade'",
	"record allocations from some libraries only, under a label",
	"memtrack ctl 4711 snapshot",
	"keep the numbers of every call site as they are now, for memtrack timeline and diff",
	NULL,
};

const struct mt_command mt_cmd_ctl = {
	.name = "ctl",
	.summary = "show or change how a running process is tracked",
	.operands = "FILE|PID|name:PROGRAM [WORD...]",
	.operands_min = 1,
	.operands_max = -1,
	.options = options,
	.options_bytes = sizeof(struct ctl_options),
	.defaults = &defaults,
	.description =
		"Without words it shows the settings of a tracked process and what was changed "
		"when. With words it changes them while the process runs: it writes the request "
		"into the state file, and the program takes it over with its next allocation or "
		"free. No signal is sent and nothing stops.\n\n"
		"on, off: record, or not. mode=full|sample|stats|record: what is recorded "
		"of new blocks, as of 'memtrack run'. interval=SIZE: mean distance of sampled "
		"bytes. every=N: sample every Nth allocation instead. modules=LIST: record "
		"allocations whose caller is in such modules, +GLOB or -GLOB separated by commas; "
		"empty: all. Sites of modules that are switched off keep their counters. "
		"label=TEXT: of allocations of threads that set none; empty: none. reset-peak: "
		"the peak begins anew at what is live. snapshot: keep the numbers of all call "
		"sites in the series beside the state file, after the other words.\n\n"
		"In check mode blocks have headers, so mode, interval, every, on and off cannot "
		"change and are refused; the others can.\n\n"
		"A request is applied as a whole or not at all. One that is not taken over within "
		"--wait still stands, which is said, and later ones are added behind it.",
	.exit_status =
		"0: the request was taken over; with --wait=0 also when it stands until the "
		"program's next event.\n\n1: it could not be made, was refused, or was not taken "
		"over within --wait; one sentence on standard error says which.\n\n2: the "
		"command line was not understood.",
	.examples = examples,
	.see_also = "memtrack(1), memtrack-run(1), memtrack-ps(1), memtrack-top(1)",
	.operand_words = "on off mode=full mode=sample mode=stats mode=record interval= "
			 "every= modules= label= reset-peak snapshot",
	.run = run,
};
