/* SPDX-License-Identifier: MIT */
#ifndef MT_FORMATS_HEAPDUMP_READ_H
#define MT_FORMATS_HEAPDUMP_READ_H

/*
 * Reads an Android Native Heap Dump (docs/formats/heapdump.md) of version 1.0 to 1.2, complete or
 * not, with or without its header, into a profile: live blocks in groups, their stacks, the modules
 * of its memory map. The text may hold anything: lines that are not understood are left out, and
 * profile.warning says how many. Memory is bounded by what the text holds.
 */

#include "base/err.h"
#include "model/profile.h"

enum { MT_HEAPDUMP_FRAMES_MAX = 256 }; /* of a stack; more are left out and counted */

/*
 * Whether text looks like a heap dump: its first line, or a record among its first bytes. len
 * bytes, no NUL needed; a few thousand are enough.
 */
bool mt_heapdump_is(const char *text, size_t len);
enum { MT_HEAPDUMP_LOOK_BYTES = 16 << 10 };

/*
 * Reads from the descriptor's present position to its end; `name` is for messages. 0: *ret_profile
 * is for mt_profile_free(). Else a negative errno value with *err: -EBADMSG when there is neither a
 * header nor a record in it, -EFBIG for more stacks than a profile can have, -ENOMEM, or that of a
 * failed read.
 */
int mt_heapdump_read_fd(int fd, const char *name, struct mt_profile **ret_profile,
			struct mt_err *err);

/* As above from memory, which is not kept. */
int mt_heapdump_read_memory(const void *data, size_t len, const char *name,
			    struct mt_profile **ret_profile, struct mt_err *err);

#endif
