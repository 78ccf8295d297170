/* SPDX-License-Identifier: MIT */
/*
 * Core files, by the kernel and by gdb. The file may hold anything: each offset and count in it is
 * checked, and it is read by pread(), piece by piece. What the core leaves out is taken from the
 * files that were mapped, if their build-id is that of the module in the core, and only where the
 * process could not have changed it; the rest cannot be read, and is counted.
 */

#include "target/image_core.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/search.h"
#include "base/units.h"
#include "core/cc.h"
#include "core/hash.h"
#include "target/image_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { THREADS_MAX = 65536, GENERAL_REGISTERS = 27 };
#define NOTES_BYTES_MAX ((uint64_t)256 << 20)

/* As the kernel lays out these notes on x86-64. */
enum {
	STATUS_PID = 32,
	STATUS_REGISTERS = 112,
	STATUS_BYTES = STATUS_REGISTERS + 8 * GENERAL_REGISTERS,
	INFO_PID = 24,
	INFO_NAME = 40,
	INFO_NAME_BYTES = 16,
	INFO_BYTES = 136,
	REG_FP = 4,
	REG_PC = 16,
	REG_SP = 19,
	REG_FS_BASE = 21,
};

/* Where the bytes of a mapping are; in the order of the image's mappings. */
struct part {
	uint64_t offset, bytes;           /* in the core: the first ones */
	const struct mt_image_file *file; /* the rest, NULL: nowhere */
	bool is_only_named;               /* its flags are not known */
};

/* A file that was mapped, as the note says. */
struct mapped_file {
	uint64_t start, end, offset;
	const char *name;
};

struct mt_core {
	int fd;
	uint64_t bytes;
	const char *path;   /* borrowed */
	struct part *part;  /* owned */
	uint64_t cut_bytes; /* that should be there by the headers */
	void **notes;       /* owned, each */
	size_t note_count, note_cap;
	struct mapped_file *mapped; /* owned */
	size_t mapped_count, mapped_cap;
	size_t thread_cap;
	char name[INFO_NAME_BYTES + 1];
	struct mt_image_file *file; /* owned; one for each module, fd -1: none */
	size_t file_count;
};

void mt_core_free(struct mt_core *c)
{
	if (!c)
		return;
	if (c->fd >= 0)
		close(c->fd);
	for (size_t i = 0; i < c->note_count; i++)
		free(c->notes[i]);
	for (size_t i = 0; i < c->file_count; i++)
		mt_image_file_done(&c->file[i]);
	free(c->file);
	free(c->notes);
	free(c->mapped);
	free(c->part);
	free(c);
}

/* ---- bytes ---- */

/* Of a file behind a mapping; behind its end there are zeros up to the end of the page. */
static size_t read_file(const struct mt_image *im, const struct mt_image_file *f, uint64_t offset,
			void *to, size_t bytes)
{
	uint64_t end = MT_ALIGN_UP(f->bytes, im->facts.page_bytes);
	ssize_t n;

	if (offset >= end)
		return 0;
	bytes = (size_t)MT_MIN((uint64_t)bytes, end - offset);
	n = mt_file_pread(f->fd, to, bytes, offset);
	if (n < 0)
		return 0;
	if (offset + (uint64_t)n < f->bytes && (size_t)n < bytes)
		return (size_t)n; /* it became shorter */
	memset((char *)to + n, 0, bytes - (size_t)n);
	return bytes;
}

/* The first part of a read, in one mapping. */
static size_t read_part(struct mt_image *im, uint64_t address, void *to, size_t bytes)
{
	const struct mt_mapping *m = mt_image_mapping_of(im, address);
	const struct part *p = m ? &im->core->part[m - im->mapping] : NULL;
	uint64_t at;
	ssize_t n;

	if (!m)
		return 0;
	at = address - m->start;
	bytes = (size_t)MT_MIN((uint64_t)bytes, m->end - address);
	if (at >= p->bytes)
		return p->file ? read_file(im, p->file, m->offset + at, to, bytes) : 0;
	bytes = (size_t)MT_MIN((uint64_t)bytes, p->bytes - at);
	n = mt_file_pread(im->core->fd, to, bytes, p->offset + at);
	return n > 0 ? (size_t)n : 0;
}

static size_t read_core(struct mt_image *im, uint64_t address, void *to, size_t bytes)
{
	size_t done = 0;

	while (done < bytes) {
		size_t n = read_part(im, address + done, (char *)to + done, bytes - done);

		if (!n)
			break;
		done += n;
	}
	return done;
}

static const struct mt_image_ops core_ops = {.read = read_core};

uint64_t mt_core_held_bytes(const struct mt_image *im, size_t mapping)
{
	return im->core ? im->core->part[mapping].bytes : 0;
}

uint64_t mt_core_known_bytes(const struct mt_image *im, size_t mapping)
{
	const struct mt_mapping *m = &im->mapping[mapping];
	const struct part *p = im->core ? &im->core->part[mapping] : NULL;
	uint64_t bytes = m->end - m->start, end;

	if (!p)
		return bytes;
	if (!p->file)
		return p->bytes;
	end = MT_ALIGN_UP(p->file->bytes, im->facts.page_bytes);
	return MT_MAX(p->bytes, MT_MIN(bytes, end > m->offset ? end - m->offset : 0));
}

/* ---- notes ---- */

static int add_thread(struct mt_image *im, const uint8_t *data)
{
	struct mt_image_thread *grown, *t;
	int32_t tid;

	if (im->thread_count >= THREADS_MAX)
		return -E2BIG;
	grown = mt_alloc_grow(im->thread, &im->core->thread_cap, im->thread_count + 1, sizeof(*t));
	if (!grown)
		return -ENOMEM;
	im->thread = grown;
	t = &grown[im->thread_count++];
	memset(t, 0, offsetof(struct mt_image_thread, vector));
	t->is_missing = false;
	memcpy(&tid, data + STATUS_PID, sizeof(tid));
	memcpy(t->registers, data + STATUS_REGISTERS, (size_t)GENERAL_REGISTERS * 8);
	t->tid = tid;
	t->register_count = GENERAL_REGISTERS;
	t->pc = t->registers[REG_PC];
	t->sp = t->registers[REG_SP];
	t->fp = t->registers[REG_FP];
	t->thread_pointer = t->registers[REG_FS_BASE];
	return 0;
}

/* Of the thread that came last; the larger one of the two kinds counts. */
static void set_vector(struct mt_image *im, const uint8_t *data, size_t bytes)
{
	struct mt_image_thread *t = im->thread_count ? &im->thread[im->thread_count - 1] : NULL;

	bytes = MT_MIN(bytes, sizeof(t->vector));
	if (!t || bytes <= t->vector_bytes)
		return;
	memcpy(t->vector, data, bytes);
	t->vector_bytes = (uint32_t)bytes;
}

/* Number of files, bytes of a page; start, end and page of each; their names. */
static int add_files(struct mt_core *c, const uint8_t *data, size_t bytes)
{
	uint64_t head[2], row[3];
	const char *name, *end = (const char *)data + bytes;
	struct mapped_file *grown;

	if (bytes < sizeof(head))
		return 0;
	memcpy(head, data, sizeof(head));
	if (head[0] > (bytes - sizeof(head)) / sizeof(row))
		return 0;
	name = (const char *)data + sizeof(head) + head[0] * sizeof(row);
	for (uint64_t i = 0; i < head[0]; i++) {
		const char *nul = memchr(name, 0, (size_t)(end - name));
		struct mapped_file f;

		if (!nul)
			break;
		memcpy(row, data + sizeof(head) + i * sizeof(row), sizeof(row));
		f = (struct mapped_file){.start = row[0], .end = row[1], .name = name};
		name = nul + 1;
		if (f.start >= f.end || __builtin_mul_overflow(row[2], head[1], &f.offset))
			continue;
		grown = mt_alloc_grow(c->mapped, &c->mapped_cap, c->mapped_count + 1, sizeof(f));
		if (!grown)
			return -ENOMEM;
		c->mapped = grown;
		grown[c->mapped_count++] = f;
	}
	return 0;
}

static int take_note(struct mt_image *im, uint32_t type, uint8_t *data, size_t bytes)
{
	int32_t pid;

	switch (type) {
	case NT_PRSTATUS:
		return bytes >= STATUS_BYTES ? add_thread(im, data) : 0;
	case NT_PRFPREG:
	case NT_X86_XSTATE:
		set_vector(im, data, bytes);
		return 0;
	case NT_PRPSINFO:
		if (bytes < INFO_BYTES)
			return 0;
		memcpy(&pid, data + INFO_PID, sizeof(pid));
		im->facts.pid = pid;
		memcpy(im->core->name, data + INFO_NAME, INFO_NAME_BYTES);
		return 0;
	case NT_AUXV:
		im->auxv_count = bytes / sizeof(*im->auxv);
		im->auxv = mt_arena_array(im->arena, im->auxv_count, sizeof(*im->auxv));
		if (!im->auxv)
			return -ENOMEM;
		memcpy(im->auxv, data, im->auxv_count * sizeof(*im->auxv));
		return 0;
	case NT_FILE:
		return add_files(im->core, data, bytes);
	}
	return 0;
}

/* A note's name is CORE or LINUX; anything else is not for us. */
static bool is_our_name(const uint8_t *name, uint32_t bytes)
{
	return (bytes == 5 && !memcmp(name, "CORE", 5)) ||
	       (bytes == 6 && !memcmp(name, "LINUX", 6)) ||
	       (bytes == 4 && !memcmp(name, "CORE", 4));
}

static int take_notes(struct mt_image *im, uint8_t *notes, size_t bytes)
{
	int code = 0;

	for (size_t at = 0; !code && bytes - at >= sizeof(Elf64_Nhdr);) {
		Elf64_Nhdr n;
		size_t name_at = at + sizeof(n), data_at, next;

		memcpy(&n, notes + at, sizeof(n));
		data_at = name_at + MT_ALIGN_UP((size_t)n.n_namesz, 4);
		next = data_at + MT_ALIGN_UP((size_t)n.n_descsz, 4);
		if (data_at > bytes || n.n_descsz > bytes - data_at)
			break;
		if (is_our_name(notes + name_at, n.n_namesz))
			code = take_note(im, n.n_type, notes + data_at, n.n_descsz);
		if (next > bytes)
			break;
		at = next;
	}
	return code;
}

static int read_notes(struct mt_image *im, const Elf64_Phdr *ph, struct mt_err *err)
{
	struct mt_core *c = im->core;
	uint8_t *notes;
	void **grown;
	int code;

	if (ph->p_offset > c->bytes || ph->p_filesz > c->bytes - ph->p_offset)
		return mt_err_set(err, -EBADMSG,
				  "'%s' is cut: what it says of the process is missing", c->path);
	if (ph->p_filesz > NOTES_BYTES_MAX)
		return mt_err_set(err, -EFBIG, "'%s' has too large notes", c->path);
	grown = mt_alloc_grow(c->notes, &c->note_cap, c->note_count + 1, sizeof(*grown));
	if (!grown)
		return mt_err_no_memory(err);
	c->notes = grown;
	notes = mt_alloc((size_t)ph->p_filesz);
	if (!notes)
		return mt_err_no_memory(err);
	c->notes[c->note_count++] = notes;
	if (mt_file_pread(c->fd, notes, (size_t)ph->p_filesz, ph->p_offset) !=
	    (ssize_t)ph->p_filesz)
		return mt_err_set(err, -EBADMSG, "'%s' cannot be read", c->path);
	code = take_notes(im, notes, (size_t)ph->p_filesz);
	if (code == -E2BIG)
		return mt_err_set(err, code, "'%s' has more than %d threads", c->path, THREADS_MAX);
	return code ? mt_err_no_memory(err) : 0;
}

/* ---- headers ---- */

static int check_head(const struct mt_core *c, const Elf64_Ehdr *e, size_t bytes,
		      struct mt_err *err)
{
	if (bytes < SELFMAG || memcmp(e->e_ident, ELFMAG, SELFMAG))
		return mt_err_set(err, -ENOEXEC, "'%s' is no core file", c->path);
	if (bytes < sizeof(*e))
		return mt_err_set(err, -EBADMSG, "'%s' is cut in its first header", c->path);
	if (e->e_ident[EI_CLASS] != ELFCLASS64)
		return mt_err_set(err, -ENOTSUP, "'%s' is of a program of 32 bits: not supported",
				  c->path);
	if (e->e_ident[EI_DATA] != ELFDATA2LSB)
		return mt_err_set(err, -ENOTSUP,
				  "'%s' is of an architecture with another byte order", c->path);
	if (e->e_type != ET_CORE)
		return mt_err_set(err, -ENOEXEC, "'%s' is a program or library, and no core file",
				  c->path);
	if (e->e_machine == EM_AARCH64)
		return mt_err_set(err, -ENOTSUP,
				  "'%s' is of a 64-bit ARM: only core files of x86-64 are read",
				  c->path);
	if (e->e_machine != EM_X86_64)
		return mt_err_set(err, -ENOTSUP, "'%s' is of another architecture (ELF machine %u)",
				  c->path, e->e_machine);
	if (e->e_phentsize != sizeof(Elf64_Phdr))
		return mt_err_set(err, -EBADMSG, "'%s' has no program headers", c->path);
	return 0;
}

/* All program headers; the caller frees them. */
static int read_headers(struct mt_core *c, const Elf64_Ehdr *e, Elf64_Phdr **ret_header,
			size_t *ret_count, struct mt_err *err)
{
	uint64_t count = e->e_phnum;
	Elf64_Phdr *header;
	Elf64_Shdr first;
	size_t bytes;

	if (count == PN_XNUM && e->e_shoff &&
	    mt_file_pread(c->fd, &first, sizeof(first), e->e_shoff) == (ssize_t)sizeof(first))
		count = first.sh_info;
	if (e->e_phoff > c->bytes || count > (c->bytes - e->e_phoff) / sizeof(*header))
		return mt_err_set(err, -EBADMSG, "'%s' is cut in its headers", c->path);
	bytes = (size_t)count * sizeof(*header);
	header = mt_alloc(bytes);
	if (!header)
		return mt_err_no_memory(err);
	if (mt_file_pread(c->fd, header, bytes, e->e_phoff) != (ssize_t)bytes) {
		free(header);
		return mt_err_set(err, -EBADMSG, "'%s' cannot be read", c->path);
	}
	*ret_header = header;
	*ret_count = (size_t)count;
	return 0;
}

enum { ONLY_NAMED = 1 << 20 }; /* a flag of segments, see below */

/* By address; of one address what is in the file first. */
static int compare_headers(const void *va, const void *vb)
{
	const Elf64_Phdr *a = va, *b = vb;

	if (a->p_vaddr != b->p_vaddr)
		return a->p_vaddr < b->p_vaddr ? -1 : 1;
	return (int)(a->p_flags & ONLY_NAMED) - (int)(b->p_flags & ONLY_NAMED);
}

static int compare_mapped(const void *va, const void *vb)
{
	const struct mapped_file *a = va, *b = vb;

	return a->start < b->start ? -1 : a->start > b->start;
}

/* The name of what was mapped at an address, and where in the file that is. */
static void name_mapping(const struct mt_core *c, struct mt_mapping *m)
{
	size_t a = MT_SEARCH_UP_TO(c->mapped, c->mapped_count, start, m->start);
	const struct mapped_file *f;

	f = a ? &c->mapped[a - 1] : NULL;
	if (!f || m->start >= f->end)
		return;
	m->name = f->name;
	m->offset = f->offset + (m->start - f->start);
	/* equal for equal names is all that it is for */
	m->inode = mt_hash_bytes(f->name, strlen(f->name), 1) | 1;
}

static void name_special(const struct mt_image *im, uint64_t address, const char *name)
{
	struct mt_mapping *m = (struct mt_mapping *)mt_image_mapping_of(im, address);

	if (address && m && !*m->name)
		m->name = name;
}

/*
 * gdb leaves mappings of files out that were not written to, and only the note of mapped files
 * knows of them. What they allowed is not known, until their module is.
 */
/* The segments and, behind them, those mappings; the caller frees them. */
static Elf64_Phdr *list_segments(const struct mt_core *c, const Elf64_Phdr *header, size_t count,
				 size_t *ret_count)
{
	Elf64_Phdr *list = mt_alloc_zero(count + c->mapped_count + 1, sizeof(*list));
	size_t n = 0;

	for (size_t i = 0; list && i < count; i++)
		if (header[i].p_type == PT_LOAD)
			list[n++] = header[i];
	for (size_t i = 0; list && i < c->mapped_count; i++)
		list[n++] = (Elf64_Phdr){.p_type = PT_LOAD,
					 .p_flags = PF_R | PF_X | ONLY_NAMED,
					 .p_vaddr = c->mapped[i].start,
					 .p_memsz = c->mapped[i].end - c->mapped[i].start};
	*ret_count = n;
	return list;
}

/* One mapping; what the headers promise and the file does not hold is cut off. */
static void add_mapping(struct mt_image *im, const Elf64_Phdr *ph)
{
	struct mt_core *c = im->core;
	struct mt_mapping *m = &im->mapping[im->mapping_count];
	struct part *p = &c->part[im->mapping_count];
	uint64_t there = ph->p_offset < c->bytes ? c->bytes - ph->p_offset : 0;
	uint64_t wanted = MT_MIN(ph->p_filesz, ph->p_memsz);

	*p = (struct part){.offset = ph->p_offset,
			   .bytes = MT_MIN(wanted, there),
			   .is_only_named = ph->p_flags & ONLY_NAMED};
	c->cut_bytes += wanted - p->bytes;
	*m = (struct mt_mapping){
		.start = ph->p_vaddr,
		.end = ph->p_vaddr + ph->p_memsz,
		.flags = (ph->p_flags & PF_R ? MT_MAPPING_READ : 0u) |
			 (ph->p_flags & PF_W ? MT_MAPPING_WRITE : 0u) |
			 (ph->p_flags & PF_X ? MT_MAPPING_EXEC : 0u),
		.in_image = p->bytes > 0,
		.name = "",
	};
	name_mapping(c, m);
	im->mapping_count++;
}

/* How much of a segment lies before the next one; 0: it is left out. */
static uint64_t room_of(const Elf64_Phdr *list, size_t count, size_t at, uint64_t end)
{
	const Elf64_Phdr *ph = &list[at];
	uint64_t room = UINT64_MAX - ph->p_vaddr;

	if (!ph->p_memsz || ph->p_vaddr < end || ph->p_memsz > room)
		return 0;
	if (!(ph->p_flags & ONLY_NAMED))
		return ph->p_memsz;
	for (size_t i = at + 1; i < count && list[i].p_vaddr - ph->p_vaddr < ph->p_memsz; i++)
		if (!(list[i].p_flags & ONLY_NAMED) && list[i].p_memsz)
			return list[i].p_vaddr - ph->p_vaddr;
	return ph->p_memsz;
}

/* The segments as mappings; those that overlap others or wrap are left out. */
static int add_mappings(struct mt_image *im, const Elf64_Phdr *header, size_t header_count)
{
	struct mt_core *c = im->core;
	mt_auto(free) Elf64_Phdr *list = NULL;
	uint64_t end = 0;
	size_t count;

	if (c->mapped_count)
		qsort(c->mapped, c->mapped_count, sizeof(*c->mapped), compare_mapped);
	list = list_segments(c, header, header_count, &count);
	if (!list)
		return -ENOMEM;
	im->mapping = mt_arena_array(im->arena, count + 1, sizeof(*im->mapping));
	c->part = mt_alloc_zero(count + 1, sizeof(*c->part));
	if (!im->mapping || !c->part)
		return -ENOMEM;
	qsort(list, count, sizeof(*list), compare_headers);
	for (size_t i = 0; i < count; i++) {
		list[i].p_memsz = room_of(list, count, i, end);
		if (!list[i].p_memsz)
			continue;
		add_mapping(im, &list[i]);
		end = list[i].p_vaddr + list[i].p_memsz;
	}
	name_special(im, mt_image_auxv(im, AT_SYSINFO_EHDR), "[vdso]");
	name_special(im, mt_image_auxv(im, AT_RANDOM), "[stack]");
	return 0;
}

/* ---- files ---- */

/* The module's segment there, from its first page on, or NULL. */
static const struct mt_image_segment *segment_at(const struct mt_image_module *m, uint64_t address)
{
	for (uint32_t i = 0; i < m->segment_count; i++) {
		uint64_t start = MT_ALIGN_DOWN(m->segments[i].start, (uint64_t)4096);

		if (address >= start && address < m->segments[i].end)
			return &m->segments[i];
	}
	return NULL;
}

static const struct mt_image_module *module_by_path(const struct mt_image *im, const char *path)
{
	for (size_t i = 0; i < im->module_count; i++)
		if (!strcmp(im->module[i].path, path))
			return &im->module[i];
	return NULL;
}

/* What of a mapping is not in the core: from the module's file, if nobody can have written to it.
 */
static void complete(struct mt_image *im, struct mt_mapping *m, struct part *p)
{
	const struct mt_image_module *module = m->inode ? module_by_path(im, m->name) : NULL;
	const struct mt_image_segment *s = module ? segment_at(module, m->start) : NULL;
	const struct mt_image_file *f = module ? &im->core->file[module - im->module] : NULL;

	if (p->is_only_named)
		m->flags = s ? s->flags : MT_MAPPING_READ;
	if (p->bytes >= m->end - m->start)
		return;
	if (s && f->fd >= 0 && !((s->flags | m->flags) & MT_MAPPING_WRITE)) {
		p->file = f;
		m->in_image = true;
	} else if (m->flags & MT_MAPPING_READ) {
		im->facts.unreadable_bytes += m->end - m->start - p->bytes;
	}
}

static int add_files_of_modules(struct mt_image *im)
{
	struct mt_core *c = im->core;

	c->file = mt_alloc_zero(im->module_count + 1, sizeof(*c->file));
	if (!c->file)
		return -ENOMEM;
	c->file_count = im->module_count;
	for (size_t i = 0; i < im->module_count; i++)
		if (mt_image_open_file(im, &im->module[i], &c->file[i]))
			c->file[i].fd = -1;
	for (size_t i = 0; i < im->mapping_count; i++)
		complete(im, &im->mapping[i], &c->part[i]);
	return 0;
}

/* ---- opening ---- */

static int open_file(struct mt_core *c, struct mt_err *err)
{
	struct stat st;

	if (stat(c->path, &st))
		return mt_err_set_errno(err, errno, "cannot open '%s'", c->path);
	if (!S_ISREG(st.st_mode))
		return mt_err_set(err, -EINVAL, "'%s' is no core file", c->path);
	c->fd = open(c->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (c->fd < 0 || fstat(c->fd, &st))
		return mt_err_set_errno(err, errno, "cannot open '%s'", c->path);
	c->bytes = (uint64_t)st.st_size;
	return 0;
}

static int read_process(struct mt_image *im, struct mt_err *err)
{
	struct mt_core *c = im->core;
	mt_auto(free) Elf64_Phdr *header = NULL;
	Elf64_Ehdr e = {0};
	size_t count = 0;
	ssize_t n = mt_file_pread(c->fd, &e, sizeof(e), 0);
	int code = n < 0 ? mt_err_set_errno(err, (int)n, "cannot read '%s'", c->path)
			 : check_head(c, &e, (size_t)n, err);

	if (!code)
		code = read_headers(c, &e, &header, &count, err);
	for (size_t i = 0; !code && i < count; i++)
		if (header[i].p_type == PT_NOTE)
			code = read_notes(im, &header[i], err);
	if (code)
		return code;
	if (add_mappings(im, header, count) || mt_image_remember(im) || mt_image_find_modules(im) ||
	    add_files_of_modules(im))
		return mt_err_no_memory(err);
	if (!im->mapping_count)
		return mt_err_set(err, -EBADMSG, "'%s' holds no memory", c->path);
	return 0;
}

/* Bytes that were looked for while files were not known yet are not missing. */
static void forget_reads(struct mt_image *im)
{
	for (size_t i = 0; i < MT_IMAGE_WINDOWS; i++)
		im->window[i].bytes = 0;
}

static int open_core(struct mt_image *im, struct mt_err *err)
{
	struct mt_core *c = im->core;
	char text[MT_UNITS_TEXT_MAX];
	int code = open_file(c, err);

	if (!code)
		code = read_process(im, err);
	/* owned by the arena from here on, also after a failure */
	if (im->thread && mt_arena_adopt(im->arena, im->thread)) {
		free(im->thread);
		im->thread = NULL;
		code = code ? code : mt_err_no_memory(err);
	}
	if (code)
		return code;
	forget_reads(im);
	if (!*im->facts.program)
		im->facts.program = c->name;
	im->facts.cut_bytes = c->cut_bytes;
	if (c->cut_bytes)
		mt_err_set(err, 0, "'%s' is cut: %s of its memory are missing", c->path,
			   mt_units_size(c->cut_bytes, text));
	return 0;
}

int mt_image_open_core(const char *path, struct mt_image **ret_image, struct mt_err *err)
{
	struct mt_image *im = mt_image_new(&core_ops);
	struct mt_err remark = {0};
	int code;

	if (!im)
		return mt_err_no_memory(err);
	im->facts.source = MT_IMAGE_CORE;
	im->facts.arch = MT_IMAGE_X86_64;
	im->core = mt_alloc_zero(1, sizeof(*im->core));
	if (!im->core) {
		mt_image_close(im);
		return mt_err_no_memory(err);
	}
	im->core->fd = -1;
	im->core->path = path;
	code = open_core(im, &remark);
	if (err)
		*err = remark;
	if (code) {
		mt_image_close(im);
		return code;
	}
	*ret_image = im;
	return 0;
}
