/* SPDX-License-Identifier: MIT */
/* Native heap dumps: lines, whole files of each version, damage, and what is written again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "formats/heapdump_line.h"
#include "formats/heapdump_read.h"
#include "formats/heapdump_write.h"
#include "wire/state.h"

#define HEAD_1_2 \
	"Android Native Heap Dump v1.2\n\nBuild fingerprint: 'a/b'\n\nTotal memory: 1000\n" \
	"Allocation records: 2\nBacktrace size: 16\n\n"
#define TAIL "MAPS\nEND\n"

static struct mt_profile *read_text(const char *text)
{
	struct mt_profile *p = NULL;
	struct mt_err err = {0};

	if (mt_heapdump_read_memory(text, strlen(text), "x.txt", &p, &err))
		fail_msg("%s", err.text);
	return p;
}

/* Blocks of a size, over all stacks. */
static uint64_t count_of(const struct mt_profile *p, uint64_t size)
{
	uint64_t count = 0;

	for (uint64_t i = 0; i < p->groups; i++)
		count += p->group[i].size == size ? p->group[i].count : 0;
	return count;
}

static bool is_warned(const struct mt_profile *p, const char *part)
{
	for (uint32_t i = 0; i < p->warning_count; i++)
		if (strstr(p->warning[i], part))
			return true;
	return false;
}

static char *write_text(const struct mt_profile *p, uint32_t version)
{
	mt_auto(mt_records) struct mt_records records = {0};
	struct mt_heapdump_options o = {.version = version};
	struct mt_buf out = {0};

	assert_int_equal(mt_records_make(p, &records), 0);
	assert_int_equal(mt_heapdump_write(p, &records, &o, &out, NULL), 0);
	return mt_buf_steal(&out, NULL);
}

/* ---- lines ---- */

static void a_record_is_parsed_word_by_word(void **state)
{
	struct mt_heapdump_line l;
	uint64_t address = 0;

	mt_heapdump_parse("z 1  sz      400  num    3  bt a2a0 0000b510", &l);
	assert_int_equal(l.kind, MT_HEAPDUMP_RECORD);
	assert_true(l.is_app);
	assert_int_equal(l.size, 400);
	assert_int_equal(l.num, 3);
	assert_true(mt_heapdump_next_frame(&l.rest, &address));
	assert_int_equal(address, 0xa2a0);
	assert_true(mt_heapdump_next_frame(&l.rest, &address));
	assert_int_equal(address, 0xb510);
	assert_false(mt_heapdump_next_frame(&l.rest, &address));
}

static void a_frame_of_0_ends_the_stack(void **state)
{
	struct mt_heapdump_line l;
	uint64_t address = 0;

	mt_heapdump_parse("z 0  sz 1  num 1  bt a2a0 0 b510", &l);
	assert_true(mt_heapdump_next_frame(&l.rest, &address));
	assert_false(mt_heapdump_next_frame(&l.rest, &address));
}

static void damaged_records_are_none(void **state)
{
	static const char *const lines[] = {
		"z 0  sz x  num 1  bt",          "z 0  sz 10  num 1",
		"z 0  sz 10  num 1  bt a2a0 gg", "z 0  sz 99999999999999999999999  num 1  bt",
		"z 0  sz -1  num 1  bt a",       "z 0 sz 1 num 1 bt 11111111111111111",
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct mt_heapdump_line l;

		mt_heapdump_parse(lines[i], &l);
		if (l.kind != MT_HEAPDUMP_OTHER)
			fail_msg("taken: %s", lines[i]);
	}
}

static void assert_info(const char **rest, const char *map, uint64_t relative, const char *function,
			uint64_t offset)
{
	struct mt_heapdump_info info;

	assert_true(mt_heapdump_next_info(rest, &info));
	assert_int_equal(info.map_len, strlen(map));
	assert_memory_equal(info.map, map, strlen(map));
	assert_int_equal(info.relative, relative);
	assert_int_equal(info.function_len, strlen(function));
	assert_memory_equal(info.function, function, strlen(function));
	assert_int_equal(info.offset, offset);
}

static void bt_info_holds_names_with_blanks_and_quotes(void **state)
{
	struct mt_heapdump_line l;
	struct mt_heapdump_info info;

	mt_heapdump_parse("  bt_info {\"/system/my lib.so\" 2a0 \"f(int, char const*)\" 24} "
			  "{\"/a\" 1 \"operator<<(a&, \"b\")\" ff} {\"/b\" 510 \"\" 0} "
			  "{\"/c\" 2 \"operator\"\" _kg\" 3}",
			  &l);
	assert_int_equal(l.kind, MT_HEAPDUMP_INFO);
	assert_info(&l.rest, "/system/my lib.so", 0x2a0, "f(int, char const*)", 0x24);
	assert_info(&l.rest, "/a", 1, "operator<<(a&, \"b\")", 0xff);
	assert_info(&l.rest, "/b", 0x510, "", 0);
	assert_info(&l.rest, "/c", 2, "operator\"\" _kg", 3);
	assert_false(mt_heapdump_next_info(&l.rest, &info));
}

static void C164_map_lines_give_start_end_offset_and_name(void **state)
{
	struct mt_heapdump_line l;

	mt_heapdump_parse("7fe9181000-7fe91a2000 rw-p 0001f000 08:01 1234    /system/lib/libc.so",
			  &l);
	assert_int_equal(l.kind, MT_HEAPDUMP_MAP);
	assert_int_equal(l.lo, 0x7fe9181000);
	assert_int_equal(l.hi, 0x7fe91a2000);
	assert_int_equal(l.offset, 0x1f000);
	assert_string_equal(l.path, "/system/lib/libc.so");
	mt_heapdump_parse("a000-b000 r-xp 00001000 fd:01 0   /opt/with blank.so (deleted)", &l);
	assert_string_equal(l.path, "/opt/with blank.so (deleted)");
	mt_heapdump_parse("a000-b000 r-xp 00001000 fd:01 77", &l);
	assert_int_equal(l.kind, MT_HEAPDUMP_MAP);
	assert_string_equal(l.path, "");
	mt_heapdump_parse("b000-a000 r-xp 00001000 fd:01 77 /x", &l);
	assert_int_equal(l.kind, MT_HEAPDUMP_OTHER);
}

static void C164_nameless_maps_are_no_modules(void **state)
{
	struct mt_profile *p = read_text("z 0  sz 1  num 1  bt a010 c010 e010\nMAPS\n"
					 "a000-b000 r-xp 00002000 08:01 7   /lib/a.so\n"
					 "c000-d000 rw-p 00000000 00:00 0\n"
					 "e000-f000 r-xp 0000f000 08:01 8   /lib/b.so\nEND\n");
	uint32_t node[3];

	assert_int_equal(p->module_count, 3);
	assert_int_equal(mt_profile_stack(p, p->site[1].node, node, 3), 3);
	assert_string_equal(p->module[p->node[node[0]].module].path, "/lib/a.so");
	assert_int_equal(p->node[node[0]].pc - 1 - p->module[p->node[node[0]].module].bias, 0x2010);
	assert_int_equal(p->node[node[1]].module, 0);
	assert_int_equal(p->node[node[2]].pc - 1 - p->module[p->node[node[2]].module].bias, 0xf010);
	mt_profile_free(p);
}

/* ---- files ---- */

static void records_without_frames_are_counted(void **state)
{
	struct mt_profile *p = read_text(HEAD_1_2 "z 0  sz      300  num    3  bt a b\n"
						  "z 0  sz      100  num    1  bt\n" TAIL);

	assert_int_equal(p->live_bytes, 1000);
	assert_int_equal(p->live_count, 4);
	assert_int_equal(p->site_count, 3);
	assert_int_equal(p->site[2].node, 0);
	assert_int_equal(p->site[2].live_bytes, 100);
	assert_true(is_warned(p, "no memory map"));
	assert_int_equal(p->warning_count, 1);
	mt_profile_free(p);
}

/* Four records of these numbers, of this version line; blocks that were found. */
static uint64_t blocks_of(const char *version, const char *depth, const char *nums)
{
	char text[1024];
	int len = snprintf(text, sizeof(text), "%s%s", version, depth);
	struct mt_profile *p;
	uint64_t count;

	for (const char *n = nums; *n; n++) {
		char num[8] = {*n, 0};

		len += snprintf(text + len, sizeof(text) - (size_t)len,
				"z 0  sz      %d  num    %s  bt a%d b\n", (int)(n - nums) + 10,
				*n == 'D' ? "16" : num, (int)(n - nums));
	}
	p = read_text(text);
	count = p->live_count;
	mt_profile_free(p);
	return count;
}

static void C163_num_is_valid_from_v1_1_on(void **state)
{
	assert_int_equal(
		blocks_of("Android Native Heap Dump v1.1\n\n", "Backtrace size: 16\n", "DDDD"), 64);
	assert_int_equal(
		blocks_of("Android Native Heap Dump v1.2\n\n", "Backtrace size: 16\n", "DDDD"), 64);
}

static void num_before_v1_1_is_doubted_until_a_record_proves_it(void **state)
{
	static const char v1_0[] = "Android Native Heap Dump v1.0\n\n";
	static const char depth[] = "Backtrace size: 16\n";

	assert_int_equal(blocks_of(v1_0, depth, "DDDD"), 4);  /* three in a row: the depth */
	assert_int_equal(blocks_of("", depth, "DDDD"), 4);    /* no version: the same */
	assert_int_equal(blocks_of(v1_0, depth, "DD"), 2);    /* fewer, all equal: the depth */
	assert_int_equal(blocks_of(v1_0, depth, "3"), 3);     /* proven at once */
	assert_int_equal(blocks_of(v1_0, depth, "DD3D"), 51); /* proven by the third */
	assert_int_equal(blocks_of(v1_0, depth, "DDD3"), 4);  /* too late */
	assert_int_equal(blocks_of(v1_0, "", "DDDD"), 64);    /* before Android O: no depth */
}

static void nums_that_are_not_used_are_told(void **state)
{
	struct mt_profile *p = read_text("Backtrace size: 4\nz 0  sz 10  num 4  bt a\n");

	assert_int_equal(p->live_count, 1);
	assert_true(is_warned(p, "every record counts as one block"));
	mt_profile_free(p);
}

static void garbage_is_left_out_and_counted(void **state)
{
	struct mt_profile *p = read_text("what is this\nz 0  sz 10  num 2  bt a b\n"
					 "more of it\nz 0  sz 1x  num 2  bt a b\n");

	assert_int_equal(p->live_bytes, 20);
	assert_true(is_warned(p, "2 lines are left out, the first is line 1: no lines of"));
	assert_true(is_warned(p, "line 4 is left out: records that are damaged"));
	mt_profile_free(p);
}

static void cut_and_wrong_headers_are_told(void **state)
{
	struct mt_profile *p = read_text(HEAD_1_2 "z 0  sz      300  num    3  bt\n");

	assert_true(is_warned(p, "END, is missing"));
	assert_true(is_warned(p, "claims 2 records, 1 were found"));
	mt_profile_free(p);
	p = read_text(HEAD_1_2 "z 0  sz 1  num 1  bt\nz 0  sz 2  num 1  bt\n" TAIL);
	assert_true(is_warned(p, "claims 1000 bytes, its records hold 3"));
	mt_profile_free(p);
}

static void numbers_that_cannot_be_are_garbage(void **state)
{
	struct mt_profile *p = read_text("z 0  sz 72057594037927935  num 72057594037927935  bt a\n"
					 "z 0  sz 4611686018427387904  num 1  bt a\n"
					 "z 0  sz 10  num 1  bt a\n");

	assert_int_equal(p->live_bytes, 10);
	assert_true(is_warned(p, "2 lines are left out, the first is line 1: records"));
	mt_profile_free(p);
}

static void c123_the_zygote_is_told_apart_when_there_is_an_application(void **state)
{
	struct mt_profile *p = read_text("z 0  sz 1  num 1  bt a\nz 1  sz 2  num 1  bt a\n");

	assert_int_equal(p->site_count, 3);
	assert_string_equal(p->label[p->site[1].label], MT_PROFILE_ZYGOTE);
	assert_string_equal(p->label[p->site[2].label], MT_PROFILE_APP);
	mt_profile_free(p);
	p = read_text("z 0  sz 1  num 1  bt a\n");
	assert_int_equal(p->site[1].label, 0);
	mt_profile_free(p);
}

static void deep_stacks_are_cut_and_told(void **state)
{
	mt_auto(mt_buf) struct mt_buf text = {0};
	struct mt_profile *p;
	uint32_t node[MT_HEAPDUMP_FRAMES_MAX + 1];

	mt_buf_adds(&text, "z 0  sz 1  num 1  bt");
	for (int i = 0; i < 300; i++)
		mt_buf_printf(&text, " %x", 0x1000 + i);
	mt_buf_adds(&text, "\r\n");
	p = read_text(mt_buf_text(&text));
	assert_int_equal(mt_profile_stack(p, p->site[1].node, node, MT_HEAPDUMP_FRAMES_MAX + 1),
			 MT_HEAPDUMP_FRAMES_MAX);
	assert_int_equal(p->node[node[0]].pc - 1, 0x1000);
	assert_true(is_warned(p, "1 stacks have more than 256 frames"));
	mt_profile_free(p);
}

static void names_of_bt_info_belong_to_their_frames(void **state)
{
	struct mt_profile *p = read_text("z 0  sz 400  num 1  bt a2a0 b510\n"
					 "  bt_info {\"/s/libc.so\" 2a0 \"abort\" 24} "
					 "{\"/s/libutils.so\" 510 \"\" 0}\n");
	uint32_t node[2];

	assert_int_equal(mt_profile_stack(p, p->site[1].node, node, 2), 2);
	assert_string_equal(p->given_name[node[0]], "abort");
	assert_null(p->given_name[node[1]]);
	/* there is no map: the module and its place come from bt_info */
	assert_string_equal(p->module[p->node[node[1]].module].path, "/s/libutils.so");
	assert_int_equal(p->module[p->node[node[1]].module].bias, 0xb000);
	mt_profile_free(p);
}

static void what_is_no_dump_is_refused(void **state)
{
	static const char *const texts[] = {"", "hello\n", "\x7f\x45LF\x02\x01", "MAPS\nEND\n"};

	for (size_t i = 0; i < 4; i++) {
		struct mt_profile *p = NULL;
		struct mt_err err = {0};

		assert_int_equal(mt_heapdump_read_memory(texts[i], strlen(texts[i]), "x", &p, &err),
				 -EBADMSG);
		assert_non_null(strstr(err.text, "'x' is not a native heap dump"));
		assert_false(mt_heapdump_is(texts[i], strlen(texts[i])));
	}
	assert_true(mt_heapdump_is("\nz 0  sz 1  num 1  bt a", 23));
}

static void an_empty_dump_is_a_profile(void **state)
{
	struct mt_profile *p = read_text("Android Native Heap Dump v1.2\n\nTotal memory: 0\n"
					 "Allocation records: 0\nBacktrace size: 16\n\n" TAIL);

	assert_int_equal(p->live_count, 0);
	assert_int_equal(p->warning_count, 0);
	mt_profile_free(p);
}

/* ---- samples of other tools ---- */

static struct mt_profile *read_sample(const char *name)
{
	mt_auto(free) char *data = NULL;
	struct mt_profile *p = NULL;
	char path[512];
	size_t len = 0;

	snprintf(path, sizeof(path), "%s/../shared/samples/android-native/%s", MT_SOURCE_ROOT,
		 name);
	if (mt_file_read(path, 1 << 20, &data, &len, NULL)) {
		print_message("skipped: there is no '%s'\n", path);
		skip();
	}
	assert_int_equal(mt_heapdump_read_memory(data, len, name, &p, NULL), 0);
	return p;
}

static void the_sample_of_v1_0_is_read(void **state)
{
	struct mt_profile *p = read_sample("aosp-readme-v1.0.txt");

	/* the first num is not the depth, so they are what they say, as is "Total memory" */
	assert_int_equal(p->live_bytes, 1900);
	assert_int_equal(p->warning_count, 0);
	mt_profile_free(p);
}

static void the_sample_of_v1_2_is_read(void **state)
{
	struct mt_profile *p = read_sample("aosp-unit-test-v1.2.txt");

	assert_int_equal(p->live_bytes, 405);
	assert_int_equal(p->live_count, 6);
	assert_int_equal(count_of(p, 200), 1);
	assert_int_equal(p->warning_count, 0);
	mt_profile_free(p);
}

static void the_sample_with_bt_info_is_read(void **state)
{
	struct mt_profile *p = read_sample("aosp-readme-v1.2-bt_info.txt");
	uint32_t node[2];

	assert_int_equal(mt_profile_stack(p, p->site[1].node, node, 2), 2);
	assert_string_equal(p->given_name[node[0]], "abort");
	assert_string_equal(p->module[p->node[node[1]].module].path, "/system/libutils.so");
	mt_profile_free(p);
}

/* ---- writing ---- */

static void C111_records_are_summed_and_sorted(void **state)
{
	struct mt_profile *p = read_text("z 0  sz 300  num 1  bt a b\nz 0  sz 400  num 1  bt c d\n"
					 "z 0  sz 300  num 1  bt a b\n");
	mt_auto(free) char *text = write_text(p, 12);

	assert_non_null(strstr(text, "Total memory: 1000\nAllocation records: 2\n"));
	assert_non_null(strstr(text, "\n\nz 0  sz      400  num    1  bt c d\n"
				     "z 0  sz      300  num    2  bt a b\nMAPS\n"));
	mt_profile_free(p);
}

static void C117_the_shape_is_that_of_v1_2(void **state)
{
	struct mt_profile *p = read_text("z 0  sz 1  num 1  bt a\nMAPS\n"
					 "a-b r-xp 00001000 00:00 0 /x.so\n");
	mt_auto(free) char *text = write_text(p, 12);
	size_t len = strlen(text);

	assert_memory_equal(text,
			    "Android Native Heap Dump v1.2\n\nBuild fingerprint: 'unknown'\n\n"
			    "Total memory: 1\nAllocation records: 1\nBacktrace size: 1\n\n",
			    118);
	assert_non_null(strstr(text, "\nMAPS\na-b r-xp 00001000 00:00 0 "));
	assert_string_equal(text + len - 10, "/x.so\nEND\n");
	mt_profile_free(p);
}

static void C118_equal_blocks_are_one_record(void **state)
{
	mt_auto(mt_buf) struct mt_buf text = {0};
	mt_auto(free) char *out = NULL;
	struct mt_profile *p;

	for (int i = 0; i < 100000; i++)
		mt_buf_adds(&text, "z 0  sz 24  num 1  bt a b\n");
	p = read_text(mt_buf_text(&text));
	out = write_text(p, 12);
	assert_non_null(strstr(out, "Allocation records: 1\n"));
	assert_non_null(strstr(out, "\nz 0  sz       24  num    100000  bt a b\nMAPS\n"));
	mt_profile_free(p);
}

static void C119_interleaved_stacks_are_summed(void **state)
{
	mt_auto(mt_buf) struct mt_buf text = {0};
	mt_auto(free) char *out = NULL;
	struct mt_profile *p;

	for (int i = 0; i < 100; i++)
		mt_buf_printf(&text, "z 0  sz 24  num 1  bt %s\n", i % 2 ? "c d" : "a b");
	p = read_text(mt_buf_text(&text));
	out = write_text(p, 12);
	assert_non_null(strstr(out, "z 0  sz       24  num    50  bt a b\n"
				    "z 0  sz       24  num    50  bt c d\nMAPS\n"));
	mt_profile_free(p);
}

static void older_versions_pad_addresses(void **state)
{
	struct mt_profile *p = read_text("z 0  sz 1  num 1  bt abc\nz 0  sz 1  num 2  bt\n");
	mt_auto(free) char *text = write_text(p, 11);

	assert_non_null(strstr(text, "Android Native Heap Dump v1.1\n\nTotal memory: 3\n"));
	assert_non_null(strstr(text, "\nz 0  sz        1  num    1  bt 0000000000000abc\n"
				     "z 0  sz        1  num    2  bt\nMAPS\n"));
	mt_profile_free(p);
}

static const char *name_node(void *context, const struct mt_profile *p, uint32_t node,
			     uint64_t *ret_offset)
{
	*ret_offset = 0x10;
	return p->given_name[node];
}

static void bt_info_survives_writing_and_reading(void **state)
{
	static const char line[] = "  bt_info {\"/s/libc.so\" 2a0 \"operator<<(a&, \"b\")\" 10} "
				   "{\"/s/u.so\" 510 \"\" 0}\n";
	char source[512];
	struct mt_heapdump_options o = {.version = 12, .function = name_node};
	mt_auto(mt_records) struct mt_records records = {0};
	mt_auto(mt_buf) struct mt_buf out = {0};
	struct mt_profile *p;

	snprintf(source, sizeof(source), "z 0  sz 400  num 1  bt a2a0 b510\n%s", line);
	p = read_text(source);
	assert_int_equal(mt_records_make(p, &records), 0);
	assert_int_equal(mt_heapdump_write(p, &records, &o, &out, NULL), 0);
	assert_non_null(strstr(mt_buf_text(&out), line));
	mt_profile_free(p);
}

static void module_lines_tell_what_maps_cannot(void **state)
{
	struct mt_profile *p = read_text("z 0  sz 1  num 1  bt 5010\n"
					 "module 4000-9000 bias 3000 id 0aff /opt/a b.so\nMAPS\n"
					 "4000-5000 r--p 00000000 00:00 0 /opt/a b.so\n"
					 "5000-9000 r-xp 00000800 00:00 0 /opt/a b.so\nEND\n");
	const struct mt_profile_module *m = &p->module[p->node[p->site[1].node].module];
	mt_auto(free) char *text = write_text(p, 12);

	assert_int_equal(p->module_count, 2);
	assert_int_equal(m->bias, 0x3000);
	assert_false(m->by_offset);
	assert_int_equal(m->build_id_bytes, 2);
	assert_int_equal(m->build_id[1], 0xff);
	assert_string_equal(m->path, "/opt/a b.so");
	assert_non_null(strstr(text, "\nmodule 4000-9000 bias 3000 id 0aff /opt/a b.so\nMAPS\n"));
	mt_profile_free(p);
}

enum { STACKS = 40, SIZES = 12, SIDES = 2 };

static uint64_t next_random(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return *seed >> 33;
}

/* Stack number `at` as text: 0 to 7 frames; stacks share frames. */
static void add_stack(struct mt_buf *out, unsigned at)
{
	for (unsigned i = 0; i < at % 8; i++)
		mt_buf_printf(out, " %x", 0x1000 + (i < 3 ? at : 7) * 16 + i);
}

static void generated_dumps_come_back_as_they_were(void **state)
{
	static uint64_t num[SIDES][SIZES][STACKS];
	uint64_t seed = 4711, records = 0;
	mt_auto(mt_buf) struct mt_buf text = {0};
	struct mt_profile *p, *again;
	mt_auto(free) char *first = NULL, *second = NULL;

	for (int i = 0; i < 5000; i++) {
		unsigned z = next_random(&seed) % SIDES, stack = next_random(&seed) % STACKS;
		unsigned size = next_random(&seed) % SIZES, n = 1 + next_random(&seed) % 5;

		stack = stack % 8 ? stack : 0; /* all without frames are one */
		num[z][size][stack] += n;
		mt_buf_printf(&text, "z %u  sz %u  num %u  bt", z, size * 100, n);
		add_stack(&text, stack);
		mt_buf_addc(&text, '\n');
	}
	p = read_text(mt_buf_text(&text));
	first = write_text(p, 12);
	for (unsigned z = 0; z < SIDES; z++)
		for (unsigned size = 0; size < SIZES; size++)
			for (unsigned stack = 0; stack < STACKS; stack++) {
				mt_auto(mt_buf) struct mt_buf line = {0};

				if (!num[z][size][stack])
					continue;
				records++;
				mt_buf_printf(&line, "\nz %u  sz %8u  num    %" PRIu64 "  bt", z,
					      size * 100, num[z][size][stack]);
				add_stack(&line, stack);
				mt_buf_addc(&line, '\n');
				if (!strstr(first, mt_buf_text(&line)))
					fail_msg("missing:%s", mt_buf_text(&line));
			}
	mt_buf_truncate(&text, 0);
	mt_buf_printf(&text, "\nAllocation records: %" PRIu64 "\n", records);
	assert_non_null(strstr(first, mt_buf_text(&text)));
	again = read_text(first);
	second = write_text(again, 12);
	assert_string_equal(first, second);
	assert_int_equal(again->warning_count, 1); /* there is no memory map */
	mt_profile_free(p);
	mt_profile_free(again);
}

static void every_failed_allocation_is_survived(void **state)
{
	static const char text[] = HEAD_1_2
		"z 0  sz      300  num    3  bt a010 b\n"
		"  bt_info {\"/m\" 1 \"f\" 1} {\"/n\" 2 \"g\" 2}\nz 1  sz 100  num 1  bt\n"
		"module a000-a100 bias a000 id 12 /m\nMAPS\na000-b000 r-xp 0 00:00 0 /m\nEND\n";
	size_t made;

	mt_alloc_fail_from_for_test(0);
	mt_profile_free(read_text(text));
	made = mt_alloc_fail_from_for_test(0);
	assert_true(made > 10);
	for (size_t n = 1; n <= made; n++) {
		struct mt_profile *p = NULL;
		struct mt_err err = {0};
		int r;

		mt_alloc_fail_from_for_test(n);
		r = mt_heapdump_read_memory(text, sizeof(text) - 1, "x", &p, &err);
		mt_alloc_fail_from_for_test(0);
		if (r)
			assert_int_equal(r, -ENOMEM);
		else
			assert_int_equal(p->live_bytes, 1000);
		mt_profile_free(p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_record_is_parsed_word_by_word),
		cmocka_unit_test(a_frame_of_0_ends_the_stack),
		cmocka_unit_test(damaged_records_are_none),
		cmocka_unit_test(bt_info_holds_names_with_blanks_and_quotes),
		cmocka_unit_test(C164_map_lines_give_start_end_offset_and_name),
		cmocka_unit_test(C164_nameless_maps_are_no_modules),
		cmocka_unit_test(records_without_frames_are_counted),
		cmocka_unit_test(C163_num_is_valid_from_v1_1_on),
		cmocka_unit_test(num_before_v1_1_is_doubted_until_a_record_proves_it),
		cmocka_unit_test(nums_that_are_not_used_are_told),
		cmocka_unit_test(garbage_is_left_out_and_counted),
		cmocka_unit_test(cut_and_wrong_headers_are_told),
		cmocka_unit_test(numbers_that_cannot_be_are_garbage),
		cmocka_unit_test(c123_the_zygote_is_told_apart_when_there_is_an_application),
		cmocka_unit_test(deep_stacks_are_cut_and_told),
		cmocka_unit_test(names_of_bt_info_belong_to_their_frames),
		cmocka_unit_test(what_is_no_dump_is_refused),
		cmocka_unit_test(an_empty_dump_is_a_profile),
		cmocka_unit_test(the_sample_of_v1_0_is_read),
		cmocka_unit_test(the_sample_of_v1_2_is_read),
		cmocka_unit_test(the_sample_with_bt_info_is_read),
		cmocka_unit_test(C111_records_are_summed_and_sorted),
		cmocka_unit_test(C117_the_shape_is_that_of_v1_2),
		cmocka_unit_test(C118_equal_blocks_are_one_record),
		cmocka_unit_test(C119_interleaved_stacks_are_summed),
		cmocka_unit_test(older_versions_pad_addresses),
		cmocka_unit_test(bt_info_survives_writing_and_reading),
		cmocka_unit_test(module_lines_tell_what_maps_cannot),
		cmocka_unit_test(generated_dumps_come_back_as_they_were),
		cmocka_unit_test(every_failed_allocation_is_survived),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
