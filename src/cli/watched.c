/* SPDX-License-Identifier: MIT */
/* A process is known by its state file's path; what was known of it stays while it is there. */

#include "cli/watched.h"

#include "analysis/callstack.h"
#include "base/alloc.h"
#include "base/path.h"
#include "cli/find.h"
#include "cli/load.h"
#include "core/sys.h"
#include "formats/mtk_read.h"
#include "formats/mtk_watch.h"
#include "symbolize/symbolize.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { NAMES_MAX = 4096 };

/* ---- names ---- */

static void free_strings(struct mt_site_name *name)
{
	free(name->function);
	free(name->place);
	free(name->caller);
	*name = (struct mt_site_name){0};
}

void mt_site_names_done(struct mt_site_names *n)
{
	if (!n)
		return;
	for (size_t i = 0; i < n->count; i++)
		free_strings(&n->item[i]);
	free(n->item);
	mt_map_done(&n->at);
	*n = (struct mt_site_names){0};
}

const struct mt_site_name *mt_site_names_get(const struct mt_site_names *n, uint32_t site)
{
	uint64_t at;

	return mt_map_get(&n->at, site, &at) ? &n->item[at - 1] : NULL;
}

int mt_site_names_put(struct mt_site_names *n, struct mt_site_name *name)
{
	struct mt_site_name *grown;
	uint64_t at;

	if (!name->function || !name->place || !name->caller) {
		free_strings(name);
		return -ENOMEM;
	}
	if (mt_map_get(&n->at, name->site, &at)) {
		free_strings(&n->item[at - 1]);
		n->item[at - 1] = *name;
		*name = (struct mt_site_name){0};
		return 0;
	}
	grown = mt_alloc_grow(n->item, &n->capacity, n->count + 1, sizeof(*grown));
	if (grown)
		n->item = grown;
	if (!grown || mt_map_set(&n->at, name->site, n->count + 1)) {
		free_strings(name);
		return -ENOMEM;
	}
	n->item[n->count++] = *name;
	*name = (struct mt_site_name){0};
	return 0;
}

/* What naming needs together. */
struct naming {
	struct mt_profile *profile;
	struct mt_loaded loaded; /* owns the profile and its symbols */
	uint64_t *hash;
	uint64_t end_ns; /* 0: no limit */
	const volatile int *stop;
};

static void naming_done(struct naming *n)
{
	mt_loaded_done(&n->loaded);
	free(n->hash);
}
MT_AUTO_DEFINE_INPLACE(naming, struct naming, naming_done)

static bool goes_on(void *context, uint32_t done, uint32_t total)
{
	const struct naming *n = context;

	return !(n->stop && *n->stop) &&
	       (!n->end_ns || mt_sys_clock_ns(MT_CLOCK_MONOTONIC) < n->end_ns);
}

static char *text_of(const char *text)
{
	return strdup(text ? text : "");
}

/* The innermost named frame of a node, or NULL. */
static const struct mt_name *first_name(const struct naming *n, uint32_t node, struct mt_name *name)
{
	uint32_t count = mt_names_frames(&n->loaded.names, n->profile, node, name, MT_NAMES_MAX);

	return count ? name : NULL;
}

static char *function_of(const struct naming *n, uint32_t node)
{
	char text[512];

	if (!node || !n->profile->node[node].depth)
		return text_of("");
	return strdup(mt_names_function(&n->loaded.names, n->profile, node, text, sizeof(text)));
}

static char *place_of(const struct naming *n, uint32_t node)
{
	struct mt_name name[MT_NAMES_MAX];
	const struct mt_name *first = node ? first_name(n, node, name) : NULL;
	char text[512];

	if (!first || !first->file)
		return text_of("");
	snprintf(text, sizeof(text), "%s:%u", mt_path_base(first->file), first->line);
	return strdup(text);
}

/* The function behind the inlined ones and the innermost: who called it. */
static char *caller_of(const struct naming *n, uint32_t node)
{
	struct mt_name name[MT_NAMES_MAX];
	uint32_t count;

	if (!node)
		return text_of("");
	count = mt_names_frames(&n->loaded.names, n->profile, node, name, MT_NAMES_MAX);
	if (count > 1 && name[1].function)
		return strdup(name[1].function);
	return function_of(n, n->profile->node[node].parent);
}

/* Who wrote `new`: operator new of the C++ library, which calls malloc, names nobody. */
static uint32_t behind_new(const struct naming *n, uint32_t node)
{
	static const char operator_new[] = "operator new";
	struct mt_name name[MT_NAMES_MAX];

	for (;;) {
		uint32_t up = n->profile->node[node].parent;
		uint32_t count = node ? mt_names_frames(&n->loaded.names, n->profile, node, name,
							MT_NAMES_MAX)
				      : 0;

		if (count != 1 || !name[0].function || !n->profile->node[up].depth ||
		    strncmp(name[0].function, operator_new, strlen(operator_new)) != 0)
			return node;
		node = up;
	}
}

static int add_name(struct mt_site_names *to, const struct naming *n, uint32_t site)
{
	const struct mt_profile_site *s = &n->profile->site[site];
	uint32_t top = mt_callstack_top(n->profile, s->node), shown = behind_new(n, top);
	struct mt_site_name name = {
		.site = site,
		.function = function_of(n, shown),
		.place = place_of(n, shown),
		.caller = caller_of(n, shown),
		.call = mt_words_call(s->call),
		.callstack_hash = n->hash[top],
	};

	return mt_site_names_put(to, &name);
}

/* Frames that no wanted stack has lose their module: nobody then looks for their symbols. */
static int keep_wanted(const struct naming *n, const uint32_t *site, uint32_t count)
{
	struct mt_profile *p = n->profile;
	mt_auto(free) bool *is_wanted = mt_alloc_zero(p->node_count + 1u, sizeof(*is_wanted));

	if (!is_wanted)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t node = site[i] < p->site_count ? p->site[site[i]].node : 0;

		for (; p->node[node].depth && !is_wanted[node]; node = p->node[node].parent)
			is_wanted[node] = true;
	}
	for (uint32_t i = 0; i < p->node_count; i++)
		if (!is_wanted[i])
			p->node[i].module = 0;
	return 0;
}

static int find_symbols(struct naming *n, const struct mt_site_naming *how)
{
	struct mt_symbolize_options options = {.progress = goes_on, .progress_context = n};
	struct mt_symbols *symbols;
	int code;

	if (how->no_symbols)
		return 0;
	code = mt_symbolize_profile(n->profile, &options, &symbols, NULL);
	if (code)
		return code;
	mt_loaded_set_symbols(&n->loaded, 0, symbols);
	return mt_symbols_stopped(symbols) ? -EINTR : 0;
}

static int load_stacks(struct naming *n, const char *path)
{
	int code = mt_mtk_read_stacks(path, &n->profile, NULL);

	if (!code)
		code = mt_loaded_take(&n->loaded, n->profile);
	if (code)
		return code;
	n->hash = mt_callstack_hashes(n->profile, NULL);
	return n->hash ? 0 : -ENOMEM;
}

int mt_site_names_add(struct mt_site_names *names, const char *path,
		      const struct mt_site_naming *how)
{
	mt_auto(naming) struct naming n = {.stop = how->stop};
	mt_auto(free) uint32_t *wanted = mt_alloc_zero(how->count + 1u, sizeof(*wanted));
	uint32_t count = 0;
	int code;

	if (!wanted)
		return -ENOMEM;
	for (uint32_t i = 0; i < how->count; i++)
		if (!mt_site_names_get(names, how->site[i]))
			wanted[count++] = how->site[i];
	if (!count)
		return 0;
	if (names->count + count > NAMES_MAX)
		mt_site_names_done(names);
	n.end_ns = how->limit_ns ? mt_sys_clock_ns(MT_CLOCK_MONOTONIC) + how->limit_ns : 0;
	code = load_stacks(&n, path);
	if (!code)
		code = keep_wanted(&n, wanted, count);
	if (!code)
		code = find_symbols(&n, how);
	for (uint32_t i = 0; i < count && !code; i++)
		if (wanted[i] < n.profile->site_count)
			code = add_name(names, &n, wanted[i]);
	return code;
}

/* ---- processes ---- */

void mt_watched_done(struct mt_watched *w)
{
	free(w->history);
	free(w->path);
	free(w->program);
	free(w->called);
	mt_watch_done(&w->now);
	mt_watch_done(&w->before);
	mt_site_names_done(&w->names);
	*w = (struct mt_watched){0};
}

void mt_watched_list_done(struct mt_watched_list *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < l->count; i++)
		mt_watched_done(&l->item[i]);
	free(l->item);
	*l = (struct mt_watched_list){0};
}

static void thin(struct mt_watched_history *h)
{
	h->count /= 2;
	for (uint32_t i = 0; i < h->count; i++) {
		h->ns[i] = h->ns[2 * i];
		h->live_bytes[i] = h->live_bytes[2 * i];
	}
	h->stride *= 2;
}

/*
 * Without memory there is no history, which nobody but a chart notices. What another program in
 * its place holds begins with that.
 */
static void remember(struct mt_watched *w, bool is_first)
{
	struct mt_watched_history *h = w->history;

	if (h && !is_first && !w->has_before)
		*h = (struct mt_watched_history){.stride = 1};
	if (!h) {
		h = w->history = mt_alloc_zero(1, sizeof(*h));
		if (!h)
			return;
		h->stride = 1;
	} else if (++h->skipped < h->stride) {
		return;
	}
	h->skipped = 0;
	if (h->count == MT_WATCHED_POINTS)
		thin(h);
	h->ns[h->count] = w->now.read_ns;
	h->live_bytes[h->count++] = w->now.live_bytes;
}

int mt_watched_read(struct mt_watched *w, unsigned what)
{
	bool is_first = !w->now.read_ns;
	struct mt_watch now = {0};
	int code = mt_mtk_watch(w->path, what, &now, NULL);

	w->is_stale = code != 0;
	if (code)
		return code;
	mt_watch_done(&w->before);
	w->has_before = w->now.read_ns && mt_watch_is_same(&w->now, &now);
	w->before = w->now;
	w->now = now;
	remember(w, is_first);
	return 0;
}

/* The item of the old list with this path, taken out of it, or a new one. */
static int take_item(struct mt_watched_list *old, const struct mt_live_state *s,
		     struct mt_watched *ret)
{
	for (size_t i = 0; i < old->count; i++)
		if (old->item[i].path && !strcmp(old->item[i].path, s->path)) {
			*ret = old->item[i];
			old->item[i] = (struct mt_watched){0};
			return 0;
		}
	*ret = (struct mt_watched){.path = strdup(s->path),
				   .program = strdup(s->program),
				   .called = strdup(s->called)};
	if (ret->path && ret->program && ret->called)
		return 0;
	mt_watched_done(ret);
	return -ENOMEM;
}

static int add_state(struct mt_watched_list *l, struct mt_watched_list *old,
		     const struct mt_live_state *s, unsigned what)
{
	struct mt_watched *grown, w;
	int code;

	if (l->count == MT_WATCHED_MAX) {
		l->left_out++;
		return 0;
	}
	grown = mt_alloc_grow(l->item, &l->capacity, l->count + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	l->item = grown;
	code = take_item(old, s, &w);
	if (code)
		return code;
	code = mt_watched_read(&w, what);
	if (!code && w.now.is_running) {
		l->item[l->count++] = w;
		return 0;
	}
	/* its launcher collects it just now, which is no fault of the file */
	l->unreadable += code && code != -ENOENT && code != -ENOMEM;
	mt_watched_done(&w);
	return code == -ENOMEM ? code : 0;
}

int mt_watched_list_find(struct mt_watched_list *l, unsigned what)
{
	mt_auto(mt_live_states) struct mt_live_states states = {0};
	mt_auto(mt_watched_list) struct mt_watched_list old = *l;
	int code = mt_live_states_find(&states);

	*l = (struct mt_watched_list){.unreadable = states.unreadable};
	for (size_t i = 0; i < states.count && !code; i++) {
		const struct mt_live_state *s = &states.item[i];
		bool is_last = i + 1 == states.count || !s[1].is_running ||
			       s[1].header.pid != s->header.pid;

		if (s->is_running && is_last)
			code = add_state(l, &old, s, what);
	}
	return code;
}
