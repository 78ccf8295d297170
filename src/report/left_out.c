/* SPDX-License-Identifier: MIT */
/* Which filters and guard rails kept samples out of call sites. */
#include "report/left_out.h"

#include "analysis/names.h"
#include "base/buf.h"
#include "base/units.h"
#include "core/cc.h"
#include "model/profile.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { CHANGE_MODE = 1, MODE_SAMPLE = 3 }; /* numbers of the state file */

static bool is_sampling(uint64_t mode)
{
	return mode == MODE_SAMPLE;
}

/* The text of the option NAME= of the start, up to a blank, or NULL. */
static const char *option(const struct mt_profile *p, const char *name)
{
	const char *s = p->options;
	size_t len = strlen(name);

	while (s && *s) {
		if (!strncmp(s, name, len) && s[len] == '=')
			return s + len + 1;
		s = strchr(s, ' ');
		s += s != NULL;
	}
	return NULL;
}

static uint64_t option_bytes(const struct mt_profile *p, const char *name)
{
	const char *text = option(p, name);

	return text ? strtoull(text, NULL, 10) : 0;
}

struct left_out {
	uint64_t by_size, by_module;
	uint64_t min_anon_bytes; /* 0: not asked for */
	bool is_sampled;         /* it had that much, ... */
	uint64_t since_ns;       /* ... from then on */
};

static struct left_out find_left_out(const struct mt_profile *p)
{
	struct left_out l = {.min_anon_bytes = p->stats ? option_bytes(p, "min-anon") : 0};

	for (uint32_t i = 1; p->stats && i < p->thread_count; i++) {
		l.by_size += p->stats[i].left_by_size;
		l.by_module += p->stats[i].left_by_module;
	}
	for (uint32_t i = 0; i < p->change_count && !l.is_sampled; i++)
		if (p->change[i].what == CHANGE_MODE && is_sampling(p->change[i].after)) {
			l.is_sampled = true;
			l.since_ns = p->change[i].ns;
		}
	if (!is_sampling(p->first_mode) || (!l.is_sampled && is_sampling(p->mode)))
		l.min_anon_bytes = 0; /* other modes do not wait, or it never had to */
	return l;
}

/* "--min-size=1.0 KiB and --max-size=4.0 KiB leave" */
static void add_size_options(struct mt_buf *out, const struct mt_profile *p)
{
	static const char *const names[] = {"min-size", "max-size"};
	char size[MT_UNITS_TEXT_MAX];
	uint32_t count = 0;

	if (option(p, "heaps")) {
		const char *heaps = option(p, "heaps");

		mt_buf_printf(out, "--heaps=%.*s", (int)strcspn(heaps, " "), heaps);
		count++;
	}
	for (uint32_t i = 0; i < MT_ARRAY_LEN(names); i++)
		if (option(p, names[i]))
			mt_buf_printf(out, "%s--%s=%s", count++ ? " and " : "", names[i],
				      mt_units_size(option_bytes(p, names[i]), size));
	mt_buf_adds(out, !count ? "the range of sizes leaves" : count == 1 ? " leaves" : " leave");
}

/* The filter of modules that was in force last. */
static void add_module_option(struct mt_buf *out, const struct mt_profile *p)
{
	const char *text = option(p, "modules");

	mt_buf_adds(out, "the filter of modules ");
	if (text)
		mt_buf_printf(out, "'%.*s' ", (int)strcspn(text, " "), text);
	mt_buf_adds(out, "leaves");
}

struct speaker {
	void (*emit)(void *context, const char *sentence);
	void *context;
	struct mt_buf text;
};

static void begin(struct speaker *s, const struct mt_report *r, const struct mt_profile *p)
{
	if (r->profile_count > 1)
		mt_buf_printf(&s->text, "process %" PRId32 ": ", p->pid);
}

static void say(struct speaker *s)
{
	s->emit(s->context, mt_buf_text(&s->text));
	mt_buf_done(&s->text);
}

static void say_left(struct speaker *s, const struct mt_report *r, const struct mt_profile *p,
		     uint64_t samples,
		     void (*add_option)(struct mt_buf *, const struct mt_profile *))
{
	char count[MT_UNITS_TEXT_MAX];

	if (!samples)
		return;
	begin(s, r, p);
	add_option(&s->text, p);
	mt_buf_printf(&s->text, " %s %s out: they are in the totals, and in no call site",
		      mt_units_count(samples, count), samples == 1 ? "sample" : "samples");
	say(s);
}

static void say_min_anon(struct speaker *s, const struct mt_report *r, const struct mt_profile *p,
			 const struct left_out *l)
{
	char size[MT_UNITS_TEXT_MAX], time[MT_UNITS_TEXT_MAX];

	if (!l->min_anon_bytes)
		return;
	begin(s, r, p);
	mt_units_size(l->min_anon_bytes, size);
	if (l->is_sampled)
		mt_buf_printf(&s->text,
			      "it was only counted until it had %s of anonymous memory "
			      "(--min-anon), for %s: no call site is known of what it allocated "
			      "before",
			      size, mt_units_time(l->since_ns, time));
	else
		mt_buf_printf(&s->text,
			      "it %s only counted: no look at it, one in some 50 ms, found %s "
			      "of anonymous memory (--min-anon)",
			      p->process_alive ? "is so far" : "was", size);
	say(s);
}

void mt_left_out_sentences(const struct mt_report *r,
			   void (*emit)(void *context, const char *sentence), void *context)
{
	struct speaker s = {.emit = emit, .context = context};

	for (uint32_t i = 0; i < r->profile_count; i++) {
		const struct mt_profile *p = r->profiles[i];
		struct left_out l = find_left_out(p);

		say_left(&s, r, p, l.by_size, add_size_options);
		say_left(&s, r, p, l.by_module, add_module_option);
		say_min_anon(&s, r, p, &l);
	}
}

/* ---- JSON ---- */

static void begin_filter(struct mt_json *j, const struct mt_profile *p, const char *what)
{
	mt_json_open(j, NULL, '{');
	mt_json_i64(j, "pid", p->pid);
	mt_json_string(j, "what", what);
}

static void add_filter_text(struct mt_json *j, const struct mt_profile *p, const char *name)
{
	const char *text = option(p, name);
	struct mt_buf copy = {0};

	if (!text)
		return;
	mt_buf_add(&copy, text, strcspn(text, " "));
	mt_json_string(j, name, mt_buf_text(&copy));
	mt_buf_done(&copy);
}

/* Each that acted. */
static void add_filters_of(struct mt_json *j, const struct mt_profile *p)
{
	struct left_out l = find_left_out(p);

	if (l.by_size) {
		begin_filter(j, p, "size");
		add_filter_text(j, p, "min-size");
		add_filter_text(j, p, "max-size");
		add_filter_text(j, p, "heaps");
		mt_json_u64(j, "samples", l.by_size);
		mt_json_close(j, '}');
	}
	if (l.by_module) {
		begin_filter(j, p, "modules");
		add_filter_text(j, p, "modules");
		mt_json_u64(j, "samples", l.by_module);
		mt_json_close(j, '}');
	}
	if (l.min_anon_bytes) {
		begin_filter(j, p, "min-anon");
		mt_json_u64(j, "bytes", l.min_anon_bytes);
		if (l.is_sampled)
			mt_json_u64(j, "until_ns", l.since_ns);
		else
			mt_json_null(j, "until_ns");
		mt_json_close(j, '}');
	}
}

void mt_left_out_json(struct mt_json *j, const struct mt_report *r)
{
	mt_json_open(j, "filters", '[');
	for (uint32_t i = 0; i < r->profile_count; i++)
		add_filters_of(j, r->profiles[i]);
	mt_json_close(j, ']');
}
