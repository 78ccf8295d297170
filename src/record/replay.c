/* SPDX-License-Identifier: MIT */
/* Both ends of a replay: the one that reads the recording, and the one that makes the calls. */
#include "record/replay.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/path.h"
#include "core/sys.h"
#include "formats/mtr_events.h"
#include "wire/state.h"

extern char **environ;

enum op_kind { OP_MALLOC, OP_CALLOC, OP_REALLOC, OP_ALIGNED, OP_FREE, OP_TOUCH };

/* One call. The first says how much is touched: kind OP_TOUCH. */
struct op {
	uint64_t size;
	uint32_t slot, old_slot; /* old_slot: REALLOC */
	uint8_t kind, lg_align;
	uint8_t reserved[6];
};
_Static_assert(sizeof(struct op) == 24, "op");
enum { BATCH = 2048, PAGE = 4096, NO_SLOT = -1 };

/* ---- the end that makes the calls ---- */

struct entry {
	char *block;
	uint64_t size;
};

struct player {
	struct entry *table; /* mapped */
	size_t slots;        /* that are mapped */
	size_t used;         /* that were ever used */
	enum mt_replay_touch touch;
	struct mt_replay_result r;
};

/* From /proc/self/status, in bytes; without the heap. */
static uint64_t status_of(const char *key)
{
	char text[4096], *at;
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return 0;
	text[n] = 0;
	at = strstr(text, key);
	return at ? strtoull(at + strlen(key), NULL, 10) * 1024 : 0;
}

static int make_slot(struct player *p, uint32_t slot)
{
	size_t want = p->slots ? p->slots : 65536;
	void *grown;

	if (slot >= p->used)
		p->used = (size_t)slot + 1;
	if (slot < p->slots)
		return 0;
	while (want <= slot)
		want *= 2;
	grown = p->slots ? mremap(p->table, p->slots * sizeof(*p->table), want * sizeof(*p->table),
				  MREMAP_MAYMOVE)
			 : mmap(NULL, want * sizeof(*p->table), PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (grown == MAP_FAILED)
		return -ENOMEM;
	p->table = grown;
	p->slots = want;
	return 0;
}

static void *call(struct player *p, const struct op *op)
{
	void *block = NULL;

	switch ((enum op_kind)op->kind) {
	case OP_MALLOC:
		return malloc(op->size);
	case OP_CALLOC:
		return calloc(1, op->size);
	case OP_REALLOC:
		if (op->old_slot != (uint32_t)NO_SLOT)
			block = p->table[op->old_slot].block;
		return realloc(block, op->size);
	case OP_ALIGNED:
		if (posix_memalign(&block, (size_t)1 << MT_MAX(op->lg_align, 3), op->size))
			block = NULL;
		return block;
	default:
		return NULL;
	}
}

static void touch(enum mt_replay_touch how, char *block, uint64_t from, uint64_t size)
{
	if (how == MT_REPLAY_TOUCH_ALL)
		memset(block + from, 1, size - from);
	for (uint64_t at = from; how == MT_REPLAY_TOUCH_PAGES && at < size; at += PAGE)
		block[at] = 1;
}

static void let_go(struct player *p, uint32_t slot)
{
	p->r.live_bytes -= p->table[slot].size;
	p->r.frees++;
}

/* The slots are there. */
static void play_one(struct player *p, const struct op *op)
{
	uint64_t kept = 0;
	char *block;

	p->r.calls++;
	if (op->kind == OP_FREE) {
		let_go(p, op->slot);
		free(p->table[op->slot].block);
		p->table[op->slot] = (struct entry){NULL, 0};
		return;
	}
	block = call(p, op);
	if (op->kind == OP_REALLOC && op->old_slot != (uint32_t)NO_SLOT) {
		kept = MT_MIN(p->table[op->old_slot].size, op->size);
		let_go(p, op->old_slot);
		p->r.reallocs++;
		/* one that was refused leaves its block: it is not needed any more */
		if (!block && op->size)
			free(p->table[op->old_slot].block);
		p->table[op->old_slot] = (struct entry){NULL, 0};
	}
	p->r.allocs++;
	p->r.failed += !block && op->size;
	p->r.live_bytes += op->size;
	p->r.peak_bytes = MT_MAX(p->r.peak_bytes, p->r.live_bytes);
	p->table[op->slot] = (struct entry){block, op->size};
	if (block)
		touch(p->touch, block, kept, op->size);
}

static int play_batch(struct player *p, const struct op *op, size_t count)
{
	uint64_t begin;

	for (size_t i = 0; i < count; i++)
		if (op[i].kind != OP_TOUCH && make_slot(p, op[i].slot))
			return -ENOMEM;
	begin = mt_sys_clock_ns(MT_CLOCK_MONOTONIC);
	for (size_t i = 0; i < count; i++)
		if (op[i].kind == OP_TOUCH)
			p->touch = (enum mt_replay_touch)op[i].size;
		else
			play_one(p, &op[i]);
	p->r.time_ns += mt_sys_clock_ns(MT_CLOCK_MONOTONIC) - begin;
	return 0;
}

/* Bytes read, less than len at the end only, or -1. */
static ssize_t read_all(int fd, void *to, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = read(fd, (char *)to + done, len - done);

		if (n < 0 && errno != EINTR)
			return -1;
		if (!n)
			break;
		done += n > 0 ? (size_t)n : 0;
	}
	return (ssize_t)done;
}

int mt_replay_main(void)
{
	static struct op batch[BATCH];
	struct player p = {.table = NULL};
	void *own = dlsym(RTLD_DEFAULT, "malloc");
	uint64_t rss, high;
	Dl_info info;
	ssize_t n;

	if (own && dladdr(own, &info) && info.dli_fname)
		snprintf(p.r.allocator, sizeof(p.r.allocator), "%s", info.dli_fname);
	if (make_slot(&p, 0))
		return 1;
	free(malloc(1)); /* what the allocator sets up once is its own */
	memset(batch, 1, sizeof(batch));
	rss = status_of("VmRSS:");
	while ((n = read_all(0, batch, sizeof(batch))) > 0)
		if (play_batch(&p, batch, (size_t)n / sizeof(*batch)))
			return 1;
	if (n < 0)
		return 1;
	high = status_of("VmHWM:");
	rss += MT_ALIGN_UP(p.used * sizeof(*p.table), (size_t)PAGE);
	p.r.peak_rss_bytes = high > rss ? high - rss : 0;
	return write(1, &p.r, sizeof(p.r)) == sizeof(p.r) ? 0 : 1;
}

/* ---- the end that reads the recording ---- */

struct feeder {
	const struct mt_profile *profile;
	int fd;
	size_t count;
	struct op op[BATCH];
};

static int flush(struct feeder *f)
{
	int code = mt_file_write(f->fd, f->op, f->count * sizeof(*f->op));

	f->count = 0;
	return code;
}

static int feed(struct feeder *f, const struct op *op)
{
	f->op[f->count++] = *op;
	return f->count == BATCH ? flush(f) : 0;
}

static uint32_t call_of(const struct mt_profile *p, uint32_t cell)
{
	return cell < p->cell_count ? p->site[p->cell[cell].site].call : 0;
}

static struct op op_of(const struct feeder *f, const struct mt_mtr_step *s)
{
	struct op op = {.slot = s->slot, .old_slot = (uint32_t)NO_SLOT, .size = s->made.size};
	uint32_t what = call_of(f->profile, s->made.cell);

	if (s->kind == MT_MTR_STEP_FREE) {
		op.kind = OP_FREE;
	} else if (s->kind == MT_MTR_STEP_REALLOC) {
		op.kind = OP_REALLOC;
		op.old_slot = s->gone_slot;
	} else if (what == MT_CALL_CALLOC) {
		op.kind = OP_CALLOC;
	} else if (what == MT_CALL_REALLOC) {
		op.kind = OP_REALLOC;
	} else if (s->made.lg_align) {
		op.kind = OP_ALIGNED;
		op.lg_align = s->made.lg_align;
	}
	return op;
}

static int feed_all(const struct mt_mtr *m, const struct mt_profile *p, enum mt_replay_touch how,
		    int fd)
{
	mt_auto(mt_mtr_events) struct mt_mtr_events *e = mt_mtr_events_new(m);
	struct feeder f = {.profile = p, .fd = fd};
	struct mt_mtr_step s;
	struct op op = {.kind = OP_TOUCH, .size = how};
	int code = e ? feed(&f, &op) : -ENOMEM, r = 1;

	while (!code && (r = mt_mtr_events_next(e, &s)) == 1) {
		op = op_of(&f, &s);
		code = feed(&f, &op);
	}
	if (!code)
		code = r < 0 ? r : flush(&f);
	return code;
}

/* The environment with the allocator in front of LD_PRELOAD. Heap array; strings are borrowed, but
 * for preload. */
static char **make_environment(char *preload)
{
	size_t count = 0, n = 0;
	char **out;

	while (environ[count])
		count++;
	out = calloc(count + 2, sizeof(*out));
	if (!out)
		return NULL;
	for (size_t i = 0; i < count; i++)
		if (!preload || strncmp(environ[i], "LD_PRELOAD=", strlen("LD_PRELOAD=")))
			out[n++] = environ[i];
	if (preload)
		out[n++] = preload;
	return out;
}

static char *make_preload(const char *allocator)
{
	const char *was = getenv("LD_PRELOAD");
	char *text = NULL;

	if (asprintf(&text, "LD_PRELOAD=%s%s%s", allocator, was && *was ? ":" : "",
		     was ? was : "") < 0)
		return NULL;
	return text;
}

struct child {
	pid_t pid;
	int to, from; /* -1: closed */
};

static int start(const char *allocator, struct child *ret_child)
{
	mt_auto(free) char *preload = allocator ? make_preload(allocator) : NULL;
	mt_auto(free) char **env = make_environment(preload);
	char *const argv[] = {MT_REPLAY_NAME, NULL};
	int in[2], out[2];

	if (!env || (allocator && !preload))
		return -ENOMEM;
	if (pipe2(in, O_CLOEXEC))
		return -errno;
	if (pipe2(out, O_CLOEXEC)) {
		int code = -errno;

		close(in[0]);
		close(in[1]);
		return code;
	}
	ret_child->pid = fork();
	if (!ret_child->pid) {
		if (dup2(in[0], 0) == 0 && dup2(out[1], 1) == 1)
			execve("/proc/self/exe", argv, env);
		_exit(127);
	}
	int code = ret_child->pid < 0 ? -errno : 0;

	close(in[0]);
	close(out[1]);
	ret_child->to = in[1];
	ret_child->from = out[0];
	if (code) {
		close(in[1]);
		close(out[0]);
	}
	return code;
}

static int finish(struct child *c, struct mt_replay_result *ret_result)
{
	int status = 0;
	ssize_t n;

	close(c->to);
	n = read_all(c->from, ret_result, sizeof(*ret_result));
	close(c->from);
	while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
		;
	ret_result->allocator[sizeof(ret_result->allocator) - 1] = 0;
	return n == sizeof(*ret_result) && WIFEXITED(status) && !WEXITSTATUS(status) ? 0 : -EPIPE;
}

int mt_replay_run(const struct mt_mtr *m, const struct mt_profile *p,
		  const struct mt_replay_options *o, struct mt_replay_result *ret_result,
		  struct mt_err *err)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
	struct mt_replay_result r = {.calls = 0};
	struct child c = {.to = -1, .from = -1};
	int code, end;

	if (o->allocator && strchr(o->allocator, '/') && access(o->allocator, R_OK))
		return mt_err_set_errno(err, errno, "cannot use '%s'", o->allocator);
	code = start(o->allocator, &c);
	if (code)
		return mt_err_set_errno(err, code, "cannot start a process for the replay");
	sigaction(SIGPIPE, &ignore, &before);
	code = feed_all(m, p, o->touch, c.to);
	sigaction(SIGPIPE, &before, NULL);
	end = finish(&c, &r);
	if (end)
		return mt_err_set(err, end,
				  "the replay with '%s' ended early: the allocator cannot be "
				  "loaded, crashed, or had no memory",
				  o->allocator ? o->allocator : "the present allocator");
	if (code)
		return mt_err_set_errno(err, code, "cannot read '%s'", m->name);
	if (o->allocator && strcmp(mt_path_base(o->allocator), mt_path_base(r.allocator)))
		return mt_err_set(err, -ENOENT,
				  "'%s' was not used: malloc was that of '%s'; the loader did not "
				  "find or take it, or it has no malloc",
				  o->allocator, r.allocator);
	*ret_result = r;
	return 0;
}
