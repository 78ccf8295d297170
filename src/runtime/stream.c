/* SPDX-License-Identifier: MIT */
/*
 * Buffers of the event stream: taken, filled, handed over. What always holds: a buffer that is OPEN
 * belongs to one thread state; what stored_bytes covers can be decoded; a thread's buffers have
 * rising numbers. A full one is emptied by the writer (the launcher's companion), or, where none
 * has announced itself, written by its thread.
 */
#include "runtime/stream.h"

#include "core/fmt.h"
#include "core/mem.h"
#include "core/sys.h"
#include "runtime/lock.h"
#include "runtime/storage.h"

enum {
	RETRY_EVENTS = 256, /* events that are lost before a buffer is looked for again */
	WAIT_STEP_NS = 500000,
	O_APPEND_FLAG = 02000,
	O_NOFOLLOW_FLAG = 0400000,
	SEEK_TO_END = 2,
};

static uint32_t hint;       /* where the last free buffer was found; atomic, any value is right */
static uint32_t write_lock; /* one thread appends at a time */

static struct mt_stream_buffer *buffers(void)
{
	return mt_storage_base(MT_REGION_STREAM);
}

static struct mt_stream_control *control(void)
{
	return (struct mt_stream_control *)buffers();
}

void mt_stream_forget(void)
{
	write_lock = hint = 0;
	mt_rt.streaming = 0;
}

int mt_stream_start(void)
{
	const struct mt_state_region *r = mt_rt.region[MT_REGION_STREAM];
	if (mt_rt.streaming)
		return 0;
	/* its number is 0, as is a refusal */
	if (!r->used)
		mt_storage_take(MT_REGION_STREAM, 1);
	if (r->committed_bytes < MT_STREAM_BUFFER_BYTES)
		return -MT_ENOSPC;
	control()->on_full = mt_rt.options.on_full | mt_rt.options.record_keep;
	control()->wait_ns = mt_rt.options.wait_ns;
	control()->limit_bytes = mt_rt.options.record_limit;
	mt_rt.streaming = 1;
	return 0;
}

/* --- the ring -------------------------------------------------------------------------------- */

static uint32_t committed_buffers(void)
{
	const struct mt_state_region *r = mt_rt.region[MT_REGION_STREAM];
	uint64_t bytes = __atomic_load_n(&r->committed_bytes, __ATOMIC_ACQUIRE);
	uint64_t used = __atomic_load_n(&r->used, __ATOMIC_RELAXED);
	return (uint32_t)MT_MIN(MT_MIN(used, r->capacity), bytes / MT_STREAM_BUFFER_BYTES);
}

static int take(struct mt_stream_buffer *b)
{
	uint32_t free = MT_STREAM_FREE;
	/* acquire: pairs with the writer's release, which has read the old content */
	return __atomic_compare_exchange_n(&b->head.state, &free, MT_STREAM_OPEN, 0,
					   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

/* One that was emptied. NULL: there is none. */
static struct mt_stream_buffer *find_free(void)
{
	uint32_t n = committed_buffers(), first = __atomic_load_n(&hint, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t at = (first + i) % n;
		struct mt_stream_buffer *b = &buffers()[at];
		if (!at || __atomic_load_n(&b->head.state, __ATOMIC_RELAXED) != MT_STREAM_FREE ||
		    !take(b))
			continue;
		__atomic_store_n(&hint, at, __ATOMIC_RELAXED);
		return b;
	}
	return NULL;
}

/*
 * One that was never used. As soon as it is counted others may find it, as free: then the next one
 * is tried.
 */
static struct mt_stream_buffer *take_fresh(void)
{
	const struct mt_state_region *r = mt_rt.region[MT_REGION_STREAM];
	while (__atomic_load_n(&r->used, __ATOMIC_RELAXED) < r->capacity) {
		uint32_t at = mt_storage_take(MT_REGION_STREAM, 1);
		if (!at)
			return NULL;
		if (take(&buffers()[at]))
			return &buffers()[at];
	}
	return NULL;
}

static struct mt_stream_buffer *find_buffer(void)
{
	struct mt_stream_buffer *b = find_free();
	return b ? b : take_fresh();
}

/* --- written by the program itself ----------------------------------------------------------- */

static int has_pattern(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (text[i] == '%')
			return 1;
	return 0;
}

static size_t base_at(const char *path)
{
	size_t at = 0;
	for (size_t i = 0; path[i]; i++)
		if (path[i] == '/')
			at = i + 1;
	return at;
}

/* Where the recording lies until somebody collects it: docs/formats/mtr.md. */
static void make_path(char *path, size_t bytes)
{
	const char *output = mt_rt.options.output;
	const char *name = mt_rt.state_path + base_at(mt_rt.state_path);
	size_t dir_len = base_at(output);
	struct mt_fmt f;
	mt_fmt_init(&f, path, bytes);
	if (dir_len && dir_len < bytes && !has_pattern(output, dir_len)) {
		mt_mem_copy(path, output, dir_len);
		f.at += dir_len;
		mt_fmt_str(&f, ".");
		mt_fmt_str(&f, mt_rt.state_dir + base_at(mt_rt.state_dir));
		mt_fmt_str(&f, ".");
	} else {
		mt_fmt_str(&f, mt_rt.state_dir);
		mt_fmt_str(&f, "/");
	}
	mt_fmt_str(&f, name);
	if (mt_str_len(path) > 4) /* .mtk */
		path[mt_str_len(path) - 1] = 'r';
}

static void fill_header(struct mt_stream_header *h)
{
	const struct mt_state_header *state = mt_rt.hdr;
	mt_mem_zero(h, sizeof(*h));
	mt_mem_copy(h->magic, MT_STREAM_MAGIC, sizeof(h->magic));
	h->version_major = MT_STREAM_VERSION_MAJOR;
	h->version_minor = MT_STREAM_VERSION_MINOR;
	h->byte_order = MT_STREAM_BYTE_ORDER;
	h->header_bytes = sizeof(*h);
	h->pid = state->pid;
	mt_mem_copy(h->boot_id, state->boot_id, sizeof(h->boot_id));
	h->proc_start = state->proc_start;
	h->tick_start = state->tick_start;
	h->wall_start_ns = state->wall_start_ns;
	h->limit_bytes = control()->limit_bytes;
}

/* All of it, or the file is as it was. */
static int append(int fd, const void *data, size_t len)
{
	long at = mt_sys3(__NR_lseek, fd, 0, SEEK_TO_END);
	struct mt_rlimit64 limit = {UINT64_MAX, 0};
	if (at < 0)
		return (int)at;
	mt_sys_getrlimit(MT_RLIMIT_FSIZE, &limit); /* past it a signal would kill the program */
	if ((uint64_t)at + len > limit.cur)
		return -MT_EFBIG;
	for (size_t done = 0; done < len;) {
		long n = mt_sys_write(fd, (const char *)data + done, len - done);
		if (n == -MT_EINTR)
			continue;
		if (n <= 0) {
			mt_sys_ftruncate(fd, at);
			return n ? (int)n : -MT_EIO;
		}
		done += (size_t)n;
	}
	return 0;
}

static int append_block(int fd, const struct mt_stream_buffer *b)
{
	uint64_t limit = control()->limit_bytes, bytes = sizeof(b->head) + b->head.stored_bytes;
	long at = mt_sys3(__NR_lseek, fd, 0, SEEK_TO_END);
	struct mt_stream_header header;
	if (at < 0)
		return (int)at;
	/* with the file's header and the block that is to end it */
	if (limit && MT_MAX((uint64_t)at, sizeof(header)) + bytes + sizeof(b->head) > limit) {
		__atomic_store_n(&control()->stopped, 1, __ATOMIC_RELAXED);
		return -MT_EFBIG;
	}
	if (!at) {
		fill_header(&header);
		int err = append(fd, &header, sizeof(header));
		if (err)
			return err;
	}
	return append(fd, b, bytes);
}

static int write_block(const struct mt_stream_buffer *b)
{
	char path[MT_PATH_MAX + 512];
	make_path(path, sizeof(path));
	long fd = mt_sys_open(
		path, MT_O_WRONLY | MT_O_CREAT | MT_O_CLOEXEC | O_APPEND_FLAG | O_NOFOLLOW_FLAG,
		0600);
	if (fd < 0)
		return (int)fd;
	int err = append_block((int)fd, b);
	mt_sys_close((int)fd);
	return err;
}

/* 1 when the buffer may be used again: its content is in the file, or given up. */
static int write_self(struct mt_stream_buffer *b)
{
	struct mt_stream_control *c = control();
	if (mt_rt.sandboxed || !mt_lock(&write_lock))
		return 0;
	b->head.magic = MT_STREAM_BLOCK_MAGIC;
	b->head.raw_bytes = b->head.stored_bytes;
	b->head.checksum = mt_stream_checksum(&b->head, b->code);
	int err = write_block(b);
	mt_unlock(&write_lock);
	if (err)
		__atomic_store_n(&c->self_failed, (uint32_t)-err, __ATOMIC_RELAXED);
	else
		__atomic_fetch_add(&c->self_blocks, 1, __ATOMIC_RELAXED);
	return 1;
}

/* --- from one buffer to the next ------------------------------------------------------------- */

/* 1 while somebody empties full buffers. */
static int has_writer(void)
{
	uint32_t pid = __atomic_load_n(&control()->writer_pid, __ATOMIC_RELAXED);
	return pid && (mt_rt.sandboxed || mt_sys2(__NR_kill, pid, 0) != -MT_ESRCH);
}

/* Waits for a free buffer as long as was asked for. NULL: in vain. */
static struct mt_stream_buffer *wait_for_buffer(void)
{
	struct mt_stream_control *c = control();
	struct mt_stream_buffer *b = NULL;
	struct mt_timespec step = {0, WAIT_STEP_NS};
	uint64_t waited = 0;
	uint32_t never = 0;
	if ((c->on_full & MT_ON_FULL_MASK) != MT_ON_FULL_WAIT || mt_rt.sandboxed)
		return NULL;
	uint64_t begin = mt_sys_clock_ns(MT_CLOCK_MONOTONIC);
	while (!b && waited < c->wait_ns && !__atomic_load_n(&c->stopped, __ATOMIC_RELAXED)) {
		mt_sys4(__NR_futex, &never, MT_FUTEX_WAIT_PRIVATE, 0, &step);
		b = find_free();
		waited = mt_sys_clock_ns(MT_CLOCK_MONOTONIC) - begin;
	}
	__atomic_fetch_add(&c->waits, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&c->waited_ns, waited, __ATOMIC_RELAXED);
	return b;
}

static void hand_over(struct mt_stream_buffer *b)
{
	/* pairs with the writer's acquire: it reads what was written before */
	__atomic_store_n(&b->head.state, MT_STREAM_FULL, __ATOMIC_RELEASE);
}

/*
 * A buffer to go on in; the present one, if any, is handed over or written. NULL: none is free, and
 * nobody empties any in time.
 */
static struct mt_stream_buffer *exchange(struct mt_stream_buffer *old)
{
	int alone = !mt_rt.options.launcher_pid && !has_writer();
	struct mt_stream_buffer *b = NULL;
	if (alone && old && write_self(old))
		return old;
	b = find_buffer();
	if (!b && old && !alone && !has_writer() && write_self(old))
		return old;
	if (old)
		hand_over(old);
	return b ? b : wait_for_buffer();
}

static void begin_buffer(struct mt_thread *t, struct mt_stream_buffer *b, uint32_t unit)
{
	struct mt_stream *s = &t->stream;
	struct mt_stream_slots *slots = &t->stream_slots;
	b->head = (struct mt_stream_block){
		.kind = MT_STREAM_EVENTS,
		.thread = t->number,
		.tid = t->tid,
		.number = s->number++,
		.first_sequence = s->sequence,
		.first_unit = unit,
		.lost_events = s->lost,
		.state = MT_STREAM_OPEN,
		.first_cell = s->highest,
	};
	s->lost = 0;
	s->unit = unit;
	s->buffer = b;
	s->used = 0;
	s->far_freed = s->sequence;
	for (uint32_t i = 0; i < MT_STREAM_NEAR_SLOTS; i++)
		slots->near[i] = 0;
	for (uint32_t i = 0; i < MT_STREAM_FAR_SLOTS; i++)
		slots->far[i] = 0;
}

enum { LAST_PLACE = MT_STREAM_CODE_BYTES - MT_STREAM_EVENT_MAX };

/* Room for an event, or 0: it is lost, and counted. */
static int make_room(struct mt_thread *t, uint32_t unit)
{
	struct mt_stream *s = &t->stream;
	struct mt_stream_buffer *b = NULL, *old = s->buffer;
	s->end = LAST_PLACE;
	if (MT_LIKELY(old && s->used < LAST_PLACE))
		return 1;
	s->buffer = NULL;
	s->used = s->end = 0;
	if (!mt_rt.streaming)
		return 0;
	if (!s->retry && !__atomic_load_n(&control()->stopped, __ATOMIC_RELAXED))
		b = exchange(old);
	else if (old)
		hand_over(old);
	if (b) {
		begin_buffer(t, b, unit);
		s->end = LAST_PLACE;
		return 1;
	}
	s->retry = s->retry ? s->retry - 1 : RETRY_EVENTS;
	s->lost++;
	__atomic_fetch_add(&control()->lost_events, 1, __ATOMIC_RELAXED);
	return 0;
}

static uint8_t *put_escape(uint8_t *at, enum mt_stream_escape what)
{
	*at++ = MT_CODE_ESCAPE;
	*at++ = (uint8_t)what;
	return at;
}

static uint8_t *put_time(struct mt_stream *s, uint8_t *at, uint32_t unit)
{
	/* threads that race for the clock may set it back a little */
	if ((int32_t)(unit - s->unit) <= 0)
		return at;
	at = mt_stream_varint(put_escape(at, MT_ESCAPE_TIME), unit - s->unit);
	s->unit = unit;
	return at;
}

static uint8_t *here(const struct mt_stream *s)
{
	return &s->buffer->code[s->used];
}

static void publish_to(struct mt_stream *s, const uint8_t *at)
{
	mt_stream_publish(s, s->buffer, (uint32_t)(at - s->buffer->code));
}

/* What stands before an allocation. */
static uint8_t *put_before(struct mt_stream *s, uint8_t *at, uint32_t sequence)
{
	uint32_t lg_align = s->before & ~MT_STREAM_BEFORE_REALLOC;
	if (sequence != s->sequence + 1) {
		s->sequence = sequence - 1;
		at = mt_stream_varint(put_escape(at, MT_ESCAPE_SEQUENCE), s->sequence);
	}
	if (s->before & MT_STREAM_BEFORE_REALLOC)
		at = put_escape(at, MT_ESCAPE_REALLOC);
	if (lg_align)
		at = mt_stream_varint(put_escape(at, MT_ESCAPE_ALIGN), lg_align - 1);
	s->before = 0;
	return at;
}

void mt_stream_alloc_slow(struct mt_thread *t, uint32_t cell, uint64_t size, uint32_t unit)
{
	struct mt_stream *s = &t->stream;
	uint32_t sequence = (uint32_t)t->row->totals[MT_CLASS_MALLOC].allocs;
	if (!s->buffer || s->used >= LAST_PLACE)
		s->sequence = sequence - 1; /* where a new buffer begins */
	if (!make_room(t, unit)) {
		s->before = 0;
		return;
	}
	uint8_t *at = put_before(s, put_time(s, here(s), unit), sequence);
	if (size <= UINT32_MAX) {
		s->used = (uint32_t)(at - s->buffer->code);
		mt_stream_put_alloc(s, cell, (uint32_t)size);
		return;
	}
	s->sequence++;
	at = mt_stream_varint(put_escape(at, MT_ESCAPE_LARGE), cell);
	publish_to(s, mt_stream_varint(at, size));
}

/* Blocks that were allocated one after the other are often freed so. */
static uint8_t *put_far(struct mt_stream *s, uint8_t *at, uint32_t sequence)
{
	uint32_t back = s->sequence - sequence, step = sequence - s->far_freed;
	uint32_t zigzag = step << 1 ^ (uint32_t)((int32_t)step >> 31);
	s->far_freed = sequence;
	if (zigzag < 128 || back < MT_STREAM_MIDDLE || back >= MT_STREAM_FAR) {
		*at++ = MT_CODE_FREE_FAR;
		return mt_stream_varint(at, zigzag);
	}
	back -= MT_STREAM_MIDDLE;
	*at++ = MT_CODE_FREE3;
	*at++ = (uint8_t)back;
	*at++ = (uint8_t)(back >> 8);
	return at;
}

static uint8_t *put_own(struct mt_stream *s, uint8_t *at, uint32_t sequence)
{
	uint32_t back = s->sequence - sequence;
	if (back >= MT_STREAM_MIDDLE)
		return put_far(s, at, sequence);
	if (back < MT_STREAM_NEAR) {
		*at++ = (uint8_t)(MT_CODE_FREE + back);
		return at;
	}
	back -= MT_STREAM_NEAR;
	*at++ = (uint8_t)(MT_CODE_FREE2 + (back >> 8));
	*at++ = (uint8_t)back;
	return at;
}

void mt_stream_free_slow(struct mt_thread *t, uint32_t cell, uint32_t sequence, uint32_t unit)
{
	struct mt_stream *s = &t->stream;
	uint32_t thread = mt_rt.cells[cell].thread, end = s->end;
	if (!make_room(t, unit))
		return;
	uint8_t *at = put_time(s, here(s), unit);
	if (thread == t->number) {
		at = put_own(s, at, sequence);
	} else {
		at = mt_stream_varint(put_escape(at, MT_ESCAPE_FREE_OTHER), thread);
		at = mt_stream_varint(at, sequence);
	}
	publish_to(s, at);
	if (!end) /* what is to be said before the next allocation is not said yet */
		s->end = 0;
}

void mt_stream_renew(struct mt_thread *t)
{
	/* what a slot holds may not be in the buffer; what is published is whole */
	t->stream.used = MT_STREAM_CODE_BYTES;
	t->stream.end = t->stream.before = 0;
}

void mt_stream_new_owner(struct mt_thread *t, int fresh)
{
	struct mt_stream *s = &t->stream;
	/* a fresh one may hold what the parent's thread, whose fork this is, has left in it */
	uint32_t number = !fresh && s->row == t->number ? s->number : 0;
	if (!fresh && s->buffer)
		hand_over(s->buffer);
	mt_mem_zero(s, sizeof(*s));
	s->row = t->number;
	s->number = number;
	s->sequence = (uint32_t)t->row->totals[MT_CLASS_MALLOC].allocs;
}
