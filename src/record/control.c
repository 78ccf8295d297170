/* SPDX-License-Identifier: MIT */
/*
 * The controller's side of the protocol. Whoever dies in it leaves either nothing or a whole
 * request behind: the text is complete before the word that makes the tracker read it changes, and
 * a text that the tracker may be reading just now only grows, by one byte that is replaced last.
 */

#include "record/control.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/units.h"
#include "core/cc.h"
#include "core/sys.h"
#include "formats/mtk_read.h"
#include "target/mapped_files.h"
#include "wire/state.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { OWNER_WAIT_NS = 2000000000, STEP_NS = 1000000, STEP_MAX_NS = 20000000 };
enum { LABEL_MAX = 127, MODULES_MAX = 511, EVERY_MAX = 65536, RANGES_MAX = 4 };
#define INTERVAL_MAX ((uint64_t)1 << 40)

/* ---- words ---- */

static int add_mode(struct mt_buf *text, const char *value, struct mt_err *err)
{
	static const char *const modes[] = {"full", "sample", "stats", "record"};

	for (size_t i = 0; i < MT_ARRAY_LEN(modes); i++)
		if (!strcmp(value, modes[i]))
			return mt_buf_printf(text, "mode=%s ", value);
	return mt_err_set(err, -EINVAL, "'mode=%s' is none of mode=full|sample|stats|record",
			  value);
}

static int add_interval(struct mt_buf *text, const char *value, struct mt_err *err)
{
	uint64_t bytes;

	if (mt_units_parse_size(value, &bytes))
		return mt_err_set(err, -EINVAL,
				  "'interval=%s' is no size (examples: 4096, 64K, 1.5M)", value);
	if (!bytes || bytes > INTERVAL_MAX)
		return mt_err_set(err, -EINVAL,
				  "'interval=%s' cannot be: a mean distance is 1 byte (everything "
				  "is recorded) to 1024G",
				  value);
	return mt_buf_printf(text, "interval=%" PRIu64 " ", bytes);
}

/* "FROM-TO" or "FROM-" */
static bool read_range(char *text, uint64_t *ret_from, uint64_t *ret_to)
{
	char *dash = strchr(text, '-');

	if (!dash)
		return false;
	*dash++ = 0;
	*ret_to = UINT64_MAX;
	return !mt_units_parse_size(text, ret_from) &&
	       (!*dash || !mt_units_parse_size(dash, ret_to)) && *ret_from <= *ret_to;
}

/* Ranges of sizes, both ends included. */
struct ranges {
	uint64_t from[RANGES_MAX], to[RANGES_MAX];
	unsigned count;
	bool overlap;
	uint64_t shared; /* a size that two of them have */
};

static void note_range(struct ranges *r, uint64_t from, uint64_t to)
{
	for (unsigned i = 0; i < r->count && !r->overlap; i++)
		if (from <= r->to[i] && r->from[i] <= to) {
			r->overlap = true;
			r->shared = MT_MAX(from, r->from[i]);
		}
	r->from[r->count] = from;
	r->to[r->count++] = to;
}

/* One "WHAT:SIZE" as the tracker reads it: sizes in bytes. false: it is none. */
static bool add_interval_of(struct mt_buf *text, char *item, struct ranges *ranges)
{
	char *size = strchr(item, ':');
	uint64_t from, to, bytes;

	if (!size)
		return false;
	*size++ = 0;
	if (mt_units_parse_size(size, &bytes) || !bytes || bytes > INTERVAL_MAX)
		return false;
	if (!strcmp(item, "custom"))
		return !mt_buf_printf(text, "custom:%" PRIu64, bytes);
	if (ranges->count == RANGES_MAX || !read_range(item, &from, &to))
		return false;
	note_range(ranges, from, to);
	mt_buf_printf(text, "%" PRIu64 "-", from);
	if (to != UINT64_MAX)
		mt_buf_printf(text, "%" PRIu64, to);
	mt_buf_printf(text, ":%" PRIu64, bytes);
	return true;
}

static int add_intervals(struct mt_buf *text, const char *value, struct mt_err *err)
{
	mt_auto(free) char *copy = strdup(value);
	struct ranges ranges = {.count = 0};
	char *rest = copy, *item;

	if (!copy)
		return -ENOMEM;
	mt_buf_adds(text, "intervals=");
	while ((item = strsep(&rest, ",")) && *value) {
		if (item != copy)
			mt_buf_addc(text, ',');
		if (!add_interval_of(text, item, &ranges))
			return mt_err_set(err, -EINVAL,
					  "'intervals=%s' is no list like 0-64:8M,1M-:1,custom:4K "
					  "(at most %d ranges of sizes; an interval is 1 byte to "
					  "1024G)",
					  value, RANGES_MAX);
	}
	if (ranges.overlap)
		return mt_err_set(err, -EINVAL,
				  "ranges of 'intervals=%s' overlap: two have blocks of %" PRIu64
				  " bytes (both ends belong to a range)",
				  value, ranges.shared);
	return mt_buf_addc(text, ' ');
}

static int add_every(struct mt_buf *text, const char *value, struct mt_err *err)
{
	uint64_t count;

	if (mt_units_parse_count(value, &count) || !count || count > EVERY_MAX)
		return mt_err_set(err, -EINVAL, "'every=%s' is no number from 1 to %d", value,
				  EVERY_MAX);
	return mt_buf_printf(text, "every=%" PRIu64 " ", count);
}

static int add_modules(struct mt_buf *text, const char *value, struct mt_err *err)
{
	bool is_start = true;

	for (const char *c = value; *c; c++) {
		bool is_sign = *c == '+' || *c == '-';

		if ((is_start && (!is_sign || !c[1] || c[1] == ',')) || (unsigned char)*c <= ' ' ||
		    (!is_start && *c == ',' && !c[1]))
			return mt_err_set(err, -EINVAL,
					  "'modules=%s' is no list like +GLOB,-GLOB (without "
					  "blanks; empty: all modules)",
					  value);
		is_start = *c == ',';
	}
	if (strlen(value) > MODULES_MAX)
		return mt_err_set(err, -EINVAL, "'modules=' is longer than %d bytes", MODULES_MAX);
	return mt_buf_printf(text, "modules=%s ", value);
}

/* Words have no blanks: such bytes are written as %xx. */
static int add_label(struct mt_buf *text, const char *value, struct mt_err *err)
{
	if (strlen(value) > LABEL_MAX)
		return mt_err_set(err, -EINVAL, "'label=' is longer than %d bytes", LABEL_MAX);
	mt_buf_adds(text, "label=");
	for (const char *c = value; *c; c++)
		if ((unsigned char)*c <= ' ' || *c == '%')
			mt_buf_printf(text, "%%%02x", (unsigned)(unsigned char)*c);
		else
			mt_buf_addc(text, *c);
	return mt_buf_addc(text, ' ');
}

int mt_control_add_word(struct mt_buf *text, const char *word, struct mt_err *err)
{
	static const struct {
		const char *name;
		int (*add)(struct mt_buf *text, const char *value, struct mt_err *err);
	} values[] = {{"mode=", add_mode},           {"interval=", add_interval},
		      {"intervals=", add_intervals}, {"every=", add_every},
		      {"modules=", add_modules},     {"label=", add_label}};
	int code;

	if (!strcmp(word, "on") || !strcmp(word, "off") || !strcmp(word, "reset-peak"))
		return mt_buf_printf(text, "%s ", word) ? mt_err_no_memory(err) : 0;
	for (size_t i = 0; i < MT_ARRAY_LEN(values); i++) {
		size_t len = strlen(values[i].name);

		if (strncmp(word, values[i].name, len))
			continue;
		code = values[i].add(text, word + len, err);
		return code == -ENOMEM ? mt_err_no_memory(err) : code;
	}
	return mt_err_set(
		err, -EINVAL,
		"'%s' is none of on, off, mode=, interval=, intervals=, every=, modules=, label=, "
		"reset-peak, snapshot",
		word);
}

/* In check mode every block has a header: all calls go on as they began. */
static bool is_fixed_in_check_mode(const char *word, size_t len)
{
	static const char *const names[] = {"mode=", "interval=", "intervals=", "every="};

	if ((len == 2 && !memcmp(word, "on", 2)) || (len == 3 && !memcmp(word, "off", 3)))
		return true;
	for (size_t i = 0; i < MT_ARRAY_LEN(names); i++)
		if (len >= strlen(names[i]) && !memcmp(word, names[i], strlen(names[i])))
			return true;
	return false;
}

static int refuse_in_check_mode(const char *path, const char *text, struct mt_err *err)
{
	for (size_t len; *text; text += len) {
		text += strspn(text, " ");
		len = strcspn(text, " ");
		if (is_fixed_in_check_mode(text, len))
			return mt_err_set(
				err, -EINVAL,
				"the process of '%s' is in check mode, in which its blocks "
				"have headers: '%.*s' cannot be changed while it runs "
				"(label=, modules=, reset-peak and snapshot can)",
				path, (int)len, text);
	}
	return 0;
}

/* ---- the state file ---- */

struct controlled {
	int fd;
	const char *path;
	struct mt_state_header *header; /* mapped; NULL: not */
	char *request;                  /* mapped, MT_REQUEST_BYTES; NULL: not */
	bool is_locked;
};

static int locks_held; /* by this process; atomic */

static void unlock(struct controlled *c)
{
	int32_t own = getpid();

	if (!c->is_locked)
		return;
	__atomic_compare_exchange_n((int32_t *)&c->header->request_owner, &own, 0, false,
				    __ATOMIC_RELEASE, __ATOMIC_RELAXED);
	__atomic_sub_fetch(&locks_held, 1, __ATOMIC_RELAXED);
	c->is_locked = false;
}

static void controlled_done(struct controlled *c)
{
	unlock(c);
	if (c->header)
		munmap(c->header, MT_STATE_HEADER_BYTES);
	if (c->request)
		munmap(c->request, MT_REQUEST_BYTES);
	if (c->fd >= 0)
		close(c->fd);
}
MT_AUTO_DEFINE_INPLACE(controlled, struct controlled, controlled_done)

static int open_writable(struct controlled *c, struct mt_err *err)
{
	struct stat st;
	int code;

	c->fd = open(c->path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (c->fd >= 0)
		return 0;
	code = -errno;
	if ((code == -EACCES || code == -EPERM || code == -EROFS) && !stat(c->path, &st) &&
	    st.st_uid != geteuid())
		return mt_err_set(err, code,
				  "cannot write '%s': it belongs to user %u, and only that user "
				  "can control the process",
				  c->path, (unsigned)st.st_uid);
	if (code == -EACCES || code == -EPERM || code == -EROFS)
		return mt_err_set_errno(err, code, "cannot write '%s', so nothing can be changed",
					c->path);
	return mt_err_set_errno(err, code, "cannot open '%s'", c->path);
}

static void *map_page(const struct controlled *c, uint64_t offset)
{
	void *p = mmap(NULL, MT_REQUEST_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, c->fd,
		       (off_t)offset);

	return p == MAP_FAILED ? NULL : p;
}

/* Where the request's text is, 0: this state has no room for one. */
static uint64_t request_offset(const struct mt_state_header *h, uint64_t file_bytes)
{
	for (size_t i = 0; i < MT_STATE_REGIONS_MAX && h->region[i].kind; i++) {
		const struct mt_state_region *r = &h->region[i];

		if (r->kind == MT_REGION_REQUEST && r->elem_bytes == 1 &&
		    r->committed_bytes >= MT_REQUEST_BYTES && r->offset % MT_REQUEST_BYTES == 0 &&
		    r->offset >= MT_STATE_HEADER_BYTES && r->offset < file_bytes &&
		    file_bytes - r->offset >= MT_REQUEST_BYTES)
			return r->offset;
	}
	return 0;
}

static int map_state(struct controlled *c, struct mt_err *err)
{
	struct mt_state_header h;
	uint64_t offset;
	struct stat st;
	int code = mt_mtk_read_header_fd(c->fd, c->path, &h, err);

	if (code)
		return code;
	if (!mt_mtk_process_alive(&h))
		return mt_err_set(err, -ESRCH,
				  "the process of '%s' (pid %" PRId32 ") does not run any more: "
				  "nothing can be changed",
				  c->path, h.pid);
	if (fstat(c->fd, &st))
		return mt_err_set_errno(err, -errno, "cannot look at '%s'", c->path);
	offset = request_offset(&h, (uint64_t)st.st_size);
	if (!offset)
		return mt_err_set(err, -EPROTONOSUPPORT,
				  "'%s' has state file version %u.%u, which cannot be controlled "
				  "while its process runs",
				  c->path, h.version_major, h.version_minor);
	c->header = map_page(c, 0);
	c->request = map_page(c, offset);
	if (!c->header || !c->request)
		return mt_err_set_errno(err, -errno, "cannot map '%s'", c->path);
	return 0;
}

/* ---- the lock ---- */

static int is_inode(void *context, const char *name, uint64_t inode)
{
	/* the device beside it is not that of stat() in every file system */
	return inode == *(const ino_t *)context;
}

/* Whether a process has this file mapped, as every controller has; true when one cannot look. */
static bool has_mapped(int32_t pid, int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return true;
	switch (mt_mapped_files(pid, MT_MAPPED_BEST, is_inode, &st.st_ino)) {
	case 0:
	case -ENOENT:
	case -ESRCH:
		return false;
	default:
		return true;
	}
}

/* An owner that is gone, or another process that got its number. */
static bool is_dead(const struct controlled *c, int32_t owner)
{
	if (owner == getpid()) /* another thread of ours, or one that had our number before us */
		return !__atomic_load_n(&locks_held, __ATOMIC_RELAXED);
	if (owner < 0 || (kill(owner, 0) && errno == ESRCH))
		return true;
	return !has_mapped(owner, c->fd);
}

static void pause_ns(uint64_t *step_ns)
{
	struct timespec ts = {0, (long)*step_ns};

	nanosleep(&ts, NULL);
	*step_ns = MT_MIN(*step_ns * 2, (uint64_t)STEP_MAX_NS);
}

static int lock(struct controlled *c, struct mt_err *err)
{
	uint64_t end_ns = mt_sys_clock_ns(MT_CLOCK_MONOTONIC) + OWNER_WAIT_NS, step_ns = STEP_NS;
	int32_t *word = (int32_t *)&c->header->request_owner;
	int32_t owner = 0;

	for (;;) {
		if (__atomic_compare_exchange_n(word, &owner, getpid(), false, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED)) {
			c->is_locked = true;
			__atomic_add_fetch(&locks_held, 1, __ATOMIC_RELAXED);
			return 0;
		}
		if (is_dead(c, owner))
			continue; /* once more, from the dead owner to us */
		if (mt_sys_clock_ns(MT_CLOCK_MONOTONIC) >= end_ns)
			return mt_err_set(err, -EBUSY,
					  "another controller (pid %" PRId32
					  ") is changing the process of '%s': try again",
					  owner, c->path);
		pause_ns(&step_ns);
		owner = 0;
	}
}

/* ---- requests ---- */

void (*mt_control_locked_for_test)(void);

static bool is_pending(const struct mt_state_header *h)
{
	uint32_t word = __atomic_load_n(&h->control, __ATOMIC_RELAXED);

	return __atomic_load_n(&h->control_done, __ATOMIC_ACQUIRE) >> 1 != word >> 1;
}

/*
 * The tracker may be reading a text that stands: what is behind its end is not looked at, until
 * the NUL there becomes a blank.
 */
static int add_text(struct controlled *c, const char *text, struct mt_err *err)
{
	size_t before = is_pending(c->header) ? strnlen(c->request, MT_REQUEST_BYTES) : 0;
	size_t len = strlen(text), start = before ? before + 1 : 0;

	if (start + len + 1 > MT_REQUEST_BYTES)
		return mt_err_set(err, -E2BIG,
				  before ? "the process of '%s' has not taken the earlier requests "
					   "yet, and there is no room for another"
					 : "the request to '%s' is too long",
				  c->path);
	memcpy(c->request + start, text, len + 1);
	if (before)
		__atomic_store_n(&c->request[before], ' ', __ATOMIC_RELEASE);
	return 0;
}

static int refused(const struct controlled *c, const char *text, uint32_t error, struct mt_err *err)
{
	int code = error && error < 4096 ? -(int)error : -EINVAL;
	size_t len = strlen(text);

	while (len && text[len - 1] == ' ')
		len--;
	return mt_err_set(err, code,
			  "the tracker in the process of '%s' refused '%.*s': %s; nothing has "
			  "changed",
			  c->path, (int)len, text,
			  code == -EINVAL ? "it cannot do that" : mt_err_text_of(code));
}

/* 0: taken over; MT_CONTROL_PENDING; a negative errno value. */
static int await(const struct controlled *c, uint32_t word, const char *text, uint64_t wait_ns,
		 struct mt_err *err)
{
	uint64_t end_ns = mt_sys_clock_ns(MT_CLOCK_MONOTONIC) + wait_ns, step_ns = STEP_NS;
	const struct mt_state_header *h = c->header;

	while (__atomic_load_n(&h->control_done, __ATOMIC_ACQUIRE) >> 1 != word >> 1) {
		if (!mt_mtk_process_alive(h))
			return mt_err_set(err, -ESRCH,
					  "the process of '%s' (pid %" PRId32
					  ") ended before it took the request",
					  c->path, h->pid);
		if (mt_sys_clock_ns(MT_CLOCK_MONOTONIC) >= end_ns)
			return MT_CONTROL_PENDING;
		pause_ns(&step_ns);
	}
	return h->control_error ? refused(c, text, h->control_error, err) : MT_CONTROL_TAKEN;
}

int mt_control_send(const char *path, const char *text, uint64_t wait_ns, struct mt_err *err)
{
	mt_auto(controlled) struct controlled c = {.fd = -1, .path = path};
	uint32_t word;
	int code = open_writable(&c, err);

	if (!code)
		code = map_state(&c, err);
	if (!code && c.header->mode == MT_MODE_CHECK)
		code = refuse_in_check_mode(path, text, err);
	if (!code)
		code = lock(&c, err);
	if (code)
		return code;
	if (mt_control_locked_for_test)
		mt_control_locked_for_test();
	code = add_text(&c, text, err);
	if (code)
		return code;
	word = __atomic_add_fetch(&c.header->control, 2, __ATOMIC_RELEASE);
	return await(&c, word, text, wait_ns, err);
}
