/* SPDX-License-Identifier: MIT */
#ifndef MT_FORMATS_MTS_H
#define MT_FORMATS_MTS_H

/* The layout of a series of snapshots, docs/formats/mts.md, and its frames' encoding. */

#include "base/buf.h"
#include "model/series.h"

#define MT_MTS_MAGIC "MTSERIES" /* 8 bytes, no NUL in the file */
enum {
	MT_MTS_VERSION_MAJOR = 2, /* 1: without samples; read, too */
	MT_MTS_VERSION_MINOR = 0,
	MT_MTS_BYTE_ORDER = 0x01020304,
	MT_MTS_HEADER_BYTES = 128,
	MT_MTS_FRAME_MAGIC = 0x50414e53,
	MT_MTS_FRAME_FIXED = 160,
	MT_MTS_FRAME_MAX = 1 << 28,
	MT_MTS_RATIO_MAX = 256,  /* raw bytes a byte of the frame */
	MT_MTS_SITES_RATIO = 64, /* new sites a byte of the frame */
	MT_MTS_SITES_MAX = 1 << 22,
	MT_MTS_LIMIT_BYTES = 64 << 20, /* unless chosen otherwise */
};

enum mt_mts_flags {
	MT_MTS_KEY = 1,      /* the body does not refer to the frame before */
	MT_MTS_USABLE = 2,   /* totals are in usable bytes */
	MT_MTS_SAMPLES = 4,  /* what sites have of samples is known */
	MT_MTS_COLUMNS = 8,  /* it changed: the body has columns for it */
	MT_MTS_COUNTED = 16, /* taken in statistics mode */
};

struct mt_mts_header {
	uint8_t magic[8];
	uint16_t version_major, version_minor;
	uint32_t byte_order;
	uint32_t header_bytes;
	int32_t pid;
	uint8_t boot_id[16];
	uint64_t proc_start, mono_start_ns, wall_start_ns;
	uint64_t limit_bytes;
	uint64_t lost, thinned;
	uint8_t reserved[40];
};
_Static_assert(sizeof(struct mt_mts_header) == MT_MTS_HEADER_BYTES, "header");
_Static_assert(offsetof(struct mt_mts_header, boot_id) == 24, "boot_id");
_Static_assert(offsetof(struct mt_mts_header, lost) == 72, "lost");

struct mt_mts_frame {
	uint32_t magic, frame_bytes;
	uint64_t hash;
	uint32_t number, reason, flags, sites;
	uint64_t time_ns, wall_ns;
	uint64_t live_bytes, live_count, allocs, frees, alloc_bytes, freed_bytes;
	uint64_t rss_bytes, pss_bytes, anon_bytes, swap_bytes;
	uint32_t body_bytes, raw_bytes;
	uint8_t reserved[24];
};
_Static_assert(sizeof(struct mt_mts_frame) == MT_MTS_FRAME_FIXED, "frame");
_Static_assert(offsetof(struct mt_mts_frame, time_ns) == 32, "time");
_Static_assert(offsetof(struct mt_mts_frame, body_bytes) == 128, "body");

/* Values of all sites at one moment; all-zero is valid: every value is 0. */
struct mt_mts_table {
	struct mt_series_site *site; /* owned */
	uint32_t count;
	size_t capacity;
	/* of the first sampled_count sites; the others have nothing sampled. Owned */
	struct mt_series_sampled *sampled;
	uint32_t sampled_count;
	size_t sampled_capacity;
	bool knows_samples; /* false: whether they have is not known */
};

/* NULL is allowed. */
void mt_mts_table_done(struct mt_mts_table *t);
MT_AUTO_DEFINE_INPLACE(mt_mts_table, struct mt_mts_table, mt_mts_table_done)

/* At least `count` sites, new ones zero. 0 or -ENOMEM; -E2BIG beyond MT_MTS_SITES_MAX. */
int mt_mts_table_grow(struct mt_mts_table *t, uint32_t count);

/* Room for samples of all sites, new ones zero. 0 or -ENOMEM. */
int mt_mts_table_grow_sampled(struct mt_mts_table *t);

/* What the site has of samples, all-zero for nothing. t may be NULL. */
struct mt_series_sampled mt_mts_table_sampled(const struct mt_mts_table *t, uint32_t site);

/*
 * Chooses the units of t's variances, for a frame behind that of `before` (NULL: none): as in that
 * one where that serves, else a hundredth of what one sample brings.
 */
void mt_mts_table_choose_units(struct mt_mts_table *t, const struct mt_mts_table *before);

/* Copies; 0 or -ENOMEM. */
int mt_mts_table_copy(struct mt_mts_table *to, const struct mt_mts_table *from);

/*
 * Appends the frame of a point to out: before is the table of the frame in front of it, NULL for
 * none. 0, -ENOMEM, or -EFBIG for what no frame can hold.
 */
int mt_mts_encode(const struct mt_series_point *point, const struct mt_mts_table *before,
		  const struct mt_mts_table *now, struct mt_buf *out);

/*
 * The frame at the begin of data: its fixed part, checked (hash included), in *ret_frame. The
 * frame's length, or -EBADMSG when there is no whole, good frame.
 */
int64_t mt_mts_frame(const uint8_t *data, size_t len, struct mt_mts_frame *ret_frame);

/* The totals of a frame. */
struct mt_series_point mt_mts_point(const struct mt_mts_frame *f);

/*
 * Changes the table of the frame before into that of this one. 0, -ENOMEM, or -EBADMSG (then the
 * table is not to be used).
 */
int mt_mts_decode(const struct mt_mts_frame *f, const uint8_t *body, struct mt_mts_table *table);

#endif
