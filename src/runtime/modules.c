/* SPDX-License-Identifier: MIT */
/* Module rows: one per module and load; a library loaded where another was is a new row. */
#include "runtime/modules.h"

#include "core/clock.h"
#include "core/fmt.h"
#include "core/mem.h"
#include "core/sys.h"
#include "elf/loader.h"
#include "runtime/lock.h"
#include "runtime/provider.h"
#include "runtime/record.h"
#include "runtime/storage.h"
#include "runtime/thread.h"

enum { REREADS = 64 };

static int same_list(const struct mt_module_list *a, const struct mt_module_list *b)
{
	if (!a || a->count != b->count)
		return 0;
	for (uint32_t i = 0; i < a->count; i++)
		if (!b->m[i].number || a->m[i].number != b->m[i].number)
			return 0;
	return 1;
}

/* Reads hexadecimal digits at *s and moves behind them. */
static uint64_t parse_hex(const char **s)
{
	uint64_t v = 0;
	for (;; (*s)++) {
		char c = **s;
		if (c >= '0' && c <= '9')
			v = v << 4 | (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			v = v << 4 | (uint64_t)(c - 'a' + 10);
		else
			return v;
	}
}

/* The path in a line of /proc/self/maps if the line's mapping starts at lo, else NULL. */
static const char *path_in_line(const char *line, uintptr_t lo)
{
	if (parse_hex(&line) != lo)
		return NULL;
	while (*line && *line != '/')
		line++;
	return *line ? line : NULL;
}

/* Path of the file mapped at lo, as the kernel knows it: for a module loaded by a relative path. */
static uint32_t mapped_path(uintptr_t lo)
{
	char buf[4096];
	size_t have = 0, at = 0;
	uint32_t found = 0;
	long fd = mt_sys_open("/proc/self/maps", MT_O_RDONLY | MT_O_CLOEXEC, 0);
	if (fd < 0)
		return 0;
	for (;;) {
		while (at < have && buf[at] != '\n')
			at++;
		if (at < have) {
			buf[at++] = 0;
			const char *path = path_in_line(buf, lo);
			if (path) {
				found = mt_storage_string(path);
				break;
			}
			for (size_t i = at; i < have; i++)
				buf[i - at] = buf[i];
			have -= at;
			at = 0;
			continue;
		}
		long n = have < sizeof(buf) ? mt_sys_read((int)fd, buf + have, sizeof(buf) - have)
					    : 0;
		if (n <= 0)
			break;
		have += (size_t)n;
	}
	mt_sys_close((int)fd);
	return found;
}

static uint32_t path_string(const struct mt_module *m, const struct mt_state_module *row)
{
	char path[1024];
	if (row->flags & MT_MODULE_PROGRAM) {
		if (mt_rt.hdr->exe_string)
			return mt_rt.hdr->exe_string;
		long n = mt_sys_readlink("/proc/self/exe", path, sizeof(path) - 1);
		path[n > 0 ? n : 0] = 0;
		return mt_storage_string(path);
	}
	uint32_t found = m->name[0] == '/' || m->name[0] == '[' ? 0 : mapped_path(m->lo);
	return found ? found : mt_storage_string(m->name);
}

/*
 * The row of the same library, unloaded since, that stood at the same place: a plugin that is
 * opened and closed again and again keeps its row, sites and cells. 0: none.
 */
static uint32_t find_unloaded_row(const struct mt_module *m)
{
	struct mt_state_module *rows = mt_storage_base(MT_REGION_MODULES);
	const struct mt_state_region *r = mt_rt.region[MT_REGION_MODULES];
	uint64_t n = MT_MIN(r->used, r->committed_bytes / r->elem_bytes);
	for (uint32_t i = 1; m->build_id_bytes && i < n; i++) {
		struct mt_state_module *row = &rows[i];
		if (!row->unloaded_unit || row->lo != m->lo || row->hi != m->hi ||
		    row->bias != m->bias || row->build_id_bytes != m->build_id_bytes ||
		    !mt_mem_equal(row->build_id, m->build_id, m->build_id_bytes))
			continue;
		row->unloaded_unit = 0;
		return i;
	}
	return 0;
}

static uint32_t add_row(const struct mt_module *m, uint32_t generation)
{
	uint32_t number = find_unloaded_row(m);
	if (number)
		return number;
	number = mt_storage_take(MT_REGION_MODULES, 1);
	if (!number)
		return 0;
	struct mt_state_module *row =
		(struct mt_state_module *)mt_storage_base(MT_REGION_MODULES) + number;
	row->lo = m->lo;
	row->hi = m->hi;
	row->bias = m->bias;
	row->generation = generation;
	mt_thread_read_clock();
	row->loaded_unit = (uint32_t)mt_rt.hdr->now_unit;
	row->build_id_bytes = m->build_id_bytes;
	mt_mem_copy(row->build_id, m->build_id, m->build_id_bytes);
	if (!m->name[0])
		row->flags |= MT_MODULE_PROGRAM;
	if (m->lo <= (uintptr_t)&mt_rt && (uintptr_t)&mt_rt < m->hi &&
	    !(row->flags & MT_MODULE_PROGRAM))
		row->flags |= MT_MODULE_SELF;
	if (m->name[0] == '[')
		row->flags |= MT_MODULE_VDSO;
	if (m->lo <= mt_provider.malloc_address && mt_provider.malloc_address < m->hi)
		row->flags |= MT_MODULE_PROVIDER;
	if (m->lo <= mt_loader_notifier() && mt_loader_notifier() < m->hi)
		row->flags |= MT_MODULE_LOADER;
	row->path_string = path_string(m, row);
	return number;
}

static void mark_gone(const struct mt_module_list *old, const struct mt_module_list *list)
{
	struct mt_state_module *rows = mt_storage_base(MT_REGION_MODULES);
	mt_thread_read_clock();
	uint32_t unit = (uint32_t)mt_rt.hdr->now_unit;
	for (uint32_t i = 0; old && i < old->count; i++) {
		const struct mt_module *m = mt_module_list_find(list, old->m[i].lo);
		uint32_t number = old->m[i].number;
		if (number && (!m || m->number != number))
			rows[number].unloaded_unit = unit ? unit : 1;
	}
}

/*
 * The call that announced a change may not even have begun: the loader allocates before it adds a
 * module. So this thread's next capture reads again, until there is nothing more to come.
 */
static void read_again_locked(struct mt_thread *t, const struct mt_module_list *list)
{
	if (!t || !t->rereads)
		return;
	if (mt_loader_is_changing())
		t->rereads = REREADS;
	else if (list->generation != t->reread_from)
		t->rereads = 0;
	else
		t->rereads--;
	if (t->rereads)
		__atomic_fetch_add(&mt_unwind.change_count, 1, __ATOMIC_RELEASE);
}

enum { RETIRED_MAX = 512 };

/* Lists that were replaced: another thread may still be looking at one. Guarded by modules_lock. */
static struct {
	const struct mt_module_list *list;
	uint64_t ticks;
} retired[RETIRED_MAX];
static uint32_t retired_count;

void mt_modules_forget(void)
{
	retired_count = 0; /* a forked child leaves its parent's lists mapped */
}

/*
 * Unmaps retired lists that nobody can hold. A thread that took its guard just before a list was
 * replaced may not be seen inside yet; a time unit later it is, or it has gone on to a newer list.
 */
static void reclaim_locked(void)
{
	uint64_t now = mt_clock_ticks();
	uint32_t kept = 0;
	for (uint32_t i = 0; i < retired_count; i++) {
		if (now - retired[i].ticks > 1ull << mt_rt.unit_shift &&
		    mt_threads_are_past(retired[i].list->generation))
			mt_sys_munmap((void *)retired[i].list, retired[i].list->map_bytes);
		else
			retired[kept++] = retired[i];
	}
	retired_count = kept;
}

static void retire_locked(const struct mt_module_list *list)
{
	if (!list)
		return;
	reclaim_locked();
	if (retired_count == RETIRED_MAX) /* stays mapped: some thread has been inside for long */
		return;
	retired[retired_count].list = list;
	retired[retired_count++].ticks = mt_clock_ticks();
}

static int is_in(const struct mt_module_list *list, const struct mt_module *m)
{
	const struct mt_module *found = list ? mt_module_list_find(list, m->lo) : NULL;
	return found && found->lo == m->lo && found->hi == m->hi;
}

/* The loader's list, published when it differs. 0 or a negative errno value. */
static int read_and_publish_locked(void)
{
	const struct mt_module_list *old = __atomic_load_n(&mt_unwind.modules, __ATOMIC_ACQUIRE);
	struct mt_module_list *list = mt_loader_read_modules(old);
	if (!list)
		return -MT_ENOMEM;
	if (same_list(old, list)) {
		mt_sys_munmap(list, list->map_bytes);
		return 0;
	}
	for (uint32_t i = 0; i < list->count; i++) {
		struct mt_module *m = &list->m[i];
		if (!m->number)
			m->number = add_row(m, list->generation);
		if (!m->number && !is_in(old, m)) /* told once, when it comes */
			mt_rt_lost(MT_LOST_MODULE_FULL);
	}
	mark_gone(old, list);
	__atomic_store_n(&mt_unwind.modules, list, __ATOMIC_RELEASE);
	retire_locked(old);
	return 0;
}

/*
 * A thread that finds another one at it must wait: that one may have read the list before the
 * change, and a stack through the new module would be walked by a list that does not have it.
 */
int mt_modules_refresh(void)
{
	uint64_t wanted = __atomic_load_n(&mt_unwind.change_count, __ATOMIC_ACQUIRE);
	int err = 0;
	if (mt_rt.sandboxed == MT_SANDBOX_NO_CALLS || mt_rt.no_ticks)
		return -MT_EINTR;
	if (__atomic_load_n(&mt_unwind.modules, __ATOMIC_ACQUIRE) &&
	    __atomic_load_n(&mt_rt.modules_count, __ATOMIC_ACQUIRE) >= wanted)
		return 0;
	if (!mt_lock(&mt_rt.modules_lock))
		return -MT_EINTR;
	if (!mt_unwind.modules || mt_rt.modules_count < wanted) {
		uint64_t now = __atomic_load_n(&mt_unwind.change_count, __ATOMIC_ACQUIRE);
		err = read_and_publish_locked();
		if (!err)
			__atomic_store_n(&mt_rt.modules_count, now, __ATOMIC_RELEASE);
		if (!err && !mt_rt.notifier_patched)
			read_again_locked(mt_thread_self(), mt_unwind.modules);
	}
	mt_unlock(&mt_rt.modules_lock);
	return err;
}

void mt_modules_expect_change(void)
{
	struct mt_thread *t;
	__atomic_fetch_add(&mt_unwind.change_count, 1, __ATOMIC_RELEASE);
	if (mt_enter(&t) != MT_ENTER_TRACK)
		return;
	t->rereads = 0;
	mt_modules_refresh(); /* what an earlier call changed is not what this one will */
	t->rereads = REREADS;
	t->reread_from = mt_unwind.modules ? mt_unwind.modules->generation : 0;
	__atomic_fetch_add(&mt_unwind.change_count, 1, __ATOMIC_RELEASE);
	mt_leave(t);
}

#if defined(__x86_64__) && !defined(MT_BUILD_WRAP)
/* A byte of the no-operations that assemblers and linkers fill gaps with. */
static int is_padding(uint8_t byte)
{
	static const uint8_t known[] = {0x90, 0xcc, 0x66, 0x2e, 0x0f, 0x1f,
					0x84, 0x80, 0x44, 0x40, 0x00};
	for (size_t i = 0; i < sizeof(known); i++)
		if (byte == known[i])
			return 1;
	return 0;
}
#endif

int mt_modules_patch_notifier(void)
{
#if defined(__x86_64__) && !defined(MT_BUILD_WRAP)
	static const uint8_t endbr64[4] = {0xf3, 0x0f, 0x1e, 0xfa};
	uintptr_t at = mt_loader_notifier();
	const uint8_t *code = (const uint8_t *)at;
	if (!at || at % 16)
		return 0;
	size_t skip = mt_mem_equal(code, endbr64, 4) ? 4 : 0;
	if (code[skip] != 0xc3)
		return 0;
	for (size_t i = skip + 1; i < 16; i++)
		if (!is_padding(code[i]))
			return 0;
	int64_t distance = (int64_t)((uintptr_t)&mt_unwind.change_count - (at + skip + 7));
	if (distance != (int32_t)distance)
		return 0;
	uint8_t patch[8] = {0x48, 0xff, 0x05, 0, 0, 0, 0, 0xc3}; /* incq distance(%rip); ret */
	mt_mem_copy(patch + 3, &distance, 4);
	long fd = mt_sys_open("/proc/self/mem", MT_O_RDWR | MT_O_CLOEXEC, 0);
	if (fd < 0)
		return 0;
	long n = mt_sys_pwrite((int)fd, patch, sizeof(patch), (int64_t)(at + skip));
	mt_sys_close((int)fd);
	return n == sizeof(patch) && mt_mem_equal(code + skip, patch, sizeof(patch));
#else
	return 0;
#endif
}
