/* SPDX-License-Identifier: MIT */
/* The memory of one process: categories, summary, what lies beside the mappings. */

#include "report/meminfo.h"

#include "base/units.h"
#include "report/grid.h"
#include "report/internal.h"
#include "target/memory.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

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

static void add_field(struct mt_grid *g, const struct mt_smaps_sum *total,
		      const struct mt_smaps_sum *s, enum mt_smaps_field field)
{
	if (mt_smaps_has(total, field))
		add_size(g, s->bytes[field]);
	else
		mt_grid_add(g, "-");
}

static bool has_swap_pss(const struct mt_smaps_sum *s)
{
	return mt_smaps_has(s, MT_SMAPS_SWAP_PSS);
}

static void add_row(struct mt_grid *g, const struct mt_smaps_sum *total, const char *name,
		    const struct mt_smaps_sum *s, uint64_t more_pss)
{
	mt_grid_add(g, name);
	if (mt_smaps_has(total, MT_SMAPS_PSS))
		add_size(g, s->bytes[MT_SMAPS_PSS] + more_pss);
	else
		mt_grid_add(g, "-");
	add_field(g, total, s, MT_SMAPS_PRIVATE_DIRTY);
	add_field(g, total, s, MT_SMAPS_PRIVATE_CLEAN);
	add_field(g, total, s, MT_SMAPS_SHARED_DIRTY);
	add_field(g, total, s, MT_SMAPS_SHARED_CLEAN);
	add_field(g, total, s, has_swap_pss(total) ? MT_SMAPS_SWAP_PSS : MT_SMAPS_SWAP);
	add_field(g, total, s, MT_SMAPS_RSS);
}

/* The row of the sums has SwapPss in its Pss, as Android's; the rows above have not. */
static int add_categories(const struct mt_meminfo_view *v, struct mt_buf *out)
{
	const char *heads[] = {"",
			       "Pss",
			       "private dirty",
			       "private clean",
			       "shared dirty",
			       "shared clean",
			       has_swap_pss(v->total) ? "SwapPss" : "Swap",
			       "Rss"};
	mt_auto(mt_grid) struct mt_grid g = {0};

	mt_grid_init(&g, "lrrrrrrr");
	for (size_t i = 0; i < MT_ARRAY_LEN(heads); i++)
		mt_grid_add(&g, heads[i]);
	for (size_t i = 0; v->a && i < v->a->count; i++)
		add_row(&g, v->total, v->a->row[i].name, &v->a->row[i].now, 0);
	add_row(&g, v->total, "TOTAL", v->total,
		has_swap_pss(v->total) ? v->total->bytes[MT_SMAPS_SWAP_PSS] : 0);
	return mt_grid_write(&g, 0, out);
}

static bool is_row_shown(const struct mt_meminfo_view *v, int row)
{
	return row != MT_ACCOUNT_JAVA || v->a->rules == MT_VMA_ANDROID;
}

static int add_summary(const struct mt_meminfo_view *v, struct mt_buf *out)
{
	const struct mt_account_app *app = v->app;
	mt_auto(mt_grid) struct mt_grid g = {0};
	char text[MT_UNITS_TEXT_MAX];

	mt_grid_init(&g, "lrr");
	mt_grid_add(&g, "App Summary");
	mt_grid_add(&g, "Pss");
	mt_grid_add(&g, "Rss");
	for (int i = 0; i < MT_ACCOUNT_SUMMARIES; i++) {
		if (!is_row_shown(v, i))
			continue;
		mt_grid_add(&g, mt_account_summary_name((enum mt_account_summary)i));
		mt_grid_add(&g, app->pss_bytes[i] ? mt_units_size_signed(app->pss_bytes[i], text) +
							    (app->pss_bytes[i] > 0)
						  : "0");
		if (i == MT_ACCOUNT_PRIVATE_OTHER)
			mt_grid_add(&g, ""); /* it is in the row below */
		else
			add_size(&g, app->rss_bytes[i]);
	}
	mt_grid_add(&g, "TOTAL");
	add_size(&g, app->total_pss_bytes);
	add_size(&g, app->total_rss_bytes);
	mt_grid_add(&g, app->is_swap_pss ? "TOTAL SWAP PSS" : "TOTAL SWAP");
	add_size(&g, app->total_swap_bytes);
	mt_grid_add(&g, "");
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

/* One line: how much, and what most of it is. */
static void add_verdict(const struct mt_meminfo_view *v, struct mt_buf *out)
{
	const struct mt_account_row *best = NULL;
	bool has_pss = mt_smaps_has(v->total, MT_SMAPS_PSS);
	enum mt_smaps_field field = has_pss ? MT_SMAPS_PSS : MT_SMAPS_RSS;
	char text[MT_UNITS_TEXT_MAX];

	if (v->pid)
		mt_buf_printf(out, "process %d (", (int)v->pid);
	mt_text_line(out, v->pid ? "" : "'", v->name, v->pid ? "): " : "': ");
	mt_buf_printf(out, "%s %s", has_pss ? "Pss" : "Rss",
		      mt_units_size(v->total->bytes[field], text));
	if (has_pss)
		mt_buf_printf(out, ", Rss %s", mt_units_size(v->total->bytes[MT_SMAPS_RSS], text));
	if (v->total->bytes[MT_SMAPS_SWAP])
		mt_buf_printf(out, ", swap %s",
			      mt_units_size(v->total->bytes[MT_SMAPS_SWAP], text));
	for (size_t i = 0; v->a && i < v->a->count; i++)
		if (!best || v->a->row[i].now.bytes[field] > best->now.bytes[field])
			best = &v->a->row[i];
	if (best && best->now.bytes[field]) {
		mt_text_line(out, "; most of it: ", best->name, "");
		mt_buf_printf(
			out, " (%s)",
			mt_units_percent(best->now.bytes[field], v->total->bytes[field], text));
	}
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
	const struct mt_account_app *app = v->app;

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
		mt_json_close(j, '}');
	}
	mt_json_close(j, ']');
	mt_json_u64(j, "total_pss_bytes", app->total_pss_bytes);
	mt_json_u64(j, "total_rss_bytes", app->total_rss_bytes);
	mt_json_u64(j, app->is_swap_pss ? "total_swap_pss_bytes" : "total_swap_bytes",
		    app->total_swap_bytes);
	mt_json_close(j, '}');
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
	mt_json_open(&j, "warnings", '[');
	for (size_t i = 0; i < v->warnings; i++)
		mt_json_string(&j, NULL, v->warning[i]);
	mt_json_close(&j, ']');
	mt_json_open(&j, "total", '{');
	mt_maps_json_sum(&j, v->total);
	mt_json_close(&j, '}');
	if (v->a) {
		mt_json_string(&j, "rules", v->a->rules == MT_VMA_ANDROID ? "android" : "linux");
		mt_json_open(&j, "categories", '[');
		for (size_t i = 0; i < v->a->count; i++) {
			mt_json_open(&j, NULL, '{');
			mt_json_string(&j, "kind", v->a->row[i].name);
			mt_maps_json_sum(&j, &v->a->row[i].now);
			mt_json_close(&j, '}');
		}
		mt_json_close(&j, ']');
	}
	if (v->app)
		json_summary(v, &j);
	if (v->status)
		json_status(v->status, &j);
	if (v->gpu)
		json_gpu(v->gpu, &j);
	mt_json_close(&j, '}');
}

static void csv_row(const char *name, const struct mt_smaps_sum *s, struct mt_buf *out)
{
	mt_csv_field(out, name, false);
	mt_maps_csv_values(s, out);
	mt_buf_addc(out, '\n');
}

static void write_csv(const struct mt_meminfo_view *v, struct mt_buf *out)
{
	mt_buf_adds(out, "kind,");
	mt_maps_csv_names(out);
	mt_buf_addc(out, '\n');
	for (size_t i = 0; v->a && i < v->a->count; i++)
		csv_row(v->a->row[i].name, &v->a->row[i].now, out);
	csv_row("TOTAL", v->total, out);
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
