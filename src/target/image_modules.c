/* SPDX-License-Identifier: MIT */
/*
 * Modules of an image: mappings that begin with an ELF header, whose loaded segments lie where the
 * header says. All of it is read from the image and may hold anything. A file that is only mapped
 * to be looked at has no executable mapping where its code would be.
 */

#include "target/image_internal.h"

#include "base/alloc.h"
#include "base/path.h"
#include "core/cc.h"

#include <errno.h>
#include <string.h>

enum { HEADERS_MAX = 512, SEGMENTS_MAX = 64, NOTES_BYTES_MAX = 65536, DYNAMIC_MAX = 4096 };

/* What is known of a module while it is looked at. */
struct candidate {
	struct mt_image *im;
	const struct mt_mapping *first; /* begins with the header */
	Elf64_Phdr header[HEADERS_MAX];
	uint32_t header_count;
	uint64_t headers_at; /* where they lie in memory */
	bool has_interpreter;
	struct mt_image_module module;
	struct mt_image_segment segment[SEGMENTS_MAX];
};

static uint32_t flags_of(const Elf64_Phdr *ph)
{
	return (ph->p_flags & PF_R ? MT_MAPPING_READ : 0u) |
	       (ph->p_flags & PF_W ? MT_MAPPING_WRITE : 0u) |
	       (ph->p_flags & PF_X ? MT_MAPPING_EXEC : 0u);
}

static bool read_headers(struct candidate *c)
{
	uint16_t machine = c->im->facts.arch == MT_IMAGE_X86_64 ? EM_X86_64 : EM_AARCH64;
	Elf64_Ehdr e;

	if (mt_image_read(c->im, c->first->start, &e, sizeof(e)) != sizeof(e) ||
	    memcmp(e.e_ident, ELFMAG, SELFMAG) || e.e_ident[EI_CLASS] != ELFCLASS64 ||
	    e.e_ident[EI_DATA] != ELFDATA2LSB || e.e_machine != machine ||
	    (e.e_type != ET_DYN && e.e_type != ET_EXEC) || e.e_phentsize != sizeof(Elf64_Phdr) ||
	    !e.e_phnum || e.e_phnum > HEADERS_MAX || e.e_phoff > c->first->end - c->first->start)
		return false;
	c->header_count = e.e_phnum;
	c->headers_at = c->first->start + e.e_phoff;
	return !mt_image_read_all(c->im, c->headers_at, c->header,
				  c->header_count * sizeof(c->header[0]));
}

/* The bias that the first mapping tells; false: no segment begins with the header. */
static bool find_bias(struct candidate *c)
{
	uint64_t page = c->im->facts.page_bytes;

	for (uint32_t i = 0; i < c->header_count; i++) {
		const Elf64_Phdr *ph = &c->header[i];

		if (ph->p_type != PT_LOAD || MT_ALIGN_DOWN(ph->p_offset, page))
			continue;
		c->module.bias = c->first->start - MT_ALIGN_DOWN(ph->p_vaddr, page);
		return true;
	}
	return false;
}

static void add_header(struct candidate *c, const Elf64_Phdr *ph)
{
	struct mt_image_module *m = &c->module;
	uint64_t at = m->bias + ph->p_vaddr;

	switch (ph->p_type) {
	case PT_LOAD:
		if (m->segment_count < SEGMENTS_MAX && ph->p_memsz)
			c->segment[m->segment_count++] =
				(struct mt_image_segment){at, at + ph->p_memsz, flags_of(ph)};
		break;
	case PT_DYNAMIC:
		m->dynamic = at;
		break;
	case PT_INTERP:
		c->has_interpreter = true;
		break;
	case PT_TLS:
		m->tls_bytes = ph->p_memsz;
		m->tls_align = ph->p_align;
		break;
	}
}

/*
 * Whether the segments are mapped: each begins in a mapping of the same file, and code is
 * executable. The vdso is one mapping.
 */
static bool is_loaded(const struct candidate *c)
{
	for (uint32_t i = 0; i < c->module.segment_count; i++) {
		const struct mt_image_segment *s = &c->segment[i];
		const struct mt_mapping *m = mt_image_mapping_of(c->im, s->start);

		if (s->end <= s->start || !m || m->inode != c->first->inode ||
		    m->device != c->first->device)
			return false;
		if (s->flags & MT_MAPPING_EXEC && !(m->flags & MT_MAPPING_EXEC))
			return false;
	}
	return c->module.segment_count > 0;
}

static void read_build_id(struct candidate *c, const Elf64_Phdr *ph)
{
	size_t bytes = (size_t)MT_MIN(ph->p_filesz, (uint64_t)NOTES_BYTES_MAX);
	mt_auto(free) uint8_t *notes = mt_alloc(bytes);

	if (!notes)
		return;
	bytes = mt_image_read(c->im, c->module.bias + ph->p_vaddr, notes, bytes);
	c->module.build_id_bytes =
		mt_image_note_build_id(notes, bytes, ph->p_align, c->module.build_id);
}

static bool look_at(struct candidate *c)
{
	if (!read_headers(c) || !find_bias(c))
		return false;
	for (uint32_t i = 0; i < c->header_count; i++)
		add_header(c, &c->header[i]);
	if (!is_loaded(c))
		return false;
	for (uint32_t i = 0; i < c->header_count && !c->module.build_id_bytes; i++)
		if (c->header[i].p_type == PT_NOTE)
			read_build_id(c, &c->header[i]);
	if (!mt_image_mapping_of(c->im, c->module.dynamic))
		c->module.dynamic = 0;
	return true;
}

/* "libc.so.6", "libc-2.31.so", musl's "libc.so" and "ld-musl-x86_64.so.1" under its names. */
static bool is_libc_name(const char *path)
{
	const char *name = mt_path_base(path);

	return !strncmp(name, "libc.so", 7) || !strncmp(name, "libc-2.", 7) ||
	       !strncmp(name, "ld-musl-", 8) || !strncmp(name, "libc.musl-", 10);
}

static int add_module(struct candidate *c, size_t *cap)
{
	struct mt_image *im = c->im;
	struct mt_image_module *m = &c->module;
	uint64_t phdr = mt_image_auxv(im, AT_PHDR), base = mt_image_auxv(im, AT_BASE);
	struct mt_image_segment *segments =
		mt_arena_array(im->arena, m->segment_count, sizeof(*segments));
	struct mt_image_module *grown =
		mt_alloc_grow(im->module, cap, im->module_count + 1, sizeof(*m));

	if (grown)
		im->module = grown;
	if (!grown || !segments)
		return -ENOMEM;
	memcpy(segments, c->segment, m->segment_count * sizeof(*segments));
	m->segments = segments;
	m->path = c->first->name;
	m->is_main = phdr && phdr == c->headers_at;
	m->is_loader = base && base == c->first->start;
	m->is_libc =
		is_libc_name(m->path) || (m->is_main && !c->has_interpreter && !base); /* static */
	im->module[im->module_count++] = *m;
	return 0;
}

/* ---- what the whole list tells ---- */

static uint64_t dynamic_value(struct mt_image *im, const struct mt_image_module *m, int64_t tag)
{
	Elf64_Dyn d;

	for (uint32_t i = 0; m->dynamic && i < DYNAMIC_MAX; i++) {
		if (mt_image_read_all(im, m->dynamic + i * sizeof(d), &d, sizeof(d)) ||
		    d.d_tag == DT_NULL)
			break;
		if (d.d_tag == tag)
			return d.d_un.d_val;
	}
	return 0;
}

/*
 * A loader that was started as a program (ld.so PROGRAM) is what the kernel calls the main program.
 * The first entry of its list, whose dynamic section is known, is the right one.
 */
static void find_program_of_loader(struct mt_image *im, struct mt_image_module *loader)
{
	uint64_t debug, map, dynamic;

	if (mt_image_symbol(im, loader, "_r_debug", &debug, NULL) ||
	    mt_image_read_all(im, debug + 8, &map, sizeof(map)) ||
	    mt_image_read_all(im, map + 16, &dynamic, sizeof(dynamic)))
		return;
	for (size_t i = 0; i < im->module_count; i++)
		if (dynamic && im->module[i].dynamic == dynamic && &im->module[i] != loader) {
			loader->is_main = false;
			loader->is_loader = true;
			loader->is_libc = is_libc_name(loader->path);
			im->module[i].is_main = true;
			return;
		}
}

/* The program of a core file whose auxiliary vector is lost is the one that is no library. */
static void find_main(struct mt_image *im)
{
	for (size_t i = 0; i < im->module_count; i++)
		if (im->module[i].is_main)
			return;
	for (size_t i = 0; i < im->module_count; i++)
		if (dynamic_value(im, &im->module[i], DT_DEBUG)) {
			im->module[i].is_main = true;
			return;
		}
}

int mt_image_find_modules(struct mt_image *im)
{
	mt_auto(free) struct candidate *c = mt_alloc(sizeof(*c));
	size_t cap = 0;
	int code = c ? 0 : -ENOMEM;

	for (size_t i = 0; i < im->mapping_count && !code; i++) {
		const struct mt_mapping *m = &im->mapping[i];

		/* loaders share nothing, and to look at shared memory makes it */
		if (!m->in_image || m->flags & MT_MAPPING_SHARED ||
		    (!m->inode && strcmp(m->name, "[vdso]")))
			continue;
		*c = (struct candidate){.im = im, .first = m};
		if (look_at(c))
			code = add_module(c, &cap);
	}
	if (im->module && mt_arena_adopt(im->arena, im->module)) {
		free(im->module);
		im->module = NULL;
		im->module_count = 0;
		return -ENOMEM;
	}
	im->symbols = mt_arena_array(im->arena, im->module_count + 1, sizeof(*im->symbols));
	if (code || !im->symbols)
		return -ENOMEM;
	find_main(im);
	for (size_t i = 0; i < im->module_count; i++)
		if (im->module[i].is_main && im->module[i].is_libc)
			find_program_of_loader(im, &im->module[i]);
	for (size_t i = 0; i < im->module_count; i++)
		if (im->module[i].is_main)
			im->facts.program = im->module[i].path;
	return 0;
}
