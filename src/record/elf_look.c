/* SPDX-License-Identifier: MIT */
/*
 * Program headers and the dynamic section, read with pread and checked against the file's size: the
 * file is whatever the user named.
 */

#include "record/elf_look.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "core/cc.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { PHDRS_MAX = 512, DYNAMIC_MAX = 1 << 20, STRTAB_MAX = 64 << 20, SYMTAB_MAX = 256 << 20 };

struct image {
	int fd;
	uint64_t bytes;
	Elf64_Ehdr header;
	Elf64_Phdr *phdr;   /* owned */
	Elf64_Dyn *dynamic; /* owned */
	size_t dynamic_count;
	char *strings; /* owned; .dynstr with a NUL behind it */
	uint64_t string_bytes;
};

static int read_part(const struct image *im, uint64_t offset, uint64_t len, uint64_t max,
		     void **ret)
{
	char *data;
	ssize_t got;

	if (!len || len > max || offset > im->bytes || len > im->bytes - offset)
		return -ENOEXEC;
	data = mt_alloc(len + 1);
	if (!data)
		return -ENOMEM;
	got = mt_file_pread(im->fd, data, len, offset);
	if (got != (ssize_t)len) {
		free(data);
		return got < 0 ? (int)got : -ENOEXEC;
	}
	data[len] = 0;
	*ret = data;
	return 0;
}

static int read_header(struct image *im, struct mt_elf_look *look)
{
	ssize_t got = mt_file_pread(im->fd, &im->header, sizeof(im->header), 0);

	if (got < 0)
		return (int)got;
	if (got < EI_NIDENT + 4 || memcmp(im->header.e_ident, ELFMAG, SELFMAG))
		return -ENOEXEC;
	look->elf_class = im->header.e_ident[EI_CLASS];
	look->elf_data = im->header.e_ident[EI_DATA];
	look->machine = im->header.e_machine; /* same place in both classes */
	look->type = im->header.e_type;
	return got < (ssize_t)sizeof(im->header) && look->elf_class == ELFCLASS64 ? -ENOEXEC : 0;
}

static const Elf64_Phdr *find_phdr(const struct image *im, uint32_t type)
{
	for (uint32_t i = 0; i < im->header.e_phnum; i++)
		if (im->phdr[i].p_type == type)
			return &im->phdr[i];
	return NULL;
}

static uint64_t dynamic_value(const struct image *im, int64_t tag)
{
	for (size_t i = 0; i < im->dynamic_count && im->dynamic[i].d_tag != DT_NULL; i++)
		if (im->dynamic[i].d_tag == tag)
			return im->dynamic[i].d_un.d_val;
	return 0;
}

/* File offset of a virtual address, or UINT64_MAX. */
static uint64_t file_offset(const struct image *im, uint64_t address)
{
	for (uint32_t i = 0; i < im->header.e_phnum; i++) {
		const Elf64_Phdr *ph = &im->phdr[i];

		if (ph->p_type == PT_LOAD && address >= ph->p_vaddr &&
		    address - ph->p_vaddr < ph->p_filesz)
			return ph->p_offset + (address - ph->p_vaddr);
	}
	return UINT64_MAX;
}

static int read_dynamic(struct image *im)
{
	const Elf64_Phdr *ph = find_phdr(im, PT_DYNAMIC);
	int err;

	if (!ph)
		return 0;
	err = read_part(im, ph->p_offset, ph->p_filesz, DYNAMIC_MAX, (void **)&im->dynamic);
	if (err)
		return err;
	im->dynamic_count = ph->p_filesz / sizeof(*im->dynamic);
	im->string_bytes = dynamic_value(im, DT_STRSZ);
	if (!im->string_bytes)
		return 0;
	return read_part(im, file_offset(im, dynamic_value(im, DT_STRTAB)), im->string_bytes,
			 STRTAB_MAX, (void **)&im->strings);
}

static const char *string_at(const struct image *im, uint64_t offset)
{
	return im->strings && offset < im->string_bytes ? im->strings + offset : "";
}

/* What tells a sanitizer: the runtime's library, or its entry point in the program's own symbols.
 */
static const struct {
	const char *library, *symbol, *name;
} sanitizers[] = {
	{"asan", "__asan_init", "AddressSanitizer"},
	{"hwasan", "__hwasan_init", "HWAddressSanitizer"},
	{"tsan", "__tsan_init", "ThreadSanitizer"},
	{"msan", "__msan_init", "MemorySanitizer"},
	{"lsan", "__lsan_init", "LeakSanitizer"},
};

static bool is_sanitizer_library(const char *needed, const char *library)
{
	static const char *const prefixes[] = {"lib", "libclang_rt."};
	size_t len = strlen(library);

	for (size_t i = 0; i < MT_ARRAY_LEN(prefixes); i++) {
		const char *rest = needed + strlen(prefixes[i]);

		if (!strncmp(needed, prefixes[i], strlen(prefixes[i])) &&
		    !strncmp(rest, library, len) && (rest[len] == '.' || rest[len] == '-'))
			return true;
	}
	return false;
}

/* Whether text is one of the NUL-terminated strings in [start, end). */
static bool find_string(const char *start, const char *end, const char *text)
{
	size_t len = strlen(text) + 1;
	const char *at = start;

	while (at && at < end) {
		at = memmem(at, (size_t)(end - at), text, len);
		if (at && (at == start || !at[-1]))
			return true;
		if (at)
			at++;
	}
	return false;
}

static void look_at_dynamic(const struct image *im, struct mt_elf_look *look)
{
	const char *soname = string_at(im, dynamic_value(im, DT_SONAME));

	look->is_loader = !look->has_interpreter && dynamic_value(im, DT_SONAME) &&
			  (!strncmp(soname, "ld-", 3) || !strncmp(soname, "ld64", 4));
	for (size_t s = 0; s < MT_ARRAY_LEN(sanitizers) && !look->sanitizer[0]; s++) {
		bool found = find_string(im->strings, im->strings + im->string_bytes,
					 sanitizers[s].symbol);

		for (size_t i = 0; i < im->dynamic_count && im->dynamic[i].d_tag != DT_NULL; i++)
			if (im->dynamic[i].d_tag == DT_NEEDED)
				found |= is_sanitizer_library(
					string_at(im, im->dynamic[i].d_un.d_val),
					sanitizers[s].library);
		if (found)
			snprintf(look->sanitizer, sizeof(look->sanitizer), "%s",
				 sanitizers[s].name);
	}
}

/*
 * gcc's static runtimes export nothing of their own. They are told by a reference that all of them
 * leave, and by the name with which each begins its reports.
 */
static int look_for_static_sanitizer(const struct image *im, struct mt_elf_look *look)
{
	if (!find_string(im->strings, im->strings + im->string_bytes, "__sanitizer_symbolize_code"))
		return 0;
	for (uint32_t i = 0; i < im->header.e_phnum && !look->sanitizer[0]; i++) {
		const Elf64_Phdr *ph = &im->phdr[i];
		mt_auto(free) char *data = NULL;
		int err;

		if (ph->p_type != PT_LOAD || (ph->p_flags & (PF_W | PF_X)) || !ph->p_filesz)
			continue;
		err = read_part(im, ph->p_offset, ph->p_filesz, STRTAB_MAX, (void **)&data);
		if (err && err != -ENOEXEC)
			return err;
		for (size_t s = 0; data && s < MT_ARRAY_LEN(sanitizers) && !look->sanitizer[0]; s++)
			if (find_string(data, data + ph->p_filesz, sanitizers[s].name))
				snprintf(look->sanitizer, sizeof(look->sanitizer), "%s",
					 sanitizers[s].name);
	}
	return 0;
}

/*
 * Stripped programs have no symbols left; there the words that the tracker reads from the
 * environment tell it, each of which must be a string of its own.
 */
static bool has_runtime_words(const char *data, const char *end)
{
	static const char *const words[] = {"MEMTRACK_MODE", "MEMTRACK_OPTIONS",
					    "MEMTRACK_STATE_DIR", "MEMTRACK_LAUNCHER"};

	for (size_t i = 0; i < MT_ARRAY_LEN(words); i++)
		if (!find_string(data, end, words[i]))
			return false;
	return true;
}

/* A symbol table and its names. */
struct symbols {
	Elf64_Sym *symbol; /* owned */
	char *names;       /* owned; NUL behind them */
	uint64_t count, name_bytes;
};

static int read_symbols(const struct image *im, struct symbols *ret)
{
	uint64_t bytes = (uint64_t)im->header.e_shnum * sizeof(Elf64_Shdr);
	mt_auto(free) Elf64_Shdr *section = NULL;
	int err;

	if (!bytes || im->header.e_shentsize != sizeof(Elf64_Shdr))
		return 0;
	err = read_part(im, im->header.e_shoff, bytes, bytes, (void **)&section);
	for (uint32_t i = 0; !err && i < im->header.e_shnum; i++) {
		const Elf64_Shdr *sh = &section[i];

		if (sh->sh_type != SHT_SYMTAB || sh->sh_link >= im->header.e_shnum)
			continue;
		err = read_part(im, sh->sh_offset, sh->sh_size, SYMTAB_MAX, (void **)&ret->symbol);
		sh = &section[sh->sh_link];
		if (!err)
			err = read_part(im, sh->sh_offset, sh->sh_size, STRTAB_MAX,
					(void **)&ret->names);
		if (!err) {
			ret->count = section[i].sh_size / sizeof(*ret->symbol);
			ret->name_bytes = sh->sh_size;
		}
		break;
	}
	return err == -ENOEXEC ? 0 : err; /* sections do not matter to whoever runs it */
}

/*
 * libmemtrack-wrap.a brings a door and the state behind it into a program that uses any of it;
 * another program may well define one name of these, but not both.
 */
static bool has_runtime_symbols(const struct symbols *s)
{
	bool has_door = false, has_state = false;

	for (uint64_t i = 0; i < s->count; i++) {
		uint32_t at = s->symbol[i].st_name;
		const char *name = at < s->name_bytes ? s->names + at : "";

		if (s->symbol[i].st_shndx == SHN_UNDEF)
			continue;
		has_door |= !strcmp(name, "memtrack_malloc") || !strcmp(name, "__wrap_malloc");
		has_state |= !strcmp(name, "mt_rt");
	}
	return has_door && has_state;
}

/* Segments that may hold constants. */
static int look_for_words(const struct image *im, struct mt_elf_look *look)
{
	for (uint32_t i = 0; i < im->header.e_phnum && !look->has_runtime; i++) {
		const Elf64_Phdr *ph = &im->phdr[i];
		mt_auto(free) char *data = NULL;
		int err;

		if (ph->p_type != PT_LOAD || (ph->p_flags & PF_W) || !ph->p_filesz)
			continue;
		err = read_part(im, ph->p_offset, ph->p_filesz, STRTAB_MAX, (void **)&data);
		if (err && err != -ENOEXEC)
			return err;
		if (data)
			look->has_runtime = has_runtime_words(data, data + ph->p_filesz);
	}
	return 0;
}

static int look_for_runtime(const struct image *im, struct mt_elf_look *look)
{
	struct symbols s = {0};
	int err = read_symbols(im, &s);

	if (!err && s.count)
		look->has_runtime = has_runtime_symbols(&s);
	else if (!err)
		err = look_for_words(im, look);
	free(s.symbol);
	free(s.names);
	return err;
}

static int look_at_phdrs(struct image *im, struct mt_elf_look *look)
{
	const Elf64_Phdr *ph;
	uint64_t bytes = (uint64_t)im->header.e_phnum * sizeof(Elf64_Phdr);
	int err;

	if (im->header.e_phentsize != sizeof(Elf64_Phdr))
		return -ENOEXEC;
	err = read_part(im, im->header.e_phoff, bytes, PHDRS_MAX * sizeof(Elf64_Phdr),
			(void **)&im->phdr);
	if (err)
		return err;
	ph = find_phdr(im, PT_INTERP);
	if (ph) {
		size_t len = MT_MIN(ph->p_filesz, sizeof(look->interpreter) - 1);
		ssize_t got = mt_file_pread(im->fd, look->interpreter, len, ph->p_offset);

		look->interpreter[got > 0 ? got : 0] = 0;
		look->has_interpreter = true;
	}
	err = read_dynamic(im);
	if (err)
		return err;
	look_at_dynamic(im, look);
	if (!look->has_interpreter)
		return look_for_runtime(im, look);
	return look->sanitizer[0] ? 0 : look_for_static_sanitizer(im, look);
}

static int look_at(struct image *im, struct mt_elf_look *look)
{
	int err = read_header(im, look);

	if (err || look->elf_class != ELFCLASS64 || look->elf_data != ELFDATA2LSB)
		return err;
	return look_at_phdrs(im, look);
}

int mt_elf_look(const char *path, struct mt_elf_look *ret_look, struct mt_err *err)
{
	mt_auto(close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct mt_elf_look look = {0};
	struct image im = {.fd = fd};
	struct stat st;
	int code;

	if (fd < 0)
		return mt_err_set_errno(err, errno, "cannot open '%s'", path);
	if (fstat(fd, &st))
		return mt_err_set_errno(err, errno, "cannot read '%s'", path);
	im.bytes = (uint64_t)st.st_size;
	code = look_at(&im, &look);
	free(im.phdr);
	free(im.dynamic);
	free(im.strings);
	if (code == -ENOEXEC)
		return mt_err_set(err, code, "'%s' is not a valid ELF program", path);
	if (code)
		return mt_err_set_errno(err, code, "cannot read '%s'", path);
	*ret_look = look;
	return 0;
}
