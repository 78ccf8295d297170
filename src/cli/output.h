/* SPDX-License-Identifier: MIT */
#ifndef MT_CLI_OUTPUT_H
#define MT_CLI_OUTPUT_H

/* Where a command's text goes. */

#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"

/*
 * Text on its way to a file, or to standard output when path is NULL or "-". A regular file is
 * complete or not touched at all; a device, a pipe or what a symbolic link names is written in
 * place. Long text is written while it is made. Do not move the object.
 */
struct mt_output {
	struct mt_buf text; /* append here */
	/* private */
	const char *path;
	int fd; /* -1: nothing was written yet */
	bool is_atomic, is_gone;
	struct mt_atomic_file file;
	struct mt_err err;
};

/* path is borrowed. */
void mt_output_init(struct mt_output *o, const char *path);

/*
 * Writes what is left. 0 or a negative errno value with *err, of this or of an earlier write; a
 * reader of standard output that went away is no error.
 */
int mt_output_finish(struct mt_output *o, struct mt_err *err);

/*
 * How most commands end: finishes the output, if code is 0; else *err has the reason already. The
 * exit status, after the sentence was told.
 */
int mt_output_end(struct mt_output *o, int code, struct mt_err *err);

/* Gives up what was not finished. NULL is allowed, and an object after finish(). */
void mt_output_done(struct mt_output *o);
MT_AUTO_DEFINE_INPLACE(mt_output, struct mt_output, mt_output_done)

/* Whether that can be done for `path` as far as one can know before. 0 or negative with *err. */
int mt_output_check(const char *path, struct mt_err *err);

#endif
