/* SPDX-License-Identifier: MIT */
#ifndef MT_SYMBOLIZE_SYMCACHE_H
#define MT_SYMBOLIZE_SYMCACHE_H

/*
 * Symbols kept on disk, one file for each build-id and state of the files that they came from. A
 * cache never fails anybody: what is missing, damaged or in an unsafe directory is as if it were
 * not there.
 *
 * File, little-endian: magic "MTSYMBOL", u32 version, u32 header bytes, u64 identity, u32 entries,
 * u32 frames, u32 strings, u32 string bytes, u64 hash of the rest; then entries {u64 vaddr, u32
 * frames, u32 zero}, frames {u32 function, mangled, file, line, column, flags, u64 offset}, strings
 * with their NUL.
 */

#include "base/buf.h"
#include "symbolize/symset.h"

enum {
	MT_SYMCACHE_HEADER_BYTES = 48,
	MT_SYMCACHE_FILE_MAX = 64 << 20, /* bytes of one file */
	MT_SYMCACHE_TOTAL_MAX = 512
				<< 20, /* bytes of all; the files not used for longest go first */
};

struct mt_symcache_key {
	const uint8_t *build_id;
	uint32_t build_id_bytes; /* not 0 */
	uint64_t identity;
};

/*
 * The directory to use: `dir`, or $XDG_CACHE_HOME/memtrack, or ~/.cache/memtrack; made if need be,
 * but never the home directory.
 * NULL when there is none that only we can write to, or no memory. The caller frees with free().
 */
char *mt_symcache_dir(const char *dir) __attribute__((warn_unused_result));

/* Appends the file's bytes; `set` is sorted. 0, -ENOMEM, -EFBIG. */
int mt_symcache_encode(const struct mt_symset *set, uint64_t identity, struct mt_buf *out);

/*
 * Fills the empty *set from untrusted bytes, sorted. 0, -EBADMSG (then *set is empty), -ENOMEM. The
 * identity must be the expected one.
 */
int mt_symcache_decode(const void *data, size_t len, uint64_t identity, struct mt_symset *set);

/* Fills the empty *set. 0, -ENOENT for anything that cannot be used, -ENOMEM. Any thread. */
int mt_symcache_load(const char *dir, const struct mt_symcache_key *key, struct mt_symset *set);

/* Writes a sorted set, whole or not at all; 0 or a negative errno value. */
int mt_symcache_store(const char *dir, const struct mt_symcache_key *key,
		      const struct mt_symset *set);

/* Removes the files used least recently until at most max_bytes are left. Any thread. */
void mt_symcache_prune(const char *dir, uint64_t max_bytes);

#endif
