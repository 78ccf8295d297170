/* SPDX-License-Identifier: MIT */
/* Texts of system errors, as glibc has them in English. */
#include "runtime/error_text.h"

#include "core/fmt.h"

static const char *const texts[] = {
	[1] = "Operation not permitted",
	[2] = "No such file or directory",
	[4] = "Interrupted system call",
	[5] = "Input/output error",
	[6] = "No such device or address",
	[9] = "Bad file descriptor",
	[11] = "Resource temporarily unavailable",
	[12] = "Cannot allocate memory",
	[13] = "Permission denied",
	[14] = "Bad address",
	[16] = "Device or resource busy",
	[17] = "File exists",
	[19] = "No such device",
	[20] = "Not a directory",
	[21] = "Is a directory",
	[22] = "Invalid argument",
	[23] = "Too many open files in system",
	[24] = "Too many open files",
	[26] = "Text file busy",
	[27] = "File too large",
	[28] = "No space left on device",
	[30] = "Read-only file system",
	[32] = "Broken pipe",
	[36] = "File name too long",
	[38] = "Function not implemented",
	[40] = "Too many levels of symbolic links",
	[75] = "Value too large for defined data type",
	[95] = "Operation not supported",
	[122] = "Disk quota exceeded",
};

void mt_error_text(struct mt_fmt *f, int err)
{
	unsigned number = (unsigned)(err < 0 ? -err : err);
	if (number < MT_ARRAY_LEN(texts) && texts[number]) {
		mt_fmt_str(f, texts[number]);
		return;
	}
	mt_fmt_str(f, "Unknown error ");
	mt_fmt_u64(f, number);
}
