/* SPDX-License-Identifier: MIT */
/* Logarithm and exponential by multiplication; errors are below 1e-12. */
#include "runtime/sampler.h"

typedef unsigned __int128 u128;

enum { Q62 = 62 };
#define ONE_Q62 ((uint64_t)1 << Q62)
#define LN2_Q57 0x0162e42fefa39ef3    /* ln 2 */
#define LN100_Q60 0x49aec6eed554560bu /* ln 100 */

/* For the ith 64th of [1, 2), with its middle c: 1 / c in 1/2^63, and ln c in 1/2^62. */
static const struct {
	uint64_t inverse;
	int64_t ln;
} parts[64] = {
	{0x7f01fc07f01fc07fu, 0x007f80a9ac419e24}, {0x7d1196792909c560u, 0x017b91b07d5b11aa},
	{0x7b301ecc07b301edu, 0x0273d0f73fd7abf5}, {0x795ceb240795ceb2u, 0x03685bae232e37d8},
	{0x77975b8fe21a291cu, 0x04594dbba8deb83a}, {0x75ded952e0b0ce46u, 0x0546c1cfc1860fda},
	{0x7432d63dbb01d0cbu, 0x0630d1758c66c83e}, {0x7292cc157b864407u, 0x07179523d6f1d0c6},
	{0x70fe3c070fe3c071u, 0x07fb244c76faaeab}, {0x6f74ae26501bdd2cu, 0x08db956a97b3d014},
	{0x6df5b0f768ce2cacu, 0x09b8fe100f47ba1e}, {0x6c80d901b2036407u, 0x0a9372f1d0da1bd1},
	{0x6b15c06b15c06b16u, 0x0b6b07f38ce90e47}, {0x69b4069b4069b407u, 0x0c3fd03290648848},
	{0x685b4fe5e92c0686u, 0x0d11de0ff15ab18c}, {0x670b453b92840671u, 0x0de1433a16c66b15},
	{0x65c393e032e1c9f0u, 0x0eae10b5a7ddc8ae}, {0x6483ed274388a356u, 0x0f7856e5ee2c9b29},
	{0x634c0634c0634c06u, 0x10402594b4d040db}, {0x621b97c2aec12653u, 0x11058bf9ae4ad518},
	{0x60f25deacafb74a4u, 0x11c898c16999fafc}, {0x5fd017f405fd017fu, 0x12895a13de86a35f},
	{0x5eb4882383b30d51u, 0x1347dd9a987d54d7}, {0x5d9f7390d2a6c406u, 0x1404308686a7e3bd},
	{0x5c90a1fd1b7af017u, 0x14be5f957778a0db}, {0x5b87ddad0cdf1b2cu, 0x15767717455a6c55},
	{0x5a84f3454dca4110u, 0x162c82f2b9c7952f}, {0x5987b1a9448be406u, 0x16e08eaa2ba1e38c},
	{0x588fe9dc0588fe9eu, 0x1792a55fdd47a27c}, {0x579d6ee340579d6fu, 0x1842d1da1e8b1749},
	{0x56b015ac056b015bu, 0x18f11e873662c77e}, {0x55c7b4f141ace689u, 0x199d958117e08acb},
	{0x54e42523d03fab1cu, 0x1a484090e5bb0a2c}, {0x5405405405405405u, 0x1af1293247786b11},
	{0x532ae21c96bdb9d4u, 0x1b9858969310fb59}, {0x5254e78ecb419ba9u, 0x1c3dd7a7cdad4d73},
	{0x51832f1fd73e6870u, 0x1ce1af0b85f3eb7c}, {0x50b59897547e1bbeu, 0x1d83e7258a2f3e51},
	{0x4fec04fec04fec05u, 0x1e24881a7c6c261d}, {0x4f265691eeaf9d10u, 0x1ec399d2468cc017},
	{0x4e6470b061fd8cdcu, 0x1f6123fa7028ac62}, {0x4da637cf781d1e55u, 0x1ffd2e0857f49856},
	{0x4ceb916d5ef2c783u, 0x2097bf3b524da4cc}, {0x4c346404c346404cu, 0x2130de9eae6a4172},
	{0x4b8097012e025c05u, 0x21c8930ba39917ee}, {0x4ad012b404ad012bu, 0x225ee32b27df78a6},
	{0x4a22c04a22c04a23u, 0x22f3d577b133417f}, {0x497889c2024bc44eu, 0x2387703ee2784979},
	{0x48d159e26af37c05u, 0x2419b9a32556db26}, {0x482d1c319f03621du, 0x24aab79d31ef9678},
	{0x478bbcecfee1d10cu, 0x253a6ffd85611591}, {0x46ed29011bb4a404u, 0x25c8e86dc804d081},
	{0x46514e02328a7012u, 0x26562672243ae264}, {0x45b81a2509cde3adu, 0x26e22f6a8e8f6b8c},
	{0x45217c382b34eda3u, 0x276d0893fff8455f}, {0x448d639d74c0cda8u, 0x27f6b709a2de84b7},
	{0x43fbc043fbc043fcu, 0x287f3fc5f39ccef5}, {0x436c82a23d1a5663u, 0x2906a7a3d511bee8},
	{0x42df9bb096771e4du, 0x298cf35f99dc7363}, {0x4254fce404254fceu, 0x2a12279802d0d698},
	{0x41cc98291fdf19b4u, 0x2a9648cf33292f52}, {0x41465fdf5cd01052u, 0x2b195b6b9af31261},
	{0x40c246d47d78693cu, 0x2b9b63b8d82ec91a}, {0x4040404040404040u, 0x2c1c65e88f11b195},
};

static int64_t times_q63(int64_t a, int64_t b)
{
	return (int64_t)(((__int128)a * b) >> 63);
}

/*
 * -ln(u / 2^53), u in 1..2^53, in 1/2^57: from the middle of the part of [1, 2) in which the
 * mantissa lies it is less than 1/128 away, and five terms of ln(1 + z) are enough.
 */
static int64_t minus_ln_q57(uint64_t u)
{
	enum { ONE = 62 };
	static const int64_t third = ((int64_t)1 << ONE) / 3 * 2, fourth = (int64_t)1 << 61,
			     fifth = ((int64_t)1 << ONE) / 5 * 2, half = (int64_t)1 << 62;
	unsigned whole = 63 - (unsigned)__builtin_clzll(u);
	uint64_t m = u << (63 - whole); /* in 1/2^63 */
	unsigned part = (unsigned)(m >> 57) & 63;
	int64_t z =
		(int64_t)((uint64_t)(((u128)m * parts[part].inverse) >> 63) - ((uint64_t)1 << 63));
	int64_t inner = fourth - times_q63(z, fifth);
	inner = third - times_q63(z, inner);
	inner = half - times_q63(z, inner);
	int64_t ln_q63 = z - times_q63(z, times_q63(z, inner));
	return (int64_t)(53 - whole) * LN2_Q57 - (parts[part].ln >> 5) - (ln_q63 >> 6);
}

int64_t mt_sample_distance(uint64_t interval_bytes, uint64_t random)
{
	int64_t nats_q57 = minus_ln_q57((random >> 11) + 1);
	if (nats_q57 <= 0)
		return 1;
	u128 x = (u128)(uint64_t)nats_q57 * interval_bytes; /* below 2^63 * 2^40 */
	return (int64_t)(x >> 57) + ((uint64_t)x << 7 != 0);
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
