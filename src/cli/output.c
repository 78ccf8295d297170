/* SPDX-License-Identifier: MIT */
/* Writing results. */

#include "cli/output.h"

#include "base/file.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

int mt_output_write(const struct mt_buf *text, const char *path, struct mt_err *err)
{
	int code;

	if (path && strcmp(path, "-"))
		return mt_file_write_atomic(path, mt_buf_text(text), text->len, 0644, err);
	signal(SIGPIPE, SIG_IGN);
	code = mt_file_write(STDOUT_FILENO, mt_buf_text(text), text->len);
	if (code == -EPIPE)
		return 0;
	return code ? mt_err_set_errno(err, code, "cannot write to standard output") : 0;
}
