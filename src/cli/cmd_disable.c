/* SPDX-License-Identifier: MIT */
/* memtrack disable: takes back what 'memtrack enable' did. */

#include "cli/commands.h"
#include "cli/enable.h"

#include "base/buf.h"
#include "record/preload_list.h"
#include "record/programs_edit.h"
#include "record/unit_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <unistd.h>

struct disable_options {
	const char *user, *unit, *config, *root;
	bool all, system_wide;
};

static const struct disable_options defaults = {0};

#define AT(member) offsetof(struct disable_options, member)

static const struct mt_option options[] = {
	{.name = "user",
	 .argument = "USER",
	 .kind = MT_OPTION_TEXT,
	 .offset = AT(user),
	 .help = "only the section of this user (name or number)"},
	{.name = "all",
	 .kind = MT_OPTION_FLAG,
	 .offset = AT(all),
	 .help = "all programs that are named"},
	{.name = "unit",
	 .argument = "NAME",
	 .kind = MT_OPTION_TEXT,
	 .offset = AT(unit),
	 .help = "remove the drop-in of a systemd service"},
	{.name = "system-wide",
	 .kind = MT_OPTION_FLAG,
	 .offset = AT(system_wide),
	 .help = "remove the tracker from /etc/ld.so.preload"},
	{.name = "config",
	 .argument = "FILE",
	 .kind = MT_OPTION_TEXT,
	 .offset = AT(config),
	 .help = "change FILE instead of " MT_PROGRAMS_PATH},
	{.name = "root",
	 .argument = "DIR",
	 .kind = MT_OPTION_TEXT,
	 .offset = AT(root),
	 .help = "change the files below DIR (an image of a system) instead of this machine's"},
	{0},
};

static int disable_programs(const struct disable_options *o, const struct mt_enable_place *p,
			    const char *name, struct mt_err *err)
{
	mt_auto(mt_conf_lock) struct mt_conf_lock lock = {.fd = -1};
	mt_auto(mt_conf_file) struct mt_conf_file file = {0};
	mt_auto(mt_buf) struct mt_buf text = {0};
	uint32_t user = 0, count = 0;
	int code = o->user ? mt_enable_user(p, o->user, &user, err) : 0;

	if (!code)
		code = mt_enable_open(p, &lock, &file, err);
	if (!code)
		code = mt_programs_disable(mt_enable_text(&file), name, o->user != NULL, user,
					   &text, &count, err);
	if (code)
		return code;
	if (!count && name)
		return mt_err_set(err, -ENOENT, "'%s' does not name '%s'", p->config, name);
	if (count)
		code = mt_conf_replace(p->config, &file, text.data, text.len, err);
	if (!code)
		printf("%" PRIu32 " %s of '%s' %s disabled\n", count,
		       count == 1 ? "section" : "sections", p->config, count == 1 ? "is" : "are");
	return code;
}

static int disable_unit(const struct mt_enable_place *p, const char *name, struct mt_err *err)
{
	mt_auto(free) char *unit = mt_unit_name(name, err);
	mt_auto(free) char *drop_in = unit ? mt_unit_drop_in(p->root, unit) : NULL;
	int code;

	if (!unit)
		return err->code;
	if (!drop_in)
		return mt_err_no_memory(err);
	if (access(drop_in, F_OK))
		return mt_err_set(err, -ENOENT, "there is no '%s'", drop_in);
	code = mt_conf_remove(drop_in, err);
	if (!code)
		printf("removed '%s'; to make it count: systemctl daemon-reload && systemctl "
		       "restart %s\n",
		       drop_in, unit);
	return code;
}

/* Removing a library is safe at any time, so nothing is tried. */
static int disable_system(const struct mt_enable_place *p, struct mt_err *err)
{
	mt_auto(mt_conf_lock) struct mt_conf_lock lock = {.fd = -1};
	mt_auto(mt_conf_file) struct mt_conf_file config = {0}, file = {0};
	mt_auto(mt_buf) struct mt_buf list = {0};
	unsigned count = 0;
	int code = mt_enable_open(p, &lock, &config, err);

	if (!code)
		code = mt_conf_read(p->loader_list, MT_ENABLE_LIST_MAX, &file, err);
	if (!code && file.text &&
	    mt_preload_list_remove(file.text, MT_ENABLE_LIBRARY, &list, &count))
		code = mt_err_no_memory(err);
	if (code)
		return code;
	if (!count) {
		printf("'%s' does not name the tracker\n", p->loader_list);
		return 0;
	}
	if (list.len)
		code = mt_conf_replace(p->loader_list, &file, list.data, list.len, err);
	else
		code = mt_conf_remove(p->loader_list, err);
	if (!code)
		printf("'%s' does not name the tracker any more\n", p->loader_list);
	return code;
}

static int run(const void *opaque, const struct mt_operands *operands)
{
	const struct disable_options *o = opaque;
	mt_auto(mt_enable_place) struct mt_enable_place place = {0};
	struct mt_err err = {0};
	int code;

	if ((operands->count && o->all) ||
	    (!operands->count && !o->all && !o->unit && !o->system_wide)) {
		mt_complain("disable: name a program, --all, --unit=NAME or --system-wide; see "
			    "'memtrack disable --help'");
		return MT_EXIT_USAGE;
	}
	code = mt_enable_place_init(&place, o->root, o->config);
	if (code)
		return code;
	/* what is in all programs goes first */
	if (o->system_wide)
		code = disable_system(&place, &err);
	if (!code && o->unit)
		code = disable_unit(&place, o->unit, &err);
	if (!code && (operands->count || o->all))
		code = disable_programs(o, &place, operands->count ? operands->text[0] : NULL,
					&err);
	if (!code)
		return MT_EXIT_OK;
	mt_complain("%s", err.text);
	return MT_EXIT_FAILED;
}

const struct mt_command mt_cmd_disable = {
	.name = "disable",
	.summary = "stop tracking programs by their names",
	.operands = "[PROGRAM]",
	.operands_max = 1,
	.options = options,
	.options_bytes = sizeof(struct disable_options),
	.defaults = &defaults,
	.description =
		"Takes back what 'memtrack enable' did: PROGRAM is disabled in " MT_PROGRAMS_PATH
		" (its section stays, for 'memtrack enable PROGRAM' to find it as it was), a "
		"drop-in of systemd is removed, the library leaves /etc/ld.so.preload. Processes "
		"that run go on as they are.",
	.see_also = "memtrack(1), memtrack-enable(1), memtrack.conf(5)",
	.run = run,
};
