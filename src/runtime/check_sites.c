/* SPDX-License-Identifier: MIT */
/* Lists of call sites; see check_sites.h. */
#include "runtime/check_sites.h"

#include "core/mem.h"
#include "runtime/errors.h"
#include "runtime/frames.h"
#include "runtime/sites.h"
#include "runtime/storage.h"
#include "wire/check_sites.h"

enum {
	FRAMES_SEARCHED = 16,
	DEPTH_OF_HASHES = 64, /* as many as a report has whose options say nothing else */
	KNOWN = 4096,
	NAME_BYTES = 256,
};

/* Stack node << 8 | lists that the stack belongs to (enum mt_check_sites); 0: free. Atomic. */
static uint64_t known[KNOWN];

/* A stack, innermost frame first, without the tracker's own. */
struct stack {
	const struct mt_state_node *frame[DEPTH_OF_HASHES];
	uint32_t count;
	uint64_t hash[2]; /* of all frames, 0: not known yet; of those that the options keep */
};

void mt_check_sites_forget(void)
{
	mt_mem_zero(known, sizeof(known));
}

static int has_hash(const char *list)
{
	const char *end = list + mt_str_len(list);
	struct mt_check_site s;
	while (list < end && mt_check_site_next(&list, end, &s))
		if (!s.module)
			return 1;
	return 0;
}

uint32_t mt_check_sites_depth(const struct mt_check_options *o)
{
	if (has_hash(o->only_sites) || has_hash(o->guard_page_sites))
		return DEPTH_OF_HASHES;
	return o->only_sites[0] || o->guard_page_sites[0] || o->only_modules[0] ? FRAMES_SEARCHED
										: 0;
}

/* The entry's module, with its '*' and '?', and the module's path or the last part of that. */
static int is_module(const struct mt_check_site *s, uint32_t number)
{
	char pattern[NAME_BYTES];
	const struct mt_state_module *m = mt_storage_base(MT_REGION_MODULES);
	const char *strings = mt_storage_base(MT_REGION_STRINGS);
	int is_path = 0;
	if (s->module_len >= sizeof(pattern))
		return 0;
	mt_mem_copy(pattern, s->module, s->module_len);
	pattern[s->module_len] = 0;
	for (size_t i = 0; i < s->module_len; i++)
		is_path |= pattern[i] == '/';
	return mt_site_glob_matches(pattern, is_path ? strings + m[number].path_string
						     : mt_site_module_name(number));
}

/* Reports tell the address before the one to return to, logs one in the call. */
static int is_frame(const struct mt_check_site *s, const struct mt_state_node *frame)
{
	const struct mt_state_module *modules = mt_storage_base(MT_REGION_MODULES);
	uint32_t number = frame->meta & 0xfffff;
	if (!number || (frame->meta >> 20 & 15) == MT_NODE_SOURCE)
		return 0;
	uint64_t address = s->value + modules[number].bias;
	return (address == frame->pc || address + 1 == frame->pc ||
		address == mt_frame_pc(frame)) &&
	       is_module(s, number);
}

static int has_frame(const struct stack *stack, const struct mt_check_site *s)
{
	uint32_t count = MT_MIN(stack->count, (uint32_t)FRAMES_SEARCHED);
	for (uint32_t i = 0; i < count; i++)
		if (is_frame(s, stack->frame[i]))
			return 1;
	return 0;
}

static int is_stack(struct stack *stack, uint64_t hash)
{
	uint32_t kept = MT_MIN(stack->count, mt_check.options.frames);
	if (!stack->hash[0]) {
		stack->hash[0] = mt_frames_hash(stack->frame, stack->count);
		stack->hash[1] = mt_frames_hash(stack->frame, kept);
	}
	return hash == stack->hash[0] || hash == stack->hash[1];
}

static int is_in(struct stack *stack, const char *list)
{
	const char *end = list + mt_str_len(list);
	struct mt_check_site s;
	while (list < end && mt_check_site_next(&list, end, &s))
		if (s.module ? has_frame(stack, &s) : is_stack(stack, s.value))
			return 1;
	return 0;
}

static uint32_t look_up(uint32_t node)
{
	struct stack stack;
	stack.hash[0] = 0;
	stack.count = mt_frame_chain(node, stack.frame, DEPTH_OF_HASHES);
	const struct mt_check_options *o = &mt_check.options;
	uint32_t lists = is_in(&stack, o->only_sites) ? MT_SITES_ONLY : 0;
	lists |= is_in(&stack, o->guard_page_sites) ? MT_SITES_PAGE : 0;
	if (o->only_modules[0] &&
	    !mt_site_globs_leave_out(o->only_modules, mt_site_stack_owner(node)))
		lists |= MT_SITES_MODULES;
	return lists;
}

int mt_check_sites_have(struct mt_thread *t, enum mt_check_sites list,
			const struct mt_caller *caller)
{
	uint32_t node = mt_stack_node(&t->capture, caller);
	uint64_t *place = &known[node % KNOWN];
	uint64_t seen = __atomic_load_n(place, __ATOMIC_RELAXED);
	if (MT_UNLIKELY(node < MT_NODE_ROOTS)) { /* no frames, or no room for them */
		mt_rt_lost(MT_LOST_SITE_FULL);
		return 0;
	}
	if (MT_UNLIKELY(seen >> 8 != node)) {
		seen = (uint64_t)node << 8 | look_up(node);
		__atomic_store_n(place, seen, __ATOMIC_RELAXED);
	}
	return (seen & list) != 0;
}
