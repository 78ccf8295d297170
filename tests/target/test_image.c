/* SPDX-License-Identifier: MIT */
/* Images of processes that run on, and the texts that they are made of. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <elf.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "target/image_internal.h"
#include "target/image_process.h"

int image_test_value = 4711; /* found by its name */

/* ---- text ---- */

static void lines_of_maps_are_read(void **state)
{
	static const char text[] =
		"00400000-00401000 r-xp 00001000 fd:01 77                 /a b (deleted)\n"
		"7f0000000000-7f0000003000 rw-s 00000000 00:05 12   /dev/zero (deleted)\n"
		"7f0000003000-7f0000004000 ---p 00000000 00:00 0 \n"
		"7ffc00000000-7ffc00004000 r--p 00000000 00:00 0          [vvar]\n"
		"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0  [vsyscall]";
	struct mt_image *im = mt_image_new(NULL);
	const struct mt_mapping *m;
	size_t count;

	assert_int_equal(mt_image_parse_maps(im, text), 0);
	m = mt_image_mappings(im, &count);
	assert_int_equal(count, 5);
	assert_int_equal(m[0].start, 0x400000);
	assert_int_equal(m[0].end, 0x401000);
	assert_int_equal(m[0].offset, 0x1000);
	assert_int_equal(m[0].inode, 77);
	assert_int_equal(m[0].device, 0xfd << 20 | 1);
	assert_int_equal(m[0].flags, MT_MAPPING_READ | MT_MAPPING_EXEC);
	assert_string_equal(m[0].name, "/a b (deleted)");
	assert_true(m[0].in_image);
	assert_int_equal(m[1].flags, MT_MAPPING_READ | MT_MAPPING_WRITE | MT_MAPPING_SHARED);
	assert_true(m[1].in_image);
	assert_string_equal(m[2].name, "");
	assert_false(m[2].in_image);
	assert_false(m[3].in_image);
	assert_string_equal(m[4].name, "[vsyscall]");
	assert_ptr_equal(mt_image_mapping_of(im, 0x7f0000002fff), &m[1]);
	assert_ptr_equal(mt_image_mapping_of(im, 0x7f0000003000), &m[2]);
	assert_null(mt_image_mapping_of(im, 0x401000));
	assert_null(mt_image_mapping_of(im, 0));
	mt_image_close(im);
}

static void damaged_lines_of_maps_are_left_out(void **state)
{
	static const char text[] = "\n"
				   "1000-2000 r--p 0 0:0 0\n"
				   "1000-3000 r--p 0 0:0 0\n" /* overlaps */
				   "4000-4000 r--p 0 0:0 0\n" /* empty */
				   "5000-6000 rzxp 0 0:0 0\n" /* no such flag */
				   "6000 7000 r--p 0 0:0 0\n" /* no dash */
				   "7000-8000 r--p 0 0:0\n"   /* no inode */
				   "8000-11111111122222222 r--p 0 0:0 0\n"
				   "9000-a000 r--p 0 0:0 0x /a\n"
				   "a000-b000 ---p 0 0:0 0 x\n";
	struct mt_image *im = mt_image_new(NULL);
	const struct mt_mapping *m;
	size_t count;

	assert_int_equal(mt_image_parse_maps(im, text), 0);
	m = mt_image_mappings(im, &count);
	assert_int_equal(count, 2);
	assert_int_equal(m[0].end, 0x2000);
	assert_int_equal(m[1].start, 0xa000);
	assert_string_equal(m[1].name, "x");
	mt_image_close(im);
}

static void status_is_read(void **state)
{
	struct mt_image_status s;

	mt_image_parse_status("Name:\ta: b\nState:\tS (sleeping)\nPPid:\t3\nTracerPid:\t12\n"
			      "Uid:\t1\t2\t3\t4\nNSpid:\t77\t5\t1\nVmSize:\t 1 kB\n"
			      "SigPnd:\t0000000000000010\nSeccomp:\t2\n",
			      &s);
	assert_string_equal(s.name, "a: b");
	assert_int_equal(s.state, 'S');
	assert_int_equal(s.tracer, 12);
	assert_int_equal(s.uid, 2);
	assert_int_equal(s.inner_pid, 1);
	assert_true(s.has_memory);
	assert_int_equal(s.pending, 0x10);
	assert_int_equal(s.seccomp, 2);
	mt_image_parse_status("", &s);
	assert_int_equal(s.state, '?');
	assert_false(s.has_memory);
}

/* ---- a process ---- */

enum { PAGES = 5, HOLE = 3 };
static uint8_t *pages;
static pid_t child;

static int start_child(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	pages = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		     0);
	assert_ptr_not_equal(pages, MAP_FAILED);
	for (size_t i = 0; i < PAGES * page; i++)
		pages[i] = (uint8_t)(i * 7 + i / page);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		mprotect(pages + HOLE * page, page, PROT_NONE);
		raise(SIGSTOP); /* ready */
		for (;;)
			pause();
	}
	assert_int_equal(waitpid(child, NULL, WUNTRACED), child);
	kill(child, SIGCONT);
	return 0;
}

static int end_child(void **state)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	munmap(pages, PAGES * (size_t)sysconf(_SC_PAGESIZE));
	return 0;
}

static struct mt_image *open_live(void)
{
	struct mt_image *im;
	struct mt_err err;

	if (mt_image_open_process(child, MT_IMAGE_LIVE, &im, &err))
		fail_msg("%s", err.text);
	return im;
}

static const struct mt_image_module *module_of(struct mt_image *im, const void *address)
{
	const struct mt_image_module *m = mt_image_module_of(im, (uintptr_t)address);

	assert_non_null(m);
	return m;
}

static void reads_end_at_the_page_that_cannot_be_read(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct mt_image *im = open_live();
	uint64_t at = (uintptr_t)pages;
	uint8_t *copy = malloc(PAGES * page);

	assert_int_equal(mt_image_facts(im)->source, MT_IMAGE_LIVE);
	assert_int_equal(mt_image_read(im, at + 5, copy, PAGES * page - 5), HOLE * page - 5);
	assert_memory_equal(copy, pages + 5, HOLE * page - 5);
	assert_int_equal(mt_image_read(im, at + HOLE * page, copy, 1), 0);
	assert_int_equal(mt_image_read_all(im, at + (HOLE + 1) * page, copy, page), 0);
	assert_memory_equal(copy, pages + (HOLE + 1) * page, page);
	assert_int_equal(mt_image_read_all(im, at + 1, copy, HOLE * page), -EFAULT);
	assert_int_equal(mt_image_read(im, 0, copy, 8), 0);
	assert_int_equal(mt_image_read(im, UINT64_MAX - 3, copy, 100), 0);
	assert_int_equal(mt_image_facts(im)->unreadable_bytes, 0); /* none of it should be */
	free(copy);
	mt_image_close(im);
}

static void the_file_of_memory_says_the_same(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct mt_image *im = open_live();
	uint8_t *copy = malloc(PAGES * page);

	im->mem_fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	assert_true(im->mem_fd >= 0);
	assert_int_equal(mt_image_read(im, (uintptr_t)pages + 5, copy, PAGES * page - 5),
			 HOLE * page - 5);
	assert_memory_equal(copy, pages + 5, HOLE * page - 5);
	assert_int_equal(mt_image_read(im, (uintptr_t)pages + HOLE * page, copy, 1), 0);
	free(copy);
	mt_image_close(im);
}

static void small_reads_of_what_does_not_change_are_the_same(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct mt_image *im = open_live();
	uint8_t copy[64];

	assert_int_equal(mt_image_remember(im), 0);
	for (size_t at = 0; at < PAGES * page; at += 48) {
		size_t end = at / page == HOLE ? at : HOLE * page, want;

		if (at / page > HOLE)
			end = PAGES * page;
		want = at + 64 <= end ? 64 : end - at;
		if (at + 64 > PAGES * page)
			break; /* whatever lies behind */
		assert_int_equal(mt_image_read(im, (uintptr_t)pages + at, copy, 64), want);
		assert_memory_equal(copy, pages + at, want);
	}
	mt_image_close(im);
}

static void modules_are_found_and_told_apart(void **state)
{
	struct mt_image *im = open_live();
	const struct mt_image_module *program = module_of(im, &image_test_value);
	const struct mt_image_module *libc = module_of(im, (void *)(uintptr_t)&getauxval);
	const struct mt_image_module *vdso = mt_image_module_of(im, getauxval(AT_SYSINFO_EHDR));
	const struct mt_image_module *loader = mt_image_module_of(im, getauxval(AT_BASE));
	char exe[4096] = "";

	assert_true(readlink("/proc/self/exe", exe, sizeof(exe) - 1) > 0);
	assert_string_equal(program->path, exe);
	assert_string_equal(mt_image_facts(im)->program, exe);
	assert_true(program->is_main && !program->is_libc && !program->is_loader);
	assert_true(libc->is_libc && !libc->is_main);
	assert_non_null(vdso);
	assert_string_equal(vdso->path, "[vdso]");
	assert_int_equal(vdso->bias, getauxval(AT_SYSINFO_EHDR));
	assert_non_null(loader);
	assert_true(loader->is_loader && !loader->is_main);
	assert_int_equal(mt_image_auxv(im, AT_PHDR), getauxval(AT_PHDR));
	assert_int_equal(program->build_id_bytes, 20);
	assert_non_null(mt_image_mapping_of(im, program->dynamic));
	mt_image_close(im);
}

static void symbols_are_found_by_name_and_by_address(void **state)
{
	struct mt_image *im = open_live();
	const struct mt_image_module *program = module_of(im, &image_test_value);
	const struct mt_image_module *libc = module_of(im, (void *)(uintptr_t)&getauxval);
	uint64_t address, bytes, offset;
	const char *name;

	assert_int_equal(mt_image_symbol(im, program, "image_test_value", &address, &bytes), 0);
	assert_int_equal(address, (uintptr_t)&image_test_value);
	assert_int_equal(bytes, sizeof(image_test_value));
	assert_int_equal(mt_image_symbol(im, program, "start_child", &address, NULL), 0);
	assert_int_equal(address, (uintptr_t)&start_child); /* in .symtab alone */
	assert_int_equal(mt_image_symbol(im, libc, "getauxval", &address, NULL), 0);
	assert_int_equal(address, (uintptr_t)dlsym(RTLD_DEFAULT, "getauxval"));
	assert_int_equal(mt_image_symbol(im, libc, "no_such_name", &address, NULL), -ENOENT);
	name = mt_image_symbol_at(im, program, (uintptr_t)&image_test_value + 3, &offset);
	assert_string_equal(name, "image_test_value");
	assert_int_equal(offset, 3);
	name = mt_image_symbol_at(im, libc, address, &offset);
	mt_image_close(im);
}

static void threads_of_a_process_that_runs_on_are_listed(void **state)
{
	struct mt_image *im = open_live();
	const struct mt_image_thread *t;
	size_t count;

	t = mt_image_threads(im, &count);
	assert_int_equal(count, 1);
	assert_int_equal(t[0].tid, child);
	assert_true(t[0].is_missing);
	mt_image_close(im);
}

static void what_cannot_be_opened_has_a_reason(void **state)
{
	struct mt_image *im = NULL;
	struct mt_err err;
	siginfo_t info;
	pid_t zombie = fork();

	if (!zombie)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)zombie, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(mt_image_open_process(zombie, MT_IMAGE_LIVE, &im, &err), -ESRCH);
	assert_non_null(strstr(err.text, "zombie"));
	assert_int_equal(waitpid(zombie, NULL, 0), zombie);
	assert_int_equal(mt_image_open_process(zombie, MT_IMAGE_LIVE, &im, &err), -ESRCH);
	assert_non_null(strstr(err.text, "there is no process"));
	assert_int_equal(mt_image_open_process(-1, MT_IMAGE_LIVE, &im, &err), -ESRCH);
	assert_null(im);
}

#define WITH_CHILD(test) cmocka_unit_test_setup_teardown(test, start_child, end_child)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_of_maps_are_read),
		cmocka_unit_test(damaged_lines_of_maps_are_left_out),
		cmocka_unit_test(status_is_read),
		WITH_CHILD(reads_end_at_the_page_that_cannot_be_read),
		WITH_CHILD(the_file_of_memory_says_the_same),
		WITH_CHILD(small_reads_of_what_does_not_change_are_the_same),
		WITH_CHILD(modules_are_found_and_told_apart),
		WITH_CHILD(symbols_are_found_by_name_and_by_address),
		WITH_CHILD(threads_of_a_process_that_runs_on_are_listed),
		cmocka_unit_test(what_cannot_be_opened_has_a_reason),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
