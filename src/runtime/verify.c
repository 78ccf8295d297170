/* SPDX-License-Identifier: MIT */
/*
 * The asker's side of the board. All that the launcher gets to see are our registers and the
 * recorded frames: it starts at this function, goes through our own frames by the image's unwind
 * tables, and so checks also what the hooks took for their caller. The launcher is not trusted: it
 * can only make us count.
 */
#include "runtime/verify.h"

#include "core/mem.h"
#include "core/sys.h"
#include "wire/verify.h"

enum { WAIT_NS = 100000000, WAITS = 20, PATIENCE = 2, FUTEX_WAIT = 0, FUTEX_WAKE = 1 };

static struct mt_verify_board *board; /* NULL: nobody to ask */
static uint32_t unanswered;           /* waits that ran out; after PATIENCE nobody asks; atomic */

static struct mt_verify_board *map_board(int fd)
{
	uint64_t magic = 0;
	char last;
	if (mt_sys_pread(fd, &magic, sizeof(magic), 0) != sizeof(magic) ||
	    magic != MT_VERIFY_MAGIC || mt_sys_pread(fd, &last, 1, sizeof(*board) - 1) != 1)
		return NULL;
	long at = mt_sys_mmap(NULL, sizeof(*board), MT_PROT_READ | MT_PROT_WRITE, MT_MAP_SHARED, fd,
			      0);
	return mt_sys_is_error(at) ? NULL : (struct mt_verify_board *)at;
}

void mt_verify_open(void)
{
	char path[MT_PATH_MAX + sizeof(MT_VERIFY_NAME) + 1];
	size_t len = mt_str_len(mt_rt.options.state_dir);
	unanswered = 0;
	if (board || !mt_rt.options.verify || !len) /* a forked child has its parent's mapping */
		return;
	mt_mem_copy(path, mt_rt.options.state_dir, len);
	mt_mem_copy(path + len, "/" MT_VERIFY_NAME, sizeof("/" MT_VERIFY_NAME));
	long fd = mt_sys_open(path, MT_O_RDWR | MT_O_CLOEXEC, 0);
	if (mt_sys_is_error(fd))
		return;
	board = map_board((int)fd);
	mt_sys_close((int)fd);
}

static struct mt_verify_slot *take_slot(void)
{
	for (uint32_t i = 0; i < MT_VERIFY_SLOTS; i++) {
		uint32_t is_free = MT_VERIFY_FREE;
		/* pairs with the release that frees a slot */
		if (__atomic_compare_exchange_n(&board->slot[i].state, &is_free, MT_VERIFY_FILLING,
						0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return &board->slot[i];
	}
	return NULL;
}

static void fill(struct mt_verify_slot *s, uint32_t cell)
{
	uint32_t node = mt_rt.sites[mt_rt.cells[cell].site].node, n = 0;
	if ((mt_rt.nodes[node].meta >> 20 & 15) == MT_NODE_SOURCE)
		node = mt_rt.nodes[node].parent;
	for (; node >= MT_NODE_ROOTS && n < MT_VERIFY_FRAMES; node = mt_rt.nodes[node].parent) {
		uint32_t meta = mt_rt.nodes[node].meta;
		s->frame[n++] = (struct mt_verify_frame){
			.pc = mt_rt.nodes[node].pc,
			.exact = (meta >> 20 & 15) == MT_NODE_EXACT,
			.by_fp = (meta >> 24 & MT_FRAME_BY_FP) != 0,
		};
	}
	s->count = n;
	s->end = node;
	s->depth = mt_rt.options.depth;
	s->pid = mt_rt.pid;
	s->start_ns = mt_rt.hdr->mono_start_ns;
	s->modules = mt_unwind.change_count;
}

/* Our registers, those that a function keeps for its caller, and the place where they were taken.
 */
#if defined(__x86_64__)
#define TAKE_REGISTERS(slot) \
	__asm__ volatile("movq %%rbx, 24(%1)\n\tmovq %%rbp, 48(%1)\n\tmovq %%rsp, 56(%1)\n\t" \
			 "movq %%r12, 96(%1)\n\tmovq %%r13, 104(%1)\n\tmovq %%r14, 112(%1)\n\t" \
			 "movq %%r15, 120(%1)\n\tleaq 1f(%%rip), %%rax\n\tmovq %%rax, %0\n1:" \
			 : "=m"((slot)->pc) \
			 : "r"((slot)->reg) \
			 : "rax", "memory")
#else
#define TAKE_REGISTERS(slot) \
	__asm__ volatile("stp x19, x20, [%1, #152]\n\tstp x21, x22, [%1, #168]\n\t" \
			 "stp x23, x24, [%1, #184]\n\tstp x25, x26, [%1, #200]\n\t" \
			 "stp x27, x28, [%1, #216]\n\tstp x29, x30, [%1, #232]\n\t" \
			 "mov x9, sp\n\tstr x9, [%1, #248]\n\tadr x9, 1f\n\tstr x9, %0\n1:" \
			 : "=m"((slot)->pc) \
			 : "r"((slot)->reg) \
			 : "x9", "memory")
#endif

/* Waits for the answer; then the slot is free again, or the launcher's to free. */
static uint32_t wait_for_answer(struct mt_verify_slot *s)
{
	struct mt_timespec pause = {0, WAIT_NS};
	uint64_t end_ns = mt_sys_clock_ns(MT_CLOCK_MONOTONIC) + (uint64_t)WAIT_NS * WAITS;
	uint32_t state, verdict = MT_VERIFY_UNANSWERED;
	for (;;) {
		/* pairs with the launcher's release: the verdict is there */
		state = __atomic_load_n(&s->state, __ATOMIC_ACQUIRE);
		if (state == MT_VERIFY_ANSWERED)
			break;
		if (__atomic_load_n(&board->closed, __ATOMIC_RELAXED) ||
		    mt_sys_clock_ns(MT_CLOCK_MONOTONIC) > end_ns) {
			uint32_t next =
				state == MT_VERIFY_WORKING ? MT_VERIFY_LEFT : MT_VERIFY_FREE;
			if (!__atomic_compare_exchange_n(&s->state, &state, next, 0,
							 __ATOMIC_RELEASE, __ATOMIC_RELAXED))
				continue;
			__atomic_fetch_add(&unanswered, 1, __ATOMIC_RELAXED);
			return MT_VERIFY_UNANSWERED;
		}
		mt_sys4(__NR_futex, &s->state, FUTEX_WAIT, state, &pause);
	}
	verdict = s->verdict;
	__atomic_store_n(&s->state, MT_VERIFY_FREE, __ATOMIC_RELEASE);
	return verdict < MT_VERIFY_VERDICTS ? verdict : MT_VERIFY_UNANSWERED;
}

/* Not inlined, and it stays on the stack while the launcher reads: see TAKE_REGISTERS. */
MT_NOINLINE static uint32_t ask(uint32_t cell)
{
	if (!board || mt_rt.sandboxed == MT_SANDBOX_NO_CALLS ||
	    __atomic_load_n(&unanswered, __ATOMIC_RELAXED) >= PATIENCE ||
	    __atomic_load_n(&board->closed, __ATOMIC_RELAXED))
		return MT_VERIFY_UNANSWERED;
	struct mt_verify_slot *s = take_slot();
	if (!s)
		return MT_VERIFY_UNANSWERED;
	fill(s, cell);
	TAKE_REGISTERS(s);
	/* pairs with the launcher's acquire: the question is complete */
	__atomic_store_n(&s->state, MT_VERIFY_ASKED, __ATOMIC_RELEASE);
	__atomic_fetch_add(&board->bell, 1, __ATOMIC_RELEASE);
	mt_sys3(__NR_futex, &board->bell, FUTEX_WAKE, 1);
	uint32_t verdict = wait_for_answer(s);
	MT_SIGNAL_FENCE(); /* no jump instead of the call: our frame must stay */
	return verdict;
}

MT_COLD void mt_verify_capture(struct mt_thread *t, uint32_t cell)
{
	struct mt_state_thread *row = t->row;
	t->verify_in = mt_rt.options.verify - 1;
	uint32_t verdict = ask(cell);
	if (verdict >= MT_VERIFY_UNSURE) {
		row->verify_unsure[verdict - MT_VERIFY_UNSURE]++;
		return;
	}
	row->verified++;
	row->verify_wrong += verdict == MT_VERIFY_WRONG;
}
