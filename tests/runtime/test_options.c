/* SPDX-License-Identifier: MIT */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/options.h"

static struct mt_options options;
static char error[256];

/* Reads an environment of up to four lines. */
static int read_lines(const char *a, const char *b, const char *c, const char *d)
{
	char *envp[5] = {(char *)a, (char *)b, (char *)c, (char *)d, NULL};
	memset(&options, 0xee, sizeof(options));
	error[0] = 0;
	return mt_options_read(envp, &options, error, sizeof(error));
}

static int read_words(const char *words)
{
	static char line[1024];
	snprintf(line, sizeof(line), "MEMTRACK_OPTIONS=%s", words);
	return read_lines("PATH=/bin", line, NULL, NULL);
}

static void an_empty_environment_gives_the_defaults(void **state)
{
	assert_int_equal(read_lines(NULL, NULL, NULL, NULL), 0);
	assert_int_equal(options.wishes.mode, MT_MODE_FULL);
	assert_int_equal(options.depth, 64);
	assert_int_equal(options.follow, 1);
	assert_int_equal(options.exit_report, 0);
	assert_int_equal(options.heaps, 15);
	assert_int_equal(options.launcher_pid, 0);
	assert_int_equal(options.min_size, 0);
	assert_true(options.max_size == UINT64_MAX);
	assert_int_equal(options.max_bytes, 0);
	assert_int_equal(options.leak_threshold, 4096);
	assert_int_equal(options.verify, 0);
	assert_int_equal(options.profile_rate_s, 60);
	assert_string_equal(options.state_dir, "");
	assert_string_equal(options.text, "depth=64 follow=all");
	assert_string_equal(error, "");
}

static void modes_are_full_off_and_leak_report(void **state)
{
	assert_int_equal(read_lines("MEMTRACK_MODE=full", NULL, NULL, NULL), 0);
	assert_int_equal(options.wishes.mode, MT_MODE_FULL);
	assert_int_equal(read_lines("MEMTRACK_MODE=off", NULL, NULL, NULL), 0);
	assert_int_equal(options.wishes.mode, MT_MODE_OFF);
	assert_int_equal(read_lines("MEMTRACK_MODE=leak_report", NULL, NULL, NULL), 0);
	assert_int_equal(options.wishes.mode, MT_MODE_FULL);
	assert_int_equal(options.exit_report, 1);
	assert_int_equal(read_lines("MEMTRACK_MODE=", NULL, NULL, NULL), 0);
	assert_int_equal(options.wishes.mode, MT_MODE_FULL);
}

static void check_mode_comes_at_the_start_or_never(void **state)
{
	assert_int_equal(read_lines("MEMTRACK_MODE=check", NULL, NULL, NULL), 0);
	assert_int_equal(options.wishes.mode, MT_MODE_CHECK);
	assert_int_equal(mt_wishes_read("mode=full", &options.wishes), -22);
	assert_int_equal(read_words("mode=check"), 0);
	assert_int_equal(options.wishes.mode, MT_MODE_CHECK);
	assert_int_equal(mt_wishes_read("mode=check label=x", &options.wishes), 0);
	assert_int_equal(read_words("mode=full"), 0);
	assert_int_equal(mt_wishes_read("mode=check", &options.wishes), -22);
}

static void every_option_is_understood(void **state)
{
	assert_int_equal(read_words("depth=7 follow=none heaps=malloc,brk min-size=16 max-size=2M "
				    "max-overhead=1G leak-threshold=3K output=/tmp/%p.mtk verify=5 "
				    "profile-rate=0"),
			 0);
	assert_int_equal(options.depth, 7);
	assert_int_equal(options.follow, 0);
	assert_int_equal(options.heaps, 5);
	assert_int_equal(options.min_size, 16);
	assert_int_equal(options.max_size, 2 << 20);
	assert_int_equal(options.max_bytes, 1 << 30);
	assert_int_equal(options.leak_threshold, 3072);
	assert_int_equal(options.verify, 5);
	assert_int_equal(options.profile_rate_s, 0);
	assert_string_equal(options.output, "/tmp/%p.mtk");
	assert_string_equal(
		options.text,
		"depth=7 follow=none verify=5 min-size=16 max-size=2097152 heaps=malloc,brk");
}

static void a_pool_of_guarded_samples_may_be_asked_for(void **state)
{
	static const char *const bad[] = {"guard-sampled=0", "guard-sampled=1025",
					  "guard-sampled=x", "guard-side=middle", "on-error=stop"};
	assert_int_equal(read_words("mode=sample"), 0);
	assert_int_equal(options.guard_slots, 0);
	assert_int_equal(read_words("guard-sampled"), 0);
	assert_int_equal(options.guard_slots, 64);
	assert_int_equal(options.guard_side, MT_GUARD_SIDE_EITHER);
	assert_int_equal(options.guard_fatal, 0);
	assert_int_equal(read_words("guard-sampled=1024 guard-side=start on-error=die"), 0);
	assert_int_equal(options.guard_slots, 1024);
	assert_int_equal(options.guard_side, MT_GUARD_SIDE_START);
	assert_int_equal(options.guard_fatal, 1);
	assert_non_null(strstr(options.text, " guard-sampled=1024 on-error=die"));
	for (size_t i = 0; i < MT_ARRAY_LEN(bad); i++)
		assert_int_not_equal(read_words(bad[i]), 0);
}

static void heaps_are_chosen_by_name(void **state)
{
	static const struct {
		const char *word;
		uint32_t heaps;
	} cases[] = {{"heaps=malloc", 1},          {"heaps=mmap", 2}, {"heaps=brk", 4},
		     {"heaps=custom", 8},          {"heaps=all", 15}, {"heaps=mmap,malloc", 3},
		     {"heaps=custom,mmap,brk", 14}};
	for (size_t i = 0; i < MT_ARRAY_LEN(cases); i++) {
		assert_int_equal(read_words(cases[i].word), 0);
		assert_int_equal(options.heaps, cases[i].heaps);
	}
}

static void blanks_tabs_and_line_ends_part_words(void **state)
{
	assert_int_equal(read_words("  depth=3\tfollow=none \n verify=2  "), 0);
	assert_int_equal(options.depth, 3);
	assert_int_equal(options.follow, 0);
	assert_int_equal(options.verify, 2);
	assert_int_equal(read_words("   "), 0);
	assert_int_equal(options.depth, 64);
}

static void the_last_of_two_equal_options_counts(void **state)
{
	assert_int_equal(read_words("depth=3 depth=9"), 0);
	assert_int_equal(options.depth, 9);
}

static void a_bad_word_is_named_in_one_line(void **state)
{
	static const char *const bad[] = {
		"depth=0",
		"depth=257",
		"depth=",
		"depth",
		"depth=x",
		"depth=3x",
		"depth=-1",
		"depth=3KB",
		"depth=99999999999999999999",
		"follow=yes",
		"follow=",
		"heaps=",
		"heaps=heap",
		"heaps=malloc,,brk",
		"min-size=1T",
		"max-size=16777216G0",
		"max-size=99999999999G",
		"verify=0",
		"verify=4294967296",
		"output=",
		"intervals=0-64:8M,64-128:1K",
		"intervals=100-:8M,custom:1,1-100:1K",
		"profile-rate=",
		"profile-rate=86401",
		"colour=red",
		"=3",
		"depth==3",
		"DEPTH=3",
	};
	for (size_t i = 0; i < MT_ARRAY_LEN(bad); i++) {
		char words[256], wanted[256];
		snprintf(words, sizeof(words), "follow=all %s verify=1", bad[i]);
		snprintf(wanted, sizeof(wanted),
			 "memtrack: cannot understand '%s' in MEMTRACK_OPTIONS: "
			 "nothing is tracked\n",
			 bad[i]);
		assert_int_equal(read_words(words), -22);
		assert_string_equal(error, wanted);
	}
}

static void a_bad_mode_is_named_in_one_line(void **state)
{
	assert_int_equal(read_lines("MEMTRACK_MODE=Full", NULL, NULL, NULL), -22);
	assert_string_equal(
		error, "memtrack: cannot understand 'Full' in MEMTRACK_MODE: nothing is tracked\n");
}

static void a_long_bad_word_is_cut(void **state)
{
	char words[600];
	memset(words, 'a', sizeof(words));
	words[sizeof(words) - 1] = 0;
	assert_int_equal(read_words(words), -22);
	assert_true(strlen(error) < sizeof(error));
	assert_non_null(strstr(error, "aaa' in MEMTRACK_OPTIONS: nothing is tracked\n"));
}

static void an_output_that_is_too_long_is_refused(void **state)
{
	static char line[3000];
	int n = snprintf(line, sizeof(line), "MEMTRACK_OPTIONS=output=/");
	memset(line + n, 'a', MT_PATH_MAX);
	assert_int_equal(read_lines(line, NULL, NULL, NULL), -22);
}

static void the_launcher_gives_directory_and_pid(void **state)
{
	assert_int_equal(
		read_lines("MEMTRACK_STATE_DIR=/dev/shm/x", "MEMTRACK_LAUNCHER=4242", NULL, NULL),
		0);
	assert_string_equal(options.state_dir, "/dev/shm/x");
	assert_int_equal(options.launcher_pid, 4242);
	assert_int_equal(read_lines("MEMTRACK_LAUNCHER=word", NULL, NULL, NULL), 0);
	assert_int_equal(options.launcher_pid, 0);
}

static void names_are_not_mistaken_for_longer_or_shorter_ones(void **state)
{
	assert_int_equal(read_lines("MEMTRACK_MODEL=bad", "XMEMTRACK_MODE=bad", "MEMTRACK_MOD=bad",
				    "MEMTRACK_OPTION=bad"),
			 0);
	assert_int_equal(options.depth, 64);
}

/* --- where files go without a launcher ------------------------------------------------------- */

static void memtrack_dir_is_the_first_choice(void **state)
{
	assert_int_equal(read_lines("TMPDIR=/var/tmp", "MEMTRACK_DIR=/some/where", NULL, NULL), 0);
	assert_string_equal(options.output, "/some/where/memtrack.%e.%p.mtk");
}

static void a_relative_directory_becomes_absolute(void **state)
{
	char cwd[512], wanted[700];
	assert_non_null(getcwd(cwd, sizeof(cwd)));
	assert_int_equal(read_lines("MEMTRACK_DIR=out", NULL, NULL, NULL), 0);
	snprintf(wanted, sizeof(wanted), "%s/out/memtrack.%%e.%%p.mtk", cwd);
	assert_string_equal(options.output, wanted);
}

static void the_working_directory_is_next_and_then_tmpdir(void **state)
{
	char cwd[512], wanted[700];
	assert_non_null(getcwd(cwd, sizeof(cwd)));
	snprintf(wanted, sizeof(wanted), "%s/memtrack.%%e.%%p.mtk", cwd);
	if (access(cwd, W_OK) == 0) {
		assert_int_equal(read_lines("TMPDIR=/var/tmp", NULL, NULL, NULL), 0);
		assert_string_equal(options.output, wanted);
	}
	char gone[] = "/tmp/memtrack-gone-XXXXXX";
	assert_non_null(mkdtemp(gone));
	assert_int_equal(chdir(gone), 0);
	assert_int_equal(rmdir(gone), 0);
	assert_int_equal(read_lines("TMPDIR=/var/tmp", NULL, NULL, NULL), 0);
	assert_string_equal(options.output, "/var/tmp/memtrack.%e.%p.mtk");
	assert_int_equal(read_lines("TMPDIR=", NULL, NULL, NULL), 0);
	assert_string_equal(options.output, "/tmp/memtrack.%e.%p.mtk");
	assert_int_equal(chdir(cwd), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_environment_gives_the_defaults),
		cmocka_unit_test(modes_are_full_off_and_leak_report),
		cmocka_unit_test(check_mode_comes_at_the_start_or_never),
		cmocka_unit_test(every_option_is_understood),
		cmocka_unit_test(a_pool_of_guarded_samples_may_be_asked_for),
		cmocka_unit_test(heaps_are_chosen_by_name),
		cmocka_unit_test(blanks_tabs_and_line_ends_part_words),
		cmocka_unit_test(the_last_of_two_equal_options_counts),
		cmocka_unit_test(a_bad_word_is_named_in_one_line),
		cmocka_unit_test(a_bad_mode_is_named_in_one_line),
		cmocka_unit_test(a_long_bad_word_is_cut),
		cmocka_unit_test(an_output_that_is_too_long_is_refused),
		cmocka_unit_test(the_launcher_gives_directory_and_pid),
		cmocka_unit_test(names_are_not_mistaken_for_longer_or_shorter_ones),
		cmocka_unit_test(memtrack_dir_is_the_first_choice),
		cmocka_unit_test(a_relative_directory_becomes_absolute),
		cmocka_unit_test(the_working_directory_is_next_and_then_tmpdir),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
