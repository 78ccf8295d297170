/* SPDX-License-Identifier: MIT */
/*
 * Modules are asked in the loader's order: the first that defines malloc is the one that the
 * program reaches. The tracker only passes calls on, and the loader's malloc is for itself.
 */

#include "heap/detect.h"

#include "core/cc.h"

#include <elf.h>
#include <string.h>

enum { DYNAMIC_MAX = 4096, LIST_MAX = 65536, CHAIN_MAX = 1 << 20, NAME_MAX_BYTES = 64 };

static const struct {
	const char *symbol;
	enum mt_allocator allocator;
	const char *name;
} marks[] = {
	{"mallctl", MT_ALLOCATOR_JEMALLOC, "jemalloc"},
	{"je_mallctl", MT_ALLOCATOR_JEMALLOC, "jemalloc"},
	{"_rjem_mallctl", MT_ALLOCATOR_JEMALLOC, "jemalloc"},
	{"mi_malloc", MT_ALLOCATOR_MIMALLOC, "mimalloc"},
	{"tc_malloc", MT_ALLOCATOR_TCMALLOC, "tcmalloc (gperftools)"},
	{"MallocExtension_Internal_GetStats", MT_ALLOCATOR_GOOGLE_TCMALLOC, "tcmalloc"},
	{"__scudo_print_stats", MT_ALLOCATOR_SCUDO, "scudo"},
	{"__scudo_get_stack_depot_addr", MT_ALLOCATOR_SCUDO, "scudo"},
	{"__asan_init", MT_ALLOCATOR_SANITIZER, "AddressSanitizer"},
	{"__msan_init", MT_ALLOCATOR_SANITIZER, "MemorySanitizer"},
	{"__tsan_init", MT_ALLOCATOR_SANITIZER, "ThreadSanitizer"},
	{"__lsan_init", MT_ALLOCATOR_SANITIZER, "LeakSanitizer"},
	{"rpmalloc", MT_ALLOCATOR_RPMALLOC, "rpmalloc"},
	{"sn_malloc", MT_ALLOCATOR_SNMALLOC, "snmalloc"},
};

/* Symbols of the two C libraries themselves. */
static const char *const glibc_marks[] = {"gnu_get_libc_version", "__libc_mallopt"};
static const char *const musl_marks[] = {"__malloc_donate", "__malloc_context", "__init_libc"};

/* ---- dynamic symbols: those that other modules reach ---- */

struct dynamic {
	uint64_t symbols, text, gnu_hash, hash, debug;
};

/* glibc stores addresses in dynamic sections, other loaders leave them as they are in the file. */
static uint64_t pointer(struct mt_image *im, const struct mt_image_module *m, uint64_t value)
{
	return mt_image_module_of(im, value) == m ? value : value + m->bias;
}

static void read_dynamic(struct mt_image *im, const struct mt_image_module *m, struct dynamic *d)
{
	*d = (struct dynamic){0};
	for (uint32_t i = 0; m->dynamic && i < DYNAMIC_MAX; i++) {
		Elf64_Dyn e;

		if (mt_image_read_all(im, m->dynamic + i * sizeof(e), &e, sizeof(e)) ||
		    e.d_tag == DT_NULL)
			return;
		switch (e.d_tag) {
		case DT_SYMTAB:
			d->symbols = pointer(im, m, e.d_un.d_ptr);
			break;
		case DT_STRTAB:
			d->text = pointer(im, m, e.d_un.d_ptr);
			break;
		case DT_GNU_HASH:
			d->gnu_hash = pointer(im, m, e.d_un.d_ptr);
			break;
		case DT_HASH:
			d->hash = pointer(im, m, e.d_un.d_ptr);
			break;
		case DT_DEBUG:
			d->debug = e.d_un.d_ptr;
			break;
		}
	}
}

/* Whether symbol i is defined and has this name. */
static bool is_symbol(struct mt_image *im, const struct dynamic *d, uint32_t i, const char *name)
{
	char text[NAME_MAX_BYTES];
	size_t bytes = strlen(name) + 1;
	Elf64_Sym s;

	return bytes <= sizeof(text) &&
	       !mt_image_read_all(im, d->symbols + i * sizeof(s), &s, sizeof(s)) &&
	       s.st_shndx != SHN_UNDEF &&
	       !mt_image_read_all(im, d->text + s.st_name, text, bytes) &&
	       !memcmp(text, name, bytes);
}

static bool is_in_gnu_hash(struct mt_image *im, const struct dynamic *d, const char *name)
{
	uint32_t head[4], hash = 5381, at, word; /* buckets, first symbol, filter words, shift */

	for (const char *c = name; *c; c++)
		hash = hash * 33 + (uint8_t)*c;
	if (mt_image_read_all(im, d->gnu_hash, head, sizeof(head)) || !head[0])
		return false;
	uint64_t buckets = d->gnu_hash + sizeof(head) + 8ull * head[2];
	uint64_t chains = buckets + 4ull * head[0];

	if (mt_image_read_all(im, buckets + 4ull * (hash % head[0]), &at, sizeof(at)))
		return false;
	for (unsigned i = 0; at >= head[1] && i < CHAIN_MAX; i++, at++) {
		if (mt_image_read_all(im, chains + 4ull * (at - head[1]), &word, sizeof(word)))
			return false;
		if ((word | 1) == (hash | 1) && is_symbol(im, d, at, name))
			return true;
		if (word & 1)
			return false;
	}
	return false;
}

static bool is_in_hash(struct mt_image *im, const struct dynamic *d, const char *name)
{
	uint32_t head[2], hash = 0, at; /* buckets, chains */

	for (const char *c = name; *c; c++) {
		hash = (hash << 4) + (uint8_t)*c;
		hash ^= hash >> 24 & 0xf0;
		hash &= 0x0fffffff;
	}
	if (mt_image_read_all(im, d->hash, head, sizeof(head)) || !head[0] ||
	    mt_image_read_all(im, d->hash + 8 + 4ull * (hash % head[0]), &at, sizeof(at)))
		return false;
	for (unsigned i = 0; at && at < head[1] && i < CHAIN_MAX; i++) {
		if (is_symbol(im, d, at, name))
			return true;
		if (mt_image_read_all(im, d->hash + 8 + 4ull * head[0] + 4ull * at, &at, 4))
			return false;
	}
	return false;
}

static bool exports(struct mt_image *im, const struct mt_image_module *m, const char *name)
{
	struct dynamic d;

	read_dynamic(im, m, &d);
	if (!d.symbols || !d.text)
		return false;
	return d.gnu_hash ? is_in_gnu_hash(im, &d, name) : d.hash && is_in_hash(im, &d, name);
}

/* Also by the symbols that are not dynamic. */
static bool defines(struct mt_image *im, const struct mt_image_module *m, const char *name)
{
	uint64_t address;

	return !mt_image_symbol(im, m, name, &address, NULL);
}

static bool is_tracker(struct mt_image *im, const struct mt_image_module *m)
{
	return exports(im, m, "memtrack_control") || strstr(m->path, "/libmemtrack.so");
}

/* The C library whose malloc a module has; a dynamic one of musl has no telling symbol. */
static enum mt_allocator c_library_of(struct mt_image *im, const struct mt_image_module *m)
{
	for (size_t i = 0; i < MT_ARRAY_LEN(glibc_marks); i++)
		if (defines(im, m, glibc_marks[i]))
			return MT_ALLOCATOR_GLIBC;
	for (size_t i = 0; i < MT_ARRAY_LEN(musl_marks); i++)
		if (defines(im, m, musl_marks[i]))
			return MT_ALLOCATOR_MUSL;
	if (m->is_libc && !m->is_main)
		return strstr(m->path, "musl") ? MT_ALLOCATOR_MUSL : MT_ALLOCATOR_GLIBC;
	return MT_ALLOCATOR_UNKNOWN;
}

static void name_it(struct mt_image *im, struct mt_allocator_found *f)
{
	for (size_t i = 0; i < MT_ARRAY_LEN(marks); i++)
		if (defines(im, f->module, marks[i].symbol)) {
			f->allocator = marks[i].allocator;
			f->name = marks[i].name;
			return;
		}
	f->allocator = c_library_of(im, f->module);
	if (f->allocator == MT_ALLOCATOR_GLIBC)
		f->name = "glibc";
	else if (f->allocator == MT_ALLOCATOR_MUSL)
		f->name = "musl";
}

/* The first module of the loader's list that exports malloc, or NULL. */
static const struct mt_image_module *first_in_list(struct mt_image *im,
						   const struct mt_image_module *m, size_t count)
{
	struct dynamic d = {0};
	uint64_t entry = 0;

	for (size_t i = 0; i < count && !d.debug; i++)
		if (m[i].is_main)
			read_dynamic(im, &m[i], &d);
	if (!d.debug || mt_image_read_all(im, d.debug + 8, &entry, sizeof(entry)))
		return NULL;
	for (unsigned n = 0; entry && n < LIST_MAX; n++) {
		uint64_t link[4]; /* bias, name, dynamic section, next entry */

		if (mt_image_read_all(im, entry, link, sizeof(link)))
			return NULL;
		for (size_t i = 0; i < count; i++)
			if (m[i].dynamic && m[i].dynamic == link[2] &&
			    (!m[i].is_loader || m[i].is_libc) && !is_tracker(im, &m[i]) &&
			    exports(im, &m[i], "malloc"))
				return &m[i];
		entry = link[3];
	}
	return NULL;
}

void mt_allocator_find(struct mt_image *im, struct mt_allocator_found *ret_found)
{
	struct mt_allocator_found f = {.name = "an allocator"};
	size_t count;
	const struct mt_image_module *m = mt_image_modules(im, &count);

	f.module = first_in_list(im, m, count);
	for (size_t i = 0; i < count && !f.module; i++)
		if (m[i].is_libc) /* a static program, or one whose list cannot be read */
			f.module = &m[i];
	for (size_t i = 0; i < count && !f.module; i++)
		if (m[i].is_main)
			f.module = &m[i];
	if (f.module)
		name_it(im, &f);
	*ret_found = f;
}
