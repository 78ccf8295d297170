/* SPDX-License-Identifier: MIT */
/*
 * What the program's own exit handlers and destructors free is no leak, so ours has to be the last.
 * With glibc that is a handler which was registered first and belongs to no library; musl runs all
 * handlers before all destructors, and the preloaded library's destructor last of these.
 */
#include "runtime/last.h"

#include "runtime/check_exit.h"
#include "runtime/look.h"
#include "runtime/provider.h"

static int is_registered; /* 1: the C library calls us after the destructors */

static void finish(void)
{
	mt_check_exit();
	mt_look_at_exit();
}

#ifndef MT_BUILD_WRAP
static void last(void *nothing)
{
	finish();
}

void mt_last_begin(void)
{
	typedef int function(void (*)(void *), void *, void *);
	/* a sanitizer that is not ready yet does not bear the call */
	if (mt_provider.libc != MT_LIBC_GLIBC || mt_provider.has_sanitizer)
		return;
	function *at_exit = (function *)mt_provider_find("__cxa_atexit");
	is_registered = at_exit && !at_exit(last, NULL, NULL);
}
#else
void mt_last_begin(void)
{
}
#endif

void mt_last_destructor(void)
{
	if (!is_registered)
		finish();
}
