/* SPDX-License-Identifier: MIT */
/* Descriptors of this very process, and the texts of /proc that triage reads. */
#include "target/descriptors.h"
#include "target/java.h"
#include "target/machine.h"
#include "target/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BYTES = 1 << 20 };

static int memory_file(const char *name, size_t bytes)
{
	static char zeros[BYTES];
	int fd = memfd_create(name, MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, zeros, bytes), bytes);
	return fd;
}

static void memory_files_count_once_and_with_what_they_hold(void **state)
{
	struct mt_descriptors before, now;
	int small, large, twin;

	assert_int_equal(mt_descriptors_read(getpid(), &before), 0);
	small = memory_file("small", BYTES / 4);
	large = memory_file("large", BYTES);
	twin = dup(large);
	assert_int_equal(ftruncate(small, 16 * BYTES), 0); /* holes are no memory */
	assert_int_equal(mt_descriptors_read(getpid(), &now), 0);
	assert_int_equal(now.count, before.count + 3);
	assert_int_equal(now.buffers, before.buffers + 2);
	/* with huge pages it may be more */
	assert_in_range(now.buffer_bytes - before.buffer_bytes, BYTES + BYTES / 4, 8 * BYTES);
	assert_string_equal(now.widest, "/memfd:large (deleted)");
	assert_int_equal(now.left_out, 0);
	close(small);
	close(large);
	close(twin);
	assert_int_equal(mt_descriptors_read(getpid(), &now), 0);
	assert_int_equal(now.count, before.count);
	assert_int_equal(now.buffer_bytes, before.buffer_bytes);
}

static void other_files_and_pipes_are_no_memory(void **state)
{
	struct mt_descriptors before, now;
	int ends[2];

	assert_int_equal(mt_descriptors_read(getpid(), &before), 0);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(mt_descriptors_read(getpid(), &now), 0);
	assert_int_equal(now.count, before.count + 2);
	assert_int_equal(now.buffers, before.buffers);
	close(ends[0]);
	close(ends[1]);
}

static void a_process_that_is_not_there_is_told(void **state)
{
	struct mt_descriptors d;

	assert_int_equal(mt_descriptors_read(INT32_MAX, &d), -ESRCH);
}

static void mounts_of_tmpfs_are_found_by_their_type(void **state)
{
	static const char text[] =
		"22 1 259:1 / / rw,relatime - ext4 /dev/root rw\n"
		"23 22 0:21 / /dev/shm rw,nosuid - tmpfs tmpfs rw\n"
		"24 22 0:22 / /tmpfs rw - ext4 tmpfs rw\n"
		"25 22 0:23 / /run rw shared:5 master:2 - tmpfs none rw,size=1024k\n"
		"26 22 0:24 / /x rw - tmpfs";
	mt_auto(mt_map) struct mt_map mounts = {0};

	assert_int_equal(mt_descriptors_tmpfs(text, &mounts), 0);
	assert_int_equal(mounts.count, 2);
	assert_true(mt_map_get(&mounts, 23, NULL));
	assert_true(mt_map_get(&mounts, 25, NULL));
	assert_int_equal(mt_descriptors_mount("pos:\t0\nflags:\t02\nmnt_id:\t25\nino:\t9\n"), 25);
	assert_int_equal(mt_descriptors_mount("pos:\t0\n"), 0);
}

static void soft_limits_are_read(void **state)
{
	static const char text[] =
		"Limit                     Soft Limit           Hard Limit           Units     \n"
		"Max address space         unlimited            unlimited            bytes     \n"
		"Max open files            1024                 524288               files     \n"
		"Max open files and more   7                    8                    files     \n";

	assert_int_equal(mt_limits_parse(text, "Max open files"), 1024);
	assert_true(mt_limits_parse(text, "Max address space") == MT_MEMORY_UNKNOWN);
	assert_true(mt_limits_parse(text, "Max locked memory") == MT_MEMORY_UNKNOWN);
	assert_true(mt_limits_parse("", "Max open files") == MT_MEMORY_UNKNOWN);
}

static void the_control_group_with_memory_is_found(void **state)
{
	static const struct {
		const char *text, *path; /* NULL: none */
	} cases[] = {
		{"0::/user.slice/x\n", "/user.slice/x"},
		{"4:memory:/a\n0::/b\n", "/a"},
		{"0::/b\n4:cpu,memory:/a", "/a"},
		{"9:name=systemd:/c\n5:memoryless,cpu:/d\n0::/\n", "/"},
		{"9:name=systemd:/c\n", NULL},
		{"4:memory:relative\n", NULL},
		{"0::/a:b\n", "/a:b"},
		{"4:memory", NULL},
		{"", NULL},
		{"0::/a-path-that-is-too-long-for-the-room-there-is\n", NULL},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char path[32] = "";
		bool is_found = mt_cgroup_parse_path(cases[i].text, path, sizeof(path));

		if (is_found != (cases[i].path != NULL) ||
		    (is_found && strcmp(path, cases[i].path) != 0))
			fail_msg("case %zu: '%s'", i, path);
	}
}

static void a_process_without_java_vm_has_no_java_heap(void **state)
{
	struct mt_image *im;
	struct mt_err err = {0};
	uint64_t start, end;

	assert_true(mt_java_is_vm("/usr/lib/jvm/lib/server/libjvm.so"));
	assert_false(mt_java_is_vm("/usr/lib/libjvm.so.debug"));
	assert_int_equal(mt_image_open_process(getpid(), MT_IMAGE_LIVE, &im, &err), 0);
	assert_int_equal(mt_java_heap(im, &start, &end, &err), -ENOENT);
	mt_image_close(im);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_files_count_once_and_with_what_they_hold),
		cmocka_unit_test(other_files_and_pipes_are_no_memory),
		cmocka_unit_test(a_process_that_is_not_there_is_told),
		cmocka_unit_test(mounts_of_tmpfs_are_found_by_their_type),
		cmocka_unit_test(soft_limits_are_read),
		cmocka_unit_test(the_control_group_with_memory_is_found),
		cmocka_unit_test(a_process_without_java_vm_has_no_java_heap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
