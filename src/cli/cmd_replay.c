/* SPDX-License-Identifier: MIT */
/* memtrack replay: a recording's calls against one or several allocators. */

#include "cli/commands.h"
#include "cli/load.h"
#include "cli/output.h"

#include "base/units.h"
#include "core/cc.h"
#include "formats/mtr_events.h"
#include "record/replay.h"
#include "report/grid.h"
#include "report/json.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

struct replay_options {
	struct mt_text_list allocators;
	int touch;
	bool json;
	uint64_t repeat;
	const char *output;
};

static const struct replay_options defaults = {.repeat = 1};

#define AT(member) offsetof(struct replay_options, member)

static const struct mt_option options[] = {
	{.name = "allocator",
	 .argument = "LIBRARY",
	 .kind = MT_OPTION_LIST,
	 .offset = AT(allocators),
	 .help = "allocator to preload, as libjemalloc.so.2; given again: a table of them all "
		 "(default: the present one)"},
	{.name = "touch",
	 .argument = "WHAT",
	 .kind = MT_OPTION_CHOICE,
	 .offset = AT(touch),
	 .choices = "pages|all|none",
	 .help = "what is written of each new block: a byte a page (default), all or none of it"},
	{.name = "repeat",
	 .argument = "N",
	 .kind = MT_OPTION_NUMBER,
	 .offset = AT(repeat),
	 .min = 1,
	 .max = 1000,
	 .help = "replay N times and show the fastest (default 1)"},
	{.name = "json", .kind = MT_OPTION_FLAG, .offset = AT(json), .help = "write JSON"},
	{.letter = 'o',
	 .name = "output",
	 .argument = "FILE",
	 .kind = MT_OPTION_TEXT,
	 .offset = AT(output),
	 .help = "write to FILE instead of standard output"},
	{0},
};

struct results {
	struct mt_replay_result of[65];
	uint32_t count;
	uint64_t peak_bytes; /* of the recording */
	struct mt_mtr_losses whole;
};

/* Bytes at the recording's peak, and what is missing. */
static int measure(const struct mt_mtr *m, struct results *r)
{
	mt_auto(mt_mtr_events) struct mt_mtr_events *e = mt_mtr_events_new(m);
	struct mt_mtr_step s;
	uint64_t live = 0;
	int code = e ? 1 : -ENOMEM;

	while (e && (code = mt_mtr_events_next(e, &s)) == 1) {
		live += s.made.size - s.gone.size;
		r->peak_bytes = MT_MAX(r->peak_bytes, live);
	}
	if (e)
		r->whole = mt_mtr_events_losses(e);
	return code;
}

static int replay_one(const struct mt_recorded *rec, const struct replay_options *o,
		      const char *allocator, struct results *r, struct mt_err *err)
{
	struct mt_replay_options ro = {allocator, (enum mt_replay_touch)o->touch};
	struct mt_replay_result *best = &r->of[r->count], now;

	for (uint64_t i = 0; i < o->repeat; i++) {
		int code = mt_replay_run(&rec->recording, rec->profile, &ro, &now, err);

		if (code)
			return code;
		if (now.peak_bytes != r->peak_bytes)
			return mt_err_set(err, -EIO,
					  "the replay had %" PRIu64 " bytes live at its peak, the "
					  "recording %" PRIu64,
					  now.peak_bytes, r->peak_bytes);
		if (!i || now.time_ns < best->time_ns)
			*best = now;
	}
	r->count++;
	return 0;
}

static int replay_all(const struct mt_recorded *rec, const struct replay_options *o,
		      struct results *r, struct mt_err *err)
{
	int code = measure(&rec->recording, r);

	if (code)
		return mt_err_set_errno(err, code, "cannot read '%s'", rec->path);
	if (!o->allocators.count)
		return replay_one(rec, o, NULL, r, err);
	for (uint32_t i = 0; i < o->allocators.count && !code; i++)
		code = replay_one(rec, o, o->allocators.text[i], r, err);
	return code;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static void write_sum(const struct mt_recorded *rec, const struct results *r, struct mt_buf *out)
{
	const struct mt_replay_result *one = &r->of[0];
	char calls[MT_UNITS_TEXT_MAX], size[MT_UNITS_TEXT_MAX], exact[MT_UNITS_TEXT_MAX],
		resized[MT_UNITS_TEXT_MAX];

	mt_buf_printf(out, "%s calls of %s (pid %d), %s of them realloc, in one thread\n",
		      mt_units_count(one->calls, calls), base_name(rec->profile->exe),
		      (int)rec->profile->pid, mt_units_count(one->reallocs, resized));
	mt_buf_printf(out, "peak live %s (%s B), as in the recording\n\n",
		      mt_units_size(r->peak_bytes, size), mt_units_count(r->peak_bytes, exact));
}

static int write_text(const struct mt_recorded *rec, const struct results *r, struct mt_buf *out)
{
	mt_auto(mt_grid) struct mt_grid g;
	char text[MT_UNITS_TEXT_MAX];

	write_sum(rec, r, out);
	mt_grid_init(&g, "lrrrrr");
	mt_grid_add(&g, "allocator");
	mt_grid_add(&g, "time");
	mt_grid_add(&g, "ns a call");
	mt_grid_add(&g, "peak RSS");
	mt_grid_add(&g, "RSS / live");
	mt_grid_add(&g, "refused");
	for (uint32_t i = 0; i < r->count; i++) {
		const struct mt_replay_result *one = &r->of[i];

		mt_grid_add(&g, base_name(one->allocator));
		mt_grid_add(&g, mt_units_time(one->time_ns, text));
		mt_grid_addf(&g, "%.1f", (double)one->time_ns / (double)MT_MAX(one->calls, 1));
		mt_grid_add(&g, mt_units_size(one->peak_rss_bytes, text));
		mt_grid_addf(&g, "%.2f",
			     (double)one->peak_rss_bytes / (double)MT_MAX(r->peak_bytes, 1));
		mt_grid_add(&g, mt_units_count(one->failed, text));
	}
	return mt_grid_write(&g, 0, out);
}

static int write_json(const struct mt_recorded *rec, const struct results *r, struct mt_buf *out)
{
	struct mt_json j = {.out = out};

	mt_json_open(&j, NULL, '{');
	mt_json_string(&j, "program", rec->profile->exe);
	mt_json_i64(&j, "pid", rec->profile->pid);
	mt_json_u64(&j, "calls", r->of[0].calls);
	mt_json_u64(&j, "allocations", r->of[0].allocs);
	mt_json_u64(&j, "frees", r->of[0].frees);
	mt_json_u64(&j, "reallocs", r->of[0].reallocs);
	mt_json_u64(&j, "peak_bytes", r->peak_bytes);
	mt_json_open(&j, "allocators", '[');
	for (uint32_t i = 0; i < r->count; i++) {
		const struct mt_replay_result *one = &r->of[i];

		mt_json_open(&j, NULL, '{');
		mt_json_string(&j, "library", one->allocator);
		mt_json_u64(&j, "time_ns", one->time_ns);
		mt_json_u64(&j, "peak_bytes", one->peak_bytes);
		mt_json_u64(&j, "live_bytes_at_end", one->live_bytes);
		mt_json_u64(&j, "peak_rss_bytes", one->peak_rss_bytes);
		mt_json_u64(&j, "refused", one->failed);
		mt_json_close(&j, '}');
	}
	mt_json_close(&j, ']');
	mt_json_close(&j, '}');
	return out->failed ? -ENOMEM : 0;
}

/* What makes the replay another than the run. */
static void tell_losses(struct mt_recorded *rec, const struct results *r)
{
	uint32_t before = rec->profile->warning_count;

	mt_mtr_warn(&rec->recording, rec->profile, &r->whole);
	for (uint32_t i = before; i < rec->profile->warning_count; i++)
		mt_complain("%s", rec->profile->warning[i]);
}

static int run(const void *opaque, const struct mt_operands *operands)
{
	const struct replay_options *o = opaque;
	mt_auto(mt_recorded) struct mt_recorded rec = {.recording = {.fd = -1}};
	mt_auto(mt_output) struct mt_output out;
	struct results r = {.count = 0};
	struct mt_err err = {0};
	int code;

	mt_output_init(&out, o->output);
	code = mt_recorded_open(&rec, operands->text[0], &err);
	if (!code)
		code = replay_all(&rec, o, &r, &err);
	if (!code) {
		tell_losses(&rec, &r);
		code = o->json ? write_json(&rec, &r, &out.text) : write_text(&rec, &r, &out.text);
		if (code)
			mt_err_no_memory(&err);
	}
	return mt_output_end(&out, code, &err);
}

static const char *const examples[] = {
	"memtrack replay memtrack.server.4711.mtr",
	"time and memory of the same calls with the present allocator",
	"memtrack replay a.mtr --allocator=/usr/lib/x86_64-linux-gnu/libjemalloc.so.2 "
	"--allocator=/usr/lib/x86_64-linux-gnu/libmimalloc.so.2",
	"two allocators side by side",
	NULL,
};

const struct mt_command mt_cmd_replay = {
	.name = "replay",
	.summary = "run a recorded allocation trace against other allocators",
	.operands = "RECORDING",
	.operands_min = 1,
	.operands_max = 1,
	.options = options,
	.options_bytes = sizeof(struct replay_options),
	.defaults = &defaults,
	.description =
		"Makes the calls of a recording (mode record of memtrack run) again, in a fresh "
		"process for each allocator: malloc, calloc, realloc and aligned allocations of "
		"the "
		"same sizes, and the frees, in the same order. RECORDING is NAME.mtr or its state "
		"file NAME.mtk; both must lie side by side.\n\n"
		"One thread makes all calls, one after the other, so that the same recording "
		"always "
		"gives the same calls: what threads cost an allocator is not measured. The time is "
		"that of the calls and of writing to the blocks (--touch); RSS is what the process "
		"grew by at its highest, without the table of pointers that the replay keeps. "
		"Bytes "
		"that are live at the peak are compared with the recording; a difference is an "
		"error.\n\n"
		"Calls that a recording lacks, because events were dropped or it was cut, are "
		"named "
		"first. Blocks that are left at the end are not freed.",
	.examples = examples,
	.see_also = "memtrack(1), memtrack-run(1), mtr(5)",
	.run = run,
};
