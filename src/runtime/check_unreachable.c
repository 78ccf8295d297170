/* SPDX-License-Identifier: MIT */
/* The blocks that a look found, as libmemunreachable logs them; without what hangs on each. */
#include "runtime/check_unreachable.h"

#include "core/fmt.h"
#include "core/mem.h"
#include "runtime/backtrace.h"
#include "runtime/lost_blocks.h"
#include "runtime/log.h"
#include "runtime/look.h"
#include "runtime/rt.h"

enum { LISTED = 100 };

static void put_blocks(struct mt_fmt *f, uint64_t bytes, uint64_t count, const char *how)
{
	mt_fmt_u64(f, bytes);
	mt_fmt_str(f, " bytes in ");
	mt_fmt_u64(f, count);
	mt_fmt_str(f, count == 1 ? " allocation" : " allocations");
	mt_fmt_str(f, how);
}

static void say_block(const struct mt_lost_block *b)
{
	char line[128];
	struct mt_fmt f;
	mt_fmt_init(&f, line, sizeof(line));
	mt_fmt_str(&f, "  ");
	mt_fmt_u64(&f, b->leak.size);
	mt_fmt_str(&f, " bytes unreachable at ");
	mt_fmt_hex(&f, b->leak.place, 1);
	mt_log(MT_LOG_ERROR, line);
	if (b->leaks > 1) {
		mt_fmt_init(&f, line, sizeof(line));
		mt_fmt_str(&f, "   and ");
		mt_fmt_u64(&f, b->leaks - 1);
		mt_fmt_str(&f, b->leaks == 2 ? " similar unreachable allocation"
					     : " similar unreachable allocations");
		mt_log(MT_LOG_ERROR, line);
	}
	if (b->leak.frames)
		mt_backtrace_log(b->leak.node, b->leak.frames);
}

static void say_result(void)
{
	struct mt_lost_block block[LISTED];
	uint32_t n = mt_lost_blocks(block, LISTED);
	char line[256];
	struct mt_fmt f;
	for (uint32_t i = 0; i < n; i++)
		say_block(&block[i]);
	uint64_t live_bytes, live = mt_lost_blocks_live(&live_bytes);
	mt_fmt_init(&f, line, sizeof(line));
	put_blocks(&f, mt_rt.hdr->look_bytes, mt_rt.hdr->look_count, " unreachable out of ");
	put_blocks(&f, live_bytes, live, "");
	mt_log(MT_LOG_ERROR, line);
}

static const char *why_not(enum mt_state_look result)
{
	switch (result) {
	case MT_LOOK_NONE:
		return "the command memtrack is not where the library expects it";
	case MT_LOOK_NO_ANSWER:
		return "nobody answered in time";
	case MT_LOOK_REFUSED:
		return "the process's memory may not be read";
	case MT_LOOK_NO_MEMORY:
		return "there was no memory for the search";
	default:
		return "the search failed";
	}
}

void mt_check_unreachable(void)
{
	char line[160];
	struct mt_fmt f;
	mt_log(MT_LOG_INFO, "Starting to check for unreachable memory.");
	enum mt_state_look result = mt_look_now(MT_LOOK_ON_SIGNAL);
	if (result == MT_LOOK_MADE) {
		say_result();
		return;
	}
	mt_fmt_init(&f, line, sizeof(line));
	mt_fmt_str(&f, "Unreachable check failed, ");
	mt_fmt_str(&f, why_not(result));
	mt_fmt_str(&f, ".");
	mt_log(MT_LOG_ERROR, line);
}
