/* SPDX-License-Identifier: MIT */
/*
 * One function for each case of check mode, named by the argument. A case does what is written in
 * its row and says on standard output, without stdio (whose buffers are blocks too), what it saw:
 * lines "NAME NUMBER". Lines of standard error that begin with "-- " tell the driver (run_check.py)
 * where in the log something happened. Built without optimization and without builtins: each call
 * is made as written.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <unwind.h>

#include "say.h"

#define HEADER 32 /* bytes before the front guard on 64-bit machines */

static void *block(size_t size)
{
	byte *p = malloc(size);
	memset(p, 0, malloc_usable_size(p));
	return p;
}

/* --- on and off --- */

static void c001_nothing_wrong(void)
{
	free(realloc(malloc(10), 2000));
	free(calloc(3, 7));
	say("done", 1);
}

static void c001_wild_free(void)
{
	byte *p = malloc(100);
	free(p + 16);
	say("done", 1);
}

/* --- fill --- */

static void c054_malloc_is_filled(void)
{
	byte *p = malloc(1024);
	size_t usable = malloc_usable_size(p);
	say("usable", usable);
	say("wrong", wrong(p, usable, 0xeb));
	free(p);
}

static void c055_calloc_is_zero(void)
{
	byte *p = calloc(1, 1024);
	size_t usable = malloc_usable_size(p);
	say("usable", usable);
	say("wrong", wrong(p, usable, 0));
	free(p);
}

static void c056_memalign_is_filled(void)
{
	byte *p = memalign(128, 1024);
	size_t usable = malloc_usable_size(p);
	say("usable", usable);
	say("wrong", wrong(p, usable, 0xeb));
	say("misplaced", (uintptr_t)p % 128);
	free(p);
}

static void c057_shrinking_changes_no_byte(void)
{
	byte *p = malloc(2048);
	memset(p, 0xff, malloc_usable_size(p));
	p = realloc(p, 1024);
	size_t usable = malloc_usable_size(p);
	say("usable", usable);
	say("wrong", wrong(p, usable, 0xff));
	free(p);
}

static void c058_freed_memory_is_filled(void)
{
	byte *p = malloc(100);
	size_t usable = malloc_usable_size(p);
	memset(p, 0, usable);
	free(p);
	say("usable", usable);
	say("wrong", wrong(p, usable, 0xef));
}

static void c059_freed_memory_is_filled_in_part(void)
{
	byte *p = malloc(100);
	size_t usable = malloc_usable_size(p);
	memset(p, 0, usable);
	free(p);
	say("wrong", wrong(p, 30, 0xef));
	say("wrong_behind", wrong(p + 30, usable - 30, 0));
}

static void c060_only_the_filled_part_is_checked(void)
{
	byte *p[5];
	for (int i = 0; i < 5; i++)
		p[i] = block(100);
	say_pointer("p", p[0]);
	free(p[0]);
	memset(p[0], 0x20, 100);
	for (int i = 1; i < 5; i++)
		free(p[i]);
	mark("exit");
}

/* --- expand --- */

static void c061_usable_sizes_grow(void)
{
	void *p;
	say("malloc", malloc_usable_size(p = malloc(10)));
	free(p);
	say("calloc", malloc_usable_size(p = calloc(1, 20)));
	free(p);
	say("memalign", malloc_usable_size(p = memalign(128, 15)));
	say("misplaced", (uintptr_t)p % 128);
	free(p);
	say("aligned_alloc", malloc_usable_size(p = aligned_alloc(16, 16)));
	free(p);
	say("realloc_null", malloc_usable_size(p = realloc(NULL, 30)));
	say("realloc", malloc_usable_size(p = realloc(p, 100)));
	free(p);
}

static void c062_expansion_is_not_counted(void)
{
	say_pointer("p", malloc(10));
}

static void c063_expansion_is_not_counted_by_realloc(void)
{
	say_pointer("p", realloc(malloc(10), 20));
}

/* --- guard --- */

static void c064_front_guard(void)
{
	byte *p = malloc(100);
	say("wrong", wrong(p - 32, 32, 0xaa));
	memset(p, 0x55, 100);
	free(p);
}

static void c065_front_guard_through_realloc(void)
{
	byte *p = realloc(NULL, 100);
	size_t bad = wrong(p - 32, 32, 0xaa);
	memset(p, 1, 100);
	p = realloc(p, 200);
	bad += wrong(p - 32, 32, 0xaa) + wrong(p, 100, 1);
	memset(p, 2, 200);
	say("wrong", bad);
	say_pointer("last", realloc(p, 0));
}

static void c066_rear_guard_of_every_alignment(void)
{
	size_t bad = 0, misplaced = 0, usable = 0;
	for (size_t align = 1; align <= 256; align++) {
		size_t power = 1;
		while (power < align)
			power *= 2;
		byte *p = memalign(align, 100);
		bad += wrong(p + 100, 32, 0xbb);
		misplaced += (uintptr_t)p % power != 0;
		usable += malloc_usable_size(p) != 100;
		memset(p, 0, 100);
		free(p);
	}
	say("wrong", bad);
	say("misplaced", misplaced);
	say("usable", usable);
}

static void c067_rear_guard_overwritten(void)
{
	byte *p = malloc(100);
	say_pointer("p", p);
	p[130] = 0xbf;
	p[131] = 0;
	free(p);
}

static void c068_rear_guard_after_shrinking(void)
{
	byte *p = malloc(200), *q = realloc(p, 100);
	say_pointer("p", p);
	say_pointer("q", q);
	q[130] = 0xbf;
	q[131] = 0;
	free(q);
}

static void c069_odd_rear_guard(void)
{
	byte *p = malloc(13);
	say_pointer("p", p);
	p[13] = 0;
	p[19] = 0;
	p[20] = 0; /* behind the guard, in what the allocator rounds up */
	free(p);
}

static void c070_both_guards_overwritten(void)
{
	byte *p = malloc(8);
	say_pointer("p", p);
	p[-1] = 0;
	p[8] = 0;
	free(p);
	mark("freed");
}

static void c071_front_guard_alone_keeps_the_usable_size(void)
{
	byte *p = malloc(1);
	size_t usable = malloc_usable_size(p);
	memset(p, 0xaa, usable);
	byte *q = realloc(p, usable + 10);
	say("wrong", wrong(q, usable, 0xaa));
	say("grown", malloc_usable_size(q) >= usable + 10);
	free(q);
}

static void c072_malloc_of_nothing(void)
{
	byte *p = malloc(0);
	say("got", p != NULL);
	say("usable", malloc_usable_size(p));
	say("behind", p[1]);
	free(p);
}

static void c073_guards_are_not_checked_at_exit(void)
{
	memset(malloc(100), 0, 100);
	memset(malloc(200), 0, 200);
}

/* --- limits --- */

static void failed_calloc(size_t n, size_t size)
{
	errno = 0;
	void *p = calloc(n, size);
	say("null", p == NULL);
	say("errno", errno);
}

static void c074_calloc_of_too_much(void)
{
	failed_calloc(1, SIZE_MAX);
	failed_calloc(SIZE_MAX, 1);
	failed_calloc(SIZE_MAX / 100, 100);
	failed_calloc(((size_t)1 << 32) + 1, (size_t)1 << 32);
}

static void c075_failed_realloc_leaves_the_block(void)
{
	byte *p = malloc(100);
	memset(p, 0xd0, 100);
	say("null", realloc(p, SIZE_MAX) == NULL);
	say("wrong", wrong(p, 100, 0xd0));
	free(p);
}

static void c076_posix_memalign_refuses_alignments(void)
{
	void *p = &p;
	errno = 77;
	say("eleven", posix_memalign(&p, 11, 300));
	say("four", posix_memalign(&p, 4, 10));
	say("errno", errno);
	say("untouched", p == &p);
}

static void c077_posix_memalign_of_too_much(void)
{
	void *p = &p;
	errno = 77;
	say("status", posix_memalign(&p, 16, SIZE_MAX));
	say("errno", errno);
	say_pointer("p", p);
}

static void c078_aligned_alloc_is_strict(void)
{
	static const size_t pairs[][2] = {{64, 100}, {24, 48}, {0, 16}};
	for (int i = 0; i < 3; i++) {
		errno = 0;
		say_pointer("p", aligned_alloc(pairs[i][0], pairs[i][1]));
		say("errno", errno);
	}
}

static void c079_memalign_rounds_the_alignment(void)
{
	byte *p = memalign(3, 10), *q = memalign(33, 10);
	say("got", p && q);
	say("misplaced", (uintptr_t)p % 4 + (uintptr_t)q % 64);
	free(p);
	free(q);
}

/* --- pointers that are none --- */

static void c080_invalid_tag_of_malloc_usable_size(void)
{
	byte *p = malloc(100);
	say_pointer("p", p);
	p[-HEADER] = 0;
	say("usable", malloc_usable_size(p));
}

static void c081_invalid_tag_of_realloc_and_free(void)
{
	byte *p = malloc(100);
	byte tag = p[-HEADER];
	say_pointer("p", p);
	p[-HEADER] = 0;
	say_pointer("realloc", realloc(p, 200));
	free(p);
	p[-HEADER] = tag;
	mark("mended");
	free(p);
}

static void c082_double_free(void)
{
	byte *p = malloc(200);
	say_pointer("p", p);
	free(p);
	errno = 77;
	free(p);
	say("errno", errno);
	mark("goes on");
	free(malloc(200));
}

static sigjmp_buf back;

static void on_fault(int number)
{
	(void)number;
	siglongjmp(back, 1);
}

/* Calls free() so that it returns to address 0, and there is no caller to be found. */
static void free_for_nobody(void *p)
{
#if defined __x86_64__
	__asm__ volatile("mov %0, %%rdi; mov %1, %%rax; xor %%ebp, %%ebp; and $-16, %%rsp;"
			 "push $0; jmp *%%rax"
			 :
			 : "r"(p), "r"(free)
			 : "rdi", "rax");
#elif defined __aarch64__
	__asm__ volatile("mov x0, %0; mov x9, %1; mov x29, #0; mov x30, #0; br x9"
			 :
			 : "r"(p), "r"(free)
			 : "x0", "x9");
#endif
	__builtin_unreachable();
}

static void c083_no_frames(void)
{
	byte *p = malloc(100);
	say_pointer("p", p);
	free(p);
	signal(SIGSEGV, on_fault);
	if (!sigsetjmp(back, 1))
		free_for_nobody(p);
	mark("goes on");
}

__attribute__((noinline)) static void first_free(void *p)
{
	free(p);
}

static void c084_realloc_after_free(void)
{
	byte *p = malloc(200);
	say_pointer("p", p);
	first_free(p);
	say_pointer("realloc", realloc(p, 200));
	mark("exit");
}

static void c085_double_free_with_header(void)
{
	byte *p = malloc(200);
	say_pointer("p", p);
	first_free(p);
	free(p);
	mark("exit");
}

/* The quarantine holds two: were p in it twice, q would push it out. */
static void c085_one_entry_in_quarantine(void)
{
	byte *p = malloc(200), *q = malloc(200);
	size_t reused = 0;
	first_free(p);
	free(p);
	free(q);
	for (int i = 0; i < 100; i++)
		reused += malloc(200) == (void *)p;
	say("reused", reused);
}

static void c086_double_free_without_header(void)
{
	byte *p = malloc(200);
	say_pointer("p", p);
	first_free(p);
	free(p);
	mark("exit");
}

static void c087_double_free_without_stacks(void)
{
	c086_double_free_without_header();
}

static void c088_free_of_a_variable(void)
{
	byte variable[64] __attribute__((aligned(16)));
	say_pointer("p", variable);
	free(variable);
	mark("goes on");
}

static void c089_free_inside_a_block(void)
{
	byte *p = malloc(100);
	say_pointer("p", p);
	free(p + 1);
	mark("exit");
}

static void c090_free_of_a_small_number(void)
{
	free((void *)16);
	mark("goes on");
}

/* Runs before all constructors, the tracker's too (musl has no such list). */
static void *early_block;

static void early(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "c091_free_of_an_early_block"))
		early_block = malloc(50);
}

typedef void (*initializer)(int, char **);
__attribute__((section(".preinit_array"), used)) static const initializer preinit = early;

static void c091_free_of_an_early_block(void)
{
	say("early", early_block != NULL);
	free(early_block);
	early_block = NULL;
	for (int i = 0; i < 3; i++) { /* blocks that libc and the loader give back */
		FILE *f = fopen("/dev/null", "r");
		setvbuf(f, NULL, _IOFBF, 1000 * i);
		getc(f);
		fclose(f);
		setenv("SOME_NAME", "some value", 1);
		unsetenv("SOME_NAME");
	}
}

static void c092_free_after_a_failed_realloc(void)
{
	byte *p = malloc(10);
	errno = 0;
	say_pointer("realloc", realloc(p, SIZE_MAX / 4));
	say("errno", errno);
	free(p);
}

/* --- freed blocks --- */

static void c093_freed_blocks_untouched(void)
{
	for (int i = 0; i < 12; i++) {
		size_t size = i < 10 ? 100 + i : i == 10 ? 8192 : 9000;
		byte *p = malloc(size);
		memset(p, i, size);
		free(p);
	}
}

static void c094_freed_block_overwritten(void)
{
	byte *p = malloc(100);
	say_pointer("p", p);
	free(p);
	p[56] = 0x91;
	mark("exit");
}

static void c095_freed_block_with_header_overwritten(void)
{
	byte *p = malloc(200);
	say_pointer("p", p);
	first_free(p);
	p[101] = 0xab;
	mark("exit");
}

static void c096_freed_blocks_are_kept(void)
{
	byte *p[4];
	size_t reused[4] = {0};
	for (int i = 0; i < 4; i++)
		p[i] = malloc(100);
	for (int i = 0; i < 4; i++)
		free(p[i]);
	for (int n = 0; n < 1000; n++) {
		byte *q = malloc(100);
		for (int i = 0; i < 4; i++)
			reused[i] += q == p[i];
	}
	say("first", reused[0] <= 1);
	say("others", reused[1] + reused[2] + reused[3]);
}

static void c097_moved_block_is_kept(void)
{
	byte *p = malloc(100);
	say_pointer("p", p);
	byte *q = realloc(p, 5000);
	say("moved", q != p);
	p[0] = 'A';
	mark("exit");
}

static void c098_report_at_exit_aborts(void)
{
	c094_freed_block_overwritten();
}

/* --- leaks --- */

static void c099_leaks_by_size(void)
{
	say_pointer("p1", malloc(200));
	say_pointer("p2", malloc(128));
	say_pointer("p3", malloc(1024));
}

__attribute__((noinline)) static void *small_site(void)
{
	return malloc(100);
}

__attribute__((noinline)) static void *middle_site(void)
{
	return calloc(1, 128);
}

__attribute__((noinline)) static void *large_site(void)
{
	return realloc(NULL, 1024);
}

static void c100_leaks_with_stacks(void)
{
	say_pointer("p1", small_site());
	say_pointer("p2", middle_site());
	say_pointer("p3", large_site());
}

static void c101_leaks_do_not_abort(void)
{
	say_pointer("p", malloc(64));
	exit(3);
}

static void c102_equal_leaks(void)
{
	say_pointer("p", malloc(64));
	say_pointer("p", malloc(64));
	say_pointer("p", malloc(64));
}

__attribute__((noinline)) static void *deep(int levels)
{
	void *p = levels > 1 ? deep(levels - 1) : malloc(64);
	return p;
}

static void c103_deeper_stack_first(void)
{
	say_pointer("shallow", deep(3));
	say_pointer("deep", deep(6));
}

static void c103_deeper_stack_first_again(void)
{
	say_pointer("deep", deep(6));
	say_pointer("shallow", deep(3));
}

static void leak_sizes(const size_t *sizes)
{
	for (; *sizes; sizes++)
		say_pointer("p", malloc(*sizes));
}

static void c104_one_size_has_a_stack(void)
{
	leak_sizes((const size_t[]){119, 120, 121, 0});
}

static void c105_small_sizes_have_a_stack(void)
{
	leak_sizes((const size_t[]){1000, 1001, 5000, 0});
}

static void c106_a_range_of_sizes_has_a_stack(void)
{
	leak_sizes((const size_t[]){49, 50, 1000, 1001, 0});
}

static void c107_leaks_of_a_program_that_ends_at_once(void)
{
	malloc(64);
	_exit(0);
}

static void c108_leak_of_a_shrunk_block(void)
{
	say_pointer("p", realloc(malloc(100), 40));
}

/* --- the end --- */

static void *for_ever(void *unused)
{
	for (;;)
		free(malloc(100));
	return unused;
}

static void c157_exit_while_threads_allocate(void)
{
	pthread_t t;
	for (int i = 0; i < 32; i++)
		pthread_create(&t, NULL, for_ever, NULL);
	exit(30);
}

static void c158_order_at_exit(void)
{
	byte *p = malloc(300);
	say_pointer("p", p);
	first_free(p);
	p[7] = 7;
	say_pointer("q", malloc(400));
	mark("exit");
}

static void c159_standard_error_is_closed(void)
{
	say_pointer("p", malloc(64));
	close(2);
}

/* --- threads --- */

static volatile int stop;

static void *churn(void *seed)
{
	void *p[16] = {NULL};
	for (unsigned n = (unsigned)(uintptr_t)seed; !stop; n++) {
		free(p[n % 16]);
		p[n % 16] = malloc(n % 500);
	}
	for (int i = 0; i < 16; i++)
		free(p[i]);
	return NULL;
}

#ifdef __GLIBC__ /* musl's compiler has no unwinder to link */
static _Unwind_Reason_Code count_frame(struct _Unwind_Context *context, void *count)
{
	(void)context;
	++*(size_t *)count;
	return _URC_NO_REASON;
}

static void c160_unwinding_while_allocating(void)
{
	pthread_t t;
	size_t frames = 0;
	pthread_create(&t, NULL, churn, NULL);
	for (int i = 0; i < 1000; i++)
		_Unwind_Backtrace(count_frame, &frames);
	stop = 1;
	pthread_join(t, NULL);
	say("frames", frames >= 1000);
}
#endif

/* Children that allocate, while another thread does: fork holds the allocator's locks. */
static void c161_forks_while_allocating(void)
{
	pthread_t t[2];
	struct timespec now, start;
	size_t forks = 0, bad = 0;
	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, churn, NULL);
	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		int status = -1;
		pid_t child = fork();
		if (!child) {
			void *p = malloc(1000);
			free(realloc(p, 2000));
			_exit(7);
		}
		waitpid(child, &status, 0);
		bad += !WIFEXITED(status) || WEXITSTATUS(status) != 7;
		forks++;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec - start.tv_sec < seconds && forks < 2000);
	stop = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	say("forks", forks > 0);
	say("bad", bad);
}

static void c162_dump_of_a_live_program(void)
{
	pthread_t t[2];
	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, churn, NULL);
	for (int i = 0; i < 5; i++) {
		raise(SIGRTMAX - 17);
		free(malloc(10));
	}
	stop = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
}

#define CASE(name) \
	{ \
#name, name \
	}
static const struct say_case cases[] = {
	CASE(c001_nothing_wrong),
	CASE(c001_wild_free),
	CASE(c054_malloc_is_filled),
	CASE(c055_calloc_is_zero),
	CASE(c056_memalign_is_filled),
	CASE(c057_shrinking_changes_no_byte),
	CASE(c058_freed_memory_is_filled),
	CASE(c059_freed_memory_is_filled_in_part),
	CASE(c060_only_the_filled_part_is_checked),
	CASE(c061_usable_sizes_grow),
	CASE(c062_expansion_is_not_counted),
	CASE(c063_expansion_is_not_counted_by_realloc),
	CASE(c064_front_guard),
	CASE(c065_front_guard_through_realloc),
	CASE(c066_rear_guard_of_every_alignment),
	CASE(c067_rear_guard_overwritten),
	CASE(c068_rear_guard_after_shrinking),
	CASE(c069_odd_rear_guard),
	CASE(c070_both_guards_overwritten),
	CASE(c071_front_guard_alone_keeps_the_usable_size),
	CASE(c072_malloc_of_nothing),
	CASE(c073_guards_are_not_checked_at_exit),
	CASE(c074_calloc_of_too_much),
	CASE(c075_failed_realloc_leaves_the_block),
	CASE(c076_posix_memalign_refuses_alignments),
	CASE(c077_posix_memalign_of_too_much),
	CASE(c078_aligned_alloc_is_strict),
	CASE(c079_memalign_rounds_the_alignment),
	CASE(c080_invalid_tag_of_malloc_usable_size),
	CASE(c081_invalid_tag_of_realloc_and_free),
	CASE(c082_double_free),
	CASE(c083_no_frames),
	CASE(c084_realloc_after_free),
	CASE(c085_double_free_with_header),
	CASE(c085_one_entry_in_quarantine),
	CASE(c086_double_free_without_header),
	CASE(c087_double_free_without_stacks),
	CASE(c088_free_of_a_variable),
	CASE(c089_free_inside_a_block),
	CASE(c090_free_of_a_small_number),
	CASE(c091_free_of_an_early_block),
	CASE(c092_free_after_a_failed_realloc),
	CASE(c093_freed_blocks_untouched),
	CASE(c094_freed_block_overwritten),
	CASE(c095_freed_block_with_header_overwritten),
	CASE(c096_freed_blocks_are_kept),
	CASE(c097_moved_block_is_kept),
	CASE(c098_report_at_exit_aborts),
	CASE(c099_leaks_by_size),
	CASE(c100_leaks_with_stacks),
	CASE(c101_leaks_do_not_abort),
	CASE(c102_equal_leaks),
	CASE(c103_deeper_stack_first),
	CASE(c103_deeper_stack_first_again),
	CASE(c104_one_size_has_a_stack),
	CASE(c105_small_sizes_have_a_stack),
	CASE(c106_a_range_of_sizes_has_a_stack),
	CASE(c107_leaks_of_a_program_that_ends_at_once),
	CASE(c108_leak_of_a_shrunk_block),
	CASE(c157_exit_while_threads_allocate),
	CASE(c158_order_at_exit),
	CASE(c159_standard_error_is_closed),
#ifdef __GLIBC__
	CASE(c160_unwinding_while_allocating),
#endif
	CASE(c161_forks_while_allocating),
	CASE(c162_dump_of_a_live_program),
};

int main(int argc, char **argv)
{
	return say_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
