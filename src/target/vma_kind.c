/* SPDX-License-Identifier: MIT */
/*
 * Categories of mappings on desktop Linux, by ordered rules. Where a process can be read its own
 * structures decide: program headers say where a library's variables end, glibc's headers which
 * mappings are its heaps. Without, the shape of the list of mappings does. A mapping counts as a
 * whole: the kernel merges neighbours of different use, and has no figures of the parts.
 */

#include "target/vma_kind.h"

#include "base/alloc.h"
#include "base/map.h"
#include "base/search.h"
#include "wire/state.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#define HEAP_BYTES (64ull << 20) /* glibc's arenas: their size and alignment on 64-bit machines */
#define STACK_BYTES (8ull << 20) /* usual size of a thread's stack */
enum { CHUNKS_MAX = 4096, HEADERS_MAX = 64, PAGE = 4096, GUARD_MAX = 64 << 10 };
enum { NEAR_TOP = 256 << 10 }; /* how far below its end a thread usually is in its stack */

struct classifier {
	const struct mt_smaps *s;
	const struct mt_vma_facts *f;
	struct mt_vma_label *label;
	struct mt_strings code; /* names of files with executable mappings */
	const char *program;
	size_t program_len;
	bool has_glibc, has_tracker;
	uint64_t tables_start, tables_end; /* private memory of the tracker; 0: not known */
};

/* ---- names ---- */

size_t mt_vma_name_len(const char *name)
{
	static const char deleted[] = " (deleted)";
	size_t len = strlen(name), cut = sizeof(deleted) - 1;

	return len > cut && !strcmp(name + len - cut, deleted) ? len - cut : len;
}

static bool begins(const char *name, const char *with)
{
	return !strncmp(name, with, strlen(with));
}

static bool begins_with_any(const char *name, const char *const *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (begins(name, list[i]))
			return true;
	return false;
}
#define IS_ANY(name, list) begins_with_any(name, list, MT_ARRAY_LEN(list))

static bool ends(const char *name, size_t len, const char *with)
{
	size_t n = strlen(with);

	return len >= n && !memcmp(name + len - n, with, n);
}

/* libx.so, libx.so.6.1 */
static bool is_library(const char *name, size_t len)
{
	while (len && (name[len - 1] == '.' || (name[len - 1] >= '0' && name[len - 1] <= '9')))
		len--;
	return ends(name, len, ".so");
}

static const char *base_of(const char *name)
{
	const char *slash = strrchr(name, '/');

	return slash ? slash + 1 : name;
}

static bool is_glibc(const char *name)
{
	return *name == '/' &&
	       (begins(base_of(name), "libc.so.6") || begins(base_of(name), "libc-2."));
}

static bool is_shared_memory(const char *name)
{
	static const char *const list[] = {"/memfd:", "/dev/shm/", "/SYSV", "[anon_shmem:"};

	return IS_ANY(name, list) || !strcmp(name, "/dev/zero (deleted)");
}

/* A name that is a file's, on a disk or not, but no device or shared memory. */
static bool is_plain_file(const char *name)
{
	return *name == '/' && !begins(name, "/dev/") && !is_shared_memory(name);
}

static bool is_anonymous(const struct mt_mapping *m)
{
	return !*m->name && !(m->flags & MT_MAPPING_SHARED);
}

/* gdb writes what is inaccessible as readable into core files. */
static bool is_inaccessible(const struct classifier *c, const struct mt_mapping *m)
{
	uint32_t any = MT_MAPPING_WRITE | MT_MAPPING_EXEC |
		       (c->s->kind == MT_SMAPS_CORE ? 0u : MT_MAPPING_READ);

	return is_anonymous(m) && !(m->flags & any);
}

/* ---- reading the process ---- */

static bool read_all(const struct classifier *c, uint64_t address, void *to, size_t bytes)
{
	return c->f->read && c->f->read(c->f->context, address, to, bytes) == bytes;
}

static const struct mt_mapping *mapping_at(const struct classifier *c, size_t i)
{
	return &c->s->mapping[i].m;
}

/* The mapping that ends where mapping i begins, or NULL. */
static const struct mt_mapping *below(const struct classifier *c, size_t i)
{
	const struct mt_mapping *m = mapping_at(c, i);

	return i && mapping_at(c, i - 1)->end == m->start ? mapping_at(c, i - 1) : NULL;
}

static const struct mt_mapping *above(const struct classifier *c, size_t i)
{
	const struct mt_mapping *m = mapping_at(c, i);

	return i + 1 < c->s->count && mapping_at(c, i + 1)->start == m->end ? mapping_at(c, i + 1)
									    : NULL;
}

/* ---- glibc's heaps ---- */

/* struct heap_info of glibc's arena.c: its first words. */
struct heap_info {
	uint64_t arena, previous, bytes, writable_bytes;
};

/* Whether a heap of an arena begins at an address, by its own header. */
static bool has_heap_header(const struct classifier *c, uint64_t address)
{
	struct heap_info h;

	/* it may have grown since the list of mappings was made */
	if (!read_all(c, address, &h, sizeof(h)) || !h.bytes || h.bytes > HEAP_BYTES ||
	    h.writable_bytes < h.bytes || h.writable_bytes > HEAP_BYTES)
		return false;
	if (h.bytes % PAGE || h.writable_bytes % PAGE || h.previous % HEAP_BYTES)
		return false;
	return h.previous ? h.arena != 0 : h.arena - address < PAGE;
}

/*
 * A heap of an arena, 64 MiB at a multiple of these: what is in use, then, if anything is left, an
 * inaccessible mapping up to the end.
 */
static bool is_arena(const struct classifier *c, size_t i)
{
	const struct mt_mapping *m = mapping_at(c, i), *tail = above(c, i);
	uint64_t begin = MT_ALIGN_DOWN(m->end - 1, HEAP_BYTES);

	if (!is_anonymous(m) || !(m->flags & MT_MAPPING_WRITE) || begin < m->start ||
	    (m->end - begin) * 2 <= m->end - m->start)
		return false;
	if (m->end != begin + HEAP_BYTES &&
	    (!tail || !is_inaccessible(c, tail) || tail->end < begin + HEAP_BYTES))
		return false;
	if (c->f->read)
		return has_heap_header(c, begin);
	return c->has_glibc && m->start == begin && m->end != begin + HEAP_BYTES;
}

/* The inaccessible end of an arena's heap. */
static bool is_arena_tail(const struct classifier *c, size_t i)
{
	return i && below(c, i) && is_inaccessible(c, mapping_at(c, i)) &&
	       c->label[i - 1].kind == MT_VMA_NATIVE_HEAP && is_anonymous(mapping_at(c, i - 1)) &&
	       is_arena(c, i - 1);
}

/*
 * Whether more than half of the mapping are blocks of glibc that have mappings of their own, merged
 * by the kernel: each has a header with its size at its first page.
 */
static bool is_chunks(const struct classifier *c, const struct mt_smaps_mapping *v, uint64_t begin)
{
	const struct mt_mapping *m = &v->m;
	uint64_t at = begin, head[2];
	int steps = 0;

	if (!c->has_glibc || !(m->flags & MT_MAPPING_WRITE) ||
	    !(v->sum.bytes[MT_SMAPS_RSS] || v->sum.bytes[MT_SMAPS_DUMPED]))
		return false;
	for (; at < m->end && steps < CHUNKS_MAX; steps++) {
		uint64_t bytes;

		if (!read_all(c, at, head, sizeof(head)))
			break;
		bytes = head[1] & ~7ull;
		if ((head[1] & 7) != 2 || !bytes || bytes % PAGE || bytes > m->end - at ||
		    head[0] >= bytes)
			break;
		at += bytes;
	}
	return (at - begin) * 2 > m->end - m->start || (steps == CHUNKS_MAX && at > begin);
}

/* Whether more than half of the mapping is the allocator's, as its own structures say. */
static bool is_taken(const struct classifier *c, const struct mt_mapping *m)
{
	size_t i = MT_SEARCH_UP_TO(c->f->heap, c->f->heaps, start, m->start);
	uint64_t taken = 0;

	for (i -= i > 0; i < c->f->heaps && c->f->heap[i].start < m->end; i++) {
		uint64_t start = MT_MAX(c->f->heap[i].start, m->start);
		uint64_t end = MT_MIN(c->f->heap[i].end, m->end);

		taken += end > start ? end - start : 0;
	}
	return taken * 2 > m->end - m->start;
}

static bool is_named_heap(const char *name)
{
	static const char *const list[] = {"[heap", "[anon:scudo:", "[anon:GWP-ASan",
					   "[anon: Go: heap"};
	static const char *const words[] = {"malloc", "tcmalloc", "partition_alloc"};

	if (IS_ANY(name, list))
		return true;
	for (size_t i = 0; begins(name, "[anon:") && i < MT_ARRAY_LEN(words); i++)
		if (strstr(name, words[i]))
			return true;
	return false;
}

/* ---- stacks ---- */

static bool holds_sp(const struct classifier *c, const struct mt_mapping *m, uint64_t *ret_sp)
{
	for (size_t i = 0; i < c->f->sp_count; i++)
		if (c->f->sp[i] >= m->start && c->f->sp[i] < m->end) {
			*ret_sp = c->f->sp[i];
			return true;
		}
	return false;
}

static bool has_guard(const struct classifier *c, size_t i)
{
	const struct mt_mapping *guard = below(c, i);

	return guard && is_inaccessible(c, guard) && guard->end - guard->start <= GUARD_MAX;
}

/*
 * A thread's stack pointer alone is not enough: coroutines and Go have stacks inside of heaps.
 */
static bool is_thread_stack(const struct classifier *c, size_t i, const char **ret_what)
{
	const struct mt_mapping *m = mapping_at(c, i);
	uint64_t sp, bytes = m->end - m->start;

	if (!is_anonymous(m) || !(m->flags & MT_MAPPING_WRITE))
		return false;
	*ret_what = "stack of a thread";
	if (holds_sp(c, m, &sp) && (has_guard(c, i) || m->end - sp <= NEAR_TOP))
		return true;
	*ret_what = "stack of a thread, by its size and guard";
	return has_guard(c, i) && (bytes == STACK_BYTES || bytes == STACK_BYTES - PAGE);
}

static bool is_named_stack(const char *name)
{
	static const char *const list[] = {"[stack",
					   "[anon:stack_and_tls:", "[anon: glibc: pthread stack"};

	return IS_ANY(name, list);
}

/* ---- code ---- */

/* The end of a module's memory by the program headers at its first mapping. 0: not known. */
static uint64_t module_end(const struct classifier *c, size_t last)
{
	const char *name = mapping_at(c, last)->name;
	Elf64_Phdr header[HEADERS_MAX];
	Elf64_Ehdr elf;
	uint64_t end = 0, bias;

	while (last && mapping_at(c, last)->offset && !strcmp(mapping_at(c, last - 1)->name, name))
		last--;
	bias = mapping_at(c, last)->start;
	if (mapping_at(c, last)->offset || !read_all(c, bias, &elf, sizeof(elf)) ||
	    memcmp(elf.e_ident, ELFMAG, SELFMAG) || elf.e_ident[EI_CLASS] != ELFCLASS64 ||
	    !elf.e_phnum || elf.e_phnum > HEADERS_MAX || elf.e_phentsize != sizeof(header[0]) ||
	    !read_all(c, bias + elf.e_phoff, header, elf.e_phnum * sizeof(header[0])))
		return 0;
	for (unsigned i = 0; i < elf.e_phnum; i++)
		if (header[i].p_type == PT_LOAD && !header[i].p_offset) {
			bias -= MT_ALIGN_DOWN(header[i].p_vaddr, (uint64_t)PAGE);
			break;
		}
	for (unsigned i = 0; i < elf.e_phnum; i++)
		if (header[i].p_type == PT_LOAD)
			end = MT_MAX(end, header[i].p_vaddr + header[i].p_memsz);
	return MT_ALIGN_UP(end + bias, (uint64_t)PAGE);
}

/*
 * An unnamed mapping behind a module: its variables that are zero at first. *ret_end: where they
 * end, as far as that is known, else the mapping's end.
 */
static bool is_bss(const struct classifier *c, size_t i, uint64_t *ret_end)
{
	const struct mt_mapping *m = mapping_at(c, i), *module = below(c, i);
	uint64_t end;

	*ret_end = m->start;
	if (!module || !is_plain_file(module->name) || !is_anonymous(m) ||
	    (c->label[i - 1].group != MT_VMA_GROUP_CODE && c->label[i - 1].kind != MT_VMA_OVERHEAD))
		return false;
	end = module_end(c, i - 1);
	if (!end || end > m->end)
		end = m->end;
	*ret_end = MT_MAX(end, m->start);
	return (*ret_end - m->start) * 2 > m->end - m->start;
}

static bool is_program(const struct classifier *c, const char *name)
{
	size_t len = mt_vma_name_len(name);

	return c->program && len == c->program_len && !memcmp(name, c->program, len);
}

static bool has_code(const struct classifier *c, const char *name)
{
	return mt_strings_find(&c->code, name, strlen(name)) != UINT32_MAX;
}

/* ---- Java ---- */

/* More than half of the mapping is for Java objects. */
static bool is_java(const struct classifier *c, const struct mt_mapping *m)
{
	uint64_t start = MT_MAX(m->start, c->f->java_start), end = MT_MIN(m->end, c->f->java_end);

	return start < end && (end - start) * 2 > m->end - m->start;
}

/* ---- the rules ---- */

static struct mt_vma_label label(enum mt_vma_kind kind, enum mt_vma_group group, const char *what)
{
	return (struct mt_vma_label){kind, group, what};
}

static bool is_overhead(const struct mt_mapping *m)
{
	size_t len = mt_vma_name_len(m->name);

	if (*m->name != '/')
		return false;
	return begins(base_of(m->name), "libmemtrack.so") ||
	       ((m->flags & MT_MAPPING_SHARED) && ends(m->name, len, ".mtk"));
}

/* Where a tracked process has the tracker's private memory: the header of its state file says. */
static void find_tables(struct classifier *c, const struct mt_mapping *m)
{
	struct mt_state_header h;

	c->has_tracker = true;
	if (m->offset || !read_all(c, m->start, &h, sizeof(h)) ||
	    memcmp(h.magic, MT_STATE_MAGIC, sizeof(h.magic)) != 0 || !h.arena_address ||
	    __builtin_add_overflow(h.arena_address, h.arena_bytes, &c->tables_end))
		return;
	c->tables_start = h.arena_address;
}

static bool has_flag(const char *vm_flags, const char *flag)
{
	const char *at = strstr(vm_flags, flag);

	return at && (at == vm_flags || at[-1] == ' ');
}

/* In a saved text: the only memory that is reserved without swap and left out of core files. */
static bool is_tables(const struct classifier *c, const struct mt_smaps_mapping *v)
{
	const struct mt_mapping *m = &v->m;

	if (c->tables_start)
		return m->start < c->tables_end && m->end > c->tables_start &&
		       m->start >= c->tables_start;
	return c->has_tracker && has_flag(v->vm_flags, "nr") && has_flag(v->vm_flags, "dd");
}

static struct mt_vma_label device(const char *name)
{
	static const char *const list[] = {"/dev/dri/", "/dev/nvidia", "/dev/kfd",    "/dev/mali",
					   "/dev/kgsl", "/dmabuf:",    "/drm mm obj", "/i915"};

	if (IS_ANY(name, list) || (begins(name, "anon_inode:") && strstr(name, "dmabuf")) ||
	    begins(name, "anon_inode:i915") || begins(name, "anon_inode:dri"))
		return label(MT_VMA_GFX, MT_VMA_GROUP_GRAPHICS, "");
	if (begins(name, "/dev/"))
		return label(MT_VMA_OTHER_DEV, MT_VMA_GROUP_OTHER, "");
	return label(MT_VMA_KINDS, MT_VMA_GROUP_OTHER, "");
}

static bool is_kernel(const char *name)
{
	static const char *const list[] = {"[vvar",    "[vdso",    "[vsyscall",
					   "[vectors", "[sigpage", "[uprobes"};

	return IS_ANY(name, list);
}

static struct mt_vma_label file(const char *name)
{
	size_t len = mt_vma_name_len(name);

	if (ends(name, len, ".jar"))
		return label(MT_VMA_JAR, MT_VMA_GROUP_CODE, "");
	if (ends(name, len, ".ttf") || ends(name, len, ".otf") || ends(name, len, ".ttc") ||
	    ends(name, len, ".pfb"))
		return label(MT_VMA_TTF, MT_VMA_GROUP_CODE, "");
	return label(MT_VMA_OTHER_MMAP, MT_VMA_GROUP_OTHER, "");
}

static struct mt_vma_label named(const struct classifier *c, const struct mt_mapping *m)
{
	size_t len = mt_vma_name_len(m->name);
	struct mt_vma_label l;

	if (is_named_heap(m->name))
		return label(MT_VMA_NATIVE_HEAP, MT_VMA_GROUP_NATIVE,
			     begins(m->name, "[heap") ? "brk" : "named by its allocator");
	if (is_named_stack(m->name))
		return label(MT_VMA_STACK, MT_VMA_GROUP_STACK,
			     strcmp(m->name, "[stack]") ? "stack of a thread" : "main stack");
	if (is_program(c, m->name))
		return label(MT_VMA_PROGRAM, MT_VMA_GROUP_CODE, "");
	if (*m->name == '/' &&
	    (is_library(m->name, len) || (is_plain_file(m->name) && has_code(c, m->name))))
		return label(MT_VMA_SO, MT_VMA_GROUP_CODE, "");
	if (is_shared_memory(m->name))
		return m->flags & MT_MAPPING_EXEC
			       ? label(MT_VMA_JIT, MT_VMA_GROUP_CODE, "in shared memory")
			       : label(MT_VMA_SHARED, MT_VMA_GROUP_OTHER, "");
	l = device(m->name);
	if (l.kind != MT_VMA_KINDS)
		return l;
	if (is_kernel(m->name))
		return label(MT_VMA_KERNEL, MT_VMA_GROUP_OTHER, "");
	if (begins(m->name, "[anon:.bss"))
		return label(MT_VMA_SO, MT_VMA_GROUP_CODE, "bss");
	if (*m->name == '[')
		return m->flags & MT_MAPPING_EXEC ? label(MT_VMA_JIT, MT_VMA_GROUP_CODE, "")
						  : label(MT_VMA_UNKNOWN, MT_VMA_GROUP_OTHER,
							  "named, of no known use");
	return file(m->name);
}

static struct mt_vma_label unnamed(const struct classifier *c, size_t i)
{
	const struct mt_mapping *m = mapping_at(c, i);
	const char *what;
	uint64_t bss_end;

	if (m->flags & MT_MAPPING_SHARED)
		return label(MT_VMA_SHARED, MT_VMA_GROUP_OTHER, "");
	if (is_tables(c, &c->s->mapping[i]))
		return label(MT_VMA_OVERHEAD, MT_VMA_GROUP_OTHER, "the tracker's tables");
	if (is_arena(c, i))
		return label(MT_VMA_NATIVE_HEAP, MT_VMA_GROUP_NATIVE, "glibc arena");
	if (is_arena_tail(c, i))
		return label(MT_VMA_NATIVE_HEAP, MT_VMA_GROUP_NATIVE, "glibc arena, reserved");
	if (is_thread_stack(c, i, &what))
		return label(MT_VMA_STACK, MT_VMA_GROUP_STACK, what);
	if (is_bss(c, i, &bss_end))
		return label(c->label[i - 1].kind, c->label[i - 1].group, "bss");
	if (is_chunks(c, &c->s->mapping[i], bss_end))
		return label(MT_VMA_NATIVE_HEAP, MT_VMA_GROUP_NATIVE, "glibc, large blocks");
	if (is_taken(c, m))
		return label(MT_VMA_NATIVE_HEAP, MT_VMA_GROUP_NATIVE, c->f->heap_what);
	if (m->flags & MT_MAPPING_EXEC)
		return label(MT_VMA_JIT, MT_VMA_GROUP_CODE, "");
	return label(MT_VMA_UNKNOWN, MT_VMA_GROUP_OTHER,
		     is_inaccessible(c, m) ? "inaccessible" : "anonymous");
}

static struct mt_vma_label desktop(const struct classifier *c, size_t i)
{
	const struct mt_mapping *m = mapping_at(c, i);

	if (is_overhead(m))
		return label(MT_VMA_OVERHEAD, MT_VMA_GROUP_OTHER,
			     m->flags & MT_MAPPING_SHARED ? "state file" : "the tracker");
	/* the VM maps its archive of classes, a file, into the same addresses */
	if (is_java(c, m))
		return label(MT_VMA_DALVIK_HEAP, MT_VMA_GROUP_JAVA, "Java heap");
	if (mt_java_is_heap_file(m->name))
		return label(MT_VMA_DALVIK_HEAP, MT_VMA_GROUP_JAVA, "Java heap, a memory file");
	/* memory of huge pages, without a file for the program */
	if (*m->name && !begins(m->name, "/anon_hugepage"))
		return named(c, m);
	return unnamed(c, i);
}

/* What must be known of all mappings before the first one has a label. */
static int look(struct classifier *c)
{
	uint32_t number;

	for (size_t i = 0; i < c->s->count; i++) {
		const struct mt_mapping *m = mapping_at(c, i);

		c->has_glibc |= is_glibc(m->name);
		if (is_overhead(m) && (m->flags & MT_MAPPING_SHARED))
			find_tables(c, m);
		if (!(m->flags & MT_MAPPING_EXEC) || !is_plain_file(m->name))
			continue;
		if (mt_strings_intern(&c->code, m->name, strlen(m->name), &number))
			return -ENOMEM;
		if (!c->program && !is_library(m->name, mt_vma_name_len(m->name)))
			c->program = m->name;
	}
	c->program_len = c->program ? mt_vma_name_len(c->program) : 0;
	return 0;
}

static int classify_desktop(struct classifier *c)
{
	int code = look(c);

	for (size_t i = 0; !code && i < c->s->count; i++)
		c->label[i] = desktop(c, i);
	mt_strings_done(&c->code);
	return code;
}

static void classify_android(struct classifier *c)
{
	for (size_t i = 0; i < c->s->count; i++)
		c->label[i] = mt_vma_android(mapping_at(c, i), i ? mapping_at(c, i - 1) : NULL,
					     i ? c->label[i - 1].kind : MT_VMA_UNKNOWN);
}

enum mt_vma_rules mt_vma_rules_of(const struct mt_smaps *s, enum mt_vma_rules wanted)
{
	if (wanted != MT_VMA_AUTO)
		return wanted;
	return s->is_android ? MT_VMA_ANDROID : MT_VMA_LINUX;
}

int mt_vma_classify(const struct mt_smaps *s, const struct mt_vma_facts *f,
		    struct mt_vma_label **ret_labels)
{
	struct classifier c = {.s = s, .f = f, .program = f->program};
	int code = 0;

	c.label = mt_alloc_zero(s->count + 1, sizeof(*c.label));
	if (!c.label)
		return -ENOMEM;
	if (mt_vma_rules_of(s, f->rules) == MT_VMA_ANDROID)
		classify_android(&c);
	else
		code = classify_desktop(&c);
	if (code)
		free(c.label);
	else
		*ret_labels = c.label;
	return code;
}

const char *mt_vma_kind_name(enum mt_vma_kind kind, enum mt_vma_rules rules)
{
	static const char *const names[MT_VMA_KINDS] = {
		[MT_VMA_NATIVE_HEAP] = "Native Heap",
		[MT_VMA_DALVIK_HEAP] = "Dalvik Heap",
		[MT_VMA_DALVIK_OTHER] = "Dalvik Other",
		[MT_VMA_STACK] = "Stack",
		[MT_VMA_CURSOR] = "Cursor",
		[MT_VMA_SHARED] = "Shared memory",
		[MT_VMA_GFX] = "Gfx dev",
		[MT_VMA_OTHER_DEV] = "Other dev",
		[MT_VMA_PROGRAM] = "Program",
		[MT_VMA_SO] = ".so mmap",
		[MT_VMA_JIT] = "JIT",
		[MT_VMA_JAR] = ".jar mmap",
		[MT_VMA_APK] = ".apk mmap",
		[MT_VMA_TTF] = ".ttf mmap",
		[MT_VMA_DEX] = ".dex mmap",
		[MT_VMA_OAT] = ".oat mmap",
		[MT_VMA_ART] = ".art mmap",
		[MT_VMA_OTHER_MMAP] = "Other mmap",
		[MT_VMA_KERNEL] = "Kernel",
		[MT_VMA_OVERHEAD] = "Debug overhead",
		[MT_VMA_UNKNOWN] = "Unknown",
	};

	if (kind == MT_VMA_SHARED && rules == MT_VMA_ANDROID)
		return "Ashmem";
	if (kind == MT_VMA_DALVIK_HEAP && rules == MT_VMA_LINUX)
		return "Java Heap";
	return names[kind];
}
