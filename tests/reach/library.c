/* SPDX-License-Identifier: MIT */
/* A library that keeps a pointer. */

static void *volatile data;
static __thread void *volatile local __attribute__((tls_model("global-dynamic")));

void keep_in_data(void *p);
void keep_in_thread_local(void *p);

void keep_in_data(void *p)
{
	data = p;
}

void keep_in_thread_local(void *p)
{
	local = p;
}
