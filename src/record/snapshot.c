/* SPDX-License-Identifier: MIT */
/*
 * One reading of the counters becomes one frame of the series. Rules are looked at more often than
 * snapshots are taken, with readings that cost next to nothing: the threads' totals in the state
 * file, and the kernel's counters of the process.
 */

#include "record/snapshot.h"

#include "base/alloc.h"
#include "base/path.h"
#include "base/units.h"
#include "core/cc.h"
#include "core/sys.h"
#include "formats/mtk_read.h"
#include "formats/mtk_source.h"
#include "formats/mtk_watch.h"
#include "formats/mts_read.h"
#include "formats/mts_write.h"
#include "record/snapshot_rule.h"
#include "target/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
	NAME_BYTES = 256,
	RESERVE_BYTES = 4 << 20, /* where state files grow: a snapshot may be lost, a program's
				    state may not */
};

/* ---- one snapshot ---- */

static uint64_t now_ns(void)
{
	return mt_sys_clock_ns(MT_CLOCK_MONOTONIC);
}

static uint64_t positive(int64_t v)
{
	return v > 0 ? (uint64_t)v : 0;
}

static int fill_samples(const struct mt_watch *w, struct mt_mts_table *table)
{
	table->knows_samples = w->knows_samples;
	if (!w->sampled || !w->knows_samples)
		return 0;
	if (mt_mts_table_grow_sampled(table))
		return -ENOMEM;
	memcpy(table->sampled, w->sampled, table->count * sizeof(*table->sampled));
	return 0;
}

static int fill_table(const struct mt_watch *w, struct mt_mts_table *table)
{
	int code = mt_mts_table_grow(table, MT_MIN(w->site_count, (uint32_t)MT_MTS_SITES_MAX));

	for (uint32_t i = 1; !code && i < table->count; i++) {
		const struct mt_watch_counts *c = &w->site[i].counts;

		table->site[i] = (struct mt_series_site){
			.bytes = positive(mt_watch_live_bytes(c)),
			.count = positive(mt_watch_live_blocks(c)),
			.allocs = c->allocs,
			.frees = c->frees,
		};
	}
	return code ? code : fill_samples(w, table);
}

static void fill_point(const struct mt_watch *w, const struct mt_state_header *h, uint32_t reason,
		       struct mt_series_point *p)
{
	uint32_t mode = h->mode ? h->mode : h->first_mode; /* it just starts */

	*p = (struct mt_series_point){
		.reason = reason,
		.is_usable = mode == MT_MODE_STATS || mode == MT_MODE_SAMPLE,
		.is_counted = mode == MT_MODE_STATS,
		.time_ns = w->read_ns > h->mono_start_ns ? w->read_ns - h->mono_start_ns : 0,
		.wall_ns = mt_sys_clock_ns(MT_CLOCK_REALTIME),
		.live_bytes = positive(w->live_bytes),
		.live_count = positive(w->live_blocks),
		.allocs = w->counts.allocs,
		.frees = w->counts.frees,
		.alloc_bytes = w->counts.bytes,
		.freed_bytes = w->counts.freed_bytes,
	};
}

/* What the kernel says of it; with_pss: what that costs the process is worth it. */
static void fill_memory(const struct mt_watch *w, bool with_pss, struct mt_series_point *p)
{
	struct mt_memory m = {MT_MEMORY_UNKNOWN, MT_MEMORY_UNKNOWN, MT_MEMORY_UNKNOWN,
			      MT_MEMORY_UNKNOWN};

	if (w->is_running && with_pss)
		mt_memory_read_pss(w->pid, &m);
	else if (w->is_running)
		mt_memory_read(w->pid, &m);
	p->rss_bytes = m.rss_bytes;
	p->pss_bytes = m.pss_bytes;
	p->anon_bytes = m.anon_bytes;
	p->swap_bytes = m.swap_bytes;
}

/* The series' name beside the state file of that name. */
static void series_name(const char *state_name, char *ret, size_t len)
{
	size_t stem = strlen(state_name);

	if (stem > 4 && !strcmp(state_name + stem - 4, ".mtk"))
		stem -= 4;
	snprintf(ret, len, "%.*s.mts", (int)stem, state_name);
}

struct shot {
	const struct mt_companion_file *file;
	struct mt_mts_writer *writer;
	uint32_t reason;
	bool with_pss;
	uint64_t limit_bytes;
};

/* *ret_point (may be NULL) is what was seen. */
static int take(const struct shot *s, struct mt_series_point *ret_point, struct mt_err *err)
{
	mt_auto(mt_mts_table) struct mt_mts_table table = {0};
	mt_auto(mt_watch) struct mt_watch w = {0};
	struct mt_state_header h;
	struct mt_series_point p;
	char name[NAME_BYTES];
	struct mt_mts_place place = {.dir_fd = s->file->dir_fd,
				     .name = name,
				     .path = name,
				     .state = &h,
				     .limit_bytes = s->limit_bytes,
				     .reserve_bytes = RESERVE_BYTES};
	struct stat st;
	int code = mt_mtk_read_header_fd(s->file->fd, s->file->path, &h, err);

	if (!code)
		code = mt_mtk_watch_fd(s->file->fd, s->file->path,
				       MT_MTK_WATCH_SITES | MT_MTK_WATCH_SAMPLES, &w, err);
	if (code)
		return code;
	if (fill_table(&w, &table))
		return mt_err_no_memory(err);
	fill_point(&w, &h, s->reason, &p);
	fill_memory(&w, s->with_pss, &p);
	series_name(s->file->name, name, sizeof(name));
	place.owner = fstat(s->file->fd, &st) ? geteuid() : st.st_uid;
	code = mt_mts_append(s->writer, &place, &p, &table, NULL, err);
	if (!code && ret_point)
		*ret_point = p;
	return code;
}

int mt_snapshot_take(const char *state_path, uint32_t reason, uint32_t *ret_number,
		     struct mt_err *err)
{
	mt_auto(mt_mts_writer) struct mt_mts_writer writer = {0};
	mt_auto(free) char *dir = mt_path_dir(state_path);
	mt_auto(close) int fd = mt_mtk_open(state_path, err);
	mt_auto(close) int dir_fd = -1;
	struct mt_companion_file file = {
		.fd = fd, .name = mt_path_base(state_path), .path = state_path};
	struct shot s = {.file = &file, .writer = &writer, .reason = reason, .with_pss = true};
	struct mt_series_point p;
	struct mt_state_header h;
	int code;

	if (fd < 0)
		return fd;
	if (!dir)
		return mt_err_no_memory(err);
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		return mt_err_set_errno(err, errno, "cannot open '%s'", dir);
	file.dir_fd = dir_fd;
	code = mt_mtk_read_header_fd(fd, state_path, &h, err);
	if (code)
		return code;
	if (!mt_mtk_process_alive(&h))
		return mt_err_set(err, -ESRCH,
				  "cannot take a snapshot of '%s': its process has ended",
				  state_path);
	code = take(&s, &p, err);
	if (!code && ret_number)
		*ret_number = p.number;
	return code;
}

/* ---- options ---- */

bool mt_snapshot_is_wanted(const struct mt_snapshot_options *o)
{
	return o->every_ns || o->on_signal || o->rules;
}

static int bad_rule(struct mt_err *err, const char *text)
{
	return mt_err_set(err, -EINVAL,
			  "'%s' is none of rss>SIZE, pss>SIZE, growth>SIZE/TIME and signal", text);
}

static bool begins_with(const char *text, const char *word, const char **ret_rest)
{
	size_t len = strlen(word);

	if (strncmp(text, word, len))
		return false;
	*ret_rest = text + len;
	return true;
}

static int parse_growth(const char *text, struct mt_snapshot_rule *r)
{
	const char *slash = strchr(text, '/');
	char size[MT_UNITS_TEXT_MAX];

	if (!slash || (size_t)(slash - text) >= sizeof(size))
		return -EINVAL;
	snprintf(size, sizeof(size), "%.*s", (int)(slash - text), text);
	if (mt_units_parse_size(size, &r->bytes))
		return -EINVAL;
	return mt_units_parse_time(slash + 1, &r->time_ns) || !r->time_ns ? -EINVAL : 0;
}

int mt_snapshot_parse(const char *text, struct mt_snapshot_options *o, struct mt_err *err)
{
	struct mt_snapshot_rule r = {0};
	const char *rest;
	int code = -EINVAL;

	if (!strcmp(text, "signal")) {
		o->on_signal = true;
		return 0;
	}
	if (begins_with(text, "rss>", &rest)) {
		r.kind = MT_SNAPSHOT_RSS;
		code = mt_units_parse_size(rest, &r.bytes);
	} else if (begins_with(text, "pss>", &rest)) {
		r.kind = MT_SNAPSHOT_PSS;
		code = mt_units_parse_size(rest, &r.bytes);
	} else if (begins_with(text, "growth>", &rest)) {
		r.kind = MT_SNAPSHOT_GROWTH;
		code = parse_growth(rest, &r);
	}
	if (code && r.kind == MT_SNAPSHOT_GROWTH && !strchr(text, '/'))
		return mt_err_set(err, -EINVAL,
				  "'%s' lacks the time in which it grows (as growth>1M/10s)", text);
	if (code)
		return bad_rule(err, text);
	if (o->rules == MT_SNAPSHOT_RULES)
		return mt_err_set(err, -EINVAL, "'%s' is one rule too many: %d are possible", text,
				  MT_SNAPSHOT_RULES);
	o->rule[o->rules++] = r;
	return 0;
}

/* ---- the snapshots of a run ---- */

struct subject {
	struct mt_mts_writer writer;
	uint64_t next_ns; /* of the interval */
	uint64_t pss_ns;  /* when PSS may be read again */
	struct mt_snapshot_rule_state rule[MT_SNAPSHOT_RULES];
};

struct mt_snapshots {
	struct mt_snapshot_options options;
	uint64_t taken, lost;
	struct mt_err first_loss;
};

/* MT_MEMORY_UNKNOWN when the state cannot be read, or not all of it. */
static uint64_t live_bytes(const struct mt_companion_file *f)
{
	mt_auto(mt_watch) struct mt_watch w = {0};

	if (mt_mtk_watch_fd(f->fd, f->path, MT_MTK_WATCH_SUMS, &w, NULL) || w.is_partial)
		return MT_MEMORY_UNKNOWN;
	return positive(w.live_bytes);
}

static bool is_fired(const struct mt_snapshot_rule *r, struct mt_snapshot_rule_state *s,
		     const struct mt_companion_file *f, uint64_t now)
{
	struct mt_memory m;

	if (now < s->next_ns)
		return false;
	s->next_ns = now + mt_snapshot_rule_period(r);
	switch (r->kind) {
	case MT_SNAPSHOT_RSS:
		mt_memory_read(f->pid, &m);
		return mt_snapshot_rule_crossed(r, s, m.rss_bytes);
	case MT_SNAPSHOT_PSS:
		mt_memory_read_pss(f->pid, &m);
		return mt_snapshot_rule_crossed(r, s, m.pss_bytes);
	default:
		return mt_snapshot_rule_growing(r, s, now, live_bytes(f));
	}
}

/* The reason of a snapshot that is due now; 0: none is. All rules are looked at. */
static uint32_t find_reason(const struct mt_snapshots *all, struct subject *s,
			    const struct mt_companion_file *f, enum mt_companion_why why)
{
	static const uint32_t reasons[] = {
		[MT_SNAPSHOT_RSS] = MT_SERIES_RSS,
		[MT_SNAPSHOT_PSS] = MT_SERIES_PSS,
		[MT_SNAPSHOT_GROWTH] = MT_SERIES_GROWTH,
	};
	const struct mt_snapshot_options *o = &all->options;
	uint64_t now = now_ns();
	uint32_t reason = 0;

	if (o->every_ns && now >= s->next_ns) {
		reason = MT_SERIES_INTERVAL;
		s->next_ns = MT_MAX(s->next_ns + o->every_ns, now + o->every_ns / 2);
	}
	for (uint32_t i = 0; i < o->rules; i++)
		if (is_fired(&o->rule[i], &s->rule[i], f, now))
			reason = reasons[o->rule[i].kind];
	return why == MT_COMPANION_RUNG && o->on_signal ? (uint32_t)MT_SERIES_SIGNAL : reason;
}

static void shoot(struct mt_snapshots *all, struct subject *s, const struct mt_companion_file *f,
		  uint32_t reason)
{
	struct mt_err err = {0};
	struct shot shot = {
		.file = f,
		.writer = &s->writer,
		.reason = reason,
		.with_pss = now_ns() >= s->pss_ns,
		.limit_bytes = all->options.limit_bytes,
	};

	if (shot.with_pss)
		s->pss_ns = now_ns() + MT_SNAPSHOT_PSS_NS;
	if (!take(&shot, NULL, &err)) {
		all->taken++;
		return;
	}
	if (!all->lost++)
		all->first_loss = err;
}

static struct subject *subject_new(const struct mt_snapshots *all,
				   const struct mt_companion_file *f)
{
	struct subject *s = mt_alloc_zero(1, sizeof(*s));

	if (!s)
		return NULL;
	s->next_ns = now_ns() + all->options.every_ns;
	for (uint32_t i = 0; i < all->options.rules; i++)
		is_fired(&all->options.rule[i], &s->rule[i], f, now_ns()); /* where they begin */
	return s;
}

static void subject_free(struct subject *s)
{
	mt_mts_writer_done(&s->writer);
	free(s);
}

static void visit(void *context, const struct mt_companion_file *f, enum mt_companion_why why,
		  void **data)
{
	struct mt_snapshots *all = context;
	struct subject *s = *data ? *data : subject_new(all, f);
	uint32_t reason;

	if (!s) {
		all->lost++;
		return;
	}
	if (why == MT_COMPANION_LAST)
		reason = f->fd < 0 ? 0 : MT_SERIES_LAST;
	else
		reason = *data ? find_reason(all, s, f, why) : MT_SERIES_FIRST;
	*data = s;
	if (reason)
		shoot(all, s, f, reason);
	if (why == MT_COMPANION_LAST)
		subject_free(s);
}

struct mt_snapshots *mt_snapshots_new(const struct mt_snapshot_options *options)
{
	struct mt_snapshots *s = mt_alloc_zero(1, sizeof(*s));

	if (s)
		s->options = *options;
	return s;
}

void mt_snapshots_free(struct mt_snapshots *s)
{
	free(s);
}

struct mt_companion_task mt_snapshots_task(struct mt_snapshots *s)
{
	uint64_t period = s->options.every_ns ? s->options.every_ns : UINT64_MAX / 2;

	for (uint32_t i = 0; i < s->options.rules; i++)
		period = MT_MIN(period, mt_snapshot_rule_period(&s->options.rule[i]));
	/* with rules the interval's moments lie between visits: come often enough for both */
	return (struct mt_companion_task){.period_ns = period, .visit = visit, .context = s};
}

struct mt_snapshots_result mt_snapshots_result(const struct mt_snapshots *s)
{
	return (struct mt_snapshots_result){
		.taken = s->taken, .lost = s->lost, .why = s->first_loss.text};
}
