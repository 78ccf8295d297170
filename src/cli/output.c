/* SPDX-License-Identifier: MIT */
/* Writing results. */

#include "cli/output.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "record/pattern.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Devices, pipes, and links, as /dev/stdout is one: renaming a file over them would replace the
 * thing itself.
 */
static bool is_written_in_place(const char *path)
{
	struct stat st;

	return !lstat(path, &st) && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

static int write_in_place(const struct mt_buf *text, const char *path, struct mt_err *err)
{
	mt_auto(close) int fd =
		open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0644);
	int code;

	if (fd < 0)
		return mt_err_set_errno(err, errno, "cannot open '%s'", path);
	signal(SIGPIPE, SIG_IGN);
	code = mt_file_write(fd, mt_buf_text(text), text->len);
	return code ? mt_err_set_errno(err, code, "cannot write '%s'", path) : 0;
}

int mt_output_check(const char *path, struct mt_err *err)
{
	struct stat st;

	if (!is_written_in_place(path) || (stat(path, &st) && errno == ENOENT))
		return mt_pattern_check_writable(path, err);
	if (access(path, W_OK))
		return mt_err_set_errno(err, errno, "cannot write '%s'", path);
	return 0;
}

int mt_output_write(const struct mt_buf *text, const char *path, struct mt_err *err)
{
	int code;

	if (path && strcmp(path, "-") && is_written_in_place(path))
		return write_in_place(text, path, err);
	if (path && strcmp(path, "-"))
		return mt_file_write_atomic(path, mt_buf_text(text), text->len, 0644, err);
	signal(SIGPIPE, SIG_IGN);
	code = mt_file_write(STDOUT_FILENO, mt_buf_text(text), text->len);
	if (code == -EPIPE)
		return 0;
	return code ? mt_err_set_errno(err, code, "cannot write to standard output") : 0;
}
