/* SPDX-License-Identifier: MIT */
/* Tables of mappings: a sentence, the rows, what was left out, the total. */

#include "report/maps.h"

#include "base/units.h"
#include "report/grid.h"
#include "report/internal.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What a reader sees: fewer columns than there are fields. */
static const enum mt_account_column shown[] = {
	MT_ACCOUNT_SIZE, MT_ACCOUNT_RSS,  MT_ACCOUNT_PSS,  MT_ACCOUNT_USS, MT_ACCOUNT_PRIVATE_DIRTY,
	MT_ACCOUNT_ANON, MT_ACCOUNT_FILE, MT_ACCOUNT_SWAP, MT_ACCOUNT_HUGE};
static const enum mt_account_column grown[] = {MT_ACCOUNT_RSS, MT_ACCOUNT_PSS, MT_ACCOUNT_USS,
					       MT_ACCOUNT_SWAP, MT_ACCOUNT_SIZE};
/* of a core file */
static const enum mt_account_column held[] = {MT_ACCOUNT_SIZE, MT_ACCOUNT_DUMPED};

enum { SENTENCE = 64, FLAGS = 5 };

static int64_t growth(const struct mt_smaps_sum *now, const struct mt_smaps_sum *old,
		      enum mt_account_column column)
{
	return (int64_t)(mt_account_value(now, column) - mt_account_value(old, column));
}

static bool is_core(const struct mt_maps_view *v)
{
	return v->s->kind == MT_SMAPS_CORE;
}

/* The columns with values; returned is how many. */
static size_t columns_of(const struct mt_maps_view *v, const enum mt_account_column **ret_columns)
{
	*ret_columns = is_core(v) ? held : v->old_name ? grown : shown;
	return is_core(v)    ? MT_ARRAY_LEN(held)
	       : v->old_name ? MT_ARRAY_LEN(grown)
			     : MT_ARRAY_LEN(shown);
}

/* Now, and at the earlier moment if there is one. */
static bool is_known(const struct mt_maps_view *v, enum mt_account_column column)
{
	return mt_account_has(&v->a->total, column) &&
	       (!v->old_name || mt_account_has(&v->a->old_total, column));
}

/* The measure that sentences speak of. */
static enum mt_account_column measure(const struct mt_maps_view *v)
{
	if (v->sort < MT_ACCOUNT_VALUES && v->sort != MT_ACCOUNT_COUNT && is_known(v, v->sort))
		return v->sort;
	return is_known(v, MT_ACCOUNT_RSS) ? MT_ACCOUNT_RSS : MT_ACCOUNT_SIZE;
}

static const char *title_of(enum mt_account_column column)
{
	static const char *const titles[MT_ACCOUNT_VALUES] = {
		[MT_ACCOUNT_RSS] = "Rss",       [MT_ACCOUNT_PSS] = "Pss",
		[MT_ACCOUNT_USS] = "Uss",       [MT_ACCOUNT_PRIVATE_DIRTY] = "private dirty",
		[MT_ACCOUNT_SHARED] = "shared", [MT_ACCOUNT_ANON] = "anon",
		[MT_ACCOUNT_FILE] = "file",     [MT_ACCOUNT_SWAP] = "swap",
		[MT_ACCOUNT_HUGE] = "huge",     [MT_ACCOUNT_SIZE] = "size",
		[MT_ACCOUNT_COUNT] = "#",       [MT_ACCOUNT_DUMPED] = "dumped"};

	return titles[column];
}

/* ---- text ---- */

static void add_subject(const struct mt_maps_view *v, struct mt_buf *out)
{
	if (v->pid)
		mt_buf_printf(out, "process %d (", (int)v->pid);
	mt_text_line(out, v->pid ? "" : "'", v->name, v->pid ? ")" : "'");
}

/* The row with most of a measure; NULL: no row has any. */
static const struct mt_account_row *widest(const struct mt_maps_view *v,
					   enum mt_account_column column)
{
	const struct mt_account_row *best = NULL;
	int64_t most = 0;

	for (size_t i = 0; i < v->a->count; i++) {
		const struct mt_account_row *row = &v->a->row[i];
		int64_t bytes = v->old_name ? growth(&row->now, &row->old, column)
					    : (int64_t)mt_account_value(&row->now, column);

		if (bytes > most) {
			best = row;
			most = bytes;
		}
	}
	return best;
}

static void add_level(const struct mt_maps_view *v, struct mt_buf *out)
{
	static const enum mt_account_column said[] = {
		MT_ACCOUNT_RSS, MT_ACCOUNT_PSS, MT_ACCOUNT_USS, MT_ACCOUNT_SWAP, MT_ACCOUNT_DUMPED};
	const struct mt_smaps_sum *t = &v->a->total;
	char text[MT_UNITS_TEXT_MAX];

	for (size_t i = 0; i < MT_ARRAY_LEN(said); i++) {
		uint64_t bytes = mt_account_value(t, said[i]);

		if (mt_account_has(t, said[i]) && (bytes || said[i] != MT_ACCOUNT_SWAP))
			mt_buf_printf(out, "%s %s, ", title_of(said[i]),
				      mt_units_size(bytes, text));
	}
	if (mt_account_has(t, MT_ACCOUNT_SIZE))
		mt_buf_printf(out, "%s of addresses in %" PRIu64 " mapping%s",
			      mt_units_size(t->size_bytes, text), t->mappings,
			      t->mappings == 1 ? "" : "s");
	else
		mt_buf_adds(out, "size not known");
}

/* One line: how much, and where most of it is. */
static void add_verdict(const struct mt_maps_view *v, struct mt_buf *out)
{
	enum mt_account_column column = measure(v);
	const struct mt_account_row *row = widest(v, column);
	uint64_t whole = mt_account_value(&v->a->total, column);
	char text[MT_UNITS_TEXT_MAX];
	int64_t change;

	add_subject(v, out);
	mt_buf_adds(out, ": ");
	if (v->old_name) {
		change = growth(&v->a->total, &v->a->old_total, column);
		mt_buf_printf(
			out, "%s %s %s since ", title_of(column),
			change < 0 ? "fell by" : "grew by",
			mt_units_size(change < 0 ? -(uint64_t)change : (uint64_t)change, text));
		mt_text_line(out, "'", v->old_name, "'");
		if (row) {
			mt_text_line(out, ", most in ", row->name, "");
			mt_buf_printf(
				out, " (%s)",
				mt_units_size_signed(growth(&row->now, &row->old, column), text));
		}
	} else {
		add_level(v, out);
		if (row && v->a->count > 1) {
			mt_text_line(out, "; most of it: ", row->name, "");
			mt_buf_printf(
				out, " (%s of %s)",
				mt_units_percent(mt_account_value(&row->now, column), whole, text),
				title_of(column));
		}
	}
	mt_buf_addc(out, '\n');
}

static void add_cell(struct mt_grid *g, const struct mt_smaps_sum *total,
		     const struct mt_smaps_sum *s, enum mt_account_column column)
{
	char text[MT_UNITS_TEXT_MAX];
	uint64_t bytes = mt_account_value(s, column);

	if (!mt_account_has(total, column))
		mt_grid_add(g, "-");
	else
		mt_grid_add(g, bytes ? mt_units_size(bytes, text) : "0");
}

static void add_grown_cell(struct mt_grid *g, const struct mt_maps_view *v,
			   const struct mt_smaps_sum *now, const struct mt_smaps_sum *old,
			   enum mt_account_column column)
{
	char text[MT_UNITS_TEXT_MAX];
	int64_t change = growth(now, old, column);

	/* what one side does not know has no difference */
	if (!is_known(v, column))
		mt_grid_add(g, "-");
	else
		mt_grid_add(g, change ? mt_units_size_signed(change, text) : "0");
}

static void add_values(struct mt_grid *g, const struct mt_maps_view *v,
		       const struct mt_smaps_sum *now, const struct mt_smaps_sum *old)
{
	const enum mt_account_column *columns;
	size_t count = columns_of(v, &columns);

	for (size_t i = 0; i < count; i++) {
		add_cell(g, &v->a->total, now, columns[i]);
		if (v->old_name)
			add_grown_cell(g, v, now, old, columns[i]);
	}
}

/* "rw-p"; a core file does not tell what was shared. */
static const char *flags_of(const struct mt_maps_view *v, uint32_t flags, char text[FLAGS])
{
	snprintf(text, FLAGS, "%c%c%c%c", flags & MT_MAPPING_READ ? 'r' : '-',
		 flags & MT_MAPPING_WRITE ? 'w' : '-', flags & MT_MAPPING_EXEC ? 'x' : '-',
		 is_core(v)                  ? '?'
		 : flags & MT_MAPPING_SHARED ? 's'
					     : 'p');
	return text;
}

/* The last columns, but the name. */
static void add_place(struct mt_grid *g, const struct mt_maps_view *v,
		      const struct mt_account_row *row)
{
	char text[FLAGS];

	if (v->a->by == MT_ACCOUNT_MAPPING) {
		mt_grid_addf(g, "%" PRIx64 "-%" PRIx64, row->start, row->end);
		mt_grid_add(g, flags_of(v, row->flags, text));
	} else {
		mt_grid_addf(g, "%" PRIu64, row->now.mappings);
	}
	if (v->a->by != MT_ACCOUNT_KIND)
		mt_grid_add(g, mt_vma_kind_name(row->label.kind, v->a->rules));
}

static void add_row(struct mt_grid *g, const struct mt_maps_view *v,
		    const struct mt_account_row *row)
{
	add_values(g, v, &row->now, &row->old);
	add_place(g, v, row);
	if (v->old_name && !row->was_there)
		mt_grid_addf(g, "%s (new)", row->name);
	else if (v->old_name && !row->is_there)
		mt_grid_addf(g, "%s (gone)", row->name);
	else
		mt_grid_add(g, row->name);
}

static void add_heads(struct mt_grid *g, const struct mt_maps_view *v)
{
	const enum mt_account_column *columns;
	size_t count = columns_of(v, &columns);

	for (size_t i = 0; i < count; i++) {
		mt_grid_add(g, title_of(columns[i]));
		if (v->old_name)
			mt_grid_add(g, "+/-");
	}
	if (v->a->by == MT_ACCOUNT_MAPPING) {
		mt_grid_add(g, "address");
		mt_grid_add(g, "");
	} else {
		mt_grid_add(g, "#");
	}
	if (v->a->by != MT_ACCOUNT_KIND)
		mt_grid_add(g, "kind");
	mt_grid_add(g, v->a->by == MT_ACCOUNT_KIND ? "kind" : "object");
}

/* A row of sums without a place. */
static void add_sums(struct mt_grid *g, const struct mt_maps_view *v,
		     const struct mt_account_row *sum, const char *name)
{
	add_values(g, v, &sum->now, &sum->old);
	if (v->a->by == MT_ACCOUNT_MAPPING) {
		mt_grid_add(g, "");
		mt_grid_add(g, "");
	} else {
		mt_grid_addf(g, "%" PRIu64, sum->now.mappings);
	}
	if (v->a->by != MT_ACCOUNT_KIND)
		mt_grid_add(g, "");
	mt_grid_add(g, name);
}

static bool is_unchanged(const struct mt_maps_view *v, const struct mt_account_row *row)
{
	const enum mt_account_column *columns;
	size_t count = columns_of(v, &columns);

	if (!v->old_name || row->was_there != row->is_there)
		return false;
	for (size_t i = 0; i < count; i++)
		if (growth(&row->now, &row->old, columns[i]))
			return false;
	return true;
}

static int add_table(const struct mt_maps_view *v, struct mt_buf *out)
{
	mt_auto(mt_grid) struct mt_grid g = {0};
	struct mt_account_row rest = {0}, total = {.now = v->a->total, .old = v->a->old_total};
	size_t shown_rows = 0, left = 0;
	char name[SENTENCE];
	const char *tail = v->a->by == MT_ACCOUNT_MAPPING  ? "rlll"
			   : v->a->by == MT_ACCOUNT_OBJECT ? "rll"
							   : "rl";
	char align[MT_GRID_COLUMNS_MAX + 1];
	const enum mt_account_column *columns;

	snprintf(align, sizeof(align), "%.*s%s",
		 (v->old_name ? 2 : 1) * (int)columns_of(v, &columns), "rrrrrrrrrrrr", tail);
	mt_grid_init(&g, align);
	add_heads(&g, v);
	for (size_t i = 0; i < v->a->count; i++) {
		const struct mt_account_row *row = &v->a->row[i];

		if (!is_unchanged(v, row) && (!v->top || shown_rows < v->top)) {
			add_row(&g, v, row);
			shown_rows++;
			continue;
		}
		mt_smaps_sum_add(&rest.now, &row->now);
		mt_smaps_sum_add(&rest.old, &row->old);
		left++;
	}
	if (left) {
		snprintf(name, sizeof(name), "(%zu more)", left);
		add_sums(&g, v, &rest, name);
	}
	add_sums(&g, v, &total, "TOTAL");
	return mt_grid_write(&g, 0, out);
}

static int write_text(const struct mt_maps_view *v, struct mt_buf *out)
{
	add_verdict(v, out);
	for (size_t i = 0; i < v->warnings; i++)
		mt_text_line(out, "warning: ", v->warning[i], "\n");
	return add_table(v, out);
}

/* ---- machine formats ---- */

/* "Shared_Hugetlb" -> "shared_hugetlb_bytes", "ShmemPmdMapped" -> "shmem_pmd_mapped_bytes" */
static void add_field_name(enum mt_smaps_field field, struct mt_buf *out)
{
	const char *name = mt_smaps_field_name(field);

	for (const char *c = name; *c; c++) {
		bool is_word =
			c > name && isupper((unsigned char)*c) && islower((unsigned char)c[-1]);

		if (is_word)
			mt_buf_addc(out, '_');
		mt_buf_addc(out, (char)tolower((unsigned char)*c));
	}
	mt_buf_adds(out, "_bytes");
}

void mt_maps_json_sum(struct mt_json *j, const struct mt_smaps_sum *s)
{
	mt_auto(mt_buf) struct mt_buf name = {0};

	mt_json_u64(j, "mappings", s->mappings);
	if (mt_account_has(s, MT_ACCOUNT_SIZE))
		mt_json_u64(j, "size_bytes", s->size_bytes);
	if (mt_account_has(s, MT_ACCOUNT_USS))
		mt_json_u64(j, "uss_bytes", mt_smaps_uss(s));
	for (int i = 0; i < MT_SMAPS_FIELDS; i++) {
		if (!mt_smaps_has(s, (enum mt_smaps_field)i))
			continue;
		mt_buf_truncate(&name, 0);
		add_field_name((enum mt_smaps_field)i, &name);
		mt_json_u64(j, mt_buf_text(&name), s->bytes[i]);
	}
	j->out->failed |= name.failed;
}

void mt_maps_csv_names(struct mt_buf *out)
{
	mt_buf_adds(out, "mappings,size_bytes,uss_bytes");
	for (int i = 0; i < MT_SMAPS_FIELDS; i++) {
		mt_buf_addc(out, ',');
		add_field_name((enum mt_smaps_field)i, out);
	}
}

void mt_maps_csv_values(const struct mt_smaps_sum *s, struct mt_buf *out)
{
	mt_buf_printf(out, "%" PRIu64 ",", s->mappings);
	if (mt_account_has(s, MT_ACCOUNT_SIZE))
		mt_buf_printf(out, "%" PRIu64, s->size_bytes);
	mt_buf_addc(out, ',');
	if (mt_account_has(s, MT_ACCOUNT_USS))
		mt_buf_printf(out, "%" PRIu64, mt_smaps_uss(s));
	for (int i = 0; i < MT_SMAPS_FIELDS; i++) {
		mt_buf_addc(out, ',');
		if (mt_smaps_has(s, (enum mt_smaps_field)i))
			mt_buf_printf(out, "%" PRIu64, s->bytes[i]);
	}
}

static const enum mt_account_column compared[] = {MT_ACCOUNT_SIZE, MT_ACCOUNT_RSS, MT_ACCOUNT_PSS,
						  MT_ACCOUNT_USS, MT_ACCOUNT_SWAP};

void mt_maps_csv_old_names(struct mt_buf *out)
{
	for (size_t i = 0; i < MT_ARRAY_LEN(compared); i++)
		mt_buf_printf(out, ",old_%s_bytes", mt_account_column_name(compared[i]));
}

void mt_maps_csv_old_values(const struct mt_smaps_sum *old, const struct mt_smaps_sum *old_total,
			    struct mt_buf *out)
{
	for (size_t i = 0; i < MT_ARRAY_LEN(compared); i++) {
		mt_buf_addc(out, ',');
		if (old_total && mt_account_has(old_total, compared[i]))
			mt_buf_printf(out, "%" PRIu64, mt_account_value(old, compared[i]));
	}
}

static const char *by_name(enum mt_account_by by)
{
	static const char *const names[] = {"object", "mapping", "kind"};

	return names[by];
}

static void add_json_row(const struct mt_maps_view *v, const struct mt_account_row *row,
			 struct mt_json *j)
{
	char text[SENTENCE];

	mt_json_open(j, NULL, '{');
	mt_json_string(j, "kind", mt_vma_kind_name(row->label.kind, v->a->rules));
	if (v->a->by != MT_ACCOUNT_KIND) {
		mt_json_string(j, "object", row->name);
		mt_json_string(j, "what", row->label.what);
	}
	if (v->a->by == MT_ACCOUNT_MAPPING) {
		/* as text: numbers of JSON have 53 bits with many readers */
		snprintf(text, sizeof(text), "%" PRIx64, row->start);
		mt_json_string(j, "start", text);
		snprintf(text, sizeof(text), "%" PRIx64, row->end);
		mt_json_string(j, "end", text);
		mt_json_string(j, "flags", flags_of(v, row->flags, text));
	}
	mt_maps_json_sum(j, &row->now);
	if (v->old_name && row->was_there) {
		mt_json_open(j, "old", '{');
		mt_maps_json_sum(j, &row->old);
		mt_json_close(j, '}');
	}
	if (v->old_name && row->is_there != row->was_there)
		mt_json_string(j, "change", row->is_there ? "new" : "gone");
	mt_json_close(j, '}');
}

static void add_json(const struct mt_maps_view *v, struct mt_json *j, bool has_schema)
{
	mt_json_open(j, NULL, '{');
	if (has_schema)
		mt_json_string(j, "schema", MT_MAPS_SCHEMA);
	if (v->pid)
		mt_json_i64(j, "pid", v->pid);
	mt_json_string(j, "name", v->name);
	if (v->old_name)
		mt_json_string(j, "since", v->old_name);
	mt_json_string(j, "rules", v->a->rules == MT_VMA_ANDROID ? "android" : "linux");
	mt_json_string(j, "by", by_name(v->a->by));
	mt_json_open(j, "warnings", '[');
	for (size_t i = 0; i < v->warnings; i++)
		mt_json_string(j, NULL, v->warning[i]);
	mt_json_close(j, ']');
	mt_json_open(j, "total", '{');
	mt_maps_json_sum(j, &v->a->total);
	mt_json_close(j, '}');
	if (v->old_name) {
		mt_json_open(j, "old_total", '{');
		mt_maps_json_sum(j, &v->a->old_total);
		mt_json_close(j, '}');
	}
	mt_json_open(j, "rows", '[');
	for (size_t i = 0; i < v->a->count && (!v->top || i < v->top); i++)
		add_json_row(v, &v->a->row[i], j);
	mt_json_close(j, ']');
	mt_json_close(j, '}');
}

static void add_csv_head(struct mt_buf *out)
{
	mt_buf_adds(out, "pid,kind,object,start,end,");
	mt_maps_csv_names(out);
	mt_maps_csv_old_names(out);
	mt_buf_addc(out, '\n');
}

static void add_csv_row(const struct mt_maps_view *v, const struct mt_account_row *row,
			struct mt_buf *out)
{
	if (v->pid)
		mt_buf_printf(out, "%d", (int)v->pid);
	mt_buf_addc(out, ',');
	mt_csv_field(out, mt_vma_kind_name(row->label.kind, v->a->rules), false);
	mt_csv_field(out, v->a->by == MT_ACCOUNT_KIND ? "" : row->name, false);
	if (v->a->by == MT_ACCOUNT_MAPPING)
		mt_buf_printf(out, "%" PRIx64 ",%" PRIx64 ",", row->start, row->end);
	else
		mt_buf_adds(out, ",,");
	mt_maps_csv_values(&row->now, out);
	mt_maps_csv_old_values(&row->old, v->old_name ? &v->a->old_total : NULL, out);
	mt_buf_addc(out, '\n');
}

static void add_csv(const struct mt_maps_view *v, struct mt_buf *out)
{
	for (size_t i = 0; i < v->a->count && (!v->top || i < v->top); i++)
		add_csv_row(v, &v->a->row[i], out);
}

int mt_maps_write(const struct mt_maps_view *v, enum mt_maps_format format, struct mt_buf *out)
{
	struct mt_json j = {.out = out};
	int code = 0;

	if (format == MT_MAPS_JSON) {
		add_json(v, &j, true);
	} else if (format == MT_MAPS_CSV) {
		add_csv_head(out);
		add_csv(v, out);
	} else {
		code = write_text(v, out);
	}
	return code || out->failed ? -ENOMEM : 0;
}

/* ---- several ---- */

void mt_maps_head(enum mt_maps_format format, struct mt_json *j, struct mt_buf *out)
{
	j->out = out;
	if (format == MT_MAPS_CSV)
		add_csv_head(out);
	if (format != MT_MAPS_JSON)
		return;
	mt_json_open(j, NULL, '{');
	mt_json_string(j, "schema", MT_MAPS_SCHEMA);
	mt_json_open(j, "processes", '[');
}

int mt_maps_each(const struct mt_maps_view *v, enum mt_maps_format format, struct mt_json *j,
		 struct mt_buf *out)
{
	int code = 0;

	if (format == MT_MAPS_JSON) {
		add_json(v, j, false);
	} else if (format == MT_MAPS_CSV) {
		add_csv(v, out);
	} else {
		code = write_text(v, out);
		mt_buf_addc(out, '\n');
	}
	return code || out->failed ? -ENOMEM : 0;
}

void mt_maps_tail(enum mt_maps_format format, size_t processes, size_t refused, struct mt_json *j,
		  struct mt_buf *out)
{
	if (format == MT_MAPS_JSON) {
		mt_json_close(j, ']');
		mt_json_u64(j, "refused", refused);
		mt_json_close(j, '}');
	} else if (format == MT_MAPS_TEXT) {
		mt_buf_printf(out, "%zu process%s", processes, processes == 1 ? "" : "es");
		if (refused)
			mt_buf_printf(out, ", %zu more may not be looked at: that takes root",
				      refused);
		mt_buf_addc(out, '\n');
	}
}
