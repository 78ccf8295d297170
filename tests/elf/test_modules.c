/* SPDX-License-Identifier: MIT */
/* Symbols, build-ids and ranges of mapped libraries, against what the loader says. */
#include <dlfcn.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "elf/modules.h"

struct wanted {
	uintptr_t bias;
	const char *part;
	struct mt_module m;
	int found;
};

static int take(struct dl_phdr_info *info, size_t size, void *argument)
{
	struct wanted *w = argument;
	if (w->part ? !strstr(info->dlpi_name, w->part) : info->dlpi_addr != w->bias)
		return 0;
	w->found = !mt_module_from_phdr(info->dlpi_phdr, info->dlpi_phnum, info->dlpi_addr, &w->m);
	return 1;
}

/* The module whose path holds `part`, as the loader has it. */
static struct mt_module loaded(const char *part)
{
	struct wanted w = {.part = part};
	dl_iterate_phdr(take, &w);
	assert_true(w.found);
	return w.m;
}

static void *open_sample(const char *name)
{
	char path[1024];
	snprintf(path, sizeof(path), SAMPLES "/libsample_%s.so", name);
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	assert_non_null(handle);
	return handle;
}

static void expect_same(const struct mt_module *m, void *handle, const char *name)
{
	void *wanted = dlsym(handle, name);
	assert_non_null(wanted);
	assert_ptr_equal(mt_module_symbol(m, name), wanted);
}

static void look_up_everything(const char *sample)
{
	char part[64];
	void *handle = open_sample(sample);
	snprintf(part, sizeof(part), "libsample_%s.so", sample);
	struct mt_module m = loaded(part);
	expect_same(&m, handle, "sample_plain");
	expect_same(&m, handle, "sample_other");
	expect_same(&m, handle, "sample_object");
	for (int i = 0; i < 100; i++) {
		char name[32];
		snprintf(name, sizeof(name), "sample_many_%02d", i);
		expect_same(&m, handle, name);
	}
	assert_int_equal(mt_module_symbol(&m, "sample_hidden"), 0);
	assert_int_equal(mt_module_symbol(&m, "sample_undefined"), 0);
	assert_int_equal(mt_module_symbol(&m, "sample_tls"), 0);
	assert_int_equal(mt_module_symbol(&m, "sample_many_100"), 0);
	assert_int_equal(mt_module_symbol(&m, "sample_"), 0);
	assert_int_equal(mt_module_symbol(&m, ""), 0);
	dlclose(handle);
}

static void symbols_are_found_through_a_gnu_hash_table(void **state)
{
	look_up_everything("gnu");
}

static void symbols_are_found_through_a_sysv_hash_table(void **state)
{
	look_up_everything("sysv");
}

static void symbols_are_found_when_both_tables_are_there(void **state)
{
	look_up_everything("both");
}

static void the_default_version_is_meant(void **state)
{
	void *handle = open_sample("versions");
	struct mt_module m = loaded("sample_versions");
	int (*call)(int) = (int (*)(int))mt_module_symbol(&m, "sample_versioned");
	assert_non_null(call);
	assert_int_equal(call(0), 2);
	assert_int_equal(mt_module_symbol(&m, "sample_only_old"), 0);
	assert_ptr_equal(mt_module_symbol(&m, "sample_plain"), dlsym(handle, "sample_plain"));
	dlclose(handle);
}

static void functions_of_libc_are_those_of_the_loader(void **state)
{
	static const char *const names[] = {"malloc", "free", "fork",       "dlopen",
					    "mmap",   "sbrk", "posix_spawn"};
	struct mt_module m = loaded("libc.so");
	for (size_t i = 0; i < MT_ARRAY_LEN(names); i++) {
		Dl_info info;
		void *wanted = dlsym(RTLD_DEFAULT, names[i]);
		if (dladdr(wanted, &info) && strstr(info.dli_fname, "libc.so"))
			assert_ptr_equal(mt_module_symbol(&m, names[i]), wanted);
		else
			assert_int_not_equal(mt_module_symbol(&m, names[i]), 0);
	}
}

static void a_module_without_dynamic_section_has_no_symbols(void **state)
{
	struct mt_module m = {.lo = 0x1000, .hi = 0x2000};
	uintptr_t offset;
	assert_int_equal(mt_module_symbol(&m, "malloc"), 0);
	assert_null(mt_module_nearest_symbol(&m, 0x1500, &offset));
}

/* --- the nearest symbol ----------------------------------------------------------------------- */

static void addresses_in_a_function_are_named_after_it(void **state)
{
	static const char *const samples[][2] = {{"gnu", "sample_gnu"}, {"sysv", "sample_sysv"}};
	for (size_t i = 0; i < MT_ARRAY_LEN(samples); i++) {
		void *handle = open_sample(samples[i][0]);
		struct mt_module m = loaded(samples[i][1]);
		uintptr_t at = (uintptr_t)dlsym(handle, "sample_other"), offset = 99;
		assert_string_equal(mt_module_nearest_symbol(&m, at, &offset), "sample_other");
		assert_int_equal(offset, 0);
		assert_string_equal(mt_module_nearest_symbol(&m, at + 1, &offset), "sample_other");
		assert_int_equal(offset, 1);
		dlclose(handle);
	}
}

/* A function that is not exported must not be called by its neighbour's name. */
static void an_address_outside_every_exported_function_has_no_name(void **state)
{
	void *handle = open_sample("gnu");
	struct mt_module m = loaded("sample_gnu");
	uintptr_t offset = 99;
	assert_null(mt_module_nearest_symbol(&m, m.lo, &offset));
	for (uintptr_t at = m.lo; at < m.hi; at++) {
		const char *name = mt_module_nearest_symbol(&m, at, &offset);
		if (!name)
			continue;
		assert_ptr_equal(dlsym(handle, name), at - offset);
		assert_in_range(offset, 0, 200); /* no function of the sample is longer */
	}
	dlclose(handle);
}

static int reads_left;

static int read_until(const void *from, void *to, size_t len)
{
	if (!reads_left--)
		return -14;
	memcpy(to, from, len);
	return 0;
}

static void a_module_that_goes_meanwhile_has_no_name(void **state)
{
	static const char *const samples[][2] = {{"gnu", "sample_gnu"}, {"sysv", "sample_sysv"}};
	for (size_t i = 0; i < MT_ARRAY_LEN(samples); i++) {
		void *handle = open_sample(samples[i][0]);
		struct mt_module m = loaded(samples[i][1]);
		uintptr_t at = (uintptr_t)dlsym(handle, "sample_other"), offset;
		const char *name = NULL;
		int reads;
		for (reads = 0; !name && reads < 1000; reads++) {
			reads_left = reads;
			name = mt_module_nearest_symbol_by(read_until, &m, at, &offset);
			assert_true(name || reads_left == -1);
		}
		assert_string_equal(name, "sample_other");
		assert_in_range(reads, 5, 999);
		dlclose(handle);
	}
}

/* --- identity --------------------------------------------------------------------------------- */

static void the_build_id_is_read_from_the_notes(void **state)
{
	static const uint8_t wanted[20] = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66,
					   0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd,
					   0xee, 0xff, 0x00, 0x11, 0x22, 0x33};
	void *handle = open_sample("gnu");
	struct mt_module m = loaded("sample_gnu");
	assert_int_equal(m.build_id_bytes, 20);
	assert_memory_equal(m.build_id, wanted, 20);
	dlclose(handle);
	handle = open_sample("sysv");
	assert_int_equal(loaded("sample_sysv").build_id_bytes, 16);
	dlclose(handle);
	handle = open_sample("both");
	assert_int_equal(loaded("sample_both").build_id_bytes, 0);
	dlclose(handle);
}

static void a_fingerprint_follows_from_headers_and_unwind_table(void **state)
{
	void *a = open_sample("gnu"), *b = open_sample("sysv");
	assert_true(loaded("sample_gnu").fingerprint == loaded("sample_gnu").fingerprint);
	assert_true(loaded("sample_gnu").fingerprint != loaded("sample_sysv").fingerprint);
	dlclose(a);
	dlclose(b);
}

static void notes_that_lie_about_their_length_are_left_alone(void **state)
{
	struct {
		Elf64_Phdr phdr[2];
		uint32_t note[8];
	} image;
	static const uint32_t bad[][8] = {
		{4, 0xffffffff, NT_GNU_BUILD_ID, 0x00554e47}, /* description longer than the note */
		{0xffffffff, 4, NT_GNU_BUILD_ID, 0x00554e47}, /* name longer */
		{4, 40, NT_GNU_BUILD_ID,
		 0x00554e47},              /* longer than an id may be, and than the note */
		{4, 4, 99, 0x00554e47, 1}, /* another type */
		{4, 4, NT_GNU_BUILD_ID, 0x00585858, 1}, /* another name */
	};
	for (size_t i = 0; i < MT_ARRAY_LEN(bad); i++) {
		struct mt_module m;
		memset(&image, 0, sizeof(image));
		memcpy(image.note, bad[i], sizeof(bad[i]));
		image.phdr[0] = (Elf64_Phdr){.p_type = PT_LOAD, .p_memsz = sizeof(image)};
		image.phdr[1] = (Elf64_Phdr){.p_type = PT_NOTE,
					     .p_vaddr = offsetof(__typeof__(image), note),
					     .p_memsz = sizeof(image.note)};
		assert_int_equal(mt_module_from_phdr(image.phdr, 2, (uintptr_t)&image, &m), 0);
		assert_int_equal(m.build_id_bytes, 0);
	}
}

static int reads_left;
static int read_some(const void *from, void *to, size_t len)
{
	if (!reads_left--)
		return -14;
	memcpy(to, from, len);
	return 0;
}

/* A library that another thread unloads while we look: whichever read fails first, nothing faults.
 */
static void a_module_that_vanishes_meanwhile_is_refused_or_whole(void **state)
{
	void *handle = open_sample("gnu");
	struct mt_module whole = loaded("sample_gnu"), m;
	int reads = 0, err;
	do {
		reads_left = reads++;
		err = mt_module_from_phdr_by(read_some, whole.phdr, whole.phnum, whole.bias, &m);
	} while (err || reads_left < 0);
	assert_true(reads > (int)whole.phnum / 8);
	assert_memory_equal(m.build_id, whole.build_id, 20);
	assert_true(m.fingerprint == whole.fingerprint);
	dlclose(handle);
}

static void headers_without_a_segment_are_refused(void **state)
{
	Elf64_Phdr phdr = {.p_type = PT_NOTE};
	struct mt_module m;
	assert_int_equal(mt_module_from_phdr(&phdr, 1, 0, &m), -22);
	assert_int_equal(mt_module_from_phdr(&phdr, 0, 0, &m), -22);
}

/* --- search in a list ---------------------------------------------------------------------------
 */

static void an_address_is_found_in_its_module_only(void **state)
{
	static const struct mt_module modules[] = {{.lo = 0x1000, .hi = 0x2000},
						   {.lo = 0x2000, .hi = 0x3000},
						   {.lo = 0x8000, .hi = 0x9000}};
	static _Alignas(64) char memory[sizeof(struct mt_module_list) + sizeof(modules)];
	struct mt_module_list *list = (struct mt_module_list *)memory;
	list->count = MT_ARRAY_LEN(modules);
	memcpy(list->m, modules, sizeof(modules));
	static const struct {
		uintptr_t at;
		int module;
	} cases[] = {{0, -1},     {0xfff, -1}, {0x1000, 0},  {0x1fff, 0},
		     {0x2000, 1}, {0x2fff, 1}, {0x3000, -1}, {0x7fff, -1},
		     {0x8000, 2}, {0x8fff, 2}, {0x9000, -1}, {UINTPTR_MAX, -1}};
	for (size_t i = 0; i < MT_ARRAY_LEN(cases); i++) {
		const struct mt_module *m = mt_module_list_find(list, cases[i].at);
		assert_ptr_equal(m, cases[i].module < 0 ? NULL : &list->m[cases[i].module]);
	}
	static const struct mt_module_list empty;
	assert_null(mt_module_list_find(&empty, 0x1000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(symbols_are_found_through_a_gnu_hash_table),
		cmocka_unit_test(symbols_are_found_through_a_sysv_hash_table),
		cmocka_unit_test(symbols_are_found_when_both_tables_are_there),
		cmocka_unit_test(the_default_version_is_meant),
		cmocka_unit_test(functions_of_libc_are_those_of_the_loader),
		cmocka_unit_test(a_module_without_dynamic_section_has_no_symbols),
		cmocka_unit_test(addresses_in_a_function_are_named_after_it),
		cmocka_unit_test(an_address_outside_every_exported_function_has_no_name),
		cmocka_unit_test(a_module_that_goes_meanwhile_has_no_name),
		cmocka_unit_test(the_build_id_is_read_from_the_notes),
		cmocka_unit_test(a_fingerprint_follows_from_headers_and_unwind_table),
		cmocka_unit_test(notes_that_lie_about_their_length_are_left_alone),
		cmocka_unit_test(a_module_that_vanishes_meanwhile_is_refused_or_whole),
		cmocka_unit_test(headers_without_a_segment_are_refused),
		cmocka_unit_test(an_address_is_found_in_its_module_only),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
