/* SPDX-License-Identifier: MIT */
/* memtrack ps: tracked processes, and files that were left behind. */

#include "cli/commands.h"
#include "cli/find.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/units.h"
#include "core/cc.h"
#include "record/collect.h"
#include "report/grid.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct ps_options {
	uint64_t interval_ns;
};

static const struct ps_options defaults = {.interval_ns = 500000000};

static const struct mt_option options[] = {
	{.name = "interval",
	 .argument = "TIME",
	 .kind = MT_OPTION_TIME,
	 .offset = offsetof(struct ps_options, interval_ns),
	 .help = "time between the two readings that give events per second (default 500ms)"},
	{0},
};

/* Sums of one state, read from its header and thread table: cheap whatever the state's size. */
struct tally {
	uint64_t events, lost, ns;
	int64_t live_bytes;
};

static void add_threads(int fd, const struct mt_state_region *region, struct tally *t)
{
	uint64_t used = MT_MIN(region->used, region->capacity);

	for (uint64_t i = 1; i < used; i++) {
		struct mt_state_thread th;

		if (mt_file_pread(fd, &th, sizeof(th), region->offset + i * sizeof(th)) !=
		    sizeof(th))
			return;
		const struct mt_state_totals *sum = &th.totals[MT_CLASS_MALLOC];
		t->live_bytes += (int64_t)(sum->bytes - sum->freed_bytes);
		for (size_t k = 0; k < MT_ARRAY_LEN(th.totals); k++)
			t->events += th.totals[k].allocs + th.totals[k].frees;
	}
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static struct tally read_tally(const struct mt_live_state *s)
{
	mt_auto(close) int fd = open(s->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct tally t = {.ns = now_ns()};
	struct mt_state_header h;

	if (fd < 0 || mt_file_pread(fd, &h, sizeof(h), 0) != sizeof(h))
		return t;
	for (size_t i = 0; i < MT_ARRAY_LEN(h.lost); i++)
		t.lost += h.lost[i];
	for (size_t i = 0; i < MT_STATE_REGIONS_MAX && h.region[i].kind; i++)
		if (h.region[i].kind == MT_REGION_THREADS &&
		    h.region[i].elem_bytes == sizeof(struct mt_state_thread))
			add_threads(fd, &h.region[i], &t);
	return t;
}

static void add_row(struct mt_grid *g, const struct mt_live_state *s, const char *remark,
		    const struct tally *first, const struct tally *second)
{
	char text[MT_UNITS_TEXT_MAX];
	uint64_t ns = MT_MAX(second->ns - first->ns, 1u);
	uint64_t events = second->events > first->events ? second->events - first->events : 0;

	mt_grid_addf(g, "%" PRId32, s->header.pid);
	mt_grid_add(g, s->header.control & 1 ? s->header.mode == MT_MODE_FULL ? "full" : "off"
					     : "off");
	mt_grid_add(g, mt_units_size_signed(second->live_bytes, text) + (second->live_bytes > 0));
	mt_grid_add(g, s->is_running
			       ? mt_units_count((uint64_t)((long double)events * 1e9L / ns), text)
			       : "-");
	mt_grid_add(g, mt_units_count(second->lost, text));
	mt_grid_add(g, s->program);
	mt_grid_addf(g, "%s%s", s->path, remark);
}

static const char *remark_of(const struct mt_live_states *states, size_t at)
{
	const struct mt_live_state *s = &states->item[at];

	if (!s->is_running)
		return " (left behind)";
	if (at + 1 < states->count && states->item[at + 1].header.pid == s->header.pid)
		return " (became another program)";
	return "";
}

static int list(const struct mt_live_states *states, uint64_t interval_ns, struct mt_buf *out)
{
	static const char *const heads[] = {"pid",  "mode",    "live", "events/s",
					    "lost", "program", "file"};
	mt_auto(free) struct tally *first = mt_alloc_zero(states->count + 1, sizeof(*first));
	struct timespec pause = {(time_t)(interval_ns / 1000000000u),
				 (long)(interval_ns % 1000000000u)};
	mt_auto(mt_grid) struct mt_grid g = {0};
	bool is_any_running = false;

	mt_grid_init(&g, "rlrrrll");
	if (!first)
		return -1;
	for (size_t i = 0; i < states->count; i++) {
		first[i] = read_tally(&states->item[i]);
		is_any_running |= states->item[i].is_running;
	}
	if (is_any_running)
		nanosleep(&pause, NULL);
	for (size_t i = 0; i < MT_ARRAY_LEN(heads); i++)
		mt_grid_add(&g, heads[i]);
	for (size_t i = 0; i < states->count; i++) {
		struct tally second = read_tally(&states->item[i]);

		add_row(&g, &states->item[i], remark_of(states, i), &first[i], &second);
	}
	return mt_grid_write(&g, 0, out);
}

/* The last part of a sentence: "cannot create 'DIR/4711.mtk': No such file or directory". */
static const char *reason_of(const char *why)
{
	const char *colon = why ? strrchr(why, ':') : NULL;

	return colon ? colon : why ? why : "";
}

/* Whether an earlier file is kept for the same reason: the list has them all. */
static bool is_repeated(const struct mt_collection *c, size_t at)
{
	for (size_t i = 0; i < at; i++)
		if (c->item[i].kind == MT_KEPT &&
		    !strcmp(reason_of(c->item[i].why), reason_of(c->item[at].why)))
			return true;
	return false;
}

static void tell_collected(const struct mt_collection *c)
{
	size_t more = 0;

	for (size_t i = 0; i < c->count; i++) {
		const struct mt_collect_item *item = &c->item[i];

		if (item->kind == MT_COLLECTED)
			mt_complain("%s (pid %d) has ended: its state is now in '%s'",
				    item->program, (int)item->pid, item->path);
		else if (item->kind == MT_KEPT && is_repeated(c, i))
			more++;
		else if (item->kind == MT_KEPT)
			mt_complain("%s (pid %d) has ended: its state stays in '%s': %s",
				    item->program, (int)item->pid, item->path, item->why);
	}
	if (more)
		mt_complain("%zu more states stay where they are for the same reason", more);
}

static int run(const void *opaque, const struct mt_operands *operands)
{
	const struct ps_options *o = opaque;
	mt_auto(mt_collection) struct mt_collection collected = {0};
	mt_auto(mt_live_states) struct mt_live_states states = {0};
	mt_auto(mt_buf) struct mt_buf text = {0};

	mt_collect_abandoned(NULL, &collected);
	tell_collected(&collected);
	if (mt_live_states_find(&states) || list(&states, o->interval_ns, &text)) {
		mt_complain("cannot allocate memory");
		return MT_EXIT_FAILED;
	}
	if (!states.count)
		puts("no process is tracked");
	else
		fputs(mt_buf_text(&text), stdout);
	return MT_EXIT_OK;
}

const struct mt_command mt_cmd_ps = {
	.name = "ps",
	.summary = "list tracked processes",
	.operands = "",
	.operands_max = 0,
	.options = options,
	.options_bytes = sizeof(struct ps_options),
	.defaults = &defaults,
	.description =
		"Lists the processes of this machine that are tracked and that you may look at: "
		"live bytes of "
		"the malloc heap, events per second between two readings, events lost, and the "
		"state file.\n\n"
		"State files whose process and launcher are gone are moved to the path that was "
		"asked for, all of them; 'memtrack run' does the same for a few each time. "
		"Where that is not possible they are listed as left behind, and removed after "
		"seven days.",
	.see_also = "memtrack(1), memtrack-report(1)",
	.run = run,
};
