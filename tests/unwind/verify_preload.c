/* SPDX-License-Identifier: MIT */
/*
 * A library to be preloaded into real programs, for tests. Each allocation's stack is captured as
 * in production (memo, join, walk; the loader's list), and compared with mt_walk_reference() and
 * with libunwind's unw_step() from the same caller. At exit one line of "name=count" words is
 * appended to the file that VERIFY_OUTPUT names. VERIFY_EVERY=N: after the first VERIFY_FIRST
 * captures of a thread only every Nth one is also given to libunwind, which is slow.
 *
 * Always holds: what verify() itself allocates is passed on uncaptured, since self->inside is set.
 */
#define UNW_LOCAL_ONLY
#include <errno.h>
#include <fcntl.h>
#include <libunwind.h>
#include <pthread.h>

#include "elf/loader.h"
#include "unwind_fixture.h"
#include "walk.h"

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);

/*
 * An entry NAME: the hook sees the registers at the call, then the real function is jumped to with
 * the arguments as they were. Its address is filled in by the loader before anybody can call us.
 */
#define ENTRY(name, real, tag) \
	__asm__(".text\n.globl " #name "\n.type " #name ",@function\n" #name ":\n.cfi_startproc\n" \
		"push %rdi\n.cfi_adjust_cfa_offset 8\npush %rsi\n.cfi_adjust_cfa_offset 8\n" \
		"push %rdx\n.cfi_adjust_cfa_offset 8\n" \
		"lea 32(%rsp), %rdi\nmov 24(%rsp), %rsi\nmov %rbp, %rdx\nmov $" #tag ", %ecx\n" \
		"call verify_hooked\n" \
		"pop %rdx\n.cfi_adjust_cfa_offset -8\npop %rsi\n.cfi_adjust_cfa_offset -8\n" \
		"pop %rdi\n.cfi_adjust_cfa_offset -8\n" \
		"jmp *" #real "@GOTPCREL(%rip)\n.cfi_endproc\n.size " #name ", .-" #name "\n")

void verify_hooked(uintptr_t sp, uintptr_t ra, uintptr_t fp, uint64_t tag) MT_HIDDEN;
int verify_posix_memalign(void **ret, size_t align, size_t size) MT_HIDDEN;

ENTRY(malloc, __libc_malloc, 1);
ENTRY(calloc, __libc_calloc, 2);
ENTRY(realloc, __libc_realloc, 3);
ENTRY(memalign, __libc_memalign, 4);
ENTRY(aligned_alloc, __libc_memalign, 4);
ENTRY(posix_memalign, verify_posix_memalign, 4);

int verify_posix_memalign(void **ret, size_t align, size_t size)
{
	int saved = errno;
	if (align % sizeof(void *) || !align || (align & (align - 1)))
		return EINVAL;
	void *p = __libc_memalign(align, size);
	errno = saved;
	if (!p)
		return ENOMEM;
	*ret = p;
	return 0;
}

enum {
	TOKENS_MAX = 1 << 18,
	KEPT_FRAMES = 4 << 20, /* of all remembered stacks of a thread, touched as far as used */
	REPORTS_MAX = 3,       /* of each kind */
};

/*
 * What a comparison may find. The first two must never be; the others are the closed list of how
 * libunwind may differ, which run_verify.py bounds for each program.
 */
enum found {
	FOUND_CAPTURE_WRONG,   /* the capture is not what the reference walk gives */
	FOUND_STACK_WRONG,     /* libunwind gives another stack, for no reason below */
	FOUND_LIBUNWIND_STOPS, /* libunwind ends with an error after frames that are ours */
	FOUND_NO_INFO,         /* we end at code without unwind information, libunwind goes on */
	FOUND_BY_FP,           /* the same up to a frame that we found by its frame pointer */
	FOUND_COUNT,
};
static const char *const found_name[FOUND_COUNT] = {
	"capture_wrong", "stack_wrong", "libunwind_stops", "no_info", "by_fp",
};

struct frame {
	uintptr_t ra;
	uintptr_t flags;
};

/* A stack, innermost first. */
struct stack {
	uint32_t count, end;
	struct frame *frame;
};

struct thread_state {
	int inside;
	uint32_t tokens;
	uint64_t captures;
	struct mt_capture *capture;
	struct stack *stack; /* by token */
	struct frame *kept;
	size_t kept_used;
	uintptr_t reference[MT_DEPTH_MAX];
	uintptr_t oracle[MT_DEPTH_MAX + 1];
	struct frame got[MT_DEPTH_MAX];
};

/* Of the process; added to by any thread. */
static struct {
	uint64_t captures, compared, complete, cut, memo_hits, joined, module_lists, unread_lists;
	uint64_t found[FOUND_COUNT];
} counts;
static enum { BEFORE, READY, AFTER } phase; /* BEFORE: one thread; AFTER: exit has begun */
static uint64_t first_captures = 20000, then_every = 1;
static uint32_t reports[FOUND_COUNT];
static __thread struct thread_state *self __attribute__((tls_model("initial-exec")));
static __thread int starting __attribute__((tls_model("initial-exec")));

static void count(uint64_t *counter, uint64_t by)
{
	__atomic_fetch_add(counter, by, __ATOMIC_RELAXED);
}

/* In the loader's lock: nobody changes the list meanwhile. */
static int read_list(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)info, (void)size, (void)arg;
	struct mt_module_list *list = mt_loader_read_modules(mt_unwind.modules);
	if (!list)
		return -1;
	__atomic_store_n(&mt_unwind.modules, list, __ATOMIC_RELEASE);
	count(&counts.module_lists, 1);
	return 1;
}

/* mt_unwind.on_change. The loader's lock is the only one: an allocation may come from within it. */
static int refresh(void)
{
	if (dl_iterate_phdr(read_list, NULL) == 1)
		return 0;
	count(&counts.unread_lists, 1);
	return -1;
}

/* How often modules came and went, by the loader's own count. */
static int read_changes(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	*(uint64_t *)arg = info->dlpi_adds + info->dlpi_subs;
	return 1;
}

static struct thread_state *start(void)
{
	struct thread_state *t = fixture_zeros(sizeof(*t));
	t->stack = fixture_zeros(sizeof(struct stack) * TOKENS_MAX);
	t->kept = fixture_zeros(sizeof(struct frame) * KEPT_FRAMES);
	t->capture = fixture_capture_new(MT_DEPTH_MAX);
	t->tokens = 1;
	return t;
}

/* The stack of the last capture; borrowed until the next one. */
static struct stack take(struct thread_state *t)
{
	const struct mt_capture *c = t->capture;
	struct stack s = {.count = c->count, .end = c->end, .frame = t->got};
	for (uint32_t i = 0; i < s.count; i++) {
		const struct mt_frame *f = &c->frame[c->count - 1 - i];
		t->got[i] = (struct frame){.ra = f->ra, .flags = f->flags};
	}
	return s;
}

/* Gives the last capture a token, while there is room for what it stands for. */
static void remember(struct thread_state *t, const struct stack *s)
{
	if (t->tokens == TOKENS_MAX || KEPT_FRAMES - t->kept_used < s->count)
		return;
	struct stack *kept = &t->stack[t->tokens];
	*kept = *s;
	kept->frame = t->kept + t->kept_used;
	t->kept_used += s->count;
	memcpy(kept->frame, s->frame, s->count * sizeof(s->frame[0]));
	mt_capture_remember(t->capture, t->tokens++);
}

static int is_reference(const struct thread_state *t, const struct stack *s, uint32_t n,
			enum mt_stack_end end)
{
	if (s->count != n || s->end != (uint32_t)end)
		return 0;
	for (uint32_t i = 0; i < n; i++)
		if (s->frame[i].ra != t->reference[i])
			return 0;
	return 1;
}

/* Return addresses from ra on into t->oracle, one more than our limit. *ret_last: its last step. */
static uint32_t walk_by_libunwind(struct thread_state *t, uintptr_t ra, int *ret_last)
{
	unw_context_t context;
	unw_cursor_t cursor;
	unw_word_t ip;
	uint32_t n = 0;
	int found = 0, last;
	unw_getcontext(&context);
	unw_init_local(&cursor, &context);
	do {
		unw_get_reg(&cursor, UNW_REG_IP, &ip);
		found = found || ip == ra;
		if (found && ip)
			t->oracle[n++] = ip;
	} while ((last = unw_step(&cursor)) > 0 && n < MT_ARRAY_LEN(t->oracle));
	*ret_last = last;
	return n;
}

/* By libunwind's own search: a mistake in ours is not excused by itself. */
static int has_unwind_info(uintptr_t ra)
{
	unw_proc_info_t info;
	return unw_get_proc_info_by_ip(unw_local_addr_space, ra - 1, &info, NULL) == 0;
}

/* FOUND_COUNT: the same stack. last: what unw_step() returned last. */
static enum found compare(const struct thread_state *t, const struct stack *s, uint32_t n, int last)
{
	uint32_t i = 0, both = MT_MIN(n, s->count);
	int by_fp = 0;
	for (; i < both; i++) {
		by_fp |= (s->frame[i].flags & MT_FRAME_BY_FP) != 0;
		if (s->frame[i].ra - ((s->frame[i].flags & MT_FRAME_EXACT_PC) != 0) != t->oracle[i])
			return by_fp ? FOUND_BY_FP : FOUND_STACK_WRONG;
	}
	if (n == s->count)
		return s->end == MT_STACK_DEPTH ? FOUND_STACK_WRONG : FOUND_COUNT;
	if (n > s->count) {
		if (s->end == MT_STACK_DEPTH)
			return FOUND_COUNT;
		return s->end == MT_STACK_NO_INFO && !has_unwind_info(s->frame[s->count - 1].ra)
			       ? FOUND_NO_INFO
			       : FOUND_STACK_WRONG;
	}
	if (by_fp || (s->frame[n].flags & MT_FRAME_BY_FP))
		return FOUND_BY_FP;
	return last < 0 ? FOUND_LIBUNWIND_STOPS : FOUND_STACK_WRONG;
}

static int output(void)
{
	const char *path = getenv("VERIFY_OUTPUT");
	return path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
}

static void report_address(int fd, uintptr_t ra)
{
	const struct mt_module *m = mt_module_list_find(mt_unwind.modules, ra);
	dprintf(fd, " %s+%#lx", m ? (*m->name ? m->name : "program") : "?", ra - (m ? m->bias : 0));
}

/* The first few stacks that differ, ours beside the other. */
static void report(const struct stack *s, enum found found, const uintptr_t *other, uint32_t n)
{
	if (__atomic_fetch_add(&reports[found], 1, __ATOMIC_RELAXED) >= REPORTS_MAX)
		return;
	int fd = output();
	if (fd < 0)
		return;
	dprintf(fd, "# %s: %u frames, end %u; other %u frames\n", found_name[found], s->count,
		s->end, n);
	for (uint32_t i = 0; i < s->count || i < n; i++) {
		dprintf(fd, "# %3u", i);
		if (i < s->count)
			report_address(fd, s->frame[i].ra);
		if (i >= s->count || i >= n || s->frame[i].ra != other[i]) {
			dprintf(fd, " |");
			if (i < n)
				report_address(fd, other[i]);
		}
		dprintf(fd, "\n");
	}
	close(fd);
}

static void note_changes(void)
{
	uint64_t now = 0;
	dl_iterate_phdr(read_changes, &now);
	if (__atomic_exchange_n(&mt_unwind.change_count, now, __ATOMIC_ACQ_REL) != now)
		unw_flush_cache(unw_local_addr_space, 0, 0);
}

static void count_capture(const struct stack *s, int memo_hit, uint64_t joined)
{
	count(&counts.captures, 1);
	count(&counts.complete, s->end == MT_STACK_COMPLETE);
	count(&counts.cut, s->end == MT_STACK_DEPTH);
	count(&counts.memo_hits, memo_hit != 0);
	count(&counts.joined, joined);
}

static void verify(struct thread_state *t, uintptr_t sp, uintptr_t ra, uintptr_t fp, uint64_t tag)
{
	note_changes();
	uint64_t joined = t->capture->counts.joined;
	uint32_t token = mt_capture_stack(t->capture, sp, ra, fp, tag);
	struct stack s = token ? t->stack[token] : take(t);
	if (!token)
		remember(t, &s);
	count_capture(&s, token != 0, t->capture->counts.joined - joined);

	enum mt_stack_end end;
	uint32_t n = mt_walk_reference(sp, ra, fp, t->reference, MT_DEPTH_MAX, &end);
	if (!is_reference(t, &s, n, end)) {
		count(&counts.found[FOUND_CAPTURE_WRONG], 1);
		report(&s, FOUND_CAPTURE_WRONG, t->reference, n);
	}
	if (t->captures++ >= first_captures && t->captures % then_every)
		return;
	int last;
	n = walk_by_libunwind(t, ra, &last);
	enum found found = compare(t, &s, n, last);
	count(&counts.compared, 1);
	if (found == FOUND_COUNT)
		return;
	count(&counts.found[found], 1);
	report(&s, found, t->oracle, n);
}

static void after_fork(void)
{
	memset(&counts, 0, sizeof(counts));
	mt_loader_set_process(getpid(), MT_LOADER_TRY);
	if (self)
		mt_capture_reset(self->capture);
}

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);
	return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

/*
 * At the first allocation that finds libc at work: constructors of other libraries run before ours
 * would. There is one thread yet.
 */
static void begin(void)
{
	struct mt_start_block block;
	if (mt_loader_start_block(&block))
		abort();
	first_captures = number("VERIFY_FIRST", first_captures);
	then_every = MT_MAX(number("VERIFY_EVERY", then_every), 1u);
	mt_loader_init(&block, getpid());
	mt_unwind.rows = fixture_zeros(mt_row_cache_bytes());
	mt_unwind.on_change = refresh;
	note_changes();
	if (refresh())
		abort();
	pthread_atfork(NULL, NULL, after_fork);
	phase = READY;
}

void verify_hooked(uintptr_t sp, uintptr_t ra, uintptr_t fp, uint64_t tag)
{
	int saved = errno;
	if (starting || (self && self->inside))
		return;
	if (phase == BEFORE && environ) {
		starting = 1;
		begin();
		starting = 0;
	}
	if (__atomic_load_n(&phase, __ATOMIC_RELAXED) != READY)
		return;
	if (!self) {
		starting = 1;
		self = start();
		starting = 0;
	}
	self->inside = 1;
	MT_SIGNAL_FENCE();
	verify(self, sp, ra, fp, tag);
	MT_SIGNAL_FENCE();
	self->inside = 0;
	errno = saved;
}

/* One write: lines of several processes do not mix. */
__attribute__((destructor)) static void finish(void)
{
	char line[1024], exe[256] = "";
	__atomic_store_n(&phase, AFTER, __ATOMIC_RELAXED);
	int fd = output();
	if (fd < 0 || readlink("/proc/self/exe", exe, sizeof(exe) - 1) < 0)
		return;
	int n = snprintf(line, sizeof(line),
			 "program=%s captures=%lu compared=%lu complete=%lu cut=%lu memo_hits=%lu "
			 "joined=%lu module_lists=%lu unread_lists=%lu",
			 exe, counts.captures, counts.compared, counts.complete, counts.cut,
			 counts.memo_hits, counts.joined, counts.module_lists, counts.unread_lists);
	for (int i = 0; i < FOUND_COUNT; i++)
		n += snprintf(line + n, sizeof(line) - n, " %s=%lu", found_name[i],
			      counts.found[i]);
	line[n++] = '\n';
	if (write(fd, line, n) != n)
		abort();
	close(fd);
}
