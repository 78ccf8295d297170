/* SPDX-License-Identifier: MIT */
/* Stacks as lines of text; see backtrace.h. */
#include "runtime/backtrace.h"

#include "elf/modules.h"
#include "runtime/lock.h"
#include "runtime/log.h"
#include "runtime/storage.h"

enum { LINES_BYTES = 32768, FEW_BYTES = 1024 };

/* too large for small stacks; guarded by lines_lock */
static char lines[LINES_BYTES];
static uint32_t lines_lock;

static const char *string_at(uint32_t offset)
{
	return (const char *)mt_storage_base(MT_REGION_STRINGS) + offset;
}

static void put_number(struct mt_fmt *f, uint32_t number)
{
	mt_fmt_str(f, number < 10 ? "#0" : "#");
	mt_fmt_u64(f, number);
}

/* The nearest function of the module's dynamic symbols. */
static void put_symbol(struct mt_fmt *f, uint32_t number, uint64_t pc)
{
	const struct mt_module *m = mt_module_list_find(mt_unwind.modules, pc);
	uintptr_t offset = 0;
	const char *name = m && m->number == number
				   ? mt_module_nearest_symbol(m, (uintptr_t)pc, &offset)
				   : NULL;
	if (!name)
		return;
	mt_fmt_str(f, " (");
	mt_fmt_str(f, name);
	mt_fmt_str(f, "+");
	mt_fmt_u64(f, offset);
	mt_fmt_str(f, ")");
}

void mt_backtrace_frame(struct mt_fmt *f, uint32_t number, const struct mt_state_node *node)
{
	const struct mt_state_module *modules = mt_storage_base(MT_REGION_MODULES);
	uint32_t module = node->meta & 0xfffff;
	uint64_t pc = node->pc - 1; /* in the call, or the interrupted instruction */
	mt_fmt_str(f, "          ");
	put_number(f, number);
	mt_fmt_str(f, "  pc ");
	if ((node->meta >> 20 & 15) == MT_NODE_SOURCE) { /* given by the source: has no address */
		mt_fmt_hex(f, 0, 16);
		mt_fmt_str(f, "  ");
		mt_fmt_str(f, string_at((uint32_t)(node->pc >> 32)));
		mt_fmt_str(f, ":");
		mt_fmt_u64(f, (uint32_t)node->pc);
		return;
	}
	mt_fmt_hex(f, module ? pc - modules[module].bias : pc, 16);
	mt_fmt_str(f, "  ");
	mt_fmt_str(f, module ? string_at(modules[module].path_string) : "<unknown>");
	if (module)
		put_symbol(f, module, pc);
}

/* A frame of the tracker's tells nobody anything. */
static int is_own(const struct mt_state_node *node)
{
	const struct mt_state_module *modules = mt_storage_base(MT_REGION_MODULES);
	return (modules[node->meta & 0xfffff].flags & MT_MODULE_SELF) != 0;
}

static void log_into(char *text, size_t bytes, uint32_t node, uint32_t frames)
{
	struct mt_fmt f;
	uint32_t n = 0;
	mt_fmt_init(&f, text, bytes);
	for (; node >= MT_NODE_ROOTS && n < frames; node = mt_rt.nodes[node].parent) {
		if (is_own(&mt_rt.nodes[node]) || !mt_rt.nodes[node].pc)
			continue; /* 0: called from nowhere */
		mt_fmt_str(&f, n ? "\n" : "");
		mt_backtrace_frame(&f, n++, &mt_rt.nodes[node]);
	}
	mt_log(MT_LOG_ERROR, n ? text : "  Backtrace failed to get any frames.");
}

void mt_backtrace_log(uint32_t node, uint32_t frames)
{
	char few[FEW_BYTES];
	if (mt_lock(&lines_lock)) {
		log_into(lines, sizeof(lines), node, frames);
		mt_unlock(&lines_lock);
	} else {
		log_into(few, sizeof(few), node, frames);
	}
}

void mt_backtrace_forget(void)
{
	lines_lock = 0;
}
