/* SPDX-License-Identifier: MIT */
/*
 * Writing series. Everything happens under the lock of the file that the name leads to: find the
 * end of the good frames, thin if the new one does not fit, append with one call, and take it back
 * when that fails.
 */
#include "formats/mts_write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "core/hash.h"
#include "formats/mts_read.h"

enum {
	LOCK_TRIES = 200,
	LOCK_WAIT_NS = 10000000, /* so in all two seconds */
	NAME_MAX_BYTES = 300,
	THIN_TRIES = 4,
};

/* A series that is open and locked. */
struct open_series {
	int fd;
	uint64_t device, inode, size;
	struct mt_mts_header header;
	uint64_t end; /* of the last good frame */
	struct mt_series_point last;
};

void mt_mts_writer_done(struct mt_mts_writer *w)
{
	if (w)
		mt_mts_table_done(&w->last);
}

/* ---- opening ---- */

static int lock(int fd)
{
	const struct timespec wait = {0, LOCK_WAIT_NS};
	for (int i = 0; i < LOCK_TRIES; i++) {
		if (!flock(fd, LOCK_EX | LOCK_NB))
			return 0;
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		nanosleep(&wait, NULL);
	}
	return -EBUSY;
}

/* 0: fd is the locked file of that name; -EAGAIN: another one has taken its place. */
static int try_open(const struct mt_mts_place *place, struct open_series *s)
{
	struct stat st, now;
	int r;
	s->fd = openat(place->dir_fd, place->name,
		       O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
	if (s->fd < 0)
		return -errno;
	r = lock(s->fd);
	if (!r && fstat(s->fd, &st))
		r = -errno;
	if (!r && (!S_ISREG(st.st_mode) || st.st_nlink > 1))
		r = -EINVAL;
	if (!r && (fstatat(place->dir_fd, place->name, &now, AT_SYMLINK_NOFOLLOW) ||
		   now.st_ino != st.st_ino || now.st_dev != st.st_dev))
		r = -EAGAIN;
	if (r) {
		close(s->fd);
		s->fd = -1;
		return r;
	}
	s->device = st.st_dev;
	s->inode = st.st_ino;
	s->size = (uint64_t)st.st_size;
	if (!s->size && place->owner != st.st_uid && fchown(s->fd, place->owner, (gid_t)-1))
		return 0; /* whoever it belongs to: it is written all the same */
	return 0;
}

static int open_locked(const struct mt_mts_place *place, struct open_series *s)
{
	int r = -EAGAIN;
	for (int i = 0; i < LOCK_TRIES && r == -EAGAIN; i++)
		r = try_open(place, s);
	return r == -EAGAIN ? -EBUSY : r;
}

static struct mt_mts_header new_header(const struct mt_mts_place *place)
{
	const struct mt_state_header *state = place->state;
	struct mt_mts_header h = {
		.version_major = MT_MTS_VERSION_MAJOR,
		.version_minor = MT_MTS_VERSION_MINOR,
		.byte_order = MT_MTS_BYTE_ORDER,
		.header_bytes = sizeof(h),
		.pid = state->pid,
		.proc_start = state->proc_start,
		.mono_start_ns = state->mono_start_ns,
		.wall_start_ns = state->wall_start_ns,
		.limit_bytes = place->limit_bytes ? place->limit_bytes : MT_MTS_LIMIT_BYTES,
	};
	memcpy(h.magic, MT_MTS_MAGIC, sizeof(h.magic));
	memcpy(h.boot_id, state->boot_id, sizeof(h.boot_id));
	return h;
}

static int keep_last(void *user, const struct mt_series_point *point,
		     const struct mt_mts_table *table)
{
	*(struct mt_series_point *)user = *point;
	return 0;
}

static int read_all(const struct open_series *s, char **ret_data)
{
	char *data = mt_alloc(s->size + 1);
	ssize_t n = data ? mt_file_pread(s->fd, data, s->size, 0) : -ENOMEM;
	if (n != (ssize_t)s->size) {
		free(data);
		return n < 0 ? (int)n : -EIO;
	}
	*ret_data = data;
	return 0;
}

/* What we append is of our version; all that older ones may hold is the same in it. */
static int raise_version(const struct mt_mts_place *place, struct open_series *s,
			 struct mt_err *err)
{
	struct mt_mts_header h = s->header;
	int r;
	if (h.version_major == MT_MTS_VERSION_MAJOR)
		return 0;
	h.version_major = MT_MTS_VERSION_MAJOR;
	h.version_minor = MT_MTS_VERSION_MINOR;
	r = mt_file_pwrite(s->fd, &h, sizeof(h), 0);
	if (r)
		return mt_err_set_errno(err, r, "cannot write '%s'", place->path);
	s->header = h;
	return 0;
}

/* Finds the end of what is good; what is behind it was left by a writer that was killed. */
static int scan(const struct mt_mts_place *place, struct open_series *s, struct mt_err *err)
{
	mt_auto(free) char *data = NULL;
	struct mt_mts_info info;
	int r = read_all(s, &data);
	if (r)
		return mt_err_set_errno(err, r, "cannot read '%s'", place->path);
	r = mt_mts_walk_memory(data, s->size, place->path, false, keep_last, &s->last, &info, err);
	if (r)
		return r;
	if (!mt_mts_is_of(&info.header, place->state))
		return mt_err_set(err, -EEXIST, "'%s' holds snapshots of another process",
				  place->path);
	s->header = info.header;
	s->end = info.end;
	return raise_version(place, s, err);
}

/* A file without a whole header was begun by a writer that was killed. */
static int begin(const struct mt_mts_place *place, struct open_series *s, struct mt_err *err)
{
	int r;
	s->header = new_header(place);
	r = ftruncate(s->fd, 0) ? -errno : mt_file_pwrite(s->fd, &s->header, sizeof(s->header), 0);
	if (r) {
		(void)!ftruncate(s->fd, 0);
		return mt_err_set_errno(err, r, "cannot write '%s'", place->path);
	}
	s->end = s->size = sizeof(s->header);
	return 0;
}

/* Whether the file is as we left it after our last frame. */
static bool is_known(const struct mt_mts_writer *w, const struct open_series *s)
{
	return w->end && w->device == s->device && w->inode == s->inode && w->end == s->size;
}

/* The same without reading it all. */
static int scan_known(const struct mt_mts_writer *w, const struct mt_mts_place *place,
		      struct open_series *s, struct mt_err *err)
{
	if (mt_file_pread(s->fd, &s->header, sizeof(s->header), 0) != sizeof(s->header))
		return scan(place, s, err);
	s->end = s->size;
	s->last.number = w->number;
	s->last.time_ns = w->time_ns;
	return 0;
}

/* ---- thinning ---- */

struct index {
	struct mt_series_point *point;
	uint32_t *size_bytes;
	bool *keep;
	uint32_t count, at;
	size_t point_cap, size_cap;
};

static void index_done(struct index *x)
{
	free(x->point);
	free(x->size_bytes);
	free(x->keep);
}
MT_AUTO_DEFINE_INPLACE(index, struct index, index_done)

static int make_index(const uint8_t *data, uint64_t end, struct index *x)
{
	struct mt_mts_frame f;
	for (uint64_t at = sizeof(struct mt_mts_header); at < end; at += f.frame_bytes) {
		void *point, *size;
		memcpy(&f, data + at, sizeof(f));
		point = mt_alloc_grow(x->point, &x->point_cap, x->count + 1, sizeof(*x->point));
		x->point = point ? point : x->point;
		size = mt_alloc_grow(x->size_bytes, &x->size_cap, x->count + 1,
				     sizeof(*x->size_bytes));
		x->size_bytes = size ? size : x->size_bytes;
		if (!point || !size)
			return -ENOMEM;
		x->point[x->count] = mt_mts_point(&f);
		x->size_bytes[x->count++] = f.frame_bytes;
	}
	x->keep = mt_alloc_zero(x->count + 1, sizeof(*x->keep));
	return x->keep ? 0 : -ENOMEM;
}

/* The series anew, of those that are kept. */
struct rewrite {
	struct index *index;
	struct mt_mts_table last;
	struct mt_buf out;
};

static void rewrite_done(struct rewrite *r)
{
	mt_mts_table_done(&r->last);
	mt_buf_done(&r->out);
}
MT_AUTO_DEFINE_INPLACE(rewrite, struct rewrite, rewrite_done)

static int rewrite_point(void *user, const struct mt_series_point *point,
			 const struct mt_mts_table *table)
{
	struct rewrite *r = user;
	bool is_first = r->out.len <= sizeof(struct mt_mts_header);
	int code;
	if (!r->index->keep[r->index->at++])
		return 0;
	code = mt_mts_encode(point, is_first ? NULL : &r->last, table, &r->out);
	return code ? code : mt_mts_table_copy(&r->last, table);
}

/* The thinned file's bytes, at most half the limit: how much frames shrink is seen afterwards. */
static int rewrite(const char *data, struct open_series *s, struct rewrite *r)
{
	uint64_t target = s->header.limit_bytes / 2, want = target;
	struct mt_mts_header h = s->header;
	int code = 0;
	for (int i = 0; i < THIN_TRIES && !code; i++, want /= 2) {
		struct index *x = r->index;
		uint32_t kept = 0;
		mt_series_thin(x->point, x->size_bytes, x->count, want, x->keep);
		for (uint32_t k = 0; k < x->count; k++)
			kept += x->keep[k];
		h.thinned = s->header.thinned + (x->count - kept);
		x->at = 0;
		mt_mts_table_done(&r->last);
		mt_buf_truncate(&r->out, 0);
		mt_buf_add(&r->out, &h, sizeof(h));
		code = mt_mts_walk_memory(data, s->end, "", true, rewrite_point, r, NULL, NULL);
		if (r->out.failed)
			code = -ENOMEM;
		if (!code && r->out.len <= target)
			break;
	}
	return code;
}

/* Puts the bytes in the file's place; s becomes the new file, locked before it has the name. */
static int replace(const struct mt_mts_place *place, const struct mt_buf *bytes,
		   struct open_series *s)
{
	char temp[NAME_MAX_BYTES];
	struct stat st;
	int fd, r;
	snprintf(temp, sizeof(temp), "%s.new", place->name);
	unlinkat(place->dir_fd, temp, 0); /* of a writer that was killed: we hold the lock */
	fd = openat(place->dir_fd, temp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	r = lock(fd);
	if (!r)
		r = mt_file_pwrite(fd, bytes->data, bytes->len, 0);
	if (!r &&
	    (fstat(fd, &st) || (st.st_uid != place->owner && fchown(fd, place->owner, (gid_t)-1)) ||
	     renameat(place->dir_fd, temp, place->dir_fd, place->name)))
		r = -errno;
	if (r) {
		unlinkat(place->dir_fd, temp, 0);
		close(fd);
		return r;
	}
	close(s->fd);
	s->fd = fd;
	s->device = st.st_dev;
	s->inode = st.st_ino;
	s->size = s->end = bytes->len;
	memcpy(&s->header, bytes->data, sizeof(s->header));
	return 0;
}

static int thin(const struct mt_mts_place *place, struct open_series *s, struct mt_mts_writer *w)
{
	mt_auto(index) struct index x = {0};
	mt_auto(rewrite) struct rewrite r = {.index = &x};
	mt_auto(free) char *data = NULL;
	int code = read_all(s, &data);
	if (!code)
		code = make_index((const uint8_t *)data, s->end, &x);
	if (!code)
		code = rewrite(data, s, &r);
	if (!code)
		code = replace(place, &r.out, s);
	if (!code)
		code = mt_mts_table_copy(&w->last, &r.last);
	w->end = 0; /* until the new frame is there */
	return code;
}

/* ---- appending ---- */

/* Notes what was lost where readers find it; best effort: the disk may be full. */
static void note_lost(struct open_series *s, struct mt_mts_writer *w)
{
	uint64_t sum = s->header.lost + w->lost_here;
	if (w->lost_here &&
	    !mt_file_pwrite(s->fd, &sum, sizeof(sum), offsetof(struct mt_mts_header, lost))) {
		s->header.lost = sum;
		w->lost_here = 0;
	}
}

/* Whether `bytes` more would take room that is to be left to others. */
static bool is_reserved(const struct mt_mts_place *place, const struct open_series *s, size_t bytes)
{
	struct statvfs fs;

	return place->reserve_bytes && !fstatvfs(s->fd, &fs) && fs.f_blocks &&
	       (uint64_t)fs.f_bavail * fs.f_frsize < place->reserve_bytes + bytes;
}

/* Appends with one call; what of it was written is taken back when it failed. */
static int write_frame(struct open_series *s, const struct mt_buf *frame)
{
	int r = s->size > s->end && ftruncate(s->fd, (off_t)s->end) ? -errno : 0;
	if (!r)
		r = mt_file_pwrite(s->fd, frame->data, frame->len, s->end);
	if (r)
		(void)!ftruncate(s->fd, (off_t)s->end);
	return r;
}

/* The frame as it fits to the end of the file; the file is thinned when there is no room. */
static int make_frame(struct mt_mts_writer *w, const struct mt_mts_place *place,
		      struct open_series *s, struct mt_series_point *point,
		      struct mt_mts_table *table, struct mt_buf *frame)
{
	bool has_before = is_known(w, s) && w->last.count <= table->count;
	const struct mt_mts_table *before = has_before ? &w->last : NULL;
	int r;
	mt_mts_table_choose_units(table, before);
	r = mt_mts_encode(point, before, table, frame);
	if (r || s->end + frame->len <= s->header.limit_bytes)
		return r;
	if (frame->len + sizeof(s->header) > s->header.limit_bytes / 2)
		return -EFBIG;
	r = thin(place, s, w);
	mt_buf_truncate(frame, 0);
	return r ? r
		 : mt_mts_encode(point, w->last.count <= table->count ? &w->last : NULL, table,
				 frame);
}

static int append(struct mt_mts_writer *w, const struct mt_mts_place *place, struct open_series *s,
		  struct mt_series_point *point, struct mt_mts_table *table, struct mt_err *err)
{
	mt_auto(mt_buf) struct mt_buf frame = {0};
	int r;
	if (s->size < sizeof(s->header))
		r = begin(place, s, err);
	else if (is_known(w, s))
		r = scan_known(w, place, s, err);
	else
		r = scan(place, s, err);
	if (r)
		return r;
	point->number = s->last.number + 1;
	point->time_ns = MT_MAX(point->time_ns, s->last.time_ns);
	r = make_frame(w, place, s, point, table, &frame);
	if (!r)
		r = is_reserved(place, s, frame.len) ? -ENOSPC : write_frame(s, &frame);
	note_lost(s, w);
	if (r == -EFBIG)
		return mt_err_set(err, r,
				  "cannot add to '%s': a snapshot takes more than half of its "
				  "limit, or of that on file sizes (ulimit -f)",
				  place->path);
	if (r)
		return mt_err_set_errno(err, r, "cannot add to '%s'", place->path);
	w->device = s->device;
	w->inode = s->inode;
	w->end = s->end + frame.len;
	w->number = point->number;
	w->time_ns = point->time_ns;
	if (mt_mts_table_copy(&w->last, table))
		w->end = 0; /* the next one will not refer to it */
	return 0;
}

int mt_mts_append(struct mt_mts_writer *w, const struct mt_mts_place *place,
		  struct mt_series_point *point, struct mt_mts_table *table, uint32_t *ret_number,
		  struct mt_err *err)
{
	struct open_series s = {.fd = -1};
	int r = open_locked(place, &s);
	if (r == -EBUSY)
		mt_err_set(err, r, "cannot add to '%s': another memtrack is writing it",
			   place->path);
	else if (r)
		mt_err_set_errno(err, r, "cannot open '%s'", place->path);
	else
		r = append(w, place, &s, point, table, err);
	if (r) {
		w->lost_here++;
		if (s.fd >= 0 && s.end)
			note_lost(&s, w);
	}
	if (s.fd >= 0)
		close(s.fd);
	if (!r && ret_number)
		*ret_number = point->number;
	return r;
}
