/* SPDX-License-Identifier: MIT */
/* The parser of check mode's options against every case of Android's parser (C001-C046), and our
 * own words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cc.h"
#include "wire/check_options.h"

#define USAGE \
	"For malloc debug option descriptions go to:\n" \
	"  https://android.googlesource.com/platform/bionic/+/main/libc/malloc_debug/README.md\n"
#define RANGE "Numerical result out of range"

static struct mt_check_options o;
static char said[8192];

static void say(void *context, const char *line)
{
	size_t n = strlen(said);
	assert_ptr_equal(context, said);
	snprintf(said + n, sizeof(said) - n, "%s\n", line);
}

static int read_options(const char *text)
{
	const struct mt_check_listener to = {"./prog", RANGE, say, said};
	memset(&o, 0xee, sizeof(o));
	said[0] = 0;
	return mt_check_options_read(text, &to, &o);
}

/* Understood, nothing is said. */
static void takes(const char *text)
{
	int err = read_options(text);
	assert_string_equal(said, "");
	assert_int_equal(err, 0);
}

/* Refused, with this sentence and the two lines behind it. */
static void refuses(const char *text, const char *sentence)
{
	char wanted[sizeof(said)];
	int err = read_options(text);
	snprintf(wanted, sizeof(wanted), "./prog: %s\n%s", sentence, USAGE);
	assert_string_equal(said, wanted);
	assert_int_equal(err, -22);
}

enum { GUARDS = MT_CHECK_FRONT_GUARD | MT_CHECK_REAR_GUARD };

static void c001_blanks_are_no_options(void **state)
{
	takes("   ");
	assert_int_equal(o.flags, 0);
	takes(" \t\n\v\f\r");
	assert_int_equal(o.flags, 0);
	assert_int_equal(o.frames, 16);
	assert_int_equal(o.free_frames, 0);
	assert_true(o.backtrace_min == 0 && o.backtrace_max == UINT64_MAX);
	assert_true(o.fill_on_alloc == 0 && o.fill_on_free == 0);
	assert_true(o.only_min == 0 && o.only_max == UINT64_MAX);
	assert_string_equal(o.record_file, "");
	assert_string_equal(o.dump_prefix, "");
}

static void c002_to_c004_unknown_names(void **state)
{
	refuses("backtrace unknown_option", "unknown option unknown_option");
	refuses("backtrace,leak_track", "unknown option backtrace,leak_track");
	refuses("=10", "unknown option ");
	refuses("Backtrace", "unknown option Backtrace");
	refuses("back", "unknown option back");
	refuses("backtraces", "unknown option backtraces");
}

static void c005_to_c008_values_that_are_none(void **state)
{
	refuses("backtrace=10front_guard",
		"bad value for option 'backtrace', non space found after "
		"option: front_guard");
	refuses("backtrace=0x10",
		"bad value for option 'backtrace', non space found after option: x10");
	refuses("backtrace=99999999999999999999", "bad value for option 'backtrace': " RANGE);
	refuses("backtrace=9223372036854775808", "bad value for option 'backtrace': " RANGE);
	refuses("backtrace=99999999999999999999x", "bad value for option 'backtrace': " RANGE);
	refuses("backtrace=-99999999999999999999", "bad value for option 'backtrace': " RANGE);
	refuses("backtrace=-9223372036854775809", "bad value for option 'backtrace': " RANGE);
	refuses("leak_track=12", "value set for option 'leak_track' which does not take a value");
	refuses("backtrace=abc", "bad value for option 'backtrace'");
	refuses("backtrace=-", "bad value for option 'backtrace'");
	refuses("backtrace=+", "bad value for option 'backtrace'");
	refuses("backtrace=--5", "bad value for option 'backtrace'");
}

static void negative_values_are_told(void **state)
{
	refuses("backtrace=-12", "bad value for option 'backtrace', value cannot be negative: -12");
	refuses("backtrace=-9223372036854775808",
		"bad value for option 'backtrace', value cannot be negative: -9223372036854775808");
	refuses("backtrace=-12x",
		"bad value for option 'backtrace', non space found after option: x");
}

static void c009_to_c013_blanks_around_values(void **state)
{
	takes("backtrace=  10");
	assert_int_equal(o.frames, 10);
	assert_int_equal(o.flags, MT_CHECK_BACKTRACE | MT_CHECK_TRACK);
	takes("backtrace  =10");
	assert_int_equal(o.frames, 10);
	takes("   backtrace=64   ");
	assert_int_equal(o.frames, 64);
	takes("backtrace=");
	assert_int_equal(o.frames, 16);
	assert_int_equal(o.flags, MT_CHECK_BACKTRACE | MT_CHECK_TRACK);
	refuses("backtrace= leak_track", "bad value for option 'backtrace'");
	takes("backtrace=010");
	assert_int_equal(o.frames, 10);
	takes("backtrace=+5");
	assert_int_equal(o.frames, 5);
}

static void c014_to_c016_bounds_of_frames(void **state)
{
	refuses("backtrace=-0", "bad value for option 'backtrace', value must be >= 1: 0");
	refuses("backtrace=300", "bad value for option 'backtrace', value must be <= 256: 300");
	takes("backtrace=256");
	assert_int_equal(o.frames, 256);
	takes("backtrace=1");
	assert_int_equal(o.frames, 1);
}

static void c017_any_blank_separates(void **state)
{
	takes("backtrace\t\nleak_track");
	assert_int_equal(o.flags, MT_CHECK_BACKTRACE | MT_CHECK_LEAK_TRACK | MT_CHECK_TRACK);
}

static void c018_to_c024_guards(void **state)
{
	takes("front_guard=48");
	assert_int_equal(o.front_guard, 48);
	assert_int_equal(o.rear_guard, 0);
	assert_int_equal(o.flags, MT_CHECK_FRONT_GUARD | MT_CHECK_TRACK);
	takes("front_guard");
	assert_int_equal(o.front_guard, 32);
	takes("front_guard=39");
	assert_int_equal(o.front_guard, 48);
	takes("front_guard=41");
	assert_int_equal(o.front_guard, 48);
	takes("rear_guard=50");
	assert_int_equal(o.rear_guard, 50);
	assert_int_equal(o.front_guard, 0);
	assert_int_equal(o.flags, MT_CHECK_REAR_GUARD | MT_CHECK_TRACK);
	takes("rear_guard");
	assert_int_equal(o.rear_guard, 32);
	takes("guard=10");
	assert_int_equal(o.front_guard, 16);
	assert_int_equal(o.rear_guard, 10);
	assert_int_equal(o.flags, GUARDS | MT_CHECK_TRACK);
	takes("guard");
	assert_true(o.front_guard == 32 && o.rear_guard == 32);
	takes("guard=32");
	assert_true(o.front_guard == 32 && o.rear_guard == 32);
	takes("guard=16384");
	assert_true(o.front_guard == 16384 && o.rear_guard == 16384);
	refuses("guard=20000", "bad value for option 'guard', value must be <= 16384: 20000");
	refuses("rear_guard=20000",
		"bad value for option 'rear_guard', value must be <= 16384: 20000");
	takes("guard=10 front_guard=64");
	assert_int_equal(o.front_guard, 64);
	assert_int_equal(o.rear_guard, 10);
}

static void c025_to_c027_fills(void **state)
{
	takes("fill=64");
	assert_true(o.fill_on_alloc == 64 && o.fill_on_free == 64);
	assert_int_equal(o.flags, MT_CHECK_FILL_ON_ALLOC | MT_CHECK_FILL_ON_FREE);
	takes("fill");
	assert_true(o.fill_on_alloc == UINT64_MAX && o.fill_on_free == UINT64_MAX);
	refuses("fill=0", "bad value for option 'fill', value must be >= 1: 0");
	refuses("fill_on_alloc=0", "bad value for option 'fill_on_alloc', value must be >= 1: 0");
	refuses("fill_on_free=0", "bad value for option 'fill_on_free', value must be >= 1: 0");
	takes("fill=64 fill_on_free");
	assert_true(o.fill_on_alloc == 64 && o.fill_on_free == UINT64_MAX);
	takes("fill_on_alloc=5");
	assert_int_equal(o.flags, MT_CHECK_FILL_ON_ALLOC);
	assert_true(o.fill_on_alloc == 5 && o.fill_on_free == 0);
}

static void c028_c029_expansion(void **state)
{
	takes("expand_alloc");
	assert_int_equal(o.expand, 16);
	assert_int_equal(o.flags, MT_CHECK_EXPAND_ALLOC);
	takes("expand_alloc=1234");
	assert_int_equal(o.expand, 1234);
	refuses("expand_alloc=0", "bad value for option 'expand_alloc', value must be >= 1: 0");
	refuses("expand_alloc=21000",
		"bad value for option 'expand_alloc', value must be <= 16384: 21000");
}

static void c030_to_c034_freed_blocks(void **state)
{
	refuses("free_track=0", "bad value for option 'free_track', value must be >= 1: 0");
	refuses("free_track=21000",
		"bad value for option 'free_track', value must be <= 16384: 21000");
	takes("free_track");
	assert_int_equal(o.free_track, 100);
	assert_int_equal(o.free_frames, 16);
	assert_true(o.fill_on_free == UINT64_MAX);
	assert_int_equal(o.flags, MT_CHECK_FREE_TRACK | MT_CHECK_FILL_ON_FREE | MT_CHECK_TRACK);
	takes("free_track free_track_backtrace_num_frames=0");
	assert_int_equal(o.free_frames, 0);
	takes("free_track_backtrace_num_frames=0 free_track"); /* order matters */
	assert_int_equal(o.free_frames, 16);
	takes("free_track_backtrace_num_frames=123 free_track");
	assert_int_equal(o.free_frames, 123);
	takes("free_track_backtrace_num_frames=123");
	assert_int_equal(o.free_frames, 123);
	assert_int_equal(o.flags, 0);
	takes("free_track_backtrace_num_frames");
	assert_int_equal(o.free_frames, 16);
	takes("free_track fill_on_free=32");
	assert_true(o.fill_on_free == 32);
	takes("fill_on_free=32 free_track");
	assert_true(o.fill_on_free == 32);
}

static void c035_to_c037_records(void **state)
{
	takes("record_allocs");
	assert_int_equal(o.record_entries, 8000000);
	assert_int_equal(o.flags, MT_CHECK_RECORD_ALLOCS);
	assert_string_equal(o.record_file, "");
	takes("record_allocs=1234");
	assert_int_equal(o.record_entries, 1234);
	refuses("record_allocs=0", "bad value for option 'record_allocs', value must be >= 1: 0");
	refuses("record_allocs=100000000",
		"bad value for option 'record_allocs', value must be <= 50000000: 100000000");
	takes("record_allocs_file=/x record_allocs=5");
	assert_string_equal(o.record_file, "/x");
	takes("record_allocs_file=/x record_allocs_file");
	assert_string_equal(o.record_file, "");
	takes("record_allocs_on_exit");
	assert_int_equal(o.flags, MT_CHECK_RECORD_ON_EXIT);
}

static void c038_words_that_take_no_value(void **state)
{
	static const char *const names[] = {
		"backtrace_full",
		"verify_pointers",
		"abort_on_error",
		"verbose",
		"leak_track",
		"backtrace_dump_on_exit",
		"record_allocs_on_exit",
		"check_unreachable_on_signal",
		"log_allocator_stats_on_signal",
		"log_allocator_stats_on_exit",
		"check_heap_on_signal",
	};
	for (size_t i = 0; i < MT_ARRAY_LEN(names); i++) {
		char text[64], wanted[128];
		snprintf(text, sizeof(text), "%s=200", names[i]);
		snprintf(wanted, sizeof(wanted),
			 "value set for option '%s' which does not take a value", names[i]);
		refuses(text, wanted);
		snprintf(text, sizeof(text), "%s=", names[i]);
		takes(text);
		assert_int_not_equal(o.flags, 0);
	}
	takes("verify_pointers");
	assert_int_equal(o.flags, MT_CHECK_TRACK);
}

static void c039_to_c042_sizes_with_stacks(void **state)
{
	takes("backtrace_max_size=13");
	assert_true(o.backtrace_min == 0 && o.backtrace_max == 13);
	assert_int_equal(o.flags, 0);
	takes("backtrace_min_size=9");
	assert_true(o.backtrace_min == 9 && o.backtrace_max == UINT64_MAX);
	takes("backtrace_size=100 backtrace_min_size=50");
	assert_true(o.backtrace_min == 50 && o.backtrace_max == 100);
	takes("bt_sz=39");
	assert_true(o.backtrace_min == 39 && o.backtrace_max == 39);
	takes("bt_min_sz=11");
	assert_true(o.backtrace_min == 11 && o.backtrace_max == UINT64_MAX);
	takes("bt_max_sz=15");
	assert_true(o.backtrace_min == 0 && o.backtrace_max == 15);
	refuses("bt=0", "bad value for option 'bt', value must be >= 1: 0");
	refuses("backtrace_size", "bad value for option 'backtrace_size'");
	refuses("bt_sz=", "bad value for option 'bt_sz'");
	refuses("bt_min_sz=0", "bad value for option 'bt_min_sz', value must be >= 1: 0");
	takes("backtrace_size=9223372036854775807");
	assert_true(o.backtrace_max == INT64_MAX);
}

static void c043_one_number_of_frames(void **state)
{
	takes("backtrace=8 backtrace_enable_on_signal=20");
	assert_int_equal(o.frames, 20);
	assert_int_equal(o.flags,
			 MT_CHECK_BACKTRACE | MT_CHECK_BACKTRACE_ON_SIGNAL | MT_CHECK_TRACK);
	takes("bt_en_on_sig");
	assert_int_equal(o.frames, 16);
	assert_int_equal(o.flags, MT_CHECK_BACKTRACE_ON_SIGNAL | MT_CHECK_TRACK);
}

static void c044_to_c046_prefix_and_long_form(void **state)
{
	takes("backtrace backtrace_dump_prefix= verbose");
	assert_string_equal(o.dump_prefix, "verbose");
	assert_int_equal(o.flags, MT_CHECK_BACKTRACE | MT_CHECK_TRACK);
	takes("backtrace_dump_prefix");
	assert_string_equal(o.dump_prefix, "");
	assert_int_equal(o.flags, 0);
	takes("bt_dmp_pre=/tmp/x bt_dmp_on_ex");
	assert_string_equal(o.dump_prefix, "/tmp/x");
	assert_int_equal(o.flags, MT_CHECK_BACKTRACE_DUMP_ON_EXIT);
	takes("backtrace_full");
	assert_int_equal(o.flags, MT_CHECK_BACKTRACE_FULL);
	takes("bt_full");
	assert_int_equal(o.flags, MT_CHECK_BACKTRACE_FULL);
}

static void flags_of_the_rest(void **state)
{
	takes("abort_on_error verbose check_unreachable_on_signal");
	assert_int_equal(o.flags, MT_CHECK_ABORT_ON_ERROR | MT_CHECK_VERBOSE |
					  MT_CHECK_UNREACHABLE_ON_SIGNAL);
	takes("log_allocator_stats_on_signal log_allocator_stats_on_exit");
	assert_int_equal(o.flags, MT_CHECK_STATS_ON_SIGNAL | MT_CHECK_STATS_ON_EXIT);
}

static void the_first_error_is_the_only_one(void **state)
{
	refuses("bt=0 nonsense fill=0", "bad value for option 'bt', value must be >= 1: 0");
}

static void paths_have_a_bound(void **state)
{
	char text[1024], name[MT_CHECK_PATH_MAX + 1];
	memset(name, 'n', sizeof(name));
	name[MT_CHECK_PATH_MAX - 1] = 0;
	snprintf(text, sizeof(text), "record_allocs_file=%s", name);
	takes(text);
	assert_string_equal(o.record_file, name);
	name[MT_CHECK_PATH_MAX - 1] = 'n';
	name[MT_CHECK_PATH_MAX] = 0;
	snprintf(text, sizeof(text), "record_allocs_file=%s", name);
	refuses(text, "bad value for option 'record_allocs_file', value must be shorter than 512: "
		      "512");
}

static void a_long_name_is_cut(void **state)
{
	char *text = malloc(100001);
	assert_non_null(text);
	memset(text, 'x', 100000);
	text[100000] = 0;
	assert_int_equal(read_options(text), -22);
	assert_true(!strncmp(said, "./prog: unknown option xxx", 26));
	assert_true(strchr(said, '\n') - said < 1024);
	free(text);
}

static void own_words(void **state)
{
	takes("guard_page");
	assert_int_equal(o.guard_page, 1);
	assert_int_equal(o.flags, MT_CHECK_GUARD_PAGE | MT_CHECK_TRACK);
	takes("guard_page=7");
	assert_int_equal(o.guard_page, 7);
	refuses("guard_page=0", "bad value for option 'guard_page', value must be >= 1: 0");
	takes("check_heap_every=1000 check_heap_on_signal");
	assert_int_equal(o.heap_every, 1000);
	assert_int_equal(o.flags, MT_CHECK_HEAP_ON_SIGNAL);
	refuses("check_heap_every", "bad value for option 'check_heap_every'");
	refuses("check_heap_every=4294967296",
		"bad value for option 'check_heap_every', value must be <= 4294967295: 4294967296");
}

static void own_words_with_sizes(void **state)
{
	takes("free_track_bytes=3K only_min_size=2M only_max_size=1G");
	assert_true(o.free_track_bytes == 3072);
	assert_true(o.only_min == 2 << 20 && o.only_max == 1 << 30);
	takes("free_track_bytes=77");
	assert_true(o.free_track_bytes == 77);
	refuses("free_track_bytes=3T",
		"bad value for option 'free_track_bytes', non space found after option: T");
	refuses("free_track_bytes=3KB",
		"bad value for option 'free_track_bytes', non space found after option: KB");
	refuses("free_track_bytes=K", "bad value for option 'free_track_bytes'");
	refuses("free_track_bytes", "bad value for option 'free_track_bytes'");
	refuses("free_track_bytes=9223372036854775807G",
		"bad value for option 'free_track_bytes': " RANGE);
	refuses("backtrace=3K",
		"bad value for option 'backtrace', non space found after option: K");
}

static void own_words_with_globs(void **state)
{
	takes("only_modules=+libfoo*,-libfoo_test*");
	assert_string_equal(o.only_modules, "+libfoo*,-libfoo_test*");
#define NO_GLOBS "bad value for option 'only_modules', not +GLOB and -GLOB separated by commas: "
	refuses("only_modules=libfoo", NO_GLOBS "libfoo");
	refuses("only_modules=+a,b", NO_GLOBS "+a,b");
	refuses("only_modules=+", NO_GLOBS "+");
	refuses("only_modules=+a,", NO_GLOBS "+a,");
	refuses("only_modules", NO_GLOBS);
}

static void own_words_with_sites(void **state)
{
	takes("only_sites=libfoo.so.1+0x12af,prog+0x1 guard_page_sites=/usr/lib/lib*.so+0xABC");
	assert_string_equal(o.only_sites, "libfoo.so.1+0x12af,prog+0x1");
	assert_string_equal(o.guard_page_sites, "/usr/lib/lib*.so+0xABC");
	assert_int_equal(o.flags, MT_CHECK_GUARD_PAGE | MT_CHECK_TRACK);
	assert_int_equal(o.guard_page, 1);
	takes("guard_page_sites=libstdc++.so.6+0x10 guard_page=9");
	assert_int_equal(o.guard_page, 9);
	takes("only_sites=0x0123456789abcdef,0123456789ABCDEF");
	assert_int_equal(o.flags, 0);
#define NO_SITES \
	"bad value for option 'only_sites', not MODULE+0xOFFSET or callstack hashes separated by " \
	"commas: "
	static const char *const bad[] = {
		"",
		"libfoo",
		"+0x12",
		"libfoo+12",
		"libfoo+0x",
		"libfoo+0x12g",
		"a+0x1,",
		"a+0x1,,b+0x2",
		",a+0x1",
		"123456789",
		"0x123",
		"a+0x12345678901234567",
		"0x0123456789abcdef0",
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char text[128], wanted[256];
		snprintf(text, sizeof(text), "only_sites=%s", bad[i]);
		snprintf(wanted, sizeof(wanted), NO_SITES "%s", bad[i]);
		refuses(text, wanted);
	}
	char text[1100], name[1100];
	memset(name, 'n', sizeof(name));
	snprintf(text, sizeof(text), "only_sites=%.1019s+0x1", name);
	takes(text);
	snprintf(text, sizeof(text), "only_sites=%.1020s+0x1", name);
	refuses(text, "bad value for option 'only_sites', value must be shorter than 1024: 1024");
}

static void the_usual_options_are_some(void **state)
{
	takes(MT_CHECK_USUAL);
	assert_int_equal(o.flags, GUARDS | MT_CHECK_BACKTRACE | MT_CHECK_FREE_TRACK |
					  MT_CHECK_FILL_ON_ALLOC | MT_CHECK_FILL_ON_FREE |
					  MT_CHECK_TRACK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(c001_blanks_are_no_options),
		cmocka_unit_test(c002_to_c004_unknown_names),
		cmocka_unit_test(c005_to_c008_values_that_are_none),
		cmocka_unit_test(negative_values_are_told),
		cmocka_unit_test(c009_to_c013_blanks_around_values),
		cmocka_unit_test(c014_to_c016_bounds_of_frames),
		cmocka_unit_test(c017_any_blank_separates),
		cmocka_unit_test(c018_to_c024_guards),
		cmocka_unit_test(c025_to_c027_fills),
		cmocka_unit_test(c028_c029_expansion),
		cmocka_unit_test(c030_to_c034_freed_blocks),
		cmocka_unit_test(c035_to_c037_records),
		cmocka_unit_test(c038_words_that_take_no_value),
		cmocka_unit_test(c039_to_c042_sizes_with_stacks),
		cmocka_unit_test(c043_one_number_of_frames),
		cmocka_unit_test(c044_to_c046_prefix_and_long_form),
		cmocka_unit_test(flags_of_the_rest),
		cmocka_unit_test(the_first_error_is_the_only_one),
		cmocka_unit_test(paths_have_a_bound),
		cmocka_unit_test(a_long_name_is_cut),
		cmocka_unit_test(own_words),
		cmocka_unit_test(own_words_with_sizes),
		cmocka_unit_test(own_words_with_globs),
		cmocka_unit_test(own_words_with_sites),
		cmocka_unit_test(the_usual_options_are_some),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
