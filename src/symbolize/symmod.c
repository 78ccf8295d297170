/* SPDX-License-Identifier: MIT */
/*
 * Addresses of one module to frames. The module is reported to libdwfl at base 0, so that libdwfl's
 * addresses are ELF virtual addresses of the module's file; a separate debug file with other
 * addresses (prelink) is libdwfl's business: its bias comes with the Dwarf handle. libdwfl asks for
 * separate files through our callback only, so nothing is ever fetched from the network behind the
 * user's back.
 */
#include "symbolize/symmod.h"

#include "base/alloc.h"
#include "symbolize/demangle.h"
#include "symbolize/dwarfunit.h"
#include "symbolize/symtab.h"

#include <dwarf.h>
#include <elfutils/libdwfl.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SEGMENTS_MAX = 32 };

struct mt_symmod {
	struct mt_debugfile_segment segment[SEGMENTS_MAX];
	uint32_t segments;
	const struct mt_debugfile_options *options;
	const struct mt_debugfile_key *key;
	struct mt_debugfile main, debug; /* debug: only when main has no DWARF */
	int error;                       /* of a callback */
	bool alt_missing;                /* DWARF refers to a file that is not there */
};

struct place {
	size_t unit; /* SIZE_MAX: in no unit */
	uint64_t vaddr;
};

/* One run of mt_symmod_resolve(). */
struct resolver {
	struct mt_symmod *m;
	Dwfl *dwfl;
	Dwfl_Module *module;
	Dwarf *dwarf; /* NULL: none */
	Dwarf_Addr dwarf_bias;
	struct mt_symtab symtab;
	struct mt_dwarf_index index;
	size_t count;
	struct place *place;            /* owned; sorted by unit, then address */
	struct mt_dwarf_target *target; /* one for each place */
	struct mt_symset *set;          /* borrowed */
	struct mt_map demangled;        /* string number -> string number */
	const int *stop;
	bool incomplete;
};

/* ---- files ---- */

int mt_symmod_open(const struct mt_debugfile_options *options, const struct mt_debugfile_key *key,
		   struct mt_symmod **ret_module, enum mt_debugfile_state *ret_state)
{
	struct mt_symmod *m = mt_alloc_zero(1, sizeof(*m));
	*ret_state = MT_DEBUGFILE_MISSING;
	if (!m)
		return -ENOMEM;
	m->options = options;
	m->key = key;
	m->main = m->debug = MT_DEBUGFILE_NONE;
	int r = mt_debugfile_open_main(options, key, &m->main, ret_state);
	int has_dwarf = r ? 0 : mt_debugfile_has_dwarf(&m->main);
	if (has_dwarf < 0)
		r = has_dwarf;
	if (!r && !has_dwarf) {
		r = mt_debugfile_open_debug(options, key, &m->main, &m->debug);
		r = r == -ENOENT ? 0 : r;
	}
	if (r) {
		mt_symmod_close(m);
		return r;
	}
	mt_debugfile_segments(&m->main, m->segment, SEGMENTS_MAX, &m->segments);
	*ret_module = m;
	return 0;
}

const struct mt_debugfile_segment *mt_symmod_segments(const struct mt_symmod *m,
						      uint32_t *ret_count)
{
	*ret_count = m->segments;
	return m->segment;
}

void mt_symmod_close(struct mt_symmod *m)
{
	if (!m)
		return;
	mt_debugfile_done(&m->main);
	mt_debugfile_done(&m->debug);
	free(m);
}

static uint64_t file_identity(const struct mt_debugfile *f, uint64_t seed)
{
	if (f->fd < 0)
		return mt_hash_u64(seed);
	const uint64_t words[] = {f->stat.st_dev, f->stat.st_ino, (uint64_t)f->stat.st_size,
				  (uint64_t)f->stat.st_mtim.tv_sec,
				  (uint64_t)f->stat.st_mtim.tv_nsec};
	return mt_hash_bytes(f->path, strlen(f->path), mt_hash_bytes(words, sizeof(words), seed));
}

uint64_t mt_symmod_identity(const struct mt_symmod *m)
{
	return file_identity(&m->debug, file_identity(&m->main, 1));
}

/* ---- libdwfl ---- */

static int find_no_elf(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base,
		       char **file_name, Elf **elf)
{
	return -1;
}

static int give_file(struct mt_debugfile *file, char **ret_name)
{
	int fd = file->fd >= 0 ? fcntl(file->fd, F_DUPFD_CLOEXEC, 3) : -1;
	if (fd < 0)
		return -1;
	*ret_name = strdup(file->path); /* libdwfl frees it */
	return fd;
}

/*
 * Called for the debug file and, once DWARF is loaded, for the file that .gnu_debugaltlink names;
 * the second has a name but no checksum.
 */
static int find_debuginfo(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base,
			  const char *file_name, const char *link, GElf_Word crc, char **ret_name)
{
	struct mt_symmod *m = *userdata;
	if (!link || crc)
		return give_file(&m->debug, ret_name);
	struct mt_debugfile alt = MT_DEBUGFILE_NONE;
	const struct mt_debugfile *user = m->debug.fd >= 0 ? &m->debug : &m->main;
	int r = mt_debugfile_open_alt(m->options, user, &alt);
	int fd = r ? -1 : give_file(&alt, ret_name);
	if (r == -ENOMEM)
		m->error = r;
	m->alt_missing |= r != 0;
	mt_debugfile_done(&alt);
	return fd;
}

static int open_dwfl(struct resolver *r)
{
	static const Dwfl_Callbacks callbacks = {
		.find_elf = find_no_elf,
		.find_debuginfo = find_debuginfo,
		.section_address = dwfl_offline_section_address,
	};
	const struct mt_debugfile *main = &r->m->main;
	r->dwfl = dwfl_begin(&callbacks);
	if (!r->dwfl)
		return -ENOMEM;
	int fd = fcntl(main->fd, F_DUPFD_CLOEXEC, 3);
	if (fd < 0)
		return -EIO;
	dwfl_report_begin(r->dwfl);
	r->module = dwfl_report_elf(r->dwfl, main->path, main->path, fd, 0, true);
	if (!r->module)
		close(fd);
	if (dwfl_report_end(r->dwfl, NULL, NULL) || !r->module)
		return -EIO;
	void **userdata;
	dwfl_module_info(r->module, &userdata, NULL, NULL, NULL, NULL, NULL, NULL);
	*userdata = r->m;
	r->dwarf = dwfl_module_getdwarf(r->module, &r->dwarf_bias);
	r->incomplete = !r->dwarf || r->m->alt_missing;
	return r->m->error;
}

/* ---- names ---- */

static int intern_demangled(struct resolver *r, uint32_t mangled, uint32_t *ret_function)
{
	uint64_t known;
	*ret_function = mangled;
	if (!mangled)
		return 0;
	if (mt_map_get(&r->demangled, mangled, &known)) {
		*ret_function = (uint32_t)known;
		return 0;
	}
	mt_auto(free) char *text =
		mt_demangle(mt_strings_get(&r->set->strings, mangled), MT_DEMANGLE_DEEP_STACK);
	if (text) {
		int e = mt_symset_string(r->set, text, ret_function);
		if (e)
			return e;
	}
	return mt_map_set(&r->demangled, mangled, *ret_function);
}

static const char *string_attribute(Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute mem, *a = dwarf_attr_integrate(die, name, &mem);
	return a ? dwarf_formstring(a) : NULL;
}

static uint32_t number_attribute(Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute mem, *a = dwarf_attr(die, name, &mem);
	Dwarf_Word value;
	return a && !dwarf_formudata(a, &value) && value <= UINT32_MAX ? (uint32_t)value : 0;
}

/* Fills function and mangled. An assembler name that is not mangled counts less than the source's.
 */
static int name_function(struct resolver *r, Dwarf_Die *die, struct mt_symset_frame *frame)
{
	const char *plain = dwarf_diename(die);
	const char *linkage = string_attribute(die, DW_AT_linkage_name);
	if (!linkage)
		linkage = string_attribute(die, DW_AT_MIPS_linkage_name);
	int e = mt_symset_string(r->set, linkage, &frame->mangled);
	if (!e)
		e = intern_demangled(r, frame->mangled, &frame->function);
	if (!e && plain && frame->function == frame->mangled)
		e = mt_symset_string(r->set, plain, &frame->function);
	return e;
}

static bool is_mangled(const char *name)
{
	return name[0] == '_' && (name[1] == 'Z' || name[1] == 'R');
}

static int name_by_symbol(struct resolver *r, const struct mt_symtab_hit *hit,
			  struct mt_symset_frame *frame)
{
	const char *version = strchr(hit->name, '@'); /* "memcpy@@GLIBC_2.14" in some .symtab */
	uint32_t plain;
	int e = mt_symset_string(r->set, hit->name, &frame->mangled);
	plain = frame->mangled;
	if (!e && version && version > hit->name)
		e = mt_strings_intern(&r->set->strings, hit->name, (size_t)(version - hit->name),
				      &plain);
	return e ? e : intern_demangled(r, plain, &frame->function);
}

/* What the ELF symbol adds to the real (not inlined) function: the offset, and a name if need be.
 */
static int add_symbol(struct resolver *r, uint64_t vaddr, struct mt_symset_frame *frame)
{
	struct mt_symtab_hit hit;
	if (!mt_symtab_find(&r->symtab, vaddr, &hit))
		return 0;
	bool named = frame->function != 0;
	if (named && hit.nearest_dynamic)
		return 0;
	frame->offset = hit.offset;
	frame->flags |= MT_SYMSET_HAS_OFFSET;
	if (hit.nearest_dynamic)
		frame->flags |= MT_SYMSET_NEAREST_DYNAMIC;
	/* C++ compiled without linkage names: the symbol knows the class and the parameters */
	if (!named || (!frame->mangled && is_mangled(hit.name)))
		return name_by_symbol(r, &hit, frame);
	return 0;
}

/* ---- lines ---- */

static int set_file(struct resolver *r, const char *file, struct mt_symset_frame *frame)
{
	if (file && !strcmp(file, "???"))
		file = NULL;
	return mt_symset_string(r->set, file, &frame->file);
}

static int set_line(struct resolver *r, Dwarf_Die *unit, uint64_t address,
		    struct mt_symset_frame *frame)
{
	Dwarf_Line *line = dwarf_getsrc_die(unit, address);
	int value;
	if (!line)
		return 0;
	if (!dwarf_lineno(line, &value) && value > 0)
		frame->line = (uint32_t)value;
	if (!dwarf_linecol(line, &value) && value > 0)
		frame->column = (uint32_t)value;
	return set_file(r, dwarf_linesrc(line, NULL, NULL), frame);
}

/* Where `inlined` was called: the position in the function around it. */
static int set_call(struct resolver *r, Dwarf_Die *unit_die, Dwarf_Die *inlined,
		    struct mt_symset_frame *frame)
{
	Dwarf_Files *files;
	size_t count;
	Dwarf_Attribute mem;
	frame->line = number_attribute(inlined, DW_AT_call_line);
	frame->column = number_attribute(inlined, DW_AT_call_column);
	if (!dwarf_attr(inlined, DW_AT_call_file, &mem) ||
	    dwarf_getsrcfiles(unit_die, &files, &count))
		return 0;
	uint32_t number = number_attribute(inlined, DW_AT_call_file);
	return set_file(r, number < count ? dwarf_filesrc(files, number, NULL, NULL) : NULL, frame);
}

/* ---- entries ---- */

/* Nothing but what the symbol table says. */
static int emit_symbol(struct resolver *r, uint64_t vaddr, struct mt_symset_frame frame)
{
	int e = add_symbol(r, vaddr, &frame);
	if (!e && (frame.function || frame.file))
		e = mt_symset_add_frame(r->set, &frame);
	return e;
}

static int emit_chain(struct resolver *r, size_t i, Dwarf_Die *unit, Dwarf_Die *unit_die)
{
	struct mt_dwarf_target *t = &r->target[i];
	struct mt_symset_frame frame = {0};
	int e = set_line(r, unit, t->address, &frame);
	if (e || !t->chain_len)
		return e ? e : emit_symbol(r, r->place[i].vaddr, frame);
	for (size_t k = 0; k < t->chain_len && !e; k++) {
		bool last = k + 1 == t->chain_len;
		if (k) {
			frame = (struct mt_symset_frame){0};
			e = set_call(r, unit_die, &t->chain[k - 1], &frame);
		}
		frame.flags = last ? 0 : MT_SYMSET_INLINE;
		if (!e)
			e = name_function(r, &t->chain[k], &frame);
		if (!e && last)
			e = add_symbol(r, r->place[i].vaddr, &frame);
		if (!e)
			e = mt_symset_add_frame(r->set, &frame);
	}
	return e;
}

static int emit_unit(struct resolver *r, size_t from, size_t to)
{
	Dwarf_Die *unit = &r->index.unit[r->place[from].unit];
	Dwarf_Die unit_die;
	int e = 0;
	if (mt_dwarf_unit_die(unit, &unit_die))
		e = mt_dwarf_unit_chains(&unit_die, &r->target[from], to - from);
	else
		r->incomplete = true;
	for (size_t i = from; i < to && !e; i++) {
		e = mt_symset_add_entry(r->set, r->place[i].vaddr);
		if (!e)
			e = emit_chain(r, i, unit, &unit_die);
		free(r->target[i].chain);
		r->target[i] = (struct mt_dwarf_target){0};
	}
	return e;
}

static int resolve_all(struct resolver *r)
{
	int e = 0;
	for (size_t i = 0, end; i < r->count && !e; i = end) {
		if (r->stop && __atomic_load_n(r->stop, __ATOMIC_RELAXED))
			return -ECANCELED;
		end = i + 1;
		if (r->place[i].unit == SIZE_MAX) {
			e = mt_symset_add_entry(r->set, r->place[i].vaddr);
			if (!e)
				e = emit_symbol(r, r->place[i].vaddr, (struct mt_symset_frame){0});
			continue;
		}
		while (end < r->count && r->place[end].unit == r->place[i].unit)
			end++;
		e = emit_unit(r, i, end);
	}
	return e;
}

static int compare_places(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	if (x->unit != y->unit)
		return x->unit > y->unit ? 1 : -1;
	return (x->vaddr > y->vaddr) - (x->vaddr < y->vaddr);
}

static int place_addresses(struct resolver *r, const uint64_t *vaddr)
{
	r->target = mt_alloc_zero(r->count, sizeof(*r->target));
	r->place = mt_alloc_zero(r->count, sizeof(*r->place));
	if (!r->target || !r->place)
		return -ENOMEM;
	for (size_t i = 0; i < r->count; i++) {
		r->place[i].vaddr = vaddr[i];
		r->place[i].unit = mt_dwarf_index_find(&r->index, vaddr[i] - r->dwarf_bias);
	}
	if (r->count)
		qsort(r->place, r->count, sizeof(*r->place), compare_places);
	for (size_t i = 0; i < r->count; i++)
		r->target[i].address = r->place[i].vaddr - r->dwarf_bias;
	return 0;
}

static int prepare(struct resolver *r, const uint64_t *vaddr)
{
	int e = open_dwfl(r);
	if (!e)
		e = mt_symtab_load(&r->symtab, r->module);
	if (!e && r->dwarf)
		e = mt_dwarf_index_load(&r->index, r->dwarf);
	return e ? e : place_addresses(r, vaddr);
}

static void release(struct resolver *r)
{
	for (size_t i = 0; r->target && i < r->count; i++)
		free(r->target[i].chain);
	free(r->target);
	free(r->place);
	mt_dwarf_index_done(&r->index);
	mt_symtab_done(&r->symtab);
	mt_map_done(&r->demangled);
	dwfl_end(r->dwfl);
}

int mt_symmod_resolve(struct mt_symmod *m, const uint64_t *vaddr, size_t count, const int *stop,
		      struct mt_symset *set, bool *ret_cacheable)
{
	struct resolver r = {.m = m, .count = count, .stop = stop, .set = set};
	int e = prepare(&r, vaddr);
	if (!e)
		e = resolve_all(&r);
	mt_symset_sort(set);
	*ret_cacheable = !e && !r.incomplete;
	release(&r);
	return e;
}
