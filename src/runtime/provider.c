/* SPDX-License-Identifier: MIT */
/* Resolution of the originals by our own walk over ELF symbol tables. */
#include "runtime/provider.h"

#include "core/fmt.h"
#include "core/mem.h"
#include "core/sys.h"
#include "elf/loader.h"
#include "runtime/lock.h"

struct mt_originals mt_original[MT_FAMILY_COUNT];
struct mt_system_originals mt_system;
void *mt_cxx_original[MT_CXX_COUNT];
uint8_t mt_cxx_own[MT_CXX_COUNT];
struct mt_provider_info mt_provider;

#ifndef MT_BUILD_WRAP
enum { ORDER_MAX = 1024, NAME_MAX_BYTES = 64 };

/* Our dynamic section: how the loader's list names us. */
extern const Elf64_Dyn _DYNAMIC[] MT_HIDDEN;

static const char *const malloc_names[] = {
	"malloc",
	"free",
	"calloc",
	"realloc",
	"reallocarray",
	"posix_memalign",
	"memalign",
	"aligned_alloc",
	"valloc",
	"pvalloc",
	"cfree",
	"free_sized",
	"free_aligned_sized",
	"malloc_usable_size",
	"nallocx",
};
_Static_assert(sizeof(malloc_names) / sizeof(malloc_names[0]) ==
		       sizeof(struct mt_originals) / sizeof(void *),
	       "a name for each original");

static const char *const prefixes[MT_FAMILY_COUNT] = {"", "je_", "mi_", "tc_"};

/* new: throwing, nothrow, aligned, aligned nothrow, each single and array; then the deletes. */
static const char *const cxx_names[MT_CXX_COUNT] = {
	"_Znwm",
	"_Znam",
	"_ZnwmRKSt9nothrow_t",
	"_ZnamRKSt9nothrow_t",
	"_ZnwmSt11align_val_t",
	"_ZnamSt11align_val_t",
	"_ZnwmSt11align_val_tRKSt9nothrow_t",
	"_ZnamSt11align_val_tRKSt9nothrow_t",
	"_ZdlPv",
	"_ZdaPv",
	"_ZdlPvm",
	"_ZdaPvm",
	"_ZdlPvRKSt9nothrow_t",
	"_ZdaPvRKSt9nothrow_t",
	"_ZdlPvSt11align_val_t",
	"_ZdaPvSt11align_val_t",
	"_ZdlPvmSt11align_val_t",
	"_ZdaPvmSt11align_val_t",
	"_ZdlPvSt11align_val_tRKSt9nothrow_t",
	"_ZdaPvSt11align_val_tRKSt9nothrow_t",
	/* sized nothrow forms do not exist in the standard; these two close the set of 22 */
	"_ZdlPvmRKSt9nothrow_t",
	"_ZdaPvmRKSt9nothrow_t",
};

static const char *const system_names[] = {
	"mmap",      "mmap64",   "munmap",      "mremap",          "brk",
	"sbrk",      "fork",     "_Fork",       "execve",          "execvpe",
	"fexecve",   "execveat", "posix_spawn", "posix_spawnp",    "mlockall",
	"setrlimit", "prlimit",  "prctl",       "syscall",         "pthread_setname_np",
	"dlopen",    "dlmopen",  "dlclose",     "dl_iterate_phdr",
};
_Static_assert(sizeof(system_names) / sizeof(system_names[0]) ==
		       sizeof(struct mt_system_originals) / sizeof(void *),
	       "a name for each original");

/* Modules in search order and our own place in it; too large for small stacks, so static. */
static struct search {
	const struct mt_module *order[ORDER_MAX];
	struct mt_module_symbols symbols[ORDER_MAX]; /* of each */
	uint32_t count, self_at;
	const struct mt_module *self;
} search; /* guarded by mt_rt.search_lock */

static void begin_search(struct search *s, const struct mt_module_list *list)
{
	s->count = mt_loader_search_order(list, s->order, ORDER_MAX);
	s->self = mt_module_list_find(list, (uintptr_t)&mt_rt);
	s->self_at = 0;
	for (uint32_t i = 0; i < s->count; i++) {
		mt_module_symbols(s->order[i], &s->symbols[i]);
		if (s->order[i] == s->self)
			s->self_at = i;
	}
}

/* First definition behind us; else (we were loaded late, or a library came later) anywhere. */
static uintptr_t find(const struct search *s, const char *name, const struct mt_module **ret_module)
{
	uint32_t hash = mt_module_name_hash(name);
	for (uint32_t i = s->self_at + 1; i < s->count; i++) {
		uintptr_t at = mt_module_find(&s->symbols[i], name, hash);
		if (at) {
			*ret_module = s->order[i];
			return at;
		}
	}
	for (uint32_t i = 0; i < s->count && i < s->self_at; i++) {
		uintptr_t at = mt_module_find(&s->symbols[i], name, hash);
		if (at) {
			*ret_module = s->order[i];
			return at;
		}
	}
	return 0;
}

/* Has anybody an allocator whose names begin so? */
static int is_here(const struct search *s, const char *prefix)
{
	static const char *const telling[] = {"malloc", "free"};
	const struct mt_module *where;
	for (size_t i = 0; i < MT_ARRAY_LEN(telling); i++) {
		char name[64];
		struct mt_fmt f;
		mt_fmt_init(&f, name, sizeof(name));
		mt_fmt_str(&f, prefix);
		mt_fmt_str(&f, telling[i]);
		if (find(s, name, &where))
			return 1;
	}
	return 0;
}

static void family_name(enum mt_family family, size_t i, char *buf)
{
	struct mt_fmt f;
	mt_fmt_init(&f, buf, NAME_MAX_BYTES);
	mt_fmt_str(&f, prefixes[family]);
	mt_fmt_str(&f, malloc_names[i]);
}

static void resolve_family(const struct search *s, enum mt_family family)
{
	void **slot = (void **)&mt_original[family];
	const struct mt_module *where;
	if (family != MT_FAMILY_PLAIN && !is_here(s, prefixes[family]))
		return;
	for (size_t i = 0; i < MT_ARRAY_LEN(malloc_names); i++) {
		char name[NAME_MAX_BYTES];
		if (__atomic_load_n(&slot[i], __ATOMIC_ACQUIRE))
			continue;
		family_name(family, i, name);
		uintptr_t at = find(s, name, &where);
		if (!at && mt_str_equal(name, "tc_malloc_usable_size"))
			at = find(s, "tc_malloc_size", &where);
		if (at)
			__atomic_store_n(&slot[i], (void *)at, __ATOMIC_RELEASE);
	}
}

static void resolve_cxx(const struct search *s)
{
	const struct mt_module *where, *provider = NULL;
	find(s, "malloc", &provider);
	for (int i = 0; i < MT_CXX_COUNT; i++) {
		if (mt_cxx_original[i])
			continue;
		uintptr_t at = find(s, cxx_names[i], &where);
		if (!at)
			continue;
		mt_cxx_own[i] = where == provider;
		__atomic_store_n(&mt_cxx_original[i], (void *)at, __ATOMIC_RELEASE);
	}
}

static void resolve_system(const struct search *s)
{
	void **slot = (void **)&mt_system;
	const struct mt_module *where;
	for (size_t i = 0; i < MT_ARRAY_LEN(system_names); i++) {
		uintptr_t at = slot[i] ? 0 : find(s, system_names[i], &where);
		if (at)
			__atomic_store_n(&slot[i], (void *)at, __ATOMIC_RELEASE);
	}
}

static int has_part(const char *text, const char *part)
{
	for (; *text; text++)
		if (mt_str_starts(text, part))
			return 1;
	return 0;
}

/* By the names that AddressSanitizer itself goes by. */
static int is_asan(const struct mt_module *m)
{
	return has_part(m->name, "libasan.so") || has_part(m->name, "libclang_rt.asan");
}

static void describe(const struct search *s)
{
	const struct mt_module *provider = NULL, *libc = NULL;
	int glibc = find(s, "gnu_get_libc_version", &libc) != 0;
	mt_provider.malloc_address = find(s, "malloc", &provider);
	mt_provider.libc = glibc ? MT_LIBC_GLIBC : MT_LIBC_UNKNOWN;
	if (!glibc && find(s, "__libc_start_main", &libc))
		mt_provider.libc = MT_LIBC_MUSL;
	/*
	 * glibc's smallest chunk is 32 bytes, musl's smallest slot 16. Others place 8-byte blocks
	 * side by side. Blocks of another allocator that share a granule go to the hash: exact all
	 * the same.
	 */
	if (provider && provider == libc)
		mt_provider.granule_shift = glibc ? 5 : 4;
	else
		mt_provider.granule_shift = 3;
	const struct mt_module *sizes = NULL;
	find(s, "malloc_usable_size", &sizes);
	/* by their layout, which has not changed since chunks have headers, and is checked at work
	 */
	if (!mt_rt.chunk_sizes)
		mt_rt.chunk_sizes = glibc && provider == libc && sizes == libc;
	uint32_t malloc_hash = mt_module_name_hash("malloc");
	uint32_t our_hash = mt_module_name_hash("memtrack_control");
	for (uint32_t i = 0; i < s->self_at; i++) {
		if (mt_module_find(&s->symbols[i], "malloc", malloc_hash))
			mt_provider.program_exports_malloc = 1;
		/* module 0 is the program, which may have the calls of memtrack.h linked in */
		if (i && mt_module_find(&s->symbols[i], "memtrack_control", our_hash))
			mt_provider.is_second = 1;
	}
	const struct mt_module *asan;
	mt_provider.has_asan = find(s, "__asan_init", &asan) != 0;
	/* their allocators know a block by its own address only */
	mt_provider.has_sanitizer = mt_provider.has_asan || find(s, "__tsan_init", &asan) ||
				    find(s, "__lsan_do_leak_check", &asan) ||
				    find(s, "__msan_init", &asan) ||
				    find(s, "__hwasan_init", &asan);
	/* a question about a block that is gone is an error to them, one while they start ends them
	 */
	mt_rt.no_sizes = mt_provider.has_sanitizer;
	mt_provider.asan_follows = s->self_at + 1 < s->count && is_asan(s->order[s->self_at + 1]);
}

/* Which other names the allocator behind the plain family has for its functions. */
static void find_doors(const struct search *s)
{
	static const char *const telling[] = {"mallocx", "je_malloc", "mi_malloc", "tc_malloc"};
	const struct mt_module *provider = NULL, *other;
	uint32_t doors = 0, hidden = 0;
	find(s, "malloc", &provider);
	for (uint32_t i = 0; i < MT_ARRAY_LEN(telling); i++) {
		int is_here = find(s, telling[i], &other) != 0;
		hidden |= is_here && other == provider;
		doors |= (uint32_t)(!is_here || other == provider) << i;
	}
	mt_provider.doors = doors;
	mt_provider.has_hidden = hidden;
}

static void resolve_all(const struct mt_module_list *list)
{
	if (!mt_lock(&mt_rt.search_lock))
		return;
	begin_search(&search, list);
	for (int f = 0; f < MT_FAMILY_COUNT; f++)
		resolve_family(&search, (enum mt_family)f);
	resolve_cxx(&search);
	resolve_system(&search);
	describe(&search);
	mt_unlock(&mt_rt.search_lock);
}

#endif

#ifdef MT_BUILD_WRAP
/* Link-time door: the linker names the originals, no symbol table is searched. */
#include "runtime/wrap.h"

int mt_provider_resolve(void)
{
	mt_wrap_originals(&mt_original[MT_FAMILY_PLAIN]);
	mt_provider.granule_shift = 3;
	mt_provider.libc = MT_LIBC_STATIC;
	mt_provider.malloc_address = (uintptr_t)mt_original[MT_FAMILY_PLAIN].malloc;
	return 0;
}
#else
int mt_provider_resolve(void)
{
	if (__atomic_load_n(&mt_original[MT_FAMILY_PLAIN].malloc, __ATOMIC_ACQUIRE) &&
	    __atomic_load_n(&mt_provider.malloc_address, __ATOMIC_ACQUIRE))
		return 0;
	return mt_provider_search_again();
}
#endif

#ifndef MT_BUILD_WRAP
/* The place of a slot in a table of so many, or -1. */
static long place_in(void *const *slot, const void *table, size_t count)
{
	void *const *first = table;
	return slot >= first && slot < first + count ? (long)(slot - first) : -1;
}

/* Which name a place in our tables is for, perhaps made in buf; "": it is none of theirs. */
static const char *name_of_slot(void *const *slot, char *buf)
{
	enum { NAMES = MT_ARRAY_LEN(malloc_names) };
	long at = place_in(slot, mt_original, MT_FAMILY_COUNT * NAMES);
	if (at >= 0) {
		family_name((enum mt_family)(at / NAMES), (size_t)at % NAMES, buf);
		return buf;
	}
	at = place_in(slot, &mt_system, MT_ARRAY_LEN(system_names));
	if (at >= 0)
		return system_names[at];
	at = place_in(slot, mt_cxx_original, MT_CXX_COUNT);
	return at >= 0 ? cxx_names[at] : "";
}

/*
 * A process that is left alone pays for the functions that it calls, not for all of them, and keeps
 * no lock that a child forked meanwhile would find taken.
 */
void mt_provider_need(void **slot)
{
	char name[NAME_MAX_BYTES];
	if (mt_rt.phase == MT_RT_COLD)
		mt_rt_start_early();
	if (__atomic_load_n(slot, __ATOMIC_ACQUIRE))
		return;
	if (mt_rt.phase == MT_RT_OFF) {
		void *f = (void *)mt_loader_find_behind(_DYNAMIC, name_of_slot(slot, name));
		if (f) {
			__atomic_store_n(slot, f, __ATOMIC_RELEASE);
			return;
		}
	}
	mt_provider_search_again();
}

void *mt_provider_find(const char *name)
{
	const struct mt_module *where;
	uintptr_t at = mt_rt.phase == MT_RT_OFF ? mt_loader_find_behind(_DYNAMIC, name) : 0;
	if (at)
		return (void *)at;
	struct mt_module_list *list = mt_loader_read_modules(NULL);
	if (!list)
		return NULL;
	if (mt_lock(&mt_rt.search_lock)) {
		begin_search(&search, list);
		at = find(&search, name, &where);
		mt_unlock(&mt_rt.search_lock);
	}
	mt_sys_munmap(list, list->map_bytes);
	return (void *)at;
}
#else
void mt_provider_need(void **slot)
{
	(void)slot;
	mt_provider_resolve();
}

void *mt_provider_find(const char *name)
{
	return NULL; /* the program may have no symbol table */
}
#endif

void mt_provider_find_doors(void)
{
#ifndef MT_BUILD_WRAP
	struct mt_module_list *list = mt_loader_read_modules(NULL);
	if (!list)
		return;
	if (mt_lock(&mt_rt.search_lock)) {
		begin_search(&search, list);
		find_doors(&search);
		mt_unlock(&mt_rt.search_lock);
	}
	mt_sys_munmap(list, list->map_bytes);
#endif
}

int mt_provider_search_again(void)
{
#ifdef MT_BUILD_WRAP
	return 0;
#else
	struct mt_module_list *list = mt_loader_read_modules(NULL);
	if (!list)
		return -MT_ENOENT;
	resolve_all(list);
	mt_sys_munmap(list, list->map_bytes);
	return mt_original[MT_FAMILY_PLAIN].malloc ? 0 : -MT_ENOENT;
#endif
}
