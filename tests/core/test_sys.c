/* SPDX-License-Identifier: MIT */
/* Bare system calls against libc's, and the constants against the system's headers. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/clock.h"
#include "core/sys.h"

_Static_assert(MT_PROT_READ == PROT_READ && MT_PROT_WRITE == PROT_WRITE &&
		       MT_PROT_EXEC == PROT_EXEC,
	       "");
_Static_assert(MT_MAP_SHARED == MAP_SHARED && MT_MAP_PRIVATE == MAP_PRIVATE &&
		       MT_MAP_FIXED == MAP_FIXED,
	       "");
_Static_assert(MT_MAP_ANONYMOUS == MAP_ANONYMOUS && MT_MAP_NORESERVE == MAP_NORESERVE, "");
_Static_assert(MT_MADV_DONTNEED == MADV_DONTNEED && MT_MADV_NOHUGEPAGE == MADV_NOHUGEPAGE, "");
_Static_assert(MT_MADV_DONTDUMP == MADV_DONTDUMP && MT_MADV_WIPEONFORK == MADV_WIPEONFORK, "");
_Static_assert(MT_O_CREAT == O_CREAT && MT_O_EXCL == O_EXCL && MT_O_CLOEXEC == O_CLOEXEC, "");
_Static_assert(MT_O_RDONLY == O_RDONLY && MT_O_WRONLY == O_WRONLY && MT_O_RDWR == O_RDWR, "");
_Static_assert(MT_AT_FDCWD == AT_FDCWD, "");
_Static_assert(MT_RLIMIT_FSIZE == (int)RLIMIT_FSIZE && MT_RLIMIT_AS == (int)RLIMIT_AS, "");
_Static_assert(MT_ENOENT == ENOENT && MT_EINTR == EINTR && MT_ENOMEM == ENOMEM &&
		       MT_EFAULT == EFAULT,
	       "");
_Static_assert(MT_EEXIST == EEXIST && MT_EINVAL == EINVAL && MT_ENOSPC == ENOSPC &&
		       MT_ESRCH == ESRCH,
	       "");
_Static_assert(MT_ENOSYS == ENOSYS, "");
_Static_assert(sizeof(struct mt_rlimit64) == sizeof(struct rlimit), "");
_Static_assert(sizeof(struct mt_timespec) == sizeof(struct timespec), "");

static void errors_are_returned_and_errno_is_left_alone(void **state)
{
	errno = 77;
	assert_int_equal(mt_sys_close(-1), -EBADF);
	assert_int_equal(mt_sys_open("/no/such/file", MT_O_RDONLY, 0), -ENOENT);
	assert_int_equal(mt_sys_unlink("/no/such/file"), -ENOENT);
	assert_int_equal(mt_sys_access("/no/such/file", 0), -ENOENT);
	assert_int_equal(errno, 77);
}

static void an_error_is_told_from_every_address(void **state)
{
	assert_true(mt_sys_is_error(-1));
	assert_true(mt_sys_is_error(-4095));
	assert_false(mt_sys_is_error(-4096));
	assert_false(mt_sys_is_error(0));
	long bad = mt_sys_mmap(NULL, 0, MT_PROT_READ, MT_MAP_PRIVATE | MT_MAP_ANONYMOUS, -1, 0);
	assert_int_equal(bad, -EINVAL);
	assert_true(mt_sys_is_error(bad));
}

static void ids_are_those_of_libc(void **state)
{
	assert_int_equal(mt_sys_getpid(), getpid());
	assert_int_equal(mt_sys_getppid(), getppid());
	assert_int_equal(mt_sys_gettid(), gettid());
}

static void files_are_written_and_read_at_an_offset(void **state)
{
	char name[] = "/tmp/memtrack-test-sys-XXXXXX", back[4] = "";
	int fd = mkstemp(name);
	assert_true(fd >= 0);
	assert_int_equal(mt_sys_pwrite(fd, "abcd", 4, 4096), 4);
	assert_int_equal(mt_sys_pread(fd, back, 4, 4096), 4);
	assert_memory_equal(back, "abcd", 4);
	assert_int_equal(mt_sys_ftruncate(fd, 10), 0);
	assert_int_equal(lseek(fd, 0, SEEK_END), 10);
	mt_sys_close(fd);
	assert_int_equal(mt_sys_unlink(name), 0);
	assert_int_equal(access(name, F_OK), -1);
}

static void mappings_come_and_go(void **state)
{
	long at = mt_sys_mmap(NULL, 8192, MT_PROT_READ | MT_PROT_WRITE,
			      MT_MAP_PRIVATE | MT_MAP_ANONYMOUS, -1, 0);
	assert_false(mt_sys_is_error(at));
	memset((void *)at, 1, 8192);
	assert_int_equal(mt_sys_munmap((void *)at, 8192), 0);
}

static void limits_are_those_of_libc(void **state)
{
	struct mt_rlimit64 mine;
	struct rlimit theirs;
	assert_int_equal(mt_sys_getrlimit(MT_RLIMIT_FSIZE, &mine), 0);
	getrlimit(RLIMIT_FSIZE, &theirs);
	assert_true(mine.cur == theirs.rlim_cur && mine.max == theirs.rlim_max);
}

static void clocks_agree_and_ticks_rise(void **state)
{
	struct timespec ts;
	uint64_t before = mt_sys_clock_ns(MT_CLOCK_MONOTONIC), ticks = mt_clock_ticks();
	clock_gettime(CLOCK_MONOTONIC, &ts);
	uint64_t libc = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
	uint64_t after = mt_sys_clock_ns(MT_CLOCK_MONOTONIC);
	assert_true(before <= libc && libc <= after);
	assert_true(mt_clock_ticks() >= ticks);
	assert_in_range(mt_clock_unit_shift(), 1, 30);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(errors_are_returned_and_errno_is_left_alone),
		cmocka_unit_test(an_error_is_told_from_every_address),
		cmocka_unit_test(ids_are_those_of_libc),
		cmocka_unit_test(files_are_written_and_read_at_an_offset),
		cmocka_unit_test(mappings_come_and_go),
		cmocka_unit_test(limits_are_those_of_libc),
		cmocka_unit_test(clocks_agree_and_ticks_rise),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
