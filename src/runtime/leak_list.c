/* SPDX-License-Identifier: MIT */
/* The live blocks as a sorted list; see leak_list.h. */
#include "runtime/leak_list.h"

#include "core/mem.h"
#include "core/sys.h"
#include "runtime/check.h"
#include "runtime/provider.h"
#include "runtime/storage.h"

/* glibc's, which are variables. Elsewhere they are not looked at. */
extern void *stdin __attribute__((weak));
extern void *stdout __attribute__((weak));
extern void *stderr __attribute__((weak));

/* --- order --------------------------------------------------------------------------------- */

static int is_before(const struct mt_leak *a, const struct mt_leak *b)
{
	if (a->size != b->size)
		return a->size > b->size;
	if (a->frames != b->frames)
		return a->frames > b->frames;
	return a->place < b->place;
}

static void swap(struct mt_leak *a, struct mt_leak *b)
{
	struct mt_leak x = *a;
	*a = *b;
	*b = x;
}

/* The heap below `at` becomes one: what comes last in the list is on top. */
static void sink(struct mt_leak *leak, uint64_t at, uint64_t count)
{
	for (uint64_t child; (child = 2 * at + 1) < count; at = child) {
		if (child + 1 < count && is_before(&leak[child], &leak[child + 1]))
			child++;
		if (!is_before(&leak[at], &leak[child]))
			return;
		swap(&leak[at], &leak[child]);
	}
}

void mt_leak_sort(struct mt_leak *leak, uint64_t count)
{
	for (uint64_t i = count / 2; i-- > 0;)
		sink(leak, i, count);
	for (uint64_t n = count; n-- > 1;) {
		swap(&leak[0], &leak[n]);
		sink(leak, 0, n);
	}
}

/* --- reading ------------------------------------------------------------------------------- */

enum { STREAMS = 3 };

struct reading {
	struct mt_leak_list *list;
	uint64_t room;
	uint64_t buffer[STREAMS]; /* blocks that are left out */
};

/* struct _IO_FILE, as far as its place has never changed. */
struct stream {
	int flags; /* bit 0: the buffer is the program's */
	char *pointers[6];
	char *buffer;
};

static uint64_t buffer_of(void *const *variable)
{
	const struct stream *s = variable ? *variable : NULL;
	return s && !(s->flags & 1) ? (uint64_t)s->buffer : 0;
}

static void find_buffers(struct reading *r)
{
	if (mt_provider.libc != MT_LIBC_GLIBC)
		return;
	r->buffer[0] = buffer_of(&stdin);
	r->buffer[1] = buffer_of(&stdout);
	r->buffer[2] = buffer_of(&stderr);
}

static int is_buffer(const struct reading *r, uint64_t place)
{
	return place == r->buffer[0] || place == r->buffer[1] || place == r->buffer[2];
}

static uint32_t count_frames(uint32_t node)
{
	const struct mt_state_module *modules = mt_storage_base(MT_REGION_MODULES);
	uint32_t n = 0;
	for (; node >= MT_NODE_ROOTS && n < mt_check.options.frames;
	     node = mt_rt.nodes[node].parent)
		n += !(modules[mt_rt.nodes[node].meta & 0xfffff].flags & MT_MODULE_SELF);
	return n;
}

static void add(struct reading *r, uint64_t place, uint64_t size, uint32_t cell)
{
	struct mt_leak_list *l = r->list;
	if (!place || l->count >= r->room || is_buffer(r, place))
		return;
	uint32_t node = cell ? mt_rt.sites[mt_rt.cells[cell].site].node : 0;
	l->leak[l->count++] = (struct mt_leak){place, size, node, count_frames(node)};
}

static void read_tables(struct reading *r, uint64_t small, uint64_t large)
{
	for (uint64_t i = 1; i < small; i++) {
		uint64_t place = __atomic_load_n(&mt_rt.live[i].place, __ATOMIC_ACQUIRE);
		add(r, place, mt_rt.live[i].size, mt_rt.live[i].cell);
	}
	for (uint64_t i = 1; i < large; i++) {
		const struct mt_state_large *l = &mt_rt.large[i];
		uint64_t place = __atomic_load_n(&l->place, __ATOMIC_ACQUIRE);
		if (l->heap == MT_HEAP_MALLOC)
			add(r, place, l->size, l->cell);
	}
}

int mt_leak_list_make(int at_exit, struct mt_leak_list *ret_list)
{
	uint64_t small = mt_storage_in_use(MT_REGION_LIVE),
		 large = mt_storage_in_use(MT_REGION_LARGE);
	struct reading r = {.list = ret_list, .room = small + large};
	size_t bytes = MT_ALIGN_UP((r.room + 1) * sizeof(struct mt_leak), (size_t)4096);
	long at = mt_sys_mmap(NULL, bytes, MT_PROT_READ | MT_PROT_WRITE,
			      MT_MAP_PRIVATE | MT_MAP_ANONYMOUS | MT_MAP_NORESERVE, -1, 0);
	if (mt_sys_is_error(at))
		return -MT_ENOMEM;
	*ret_list = (struct mt_leak_list){(struct mt_leak *)at, 0, bytes};
	if (at_exit)
		find_buffers(&r);
	read_tables(&r, small, large);
	mt_leak_sort(ret_list->leak, ret_list->count);
	return 0;
}

void mt_leak_list_done(struct mt_leak_list *list)
{
	if (list->leak)
		mt_sys_munmap(list->leak, list->map_bytes);
	list->leak = NULL;
	list->count = 0;
}
