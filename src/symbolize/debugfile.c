/* SPDX-License-Identifier: MIT */
/*
 * The search for a module's files. Every candidate is opened once, checked on that descriptor, and
 * the descriptor is what the reader gets: a file that is replaced meanwhile cannot slip in. What
 * always holds: a file whose build-id contradicts the recorded one is never used.
 */
#include "symbolize/debugfile.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/path.h"

#include <elfutils/libdwelf.h>
#include <gelf.h>
#include <libelf.h>
#include <zlib.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ID_MAX = 64, DEBUGLINK_NAME_MAX = 4096, PAGE_BYTES = 4096 };

/* What a candidate is checked against. */
struct search {
	const struct mt_debugfile_options *options;
	const struct mt_debugfile_key *key;
	const uint8_t *id; /* the build-id it must have; NULL: any */
	uint32_t id_bytes;
	const struct stat
		*exclude; /* not this file; it must have symbols: NULL for the module itself */
	bool use_crc;
	uint32_t crc; /* of the whole file, if use_crc */
	struct mt_debugfile found;
	int error; /* -ENOMEM ends the search */
};

struct elf_facts {
	bool is_elf, has_dwarf, has_symtab;
	uint32_t id_bytes;
	uint8_t id[ID_MAX];
	char debuglink[DEBUGLINK_NAME_MAX];
	uint32_t debuglink_crc;
	char altlink[DEBUGLINK_NAME_MAX];
	uint32_t alt_id_bytes;
	uint8_t alt_id[ID_MAX];
};

void mt_debugfile_done(struct mt_debugfile *file)
{
	if (!file)
		return;
	if (file->fd >= 0)
		close(file->fd);
	free(file->path);
	*file = MT_DEBUGFILE_NONE;
}

/* .gnu_debugaltlink: a name, a NUL, a build-id. */
static void read_altlink(Elf_Scn *scn, struct elf_facts *facts)
{
	Elf_Data *data = elf_rawdata(scn, NULL);
	if (!data || !data->d_buf)
		return;
	size_t len = strnlen(data->d_buf, data->d_size);
	if (len == data->d_size || len >= sizeof(facts->altlink))
		return;
	size_t id_bytes = data->d_size - len - 1;
	if (!id_bytes || id_bytes > ID_MAX)
		return;
	memcpy(facts->altlink, data->d_buf, len + 1);
	memcpy(facts->alt_id, (const char *)data->d_buf + len + 1, id_bytes);
	facts->alt_id_bytes = (uint32_t)id_bytes;
}

static void read_sections(Elf *elf, struct elf_facts *facts)
{
	size_t strings;
	if (elf_getshdrstrndx(elf, &strings))
		return;
	for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
		GElf_Shdr mem, *sh = gelf_getshdr(scn, &mem);
		const char *name = sh ? elf_strptr(elf, strings, sh->sh_name) : NULL;
		if (!name || sh->sh_type == SHT_NOBITS)
			continue;
		if (!strcmp(name, ".debug_info") || !strcmp(name, ".zdebug_info"))
			facts->has_dwarf |= sh->sh_size > 0;
		else if (sh->sh_type == SHT_SYMTAB)
			facts->has_symtab = true;
		else if (!strcmp(name, ".gnu_debugaltlink"))
			read_altlink(scn, facts);
	}
}

/* Reads with pread, not through a mapping: a file that shrinks meanwhile must not raise SIGBUS
 * here. */
static void read_facts(int fd, struct elf_facts *facts)
{
	memset(facts, 0, sizeof(*facts));
	elf_version(EV_CURRENT);
	Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
	GElf_Ehdr ehdr;
	if (elf && elf_kind(elf) == ELF_K_ELF && gelf_getehdr(elf, &ehdr) &&
	    (ehdr.e_type == ET_EXEC || ehdr.e_type == ET_DYN)) {
		facts->is_elf = true;
		const void *id;
		ssize_t id_bytes = dwelf_elf_gnu_build_id(elf, &id);
		if (id_bytes > 1 && id_bytes <= ID_MAX) {
			memcpy(facts->id, id, (size_t)id_bytes);
			facts->id_bytes = (uint32_t)id_bytes;
		}
		GElf_Word crc = 0;
		const char *link = dwelf_elf_gnu_debuglink(elf, &crc);
		if (link && *link && strlen(link) < sizeof(facts->debuglink)) {
			memcpy(facts->debuglink, link, strlen(link) + 1);
			facts->debuglink_crc = crc;
		}
		read_sections(elf, facts);
	}
	elf_end(elf);
}

void mt_debugfile_segments(const struct mt_debugfile *file, struct mt_debugfile_segment *ret,
			   uint32_t max, uint32_t *ret_count)
{
	size_t headers = 0;
	*ret_count = 0;
	elf_version(EV_CURRENT);
	Elf *elf = elf_begin(file->fd, ELF_C_READ, NULL);
	if (!elf || elf_getphdrnum(elf, &headers))
		headers = 0;
	for (size_t i = 0; i < headers && *ret_count < max; i++) {
		GElf_Phdr mem, *ph = gelf_getphdr(elf, (int)i, &mem);
		if (ph && ph->p_type == PT_LOAD)
			ret[(*ret_count)++] = (struct mt_debugfile_segment){
				ph->p_offset, ph->p_filesz, ph->p_vaddr};
	}
	elf_end(elf);
}

uint64_t mt_debugfile_vaddr(const struct mt_debugfile_segment *segment, uint32_t count,
			    uint64_t offset, uint64_t from_base)
{
	const uint64_t page = ~(uint64_t)(PAGE_BYTES - 1);
	for (uint32_t i = 0; i < count; i++) {
		const struct mt_debugfile_segment *s = &segment[i];
		/* whole pages are mapped, so an offset may lie before the segment */
		if (offset >= (s->offset & page) && offset < s->offset + s->file_bytes)
			return offset - s->offset + s->vaddr;
	}
	return from_base + (count ? segment[0].vaddr & page : 0);
}

int mt_debugfile_has_dwarf(const struct mt_debugfile *file)
{
	mt_auto(free) struct elf_facts *facts = mt_alloc(sizeof(*facts));
	if (!facts)
		return -ENOMEM;
	read_facts(file->fd, facts);
	return facts->has_dwarf;
}

/* .gnu_debuglink holds the CRC-32 of zlib. */
static bool crc_matches(struct search *s, int fd)
{
	enum { CHUNK = 65536 };
	mt_auto(free) uint8_t *chunk = mt_alloc(CHUNK);
	uLong crc = crc32(0, NULL, 0);
	if (!chunk)
		s->error = -ENOMEM;
	off_t at = 0;
	for (;;) {
		ssize_t n = chunk ? pread(fd, chunk, CHUNK, at) : -1;
		if (n < 0)
			return false;
		if (!n)
			return crc == s->crc;
		crc = crc32(crc, chunk, (uInt)n);
		at += n;
	}
}

static bool id_matches(const struct search *s, const struct elf_facts *facts)
{
	return !s->id || (facts->id_bytes == s->id_bytes && !memcmp(facts->id, s->id, s->id_bytes));
}

/* Opens without side effects (no waiting for a FIFO, no controlling terminal); fd or -1. */
static int open_regular(const char *path, struct stat *ret_stat)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd >= 0 && (fstat(fd, ret_stat) || !S_ISREG(ret_stat->st_mode))) {
		close(fd);
		errno = EACCES;
		return -1;
	}
	return fd;
}

static bool accepts(struct search *s, int fd, const struct stat *st, const struct elf_facts *facts)
{
	if (!facts->is_elf)
		return false;
	if (s->exclude) {
		if (st->st_dev == s->exclude->st_dev && st->st_ino == s->exclude->st_ino)
			return false;
		if (!facts->has_dwarf && !facts->has_symtab)
			return false;
	}
	return s->use_crc ? crc_matches(s, fd) : id_matches(s, facts);
}

static bool take(struct search *s, char *path, int fd)
{
	struct stat st;
	mt_auto(free) struct elf_facts *facts = mt_alloc(sizeof(*facts));
	if (!facts) {
		s->error = -ENOMEM;
	} else if (!fstat(fd, &st)) {
		read_facts(fd, facts);
		if (accepts(s, fd, &st, facts)) {
			s->found = (struct mt_debugfile){.path = path, .fd = fd, .stat = st};
			return true;
		}
	}
	close(fd);
	free(path);
	return false;
}

/* One candidate. `path` is a heap string that is given away; NULL: no memory. True when found. */
static bool try_path(struct search *s, char *path)
{
	if (!path) {
		s->error = -ENOMEM;
		return false;
	}
	struct stat st;
	int fd = open_regular(path, &st);
	if (fd < 0) {
		free(path);
		return false;
	}
	return take(s, path, fd);
}

static char *id_path(const char *dir, const char *middle, const struct search *s, const char *end)
{
	struct mt_buf b = {0};
	mt_buf_printf(&b, "%s%s%02x/", dir, middle, s->id[0]);
	for (uint32_t i = 1; i < s->id_bytes; i++)
		mt_buf_printf(&b, "%02x", s->id[i]);
	mt_buf_adds(&b, end);
	return mt_buf_steal(&b, NULL);
}

/* DIR/.build-id/ab/cdef, and the same without .build-id for a directory that is one. */
static bool try_build_id(struct search *s, const char *dir)
{
	static const char *const middle[] = {"/.build-id/", "/"};
	static const char *const end[] = {".debug", ""};
	if (!s->id)
		return false;
	for (size_t i = 0; i < 4; i++)
		if (s->error || try_path(s, id_path(dir, middle[i / 2], s, end[i % 2])))
			return !s->error;
	return false;
}

static char *join3(const char *a, const char *b, const char *c)
{
	struct mt_buf buf = {0};
	mt_buf_adds(&buf, a);
	mt_buf_adds(&buf, b);
	mt_buf_adds(&buf, c);
	return mt_buf_steal(&buf, NULL);
}

/* True when a component is "..": a recorded path must not lead out of the directory. */
static bool has_dot_dot(const char *path)
{
	for (const char *p = path; (p = strstr(p, "..")); p += 2)
		if ((p == path || p[-1] == '/') && (!p[2] || p[2] == '/'))
			return true;
	return false;
}

/* The kernel marks the path of a removed file. */
static char *without_deleted(const char *path)
{
	static const char mark[] = " (deleted)";
	size_t len = strlen(path), mark_len = sizeof(mark) - 1;
	char *copy = join3(path, "", "");
	if (copy && len > mark_len && !strcmp(path + len - mark_len, mark))
		copy[len - mark_len] = '\0';
	return copy;
}

/* DIR/usr/lib/x.so, DIR/lib/x.so, DIR/x.so, each also with ".debug" behind it. */
static bool try_suffixes(struct search *s, const char *dir)
{
	mt_auto(free) char *path = without_deleted(s->key->path);
	if (!path)
		s->error = -ENOMEM;
	if (!path || !*path || *path == '[' || has_dot_dot(path))
		return false;
	if (*path != '/')
		return try_path(s, join3(dir, "/", path));
	for (const char *rest = path; rest; rest = strchr(rest + 1, '/')) {
		if (!rest[1])
			break;
		if (try_path(s, join3(dir, rest, "")) || try_path(s, join3(dir, rest, ".debug")))
			return true;
		if (s->error)
			break;
	}
	return false;
}

static bool try_dirs(struct search *s)
{
	for (uint32_t i = 0; i < s->options->dir_count; i++)
		if (try_build_id(s, s->options->dirs[i]) || try_suffixes(s, s->options->dirs[i]))
			return true;
	return false;
}

static const char *debug_root(const struct mt_debugfile_options *options)
{
	return options->debug_root ? options->debug_root : "/usr/lib/debug";
}

static _Thread_local const int *stop_of_fetch;

/* debuginfod's client asks about once a second, in the thread that waits for the answer. */
static int must_stop(void *client, long done, long total)
{
	return stop_of_fetch && __atomic_load_n(stop_of_fetch, __ATOMIC_RELAXED);
}

/*
 * debuginfod's client library is loaded only here, only when asked: it brings in an HTTP client,
 * and programs that read no symbols from the network should not have one.
 */
static bool try_debuginfod(struct search *s)
{
	typedef void *begin_fn(void);
	typedef int find_fn(void *, const unsigned char *, int, char **);
	typedef void end_fn(void *);
	typedef void ask_fn(void *, int (*)(void *, long, long));
	if (!s->options->debuginfod || !s->id || s->error)
		return false;
	void *lib = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!lib)
		return false;
	/* the handle is kept: curl registers things that must not be unmapped */
	begin_fn *begin = (begin_fn *)dlsym(lib, "debuginfod_begin");
	find_fn *find = (find_fn *)dlsym(lib, "debuginfod_find_debuginfo");
	end_fn *end = (end_fn *)dlsym(lib, "debuginfod_end");
	ask_fn *ask = (ask_fn *)dlsym(lib, "debuginfod_set_progressfn");
	void *client = begin && find && end ? begin() : NULL;
	if (!client)
		return false;
	stop_of_fetch = s->options->stop;
	if (ask)
		ask(client, must_stop);
	char *path = NULL;
	int fd = find(client, s->id, (int)s->id_bytes, &path);
	end(client);
	if (fd < 0) {
		free(path);
		return false;
	}
	return take(s, path, fd);
}

/* The recorded path itself. */
static enum mt_debugfile_state try_recorded(struct search *s)
{
	if (s->key->path[0] != '/')
		return MT_DEBUGFILE_NO_PATH;
	mt_auto(free) char *path = without_deleted(s->key->path);
	mt_auto(free) struct elf_facts *facts = mt_alloc(sizeof(*facts));
	if (!path || !facts) {
		s->error = -ENOMEM;
		return MT_DEBUGFILE_MISSING;
	}
	struct stat st;
	int fd = open_regular(path, &st);
	if (fd < 0)
		return errno == EACCES ? MT_DEBUGFILE_NOT_ELF : MT_DEBUGFILE_MISSING;
	enum mt_debugfile_state state = MT_DEBUGFILE_OK;
	read_facts(fd, facts);
	if (!facts->is_elf)
		state = MT_DEBUGFILE_NOT_ELF;
	else if (!id_matches(s, facts))
		state = MT_DEBUGFILE_CHANGED;
	else if (!s->id && s->key->inode && st.st_ino != s->key->inode)
		state = MT_DEBUGFILE_CHANGED;
	if (state != MT_DEBUGFILE_OK) {
		close(fd);
		return state;
	}
	s->found = (struct mt_debugfile){.path = path, .fd = fd, .stat = st};
	path = NULL;
	return state;
}

static int search_end(struct search *s, bool found, struct mt_debugfile *ret_file)
{
	if (found) {
		*ret_file = s->found;
		return 0;
	}
	return s->error ? s->error : -ENOENT;
}

static struct search search_of(const struct mt_debugfile_options *options,
			       const struct mt_debugfile_key *key)
{
	return (struct search){
		.options = options,
		.key = key,
		.id = key->build_id_bytes ? key->build_id : NULL,
		.id_bytes = key->build_id_bytes,
		.found = MT_DEBUGFILE_NONE,
	};
}

int mt_debugfile_open_main(const struct mt_debugfile_options *options,
			   const struct mt_debugfile_key *key, struct mt_debugfile *ret_file,
			   enum mt_debugfile_state *ret_state)
{
	struct search s = search_of(options, key);
	bool found = !key->build_id_bytes && !key->inode && try_dirs(&s);
	*ret_state = MT_DEBUGFILE_OK;
	if (!found && !s.error) {
		*ret_state = try_recorded(&s);
		found = *ret_state == MT_DEBUGFILE_OK;
	}
	/* with neither a name nor an id there is nothing to look for */
	if (!found && !s.error)
		found = try_dirs(&s) || (!s.error && try_build_id(&s, debug_root(options))) ||
			try_debuginfod(&s);
	return search_end(&s, found, ret_file);
}

/* The places that gdb looks in: beside the file, in .debug beside it, under the debug root. */
static bool try_debuglink(struct search *s, const char *main_path, const struct elf_facts *facts)
{
	mt_auto(free) char *dir = mt_path_dir(main_path);
	if (!facts->debuglink[0] || strchr(facts->debuglink, '/'))
		return false;
	if (!dir) {
		s->error = -ENOMEM;
		return false;
	}
	mt_auto(free) char *hidden = join3(dir, "/.debug", "");
	mt_auto(free) char *global =
		join3(debug_root(s->options), "/", dir[0] == '/' ? dir + 1 : dir);
	const char *const places[] = {dir, hidden, global};
	s->use_crc = true;
	s->crc = facts->debuglink_crc;
	bool found = false;
	for (size_t i = 0; i < MT_ARRAY_LEN(places) && !found && !s->error; i++)
		found = try_path(s, places[i] ? join3(places[i], "/", facts->debuglink) : NULL);
	s->use_crc = false;
	return found;
}

int mt_debugfile_open_debug(const struct mt_debugfile_options *options,
			    const struct mt_debugfile_key *key, const struct mt_debugfile *main,
			    struct mt_debugfile *ret_file)
{
	mt_auto(free) struct elf_facts *facts = mt_alloc(sizeof(*facts));
	if (!facts)
		return -ENOMEM;
	read_facts(main->fd, facts);
	struct search s = search_of(options, key);
	s.exclude = &main->stat;
	if (facts->id_bytes) {
		s.id = facts->id;
		s.id_bytes = facts->id_bytes;
	}
	bool found = try_dirs(&s) || (!s.error && try_build_id(&s, debug_root(options))) ||
		     (!s.error && try_debuglink(&s, main->path, facts)) || try_debuginfod(&s);
	return search_end(&s, found, ret_file);
}

int mt_debugfile_open_alt(const struct mt_debugfile_options *options,
			  const struct mt_debugfile *user, struct mt_debugfile *ret_file)
{
	mt_auto(free) struct elf_facts *facts = mt_alloc(sizeof(*facts));
	if (!facts)
		return -ENOMEM;
	read_facts(user->fd, facts);
	if (!facts->alt_id_bytes)
		return -ENOENT;
	const struct mt_debugfile_key key = {
		.path = "", .build_id = facts->alt_id, .build_id_bytes = facts->alt_id_bytes};
	struct search s = search_of(options, &key);
	mt_auto(free) char *dir = mt_path_dir(user->path);
	bool found = false;
	if (facts->altlink[0] == '/')
		found = try_path(&s, join3(facts->altlink, "", ""));
	else if (facts->altlink[0])
		found = try_path(&s, dir ? join3(dir, "/", facts->altlink) : NULL);
	/* the common place of Debian and Fedora, when the link was made for another root */
	const char *base = mt_path_base(facts->altlink);
	if (!found && !s.error)
		found = try_path(&s, join3(debug_root(options), "/.dwz/", base));
	for (uint32_t i = 0; i < options->dir_count && !found && !s.error; i++)
		found = try_build_id(&s, options->dirs[i]) ||
			try_path(&s, join3(options->dirs[i], "/.dwz/", base));
	if (!found && !s.error)
		found = try_build_id(&s, debug_root(options)) || try_debuginfod(&s);
	return search_end(&s, found, ret_file);
}
