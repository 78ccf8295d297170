/* SPDX-License-Identifier: MIT */
/* The array of record_allocs and its file, without a tracked program. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "fixture.h"
#include "runtime/log.h"
#include "runtime/record_text.h"

static char said[65536]; /* lines of the log, each with its level in front */
static char directory[] = "/tmp/memtrack-record-XXXXXX";
static char path[256];
static struct mt_check_options options;

void mt_log(enum mt_log_level level, const char *text)
{
	size_t len = strlen(said);
	snprintf(said + len, sizeof(said) - len, "%s %s\n", level == MT_LOG_ERROR ? "E" : "I",
		 text);
}

static void open_with(uint32_t entries)
{
	said[0] = 0;
	options.flags = MT_CHECK_RECORD_ALLOCS;
	options.record_entries = entries;
	snprintf(options.record_file, sizeof(options.record_file), "%s", path);
	mt_record_text_open(&options);
	assert_true(mt_record_text_is_on);
}

static int setup(void **state)
{
	memcpy(strrchr(directory, '-') + 1, "XXXXXX", 6);
	if (!mkdtemp(directory))
		return -1;
	snprintf(path, sizeof(path), "%s/file", directory);
	return 0;
}

static int teardown(void **state)
{
	mt_record_text_close();
	unlink(path);
	return rmdir(directory);
}

/* The file's text without the thread's number and ": ", which begin each line. */
static const char *file_text(void)
{
	static char text[65536];
	char line[256], prefix[32];
	size_t len = 0;
	FILE *f = fopen(path, "r");
	text[0] = 0;
	if (!f)
		return NULL;
	snprintf(prefix, sizeof(prefix), "%d: ", (int)gettid());
	while (fgets(line, sizeof(line), f)) {
		assert_int_equal(strncmp(line, prefix, strlen(prefix)), 0);
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s",
					line + strlen(prefix));
	}
	fclose(f);
	return text;
}

static void add(const struct mt_record_text *e)
{
	uint32_t token = mt_record_text_begin();
	mt_record_text_end(token, e);
}

static void add_malloc(uint64_t address)
{
	add(&(struct mt_record_text){.type = MT_RECORD_TEXT_MALLOC,
				     .pointer = (void *)address,
				     .size = 10,
				     .present = MT_PRESENT_UNKNOWN});
}

static void off_it_gives_no_token_and_writes_nothing(void **state)
{
	assert_int_equal(mt_record_text_begin(), 0);
	assert_int_equal(mt_record_text_now(), 0);
	assert_int_equal(mt_present_bytes(state, 8), MT_PRESENT_UNKNOWN);
	mt_record_text_end(0, NULL);
	mt_record_text_write(0);
	assert_null(file_text());
}

static void each_call_has_its_line(void **state)
{
	open_with(100);
	add(&(struct mt_record_text){MT_RECORD_TEXT_MALLOC, (void *)0xabc0, NULL, 10, 0, 0, 1000,
				     1020, 77});
	add(&(struct mt_record_text){MT_RECORD_TEXT_CALLOC, (void *)0xabc0, NULL, 1, 20, 0, 1000,
				     1020, -1});
	add(&(struct mt_record_text){MT_RECORD_TEXT_MEMALIGN, (void *)0xabc0, NULL, 40, 0, 16, 1000,
				     1020, -1});
	add(&(struct mt_record_text){MT_RECORD_TEXT_REALLOC, (void *)0xdef0, NULL, 30, 0, 0, 1000,
				     1020, -1});
	add(&(struct mt_record_text){MT_RECORD_TEXT_REALLOC, NULL, (void *)0xdef0, 0, 0, 0, 1000,
				     1020, 4096});
	add(&(struct mt_record_text){MT_RECORD_TEXT_FREE, (void *)0xabc0, NULL, 0, 0, 0, 1000, 1020,
				     5});
	add(&(struct mt_record_text){MT_RECORD_TEXT_FREE, (void *)1, NULL, 0, 0, 0, 0, 0, 5});
	add(&(struct mt_record_text){MT_RECORD_TEXT_FREE, (void *)1, NULL, 0, 0, 0, 0, 0, -1});
	add(&(struct mt_record_text){MT_RECORD_TEXT_MALLOC, NULL, NULL, SIZE_MAX, 0, 0, 0, 0, -1});
	mt_record_text_write(0);
	assert_string_equal(file_text(), "malloc 0xabc0 10 1000 1020\n"
					 "calloc 0xabc0 20 1 1000 1020\n"
					 "memalign 0xabc0 16 40 1000 1020\n"
					 "realloc 0xdef0 0x0 30 1000 1020\n"
					 "realloc 0x0 0xdef0 0 1000 1020 4096\n"
					 "free 0xabc0 1000 1020 5\n"
					 "free 0x1 0 0 5\n"
					 "free 0x1\n"
					 "malloc 0x0 18446744073709551615\n");
	assert_string_equal(said, "");
}

static void a_full_array_says_so_once_a_fill(void **state)
{
	static const char full[] =
		"I Maximum number of records added, all new operations will be dropped.\n";
	open_with(3);
	add_malloc(1);
	add_malloc(2);
	assert_string_equal(said, "");
	add_malloc(3);
	assert_string_equal(said, full);
	assert_int_equal(mt_record_text_begin(), 0);
	mt_record_text_write(0);
	assert_string_equal(file_text(), "malloc 0x1 10\nmalloc 0x2 10\nmalloc 0x3 10\n");
	said[0] = 0;
	for (uint64_t i = 4; i < 9; i++)
		add_malloc(i);
	assert_string_equal(said, full);
	mt_record_text_write(0);
	assert_string_equal(file_text(), "malloc 0x4 10\nmalloc 0x5 10\nmalloc 0x6 10\n");
}

static void nothing_new_leaves_the_file(void **state)
{
	open_with(3);
	add_malloc(1);
	mt_record_text_write(0);
	mt_record_text_write(0);
	assert_string_equal(said, "I No alloc entries to write.\n");
	assert_string_equal(file_text(), "malloc 0x1 10\n");
}

static void without_a_file_the_entries_stay(void **state)
{
	char wanted[512];
	open_with(3);
	assert_int_equal(symlink("/nowhere/at/all", path), 0);
	add_malloc(1);
	mt_record_text_write(0);
	snprintf(wanted, sizeof(wanted),
		 "E Cannot create record alloc file %s: Too many levels of symbolic links\n", path);
	assert_string_equal(said, wanted);
	unlink(path);
	mt_record_text_write(0);
	assert_string_equal(file_text(), "malloc 0x1 10\n");
}

static void a_failed_write_says_so_and_drops_them(void **state)
{
	snprintf(path, sizeof(path), "/dev/full");
	open_with(3);
	add_malloc(1);
	mt_record_text_write(0);
	assert_string_equal(said, "E Failed to write record alloc information: "
				  "No space left on device\n");
	mt_record_text_write(0);
	assert_non_null(strstr(said, "No alloc entries to write."));
	snprintf(path, sizeof(path), "%s/file", directory);
}

static void a_call_under_way_is_in_the_next_file(void **state)
{
	open_with(5);
	add_malloc(1);
	uint32_t token = mt_record_text_begin(), hole = mt_record_text_begin();
	mt_record_text_end(hole, NULL);
	add_malloc(3);
	mt_record_text_write(0);
	assert_string_equal(file_text(), "malloc 0x1 10\nmalloc 0x3 10\n");
	add_malloc(4);
	mt_record_text_end(token, &(struct mt_record_text){.type = MT_RECORD_TEXT_MALLOC,
							   .pointer = (void *)2,
							   .size = 10});
	mt_record_text_write(0);
	assert_string_equal(file_text(), "malloc 0x2 10\nmalloc 0x4 10\n");
	for (uint64_t i = 5; i < 10; i++)
		add_malloc(i);
	mt_record_text_write(0);
	assert_string_equal(file_text(), "malloc 0x5 10\nmalloc 0x6 10\nmalloc 0x7 10\n"
					 "malloc 0x8 10\nmalloc 0x9 10\n");
}

static void a_call_that_never_ends_is_given_up(void **state)
{
	open_with(3);
	uint32_t token = mt_record_text_begin();
	add_malloc(1);
	mt_record_text_write(0); /* seen for the first time */
	mt_record_text_set_patience_for_test(0);
	add_malloc(2);
	mt_record_text_write(0);
	mt_record_text_set_patience_for_test(10);
	assert_string_equal(file_text(), "malloc 0x2 10\n");
	for (uint64_t i = 4; i < 7; i++)
		add_malloc(i);
	mt_record_text_end(token, &(struct mt_record_text){.type = MT_RECORD_TEXT_FREE});
	mt_record_text_write(0);
	assert_string_equal(file_text(), "malloc 0x4 10\nmalloc 0x5 10\nmalloc 0x6 10\n");
}

static void in_a_child_the_parents_calls_never_end(void **state)
{
	open_with(3);
	uint32_t token = mt_record_text_begin();
	add_malloc(1);
	mt_record_text_child();
	mt_record_text_write(0);
	assert_string_equal(file_text(), "malloc 0x1 10\n");
	mt_record_text_end(token, &(struct mt_record_text){.type = MT_RECORD_TEXT_MALLOC});
	for (uint64_t i = 4; i < 9; i++)
		add_malloc(i);
	mt_record_text_write(0);
	assert_string_equal(file_text(), "malloc 0x4 10\nmalloc 0x5 10\nmalloc 0x6 10\n");
}

static void its_clock_is_the_systems(void **state)
{
	struct timespec before, after;
	open_with(3);
	for (int i = 0; i < 2; i++, mt_rt.no_ticks = 1) {
		clock_gettime(CLOCK_MONOTONIC, &before);
		uint64_t now = mt_record_text_now();
		clock_gettime(CLOCK_MONOTONIC, &after);
		assert_in_range(now, (uint64_t)before.tv_sec * 1000000000 + before.tv_nsec,
				(uint64_t)after.tv_sec * 1000000000 + after.tv_nsec);
	}
	mt_rt.no_ticks = 0;
}

static void errno_is_kept(void **state)
{
	open_with(3);
	snprintf(options.record_file, sizeof(options.record_file), "/nowhere/file");
	errno = 77;
	add_malloc(1);
	mt_present_bytes(options.record_file, 10);
	mt_record_text_write(0);
	assert_int_equal(errno, 77);
}

/* --- present bytes ------------------------------------------------------------------------- */

static char *map_pages(size_t pages)
{
	char *p = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0);
	assert_true(p != MAP_FAILED);
	madvise(p, pages * 4096, MADV_NOHUGEPAGE);
	return p;
}

static void c136_present_bytes_of_nothing_are_unknown(void **state)
{
	open_with(3);
	assert_int_equal(mt_present_bytes(NULL, 1000), MT_PRESENT_UNKNOWN);
	assert_int_equal(mt_present_bytes(state, 0), MT_PRESENT_UNKNOWN);
	assert_int_equal(mt_present_bytes(state, SIZE_MAX), MT_PRESENT_UNKNOWN);
}

static void c137_present_bytes_count_what_is_covered(void **state)
{
	enum { PAGE = 4096 };
	open_with(3);
	char *p = map_pages(2);
	memset(p, 1, PAGE);
	assert_int_equal(mt_present_bytes(p + 500, 2 * PAGE - 600), 3596);
	assert_int_equal(mt_present_bytes(p + 500, 10), 10);
	assert_int_equal(mt_present_bytes(p + PAGE, PAGE), 0);
	p[PAGE] = 1;
	assert_int_equal(mt_present_bytes(p + 500, 2 * PAGE - 600), 2 * PAGE - 600);
	munmap(p, 2 * PAGE);
}

static void c138_present_bytes_of_many_pages(void **state)
{
	static const int touched[] = {0, 1, 255, 256, 1023, 1024, 2047};
	enum { PAGE = 4096, PAGES = 2048 };
	open_with(3);
	char *p = map_pages(PAGES);
	assert_int_equal(mt_present_bytes(p, (size_t)PAGES * PAGE), 0);
	for (size_t i = 0; i < MT_ARRAY_LEN(touched); i++)
		p[(size_t)touched[i] * PAGE] = 1;
	assert_int_equal(mt_present_bytes(p, (size_t)PAGES * PAGE), 7 * PAGE);
	munmap(p, (size_t)PAGES * PAGE);
}

/* --- many threads -------------------------------------------------------------------------- */

enum { THREADS = 3, CALLS = 20000 };
static uint32_t running;

static void *make_calls(void *argument)
{
	uint64_t number = (uint64_t)argument;
	for (uint64_t i = 0; i < CALLS;) {
		uint32_t token = mt_record_text_begin();
		if (!token) {
			sched_yield();
			continue;
		}
		struct mt_record_text e = {.type = MT_RECORD_TEXT_MALLOC,
					   .pointer = (void *)(number * CALLS + i),
					   .size = number,
					   .present = -1};
		mt_record_text_end(token, &e);
		i++;
	}
	__atomic_sub_fetch(&running, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* Counts the file's lines by address; each thread's come in order. */
static void count_lines(uint8_t *seen, uint64_t *last)
{
	char line[256];
	unsigned long address, size;
	FILE *f = fopen(path, "r");
	if (!f)
		return;
	while (fgets(line, sizeof(line), f)) {
		assert_int_equal(sscanf(line, "%*d: malloc 0x%lx %lu\n", &address, &size), 2);
		assert_true(size < THREADS && address / CALLS == size);
		assert_true(!last[size] || address > last[size]);
		last[size] = address;
		seen[address]++;
	}
	fclose(f);
	unlink(path);
}

static void each_call_is_in_one_file(void **state)
{
	static uint8_t seen[THREADS * CALLS];
	pthread_t thread[THREADS];
	uint64_t last[THREADS] = {0};
	open_with(1000);
	running = THREADS;
	for (uint64_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, make_calls, (void *)i), 0);
	while (__atomic_load_n(&running, __ATOMIC_ACQUIRE)) {
		mt_record_text_write(0);
		count_lines(seen, last);
		said[0] = 0;
	}
	for (uint64_t i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	mt_record_text_write(0);
	count_lines(seen, last);
	for (uint64_t i = 0; i < THREADS * CALLS; i++)
		assert_int_equal(seen[i], 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(off_it_gives_no_token_and_writes_nothing),
		TEST(each_call_has_its_line),
		TEST(a_full_array_says_so_once_a_fill),
		TEST(nothing_new_leaves_the_file),
		TEST(without_a_file_the_entries_stay),
		TEST(a_failed_write_says_so_and_drops_them),
		TEST(a_call_under_way_is_in_the_next_file),
		TEST(a_call_that_never_ends_is_given_up),
		TEST(in_a_child_the_parents_calls_never_end),
		TEST(its_clock_is_the_systems),
		TEST(errno_is_kept),
		TEST(c136_present_bytes_of_nothing_are_unknown),
		TEST(c137_present_bytes_count_what_is_covered),
		TEST(c138_present_bytes_of_many_pages),
		TEST(each_call_is_in_one_file),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
