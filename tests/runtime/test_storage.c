/* SPDX-License-Identifier: MIT */
/* The state file under every limit: steps of growth, bounds, a full file system. */
#include "fixture.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void elements_are_handed_out_in_order_and_are_zero(void **state)
{
	static const struct mt_state_site zero;
	assert_int_equal(mt_storage_take(MT_REGION_SITES, 1), 1);
	assert_int_equal(mt_storage_take(MT_REGION_SITES, 5), 2);
	assert_int_equal(mt_storage_take(MT_REGION_SITES, 1), 7);
	assert_memory_equal(&mt_rt.sites[7], &zero, sizeof(zero));
	assert_int_equal(mt_rt.region[MT_REGION_SITES]->used, 8);
}

static void every_element_lies_in_committed_storage(void **state)
{
	struct mt_state_region *r = mt_rt.region[MT_REGION_CELLS];
	uint64_t steps = 0, before = r->committed_bytes;
	for (int i = 0; i < 50000; i++) {
		uint64_t cell = mt_storage_take(MT_REGION_CELLS, 1);
		assert_int_not_equal(cell, 0);
		assert_true((cell + 1) * sizeof(struct mt_state_cell) <= r->committed_bytes);
		mt_rt.cells[cell].allocs = 1;
		steps += r->committed_bytes != before;
		before = r->committed_bytes;
	}
	assert_in_range(steps, 2, 40); /* growing steps: 50000 cells are 6.4 MB */
	uint64_t sum = 0;
	for (int kind = 1; kind < MT_REGIONS; kind++)
		sum += mt_rt.region[kind] ? mt_rt.region[kind]->committed_bytes : 0;
	assert_true(mt_rt.hdr->committed_bytes == sum);
}

static void a_full_region_refuses_and_counts(void **state)
{
	struct mt_state_region *r = mt_rt.region[MT_REGION_LABELS];
	while (mt_storage_take(MT_REGION_LABELS, 1))
		;
	assert_int_equal(r->capacity, 65535);
	assert_int_equal(r->refused, 1);
	assert_int_equal(mt_storage_take(MT_REGION_LABELS, 3), 0);
	assert_int_equal(r->refused, 4);
	assert_int_equal(mt_rt.no_storage, 0);
	assert_int_not_equal(mt_storage_take(MT_REGION_SITES, 1), 0);
}

static void strings_are_copied_and_named_by_offset(void **state)
{
	const char *strings = mt_storage_base(MT_REGION_STRINGS);
	uint32_t a = mt_storage_string("abc"), b = mt_storage_string("defg");
	assert_string_equal(strings + a, "abc");
	assert_string_equal(strings + b, "defg");
	assert_int_equal(b, a + 4);
	assert_int_equal(mt_storage_string(""), 0);
	assert_int_equal(mt_storage_string(NULL), 0);
}

static void max_bytes_bounds_what_is_committed(void **state)
{
	const uint64_t bound = 2 << 20;
	assert_int_equal(fixture_begin(&(struct fixture_config){.max_bytes = bound}), 0);
	uint64_t given = 0;
	while (mt_storage_take(MT_REGION_CELLS, 1))
		given++;
	assert_true(mt_rt.hdr->committed_bytes <= bound);
	assert_true(given > 4000 && given <= bound / 2 / 128); /* stacks and cells get half */
	assert_true(mt_rt.hdr->notes & MT_NOTE_LIMIT_REACHED);
	assert_false(mt_rt.hdr->notes & MT_NOTE_STORAGE_ENDED);
	assert_int_equal(mt_rt.hdr->lost[MT_LOST_STORAGE], 0);
	for (given = 0; mt_storage_take(MT_REGION_LIVE, 1); given++)
		;
	assert_true(given * sizeof(struct mt_state_live) > bound / 3);
	assert_true(mt_rt.hdr->committed_bytes <= bound);
	assert_true(mt_storage_take(MT_REGION_THREADS, 100) > 0); /* never refused */
	struct stat st;
	assert_int_equal(stat(mt_rt.state_path, &st), 0);
	assert_true((uint64_t)st.st_blocks * 512 <= bound + 65536);
	fixture_end();
}

static void when_storage_ends_blocks_are_counted_on(void **state)
{
	assert_int_equal(fixture_begin(&(struct fixture_config){.max_bytes = 1 << 20}), 0);
	struct mt_thread *t = fixture_thread();
	struct mt_caller caller = fixture_caller(fixture_address(1, 1));
	for (uint64_t i = 0; i < 200000; i++)
		mt_record_alloc(t, (void *)(0x10000000u + i * 64), 10, MT_CALL_MALLOC, &caller, 0);
	uint64_t count, bytes;
	fixture_count_live(&count, &bytes);
	assert_int_equal(t->row->totals[MT_CLASS_MALLOC].allocs, 200000);
	assert_int_equal(count + t->row->untracked_allocs, 200000);
	assert_int_equal(mt_rt.hdr->lost[MT_LOST_LIVE_FULL], t->row->untracked_allocs);
	assert_true(t->row->untracked_allocs > 0 && count > 1000);
	fixture_end();
}

/* --- limits of the process: each in a child ----------------------------------------------------
 */

/* Exit codes of children: 0 good, else the line that failed. */
#define EXPECT(condition) \
	do { \
		if (!(condition)) \
			_exit(__LINE__ % 250 + 1); \
	} while (0)

static int in_child(void (*function)(void))
{
	int status;
	pid_t child = fork();
	if (child == 0) {
		function();
		_exit(0);
	}
	waitpid(child, &status, 0);
	if (WIFSIGNALED(status))
		fprintf(stderr, "child: signal %d\n", WTERMSIG(status));
	else if (WEXITSTATUS(status))
		fprintf(stderr, "child: code %d\n", WEXITSTATUS(status));
	return status;
}

static void set_limit(int resource, uint64_t bytes)
{
	struct rlimit limit = {bytes, bytes};
	EXPECT(setrlimit(resource, &limit) == 0);
}

static void take_until_refused(void)
{
	struct mt_thread *t = fixture_thread();
	EXPECT(t);
	for (uint64_t i = 0; i < 3000000 && !t->row->untracked_allocs; i++) {
		struct mt_caller caller = fixture_caller(fixture_address(1, (uint32_t)(i % 5000)));
		mt_record_alloc(t, (void *)(0x10000000u + i * 64), 10, MT_CALL_MALLOC, &caller, 0);
	}
	EXPECT(t->row->untracked_allocs);
}

static void under_file_size_limit(void)
{
	set_limit(RLIMIT_FSIZE, 4 << 20);
	EXPECT(fixture_begin(&(struct fixture_config){0}) == 0);
	EXPECT(mt_rt.file_bytes <= 4 << 20);
	EXPECT(mt_rt.hdr->notes & MT_NOTE_REDUCED_BY_LIMIT);
	take_until_refused();
	fixture_end();
}

static void a_file_size_limit_makes_the_tables_smaller(void **state)
{
	assert_int_equal(in_child(under_file_size_limit), 0);
}

static void under_tiny_file_size_limit(void)
{
	set_limit(RLIMIT_FSIZE, 4096);
	EXPECT(fixture_begin(&(struct fixture_config){0}) < 0);
	EXPECT(mt_rt.hdr == NULL);
	EXPECT(access(mt_rt.state_path, F_OK) != 0);
	fixture_end();
}

static void a_tiny_file_size_limit_means_no_start_and_no_signal(void **state)
{
	assert_int_equal(in_child(under_tiny_file_size_limit), 0);
}

#ifndef __SANITIZE_ADDRESS__
#ifndef __SANITIZE_THREAD__
static void under_address_space_limit(void)
{
	set_limit(RLIMIT_AS, 300 << 20);
	EXPECT(fixture_begin(&(struct fixture_config){0}) == 0);
	EXPECT(mt_rt.file_bytes <= 300 << 20);
	EXPECT(mt_rt.arena_bytes <= 300 << 20);
	EXPECT(mt_rt.hdr->notes & MT_NOTE_REDUCED_BY_LIMIT);
	/* most of the space is left for the program */
	void *p = malloc(150 << 20);
	EXPECT(p);
	free(p);
	fixture_end();
}

static void an_address_space_limit_makes_the_tables_smaller(void **state)
{
	assert_int_equal(in_child(under_address_space_limit), 0);
}
#endif
#endif

/* --- a full file system: a tiny tmpfs in a mount namespace of our own --------------------------
 */

static char small_directory[64];

static int mount_small(const char *options)
{
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return -1;
	return mount("memtrack-test", small_directory, "tmpfs", 0, options);
}

enum { CANNOT_MOUNT = 255 };

/* Runs a child that mounts; skips the test where mounting is not allowed. */
static void in_child_with_mount(void (*function)(void))
{
	snprintf(small_directory, sizeof(small_directory), "/tmp/memtrack-small-XXXXXX");
	assert_non_null(mkdtemp(small_directory));
	int status = in_child(function);
	rmdir(small_directory);
	if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT_MOUNT)
		skip();
	assert_int_equal(status, 0);
}

static void on_small_file_system(void)
{
	if (mount_small("size=2m"))
		_exit(CANNOT_MOUNT);
	EXPECT(fixture_begin(&(struct fixture_config){.directory = small_directory}) == 0);
	EXPECT(strncmp(mt_rt.state_path, small_directory, strlen(small_directory)) == 0);
	take_until_refused();
	EXPECT(mt_rt.hdr->notes & MT_NOTE_STORAGE_ENDED);
	EXPECT(mt_rt.hdr->lost[MT_LOST_STORAGE]);
	/* what was given stays usable: no SIGBUS */
	for (uint64_t i = 1; i < 1000; i++)
		mt_record_free(fixture_thread(), (void *)(0x10000000u + i * 64));
	fixture_end();
}

static void a_full_file_system_ends_recording_and_not_the_process(void **state)
{
	in_child_with_mount(on_small_file_system);
}

static void on_full_file_system(void)
{
	char name[128], block[4096];
	if (mount_small("size=1m"))
		_exit(CANNOT_MOUNT);
	snprintf(name, sizeof(name), "%s/fill", small_directory);
	int fd = open(name, O_CREAT | O_WRONLY, 0600);
	memset(block, 1, sizeof(block));
	while (write(fd, block, sizeof(block)) == sizeof(block))
		;
	close(fd);
	EXPECT(fixture_begin(&(struct fixture_config){.directory = small_directory}) == 0);
	EXPECT(strncmp(mt_rt.state_path, small_directory, strlen(small_directory)) != 0);
	EXPECT(access(mt_rt.state_path, F_OK) == 0);
	EXPECT(unlink(name) == 0);
	fixture_end();
	EXPECT(umount(small_directory) == 0); /* nothing of ours is open there */
}

static void a_file_system_without_a_free_page_is_like_none(void **state)
{
	in_child_with_mount(on_full_file_system);
}

/* --- header ---------------------------------------------------------------------------------- */

static void the_header_says_who_and_when(void **state)
{
	const struct mt_state_header *h = mt_rt.hdr;
	assert_memory_equal(h->magic, MT_STATE_MAGIC, 8);
	assert_int_equal(h->byte_order, MT_STATE_BYTE_ORDER);
	assert_int_equal(h->pid, getpid());
	assert_int_equal(h->ppid, getppid());
	assert_int_equal(h->control, 1);
	assert_true(h->proc_start > 0);
	assert_true(h->tick_start > 0 && h->mono_start_ns > 0 &&
		    h->wall_start_ns > h->mono_start_ns);
	static const uint8_t none[16];
	assert_memory_not_equal(h->boot_id, none, 16);
	for (int i = 0; h->region[i + 1].kind; i++)
		assert_true(h->region[i].offset + h->region[i].capacity * h->region[i].elem_bytes <=
			    h->region[i + 1].offset);
}

static void the_file_is_private_and_goes_with_its_directory(void **state)
{
	char path[320];
	struct stat st;
	snprintf(path, sizeof(path), "%s", mt_rt.state_path);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	mt_storage_unlink();
	assert_int_equal(stat(path, &st), -1);
}

#define WITH_TABLES(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_TABLES(elements_are_handed_out_in_order_and_are_zero),
		WITH_TABLES(every_element_lies_in_committed_storage),
		WITH_TABLES(a_full_region_refuses_and_counts),
		WITH_TABLES(strings_are_copied_and_named_by_offset),
		cmocka_unit_test(max_bytes_bounds_what_is_committed),
		cmocka_unit_test(when_storage_ends_blocks_are_counted_on),
		cmocka_unit_test(a_file_size_limit_makes_the_tables_smaller),
		cmocka_unit_test(a_tiny_file_size_limit_means_no_start_and_no_signal),
#ifndef __SANITIZE_ADDRESS__
#ifndef __SANITIZE_THREAD__
		cmocka_unit_test(an_address_space_limit_makes_the_tables_smaller),
#endif
#endif
		cmocka_unit_test(a_full_file_system_ends_recording_and_not_the_process),
		cmocka_unit_test(a_file_system_without_a_free_page_is_like_none),
		WITH_TABLES(the_header_says_who_and_when),
		WITH_TABLES(the_file_is_private_and_goes_with_its_directory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
