/* SPDX-License-Identifier: MIT */
/* Reader of the configuration file of programs: lines, sections, the section of a process. */
#include "wire/programs.h"

#include "core/fmt.h"
#include "core/mem.h"

static int is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static struct mt_program_text trim(const char *at, size_t len)
{
	while (len && is_blank(*at))
		at++, len--;
	while (len && is_blank(at[len - 1]))
		len--;
	return (struct mt_program_text){at, len};
}

static int text_is(struct mt_program_text t, const char *word)
{
	return mt_str_len(word) == t.len && mt_mem_equal(t.at, word, t.len);
}

/* Bytes that have no business in such a file. */
static int has_control(struct mt_program_text t)
{
	for (size_t i = 0; i < t.len; i++)
		if (((uint8_t)t.at[i] < 0x20 && t.at[i] != '\t') || t.at[i] == 0x7f)
			return 1;
	return 0;
}

static const char *read_header(struct mt_program_text t, struct mt_program_line *line)
{
	if (t.at[t.len - 1] != ']')
		return "a section header ends with ]";
	line->name = trim(t.at + 1, t.len - 2);
	if (!line->name.len)
		return "a section needs a program's name";
	if (line->name.len > MT_PROGRAMS_NAME_MAX)
		return "a name has 255 bytes at most";
	for (size_t i = 0; i < line->name.len; i++)
		if (line->name.at[i] == '/')
			return "a name has no folder: programs are known by the last part of their "
			       "path";
	return NULL;
}

static const char *read_key(struct mt_program_text t, struct mt_program_line *line)
{
	size_t n = 0;
	while (n < t.len && t.at[n] != '=')
		n++;
	if (n == t.len)
		return "neither a [section] nor key = value";
	line->name = trim(t.at, n);
	line->value = trim(t.at + n + 1, t.len - n - 1);
	if (!line->name.len)
		return "a value without a key";
	if (line->value.len > MT_PROGRAMS_VALUE_MAX)
		return "a value has 1000 bytes at most";
	return NULL;
}

void mt_program_line(struct mt_program_text text, size_t at, struct mt_program_line *ret_line)
{
	struct mt_program_line line = {.begin = at};
	size_t n = at;
	while (n < text.len && text.at[n] != '\n')
		n++;
	struct mt_program_text t = trim(text.at + at, n - at);
	line.end = n + (n < text.len);
	if (!t.len) {
		line.kind = MT_PROGRAM_LINE_BLANK;
	} else if (*t.at == '#' || *t.at == ';') {
		line.kind = MT_PROGRAM_LINE_COMMENT;
	} else {
		line.kind = *t.at == '[' ? MT_PROGRAM_LINE_HEADER : MT_PROGRAM_LINE_KEY;
		line.problem = has_control(t) ? "a byte that is no text"
			       : *t.at == '[' ? read_header(t, &line)
					      : read_key(t, &line);
		/* a header with a problem still begins a section, which then has no name */
		if (line.problem && line.kind == MT_PROGRAM_LINE_KEY)
			line.kind = MT_PROGRAM_LINE_WRONG;
		if (line.problem)
			line.name = line.value = (struct mt_program_text){NULL, 0};
	}
	*ret_line = line;
}

static const char *set_flag(struct mt_program_text value, uint8_t yes, uint8_t *ret_flag)
{
	int is_yes = text_is(value, "yes");
	if (!is_yes && !text_is(value, "no"))
		return "the value is yes or no";
	*ret_flag = is_yes ? yes : !yes;
	return NULL;
}

static const char *set_number(struct mt_program_text value, uint64_t most, const char *problem,
			      uint32_t *ret_number)
{
	char copy[12];
	const char *s = copy;
	uint64_t v;
	if (!value.len || value.len >= sizeof(copy))
		return problem;
	mt_mem_copy(copy, value.at, value.len);
	copy[value.len] = 0;
	if (mt_fmt_parse_u64(&s, &v) || *s || v > most)
		return problem;
	*ret_number = (uint32_t)v;
	return NULL;
}

enum key { KEY_CHECK, KEY_OPTIONS, KEY_USER, KEY_LIMIT, KEY_ENABLED, KEY_SECURE, KEYS };
static const char *const key_names[KEYS] = {"check", "options", "user",
					    "limit", "enabled", "secure"};

/* seen: bits of the keys that this section has had. */
static const char *set_key(struct mt_program *s, const struct mt_program_line *line, uint32_t *seen)
{
	uint32_t key = 0;
	while (key < KEYS && !text_is(line->name, key_names[key]))
		key++;
	if (key == KEYS)
		return "an unknown key";
	if (*seen >> key & 1)
		return "a key that this section has already";
	*seen |= 1u << key;
	switch (key) {
	case KEY_CHECK:
		s->check = line->value;
		return NULL;
	case KEY_OPTIONS:
		s->options = line->value;
		return NULL;
	case KEY_USER:
		s->has_user = 1;
		return set_number(line->value, UINT32_MAX - 1,
				  "a user is a number here, as 'id -u NAME' prints it", &s->user);
	case KEY_LIMIT:
		return set_number(line->value, MT_PROGRAMS_LIMIT_MAX,
				  "a limit is a number from 0 (none) to 1000", &s->limit);
	case KEY_ENABLED:
		return set_flag(line->value, 0, &s->is_disabled);
	default:
		return set_flag(line->value, 1, &s->is_secure);
	}
}

static void note_problem(struct mt_program *s, const char *problem, uint32_t line)
{
	if (!problem || s->problem)
		return;
	s->problem = problem;
	s->problem_line = line;
}

int mt_programs_next(struct mt_programs *p, struct mt_program *ret_section)
{
	struct mt_program s = {.begin = p->at};
	struct mt_program_line line;
	uint32_t seen = 0;
	int has_header = 0, says_something = 0;
	while (p->at < p->text.len) {
		mt_program_line(p->text, p->at, &line);
		if (line.kind == MT_PROGRAM_LINE_HEADER) {
			if (has_header || says_something)
				break;
			has_header = 1;
			s.begin = p->at;
			s.name = line.name;
			s.line = p->line + 1;
		}
		p->at = line.end;
		p->line++;
		note_problem(&s, line.problem, p->line);
		if (line.kind == MT_PROGRAM_LINE_KEY || line.kind == MT_PROGRAM_LINE_WRONG) {
			says_something = 1;
			if (!has_header)
				note_problem(&s, "a line before the first [section]", p->line);
			else if (line.kind == MT_PROGRAM_LINE_KEY)
				note_problem(&s, set_key(&s, &line, &seen), p->line);
		}
	}
	s.end = p->at;
	*ret_section = s;
	return has_header || says_something;
}

int mt_program_fits(struct mt_program_text pattern, struct mt_program_text name)
{
	size_t p = 0, n = 0, star = SIZE_MAX, again = 0;
	if (!pattern.len || !name.len || pattern.len > MT_PROGRAMS_NAME_MAX ||
	    name.len > MT_PROGRAMS_NAME_MAX)
		return 0;
	while (n < name.len) {
		if (p < pattern.len && pattern.at[p] == '*') {
			star = ++p;
			again = n;
		} else if (p < pattern.len &&
			   (pattern.at[p] == '?' || pattern.at[p] == name.at[n])) {
			p++, n++;
		} else if (star != SIZE_MAX) {
			p = star;
			n = ++again;
		} else {
			return 0;
		}
	}
	while (p < pattern.len && pattern.at[p] == '*')
		p++;
	return p == pattern.len;
}

static int is_named(const struct mt_program *s, const struct mt_program_process *process)
{
	for (uint32_t i = 0; i < MT_PROGRAMS_NAMES; i++)
		if (mt_program_fits(s->name, process->name[i]))
			return 1;
	return 0;
}

enum mt_program_verdict mt_programs_find(struct mt_program_text text,
					 const struct mt_program_process *process,
					 struct mt_program *ret_section, uint32_t *ret_problems)
{
	struct mt_programs all = {.text = text};
	struct mt_program s;
	*ret_problems = 0;
	while (mt_programs_next(&all, &s)) {
		/* of a section with a problem only its name is trusted: for this program, nothing
		 */
		if (is_named(&s, process) &&
		    (s.problem || !s.has_user || s.user == process->user)) {
			*ret_section = s;
			return s.problem || s.is_disabled || (process->is_secure && !s.is_secure)
				       ? MT_PROGRAM_OFF
				       : MT_PROGRAM_TRACKED;
		}
		*ret_problems += s.problem != NULL;
	}
	return MT_PROGRAM_UNKNOWN;
}

struct mt_program_text mt_program_base(const char *path)
{
	static const char deleted[] = " (deleted)";
	const char *base = path;
	size_t len, tail = sizeof(deleted) - 1;
	for (const char *c = path; *c; c++)
		if (*c == '/')
			base = c + 1;
	len = mt_str_len(base);
	if (len > tail && mt_mem_equal(base + len - tail, deleted, tail))
		len -= tail;
	return (struct mt_program_text){base, len};
}
