/* SPDX-License-Identifier: MIT */
/*
 * The array of record_allocs is a ring. Positions count up and never repeat; position P lies in
 * entry P % count. [first, next) is in use: calls take positions at `next`, a write gives them back
 * at `first`. An entry of zeros belongs to a call that is under way, or to nobody.
 *
 * A write goes through the positions in order and gives back those that are done. What is under way
 * keeps its place and what lies behind it, so that nothing is lost when its call ends. A call that
 * never ends (a jump left it) would keep its place for ever: it is given up after PATIENCE_S
 * seconds.
 */
#include "runtime/record_text.h"

#include "core/fmt.h"
#include "core/mem.h"
#include "elf/loader.h"
#include "runtime/error_text.h"
#include "runtime/log.h"
#include "runtime/provider.h"
#include "runtime/self.h"
#include "runtime/text_file.h"

enum {
	PATIENCE_S = 10,
	PAGE_LEAST = 4096,
	LEAST_ENTRIES = 64,
	LINE_BYTES = 192,
	PIECE = 256,    /* words of pagemap read at once: on the stack of the program's thread */
	LAST_ROUND = 4, /* of destructors of thread-specific data */
	TURN_PAUSES = 10000,
	TURN_PAUSE_NS = 1000000,
};

enum { FUTEX_WAIT_PRIVATE = 128 };

#if defined(__x86_64__)
#define VDSO_CLOCK "__vdso_clock_gettime"
#else
#define VDSO_CLOCK "__kernel_clock_gettime"
#endif

enum entry_state {
	UNDER_WAY = 0,
	SEEN = 1, /* under way when a file was written */
	DONE = 2,
	GONE = 3, /* written, or a hole */
};

struct entry {
	uint32_t state; /* enum entry_state, atomic; DONE with release after all else */
	uint32_t tid;
	uint32_t type;   /* enum mt_record_text_type */
	uint32_t seen_s; /* when it became SEEN */
	uint64_t pointer;
	uint64_t other; /* the old block, the number of members, or the alignment */
	uint64_t size;
	uint64_t start_ns, end_ns;
	int64_t present;
};
_Static_assert(sizeof(struct entry) == 64 && PAGE_LEAST % sizeof(struct entry) == 0,
	       "pages of entries");

typedef int clock_function(int clock, struct mt_timespec *ts);

uint32_t mt_record_text_is_on;
static uint32_t patience_s = PATIENCE_S;

static struct {
	struct entry *entry;
	uint64_t count, page;
	uint64_t next, first; /* positions, atomic */
	uint64_t forked_at;   /* calls at positions below were the parent's */
	uint32_t writing;     /* atomic: mt_sys_gettid() of who writes, 0: nobody */
	uint32_t on_exit;     /* 1: record_allocs_on_exit */
	uint32_t no_pagemap;
	clock_function *clock; /* NULL: by system call */
	char file[MT_CHECK_PATH_MAX];
} record;

static struct entry *entry_at(uint64_t position)
{
	return &record.entry[position % record.count];
}

/* "BEFORE NAME: what the error means", as a line of error. */
static void say_failed(const char *before, const char *name, int err)
{
	char text[MT_CHECK_PATH_MAX + 256];
	struct mt_fmt f;
	mt_fmt_init(&f, text, sizeof(text));
	mt_fmt_str(&f, before);
	mt_fmt_str(&f, name);
	mt_fmt_str(&f, ": ");
	mt_error_text(&f, err);
	mt_log(MT_LOG_ERROR, text);
}

/* --- start --------------------------------------------------------------------------------- */

static void say_fewer(uint64_t wanted)
{
	char text[128];
	struct mt_fmt f;
	mt_fmt_init(&f, text, sizeof(text));
	mt_fmt_str(&f, "record_allocs: no room for ");
	mt_fmt_u64(&f, wanted);
	mt_fmt_str(&f, " entries, there are ");
	mt_fmt_u64(&f, record.count);
	mt_log(MT_LOG_ERROR, text);
}

/* The kernel's clock without a system call, as the C library reads it. */
static void find_clock(const Elf64_auxv_t *auxv)
{
	const Elf64_Ehdr *vdso = (const Elf64_Ehdr *)mt_loader_auxv(auxv, AT_SYSINFO_EHDR);
	struct mt_module m;
	if (!vdso)
		return;
	const Elf64_Phdr *ph = (const Elf64_Phdr *)((uintptr_t)vdso + vdso->e_phoff);
	if (!mt_module_from_phdr(ph, vdso->e_phnum, (uintptr_t)vdso, &m))
		record.clock = (clock_function *)mt_module_symbol(&m, VDSO_CLOCK);
}

static void look_at_machine(void)
{
	struct mt_start_block block;
	record.page = PAGE_LEAST;
	if (mt_loader_start_block(&block))
		return;
	record.page = MT_MAX(mt_loader_auxv(block.auxv, AT_PAGESZ), (uintptr_t)PAGE_LEAST);
	find_clock(block.auxv);
}

uint64_t mt_record_text_clock(void)
{
	struct mt_timespec ts = {0, 0};
	/* it may read the time-stamp counter */
	if (!record.clock || mt_rt.no_ticks || record.clock(MT_CLOCK_MONOTONIC, &ts))
		return mt_sys_clock_ns(MT_CLOCK_MONOTONIC);
	return (uint64_t)ts.sec * 1000000000u + (uint64_t)ts.nsec;
}

static size_t entries_bytes(uint64_t n)
{
	return MT_ALIGN_UP(n * sizeof(struct entry), record.page);
}

/* Address space for the entries; their pages come when they are used. */
static void map_entries(uint64_t wanted)
{
	for (uint64_t n = wanted; n && (n == wanted || n >= LEAST_ENTRIES); n /= 2) {
		size_t bytes = entries_bytes(n);
		long at = mt_sys_mmap(NULL, bytes, MT_PROT_READ | MT_PROT_WRITE,
				      MT_MAP_PRIVATE | MT_MAP_ANONYMOUS | MT_MAP_NORESERVE, -1, 0);
		if (mt_sys_is_error(at))
			continue;
		mt_sys_madvise((void *)at, bytes, MT_MADV_NOHUGEPAGE);
		mt_sys_madvise((void *)at, bytes, MT_MADV_DONTDUMP);
		record.entry = (struct entry *)at;
		record.count = n;
		break;
	}
	if (record.count < wanted)
		say_fewer(wanted);
}

static void try_pagemap(void)
{
	long fd = mt_sys_open("/proc/self/pagemap", MT_O_RDONLY | MT_O_CLOEXEC, 0);
	if (fd >= 0) {
		mt_sys_close((int)fd);
		return;
	}
	record.no_pagemap = 1;
	say_failed("Unable to open ", "/proc/self/pagemap", (int)fd);
}

void mt_record_text_open(const struct mt_check_options *o)
{
	if (!(o->flags & MT_CHECK_RECORD_ALLOCS) || record.entry)
		return;
	mt_mem_copy(record.file, o->record_file, sizeof(record.file));
	record.on_exit = (o->flags & MT_CHECK_RECORD_ON_EXIT) != 0;
	look_at_machine();
	map_entries(o->record_entries);
	if (!record.entry)
		return;
	try_pagemap();
	record.next = record.first = 1; /* no token is 0 */
	__atomic_store_n(&mt_record_text_is_on, 1, __ATOMIC_RELEASE);
}

void mt_record_text_close(void)
{
	mt_record_text_is_on = 0;
	if (record.entry)
		mt_sys_munmap(record.entry, entries_bytes(record.count));
	record.entry = NULL;
	record.count = 0;
}

void mt_record_text_set_patience_for_test(uint32_t seconds)
{
	patience_s = seconds;
}

void mt_record_text_child(void)
{
	if (!mt_record_text_is_on)
		return;
	record.forked_at = record.next;
	record.writing = 0;
}

/* --- entries ------------------------------------------------------------------------------- */

static void watch_end_of_thread(void);

MT_COLD static void say_full(void)
{
	mt_log(MT_LOG_INFO, "Maximum number of records added, all new operations will be dropped.");
}

/* The position, or 0: the array is full. */
static uint64_t take_position(void)
{
	uint64_t at = __atomic_load_n(&record.next, __ATOMIC_RELAXED), first;
	do {
		/* pairs with the release in give_back(): those entries are zeros */
		first = __atomic_load_n(&record.first, __ATOMIC_ACQUIRE);
		/* negative: `at` is out of date, the exchange will fail */
		if ((int64_t)(at - first) >= (int64_t)record.count)
			return 0;
	} while (!__atomic_compare_exchange_n(&record.next, &at, at + 1, 0, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	if (at + 1 - first == record.count)
		say_full();
	return at;
}

MT_NOINLINE uint32_t mt_record_text_take(void)
{
	watch_end_of_thread();
	/* a position whose low half is 0 has no token, and becomes a hole by age */
	return (uint32_t)take_position();
}

static uint32_t own_tid(void)
{
	const struct mt_thread *t = mt_thread_self();
	return t ? t->tid : (uint32_t)mt_sys_gettid();
}

static int set_state(struct entry *e, uint32_t from, uint32_t to)
{
	return __atomic_compare_exchange_n(&e->state, &from, to, 0, __ATOMIC_RELEASE,
					   __ATOMIC_RELAXED);
}

static void fill_entry(struct entry *e, uint32_t tid, const struct mt_record_text *r)
{
	e->tid = tid;
	e->type = r->type;
	e->pointer = (uint64_t)r->pointer;
	e->other = r->type == MT_RECORD_TEXT_CALLOC     ? r->n
		   : r->type == MT_RECORD_TEXT_MEMALIGN ? r->align
							: (uint64_t)r->old;
	e->size = r->size;
	e->start_ns = r->start_ns;
	e->end_ns = r->end_ns;
	e->present = r->present;
}

MT_NOINLINE void mt_record_text_fill(uint32_t token, const struct mt_record_text *r)
{
	uint64_t first = __atomic_load_n(&record.first, __ATOMIC_ACQUIRE);
	uint32_t ahead = token - (uint32_t)first;
	if (ahead >= record.count)
		return; /* given up meanwhile */
	struct entry *e = entry_at(first + ahead);
	if (__atomic_load_n(&e->state, __ATOMIC_RELAXED) >= DONE)
		return;
	if (r)
		fill_entry(e, own_tid(), r);
	uint32_t state = r ? DONE : GONE;
	if (!set_state(e, UNDER_WAY, state))
		set_state(e, SEEN, state);
}

/* --- ends of threads ----------------------------------------------------------------------- */

#ifndef MT_BUILD_WRAP
enum { KEY_NONE = 0, KEY_BEING_MADE = 1, KEY_READY = 2 };

static struct {
	uint32_t state; /* KEY_..., atomic */
	unsigned key;
	int (*set)(unsigned key, const void *value);
} end;

/*
 * A thread's value counts the rounds of destructors: in the last one, so that what the others free
 * comes first.
 */
static void thread_ends(void *value)
{
	uintptr_t round = (uintptr_t)value;
	if (round < LAST_ROUND) {
		end.set(end.key, (void *)(round + 1));
		return;
	}
	struct mt_thread *t = mt_thread_self();
	struct mt_record_text e = {.type = MT_RECORD_TEXT_THREAD_DONE,
				   .end_ns = mt_record_text_now()};
	mt_record_text_end((uint32_t)take_position(), &e);
	if (t)
		t->text_tid = 0; /* the next thread with this number is another one */
}

/* The key is made at the first call of the first thread that makes one. 1: it is there. */
MT_COLD static int make_key(void)
{
	uint32_t none = KEY_NONE;
	int (*create)(unsigned *, void (*)(void *));
	if (!__atomic_compare_exchange_n(&end.state, &none, KEY_BEING_MADE, 0, __ATOMIC_ACQUIRE,
					 __ATOMIC_RELAXED))
		return none == KEY_READY;
	*(void **)&create = mt_provider_find("pthread_key_create");
	*(void **)&end.set = mt_provider_find("pthread_setspecific");
	int made = create && end.set && !create(&end.key, thread_ends);
	__atomic_store_n(&end.state, made ? KEY_READY : KEY_NONE, __ATOMIC_RELEASE);
	return made;
}

static void watch_end_of_thread(void)
{
	struct mt_thread *t = mt_thread_self();
	if (MT_LIKELY(!t || t->text_tid == t->tid) || mt_rt.sandboxed)
		return;
	t->text_tid = t->tid; /* first: what follows may allocate */
	if (__atomic_load_n(&end.state, __ATOMIC_ACQUIRE) == KEY_READY || make_key())
		end.set(end.key, (void *)1);
}
#else
static void watch_end_of_thread(void)
{
}
#endif

/* --- memory that is there ------------------------------------------------------------------ */

/* Bytes of the pages from `page` to `last` that are in memory, and of the block. */
static int64_t sum_present(int fd, uint64_t start, uint64_t end_at)
{
	uint64_t word[PIECE], sum = 0;
	uint64_t page = start / record.page, last = (end_at - 1) / record.page;
	while (page <= last) {
		uint64_t n = MT_MIN(last - page + 1, (uint64_t)PIECE);
		long got = mt_sys_pread(fd, word, n * sizeof(word[0]),
					(int64_t)(page * sizeof(word[0])));
		if (got != (long)(n * sizeof(word[0])))
			return MT_PRESENT_UNKNOWN;
		for (uint64_t i = 0; i < n; i++, page++) {
			uint64_t from = MT_MAX(start, page * record.page);
			uint64_t to = MT_MIN(end_at, (page + 1) * record.page);
			sum += word[i] >> 63 ? to - from : 0;
		}
	}
	return (int64_t)sum;
}

int64_t mt_record_text_present(const void *p, size_t size)
{
	uint64_t start = (uint64_t)p;
	if (!p || !size || start + size < start || record.no_pagemap || mt_rt.sandboxed)
		return MT_PRESENT_UNKNOWN;
	/* no descriptor is kept: the program may close all, and use its number */
	long fd = mt_sys_open("/proc/self/pagemap", MT_O_RDONLY | MT_O_CLOEXEC, 0);
	if (fd < 0)
		return MT_PRESENT_UNKNOWN;
	int64_t present = sum_present((int)fd, start, start + size);
	mt_sys_close((int)fd);
	return present;
}

/* --- the file ------------------------------------------------------------------------------ */

static struct mt_text_file out; /* guarded by record.writing */

static void put_number(struct mt_fmt *f, uint64_t value)
{
	mt_fmt_str(f, " ");
	mt_fmt_u64(f, value);
}

static void put_address(struct mt_fmt *f, const char *before, uint64_t address)
{
	mt_fmt_str(f, before);
	mt_fmt_str(f, " 0x");
	mt_fmt_hex(f, address, 1);
}

static void put_call(struct mt_fmt *f, const struct entry *e)
{
	switch (e->type) {
	case MT_RECORD_TEXT_MALLOC:
		put_address(f, "malloc", e->pointer);
		put_number(f, e->size);
		break;
	case MT_RECORD_TEXT_CALLOC:
		put_address(f, "calloc", e->pointer);
		put_number(f, e->other);
		put_number(f, e->size);
		break;
	case MT_RECORD_TEXT_MEMALIGN:
		put_address(f, "memalign", e->pointer);
		put_number(f, e->other);
		put_number(f, e->size);
		break;
	case MT_RECORD_TEXT_REALLOC:
		put_address(f, "realloc", e->pointer);
		put_address(f, "", e->other);
		put_number(f, e->size);
		break;
	case MT_RECORD_TEXT_FREE:
		put_address(f, "free", e->pointer);
		break;
	default:
		put_address(f, "thread_done", 0);
		break;
	}
}

static void put_line(const struct entry *e)
{
	struct mt_fmt *f = mt_text_file_room(&out, LINE_BYTES);
	int is_free = e->type == MT_RECORD_TEXT_FREE || e->type == MT_RECORD_TEXT_REALLOC;
	int has_present = is_free && e->present >= 0;
	mt_fmt_u64(f, e->tid);
	mt_fmt_str(f, ": ");
	put_call(f, e);
	if (e->type == MT_RECORD_TEXT_THREAD_DONE) {
		put_number(f, e->end_ns);
	} else if (has_present || e->start_ns || e->end_ns) {
		put_number(f, e->start_ns);
		put_number(f, e->end_ns);
	}
	if (has_present)
		put_number(f, (uint64_t)e->present);
	mt_fmt_str(f, "\n");
}

static uint32_t state_at(uint64_t position)
{
	/* DONE pairs with the release in set_state() */
	return __atomic_load_n(&entry_at(position)->state, __ATOMIC_ACQUIRE);
}

/* An entry whose call has not ended. */
static void look_at_unended(uint64_t position, uint32_t now_s)
{
	struct entry *e = entry_at(position);
	if (position < record.forked_at) {
		set_state(e, UNDER_WAY, GONE);
		set_state(e, SEEN, GONE);
	} else if (state_at(position) == UNDER_WAY) {
		e->seen_s = now_s;
		set_state(e, UNDER_WAY, SEEN);
	} else if (now_s - e->seen_s >= patience_s) {
		set_state(e, SEEN, GONE);
	}
}

/* Whole pages go back to the kernel. */
static void clear_entries(uint64_t i, uint64_t end_at)
{
	uint64_t per_page = record.page / sizeof(struct entry);
	uint64_t from = MT_ALIGN_UP(i, per_page), to = MT_ALIGN_DOWN(end_at, per_page);
	if (from >= to || mt_sys_madvise(&record.entry[from], (to - from) * sizeof(struct entry),
					 MT_MADV_DONTNEED))
		from = to = end_at;
	for (; i < from; i++)
		record.entry[i].state = UNDER_WAY;
	for (i = to; i < end_at; i++)
		record.entry[i].state = UNDER_WAY;
}

/* What begins at `first` and is gone belongs to nobody again. */
static void give_back(uint64_t end_at)
{
	uint64_t at = record.first;
	while (at < end_at && state_at(at) == GONE) {
		uint64_t i = at % record.count, n = 0;
		while (at + n < end_at && i + n < record.count && state_at(at + n) == GONE)
			n++;
		clear_entries(i, i + n);
		at += n;
	}
	__atomic_store_n(&record.first, at, __ATOMIC_RELEASE);
}

static void write_entries(uint64_t end_at)
{
	uint32_t now_s = (uint32_t)(mt_sys_clock_ns(MT_CLOCK_MONOTONIC) / 1000000000u);
	for (uint64_t at = record.first; at < end_at; at++) {
		struct entry *e = entry_at(at);
		uint32_t state = state_at(at);
		if (state == DONE && !out.err)
			put_line(e);
		if (state == DONE)
			__atomic_store_n(&e->state, GONE, __ATOMIC_RELAXED);
		else if (state != GONE)
			look_at_unended(at, now_s);
	}
	give_back(end_at);
}

static int has_entries(uint64_t end_at)
{
	for (uint64_t at = record.first; at < end_at; at++)
		if (state_at(at) == DONE)
			return 1;
	return 0;
}

static void write_file(int at_exit)
{
	uint64_t end_at = __atomic_load_n(&record.next, __ATOMIC_ACQUIRE);
	char name[MT_CHECK_PATH_MAX + 16];
	struct mt_fmt f;
	if (!has_entries(end_at)) {
		mt_log(MT_LOG_INFO, "No alloc entries to write.");
		return;
	}
	mt_fmt_init(&f, name, sizeof(name));
	mt_fmt_str(&f, record.file);
	if (at_exit) {
		mt_fmt_str(&f, ".");
		mt_fmt_u64(&f, (uint64_t)mt_sys_getpid());
	}
	int err = mt_text_file_open(&out, name, MT_O_WRONLY, 0600);
	if (err) {
		say_failed("Cannot create record alloc file ", name, err);
		return;
	}
	write_entries(end_at);
	err = mt_text_file_close(&out);
	if (err)
		say_failed("Failed to write record alloc information", "", err);
}

/* 1: nobody else writes. At exit the one who does is waited for: the process is about to end. */
static int take_turn(int at_exit)
{
	uint32_t tid = (uint32_t)mt_sys_gettid(), seen = 0, never = 0;
	struct mt_timespec pause = {0, TURN_PAUSE_NS};
	for (int n = 0; n < TURN_PAUSES; n++, seen = 0) {
		if (__atomic_compare_exchange_n(&record.writing, &seen, tid, 0, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return 1;
		if (!at_exit || seen == tid)
			break;
		mt_sys4(__NR_futex, &never, FUTEX_WAIT_PRIVATE, 0, &pause);
	}
	return 0;
}

void mt_record_text_write(int at_exit)
{
	if (!mt_record_text_is_on || (at_exit && !record.on_exit) ||
	    mt_rt.sandboxed == MT_SANDBOX_NO_CALLS)
		return;
	/* a handler that left by a jump would keep the turn */
	uint64_t signals = mt_sys_block_signals();
	if (take_turn(at_exit)) {
		write_file(at_exit);
		__atomic_store_n(&record.writing, 0, __ATOMIC_RELEASE);
	}
	mt_sys_restore_signals(signals);
}
