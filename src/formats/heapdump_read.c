/* SPDX-License-Identifier: MIT */
/*
 * Line by line: records become a stack tree, sites (a stack and its side of the zygote) and groups
 * (a site and a size). Modules come after the records, so frames get theirs at the end. What always
 * holds: the sum of size * count over all groups fits 63 bits, for a record that would break that
 * counts as garbage.
 */
#include "formats/heapdump_read.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/search.h"
#include "formats/heapdump_line.h"
#include "formats/text_lines.h"
#include "wire/state.h"

enum {
	LINE_BYTES_MAX = 4 << 20, /* a longer line is none of a dump */
	TABLE_MAX = INT32_MAX,    /* entries of one table */
	VERSION_SURE = 11,        /* from v1.1 on num is what it says */
	DOUBTS_MAX = 3, /* so many records in a row whose num is the depth: it is the depth */
};

/* A site's blocks of one size. */
struct group {
	uint32_t site;
	uint64_t size, num, records;
};

/* What the header claims; has_X: the line was there. */
struct head {
	uint64_t version, total, records, depth;
	bool has_version, has_total, has_records, has_depth, has_end;
};

/* Whether num means what it says, as far as records have told yet. */
struct doubt {
	uint32_t equal; /* records so far, whose num is the depth each */
	bool is_settled, is_wrong;
};

struct counters {
	uint64_t records, cut;
	uint64_t garbage, garbage_line, broken, broken_line;
	uint64_t nums; /* sum of size * num: the larger reading */
};

struct reader {
	struct mt_profile *p;
	uint64_t line;
	struct head head;
	struct doubt doubt;
	struct counters seen;
	struct mt_text_lines lines;
	/* heap arrays; the profile's arena takes them over at the end */
	struct mt_profile_node *node;
	struct mt_profile_module *module;
	struct group *group;
	uint64_t *site; /* node << 1 | is_app; [0] unused */
	size_t nodes, node_cap, modules, module_cap, groups, group_cap, sites, site_cap;
	struct mt_map pcs, sizes, node_of, site_of, group_of;
	/* of bt_info, by node; NULL: there was none */
	const char **given;
	struct info {
		uint32_t map; /* string number */
		uint64_t bias;
	} * info;
	size_t given_cap, info_cap;
	struct mt_strings strings;
	const char **copy; /* by string number: its copy in the profile's arena */
	size_t copy_cap;
	uint32_t record[MT_HEAPDUMP_FRAMES_MAX]; /* nodes of the last record, innermost first */
	uint32_t record_frames;
};

static void reader_done(struct reader *rd)
{
	mt_profile_free(rd->p);
	mt_text_lines_done(&rd->lines);
	free(rd->node);
	free(rd->module);
	free(rd->group);
	free(rd->site);
	free(rd->given);
	free(rd->info);
	free(rd->copy);
	mt_map_done(&rd->pcs);
	mt_map_done(&rd->sizes);
	mt_map_done(&rd->node_of);
	mt_map_done(&rd->site_of);
	mt_map_done(&rd->group_of);
	mt_strings_done(&rd->strings);
}
MT_AUTO_DEFINE_INPLACE(reader, struct reader, reader_done)

/* Room for one more element of a table of rd. */
#define GROW(rd, array, count, cap) \
	({ \
		void *grown = (count) >= TABLE_MAX \
				      ? NULL \
				      : mt_alloc_grow((rd)->array, &(rd)->cap, (count) + 1, \
						      sizeof(*(rd)->array)); \
		if (grown) \
			(rd)->array = grown; \
		grown ? 0 : (count) >= TABLE_MAX ? -EFBIG : -ENOMEM; \
	})

/* ---- records ---- */

/* A small number for a large one, the same for the same. */
static int number_of(struct mt_map *m, uint64_t value, uint64_t *ret_number)
{
	bool created;
	uint64_t *at = mt_map_at(m, value, &created);

	if (!at)
		return -ENOMEM;
	if (created)
		*at = m->count;
	*ret_number = *at;
	return m->count > TABLE_MAX ? -EFBIG : 0;
}

/* The node of a frame that was called from `parent`. */
static int get_node(struct reader *rd, uint32_t parent, uint64_t address, uint32_t *ret_node)
{
	uint64_t pc, *at;
	bool created;
	int r = number_of(&rd->pcs, address, &pc);

	if (r)
		return r;
	at = mt_map_at(&rd->node_of, (uint64_t)parent << 32 | pc, &created);
	if (!at)
		return -ENOMEM;
	if (!created) {
		*ret_node = (uint32_t)*at;
		return 0;
	}
	r = GROW(rd, node, rd->nodes, node_cap);
	if (r)
		return r;
	/* a dump's addresses lie in the call itself, a profile's behind it */
	rd->node[rd->nodes] = (struct mt_profile_node){
		.pc = address + 1,
		.parent = parent,
		.depth = (uint16_t)(rd->node[parent].depth + 1),
		.kind = MT_FRAME_EXACT,
	};
	*at = *ret_node = (uint32_t)rd->nodes++;
	return 0;
}

/* The frames of a record, into rd->record; returns their innermost node. */
static int get_stack(struct reader *rd, const char *rest, uint32_t *ret_node)
{
	uint64_t frame[MT_HEAPDUMP_FRAMES_MAX], address;
	uint32_t count = 0, node = 0;
	int r = 0;

	while (mt_heapdump_next_frame(&rest, &address)) {
		if (count == MT_HEAPDUMP_FRAMES_MAX) {
			rd->seen.cut++;
			break;
		}
		frame[count++] = address;
	}
	rd->record_frames = count;
	for (uint32_t i = count; i-- > 0 && !r;) {
		r = get_node(rd, node, frame[i], &node);
		rd->record[i] = node;
	}
	*ret_node = node;
	return r;
}

static int get_site(struct reader *rd, uint64_t key, uint32_t *ret_site)
{
	bool created;
	uint64_t *at = mt_map_at(&rd->site_of, key, &created);
	int r = at ? 0 : -ENOMEM;

	if (!r && created) {
		r = GROW(rd, site, rd->sites, site_cap);
		if (r)
			return r;
		rd->site[rd->sites] = key;
		*at = rd->sites++;
	}
	if (!r)
		*ret_site = (uint32_t)*at;
	return r;
}

static int add_to_group(struct reader *rd, uint32_t site, const struct mt_heapdump_line *l)
{
	uint64_t size, *at;
	bool created;
	int r = number_of(&rd->sizes, l->size, &size);

	if (r)
		return r;
	at = mt_map_at(&rd->group_of, (uint64_t)site << 32 | size, &created);
	if (!at)
		return -ENOMEM;
	if (created) {
		r = GROW(rd, group, rd->groups, group_cap);
		if (r)
			return r;
		rd->group[rd->groups] = (struct group){.site = site, .size = l->size};
		*at = rd->groups++;
	}
	rd->group[*at].num += l->num;
	rd->group[*at].records++;
	return 0;
}

/* Before v1.1 a record's num may be the depth of stacks. */
static void doubt_num(struct reader *rd, uint64_t num)
{
	struct doubt *d = &rd->doubt;

	if (d->is_settled)
		return;
	d->is_settled = !rd->head.has_depth || num != rd->head.depth;
	d->is_wrong = !d->is_settled && ++d->equal == DOUBTS_MAX;
	d->is_settled |= d->is_wrong;
}

/* Whether the record's numbers can be true together with all before it. */
static bool is_possible(const struct reader *rd, const struct mt_heapdump_line *l)
{
	uint64_t bytes, sum;

	return l->size < UINT64_C(1) << 56 && l->num < UINT64_C(1) << 56 &&
	       !__builtin_mul_overflow(MT_MAX(l->size, UINT64_C(1)), MT_MAX(l->num, UINT64_C(1)),
				       &bytes) &&
	       !__builtin_add_overflow(rd->seen.nums, bytes, &sum) && sum <= INT64_MAX;
}

static void note_broken(struct reader *rd)
{
	if (!rd->seen.broken++)
		rd->seen.broken_line = rd->line;
	rd->record_frames = 0;
}

static int take_record(struct reader *rd, const struct mt_heapdump_line *l)
{
	uint32_t node, site;
	int r;

	if (!is_possible(rd, l)) {
		note_broken(rd);
		return 0;
	}
	rd->seen.nums += MT_MAX(l->size, UINT64_C(1)) * MT_MAX(l->num, UINT64_C(1));
	rd->seen.records++;
	doubt_num(rd, l->num);
	r = get_stack(rd, l->rest, &node);
	if (!r)
		r = get_site(rd, (uint64_t)node << 1 | l->is_app, &site);
	return r ? r : add_to_group(rd, site, l);
}

/* ---- bt_info ---- */

static int copy_of(struct reader *rd, const char *text, uint32_t len, uint32_t *ret_number)
{
	uint32_t before = rd->strings.count;
	const char **copy;
	int r = mt_strings_intern(&rd->strings, text, len, ret_number);

	if (r || *ret_number <= before)
		return r;
	copy = mt_alloc_grow(rd->copy, &rd->copy_cap, *ret_number + 1u, sizeof(*copy));
	if (!copy)
		return -ENOMEM;
	rd->copy = copy;
	copy[0] = "";
	copy[*ret_number] = mt_arena_strndup(rd->p->arena, text, len);
	return copy[*ret_number] ? 0 : -ENOMEM;
}

/* Makes both tables of what was given as long as the nodes. */
static int grow_given(struct reader *rd)
{
	size_t had_given = rd->given_cap, had_info = rd->info_cap;
	const char **given = mt_alloc_grow(rd->given, &rd->given_cap, rd->nodes, sizeof(*given));
	struct info *info;

	if (!given)
		return -ENOMEM;
	rd->given = given;
	memset(given + had_given, 0, (rd->given_cap - had_given) * sizeof(*given));
	info = mt_alloc_grow(rd->info, &rd->info_cap, rd->nodes, sizeof(*info));
	if (!info)
		return -ENOMEM;
	rd->info = info;
	memset(info + had_info, 0, (rd->info_cap - had_info) * sizeof(*info));
	return 0;
}

static int take_info(struct reader *rd, const char *rest)
{
	struct mt_heapdump_info info;
	int r = grow_given(rd);

	for (uint32_t i = 0; i < rd->record_frames && !r; i++) {
		uint32_t node = rd->record[i], name = 0, map = 0;

		if (!mt_heapdump_next_info(&rest, &info))
			break;
		if (info.function_len)
			r = copy_of(rd, info.function, info.function_len, &name);
		if (!r && info.map_len)
			r = copy_of(rd, info.map, info.map_len, &map);
		if (r)
			return r;
		if (name)
			rd->given[node] = rd->copy[name];
		if (map)
			rd->info[node] = (struct info){map, rd->node[node].pc - 1 - info.relative};
	}
	rd->record_frames = 0; /* at most one such line a record */
	return r;
}

/* ---- modules ---- */

static int add_module(struct reader *rd, const struct mt_profile_module *m)
{
	int r = GROW(rd, module, rd->modules, module_cap);

	if (!r)
		rd->module[rd->modules++] = *m;
	return r;
}

/* Lines of one file with the same distance of address and offset are one module. */
static int take_map(struct reader *rd, const struct mt_heapdump_line *l)
{
	struct mt_profile_module *last = rd->modules ? &rd->module[rd->modules - 1] : NULL;
	struct mt_profile_module m = {
		.lo = l->lo, .hi = l->hi, .bias = l->lo - l->offset, .by_offset = true};
	uint32_t path;
	int r = *l->path ? copy_of(rd, l->path, (uint32_t)strlen(l->path), &path) : 0;

	if (r || !*l->path)
		return r;
	m.path = rd->copy[path];
	m.base = !l->offset ? l->lo : 0;
	if (last && last->by_offset && last->path == m.path && l->offset && l->lo >= last->hi)
		m.base = last->base;
	if (last && last->by_offset && last->path == m.path && last->bias == m.bias &&
	    last->hi == m.lo) {
		last->hi = m.hi;
		return 0;
	}
	return add_module(rd, &m);
}

static int take_module(struct reader *rd, const struct mt_heapdump_line *l)
{
	struct mt_profile_module m = {.lo = l->lo, .hi = l->hi, .bias = l->bias};
	uint32_t path;
	int r = copy_of(rd, l->path, (uint32_t)strlen(l->path), &path);

	if (r)
		return r;
	m.path = rd->copy[path];
	for (uint32_t i = 0; i + 1 < l->id_len && i / 2 < sizeof(m.build_id); i += 2) {
		char digits[3] = {l->id[i], l->id[i + 1], 0};

		m.build_id[m.build_id_bytes++] = (uint8_t)strtoul(digits, NULL, 16);
	}
	return add_module(rd, &m);
}

/* By address; where both kinds begin together ours is first. */
static int compare_modules(const void *a, const void *b)
{
	const struct mt_profile_module *x = a, *y = b;

	if (x->lo != y->lo)
		return x->lo < y->lo ? -1 : 1;
	if (x->by_offset != y->by_offset)
		return x->by_offset ? 1 : -1;
	return x->hi < y->hi ? 1 : x->hi > y->hi ? -1 : strcmp(x->path, y->path);
}

/* Map lines inside of a module that is known better. */
static void drop_covered(struct reader *rd)
{
	size_t kept = 0;
	struct mt_profile_module *m = rd->module, best = {0};

	for (size_t i = 0; i < rd->modules; i++) {
		if (i && m[i].by_offset && m[i].lo >= best.lo && m[i].hi <= best.hi)
			continue;
		if (!m[i].by_offset)
			best = m[i];
		m[kept++] = m[i];
	}
	rd->modules = kept;
}

/* Among the first `count`, which are sorted; UINT32_MAX: none. */
static uint32_t find_module(const struct reader *rd, size_t count, uint64_t address)
{
	size_t lo = MT_SEARCH_UP_TO(rd->module, count, lo, address);

	/* the nearest ones before: they overlap where a map is damaged */
	for (size_t i = lo; i-- > 0 && lo - i <= 2;)
		if (address < rd->module[i].hi)
			return (uint32_t)i;
	return UINT32_MAX;
}

/* A module that only bt_info names; found by name and bias among those after `first`. */
static int given_module(struct reader *rd, const struct info *info, struct mt_map *known,
			uint32_t *ret_module)
{
	struct mt_profile_module m = {.bias = info->bias, .path = rd->copy[info->map]};
	uint64_t bias, *at;
	bool created;
	int r = number_of(&rd->sizes, info->bias, &bias);

	if (r)
		return r;
	at = mt_map_at(known, (uint64_t)info->map << 32 | bias, &created);
	if (!at)
		return -ENOMEM;
	if (created) {
		*at = rd->modules;
		r = add_module(rd, &m);
	}
	*ret_module = (uint32_t)*at;
	return r;
}

static int place_nodes(struct reader *rd)
{
	mt_auto(mt_map) struct mt_map known = {0};
	size_t mapped;
	int r = 0;

	if (rd->modules)
		qsort(rd->module, rd->modules, sizeof(*rd->module), compare_modules);
	drop_covered(rd);
	mapped = rd->modules;
	for (size_t i = 1; i < rd->nodes && !r; i++) {
		uint32_t module = find_module(rd, mapped, rd->node[i].pc - 1);

		if (module == UINT32_MAX && rd->info && i < rd->info_cap && rd->info[i].map)
			r = given_module(rd, &rd->info[i], &known, &module);
		rd->node[i].module = module == UINT32_MAX ? 0 : module + 1;
	}
	return r;
}

/* ---- the profile ---- */

static bool is_num_wrong(const struct reader *rd)
{
	if (rd->head.has_version && rd->head.version >= VERSION_SURE)
		return false;
	return rd->doubt.is_settled ? rd->doubt.is_wrong : rd->doubt.equal > 0;
}

static uint64_t count_of(const struct reader *rd, const struct group *g)
{
	return is_num_wrong(rd) ? g->records : g->num;
}

static bool has_app(const struct reader *rd)
{
	for (size_t i = 1; i < rd->sites; i++)
		if (rd->site[i] & 1)
			return true;
	return false;
}

static int fill_modules(struct reader *rd)
{
	struct mt_profile *p = rd->p;
	uint64_t first = UINT64_MAX;

	p->module = mt_arena_array(p->arena, rd->modules + 1, sizeof(*p->module));
	if (!p->module)
		return -ENOMEM;
	p->module[0].path = "";
	for (size_t i = 0; i < rd->modules; i++) {
		struct mt_profile_module *m = &p->module[i + 1];

		*m = rd->module[i];
		/* the program lies below its libraries, but for what has no file */
		if (m->path[0] == '/' && first == UINT64_MAX && m->hi && !strstr(m->path, ".so")) {
			first = m->lo;
			p->exe = m->path;
			m->is_program = true;
		}
	}
	p->module_count = (uint32_t)rd->modules + 1;
	return 0;
}

static int fill_labels(struct reader *rd)
{
	struct mt_profile *p = rd->p;

	p->label = mt_arena_array(p->arena, 3, sizeof(*p->label));
	if (!p->label)
		return -ENOMEM;
	p->label[0] = "";
	p->label[1] = MT_PROFILE_ZYGOTE;
	p->label[2] = MT_PROFILE_APP;
	p->label_count = has_app(rd) ? 3 : 1;
	return 0;
}

/* Sites, each with one cell of the same number. */
static int fill_sites(struct reader *rd)
{
	struct mt_profile *p = rd->p;
	size_t count = rd->sites;

	p->site = mt_arena_array(p->arena, count, sizeof(*p->site));
	p->cell = mt_arena_array(p->arena, count, sizeof(*p->cell));
	p->cell_by_site = mt_arena_array(p->arena, count, sizeof(*p->cell_by_site));
	p->hist = mt_arena_array(p->arena, count, sizeof(*p->hist));
	if (!p->site || !p->cell || !p->cell_by_site || !p->hist)
		return -ENOMEM;
	for (uint32_t i = 1; i < count; i++) {
		p->site[i].node = (uint32_t)(rd->site[i] >> 1);
		p->site[i].call = MT_CALL_MALLOC;
		p->site[i].label = p->label_count > 1 ? 1 + (rd->site[i] & 1) : 0;
		p->site[i].first_cell = i;
		p->site[i].cell_count = 1;
		p->cell_by_site[i] = i;
		p->cell[i].site = i;
		p->cell[i].hist = i;
		p->cell[i].size_bucket = MT_PROFILE_SIZES;
	}
	p->site_count = p->cell_count = p->hist_count = (uint32_t)count;
	return 0;
}

static void add_group(struct mt_profile *p, const struct mt_profile_group *g)
{
	struct mt_profile_site *s = &p->site[g->cell];
	struct mt_profile_cell *c = &p->cell[g->cell];
	uint64_t bytes = g->size * g->count, now;
	uint32_t bucket = mt_state_size_bucket(g->size);

	s->counts.allocs += g->count;
	s->counts.bytes += bytes;
	s->live_count += g->count;
	s->live_bytes += bytes;
	c->counts = s->counts;
	c->live_count = s->live_count;
	c->live_bytes = s->live_bytes;
	now = p->hist[c->hist][bucket] + g->count;
	p->hist[c->hist][bucket] = (uint32_t)MT_MIN(now, (uint64_t)UINT32_MAX);
	p->totals.allocs += g->count;
	p->totals.bytes += bytes;
}

static int fill_groups(struct reader *rd)
{
	struct mt_profile *p = rd->p;

	p->group = mt_arena_array(p->arena, rd->groups + 1, sizeof(*p->group));
	if (!p->group)
		return -ENOMEM;
	for (size_t i = 0; i < rd->groups; i++) {
		struct mt_profile_group g = {.size = rd->group[i].size,
					     .count = count_of(rd, &rd->group[i]),
					     .cell = rd->group[i].site};

		if (!g.count)
			continue;
		add_group(p, &g);
		p->group[p->groups++] = g;
	}
	p->live_count = p->block_count = p->totals.allocs;
	p->live_bytes = p->block_bytes = p->totals.bytes;
	p->heap[0].counts = p->totals;
	p->heap[0].live_count = p->live_count;
	p->heap[0].live_bytes = p->live_bytes;
	return 0;
}

static int fill_nodes(struct reader *rd)
{
	struct mt_profile *p = rd->p;
	int r = rd->given ? grow_given(rd) : 0;

	if (r || mt_arena_adopt(p->arena, rd->node))
		return -ENOMEM;
	p->node = rd->node;
	p->node_count = (uint32_t)rd->nodes;
	rd->node = NULL;
	if (!rd->given)
		return 0;
	if (mt_arena_adopt(p->arena, rd->given))
		return -ENOMEM;
	p->given_name = rd->given;
	rd->given = NULL;
	return 0;
}

/* ---- what to say ---- */

static void warn_lines(struct mt_profile *p, const char *which, uint64_t count, uint64_t line)
{
	if (count == 1)
		mt_profile_warn(p, "line %" PRIu64 " is left out: %s", line, which);
	else if (count)
		mt_profile_warn(p,
				"%" PRIu64 " lines are left out, the first is line %" PRIu64 ": %s",
				count, line, which);
}

static void warn_of_head(struct reader *rd)
{
	struct mt_profile *p = rd->p;
	const struct head *h = &rd->head;

	if (h->has_version && !h->has_end)
		mt_profile_warn(p, "the dump is cut: its last line, END, is missing");
	if (h->has_records && h->records != rd->seen.records)
		mt_profile_warn(p, "the dump claims %" PRIu64 " records, %" PRIu64 " were found",
				h->records, rd->seen.records);
	else if (h->has_total && !is_num_wrong(rd) && h->total != p->live_bytes)
		mt_profile_warn(p, "the dump claims %" PRIu64 " bytes, its records hold %" PRIu64,
				h->total, p->live_bytes);
	if (is_num_wrong(rd))
		mt_profile_warn(p, "the number of blocks of each record (num) is not used: in this "
				   "version it is the depth of stacks; every record counts as one "
				   "block");
	if (h->has_version && !h->version)
		mt_profile_warn(p, "the dump's version cannot be read; it is read as version 1.0");
	else if (h->version > 12)
		mt_profile_warn(p,
				"the dump has version %" PRIu64 ".%" PRIu64
				", which is newer than what is known here (1.2)",
				h->version / 10, h->version % 10);
}

static void warn(struct reader *rd)
{
	struct mt_profile *p = rd->p;

	warn_lines(p, "no lines of a heap dump", rd->seen.garbage, rd->seen.garbage_line);
	warn_lines(p, "records that are damaged", rd->seen.broken, rd->seen.broken_line);
	warn_of_head(rd);
	if (rd->seen.cut)
		mt_profile_warn(p,
				"%" PRIu64 " stacks have more than %d frames: the outer ones are "
				"left out",
				rd->seen.cut, MT_HEAPDUMP_FRAMES_MAX);
	if (rd->nodes > 1 && !rd->modules)
		mt_profile_warn(p, "the dump has no memory map: its addresses belong to no file");
}

/* ---- lines ---- */

static int take_line(struct reader *rd, const char *text)
{
	struct mt_heapdump_line l;
	struct head *h = &rd->head;

	mt_heapdump_parse(text, &l);
	switch (l.kind) {
	case MT_HEAPDUMP_RECORD:
		return take_record(rd, &l);
	case MT_HEAPDUMP_INFO:
		return take_info(rd, l.rest);
	case MT_HEAPDUMP_MAP:
		return take_map(rd, &l);
	case MT_HEAPDUMP_MODULE:
		return take_module(rd, &l);
	case MT_HEAPDUMP_VERSION:
		h->has_version = true;
		h->version = l.number;
		break;
	case MT_HEAPDUMP_TOTAL:
		h->has_total = true;
		h->total = l.number;
		break;
	case MT_HEAPDUMP_RECORDS:
		h->has_records = true;
		h->records = l.number;
		break;
	case MT_HEAPDUMP_DEPTH:
		h->has_depth = true;
		h->depth = l.number;
		break;
	case MT_HEAPDUMP_END:
		h->has_end = true;
		break;
	case MT_HEAPDUMP_OTHER:
		if (text[0] == 'z' && (text[1] == ' ' || text[1] == '\t')) {
			note_broken(rd);
			break;
		}
		if (!rd->seen.garbage++)
			rd->seen.garbage_line = rd->line;
		break;
	default:
		break;
	}
	return 0;
}

static int take(void *context, const char *text)
{
	struct reader *rd = context;

	rd->line = rd->lines.line;
	/* text ends at a NUL: what is behind it is not looked at */
	if (text)
		return take_line(rd, text);
	if (!rd->seen.garbage++)
		rd->seen.garbage_line = rd->line;
	return 0;
}

static int begin(struct reader *rd)
{
	rd->lines.take = take;
	rd->lines.context = rd;
	rd->lines.most_bytes = LINE_BYTES_MAX;
	rd->p = mt_profile_new();
	if (!rd->p || GROW(rd, node, 0, node_cap) || GROW(rd, site, 0, site_cap))
		return -ENOMEM;
	rd->node[0] = (struct mt_profile_node){0};
	rd->site[0] = 0;
	rd->nodes = rd->sites = 1;
	return 0;
}

static int finish(struct reader *rd)
{
	int r = mt_text_lines_end(&rd->lines);

	if (!r)
		r = place_nodes(rd);
	if (!r)
		r = fill_modules(rd);
	if (!r)
		r = fill_labels(rd);
	if (!r)
		r = fill_sites(rd);
	if (!r)
		r = fill_groups(rd);
	if (!r)
		r = fill_nodes(rd);
	if (r)
		return r;
	rd->p->source = MT_PROFILE_OF_HEAP_DUMP;
	rd->p->end_kind = MT_END_SNAPSHOT;
	rd->p->mode = MT_MODE_FULL;
	rd->p->depth = (uint32_t)MT_MIN(rd->head.depth, (uint64_t)UINT32_MAX);
	warn(rd);
	return 0;
}

static int give(struct reader *rd, const char *name, int r, struct mt_profile **ret_profile,
		struct mt_err *err)
{
	if (!r && !rd->seen.records && !rd->head.has_version)
		return mt_err_set(err, -EBADMSG,
				  "'%s' is not a native heap dump: it has neither the header "
				  "'Android Native Heap Dump' nor a record 'z 0  sz ...'",
				  name);
	if (!r)
		r = finish(rd);
	if (r == -EFBIG)
		return mt_err_set(err, r, "'%s' has too many stacks: more than %d", name,
				  TABLE_MAX);
	if (r)
		return mt_err_no_memory(err);
	*ret_profile = rd->p;
	rd->p = NULL;
	return 0;
}

int mt_heapdump_read_memory(const void *data, size_t len, const char *name,
			    struct mt_profile **ret_profile, struct mt_err *err)
{
	mt_auto(reader) struct reader rd = {0};
	int r = begin(&rd);

	if (!r)
		r = mt_text_lines_add(&rd.lines, data, len);
	return give(&rd, name, r, ret_profile, err);
}

int mt_heapdump_read_fd(int fd, const char *name, struct mt_profile **ret_profile,
			struct mt_err *err)
{
	mt_auto(reader) struct reader rd = {0};
	int number = 0, r = begin(&rd);

	if (!r)
		r = mt_text_lines_read(&rd.lines, fd, &number);
	if (number)
		return mt_err_set_errno(err, number, "cannot read '%s'", name);
	return give(&rd, name, r, ret_profile, err);
}

bool mt_heapdump_is(const char *text, size_t len)
{
	char line[512];

	for (size_t at = 0; at < len;) {
		const char *end = memchr(text + at, '\n', len - at);
		size_t part = end ? (size_t)(end - text) - at : len - at;
		struct mt_heapdump_line l;

		/* the beginning of a record is enough; the last line may be cut */
		memcpy(line, text + at, MT_MIN(part, sizeof(line) - 1));
		line[MT_MIN(part, sizeof(line) - 1)] = 0;
		if (strlen(line) < MT_MIN(part, sizeof(line) - 1))
			return false; /* a NUL: no text */
		mt_heapdump_parse(line, &l);
		if (l.kind == MT_HEAPDUMP_VERSION || l.kind == MT_HEAPDUMP_RECORD)
			return true;
		at += part + 1;
	}
	return false;
}
