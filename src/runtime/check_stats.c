/* SPDX-License-Identifier: MIT */
/*
 * The allocator's own figures. Only functions that write into our memory, or call us back, are
 * asked: what prints through stdio (malloc_stats, malloc_info) takes locks that the caller of
 * malloc may hold.
 */
#include "runtime/check_stats.h"

#include "core/fmt.h"
#include "core/mem.h"
#include "runtime/lock.h"
#include "runtime/log.h"
#include "runtime/provider.h"

enum { TEXT_BYTES = 32768 };

/* too large for small stacks; guarded by text_lock */
static char text[TEXT_BYTES];
static uint32_t text_lock;

/* A function of the module that malloc is in, or NULL. */
static void *find_beside_malloc(const char *name)
{
	void *f = mt_provider_find(name);
	const struct mt_module_list *list = mt_unwind.modules;
	if (!f || mt_module_list_find(list, (uintptr_t)f) !=
			  mt_module_list_find(list, mt_provider.malloc_address))
		return NULL;
	return f;
}

static void append(void *f, const char *part)
{
	mt_fmt_str(f, part);
}

static void append_reversed(const char *part, void *f)
{
	mt_fmt_str(f, part);
}

/* Each returns 1 when this is the allocator. */

static int ask_jemalloc(struct mt_fmt *f)
{
	typedef void function(void (*)(void *, const char *), void *, const char *);
	function *print = (function *)find_beside_malloc("malloc_stats_print");
	if (!print)
		print = (function *)find_beside_malloc("je_malloc_stats_print");
	if (print)
		print(append, f, "gblxe"); /* not its build, bins, large sizes, locks, extents */
	return print != NULL;
}

static int ask_mimalloc(struct mt_fmt *f)
{
	typedef void function(void (*)(const char *, void *), void *);
	function *print = (function *)find_beside_malloc("mi_stats_print_out");
	if (print)
		print(append_reversed, f);
	return print != NULL;
}

static int ask_tcmalloc(struct mt_fmt *f)
{
	typedef void function(char *, int);
	function *get = (function *)find_beside_malloc("MallocExtension_GetStats");
	if (!get)
		return 0;
	get(text, TEXT_BYTES);
	text[TEXT_BYTES - 1] = 0;
	f->at = text + mt_str_len(text);
	return 1;
}

static void put(struct mt_fmt *f, const char *name, uint64_t value)
{
	mt_fmt_str(f, name);
	mt_fmt_u64(f, value);
}

static int ask_glibc(struct mt_fmt *f)
{
	struct info { /* struct mallinfo2 */
		size_t arena, free_chunks, fast_chunks, mapped, mapped_bytes, unused, fast_bytes,
			used_bytes, free_bytes, top_bytes;
	};
	typedef struct info function(void);
	function *get = (function *)find_beside_malloc("mallinfo2");
	if (!get)
		return 0;
	struct info i = get();
	put(f, "glibc malloc: bytes in arenas ", i.arena);
	put(f, ", of these used ", i.used_bytes);
	put(f, ", free ", i.free_bytes);
	put(f, " in chunks ", i.free_chunks + i.fast_chunks);
	put(f, ", trimmable ", i.top_bytes);
	put(f, "; bytes mapped ", i.mapped_bytes);
	put(f, " in blocks ", i.mapped);
	return 1;
}

void mt_check_stats_log(void)
{
	struct mt_fmt f;
	mt_log(MT_LOG_INFO, "Logging allocator stats...");
	if (!mt_lock(&text_lock))
		return;
	mt_fmt_init(&f, text, sizeof(text));
	if (!ask_glibc(&f) && !ask_jemalloc(&f) && !ask_mimalloc(&f) && !ask_tcmalloc(&f))
		mt_fmt_str(&f, "the allocator tells no figures");
	while (f.at > text && f.at[-1] == '\n')
		*--f.at = 0;
	mt_log(MT_LOG_INFO, text);
	mt_unlock(&text_lock);
}
