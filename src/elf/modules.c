/* SPDX-License-Identifier: MIT */
/*
 * ELF images as they lie in memory: program headers, build-id, dynamic symbols. Only mapped memory
 * is read, never the file, so a deleted or replaced library makes no difference. The headers of a
 * loaded module are trusted as far as the loader itself trusts them; symbol tables are bounded by
 * what the hash tables say.
 */
#include "elf/modules.h"

#include "core/hash.h"
#include "core/mem.h"
#include "core/sys.h"

enum { NOTES_BYTES = 256, CHUNK_BYTES = 1024, FINGERPRINT_BYTES = 4096, HEADERS_AT_ONCE = 8 };

static int read_plainly(const void *from, void *to, size_t len)
{
	mt_mem_copy(to, from, len);
	return 0;
}

static void read_build_id(const uint8_t *notes, size_t bytes, struct mt_module *m)
{
	size_t at = 0;
	while (at + sizeof(Elf64_Nhdr) <= bytes) {
		const Elf64_Nhdr *n = (const Elf64_Nhdr *)(notes + at);
		size_t name_at = at + sizeof(*n);
		size_t desc_at = name_at + MT_ALIGN_UP((size_t)n->n_namesz, 4);
		size_t next = desc_at + MT_ALIGN_UP((size_t)n->n_descsz, 4);
		if (desc_at < name_at || next < desc_at || next > bytes)
			return;
		if (n->n_type == NT_GNU_BUILD_ID && n->n_namesz == 4 &&
		    mt_mem_equal(notes + name_at, "GNU", 4) && n->n_descsz <= MT_BUILD_ID_MAX) {
			m->build_id_bytes = (uint8_t)n->n_descsz;
			mt_mem_copy(m->build_id, notes + desc_at, n->n_descsz);
			return;
		}
		at = next;
	}
}

static int read_notes(mt_module_reader *read, const Elf64_Phdr *ph, struct mt_module *m)
{
	_Alignas(8) uint8_t notes[NOTES_BYTES];
	size_t bytes = MT_MIN(ph->p_memsz, sizeof(notes));
	if (m->build_id_bytes)
		return 0;
	int err = read((const void *)(m->bias + ph->p_vaddr), notes, bytes);
	if (!err)
		read_build_id(notes, bytes, m);
	return err;
}

static int add_header(mt_module_reader *read, const Elf64_Phdr *ph, struct mt_module *m)
{
	uintptr_t at = m->bias + ph->p_vaddr;
	switch (ph->p_type) {
	case PT_LOAD:
		if (at < m->lo)
			m->lo = at;
		if (at + ph->p_memsz > m->hi)
			m->hi = at + ph->p_memsz;
		if ((ph->p_flags & PF_X) && (ph->p_flags & PF_R)) {
			if (!m->text_hi || at < m->text_lo)
				m->text_lo = at;
			if (at + ph->p_memsz > m->text_hi)
				m->text_hi = at + ph->p_memsz;
		}
		break;
	case PT_DYNAMIC:
		m->dynamic = (const Elf64_Dyn *)at;
		break;
	case PT_GNU_EH_FRAME:
		m->eh_frame_hdr = (const uint8_t *)at;
		m->eh_frame_hdr_bytes = ph->p_memsz;
		break;
	case PT_NOTE:
		return read_notes(read, ph, m);
	}
	return 0;
}

int mt_module_from_phdr_by(mt_module_reader *read, const Elf64_Phdr *phdr, uint32_t phnum,
			   uintptr_t bias, struct mt_module *ret_module)
{
	struct mt_module m = {
		.bias = bias, .phdr = phdr, .phnum = phnum, .name = "", .lo = UINTPTR_MAX};
	uint64_t h = 0;
	uint8_t chunk[CHUNK_BYTES];
	for (uint32_t i = 0; i < phnum; i += HEADERS_AT_ONCE) { /* a system call each */
		Elf64_Phdr ph[HEADERS_AT_ONCE];
		uint32_t n = MT_MIN(phnum - i, (uint32_t)HEADERS_AT_ONCE);
		if (read(&phdr[i], ph, n * sizeof(ph[0])))
			return -MT_EFAULT;
		for (uint32_t k = 0; k < n; k++)
			if (add_header(read, &ph[k], &m))
				return -MT_EFAULT;
		h = mt_hash_bytes(ph, n * sizeof(ph[0]), h);
	}
	if (m.lo >= m.hi)
		return -MT_EINVAL;
	for (size_t at = 0; at < m.eh_frame_hdr_bytes && at < FINGERPRINT_BYTES;
	     at += CHUNK_BYTES) {
		size_t bytes = MT_MIN(m.eh_frame_hdr_bytes - at, sizeof(chunk));
		if (read(m.eh_frame_hdr + at, chunk, bytes))
			return -MT_EFAULT;
		h = mt_hash_bytes(chunk, bytes, h);
	}
	m.fingerprint = h;
	*ret_module = m;
	return 0;
}

int mt_module_from_phdr(const Elf64_Phdr *phdr, uint32_t phnum, uintptr_t bias,
			struct mt_module *ret_module)
{
	return mt_module_from_phdr_by(read_plainly, phdr, phnum, bias, ret_module);
}

/* glibc stores run-time addresses in the d_ptr entries, musl and the vdso leave them relative. */
static const void *dynamic_pointer(const struct mt_module *m, uintptr_t value)
{
	if (value >= m->lo && value < m->hi)
		return (const void *)value;
	uintptr_t moved = value + m->bias;
	return moved >= m->lo && moved < m->hi ? (const void *)moved : NULL;
}

/* As mt_module_symbols(). */
static int read_symbols(mt_module_reader *read, const struct mt_module *m,
			struct mt_module_symbols *t)
{
	Elf64_Dyn d;
	*t = (struct mt_module_symbols){.bias = m->bias};
	for (const Elf64_Dyn *at = m->dynamic; at && !read(at, &d, sizeof(d)); at++) {
		const void *p = dynamic_pointer(m, d.d_un.d_ptr);
		switch (d.d_tag) {
		case DT_NULL:
			t->usable = t->sym && t->str && (t->gnu_hash || t->sysv_hash);
			return t->usable;
		case DT_SYMTAB:
			t->sym = p;
			break;
		case DT_STRTAB:
			t->str = p;
			break;
		case DT_STRSZ:
			t->str_bytes = d.d_un.d_val;
			break;
		case DT_GNU_HASH:
			t->gnu_hash = p;
			break;
		case DT_HASH:
			t->sysv_hash = p;
			break;
		case DT_VERSYM:
			t->versym = p;
			break;
		}
	}
	return 0;
}

int mt_module_symbols(const struct mt_module *m, struct mt_module_symbols *ret_symbols)
{
	return read_symbols(read_plainly, m, ret_symbols);
}

static int symbol_matches(const struct mt_module_symbols *t, uint32_t i, const char *name)
{
	const Elf64_Sym *s = &t->sym[i];
	unsigned type = ELF64_ST_TYPE(s->st_info);
	if (s->st_shndx == SHN_UNDEF ||
	    (type != STT_FUNC && type != STT_NOTYPE && type != STT_OBJECT))
		return 0;
	if (t->versym && (t->versym[i] & 0x8000))
		return 0; /* not the default version */
	return s->st_name < t->str_bytes && mt_str_equal(t->str + s->st_name, name);
}

uint32_t mt_module_name_hash(const char *name)
{
	uint32_t h = 5381;
	for (const char *c = name; *c; c++)
		h = h * 33 + (uint8_t)*c;
	return h;
}

static uint32_t find_gnu(const struct mt_module_symbols *t, const char *name, uint32_t h)
{
	uint32_t nbuckets = t->gnu_hash[0], first = t->gnu_hash[1], bloom_words = t->gnu_hash[2];
	const uint64_t *bloom = (const uint64_t *)(t->gnu_hash + 4);
	const uint32_t *bucket = (const uint32_t *)(bloom + bloom_words);
	const uint32_t *chain = bucket + nbuckets;
	if (!nbuckets)
		return 0;
	if (bloom_words) {
		uint64_t word = bloom[h / 64 % bloom_words];
		if (!(word >> (h % 64) & 1) || !(word >> ((h >> t->gnu_hash[3]) % 64) & 1))
			return 0;
	}
	uint32_t i = bucket[h % nbuckets];
	if (i < first)
		return 0;
	for (;; i++) {
		uint32_t c = chain[i - first];
		if ((c | 1) == (h | 1) && symbol_matches(t, i, name))
			return i;
		if (c & 1)
			return 0;
	}
}

static uint32_t find_sysv(const struct mt_module_symbols *t, const char *name)
{
	uint32_t nbuckets = t->sysv_hash[0], nsyms = t->sysv_hash[1];
	const uint32_t *bucket = t->sysv_hash + 2, *chain = bucket + nbuckets;
	uint32_t h = 0;
	for (const char *c = name; *c; c++) {
		h = (h << 4) + (uint8_t)*c;
		h = (h ^ (h >> 24 & 0xf0)) & 0xfffffff;
	}
	if (!nbuckets)
		return 0;
	uint32_t left =
		nsyms; /* a chain cannot be longer than the table: damaged chains end here */
	for (uint32_t i = bucket[h % nbuckets]; i && i < nsyms && left--; i = chain[i])
		if (symbol_matches(t, i, name))
			return i;
	return 0;
}

uintptr_t mt_module_find(const struct mt_module_symbols *symbols, const char *name,
			 uint32_t name_hash)
{
	const struct mt_module_symbols *t = symbols;
	if (!t->usable)
		return 0;
	uint32_t i = t->gnu_hash ? find_gnu(t, name, name_hash) : find_sysv(t, name);
	return i ? t->bias + t->sym[i].st_value : 0;
}

uintptr_t mt_module_symbol(const struct mt_module *m, const char *name)
{
	struct mt_module_symbols t;
	return mt_module_symbols(m, &t) ? mt_module_find(&t, name, mt_module_name_hash(name)) : 0;
}

enum { WORDS_AT_ONCE = 128, SYMBOLS_AT_ONCE = 64 };

/* The highest of `count` words. 0 or -EFAULT. */
static int highest_word(mt_module_reader *read, const uint32_t *word, uint32_t count,
			uint32_t *ret_highest)
{
	uint32_t chunk[WORDS_AT_ONCE], n;
	*ret_highest = 0;
	for (uint32_t at = 0; at < count; at += n) {
		n = MT_MIN(count - at, (uint32_t)WORDS_AT_ONCE);
		if (read(word + at, chunk, n * sizeof(chunk[0])))
			return -MT_EFAULT;
		for (uint32_t i = 0; i < n; i++)
			*ret_highest = MT_MAX(*ret_highest, chunk[i]);
	}
	return 0;
}

/* Number of dynamic symbols: DT_HASH says it, DT_GNU_HASH's longest chain implies it. 0: none, or
 * they cannot be read.
 */
static uint32_t symbol_count(mt_module_reader *read, const struct mt_module_symbols *t)
{
	uint32_t head[4], last, word;
	if (t->sysv_hash)
		return read(t->sysv_hash, head, 2 * sizeof(head[0])) ? 0 : head[1];
	if (read(t->gnu_hash, head, sizeof(head)))
		return 0;
	uint32_t nbuckets = head[0], first = head[1], bloom_words = head[2];
	const uint32_t *bucket = t->gnu_hash + 4 + 2 * (size_t)bloom_words;
	const uint32_t *chain = bucket + nbuckets;
	if (highest_word(read, bucket, nbuckets, &last))
		return 0;
	if (last < first)
		return first;
	for (;; last++) {
		if (read(&chain[last - first], &word, sizeof(word)))
			return 0;
		if (word & 1)
			return last + 1;
	}
}

/* Where the function that holds an address begins and its name lies, as far as is known. */
struct nearest {
	uintptr_t want, at;
	const char *name;
};

static void look_at_symbol(struct nearest *best, const struct mt_module_symbols *t,
			   const Elf64_Sym *s)
{
	if (s->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(s->st_info) != STT_FUNC)
		return;
	/* functions that are not exported lie between: no guess at what is behind the end */
	if (best->want < s->st_value || best->want - s->st_value >= s->st_size)
		return;
	if (s->st_value < best->at || s->st_name >= t->str_bytes)
		return;
	best->name = t->str + s->st_name;
	best->at = s->st_value;
}

const char *mt_module_nearest_symbol_by(mt_module_reader *read, const struct mt_module *m,
					uintptr_t address, uintptr_t *ret_offset)
{
	struct mt_module_symbols t;
	struct nearest best = {.want = address - m->bias};
	Elf64_Sym chunk[SYMBOLS_AT_ONCE];
	if (!read_symbols(read, m, &t))
		return NULL;
	uint32_t count = symbol_count(read, &t), n;
	for (uint32_t i = 1; i < count; i += n) {
		n = MT_MIN(count - i, (uint32_t)SYMBOLS_AT_ONCE);
		if (read(&t.sym[i], chunk, n * sizeof(chunk[0])))
			return NULL;
		for (uint32_t k = 0; k < n; k++)
			look_at_symbol(&best, &t, &chunk[k]);
	}
	if (best.name)
		*ret_offset = best.want - best.at;
	return best.name;
}

const char *mt_module_nearest_symbol(const struct mt_module *m, uintptr_t address,
				     uintptr_t *ret_offset)
{
	return mt_module_nearest_symbol_by(read_plainly, m, address, ret_offset);
}
