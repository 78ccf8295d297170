/* SPDX-License-Identifier: MIT */
/*
 * Compaction. Tables that others name by number keep every element; the two block tables are named
 * by nobody and lose their free slots. Regions follow each other in the order of the file's table.
 */
#include "formats/mtk_write.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "formats/mtk_read.h"
#include "formats/mtk_source.h"

enum { ALIGN = MT_MTK_ALIGN, PACK_BYTES = 64 << 10 };

struct writer {
	int fd;
	uint32_t elem_bytes;
	uint64_t offset; /* of the region's element 0 in the new file */
	uint64_t count;  /* elements in the new region so far */
	uint8_t *pack;   /* block tables only: elements not written yet, owned */
	size_t packed;   /* bytes in it */
};

static int copy_run(void *user, const void *elems, uint64_t first, uint64_t count)
{
	struct writer *w = user;
	return mt_file_pwrite(w->fd, elems, count * w->elem_bytes,
			      w->offset + first * w->elem_bytes);
}

static int flush(struct writer *w)
{
	uint64_t at = w->offset + w->count * w->elem_bytes - w->packed;
	int r = mt_file_pwrite(w->fd, w->pack, w->packed, at);
	w->packed = 0;
	return r;
}

/* Both kinds of block begin with the address. */
static int pack_run(void *user, const void *elems, uint64_t first, uint64_t count)
{
	struct writer *w = user;
	for (uint64_t i = 0; i < count; i++) {
		const uint8_t *elem = (const uint8_t *)elems + i * w->elem_bytes;
		uint64_t place;
		memcpy(&place, elem, sizeof(place));
		if (!place || !(first + i))
			continue;
		if (w->packed + w->elem_bytes > PACK_BYTES) {
			int r = flush(w);
			if (r)
				return r;
		}
		memcpy(w->pack + w->packed, elem, w->elem_bytes);
		w->packed += w->elem_bytes;
		w->count++;
	}
	return 0;
}

/* Writes a region at w->offset; w->count becomes its number of elements. */
static int write_region(const struct mt_mtk_source *s, const struct mt_mtk_region *r,
			struct writer *w)
{
	w->elem_bytes = r->elem_bytes;
	w->count = 0;
	if (r->kind == MT_REGION_STREAM) /* its content is in the recording: record/recording.c */
		return 0;
	if (r->kind != MT_REGION_LIVE && r->kind != MT_REGION_LARGE) {
		w->count = r->count;
		return mt_mtk_source_walk(s, r, copy_run, w);
	}
	mt_auto(free) uint8_t *pack = mt_alloc(PACK_BYTES);
	if (!pack)
		return -ENOMEM;
	w->pack = pack;
	w->packed = 0;
	w->count = r->count ? 1 : 0; /* element 0 stays unused */
	int result = mt_mtk_source_walk(s, r, pack_run, w);
	return result ? result : flush(w);
}

static int refuse_damaged(const struct mt_mtk_source *s, struct mt_err *err)
{
	for (uint32_t i = 0; i < s->region_count; i++)
		if (s->region[i].fault)
			return mt_err_set_at(
				err, -EBADMSG,
				offsetof(struct mt_state_header, region) +
					i * sizeof(struct mt_state_region),
				"'%s' cannot be compacted: its table of %s is damaged; "
				"keep the file as it is",
				s->name, mt_mtk_kind_name(s->region[i].kind));
	return 0;
}

static void finish_header(struct mt_state_header *h, const struct mt_mtk_finish *finish)
{
	h->grow_lock = 0;
	h->exec_pending = 0;
	if (!finish)
		return;
	if (finish->end_kind != MT_END_RUNNING) {
		h->end_kind = finish->end_kind;
		h->end_code = finish->end_code;
	}
	if (finish->tick_mark) {
		h->tick_mark = finish->tick_mark;
		h->mono_mark_ns = finish->mono_mark_ns;
	}
}

/* Everything into fd, the header last. */
static int write_all(const struct mt_mtk_source *s, int fd, const struct mt_mtk_finish *finish)
{
	struct mt_state_header h = s->header;
	struct writer w = {.fd = fd};
	uint64_t end = MT_STATE_HEADER_BYTES;
	for (uint32_t i = 0; i < s->region_count; i++) {
		w.offset = MT_ALIGN_UP(end, (uint64_t)ALIGN);
		int r = write_region(s, &s->region[i], &w);
		if (r)
			return r;
		h.region[i] = (struct mt_state_region){
			.kind = s->region[i].kind,
			.elem_bytes = s->region[i].elem_bytes,
			.offset = w.offset,
			.capacity = w.count,
			.used = w.count,
			.committed_bytes = w.count * w.elem_bytes,
			.refused = s->region[i].refused,
		};
		end = w.offset + w.count * w.elem_bytes;
	}
	/* what stands behind the table's end is of no use */
	memset(&h.region[s->region_count], 0,
	       sizeof(h.region) - s->region_count * sizeof(h.region[0]));
	finish_header(&h, finish);
	if (ftruncate(fd, (off_t)end)) /* holes at the end count too */
		return -errno;
	return mt_file_pwrite(fd, &h, sizeof(h), 0);
}

int mt_mtk_compact(const char *from, const char *to, const struct mt_mtk_finish *finish,
		   struct mt_err *err)
{
	struct mt_mtk_source s;
	mt_auto(mt_atomic_file) struct mt_atomic_file out = {.fd = -1};
	mt_auto(close) int in = mt_mtk_open(from, err);
	if (in < 0)
		return in;
	int r = mt_mtk_source_fd(&s, in, from, err);
	if (!r)
		r = refuse_damaged(&s, err);
	if (!r)
		r = mt_atomic_file_open(&out, to, 0600, err);
	if (r)
		return r;
	r = write_all(&s, out.fd, finish);
	if (r == -ENODATA)
		return mt_err_set(err, -EBADMSG, "'%s' became shorter while it was read", from);
	if (r)
		return mt_err_set_errno(err, r, "cannot write '%s'", to);
	return mt_atomic_file_commit(&out, err);
}

int mt_mtk_note_end(const char *path, const struct mt_mtk_finish *finish)
{
	mt_auto(close) int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct mt_state_header h;
	int code = fd < 0 ? -errno : mt_mtk_read_header_fd(fd, path, &h, NULL);

	if (code || h.end_kind != MT_END_RUNNING)
		return code;
	finish_header(&h, finish);
	return mt_file_pwrite(fd, &h, offsetof(struct mt_state_header, region), 0);
}
