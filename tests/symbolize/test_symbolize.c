/* SPDX-License-Identifier: MIT */
/* A whole profile: nodes of several modules of this very program, all threads, all kinds of nodes.
 */
#include "symbolize/symbolize.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "model/profile.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <link.h>
#include <stdlib.h>

enum { NODES_MAX = 64, MODULES_MAX = 16 };

static const char *file_name(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	return slash ? slash + 1 : path;
}

/* The address that its caller returns to. */
__attribute__((noinline)) static uint64_t here(void)
{
	return (uint64_t)(uintptr_t)__builtin_return_address(0);
}

struct place {
	uint64_t pc;
	uint32_t line;
};

__attribute__((noinline)) static struct place first_caller(void)
{
	struct place p = {.pc = here(), .line = __LINE__};
	return p;
}

static inline __attribute__((always_inline)) struct place inlined(void)
{
	struct place p = {.pc = here(), .line = __LINE__};
	return p;
}

__attribute__((noinline)) static struct place second_caller(uint32_t *ret_line)
{
	*ret_line = __LINE__ + 1;
	return inlined();
}

/* ---- the profile of this process ---- */

static void add_build_id(struct mt_profile_module *m, const struct dl_phdr_info *info)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		const char *at = (const char *)(info->dlpi_addr + ph->p_vaddr);
		const char *end = at + ph->p_memsz;
		if (ph->p_type != PT_NOTE)
			continue;
		while (at + sizeof(ElfW(Nhdr)) < end) {
			const ElfW(Nhdr) *note = (const void *)at;
			const char *desc = at + sizeof(*note) + MT_ALIGN_UP(note->n_namesz, 4u);
			if (note->n_type == NT_GNU_BUILD_ID && note->n_descsz <= 32) {
				memcpy(m->build_id, desc, note->n_descsz);
				m->build_id_bytes = note->n_descsz;
				return;
			}
			at = desc + MT_ALIGN_UP(note->n_descsz, 4u);
		}
	}
}

static int add_module(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct mt_profile *p = arg;
	struct mt_profile_module *m = &p->module[p->module_count];
	if (p->module_count == MODULES_MAX)
		return 1;
	m->bias = info->dlpi_addr;
	m->lo = UINT64_MAX;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		if (ph->p_type == PT_LOAD) {
			m->lo = MT_MIN(m->lo, m->bias + ph->p_vaddr);
			m->hi = MT_MAX(m->hi, m->bias + ph->p_vaddr + ph->p_memsz);
		}
	}
	add_build_id(m, info);
	m->is_vdso = strstr(info->dlpi_name, "vdso") != NULL;
	m->is_program = !*info->dlpi_name;
	char *real = m->is_program ? realpath("/proc/self/exe", NULL) : NULL;
	m->path = mt_arena_strdup(p->arena, real ? real : info->dlpi_name);
	free(real);
	p->module_count++;
	return 0;
}

static struct mt_profile *make_profile(void)
{
	struct mt_profile *p = mt_profile_new();
	p->module = mt_arena_array(p->arena, MODULES_MAX, sizeof(*p->module));
	p->module[0].path = "";
	p->node = mt_arena_array(p->arena, NODES_MAX, sizeof(*p->node));
	dl_iterate_phdr(add_module, p);
	return p;
}

static uint32_t add_node(struct mt_profile *p, uint64_t pc)
{
	struct mt_profile_node *n = &p->node[p->node_count];
	n->pc = pc;
	n->depth = 1;
	for (uint32_t i = 1; i < p->module_count; i++)
		if (pc >= p->module[i].lo && pc < p->module[i].hi)
			n->module = i;
	return p->node_count++;
}

static uint64_t in_function(void *function)
{
	return (uint64_t)(uintptr_t)function + 2;
}

static struct mt_symbols *symbolize(const struct mt_profile *p, uint32_t threads)
{
	const struct mt_symbolize_options options = {.threads = threads, .no_cache = true};
	struct mt_symbols *s;
	struct mt_err err = {0};
	if (mt_symbolize_profile(p, &options, &s, &err))
		fail_msg("%s", err.text);
	return s;
}

/* ---- tests ---- */

static void frames_of_this_program_are_exact(void **state)
{
	struct mt_profile *p = make_profile();
	uint32_t call_line, count;
	struct place one = first_caller(), two = second_caller(&call_line);
	uint32_t first = add_node(p, one.pc), second = add_node(p, two.pc);
	mt_auto(mt_symbols) struct mt_symbols *s = symbolize(p, 0);

	const struct mt_symbol_frame *f = mt_symbols_node(s, first, &count);
	assert_int_equal(count, 1);
	assert_string_equal(f->function, "first_caller");
	assert_string_equal(f->display, "first_caller");
	assert_string_equal(file_name(f->file), "test_symbolize.c");
	assert_int_equal(f->line, one.line);
	assert_true(f->column > 0);
	assert_true(f->has_offset);
	assert_int_equal(f->offset, one.pc - 1 - (uint64_t)(uintptr_t)first_caller);
	assert_false(f->is_inline);

	f = mt_symbols_node(s, second, &count);
	assert_int_equal(count, 2);
	assert_string_equal(f[0].function, "inlined");
	assert_int_equal(f[0].line, two.line);
	assert_true(f[0].is_inline);
	assert_false(f[0].has_offset);
	assert_string_equal(f[1].function, "second_caller");
	assert_int_equal(f[1].line, call_line);
	assert_false(f[1].is_inline);
	assert_int_equal(mt_symbols_warnings(s), 0);
	assert_false(mt_symbols_stopped(s));
	mt_profile_free(p);
}

static void any_number_of_threads_gives_the_same_names(void **state)
{
	struct mt_profile *p = make_profile();
	uint32_t nodes[4] = {
		add_node(p, in_function((void *)malloc)),
		add_node(p, in_function((void *)mt_profile_new)),
		add_node(p, in_function((void *)_cmocka_run_group_tests)),
		add_node(p, in_function((void *)malloc)),
	};
	static const char *const names[4] = {"malloc", "mt_profile_new", "_cmocka_run_group_tests",
					     "malloc"};
	for (uint32_t threads = 1; threads <= 4; threads++) {
		mt_auto(mt_symbols) struct mt_symbols *s = symbolize(p, threads);
		for (int i = 0; i < 4; i++) {
			uint32_t count;
			const struct mt_symbol_frame *f = mt_symbols_node(s, nodes[i], &count);
			assert_int_equal(count, 1);
			assert_non_null(strstr(f->function, names[i])); /* __libc_malloc */
		}
	}
	mt_profile_free(p);
}

static void nodes_without_a_module_file_have_no_frames(void **state)
{
	struct mt_profile *p = make_profile();
	uint32_t count = 7, nowhere = add_node(p, 0x1234), source = add_node(p, 0);
	p->node[source].kind = MT_FRAME_SOURCE;
	p->node[source].source_file = "given.c";
	for (uint32_t i = 1; i < p->module_count; i++)
		if (p->module[i].is_vdso)
			add_node(p, p->module[i].lo + 0x600);
	mt_auto(mt_symbols) struct mt_symbols *s = symbolize(p, 0);
	for (uint32_t i = nowhere; i < p->node_count; i++) {
		assert_null(mt_symbols_node(s, i, &count));
		assert_int_equal(count, 0);
	}
	count = 7;
	assert_null(mt_symbols_node(s, p->node_count, &count));
	assert_int_equal(count, 0);
	assert_int_equal(mt_symbols_warnings(s), 0);
	mt_profile_free(p);
}

static void module_loaded_twice_is_read_once_and_warned_of_once(void **state)
{
	struct mt_profile *p = make_profile();
	p->module_count = 3;
	p->module[1].path = p->module[2].path = "/nonexistent/libgone.so";
	memcpy(p->module[2].build_id, p->module[1].build_id, sizeof(p->module[1].build_id));
	p->module[2].build_id_bytes = p->module[1].build_id_bytes;
	p->module[2].is_vdso = p->module[1].is_vdso = false;
	p->node[add_node(p, 1)].module = 1;
	p->node[add_node(p, 1)].module = 2;
	mt_auto(mt_symbols) struct mt_symbols *s = symbolize(p, 2);
	assert_int_equal(mt_symbols_warnings(s), 1);
	assert_string_equal(mt_symbols_warning(s, 0),
			    "cannot open '/nonexistent/libgone.so': no symbols from it");
	assert_string_equal(mt_symbols_warning(s, 1), "");
	mt_profile_free(p);
}

static void empty_profile_gives_an_empty_result(void **state)
{
	struct mt_profile *p = mt_profile_new();
	uint32_t count;
	mt_auto(mt_symbols) struct mt_symbols *s = symbolize(p, 0);
	assert_null(mt_symbols_node(s, 0, &count));
	assert_int_equal(count, 0);
	mt_profile_free(p);
}

static void every_failed_allocation_is_an_error(void **state)
{
	struct mt_profile *p = make_profile();
	const struct mt_symbolize_options options = {.threads = 1, .no_cache = true};
	uint32_t node = add_node(p, first_caller().pc);
	int failures = 0;
	for (size_t n = 1;; n += n < 60 ? 1 : 17) {
		struct mt_symbols *s = NULL;
		struct mt_err err = {0};
		uint32_t count;
		mt_alloc_fail_from_for_test(n);
		int r = mt_symbolize_profile(p, &options, &s, &err);
		mt_alloc_fail_from_for_test(0);
		if (!r) {
			const struct mt_symbol_frame *f = mt_symbols_node(s, node, &count);
			assert_int_equal(count, 1);
			assert_string_equal(f->function, "first_caller");
			mt_symbols_free(s);
			break;
		}
		assert_int_equal(r, -ENOMEM);
		assert_string_equal(err.text, "cannot allocate memory");
		failures++;
	}
	assert_true(failures > 10);
	mt_profile_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_of_this_program_are_exact),
		cmocka_unit_test(any_number_of_threads_gives_the_same_names),
		cmocka_unit_test(nodes_without_a_module_file_have_no_frames),
		cmocka_unit_test(module_loaded_twice_is_read_once_and_warned_of_once),
		cmocka_unit_test(empty_profile_gives_an_empty_result),
		cmocka_unit_test(every_failed_allocation_is_an_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
