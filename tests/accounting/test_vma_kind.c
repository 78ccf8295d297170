/* SPDX-License-Identifier: MIT */
/* Categories of mappings, their sums, and the summary. Cxxx: cases of the malloc-debug behaviour.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "target/account.h"
#include "wire/state.h"

struct fixture {
	struct mt_smaps s;
	struct mt_vma_label *label;
	struct mt_vma_facts facts;
};

static void make(struct fixture *f, const char *text)
{
	struct mt_err err = {0};
	char *copy = strdup(text);

	assert_non_null(copy);
	assert_int_equal(mt_smaps_parse(copy, strlen(copy), "x", &f->s, &err), 0);
	assert_int_equal(mt_vma_classify(&f->s, &f->facts, &f->label), 0);
}

static void done(struct fixture *f)
{
	free(f->label);
	mt_smaps_done(&f->s);
}

/* A line of maps, and the category and use that are expected of it. */
struct expected {
	const char *line;
	enum mt_vma_kind kind;
	const char *what; /* NULL: any */
};

static void check(const struct expected *e, size_t count, struct mt_vma_facts facts)
{
	struct fixture f = {.facts = facts};
	char text[8192] = "";
	size_t len = 0;

	for (size_t i = 0; i < count; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s\n", e[i].line);
	make(&f, text);
	assert_int_equal(f.s.count, count);
	for (size_t i = 0; i < count; i++) {
		if (f.label[i].kind != e[i].kind ||
		    (e[i].what && strcmp(f.label[i].what, e[i].what)))
			print_message("%s: %s, '%s'\n", e[i].line,
				      mt_vma_kind_name(f.label[i].kind, MT_VMA_LINUX),
				      f.label[i].what);
		assert_int_equal(f.label[i].kind, e[i].kind);
		if (e[i].what)
			assert_string_equal(f.label[i].what, e[i].what);
	}
	done(&f);
}
#define CHECK(list, ...) check(list, MT_ARRAY_LEN(list), (struct mt_vma_facts){__VA_ARGS__})

static void C181_heap_stack_and_a_library_with_its_bss(void **state)
{
	static const struct expected list[] = {
		{"55550000-55571000 rw-p 00000000 00:00 0  [heap]", MT_VMA_NATIVE_HEAP, NULL},
		{"7f0000000000-7f0000010000 rw-p 00020000 08:01 7  /lib/libx.so", MT_VMA_SO, ""},
		{"7f0000010000-7f0000018000 rw-p 00000000 00:00 0", MT_VMA_SO, "bss"},
		{"7f0000018000-7f0000019000 rw-p 00000000 00:00 0", MT_VMA_UNKNOWN, "anonymous"},
		{"7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0  [stack]", MT_VMA_STACK, NULL},
	};
	static const struct expected android[] = {
		{"55550000-55571000 rw-p 00000000 00:00 0  [heap]", MT_VMA_NATIVE_HEAP, NULL},
		{"7f0000000000-7f0000010000 rw-p 00020000 08:01 7  /lib/libx.so", MT_VMA_SO, ""},
		{"7f0000010000-7f0000018000 rw-p 00000000 00:00 0", MT_VMA_SO, "bss"},
		{"7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0  [stack]", MT_VMA_STACK, NULL},
	};

	CHECK(list);
	CHECK(android, .rules = MT_VMA_ANDROID);
}

static void C182_versioned_libraries_and_the_executable_are_code(void **state)
{
	static const struct expected list[] = {
		{"400000-401000 r--p 00000000 08:01 5  /usr/bin/prog", MT_VMA_PROGRAM, ""},
		{"401000-402000 r-xp 00001000 08:01 5  /usr/bin/prog", MT_VMA_PROGRAM, ""},
		{"402000-403000 rw-p 00002000 08:01 5  /usr/bin/prog", MT_VMA_PROGRAM, ""},
		{"403000-405000 rw-p 00000000 00:00 0", MT_VMA_PROGRAM, "bss"},
		{"7f0000000000-7f0000010000 r--p 00000000 08:01 7  /usr/lib/libc.so.6", MT_VMA_SO,
		 ""},
		{"7f0000020000-7f0000030000 r-xp 00000000 08:01 8  /usr/lib/libx.so.6.0 (deleted)",
		 MT_VMA_SO, ""},
		{"7f0000040000-7f0000050000 r-xp 00000000 08:01 9  /lib/ld-musl-x86_64.so.1",
		 MT_VMA_SO, ""},
		/* executable, whatever its name */
		{"7f0000060000-7f0000061000 r--p 00000000 08:01 10  /opt/addon.node", MT_VMA_SO,
		 ""},
		{"7f0000061000-7f0000062000 r-xp 00001000 08:01 10  /opt/addon.node", MT_VMA_SO,
		 ""},
		{"7f0000070000-7f0000071000 r--p 00000000 08:01 11  /opt/data.sox",
		 MT_VMA_OTHER_MMAP, ""},
	};
	struct fixture f = {0};

	CHECK(list);
	CHECK(list, .program = "/usr/bin/prog (deleted)");
	make(&f, "7f0000000000-7f0000010000 r--p 00000000 08:01 7  /usr/lib/libc.so.6\n");
	assert_int_equal(f.label[0].group, MT_VMA_GROUP_CODE);
	done(&f);
	f = (struct fixture){.facts = {.rules = MT_VMA_ANDROID}};
	make(&f, "7f0000000000-7f0000010000 r--p 00000000 08:01 7  /usr/lib/libc.so.6\n");
	assert_int_equal(f.label[0].kind, MT_VMA_OTHER_MMAP);
	done(&f);
}

static void what_an_allocator_has_taken_is_native_heap(void **state)
{
	static const struct mt_vma_range taken[] = {
		{0x7f0000010000, 0x7f0000011000}, {0x7f0000020000, 0x7f0000023000},
		{0x7f0000025000, 0x7f0000026000}, {0x7f0000030000, 0x7f0000060000},
		{0x7f0000070000, 0x7f0000071000},
	};
	static const struct expected list[] = {
		{"7f0000000000-7f0000010000 rw-p 00000000 00:00 0", MT_VMA_UNKNOWN, "anonymous"},
		/* one page of 16 */
		{"7f0000010000-7f0000020000 rw-p 00000000 00:00 0", MT_VMA_UNKNOWN, "anonymous"},
		/* four of seven, in two ranges */
		{"7f0000020000-7f0000027000 rw-p 00000000 00:00 0", MT_VMA_NATIVE_HEAP, "jemalloc"},
		/* a range goes over several mappings */
		{"7f0000030000-7f0000040000 rw-p 00000000 00:00 0", MT_VMA_NATIVE_HEAP, "jemalloc"},
		{"7f0000040000-7f0000050000 ---p 00000000 00:00 0", MT_VMA_NATIVE_HEAP, "jemalloc"},
		{"7f0000050000-7f0000080000 rw-p 00000000 00:00 0", MT_VMA_UNKNOWN, "anonymous"},
		{"7f0000080000-7f0000090000 rw-s 00000000 00:01 7  /memfd:x (deleted)",
		 MT_VMA_SHARED, NULL},
	};

	CHECK(list, .heap = taken, .heaps = MT_ARRAY_LEN(taken), .heap_what = "jemalloc");
}

static void java_objects_are_where_the_vm_says(void **state)
{
	static const struct expected list[] = {
		/* merged with something larger: counts as a whole */
		{"c0000000-e0001000 rw-p 00000000 00:00 0", MT_VMA_UNKNOWN, NULL},
		{"e0001000-e5000000 rw-p 00000000 00:00 0", MT_VMA_DALVIK_HEAP, "Java heap"},
		{"e5000000-ffe00000 ---p 00000000 00:00 0", MT_VMA_DALVIK_HEAP, NULL},
		{"ffe00000-100000000 rw-p 00c77000 08:01 9  /jvm/classes.jsa", MT_VMA_DALVIK_HEAP,
		 NULL},
		{"100000000-100001000 rw-p 00000000 00:00 0", MT_VMA_UNKNOWN, NULL},
		{"7f0000000000-7f0000010000 r-xp 00000000 08:01 7  /jvm/libjvm.so", MT_VMA_SO, ""},
	};
	static const struct expected zgc[] = {
		{"40000000000-40004200000 rw-s 00000000 00:01 10  /memfd:java_heap (deleted)",
		 MT_VMA_DALVIK_HEAP, "Java heap, a memory file"},
		{"80000000000-80004200000 rw-s 00000000 00:01 10  /memfd:java_heap (deleted)",
		 MT_VMA_DALVIK_HEAP, NULL},
		{"7f0000000000-7f0000010000 rw-s 00000000 00:01 7  /memfd:java (deleted)",
		 MT_VMA_SHARED, NULL},
	};
	struct fixture f = {0};

	CHECK(list, .java_start = 0xe0000000, .java_end = 0x100000000);
	CHECK(zgc);
	make(&f, "40000000000-40000200000 rw-s 00000000 00:01 10  /memfd:java_heap (deleted)\n"
		 "40000200000-40000400000 rw-s 00200000 00:01 10  /memfd:java_heap (deleted)\n"
		 "80000000000-80000200000 rw-s 00000000 00:01 10  /memfd:java_heap (deleted)\n"
		 "80000200000-80000400000 rw-s 00200000 00:01 10  /memfd:java_heap (deleted)\n");
	assert_int_equal(mt_java_heap_views(&f.s), 2);
	assert_string_equal(mt_vma_kind_name(f.label[0].kind, MT_VMA_LINUX), "Java Heap");
	assert_string_equal(mt_vma_kind_name(f.label[0].kind, MT_VMA_ANDROID), "Dalvik Heap");
	done(&f);
}

static void other_rules_of_desktop_linux(void **state)
{
	static const struct expected list[] = {
		{"1000-2000 rw-s 00000000 00:01 1  /memfd:x (deleted)", MT_VMA_SHARED, ""},
		{"2000-3000 r-xs 00000000 00:01 1  /memfd:doublemapper (deleted)", MT_VMA_JIT,
		 NULL},
		{"3000-4000 rw-s 00000000 00:01 2  /dev/shm/x", MT_VMA_SHARED, ""},
		{"4000-5000 rw-s 00000000 00:01 3  /SYSV00000000 (deleted)", MT_VMA_SHARED, ""},
		{"5000-6000 rw-s 00000000 00:01 4  /dev/zero (deleted)", MT_VMA_SHARED, ""},
		{"6000-7000 rw-s 00000000 00:05 5  /dev/dri/renderD128", MT_VMA_GFX, ""},
		{"7000-8000 rw-s 00000000 00:05 6  /dev/nvidiactl", MT_VMA_GFX, ""},
		{"8000-9000 rw-s 00000000 00:0c 7  anon_inode:[dmabuf]", MT_VMA_GFX, ""},
		{"9000-a000 rw-s 00000000 00:0c 8  /dmabuf:", MT_VMA_GFX, ""},
		{"a000-b000 rw-s 00000000 00:05 9  /dev/mem", MT_VMA_OTHER_DEV, ""},
		{"b000-c000 rw-s 00000000 00:0c 9  anon_inode:[io_uring]", MT_VMA_OTHER_MMAP, ""},
		{"c000-d000 r--p 00000000 08:01 20  /usr/share/fonts/a.ttf", MT_VMA_TTF, ""},
		{"d000-e000 r--p 00000000 08:01 21  /opt/a.jar", MT_VMA_JAR, ""},
		{"e000-f000 r--p 00000000 08:01 22  /usr/lib/locale/locale-archive",
		 MT_VMA_OTHER_MMAP, ""},
		{"10000-11000 rwxp 00000000 00:00 0", MT_VMA_JIT, ""},
		{"20000-21000 ---p 00000000 00:00 0", MT_VMA_UNKNOWN, "inaccessible"},
		{"30000-31000 rw-p 00000000 00:00 0  [anon: glibc: malloc arena]",
		 MT_VMA_NATIVE_HEAP, NULL},
		{"40000-41000 rw-p 00000000 00:00 0  [anon: glibc: pthread stack: 12]",
		 MT_VMA_STACK, NULL},
		{"50000-51000 rw-p 00000000 00:00 0  [anon:of the program]", MT_VMA_UNKNOWN, NULL},
		{"60000-61000 rw-p 00000000 08:01 30  /opt/libmemtrack.so.1", MT_VMA_OVERHEAD,
		 NULL},
		{"61000-62000 rw-p 00000000 00:00 0", MT_VMA_OVERHEAD, "bss"},
		{"70000-71000 rw-s 00000000 00:16 31  /dev/shm/memtrack-0-x/9.mtk", MT_VMA_OVERHEAD,
		 NULL},
		{"80000-81000 rw-p 00000000 08:01 32  /home/u/9.mtk", MT_VMA_OTHER_MMAP, NULL},
		{"7fff0000-7fff4000 r--p 00000000 00:00 0  [vvar]", MT_VMA_KERNEL, ""},
		{"7fff4000-7fff5000 r-xp 00000000 00:00 0  [vdso]", MT_VMA_KERNEL, ""},
		{"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0  [vsyscall]",
		 MT_VMA_KERNEL, ""},
	};

	CHECK(list, .rules = MT_VMA_LINUX);
}

#define GLIBC "7f1000000000-7f1000010000 r-xp 00000000 08:01 7  /usr/lib/libc.so.6"

static void arenas_of_glibc_are_known_by_their_shape(void **state)
{
	static const struct expected list[] = {
		{"7f0004000000-7f0004021000 rw-p 00000000 00:00 0", MT_VMA_NATIVE_HEAP,
		 "glibc arena"},
		{"7f0004021000-7f0008000000 ---p 00000000 00:00 0", MT_VMA_NATIVE_HEAP,
		 "glibc arena, reserved"},
		/* not at a multiple of 64 MiB */
		{"7f0008001000-7f0008021000 rw-p 00000000 00:00 0", MT_VMA_UNKNOWN, NULL},
		{"7f0008021000-7f000c000000 ---p 00000000 00:00 0", MT_VMA_UNKNOWN, NULL},
		/* a tail that is too short */
		{"7f0010000000-7f0010021000 rw-p 00000000 00:00 0", MT_VMA_UNKNOWN, NULL},
		{"7f0010021000-7f0013fff000 ---p 00000000 00:00 0", MT_VMA_UNKNOWN, NULL},
		/* a tail that the guard of a stack was merged with */
		{"7f0020000000-7f0020021000 rw-p 00000000 00:00 0", MT_VMA_NATIVE_HEAP,
		 "glibc arena"},
		{"7f0020021000-7f0024001000 ---p 00000000 00:00 0", MT_VMA_NATIVE_HEAP,
		 "glibc arena, reserved"},
		{GLIBC, MT_VMA_SO, ""},
	};
	static const struct expected without_glibc[] = {
		{"c000000000-c000400000 rw-p 00000000 00:00 0", MT_VMA_UNKNOWN, NULL},
		{"c000400000-c004000000 ---p 00000000 00:00 0", MT_VMA_UNKNOWN, NULL},
	};

	CHECK(list);
	CHECK(without_glibc);
}

static void stacks_of_threads(void **state)
{
	static const uint64_t sp[] = {0x7f0000900000, 0x7f0010001000, 0x55550000};
	static const struct expected list[] = {
		{"55550000-55571000 rw-p 00000000 00:00 0  [heap]", MT_VMA_NATIVE_HEAP, NULL},
		/* a guard and the usual size: also without a stack pointer */
		{"7f0000000000-7f0000001000 ---p 00000000 00:00 0", MT_VMA_UNKNOWN, NULL},
		{"7f0000001000-7f0000801000 rw-p 00000000 00:00 0", MT_VMA_STACK,
		 "stack of a thread, by its size and guard"},
		/* a guard and a stack pointer */
		{"7f00008ff000-7f0000900000 ---p 00000000 00:00 0", MT_VMA_UNKNOWN, NULL},
		{"7f0000900000-7f0000920000 rw-p 00000000 00:00 0", MT_VMA_STACK,
		 "stack of a thread"},
		/* a stack pointer deep in a large mapping without a guard: a coroutine's */
		{"7f0010000000-7f0014000000 rw-p 00000000 00:00 0", MT_VMA_UNKNOWN, NULL},
	};

	CHECK(list, .sp = sp, .sp_count = MT_ARRAY_LEN(sp));
}

/* ---- with a process to read ---- */

struct memory {
	struct {
		uint64_t address;
		const void *bytes;
		size_t len;
	} part[8];
};

static size_t read_part(void *context, uint64_t address, void *to, size_t bytes)
{
	const struct memory *m = context;

	for (size_t i = 0; i < MT_ARRAY_LEN(m->part); i++) {
		uint64_t at = address - m->part[i].address;

		if (m->part[i].bytes && address >= m->part[i].address && at < m->part[i].len) {
			bytes = MT_MIN(bytes, m->part[i].len - at);
			memcpy(to, (const char *)m->part[i].bytes + at, bytes);
			return bytes;
		}
	}
	return 0;
}

static void headers_of_glibc_decide_where_they_can_be_read(void **state)
{
	/* has grown since the text was made */
	static const uint64_t arena[4] = {0x7f0004000030, 0, 0x31000, 0x31000};
	static const uint64_t chunk[2] = {0, 0x31002}, next[2] = {0, 0x20002};
	static const uint64_t wrong[2] = {0, 0x31001};
	struct memory m = {{{0x7f0004000000, arena, sizeof(arena)},
			    {0x7f0030000000, chunk, sizeof(chunk)},
			    {0x7f0030031000, next, sizeof(next)},
			    {0x7f0040000000, wrong, sizeof(wrong)}}};
	static const char rss[] = "Rss: 4 kB\n";
	char text[2048];
	struct fixture f = {.facts = {.read = read_part, .context = &m}};

	snprintf(text, sizeof(text),
		 "7f0004000000-7f0004021000 rw-p 00000000 00:00 0\n%s"
		 "7f0004021000-7f0008000000 ---p 00000000 00:00 0\n%s"
		 "7f0014000000-7f0014021000 rw-p 00000000 00:00 0\n%s" /* nothing to be read */
		 "7f0014021000-7f0018000000 ---p 00000000 00:00 0\n%s"
		 "7f0030000000-7f0030051000 rw-p 00000000 00:00 0\n%s" /* two blocks, merged */
		 "7f0040000000-7f0040031000 rw-p 00000000 00:00 0\n%s" GLIBC "\n%s",
		 rss, rss, rss, rss, rss, rss, rss);
	make(&f, text);
	assert_string_equal(f.label[0].what, "glibc arena");
	assert_string_equal(f.label[1].what, "glibc arena, reserved");
	assert_int_equal(f.label[2].kind, MT_VMA_UNKNOWN);
	assert_int_equal(f.label[3].kind, MT_VMA_UNKNOWN);
	assert_string_equal(f.label[4].what, "glibc, large blocks");
	assert_int_equal(f.label[5].kind, MT_VMA_UNKNOWN);
	done(&f);
}

static void the_tables_of_the_tracker_are_overhead(void **state)
{
	static const char text[] =
		"7f0000000000-7f0200000000 rw-p 00000000 00:00 0\nRss: 4 kB\nVmFlags: rd nr dd\n"
		"7f0200000000-7f0300000000 rw-p 00000000 00:00 0\nRss: 4 kB\nVmFlags: rd wr nr\n"
		"7f1000000000-7f1100000000 rw-s 00000000 00:16 3  /dev/shm/memtrack-0-x/1.2.mtk\n";
	struct mt_state_header h = {.arena_address = 0x7f0200000000, .arena_bytes = 1ull << 32};
	struct memory m = {{{0x7f1000000000, &h, sizeof(h)}}};
	struct fixture f = {0};

	memcpy(h.magic, MT_STATE_MAGIC, sizeof(h.magic));
	make(&f, text);
	assert_int_equal(f.label[0].kind, MT_VMA_OVERHEAD);
	assert_int_equal(f.label[1].kind, MT_VMA_UNKNOWN);
	done(&f);
	f.facts = (struct mt_vma_facts){.read = read_part, .context = &m};
	make(&f, text); /* the header says where, whatever the flags */
	assert_int_equal(f.label[0].kind, MT_VMA_UNKNOWN);
	assert_int_equal(f.label[1].kind, MT_VMA_OVERHEAD);
	assert_string_equal(f.label[1].what, "the tracker's tables");
	done(&f);
	h.magic[0]++;
	make(&f, text);
	assert_int_equal(f.label[0].kind, MT_VMA_OVERHEAD);
	done(&f);
}

static void system_calls_tell_stack_pointers(void **state)
{
	uint64_t sp = 0;

	assert_int_equal(mt_vma_parse_syscall(
				 "202 0x7f1 0x189 0x0 0x0 0x0 0xffffffff 0x7ffd10 0x7f2\n", &sp),
			 0);
	assert_int_equal(sp, 0x7ffd10);
	assert_int_equal(mt_vma_parse_syscall("-1 0x7ffd20 0x7f2\n", &sp), 0);
	assert_int_equal(sp, 0x7ffd20);
	assert_int_equal(mt_vma_parse_syscall("running\n", &sp), -ENODATA);
	assert_int_equal(mt_vma_parse_syscall("", &sp), -ENODATA);
	assert_int_equal(mt_vma_parse_syscall("1 2 3 x", &sp), -ENODATA);
	assert_int_equal(mt_vma_parse_syscall("1 2 0xfffffffffffffffffffff", &sp), -ENODATA);
}

/* ---- Android's table ---- */

static void android_has_its_own_table(void **state)
{
	static const struct expected list[] = {
		{"1000-2000 rw-p 0 0:0 0  [anon:libc_malloc]", MT_VMA_NATIVE_HEAP, ""},
		{"2000-3000 rw-p 0 0:0 0  [anon:scudo:primary]", MT_VMA_NATIVE_HEAP, ""},
		{"3000-4000 rw-p 0 0:0 0  [anon:GWP-ASan Guard Page]", MT_VMA_NATIVE_HEAP, ""},
		{"4000-5000 rw-p 0 0:0 0  [anon:stack_and_tls:123]", MT_VMA_STACK, ""},
		{"5000-6000 r--p 0 fd:0 1  /system/framework/x.jar", MT_VMA_JAR, ""},
		{"6000-7000 r--p 0 fd:0 1  /data/app/base.apk", MT_VMA_APK, ""},
		{"7000-8000 r--p 0 fd:0 1  /system/fonts/R.ttf", MT_VMA_TTF, ""},
		{"8000-9000 r--p 0 fd:0 1  /data/app/base.odex", MT_VMA_DEX, "App dex"},
		{"9000-a000 r--p 0 0:0 0  [anon:dalvik-classes.dex extracted in memory]",
		 MT_VMA_DEX, "App dex"},
		{"a000-b000 r--p 0 fd:0 1  /data/app/base.vdex", MT_VMA_DEX, "App vdex"},
		{"b000-c000 r--p 0 fd:0 1  /system/framework/boot.vdex", MT_VMA_DEX, "Boot vdex"},
		{"c000-d000 r--p 0 fd:0 1  /apex/a/javalib/core.oat", MT_VMA_OAT, ""},
		{"d000-e000 rw-p 0 0:0 0  [anon:dalvik-/system/framework/boot.art]", MT_VMA_ART,
		 "Boot art"},
		{"e000-f000 rw-p 0 fd:0 1  /data/app/base.art (deleted)", MT_VMA_ART, "App art"},
		{"f000-10000 rw-s 0 0:5 1  /dev/kgsl-3d0", MT_VMA_GFX, ""},
		{"10000-11000 rw-s 0 0:5 1  /dev/ashmem/CursorWindow: x (deleted)", MT_VMA_CURSOR,
		 ""},
		{"11000-12000 rw-s 0 0:5 1  /dev/ashmem/jit-zygote-cache", MT_VMA_DALVIK_OTHER,
		 ".ZygoteJIT"},
		{"12000-13000 rw-s 0 0:5 1  /dev/ashmem/x", MT_VMA_SHARED, ""},
		{"13000-14000 rw-s 0 0:5 1  /dev/binder", MT_VMA_OTHER_DEV, ""},
		{"14000-15000 r-xs 0 0:1 1  /memfd:jit-cache (deleted)", MT_VMA_DALVIK_OTHER,
		 ".AppJIT"},
		{"15000-16000 r-xs 0 0:1 1  /memfd:jit-zygote-cache", MT_VMA_DALVIK_OTHER,
		 ".ZygoteJIT"},
		{"16000-17000 rw-p 0 0:0 0  [anon:dalvik-LinearAlloc]", MT_VMA_DALVIK_OTHER,
		 ".LinearAlloc"},
		{"17000-18000 rw-p 0 0:0 0  [anon:dalvik-main space (region space)]",
		 MT_VMA_DALVIK_HEAP, ".Heap"},
		{"18000-19000 rw-p 0 0:0 0  [anon:dalvik-large object space allocation]",
		 MT_VMA_DALVIK_HEAP, ".LOS"},
		{"19000-1a000 rw-p 0 0:0 0  [anon:dalvik-non moving space]", MT_VMA_DALVIK_HEAP,
		 ".NonMoving"},
		{"1a000-1b000 rw-p 0 0:0 0  [anon:dalvik-zygote space]", MT_VMA_DALVIK_HEAP,
		 ".Zygote"},
		{"1b000-1c000 rw-p 0 0:0 0  [anon:dalvik-indirect ref table]", MT_VMA_DALVIK_OTHER,
		 ".IndirectRef"},
		{"1c000-1d000 rw-p 0 0:0 0  [anon:dalvik-data-code-cache]", MT_VMA_DALVIK_OTHER,
		 ".AppJIT"},
		{"1d000-1e000 rw-p 0 0:0 0  [anon:dalvik-CompilerMetadata]", MT_VMA_DALVIK_OTHER,
		 ".CompilerMetadata"},
		{"1e000-1f000 rw-p 0 0:0 0  [anon:dalvik-card table]", MT_VMA_DALVIK_OTHER, ".GC"},
		{"1f000-20000 rw-p 0 0:0 0  [anon:cfi shadow]", MT_VMA_UNKNOWN, ""},
		{"20000-21000 r--p 0 fd:0 1  /system/lib64/libx.so.6", MT_VMA_OTHER_MMAP, ""},
		{"21000-22000 rw-p 0 0:0 0", MT_VMA_UNKNOWN, ""},
	};

	CHECK(list);
}

/* ---- sums ---- */

struct body {
	const char *line;
	unsigned kib[8]; /* Rss, Pss, Shared_Clean, Shared_Dirty, Private_Clean, Private_Dirty,
			    Swap, SwapPss */
};

static void make_bodies(struct fixture *f, const struct body *list, size_t count)
{
	char text[4096] = "";
	size_t len = 0;

	for (size_t i = 0; i < count; i++) {
		const unsigned *k = list[i].kib;

		len += (size_t)snprintf(text + len, sizeof(text) - len,
					"%s\nRss: %u kB\nPss: %u kB\nShared_Clean: %u kB\n"
					"Shared_Dirty: %u kB\nPrivate_Clean: %u kB\n"
					"Private_Dirty: %u kB\nSwap: %u kB\nSwapPss: %u kB\n",
					list[i].line, k[0], k[1], k[2], k[3], k[4], k[5], k[6],
					k[7]);
	}
	make(f, text);
}

static const struct body summed[] = {
	{"400000-500000 r-xp 0 8:1 5  /usr/bin/prog", {100, 40, 60, 0, 30, 10, 0, 0}},
	{"500000-600000 rw-p 0 0:0 0  [heap]", {200, 200, 0, 0, 4, 196, 8, 8}},
	{"600000-700000 rw-p 0 0:0 0", {50, 50, 0, 0, 0, 50, 0, 0}},
	{"700000-800000 rw-s 0 0:1 9  /dev/shm/x", {80, 40, 0, 80, 0, 0, 16, 4}},
	{"7f0000000000-7f0000100000 r-xp 0 8:1 6  /lib/libc.so.6", {300, 30, 300, 0, 0, 0, 0, 0}},
	{"7ffc00000000-7ffc00100000 rw-p 0 0:0 0  [stack]", {20, 20, 0, 0, 8, 12, 0, 0}},
};

static uint64_t sum_of_rows(const struct mt_account *a, enum mt_account_column column)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < a->count; i++)
		sum += mt_account_value(&a->row[i].now, column);
	return sum;
}

static void rows_of_every_kind_add_up_to_the_total(void **state)
{
	struct fixture f = {0};

	make_bodies(&f, summed, MT_ARRAY_LEN(summed));
	for (int by = MT_ACCOUNT_OBJECT; by <= MT_ACCOUNT_KIND; by++) {
		struct mt_account a;

		assert_int_equal(
			mt_account_make(&f.s, f.label, MT_VMA_LINUX, (enum mt_account_by)by, &a),
			0);
		for (int c = 0; c < MT_ACCOUNT_VALUES; c++)
			assert_int_equal(sum_of_rows(&a, (enum mt_account_column)c),
					 mt_account_value(&a.total, (enum mt_account_column)c));
		assert_int_equal(a.total.bytes[MT_SMAPS_RSS], 750 * 1024);
		assert_int_equal(a.total.mappings, 6);
		mt_account_sort(&a, MT_ACCOUNT_RSS);
		for (size_t i = 1; i < a.count; i++)
			assert_true(a.row[i - 1].now.bytes[MT_SMAPS_RSS] >=
				    a.row[i].now.bytes[MT_SMAPS_RSS]);
		mt_account_done(&a);
	}
	done(&f);
}

static void C183_total_pss_has_swap_pss_in_it(void **state)
{
	struct fixture f = {0};
	struct mt_account_app app;

	make_bodies(&f, summed, MT_ARRAY_LEN(summed));
	mt_account_summary(&f.s, f.label, &app);
	assert_true(app.is_swap_pss);
	assert_int_equal(app.total_pss_bytes, (40 + 200 + 50 + 40 + 30 + 20 + 12) * 1024);
	assert_int_equal(app.total_swap_bytes, 12 * 1024);
	assert_int_equal(app.total_rss_bytes, 750 * 1024);
	done(&f);
	make(&f, "400000-500000 r-xp 0 8:1 5  /usr/bin/prog\nRss: 8 kB\nPss: 8 kB\nSwap: 4 kB\n");
	mt_account_summary(&f.s, f.label, &app);
	assert_false(app.is_swap_pss);
	assert_int_equal(app.total_pss_bytes, 8 * 1024);
	assert_int_equal(app.total_swap_bytes, 4 * 1024);
	done(&f);
}

static void C184_the_summary_leaves_nothing_out(void **state)
{
	struct fixture f = {0};
	struct mt_account_app app;
	int64_t sum = 0;
	uint64_t rss = 0;

	make_bodies(&f, summed, MT_ARRAY_LEN(summed));
	mt_account_summary(&f.s, f.label, &app);
	assert_int_equal(app.pss_bytes[MT_ACCOUNT_JAVA], 0);
	assert_int_equal(app.pss_bytes[MT_ACCOUNT_NATIVE], 196 * 1024);
	/* the program, and the unnamed mapping behind the heap is nobody's bss */
	assert_int_equal(app.pss_bytes[MT_ACCOUNT_CODE], 40 * 1024);
	assert_int_equal(app.pss_bytes[MT_ACCOUNT_STACK], 12 * 1024);
	assert_int_equal(app.pss_bytes[MT_ACCOUNT_GRAPHICS], 0);
	/* all private (310) - those (248) */
	assert_int_equal(app.pss_bytes[MT_ACCOUNT_PRIVATE_OTHER], 62 * 1024);
	/* total Pss (392) - all private */
	assert_int_equal(app.pss_bytes[MT_ACCOUNT_SYSTEM], 82 * 1024);
	for (int i = 0; i < MT_ACCOUNT_SUMMARIES; i++) {
		sum += app.pss_bytes[i];
		rss += app.rss_bytes[i];
	}
	assert_int_equal(sum, app.total_pss_bytes);
	assert_int_equal(rss, app.total_rss_bytes);
	assert_int_equal(app.rss_bytes[MT_ACCOUNT_NATIVE], 200 * 1024);
	assert_int_equal(app.rss_bytes[MT_ACCOUNT_CODE], 400 * 1024);
	done(&f);
}

static void the_summary_of_android_has_its_java_heap(void **state)
{
	static const struct body list[] = {
		{"1000-2000 rw-p 0 0:0 0  [anon:dalvik-main space]", {30, 30, 0, 0, 10, 20, 0, 0}},
		{"2000-3000 rw-p 0 0:0 0  [anon:dalvik-/apex/boot.art]",
		 {12, 12, 0, 0, 5, 7, 0, 0}},
		{"3000-4000 r-xs 0 0:1 1  /memfd:jit-cache (deleted)", {9, 9, 0, 0, 4, 5, 0, 0}},
		{"4000-5000 rw-s 0 0:5 1  /dev/kgsl-3d0", {6, 6, 0, 0, 3, 3, 0, 0}},
	};
	struct fixture f = {0};
	struct mt_account_app app;

	make_bodies(&f, list, MT_ARRAY_LEN(list));
	mt_account_summary(&f.s, f.label, &app);
	assert_int_equal(app.pss_bytes[MT_ACCOUNT_JAVA], (20 + 12) * 1024);
	assert_int_equal(app.pss_bytes[MT_ACCOUNT_CODE], 9 * 1024);
	assert_int_equal(app.pss_bytes[MT_ACCOUNT_GRAPHICS], 6 * 1024);
	assert_int_equal(app.pss_bytes[MT_ACCOUNT_PRIVATE_OTHER], 10 * 1024);
	assert_int_equal(app.pss_bytes[MT_ACCOUNT_SYSTEM], 0);
	done(&f);
}

/* ---- growth ---- */

static const struct mt_account_row *row_named(const struct mt_account *a, const char *name)
{
	for (size_t i = 0; i < a->count; i++)
		if (!strcmp(a->row[i].name, name))
			return &a->row[i];
	fail_msg("no row '%s'", name);
	return NULL;
}

static void what_grew_is_new_or_gone_is_known(void **state)
{
	struct fixture before = {0}, after = {0};
	const struct mt_account_row *row;

	make(&before, "1000-3000 rw-p 0 0:0 0  [heap]\nRss: 8 kB\n"
		      "5000-6000 r--p 0 8:1 1  /gone\nRss: 4 kB\n"
		      "f0000-100000 rw-p 0 0:0 0  [stack]\nRss: 4 kB\n");
	make(&after, "1000-9000 rw-p 0 0:0 0  [heap]\nRss: 32 kB\n"
		     "a000-b000 r--p 0 8:1 1  /new\nRss: 4 kB\n"
		     "e0000-100000 rw-p 0 0:0 0  [stack]\nRss: 8 kB\n");
	for (int by = MT_ACCOUNT_OBJECT; by <= MT_ACCOUNT_MAPPING; by++) {
		struct mt_account a, old;

		assert_int_equal(mt_account_make(&after.s, after.label, MT_VMA_LINUX,
						 (enum mt_account_by)by, &a),
				 0);
		assert_int_equal(mt_account_make(&before.s, before.label, MT_VMA_LINUX,
						 (enum mt_account_by)by, &old),
				 0);
		assert_int_equal(mt_account_compare(&a, &old), 0);
		mt_account_done(&old);
		assert_int_equal(a.count, 4);
		assert_int_equal(a.old_total.bytes[MT_SMAPS_RSS], 16 * 1024);
		mt_account_sort(&a, MT_ACCOUNT_RSS);
		assert_string_equal(a.row[0].name, "[heap]");
		assert_string_equal(a.row[3].name, "/gone");
		row = row_named(&a, "[heap]");
		assert_true(row->is_there && row->was_there);
		assert_int_equal(row->old.bytes[MT_SMAPS_RSS], 8 * 1024);
		row = row_named(&a, "/new");
		assert_true(row->is_there && !row->was_there);
		row = row_named(&a, "/gone");
		assert_true(!row->is_there && row->was_there);
		assert_int_equal(row->now.bytes[MT_SMAPS_RSS], 0);
		/* it grew downwards: the same by its end */
		row = row_named(&a, "[stack]");
		assert_int_equal(row->old.bytes[MT_SMAPS_RSS], 4 * 1024);
		mt_account_done(&a);
	}
	done(&before);
	done(&after);
}

static void without_memory_nothing_is_leaked(void **state)
{
	for (size_t nth = 1;; nth++) {
		struct fixture f = {0};
		struct mt_account a = {0}, old = {0};
		int code;

		make_bodies(&f, summed, MT_ARRAY_LEN(summed));
		free(f.label);
		f.label = NULL;
		mt_alloc_fail_from_for_test(nth);
		code = mt_vma_classify(&f.s, &f.facts, &f.label);
		if (!code)
			code = mt_account_make(&f.s, f.label, MT_VMA_LINUX, MT_ACCOUNT_OBJECT, &a);
		if (!code)
			code = mt_account_make(&f.s, f.label, MT_VMA_LINUX, MT_ACCOUNT_OBJECT,
					       &old);
		if (!code)
			code = mt_account_compare(&a, &old);
		mt_alloc_fail_from_for_test(0);
		mt_account_done(&a);
		mt_account_done(&old);
		done(&f);
		if (!code)
			return;
		assert_int_equal(code, -ENOMEM);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(C181_heap_stack_and_a_library_with_its_bss),
		cmocka_unit_test(C182_versioned_libraries_and_the_executable_are_code),
		cmocka_unit_test(what_an_allocator_has_taken_is_native_heap),
		cmocka_unit_test(java_objects_are_where_the_vm_says),
		cmocka_unit_test(other_rules_of_desktop_linux),
		cmocka_unit_test(arenas_of_glibc_are_known_by_their_shape),
		cmocka_unit_test(stacks_of_threads),
		cmocka_unit_test(headers_of_glibc_decide_where_they_can_be_read),
		cmocka_unit_test(the_tables_of_the_tracker_are_overhead),
		cmocka_unit_test(system_calls_tell_stack_pointers),
		cmocka_unit_test(android_has_its_own_table),
		cmocka_unit_test(rows_of_every_kind_add_up_to_the_total),
		cmocka_unit_test(C183_total_pss_has_swap_pss_in_it),
		cmocka_unit_test(C184_the_summary_leaves_nothing_out),
		cmocka_unit_test(the_summary_of_android_has_its_java_heap),
		cmocka_unit_test(what_grew_is_new_or_gone_is_known),
		cmocka_unit_test(without_memory_nothing_is_leaked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
