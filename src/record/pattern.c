/* SPDX-License-Identifier: MIT */
/* Output path patterns. */

#include "record/pattern.h"

#include "base/buf.h"
#include "base/path.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int mt_pattern_check(const char *pattern, struct mt_err *err)
{
	if (!*pattern)
		return mt_err_set(err, -EINVAL, "the output path is empty");
	for (const char *at = strchr(pattern, '%'); at; at = strchr(at + 2, '%'))
		if (!at[1] || !strchr("epht%", at[1]))
			return mt_err_set(
				err, -EINVAL,
				"'%s' has an unknown conversion '%%%.1s' (known: %%e %%p %%h %%t)",
				pattern, at + 1);
	return 0;
}

bool mt_pattern_has_pid(const char *pattern)
{
	for (const char *at = strchr(pattern, '%'); at && at[1]; at = strchr(at + 2, '%'))
		if (at[1] == 'p')
			return true;
	return false;
}

static void add_program(struct mt_buf *b, const char *program)
{
	for (const char *c = *program ? program : "unknown"; *c; c++)
		mt_buf_addc(b, *c == '/' || (unsigned char)*c < ' ' ? '_' : *c);
}

static void add_time(struct mt_buf *b, uint64_t wall_ns)
{
	time_t seconds = (time_t)(wall_ns / 1000000000u);
	struct tm tm;
	char text[32] = "0";

	if (gmtime_r(&seconds, &tm))
		strftime(text, sizeof(text), "%Y%m%d-%H%M%S", &tm);
	mt_buf_adds(b, text);
}

static void add_host(struct mt_buf *b)
{
	char host[256] = "localhost";

	gethostname(host, sizeof(host) - 1);
	mt_buf_adds(b, host);
}

char *mt_pattern_expand(const char *pattern, const char *program, int pid, uint64_t wall_ns)
{
	struct mt_buf b = {0};

	for (const char *c = pattern; *c; c++) {
		if (*c != '%' || !c[1]) {
			mt_buf_addc(&b, *c);
			continue;
		}
		switch (*++c) {
		case 'e':
			add_program(&b, program);
			break;
		case 'p':
			mt_buf_printf(&b, "%d", pid);
			break;
		case 'h':
			add_host(&b);
			break;
		case 't':
			add_time(&b, wall_ns);
			break;
		case '%':
			mt_buf_addc(&b, '%');
			break;
		default:
			mt_buf_printf(&b, "%%%c", *c);
		}
	}
	return mt_buf_steal(&b, NULL);
}

char *mt_pattern_absolute(const char *pattern, struct mt_err *err)
{
	mt_auto(free) char *here = *pattern == '/' ? strdup("") : getcwd(NULL, 0);
	struct mt_buf b = {0};
	char *path;

	if (!here) {
		mt_err_set_errno(err, errno, "cannot find the current directory");
		return NULL;
	}
	for (const char *c = here; *c; c++) /* a directory may have a percent sign in its name */
		mt_buf_adds(&b, *c == '%' ? "%%" : (char[]){*c, 0});
	if (*here)
		mt_buf_addc(&b, '/');
	mt_buf_adds(&b, pattern);
	path = mt_buf_steal(&b, NULL);
	if (!path)
		mt_err_no_memory(err);
	return path;
}

char *mt_pattern_numbered(const char *path, unsigned attempt)
{
	const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	const char *dot = strrchr(base, '.');
	struct mt_buf b = {0};

	if (attempt <= 1)
		return strdup(path);
	if (!dot || dot == base)
		dot = base + strlen(base);
	mt_buf_add(&b, path, (size_t)(dot - path));
	mt_buf_printf(&b, "-%u%s", attempt, dot);
	return mt_buf_steal(&b, NULL);
}

int mt_pattern_check_writable(const char *pattern, struct mt_err *err)
{
	mt_auto(free) char *dir = mt_path_dir(pattern);
	mt_auto(free) char *plain = NULL;
	struct stat st;

	if (!dir)
		return mt_err_no_memory(err);
	if (!stat(pattern, &st) && !S_ISREG(st.st_mode))
		return mt_err_set(err, -EINVAL, "cannot write to '%s': it is no regular file",
				  pattern);
	/* a directory that depends on the process can only be judged as far as its name is known */
	plain = mt_pattern_expand(dir, "program", 1, 0);
	if (!plain)
		return mt_err_no_memory(err);
	if (strcmp(plain, dir) && (strstr(dir, "%e") || strstr(dir, "%p") || strstr(dir, "%t")))
		return 0;
	if (stat(plain, &st))
		return mt_err_set_errno(err, errno, "cannot write to the output directory '%s'",
					plain);
	if (!S_ISDIR(st.st_mode))
		return mt_err_set_errno(err, ENOTDIR, "cannot write to the output directory '%s'",
					plain);
	if (access(plain, W_OK | X_OK))
		return mt_err_set_errno(err, errno, "cannot write to the output directory '%s'",
					plain);
	return 0;
}
