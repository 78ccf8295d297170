/* SPDX-License-Identifier: MIT */
/*
 * Series into memory. Two walks: the first counts the points, the second keeps what is wanted of
 * each. A file is at most some ten MiB, so it is read as a whole, and the walks see one state of it
 * although its writer goes on.
 */
#include "formats/mts_read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/file.h"
#include "formats/mtk_source.h"

enum { FILE_MAX = 1 << 30, CELLS_MAX = 1 << 26 };

static int check_header(const uint8_t *data, size_t len, const char *name,
			struct mt_mts_header *ret_h, struct mt_err *err)
{
	struct mt_mts_header h;
	if (!len)
		return mt_err_set_at(err, -ENODATA, 0, "'%s' is empty", name);
	if (len < 8 || memcmp(data, MT_MTS_MAGIC, 8))
		return mt_err_set_at(err, -EBADMSG, 0, "'%s' is not a series of snapshots", name);
	if (len < sizeof(h))
		return mt_err_set_at(err, -EBADMSG, len, "'%s' is cut inside its header", name);
	memcpy(&h, data, sizeof(h));
	if (h.byte_order != MT_MTS_BYTE_ORDER)
		return mt_err_set_at(err, -EPROTONOSUPPORT, 12,
				     "'%s' was written on a machine with the other byte order, or "
				     "is damaged",
				     name);
	if (!h.version_major || h.version_major > MT_MTS_VERSION_MAJOR)
		return mt_err_set_at(err, -EPROTONOSUPPORT, 8,
				     "'%s' is a series of version %u.%u, this program reads "
				     "versions 1 to %d",
				     name, h.version_major, h.version_minor, MT_MTS_VERSION_MAJOR);
	if (h.header_bytes != sizeof(h))
		return mt_err_set_at(err, -EBADMSG, 16,
				     "'%s' is damaged: its header claims %u bytes, not %zu", name,
				     h.header_bytes, sizeof(h));
	*ret_h = h;
	return 0;
}

struct walk {
	bool with_sites;
	mt_mts_visit *visit;
	void *user;
	struct mt_mts_table table;
	struct mt_series_point last;
	uint32_t points;
};

/* -EBADMSG: the frame does not continue the series. */
static int visit_frame(struct walk *w, const struct mt_mts_frame *f, const uint8_t *frame)
{
	struct mt_series_point p = mt_mts_point(f);
	int r;
	if (p.number <= w->last.number || p.time_ns < w->last.time_ns ||
	    (!w->points && !(f->flags & MT_MTS_KEY)))
		return -EBADMSG;
	r = w->with_sites ? mt_mts_decode(f, frame + sizeof(*f), &w->table) : 0;
	if (r)
		return r;
	w->last = p;
	w->points++;
	return w->visit ? w->visit(w->user, &p, w->with_sites ? &w->table : NULL) : 0;
}

int mt_mts_walk_memory(const void *data, size_t len, const char *name, bool with_sites,
		       mt_mts_visit *visit, void *user, struct mt_mts_info *ret_info,
		       struct mt_err *err)
{
	struct walk w = {.with_sites = with_sites, .visit = visit, .user = user};
	struct mt_mts_info info = {0};
	const uint8_t *bytes = data;
	int r = check_header(bytes, len, name, &info.header, err);
	if (r)
		return r;
	for (info.end = sizeof(info.header); !r && info.end < len;) {
		struct mt_mts_frame f;
		int64_t n = mt_mts_frame(bytes + info.end, len - info.end, &f);
		r = n < 0 ? (int)n : visit_frame(&w, &f, bytes + info.end);
		if (!r)
			info.end += (uint64_t)n;
	}
	mt_mts_table_done(&w.table);
	info.points = w.points;
	info.damaged_bytes = len - info.end;
	if (ret_info)
		*ret_info = info;
	if (r == -ENOMEM)
		return mt_err_no_memory(err);
	return r == -EBADMSG ? 0 : r;
}

static int read_file(const char *path, char **ret_data, size_t *ret_len, struct mt_err *err)
{
	mt_auto(close) int fd = mt_mtk_open(path, err);
	return fd < 0 ? fd : mt_file_read_fd(fd, path, FILE_MAX, ret_data, ret_len, err);
}

int mt_mts_walk(const char *path, bool with_sites, mt_mts_visit *visit, void *user,
		struct mt_mts_info *ret_info, struct mt_err *err)
{
	mt_auto(free) char *data = NULL;
	size_t len;
	int r = read_file(path, &data, &len, err);
	return r ? r : mt_mts_walk_memory(data, len, path, with_sites, visit, user, ret_info, err);
}

/* ---- the whole series ---- */

struct loader {
	struct mt_series *s;
	uint32_t at;     /* number of the point */
	uint32_t column; /* the next one */
	bool has_samples;
};

enum { ENOUGH_POINTS = 3 }; /* that one can be left out */

static int count_sites(void *user, const struct mt_series_point *point,
		       const struct mt_mts_table *table)
{
	struct loader *l = user;
	struct mt_series *s = l->s;
	s->site_count = MT_MAX(s->site_count, table->count);
	l->has_samples |= table->sampled_count > 0;
	s->point_count++;
	s->judged_count = s->point_count;
	if (point->reason == MT_SERIES_LAST && s->point_count > ENOUGH_POINTS)
		s->judged_count--;
	return 0;
}

static void choose_columns(struct mt_series *s, uint32_t most)
{
	uint32_t count =
		MT_MAX(MT_MIN(MT_MIN(most, s->judged_count), CELLS_MAX / s->site_count), 1u);
	s->column_count = count;
	for (uint32_t i = 0; i < count; i++)
		s->column[i] =
			count > 1 ? (uint32_t)((uint64_t)i * (s->judged_count - 1) / (count - 1))
				  : s->judged_count - 1;
}

static int make_tables(struct loader *l, uint32_t columns)
{
	struct mt_series *s = l->s;
	s->point = mt_arena_array(s->arena, s->point_count, sizeof(*s->point));
	s->column = mt_arena_array(s->arena, MT_MAX(columns, 1u), sizeof(*s->column));
	s->first = mt_arena_array(s->arena, s->site_count, sizeof(*s->first));
	s->last = mt_arena_array(s->arena, s->site_count, sizeof(*s->last));
	if (!s->point || !s->column || !s->first || !s->last)
		return -ENOMEM;
	if (l->has_samples) {
		s->first_sampled =
			mt_arena_array(s->arena, s->site_count, sizeof(*s->first_sampled));
		s->last_sampled = mt_arena_array(s->arena, s->site_count, sizeof(*s->last_sampled));
		if (!s->first_sampled || !s->last_sampled)
			return -ENOMEM;
	}
	choose_columns(s, columns);
	s->bytes = mt_arena_array(s->arena, (size_t)s->site_count * s->column_count,
				  sizeof(*s->bytes));
	return s->bytes ? 0 : -ENOMEM;
}

static void keep_sampled(struct loader *l, struct mt_series_sampled *to,
			 const struct mt_mts_table *table)
{
	l->has_samples &= table->knows_samples;
	if (to && table->sampled_count)
		memcpy(to, table->sampled, table->sampled_count * sizeof(*to));
}

static int keep_point(void *user, const struct mt_series_point *point,
		      const struct mt_mts_table *table)
{
	struct loader *l = user;
	struct mt_series *s = l->s;
	size_t bytes = table->count * sizeof(*table->site);
	if (!l->at && bytes)
		memcpy(s->first, table->site, bytes);
	if (l->at == s->judged_count - 1 && bytes)
		memcpy(s->last, table->site, bytes);
	if (!l->at)
		keep_sampled(l, s->first_sampled, table);
	if (l->at == s->judged_count - 1)
		keep_sampled(l, s->last_sampled, table);
	if (l->column < s->column_count && s->column[l->column] == l->at) {
		for (uint32_t i = 1; i < table->count; i++)
			s->bytes[(size_t)i * s->column_count + l->column] = table->site[i].bytes;
		l->column++;
	}
	s->point[l->at++] = *point;
	return 0;
}

static struct mt_series *series_new(void)
{
	struct mt_arena *arena = mt_arena_new();
	struct mt_series *s = arena ? mt_arena_zalloc(arena, sizeof(*s)) : NULL;
	if (s) {
		s->arena = arena;
		s->site_count = 1;
	} else {
		mt_arena_free(arena);
	}
	return s;
}

int mt_mts_load_memory(const void *data, size_t len, const char *name, uint32_t columns,
		       struct mt_series **ret_series, struct mt_mts_header *ret_header,
		       struct mt_err *err)
{
	mt_auto(mt_series) struct mt_series *s = series_new();
	struct mt_mts_info info;
	struct loader l = {.s = s};
	int r;
	if (!s)
		return mt_err_no_memory(err);
	r = mt_mts_walk_memory(data, len, name, true, count_sites, &l, &info, err);
	if (r)
		return r;
	if (!s->point_count)
		return mt_err_set(err, -ENODATA, "'%s' holds no snapshot", name);
	if (make_tables(&l, columns))
		return mt_err_no_memory(err);
	r = mt_mts_walk_memory(data, info.end, name, true, keep_point, &l, NULL, err);
	if (r)
		return r;
	if (!l.has_samples)
		s->first_sampled = s->last_sampled = NULL;
	s->wall_start_ns = info.header.wall_start_ns;
	s->lost = info.header.lost;
	s->thinned = info.header.thinned;
	s->damaged_bytes = info.damaged_bytes;
	if (ret_header)
		*ret_header = info.header;
	*ret_series = s;
	s = NULL;
	return 0;
}

int mt_mts_load(const char *path, uint32_t columns, struct mt_series **ret_series,
		struct mt_mts_header *ret_header, struct mt_err *err)
{
	mt_auto(free) char *data = NULL;
	size_t len;
	int r = read_file(path, &data, &len, err);
	return r ? r : mt_mts_load_memory(data, len, path, columns, ret_series, ret_header, err);
}

/* ---- beside the state file ---- */

bool mt_mts_is_of(const struct mt_mts_header *h, const struct mt_state_header *state)
{
	return h->pid == state->pid && h->proc_start == state->proc_start &&
	       h->mono_start_ns == state->mono_start_ns &&
	       !memcmp(h->boot_id, state->boot_id, sizeof(h->boot_id));
}

char *mt_mts_path(const char *state_path)
{
	size_t len = strlen(state_path);
	char *path = mt_alloc(len + sizeof(".mts"));
	if (!path)
		return NULL;
	memcpy(path, state_path, len + 1);
	if (len > 4 && !strcmp(path + len - 4, ".mtk"))
		len -= 4;
	memcpy(path + len, ".mts", sizeof(".mts"));
	return path;
}
