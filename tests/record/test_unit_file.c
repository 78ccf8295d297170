/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/path.h"
#include "record/conf_file.h"
#include "record/unit_file.h"

static struct mt_err err;
static char root[64];

static int make_root(void **state)
{
	snprintf(root, sizeof(root), "/tmp/memtrack-test-XXXXXX");
	return mkdtemp(root) ? chmod(root, 0755) : -1;
}

static int remove_root(void **state)
{
	char command[100];

	snprintf(command, sizeof(command), "rm -rf '%s'", root);
	return system(command);
}

static void put(const char *name, const char *text)
{
	mt_auto(free) char *path = mt_path_join(root, name), *folder = mt_path_dir(path);

	assert_int_equal(mt_path_make_dirs(folder, 0755, &err), 0);
	assert_int_equal(mt_file_write_atomic(path, text, strlen(text), 0644, &err), 0);
}

static void assert_name(const char *name, const char *wanted)
{
	mt_auto(free) char *unit = mt_unit_name(name, &err);

	if (!wanted)
		assert_null(unit);
	else
		assert_string_equal(unit, wanted);
}

static void names_are_those_of_services(void **state)
{
	assert_name("nginx", "nginx.service");
	assert_name("nginx.service", "nginx.service");
	assert_name("postgresql@15-main", "postgresql@15-main.service");
	assert_name("org.a.b", "org.a.b.service");
	assert_name("", NULL);
	assert_name("../x", NULL);
	assert_name("a b", NULL);
	assert_name("a/b", NULL);
	assert_name("a.socket", NULL);
}

static void variables_are_quoted(void **state)
{
	mt_auto(mt_buf) struct mt_buf out = {0};

	mt_unit_add_variable(&out, "A", "x=\"1\" \\ %p");
	assert_string_equal(mt_buf_text(&out), "Environment=\"A=x=\\\"1\\\" \\\\ %%p\"\n");
}

static void assert_preload(const char *wanted)
{
	mt_auto(mt_buf) struct mt_buf out = {0};

	assert_int_equal(mt_unit_preload(root, "a.service", &out), 0);
	assert_string_equal(mt_buf_text(&out), wanted);
}

static void the_last_preload_of_a_unit_counts(void **state)
{
	assert_preload("");
	put("usr/lib/systemd/system/a.service",
	    "[Service]\nEnvironment=A=1 LD_PRELOAD=/one.so\n#Environment=LD_PRELOAD=/no.so\n");
	assert_preload("/one.so");
	put("etc/systemd/system/a.service", " Environment='LD_PRELOAD=/two.so /more.so' B=2\n");
	assert_preload("/two.so /more.so");
	put("usr/lib/systemd/system/a.service.d/b.conf",
	    "Environment=\"LD_PRELOAD=/th%%ree.so\"\n");
	assert_preload("/th%ree.so");
	put("etc/systemd/system/a.service.d/memtrack.conf", "Environment=LD_PRELOAD=/ours.so\n");
	put("etc/systemd/system/a.service.d/c.txt", "Environment=LD_PRELOAD=/no.so\n");
	assert_preload("/th%ree.so");
}

static void what_was_written_is_read_back(void **state)
{
	mt_auto(mt_buf) struct mt_buf line = {0};
	static const char odd[] = "/a \"b\" \\ %c.so";

	mt_unit_add_variable(&line, "LD_PRELOAD", odd);
	put("etc/systemd/system/a.service", mt_buf_text(&line));
	assert_preload(odd);
}

static void a_file_is_replaced_as_a_whole(void **state)
{
	mt_auto(mt_conf_file) struct mt_conf_file old = {0}, now = {0};
	mt_auto(free) char *path = mt_path_join(root, "f");

	assert_int_equal(mt_conf_read(path, 100, &old, &err), 0);
	assert_null(old.text);
	assert_int_equal(mt_conf_replace(path, &old, "one\n", 4, &err), 0);
	assert_int_equal(mt_conf_read(path, 100, &now, &err), 0);
	assert_string_equal(now.text, "one\n");
	assert_int_equal(now.mode, 0644);
	chmod(path, 0600);
	mt_conf_file_done(&now);
	assert_int_equal(mt_conf_read(path, 100, &now, &err), 0);
	assert_int_equal(mt_conf_replace(path, &now, "two\n", 4, &err), 0);
	mt_conf_file_done(&now);
	assert_int_equal(mt_conf_read(path, 100, &now, &err), 0);
	assert_int_equal(now.mode, 0600);
	mt_conf_file_done(&now);
	assert_true(mt_conf_read(path, 3, &now, &err) < 0);
	assert_int_equal(mt_conf_remove(path, &err), 0);
	assert_int_equal(mt_conf_remove(path, &err), 0);
}

static void a_safe_file_is_nobodys_to_change(void **state)
{
	mt_auto(free) char *path = mt_path_join(root, "x/f");
	mt_auto(free) char *folder = mt_path_join(root, "x");

	put("x/f", "");
	assert_int_equal(mt_conf_check_safe(path, true, &err), 0);
	chmod(path, 0664);
	assert_int_equal(mt_conf_check_safe(path, true, &err), -EPERM);
	chmod(path, 0600);
	assert_int_equal(mt_conf_check_safe(path, true, &err), -EACCES);
	chmod(path, 0644);
	chmod(folder, 0777);
	assert_int_equal(mt_conf_check_safe(path, true, &err), -EPERM);
	chmod(folder, 0700);
	assert_int_equal(mt_conf_check_safe(path, true, &err), -EACCES);
	chmod(folder, 01777);
	assert_int_equal(mt_conf_check_safe(path, true, &err), 0);
	assert_int_equal(mt_conf_check_safe(folder, true, &err), -EINVAL);
	assert_int_equal(mt_conf_check_safe("/no/such/file", true, &err), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_those_of_services),
		cmocka_unit_test(variables_are_quoted),
		cmocka_unit_test_setup_teardown(the_last_preload_of_a_unit_counts, make_root,
						remove_root),
		cmocka_unit_test_setup_teardown(what_was_written_is_read_back, make_root,
						remove_root),
		cmocka_unit_test_setup_teardown(a_file_is_replaced_as_a_whole, make_root,
						remove_root),
		cmocka_unit_test_setup_teardown(a_safe_file_is_nobodys_to_change, make_root,
						remove_root),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
