/* SPDX-License-Identifier: MIT */
#ifndef MT_CORE_HASH_H
#define MT_CORE_HASH_H

/* 64-bit hashes, the same on every machine and in every run; not for keys that an enemy chooses. */

#include "core/cc.h"

/* A bijective mix of 64 bits. */
MT_INLINE uint64_t mt_hash_u64(uint64_t x)
{
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93u;
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93u;
	x ^= x >> 32;
	return x;
}

/* 8 bytes, the lowest first. */
MT_INLINE uint64_t mt_hash_load(const unsigned char *p)
{
	uint64_t w;
	_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "else byte by byte");
	__builtin_memcpy(&w, p, sizeof(w));
	return w;
}

/* Hash of len bytes, begun with seed. */
MT_INLINE uint64_t mt_hash_bytes(const void *data, size_t len, uint64_t seed)
{
	const unsigned char *p = data;
	uint64_t h = mt_hash_u64(seed + len);
	for (; len >= 8; p += 8, len -= 8)
		h = mt_hash_u64(h ^ mt_hash_load(p));
	uint64_t w = 0;
	for (size_t i = len; i-- > 0;)
		w = w << 8 | p[i];
	return mt_hash_u64(h ^ w);
}

/*
 * callstack_hash: one frame more, inward. module: mt_hash_bytes() of the module's build-id, else of
 * its path (seed MT_CALLSTACK_SEED); offset: address minus load bias. The outermost frame continues
 * MT_CALLSTACK_SEED. So a stack has one hash in every run, wherever its modules were loaded.
 */
enum { MT_CALLSTACK_SEED = 0x6d74 };

MT_INLINE uint64_t mt_callstack_step(uint64_t outer, uint64_t module, uint64_t offset)
{
	uint64_t pair[2] = {module, offset};
	uint64_t h = mt_hash_bytes(pair, sizeof(pair), outer);
	return h ? h : 1;
}

#endif
