/* SPDX-License-Identifier: MIT */
/* The loader's list as we read it, against what the loader itself says. */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "elf/loader.h"

static int main_argc;
static char **main_argv;
static struct mt_start_block block;

static struct mt_module_list *read_list(const struct mt_module_list *previous)
{
	struct mt_module_list *list = mt_loader_read_modules(previous);
	assert_non_null(list);
	return list;
}

static void drop(struct mt_module_list *list)
{
	munmap(list, list->map_bytes);
}

static void *open_sample(const char *name)
{
	char path[1024];
	snprintf(path, sizeof(path), SAMPLES "/libsample_%s.so", name);
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	assert_non_null(handle);
	return handle;
}

static const struct mt_module *module_of(const struct mt_module_list *list, void *handle,
					 const char *symbol)
{
	return mt_module_list_find(list, (uintptr_t)dlsym(handle, symbol));
}

/* --- the start block -------------------------------------------------------------------------- */

static void the_start_block_is_what_main_gets(void **state)
{
	assert_int_equal(block.argc, main_argc);
	for (int i = 0; i <= main_argc; i++)
		assert_ptr_equal(block.argv[i], main_argv[i]);
	assert_ptr_equal(block.argv, main_argv);
	assert_int_equal(mt_loader_auxv(block.auxv, AT_PAGESZ), getauxval(AT_PAGESZ));
	assert_int_equal(mt_loader_auxv(block.auxv, AT_PHDR), getauxval(AT_PHDR));
	assert_int_equal(mt_loader_auxv(block.auxv, 123456), 0);
	assert_int_equal(mt_loader_auxv(NULL, AT_PAGESZ), 0);
}

static void variables_are_found_by_their_whole_name(void **state)
{
	char *envp[] = {(char *)"AB=1", (char *)"A=2", (char *)"B", (char *)"C=", NULL};
	assert_string_equal(mt_loader_env(envp, "A"), "2");
	assert_string_equal(mt_loader_env(envp, "AB"), "1");
	assert_string_equal(mt_loader_env(envp, "C"), "");
	assert_null(mt_loader_env(envp, "B"));
	assert_null(mt_loader_env(envp, "ABC"));
	assert_null(mt_loader_env(NULL, "A"));
	assert_string_equal(mt_loader_env(block.envp, "PATH"), getenv("PATH"));
}

/* --- the list --------------------------------------------------------------------------------- */

struct compare {
	const struct mt_module_list *list;
	uint32_t seen;
};

static int compare_one(struct dl_phdr_info *info, size_t size, void *argument)
{
	struct compare *c = argument;
	uintptr_t lo = UINTPTR_MAX, hi = 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		if (p->p_type != PT_LOAD)
			continue;
		if (info->dlpi_addr + p->p_vaddr < lo)
			lo = info->dlpi_addr + p->p_vaddr;
		if (info->dlpi_addr + p->p_vaddr + p->p_memsz > hi)
			hi = info->dlpi_addr + p->p_vaddr + p->p_memsz;
	}
	const struct mt_module *m = mt_module_list_find(c->list, lo);
	assert_non_null(m);
	assert_ptr_equal(m->lo, lo);
	assert_ptr_equal(m->hi, hi);
	assert_ptr_equal(m->bias, info->dlpi_addr);
	assert_int_equal(m->phnum, info->dlpi_phnum);
	c->seen++;
	return 0;
}

static void expect_loaders_list(const struct mt_module_list *list)
{
	struct compare c = {.list = list};
	dl_iterate_phdr(compare_one, &c);
	assert_int_equal(c.seen, list->count);
	for (uint32_t i = 1; i < list->count; i++)
		assert_true(list->m[i - 1].hi <= list->m[i].lo);
}

static void the_list_equals_the_loaders(void **state)
{
	struct mt_module_list *list = read_list(NULL);
	expect_loaders_list(list);
	void *handle = open_sample("gnu");
	struct mt_module_list *with = read_list(list);
	expect_loaders_list(with);
	assert_int_equal(with->count, list->count + 1);
	assert_true(with->generation > list->generation);
	dlclose(handle);
	struct mt_module_list *without = read_list(with);
	expect_loaders_list(without);
	assert_int_equal(without->count, list->count);
	drop(list);
	drop(with);
	drop(without);
}

static void the_program_has_no_name_and_the_vdso_has_one(void **state)
{
	struct mt_module_list *list = read_list(NULL);
	uint32_t unnamed = 0;
	for (uint32_t i = 0; i < list->count; i++)
		unnamed += !list->m[i].name[0];
	assert_int_equal(unnamed, 1);
	assert_string_equal(mt_module_list_find(list, (uintptr_t)the_list_equals_the_loaders)->name,
			    "");
	const struct mt_module *vdso = mt_module_list_find(list, getauxval(AT_SYSINFO_EHDR));
	if (getauxval(AT_SYSINFO_EHDR)) {
		assert_non_null(vdso);
		assert_true(vdso->name[0] == '[' || strstr(vdso->name, "vdso"));
	}
	drop(list);
}

/* --- numbers over time ------------------------------------------------------------------------ */

static void number_all(struct mt_module_list *list, uint32_t *next)
{
	for (uint32_t i = 0; i < list->count; i++)
		if (!list->m[i].number)
			list->m[i].number = (*next)++;
}

static void a_module_that_stays_keeps_its_number(void **state)
{
	uint32_t next = 1;
	struct mt_module_list *list = read_list(NULL);
	number_all(list, &next);
	void *stays = open_sample("gnu");
	struct mt_module_list *with = read_list(list);
	number_all(with, &next);
	uint32_t number = module_of(with, stays, "sample_plain")->number;
	uint32_t generation = module_of(with, stays, "sample_plain")->generation;
	for (int i = 0; i < 20; i++) {
		void *goes = open_sample("sysv");
		struct mt_module_list *now = read_list(with);
		assert_int_equal(module_of(now, stays, "sample_plain")->number, number);
		assert_int_equal(module_of(now, stays, "sample_plain")->generation, generation);
		assert_int_equal(module_of(now, goes, "sample_plain")->number, 0);
		assert_int_equal(module_of(now, goes, "sample_plain")->generation, now->generation);
		drop(now);
		dlclose(goes);
	}
	dlclose(stays);
	drop(list);
	drop(with);
}

/* dlclose, then another library of the same size: the loader puts it at the same address. */
static void another_library_at_the_same_address_is_a_new_module(void **state)
{
	uint32_t next = 1, same_address = 0;
	for (int i = 0; i < 20; i++) {
		void *a = open_sample("twin_a");
		struct mt_module_list *before = read_list(NULL);
		number_all(before, &next);
		uintptr_t lo = module_of(before, a, "twin_value")->lo;
		dlclose(a);
		void *b = open_sample("twin_b");
		struct mt_module_list *after = read_list(before);
		const struct mt_module *m = module_of(after, b, "twin_value");
		same_address += m->lo == lo;
		assert_int_equal(m->number, 0);
		dlclose(b);
		drop(before);
		drop(after);
	}
	if (!same_address)
		skip();
}

static void a_library_loaded_again_in_between_is_taken_for_the_same(void **state)
{
	uint32_t next = 1;
	void *a = open_sample("twin_a");
	struct mt_module_list *before = read_list(NULL);
	number_all(before, &next);
	struct mt_module was = *module_of(before, a, "twin_value");
	dlclose(a);
	a = open_sample("twin_a");
	struct mt_module_list *after = read_list(before);
	const struct mt_module *m = module_of(after, a, "twin_value");
	if (m->lo == was.lo)
		assert_int_equal(m->number, was.number);
	else
		assert_int_equal(m->number, 0);
	dlclose(a);
	drop(before);
	drop(after);
}

#ifdef __GLIBC__
static void modules_of_other_namespaces_are_in_the_list(void **state)
{
	struct mt_module_list *before = read_list(NULL);
	void *handle = dlmopen(LM_ID_NEWLM, SAMPLES "/libsample_gnu.so", RTLD_NOW);
	assert_non_null(handle);
	uintptr_t at = (uintptr_t)dlsym(handle, "sample_plain");
	assert_null(mt_module_list_find(before, at));
	struct mt_module_list *after = read_list(before);
	const struct mt_module *m = mt_module_list_find(after, at);
	assert_non_null(m);
	assert_non_null(strstr(m->name, "libsample_gnu.so"));
	dlclose(handle);
	drop(before);
	drop(after);
}
#endif

static void the_search_order_begins_with_the_program(void **state)
{
	enum { MAX = 64 };
	const struct mt_module *order[MAX];
	struct mt_module_list *list = read_list(NULL);
	uint32_t n = mt_loader_search_order(list, order, MAX);
	assert_true(n >= 3);
	assert_ptr_equal(order[0],
			 mt_module_list_find(list, (uintptr_t)the_list_equals_the_loaders));
	assert_int_equal(mt_loader_search_order(list, order, 2), 2);
	drop(list);
}

/* Which of the loader's modules has an address in it: the name, or NULL. */
static const char *module_name_at(uintptr_t address)
{
	Dl_info info;
	return dladdr((void *)address, &info) ? info.dli_fname : NULL;
}

static void a_name_is_found_behind_a_module_only(void **state)
{
	/* a function of libc that no sanitizer replaces */
	uintptr_t in_libc = mt_loader_find_behind(_DYNAMIC, "gnu_get_libc_version");
	assert_non_null(in_libc);
	assert_non_null(strstr(module_name_at(in_libc), "libc.so"));
	/* not in the libraries behind the one that has it, and not behind nobody */
	const struct link_map *map = NULL;
	void *program = dlopen(NULL, RTLD_NOW);
	assert_int_equal(dlinfo(program, RTLD_DI_LINKMAP, &map), 0);
	while (map && !strstr(map->l_name, "libc.so"))
		map = map->l_next;
	assert_non_null(map);
	assert_int_equal(mt_loader_find_behind(map->l_ld, "gnu_get_libc_version"), 0);
	assert_int_equal(mt_loader_find_behind(&map, "gnu_get_libc_version"), 0);
	assert_int_equal(mt_loader_find_behind(_DYNAMIC, "no_such_function_anywhere"), 0);
	assert_string_equal(mt_loader_name(map->l_ld), map->l_name);
	assert_null(mt_loader_name(&map));
	void *handle = open_sample("sysv"), *gnu = open_sample("gnu");
	assert_int_equal(mt_loader_find_behind(_DYNAMIC, "sample_plain"),
			 (uintptr_t)dlsym(handle, "sample_plain"));
	dlclose(handle);
	assert_int_equal(mt_loader_find_behind(_DYNAMIC, "sample_plain"),
			 (uintptr_t)dlsym(gnu, "sample_plain"));
	dlclose(gnu);
	dlclose(program);
}

static void the_notifier_lies_in_a_module(void **state)
{
	struct mt_module_list *list = read_list(NULL);
	assert_non_null(mt_module_list_find(list, mt_loader_notifier()));
	assert_int_equal(mt_loader_is_changing(), 0);
	drop(list);
}

/*
 * --- while another thread changes the list: what is read may be freed or unmapped at that moment,
 * which the reads allow for and sanitizers do not know
 */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static volatile int stop;

static void *load_and_unload(void *unused)
{
	while (!stop) {
		void *a = dlopen(SAMPLES "/libsample_gnu.so", RTLD_NOW);
		void *b = dlopen(SAMPLES "/libsample_twin_a.so", RTLD_NOW);
		if (b)
			dlclose(b);
		if (a)
			dlclose(a);
	}
	return NULL;
}

static void a_list_read_during_changes_holds_what_stays(void **state)
{
	pthread_t thread;
	uint32_t read = 0;
	uintptr_t libc = (uintptr_t)dlsym(RTLD_DEFAULT, "malloc");
	stop = 0;
	pthread_create(&thread, NULL, load_and_unload, NULL);
	for (int i = 0; i < 500; i++) {
		struct mt_module_list *list = mt_loader_read_modules(NULL);
		if (!list)
			continue;
		read++;
		assert_non_null(mt_module_list_find(list, (uintptr_t)the_list_equals_the_loaders));
		assert_non_null(mt_module_list_find(list, libc));
		drop(list);
	}
	stop = 1;
	pthread_join(thread, NULL);
	assert_true(read > 0);
}
#endif

/* --- memory that may vanish ------------------------------------------------------------------ */

/* Two pages, of which the second cannot be read. */
static char *half_readable(void)
{
	size_t page = (size_t)getpagesize();
	char *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(p != MAP_FAILED);
	for (size_t i = 0; i < page; i++)
		p[i] = (char)i;
	munmap(p + page, page);
	return p + page;
}

static void check_reads(void)
{
	char *end = half_readable(), got[16];
	const uintptr_t good = (uintptr_t)end - 64;
	const uintptr_t from[] = {good, good + 1, (uintptr_t)end - 4, good};
	assert_int_equal(mt_loader_read(end - 16, got, 16), 0);
	assert_memory_equal(got, end - 16, 16);
	assert_true(mt_loader_read(end - 15, got, 16) < 0);
	for (uintptr_t low = 0; low < 4096; low += 511)
		assert_true(mt_loader_read((const void *)low, got, 1) < 0);
	assert_true(mt_loader_read((const void *)(UINTPTR_MAX - 3), got, 8) < 0);
	assert_true(mt_loader_read((const void *)((uintptr_t)1 << 62), got, 8) < 0);
	assert_int_equal(mt_loader_read_each(from, 4, got, 4), 4);
	assert_memory_equal(got, end - 64, 4);
	assert_memory_equal(got + 4, end - 63, 4);
	assert_memory_equal(got + 8, end - 4, 4);
	assert_int_equal(mt_loader_read_each(from, 4, got, 5), 2); /* the third reaches too far */
	assert_int_equal(mt_loader_read_each(from, 0, got, 4), 0);
	munmap(end - getpagesize(), (size_t)getpagesize());
}

static void memory_is_read_as_far_as_it_is_there(void **state)
{
	check_reads();
	mt_loader_set_process(getpid(), MT_LOADER_CAREFUL);
	check_reads();
	mt_loader_set_process(getpid(), MT_LOADER_TRY);
}

int main(int argc, char **argv)
{
	main_argc = argc;
	main_argv = argv;
	if (mt_loader_start_block(&block))
		return 99;
	mt_loader_init(&block, getpid());
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_start_block_is_what_main_gets),
		cmocka_unit_test(variables_are_found_by_their_whole_name),
		cmocka_unit_test(the_list_equals_the_loaders),
		cmocka_unit_test(the_program_has_no_name_and_the_vdso_has_one),
		cmocka_unit_test(a_module_that_stays_keeps_its_number),
		cmocka_unit_test(another_library_at_the_same_address_is_a_new_module),
		cmocka_unit_test(a_library_loaded_again_in_between_is_taken_for_the_same),
#ifdef __GLIBC__
		cmocka_unit_test(modules_of_other_namespaces_are_in_the_list),
#endif
		cmocka_unit_test(the_search_order_begins_with_the_program),
		cmocka_unit_test(a_name_is_found_behind_a_module_only),
		cmocka_unit_test(the_notifier_lies_in_a_module),
		cmocka_unit_test(memory_is_read_as_far_as_it_is_there),
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
		cmocka_unit_test(a_list_read_during_changes_holds_what_stays),
#endif
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
