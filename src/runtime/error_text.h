/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_ERROR_TEXT_H
#define MT_RUNTIME_ERROR_TEXT_H

#include "core/cc.h"

struct mt_fmt;

/*
 * Appends what strerror() says of a system error (the C library's own may allocate): positive or
 * negative. Those that opening, writing and mapping can give; others are "Unknown error N".
 */
void mt_error_text(struct mt_fmt *f, int err);

#endif
