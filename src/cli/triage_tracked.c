/* SPDX-License-Identifier: MIT */
/* Two readings of the state file: which call sites grew. */

#include "cli/triage_parts.h"

#include "analysis/names.h"
#include "base/alloc.h"
#include "cli/find.h"
#include "cli/watched.h"
#include "core/cc.h"
#include "formats/mtk_watch.h"

#include <errno.h>
#include <string.h>

#define NAMES_NS 20000000000ull /* symbols of large programs take their time */

struct mt_triage_tracked {
	char *path;
	struct mt_watch before;
};

void mt_triage_tracked_free(struct mt_triage_tracked *t)
{
	if (!t)
		return;
	mt_watch_done(&t->before);
	free(t->path);
	free(t);
}

static int refuse(struct mt_triage_facts *f, const char *why)
{
	f->tracker.step = MT_TRIAGE_REFUSED;
	snprintf(f->tracker.why, sizeof(f->tracker.why), "%s", why);
	return 0;
}

int mt_triage_tracked_open(const struct mt_triage_watch *w, struct mt_triage_facts *f,
			   struct mt_triage_tracked **ret)
{
	mt_auto(mt_triage_tracked) struct mt_triage_tracked *t = mt_alloc_zero(1, sizeof(*t));
	struct mt_err err = {0};
	int code;

	if (!t)
		return -ENOMEM;
	code = mt_live_state_of(w->pid, &t->path, &err);
	if (code || !t->path)
		return code;
	code = mt_mtk_watch(t->path, MT_MTK_WATCH_SITES, &t->before, &err);
	if (code == -ENOMEM)
		return code;
	if (code)
		refuse(f, err.text);
	else
		f->tracker.step = MT_TRIAGE_DONE;
	*ret = t;
	t = NULL;
	return 0;
}

const char *mt_triage_tracked_path(const struct mt_triage_tracked *t)
{
	return t ? t->path : NULL;
}

/* ---- sites ---- */

struct grown {
	uint32_t site;
	int64_t bytes, blocks; /* growth */
};

static int compare_grown(const void *a, const void *b)
{
	const struct grown *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return x->site < y->site ? -1 : x->site > y->site;
}

static struct grown growth_of(const struct mt_watch *before, const struct mt_watch *now,
			      uint32_t site)
{
	struct mt_watch_counts none = {0};
	const struct mt_watch_counts *old =
		site < before->site_count ? &before->site[site].counts : &none;
	const struct mt_watch_counts *new = &now->site[site].counts;

	return (struct grown){site, mt_watch_live_bytes(new) - mt_watch_live_bytes(old),
			      mt_watch_live_blocks(new) - mt_watch_live_blocks(old)};
}

static void name_site(struct mt_triage_site *s, const struct mt_site_name *name, uint32_t site)
{
	if (!name)
		snprintf(s->name, sizeof(s->name), "call site %u", (unsigned)site);
	else
		snprintf(s->name, sizeof(s->name), "%.60s%s%.60s, %.20s", name->function,
			 name->place[0] ? "  " : "", name->place, name->call);
}

static void add_sites(struct mt_triage_facts *f, const struct mt_watch *now,
		      const struct grown *grown, uint32_t count, const struct mt_site_names *names)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct mt_watch_site *s = &now->site[grown[i].site];

		f->tracker.site[i] = (struct mt_triage_site){
			.growth_bytes = grown[i].bytes,
			.growth_blocks = grown[i].blocks,
			.live_bytes = mt_watch_live_bytes(&s->counts),
			.live_blocks = mt_watch_live_blocks(&s->counts),
			.is_estimate = s->is_estimate,
		};
		name_site(&f->tracker.site[i], mt_site_names_get(names, grown[i].site),
			  grown[i].site);
	}
	f->tracker.sites = count;
}

static int find_sites(const struct mt_triage_tracked *t, const struct mt_triage_watch *w,
		      const struct mt_watch *now, struct mt_triage_facts *f)
{
	mt_auto(free) struct grown *grown = mt_alloc_zero(now->site_count + 1u, sizeof(*grown));
	mt_auto(mt_site_names) struct mt_site_names names = {0};
	uint32_t wanted[MT_TRIAGE_SITES_MAX], count = 0, kept = 0;
	struct mt_site_naming how = {
		.site = wanted, .no_symbols = w->no_symbols, .limit_ns = NAMES_NS};

	if (!grown)
		return -ENOMEM;
	for (uint32_t i = 1; i < now->site_count; i++) {
		grown[count] = growth_of(&t->before, now, i);
		count += grown[count].bytes > 0;
	}
	qsort(grown, count, sizeof(*grown), compare_grown);
	for (; kept < MT_MIN(count, (uint32_t)MT_TRIAGE_SITES_MAX); kept++)
		wanted[kept] = grown[kept].site;
	how.count = kept;
	if (kept && mt_site_names_add(&names, t->path, &how) == -ENOMEM)
		return -ENOMEM;
	add_sites(f, now, grown, kept, &names);
	return 0;
}

int mt_triage_tracked_end(struct mt_triage_tracked *t, const struct mt_triage_watch *w,
			  struct mt_triage_facts *f)
{
	mt_auto(mt_watch) struct mt_watch now = {0};
	struct mt_err err = {0};
	int code;

	if (!t || f->tracker.step != MT_TRIAGE_DONE)
		return 0;
	code = mt_mtk_watch(t->path, MT_MTK_WATCH_SITES, &now, &err);
	if (code)
		return code == -ENOMEM ? code : refuse(f, err.text);
	if (!mt_watch_is_same(&t->before, &now))
		return refuse(f, "the process became another program meanwhile");
	snprintf(f->tracker.mode, sizeof(f->tracker.mode), "%s",
		 now.is_recording ? mt_words_mode(now.mode) : "off");
	f->tracker.has_sites = now.is_recording && now.mode != MT_MODE_STATS;
	f->tracker.live_before_bytes = t->before.live_bytes;
	f->tracker.live_bytes = now.live_bytes;
	for (size_t i = 0; i < MT_WATCH_ERRORS; i++)
		f->tracker.errors += now.errors[i];
	return find_sites(t, w, &now, f);
}
