/* SPDX-License-Identifier: MIT */
/* The difference of two tables: rows are matched by key and label. */

#include "analysis/table.h"

#include "base/alloc.h"
#include "core/cc.h"
#include "model/profile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct keyed {
	const struct mt_row *row;
	bool is_new;
};

static int compare_keys(const void *a, const void *b)
{
	const struct keyed *x = a, *y = b;

	if (x->row->key != y->row->key)
		return x->row->key < y->row->key ? -1 : 1;
	if (!x->row->label != !y->row->label)
		return x->row->label ? 1 : -1;
	if (x->row->label) {
		int order = strcmp(x->row->label, y->row->label);

		if (order)
			return order;
	}
	return (int)x->is_new - (int)y->is_new;
}

static uint64_t magnitude(int64_t v)
{
	return v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
}

static int compare_rows(const void *a, const void *b)
{
	const struct mt_diff_row *x = a, *y = b;
	const struct mt_row *p = x->new_row ? x->new_row : x->old_row;
	const struct mt_row *q = y->new_row ? y->new_row : y->old_row;

	if (magnitude(x->bytes) != magnitude(y->bytes))
		return magnitude(x->bytes) < magnitude(y->bytes) ? 1 : -1;
	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	if (magnitude(x->count) != magnitude(y->count))
		return magnitude(x->count) < magnitude(y->count) ? 1 : -1;
	return p->key < q->key ? -1 : p->key > q->key;
}

/* What went from one set to the other, as estimates. */
struct growth {
	struct mt_estimate came, went;
};

/* Both sides were looked at with some sampling, so what each lacks may only not have been seen. */
static void share_unseen(struct growth *g)
{
	double bytes = MT_MAX(g->came.unseen_bytes, g->went.unseen_bytes);
	double count = MT_MAX(g->came.unseen_count, g->went.unseen_count);

	g->came.unseen_bytes = g->went.unseen_bytes = bytes;
	g->came.unseen_count = g->went.unseen_count = count;
}

static struct growth find_growth(const struct mt_estimate *old, const struct mt_estimate *old_only,
				 const struct mt_estimate *now, const struct mt_estimate *now_only,
				 const struct mt_table *t)
{
	static const struct mt_estimate none;
	struct growth g = {now ? *now : none, old ? *old : none};
	enum mt_measure measure = t->query.measure;

	if (measure == MT_MEASURE_LIVE || measure == MT_MEASURE_LARGE) {
		g.came = now_only ? *now_only : none;
		g.went = old_only ? *old_only : none;
		g.came.unseen_bytes = now ? now->unseen_bytes : 0;
		g.went.unseen_bytes = old ? old->unseen_bytes : 0;
	} else if (measure == MT_MEASURE_TOTAL && t->is_same_process && old && now) {
		g.came = mt_estimate_since(old, now);
		g.went = none;
		return g;
	}
	share_unseen(&g);
	return g;
}

static void estimate_row(const struct mt_table *t, struct mt_diff_row *row)
{
	const struct mt_row *o = row->old_row, *n = row->new_row;
	struct growth g;

	if (!t->has_samples || t->query.measure == MT_MEASURE_TEMPORARY)
		return;
	g = find_growth(o ? o->estimate : NULL, o ? o->only : NULL, n ? n->estimate : NULL,
			n ? n->only : NULL, t);
	if (mt_estimate_is_exact(&g.came) && mt_estimate_is_exact(&g.went))
		return;
	row->is_estimate = true;
	row->bytes_interval = mt_estimate_growth_bytes(&g.came, &g.went);
	row->count_interval = mt_estimate_growth_count(&g.came, &g.went);
}

static void estimate_sums(const struct mt_table *old, const struct mt_table *now, struct mt_diff *d)
{
	struct growth g = find_growth(&old->estimate, &old->only, &now->estimate, &now->only, now);

	if (!now->has_samples || now->query.measure == MT_MEASURE_TEMPORARY ||
	    (mt_estimate_is_exact(&g.came) && mt_estimate_is_exact(&g.went)))
		return;
	d->is_estimate = true;
	d->bytes_interval = mt_estimate_growth_bytes(&g.came, &g.went);
	d->count_interval = mt_estimate_growth_count(&g.came, &g.went);
}

static void fill_row(const struct mt_table *t, struct mt_diff *d, const struct mt_row *old_row,
		     const struct mt_row *new_row)
{
	struct mt_diff_row row = {.old_row = old_row, .new_row = new_row};

	row.count = (int64_t)((new_row ? new_row->count : 0) - (old_row ? old_row->count : 0));
	row.bytes = (int64_t)((new_row ? new_row->bytes : 0) - (old_row ? old_row->bytes : 0));
	estimate_row(t, &row);
	d->count += row.count;
	d->bytes += row.bytes;
	d->grown += row.bytes > 0;
	d->shrunk += row.bytes < 0;
	d->row[d->row_count++] = row;
}

static bool is_pair(const struct keyed *a, const struct keyed *b)
{
	struct keyed same = {b->row, a->is_new};

	return !a->is_new && b->is_new && !compare_keys(a, &same);
}

int mt_diff_build(const struct mt_table *old_table, const struct mt_table *new_table,
		  struct mt_diff **ret_diff)
{
	size_t count = (size_t)old_table->row_count + new_table->row_count, n = 0;
	struct keyed *keyed = mt_alloc_zero(count + 1, sizeof(*keyed));
	struct mt_diff *d = mt_alloc_zero(1, sizeof(*d));

	if (d)
		d->row = mt_alloc_zero(count + 1, sizeof(*d->row));
	if (!keyed || !d || !d->row) {
		free(keyed);
		mt_diff_free(d);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < old_table->row_count; i++)
		keyed[n++] = (struct keyed){&old_table->row[i], false};
	for (uint32_t i = 0; i < new_table->row_count; i++)
		keyed[n++] = (struct keyed){&new_table->row[i], true};
	qsort(keyed, n, sizeof(*keyed), compare_keys);
	for (size_t i = 0; i < n; i++) {
		if (i + 1 < n && is_pair(&keyed[i], &keyed[i + 1])) {
			fill_row(new_table, d, keyed[i].row, keyed[i + 1].row);
			i++;
		} else {
			fill_row(new_table, d, keyed[i].is_new ? NULL : keyed[i].row,
				 keyed[i].is_new ? keyed[i].row : NULL);
		}
	}
	free(keyed);
	estimate_sums(old_table, new_table, d);
	qsort(d->row, d->row_count, sizeof(*d->row), compare_rows);
	*ret_diff = d;
	return 0;
}

void mt_diff_free(struct mt_diff *diff)
{
	if (!diff)
		return;
	free(diff->row);
	free(diff);
}

static const struct mt_profile_module *find_program(const struct mt_profile *p)
{
	for (uint32_t i = 1; i < p->module_count; i++)
		if (p->module[i].is_program)
			return &p->module[i];
	return NULL;
}

bool mt_diff_same_build(const struct mt_profile *a, const struct mt_profile *b)
{
	const struct mt_profile_module *x = find_program(a), *y = find_program(b);

	if (!x || !y)
		return x == y;
	if (x->build_id_bytes || y->build_id_bytes)
		return x->build_id_bytes == y->build_id_bytes &&
		       !memcmp(x->build_id, y->build_id,
			       MT_MIN(x->build_id_bytes, sizeof(x->build_id)));
	return !strcmp(x->path, y->path);
}
