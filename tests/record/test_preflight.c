/* SPDX-License-Identifier: MIT */
/* What is refused before a program runs, and the sentences that say so. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "record/preflight.h"

static char dir[] = "/tmp/memtrack-test-preflight-XXXXXX";

static int make_dir(void **state)
{
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	return system(command);
}

static const char *make(const char *name, const void *data, size_t len, mode_t mode)
{
	static char path[4][128];
	static unsigned at;
	char *p = path[at++ % 4];

	snprintf(p, sizeof(path[0]), "%s/%s", dir, name);
	assert_int_equal(mt_file_write_atomic(p, data, len, 0600, NULL), 0);
	assert_int_equal(chmod(p, mode), 0);
	return p;
}

static const char *make_text(const char *name, const char *text)
{
	return make(name, text, strlen(text), 0755);
}

static void expect(const char *name, enum mt_preflight_why why, const char *part)
{
	struct mt_err err = {0};
	char *path = NULL;

	assert_int_equal(mt_preflight(name, "/nonexistent:/bin:/usr/bin", &path, &err), why);
	if (why == MT_PREFLIGHT_OK) {
		assert_int_equal(err.code, 0);
		free(path);
		return;
	}
	if (!strstr(err.text, part))
		fail_msg("'%s' is not in '%s'", part, err.text);
}

static void programs_are_found_in_path(void **state)
{
	char *path = NULL;

	assert_int_equal(mt_preflight("sh", "/nonexistent:/bin", &path, NULL), MT_PREFLIGHT_OK);
	assert_string_equal(path, "/bin/sh");
	free(path);
	expect("/bin/sh", MT_PREFLIGHT_OK, NULL);
}

static void missing_programs_are_named(void **state)
{
	expect("no-such-program", MT_PREFLIGHT_NOT_FOUND,
	       "cannot run 'no-such-program': no such program in PATH");
	expect("./no/such", MT_PREFLIGHT_NOT_FOUND, "cannot run './no/such': no such program");
	expect("", MT_PREFLIGHT_NOT_FOUND, "empty program name");
}

static void directories_and_plain_files_are_refused(void **state)
{
	expect("/tmp", MT_PREFLIGHT_NOT_EXECUTABLE, "cannot run '/tmp': it is a directory");
	expect("/dev/null", MT_PREFLIGHT_NOT_EXECUTABLE, "not a regular file");
	expect(make("plain", "x", 1, 0644), MT_PREFLIGHT_NOT_EXECUTABLE, "permission denied");
	expect(make_text("text", "hello"), MT_PREFLIGHT_NOT_EXECUTABLE,
	       "neither an ELF program nor a script");
	expect(make_text("empty", ""), MT_PREFLIGHT_NOT_EXECUTABLE, "neither an ELF program");
}

static void scripts_are_judged_by_their_interpreter(void **state)
{
	char text[512];
	const char *path = make_text("good", "#! /bin/sh -e\n");

	expect(path, MT_PREFLIGHT_OK, NULL);
	for (int level = 2; level <= 5; level++) {
		char name[16];

		snprintf(text, sizeof(text), "#!%s\n", path);
		snprintf(name, sizeof(name), "level%d", level);
		path = make_text(name, text);
		if (level <= 4)
			expect(path, MT_PREFLIGHT_OK, NULL);
	}
	expect(path, MT_PREFLIGHT_NOT_EXECUTABLE, "more than 4 interpreters");
	expect(make_text("gone", "#!/nonexistent/sh\n"), MT_PREFLIGHT_NOT_EXECUTABLE,
	       "its interpreter '/nonexistent/sh' does not exist");
	expect(make_text("blank", "#!  \n"), MT_PREFLIGHT_NOT_EXECUTABLE, "names no interpreter");
}

static Elf64_Ehdr header(uint8_t elf_class, uint16_t machine, uint16_t type)
{
	Elf64_Ehdr h = {.e_ident = {0x7f, 'E', 'L', 'F', elf_class, ELFDATA2LSB, EV_CURRENT}};

	h.e_type = type;
	h.e_machine = machine;
	h.e_phentsize = sizeof(Elf64_Phdr);
	return h;
}

#if defined(__x86_64__)
enum { OUR_MACHINE = EM_X86_64, OTHER_MACHINE = EM_AARCH64 };
#else
enum { OUR_MACHINE = EM_AARCH64, OTHER_MACHINE = EM_X86_64 };
#endif

static void foreign_programs_are_named(void **state)
{
	struct {
		Elf64_Ehdr h;
		Elf64_Phdr ph;
	} file = {.h = header(ELFCLASS64, OTHER_MACHINE, ET_EXEC)};

	file.h.e_phoff = sizeof(file.h);
	file.h.e_phnum = 1;
	file.ph.p_type = PT_LOAD;
	expect(make("other", &file, sizeof(file), 0755), MT_PREFLIGHT_NOT_TRACKABLE,
	       OTHER_MACHINE == EM_AARCH64 ? "is a program for aarch64"
					   : "is a program for x86-64");
	file.h = header(ELFCLASS32, EM_386, ET_EXEC);
	expect(make("i386", &file, sizeof(file), 0755), MT_PREFLIGHT_NOT_TRACKABLE, "x86 (32-bit)");
}

static void static_programs_are_told_the_way(void **state)
{
	struct {
		Elf64_Ehdr h;
		Elf64_Phdr ph;
	} file = {.h = header(ELFCLASS64, OUR_MACHINE, ET_EXEC)};

	file.h.e_phoff = sizeof(file.h);
	file.h.e_phnum = 1;
	file.ph.p_type = PT_LOAD;
	expect(make("static", &file, sizeof(file), 0755), MT_PREFLIGHT_NOT_TRACKABLE,
	       "is statically linked: LD_PRELOAD has no effect in it; link it with "
	       "$(pkg-config --libs memtrack-wrap)");
	file.h.e_type = ET_REL;
	expect(make("object", &file, sizeof(file), 0755), MT_PREFLIGHT_NOT_EXECUTABLE,
	       "an ELF object or core file");
}

/* A static program with a symbol table of two names, or without one and `words` in its data. */
static const char *make_static(const char *name, const char *first, const char *second,
			       const char *words, size_t words_len)
{
	struct {
		Elf64_Ehdr h;
		Elf64_Phdr ph;
		Elf64_Shdr sh[2];
		Elf64_Sym symbol[2];
		char strings[128], words[128];
	} file = {.h = header(ELFCLASS64, OUR_MACHINE, ET_EXEC)};

	file.h.e_phoff = sizeof(file.h);
	file.h.e_phnum = 1;
	file.ph = (Elf64_Phdr){.p_type = PT_LOAD, .p_filesz = sizeof(file)};
	memcpy(file.words, words, words_len);
	if (first) {
		file.h.e_shoff = offsetof(__typeof__(file), sh);
		file.h.e_shnum = 2;
		file.h.e_shentsize = sizeof(Elf64_Shdr);
		file.sh[0] = (Elf64_Shdr){.sh_type = SHT_SYMTAB,
					  .sh_link = 1,
					  .sh_offset = offsetof(__typeof__(file), symbol),
					  .sh_size = sizeof(file.symbol)};
		file.sh[1] = (Elf64_Shdr){.sh_type = SHT_STRTAB,
					  .sh_offset = offsetof(__typeof__(file), strings),
					  .sh_size = sizeof(file.strings)};
		memcpy(file.strings + 1, first, strlen(first));
		memcpy(file.strings + 64, second, strlen(second));
		file.symbol[0] = (Elf64_Sym){.st_name = 1, .st_shndx = 1};
		file.symbol[1] = (Elf64_Sym){.st_name = 64, .st_shndx = 1};
	}
	return make(name, &file, sizeof(file), 0755);
}

static void static_programs_with_the_tracker_inside_are_run(void **state)
{
	static const char words[] = "\0MEMTRACK_MODE\0MEMTRACK_OPTIONS\0MEMTRACK_STATE_DIR\0"
				    "MEMTRACK_LAUNCHER";
	const char *refused = "is statically linked";

	expect(make_static("wrap", "__wrap_malloc", "mt_rt", "", 0), MT_PREFLIGHT_OK, NULL);
	expect(make_static("macro", "memtrack_malloc", "mt_rt", "", 0), MT_PREFLIGHT_OK, NULL);
	expect(make_static("door", "__wrap_malloc", "my_mt_rt", words, sizeof(words)),
	       MT_PREFLIGHT_NOT_TRACKABLE, refused);
	expect(make_static("state", "malloc", "mt_rt", "", 0), MT_PREFLIGHT_NOT_TRACKABLE, refused);
	expect(make_static("stripped", NULL, NULL, words, sizeof(words)), MT_PREFLIGHT_OK, NULL);
	expect(make_static("other", NULL, NULL, words, sizeof(words) - 2),
	       MT_PREFLIGHT_NOT_TRACKABLE, refused);
}

/* A dynamic program that needs `needed`, with `symbol` among its dynamic strings, `word` elsewhere.
 */
static const char *make_dynamic_with(const char *name, const char *needed, const char *symbol,
				     const char *word)
{
	struct {
		Elf64_Ehdr h;
		Elf64_Phdr ph[3];
		Elf64_Dyn dyn[4];
		char strings[128];
		char constants[64];
	} file = {.h = header(ELFCLASS64, OUR_MACHINE, ET_DYN)};
	size_t at = 1;

	file.h.e_phoff = sizeof(file.h);
	file.h.e_phnum = 3;
	file.ph[0] = (Elf64_Phdr){.p_type = PT_LOAD, .p_filesz = sizeof(file)};
	file.ph[1] = (Elf64_Phdr){.p_type = PT_DYNAMIC,
				  .p_offset = offsetof(__typeof__(file), dyn),
				  .p_filesz = sizeof(file.dyn)};
	file.ph[2] = (Elf64_Phdr){.p_type = PT_INTERP, .p_offset = 0, .p_filesz = 4};
	file.dyn[0].d_tag = DT_STRTAB;
	file.dyn[0].d_un.d_val = offsetof(__typeof__(file), strings);
	file.dyn[1].d_tag = DT_STRSZ;
	file.dyn[1].d_un.d_val = sizeof(file.strings);
	file.dyn[2].d_tag = DT_NEEDED;
	file.dyn[2].d_un.d_val = at;
	memcpy(file.strings + at, needed, strlen(needed));
	memcpy(file.strings + at + strlen(needed) + 1, symbol, strlen(symbol));
	memcpy(file.constants + 1, word, strlen(word));
	return make(name, &file, sizeof(file), 0755);
}

static const char *make_dynamic(const char *name, const char *needed, const char *symbol)
{
	return make_dynamic_with(name, needed, symbol, "");
}

static void sanitizers_are_recognized(void **state)
{
	expect(make_dynamic("plain-dyn", "libc.so.6", "main"), MT_PREFLIGHT_OK, NULL);
	expect(make_dynamic("asan", "libasan.so.8", "x"), MT_PREFLIGHT_NOT_TRACKABLE,
	       "is built with AddressSanitizer");
	expect(make_dynamic("tsan", "libtsan.so.2", "x"), MT_PREFLIGHT_NOT_TRACKABLE,
	       "is built with ThreadSanitizer");
	expect(make_dynamic("casan", "libclang_rt.asan-x86_64.so", "x"), MT_PREFLIGHT_NOT_TRACKABLE,
	       "is built with AddressSanitizer");
	expect(make_dynamic("msan", "libc.so.6", "__msan_init"), MT_PREFLIGHT_NOT_TRACKABLE,
	       "is built with MemorySanitizer");
	/* gcc's static runtimes: what they refer to, and a name among the constants */
	const char *reference = "__sanitizer_symbolize_code";

	expect(make_dynamic_with("static-tsan", "libc.so.6", reference, "ThreadSanitizer"),
	       MT_PREFLIGHT_NOT_TRACKABLE, "is built with ThreadSanitizer");
	expect(make_dynamic_with("static-ubsan", "libc.so.6", reference,
				 "UndefinedBehaviorSanitizer"),
	       MT_PREFLIGHT_OK, NULL);
	expect(make_dynamic_with("only-word", "libc.so.6", "x", "ThreadSanitizer"), MT_PREFLIGHT_OK,
	       NULL);
	expect(make_dynamic("like", "libasanity.so", "my__asan_init"), MT_PREFLIGHT_OK, NULL);
}

static void damaged_programs_are_refused(void **state)
{
	mt_auto(free) char *whole = NULL;
	size_t len;

	assert_int_equal(mt_file_read("/bin/true", 1 << 24, &whole, &len, NULL), 0);
	/* cut anywhere in the headers or tables: refused or accepted, never a crash */
	for (size_t cut = 1; cut < 2048; cut += 13) {
		struct mt_err err = {0};
		char *path = NULL;

		if (mt_preflight(make("cut", whole, cut, 0755), NULL, &path, &err))
			assert_true(err.text[0]);
		free(path);
	}
	expect(make("cut60", whole, 60, 0755), MT_PREFLIGHT_NOT_EXECUTABLE,
	       "is not a valid ELF program");
	memset(whole + 32, 0xff, 8); /* e_phoff */
	expect(make("phoff", whole, len, 0755), MT_PREFLIGHT_NOT_EXECUTABLE,
	       "is not a valid ELF program");
}

static void each_refusal_has_its_exit_status(void **state)
{
	assert_int_equal(mt_preflight_exit_status(MT_PREFLIGHT_NOT_FOUND), 127);
	assert_int_equal(mt_preflight_exit_status(MT_PREFLIGHT_NOT_EXECUTABLE), 126);
	assert_int_equal(mt_preflight_exit_status(MT_PREFLIGHT_NOT_TRACKABLE), 1);
	assert_int_equal(mt_preflight_exit_status(MT_PREFLIGHT_FAILED), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(programs_are_found_in_path),
		cmocka_unit_test(missing_programs_are_named),
		cmocka_unit_test(directories_and_plain_files_are_refused),
		cmocka_unit_test(scripts_are_judged_by_their_interpreter),
		cmocka_unit_test(foreign_programs_are_named),
		cmocka_unit_test(static_programs_are_told_the_way),
		cmocka_unit_test(static_programs_with_the_tracker_inside_are_run),
		cmocka_unit_test(sanitizers_are_recognized),
		cmocka_unit_test(damaged_programs_are_refused),
		cmocka_unit_test(each_refusal_has_its_exit_status),
	};
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
