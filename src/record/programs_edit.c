/* SPDX-License-Identifier: MIT */
/* Edits sections line by line: a line whose key is to change is written anew, all others as they
 * are. */

#include "record/programs_edit.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char new_file[] =
	"# Programs that memtrack tracks wherever they are started; see memtrack.conf(5).\n\n";

/* What a key is to be; value NULL: its line goes. */
struct change {
	const char *key;
	const char *value;
	bool is_done;
};

static struct mt_program_text text_of(const char *s)
{
	return (struct mt_program_text){s, strlen(s)};
}

static bool is_same(struct mt_program_text a, struct mt_program_text b)
{
	return a.len == b.len && (!a.len || !memcmp(a.at, b.at, a.len));
}

static struct change *find_change(struct change *changes, struct mt_program_text key)
{
	for (struct change *c = changes; c->key; c++)
		if (is_same(text_of(c->key), key))
			return c;
	return NULL;
}

static void add_part(struct mt_buf *out, struct mt_program_text text, size_t begin, size_t end)
{
	mt_buf_add(out, text.at + begin, end - begin);
}

static void add_missing(struct mt_buf *out, struct change *changes)
{
	if (out->len && out->data[out->len - 1] != '\n')
		mt_buf_addc(out, '\n');
	for (struct change *c = changes; c->key; c++) {
		if (c->value && !c->is_done)
			mt_buf_printf(out, "%s = %s\n", c->key, c->value);
		c->is_done = true;
	}
}

/* Where the last line of the section that says something ends. */
static size_t end_of_words(struct mt_program_text text, const struct mt_program *s)
{
	struct mt_program_line line;
	size_t end = s->begin;

	for (size_t at = s->begin; at < s->end; at = line.end) {
		mt_program_line(text, at, &line);
		if (line.kind != MT_PROGRAM_LINE_BLANK && line.kind != MT_PROGRAM_LINE_COMMENT)
			end = line.end;
	}
	return end;
}

/* The section with its changes; new keys behind its last one. */
static void rewrite(struct mt_program_text text, const struct mt_program *s, struct change *changes,
		    struct mt_buf *out)
{
	size_t words_end = end_of_words(text, s);
	struct mt_program_line line;

	for (size_t at = s->begin; at < s->end; at = line.end) {
		struct change *c = NULL;

		mt_program_line(text, at, &line);
		if (line.kind == MT_PROGRAM_LINE_KEY)
			c = find_change(changes, line.name);
		if (!c)
			add_part(out, text, line.begin, line.end);
		else if (c->value && !c->is_done)
			mt_buf_printf(out, "%s = %s\n", c->key, c->value);
		if (c)
			c->is_done = true;
		if (line.end == words_end)
			add_missing(out, changes);
	}
}

static bool is_for(const struct mt_program *s, const char *name, bool has_user, uint32_t user)
{
	return is_same(s->name, text_of(name)) && s->has_user == has_user &&
	       (!has_user || s->user == user);
}

/* Would the section, standing before, take away what the wish is about? */
static bool shadows(const struct mt_program *s, const struct mt_programs_wish *w)
{
	return mt_program_fits(s->name, text_of(w->name)) &&
	       (s->problem || !s->has_user || (w->has_user && s->user == w->user));
}

/* A section begins with the comment lines right above its header. */
static size_t begin_with_comment(struct mt_program_text text, size_t header)
{
	struct mt_program_line line;
	size_t begin = header;
	bool is_comment_before = false;

	for (size_t at = 0; at < header; at = line.end) {
		mt_program_line(text, at, &line);
		if (line.kind != MT_PROGRAM_LINE_COMMENT)
			begin = header;
		else if (!is_comment_before)
			begin = at;
		is_comment_before = line.kind == MT_PROGRAM_LINE_COMMENT;
	}
	return begin;
}

static void add_new(struct mt_program_text text, size_t at, const char *name,
		    struct change *changes, struct mt_buf *out)
{
	add_part(out, text, 0, at);
	if (!text.len)
		mt_buf_adds(out, new_file);
	if (out->len && out->data[out->len - 1] != '\n')
		mt_buf_addc(out, '\n');
	if (text.len && at == text.len)
		mt_buf_addc(out, '\n');
	mt_buf_printf(out, "[%s]\n", name);
	add_missing(out, changes);
	if (at < text.len)
		mt_buf_addc(out, '\n');
	add_part(out, text, at, text.len);
}

static int check_result(const struct mt_buf *out, size_t before, struct mt_err *err)
{
	if (out->failed)
		return mt_err_no_memory(err);
	if (out->len - before >= MT_PROGRAMS_FILE_MAX)
		return mt_err_set(err, -EINVAL,
				  "the file would have more than 64 KiB, and would not be read");
	return 0;
}

/* The section as it will be read back; *err says why it would not be understood. */
static int check_section(struct mt_program_text text, const struct mt_programs_wish *w,
			 struct mt_err *err)
{
	struct mt_programs all = {.text = text};
	struct mt_program s;

	while (mt_programs_next(&all, &s)) {
		if (!is_for(&s, w->name, w->has_user, w->user))
			continue;
		if (!s.problem)
			return 0;
		return mt_err_set(err, -EINVAL, "cannot write section '%s': %s", w->name,
				  s.problem);
	}
	return mt_err_set(err, -EINVAL, "'%s' cannot be the name of a section", w->name);
}

/* A name or value that would become another line or be cut. */
static int check_texts(const struct mt_programs_wish *w, struct mt_err *err)
{
	const char *const texts[] = {w->name, w->check, w->options};

	for (size_t i = 0; i < MT_ARRAY_LEN(texts); i++)
		for (const char *c = texts[i]; c && *c; c++)
			if ((uint8_t)*c < ' ' || *c == 0x7f)
				return mt_err_set(err, -EINVAL, "'%s' has a byte that is no text",
						  texts[i]);
	return 0;
}

int mt_programs_enable(struct mt_program_text text, const struct mt_programs_wish *wish,
		       struct mt_buf *out, struct mt_err *err)
{
	char user[16], limit[16];
	struct change changes[8] = {{.key = NULL}};
	struct mt_programs all = {.text = text};
	struct mt_program s;
	size_t n = 0, before = out->len, insert_at = text.len;
	bool is_there = false;
	int code = check_texts(wish, err);

	snprintf(user, sizeof(user), "%" PRIu32, wish->user);
	snprintf(limit, sizeof(limit), "%" PRIu32, wish->limit);
	if (wish->check || wish->options) {
		changes[n++] = (struct change){.key = "check", .value = wish->check};
		changes[n++] = (struct change){.key = "options", .value = wish->options};
	}
	if (wish->has_user)
		changes[n++] = (struct change){.key = "user", .value = user};
	if (wish->has_limit)
		changes[n++] = (struct change){.key = "limit", .value = wish->limit ? limit : NULL};
	if (wish->is_secure)
		changes[n++] = (struct change){.key = "secure", .value = "yes"};
	changes[n++] = (struct change){.key = "enabled", .value = NULL};
	while (!code && !is_there && mt_programs_next(&all, &s)) {
		is_there = is_for(&s, wish->name, wish->has_user, wish->user);
		if (!is_there && insert_at == text.len && shadows(&s, wish))
			insert_at = begin_with_comment(text, s.begin);
	}
	if (code)
		return code;
	if (is_there && s.problem)
		return mt_err_set(err, -EINVAL,
				  "section '%s' has a mistake in line %" PRIu32
				  " (%s): correct it first",
				  wish->name, s.problem_line, s.problem);
	if (is_there && insert_at < s.begin)
		return mt_err_set(err, -EINVAL,
				  "section '%s' in line %" PRIu32
				  " stands behind another one that takes its programs: move it "
				  "in front",
				  wish->name, s.line);
	if (is_there) {
		add_part(out, text, 0, s.begin);
		rewrite(text, &s, changes, out);
		add_part(out, text, s.end, text.len);
	} else {
		add_new(text, insert_at, wish->name, changes, out);
	}
	code = check_result(out, before, err);
	if (!code)
		code = check_section(
			(struct mt_program_text){out->data + before, out->len - before}, wish, err);
	return code;
}

int mt_programs_disable(struct mt_program_text text, const char *name, bool has_user, uint32_t user,
			struct mt_buf *out, uint32_t *ret_count, struct mt_err *err)
{
	struct mt_programs all = {.text = text};
	struct mt_program s;
	size_t before = out->len, copied = 0;

	*ret_count = 0;
	while (mt_programs_next(&all, &s)) {
		struct change changes[] = {{.key = "enabled", .value = "no"}, {.key = NULL}};

		if (!s.name.len || (name && !is_same(s.name, text_of(name))) ||
		    (has_user && (!s.has_user || s.user != user)))
			continue;
		++*ret_count;
		add_part(out, text, copied, s.begin);
		rewrite(text, &s, changes, out);
		copied = s.end;
	}
	add_part(out, text, copied, text.len);
	return check_result(out, before, err);
}
