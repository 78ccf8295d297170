/* SPDX-License-Identifier: MIT */
/* The symbol cache: what goes in comes out; what was not written by it is not taken. */
#include "symbolize/symcache.h"

#include "base/alloc.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { IDENTITY = 77, HASH_AT = 40 };

static const uint8_t id[] = {0xab, 0xcd, 0xef};
static const struct mt_symcache_key key = {
	.build_id = id, .build_id_bytes = 3, .identity = IDENTITY};

static void add(struct mt_symset *s, uint64_t vaddr, uint32_t frames)
{
	assert_int_equal(mt_symset_add_entry(s, vaddr), 0);
	for (uint32_t i = 0; i < frames; i++) {
		char name[32];
		struct mt_symset_frame f = {.line = i + 1, .column = 2, .offset = vaddr * 3};
		snprintf(name, sizeof(name), "f%u", i);
		assert_int_equal(mt_symset_string(s, name, &f.function), 0);
		assert_int_equal(mt_symset_string(s, "file.c", &f.file), 0);
		f.flags = i + 1 < frames ? MT_SYMSET_INLINE : MT_SYMSET_HAS_OFFSET;
		assert_int_equal(mt_symset_add_frame(s, &f), 0);
	}
}

static struct mt_symset example(void)
{
	struct mt_symset s = {0};
	add(&s, 0x3000, 1);
	add(&s, 0x1000, 3);
	add(&s, 0x2000, 0);
	mt_symset_sort(&s);
	return s;
}

static void assert_same(const struct mt_symset *a, const struct mt_symset *b)
{
	assert_int_equal(a->entries, b->entries);
	for (size_t i = 0; i < a->entries; i++) {
		assert_int_equal(a->entry[i].vaddr, b->entry[i].vaddr);
		assert_int_equal(a->entry[i].count, b->entry[i].count);
		for (uint32_t k = 0; k < a->entry[i].count; k++) {
			const struct mt_symset_frame *x = &a->frame[a->entry[i].first + k];
			const struct mt_symset_frame *y = &b->frame[b->entry[i].first + k];
			assert_memory_equal(x, y, sizeof(*x));
			assert_string_equal(mt_strings_get(&a->strings, x->function),
					    mt_strings_get(&b->strings, y->function));
			assert_string_equal(mt_strings_get(&a->strings, x->file),
					    mt_strings_get(&b->strings, y->file));
		}
	}
}

static void encoded_set_is_decoded_to_the_same(void **state)
{
	mt_auto(mt_symset) struct mt_symset s = example(), back = {0};
	mt_auto(mt_buf) struct mt_buf b = {0}, again = {0};
	assert_int_equal(mt_symcache_encode(&s, IDENTITY, &b), 0);
	assert_int_equal(mt_symcache_decode(b.data, b.len, IDENTITY, &back), 0);
	assert_same(&s, &back);
	assert_int_equal(mt_symcache_encode(&back, IDENTITY, &again), 0);
	assert_int_equal(again.len, b.len);
	assert_memory_equal(again.data, b.data, b.len);
}

static void every_changed_or_missing_byte_is_noticed(void **state)
{
	mt_auto(mt_symset) struct mt_symset s = example(), back = {0};
	mt_auto(mt_buf) struct mt_buf b = {0};
	assert_int_equal(mt_symcache_encode(&s, IDENTITY, &b), 0);
	for (size_t i = 0; i < b.len; i++) {
		assert_int_equal(mt_symcache_decode(b.data, i, IDENTITY, &back), -EBADMSG);
		b.data[i] ^= 0x10;
		assert_int_equal(mt_symcache_decode(b.data, b.len, IDENTITY, &back), -EBADMSG);
		assert_int_equal(back.entries, 0);
		b.data[i] ^= 0x10;
	}
	assert_int_equal(mt_symcache_decode(b.data, b.len, IDENTITY + 1, &back), -EBADMSG);
}

static void forge(struct mt_buf *b)
{
	uint64_t hash = mt_hash_bytes(b->data + MT_SYMCACHE_HEADER_BYTES,
				      b->len - MT_SYMCACHE_HEADER_BYTES, IDENTITY);
	memcpy(b->data + HASH_AT, &hash, sizeof(hash));
}

/* With a right hash the contents are still checked. */
static void forged_contents_are_refused(void **state)
{
	enum { ENTRY = 48, FRAME = ENTRY + 3 * 16, STRINGS = FRAME + 4 * 32 };
	static const struct {
		size_t at;
		uint8_t value;
	} change[] = {
		{ENTRY + 1, 0x40},  /* first address above the second */
		{ENTRY + 8, 200},   /* more frames than there are */
		{ENTRY + 8, 2},     /* fewer frames: some are left */
		{FRAME, 99},        /* string number of a function */
		{FRAME + 11, 0x80}, /* of a file */
		{FRAME + 20, 0xff}, /* flags */
		{STRINGS, 0},       /* empty string */
		{STRINGS + 2, 'x'}, /* NUL gone */
		{24, 2},
		{28, 9}, /* counts in the header */
		{32, 3},
		{32, 5}, /* number of strings */
		{8, 2},
		{12, 40}, /* version, header bytes */
	};
	mt_auto(mt_symset) struct mt_symset s = example();
	mt_auto(mt_buf) struct mt_buf b = {0};
	assert_int_equal(mt_symcache_encode(&s, IDENTITY, &b), 0);
	assert_string_equal(b.data + STRINGS, "f0");
	for (size_t i = 0; i < MT_ARRAY_LEN(change); i++) {
		mt_auto(mt_symset) struct mt_symset back = {0};
		char kept = b.data[change[i].at];
		b.data[change[i].at] = (char)change[i].value;
		forge(&b);
		if (mt_symcache_decode(b.data, b.len, IDENTITY, &back) != -EBADMSG)
			fail_msg("change %zu was not noticed", i);
		b.data[change[i].at] = kept;
	}
}

static void merge_keeps_what_was_there(void **state)
{
	mt_auto(mt_symset) struct mt_symset s = example(), more = {0};
	add(&more, 0x1000, 1); /* known already, with three frames */
	add(&more, 0x1800, 2);
	mt_symset_sort(&more);
	assert_int_equal(mt_symset_merge(&s, &more), 0);
	assert_int_equal(s.entries, 4);
	assert_int_equal(mt_symset_find(&s, 0x1000)->count, 3);
	const struct mt_symset_entry *e = mt_symset_find(&s, 0x1800);
	assert_int_equal(e->count, 2);
	assert_string_equal(mt_strings_get(&s.strings, s.frame[e->first + 1].function), "f1");
	assert_null(mt_symset_find(&s, 0x1801));
}

/* ---- in a directory ---- */

static char *make_dir(void)
{
	char *dir = strdup("/tmp/mt-symcache-XXXXXX");
	if (!dir || !mkdtemp(dir))
		abort();
	return dir;
}

static void remove_dir(char *dir)
{
	mt_symcache_prune(dir, 0);
	assert_int_equal(rmdir(dir), 0); /* and so nothing else is left */
	free(dir);
}

static void stored_set_is_loaded(void **state)
{
	char *dir = make_dir();
	mt_auto(mt_symset) struct mt_symset s = example(), back = {0}, none = {0};
	struct mt_symcache_key other = key;
	other.identity++;
	assert_int_equal(mt_symcache_load(dir, &key, &none), -ENOENT);
	assert_int_equal(mt_symcache_store(dir, &key, &s), 0);
	assert_int_equal(mt_symcache_load(dir, &key, &back), 0);
	assert_same(&s, &back);
	assert_int_equal(mt_symcache_load(dir, &other, &none), -ENOENT);
	remove_dir(dir);
}

static void links_and_other_files_are_not_read(void **state)
{
	char *dir = make_dir(), path[128], target[128];
	mt_auto(mt_symset) struct mt_symset s = example(), none = {0};
	assert_int_equal(mt_symcache_store(dir, &key, &s), 0);
	snprintf(path, sizeof(path), "%s/abcdef-%016x.symbols", dir, IDENTITY);
	snprintf(target, sizeof(target), "%s/elsewhere", dir);
	assert_int_equal(rename(path, target), 0);
	assert_int_equal(symlink(target, path), 0);
	assert_int_equal(mt_symcache_load(dir, &key, &none), -ENOENT);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(mt_symcache_load(dir, &key, &none), -ENOENT);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(unlink(target), 0);
	remove_dir(dir);
}

static void pruning_removes_the_least_recently_used(void **state)
{
	char *dir = make_dir(), path[128];
	mt_auto(mt_symset) struct mt_symset s = example(), back = {0};
	uint64_t bytes = 0;
	for (uint64_t i = 0; i < 4; i++) {
		struct mt_symcache_key k = key;
		struct stat st;
		k.identity = i;
		assert_int_equal(mt_symcache_store(dir, &k, &s), 0);
		snprintf(path, sizeof(path), "%s/abcdef-%016x.symbols", dir, (unsigned)i);
		const struct timespec times[2] = {{.tv_sec = 1000 + i}, {.tv_sec = 1000 + i}};
		assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
		assert_int_equal(stat(path, &st), 0);
		bytes = (uint64_t)st.st_size;
	}
	struct mt_symcache_key oldest = key;
	oldest.identity = 0;
	assert_int_equal(mt_symcache_load(dir, &oldest, &back), 0); /* now the newest */
	mt_symcache_prune(dir, 2 * bytes);
	for (uint64_t i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "%s/abcdef-%016x.symbols", dir, (unsigned)i);
		assert_int_equal(access(path, F_OK) == 0, i == 0 || i == 3);
	}
	remove_dir(dir);
}

static void directory_comes_from_the_environment_and_is_private(void **state)
{
	char *dir = make_dir(), expected[128];
	struct stat st;
	snprintf(expected, sizeof(expected), "%s/memtrack", dir);
	setenv("XDG_CACHE_HOME", dir, 1);
	mt_auto(free) char *path = mt_symcache_dir(NULL);
	assert_non_null(path);
	assert_string_equal(path, expected);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	assert_int_equal(chmod(path, 0770), 0);
	assert_null(mt_symcache_dir(NULL));
	assert_int_equal(rmdir(path), 0);
	setenv("XDG_CACHE_HOME", "relative", 1);
	setenv("HOME", dir, 1);
	snprintf(expected, sizeof(expected), "%s/.cache/memtrack", dir);
	mt_auto(free) char *home = mt_symcache_dir(NULL);
	assert_string_equal(home, expected);
	char gone[256];

	snprintf(gone, sizeof(gone), "%s/no-such-home", dir);
	setenv("HOME", gone, 1);
	assert_null(mt_symcache_dir(NULL));
	assert_int_equal(access(gone, F_OK), -1);
	unsetenv("XDG_CACHE_HOME");
	unsetenv("HOME");
	assert_null(mt_symcache_dir(NULL));
	assert_int_equal(rmdir(home), 0);
	*strrchr(home, '/') = '\0';
	assert_int_equal(rmdir(home), 0);
	remove_dir(dir);
}

static void every_failed_allocation_is_reported(void **state)
{
	mt_auto(mt_symset) struct mt_symset s = example();
	mt_auto(mt_buf) struct mt_buf b = {0};
	assert_int_equal(mt_symcache_encode(&s, IDENTITY, &b), 0);
	for (size_t n = 1;; n++) {
		mt_auto(mt_symset) struct mt_symset back = {0};
		mt_alloc_fail_from_for_test(n);
		int r = mt_symcache_decode(b.data, b.len, IDENTITY, &back);
		mt_alloc_fail_from_for_test(0);
		if (!r) {
			assert_true(n > 3);
			assert_same(&s, &back);
			break;
		}
		assert_int_equal(r, -ENOMEM);
		assert_int_equal(back.entries, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(encoded_set_is_decoded_to_the_same),
		cmocka_unit_test(every_changed_or_missing_byte_is_noticed),
		cmocka_unit_test(forged_contents_are_refused),
		cmocka_unit_test(merge_keeps_what_was_there),
		cmocka_unit_test(stored_set_is_loaded),
		cmocka_unit_test(links_and_other_files_are_not_read),
		cmocka_unit_test(pruning_removes_the_least_recently_used),
		cmocka_unit_test(directory_comes_from_the_environment_and_is_private),
		cmocka_unit_test(every_failed_allocation_is_reported),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
