/* SPDX-License-Identifier: MIT */
/*
 * Each record (a call site and a size) walks from its root to a leaf and counts in every node on
 * the way. Nodes are found by a hash of what they stand for and their parent's number; the order of
 * siblings is made at the end.
 */
#include "analysis/tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/callstack.h"
#include "base/alloc.h"
#include "base/map.h"
#include "core/cc.h"
#include "core/hash.h"
#include "model/profile.h"
#include "model/records.h"

enum { STACK_MAX = 256, PATH_MAX_ROWS = STACK_MAX * MT_NAMES_MAX + 1 };
enum { KEY_PLACE = 1, KEY_FUNCTION, KEY_LIBRARY, KEY_SIZE, KEY_NO_STACK, KEY_PROGRAM };

/* One node to be, and what tells it from its siblings. */
struct step {
	uint64_t key;
	struct mt_tree_node node;
};

struct builder {
	const struct mt_tree_query *query;
	struct mt_tree out;
	struct mt_map index; /* hash of parent and key -> node */
	size_t capacity;
	struct step *step; /* owned: PATH_MAX_ROWS of them */
	uint32_t steps;
	bool is_split; /* roots for both sides of the zygote */
};

void mt_tree_done(struct mt_tree *t)
{
	if (!t)
		return;
	free(t->node);
	free(t->order);
	*t = (struct mt_tree){0};
}

static uint64_t hash_text(const char *text, uint64_t seed)
{
	return mt_hash_bytes(text, strlen(text), seed);
}

static uint64_t hash_pair(uint64_t a, uint64_t b)
{
	const uint64_t words[] = {a, b};

	return mt_hash_bytes(words, sizeof(words), 0);
}

/* ---- steps of a record ---- */

static const struct mt_profile_module *module_of(const struct mt_profile *p, uint32_t node)
{
	uint32_t module = p->node[node].module;

	return module && module < p->module_count ? &p->module[module] : NULL;
}

/*
 * A module's name without its directory: a file that was built or installed elsewhere is the same.
 * The program itself may have another name then.
 */
static uint64_t key_of_module(const struct mt_profile_module *m)
{
	return m->is_program ? KEY_PROGRAM : hash_text(mt_names_base(m->path), KEY_LIBRARY);
}

static uint64_t key_of_place(const struct mt_profile *p, uint32_t node)
{
	const struct mt_profile_node *n = &p->node[node];
	const struct mt_profile_module *m = module_of(p, node);

	if (n->kind == MT_FRAME_SOURCE)
		return hash_text(n->source_file ? n->source_file : "", n->source_line + 1u);
	return m ? hash_pair(key_of_module(m), n->pc - m->bias) : hash_pair(KEY_PLACE, n->pc);
}

static struct step *add_step(struct builder *b, enum mt_tree_kind kind, uint64_t key)
{
	struct step *s = &b->step[b->steps < PATH_MAX_ROWS - 1 ? b->steps++ : b->steps - 1];

	*s = (struct step){.key = key, .node = {.kind = kind}};
	return s;
}

/* A frame and what is inlined into it, innermost first. */
static void add_frame(struct builder *b, const struct mt_profile *p, uint32_t node)
{
	const struct mt_profile_node *n = &p->node[node];
	const struct mt_profile_module *m = module_of(p, node);
	struct mt_name name[MT_NAMES_MAX] = {{0}};
	uint32_t count = mt_names_frames(b->query->names, p, node, name, MT_NAMES_MAX);
	uint64_t place = key_of_place(p, node);

	for (uint32_t i = 0; i < MT_MAX(count, 1u); i++) {
		bool by_name = b->query->by == MT_TREE_FUNCTION && name[i].function;
		struct step *s = add_step(b, MT_TREE_FRAME, hash_pair(place, i));

		if (by_name)
			s->key = hash_text(name[i].function,
					   m ? key_of_module(m) : (uint64_t)KEY_FUNCTION);
		s->node.library = m && *m->path ? m->path : NULL;
		s->node.function = name[i].function;
		s->node.file = name[i].file;
		s->node.line = name[i].line;
		s->node.is_inlined = name[i].is_inlined;
		s->node.address = n->kind == MT_FRAME_SOURCE ? 0 : n->pc - 1;
	}
}

static void add_library(struct builder *b, const struct mt_profile *p, uint32_t node)
{
	const struct mt_profile_module *m = module_of(p, node);
	uint64_t key = m ? key_of_module(m) : 0;
	struct step *s;

	if (b->steps && b->step[b->steps - 1].key == key)
		return;
	s = add_step(b, MT_TREE_LIBRARY_ROW, key);
	s->node.library = m && *m->path ? m->path : NULL;
}

static void reverse_steps(struct step *step, uint32_t count)
{
	for (uint32_t i = 0; i < count / 2; i++) {
		struct step other = step[i];

		step[i] = step[count - 1 - i];
		step[count - 1 - i] = other;
	}
}

static void make_steps(struct builder *b, const struct mt_profile *p, const struct mt_record *r)
{
	uint32_t node[STACK_MAX], count = 0, first;

	b->steps = 0;
	if (b->query->by == MT_TREE_SIZE)
		add_step(b, MT_TREE_SIZE_ROW, hash_pair(KEY_SIZE, r->size))->node.size = r->size;
	first = b->steps;
	if (r->site)
		count = mt_profile_stack(p, mt_callstack_top(p, p->site[r->site].node), node,
					 STACK_MAX);
	for (uint32_t i = 0; i < count; i++) {
		if (b->query->by == MT_TREE_LIBRARY)
			add_library(b, p, node[i]);
		else
			add_frame(b, p, node[i]);
	}
	if (!count)
		add_step(b, MT_TREE_NO_STACK, KEY_NO_STACK);
	if ((b->query->by == MT_TREE_CALLERS) != b->query->reverse)
		reverse_steps(b->step + first, b->steps - first);
}

/* ---- nodes ---- */

/* What two frames that share a node do not have in common is not known of it. */
static void agree(struct mt_tree_node *to, const struct mt_tree_node *from)
{
	if (to->address != from->address)
		to->address = 0;
	if (!to->file || !from->file || strcmp(to->file, from->file)) {
		to->file = NULL;
		to->line = 0;
	} else if (to->line != from->line) {
		to->line = 0;
	}
	to->is_inlined &= from->is_inlined;
}

static int add_node(struct builder *b, uint32_t parent, const struct step *s, uint32_t *ret_node)
{
	uint64_t hash = hash_pair(s->key, (uint64_t)parent << 3 | s->node.kind), *at;
	struct mt_tree_node *node;
	bool created;

	at = mt_map_at(&b->index, hash, &created);
	if (!at)
		return -ENOMEM;
	*ret_node = (uint32_t)*at;
	if (!created)
		return 0;
	if (b->out.count == UINT32_MAX)
		return -ENOMEM;
	node = mt_alloc_grow(b->out.node, &b->capacity, (size_t)b->out.count + 1, sizeof(*node));
	if (!node)
		return -ENOMEM;
	b->out.node = node;
	node[b->out.count] = s->node;
	node[b->out.count].parent = parent;
	node[b->out.count].depth = node[parent].depth + 1;
	*at = *ret_node = b->out.count++;
	return 0;
}

static int add_record(struct builder *b, const struct mt_profile *p, const struct mt_record *r,
		      uint32_t root, enum mt_tree_side side)
{
	const struct mt_tree_sum sum = {r->size * r->count, r->count};
	uint32_t at = root;

	make_steps(b, p, r);
	b->out.sum[side].bytes += sum.bytes;
	b->out.sum[side].count += sum.count;
	for (uint32_t i = 0;; i++) {
		struct mt_tree_node *n = &b->out.node[at];

		n->sum[side].bytes += sum.bytes;
		n->sum[side].count += sum.count;
		/* the new side's places are shown, where it has the node at all */
		if (i && (side == MT_TREE_NEW || !n->sum[MT_TREE_NEW].count))
			agree(n, &b->step[i - 1].node);
		if (i == b->steps)
			return 0;
		if (add_node(b, at, &b->step[i], &at))
			return -ENOMEM;
	}
}

static bool has_label(const struct mt_profile *p, uint32_t site, const char *label)
{
	uint32_t at = site ? p->site[site].label : 0;

	return p->source == MT_PROFILE_OF_HEAP_DUMP && at && at < p->label_count &&
	       !strcmp(p->label[at], label);
}

static void look_for_sides(const struct mt_profile *p, bool *has_app, bool *has_zygote)
{
	for (uint32_t i = 1; p && i < p->site_count; i++) {
		if (!p->site[i].live_count)
			continue;
		*has_app |= has_label(p, i, MT_PROFILE_APP);
		*has_zygote |= !has_label(p, i, MT_PROFILE_APP);
	}
}

static int make_roots(struct builder *b, const struct mt_profile *p, const struct mt_profile *old_p)
{
	bool has_app = false, has_zygote = false;

	look_for_sides(p, &has_app, &has_zygote);
	look_for_sides(old_p, &has_app, &has_zygote);
	b->is_split = has_app && has_zygote;
	b->out.roots = b->out.count = b->is_split ? 2 : 1;
	b->out.node = mt_alloc_grow(NULL, &b->capacity, b->out.roots, sizeof(*b->out.node));
	if (!b->out.node)
		return -ENOMEM;
	for (uint32_t i = 0; i < b->out.roots; i++)
		b->out.node[i] = (struct mt_tree_node){.parent = i,
						       .root = !b->is_split ? ""
							       : i          ? "ZYGOTE"
									    : "APP"};
	return 0;
}

static int add_profile(struct builder *b, const struct mt_profile *p, enum mt_tree_side side)
{
	mt_auto(mt_records) struct mt_records records = {0};
	int r = mt_records_make(p, &records);

	b->out.is_estimate |= records.is_estimate;
	for (size_t i = 0; i < records.count && !r; i++) {
		const struct mt_record *record = &records.record[i];
		bool is_app = has_label(p, record->site, MT_PROFILE_APP);

		r = add_record(b, p, record, b->is_split && !is_app, side);
	}
	return r;
}

/* ---- order ---- */

static uint64_t weight(const struct mt_tree *t, const struct mt_tree_node *n)
{
	uint64_t now = n->sum[MT_TREE_NEW].bytes, before = n->sum[MT_TREE_OLD].bytes;

	return !t->has_old ? now : now > before ? now - before : before - now;
}

static int compare(const void *a, const void *b, void *tree)
{
	const struct mt_tree *t = tree;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	uint64_t wx = weight(t, &t->node[x]), wy = weight(t, &t->node[y]);

	if (t->node[x].parent != t->node[y].parent)
		return t->node[x].parent < t->node[y].parent ? -1 : 1;
	if (wx != wy)
		return wx > wy ? -1 : 1;
	if (t->node[x].sum[0].count != t->node[y].sum[0].count)
		return t->node[x].sum[0].count > t->node[y].sum[0].count ? -1 : 1;
	if (t->node[x].address != t->node[y].address)
		return t->node[x].address < t->node[y].address ? -1 : 1;
	return x < y ? -1 : x > y; /* first seen, first */
}

/*
 * Numbers of nodes to show, into order; returns how many. Of two sides those where something
 * changed, at least below. Children have larger numbers than their parents.
 */
static uint32_t list_shown(struct mt_tree *t, uint8_t *is_changed)
{
	uint32_t shown = 0;

	for (uint32_t i = t->count; i-- > t->roots;) {
		const struct mt_tree_sum *sum = t->node[i].sum;

		is_changed[i] |=
			!t->has_old || sum[0].bytes != sum[1].bytes || sum[0].count != sum[1].count;
		is_changed[t->node[i].parent] |= is_changed[i];
	}
	for (uint32_t i = t->roots; i < t->count; i++)
		if (is_changed[i])
			t->order[shown++] = i;
	return shown;
}

static int sort(struct mt_tree *t)
{
	mt_auto(free) uint8_t *is_changed = mt_alloc_zero(t->count, sizeof(*is_changed));
	uint32_t shown;

	t->order = mt_alloc_zero(t->count, sizeof(*t->order));
	if (!t->order || !is_changed)
		return -ENOMEM;
	shown = list_shown(t, is_changed);
	qsort_r(t->order, shown, sizeof(*t->order), compare, t);
	for (uint32_t i = 0; i < shown; i++) {
		struct mt_tree_node *parent = &t->node[t->node[t->order[i]].parent];

		if (!parent->count)
			parent->first = i;
		t->node[t->order[i]].rank = parent->count++;
	}
	return 0;
}

int mt_tree_make(const struct mt_profile *p, const struct mt_profile *old_p,
		 const struct mt_tree_query *query, struct mt_tree *ret_tree)
{
	struct builder b = {.query = query, .out = {.has_old = old_p != NULL}};
	int r;

	b.step = mt_alloc_zero(PATH_MAX_ROWS, sizeof(*b.step));
	r = b.step ? make_roots(&b, p, old_p) : -ENOMEM;
	if (!r)
		r = add_profile(&b, p, MT_TREE_NEW);
	if (!r && old_p)
		r = add_profile(&b, old_p, MT_TREE_OLD);
	if (!r)
		r = sort(&b.out);
	free(b.step);
	mt_map_done(&b.index);
	if (r) {
		mt_tree_done(&b.out);
		return r;
	}
	*ret_tree = b.out;
	return 0;
}
