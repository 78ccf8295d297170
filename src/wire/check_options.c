/* SPDX-License-Identifier: MIT */
/*
 * The parser of check mode's options. Grammar, order of the checks and texts are those of Android's
 * malloc debug, quirks included: "backtrace= leak_track" gives backtrace the value leak_track.
 *
 *   options := blank* ( option blank* )*
 *   option  := NAME blank* [ '=' blank* VALUE? ]
 */
#include "wire/check_options.h"

#include "core/fmt.h"
#include "core/mem.h"
#include "core/sys.h"
#include "wire/check_sites.h"

enum {
	FRAMES = 16, /* without a number */
	FRAMES_MAX = 256,
	GUARD = 32,
	GUARD_ALIGN = 16,
	BYTES_MAX = 16384,
	EXPAND = 16,
	FREED = 100,
	FREED_MAX = 16384,
	RECORDS = 8000000,
	RECORDS_MAX = 50000000,
	LINE_BYTES = 1024,
};
#define ALL UINT64_MAX

struct word {
	const char *at;
	size_t len;
};

enum kind {
	NOTHING, /* takes no value */
	NUMBER,
	SIZE, /* a number that may end in K, M or G */
	TEXT,
	GLOBS,
	SITES,
};

struct option {
	const char *name, *alias;
	enum kind kind;
	uint32_t flags; /* enum mt_check_flags: set wherever the option stands */
	/* NUMBER, SIZE */
	void (*set)(struct mt_check_options *o, uint64_t value); /* NULL: the member has it */
	uint64_t usual; /* without a value; 0: one is required */
	uint64_t min, max;
	size_t offset, bytes; /* of the member; a number's has 4 or 8 bytes */
};

/* --- what the options set ------------------------------------------------------------------ */

static void set_front_guard(struct mt_check_options *o, uint64_t v)
{
	o->front_guard = (uint32_t)MT_ALIGN_UP(v, GUARD_ALIGN);
}

static void set_guard(struct mt_check_options *o, uint64_t v)
{
	set_front_guard(o, v);
	o->rear_guard = (uint32_t)v;
}

static void set_backtrace_size(struct mt_check_options *o, uint64_t v)
{
	o->backtrace_min = o->backtrace_max = v;
}

static void set_fill(struct mt_check_options *o, uint64_t v)
{
	o->fill_on_alloc = o->fill_on_free = v;
}

/* Zeros that were set before are taken for "not set": the order matters. */
static void set_free_track(struct mt_check_options *o, uint64_t v)
{
	o->free_track = (uint32_t)v;
	if (!o->fill_on_free)
		o->fill_on_free = ALL;
	if (!o->free_frames)
		o->free_frames = FRAMES;
}

/* --- the table ----------------------------------------------------------------------------- */

#define MEMBER(member) \
	offsetof(struct mt_check_options, member), sizeof(((struct mt_check_options *)0)->member)
#define TAKES_NOTHING(name, alias, flags) \
	{ \
		name, alias, NOTHING, flags, NULL, 0, 0, 0, 0, 0 \
	}
#define TAKES_NUMBER(name, alias, flags, member, usual, min, max) \
	{ \
		name, alias, NUMBER, flags, NULL, usual, min, max, MEMBER(member) \
	}
#define SETS_NUMBER(name, alias, flags, set, usual, min, max) \
	{ \
		name, alias, NUMBER, flags, set, usual, min, max, 0, 0 \
	}
#define TAKES_SIZE(name, member) \
	{ \
		name, NULL, SIZE, 0, NULL, 0, 1, ALL, MEMBER(member) \
	}
#define TAKES_TEXT(name, alias, kind, flags, member) \
	{ \
		name, alias, kind, flags, NULL, 0, 0, 0, MEMBER(member) \
	}

static const struct option options[] = {
	SETS_NUMBER("guard", NULL, MT_CHECK_FRONT_GUARD | MT_CHECK_REAR_GUARD | MT_CHECK_TRACK,
		    set_guard, GUARD, 1, BYTES_MAX),
	SETS_NUMBER("front_guard", NULL, MT_CHECK_FRONT_GUARD | MT_CHECK_TRACK, set_front_guard,
		    GUARD, 1, BYTES_MAX),
	TAKES_NUMBER("rear_guard", NULL, MT_CHECK_REAR_GUARD | MT_CHECK_TRACK, rear_guard, GUARD, 1,
		     BYTES_MAX),
	TAKES_NUMBER("backtrace", "bt", MT_CHECK_BACKTRACE | MT_CHECK_TRACK, frames, FRAMES, 1,
		     FRAMES_MAX),
	TAKES_NUMBER("backtrace_enable_on_signal", "bt_en_on_sig",
		     MT_CHECK_BACKTRACE_ON_SIGNAL | MT_CHECK_TRACK, frames, FRAMES, 1, FRAMES_MAX),
	SETS_NUMBER("backtrace_size", "bt_sz", 0, set_backtrace_size, 0, 1, ALL),
	TAKES_NUMBER("backtrace_min_size", "bt_min_sz", 0, backtrace_min, 0, 1, ALL),
	TAKES_NUMBER("backtrace_max_size", "bt_max_sz", 0, backtrace_max, 0, 1, ALL),
	TAKES_NOTHING("backtrace_dump_on_exit", "bt_dmp_on_ex", MT_CHECK_BACKTRACE_DUMP_ON_EXIT),
	TAKES_TEXT("backtrace_dump_prefix", "bt_dmp_pre", TEXT, 0, dump_prefix),
	TAKES_NOTHING("backtrace_full", "bt_full", MT_CHECK_BACKTRACE_FULL),
	SETS_NUMBER("fill", NULL, MT_CHECK_FILL_ON_ALLOC | MT_CHECK_FILL_ON_FREE, set_fill, ALL, 1,
		    ALL),
	TAKES_NUMBER("fill_on_alloc", NULL, MT_CHECK_FILL_ON_ALLOC, fill_on_alloc, ALL, 1, ALL),
	TAKES_NUMBER("fill_on_free", NULL, MT_CHECK_FILL_ON_FREE, fill_on_free, ALL, 1, ALL),
	TAKES_NUMBER("expand_alloc", NULL, MT_CHECK_EXPAND_ALLOC, expand, EXPAND, 1, BYTES_MAX),
	SETS_NUMBER("free_track", NULL,
		    MT_CHECK_FREE_TRACK | MT_CHECK_FILL_ON_FREE | MT_CHECK_TRACK, set_free_track,
		    FREED, 1, FREED_MAX),
	TAKES_NUMBER("free_track_backtrace_num_frames", NULL, 0, free_frames, FRAMES, 0,
		     FRAMES_MAX),
	TAKES_NOTHING("leak_track", NULL, MT_CHECK_LEAK_TRACK | MT_CHECK_TRACK),
	TAKES_NUMBER("record_allocs", NULL, MT_CHECK_RECORD_ALLOCS, record_entries, RECORDS, 1,
		     RECORDS_MAX),
	TAKES_TEXT("record_allocs_file", NULL, TEXT, 0, record_file),
	TAKES_NOTHING("record_allocs_on_exit", NULL, MT_CHECK_RECORD_ON_EXIT),
	TAKES_NOTHING("verify_pointers", NULL, MT_CHECK_TRACK),
	TAKES_NOTHING("abort_on_error", NULL, MT_CHECK_ABORT_ON_ERROR),
	TAKES_NOTHING("verbose", NULL, MT_CHECK_VERBOSE),
	TAKES_NOTHING("check_unreachable_on_signal", NULL, MT_CHECK_UNREACHABLE_ON_SIGNAL),
	TAKES_NOTHING("log_allocator_stats_on_signal", NULL, MT_CHECK_STATS_ON_SIGNAL),
	TAKES_NOTHING("log_allocator_stats_on_exit", NULL, MT_CHECK_STATS_ON_EXIT),
	/* memtrack's own */
	TAKES_NUMBER("guard_page", NULL, MT_CHECK_GUARD_PAGE | MT_CHECK_TRACK, guard_page, 1, 1,
		     UINT32_MAX),
	TAKES_TEXT("guard_page_sites", NULL, SITES, MT_CHECK_GUARD_PAGE | MT_CHECK_TRACK,
		   guard_page_sites),
	TAKES_SIZE("free_track_bytes", free_track_bytes),
	TAKES_NUMBER("check_heap_every", NULL, 0, heap_every, 0, 1, UINT32_MAX),
	TAKES_NOTHING("check_heap_on_signal", NULL, MT_CHECK_HEAP_ON_SIGNAL),
	TAKES_SIZE("only_min_size", only_min),
	TAKES_SIZE("only_max_size", only_max),
	TAKES_TEXT("only_modules", NULL, GLOBS, 0, only_modules),
	TAKES_TEXT("only_sites", NULL, SITES, 0, only_sites),
};

/* --- complaints ---------------------------------------------------------------------------- */

/* A line that is being written. */
struct line {
	char text[LINE_BYTES];
	struct mt_fmt f;
};

static void put_word(struct line *l, struct word w)
{
	size_t room = (size_t)(l->f.end - l->f.at);
	w.len = MT_MIN(w.len, room);
	mt_mem_copy(l->f.at, w.at, w.len);
	l->f.at += w.len;
	*l->f.at = 0;
}

static void begin(struct line *l, const struct mt_check_listener *to)
{
	mt_fmt_init(&l->f, l->text, sizeof(l->text));
	mt_fmt_str(&l->f, to->program);
	mt_fmt_str(&l->f, ": ");
}

static void begin_bad_value(struct line *l, const struct mt_check_listener *to, struct word name)
{
	begin(l, to);
	mt_fmt_str(&l->f, "bad value for option '");
	put_word(l, name);
	mt_fmt_str(&l->f, "'");
}

static int end(struct line *l, const struct mt_check_listener *to)
{
	to->say(to->context, l->text);
	to->say(to->context, "For malloc debug option descriptions go to:");
	to->say(to->context,
		"  https://android.googlesource.com/platform/bionic/+/main/libc/malloc_debug/"
		"README.md");
	return -MT_EINVAL;
}

static int say_unknown(const struct mt_check_listener *to, struct word name)
{
	struct line l;
	begin(&l, to);
	mt_fmt_str(&l.f, "unknown option ");
	put_word(&l, name);
	return end(&l, to);
}

static int say_takes_nothing(const struct mt_check_listener *to, struct word name)
{
	struct line l;
	begin(&l, to);
	mt_fmt_str(&l.f, "value set for option '");
	put_word(&l, name);
	mt_fmt_str(&l.f, "' which does not take a value");
	return end(&l, to);
}

/* Of a value: what is wrong with it, and the part that is meant. */
static int say_bad_value(const struct mt_check_listener *to, struct word name, const char *what,
			 struct word part)
{
	struct line l;
	begin_bad_value(&l, to, name);
	mt_fmt_str(&l.f, what);
	put_word(&l, part);
	return end(&l, to);
}

/* which: ">=" or "<=". */
static int say_bound(const struct mt_check_listener *to, struct word name, const char *which,
		     uint64_t bound, uint64_t value)
{
	struct line l;
	begin_bad_value(&l, to, name);
	mt_fmt_str(&l.f, ", value must be ");
	mt_fmt_str(&l.f, which);
	mt_fmt_str(&l.f, " ");
	mt_fmt_u64(&l.f, bound);
	mt_fmt_str(&l.f, ": ");
	mt_fmt_u64(&l.f, value);
	return end(&l, to);
}

static int say_negative(const struct mt_check_listener *to, struct word name, int64_t value)
{
	struct line l;
	begin_bad_value(&l, to, name);
	mt_fmt_str(&l.f, ", value cannot be negative: ");
	mt_fmt_i64(&l.f, value);
	return end(&l, to);
}

/* --- values -------------------------------------------------------------------------------- */

/* As strtol() in base 10 sees it. */
struct number {
	int64_t value;
	int is_out_of_range;
	struct word rest; /* behind the digits; the whole word when there are none */
};

static struct number read_number(struct word w)
{
	struct number n = {.rest = w};
	uint64_t v = 0;
	size_t i = w.len && (*w.at == '-' || *w.at == '+'), first = i;
	uint64_t most = (uint64_t)INT64_MAX + (i && *w.at == '-');
	for (; i < w.len && w.at[i] >= '0' && w.at[i] <= '9'; i++)
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(w.at[i] - '0'), &v) || v > most)
			n.is_out_of_range = 1, v = 0;
	if (i == first)
		return n;
	n.value = (int64_t)(first && *w.at == '-' ? -v : v);
	n.rest = (struct word){w.at + i, w.len - i};
	return n;
}

/* The last letter of a size. */
static void scale(struct number *n)
{
	int64_t by;
	if (n->rest.len != 1)
		return;
	by = *n->rest.at == 'K'   ? 1 << 10
	     : *n->rest.at == 'M' ? 1 << 20
	     : *n->rest.at == 'G' ? 1 << 30
				  : 0;
	if (!by)
		return;
	n->is_out_of_range |= __builtin_mul_overflow(n->value, by, &n->value);
	n->rest.len = 0;
}

/* Little-endian: a short member gets the low bytes. */
static void set_number(struct mt_check_options *o, const struct option *option, uint64_t value)
{
	if (option->set)
		option->set(o, value);
	else
		mt_mem_copy((char *)o + option->offset, &value, option->bytes);
}

static int take_number(const struct mt_check_listener *to, const struct option *option,
		       struct word name, struct word value, struct mt_check_options *o)
{
	struct number n = read_number(value);
	int has_digits = n.rest.at != value.at;
	if (!value.len && option->usual) {
		set_number(o, option, option->usual);
		return 0;
	}
	if (option->kind == SIZE && has_digits)
		scale(&n);
	if (n.is_out_of_range)
		return say_bad_value(to, name, ": ",
				     (struct word){to->range_text, mt_str_len(to->range_text)});
	if (!has_digits)
		return say_bad_value(to, name, "", (struct word){"", 0});
	if (n.rest.len)
		return say_bad_value(to, name, ", non space found after option: ", n.rest);
	if (n.value < 0)
		return say_negative(to, name, n.value);
	if ((uint64_t)n.value < option->min)
		return say_bound(to, name, ">=", option->min, (uint64_t)n.value);
	if ((uint64_t)n.value > option->max)
		return say_bound(to, name, "<=", option->max, (uint64_t)n.value);
	set_number(o, option, (uint64_t)n.value);
	return 0;
}

/* +GLOB and -GLOB, separated by commas. */
static int are_globs(struct word w)
{
	for (size_t i = 0; i < w.len; i++)
		if (!i || w.at[i - 1] == ',')
			if ((w.at[i] != '+' && w.at[i] != '-') || i + 1 == w.len ||
			    w.at[i + 1] == ',')
				return 0;
	return w.len && w.at[w.len - 1] != ',';
}

static int take_text(const struct mt_check_listener *to, const struct option *option,
		     struct word name, struct word value, struct mt_check_options *o)
{
	char *text = (char *)o + option->offset;
	if (option->kind == GLOBS && !are_globs(value))
		return say_bad_value(to, name,
				     ", not +GLOB and -GLOB separated by commas: ", value);
	if (option->kind == SITES && !mt_check_sites_are_good(value.at, value.at + value.len))
		return say_bad_value(
			to, name,
			", not MODULE+0xOFFSET or callstack hashes separated by commas: ", value);
	if (value.len >= option->bytes)
		return say_bound(to, name, "shorter than", option->bytes, value.len);
	mt_mem_copy(text, value.at, value.len);
	text[value.len] = 0;
	return 0;
}

/* --- reading ------------------------------------------------------------------------------- */

static int is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static const char *skip_blanks(const char *s)
{
	while (is_blank(*s))
		s++;
	return s;
}

/* 1, or 0 at the end. */
static int next_option(const char **text, struct word *ret_name, struct word *ret_value)
{
	const char *s = skip_blanks(*text);
	if (!*s)
		return 0;
	ret_name->at = s;
	while (*s && *s != '=' && !is_blank(*s))
		s++;
	ret_name->len = (size_t)(s - ret_name->at);
	s = skip_blanks(s);
	*ret_value = (struct word){s, 0};
	if (*s == '=') {
		s = ret_value->at = skip_blanks(s + 1);
		while (*s && !is_blank(*s))
			s++;
		ret_value->len = (size_t)(s - ret_value->at);
	}
	*text = s;
	return 1;
}

static int word_is(struct word w, const char *s)
{
	return s && mt_str_len(s) == w.len && mt_mem_equal(w.at, s, w.len);
}

static const struct option *find_option(struct word name)
{
	for (size_t i = 0; i < MT_ARRAY_LEN(options); i++)
		if (word_is(name, options[i].name) || word_is(name, options[i].alias))
			return &options[i];
	return NULL;
}

static int take(const struct mt_check_listener *to, struct word name, struct word value,
		struct mt_check_options *o)
{
	const struct option *option = find_option(name);
	if (!option)
		return say_unknown(to, name);
	o->flags |= option->flags;
	if (option->kind == NUMBER || option->kind == SIZE)
		return take_number(to, option, name, value, o);
	if (option->kind != NOTHING)
		return take_text(to, option, name, value, o);
	return value.len ? say_takes_nothing(to, name) : 0;
}

int mt_check_options_read(const char *text, const struct mt_check_listener *listener,
			  struct mt_check_options *ret_options)
{
	struct mt_check_options *o = ret_options;
	struct word name, value;
	mt_mem_zero(o, sizeof(*o));
	o->frames = FRAMES;
	o->guard_page = 1;
	o->backtrace_max = o->only_max = UINT64_MAX;
	while (next_option(&text, &name, &value))
		if (take(listener, name, value, o))
			return -MT_EINVAL;
	return 0;
}
