/* SPDX-License-Identifier: MIT */
/*
 * Tarjan's strongly connected components over the lost blocks, with a stack of its own: chains may
 * be millions of blocks long. Lost blocks have numbers of their own, in order of addresses.
 */

#include "reach/fold.h"

#include "base/alloc.h"
#include "base/map.h"
#include "core/cc.h"

#include <errno.h>

enum { NO_NUMBER = UINT32_MAX };
/* Steps along edges that counting what is referenced may take, beside one for each edge. */
enum { STEPS_MAX = 100000000 };

struct frame {
	uint32_t lost;
	struct mt_mark_cursor edges;
};

/* What can be reached from a component, itself included. */
struct reached {
	uint64_t count, bytes;
	bool is_at_least;
};

struct folder {
	const struct mt_mark *m;
	const struct mt_range *block;
	const uint64_t *bytes;
	uint32_t *number; /* by block: which of the lost ones, NO_NUMBER: none */
	uint32_t *lost;   /* by number: block */
	uint32_t count;
	/* by number */
	uint32_t *order, *low; /* Tarjan's; order 0: not seen */
	uint32_t *component;   /* from 1 on; 0: none yet */
	uint32_t *pending;     /* seen, without a component */
	struct frame *frame;
	size_t frames, frame_capacity;
	uint32_t pendings, orders, components;
	/* by component */
	uint32_t *size, *first;
	bool *has_parent;
	struct reached *reached;
	uint32_t *visited; /* by number: the component that it was counted for last */
	uint64_t steps;
};

void mt_fold_done(struct mt_fold *f)
{
	if (!f)
		return;
	free(f->leak);
	*f = (struct mt_fold){0};
}

static void folder_done(struct folder *f)
{
	free(f->number);
	free(f->lost);
	free(f->order);
	free(f->low);
	free(f->component);
	free(f->pending);
	free(f->frame);
	free(f->size);
	free(f->first);
	free(f->has_parent);
	free(f->reached);
	free(f->visited);
}
MT_AUTO_DEFINE_INPLACE(folder, struct folder, folder_done)

static uint64_t bytes_of(const struct folder *f, uint32_t number)
{
	uint32_t b = f->lost[number];

	return f->bytes ? f->bytes[b] : f->block[b].end - f->block[b].start;
}

static int number_lost(struct folder *f)
{
	size_t n = 0;

	f->number = mt_alloc_zero(f->m->blocks, sizeof(*f->number));
	if (!f->number)
		return -ENOMEM;
	for (size_t i = 0; i < f->m->blocks; i++)
		f->number[i] = f->m->state[i] == MT_MARK_LOST ? (uint32_t)n++ : NO_NUMBER;
	f->count = (uint32_t)n;
	f->lost = mt_alloc_zero(n, sizeof(*f->lost));
	f->order = mt_alloc_zero(n, sizeof(*f->order));
	f->low = mt_alloc_zero(n, sizeof(*f->low));
	f->component = mt_alloc_zero(n, sizeof(*f->component));
	f->pending = mt_alloc_zero(n, sizeof(*f->pending));
	f->visited = mt_alloc_zero(n, sizeof(*f->visited));
	f->size = mt_alloc_zero(n + 1, sizeof(*f->size));
	f->first = mt_alloc_zero(n + 1, sizeof(*f->first));
	f->has_parent = mt_alloc_zero(n + 1, sizeof(*f->has_parent));
	f->reached = mt_alloc_zero(n + 1, sizeof(*f->reached));
	if (!f->lost || !f->order || !f->low || !f->component || !f->pending || !f->visited ||
	    !f->size || !f->first || !f->has_parent || !f->reached)
		return -ENOMEM;
	for (size_t i = 0; i < f->m->blocks; i++)
		if (f->number[i] != NO_NUMBER)
			f->lost[f->number[i]] = (uint32_t)i;
	return 0;
}

/* The next lost block that a block points to, as a number. */
static bool next_lost(const struct folder *f, struct mt_mark_cursor *c, uint32_t *ret_number)
{
	uint32_t target;
	bool is_inside;

	while (mt_mark_next(c, &target, &is_inside)) {
		*ret_number = f->number[target];
		if (*ret_number != NO_NUMBER)
			return true;
	}
	return false;
}

/* ---- components ---- */

static int enter(struct folder *f, uint32_t number)
{
	struct frame *grown =
		mt_alloc_grow(f->frame, &f->frame_capacity, f->frames + 1, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	f->frame = grown;
	grown += f->frames++;
	grown->lost = number;
	mt_mark_edges(f->m, f->lost[number], &grown->edges);
	f->order[number] = f->low[number] = ++f->orders;
	f->pending[f->pendings++] = number;
	return 0;
}

/* All of it is seen; when it can reach nothing older it closes a component. */
static void leave(struct folder *f)
{
	uint32_t number = f->frame[--f->frames].lost, other;

	if (f->frames) {
		uint32_t parent = f->frame[f->frames - 1].lost;

		f->low[parent] = MT_MIN(f->low[parent], f->low[number]);
	}
	if (f->low[number] != f->order[number])
		return;
	f->components++;
	f->first[f->components] = number;
	do {
		other = f->pending[--f->pendings];
		f->component[other] = f->components;
		f->size[f->components]++;
		f->first[f->components] = MT_MIN(f->first[f->components], other);
	} while (other != number);
}

static int find_components(struct folder *f)
{
	uint32_t target;

	for (uint32_t i = 0; i < f->count; i++) {
		if (!f->order[i] && enter(f, i))
			return -ENOMEM;
		while (f->frames) {
			struct frame *top = &f->frame[f->frames - 1];

			if (!next_lost(f, &top->edges, &target)) {
				leave(f);
			} else if (!f->order[target]) {
				if (enter(f, target))
					return -ENOMEM;
			} else if (!f->component[target]) {
				f->low[top->lost] = MT_MIN(f->low[top->lost], f->order[target]);
			}
		}
	}
	return 0;
}

static void find_parents(struct folder *f)
{
	struct mt_mark_cursor c;
	uint32_t target;

	for (uint32_t i = 0; i < f->count; i++) {
		mt_mark_edges(f->m, f->lost[i], &c);
		while (next_lost(f, &c, &target)) {
			f->steps++;
			if (f->component[target] != f->component[i])
				f->has_parent[f->component[target]] = true;
		}
	}
	f->steps += STEPS_MAX;
}

/* ---- leaks ---- */

/* From any of a component's blocks. */
static void count_from(struct folder *f, uint32_t number, struct reached *ret)
{
	uint32_t stamp = f->component[number], target;
	size_t end = 0;

	/* nothing is pending any more: the list is free */
	f->pending[end++] = number;
	f->visited[number] = stamp;
	for (size_t i = 0; i < end; i++) {
		struct mt_mark_cursor c;

		ret->bytes += bytes_of(f, f->pending[i]);
		mt_mark_edges(f->m, f->lost[f->pending[i]], &c);
		while (f->steps && next_lost(f, &c, &target)) {
			f->steps--;
			if (f->visited[target] == stamp)
				continue;
			f->visited[target] = stamp;
			f->pending[end++] = target;
		}
	}
	ret->count = end;
	ret->is_at_least = !f->steps;
}

static void add_leaks(struct folder *f, struct mt_fold *fold)
{
	for (uint32_t i = 0; i < f->count; i++) {
		uint32_t component = f->component[i];
		struct mt_fold_leak *l = &fold->leak[fold->leaks];

		fold->lost_count++;
		fold->lost_bytes += bytes_of(f, i);
		if (f->has_parent[component])
			continue;
		fold->leaks++;
		*l = (struct mt_fold_leak){
			.block = f->lost[i],
			.cycle = f->size[component],
			.is_first = f->first[component] == i,
			.bytes = bytes_of(f, i),
		};
		if (l->is_first) {
			fold->direct_count++;
			fold->direct_bytes += l->bytes;
		}
		/* the first of a component comes first */
		if (l->is_first)
			count_from(f, i, &f->reached[component]);
		l->is_at_least = f->reached[component].is_at_least;
		l->referenced_count = f->reached[component].count - 1;
		l->referenced_bytes = f->reached[component].bytes - l->bytes;
	}
}

static uint64_t total(const struct mt_fold_leak *l)
{
	return l->bytes + l->referenced_bytes + l->similar_bytes + l->similar_referenced_bytes;
}

static int by_total(const void *a, const void *b)
{
	const struct mt_fold_leak *x = a, *y = b;

	if (total(x) != total(y))
		return total(x) > total(y) ? -1 : 1;
	return x->block < y->block ? -1 : x->block > y->block;
}

static int merge(struct mt_fold *fold, const uint64_t *stack)
{
	mt_auto(mt_map) struct mt_map by_stack = {0};
	size_t kept = 0;

	/* widest first: it stands for the others */
	for (size_t i = 0; i < fold->leaks; i++) {
		struct mt_fold_leak *l = &fold->leak[i], *to;
		bool is_new = true;
		uint64_t *at = NULL;

		if (l->is_first && stack[l->block]) {
			at = mt_map_at(&by_stack, stack[l->block], &is_new);
			if (!at)
				return -ENOMEM;
		}
		if (is_new) {
			if (at)
				*at = kept;
			fold->leak[kept++] = *l;
			continue;
		}
		to = &fold->leak[*at];
		to->similar_count++;
		to->similar_bytes += l->bytes;
		to->similar_referenced_count += l->referenced_count;
		to->similar_referenced_bytes += l->referenced_bytes;
		to->is_at_least |= l->is_at_least;
	}
	fold->leaks = kept;
	return 0;
}

int mt_fold_run(const struct mt_mark *m, const struct mt_range *block, const uint64_t *bytes,
		const uint64_t *stack, struct mt_fold *ret_fold)
{
	mt_auto(folder) struct folder f = {.m = m, .block = block, .bytes = bytes};
	mt_auto(mt_fold) struct mt_fold fold = {0};

	if (number_lost(&f) || find_components(&f))
		return -ENOMEM;
	find_parents(&f);
	fold.leak = mt_alloc_zero(f.count, sizeof(*fold.leak));
	if (!fold.leak)
		return -ENOMEM;
	add_leaks(&f, &fold);
	qsort(fold.leak, fold.leaks, sizeof(*fold.leak), by_total);
	if (stack && merge(&fold, stack))
		return -ENOMEM;
	qsort(fold.leak, fold.leaks, sizeof(*fold.leak), by_total);
	*ret_fold = fold;
	fold = (struct mt_fold){0};
	return 0;
}
