/* SPDX-License-Identifier: MIT */
/* Which errors there are, and which of them are the same. */
#include "report/error_list.h"

#include "analysis/callstack.h"
#include "base/alloc.h"
#include "model/profile.h"

#include <errno.h>
#include <stdlib.h>

enum { CALL_REALLOC = 3 };   /* as mt_words_call() has it */
enum { ERRORS_REGION = 19 }; /* index of profile.region_refused */

const char *mt_error_access_key(uint32_t access)
{
	return access == MT_ERROR_READS ? "read" : access == MT_ERROR_WRITES ? "write" : "unknown";
}

bool mt_error_is_free(const struct mt_profile_error *e)
{
	return e->kind == MT_ERROR_KIND_DOUBLE_FREE || e->kind == MT_ERROR_KIND_INVALID_FREE ||
	       e->kind == MT_ERROR_KIND_MISMATCH;
}

bool mt_error_is_realloc(const struct mt_profile_error *e)
{
	return e->kind == MT_ERROR_KIND_DOUBLE_FREE && e->call == CALL_REALLOC;
}

bool mt_error_is_corruption(const struct mt_profile_error *e)
{
	return e->kind == MT_ERROR_KIND_HEADER ||
	       (e->access == MT_ERROR_WRITES && !mt_error_is_free(e));
}

uint32_t mt_error_place(const struct mt_profile_error *e)
{
	bool is_late = (e->flags & MT_ERROR_IS_LATE) || e->kind == MT_ERROR_KIND_HEADER;

	if (e->flags & MT_ERROR_IS_BY_LOOK || (is_late && e->alloc.node))
		return e->alloc.node;
	return e->use.node ? e->use.node : e->alloc.node;
}

/* ---- groups ---- */

/* The name of a stack that is the same in every process; 0: not known. */
static uint64_t stack_key(const struct mt_profile *p, const uint64_t *hash, uint32_t node)
{
	return node ? hash[mt_callstack_top(p, node)] : 0;
}

static uint64_t group_key(const struct mt_profile *p, const uint64_t *hash,
			  const struct mt_profile_error *e)
{
	/* whose call it was in which all blocks were looked at is chance */
	bool is_look = e->flags & MT_ERROR_IS_BY_LOOK;
	uint32_t use = is_look ? 0 : e->use.node;
	uint64_t words[] = {
		(uint64_t)e->kind << 32 | e->access,
		(uint64_t)(is_look ? 0 : e->call) << 32 | e->alloc_call,
		stack_key(p, hash, use),
		stack_key(p, hash, e->alloc.node),
		stack_key(p, hash, e->free.node),
		e->flags,
		0,
	};

	/* without any stack nothing tells whether they are the same */
	if (!use && !e->alloc.node && !e->free.node)
		words[MT_ARRAY_LEN(words) - 1] = e->address ^ (uint64_t)(uint32_t)p->pid << 32;
	return mt_hash_bytes(words, sizeof(words), 0);
}

static int add_group(const struct mt_report *r, struct mt_error_list *l, const struct mt_profile *p,
		     const struct mt_profile_error *e)
{
	struct mt_error_group *grown =
		mt_alloc_grow(l->group, &l->capacity, l->count + 1u, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	l->group = grown;
	grown[l->count++] = (struct mt_error_group){
		.p = p,
		.first = e,
		.is_suppressed =
			r->is_error_suppressed && r->is_error_suppressed(r->suppress_context, p, e),
	};
	return 0;
}

static int add_error(const struct mt_report *r, struct mt_error_list *l, const struct mt_profile *p,
		     const uint64_t *hash, const struct mt_profile_error *e)
{
	bool created;
	uint64_t *at = mt_map_at(&l->number, group_key(p, hash, e), &created);

	if (!at)
		return -ENOMEM;
	if (created) {
		*at = l->count;
		if (add_group(r, l, p, e))
			return -ENOMEM;
	}
	struct mt_error_group *g = &l->group[*at];
	g->count++;
	if (g->is_suppressed) {
		l->suppressed++;
		return 0;
	}
	l->errors++;
	l->of_kind[e->kind % MT_ERROR_KINDS]++;
	l->reallocs += mt_error_is_realloc(e);
	l->corruptions += mt_error_is_corruption(e);
	return 0;
}

int mt_error_list_make(const struct mt_report *r, struct mt_error_list *l)
{
	int code = 0;

	*l = (struct mt_error_list){.group = NULL};
	for (uint32_t i = 0; i < r->profile_count && !code; i++) {
		const struct mt_profile *p = r->profiles[i];
		mt_auto(free) uint64_t *hash = p->error_count ? mt_callstack_hashes(p, NULL) : NULL;

		l->refused += p->region_refused[ERRORS_REGION];
		if (p->error_count && !hash)
			return -ENOMEM;
		for (uint32_t k = 0; k < p->error_count && !code; k++)
			code = add_error(r, l, p, hash, &p->error[k]);
	}
	return code;
}

void mt_error_list_done(struct mt_error_list *l)
{
	if (!l)
		return;
	free(l->group);
	mt_map_done(&l->number);
}

const struct mt_error_group *mt_error_list_next(const struct mt_error_list *l, uint32_t *pos)
{
	while (*pos < l->count && l->group[*pos].is_suppressed)
		++*pos;
	return *pos < l->count ? &l->group[(*pos)++] : NULL;
}
