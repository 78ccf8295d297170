/* SPDX-License-Identifier: MIT */
/* ELF files beside an image. Every number in them is checked against the file's size before use. */

#include "target/image_file.h"

#include "base/alloc.h"
#include "base/file.h"
#include "core/cc.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

enum { HEADERS_MAX = 4096, NOTES_BYTES_MAX = 65536, SECTIONS_MAX = 100000 };
#define TABLE_BYTES_MAX ((uint64_t)2 << 30)

int mt_image_file_open(const char *path, struct mt_image_file *ret_file)
{
	mt_auto(close) int fd = -1;
	struct mt_image_file f = {.fd = -1};
	struct stat st;
	int code;

	/* the path is as somebody else says: to open a device may do something */
	if (stat(path, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	f.fd = fd;
	f.bytes = (uint64_t)st.st_size;
	f.inode = st.st_ino;
	f.device = (uint32_t)major(st.st_dev) << 20 | (uint32_t)minor(st.st_dev);
	code = mt_image_file_read(&f, 0, &f.head, sizeof(f.head));
	if (code)
		return code;
	if (memcmp(f.head.e_ident, ELFMAG, SELFMAG) || f.head.e_ident[EI_CLASS] != ELFCLASS64 ||
	    f.head.e_ident[EI_DATA] != ELFDATA2LSB)
		return -ENOEXEC;
	*ret_file = f;
	fd = -1;
	return 0;
}

void mt_image_file_done(struct mt_image_file *f)
{
	if (f && f->fd >= 0)
		close(f->fd);
	if (f)
		f->fd = -1;
}

int mt_image_file_read(const struct mt_image_file *f, uint64_t offset, void *to, size_t bytes)
{
	ssize_t n;

	if (offset > f->bytes || bytes > f->bytes - offset)
		return -ENODATA;
	n = mt_file_pread(f->fd, to, bytes, offset);
	if (n < 0)
		return (int)n;
	return (size_t)n == bytes ? 0 : -ENODATA;
}

uint32_t mt_image_note_build_id(const uint8_t *notes, size_t bytes, uint64_t align, uint8_t id[32])
{
	size_t step = align == 8 ? 8 : 4;

	for (size_t at = 0; bytes - at >= sizeof(Elf64_Nhdr);) {
		Elf64_Nhdr n;
		size_t name_at = at + sizeof(n), desc_at, next;

		memcpy(&n, notes + at, sizeof(n));
		desc_at = name_at + MT_ALIGN_UP((size_t)n.n_namesz, step);
		next = desc_at + MT_ALIGN_UP((size_t)n.n_descsz, step);
		if (desc_at > bytes || n.n_descsz > bytes - desc_at)
			return 0;
		if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 &&
		    !memcmp(notes + name_at, "GNU", 4) && n.n_descsz && n.n_descsz <= 32) {
			memcpy(id, notes + desc_at, n.n_descsz);
			return n.n_descsz;
		}
		if (next > bytes)
			return 0;
		at = next;
	}
	return 0;
}

static uint32_t build_id_in(const struct mt_image_file *f, const Elf64_Phdr *ph, uint8_t id[32])
{
	size_t bytes = (size_t)MT_MIN(ph->p_filesz, (uint64_t)NOTES_BYTES_MAX);
	mt_auto(free) uint8_t *notes = mt_alloc(bytes);

	if (!notes || mt_image_file_read(f, ph->p_offset, notes, bytes))
		return 0;
	return mt_image_note_build_id(notes, bytes, ph->p_align, id);
}

uint32_t mt_image_file_build_id(const struct mt_image_file *f, uint8_t id[32])
{
	uint32_t bytes = 0;

	if (f->head.e_phentsize != sizeof(Elf64_Phdr) || f->head.e_phnum > HEADERS_MAX)
		return 0;
	for (uint32_t i = 0; i < f->head.e_phnum && !bytes; i++) {
		Elf64_Phdr ph;

		if (f->head.e_phoff > f->bytes ||
		    mt_image_file_read(f, f->head.e_phoff + i * sizeof(ph), &ph, sizeof(ph)))
			return 0;
		if (ph.p_type == PT_NOTE)
			bytes = build_id_in(f, &ph, id);
	}
	return bytes;
}

/* The at-th section header. */
static int section(const struct mt_image_file *f, uint64_t at, Elf64_Shdr *ret_section)
{
	if (f->head.e_shentsize != sizeof(*ret_section) || at >= SECTIONS_MAX ||
	    f->head.e_shoff > f->bytes)
		return -ENOENT;
	return mt_image_file_read(f, f->head.e_shoff + at * sizeof(*ret_section), ret_section,
				  sizeof(*ret_section));
}

static int read_section(const struct mt_image_file *f, const Elf64_Shdr *s, size_t extra,
			void **ret_data)
{
	mt_auto(free) char *data = NULL;
	int code;

	if (s->sh_type == SHT_NOBITS || s->sh_flags & SHF_COMPRESSED ||
	    s->sh_size > TABLE_BYTES_MAX || s->sh_offset > f->bytes ||
	    s->sh_size > f->bytes - s->sh_offset)
		return -EBADMSG;
	data = mt_alloc((size_t)s->sh_size + extra);
	if (!data)
		return -ENOMEM;
	code = mt_image_file_read(f, s->sh_offset, data, (size_t)s->sh_size);
	if (code)
		return code;
	memset(data + s->sh_size, 0, extra);
	*ret_data = data;
	data = NULL;
	return 0;
}

static int read_symbols(const struct mt_image_file *f, const Elf64_Shdr *table,
			struct mt_image_file_symbols *s)
{
	Elf64_Shdr strings;
	void *data;
	int code = section(f, table->sh_link, &strings);

	if (!code)
		code = read_section(f, table, 0, &data);
	if (code)
		return code;
	s->symbol = data;
	s->count = (size_t)table->sh_size / sizeof(*s->symbol);
	code = read_section(f, &strings, 1, &data);
	if (code)
		return code;
	s->text = data;
	s->text_bytes = (size_t)strings.sh_size;
	return 0;
}

int mt_image_file_symbols(const struct mt_image_file *f, struct mt_image_file_symbols *ret)
{
	uint64_t count = f->head.e_shnum;
	Elf64_Shdr s;
	int code;

	if (!count && f->head.e_shoff && !section(f, 0, &s))
		count = s.sh_size;
	for (uint64_t i = 0; i < count; i++) {
		struct mt_image_file_symbols symbols = {0};

		code = section(f, i, &s);
		if (code)
			return code;
		if (s.sh_type != SHT_SYMTAB)
			continue;
		code = read_symbols(f, &s, &symbols);
		if (code)
			mt_image_file_symbols_done(&symbols);
		else
			*ret = symbols;
		return code;
	}
	return -ENOENT;
}

void mt_image_file_symbols_done(struct mt_image_file_symbols *s)
{
	if (!s)
		return;
	free(s->symbol);
	free(s->text);
	*s = (struct mt_image_file_symbols){0};
}
