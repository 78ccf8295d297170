/* SPDX-License-Identifier: MIT */
/* memtrack ps: tracked processes, and files that were left behind. */

#include "cli/commands.h"
#include "cli/find.h"

#include "analysis/names.h"
#include "base/alloc.h"
#include "base/path.h"
#include "base/units.h"
#include "core/cc.h"
#include "formats/mtk_watch.h"
#include "record/collect.h"
#include "record/statedir.h"
#include "report/grid.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

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

static uint64_t lost_of(const struct mt_watch *w)
{
	uint64_t lost = 0;

	for (size_t i = 0; i < MT_WATCH_LOST; i++)
		lost += w->lost[i];
	return lost;
}

/* "64.0 KiB", "1/100", or nothing when everything is recorded. */
static void add_interval(struct mt_grid *g, const struct mt_watch *w)
{
	char text[MT_UNITS_TEXT_MAX];

	if (w->interval_bytes)
		mt_grid_add(g, mt_units_size(w->interval_bytes, text));
	else if (w->every)
		mt_grid_addf(g, "1/%" PRIu32, w->every);
	else
		mt_grid_add(g, "-");
}

static void add_row(struct mt_grid *g, const struct mt_live_state *s, const char *remark,
		    const struct mt_watch *first, const struct mt_watch *second)
{
	char text[MT_UNITS_TEXT_MAX];
	uint64_t ns = MT_MAX(second->read_ns - first->read_ns, 1u);
	uint64_t events = second->events > first->events ? second->events - first->events : 0;

	mt_grid_addf(g, "%" PRId32, s->header.pid);
	mt_grid_add(g, second->is_recording ? mt_words_mode(second->mode) : "off");
	add_interval(g, second);
	mt_grid_add(g, mt_units_size_signed(second->live_bytes, text) + (second->live_bytes > 0));
	mt_grid_add(g, s->is_running
			       ? mt_units_count((uint64_t)((long double)events * 1e9L / ns), text)
			       : "-");
	mt_grid_add(g, mt_units_count(lost_of(second), text));
	mt_grid_add(g, s->program);
	mt_grid_addf(g, "%s%s", s->path, remark);
}

static const char *remark_of(const struct mt_live_states *states, size_t at)
{
	const struct mt_live_state *s = &states->item[at];
	mt_auto(free) char *dir = s->is_running ? NULL : mt_path_dir(s->path);

	if (!s->is_running && dir && mt_statedir_is_attended(dir))
		return " (ended, its launcher collects it)";
	if (!s->is_running)
		return " (left behind)";
	if (at + 1 < states->count && states->item[at + 1].header.pid == s->header.pid)
		return " (became another program)";
	return "";
}

static int list(const struct mt_live_states *states, uint64_t interval_ns, struct mt_buf *out)
{
	static const char *const heads[] = {"pid",      "mode", "interval", "live",
					    "events/s", "lost", "program",  "file"};
	mt_auto(free) struct mt_watch *first = mt_alloc_zero(states->count + 1, sizeof(*first));
	struct timespec pause = {(time_t)(interval_ns / 1000000000u),
				 (long)(interval_ns % 1000000000u)};
	mt_auto(mt_grid) struct mt_grid g = {0};
	bool is_any_running = false;

	mt_grid_init(&g, "rlrrrrll");
	if (!first)
		return -1;
	for (size_t i = 0; i < states->count; i++) {
		(void)!mt_mtk_watch(states->item[i].path, MT_MTK_WATCH_SUMS, &first[i], NULL);
		is_any_running |= states->item[i].is_running;
	}
	if (is_any_running)
		nanosleep(&pause, NULL);
	for (size_t i = 0; i < MT_ARRAY_LEN(heads); i++)
		mt_grid_add(&g, heads[i]);
	for (size_t i = 0; i < states->count; i++) {
		struct mt_watch second = first[i]; /* should it have gone meanwhile */

		(void)!mt_mtk_watch(states->item[i].path, MT_MTK_WATCH_SUMS, &second, NULL);
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

static bool is_same_place(const struct mt_collect_item *a, const struct mt_collect_item *b)
{
	size_t dir = strlen(a->path) - strlen(mt_path_base(a->path));

	return !strcmp(a->program, b->program) && !strncmp(a->path, b->path, dir) &&
	       !strchr(b->path + dir, '/');
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

/* Of many processes of one program, with states in one directory, the first is told. */
static size_t first_alike(const struct mt_collection *c, size_t at)
{
	size_t i = 0;

	while (i < at &&
	       (c->item[i].kind != MT_COLLECTED || !is_same_place(&c->item[i], &c->item[at])))
		i++;
	return i;
}

static void tell_more_collected(const struct mt_collection *c, size_t first)
{
	const struct mt_collect_item *item = &c->item[first];
	size_t more = 0;

	for (size_t i = first + 1; i < c->count; i++)
		more += c->item[i].kind == MT_COLLECTED && is_same_place(item, &c->item[i]);
	if (more)
		mt_complain("%zu more %s of %s %s ended, with %s in that directory, too", more,
			    more == 1 ? "process" : "processes", item->program,
			    more == 1 ? "has" : "have", more == 1 ? "its state" : "their states");
}

static void tell_collected(const struct mt_collection *c)
{
	size_t more = 0;

	for (size_t i = 0; i < c->count; i++) {
		const struct mt_collect_item *item = &c->item[i];

		if (item->kind == MT_COLLECTED && first_alike(c, i) == i) {
			mt_complain("%s (pid %d) has ended: its state is now in '%s'",
				    item->program, (int)item->pid, item->path);
			tell_more_collected(c, i);
		} else if (item->kind == MT_KEPT && is_repeated(c, i)) {
			more++;
		} else if (item->kind == MT_KEPT) {
			mt_complain("%s (pid %d) has ended: its state stays in '%s': %s",
				    item->program, (int)item->pid, item->path, item->why);
		}
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
		"mode (off while recording is switched off) and sampling interval, live bytes of "
		"the malloc heap, events per second between two readings, events lost, and the "
		"state file.\n\n"
		"State files whose process and launcher are gone are moved to the path that was "
		"asked for, all of them; 'memtrack run' does the same for a few each time. "
		"Where that is not possible they are listed as left behind, and removed after "
		"seven days. States that a living launcher is about to move are listed as such.",
	.see_also = "memtrack(1), memtrack-report(1)",
	.run = run,
};
