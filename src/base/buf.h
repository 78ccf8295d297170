/* SPDX-License-Identifier: MIT */
#ifndef MT_BASE_BUF_H
#define MT_BASE_BUF_H

/*
 * A growing text or byte buffer. All-zero is a valid empty one. data is NULL or NUL-terminated at
 * data[len]. A failed append changes nothing and is remembered in `failed`, so a writer may append
 * many times and check once. Not thread-safe.
 *
 * A buffer with `drain` keeps at most about MT_BUF_DRAIN_BYTES: when an append finds more, the
 * content is handed to drain() and gone. For writers that never look back at what they wrote.
 */

#include <stdarg.h>
#include <stdbool.h>

#include "base/cleanup.h"
#include "core/cc.h"

struct mt_buf {
	char *data; /* owned */
	size_t len, cap;
	bool failed; /* some append was lost: no memory */
	void (*drain)(void *context, const char *data, size_t len); /* NULL: keeps everything */
	void *drain_context;
};
enum { MT_BUF_DRAIN_BYTES = 1 << 20 };

/* Frees the content; the buffer is empty and usable again. NULL is allowed. */
void mt_buf_done(struct mt_buf *b);
MT_AUTO_DEFINE_INPLACE(mt_buf, struct mt_buf, mt_buf_done)

/* Appends; 0 or -ENOMEM. */
int mt_buf_add(struct mt_buf *b, const void *data, size_t len);
int mt_buf_adds(struct mt_buf *b, const char *s);
int mt_buf_addc(struct mt_buf *b, char c);
/* c, count times */
int mt_buf_pad(struct mt_buf *b, char c, size_t count);
int mt_buf_printf(struct mt_buf *b, const char *fmt, ...) MT_PRINTF(2, 3);
int mt_buf_vprintf(struct mt_buf *b, const char *fmt, va_list ap) MT_PRINTF(2, 0);

/* Room for `extra` more bytes and a NUL; 0 or -ENOMEM. */
int mt_buf_reserve(struct mt_buf *b, size_t extra);

/* Cuts to len bytes (no effect when it is shorter). mt_buf_truncate(b, 0) also clears `failed`. */
void mt_buf_truncate(struct mt_buf *b, size_t len);

/* The text, "" when empty. Borrowed; valid until the next change. */
const char *mt_buf_text(const struct mt_buf *b);

/*
 * Gives the content away: a NUL-terminated heap block that the caller frees with free(), its length
 * in *ret_len (may be NULL). NULL when something was lost or there is no memory. The buffer is
 * empty afterwards either way.
 */
char *mt_buf_steal(struct mt_buf *b, size_t *ret_len) __attribute__((warn_unused_result));

#endif
