/* SPDX-License-Identifier: MIT */
/* Check mode's start: the environment's wish for it, and what forbids it. */
#include "runtime/check_options.h"

#include "core/fmt.h"
#include "core/sys.h"
#include "elf/loader.h"
#include "runtime/log.h"
#include "runtime/options.h"
#include "runtime/provider.h"

static void say(void *context, const char *line)
{
	mt_log(MT_LOG_ERROR, line);
}

/* glibc's and musl's strerror(ERANGE). */
static const char *range_text(void)
{
	return mt_provider.libc == MT_LIBC_MUSL ? "Result not representable"
						: "Numerical result out of range";
}

static void set_path(char *path, const char *directory, const char *name)
{
	struct mt_fmt f;
	if (path[0])
		return;
	mt_fmt_init(&f, path, MT_CHECK_PATH_MAX);
	mt_fmt_str(&f, directory);
	mt_fmt_str(&f, "/");
	mt_fmt_str(&f, name);
}

int mt_check_read_environment(char **envp, const char *program, struct mt_check_options *o)
{
	const struct mt_check_listener listener = {program, range_text(), say, NULL};
	const char *text = mt_loader_env(envp, MT_CHECK_VARIABLE);
	uint32_t *mode = &mt_rt.options.wishes.mode;
	int is_asked_for = text && *text;
	if (!is_asked_for && *mode == MT_MODE_CHECK) {
		is_asked_for = 1;
		text = MT_CHECK_USUAL;
	}
	if (!is_asked_for)
		return 0;
	*mode = MT_MODE_CHECK;
	mt_log_begin(envp);
	int err =
		mt_provider.has_sanitizer ? -MT_EINVAL : mt_check_options_read(text, &listener, o);
	if (mt_provider.has_sanitizer)
		mt_log(MT_LOG_ERROR,
		       mt_provider.has_asan
			       ? "malloc debug cannot be enabled alongside ASAN"
			       : "malloc debug cannot be enabled alongside a sanitizer");
	if (err) {
		mt_log_end();
		return err;
	}
	return 1;
}

void mt_check_choose_paths(char **envp, const char *private, struct mt_check_options *o)
{
	char directory[MT_CHECK_PATH_MAX];
	if (!private)
		mt_options_directory(envp, directory, sizeof(directory));
	set_path(o->record_file, private ? private : directory, "record_allocs.txt");
	set_path(o->dump_prefix, private ? private : directory, "backtrace_heap");
}
