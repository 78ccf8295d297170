/* SPDX-License-Identifier: MIT */
/* Verification from outside: what counts as right, and the board with a real stack behind it. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <execinfo.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "record/verify.h"
#include "record/walker.h"

enum { COMPLETE = 1, DEPTH = 2, NO_INFO = 3, ANSWER_WAITS = 600 };

/* ---- comparing ---- */

struct pair {
	struct mt_verify_slot slot;
	struct mt_walk walk;
};

/* Three frames 0x11, 0x21, 0x31 behind two of the tracker's own; both ends are the entry. */
static struct pair *fresh_pair(void)
{
	static struct pair p;
	static const uint64_t pc[] = {0x1, 0x2, 0x11, 0x21, 0x31};

	memset(&p, 0, sizeof(p));
	p.slot.count = 3;
	p.slot.end = COMPLETE;
	p.walk.count = 5;
	for (int i = 0; i < 5; i++)
		p.walk.frame[i] = (struct mt_walker_frame){pc[i], false, true};
	for (int i = 0; i < 3; i++)
		p.slot.frame[i].pc = pc[i + 2];
	return &p;
}

static int verdict(const struct pair *p)
{
	return mt_verify_compare(&p->slot, &p->walk);
}

static void equal_frames_to_the_entry_are_the_same(void **state)
{
	assert_int_equal(verdict(fresh_pair()), MT_VERIFY_SAME);
}

static void another_frame_is_wrong(void **state)
{
	struct pair *p = fresh_pair();

	p->slot.frame[1].pc++;
	assert_int_equal(verdict(p), MT_VERIFY_WRONG);
	p = fresh_pair();
	p->slot.frame[0].pc++;
	assert_int_equal(verdict(p), MT_VERIFY_WRONG);
	p = fresh_pair();
	p->slot.frame[2].exact = 1;
	assert_int_equal(verdict(p), MT_VERIFY_WRONG);
}

static void interrupted_frame_is_known_by_its_instruction(void **state)
{
	struct pair *p = fresh_pair();

	p->slot.frame[1].exact = 1;
	p->walk.frame[3].pc = 0x20;
	p->walk.frame[3].is_exact = true;
	assert_int_equal(verdict(p), MT_VERIFY_SAME);
}

static void complete_stack_with_a_frame_too_few_or_too_many_is_wrong(void **state)
{
	struct pair *p = fresh_pair();

	p->slot.count = 2;
	assert_int_equal(verdict(p), MT_VERIFY_WRONG);
	p = fresh_pair();
	p->walk.count = 4;
	assert_int_equal(verdict(p), MT_VERIFY_WRONG);
}

static void stack_that_stops_early_is_right_as_far_as_it_goes(void **state)
{
	struct pair *p = fresh_pair();

	p->slot.count = 2;
	p->slot.end = DEPTH;
	assert_int_equal(verdict(p), MT_VERIFY_SAME);
	p->slot.end = NO_INFO;
	assert_int_equal(verdict(p), MT_VERIFY_SAME);
	p->slot.frame[1].pc++;
	assert_int_equal(verdict(p), MT_VERIFY_WRONG);
}

static void unwinder_that_gives_up_judges_nothing(void **state)
{
	struct pair *p = fresh_pair();

	p->walk.count = 4;
	p->walk.gave_up = true;
	assert_int_equal(verdict(p), MT_VERIFY_GAVE_UP);
	p->slot.frame[1].pc++; /* but what it saw before counts */
	assert_int_equal(verdict(p), MT_VERIFY_WRONG);
}

static void guess_judges_nothing(void **state)
{
	struct pair *p = fresh_pair();

	p->walk.frame[4].has_module = false;
	p->slot.frame[2].pc++;
	assert_int_equal(verdict(p), MT_VERIFY_GAVE_UP);
	p = fresh_pair();
	p->slot.frame[2].by_fp = 1;
	p->slot.frame[2].pc++;
	assert_int_equal(verdict(p), MT_VERIFY_GAVE_UP);
	p = fresh_pair(); /* libdw goes on behind our entry, by a guess */
	p->slot.count = 2;
	p->walk.frame[4].has_module = false;
	assert_int_equal(verdict(p), MT_VERIFY_SAME);
}

static void nothing_recorded_is_wrong(void **state)
{
	struct pair *p = fresh_pair();

	p->slot.count = 0;
	assert_int_equal(verdict(p), MT_VERIFY_WRONG);
}

/* ---- the board ---- */

static char dir[] = "/tmp/memtrack-verify-XXXXXX";

static struct mt_verify_board *map_board(void)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, MT_VERIFY_NAME);
	fd = open(path, O_RDWR);
	assert_true(fd >= 0);
	struct mt_verify_board *board =
		mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	assert_true(board != MAP_FAILED);
	assert_true(board->magic == MT_VERIFY_MAGIC);
	return board;
}

/* A process without memory that still has its number. The caller reaps it. */
static pid_t zombie(void)
{
	siginfo_t info;
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	return pid;
}

enum change { NONE, OTHER_FRAME, FRAME_TOO_FEW, OTHER_PROCESS };

static int wait_for(struct mt_verify_slot *s)
{
	struct timespec pause = {0, 50000000};

	for (int i = 0; i < ANSWER_WAITS; i++) {
		if (__atomic_load_n(&s->state, __ATOMIC_ACQUIRE) == MT_VERIFY_ANSWERED) {
			__atomic_store_n(&s->state, MT_VERIFY_FREE, __ATOMIC_RELEASE);
			return (int)s->verdict;
		}
		nanosleep(&pause, NULL);
	}
	return -1;
}

/* Asks about the stack of our caller, as glibc's backtrace() gives it. */
static __attribute__((noinline)) int ask(struct mt_verify_slot *s, enum change change)
{
	void *ra[MT_VERIFY_FRAMES + 1];
	int n = backtrace(ra, MT_VERIFY_FRAMES + 1), got;

	assert_true(n > 3);
	for (int i = 1; i < n; i++)
		s->frame[i - 1].pc = (uintptr_t)ra[i];
	s->count = (uint32_t)n - 1 - (change == FRAME_TOO_FEW);
	s->frame[2].pc += change == OTHER_FRAME;
	s->end = COMPLETE;
	s->pid = getpid();
	if (change == OTHER_PROCESS)
		s->pid = zombie();
#if defined(__x86_64__)
	__asm__ volatile("movq %%rbx, 24(%1)\n\tmovq %%rbp, 48(%1)\n\tmovq %%rsp, 56(%1)\n\t"
			 "movq %%r12, 96(%1)\n\tmovq %%r13, 104(%1)\n\tmovq %%r14, 112(%1)\n\t"
			 "movq %%r15, 120(%1)\n\tleaq 1f(%%rip), %%rax\n\tmovq %%rax, %0\n1:"
			 : "=m"(s->pc)
			 : "r"(s->reg)
			 : "rax", "memory");
#endif
	__atomic_store_n(&s->state, MT_VERIFY_ASKED, __ATOMIC_RELEASE);
	got = wait_for(s);
	__asm__ volatile("" ::: "memory");
	return got;
}

static void board_answers_about_a_real_stack(void **state)
{
	struct mt_verifier *v = NULL;
	struct mt_verifier_result result;
	struct mt_err err = {0};

	if (SKIP_BOARD)
		skip();
	assert_int_equal(mt_verifier_start(dir, &v, &err), 0);
	struct mt_verify_board *board = map_board();
	static const int want[] = {
		[NONE] = MT_VERIFY_SAME,
		[OTHER_FRAME] = MT_VERIFY_WRONG,
		[FRAME_TOO_FEW] = MT_VERIFY_WRONG,
		[OTHER_PROCESS] = MT_VERIFY_UNREADABLE,
	};

	for (int i = NONE; i <= OTHER_PROCESS; i++)
		assert_int_equal(ask(&board->slot[i], i), want[i]);
	assert_int_equal(waitpid(-1, NULL, 0) > 0, 1);
	assert_int_equal(ask(&board->slot[MT_VERIFY_SLOTS - 1], NONE), MT_VERIFY_SAME);
	mt_verifier_stop(v, &result);
	assert_int_equal(board->closed, 1);
	assert_int_equal(result.verdicts[MT_VERIFY_SAME], 2);
	assert_int_equal(result.verdicts[MT_VERIFY_WRONG], 2);
	assert_int_equal(result.verdicts[MT_VERIFY_UNREADABLE], 1);
	assert_non_null(strstr(mt_buf_text(&result.wrong), "test_record_verify+0x"));
	assert_non_null(strstr(mt_buf_text(&result.wrong), "libdw:"));
	assert_int_equal(mt_buf_text(&result.gave_up)[0], 0);
	mt_buf_done(&result.wrong);
	mt_buf_done(&result.gave_up);
	munmap(board, sizeof(*board));
}

static int is_settled(const struct mt_verify_slot *s)
{
	struct timespec pause = {0, 50000000};
	uint32_t state = MT_VERIFY_ASKED;

	for (int i = 0; i < ANSWER_WAITS; i++) {
		state = __atomic_load_n(&s->state, __ATOMIC_ACQUIRE);
		if (state == MT_VERIFY_ANSWERED || state == MT_VERIFY_FREE)
			break;
		nanosleep(&pause, NULL);
	}
	return state == MT_VERIFY_FREE || s->verdict != MT_VERIFY_SAME;
}

/* What another process wrote into the board can only lead to a verdict. */
static void board_survives_any_words(void **state)
{
	struct mt_verifier *v = NULL;
	struct mt_verifier_result result;
	struct mt_err err = {0};

	assert_int_equal(mt_verifier_start(dir, &v, &err), 0);
	struct mt_verify_board *board = map_board();

	for (int i = 0; i < MT_VERIFY_SLOTS; i++) {
		struct mt_verify_slot *s = &board->slot[i];

		memset((char *)s + sizeof(s->state), i * 17, sizeof(*s) - sizeof(s->state));
		if (i % 2)
			s->pid = getpid();
		__atomic_store_n(&s->state, MT_VERIFY_ASKED, __ATOMIC_RELEASE);
	}
	/* answered, or found to be nobody's */
	for (int i = 0; i < MT_VERIFY_SLOTS; i++)
		assert_true(is_settled(&board->slot[i]));
	mt_verifier_stop(v, &result);
	mt_buf_done(&result.wrong);
	mt_buf_done(&result.gave_up);
	munmap(board, sizeof(*board));
}

static void slot_of_a_dead_process_becomes_free(void **state)
{
	struct mt_verifier *v = NULL;
	struct mt_verifier_result result;
	struct timespec pause = {0, 50000000};
	struct mt_err err = {0};
	pid_t gone = fork();

	if (!gone)
		_exit(0);
	waitpid(gone, NULL, 0);
	assert_int_equal(mt_verifier_start(dir, &v, &err), 0);
	struct mt_verify_board *board = map_board();

	board->slot[0].pid = gone;
	__atomic_store_n(&board->slot[0].state, MT_VERIFY_FILLING, __ATOMIC_RELEASE);
	for (int i = 0;
	     i < ANSWER_WAITS && __atomic_load_n(&board->slot[0].state, __ATOMIC_ACQUIRE); i++)
		nanosleep(&pause, NULL);
	assert_int_equal(board->slot[0].state, MT_VERIFY_FREE);
	mt_verifier_stop(v, &result);
	munmap(board, sizeof(*board));
}

static void no_verifier_has_no_verdicts(void **state)
{
	struct mt_verifier_result result;

	mt_verifier_stop(NULL, &result);
	for (int i = 0; i < MT_VERIFY_VERDICTS; i++)
		assert_int_equal(result.verdicts[i], 0);
}

static int make_directory(void **state)
{
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_directory(void **state)
{
	return rmdir(dir); /* the board is gone: each verifier removes its own */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_frames_to_the_entry_are_the_same),
		cmocka_unit_test(another_frame_is_wrong),
		cmocka_unit_test(interrupted_frame_is_known_by_its_instruction),
		cmocka_unit_test(complete_stack_with_a_frame_too_few_or_too_many_is_wrong),
		cmocka_unit_test(stack_that_stops_early_is_right_as_far_as_it_goes),
		cmocka_unit_test(unwinder_that_gives_up_judges_nothing),
		cmocka_unit_test(guess_judges_nothing),
		cmocka_unit_test(nothing_recorded_is_wrong),
		cmocka_unit_test(board_answers_about_a_real_stack),
		cmocka_unit_test(board_survives_any_words),
		cmocka_unit_test(slot_of_a_dead_process_becomes_free),
		cmocka_unit_test(no_verifier_has_no_verdicts),
	};

	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
