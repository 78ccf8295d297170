/* SPDX-License-Identifier: MIT */
#ifndef MT_FORMATS_MTK_READ_H
#define MT_FORMATS_MTK_READ_H

/*
 * Reads a state file (docs/formats/mtk.md), finished or of a process that is still running, into a
 * profile. The file may hold anything: what cannot be used is left out, and profile.warning says
 * so. Time and memory are bounded by what the file stores, not by what it claims.
 */

#include "base/err.h"
#include "core/cc.h"
#include "model/profile.h"
#include "wire/state.h"

/*
 * 0: *ret_profile is a profile that the caller frees with mt_profile_free(). Else a negative errno
 * value and *err (may be NULL): -ENOENT, -EACCES ... for a path that cannot be opened; -EISDIR,
 * -EINVAL for no regular file; -ENODATA for a file that holds nothing yet; -EBADMSG for what is no
 * state file or cut in its header; -EPROTONOSUPPORT for another version, byte order or pointer
 * size; -ENOMEM.
 */
int mt_mtk_read(const char *path, struct mt_profile **ret_profile, struct mt_err *err);

/* As above from a descriptor of a regular file (read with pread; stays open). `name` is for
 * messages. */
int mt_mtk_read_fd(int fd, const char *name, struct mt_profile **ret_profile, struct mt_err *err);

/* As above from memory, which is not kept. Never looks at this machine's clocks or processes. */
int mt_mtk_read_memory(const void *data, size_t len, const char *name,
		       struct mt_profile **ret_profile, struct mt_err *err);

/* As mt_mtk_read(), with the addresses of the blocks, and keys to compare two readings. */
int mt_mtk_read_addresses(const char *path, struct mt_profile **ret_profile, struct mt_err *err);

/*
 * The names of sites only: modules, stacks, heaps, labels and the sites, with the same numbers as
 * in the file, and the log of changes; no counters, threads or blocks. For watchers
 * (formats/mtk_watch.h) who want names for some of the sites. The rest as with mt_mtk_read().
 */
int mt_mtk_read_stacks(const char *path, struct mt_profile **ret_profile, struct mt_err *err);

/* Only the header, checked as above. Cheap: for lists of many files. */
int mt_mtk_read_header(const char *path, struct mt_state_header *ret_header, struct mt_err *err);
/* As above from a descriptor, which stays open. `name` is for messages. */
int mt_mtk_read_header_fd(int fd, const char *name, struct mt_state_header *ret_header,
			  struct mt_err *err);

/*
 * The file's string at an offset (header.output_string and others) in text, cut to cap - 1 bytes,
 * NUL added; "" when the offset is 0 or outside of the file's strings. 0 or a negative errno with
 * *err.
 */
int mt_mtk_read_string(const char *path, uint32_t offset, char *text, size_t cap,
		       struct mt_err *err);

/* Whether the process that writes the file is there now: same machine start, pid and start time. */
bool mt_mtk_process_alive(const struct mt_state_header *h);

#endif
