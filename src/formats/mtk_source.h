/* SPDX-License-Identifier: MIT */
#ifndef MT_FORMATS_MTK_SOURCE_H
#define MT_FORMATS_MTK_SOURCE_H

/*
 * The bytes of a state file (docs/formats/mtk.md): a descriptor or a block of memory, its checked
 * header and its checked region table. Everything is copied out with bounds (never mapped: a file
 * may be cut while it is read). What is read afterwards may still hold any value: users check every
 * index. One thread.
 */

#include <stdbool.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "core/cc.h"
#include "wire/state.h"

enum {
	MT_MTK_KINDS = 32, /* region kinds below this are known by number */
	MT_MTK_ALIGN = 64, /* of regions in a finished file; 4096 while it is written */
};

/* What is wrong with a region. Its usable elements are in count all the same. */
enum mt_mtk_fault {
	MT_MTK_FAULT_NONE = 0,
	MT_MTK_FAULT_ELEMENT, /* element size smaller than this version's or unreasonable */
	MT_MTK_FAULT_OFFSET,  /* not a multiple of MT_MTK_ALIGN, or inside the header */
	MT_MTK_FAULT_CUT,     /* the file ends before the region does */
	MT_MTK_FAULT_EMPTY,   /* far more elements than storage: a damaged count */
	MT_MTK_FAULT_TWICE,   /* the kind stands in the table again: this one is not used */
};

struct mt_mtk_region {
	uint32_t kind;       /* 0: not in the file */
	uint32_t elem_bytes; /* distance of elements; may be more than this version's struct */
	uint64_t offset;
	uint64_t count; /* elements that can be read */
	uint64_t used;  /* elements that the header claims: min(used, capacity) */
	uint64_t refused;
	enum mt_mtk_fault fault;
};

struct mt_mtk_source {
	int fd;              /* -1: memory; borrowed */
	const uint8_t *data; /* borrowed; NULL: descriptor */
	uint64_t size_bytes;
	const char *name; /* for messages; borrowed */
	struct mt_state_header header;
	struct mt_mtk_region region[MT_STATE_REGIONS_MAX]; /* in the order of the file's table */
	uint32_t region_count;
	uint8_t of_kind[MT_MTK_KINDS]; /* index into region + 1, 0: none */
};

/*
 * Reads and checks header and region table. 0 or a negative errno value with *err: -EISDIR and
 * -EINVAL for things that are no regular file, -ENODATA for an empty one or one not yet begun,
 * -EBADMSG for what is no state file or cut inside the header, -EPROTONOSUPPORT for other versions,
 * byte orders and pointer sizes, else that of the failed read.
 */
int mt_mtk_source_fd(struct mt_mtk_source *ret_s, int fd, const char *name, struct mt_err *err);
int mt_mtk_source_memory(struct mt_mtk_source *ret_s, const void *data, size_t len,
			 const char *name, struct mt_err *err);

/* Opens a state file for reading, never waiting for a pipe's writer. The descriptor or negative
 * errno. */
int mt_mtk_open(const char *path, struct mt_err *err);

/* Reads a header again, as a whole; 0 or negative errno. */
int mt_mtk_source_header(const struct mt_mtk_source *s, struct mt_state_header *ret_h);

/* Takes a region's counts anew from the file (they rise while the process runs). */
void mt_mtk_source_refresh(struct mt_mtk_source *s, uint32_t kind);

/* The region of a kind, or an empty one. Never NULL; borrowed. */
const struct mt_mtk_region *mt_mtk_source_region(const struct mt_mtk_source *s, uint32_t kind);

/* Copies up to len bytes at offset; the count (short at the end of the file) or negative errno. */
int64_t mt_mtk_source_copy(const struct mt_mtk_source *s, void *to, size_t len, uint64_t offset);

/*
 * Called with a run of elements: `count` of them from number `first`, elem_bytes apart. 0 goes on,
 * anything else ends the walk with that result.
 */
typedef int mt_mtk_visit(void *user, const void *elems, uint64_t first, uint64_t count);

/*
 * Visits a region's elements in order, leaving out those that lie in holes of a sparse file (they
 * are zero). 0, -ENOMEM, a negative errno of a read, -ENODATA when the file ended early (then what
 * was there has been visited), or the visitor's result.
 */
int mt_mtk_source_walk(const struct mt_mtk_source *s, const struct mt_mtk_region *r,
		       mt_mtk_visit *visit, void *user);

/* This version's size of one element of a kind; 1 for strings, 0 for unknown kinds. */
uint32_t mt_mtk_elem_bytes(uint32_t kind);

/* A kind's name for messages: "sites", "threads" ...; "unknown" else. */
const char *mt_mtk_kind_name(uint32_t kind);

#endif
