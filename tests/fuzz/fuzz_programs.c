/* SPDX-License-Identifier: MIT */
/*
 * The configuration file of programs, which is read inside processes: any bytes give sections whose
 * parts lie in the text, one behind the other. What the editor makes of them says what was asked
 * for.
 */
#include "record/programs_edit.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static void must(int holds)
{
	if (!holds)
		abort();
}

static void must_be_in(struct mt_program_text part, struct mt_program_text text, size_t most)
{
	if (!part.at)
		return;
	must(part.at >= text.at && part.at + part.len <= text.at + text.len && part.len <= most);
}

static enum mt_program_verdict verdict_of(const struct mt_buf *b, const char *name)
{
	/* a user that no section can name */
	struct mt_program_process process = {.name = {{name, strlen(name)}}, .user = UINT32_MAX};
	struct mt_program_text text = {mt_buf_text(b), b->len};
	struct mt_program s;
	uint32_t problems;
	return mt_programs_find(text, &process, &s, &problems);
}

static void edit(struct mt_program_text text)
{
	const struct mt_programs_wish wish = {.name = "nginx", .options = "depth=3"};
	struct mt_buf enabled = {0}, disabled = {0};
	struct mt_err err = {0};
	uint32_t count;
	if (!mt_programs_enable(text, &wish, &enabled, &err))
		must(verdict_of(&enabled, "nginx") == MT_PROGRAM_TRACKED);
	else
		must(err.code && err.text[0]);
	if (!mt_programs_disable(text, NULL, false, 0, &disabled, &count, &err)) {
		must(verdict_of(&disabled, "nginx") != MT_PROGRAM_TRACKED);
		must(verdict_of(&disabled, "a") != MT_PROGRAM_TRACKED);
	}
	mt_buf_done(&enabled);
	mt_buf_done(&disabled);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
	static const char *const names[] = {"nginx", "a", "[", "python3.11"};
	struct mt_program_text text = {(const char *)data, size_bytes};
	struct mt_programs p = {.text = text};
	struct mt_program s;
	uint32_t problems, sections = 0, line = 0;
	size_t end = 0;
	while (mt_programs_next(&p, &s)) {
		must(s.begin >= end && s.end > s.begin && s.end <= size_bytes);
		must(!s.line || s.line > line);
		must_be_in(s.name, text, MT_PROGRAMS_NAME_MAX);
		must_be_in(s.check, text, MT_PROGRAMS_VALUE_MAX);
		must_be_in(s.options, text, MT_PROGRAMS_VALUE_MAX);
		must(s.limit <= MT_PROGRAMS_LIMIT_MAX && (s.name.len || s.problem));
		must(!s.problem || s.problem_line);
		line = s.line;
		end = s.end;
		sections++;
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct mt_program_process process = {.name = {{names[i], strlen(names[i])}},
						     .user = (uint32_t)i};
		enum mt_program_verdict v = mt_programs_find(text, &process, &s, &problems);
		must(problems <= sections);
		must(v != MT_PROGRAM_TRACKED || (!s.problem && !s.is_disabled && s.name.len));
	}
	edit(text);
	return 0;
}
