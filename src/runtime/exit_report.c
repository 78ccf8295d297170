/* SPDX-License-Identifier: MIT */
/* The report that a program prints about itself. Lines are key=value so that scripts can read them.
 */
#include "runtime/exit_report.h"

#include "core/fmt.h"
#include "core/mem.h"
#include "core/sys.h"
#include "runtime/arena.h"
#include "runtime/fast.h"
#include "runtime/frames.h"
#include "runtime/index.h"
#include "runtime/record.h"
#include "runtime/sampler.h"
#include "runtime/storage.h"

/* Of a sampled site both are estimates, rounded when they are printed. */
struct suspect {
	uint64_t bytes_q16, count_q16; /* in 1/65536 while they are added up */
	uint64_t bytes, count;
};

enum { SITES_SHOWN = 50, FRAMES_SHOWN = 24 };

static void print(const struct mt_fmt *f, const char *buf)
{
	const char *at = buf;
	while (at < f->at) {
		long n = mt_sys_write(2, at, (size_t)(f->at - at));
		if (n == -MT_EINTR)
			continue;
		if (n <= 0)
			return;
		at += n;
	}
}

static uint64_t stack_hash(uint32_t node)
{
	const struct mt_state_node *frame[MT_DEPTH_MAX + 1];
	uint32_t n = 0;
	for (; node >= MT_NODE_ROOTS && n < MT_ARRAY_LEN(frame); node = mt_rt.nodes[node].parent)
		frame[n++] = &mt_rt.nodes[node];
	return mt_frames_hash(frame, n);
}

static const char *base_name(const char *path)
{
	const char *base = path;
	for (; *path; path++)
		if (*path == '/')
			base = path + 1;
	return base;
}

/* libfoo.so+0x1234(function+0x12), or file.c:12 where the source gave it */
static void print_frame(struct mt_fmt *f, const struct mt_state_node *node)
{
	struct mt_frame_place place = mt_frame_find(node, NULL);
	mt_fmt_str(f, " ");
	if (place.file) {
		mt_fmt_str(f, place.file);
		mt_fmt_str(f, ":");
		mt_fmt_u64(f, place.line);
		return;
	}
	if (!place.module) {
		mt_fmt_str(f, "0x");
		mt_fmt_hex(f, node->pc, 1);
		return;
	}
	mt_fmt_str(f, base_name(place.module));
	mt_fmt_str(f, "+0x");
	mt_fmt_hex(f, place.relative, 1); /* in the call, as other tools look it up */
	if (!place.function)
		return;
	mt_fmt_str(f, "(");
	mt_frame_put_function(f, &place);
	mt_fmt_str(f, "+0x");
	mt_fmt_hex(f, place.offset, 1);
	mt_fmt_str(f, ")");
}

static void print_suspect(uint32_t site, const struct suspect *s)
{
	char buf[4096];
	struct mt_fmt f;
	uint32_t node = mt_rt.sites[site].node;
	mt_fmt_init(&f, buf, sizeof(buf));
	mt_fmt_str(&f, "[LEAK] leak_suspects_summary:\n  count=");
	mt_fmt_u64(&f, s->count);
	mt_fmt_str(&f, "   total_bytes=");
	mt_fmt_u64(&f, s->bytes);
	mt_fmt_str(&f, "   avg_size=");
	mt_fmt_u64(&f, s->bytes / s->count);
	mt_fmt_str(&f, "\n  callstack_hash=0x");
	mt_fmt_hex(&f, stack_hash(node), 16);
	mt_fmt_str(&f, "\n  allocation_site:");
	for (int n = 0; node >= MT_NODE_ROOTS && n < FRAMES_SHOWN;
	     n++, node = mt_rt.nodes[node].parent)
		print_frame(&f, &mt_rt.nodes[node]);
	mt_fmt_str(&f, "\n");
	print(&f, buf);
}

static void print_number(struct mt_fmt *f, const char *key, uint64_t value)
{
	mt_fmt_str(f, "[STATS] ");
	mt_fmt_str(f, key);
	mt_fmt_str(f, "=");
	mt_fmt_u64(f, value);
	mt_fmt_str(f, "\n");
}

static uint64_t used(enum mt_state_region_kind kind)
{
	const struct mt_state_region *r = mt_rt.region[kind];
	return MT_MIN(r->used, r->committed_bytes / r->elem_bytes);
}

/* How the blocks of a cell were chosen; NULL: all are recorded. */
static const struct mt_state_regime *regime_of(uint32_t cell)
{
	const struct mt_state_regime *all = mt_storage_base(MT_REGION_REGIMES);
	uint32_t regime = cell ? mt_rt.sites[mt_rt.cells[cell].site].regime : 0;
	return regime ? &all[regime] : NULL;
}

/* What was recorded in full: the rows of the threads, less the samples that are among them. */
static struct mt_state_totals sum_recorded(uint64_t *ret_missed)
{
	struct mt_state_totals sum = {0};
	uint64_t n = MT_MIN(mt_rt.region[MT_REGION_THREADS]->used,
			    mt_rt.region[MT_REGION_THREADS]->capacity);
	*ret_missed = 0;
	for (uint64_t i = 1; i < n; i++) {
		const struct mt_state_totals *t = &mt_rt.threads[i].totals[MT_CLASS_MALLOC];
		sum.allocs += t->allocs;
		sum.frees += t->frees;
		sum.bytes += t->bytes;
		sum.freed_bytes += t->freed_bytes;
		*ret_missed += mt_rt.threads[i].nested_allocs;
	}
	n = used(MT_REGION_CELLS);
	for (uint64_t i = 1; i < n; i++) {
		const struct mt_state_cell *c = &mt_rt.cells[i];
		if (!regime_of((uint32_t)i) || mt_rt.sites[c->site].heap != MT_HEAP_MALLOC)
			continue;
		sum.allocs -= c->allocs;
		sum.frees -= c->frees;
		sum.bytes -= c->bytes;
		sum.freed_bytes -= c->freed_bytes;
	}
	return sum;
}

/*
 * Adds what was counted without a record, in usable bytes; its number of allocations. *ret_peak:
 * the sum of the threads' peaks, exact for a single one.
 */
static uint64_t add_counted(struct mt_state_totals *sum, int64_t *ret_peak)
{
	const struct mt_state_stats *rows = mt_storage_base(MT_REGION_STATS);
	uint64_t n = used(MT_REGION_STATS), allocs = 0;
	*ret_peak = 0;
	for (uint64_t i = 1; i < n; i++) {
		*ret_peak += MT_MAX(rows[i].peak_bytes, (int64_t)0);
		for (uint32_t k = 0; k < MT_SIZE_BUCKETS; k++) {
			const struct mt_state_size_class *c = &rows[i].size_class[k];
			allocs += c->allocs;
			sum->allocs += c->allocs;
			sum->frees += c->frees;
			sum->bytes += c->bytes;
			sum->freed_bytes += c->freed_bytes;
		}
	}
	return allocs;
}

/* The peak of both ways of counting is at least the higher one; one of samples is an estimate. */
static uint64_t peak_of(const struct mt_state_header *h, int64_t rows, uint64_t recorded,
			uint64_t live)
{
	int64_t published = mt_rt.single ? MT_MAX(h->stats_peak_bytes, rows) : h->stats_peak_bytes;
	uint64_t peak = (uint64_t)MT_MAX(published, (int64_t)0);
	if (recorded || !peak)
		peak = MT_MAX(peak, (uint64_t)h->peak_bytes);
	return MT_MAX(peak, live);
}

static void print_totals(void)
{
	char buf[2048];
	struct mt_fmt f;
	uint64_t missed;
	struct mt_state_totals sum = sum_recorded(&missed);
	int64_t rows;
	uint64_t recorded = sum.allocs, counted = add_counted(&sum, &rows);
	mt_fmt_init(&f, buf, sizeof(buf));
	print_number(&f, "total_alloc_count", sum.allocs);
	print_number(&f, "total_alloc_bytes", sum.bytes);
	print_number(&f, "total_free_count", sum.frees);
	print_number(&f, "total_free_bytes", sum.freed_bytes);
	uint64_t live = sum.bytes - sum.freed_bytes;
	print_number(&f, "peak_alloc_bytes", peak_of(mt_rt.hdr, rows, recorded, live));
	if (!mt_rt.single)
		print_number(&f, "peak_bound_bytes",
			     (uint64_t)MT_PEAK_STEP * mt_rt.hdr->threads_seen);
	print_number(&f, "current_alloc_bytes", live);
	if (counted)
		print_number(&f, "usable_alloc_count", counted);
	for (size_t i = 0; i < MT_ARRAY_LEN(mt_rt.hdr->lost); i++)
		missed += mt_rt.hdr->lost[i];
	if (missed)
		print_number(&f, "events_not_recorded", missed);
	print(&f, buf);
}

static void add_block(struct suspect *by_site, uint32_t cell, uint64_t size)
{
	struct suspect *s = &by_site[cell ? mt_rt.cells[cell].site : 0];
	const struct mt_state_regime *regime = regime_of(cell);
	struct mt_weight w = {.count_q16 = 1 << 16, .bytes_q16 = size << 16};
	if (regime)
		w = mt_sample_weight(regime, size);
	s->count_q16 += w.count_q16;
	s->bytes_q16 += w.bytes_q16;
}

/* A small block lives at the address of a large one: the large one was freed out of our sight. */
static int is_stale(const struct mt_state_large *l)
{
	const uint32_t *slot = mt_index_find(l->place);
	if (!slot || mt_rt.live[*slot & ~MT_SLOT_SAMPLED].place != l->place)
		return 0;
	mt_rt_lost(MT_LOST_UNSEEN_FREE);
	return 1;
}

static void sum_blocks(struct suspect *by_site)
{
	uint64_t n = used(MT_REGION_LIVE);
	for (uint64_t i = 1; i < n; i++)
		if (mt_rt.live[i].place)
			add_block(by_site, mt_rt.live[i].cell, mt_rt.live[i].size);
	n = used(MT_REGION_LARGE);
	for (uint64_t i = 1; i < n; i++)
		if (mt_rt.large[i].place && mt_rt.large[i].heap == MT_HEAP_MALLOC &&
		    !is_stale(&mt_rt.large[i]))
			add_block(by_site, mt_rt.large[i].cell, mt_rt.large[i].size);
}

static void print_summary(uint64_t suspects, const struct suspect *all, const struct suspect *small,
			  uint64_t shown)
{
	char buf[1024];
	struct mt_fmt f;
	mt_fmt_init(&f, buf, sizeof(buf));
	if (suspects > shown) {
		mt_fmt_str(&f, "[LEAK] ");
		mt_fmt_u64(&f, suspects - shown);
		mt_fmt_str(&f, " more suspects are not shown\n");
	}
	mt_fmt_str(&f, "[LEAK-SUMMARY] ");
	mt_fmt_u64(&f, suspects);
	mt_fmt_str(&f, " leak suspects, ");
	mt_fmt_u64(&f, all->bytes - small->bytes);
	mt_fmt_str(&f, " bytes total\n[LEAK-SMALL] count=");
	mt_fmt_u64(&f, small->count);
	mt_fmt_str(&f, "\n[LEAK-SMALL] total_bytes=");
	mt_fmt_u64(&f, small->bytes);
	mt_fmt_str(&f, "\n");
	print(&f, buf);
}

/* What the figures rest on, when it is not a record of every block. */
static void print_notes(void)
{
	char buf[512];
	struct mt_fmt f;
	mt_fmt_init(&f, buf, sizeof(buf));
	if (used(MT_REGION_REGIMES) > 1)
		mt_fmt_str(&f, "[NOTE] leaks are estimated from samples; memtrack report shows "
			       "how sure they are\n");
	else if (used(MT_REGION_STATS) > 1)
		mt_fmt_str(&f, "[NOTE] statistics mode records no call stacks: leaks are not "
			       "known\n");
	print(&f, buf);
}

static void print_leaks(void)
{
	uint64_t sites = used(MT_REGION_SITES), suspects = 0, shown = 0;
	struct suspect *by_site = mt_arena_take((sites + 1) * sizeof(*by_site));
	struct suspect all = {0}, small = {0};
	if (!by_site)
		return;
	sum_blocks(by_site);
	for (uint64_t i = 0; i < sites; i++) {
		by_site[i].bytes = (by_site[i].bytes_q16 + (1 << 15)) >> 16;
		by_site[i].count = (by_site[i].count_q16 + (1 << 15)) >> 16;
	}
	for (uint64_t i = 0; i < sites; i++) {
		struct suspect *s = &by_site[i];
		int is_small = s->bytes < mt_rt.options.leak_threshold || !i;
		all.bytes += s->bytes;
		suspects += !is_small && s->count;
		if (is_small) {
			small.bytes += s->bytes;
			small.count += s->count;
			s->count = 0;
		}
	}
	for (; shown < SITES_SHOWN; shown++) { /* largest first */
		uint64_t best = 0;
		for (uint64_t i = 1; i < sites; i++)
			if (by_site[i].count && (!best || by_site[i].bytes > by_site[best].bytes))
				best = i;
		if (!best)
			break;
		print_suspect((uint32_t)best, &by_site[best]);
		by_site[best].count = 0;
	}
	print_summary(suspects, &all, &small, shown);
}

static uint64_t stderr_identity;

void mt_exit_report_init(void)
{
	stderr_identity = mt_sys_file_identity(2);
}

void mt_exit_report(void)
{
	struct mt_thread *t;
	if (!mt_rt.options.exit_report || mt_enter(&t) != MT_ENTER_TRACK)
		return;
	if (!stderr_identity || mt_sys_file_identity(2) != stderr_identity) {
		/* not the terminal or log any more: nothing is written, the state file stays */
		mt_leave(t);
		return;
	}
	print_notes();
	print_leaks();
	print_totals();
	mt_storage_unlink();
	mt_leave(t);
}
