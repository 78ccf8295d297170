/* SPDX-License-Identifier: MIT */
/* Lists of processes, the machine, control groups. */

#include "report/meminfo.h"

#include "base/units.h"
#include "report/grid.h"
#include "report/internal.h"
#include "target/memory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { NAME_MOST = 80 };

/* ---- processes ---- */

static const enum mt_account_column columns[] = {MT_ACCOUNT_SIZE, MT_ACCOUNT_RSS, MT_ACCOUNT_PSS,
						 MT_ACCOUNT_USS, MT_ACCOUNT_SWAP};

static void add_sum(struct mt_grid *g, const struct mt_smaps_sum *s)
{
	char text[MT_UNITS_TEXT_MAX];

	for (size_t i = 0; i < MT_ARRAY_LEN(columns); i++) {
		uint64_t bytes = mt_account_value(s, columns[i]);

		if (!mt_account_has(s, columns[i]))
			mt_grid_add(g, "-");
		else
			mt_grid_add(g, bytes ? mt_units_size(bytes, text) : "0");
	}
}

/* The part of a name that a table has room for, whole characters. */
static int cut_to(const char *name, int most)
{
	int len = (int)strlen(name);

	if (len <= most)
		return len;
	while (most && ((unsigned char)name[most] & 0xc0) == 0x80)
		most--;
	return most;
}

/* The program's name in a command line, for a sentence. */
static void add_program(const char *command, struct mt_buf *out)
{
	mt_auto(mt_buf) struct mt_buf word = {0};
	const char *slash;

	out->failed |= mt_buf_add(&word, command, strcspn(command, " ")) != 0;
	slash = strrchr(mt_buf_text(&word), '/');
	mt_text_line(out, "", slash ? slash + 1 : mt_buf_text(&word), "");
}

void mt_meminfo_add_list(const struct mt_usage *usage, size_t count, size_t top, struct mt_buf *out)
{
	static const char *const heads[] = {"pid", "Vss", "Rss", "Pss", "Uss", "swap", "command"};
	mt_auto(mt_grid) struct mt_grid g = {0};
	struct mt_smaps_sum total = {0}, rest = {0};

	mt_grid_init(&g, "rrrrrrl");
	for (size_t i = 0; i < MT_ARRAY_LEN(heads); i++)
		mt_grid_add(&g, heads[i]);
	for (size_t i = 0; i < count; i++) {
		mt_smaps_sum_add(&total, &usage[i].sum);
		if (top && i >= top) {
			mt_smaps_sum_add(&rest, &usage[i].sum);
			continue;
		}
		mt_grid_addf(&g, "%d", (int)usage[i].pid);
		add_sum(&g, &usage[i].sum);
		mt_grid_addf(&g, "%.*s", cut_to(usage[i].name, NAME_MOST), usage[i].name);
	}
	if (top && count > top) {
		mt_grid_add(&g, "");
		add_sum(&g, &rest);
		mt_grid_addf(&g, "(%zu more)", count - top);
	}
	mt_grid_add(&g, "");
	add_sum(&g, &total);
	mt_grid_add(&g, "TOTAL");
	out->failed |= mt_grid_write(&g, 0, out) != 0;
}

static void add_list_verdict(const struct mt_usage *usage, size_t count, struct mt_buf *out)
{
	struct mt_smaps_sum total = {0};
	size_t partial = 0;
	char text[MT_UNITS_TEXT_MAX];

	for (size_t i = 0; i < count; i++) {
		mt_smaps_sum_add(&total, &usage[i].sum);
		partial += usage[i].is_partial;
	}
	mt_buf_printf(out, "%zu process%s: ", count, count == 1 ? "" : "es");
	if (mt_smaps_has(&total, MT_SMAPS_PSS))
		mt_buf_printf(out, "Pss %s in all", mt_units_size(total.bytes[MT_SMAPS_PSS], text));
	else
		mt_buf_adds(out, "Pss is not known");
	if (count && usage[0].sum.bytes[MT_SMAPS_PSS]) {
		mt_buf_printf(out, ", most of it in %d (", (int)usage[0].pid);
		add_program(usage[0].name, out);
		mt_buf_printf(out, "): %s", mt_units_size(usage[0].sum.bytes[MT_SMAPS_PSS], text));
	}
	mt_buf_addc(out, '\n');
	if (partial)
		mt_buf_printf(out,
			      "warning: %zu of them may not be looked at (that takes root): they "
			      "are in Rss, but not in Pss and Uss\n",
			      partial);
}

/* As procrank's last line. */
static void add_machine_line(const struct mt_whole *w, struct mt_buf *out)
{
	char text[MT_UNITS_TEXT_MAX];
	uint64_t available = mt_whole_fact(w, "available_bytes");

	mt_buf_printf(out, "RAM: %s", mt_units_size(w->bytes, text));
	if (available != MT_MEMORY_UNKNOWN)
		mt_buf_printf(out, ", available %s", mt_units_size(available, text));
	for (size_t i = 0; i < w->parts; i++)
		if (w->part[i].bytes)
			mt_buf_printf(out, ", %s %s", w->part[i].name,
				      mt_units_size(w->part[i].bytes, text));
	mt_buf_addc(out, '\n');
}

void mt_meminfo_json_list(const struct mt_usage *usage, size_t count, size_t top, struct mt_json *j)
{
	struct mt_smaps_sum total = {0};
	size_t partial = 0;

	mt_json_open(j, "processes", '[');
	for (size_t i = 0; i < count; i++) {
		mt_smaps_sum_add(&total, &usage[i].sum);
		partial += usage[i].is_partial;
		if (top && i >= top)
			continue;
		mt_json_open(j, NULL, '{');
		mt_json_i64(j, "pid", usage[i].pid);
		mt_json_string(j, "command", usage[i].name);
		mt_json_bool(j, "is_partial", usage[i].is_partial);
		mt_maps_json_sum(j, &usage[i].sum);
		mt_json_close(j, '}');
	}
	mt_json_close(j, ']');
	mt_json_u64(j, "partial", partial);
	mt_json_open(j, "total", '{');
	mt_maps_json_sum(j, &total);
	mt_json_close(j, '}');
}

static void csv_list(const struct mt_usage *usage, size_t count, size_t top, struct mt_buf *out)
{
	mt_buf_adds(out, "pid,command,partial,");
	mt_maps_csv_names(out);
	mt_buf_addc(out, '\n');
	for (size_t i = 0; i < count && (!top || i < top); i++) {
		mt_buf_printf(out, "%d,", (int)usage[i].pid);
		mt_csv_field(out, usage[i].name, false);
		mt_buf_printf(out, "%d,", usage[i].is_partial);
		mt_maps_csv_values(&usage[i].sum, out);
		mt_buf_addc(out, '\n');
	}
}

/* ---- wholes of parts ---- */

static void add_part(struct mt_grid *g, const char *name, int64_t bytes, uint64_t whole,
		     const char *what)
{
	char text[MT_UNITS_TEXT_MAX];

	mt_grid_add(g, name);
	mt_grid_add(g, bytes ? mt_units_size_signed(bytes, text) + (bytes > 0) : "0");
	mt_grid_add(g, bytes < 0 ? "" : mt_units_percent((uint64_t)bytes, whole, text));
	mt_grid_add(g, what);
}

static int add_parts(const struct mt_whole *w, struct mt_buf *out)
{
	mt_auto(mt_grid) struct mt_grid g = {0};
	char text[MT_UNITS_TEXT_MAX];

	mt_grid_init(&g, "lrrl");
	for (size_t i = 0; i < w->parts; i++)
		add_part(&g, w->part[i].name, (int64_t)w->part[i].bytes, w->bytes, w->part[i].what);
	add_part(&g, "(rest)", w->rest_bytes, w->bytes,
		 w->rest_bytes < 0 ? "counters overlap, or lag behind"
				   : "drivers, and what the kernel names nowhere");
	add_part(&g, "TOTAL", (int64_t)w->bytes, w->bytes, "");
	if (w->facts) {
		for (int i = 0; i < 4; i++)
			mt_grid_add(&g, "");
		for (size_t i = 0; i < w->facts; i++) {
			mt_grid_add(&g, w->fact[i].name);
			if (!strcmp(w->fact[i].key, "oom_kills"))
				mt_grid_addf(&g, "%" PRIu64, w->fact[i].bytes);
			else
				mt_grid_add(&g, mt_units_size(w->fact[i].bytes, text));
			mt_grid_add(&g, "");
			mt_grid_add(&g, w->fact[i].what);
		}
	}
	return mt_grid_write(&g, 0, out);
}

static void json_whole(const struct mt_whole *w, struct mt_json *j)
{
	mt_json_u64(j, "total_bytes", w->bytes);
	mt_json_open(j, "parts", '{');
	for (size_t i = 0; i < w->parts; i++)
		mt_json_u64(j, w->part[i].key, w->part[i].bytes);
	mt_json_close(j, '}');
	mt_json_i64(j, "rest_bytes", w->rest_bytes);
	mt_json_open(j, "facts", '{');
	for (size_t i = 0; i < w->facts; i++)
		mt_json_u64(j, w->fact[i].key, w->fact[i].bytes);
	mt_json_close(j, '}');
}

static void csv_whole(const struct mt_whole *w, struct mt_buf *out)
{
	mt_buf_printf(out, "name,value\ntotal_bytes,%" PRIu64 "\n", w->bytes);
	for (size_t i = 0; i < w->parts; i++)
		mt_buf_printf(out, "%s,%" PRIu64 "\n", w->part[i].key, w->part[i].bytes);
	mt_buf_printf(out, "rest_bytes,%" PRId64 "\n", w->rest_bytes);
	for (size_t i = 0; i < w->facts; i++)
		mt_buf_printf(out, "%s,%" PRIu64 "\n", w->fact[i].key, w->fact[i].bytes);
}

/* The part with the most, but for what is free. */
static const struct mt_part *widest(const struct mt_whole *w)
{
	const struct mt_part *best = NULL;

	for (size_t i = 0; i < w->parts; i++)
		if (strcmp(w->part[i].key, "free_bytes") != 0 &&
		    (!best || w->part[i].bytes > best->bytes))
			best = &w->part[i];
	return best && best->bytes ? best : NULL;
}

static void add_widest(const struct mt_whole *w, struct mt_buf *out)
{
	const struct mt_part *best = widest(w);
	char text[MT_UNITS_TEXT_MAX];

	if (best)
		mt_buf_printf(out, "; most is %s (%s)", best->name,
			      mt_units_percent(best->bytes, w->bytes, text));
	mt_buf_addc(out, '\n');
}

/* ---- what is exported ---- */

int mt_meminfo_list(const struct mt_usage *usage, size_t count, const struct mt_whole *machine,
		    size_t top, enum mt_maps_format format, struct mt_buf *out)
{
	struct mt_json j = {.out = out};

	if (format == MT_MAPS_JSON) {
		mt_json_open(&j, NULL, '{');
		mt_json_string(&j, "schema", MT_MEMINFO_SCHEMA);
		mt_json_string(&j, "show", "processes");
		mt_meminfo_json_list(usage, count, top, &j);
		if (machine) {
			mt_json_open(&j, "system", '{');
			json_whole(machine, &j);
			mt_json_close(&j, '}');
		}
		mt_json_close(&j, '}');
	} else if (format == MT_MAPS_CSV) {
		csv_list(usage, count, top, out);
	} else {
		add_list_verdict(usage, count, out);
		mt_meminfo_add_list(usage, count, top, out);
		if (machine)
			add_machine_line(machine, out);
	}
	return out->failed ? -ENOMEM : 0;
}

int mt_meminfo_machine(const struct mt_whole *w, const char *name, enum mt_maps_format format,
		       struct mt_buf *out)
{
	struct mt_json j = {.out = out};
	uint64_t available = mt_whole_fact(w, "available_bytes");
	char text[MT_UNITS_TEXT_MAX];
	int code = 0;

	if (format == MT_MAPS_JSON) {
		mt_json_open(&j, NULL, '{');
		mt_json_string(&j, "schema", MT_MEMINFO_SCHEMA);
		mt_json_string(&j, "show", "system");
		mt_json_string(&j, "name", name);
		json_whole(w, &j);
		mt_json_close(&j, '}');
	} else if (format == MT_MAPS_CSV) {
		csv_whole(w, out);
	} else {
		mt_text_line(out, "'", name, "': ");
		if (available == MT_MEMORY_UNKNOWN)
			mt_buf_printf(out, "%s of memory", mt_units_size(w->bytes, text));
		else
			mt_buf_printf(out, "%s of memory is available, ",
				      mt_units_percent(available, w->bytes, text));
		if (available != MT_MEMORY_UNKNOWN)
			mt_buf_printf(out, "%s", mt_units_size(available, text));
		add_widest(w, out);
		code = add_parts(w, out);
	}
	return code || out->failed ? -ENOMEM : 0;
}

static void add_group_verdict(const struct mt_cgroup *g, struct mt_buf *out)
{
	uint64_t limit = mt_whole_fact(&g->memory, "limit_bytes");
	uint64_t kills = mt_whole_fact(&g->memory, "oom_kills");
	char text[MT_UNITS_TEXT_MAX];

	mt_text_line(out, "control group '", g->folder, "': ");
	mt_buf_adds(out, mt_units_size(g->memory.bytes, text));
	if (limit == MT_MEMORY_UNKNOWN)
		mt_buf_adds(out, ", without a limit");
	else
		mt_buf_printf(out, " of %s", mt_units_size(limit, text));
	if (kills && kills != MT_MEMORY_UNKNOWN)
		mt_buf_printf(out, "; %" PRIu64 " processes were killed for memory", kills);
	add_widest(&g->memory, out);
}

int mt_meminfo_cgroup(const struct mt_cgroup *g, const struct mt_usage *usage, size_t count,
		      size_t top, enum mt_maps_format format, struct mt_buf *out)
{
	struct mt_json j = {.out = out};
	int code = 0;

	if (format == MT_MAPS_JSON) {
		mt_json_open(&j, NULL, '{');
		mt_json_string(&j, "schema", MT_MEMINFO_SCHEMA);
		mt_json_string(&j, "show", "cgroup");
		mt_json_string(&j, "name", g->folder);
		mt_json_i64(&j, "version", g->version);
		json_whole(&g->memory, &j);
		mt_meminfo_json_list(usage, count, top, &j);
		mt_json_close(&j, '}');
	} else if (format == MT_MAPS_CSV) {
		csv_whole(&g->memory, out);
	} else {
		add_group_verdict(g, out);
		code = add_parts(&g->memory, out);
		mt_buf_addc(out, '\n');
		add_list_verdict(usage, count, out);
		mt_meminfo_add_list(usage, count, top, out);
	}
	return code || out->failed ? -ENOMEM : 0;
}
