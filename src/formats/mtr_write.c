/* SPDX-License-Identifier: MIT */
/* Appending to a recording. */
#include "formats/mtr_write.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <zstd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "formats/mtr_read.h"

enum { LEVEL = 1, END_BYTES = MT_STREAM_HEAD_BYTES /* of the END block: room is left for it */ };

struct mt_mtr_writer {
	int fd;
	uint64_t limit_bytes;
	ZSTD_CCtx *context;
	uint8_t *packed; /* owned */
	size_t packed_capacity;
};

void mt_mtr_writer_free(struct mt_mtr_writer *w)
{
	if (!w)
		return;
	if (w->fd >= 0)
		close(w->fd);
	ZSTD_freeCCtx(w->context);
	free(w->packed);
	free(w);
}

uint64_t mt_mtr_writer_bytes(const struct mt_mtr_writer *w)
{
	struct stat st;

	return fstat(w->fd, &st) ? 0 : (uint64_t)st.st_size;
}

/* Both parts at the end of the file, or neither. */
static int append(struct mt_mtr_writer *w, const void *a, size_t a_len, const void *b, size_t b_len)
{
	struct iovec parts[2] = {{(void *)a, a_len}, {(void *)b, b_len}};
	uint64_t before = mt_mtr_writer_bytes(w), all = a_len + b_len;
	struct rlimit own = {RLIM_INFINITY, RLIM_INFINITY};
	ssize_t n;

	getrlimit(RLIMIT_FSIZE, &own); /* beyond it a signal would end us */
	if (before + all > own.rlim_cur)
		return -EFBIG;
	do
		n = writev(w->fd, parts, b_len ? 2 : 1);
	while (n < 0 && errno == EINTR);
	if (n == (ssize_t)all)
		return 0;
	if (n < 0)
		return -errno;
	/* a full disk: what is there of the block is taken back, if it is the last */
	if (mt_mtr_writer_bytes(w) == before + (uint64_t)n)
		(void)!ftruncate(w->fd, (off_t)before);
	return -ENOSPC;
}

static int write_header(struct mt_mtr_writer *w, const struct mt_state_header *state)
{
	struct mt_stream_header h = {
		.version_major = MT_STREAM_VERSION_MAJOR,
		.version_minor = MT_STREAM_VERSION_MINOR,
		.byte_order = MT_STREAM_BYTE_ORDER,
		.header_bytes = sizeof(h),
		.pid = state->pid,
		.proc_start = state->proc_start,
		.tick_start = state->tick_start,
		.wall_start_ns = state->wall_start_ns,
		.limit_bytes = w->limit_bytes,
	};

	memcpy(h.magic, MT_STREAM_MAGIC, sizeof(h.magic));
	memcpy(h.boot_id, state->boot_id, sizeof(h.boot_id));
	return append(w, &h, sizeof(h), NULL, 0);
}

int mt_mtr_writer_open(const char *path, const struct mt_state_header *state, uint64_t limit_bytes,
		       struct mt_mtr_writer **ret_w, struct mt_err *err)
{
	mt_auto(mt_mtr_writer) struct mt_mtr_writer *w = mt_alloc_zero(1, sizeof(*w));
	int r = 0;

	if (!w)
		return mt_err_no_memory(err);
	w->limit_bytes = limit_bytes;
	w->context = ZSTD_createCCtx();
	w->packed_capacity = ZSTD_compressBound(MT_STREAM_BUFFER_BYTES);
	w->packed = mt_alloc(w->packed_capacity);
	w->fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600);
	if (w->fd < 0)
		return mt_err_set_errno(err, errno, "cannot write '%s'", path);
	if (!w->context || !w->packed)
		return mt_err_no_memory(err);
	if (!mt_mtr_writer_bytes(w))
		r = write_header(w, state);
	if (r)
		return mt_err_set_errno(err, r, "cannot write '%s'", path);
	*ret_w = w;
	w = NULL;
	return 0;
}

/* The payload in w->packed; 0: it does not get smaller. */
static size_t compress(struct mt_mtr_writer *w, const void *payload, size_t len)
{
	size_t need = ZSTD_compressBound(len), n;

	if (need > w->packed_capacity) {
		uint8_t *grown = mt_alloc_resize(w->packed, need);

		if (!grown)
			return 0;
		w->packed = grown;
		w->packed_capacity = need;
	}
	n = ZSTD_compressCCtx(w->context, w->packed, w->packed_capacity, payload, len, LEVEL);
	return ZSTD_isError(n) || n >= len ? 0 : n;
}

int mt_mtr_append_upto(struct mt_mtr_writer *w, const struct mt_stream_block *head,
		       const void *payload, uint64_t limit_bytes)
{
	struct mt_stream_block h = *head;
	size_t packed = h.raw_bytes ? compress(w, payload, h.raw_bytes) : 0;

	h.magic = MT_STREAM_BLOCK_MAGIC;
	h.flags = (uint16_t)((h.flags & ~MT_STREAM_ZSTD) | (packed ? MT_STREAM_ZSTD : 0));
	h.stored_bytes = packed ? (uint32_t)packed : h.raw_bytes;
	h.state = 0;
	memset(h.reserved, 0, sizeof(h.reserved));
	payload = packed ? w->packed : payload;
	if (limit_bytes &&
	    mt_mtr_writer_bytes(w) + sizeof(h) + h.stored_bytes + END_BYTES > limit_bytes)
		return -EDQUOT;
	h.checksum = mt_stream_checksum(&h, payload);
	return append(w, &h, sizeof(h), payload, h.stored_bytes);
}

int mt_mtr_append(struct mt_mtr_writer *w, const struct mt_stream_block *head, const void *payload)
{
	return mt_mtr_append_upto(w, head, payload,
				  head->kind == MT_STREAM_EVENTS ? w->limit_bytes : 0);
}

int mt_mtr_writer_truncate(struct mt_mtr_writer *w, uint64_t bytes)
{
	return ftruncate(w->fd, (off_t)bytes) ? -errno : 0;
}

static int compare_offsets(const void *a, const void *b)
{
	const struct mt_mtr_block *x = a, *y = b;

	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static uint64_t whole_bytes(const struct mt_mtr_block *b)
{
	return sizeof(b->head) + b->head.stored_bytes;
}

/* Puts the blocks in the order of the file; the number of the first that stays. */
static size_t choose_first(struct mt_mtr *m, uint64_t most_bytes)
{
	uint64_t sum = 0;
	size_t first = m->blocks;

	if (m->blocks)
		qsort(m->block, m->blocks, sizeof(*m->block), compare_offsets);
	while (first && sum + whole_bytes(&m->block[first - 1]) <= most_bytes)
		sum += whole_bytes(&m->block[--first]);
	return first;
}

static int copy_block(const struct mt_mtr *m, const struct mt_mtr_block *b, uint8_t *buf, int to)
{
	uint64_t from = b->offset - sizeof(b->head), len = whole_bytes(b);

	while (len) {
		size_t part = (size_t)MT_MIN(len, (uint64_t)MT_STREAM_BUFFER_BYTES);
		ssize_t n = mt_file_pread(m->fd, buf, part, from);
		int r = n == (ssize_t)part ? mt_file_write(to, buf, part) : -EIO;

		if (r)
			return r;
		from += part;
		len -= part;
	}
	return 0;
}

enum { THREADS = 65536 }; /* that a state has rows for */

/*
 * A thread's buffers need not lie in the file in the order of their numbers: with one that goes,
 * earlier ones go, too, or a gap would stay. By thread the number of the first that stays; heap.
 */
static uint64_t *first_numbers(const struct mt_mtr *m, size_t first)
{
	uint64_t *number = mt_alloc_zero(THREADS, sizeof(*number));

	for (size_t i = 0; number && i < first; i++) {
		const struct mt_stream_block *h = &m->block[i].head;
		uint64_t *of = &number[h->thread % THREADS];

		if (h->kind == MT_STREAM_EVENTS)
			*of = MT_MAX(*of, (uint64_t)h->number + 1);
	}
	return number;
}

static int write_rest(const struct mt_mtr *m, size_t first, int to)
{
	struct mt_stream_header h = m->header;
	mt_auto(free) uint64_t *number = first_numbers(m, first);
	mt_auto(free) uint8_t *buf = mt_alloc(MT_STREAM_BUFFER_BYTES);
	int r = buf && number ? 0 : -ENOMEM;

	h.header_bytes = sizeof(h);
	for (size_t i = 0; i < m->blocks && !r; i++) {
		struct mt_mtr_block *b = &m->block[i];

		if (i >= first && b->head.kind == MT_STREAM_EVENTS &&
		    b->head.number >= number[b->head.thread % THREADS])
			continue;
		h.cut_blocks += b->head.kind == MT_STREAM_EVENTS;
		h.cut_bytes += whole_bytes(b);
		b->head.kind = 0; /* goes */
	}
	if (!r)
		r = mt_file_write(to, &h, sizeof(h));
	for (size_t i = first; i < m->blocks && !r; i++)
		if (m->block[i].head.kind == MT_STREAM_EVENTS)
			r = copy_block(m, &m->block[i], buf, to);
	return r;
}

int mt_mtr_cut(const char *path, uint64_t most_bytes, struct mt_err *err)
{
	mt_auto(mt_mtr) struct mt_mtr m = {.fd = -1};
	mt_auto(mt_atomic_file) struct mt_atomic_file out = {.fd = -1};
	int r = mt_mtr_open(&m, path, err);

	if (r)
		return r;
	r = mt_atomic_file_open(&out, path, 0600, err);
	if (r)
		return r;
	r = write_rest(&m, choose_first(&m, most_bytes), out.fd);
	if (r)
		return mt_err_set_errno(err, r, "cannot write '%s'", path);
	return mt_atomic_file_commit(&out, err);
}
