/* SPDX-License-Identifier: MIT */
/* Files that a process shares to write to: the same by both ways of the kernel. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "target/mapped_files.h"

enum { PAGE = 4096, FILES_MAX = 32 };

struct list {
	char name[FILES_MAX][512];
	uint64_t inode[FILES_MAX];
	int count;
};

static int add(void *context, const char *name, uint64_t inode)
{
	struct list *l = context;

	assert_true(l->count < FILES_MAX);
	snprintf(l->name[l->count], sizeof(l->name[0]), "%s", name);
	l->inode[l->count++] = inode;
	return 0;
}

static void list(pid_t pid, enum mt_mapped_way way, struct list *l)
{
	memset(l, 0, sizeof(*l));
	assert_int_equal(mt_mapped_files(pid, way, add, l), 0);
}

/* Maps a page of a new file. */
static void *map(const char *path, int protection, int flags, uint64_t *ret_inode)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	struct stat st;
	void *p;

	assert_true(fd >= 0 && !ftruncate(fd, PAGE) && !fstat(fd, &st));
	p = mmap(NULL, PAGE, protection, flags, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	close(fd);
	*ret_inode = st.st_ino;
	return p;
}

static bool has(const struct list *l, const char *name, uint64_t inode)
{
	for (int i = 0; i < l->count; i++)
		if (!strcmp(l->name[i], name) && l->inode[i] == inode)
			return true;
	return false;
}

static void both_ways_find_the_same_files(void **state)
{
	char dir[] = "/tmp/memtrack-mapped-XXXXXX", path[4][128], gone[160];
	const int both = PROT_READ | PROT_WRITE;
	struct list best, text;
	uint64_t inode[4];

	assert_non_null(mkdtemp(dir));
	snprintf(path[0], sizeof(path[0]), "%s/a b.mtk", dir);
	snprintf(path[1], sizeof(path[1]), "%s/new\nline.mtk", dir);
	snprintf(path[2], sizeof(path[2]), "%s/private", dir);
	snprintf(path[3], sizeof(path[3]), "%s/only read", dir);
	map(path[0], both, MAP_SHARED, &inode[0]);
	map(path[1], both, MAP_SHARED, &inode[1]);
	map(path[2], both, MAP_PRIVATE, &inode[2]);
	map(path[3], PROT_READ, MAP_SHARED, &inode[3]);
	list(getpid(), MT_MAPPED_BEST, &best);
	list(getpid(), MT_MAPPED_TEXT, &text);
	assert_true(has(&best, path[0], inode[0]) && has(&best, path[1], inode[1]));
	assert_false(has(&best, path[2], inode[2]) || has(&best, path[3], inode[3]));
	assert_memory_equal(&best, &text, sizeof(best));
	for (int i = 0; i < 4; i++)
		unlink(path[i]);
	snprintf(gone, sizeof(gone), "%s (deleted)", path[1]);
	list(getpid(), MT_MAPPED_BEST, &best);
	list(getpid(), MT_MAPPED_TEXT, &text);
	assert_true(has(&best, gone, inode[1]));
	assert_memory_equal(&best, &text, sizeof(best));
	rmdir(dir);
}

static int stop(void *context, const char *name, uint64_t inode)
{
	return 7 + 0 * (++*(int *)context);
}

static void it_ends_when_it_is_told_to(void **state)
{
	char path[] = "/tmp/memtrack-mapped-XXXXXX";
	int fd = mkstemp(path), calls = 0;
	uint64_t inode;

	assert_true(fd >= 0);
	close(fd);
	map(path, PROT_READ | PROT_WRITE, MAP_SHARED, &inode);
	map(path, PROT_READ | PROT_WRITE, MAP_SHARED, &inode);
	unlink(path);
	assert_int_equal(mt_mapped_files(getpid(), MT_MAPPED_BEST, stop, &calls), 7);
	assert_int_equal(mt_mapped_files(getpid(), MT_MAPPED_TEXT, stop, &calls), 7);
	assert_int_equal(calls, 2);
}

static void processes_without_memory_have_none(void **state)
{
	pid_t child = fork();
	siginfo_t info;
	struct list l = {.count = 0};
	int code;

	assert_true(child >= 0);
	if (!child)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
	for (int way = MT_MAPPED_BEST; way <= MT_MAPPED_TEXT; way++) {
		code = mt_mapped_files(child, (enum mt_mapped_way)way, add, &l);
		assert_true(code <= 0);
		assert_int_equal(l.count, 0);
		assert_true(mt_mapped_files(4194400, (enum mt_mapped_way)way, add, &l) < 0);
	}
	waitpid(child, NULL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_ways_find_the_same_files),
		cmocka_unit_test(it_ends_when_it_is_told_to),
		cmocka_unit_test(processes_without_memory_have_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
