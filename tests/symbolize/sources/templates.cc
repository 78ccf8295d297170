/* SPDX-License-Identifier: MIT */
/* Names with templates, namespaces and lambdas; the test knows the line numbers: keep them. */
extern "C" void *take(int n);

namespace shop
{
template <typename T, int N> struct Basket {
	T items[N];
	__attribute__((noinline)) void *fill(T value) const
	{
		return static_cast<char *>(take(N)) + static_cast<int>(value); /* line 11 */
	}
};
template struct Basket<unsigned char, 7>;
}

namespace
{
__attribute__((noinline)) void *local(const shop::Basket<long, 3> &basket)
{
	auto buy = [&](int n) __attribute__((noinline)) { return take(n); }; /* line 21 */
	return static_cast<char *>(buy(4)) + sizeof(basket);
}
}

extern "C" void *entry(const shop::Basket<long, 3> &basket)
{
	return static_cast<char *>(local(basket)) + 1;
}
