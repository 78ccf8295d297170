/* SPDX-License-Identifier: MIT */
/*
 * The handler of faults in the pool of guarded blocks, and the host's own beside it.
 *
 * Ours is the one that the kernel knows, from the start of the tracker on. What the host sets by
 * sigaction() or signal() for the same signal is kept here, is what the host reads back, and is
 * what runs for every fault that is not ours: by a jump, with the same arguments, on the same stack
 * and with the signal mask that it asked for. Where the host has no handler, the default action is
 * put in force and the access made again: the kernel then does what it would have done.
 *
 * The work is done on a stack of our own, one fault at a time: a thread's alternate stack may be as
 * small as a signal's frame.
 */
#include "runtime/guard.h"

#include "core/mem.h"
#include "core/sys.h"
#include "runtime/action.h"
#include "runtime/check_signal.h"
#include "runtime/program_errno.h"
#include "runtime/provider.h"

#if defined(__x86_64__)
/* Returns from a handler; as libc's own, these bytes tell debuggers and unwinders what it is. */
__asm__(".text\n.balign 16\n.globl mt_fault_restorer\n.hidden mt_fault_restorer\n"
	".type mt_fault_restorer, @function\n"
	"nop\nmt_fault_restorer:\n"
	".byte 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05\n" /* mov $15, %rax; syscall */
	".size mt_fault_restorer, .-mt_fault_restorer\n");
#endif

#ifndef MT_BUILD_WRAP

enum {
	SIGNAL = 11, /* SIGSEGV: Linux raises no other for a protected page of private memory */
	CODE_PROTECTED = 2, /* SEGV_ACCERR */
	SLOTS = 16,         /* of actions: one is read while others are set */
	STACK_BYTES = 65536,
	TURN_ROUNDS = 100000,
};

/* As both C libraries have it. */
struct public_action {
	void (*handler)(int, void *, void *);
	uint64_t mask[16];
	int flags;
	void (*restorer)(void);
};

typedef int (*sigaction_function)(int, const struct public_action *, struct public_action *);
typedef void (*handler_function)(int, void *, void *);

static struct {
	struct mt_action slot[SLOTS];
	uint32_t current; /* slot of the host's action, atomic */
	uint32_t next;    /* atomic */
	uint32_t is_up;   /* 1: our handler is in force */
	uint32_t turn;    /* 1: a thread is on our stack, atomic */
	char *stack;
} fault;

/* --- the host's action --------------------------------------------------------------------- */

static struct mt_action host_action(void)
{
	return fault.slot[__atomic_load_n(&fault.current, __ATOMIC_ACQUIRE)];
}

/* The one before. */
static struct mt_action set_host_action(const struct mt_action *a)
{
	uint32_t n = __atomic_add_fetch(&fault.next, 1, __ATOMIC_RELAXED) % SLOTS;
	fault.slot[n] = *a;
	return fault.slot[__atomic_exchange_n(&fault.current, n, __ATOMIC_ACQ_REL)];
}

/* --- the handler --------------------------------------------------------------------------- */

#define AT(type, base, offset) (*(const type *)((const char *)(base) + (offset)))

#if defined(__x86_64__)
enum { CONTEXT_PC = 168, CONTEXT_ERROR = 192, ERROR_WRITE = 2, ERROR_FETCH = 16 };

/* 1: an instruction was to be executed there. */
static int read_context(const void *context, struct mt_guard_fault *f)
{
	uint64_t error = AT(uint64_t, context, CONTEXT_ERROR);
	f->pc = AT(uint64_t, context, CONTEXT_PC);
	f->access = error & ERROR_WRITE ? MT_ACCESS_WRITE : MT_ACCESS_READ;
	return (error & ERROR_FETCH) != 0;
}

#if defined(__SSE2__) /* the tests' build; the image has general registers only */
#define VECTORS \
	, "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
		"xmm11", "xmm12", "xmm13", "xmm14", "xmm15"
#else
#define VECTORS
#endif

/* Calls f(x) on another stack. */
static void call_on(char *top, void (*f)(void *), void *x)
{
	__asm__ volatile("movq %%rsp, %%rbx\n\tmovq %0, %%rsp\n\tcall *%1\n\tmovq %%rbx, %%rsp"
			 : "+r"(top), "+r"(f), "+D"(x)
			 :
			 : "rbx", "rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory",
			   "cc" VECTORS);
}
#else
enum { CONTEXT_PC = 176 + 8 + 256, CONTEXT_MORE = 464, MORE_BYTES = 4096 };
enum { ESR_MAGIC = 0x45535201, ESR_CLASS = 26, CLASS_FETCH_USER = 0x20, CLASS_DATA_USER = 0x24 };

/* 1: an instruction was to be executed there. */
static int read_context(const void *context, struct mt_guard_fault *f)
{
	const char *more = (const char *)context + CONTEXT_MORE;
	uint64_t esr = 0;
	f->pc = AT(uint64_t, context, CONTEXT_PC);
	for (uint32_t at = 0; at + 16 <= MORE_BYTES && AT(uint32_t, more, at);) {
		uint32_t bytes = AT(uint32_t, more, at + 4);
		if (AT(uint32_t, more, at) == ESR_MAGIC)
			esr = AT(uint64_t, more, at + 8);
		if (esr || bytes < 16)
			break;
		at += bytes;
	}
	f->access = esr >> ESR_CLASS != CLASS_DATA_USER ? MT_ACCESS_UNKNOWN
		    : esr & 1 << 6                      ? MT_ACCESS_WRITE
							: MT_ACCESS_READ;
	return esr >> ESR_CLASS == CLASS_FETCH_USER;
}

static void call_on(char *top, void (*f)(void *), void *x)
{
	register void *x0 __asm__("x0") = x;
	register char *x19 __asm__("x19") = top;
	register void (*x20)(void *) __asm__("x20") = f;
	__asm__ volatile("mov x21, sp\n\tmov sp, x19\n\tblr x20\n\tmov sp, x21"
			 : "+r"(x0), "+r"(x19), "+r"(x20)
			 :
			 : "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11",
			   "x12", "x13", "x14", "x15", "x16", "x17", "x21", "x30", "memory", "cc");
}
#endif

/* What is worked out on the other stack. */
struct work {
	struct mt_guard_fault fault;
	struct mt_caller at;
	enum mt_guard_verdict verdict;
};

static void judge(void *opaque)
{
	struct work *w = opaque;
	w->verdict = mt_guard_judge(&w->fault, &w->at);
}

/* 1: the stack is ours; 0 after a bounded wait. */
static int take_turn(void)
{
	for (int i = 0; i < TURN_ROUNDS; i++) {
		uint32_t is_free = 0;
		if (__atomic_compare_exchange_n(&fault.turn, &is_free, 1, 0, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return 1;
		if (mt_rt.sandboxed)
			return 0;
		mt_sys_sched_yield();
	}
	return 0;
}

/* Whether the fault is of the pool, and what is to be done then. */
MT_NOINLINE static enum mt_guard_verdict look_at(const void *info, const void *context)
{
	struct work w = {.at = MT_CALLER()};
	w.fault.address = AT(uint64_t, info, 16);
	w.fault.signal = SIGNAL;
	if (AT(int, info, 8) != CODE_PROTECTED || !mt_guard_holds((const void *)w.fault.address) ||
	    read_context(context, &w.fault))
		return MT_GUARD_NOT_OURS;
	uint64_t signals = mt_rt.sandboxed ? 0 : mt_sys_block_signals();
	w.verdict = MT_GUARD_NOT_OURS;
	if (take_turn()) {
		call_on(fault.stack + STACK_BYTES, judge, &w);
		__atomic_store_n(&fault.turn, 0, __ATOMIC_RELEASE);
	}
	if (!mt_rt.sandboxed)
		mt_sys_restore_signals(signals);
	return w.verdict;
}

/* The kernel is to do what it does without a handler. */
static void default_action(void *info)
{
	struct mt_action none = {0};
	mt_action_set(SIGNAL, &none, NULL);
	if (AT(int, info, 8) <= 0) /* sent by somebody: no access raises it again */
		mt_sys4(__NR_rt_tgsigqueueinfo, mt_sys_getpid(), mt_sys_gettid(), SIGNAL, info);
}

/* The host's handler, with the mask that it is to run under; NULL: there is nothing to call. */
MT_NOINLINE static handler_function prepare_host(void *info)
{
	struct mt_action a = host_action();
	if ((uintptr_t)a.handler == MT_HANDLER_IGNORE && AT(int, info, 8) <= 0)
		return NULL;
	if (!mt_action_is_function(&a)) {
		default_action(info);
		return NULL;
	}
	if (a.flags & (unsigned)MT_ACTION_ONCE) {
		struct mt_action once = a;
		once.handler = (handler_function)MT_HANDLER_DEFAULT;
		set_host_action(&once);
	}
	if (a.mask)
		mt_sys4(__NR_rt_sigprocmask, 0 /* SIG_BLOCK */, &a.mask, 0, sizeof(a.mask));
	if (a.flags & MT_ACTION_NO_DEFER) {
		uint64_t own = 1ull << (SIGNAL - 1);
		if (!(a.mask & own))
			mt_sys4(__NR_rt_sigprocmask, 1 /* SIG_UNBLOCK */, &own, 0, sizeof(own));
	}
	return a.handler;
}

/* The last step is a jump: the host's handler stands where the kernel would have put it. */
static void on_fault(int number, void *info, void *context)
{
	if (look_at(info, context) == MT_GUARD_GO_ON)
		return;
	handler_function host = prepare_host(info);
	if (host)
		host(number, info, context);
}

/* --- start --------------------------------------------------------------------------------- */

int mt_fault_begin(void)
{
	struct mt_action ours = {
		.handler = on_fault,
		.flags = MT_ACTION_SIGINFO | MT_ACTION_ON_STACK,
	};
	struct mt_action before = {0};
	/* pages behind both ends: an overflow of this stack is not silent */
	enum { EDGE = 65536, ALL = STACK_BYTES + 2 * EDGE };
	long at = mt_sys_mmap(NULL, ALL, MT_PROT_NONE,
			      MT_MAP_PRIVATE | MT_MAP_ANONYMOUS | MT_MAP_NORESERVE, -1, 0);
	if (mt_sys_is_error(at))
		return (int)at;
	fault.stack = (char *)at + EDGE;
	mt_sys3(__NR_mprotect, fault.stack, STACK_BYTES, MT_PROT_READ | MT_PROT_WRITE);
	mt_action_complete(&ours);
	mt_action_set(SIGNAL, NULL, &before);
	set_host_action(&before);
	long err = mt_action_set(SIGNAL, &ours, NULL);
	fault.is_up = err == 0;
	return (int)err;
}

void mt_fault_forget(void)
{
	fault.turn = 0;
}

/* What the C library adds, and its callers read back. */
#if defined(__x86_64__)
enum { LIBC_FLAGS = MT_ACTION_RESTORER };
#else
enum { LIBC_FLAGS = 0 };
#endif

/* --- what the host sees -------------------------------------------------------------------- */

/* A child that shares our memory (vfork) has actions of its own: they are not to be kept here. */
static int is_kept(int number)
{
	return number == SIGNAL && fault.is_up && (mt_rt.sandboxed || mt_sys_getpid() == mt_rt.pid);
}

static void read_public(const struct public_action *from, struct mt_action *ret)
{
	ret->handler = from->handler;
	ret->flags = (unsigned)from->flags | LIBC_FLAGS;
	ret->restorer = from->restorer;
	ret->mask = from->mask[0];
}

static void write_public(const struct mt_action *from, struct public_action *to)
{
	to->handler = from->handler;
	mt_mem_zero(to->mask, sizeof(to->mask));
	to->mask[0] = from->mask;
	to->flags = (int)from->flags;
	to->restorer = from->restorer;
}

static int keep_action(const struct public_action *wanted, struct public_action *old)
{
	struct mt_action a, before;
	if (wanted) {
		read_public(wanted, &a);
		before = set_host_action(&a);
	} else {
		before = host_action();
	}
	if (old)
		write_public(&before, old);
	return 0;
}

/* The function behind ours, looked up once. */
static void *original(void **place, const char *name)
{
	void *f = __atomic_load_n(place, __ATOMIC_RELAXED);
	if (MT_UNLIKELY(!f)) {
		f = mt_provider_find(name);
		__atomic_store_n(place, f, __ATOMIC_RELAXED);
	}
	return f;
}

/* Where the C library's function cannot be found (a lock was not to be had): the kernel's. */
static int set_action_raw(int number, const struct public_action *wanted, struct public_action *old)
{
	struct mt_action a = {0}, before = {0};
	if (wanted)
		read_public(wanted, &a);
#if defined(__x86_64__)
	a.restorer = mt_fault_restorer;
#endif
	long err = mt_action_set(number, wanted ? &a : NULL, &before);
	if (err)
		mt_errno_set((int)-err);
	if (!err && old)
		write_public(&before, old);
	return err ? -1 : 0;
}

static int set_action(void **place, const char *name, int number,
		      const struct public_action *wanted, struct public_action *old)
{
	if (is_kept(number))
		return keep_action(wanted, old);
	sigaction_function f = (sigaction_function)original(place, name);
	int err = f ? f(number, wanted, old) : set_action_raw(number, wanted, old);
	if (!err && wanted)
		mt_check_signal_taken(number);
	return err;
}

#define DEFINE_SIGACTION(name) \
	MT_PUBLIC int name(int number, const struct public_action *wanted, \
			   struct public_action *old); \
	MT_PUBLIC int name(int number, const struct public_action *wanted, \
			   struct public_action *old) \
	{ \
		static void *found; \
		return set_action(&found, #name, number, wanted, old); \
	}

DEFINE_SIGACTION(sigaction)
DEFINE_SIGACTION(__sigaction)

/* flags, and whether the signal itself is in the mask: as the C library's function of that name. */
static handler_function keep_handler(handler_function handler, unsigned flags, int masks_itself)
{
	struct mt_action a = {.handler = handler, .flags = flags | LIBC_FLAGS};
	a.mask = masks_itself ? 1ull << (SIGNAL - 1) : 0;
	return set_host_action(&a).handler;
}

static handler_function set_handler_raw(int number, handler_function handler, unsigned flags,
					int masks_itself)
{
	struct public_action a = {.handler = handler, .flags = (int)flags}, old;
	if (masks_itself && number >= 1 && number <= 64)
		a.mask[0] = 1ull << (number - 1);
	return set_action_raw(number, &a, &old) ? (handler_function)UINTPTR_MAX : old.handler;
}

#define DEFINE_SIGNAL(name, flags, masks_itself) \
	MT_PUBLIC handler_function name(int number, handler_function handler); \
	MT_PUBLIC handler_function name(int number, handler_function handler) \
	{ \
		static void *found; \
		handler_function (*f)(int, handler_function); \
		if (is_kept(number) && (uintptr_t)handler != UINTPTR_MAX) \
			return keep_handler(handler, flags, masks_itself); \
		f = (handler_function(*)(int, handler_function))original(&found, #name); \
		handler_function old = f ? f(number, handler) \
					 : set_handler_raw(number, handler, flags, masks_itself); \
		if ((uintptr_t)old != UINTPTR_MAX) \
			mt_check_signal_taken(number); \
		return old; \
	}

DEFINE_SIGNAL(signal, MT_ACTION_RESTART, 1)
DEFINE_SIGNAL(bsd_signal, MT_ACTION_RESTART, 1)
DEFINE_SIGNAL(ssignal, MT_ACTION_RESTART, 1)
DEFINE_SIGNAL(sysv_signal, (unsigned)MT_ACTION_ONCE | MT_ACTION_NO_DEFER, 0)
DEFINE_SIGNAL(__sysv_signal, (unsigned)MT_ACTION_ONCE | MT_ACTION_NO_DEFER, 0)

#else

int mt_fault_begin(void)
{
	return -MT_ENOSYS;
}

void mt_fault_forget(void)
{
}
#endif
