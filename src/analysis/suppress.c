/* SPDX-License-Identifier: MIT */
/*
 * Suppressions. Both kinds become one shape: a list of frame patterns. A LeakSanitizer line is one
 * pattern that may match any frame; a Valgrind entry is a sequence that starts at the innermost
 * frame and in which "..." stands for any number of frames.
 */
#include "analysis/suppress.h"

#include "analysis/names.h"
#include "base/alloc.h"
#include "base/arena.h"
#include "base/file.h"
#include "model/profile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	FILE_MAX = 16 << 20,
	RULES_MAX = 100000,
	PATTERNS_MAX = 500, /* of one Valgrind entry */
	PATTERN_BYTES_MAX = 4096,
	STACK_MAX = 4096,
};

/* Errors by their number in the state file. */
enum {
	ERROR_FIRST = 1,
	ERROR_LAST = 8,
	OF_LEAKS = 1,
	OF_ERRORS = (2 << ERROR_LAST) - 2,
	OF_FREES = 1 << 4 | 1 << 5 | 1 << 7,
	OF_ACCESSES = OF_ERRORS & ~OF_FREES,
};

enum part { PART_ANY, PART_FUNCTION, PART_MODULE, PART_SOURCE, PART_ELLIPSIS };

struct pattern {
	enum part part;
	const char *glob;    /* '*' any text; '?' any byte if question_mark */
	const char *literal; /* not NULL: glob is this text, without wildcards, between two '*' */
	bool question_mark;
	uint32_t line; /* PART_SOURCE; 0: any */
};

struct rule {
	struct mt_suppress_rule shown;
	uint32_t kinds;   /* bit 0: leaks; the others: errors of this kind */
	bool is_sequence; /* Valgrind: from the innermost frame; else one pattern for any frame */
	bool never;       /* match-leak-kinds: none */
	struct pattern *pattern;
	size_t patterns;
};

struct mt_suppressions {
	struct mt_arena *arena;
	struct rule *rule; /* owned array */
	size_t rules, rule_cap;
	uint32_t skipped;
};

struct mt_suppressions *mt_suppressions_new(void)
{
	struct mt_suppressions *s = mt_alloc_zero(1, sizeof(*s));
	if (s && !(s->arena = mt_arena_new())) {
		free(s);
		return NULL;
	}
	return s;
}

void mt_suppressions_free(struct mt_suppressions *s)
{
	if (!s)
		return;
	mt_arena_free(s->arena);
	free(s->rule);
	free(s);
}

/* ---- reading ---- */

struct line {
	const char *text; /* without blanks at both ends */
	size_t len;
};

struct reader {
	struct mt_suppressions *s;
	const char *name; /* in the arena */
	const char *begin, *at, *end;
	const char *line_start;
	uint32_t line;
	struct mt_err *err;
	struct pattern *pattern; /* owned: those of the entry that is being read */
	size_t patterns, pattern_cap;
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* The next line that is not empty and no comment; false at the end. */
static bool next_line(struct reader *r, struct line *ret_line)
{
	while (r->at < r->end) {
		const char *from = r->at;
		const char *to = memchr(from, '\n', (size_t)(r->end - from));
		r->line_start = from;
		r->line++;
		r->at = to ? to + 1 : r->end;
		if (!to)
			to = r->end;
		while (from < to && is_blank(*from))
			from++;
		while (to > from && is_blank(to[-1]))
			to--;
		if (from == to || *from == '#')
			continue;
		*ret_line = (struct line){.text = from, .len = (size_t)(to - from)};
		return true;
	}
	return false;
}

static int bad_line(struct reader *r, const struct line *line, const char *expected)
{
	enum { SHOWN_MAX = 60 };
	char shown[SHOWN_MAX + 1];
	size_t len = MT_MIN(line->len, (size_t)SHOWN_MAX);
	for (size_t i = 0; i < len; i++)
		shown[i] = line->text[i] >= ' ' && line->text[i] < 127 ? line->text[i] : '?';
	shown[len] = '\0';
	return mt_err_set_at(r->err, -EBADMSG, (uint64_t)(r->line_start - r->begin),
			     "cannot read suppressions '%s:%u': expected %s, found '%s'", r->name,
			     r->line, expected, shown);
}

/* What follows `word` in the line, without blanks before it; false when it does not begin with it.
 */
static bool after(const struct line *line, const char *word, struct line *ret_rest)
{
	size_t len = strlen(word);
	if (line->len < len || memcmp(line->text, word, len))
		return false;
	struct line rest = {.text = line->text + len, .len = line->len - len};
	while (rest.len && is_blank(*rest.text)) {
		rest.text++;
		rest.len--;
	}
	*ret_rest = rest;
	return true;
}

static bool is_text(const struct line *line)
{
	return line->len && line->len <= PATTERN_BYTES_MAX && !memchr(line->text, '\0', line->len);
}

static int add_pattern(struct reader *r, struct pattern pattern)
{
	struct pattern *grown =
		mt_alloc_grow(r->pattern, &r->pattern_cap, r->patterns + 1, sizeof(*grown));
	if (!grown)
		return mt_err_no_memory(r->err);
	r->pattern = grown;
	grown[r->patterns++] = pattern;
	return 0;
}

/* Makes a rule of the patterns collected so far. */
static int add_rule(struct reader *r, const struct line *text, uint32_t line_number,
		    struct rule rule)
{
	struct mt_suppressions *s = r->s;
	struct rule *grown = mt_alloc_grow(s->rule, &s->rule_cap, s->rules + 1, sizeof(*grown));
	if (!grown)
		return mt_err_no_memory(r->err);
	s->rule = grown;
	rule.shown.text = mt_arena_strndup(s->arena, text->text, text->len);
	rule.shown.file = r->name;
	rule.shown.line = line_number;
	rule.patterns = r->patterns;
	rule.pattern = mt_arena_array(s->arena, r->patterns, sizeof(*rule.pattern));
	if (!rule.shown.text || !rule.pattern)
		return mt_err_no_memory(r->err);
	if (r->patterns)
		memcpy(rule.pattern, r->pattern, r->patterns * sizeof(*rule.pattern));
	r->patterns = 0;
	grown[s->rules++] = rule;
	return 0;
}

/* "KIND:PATTERN" as a glob over the whole text: '*' is added where no anchor stands. */
static int read_pattern_line(struct reader *r, const struct line *line, uint32_t kinds,
			     struct line pattern)
{
	if (!is_text(&pattern))
		return bad_line(r, line,
				kinds == OF_LEAKS
					? "a pattern of 1 to 4096 characters after 'leak:'"
					: "a pattern of 1 to 4096 characters after the colon");
	const char *before = "*", *behind = "*";
	struct line p = pattern;
	if (*p.text == '^') {
		before = "";
		p.text++;
		p.len--;
	}
	if (p.len && p.text[p.len - 1] == '$') {
		behind = "";
		p.len--;
	}
	if (!p.len)
		return bad_line(r, line,
				kinds == OF_LEAKS ? "more than anchors after 'leak:'"
						  : "more than anchors after the colon");
	char *glob = mt_arena_printf(r->s->arena, "%s%.*s%s", before, (int)p.len, p.text, behind);
	if (!glob)
		return mt_err_no_memory(r->err);
	const char *literal = NULL;
	if (*before && *behind && !memchr(p.text, '*', p.len)) {
		literal = mt_arena_strndup(r->s->arena, p.text, p.len);
		if (!literal)
			return mt_err_no_memory(r->err);
	}
	int e = add_pattern(r,
			    (struct pattern){.part = PART_ANY, .glob = glob, .literal = literal});
	return e ? e : add_rule(r, line, r->line, (struct rule){.kinds = kinds});
}

/* The kinds that the word in front of the colon names, and what stands behind it; 0: none. */
static uint32_t pattern_kinds(const struct line *line, struct line *ret_pattern)
{
	if (after(line, "leak:", ret_pattern))
		return OF_LEAKS;
	if (after(line, "error:", ret_pattern))
		return OF_ERRORS;
	for (uint32_t kind = ERROR_FIRST; kind <= ERROR_LAST; kind++) {
		const char *key = mt_words_error_key(kind);
		struct line rest;

		if (after(line, key, &rest) && after(&rest, ":", ret_pattern))
			return 1u << kind;
	}
	return 0;
}

/* "FILE" or "FILE:LINE" */
static void split_source(char *glob, struct pattern *pattern)
{
	char *colon = strrchr(glob, ':');
	char *end;
	if (!colon || colon[1] < '0' || colon[1] > '9')
		return;
	unsigned long number = strtoul(colon + 1, &end, 10);
	if (*end || number > UINT32_MAX)
		return;
	*colon = '\0';
	pattern->line = (uint32_t)number;
}

static int read_frame_line(struct reader *r, const struct line *line, bool *never)
{
	struct line rest;
	struct pattern pattern = {.question_mark = true};
	if (line->len == 3 && !memcmp(line->text, "...", 3)) {
		pattern.part = PART_ELLIPSIS;
		return add_pattern(r, pattern);
	}
	if (after(line, "match-leak-kinds:", &rest)) {
		*never = rest.len == 4 && !memcmp(rest.text, "none", 4);
		return 0;
	}
	if (after(line, "fun:", &rest))
		pattern.part = PART_FUNCTION;
	else if (after(line, "obj:", &rest))
		pattern.part = PART_MODULE;
	else if (after(line, "src:", &rest))
		pattern.part = PART_SOURCE;
	else
		return bad_line(r, line, "'fun:', 'obj:', 'src:', '...' or '}'");
	if (!is_text(&rest))
		return bad_line(r, line, "a pattern of 1 to 4096 characters");
	char *glob = mt_arena_strndup(r->s->arena, rest.text, rest.len);
	if (!glob)
		return mt_err_no_memory(r->err);
	if (pattern.part == PART_SOURCE)
		split_source(glob, &pattern);
	pattern.glob = glob;
	return add_pattern(r, pattern);
}

/* What Memcheck calls so, as kinds of ours; 0: nothing. */
static uint32_t memcheck_kinds(const char *kind, size_t len)
{
	static const struct {
		const char *name;
		uint32_t kinds;
	} known[] = {
		{"Leak", OF_LEAKS},      {"Free", OF_FREES},      {"Addr1", OF_ACCESSES},
		{"Addr2", OF_ACCESSES},  {"Addr4", OF_ACCESSES},  {"Addr8", OF_ACCESSES},
		{"Addr16", OF_ACCESSES}, {"Addr32", OF_ACCESSES},
	};
	for (size_t i = 0; i < MT_ARRAY_LEN(known); i++)
		if (strlen(known[i].name) == len && !memcmp(kind, known[i].name, len))
			return known[i].kinds;
	return 0;
}

/* "Tool,Tool:Kind": the kinds, when Memcheck is among the tools; else 0. False in *ret_valid when
 * there is no colon. */
static uint32_t entry_kinds(const struct line *line, bool *ret_valid)
{
	static const char tool[] = "Memcheck";
	const char *colon = memchr(line->text, ':', line->len);
	*ret_valid = colon && colon > line->text;
	if (!*ret_valid)
		return 0;
	const char *end = line->text + line->len;
	uint32_t kinds = memcheck_kinds(colon + 1, (size_t)(end - colon - 1));
	for (const char *name = line->text; name < colon;) {
		const char *comma = memchr(name, ',', (size_t)(colon - name));
		const char *stop = comma ? comma : colon;
		if ((size_t)(stop - name) == strlen(tool) && !memcmp(name, tool, strlen(tool)))
			return kinds;
		name = stop + 1;
	}
	return 0;
}

static int entry_not_closed(struct reader *r, uint32_t start)
{
	return mt_err_set_at(r->err, -EBADMSG, (uint64_t)(r->end - r->begin),
			     "cannot read suppressions '%s:%u': the entry has no '}'", r->name,
			     start);
}

static bool is_brace(const struct line *line, char brace)
{
	return line->len == 1 && *line->text == brace;
}

static int read_frames(struct reader *r, const struct line *name, uint32_t start, uint32_t kinds)
{
	struct line line;
	bool never = false;
	while (next_line(r, &line)) {
		if (is_brace(&line, '{'))
			return bad_line(r, &line, "'}'");
		if (is_brace(&line, '}')) {
			if (!kinds) {
				r->s->skipped++;
				return 0;
			}
			if (!r->patterns)
				return bad_line(r, &line, "a frame before the end of the entry");
			return add_rule(
				r, name, start,
				(struct rule){.kinds = kinds, .is_sequence = true, .never = never});
		}
		if (!kinds) /* other kinds have lines of their own */
			continue;
		if (r->patterns >= PATTERNS_MAX)
			return bad_line(r, &line, "at most 500 frames");
		int e = read_frame_line(r, &line, &never);
		if (e)
			return e;
	}
	return entry_not_closed(r, start);
}

/* Behind the '{': a name, the kind, frames, '}'. */
static int read_entry(struct reader *r)
{
	const uint32_t start = r->line;
	struct line name, kind;
	bool valid;
	if (!next_line(r, &name))
		return entry_not_closed(r, start);
	if (is_brace(&name, '}') || !is_text(&name))
		return bad_line(r, &name, "a name for the entry");
	if (!next_line(r, &kind))
		return entry_not_closed(r, start);
	uint32_t kinds = entry_kinds(&kind, &valid);
	if (!valid)
		return bad_line(r, &kind, "'Memcheck:Leak' or another 'TOOL:KIND'");
	return read_frames(r, &name, start, kinds);
}

static int read_lines(struct reader *r)
{
	struct line line, pattern;
	uint32_t kinds;
	int e = 0;
	while (!e && next_line(r, &line)) {
		r->patterns = 0;
		if (r->s->rules >= RULES_MAX)
			e = bad_line(r, &line, "at most 100000 suppressions");
		else if (is_brace(&line, '{'))
			e = read_entry(r);
		else if ((kinds = pattern_kinds(&line, &pattern)))
			e = read_pattern_line(r, &line, kinds, pattern);
		else
			e = bad_line(r, &line,
				     "'leak:PATTERN', 'error:PATTERN' or a Valgrind entry in '{' "
				     "and '}'");
	}
	return e;
}

int mt_suppressions_read(struct mt_suppressions *s, const char *name, const char *text, size_t len,
			 struct mt_err *err)
{
	const size_t rules = s->rules;
	const uint32_t skipped = s->skipped;
	struct reader r = {.s = s, .begin = text, .at = text, .end = text + len, .err = err};
	r.name = mt_arena_strdup(s->arena, name);
	int e = r.name ? read_lines(&r) : mt_err_no_memory(err);
	free(r.pattern);
	if (e) {
		s->rules = rules;
		s->skipped = skipped;
	}
	return e;
}

int mt_suppressions_read_file(struct mt_suppressions *s, const char *path, struct mt_err *err)
{
	mt_auto(free) char *text = NULL;
	size_t len;
	int e = mt_file_read(path, FILE_MAX, &text, &len, err);
	return e ? e : mt_suppressions_read(s, path, text, len, err);
}

/* ---- matching ---- */

/* Only the last '*' needs to be tried again: time is at most the product of the lengths. */
static bool glob_matches(const struct pattern *pattern, const char *text)
{
	const char *p = pattern->glob, *star = NULL, *retry = NULL;
	if (!text)
		return false;
	if (pattern->literal)
		return strstr(text, pattern->literal) != NULL;
	while (*text) {
		if (*p == '*') {
			star = p++;
			retry = text;
		} else if (*p && (*p == *text || (*p == '?' && pattern->question_mark))) {
			p++;
			text++;
		} else if (star) {
			p = star + 1;
			text = ++retry;
		} else {
			return false;
		}
	}
	while (*p == '*')
		p++;
	return !*p;
}

static const char *base_of(const char *path)
{
	return path ? mt_names_base(path) : NULL;
}

static bool frame_matches(const struct pattern *p, const struct mt_suppress_frame *f)
{
	switch (p->part) {
	case PART_ANY:
		return glob_matches(p, f->function) || glob_matches(p, f->mangled) ||
		       glob_matches(p, f->file) || glob_matches(p, f->module);
	case PART_FUNCTION:
		return glob_matches(p, f->mangled) || glob_matches(p, f->function);
	case PART_MODULE:
		return glob_matches(p, f->module);
	case PART_SOURCE:
		return (!p->line || p->line == f->line) &&
		       (glob_matches(p, f->file) || glob_matches(p, base_of(f->file)));
	case PART_ELLIPSIS:
		break;
	}
	return false;
}

static const struct mt_suppress_frame *skip_inlined(const struct mt_suppress_frame *f,
						    const struct mt_suppress_frame *end,
						    bool with_inlined)
{
	while (!with_inlined && f < end && f->is_inlined)
		f++;
	return f;
}

/* As a glob over frames: "..." is '*', and the rest of the stack is free. */
static bool sequence_matches(const struct rule *rule, const struct mt_suppress_frame *f,
			     const struct mt_suppress_frame *end, bool with_inlined)
{
	const struct pattern *p = rule->pattern, *last = p + rule->patterns;
	const struct pattern *ellipsis = NULL;
	const struct mt_suppress_frame *retry = NULL;
	for (;;) {
		f = skip_inlined(f, end, with_inlined);
		if (p == last)
			return true;
		if (p->part == PART_ELLIPSIS) {
			ellipsis = p++;
			retry = f;
		} else if (f < end && frame_matches(p, f)) {
			p++;
			f++;
		} else if (ellipsis && retry < end) {
			p = ellipsis + 1;
			f = retry = skip_inlined(retry + 1, end, with_inlined);
		} else {
			return false;
		}
	}
}

/* Frames of one stack, and behind them those of others, for patterns alone. */
struct frames {
	const struct mt_suppress_frame *frame;
	size_t first_count, count;
};

static bool rule_matches(const struct rule *rule, const struct frames *f)
{
	const struct mt_suppress_frame *end = f->frame + f->first_count;

	if (rule->never)
		return false;
	if (rule->is_sequence)
		return sequence_matches(rule, f->frame, end, true) ||
		       sequence_matches(rule, f->frame, end, false);
	for (size_t i = 0; i < f->count; i++)
		if (frame_matches(rule->pattern, &f->frame[i]))
			return true;
	return false;
}

static uint32_t match_kind(const struct mt_suppressions *s, uint32_t kinds, const struct frames *f)
{
	for (size_t i = 0; i < s->rules; i++)
		if ((s->rule[i].kinds & kinds) && rule_matches(&s->rule[i], f))
			return (uint32_t)i + 1;
	return 0;
}

uint32_t mt_suppressions_match(const struct mt_suppressions *s,
			       const struct mt_suppress_frame *frame, size_t count)
{
	return match_kind(s, OF_LEAKS, &(struct frames){frame, count, count});
}

/* ---- a site's stack ---- */

struct stack {
	struct mt_suppress_frame *frame; /* owned */
	size_t count, cap;
};

static int push(struct stack *stack, struct mt_suppress_frame frame)
{
	struct mt_suppress_frame *grown =
		mt_alloc_grow(stack->frame, &stack->cap, stack->count + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	stack->frame = grown;
	grown[stack->count++] = frame;
	return 0;
}

enum { CALL_FREE = 12 };

/* The allocation function is not in the recorded stack; suppressions expect it to be the first
 * frame. */
static int push_call(struct stack *stack, uint32_t call)
{
	static const struct mt_suppress_frame frames[] = {
		[1] = {.function = "malloc"},
		[2] = {.function = "calloc"},
		[3] = {.function = "realloc"},
		[4] = {.function = "memalign", .mangled = "posix_memalign"},
		[5] = {.function = "operator new(unsigned long)", .mangled = "_Znwm"},
		[6] = {.function = "operator new[](unsigned long)", .mangled = "_Znam"},
		[7] = {.function = "mmap"},
		[8] = {.function = "mremap"},
		[9] = {.function = "sbrk"},
		[11] = {.function = "malloc"},
		[CALL_FREE] = {.function = "free"},
		[13] = {.function = "operator delete(void*)", .mangled = "_ZdlPv"},
		[14] = {.function = "operator delete[](void*)", .mangled = "_ZdaPv"},
		[15] = {.function = "malloc_usable_size"},
	};
	enum { CALL_STRDUP = 11 };
	if (call >= MT_ARRAY_LEN(frames) || !frames[call].function)
		return 0;
	int e = push(stack, frames[call]);
	if (!e && call == CALL_STRDUP)
		e = push(stack, (struct mt_suppress_frame){.function = "strdup"});
	return e;
}

static int push_node(struct stack *stack, const struct mt_profile *p, uint32_t node,
		     const struct mt_names *names)
{
	struct mt_name name[MT_NAMES_MAX];
	const char *module = p->module[p->node[node].module].path;
	uint32_t count = mt_names_frames(names, p, node, name, MT_NAMES_MAX);
	int e = 0;
	if (!*module)
		module = NULL;
	if (!count)
		return push(stack, (struct mt_suppress_frame){.module = module});
	for (uint32_t i = 0; i < count && !e; i++)
		e = push(stack, (struct mt_suppress_frame){
					.function = name[i].function,
					.mangled = name[i].mangled,
					.file = name[i].file,
					.module = module,
					.line = name[i].line,
					.is_inlined = name[i].is_inlined,
				});
	return e;
}

/* A function and the stack from which it was called. */
static int push_stack(struct stack *stack, const struct mt_profile *p, uint32_t call,
		      uint32_t innermost, const struct mt_names *names)
{
	mt_auto(free) uint32_t *node = mt_alloc(STACK_MAX * sizeof(*node));
	if (!node)
		return -ENOMEM;
	uint32_t count = mt_profile_stack(p, innermost, node, STACK_MAX);
	int e = push_call(stack, call);
	for (uint32_t i = 0; i < count && !e; i++)
		e = push_node(stack, p, node[i], names);
	return e;
}

int mt_suppressions_match_error(const struct mt_suppressions *s, const struct mt_profile *p,
				const struct mt_profile_error *error, const struct mt_names *names,
				uint32_t *ret_rule)
{
	struct stack stack = {0};
	uint32_t kinds = 1u << error->kind, call = error->call;
	/* guarded samples do not say with which function an address was freed */
	if (!call && (kinds & OF_FREES))
		call = CALL_FREE;
	bool by_free = !error->use.node && error->free.node;
	int e = by_free ? push_stack(&stack, p, CALL_FREE, error->free.node, names)
			: push_stack(&stack, p, call, error->use.node, names);
	size_t first_count = stack.count;
	if (!e && error->alloc.node)
		e = push_stack(&stack, p, error->alloc_call, error->alloc.node, names);
	if (!e && error->free.node)
		e = push_stack(&stack, p, CALL_FREE, error->free.node, names);
	if (!e)
		*ret_rule = match_kind(s, kinds,
				       &(struct frames){stack.frame, first_count, stack.count});
	free(stack.frame);
	return e;
}

int mt_suppressions_match_site(const struct mt_suppressions *s, const struct mt_profile *p,
			       uint32_t site, const struct mt_names *names, uint32_t *ret_rule)
{
	struct stack stack = {0};
	int e = push_stack(&stack, p, p->site[site].call, p->site[site].node, names);
	if (!e)
		*ret_rule = mt_suppressions_match(s, stack.frame, stack.count);
	free(stack.frame);
	return e;
}

/* ---- the report's view ---- */

void mt_suppressions_add_hit(struct mt_suppressions *s, uint32_t rule, uint64_t count,
			     uint64_t bytes)
{
	if (!rule || rule > s->rules)
		return;
	struct mt_suppress_rule *shown = &s->rule[rule - 1].shown;
	shown->sites++;
	shown->count += count;
	shown->bytes += bytes;
}

uint32_t mt_suppressions_count(const struct mt_suppressions *s)
{
	return (uint32_t)s->rules;
}

const struct mt_suppress_rule *mt_suppressions_rule(const struct mt_suppressions *s, uint32_t index)
{
	return &s->rule[index].shown;
}

uint32_t mt_suppressions_skipped(const struct mt_suppressions *s)
{
	return s->skipped;
}
