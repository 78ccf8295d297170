/* SPDX-License-Identifier: MIT */
/*
 * The symbol cache's files. The reader trusts nothing: the hash catches damage, and every count,
 * string number and order is checked for files that were made up on purpose.
 */
#include "symbolize/symcache.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VERSION = 1, ENTRY_BYTES = 16, FRAME_BYTES = 32 };
static const char magic[8] = {'M', 'T', 'S', 'Y', 'M', 'B', 'O', 'L'};
static const char file_end[] = ".symbols";

/* ---- bytes ---- */

static void put_u32(struct mt_buf *b, uint32_t v)
{
	const uint8_t bytes[4] = {(uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16),
				  (uint8_t)(v >> 24)};
	mt_buf_add(b, bytes, sizeof(bytes));
}

static void put_u64(struct mt_buf *b, uint64_t v)
{
	put_u32(b, (uint32_t)v);
	put_u32(b, (uint32_t)(v >> 32));
}

static uint32_t get_u32(const uint8_t *p)
{
	return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t get_u64(const uint8_t *p)
{
	return get_u32(p) | (uint64_t)get_u32(p + 4) << 32;
}

/* Frames follow each other in the order of entries, which need not be that of set->frame. */
static void put_body(const struct mt_symset *set, struct mt_buf *b)
{
	for (size_t i = 0; i < set->entries; i++) {
		put_u64(b, set->entry[i].vaddr);
		put_u32(b, set->entry[i].count);
		put_u32(b, 0);
	}
	for (size_t i = 0; i < set->entries; i++) {
		for (uint32_t k = 0; k < set->entry[i].count; k++) {
			const struct mt_symset_frame *f = &set->frame[set->entry[i].first + k];
			const uint32_t words[] = {f->function, f->mangled, f->file,
						  f->line,     f->column,  f->flags};
			for (size_t w = 0; w < MT_ARRAY_LEN(words); w++)
				put_u32(b, words[w]);
			put_u64(b, f->offset);
		}
	}
}

static uint32_t put_strings(const struct mt_symset *set, struct mt_buf *b)
{
	const size_t before = b->len;
	for (uint32_t i = 1; i <= set->strings.count; i++) {
		const char *text = mt_strings_get(&set->strings, i);
		mt_buf_add(b, text, strlen(text) + 1);
	}
	return (uint32_t)(b->len - before);
}

int mt_symcache_encode(const struct mt_symset *set, uint64_t identity, struct mt_buf *out)
{
	mt_auto(mt_buf) struct mt_buf body = {0};
	size_t frames = 0;
	for (size_t i = 0; i < set->entries; i++)
		frames += set->entry[i].count;
	if (set->entries > MT_SYMCACHE_FILE_MAX / ENTRY_BYTES ||
	    frames > MT_SYMCACHE_FILE_MAX / FRAME_BYTES)
		return -EFBIG;
	put_body(set, &body);
	uint32_t string_bytes = put_strings(set, &body);
	if (body.failed)
		return -ENOMEM;
	if (body.len > MT_SYMCACHE_FILE_MAX - MT_SYMCACHE_HEADER_BYTES)
		return -EFBIG;
	mt_buf_add(out, magic, sizeof(magic));
	put_u32(out, VERSION);
	put_u32(out, MT_SYMCACHE_HEADER_BYTES);
	put_u64(out, identity);
	put_u32(out, (uint32_t)set->entries);
	put_u32(out, (uint32_t)frames);
	put_u32(out, set->strings.count);
	put_u32(out, string_bytes);
	put_u64(out, mt_hash_bytes(mt_buf_text(&body), body.len, identity));
	mt_buf_add(out, mt_buf_text(&body), body.len);
	return out->failed ? -ENOMEM : 0;
}

/* ---- decoding ---- */

struct header {
	uint32_t entries, frames, strings, string_bytes;
};

static bool read_header(const uint8_t *p, size_t len, uint64_t identity, struct header *ret_header)
{
	if (len < MT_SYMCACHE_HEADER_BYTES || len > MT_SYMCACHE_FILE_MAX ||
	    memcmp(p, magic, sizeof(magic)))
		return false;
	if (get_u32(p + 8) != VERSION || get_u32(p + 12) != MT_SYMCACHE_HEADER_BYTES ||
	    get_u64(p + 16) != identity)
		return false;
	struct header h = {.entries = get_u32(p + 24),
			   .frames = get_u32(p + 28),
			   .strings = get_u32(p + 32),
			   .string_bytes = get_u32(p + 36)};
	uint64_t need = (uint64_t)h.entries * ENTRY_BYTES + (uint64_t)h.frames * FRAME_BYTES +
			h.string_bytes;
	const size_t body = len - MT_SYMCACHE_HEADER_BYTES;
	if (need != body || h.strings > h.string_bytes)
		return false;
	*ret_header = h;
	return get_u64(p + 40) == mt_hash_bytes(p + MT_SYMCACHE_HEADER_BYTES, body, identity);
}

/* Every string once, none empty: then the numbers come out as they were. */
static int read_strings(const char *text, const struct header *h, struct mt_symset *set)
{
	size_t left = h->string_bytes;
	for (uint32_t i = 1; i <= h->strings; i++) {
		size_t len = strnlen(text, left);
		uint32_t number;
		if (!len || len == left)
			return -EBADMSG;
		int r = mt_strings_intern(&set->strings, text, len, &number);
		if (r || number != i)
			return r ? r : -EBADMSG;
		text += len + 1;
		left -= len + 1;
	}
	return left ? -EBADMSG : 0;
}

static int read_frame(const uint8_t *p, const struct header *h, struct mt_symset *set)
{
	const struct mt_symset_frame f = {
		.function = get_u32(p),
		.mangled = get_u32(p + 4),
		.file = get_u32(p + 8),
		.line = get_u32(p + 12),
		.column = get_u32(p + 16),
		.flags = get_u32(p + 20),
		.offset = get_u64(p + 24),
	};
	if (f.function > h->strings || f.mangled > h->strings || f.file > h->strings)
		return -EBADMSG;
	if (f.flags & ~(uint32_t)MT_SYMSET_FLAGS_ALL)
		return -EBADMSG;
	return mt_symset_add_frame(set, &f);
}

static int read_body(const uint8_t *p, const struct header *h, struct mt_symset *set)
{
	const uint8_t *frame = p + (size_t)h->entries * ENTRY_BYTES;
	uint32_t left = h->frames;
	int r = read_strings((const char *)frame + (size_t)h->frames * FRAME_BYTES, h, set);
	for (uint32_t i = 0; i < h->entries && !r; i++, p += ENTRY_BYTES) {
		uint64_t vaddr = get_u64(p);
		uint32_t count = get_u32(p + 8);
		if (count > left || (i && vaddr <= set->entry[i - 1].vaddr))
			return -EBADMSG;
		left -= count;
		r = mt_symset_add_entry(set, vaddr);
		for (; count && !r; count--, frame += FRAME_BYTES)
			r = read_frame(frame, h, set);
	}
	return r ? r : left ? -EBADMSG : 0;
}

int mt_symcache_decode(const void *data, size_t len, uint64_t identity, struct mt_symset *set)
{
	struct header h;
	if (!read_header(data, len, identity, &h))
		return -EBADMSG;
	int r = read_body((const uint8_t *)data + MT_SYMCACHE_HEADER_BYTES, &h, set);
	if (r)
		mt_symset_done(set);
	return r;
}

/* ---- files ---- */

/* A directory that others can write to could give us any names. */
static bool is_safe(const char *dir)
{
	struct stat st;
	return !lstat(dir, &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
	       !(st.st_mode & (S_IWGRP | S_IWOTH));
}

char *mt_symcache_dir(const char *dir)
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	char *path = NULL;
	if (dir)
		path = mt_path_join("", dir);
	else if (cache && *cache == '/')
		path = mt_path_join(cache, "memtrack");
	else if (home && *home == '/' && !access(home, X_OK)) /* no home is made for who has none */
		path = mt_path_join(home, ".cache/memtrack");
	if (path && !mt_path_make_dirs(path, 0700, NULL) && is_safe(path))
		return path;
	free(path);
	return NULL;
}

static char *file_path(const char *dir, const struct mt_symcache_key *key)
{
	struct mt_buf b = {0};
	mt_buf_printf(&b, "%s/", dir);
	for (uint32_t i = 0; i < key->build_id_bytes; i++)
		mt_buf_printf(&b, "%02x", key->build_id[i]);
	mt_buf_printf(&b, "-%016llx%s", (unsigned long long)key->identity, file_end);
	return mt_buf_steal(&b, NULL);
}

int mt_symcache_load(const char *dir, const struct mt_symcache_key *key, struct mt_symset *set)
{
	mt_auto(free) char *path = file_path(dir, key);
	mt_auto(free) char *data = NULL;
	size_t len;
	if (!path)
		return -ENOMEM;
	mt_auto(close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode))
		return -ENOENT;
	int r = mt_file_read_fd(fd, path, MT_SYMCACHE_FILE_MAX, &data, &len, NULL);
	if (!r)
		r = mt_symcache_decode(data, len, key->identity, set);
	if (r)
		return r == -ENOMEM ? r : -ENOENT;
	futimens(fd, NULL); /* used now: the last to be removed */
	return 0;
}

int mt_symcache_store(const char *dir, const struct mt_symcache_key *key,
		      const struct mt_symset *set)
{
	mt_auto(mt_buf) struct mt_buf b = {0};
	mt_auto(free) char *path = file_path(dir, key);
	int r = path ? mt_symcache_encode(set, key->identity, &b) : -ENOMEM;
	return r ? r : mt_file_write_atomic(path, mt_buf_text(&b), b.len, 0600, NULL);
}

struct old_file {
	char *name;
	uint64_t bytes;
	struct timespec used;
};

static int compare_age(const void *a, const void *b)
{
	const struct old_file *x = a, *y = b;
	if (x->used.tv_sec != y->used.tv_sec)
		return x->used.tv_sec > y->used.tv_sec ? 1 : -1;
	if (x->used.tv_nsec != y->used.tv_nsec)
		return x->used.tv_nsec > y->used.tv_nsec ? 1 : -1;
	return strcmp(x->name, y->name);
}

static bool is_ours(const char *name)
{
	size_t len = strlen(name), end = sizeof(file_end) - 1;
	return len > end && !strcmp(name + len - end, file_end);
}

static void add_file(int fd, const char *name, struct old_file **file, size_t *count, size_t *cap)
{
	struct stat st;
	if (!is_ours(name) || fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
		return;
	struct old_file *grown = mt_alloc_grow(*file, cap, *count + 1, sizeof(*grown));
	char *copy = mt_path_join("", name);
	if (grown)
		*file = grown;
	if (!grown || !copy) {
		free(copy);
		return;
	}
	grown[(*count)++] =
		(struct old_file){.name = copy, .bytes = (uint64_t)st.st_size, .used = st.st_mtim};
}

void mt_symcache_prune(const char *dir, uint64_t max_bytes)
{
	struct old_file *file = NULL;
	size_t count = 0, cap = 0;
	uint64_t total = 0;
	DIR *d = opendir(dir);
	if (!d)
		return;
	for (struct dirent *e; (e = readdir(d));)
		add_file(dirfd(d), e->d_name, &file, &count, &cap);
	if (count)
		qsort(file, count, sizeof(*file), compare_age);
	for (size_t i = 0; i < count; i++)
		total += file[i].bytes;
	for (size_t i = 0; i < count; i++) {
		if (total > max_bytes && !unlinkat(dirfd(d), file[i].name, 0))
			total -= file[i].bytes;
		free(file[i].name);
	}
	free(file);
	closedir(d);
}
