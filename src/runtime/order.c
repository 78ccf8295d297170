/* SPDX-License-Identifier: MIT */
/*
 * AddressSanitizer's shared library ends a program in which another library stands before it
 * ("ASan runtime does not come first in initial library list"). Nothing is wrong with that order
 * here: our hooks go on to its functions. So it is told what it wants to hear: in a list of modules
 * it comes first and we come second. Everybody else gets the loader's own list, with no frame of
 * ours in between.
 */
#include "runtime/provider.h"

#ifndef MT_BUILD_WRAP

#include <link.h>

extern const ElfW(Ehdr) __ehdr_start MT_HIDDEN;

/* One walk over the list. */
struct walk {
	mt_phdr_callback *callback;
	void *data;
	struct dl_phdr_info ours;
	size_t ours_bytes; /* > 0: ours waits for the next one to go first */
};

static int let_pass(struct walk *w)
{
	size_t bytes = w->ours_bytes;
	w->ours_bytes = 0;
	return bytes ? w->callback(&w->ours, bytes, w->data) : 0;
}

static int one_module(struct dl_phdr_info *info, size_t bytes, void *opaque)
{
	struct walk *w = opaque;
	if (info->dlpi_phdr == (const void *)((const char *)&__ehdr_start + __ehdr_start.e_phoff) &&
	    bytes <= sizeof(w->ours)) {
		w->ours = *info;
		w->ours_bytes = bytes;
		return 0;
	}
	int stop = w->callback(info, bytes, w->data);
	return stop ? stop : let_pass(w);
}

static int swapped(mt_phdr_callback *callback, void *data)
{
	struct walk w = {.callback = callback, .data = data};
	int stop = mt_system.dl_iterate_phdr(one_module, &w);
	return stop ? stop : let_pass(&w);
}

/* Absent only in a static program, which has no use for us either. */
MT_PUBLIC int dl_iterate_phdr(mt_phdr_callback *callback, void *data)
{
	if (MT_UNLIKELY(!mt_system.dl_iterate_phdr) &&
	    (mt_provider_resolve() || !mt_system.dl_iterate_phdr))
		return 0;
	if (MT_UNLIKELY(mt_provider.asan_follows))
		return swapped(callback, data);
	return mt_system.dl_iterate_phdr(callback, data);
}
#endif
