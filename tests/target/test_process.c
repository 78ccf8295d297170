/* SPDX-License-Identifier: MIT */
/* /proc/PID/stat, whatever the process calls itself. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "target/process.h"

static void fields_are_counted_behind_the_name(void **state)
{
	struct mt_process p;

	assert_int_equal(
		mt_process_parse_stat("12 (a) b) (c) R 7 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 "
				      "0 9876543210 1 2\n",
				      &p),
		0);
	assert_int_equal(p.pid, 12);
	assert_int_equal(p.ppid, 7);
	assert_int_equal(p.state, 'R');
	assert_string_equal(p.name, "a) b) (c");
	assert_int_equal(p.start_ticks, 9876543210);
}

static void damaged_lines_are_refused(void **state)
{
	static const char *const bad[] = {
		"",         "12",         "12 (a",       "x (a) R 1",
		"12 (a) R", "12 )a( R 1", "0 (a) R 1 2", "12 (a) R 7 1 1"};
	struct mt_process p;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(mt_process_parse_stat(bad[i], &p), -EINVAL);
}

static void we_are_running(void **state)
{
	struct mt_process p;
	uint8_t boot_id[16], other[16];

	assert_int_equal(prctl(PR_SET_NAME, ") x ("), 0);
	assert_int_equal(mt_process_read(getpid(), &p), 0);
	assert_string_equal(p.name, ") x (");
	assert_int_equal(p.ppid, getppid());
	assert_int_equal(mt_process_boot_id(boot_id), 0);
	assert_true(mt_process_is_running(getpid(), p.start_ticks, boot_id));
	assert_false(mt_process_is_running(getpid(), p.start_ticks + 1, boot_id));
	memset(other, 0xee, sizeof(other));
	assert_false(mt_process_is_running(getpid(), p.start_ticks, other));
	memset(other, 0, sizeof(other));
	assert_true(mt_process_is_running(getpid(), 0, other));
}

static void the_dead_do_not_run(void **state)
{
	static const uint8_t no_boot_id[16];
	struct mt_process p;
	siginfo_t info;
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_false(mt_process_is_running(pid, 0, no_boot_id)); /* a zombie */
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(mt_process_read(pid, &p), -ESRCH);
	assert_int_equal(mt_process_read(-1, &p), -ESRCH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields_are_counted_behind_the_name),
		cmocka_unit_test(damaged_lines_are_refused),
		cmocka_unit_test(we_are_running),
		cmocka_unit_test(the_dead_do_not_run),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
