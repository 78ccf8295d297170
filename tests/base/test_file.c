/* SPDX-License-Identifier: MIT */
#include "test_all.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"

struct folder {
	char dir[256], file[300];
};

static int setup(void **state)
{
	struct folder *f = calloc(1, sizeof(*f));
	const char *tmp = getenv("TMPDIR");
	snprintf(f->dir, sizeof(f->dir), "%s/mt-file-XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(f->dir))
		return -1;
	snprintf(f->file, sizeof(f->file), "%s/f", f->dir);
	*state = f;
	return 0;
}

/* Fails when a test left anything but its file. */
static int teardown(void **state)
{
	struct folder *f = *state;
	unlink(f->file);
	int r = rmdir(f->dir);
	free(f);
	return r;
}

static void written_file_reads_back(void **state)
{
	struct folder *f = *state;
	mt_auto(free) char *text = NULL;
	size_t len;
	struct stat st;
	assert_int_equal(mt_file_write_atomic(f->file, "a\0b", 3, 0640, NULL), 0);
	assert_int_equal(mt_file_read(f->file, 3, &text, &len, NULL), 0);
	assert_int_equal(len, 3);
	assert_memory_equal(text, "a\0b\0", 4);
	assert_int_equal(stat(f->file, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
}

static void long_file_reads_whole(void **state)
{
	struct folder *f = *state;
	mt_auto(free) char *data = calloc(1, 300000);
	mt_auto(free) char *back = NULL;
	size_t len;
	for (unsigned i = 0; i < 300000; i++)
		data[i] = (char)(i * 31 >> 3);
	assert_int_equal(mt_file_write_atomic(f->file, data, 300000, 0600, NULL), 0);
	assert_int_equal(mt_file_read(f->file, 300000, &back, &len, NULL), 0);
	assert_int_equal(len, 300000);
	assert_memory_equal(back, data, len);
}

static void file_above_the_bound_is_refused(void **state)
{
	struct folder *f = *state;
	char *text = NULL;
	size_t len;
	struct mt_err err;
	assert_int_equal(mt_file_write_atomic(f->file, "12345", 5, 0600, NULL), 0);
	assert_int_equal(mt_file_read(f->file, 4, &text, &len, &err), -EFBIG);
	assert_non_null(strstr(err.text, "longer than 4 bytes"));
	assert_null(text);
	assert_int_equal(mt_file_read("/dev/zero", 1 << 20, &text, &len, &err), -EFBIG);
}

static void proc_files_of_size_zero_are_read(void **state)
{
	mt_auto(free) char *text = NULL;
	size_t len;
	assert_int_equal(mt_file_read("/proc/self/status", 1 << 20, &text, &len, NULL), 0);
	assert_non_null(strstr(text, "VmRSS"));
}

static void missing_files_and_folders_are_said(void **state)
{
	char *text = NULL;
	size_t len;
	struct mt_err err;
	assert_int_equal(mt_file_read("/nonexistent", 10, &text, &len, &err), -ENOENT);
	assert_string_equal(err.text, "cannot open '/nonexistent': No such file or directory");
	assert_int_equal(mt_file_read("/proc", 10, &text, &len, &err), -EISDIR);
	assert_string_equal(err.text, "cannot read '/proc': Is a directory");
	assert_int_equal(mt_file_write_atomic("/nonexistent/x", "", 0, 0600, &err), -ENOENT);
	assert_string_equal(err.text, "cannot create '/nonexistent/x': No such file or directory");
	assert_int_equal(mt_file_write_atomic("/dev/null", "", 0, 0600, &err), -EINVAL);
	assert_string_equal(err.text, "cannot replace '/dev/null': it is no regular file");
}

static void dropped_file_leaves_the_old_one(void **state)
{
	struct folder *f = *state;
	struct mt_atomic_file a;
	mt_auto(free) char *text = NULL;
	size_t len;
	assert_int_equal(mt_file_write_atomic(f->file, "old", 3, 0600, NULL), 0);
	assert_int_equal(mt_atomic_file_open(&a, f->file, 0600, NULL), 0);
	assert_int_equal(mt_file_write(a.fd, "new", 3), 0);
	mt_atomic_file_close(&a);
	mt_atomic_file_close(&a); /* again is allowed */
	mt_atomic_file_close(NULL);
	assert_int_equal(mt_file_read(f->file, 10, &text, &len, NULL), 0);
	assert_string_equal(text, "old");
}

static void full_disk_is_an_error(void **state)
{
	mt_auto(close) int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		skip();
	assert_int_equal(mt_file_write(fd, "x", 1), -ENOSPC);
	assert_int_equal(mt_file_pwrite(fd, "x", 1, 0), -ENOSPC);
}

static void positioned_reads_are_short_only_at_the_end(void **state)
{
	struct folder *f = *state;
	char text[8] = "";
	assert_int_equal(mt_file_write_atomic(f->file, "0123456789", 10, 0600, NULL), 0);
	mt_auto(close) int fd = open(f->file, O_RDWR | O_CLOEXEC);
	assert_int_equal(mt_file_pread(fd, text, 4, 3), 4);
	assert_memory_equal(text, "3456", 4);
	assert_int_equal(mt_file_pread(fd, text, 8, 7), 3);
	assert_int_equal(mt_file_pread(fd, text, 8, 100), 0);
	assert_int_equal(mt_file_pread(fd, text, 8, UINT64_MAX), -EINVAL);
	assert_int_equal(mt_file_pread(-1, text, 8, 0), -EBADF);
	assert_int_equal(mt_file_pwrite(fd, "xy", 2, 9), 0);
	assert_int_equal(mt_file_pread(fd, text, 8, 8), 3);
	assert_memory_equal(text, "8xy", 3);
}

/* Also one that has closed its descriptor and only has the file mapped. */
static void a_writer_is_seen(void **state)
{
	struct folder *f = *state;
	sigset_t io, before;
	int fd, reader;
	void *at;

	sigemptyset(&io);
	sigaddset(&io, SIGIO);
	sigprocmask(SIG_BLOCK, &io, &before);
	assert_int_equal(mt_file_write_atomic(f->file, "abc", 3, 0600, NULL), 0);
	reader = open(f->file, O_RDONLY | O_CLOEXEC);
	assert_int_equal(mt_file_has_writer(reader), 0);
	fd = open(f->file, O_RDWR | O_CLOEXEC);
	assert_int_equal(mt_file_has_writer(reader), 1);
	at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(at, MAP_FAILED);
	close(fd);
	assert_int_equal(mt_file_has_writer(reader), 1);
	munmap(at, 4096);
	assert_int_equal(mt_file_has_writer(reader), 0);
	close(reader);
	assert_int_equal(mt_file_has_writer(-1), -EBADF);
	sigprocmask(SIG_SETMASK, &before, NULL);
}

static void every_allocation_may_fail(void **state)
{
	struct folder *f = *state;
	char *text = NULL;
	size_t len, n = 1;
	struct mt_err err;
	for (;; n++) {
		mt_alloc_fail_from_for_test(n);
		int r = mt_file_write_atomic(f->file, "abc", 3, 0600, &err);
		if (!r)
			r = mt_file_read(f->file, 10, &text, &len, &err);
		mt_alloc_fail_from_for_test(0);
		if (!r)
			break;
		assert_int_equal(r, -ENOMEM);
		assert_string_equal(err.text, "cannot allocate memory");
	}
	assert_true(n > 2);
	free(text);
}

#define WITH_FOLDER(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_FOLDER(written_file_reads_back),
		WITH_FOLDER(long_file_reads_whole),
		WITH_FOLDER(file_above_the_bound_is_refused),
		cmocka_unit_test(proc_files_of_size_zero_are_read),
		cmocka_unit_test(missing_files_and_folders_are_said),
		WITH_FOLDER(dropped_file_leaves_the_old_one),
		cmocka_unit_test(full_disk_is_an_error),
		WITH_FOLDER(positioned_reads_are_short_only_at_the_end),
		WITH_FOLDER(a_writer_is_seen),
		WITH_FOLDER(every_allocation_may_fail),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
