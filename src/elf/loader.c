/* SPDX-License-Identifier: MIT */
/*
 * Reads the loader's link map (glibc: _r_debug, musl: _dl_debug_addr, both as <link.h> describes)
 * and turns it into a module list. A static program has no loader: its only module comes from the
 * kernel's auxiliary vector.
 */
#include "elf/loader.h"

#include <link.h>

#include "core/mem.h"
#include "core/sys.h"
#include "core/valgrind.h"

/* Data symbols of the loader or libc; absent ones are NULL. Imports allowed by tools/imports.txt.
 */
extern struct r_debug _r_debug __attribute__((weak));
extern struct r_debug *_dl_debug_addr __attribute__((weak));
extern void *__libc_stack_end __attribute__((weak));
extern char **__environ __attribute__((weak));

enum { MODULES_MAX = 4096, NAMESPACES_MAX = 32, ARGS_MAX = 1 << 20 };

static struct {
	const Elf64_auxv_t *auxv;
	int pid;
	int can_read_self; /* process_vm_readv works and no filter may kill us for it */
} loader;

static struct r_debug *debug_struct(void)
{
	if (&_r_debug)
		return &_r_debug;
	return &_dl_debug_addr ? _dl_debug_addr : NULL;
}

int mt_loader_read(const void *from, void *to, size_t len)
{
	/* the call below takes NULL for no question */
	if ((uintptr_t)from < 4096 || (uintptr_t)from + len < (uintptr_t)from)
		return -MT_EFAULT;
	if (loader.can_read_self) {
		long n = mt_sys_read_self(loader.pid, from, to, len);
		if (n == (long)len)
			return 0;
		if (n >= 0 || n == -MT_EFAULT)
			return -MT_EFAULT;
		loader.can_read_self = 0; /* forbidden meanwhile */
	}
	/*
	 * Where process_vm_readv may be forbidden:
	 * rt_sigprocmask with an invalid `how` reads the new mask first and then refuses: EFAULT
	 * tells an unreadable address. Unlike process_vm_readv it is allowed by every seccomp
	 * filter in use. What remains is a page that is unmapped between the question and the copy
	 * right after it: the link maps' heap does not give single pages back, a library that is
	 * being closed may.
	 */
	uintptr_t at = (uintptr_t)from, end = at + len;
	int ask = !mt_under_valgrind(); /* it would print a line for each question */
	while (at < end) {
		size_t part = MT_MIN(MT_ALIGN_DOWN(at, 4096) + 4096, end) - at;
		if (ask && mt_sys4(__NR_rt_sigprocmask, 99, at & ~7ul, 0, 8) == -MT_EFAULT)
			return -MT_EFAULT;
		mt_mem_copy(to, (const void *)at, part);
		to = (char *)to + part;
		at += part;
	}
	return 0;
}

uint32_t mt_loader_read_each(const uintptr_t *from, uint32_t count, void *to, size_t len)
{
	struct mt_iovec local = {to, len * count}, remote[MT_LOADER_READ_MAX];
	uint32_t n = 0;
	for (uint32_t i = 0; i < count; i++)
		remote[i] = (struct mt_iovec){(void *)from[i], len};
	if (loader.can_read_self) {
		long got = mt_sys6(__NR_process_vm_readv, loader.pid, (long)&local, 1, (long)remote,
				   count, 0);
		if (got > 0)
			n = (uint32_t)((size_t)got / len);
	}
	while (n < count && !mt_loader_read(remote[n].base, (char *)to + n * len, len))
		n++;
	return n;
}

uintptr_t mt_loader_auxv(const Elf64_auxv_t *auxv, uint64_t type)
{
	if (!auxv)
		return 0;
	for (; auxv->a_type != AT_NULL; auxv++)
		if (auxv->a_type == type)
			return auxv->a_un.a_val;
	return 0;
}

const char *mt_loader_env(char **envp, const char *name)
{
	size_t len = mt_str_len(name);
	for (; envp && *envp; envp++)
		if (mt_str_starts(*envp, name) && (*envp)[len] == '=')
			return *envp + len + 1;
	return NULL;
}

/*
 * Is this argc, argv[], NULL as the kernel lays them out? The strings lie above the arrays. (A
 * static glibc program sets __libc_stack_end a little below the block.)
 */
static int is_start_block(const long *block)
{
	long argc = block[0];
	if (argc < 0 || argc > ARGS_MAX)
		return 0;
	for (long i = 1; i <= argc; i++)
		if ((unsigned long)block[i] < (unsigned long)(block + argc + 2))
			return 0;
	return block[argc + 1] == 0;
}

int mt_loader_start_block(struct mt_start_block *ret_block)
{
	long *block = &__libc_stack_end ? __libc_stack_end : NULL;
	if (!block || !is_start_block(block)) {
		/* argv's NULL lies right below envp, its strings before it, argc before them */
		if (!&__environ || !__environ)
			return -MT_ENOENT;
		long n = 0;
		block = (long *)__environ - 2;
		while (n < ARGS_MAX && *block != n)
			block--, n++;
		if (!is_start_block(block))
			return -MT_ENOENT;
	}
	ret_block->argc = (int)block[0];
	ret_block->argv = (char **)(block + 1);
	ret_block->envp = ret_block->argv + block[0] + 1;
	char **end = ret_block->envp;
	while (*end)
		end++;
	/* the loader takes variables out of a set-uid program's environment: more than one NULL */
	while (!*end)
		end++;
	ret_block->auxv = (const Elf64_auxv_t *)end;
	return 0;
}

int mt_loader_is_secure(const Elf64_auxv_t *auxv)
{
	for (; auxv && auxv->a_type != AT_NULL; auxv++)
		if (auxv->a_type == AT_SECURE)
			return auxv->a_un.a_val != 0;
	return 1;
}

void mt_loader_init(const struct mt_start_block *block, int pid)
{
	loader.auxv = block->auxv;
	mt_loader_set_process(pid, MT_LOADER_TRY);
}

void mt_loader_set_process(int pid, enum mt_loader_care care)
{
	enum { PR_GET_SECCOMP = 21 };
	char probe = 1, copy = 0;
	loader.pid = pid;
	loader.can_read_self = care == MT_LOADER_TRY && mt_sys_prctl(PR_GET_SECCOMP, 0, 0) == 0 &&
			       mt_sys_read_self(pid, &probe, &copy, 1) == 1 && copy == 1;
}

/*
 * As mt_loader_read(), in one go along the chain: entries lie together, so that a page is asked for
 * once. 0 for *known: none yet.
 */
static int read_entry(const struct link_map *at, struct link_map *ret_entry, uintptr_t *known)
{
	uintptr_t page = MT_ALIGN_DOWN((uintptr_t)at, 4096);
	if (page == *known && (uintptr_t)at + sizeof(*at) <= page + 4096) {
		*ret_entry = *at;
		return 0;
	}
	*known = page;
	return mt_loader_read(at, ret_entry, sizeof(*ret_entry));
}

/* The entry of the module with this dynamic section; NULL: none, and nothing is written. */
static const struct link_map *find_entry(const void *dynamic, struct link_map *ret_entry,
					 uintptr_t *known)
{
	struct r_debug *d = debug_struct();
	const struct link_map *at = d ? d->r_map : NULL;
	struct link_map l;
	for (uint32_t seen = 0; at && seen < MODULES_MAX; seen++, at = l.l_next) {
		if (read_entry(at, &l, known))
			return NULL;
		if ((const void *)l.l_ld != dynamic)
			continue;
		*ret_entry = l;
		return at;
	}
	return NULL;
}

const char *mt_loader_name(const void *dynamic)
{
	uintptr_t known = 0;
	struct link_map l;
	return find_entry(dynamic, &l, &known) ? l.l_name : NULL;
}

uintptr_t mt_loader_find_behind(const void *dynamic, const char *name)
{
	uintptr_t known = 0, found = 0;
	uint32_t hash = mt_module_name_hash(name);
	struct link_map l;
	if (!find_entry(dynamic, &l, &known))
		return 0;
	for (uint32_t seen = 0; !found && l.l_next && seen < MODULES_MAX; seen++) {
		struct mt_module_symbols symbols;
		if (read_entry(l.l_next, &l, &known))
			return 0;
		/* its bounds are not known: what lies below its bias is relative */
		const struct mt_module m = {
			.lo = l.l_addr, .hi = UINTPTR_MAX, .bias = l.l_addr, .dynamic = l.l_ld};
		if (mt_module_symbols(&m, &symbols))
			found = mt_module_find(&symbols, name, hash);
	}
	return found;
}

uintptr_t mt_loader_notifier(void)
{
	struct r_debug *d = debug_struct();
	return d ? d->r_brk : 0;
}

int mt_loader_is_changing(void)
{
	struct r_debug *d = debug_struct();
	return d && __atomic_load_n(&d->r_state, __ATOMIC_ACQUIRE) != RT_CONSISTENT;
}

/* Mixes a name that may vanish into a module's fingerprint. */
static uint64_t mix_name(uint64_t h, const char *name)
{
	char c;
	for (const char *at = name; at < name + MT_MODULE_PATH_MAX; at++) {
		if ((at == name || (uintptr_t)at % 4096 == 0) && mt_loader_read(at, &c, 1))
			return h;
		if (!*at)
			return h;
		h = (h ^ (uint8_t)*at) * 0x100000001b3u;
	}
	return h;
}

/* musl names the program as it was started and the vdso not at all; glibc does the reverse. */
static const char *name_of(const struct link_map *l, const struct mt_module *m)
{
	uintptr_t program = mt_loader_auxv(loader.auxv, AT_PHDR);
	uintptr_t vdso = mt_loader_auxv(loader.auxv, AT_SYSINFO_EHDR);
	if (!l->l_prev && m->lo <= program && program < m->hi)
		return "";
	if (vdso && m->lo <= vdso && vdso < m->hi)
		return "[vdso]";
	return l->l_name ? l->l_name : "";
}

/* A module from its link map entry: headers are found through the lowest mapped page. */
static int module_from_map(const struct link_map *l, struct mt_module *ret_module)
{
	uintptr_t bias = l->l_addr;
	const Elf64_Phdr *phdr = (const Elf64_Phdr *)mt_loader_auxv(loader.auxv, AT_PHDR);
	uint32_t phnum = (uint32_t)mt_loader_auxv(loader.auxv, AT_PHNUM);
	char first = 0;
	int is_program = !l->l_prev && (mt_loader_read(l->l_name, &first, 1) || !first || !bias);

	if (!is_program || !phdr) {
		Elf64_Ehdr e;
		if (mt_loader_read((const void *)bias, &e, sizeof(e)) ||
		    !mt_mem_equal(e.e_ident, ELFMAG, SELFMAG) ||
		    e.e_phentsize != sizeof(Elf64_Phdr))
			return -MT_EINVAL;
		phdr = (const Elf64_Phdr *)(bias + e.e_phoff);
		phnum = e.e_phnum;
	}
	Elf64_Phdr last;
	if (!phnum || mt_loader_read(&phdr[phnum - 1], &last, sizeof(last)))
		return -MT_EINVAL;
	int err = mt_module_from_phdr_by(mt_loader_read, phdr, phnum, bias, ret_module);
	if (err)
		return err;
	ret_module->name = name_of(l, ret_module);
	ret_module->fingerprint = mix_name(ret_module->fingerprint, l->l_name);
	return 0;
}

static void add_module(struct mt_module_list *list, const struct mt_module *m)
{
	if (list->count >= MODULES_MAX)
		return;
	for (uint32_t i = 0; i < list->count; i++)
		if (m->lo < list->m[i].hi && list->m[i].lo < m->hi)
			return; /* a library that namespaces share */
	uint32_t i = list->count++;
	for (; i && list->m[i - 1].lo > m->lo; i--)
		list->m[i] = list->m[i - 1];
	list->m[i] = *m;
}

static void add_from_auxv(struct mt_module_list *list)
{
	struct mt_module m;
	const Elf64_Ehdr *vdso = (const Elf64_Ehdr *)mt_loader_auxv(loader.auxv, AT_SYSINFO_EHDR);
	const Elf64_Phdr *phdr = (const Elf64_Phdr *)mt_loader_auxv(loader.auxv, AT_PHDR);
	int is_static = !list->count; /* no loader, no list: the program is the only module */
	if (vdso) {
		const Elf64_Phdr *ph = (const Elf64_Phdr *)((uintptr_t)vdso + vdso->e_phoff);
		uintptr_t bias = (uintptr_t)vdso;
		for (int i = 0; i < vdso->e_phnum; i++)
			if (ph[i].p_type == PT_LOAD) {
				bias = (uintptr_t)vdso + ph[i].p_offset - ph[i].p_vaddr;
				break;
			}
		if (!mt_module_from_phdr(ph, vdso->e_phnum, bias, &m)) {
			m.name = "[vdso]";
			add_module(list, &m);
		}
	}
	if (phdr && is_static) {
		uintptr_t bias = 0;
		uint32_t n = (uint32_t)mt_loader_auxv(loader.auxv, AT_PHNUM);
		for (uint32_t i = 0; i < n; i++)
			if (phdr[i].p_type == PT_PHDR)
				bias = (uintptr_t)phdr - phdr[i].p_vaddr;
		/* without PT_PHDR: headers follow the ELF header at the first segment's start */
		if (!bias && n && (uintptr_t)phdr > 0x10000000000u)
			bias = MT_ALIGN_DOWN((uintptr_t)phdr, 4096);
		if (!mt_module_from_phdr(phdr, n, bias, &m))
			add_module(list, &m);
	}
}

/* Follows one namespace's chain; returns how many entries were seen, or a negative errno value. */
static int add_chain(struct mt_module_list *list, const struct link_map *at)
{
	int seen = 0;
	while (at && seen < MODULES_MAX) {
		struct link_map l;
		struct mt_module m;
		if (mt_loader_read(at, &l, sizeof(l)))
			return -MT_EFAULT;
		if (!module_from_map(&l, &m))
			add_module(list, &m);
		at = l.l_next;
		seen++;
	}
	return seen;
}

static void keep_numbers(struct mt_module_list *list, const struct mt_module_list *previous)
{
	for (uint32_t i = 0; i < list->count; i++) {
		struct mt_module *m = &list->m[i];
		const struct mt_module *old =
			previous ? mt_module_list_find(previous, m->lo) : NULL;
		m->generation = list->generation;
		if (!old || old->lo != m->lo || old->hi != m->hi || old->dynamic != m->dynamic ||
		    old->fingerprint != m->fingerprint ||
		    old->build_id_bytes != m->build_id_bytes ||
		    !mt_mem_equal(old->build_id, m->build_id, m->build_id_bytes))
			continue;
		m->number = old->number;
		m->generation = old->generation;
	}
}

struct mt_module_list *mt_loader_read_modules(const struct mt_module_list *previous)
{
	/* room for every module that the loader may have: the untouched rest costs nothing */
	size_t bytes = sizeof(struct mt_module_list) + MODULES_MAX * sizeof(struct mt_module);
	struct r_debug *d = debug_struct();
	long at = mt_sys_mmap(NULL, bytes, MT_PROT_READ | MT_PROT_WRITE,
			      MT_MAP_PRIVATE | MT_MAP_ANONYMOUS | MT_MAP_NORESERVE, -1, 0);
	if (mt_sys_is_error(at))
		return NULL;
	struct mt_module_list *list = (struct mt_module_list *)at;
	list->generation = previous ? previous->generation + 1 : 1;
	int spaces = 0, failed = 0;
	while (d && spaces++ < NAMESPACES_MAX) {
		struct r_debug_extended e = {.base = {0}}; /* glibc 2.35+: namespaces are chained */
		if (mt_loader_read(d, &e.base, sizeof(e.base))) {
			failed = 1;
			break;
		}
		failed |= add_chain(list, e.base.r_map) < 0;
		if (e.base.r_version < 2 || mt_loader_read(d, &e, sizeof(e)))
			break;
		d = e.r_next ? &e.r_next->base : NULL;
	}
	add_from_auxv(list);
	if (failed) {
		mt_sys_munmap(list, bytes);
		return NULL;
	}
	keep_numbers(list, previous);
	/* give back what is not needed */
	size_t used = sizeof(*list) + (list->count + 1) * sizeof(struct mt_module);
	used = MT_ALIGN_UP(used, 65536);
	if (used < bytes)
		mt_sys_munmap((char *)list + used, MT_ALIGN_DOWN(bytes - used, 4096));
	list->map_bytes = used < bytes ? used : bytes;
	return list;
}

uint32_t mt_loader_search_order(const struct mt_module_list *list,
				const struct mt_module **ret_order, uint32_t max)
{
	struct r_debug *d = debug_struct();
	uint32_t n = 0;
	const struct link_map *at = d ? d->r_map : NULL;
	for (uint32_t seen = 0; at && n < max && seen < MODULES_MAX; seen++) {
		struct link_map l;
		if (mt_loader_read(at, &l, sizeof(l)))
			break;
		const struct mt_module *m = mt_module_list_find(list, (uintptr_t)l.l_ld);
		if (m)
			ret_order[n++] = m;
		at = l.l_next;
	}
	return n;
}
