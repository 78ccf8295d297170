/* SPDX-License-Identifier: MIT */
/* Reads and changes the loader's list of libraries. */

#include "record/preload_list.h"

#include <errno.h>
#include <string.h>

static const char separators[] = " :\t\n";

/* The next path at or behind `at`, its length in *ret_len; NULL: none. */
static const char *next_path(const char *at, size_t *ret_len)
{
	for (;;) {
		at += strspn(at, separators);
		if (*at != '#')
			break;
		at += strcspn(at, "\n");
	}
	*ret_len = strcspn(at, " :\t\n#");
	return *ret_len ? at : NULL;
}

static bool is_path(const char *at, size_t len, const char *path)
{
	return strlen(path) == len && !strncmp(at, path, len);
}

bool mt_preload_list_has(const char *text, const char *path)
{
	size_t len;

	for (const char *at = text; (at = next_path(at, &len)); at += len)
		if (is_path(at, len, path))
			return true;
	return false;
}

int mt_preload_list_add(const char *text, const char *path, struct mt_buf *out)
{
	size_t len;
	const char *first = next_path(text, &len);
	size_t at = strlen(text);

	if (first) /* the beginning of its line */
		for (at = (size_t)(first - text); at && text[at - 1] != '\n';)
			at--;
	mt_buf_add(out, text, at);
	if (out->len && out->data[out->len - 1] != '\n')
		mt_buf_addc(out, '\n');
	mt_buf_printf(out, "%s\n", path);
	return mt_buf_adds(out, text + at);
}

static bool ends_in(const char *at, size_t len, const char *file)
{
	size_t tail = strlen(file);

	return len >= tail && !strncmp(at + len - tail, file, tail) &&
	       (len == tail || at[len - tail - 1] == '/');
}

/* A line of the list without the file's paths; nothing when it has no more to say. */
static void add_line(const char *line, size_t len, const char *file, struct mt_buf *out,
		     unsigned *count)
{
	size_t start = out->len, at = 0, removed = 0;

	while (at < len && line[at] != '#' && line[at] != '\n') {
		size_t gap = strspn(line + at, " :\t"), word;

		gap = gap > len - at ? len - at : gap;
		word = strcspn(line + at + gap, " :\t\n#");
		if (word && ends_in(line + at + gap, word, file))
			removed++;
		else
			mt_buf_add(out, line + at, gap + word);
		at += gap + word;
	}
	mt_buf_add(out, line + at, len - at);
	*count += (unsigned)removed;
	if (removed && !out->failed &&
	    strspn(mt_buf_text(out) + start, " :\t\n") == out->len - start)
		mt_buf_truncate(out, start);
}

int mt_preload_list_remove(const char *text, const char *file, struct mt_buf *out,
			   unsigned *ret_count)
{
	*ret_count = 0;
	while (*text) {
		size_t len = strcspn(text, "\n");

		len += text[len] == '\n';
		add_line(text, len, file, out, ret_count);
		text += len;
	}
	return out->failed ? -ENOMEM : 0;
}

int mt_preload_list_join(const char *text, struct mt_buf *out)
{
	size_t len;
	bool is_first = true;

	for (const char *at = text; (at = next_path(at, &len)); at += len) {
		mt_buf_adds(out, is_first ? "" : ":");
		mt_buf_add(out, at, len);
		is_first = false;
	}
	return out->failed ? -ENOMEM : 0;
}
