/* SPDX-License-Identifier: MIT */
/* Finding and loading the blocks of a recording. */
#include "formats/mtr_read.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "base/alloc.h"
#include "base/file.h"

enum { SEARCH_BYTES = 65536 };

/* Copies len bytes at offset: the count, short at the end, or a negative errno value. */
static int64_t copy(const struct mt_mtr *m, void *to, size_t len, uint64_t offset)
{
	if (!m->data)
		return mt_file_pread(m->fd, to, len, offset);
	if (offset >= m->size_bytes)
		return 0;
	len = (size_t)MT_MIN((uint64_t)len, m->size_bytes - offset);
	memcpy(to, m->data + offset, len);
	return (int64_t)len;
}

static int check_header(const struct mt_mtr *m, int64_t got, struct mt_err *err)
{
	const struct mt_stream_header *h = &m->header;

	if (got < 0)
		return mt_err_set_errno(err, (int)got, "cannot read '%s'", m->name);
	if (got < (int64_t)sizeof(h->magic) || memcmp(h->magic, MT_STREAM_MAGIC, sizeof(h->magic)))
		return mt_err_set_at(err, -EBADMSG, 0, "'%s' is no recording of memtrack", m->name);
	if (got < (int64_t)sizeof(*h) || h->header_bytes < sizeof(*h))
		return mt_err_set_at(err, -EBADMSG, 0, "'%s' is cut inside its header", m->name);
	if (h->byte_order != MT_STREAM_BYTE_ORDER || h->version_major != MT_STREAM_VERSION_MAJOR)
		return mt_err_set_at(err, -EPROTONOSUPPORT, 8,
				     "'%s' is a recording of version %u.%u, or of a machine of the "
				     "other byte order; this memtrack reads version %d",
				     m->name, h->version_major, h->version_minor,
				     MT_STREAM_VERSION_MAJOR);
	return 0;
}

/* Whether this can be the head of a block. */
static bool is_head(const struct mt_stream_block *h)
{
	uint32_t most = h->kind == MT_STREAM_EVENTS ? MT_STREAM_CODE_BYTES : MT_MTR_LIVE_BYTES_MAX;

	return h->magic == MT_STREAM_BLOCK_MAGIC && h->raw_bytes <= most &&
	       h->stored_bytes <= ZSTD_COMPRESSBOUND((size_t)most) &&
	       (h->flags & MT_STREAM_ZSTD || h->stored_bytes == h->raw_bytes);
}

/* The next magic from `from` on, or the end of the file. */
static int find_magic(const struct mt_mtr *m, uint64_t from, uint64_t *ret_at)
{
	const uint32_t magic = MT_STREAM_BLOCK_MAGIC;
	mt_auto(free) uint8_t *buf = mt_alloc(SEARCH_BYTES);
	int64_t got;

	if (!buf)
		return -ENOMEM;
	while ((got = copy(m, buf, SEARCH_BYTES, from)) >= (int64_t)sizeof(magic)) {
		const uint8_t *at = memmem(buf, (size_t)got, &magic, sizeof(magic));

		if (at) {
			*ret_at = from + (uint64_t)(at - buf);
			return 0;
		}
		from += (uint64_t)got - (sizeof(magic) - 1);
	}
	*ret_at = m->size_bytes;
	return got < 0 ? (int)got : 0;
}

static int add_block(struct mt_mtr *m, const struct mt_stream_block *head, uint64_t offset)
{
	struct mt_mtr_block *grown =
		mt_alloc_grow(m->block, &m->capacity, m->blocks + 1, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	m->block = grown;
	if (head->kind == MT_STREAM_END) {
		m->has_end = true;
		m->end_lost = head->lost_events;
		m->is_limited = head->flags & MT_STREAM_LIMITED;
	} else if (head->kind == MT_STREAM_EVENTS || head->kind == MT_STREAM_LIVE) {
		m->block[m->blocks++] = (struct mt_mtr_block){.offset = offset, .head = *head};
	}
	return 0;
}

/* All blocks from `at` to the end of the file. */
static int index_blocks(struct mt_mtr *m, uint64_t at)
{
	struct mt_stream_block head;
	uint64_t next;
	int r = 0;

	while (!r && at < m->size_bytes) {
		int64_t got = copy(m, &head, sizeof(head), at);

		if (got < 0)
			return (int)got;
		if (got < (int64_t)sizeof(head)) {
			m->cut_bytes += m->size_bytes - at;
			return 0;
		}
		if (is_head(&head) && head.stored_bytes <= m->size_bytes - at - sizeof(head)) {
			r = add_block(m, &head, at + sizeof(head));
			at += sizeof(head) + head.stored_bytes;
			continue;
		}
		r = find_magic(m, at + 1, &next);
		if (!r && next == m->size_bytes && is_head(&head))
			m->cut_bytes += next - at;
		else if (!r)
			m->damaged_bytes += next - at;
		at = next;
	}
	return r;
}

static int compare_blocks(const void *a, const void *b)
{
	const struct mt_mtr_block *x = a, *y = b;

	if (x->head.kind != y->head.kind)
		return x->head.kind > y->head.kind ? -1 : 1; /* live blocks first */
	if (x->head.thread != y->head.thread)
		return x->head.thread < y->head.thread ? -1 : 1;
	if (x->head.number != y->head.number)
		return x->head.number < y->head.number ? -1 : 1;
	/* of two copies the longer one first: an open buffer may have been taken before it was
	 * full */
	if (x->head.raw_bytes != y->head.raw_bytes)
		return x->head.raw_bytes > y->head.raw_bytes ? -1 : 1;
	return x->offset < y->offset ? -1 : 1;
}

static void sort_blocks(struct mt_mtr *m)
{
	size_t kept = 0;

	if (!m->blocks)
		return;
	qsort(m->block, m->blocks, sizeof(*m->block), compare_blocks);
	for (size_t i = 1; i < m->blocks; i++) {
		const struct mt_stream_block *a = &m->block[kept].head, *b = &m->block[i].head;

		if (b->kind == MT_STREAM_EVENTS && a->kind == b->kind && a->thread == b->thread &&
		    a->number == b->number)
			m->twice++;
		else
			m->block[++kept] = m->block[i];
	}
	m->blocks = kept + 1;
}

static int open_any(struct mt_mtr *m, struct mt_err *err)
{
	int r = check_header(m, copy(m, &m->header, sizeof(m->header), 0), err);

	if (r)
		return r;
	r = index_blocks(m, m->header.header_bytes);
	if (r)
		return mt_err_set_errno(err, r, "cannot read '%s'", m->name);
	sort_blocks(m);
	return 0;
}

int mt_mtr_open_memory(struct mt_mtr *ret_m, const void *data, size_t len, const char *name,
		       struct mt_err *err)
{
	struct mt_mtr m = {.fd = -1, .data = len ? data : "", .size_bytes = len, .name = name};
	int r = open_any(&m, err);

	if (r)
		mt_mtr_close(&m);
	else
		*ret_m = m;
	return r;
}

int mt_mtr_open(struct mt_mtr *ret_m, const char *path, struct mt_err *err)
{
	struct mt_mtr m = {.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY),
			   .name = path};
	struct stat st;
	int r = 0;

	if (m.fd < 0 || fstat(m.fd, &st))
		r = mt_err_set_errno(err, errno, "cannot open '%s'", path);
	else if (!S_ISREG(st.st_mode))
		r = mt_err_set(err, -EINVAL, "'%s' is no regular file", path);
	if (!r) {
		m.size_bytes = (uint64_t)st.st_size;
		r = open_any(&m, err);
	}
	if (r)
		mt_mtr_close(&m);
	else
		*ret_m = m;
	return r;
}

void mt_mtr_close(struct mt_mtr *m)
{
	if (!m)
		return;
	if (m->fd >= 0 && !m->data)
		close(m->fd);
	free(m->block);
	*m = (struct mt_mtr){.fd = -1};
}

int mt_mtr_load(const struct mt_mtr *m, const struct mt_mtr_block *b, uint8_t **ret_payload)
{
	const struct mt_stream_block *h = &b->head;
	mt_auto(free) uint8_t *stored = mt_alloc(h->stored_bytes);
	mt_auto(free) uint8_t *raw = NULL;
	int64_t got;

	if (!stored)
		return -ENOMEM;
	got = copy(m, stored, h->stored_bytes, b->offset);
	if (got < 0)
		return (int)got;
	if (got != h->stored_bytes || mt_stream_checksum(h, stored) != h->checksum)
		return -EBADMSG;
	if (h->flags & MT_STREAM_ZSTD) {
		raw = mt_alloc(h->raw_bytes);
		if (!raw)
			return -ENOMEM;
		if (ZSTD_decompress(raw, h->raw_bytes, stored, h->stored_bytes) != h->raw_bytes)
			return -EBADMSG;
	}
	*ret_payload = raw ? raw : stored;
	if (raw)
		raw = NULL;
	else
		stored = NULL;
	return 0;
}
