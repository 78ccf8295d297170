/* SPDX-License-Identifier: MIT */
/*
 * Memo, join and cache on made-up stacks: a module whose unwind tables are written here, and a
 * piece of memory for a stack whose every word is ours. So each word that a walk depends on can be
 * changed alone.
 */

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "unwind/rowcache.h"
#include "unwind_fixture.h"
#include "walk.h"

enum {
	FUNCTIONS = 64,
	FUNCTION_BYTES = 16,
	TABLES_AT = 4096,
	OTHER_TABLES_AT = 12288,
	MODULE_BYTES = 20480,
	STACK_WORDS = 1024,
	FRAMES_MAX = 40,
	KINDS = 8,
};
/* What function i does with its frame, by i % KINDS. */
enum kind { K_END, K_SP, K_SP2, K_SAVES_FP, K_BY_FP, K_KEEPS_FP, K_REALIGNS, K_SAVES_FP_LOW };

struct writer {
	uint8_t *at;
};

static uint8_t *module_memory;
static uintptr_t *stack_memory;
static uint64_t dice = 99;

/* One point of a made-up stack from which it can be captured. */
struct point {
	uintptr_t sp, ra, fp;
};
static struct point point[FRAMES_MAX + 1];
static uint32_t points;

static uint32_t roll(uint32_t n)
{
	dice = dice * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(dice >> 33) % n;
}

static void put(struct writer *w, const uint8_t *bytes, size_t n)
{
	memcpy(w->at, bytes, n);
	w->at += n;
}

static void put32(struct writer *w, int64_t value)
{
	int32_t v = (int32_t)value;
	memcpy(w->at, &v, 4);
	w->at += 4;
}

static uint32_t frame_words(uint32_t function, uint32_t shift)
{
	return 4 + 2 * ((function / KINDS + shift) % 6);
}

/* The program of one function; `shift` makes another module of the same shape. */
static void put_program(struct writer *w, uint32_t i, uint32_t shift)
{
	uint8_t cfa = (uint8_t)(8 * frame_words(i, shift));
	switch ((enum kind)(i % KINDS)) {
	case K_END:
		put(w, (uint8_t[]){0x07, MT_REG_RA}, 2);
		break;
	case K_SP:
	case K_SP2:
		put(w, (uint8_t[]){0x0e, cfa}, 2);
		break;
	case K_SAVES_FP:
		put(w, (uint8_t[]){0x0e, cfa, 0x80 | MT_REG_FP, 2}, 4);
		break;
	case K_SAVES_FP_LOW:
		put(w, (uint8_t[]){0x0e, cfa, 0x80 | MT_REG_FP, 3}, 4);
		break;
	case K_BY_FP:
		put(w, (uint8_t[]){0x0c, MT_REG_FP, 16, 0x80 | MT_REG_FP, 2}, 5);
		break;
	case K_KEEPS_FP:
		put(w, (uint8_t[]){0x0c, MT_REG_FP, 16}, 3);
		break;
	case K_REALIGNS: /* CFA = *(FP - 8), FP saved at FP */
		put(w, (uint8_t[]){0x0f, 3, 0x70 + 6, 0x78, 0x06, 0x10, 6, 2, 0x76, 0}, 10);
		break;
	}
}

/* Writes .eh_frame_hdr and .eh_frame for all functions. */
static void write_tables_at(uint32_t at, uint32_t shift)
{
	uint8_t *base = module_memory + at;
	struct writer table = {base + 12}, w = {base + 12 + 8 * FUNCTIONS};
	uint8_t *cie = w.at;
	put(&(struct writer){base}, (const uint8_t[]){1, 0x1b, 0x03, 0x3b}, 4);
	put32(&(struct writer){base + 4}, w.at - (base + 4));
	put32(&(struct writer){base + 8}, FUNCTIONS);
	put32(&w, 28);
	put32(&w, 0);
	put(&w, (const uint8_t[]){1, 'z', 'R', 0, 1, 0x78, MT_REG_RA, 1, 0x1b}, 9);
	put(&w, (const uint8_t[]){0x0c, MT_REG_SP, 8, 0x80 | MT_REG_RA, 1}, 5);
	w.at = cie + 32;
	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		uint8_t *fde = w.at, *code = module_memory + i * FUNCTION_BYTES;
		put32(&table, code - base);
		put32(&table, fde - base);
		put32(&w, 36);
		put32(&w, w.at - cie);
		put32(&w, code - w.at);
		put32(&w, FUNCTION_BYTES);
		put(&w, (const uint8_t[]){0}, 1);
		put_program(&w, i, shift);
		while (w.at < fde + 40)
			*w.at++ = 0;
	}
}

static void write_tables(uint32_t shift)
{
	write_tables_at(TABLES_AT, shift);
}

static struct mt_module_list *new_list(uint32_t generation)
{
	static Elf64_Phdr load = {
		.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_memsz = MODULE_BYTES};
	struct mt_module_list *list = fixture_zeros(sizeof(*list) + sizeof(list->m[0]));
	uintptr_t base = (uintptr_t)module_memory;
	list->count = 1;
	list->generation = generation;
	list->m[0] = (struct mt_module){.lo = base,
					.hi = base + MODULE_BYTES,
					.bias = base,
					.phdr = &load,
					.phnum = 1,
					.eh_frame_hdr = module_memory + TABLES_AT,
					.eh_frame_hdr_bytes = 12 + 8 * FUNCTIONS,
					.name = ""};
	return list;
}

static void publish(uint32_t generation)
{
	mt_unwind.change_count++;
	__atomic_store_n(&mt_unwind.modules, new_list(generation), __ATOMIC_RELEASE);
}

static uintptr_t return_to(uint32_t function)
{
	return (uintptr_t)module_memory + function * FUNCTION_BYTES + 8;
}

static uint32_t random_function(void)
{
	uint32_t i = roll(FUNCTIONS);
	return i % KINDS == K_END ? i + 1 : i;
}

static uintptr_t above(uintptr_t address)
{
	return address + 8 * (1 + roll(14));
}

/* Steps a made-up stack outward through function f, writing what it will read. Returns 0 when full.
 */
static int grow(struct point *p, uint32_t f, uint32_t next)
{
	uintptr_t cfa = p->sp + 8 * frame_words(f, 0), fp = p->fp;
	switch ((enum kind)(f % KINDS)) {
	case K_BY_FP:
	case K_KEEPS_FP:
		cfa = p->fp + 16;
		break;
	case K_REALIGNS:
		if (p->fp < p->sp + 8)
			return 0;
		cfa = above(p->fp + 16);
		*(uintptr_t *)(p->fp - 8) = cfa;
		fp = above(cfa);
		*(uintptr_t *)p->fp = fp;
		break;
	default:
		break;
	}
	if (cfa <= p->sp + 16 || cfa > (uintptr_t)(stack_memory + STACK_WORDS - 64))
		return 0;
	uint32_t saved = f % KINDS == K_SAVES_FP || f % KINDS == K_BY_FP ? 2
			 : f % KINDS == K_SAVES_FP_LOW                   ? 3
									 : 0;
	if (saved) {
		fp = above(cfa);
		((uintptr_t *)cfa)[-(int)saved] = fp;
	}
	((uintptr_t *)cfa)[-1] = return_to(next);
	*p = (struct point){cfa, return_to(next), fp};
	return 1;
}

/* A new stack of up to n frames, and the points from which it may be captured. */
static void make_stack(uint32_t n)
{
	uint32_t f = random_function();
	struct point p = {(uintptr_t)(stack_memory + 512 + roll(8)), return_to(f), 0};
	p.fp = above(p.sp);
	((uintptr_t *)p.sp)[-1] = p.ra;
	points = 0;
	for (uint32_t i = 0; i < n; i++) {
		point[points++] = p;
		uint32_t next = i + 2 < n ? random_function() : KINDS * roll(FUNCTIONS / KINDS);
		for (int tries = 0; !grow(&p, f, next); tries++) {
			if (tries == 20)
				return;
			f = random_function(); /* this return address is changed where it lies */
			point[points - 1].ra = ((uintptr_t *)p.sp)[-1] = p.ra = return_to(f);
		}
		f = next;
		if (f % KINDS == K_END)
			break;
	}
	point[points++] = p;
}

struct stack {
	uint32_t count;
	enum mt_stack_end end;
	uintptr_t ra[MT_DEPTH_MAX];
};
static struct stack remembered[1 << 12];

static struct stack reference(const struct point *p, uint32_t depth)
{
	struct stack s;
	s.count = mt_walk_reference(p->sp, p->ra, p->fp, s.ra, depth, &s.end);
	return s;
}

/* Captures at p and fails the test if the result is not the reference's. Returns whether by token.
 */
static int capture_at(struct mt_capture *c, const struct point *p, uint64_t tag)
{
	static uint32_t tokens;
	struct stack want = reference(p, c->depth_max), got = {0};
	uint32_t token = mt_capture_stack(c, p->sp, p->ra, p->fp, tag);
	if (token) {
		got = remembered[token];
	} else {
		got.count = c->count;
		got.end = (enum mt_stack_end)c->end;
		for (uint32_t i = 0; i < c->count; i++)
			got.ra[i] = c->frame[c->count - 1 - i].ra;
		tokens = tokens + 1 < MT_ARRAY_LEN(remembered) ? tokens + 1 : tokens;
		if (tokens + 1 < MT_ARRAY_LEN(remembered)) {
			remembered[tokens] = got;
			mt_capture_remember(c, tokens);
		} else {
			mt_capture_reset(c);
			tokens = 0;
		}
	}
	assert_int_equal(got.count, want.count);
	assert_int_equal(got.end, want.end);
	assert_memory_equal(got.ra, want.ra, want.count * sizeof(want.ra[0]));
	return token != 0;
}

/* Changes a word of the stack into another that looks meaningful. */
static void change_word(void)
{
	uintptr_t *w = stack_memory + 505 + roll(260);
	switch (roll(4)) {
	case 0:
		*w = return_to(roll(FUNCTIONS));
		break;
	case 1:
		*w = above((uintptr_t)w);
		break;
	case 2:
		*w += 8 * (roll(3) - 1);
		break;
	default:
		*w = roll(2) ? 0 : 12345;
		break;
	}
}

static void random_changes(uint32_t depth, int with_memo)
{
	struct mt_capture *c = fixture_capture_new(depth);
	uint64_t by_token = 0;
	if (!with_memo)
		mt_capture_memo_attach(c, NULL);
	make_stack(30);
	for (int i = 0; i < 60000; i++) {
		c->join_off_for = 0; /* nothing pauses */
		c->memo_in_use = c->memo;
		if (roll(40) == 0)
			make_stack(2 + roll(38));
		for (uint32_t n = roll(3); n > 1; n--)
			change_word();
		struct point p = point[MT_MIN(roll(6), points - 1)];
		if (roll(12) == 0)
			p.fp = above(p.sp);
		by_token += (uint64_t)capture_at(c, &p, roll(2));
	}
	assert_true(by_token > (with_memo ? 10000u : 1000u));
	assert_true(c->counts.joined > 5000 || depth < 20);
	assert_true(c->counts.ends[MT_STACK_COMPLETE] > 1000 || depth < 20);
}

static void join_is_exact_whatever_changes(void **s)
{
	random_changes(MT_DEPTH_MAX, 0);
}

static void memo_is_exact_whatever_changes(void **s)
{
	random_changes(MT_DEPTH_MAX, 1);
}

static void cut_stacks_are_exact_whatever_changes(void **s)
{
	for (uint32_t depth = 1; depth < 20; depth += 3)
		random_changes(depth, depth & 1);
}

/* A stack of n frames of the first SP kind, nothing saved. */
static struct point plain_stack(uint32_t n)
{
	struct point p = {(uintptr_t)(stack_memory + 512), return_to(K_SP), 0};
	struct point first = p;
	((uintptr_t *)p.sp)[-1] = p.ra;
	for (uint32_t i = 0; i < n; i++)
		assert_true(grow(&p, K_SP, i + 2 < n ? K_SP : K_END));
	return first;
}

static void the_same_stack_gives_its_token(void **s)
{
	struct mt_capture *c = fixture_capture_new(64);
	struct point p = plain_stack(8);
	assert_int_equal(mt_capture_stack(c, p.sp, p.ra, p.fp, 1), 0);
	assert_int_equal(c->count, 8);
	assert_int_equal(c->end, MT_STACK_COMPLETE);
	uint64_t hash = c->hash;
	mt_capture_remember(c, 77);
	/* as the last stack first, which tells that it is worth a place in the memo */
	assert_int_equal(mt_capture_stack(c, p.sp, p.ra, p.fp, 1), 77);
	assert_int_equal(mt_capture_memo_hits(c), 0);
	assert_int_equal(mt_capture_stack(c, p.sp, p.ra, p.fp, 1), 77);
	assert_int_equal(mt_capture_memo_hits(c), 1);
	/* Another tag is another identity, on the same frames. */
	assert_int_equal(mt_capture_stack(c, p.sp, p.ra, p.fp, 2), 0);
	assert_true(c->hash != hash);
	mt_capture_remember(c, 78);
	assert_int_equal(mt_capture_stack(c, p.sp, p.ra, p.fp, 1), 77);
	assert_int_equal(mt_capture_stack(c, p.sp, p.ra, p.fp, 2), 78);
}

static void nodes_of_shared_frames_are_kept(void **s)
{
	struct mt_capture *c = fixture_capture_new(64);
	struct point p = plain_stack(8);
	mt_capture_stack(c, p.sp, p.ra, p.fp, 1);
	for (uint32_t i = 0; i < c->count; i++)
		c->frame[i].node = 100 + i;
	/* The fourth frame from inside returns elsewhere. */
	uintptr_t *word = (uintptr_t *)c->frame[c->count - 4].slot;
	assert_int_equal(*word, return_to(K_SP));
	*word = return_to(K_SP2);
	assert_int_equal(mt_capture_stack(c, p.sp, p.ra, p.fp, 1), 0);
	assert_int_equal(c->count, 8);
	for (uint32_t i = 0; i < c->count; i++)
		assert_int_equal(c->frame[i].node, i < 4 ? 100 + i : 0);
}

static void the_hash_tells_frames_end_and_tag(void **s)
{
	struct mt_capture *a = fixture_capture_new(64), *b = fixture_capture_new(64);
	struct mt_capture *cut = fixture_capture_new(7);
	struct point p = plain_stack(8);
	mt_capture_stack(a, p.sp, p.ra, p.fp, 5);
	mt_capture_stack(b, p.sp, p.ra, p.fp, 5);
	assert_true(a->hash == b->hash);
	mt_capture_stack(cut, p.sp, p.ra, p.fp, 5);
	assert_int_equal(cut->count, 7);
	assert_int_equal(cut->end, MT_STACK_DEPTH);
	assert_true(a->hash != cut->hash);
}

static void reset_forgets_everything(void **s)
{
	struct mt_capture *c = fixture_capture_new(64);
	struct point p = plain_stack(8);
	mt_capture_stack(c, p.sp, p.ra, p.fp, 1);
	mt_capture_remember(c, 5);
	mt_capture_reset(c);
	assert_int_equal(mt_capture_stack(c, p.sp, p.ra, p.fp, 1), 0);
	/* So does handing the memo to another thread. */
	mt_capture_remember(c, 6);
	struct mt_capture *other = fixture_capture_new(64);
	mt_capture_memo_attach(other, c->memo);
	assert_int_equal(mt_capture_stack(other, p.sp, p.ra, p.fp, 1), 0);
}

static void a_stack_of_exactly_the_limit_is_not_cut(void **s)
{
	struct point p = plain_stack(8);
	for (uint32_t depth = 1; depth <= 9; depth++) {
		struct mt_capture *c = fixture_capture_new(depth);
		for (int i = 0; i < 3; i++) {
			mt_capture_stack(c, p.sp, p.ra, p.fp, 1);
			assert_int_equal(c->count, MT_MIN(depth, 8u));
			assert_int_equal(c->end, depth < 8 ? MT_STACK_DEPTH : MT_STACK_COMPLETE);
		}
	}
}

static void rows_of_a_module_that_is_gone_are_not_used(void **s)
{
	struct mt_capture *c = fixture_capture_new(64);
	struct point p = plain_stack(8);
	capture_at(c, &p, 1);
	for (uint32_t round = 1; round < 30; round++) {
		/* Another module at the same address: its frames have other sizes. */
		write_tables(round);
		publish(1000 + round);
		struct stack want = reference(&p, 64);
		mt_capture_stack(c, p.sp, p.ra, p.fp, 1);
		assert_int_equal(c->count, want.count);
		assert_int_equal(c->end, want.end);
		mt_capture_remember(c, 1);
	}
	write_tables(0);
	publish(2000);
}

static uint32_t changes_seen;
static int refuse_change;
static int on_change(void)
{
	changes_seen++;
	return refuse_change ? -1 : 0;
}

static void a_change_is_asked_about_once(void **s)
{
	struct mt_capture *c = fixture_capture_new(64);
	struct point p = plain_stack(8);
	mt_unwind.on_change = on_change;
	mt_capture_stack(c, p.sp, p.ra, p.fp, 1);
	changes_seen = 0;
	mt_unwind.change_count++;
	mt_capture_stack(c, p.sp, p.ra, p.fp, 1);
	mt_capture_stack(c, p.sp, p.ra, p.fp, 1);
	assert_int_equal(changes_seen, 1);
	mt_unwind.on_change = NULL;
}

static void while_the_modules_cannot_be_read_no_module_is_used(void **s)
{
	struct mt_capture *c = fixture_capture_new(64);
	struct point p = plain_stack(8);
	mt_unwind.on_change = on_change;
	mt_capture_stack(c, p.sp, p.ra, p.fp, 1);
	uint32_t whole = c->count;
	mt_unwind.change_count++;
	refuse_change = 1;
	for (uint32_t i = 1; i <= 2; i++) {
		changes_seen = 0;
		assert_int_equal(mt_capture_stack(c, p.sp, p.ra, p.fp, 1), 0);
		assert_int_equal(c->count, 1);
		assert_int_equal(c->end, MT_STACK_NO_INFO);
		assert_int_equal(changes_seen, 1);
	}
	refuse_change = 0;
	mt_capture_stack(c, p.sp, p.ra, p.fp, 1);
	assert_int_equal(c->count, whole);
	mt_unwind.on_change = NULL;
}

static void without_modules_there_is_one_frame(void **s)
{
	struct mt_capture *c = fixture_capture_new(64);
	struct point p = plain_stack(8);
	const struct mt_module_list *list = mt_unwind.modules;
	mt_unwind.modules = NULL;
	assert_int_equal(mt_capture_stack(c, p.sp, p.ra, p.fp, 1), 0);
	assert_int_equal(c->count, 1);
	assert_int_equal(c->end, MT_STACK_NO_INFO);
	assert_int_equal(c->frame[0].ra, p.ra);
	mt_unwind.modules = list;
}

#ifndef SANITIZED /* a sanitizer wants SIGSEGV for itself */
static void (*in_decode)(void);

/* The tables were not readable: a decode is under way. Lets something else happen in the middle of
 * it. */
static void on_fault(int sig)
{
	if (mprotect(module_memory + TABLES_AT, MODULE_BYTES - TABLES_AT, PROT_READ | PROT_WRITE))
		abort();
	in_decode();
}

static void flush_new(void)
{
	publish(20001);
	mt_row_cache_flush(mt_unwind.rows, 20001);
}

static void flush_new_then_old(void)
{
	flush_new();
	mt_row_cache_flush(mt_unwind.rows, 19999);
}

static void flush_nothing(void)
{
}

/* Whether a row decoded while `meanwhile` happened is in the cache afterwards. */
static int kept_after(void (*meanwhile)(void))
{
	struct sigaction sa = {.sa_handler = on_fault}, old;
	publish(20000);
	const struct mt_module_list *list = mt_unwind.modules;
	mt_row_cache_flush(mt_unwind.rows, 20000);
	in_decode = meanwhile;
	sigaction(SIGSEGV, &sa, &old);
	if (mprotect(module_memory + TABLES_AT, MODULE_BYTES - TABLES_AT, PROT_NONE))
		abort();
	mt_row row = mt_row_cache_fill(mt_unwind.rows, list, &mt_unwind.modules, return_to(K_SP));
	sigaction(SIGSEGV, &old, NULL);
	mt_row found = mt_row_cache_get(mt_unwind.rows, return_to(K_SP));
	assert_true(found == MT_ROW_MISS || found == row);
	return found != MT_ROW_MISS;
}

static void a_row_decoded_across_a_change_is_not_kept(void **s)
{
	assert_true(kept_after(flush_nothing));
	assert_true(!kept_after(flush_new));
	assert_true(!kept_after(flush_new_then_old));
	publish(20002);
}
#endif

static uint32_t stop_flips, flip_checks, flip_wrong;

/* Captures while another thread exchanges the module under it; counts results of no module's. */
static void *capture_under_change(void *arg)
{
	const struct point *p = arg;
	struct mt_capture *c = fixture_capture_new(64);
	mt_capture_memo_attach(c, NULL);
	while (!__atomic_load_n(&stop_flips, __ATOMIC_ACQUIRE)) {
		const struct mt_module_list *before =
			__atomic_load_n(&mt_unwind.modules, __ATOMIC_ACQUIRE);
		struct stack want = reference(p, 64);
		mt_capture_stack(c, p->sp, p->ra, p->fp, 1);
		if (__atomic_load_n(&mt_unwind.modules, __ATOMIC_ACQUIRE) != before)
			continue;
		__atomic_add_fetch(&flip_checks, 1, __ATOMIC_RELAXED);
		int same = c->count == want.count && c->end == want.end;
		for (uint32_t i = 0; same && i < c->count; i++)
			same = c->frame[c->count - 1 - i].ra == want.ra[i];
		if (!same)
			__atomic_add_fetch(&flip_wrong, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void threads_never_see_rows_of_another_module(void **s)
{
	enum { THREADS = 3, FLIPS = 600 };
	struct mt_module_list *list[FLIPS];
	pthread_t t[THREADS];
	struct point p = plain_stack(8);
	stop_flips = flip_checks = flip_wrong = 0;
	for (uint32_t i = 0; i < FLIPS; i++) {
		/* one tables area for even lists, another one, with other frame sizes, for odd ones
		 */
		list[i] = new_list(5000 + i);
		list[i]->m[0].eh_frame_hdr = module_memory + (i & 1 ? OTHER_TABLES_AT : TABLES_AT);
	}
	write_tables_at(OTHER_TABLES_AT, 1);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, capture_under_change, &p);
	for (uint32_t i = 0; i < FLIPS; i++) {
		__atomic_store_n(&mt_unwind.modules, list[i], __ATOMIC_SEQ_CST);
		/* every fourth one goes at once, before anybody has seen its list */
		const uint32_t seen = __atomic_load_n(&flip_checks, __ATOMIC_RELAXED);
		while (i % 4 && __atomic_load_n(&flip_checks, __ATOMIC_RELAXED) == seen)
			sched_yield();
	}
	__atomic_store_n(&stop_flips, 1, __ATOMIC_RELEASE);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	assert_int_equal(flip_wrong, 0);
	assert_true(flip_checks >= FLIPS / 4 * 3);
	publish(30000);
}

static int setup(void **s)
{
	module_memory = fixture_zeros(MODULE_BYTES);
	stack_memory = fixture_zeros(STACK_WORDS * 8);
	mt_unwind.rows = fixture_zeros(mt_row_cache_bytes());
	write_tables(0);
	publish(1);
	return 0;
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_stack_gives_its_token),
		cmocka_unit_test(nodes_of_shared_frames_are_kept),
		cmocka_unit_test(the_hash_tells_frames_end_and_tag),
		cmocka_unit_test(reset_forgets_everything),
		cmocka_unit_test(a_stack_of_exactly_the_limit_is_not_cut),
		cmocka_unit_test(a_change_is_asked_about_once),
		cmocka_unit_test(while_the_modules_cannot_be_read_no_module_is_used),
		cmocka_unit_test(without_modules_there_is_one_frame),
		cmocka_unit_test(rows_of_a_module_that_is_gone_are_not_used),
#ifndef SANITIZED
		cmocka_unit_test(a_row_decoded_across_a_change_is_not_kept),
#endif
		cmocka_unit_test(threads_never_see_rows_of_another_module),
		cmocka_unit_test(join_is_exact_whatever_changes),
		cmocka_unit_test(memo_is_exact_whatever_changes),
		cmocka_unit_test(cut_stacks_are_exact_whatever_changes),
	};
	return cmocka_run_group_tests(tests, setup, NULL);
}
