/* SPDX-License-Identifier: MIT */
/* memtrack_stats_get() in any mode, against what the program asked for and the allocator gave. */
#include "memtrack.h"
#include "program.h"

#include <malloc.h>

enum { BLOCKS = 1000 };

static struct memtrack_stats stats(void)
{
	struct memtrack_stats s = {.struct_bytes = sizeof(s)};
	if (!memtrack_stats_get || memtrack_stats_get(&s)) {
		say("not tracked\n");
		exit(0);
	}
	return s;
}

/* What a request for a profile by sampling comes to; the program goes on freeing meanwhile. */
static void ask_for_samples(void)
{
	struct memtrack_profile_request q = {.struct_bytes = sizeof(q),
					     .type = MEMTRACK_PROFILE_SAMPLE,
					     .duration_ms = 10,
					     .tag = "counters",
					     .directory = "."};
	struct memtrack_profile_result r = {.struct_bytes = sizeof(r)};
	memtrack_profile(&q, &r);
	say("profile %s\n", r.error == MEMTRACK_PROFILE_UNSUPPORTED
				    ? "unsupported"
				    : memtrack_profile_error_name(r.error));
}

int main(int argc, char **argv)
{
	static char *p[BLOCKS];
	size_t asked = 0, usable = 0, freed_asked = 0, freed_usable = 0;
	struct memtrack_stats a = stats();
	for (size_t i = 0; i < BLOCKS; i++) {
		p[i] = malloc(i * 7 + 1);
		asked += i * 7 + 1;
		usable += malloc_usable_size(p[i]);
	}
	struct memtrack_stats high = stats();
	if (argc > 1)
		ask_for_samples();
	for (size_t i = 0; i < BLOCKS; i += 2) {
		freed_asked += i * 7 + 1;
		freed_usable += malloc_usable_size(p[i]);
		free(p[i]);
	}
	struct memtrack_stats b = stats();
	int by_usable = high.bytes - a.bytes == usable, by_size = high.bytes - a.bytes == asked;
	say("allocs %d frees %d live %d\n", (int)(high.allocs - a.allocs),
	    (int)(b.frees - high.frees), (int)(b.live_count - a.live_count));
	say("bytes of %s, freed %s, live %s, peak %s\n",
	    by_size     ? "requests"
	    : by_usable ? "usable sizes"
			: "nothing",
	    b.freed_bytes - high.freed_bytes == (by_size ? freed_asked : freed_usable) ? "too"
										       : "not",
	    b.live_bytes - a.live_bytes == (by_size ? asked - freed_asked : usable - freed_usable)
		    ? "too"
		    : "not",
	    b.peak_bytes >= high.live_bytes && b.peak_bytes < high.live_bytes + 100000 ? "too"
										       : "not");
	return 0;
}
