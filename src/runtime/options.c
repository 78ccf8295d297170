/* SPDX-License-Identifier: MIT */
/* Reads the environment into struct mt_options. Runs once, before the first event; no libc. */
#include "runtime/options.h"

#include "core/fmt.h"
#include "core/mem.h"
#include "core/sys.h"
#include "elf/loader.h"
#include "runtime/sampler.h"
#include "wire/state.h"
#include "wire/stream.h"

enum {
	MAX_BYTES_LEAST = 1 << 20,
	EVERY_MAX = 65536,
	ON_FULL_WAIT_NS = 100000000,
	RECORD_BUFFERS = 64 << 20,
	RECORD_BUFFERS_LEAST = 256 << 10,
	RECORD_BUFFERS_MOST = 1 << 30,
	GUARD_SLOTS = 64, /* without a number */
	GUARD_SLOTS_MAX = 1024,
	CHECK_SIGNALS = 45,       /* Android's */
	CHECK_SIGNALS_FIRST = 34, /* the C libraries' own end there */
	CHECK_SIGNALS_LAST = 59,
	PROFILE_RATE_S = 60,
	PROFILE_RATE_MAX_S = 86400,
};

struct word {
	const char *at;
	size_t len;
};

static int word_is(struct word w, const char *s)
{
	return mt_str_len(s) == w.len && mt_mem_equal(w.at, s, w.len);
}

static int copy_word(char *to, size_t bytes, struct word w)
{
	if (w.len >= bytes)
		return -MT_EINVAL;
	mt_mem_copy(to, w.at, w.len);
	to[w.len] = 0;
	return 0;
}

/* Number with an optional K, M or G (1024). */
static int parse_size(struct word w, uint64_t *ret_value)
{
	const char *s = w.at, *end = w.at + w.len;
	uint64_t v, scale = 1;
	if (!w.len || mt_fmt_parse_u64(&s, &v))
		return -MT_EINVAL;
	if (s < end) {
		scale = *s == 'K' ? 1024 : *s == 'M' ? 1 << 20 : *s == 'G' ? 1 << 30 : 0;
		s++;
	}
	if (!scale || s != end || __builtin_mul_overflow(v, scale, &v))
		return -MT_EINVAL;
	*ret_value = v;
	return 0;
}

static int parse_heaps(struct word w, uint32_t *ret_heaps)
{
	static const char *const name[] = {"malloc", "mmap", "brk", "custom"};
	uint32_t heaps = 0;
	if (word_is(w, "all")) {
		*ret_heaps = 15;
		return 0;
	}
	while (w.len) {
		struct word item = {w.at, 0};
		uint32_t i = 0;
		while (item.len < w.len && item.at[item.len] != ',')
			item.len++;
		while (i < MT_ARRAY_LEN(name) && !word_is(item, name[i]))
			i++;
		if (i == MT_ARRAY_LEN(name))
			return -MT_EINVAL;
		heaps |= 1u << i;
		item.len += item.len < w.len;
		w.at += item.len;
		w.len -= item.len;
	}
	*ret_heaps = heaps;
	return heaps ? 0 : -MT_EINVAL;
}

static int read_mode(struct word w, uint32_t *ret_mode)
{
	static const struct {
		const char *name;
		uint32_t mode;
	} modes[] = {
		{"full", MT_MODE_FULL},     {"stats", MT_MODE_STATS}, {"sample", MT_MODE_SAMPLE},
		{"record", MT_MODE_RECORD}, {"check", MT_MODE_CHECK},
	};
	for (size_t i = 0; i < MT_ARRAY_LEN(modes); i++)
		if (word_is(w, modes[i].name)) {
			*ret_mode = modes[i].mode;
			return 0;
		}
	return -MT_EINVAL;
}

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A label, in which %xx stands for any byte: words have no blanks. */
static int read_label(struct word w, char *to, size_t bytes)
{
	size_t n = 0;
	for (size_t i = 0; i < w.len; i++) {
		int c = (uint8_t)w.at[i];
		if (c == '%') {
			int high = i + 2 < w.len ? hex_digit(w.at[i + 1]) : -1;
			int low = high >= 0 ? hex_digit(w.at[i + 2]) : -1;
			if (high < 0 || low < 0 || !(high | low))
				return -MT_EINVAL;
			c = high << 4 | low;
			i += 2;
		}
		if (n + 1 >= bytes)
			return -MT_EINVAL;
		to[n++] = (char)c;
	}
	to[n] = 0;
	return 0;
}

/* +GLOB and -GLOB, separated by commas. */
static int read_modules(struct word w, char *to, size_t bytes)
{
	for (size_t i = 0; i < w.len; i++)
		if (!i || w.at[i - 1] == ',')
			if ((w.at[i] != '+' && w.at[i] != '-') || i + 1 == w.len ||
			    w.at[i + 1] == ',')
				return -MT_EINVAL;
	return copy_word(to, bytes, w);
}

static int parse_interval(struct word w, uint64_t *ret_bytes)
{
	uint64_t v;
	if (parse_size(w, &v) || v < 1 || v > MT_INTERVAL_MAX)
		return -MT_EINVAL;
	*ret_bytes = v;
	return 0;
}

/* FROM-TO or FROM- */
static int parse_range(struct word w, struct mt_interval_of *ret_range)
{
	struct word from = {w.at, 0}, to;
	while (from.len < w.len && w.at[from.len] != '-')
		from.len++;
	if (from.len == w.len)
		return -MT_EINVAL;
	to = (struct word){w.at + from.len + 1, w.len - from.len - 1};
	ret_range->to = UINT64_MAX;
	if (parse_size(from, &ret_range->from) || (to.len && parse_size(to, &ret_range->to)))
		return -MT_EINVAL;
	return ret_range->from <= ret_range->to ? 0 : -MT_EINVAL;
}

/* Whether a size is in one of the ranges already: which interval is meant? */
static int overlaps(const struct mt_wishes *wishes, const struct mt_interval_of *r)
{
	for (uint32_t i = 0; i < wishes->range_count; i++)
		if (r->from <= wishes->range[i].to && wishes->range[i].from <= r->to)
			return 1;
	return 0;
}

/* WHAT:SIZE, WHAT being custom or a range of sizes. */
static int add_interval(struct mt_wishes *wishes, struct word w)
{
	struct mt_interval_of r;
	struct word what = {w.at, 0}, size;
	while (what.len < w.len && w.at[what.len] != ':')
		what.len++;
	if (what.len == w.len)
		return -MT_EINVAL;
	size = (struct word){w.at + what.len + 1, w.len - what.len - 1};
	if (parse_interval(size, &r.interval_bytes))
		return -MT_EINVAL;
	if (word_is(what, "custom")) {
		wishes->custom_interval_bytes = r.interval_bytes;
		return 0;
	}
	if (wishes->range_count == MT_RANGES_MAX || parse_range(what, &r) || overlaps(wishes, &r))
		return -MT_EINVAL;
	wishes->range[wishes->range_count++] = r;
	return 0;
}

/* A list replaces the one before; an empty one ends it. */
static int read_intervals(struct mt_wishes *wishes, struct word w)
{
	wishes->range_count = 0;
	wishes->custom_interval_bytes = 0;
	while (w.len) {
		struct word item = {w.at, 0};
		while (item.len < w.len && item.at[item.len] != ',')
			item.len++;
		if (add_interval(wishes, item))
			return -MT_EINVAL;
		item.len += item.len < w.len;
		w.at += item.len;
		w.len -= item.len;
	}
	return 0;
}

/* 1: understood, 0: no word of this kind, -EINVAL. */
static int set_wish(struct mt_wishes *wishes, struct word name, struct word value)
{
	uint64_t v;
	if (word_is(name, "mode")) {
		if (read_mode(value, &wishes->mode))
			return -MT_EINVAL;
	} else if (word_is(name, "interval")) {
		if (parse_interval(value, &wishes->interval_bytes))
			return -MT_EINVAL;
		wishes->every = 0;
	} else if (word_is(name, "intervals")) {
		if (read_intervals(wishes, value))
			return -MT_EINVAL;
	} else if (word_is(name, "every")) {
		if (parse_size(value, &v) || v < 1 || v > EVERY_MAX)
			return -MT_EINVAL;
		wishes->every = (uint32_t)v;
	} else if (word_is(name, "label")) {
		if (read_label(value, wishes->label, sizeof(wishes->label)))
			return -MT_EINVAL;
	} else if (word_is(name, "modules")) {
		if (read_modules(value, wishes->modules, sizeof(wishes->modules)))
			return -MT_EINVAL;
	} else {
		return 0;
	}
	return 1;
}

/* Nanoseconds: a number with ms or s. */
static int parse_time(struct word w, uint64_t *ret_ns)
{
	const char *s = w.at;
	uint64_t v, scale;
	struct word unit;
	if (!w.len || mt_fmt_parse_u64(&s, &v))
		return -MT_EINVAL;
	unit = (struct word){s, (size_t)(w.at + w.len - s)};
	scale = word_is(unit, "ms") ? 1000000 : word_is(unit, "s") ? 1000000000 : 0;
	return !scale || __builtin_mul_overflow(v, scale, ret_ns) ? -MT_EINVAL : 0;
}

/* drop, wait, wait:TIME */
static int parse_on_full(struct word w, struct mt_options *o)
{
	o->on_full = MT_ON_FULL_WAIT;
	o->wait_ns = ON_FULL_WAIT_NS;
	if (word_is(w, "wait"))
		return 0;
	if (w.len > 5 && mt_mem_equal(w.at, "wait:", 5))
		return parse_time((struct word){w.at + 5, w.len - 5}, &o->wait_ns);
	o->on_full = MT_ON_FULL_DROP;
	return word_is(w, "drop") ? 0 : -MT_EINVAL;
}

/* Options of recording mode. */
static int set_record_option(struct mt_options *o, struct word name, struct word value)
{
	if (word_is(name, "on-full"))
		return parse_on_full(value, o);
	if (word_is(name, "record-limit"))
		return parse_size(value, &o->record_limit);
	if (word_is(name, "record-keep")) {
		o->record_keep = word_is(value, "last") ? MT_KEEP_LAST : 0;
		return o->record_keep || word_is(value, "first") ? 0 : -MT_EINVAL;
	}
	if (word_is(name, "record-buffers")) {
		int err = parse_size(value, &o->record_buffers);
		return err || o->record_buffers < RECORD_BUFFERS_LEAST ||
				       o->record_buffers > RECORD_BUFFERS_MOST
			       ? -MT_EINVAL
			       : 0;
	}
	return -MT_EINVAL;
}

/* The number of the value among words, or -EINVAL. */
static int word_among(struct word value, const char *const *words, int count)
{
	for (int i = 0; i < count; i++)
		if (word_is(value, words[i]))
			return i;
	return -MT_EINVAL;
}

/* 1: understood, 0: no word of this kind, -EINVAL. */
static int set_guard(struct mt_options *o, struct word name, struct word value)
{
	static const char *const sides[] = {"either", "end", "start"};
	static const char *const fates[] = {"continue", "die"};
	uint64_t slots = GUARD_SLOTS;
	int choice;
	if (word_is(name, "guard-sampled")) {
		if (value.len && parse_size(value, &slots))
			return -MT_EINVAL;
		if (slots < 1 || slots > GUARD_SLOTS_MAX)
			return -MT_EINVAL;
		o->guard_slots = (uint32_t)slots;
	} else if (word_is(name, "guard-side")) {
		choice = word_among(value, sides, MT_ARRAY_LEN(sides));
		if (choice < 0)
			return choice;
		o->guard_side = (uint32_t)choice;
	} else if (word_is(name, "on-error")) {
		choice = word_among(value, fates, MT_ARRAY_LEN(fates));
		if (choice < 0)
			return choice;
		o->guard_fatal = (uint32_t)choice;
	} else {
		return 0;
	}
	return 1;
}

/* The same for where check mode's signals begin. */
static int set_check(struct mt_options *o, struct word name, struct word value)
{
	uint64_t v = 0;
	if (!word_is(name, "check-signals"))
		return 0;
	if (!word_is(value, "none") &&
	    (parse_size(value, &v) || v < CHECK_SIGNALS_FIRST || v > CHECK_SIGNALS_LAST))
		return -MT_EINVAL;
	o->check_signals = (uint32_t)v;
	return 1;
}

static int parse_lost(struct word value, uint32_t *ret_lost)
{
	static const char *const words[] = {
		[MT_LOST_BLOCKS_NONE] = "none",
		[MT_LOST_BLOCKS_MAIN] = "main",
		[MT_LOST_BLOCKS_ALL] = "all",
	};
	for (uint32_t i = 0; i < MT_ARRAY_LEN(words); i++)
		if (word_is(value, words[i])) {
			*ret_lost = i;
			return 0;
		}
	return -MT_EINVAL;
}

static int set_option(struct mt_options *o, struct word name, struct word value)
{
	uint64_t v = 0;
	int err = set_wish(&o->wishes, name, value);
	if (!err)
		err = set_guard(o, name, value);
	if (!err)
		err = set_check(o, name, value);
	if (err)
		return err < 0 ? err : 0;
	if (word_is(name, "depth")) {
		err = parse_size(value, &v);
		if (!err && (v < 1 || v > 256))
			err = -MT_EINVAL;
		o->depth = (uint32_t)v;
	} else if (word_is(name, "verify")) {
		err = parse_size(value, &v);
		if (!err && (v < 1 || v > UINT32_MAX))
			err = -MT_EINVAL;
		o->verify = (uint32_t)v;
	} else if (word_is(name, "valgrind")) {
		if (!word_is(value, "track") && !word_is(value, "off"))
			err = -MT_EINVAL;
		o->in_valgrind = word_is(value, "track");
	} else if (word_is(name, "follow")) {
		if (!word_is(value, "all") && !word_is(value, "none"))
			err = -MT_EINVAL;
		o->follow = word_is(value, "all");
	} else if (word_is(name, "lost")) {
		err = parse_lost(value, &o->lost);
	} else if (word_is(name, "looker")) {
		err = parse_size(value, &v);
		o->looker_pid = (uint32_t)v;
	} else if (word_is(name, "heaps")) {
		err = parse_heaps(value, &o->heaps);
	} else if (word_is(name, "min-size")) {
		err = parse_size(value, &o->min_size);
	} else if (word_is(name, "max-size")) {
		err = parse_size(value, &o->max_size);
	} else if (word_is(name, "max-overhead")) {
		err = parse_size(value, &o->max_bytes);
		if (!err && o->max_bytes < MAX_BYTES_LEAST) /* the first tables need this much */
			err = -MT_EINVAL;
	} else if (word_is(name, "leak-threshold")) {
		err = parse_size(value, &o->leak_threshold);
	} else if (word_is(name, "max-cpu")) {
		err = parse_size(value, &o->max_cpu_percent);
		if (!err && (o->max_cpu_percent < 1 || o->max_cpu_percent > 100))
			err = -MT_EINVAL;
	} else if (word_is(name, "min-anon")) {
		err = parse_size(value, &o->min_anon_bytes);
	} else if (word_is(name, "profile-rate")) {
		err = parse_size(value, &v);
		if (!err && v > PROFILE_RATE_MAX_S)
			err = -MT_EINVAL;
		o->profile_rate_s = (uint32_t)v;
	} else if (word_is(name, "output")) {
		err = value.len ? copy_word(o->output, sizeof(o->output), value) : -MT_EINVAL;
	} else {
		err = set_record_option(o, name, value);
	}
	return err;
}

static int is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n';
}

/* The next word of a text and its halves around '='; 0 at the end. */
static int next_word(const char **text, struct word *ret_all, struct word *ret_name,
		     struct word *ret_value)
{
	const char *s = *text;
	while (is_blank(*s))
		s++;
	ret_all->at = ret_name->at = s;
	while (*s && *s != '=' && !is_blank(*s))
		s++;
	ret_name->len = (size_t)(s - ret_name->at);
	if (*s == '=')
		s++;
	ret_value->at = s;
	while (*s && !is_blank(*s))
		s++;
	ret_value->len = (size_t)(s - ret_value->at);
	ret_all->len = (size_t)(s - ret_all->at);
	*text = s;
	return ret_all->len != 0;
}

static int read_words(const char *s, struct mt_options *o, struct word *ret_bad)
{
	struct word all, name, value;
	while (next_word(&s, &all, &name, &value))
		if (set_option(o, name, value)) {
			*ret_bad = all;
			return -MT_EINVAL;
		}
	return 0;
}

static int set_request(struct mt_wishes *wishes, struct word all, struct word name,
		       struct word value)
{
	if (word_is(all, "on"))
		wishes->switch_to = MT_SWITCH_ON;
	else if (word_is(all, "off"))
		wishes->switch_to = MT_SWITCH_OFF;
	else if (word_is(all, "reset-peak"))
		wishes->reset_peak = 1;
	else if (set_wish(wishes, name, value) <= 0)
		return -MT_EINVAL;
	return 0;
}

int mt_wishes_read(const char *text, struct mt_wishes *wishes)
{
	struct word all, name, value;
	uint32_t before = wishes->mode;
	wishes->switch_to = MT_SWITCH_KEEP;
	wishes->reset_peak = 0;
	while (next_word(&text, &all, &name, &value))
		if (set_request(wishes, all, name, value))
			return -MT_EINVAL;
	/* check mode is for the whole life of a process: its blocks have headers */
	int goes_or_comes = wishes->mode == MT_MODE_CHECK || before == MT_MODE_CHECK;
	return goes_or_comes && wishes->mode != before ? -MT_EINVAL : 0;
}

/* MEMTRACK_MODE */
static int read_mode_word(const char *s, struct mt_options *o)
{
	struct word w = {s, mt_str_len(s)};
	o->exit_report = mt_str_equal(s, "leak_report");
	if (o->exit_report)
		return 0;
	if (!read_mode(w, &o->wishes.mode))
		return 0;
	o->wishes.mode = MT_MODE_OFF;
	return mt_str_equal(s, "off") ? 0 : -MT_EINVAL;
}

void mt_options_directory(char **envp, char *ret_path, size_t bytes)
{
	char cwd[MT_PATH_MAX];
	const char *dir = mt_loader_env(envp, "MEMTRACK_DIR");
	struct mt_fmt f;
	long n = mt_sys2(__NR_getcwd, cwd, sizeof(cwd));
	if (n <= 0 || cwd[0] != '/')
		cwd[0] = 0;
	if (!dir && cwd[0] && mt_sys_access(cwd, 2) == 0)
		dir = cwd;
	if (!dir || !*dir)
		dir = mt_loader_env(envp, "TMPDIR");
	if (!dir || !*dir)
		dir = "/tmp";
	mt_fmt_init(&f, ret_path, bytes);
	if (*dir != '/') {
		mt_fmt_str(&f, cwd);
		mt_fmt_str(&f, "/");
	}
	mt_fmt_str(&f, dir);
}

/* Where finished files go when no launcher says so. */
static void choose_output(char **envp, struct mt_options *o)
{
	static const char name[] = "/memtrack.%e.%p.mtk";
	struct mt_fmt f;
	mt_options_directory(envp, o->output, sizeof(o->output) - sizeof(name));
	mt_fmt_init(&f, o->output + mt_str_len(o->output), sizeof(name));
	mt_fmt_str(&f, name);
}

static void complain(char *error, size_t bytes, const char *what, struct word w)
{
	char copy[128];
	struct mt_fmt f;
	w.len = MT_MIN(w.len, sizeof(copy) - 1);
	mt_mem_copy(copy, w.at, w.len);
	copy[w.len] = 0;
	mt_fmt_init(&f, error, bytes);
	mt_fmt_str(&f, "memtrack: cannot understand '");
	mt_fmt_str(&f, copy);
	mt_fmt_str(&f, "' in ");
	mt_fmt_str(&f, what);
	mt_fmt_str(&f, ": nothing is tracked\n");
}

static void describe_intervals(const struct mt_wishes *w, struct mt_fmt *f)
{
	const char *before = " intervals=";
	for (uint32_t i = 0; i < w->range_count; i++, before = ",") {
		const struct mt_interval_of *r = &w->range[i];
		mt_fmt_str(f, before);
		mt_fmt_u64(f, r->from);
		mt_fmt_str(f, "-");
		if (r->to != UINT64_MAX)
			mt_fmt_u64(f, r->to);
		mt_fmt_str(f, ":");
		mt_fmt_u64(f, r->interval_bytes);
	}
	if (w->custom_interval_bytes) {
		mt_fmt_str(f, before);
		mt_fmt_str(f, "custom:");
		mt_fmt_u64(f, w->custom_interval_bytes);
	}
}

static void describe_wishes(const struct mt_wishes *w, struct mt_fmt *f)
{
	if (w->mode == MT_MODE_SAMPLE && w->every) {
		mt_fmt_str(f, " every=");
		mt_fmt_u64(f, w->every);
	} else if (w->mode == MT_MODE_SAMPLE) {
		mt_fmt_str(f, " interval=");
		mt_fmt_u64(f, w->interval_bytes);
	}
	if (w->mode == MT_MODE_SAMPLE && (w->range_count || w->custom_interval_bytes))
		describe_intervals(w, f);
	if (w->modules[0]) {
		mt_fmt_str(f, " modules=");
		mt_fmt_str(f, w->modules);
	}
}

static void describe(struct mt_options *o)
{
	struct mt_fmt f;
	mt_fmt_init(&f, o->text, sizeof(o->text));
	mt_fmt_str(&f, "depth=");
	mt_fmt_u64(&f, o->depth);
	mt_fmt_str(&f, o->follow ? " follow=all" : " follow=none");
	if (o->verify) {
		mt_fmt_str(&f, " verify=");
		mt_fmt_u64(&f, o->verify);
	}
	describe_wishes(&o->wishes, &f);
	if (o->min_size) {
		mt_fmt_str(&f, " min-size=");
		mt_fmt_u64(&f, o->min_size);
	}
	if (o->max_cpu_percent) {
		mt_fmt_str(&f, " max-cpu=");
		mt_fmt_u64(&f, o->max_cpu_percent);
	}
	if (o->min_anon_bytes) {
		mt_fmt_str(&f, " min-anon=");
		mt_fmt_u64(&f, o->min_anon_bytes);
	}
	if (o->guard_slots) {
		mt_fmt_str(&f, " guard-sampled=");
		mt_fmt_u64(&f, o->guard_slots);
		mt_fmt_str(&f, o->guard_fatal ? " on-error=die" : " on-error=continue");
	}
	if (o->max_size != UINT64_MAX) {
		mt_fmt_str(&f, " max-size=");
		mt_fmt_u64(&f, o->max_size);
	}
	if (o->lost)
		mt_fmt_str(&f, o->lost == MT_LOST_BLOCKS_ALL ? " lost=all" : " lost=main");
	if (o->heaps != 15) {
		mt_fmt_str(&f, " heaps=");
		mt_fmt_str(&f, o->heaps & 1 ? "malloc," : "");
		mt_fmt_str(&f, o->heaps & 2 ? "mmap," : "");
		mt_fmt_str(&f, o->heaps & 4 ? "brk," : "");
		mt_fmt_str(&f, o->heaps & 8 ? "custom," : "");
		f.at[-1] = 0;
	}
}

int mt_options_read(char **envp, struct mt_options *ret_options, char *error, size_t bytes)
{
	struct mt_options *o = ret_options;
	const char *mode = mt_loader_env(envp, "MEMTRACK_MODE");
	const char *words = mt_loader_env(envp, "MEMTRACK_OPTIONS");
	const char *dir = mt_loader_env(envp, "MEMTRACK_STATE_DIR");
	const char *launcher = mt_loader_env(envp, "MEMTRACK_LAUNCHER");
	struct word bad;
	uint64_t v;

	mt_mem_zero(o, sizeof(*o));
	o->wishes.mode = MT_MODE_FULL;
	o->wishes.interval_bytes = 512 << 10;
	o->depth = 64;
	o->follow = 1;
	o->heaps = 15;
	o->max_size = UINT64_MAX;
	o->leak_threshold = 4096;
	o->record_buffers = RECORD_BUFFERS;
	o->profile_rate_s = PROFILE_RATE_S;
	o->check_signals = CHECK_SIGNALS;
	if (mode && *mode && read_mode_word(mode, o)) {
		complain(error, bytes, "MEMTRACK_MODE", (struct word){mode, mt_str_len(mode)});
		return -MT_EINVAL;
	}
	if (words && read_words(words, o, &bad)) {
		complain(error, bytes, "MEMTRACK_OPTIONS", bad);
		return -MT_EINVAL;
	}
	if (!(o->heaps & 1))
		o->min_size = UINT64_MAX; /* the malloc heap is counted, not recorded */
	if (dir && mt_str_len(dir) < sizeof(o->state_dir))
		mt_mem_copy(o->state_dir, dir, mt_str_len(dir) + 1);
	if (launcher && !mt_fmt_parse_u64(&launcher, &v))
		o->launcher_pid = (uint32_t)v;
	if (!o->output[0])
		choose_output(envp, o);
	describe(o);
	return 0;
}
