/* SPDX-License-Identifier: MIT */
#include "check.h"

#include "walk.h"

#ifdef HAVE_LIBUNWIND
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#else
#include <unwind.h>
#endif

#if defined(__x86_64__)
__asm__(".text\n.globl fixture_hook\n.type fixture_hook,@function\nfixture_hook:\n.cfi_startproc\n"
	"lea 8(%rsp), %rdi\nmov (%rsp), %rsi\nmov %rbp, %rdx\n"
	"sub $8, %rsp\n.cfi_adjust_cfa_offset 8\ncall fixture_hooked\n"
	"add $8, %rsp\n.cfi_adjust_cfa_offset -8\nret\n.cfi_endproc\n"
	".size fixture_hook, .-fixture_hook\n");
#else
__asm__(".text\n.globl fixture_hook\n.type fixture_hook,@function\nfixture_hook:\n.cfi_startproc\n"
	"mov x0, sp\nmov x1, x30\nmov x2, x29\n"
	"stp x29, x30, [sp, #-16]!\n.cfi_adjust_cfa_offset 16\n.cfi_rel_offset x29, 0\n"
	".cfi_rel_offset x30, 8\nbl fixture_hooked\nldp x29, x30, [sp], #16\n"
	".cfi_adjust_cfa_offset -16\n.cfi_restore x29\n.cfi_restore x30\nret\n.cfi_endproc\n"
	".size fixture_hook, .-fixture_hook\n");
#endif

enum { TOKENS_MAX = 1 << 14, MODES = 3 };
enum mode { MODE_MEMO, MODE_JOIN, MODE_WALK };

/* A stack that a token stands for. */
struct stack {
	uint32_t count, end;
	uintptr_t ra[MT_DEPTH_MAX];
};

struct thread_state {
	struct mt_capture *capture[MODES];
	struct stack *stack; /* by token */
	uint32_t tokens;
	struct stack reference, got;
	uintptr_t oracle[4096];
};

__thread struct check_result check_result;
__thread enum check_oracle check_oracle;
__thread uint32_t check_depth;
static __thread struct thread_state *state;

static void start(void)
{
	uint32_t depth = check_depth ? check_depth : MT_DEPTH_MAX;
	state = fixture_zeros(sizeof(*state));
	state->stack = fixture_zeros(sizeof(struct stack) * TOKENS_MAX);
	for (int m = 0; m < MODES; m++)
		state->capture[m] = fixture_capture_new(depth);
	mt_capture_memo_attach(state->capture[MODE_JOIN], NULL);
	mt_capture_memo_attach(state->capture[MODE_WALK], NULL);
	state->tokens = 1;
}

void check_done(void)
{
	if (!state)
		return;
	for (int m = 0; m < MODES; m++)
		munmap(state->capture[m], sizeof(struct mt_capture));
	munmap(state->stack, sizeof(struct stack) * TOKENS_MAX);
	munmap(state, sizeof(*state));
	state = NULL;
}

static void take_frames(const struct mt_capture *c, struct stack *ret)
{
	ret->count = c->count;
	ret->end = c->end;
	for (uint32_t i = 0; i < c->count; i++)
		ret->ra[i] = c->frame[c->count - 1 - i].ra;
}

static void report(const char *what, const struct stack *got)
{
	const struct stack *want = &state->reference;
	if (check_result.wrong + check_result.oracle_wrong > 3)
		return;
	fprintf(stderr, "# %s: %u frames, end %u; reference %u, end %u\n", what, got->count,
		got->end, want->count, want->end);
	for (uint32_t i = 0; i < got->count || i < want->count; i++)
		fprintf(stderr, "#   %3u %lx %lx\n", i, i < got->count ? (long)got->ra[i] : 0,
			i < want->count ? (long)want->ra[i] : 0);
}

/* One capture in one mode, against the reference. */
static void capture(enum mode mode, uintptr_t sp, uintptr_t ra, uintptr_t fp)
{
	static const char *const name[] = {"memo", "join", "walk"};
	struct mt_capture *c = state->capture[mode];
	const struct stack *want = &state->reference, *got = &state->got;
	if (mode == MODE_WALK)
		mt_capture_reset(c);
	uint32_t token = mt_capture_stack(c, sp, ra, fp, 7);
	if (token) {
		got = &state->stack[token];
	} else {
		take_frames(c, &state->got);
		if (state->tokens < TOKENS_MAX && mode != MODE_WALK) {
			state->stack[state->tokens] = state->got;
			mt_capture_remember(c, state->tokens++);
		}
	}
	check_result.captures++;
	if (got->count != want->count || got->end != want->end ||
	    memcmp(got->ra, want->ra, want->count * sizeof(want->ra[0]))) {
		check_result.wrong++;
		report(name[mode], got);
	}
}

#ifdef HAVE_LIBUNWIND
static uint32_t oracle_walk(uintptr_t ra, uintptr_t *ret, uint32_t max)
{
	unw_context_t context;
	unw_cursor_t cursor;
	unw_word_t ip;
	uint32_t n = 0;
	int found = 0;
	unw_getcontext(&context);
	unw_init_local(&cursor, &context);
	do {
		unw_get_reg(&cursor, UNW_REG_IP, &ip);
		found = found || ip == ra;
		if (found && ip)
			ret[n++] = ip;
	} while (n < max && unw_step(&cursor) > 0);
	return n;
}
#else
struct oracle {
	uintptr_t *ret;
	uint32_t max, n;
	uintptr_t ra;
	int found;
};

static _Unwind_Reason_Code oracle_frame(struct _Unwind_Context *context, void *arg)
{
	struct oracle *o = arg;
	int exact;
	uintptr_t ip = _Unwind_GetIPInfo(context, &exact);
	o->found = o->found || ip == o->ra;
	if (o->found && ip && o->n < o->max)
		o->ret[o->n++] = ip;
	return o->n < o->max ? _URC_NO_REASON : _URC_END_OF_STACK;
}

static uint32_t oracle_walk(uintptr_t ra, uintptr_t *ret, uint32_t max)
{
	struct oracle o = {.ret = ret, .max = max, .ra = ra};
	_Unwind_Backtrace(oracle_frame, &o);
	return o.n;
}
#endif

static void compare_with_oracle(uintptr_t ra)
{
	const struct stack *got = &state->reference;
	const struct mt_capture *c = state->capture[MODE_WALK];
	uint32_t n = oracle_walk(ra, state->oracle, MT_ARRAY_LEN(state->oracle)), bad = 0;
	for (uint32_t i = 0; i < got->count; i++) {
		uint32_t flags = c->frame[c->count - 1 - i].flags;
		uintptr_t want = i < n ? state->oracle[i] : 0;
		if (got->ra[i] - ((flags & MT_FRAME_EXACT_PC) != 0) != want)
			bad = 1;
	}
	if (check_oracle == CHECK_SAME && got->end == MT_STACK_COMPLETE && got->count != n)
		bad = 1;
	if (check_oracle == CHECK_SAME && got->end != MT_STACK_COMPLETE &&
	    got->end != MT_STACK_DEPTH)
		bad = 1;
	if (!bad)
		return;
	check_result.oracle_wrong++;
	struct stack other = {.count = MT_MIN(n, (uint32_t)MT_DEPTH_MAX)};
	memcpy(other.ra, state->oracle, other.count * sizeof(other.ra[0]));
	report("other unwinder", &other);
}

void fixture_hooked(uintptr_t sp, uintptr_t ra, uintptr_t fp)
{
	if (!state)
		start();
	enum mt_stack_end end;
	struct stack *want = &state->reference;
	want->count = mt_walk_reference(sp, ra, fp, want->ra, state->capture[0]->depth_max, &end);
	want->end = end;
	for (int m = 0; m < MODES; m++)
		capture((enum mode)m, sp, ra, fp);
	if (check_oracle != CHECK_ALONE)
		compare_with_oracle(ra);
	struct mt_capture *c = state->capture[MODE_WALK];
	check_result.memo_hits = mt_capture_memo_hits(state->capture[MODE_MEMO]);
	check_result.joined = state->capture[MODE_JOIN]->counts.joined;
	check_result.count = want->count;
	check_result.end = end;
	memcpy(check_result.ra, want->ra, want->count * sizeof(want->ra[0]));
	check_result.flags = 0;
	for (uint32_t i = 0; i < c->count; i++)
		check_result.flags |= c->frame[i].flags;
}
