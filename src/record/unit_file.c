/* SPDX-License-Identifier: MIT */
/* Names, places and lines of systemd units, as far as a drop-in for variables needs them. */

#include "record/unit_file.h"

#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define OUR_DROP_IN "memtrack.conf"
enum { UNIT_FILE_MAX = 1 << 20, NAME_MAX_BYTES = 200 };

static const char *const folders[] = {"/etc/systemd/system", "/run/systemd/system",
				      "/usr/local/lib/systemd/system", "/usr/lib/systemd/system",
				      "/lib/systemd/system"};

char *mt_unit_name(const char *name, struct mt_err *err)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789:_.\\@-";
	static const char suffix[] = ".service";
	size_t len = strlen(name);
	bool has_suffix = len > strlen(suffix) && !strcmp(name + len - strlen(suffix), suffix);
	char *unit;

	if (!len || len > NAME_MAX_BYTES || name[0] == '.' || strspn(name, letters) != len) {
		mt_err_set(err, -EINVAL, "'%s' is no name of a unit", name);
		return NULL;
	}
	if (!has_suffix && strchr(name, '.') &&
	    (strstr(name, ".socket") || strstr(name, ".timer") || strstr(name, ".target"))) {
		mt_err_set(err, -EINVAL, "'%s' is no service", name);
		return NULL;
	}
	if (asprintf(&unit, "%s%s", name, has_suffix ? "" : suffix) < 0) {
		mt_err_no_memory(err);
		return NULL;
	}
	return unit;
}

char *mt_unit_drop_in(const char *root, const char *unit)
{
	char *path;

	return asprintf(&path, "%s%s/%s.d/" OUR_DROP_IN, root, folders[0], unit) < 0 ? NULL : path;
}

/* The next assignment of an Environment= line, unquoted into word. NULL at the end. */
static const char *next_assignment(const char *at, struct mt_buf *word)
{
	char quote = 0;

	mt_buf_truncate(word, 0);
	at += strspn(at, " \t");
	if (!*at)
		return NULL;
	for (; *at && (quote || !strchr(" \t", *at)); at++) {
		if (*at == quote)
			quote = 0;
		else if (!quote && (*at == '"' || *at == '\''))
			quote = *at;
		else if (*at == '%' && at[1] == '%')
			mt_buf_addc(word, *++at);
		else if (*at == '\\' && at[1])
			mt_buf_addc(word, *++at);
		else
			mt_buf_addc(word, *at);
	}
	return at;
}

static void read_line(char *line, struct mt_buf *value)
{
	static const char key[] = "Environment=", variable[] = "LD_PRELOAD=";
	mt_auto(mt_buf) struct mt_buf word = {0};
	const char *at;

	line += strspn(line, " \t");
	if (strncmp(line, key, strlen(key)))
		return;
	for (at = line + strlen(key); (at = next_assignment(at, &word));)
		if (!strncmp(mt_buf_text(&word), variable, strlen(variable))) {
			mt_buf_truncate(value, 0);
			mt_buf_adds(value, mt_buf_text(&word) + strlen(variable));
		}
}

/* The last value that the file gives; value stays when it gives none. */
static bool read_file(const char *path, struct mt_buf *value)
{
	mt_auto(free) char *text = NULL;
	char *rest, *line;
	size_t len;

	if (mt_file_read(path, UNIT_FILE_MAX, &text, &len, NULL))
		return false;
	for (rest = text; (line = strsep(&rest, "\n"));)
		read_line(line, value);
	return true;
}

static int is_other_drop_in(const struct dirent *entry)
{
	size_t len = strlen(entry->d_name);

	return len > 5 && !strcmp(entry->d_name + len - 5, ".conf") &&
	       strcmp(entry->d_name, OUR_DROP_IN) != 0;
}

static void read_drop_ins(const char *folder, struct mt_buf *value)
{
	struct dirent **entry = NULL;
	int count = scandir(folder, &entry, is_other_drop_in, alphasort);

	for (int i = 0; i < count; i++) {
		mt_auto(free) char *path = NULL;

		if (asprintf(&path, "%s/%s", folder, entry[i]->d_name) < 0)
			path = NULL;
		if (path)
			read_file(path, value);
		free(entry[i]);
	}
	free(entry);
}

int mt_unit_preload(const char *root, const char *unit, struct mt_buf *out)
{
	mt_auto(mt_buf) struct mt_buf value = {0};
	bool is_found = false;

	for (size_t i = 0; i < MT_ARRAY_LEN(folders) && !is_found; i++) {
		mt_auto(free) char *path = NULL;

		if (asprintf(&path, "%s%s/%s", root, folders[i], unit) < 0)
			return -ENOMEM;
		is_found = read_file(path, &value);
	}
	for (size_t i = MT_ARRAY_LEN(folders); i-- > 0;) {
		mt_auto(free) char *path = NULL;

		if (asprintf(&path, "%s%s/%s.d", root, folders[i], unit) < 0)
			return -ENOMEM;
		read_drop_ins(path, &value);
	}
	return value.failed ? -ENOMEM : mt_buf_adds(out, mt_buf_text(&value));
}

int mt_unit_add_variable(struct mt_buf *out, const char *name, const char *value)
{
	mt_buf_printf(out, "Environment=\"%s=", name);
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			mt_buf_addc(out, '\\');
		if (*value == '%')
			mt_buf_addc(out, '%');
		mt_buf_addc(out, *value);
	}
	return mt_buf_adds(out, "\"\n");
}
