/* SPDX-License-Identifier: MIT */
/* Sums of a record_allocs text; see view_allocs.h. */
#include "cli/view_allocs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "formats/record_allocs_read.h"

enum { LOOK_BYTES = 8192 };

/* An open text, or -1. */
static int open_text(const char *path)
{
	char head[LOOK_BYTES];
	struct stat st;
	int fd = stat(path, &st) || !S_ISREG(st.st_mode)
			 ? -1
			 : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	if (fd < 0)
		return -1;
	ssize_t len = pread(fd, head, sizeof(head), 0);
	if (len > 0 && mt_record_allocs_is(head, (size_t)len))
		return fd;
	close(fd);
	return -1;
}

static void put_json_calls(struct mt_buf *out, const struct mt_record_allocs_stats *s)
{
	for (int k = 0; k < MT_RECORD_ALLOCS_KINDS; k++) {
		const struct mt_record_allocs_calls *c = &s->calls[k];

		mt_buf_printf(out,
			      "%s\n    \"%s\": {\"count\": %" PRIu64 ", \"failed\": %" PRIu64
			      ", \"timed\": %" PRIu64 ", \"ns\": %" PRIu64
			      ", \"slowest_ns\": %" PRIu64 "}",
			      k ? "," : "",
			      mt_record_allocs_kind_name((enum mt_record_allocs_kind)k), c->count,
			      c->failed, c->timed, c->ns, c->slowest_ns);
	}
}

static void put_json(struct mt_buf *out, const struct mt_record_allocs_stats *s)
{
	const struct {
		const char *name;
		uint64_t value;
	} fields[] = {
		{"lines", s->lines},
		{"threads", s->threads},
		{"allocs", s->allocs},
		{"bytes", s->bytes},
		{"frees", s->frees},
		{"freed_bytes", s->freed_bytes},
		{"live_count", s->live_count},
		{"live_bytes", s->live_bytes},
		{"peak_count", s->peak_count},
		{"peak_bytes", s->peak_bytes},
		{"peak_line", s->peak_line},
		{"unknown_frees", s->unknown_frees},
		{"lost_blocks", s->lost_blocks},
		{"first_ns", s->first_ns},
		{"last_ns", s->last_ns},
		{"present_frees", s->present_frees},
		{"present_bytes", s->present_bytes},
		{"present_of_bytes", s->present_of_bytes},
	};

	mt_buf_adds(out, "{\n  \"kind\": \"record_allocs\",\n");
	for (size_t i = 0; i < MT_ARRAY_LEN(fields); i++)
		mt_buf_printf(out, "  \"%s\": %" PRIu64 ",\n", fields[i].name, fields[i].value);
	mt_buf_adds(out, "  \"calls\": {");
	put_json_calls(out, s);
	mt_buf_adds(out, "\n  }\n}\n");
}

int mt_view_allocs(const char *path, bool json, struct mt_buf *out, struct mt_err *err)
{
	mt_auto(close) int fd = open_text(path);
	struct mt_record_allocs_stats s;
	struct mt_err why = {0};

	if (fd < 0)
		return 0;
	int code = mt_record_allocs_read_fd(fd, path, &s, &why);
	if (code == -EBADMSG)
		return mt_err_set_at(err, code, why.offset, "'%s', byte %" PRIu64 ": %s", path,
				     why.offset, why.text);
	if (code) {
		*err = why;
		return code;
	}
	if (json)
		put_json(out, &s);
	else
		mt_record_allocs_stats_put(&s, out);
	return out->failed ? mt_err_no_memory(err) : 1;
}
