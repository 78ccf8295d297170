/* SPDX-License-Identifier: MIT */
#ifndef MT_FORMATS_HEAPDUMP_LINE_H
#define MT_FORMATS_HEAPDUMP_LINE_H

/*
 * Lines of an Android Native Heap Dump (docs/formats/heapdump.md), versions 1.0 to 1.2, one by one.
 * Pure: a line is NUL-terminated text without its newline; results point into it.
 */

#include <stdbool.h>
#include <stdint.h>

enum mt_heapdump_kind {
	MT_HEAPDUMP_OTHER, /* none of the others: garbage */
	MT_HEAPDUMP_BLANK,
	MT_HEAPDUMP_VERSION, /* number: 10 for v1.0, 12 for v1.2 */
	MT_HEAPDUMP_FINGERPRINT,
	MT_HEAPDUMP_TOTAL,   /* number: bytes */
	MT_HEAPDUMP_RECORDS, /* number */
	MT_HEAPDUMP_DEPTH,   /* "Backtrace size", number: frames */
	MT_HEAPDUMP_RECORD,
	MT_HEAPDUMP_INFO,
	MT_HEAPDUMP_MODULE, /* ours: what the map line does not tell */
	MT_HEAPDUMP_MAPS,
	MT_HEAPDUMP_MAP,
	MT_HEAPDUMP_END,
};

/* Values of other kinds than the line's are 0 or NULL. */
struct mt_heapdump_line {
	enum mt_heapdump_kind kind;
	uint64_t number;
	bool is_app; /* RECORD: z 1, allocated by a child of the zygote */
	uint64_t size, num;
	const char *rest;              /* RECORD, INFO: for mt_heapdump_next_frame(), _info() */
	uint64_t lo, hi, offset, bias; /* MAP: offset; MODULE: bias */
	const char *id;                /* MODULE: hexadecimal digits, id_len of them */
	uint32_t id_len;
	const char *path; /* MAP: "" when nothing stands behind the inode; MODULE */
};

/* Tells what a line is. Never fails. */
void mt_heapdump_parse(const char *text, struct mt_heapdump_line *ret_line);

/* The next frame of a record, innermost first; false at the end: a frame of 0, or of the line. */
bool mt_heapdump_next_frame(const char **rest, uint64_t *ret_address);

/* One frame of a bt_info line; texts are not NUL-terminated. */
struct mt_heapdump_info {
	const char *map, *function;
	uint32_t map_len, function_len;
	uint64_t relative, offset;
};

/*
 * The next frame of a bt_info line. Names may hold blanks, quotes and braces. False at the end or
 * where the line does not go on as it should.
 */
bool mt_heapdump_next_info(const char **rest, struct mt_heapdump_info *ret_info);

#endif
