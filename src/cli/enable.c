/* SPDX-License-Identifier: MIT */
/* Places, users, and the list of what is enabled. */

#include "cli/enable.h"

#include "cli/command.h"

#include "base/buf.h"
#include "base/path.h"
#include "record/preload_list.h"
#include "report/grid.h"
#include "wire/check_options.h"
#include "wire/words.h"

#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>

int mt_enable_place_init(struct mt_enable_place *p, const char *root, const char *config)
{
	struct stat st;
	size_t len = root ? strlen(root) : 0;

	*p = (struct mt_enable_place){.is_here = !len};
	while (len && root[len - 1] == '/')
		len--;
	if (root && (stat(root, &st) || !S_ISDIR(st.st_mode))) {
		mt_complain("cannot use '--root=%s': it is no folder", root);
		return MT_EXIT_FAILED;
	}
	if (asprintf(&p->root, "%.*s", (int)len, root ? root : "") < 0 ||
	    asprintf(&p->config, "%s%s", config ? "" : p->root,
		     config ? config : MT_PROGRAMS_PATH) < 0 ||
	    asprintf(&p->loader_list, "%s%s", p->root, MT_ENABLE_LOADER_LIST) < 0) {
		mt_complain("cannot allocate memory");
		return MT_EXIT_FAILED;
	}
	return 0;
}

void mt_enable_place_done(struct mt_enable_place *p)
{
	free(p->root);
	free(p->config);
	free(p->loader_list);
}

int mt_enable_open(const struct mt_enable_place *p, struct mt_conf_lock *lock,
		   struct mt_conf_file *file, struct mt_err *err)
{
	mt_auto(free) char *folder = mt_path_dir(p->config);
	int code = folder ? mt_conf_lock(folder, lock, err) : mt_err_no_memory(err);

	return code ? code : mt_conf_read(p->config, MT_PROGRAMS_FILE_MAX - 1, file, err);
}

struct mt_program_text mt_enable_text(const struct mt_conf_file *file)
{
	return (struct mt_program_text){file->text ? file->text : "", file->len};
}

/* The image may have other users than we. */
static int find_user(const char *passwd, const char *user, uint32_t *ret_user)
{
	mt_auto(fclose) FILE *f = fopen(passwd, "re");
	struct passwd *entry;

	while (f && (entry = fgetpwent(f)))
		if (!strcmp(entry->pw_name, user)) {
			*ret_user = entry->pw_uid;
			return 0;
		}
	return -ENOENT;
}

int mt_enable_user(const struct mt_enable_place *p, const char *user, uint32_t *ret_user,
		   struct mt_err *err)
{
	mt_auto(free) char *passwd = NULL;
	const struct passwd *entry = p->is_here ? getpwnam(user) : NULL;
	char *end;
	unsigned long number;

	if (entry) {
		*ret_user = entry->pw_uid;
		return 0;
	}
	if (asprintf(&passwd, "%s/etc/passwd", p->root) < 0) {
		passwd = NULL;
		return mt_err_no_memory(err);
	}
	if (!find_user(passwd, user, ret_user))
		return 0;
	errno = 0;
	number = strtoul(user, &end, 10);
	if (errno || *end || user[0] < '0' || user[0] > '9' || number >= UINT32_MAX)
		return mt_err_set(err, -EINVAL, "there is no user '%s'", user);
	*ret_user = (uint32_t)number;
	return 0;
}

char *mt_enable_system_library(const struct mt_enable_place *p)
{
	mt_auto(mt_conf_file) struct mt_conf_file file = {0};
	mt_auto(mt_buf) struct mt_buf paths = {0};
	const char *last = "/" MT_ENABLE_LIBRARY;
	char *rest, *path;

	if (mt_conf_read(p->loader_list, MT_ENABLE_LIST_MAX, &file, NULL) || !file.text ||
	    mt_preload_list_join(file.text, &paths) || !paths.data)
		return NULL;
	for (rest = paths.data; (path = strsep(&rest, ":"));) {
		const char *slash = strrchr(path, '/');

		if (slash && !strcmp(slash, last))
			return strdup(path);
	}
	return NULL;
}

/* ---- the list ---- */

static void keep_first(void *context, const char *line)
{
	struct mt_buf *first = context;

	if (!first->len)
		mt_buf_adds(first, line);
}

static char *copy_of(struct mt_program_text t)
{
	return strndup(t.at ? t.at : "", t.len);
}

/* Why the tracker would leave a program of this section alone; "" when it would not. */
static void find_fault(const struct mt_program *s, struct mt_buf *why)
{
	mt_auto(free) char *check = copy_of(s->check), *options = copy_of(s->options);
	mt_auto(mt_buf) struct mt_buf line = {0};
	struct mt_check_listener listener = {.program = "check",
					     .range_text = "number out of range",
					     .say = keep_first,
					     .context = &line};
	struct mt_check_options parsed;
	char word[128];

	if (s->problem)
		mt_buf_printf(why, "ignored: line %" PRIu32 ": %s", s->problem_line, s->problem);
	else if (options && mt_words_check(options, word, sizeof(word)))
		mt_buf_printf(why, "ignored: cannot understand '%s'", word);
	else if (check && *check && mt_check_options_read(check, &listener, &parsed))
		mt_buf_printf(why, "ignored: %s", mt_buf_text(&line));
}

static void add_row(struct mt_grid *g, const struct mt_program *s)
{
	mt_auto(free) char *name = copy_of(s->name);
	mt_auto(mt_buf) struct mt_buf why = {0}, text = {0};

	find_fault(s, &why);
	mt_grid_addf(g, "%" PRIu32, s->line);
	mt_grid_add(g, name && *name ? name : "?");
	mt_grid_add(g, s->is_disabled ? "off" : why.len ? mt_buf_text(&why) : "on");
	if (s->has_user)
		mt_grid_addf(g, "%" PRIu32, s->user);
	else
		mt_grid_add(g, "all");
	if (s->limit)
		mt_grid_addf(g, "%" PRIu32, s->limit);
	else
		mt_grid_add(g, "-");
	if (s->check.at)
		mt_buf_printf(&text, "check: %.*s", (int)s->check.len, s->check.at);
	if (s->options.at)
		mt_buf_printf(&text, "%s%.*s", text.len ? "; " : "", (int)s->options.len,
			      s->options.at);
	if (s->is_secure)
		mt_buf_printf(&text, "%ssecure", text.len ? "; " : "");
	mt_grid_add(g, text.len ? mt_buf_text(&text) : "mode=full");
}

static void tell_loaded(const struct mt_enable_place *p)
{
	mt_auto(free) char *library = mt_enable_system_library(p);

	if (library)
		printf("every program loads '%s' ('%s')\n", library, p->loader_list);
	else
		printf("'%s' does not name the tracker: it is loaded where LD_PRELOAD says so\n",
		       p->loader_list);
}

int mt_enable_list(const struct mt_enable_place *p)
{
	static const char *const heads[] = {"line", "program", "state", "user", "limit", "options"};
	mt_auto(mt_conf_file) struct mt_conf_file file = {0};
	mt_auto(mt_grid) struct mt_grid g = {0};
	mt_auto(mt_buf) struct mt_buf out = {0};
	struct mt_programs all;
	struct mt_program s;
	struct mt_err err = {0};
	size_t count = 0;

	if (mt_conf_read(p->config, MT_PROGRAMS_FILE_MAX - 1, &file, &err)) {
		mt_complain("%s", err.text);
		return MT_EXIT_FAILED;
	}
	mt_grid_init(&g, "rllrrl");
	for (size_t i = 0; i < MT_ARRAY_LEN(heads); i++)
		mt_grid_add(&g, heads[i]);
	all = (struct mt_programs){.text = mt_enable_text(&file)};
	for (; mt_programs_next(&all, &s); count++)
		add_row(&g, &s);
	if (mt_grid_write(&g, 0, &out)) {
		mt_complain("cannot allocate memory");
		return MT_EXIT_FAILED;
	}
	if (count)
		fputs(mt_buf_text(&out), stdout);
	else
		printf("'%s' names no program\n", p->config);
	tell_loaded(p);
	if (file.text && ((file.mode & 022) || (file.owner && p->is_here))) {
		mt_complain("the tracker does not read '%s': %s", p->config,
			    file.mode & 022 ? "others may write to it"
					    : "it does not belong to root");
		return MT_EXIT_FAILED;
	}
	return MT_EXIT_OK;
}
