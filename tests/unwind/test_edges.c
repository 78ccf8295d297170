/* SPDX-License-Identifier: MIT */
/* Stacks of the unusual kind, each checked in every mode and against libunwind. */

#include <alloca.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <ucontext.h>

#include <cmocka.h>

#include "check.h"
#include "unwind/rowcache.h"
#include "unwind/stack.h"

#define OPAQUE __attribute__((noinline, noclone))
#define KEEP(p) __asm__ volatile("" : : "r"(p) : "memory")

static void expect_clean(void)
{
	assert_int_equal(check_result.wrong, 0);
	assert_int_equal(check_result.oracle_wrong, 0);
}

static int setup(void **cmocka_state)
{
	check_done();
	check_depth = 0;
	check_oracle = CHECK_SAME;
	memset(&check_result, 0, sizeof(check_result));
	return 0;
}

static void the_test_itself_is_a_complete_stack(void **s)
{
	fixture_hook();
	expect_clean();
	assert_int_equal(check_result.end, MT_STACK_COMPLETE);
	assert_true(check_result.count >= 4);
}

static int by_value(const void *a, const void *b)
{
	fixture_hook();
	return *(const int *)a - *(const int *)b;
}

static void a_callback_from_libc(void **s)
{
	int a[] = {3, 1, 2, 9, 7, 5, 4, 8};
	qsort(a, MT_ARRAY_LEN(a), sizeof(a[0]), by_value);
	expect_clean();
	assert_int_equal(check_result.end, MT_STACK_COMPLETE);
}

OPAQUE static int with_alloca(size_t n)
{
	char *p = alloca(n);
	memset(p, 1, n);
	fixture_hook();
	return p[n / 2];
}

OPAQUE static int realigned(int a, int b, int c, int d, int e, int f, int g, int h)
{
	double v[8] __attribute__((aligned(64)));
	KEEP(v);
	v[1] = g + h;
	fixture_hook();
	return (int)v[1] + a + b + c + d + e + f;
}

OPAQUE static int realigned_varargs(int n, ...)
{
	va_list ap;
	va_start(ap, n);
	double v[8] __attribute__((aligned(64)));
	char *p = alloca((size_t)n);
	v[0] = va_arg(ap, double);
	memset(p, 1, (size_t)n);
	KEEP(v);
	KEEP(p);
	fixture_hook();
	va_end(ap);
	return (int)v[0] + p[1];
}

static void frames_with_alloca_and_realignment(void **s)
{
	for (int i = 1; i < 50; i++) {
		with_alloca((size_t)i * 24);
		realigned(1, 2, 3, 4, 5, 6, 7, i);
		realigned_varargs(i + 16, 1.0);
	}
	expect_clean();
	assert_int_equal(check_result.end, MT_STACK_COMPLETE);
}

static volatile int handled;

static void on_signal(int sig)
{
	fixture_hook();
	handled++;
}

static void raise_on(int flags)
{
	struct sigaction sa = {.sa_handler = on_signal, .sa_flags = flags};
	sigaction(SIGUSR1, &sa, NULL);
	handled = 0;
	for (int i = 0; i < 3; i++)
		raise(SIGUSR1);
	assert_int_equal(handled, 3);
	expect_clean();
	assert_int_equal(check_result.end, MT_STACK_COMPLETE);
	assert_true(check_result.flags & MT_FRAME_EXACT_PC);
}

static void a_signal_handler(void **s)
{
	raise_on(0);
}

static void a_signal_handler_on_its_own_stack(void **s)
{
	stack_t own = {.ss_sp = fixture_zeros(65536), .ss_size = 65536};
	sigaltstack(&own, NULL);
	raise_on(SA_ONSTACK);
	fixture_hook();
	raise_on(0);
	expect_clean();
	own.ss_flags = SS_DISABLE;
	sigaltstack(&own, NULL);
	munmap(own.ss_sp, 65536);
}

#if defined(__x86_64__)
enum { TRAP_FLAG = 0x100 };

static volatile int stepping, steps, wrong_ends;
static uintptr_t outer[MT_DEPTH_MAX]; /* who called step_through() */
static uint32_t outer_count;

static void on_step(int sig)
{
	if (!stepping) /* the flag's own instructions move SP without a row */
		return;
	fixture_hook();
	steps++;
	uint32_t count = check_result.count;
	wrong_ends += check_result.end != MT_STACK_COMPLETE || count < outer_count ||
		      memcmp(check_result.ra + count - outer_count, outer,
			     outer_count * sizeof(outer[0]));
}

static int smaller(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* Functions that save every register, some below SP: a leaf has no need to move it. */
OPAQUE static int saves_all(int n)
{
	char text[64];
	int a[] = {3, 1, n, 9, 7, 5, 4, 8};
	qsort(a, MT_ARRAY_LEN(a), sizeof(a[0]), smaller);
	return snprintf(text, sizeof(text), "%s %.3f %d", "text", n / 7.0, a[3]);
}

OPAQUE static void stepped(void)
{
	stepping = 1;
	saves_all(11);
	stepping = 0;
}

OPAQUE static void step_through(int flags)
{
	struct sigaction sa = {.sa_handler = on_step, .sa_flags = flags};
	sigaction(SIGTRAP, &sa, NULL);
	steps = wrong_ends = 0;
	check_oracle = CHECK_ALONE; /* libunwind ends at some of the instructions */
	saves_all(11); /* its calls are bound: the resolver has no rows that we can follow */
	fixture_hook();
	outer_count = check_result.count - 1;
	memcpy(outer, check_result.ra + 1, outer_count * sizeof(outer[0]));
	__asm__ volatile("pushfq\n\torq %0, (%%rsp)\n\tpopfq" : : "i"(TRAP_FLAG) : "cc", "memory");
	stepped();
	__asm__ volatile("pushfq\n\tandq %0, (%%rsp)\n\tpopfq"
			 :
			 : "i"(~TRAP_FLAG)
			 : "cc", "memory");
	signal(SIGTRAP, SIG_DFL);
	assert_true(steps > 1000);
	assert_int_equal(wrong_ends, 0);
	expect_clean();
}

/* Behind the pops of an epilogue the caller's frame pointer is in the red zone. */
static void a_signal_at_every_instruction(void **s)
{
	step_through(0);
	stack_t own = {.ss_sp = fixture_zeros(65536), .ss_size = 65536};
	sigaltstack(&own, NULL);
	step_through(SA_ONSTACK);
	own.ss_flags = SS_DISABLE;
	sigaltstack(&own, NULL);
	munmap(own.ss_sp, 65536);
}
#endif

static void *in_thread(void *arg)
{
	struct check_result *result = arg;
	for (int i = 0; i < 200; i++) {
		with_alloca((size_t)(i % 7 + 1) * 16);
		fixture_hook();
	}
	*result = check_result;
	check_done();
	return NULL;
}

static void threads_at_the_same_time(void **s)
{
	enum { N = 4 };
	pthread_t t[N];
	static struct check_result result[N];
	for (int i = 0; i < N; i++)
		pthread_create(&t[i], NULL, in_thread, &result[i]);
	for (int i = 0; i < N; i++) {
		pthread_join(t[i], NULL);
		assert_int_equal(result[i].wrong, 0);
		assert_int_equal(result[i].oracle_wrong, 0);
		assert_int_equal(result[i].end, MT_STACK_COMPLETE);
		assert_true(result[i].memo_hits > 0);
	}
}

static ucontext_t main_context, co_context[2];
static int co_rounds;

OPAQUE static int co_deep(int n)
{
	char room[200];
	KEEP(room);
	if (n)
		return co_deep(n - 1) + room[0] * 0 + 1;
	fixture_hook();
	return 0;
}

static void co_body(void)
{
	for (;;) {
		co_deep(co_rounds % 5 + 3);
		fixture_hook();
		swapcontext(&co_context[0], &main_context);
	}
}

static void co_make(void *stack, size_t bytes)
{
	getcontext(&co_context[0]);
	co_context[0].uc_stack.ss_sp = stack;
	co_context[0].uc_stack.ss_size = bytes;
	co_context[0].uc_link = &main_context;
	makecontext(&co_context[0], co_body, 0);
}

static void coroutines_on_stacks_that_come_and_go(void **s)
{
	enum { BIG = 65536, SMALL = 16384 };
	check_oracle = CHECK_PREFIX;
	char *base = fixture_zeros(BIG);
	for (co_rounds = 0; co_rounds < 40; co_rounds++) {
		/* The same top of stack, over mappings of changing size with nothing below. */
		size_t bytes = co_rounds & 1 ? SMALL : BIG;
		munmap(base, BIG);
		char *low = base + BIG - bytes;
		assert_ptr_equal(mmap(low, bytes, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
				 low);
		co_make(low, bytes);
		for (int i = 0; i < 4; i++) {
			swapcontext(&main_context, &co_context[0]);
			fixture_hook();
		}
	}
	munmap(base, BIG);
	fixture_hook();
	expect_clean();
}

static void a_coroutine_stack_replaced_by_a_shorter_one(void **s)
{
	enum { BIG = 65536, SMALL = 8192 };
	check_oracle = CHECK_PREFIX;
	char *base = fixture_zeros(BIG);
	for (co_rounds = 0; co_rounds < 20; co_rounds++) {
		/* The upper part, where remembered words lie, is gone every other time. */
		munmap(base, BIG);
		size_t bytes = co_rounds & 1 ? SMALL : BIG;
		assert_ptr_equal(mmap(base, bytes, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
				 base);
		co_make(base, bytes);
		for (int i = 0; i < 4; i++)
			swapcontext(&main_context, &co_context[0]);
	}
	munmap(base, BIG);
	expect_clean();
}

static jmp_buf out;

OPAQUE static int deep_then_out(int n)
{
	char room[40];
	KEEP(room);
	if (!n) {
		fixture_hook();
		if (handled >= 0)
			longjmp(out, 1);
		return 0;
	}
	return deep_then_out(n - 1) + room[0] * 0;
}

static void longjmp_out_of_fifty_frames(void **s)
{
	for (volatile int i = 0; i < 30; i++) {
		if (!setjmp(out))
			deep_then_out(50 - i % 3);
		fixture_hook();
	}
	expect_clean();
	assert_int_equal(check_result.end, MT_STACK_COMPLETE);
}

OPAQUE static int recurse(int n)
{
	char room[64];
	KEEP(room);
	if (n % 9999 == 0)
		fixture_hook();
	int r = n ? recurse(n - 1) : 0;
	if (n % 7777 == 0)
		fixture_hook();
	KEEP(room);
	return r + 1;
}

static void *recurse_in_thread(void *arg)
{
	check_oracle = CHECK_ALONE;
	recurse(100000);
	*(struct check_result *)arg = check_result;
	check_done();
	return NULL;
}

static void recursion_a_hundred_thousand_deep(void **s)
{
	struct check_result result;
	pthread_attr_t attr;
	pthread_t t;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 << 20);
	pthread_create(&t, &attr, recurse_in_thread, &result);
	pthread_join(t, NULL);
	assert_int_equal(result.wrong, 0);
	assert_true(result.captures > 60);
}

static uint64_t dice = 12345;
static uint32_t roll(uint32_t n)
{
	dice = dice * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(dice >> 33) % n;
}

/* Functions that differ in frame size; a random path through them, with captures on the way. */
OPAQUE static int path_small(int n);
OPAQUE static int path_alloca(int n);
OPAQUE static int path_big(int n);
OPAQUE static int path_aligned(int n);
static int path_next(int n)
{
	switch (roll(8)) {
	case 0:
		return path_alloca(n);
	case 1:
		return path_aligned(n);
	case 2:
	case 3:
		return path_big(n);
	default:
		return path_small(n);
	}
}
#define PATH_BODY \
	if (roll(4) == 0) \
		fixture_hook(); \
	if (n > 0) { \
		int times = 1 + (int)roll(3) / 2; \
		while (times--) \
			r += path_next(n - 1); \
	} else { \
		fixture_hook(); \
	}
static int path_small(int n)
{
	int r = 0;
	PATH_BODY
	return r + 1;
}
static int path_alloca(int n)
{
	int r = 0;
	char *p = alloca(16 * (1 + roll(40)));
	/* not cleared: old return addresses of dead frames stay in it */
	KEEP(p);
	PATH_BODY
	return r + 1;
}
static int path_big(int n)
{
	int r = 0;
	char room[300];
	KEEP(room);
	PATH_BODY
	return r + 1;
}
static int path_aligned(int n)
{
	int r = 0;
	char room[64] __attribute__((aligned(64)));
	KEEP(room);
	PATH_BODY
	return r + 1;
}

static void random_paths_over_stale_memory(void **s)
{
	for (int i = 0; i < 60; i++)
		path_next(14);
	expect_clean();
	assert_true(check_result.joined > 100);
}

static void random_paths_cut_at_every_small_depth(void **s)
{
	for (uint32_t depth = 1; depth <= 20; depth++) {
		check_done();
		check_depth = depth;
		for (int i = 0; i < 6; i++)
			path_next(12);
	}
	expect_clean();
}

#if defined(__x86_64__)
void edge_no_info(void);
__asm__(".text\n.globl edge_no_info\n.type edge_no_info,@function\nedge_no_info:\n"
	"push %rbx\nxor %ebp, %ebp\nnot %rbp\ncall fixture_hook\npop %rbx\nret\n"
	".size edge_no_info,.-edge_no_info\n");
void edge_frame_pointer(void);
__asm__(".text\n.globl edge_frame_pointer\n.type edge_frame_pointer,@function\n"
	"edge_frame_pointer:\n"
	"push %rbp\nmov %rsp, %rbp\nsub $48, %rsp\ncall fixture_hook\nleave\nret\n"
	".size edge_frame_pointer,.-edge_frame_pointer\n");
/* push rbp; mov rbp, rsp (or two nops and a wild rbp); mov rax, f; call rax; pop rbp; ret */
static const uint8_t jit_code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0xb8, 0,    0,    0,
				   0,    0,    0,    0,    0,    0xff, 0xd0, 0x5d, 0xc3};
enum { JIT_TARGET = 6, JIT_MOVE = 1, JIT_MOVE_BYTES = 3 };

static void (*jit_make(int with_frame_pointer, void (*target)(void)))(void)
{
	uint8_t *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void (*made)(void);
	memcpy(code, jit_code, sizeof(jit_code));
	memcpy(code + JIT_TARGET, &target, sizeof(target));
	if (!with_frame_pointer) {
		static const uint8_t zero[] = {0x48, 0x31, 0xed}; /* xor rbp, rbp */
		memcpy(code + JIT_MOVE, zero, sizeof(zero));
	}
	memcpy(&made, &code, sizeof(made));
	return made;
}

static void code_without_information_stops_the_walk(void **s)
{
	check_oracle = CHECK_ALONE;
	__asm__ volatile("push %%rbp\nsub $8, %%rsp\ncall edge_no_info\nadd $8, %%rsp\npop %%rbp\n"
			 :
			 :
			 : "memory", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11",
			   "xmm0", "cc");
	expect_clean();
	assert_int_equal(check_result.end, MT_STACK_NO_INFO);
	assert_int_equal(check_result.count, 1);
}

static void a_frame_pointer_leads_out_of_code_without_information(void **s)
{
	check_oracle = CHECK_ALONE;
	for (int i = 0; i < 3; i++)
		edge_frame_pointer();
	expect_clean();
	assert_int_equal(check_result.end, MT_STACK_COMPLETE);
	assert_true(check_result.flags & MT_FRAME_BY_FP);
}

static void generated_code(void **s)
{
	check_oracle = CHECK_ALONE;
	for (int i = 0; i < 3; i++)
		jit_make(1, fixture_hook)();
	expect_clean();
	assert_int_equal(check_result.end, MT_STACK_COMPLETE);
	assert_true(check_result.flags & MT_FRAME_BY_FP);
	for (int i = 0; i < 3; i++)
		jit_make(0, fixture_hook)();
	expect_clean();
	assert_int_equal(check_result.end, MT_STACK_NO_INFO);
	assert_int_equal(check_result.count, 1);
}

enum { JIT_FRAMES = 40 };

/* Each generated function calls the one before; number `broken` does not keep the frame pointer. */
static void call_generated(int broken)
{
	void (*f)(void) = fixture_hook;
	for (int i = 0; i < JIT_FRAMES; i++)
		f = jit_make(i != broken, f);
	for (int i = 0; i < 3; i++)
		f();
	expect_clean();
}

static void generated_code_that_keeps_the_chain_is_walked(void **s)
{
	check_oracle = CHECK_ALONE;
	jit_make(1, fixture_hook)();
	uint32_t one = check_result.count;
	call_generated(-1);
	assert_int_equal(check_result.end, MT_STACK_COMPLETE);
	assert_int_equal(check_result.count, one + JIT_FRAMES); /* and call_generated() */
	uint32_t known = 0; /* the next stack through this code needs no call to look at it */
	for (uint32_t i = 0; i < MT_LINKS; i++)
		known += mt_unwind.rows->link[i] != 0;
	assert_true(known > JIT_FRAMES / 2);
}

static void chain_that_leads_nowhere_is_not_believed(void **s)
{
	check_oracle = CHECK_ALONE;
	for (int broken = 1; broken < JIT_FRAMES; broken += 13) {
		call_generated(broken);
		assert_int_equal(check_result.end, MT_STACK_NO_INFO);
		assert_int_equal(check_result.count, 1);
	}
}
#endif

static void verdicts_on_code_are_kept_for_their_list(void **s)
{
	struct mt_row_cache *rows = fixture_zeros(mt_row_cache_bytes());
	uintptr_t at = 0x7f0012345678;

	mt_row_cache_flush(rows, 5);
	mt_row_cache_learn_link(rows, at, 5, 3);
	assert_int_equal(mt_row_cache_link(rows, at, 5), 3);
	assert_int_equal(mt_row_cache_link(rows, at, 6), 0);
	assert_int_equal(mt_row_cache_link(rows, at ^ 0x1001, 5), 0); /* the same word */
	mt_row_cache_flush(rows, 6);
	assert_int_equal(mt_row_cache_link(rows, at, 5), 0);
	mt_row_cache_learn_link(rows, at | (uintptr_t)1 << 60, 6,
				3); /* too high to be told apart */
	assert_int_equal(mt_row_cache_link(rows, at | (uintptr_t)1 << 60, 6), 0);
	assert_int_equal(mt_row_cache_link(rows, at, 6), 0);
	munmap(rows, mt_row_cache_bytes());
}

static void a_page_is_asked_about_once_in_a_capture(void **s)
{
	struct mt_stack_asked asked = {0}, later = {0};
	char *two = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uintptr_t at = (uintptr_t)two;

	assert_true(mt_stack_probe_bytes(&asked, at + 8, at + 24));
	assert_true(mt_stack_probe_bytes(&asked, at + 4000, at + 4016));
	assert_int_equal(asked.count, 1);
	assert_true(mt_stack_probe_bytes(&asked, at + 4090, at + 4100)); /* on both */
	assert_int_equal(asked.count, 2);
	munmap(two, 8192);
	assert_int_equal(mt_stack_probe_bytes(&later, at + 8, at + 24), 0);
	assert_int_equal(later.count, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup(f, setup)
		T(the_test_itself_is_a_complete_stack),
		T(a_callback_from_libc),
		T(frames_with_alloca_and_realignment),
		T(a_signal_handler),
		T(a_signal_handler_on_its_own_stack),
#if defined(__x86_64__)
		T(a_signal_at_every_instruction),
#endif
		T(threads_at_the_same_time),
		T(coroutines_on_stacks_that_come_and_go),
		T(a_coroutine_stack_replaced_by_a_shorter_one),
		T(longjmp_out_of_fifty_frames),
		T(recursion_a_hundred_thousand_deep),
		T(random_paths_over_stale_memory),
		T(random_paths_cut_at_every_small_depth),
		T(verdicts_on_code_are_kept_for_their_list),
		T(a_page_is_asked_about_once_in_a_capture),
#if defined(__x86_64__)
		T(code_without_information_stops_the_walk),
		T(a_frame_pointer_leads_out_of_code_without_information),
		T(generated_code),
		T(generated_code_that_keeps_the_chain_is_walked),
		T(chain_that_leads_nowhere_is_not_believed),
#endif
	};
	fixture_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
