/* SPDX-License-Identifier: MIT */
#include "unwind/memo.h"

#include "core/sys.h"

void mt_memo_forget(struct mt_memo *memo)
{
	for (uint32_t i = 0; memo && i < MT_ARRAY_LEN(memo->used); i++)
		for (; memo->used[i]; memo->used[i] &= memo->used[i] - 1) {
			uint32_t set = i * 64 + (uint32_t)__builtin_ctzll(memo->used[i]);
			for (uint32_t w = 0; w < MT_MEMO_WAYS; w++)
				memo->entry[set][w].ra = 0;
		}
}

static int is_key(const struct mt_memo_entry *e, uintptr_t sp, uintptr_t ra, uint64_t tag)
{
	return e->ra == ra && e->sp == sp && e->tag == tag;
}

struct mt_memo_entry *mt_memo_begin(struct mt_memo *memo, uintptr_t sp, uintptr_t ra, uintptr_t fp,
				    int needs_fp, uint64_t tag, uint32_t turn)
{
	uint32_t set = mt_memo_set(sp, ra);
	struct mt_memo_entry *e = memo->entry[set];
	memo->used[set / 64] |= 1ull << set % 64;
	if (is_key(&e[1], sp, ra, tag))
		e++;
	else if (!is_key(e, sp, ra, tag) && e->ra)
		e += turn & 1;
	e->ra = 0;
	e->sp = sp;
	e->tag = tag;
	e->fp = fp;
	e->needs_fp = needs_fp != 0;
	e->span_bytes = 0;
	e->count = 0;
	return e;
}

int mt_memo_add(struct mt_memo_entry *e, uintptr_t address, uint64_t value)
{
	uintptr_t offset = address - e->sp;
	if (e->count == MT_MEMO_WORDS || (offset & 7) || offset / 8 > UINT16_MAX)
		return -MT_EINVAL;
	e->offset[e->count] = (uint16_t)(offset / 8);
	e->value[e->count++] = value;
	if (offset + 8 > e->span_bytes)
		e->span_bytes = (uint32_t)offset + 8;
	return 0;
}

void mt_memo_end(struct mt_memo_entry *e, uintptr_t ra, uint32_t token)
{
	while (e->count % MT_MEMO_UNROLL) {
		e->offset[e->count] = e->offset[e->count - 1];
		e->value[e->count] = e->value[e->count - 1];
		e->count++;
	}
	e->token = token;
	e->ra = ra;
}
