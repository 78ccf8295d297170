/* SPDX-License-Identifier: MIT */
#include "walk.h"

#include "core/sys.h"
#include "unwind/row.h"
#include "unwind/step.h"

/* 0 and *ret_rule, or -ENOENT: *ret_row is special. */
static int rule_at(const struct mt_module_list *list, uintptr_t pc, struct mt_rule *ret_rule,
		   mt_row *ret_row)
{
	const struct mt_module *m = mt_module_list_find(list, pc);
	*ret_row = mt_row_special(MT_ROW_NOINFO);
	if (!m)
		return -MT_ENOENT;
	int r = mt_row_rule(m, pc, ret_rule);
	if (r == -MT_EINVAL)
		*ret_row = mt_row_special(MT_ROW_UNSUPPORTED);
	if (r)
		return -MT_ENOENT;
	*ret_row = mt_row_pack(ret_rule);
	if (mt_row_is_special(*ret_row) && mt_row_special_kind(*ret_row) != MT_ROW_FULL)
		return -MT_ENOENT;
	return 0;
}

uint32_t mt_walk_reference(uintptr_t sp, uintptr_t ra, uintptr_t fp, uintptr_t *ret_ra,
			   uint32_t max, enum mt_stack_end *ret_end)
{
	const struct mt_module_list *list = __atomic_load_n(&mt_unwind.modules, __ATOMIC_ACQUIRE);
	struct mt_stack_range range = {0, 0};
	struct mt_stack_asked asked = {0};
	struct mt_step s = {
		.sp = sp, .ra = mt_strip_code(ra), .fp = fp, .range = &range, .asked = &asked};
	uint32_t n = 0;
	int end = MT_STACK_NO_INFO;
	while (n < max) {
		struct mt_rule rule;
		mt_row row;
		ret_ra[n++] = s.ra;
		if (!list || (n == 1 && mt_stack_enter(&range, sp - 8)))
			break;
		int special = rule_at(list, s.ra - 1, &rule, &row);
		if (n == max) {
			end = row == mt_row_special(MT_ROW_END) ? MT_STACK_COMPLETE
								: MT_STACK_DEPTH;
			break;
		}
		end = special ? mt_step_special(&s, row, list) : mt_step_rule(&s, &rule);
		if (end)
			break;
	}
	*ret_end = (enum mt_stack_end)end;
	return n;
}
