/* SPDX-License-Identifier: MIT */
/* Writing results. */

#include "cli/output.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "cli/command.h"
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

int mt_output_check(const char *path, struct mt_err *err)
{
	struct stat st;

	if (!is_written_in_place(path) || (stat(path, &st) && errno == ENOENT))
		return mt_pattern_check_writable(path, err);
	if (access(path, W_OK))
		return mt_err_set_errno(err, errno, "cannot write '%s'", path);
	return 0;
}

static bool is_stdout(const char *path)
{
	return !path || !strcmp(path, "-");
}

/* Opens what the text goes to, at the first byte of it. */
static int open_output(struct mt_output *o)
{
	int code = 0;

	if (is_stdout(o->path)) {
		o->fd = STDOUT_FILENO;
	} else if (is_written_in_place(o->path)) {
		o->fd = open(o->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0644);
		if (o->fd < 0)
			code = mt_err_set_errno(&o->err, errno, "cannot open '%s'", o->path);
	} else {
		code = mt_atomic_file_open(&o->file, o->path, 0644, &o->err);
		o->fd = o->file.fd;
		o->is_atomic = true;
	}
	signal(SIGPIPE, SIG_IGN);
	return code;
}

/* What fails here is told by mt_output_finish(); the rest of the text is then not wanted. */
static void write_some(void *context, const char *data, size_t len)
{
	struct mt_output *o = context;
	int code;

	if (o->err.code || o->is_gone || (o->fd < 0 && open_output(o)))
		return;
	code = mt_file_write(o->fd, data, len);
	if (code == -EPIPE && is_stdout(o->path))
		o->is_gone = true;
	else if (code && is_stdout(o->path))
		mt_err_set_errno(&o->err, code, "cannot write to standard output");
	else if (code)
		mt_err_set_errno(&o->err, code, "cannot write '%s'", o->path);
}

void mt_output_init(struct mt_output *o, const char *path)
{
	*o = (struct mt_output){.path = path, .fd = -1, .file = {.fd = -1}};
	o->text.drain = write_some;
	o->text.drain_context = o;
}

void mt_output_done(struct mt_output *o)
{
	if (!o)
		return;
	mt_buf_done(&o->text);
	mt_atomic_file_close(&o->file);
	if (o->fd > STDERR_FILENO && !o->is_atomic)
		close(o->fd);
	o->fd = -1;
}

int mt_output_finish(struct mt_output *o, struct mt_err *err)
{
	write_some(o, mt_buf_text(&o->text), o->text.len);
	if (!o->err.code && o->is_atomic)
		mt_atomic_file_commit(&o->file, &o->err);
	if (o->err.code)
		*err = o->err;
	return o->err.code;
}

int mt_output_end(struct mt_output *o, int code, struct mt_err *err)
{
	if (!code)
		code = mt_output_finish(o, err);
	if (code)
		mt_complain("%s", err->text);
	return code ? MT_EXIT_FAILED : MT_EXIT_OK;
}
