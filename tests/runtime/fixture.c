/* SPDX-License-Identifier: MIT */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/hash.h"
#include "core/sys.h"
#include "runtime/arena.h"
#include "runtime/fast.h"
#include "runtime/provider.h"

/* What process.c, provider.c and the unwinder define. */
struct mt_rt mt_rt;
volatile uint64_t mt_rt_wipe[8];
struct mt_originals mt_original[MT_FAMILY_COUNT];
struct mt_system_originals mt_system;
struct mt_provider_info mt_provider;
struct mt_unwind mt_unwind;

static _Alignas(64) char modules_memory[2][sizeof(struct mt_module_list) +
					   FIXTURE_MODULES * sizeof(struct mt_module)];
static int modules_now;
static uint32_t next_module_number;
static char own_directory[256];

int mt_provider_resolve(void)
{
	return 0;
}

void mt_provider_need(void **slot)
{
}

int mt_provider_search_again(void)
{
	return 0;
}

void mt_provider_find_doors(void)
{
}

void *mt_provider_find(const char *name)
{
	return NULL;
}

enum mt_enter mt_enter_slow(struct mt_thread **ret_thread, uintptr_t sp)
{
	*ret_thread = NULL;
	if (mt_rt.phase != MT_RT_ON)
		return MT_ENTER_PASS;
	struct mt_thread *t = fixture_thread();
	if (!t)
		return MT_ENTER_PASS;
	*ret_thread = t;
	if (t->depth)
		return MT_ENTER_NESTED;
	t->depth = 1;
	return MT_ENTER_TRACK;
}

/* --- the unwinder: three frames that follow from ra ------------------------------------------ */

size_t mt_memo_bytes(void)
{
	return 64;
}

void mt_capture_init(struct mt_capture *c, uint32_t depth_max)
{
	c->depth_max = depth_max;
}

void mt_capture_memo_attach(struct mt_capture *c, struct mt_memo *memo)
{
	c->memo = memo; /* and never in use */
}

void mt_capture_reset(struct mt_capture *c)
{
	c->token = 0;
	c->count = 0;
}

uint32_t mt_capture_unknown(struct mt_capture *c, uintptr_t sp, uintptr_t ra, uintptr_t fp,
			    uint64_t tag)
{
	uint64_t hash = mt_hash_u64(mt_hash_u64(ra) + tag + 1);
	if (c->token && c->hash == hash && c->generation == mt_unwind.modules->generation) {
		c->counts.same_as_last++;
		return c->token;
	}
	const uintptr_t chain[] = {fixture_address(0, 0x10),
				   fixture_address(0, 0x100 + (ra >> 4 & 7)), ra};
	c->count = MT_ARRAY_LEN(chain);
	for (uint32_t i = 0; i < c->count; i++)
		c->frame[i] = (struct mt_frame){.ra = chain[i]};
	c->end = MT_STACK_COMPLETE;
	c->hash = hash;
	c->tag = tag;
	c->token = 0;
	c->generation = mt_unwind.modules->generation;
	return 0;
}

void mt_capture_remember(struct mt_capture *c, uint32_t token)
{
	c->token = token;
}

/* --- modules --------------------------------------------------------------------------------- */

uintptr_t fixture_address(uint32_t slot, uint32_t offset)
{
	return 0x10000000u + ((uintptr_t)slot << 20) + offset;
}

static struct mt_module_list *modules_at(int which)
{
	return (struct mt_module_list *)modules_memory[which];
}

static void fresh_modules(void)
{
	modules_now = 0;
	next_module_number = 1;
	struct mt_module_list *list = modules_at(0);
	*list = (struct mt_module_list){.count = FIXTURE_MODULES, .generation = 1};
	for (uint32_t i = 0; i < FIXTURE_MODULES; i++)
		list->m[i] = (struct mt_module){.lo = fixture_address(i, 0),
						.hi = fixture_address(i, 0x10000),
						.number = next_module_number++,
						.generation = 1,
						.name = ""};
	mt_unwind.modules = list;
}

void fixture_replace_module(uint32_t slot)
{
	int from = modules_now, to = !from;
	struct mt_module_list *list = modules_at(to);
	memcpy(modules_memory[to], modules_memory[from], sizeof(modules_memory[0]));
	list->generation++;
	list->m[slot].number = next_module_number++;
	modules_now = to;
	__atomic_store_n(&mt_unwind.modules, list, __ATOMIC_RELEASE);
}

/* --- life ------------------------------------------------------------------------------------ */

static void use_directory(const char *given)
{
	own_directory[0] = 0;
	if (!given) {
		const char *parent = access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm";
		snprintf(own_directory, sizeof(own_directory), "%s/memtrack-unit-XXXXXX", parent);
		given = mkdtemp(own_directory);
	}
	snprintf(mt_rt.options.state_dir, sizeof(mt_rt.options.state_dir), "%s", given);
}

int fixture_begin(const struct fixture_config *config)
{
	memset(&mt_rt, 0, sizeof(mt_rt));
	mt_rt.options.wishes.mode = config->mode ? config->mode : MT_MODE_FULL;
	mt_rt.options.wishes.interval_bytes =
		config->interval_bytes ? config->interval_bytes : 512 << 10;
	mt_rt.options.depth = 64;
	mt_rt.options.heaps = 15;
	mt_rt.options.max_size = UINT64_MAX;
	mt_rt.options.max_bytes = config->max_bytes;
	mt_rt.options.record_buffers = 1 << 20;
	use_directory(config->directory);
	mt_rt.pid = getpid();
	fresh_modules();
	int err = mt_arena_reserve();
	if (err)
		return err;
	err = mt_storage_create();
	if (err)
		return err;
	err = mt_index_init(config->granule_shift ? config->granule_shift : 4);
	if (err)
		return err;
	mt_record_set_plain();
	mt_rt_wipe[0] = 1;
	err = mt_control_begin();
	mt_rt.phase = MT_RT_ON;
	return err;
}

void fixture_end(void)
{
	mt_rt.phase = MT_RT_OFF;
	mt_threads_forget();
	mt_sites_forget();
	mt_large_forget();
	mt_record_forget();
	mt_mapping_forget();
	mt_control_forget();
	mt_thread_set_self(NULL);
	if (mt_rt.hdr) {
		mt_storage_unlink();
		rmdir(mt_rt.state_dir); /* of its own, when the given one was full */
		munmap(mt_rt.hdr, mt_rt.file_bytes);
	}
	if (mt_rt.arena)
		munmap(mt_rt.arena, mt_rt.arena_bytes);
	if (own_directory[0])
		rmdir(own_directory);
	memset(&mt_rt, 0, sizeof(mt_rt));
}

int fixture_setup(void **state)
{
	return fixture_begin(&(struct fixture_config){0});
}

int fixture_teardown(void **state)
{
	fixture_end();
	return 0;
}

void fixture_wish(uint32_t mode, uint64_t interval_bytes, uint32_t every)
{
	char text[128];
	snprintf(text, sizeof(text), every ? "mode=%s every=%llu" : "mode=%s interval=%llu",
		 mode == MT_MODE_FULL    ? "full"
		 : mode == MT_MODE_STATS ? "stats"
					 : "sample",
		 every ? (unsigned long long)every : (unsigned long long)interval_bytes);
	fixture_ask(text);
}

void fixture_ask(const char *text)
{
	snprintf(mt_storage_base(MT_REGION_REQUEST), MT_REQUEST_BYTES, "%s", text);
	__atomic_add_fetch(&mt_rt.hdr->control, 2, __ATOMIC_SEQ_CST);
}

struct mt_thread *fixture_thread(void)
{
	struct mt_thread *t = mt_thread_self();
	if (t)
		return t;
	t = mt_thread_make();
	/* on a loaded machine the wait for the lock may run out: a hook tries again at the next
	 * event
	 */
	while (t && mt_control_changed(t))
		mt_control_take(t);
	return t;
}

void fixture_free(struct mt_thread *t, uint64_t address)
{
	if (!mt_fast_free(t, address, MT_FAST_FULL))
		mt_record_free(t, (void *)address);
}

int64_t fixture_live_bytes(const struct mt_thread *t)
{
	const struct mt_state_totals *sum = &t->row->totals[MT_CLASS_MALLOC];
	return (int64_t)(sum->bytes - sum->freed_bytes);
}

struct mt_caller fixture_caller(uintptr_t ra)
{
	return (struct mt_caller){.sp = 0x1000, .ra = ra, .fp = 0};
}

uint64_t fixture_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/* --- what a reader sees ---------------------------------------------------------------------- */

static void add_cell(struct fixture_sum *sum, const struct mt_state_cell *c)
{
	int changed = c->at_peak_epoch != mt_rt.hdr->peak_epoch;
	sum->cells++;
	sum->allocs += c->allocs;
	sum->bytes += c->bytes;
	sum->frees += c->frees;
	sum->freed_bytes += c->freed_bytes;
	sum->temporaries += c->temporaries;
	sum->at_peak_bytes += changed ? (int64_t)(c->bytes - c->freed_bytes) : c->at_peak_bytes;
	sum->at_peak_count += changed ? (int64_t)(c->allocs - c->frees) : c->at_peak_count;
}

struct fixture_sum fixture_sum_of(uintptr_t ra)
{
	struct fixture_sum sum = {0};
	for (uint64_t s = 1; s < mt_rt.region[MT_REGION_SITES]->used; s++) {
		if (mt_rt.nodes[mt_rt.sites[s].node].pc != ra)
			continue;
		sum.sites++;
		for (uint64_t i = 1; i < mt_rt.region[MT_REGION_CELLS]->used; i++)
			if (mt_rt.cells[i].site == s)
				add_cell(&sum, &mt_rt.cells[i]);
	}
	return sum;
}

void fixture_count_live(uint64_t *ret_count, uint64_t *ret_bytes)
{
	uint64_t n = MT_MIN(mt_rt.region[MT_REGION_LIVE]->used,
			    mt_rt.region[MT_REGION_LIVE]->committed_bytes / 24);
	*ret_count = *ret_bytes = 0;
	for (uint64_t i = 1; i < n; i++)
		if (mt_rt.live[i].place) {
			++*ret_count;
			*ret_bytes += mt_rt.live[i].size;
		}
	for (uint64_t i = 1; i < mt_rt.region[MT_REGION_LARGE]->used; i++)
		if (mt_rt.large[i].place && mt_rt.large[i].heap == MT_HEAP_MALLOC) {
			++*ret_count;
			*ret_bytes += mt_rt.large[i].size;
		}
}
