/* SPDX-License-Identifier: MIT */
/* Built twice, without build-id, into libraries of one size and layout under two names. */
int twin_value(int x);

int __attribute__((noinline)) twin_value(int x)
{
	return x + TWIN;
}
