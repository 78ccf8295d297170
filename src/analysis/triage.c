/* SPDX-License-Identifier: MIT */
/*
 * The order of verdicts is that of the search for a cause: damage makes all else unreliable; then
 * what grows; then what is wrong though nothing grows.
 */

#include "analysis/triage.h"

#include "core/cc.h"

#include <string.h>

/* Growth of less than both is taken for chance. */
enum { LEAST_BYTES = 128 << 10, LEAST_SHARE = 256 };
enum { HEAP_MUCH_BYTES = 16 << 20, LOST_MUCH_BYTES = 1 << 20, LOST_SHARE = 10 };
enum { DESCRIPTORS_MUCH = 16, MAPPINGS_MUCH = 16, NEAR_PERCENT = 80 };

static const char *const part_keys[MT_TRIAGE_PARTS] = {
	[MT_TRIAGE_HEAP] = "heap",       [MT_TRIAGE_JAVA] = "java",
	[MT_TRIAGE_ANON] = "anonymous",  [MT_TRIAGE_STACKS] = "stacks",
	[MT_TRIAGE_SHARED] = "shared",   [MT_TRIAGE_FILES] = "files",
	[MT_TRIAGE_CODE] = "code",       [MT_TRIAGE_DEVICES] = "devices",
	[MT_TRIAGE_TRACKER] = "tracker", [MT_TRIAGE_BUFFERS] = "buffers",
	[MT_TRIAGE_GPU] = "gpu",         [MT_TRIAGE_PAGE_TABLES] = "page_tables",
};

static const char *const verdict_keys[MT_VERDICTS] = {
	[MT_VERDICT_ENDED] = "ended",
	[MT_VERDICT_REFUSED] = "refused",
	[MT_VERDICT_DAMAGED] = "damaged",
	[MT_VERDICT_LOST] = "lost",
	[MT_VERDICT_LIVE] = "live",
	[MT_VERDICT_LIVE_UNKNOWN] = "live_unknown",
	[MT_VERDICT_FRAGMENTED] = "fragmented",
	[MT_VERDICT_HEAP] = "heap",
	[MT_VERDICT_JAVA] = "java",
	[MT_VERDICT_ANON] = "anonymous",
	[MT_VERDICT_ANON_UNKNOWN] = "anonymous_unknown",
	[MT_VERDICT_ANON_JAVA] = "anonymous_java",
	[MT_VERDICT_STACKS] = "stacks",
	[MT_VERDICT_SHARED] = "shared",
	[MT_VERDICT_BUFFERS] = "buffers",
	[MT_VERDICT_FILES] = "files",
	[MT_VERDICT_CODE] = "code",
	[MT_VERDICT_DEVICES] = "devices",
	[MT_VERDICT_TRACKER] = "tracker",
	[MT_VERDICT_PAGE_TABLES] = "page_tables",
	[MT_VERDICT_DESCRIPTORS] = "descriptors",
	[MT_VERDICT_MAPPINGS] = "mappings",
	[MT_VERDICT_LEVELLED] = "levelled",
	[MT_VERDICT_SHRINKS] = "shrinks",
	[MT_VERDICT_STEADY] = "steady",
};

const char *mt_triage_part_key(enum mt_triage_part part)
{
	return part_keys[part];
}

const char *mt_triage_verdict_key(enum mt_triage_verdict verdict)
{
	return verdict_keys[verdict];
}

/* ---- growth ---- */

static int64_t minus(uint64_t a, uint64_t b)
{
	return (int64_t)(a - b);
}

int64_t mt_triage_growth(const struct mt_triage_facts *f, enum mt_triage_part part)
{
	const struct mt_triage_amount *a = &f->part[part];

	return f->readings ? minus(a->bytes[f->readings - 1], a->bytes[0]) : 0;
}

uint64_t mt_triage_bytes_in_all(const struct mt_triage_facts *f, size_t reading)
{
	uint64_t sum = 0;

	for (int i = 0; i < MT_TRIAGE_BUFFERS; i++)
		sum += f->part[i].bytes[reading];
	return sum;
}

int64_t mt_triage_growth_in_all(const struct mt_triage_facts *f)
{
	return f->readings ? minus(mt_triage_bytes_in_all(f, f->readings - 1),
				   mt_triage_bytes_in_all(f, 0))
			   : 0;
}

uint64_t mt_triage_mappings(const struct mt_triage_facts *f, bool is_before)
{
	uint64_t sum = 0;

	for (int i = 0; i < MT_TRIAGE_BUFFERS; i++)
		sum += is_before ? f->part[i].mappings_before : f->part[i].mappings_now;
	return sum;
}

uint64_t mt_triage_least_bytes(const struct mt_triage_facts *f)
{
	return f->readings
		       ? MT_MAX(mt_triage_bytes_in_all(f, 0) / LEAST_SHARE, (uint64_t)LEAST_BYTES)
		       : LEAST_BYTES;
}

static bool is_much(const struct mt_triage_facts *f, int64_t growth)
{
	return growth >= (int64_t)mt_triage_least_bytes(f);
}

/* Steps between readings that hold a fair share of the growth; the last such one in *ret_last. */
static size_t count_steps(const struct mt_triage_facts *f, enum mt_triage_part part, int64_t growth,
			  size_t *ret_last)
{
	const uint64_t *bytes = f->part[part].bytes;
	size_t count = 0;

	*ret_last = 0;
	for (size_t i = 1; i < f->readings; i++)
		if (minus(bytes[i], bytes[i - 1]) * 4 * (int64_t)(f->readings - 1) >= growth) {
			count++;
			*ret_last = i;
		}
	return count;
}

enum mt_triage_pace mt_triage_pace(const struct mt_triage_facts *f, enum mt_triage_part part)
{
	int64_t growth = mt_triage_growth(f, part);
	size_t last, steps;

	if (is_much(f, -growth))
		return MT_TRIAGE_SHRINKS;
	if (!is_much(f, growth))
		return MT_TRIAGE_FLAT;
	steps = count_steps(f, part, growth, &last);
	if (f->readings < 4 || steps + 1 >= f->readings - 1)
		return MT_TRIAGE_KEEPS;
	return last + 1 < f->readings - 1 ? MT_TRIAGE_LEVELLED : MT_TRIAGE_STEPS;
}

/* ---- steps ---- */

/* The tracker counts more that is live. */
static bool is_live_growing(const struct mt_triage_facts *f)
{
	const struct mt_triage_tracker *t = &f->tracker;

	return t->step == MT_TRIAGE_DONE && is_much(f, t->live_bytes - t->live_before_bytes);
}

bool mt_triage_is_heap_growing(const struct mt_triage_facts *f)
{
	return is_much(f, mt_triage_growth(f, MT_TRIAGE_HEAP)) ||
	       is_much(f, mt_triage_growth(f, MT_TRIAGE_ANON)) || is_live_growing(f);
}

bool mt_triage_wants_heap(const struct mt_triage_facts *f)
{
	uint64_t heap, all;

	if (!f->readings || f->is_refused)
		return false;
	if (mt_triage_is_heap_growing(f))
		return true;
	heap = f->part[MT_TRIAGE_HEAP].bytes[f->readings - 1];
	all = mt_triage_bytes_in_all(f, f->readings - 1);
	return heap >= HEAP_MUCH_BYTES && heap >= all / 4;
}

bool mt_triage_is_near(const struct mt_triage_limit *l)
{
	return l->now && (double)l->now * 100 >= (double)l->limit * NEAR_PERCENT;
}

static double share(const struct mt_triage_limit *l)
{
	return (double)l->now / (double)MT_MAX(l->limit, 1u);
}

const struct mt_triage_limit *mt_triage_nearest(const struct mt_triage_facts *f)
{
	const struct mt_triage_limit *best = NULL;

	for (size_t i = 0; i < f->limits; i++)
		if (mt_triage_is_near(&f->limit[i]) && (!best || share(&f->limit[i]) > share(best)))
			best = &f->limit[i];
	return best;
}

uint64_t mt_triage_reached_ns(const struct mt_triage_facts *f, const struct mt_triage_limit *l)
{
	double left, growth;

	if (l->now <= l->before || !f->watched_ns)
		return 0;
	left = l->limit > l->now ? (double)(l->limit - l->now) : 0;
	growth = (double)(l->now - l->before);
	left = left / growth * (double)f->watched_ns;
	return left < 1e18 ? (uint64_t)left : 0;
}

/* ---- the verdict ---- */

/*
 * What became lost in the last half is a fair share of what became live in it; that both are known
 * and worth comparing, in *ret_is_known.
 */
static bool is_loss_growing(const struct mt_triage_reach *r, int64_t growth, bool *ret_is_known)
{
	int64_t lost = MT_MAX(minus(r->lost_bytes, r->before_lost_bytes), 0);
	int64_t live = MT_MAX(minus(r->reachable_bytes, r->before_reachable_bytes), 0);

	*ret_is_known = r->has_before && (lost + live) * 8 >= growth;
	return lost * 4 >= lost + live;
}

static bool is_lost(const struct mt_triage_facts *f, int64_t growth)
{
	const struct mt_triage_reach *r = &f->reach;
	bool is_known, is_growing;

	if (r->step != MT_TRIAGE_DONE)
		return false;
	is_growing = is_loss_growing(r, growth, &is_known);
	if (is_much(f, growth))
		return is_known ? is_growing : (int64_t)r->lost_bytes * 4 >= growth;
	return r->lost_bytes >= LOST_MUCH_BYTES &&
	       r->lost_bytes * LOST_SHARE >= r->lost_bytes + r->reachable_bytes;
}

/* More is held without use than is live. */
static bool is_fragmented(const struct mt_triage_heap *h)
{
	return h->step == MT_TRIAGE_DONE && h->held_bytes >= HEAP_MUCH_BYTES &&
	       h->live_bytes < h->held_bytes / 2;
}

/* What is live did not grow with what is held. */
static bool is_growth_free(const struct mt_triage_heap *h)
{
	int64_t held = minus(h->held_bytes, h->before_held_bytes);
	int64_t live = minus(h->live_bytes, h->before_live_bytes);

	return !h->has_before || live * 2 < MT_MAX(held, 0) || live <= 0;
}

static enum mt_triage_verdict judge_heap(const struct mt_triage_facts *f, int64_t growth)
{
	if (f->heap.step != MT_TRIAGE_DONE)
		return is_live_growing(f) ? MT_VERDICT_LIVE_UNKNOWN : MT_VERDICT_HEAP;
	if (is_lost(f, growth))
		return MT_VERDICT_LOST;
	if (is_fragmented(&f->heap) && is_growth_free(&f->heap))
		return MT_VERDICT_FRAGMENTED;
	return f->reach.step == MT_TRIAGE_DONE ? MT_VERDICT_LIVE : MT_VERDICT_LIVE_UNKNOWN;
}

/* Anonymous memory is the allocator's where that holds more than the heap's mappings have. */
static enum mt_triage_verdict judge_anon(const struct mt_triage_facts *f, int64_t growth)
{
	const struct mt_triage_heap *h = &f->heap;
	int64_t held = minus(h->held_bytes, h->before_held_bytes);

	if (h->step == MT_TRIAGE_DONE && h->has_before && held * 4 >= growth &&
	    h->held_bytes / 2 > f->part[MT_TRIAGE_HEAP].bytes[f->readings - 1])
		return judge_heap(f, growth);
	if (f->has_java && f->why_no_java[0])
		return MT_VERDICT_ANON_JAVA;
	return h->step == MT_TRIAGE_REFUSED ? MT_VERDICT_ANON_UNKNOWN : MT_VERDICT_ANON;
}

static enum mt_triage_verdict judge_part(const struct mt_triage_facts *f, enum mt_triage_part part,
					 int64_t growth)
{
	static const enum mt_triage_verdict plain[MT_TRIAGE_PARTS] = {
		[MT_TRIAGE_JAVA] = MT_VERDICT_JAVA,
		[MT_TRIAGE_STACKS] = MT_VERDICT_STACKS,
		[MT_TRIAGE_SHARED] = MT_VERDICT_SHARED,
		[MT_TRIAGE_FILES] = MT_VERDICT_FILES,
		[MT_TRIAGE_CODE] = MT_VERDICT_CODE,
		[MT_TRIAGE_DEVICES] = MT_VERDICT_DEVICES,
		[MT_TRIAGE_TRACKER] = MT_VERDICT_TRACKER,
		[MT_TRIAGE_BUFFERS] = MT_VERDICT_BUFFERS,
		[MT_TRIAGE_GPU] = MT_VERDICT_DEVICES,
		[MT_TRIAGE_PAGE_TABLES] = MT_VERDICT_PAGE_TABLES,
	};

	if (part == MT_TRIAGE_HEAP)
		return judge_heap(f, growth);
	if (part == MT_TRIAGE_ANON)
		return judge_anon(f, growth);
	return plain[part];
}

static bool grows(enum mt_triage_pace pace)
{
	return pace == MT_TRIAGE_KEEPS || pace == MT_TRIAGE_STEPS;
}

/*
 * The part that grew most of those that go on, else of those that stand still since; what is mapped
 * of files behind descriptors is theirs.
 */
static enum mt_triage_part widest(const struct mt_triage_facts *f)
{
	enum mt_triage_part best = MT_TRIAGE_PARTS;
	bool is_best_growing = false;
	int64_t most = 0;

	for (int i = 0; i < MT_TRIAGE_PARTS; i++) {
		enum mt_triage_part part = (enum mt_triage_part)i;
		enum mt_triage_pace pace = mt_triage_pace(f, part);
		int64_t growth = mt_triage_growth(f, part);

		if (!grows(pace) && (pace != MT_TRIAGE_LEVELLED || is_best_growing))
			continue;
		if (growth > most || (grows(pace) && !is_best_growing)) {
			most = growth;
			best = part;
			is_best_growing = grows(pace);
		}
	}
	if (best == MT_TRIAGE_SHARED && mt_triage_growth(f, MT_TRIAGE_BUFFERS) * 2 >= most)
		best = MT_TRIAGE_BUFFERS;
	return best;
}

/* Nothing is mapped in addition: what is wrong all the same. */
static enum mt_triage_verdict judge_rest(const struct mt_triage_facts *f)
{
	const struct mt_triage_heap *h = &f->heap;

	if (is_lost(f, 0))
		return MT_VERDICT_LOST;
	if (is_live_growing(f) || (h->step == MT_TRIAGE_DONE && h->has_before &&
				   is_much(f, minus(h->live_bytes, h->before_live_bytes))))
		return f->reach.step == MT_TRIAGE_DONE ? MT_VERDICT_LIVE : MT_VERDICT_LIVE_UNKNOWN;
	if (is_fragmented(h))
		return MT_VERDICT_FRAGMENTED;
	if (f->descriptors_now >= f->descriptors_before + DESCRIPTORS_MUCH)
		return MT_VERDICT_DESCRIPTORS;
	if (mt_triage_mappings(f, /* is_before */ false) >=
	    mt_triage_mappings(f, /* is_before */ true) + MAPPINGS_MUCH)
		return MT_VERDICT_MAPPINGS;
	return is_much(f, -mt_triage_growth_in_all(f)) ? MT_VERDICT_SHRINKS : MT_VERDICT_STEADY;
}

static bool is_damaged(const struct mt_triage_facts *f)
{
	return (f->heap.step == MT_TRIAGE_DONE && f->heap.damages) ||
	       (f->tracker.step == MT_TRIAGE_DONE && f->tracker.errors);
}

/* Verdicts that are about the allocator's memory, whatever its mappings did. */
static bool is_about_heap(enum mt_triage_verdict verdict)
{
	return verdict == MT_VERDICT_LOST || verdict == MT_VERDICT_LIVE ||
	       verdict == MT_VERDICT_LIVE_UNKNOWN || verdict == MT_VERDICT_FRAGMENTED;
}

void mt_triage_judge(const struct mt_triage_facts *f, struct mt_triage_judgement *ret)
{
	struct mt_triage_judgement j = {.part = widest(f)};

	if (j.part != MT_TRIAGE_PARTS) {
		j.growth_bytes = mt_triage_growth(f, j.part);
		j.pace = mt_triage_pace(f, j.part);
	}
	j.is_growing = grows(j.pace);
	if (f->has_ended) {
		j.verdict = MT_VERDICT_ENDED;
	} else if (f->is_refused) {
		j.verdict = MT_VERDICT_REFUSED;
	} else if (is_damaged(f)) {
		j.verdict = MT_VERDICT_DAMAGED;
	} else if (j.is_growing) {
		j.verdict = judge_part(f, j.part, j.growth_bytes);
	} else {
		j.verdict = judge_rest(f);
		if (j.verdict == MT_VERDICT_STEADY && j.pace == MT_TRIAGE_LEVELLED)
			j.verdict = MT_VERDICT_LEVELLED;
		else if (is_about_heap(j.verdict))
			j.part = MT_TRIAGE_HEAP;
		else
			j.part = MT_TRIAGE_PARTS;
	}
	*ret = j;
}

bool mt_triage_has_old_loss(const struct mt_triage_facts *f, const struct mt_triage_judgement *j)
{
	static const enum mt_triage_verdict others[] = {MT_VERDICT_ENDED, MT_VERDICT_REFUSED,
							MT_VERDICT_DAMAGED, MT_VERDICT_LOST,
							MT_VERDICT_STEADY};

	for (size_t i = 0; i < MT_ARRAY_LEN(others); i++)
		if (j->verdict == others[i])
			return false;
	return f->reach.step == MT_TRIAGE_DONE && f->reach.lost_bytes >= LOST_MUCH_BYTES;
}
