/* SPDX-License-Identifier: MIT */
/* memtrack export: what was recorded, for other programs. */

#include "cli/commands.h"
#include "cli/load.h"
#include "cli/output.h"
#include "cli/report_options.h"

#include "base/file.h"
#include "core/cc.h"
#include "formats/heapdump_write.h"
#include "formats/mtr_activity.h"
#include "formats/mtr_events.h"
#include "formats/record_allocs.h"
#include "model/records.h"
#include "target/process.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct export_options {
	int format; /* -1: not given */
	uint64_t step_ns;
	const char *output;
	int dump_version;                               /* as in --dump-version's choices */
	bool bt_info, no_symbols, no_cache, debuginfod; /* symbols: for bt_info */
	struct mt_text_list symbol_dirs;
};

enum { FORMAT_RECORD_ALLOCS, FORMAT_ACTIVITY, FORMAT_HEAPDUMP }; /* as in --format's choices */
enum { DUMP_1_2 = 2, DUMP_FIRST = 10 };
enum { MAPS_BYTES_MAX = 256 << 20 };

static const struct export_options defaults = {.format = -1, .dump_version = DUMP_1_2};

static const struct mt_option options[] = {
	{.name = "format",
	 .argument = "FORMAT",
	 .kind = MT_OPTION_CHOICE,
	 .offset = offsetof(struct export_options, format),
	 .choices = "record_allocs|activity|heapdump",
	 .help = "what to write: of a recording record_allocs (every call, as Android's malloc "
		 "debug writes it) or activity (what each thread did when, as CSV); of anything "
		 "heapdump (what is live, as an Android Native Heap Dump)"},
	{.name = "step",
	 .argument = "TIME",
	 .kind = MT_OPTION_TIME,
	 .offset = offsetof(struct export_options, step_ns),
	 .min = 1,
	 .least = "1ns",
	 .help = "activity: length of a step of time (default: a hundredth of the run)"},
	{.name = "dump-version",
	 .argument = "VERSION",
	 .kind = MT_OPTION_CHOICE,
	 .offset = offsetof(struct export_options, dump_version),
	 .choices = "1.0|1.1|1.2",
	 .help = "heapdump: version of the format (default: 1.2)"},
	{.name = "bt-info",
	 .kind = MT_OPTION_FLAG,
	 .offset = offsetof(struct export_options, bt_info),
	 .help = "heapdump: add a line with the functions' names to each record (version 1.2)"},
	MT_SYMBOL_OPTION_ENTRIES(struct export_options, ),
	{.letter = 'o',
	 .name = "output",
	 .argument = "FILE",
	 .kind = MT_OPTION_TEXT,
	 .offset = offsetof(struct export_options, output),
	 .help = "write to FILE instead of standard output"},
	{0},
};

/* What the recording lacks; reads it once more. */
static int tell_losses(struct mt_recorded *rec)
{
	mt_auto(mt_mtr_events) struct mt_mtr_events *e = mt_mtr_events_new(&rec->recording);
	uint32_t before = rec->profile->warning_count;
	struct mt_mtr_losses whole;
	struct mt_mtr_step s;
	int code = e ? 1 : -ENOMEM;

	while (e && (code = mt_mtr_events_next(e, &s)) == 1)
		;
	if (code)
		return code;
	whole = mt_mtr_events_losses(e);
	mt_mtr_warn(&rec->recording, rec->profile, &whole);
	for (uint32_t i = before; i < rec->profile->warning_count; i++)
		mt_complain("%s", rec->profile->warning[i]);
	return 0;
}

static int write_format(struct mt_recorded *rec, const struct export_options *o, struct mt_buf *out)
{
	if (o->format == FORMAT_ACTIVITY)
		return mt_mtr_activity_write(&rec->recording, rec->profile, o->step_ns, out);
	return mt_record_allocs_write(&rec->recording, rec->profile, out);
}

static int export_recording(const char *path, const struct export_options *o, struct mt_output *out,
			    struct mt_err *err)
{
	mt_auto(mt_recorded) struct mt_recorded rec = {.recording = {.fd = -1}};
	int code = mt_recorded_open(&rec, path, err);

	if (!code && tell_losses(&rec))
		code = mt_err_no_memory(err);
	if (!code && write_format(&rec, o, &out->text))
		code = mt_err_no_memory(err);
	return code;
}

/* ---- heap dumps ---- */

/* The function that holds the frame, not those inlined into it: its begin is what offsets are of.
 */
static const char *name_function(void *context, const struct mt_profile *p, uint32_t node,
				 uint64_t *ret_offset)
{
	const struct mt_loaded *l = context;
	const struct mt_symbol_frame *frame = NULL;
	uint32_t count = 0;

	if (l->symbols[0])
		frame = mt_symbols_node(l->symbols[0], node, &count);
	if (!count || !frame[count - 1].function)
		return p->given_name ? p->given_name[node] : NULL;
	*ret_offset = frame[count - 1].has_offset ? frame[count - 1].offset : 0;
	return frame[count - 1].function;
}

/* Text of the live process's memory map; NULL: it is gone, or will not tell. Heap. */
static char *read_maps(const struct mt_profile *p)
{
	struct mt_err err = {0};
	char path[64], *maps = NULL;
	size_t len;

	if (!p->process_alive || p->snapshot)
		return NULL;
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)p->pid);
	if (mt_file_read(path, MAPS_BYTES_MAX, &maps, &len, &err)) {
		mt_complain("%s; MAPS is made from the modules that were recorded", err.text);
		return NULL;
	}
	if (mt_process_is_running(p->pid, p->proc_start_ticks, p->boot_id))
		return maps;
	free(maps); /* it may be another process's */
	return NULL;
}

/* What the dump lacks or says inexactly. */
static void tell_gaps(const struct mt_profile *p, const struct mt_records *records,
		      uint64_t unplaced)
{
	uint64_t known = 0;

	for (size_t i = 0; i < records->count; i++)
		known += records->record[i].count;
	for (uint32_t i = 0; i < p->warning_count; i++)
		mt_complain("%s", p->warning[i]);
	if (records->is_estimate)
		mt_complain("blocks were sampled: numbers in the dump are estimates");
	else if (p->snapshot)
		mt_complain("a snapshot tells no sizes of single blocks: the dump has the mean "
			    "size of each call site");
	else if (!p->process_alive && known < p->live_count)
		mt_complain("%" PRIu64 " of %" PRIu64
			    " live blocks are only counted and not in the dump",
			    p->live_count - known, p->live_count);
	if (unplaced)
		mt_complain("%" PRIu64 " frames have a file and a line, but no address, and are "
			    "not in the dump",
			    unplaced);
}

static int write_dump(struct mt_loaded *l, const struct export_options *o, struct mt_buf *out,
		      struct mt_err *err)
{
	const struct mt_profile *p = l->profile[0];
	mt_auto(mt_records) struct mt_records records = {0};
	mt_auto(free) char *maps = read_maps(p);
	struct mt_heapdump_options how = {
		.version = DUMP_FIRST + (uint32_t)o->dump_version,
		.maps = maps,
		.function = o->bt_info ? name_function : NULL,
		.context = l,
	};
	uint64_t unplaced = 0;

	if (mt_records_make(p, &records) || mt_heapdump_write(p, &records, &how, out, &unplaced))
		return mt_err_no_memory(err);
	tell_gaps(p, &records, unplaced);
	return 0;
}

static int export_dump(const struct mt_operands *operands, const struct export_options *o,
		       struct mt_output *out, struct mt_err *err)
{
	mt_auto(mt_loaded) struct mt_loaded loaded = {0};
	struct mt_load_symbols symbols = {
		.dirs = &o->symbol_dirs, .no_cache = o->no_cache, .debuginfod = o->debuginfod};
	int code;

	mt_load_catch_interrupt();
	code = mt_loaded_add_sides(&loaded, operands, err);
	if (!code && o->bt_info && !o->no_symbols)
		code = mt_loaded_symbolize(&loaded, &symbols, err);
	return code ? code : write_dump(&loaded, o, &out->text, err);
}

static int run(const void *opaque, const struct mt_operands *operands)
{
	const struct export_options *o = opaque;
	mt_auto(mt_output) struct mt_output out;
	struct mt_err err = {0};
	int code;

	mt_output_init(&out, o->output);
	if (o->format < 0) {
		mt_complain("export: --format is missing; see 'memtrack export --help'");
		return MT_EXIT_USAGE;
	}
	if (o->bt_info && o->dump_version != DUMP_1_2) {
		mt_complain("export: --bt-info needs --dump-version=1.2");
		return MT_EXIT_USAGE;
	}
	if (o->format == FORMAT_HEAPDUMP)
		code = export_dump(operands, o, &out, &err);
	else
		code = export_recording(operands->text[0], o, &out, &err);
	return mt_output_end(&out, code, &err);
}

static const char *const examples[] = {
	"memtrack export memtrack.server.4711.mtr --format=record_allocs -o allocs.txt",
	"for programs that read Android's allocation records",
	"memtrack export 4711 --format=heapdump --bt-info -o heap.txt",
	"what is live in a running process, as 'am dumpheap -n' writes it on Android",
	NULL,
};

const struct mt_command mt_cmd_export = {
	.name = "export",
	.summary = "write what was recorded in a format of other programs",
	.operands = "FILE|PID|name:PROGRAM",
	.operands_min = 1,
	.operands_max = 1,
	.options = options,
	.options_bytes = sizeof(struct export_options),
	.defaults = &defaults,
	.description =
		"record_allocs: one line a call, as bionic's malloc debug option of that name "
		"writes them and its memory_replay reads: thread id, function, address, what else "
		"the function was given, begin and end in nanoseconds. FILE is a recording (mode "
		"record of memtrack run), NAME.mtr, or its state file NAME.mtk beside it. A "
		"recording has no addresses: those in the text are made up, each is used once, and "
		"aligned as was asked for. Times are since the program's start, in steps of about "
		"a "
		"millisecond, begin and end the same. calloc has its product as one element. Calls "
		"that failed are not recorded; operator new and strdup appear as malloc.\n\n"
		"activity: CSV with a line for each thread and step of time in which it did "
		"something: begin of the step in nanoseconds since the start, thread id and name, "
		"allocations, their bytes, frees, their bytes, and what was live in the process "
		"when the step ended.\n\n"
		"heapdump: what is live of the malloc family, as the text that Android's malloc "
		"debug and 'am dumpheap -n' write, one record for each call stack and size; see "
		"memtrack-view(1). FILE may also be a state file, a PID or name:PROGRAM (the live "
		"state of that process), FILE@WHICH (a snapshot of its series; sizes are then "
		"means) or a heap dump. MAPS is the process's own memory map while it is there; "
		"later it is made from the recorded modules, one line each, as if files were "
		"mapped in one piece. Lines that begin with 'module' stand before it, with "
		"the exact place and the build-id of each module: memtrack reads them, other "
		"readers leave them out.",
	.examples = examples,
	.see_also = "memtrack(1), memtrack-run(1), memtrack-replay(1), memtrack-view(1), mtr(5)",
	.run = run,
};
