/* SPDX-License-Identifier: MIT */
/*
 * Memory errors for people and programs. An error has up to three call stacks: the access (or the
 * wrong free), the allocation of the block, and its free.
 */
#include "report/errors.h"

#include "base/escape.h"
#include "base/units.h"
#include "model/profile.h"
#include "report/json_report.h"

#include <inttypes.h>
#include <stdio.h>

/* As in the state file; the report does not know that format. */
enum {
	KIND_OVERFLOW = 1,
	KIND_UNDERFLOW,
	KIND_USE_AFTER_FREE,
	KIND_DOUBLE_FREE,
	KIND_INVALID_FREE,
	KIND_WILD,
	KINDS
};
enum { READS = 1, WRITES = 2 };
enum { FOUND_LATE = 1, INHERITED = 2, FATAL = 4 };

static const char *kind_words(uint32_t kind)
{
	static const char *const words[KINDS] = {
		[KIND_OVERFLOW] = "heap buffer overflow",
		[KIND_UNDERFLOW] = "heap buffer underflow",
		[KIND_USE_AFTER_FREE] = "use after free",
		[KIND_DOUBLE_FREE] = "double free",
		[KIND_INVALID_FREE] = "invalid free",
		[KIND_WILD] = "wild access",
	};
	return kind < KINDS && words[kind] ? words[kind] : "unknown error";
}

static const char *kind_key(uint32_t kind)
{
	static const char *const keys[KINDS] = {
		[KIND_OVERFLOW] = "overflow",
		[KIND_UNDERFLOW] = "underflow",
		[KIND_USE_AFTER_FREE] = "use-after-free",
		[KIND_DOUBLE_FREE] = "double-free",
		[KIND_INVALID_FREE] = "invalid-free",
		[KIND_WILD] = "wild-access",
	};
	return kind < KINDS && keys[kind] ? keys[kind] : "unknown";
}

static const char *access_key(uint32_t access)
{
	return access == READS ? "read" : access == WRITES ? "write" : "unknown";
}

static bool is_free(const struct mt_profile_error *e)
{
	return e->kind == KIND_DOUBLE_FREE || e->kind == KIND_INVALID_FREE;
}

bool mt_errors_were_looked_for(const struct mt_report *r)
{
	for (uint32_t i = 0; i < r->profile_count; i++)
		if (r->profiles[i]->guard_slots || r->profiles[i]->error_count)
			return true;
	return false;
}

uint64_t mt_errors_count(const struct mt_report *r)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < r->profile_count; i++)
		count += r->profiles[i]->error_count;
	return count;
}

uint64_t mt_report_count_errors(const struct mt_report *r)
{
	return mt_errors_count(r);
}

/* Errors that the table had no room for. */
static uint64_t count_refused(const struct mt_report *r)
{
	enum { ERRORS_REGION = 19 };
	uint64_t count = 0;

	for (uint32_t i = 0; i < r->profile_count; i++)
		count += r->profiles[i]->region_refused[ERRORS_REGION];
	return count;
}

/* ---- text ---- */

/* Where the address lies, seen from the block. */
static void add_place(const struct mt_profile_error *e, struct mt_buf *out)
{
	uint64_t end = e->block + e->block_bytes;
	const char *s = e->block_bytes == 1 ? "" : "s";

	if (!e->block)
		mt_buf_adds(out, "where no block is");
	else if (e->address < e->block)
		mt_buf_printf(out, "%" PRIu64 " bytes before a block of %" PRIu64 " byte%s",
			      e->block - e->address, e->block_bytes, s);
	else if (e->address >= end)
		mt_buf_printf(out,
			      "%" PRIu64 " bytes behind the end of a block of %" PRIu64 " byte%s",
			      e->address - end, e->block_bytes, s);
	else if (e->address == e->block)
		mt_buf_printf(out, "at the start of a block of %" PRIu64 " byte%s", e->block_bytes,
			      s);
	else
		mt_buf_printf(out, "%" PRIu64 " bytes into a block of %" PRIu64 " byte%s",
			      e->address - e->block, e->block_bytes, s);
}

static void add_actor(const struct mt_report *r, const struct mt_profile *p, const char *what,
		      const struct mt_profile_actor *a, struct mt_buf *out)
{
	char time[MT_UNITS_TEXT_MAX];

	mt_buf_printf(out, "   %s by thread %" PRIu32, what, a->tid);
	if (p->thread[a->thread].name[0])
		mt_text_line(out, " (", p->thread[a->thread].name, ")");
	if (a->thread)
		mt_buf_printf(out, ", %s after the start", mt_units_time(a->ns, time));
	mt_buf_addc(out, '\n');
	if (a->node)
		mt_text_stack_at(r, p, a->node, out);
	else if (r->stack)
		mt_buf_adds(out, "    (call stack not known)\n");
}

static const char *use_words(const struct mt_profile_error *e)
{
	if (e->flags & FOUND_LATE)
		return "found when it was freed,";
	if (is_free(e))
		return "freed";
	return e->access == READS ? "read" : e->access == WRITES ? "written" : "accessed";
}

static void add_error(const struct mt_report *r, const struct mt_profile *p,
		      const struct mt_profile_error *e, uint64_t rank, struct mt_buf *out)
{
	mt_buf_printf(out, "\n%" PRIu64 ". %s%s%s: ", rank, mt_text_strong(r), kind_words(e->kind),
		      mt_text_end(r));
	if (!is_free(e) && e->access)
		mt_buf_printf(out, "%s ", access_key(e->access));
	else if (is_free(e))
		mt_buf_adds(out, "free of an address ");
	add_place(e, out);
	mt_buf_adds(out, e->flags & FATAL ? "; the program was not let go on\n" : "\n");
	if (r->profile_count > 1)
		mt_buf_printf(out, "   in process %" PRId32 "\n", p->pid);
	mt_buf_printf(out, "   address 0x%" PRIx64, e->address);
	if (e->block)
		mt_buf_printf(out, ", block at 0x%" PRIx64, e->block);
	mt_buf_addc(out, '\n');
	add_actor(r, p, use_words(e), &e->use, out);
	if (e->alloc.tid)
		add_actor(r, p,
			  e->flags & INHERITED ? "allocated in the parent process" : "allocated",
			  &e->alloc, out);
	if (e->free.tid)
		add_actor(r, p, is_free(e) ? "freed before" : "freed", &e->free, out);
}

static void add_head(const struct mt_report *r, struct mt_buf *out)
{
	uint64_t count[KINDS] = {0}, all = mt_errors_count(r);
	bool has_one = false;

	for (uint32_t i = 0; i < r->profile_count; i++)
		for (uint32_t k = 0; k < r->profiles[i]->error_count; k++)
			count[r->profiles[i]->error[k].kind % KINDS]++;
	mt_buf_printf(out, "%s%" PRIu64 " memory error%s", mt_text_strong(r), all,
		      all == 1 ? "" : "s");
	for (uint32_t i = 1; i < KINDS; i++)
		if (count[i]) {
			mt_buf_printf(out, "%s%" PRIu64 " %s", has_one ? ", " : ": ", count[i],
				      kind_words(i));
			has_one = true;
		}
	mt_buf_printf(out, "%s\n", mt_text_end(r));
	if (count_refused(r))
		mt_buf_printf(out, "  and %" PRIu64 " more that the table had no room for\n",
			      count_refused(r));
}

static void add_errors(const struct mt_report *r, struct mt_buf *out)
{
	uint64_t rank = 0, all = mt_errors_count(r);

	for (uint32_t i = 0; i < r->profile_count; i++)
		for (uint32_t k = 0; k < r->profiles[i]->error_count; k++)
			if (++rank <= r->top || !r->top)
				add_error(r, r->profiles[i], &r->profiles[i]->error[k], rank, out);
	if (r->top && all > r->top)
		mt_buf_printf(out, "\n%" PRIu64 " more errors (--top=0 shows all)\n", all - r->top);
}

void mt_errors_text(const struct mt_report *r, struct mt_buf *out)
{
	add_head(r, out);
	mt_errors_text_pool(r, out);
	add_errors(r, out);
}

void mt_errors_text_first(const struct mt_report *r, struct mt_buf *out)
{
	if (!mt_errors_count(r))
		return;
	add_head(r, out);
	if (r->show != MT_SHOW_SUMMARY) {
		add_errors(r, out);
		mt_buf_addc(out, '\n');
	}
}

struct pool {
	uint64_t slots, bytes, placed, refused;
};

static struct pool sum_pools(const struct mt_report *r)
{
	struct pool sum = {0};

	for (uint32_t i = 0; i < r->profile_count; i++) {
		sum.slots += r->profiles[i]->guard_slots;
		sum.bytes += r->profiles[i]->guard_bytes;
		sum.placed += r->profiles[i]->guard_placed;
		sum.refused += r->profiles[i]->guard_refused;
	}
	return sum;
}

void mt_errors_text_pool(const struct mt_report *r, struct mt_buf *out)
{
	struct pool sum = sum_pools(r);
	char text[MT_UNITS_TEXT_MAX];

	if (!sum.slots)
		return;
	mt_buf_printf(out, "  guarded    %s sample%s", mt_units_count(sum.placed, text),
		      sum.placed == 1 ? "" : "s");
	mt_buf_printf(out, ", in a pool of %s slots", mt_units_count(sum.slots, text));
	mt_buf_printf(out, " that takes %s at most", mt_units_size(sum.bytes, text));
	if (sum.refused)
		mt_buf_printf(out, "; %s more found no free slot",
			      mt_units_count(sum.refused, text));
	mt_buf_addc(out, '\n');
}

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

static void json_error(const struct mt_report *r, const struct mt_profile *p,
		       const struct mt_profile_error *e, struct mt_json *j)
{
	mt_json_open(j, NULL, '{');
	mt_json_string(j, "kind", kind_key(e->kind));
	mt_json_string(j, "access", access_key(e->access));
	mt_json_i64(j, "pid", p->pid);
	mt_json_hash(j, "address", e->address);
	if (e->block) {
		mt_json_hash(j, "block", e->block);
		mt_json_u64(j, "block_bytes", e->block_bytes);
		mt_json_i64(j, "offset", (int64_t)(e->address - e->block));
	}
	if (e->signal)
		mt_json_u64(j, "signal", e->signal);
	mt_json_bool(j, "found_late", e->flags & FOUND_LATE);
	mt_json_bool(j, "inherited", e->flags & INHERITED);
	mt_json_bool(j, "fatal", e->flags & FATAL);
	json_actor(r, p, "use", &e->use, j);
	json_actor(r, p, "alloc", &e->alloc, j);
	json_actor(r, p, "free", &e->free, j);
	mt_json_close(j, '}');
}

void mt_errors_json(const struct mt_report *r, struct mt_json *j)
{
	uint64_t rank = 0;

	mt_json_open(j, "errors", '[');
	for (uint32_t i = 0; i < r->profile_count; i++)
		for (uint32_t k = 0; k < r->profiles[i]->error_count; k++)
			if (++rank <= r->top || !r->top)
				json_error(r, r->profiles[i], &r->profiles[i]->error[k], j);
	mt_json_close(j, ']');
}

void mt_errors_json_pool(const struct mt_report *r, struct mt_json *j)
{
	struct pool sum = sum_pools(r);

	if (!sum.slots)
		return;
	mt_json_open(j, "guard", '{');
	mt_json_u64(j, "slots", sum.slots);
	mt_json_u64(j, "bytes_at_most", sum.bytes);
	mt_json_u64(j, "placed", sum.placed);
	mt_json_u64(j, "refused", sum.refused);
	mt_json_u64(j, "errors", mt_errors_count(r));
	mt_json_u64(j, "errors_not_kept", count_refused(r));
	mt_json_close(j, '}');
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

static void kv_error(const struct mt_report *r, const struct mt_profile *p,
		     const struct mt_profile_error *e, struct mt_buf *out)
{
	mt_buf_printf(out, "[ERROR] kind=%s\n[ERROR] access=%s\n[ERROR] pid=%" PRId32 "\n",
		      kind_key(e->kind), access_key(e->access), p->pid);
	mt_buf_printf(out, "[ERROR] address=0x%" PRIx64 "\n", e->address);
	if (e->block)
		mt_buf_printf(out, "[ERROR] block_bytes=%" PRIu64 "\n[ERROR] offset=%" PRId64 "\n",
			      e->block_bytes, (int64_t)(e->address - e->block));
	mt_buf_printf(out, "[ERROR] found_late=%d\n[ERROR] fatal=%d\n",
		      (e->flags & FOUND_LATE) != 0, (e->flags & FATAL) != 0);
	kv_actor(r, p, "use", &e->use, out);
	kv_actor(r, p, "alloc", &e->alloc, out);
	kv_actor(r, p, "free", &e->free, out);
	mt_buf_addc(out, '\n');
}

void mt_errors_kv(const struct mt_report *r, struct mt_buf *out)
{
	uint64_t rank = 0;

	for (uint32_t i = 0; i < r->profile_count; i++)
		for (uint32_t k = 0; k < r->profiles[i]->error_count; k++)
			if (++rank <= r->top || !r->top)
				kv_error(r, r->profiles[i], &r->profiles[i]->error[k], out);
	mt_buf_printf(out, "[STATS] memory_error_count=%" PRIu64 "\n", mt_errors_count(r));
}
