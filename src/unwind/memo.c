/* SPDX-License-Identifier: MIT */
#include "unwind/memo.h"

void mt_memo_forget(struct mt_memo *memo)
{
	for (uint32_t i = 0; memo && i < MT_ARRAY_LEN(memo->used); i++)
		for (; memo->used[i]; memo->used[i] &= memo->used[i] - 1) {
			uint32_t set = i * 64 + (uint32_t)__builtin_ctzll(memo->used[i]);
			for (uint32_t w = 0; w < MT_MEMO_WAYS; w++)
				memo->entry[set][w].ra = 0;
		}
}

int mt_memo_missed(struct mt_memo *memo, uintptr_t sp, uintptr_t ra, uint64_t hash, uint32_t turn)
{
	uint64_t *missed = memo->missed[mt_memo_set(sp, ra)];
	if (missed[0] == hash || missed[1] == hash)
		return 1;
	missed[turn & 1] = hash;
	return 0;
}

struct mt_memo_entry *mt_memo_begin(struct mt_memo *memo, uintptr_t sp, uintptr_t ra, uintptr_t fp,
				    int needs_fp, uint64_t tag, uint32_t turn)
{
	uint32_t set = mt_memo_set(sp, ra);
	struct mt_memo_entry *e = memo->entry[set];
	memo->used[set / 64] |= 1ull << set % 64;
	if (e[0].ra && (!e[1].ra || turn & 1))
		e++;
	e->ra = 0;
	e->sp = sp;
	e->tag = tag;
	e->fp = fp;
	e->needs_fp = needs_fp != 0;
	e->span_bytes = 0;
	e->count = 0;
	return e;
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
