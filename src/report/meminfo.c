/* SPDX-License-Identifier: MIT */
/* The memory of one process: categories, summary, what lies beside the mappings. */

#include "report/meminfo.h"

#include "base/units.h"
#include "report/grid.h"
#include "report/internal.h"
#include "target/memory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { FIELDS_MAX = 8, NAME_MAX_BYTES = 64 };

const char *mt_meminfo_spark(unsigned level, bool is_utf8)
{
	static const char *const utf8[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	static const char *const ascii[] = {"_", ".", ",", "-", "=", "+", "*", "#"};

	level = MT_MIN(level, 7u);
	return is_utf8 ? utf8[level] : ascii[level];
}

/* ---- text ---- */

static void add_size(struct mt_grid *g, uint64_t bytes)
{
	char text[MT_UNITS_TEXT_MAX];

	mt_grid_add(g, bytes ? mt_units_size(bytes, text) : "0");
}

static bool has_swap_pss(const struct mt_smaps_sum *s)
{
	return mt_smaps_has(s, MT_SMAPS_SWAP_PSS);
}

/* The columns; with an earlier moment fewer, each with its change. */
static size_t fields_of(const struct mt_meminfo_view *v, enum mt_smaps_field to[FIELDS_MAX])
{
	enum mt_smaps_field swap = has_swap_pss(v->total) ? MT_SMAPS_SWAP_PSS : MT_SMAPS_SWAP;
	const enum mt_smaps_field all[] = {
		MT_SMAPS_PSS,          MT_SMAPS_PRIVATE_DIRTY, MT_SMAPS_PRIVATE_CLEAN,
		MT_SMAPS_SHARED_DIRTY, MT_SMAPS_SHARED_CLEAN,  swap,
		MT_SMAPS_RSS};
	const enum mt_smaps_field grown[] = {MT_SMAPS_PSS, MT_SMAPS_PRIVATE_DIRTY,
					     MT_SMAPS_PRIVATE_CLEAN, swap, MT_SMAPS_RSS};
	size_t count = v->old_name ? MT_ARRAY_LEN(grown) : MT_ARRAY_LEN(all);

	memcpy(to, v->old_name ? grown : all, count * sizeof(*to));
	return count;
}

static const char *head_of(enum mt_smaps_field field)
{
	switch (field) {
	case MT_SMAPS_PRIVATE_DIRTY:
		return "private dirty";
	case MT_SMAPS_PRIVATE_CLEAN:
		return "private clean";
	case MT_SMAPS_SHARED_DIRTY:
		return "shared dirty";
	case MT_SMAPS_SHARED_CLEAN:
		return "shared clean";
	default:
		return mt_smaps_field_name(field);
	}
}

static void add_change(struct mt_grid *g, uint64_t now, uint64_t old)
{
	char text[MT_UNITS_TEXT_MAX];

	mt_grid_add(g, now == old ? "0" : mt_units_size_signed((int64_t)(now - old), text));
}

/* The Pss of the row of the sums has SwapPss in it, as Android's; that of the rows above has not.
 */
static uint64_t value_of(const struct mt_smaps_sum *s, enum mt_smaps_field field, bool is_total)
{
	uint64_t more = is_total && field == MT_SMAPS_PSS ? s->bytes[MT_SMAPS_SWAP_PSS] : 0;

	return s->bytes[field] + more;
}

static void add_row(struct mt_grid *g, const struct mt_meminfo_view *v, const char *name,
		    const struct mt_smaps_sum *now, const struct mt_smaps_sum *old)
{
	enum mt_smaps_field field[FIELDS_MAX];
	size_t count = fields_of(v, field);
	bool is_total = now == v->total;

	mt_grid_add(g, name);
	for (size_t i = 0; i < count; i++) {
		bool is_known = mt_smaps_has(v->total, field[i]);
		uint64_t value = value_of(now, field[i], is_total);

		if (is_known)
			add_size(g, value);
		else
			mt_grid_add(g, "-");
		if (v->old_name && is_known && mt_smaps_has(v->old_total, field[i]))
			add_change(g, value, value_of(old, field[i], is_total));
		else if (v->old_name)
			mt_grid_add(g, "-");
	}
}

static void add_category(struct mt_grid *g, const struct mt_meminfo_view *v,
			 const struct mt_account_row *row)
{
	char name[NAME_MAX_BYTES];
	const char *change = !v->old_name      ? ""
			     : !row->was_there ? " (new)"
			     : !row->is_there  ? " (gone)"
					       : "";

	snprintf(name, sizeof(name), "%s%s", row->name, change);
	add_row(g, v, name, &row->now, &row->old);
}

static int add_categories(const struct mt_meminfo_view *v, struct mt_buf *out)
{
	enum mt_smaps_field field[FIELDS_MAX];
	size_t count = fields_of(v, field);
	mt_auto(mt_grid) struct mt_grid g = {0};

	mt_grid_init(&g, v->old_name ? "lrrrrrrrrrr" : "lrrrrrrr");
	mt_grid_add(&g, "");
	for (size_t i = 0; i < count; i++) {
		mt_grid_add(&g, head_of(field[i]));
		if (v->old_name)
			mt_grid_add(&g, "+/-");
	}
	for (size_t i = 0; v->a && i < v->a->count; i++)
		add_category(&g, v, &v->a->row[i]);
	add_row(&g, v, "TOTAL", v->total, v->old_total);
	return mt_grid_write(&g, 0, out);
}

static bool is_row_shown(const struct mt_meminfo_view *v, int row)
{
	if (row != MT_ACCOUNT_JAVA || v->a->rules == MT_VMA_ANDROID)
		return true;
	for (size_t i = 0; i < v->a->count; i++)
		if (v->a->row[i].label.group == MT_VMA_GROUP_JAVA)
			return true;
	return false;
}

static void add_signed_size(struct mt_grid *g, int64_t bytes)
{
	char text[MT_UNITS_TEXT_MAX];

	mt_grid_add(g, bytes ? mt_units_size_signed(bytes, text) + (bytes > 0) : "0");
}

static void add_summary_row(struct mt_grid *g, const struct mt_meminfo_view *v, int row)
{
	const struct mt_account_app *app = v->app, *old = v->old_app;

	mt_grid_add(g, mt_account_summary_name((enum mt_account_summary)row));
	add_signed_size(g, app->pss_bytes[row]);
	if (old)
		add_change(g, (uint64_t)app->pss_bytes[row], (uint64_t)old->pss_bytes[row]);
	if (row == MT_ACCOUNT_PRIVATE_OTHER) { /* it is in the row below */
		mt_grid_add(g, "");
		if (old)
			mt_grid_add(g, "");
		return;
	}
	add_size(g, app->rss_bytes[row]);
	if (old)
		add_change(g, app->rss_bytes[row], old->rss_bytes[row]);
}

static void add_summary_totals(struct mt_grid *g, const struct mt_meminfo_view *v)
{
	const struct mt_account_app *app = v->app, *old = v->old_app;

	mt_grid_add(g, "TOTAL");
	add_size(g, app->total_pss_bytes);
	if (old)
		add_change(g, app->total_pss_bytes, old->total_pss_bytes);
	add_size(g, app->total_rss_bytes);
	if (old)
		add_change(g, app->total_rss_bytes, old->total_rss_bytes);
	mt_grid_add(g, app->is_swap_pss ? "TOTAL SWAP PSS" : "TOTAL SWAP");
	add_size(g, app->total_swap_bytes);
	if (old && old->is_swap_pss == app->is_swap_pss)
		add_change(g, app->total_swap_bytes, old->total_swap_bytes);
	else if (old)
		mt_grid_add(g, "-");
	mt_grid_add(g, "");
	if (old)
		mt_grid_add(g, "");
}

static int add_summary(const struct mt_meminfo_view *v, struct mt_buf *out)
{
	mt_auto(mt_grid) struct mt_grid g = {0};

	mt_grid_init(&g, v->old_app ? "lrrrr" : "lrr");
	mt_grid_add(&g, "App Summary");
	mt_grid_add(&g, "Pss");
	if (v->old_app)
		mt_grid_add(&g, "+/-");
	mt_grid_add(&g, "Rss");
	if (v->old_app)
		mt_grid_add(&g, "+/-");
	for (int i = 0; i < MT_ACCOUNT_SUMMARIES; i++)
		if (is_row_shown(v, i))
			add_summary_row(&g, v, i);
	add_summary_totals(&g, v);
	mt_buf_addc(out, '\n');
	return mt_grid_write(&g, 0, out);
}

static void add_status(const struct mt_status *st, struct mt_buf *out)
{
	static const struct {
		enum mt_status_field field;
		const char *name;
	} said[] = {{MT_STATUS_PAGE_TABLES, "page tables"},
		    {MT_STATUS_SWAP, "swap"},
		    {MT_STATUS_LOCKED, "locked"},
		    {MT_STATUS_RSS_PEAK, "highest Rss"},
		    {MT_STATUS_VM_PEAK, "most addresses"}};
	char text[MT_UNITS_TEXT_MAX];

	mt_buf_printf(out, "\nthreads %s", mt_units_count(st->threads, text));
	for (size_t i = 0; i < MT_ARRAY_LEN(said); i++)
		if (st->bytes[said[i].field] != MT_MEMORY_UNKNOWN)
			mt_buf_printf(out, ", %s %s", said[i].name,
				      mt_units_size(st->bytes[said[i].field], text));
	mt_buf_addc(out, '\n');
}

static void add_gpu(const struct mt_gpu *gpu, struct mt_buf *out)
{
	char text[MT_UNITS_TEXT_MAX];

	for (size_t i = 0; i < gpu->count; i++) {
		const struct mt_gpu_row *row = &gpu->row[i];

		mt_text_line(out, "GPU ", row->driver, " ");
		mt_text_line(out, "", row->device, ", ");
		mt_text_line(out, "", row->region, ": ");
		mt_buf_printf(out, "%s\n", mt_units_size(row->bytes, text));
	}
	if (gpu->dmabufs)
		mt_buf_printf(out, "dma-bufs: %s in %" PRIu64 "\n",
			      mt_units_size(gpu->dmabuf_bytes, text), gpu->dmabufs);
	if (gpu->is_cut)
		mt_buf_adds(out, "warning: there are more regions of GPU memory than are shown\n");
}

/* The category with most of a field, or the one that grew most; NULL: none has any. */
static const struct mt_account_row *widest(const struct mt_meminfo_view *v,
					   enum mt_smaps_field field)
{
	const struct mt_account_row *best = NULL;
	int64_t most = 0;

	for (size_t i = 0; v->a && i < v->a->count; i++) {
		const struct mt_account_row *row = &v->a->row[i];
		int64_t bytes = (int64_t)(row->now.bytes[field] -
					  (v->old_name ? row->old.bytes[field] : 0));

		if (bytes > most) {
			best = row;
			most = bytes;
		}
	}
	return best;
}

static void add_level(const struct mt_meminfo_view *v, enum mt_smaps_field field,
		      struct mt_buf *out)
{
	const struct mt_account_row *best = widest(v, field);
	char text[MT_UNITS_TEXT_MAX];

	mt_buf_printf(out, "%s %s", mt_smaps_field_name(field),
		      mt_units_size(v->total->bytes[field], text));
	if (field == MT_SMAPS_PSS)
		mt_buf_printf(out, ", Rss %s", mt_units_size(v->total->bytes[MT_SMAPS_RSS], text));
	if (v->total->bytes[MT_SMAPS_SWAP])
		mt_buf_printf(out, ", swap %s",
			      mt_units_size(v->total->bytes[MT_SMAPS_SWAP], text));
	if (best) {
		mt_text_line(out, "; most of it: ", best->name, "");
		mt_buf_printf(
			out, " (%s)",
			mt_units_percent(best->now.bytes[field], v->total->bytes[field], text));
	}
}

static void add_growth(const struct mt_meminfo_view *v, enum mt_smaps_field field,
		       struct mt_buf *out)
{
	uint64_t now = v->total->bytes[field], old = v->old_total->bytes[field];
	const struct mt_account_row *best = widest(v, field);
	char text[MT_UNITS_TEXT_MAX];

	mt_buf_printf(out, "%s %s %s since ", mt_smaps_field_name(field),
		      now < old ? "fell by" : "grew by",
		      mt_units_size(now < old ? old - now : now - old, text));
	mt_text_line(out, "'", v->old_name, "'");
	if (!best)
		return;
	mt_text_line(out, ", most in ", best->name, "");
	mt_buf_printf(out, " (%s)",
		      mt_units_size_signed(
			      (int64_t)(best->now.bytes[field] - best->old.bytes[field]), text));
}

/* One line: how much, and what most of it is; or what grew. */
static void add_verdict(const struct mt_meminfo_view *v, struct mt_buf *out)
{
	bool has_pss = mt_smaps_has(v->total, MT_SMAPS_PSS) &&
		       (!v->old_name || mt_smaps_has(v->old_total, MT_SMAPS_PSS));
	enum mt_smaps_field field = has_pss ? MT_SMAPS_PSS : MT_SMAPS_RSS;

	if (v->pid)
		mt_buf_printf(out, "process %d (", (int)v->pid);
	mt_text_line(out, v->pid ? "" : "'", v->name, v->pid ? "): " : "': ");
	if (v->old_name)
		add_growth(v, field, out);
	else
		add_level(v, field, out);
	mt_buf_addc(out, '\n');
}

static int write_text(const struct mt_meminfo_view *v, struct mt_buf *out)
{
	int code;

	add_verdict(v, out);
	for (size_t i = 0; i < v->warnings; i++)
		mt_text_line(out, "warning: ", v->warning[i], "\n");
	code = add_categories(v, out);
	if (!code && v->app)
		code = add_summary(v, out);
	if (v->status)
		add_status(v->status, out);
	if (v->gpu)
		add_gpu(v->gpu, out);
	return code;
}

/* ---- machine formats ---- */

static void json_summary(const struct mt_meminfo_view *v, struct mt_json *j)
{
	const struct mt_account_app *app = v->app, *old = v->old_app;

	mt_json_open(j, "summary", '{');
	mt_json_open(j, "rows", '[');
	for (int i = 0; i < MT_ACCOUNT_SUMMARIES; i++) {
		if (!is_row_shown(v, i))
			continue;
		mt_json_open(j, NULL, '{');
		mt_json_string(j, "name", mt_account_summary_name((enum mt_account_summary)i));
		mt_json_i64(j, "pss_bytes", app->pss_bytes[i]);
		if (i != MT_ACCOUNT_PRIVATE_OTHER)
			mt_json_u64(j, "rss_bytes", app->rss_bytes[i]);
		if (old)
			mt_json_i64(j, "old_pss_bytes", old->pss_bytes[i]);
		if (old && i != MT_ACCOUNT_PRIVATE_OTHER)
			mt_json_u64(j, "old_rss_bytes", old->rss_bytes[i]);
		mt_json_close(j, '}');
	}
	mt_json_close(j, ']');
	mt_json_u64(j, "total_pss_bytes", app->total_pss_bytes);
	mt_json_u64(j, "total_rss_bytes", app->total_rss_bytes);
	mt_json_u64(j, app->is_swap_pss ? "total_swap_pss_bytes" : "total_swap_bytes",
		    app->total_swap_bytes);
	if (old) {
		mt_json_u64(j, "old_total_pss_bytes", old->total_pss_bytes);
		mt_json_u64(j, "old_total_rss_bytes", old->total_rss_bytes);
		mt_json_u64(j,
			    old->is_swap_pss ? "old_total_swap_pss_bytes" : "old_total_swap_bytes",
			    old->total_swap_bytes);
	}
	mt_json_close(j, '}');
}

static void json_sum(struct mt_json *j, const char *name, const struct mt_smaps_sum *s)
{
	mt_json_open(j, name, '{');
	mt_maps_json_sum(j, s);
	mt_json_close(j, '}');
}

static void json_categories(const struct mt_meminfo_view *v, struct mt_json *j)
{
	mt_json_string(j, "rules", v->a->rules == MT_VMA_ANDROID ? "android" : "linux");
	mt_json_open(j, "categories", '[');
	for (size_t i = 0; i < v->a->count; i++) {
		const struct mt_account_row *row = &v->a->row[i];

		mt_json_open(j, NULL, '{');
		mt_json_string(j, "kind", row->name);
		mt_maps_json_sum(j, &row->now);
		if (v->old_name && row->was_there)
			json_sum(j, "old", &row->old);
		if (v->old_name && row->is_there != row->was_there)
			mt_json_string(j, "change", row->is_there ? "new" : "gone");
		mt_json_close(j, '}');
	}
	mt_json_close(j, ']');
}

static void json_status(const struct mt_status *st, struct mt_json *j)
{
	static const char *const keys[MT_STATUS_FIELDS] = {
		[MT_STATUS_VM_SIZE] = "vm_size_bytes",
		[MT_STATUS_VM_PEAK] = "vm_peak_bytes",
		[MT_STATUS_RSS] = "rss_bytes",
		[MT_STATUS_RSS_PEAK] = "rss_peak_bytes",
		[MT_STATUS_RSS_ANON] = "rss_anon_bytes",
		[MT_STATUS_RSS_FILE] = "rss_file_bytes",
		[MT_STATUS_RSS_SHMEM] = "rss_shmem_bytes",
		[MT_STATUS_SWAP] = "swap_bytes",
		[MT_STATUS_PAGE_TABLES] = "page_tables_bytes",
		[MT_STATUS_LOCKED] = "locked_bytes",
	};

	mt_json_open(j, "status", '{');
	mt_json_u64(j, "threads", st->threads);
	for (int i = 0; i < MT_STATUS_FIELDS; i++)
		if (st->bytes[i] != MT_MEMORY_UNKNOWN)
			mt_json_u64(j, keys[i], st->bytes[i]);
	mt_json_close(j, '}');
}

static void json_gpu(const struct mt_gpu *gpu, struct mt_json *j)
{
	mt_json_open(j, "gpu", '{');
	mt_json_open(j, "regions", '[');
	for (size_t i = 0; i < gpu->count; i++) {
		mt_json_open(j, NULL, '{');
		mt_json_string(j, "driver", gpu->row[i].driver);
		mt_json_string(j, "device", gpu->row[i].device);
		mt_json_string(j, "region", gpu->row[i].region);
		mt_json_u64(j, "bytes", gpu->row[i].bytes);
		mt_json_close(j, '}');
	}
	mt_json_close(j, ']');
	mt_json_bool(j, "is_cut", gpu->is_cut);
	mt_json_u64(j, "dmabufs", gpu->dmabufs);
	mt_json_u64(j, "dmabuf_bytes", gpu->dmabuf_bytes);
	mt_json_close(j, '}');
}

static void write_json(const struct mt_meminfo_view *v, struct mt_buf *out)
{
	struct mt_json j = {.out = out};

	mt_json_open(&j, NULL, '{');
	mt_json_string(&j, "schema", MT_MEMINFO_SCHEMA);
	mt_json_string(&j, "show", "process");
	if (v->pid)
		mt_json_i64(&j, "pid", v->pid);
	mt_json_string(&j, "name", v->name);
	if (v->old_name)
		mt_json_string(&j, "since", v->old_name);
	mt_json_open(&j, "warnings", '[');
	for (size_t i = 0; i < v->warnings; i++)
		mt_json_string(&j, NULL, v->warning[i]);
	mt_json_close(&j, ']');
	json_sum(&j, "total", v->total);
	if (v->old_name)
		json_sum(&j, "old_total", v->old_total);
	if (v->a)
		json_categories(v, &j);
	if (v->app)
		json_summary(v, &j);
	if (v->status)
		json_status(v->status, &j);
	if (v->gpu)
		json_gpu(v->gpu, &j);
	mt_json_close(&j, '}');
}

static void csv_row(const struct mt_meminfo_view *v, const char *name, const struct mt_smaps_sum *s,
		    const struct mt_smaps_sum *old, struct mt_buf *out)
{
	mt_csv_field(out, name, false);
	mt_maps_csv_values(s, out);
	mt_maps_csv_old_values(old, v->old_total, out);
	mt_buf_addc(out, '\n');
}

static void write_csv(const struct mt_meminfo_view *v, struct mt_buf *out)
{
	mt_buf_adds(out, "kind,");
	mt_maps_csv_names(out);
	mt_maps_csv_old_names(out);
	mt_buf_addc(out, '\n');
	for (size_t i = 0; v->a && i < v->a->count; i++)
		csv_row(v, v->a->row[i].name, &v->a->row[i].now, &v->a->row[i].old, out);
	csv_row(v, "TOTAL", v->total, v->old_total, out);
}

int mt_meminfo_process(const struct mt_meminfo_view *v, enum mt_maps_format format,
		       struct mt_buf *out)
{
	int code = 0;

	if (format == MT_MAPS_JSON)
		write_json(v, out);
	else if (format == MT_MAPS_CSV)
		write_csv(v, out);
	else
		code = write_text(v, out);
	return code || out->failed ? -ENOMEM : 0;
}
