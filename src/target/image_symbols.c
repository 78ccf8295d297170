/* SPDX-License-Identifier: MIT */
/*
 * Symbols of modules. The dynamic ones are read from the image: a hash table says how many there
 * are. The rest is in the file, if it is the same by its build-id, or in its separate debug file.
 * Everything may hold anything, in the image as well.
 */

#include "target/image_internal.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/search.h"
#include "core/cc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { DYNAMIC_MAX = 4096, WORDS_AT_ONCE = 1024 };
#define DYNAMIC_SYMBOLS_MAX (1u << 22)
#define DYNAMIC_TEXT_MAX ((uint64_t)256 << 20)
#define NAMES_MAX ((size_t)1 << 26)

/* What the dynamic section tells: addresses. */
struct tables {
	uint64_t symbols, text, text_bytes, gnu_hash, sysv_hash, versions;
};

/* glibc stores run-time addresses in the section, musl and the vdso leave them relative. */
static uint64_t pointer(const struct mt_image *im, const struct mt_image_module *m, uint64_t value)
{
	uint64_t moved = value + m->bias;

	if (mt_image_module_of(im, value) == m)
		return value;
	return mt_image_module_of(im, moved) == m ? moved : 0;
}

static bool read_tables(struct mt_image *im, const struct mt_image_module *m, struct tables *t)
{
	for (uint32_t i = 0; m->dynamic && i < DYNAMIC_MAX; i++) {
		Elf64_Dyn d;

		if (mt_image_read_all(im, m->dynamic + i * sizeof(d), &d, sizeof(d)))
			return false;
		switch (d.d_tag) {
		case DT_NULL:
			return t->symbols && t->text && (t->gnu_hash || t->sysv_hash);
		case DT_SYMTAB:
			t->symbols = pointer(im, m, d.d_un.d_ptr);
			break;
		case DT_STRTAB:
			t->text = pointer(im, m, d.d_un.d_ptr);
			break;
		case DT_STRSZ:
			t->text_bytes = d.d_un.d_val;
			break;
		case DT_GNU_HASH:
			t->gnu_hash = pointer(im, m, d.d_un.d_ptr);
			break;
		case DT_HASH:
			t->sysv_hash = pointer(im, m, d.d_un.d_ptr);
			break;
		case DT_VERSYM:
			t->versions = pointer(im, m, d.d_un.d_ptr);
			break;
		}
	}
	return false;
}

/* The highest of `count` words, or 0 when they cannot be read. */
static uint32_t highest_word(struct mt_image *im, uint64_t at, uint32_t count)
{
	uint32_t words[WORDS_AT_ONCE], highest = 0, n;

	for (uint32_t i = 0; i < count; i += n) {
		n = MT_MIN(count - i, (uint32_t)WORDS_AT_ONCE);
		if (mt_image_read_all(im, at + (uint64_t)i * 4, words, n * sizeof(words[0])))
			return 0;
		for (uint32_t k = 0; k < n; k++)
			highest = MT_MAX(highest, words[k]);
	}
	return highest;
}

/* The symbol that ends the chain of symbol `at`, and so the table; 0: it cannot be read. */
static uint32_t chain_end(struct mt_image *im, uint64_t chains, uint32_t first, uint32_t at)
{
	uint32_t words[WORDS_AT_ONCE];

	while (at < DYNAMIC_SYMBOLS_MAX) {
		size_t n = mt_image_read(im, chains + (uint64_t)(at - first) * 4, words,
					 sizeof(words)) /
			   sizeof(words[0]);

		if (!n)
			return 0;
		for (size_t i = 0; i < n; i++, at++)
			if (words[i] & 1)
				return at;
	}
	return 0;
}

/* How many symbols there are: DT_HASH says it, DT_GNU_HASH's last chain implies it. 0: none. */
static uint32_t count_symbols(struct mt_image *im, const struct tables *t)
{
	uint64_t buckets, chains;
	uint32_t head[4], last;

	if (t->sysv_hash)
		return mt_image_read_all(im, t->sysv_hash, head, 8) ? 0 : head[1];
	if (mt_image_read_all(im, t->gnu_hash, head, sizeof(head)) ||
	    head[0] > DYNAMIC_SYMBOLS_MAX || head[2] > DYNAMIC_SYMBOLS_MAX)
		return 0;
	buckets = t->gnu_hash + sizeof(head) + (uint64_t)head[2] * 8;
	chains = buckets + (uint64_t)head[0] * 4;
	last = highest_word(im, buckets, head[0]);
	if (last < head[1])
		return head[1];
	last = chain_end(im, chains, head[1], last);
	return last ? last + 1 : 0;
}

/* ---- the list ---- */

struct list {
	struct mt_image *im;
	const struct mt_image_module *module;
	struct mt_image_name *name;
	size_t count, cap;
};

static int add_name(struct list *l, const Elf64_Sym *s, const char *text, bool is_old)
{
	unsigned type = ELF64_ST_TYPE(s->st_info);
	struct mt_image_name *grown;

	/* names with a dollar in front tell code from data on 64-bit ARM, and name nothing */
	if (s->st_shndx == SHN_UNDEF || !*text || *text == '$' || l->count >= NAMES_MAX ||
	    (type != STT_FUNC && type != STT_OBJECT && type != STT_NOTYPE && type != STT_GNU_IFUNC))
		return 0;
	grown = mt_alloc_grow(l->name, &l->cap, l->count + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	l->name = grown;
	grown[l->count++] = (struct mt_image_name){
		.address = l->module->bias + s->st_value,
		.bytes = s->st_size,
		.text = text,
		.is_weak_name = ELF64_ST_BIND(s->st_info) != STB_GLOBAL,
		.is_old = is_old,
	};
	return 0;
}

/* A block of the image's memory, NUL behind it; NULL: it cannot be read in full. */
static void *copy_out(struct mt_image *im, uint64_t address, uint64_t bytes)
{
	char *copy = mt_alloc((size_t)bytes + 1);

	if (copy && !mt_image_read_all(im, address, copy, (size_t)bytes)) {
		copy[bytes] = 0;
		return copy;
	}
	free(copy);
	return NULL;
}

/* The part of the module's segment that begins at an address. */
static uint64_t room_at(const struct mt_image_module *m, uint64_t address)
{
	for (uint32_t i = 0; i < m->segment_count; i++)
		if (address >= m->segments[i].start && address < m->segments[i].end)
			return m->segments[i].end - address;
	return 0;
}

static int add_dynamic(struct list *l)
{
	struct mt_image *im = l->im;
	struct tables t = {0};
	mt_auto(free) Elf64_Sym *symbol = NULL;
	mt_auto(free) uint16_t *version = NULL;
	uint32_t count;
	char *text;
	int code = 0;

	if (!read_tables(im, l->module, &t))
		return 0;
	count = count_symbols(im, &t);
	if (!count || count > room_at(l->module, t.symbols) / sizeof(*symbol) ||
	    t.text_bytes > MT_MIN(room_at(l->module, t.text), DYNAMIC_TEXT_MAX))
		return 0;
	symbol = copy_out(im, t.symbols, (uint64_t)count * sizeof(*symbol));
	text = copy_out(im, t.text, t.text_bytes);
	if (text && mt_arena_adopt(im->arena, text)) {
		free(text);
		return -ENOMEM;
	}
	if (!symbol || !text)
		return 0;
	if (t.versions && count <= room_at(l->module, t.versions) / sizeof(*version))
		version = copy_out(im, t.versions, (uint64_t)count * sizeof(*version));
	for (uint32_t i = 1; i < count && !code; i++)
		if (symbol[i].st_name < t.text_bytes)
			code = add_name(l, &symbol[i], text + symbol[i].st_name,
					version && version[i] & 0x8000);
	return code;
}

/* ---- files ---- */

static bool is_deleted(const char *path)
{
	static const char mark[] = " (deleted)";
	size_t len = strlen(path);

	return len >= sizeof(mark) - 1 && !strcmp(path + len - (sizeof(mark) - 1), mark);
}

static bool is_same_file(const struct mt_image *im, const struct mt_image_module *m,
			 const struct mt_image_file *f)
{
	const struct mt_mapping *first = mt_image_mapping_of(im, m->segments[0].start);
	uint8_t id[32];
	uint32_t bytes = mt_image_file_build_id(f, id);

	if (bytes != m->build_id_bytes || memcmp(id, m->build_id, bytes))
		return false;
	return bytes || (first && im->facts.source != MT_IMAGE_CORE && first->inode == f->inode &&
			 first->device == f->device);
}

int mt_image_open_file(const struct mt_image *im, const struct mt_image_module *m,
		       struct mt_image_file *ret_file)
{
	mt_auto(mt_buf) struct mt_buf path = {0};
	mt_auto(mt_image_file) struct mt_image_file f = {.fd = -1};
	int code;

	if (m->path[0] != '/' || is_deleted(m->path) || !m->segment_count)
		return -ENOENT;
	if (mt_buf_printf(&path, "%s%s", im->root, m->path))
		return -ENOMEM;
	code = mt_image_file_open(mt_buf_text(&path), &f);
	if (code)
		return code;
	if (!is_same_file(im, m, &f))
		return -ESTALE;
	*ret_file = f;
	f.fd = -1;
	return 0;
}

/* The separate debug file where distributions keep them, by build-id. */
static int open_debug_file(const struct mt_image_module *m, struct mt_image_file *ret_file)
{
	mt_auto(mt_image_file) struct mt_image_file f = {.fd = -1};
	mt_auto(mt_buf) struct mt_buf path = {0};
	uint8_t id[32];
	int code;

	if (m->build_id_bytes < 2)
		return -ENOENT;
	mt_buf_printf(&path, "/usr/lib/debug/.build-id/%02x/", m->build_id[0]);
	for (uint32_t i = 1; i < m->build_id_bytes; i++)
		mt_buf_printf(&path, "%02x", m->build_id[i]);
	if (mt_buf_adds(&path, ".debug"))
		return -ENOMEM;
	code = mt_image_file_open(mt_buf_text(&path), &f);
	if (code)
		return code;
	if (mt_image_file_build_id(&f, id) != m->build_id_bytes ||
	    memcmp(id, m->build_id, m->build_id_bytes))
		return -ESTALE;
	*ret_file = f;
	f.fd = -1;
	return 0;
}

static int add_symtab(struct list *l)
{
	mt_auto(mt_image_file) struct mt_image_file f = {.fd = -1};
	mt_auto(mt_image_file_symbols) struct mt_image_file_symbols s = {0};
	int code = mt_image_open_file(l->im, l->module, &f);

	if (!code)
		code = mt_image_file_symbols(&f, &s);
	if (code) {
		mt_image_file_done(&f);
		code = open_debug_file(l->module, &f);
		if (!code)
			code = mt_image_file_symbols(&f, &s);
	}
	if (code)
		return code == -ENOMEM ? code : 0;
	for (size_t i = 1; i < s.count && !code; i++)
		if (s.symbol[i].st_name < s.text_bytes)
			code = add_name(l, &s.symbol[i], s.text + s.symbol[i].st_name, false);
	/* names are used from here on, whatever became of the list */
	if (mt_arena_adopt(l->im->arena, s.text))
		return -ENOMEM;
	s.text = NULL;
	return code;
}

/* By address; of one address the better name first. */
static int compare_names(const void *va, const void *vb)
{
	const struct mt_image_name *a = va, *b = vb;

	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	if (!a->bytes != !b->bytes)
		return a->bytes ? -1 : 1;
	if (a->is_old != b->is_old)
		return a->is_old ? 1 : -1;
	if (a->is_weak_name != b->is_weak_name)
		return a->is_weak_name ? 1 : -1;
	if ((*a->text == '_') != (*b->text == '_'))
		return *a->text == '_' ? 1 : -1;
	return strcmp(a->text, b->text);
}

/* The symbols of a module, read once. */
static const struct mt_image_symbols *symbols_of(struct mt_image *im,
						 const struct mt_image_module *m)
{
	struct mt_image_symbols *s = &im->symbols[m - im->module];
	struct list l = {.im = im, .module = m};

	if (s->is_read)
		return s;
	s->is_read = true;
	if (add_dynamic(&l) || add_symtab(&l) || !l.count) {
		free(l.name);
		return s;
	}
	qsort(l.name, l.count, sizeof(*l.name), compare_names);
	if (mt_arena_adopt(im->arena, l.name)) {
		free(l.name);
		return s;
	}
	s->name = l.name;
	s->count = l.count;
	return s;
}

int mt_image_symbol(struct mt_image *im, const struct mt_image_module *m, const char *name,
		    uint64_t *ret_address, uint64_t *ret_bytes)
{
	const struct mt_image_symbols *s = symbols_of(im, m);
	const struct mt_image_name *found = NULL;

	for (size_t i = 0; i < s->count; i++)
		if (!strcmp(s->name[i].text, name) &&
		    (!found || (found->is_old && !s->name[i].is_old)))
			found = &s->name[i];
	if (!found)
		return -ENOENT;
	*ret_address = found->address;
	if (ret_bytes)
		*ret_bytes = found->bytes;
	return 0;
}

enum { NAMES_BACK = 64 };

const char *mt_image_symbol_at(struct mt_image *im, const struct mt_image_module *m,
			       uint64_t address, uint64_t *ret_offset)
{
	const struct mt_image_symbols *s = symbols_of(im, m);
	const struct mt_image_name *best = NULL;
	size_t a = MT_SEARCH_UP_TO(s->name, s->count, address, address);

	/* symbols may lie in each other: the last one that begins before and reaches so far */
	for (size_t i = a, back = 0; i-- > 0 && back < NAMES_BACK; back++) {
		const struct mt_image_name *n = &s->name[i];

		if (best && n->address != best->address)
			break;
		if (address - n->address < n->bytes || address == n->address)
			best = n; /* of one address, the first one is the best */
	}
	if (!best)
		return NULL;
	*ret_offset = address - best->address;
	return best->text;
}
