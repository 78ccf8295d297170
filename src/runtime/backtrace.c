/* SPDX-License-Identifier: MIT */
/*
 * Stacks as lines of text; see backtrace.h. A list of leaks has the same frames again and again,
 * and the symbols of a large program are many: what was looked up is remembered.
 */
#include "runtime/backtrace.h"

#include "core/fmt.h"
#include "runtime/check.h"
#include "runtime/frames.h"
#include "runtime/lock.h"
#include "runtime/log.h"

enum { LINES_BYTES = 32768, FEW_BYTES = 1024, LINE_BYTES = 5120 };

/* too large for small stacks; guarded by lines_lock */
static char lines[LINES_BYTES];
static struct mt_frame_memo memo;
static uint32_t lines_lock;

/* Where a text is made, and what it may remember. */
struct room {
	char *text;
	size_t bytes;
	struct mt_frame_memo *memo; /* NULL: nothing */
};

static void put_module(struct mt_fmt *f, const struct mt_frame_place *place)
{
	if (place->file) { /* given by the source: has no address */
		mt_fmt_str(f, place->file);
		mt_fmt_str(f, ":");
		mt_fmt_u64(f, place->line);
		return;
	}
	mt_fmt_str(f, place->module ? place->module : "<unknown>");
}

static void put_function(struct mt_fmt *f, const struct mt_frame_place *place, int is_long)
{
	if (!place->function)
		return;
	mt_fmt_str(f, " (");
	mt_frame_put_function(f, place);
	if (place->offset || !is_long) {
		mt_fmt_str(f, "+");
		mt_fmt_u64(f, place->offset);
	}
	mt_fmt_str(f, ")");
}

/* "          #00  pc 0000000000001234  /lib/libx.so (name+12)"; in the long form #0, and no +0 */
static void put_frame(struct mt_fmt *f, uint32_t number, const struct mt_frame_place *place,
		      int is_long)
{
	mt_fmt_str(f, "          #");
	mt_fmt_str(f, number < 10 && !is_long ? "0" : "");
	mt_fmt_u64(f, number);
	mt_fmt_str(f, "  pc ");
	mt_fmt_hex(f, place->relative, 16);
	mt_fmt_str(f, "  ");
	put_module(f, place);
	put_function(f, place, is_long);
}

static void log_stack(const struct room *room, uint32_t node, uint32_t frames)
{
	const struct mt_state_node *frame;
	int is_long = (mt_check.options.flags & MT_CHECK_BACKTRACE_FULL) != 0;
	struct mt_fmt f;
	uint32_t n = 0;
	mt_fmt_init(&f, room->text, room->bytes);
	for (; n < frames && mt_frame_chain(node, &frame, 1); node = frame->parent) {
		if (!frame->pc)
			continue; /* called from nowhere */
		struct mt_frame_place place = mt_frame_find(frame, room->memo);
		if (is_long) /* each is a message of its own */
			mt_fmt_init(&f, room->text, MT_MIN(room->bytes, (size_t)LINE_BYTES));
		mt_fmt_str(&f, n && !is_long ? "\n" : "");
		put_frame(&f, n++, &place, is_long);
		if (is_long)
			mt_log(MT_LOG_ERROR, room->text);
	}
	if (!n)
		mt_log(MT_LOG_ERROR, "  Backtrace failed to get any frames.");
	else if (!is_long)
		mt_log(MT_LOG_ERROR, room->text);
}

void mt_backtrace_log(uint32_t node, uint32_t frames)
{
	char few[FEW_BYTES];
	if (mt_lock(&lines_lock)) {
		log_stack(&(struct room){lines, sizeof(lines), &memo}, node, frames);
		mt_unlock(&lines_lock);
	} else {
		log_stack(&(struct room){few, sizeof(few), NULL}, node, frames);
	}
}

void mt_backtrace_forget(void)
{
	lines_lock = 0;
}
