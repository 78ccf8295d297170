/* SPDX-License-Identifier: MIT */
/* Files that change while they are read: a writer at work, and one that cuts the file. */
#include "fixture.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "formats/mtk_write.h"

enum { CAPACITY = 20000, READS = 300 };

/* Where the writer's tables are in its own mapping. */
struct map {
	uint8_t *data;
	struct mt_state_header *h;
};

static void *elem(const struct map *m, uint32_t kind, uint32_t number)
{
	const struct mt_state_region *r = &m->h->region[kind - 1];
	return m->data + r->offset + (uint64_t)number * r->elem_bytes;
}

/* Of block number i; the address tells the number. */
static uint32_t size_of(uint64_t i)
{
	return 1 + (uint32_t)(i % 4096);
}

/*
 * A tracker in small: allocates blocks and frees them again, in the order in which the
 * specification says that words are stored. Ends when it is killed.
 */
static void write_for_ever(const struct map *m)
{
	struct mt_state_thread *t = elem(m, MT_REGION_THREADS, 1);
	struct mt_state_cell *c = elem(m, MT_REGION_CELLS, 1);
	for (uint32_t i = 0;; i++) {
		struct mt_state_live *l = elem(m, MT_REGION_LIVE, 1 + i % 1000);
		if (l->place) {
			__atomic_store_n(&l->place, 0, __ATOMIC_RELEASE);
			__atomic_fetch_add(&t->totals[0].frees, 1, __ATOMIC_RELEASE);
			__atomic_fetch_add(&t->totals[0].freed_bytes, l->size, __ATOMIC_RELEASE);
			__atomic_fetch_add(&c->frees, 1, __ATOMIC_RELEASE);
			__atomic_fetch_add(&c->freed_bytes, l->size, __ATOMIC_RELEASE);
		}
		__atomic_fetch_add(&t->totals[0].allocs, 1, __ATOMIC_RELEASE);
		__atomic_fetch_add(&t->totals[0].bytes, size_of(i), __ATOMIC_RELEASE);
		__atomic_fetch_add(&c->allocs, 1, __ATOMIC_RELEASE);
		__atomic_fetch_add(&c->bytes, size_of(i), __ATOMIC_RELEASE);
		l->size = size_of(i);
		l->unit = 1000 + size_of(i);
		l->cell = 1;
		__atomic_store_n(&l->place, 0x100000 + 64ull * i, __ATOMIC_RELEASE);
	}
}

/* Starts a writer on a new file; the path is temp_path("moving.mtk"). */
static pid_t start_writer(void)
{
	const char *path = temp_path("moving.mtk");
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_new();
	uint32_t site = mtk_builder_site(b, mtk_builder_node(b, 1, 1, 0), MT_CALL_MALLOC);
	struct mt_state_live none = {.place = 0};
	mtk_builder_alloc(b, 1, site, 0x1000, 48); /* makes the cell */
	mtk_builder_dealloc(b, 1, 0x1000);
	for (unsigned i = 0; i < 1000; i++)
		mtk_builder_add(b, MT_REGION_LIVE, &none);
	make_ours(mtk_builder_header(b));
	assert_int_equal(mtk_builder_write_sparse(b, path, CAPACITY), 0);
	mt_auto(close) int fd = open(path, O_RDWR | O_CLOEXEC);
	struct stat st;
	assert_int_equal(fstat(fd, &st), 0);
	struct map m;
	m.data = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(m.data, MAP_FAILED);
	m.h = (struct mt_state_header *)m.data;
	pid_t pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves nothing behind */
		m.h->pid = getpid();
		write_for_ever(&m);
	}
	munmap(m.data, (size_t)st.st_size);
	return pid;
}

static void stop_writer(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void wait_for_events(const char *path)
{
	for (;;) {
		struct mt_profile *p = NULL;
		assert_int_equal(mt_mtk_read(path, &p, NULL), 0);
		uint64_t allocs = p->totals.allocs;
		mt_profile_free(p);
		if (allocs > 5000)
			return;
	}
}

static void every_reading_of_a_busy_file_is_whole(void **state)
{
	pid_t pid = start_writer();
	const char *path = temp_path("moving.mtk");
	wait_for_events(path);
	for (unsigned i = 0; i < READS; i++) {
		struct mt_profile *p = NULL;
		assert_int_equal(mt_mtk_read(path, &p, NULL), 0);
		assert_true(p->process_alive);
		assert_no_warnings(p);                 /* sums agree but for the events under way */
		assert_in_range(p->blocks, 900, 1000); /* those of a lap, less what moved */
		for (uint64_t k = 0; k < p->blocks; k++) {
			const struct mt_profile_block *block = &p->block[k];
			assert_int_equal(block->born, 1000 + block->size); /* of one moment */
			assert_int_equal(block->cell, 1);
		}
		mt_profile_free(p);
	}
	stop_writer(pid);
	struct mt_profile *p = NULL;
	assert_int_equal(mt_mtk_read(path, &p, NULL), 0);
	assert_no_warnings(p);
	assert_false(p->process_alive);
	assert_int_equal(p->end_kind, MT_END_UNKNOWN);
	mt_profile_free(p);
	unlink(path);
}

static void file_that_is_cut_and_restored_under_the_reader_never_harms_it(void **state)
{
	const char *path = temp_path("cut.mtk");
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	size_t len;
	mt_auto(free) uint8_t *data = mtk_builder_bytes(b, &len);
	assert_int_equal(mt_file_write_atomic(path, data, len, 0600, NULL), 0);
	pid_t pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		int fd = open(path, O_RDWR | O_CLOEXEC);
		for (size_t i = 0;; i = (i + 977) % len) {
			if (ftruncate(fd, (off_t)i) || mt_file_pwrite(fd, data, len, 0))
				_exit(1);
		}
	}
	unsigned whole = 0, cut = 0;
	for (unsigned i = 0; i < 4 * READS; i++) {
		struct mt_profile *p = NULL;
		struct mt_err err;
		int r = mt_mtk_read(path, &p, &err);
		if (r)
			assert_true(r == -EBADMSG || r == -ENODATA || r == -EPROTONOSUPPORT);
		else if (p->warning_count)
			cut++;
		else
			whole++;
		mt_profile_free(p);
	}
	stop_writer(pid);
	unlink(path);
	assert_int_not_equal(whole + cut, 0);
}

static uint64_t next_random(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

static void damaged_files_are_compacted_to_readable_ones_or_refused(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	size_t len;
	char from[512], to[512];
	uint64_t x = 362436069;
	unsigned done = 0, refused = 0;
	mt_auto(free) uint8_t *data = mtk_builder_bytes(b, &len);
	snprintf(from, sizeof(from), "%s", temp_path("scribbled.mtk"));
	snprintf(to, sizeof(to), "%s", temp_path("compacted.mtk"));
	mt_auto(free) uint8_t *copy = malloc(len);
	for (unsigned round = 0; round < 400; round++) {
		memcpy(copy, data, len);
		for (unsigned i = 0; i < 6; i++) /* half of them in the region table */
			copy[i % 2 ? 512 + next_random(&x) % 528 : next_random(&x) % len] =
				(uint8_t)next_random(&x);
		assert_int_equal(mt_file_write_atomic(from, copy, len, 0600, NULL), 0);
		struct mt_profile *p = NULL;
		if (mt_mtk_compact(from, to, NULL, NULL)) {
			refused++;
			continue;
		}
		done++;
		assert_int_equal(mt_mtk_read(to, &p, NULL), 0);
		mt_profile_free(p);
	}
	unlink(from);
	unlink(to);
	assert_true(done > 20);
	assert_true(refused > 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_reading_of_a_busy_file_is_whole),
		cmocka_unit_test(file_that_is_cut_and_restored_under_the_reader_never_harms_it),
		cmocka_unit_test(damaged_files_are_compacted_to_readable_ones_or_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
