/* SPDX-License-Identifier: MIT */
/*
 * The grammar of a line, and the sentences of Android's reader (memory_replay) for what is wrong.
 * Numbers are read as its sscanf() does: blanks before them, then digits, then anything.
 */
#include "formats/record_allocs_line.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 128 };

static const char *const names[MT_RECORD_ALLOCS_KINDS] = {"malloc",  "calloc", "memalign",
							  "realloc", "free",   "thread_done"};

const char *mt_record_allocs_kind_name(enum mt_record_allocs_kind kind)
{
	return names[kind];
}

static void skip_blanks(const char **at)
{
	while (isspace((unsigned char)**at))
		++*at;
}

/* The next number; false: there is none. It stands at *at afterwards. */
static bool read_number(const char **at, int base, uint64_t *ret_value)
{
	char *end;

	skip_blanks(at);
	if (**at == '-' || **at == '+')
		return false;
	errno = 0;
	*ret_value = strtoull(*at, &end, base);
	if (end == *at || errno == ERANGE)
		return false;
	*at = end;
	return true;
}

static bool read_tid(const char **at, int64_t *ret_tid)
{
	char *end;

	skip_blanks(at);
	errno = 0;
	*ret_tid = strtoll(*at, &end, 10);
	if (end == *at || errno == ERANGE || *end != ':')
		return false;
	*at = end + 1;
	return true;
}

/* A word; false: there is none, or it is too long. */
static bool read_name(const char **at, char *name)
{
	size_t len = 0;

	skip_blanks(at);
	while ((*at)[len] && !isspace((unsigned char)(*at)[len]))
		if (++len == NAME_BYTES)
			return false;
	memcpy(name, *at, len);
	name[len] = 0;
	*at += len;
	return len > 0;
}

static bool read_data(const char **at, struct mt_record_allocs_line *l)
{
	switch (l->kind) {
	case MT_RECORD_ALLOCS_MALLOC:
		return read_number(at, 10, &l->size);
	case MT_RECORD_ALLOCS_CALLOC:
		return read_number(at, 10, &l->n) && read_number(at, 10, &l->size);
	case MT_RECORD_ALLOCS_MEMALIGN:
		return read_number(at, 10, &l->align) && read_number(at, 10, &l->size);
	case MT_RECORD_ALLOCS_REALLOC:
		return read_number(at, 16, &l->old) && read_number(at, 10, &l->size);
	default:
		return true;
	}
}

static int read_times(const char *at, const char *line, struct mt_record_allocs_line *l,
		      struct mt_err *err)
{
	skip_blanks(&at);
	if (!*at)
		return 0;
	if (!read_number(&at, 10, &l->start_ns) || !read_number(&at, 10, &l->end_ns))
		return mt_err_set(err, -EBADMSG, "Failed to read timestamps: %s", line);
	skip_blanks(&at);
	if (!*at || (l->kind != MT_RECORD_ALLOCS_FREE && l->kind != MT_RECORD_ALLOCS_REALLOC))
		return 0;
	uint64_t present;
	if (!read_number(&at, 10, &present) || present > INT64_MAX)
		return mt_err_set(err, -EBADMSG, "Failed to read present bytes: %s", line);
	l->present_bytes = (int64_t)present;
	return 0;
}

int mt_record_allocs_parse(const char *line, struct mt_record_allocs_line *ret_line,
			   struct mt_err *err)
{
	struct mt_record_allocs_line l = {.present_bytes = -1};
	char name[NAME_BYTES];
	const char *at = line;
	int kind = 0, r = 0;

	if (!read_tid(&at, &l.tid) || !read_name(&at, name) || !read_number(&at, 16, &l.pointer))
		return mt_err_set(err, -EBADMSG, "Failed to process line: %s", line);
	while (kind < MT_RECORD_ALLOCS_KINDS && strcmp(names[kind], name))
		kind++;
	if (kind == MT_RECORD_ALLOCS_KINDS)
		return mt_err_set(err, -EBADMSG, "Unknown type %s: %s", name, line);
	l.kind = (enum mt_record_allocs_kind)kind;
	if (!read_data(&at, &l))
		return mt_err_set(err, -EBADMSG, "Failed to read %s data: %s", name, line);
	if (l.kind == MT_RECORD_ALLOCS_THREAD_DONE)
		read_number(&at, 10, &l.end_ns);
	else
		r = read_times(at, line, &l, err);
	if (!r)
		*ret_line = l;
	return r;
}

static void put_times(struct mt_buf *out, const struct mt_record_allocs_line *l)
{
	bool has_present = l->present_bytes >= 0 && (l->kind == MT_RECORD_ALLOCS_FREE ||
						     l->kind == MT_RECORD_ALLOCS_REALLOC);

	if (l->kind == MT_RECORD_ALLOCS_THREAD_DONE) {
		if (l->end_ns)
			mt_buf_printf(out, " %" PRIu64, l->end_ns);
		return;
	}
	if (l->start_ns || l->end_ns || has_present)
		mt_buf_printf(out, " %" PRIu64 " %" PRIu64, l->start_ns, l->end_ns);
	if (has_present)
		mt_buf_printf(out, " %" PRId64, l->present_bytes);
}

void mt_record_allocs_put(struct mt_buf *out, const struct mt_record_allocs_line *l)
{
	mt_buf_printf(out, "%" PRId64 ": %s 0x%" PRIx64, l->tid, names[l->kind], l->pointer);
	switch (l->kind) {
	case MT_RECORD_ALLOCS_MALLOC:
		mt_buf_printf(out, " %" PRIu64, l->size);
		break;
	case MT_RECORD_ALLOCS_CALLOC:
		mt_buf_printf(out, " %" PRIu64 " %" PRIu64, l->n, l->size);
		break;
	case MT_RECORD_ALLOCS_MEMALIGN:
		mt_buf_printf(out, " %" PRIu64 " %" PRIu64, l->align, l->size);
		break;
	case MT_RECORD_ALLOCS_REALLOC:
		mt_buf_printf(out, " 0x%" PRIx64 " %" PRIu64, l->old, l->size);
		break;
	default:
		break;
	}
	put_times(out, l);
	mt_buf_add(out, "\n", 1);
}
