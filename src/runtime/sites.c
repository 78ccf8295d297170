/* SPDX-License-Identifier: MIT */
/*
 * Hash tables here only grow: a full one is copied into one of twice the size and the old one stays
 * where it is, because a lookup without lock may still be in it. Inserts happen under sites_lock,
 * at the first sight of a stack; lookups take no lock.
 */
#include "runtime/sites.h"

#include "core/hash.h"
#include "core/mem.h"
#include "core/sys.h"
#include "runtime/arena.h"
#include "runtime/lock.h"
#include "runtime/storage.h"
#include "runtime/thread.h"

/* key -> value; value 0 = free. Key is written before value (release), read after it (acquire). */
struct table {
	uint32_t mask, used;
	struct table_entry {
		uint64_t key;
		uint32_t value, check;
	} entry[];
};

enum { FIRST_ENTRIES = 1024, FIRST_NODES = 4096, SOURCE_META = MT_NODE_SOURCE << 20 };

static uint32_t sites_lock;
/* Nodes by what they are, found in the nodes themselves; guarded by sites_lock. */
static struct {
	uint32_t *slot; /* node, 0: free */
	uint32_t mask, used;
} node_index;
static struct table *site_table;   /* site hash -> site; published with release */
static struct table *source_table; /* address of a file name -> strings offset */
static struct table *label_table;  /* hash of a label's text -> label number */

/* The module filter; changed under control_lock. */
static struct {
	const char *globs;
	uint32_t count;
} filter;

void mt_sites_forget(void)
{
	sites_lock = 0;
	site_table = source_table = label_table = NULL;
	node_index.slot = NULL;
	node_index.mask = node_index.used = 0;
}

static uint64_t mix(uint64_t h)
{
	h ^= h >> 32;
	h *= 0x9e3779b97f4a7c15u;
	return h ^ h >> 29;
}

static uint32_t table_find(struct table *const *place, uint64_t key, uint32_t check)
{
	const struct table *t = __atomic_load_n(place, __ATOMIC_ACQUIRE);
	if (!t)
		return 0;
	for (uint32_t i = (uint32_t)mix(key) & t->mask;; i = (i + 1) & t->mask) {
		uint32_t value = __atomic_load_n(&t->entry[i].value, __ATOMIC_ACQUIRE);
		if (!value)
			return 0;
		if (t->entry[i].key == key && t->entry[i].check == check)
			return value;
	}
}

static void table_put(struct table *t, uint64_t key, uint32_t check, uint32_t value)
{
	uint32_t i = (uint32_t)mix(key) & t->mask;
	while (t->entry[i].value)
		i = (i + 1) & t->mask;
	t->entry[i].key = key;
	t->entry[i].check = check;
	__atomic_store_n(&t->entry[i].value, value, __ATOMIC_RELEASE);
	t->used++;
}

/* Room for one more entry; caller holds sites_lock. 0 or -ENOMEM. */
static int table_room_locked(struct table **place)
{
	struct table *t = *place;
	if (t && t->used * 4 < (t->mask + 1) * 3)
		return 0;
	uint32_t n = t ? (t->mask + 1) * 2 : FIRST_ENTRIES;
	struct table *made = mt_arena_take_table(sizeof(*made) + n * sizeof(made->entry[0]));
	if (!made)
		return -MT_ENOMEM;
	made->mask = n - 1;
	for (uint32_t i = 0; t && i <= t->mask; i++)
		if (t->entry[i].value)
			table_put(made, t->entry[i].key, t->entry[i].check, t->entry[i].value);
	__atomic_store_n(place, made, __ATOMIC_RELEASE);
	return 0;
}

static uint32_t node_hash(uint32_t parent, uint64_t pc, uint32_t meta)
{
	return (uint32_t)mix(pc + ((uint64_t)parent << 32 | parent) + ((uint64_t)meta << 40));
}

/* The first slot of the index from the node's place on that holds the node or is free; there is
 * one.
 */
static uint32_t *node_slot(uint32_t parent, uint64_t pc, uint32_t meta)
{
	uint32_t i = node_hash(parent, pc, meta) & node_index.mask;
	for (; node_index.slot[i]; i = (i + 1) & node_index.mask) {
		const struct mt_state_node *have = &mt_rt.nodes[node_index.slot[i]];
		if (have->pc == pc && have->parent == parent && have->meta == meta)
			break;
	}
	return &node_index.slot[i];
}

/* Enters a node that is not in the index. */
static void node_put(uint32_t n)
{
	const struct mt_state_node *node = &mt_rt.nodes[n];
	uint32_t i = node_hash(node->parent, node->pc, node->meta) & node_index.mask;
	while (node_index.slot[i])
		i = (i + 1) & node_index.mask;
	node_index.slot[i] = n;
}

/* Room for `count` more entries; caller holds sites_lock. 0 or -ENOMEM. */
static int node_room_locked(uint32_t count)
{
	uint32_t *old = node_index.slot, old_count = old ? node_index.mask + 1 : 0;
	uint32_t n = old ? old_count : FIRST_NODES;
	while ((node_index.used + count) * 4 > n * 3)
		n *= 2;
	if (n == old_count)
		return 0;
	uint32_t *made = mt_arena_take_table(n * sizeof(*made));
	if (!made)
		return -MT_ENOMEM;
	node_index.slot = made;
	node_index.mask = n - 1;
	for (uint32_t i = 0; i < old_count; i++)
		if (old[i])
			node_put(old[i]);
	mt_arena_release_table(old, old_count * sizeof(*old));
	return 0;
}

static uint32_t frame_meta(const struct mt_frame *f)
{
	const struct mt_module_list *list = __atomic_load_n(&mt_unwind.modules, __ATOMIC_ACQUIRE);
	const struct mt_module *m = list ? mt_module_list_find(list, f->ra - 1) : NULL;
	uint32_t kind = f->flags & MT_FRAME_EXACT_PC ? MT_NODE_EXACT : MT_NODE_RETURN;
	return (m ? m->number & 0xfffff : 0) | kind << 20 | (f->flags & 0xff) << 24;
}

static void make_node(uint32_t n, uint32_t parent, uint64_t pc, uint32_t meta)
{
	mt_rt.nodes[n] = (struct mt_state_node){.pc = pc, .parent = parent, .meta = meta};
	node_put(n);
}

/*
 * Puts the frames from i inward under node `parent`, which has no such child; with a source the
 * line under the last. The innermost node, or 0: full. The numbers are taken at once: then the
 * places in the index do not depend on each other, and their cache misses overlap.
 */
static uint32_t new_branch_locked(struct mt_capture *c, uint32_t parent, uint32_t i,
				  uint64_t source)
{
	uint32_t count = c->count - i + (source != 0);
	uint32_t n = mt_storage_take(MT_REGION_NODES, count);
	if (!n)
		return 0;
	node_index.used += count;
	for (; i < c->count; i++, parent = n++) {
		make_node(n, parent, c->frame[i].ra, frame_meta(&c->frame[i]));
		c->frame[i].node = n;
	}
	if (!source)
		return parent;
	make_node(n, parent, source, SOURCE_META);
	return n;
}

/* Tree node of the captured stack; caller holds sites_lock. 0: full. */
static uint32_t stack_node_locked(struct mt_capture *c, uint64_t source)
{
	uint32_t node = c->end < MT_NODE_ROOTS ? c->end : 0, child;
	uint32_t i = c->count;
	if (node_room_locked(c->count + 1))
		return 0;
	/* nodes of the outer frames may be known from the previous stack */
	while (i > 0 && !c->frame[i - 1].node)
		i--;
	if (i > 0)
		node = c->frame[i - 1].node;
	for (; i < c->count; i++, node = child) {
		child = *node_slot(node, c->frame[i].ra, frame_meta(&c->frame[i]));
		if (!child)
			return new_branch_locked(c, node, i, source);
		c->frame[i].node = child;
	}
	if (!source)
		return node;
	child = *node_slot(node, source, SOURCE_META);
	return child ? child : new_branch_locked(c, node, i, source);
}

/*
 * Does every frame of the site's stack still lie in the module in which it was recorded? A library
 * that is loaded where another one was gives the same addresses and hash, but is another stack.
 */
static int site_is_current(uint32_t site, const struct mt_module_list *list)
{
	uint32_t n = mt_rt.sites[site].node;
	for (; n >= MT_NODE_ROOTS; n = mt_rt.nodes[n].parent) {
		const struct mt_state_node *node = &mt_rt.nodes[n];
		if ((node->meta >> 20 & 15) == MT_NODE_SOURCE)
			continue;
		const struct mt_module *m = mt_module_list_find(list, node->pc - 1);
		if ((node->meta & 0xfffff) != (m ? m->number & 0xfffff : 0))
			return 0;
	}
	return 1;
}

/* The site of the captured stack; *key starts as its hash and ends as the key it stands under. */
static uint32_t find_site(uint64_t *key, uint64_t tag)
{
	const struct mt_module_list *list = __atomic_load_n(&mt_unwind.modules, __ATOMIC_ACQUIRE);
	for (;; *key = mix(*key + 1)) {
		uint32_t site = table_find(&site_table, *key, (uint32_t)tag);
		if (!site || site_is_current(site, list))
			return site;
	}
}

static uint32_t make_site_locked(struct mt_thread *t, uint64_t key, uint64_t tag, uint64_t source)
{
	uint32_t site = find_site(&key, tag);
	if (site)
		return site;
	if (table_room_locked(&site_table))
		return 0;
	uint32_t node = stack_node_locked(&t->capture, source);
	site = node ? mt_storage_take(MT_REGION_SITES, 1) : 0;
	if (!site)
		return 0;
	mt_thread_read_clock();
	mt_rt.sites[site] = (struct mt_state_site){
		.node = node,
		.heap = (uint8_t)(tag >> 8),
		.call = (uint8_t)tag,
		.label = (uint32_t)(tag >> 32),
		.first_unit = (uint32_t)__atomic_load_n(&mt_rt.hdr->now_unit, __ATOMIC_RELAXED),
		.hash = key,
		.regime = mt_site_tag_regime(tag),
	};
	table_put(site_table, key, (uint32_t)tag, site);
	if (mt_rt.sites[site].call == MT_CALL_NEW || mt_rt.sites[site].call == MT_CALL_NEW_ARRAY)
		__atomic_store_n(&mt_rt.has_new, 1, __ATOMIC_RELAXED);
	return site;
}

static struct mt_cell_entry *cell_entry(struct mt_cell_map *map, uint64_t hash)
{
	uint32_t i = (uint32_t)mix(hash) & map->mask;
	while (map->entry[i].cell && map->entry[i].hash != hash)
		i = (i + 1) & map->mask;
	return &map->entry[i];
}

/* Room for one more entry in the thread's map. 0 or -ENOMEM. */
static int cell_map_room(struct mt_thread *t)
{
	struct mt_cell_map *map = &t->cells;
	if (!map->entry) {
		map->entry = t->small_map;
		map->mask = MT_ARRAY_LEN(t->small_map) - 1;
	}
	if (map->used * 4 < (map->mask + 1) * 3)
		return 0;
	struct mt_cell_map old = *map;
	uint32_t n = (old.mask + 1) * 4;
	struct mt_cell_entry *made = mt_arena_take_table(n * sizeof(*made));
	if (!made)
		return -MT_ENOMEM;
	map->entry = made;
	MT_SIGNAL_FENCE(); /* a jump out of here must not leave the new mask with the old entries */
	map->mask = n - 1;
	for (uint32_t i = 0; i <= old.mask; i++)
		if (old.entry[i].cell)
			*cell_entry(map, old.entry[i].hash) = old.entry[i];
	if (old.entry != t->small_map)
		mt_arena_release_table(old.entry, (old.mask + 1) * sizeof(*old.entry));
	return 0;
}

/* Key of a thread's "cell of this site" entry; capture hashes are other 64-bit numbers. */
static uint64_t site_entry_key(uint32_t site)
{
	return mix(site + 0x51ed270b27b4f3c9u);
}

/* The thread's cell of a site, made when it has none. 0: full. */
static uint32_t cell_of_site(struct mt_thread *t, uint32_t site)
{
	uint64_t key = site_entry_key(site);
	if (cell_map_room(t))
		return 0;
	struct mt_cell_entry *e = cell_entry(&t->cells, key);
	if (e->cell)
		return e->cell;
	uint32_t cell = mt_storage_take(MT_REGION_CELLS, 1);
	if (!cell)
		return 0;
	if (mt_rt.sites[site].regime && mt_storage_cover(MT_REGION_SAMPLED, cell))
		return 0;
	mt_rt.cells[cell].site = site;
	mt_rt.cells[cell].thread = (uint16_t)t->number;
	mt_rt.cells[cell].at_peak_epoch = __atomic_load_n(&mt_rt.hdr->peak_epoch, __ATOMIC_RELAXED);
	if (__atomic_fetch_add(&mt_rt.sites[site].cell_count, 1, __ATOMIC_RELAXED) == 1)
		mt_rt.sites[site].shared = 1;
	t->cells.used++;
	MT_SIGNAL_FENCE(); /* never more entries than are counted: the map would not end */
	*e = (struct mt_cell_entry){.hash = key, .cell = cell};
	return cell;
}

/* --- module filter ------------------------------------------------------------------------- */

void mt_site_set_filter(const char *globs)
{
	__atomic_store_n(&filter.globs, globs, __ATOMIC_RELAXED);
	__atomic_fetch_add(&filter.count, 1, __ATOMIC_RELEASE);
}

uint32_t mt_site_filter_count(void)
{
	return __atomic_load_n(&filter.count, __ATOMIC_ACQUIRE);
}

/* One place to come back to is enough for stars. */
int mt_site_glob_matches(const char *glob, const char *text)
{
	const char *star = NULL, *from = NULL;
	while (*text) {
		int ends = !*glob || *glob == ',';
		if (!ends && *glob == '*') {
			star = ++glob;
			from = text;
		} else if (!ends && (*glob == '?' || *glob == *text)) {
			glob++;
			text++;
		} else if (star) {
			glob = star;
			text = ++from;
		} else {
			return 0;
		}
	}
	while (*glob == '*')
		glob++;
	return !*glob || *glob == ',';
}

int mt_site_globs_leave_out(const char *globs, const char *name)
{
	int wanted = 0, any_wanted = 0;
	for (const char *g = globs; g && *g; g++) {
		int matches = mt_site_glob_matches(g + 1, name);
		if (*g == '-' && matches)
			return 1;
		any_wanted |= *g == '+';
		wanted |= *g == '+' && matches;
		while (*g && *g != ',')
			g++;
		if (!*g)
			break;
	}
	return any_wanted && !wanted;
}

/* Libraries that allocate for their callers. */
static int is_support(const char *name)
{
	static const char *const names[] = {"libstdc++.so", "libc++.so", "libc++abi.so", "libc.so",
					    "ld-linux",     "ld-musl",   "libc.musl"};
	for (size_t i = 0; i < MT_ARRAY_LEN(names); i++)
		if (mt_str_starts(name, names[i]))
			return 1;
	return 0;
}

const char *mt_site_module_name(uint32_t number)
{
	const struct mt_state_module *m = mt_storage_base(MT_REGION_MODULES);
	const char *path = (const char *)mt_storage_base(MT_REGION_STRINGS) + m[number].path_string;
	const char *name = path;
	for (; *path; path++)
		if (*path == '/')
			name = path + 1;
	return name;
}

const char *mt_site_stack_owner(uint32_t node)
{
	const char *first = NULL;
	for (uint32_t n = node; n >= MT_NODE_ROOTS; n = mt_rt.nodes[n].parent) {
		uint32_t number = mt_rt.nodes[n].meta & 0xfffff;
		const char *name = number ? mt_site_module_name(number) : "";
		if (!first)
			first = name;
		if (number && !is_support(name))
			return name;
	}
	return first ? first : "";
}

static int is_excluded(uint32_t site)
{
	struct mt_state_site *s = &mt_rt.sites[site];
	uint32_t seen = __atomic_load_n(&s->filter, __ATOMIC_RELAXED);
	uint32_t count = mt_site_filter_count();
	if (!filter.globs || !*filter.globs)
		return 0;
	if (seen >> 1 != count) {
		const char *owner = mt_site_stack_owner(s->node);
		seen = count << 1 | (uint32_t)mt_site_globs_leave_out(filter.globs, owner);
		__atomic_store_n(&s->filter, seen, __ATOMIC_RELAXED);
	}
	return (int)(seen & 1);
}

/* The stack is not known to this thread, or its modules changed: find or make its site and cell. */
MT_COLD static uint32_t cell_for_stack_slow(struct mt_thread *t, uint64_t hash, uint64_t tag,
					    uint64_t source, uint32_t stamp)
{
	uint64_t key = hash;
	uint32_t site = find_site(&key, tag), cell = 0;
	if (!site && mt_lock(&sites_lock)) {
		site = make_site_locked(t, hash, tag, source);
		mt_unlock(&sites_lock);
	}
	if (site && is_excluded(site)) {
		t->excluded = 1;
		return 0;
	}
	if (site)
		cell = cell_of_site(t, site);
	if (!cell || cell_map_room(t)) {
		mt_rt_lost(MT_LOST_SITE_FULL);
		return cell;
	}
	struct mt_cell_entry *e = cell_entry(&t->cells, hash);
	t->cells.used += !e->cell;
	MT_SIGNAL_FENCE();
	*e = (struct mt_cell_entry){.hash = hash, .cell = cell, .generation = stamp};
	return cell;
}

uint32_t mt_site_cell(struct mt_thread *t, uint64_t tag, uint64_t source)
{
	const struct mt_module_list *list = __atomic_load_n(&mt_unwind.modules, __ATOMIC_ACQUIRE);
	uint64_t hash = t->capture.hash;
	struct mt_cell_entry *e = t->cells.entry ? cell_entry(&t->cells, hash) : NULL;
	uint32_t stamp = list->generation + (filter.count << 20);
	uint32_t cell = e && e->cell && e->generation == stamp ? e->cell : 0;
	if (!cell)
		cell = cell_for_stack_slow(t, hash, tag, source, stamp);
	if (cell)
		mt_capture_remember(&t->capture, cell);
	return cell;
}

uint32_t mt_site_stack_node(struct mt_capture *c)
{
	if (!mt_lock(&sites_lock))
		return 0;
	uint32_t node = stack_node_locked(c, 0);
	mt_unlock(&sites_lock);
	return node;
}

uint32_t mt_site_cell_for_free(struct mt_thread *t, uint32_t site)
{
	return cell_of_site(t, site);
}

MT_COLD void mt_cell_count_size_slow(struct mt_state_cell *cell, uint32_t bucket)
{
	if (cell->size_known == MT_SIZE_NONE) {
		cell->size_known = MT_SIZE_ONE;
		cell->size_bucket = (uint8_t)bucket;
		return;
	}
	if (cell->size_known != MT_SIZE_ONE)
		return;
	uint32_t h = mt_storage_take(MT_REGION_HISTS, 1);
	if (!h) {
		mt_rt_lost(MT_LOST_HIST_FULL);
		cell->size_known = MT_SIZE_REFUSED;
		return;
	}
	struct mt_state_hist *made = &mt_rt.hists[h];
	/* this allocation is already in cell->allocs */
	uint64_t before = cell->allocs - 1;
	made->count[cell->size_bucket] = before > UINT32_MAX ? UINT32_MAX : (uint32_t)before;
	made->count[bucket]++;
	cell->hist = h;
	cell->size_known = MT_SIZE_HIST;
}

uint32_t mt_site_source_file(const char *file)
{
	uint32_t have = table_find(&source_table, (uintptr_t)file, 0);
	const char *strings = mt_storage_base(MT_REGION_STRINGS);
	if (have && mt_str_equal(strings + have, file))
		return have;
	if (have ||
	    !mt_lock(&sites_lock)) /* an unloaded library's literal: another name is there now */
		return mt_storage_string(file);
	uint32_t at = mt_storage_string(file);
	if (at && !table_room_locked(&source_table))
		table_put(source_table, (uintptr_t)file, 0, at);
	mt_unlock(&sites_lock);
	return at;
}

static uint32_t make_label_locked(const char *text, uint64_t key)
{
	const struct mt_state_region *r = mt_rt.region[MT_REGION_LABELS];
	/* what is refused leaves no text in the string table */
	if (r->used >= r->capacity || table_room_locked(&label_table))
		return 0;
	uint32_t name = mt_storage_string(text),
		 number = name ? mt_storage_take(MT_REGION_LABELS, 1) : 0;
	if (!number)
		return 0;
	struct mt_state_label *label = mt_storage_base(MT_REGION_LABELS);
	label[number].name_string = name;
	table_put(label_table, key, 0, number);
	return number;
}

uint32_t mt_site_label(const char *text)
{
	const struct mt_state_label *label = mt_storage_base(MT_REGION_LABELS);
	const char *strings = mt_storage_base(MT_REGION_STRINGS);
	uint64_t key = mt_hash_bytes(text, mt_str_len(text), 1);
	for (;; key++) {
		uint32_t number = table_find(&label_table, key, 0);
		if (!number)
			break;
		if (mt_str_equal(strings + label[number].name_string, text))
			return number;
	}
	if (!mt_lock(&sites_lock))
		return 0;
	uint32_t number = table_find(&label_table, key, 0);
	if (!number || !mt_str_equal(strings + label[number].name_string, text))
		number = make_label_locked(text, number ? key + 1 : key);
	mt_unlock(&sites_lock);
	if (!number)
		mt_rt_lost(MT_LOST_LABEL_FULL);
	return number;
}
