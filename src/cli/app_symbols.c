/* SPDX-License-Identifier: MIT */
/* Libraries inside of packages: the map line names the package, its offset tells which library. */
#include "cli/app_symbols.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/path.h"
#include "symbolize/zip.h"

/* The module becomes that part of its file. */
static int become(struct mt_profile *p, struct mt_profile_module *m,
		  const struct mt_zip_member *member)
{
	char *path = mt_arena_printf(p->arena, "%s!/%s", m->path, member->name);

	if (!path)
		return -ENOMEM;
	m->path = path;
	m->bias += member->offset;
	m->base = m->bias;
	return 0;
}

/* 0: done, or there is nothing to do in this file; -ENOENT: look on. */
static int try_file(struct mt_profile *p, struct mt_profile_module *m, const char *dir,
		    const char *name)
{
	mt_auto(mt_buf) struct mt_buf file = {0};
	struct mt_zip_member member;
	int r;

	mt_buf_printf(&file, "%s%s%s", dir, *dir && *name != '/' ? "/" : "", name);
	if (file.failed)
		return -ENOMEM;
	r = mt_zip_find(mt_buf_text(&file), m->lo - m->bias, &member);
	if (r)
		return r == -ENOMEM ? r : -ENOENT;
	r = become(p, m, &member);
	free(member.name);
	return r;
}

static int open_package(struct mt_profile *p, struct mt_profile_module *m,
			const struct mt_text_list *dirs)
{
	int r = -ENOENT;

	for (uint32_t i = 0; i < dirs->count && r == -ENOENT; i++) {
		r = try_file(p, m, dirs->text[i], m->path);
		if (r == -ENOENT)
			r = try_file(p, m, dirs->text[i], mt_path_base(m->path));
	}
	if (r == -ENOENT)
		r = try_file(p, m, "", m->path);
	return r == -ENOENT ? 0 : r;
}

static bool ends_with(const char *text, const char *end)
{
	size_t len = strlen(text), end_len = strlen(end);

	return len > end_len && !strcmp(text + len - end_len, end);
}

int mt_app_symbols_open_packages(struct mt_profile *p, const struct mt_text_list *dirs)
{
	int r = 0;

	for (uint32_t i = 1; i < p->module_count && !r; i++) {
		struct mt_profile_module *m = &p->module[i];

		if (m->by_offset && m->path[0] == '/' &&
		    (ends_with(m->path, ".apk") || ends_with(m->path, ".jar") ||
		     ends_with(m->path, ".zip")))
			r = open_package(p, m, dirs);
	}
	return r;
}
