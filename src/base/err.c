/* SPDX-License-Identifier: MIT */
/* Error objects. No heap: an error about missing memory must always be possible. */
#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int mt_err_vset_at(struct mt_err *err, int code, uint64_t offset, const char *fmt, va_list ap)
{
	if (!err)
		return code;
	int saved = errno;
	err->code = code;
	err->offset = offset;
	if (vsnprintf(err->text, sizeof(err->text), fmt, ap) < 0)
		err->text[0] = 0;
	errno = saved;
	return code;
}

int mt_err_set(struct mt_err *err, int code, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	mt_err_vset_at(err, code, MT_ERR_NO_OFFSET, fmt, ap);
	va_end(ap);
	return code;
}

int mt_err_set_at(struct mt_err *err, int code, uint64_t offset, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	mt_err_vset_at(err, code, offset, fmt, ap);
	va_end(ap);
	return code;
}

const char *mt_err_text_of(int code)
{
	static __thread char unknown[32];
	const char *text = strerrordesc_np(code < 0 ? -code : code);
	if (text)
		return text;
	snprintf(unknown, sizeof(unknown), "error %d", code < 0 ? -code : code);
	return unknown;
}

int mt_err_set_errno(struct mt_err *err, int code, const char *fmt, ...)
{
	va_list ap;
	if (code > 0)
		code = -code;
	if (!err)
		return code;
	va_start(ap, fmt);
	mt_err_vset_at(err, code, MT_ERR_NO_OFFSET, fmt, ap);
	va_end(ap);
	size_t len = strlen(err->text);
	snprintf(err->text + len, sizeof(err->text) - len, ": %s", mt_err_text_of(code));
	return code;
}

int mt_err_no_memory(struct mt_err *err)
{
	return mt_err_set(err, -ENOMEM, "cannot allocate memory");
}

void mt_err_clear(struct mt_err *err)
{
	if (!err)
		return;
	err->code = 0;
	err->offset = MT_ERR_NO_OFFSET;
	err->text[0] = 0;
}
