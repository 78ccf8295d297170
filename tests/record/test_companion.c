/* SPDX-License-Identifier: MIT */
/* The thread of the launcher that visits state files while the program runs. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "core/sys.h"
#include "record/companion.h"
#include "support/mtk_builder.h"
#include "target/process.h"

enum { FILES = 8, WAIT_S = 30, DEAD_PID = 4194400 };
#define MINUTE_NS (60 * 1000000000ull)

static char dir[64];

/* What the task saw, by process. */
struct seen {
	char name[64];
	unsigned due, rung, last;
	unsigned after_last, without_file;
	int token; /* its address is the task's data */
};

static struct {
	struct seen file[FILES];
	unsigned signals; /* visits in which some signal was not blocked */
	unsigned bad_data;
} log_;

static struct seen *see(const char *name)
{
	for (int i = 0; i < FILES; i++) {
		if (!log_.file[i].name[0])
			snprintf(log_.file[i].name, sizeof(log_.file[i].name), "%s", name);
		if (!strcmp(log_.file[i].name, name))
			return &log_.file[i];
	}
	return NULL;
}

static void add(unsigned *count)
{
	__atomic_add_fetch(count, 1, __ATOMIC_SEQ_CST);
}

static unsigned get(const unsigned *count)
{
	return __atomic_load_n(count, __ATOMIC_SEQ_CST);
}

static void visit(void *context, const struct mt_companion_file *f, enum mt_companion_why why,
		  void **data)
{
	struct seen *s = see(f->name);
	sigset_t blocked;

	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	if (!sigismember(&blocked, SIGTERM) || !sigismember(&blocked, SIGUSR2))
		add(&log_.signals);
	if (*data && *data != &s->token)
		add(&log_.bad_data);
	*data = &s->token;
	if (s->last)
		add(&s->after_last);
	if (f->fd < 0)
		add(&s->without_file);
	add(why == MT_COMPANION_LAST ? &s->last : why == MT_COMPANION_RUNG ? &s->rung : &s->due);
}

static int setup(void **state)
{
	memset(&log_, 0, sizeof(log_));
	snprintf(dir, sizeof(dir), "/tmp/memtrack-test-companion-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	return system(command);
}

static uint32_t first_mode = MT_MODE_FULL; /* of files that are added; 0: it just starts */

static void add_file(const char *name, pid_t pid)
{
	struct mtk_builder *b = mtk_builder_sample();
	struct mt_state_header *h = mtk_builder_header(b);
	struct mt_process process;
	char path[512];
	uint8_t *data;
	size_t len;

	h->pid = pid;
	h->proc_start = 1;
	h->end_kind = MT_END_RUNNING;
	h->first_mode = first_mode;
	assert_int_equal(mt_process_boot_id(h->boot_id), 0);
	if (pid != DEAD_PID) {
		assert_int_equal(mt_process_read(pid, &process), 0);
		h->proc_start = process.start_ticks;
	}
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	data = mtk_builder_bytes(b, &len);
	assert_int_equal(mt_file_write_atomic(path, data, len, 0600, NULL), 0);
	free(data);
	mtk_builder_free(b);
}

static struct mt_companion *start(uint64_t period_ns)
{
	struct mt_companion_task task = {.period_ns = period_ns, .visit = visit};
	struct mt_companion_run run = {
		.dir = dir, .launcher = getpid(), .task = &task, .task_count = 1};
	struct mt_companion *c = NULL;

	assert_int_equal(mt_companion_start(&run, &c, NULL), 0);
	assert_non_null(c);
	return c;
}

/* Waits until *count is at least `least`. */
static void wait_for(const unsigned *count, unsigned least)
{
	uint64_t end = mt_sys_clock_ns(MT_CLOCK_MONOTONIC) + WAIT_S * 1000000000ull;

	while (get(count) < least) {
		assert_true(mt_sys_clock_ns(MT_CLOCK_MONOTONIC) < end);
		usleep(1000);
	}
}

static unsigned count_threads(void)
{
	DIR *d = opendir("/proc/self/task");
	unsigned count = 0;

	assert_non_null(d);
	for (struct dirent *e; (e = readdir(d));)
		count += e->d_name[0] != '.';
	closedir(d);
	return count;
}

static void without_tasks_no_thread_is_started(void **state)
{
	struct mt_companion_run run = {.dir = dir, .launcher = getpid()};
	struct mt_companion *c = (struct mt_companion *)dir;
	unsigned before = count_threads();

	assert_int_equal(mt_companion_start(&run, &c, NULL), 0);
	assert_null(c);
	assert_int_equal(count_threads(), before);
	mt_companion_ring(c);
	mt_companion_stop(c);
}

static void a_directory_that_is_not_there_is_named(void **state)
{
	struct mt_companion_task task = {.visit = visit};
	struct mt_companion_run run = {.dir = "/nonexistent/x", .task = &task, .task_count = 1};
	struct mt_companion *c;
	struct mt_err err = {0};

	assert_int_equal(mt_companion_start(&run, &c, &err), -ENOENT);
	assert_string_equal(err.text, "cannot watch the state files in '/nonexistent/x': No such "
				      "file or directory");
}

static void a_file_is_visited_in_every_period_and_once_at_the_end(void **state)
{
	const struct seen *s = see("1.1.mtk");
	struct mt_companion *c;

	add_file("1.1.mtk", getpid());
	c = start(1000000);
	wait_for(&s->due, 5);
	assert_int_equal(s->last, 0);
	mt_companion_stop(c);
	assert_int_equal(s->last, 1);
	assert_int_equal(s->after_last + s->rung + log_.signals + log_.bad_data, 0);
}

static void the_bell_and_the_end_do_not_wait_for_the_deadline(void **state)
{
	const struct seen *s = see("1.1.mtk");
	uint64_t begin = mt_sys_clock_ns(MT_CLOCK_MONOTONIC);
	struct mt_companion *c;

	add_file("1.1.mtk", getpid());
	c = start(10 * MINUTE_NS);
	wait_for(&s->due, 1);
	mt_companion_ring(c);
	wait_for(&s->rung, 1);
	mt_companion_stop(c);
	assert_true(mt_sys_clock_ns(MT_CLOCK_MONOTONIC) - begin < MINUTE_NS);
	assert_int_equal(s->due, 1);
	assert_int_equal(s->last, 1);
}

static void a_file_that_comes_later_is_seen(void **state)
{
	const struct seen *s = see("7.1.mtk");
	struct mt_companion *c = start(10 * MINUTE_NS);

	add_file("7.1.mtk", getpid());
	wait_for(&s->due, 1);
	mt_companion_stop(c);
	assert_int_equal(s->last, 1);
}

static void files_of_the_ended_get_the_last_visit_at_once(void **state)
{
	const struct seen *dead = see("4194400.1.mtk"), *child = see("2.1.mtk");
	struct mt_companion *c;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid)
		for (;;)
			pause();
	add_file("4194400.1.mtk", DEAD_PID);
	add_file("2.1.mtk", pid);
	c = start(10 * MINUTE_NS);
	wait_for(&dead->last, 1);
	wait_for(&child->due, 1);
	assert_int_equal(get(&child->last), 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	wait_for(&child->last, 1);
	mt_companion_stop(c);
	assert_int_equal(dead->due, 0);
	assert_int_equal(dead->last, 1);
	assert_int_equal(child->last, 1);
}

static void the_file_of_a_program_that_was_replaced_is_done(void **state)
{
	const struct seen *old = see("3.1.mtk"), *new = see("3.2.mtk");
	struct mt_companion *c;

	add_file("3.1.mtk", getpid());
	c = start(10 * MINUTE_NS);
	wait_for(&old->due, 1);
	add_file("3.2.mtk", getpid());
	wait_for(&old->last, 1);
	wait_for(&new->due, 1);
	assert_int_equal(get(&new->last), 0);
	mt_companion_stop(c);
	assert_int_equal(new->last, 1);
	assert_int_equal(old->last, 1);
}

static void other_files_and_unfinished_headers_are_left_alone(void **state)
{
	static const char zeros[4096];
	struct mt_companion *c;
	char path[128];

	snprintf(path, sizeof(path), "%s/9.1.mtk", dir);
	assert_int_equal(mt_file_write_atomic(path, zeros, sizeof(zeros), 0600, NULL), 0);
	snprintf(path, sizeof(path), "%s/output", dir);
	assert_int_equal(mt_file_write_atomic(path, "x", 1, 0600, NULL), 0);
	snprintf(path, sizeof(path), "%s/8.1.mtk", dir);
	assert_int_equal(symlink("1.1.mtk", path), 0);
	add_file("1.1.mtk", getpid());
	first_mode = 0;
	add_file("2.1.mtk", getpid());
	first_mode = MT_MODE_FULL;
	c = start(1000000);
	wait_for(&see("1.1.mtk")->due, 3);
	mt_companion_stop(c);
	assert_string_equal(log_.file[1].name, ""); /* nothing else was visited */
}

static void a_file_that_is_gone_still_gets_its_last_visit(void **state)
{
	const struct seen *s = see("1.1.mtk");
	struct mt_companion *c;
	char path[128];

	add_file("1.1.mtk", getpid());
	c = start(1000000);
	wait_for(&s->due, 1);
	snprintf(path, sizeof(path), "%s/1.1.mtk", dir);
	assert_int_equal(unlink(path), 0);
	wait_for(&s->last, 1);
	mt_companion_stop(c);
	assert_int_equal(s->last, 1);
	assert_int_equal(s->without_file, 1);
}

/* ---- taking ---- */

static struct {
	unsigned calls, early; /* early: before the LAST visit */
	int answer;
	char name[64];
	bool is_replaced;
} taken;

static int take(void *context, const struct mt_companion_file *f, bool is_replaced)
{
	if (!get(&see(f->name)->last))
		add(&taken.early);
	snprintf(taken.name, sizeof(taken.name), "%s", f->name);
	taken.is_replaced = is_replaced;
	if (taken.answer == MT_COMPANION_TAKEN)
		assert_int_equal(unlinkat(f->dir_fd, f->name, 0), 0);
	add(&taken.calls);
	return taken.answer;
}

static struct mt_companion *start_taking(int answer)
{
	struct mt_companion_task task = {.period_ns = 10 * MINUTE_NS, .visit = visit};
	struct mt_companion_run run = {
		.dir = dir, .launcher = getpid(), .task = &task, .task_count = 1, .take = take};
	struct mt_companion *c = NULL;

	memset(&taken, 0, sizeof(taken));
	taken.answer = answer;
	assert_int_equal(mt_companion_start(&run, &c, NULL), 0);
	return c;
}

static void *map(const char *name)
{
	char path[128];
	void *at;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(at, MAP_FAILED);
	close(fd);
	return at;
}

static void files_of_the_ended_are_taken_and_others_are_not(void **state)
{
	struct mt_companion *c;

	add_file("1.1.mtk", getpid());
	add_file("4194400.1.mtk", DEAD_PID);
	c = start_taking(MT_COMPANION_TAKEN);
	wait_for(&taken.calls, 1);
	wait_for(&see("1.1.mtk")->due, 1);
	assert_string_equal(taken.name, "4194400.1.mtk");
	assert_false(taken.is_replaced);
	mt_companion_stop(c);
	assert_int_equal(taken.calls, 1); /* the end is the launcher's */
	assert_int_equal(taken.early, 0);
	assert_int_equal(see("1.1.mtk")->last, 1);
	assert_int_equal(see("4194400.1.mtk")->last, 1);
}

static void a_name_that_was_taken_may_come_again(void **state)
{
	struct mt_companion *c = start_taking(MT_COMPANION_TAKEN);

	for (unsigned i = 1; i <= 3; i++) {
		add_file("4194400.1.mtk", DEAD_PID);
		wait_for(&taken.calls, i);
	}
	mt_companion_stop(c);
	assert_int_equal(see("4194400.1.mtk")->last, 3);
}

static void a_file_that_is_mapped_waits(void **state)
{
	struct mt_companion *c;
	void *at;

	add_file("4194400.1.mtk", DEAD_PID);
	at = map("4194400.1.mtk");
	c = start_taking(MT_COMPANION_TAKEN);
	wait_for(&see("4194400.1.mtk")->last, 1);
	add_file("4194401.1.mtk", DEAD_PID); /* which comes later */
	wait_for(&taken.calls, 1);
	assert_string_equal(taken.name, "4194401.1.mtk");
	munmap(at, 4096);
	wait_for(&taken.calls, 2);
	assert_string_equal(taken.name, "4194400.1.mtk");
	mt_companion_stop(c);
}

static void what_is_left_is_not_offered_again(void **state)
{
	struct mt_companion *c;

	add_file("4194400.1.mtk", DEAD_PID);
	c = start_taking(MT_COMPANION_LEFT);
	wait_for(&taken.calls, 1);
	mt_companion_ring(c);
	add_file("4194401.1.mtk", DEAD_PID);
	wait_for(&taken.calls, 2);
	assert_string_equal(taken.name, "4194401.1.mtk");
	mt_companion_stop(c);
	assert_int_equal(taken.calls, 2);
}

/* As on a full disk: one try, then a pause. */
static void after_a_failure_none_is_taken_for_a_while(void **state)
{
	struct mt_companion *c;

	add_file("4194400.1.mtk", DEAD_PID);
	add_file("4194401.1.mtk", DEAD_PID);
	add_file("4194402.1.mtk", DEAD_PID);
	c = start_taking(-ENOSPC);
	wait_for(&see("4194402.1.mtk")->last, 1);
	wait_for(&taken.calls, 1);
	mt_companion_ring(c);
	add_file("4194403.1.mtk", DEAD_PID);
	wait_for(&see("4194403.1.mtk")->last, 1);
	mt_companion_stop(c);
	assert_int_equal(taken.calls, 1);
}

static void of_a_program_that_was_replaced_the_earlier_file_is_taken(void **state)
{
	struct mt_companion *c;

	add_file("3.1.mtk", getpid());
	add_file("3.2.mtk", getpid());
	c = start_taking(MT_COMPANION_TAKEN);
	wait_for(&taken.calls, 1);
	assert_string_equal(taken.name, "3.1.mtk");
	assert_true(taken.is_replaced);
	wait_for(&see("3.2.mtk")->due, 1);
	mt_companion_stop(c);
	assert_int_equal(taken.calls, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(without_tasks_no_thread_is_started, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_directory_that_is_not_there_is_named, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			a_file_is_visited_in_every_period_and_once_at_the_end, setup, teardown),
		cmocka_unit_test_setup_teardown(the_bell_and_the_end_do_not_wait_for_the_deadline,
						setup, teardown),
		cmocka_unit_test_setup_teardown(a_file_that_comes_later_is_seen, setup, teardown),
		cmocka_unit_test_setup_teardown(files_of_the_ended_get_the_last_visit_at_once,
						setup, teardown),
		cmocka_unit_test_setup_teardown(the_file_of_a_program_that_was_replaced_is_done,
						setup, teardown),
		cmocka_unit_test_setup_teardown(other_files_and_unfinished_headers_are_left_alone,
						setup, teardown),
		cmocka_unit_test_setup_teardown(a_file_that_is_gone_still_gets_its_last_visit,
						setup, teardown),
		cmocka_unit_test_setup_teardown(files_of_the_ended_are_taken_and_others_are_not,
						setup, teardown),
		cmocka_unit_test_setup_teardown(a_name_that_was_taken_may_come_again, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_file_that_is_mapped_waits, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_left_is_not_offered_again, setup, teardown),
		cmocka_unit_test_setup_teardown(after_a_failure_none_is_taken_for_a_while, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			of_a_program_that_was_replaced_the_earlier_file_is_taken, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
