/* SPDX-License-Identifier: MIT */
/* Rows of memory: each mapping is in exactly one row, so that rows add up to the total. */

#include "target/account.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- values ---- */

static const struct {
	const char *name;
	uint32_t needs; /* bits of fields, any of them */
} columns[] = {
	[MT_ACCOUNT_RSS] = {"rss", 1u << MT_SMAPS_RSS},
	[MT_ACCOUNT_PSS] = {"pss", 1u << MT_SMAPS_PSS},
	[MT_ACCOUNT_USS] = {"uss", 1u << MT_SMAPS_PRIVATE_DIRTY},
	[MT_ACCOUNT_PRIVATE_DIRTY] = {"private_dirty", 1u << MT_SMAPS_PRIVATE_DIRTY},
	[MT_ACCOUNT_SHARED] = {"shared", 1u << MT_SMAPS_SHARED_DIRTY},
	[MT_ACCOUNT_ANON] = {"anon", 1u << MT_SMAPS_ANONYMOUS},
	[MT_ACCOUNT_FILE] = {"file", 1u << MT_SMAPS_ANONYMOUS},
	[MT_ACCOUNT_SWAP] = {"swap", 1u << MT_SMAPS_SWAP},
	[MT_ACCOUNT_HUGE] = {"huge", 1u << MT_SMAPS_ANON_HUGE | 1u << MT_SMAPS_PRIVATE_HUGETLB},
	[MT_ACCOUNT_SIZE] = {"size", 0},
	[MT_ACCOUNT_COUNT] = {"count", 0},
	[MT_ACCOUNT_DUMPED] = {"dumped", 1u << MT_SMAPS_DUMPED},
	[MT_ACCOUNT_ADDRESS] = {"address", 0},
	[MT_ACCOUNT_NAME] = {"name", 0},
};

const char *mt_account_column_name(enum mt_account_column column)
{
	return columns[column].name;
}

bool mt_account_has(const struct mt_smaps_sum *s, enum mt_account_column column)
{
	if (column == MT_ACCOUNT_SIZE) /* a rollup has none */
		return s->size_bytes || !s->mappings;
	return !columns[column].needs || (s->known & columns[column].needs);
}

uint64_t mt_account_value(const struct mt_smaps_sum *s, enum mt_account_column column)
{
	switch (column) {
	case MT_ACCOUNT_RSS:
		return s->bytes[MT_SMAPS_RSS];
	case MT_ACCOUNT_PSS:
		return s->bytes[MT_SMAPS_PSS];
	case MT_ACCOUNT_USS:
		return mt_smaps_uss(s);
	case MT_ACCOUNT_PRIVATE_DIRTY:
		return s->bytes[MT_SMAPS_PRIVATE_DIRTY];
	case MT_ACCOUNT_SHARED:
		return mt_smaps_shared(s);
	case MT_ACCOUNT_ANON:
		return s->bytes[MT_SMAPS_ANONYMOUS];
	case MT_ACCOUNT_FILE:
		return mt_smaps_file(s);
	case MT_ACCOUNT_SWAP:
		return s->bytes[MT_SMAPS_SWAP];
	case MT_ACCOUNT_HUGE:
		return mt_smaps_huge(s);
	case MT_ACCOUNT_SIZE:
		return s->size_bytes;
	case MT_ACCOUNT_COUNT:
		return s->mappings;
	case MT_ACCOUNT_DUMPED:
		return s->bytes[MT_SMAPS_DUMPED];
	default:
		return 0;
	}
}

/* ---- rows ---- */

/* What a mapping is called; "" without memory. */
static const char *name_of(struct mt_account *a, const struct mt_smaps *s, size_t i,
			   const struct mt_vma_label *labels, const char *last_file)
{
	const char *name = s->mapping[i].m.name, *what = labels[i].what;
	const char *made;

	if (a->by == MT_ACCOUNT_KIND)
		return mt_vma_kind_name(labels[i].kind, a->rules);
	if (*name)
		made = mt_arena_strdup(a->arena, name);
	else if (!strcmp(what, "bss"))
		made = mt_arena_printf(a->arena, "%s [bss]", last_file);
	else if (*what && strcmp(what, "anonymous"))
		made = mt_arena_printf(a->arena, "[anon: %s]", what);
	else
		made = "[anon]";
	return made ? made : "";
}

static int fill_row(struct mt_account *a, const struct mt_smaps *s, size_t i,
		    const struct mt_vma_label *labels, const char *last_file,
		    struct mt_account_row *ret)
{
	const struct mt_mapping *m = &s->mapping[i].m;

	*ret = (struct mt_account_row){
		.name = name_of(a, s, i, labels, last_file),
		.label = labels[i],
		.start = m->start,
		.end = m->end,
		.flags = m->flags,
		.now = s->mapping[i].sum,
		.is_there = true,
	};
	return *ret->name ? 0 : -ENOMEM;
}

/* The number of a row's object, one above; categories are part of it. */
static int key_of(struct mt_strings *keys, const struct mt_account_row *row, uint32_t *ret)
{
	mt_auto(mt_buf) struct mt_buf key = {0};

	mt_buf_printf(&key, "%d %s", (int)row->label.kind, row->name);
	if (key.failed)
		return -ENOMEM;
	return mt_strings_intern(keys, key.data, key.len, ret);
}

static void merge(struct mt_account_row *to, const struct mt_account_row *of)
{
	mt_smaps_sum_add(&to->now, &of->now);
	mt_smaps_sum_add(&to->old, &of->old);
	to->flags |= of->flags;
	to->is_there |= of->is_there;
	to->was_there |= of->was_there;
}

static int add_rows(struct mt_account *a, const struct mt_smaps *s,
		    const struct mt_vma_label *labels)
{
	mt_auto(mt_strings) struct mt_strings keys = {0};
	const char *last_file = "";

	for (size_t i = 0; i < s->count; i++) {
		struct mt_account_row row;
		uint32_t number = (uint32_t)a->count + 1;

		if (*s->mapping[i].m.name)
			last_file = s->mapping[i].m.name;
		if (fill_row(a, s, i, labels, last_file, &row))
			return -ENOMEM;
		if (a->by != MT_ACCOUNT_MAPPING && key_of(&keys, &row, &number))
			return -ENOMEM;
		if (number <= a->count)
			merge(&a->row[number - 1], &row);
		else
			a->row[a->count++] = row;
		mt_smaps_sum_add(&a->total, &row.now);
	}
	return 0;
}

int mt_account_make(const struct mt_smaps *s, const struct mt_vma_label *labels,
		    enum mt_vma_rules rules, enum mt_account_by by, struct mt_account *ret_account)
{
	struct mt_account a = {.by = by, .rules = rules, .arena = mt_arena_new()};
	int code = -ENOMEM;

	a.row = mt_alloc_zero(s->count + 1, sizeof(*a.row));
	if (a.row && a.arena)
		code = add_rows(&a, s, labels);
	if (code)
		mt_account_done(&a);
	else
		*ret_account = a;
	return code;
}

void mt_account_done(struct mt_account *a)
{
	if (!a)
		return;
	free(a->row);
	mt_arena_free(a->arena);
	*a = (struct mt_account){0};
}

/* ---- growth ---- */

/* Numbers of rows by what identifies them; mappings have two such texts, start and end. */
static int name_row(const struct mt_account *a, const struct mt_account_row *row, bool by_end,
		    struct mt_buf *out)
{
	mt_buf_truncate(out, 0);
	if (a->by != MT_ACCOUNT_MAPPING)
		return mt_buf_printf(out, "%d %s", (int)row->label.kind, row->name);
	return mt_buf_printf(out, "%c%llx %s", by_end ? 'e' : 's',
			     (unsigned long long)(by_end ? row->end : row->start), row->name);
}

static int index_rows(const struct mt_account *a, struct mt_strings *keys, struct mt_map *rows)
{
	mt_auto(mt_buf) struct mt_buf key = {0};

	for (size_t i = 0; i < a->count; i++)
		for (int by_end = 0; by_end < (a->by == MT_ACCOUNT_MAPPING ? 2 : 1); by_end++) {
			uint32_t number;

			if (name_row(a, &a->row[i], by_end, &key) ||
			    mt_strings_intern(keys, key.data, key.len, &number) ||
			    mt_map_set(rows, number, i))
				return -ENOMEM;
		}
	return 0;
}

/* The row of a that is the old one, or NULL. */
static struct mt_account_row *find_row(struct mt_account *a, const struct mt_account_row *old,
				       const struct mt_strings *keys, const struct mt_map *rows,
				       struct mt_buf *key)
{
	for (int by_end = 0; by_end < 2; by_end++) {
		uint64_t at;

		if (name_row(a, old, by_end, key))
			return NULL;
		if (mt_map_get(rows, mt_strings_find(keys, key->data, key->len), &at) &&
		    !a->row[at].was_there)
			return &a->row[at];
	}
	return NULL;
}

static int add_gone(struct mt_account *a, const struct mt_account_row *old)
{
	struct mt_account_row row = *old;

	row.name = mt_arena_strdup(a->arena, old->name);
	row.old = old->now;
	row.now = (struct mt_smaps_sum){.known = old->now.known};
	row.is_there = false;
	row.was_there = true;
	a->row[a->count++] = row;
	return row.name ? 0 : -ENOMEM;
}

int mt_account_compare(struct mt_account *a, const struct mt_account *old)
{
	mt_auto(mt_strings) struct mt_strings keys = {0};
	mt_auto(mt_map) struct mt_map rows = {0};
	mt_auto(mt_buf) struct mt_buf key = {0};
	size_t need;
	struct mt_account_row *grown;

	if (__builtin_add_overflow(a->count, old->count, &need) ||
	    __builtin_mul_overflow(need + 1, sizeof(*grown), &need))
		return -ENOMEM;
	grown = mt_alloc_resize(a->row, need);
	if (!grown)
		return -ENOMEM;
	a->row = grown;
	a->has_old = true;
	a->old_total = old->total;
	if (index_rows(a, &keys, &rows))
		return -ENOMEM;
	for (size_t i = 0; i < old->count; i++) {
		struct mt_account_row *row = find_row(a, &old->row[i], &keys, &rows, &key);

		if (key.failed)
			return -ENOMEM;
		if (row) {
			row->old = old->row[i].now;
			row->was_there = true;
		} else if (add_gone(a, &old->row[i])) {
			return -ENOMEM;
		}
	}
	return 0;
}

/* ---- order ---- */

struct order {
	enum mt_account_column by;
	bool has_old;
};

static int64_t weight(const struct mt_account_row *row, const struct order *o)
{
	uint64_t now = mt_account_value(&row->now, o->by), old = mt_account_value(&row->old, o->by);

	if (!o->has_old)
		return (int64_t)MT_MIN(now, (uint64_t)INT64_MAX);
	return (int64_t)(now - old);
}

static int compare_rows(const void *x, const void *y, void *context)
{
	const struct mt_account_row *a = x, *b = y;
	const struct order *o = context;
	int64_t wa = weight(a, o), wb = weight(b, o);
	int names = strcmp(a->name, b->name);

	if (o->by < MT_ACCOUNT_VALUES && wa != wb)
		return wa > wb ? -1 : 1;
	if (o->by == MT_ACCOUNT_NAME && names)
		return names;
	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	return names;
}

void mt_account_sort(struct mt_account *a, enum mt_account_column by)
{
	struct order o = {by, a->has_old};

	if (a->count)
		qsort_r(a->row, a->count, sizeof(*a->row), compare_rows, &o);
}

/* ---- summary ---- */

const char *mt_account_summary_name(enum mt_account_summary row)
{
	static const char *const names[] = {"Java Heap", "Native Heap",   "Code",  "Stack",
					    "Graphics",  "Private Other", "System"};

	return names[row];
}

/* Wraps with sums that no real process has. */
static void add(int64_t *to, uint64_t bytes)
{
	*to = (int64_t)((uint64_t)*to + bytes);
}

static void add_private(const struct mt_smaps_sum *s, const struct mt_vma_label *l,
			struct mt_account_app *app)
{
	static const enum mt_account_summary row_of[MT_VMA_GROUPS] = {
		[MT_VMA_GROUP_JAVA] = MT_ACCOUNT_JAVA,
		[MT_VMA_GROUP_NATIVE] = MT_ACCOUNT_NATIVE,
		[MT_VMA_GROUP_CODE] = MT_ACCOUNT_CODE,
		[MT_VMA_GROUP_STACK] = MT_ACCOUNT_STACK,
		[MT_VMA_GROUP_GRAPHICS] = MT_ACCOUNT_GRAPHICS,
		[MT_VMA_GROUP_OTHER] = MT_ACCOUNT_PRIVATE_OTHER,
	};
	enum mt_account_summary row = row_of[l->group];
	uint64_t dirty = s->bytes[MT_SMAPS_PRIVATE_DIRTY], all = mt_smaps_uss(s);
	/* of heaps and stacks only what is dirty counts; .art files count as code does */
	bool is_dirty_only = l->kind == MT_VMA_DALVIK_HEAP || row == MT_ACCOUNT_NATIVE ||
			     row == MT_ACCOUNT_STACK;
	uint64_t part = is_dirty_only ? dirty : all;

	add(&app->pss_bytes[row], part);
	if (row != MT_ACCOUNT_PRIVATE_OTHER)
		add(&app->pss_bytes[MT_ACCOUNT_PRIVATE_OTHER], all - part);
	app->rss_bytes[row == MT_ACCOUNT_PRIVATE_OTHER ? MT_ACCOUNT_SYSTEM : row] +=
		s->bytes[MT_SMAPS_RSS];
}

void mt_account_summary(const struct mt_smaps *s, const struct mt_vma_label *labels,
			struct mt_account_app *ret_app)
{
	struct mt_account_app app = {0};
	struct mt_smaps_sum total;

	mt_smaps_total(s, &total);
	for (size_t i = 0; i < s->count; i++)
		add_private(&s->mapping[i].sum, &labels[i], &app);
	app.is_swap_pss = mt_smaps_has(&total, MT_SMAPS_SWAP_PSS);
	app.total_swap_bytes = total.bytes[app.is_swap_pss ? MT_SMAPS_SWAP_PSS : MT_SMAPS_SWAP];
	app.total_rss_bytes = total.bytes[MT_SMAPS_RSS];
	app.total_pss_bytes =
		total.bytes[MT_SMAPS_PSS] + (app.is_swap_pss ? app.total_swap_bytes : 0);
	app.pss_bytes[MT_ACCOUNT_SYSTEM] = (int64_t)(app.total_pss_bytes - mt_smaps_uss(&total));
	*ret_app = app;
}
