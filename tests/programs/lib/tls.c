/* SPDX-License-Identifier: MIT */
/* A library whose thread-local data is found by __tls_get_addr, which allocates at a thread's first
 * use. */
#include <stdlib.h>

static __thread char large[5000];
static __thread int count;

int tls_touch(int value);
int tls_touch(int value)
{
	large[value % 5000] = (char)value;
	return ++count + large[value % 5000];
}
