/* SPDX-License-Identifier: MIT */
/* The verdict of a triage in words. */

#include "report/triage.h"

#include "base/escape.h"
#include "base/units.h"

#include <inttypes.h>

#define SECOND_NS 1000000000ull

const char *mt_triage_part_name(enum mt_triage_part part)
{
	static const char *const names[MT_TRIAGE_PARTS] = {
		[MT_TRIAGE_HEAP] = "native heap",
		[MT_TRIAGE_JAVA] = "Java heap",
		[MT_TRIAGE_ANON] = "other anonymous memory",
		[MT_TRIAGE_STACKS] = "stacks",
		[MT_TRIAGE_SHARED] = "shared memory",
		[MT_TRIAGE_FILES] = "mapped files",
		[MT_TRIAGE_CODE] = "code made at run time",
		[MT_TRIAGE_DEVICES] = "mapped devices",
		[MT_TRIAGE_TRACKER] = "memtrack itself",
		[MT_TRIAGE_BUFFERS] = "shared memory behind descriptors",
		[MT_TRIAGE_GPU] = "GPU buffers",
		[MT_TRIAGE_PAGE_TABLES] = "page tables",
	};

	return names[part];
}

static void add_time(struct mt_buf *out, uint64_t ns)
{
	char text[MT_UNITS_TEXT_MAX];

	mt_buf_adds(out, mt_units_time(ns, text));
}

/* "grew by 12 MiB in 5.0 s" */
static void add_growth(const struct mt_triage_facts *f, const struct mt_triage_judgement *j,
		       struct mt_buf *out)
{
	mt_buf_adds(out, "grew by ");
	mt_units_add_size(out, (uint64_t)j->growth_bytes);
	mt_buf_adds(out, " in ");
	add_time(out, f->watched_ns);
	if (j->pace == MT_TRIAGE_STEPS)
		mt_buf_adds(out, ", not steadily");
}

/* The object of a part that grew most, with its growth: " ('/memfd:x', +3 MiB)". */
static void add_object(const struct mt_triage_facts *f, enum mt_triage_part part,
		       struct mt_buf *out)
{
	char text[MT_UNITS_TEXT_MAX];

	for (size_t i = 0; i < f->objects; i++) {
		const struct mt_triage_object *o = &f->object[i];

		if (o->part != part)
			continue;
		mt_buf_adds(out, ", most in '");
		mt_escape(out, o->name);
		mt_buf_printf(out, "' (%s)", mt_units_size_signed(o->growth_bytes, text));
		return;
	}
}

static void add_live(const struct mt_triage_facts *f, struct mt_buf *out)
{
	char text[MT_UNITS_TEXT_MAX];
	int64_t blocks = (int64_t)(f->heap.live_blocks - f->heap.before_live_blocks);

	if (f->tracker.sites && f->tracker.step == MT_TRIAGE_DONE) {
		mt_buf_adds(out, ", most by '");
		mt_escape(out, f->tracker.site[0].name);
		mt_buf_printf(out, "' (%s)",
			      mt_units_size_signed(f->tracker.site[0].growth_bytes, text));
	} else if (f->heap.step == MT_TRIAGE_DONE && f->heap.has_before && blocks > 0) {
		mt_buf_printf(out, " (%s live blocks since the middle of the watch)",
			      mt_units_count_signed(blocks, text));
	}
}

static void add_lost(const struct mt_triage_facts *f, const struct mt_triage_judgement *j,
		     struct mt_buf *out)
{
	char text[MT_UNITS_TEXT_MAX];

	mt_buf_adds(out, "leak: ");
	if (j->is_growing) {
		mt_buf_printf(out, "the %s ", mt_triage_part_name(j->part));
		add_growth(f, j, out);
		mt_buf_adds(out, ", and ");
	} else {
		mt_buf_adds(out, "nothing grows now, but ");
	}
	mt_units_add_size(out, f->reach.lost_bytes);
	mt_buf_printf(out, " in %s of its live blocks can be reached by no pointer any more",
		      mt_units_count(f->reach.lost_blocks, text));
}

static void add_fragmented(const struct mt_triage_facts *f, const struct mt_triage_judgement *j,
			   struct mt_buf *out)
{
	mt_buf_adds(out, j->is_growing ? "fragmentation: the native heap grows, but of "
				       : "fragmentation: nothing grows, but of ");
	mt_units_add_size(out, f->heap.held_bytes);
	mt_buf_adds(out, " that the allocator holds only ");
	mt_units_add_size(out, f->heap.live_bytes);
	mt_buf_adds(out, " are live blocks");
}

static void add_live_sentence(const struct mt_triage_facts *f, const struct mt_triage_judgement *j,
			      struct mt_buf *out)
{
	if (j->is_growing) {
		mt_buf_printf(out, "live blocks: the %s ", mt_triage_part_name(j->part));
		add_growth(f, j, out);
		mt_buf_adds(out, " with blocks that are in use");
	} else {
		mt_buf_adds(out, "live blocks: the mappings do not grow, but live blocks inside "
				 "the heap do");
	}
	add_live(f, out);
	if (j->verdict == MT_VERDICT_LIVE)
		mt_buf_adds(out, "; the program still points to them: a container or a cache that "
				 "grows, or a leak that something holds");
	else
		mt_buf_adds(out, "; whether the program still points to them is not known");
}

static void add_damage(const struct mt_triage_facts *f, struct mt_buf *out)
{
	if (f->heap.step == MT_TRIAGE_DONE && f->heap.damages)
		mt_buf_printf(out,
			      "damage: the allocator's structures do not agree in %" PRIu64
			      " place%s: something wrote where it must not, and figures of blocks "
			      "are not to be relied on before that is found",
			      f->heap.damages, f->heap.damages == 1 ? "" : "s");
	else
		mt_buf_printf(out,
			      "damage: %" PRIu64 " memory error%s recorded: these come first, what "
			      "grows may be their consequence",
			      f->tracker.errors, f->tracker.errors == 1 ? " was" : "s were");
}

static void add_steady(const struct mt_triage_facts *f, struct mt_buf *out)
{
	uint64_t least = mt_triage_least_bytes(f);
	char text[MT_UNITS_TEXT_MAX];

	mt_buf_printf(out, "steady: nothing grew by %s or more in ", mt_units_size(least, text));
	add_time(out, f->watched_ns);
	if (f->heap.step == MT_TRIAGE_DONE && f->reach.step == MT_TRIAGE_DONE) {
		mt_buf_adds(out, ", and ");
		if (f->reach.lost_bytes) {
			mt_units_add_size(out, f->reach.lost_bytes);
			mt_buf_adds(out, " are lost");
		} else {
			mt_buf_adds(out, "no block is lost");
		}
	}
	mt_buf_adds(out, "; what grows more slowly shows after a longer time only");
}

static void add_stacks(const struct mt_triage_facts *f, const struct mt_triage_judgement *j,
		       struct mt_buf *out)
{
	if (f->threads_now > f->threads_before)
		mt_buf_printf(out,
			      "threads: %" PRIu64 " more than at first (%" PRIu64
			      " now), and their stacks grew by ",
			      f->threads_now - f->threads_before, f->threads_now);
	else
		mt_buf_adds(out, "stacks: no thread more, but stacks grew by ");
	mt_units_add_size(out, (uint64_t)j->growth_bytes);
	mt_buf_adds(out, " in ");
	add_time(out, f->watched_ns);
}

static void add_buffers(const struct mt_triage_facts *f, const struct mt_triage_judgement *j,
			struct mt_buf *out)
{
	int64_t more = (int64_t)(f->buffers_now - f->buffers_before);

	mt_buf_adds(out, "buffers: shared memory behind open descriptors ");
	add_growth(f, j, out);
	if (more > 0)
		mt_buf_printf(out, ", in %" PRId64 " more file%s", more, more == 1 ? "" : "s");
	if (f->buffer[0]) {
		mt_buf_adds(out, "; the largest is '");
		mt_escape(out, f->buffer);
		mt_buf_adds(out, "'");
	}
}

static void add_mappings(const struct mt_triage_facts *f, const struct mt_triage_judgement *j,
			 struct mt_buf *out)
{
	int64_t more = (int64_t)(f->part[j->part].mappings_now - f->part[j->part].mappings_before);

	mt_buf_printf(out, "%s ", mt_triage_part_name(j->part));
	add_growth(f, j, out);
	if (j->part != MT_TRIAGE_ANON)
		add_object(f, j->part, out);
	if (more > 0)
		mt_buf_printf(out, ", with %" PRId64 " more mapping%s", more, more == 1 ? "" : "s");
}

static void add_more_mappings(const struct mt_triage_facts *f, struct mt_buf *out)
{
	uint64_t now = mt_triage_mappings(f, /* is_before */ false);

	mt_buf_printf(out,
		      "mappings: no memory grows, but %" PRIu64
		      " more are there than at first (%" PRIu64
		      " now): addresses that are taken and not used",
		      now - mt_triage_mappings(f, /* is_before */ true), now);
}

static void add_growing(const struct mt_triage_facts *f, const struct mt_triage_judgement *j,
			struct mt_buf *out)
{
	add_mappings(f, j, out);
	switch (j->verdict) {
	case MT_VERDICT_HEAP:
		mt_buf_adds(out, "; with what, the allocator could not be asked");
		break;
	case MT_VERDICT_JAVA:
		mt_buf_adds(out,
			    "; objects that nobody needs stay there until the VM collects them: "
			    "what is left after a collection counts");
		break;
	case MT_VERDICT_ANON:
		mt_buf_adds(out, f->has_java ? "; it is neither the Java heap nor the allocator's: "
					       "the VM or a library maps it itself"
					     : "; it is not the allocator's: the program maps it "
					       "itself");
		break;
	case MT_VERDICT_ANON_UNKNOWN:
		mt_buf_adds(out, "; the program's own mappings or those of its allocator, which "
				 "could not be asked");
		break;
	case MT_VERDICT_ANON_JAVA:
		mt_buf_adds(out, "; the process has a Java VM, whose heap is such memory, too: "
				 "which it is only the VM can tell");
		break;
	case MT_VERDICT_FILES:
		mt_buf_adds(out, "; pages of files that are not changed are given back when memory "
				 "is needed");
		break;
	default:
		break;
	}
}

static void add_levelled(const struct mt_triage_judgement *j, struct mt_buf *out)
{
	mt_buf_printf(out, "levelled off: %s grew by ", mt_triage_part_name(j->part));
	mt_units_add_size(out, (uint64_t)j->growth_bytes);
	mt_buf_adds(out, " at first, and has stood still since: a cache that filled, or a start");
}

static void add_refused(const struct mt_triage_facts *f, const struct mt_triage_judgement *j,
			struct mt_buf *out)
{
	if (j->is_growing) {
		mt_buf_printf(out, "%s ", mt_triage_part_name(j->part));
		add_growth(f, j, out);
	} else {
		mt_buf_adds(out, "no sum of the process grew");
	}
	mt_buf_adds(out, "; more cannot be known: ");
	mt_escape(out, f->why_refused);
}

static void add_limit(const struct mt_triage_facts *f, struct mt_buf *out)
{
	const struct mt_triage_limit *l = mt_triage_nearest(f);
	char text[MT_UNITS_TEXT_MAX];

	if (!l)
		return;
	mt_buf_printf(out, "; %s of the limit on ", mt_units_percent(l->now, l->limit, text));
	mt_escape(out, l->name);
	mt_buf_adds(out, " are used");
}

static void add_old_loss(const struct mt_triage_facts *f, const struct mt_triage_judgement *j,
			 struct mt_buf *out)
{
	char text[MT_UNITS_TEXT_MAX];

	if (!mt_triage_has_old_loss(f, j))
		return;
	mt_buf_adds(out, "; besides, ");
	mt_units_add_size(out, f->reach.lost_bytes);
	mt_buf_printf(out, " in %s blocks are lost%s ('memtrack leaks %" PRId32 "')",
		      mt_units_count(f->reach.lost_blocks, text),
		      f->reach.has_before ? ", a leak that does not grow like this" : "", f->pid);
}

static void add_ended(const struct mt_triage_facts *f, struct mt_buf *out)
{
	mt_buf_adds(out, "the process ended after ");
	add_time(out, f->watched_ns);
	mt_buf_adds(out, ": too early to tell");
}

void mt_triage_add_sentence(const struct mt_triage_facts *f, const struct mt_triage_judgement *j,
			    struct mt_buf *out)
{
	switch (j->verdict) {
	case MT_VERDICT_ENDED:
		add_ended(f, out);
		return;
	case MT_VERDICT_REFUSED:
		add_refused(f, j, out);
		break;
	case MT_VERDICT_DAMAGED:
		add_damage(f, out);
		break;
	case MT_VERDICT_LOST:
		add_lost(f, j, out);
		break;
	case MT_VERDICT_LIVE:
	case MT_VERDICT_LIVE_UNKNOWN:
		add_live_sentence(f, j, out);
		break;
	case MT_VERDICT_FRAGMENTED:
		add_fragmented(f, j, out);
		break;
	case MT_VERDICT_STACKS:
		add_stacks(f, j, out);
		break;
	case MT_VERDICT_BUFFERS:
		add_buffers(f, j, out);
		break;
	case MT_VERDICT_DESCRIPTORS:
		mt_buf_printf(out,
			      "descriptors: no memory grows, but %" PRIu64
			      " more are open than at first (%" PRIu64 " now)",
			      f->descriptors_now - f->descriptors_before, f->descriptors_now);
		break;
	case MT_VERDICT_MAPPINGS:
		add_more_mappings(f, out);
		break;
	case MT_VERDICT_LEVELLED:
		add_levelled(j, out);
		break;
	case MT_VERDICT_SHRINKS:
		mt_buf_adds(out, "the process gave back ");
		mt_units_add_size(out, (uint64_t)-mt_triage_growth_in_all(f));
		mt_buf_adds(out, " meanwhile: nothing grows");
		break;
	case MT_VERDICT_STEADY:
		add_steady(f, out);
		break;
	default:
		add_growing(f, j, out);
		break;
	}
	add_old_loss(f, j, out);
	add_limit(f, out);
}

/* ---- the next command ---- */

/* The program again, tracked. */
static void add_run(const struct mt_triage_facts *f, const char *mode, struct mt_buf *out)
{
	mt_buf_printf(out, "memtrack run --mode=%s -- %s", mode,
		      f->command[0] ? f->command : "PROGRAM ARGUMENTS");
}

/* Whose stacks: from what is recorded, or how to record it. */
static void add_stacks_of_blocks(const struct mt_triage_facts *f, struct mt_buf *out)
{
	if (f->tracker.step == MT_TRIAGE_DONE && f->tracker.has_sites)
		mt_buf_printf(out, "memtrack report %" PRId32 " --show=live", f->pid);
	else if (f->tracker.step == MT_TRIAGE_DONE)
		mt_buf_printf(out, "memtrack ctl %" PRId32 " on mode=sample", f->pid);
	else
		add_run(f, "sample", out);
}

static void add_longer(const struct mt_triage_facts *f, struct mt_buf *out)
{
	uint64_t seconds = (f->watched_ns + SECOND_NS / 2) / SECOND_NS;

	mt_buf_printf(out, "memtrack triage %" PRId32 " --for=%" PRIu64 "s", f->pid,
		      (seconds ? seconds : 1) * 10);
}

void mt_triage_add_next(const struct mt_triage_facts *f, const struct mt_triage_judgement *j,
			struct mt_buf *out)
{
	switch (j->verdict) {
	case MT_VERDICT_ENDED:
		add_run(f, "full", out);
		break;
	case MT_VERDICT_REFUSED:
		mt_buf_printf(out, "sudo memtrack triage %" PRId32, f->pid);
		break;
	case MT_VERDICT_DAMAGED:
		if (f->tracker.step == MT_TRIAGE_DONE && f->tracker.errors)
			mt_buf_printf(out, "memtrack report %" PRId32 " --show=errors", f->pid);
		else
			add_run(f, "check", out);
		break;
	case MT_VERDICT_LOST:
		mt_buf_printf(out, "memtrack leaks %" PRId32, f->pid);
		break;
	case MT_VERDICT_FRAGMENTED:
		mt_buf_printf(out, "memtrack allocators %" PRId32, f->pid);
		break;
	case MT_VERDICT_JAVA:
	case MT_VERDICT_ANON_JAVA:
		mt_buf_printf(out, "jcmd %" PRId32 " GC.heap_info", f->pid);
		break;
	case MT_VERDICT_LIVE:
	case MT_VERDICT_LIVE_UNKNOWN:
	case MT_VERDICT_HEAP:
	case MT_VERDICT_ANON:
	case MT_VERDICT_ANON_UNKNOWN:
		add_stacks_of_blocks(f, out);
		break;
	case MT_VERDICT_BUFFERS:
	case MT_VERDICT_DESCRIPTORS:
		mt_buf_printf(out, "ls -l /proc/%" PRId32 "/fd", f->pid);
		break;
	case MT_VERDICT_DEVICES:
		mt_buf_printf(out, "memtrack meminfo %" PRId32, f->pid);
		break;
	case MT_VERDICT_TRACKER:
		mt_buf_printf(out, "memtrack ctl %" PRId32, f->pid);
		break;
	case MT_VERDICT_STACKS:
	case MT_VERDICT_SHARED:
	case MT_VERDICT_FILES:
	case MT_VERDICT_CODE:
	case MT_VERDICT_MAPPINGS:
	case MT_VERDICT_PAGE_TABLES:
		mt_buf_printf(out, "memtrack maps %" PRId32 " --by=mapping --sort=rss", f->pid);
		break;
	default:
		add_longer(f, out);
		break;
	}
}
