/* SPDX-License-Identifier: MIT */
/*
 * Bounds of a state file. Invariant after the header was read: for each region offset + count *
 * elem_bytes <= size_bytes, and count * elem_bytes is within a constant factor of what the file
 * really stores there, so that a damaged count cannot make a reader take memory or time.
 */
#include "formats/mtk_source.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "wire/stream.h"

enum {
	ELEM_BYTES_MAX = 65536,
	CHUNK_BYTES = 1 << 20,
	HOLES_FREE_BYTES = 4 << 20, /* holes that a table may always have */
	HOLES_FACTOR = 16,          /* more: by what it stores */
	HEADER_TRIES = 4,
};

static const struct {
	const char *name;
	uint32_t elem_bytes;
} kinds[] = {
	[MT_REGION_STRINGS] = {"strings", 1},
	[MT_REGION_MODULES] = {"modules", sizeof(struct mt_state_module)},
	[MT_REGION_THREADS] = {"threads", sizeof(struct mt_state_thread)},
	[MT_REGION_NODES] = {"stack frames", sizeof(struct mt_state_node)},
	[MT_REGION_SITES] = {"sites", sizeof(struct mt_state_site)},
	[MT_REGION_CELLS] = {"counters", sizeof(struct mt_state_cell)},
	[MT_REGION_HISTS] = {"size histograms", sizeof(struct mt_state_hist)},
	[MT_REGION_LIVE] = {"live blocks", sizeof(struct mt_state_live)},
	[MT_REGION_LARGE] = {"large blocks", sizeof(struct mt_state_large)},
	[MT_REGION_HEAPS] = {"heaps", sizeof(struct mt_state_heap)},
	[MT_REGION_LABELS] = {"labels", sizeof(struct mt_state_label)},
	[MT_REGION_STATS] = {"statistics", sizeof(struct mt_state_stats)},
	[MT_REGION_BIG] = {"big blocks", sizeof(struct mt_state_big)},
	[MT_REGION_REGIMES] = {"sampling regimes", sizeof(struct mt_state_regime)},
	[MT_REGION_SAMPLED] = {"estimates", sizeof(struct mt_state_sampled)},
	[MT_REGION_CHANGES] = {"changes", sizeof(struct mt_state_change)},
	[MT_REGION_REQUEST] = {"requests", 1},
	[MT_REGION_STREAM] = {"event buffers", sizeof(struct mt_stream_buffer)},
	[MT_REGION_ERRORS] = {"memory errors", sizeof(struct mt_state_error)},
	[MT_REGION_DAMAGE] = {"damaged bytes", sizeof(struct mt_state_damage)},
	[MT_REGION_UNREACHED] = {"lost blocks", sizeof(struct mt_state_unreached)},
};

uint32_t mt_mtk_elem_bytes(uint32_t kind)
{
	return kind < MT_ARRAY_LEN(kinds) ? kinds[kind].elem_bytes : 0;
}

const char *mt_mtk_kind_name(uint32_t kind)
{
	const char *name = kind < MT_ARRAY_LEN(kinds) ? kinds[kind].name : NULL;
	return name ? name : "unknown";
}

int64_t mt_mtk_source_copy(const struct mt_mtk_source *s, void *to, size_t len, uint64_t offset)
{
	if (offset >= s->size_bytes)
		return 0;
	if (len > s->size_bytes - offset)
		len = (size_t)(s->size_bytes - offset);
	if (!s->data)
		return mt_file_pread(s->fd, to, len, offset);
	memcpy(to, s->data + offset, len);
	return (int64_t)len;
}

/*
 * The next stretch at or after pos that is stored (not a hole), within [pos, end). False: none.
 * Memory and file systems that do not tell are all stored.
 */
static bool next_stored(const struct mt_mtk_source *s, uint64_t pos, uint64_t end,
			uint64_t *ret_from, uint64_t *ret_to)
{
	if (pos >= end)
		return false;
	*ret_from = pos;
	*ret_to = end;
	if (s->data)
		return true;
	off_t from = lseek(s->fd, (off_t)pos, SEEK_DATA);
	if (from < 0)
		return errno != ENXIO;
	if ((uint64_t)from >= end)
		return false;
	off_t to = lseek(s->fd, from, SEEK_HOLE);
	*ret_from = (uint64_t)from;
	if (to > from && (uint64_t)to < end)
		*ret_to = (uint64_t)to;
	return true;
}

static uint64_t stored_bytes(const struct mt_mtk_source *s, uint64_t pos, uint64_t end)
{
	uint64_t from, to, sum = 0;
	for (; next_stored(s, pos, end, &from, &to); pos = to)
		sum += to - from;
	return sum;
}

/* Fills r from a row of the region table. */
static void check_region(const struct mt_mtk_source *s, const struct mt_state_region *row,
			 struct mt_mtk_region *r)
{
	uint32_t known = mt_mtk_elem_bytes(row->kind);
	*r = (struct mt_mtk_region){
		.kind = row->kind,
		.elem_bytes = row->elem_bytes,
		.offset = row->offset,
		.used = MT_MIN(row->used, row->capacity),
		.refused = row->refused,
	};
	if (!row->elem_bytes || row->elem_bytes < known || row->elem_bytes > ELEM_BYTES_MAX ||
	    (known == 1 && row->elem_bytes != 1)) {
		r->fault = MT_MTK_FAULT_ELEMENT;
		return;
	}
	if (row->offset % MT_MTK_ALIGN || row->offset < MT_STATE_HEADER_BYTES) {
		r->fault = MT_MTK_FAULT_OFFSET;
		return;
	}
	/* the writer hands elements out before it has storage for them; those were never written */
	uint64_t count = MT_MIN(r->used, row->committed_bytes / row->elem_bytes);
	uint64_t room = s->size_bytes > row->offset ? s->size_bytes - row->offset : 0;
	if (count > room / row->elem_bytes) {
		count = room / row->elem_bytes;
		r->fault = MT_MTK_FAULT_CUT;
	}
	r->count = count;
	if (row->kind == MT_REGION_LIVE || row->kind == MT_REGION_LARGE)
		return; /* walked, not indexed: holes cost nothing */
	if (row->kind == MT_REGION_SAMPLED || row->kind == MT_REGION_STATS)
		return; /* holes are common, and no more is read than the table beside it has */
	uint64_t bytes = count * row->elem_bytes;
	if (s->data || bytes <= HOLES_FREE_BYTES)
		return;
	uint64_t stored = stored_bytes(s, row->offset, row->offset + bytes);
	if (bytes / HOLES_FACTOR > stored + HOLES_FREE_BYTES / HOLES_FACTOR) {
		r->count = (stored * HOLES_FACTOR + HOLES_FREE_BYTES) / row->elem_bytes;
		r->fault = MT_MTK_FAULT_EMPTY;
	}
}

static void check_regions(struct mt_mtk_source *s)
{
	for (uint32_t i = 0; i < MT_STATE_REGIONS_MAX; i++) {
		const struct mt_state_region *row = &s->header.region[i];
		if (!row->kind)
			break;
		struct mt_mtk_region *r = &s->region[i];
		s->region_count = i + 1;
		check_region(s, row, r);
		if (row->kind >= MT_MTK_KINDS)
			continue;
		if (s->of_kind[row->kind]) {
			r->fault = MT_MTK_FAULT_TWICE;
			r->count = 0;
		} else {
			s->of_kind[row->kind] = (uint8_t)(i + 1);
		}
	}
}

/* Words that the writer changes together: equal in two readings, they belong together. */
static bool same_moment(const struct mt_state_header *a, const struct mt_state_header *b)
{
	return a->peak_epoch == b->peak_epoch && a->peak_bytes == b->peak_bytes &&
	       a->peak_unit == b->peak_unit && a->tick_mark == b->tick_mark &&
	       a->mono_mark_ns == b->mono_mark_ns && a->end_kind == b->end_kind;
}

int mt_mtk_source_header(const struct mt_mtk_source *s, struct mt_state_header *ret_h)
{
	struct mt_state_header h, before = {.pid = 0};
	for (int i = 0; i < HEADER_TRIES; i++) {
		int64_t n = mt_mtk_source_copy(s, &h, sizeof(h), 0);
		if (n < 0)
			return (int)n;
		if (n < (int64_t)sizeof(h))
			return -EBADMSG;
		if (i && same_moment(&h, &before))
			break;
		before = h;
	}
	*ret_h = h;
	return 0;
}

void mt_mtk_source_refresh(struct mt_mtk_source *s, uint32_t kind)
{
	struct mt_state_region row;
	struct stat st;
	uint32_t i = kind < MT_MTK_KINDS ? s->of_kind[kind] : 0;
	if (!i || s->data)
		return;
	if (!fstat(s->fd, &st) && st.st_size >= 0)
		s->size_bytes = (uint64_t)st.st_size;
	uint64_t at = offsetof(struct mt_state_header, region) + (i - 1) * sizeof(row);
	if (mt_mtk_source_copy(s, &row, sizeof(row), at) != sizeof(row))
		return;
	const struct mt_mtk_region *r = &s->region[i - 1];
	if (row.kind == r->kind && row.offset == r->offset && row.elem_bytes == r->elem_bytes)
		check_region(s, &row, &s->region[i - 1]);
}

const struct mt_mtk_region *mt_mtk_source_region(const struct mt_mtk_source *s, uint32_t kind)
{
	static const struct mt_mtk_region none = {.elem_bytes = 1};
	uint32_t i = kind < MT_MTK_KINDS ? s->of_kind[kind] : 0;
	return i ? &s->region[i - 1] : &none;
}

static int refuse_magic(const struct mt_mtk_source *s, const uint8_t *magic, size_t len,
			struct mt_err *err)
{
	static const uint8_t zeros[8];
	char text[9] = "";
	if (len == 8 && !memcmp(magic, zeros, 8))
		return mt_err_set_at(
			err, -ENODATA, 0,
			"'%s' holds nothing: the process ended before its tracker was ready, "
			"or was not tracked",
			s->name);
	for (size_t i = 0; i < len; i++)
		text[i] = magic[i] < 127 && isprint(magic[i]) ? (char)magic[i] : '.';
	return mt_err_set_at(err, -EBADMSG, 0,
			     "'%s' is not a memtrack state file: it begins with '%s', not '%s'",
			     s->name, text, MT_STATE_MAGIC);
}

static int refuse_foreign(const struct mt_mtk_source *s, const struct mt_state_header *h,
			  struct mt_err *err)
{
	if (h->byte_order == __builtin_bswap32(MT_STATE_BYTE_ORDER))
		return mt_err_set_at(
			err, -EPROTONOSUPPORT, offsetof(struct mt_state_header, byte_order),
			"'%s' was written on a machine with the other byte order; read it there",
			s->name);
	if (h->byte_order != MT_STATE_BYTE_ORDER)
		return mt_err_set_at(err, -EBADMSG, offsetof(struct mt_state_header, byte_order),
				     "'%s' is damaged: its byte order mark is 0x%08x, not 0x%08x",
				     s->name, h->byte_order, MT_STATE_BYTE_ORDER);
	if (h->version_major != MT_STATE_VERSION_MAJOR)
		return mt_err_set_at(
			err, -EPROTONOSUPPORT, offsetof(struct mt_state_header, version_major),
			"'%s' has state file version %u.%u, this program reads version %d; "
			"use the memtrack that wrote it%s",
			s->name, h->version_major, h->version_minor, MT_STATE_VERSION_MAJOR,
			h->version_major > MT_STATE_VERSION_MAJOR ? " or a newer one" : "");
	if (h->header_bytes != MT_STATE_HEADER_BYTES)
		return mt_err_set_at(err, -EBADMSG, offsetof(struct mt_state_header, header_bytes),
				     "'%s' is damaged: its header claims %u bytes, not %d", s->name,
				     h->header_bytes, MT_STATE_HEADER_BYTES);
	if (h->pointer_bytes != 8)
		return mt_err_set_at(
			err, -EPROTONOSUPPORT, offsetof(struct mt_state_header, pointer_bytes),
			"'%s' is of a process with %u-bit addresses, this program reads 64-bit "
			"ones",
			s->name, h->pointer_bytes * 8u);
	return 0;
}

static int load(struct mt_mtk_source *s, struct mt_err *err)
{
	uint8_t magic[8];
	if (!s->size_bytes)
		return mt_err_set_at(
			err, -ENODATA, 0,
			"'%s' is empty: the process ended before its tracker was ready, or "
			"was not tracked",
			s->name);
	int64_t n = mt_mtk_source_copy(s, magic, sizeof(magic), 0);
	if (n < 0)
		return mt_err_set_errno(err, (int)n, "cannot read '%s'", s->name);
	if (memcmp(magic, MT_STATE_MAGIC, (size_t)n) || n < (int64_t)sizeof(magic))
		return refuse_magic(s, magic, (size_t)n, err);
	int r = mt_mtk_source_header(s, &s->header);
	if (r == -EBADMSG)
		return mt_err_set_at(
			err, r, s->size_bytes,
			"'%s' is cut: it ends after %llu of the %d bytes of its header", s->name,
			(unsigned long long)s->size_bytes, MT_STATE_HEADER_BYTES);
	if (r)
		return mt_err_set_errno(err, r, "cannot read '%s'", s->name);
	r = refuse_foreign(s, &s->header, err);
	if (r)
		return r;
	check_regions(s);
	return 0;
}

int mt_mtk_source_fd(struct mt_mtk_source *ret_s, int fd, const char *name, struct mt_err *err)
{
	struct stat st;
	*ret_s = (struct mt_mtk_source){.fd = fd, .name = name};
	if (fstat(fd, &st))
		return mt_err_set_errno(err, errno, "cannot read '%s'", name);
	if (S_ISDIR(st.st_mode))
		return mt_err_set(err, -EISDIR,
				  "'%s' is a directory, not a state file; name a file in it", name);
	if (!S_ISREG(st.st_mode))
		return mt_err_set(err, -EINVAL, "'%s' is not a regular file", name);
	ret_s->size_bytes = (uint64_t)st.st_size;
	return load(ret_s, err);
}

int mt_mtk_source_memory(struct mt_mtk_source *ret_s, const void *data, size_t len,
			 const char *name, struct mt_err *err)
{
	static const uint8_t nothing[1];
	*ret_s = (struct mt_mtk_source){.fd = -1, .name = name, .size_bytes = len};
	ret_s->data = len ? data : nothing;
	return load(ret_s, err);
}

int mt_mtk_open(const char *path, struct mt_err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return mt_err_set_errno(err, errno, "cannot open '%s'", path);
	return fd;
}

/* Visits the elements that [from, to) touches, from number `first` on; *ret_next: the one after. */
static int walk_stretch(const struct mt_mtk_source *s, const struct mt_mtk_region *r,
			uint8_t *chunk, uint64_t first, uint64_t end, mt_mtk_visit *visit,
			void *user)
{
	uint64_t per_chunk = CHUNK_BYTES / r->elem_bytes;
	while (first < end) {
		uint64_t want = MT_MIN(per_chunk, end - first);
		int64_t n = mt_mtk_source_copy(s, chunk, (size_t)(want * r->elem_bytes),
					       r->offset + first * r->elem_bytes);
		if (n < 0)
			return (int)n;
		uint64_t got = (uint64_t)n / r->elem_bytes;
		int result = got ? visit(user, chunk, first, got) : 0;
		if (result)
			return result;
		if (got < want)
			return -ENODATA;
		first += got;
	}
	return 0;
}

int mt_mtk_source_walk(const struct mt_mtk_source *s, const struct mt_mtk_region *r,
		       mt_mtk_visit *visit, void *user)
{
	uint64_t end = r->offset + r->count * r->elem_bytes, pos = r->offset, from, to;
	uint64_t next = 0; /* elements before this one are done */
	if (!r->count)
		return 0;
	mt_auto(free) uint8_t *chunk = mt_alloc(MT_MIN((uint64_t)CHUNK_BYTES, end - pos));
	if (!chunk)
		return -ENOMEM;
	for (; next_stored(s, pos, end, &from, &to); pos = to) {
		uint64_t first = MT_MAX(next, (from - r->offset) / r->elem_bytes);
		next = MT_MIN(r->count, (to - r->offset + r->elem_bytes - 1) / r->elem_bytes);
		int result = walk_stretch(s, r, chunk, first, next, visit, user);
		if (result)
			return result;
	}
	return 0;
}
