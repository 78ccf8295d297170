/* SPDX-License-Identifier: MIT */
/*
 * malloc_info() in check mode with tracking: what the program holds, by size. Elsewhere the
 * allocator's own. The program's stream is written to by the C library's fputs, outside of the
 * tracker: what that allocates is the program's.
 */
#include "core/fmt.h"
#include "core/sys.h"
#include "runtime/check.h"
#include "runtime/leak_list.h"
#include "runtime/program_errno.h"
#include "runtime/provider.h"

#ifndef MT_BUILD_WRAP
typedef int info_function(int options, void *stream);
typedef int put_function(const char *text, void *stream);

MT_PUBLIC info_function malloc_info;

static int call_original(int options, void *stream)
{
	info_function *original = (info_function *)mt_provider_find("malloc_info");
	if (original)
		return original(options, stream);
	mt_errno_set(MT_ENOSYS);
	return -1;
}

static void put_number(struct mt_fmt *f, const char *before, uint64_t number, const char *after)
{
	mt_fmt_str(f, before);
	mt_fmt_u64(f, number);
	mt_fmt_str(f, after);
}

/* The program's list of sizes: 0, or -1 when the stream took it not. */
static int put_list(const struct mt_leak_list *list, put_function *put, void *stream)
{
	uint64_t same, number = 0;
	int err = put("<malloc version=\"debug-malloc-1\">", stream) < 0;
	for (uint64_t i = 0; i < list->count && !err; i += same, number++) {
		char text[160];
		struct mt_fmt f;
		same = 1;
		while (i + same < list->count && list->leak[i + same].size == list->leak[i].size)
			same++;
		mt_fmt_init(&f, text, sizeof(text));
		put_number(&f, "<allocation nr=\"", number, "\">");
		put_number(&f, "<size>", list->leak[i].size, "</size>");
		put_number(&f, "<total>", same, "</total></allocation>");
		err = put(text, stream) < 0;
	}
	return err || put("</malloc>", stream) < 0 ? -1 : 0;
}

int malloc_info(int options, void *stream)
{
	struct mt_leak_list list;
	struct mt_thread *t;
	int err = -1;
	if (!mt_check_is_on() || !(mt_check.options.flags & MT_CHECK_TRACK) ||
	    mt_enter(&t) != MT_ENTER_TRACK)
		return call_original(options, stream);
	put_function *put = (put_function *)mt_provider_find("fputs");
	int made = put && !mt_leak_list_make(/* at_exit */ 0, &list);
	mt_leave(t);
	if (made) {
		err = put_list(&list, put, stream);
		mt_leak_list_done(&list);
	}
	return err;
}
#endif
