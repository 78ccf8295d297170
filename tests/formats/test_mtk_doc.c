/* SPDX-License-Identifier: MIT */
/*
 * docs/formats/mtk.md says what the code does: its field tables are compared with the structs, and
 * its worked example is read from the page and decoded.
 */
#include "fixture.h"

#include <string.h>

struct field {
	const char *in, *name;
	size_t offset, bytes;
};

#define FIELD(type, name) \
	{ \
#type, #name, offsetof(struct type, name), sizeof(((struct type *)0)->name) \
	}

static const struct field fields[] = {
	FIELD(mt_state_header, magic),
	FIELD(mt_state_header, version_major),
	FIELD(mt_state_header, version_minor),
	FIELD(mt_state_header, byte_order),
	FIELD(mt_state_header, header_bytes),
	FIELD(mt_state_header, page_bytes),
	FIELD(mt_state_header, pointer_bytes),
	FIELD(mt_state_header, arch),
	FIELD(mt_state_header, libc),
	FIELD(mt_state_header, door),
	FIELD(mt_state_header, mode),
	FIELD(mt_state_header, control),
	FIELD(mt_state_header, pid),
	FIELD(mt_state_header, ppid),
	FIELD(mt_state_header, depth),
	FIELD(mt_state_header, boot_id),
	FIELD(mt_state_header, proc_start),
	FIELD(mt_state_header, wall_start_ns),
	FIELD(mt_state_header, mono_start_ns),
	FIELD(mt_state_header, tick_start),
	FIELD(mt_state_header, mono_mark_ns),
	FIELD(mt_state_header, tick_mark),
	FIELD(mt_state_header, unit_shift),
	FIELD(mt_state_header, live_granule_shift),
	FIELD(mt_state_header, end_kind),
	FIELD(mt_state_header, end_code),
	FIELD(mt_state_header, notes),
	FIELD(mt_state_header, max_bytes),
	FIELD(mt_state_header, committed_bytes),
	FIELD(mt_state_header, exe_string),
	FIELD(mt_state_header, cmdline_string),
	FIELD(mt_state_header, output_string),
	FIELD(mt_state_header, options_string),
	FIELD(mt_state_header, grow_lock),
	FIELD(mt_state_header, exec_pending),
	FIELD(mt_state_header, now_unit),
	FIELD(mt_state_header, threads_seen),
	FIELD(mt_state_header, children_seen),
	FIELD(mt_state_header, peak_bound_bytes),
	FIELD(mt_state_header, live_published),
	FIELD(mt_state_header, peak_bytes),
	FIELD(mt_state_header, peak_unit),
	FIELD(mt_state_header, peak_epoch),
	FIELD(mt_state_header, launcher_pid),
	FIELD(mt_state_header, lost),
	FIELD(mt_state_header, control_done),
	FIELD(mt_state_header, control_error),
	FIELD(mt_state_header, request_owner),
	FIELD(mt_state_header, first_mode),
	FIELD(mt_state_header, interval_bytes),
	FIELD(mt_state_header, every),
	FIELD(mt_state_header, peak_resets),
	FIELD(mt_state_header, stats_live_published),
	FIELD(mt_state_header, stats_peak_bytes),
	FIELD(mt_state_header, stats_peak_unit),
	FIELD(mt_state_header, guard_slots),
	FIELD(mt_state_header, guard_page_bytes),
	FIELD(mt_state_header, guard_placed),
	FIELD(mt_state_header, guard_refused),
	FIELD(mt_state_header, guard_bytes),
	FIELD(mt_state_header, arena_address),
	FIELD(mt_state_header, arena_bytes),
	FIELD(mt_state_header, look_asked),
	FIELD(mt_state_header, look_done),
	FIELD(mt_state_header, look_why),
	FIELD(mt_state_header, look_result),
	FIELD(mt_state_header, look_flags),
	FIELD(mt_state_header, look_unit),
	FIELD(mt_state_header, look_stop_ns),
	FIELD(mt_state_header, look_count),
	FIELD(mt_state_header, look_bytes),
	FIELD(mt_state_header, region),
	FIELD(mt_state_header, tail),
	FIELD(mt_state_region, kind),
	FIELD(mt_state_region, elem_bytes),
	FIELD(mt_state_region, offset),
	FIELD(mt_state_region, capacity),
	FIELD(mt_state_region, used),
	FIELD(mt_state_region, committed_bytes),
	FIELD(mt_state_region, refused),
	FIELD(mt_state_module, lo),
	FIELD(mt_state_module, hi),
	FIELD(mt_state_module, bias),
	FIELD(mt_state_module, path_string),
	FIELD(mt_state_module, flags),
	FIELD(mt_state_module, loaded_unit),
	FIELD(mt_state_module, unloaded_unit),
	FIELD(mt_state_module, generation),
	FIELD(mt_state_module, build_id_bytes),
	FIELD(mt_state_module, build_id),
	FIELD(mt_state_module, file_dev),
	FIELD(mt_state_module, file_inode),
	FIELD(mt_state_module, reserved),
	FIELD(mt_state_totals, allocs),
	FIELD(mt_state_totals, frees),
	FIELD(mt_state_totals, bytes),
	FIELD(mt_state_totals, freed_bytes),
	FIELD(mt_state_thread, tid),
	FIELD(mt_state_thread, state),
	FIELD(mt_state_thread, start_unit),
	FIELD(mt_state_thread, reuse_count),
	FIELD(mt_state_thread, name),
	FIELD(mt_state_thread, reserved0),
	FIELD(mt_state_thread, totals),
	FIELD(mt_state_thread, reserved1),
	FIELD(mt_state_thread, peak_bytes),
	FIELD(mt_state_thread, published),
	FIELD(mt_state_thread, reallocs),
	FIELD(mt_state_thread, temporaries),
	FIELD(mt_state_thread, unknown_frees),
	FIELD(mt_state_thread, failed_allocs),
	FIELD(mt_state_thread, reserved2),
	FIELD(mt_state_thread, captures),
	FIELD(mt_state_thread, memo_hits),
	FIELD(mt_state_thread, same_as_last),
	FIELD(mt_state_thread, joined),
	FIELD(mt_state_thread, frames_walked),
	FIELD(mt_state_thread, row_misses),
	FIELD(mt_state_thread, ends),
	FIELD(mt_state_thread, fp_steps),
	FIELD(mt_state_thread, unplaced_allocs),
	FIELD(mt_state_thread, unplaced_bytes),
	FIELD(mt_state_thread, untracked_allocs),
	FIELD(mt_state_thread, untracked_bytes),
	FIELD(mt_state_thread, realloc_grown),
	FIELD(mt_state_thread, mismatched_frees),
	FIELD(mt_state_thread, nested_allocs),
	FIELD(mt_state_thread, nested_frees),
	FIELD(mt_state_thread, verified),
	FIELD(mt_state_thread, verify_wrong),
	FIELD(mt_state_thread, filtered_allocs),
	FIELD(mt_state_thread, filtered_bytes),
	FIELD(mt_state_thread, verify_unsure),
	FIELD(mt_state_thread, reserved3),
	FIELD(mt_state_node, pc),
	FIELD(mt_state_node, parent),
	FIELD(mt_state_node, meta),
	FIELD(mt_state_site, node),
	FIELD(mt_state_site, heap),
	FIELD(mt_state_site, call),
	FIELD(mt_state_site, shared),
	FIELD(mt_state_site, label),
	FIELD(mt_state_site, first_unit),
	FIELD(mt_state_site, hash),
	FIELD(mt_state_site, live_published),
	FIELD(mt_state_site, peak_published),
	FIELD(mt_state_site, cell_count),
	FIELD(mt_state_site, regime),
	FIELD(mt_state_site, filter),
	FIELD(mt_state_site, reserved),
	FIELD(mt_state_cell, site),
	FIELD(mt_state_cell, thread),
	FIELD(mt_state_cell, size_bucket),
	FIELD(mt_state_cell, size_known),
	FIELD(mt_state_cell, allocs),
	FIELD(mt_state_cell, bytes),
	FIELD(mt_state_cell, frees),
	FIELD(mt_state_cell, freed_bytes),
	FIELD(mt_state_cell, peak_bytes),
	FIELD(mt_state_cell, at_peak_bytes),
	FIELD(mt_state_cell, at_peak_epoch),
	FIELD(mt_state_cell, hist),
	FIELD(mt_state_cell, at_peak_count),
	FIELD(mt_state_cell, temporaries),
	FIELD(mt_state_cell, published),
	FIELD(mt_state_cell, lifetime),
	FIELD(mt_state_hist, count),
	FIELD(mt_state_live, place),
	FIELD(mt_state_live, size),
	FIELD(mt_state_live, cell),
	FIELD(mt_state_live, unit),
	FIELD(mt_state_live, sequence),
	FIELD(mt_state_large, place),
	FIELD(mt_state_large, size),
	FIELD(mt_state_large, cell),
	FIELD(mt_state_large, unit),
	FIELD(mt_state_large, sequence),
	FIELD(mt_state_large, heap),
	FIELD(mt_state_large, reserved),
	FIELD(mt_state_stats, live_bytes),
	FIELD(mt_state_stats, peak_bytes),
	FIELD(mt_state_stats, published),
	FIELD(mt_state_stats, sampled),
	FIELD(mt_state_stats, no_block),
	FIELD(mt_state_stats, no_site),
	FIELD(mt_state_stats, left_by_size),
	FIELD(mt_state_stats, left_by_module),
	FIELD(mt_state_stats, size_class),
	FIELD(mt_state_size_class, allocs),
	FIELD(mt_state_size_class, frees),
	FIELD(mt_state_size_class, bytes),
	FIELD(mt_state_size_class, freed_bytes),
	FIELD(mt_state_big, place),
	FIELD(mt_state_big, usable_bytes),
	FIELD(mt_state_big, thread),
	FIELD(mt_state_big, unit),
	FIELD(mt_state_big, reserved),
	FIELD(mt_state_regime, kind),
	FIELD(mt_state_regime, every),
	FIELD(mt_state_regime, interval_bytes),
	FIELD(mt_state_regime, first_unit),
	FIELD(mt_state_regime, reserved0),
	FIELD(mt_state_regime, reserved),
	FIELD(mt_state_sampled, sample_bytes),
	FIELD(mt_state_sampled, freed_sample_bytes),
	FIELD(mt_state_sampled, count_q16),
	FIELD(mt_state_sampled, freed_count_q16),
	FIELD(mt_state_sampled, bytes_variance),
	FIELD(mt_state_sampled, count_variance),
	FIELD(mt_state_sampled, bytes_rest_q16),
	FIELD(mt_state_sampled, freed_bytes_rest_q16),
	FIELD(mt_state_sampled, freed_bytes_variance),
	FIELD(mt_state_sampled, freed_count_variance),
	FIELD(mt_state_sampled, reserved),
	FIELD(mt_state_change, what),
	FIELD(mt_state_change, unit),
	FIELD(mt_state_change, before),
	FIELD(mt_state_change, after),
	FIELD(mt_state_change, thread),
	FIELD(mt_state_change, reserved),
	FIELD(mt_state_error, kind),
	FIELD(mt_state_error, access),
	FIELD(mt_state_error, flags),
	FIELD(mt_state_error, signal),
	FIELD(mt_state_error, address),
	FIELD(mt_state_error, block),
	FIELD(mt_state_error, block_bytes),
	FIELD(mt_state_error, pc),
	FIELD(mt_state_error, use),
	FIELD(mt_state_error, alloc),
	FIELD(mt_state_error, free),
	FIELD(mt_state_error, call),
	FIELD(mt_state_error, alloc_call),
	FIELD(mt_state_error, damage),
	FIELD(mt_state_error, tag),
	FIELD(mt_state_error, reserved),
	FIELD(mt_state_actor, tid),
	FIELD(mt_state_actor, thread),
	FIELD(mt_state_actor, unit),
	FIELD(mt_state_actor, node),
	FIELD(mt_state_damage, first),
	FIELD(mt_state_damage, last),
	FIELD(mt_state_damage, count),
	FIELD(mt_state_damage, expected),
	FIELD(mt_state_damage, window_bytes),
	FIELD(mt_state_damage, window_start),
	FIELD(mt_state_damage, before),
	FIELD(mt_state_damage, after),
	FIELD(mt_state_damage, window),
	FIELD(mt_state_damage, reserved),
	FIELD(mt_state_neighbour, start),
	FIELD(mt_state_neighbour, bytes),
	FIELD(mt_state_neighbour, node),
	FIELD(mt_state_neighbour, is_freed),
	FIELD(mt_state_unreached, place),
	FIELD(mt_state_unreached, unit),
	FIELD(mt_state_unreached, leaks),
	FIELD(mt_state_heap, name_string),
	FIELD(mt_state_heap, flags),
	FIELD(mt_state_label, name_string),
	FIELD(mt_state_label, reserved),
};

static char *read_page(void)
{
	char *text = NULL;
	size_t len;
	struct mt_err err;
	if (mt_file_read(MT_SOURCE_ROOT "/docs/formats/mtk.md", 1 << 20, &text, &len, &err))
		fail_msg("%s", err.text);
	return text;
}

/* From a heading with this struct's name to the next heading, as a heap string. */
static char *section_of(const char *page, const char *type)
{
	char title[64];
	snprintf(title, sizeof(title), "`%s`\n\n", type);
	const char *from = page;
	while ((from = strstr(from, title))) {
		const char *line = from;
		while (line > page && line[-1] != '\n')
			line--;
		if (*line == '#')
			break;
		from++;
	}
	if (!from)
		fail_msg("the page has no section for %s", type);
	const char *to = strstr(from, "\n#");
	return strndup(from, to ? (size_t)(to - from) : strlen(from));
}

static void every_field_stands_in_its_table(void **state)
{
	mt_auto(free) char *page = read_page();
	for (size_t i = 0; i < MT_ARRAY_LEN(fields); i++) {
		const struct field *f = &fields[i];
		char row[128];
		mt_auto(free) char *section = section_of(page, f->in);
		snprintf(row, sizeof(row), "\n| %zu | %zu | `%s` |", f->offset, f->bytes, f->name);
		if (!strstr(section, row))
			fail_msg("%s has no row '%s'", f->in, row + 1);
	}
}

static void tables_have_no_rows_too_many(void **state)
{
	mt_auto(free) char *page = read_page();
	size_t rows = 0;
	for (size_t i = 0; i < MT_ARRAY_LEN(fields); i++) {
		if (i && !strcmp(fields[i].in, fields[i - 1].in))
			continue;
		mt_auto(free) char *section = section_of(page, fields[i].in);
		for (const char *s = section; (s = strstr(s, "\n| ")); s++)
			rows += s[3] >= '0' && s[3] <= '9';
	}
	assert_int_equal(rows, MT_ARRAY_LEN(fields));
}

/* The bytes of the page's dump; lines left out are zeros. */
static uint8_t *read_dump(size_t *ret_len)
{
	mt_auto(free) char *page = read_page();
	const char *s = strstr(page, "```hexdump\n");
	assert_non_null(s);
	size_t cap = 1 << 16, len = 0;
	uint8_t *data = calloc(1, cap);
	for (s = strchr(s, '\n') + 1; *s != '`'; s = strchr(s, '\n') + 1) {
		char *next;
		size_t at = strtoul(s, &next, 16);
		assert_in_range(at, len, cap - 16);
		len = at;
		while (*next == ' ')
			data[len++] = (uint8_t)strtoul(next, &next, 16);
	}
	*ret_len = len;
	return data;
}

static struct mt_profile *read_example(void)
{
	size_t len;
	mt_auto(free) uint8_t *data = read_dump(&len);
	struct mt_profile *p = NULL;
	struct mt_err err;
	if (mt_mtk_read_memory(data, len, "example", &p, &err))
		fail_msg("%s", err.text);
	return p;
}

static void example_is_what_the_builder_makes(void **state)
{
	size_t dump_len, len;
	mt_auto(free) uint8_t *dump = read_dump(&dump_len);
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_example();
	mt_auto(free) uint8_t *data = mtk_builder_bytes(b, &len);
	assert_int_equal(dump_len, len);
	assert_memory_equal(dump, data, len);
}

static void example_decodes_to_what_the_page_says(void **state)
{
	mt_auto(mt_profile) struct mt_profile *p = read_example();
	assert_no_warnings(p);
	assert_int_equal(p->pid, 4242);
	assert_int_equal(p->ppid, 4241);
	assert_int_equal(p->depth, 32);
	assert_true(p->recording);
	assert_int_equal(p->end_kind, MT_END_EXITED);
	assert_int_equal(p->time_resolution_ns, 1000000);
	assert_string_equal(p->exe, "/bin/app");
	assert_int_equal(p->module[1].lo, 0x400000);
	assert_int_equal(p->module[1].hi, 0x410000);
	assert_string_equal(p->module[1].path, "/bin/app");
	assert_int_equal(p->module[1].build_id_bytes, 20);
	assert_string_equal(p->thread[1].name, "main");
	assert_int_equal(p->thread[1].tid, 4242);
	assert_int_equal(p->peak_bytes, 48);
	assert_int_equal(p->peak_ns, 3000000);
	assert_int_equal(p->peak_bound_bytes, 0);
}

static void example_holds_the_two_blocks(void **state)
{
	mt_auto(mt_profile) struct mt_profile *p = read_example();
	uint32_t nodes[4];
	const struct mt_profile_site *s = &p->site[1];
	assert_int_equal(s->call, MT_CALL_MALLOC);
	assert_int_equal(mt_profile_stack(p, s->node, nodes, 4), 2);
	assert_int_equal(p->node[nodes[0]].pc, 0x401180);
	assert_int_equal(p->node[nodes[1]].pc, 0x401136);
	assert_int_equal(p->node[nodes[1]].end, MT_PROFILE_END_COMPLETE);
	assert_int_equal(s->counts.allocs, 2);
	assert_int_equal(s->counts.bytes, 48);
	assert_int_equal(s->counts.frees, 1);
	assert_int_equal(s->counts.freed_bytes, 24);
	assert_int_equal(s->at_peak_bytes, 48);
	assert_int_equal(s->at_peak_count, 2);
	assert_int_equal(sizes_of(p, 1, 5), 2);
	assert_int_equal(lives_of(p, 1, 2), 1);
	assert_int_equal(p->blocks, 1);
	assert_int_equal(p->block[0].size, 24);
	assert_int_equal(born_ns(p, 0), 3000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_field_stands_in_its_table),
		cmocka_unit_test(tables_have_no_rows_too_many),
		cmocka_unit_test(example_is_what_the_builder_makes),
		cmocka_unit_test(example_decodes_to_what_the_page_says),
		cmocka_unit_test(example_holds_the_two_blocks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
