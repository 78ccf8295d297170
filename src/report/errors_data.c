/* SPDX-License-Identifier: MIT */
/* Memory errors for programs: JSON, key=value, CSV. docs/report-json.md describes them. */
#include "report/errors.h"

#include "base/escape.h"
#include "model/profile.h"
#include "report/error_bytes.h"
#include "report/json_report.h"

#include <errno.h>
#include <inttypes.h>

/* ---- JSON ---- */

static void json_actor(const struct mt_report *r, const struct mt_profile *p, const char *name,
		       const struct mt_profile_actor *a, struct mt_json *j)
{
	if (!a->tid)
		return;
	mt_json_open(j, name, '{');
	mt_json_u64(j, "tid", a->tid);
	mt_json_string(j, "thread", p->thread[a->thread].name);
	mt_json_u64(j, "time_ns", a->ns);
	if (r->stack && a->node) {
		mt_json_open(j, "frames", '[');
		mt_stack_each_at(r, p, a->node, mt_json_frame, j);
		mt_json_close(j, ']');
		mt_json_string(j, "stack_end", mt_words_stack_end(p->node[a->node].end));
	}
	mt_json_close(j, '}');
}

static void json_calls(const struct mt_profile_error *e, struct mt_json *j)
{
	if (e->call)
		mt_json_string(j, "call", mt_words_call(e->call));
	if (e->alloc_call)
		mt_json_string(j, "alloc_call", mt_words_call(e->alloc_call));
	if (e->tag)
		mt_json_u64(j, "tag", e->tag);
}

static void json_group(const struct mt_report *r, const struct mt_error_group *g, struct mt_json *j)
{
	const struct mt_profile_error *e = g->first;

	mt_json_open(j, NULL, '{');
	mt_json_string(j, "kind", mt_words_error_key(e->kind));
	mt_json_u64(j, "count", g->count);
	mt_json_string(j, "access", mt_error_access_key(e->access));
	mt_json_i64(j, "pid", g->p->pid);
	mt_json_hash(j, "address", e->address);
	if (e->block) {
		mt_json_hash(j, "block", e->block);
		mt_json_u64(j, "block_bytes", e->block_bytes);
		mt_json_i64(j, "offset", (int64_t)(e->address - e->block));
	}
	if (e->signal)
		mt_json_u64(j, "signal", e->signal);
	json_calls(e, j);
	mt_json_bool(j, "found_late", e->flags & MT_ERROR_IS_LATE);
	mt_json_bool(j, "found_by_look", e->flags & MT_ERROR_IS_BY_LOOK);
	mt_json_bool(j, "inherited", e->flags & MT_ERROR_IS_INHERITED);
	mt_json_bool(j, "fatal", e->flags & MT_ERROR_IS_FATAL);
	json_actor(r, g->p, "use", &e->use, j);
	json_actor(r, g->p, "alloc", &e->alloc, j);
	json_actor(r, g->p, "free", &e->free, j);
	mt_error_bytes_json(r, g, j);
	mt_json_close(j, '}');
}

int mt_errors_json(const struct mt_report *r, struct mt_json *j)
{
	mt_auto(mt_error_list) struct mt_error_list l;
	const struct mt_error_group *g;
	uint64_t rank = 0;

	if (mt_error_list_make(r, &l))
		return -ENOMEM;
	mt_json_open(j, "errors", '[');
	for (uint32_t pos = 0; (g = mt_error_list_next(&l, &pos));)
		if (++rank <= r->top || !r->top)
			json_group(r, g, j);
	mt_json_close(j, ']');
	return 0;
}

/* ---- key=value ---- */

static void kv_line(void *context, const struct mt_stack_line *line)
{
	struct mt_buf *out = context;

	mt_buf_addc(out, ' ');
	mt_escape(out, line->file ? line->file : line->place);
	if (line->file)
		mt_buf_printf(out, ":%" PRIu32, line->line);
}

static void kv_actor(const struct mt_report *r, const struct mt_profile *p, const char *name,
		     const struct mt_profile_actor *a, struct mt_buf *out)
{
	if (!a->tid)
		return;
	mt_buf_printf(out, "[ERROR] %s_tid=%" PRIu32 "\n[ERROR] %s_stack:", name, a->tid, name);
	if (a->node)
		mt_stack_each_at(r, p, a->node, kv_line, out);
	mt_buf_addc(out, '\n');
}

static void kv_changed(const struct mt_report *r, const struct mt_error_group *g,
		       struct mt_buf *out)
{
	const struct mt_profile_error *e = g->first;
	const struct mt_profile_damage *d = e->damage;

	if (!d || !d->first)
		return;
	mt_buf_printf(out,
		      "[ERROR] changed=%" PRIu64 "\n[ERROR] changed_first_offset=%" PRId64
		      "\n[ERROR] changed_last_offset=%" PRId64 "\n[ERROR] changed_expected=0x%02x\n"
		      "[ERROR] looks_like=",
		      d->count, (int64_t)(d->first - e->block), (int64_t)(d->last - e->block),
		      d->expected);
	mt_error_looks(r, g, out);
	mt_buf_addc(out, '\n');
}

static void kv_group(const struct mt_report *r, const struct mt_error_group *g, struct mt_buf *out)
{
	const struct mt_profile_error *e = g->first;

	mt_buf_printf(out, "[ERROR] kind=%s\n[ERROR] access=%s\n[ERROR] pid=%" PRId32 "\n",
		      mt_words_error_key(e->kind), mt_error_access_key(e->access), g->p->pid);
	mt_buf_printf(out, "[ERROR] count=%" PRIu64 "\n[ERROR] address=0x%" PRIx64 "\n", g->count,
		      e->address);
	if (e->block)
		mt_buf_printf(out, "[ERROR] block_bytes=%" PRIu64 "\n[ERROR] offset=%" PRId64 "\n",
			      e->block_bytes, (int64_t)(e->address - e->block));
	mt_buf_printf(out, "[ERROR] found_late=%d\n[ERROR] found_by_look=%d\n[ERROR] fatal=%d\n",
		      (e->flags & MT_ERROR_IS_LATE) != 0, (e->flags & MT_ERROR_IS_BY_LOOK) != 0,
		      (e->flags & MT_ERROR_IS_FATAL) != 0);
	if (e->call)
		mt_buf_printf(out, "[ERROR] call=%s\n", mt_words_call(e->call));
	if (e->alloc_call)
		mt_buf_printf(out, "[ERROR] alloc_call=%s\n", mt_words_call(e->alloc_call));
	kv_changed(r, g, out);
	kv_actor(r, g->p, "use", &e->use, out);
	kv_actor(r, g->p, "alloc", &e->alloc, out);
	kv_actor(r, g->p, "free", &e->free, out);
	mt_buf_addc(out, '\n');
}

int mt_errors_kv(const struct mt_report *r, struct mt_buf *out)
{
	mt_auto(mt_error_list) struct mt_error_list l;
	const struct mt_error_group *g;
	uint64_t rank = 0;

	if (mt_error_list_make(r, &l))
		return -ENOMEM;
	for (uint32_t pos = 0; (g = mt_error_list_next(&l, &pos));)
		if (++rank <= r->top || !r->top)
			kv_group(r, g, out);
	mt_buf_printf(out,
		      "[STATS] memory_error_count=%" PRIu64
		      "\n[STATS] suppressed_error_count=%" PRIu64 "\n",
		      l.errors, l.suppressed);
	return 0;
}

/* ---- CSV ---- */

static void csv_stack(const struct mt_report *r, const struct mt_profile *p,
		      const struct mt_profile_actor *a, struct mt_buf *out, bool last)
{
	mt_auto(mt_buf) struct mt_buf text = {0};

	if (a->node)
		mt_stack_each_at(r, p, a->node, mt_csv_stack_line, &text);
	out->failed |= text.failed;
	mt_csv_field(out, mt_buf_text(&text), last);
}

static void csv_changed(const struct mt_report *r, const struct mt_error_group *g,
			struct mt_buf *out)
{
	const struct mt_profile_damage *d = g->first->damage;
	mt_auto(mt_buf) struct mt_buf looks = {0};

	if (!d || !d->first) {
		mt_buf_adds(out, "0,,,");
		return;
	}
	mt_error_looks(r, g, &looks);
	mt_buf_printf(out, "%" PRIu64 ",%" PRId64 ",", d->count,
		      (int64_t)(d->first - g->first->block));
	mt_csv_field(out, mt_buf_text(&looks), false);
	out->failed |= looks.failed;
}

static void csv_group(const struct mt_report *r, const struct mt_error_group *g, uint64_t rank,
		      struct mt_buf *out)
{
	const struct mt_profile_error *e = g->first;

	mt_buf_printf(out, "%" PRIu64 ",%s,%" PRIu64 ",%s,%" PRId32 ",0x%" PRIx64 ",", rank,
		      mt_words_error_key(e->kind), g->count, mt_error_access_key(e->access),
		      g->p->pid, e->address);
	if (e->block)
		mt_buf_printf(out, "0x%" PRIx64 ",%" PRIu64 ",%" PRId64 ",", e->block,
			      e->block_bytes, (int64_t)(e->address - e->block));
	else
		mt_buf_adds(out, ",,,");
	mt_csv_field(out, e->call ? mt_words_call(e->call) : "", false);
	mt_csv_field(out, e->alloc_call ? mt_words_call(e->alloc_call) : "", false);
	csv_changed(r, g, out);
	csv_stack(r, g->p, &e->use, out, false);
	csv_stack(r, g->p, &e->alloc, out, false);
	csv_stack(r, g->p, &e->free, out, true);
}

int mt_errors_csv(const struct mt_report *r, struct mt_buf *out)
{
	mt_auto(mt_error_list) struct mt_error_list l;
	const struct mt_error_group *g;
	uint64_t rank = 0;

	if (mt_error_list_make(r, &l))
		return -ENOMEM;
	mt_buf_adds(out, "rank,kind,count,access,pid,address,block,block_bytes,offset,call,"
			 "alloc_call,changed,changed_offset,looks_like,use_stack,alloc_stack,"
			 "free_stack\n");
	for (uint32_t pos = 0; (g = mt_error_list_next(&l, &pos));)
		if (++rank <= r->top || !r->top)
			csv_group(r, g, rank, out);
	return 0;
}
