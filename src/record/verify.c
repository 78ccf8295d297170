/* SPDX-License-Identifier: MIT */
/*
 * The board lies in memory that the tracked processes may write at any time: a question is copied
 * before it is looked at, and what it says is checked. A process that dies leaves its slot as it
 * was; slots of the dead are freed when there is nothing to do, and now and then when there is.
 */

#include "record/verify.h"

#include "base/alloc.h"
#include "base/path.h"
#include "core/cc.h"
#include "record/walker.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { IDLE_NS = 100000000, SWEEP_ROUNDS = 256, STACK_COMPLETE = 1, STACK_DEPTH = 2 };

struct mt_verifier {
	struct mt_verify_board *board;
	char *path; /* owned */
	pthread_t thread;
	struct mt_walker *walker;
	struct mt_verify_slot question; /* a copy */
	struct mt_walk walk;
	struct mt_verifier_result result;
	uint32_t stop; /* atomic */
};

/* ---- judging ---- */

static bool is_same(const struct mt_verify_frame *f, const struct mt_walker_frame *g)
{
	return g->is_exact == (f->exact != 0) && g->pc == f->pc - (f->exact != 0);
}

/* Where the hooks end and the caller's frames begin; count: nowhere. */
static uint32_t find_caller(const struct mt_verify_slot *slot, const struct mt_walk *walk)
{
	uint32_t i = 0, end = MT_MIN(walk->count, (uint32_t)MT_WALKER_OWN);

	while (i < end && !is_same(&slot->frame[0], &walk->frame[i]))
		i++;
	return i < end ? i : walk->count;
}

/* Both end after the same frames, or one goes on. */
static enum mt_verify_verdict compare_ends(const struct mt_verify_slot *slot,
					   const struct mt_walk *walk, uint32_t left)
{
	if (left) /* a complete stack has no more frames; others stopped where they say */
		return slot->end == STACK_COMPLETE ? MT_VERIFY_WRONG : MT_VERIFY_SAME;
	return MT_VERIFY_SAME;
}

enum mt_verify_verdict mt_verify_compare(const struct mt_verify_slot *slot,
					 const struct mt_walk *walk)
{
	uint32_t at = find_caller(slot, walk), i = 0;
	bool guessed = false; /* one of both came here through code that nothing describes */

	if (!slot->count || at == walk->count)
		return walk->gave_up ? MT_VERIFY_GAVE_UP : MT_VERIFY_WRONG;
	for (; i < slot->count && at < walk->count; i++, at++) {
		guessed |= slot->frame[i].by_fp || !walk->frame[at].has_module;
		if (!is_same(&slot->frame[i], &walk->frame[at]))
			return guessed ? MT_VERIFY_GAVE_UP : MT_VERIFY_WRONG;
	}
	if (i < slot->count)
		return walk->gave_up || walk->is_cut || guessed ? MT_VERIFY_GAVE_UP
								: MT_VERIFY_WRONG;
	if (at < walk->count && !walk->frame[at].has_module)
		return MT_VERIFY_SAME; /* only a guess goes on */
	return compare_ends(slot, walk, walk->count - at);
}

/* ---- showing ---- */

static void show_frame(struct mt_verifier *v, struct mt_buf *out, uint64_t pc)
{
	char place[256];

	mt_buf_printf(out, " %s",
		      mt_walker_place(v->walker, &v->question, pc, place, sizeof(place)));
}

/* Two lines: the frames as recorded, and as libdw has them, both from the caller outward. */
static void show(struct mt_verifier *v, struct mt_buf *out, uint64_t number)
{
	static const char *const ends[] = {"?",         "complete",    "cut",
					   "no tables", "unsupported", "unreadable"};
	const struct mt_verify_slot *q = &v->question;

	if (number > MT_VERIFIER_SHOWN)
		return;
	mt_buf_printf(out, "process %" PRId32 ", recorded:", q->pid);
	for (uint32_t i = 0; i < q->count; i++)
		show_frame(v, out, q->frame[i].pc - 1);
	mt_buf_printf(out, " (%s)\n    libdw:", ends[q->end < MT_ARRAY_LEN(ends) ? q->end : 0]);
	uint32_t at = find_caller(q, &v->walk);

	for (uint32_t i = at < v->walk.count ? at : 0; i < v->walk.count; i++)
		show_frame(v, out, v->walk.frame[i].pc - !v->walk.frame[i].is_exact);
	mt_buf_printf(out, " (%s)\n", v->walk.gave_up ? v->walk.why : "end");
}

/* ---- answering ---- */

static enum mt_verify_verdict judge(struct mt_verifier *v)
{
	enum mt_verify_verdict verdict = MT_VERIFY_UNREADABLE;

	/* a second look with the modules read anew: they may have changed without notice */
	for (int fresh = 0; fresh < 2 && verdict != MT_VERIFY_SAME; fresh++) {
		if (mt_walker_walk(v->walker, &v->question, fresh != 0, &v->walk))
			verdict = MT_VERIFY_UNREADABLE;
		else
			verdict = mt_verify_compare(&v->question, &v->walk);
	}
	v->result.verdicts[verdict]++;
	if (verdict == MT_VERIFY_WRONG)
		show(v, &v->result.wrong, v->result.verdicts[verdict]);
	if (verdict == MT_VERIFY_GAVE_UP)
		show(v, &v->result.gave_up, v->result.verdicts[verdict]);
	return verdict;
}

static void wake(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Answers the slot's question, if there is one; whether there was. */
static bool answer(struct mt_verifier *v, struct mt_verify_slot *s)
{
	uint32_t asked = MT_VERIFY_ASKED, working = MT_VERIFY_WORKING;

	/* pairs with the asker's release: the question is complete */
	if (!__atomic_compare_exchange_n(&s->state, &asked, working, 0, __ATOMIC_ACQUIRE,
					 __ATOMIC_RELAXED))
		return false;
	memcpy(&v->question, s, sizeof(v->question));
	v->question.count = MT_MIN(v->question.count, (uint32_t)MT_VERIFY_FRAMES);
	s->verdict = v->question.pid > 0 ? judge(v) : MT_VERIFY_UNREADABLE;
	/* pairs with the asker's acquire: the verdict is there */
	if (!__atomic_compare_exchange_n(&s->state, &working, MT_VERIFY_ANSWERED, 0,
					 __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		__atomic_store_n(&s->state, MT_VERIFY_FREE, __ATOMIC_RELEASE); /* it went on */
	wake(&s->state);
	return true;
}

/* Frees the slot of a process that is gone. */
static void sweep(struct mt_verify_slot *s)
{
	uint32_t state = __atomic_load_n(&s->state, __ATOMIC_ACQUIRE);

	if (state != MT_VERIFY_FREE && s->pid > 0 && kill(s->pid, 0) && errno == ESRCH)
		__atomic_compare_exchange_n(&s->state, &state, MT_VERIFY_FREE, 0, __ATOMIC_RELEASE,
					    __ATOMIC_RELAXED);
}

static void *serve(void *opaque)
{
	struct mt_verifier *v = opaque;
	struct mt_verify_board *board = v->board;
	const struct timespec idle = {0, IDLE_NS};

	for (uint32_t round = 0; !__atomic_load_n(&v->stop, __ATOMIC_RELAXED); round++) {
		uint32_t bell = __atomic_load_n(&board->bell, __ATOMIC_ACQUIRE);
		bool any = false;

		for (size_t i = 0; i < MT_VERIFY_SLOTS; i++)
			any |= answer(v, &board->slot[i]);
		if (any && round % SWEEP_ROUNDS)
			continue;
		for (size_t i = 0; i < MT_VERIFY_SLOTS; i++)
			sweep(&board->slot[i]);
		if (any)
			continue;
		syscall(SYS_futex, &board->bell, FUTEX_WAIT, bell, &idle, NULL, 0);
	}
	return NULL;
}

/* ---- life ---- */

static int make_board(struct mt_verifier *v, const char *dir)
{
	mt_auto(close) int fd = -1;
	void *at;

	v->path = mt_path_join(dir, MT_VERIFY_NAME);
	v->walker = mt_walker_new();
	if (!v->path || !v->walker)
		return -ENOMEM;
	fd = open(v->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || ftruncate(fd, sizeof(*v->board)))
		return -errno;
	at = mmap(NULL, sizeof(*v->board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return -errno;
	v->board = at;
	v->board->magic = MT_VERIFY_MAGIC;
	return 0;
}

static void verifier_free(struct mt_verifier *v)
{
	if (v->board)
		munmap(v->board, sizeof(*v->board));
	if (v->path)
		unlink(v->path);
	free(v->path);
	mt_walker_free(v->walker);
	free(v);
}

/* The thread takes no signals: they are the launcher's to pass on. */
static int start_thread(struct mt_verifier *v)
{
	sigset_t all, old;
	int code;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	code = pthread_create(&v->thread, NULL, serve, v);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -code;
}

int mt_verifier_start(const char *dir, struct mt_verifier **ret_verifier, struct mt_err *err)
{
	struct mt_verifier *v = mt_alloc_zero(1, sizeof(*v));
	int code;

	if (!v)
		return mt_err_no_memory(err);
	code = make_board(v, dir);
	if (!code)
		code = start_thread(v);
	if (code) {
		verifier_free(v);
		return mt_err_set_errno(err, code, "cannot verify call stacks in '%s'", dir);
	}
	*ret_verifier = v;
	return 0;
}

void mt_verifier_stop(struct mt_verifier *v, struct mt_verifier_result *ret_result)
{
	*ret_result = (struct mt_verifier_result){0};
	if (!v)
		return;
	__atomic_store_n(&v->board->closed, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&v->stop, 1, __ATOMIC_RELAXED);
	wake(&v->board->bell);
	pthread_join(v->thread, NULL);
	for (size_t i = 0; i < MT_VERIFY_SLOTS; i++)
		wake(&v->board->slot[i].state);
	*ret_result = v->result;
	verifier_free(v);
}
