/* SPDX-License-Identifier: MIT */
/*
 * Emptying buffers. While the process runs they are copied with pread and given back with pwrite,
 * never mapped: the file is the program's. A buffer is given back after it was appended; one that
 * is appended twice, because somebody was killed in between, is dropped by the reader.
 */
#include "record/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/path.h"
#include "core/sys.h"
#include "formats/mtk_read.h"
#include "formats/mtk_source.h"
#include "formats/mtr_read.h"
#include "formats/mtr_write.h"
#include "wire/stream.h"

enum { OUTPUT_MAX = 4096, VISIT_NS = 50000000, RETRY_NS = 200000000 };

/* ---- where ---- */

char *mt_recording_name(const char *state_path)
{
	struct mt_buf b = {0};
	size_t len = strlen(state_path);

	if (len > 4 && !strcmp(state_path + len - 4, ".mtk"))
		len -= 4;
	mt_buf_add(&b, state_path, len);
	mt_buf_adds(&b, ".mtr");
	return mt_buf_steal(&b, NULL);
}

/* Beside the state file: STATEDIR/PID.SEQ.mtr. */
static char *path_beside(const char *state)
{
	return mt_recording_name(state);
}

/*
 * Where the finished file will go, hidden: DIR/.STATEDIR.PID.SEQ.mtr; beside the state file when
 * that directory is not known yet. NULL: no memory.
 */
static char *hidden_path(const char *state, const char *output)
{
	mt_auto(free) char *dir = mt_path_dir(output), *state_dir = mt_path_dir(state);
	mt_auto(free) char *name = mt_recording_name(mt_path_base(state));
	char *path = NULL;

	if (!dir || !state_dir || !name)
		return NULL;
	if (*output != '/' || strchr(dir, '%'))
		return path_beside(state);
	if (asprintf(&path, "%s/.%s.%s", strcmp(dir, "/") ? dir : "", mt_path_base(state_dir),
		     name) < 0)
		return NULL;
	return path;
}

/* The pattern of the finished state file: the run's, or the file's own. */
static const char *output_of(const char *state, const struct mt_state_header *h,
			     const char *pattern, char *text, size_t bytes)
{
	text[0] = 0;
	if (*pattern)
		return pattern;
	mt_mtk_read_string(state, h->output_string, text, bytes, NULL);
	return text;
}

static const struct mt_state_region *stream_row(const struct mt_state_header *h, uint32_t *ret_row)
{
	for (uint32_t i = 0; i < MT_STATE_REGIONS_MAX && h->region[i].kind; i++)
		if (h->region[i].kind == MT_REGION_STREAM &&
		    h->region[i].elem_bytes == MT_STREAM_BUFFER_BYTES) {
			*ret_row = i;
			return &h->region[i];
		}
	return NULL;
}

bool mt_recording_is_there(const struct mt_state_header *h)
{
	uint32_t row;
	const struct mt_state_region *r = stream_row(h, &row);

	return r && r->used;
}

/* ---- what is live ---- */

enum { LIST_MAX = MT_MTR_LIVE_BYTES_MAX / sizeof(struct mt_stream_live) };

/* Blocks on their way into LIVE blocks of the recording. */
struct list {
	const struct mt_mtk_source *source;
	struct mt_mtr_writer *writer;
	uint64_t limit_bytes; /* of the recording with the list, 0: none */
	struct mt_stream_block head;
	uint32_t elem_bytes;
	uint64_t *cell; /* owned: site << 32 | thread, by cell */
	uint64_t cells;
	uint8_t *is_sampled; /* owned, by site */
	uint64_t sites;
	uint32_t count;
	struct mt_stream_live *item; /* owned, LIST_MAX */
};

static int visit_cells(void *user, const void *elems, uint64_t first, uint64_t count)
{
	struct list *l = user;

	for (uint64_t i = 0; i < count && first + i < l->cells; i++) {
		struct mt_state_cell c;

		memcpy(&c, (const uint8_t *)elems + i * l->elem_bytes, sizeof(c));
		l->cell[first + i] = (uint64_t)c.site << 32 | c.thread;
	}
	return 0;
}

static int visit_sites(void *user, const void *elems, uint64_t first, uint64_t count)
{
	struct list *l = user;

	for (uint64_t i = 0; i < count && first + i < l->sites; i++) {
		struct mt_state_site s;

		memcpy(&s, (const uint8_t *)elems + i * l->elem_bytes, sizeof(s));
		l->is_sampled[first + i] = s.regime != 0;
	}
	return 0;
}

static int write_list(struct list *l)
{
	uint64_t now = 0;
	int r;

	/* from this time on the list and the events tell what is live */
	mt_mtk_source_copy(l->source, &now, sizeof(now),
			   offsetof(struct mt_state_header, now_unit));
	l->head.first_unit = (uint32_t)now;
	l->head.raw_bytes = l->count * sizeof(*l->item);
	r = l->count ? mt_mtr_append_upto(l->writer, &l->head, l->item, l->limit_bytes) : 0;
	l->count = 0;
	return r;
}

/* Blocks of the malloc heap that recording mode knows: with a cell, and not sampled. */
static int list_block(struct list *l, const struct mt_stream_live *b)
{
	uint64_t cell = b->cell && b->cell < l->cells ? l->cell[b->cell] : 0;

	if (!cell || cell >> 32 >= l->sites || l->is_sampled[cell >> 32])
		return 0;
	l->item[l->count] = *b;
	l->item[l->count++].thread = (uint32_t)cell;
	return l->count == LIST_MAX ? write_list(l) : 0;
}

static int visit_live(void *user, const void *elems, uint64_t first, uint64_t count)
{
	struct list *l = user;
	int r = 0;

	for (uint64_t i = 0; i < count && !r; i++) {
		struct mt_state_live b;

		memcpy(&b, (const uint8_t *)elems + i * l->elem_bytes, sizeof(b));
		if (b.place && first + i)
			r = list_block(l, &(struct mt_stream_live){.size = b.size,
								   .cell = b.cell,
								   .sequence = b.sequence,
								   .unit = b.unit});
	}
	return r;
}

static int visit_large(void *user, const void *elems, uint64_t first, uint64_t count)
{
	struct list *l = user;
	int r = 0;

	for (uint64_t i = 0; i < count && !r; i++) {
		struct mt_state_large b;

		memcpy(&b, (const uint8_t *)elems + i * l->elem_bytes, sizeof(b));
		if (b.place && first + i && b.heap == MT_HEAP_MALLOC)
			r = list_block(l, &(struct mt_stream_live){.size = b.size,
								   .cell = b.cell,
								   .sequence = b.sequence,
								   .unit = b.unit});
	}
	return r;
}

static int walk(struct list *l, uint32_t kind, mt_mtk_visit *visit)
{
	const struct mt_mtk_region *r = mt_mtk_source_region(l->source, kind);

	l->elem_bytes = r->elem_bytes;
	return mt_mtk_source_walk(l->source, r, visit, l);
}

static int list_all(struct list *l)
{
	int r = walk(l, MT_REGION_CELLS, visit_cells);

	if (!r)
		r = walk(l, MT_REGION_SITES, visit_sites);
	if (!r)
		r = walk(l, MT_REGION_LIVE, visit_live);
	if (!r)
		r = walk(l, MT_REGION_LARGE, visit_large);
	return r ? r : write_list(l);
}

/*
 * Lists the blocks that are live in the state file at fd. 0 or a negative errno value; -EDQUOT: the
 * recording would be larger than limit_bytes (0: none).
 */
static int list_live(int fd, const char *name, struct mt_mtr_writer *w, uint64_t limit_bytes)
{
	struct mt_mtk_source source;
	struct list l = {.source = &source,
			 .writer = w,
			 .limit_bytes = limit_bytes,
			 .head = {.kind = MT_STREAM_LIVE}};
	int r = mt_mtk_source_fd(&source, fd, name, NULL);

	if (r)
		return r;
	l.cells = mt_mtk_source_region(&source, MT_REGION_CELLS)->count;
	l.sites = mt_mtk_source_region(&source, MT_REGION_SITES)->count;
	l.cell = mt_alloc_zero((size_t)l.cells + 1, sizeof(*l.cell));
	l.is_sampled = mt_alloc_zero((size_t)l.sites + 1, 1);
	l.item = mt_alloc_zero(LIST_MAX, sizeof(*l.item));
	r = l.cell && l.is_sampled && l.item ? list_all(&l) : -ENOMEM;
	free(l.cell);
	free(l.is_sampled);
	free(l.item);
	return r;
}

static bool has_list(const char *recording)
{
	mt_auto(mt_mtr) struct mt_mtr m = {.fd = -1};

	return !mt_mtr_open(&m, recording, NULL) && m.blocks &&
	       m.block[0].head.kind == MT_STREAM_LIVE;
}

int mt_recording_begun(const char *state, struct mt_err *err)
{
	char text[OUTPUT_MAX];
	mt_auto(free) char *path = NULL;
	mt_auto(mt_mtr_writer) struct mt_mtr_writer *w = NULL;
	mt_auto(close) int fd = mt_mtk_open(state, err);
	struct mt_state_header h;
	int code = fd < 0 ? fd : mt_mtk_read_header_fd(fd, state, &h, err);

	if (code)
		return code;
	/* the program has not taken it over yet, or has recorded from its start on */
	if (h.mode != MT_MODE_RECORD || h.first_mode == MT_MODE_RECORD)
		return 0;
	path = hidden_path(state, output_of(state, &h, "", text, sizeof(text)));
	if (!path)
		return mt_err_no_memory(err);
	if (has_list(path))
		return 0;
	code = mt_mtr_writer_open(path, &h, 0, &w, err);
	if (code)
		return code;
	code = list_live(fd, state, w, 0);
	return code ? mt_err_set_errno(err, code, "cannot list the live blocks in '%s'", path) : 0;
}

/* ---- a recording whose begin gives way at its limit ---- */

/*
 * The last events are kept in another file, which then takes the recording's place: the limit holds
 * for both together. So the recording is shortened when it reaches two thirds of its limit, to one
 * third and a list of what is live; larger it gets only where a buffer leaves no other choice.
 */
struct keeper {
	const char *path;
	const struct mt_state_header *state;
	uint64_t limit_bytes;
	int fd; /* of the state file */
	const char *name;
};

/*
 * Leaves the last events, at most event_bytes of them, behind a list of what is live now, if that
 * takes at most list_bytes: else there is none. The writer is opened anew.
 */
static int shorten(const struct keeper *k, uint64_t event_bytes, uint64_t list_bytes,
		   struct mt_mtr_writer **w)
{
	uint64_t taken = mt_mtr_writer_bytes(*w) + sizeof(struct mt_stream_header), before;
	int r;

	event_bytes = MT_MIN(event_bytes, k->limit_bytes - MT_MIN(taken, k->limit_bytes));
	mt_mtr_writer_free(*w);
	*w = NULL;
	r = mt_mtr_cut(k->path, event_bytes, NULL);
	if (!r)
		r = mt_mtr_writer_open(k->path, k->state, k->limit_bytes, w, NULL);
	if (r == -EDQUOT) /* the disk's, which is no matter of the limit */
		return -ENOSPC;
	if (r || !list_bytes)
		return r;
	before = mt_mtr_writer_bytes(*w);
	r = list_live(k->fd, k->name, *w, before + list_bytes);
	return r == -EDQUOT ? mt_mtr_writer_truncate(*w, before) : r;
}

/* A buffer goes into the recording. 0 or a negative errno value; -EDQUOT: it is too large alone. */
static int append_last(const struct keeper *k, const struct mt_stream_block *head,
		       const void *payload, struct mt_mtr_writer **w)
{
	uint64_t third = k->limit_bytes / 3;
	uint64_t most =
		k->limit_bytes - MT_MIN(k->limit_bytes - 1, sizeof(struct mt_stream_header));
	const struct {
		uint64_t events, list, upto;
	} step[] = {{third, third / 2, 2 * third}, {0, third, most}, {0, 0, most}};
	int r = mt_mtr_append_upto(*w, head, payload, 2 * third);

	for (size_t i = 0; r == -EDQUOT && i < MT_ARRAY_LEN(step); i++) {
		r = shorten(k, step[i].events, step[i].list, w);
		if (!r)
			r = mt_mtr_append_upto(*w, head, payload, step[i].upto);
	}
	return r;
}

/* ---- while the process runs ---- */

struct sink {
	int fd; /* of the state file, for reading and writing; -1: not yet */
	uint64_t offset, row_at;
	struct mt_state_header header;
	struct mt_mtr_writer *writer; /* NULL: nothing was written yet */
	char *path;                   /* owned */
	uint64_t retry_ns;            /* the disk is full: not before this */
	bool is_off;                  /* nothing is to be done any more */
	uint8_t *buffer;              /* owned, of one buffer */
};

static void sink_free(struct sink *s)
{
	if (!s)
		return;
	if (s->fd >= 0)
		close(s->fd);
	mt_mtr_writer_free(s->writer);
	free(s->path);
	free(s->buffer);
	free(s);
}

/* 0; -EAGAIN: the process does not record (yet). */
static int sink_begin(struct sink *s, const struct mt_companion_file *file)
{
	const struct mt_state_region *r;
	uint32_t row;
	int code = mt_mtk_read_header_fd(file->fd, file->path, &s->header, NULL);

	if (code)
		return code;
	r = stream_row(&s->header, &row);
	if (!r)
		return -ENOENT;
	if (!r->used)
		return -EAGAIN;
	s->offset = r->offset;
	s->row_at = offsetof(struct mt_state_header, region) + row * sizeof(*r);
	s->buffer = mt_alloc(MT_STREAM_BUFFER_BYTES);
	if (!s->buffer)
		return -ENOMEM;
	s->fd = openat(file->dir_fd, file->name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	return s->fd < 0 ? -errno : 0;
}

static void write_control(struct sink *s, size_t field, uint32_t value)
{
	mt_file_pwrite(s->fd, &value, sizeof(value), s->offset + field);
}

#define CONTROL(field) offsetof(struct mt_stream_control, field)

static int open_writer(struct sink *s, const struct mt_companion_file *file,
		       const struct mt_recording_task *task)
{
	char text[OUTPUT_MAX];
	const char *output;

	if (s->writer)
		return 0;
	output = output_of(file->path, &s->header, task->pattern, text, sizeof(text));
	free(s->path);
	s->path = hidden_path(file->path, output);
	if (!s->path)
		return -ENOMEM;
	return mt_mtr_writer_open(s->path, &s->header, task->limit_bytes, &s->writer, NULL);
}

/*
 * A buffer goes into the recording. 0 or a negative errno value; -EDQUOT: the first events are
 * kept, and the limit is reached. One that is larger than the limit is left out, as readers notice.
 */
static int append_buffer(struct sink *s, const struct mt_stream_block *head,
			 const struct mt_companion_file *file, const struct mt_recording_task *task)
{
	struct keeper k = {s->path, &s->header, task->limit_bytes, s->fd, file->path};
	int r;

	if (!task->keeps_last || !task->limit_bytes)
		return mt_mtr_append(s->writer, head, s->buffer);
	r = append_last(&k, head, s->buffer, &s->writer);
	return r == -EDQUOT ? 0 : r;
}

/* Buffer `number`, if it is full. 1: it was emptied; 0: not full; or a negative errno value. */
static int empty_buffer(struct sink *s, uint64_t number, const struct mt_companion_file *file,
			const struct mt_recording_task *task)
{
	uint64_t at = s->offset + number * MT_STREAM_BUFFER_BYTES;
	struct mt_stream_block head;
	static const uint32_t is_free = MT_STREAM_FREE;
	int r;

	if (mt_file_pread(s->fd, &head, sizeof(head), at) != sizeof(head))
		return -EIO;
	if (head.state != MT_STREAM_FULL)
		return 0;
	if (head.kind == MT_STREAM_EVENTS && head.stored_bytes <= MT_STREAM_CODE_BYTES) {
		if (mt_file_pread(s->fd, s->buffer, head.stored_bytes, at + sizeof(head)) !=
		    (ssize_t)head.stored_bytes)
			return -EIO;
		head.raw_bytes = head.stored_bytes;
		r = open_writer(s, file, task);
		if (!r)
			r = append_buffer(s, &head, file, task);
		if (r)
			return r;
	}
	r = mt_file_pwrite(s->fd, &is_free, sizeof(is_free),
			   at + offsetof(struct mt_stream_block, state));
	return r ? r : 1;
}

/* One look at all buffers. How many were emptied, or a negative errno value. */
static int empty_buffers(struct sink *s, const struct mt_companion_file *file,
			 const struct mt_recording_task *task)
{
	struct mt_state_region row;
	uint64_t count;
	int emptied = 0;

	if (mt_file_pread(s->fd, &row, sizeof(row), s->row_at) != sizeof(row))
		return -EIO;
	count = MT_MIN(MT_MIN(row.used, row.capacity), row.committed_bytes / row.elem_bytes);
	for (uint64_t i = 1; i < count; i++) {
		int r = empty_buffer(s, i, file, task);

		if (r < 0)
			return r;
		emptied += r;
	}
	return emptied;
}

static void empty(struct sink *s, const struct mt_companion_file *file,
		  const struct mt_recording_task *task)
{
	uint64_t end = mt_sys_clock_ns(MT_CLOCK_MONOTONIC) + VISIT_NS;
	int r;

	do
		r = empty_buffers(s, file, task);
	while (r > 0 && mt_sys_clock_ns(MT_CLOCK_MONOTONIC) < end);
	if (r == -EDQUOT) { /* the limit: the program need not go on */
		write_control(s, CONTROL(stopped), 1);
		s->is_off = true;
	} else if (r < 0) {
		s->retry_ns = mt_sys_clock_ns(MT_CLOCK_MONOTONIC) + RETRY_NS;
	}
}

void mt_recording_visit(void *context, const struct mt_companion_file *file,
			enum mt_companion_why why, void **data)
{
	const struct mt_recording_task *task = context;
	struct sink *s = *data;
	int code = 0;

	if (!s && file->fd >= 0) {
		s = *data = mt_alloc_zero(1, sizeof(*s));
		if (!s)
			return;
		s->fd = -1;
	}
	if (s && s->fd < 0 && !s->is_off && file->fd >= 0) {
		code = sink_begin(s, file);
		s->is_off = code && code != -EAGAIN;
		if (!code)
			write_control(s, CONTROL(writer_pid), (uint32_t)getpid());
	}
	if (s && s->fd >= 0 && !s->is_off &&
	    (why == MT_COMPANION_LAST || mt_sys_clock_ns(MT_CLOCK_MONOTONIC) >= s->retry_ns))
		empty(s, file, task);
	if (why == MT_COMPANION_LAST && s) {
		if (s->fd >= 0) /* a process that runs on writes by itself from now on */
			write_control(s, CONTROL(writer_pid), 0);
		sink_free(s);
		*data = NULL;
	}
}

/* ---- after its end ---- */

static void read_control(const struct mt_mtk_source *source, struct mt_stream_control *ret_c)
{
	const struct mt_mtk_region *r = mt_mtk_source_region(source, MT_REGION_STREAM);

	memset(ret_c, 0, sizeof(*ret_c));
	if (r->count)
		mt_mtk_source_copy(source, ret_c, sizeof(*ret_c), r->offset);
}

/* A buffer that still holds events. */
struct held {
	uint64_t at; /* in the state file */
	uint32_t unit, thread, number;
};

static int compare_held(const void *a, const void *b)
{
	const struct held *x = a, *y = b;

	if (x->unit != y->unit)
		return (int32_t)(x->unit - y->unit) < 0 ? -1 : 1;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

/* In the order of time: at a limit the first or the last count. How many, or -EIO. */
static int64_t find_held(const struct mt_mtk_source *source, struct held *ret_held)
{
	const struct mt_mtk_region *r = mt_mtk_source_region(source, MT_REGION_STREAM);
	struct mt_stream_block h;
	size_t count = 0;

	for (uint64_t i = 1; i < r->count; i++) {
		uint64_t at = r->offset + i * r->elem_bytes;

		if (mt_mtk_source_copy(source, &h, sizeof(h), at) != sizeof(h))
			return -EIO;
		if (h.state == MT_STREAM_FREE || h.kind != MT_STREAM_EVENTS || !h.stored_bytes ||
		    h.stored_bytes > MT_STREAM_CODE_BYTES)
			continue;
		ret_held[count++] = (struct held){at, h.first_unit, h.thread, h.number};
	}
	if (count)
		qsort(ret_held, count, sizeof(*ret_held), compare_held);
	return (int64_t)count;
}

/* keeper.limit_bytes 0: the writer's limit holds, and the first events are kept. */
static int append_held(const struct mt_mtk_source *source, const struct held *held, int64_t count,
		       const struct keeper *k, struct mt_mtr_writer **w)
{
	mt_auto(free) struct mt_stream_buffer *b = mt_alloc(sizeof(*b));
	int code = b ? 0 : -ENOMEM;

	for (int64_t i = 0; i < count && !code; i++) {
		if (mt_mtk_source_copy(source, b, sizeof(*b), held[i].at) != sizeof(*b))
			return -EIO;
		if (b->head.stored_bytes > MT_STREAM_CODE_BYTES)
			continue;
		b->head.raw_bytes = b->head.stored_bytes;
		b->head.flags = b->head.state == MT_STREAM_OPEN ? MT_STREAM_SALVAGED : 0;
		if (!k->limit_bytes)
			code = mt_mtr_append(*w, &b->head, b->code);
		else
			code = append_last(k, &b->head, b->code, w);
		if (code == -EDQUOT && k->limit_bytes)
			code = 0; /* larger than the limit: left out, as readers notice */
	}
	return code;
}

/* What the buffers still hold goes into the recording. 0 or a negative errno value. */
static int salvage(const struct mt_mtk_source *source, const struct keeper *k,
		   struct mt_mtr_writer **w)
{
	size_t room = (size_t)mt_mtk_source_region(source, MT_REGION_STREAM)->count + 1;
	mt_auto(free) struct held *held = mt_alloc_zero(room, sizeof(*held));
	int64_t count = held ? find_held(source, held) : -ENOMEM;

	return count < 0 ? (int)count : append_held(source, held, count, k, w);
}

static int append_end(struct mt_mtr_writer *w, const struct mt_stream_control *control,
		      bool is_limited)
{
	struct mt_stream_block end = {.kind = MT_STREAM_END,
				      .flags = is_limited ? MT_STREAM_LIMITED : 0,
				      .lost_events = control->lost_events};

	return mt_mtr_append(w, &end, "");
}

/* The blocks of `from`, which the program wrote elsewhere, behind those of `to`. */
static int append_file(const char *from, const char *to)
{
	mt_auto(close) int in = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	mt_auto(close) int out = open(to, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
	mt_auto(free) char *buf = mt_alloc(MT_STREAM_BUFFER_BYTES);
	uint64_t at = sizeof(struct mt_stream_header);
	ssize_t n;
	int code = 0;

	if (!buf || in < 0 || out < 0)
		return !buf ? -ENOMEM : in < 0 && errno == ENOENT ? 0 : -errno;
	while (!code && (n = mt_file_pread(in, buf, MT_STREAM_BUFFER_BYTES, at)) > 0) {
		code = mt_file_write(out, buf, (size_t)n);
		at += (uint64_t)n;
	}
	return code;
}

/* What is still to come, and the end. 0 or a negative errno value. */
static int finish_with(const struct mt_mtk_source *source, const char *path, int fd,
		       const char *name, const struct mt_stream_control *control,
		       struct mt_mtr_writer **w)
{
	struct keeper k = {path, &source->header, 0, fd, name};
	int code = 0;

	if (control->on_full & MT_KEEP_LAST)
		k.limit_bytes = control->limit_bytes;
	if (k.limit_bytes && mt_mtr_writer_bytes(*w) > k.limit_bytes)
		code = shorten(&k, k.limit_bytes / 3, k.limit_bytes / 6, w);
	if (!code)
		code = salvage(source, &k, w);
	if (code && code != -EDQUOT)
		return code;
	return append_end(*w, control, code || control->stopped);
}

int mt_recording_finish(const char *state, const char *shown, const char *pattern, char **ret_path,
			struct mt_err *err)
{
	char text[OUTPUT_MAX];
	mt_auto(free) char *path = NULL, *beside = path_beside(state);
	mt_auto(mt_mtr_writer) struct mt_mtr_writer *w = NULL;
	mt_auto(close) int fd = mt_mtk_open(state, err);
	struct mt_stream_control control;
	struct mt_mtk_source source;
	int code = fd < 0 ? fd : mt_mtk_source_fd(&source, fd, shown, err);

	if (code)
		return code;
	path = hidden_path(shown, output_of(state, &source.header, pattern, text, sizeof(text)));
	if (!path || !beside)
		return mt_err_no_memory(err);
	if (!strncmp(path, shown, strlen(shown) - strlen(mt_path_base(shown)))) {
		free(path); /* its directory may be reached by another way */
		path = strdup(beside);
		if (!path)
			return mt_err_no_memory(err);
	}
	read_control(&source, &control);
	code = mt_mtr_writer_open(path, &source.header,
				  control.on_full & MT_KEEP_LAST ? 0 : control.limit_bytes, &w,
				  err);
	if (code)
		return code;
	if (strcmp(path, beside)) {
		code = append_file(beside, path);
		if (!code)
			unlink(beside);
	}
	if (!code)
		code = finish_with(&source, path, fd, state, &control, &w);
	if (code)
		return mt_err_set_errno(err, code, "cannot write the recording '%s'", path);
	*ret_path = path;
	path = NULL;
	return 0;
}

static int copy_to(const char *from, const char *to, struct mt_err *err)
{
	mt_auto(mt_atomic_file) struct mt_atomic_file out = {.fd = -1};
	mt_auto(close) int in = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	mt_auto(free) char *buf = mt_alloc(MT_STREAM_BUFFER_BYTES);
	ssize_t n = 0;
	int code = in < 0 ? mt_err_set_errno(err, errno, "cannot open '%s'", from)
			  : mt_atomic_file_open(&out, to, 0600, err);

	if (!buf)
		return mt_err_no_memory(err);
	if (code)
		return code;
	while (!code && (n = read(in, buf, MT_STREAM_BUFFER_BYTES)) > 0)
		code = mt_file_write(out.fd, buf, (size_t)n);
	if (n < 0)
		code = -errno;
	if (code)
		return mt_err_set_errno(err, code, "cannot copy '%s' to '%s'", from, to);
	code = mt_atomic_file_commit(&out, err);
	if (!code)
		unlink(from);
	return code;
}

int mt_recording_move(const char *from, const char *to, struct mt_err *err)
{
	if (!rename(from, to))
		return 0;
	if (errno == EXDEV)
		return copy_to(from, to, err);
	return mt_err_set_errno(err, errno, "cannot move '%s' to '%s'", from, to);
}
