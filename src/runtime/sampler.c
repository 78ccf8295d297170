/* SPDX-License-Identifier: MIT */
/* Logarithm and exponential by multiplication and comparison; errors are below 1e-9 of a value. */
#include "runtime/sampler.h"

typedef unsigned __int128 u128;

enum { LOG_BITS = 40, Q62 = 62 };
#define ONE_Q62 ((uint64_t)1 << Q62)
#define LN2_Q63 0x58b90bfbe8e7bcd6u   /* ln 2 */
#define LN100_Q60 0x49aec6eed554560bu /* ln 100 */

/* -log2 of u / 2^53, u in 1..2^53, in 1/2^40: the mantissa's bits by squaring it. */
static uint64_t minus_log2_q40(uint64_t u)
{
	unsigned whole = 63 - (unsigned)__builtin_clzll(u);
	uint64_t m = u << (63 - whole), fraction = 0; /* m: mantissa in [1, 2), in 1/2^63 */
	for (int i = 0; i < LOG_BITS; i++) {
		u128 square = (u128)m * m;
		unsigned above = (unsigned)(square >> 127);
		fraction = fraction << 1 | above;
		m = (uint64_t)(square >> (63 + above));
	}
	return ((uint64_t)53 << LOG_BITS) - ((uint64_t)whole << LOG_BITS) - fraction;
}

int64_t mt_sample_distance(uint64_t interval_bytes, uint64_t random)
{
	uint64_t u = (random >> 11) + 1;
	/* below 2^40 * 2^46 * 2^-40 */
	u128 nats_q63 = ((u128)minus_log2_q40(u) * LN2_Q63) >> LOG_BITS;
	u128 x = nats_q63 * interval_bytes;
	int64_t bytes = (int64_t)(x >> 63) + ((uint64_t)x << 1 != 0);
	return bytes > 0 ? bytes : 1;
}

uint64_t mt_sample_always_from(uint64_t interval_bytes)
{
	if (interval_bytes <= 1)
		return 1;
	return (uint64_t)(((u128)interval_bytes * LN100_Q60) >> 60) + 1;
}

/* (high:low) / d, the quotient below 2^64. By subtraction: no division routine is linked. */
static uint64_t divide(u128 n, uint64_t d)
{
	uint64_t rest = (uint64_t)(n >> 64), low = (uint64_t)n;
#if defined(__x86_64__)
	uint64_t quotient;
	__asm__("divq %4" : "=a"(quotient), "=d"(rest) : "0"(low), "1"(rest), "r"(d) : "cc");
	return quotient;
#else
	for (int i = 0; i < 64; i++) {
		uint64_t top = rest >> 63;
		rest = rest << 1 | low >> 63;
		low <<= 1;
		if (top || rest >= d) {
			rest -= d;
			low |= 1;
		}
	}
	return low;
#endif
}

static uint64_t times_q62(uint64_t a, uint64_t b)
{
	return (uint64_t)(((u128)a * b) >> Q62);
}

/*
 * 1 - e^-y by its series at y / 8, which is below 0.58: y (1 - y/2 (1 - y/3 (...))); then three
 * times p(2y) = p(y) (2 - p(y)), so that nothing small is taken from something large.
 */
uint64_t mt_sample_probability_q62(uint64_t interval_bytes, uint64_t size)
{
	enum { TERMS = 14, HALVINGS = 3 };
	uint64_t y = divide((u128)size << (Q62 - HALVINGS), interval_bytes); /* size / 8T */
	uint64_t inner = ONE_Q62;
	for (uint64_t n = TERMS; n >= 2; n--)
		inner = ONE_Q62 - times_q62(y, inner) / n;
	uint64_t p = times_q62(y, inner);
	for (int i = 0; i < HALVINGS; i++)
		p = times_q62(p, 2 * ONE_Q62 - p);
	return p ? p : 1;
}

static struct mt_weight whole(uint64_t size)
{
	return (struct mt_weight){.bytes_q16 = size << 16, .count_q16 = 1 << 16};
}

/* p: in 1/2^62 */
static struct mt_weight weigh(uint64_t size, uint64_t p)
{
	uint64_t missed_q32 = (ONE_Q62 - p) >> 30;
	uint64_t count = divide((u128)1 << (Q62 + 16), p);
	u128 bytes = (u128)size * count;
	if (bytes >> 63) /* every Nth of what no machine holds */
		bytes = INT64_MAX;
	struct mt_weight w = {.count_q16 = count, .bytes_q16 = (uint64_t)bytes};
	/* three factors in 1/2^16, 1/2^16 and 1/2^32 */
	w.count_variance = ((((u128)count * missed_q32) >> 32) * count) >> 32;
	w.bytes_variance = ((((u128)w.bytes_q16 * missed_q32) >> 32) * (w.bytes_q16 >> 8)) >> 24;
	return w;
}

struct mt_weight mt_sample_weight(const struct mt_state_regime *regime, uint64_t size)
{
	uint64_t interval = regime->interval_bytes;
	if (regime->kind == MT_REGIME_EVERY && regime->every > 1)
		return weigh(size, ONE_Q62 / regime->every);
	if (regime->kind != MT_REGIME_BYTES || size >= mt_sample_always_from(interval))
		return whole(size);
	struct mt_weight w =
		weigh(size ? size : 1, mt_sample_probability_q62(interval, size ? size : 1));
	if (!size) {
		w.bytes_q16 = 0;
		w.bytes_variance = 0;
	}
	return w;
}
