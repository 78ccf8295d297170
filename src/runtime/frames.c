/* SPDX-License-Identifier: MIT */
/* Module and symbol of a frame; see frames.h. */
#include "runtime/frames.h"

#include "core/fmt.h"
#include "core/hash.h"
#include "core/mem.h"
#include "elf/loader.h"
#include "runtime/storage.h"

enum { NAME_BYTES = 512, PIECE = 64 };

static uint32_t module_of(const struct mt_state_node *node)
{
	return node->meta & 0xfffff;
}

static int is_of_source(const struct mt_state_node *node)
{
	return (node->meta >> 20 & 15) == MT_NODE_SOURCE;
}

static const char *string_at(uint32_t offset)
{
	return (const char *)mt_storage_base(MT_REGION_STRINGS) + offset;
}

/* x86 calls end one byte before the return address; there an instruction may have any length. */
uint64_t mt_frame_pc(const struct mt_state_node *node)
{
	if (is_of_source(node))
		return 1;
#if defined(__aarch64__)
	if ((node->meta >> 20 & 15) == MT_NODE_RETURN)
		return node->pc - 4;
#endif
	return node->pc - 1;
}

/* The module of this number, if it still lies there. */
static const struct mt_module *loaded_at(uint64_t pc, uint32_t number)
{
	const struct mt_module_list *list = __atomic_load_n(&mt_unwind.modules, __ATOMIC_ACQUIRE);
	const struct mt_module *m = list ? mt_module_list_find(list, pc) : NULL;
	return m && m->number == number ? m : NULL;
}

static struct mt_frame_symbol look_up(const struct mt_module *m, uint64_t pc)
{
	struct mt_frame_symbol s = {.pc = pc, .number = m->number};
	uintptr_t offset = 0;
	s.function = mt_module_nearest_symbol_by(mt_loader_read, m, pc, &offset);
	s.offset = (uint32_t)offset;
	return s;
}

static struct mt_frame_symbol find_symbol(uint64_t pc, uint32_t number, struct mt_frame_memo *memo)
{
	const struct mt_module *m = loaded_at(pc, number);
	if (!m)
		return (struct mt_frame_symbol){.pc = pc};
	if (!memo)
		return look_up(m, pc);
	/* two places each: the few hundred frames of a large program must not push each other out
	 */
	uint64_t at = (pc * 0x9e3779b97f4a7c15u >> 32) % MT_ARRAY_LEN(memo->symbol);
	struct mt_frame_symbol *s = &memo->symbol[at], *other = &memo->symbol[at ^ 1];
	if (s->pc == pc && s->number == number)
		return *s;
	if (other->pc == pc && other->number == number)
		return *other;
	*other = *s;
	*s = look_up(m, pc);
	return *s;
}

struct mt_frame_place mt_frame_find(const struct mt_state_node *node, struct mt_frame_memo *memo)
{
	if (is_of_source(node))
		return (struct mt_frame_place){.file = string_at((uint32_t)(node->pc >> 32)),
					       .line = (uint32_t)node->pc};
	struct mt_frame_place place = {.pc = mt_frame_pc(node), .relative = mt_frame_pc(node)};
	uint32_t number = module_of(node);
	if (!number)
		return place;
	const struct mt_state_module *m =
		(const struct mt_state_module *)mt_storage_base(MT_REGION_MODULES) + number;
	struct mt_frame_symbol s = find_symbol(place.pc, number, memo);
	place.relative -= m->bias;
	place.module = string_at(m->path_string);
	place.function = s.function;
	place.offset = s.offset;
	return place;
}

/* A piece at a time: behind the name may be the end of the module. */
void mt_frame_put_function(struct mt_fmt *f, const struct mt_frame_place *place)
{
	char piece[PIECE + 1];
	const char *at = place->function;
	for (size_t left = NAME_BYTES - 1; at && left;) {
		size_t n = PIECE - ((uintptr_t)at & (PIECE - 1));
		n = MT_MIN(n, left);
		if (mt_loader_read(at, piece, n))
			return;
		piece[n] = 0;
		mt_fmt_str(f, piece);
		if (mt_str_len(piece) < n)
			return;
		at += n;
		left -= n;
	}
}

uint32_t mt_frame_chain(uint32_t node, const struct mt_state_node **ret_frame, uint32_t max)
{
	const struct mt_state_module *modules = mt_storage_base(MT_REGION_MODULES);
	uint32_t n = 0;
	for (; node >= MT_NODE_ROOTS && n < max; node = mt_rt.nodes[node].parent) {
		const struct mt_state_node *frame = &mt_rt.nodes[node];
		if (!is_of_source(frame) &&
		    (!frame->pc || modules[module_of(frame)].flags & MT_MODULE_SELF))
			continue;
		ret_frame[n++] = frame;
	}
	return n;
}

static uint64_t module_hash(const struct mt_state_module *m)
{
	if (m->build_id_bytes)
		return mt_hash_bytes(m->build_id, m->build_id_bytes, MT_CALLSTACK_SEED);
	const char *path = string_at(m->path_string);
	return mt_hash_bytes(path, mt_str_len(path), MT_CALLSTACK_SEED);
}

uint64_t mt_frames_hash(const struct mt_state_node *const *frame, uint32_t count)
{
	const struct mt_state_module *modules = mt_storage_base(MT_REGION_MODULES);
	uint64_t h = MT_CALLSTACK_SEED;
	while (count) {
		const struct mt_state_node *f = frame[--count];
		uint64_t module = 0, offset = f->pc;
		if (is_of_source(f)) {
			const char *file = string_at((uint32_t)(f->pc >> 32));
			module = mt_hash_bytes(file, mt_str_len(file), MT_CALLSTACK_SEED);
			offset = (uint32_t)f->pc;
		} else if (module_of(f)) {
			module = module_hash(&modules[module_of(f)]);
			offset = f->pc - modules[module_of(f)].bias;
		}
		h = mt_callstack_step(h, module, offset);
	}
	return h;
}
