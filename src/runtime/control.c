/* SPDX-License-Identifier: MIT */
/* The policy, its changes, and what each thread takes over of it; see control.h. */
#include "runtime/control.h"

#include "core/clock.h"
#include "core/fmt.h"
#include "core/mem.h"
#include "core/sys.h"
#include "runtime/check.h"
#include "runtime/index.h"
#include "runtime/light.h"
#include "runtime/lock.h"
#include "runtime/sampler.h"
#include "runtime/sites.h"
#include "runtime/storage.h"
#include "runtime/stream.h"

enum { RAIL_SAMPLES = 64 };
static const uint32_t NEVER = UINT32_MAX; /* no control word: requests do not get that far */

void mt_control_forget(void)
{
	mt_rt.control_lock = 0;
	mt_rt.filter = NULL;
	mt_rt.counting = mt_rt.recorded_all = 0;
	mt_stream_forget();
}

static int is_light(uint32_t mode)
{
	return mode == MT_MODE_STATS || mode == MT_MODE_SAMPLE;
}

/* --- the log ------------------------------------------------------------------------------- */

static void log_event(const struct mt_thread *t, enum mt_state_change_what what, uint64_t before,
		      uint64_t after)
{
	struct mt_state_change *all = mt_storage_base(MT_REGION_CHANGES);
	uint32_t n = mt_storage_take(MT_REGION_CHANGES, 1);
	if (!n)
		return;
	mt_thread_read_clock(); /* in the light modes hours may have passed since */
	all[n].unit = mt_now();
	all[n].before = before;
	all[n].after = after;
	all[n].thread = t ? t->number : 0;
	__atomic_store_n(&all[n].what, what, __ATOMIC_RELEASE);
}

static void log_change(const struct mt_thread *t, enum mt_state_change_what what, uint64_t before,
		       uint64_t after)
{
	if (before != after)
		log_event(t, what, before, after);
}

/* No text is kept for a log that is full. */
static void log_string(const struct mt_thread *t, enum mt_state_change_what what, const char *text)
{
	const struct mt_state_region *r = mt_rt.region[MT_REGION_CHANGES];
	int full = r->used >= r->capacity;
	log_change(t, what, UINT64_MAX, full ? 0 : mt_storage_string(text));
}

/* --- regimes ------------------------------------------------------------------------------- */

/* Number of the regime, made when it is new; 0: no room. */
static uint32_t find_regime_locked(uint32_t kind, uint32_t every, uint64_t interval_bytes)
{
	struct mt_state_regime *all = mt_storage_base(MT_REGION_REGIMES);
	const struct mt_state_region *r = mt_rt.region[MT_REGION_REGIMES];
	uint64_t n = MT_MIN(r->used, r->capacity);
	for (uint32_t i = 1; i < n; i++)
		if (all[i].kind == kind && all[i].every == every &&
		    all[i].interval_bytes == interval_bytes)
			return i;
	uint32_t made = mt_storage_take(MT_REGION_REGIMES, 1);
	if (made)
		all[made] = (struct mt_state_regime){.kind = kind,
						     .every = every,
						     .interval_bytes = interval_bytes,
						     .first_unit = mt_now()};
	return made;
}

/* --- the policy ---------------------------------------------------------------------------- */

/* The header tells what is in force. */
static void publish_locked(void)
{
	const struct mt_policy *p = &mt_rt.policy;
	struct mt_state_header *h = mt_rt.hdr;
	int sampling = p->mode == MT_MODE_SAMPLE;
	__atomic_store_n(&h->mode, p->mode, __ATOMIC_RELAXED);
	__atomic_store_n(&h->interval_bytes, sampling ? p->interval_bytes : 0, __ATOMIC_RELAXED);
	__atomic_store_n(&h->every, sampling && !p->interval_bytes ? p->wishes.every : 0,
			 __ATOMIC_RELAXED);
	__atomic_fetch_add(&mt_rt.policy.count, 1, __ATOMIC_RELEASE);
}

static uint32_t regime_of_bytes_locked(uint64_t interval_bytes)
{
	int all = interval_bytes == 1;
	return find_regime_locked(all ? MT_REGIME_ALL : MT_REGIME_BYTES, 0,
				  all ? 0 : interval_bytes);
}

/* What rails made of the interval, they make of those of sizes and heaps. */
static uint64_t in_proportion(uint64_t other_bytes, const struct mt_wishes *w,
			      uint64_t interval_bytes)
{
	uint64_t times = w->every ? 1 : MT_MAX(interval_bytes / w->interval_bytes, 1);
	return other_bytes && times > MT_INTERVAL_MAX / other_bytes ? MT_INTERVAL_MAX
								    : other_bytes * times;
}

static uint32_t regime_of_every_locked(uint32_t every)
{
	int all = every == 1;
	return find_regime_locked(all ? MT_REGIME_ALL : MT_REGIME_EVERY, all ? 0 : every, 0);
}

/* Regimes of what has an interval of its own; custom heaps without one go with the malloc heap,
 * where that is by bytes. 0 or -ENOSPC. */
static int more_regimes_locked(const struct mt_wishes *w, uint64_t interval_bytes, uint32_t regime)
{
	uint32_t *more = mt_rt.policy.more_regimes;
	for (uint32_t i = 0; i < w->range_count; i++) {
		more[i] = regime_of_bytes_locked(
			in_proportion(w->range[i].interval_bytes, w, interval_bytes));
		if (!more[i])
			return -MT_ENOSPC;
	}
	more[MT_RANGES_MAX] = w->custom_interval_bytes
				      ? regime_of_bytes_locked(w->custom_interval_bytes)
				      : regime;
	return more[MT_RANGES_MAX] ? 0 : -MT_ENOSPC;
}

/* What the tables really take: not the page map that was never touched. */
static uint64_t memory_in_use(uint64_t untouched)
{
	return __atomic_load_n(&mt_rt.hdr->committed_bytes, __ATOMIC_RELAXED) +
	       __atomic_load_n(&mt_rt.table_bytes, __ATOMIC_RELAXED) - untouched;
}

/* Puts a mode and an interval in force. 0, or a negative errno value and nothing is changed. */
static int set_mode_locked(uint32_t mode, const struct mt_wishes *wishes, uint64_t interval_bytes)
{
	struct mt_policy *p = &mt_rt.policy;
	uint32_t regime = 0, every = wishes->every;
	if (is_light(mode)) {
		/* a mode that records all leaves blocks behind that the filter does not know */
		int err = !mt_rt.filter || !is_light(p->mode)
				  ? mt_filter_make(p->mode != MT_MODE_OFF && !is_light(p->mode))
				  : 0;
		if (err)
			return err;
	}
	if (mode == MT_MODE_SAMPLE) {
		regime = every ? regime_of_every_locked(every)
			       : regime_of_bytes_locked(interval_bytes);
		if (!regime || more_regimes_locked(wishes, interval_bytes, regime))
			return -MT_ENOSPC;
	}
	if (mode == MT_MODE_RECORD) {
		int err = mt_stream_start();
		if (err)
			return err;
	}
	if (is_light(mode))
		__atomic_store_n(&mt_rt.counting, 1, __ATOMIC_RELEASE);
	else
		__atomic_store_n(&mt_rt.recorded_all, 1, __ATOMIC_RELAXED);
	if (mode == MT_MODE_SAMPLE && p->mode != mode) {
		p->memory_base = memory_in_use(mt_index_untouched());
		p->memory_level = 0;
	}
	p->mode = mode;
	p->regime = regime;
	p->interval_bytes = every ? 0 : interval_bytes;
	return 0;
}

/* Sampling that waits for the process to grow counts meanwhile. */
static uint32_t mode_for_now(uint32_t mode)
{
	return mode == MT_MODE_SAMPLE && mt_rt.options.min_anon_bytes ? MT_MODE_STATS : mode;
}

/* The text before stays readable for who is at it. */
static void set_modules_locked(const char globs[MT_WISH_TEXT])
{
	struct mt_policy *p = &mt_rt.policy;
	p->modules_text = !p->modules_text;
	mt_mem_copy(p->modules[p->modules_text], globs, MT_WISH_TEXT);
	mt_site_set_filter(p->modules[p->modules_text]);
}

int mt_control_begin(void)
{
	struct mt_policy *p = &mt_rt.policy;
	if (!p->count)
		mt_mem_copy(&p->wishes, &mt_rt.options.wishes, sizeof(p->wishes));
	p->mode = MT_MODE_OFF;
	mt_rt.control_word = mt_rt.hdr->control;
	mt_rt.hdr->control_done = mt_rt.hdr->control;
	int err =
		set_mode_locked(mode_for_now(p->wishes.mode), &p->wishes, p->wishes.interval_bytes);
	if (err)
		return err;
	p->label = p->wishes.label[0] ? mt_site_label(p->wishes.label) : 0;
	set_modules_locked(p->wishes.modules);
	mt_rt.hdr->first_mode = p->wishes.mode;
	publish_locked();
	return 0;
}

struct heights {
	int64_t live, peak;
};

/* Of what is recorded one by one, by the threads' rows: what is published lags behind. */
static struct heights heights_of_rows(void)
{
	const struct mt_state_region *r = mt_rt.region[MT_REGION_THREADS];
	struct heights all = {0, mt_rt.hdr->peak_bytes};
	uint64_t n = MT_MIN(r->used, r->capacity);
	for (uint64_t i = 1; i < n; i++) {
		const struct mt_state_thread *row = &mt_rt.threads[i];
		const struct mt_state_totals *sum = &row->totals[MT_CLASS_MALLOC];
		all.live += (int64_t)(mt_counted(&sum->bytes) - mt_counted(&sum->freed_bytes));
		all.peak = MT_MAX(all.peak, row->peak_bytes);
	}
	return all;
}

/* Of what is counted. */
static struct heights heights_of_stats(void)
{
	const struct mt_state_region *r = mt_rt.region[MT_REGION_STATS];
	const struct mt_state_stats *s = mt_storage_base(MT_REGION_STATS);
	struct heights all = {0, mt_rt.hdr->stats_peak_bytes};
	uint64_t n = MT_MIN(r->used, r->committed_bytes / r->elem_bytes);
	for (uint64_t i = 1; i < n; i++) {
		all.live += s[i].live_bytes;
		all.peak = MT_MAX(all.peak, s[i].peak_bytes);
	}
	return all;
}

/* As a report would say them. Where blocks were recorded and others counted, the higher of both. */
static struct heights heights(void)
{
	struct heights rows = heights_of_rows(), stats = heights_of_stats();
	if (!mt_rt.counting)
		return rows;
	if (!mt_rt.recorded_all) /* the rows have estimates only */
		return stats;
	return (struct heights){MT_MAX(rows.live, stats.live), MT_MAX(rows.peak, stats.peak)};
}

static void reset_peak_locked(const struct mt_thread *t)
{
	struct mt_state_header *h = mt_rt.hdr;
	struct heights now = heights();
	log_event(t, MT_CHANGE_PEAK_RESET, (uint64_t)MT_MAX(MT_MAX(now.peak, now.live), 0),
		  (uint64_t)MT_MAX(now.live, 0));
	__atomic_store_n(&h->peak_bytes, MT_MAX(h->live_published, 0), __ATOMIC_RELAXED);
	__atomic_store_n(&h->peak_unit, mt_now(), __ATOMIC_RELAXED);
	__atomic_fetch_add(&h->peak_epoch, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&h->stats_peak_bytes, MT_MAX(h->stats_live_published, 0),
			 __ATOMIC_RELAXED);
	mt_rt.policy.peak_resets = ++h->peak_resets;
}

static void log_text(const struct mt_thread *t, enum mt_state_change_what what, const char *before,
		     const char *after)
{
	if (!mt_str_equal(before, after))
		log_string(t, what, after);
}

/* Applies wishes as a whole. 0, or a negative errno value and nothing is changed. */
static int grant_locked(const struct mt_thread *t, const struct mt_wishes *w)
{
	struct mt_policy *p = &mt_rt.policy;
	const struct mt_wishes *before = &p->wishes;
	int same_modules = mt_str_equal(before->modules, w->modules);
	uint32_t mode = w->mode == p->wishes.mode ? p->mode : mode_for_now(w->mode);
	uint32_t label = w->label[0] ? mt_site_label(w->label) : 0;
	if (w->label[0] && !label)
		return -MT_ENOSPC;
	/* what was lost to a rail comes back only when the interval is asked for anew */
	uint64_t interval = w->interval_bytes == before->interval_bytes && !before->every
				    ? MT_MAX(p->interval_bytes, w->interval_bytes)
				    : w->interval_bytes;
	uint32_t mode_before = p->mode;
	int err = set_mode_locked(mode, w, interval);
	if (err)
		return err;
	log_change(t, MT_CHANGE_MODE, mode_before, p->mode);
	log_change(t, MT_CHANGE_INTERVAL, before->interval_bytes, w->interval_bytes);
	log_change(t, MT_CHANGE_EVERY, before->every, w->every);
	log_text(t, MT_CHANGE_LABEL, before->label, w->label);
	log_text(t, MT_CHANGE_MODULES, before->modules, w->modules);
	mt_mem_copy(&p->wishes, w, sizeof(*w));
	p->label = label;
	if (!same_modules)
		set_modules_locked(w->modules);
	if (w->reset_peak)
		reset_peak_locked(t);
	publish_locked();
	return 0;
}

static void switch_locked(const struct mt_thread *t, uint32_t before, uint32_t after)
{
	log_change(t, MT_CHANGE_SWITCH, before & 1, after & 1);
	if (!(after & 1) && mt_rt.counting)
		mt_rt_note(MT_NOTE_STATS_GAP);
}

/* Wishes, and the switch that goes with them. */
static int apply_locked(const struct mt_thread *t, const struct mt_wishes *w)
{
	/* blocks have headers: every call has to go on as it began */
	if (mt_check.state == MT_CHECK_ON && (w->mode != MT_MODE_CHECK || w->switch_to))
		return -MT_EINVAL;
	int err = grant_locked(t, w);
	if (err)
		return err;
	if (w->switch_to == MT_SWITCH_ON)
		__atomic_fetch_or(&mt_rt.hdr->control, 1, __ATOMIC_RELAXED);
	if (w->switch_to == MT_SWITCH_OFF)
		__atomic_fetch_and(&mt_rt.hdr->control, ~1u, __ATOMIC_RELAXED);
	return 0;
}

/* too large for small stacks; guarded by control_lock */
static char request[MT_REQUEST_BYTES];
static struct mt_wishes wanted;

/* Applies the text in `request`. 0, or a negative errno value. */
static int apply_request_locked(const struct mt_thread *t)
{
	mt_mem_copy(&wanted, &mt_rt.policy.wishes, sizeof(wanted));
	int err = mt_wishes_read(request, &wanted);
	if (!err)
		err = apply_locked(t, &wanted);
	if (err)
		log_string(t, MT_CHANGE_REFUSED, request);
	return err;
}

/* Reads the controller's request and applies it. The result is for control_error. */
static int follow_request_locked(const struct mt_thread *t)
{
	if (mt_rt.region[MT_REGION_REQUEST]->committed_bytes < sizeof(request))
		return MT_EINVAL;
	mt_mem_copy(request, mt_storage_base(MT_REGION_REQUEST), sizeof(request));
	request[sizeof(request) - 1] = 0;
	return -apply_request_locked(t);
}

static void follow_locked(const struct mt_thread *t)
{
	struct mt_state_header *h = mt_rt.hdr;
	uint32_t before = mt_rt.control_word;
	uint32_t word = __atomic_load_n(&h->control, __ATOMIC_ACQUIRE);
	if (word == before)
		return;
	if (word >> 1 != before >> 1) {
		int err = follow_request_locked(t);
		__atomic_store_n(&h->control_error, (uint32_t)err, __ATOMIC_RELAXED);
		/* the switch may have moved by the request itself */
		word = (word & ~1u) | (__atomic_load_n(&h->control, __ATOMIC_RELAXED) & 1);
	}
	switch_locked(t, before, word);
	mt_rt.control_word = word;
	__atomic_store_n(&h->control_done, word, __ATOMIC_RELEASE);
}

/* --- threads ------------------------------------------------------------------------------- */

int mt_control_give_stats(struct mt_thread *t)
{
	struct mt_state_stats *all = mt_storage_base(MT_REGION_STATS);
	int err = mt_storage_cover(MT_REGION_STATS, t->number);
	t->stats = err ? NULL : &all[t->number];
	if (err)
		return err;
	mt_light_set_step(t);
	mt_light_inherit(t);
	return 0;
}

static void follow_peak_reset(struct mt_thread *t)
{
	const struct mt_state_totals *sum = &t->row->totals[MT_CLASS_MALLOC];
	int64_t live = (int64_t)(sum->bytes - sum->freed_bytes);
	t->row->peak_bytes = MT_MAX(live, 0);
	if (__atomic_load_n(&mt_rt.single, __ATOMIC_ACQUIRE))
		__atomic_store_n(&mt_rt.hdr->peak_bytes, t->row->peak_bytes, __ATOMIC_RELAXED);
	if (t->stats)
		t->stats->peak_bytes = MT_MAX(t->stats->live_bytes, 0);
}

static uint64_t always_from(uint64_t interval_bytes)
{
	return interval_bytes == 1 ? 0 : mt_sample_always_from(interval_bytes);
}

static void take_points_of(struct mt_thread *t, struct mt_points *to,
			   const struct mt_interval_of *of, uint32_t regime)
{
	if (to->of.interval_bytes != of->interval_bytes || to->of.from != of->from ||
	    to->of.to != of->to)
		to->left = mt_sample_distance(of->interval_bytes, mt_random_next(&t->random));
	to->of = *of;
	to->always = always_from(of->interval_bytes);
	to->regime = regime;
}

/* The ranges and custom heaps. Every Nth allocation: of all sizes, custom heaps as ever. */
static void take_points(struct mt_thread *t, const struct mt_policy *p)
{
	const struct mt_wishes *w = &p->wishes;
	struct mt_interval_of custom = {
		0, UINT64_MAX, in_proportion(w->custom_interval_bytes, w, p->interval_bytes)};
	int by_bytes = p->mode == MT_MODE_SAMPLE && !w->every;
	t->range_count = by_bytes ? w->range_count : 0;
	for (uint32_t i = 0; i < t->range_count; i++) {
		struct mt_interval_of range = w->range[i];
		range.interval_bytes = in_proportion(range.interval_bytes, w, p->interval_bytes);
		take_points_of(t, &t->points[i], &range, p->more_regimes[i]);
	}
	if (!custom.interval_bytes)
		custom.interval_bytes = p->interval_bytes;
	t->points[MT_RANGES_MAX].regime = 0;
	if (p->mode == MT_MODE_SAMPLE && custom.interval_bytes)
		take_points_of(t, &t->points[MT_RANGES_MAX], &custom,
			       p->more_regimes[MT_RANGES_MAX]);
}

/* A new interval: the old distance says nothing about it, and a Poisson process has no memory. */
static void take_sampling(struct mt_thread *t, const struct mt_policy *p)
{
	int sampling = p->mode == MT_MODE_SAMPLE;
	uint64_t interval = sampling && !p->wishes.every ? p->interval_bytes : 0;
	uint32_t every = sampling ? p->wishes.every : 0;
	if (!t->random)
		t->random = mt_clock_ticks() ^ mt_rt.seed ^ (uint64_t)t->tid << 32;
	if (every != t->every) {
		t->every = every;
		t->every_rest = t->every_left = 0;
		if (every)
			mt_light_next_of_every(t);
	}
	if (interval != t->interval_bytes || !interval)
		t->sample_left = interval ? mt_sample_distance(interval, mt_random_next(&t->random))
					  : INT64_MAX;
	t->interval_bytes = interval;
	take_points(t, p);
	t->sample_always = interval ? always_from(interval) : UINT64_MAX;
}

/*
 * Sizes that the ordinary path may count: all but big ones, with what the allocator may round up,
 * and those always recorded; none where blocks are chosen by other rules.
 */
static uint64_t ordinary_sizes(const struct mt_thread *t)
{
	enum { ROUNDING = 64 };
	const struct mt_options *o = &mt_rt.options;
	if (t->every || t->range_count || o->min_size || o->max_size != UINT64_MAX)
		return 0;
	return MT_MIN(t->sample_always, (uint64_t)MT_BIG_BYTES - ROUNDING);
}

/* Which way the hooks of malloc and free take in this thread. */
static void choose_way(struct mt_thread *t, int light, int on)
{
	int counts = light && on && t->stats;
	int by_chunks = __atomic_load_n(&mt_rt.chunk_sizes, __ATOMIC_RELAXED) == MT_CHUNKS_TRUSTED;
	t->light = (uint32_t)light;
	int asks = counts && (!mt_rt.chunk_sizes || mt_rt.guard_bytes) &&
		   (mt_rt.no_sizes || __atomic_load_n(&mt_rt.tells_sizes, __ATOMIC_RELAXED));
	int checks = mt_check.state == MT_CHECK_ON;
	t->other_way = checks ? mt_check_way(t) : asks ? MT_WAY_ASK : MT_WAY_SLOW;
	t->sample_all = ordinary_sizes(t);
	t->control = on && !light ? mt_rt.control_word : NEVER;
	t->light_control = on && light ? mt_rt.control_word : NEVER;
	mt_thread_set_ways(t, !light && !t->streaming && !checks, counts && by_chunks && !asks);
}

static void take_locked(struct mt_thread *t)
{
	const struct mt_policy *p = &mt_rt.policy;
	int on = (int)(mt_rt.control_word & 1), light = is_light(p->mode);
	if (t->stacks_filter != mt_site_filter_count()) {
		mt_capture_reset(&t->capture);
		t->stacks_filter = mt_site_filter_count();
	}
	if (!t->own_label)
		t->tag = (uint64_t)p->label << 32;
	t->tag = (t->tag & ~MT_TAG_REGIME) | (uint64_t)p->regime << 16;
	if (t->peak_resets != p->peak_resets)
		follow_peak_reset(t);
	t->peak_resets = p->peak_resets;
	take_sampling(t, p);
	if (light && !t->stats)
		mt_control_give_stats(t);
	t->streaming = p->mode == MT_MODE_RECORD;
	mt_stream_go_slow(t); /* there may have been allocations that are not in the stream */
	choose_way(t, light, on);
	t->control_taken = mt_rt.control_word;
	t->policy_taken = p->count;
}

MT_COLD void mt_control_take(struct mt_thread *t)
{
	if (!mt_lock(&mt_rt.control_lock)) /* at the next event then */
		return;
	follow_locked(t);
	take_locked(t);
	mt_unlock(&mt_rt.control_lock);
}

/* --- requests of the program itself -------------------------------------------------------- */

/* What was asked for from outside goes first; so its text is never half read. */
static int begin_own(struct mt_thread *t)
{
	if (!mt_lock(&mt_rt.control_lock))
		return -MT_EBUSY;
	follow_locked(t);
	return 0;
}

/* The request may have moved the switch. */
static void end_own(struct mt_thread *t)
{
	follow_locked(t);
	take_locked(t);
	mt_unlock(&mt_rt.control_lock);
}

int mt_control_ask(struct mt_thread *t, const char *text)
{
	size_t bytes = mt_str_len(text) + 1;
	if (bytes > sizeof(request))
		return -MT_EINVAL;
	int err = begin_own(t);
	if (err)
		return err;
	mt_mem_copy(request, text, bytes);
	request[bytes - 1] = 0;
	err = apply_request_locked(t);
	end_own(t);
	return err;
}

static void set_sampling(struct mt_wishes *w, const struct mt_sampling *s)
{
	w->mode = s->mode;
	w->every = s->every;
	w->interval_bytes = s->interval_bytes;
	w->range_count = s->range_count;
	w->custom_interval_bytes = s->custom_interval_bytes;
}

int mt_control_sample(struct mt_thread *t, uint64_t interval_bytes, struct mt_sampling *before)
{
	const struct mt_wishes *p = &mt_rt.policy.wishes;
	int err = mt_check.state == MT_CHECK_ON ? -MT_ENOTSUP : begin_own(t);
	if (err)
		return err;
	uint64_t interval = interval_bytes ? interval_bytes : p->interval_bytes;
	*before = (struct mt_sampling){.mode = p->mode,
				       .every = p->every,
				       .interval_bytes = p->interval_bytes,
				       .custom_interval_bytes = p->custom_interval_bytes,
				       .range_count = p->range_count,
				       .on = mt_rt.control_word & 1,
				       .meanwhile = interval};
	mt_mem_copy(&wanted, p, sizeof(wanted));
	set_sampling(&wanted,
		     &(struct mt_sampling){.mode = MT_MODE_SAMPLE, .interval_bytes = interval});
	wanted.switch_to = MT_SWITCH_ON;
	wanted.reset_peak = 0;
	err = apply_locked(t, &wanted);
	end_own(t);
	return err;
}

/* Nobody has asked for something else since. */
static int is_as_left(const struct mt_sampling *before)
{
	const struct mt_wishes *p = &mt_rt.policy.wishes;
	return p->mode == MT_MODE_SAMPLE && !p->every && !p->range_count &&
	       !p->custom_interval_bytes && p->interval_bytes == before->meanwhile;
}

int mt_control_sample_end(struct mt_thread *t, const struct mt_sampling *before)
{
	int err = begin_own(t);
	if (err)
		return err;
	if (is_as_left(before)) {
		mt_mem_copy(&wanted, &mt_rt.policy.wishes, sizeof(wanted));
		set_sampling(&wanted, before);
		wanted.switch_to = before->on ? MT_SWITCH_KEEP : MT_SWITCH_OFF;
		wanted.reset_peak = 0;
		err = apply_locked(t, &wanted);
	}
	end_own(t);
	return err;
}

void mt_control_sample_forget(const struct mt_sampling *before)
{
	if (is_as_left(before))
		set_sampling(&mt_rt.policy.wishes, before);
}

/* --- rails --------------------------------------------------------------------------------- */

static void double_interval(struct mt_thread *t, enum mt_state_change_what why)
{
	struct mt_policy *p = &mt_rt.policy;
	if (!mt_lock(&mt_rt.control_lock))
		return;
	uint64_t before = p->interval_bytes;
	/* unless another thread did so meanwhile, or there is nothing to double */
	if (p->count == t->policy_taken && before && before <= MT_INTERVAL_MAX / 2 &&
	    p->mode == MT_MODE_SAMPLE && !set_mode_locked(p->mode, &p->wishes, before * 2)) {
		log_change(t, why, before, before * 2);
		p->memory_level += why == MT_CHANGE_MEMORY_RAIL;
		publish_locked();
	}
	mt_unlock(&mt_rt.control_lock);
}

/* Whether of the room less is left than 3/4, 9/16, 27/64 ... */
static int is_below_level(uint64_t room, uint64_t used)
{
	uint64_t left = room;
	for (uint32_t i = 0; i <= mt_rt.policy.memory_level; i++)
		left -= left / 4;
	return used > room - left;
}

/*
 * Doubled whenever a quarter of what was left of the bound is used. At half the rate that quarter
 * lasts longer than the one before, so that a program which only grows runs long before no room is
 * left; had it to be a half, each would last as long as the others. What the process had taken when
 * sampling began does not count. Of the tables only the page map is sparse: an allocator that
 * spreads few blocks far has megabytes of it and touches some pages. The bound itself counts it
 * whole: pages are touched without asking.
 */
static void memory_rail(struct mt_thread *t)
{
	enum { LEVELS = 24 };
	const struct mt_policy *p = &mt_rt.policy;
	uint64_t most = mt_rt.hdr->max_bytes;
	if (!most || !p->interval_bytes || p->memory_level >= LEVELS)
		return;
	uint64_t untouched = mt_index_untouched(); /* first: it may rise, with table_bytes */
	uint64_t used = memory_in_use(untouched), fixed = p->memory_base + untouched;
	used -= MT_MIN(used, p->memory_base);
	if (most <= fixed)
		return;
	if (is_below_level(most - fixed, used) ||
	    is_below_level(mt_storage_stacks_most(), mt_storage_stacks()))
		double_interval(t, MT_CHANGE_MEMORY_RAIL);
}

void mt_control_rails(struct mt_thread *t, uint64_t ticks, uint64_t now)
{
	uint64_t most = mt_rt.options.max_cpu_percent;
	memory_rail(t);
	if (!most || mt_rt.no_ticks)
		return;
	t->rail_ticks += ticks;
	if (++t->rail_samples < RAIL_SAMPLES)
		return;
	if (t->rail_start && t->rail_ticks * 100 > (now - t->rail_start) * most)
		double_interval(t, MT_CHANGE_CPU_RAIL);
	t->rail_start = now;
	t->rail_ticks = t->rail_samples = 0;
}

/* Resident pages that are not of files or shared memory, in bytes; 0: not known. */
static uint64_t anonymous_bytes(void)
{
	char text[128];
	uint64_t v[3] = {0};
	long fd = mt_sys_open("/proc/self/statm", MT_O_RDONLY | MT_O_CLOEXEC, 0);
	if (fd < 0)
		return 0;
	long n = mt_sys_read((int)fd, text, sizeof(text) - 1);
	mt_sys_close((int)fd);
	text[MT_MAX(n, 0)] = 0;
	const char *s = text;
	for (int i = 0; i < 3; i++, s++)
		if (mt_fmt_parse_u64(&s, &v[i]) || *s != ' ')
			return 0;
	return v[1] > v[2] ? (v[1] - v[2]) * 4096 : 0;
}

MT_COLD static void look_at_memory(struct mt_thread *t)
{
	struct mt_policy *p = &mt_rt.policy;
	if (anonymous_bytes() < mt_rt.options.min_anon_bytes || !mt_lock(&mt_rt.control_lock))
		return;
	if (p->mode == MT_MODE_STATS && p->wishes.mode == MT_MODE_SAMPLE &&
	    !set_mode_locked(MT_MODE_SAMPLE, &p->wishes, p->wishes.interval_bytes)) {
		log_change(t, MT_CHANGE_MODE, MT_MODE_STATS, MT_MODE_SAMPLE);
		publish_locked();
	}
	mt_unlock(&mt_rt.control_lock);
}

void mt_control_watch(struct mt_thread *t)
{
	struct mt_policy *p = &mt_rt.policy;
	uint64_t now = __atomic_load_n(&mt_rt.hdr->now_unit, __ATOMIC_RELAXED);
	if (MT_LIKELY(p->mode == p->wishes.mode) || mt_rt.sandboxed)
		;
	else if (now - p->looked_unit > 64 || now < p->looked_unit) { /* some 50 ms */
		p->looked_unit = now;
		look_at_memory(t);
	}
	if (mt_control_changed(t))
		mt_control_take(t);
}
