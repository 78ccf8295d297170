/* SPDX-License-Identifier: MIT */
/* Recording mode's encoder and its buffers: what goes in comes out of the reader. */
#include "fixture.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "core/sys.h"
#include "formats/mtr_events.h"
#include "runtime/fast.h"
#include "runtime/stream.h"
#include "support/mtr_builder.h"

#define SITE(n) fixture_address(1, 16 * (n) + 1)

static struct mt_stream_buffer *buffers(uint32_t *ret_count)
{
	const struct mt_state_region *r = mt_rt.region[MT_REGION_STREAM];
	*ret_count = (uint32_t)MT_MIN(MT_MIN(r->used, r->capacity),
				      r->committed_bytes / MT_STREAM_BUFFER_BYTES);
	return mt_storage_base(MT_REGION_STREAM);
}

static struct mt_stream_control *control(void)
{
	return mt_storage_base(MT_REGION_STREAM);
}

/* Does as the writer does: what is full, or all, goes into the recording. How many did. */
static unsigned drain(struct mt_buf *file, int all)
{
	uint32_t count;
	unsigned drained = 0;
	struct mt_stream_buffer *b = buffers(&count);
	for (uint32_t i = 1; i < count; i++) {
		uint32_t state = __atomic_load_n(&b[i].head.state, __ATOMIC_ACQUIRE);
		if (state != MT_STREAM_FULL && !(all && state == MT_STREAM_OPEN))
			continue;
		if (file)
			mtr_block(file, b[i].head, b[i].code, b[i].head.stored_bytes);
		if (state == MT_STREAM_FULL)
			__atomic_store_n(&b[i].head.state, MT_STREAM_FREE, __ATOMIC_RELEASE);
		drained++;
	}
	return drained;
}

static int setup(void **state)
{
	int err = fixture_begin(&(struct fixture_config){0});
	mt_rt.options.launcher_pid = 1; /* somebody empties the buffers */
	err |= mt_stream_start();
	mt_rt.policy.mode = MT_MODE_RECORD;
	control()->writer_pid = (uint32_t)getpid();
	return err;
}

static struct mt_thread *recording_thread(void)
{
	struct mt_thread *t = fixture_thread();
	t->streaming = 1;
	mt_rt.no_ticks = 1; /* time is what the test says */
	return t;
}

/* As the hook of free() does. */
static void let_go(struct mt_thread *t, uint64_t address)
{
	if (!mt_fast_free(t, address, MT_FAST_STREAM))
		mt_record_free(t, (void *)address);
}

static void take_in(struct mt_thread *t, uint64_t address, size_t size, uintptr_t site)
{
	struct mt_caller caller = fixture_caller(site);
	mt_record_alloc(t, (void *)address, size, MT_CALL_MALLOC, &caller, 0);
}

/* --- what a recording says ------------------------------------------------------------------- */

enum { SLOTS = 20000 };

/* The same, by the test. */
struct model {
	struct mt_buf steps; /* struct expected */
	size_t size[SLOTS];  /* 0: free */
	uint32_t sequence[SLOTS], cell[SLOTS];
};

struct expected {
	uint64_t unit, size, gone_size;
	uint32_t kind, sequence, gone_sequence, cell, lg_align;
};

static void expect(struct model *m, const struct expected *e)
{
	mt_buf_add(&m->steps, e, sizeof(*e));
}

static void check(const struct mt_buf *file, const struct model *m)
{
	const struct expected *want = (const struct expected *)m->steps.data;
	size_t count = m->steps.len / sizeof(*want), i = 0;
	struct mt_mtr r;
	struct mt_mtr_step s;
	assert_int_equal(mt_mtr_open_memory(&r, file->data, file->len, "test", NULL), 0);
	struct mt_mtr_events *e = mt_mtr_events_new(&r);
	for (; mt_mtr_events_next(e, &s) == 1; i++) {
		assert_true(i < count);
		assert_int_equal(s.kind, want[i].kind);
		assert_int_equal(s.unit, want[i].unit);
		assert_int_equal(s.made.size, want[i].size);
		assert_int_equal(s.made.sequence, want[i].sequence);
		assert_int_equal(s.made.cell, want[i].cell);
		assert_int_equal(s.made.lg_align, want[i].lg_align);
		assert_int_equal(s.gone.size, want[i].gone_size);
		assert_int_equal(s.gone.sequence, want[i].gone_sequence);
	}
	assert_int_equal(i, count);
	struct mt_mtr_losses l = mt_mtr_events_losses(e);
	assert_int_equal(l.damaged + l.buffers + l.unknown_frees + l.ambiguous, 0);
	mt_mtr_events_free(e);
	mt_mtr_close(&r);
}

/* The cell of the newest allocation. */
static uint32_t newest_cell(struct mt_thread *t, uint64_t address, size_t size)
{
	const struct mt_state_live *l = mt_rt.live;
	uint64_t n = mt_rt.region[MT_REGION_LIVE]->used;
	uint32_t *slot = size < MT_LARGE_BYTES ? mt_index_find(address) : NULL;
	if (slot && *slot && *slot < n && l[*slot].place == address)
		return l[*slot].cell;
	for (uint64_t i = 1; i < mt_rt.region[MT_REGION_LARGE]->used; i++)
		if (mt_rt.large[i].place == address)
			return mt_rt.large[i].cell;
	return 0;
}

static uint64_t address_of(uint32_t slot)
{
	return 0x10000000u + (uint64_t)slot * 64;
}

static void do_alloc(struct mt_thread *t, struct model *m, uint32_t slot, uint64_t *seed)
{
	uint64_t random = fixture_random(seed);
	size_t size = random % 7 ? 8 * (random >> 8 & 15) + 1 : (random >> 8) % 5000000;
	struct expected e = {.kind = MT_MTR_STEP_ALLOC, .unit = mt_rt.hdr->now_unit};
	if (random % 61 == 0) {
		e.lg_align = 4 + random % 9;
		mt_stream_before_aligned(t, 1ull << e.lg_align);
	}
	if (random % 1009 == 0)
		size = (5ull << 30) + random % 1000;
	take_in(t, address_of(slot), size + 1, SITE(random >> 40 & 255));
	m->size[slot] = e.size = size + 1;
	m->sequence[slot] = e.sequence = (uint32_t)t->row->totals[MT_CLASS_MALLOC].allocs;
	m->cell[slot] = e.cell = newest_cell(t, address_of(slot), size + 1);
	expect(m, &e);
}

static void do_free(struct mt_thread *t, struct model *m, uint32_t slot)
{
	struct expected e = {.kind = MT_MTR_STEP_FREE,
			     .unit = mt_rt.hdr->now_unit,
			     .gone_size = m->size[slot],
			     .gone_sequence = m->sequence[slot]};
	let_go(t, address_of(slot));
	m->size[slot] = 0;
	expect(m, &e);
}

static void random_events_come_back_as_they_were(void **state)
{
	struct mt_thread *t = recording_thread();
	struct model *m = calloc(1, sizeof(*m));
	struct mt_buf file = {0};
	uint64_t seed = 4711;
	mtr_begin(&file);
	for (uint32_t i = 0; i < 300000; i++) {
		/* old and new, near and far */
		uint32_t span = i % 3 ? 40 : i % 5 ? 700 : SLOTS;
		uint32_t slot = (uint32_t)(fixture_random(&seed) % span);
		if (i % 1000 == 0)
			mt_rt.hdr->now_unit += fixture_random(&seed) % 300;
		if (i % 5000 == 0) /* allocations that are not recorded */
			mt_count(&t->row->totals[MT_CLASS_MALLOC].allocs, i % 7),
				mt_stream_go_slow(t);
		if (m->size[slot])
			do_free(t, m, slot);
		else
			do_alloc(t, m, slot, &seed);
		if (i % 1024 == 0)
			drain(&file, 0);
	}
	drain(&file, 1);
	check(&file, m);
	assert_int_equal(control()->lost_events, 0);
	mt_buf_done(&file);
	mt_buf_done(&m->steps);
	free(m);
}

static void an_ordinary_event_is_a_byte(void **state)
{
	struct mt_thread *t = recording_thread();
	uint32_t count;
	for (int i = 0; i < 1000; i++)
		take_in(t, address_of(1), 24, SITE(1)), let_go(t, address_of(1));
	assert_int_equal(buffers(&count)[1].head.stored_bytes, 2000 + 2); /* the first names it */
}

/* --- realloc --------------------------------------------------------------------------------- */

static void *give(const struct mt_realloc *r)
{
	return (void *)r->each; /* what the test wants */
}

static void *resize(struct mt_thread *t, uint64_t old, size_t size, uint64_t result)
{
	struct mt_realloc r = {
		.call = give, .old = (void *)old, .n = size, .each = result, .size = size};
	struct mt_caller caller = fixture_caller(SITE(9));
	t->depth = 1;
	return mt_record_realloc(MT_ENTER_TRACK, t, &r, &caller, 0);
}

static const char *text_of(const struct mt_buf *file)
{
	static char text[4096];
	struct mt_mtr r;
	struct mt_mtr_step s;
	size_t at = 0;
	text[0] = 0;
	assert_int_equal(mt_mtr_open_memory(&r, file->data, file->len, "test", NULL), 0);
	struct mt_mtr_events *e = mt_mtr_events_new(&r);
	while (mt_mtr_events_next(e, &s) == 1)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%c%u.%u:%u", at ? " " : "",
				       "afrl"[s.kind], s.made.cell ? s.made.thread : s.gone.thread,
				       s.made.sequence, s.gone.sequence);
	mt_mtr_events_free(e);
	mt_mtr_close(&r);
	return text;
}

static void a_realloc_is_one_step(void **state)
{
	struct mt_thread *t = recording_thread();
	struct mt_buf file = {0};
	mtr_begin(&file);
	take_in(t, 0x10000, 24, SITE(1));
	resize(t, 0x10000, 48, 0x10000);    /* in place */
	resize(t, 0x10000, 5000, 0x20000);  /* moved */
	resize(t, 0x20000, 9999, 0);        /* failed: nothing */
	resize(t, 0x20000, 99999, 0x40000); /* becomes large */
	resize(t, 0x40000, 0, 0);           /* freed */
	resize(t, 0, 8, 0x50000);           /* a plain allocation */
	resize(t, 0x66000, 8, 0x60000);     /* of a block that nobody knows */
	take_in(t, 0x10000, 24, SITE(1));
	drain(&file, 1);
	assert_string_equal(text_of(&file),
			    "a1.1:0 r1.2:1 r1.3:2 r1.4:3 f1.0:4 a1.5:0 a1.6:0 a1.7:0");
	mt_buf_done(&file);
}

static void what_is_filtered_is_not_recorded(void **state)
{
	struct mt_thread *t = recording_thread();
	struct mt_buf file = {0};
	mtr_begin(&file);
	mt_rt.options.min_size = 10;
	take_in(t, 0x10000, 24, SITE(1));
	take_in(t, 0x20000, 8, SITE(1));
	take_in(t, 0x30000, 25, SITE(1));
	resize(t, 0x30000, 9, 0x30000); /* wanted no more: the old one goes */
	let_go(t, 0x20000);
	take_in(t, 0x20000, 26, SITE(1));
	drain(&file, 1);
	assert_string_equal(text_of(&file), "a1.1:0 a1.3:0 f1.0:3 a1.5:0");
	mt_buf_done(&file);
}

static void a_deferred_free_is_recorded_when_it_is_settled(void **state)
{
	struct mt_thread *t = recording_thread();
	struct mt_buf file = {0};
	mtr_begin(&file);
	take_in(t, 0x10000, 24, SITE(1));
	take_in(t, 0x20000, 24, SITE(1));
	t->depth = 1;
	mt_record_free_nested(t, (void *)0x10000);
	mt_leave(t);
	drain(&file, 1);
	assert_string_equal(text_of(&file), "a1.1:0 a1.2:0 f1.0:1");
	mt_buf_done(&file);
}

static void an_event_that_was_left_by_a_jump_spoils_no_other(void **state)
{
	struct mt_thread *t = recording_thread();
	struct mt_buf file = {0};
	mtr_begin(&file);
	take_in(t, 0x10000, 24, SITE(1));
	uint32_t cell = newest_cell(t, 0x10000, 24);
	/* as if an allocation of 40 bytes there had come as far as the slots */
	uint64_t key = (uint64_t)cell << 32 | 40, hash = mt_stream_hash(key);
	t->stream_slots.near[mt_stream_near(hash)] = t->stream_slots.far[mt_stream_far(hash)] = key;
	mt_thread_renew(t);
	take_in(t, 0x20000, 40, SITE(1));
	let_go(t, 0x10000);
	drain(&file, 1);
	assert_string_equal(text_of(&file), "a1.1:0 a1.2:0 f1.0:1");
	assert_int_equal(mt_rt.hdr->lost[MT_LOST_JUMP], 1);
	mt_buf_done(&file);
}

/* --- buffers --------------------------------------------------------------------------------- */

static void fill_buffers(struct mt_thread *t, unsigned events)
{
	for (unsigned i = 0; i < events; i += 2) {
		take_in(t, address_of(1), 24, SITE(1));
		let_go(t, address_of(1));
	}
}

static void when_nobody_empties_them_events_are_dropped_and_counted(void **state)
{
	struct mt_thread *t = recording_thread();
	struct mt_buf file = {0};
	unsigned events = 20 * MT_STREAM_BUFFER_BYTES;
	struct mt_mtr_losses l;
	struct mt_mtr m;
	struct mt_mtr_step s;
	mtr_begin(&file);
	fill_buffers(t, events); /* 16 buffers of one byte an event */
	uint64_t lost = control()->lost_events;
	assert_true(lost > 3 * MT_STREAM_BUFFER_BYTES && lost < 5 * MT_STREAM_BUFFER_BYTES);
	drain(&file, 1);
	fill_buffers(t, 1000);
	drain(&file, 1);
	lost = control()->lost_events;
	assert_int_equal(mt_mtr_open_memory(&m, file.data, file.len, "test", NULL), 0);
	struct mt_mtr_events *e = mt_mtr_events_new(&m);
	while (mt_mtr_events_next(e, &s) == 1)
		;
	l = mt_mtr_events_losses(e);
	assert_int_equal(l.dropped_events, lost);
	assert_int_equal(l.allocs + l.frees + l.unknown_frees + lost, events + 1000);
	assert_int_equal(l.buffers, 0);
	mt_mtr_events_free(e);
	mt_mtr_close(&m);
	mt_buf_done(&file);
}

static void a_thread_waits_as_long_as_was_asked_for(void **state)
{
	struct mt_thread *t = recording_thread();
	control()->on_full = MT_ON_FULL_WAIT;
	control()->wait_ns = 20000000;
	fill_buffers(t, 16 * MT_STREAM_BUFFER_BYTES - 40000);
	assert_int_equal(control()->waits, 0);
	uint64_t begin = mt_sys_clock_ns(MT_CLOCK_MONOTONIC);
	fill_buffers(t, 40000);
	uint64_t waited = mt_sys_clock_ns(MT_CLOCK_MONOTONIC) - begin;
	assert_true(control()->waits >= 1);
	assert_true(waited >= 20000000);
	assert_true(control()->waited_ns >= 20000000 && control()->waited_ns <= waited);
	assert_true(control()->lost_events > 0);
}

static uint32_t drainer_stops;

static void *drain_now_and_then(void *opaque)
{
	while (!__atomic_load_n(&drainer_stops, __ATOMIC_ACQUIRE)) {
		usleep(500);
		drain(opaque, 0);
	}
	return NULL;
}

static void who_waits_loses_nothing(void **state)
{
	struct mt_thread *t = recording_thread();
	struct mt_buf file = {0};
	struct mt_mtr m;
	struct mt_mtr_step s;
	pthread_t drainer;
	unsigned events = 60 * MT_STREAM_BUFFER_BYTES;
	mtr_begin(&file);
	control()->on_full = MT_ON_FULL_WAIT;
	control()->wait_ns = 60000000000u;
	drainer_stops = 0;
	pthread_create(&drainer, NULL, drain_now_and_then, &file);
	fill_buffers(t, events);
	__atomic_store_n(&drainer_stops, 1, __ATOMIC_RELEASE);
	pthread_join(drainer, NULL);
	drain(&file, 1);
	assert_int_equal(control()->lost_events, 0);
	assert_int_equal(mt_mtr_open_memory(&m, file.data, file.len, "test", NULL), 0);
	struct mt_mtr_events *e = mt_mtr_events_new(&m);
	while (mt_mtr_events_next(e, &s) == 1)
		;
	assert_int_equal(mt_mtr_events_losses(e).allocs, events / 2);
	assert_int_equal(mt_mtr_events_losses(e).frees, events / 2);
	mt_mtr_events_free(e);
	mt_mtr_close(&m);
	mt_buf_done(&file);
}

static void after_the_limit_nothing_is_encoded(void **state)
{
	struct mt_thread *t = recording_thread();
	fill_buffers(t, 100);
	control()->stopped = 1;
	fill_buffers(t, MT_STREAM_BUFFER_BYTES); /* the open one is finished */
	uint64_t lost = control()->lost_events;
	assert_true(lost > 0);
	fill_buffers(t, 1000);
	assert_int_equal(control()->lost_events, lost + 1000);
	assert_int_equal(drain(NULL, 1), 1);
}

/* --- written by the program ------------------------------------------------------------------ */

static int setup_alone(void **state)
{
	int err = setup(state);
	mt_rt.options.launcher_pid = 0;
	control()->writer_pid = 0;
	snprintf(mt_rt.options.output, sizeof(mt_rt.options.output), "%s/out.%%p.mtk",
		 mt_rt.state_dir);
	return err;
}

/* DIR/.STATEDIR.PID.SEQ.mtr */
static void own_path(char *path, size_t bytes)
{
	snprintf(path, bytes, "%s/.%s.%d.1.mtr", mt_rt.state_dir, strrchr(mt_rt.state_dir, '/') + 1,
		 getpid());
}

static int teardown_alone(void **state)
{
	char path[512];
	own_path(path, sizeof(path));
	unlink(path);
	return fixture_teardown(state);
}

static void without_a_launcher_threads_write_by_themselves(void **state)
{
	struct mt_thread *t = recording_thread();
	unsigned events = 5 * MT_STREAM_BUFFER_BYTES / 2;
	struct mt_mtr m;
	struct mt_mtr_step s;
	char path[512];
	uint32_t count;
	fill_buffers(t, events);
	own_path(path, sizeof(path));
	assert_int_equal(mt_mtr_open(&m, path, NULL), 0);
	assert_int_equal(m.blocks, 2);
	assert_int_equal(control()->self_blocks, 2);
	assert_int_equal(m.header.pid, mt_rt.hdr->pid);
	struct mt_mtr_events *e = mt_mtr_events_new(&m);
	while (mt_mtr_events_next(e, &s) == 1)
		;
	assert_int_equal(mt_mtr_events_losses(e).damaged, 0);
	/* the rest is in the one buffer that is in use */
	buffers(&count);
	assert_int_equal(count, 2);
	struct mt_mtr_decoder *d = malloc(sizeof(*d));
	struct mt_mtr_event event;
	const struct mt_stream_buffer *open = &buffers(&count)[1];
	unsigned rest = 0;
	mt_mtr_decoder_init(d, &open->head, open->code, open->head.stored_bytes);
	while (mt_mtr_decode(d, &event) == 1)
		rest++;
	free(d);
	assert_int_equal(mt_mtr_events_losses(e).allocs + mt_mtr_events_losses(e).frees + rest,
			 events);
	mt_mtr_events_free(e);
	mt_mtr_close(&m);
}

static void a_file_that_cannot_be_written_costs_events_not_the_program(void **state)
{
	struct mt_thread *t = recording_thread();
	snprintf(mt_rt.options.output, sizeof(mt_rt.options.output), "/nowhere/at/all.mtk");
	fill_buffers(t, 3 * MT_STREAM_BUFFER_BYTES);
	assert_int_equal(control()->self_failed, ENOENT);
	assert_int_equal(control()->self_blocks, 0);
}

static void the_program_keeps_the_limit(void **state)
{
	struct mt_thread *t = recording_thread();
	char path[512];
	control()->limit_bytes = 3 * MT_STREAM_BUFFER_BYTES;
	fill_buffers(t, 9 * MT_STREAM_BUFFER_BYTES);
	own_path(path, sizeof(path));
	FILE *f = fopen(path, "r");
	fseek(f, 0, SEEK_END);
	assert_in_range(ftell(f), 2 * MT_STREAM_BUFFER_BYTES, 3 * MT_STREAM_BUFFER_BYTES);
	fclose(f);
	assert_int_equal(control()->stopped, 1);
}

static void a_writer_that_died_is_replaced_by_the_program(void **state)
{
	struct mt_thread *t = recording_thread();
	control()->writer_pid = 0x3ffffff0; /* more than pid_max */
	fill_buffers(t, 20 * MT_STREAM_BUFFER_BYTES);
	assert_int_equal(control()->lost_events, 0);
	assert_true(control()->self_blocks >= 3); /* what no buffer had room for */
}

/* --- threads --------------------------------------------------------------------------------- */

enum { THREADS = 4, EACH = 4000 };
static pthread_barrier_t barrier;

static uint64_t thread_address(unsigned thread, unsigned i)
{
	return ((uint64_t)thread + 1) << 28 | i * 64;
}

/* Each thread frees half of its own blocks and half of its neighbour's. */
static void *work(void *opaque)
{
	unsigned self = (unsigned)(uintptr_t)opaque, next = (self + 1) % THREADS;
	struct mt_thread *t = recording_thread();
	for (unsigned i = 0; i < EACH; i++)
		take_in(t, thread_address(self, i), 16 + self, SITE(self));
	pthread_barrier_wait(&barrier);
	for (unsigned i = 0; i < EACH; i++)
		let_go(t, thread_address(i % 2 ? self : next, i));
	pthread_barrier_wait(&barrier);
	return NULL;
}

static void blocks_that_other_threads_free_are_found(void **state)
{
	struct mt_buf file = {0};
	pthread_t thread[THREADS];
	struct mt_mtr m;
	struct mt_mtr_step s;
	uint64_t live = 0, peak = 0, want = 0;
	mtr_begin(&file);
	pthread_barrier_init(&barrier, NULL, THREADS);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, work, (void *)i);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	drain(&file, 1);
	assert_int_equal(mt_mtr_open_memory(&m, file.data, file.len, "test", NULL), 0);
	struct mt_mtr_events *e = mt_mtr_events_new(&m);
	while (mt_mtr_events_next(e, &s) == 1) {
		live += s.made.size - s.gone.size;
		peak = MT_MAX(peak, live);
	}
	struct mt_mtr_losses l = mt_mtr_events_losses(e);
	for (unsigned i = 0; i < THREADS; i++)
		want += EACH * (16 + i);
	assert_int_equal(l.allocs, THREADS * EACH);
	assert_int_equal(l.frees, THREADS * EACH);
	assert_int_equal(l.unknown_frees, 0);
	assert_int_equal(live, 0);
	assert_true(peak <= want);
	mt_mtr_events_free(e);
	mt_mtr_close(&m);
	pthread_barrier_destroy(&barrier);
	mt_buf_done(&file);
}

static void *record_one(void *opaque)
{
	take_in(recording_thread(), (uint64_t)(uintptr_t)opaque, 24, SITE(1));
	return NULL;
}

static void a_dead_threads_buffer_is_handed_on(void **state)
{
	struct mt_buf file = {0};
	pthread_t thread;
	mtr_begin(&file);
	for (uintptr_t i = 1; i <= 5; i++) { /* each takes the state of the one before */
		pthread_create(&thread, NULL, record_one, (void *)(i << 20));
		pthread_join(thread, NULL);
	}
	drain(&file, 1);
	assert_string_equal(text_of(&file), "a1.1:0 a2.1:0 a3.1:0 a4.1:0 a5.1:0");
	mt_buf_done(&file);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, fixture_teardown)
#define ALONE_TEST(f) cmocka_unit_test_setup_teardown(f, setup_alone, teardown_alone)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(random_events_come_back_as_they_were),
		TEST(an_ordinary_event_is_a_byte),
		TEST(a_realloc_is_one_step),
		TEST(what_is_filtered_is_not_recorded),
		TEST(a_deferred_free_is_recorded_when_it_is_settled),
		TEST(an_event_that_was_left_by_a_jump_spoils_no_other),
		TEST(when_nobody_empties_them_events_are_dropped_and_counted),
		TEST(a_thread_waits_as_long_as_was_asked_for),
		TEST(who_waits_loses_nothing),
		TEST(after_the_limit_nothing_is_encoded),
		ALONE_TEST(without_a_launcher_threads_write_by_themselves),
		ALONE_TEST(a_file_that_cannot_be_written_costs_events_not_the_program),
		ALONE_TEST(the_program_keeps_the_limit),
		ALONE_TEST(a_writer_that_died_is_replaced_by_the_program),
		TEST(blocks_that_other_threads_free_are_found),
		TEST(a_dead_threads_buffer_is_handed_on),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
