/* SPDX-License-Identifier: MIT */
/*
 * Hashes of call stacks that do not depend on addresses. Every node is hashed once from its
 * parent's hash, so the cost is one step per node of the tree whatever the number and depth of
 * stacks.
 */

#include "analysis/callstack.h"

#include "base/alloc.h"
#include "base/map.h"
#include "core/cc.h"
#include "core/hash.h"
#include "model/profile.h"

#include <stdlib.h>
#include <string.h>

enum { HASH_SEED = MT_CALLSTACK_SEED };

static bool is_root(const struct mt_profile *p, uint32_t node)
{
	return !node || node >= p->node_count || !p->node[node].depth ||
	       p->node[node].parent == node;
}

uint32_t mt_callstack_top(const struct mt_profile *p, uint32_t node)
{
	while (!is_root(p, node)) {
		const struct mt_profile_node *n = &p->node[node];

		if (!n->module || n->module >= p->module_count || !p->module[n->module].is_self)
			return node;
		node = n->parent;
	}
	return 0;
}

static uint64_t hash_module(const struct mt_profile_module *m)
{
	if (m->build_id_bytes)
		return mt_hash_bytes(m->build_id, MT_MIN(m->build_id_bytes, sizeof(m->build_id)),
				     HASH_SEED);
	return mt_hash_bytes(m->path, strlen(m->path), HASH_SEED);
}

static uint64_t hash_names(const struct mt_profile *p, uint32_t node, uint64_t hash,
			   const struct mt_names *names)
{
	const struct mt_profile_node *n = &p->node[node];
	struct mt_name name[MT_NAMES_MAX];
	uint32_t count = mt_names_frames(names, p, node, name, MT_NAMES_MAX);
	const char *module = n->module < p->module_count ? p->module[n->module].path : "";
	bool is_named = false;

	for (uint32_t i = count; i-- > 0;) {
		if (!name[i].function)
			continue;
		hash = mt_hash_bytes(name[i].function, strlen(name[i].function), hash);
		is_named = true;
	}
	if (is_named)
		return hash;
	module = mt_names_base(module);
	return mt_hash_bytes(module, strlen(module), hash);
}

static uint64_t hash_frame(const struct mt_profile *p, uint32_t node, uint64_t hash,
			   const uint64_t *module_hash)
{
	const struct mt_profile_node *n = &p->node[node];
	uint64_t module = 0, offset = n->pc;

	if (n->kind == MT_FRAME_SOURCE) {
		const char *file = n->source_file ? n->source_file : "";

		module = mt_hash_bytes(file, strlen(file), HASH_SEED);
		offset = n->source_line;
	} else if (n->module && n->module < p->module_count) {
		module = module_hash[n->module];
		offset = n->pc - p->module[n->module].bias;
	}
	return mt_callstack_step(hash, module, offset);
}

/* Hashes node and those of its ancestors that have no hash yet, outermost first. */
static void hash_chain(const struct mt_profile *p, uint32_t node, const struct mt_names *by_names,
		       const uint64_t *module_hash, uint32_t *chain, uint64_t *hash)
{
	uint32_t count = 0;

	/* depth bounds the walk even when a damaged file made a cycle */
	for (uint32_t at = node; !hash[at] && count <= p->node[node].depth;
	     at = p->node[at].parent) {
		chain[count++] = at;
		if (is_root(p, at))
			break;
	}
	while (count) {
		uint32_t at = chain[--count];
		uint64_t outer = is_root(p, at) ? 0 : hash[p->node[at].parent];
		uint64_t h = HASH_SEED;

		if (!is_root(p, at))
			h = by_names ? hash_names(p, at, outer, by_names)
				     : hash_frame(p, at, outer, module_hash);
		hash[at] = h ? h : 1;
	}
}

uint64_t *mt_callstack_hashes(const struct mt_profile *p, const struct mt_names *by_names)
{
	uint64_t *hash = mt_alloc_zero(p->node_count + 1u, sizeof(*hash));
	uint64_t *module_hash = mt_alloc_zero(p->module_count + 1u, sizeof(*module_hash));
	uint32_t *chain = mt_alloc_zero(UINT16_MAX + 2u, sizeof(*chain));

	if (!hash || !module_hash || !chain) {
		free(hash);
		hash = NULL;
	} else {
		for (uint32_t i = 1; i < p->module_count; i++)
			module_hash[i] = hash_module(&p->module[i]);
		for (uint32_t i = 0; i < p->node_count; i++)
			hash_chain(p, i, by_names, module_hash, chain, hash);
	}
	free(module_hash);
	free(chain);
	return hash;
}
